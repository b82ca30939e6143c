/* procfleet-notify: notices of the rules, to webhooks and programs. */
#include "collector/forward/run_service.h"
#include "collector/notify/notify_conf.h"
#include "collector/notify/notify_target.h"
#include "common/conf/opt_program.h"
#include "common/log/log.h"
#include "common/net/net.h"

#define PROGRAM "procfleet-notify"

static const struct opt_set settings[] = {{"KEY=VALUE", notify_conf_setting}, {NULL, NULL}};

static const struct opt run_options[] = {
    {"config", 'c', "FILE", "YAML file with the settings; see config-sample", false},
    {"set", 's', "KEY=VALUE", "one setting, over the file's", true},
};

static enum err run_notify(const struct opt_args *args, struct errmsg *why);

static const struct opt_command run = {
    .program = PROGRAM,
    .name = "run",
    .brief = "send each notice of the collector's rules to every target, until told to stop",
    .opts = run_options,
    .n_opts = sizeof run_options / sizeof *run_options,
    .sets = settings,
    .examples =
        "  procfleet-notify run --config /etc/procfleet/notify.yaml\n"
        "\n"
        "In the file, besides the collector and the certificate (role subscribe):\n"
        "  targets:\n"
        "    lab-hook: {url: 'https://hooks.example/in', headers_file: hook.headers}\n"
        "    alerts:\n"
        "      url: https://alertmanager.example:9093/api/v2/alerts\n"
        "      format: alertmanager-api\n"
        "      rules: ['antivirus-*', host-silent]\n"
        "    page: {type: exec, program: /usr/local/sbin/page}     # with allow_exec: true\n"
        "\n"
        "Each target goes on where it was. A notice that comes again after a kill has the same\n"
        "Idempotency-Key; who keeps these keys sees each notice once. No program can promise "
        "more.\n",
    .action = &(const struct opt_action){.run = run_notify, .shows_settings = true},
};

static const struct opt_command config_sample = OPT_CONFIG_SAMPLE(PROGRAM, "notify.yaml");
static const struct opt_command completion = OPT_COMPLETION(PROGRAM);
static const struct opt_command man = OPT_MAN(PROGRAM);
static const struct opt_command version = OPT_VERSION(PROGRAM);

static const struct opt_fact files[] = {
    {"/etc/procfleet/notify.yaml",
     "the settings, by custom; config-sample prints one with every key"},
    {"/var/lib/procfleet-notify",
     "state_dir, by custom: how far each target is, and the certificate"},
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

/* Static: the signal's thread outlives what uses them. */
static struct notify_conf conf;
static struct notify_target *targets[NOTIFY_TARGETS_MAX];
static struct consumer *consumers[NOTIFY_TARGETS_MAX];

static void each_target(void (*what)(struct notify_target *t))
{
    for (size_t i = 0; i < conf.n; i++) {
        what(targets[i]);
    }
}

static void on_stop(void *ctx)
{
    (void)ctx;
    each_target(notify_target_stop);
}

static void on_report(void *ctx)
{
    (void)ctx;
    each_target(notify_target_report);
}

static enum err notify(struct errmsg *why)
{
    struct run_service service = {.module = "notify",
                                  .consumers = consumers,
                                  .n = conf.n,
                                  .stop = on_stop,
                                  .report = on_report};
    enum err e = net_init(why);

    if (e) {
        return e;
    }
    for (size_t i = 0; i < conf.n && !e; i++) {
        e = notify_target_open(&targets[i], &conf.targets[i], why);
        consumers[i] = e ? NULL : notify_target_consumer(targets[i]);
    }
    e = e ? e : run_service(&service, why);
    each_target(notify_target_close);
    net_fini();
    return e;
}

static enum err run_notify(const struct opt_args *args, struct errmsg *why)
{
    enum err e = notify_conf_load(&conf, args, why);

    if (e) {
        return e;
    }
    e = service_conf_log(&conf.service, why);
    if (!e) {
        e = notify(why);
        log_close();
    }
    notify_conf_fini(&conf);
    return e;
}

int main(int argc, char **argv)
{
    static const struct opt_command *const subs[] = {&run, &config_sample, &completion, &man,
                                                     &version};
    static const struct opt_command top = {
        .program = PROGRAM,
        .brief = "sends the notices of a collector's rules to webhooks and programs",
        .subs = subs,
        .n_subs = sizeof subs / sizeof *subs,
        .examples = "  procfleet-notify run --config /etc/procfleet/notify.yaml\n",
    };
    static const struct opt_program program = {.top = &top,
                                               .files = files,
                                               .exits = exits,
                                               .see_also = see_also,
                                               .keys = notify_conf_keys,
                                               .fail = run_service_fail};

    return opt_program_main(&program, argc, argv);
}
