#include <stdio.h>

#include "agent/cmd/agent_cmd.h"
#include "common/conf/opt_program.h"
#include "common/net/net.h"
#include "common/os/os.h"

#define PROGRAM "procfleet-agent"

static const struct opt_command config_sample_opts = OPT_CONFIG_SAMPLE(PROGRAM, "agent.yaml");
static const struct opt_command completion_opts = OPT_COMPLETION(PROGRAM);
static const struct opt_command man_opts = OPT_MAN(PROGRAM);
static const struct opt_command version_opts = OPT_VERSION(PROGRAM);

static const struct opt_command *const commands[] = {
    &cmd_run_opts,    &cmd_replay_opts,    &cmd_etl_opts,       &cmd_watch_opts,
    &cmd_doctor_opts, &cmd_enroll_opts,    &cmd_service_opts,   &cmd_session_opts,
    &cmd_record_opts, &cmd_mark_opts,      &cmd_show_wire_opts, &cmd_spool_opts,
    &cmd_status_opts, &config_sample_opts, &completion_opts,    &man_opts,
    &version_opts,
};

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

static const struct opt_command top = {
    .program = PROGRAM,
    .brief = "watches the processes of a host and reports them to the collector",
    .subs = commands,
    .n_subs = sizeof commands / sizeof *commands,
    .examples = "  procfleet-agent run --config /etc/procfleet/agent.yaml\n"
                "  procfleet-agent enroll --collector collector.example --token-file token.txt\n"
                "  procfleet-agent replay trace.etl.xz --config replay.yaml\n"
                "  procfleet-agent etl summary trace.etl.xz\n"
                "  procfleet-agent watch --name 'post*'\n"
                "\nExit codes: 0 ok, 1 failed, 2 usage, 3 collector unreachable, 4 refused, 5 "
                "stopped early\n",
};

static int fail(const struct opt_command *cmd, enum err e, const char *text)
{
    (void)cmd;
    return agent_cmd_fail(e, text);
}

int main(int argc, char **argv)
{
    static const struct opt_program program = {.top = &top,
                                               .files = files,
                                               .exits = exits,
                                               .see_also = see_also,
                                               .keys = agent_conf_keys,
                                               .fail = fail};
    struct errmsg why = {""};
    enum err e = os_args(&argc, &argv);
    int code;

    if (!e) {
        e = net_init(&why);
    }
    if (e) {
        return agent_cmd_fail(e, why.text);
    }
    code = opt_program_main(&program, argc, argv);
    net_fini();
    log_close();
    return code;
}
