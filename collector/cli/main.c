/* procfleet, the operator's command line. */
#include <stdio.h>
#include <string.h>

#include "collector/cli/cli.h"
#include "common/conf/opt_program.h"
#include "common/os/os.h"

static const struct opt_command completion = OPT_COMPLETION("procfleet");
static const struct opt_command man = OPT_MAN("procfleet");
static const struct opt_command version = OPT_VERSION("procfleet");

static const struct cli_command *const commands[] = {
    &cmd_hosts,   &cmd_top,      &cmd_ps,       &cmd_history,   &cmd_timeline,      &cmd_events,
    &cmd_crashes, &cmd_outliers, &cmd_tail,     &cmd_providers, &cmd_subscriptions, &cmd_tree,
    &cmd_boots,   &cmd_overview, &cmd_coverage, &cmd_diff,      &cmd_gate,          &cmd_report,
    &cmd_run,     &cmd_rules,    &cmd_console,  &cmd_admin,     &cmd_config,
};

/* What every program has. */
static const struct opt_command *const common_commands[] = {&completion, &man, &version};

#define COMMANDS (sizeof commands / sizeof *commands)
#define COMMON   (sizeof common_commands / sizeof *common_commands)

static const struct opt_fact environment[] = {
    {"PROCFLEET_COLLECTOR", "collector to ask, HOST[:PORT]"},
    {"PROCFLEET_EVENTS", "event stream to follow, HOST[:PORT]"},
    {"PROCFLEET_CA", "certificate of the authority"},
    {"PROCFLEET_CERT", "own certificate"},
    {"PROCFLEET_KEY", "own private key"},
    {"PROCFLEET_SERVER_NAME", "name the collector's certificate must carry"},
    {"PROCFLEET_TIMEOUT", "longest wait for an answer"},
    {"PROCFLEET_FORMAT", "table, json, csv or jsonl"},
    {"PROCFLEET_TIME", "utc or local: the zone of times read and shown in tables"},
    {"PROCFLEET_HOST", "name, glob or uuid of the hosts asked for"},
    {"PROCFLEET_CONFIG", "file with profiles"},
    {"PROCFLEET_PROFILE", "the one of them to use"},
    {NULL, NULL},
};

static const struct opt_fact files[] = {
    {"~/.config/procfleet/config.yaml",
     "profiles, below XDG_CONFIG_HOME where that is set; 'procfleet config sample' prints one"},
    {"%APPDATA%\\procfleet\\config.yaml", "likewise on Windows"},
    {NULL, NULL},
};

static const struct opt_fact exits[] = {
    {"0", "answered"},
    {"1", "failed"},
    {"2", "wrong usage"},
    {"3", "the collector cannot be reached"},
    {"4", "refused: certificate, role or method"},
    {"5", "answered in part: a host or span that was asked for is missing or known to have loss; "
          "of diff and gate: no verdict"},
    {"6", "gate: a regression"},
    {NULL, NULL},
};

static const struct opt_fact see_also[] = {
    {"procfleet-agent", ""}, {"procfleet-collector", ""}, {NULL, NULL}};

static const char examples[] =
    "  procfleet hosts\n"
    "  procfleet top --by cpu_time --since 1h\n"
    "  procfleet events --host 'lab-*' --since 10m\n"
    "\n"
    "Settings come from options, else from PROCFLEET_COLLECTOR and the like, else from a profile:\n"
    "'procfleet config show' tells which.\n"
    "Exit codes: 0 ok, 1 failed, 2 usage, 3 unreachable, 4 refused, 5 partial answer,\n"
    "6 a regression (gate).\n";

static int run(int argc, char **argv)
{
    const struct opt_command *subs[COMMANDS + COMMON], *chosen;
    const struct opt_command top = {
        .program = "procfleet",
        .brief = "what every process of the fleet does",
        .subs = subs,
        .n_subs = sizeof subs / sizeof *subs,
        .examples = examples,
    };
    const struct opt_program program = {.top = &top,
                                        .environment = environment,
                                        .files = files,
                                        .exits = exits,
                                        .hosts = "hosts --format csv --timeout 1s",
                                        .see_also = see_also};
    int code = CLI_USAGE;

    for (size_t i = 0; i < COMMANDS; i++) {
        subs[i] = commands[i]->usage;
    }
    memcpy(subs + COMMANDS, common_commands, sizeof common_commands);
    chosen = opt_program_begin(&program, argc, argv, &code);
    for (size_t i = 0; i < COMMANDS; i++) {
        if (commands[i]->usage == chosen) {
            code = cli_run(commands[i], argc - 2, argv + 2);
        }
    }
    return opt_program_end(&program, code);
}

int main(int argc, char **argv)
{
    enum err e = os_args(&argc, &argv);

    if (e) {
        fprintf(stderr, "procfleet: %s\n", err_text(e));
        return CLI_FAILED;
    }
    return run(argc, argv);
}
