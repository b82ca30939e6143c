#include <stdio.h>
#include <string.h>

#include "agent/cmd/cmd.h"
#include "agent/doctor/orphans.h"
#include "agent/service/service.h"
#include "agent/status/notable.h"
#include "agent/status/status_file.h"
#include "common/mem.h"

static const struct opt opts[] = {
    {"config", 'c', "FILE",
     "settings the service runs with (install, uninstall, run, status, unit)", false},
    {"account", 0, "NAME",
     "account it runs as (install); default LocalSystem; e.g. 'NT SERVICE\\procfleet-agent'",
     false},
};

const struct opt_command cmd_service_opts = {
    .program = "procfleet-agent",
    .name = "service",
    .brief =
        "install, uninstall, start, stop the Windows service or show its status; on Linux print "
        "a unit for systemd",
    .operands = "install|uninstall|start|stop|status|unit|run",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet-agent service install --config C:\\ProgramData\\procfleet\\agent.yaml\n"
        "  procfleet-agent service start\n"
        "  procfleet-agent service unit --config /etc/procfleet/agent.yaml\n"
        "\n'status' exits with 0 when the service runs and with 1 when it does not.\n",
};

static int say(enum err e, const struct errmsg *why, const char *done)
{
    if (e) {
        return cmd_fail(e, why->text);
    }
    puts(done);
    return CMD_OK;
}

static int install(const char *config, const char *account)
{
    struct agent_conf conf;
    struct errmsg why = {""};
    struct buf notes;
    enum err e;
    int code;

    if (!config) {
        return cmd_fail(ERR_USAGE, "service install: --config FILE is needed");
    }
    if (agent_conf_load(&conf, config, NULL, 0, &why)) { /* better now than at the first start */
        return cmd_fail(ERR_USAGE, why.text);
    }
    agent_conf_fini(&conf);
    buf_init(&notes, 16u << 10);
    e = service_install(config, account, &notes, &why);
    fputs(buf_cstr(&notes), stderr);
    code = say(e, &why, "installed; 'procfleet-agent service start' starts it");
    buf_fini(&notes);
    return code;
}

/* A service that was killed leaves its sessions behind; with the service gone nobody would reclaim
 * them. They are those of the default name unless --config says otherwise. */
static int uninstall(const char *config)
{
    struct agent_conf conf;
    struct orphans seen = {0};
    struct errmsg why = {""};
    enum err e = service_uninstall(&why);

    if (!e && agent_conf_load(&conf, config, NULL, 0, &why) == ERR_OK) {
        if (orphans_look(&seen, &conf.etw, true, &why)) {
            fprintf(stderr, "procfleet-agent: %s\n", why.text);
        }
        agent_conf_fini(&conf);
    }
    return say(e, &why, "uninstalled; its files stay");
}

static int print(enum err e, struct buf *text, const struct errmsg *why, const char *end)
{
    int code = CMD_OK;

    if (e) {
        code = cmd_fail(e, why->text);
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
    if (code == CMD_OK && running) {
        print_told(config);
    }
    return code == CMD_OK && !running ? CMD_FAILED : code;
}

static int unit(const char *config)
{
    struct errmsg why = {""};
    struct buf text;

    buf_init(&text, 16u << 10);
    return print(service_unit(&text, config, &why), &text, &why, "");
}

/* -- run -- */

struct job {
    const char *config;
    struct notable told;
    int code;
};

static void on_line(void *ctx, enum log_level level, const char *module, const char *event,
                    const char *text)
{
    static const enum service_note kinds[] = {[NOTABLE_INFO] = SERVICE_INFO,
                                              [NOTABLE_WARNING] = SERVICE_WARNING,
                                              [NOTABLE_ERROR] = SERVICE_ERROR};
    struct job *job = ctx;
    char sentence[1200];
    enum notable_kind kind =
        notable_judge(&job->told, level, module, event, text, sentence, sizeof sentence);

    if (kind != NOTABLE_NOT) {
        service_note(kinds[kind], sentence);
    }
}

static int on_run(void *ctx)
{
    struct job *job = ctx;
    char option[] = "--config";
    char *argv[] = {option, (char *)job->config, NULL};

    cmd_as_service();
    log_tee(on_line, job);
    job->code = cmd_run(job->config ? 2 : 0, argv);
    return job->code;
}

static void on_stop(void *ctx)
{
    (void)ctx;
    cmd_stop();
}

/* Started by a person instead of the service manager, it is 'run'. */
static int run(const char *config)
{
    struct job job = {.config = config};
    struct service_calls calls = {.run = on_run, .stop = on_stop, .ctx = &job};
    struct errmsg why = {""};
    enum err e = service_run(&calls, &why);
    char option[] = "--config";
    char *argv[] = {option, (char *)config, NULL};

    if (e == ERR_UNSUPPORTED) {
        fprintf(stderr, "procfleet-agent: %s; running here, Ctrl-C ends it\n", why.text);
        return cmd_run(config ? 2 : 0, argv);
    }
    return e ? cmd_fail(e, why.text) : job.code;
}

static int dispatch(const char *what, const char *config, const char *account)
{
    struct errmsg why = {""};

    if (strcmp(what, "install") == 0) {
        return install(config, account);
    }
    if (strcmp(what, "uninstall") == 0) {
        return uninstall(config);
    }
    if (strcmp(what, "start") == 0) {
        return say(service_start(&why), &why, "running");
    }
    if (strcmp(what, "stop") == 0) {
        return say(service_stop(&why), &why, "stopped");
    }
    if (strcmp(what, "status") == 0) {
        return status(config);
    }
    if (strcmp(what, "unit") == 0) {
        return unit(config);
    }
    return strcmp(what, "run") == 0
               ? run(config)
               : cmd_fail(ERR_USAGE, "service: expected install, uninstall, start, stop, status, "
                                     "unit or run");
}

int cmd_service(int argc, char **argv)
{
    struct opt_args *args;
    char **words;
    int code;

    cmd_parse(&args, &code, &cmd_service_opts, argc, argv);
    if (!args) {
        return code;
    }
    if (opt_operands(args, &words) == 1) {
        code = dispatch(words[0], opt_value(args, "config"), opt_value(args, "account"));
    } else {
        code = cmd_fail(ERR_USAGE, "service: one of install, uninstall, start, stop, status, unit, "
                                   "run is needed");
    }
    opt_free(args);
    return code;
}
