/* procfleet-collector: one subcommand each in cmd_*.c. */
#include <stdio.h>

#include "collector/cmd/collector_cmd.h"
#include "collector/conf/collector_conf.h"
#include "common/conf/opt_program.h"

#define PROGRAM "procfleet-collector"

static int cmd_config_sample(int argc, char **argv);

static const struct opt_command config_sample = {
    .program = PROGRAM,
    .name = "config-sample",
    .brief = "print a configuration file with every key, its default and its meaning",
    .examples = "  procfleet-collector config-sample >collector.yaml\n",
};
static const struct opt_command completion = OPT_COMPLETION(PROGRAM);
static const struct opt_command man = OPT_MAN(PROGRAM);
static const struct opt_command version = OPT_VERSION(PROGRAM);

static const struct {
    const struct opt_command *usage;
    int (*run)(int argc, char **argv); /* its own name is argv[0]; NULL: every program has it */
} commands[] = {
    {&cmd_run_options, collector_cmd_run},
    {&cmd_pki_options, collector_cmd_pki},
    {&cmd_store_options, collector_cmd_store},
    {&cmd_clickhouse_options, collector_cmd_clickhouse},
    {&cmd_doctor_options, collector_cmd_doctor},
    {&config_sample, cmd_config_sample},
    {&completion, NULL},
    {&man, NULL},
    {&version, NULL},
};

#define COUNT (sizeof commands / sizeof *commands)

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

static int print_sample(const struct opt_args *a)
{
    struct buf out;
    size_t n;
    const struct conf_key *keys = collector_conf_keys(&n);

    (void)a;
    buf_init(&out, 1u << 20);
    conf_print_sample(&out, keys, n, PROGRAM);
    fputs(buf_cstr(&out), stdout);
    buf_fini(&out);
    return COLLECTOR_CMD_DONE;
}

static int cmd_config_sample(int argc, char **argv)
{
    return collector_cmd_with_options(&config_sample, argc - 1, argv + 1, print_sample);
}

int main(int argc, char **argv)
{
    const struct opt_command *subs[COUNT], *chosen;
    const struct opt_command top = {
        .program = PROGRAM,
        .brief = "collects what the agents of a fleet report, keeps it, and answers questions",
        .subs = subs,
        .n_subs = COUNT,
        .examples = "  procfleet-collector pki init --dir /var/lib/procfleet-collector/pki\n"
                    "  procfleet-collector run --config /etc/procfleet/collector.yaml\n",
    };
    const struct opt_program program = {
        .top = &top, .files = files, .exits = exits, .see_also = see_also};
    int code = COLLECTOR_CMD_USAGE;

    for (size_t i = 0; i < COUNT; i++) {
        subs[i] = commands[i].usage;
    }
    chosen = opt_program_begin(&program, argc, argv, &code);
    for (size_t i = 0; i < COUNT; i++) {
        if (commands[i].usage == chosen && commands[i].run) {
            code = commands[i].run(argc - 1, argv + 1);
        }
    }
    return opt_program_end(&program, code);
}
