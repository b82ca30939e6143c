/* Which instance is meant. Kernel records of a start have no time of creation: its id is then
 * provisional, made of the record's own time, until the first exact one, of the manifest provider
 * or of a table, less than LIFECYCLE_WAIT_NS apart and with no end between. Clocks may be set at
 * any moment: two records are held against each other by their stamps, which nobody sets, and two
 * that both know the number of the start (Windows 10 and newer) by that; times of creation are for
 * whoever has neither. Whoever has been told
 * of the provisional id goes on hearing it; the exact start leads to the same instance. What is
 * known exactly and differs is another instance, however near: pids may be reused within
 * milliseconds. */
#include "agent/process/lifecycle_match.h"

#include "common/base/clk.h"

/* Stamps of records and times of creation come from two clocks of the system. */
#define LIFECYCLE_SKEW_NS (50 * CLK_MS)

/* Two providers' records of one moment are so far apart. */
#define LIFECYCLE_JITTER_NS (5 * CLK_MS)

struct instance *lifecycle_match_id(const struct instances *t, struct proc_id id)
{
    struct instance *p = instances_find(t, id);

    if (p || id.start == 0) {
        return p;
    }
    for (p = instances_owner(t, id.pid); p; p = p->older) {
        if (p->life.exact_start == id.start) {
            return p;
        }
    }
    return NULL;
}

struct instance *lifecycle_match_sequence(const struct instances *t, uint32_t pid,
                                          uint64_t sequence)
{
    struct instance *p = instances_owner(t, pid);

    while (p && p->info.sequence != sequence) {
        p = p->older;
    }
    return p;
}

/* Numbers of starts tell two apart, whatever the clocks say. */
static bool lifecycle_match_other(const struct instance *p, const struct proc_info *info)
{
    return p->info.sequence && info->sequence && p->info.sequence != info->sequence;
}

/* How far apart two times of creation are; INT64_MAX: not the same process's, or not known. */
static int64_t lifecycle_match_apart_ns(const struct instance *p, const struct proc_info *info)
{
    int64_t ns;

    if (!(p->info.have & INFO_CREATE_TIME) || lifecycle_match_other(p, info) ||
        __builtin_sub_overflow(p->info.create_ns, info->create_ns, &ns) ||
        ns >= LIFECYCLE_WAIT_NS || ns <= -LIFECYCLE_WAIT_NS) {
        return INT64_MAX;
    }
    return ns < 0 ? -ns : ns;
}

/* Whether a record stamped then tells of the start that p was heard of first: both stamps are of a
 * clock that nobody sets, the times of creation need not be. */
static bool lifecycle_match_near(const struct instance *p, const struct proc_info *info,
                                 int64_t mono_ns)
{
    int64_t ns = clk_sub(mono_ns, p->life.first_mono_ns);

    if (lifecycle_match_other(p, info)) {
        return false;
    }
    if (p->life.start_half || p->life.start_due_ns || p->life.new_row) {
        return ns < LIFECYCLE_WAIT_NS && ns > -LIFECYCLE_WAIT_NS;
    }
    return lifecycle_match_apart_ns(p, info) < INT64_MAX;
}

/* Heard of when it lived already; when it began is not known. */
static bool lifecycle_match_older(const struct instance *p, const struct proc_info *info)
{
    return !(p->info.have & INFO_CREATE_TIME) &&
           info->create_ns <= clk_add(p->life.first_wall_ns, LIFECYCLE_CREATE_SLACK_NS);
}

/* Records of two providers about the same moment come in any order: an end between them counts only
 * where it is clearly before. */
static bool lifecycle_match_ended(const struct instance *p, int64_t mono_ns)
{
    return instances_ended(p) && clk_add(p->end_mono_ns, LIFECYCLE_JITTER_NS) < mono_ns;
}

/* Each provider keeps its own order: of several that wait for its record it means the oldest. */
struct instance *lifecycle_match_start(const struct instances *t, const struct proc_info *info,
                                       uint8_t half, bool exact, int64_t mono_ns)
{
    struct instance *p = instances_owner(t, info->id.pid), *oldest = NULL;

    if (p && !p->life.start_half && p->life.exact && !exact && !lifecycle_match_ended(p, mono_ns) &&
        lifecycle_match_near(p, info, mono_ns)) {
        return p; /* a table was quicker */
    }
    for (; p; p = p->older) {
        bool waits =
            p->life.start_half && !(p->life.start_half & half) && !(exact && p->life.exact);

        if (waits && !lifecycle_match_ended(p, mono_ns) && lifecycle_match_near(p, info, mono_ns)) {
            oldest = p;
        }
    }
    return oldest;
}

struct instance *lifecycle_match_record(const struct instances *t, const struct proc_info *info)
{
    struct instance *best = NULL, *p = lifecycle_match_id(t, info->id);
    int64_t least_ns = INT64_MAX;

    if (p) {
        return p;
    }
    for (p = instances_owner(t, info->id.pid); p; p = p->older) {
        if (!p->life.exact && lifecycle_match_apart_ns(p, info) < least_ns) {
            least_ns = lifecycle_match_apart_ns(p, info);
            best = p;
        } else if (!p->life.exact && !best && lifecycle_match_older(p, info)) {
            return p;
        }
    }
    return best;
}

struct instance *lifecycle_match_row(const struct instances *t, const struct proc_info *info,
                                     int64_t mono_ns)
{
    struct instance *p = instances_owner(t, info->id.pid);

    if (!(info->have & INFO_CREATE_TIME)) {
        return NULL;
    }
    if (p && !instances_ended(p)) {
        return !p->life.exact && (lifecycle_match_older(p, info) ||
                                  lifecycle_match_apart_ns(p, info) < INT64_MAX ||
                                  (p->life.start_half && lifecycle_match_near(p, info, mono_ns)))
                   ? p
                   : NULL;
    }
    for (; p; p = p->older) {
        bool inferred = p->info.have & INFO_EXIT_INFERRED; /* then its end is an upper bound */
        bool then = lifecycle_match_older(p, info) ||
                    (!inferred && lifecycle_match_apart_ns(p, info) < INT64_MAX);

        if (!p->life.exact && ((then && info->create_ns <= p->info.exit_ns) ||
                               lifecycle_match_apart_ns(p, info) < LIFECYCLE_SKEW_NS)) {
            return p;
        }
    }
    return NULL;
}

/* The pid's newest instance, unless it is not known to this provider yet and an older one waits for
 * just this record: its end was told by the other provider a moment ago, or it was inferred because
 * a table showed the successor first. */
struct instance *lifecycle_match_stop(const struct instances *t, const struct event *ev)
{
    struct instance *newest = instances_owner(t, ev->u.proc.info.id.pid), *p, *at = newest;
    struct instance *before = newest ? newest->older : NULL;

    for (p = newest; p; p = p->life.start_half & LIFECYCLE_CLASSIC ? NULL : p->older) {
        if (p->life.stop_half == LIFECYCLE_MANIFEST &&
            clk_sub(ev->mono_ns, p->end_mono_ns) < LIFECYCLE_WAIT_NS) {
            at = p;
        }
    }
    if (at == newest && before && !newest->life.start_half && newest->life.exact &&
        newest->info.origin == ORIGIN_INFERRED && (before->info.have & INFO_EXIT_INFERRED) &&
        ev->mono_ns < clk_add(newest->life.first_mono_ns, LIFECYCLE_WAIT_NS)) {
        return before;
    }
    return at;
}
