#include "tests/support/fleetgen.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/arena.h"

#define BEGIN_NS      1767225600000000000LL /* 2026-01-01 */
#define SCHED_TICK_NS 15625000
#define NAMES         24u

/* How a value moves when it moves. */
enum shape {
    SCHED,  /* grows by scheduler ticks */
    GROWS,  /* grows by about the process's rate */
    PAGES,  /* up and down by pages */
    WALKS,  /* up and down by a few */
    RAISES, /* grows by pages: a peak */
    SUM,    /* kernel_time + user_time */
};

/* chance: in 1/1000, that it changes within a second while the process is active.
 * bits: log2 of the largest rate; rates are spread evenly over the orders of magnitude below. */
static const struct field {
    uint8_t metric;
    uint8_t shape;
    uint16_t chance;
    uint8_t bits_min, bits_max;
} fields[FLEETGEN_METRICS] = {
    {M_CPU_TIME, SUM, 0, 0, 0},
    {M_CPU_CYCLES, GROWS, 1000, 17, 29},
    {M_KERNEL_TIME, SCHED, 700, 0, 4},
    {M_USER_TIME, SCHED, 700, 0, 5},
    {M_CONTEXT_SWITCHES, GROWS, 1000, 1, 11},
    {M_PRIORITY, WALKS, 50, 0, 2},
    {M_WORKING_SET_SIZE, PAGES, 850, 0, 8},
    {M_PRIVATE_BYTES, PAGES, 650, 0, 7},
    {M_VIRTUAL_BYTES, PAGES, 150, 4, 10},
    {M_PAGE_FAULTS, GROWS, 900, 0, 10},
    {M_HARD_FAULTS, GROWS, 80, 0, 5},
    {M_PEAK_WORKING_SET, RAISES, 100, 0, 8},
    {M_PAGED_POOL, WALKS, 120, 3, 8},
    {M_NON_PAGED_POOL, WALKS, 200, 3, 8},
    {M_THREAD_COUNT, WALKS, 200, 0, 2},
    {M_ACTIVE_THREADS, WALKS, 800, 0, 3},
    {M_SUSPENDED_THREADS, WALKS, 20, 0, 1},
    {M_READ_OPERATIONS, GROWS, 750, 0, 9},
    {M_WRITE_OPERATIONS, GROWS, 650, 0, 8},
    {M_OTHER_OPERATIONS, GROWS, 950, 0, 10},
    {M_READ_BYTES, GROWS, 750, 6, 20},
    {M_WRITE_BYTES, GROWS, 650, 6, 18},
    {M_HANDLE_COUNT, WALKS, 500, 0, 4},
    {M_GDI_OBJECTS, WALKS, 80, 0, 3},
    {M_USER_OBJECTS, WALKS, 80, 0, 3},
    {M_THREADS_RUNNING, WALKS, 450, 0, 1},
    {M_THREADS_READY, WALKS, 300, 0, 1},
    {M_THREADS_WAITING, WALKS, 550, 0, 3},
    {M_DISK_READ_BYTES, GROWS, 300, 9, 20},
    {M_DISK_WRITE_BYTES, GROWS, 400, 9, 20},
};

struct process {
    struct proc_info info;
    uint32_t active;                 /* in 1/1000: how many seconds it does anything in */
    int64_t ends;                    /* tick at which it stops */
    uint32_t rate[FLEETGEN_METRICS]; /* of GROWS, PAGES, WALKS */
    bool announced;                  /* its info was in a batch */
    size_t run;                      /* of the batch under way */
};

/* The batch under way, and what it points to. */
struct maker {
    struct batch batch;
    size_t ticks, n_runs, runs_max, n_infos, infos_max, n_events, events_max, values_max;
    int64_t *wall_ns, *mono_ns;
    struct batch_run *runs, *sorted;
    int64_t *values; /* of run r, metric m, tick t: [(r * metrics + m) * ticks + t] */
    size_t *order;   /* runs by (pid, start) */
    int64_t *column_values;
    struct batch_column columns[FLEETGEN_METRICS];
    struct proc_info *infos;
    struct life_event *events;
    struct ledger_row ledger[2];
};

struct fleetgen {
    uint64_t rng;
    struct fleetgen_conf conf;
    struct batch_head head;
    char name[32];
    int64_t tick; /* made so far */
    metric_mask mask;
    uint32_t next_pid;
    uint64_t starts_due; /* in 1/3600e9 of a start */
    uint64_t values, unchanged;
    struct process *processes;
    struct sample_row *rows;
    struct sample_tick out;
    struct life_event *events;
    size_t n_events;
    struct arena text; /* command lines: live as long as the generator */
    struct maker maker;
};

static void *must(void *p)
{
    if (!p) {
        fputs("fleetgen: out of memory\n", stderr);
        abort();
    }
    return p;
}

static void *must_calloc(size_t n, size_t size)
{
    return must(calloc(n ? n : 1, size));
}

/* Room for one more: doubles *max. */
static void *grown(void *p, size_t n, size_t *max, size_t size)
{
    if (n < *max) {
        return p;
    }
    *max = *max ? 2 * *max : 64;
    return must(realloc(p, *max * size));
}

/* splitmix64 */
static uint64_t next_u64(struct fleetgen *g)
{
    uint64_t z = g->rng += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* 0 to n - 1 */
static uint32_t below(struct fleetgen *g, uint32_t n)
{
    return (uint32_t)((next_u64(g) >> 32) * n >> 32);
}

/* Spread evenly over the orders of magnitude from 2^min to 2^max. */
static uint64_t spread(struct fleetgen *g, unsigned min, unsigned max)
{
    unsigned e = min + below(g, max - min + 1);

    return (UINT64_C(1) << e) + below(g, 1u << (e < 31 ? e : 31));
}

/* -- processes -- */

static void name_process(struct fleetgen *g, struct process *p)
{
    static const char *const names[NAMES] = {
        "svchost.exe",  "System",        "explorer.exe",   "chrome.exe",        "lsass.exe",
        "services.exe", "csrss.exe",     "winlogon.exe",   "conhost.exe",       "powershell.exe",
        "sqlservr.exe", "w3wp.exe",      "java.exe",       "python.exe",        "MsMpEng.exe",
        "dwm.exe",      "taskhostw.exe", "SearchHost.exe", "RuntimeBroker.exe", "notepad.exe",
        "cl.exe",       "git.exe",       "node.exe",       "backup-größe.exe",
    };
    uint32_t k = below(g, NAMES);
    char line[160];

    snprintf(line, sizeof line, "\"C:\\Windows\\System32\\%s\" -k group%u --session %u", names[k],
             below(g, 40), below(g, 100000));
    p->info.command_line = str_make(must(arena_dup(&g->text, line, strlen(line) + 1)));
    p->info.image = (struct str){p->info.command_line.p + 1, 20 + strlen(names[k])};
    p->info.name = str_make(names[k]);
    p->info.user = str_make("S-1-5-18");
}

static int64_t wall_of(const struct fleetgen *g, int64_t tick)
{
    return g->conf.begin_ns + tick * g->conf.tick_ns;
}

/* The value a process starts to be watched with: nothing when it is new. */
static int64_t first_value(struct fleetgen *g, const struct field *f, bool fresh)
{
    switch (f->shape) {
    case SUM:
        return 0;
    case SCHED:
        return fresh ? 0 : (int64_t)spread(g, 0, 16) * SCHED_TICK_NS;
    case GROWS:
        return fresh ? 0 : (int64_t)spread(g, f->bits_min, f->bits_max + 10u);
    case PAGES:
    case RAISES:
        return (int64_t)spread(g, 8, 17) * 4096;
    default:
        return (int64_t)spread(g, f->bits_min, f->bits_max + 4u);
    }
}

static void add_sum(struct sample_row *r)
{
    r->values[M_CPU_TIME] = r->values[M_KERNEL_TIME] + r->values[M_USER_TIME];
}

static void start_process(struct fleetgen *g, size_t slot, bool fresh)
{
    struct process *p = &g->processes[slot];
    struct sample_row *r = &g->rows[slot];
    int64_t now = wall_of(g, g->tick), age = fresh ? 0 : (int64_t)spread(g, 0, 20) * 1000000000;
    int64_t second = 1000000000 / g->conf.tick_ns > 0 ? 1000000000 / g->conf.tick_ns : 1;

    *p = (struct process){0};
    p->info.id.pid = g->next_pid += 4 * (1 + below(g, 8));
    p->info.id.start = (uint64_t)((now - age) / 100) + 116444736000000000u;
    p->info.create_ns = now - age;
    p->info.have = INFO_PARENT | INFO_SESSION | INFO_CREATE_TIME | INFO_COMMAND_LINE_KNOWN;
    p->info.origin = fresh ? ORIGIN_START : ORIGIN_SNAPSHOT;
    p->info.cpu_origin = CPU_ORIGIN_TIMES;
    p->info.parent_pid = 4 + 4 * below(g, 100);
    name_process(g, p);
    p->active = below(g, 3) == 0 ? 20 + below(g, 700) : 900 + below(g, 100);
    p->ends = fresh ? g->tick + second * (int64_t)spread(g, 0, 7) : INT64_MAX;
    *r = (struct sample_row){.info = &p->info, .mask = g->mask, .fresh = fresh};
    for (size_t i = 0; i < FLEETGEN_METRICS; i++) {
        p->rate[i] = (uint32_t)spread(g, fields[i].bits_min, fields[i].bits_max);
        r->values[fields[i].metric] = first_value(g, &fields[i], fresh);
    }
    add_sum(r);
}

/* A difference of about the rate: half of it to one and a half. */
static int64_t about(struct fleetgen *g, uint32_t rate)
{
    return (int64_t)(rate / 2) + below(g, rate) + 1;
}

static int64_t moved(struct fleetgen *g, const struct field *f, uint32_t rate, int64_t v)
{
    int64_t sign = next_u64(g) >> 63 ? 1 : -1;

    switch (f->shape) {
    case SCHED:
        return v + (1 + (int64_t)below(g, rate)) * SCHED_TICK_NS;
    case GROWS:
        return v + about(g, rate);
    case RAISES:
        return v + about(g, rate) * 4096;
    case PAGES:
        v += sign * about(g, rate) * 4096;
        return v < 4096 ? 4096 : v;
    default:
        v += sign * (1 + (int64_t)below(g, rate));
        return v < 0 ? 1 : v;
    }
}

static void advance(struct fleetgen *g, size_t slot)
{
    const struct process *p = &g->processes[slot];
    struct sample_row *r = &g->rows[slot];
    uint64_t share = (uint64_t)(g->conf.tick_ns < 1000000000 ? g->conf.tick_ns : 1000000000);
    bool active = below(g, 1000) < p->active;
    int64_t before[METRIC_COLS];

    memcpy(before, r->values, sizeof before);
    for (size_t i = 0; i < FLEETGEN_METRICS; i++) {
        const struct field *f = &fields[i];
        uint64_t chance = f->chance * share / 1000; /* in 1/1e9 */

        if (active && below(g, 1000000000) < chance) {
            r->values[f->metric] = moved(g, f, p->rate[i], r->values[f->metric]);
        }
    }
    add_sum(r);
    for (size_t i = 0; i < g->conf.metrics; i++) {
        g->unchanged += r->values[fields[i].metric] == before[fields[i].metric];
    }
    g->values += g->conf.metrics;
    r->fresh = false;
}

/* -- ticks -- */

static void add_event(struct fleetgen *g, uint8_t kind, const struct process *p)
{
    struct life_event *e = &g->events[g->n_events++];
    int64_t into = below(g, 1000) * (g->conf.tick_ns / 1000);

    *e = (struct life_event){.kind = kind, .info = p->info};
    e->wall_ns = wall_of(g, g->tick) - into;
    e->mono_ns = e->wall_ns - g->conf.begin_ns + g->conf.tick_ns;
    if (kind == LIFE_PROCESS_STOP) {
        e->info.have |= INFO_EXITED | INFO_EXIT_TIME | INFO_EXIT_CODE;
        e->info.exit_ns = e->wall_ns;
        e->info.exit_code = below(g, 8) ? 0 : below(g, 300);
    }
}

/* Ends what is due, and ends the oldest as often as a start is due without a free slot. */
static void churn(struct fleetgen *g)
{
    uint64_t hour = UINT64_C(3600) * 1000000000;
    size_t n = g->conf.processes;

    g->n_events = 0;
    g->starts_due += (uint64_t)g->conf.tick_ns * g->conf.starts_per_hour;
    for (size_t i = 0; i < n && g->starts_due >= hour; i++) {
        size_t slot = g->processes[i].ends <= g->tick ? i : n;

        if (slot == n && i + 1 == n) {
            slot = below(g, (uint32_t)n); /* none is due: an old one gives way */
        }
        if (slot < n) {
            add_event(g, LIFE_PROCESS_STOP, &g->processes[slot]);
            start_process(g, slot, true);
            add_event(g, LIFE_PROCESS_START, &g->processes[slot]);
            g->starts_due -= hour;
        }
    }
}

const struct sample_tick *fleetgen_tick(struct fleetgen *g)
{
    if (g->tick > 0) {
        for (size_t i = 0; i < g->conf.processes; i++) {
            advance(g, i);
        }
        churn(g);
    }
    g->out.wall_ns = wall_of(g, g->tick) + below(g, 50000); /* no clock is ever quite punctual */
    g->out.mono_ns = g->out.wall_ns - g->conf.begin_ns + g->conf.tick_ns;
    g->out.rows = g->rows;
    g->out.n_rows = g->conf.processes;
    g->tick++;
    return &g->out;
}

const struct life_event *fleetgen_events(const struct fleetgen *g, size_t *n)
{
    *n = g->n_events;
    return g->events;
}

struct fleetgen *fleetgen_create(const struct fleetgen_conf *conf)
{
    struct fleetgen *g = must_calloc(1, sizeof *g);

    g->conf = *conf;
    g->conf.processes = conf->processes ? conf->processes : 150;
    g->conf.metrics = conf->metrics ? conf->metrics : FLEETGEN_METRICS;
    g->conf.starts_per_hour = conf->starts_per_hour ? conf->starts_per_hour : 960;
    g->conf.tick_ns = conf->tick_ns ? conf->tick_ns : 1000000000;
    g->conf.begin_ns = conf->begin_ns ? conf->begin_ns : BEGIN_NS;
    assert(g->conf.processes <= MODEL_PROCESSES_MAX && g->conf.metrics <= FLEETGEN_METRICS);
    g->rng = conf->seed;
    arena_init(&g->text, (size_t)1 << 30);
    for (size_t i = 0; i < sizeof g->head.host.b; i++) {
        g->head.host.b[i] = (uint8_t)next_u64(g);
        g->head.boot.b[i] = (uint8_t)next_u64(g);
    }
    g->head.stream = next_u64(g);
    g->head.cpus = 8;
    g->head.source = str_make("fleetgen");
    snprintf(g->name, sizeof g->name, "gen-%llu", (unsigned long long)conf->seed);
    for (size_t i = 0; i < g->conf.metrics; i++) {
        g->mask |= METRIC_BIT(fields[i].metric);
    }
    g->processes = must_calloc(g->conf.processes, sizeof *g->processes);
    g->rows = must_calloc(g->conf.processes, sizeof *g->rows);
    g->events = must_calloc(2u * g->conf.processes, sizeof *g->events);
    for (size_t i = 0; i < g->conf.processes; i++) {
        start_process(g, i, false);
    }
    return g;
}

const struct batch_head *fleetgen_head(const struct fleetgen *g)
{
    return &g->head;
}

const char *fleetgen_host_name(const struct fleetgen *g)
{
    return g->name;
}

void fleetgen_counts(const struct fleetgen *g, uint64_t *values, uint64_t *unchanged)
{
    *values = g->values;
    *unchanged = g->unchanged;
}

/* -- batches -- */

static void open_run(struct fleetgen *g, struct process *p, const struct sample_row *r, size_t tick)
{
    struct maker *m = &g->maker;

    m->runs = grown(m->runs, m->n_runs, &m->runs_max, sizeof *m->runs);
    p->run = m->n_runs++;
    m->runs[p->run] = (struct batch_run){p->info.id, (uint32_t)tick, 0, r->fresh, r->mask};
    if (m->n_runs * g->conf.metrics * m->ticks > m->values_max) {
        m->values_max = 2 * m->n_runs * g->conf.metrics * m->ticks;
        m->values = must(realloc(m->values, m->values_max * sizeof *m->values));
    }
    if (!p->announced) {
        m->infos = grown(m->infos, m->n_infos, &m->infos_max, sizeof *m->infos);
        m->infos[m->n_infos++] = p->info;
        p->announced = true;
    }
}

static void take_tick(struct fleetgen *g, size_t tick)
{
    const struct sample_tick *t = fleetgen_tick(g);
    struct maker *m = &g->maker;

    m->wall_ns[tick] = t->wall_ns;
    m->mono_ns[tick] = t->mono_ns;
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct sample_row *r = &t->rows[i];
        struct process *p = &g->processes[i];
        int64_t *to;

        if (tick == 0 || r->fresh) {
            open_run(g, p, r, tick);
        }
        to = m->values + p->run * g->conf.metrics * m->ticks + m->runs[p->run].n_ticks++;
        for (size_t k = 0; k < g->conf.metrics; k++) {
            to[k * m->ticks] = r->values[fields[k].metric];
        }
    }
    for (size_t i = 0; i < g->n_events; i++) {
        m->events = grown(m->events, m->n_events, &m->events_max, sizeof *m->events);
        m->events[m->n_events++] = g->events[i];
    }
}

static const struct batch_run *sort_runs; /* qsort has no context */

static int by_instance(const void *x, const void *y)
{
    const struct batch_run *a = sort_runs + *(const size_t *)x, *b = sort_runs + *(const size_t *)y;

    if (a->id.pid != b->id.pid) {
        return a->id.pid < b->id.pid ? -1 : 1;
    }
    return a->id.start < b->id.start ? -1 : a->id.start > b->id.start;
}

/* The runs in order, and the values column by column. */
static void lay_out(struct fleetgen *g)
{
    struct maker *m = &g->maker;
    size_t n_metrics = g->conf.metrics, n = 0;

    m->order = must(realloc(m->order, m->n_runs * sizeof *m->order));
    m->sorted = must(realloc(m->sorted, m->n_runs * sizeof *m->sorted));
    m->column_values = must(
        realloc(m->column_values, m->n_runs * n_metrics * m->ticks * sizeof *m->column_values));
    for (size_t i = 0; i < m->n_runs; i++) {
        m->order[i] = i;
    }
    sort_runs = m->runs;
    qsort(m->order, m->n_runs, sizeof *m->order, by_instance);
    for (size_t k = 0; k < n_metrics; k++) {
        struct batch_column *c = &m->columns[k];

        *c = (struct batch_column){fields[k].metric, 0, m->column_values + n};
        for (size_t i = 0; i < m->n_runs; i++) {
            size_t r = m->order[i];

            m->sorted[i] = m->runs[r];
            memcpy(m->column_values + n, m->values + (r * n_metrics + k) * m->ticks,
                   m->runs[r].n_ticks * sizeof *m->values);
            n += m->runs[r].n_ticks;
            c->n_values += m->runs[r].n_ticks;
        }
    }
}

const struct batch *fleetgen_batch(struct fleetgen *g, size_t ticks)
{
    struct maker *m = &g->maker;

    assert(ticks >= 1 && ticks <= WIRE_TICKS_MAX);
    m->ticks = ticks;
    m->n_runs = m->n_infos = m->n_events = 0;
    m->wall_ns = must(realloc(m->wall_ns, ticks * sizeof *m->wall_ns));
    m->mono_ns = must(realloc(m->mono_ns, ticks * sizeof *m->mono_ns));
    for (size_t i = 0; i < ticks; i++) {
        take_tick(g, i);
    }
    lay_out(g);
    g->head.seq++;
    m->ledger[0] = (struct ledger_row){str_make("source"), str_make("in"), m->n_events};
    m->ledger[1] = (struct ledger_row){str_make("sampler"), str_make("out"), m->ticks};
    m->batch = (struct batch){.head = g->head,
                              .n_ticks = ticks,
                              .wall_ns = m->wall_ns,
                              .mono_ns = m->mono_ns,
                              .n_runs = m->n_runs,
                              .runs = m->sorted,
                              .n_columns = g->conf.metrics,
                              .columns = m->columns,
                              .n_infos = m->n_infos,
                              .infos = m->infos,
                              .n_events = m->n_events,
                              .events = m->events,
                              .n_ledger = 2,
                              .ledger = m->ledger};
    return &m->batch;
}

void fleetgen_destroy(struct fleetgen *g)
{
    if (!g) {
        return;
    }
    free(g->maker.wall_ns);
    free(g->maker.mono_ns);
    free(g->maker.runs);
    free(g->maker.sorted);
    free(g->maker.values);
    free(g->maker.order);
    free(g->maker.column_values);
    free(g->maker.infos);
    free(g->maker.events);
    free(g->processes);
    free(g->rows);
    free(g->events);
    arena_fini(&g->text);
    free(g);
}
