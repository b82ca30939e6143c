/* A recording tells late who lived all along: many have no rundown at their beginning, only the one
 * at their end, and tids and pids are reused in between. So the source hands over the process and
 * thread records of the whole file first, marked early. Of each number only the first early record
 * counts: unless it is a start, its owner was there from the beginning, with start 0 as identity
 * (the recording does not say when it began). When the first record of the real pass arrives, the
 * sets of numbers seen are emptied. */
#include "agent/process/lifecycle.h"

#include "agent/process/lifecycle_impl.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

enum { EARLY_PIDS_MAX = 1 << 16, EARLY_TIDS_MAX = 1 << 18 };

enum err lifecycle_create(struct lifecycle **out, const struct lifecycle_conf *conf)
{
    struct lifecycle *l = mem_zalloc(sizeof *l);
    enum err e;

    if (!l) {
        return ERR_NOMEM;
    }
    l->conf = *conf;
    l->due_ns = LIFECYCLE_NEVER;
    e = idmap_create(&l->early_pids, EARLY_PIDS_MAX, NULL);
    if (e) {
        goto fail;
    }
    e = idmap_create(&l->early_tids, EARLY_TIDS_MAX, NULL);
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
    idmap_destroy(l->early_pids);
    idmap_destroy(l->early_tids);
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

bool lifecycle_threads_known(const struct lifecycle *l, const struct ptable_proc *p)
{
    return l->thread_rundown || (p->info.origin == ORIGIN_START && p->threads > 0);
}

/* -- ending -- */

/* Whoever ends has started: what has not been told of that is told first. */
static void end(struct lifecycle *l, struct ptable_proc *p, const struct proc_info *how,
                int64_t wall_ns, int64_t mono_ns)
{
    if (p->life.start_due_ns) {
        lifecycle_tell_inferred(l, p, wall_ns, mono_ns);
    }
    p->life.stop_due_ns = 0;
    ptable_end(l->conf.table, p, how, mono_ns);
}

static void tell_stop(struct lifecycle *l, struct ptable_proc *p, const struct proc_info *how,
                      int64_t wall_ns, int64_t mono_ns)
{
    lifecycle_hold_end(l, p, LIFE_PROCESS_START);
    end(l, p, how, wall_ns, mono_ns);
    lifecycle_tell_end(l, p, wall_ns, mono_ns);
}

void lifecycle_infer_stop(struct lifecycle *l, struct ptable_proc *p, int64_t wall_ns,
                          int64_t mono_ns)
{
    struct proc_info how = {.have = INFO_EXIT_TIME | INFO_EXIT_INFERRED, .exit_ns = wall_ns};

    tell_stop(l, p, &how, wall_ns, mono_ns);
}

/* -- adding -- */

/* The parent's instance, so that its pid may be reused. */
static uint64_t parent_start_of(const struct lifecycle *l, const struct proc_info *info)
{
    const struct ptable_proc *parent;

    if (!(info->have & INFO_PARENT) || info->parent_start) {
        return info->parent_start;
    }
    parent = ptable_owner(l->conf.table, info->parent_pid);
    if (!parent || ptable_ended(parent) || parent->info.id.start > info->id.start) {
        return 0;
    }
    return parent->info.id.start;
}

/* Adds the instance; whoever owned the pid until now has ended unseen. */
struct ptable_proc *lifecycle_add(struct lifecycle *l, const struct proc_info *info,
                                  enum proc_origin origin, int64_t wall_ns, int64_t mono_ns)
{
    struct ptable_proc *old = ptable_owner(l->conf.table, info->id.pid);
    struct ptable_proc *p;
    struct proc_info full = *info;

    if (old && !ptable_ended(old)) {
        lifecycle_infer_stop(l, old, wall_ns, mono_ns);
    }
    if (!ptable_room(l->conf.table, full.id.pid)) {
        return NULL; /* counted there */
    }
    if (full.id.start == 0 && ptable_find(l->conf.table, full.id)) {
        full.id.start = clk_to_filetime(wall_ns); /* start 0 is taken: keep the two apart */
    }
    full.id.start = ptable_free_start(l->conf.table, full.id);
    full.origin = (uint8_t)origin;
    full.cpu_origin = CPU_ORIGIN_NONE;
    full.parent_start = parent_start_of(l, info);
    full.have &= ~LIFECYCLE_EXIT_BITS;
    if (ptable_add(l->conf.table, &full, &p)) {
        return NULL; /* counted there */
    }
    p->life.table_seq = l->table_seq;
    p->life.first_wall_ns = wall_ns;
    p->life.exact = info->id.start && (info->have & INFO_CREATE_TIME);
    p->life.from_start = origin == ORIGIN_START || origin == ORIGIN_INFERRED;
    return p;
}

/* -- process events -- */

static uint8_t half_of(const struct event *ev)
{
    return ev->u.proc.manifest ? LIFECYCLE_MANIFEST : LIFECYCLE_CLASSIC;
}

/* The instance an event names: by identity where it has one, else the pid's newest. */
static struct ptable_proc *named(const struct lifecycle *l, const struct ev_proc *ev)
{
    if (ev->manifest && ev->info.id.start) {
        return lifecycle_meant(l, &ev->info);
    }
    return ev->info.id.start ? lifecycle_find(l, ev->info.id)
                             : ptable_owner(l->conf.table, ev->info.id.pid);
}

/* Everything the record knows; a manifest record knows name and creation better. */
static void take_over(struct lifecycle *l, struct ptable_proc *p, const struct event *ev)
{
    struct proc_info info = ev->u.proc.info;

    if (!ev->u.proc.manifest && (p->life.start_half & LIFECYCLE_MANIFEST) && p->info.name.n > 0) {
        info.name.n = 0;
    }
    if (ev->u.proc.manifest && (info.have & INFO_CREATE_TIME) && !p->life.exact) {
        lifecycle_adopt(l, p, &info);
    }
    ptable_update(l->conf.table, p, &info);
}

/* Told now, or when the other provider's record is here. */
static void begin_start(struct lifecycle *l, struct ptable_proc *p, const struct event *ev)
{
    p->life.start_due_ns = 0;
    if (lifecycle_both_speak(l)) {
        lifecycle_hold_begin(l, p, LIFE_PROCESS_START, ev);
    } else {
        lifecycle_tell_start(l, p, ev->wall_ns, ev->mono_ns);
    }
}

static struct ptable_proc *new_start(struct lifecycle *l, const struct proc_info *info, bool exact,
                                     const struct event *ev)
{
    struct ptable_proc *p = lifecycle_add(l, info, ORIGIN_START, ev->wall_ns, ev->mono_ns);

    if (!p) {
        return NULL;
    }
    p->life.exact = exact;
    p->life.start_half = half_of(ev);
    begin_start(l, p, ev);
    return p;
}

/* A table was quicker than the first record of its start: it waits for that, or it is the agent's
 * first table, and the process began a moment before. */
static bool known_by_table(const struct ptable_proc *p, const struct event *ev)
{
    int64_t age_ns = clk_sub(ev->wall_ns, p->info.create_ns);

    return p->life.start_due_ns || (!p->life.start_half && p->info.origin == ORIGIN_SNAPSHOT &&
                                    (p->info.have & INFO_CREATE_TIME) &&
                                    age_ns < LIFECYCLE_WAIT_NS && age_ns > -LIFECYCLE_WAIT_NS);
}

static struct ptable_proc *on_start(struct lifecycle *l, const struct event *ev)
{
    struct proc_info info = ev->u.proc.info;
    struct ptable_proc *p = info.id.start ? lifecycle_find(l, info.id) : NULL;
    bool exact = info.id.start && (info.have & INFO_CREATE_TIME) && !ev->u.proc.provisional;
    bool paired, news;

    if (!(info.have & INFO_CREATE_TIME)) {
        info.create_ns = ev->wall_ns;
        info.have |= INFO_CREATE_TIME;
    }
    if (!p) {
        p = lifecycle_same_start(l, &info, half_of(ev), exact);
    }
    if (!p) {
        return new_start(l, &info, exact, ev);
    }
    paired = p->life.start_half && !(p->life.start_half & half_of(ev));
    news = known_by_table(p, ev);
    p->life.start_half |= half_of(ev);
    take_over(l, p, ev);
    if (news) {
        ptable_set_origin(p, ORIGIN_START);
        begin_start(l, p, ev);
    } else if (paired) {
        lifecycle_hold_end(l, p, LIFE_PROCESS_START);
    } else {
        l->stats.repeated++;
    }
    return p;
}

/* A stop whose start nobody saw. Of a recording: it lived all along. Live: it began after the
 * agent unless its creation time says otherwise. */
static struct ptable_proc *add_unseen(struct lifecycle *l, const struct event *ev)
{
    const struct proc_info *info = &ev->u.proc.info;
    bool new_here = l->table_seq > 0 && (info->have & INFO_CREATE_TIME) &&
                    info->create_ns >= l->first_table_wall_ns - LIFECYCLE_CREATE_SLACK_NS;
    struct ptable_proc *p;

    p = lifecycle_add(l, info, new_here ? ORIGIN_INFERRED : ORIGIN_UNKNOWN, ev->wall_ns,
                      ev->mono_ns);
    if (p && new_here) {
        lifecycle_tell_inferred(l, p, ev->wall_ns, ev->mono_ns);
    }
    return p;
}

/* A further record of an end that is known. */
static void stopped_again(struct lifecycle *l, struct ptable_proc *p, const struct event *ev,
                          struct proc_info *how)
{
    bool other = p->life.stop_half && !(p->life.stop_half & half_of(ev));

    p->life.stop_half |= half_of(ev);
    if (p->info.have & INFO_EXIT_INFERRED) {
        ptable_end(l->conf.table, p, how, p->end_mono_ns); /* now it is known exactly, */
        p->row.final_done = false;                         /* and a further row says so */
    }
    if (!other) {
        l->stats.repeated++;
        return;
    }
    if (!ev->u.proc.manifest) {
        how->have &= ~p->info.have; /* the other half knew better */
    }
    ptable_end(l->conf.table, p, how, p->end_mono_ns);
    p->row.final_done = false;
    lifecycle_hold_end(l, p, LIFE_PROCESS_STOP);
}

static struct ptable_proc *on_stop(struct lifecycle *l, const struct event *ev)
{
    struct proc_info how = ev->u.proc.info;
    struct ptable_proc *p = how.id.start ? named(l, &ev->u.proc) : lifecycle_stopped(l, ev);

    if (!(how.have & INFO_EXIT_TIME)) {
        how.exit_ns = ev->wall_ns;
        how.have |= INFO_EXIT_TIME;
    }
    how.have &= ~(uint32_t)INFO_EXIT_INFERRED;
    if (ev->u.proc.totals_mask) {
        how.have |= INFO_FINAL_TOTALS;
    }
    if (!p) {
        p = add_unseen(l, ev);
        if (!p) {
            return NULL;
        }
    }
    take_over(l, p, ev);
    if (ptable_ended(p)) {
        stopped_again(l, p, ev, &how);
        return p;
    }
    p->life.stop_half = half_of(ev);
    if (lifecycle_both_speak(l)) {
        end(l, p, &how, ev->wall_ns, ev->mono_ns);
        lifecycle_hold_begin(l, p, LIFE_PROCESS_STOP, ev);
    } else {
        tell_stop(l, p, &how, ev->wall_ns, ev->mono_ns);
    }
    return p;
}

/* Alive at the beginning or the end of a recording, or at the agent's start. */
static struct ptable_proc *on_found(struct lifecycle *l, const struct event *ev)
{
    const struct proc_info *info = &ev->u.proc.info;
    struct ptable_proc *p = named(l, &ev->u.proc);
    enum proc_origin origin = info->origin ? info->origin : ORIGIN_RUNDOWN;

    if (!p || (ev->kind == EV_PROC_FOUND && ptable_ended(p) && info->id.start == 0)) {
        return lifecycle_add(l, info, origin, ev->wall_ns, ev->mono_ns);
    }
    take_over(l, p, ev);
    if (p->info.origin == ORIGIN_UNKNOWN) {
        ptable_set_origin(p, origin);
    }
    return p;
}

/* Of every pid, the first record of a recording: unless it is a start, the process was there from
 * the beginning. */
static void early_process(struct lifecycle *l, const struct event *ev)
{
    const struct proc_info *info = &ev->u.proc.info;
    struct ptable_proc *p = ptable_owner(l->conf.table, info->id.pid);
    struct idmap_entry *seen = idmap_put(l->early_pids, info->id.pid);
    struct proc_info found = *info;

    if (!seen || seen->owner || ev->kind == EV_PROC_DEFUNCT) {
        return;
    }
    seen->owner = l;
    if (ev->kind == EV_PROC_START) {
        return;
    }
    if (p && !ptable_ended(p)) {
        ptable_update(l->conf.table, p, info); /* known by its threads, or from an earlier file */
        if (p->info.origin == ORIGIN_UNKNOWN) {
            ptable_set_origin(p, ORIGIN_RUNDOWN);
        }
        return;
    }
    if (!ev->u.proc.manifest) {
        found.id.start = 0;
    }
    (void)lifecycle_add(l, &found, ORIGIN_RUNDOWN, ev->wall_ns, ev->mono_ns);
}

/* -- thread events -- */

/* Known by its threads, or by its number only. */
static struct ptable_proc *add_bare(struct lifecycle *l, uint32_t pid, const struct event *ev)
{
    struct proc_info info = {.id = {.pid = pid}};

    return lifecycle_add(l, &info, ORIGIN_UNKNOWN, ev->wall_ns, ev->mono_ns);
}

struct ptable_proc *lifecycle_process(struct lifecycle *l, uint32_t pid, const struct event *ev)
{
    struct ptable_proc *p = pid == EVENT_NO_ID ? NULL : ptable_owner(l->conf.table, pid);
    bool told = l->halves || l->table_seq > 0;

    if (!p && !told && pid != EVENT_NO_ID) {
        p = add_bare(l, pid, ev);
    }
    if (!p) {
        l->stats.no_owner++;
    }
    return p;
}

static void early_thread(struct lifecycle *l, const struct event *ev)
{
    const struct ev_thread *th = &ev->u.thread;
    struct idmap_entry *seen = idmap_put(l->early_tids, th->tid);
    struct ptable_proc *p;

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
    p = ptable_owner(l->conf.table, th->pid);
    if (!p && !idmap_get(l->early_pids, th->pid)) {
        p = add_bare(l, th->pid, ev);
    }
    if (p) {
        err_ignore(ptable_thread_start(l->conf.table, th->tid, p));
    }
}

static void tell_thread(struct lifecycle *l, const struct event *ev, struct ptable_proc *p)
{
    struct life_event out = {.wall_ns = ev->wall_ns, .mono_ns = ev->mono_ns};

    p->life.named = true;
    out.kind = ev->kind == EV_THREAD_START ? LIFE_THREAD_START : LIFE_THREAD_STOP;
    out.tid = ev->u.thread.tid;
    out.info.id = p->info.id;
    out.info.name = p->info.name;
    l->conf.told(l->conf.ctx, &out);
}

static struct ptable_proc *on_thread(struct lifecycle *l, const struct event *ev)
{
    const struct ev_thread *th = &ev->u.thread;
    struct ptable_proc *p = lifecycle_process(l, th->pid, ev);
    bool known;

    if (!p) {
        ptable_thread_leave(l->conf.table, th->tid); /* whoever had the number before */
        return NULL;
    }
    switch (ev->kind) {
    case EV_THREAD_START:
        err_ignore(ptable_thread_start(l->conf.table, th->tid, p));
        tell_thread(l, ev, p);
        break;
    case EV_THREAD_STOP:
        ptable_thread_stop(l->conf.table, th->tid);
        tell_thread(l, ev, p);
        break;
    default: /* alive at the beginning or the end */
        l->thread_rundown = true;
        known = ptable_thread(l->conf.table, th->tid) == p && th->tid != 0;
        if (!known) {
            err_ignore(ptable_thread_start(l->conf.table, th->tid, p));
        }
        break;
    }
    return p;
}

struct ptable_proc *lifecycle_thread_owner(struct lifecycle *l, uint32_t tid,
                                           const struct event *ev)
{
    struct ptable_proc *p = ptable_thread(l->conf.table, tid);

    if (!p && tid == 0) {
        p = ptable_owner(l->conf.table, 0);
        if (!p) {
            p = add_bare(l, 0, ev);
        }
    }
    if (!p) {
        l->stats.no_owner++;
    }
    return p;
}

/* -- image events -- */

static struct ptable_proc *on_image(struct lifecycle *l, const struct event *ev)
{
    struct life_event out = {.wall_ns = ev->wall_ns, .mono_ns = ev->mono_ns};
    struct ptable_proc *p = lifecycle_process(l, ev->u.image.pid, ev);

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

/* -- all events -- */

/* That a provider speaks is known before the first start where a recording shows it early. */
static void hear(struct lifecycle *l, const struct event *ev)
{
    switch (ev->kind) {
    case EV_PROC_START:
    case EV_PROC_STOP:
    case EV_PROC_FOUND:
    case EV_PROC_LAST:
        l->halves |= half_of(ev);
        break;
    default:
        break;
    }
}

static void early_event(struct lifecycle *l, const struct event *ev)
{
    l->early = true;
    switch (ev->kind) {
    case EV_PROC_START:
    case EV_PROC_STOP:
    case EV_PROC_FOUND:
    case EV_PROC_LAST:
    case EV_PROC_DEFUNCT:
        early_process(l, ev);
        break;
    case EV_THREAD_START:
    case EV_THREAD_STOP:
    case EV_THREAD_FOUND:
    case EV_THREAD_LAST:
        early_thread(l, ev);
        break;
    default:
        break;
    }
}

struct ptable_proc *lifecycle_event(struct lifecycle *l, const struct event *ev)
{
    hear(l, ev);
    if (ev->early) {
        early_event(l, ev);
        return NULL;
    }
    if (l->early) {
        l->early = false;
        idmap_clear(l->early_pids);
        idmap_clear(l->early_tids);
    }
    switch (ev->kind) {
    case EV_PROC_START:
        return on_start(l, ev);
    case EV_PROC_STOP:
        return on_stop(l, ev);
    case EV_PROC_FOUND:
    case EV_PROC_LAST:
        return on_found(l, ev);
    case EV_PROC_DEFUNCT:
        l->stats.defunct++;
        return NULL;
    case EV_THREAD_START:
    case EV_THREAD_STOP:
    case EV_THREAD_FOUND:
    case EV_THREAD_LAST:
        return on_thread(l, ev);
    case EV_IMAGE_LOAD:
    case EV_IMAGE_UNLOAD:
    case EV_IMAGE_FOUND:
    case EV_IMAGE_LAST:
        return on_image(l, ev);
    default:
        return NULL;
    }
}
