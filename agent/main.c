#include <stdio.h>

#include "agent/cmd/agent_cmd.h"
#include "common/conf/opt_program.h"
#include "common/net/net.h"
#include "common/os/os.h"

#define PROGRAM "procfleet-agent"

static int cmd_config_sample(int argc, char **argv);

static const struct opt_command config_sample_opts = {
    .program = PROGRAM,
    .name = "config-sample",
    .brief = "print every setting with its default and meaning",
    .examples = "  procfleet-agent config-sample > agent.yaml\n",
};
static const struct opt_command completion_opts = OPT_COMPLETION(PROGRAM);
static const struct opt_command man_opts = OPT_MAN(PROGRAM);
static const struct opt_command version_opts = OPT_VERSION(PROGRAM);

static const struct {
    const struct opt_command *opts;
    int (*run)(int argc, char **argv); /* NULL: every program has it */
} commands[] = {
    {&cmd_run_opts, agent_cmd_run},
    {&cmd_replay_opts, agent_cmd_replay},
    {&cmd_etl_opts, agent_cmd_etl},
    {&cmd_watch_opts, agent_cmd_watch},
    {&cmd_doctor_opts, agent_cmd_doctor},
    {&cmd_enroll_opts, agent_cmd_enroll},
    {&cmd_service_opts, agent_cmd_service},
    {&cmd_session_opts, agent_cmd_session},
    {&cmd_record_opts, agent_cmd_record},
    {&cmd_mark_opts, agent_cmd_mark},
    {&cmd_show_wire_opts, agent_cmd_show_wire},
    {&cmd_spool_opts, agent_cmd_spool},
    {&cmd_status_opts, agent_cmd_status},
    {&config_sample_opts, cmd_config_sample},
    {&completion_opts, NULL},
    {&man_opts, NULL},
    {&version_opts, NULL},
};

#define COMMANDS (sizeof commands / sizeof *commands)

static const struct opt_fact files[] = {
    {"/etc/procfleet/agent.yaml", "the settings, by custom; config-sample prints every one"},
    {"C:\\ProgramData\\procfleet\\agent.yaml", "likewise on Windows"},
    {NULL, NULL},
};

static const struct opt_fact exits[] = {
    {"0", "done"},
    {"1", "failed; the sentence on standard error says what and what to do"},
    {"2", "wrong usage, or a wrong setting"},
    {"3", "the collector cannot be reached"},
    {"4", "the collector refuses: certificate, token or role"},
    {"5", "stopped early"},
    {NULL, NULL},
};

static const struct opt_fact see_also[] = {
    {"procfleet", ""}, {"procfleet-collector", ""}, {"procfleet-etl", ""}, {NULL, NULL}};

static const char examples[] =
    "  procfleet-agent run --config /etc/procfleet/agent.yaml\n"
    "  procfleet-agent enroll --collector collector.example --token-file token.txt\n"
    "  procfleet-agent replay trace.etl.xz --config replay.yaml\n"
    "  procfleet-agent etl summary trace.etl.xz\n"
    "  procfleet-agent watch --name 'post*'\n"
    "\nExit codes: 0 ok, 1 failed, 2 usage, 3 collector unreachable, 4 refused, 5 stopped early\n";

static int cmd_config_sample(int argc, char **argv)
{
    struct opt_args *args;
    const struct conf_key *keys;
    struct buf page;
    size_t n;
    int code;

    agent_cmd_parse(&args, &code, &config_sample_opts, argc, argv);
    if (!args) {
        return code;
    }
    opt_free(args);
    buf_init(&page, 1u << 20);
    keys = agent_conf_keys(&n);
    conf_print_sample(&page, keys, n, PROGRAM);
    code = page.bad ? AGENT_CMD_FAILED : AGENT_CMD_OK;
    fputs(buf_cstr(&page), stdout);
    buf_fini(&page);
    return code;
}

static int dispatch(int argc, char **argv)
{
    const struct opt_command *subs[COMMANDS], *chosen;
    const struct opt_command top = {
        .program = PROGRAM,
        .brief = "watches the processes of a host and reports them to the collector",
        .subs = subs,
        .n_subs = COMMANDS,
        .examples = examples,
    };
    const struct opt_program program = {
        .top = &top, .files = files, .exits = exits, .see_also = see_also};
    int code = AGENT_CMD_USAGE;

    for (size_t i = 0; i < COMMANDS; i++) {
        subs[i] = commands[i].opts;
    }
    chosen = opt_program_begin(&program, argc, argv, &code);
    for (size_t i = 0; i < COMMANDS; i++) {
        if (commands[i].opts == chosen && commands[i].run) {
            code = commands[i].run(argc - 2, argv + 2);
        }
    }
    return opt_program_end(&program, code);
}

int main(int argc, char **argv)
{
    struct errmsg why = {""};
    enum err e = os_args(&argc, &argv);
    int code;

    if (!e) {
        e = net_init(&why);
    }
    if (e) {
        return agent_cmd_fail(e, why.text);
    }
    code = dispatch(argc, argv);
    net_fini();
    log_close();
    return code;
}
