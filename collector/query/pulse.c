/* Slots lie in a ring for each host, by the number of their half minute since 1970; four numbers of
 * 16 bits each. A batch is first added up by ticks, without the lock, then joined to the slots it
 * touches, weighed by the time that each part covers, so that it does not matter how a slot's
 * batches are cut nor in which order they come.
 *
 * A tick covers the time since the tick before it, or one period where that is missing. These times
 * are cut at whole milliseconds of the wall clock, so what is whole adds up to the whole slot. */
#include "collector/query/pulse.h"

#include <stdatomic.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define SLOT_MS      30000u
#define PERIOD_MAX   (600 * CLK_S)  /* between ticks */
#define CPU_MAX      4294967295.0   /* permille */
#define UNKNOWN      UINT16_MAX     /* a small float that is none */
#define AHEAD_NS     (7200 * CLK_S) /* a clock that is further ahead is not believed */
#define MANTISSA     11u
#define MINUTE_NS    (60 * CLK_S)
#define MINUTES      (PULSE_SLOTS / 2)
#define LOOKBACK_NS  MINUTE_NS
#define HOSTS_A_VIEW 64u
#define NEWEST_MAX   65536u /* processes of a host whose CPU times are joined */

/* One slot of one host. */
struct packed {
    uint16_t covered; /* ms of it that arrived, and 1; 0: nothing is known */
    uint16_t cpu;     /* small float, or UNKNOWN, as the next */
    uint16_t memory;  /* KiB */
    uint16_t processes;
};

struct pulse_host {
    struct uuid id, boot;
    int64_t newest;           /* number of its newest slot */
    int64_t wall_ns, mono_ns; /* of the newest tick; 0: none yet */
    int64_t period_ns;        /* 0: not known */
    uint64_t set;             /* of the processes with a CPU time at that tick; 0: none */
    int64_t cpu_ns;           /* their CPU times together */
    struct packed at[PULSE_SLOTS];
};

/* One tick of the batch that is being added up. */
struct tick {
    uint64_t set;
    int64_t cpu_ns, grew_ns, memory;
    uint32_t processes;
    bool has_memory;
};

/* What a batch adds to one slot. */
struct part {
    int64_t cpu_ns, cpu_of_ns; /* CPU time, measured over so long */
    int64_t memory, processes; /* sums over ticks */
    uint32_t ticks, memory_ticks, covered_ms;
};

struct pulse {
    uint32_t hosts_max;
    struct tick ticks[WIRE_TICKS_MAX]; /* the writer's */
    struct os_mutex *lock;             /* guards what follows */
    struct map by_id;                  /* of half an id: place + 1; may be another's */
    struct pulse_host **hosts;
    uint32_t n_hosts;
    uint64_t gone, refilled;
    /* The thread that reads back. */
    struct os_thread *thread;
    struct store *store;
    int64_t refill_ns;
    atomic_bool stop, refilling;
};

/* -- small floats: 11 bits, and by which power of two they are multiplied -- */

static uint16_t small_put(int64_t v)
{
    unsigned shift = 0;

    if (v <= 0) {
        return 0;
    }
    while (v >> shift >= 1 << MANTISSA) {
        shift++;
    }
    if (shift && (v >> (shift - 1) & 1)) { /* to the nearest */
        v = clk_add(v, INT64_C(1) << (shift - 1));
        shift += v >> shift >= 1 << MANTISSA;
    }
    return (uint16_t)(shift > 30 ? 30u << MANTISSA | 0x7ff : shift << MANTISSA | v >> shift);
}

static int64_t small_get(uint16_t s)
{
    return (int64_t)(s & ((1u << MANTISSA) - 1)) << (s >> MANTISSA);
}

/* -- hosts -- */

static uint64_t id_key(const struct uuid *id)
{
    uint64_t a, b;

    memcpy(&a, id->b, sizeof a);
    memcpy(&b, id->b + sizeof a, sizeof b);
    return a ^ b * UINT64_C(0x9e3779b97f4a7c15);
}

static struct pulse_host *host_find(const struct pulse *p, const struct uuid *id)
{
    uint64_t key = id_key(id), place;

    for (; (place = map_get(&p->by_id, key)) != 0; key++) {
        if (memcmp(p->hosts[place - 1]->id.b, id->b, sizeof id->b) == 0) {
            return p->hosts[place - 1];
        }
    }
    return NULL;
}

/* False: no memory. */
static bool host_enter(struct pulse *p, uint32_t place)
{
    uint64_t key = id_key(&p->hosts[place]->id);

    if (map_reserve(&p->by_id)) {
        return false;
    }
    while (map_get(&p->by_id, key)) {
        key++;
    }
    (void)map_put(&p->by_id, key, (uint64_t)place + 1);
    return true;
}

/* The place of the host that was silent for longest. */
static uint32_t host_oldest(const struct pulse *p)
{
    uint32_t oldest = 0;

    for (uint32_t i = 1; i < p->n_hosts; i++) {
        oldest = p->hosts[i]->newest < p->hosts[oldest]->newest ? i : oldest;
    }
    return oldest;
}

/* A new host's place is cleared for it; another's name is forgotten with all others', and they are
 * entered again. NULL: no memory. */
static struct pulse_host *host_add(struct pulse *p, const struct uuid *id)
{
    bool full = p->n_hosts == p->hosts_max;
    uint32_t place = full ? host_oldest(p) : p->n_hosts;
    struct pulse_host *h = full ? p->hosts[place] : mem_zalloc(sizeof *h);
    bool entered = true;

    if (!h) {
        return NULL;
    }
    *h = (struct pulse_host){.id = *id, .newest = INT64_MIN};
    p->hosts[place] = h;
    if (!full) {
        entered = host_enter(p, place);
        p->n_hosts += entered;
        if (!entered) {
            p->hosts[place] = NULL;
            mem_free(h);
        }
        return entered ? h : NULL;
    }
    p->gone++;
    map_clear(&p->by_id);
    for (uint32_t i = 0; i < p->n_hosts; i++) {
        entered = host_enter(p, i) && entered; /* there was room for as many before */
    }
    return entered ? h : NULL;
}

static struct pulse_host *host_get(struct pulse *p, const struct uuid *id)
{
    struct pulse_host *h = host_find(p, id);

    return h || !p->hosts_max ? h : host_add(p, id);
}

/* -- slots -- */

static int64_t slot_of(int64_t ns)
{
    return ns / PULSE_STEP_NS - (ns % PULSE_STEP_NS < 0);
}

/* The slot of that number; NULL: it is older than the ring. */
static struct packed *slot_at(struct pulse_host *h, int64_t number)
{
    if (h->newest == INT64_MIN || number > h->newest) {
        int64_t from = h->newest == INT64_MIN || number - h->newest >= PULSE_SLOTS
                           ? number - PULSE_SLOTS + 1
                           : h->newest + 1;

        for (int64_t i = from; i <= number; i++) {
            h->at[(uint64_t)i % PULSE_SLOTS] = (struct packed){0};
        }
        h->newest = number;
    }
    return number > h->newest - PULSE_SLOTS ? &h->at[(uint64_t)number % PULSE_SLOTS] : NULL;
}

static int64_t weighed(int64_t a, uint32_t a_ms, int64_t b, uint32_t b_ms)
{
    return (int64_t)(((double)a * a_ms + (double)b * b_ms) / (a_ms + b_ms) + 0.5);
}

static uint16_t processes_of(const struct part *x)
{
    int64_t n = x->processes / x->ticks;

    return n < UINT16_MAX ? (uint16_t)n : UINT16_MAX;
}

static void slot_join(struct packed *s, const struct part *x)
{
    uint32_t had = s->covered ? s->covered - 1u : 0, more = x->covered_ms;
    uint32_t all = had + more < SLOT_MS ? had + more : SLOT_MS;
    bool fresh = !s->covered;

    if (fresh) {
        *s = (struct packed){.cpu = UNKNOWN, .memory = UNKNOWN};
    }
    s->covered = (uint16_t)(all + 1);
    if (!x->ticks) {
        return;
    }
    had = had ? had : 1;
    more = more ? more : 1;
    s->processes = fresh || !s->processes /* nothing but time so far */
                       ? processes_of(x)
                       : (uint16_t)weighed(s->processes, had, processes_of(x), more);
    if (x->memory_ticks) {
        int64_t kib = x->memory / 1024 / x->memory_ticks;

        s->memory = s->memory == UNKNOWN ? small_put(kib)
                                         : small_put(weighed(small_get(s->memory), had, kib, more));
    }
    if (x->cpu_of_ns > 0) {
        double share = (double)x->cpu_ns * 1000 / (double)x->cpu_of_ns;
        int64_t permille = (int64_t)((share < CPU_MAX ? share : CPU_MAX) + 0.5);

        s->cpu = s->cpu == UNKNOWN ? small_put(permille)
                                   : small_put(weighed(small_get(s->cpu), had, permille, more));
    }
}

/* -- a batch by ticks -- */

static const struct batch_column *column_of(const struct batch *b, uint8_t metric)
{
    for (size_t i = 0; i < b->n_columns; i++) {
        if (b->columns[i].metric == metric) {
            return &b->columns[i];
        }
    }
    return NULL;
}

/* The column's values of a run, which takes them; NULL: it has none. */
static const int64_t *values_take(const struct batch_column *c, const struct batch_run *r,
                                  size_t *at)
{
    const int64_t *values = c && r->mask & METRIC_BIT(c->metric) && *at + r->n_ticks <= c->n_values
                                ? c->values + *at
                                : NULL;

    *at += values ? r->n_ticks : 0;
    return values;
}

static void ticks_add_cpu(struct tick *t, const struct batch_run *r, const int64_t *cpu,
                          const int64_t *before)
{
    uint64_t who = (r->id.start ^ (uint64_t)r->id.pid << 32) * UINT64_C(0x9e3779b97f4a7c15);

    who ^= who >> 29;
    who *= UINT64_C(0xbf58476d1ce4e5b9);
    for (uint32_t i = 0; i < r->n_ticks; i++) {
        int64_t base = i ? cpu[i - 1] : before ? *before : r->fresh ? 0 : cpu[0];

        t[i].set += who;
        t[i].cpu_ns = clk_add(t[i].cpu_ns, cpu[i]);
        t[i].grew_ns = clk_add(t[i].grew_ns, cpu[i] > base ? clk_sub(cpu[i], base) : 0);
    }
}

static void ticks_add_run(struct tick *t, const struct batch_run *r, const int64_t *memory)
{
    for (uint32_t i = 0; i < r->n_ticks; i++) {
        t[i].processes++;
        t[i].memory = clk_add(t[i].memory, memory ? memory[i] : 0);
        t[i].has_memory |= memory != NULL;
    }
}

static void ticks_fill(struct pulse *p, const struct batch *b)
{
    const struct batch_column *cpu = column_of(b, M_CPU_TIME);
    const struct batch_column *memory = column_of(b, M_WORKING_SET_SIZE);
    size_t cpu_at = 0, memory_at = 0;
    const int64_t *last = NULL; /* the newest CPU time of the run before */

    memset(p->ticks, 0, b->n_ticks * sizeof *p->ticks);
    for (size_t i = 0; i < b->n_runs; i++) {
        const struct batch_run *r = &b->runs[i];
        const int64_t *c = values_take(cpu, r, &cpu_at);
        const int64_t *m = values_take(memory, r, &memory_at);
        bool same = i > 0 && proc_id_eq(r->id, b->runs[i - 1].id);

        if (r->id.pid != 0 && r->first_tick + (uint64_t)r->n_ticks <= b->n_ticks) {
            ticks_add_run(&p->ticks[r->first_tick], r, m);
            if (c) {
                ticks_add_cpu(&p->ticks[r->first_tick], r, c, same ? last : NULL);
            }
        }
        last = c ? c + r->n_ticks - 1 : same ? last : NULL;
    }
}

/* -- ticks into slots -- */

/* The parts of one batch, which lie in neighbouring slots. */
struct parts {
    int64_t first; /* number of the first slot */
    uint32_t n;
    struct part at[PULSE_SLOTS];
};

static struct part *parts_at(struct parts *x, int64_t number)
{
    return number >= x->first && number < x->first + (int64_t)x->n ? &x->at[number - x->first]
                                                                   : NULL;
}

static int64_t ms_of(int64_t ns)
{
    return ns / CLK_MS;
}

static void parts_cover(struct parts *x, int64_t from_ns, int64_t to_ns)
{
    int64_t k = slot_of(from_ns) > x->first ? slot_of(from_ns) : x->first;

    for (; k <= slot_of(to_ns) && k < x->first + (int64_t)x->n; k++) { /* however far apart */
        int64_t first = k * PULSE_STEP_NS, last = first + PULSE_STEP_NS;
        struct part *part = parts_at(x, k);

        first = from_ns > first ? from_ns : first;
        last = to_ns < last ? to_ns : last;
        if (part && last > first) {
            part->covered_ms += (uint32_t)(ms_of(last) - ms_of(first));
        }
    }
}

/* The mean of the batch; 0: it has one tick. */
static int64_t period_mean(const struct batch *b)
{
    int64_t ns = b->n_ticks > 1 ? clk_sub(b->mono_ns[b->n_ticks - 1], b->mono_ns[0]) /
                                      (int64_t)(b->n_ticks - 1)
                                : 0;

    return ns < PERIOD_MAX ? ns : PERIOD_MAX;
}

/* The time from tick to tick. A mean that is far above the batch before may be that of an agent
 * that was stopped: it counts from the next batch on. */
static int64_t period_of(const struct pulse_host *h, const struct batch *b)
{
    int64_t ns = period_mean(b);

    if (!ns || (h->period_ns && ns > h->period_ns + h->period_ns / 2)) {
        ns = h->period_ns;
    }
    return ns ? ns : CLK_S;
}

/* The batch follows what was stored last of this host, without a hole. */
static bool batch_follows(const struct pulse_host *h, const struct batch *b, int64_t period_ns)
{
    int64_t gap = clk_sub(b->mono_ns[0], h->mono_ns);

    return h->wall_ns && memcmp(h->boot.b, b->head.boot.b, sizeof h->boot.b) == 0 && gap > 0 &&
           gap <= period_ns + period_ns / 2 && b->wall_ns[0] > h->wall_ns;
}

/* Older than what was stored last, and not because the clock was set back. */
static bool batch_is_late(const struct pulse_host *h, const struct batch *b)
{
    bool same_boot = memcmp(h->boot.b, b->head.boot.b, sizeof h->boot.b) == 0;

    return b->wall_ns[b->n_ticks - 1] < h->wall_ns &&
           !(same_boot && b->mono_ns[b->n_ticks - 1] > h->mono_ns);
}

static void parts_fill(struct parts *x, const struct pulse *p, const struct pulse_host *h,
                       const struct batch *b)
{
    int64_t period = period_of(h, b);
    bool follows = batch_follows(h, b, period);

    for (size_t i = 0; i < b->n_ticks; i++) {
        const struct tick *t = &p->ticks[i];
        int64_t wall = b->wall_ns[i], before = i ? b->wall_ns[i - 1] : follows ? h->wall_ns : 0;
        int64_t mono = i ? b->mono_ns[i - 1] : h->mono_ns;
        bool near = before && clk_sub(wall, before) <= period + period / 2;
        struct part *part = parts_at(x, slot_of(wall));

        parts_cover(x, near ? before : clk_sub(wall, period), wall);
        if (!part) {
            continue;
        }
        part->ticks++;
        part->memory = clk_add(part->memory, t->memory);
        part->memory_ticks += t->has_memory;
        part->processes += t->processes;
        if (t->set && (i || (follows && t->set == h->set))) {
            int64_t grew = i ? t->grew_ns : clk_sub(t->cpu_ns, h->cpu_ns);

            part->cpu_ns = clk_add(part->cpu_ns, grew > 0 ? grew : 0);
            part->cpu_of_ns = clk_add(part->cpu_of_ns, clk_sub(b->mono_ns[i], mono));
        }
    }
}

static void host_follow(struct pulse_host *h, const struct pulse *p, const struct batch *b)
{
    const struct tick *t = &p->ticks[b->n_ticks - 1];

    if (batch_is_late(h, b)) {
        return;
    }
    h->period_ns = b->n_ticks > 1 ? period_mean(b) : period_of(h, b);
    h->boot = b->head.boot;
    h->wall_ns = b->wall_ns[b->n_ticks - 1];
    h->mono_ns = b->mono_ns[b->n_ticks - 1];
    h->set = t->set;
    h->cpu_ns = t->cpu_ns;
}

void pulse_stored(void *ctx, const struct store_stored *stored)
{
    const struct batch *b = stored->batch;
    struct pulse *p = ctx;
    struct pulse_host *h;
    int64_t last = b->n_ticks ? slot_of(b->wall_ns[b->n_ticks - 1]) : 0;
    struct parts x = {.n = 0};

    if (!b->n_ticks || b->n_ticks > WIRE_TICKS_MAX || b->wall_ns[0] < 0 ||
        b->wall_ns[b->n_ticks - 1] > clk_add(stored->received_ns, AHEAD_NS)) {
        return;
    }
    ticks_fill(p, b);
    x.first = slot_of(b->wall_ns[0]) - 1;
    x.first = last - x.first < PULSE_SLOTS ? x.first : last - PULSE_SLOTS + 1;
    x.n = (uint32_t)(last - x.first + 1);
    os_mutex_lock(p->lock);
    h = host_get(p, &b->head.host);
    if (h) {
        parts_fill(&x, p, h, b);
        for (uint32_t i = 0; i < x.n; i++) {
            struct packed *s = x.at[i].ticks || x.at[i].covered_ms ? slot_at(h, x.first + i) : NULL;

            if (s) {
                slot_join(s, &x.at[i]);
            }
        }
        host_follow(h, p, b);
    }
    os_mutex_unlock(p->lock);
}

/* -- reading back -- */

/* The newest CPU time of a process so far, and its samples in the minute that it is in. */
struct newest {
    int64_t ns, cpu_ns, minute;
    uint64_t samples;
};

/* One host's minutes, from the cells of its processes. */
struct minutes {
    const struct pulse *p;
    int64_t first_ns;
    struct map by_process; /* place in `newest` + 1; two of one hash in 2^64 are not told apart */
    struct newest *newest; /* of the first NEWEST_MAX processes */
    size_t n_newest;
    struct {
        int64_t cpu_ns, memory;
        bool has_memory;
        uint64_t count, ticks; /* samples of all processes; of the one that has most */
    } at[MINUTES];
};

/* NULL: there are too many, or no memory for it. */
static struct newest *minutes_newest(struct minutes *m, const struct store_cell_row *row)
{
    uint64_t key = hash_bytes(row->boot->b, sizeof row->boot->b, row->id.start + row->id.pid);
    uint64_t place = map_get(&m->by_process, key ^= row->id.start ^ (uint64_t)row->id.pid << 32);

    if (place) {
        return &m->newest[place - 1];
    }
    if (m->n_newest == NEWEST_MAX || map_reserve(&m->by_process)) {
        return NULL;
    }
    m->newest[m->n_newest++] = (struct newest){.ns = INT64_MIN};
    (void)map_put(&m->by_process, key, m->n_newest);
    return &m->newest[m->n_newest - 1];
}

/* What the cell's process used since the cell before it, or inside the cell where there is none. */
static int64_t minutes_growth(struct newest *n, const struct store_cell_row *row,
                              const struct cell *cpu)
{
    int64_t grew = row->instances ? cpu->sum
                   : row->fresh   ? cpu->last
                   : n && n->ns != INT64_MIN && n->ns <= cpu->last_ns
                       ? cell_growth(n->cpu_ns, cpu->last)
                   : cell_grew(cpu) ? cell_growth(cpu->first, cpu->last)
                                    : 0;

    if (n && cpu->last_ns > n->ns) {
        n->ns = cpu->last_ns;
        n->cpu_ns = cpu->last;
    }
    return grew > 0 ? grew : 0;
}

static enum err minutes_add(void *ctx, const struct store_cell_row *row)
{
    struct minutes *m = ctx;
    const struct cell *c = row->cells;
    const struct cell *cpu = row->mask & METRIC_BIT(M_CPU_TIME) ? c++ : NULL;
    const struct cell *memory = row->mask & METRIC_BIT(M_WORKING_SET_SIZE) ? c : NULL;
    const struct cell *any = cpu && cpu->count ? cpu : memory;
    int64_t i = any && any->count ? (any->last_ns - m->first_ns) / MINUTE_NS : -1, grew = 0;
    struct newest *n = row->instances ? NULL : minutes_newest(m, row);

    if (atomic_load(&m->p->stop)) {
        return ERR_END;
    }
    if (cpu && cpu->count) {
        grew = minutes_growth(n, row, cpu);
    }
    if (row->before || i < 0 || i >= (int64_t)MINUTES || any->last_ns < m->first_ns ||
        (!row->instances && row->id.pid == 0)) {
        return ERR_OK;
    }
    m->at[i].cpu_ns = clk_add(m->at[i].cpu_ns, grew);
    if (memory && memory->count) {
        m->at[i].memory = clk_add(m->at[i].memory, memory->sum);
        m->at[i].has_memory = true;
    }
    if (n) {
        n->samples = any->count + (n->minute == i ? n->samples : 0);
        n->minute = i;
        m->at[i].count += any->count;
        m->at[i].ticks = n->samples > m->at[i].ticks ? n->samples : m->at[i].ticks;
    }
    return ERR_OK;
}

/* Both halves of a minute have its figures. */
static void minutes_keep(struct pulse *p, const struct minutes *m, const struct uuid *id)
{
    uint64_t full = 1;
    struct pulse_host *h;

    for (unsigned i = 0; i < MINUTES; i++) {
        full = m->at[i].ticks > full ? m->at[i].ticks : full;
    }
    os_mutex_lock(p->lock);
    h = host_get(p, id);
    for (unsigned i = 0; h && i < MINUTES; i++) {
        uint64_t ticks = m->at[i].ticks;
        struct part x = {.cpu_ns = m->at[i].cpu_ns,
                         .cpu_of_ns = (int64_t)((double)MINUTE_NS * (double)ticks / (double)full),
                         .memory = ticks ? m->at[i].memory / (int64_t)ticks : 0,
                         .processes = ticks ? (int64_t)(m->at[i].count / ticks) : 0,
                         .ticks = 1,
                         .memory_ticks = m->at[i].has_memory,
                         .covered_ms = (uint32_t)((double)SLOT_MS * (double)ticks / (double)full)};

        for (unsigned half = 0; ticks && half < 2; half++) {
            int64_t number = slot_of(m->first_ns + (int64_t)i * MINUTE_NS) + half;
            struct packed *s = slot_at(h, number);

            /* what came in meanwhile stays, where the view has not all of it */
            if (s &&
                (!s->covered || (number < slot_of(p->refill_ns) && x.covered_ms >= s->covered))) {
                *s = (struct packed){0};
                slot_join(s, &x);
            }
        }
    }
    p->refilled += h != NULL;
    os_mutex_unlock(p->lock);
}

static enum err refill_host(struct pulse *p, const struct store_view *v, size_t host,
                            struct minutes *m)
{
    const struct store_host *about = store_view_host(v, host);
    struct store_cells ask = {.since_ns = m->first_ns,
                              .until_ns = p->refill_ns,
                              .before_ns = LOOKBACK_NS,
                              .step_ns = MINUTE_NS,
                              .metrics = METRIC_BIT(M_CPU_TIME) | METRIC_BIT(M_WORKING_SET_SIZE),
                              .folded = true};
    enum err e;

    if (about->last_ns < m->first_ns) {
        return ERR_OK;
    }
    memset(m->at, 0, sizeof m->at);
    map_clear(&m->by_process);
    m->n_newest = 0;
    e = store_cells_scan(v, host, &ask, minutes_add, m, NULL);
    if (!e) {
        minutes_keep(p, m, &about->id);
    }
    return e;
}

static void refill_run(void *arg)
{
    struct pulse *p = arg;
    struct minutes m = {.p = p,
                        .first_ns = p->refill_ns - MINUTES * MINUTE_NS,
                        .newest = mem_array(NEWEST_MAX, sizeof *m.newest)};
    size_t at = 0, n = m.newest ? 1 : 0;

    err_ignore(os_thread_background());
    m.first_ns -= m.first_ns % MINUTE_NS;
    while (at < n && !atomic_load(&p->stop)) { /* no view stays open for long */
        struct store_view *v;

        if (store_view_open(&v, p->store)) {
            break;
        }
        n = store_view_hosts(v);
        for (size_t k = 0; k < HOSTS_A_VIEW && at < n && !atomic_load(&p->stop); k++, at++) {
            err_ignore(refill_host(p, v, at, &m)); /* what cannot be read stays unknown */
        }
        store_view_close(v);
    }
    map_fini(&m.by_process);
    mem_free(m.newest);
    atomic_store(&p->refilling, false);
}

enum err pulse_refill(struct pulse *p, struct store *store, int64_t now_ns)
{
    enum err e;

    p->store = store;
    p->refill_ns = now_ns;
    atomic_store(&p->refilling, true);
    e = os_thread_start(&p->thread, "pulse", refill_run, p);
    if (e) {
        atomic_store(&p->refilling, false);
    }
    return e;
}

void pulse_stop(struct pulse *p)
{
    if (p) {
        atomic_store(&p->stop, true);
        os_thread_join(p->thread);
        p->thread = NULL;
    }
}

/* -- opening, reading, closing -- */

enum err pulse_create(struct pulse **out, uint32_t hosts_max)
{
    struct pulse *p = mem_zalloc(sizeof *p);
    enum err e = ERR_NOMEM;

    if (!p) {
        return e;
    }
    p->hosts_max = hosts_max;
    p->hosts = mem_array(hosts_max ? hosts_max : 1, sizeof(struct pulse_host *));
    if (p->hosts) {
        e = os_mutex_create(&p->lock);
    }
    if (e) {
        pulse_destroy(p);
        return e;
    }
    *out = p;
    return ERR_OK;
}

void pulse_destroy(struct pulse *p)
{
    if (!p) {
        return;
    }
    pulse_stop(p);
    for (uint32_t i = 0; i < p->n_hosts; i++) {
        mem_free(p->hosts[i]);
    }
    map_fini(&p->by_id);
    os_mutex_destroy(p->lock);
    mem_free(p->hosts);
    mem_free(p);
}

bool pulse_read(struct pulse *p, const struct uuid *host, int64_t first_ns, size_t n,
                struct pulse_slot *out)
{
    int64_t first = slot_of(first_ns);
    const struct pulse_host *h;

    memset(out, 0, n * sizeof *out);
    os_mutex_lock(p->lock);
    h = host_find(p, host);
    for (size_t i = 0; h && i < n; i++) {
        int64_t number = first + (int64_t)i;
        const struct packed *s = &h->at[(uint64_t)number % PULSE_SLOTS];

        if (number > h->newest || number <= h->newest - PULSE_SLOTS || !s->covered) {
            continue;
        }
        out[i] = (struct pulse_slot){
            .there = true,
            .delivered = (uint32_t)((s->covered - 1u) * UINT64_C(1000000) / SLOT_MS),
            .has_cpu = s->cpu != UNKNOWN,
            .cpu_permille = s->cpu != UNKNOWN ? small_get(s->cpu) : 0,
            .has_memory = s->memory != UNKNOWN,
            .memory = s->memory != UNKNOWN ? small_get(s->memory) * 1024 : 0,
            .processes = s->processes};
    }
    os_mutex_unlock(p->lock);
    return h != NULL;
}

void pulse_stats(struct pulse *p, struct pulse_stats *out)
{
    os_mutex_lock(p->lock);
    *out = (struct pulse_stats){.hosts = p->n_hosts,
                                .bytes = sizeof *p + p->hosts_max * sizeof(struct pulse_host *) +
                                         p->n_hosts * sizeof(struct pulse_host) +
                                         p->by_id.n_slots * sizeof(struct map_slot),
                                .refilled = p->refilled,
                                .gone = p->gone,
                                .refilling = atomic_load(&p->refilling)};
    os_mutex_unlock(p->lock);
}
