#include "agent/cmd/agent_cmd.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "agent/agent_source.h"
#include "agent/service/service.h"
#include "agent/status/event_log.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/os_owner.h"

static atomic_uint stops; /* signals */
static bool service, log_is_file, also_note;

static const char *setting(size_t i)
{
    size_t n;
    const struct conf_key *keys = agent_conf_keys(&n);

    return i < n ? keys[i].key : NULL;
}

const struct opt_set cmd_conf_sets[] = {{"KEY=VALUE", setting}, {NULL, NULL}};

int agent_cmd_fail(enum err e, const char *text)
{
    char value[1024];

    if (log_is_file || service) { /* of a service, standard error is seen by nobody */
        log_note(EVENT_LOG_FAILED, LOG_ERROR, "agent", "failed", "why=%s",
                 log_str(value, sizeof value, text[0] ? text : err_text(e)));
    }
    if (also_note) {
        service_note(SERVICE_ERROR, text[0] ? text : err_text(e));
    }
    fprintf(stderr, "procfleet-agent: %s\n", text[0] ? text : err_text(e));
    switch (e) {
    case ERR_USAGE:
    case ERR_INVALID:
    case ERR_RANGE:
        return AGENT_CMD_USAGE;
    case ERR_UNREACHABLE:
    case ERR_TIMEOUT:
        return AGENT_CMD_UNREACHABLE;
    case ERR_REFUSED:
    case ERR_TRUST:
        return AGENT_CMD_REFUSED;
    default:
        return AGENT_CMD_FAILED;
    }
}

/* A service has no standard error that anybody reads. */
static enum err open_service_log(const struct agent_conf *c)
{
    char *dir = os_path_join(c->state_dir, "log");
    char *path = dir ? os_path_join(dir, "agent.log") : NULL;
    enum err e = path ? os_mkdirs(dir, true) : ERR_NOMEM;

    if (!e) {
        e = log_open(c->log_level, c->log_format, path);
    }
    mem_free(path);
    mem_free(dir);
    return e;
}

static enum err open_log(const struct agent_conf *c, struct errmsg *why)
{
    enum err e = service && c->log_file[0] == '\0'
                     ? open_service_log(c)
                     : log_open(c->log_level, c->log_format, c->log_file);

    log_is_file = !e && (service || c->log_file[0]);
    return e ? errmsg_set(why, e,
                          "log.file: cannot open %s: its directory must be there, and this user be "
                          "allowed to write in it",
                          c->log_file)
             : e;
}

/* Before the log is opened, which is in what shall be trusted. */
static enum err load_settings(struct agent_conf *out, const struct opt_args *args, bool trusted,
                              struct errmsg *why)
{
    const char *config = opt_value(args, "config"), *sets[OPT_MANY_MAX];
    size_t n = opt_values(args, "set", sets, OPT_MANY_MAX);
    enum err e = trusted && config ? os_owner_check_file(config, why) : ERR_OK;

    e = !e && service && config ? os_owner_check_above(config, why) : e;
    if (e) {
        return e;
    }
    e = agent_conf_load(out, config, sets, n, why);
    if (e) {
        return e == ERR_NOMEM ? e : ERR_USAGE; /* also a file that is not there */
    }
    e = trusted ? os_owner_check(out->state_dir, why) : ERR_OK;
    e = !e && service ? os_owner_check_above(out->state_dir, why) : e;
    e = e ? e : open_log(out, why);
    if (e) {
        agent_conf_fini(out);
    }
    return e;
}

enum err agent_cmd_settings(struct agent_conf *out, const struct opt_args *args, struct errmsg *why)
{
    return load_settings(out, args, false, why);
}

enum err agent_cmd_trusted_settings(struct agent_conf *out, const struct opt_args *args,
                                    struct errmsg *why)
{
    return load_settings(out, args, true, why);
}

enum err agent_cmd_open_source(void *ctx, struct source **out, struct source_sink sink,
                               struct errmsg *why)
{
    const struct agent_conf *c = ctx;
    struct agent_source_conf live = {.name = c->source,
                                     .period_ns = c->period_ns,
                                     .processes_max = MODEL_PROCESSES_MAX,
                                     .slow_top = c->slow_top,
                                     .slow_period_ns = c->slow_period_ns,
                                     .users = !c->filter.hide_user,
                                     .command_lines = c->filter.command_line != PRIVACY_NONE,
                                     .beside = true,
                                     .etw = &c->etw};

    return agent_source_open_live(out, &live, sink, why);
}

void agent_cmd_stop(void)
{
    atomic_fetch_add(&stops, 1);
}

static void on_stop(void *arg)
{
    (void)arg;
    agent_cmd_stop();
}

void agent_cmd_as_service(void)
{
    service = true;
}

void agent_cmd_also_note(void)
{
    also_note = true;
}

enum err agent_cmd_catch_stop(struct errmsg *why)
{
    enum err e = service ? ERR_OK : os_stop_install(on_stop, NULL);

    return e ? errmsg_set(why, e, "cannot catch signals: %s", err_text(e)) : ERR_OK;
}

bool agent_cmd_stopped(void)
{
    return atomic_load(&stops) > 0;
}

bool agent_cmd_hurried(void)
{
    return atomic_load(&stops) > 1;
}
