#include "agent/source/linux/proc_life.h"

#include <assert.h>
#include <string.h>

#include "agent/source/linux/proc_read.h"
#include "common/base/clk.h"

#define EXEC_GRACE_NS   (100 * CLK_MS)
#define RECORD_GRACE_NS (100 * CLK_MS)
#define END_MAX_NS      (10 * CLK_S) /* between the record of a process and its end */

void proc_life_init(struct proc_life *l, struct proc_table *t, struct source_sink sink,
                    bool records)
{
    *l = (struct proc_life){.table = t, .sink = sink, .records = records, .until_ns = INT64_MAX};
    TAILQ_INIT(&l->waiting);
    TAILQ_INIT(&l->dying);
}

/* -- facts -- */

static void report(struct proc_life *l, struct event *ev, int64_t mono_ns)
{
    mono_ns = mono_ns < l->until_ns ? mono_ns : l->until_ns;
    mono_ns = mono_ns > l->last_mono_ns ? mono_ns : l->last_mono_ns;
    l->last_mono_ns = mono_ns;
    ev->mono_ns = mono_ns;
    ev->pid = ev->tid = EVENT_NO_ID;
    l->table->host->counts.facts++;
    l->sink.fact(l->sink.ctx, ev);
}

static void report_start(struct proc_life *l, struct proc_inst *p, int64_t now_ns)
{
    struct event ev = {.kind = EV_PROC_START};

    proc_inst_info(l->table->host, p, &ev.u.proc.info);
    ev.wall_ns = ev.u.proc.info.create_ns;
    if (p->phase == PROC_WAITING) {
        TAILQ_REMOVE(&l->waiting, p, queue);
        p->phase = PROC_ALIVE;
    }
    report(l, &ev, now_ns);
}

static uint64_t more(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void put_total(struct ev_proc *ev, int64_t *totals, unsigned id, uint64_t v)
{
    totals[id] = v > INT64_MAX ? INT64_MAX : (int64_t)v;
    ev->totals_mask |= METRIC_BIT(id);
}

/* The kernel measures the sum of both times exactly but only samples their shares: the sum is
 * divided in that proportion, as it does itself in stat. Neither part steps back. */
static void put_times(const struct proc_host *h, const struct proc_inst *p,
                      const struct proc_sums *s, struct ev_proc *ev, int64_t *totals)
{
    /* Giving its memory back takes time after the record was made; stat and clock have it. */
    uint64_t at_end_ns =
        more(p->end_run_ns,
             p->last_stat_known
                 ? (p->last_stat.user_ticks + p->last_stat.kernel_ticks) * (uint64_t)h->tick_ns
                 : 0);
    uint64_t ticked = s->user_ns + s->kernel_ns;
    uint64_t run = more(s->run_ns ? s->run_ns : ticked, more(p->seen.run_ns, at_end_ns));
    uint64_t user = ticked ? (uint64_t)((double)run * ((double)s->user_ns / (double)ticked)) : 0;

    if (run - (user < run ? user : run) < p->seen.kernel_ns) {
        user = run - p->seen.kernel_ns;
    }
    user = more(user, p->seen.user_ns);
    user = user < run ? user : run;
    put_total(ev, totals, M_CPU_TIME, run);
    put_total(ev, totals, M_USER_TIME, user);
    put_total(ev, totals, M_KERNEL_TIME, run - user);
}

/* A process seen from its start: what its threads used, summed. One found alive may have had
 * threads that ended before, and a record may have been lost: then its own files must say, if
 * they could still be read. */
static bool choose_sums(const struct proc_host *h, const struct proc_inst *p, struct proc_sums *s)
{
    *s = p->sums;
    if (!p->by_event || p->records < p->all_threads) {
        if (!p->last_stat_known) {
            return false;
        }
        s->user_ns = p->last_stat.user_ticks * (uint64_t)h->tick_ns;
        s->kernel_ns = p->last_stat.kernel_ticks * (uint64_t)h->tick_ns;
        s->run_ns = 0;
        s->minor_faults = p->last_stat.minor_faults;
        s->major_faults = p->last_stat.major_faults;
    }
    return true;
}

static void put_io_totals(const struct proc_inst *p, struct ev_proc *ev, int64_t *totals)
{
    if (p->last_io_known) {
        put_total(ev, totals, M_READ_OPERATIONS, p->last_io.read_calls);
        put_total(ev, totals, M_WRITE_OPERATIONS, p->last_io.write_calls);
        put_total(ev, totals, M_READ_BYTES, p->last_io.read_chars);
        put_total(ev, totals, M_WRITE_BYTES, p->last_io.write_chars);
        put_total(ev, totals, M_DISK_READ_BYTES, p->last_io.disk_read);
        put_total(ev, totals, M_DISK_WRITE_BYTES, p->last_io.disk_write);
    } else if (p->by_event) {
        /* Records are rounded down to KiB a thread: they finish a series, never lower it. */
        put_total(ev, totals, M_READ_BYTES, more(p->sums.read_chars, p->seen.read_chars));
        put_total(ev, totals, M_WRITE_BYTES, more(p->sums.write_chars, p->seen.write_chars));
        put_total(ev, totals, M_DISK_READ_BYTES, more(p->sums.disk_read, p->seen.disk_read));
        put_total(ev, totals, M_DISK_WRITE_BYTES, more(p->sums.disk_write, p->seen.disk_write));
    }
}

/* Nothing but the records has them. */
static void put_wait_totals(const struct proc_host *h, const struct proc_inst *p,
                            struct ev_proc *ev, int64_t *totals)
{
    if (!p->by_event || p->records < p->all_threads) {
        return;
    }
    if (p->sums.ready_ns > 0 || p->seen.ready_ns > 0) {
        put_total(ev, totals, M_READY_TIME, more(p->sums.ready_ns, p->seen.ready_ns));
    }
    if (h->delays) {
        put_total(ev, totals, M_IO_WAIT_TIME, more(p->sums.io_wait_ns, p->seen.io_wait_ns));
        put_total(ev, totals, M_MEMORY_WAIT_TIME,
                  more(p->sums.memory_wait_ns, p->seen.memory_wait_ns));
    }
}

static void put_totals(const struct proc_host *h, const struct proc_inst *p, struct ev_proc *ev,
                       int64_t *totals)
{
    struct proc_sums s;

    if (!p->last_record || !choose_sums(h, p, &s)) {
        return;
    }
    put_times(h, p, &s, ev, totals);
    put_total(ev, totals, M_PAGE_FAULTS,
              more(s.minor_faults + s.major_faults, p->seen.minor_faults + p->seen.major_faults));
    put_total(ev, totals, M_HARD_FAULTS, more(s.major_faults, p->seen.major_faults));
    put_total(ev, totals, M_CONTEXT_SWITCHES, more(s.switches, p->seen.switches));
    if (!p->kernel_thread) {
        put_total(ev, totals, M_PEAK_WORKING_SET, more(s.peak_bytes, p->seen.peak_bytes));
    }
    put_io_totals(p, ev, totals);
    put_wait_totals(h, p, ev, totals);
    ev->totals = totals;
    ev->info.have |= INFO_FINAL_TOTALS;
}

/* Wait status as one number: the exit code, or 128 + signal. */
static uint32_t exit_code(uint32_t status)
{
    return (status & 0x7f) ? 128 + (status & 0x7f) : status >> 8 & 0xff;
}

static void report_stop(struct proc_life *l, struct proc_inst *p, int64_t now_ns)
{
    const struct proc_host *h = l->table->host;
    struct event ev = {.kind = EV_PROC_STOP};
    struct proc_info *info = &ev.u.proc.info;
    int64_t totals[METRIC_COLS] = {0};

    if (p->phase == PROC_WAITING) {
        report_start(l, p, p->exit_mono_ns);
    } else if (p->phase == PROC_DYING) {
        TAILQ_REMOVE(&l->dying, p, queue);
    }
    /* Once more: now it has ended altogether, but its parent may not have taken note. */
    if (p->last_stat_known) {
        proc_read_last(l->table, p, true);
    } else if (p->last_record && now_ns - p->exit_mono_ns < 2 * RECORD_GRACE_NS) {
        err_ignore(proc_host_cpu(p->id.pid, &p->end_run_ns));
    }
    proc_inst_info(h, p, info);
    info->have |= INFO_EXITED | INFO_EXIT_TIME;
    info->exit_ns = p->exit_mono_ns + h->mono_to_wall_ns;
    if (p->exit_known) {
        info->exit_code = exit_code(p->exit_status);
        info->have |= INFO_EXIT_CODE | (p->exit_status & 0x7f ? INFO_SIGNALLED : 0);
    }
    put_totals(h, p, &ev.u.proc, totals);
    ev.wall_ns = info->exit_ns;
    report(l, &ev, now_ns);
    proc_inst_remove(l->table, p);
}

/* -- lives -- */

static void forget(struct proc_life *l, struct proc_inst *p)
{
    if (p->phase == PROC_WAITING) {
        TAILQ_REMOVE(&l->waiting, p, queue);
    } else if (p->phase == PROC_DYING) {
        TAILQ_REMOVE(&l->dying, p, queue);
    }
    proc_inst_remove(l->table, p);
}

static void queue_at(struct proc_inst_queue *q, struct proc_inst *p, enum proc_phase phase,
                     int64_t deadline_ns)
{
    assert(phase == PROC_WAITING || phase == PROC_DYING);
    assert(p->phase != PROC_WAITING && p->phase != PROC_FREE);
    p->phase = phase;
    p->deadline_ns = deadline_ns;
    TAILQ_INSERT_TAIL(q, p, queue);
}

/* Until exec a process is a copy of its parent. */
static void inherit(struct proc_table *t, struct proc_inst *p, const struct proc_inst *parent)
{
    if (parent->uid_known) {
        proc_inst_user(t, p, parent->uid);
    }
    proc_inst_copy(p, parent);
}

/* Reads stat, which has the exact start; that of the fork's message is a moment later. False: it is
 * gone. */
static bool look(struct proc_life *l, struct proc_inst *p)
{
    struct proc_stat st;

    if (proc_read_stat(l->table, p->id.pid, &st) != ERR_OK) {
        return false;
    }
    if (!p->start_known && st.start_ticks <= p->id.start + 1 && st.start_ticks + 2 >= p->id.start) {
        p->id.start = st.start_ticks;
        p->start_known = true;
    }
    if (st.start_ticks != p->id.start) {
        return false;
    }
    proc_inst_stat(l->table, p, &st);
    return true;
}

static enum err begin(struct proc_life *l, struct proc_id id, uint32_t parent_pid, int64_t now_ns,
                      struct proc_inst **out)
{
    struct proc_inst *parent = proc_inst_find(l->table, parent_pid);
    struct proc_inst *p;
    enum err e = proc_inst_add(&p, l->table, id);

    if (e) {
        l->table->host->counts.capped++;
        return e;
    }
    p->by_event = true;
    p->live_threads = 1;
    p->all_threads = 1;
    if (parent && !parent->start_known) {
        (void)look(l, parent); /* its start is in what is reported of p */
    }
    proc_inst_parent(l->table, p, parent_pid);
    if (parent) {
        inherit(l->table, p, parent);
    }
    queue_at(&l->waiting, p, PROC_WAITING, clk_add(now_ns, EXEC_GRACE_NS));
    *out = p;
    return ERR_OK;
}

/* Whether the process known by this number is the one forked at `ticks`: met in a list already. */
static bool is_same(struct proc_life *l, const struct proc_inst *p, uint64_t ticks)
{
    struct proc_stat st;

    return p->id.start + 2 >= ticks ||
           (proc_read_stat(l->table, p->id.pid, &st) == ERR_OK && st.start_ticks == p->id.start);
}

/* Its files are left for later: mostly exec follows at once. */
static void on_fork(struct proc_life *l, const struct proc_net_event *ev)
{
    struct proc_inst *p = proc_inst_find(l->table, ev->pid);
    uint64_t ticks = proc_host_ticks_at(l->table->host, ev->mono_ns);

    if (ev->tid != ev->pid) {
        if (p) {
            p->live_threads++;
            p->all_threads++;
            p->threads_changed = true;
        }
        return;
    }
    if (p) {
        if (is_same(l, p, ticks)) {
            return;
        }
        proc_life_vanished(l, p, l->now_ns);
    }
    if (begin(l, (struct proc_id){ev->pid, ticks}, ev->parent_pid, ev->mono_ns, &p) == ERR_OK) {
        p->start_known = false;
    }
}

enum err proc_life_met(struct proc_life *l, uint32_t pid, int64_t now_ns, struct proc_inst **out)
{
    struct proc_stat st;
    enum err e = proc_read_stat(l->table, pid, &st);

    if (e) {
        return e;
    }
    e = begin(l, (struct proc_id){pid, st.start_ticks}, st.parent, now_ns, out);
    if (!e) {
        proc_inst_stat(l->table, *out, &st);
    }
    return e;
}

/* The same, and program, image and command line. */
static bool refresh(struct proc_life *l, struct proc_inst *p)
{
    bool there = look(l, p);

    /* Without memory the text stays absent; the next row tries again. */
    err_ignore(proc_inst_refresh(l->table, p));
    return there;
}

/* Only the thread that called exec survives, as leader. Its old name is that of another program: a
 * process gone before it could be looked at waits for its record, which has the new one. */
static void on_exec(struct proc_life *l, struct proc_inst *p, const struct proc_net_event *ev)
{
    bool there;

    p->live_threads = 1;
    p->leader_ended = p->exit_known = false;
    p->threads_changed = true;
    proc_inst_forget_text(p);
    p->name_n = p->comm_n = 0;
    p->stale = true;
    p->seen.peak_bytes = 0; /* of memory it no longer has */
    there = refresh(l, p);
    if (p->by_event && (there || !l->records || p->phase != PROC_WAITING)) {
        report_start(l, p, ev->mono_ns);
    }
}

/* Every thread's end and record is in. */
static bool complete(const struct proc_life *l, const struct proc_inst *p)
{
    return p->leader_ended && p->live_threads <= 0 &&
           (!l->records || (p->last_record && p->records >= p->all_threads));
}

/* Tells a stop for which nothing more is to come. */
static void settle(struct proc_life *l, struct proc_inst *p)
{
    if (p->phase == PROC_DYING && complete(l, p)) {
        report_stop(l, p, l->now_ns);
    }
}

static void on_exit(struct proc_life *l, struct proc_inst *p, const struct proc_net_event *ev)
{
    p->live_threads--;
    p->threads_changed = true;
    p->exit_mono_ns = ev->mono_ns;
    if (ev->tid == ev->pid) {
        p->leader_ended = p->exit_known = true;
        p->exit_status = ev->code;
    }
    /* With records it is the last thread's record that ends a process. */
    if (!l->records && p->phase != PROC_DYING && p->leader_ended && p->live_threads <= 0) {
        if (p->phase == PROC_WAITING) {
            report_start(l, p, ev->mono_ns);
        }
        queue_at(&l->dying, p, PROC_DYING, clk_add(ev->mono_ns, RECORD_GRACE_NS));
    }
    settle(l, p);
}

void proc_life_event(struct proc_life *l, const struct proc_net_event *ev)
{
    struct proc_inst *p;

    if (ev->kind == PROC_NET_FORK) {
        on_fork(l, ev);
        return;
    }
    p = proc_inst_find(l->table, ev->pid);
    if (!p) {
        return;
    }
    if (ev->kind == PROC_NET_EXEC) {
        on_exec(l, p, ev);
    } else if (ev->kind == PROC_NET_UID) {
        proc_inst_user(l->table, p, ev->code);
    } else if (ev->kind == PROC_NET_EXIT) {
        on_exit(l, p, ev);
    }
}

static void take_leader(struct proc_life *l, struct proc_inst *p, const struct proc_net_task *task)
{
    p->exit_known = true;
    p->exit_status = task->exit_status;
    if (!p->uid_known) {
        proc_inst_user(l->table, p, task->uid);
    }
    if (p->phase == PROC_WAITING || p->name_n == 0) {
        proc_inst_name(p, task->name, task->name_n);
    }
}

/* Its records have everything but operations, so stat is read only where one is missing; and where
 * `ended`, as then its number may be another's by now. */
static void take_last(struct proc_life *l, struct proc_inst *p, bool ended)
{
    bool by_records = p->by_event && p->records >= p->all_threads && !ended;

    p->last_record = true;
    proc_read_last(l->table, p, !by_records);
    if (p->exit_mono_ns == 0) {
        p->exit_mono_ns = l->now_ns; /* its end event, with the exact time, is on its way */
    }
    if (p->phase == PROC_WAITING) {
        if (by_records || p->last_stat_known) { /* its stat says no more than that it is ending */
            err_ignore(proc_inst_refresh(l->table, p));
        }
        report_start(l, p, p->exit_mono_ns);
    }
    if (p->phase != PROC_DYING) {
        queue_at(&l->dying, p, PROC_DYING, clk_add(l->now_ns, RECORD_GRACE_NS));
    }
}

static void add_record(struct proc_inst *p, const struct proc_net_task *task)
{
    struct proc_sums *s = &p->sums;

    s->run_ns += task->run_ns;
    s->user_ns += task->user_ns;
    s->kernel_ns += task->kernel_ns;
    s->minor_faults += task->minor_faults;
    s->major_faults += task->major_faults;
    s->peak_bytes = more(s->peak_bytes, task->peak_bytes);
    s->read_chars += task->read_chars;
    s->write_chars += task->write_chars;
    s->disk_read += task->disk_read;
    s->disk_write += task->disk_write;
    s->switches += task->switches;
    s->ready_ns += task->waits.ready_ns;
    s->io_wait_ns += task->waits.io_ns;
    s->memory_wait_ns += task->waits.memory_ns;
    p->dead.switches += task->switches;
    p->dead.ready_ns += task->waits.ready_ns;
    p->dead.io_wait_ns += task->waits.io_ns;
    p->dead.memory_wait_ns += task->waits.memory_ns;
    p->records++;
}

enum proc_took proc_life_task(struct proc_life *l, const struct proc_net_task *task, bool final)
{
    struct proc_inst *p = proc_inst_find(l->table, task->pid);
    bool ended = p && p->leader_ended && p->live_threads <= 0;

    if (!p || (task->last && !ended && !final)) {
        return PROC_TOOK_NOT;
    }
    add_record(p, task);
    p->threads_changed = true;
    if (task->leader) {
        take_leader(l, p, task);
    }
    if (task->last && !p->last_record) {
        take_last(l, p, ended);
    }
    settle(l, p);
    return ended ? PROC_TOOK_ENDED : PROC_TOOK;
}

/* On a busy machine the way out takes longer than the grace: a process reported as
 * ended while it is still listed would be met again, as one more start. */
static bool still_ending(struct proc_life *l, struct proc_inst *p, int64_t now_ns)
{
    return now_ns - p->exit_mono_ns < END_MAX_NS && look(l, p);
}

void proc_life_due(struct proc_life *l, int64_t now_ns)
{
    struct proc_inst *p;

    while ((p = TAILQ_FIRST(&l->waiting)) && p->deadline_ns <= now_ns) {
        (void)refresh(l, p);
        report_start(l, p, now_ns);
    }
    while ((p = TAILQ_FIRST(&l->dying)) && p->deadline_ns <= now_ns) {
        if (still_ending(l, p, now_ns)) {
            TAILQ_REMOVE(&l->dying, p, queue);
            queue_at(&l->dying, p, PROC_DYING, clk_add(now_ns, RECORD_GRACE_NS));
        } else {
            report_stop(l, p, now_ns);
        }
    }
}

int64_t proc_life_deadline(const struct proc_life *l)
{
    const struct proc_inst *w = TAILQ_FIRST(&l->waiting);
    const struct proc_inst *d = TAILQ_FIRST(&l->dying);
    int64_t at = w ? w->deadline_ns : INT64_MAX;

    return d && d->deadline_ns < at ? d->deadline_ns : at;
}

void proc_life_vanished(struct proc_life *l, struct proc_inst *p, int64_t now_ns)
{
    if (p->leader_ended || p->last_record) {
        report_stop(l, p, now_ns);
    } else {
        forget(l, p);
    }
}
