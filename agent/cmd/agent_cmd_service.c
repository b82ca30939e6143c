#include <stdio.h>

#include "agent/cmd/agent_cmd.h"
#include "agent/doctor/doctor.h"
#include "agent/service/service.h"
#include "agent/status/event_log.h"
#include "agent/status/status_file.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/os_owner.h"

static int dispatch(const struct opt_args *args);

static const struct opt_action action = {.judge = dispatch};

#define CONFIG                                                         \
    {                                                                  \
        "config", 'c', "FILE", "settings the service runs with", false \
    }
#define COMMAND(verb, text, options, example)                                               \
    {                                                                                       \
        .program = "procfleet-agent service", .name = verb, .brief = text, .opts = options, \
        .n_opts = sizeof options / sizeof *options, .action = &action,                      \
        .examples = "  procfleet-agent service " verb example "\n",                         \
    }

static const struct opt install_opts[] = {
    {"config", 'c', "FILE",
     "settings the service runs with; default: those it has, else agent.yaml in the default "
     "state_dir",
     false},
    {"data", 0, "DIR", "in place of --config: agent.yaml in DIR", false},
    {"account", 0, "NAME",
     "account it runs as; default LocalSystem; e.g. 'NT SERVICE\\procfleet-agent'", false},
    {"keep", 0, NULL, "a service that is there keeps its account; the rest of it is set anew",
     false},
};
static const struct opt config_opts[] = {CONFIG};

static const struct opt_command install_cmd =
    COMMAND("install", "make it a Windows service that starts with the system", install_opts,
            " --config C:\\ProgramData\\procfleet\\agent.yaml");
static const struct opt_command uninstall_cmd =
    COMMAND("uninstall", "remove the service; its files stay", config_opts, "");
static const struct opt_command start_cmd = {.program = "procfleet-agent service",
                                             .name = "start",
                                             .brief = "start the service",
                                             .action = &action};
static const struct opt_command stop_cmd = {.program = "procfleet-agent service",
                                            .name = "stop",
                                            .brief = "stop the service",
                                            .action = &action};
static const struct opt_command status_cmd =
    COMMAND("status", "say whether it runs, and what it tells of itself; exit code 1: it does not",
            config_opts, "");
static const struct opt_command unit_cmd = COMMAND(
    "unit", "print a unit for systemd (Linux)", config_opts, " --config /etc/procfleet/agent.yaml");
static const struct opt_command run_cmd =
    COMMAND("run", "what the service manager calls; from a shell as 'run'", config_opts, "");

static const struct opt_command *const subs[] = {
    &cmd_prepare_opts, &install_cmd, &uninstall_cmd, &start_cmd,
    &stop_cmd,         &status_cmd,  &unit_cmd,      &run_cmd,
};

const struct opt_command cmd_service_opts = {
    .program = "procfleet-agent",
    .name = "service",
    .brief = "the agent as a Windows service; on Linux a unit for systemd",
    .operands = "COMMAND",
    .subs = subs,
    .n_subs = sizeof subs / sizeof *subs,
    .examples =
        "  procfleet-agent service install --config C:\\ProgramData\\procfleet\\agent.yaml\n"
        "  procfleet-agent service start\n"
        "  procfleet-agent service unit --config /etc/procfleet/agent.yaml\n",
};

static int say(enum err e, const struct errmsg *why, const char *done)
{
    if (e) {
        return agent_cmd_fail(e, why->text);
    }
    puts(done);
    return AGENT_CMD_OK;
}

/* Settings that are wrong, or that others could change, are better refused now than at the first
 * start. */
static int install_service(struct service_setup *what)
{
    uint8_t sessions[DOCTOR_SESSIONS][16];
    struct agent_conf conf;
    struct errmsg why = {""};
    struct buf notes;
    enum err e;
    int code;

    if (agent_conf_load(&conf, what->config, NULL, 0, &why)) {
        return agent_cmd_fail(ERR_USAGE, why.text);
    }
    what->sessions = (const uint8_t(*)[16])sessions;
    what->n_sessions = doctor_sessions(sessions, &conf.etw);
    buf_init(&notes, 16u << 10);
    e = what->account ? os_owner_also_trust(what->account, &why) : ERR_OK;
    e = e ? e : os_owner_check(conf.state_dir, &why);
    e = e ? e : os_owner_check_above(conf.state_dir, &why);
    e = e ? e : service_install(what, &notes, &why);
    fputs(buf_cstr(&notes), stderr);
    code = say(e, &why, "installed; 'procfleet-agent service start' starts it");
    buf_fini(&notes);
    agent_conf_fini(&conf);
    return code;
}

static const char *filled(const char *value)
{
    return value && value[0] ? value : NULL; /* an installer's property that was not set is "" */
}

static int install(const struct opt_args *args)
{
    struct service_setup setup = {.config = filled(opt_value(args, "config")),
                                  .account = filled(opt_value(args, "account")),
                                  .keep = opt_flag(args, "keep")};
    const char *data = filled(opt_value(args, "data"));
    char *config = setup.config ? NULL
                   : data       ? os_path_join(data, "agent.yaml")
                                : agent_cmd_default_config();
    int code;

    setup.config = setup.config ? setup.config : config;
    code = setup.config ? install_service(&setup)
                        : agent_cmd_fail(ERR_USAGE, "service install: --config FILE is needed");
    mem_free(config);
    return code;
}

/* A service that was killed leaves its sessions behind; with the service gone nobody would reclaim
 * them. They are those of the default name unless --config says otherwise. */
static int uninstall(const char *config)
{
    uint8_t sessions[DOCTOR_SESSIONS][16];
    struct agent_conf conf;
    struct doctor_orphans seen = {0};
    struct errmsg why = {""};
    bool known = agent_conf_load(&conf, config, NULL, 0, &why) == ERR_OK;
    size_t n = known ? doctor_sessions(sessions, &conf.etw) : 0;
    enum err e = service_uninstall((const uint8_t(*)[16])sessions, n, &why);

    if (known && !e && why.text[0]) {
        fprintf(stderr, "procfleet-agent: %s\n", why.text);
    }
    if ((!e || e == ERR_NOTFOUND) && known && doctor_orphans(&seen, &conf.etw, true, &why)) {
        fprintf(stderr, "procfleet-agent: %s\n", why.text);
    }
    if (known) {
        agent_conf_fini(&conf);
    }
    return say(e == ERR_NOTFOUND ? ERR_OK : e, &why,
               e ? "the service is not installed" : "uninstalled; its files stay");
}

static int print(enum err e, struct buf *text, const struct errmsg *why, const char *end)
{
    int code = AGENT_CMD_OK;

    if (e) {
        code = agent_cmd_fail(e, why->text);
    } else {
        printf("%s%s", buf_cstr(text), end);
    }
    buf_fini(text);
    return code;
}

/* What it tells of itself, where its state directory is known and can be read. */
static void print_told(const char *config)
{
    struct status *told = mem_zalloc(sizeof *told);
    struct agent_conf conf;
    struct errmsg why = {""};
    struct buf text;

    buf_init(&text, 8192);
    if (told && agent_conf_load(&conf, config, NULL, 0, &why) == ERR_OK) {
        if (status_file_read(told, conf.state_dir) == ERR_OK && told->running) {
            status_print(&text, told);
        }
        agent_conf_fini(&conf);
    }
    fputs(buf_cstr(&text), stdout);
    buf_fini(&text);
    mem_free(told);
}

static int status(const char *config)
{
    struct errmsg why = {""};
    bool running = false;
    struct buf text;
    int code;

    buf_init(&text, 4096);
    code = print(service_status(&text, &running, &why), &text, &why, "\n");
    if (code == AGENT_CMD_OK && running) {
        print_told(config);
    }
    return code == AGENT_CMD_OK && !running ? AGENT_CMD_FAILED : code;
}

static int unit(const char *config)
{
    struct errmsg why = {""};
    struct buf text;

    buf_init(&text, 16u << 10);
    return print(service_unit(&text, config, &why), &text, &why, "");
}

/* -- run -- */

struct service_job {
    const struct opt_args *args;
    struct event_log event_log;
    int code;
};

static void on_line(void *ctx, unsigned note, enum log_level level, const char *module,
                    const char *event, const char *text)
{
    static const enum service_note kinds[] = {[EVENT_LOG_INFO] = SERVICE_INFO,
                                              [EVENT_LOG_WARNING] = SERVICE_WARNING,
                                              [EVENT_LOG_ERROR] = SERVICE_ERROR};
    struct service_job *job = ctx;
    char sentence[1200];
    enum event_log_kind kind =
        event_log_judge(&job->event_log, note, level, text, sentence, sizeof sentence);

    (void)module;
    (void)event;
    if (kind != EVENT_LOG_NOT) {
        service_note(kinds[kind], sentence);
    }
}

static int on_run(void *ctx)
{
    struct service_job *job = ctx;

    agent_cmd_as_service();
    log_tee(on_line, job);
    job->code = cmd_run_opts.action->judge(job->args);
    return job->code;
}

static void on_stop(void *ctx)
{
    (void)ctx;
    agent_cmd_stop();
}

/* Started by a person instead of the service manager, it is 'run'. */
static int run(const struct opt_args *args)
{
    struct service_job job = {.args = args};
    struct service_calls calls = {.run = on_run, .stop = on_stop, .ctx = &job};
    struct errmsg why = {""};
    enum err e = service_run(&calls, &why);

    if (e == ERR_UNSUPPORTED) {
        fprintf(stderr, "procfleet-agent: %s; running here, Ctrl-C ends it\n", why.text);
        return cmd_run_opts.action->judge(args);
    }
    return e ? agent_cmd_fail(e, why.text) : job.code;
}

static int dispatch(const struct opt_args *args)
{
    const struct opt_command *what = opt_command_of(args);
    const char *config = opt_value(args, "config");
    struct errmsg why = {""};

    if (what == &install_cmd || what == &start_cmd) {
        agent_cmd_also_note();
    }
    if (what == &install_cmd) {
        return install(args);
    }
    if (what == &uninstall_cmd) {
        return uninstall(config);
    }
    if (what == &start_cmd) {
        return say(service_start(&why), &why, "running");
    }
    if (what == &stop_cmd) {
        return say(service_stop(&why), &why, "stopped");
    }
    if (what == &status_cmd) {
        return status(config);
    }
    return what == &unit_cmd ? unit(config) : run(args);
}
