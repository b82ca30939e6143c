/* What the agent that runs with this state directory says of itself: see
 * agent/status/status_file.h. */
#include <stdio.h>
#include <string.h>

#include "agent/doctor/doctor_host.h"
#include "agent/status/status_file.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/os/os.h"

#define BREAKS_MAX 5u /* in ten minutes: more than a restart of the collector makes */

static const char *utc(char text[CLK_TEXT], int64_t wall_ns)
{
    return clk_format_utc(text, CLK_TEXT, wall_ns, 0);
}

/* True: it runs, and what the file says is of now. */
static bool check_running(struct doctor *d, const struct status *s, bool locked)
{
    char when[CLK_TEXT], since[CLK_TEXT];

    (void)utc(when, s->written_ns);
    if (status_life(s, locked, d->now_ns) == STATUS_RUNS) {
        check_result_report(d->all, "agent.running", CHECK_RESULT_OK, "",
                            "process %u, version %s, runs since %s at level L%u", (unsigned)s->pid,
                            s->version, utc(since, s->started_ns), s->level);
        return true;
    }
    if (locked) {
        check_result_report(d->all, "agent.running", CHECK_RESULT_WARNING,
                            "if it just starts, run doctor again; else restart it, and see its log",
                            "an agent runs, but has told nothing of itself since %s", when);
    } else if (s->running) {
        check_result_report(
            d->all, "agent.running", CHECK_RESULT_WARNING,
            "see its log for what ended it, and start it again",
            "no agent runs; the last one, process %u, did not end in good order at about %s",
            (unsigned)s->pid, when);
    } else {
        check_result_report(d->all, "agent.running", CHECK_RESULT_SKIPPED, "",
                            "no agent runs; the last one ended in good order at %s", when);
    }
    return false;
}

static const char *last_of_source(const struct status *s)
{
    const char *text = s->detail;

    for (size_t i = 0; i < s->n_notes; i++) {
        text = s->notes[i].level ? text : s->notes[i].text;
    }
    return text;
}

static void check_source(struct doctor *d, const struct status *s)
{
    char when[CLK_TEXT];

    check_result_report(
        d->all, "agent.source", s->polled ? CHECK_RESULT_WARNING : CHECK_RESULT_OK,
        s->polled ? "processes that live shorter than a sample are missed; remove what is "
                    "told to stand in the way, the agent tries again by itself"
                  : "",
        "%s%s since %s: %s", s->source, s->polled ? ", polled," : "", utc(when, s->source_since_ns),
        last_of_source(s));
}

/* -- cost -- */

/* What ticks of a second may take on a host of 2,000 processes: docs/performance.md. */
#define CORE_PPM     20000
#define COST_SPAN_NS (60 * CLK_S)
#define FALLS_MAX    3u /* in an hour: climbing again and again to what cannot be held */

static const char *fix_of_cost(const struct status *s, uint64_t machine_ppm)
{
    if (s->cost.limit > 0 && s->cost.memory > s->cost.limit) {
        return "raise budget.mem; else the agent stays at the lowest level";
    }
    if (s->level > 0 && machine_ppm > s->cost.cpu_permille * 1000) {
        return "it goes down a level by itself; if it climbs back, lower sampler.level_max or "
               "sampling.rate_hz, or raise budget.cpu";
    }
    return "there is no lower level: lower sampling.rate_hz below 1 (0.5 halves it); if many "
           "processes live here or many start each second, that is their price";
}

/* Of a core, and of the machine against the budget. Little time says nothing. */
static void check_cost(struct doctor *d, const struct status *s)
{
    const struct status_cost *c = &s->cost;
    uint64_t machine_ppm = c->cpu_ppm / (c->cpus ? c->cpus : 1);
    bool high = (c->cpu_permille && machine_ppm > c->cpu_permille * 1000) ||
                (s->level == 0 && c->cpu_ppm > CORE_PPM) || (c->limit && c->memory > c->limit);

    if (c->span_ns < COST_SPAN_NS) {
        check_result_report(d->all, "agent.cost", CHECK_RESULT_SKIPPED, "",
                            "the agent tells its cost a minute after its start");
        return;
    }
    check_result_report(
        d->all, "agent.cost", high ? CHECK_RESULT_WARNING : CHECK_RESULT_OK,
        high ? fix_of_cost(s, machine_ppm) : "",
        "%.2f %% of a core in the last %d s at L%u, %llu processes; %.2f %% of the machine "
        "(budget.cpu %.1f %%), %llu MiB (budget.mem %llu MiB)",
        (double)c->cpu_ppm / 1e4, (int)(c->span_ns / CLK_S), s->level,
        (unsigned long long)s->processes, (double)machine_ppm / 1e4, c->cpu_permille / 10.0,
        (unsigned long long)(c->memory >> 20), (unsigned long long)(c->limit >> 20));
}

static const struct {
    const char *cause, *fix;
} falls[] = {
    {"cpu", "raise budget.cpu, or lower sampler.level_max to a level that is held"},
    {"memory", "raise budget.mem, or lower sampler.level_max to a level that is held"},
    {"events", "raise budget.events, or lower sampler.level_max to a level that is held"},
    {"ring", "raise etw.ring_bytes, or lower sampler.level_max to a level that is held"},
    {"loss", "see agent.losses for what was lost; lower sampler.level_max to a level that is held"},
};

static void check_level(struct doctor *d, const struct status *s)
{
    uint64_t n = status_falls(s), most = 0;
    char since[CLK_TEXT], causes[120] = "";
    const char *fix = "";
    size_t at = 0;

    for (size_t i = 0; i < sizeof falls / sizeof *falls; i++) {
        char reason[16];
        uint64_t times;

        (void)snprintf(reason, sizeof reason, "down_%s", falls[i].cause);
        times = status_lost(s, "level", reason);
        if (times > 0) {
            at += (size_t)snprintf(causes + at, sizeof causes - at, "%s%s %llu", at ? ", " : ": ",
                                   falls[i].cause, (unsigned long long)times);
        }
        if (times > most) {
            most = times;
            fix = falls[i].fix;
        }
        at = at < sizeof causes ? at : sizeof causes - 1;
    }
    check_result_report(
        d->all, "agent.level", n >= FALLS_MAX ? CHECK_RESULT_WARNING : CHECK_RESULT_OK,
        n >= FALLS_MAX ? fix : "", "L%u since %s, %llu %s down in the last hour%s", s->level,
        utc(since, s->level_since_ns), (unsigned long long)n, plural(n, "step", "steps"), causes);
}

/* -- losses -- */

static const struct {
    const char *stage, *reason, *fix;
} fixes[] = {
    {"etw", "kernel_events", "raise etw.max_buffers, or set etw.preset to burst"},
    {"etw", "kernel_buffers", "raise etw.max_buffers, or set etw.preset to burst"},
    {"etw", "session_lost",
     "another program stops our sessions: see the agent's log for when, and tell it to leave "
     "sessions named procfleet alone"},
    {"etw", "providers_refused", "see the agent's log for which provider, and why"},
    {"etw", "flags_refused", "see 'rights' above: the kernel's events need them"},
    {"table", "capped", "more processes live here than one table takes; the rest is not reported"},
    {"sampler", "capped", "more processes live here than one tick takes; filter some"},
    {"queue", "oldest_dropped",
     "the collector was away for longer than the queue lasts: raise queue.max_bytes"},
    {"queue", "refused", "a batch was larger than the queue: raise queue.max_bytes"},
    {"spool", "metrics_dropped",
     "the collector was away for longer than the spool lasts: raise spool.max_bytes"},
    {"spool", "events_dropped",
     "the collector was away for longer than the spool lasts: raise spool.max_bytes"},
    {"spool", "metrics_expired", "the collector was away for longer than spool.max_age"},
    {"spool", "events_expired", "the collector was away for longer than spool.max_age"},
    {"spool", "metrics_unwritten",
     "the disk of spool.dir failed: see 'spool failed' in the agent's log"},
    {"spool", "events_unwritten",
     "the disk of spool.dir failed: see 'spool failed' in the agent's log"},
    {"spool", "unreadable", "the disk of spool.dir returns other bytes than were written"},
    {"spool", "header_damaged", "the disk of spool.dir returns other bytes than were written"},
    {"uplink", "quarantined", "'procfleet-agent spool list' shows them with the reason"},
    {"uplink", "metrics_quarantined", "'procfleet-agent spool list' shows them with the reason"},
    {"uplink", "events_quarantined", "'procfleet-agent spool list' shows them with the reason"},
};

static const char *fix_of(const struct status *s, const struct status_loss *l)
{
    bool of_source = strcmp(l->stage, "source") == 0;

    for (size_t i = 0; i < sizeof fixes / sizeof *fixes; i++) {
        if (strcmp(l->stage, fixes[i].stage) == 0 && strcmp(l->reason, fixes[i].reason) == 0) {
            return fixes[i].fix;
        }
    }
    if (strncmp(l->reason, "full_", 5) == 0) {
        return "raise etw.ring_bytes, or lower sampler.level_max";
    }
    if (of_source && strncmp(l->reason, "lost_", 5) == 0 &&
        (status_lost(s, "etw", "kernel_events") || status_lost(s, "etw", "kernel_buffers"))) {
        return fixes[0].fix;
    }
    if (of_source && strncmp(l->reason, "lost_", 5) == 0) {
        return "the rows of stage etw say where: raise etw.ring_bytes for full_*, etw.max_buffers "
               "for kernel_*";
    }
    return "see docs/ledger.md for what the stage does";
}

/* Of stage etw those that something can be done about; their losses are counted elsewhere. Damage
 * that cost nothing yet. */
static bool is_worth_a_line(const struct status_loss *l)
{
    static const char *const causes[] = {"session_lost", "providers_refused", "flags_refused"};

    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        if (strcmp(l->stage, "etw") == 0 && strcmp(l->reason, causes[i]) == 0) {
            return l->hour > 0;
        }
    }
    if (strcmp(l->stage, "spool") == 0 && strcmp(l->reason, "header_damaged") == 0) {
        return l->hour > 0;
    }
    return strcmp(l->stage, "etw") == 0 ? strncmp(l->reason, "full_", 5) == 0 && l->hour > 0
                                        : l->missing && l->hour > 0;
}

static void check_losses(struct doctor *d, const struct status *s)
{
    char since[CLK_TEXT];
    unsigned told = 0;

    (void)utc(since, s->started_ns);
    for (size_t i = 0; i < s->n_losses; i++) {
        const struct status_loss *l = &s->losses[i];

        if (is_worth_a_line(l)) {
            check_result_report(d->all, "agent.losses", CHECK_RESULT_WARNING, fix_of(s, l),
                                "%s %s: %llu in the last hour, %llu since %s", l->stage, l->reason,
                                (unsigned long long)l->hour, (unsigned long long)l->total, since);
            told++;
        }
    }
    if (told == 0) {
        check_result_report(d->all, "agent.losses", CHECK_RESULT_OK, "",
                            "nothing was lost in the last hour; %llu %s since %s",
                            (unsigned long long)status_missing(s, true),
                            plural(status_missing(s, true), "event or row", "events or rows"),
                            since);
    }
}

static const char *fix_of_uplink(const struct status *s)
{
    if (strcmp(s->uplink, "refused") == 0) {
        return "do what it names; nothing is lost while the spool has room. A certificate that was "
               "revoked, or is of another authority, needs a new token and procfleet-agent enroll "
               "--force";
    }
    if (strcmp(s->uplink, "failing") == 0) {
        return "no batch gets through although the collector answers: see the collector's log "
               "(disk, limits.batch_bytes) and what stands between, such as a relay with limits of "
               "its own; the batches are kept and sent when it is mended";
    }
    if (strcmp(s->uplink, "connected") == 0) {
        return "something between here and the collector ends connections, or the collector does: "
               "see its log; batches arrive late, none is lost";
    }
    return "see 'collector' below; what waits is sent when it answers again, the oldest is dropped "
           "when the spool is full";
}

static void check_uplink(struct doctor *d, const struct status *s)
{
    bool connected = strcmp(s->uplink, "connected") == 0, flaps = s->breaks >= BREAKS_MAX;
    char when[CLK_TEXT], breaks[80] = "";

    if (flaps) {
        (void)snprintf(breaks, sizeof breaks, ", %llu connections broke in the last ten minutes",
                       (unsigned long long)s->breaks);
    }
    check_result_report(d->all, "agent.uplink",
                        connected && !flaps ? CHECK_RESULT_OK : CHECK_RESULT_WARNING,
                        connected && !flaps ? "" : fix_of_uplink(s),
                        "%s since %s, %llu %s acknowledged, %llu %s%s%s%s", s->uplink,
                        utc(when, s->uplink_since_ns), (unsigned long long)s->acknowledged,
                        plural(s->acknowledged, "batch", "batches"),
                        (unsigned long long)s->queue_held, plural(s->queue_held, "waits", "wait"),
                        breaks, connected || !s->why[0] ? "" : ": ", connected ? "" : s->why);
}

static void check_renewal(struct doctor *d, const struct status *s)
{
    char end[CLK_TEXT], next[CLK_TEXT];

    if (s->certificate_end_ns == 0) { /* an older agent, or one that replays */
        check_result_report(d->all, "agent.certificate", CHECK_RESULT_SKIPPED, "",
                            "the agent tells nothing of it");
        return;
    }
    (void)utc(end, s->certificate_end_ns);
    (void)utc(next, s->renew_ns);
    if (s->renew_why[0]) {
        check_result_report(
            d->all, "agent.certificate", CHECK_RESULT_WARNING,
            "mend what it names; the agent tries again by itself. What the collector "
            "refuses for good (revoked, expired for too long) needs a new token and "
            "procfleet-agent enroll --force",
            "the certificate ends %s and was not renewed, %llu %s failed, the next is "
            "due %s: %s",
            end, (unsigned long long)s->renew_failed, plural(s->renew_failed, "try", "tries"), next,
            s->renew_why);
    } else {
        check_result_report(d->all, "agent.certificate", CHECK_RESULT_OK, "",
                            "the certificate ends %s and is renewed by itself at about %s", end,
                            next);
    }
}

static void check_aside(struct doctor *d, const struct status *s)
{
    uint64_t refused = s->aside_held - s->aside_broken;

    if (s->aside_held == 0) {
        check_result_report(d->all, "agent.quarantine", CHECK_RESULT_OK, "",
                            "no batch is set aside");
    }
    if (refused > 0) {
        check_result_report(
            d->all, "agent.quarantine", CHECK_RESULT_WARNING,
            "'procfleet-agent spool list' shows them with the reason; when that is mended, 'spool "
            "retry all' sends them again, 'spool drop all' removes them",
            "%llu %s, %llu bytes, %s refused by the collector for good and %s kept",
            (unsigned long long)refused, plural(refused, "batch", "batches"),
            (unsigned long long)s->aside_bytes, plural(refused, "was", "were"),
            plural(refused, "is", "are"));
    }
    if (s->aside_broken > 0) {
        check_result_report(
            d->all, "agent.quarantine", CHECK_RESULT_WARNING,
            "the agent sends them again by itself; 'procfleet-agent spool list' shows "
            "what they have in common, the collector's log why it fails under them, and "
            "'spool retry all' does not wait",
            "connections broke under %llu %s while others got through",
            (unsigned long long)s->aside_broken, plural(s->aside_broken, "batch", "batches"));
    }
}

static void check_filter(struct doctor *d, const struct status *s)
{
    bool nobody = s->reported == 0 && s->filtered > 0;

    check_result_report(
        d->all, "agent.filter", nobody ? CHECK_RESULT_WARNING : CHECK_RESULT_OK,
        nobody ? "see the names and numbers of process_filter; 'procfleet-agent show-wire "
                 "--for 10s' shows what they leave"
               : "",
        "%llu %s of processes reported since the start, %llu hidden by process_filter",
        (unsigned long long)s->reported, plural(s->reported, "row", "rows"),
        (unsigned long long)s->filtered);
}

static void skip_rest(struct doctor *d)
{
    static const char *const rest[] = {"agent.source",     "agent.filter",     "agent.cost",
                                       "agent.level",      "agent.losses",     "agent.uplink",
                                       "agent.quarantine", "agent.certificate"};

    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        check_result_report(d->all, rest[i], CHECK_RESULT_SKIPPED, "",
                            "only a running agent tells it");
    }
}

static bool check_file(struct doctor *d, struct status *s, bool locked)
{
    const char *dir = d->conf->state_dir;
    enum err e = status_file_read(s, dir);

    if (!e) {
        return check_running(d, s, locked);
    }
    if (e == ERR_NOTFOUND && !locked) {
        check_result_report(d->all, "agent.running", CHECK_RESULT_SKIPPED, "",
                            "no agent has run with %s yet", dir);
    } else {
        check_result_report(
            d->all, "agent.running", CHECK_RESULT_WARNING,
            e == ERR_ACCESS ? "run doctor as the agent's user"
                            : "a running agent writes it anew within seconds; if it does "
                              "not, see that the directory can be written",
            "what the agent tells of itself, " STATUS_FILE " in %s, cannot be read: %s", dir,
            err_text(e));
    }
    return false;
}

bool doctor_agent(struct doctor *d)
{
    bool locked = status_file_locked(d->conf->state_dir);
    struct status *s = mem_zalloc(sizeof *s);

    if (!s) {
        check_result_report(d->all, "agent.running", CHECK_RESULT_FAILED, "free some memory",
                            "out of memory");
        return locked;
    }
    if (check_file(d, s, locked)) {
        check_source(d, s);
        check_filter(d, s);
        check_cost(d, s);
        check_level(d, s);
        check_losses(d, s);
        check_uplink(d, s);
        check_aside(d, s);
        check_renewal(d, s);
    } else {
        skip_rest(d);
    }
    mem_free(s);
    return locked;
}
