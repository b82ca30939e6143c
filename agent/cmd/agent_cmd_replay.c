#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cmd/agent_cmd.h"
#include "common/base/clk.h"
#include "common/base/plural.h"
#include "common/log/log.h"
#include "common/os/os.h"

#define LOOK_NS    (100 * CLK_MS)
#define SPEED_MAX  1000.0
#define TIMEOUT_NS (30 * CLK_S)

static const struct opt opts[] = {
    {"speed", 0, "FACTOR|max", "times as fast as recorded (default max: as fast as possible)",
     false},
    {"time", 0, "now|original",
     "now (default): the recording ends now; original: as recorded, which the collector must be "
     "told to accept (accept_age)",
     false},
    {"name", 0, "HOST", "the host it is replayed as; must be the certificate's name", false},
    {"timeout", 0, "SPAN", "give up when the collector cannot be reached for so long (default 30s)",
     false},
    AGENT_CMD_CONF_OPTS,
    OPT_FORMER("name", 'n', "HOST", false),
};

static int replay_run(const struct opt_args *args);

const struct opt_command cmd_replay_opts = {
    .program = "procfleet-agent",
    .name = "replay",
    .brief = "send recorded Windows traces (.etl, .etl.xz) as if they were a host",
    .operands = "FILE...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .sets = cmd_conf_sets,
    .examples = "  procfleet-agent replay trace.etl --config replay.yaml\n"
                "  procfleet-agent replay trace.etl.xz --speed 1 --name build-7 \\\n"
                "      --set collector.addresses=127.0.0.1:7420 --set state_dir=/tmp/build-7\n",
    .action = &(const struct opt_action){.judge = replay_run},
};

/* -- the command line -- */

static enum err parse_speed(int64_t *permille, const char *text, struct errmsg *why)
{
    char *end;
    double v;

    *permille = 0;
    if (!text || strcmp(text, "max") == 0) {
        return ERR_OK;
    }
    v = strtod(text, &end);
    if (end == text || *end || !(v >= 0.001 && v <= SPEED_MAX)) {
        return errmsg_set(why, ERR_USAGE,
                          "--speed %s: expected max, or a number from 0.001 to %.0f", text,
                          SPEED_MAX);
    }
    *permille = (int64_t)(v * 1000 + 0.5);
    return ERR_OK;
}

static enum err parse_time(bool *rebase, const char *text, struct errmsg *why)
{
    *rebase = !text || strcmp(text, "now") == 0;
    if (!*rebase && strcmp(text, "original") != 0) {
        return errmsg_set(why, ERR_USAGE, "--time %s: expected now or original", text);
    }
    return ERR_OK;
}

static enum err parse_timeout(int64_t *ns, const char *text, struct errmsg *why)
{
    *ns = TIMEOUT_NS;
    if (text && (clk_parse_span(ns, text) || *ns <= 0)) {
        return errmsg_set(why, ERR_USAGE, "--timeout %s: expected a span such as 30s or 2m", text);
    }
    return ERR_OK;
}

static enum err read_options(struct agent_opts *what, int64_t *timeout_ns,
                             const struct opt_args *args, struct errmsg *why)
{
    char **files;
    enum err e;

    what->n_files = opt_operands(args, &files);
    what->files = (const char *const *)files;
    what->name = opt_value(args, "name");
    if (what->n_files == 0) {
        return errmsg_set(why, ERR_USAGE, "no FILE given; --help shows examples");
    }
    e = parse_speed(&what->speed_permille, opt_value(args, "speed"), why);
    if (!e) {
        e = parse_time(&what->rebase, opt_value(args, "time"), why);
    }
    return e ? e : parse_timeout(timeout_ns, opt_value(args, "timeout"), why);
}

/* -- while it plays -- */

static void show_progress(const struct agent_status *s, int64_t begun_ns)
{
    int64_t ms = (os_mono_ns() - begun_ns) / CLK_MS + 1;

    if (os_is_terminal(2)) {
        fprintf(stderr, "\r%3d %%  %llu events (%lld k/s)  %llu of %llu %s acknowledged \033[K",
                s->permille / 10, (unsigned long long)s->events,
                (long long)s->events / (long long)ms, (unsigned long long)s->uplink.acknowledged,
                (unsigned long long)s->batches, plural(s->batches, "batch", "batches"));
        fflush(stderr);
    }
}

static void end_progress(void)
{
    if (os_is_terminal(2)) {
        fputs("\r\033[K", stderr);
    }
}

/* Whether going on is of no use: the collector refuses us, or has not answered for too long. */
static enum err hopeless(const struct agent_status *s, int64_t timeout_ns, struct errmsg *why)
{
    const struct uplink_status *u = &s->uplink;

    if (u->state == UPLINK_REFUSED) {
        return errmsg_set(why, ERR_REFUSED, "the collector cannot be used: %.400s", u->why);
    }
    if (u->state != UPLINK_CONNECTED && os_mono_ns() - u->since_ns > timeout_ns) {
        return errmsg_set(why, ERR_UNREACHABLE, "the collector did not answer for %lld s: %.400s",
                          (long long)(timeout_ns / CLK_S), u->why);
    }
    return ERR_OK;
}

/* Until everything is acknowledged, a stop signal, or no hope. */
static enum err attend(struct agent *a, struct agent_status *s, int64_t timeout_ns,
                       struct errmsg *why)
{
    int64_t begun_ns = os_mono_ns();
    enum err e = ERR_OK;

    agent_status(a, s);
    while (!e && !(s->ended && s->uplink.drained)) {
        if (agent_wait(a, LOOK_NS) == ERR_OK) {
            os_sleep_ns(LOOK_NS / 10); /* played; what is left is the collector's answer */
        }
        agent_status(a, s);
        show_progress(s, begun_ns);
        e = hopeless(s, timeout_ns, why);
        if (agent_cmd_stopped()) {
            e = errmsg_set(why, ERR_CLOSED, "stopped before everything was acknowledged");
        }
    }
    end_progress();
    return e;
}

static enum err judge(const struct agent_status *s, struct errmsg *why)
{
    if (s->result != ERR_END) {
        return errmsg_set(why, s->result ? s->result : ERR_IO,
                          "the recording could not be read "
                          "to its end: %s",
                          err_text(s->result));
    }
    if (s->uplink.quarantined > 0) {
        return errmsg_set(why, ERR_REFUSED, "the collector refused %llu of %llu %s: %.300s",
                          (unsigned long long)s->uplink.quarantined, (unsigned long long)s->batches,
                          plural(s->batches, "batch", "batches"), s->uplink.why);
    }
    if (s->queue.refused > 0) {
        return errmsg_set(why, ERR_FULL,
                          "%llu %s did not fit into the queue; raise "
                          "queue.max_bytes",
                          (unsigned long long)s->queue.refused,
                          plural(s->queue.refused, "batch", "batches"));
    }
    return ERR_OK;
}

static void print_summary(const struct agent *a, const struct agent_status *s, int64_t took_ns)
{
    printf(
        "%s: events %llu, processes %llu, starts %llu, stops %llu, unattributed %llu, lost %llu; ",
        agent_name(a), (unsigned long long)s->events, (unsigned long long)s->processes,
        (unsigned long long)s->starts, (unsigned long long)s->stops,
        (unsigned long long)s->unattributed, (unsigned long long)s->lost);
    printf("%llu of %llu %s acknowledged in %lld.%lld s\n",
           (unsigned long long)s->uplink.acknowledged, (unsigned long long)s->batches,
           plural(s->batches, "batch", "batches"), (long long)(took_ns / CLK_S),
           (long long)(took_ns / (100 * CLK_MS) % 10));
}

static void log_start(const struct agent *a)
{
    char host[80], detail[600];

    log_line(LOG_INFO, "agent", "replaying", "host=%s detail=%s",
             log_str(host, sizeof host, agent_name(a)),
             log_str(detail, sizeof detail, agent_about(a)->detail));
}

static int play(struct agent *a, int64_t timeout_ns)
{
    int64_t begun_ns = os_mono_ns();
    struct errmsg why = {""};
    struct agent_status s;
    enum err e = attend(a, &s, timeout_ns, &why);

    if (!e) {
        e = judge(&s, &why);
    }
    print_summary(a, &s, os_mono_ns() - begun_ns);
    return e ? agent_cmd_fail(e, why.text) : AGENT_CMD_OK;
}

static int replay_run(const struct opt_args *args)
{
    struct agent_conf conf = {0};
    struct agent_opts what = {.conf = &conf};
    struct agent *a = NULL;
    struct errmsg why = {""};
    int64_t timeout_ns;
    enum err e;
    int code;

    e = read_options(&what, &timeout_ns, args, &why);
    if (!e) {
        e = agent_cmd_settings(&conf, args, &why);
    }
    if (!e) {
        e = agent_cmd_catch_stop(&why);
    }
    if (!e) {
        e = agent_start(&a, &what, &why);
    }
    if (e) {
        code = agent_cmd_fail(e, why.text);
    } else {
        log_start(a);
        code = play(a, timeout_ns);
    }
    agent_destroy(a, os_mono_ns());
    agent_conf_fini(&conf);
    return code;
}
