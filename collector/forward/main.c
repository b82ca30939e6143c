/* procfleet-forward: what a durable subscription brings, on to other systems. */
#include "collector/forward/otlp_sender.h"
#include "collector/forward/run_service.h"
#include "common/conf/opt_program.h"
#include "common/log/log.h"

#define PROGRAM "procfleet-forward"

static const struct opt_set settings[] = {{"KEY=VALUE", forward_conf_setting}, {NULL, NULL}};

static const struct opt otlp_options[] = {
    {"config", 'c', "FILE", "YAML file with the settings; see config-sample", false},
    {"set", 's', "KEY=VALUE", "one setting, over the file's", true},
};

static enum err run_otlp(const struct opt_args *args, struct errmsg *why);

static const struct opt_command otlp = {
    .program = PROGRAM,
    .name = "otlp",
    .brief = "send events as logs, and metrics of programs and hosts, by OTLP over HTTP",
    .opts = otlp_options,
    .n_opts = sizeof otlp_options / sizeof *otlp_options,
    .sets = settings,
    .examples =
        "  procfleet-forward otlp --config /etc/procfleet/forward.yaml\n"
        "  procfleet-forward otlp --set otlp.url=http://127.0.0.1:4318 --set state_dir=/tmp/fwd "
        "\\\n"
        "      --set collector.address=collector.example --set tls.ca=/tmp/tls/ca.pem \\\n"
        "      --set tls.cert=/tmp/tls/otel.pem --set tls.key=/tmp/tls/otel.key\n"
        "\n"
        "It runs until it is told to stop, and goes on where it was. A certificate of role\n"
        "subscribe: procfleet-collector pki issue --role subscribe --name otel. A record that\n"
        "comes again after a kill has the same log.record.uid; a point that does is the same.\n",
    .action = &(const struct opt_action){.run = run_otlp, .shows_settings = true},
};

static const struct opt_command config_sample = OPT_CONFIG_SAMPLE(PROGRAM, "forward.yaml");
static const struct opt_command completion = OPT_COMPLETION(PROGRAM);
static const struct opt_command man = OPT_MAN(PROGRAM);
static const struct opt_command version = OPT_VERSION(PROGRAM);

static const struct opt_fact files[] = {
    {"/etc/procfleet/forward.yaml",
     "the settings, by custom; config-sample prints one with every key"},
    {"/var/lib/procfleet-forward", "state_dir, by custom: how far it is, and its certificate"},
    {NULL, NULL},
};

static const struct opt_fact exits[] = {
    {"0", "told to stop"},
    {"1", "failed; the sentence on standard error says what and what to do"},
    {"2", "wrong usage, or a wrong setting"},
    {"4", "the collector refuses: certificate or role"},
    {NULL, NULL},
};

static const struct opt_fact see_also[] = {
    {"procfleet", ""}, {"procfleet-collector", ""}, {NULL, NULL}};

static enum err run_otlp(const struct opt_args *args, struct errmsg *why)
{
    static struct forward_conf_otlp conf; /* the signal's thread outlives this function */
    enum err e = forward_conf_load(&conf, args, why);

    if (e) {
        return e;
    }
    e = service_conf_log(&conf.service, why);
    if (!e) {
        e = otlp_sender_run(&conf, why);
        log_close();
    }
    forward_conf_fini(&conf);
    return e;
}

int main(int argc, char **argv)
{
    static const struct opt_command *const subs[] = {&otlp, &config_sample, &completion, &man,
                                                     &version};
    static const struct opt_command top = {
        .program = PROGRAM,
        .brief = "sends what a collector's durable subscription brings to other systems",
        .subs = subs,
        .n_subs = sizeof subs / sizeof *subs,
        .examples = "  procfleet-forward otlp --config /etc/procfleet/forward.yaml\n",
    };
    static const struct opt_program program = {.top = &top,
                                               .files = files,
                                               .exits = exits,
                                               .see_also = see_also,
                                               .keys = forward_conf_keys,
                                               .fail = run_service_fail};

    return opt_program_main(&program, argc, argv);
}
