/* Which instance is meant. Kernel records of a start have no time of creation: its id is then
 * provisional, made of the record's own time, until the first exact one, of the manifest provider
 * or of a table, less than LIFECYCLE_WAIT_NS apart and with no end between. Whoever has been told
 * of the provisional id goes on hearing it; the exact start leads to the same instance. What is
 * known exactly and differs is another instance, however near: pids may be reused within
 * milliseconds. */
#include "agent/process/lifecycle_impl.h"

struct ptable_proc *lifecycle_find(const struct lifecycle *l, struct proc_id id)
{
    struct ptable_proc *p = ptable_find(l->conf.table, id);

    if (p || id.start == 0) {
        return p;
    }
    for (p = ptable_owner(l->conf.table, id.pid); p; p = p->older) {
        if (p->life.exact_start == id.start) {
            return p;
        }
    }
    return NULL;
}

void lifecycle_adopt(struct lifecycle *l, struct ptable_proc *p, const struct proc_info *info)
{
    ptable_set_created(l->conf.table, p, info->id.start, info->create_ns);
    p->life.exact = true;
    p->life.exact_start = p->info.id.start == info->id.start ? 0 : info->id.start;
}

/* How far apart two times of creation are; INT64_MAX: not the same process's, or not known. */
static int64_t apart(const struct ptable_proc *p, const struct proc_info *info)
{
    int64_t ns;

    if (!(p->info.have & INFO_CREATE_TIME) ||
        __builtin_sub_overflow(p->info.create_ns, info->create_ns, &ns) ||
        ns >= LIFECYCLE_WAIT_NS || ns <= -LIFECYCLE_WAIT_NS) {
        return INT64_MAX;
    }
    return ns < 0 ? -ns : ns;
}

/* Heard of when it lived already; when it began is not known. */
static bool older_than(const struct ptable_proc *p, const struct proc_info *info)
{
    return !(p->info.have & INFO_CREATE_TIME) &&
           info->create_ns <= clk_add(p->life.first_wall_ns, LIFECYCLE_CREATE_SLACK_NS);
}

/* Records of two providers about the same moment come in any order: an end between them counts only
 * where it is clearly before. */
static bool ended_before(const struct ptable_proc *p, const struct proc_info *info)
{
    return ptable_ended(p) && clk_add(p->info.exit_ns, LIFECYCLE_JITTER_NS) < info->create_ns;
}

/* Each provider keeps its own order: of several that wait for its record it means the oldest. */
struct ptable_proc *lifecycle_same_start(const struct lifecycle *l, const struct proc_info *info,
                                         uint8_t half, bool exact)
{
    struct ptable_proc *p = ptable_owner(l->conf.table, info->id.pid), *oldest = NULL;

    if (p && !p->life.start_half && p->life.exact && !exact && !ended_before(p, info) &&
        apart(p, info) < INT64_MAX) {
        return p; /* a table was quicker */
    }
    for (; p; p = p->older) {
        bool waits =
            p->life.start_half && !(p->life.start_half & half) && !(exact && p->life.exact);

        if (waits && !ended_before(p, info) && apart(p, info) < INT64_MAX) {
            oldest = p;
        }
    }
    return oldest;
}

struct ptable_proc *lifecycle_meant(const struct lifecycle *l, const struct proc_info *info)
{
    struct ptable_proc *best = NULL, *p = lifecycle_find(l, info->id);
    int64_t least_ns = INT64_MAX;

    if (p) {
        return p;
    }
    for (p = ptable_owner(l->conf.table, info->id.pid); p; p = p->older) {
        if (!p->life.exact && apart(p, info) < least_ns) {
            least_ns = apart(p, info);
            best = p;
        } else if (!p->life.exact && !best && older_than(p, info)) {
            return p;
        }
    }
    return best;
}

struct ptable_proc *lifecycle_of_row(const struct lifecycle *l, const struct proc_info *info)
{
    struct ptable_proc *p = ptable_owner(l->conf.table, info->id.pid);

    if (!(info->have & INFO_CREATE_TIME)) {
        return NULL;
    }
    if (p && !ptable_ended(p)) {
        return !p->life.exact && (older_than(p, info) || apart(p, info) < INT64_MAX) ? p : NULL;
    }
    for (; p; p = p->older) {
        bool inferred = p->info.have & INFO_EXIT_INFERRED; /* then its end is an upper bound */
        bool then = older_than(p, info) || (!inferred && apart(p, info) < INT64_MAX);

        if (!p->life.exact &&
            ((then && info->create_ns <= p->info.exit_ns) || apart(p, info) < LIFECYCLE_SKEW_NS)) {
            return p;
        }
    }
    return NULL;
}

/* The pid's newest instance, unless it is not known to this provider yet and an older one waits for
 * just this record: its end was told by the other provider a moment ago, or it was inferred because
 * a table showed the successor first. */
struct ptable_proc *lifecycle_stopped(const struct lifecycle *l, const struct event *ev)
{
    struct ptable_proc *newest = ptable_owner(l->conf.table, ev->u.proc.info.id.pid), *p,
                       *at = newest;
    struct ptable_proc *before = newest ? newest->older : NULL;

    for (p = newest; p; p = p->life.start_half & LIFECYCLE_CLASSIC ? NULL : p->older) {
        if (p->life.stop_half == LIFECYCLE_MANIFEST &&
            clk_sub(ev->wall_ns, p->info.exit_ns) < LIFECYCLE_WAIT_NS) {
            at = p;
        }
    }
    if (at == newest && before && !newest->life.start_half && newest->life.exact &&
        newest->info.origin == ORIGIN_INFERRED && (before->info.have & INFO_EXIT_INFERRED) &&
        ev->wall_ns < clk_add(newest->info.create_ns, LIFECYCLE_WAIT_NS)) {
        return before;
    }
    return at;
}
