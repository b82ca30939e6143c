#include "agent/aggregate.h"

#include "common/mem.h"

struct aggregate {
    struct ptable *table;
    struct lifecycle *life;
    int64_t interval_ns; /* of CPU samples; 0 = not known yet */
    uint64_t growing;    /* columns that never go back: counters, and peaks */
    struct aggregate_stats stats;
    struct tally unattributed;
};

static uint64_t growing_columns(void)
{
    uint64_t mask = METRIC_BIT(M_PEAK_WORKING_SET) | METRIC_BIT(M_PEAK_HANDLE_COUNT);
    const struct metric *m = NULL;

    while ((m = metric_next(m)) != NULL) {
        if (m->column && m->kind == METRIC_COUNTER) {
            mask |= METRIC_BIT(m->id);
        }
    }
    return mask;
}

enum err aggregate_create(struct aggregate **out, struct ptable *table, struct lifecycle *life)
{
    struct aggregate *a = mem_zalloc(sizeof *a);

    if (!a) {
        return ERR_NOMEM;
    }
    a->table = table;
    a->life = life;
    a->growing = growing_columns();
    *out = a;
    return ERR_OK;
}

void aggregate_destroy(struct aggregate *a)
{
    mem_free(a);
}

const struct aggregate_stats *aggregate_stats(const struct aggregate *a)
{
    return &a->stats;
}

const struct tally *aggregate_unattributed(const struct aggregate *a)
{
    return &a->unattributed;
}

uint64_t aggregate_growing(const struct aggregate *a)
{
    return a->growing;
}

/* -- columns -- */

static void set_gauge(struct ptable_proc *p, unsigned id, int64_t value)
{
    p->count.mask |= METRIC_BIT(id);
    p->count.values[id] = value;
}

static void add_counter(struct ptable_proc *p, unsigned id, int64_t value)
{
    p->count.mask |= METRIC_BIT(id);
    p->count.values[id] += value;
    p->count.changed = true;
}

/* A counter never goes back: what the source read later must not be lower. */
static void raise_counter(struct aggregate *a, struct ptable_proc *p, unsigned id, int64_t value)
{
    if (value < p->count.values[id]) {
        a->stats.stepped_back++;
        return;
    }
    p->count.changed |= value != p->count.values[id];
    p->count.values[id] = value;
}

/* cpu_time from its two halves where the source does not give the sum. */
static void derive_cpu_time(struct aggregate *a, struct ptable_proc *p)
{
    static const uint64_t halves = METRIC_BIT(M_KERNEL_TIME) | METRIC_BIT(M_USER_TIME);
    bool given = (p->count.mask & METRIC_BIT(M_CPU_TIME)) != 0;

    if ((p->count.mask & halves) == halves && !given) {
        p->count.mask |= METRIC_BIT(M_CPU_TIME);
        raise_counter(a, p, M_CPU_TIME,
                      p->count.values[M_KERNEL_TIME] + p->count.values[M_USER_TIME]);
        given = true;
    }
    if (given) {
        ptable_set_cpu_origin(p, CPU_ORIGIN_TIMES);
    }
}

static void derive_peak_handles(struct ptable_proc *p)
{
    static const uint64_t peak = METRIC_BIT(M_PEAK_HANDLE_COUNT);
    int64_t now = p->count.values[M_HANDLE_COUNT];

    if (!(p->count.mask & METRIC_BIT(M_HANDLE_COUNT)) || (p->count.mask & peak)) {
        return;
    }
    p->count.mask |= peak; /* the largest the agent itself has seen */
    if (now > p->count.values[M_PEAK_HANDLE_COUNT]) {
        p->count.values[M_PEAK_HANDLE_COUNT] = now;
    }
}

/* -- samples -- */

static void convert_waiting(struct ptable_proc *p, int64_t interval_ns)
{
    for (; p; p = p->next) {
        if (p->count.samples_waiting) {
            add_counter(p, M_CPU_TIME, (int64_t)p->count.samples_waiting * interval_ns);
            p->count.samples_waiting = 0;
        }
    }
}

/* The first interval known counts for the samples before it too. */
static void on_interval(struct aggregate *a, const struct event *ev)
{
    bool first = a->interval_ns == 0;

    if (ev->u.interval_ns <= 0 || (ev->early && !first)) {
        return;
    }
    a->interval_ns = ev->u.interval_ns;
    if (first) {
        convert_waiting(ptable_first_running(a->table), a->interval_ns);
        convert_waiting(ptable_first_ended(a->table), a->interval_ns);
    }
}

static struct ptable_proc *on_sample(struct aggregate *a, const struct event *ev)
{
    struct ptable_proc *p;

    if (ev->u.sample.interrupt) {
        a->stats.samples_interrupt++;
        return NULL;
    }
    p = lifecycle_thread_owner(a->life, ev->u.sample.tid, ev);
    if (!p) {
        a->stats.unattributed++;
        a->unattributed.n[TALLY_SAMPLES]++;
        return NULL;
    }
    a->stats.samples++;
    p->tally.n[TALLY_SAMPLES]++;
    if (p->info.cpu_origin == CPU_ORIGIN_TIMES) {
        return p; /* its clock is better, and the two are never mixed */
    }
    if (a->interval_ns) {
        add_counter(p, M_CPU_TIME, a->interval_ns);
    } else {
        p->count.samples_waiting++;
    }
    return p;
}

void aggregate_settle(const struct aggregate *a, struct ptable_proc *p)
{
    /* Samples measure everybody: who had none spent no time, and zero is what was measured. */
    if (a->interval_ns && a->stats.samples > 0 && p->info.cpu_origin != CPU_ORIGIN_TIMES) {
        p->count.mask |= METRIC_BIT(M_CPU_TIME);
        ptable_set_cpu_origin(p, CPU_ORIGIN_SAMPLES);
    }
    if (ptable_ended(p)) {
        p->count.mask &= a->growing; /* what it was using is gone with it; what it used stays */
        return;
    }
    if (!p->count.in_table && lifecycle_threads_known(a->life, p)) {
        set_gauge(p, M_THREAD_COUNT, p->threads);
    }
}

/* -- exit totals -- */

static void on_totals(struct aggregate *a, struct ptable_proc *p, const struct ev_proc *ev)
{
    uint64_t mask = ev->totals_mask;

    if (p->info.cpu_origin == CPU_ORIGIN_SAMPLES) {
        mask &= ~METRIC_BIT(M_CPU_TIME);
    }
    for (unsigned id = 0; id < METRIC_COLS; id++) {
        if (!(mask & METRIC_BIT(id))) {
            continue;
        }
        p->count.mask |= METRIC_BIT(id);
        if (!(a->growing & METRIC_BIT(id)) || ev->totals[id] > p->count.values[id]) {
            p->count.values[id] = ev->totals[id];
            p->count.changed = true;
        }
    }
    if (mask & (METRIC_BIT(M_KERNEL_TIME) | METRIC_BIT(M_USER_TIME))) {
        if (!(mask & METRIC_BIT(M_CPU_TIME)) && p->info.cpu_origin != CPU_ORIGIN_SAMPLES) {
            p->count.mask &= ~METRIC_BIT(M_CPU_TIME); /* derive it anew */
        }
        if (p->info.cpu_origin != CPU_ORIGIN_SAMPLES) {
            derive_cpu_time(a, p);
        }
    }
}

struct ptable_proc *aggregate_event(struct aggregate *a, const struct event *ev)
{
    struct ptable_proc *p;

    if (!ev->early) {
        a->stats.events++;
    }
    if (ev->kind == EV_CPU_SAMPLE) {
        return ev->early ? NULL : on_sample(a, ev);
    }
    if (ev->kind == EV_CPU_SAMPLE_INTERVAL) {
        on_interval(a, ev);
        return NULL;
    }
    p = lifecycle_event(a->life, ev);
    if (p && ev->kind == EV_PROC_STOP && ev->u.proc.totals) {
        on_totals(a, p, &ev->u.proc);
    }
    return p;
}

/* -- tables -- */

static void take_row(struct aggregate *a, struct ptable_proc *p, const struct snap_row *row)
{
    p->count.mask = row->mask;
    for (unsigned id = 0; id < METRIC_COLS; id++) {
        if (!(row->mask & METRIC_BIT(id))) {
            continue;
        }
        if (a->growing & METRIC_BIT(id)) {
            raise_counter(a, p, id, row->values[id]);
        } else {
            p->count.changed |= p->count.values[id] != row->values[id];
            p->count.values[id] = row->values[id];
        }
    }
    p->count.in_table = true;
    derive_cpu_time(a, p);
    derive_peak_handles(p);
}

void aggregate_table(struct aggregate *a, const struct snapshot *snap)
{
    lifecycle_table_begin(a->life, snap);
    for (struct ptable_proc *p = ptable_first_running(a->table); p; p = p->next) {
        p->count.in_table = false;
    }
    for (size_t i = 0; i < snap->n_rows; i++) {
        struct ptable_proc *p = lifecycle_row(a->life, snap, &snap->rows[i]);

        if (p) {
            take_row(a, p, &snap->rows[i]);
        }
    }
    lifecycle_table_end(a->life, snap);
}
