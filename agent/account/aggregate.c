#include "agent/account/aggregate.h"

#include <string.h>

#include "agent/account/irpmap.h"
#include "agent/clr/clr.h"
#include "agent/source/event_switch.h"
#include "common/base/mem.h"

struct aggregate {
    struct instances *table;
    struct lifecycle *life;
    struct sched *sched;
    struct irpmap *irps;
    struct clr *clr;
    bool threads_told, images_told; /* by classic records */
    bool disk_told, file_told, net_told, registry_told;
    bool restarted;
    bool groups_told;                   /* which groups are recorded is known, */
    uint32_t groups, groups_ever;       /* else which have been seen; and those that once were */
    int64_t interval_ns;                /* of CPU samples; 0 = not known yet */
    metric_mask growing;                /* columns that never go back: counters, and peaks */
    struct aggregate_stats stats, told; /* stats: events and charged without switches */
    struct counters unattributed;
};

static metric_mask growing_columns(void)
{
    metric_mask mask = METRIC_BIT(M_PEAK_WORKING_SET) | METRIC_BIT(M_PEAK_HANDLE_COUNT);
    const struct metric *m = NULL;

    while ((m = metric_next(m)) != NULL) {
        if (m->column && m->kind == METRIC_COUNTER) {
            mask |= METRIC_BIT(m->id);
        }
    }
    return mask;
}

enum err aggregate_create(struct aggregate **out, struct instances *table, struct lifecycle *life)
{
    struct aggregate *a = mem_zalloc(sizeof *a);
    enum err e;

    if (!a) {
        return ERR_NOMEM;
    }
    a->table = table;
    a->life = life;
    a->growing = growing_columns();
    e = sched_create(&a->sched, life, table, &a->unattributed, &a->stats.sched);
    if (e) {
        goto fail;
    }
    e = irpmap_create(&a->irps, &a->stats.irps_dropped);
    if (e) {
        goto fail;
    }
    e = clr_create(&a->clr);
    if (e) {
        goto fail;
    }
    *out = a;
    return ERR_OK;

fail:
    aggregate_destroy(a);
    return e;
}

void aggregate_destroy(struct aggregate *a)
{
    if (!a) {
        return;
    }
    clr_destroy(a->clr);
    irpmap_destroy(a->irps);
    sched_destroy(a->sched);
    mem_free(a);
}

const struct aggregate_stats *aggregate_stats(struct aggregate *a)
{
    a->told = a->stats;
    a->told.events += a->stats.sched.switches + a->stats.sched.readied;
    a->told.charged += a->stats.sched.switches - a->stats.sched.unowned;
    a->told.charged += a->stats.sched.readied - a->stats.sched.unready;
    return &a->told;
}

const struct counters *aggregate_unattributed(const struct aggregate *a)
{
    return &a->unattributed;
}

metric_mask aggregate_growing(const struct aggregate *a)
{
    return a->growing;
}

/* -- columns -- */

static void set_gauge(struct instance *p, unsigned id, int64_t value)
{
    p->count.mask |= METRIC_BIT(id);
    p->count.values[id] = value;
}

/* Columns that events feed: the tally (or two of them), and the groups that must be recorded. */
static const struct lift {
    uint8_t metric, tally, second; /* second: the same as tally where there is none */
    uint32_t groups;
} lifts[] = {
#define LIFT(metric, tally, groups)                            \
    {                                                          \
        M_##metric, COUNTERS_##tally, COUNTERS_##tally, groups \
    }
    LIFT(TCP_SEND_BYTES, TCP_SEND, EVENT_GROUP_NET),
    LIFT(TCP_RECV_BYTES, TCP_RECV, EVENT_GROUP_NET),
    LIFT(UDP_SEND_BYTES, UDP_SEND, EVENT_GROUP_NET),
    LIFT(UDP_RECV_BYTES, UDP_RECV, EVENT_GROUP_NET),
    LIFT(TCP_RETRANSMITS, TCP_RETRANSMITS, EVENT_GROUP_NET),
    LIFT(TCP_CONNECTS, TCP_CONNECTS, EVENT_GROUP_NET),
    LIFT(CONTEXT_SWITCHES, SWITCHES_IN, EVENT_GROUP_SWITCH),
    LIFT(READY_TIME, READY, EVENT_GROUP_SWITCH | EVENT_GROUP_READY),
    LIFT(WAIT_TIME, WAIT, EVENT_GROUP_SWITCH | EVENT_GROUP_READY),
    {M_INTERRUPT_TIME, COUNTERS_DPC, COUNTERS_ISR, EVENT_GROUP_SWITCH | EVENT_GROUP_INTERRUPT},
    LIFT(SYSTEM_CALLS, SYSCALLS, EVENT_GROUP_SWITCH | EVENT_GROUP_SYSCALL),
    LIFT(HARD_FAULTS, HARD_FAULTS, EVENT_GROUP_FAULT),
    LIFT(HARD_FAULT_BYTES, HARD_FAULT_BYTES, EVENT_GROUP_FAULT),
    LIFT(VIRTUAL_ALLOC_BYTES, VIRTUAL_ALLOC, EVENT_GROUP_VIRTUAL),
    LIFT(VIRTUAL_FREE_BYTES, VIRTUAL_FREE, EVENT_GROUP_VIRTUAL),
    LIFT(DISK_READ_BYTES, DISK_READ_BYTES, EVENT_GROUP_DISK),
    LIFT(DISK_WRITE_BYTES, DISK_WRITE_BYTES, EVENT_GROUP_DISK),
    LIFT(DISK_READS, DISK_READS, EVENT_GROUP_DISK),
    LIFT(DISK_WRITES, DISK_WRITES, EVENT_GROUP_DISK),
    LIFT(DISK_TIME, DISK_TIME, EVENT_GROUP_DISK),
    LIFT(FILE_OPERATIONS, FILE_OPS, EVENT_GROUP_FILE),
    LIFT(FILE_READ_BYTES, FILE_READ_BYTES, EVENT_GROUP_FILE),
    LIFT(FILE_WRITE_BYTES, FILE_WRITE_BYTES, EVENT_GROUP_FILE),
    LIFT(REGISTRY_OPERATIONS, REGISTRY_OPS, EVENT_GROUP_REGISTRY),
    LIFT(IMAGE_LOADS, IMAGE_LOADS, EVENT_GROUP_IMAGE),
    LIFT(THREADS_STARTED, THREADS_STARTED, EVENT_GROUP_THREAD),
    LIFT(PRESENTS, PRESENTS, EVENT_GROUP_PRESENT),
    LIFT(CLR_GC_COUNT, CLR_GCS, EVENT_GROUP_CLR_GC),
    LIFT(CLR_GC_GEN1, CLR_GEN1, EVENT_GROUP_CLR_GC),
    LIFT(CLR_GC_GEN2, CLR_GEN2, EVENT_GROUP_CLR_GC),
    LIFT(CLR_GC_PAUSE, CLR_PAUSE, EVENT_GROUP_CLR_GC),
    LIFT(CLR_EXCEPTIONS, CLR_EXCEPTIONS, EVENT_GROUP_CLR_GC),
    LIFT(CLR_CONTENTIONS, CLR_CONTENTIONS, EVENT_GROUP_CLR_GC),
    LIFT(CLR_CONTENTION_TIME, CLR_CONTENTION_TIME, EVENT_GROUP_CLR_GC),
    LIFT(CLR_STARVATIONS, CLR_STARVATIONS, EVENT_GROUP_CLR_GC),
    LIFT(CLR_JIT_METHODS, CLR_JIT_METHODS, EVENT_GROUP_CLR_JIT),
    LIFT(CLR_JIT_TIME, CLR_JIT_TIME, EVENT_GROUP_CLR_JIT),
    LIFT(CLR_ALLOC_BYTES, CLR_ALLOC, EVENT_GROUP_CLR_ALLOC),
#undef LIFT
};

/* What events count, where no table does. */
static void take_count(struct instance *p, unsigned id, uint64_t value)
{
    if (p->count.given & METRIC_BIT(id)) {
        return;
    }
    p->count.mask |= METRIC_BIT(id);
    if (value > (uint64_t)p->count.values[id] && value <= INT64_MAX) {
        p->count.values[id] = (int64_t)value;
    }
}

/* A counter never goes back: what the source read later must not be lower. */
static void raise_counter(struct aggregate *a, struct instance *p, unsigned id, int64_t value)
{
    if (value < p->count.values[id]) {
        a->stats.stepped_back++;
        return;
    }
    p->changed |= value != p->count.values[id];
    p->count.values[id] = value;
}

/* cpu_time as a table says. It may be less than what switches have added since the one before. */
static void take_cpu_time(struct aggregate *a, struct instance *p, int64_t value)
{
    a->stats.stepped_back += value < p->count.table_cpu_ns;
    if (value > p->count.values[M_CPU_TIME]) {
        p->count.values[M_CPU_TIME] = value;
        p->changed = true;
    }
    if (value > p->count.table_cpu_ns || !p->count.run_adds) {
        p->count.table_cpu_ns = value;
    }
    p->count.table_run_ns = p->tally.n[COUNTERS_RUN];
    p->count.run_adds = true;
}

/* cpu_time from its two halves where the source does not give the sum. */
static void derive_cpu_time(struct aggregate *a, struct instance *p)
{
    static const metric_mask halves = METRIC_BIT(M_KERNEL_TIME) | METRIC_BIT(M_USER_TIME);
    bool given = (p->count.mask & METRIC_BIT(M_CPU_TIME)) != 0;

    if ((p->count.mask & halves) == halves && !given) {
        p->count.mask |= METRIC_BIT(M_CPU_TIME);
        take_cpu_time(a, p, p->count.values[M_KERNEL_TIME] + p->count.values[M_USER_TIME]);
        given = true;
    }
    if (given) {
        instances_set_cpu_origin(p, CPU_ORIGIN_TIMES);
    }
}

static bool has_other_origin(const struct instance *p)
{
    return p->info.cpu_origin != CPU_ORIGIN_NONE && p->info.cpu_origin != CPU_ORIGIN_TIMES;
}

static void derive_peak_handles(struct instance *p)
{
    static const metric_mask peak = METRIC_BIT(M_PEAK_HANDLE_COUNT);
    int64_t now = p->count.values[M_HANDLE_COUNT];

    if (!(p->count.mask & METRIC_BIT(M_HANDLE_COUNT)) || (p->count.mask & peak)) {
        return;
    }
    p->count.mask |= peak; /* the largest the agent itself has seen */
    if (now > p->count.values[M_PEAK_HANDLE_COUNT]) {
        p->count.values[M_PEAK_HANDLE_COUNT] = now;
    }
}

/* -- whose it is -- */

/* In whose context the record was logged. */
static struct instance *context_of(struct aggregate *a, const struct event *ev)
{
    if (ev->pid != EVENT_NO_ID) {
        return lifecycle_process(a->life, ev->pid, ev);
    }
    if (ev->tid != EVENT_NO_ID) {
        return lifecycle_thread_owner(a->life, ev->tid, ev);
    }
    return sched_running(a->sched, ev->cpu);
}

/* The thread that the payload names, or does not. */
static struct instance *thread_of(struct aggregate *a, uint32_t tid, const struct event *ev)
{
    return tid == EVENT_NO_ID ? context_of(a, ev) : lifecycle_thread_owner(a->life, tid, ev);
}

static void charge(struct aggregate *a, struct instance *p, enum counters_id id, uint64_t n)
{
    if (p) {
        p->tally.n[id] += n;
        p->changed = true;
    } else {
        a->unattributed.n[id] += n;
    }
}

/* -- samples -- */

static void convert_waiting(struct instance *p, int64_t interval_ns)
{
    for (; p; p = p->next) {
        p->count.sampled_ns += p->count.samples_waiting * (uint64_t)interval_ns;
        p->count.samples_waiting = 0;
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
        convert_waiting(instances_first_running(a->table), a->interval_ns);
        convert_waiting(instances_first_ended(a->table), a->interval_ns);
    }
}

static struct instance *on_sample(struct aggregate *a, const struct event *ev)
{
    struct instance *p = lifecycle_thread_owner(a->life, ev->u.sample.tid, ev);

    charge(a, p, COUNTERS_SAMPLES, 1);
    if (ev->u.sample.interrupt) {
        charge(a, p, COUNTERS_SAMPLES_INTERRUPT, 1);
        a->stats.samples_interrupt++;
        return p;
    }
    if (!p) {
        a->stats.unattributed++;
        return NULL;
    }
    a->stats.samples++;
    if (a->interval_ns) {
        p->count.sampled_ns += (uint64_t)a->interval_ns;
    } else {
        p->count.samples_waiting++;
    }
    return p;
}

/* -- what events feed -- */

static enum cpu_origin best_origin(const struct aggregate *a)
{
    if (a->stats.sched.switches > 0 || (a->groups & EVENT_GROUP_SWITCH)) {
        return CPU_ORIGIN_CSWITCH;
    }
    return a->interval_ns && (a->stats.samples > 0 || (a->groups & EVENT_GROUP_SAMPLE))
               ? CPU_ORIGIN_SAMPLES
               : CPU_ORIGIN_NONE;
}

bool aggregate_cpu_moves(const struct instance *p)
{
    return p->info.cpu_origin == CPU_ORIGIN_TIMES && p->count.run_adds &&
           p->tally.n[COUNTERS_RUN] > p->count.table_run_ns;
}

void aggregate_now(struct aggregate *a, int64_t mono_ns)
{
    sched_settle(a->sched, mono_ns);
}

static void forget_counted(struct instance *p)
{
    for (; p; p = p->next) {
        p->tally = (struct counters){{0}};
        memset(&p->count, 0, sizeof p->count);
        instances_set_cpu_origin(p, CPU_ORIGIN_NONE);
    }
}

void aggregate_cut(struct aggregate *a, int64_t mono_ns, bool drop)
{
    sched_cut(a->sched, mono_ns, !drop);
    if (drop) {
        a->restarted = true;
        a->unattributed = (struct counters){{0}};
        forget_counted(instances_first_running(a->table));
        forget_counted(instances_first_ended(a->table));
    }
}

static void add_run(struct instance *p)
{
    uint64_t run_ns = p->tally.n[COUNTERS_RUN] - p->count.table_run_ns;
    uint64_t room_ns = (uint64_t)(INT64_MAX - p->count.table_cpu_ns);
    int64_t now_ns = run_ns < room_ns ? p->count.table_cpu_ns + (int64_t)run_ns : INT64_MAX;

    p->count.mask |= METRIC_BIT(M_CPU_TIME);
    if (now_ns > p->count.values[M_CPU_TIME]) {
        p->count.values[M_CPU_TIME] = now_ns;
    }
}

/* The column goes where nothing feeds it any more; what it was stays, and goes on from there. */
static void lift_columns(const struct aggregate *a, struct instance *p)
{
    if (!a->groups_ever) {
        return;
    }
    for (size_t i = 0; i < sizeof lifts / sizeof *lifts; i++) {
        const struct lift *l = &lifts[i];
        uint64_t n = p->tally.n[l->tally];

        if ((a->groups & l->groups) == l->groups) {
            take_count(p, l->metric, l->second == l->tally ? n : n + p->tally.n[l->second]);
        } else if (!(p->count.given & METRIC_BIT(l->metric))) {
            p->count.mask &= ~METRIC_BIT(l->metric);
        }
    }
    if (p->count.clr_heap_known && (a->groups & EVENT_GROUP_CLR_GC)) {
        set_gauge(p, M_CLR_HEAP_BYTES, p->count.clr_heap);
    } else {
        p->count.mask &= ~METRIC_BIT(M_CLR_HEAP_BYTES);
    }
}

/* What records of its threads say, where no table does: every CPU that any of them may use, and
 * priorities that all of them have. */
static void lift_threads(struct instance *p)
{
    const struct {
        unsigned id;
        bool differs;
        int64_t value;
    } columns[] = {
        {M_AFFINITY_MASK, p->count.threads.affinity > INT64_MAX,
         (int64_t)p->count.threads.affinity},
        {M_PRIORITY, p->count.threads.priorities, p->count.threads.priority},
        {M_IO_PRIORITY, p->count.threads.io_priorities, p->count.threads.io_priority},
    };

    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        if (p->count.given & METRIC_BIT(columns[i].id)) {
            continue;
        }
        if (columns[i].differs) {
            p->count.mask &= ~METRIC_BIT(columns[i].id);
        } else {
            set_gauge(p, columns[i].id, columns[i].value);
        }
    }
}

/* Events measure everybody: who had none of a kind that is recorded had zero of it. */
void aggregate_settle(const struct aggregate *a, struct instance *p)
{
    if (p->info.cpu_origin == CPU_ORIGIN_NONE) {
        instances_set_cpu_origin(p, best_origin(a));
    }
    if (p->info.cpu_origin == CPU_ORIGIN_CSWITCH) {
        take_count(p, M_CPU_TIME, p->tally.n[COUNTERS_RUN]);
    } else if (p->info.cpu_origin == CPU_ORIGIN_SAMPLES) {
        take_count(p, M_CPU_TIME, p->count.sampled_ns);
    } else if (aggregate_cpu_moves(p)) {
        add_run(p);
    }
    lift_columns(a, p);
    if (p->count.threads.known) {
        lift_threads(p);
    }
    if (instances_ended(p)) {
        p->count.mask &= a->growing; /* what it was using is gone with it; what it used stays */
        return;
    }
    if (!p->count.in_table && lifecycle_threads_known(a->life, p)) {
        set_gauge(p, M_THREAD_COUNT, p->threads);
    }
}

/* -- exit totals -- */

static void on_totals(struct aggregate *a, struct instance *p, const struct ev_proc *ev)
{
    metric_mask mask = ev->totals_mask;

    if (has_other_origin(p)) {
        mask &= ~METRIC_BIT(M_CPU_TIME);
    }
    if (p->count.mask & ~p->count.given & METRIC_BIT(M_HARD_FAULTS)) {
        mask &= ~METRIC_BIT(M_HARD_FAULTS); /* it has the other measure */
    }
    p->count.given |= mask;
    for (struct metric_mask_walk each = metric_mask_walk(mask); metric_mask_walk_next(&each);) {
        unsigned id = each.id;

        p->count.mask |= METRIC_BIT(id);
        if (!(a->growing & METRIC_BIT(id)) || ev->totals[id] > p->count.values[id]) {
            p->count.values[id] = ev->totals[id];
            p->changed = true;
        }
    }
    if ((mask & (METRIC_BIT(M_KERNEL_TIME) | METRIC_BIT(M_USER_TIME))) && !has_other_origin(p)) {
        if (!(mask & METRIC_BIT(M_CPU_TIME))) {
            p->count.mask &= ~METRIC_BIT(M_CPU_TIME); /* derive it anew */
        }
        derive_cpu_time(a, p);
        p->count.run_adds = false; /* nothing is missing any more */
    }
}

static struct instance *on_counters(struct aggregate *a, const struct event *ev)
{
    struct instance *p = lifecycle_process(a->life, ev->u.counters.pid, ev);

    if (!p) {
        return NULL;
    }
    p->count.given |= ev->u.counters.mask;
    for (struct metric_mask_walk each = metric_mask_walk(ev->u.counters.mask);
         metric_mask_walk_next(&each);) {
        if (a->growing & METRIC_BIT(each.id)) {
            raise_counter(a, p, each.id, ev->u.counters.values[each.id]);
        } else {
            p->count.values[each.id] = ev->u.counters.values[each.id];
        }
        p->count.mask |= METRIC_BIT(each.id);
        p->changed = true;
    }
    return p;
}

/* -- the other events -- */

static struct instance *on_interrupt(struct aggregate *a, const struct event *ev)
{
    struct instance *p = sched_running(a->sched, ev->cpu);

    charge(a, p, ev->kind == EV_DPC ? COUNTERS_DPC : COUNTERS_ISR,
           clk_span(ev->u.interrupt.took_ns));
    return p;
}

static struct instance *on_fault(struct aggregate *a, const struct event *ev)
{
    struct instance *p;

    if (ev->kind == EV_SOFT_FAULT) {
        p = context_of(a, ev);
        charge(a, p, COUNTERS_SOFT_FAULTS, 1);
        return p;
    }
    p = thread_of(a, ev->u.hard_fault.tid, ev);
    charge(a, p, COUNTERS_HARD_FAULTS, 1);
    charge(a, p, COUNTERS_HARD_FAULT_BYTES, ev->u.hard_fault.bytes);
    return p;
}

static struct instance *on_virtual(struct aggregate *a, const struct event *ev)
{
    struct instance *p = lifecycle_process(a->life, ev->u.vm.pid, ev);

    a->stats.groups[SOURCE_SHED_VIRTUAL]++;
    charge(a, p, ev->kind == EV_VIRTUAL_ALLOC ? COUNTERS_VIRTUAL_ALLOC : COUNTERS_VIRTUAL_FREE,
           ev->u.vm.size);
    return p;
}

/* Whoever handed the request over. */
static struct instance *issuer_of(struct aggregate *a, const struct event *ev)
{
    struct instance *p = NULL;
    bool matched = irpmap_take(a->irps, ev->u.disk.irp, &p);

    if (ev->u.disk.issuer_tid != EVENT_NO_ID) {
        return lifecycle_thread_owner(a->life, ev->u.disk.issuer_tid, ev);
    }
    a->stats.disk_unmatched += !matched;
    return p;
}

/* Providers of manifests tell what classic records tell: where those come, they count. */
static bool told_twice(bool *classic_told, bool manifest)
{
    *classic_told = *classic_told || !manifest;
    return *classic_told && manifest;
}

static struct instance *on_disk(struct aggregate *a, const struct event *ev)
{
    struct instance *p;

    if (told_twice(&a->disk_told, ev->u.disk.manifest)) {
        return NULL;
    }
    if (ev->kind == EV_DISK_INIT) {
        p = thread_of(a, ev->u.disk.issuer_tid, ev);
        irpmap_put(a->irps, ev->u.disk.irp, p);
        return p;
    }
    p = ev->u.disk.manifest ? NULL : issuer_of(a, ev);
    charge(a, p, COUNTERS_DISK_TIME, clk_span(ev->u.disk.took_ns));
    if (ev->kind == EV_DISK_READ) {
        charge(a, p, COUNTERS_DISK_READS, 1);
        charge(a, p, COUNTERS_DISK_READ_BYTES, ev->u.disk.bytes);
    } else if (ev->kind == EV_DISK_WRITE) {
        charge(a, p, COUNTERS_DISK_WRITES, 1);
        charge(a, p, COUNTERS_DISK_WRITE_BYTES, ev->u.disk.bytes);
    } else {
        charge(a, p, COUNTERS_DISK_FLUSHES, 1);
    }
    return p;
}

static struct instance *on_file(struct aggregate *a, const struct event *ev)
{
    struct instance *p = thread_of(a, ev->u.file.tid, ev);

    a->stats.groups[SOURCE_SHED_FILE]++;
    if (told_twice(&a->file_told, ev->u.file.manifest) || ev->u.file.op == FILE_OP_END) {
        return p; /* its begin, or the classic record, is counted */
    }
    charge(a, p, COUNTERS_FILE_OPS, 1);
    if (ev->u.file.op == FILE_CREATE) {
        charge(a, p, COUNTERS_FILE_OPENS, 1);
    } else if (ev->u.file.op == FILE_READ) {
        charge(a, p, COUNTERS_FILE_READ_BYTES, ev->u.file.bytes);
    } else if (ev->u.file.op == FILE_WRITE) {
        charge(a, p, COUNTERS_FILE_WRITE_BYTES, ev->u.file.bytes);
    }
    return p;
}

static struct instance *on_net(struct aggregate *a, const struct event *ev)
{
    const struct ev_net *net = &ev->u.net;
    struct instance *p = lifecycle_process(a->life, net->pid, ev);

    a->stats.groups[SOURCE_SHED_NETWORK]++;
    if (told_twice(&a->net_told, net->manifest)) {
        return p;
    }
    if (net->op == NET_SEND) {
        charge(a, p, net->udp ? COUNTERS_UDP_SEND : COUNTERS_TCP_SEND, net->bytes);
    } else if (net->op == NET_RECV) {
        charge(a, p, net->udp ? COUNTERS_UDP_RECV : COUNTERS_TCP_RECV, net->bytes);
    } else if (net->op == NET_RETRANSMIT) {
        charge(a, p, COUNTERS_TCP_RETRANSMITS, 1);
    } else if (net->op == NET_CONNECT || net->op == NET_ACCEPT) {
        charge(a, p, COUNTERS_TCP_CONNECTS, 1);
    }
    return p;
}

/* Microsoft-Windows-Kernel-Process tells of threads and images what classic records tell: where
 * those are recorded too, one of the two is enough. Of processes it tells another half, which
 * lifecycle joins. */
static bool repeats(struct aggregate *a, const struct event *ev)
{
    switch (ev->kind) {
    case EV_THREAD_START:
    case EV_THREAD_STOP:
    case EV_THREAD_FOUND:
    case EV_THREAD_LAST:
        a->threads_told = a->threads_told || !ev->u.thread.manifest;
        return a->threads_told && ev->u.thread.manifest;
    case EV_IMAGE_LOAD:
    case EV_IMAGE_UNLOAD:
    case EV_IMAGE_FOUND:
    case EV_IMAGE_LAST:
        a->images_told = a->images_told || !ev->u.image.manifest;
        return a->images_told && ev->u.image.manifest;
    default:
        return false;
    }
}

/* Where its threads may run, and how urgent they are. */
static void see_thread(struct instance *p, const struct ev_thread *t)
{
    bool first = !p->count.threads.known;

    if (!t->placed) {
        return;
    }
    p->count.threads.affinity |= t->affinity;
    p->count.threads.priorities |= !first && p->count.threads.priority != t->priority;
    p->count.threads.io_priorities |= !first && p->count.threads.io_priority != t->io_priority;
    p->count.threads.priority = t->priority;
    p->count.threads.io_priority = t->io_priority;
    p->count.threads.known = true;
}

static struct instance *on_life(struct aggregate *a, const struct event *ev)
{
    static const uint8_t counts[EV_KIND_COUNT] = {
        [EV_THREAD_START] = COUNTERS_THREADS_STARTED + 1,
        [EV_THREAD_STOP] = COUNTERS_THREADS_ENDED + 1,
        [EV_THREAD_FOUND] = COUNTERS_THREAD_RUNDOWN + 1,
        [EV_THREAD_LAST] = COUNTERS_THREAD_RUNDOWN + 1,
        [EV_IMAGE_LOAD] = COUNTERS_IMAGE_LOADS + 1,
        [EV_IMAGE_UNLOAD] = COUNTERS_IMAGE_UNLOADS + 1,
        [EV_IMAGE_FOUND] = COUNTERS_IMAGE_RUNDOWN + 1,
        [EV_IMAGE_LAST] = COUNTERS_IMAGE_RUNDOWN + 1,
    };
    struct instance *p;

    if (repeats(a, ev)) {
        return NULL;
    }
    if (ev->kind == EV_PROC_START || ev->kind == EV_PROC_STOP) {
        clr_forget(a->clr, ev->u.proc.info.id.pid);
    }
    p = lifecycle_event(a->life, ev);
    if (counts[ev->kind]) {
        charge(a, p, counts[ev->kind] - 1, 1);
    }
    if (p && ev->kind == EV_PROC_STOP && ev->u.proc.totals && !a->restarted) {
        on_totals(a, p, &ev->u.proc);
    } else if (p && ev->kind >= EV_THREAD_START && ev->kind <= EV_THREAD_LAST) {
        see_thread(p, &ev->u.thread);
    }
    return p;
}

static struct instance *counted(struct aggregate *a, struct instance *p, enum counters_id id)
{
    charge(a, p, id, 1);
    return p;
}

static struct instance *on_registry(struct aggregate *a, const struct event *ev)
{
    struct instance *p = context_of(a, ev);

    a->stats.groups[SOURCE_SHED_REGISTRY]++;
    if (!told_twice(&a->registry_told, ev->u.registry.manifest)) {
        charge(a, p, COUNTERS_REGISTRY_OPS, 1);
    }
    return p;
}

/* -- .NET -- */

/* Managed locks only. A stop that measured itself needs no start. */
static void clr_waited(struct aggregate *a, struct instance *p, const struct ev_clr *ev,
                       const struct clr_step *step)
{
    if (ev->flags == 0 && (step->ended || ev->took_ns >= 0)) {
        charge(a, p, COUNTERS_CLR_CONTENTION_TIME,
               clk_span(ev->took_ns >= 0 ? ev->took_ns : step->took_ns));
    }
}

static void clr_charge(struct aggregate *a, struct instance *p, const struct ev_clr *ev,
                       const struct clr_step *step)
{
    switch (ev->op) {
    case CLR_GC_START:
        if (!step->repeated) {
            charge(a, p, COUNTERS_CLR_GCS, 1);
            charge(a, p, COUNTERS_CLR_GEN1, ev->generation == 1);
            charge(a, p, COUNTERS_CLR_GEN2, ev->generation == 2);
        }
        break;
    case CLR_RESTART:
        if (step->ended && clr_is_gc(step->reason)) {
            charge(a, p, COUNTERS_CLR_PAUSE, clk_span(step->took_ns));
        }
        break;
    case CLR_HEAP:
        if (p) {
            p->count.clr_heap = ev->bytes > INT64_MAX ? INT64_MAX : (int64_t)ev->bytes;
            p->count.clr_heap_known = p->changed = true;
        }
        break;
    case CLR_METHOD_LOAD:
        if (step->ended) {
            charge(a, p, COUNTERS_CLR_JIT_METHODS, 1);
            charge(a, p, COUNTERS_CLR_JIT_TIME, clk_span(step->took_ns));
        }
        break;
    case CLR_EXCEPTION:
        charge(a, p, COUNTERS_CLR_EXCEPTIONS, 1);
        break;
    case CLR_CONTENTION_START:
        charge(a, p, COUNTERS_CLR_CONTENTIONS, ev->flags == 0);
        break;
    case CLR_CONTENTION_STOP:
        clr_waited(a, p, ev, step);
        break;
    case CLR_ADJUSTMENT:
        charge(a, p, COUNTERS_CLR_STARVATIONS, ev->reason == CLR_REASON_STARVED);
        break;
    default:
        break;
    }
}

static struct instance *on_clr(struct aggregate *a, const struct event *ev)
{
    struct instance *p = context_of(a, ev);
    struct clr_step step;

    a->stats.groups[SOURCE_SHED_CLR]++;
    if (ev->u.clr.op == CLR_ALLOC) { /* the many: nothing begins or ends */
        charge(a, p, COUNTERS_CLR_ALLOC, ev->u.clr.bytes);
        return p;
    }
    clr_event(a->clr, ev, &step);
    clr_charge(a, p, &ev->u.clr, &step);
    return p;
}

static void on_lost(struct aggregate *a, const struct event *ev)
{
    a->stats.lost_marks++;
    sched_lost(a->sched, ev);
    clr_lost(a->clr);
    irpmap_clear(a->irps); /* an address may have been handed out again unseen */
}

/* Without a default, so that the compiler names a kind that is forgotten here. */
static struct instance *rare_event(struct aggregate *a, const struct event *ev)
{
    switch (ev->kind) {
    case EV_SYSCALL_EXIT:
        return context_of(a, ev);
    case EV_VIRTUAL_ALLOC:
    case EV_VIRTUAL_FREE:
        return on_virtual(a, ev);
    case EV_DISK_INIT:
    case EV_DISK_READ:
    case EV_DISK_WRITE:
    case EV_DISK_FLUSH:
        return on_disk(a, ev);
    case EV_FILE_OP:
        return on_file(a, ev);
    case EV_NET:
        return on_net(a, ev);
    case EV_REGISTRY:
        return on_registry(a, ev);
    case EV_PRESENT:
        return counted(a, context_of(a, ev), COUNTERS_PRESENTS);
    case EV_THREAD_NAME:
        return lifecycle_process(a->life, ev->u.thread.pid, ev);
    case EV_STACK:
        return counted(a, lifecycle_process(a->life, ev->u.stack.pid, ev), COUNTERS_STACKS);
    case EV_LOST:
        on_lost(a, ev);
        return NULL;
    case EV_PROC_COUNTERS:
        return on_counters(a, ev);
    case EV_CPU_SAMPLE_INTERVAL:
        on_interval(a, ev);
        return NULL;
    case EV_PROC_START:
    case EV_PROC_STOP:
    case EV_PROC_FOUND:
    case EV_PROC_LAST:
    case EV_PROC_DEFUNCT:
    case EV_THREAD_START:
    case EV_THREAD_STOP:
    case EV_THREAD_FOUND:
    case EV_THREAD_LAST:
    case EV_IMAGE_LOAD:
    case EV_IMAGE_UNLOAD:
    case EV_IMAGE_FOUND:
    case EV_IMAGE_LAST:
        return on_life(a, ev);
    case EV_CSWITCH: /* these are charged before, as the frequent ones */
    case EV_READY:
    case EV_CPU_SAMPLE:
    case EV_CPU_PMC:
    case EV_DPC:
    case EV_ISR:
    case EV_SYSCALL_ENTER:
    case EV_SOFT_FAULT:
    case EV_HARD_FAULT:
    case EV_CLR:
    case EV_GROUPS: /* taken over at once */
    case EV_SOURCE: /* of the source itself */
    case EV_KIND_COUNT:
        break;
    }
    return NULL;
}

/* Ahead of its time: only who lives, and how samples are spaced, is taken from it. */
static void early_event(struct aggregate *a, const struct event *ev)
{
    if (ev->kind == EV_CPU_SAMPLE_INTERVAL) {
        on_interval(a, ev);
    } else if (!repeats(a, ev)) {
        (void)lifecycle_event(a->life, ev); /* others than lifecycle events are ignored there */
    }
}

static struct instance *take_event(struct aggregate *a, const struct event *ev)
{
    switch (ev->kind) {
    case EV_READY:
        return sched_ready(a->sched, ev);
    case EV_CPU_SAMPLE:
        return on_sample(a, ev);
    case EV_CPU_PMC:
        return counted(a, thread_of(a, ev->u.pmc.tid, ev), COUNTERS_PMC_SAMPLES);
    case EV_DPC:
    case EV_ISR:
        return on_interrupt(a, ev);
    case EV_SYSCALL_ENTER:
        return counted(a, context_of(a, ev), COUNTERS_SYSCALLS);
    case EV_SOFT_FAULT:
    case EV_HARD_FAULT:
        return on_fault(a, ev);
    case EV_CLR:
        return on_clr(a, ev);
    default:
        return rare_event(a, ev);
    }
}

void aggregate_groups(struct aggregate *a, uint32_t groups)
{
    a->groups_told = true;
    a->groups = groups;
    a->groups_ever |= groups;
}

/* Where nobody says what is recorded, it shows. */
static void see_group(struct aggregate *a, enum event_kind kind)
{
    static const uint32_t groups[EV_KIND_COUNT] = {
        [EV_CSWITCH] = EVENT_GROUP_SWITCH,
        [EV_READY] = EVENT_GROUP_READY,
        [EV_DPC] = EVENT_GROUP_INTERRUPT,
        [EV_ISR] = EVENT_GROUP_INTERRUPT,
        [EV_SYSCALL_ENTER] = EVENT_GROUP_SYSCALL,
        [EV_HARD_FAULT] = EVENT_GROUP_FAULT,
        [EV_VIRTUAL_ALLOC] = EVENT_GROUP_VIRTUAL,
        [EV_VIRTUAL_FREE] = EVENT_GROUP_VIRTUAL,
        [EV_DISK_READ] = EVENT_GROUP_DISK,
        [EV_DISK_WRITE] = EVENT_GROUP_DISK,
        [EV_DISK_FLUSH] = EVENT_GROUP_DISK,
        [EV_FILE_OP] = EVENT_GROUP_FILE,
        [EV_NET] = EVENT_GROUP_NET,
        [EV_REGISTRY] = EVENT_GROUP_REGISTRY,
        [EV_PRESENT] = EVENT_GROUP_PRESENT,
        [EV_CLR] = EVENT_GROUP_CLR_GC,
        [EV_IMAGE_LOAD] = EVENT_GROUP_IMAGE,
        [EV_THREAD_START] = EVENT_GROUP_THREAD,
    };

    if (!a->groups_told) {
        a->groups |= groups[kind];
        a->groups_ever |= groups[kind];
    }
}

__attribute__((noinline)) static struct instance *other_event(struct aggregate *a,
                                                              const struct event *ev)
{
    struct instance *p;

    if (ev->kind == EV_GROUPS) {
        aggregate_groups(a, ev->u.groups);
        return NULL;
    }
    if (ev->early) {
        early_event(a, ev);
        return NULL;
    }
    see_group(a, ev->kind);
    p = take_event(a, ev);
    a->stats.events++;
    a->stats.charged += p != NULL;
    return p;
}

void aggregate_switches(struct aggregate *a, const struct event_switch *run, size_t n)
{
    for (size_t i = 0; i < n && !a->groups_told; i++) {
        see_group(a, run[i].cpu & EVENT_SWITCH_READY ? EV_READY : EV_CSWITCH);
    }
    sched_switches(a->sched, run, n);
}

struct instance *aggregate_event(struct aggregate *a, const struct event *ev)
{
    if (ev->kind != EV_CSWITCH || ev->early) {
        return other_event(a, ev);
    }
    see_group(a, EV_CSWITCH);
    return sched_switch(a->sched, ev);
}

/* -- tables -- */

static void take_row(struct aggregate *a, struct instance *p, const struct snap_row *row)
{
    metric_mask mask = row->mask;

    if (has_other_origin(p)) {
        mask &= ~METRIC_BIT(M_CPU_TIME);
    }
    p->count.mask = mask;
    p->count.given |= mask;
    for (struct metric_mask_walk each = metric_mask_walk(mask); metric_mask_walk_next(&each);) {
        unsigned id = each.id;

        if (a->growing & METRIC_BIT(id)) {
            raise_counter(a, p, id, row->values[id]);
        } else {
            p->changed |= p->count.values[id] != row->values[id];
            p->count.values[id] = row->values[id];
        }
    }
    p->count.in_table = true;
    if (!has_other_origin(p)) {
        derive_cpu_time(a, p);
    }
    derive_peak_handles(p);
}

void aggregate_table(struct aggregate *a, const struct snapshot *snap)
{
    sched_settle(a->sched, snap->mono_ns);
    lifecycle_table_begin(a->life, snap);
    for (struct instance *p = instances_first_running(a->table); p; p = p->next) {
        p->count.in_table = false;
    }
    for (size_t i = 0; i < snap->n_rows; i++) {
        struct instance *p = lifecycle_row(a->life, snap, &snap->rows[i]);

        if (p) {
            take_row(a, p, &snap->rows[i]);
        }
    }
    lifecycle_table_end(a->life, snap);
}
