/* A recording tells late who lived all along: many have no rundown at their beginning, only the one
 * at their end, and tids and pids are reused in between. So the source hands over the process and
 * thread records of the whole file first, marked early. Of each number only the first early record
 * counts: unless it is a start, its owner was there from the beginning, with start 0 as identity
 * (the recording does not say when it began). When the first record of the real pass arrives, the
 * sets of numbers seen are emptied. */
#include "agent/process/lifecycle.h"

#include <assert.h>

#include "agent/process/u32map.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

enum { LIFECYCLE_EARLY_PIDS_MAX = 1 << 16, LIFECYCLE_EARLY_TIDS_MAX = 1 << 18 };

#define LIFECYCLE_NEVER    INT64_MAX
#define LIFECYCLE_HOLD_MAX 1024

/* What is known of an instance once it has ended. */
#define LIFECYCLE_EXIT_BITS                                                          \
    ((uint32_t)(INFO_EXIT_TIME | INFO_EXIT_CODE | INFO_EXITED | INFO_EXIT_INFERRED | \
                INFO_FINAL_TOTALS | INFO_SIGNALLED))

/* A start or end that waits for the record of the other provider. */
struct lifecycle_held {
    struct instance *p;
    uint32_t generation;      /* of p when it was put here */
    uint8_t kind;             /* enum life_kind: LIFE_PROCESS_START, LIFE_PROCESS_STOP */
    int64_t wall_ns, mono_ns; /* of the record that came first */
};

struct lifecycle_hold {
    struct lifecycle_held items[LIFECYCLE_HOLD_MAX];
    size_t first, n;
};

struct lifecycle {
    struct lifecycle_conf conf;
    uint8_t halves;             /* which have been heard of */
    struct lifecycle_hold hold; /* told when the other half is here */
    struct u32map *early_pids, *early_tids;
    bool early;          /* the pass over the whole recording is under way */
    bool thread_rundown; /* thread records of the rundown have been seen */
    uint32_t table_seq;
    int64_t first_table_wall_ns;
    int64_t due_ns; /* the earliest of all start_due_ns and stop_due_ns */
    struct lifecycle_stats stats;
};

static inline bool lifecycle_both_speak(const struct lifecycle *l)
{
    return l->halves == LIFECYCLE_BOTH;
}

/* ---- reporting ---- */

static void lifecycle_tell(struct lifecycle *l, enum life_kind kind, struct instance *p,
                           int64_t wall_ns, int64_t mono_ns)
{
    struct life_event ev = {.kind = (uint8_t)kind, .wall_ns = wall_ns, .mono_ns = mono_ns};

    ev.info = p->info;
    if (kind == LIFE_PROCESS_START) {
        ev.info.have &= ~LIFECYCLE_EXIT_BITS; /* it may have ended while its start was held */
    }
    p->life.named = true;
    l->conf.told(l->conf.ctx, &ev);
}

static void lifecycle_tell_start(struct lifecycle *l, struct instance *p, int64_t wall_ns,
                                 int64_t mono_ns)
{
    p->life.start_due_ns = 0;
    p->life.start_held = false;
    l->stats.starts++;
    if (p->info.origin == ORIGIN_INFERRED) {
        l->stats.inferred_starts++;
    }
    lifecycle_tell(l, LIFE_PROCESS_START, p, wall_ns, mono_ns);
}

static void lifecycle_tell_end(struct lifecycle *l, struct instance *p, int64_t wall_ns,
                               int64_t mono_ns)
{
    p->life.stop_held = false;
    l->stats.stops++;
    if (p->info.have & INFO_EXIT_INFERRED) {
        l->stats.inferred_stops++;
    }
    lifecycle_tell(l, LIFE_PROCESS_STOP, p, wall_ns, mono_ns);
}

/* An inferred start is reported with its creation time where that is known. */
static void lifecycle_tell_inferred(struct lifecycle *l, struct instance *p, int64_t wall_ns,
                                    int64_t mono_ns)
{
    int64_t back_ns = 0;

    /* Longer ago means that the clock was set or the table was late: only now is certain. */
    if ((p->info.have & INFO_CREATE_TIME) && p->info.create_ns < wall_ns &&
        p->info.create_ns >= wall_ns - 10 * CLK_S) {
        back_ns = wall_ns - p->info.create_ns;
    }
    lifecycle_tell_start(l, p, wall_ns - back_ns, mono_ns - back_ns);
}

/* ---- waiting for the other provider's record ---- */

/* Where two providers are on, each start and end has two records. The first waits here for the
 * second, then the event is reported once: a queue in order of time, in which every entry waits
 * equally long. When the queue is full its first entry is reported as it is. */

static bool lifecycle_hold_full(const struct lifecycle_hold *h)
{
    return h->n == LIFECYCLE_HOLD_MAX;
}

static void lifecycle_hold_push(struct lifecycle_hold *h, struct lifecycle_held item)
{
    assert(!lifecycle_hold_full(h));
    h->items[(h->first + h->n++) % LIFECYCLE_HOLD_MAX] = item;
}

/* The first one that came at until_ns or before, taken out. False: none. */
static bool lifecycle_hold_pop(struct lifecycle_hold *h, int64_t until_ns,
                               struct lifecycle_held *out)
{
    if (h->n == 0 || h->items[h->first].mono_ns > until_ns) {
        return false;
    }
    *out = h->items[h->first];
    h->first = (h->first + 1) % LIFECYCLE_HOLD_MAX;
    h->n--;
    assert(h->n < LIFECYCLE_HOLD_MAX && h->first < LIFECYCLE_HOLD_MAX);
    return true;
}

/* The one of p, where it stands in the queue, or NULL. */
static const struct lifecycle_held *lifecycle_hold_find(const struct lifecycle_hold *h,
                                                        const struct instance *p, uint8_t kind)
{
    for (size_t i = h->n; i-- > 0;) {
        const struct lifecycle_held *item = &h->items[(h->first + i) % LIFECYCLE_HOLD_MAX];

        if (item->p == p && item->generation == p->generation && item->kind == kind) {
            return item;
        }
    }
    return NULL;
}

static void lifecycle_release_start(struct lifecycle *l, const struct lifecycle_held *item)
{
    if (item && item->p->life.start_held) {
        l->stats.unpaired += item->p->life.start_half != LIFECYCLE_BOTH;
        lifecycle_tell_start(l, item->p, item->wall_ns, item->mono_ns);
    }
}

static void lifecycle_release(struct lifecycle *l, const struct lifecycle_held *item)
{
    struct instance *p = item->p;

    if (p->generation != item->generation) {
        return; /* reported already: the slot holds another instance */
    }
    if (item->kind == LIFE_PROCESS_START) {
        lifecycle_release_start(l, item);
    } else if (p->life.stop_held) {
        lifecycle_release_start(l, lifecycle_hold_find(&l->hold, p, LIFE_PROCESS_START));
        l->stats.unpaired += p->life.stop_half != LIFECYCLE_BOTH;
        lifecycle_tell_end(l, p, item->wall_ns, item->mono_ns);
    }
}

/* Reports what was queued at mono_ns or before. */
static void lifecycle_hold_until(struct lifecycle *l, int64_t mono_ns)
{
    struct lifecycle_held item;

    while (lifecycle_hold_pop(&l->hold, mono_ns, &item)) {
        lifecycle_release(l, &item);
    }
}

/* When the first entry was queued; LIFECYCLE_NEVER: the queue is empty. */
static int64_t lifecycle_hold_next(const struct lifecycle *l)
{
    return l->hold.n ? l->hold.items[l->hold.first].mono_ns : LIFECYCLE_NEVER;
}

/* Queues the start or end of p; a full queue reports its first entry to make room. */
static void lifecycle_hold_begin(struct lifecycle *l, struct instance *p, enum life_kind kind,
                                 const struct event *ev)
{
    struct lifecycle_held first;

    if (lifecycle_hold_full(&l->hold) && lifecycle_hold_pop(&l->hold, LIFECYCLE_NEVER, &first)) {
        lifecycle_release(l, &first);
    }
    if (kind == LIFE_PROCESS_START) {
        p->life.start_held = true;
    } else {
        p->life.stop_held = true;
    }
    lifecycle_hold_push(&l->hold, (struct lifecycle_held){p, p->generation, (uint8_t)kind,
                                                          ev->wall_ns, ev->mono_ns});
}

/* The second record is here, or none will come: reports the start or end of p if it waits. */
static void lifecycle_hold_end(struct lifecycle *l, struct instance *p, enum life_kind kind)
{
    const struct lifecycle_held *item = lifecycle_hold_find(&l->hold, p, (uint8_t)kind);

    if (item) {
        lifecycle_release(l, item);
    }
}

void lifecycle_finish(struct lifecycle *l)
{
    lifecycle_hold_until(l, LIFECYCLE_NEVER);
}

enum err lifecycle_create(struct lifecycle **out, const struct lifecycle_conf *conf)
{
    struct lifecycle *l = mem_zalloc(sizeof *l);
    enum err e;

    if (!l) {
        return ERR_NOMEM;
    }
    l->conf = *conf;
    l->due_ns = LIFECYCLE_NEVER;
    e = u32map_create(&l->early_pids, LIFECYCLE_EARLY_PIDS_MAX, NULL);
    if (e) {
        goto fail;
    }
    e = u32map_create(&l->early_tids, LIFECYCLE_EARLY_TIDS_MAX, NULL);
    if (e) {
        goto fail;
    }
    *out = l;
    return ERR_OK;

fail:
    lifecycle_destroy(l);
    return e;
}

void lifecycle_destroy(struct lifecycle *l)
{
    if (!l) {
        return;
    }
    u32map_destroy(l->early_pids);
    u32map_destroy(l->early_tids);
    mem_free(l);
}

const struct lifecycle_stats *lifecycle_stats(const struct lifecycle *l)
{
    return &l->stats;
}

void lifecycle_set_polled(struct lifecycle *l, bool polled)
{
    l->conf.polled = polled;
}

bool lifecycle_threads_known(const struct lifecycle *l, const struct instance *p)
{
    return l->thread_rundown || (p->info.origin == ORIGIN_START && p->threads > 0);
}

/* ---- ending ---- */

/* Whoever ends has started: what has not been told of that is told first. */
static void lifecycle_end(struct lifecycle *l, struct instance *p, const struct proc_info *how,
                          int64_t wall_ns, int64_t mono_ns)
{
    if (p->life.start_due_ns) {
        lifecycle_tell_inferred(l, p, wall_ns, mono_ns);
    }
    p->life.stop_due_ns = 0;
    instances_end(l->conf.table, p, how, mono_ns);
}

static void lifecycle_stop(struct lifecycle *l, struct instance *p, const struct proc_info *how,
                           int64_t wall_ns, int64_t mono_ns)
{
    lifecycle_hold_end(l, p, LIFE_PROCESS_START);
    lifecycle_end(l, p, how, wall_ns, mono_ns);
    lifecycle_tell_end(l, p, wall_ns, mono_ns);
}

/* Ends the instance and tells it. */
static void lifecycle_infer_stop(struct lifecycle *l, struct instance *p, int64_t wall_ns,
                                 int64_t mono_ns)
{
    struct proc_info how = {.have = INFO_EXIT_TIME | INFO_EXIT_INFERRED, .exit_ns = wall_ns};

    lifecycle_stop(l, p, &how, wall_ns, mono_ns);
}

/* ---- adding ---- */

/* From now on its creation is exact; its id follows if nobody has been told of it. */
static void lifecycle_adopt(struct lifecycle *l, struct instance *p, const struct proc_info *info)
{
    instances_set_created(l->conf.table, p, info->id.start, info->create_ns);
    p->life.exact = true;
    p->life.exact_start = p->info.id.start == info->id.start ? 0 : info->id.start;
}

/* The parent's instance, so that its pid may be reused. */
static uint64_t lifecycle_parent_start(const struct lifecycle *l, const struct proc_info *info)
{
    const struct instance *parent;

    if (!(info->have & INFO_PARENT) || info->parent_start) {
        return info->parent_start;
    }
    parent = instances_owner(l->conf.table, info->parent_pid);
    if (!parent || instances_ended(parent) || parent->info.id.start > info->id.start) {
        return 0;
    }
    return parent->info.id.start;
}

/* Adds the instance; whoever owned the pid until now has ended unseen. NULL: no room, counted.
 * Adds the instance; whoever owned the pid until now has ended unseen. */
static struct instance *lifecycle_add(struct lifecycle *l, const struct proc_info *info,
                                      enum proc_origin origin, int64_t wall_ns, int64_t mono_ns)
{
    struct instance *old = instances_owner(l->conf.table, info->id.pid);
    struct instance *p;
    struct proc_info full = *info;

    if (old && !instances_ended(old)) {
        lifecycle_infer_stop(l, old, wall_ns, mono_ns);
    }
    if (!instances_room(l->conf.table, full.id.pid)) {
        return NULL; /* counted there */
    }
    if (full.id.start == 0 && instances_find(l->conf.table, full.id)) {
        full.id.start = clk_to_filetime(wall_ns); /* start 0 is taken: keep the two apart */
    }
    full.id.start = instances_free_start(l->conf.table, full.id);
    full.origin = (uint8_t)origin;
    full.cpu_origin = CPU_ORIGIN_NONE;
    full.parent_start = lifecycle_parent_start(l, info);
    full.have &= ~LIFECYCLE_EXIT_BITS;
    if (instances_add(l->conf.table, &full, &p)) {
        return NULL; /* counted there */
    }
    p->life.table_seq = l->table_seq;
    p->life.first_wall_ns = wall_ns;
    p->life.first_mono_ns = mono_ns;
    p->life.exact = info->id.start && (info->have & INFO_CREATE_TIME);
    p->life.from_start = origin == ORIGIN_START || origin == ORIGIN_INFERRED;
    return p;
}

/* ---- tables ---- */

/* Process tables, compared with what is known: what is new has started and what is missing has
 * ended, unnoticed; where events exist, only after they had LIFECYCLE_WAIT_NS to come. */

void lifecycle_table_begin(struct lifecycle *l, const struct snapshot *snap)
{
    if (l->table_seq++ == 0) {
        l->first_table_wall_ns = snap->wall_ns;
    }
}

static void lifecycle_wait_until(struct lifecycle *l, int64_t *due_ns, int64_t mono_ns)
{
    *due_ns = mono_ns + LIFECYCLE_WAIT_NS;
    if (*due_ns < l->due_ns) {
        l->due_ns = *due_ns;
    }
}

/* By identity: the id or, where both know it, the number of its start, which no clock moves. Then
 * what it says of its creation leads here, too, from now on. */
static struct instance *lifecycle_find(const struct lifecycle *l, const struct proc_info *info)
{
    struct instance *p = lifecycle_match_id(l->conf.table, info->id);

    if (p || !info->sequence) {
        return p;
    }
    p = lifecycle_match_sequence(l->conf.table, info->id.pid, info->sequence);
    if (p && info->id.start && p->life.exact && !p->life.exact_start) {
        p->life.exact_start = info->id.start;
    }
    return p;
}

/* A row nobody announced. */
static struct instance *lifecycle_add_row(struct lifecycle *l, const struct snapshot *snap,
                                          const struct proc_info *info)
{
    bool old =
        l->table_seq == 1 || ((info->have & INFO_CREATE_TIME) &&
                              info->create_ns < l->first_table_wall_ns - LIFECYCLE_CREATE_SLACK_NS);
    struct instance *p = lifecycle_add(l, info, old ? ORIGIN_SNAPSHOT : ORIGIN_INFERRED,
                                       snap->wall_ns, snap->mono_ns);

    if (p) {
        p->life.new_row = l->table_seq > 1;
    }
    if (!p || old) {
        return p;
    }
    if (l->conf.polled) {
        lifecycle_tell_inferred(l, p, snap->wall_ns, snap->mono_ns);
    } else {
        lifecycle_wait_until(l, &p->life.start_due_ns, snap->mono_ns);
    }
    return p;
}

/* Comparing texts costs more than all the rest of a row that says what the last one said. A text
 * that had no room is tried again. */
static bool lifecycle_row_has_news(const struct instance *p, const struct snap_row *row)
{
    return row->info_version == 0 || row->info_version != p->life.row_version ||
           row->info.name.n != p->info.name.n || row->info.image.n != p->info.image.n ||
           row->info.command_line.n != p->info.command_line.n || row->info.user.n != p->info.user.n;
}

struct instance *lifecycle_row(struct lifecycle *l, const struct snapshot *snap,
                               const struct snap_row *row)
{
    struct instance *p = lifecycle_find(l, &row->info);

    if (!p) {
        p = lifecycle_match_row(l->conf.table, &row->info, snap->mono_ns);
        if (!p) {
            return lifecycle_add_row(l, snap, &row->info);
        }
        if (!instances_ended(p) || (p->info.have & INFO_EXIT_INFERRED)) {
            lifecycle_adopt(l, p, &row->info);
        }
    }
    if (instances_ended(p)) {
        if (!(p->info.have & INFO_EXIT_INFERRED)) {
            return NULL; /* the table was read while it ended */
        }
        l->stats.revived++;
        instances_revive(l->conf.table, p);
    }
    if (lifecycle_row_has_news(p, row)) {
        instances_update(l->conf.table, p, &row->info);
        p->life.row_version = row->info_version;
    }
    p->life.table_seq = l->table_seq;
    p->life.stop_due_ns = 0;
    return p;
}

void lifecycle_table_end(struct lifecycle *l, const struct snapshot *snap)
{
    struct instance *p, *next;

    if (!snap->complete) {
        return;
    }
    for (p = instances_first_running(l->conf.table); p; p = next) {
        next = p->next;
        if (p->life.table_seq == l->table_seq || p->life.stop_due_ns) {
            continue;
        }
        if (l->conf.polled) {
            lifecycle_infer_stop(l, p, snap->wall_ns, snap->mono_ns);
        } else {
            p->life.stop_wall_ns = snap->wall_ns;
            lifecycle_wait_until(l, &p->life.stop_due_ns, snap->mono_ns);
        }
    }
}

int64_t lifecycle_due_ns(const struct lifecycle *l)
{
    int64_t held_ns = lifecycle_hold_next(l);
    int64_t due_ns = held_ns < LIFECYCLE_NEVER - LIFECYCLE_WAIT_NS ? held_ns + LIFECYCLE_WAIT_NS
                                                                   : LIFECYCLE_NEVER;

    return due_ns < l->due_ns ? due_ns : l->due_ns;
}

void lifecycle_advance(struct lifecycle *l, int64_t wall_ns, int64_t mono_ns)
{
    struct instance *p, *next;

    if (l->hold.n > 0) {
        lifecycle_hold_until(l, clk_sub(mono_ns, LIFECYCLE_WAIT_NS));
    }
    if (mono_ns < l->due_ns) {
        return;
    }
    l->due_ns = LIFECYCLE_NEVER;
    for (p = instances_first_running(l->conf.table); p; p = next) {
        next = p->next;
        if (p->life.start_due_ns && p->life.start_due_ns <= mono_ns) {
            lifecycle_tell_inferred(l, p, wall_ns, mono_ns);
        }
        if (p->life.stop_due_ns && p->life.stop_due_ns <= mono_ns) {
            lifecycle_infer_stop(l, p, p->life.stop_wall_ns,
                                 p->life.stop_due_ns - LIFECYCLE_WAIT_NS);
            continue;
        }
        if (p->life.start_due_ns && p->life.start_due_ns < l->due_ns) {
            l->due_ns = p->life.start_due_ns;
        }
        if (p->life.stop_due_ns && p->life.stop_due_ns < l->due_ns) {
            l->due_ns = p->life.stop_due_ns;
        }
    }
}

/* ---- process events ---- */

static uint8_t lifecycle_half(const struct event *ev)
{
    return ev->u.proc.manifest ? LIFECYCLE_MANIFEST : LIFECYCLE_CLASSIC;
}

/* The instance an event names: by identity where it has one, else the pid's newest. */
static struct instance *lifecycle_named(const struct lifecycle *l, const struct ev_proc *ev)
{
    if (ev->manifest && ev->info.id.start) {
        struct instance *p = lifecycle_find(l, &ev->info);

        return p ? p : lifecycle_match_record(l->conf.table, &ev->info);
    }
    return ev->info.id.start ? lifecycle_match_id(l->conf.table, ev->info.id)
                             : instances_owner(l->conf.table, ev->info.id.pid);
}

/* Everything the record knows; a manifest record knows name and creation better. */
static void lifecycle_update(struct lifecycle *l, struct instance *p, const struct event *ev)
{
    struct proc_info info = ev->u.proc.info;

    if (!ev->u.proc.manifest && (p->life.start_half & LIFECYCLE_MANIFEST) && p->info.name.n > 0) {
        info.name.n = 0;
    }
    if (ev->u.proc.manifest && (info.have & INFO_CREATE_TIME) && !p->life.exact) {
        lifecycle_adopt(l, p, &info);
    }
    instances_update(l->conf.table, p, &info);
}

/* Told now, or when the other provider's record is here. */
static void lifecycle_begin_start(struct lifecycle *l, struct instance *p, const struct event *ev)
{
    p->life.start_due_ns = 0;
    if (lifecycle_both_speak(l)) {
        lifecycle_hold_begin(l, p, LIFE_PROCESS_START, ev);
    } else {
        lifecycle_tell_start(l, p, ev->wall_ns, ev->mono_ns);
    }
}

static struct instance *lifecycle_new_start(struct lifecycle *l, const struct proc_info *info,
                                            bool exact, const struct event *ev)
{
    struct instance *p = lifecycle_add(l, info, ORIGIN_START, ev->wall_ns, ev->mono_ns);

    if (!p) {
        return NULL;
    }
    p->life.exact = exact;
    p->life.start_half = lifecycle_half(ev);
    lifecycle_begin_start(l, p, ev);
    return p;
}

/* A table was quicker than the first record of its start: it waits for that, or it is the agent's
 * first table, and the process began a moment before, or the clock was set back since the first. */
static bool lifecycle_known_by_table(const struct instance *p, const struct event *ev)
{
    int64_t age_ns = clk_sub(ev->wall_ns, p->info.create_ns);

    bool fresh = (p->info.have & INFO_CREATE_TIME) && age_ns < LIFECYCLE_WAIT_NS &&
                 age_ns > -LIFECYCLE_WAIT_NS;

    return p->life.start_due_ns ||
           (!p->life.start_half && p->info.origin == ORIGIN_SNAPSHOT && (p->life.new_row || fresh));
}

static struct instance *lifecycle_on_start(struct lifecycle *l, const struct event *ev)
{
    struct proc_info info = ev->u.proc.info;
    struct instance *p = info.id.start ? lifecycle_find(l, &info) : NULL;
    bool exact = info.id.start && (info.have & INFO_CREATE_TIME) && !ev->u.proc.provisional;
    bool paired, news;

    if (!(info.have & INFO_CREATE_TIME)) {
        info.create_ns = ev->wall_ns;
        info.have |= INFO_CREATE_TIME;
    }
    if (!p) {
        p = lifecycle_match_start(l->conf.table, &info, lifecycle_half(ev), exact, ev->mono_ns);
    }
    if (!p) {
        return lifecycle_new_start(l, &info, exact, ev);
    }
    paired = p->life.start_half && !(p->life.start_half & lifecycle_half(ev));
    news = lifecycle_known_by_table(p, ev);
    p->life.start_half |= lifecycle_half(ev);
    lifecycle_update(l, p, ev);
    if (news) {
        instances_set_origin(p, ORIGIN_START);
        lifecycle_begin_start(l, p, ev);
    } else if (paired) {
        lifecycle_hold_end(l, p, LIFE_PROCESS_START);
    } else {
        l->stats.repeated++;
    }
    return p;
}

/* A stop whose start nobody saw. Of a recording: it lived all along. Live: it began after the
 * agent unless its creation time says otherwise. */
static struct instance *lifecycle_add_unseen(struct lifecycle *l, const struct event *ev)
{
    const struct proc_info *info = &ev->u.proc.info;
    bool new_here = l->table_seq > 0 && (info->have & INFO_CREATE_TIME) &&
                    info->create_ns >= l->first_table_wall_ns - LIFECYCLE_CREATE_SLACK_NS;
    struct instance *p;

    p = lifecycle_add(l, info, new_here ? ORIGIN_INFERRED : ORIGIN_UNKNOWN, ev->wall_ns,
                      ev->mono_ns);
    if (p && new_here) {
        lifecycle_tell_inferred(l, p, ev->wall_ns, ev->mono_ns);
    }
    return p;
}

/* A further record of an end that is known. */
static void lifecycle_stopped_again(struct lifecycle *l, struct instance *p, const struct event *ev,
                                    struct proc_info *how)
{
    bool other = p->life.stop_half && !(p->life.stop_half & lifecycle_half(ev));

    p->life.stop_half |= lifecycle_half(ev);
    if (p->info.have & INFO_EXIT_INFERRED) {
        instances_end(l->conf.table, p, how, p->end_mono_ns); /* now it is known exactly, */
        p->row.final_done = false;                            /* and a further row says so */
    }
    if (!other) {
        l->stats.repeated++;
        return;
    }
    if (!ev->u.proc.manifest) {
        how->have &= ~p->info.have; /* the other half knew better */
    }
    instances_end(l->conf.table, p, how, p->end_mono_ns);
    p->row.final_done = false;
    lifecycle_hold_end(l, p, LIFE_PROCESS_STOP);
}

static struct instance *lifecycle_on_stop(struct lifecycle *l, const struct event *ev)
{
    struct proc_info how = ev->u.proc.info;
    struct instance *p =
        how.id.start ? lifecycle_named(l, &ev->u.proc) : lifecycle_match_stop(l->conf.table, ev);

    if (!(how.have & INFO_EXIT_TIME)) {
        how.exit_ns = ev->wall_ns;
        how.have |= INFO_EXIT_TIME;
    }
    how.have &= ~(uint32_t)INFO_EXIT_INFERRED;
    if (ev->u.proc.totals_mask) {
        how.have |= INFO_FINAL_TOTALS;
    }
    if (!p) {
        p = lifecycle_add_unseen(l, ev);
        if (!p) {
            return NULL;
        }
    }
    lifecycle_update(l, p, ev);
    if (instances_ended(p)) {
        lifecycle_stopped_again(l, p, ev, &how);
        return p;
    }
    p->life.stop_half = lifecycle_half(ev);
    if (lifecycle_both_speak(l)) {
        lifecycle_end(l, p, &how, ev->wall_ns, ev->mono_ns);
        lifecycle_hold_begin(l, p, LIFE_PROCESS_STOP, ev);
    } else {
        lifecycle_stop(l, p, &how, ev->wall_ns, ev->mono_ns);
    }
    return p;
}

/* Alive at the beginning or the end of a recording, or at the agent's start. */
static struct instance *lifecycle_on_found(struct lifecycle *l, const struct event *ev)
{
    const struct proc_info *info = &ev->u.proc.info;
    struct instance *p = lifecycle_named(l, &ev->u.proc);
    enum proc_origin origin = info->origin ? info->origin : ORIGIN_RUNDOWN;

    if (!p || (ev->kind == EV_PROC_FOUND && instances_ended(p) && info->id.start == 0)) {
        return lifecycle_add(l, info, origin, ev->wall_ns, ev->mono_ns);
    }
    lifecycle_update(l, p, ev);
    if (p->info.origin == ORIGIN_UNKNOWN) {
        instances_set_origin(p, origin);
    }
    return p;
}

/* Of every pid, the first record of a recording: unless it is a start, the process was there from
 * the beginning. */
static void lifecycle_early_process(struct lifecycle *l, const struct event *ev)
{
    const struct proc_info *info = &ev->u.proc.info;
    struct instance *p = instances_owner(l->conf.table, info->id.pid);
    struct u32map_entry *seen = u32map_put(l->early_pids, info->id.pid);
    struct proc_info found = *info;

    if (!seen || seen->owner || ev->kind == EV_PROC_DEFUNCT) {
        return;
    }
    seen->owner = l;
    if (ev->kind == EV_PROC_START) {
        return;
    }
    if (p && !instances_ended(p)) {
        instances_update(l->conf.table, p,
                         info); /* known by its threads, or from an earlier file */
        if (p->info.origin == ORIGIN_UNKNOWN) {
            instances_set_origin(p, ORIGIN_RUNDOWN);
        }
        return;
    }
    if (!ev->u.proc.manifest) {
        found.id.start = 0;
    }
    (void)lifecycle_add(l, &found, ORIGIN_RUNDOWN, ev->wall_ns, ev->mono_ns);
}

/* ---- thread events ---- */

/* Known by its threads, or by its number only. */
static struct instance *lifecycle_add_bare(struct lifecycle *l, uint32_t pid,
                                           const struct event *ev)
{
    struct proc_info info = {.id = {.pid = pid}};

    return lifecycle_add(l, &info, ORIGIN_UNKNOWN, ev->wall_ns, ev->mono_ns);
}

struct instance *lifecycle_process(struct lifecycle *l, uint32_t pid, const struct event *ev)
{
    struct instance *p = pid == EVENT_NO_ID ? NULL : instances_owner(l->conf.table, pid);

    if (p) {
        return p;
    }
    if (!l->halves && l->table_seq == 0 && pid != EVENT_NO_ID) { /* nobody tells of processes */
        p = lifecycle_add_bare(l, pid, ev);
    }
    l->stats.no_owner += !p;
    return p;
}

static void lifecycle_early_thread(struct lifecycle *l, const struct event *ev)
{
    const struct ev_thread *th = &ev->u.thread;
    struct u32map_entry *seen = u32map_put(l->early_tids, th->tid);
    struct instance *p;

    if (!seen || (seen->owner && th->tid != 0)) {
        return;
    }
    seen->owner = l;
    if (ev->kind == EV_THREAD_START) {
        return;
    }
    if (ev->kind != EV_THREAD_STOP) {
        l->thread_rundown = true;
    }
    p = instances_owner(l->conf.table, th->pid);
    if (!p && !u32map_get(l->early_pids, th->pid)) {
        p = lifecycle_add_bare(l, th->pid, ev);
    }
    if (p) {
        err_ignore(instances_thread_start(l->conf.table, th->tid, p));
    }
}

static void lifecycle_tell_thread(struct lifecycle *l, const struct event *ev, struct instance *p)
{
    struct life_event out = {.wall_ns = ev->wall_ns, .mono_ns = ev->mono_ns};

    p->life.named = true;
    out.kind = ev->kind == EV_THREAD_START ? LIFE_THREAD_START : LIFE_THREAD_STOP;
    out.tid = ev->u.thread.tid;
    out.info.id = p->info.id;
    out.info.name = p->info.name;
    l->conf.told(l->conf.ctx, &out);
}

static struct instance *lifecycle_on_thread(struct lifecycle *l, const struct event *ev)
{
    const struct ev_thread *th = &ev->u.thread;
    struct instance *p = lifecycle_process(l, th->pid, ev);
    bool known;

    if (!p) {
        instances_thread_leave(l->conf.table, th->tid); /* whoever had the number before */
        return NULL;
    }
    switch (ev->kind) {
    case EV_THREAD_START:
        err_ignore(instances_thread_start(l->conf.table, th->tid, p));
        lifecycle_tell_thread(l, ev, p);
        break;
    case EV_THREAD_STOP:
        instances_thread_stop(l->conf.table, th->tid);
        lifecycle_tell_thread(l, ev, p);
        break;
    default: /* alive at the beginning or the end */
        l->thread_rundown = true;
        known = instances_thread(l->conf.table, th->tid) == p && th->tid != 0;
        if (!known) {
            err_ignore(instances_thread_start(l->conf.table, th->tid, p));
        }
        break;
    }
    return p;
}

struct instance *lifecycle_thread_owner(struct lifecycle *l, uint32_t tid, const struct event *ev)
{
    struct instance *p = instances_thread(l->conf.table, tid);

    if (!p && tid == 0) {
        p = instances_owner(l->conf.table, 0);
        if (!p) {
            p = lifecycle_add_bare(l, 0, ev);
        }
    }
    if (!p) {
        l->stats.no_owner++;
    }
    return p;
}

/* ---- image events ---- */

static struct instance *lifecycle_on_image(struct lifecycle *l, const struct event *ev)
{
    struct life_event out = {.wall_ns = ev->wall_ns, .mono_ns = ev->mono_ns};
    struct instance *p = lifecycle_process(l, ev->u.image.pid, ev);

    if (!p || ev->kind == EV_IMAGE_FOUND || ev->kind == EV_IMAGE_LAST) {
        return p; /* rundown is no news */
    }
    p->life.named = true;
    out.kind = ev->kind == EV_IMAGE_LOAD ? LIFE_IMAGE_LOAD : LIFE_IMAGE_UNLOAD;
    out.info.id = p->info.id;
    out.info.name = p->info.name;
    out.text = ev->u.image.path;
    l->conf.told(l->conf.ctx, &out);
    return p;
}

/* ---- all events ---- */

/* That a provider speaks is known before the first start where a recording shows it early. */
static void lifecycle_hear(struct lifecycle *l, const struct event *ev)
{
    switch (ev->kind) {
    case EV_PROC_START:
    case EV_PROC_STOP:
    case EV_PROC_FOUND:
    case EV_PROC_LAST:
        l->halves |= lifecycle_half(ev);
        break;
    default:
        break;
    }
}

static void lifecycle_early_event(struct lifecycle *l, const struct event *ev)
{
    l->early = true;
    switch (ev->kind) {
    case EV_PROC_START:
    case EV_PROC_STOP:
    case EV_PROC_FOUND:
    case EV_PROC_LAST:
    case EV_PROC_DEFUNCT:
        lifecycle_early_process(l, ev);
        break;
    case EV_THREAD_START:
    case EV_THREAD_STOP:
    case EV_THREAD_FOUND:
    case EV_THREAD_LAST:
        lifecycle_early_thread(l, ev);
        break;
    default:
        break;
    }
}

struct instance *lifecycle_event(struct lifecycle *l, const struct event *ev)
{
    lifecycle_hear(l, ev);
    if (ev->early) {
        lifecycle_early_event(l, ev);
        return NULL;
    }
    if (l->early) {
        l->early = false;
        u32map_clear(l->early_pids);
        u32map_clear(l->early_tids);
    }
    switch (ev->kind) {
    case EV_PROC_START:
        return lifecycle_on_start(l, ev);
    case EV_PROC_STOP:
        return lifecycle_on_stop(l, ev);
    case EV_PROC_FOUND:
    case EV_PROC_LAST:
        return lifecycle_on_found(l, ev);
    case EV_PROC_DEFUNCT:
        l->stats.defunct++;
        return NULL;
    case EV_THREAD_START:
    case EV_THREAD_STOP:
    case EV_THREAD_FOUND:
    case EV_THREAD_LAST:
        return lifecycle_on_thread(l, ev);
    case EV_IMAGE_LOAD:
    case EV_IMAGE_UNLOAD:
    case EV_IMAGE_FOUND:
    case EV_IMAGE_LAST:
        return lifecycle_on_image(l, ev);
    default:
        return NULL;
    }
}
