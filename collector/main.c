/* procfleet-collector: its commands are in collector/cmd. */
#include "collector/cmd/collector_cmd.h"
#include "collector/conf/collector_conf.h"
#include "common/conf/opt_program.h"

#define PROGRAM "procfleet-collector"

static const struct opt_command config_sample = OPT_CONFIG_SAMPLE(PROGRAM, "collector.yaml");
static const struct opt_command completion = OPT_COMPLETION(PROGRAM);
static const struct opt_command man = OPT_MAN(PROGRAM);
static const struct opt_command version = OPT_VERSION(PROGRAM);

static const struct opt_command *const commands[] = {
    &cmd_run_options,
    &cmd_pki_options,
    &cmd_store_options,
    &cmd_clickhouse_options,
    &cmd_doctor_options,
    &config_sample,
    &completion,
    &man,
    &version,
};

static const struct opt_fact files[] = {
    {"/etc/procfleet/collector.yaml",
     "the settings, by custom; config-sample prints one with every key"},
    {"/var/lib/procfleet-collector/pki",
     "the authority, by custom: its certificate, its key, its book"},
    {NULL, NULL},
};

static const struct opt_fact exits[] = {
    {"0", "done"},
    {"1", "failed; the sentence on standard error says what and what to do"},
    {"2", "wrong usage, or a wrong setting"},
    {NULL, NULL},
};

static const struct opt_fact see_also[] = {
    {"procfleet", ""}, {"procfleet-agent", ""}, {NULL, NULL}};

static const struct opt_command top = {
    .program = PROGRAM,
    .brief = "collects what the agents of a fleet report, keeps it, and answers questions",
    .subs = commands,
    .n_subs = sizeof commands / sizeof *commands,
    .examples = "  procfleet-collector pki init --dir /var/lib/procfleet-collector/pki\n"
                "  procfleet-collector run --config /etc/procfleet/collector.yaml\n",
};

int main(int argc, char **argv)
{
    static const struct opt_program program = {.top = &top,
                                               .files = files,
                                               .exits = exits,
                                               .see_also = see_also,
                                               .keys = collector_conf_keys,
                                               .fail = collector_cmd_complain};

    return opt_program_main(&program, argc, argv);
}
