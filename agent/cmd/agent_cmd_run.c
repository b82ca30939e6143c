#include <stdio.h>
#include <string.h>

#include "agent/cmd/agent_cmd.h"
#include "agent/status/status_file.h"
#include "common/base/clk.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "common/os/os_notify.h"

#define LOOK_NS   (200 * CLK_MS)
#define DRAIN_NS  (5 * CLK_S)
#define REPORT_NS (5 * CLK_S)

#define FOR_NS (60 * CLK_S)

static const struct opt opts[] = {
    AGENT_CMD_CONF_OPTS,
    {"level", 'L', "L0|L1|L2|L3|L4",
     "collect at this level from the start, also above sampler.level_max", false},
    {"for", 0, "SPAN", "with --level: for so long, default 60s; then as configured", false},
};

static int cmd_run(const struct opt_args *args);

const struct opt_command cmd_run_opts = {
    .program = "procfleet-agent",
    .name = "run",
    .brief = "watch this machine and send what its processes do to the collector",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .sets = cmd_conf_sets,
    .examples = "  procfleet-agent run --config /etc/procfleet/agent.yaml\n"
                "  procfleet-agent run --set collector.addresses=collector.example:7420\n"
                "  procfleet-agent run -c agent.yaml --set sampling.rate_hz=100 --level L3 --for "
                "5min\n",
    .action = &(const struct opt_action){.judge = cmd_run, .shows_settings = true},
};

static void log_start(struct agent *a, const struct agent_conf *conf)
{
    const struct source_about *about = agent_about(a);
    char detail[600], name[80];

    log_line(LOG_INFO, "agent", "started", "version=%s host=%s source=%s polled=%s detail=%s",
             PROCFLEET_VERSION, log_str(name, sizeof name, agent_name(a)), about->name,
             about->polled ? "yes" : "no", log_str(detail, sizeof detail, about->detail));
    if (conf->name && !str_eq(str_make(conf->name), str_make(agent_name(a)))) {
        log_line(LOG_WARN, "agent", "name_differs", "configured=%s certificate=%s", conf->name,
                 agent_name(a));
    }
}

static void log_end(const struct agent_status *s)
{
    log_line(s->queue.held > 0 ? LOG_WARN : LOG_INFO, "agent", "stopped",
             "processes=%llu starts=%llu stops=%llu ticks=%llu acknowledged=%llu undelivered=%llu",
             (unsigned long long)s->processes, (unsigned long long)s->starts,
             (unsigned long long)s->stops, (unsigned long long)s->ticks,
             (unsigned long long)s->uplink.acknowledged, (unsigned long long)s->queue.held);
}

/* Until everything is acknowledged or the time for it is over. */
static void drain(struct agent *a, struct agent_status *s)
{
    int64_t end_ns = os_mono_ns() + DRAIN_NS;

    agent_status(a, s);
    if (s->queue.held > 0 && s->uplink.state != UPLINK_CONNECTED) {
        log_line(LOG_INFO, "agent", "draining", "undelivered=%llu seconds=%d",
                 (unsigned long long)s->queue.held, (int)(DRAIN_NS / CLK_S));
    }
    while (!s->uplink.drained && os_mono_ns() < end_ns && !agent_cmd_hurried()) {
        os_sleep_ns(20 * CLK_MS);
        agent_status(a, s);
    }
}

/* When what the agent tells of itself was written last, and what it said then. */
struct report {
    const char *dir;
    int64_t at_ns;
    uint64_t notes;
    enum uplink_state uplink;
    bool failed; /* told once */
};

static void write_report(struct agent *a, struct report *r)
{
    struct status told;
    enum err e;

    agent_tell(a, &told);
    e = status_file_write(r->dir, &told);
    if (e && !r->failed) {
        char dir[300], cause[64];

        log_line(LOG_WARN, "agent", "status_file", "dir=%s why=%s",
                 log_str(dir, sizeof dir, r->dir), log_str(cause, sizeof cause, err_text(e)));
    }
    r->failed = e != ERR_OK;
    r->at_ns = os_mono_ns();
}

/* Every few seconds, and at once when something has changed. */
static void report(struct agent *a, struct report *r)
{
    struct agent_status s;

    agent_status(a, &s);
    if (r->at_ns == 0 || os_mono_ns() - r->at_ns >= REPORT_NS || s.notes != r->notes ||
        s.uplink.state != r->uplink) {
        r->notes = s.notes;
        r->uplink = s.uplink.state;
        write_report(a, r);
    }
}

/* What a watchdog wants to know: whether the sampler still ticks. */
struct pace {
    int64_t limit_ns; /* 0: nobody watches */
    int64_t moved_ns, told_ns;
    uint64_t ticks;
};

static void reassure(struct agent *a, struct pace *p)
{
    int64_t now_ns = os_mono_ns();
    struct agent_status s;

    if (p->limit_ns == 0 || now_ns - p->told_ns < p->limit_ns / 4) {
        return;
    }
    agent_status(a, &s);
    if (s.ticks != p->ticks || p->moved_ns == 0) {
        p->ticks = s.ticks;
        p->moved_ns = now_ns;
    }
    if (now_ns - p->moved_ns < p->limit_ns) {
        os_notify("WATCHDOG=1");
        p->told_ns = now_ns;
    }
}

/* Until a stop signal, or the source's failure. */
static int attend(struct agent *a, const struct agent_conf *conf)
{
    struct report told = {.dir = conf->state_dir};
    struct pace pace = {.limit_ns = os_notify_watchdog_ns()};
    struct agent_status s;

    while (agent_wait(a, LOOK_NS)) {
        report(a, &told);
        reassure(a, &pace);
        if (agent_cmd_stopped()) {
            agent_stop(a);
        }
    }
    os_notify("STOPPING=1\nSTATUS=sending what is left");
    drain(a, &s);
    write_report(a, &told);
    log_end(&s);
    if (s.result != ERR_OK) {
        log_line(LOG_ERROR, "agent", "source_failed", "error=%s", err_name(s.result));
        return agent_cmd_fail(s.result, "the source of events failed; see the log");
    }
    return AGENT_CMD_OK;
}

static enum err read_level(struct agent_opts *what, const struct opt_args *args, struct errmsg *why)
{
    const char *level = opt_value(args, "level"), *span = opt_value(args, "for");

    if (!level) {
        return span ? errmsg_set(why, ERR_USAGE, "--for: it needs --level") : ERR_OK;
    }
    if (strlen(level) != 2 || level[0] != 'L' || level[1] < '0' || level[1] > '4') {
        return errmsg_set(why, ERR_USAGE, "--level: '%s' is not L0, L1, L2, L3 or L4", level);
    }
    what->level = (unsigned)(level[1] - '0');
    what->level_span_ns = FOR_NS;
    if (span && (clk_parse_span(&what->level_span_ns, span) || what->level_span_ns <= 0)) {
        return errmsg_set(why, ERR_USAGE, "--for: '%s' is not a time such as 60s or 5min", span);
    }
    return ERR_OK;
}

static int cmd_run(const struct opt_args *args)
{
    struct agent_conf conf;
    struct agent_opts what = {.conf = &conf};
    struct agent *a = NULL;
    struct errmsg why = {""};
    enum err e;
    int code;

    os_lean_heap();
    e = read_level(&what, args, &why);
    if (!e) {
        e = agent_cmd_trusted_settings(&conf, args, &why);
    }
    if (e) {
        return agent_cmd_fail(e, why.text);
    }
    e = agent_cmd_catch_stop(&why);
    if (!e) {
        e = agent_start(&a, &what, &why);
    }
    if (e) {
        code = agent_cmd_fail(e, why.text);
    } else {
        log_start(a, &conf);
        os_notify("READY=1\nSTATUS=watching %s", agent_about(a)->name);
        code = attend(a, &conf);
    }
    agent_destroy(a, os_mono_ns());
    agent_conf_fini(&conf);
    return code;
}
