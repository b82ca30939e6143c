#include "agent/doctor/doctor_facts.h"

#include <stdlib.h>

#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/base/plural.h"

#define ROW    0x100 /* bytes of a process's row, before its threads */
#define REPORT "please report it with the system's build; see docs/windows.md, Unverified"

/* Of a machine at work: some processes start and end between rundown and table. */
#define NEAR(n) ((n) / 20 + 5)

#define SAY(d, check, sound, ...)                                                        \
    check_result_report(d->all, check, (sound) ? CHECK_RESULT_OK : CHECK_RESULT_WARNING, \
                        (sound) ? "" : REPORT, __VA_ARGS__)

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

enum err doctor_facts_table(struct doctor_table *out, const uint8_t *p, size_t n)
{
    struct doctor_table t = {0};
    size_t at = 0;
    uint32_t next;

    do {
        struct cur c;

        if (n < ROW || at > n - ROW) {
            return ERR_CORRUPT;
        }
        c = cur_make(p + at, n - at);
        next = cur_u32le(&c);
        cur_skip(&c, 0x18 - 4);
        t.cycles += cur_u64le(&c);
        cur_skip(&c, 8);
        t.tick = common_divisor(t.tick, cur_u64le(&c)); /* user */
        t.tick = common_divisor(t.tick, cur_u64le(&c)); /* kernel */
        if (c.bad || (next && next < ROW)) {
            return ERR_CORRUPT;
        }
        t.n++;
        at += next;
    } while (next);
    *out = t;
    return ERR_OK;
}

static long long us(int64_t ns)
{
    return (long long)(ns / CLK_US);
}

static bool near(unsigned a, unsigned b)
{
    return a > 0 && abs((int)a - (int)b) <= (int)NEAR(b);
}

static void tell_rundown(struct doctor *d, const struct doctor_seen *s)
{
    SAY(d, "fact.rundown", near(s->told, s->living),
        "%u processes were told when the flags were set to none first, %u without; the table has "
        "%u",
        s->told, s->told_once, s->living);
    if (s->keys > 0) {
        check_result_report(d->all, "fact.addresses", CHECK_RESULT_OK, "",
                            "%llu of %llu kernel addresses were hidden (zero)",
                            (unsigned long long)s->keys_zero, (unsigned long long)s->keys);
    }
}

static void tell_kinds(struct doctor *d, const struct doctor_seen *s)
{
    SAY(d, "fact.masks", s->masks >> 3 & 1, "group masks of %s%s%s%sbytes are taken",
        s->masks & 1 ? "4 " : "", s->masks & 2 ? "8 " : "", s->masks & 4 ? "16 " : "",
        s->masks & 8 ? "32 " : "no ");
    SAY(d, "fact.versions", s->kp_start >= 0 && s->kp_stop >= 0,
        "Kernel-Process: start of version %d, stop of version %d (-1: none came)", s->kp_start,
        s->kp_stop);
    if (s->loggers > 0) {
        check_result_report(d->all, "fact.loggers", CHECK_RESULT_OK, "",
                            "at most %u sessions on this system", s->loggers);
    }
}

/* Where a buffer is lost, the events in it are counted by nobody. */
static void tell_loss(struct doctor *d, const struct doctor_seen *s)
{
    bool lost = s->counted_events || s->counted_buffers;
    bool told = s->told_events || s->told_buffers;

    if (!s->forced || (!lost && !told)) {
        check_result_report(
            d->all, "fact.loss", CHECK_RESULT_SKIPPED, "",
            "no event was lost although two small buffers were left full: nothing to see");
        return;
    }
    SAY(d, "fact.loss", lost && told,
        "under an overload on purpose the session counted %llu events and %llu buffers, and its "
        "stream told of %llu and %llu",
        (unsigned long long)s->counted_events, (unsigned long long)s->counted_buffers,
        (unsigned long long)s->told_events, (unsigned long long)s->told_buffers);
}

static void tell_delays(struct doctor *d, const struct doctor_seen *s)
{
    for (size_t i = 0; i < DOCTOR_DELAYS; i++) {
        const struct doctor_delay *x = &s->delays[i];

        SAY(d, "fact.delay", x->seen == x->started && x->started > 0,
            "flushed each %u ms: %u of %u starts told, after %lld to %lld us, median %lld",
            x->flush_ms ? x->flush_ms : 1000, x->seen, x->started, us(x->least_ns), us(x->most_ns),
            us(x->median_ns));
    }
    SAY(d, "fact.order", s->backwards == 0,
        "%llu of %llu records of one stream were older than the one before",
        (unsigned long long)s->backwards, (unsigned long long)s->records);
    if (s->switches_ns > 0) {
        SAY(d, "fact.switches", s->switches_lost == 0,
            "%llu records a second with context switches, %llu events lost",
            (unsigned long long)(s->switches * (uint64_t)CLK_S / (uint64_t)s->switches_ns),
            (unsigned long long)s->switches_lost);
    }
}

static void tell_children(struct doctor *d, const struct doctor_seen *s)
{
    bool all =
        s->children > 0 && s->children_seen == s->children && s->children_lines == s->children;

    SAY(d, "fact.children", all,
        "of %u children that lived for a moment %u starts were told, %u with the whole command "
        "line",
        s->children, s->children_seen, s->children_lines);
    if (s->end_known > 0) {
        SAY(d, "fact.totals", s->end_told == s->end_known,
            "a child's end told %llu cycles, its handle %llu", (unsigned long long)s->end_told,
            (unsigned long long)s->end_known);
    }
}

static void tell_tables(struct doctor *d, const struct doctor_seen *s)
{
    int64_t available_ns = s->cycles_ns * (int64_t)s->cpus;

    if (s->tick_ns > 0) {
        check_result_report(d->all, "fact.ticks", CHECK_RESULT_OK, "",
                            "CPU times in the table are multiples of %lld us", us(s->tick_ns));
    }
    if (s->cycles == 0 || available_ns <= 0) {
        check_result_report(d->all, "fact.cycles", CHECK_RESULT_SKIPPED, "",
                            "this system counts no cycles");
        return;
    }
    check_result_report(d->all, "fact.cycles", CHECK_RESULT_OK, "",
                        "all processes and idle: %llu cycles in %lld us on %u CPUs, %llu MHz each",
                        (unsigned long long)s->cycles, us(s->cycles_ns), s->cpus,
                        (unsigned long long)(s->cycles / ((uint64_t)available_ns / 1000 + 1)));
}

static void tell_self(struct doctor *d, const struct doctor_seen *s)
{
    if (s->handles_known) {
        SAY(d, "fact.handles", s->handles == 0, "%u %s held by this program", s->handles,
            plural(s->handles, "handle of another process was", "handles of other processes were"));
    }
    if (s->interval_before > 0) {
        SAY(d, "fact.interval", s->interval_before == s->interval_after,
            "CPU samples of this machine: each %u us before, each %u us after",
            s->interval_before / 10, s->interval_after / 10);
    }
    if (s->path_tried) {
        SAY(d, "fact.names", s->path_works, "a file name beyond ASCII %s",
            s->path_works ? "works" : "does not work");
    }
    check_result_report(d->all, "fact.cost", CHECK_RESULT_OK, "",
                        "this took %lld ms of CPU time and %lld KiB of memory",
                        (long long)(s->cpu_ns / CLK_MS), (long long)(s->resident >> 10));
}

static void tell_elsewhere(struct doctor *d)
{
    static const char *const texts[] = {
        ("the service comes back after a crash: end its process in the task manager, wait 2 s, "
         "ask 'service status'"),
        "it is there after the next start of the system, and its lines stand in the event log",
        "it stays within its own CPU time and memory for 72 h: 'procfleet history' of agent.*",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        check_result_report(d->all, "fact.service", CHECK_RESULT_SKIPPED, "",
                            "cannot be tried here: %s", texts[i]);
    }
}

void doctor_facts_tell(struct doctor *d, const struct doctor_seen *s)
{
    if (s->reads) {
        tell_rundown(d, s);
        tell_kinds(d, s);
        tell_loss(d, s);
        tell_delays(d, s);
        tell_children(d, s);
    } else {
        check_result_report(
            d->all, "fact.sessions", CHECK_RESULT_SKIPPED, "",
            "not applicable here: rundown, masks, versions, loss, delays, order, children "
            "and totals need a trace session: %s",
            s->why.text);
    }
    tell_tables(d, s);
    tell_self(d, s);
    tell_elsewhere(d);
}
