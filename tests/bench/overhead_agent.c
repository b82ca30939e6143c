/* Two threads: the feeder, which stands for the system and for the threads that read its sessions,
 * and the core. What the process takes of the CPU is the agent's, but for making records (the
 * feeder's time outside the puts) and making tables (timed where it happens, in the core thread):
 * that is the system's work. */
#include "tests/bench/overhead_agent.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/batch/batch.h"
#include "agent/conf/agent_conf.h"
#include "agent/monitor.h"
#include "agent/source/ring/ring.h"
#include "agent/source/windows/etw_live.h"
#include "agent/source/windows/etw_merge.h"
#include "agent/source/windows/live.h"
#include "agent/source/windows/snap_rows.h"
#include "agent/source/windows/snap_threads.h"
#include "agent/source/windows/snap_wide.h"
#include "agent/spool/queue.h"
#include "common/base/arena.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/support/etwload.h"

#define CHUNK      64    /* records made, then put */
#define BATCH      10000 /* records of one step, as etw_live.c takes them */
#define ROWS_MAX   4096
#define TEXTS_MAX  ((size_t)16 << 20)
#define ANSWER_MAX ((size_t)16 << 20)

struct rig;

struct events {
    struct live_events base; /* first */
    struct rig *rig;
};

struct tables {
    struct live_tables base; /* first */
    struct rig *rig;
    struct etwload_tables *load;
    size_t load_bytes; /* it takes */
    struct buf answer;
    struct snap_wide *wide;
    struct snap_threads *threads;
    struct arena texts;
    struct snap_row *rows;
};

struct rig {
    struct overhead_conf conf;
    struct etwload_conf load_conf;
    struct etwload *load;
    struct ring *rings[ETWLOAD_SESSIONS];
    struct events events;
    struct etw_merge merge;
    struct tables tables;
    struct os_thread *feeder, *core;
    atomic_bool ends;
    atomic_int_fast64_t feeder_ns, callback_ns; /* the feeder's CPU time; in puts */
    atomic_int_fast64_t tables_ns;              /* making tables */
    atomic_int_fast64_t core_ns;
    atomic_uint_fast64_t fed, taken, waits;

    struct agent_conf agent;
    struct privacy *filter;
    struct monitor *monitor;
    struct batch_builder *batch;
    struct queue *queue;
    uint64_t lives;
    int64_t publish_ns;
};

/* -- the system: records -- */

static void put_all(struct rig *g, const struct raw_event *raws, const uint8_t *sessions, size_t n)
{
    int64_t began_ns = os_thread_cpu_ns();

    for (size_t i = 0; i < n && !g->conf.empty; i++) {
        err_ignore(ring_put(g->rings[sessions[i]], &raws[i])); /* a full ring counts */
    }
    atomic_fetch_add(&g->callback_ns, os_thread_cpu_ns() - began_ns);
    atomic_fetch_add(&g->fed, n);
}

static void feed_until(struct rig *g, int64_t until_ns)
{
    struct raw_event raws[CHUNK];
    uint8_t sessions[CHUNK];
    enum etwload_session session;
    size_t n;

    do {
        n = 0;
        while (n < CHUNK && etwload_next(g->load, until_ns, &raws[n], &session)) {
            sessions[n++] = (uint8_t)session;
        }
        if (n > 0) {
            put_all(g, raws, sessions, n);
        }
    } while (n == CHUNK);
}

static void feed(void *arg)
{
    struct rig *g = arg;
    int64_t step_ns = g->conf.delivery_ms * CLK_MS, next_ns = os_mono_ns();

    while (!atomic_load(&g->ends)) {
        feed_until(g, os_mono_ns());
        atomic_store(&g->feeder_ns, os_thread_cpu_ns());
        next_ns += step_ns;
        os_sleep_ns(next_ns - os_mono_ns());
    }
}

/* -- events as the source joins them -- */

static struct rig *rig_of(const struct live_events *e)
{
    return ((const struct events *)e)->rig;
}

static enum err events_begin(struct live_events *e)
{
    struct rig *g = rig_of(e);

    return os_thread_start(&g->feeder, "feeder", feed, g);
}

static size_t events_step(struct live_events *e)
{
    struct rig *g = rig_of(e);
    int64_t now_ns = os_mono_ns();
    int64_t wall_ns = g->load_conf.begin_wall + (now_ns - g->load_conf.begin_ns);
    size_t n = etw_merge_step(&g->merge, BATCH, now_ns);

    if (!n) {
        etw_merge_advance(&g->merge, wall_ns - g->merge.window_ns, now_ns - g->merge.window_ns);
    }
    atomic_store(&g->core_ns, os_thread_cpu_ns());
    return n;
}

static void events_wait(struct live_events *e, int64_t until_ns)
{
    struct rig *g = rig_of(e);

    atomic_fetch_add(&g->waits, 1);
    etw_merge_wait(&g->merge, until_ns);
}

static bool events_up(struct live_events *e, struct errmsg *why)
{
    (void)e;
    why->text[0] = '\0';
    return true;
}

static void events_level(struct live_events *e, unsigned level)
{
    (void)e;
    (void)level;
}

static void events_end(struct live_events *e)
{
    struct rig *g = rig_of(e);

    atomic_store(&g->ends, true);
    os_thread_join(g->feeder);
    for (size_t i = 0; i < ETWLOAD_SESSIONS; i++) {
        ring_close(g->rings[i]);
    }
    etw_merge_finish(&g->merge);
}

static void count_rings(const struct rig *g, uint64_t *in, uint64_t *dropped)
{
    *in = *dropped = 0;
    for (size_t i = 0; i < ETWLOAD_SESSIONS; i++) {
        struct ring_stats s;

        ring_stats(g->rings[i], &s);
        *in += s.in;
        for (size_t k = 0; k < RING_KIND_COUNT; k++) {
            *dropped += s.dropped[k];
        }
    }
}

static void events_stats(const struct live_events *e, struct source_stats *out)
{
    const struct rig *g = rig_of(e);

    *out = (struct source_stats){0};
    count_rings(g, &out->in, &out->lost_events);
    for (size_t i = 0; i < ETWLOAD_SESSIONS; i++) {
        unsigned permille = ring_fill_permille(g->rings[i]);

        out->ring_permille = permille > out->ring_permille ? permille : out->ring_permille;
    }
}

static void events_close(struct live_events *e)
{
    (void)e; /* the rig's */
}

static enum err open_events(void *ctx, struct live_events **out, struct source_sink sink,
                            struct errmsg *why)
{
    static const struct live_events_ops ops = {.begin = events_begin,
                                               .step = events_step,
                                               .wait = events_wait,
                                               .up = events_up,
                                               .level = events_level,
                                               .end = events_end,
                                               .stats = events_stats,
                                               .close = events_close};
    struct rig *g = ctx;

    (void)why;
    g->events = (struct events){.base = {&ops}, .rig = g};
    g->merge.sink = sink;
    g->merge.window_ns = etw_merge_window(g->conf.delivery_ms);
    for (size_t i = 0; i < ETWLOAD_SESSIONS; i++) {
        g->merge.rings[g->merge.n++] = g->rings[i];
    }
    *out = &g->events.base;
    return ERR_OK;
}

/* -- tables: what snap_win32.c does with an answer -- */

static bool keep_text(struct tables *t, struct str *text)
{
    const char *copy = arena_dup(&t->texts, text->p, text->n);

    *text = copy ? (struct str){copy, text->n} : str_make("");
    return copy != NULL;
}

static size_t read_rows(struct tables *t)
{
    struct snap_walk w;
    size_t n = 0;

    arena_reset(&t->texts);
    snap_wide_begin(t->wide);
    snap_threads_begin(t->threads);
    snap_rows_init(&w, t->answer.p, t->answer.n, ETWLOAD_ADDRESS, false);
    while (n < ROWS_MAX && snap_rows_next(&w, &t->rows[n]) == ERR_OK) {
        if (!keep_text(t, &t->rows[n].info.name) || !keep_text(t, &t->rows[n].info.image)) {
            bench_check(ERR_NOMEM, "table");
        }
        snap_wide_row(t->wide, &t->rows[n]);
        snap_threads_row(t->threads, &w, &t->rows[n]);
        n++;
    }
    return n;
}

static enum err tables_take(struct live_tables *base, struct snapshot *out)
{
    struct tables *t = (struct tables *)base;
    int64_t began_ns = os_thread_cpu_ns();
    int64_t now_ns = os_mono_ns();

    etwload_table(t->load, now_ns, &t->answer);
    atomic_fetch_add(&t->rig->tables_ns, os_thread_cpu_ns() - began_ns);
    atomic_fetch_add(&t->rig->taken, 1);
    *out = (struct snapshot){.wall_ns = t->rig->load_conf.begin_wall +
                                        (now_ns - t->rig->load_conf.begin_ns),
                             .mono_ns = now_ns,
                             .rows = t->rows,
                             .n_rows = read_rows(t),
                             .complete = true};
    return ERR_OK;
}

static void tables_stats(const struct live_tables *t, struct source_stats *out)
{
    (void)t;
    *out = (struct source_stats){0};
}

static void tables_close(struct live_tables *base)
{
    struct tables *t = (struct tables *)base;

    etwload_tables_destroy(t->load);
    buf_fini(&t->answer);
    snap_wide_destroy(t->wide);
    snap_threads_destroy(t->threads);
    arena_fini(&t->texts);
    mem_free(t->rows);
}

static enum err open_tables(void *ctx, struct live_tables **out, struct errmsg *why)
{
    static const struct live_tables_ops ops = {
        .take = tables_take, .stats = tables_stats, .close = tables_close};
    struct rig *g = ctx;
    struct tables *t = &g->tables;

    (void)why;
    *t = (struct tables){.base = {&ops}, .rig = g};
    t->load = etwload_tables_create(&g->load_conf, g->conf.extension);
    t->load_bytes = etwload_tables_bytes(t->load);
    buf_init(&t->answer, ANSWER_MAX);
    arena_init(&t->texts, TEXTS_MAX);
    t->rows = mem_array(ROWS_MAX, sizeof *t->rows);
    bench_check(t->rows ? snap_wide_create(&t->wide, ROWS_MAX) : ERR_NOMEM, "tables");
    bench_check(snap_threads_create(&t->threads, ROWS_MAX), "tables");
    *out = &t->base;
    return ERR_OK;
}

/* -- the agent -- */

static enum err open_source(void *ctx, struct source **out, struct source_sink sink,
                            struct errmsg *why)
{
    struct rig *g = ctx;
    struct live_conf conf = {.open_events = open_events,
                             .open_tables = open_tables,
                             .ctx = g,
                             .events_needed = true,
                             .period_ns = g->agent.period_ns,
                             .about = {.cpus = ETWLOAD_CPUS}};

    return live_open(out, &conf, sink, why);
}

/* What agent.c does at ticks: its status four times a second, with all counters. */
static void on_tick(void *ctx, const struct sample_tick *tick)
{
    struct rig *g = ctx;
    int64_t now_ns = os_mono_ns();
    struct monitor_stats stats;

    bench_check(batch_tick(g->batch, tick), "batch");
    if (now_ns >= g->publish_ns) {
        g->publish_ns = now_ns + CLK_S / 4;
        monitor_stats(g->monitor, &stats);
    }
}

static void on_life(void *ctx, const struct life_event *ev)
{
    struct rig *g = ctx;

    g->lives++;
    bench_check(batch_event(g->batch, ev), "batch");
}

/* Into the queue, and out again at once: the collector answers. */
static enum err on_batch(void *ctx, uint64_t seq, const void *bytes, size_t n)
{
    struct rig *g = ctx;
    struct outbox_item item;
    struct outbox box = queue_outbox(g->queue, 1);

    bench_check(queue_put(g->queue, seq, bytes, n, false), "queue");
    bench_check(box.take(box.ctx, &item), "queue");
    box.ack(box.ctx, &item);
    return ERR_OK;
}

static size_t ledger(void *ctx, struct ledger_row *rows, size_t max)
{
    struct rig *g = ctx;

    return monitor_ledger(g->monitor, rows, max);
}

static void load_conf(struct rig *g)
{
    struct errmsg why = {0};
    char rate[48], samples[48];
    const char *const sets[] = {rate, samples, "sampler.level_max=L3", "budget.events=10000000",
                                "budget.cpu=50"};

    (void)snprintf(rate, sizeof rate, "sampling.rate_hz=%u", g->conf.rate_hz);
    (void)snprintf(samples, sizeof samples, "batch.samples=%u", g->conf.rate_hz);
    if (agent_conf_load(&g->agent, NULL, sets, sizeof sets / sizeof *sets, &why)) {
        fprintf(stderr, "bench_overhead: %s\n", why.text);
        exit(1);
    }
}

static void open_monitor(struct rig *g)
{
    struct budget_conf budget = g->agent.budget;
    struct monitor_conf conf = {.open = open_source,
                                .open_ctx = g,
                                .period_ns = g->agent.period_ns,
                                .processes_max = MODEL_PROCESSES_MAX,
                                .budget = &budget,
                                .tick = on_tick,
                                .life = on_life,
                                .ctx = g};
    struct errmsg why = {0};

    budget.request = 3;
    budget.request_span_ns = 24 * 3600 * CLK_S;
    if (monitor_create(&g->monitor, &conf, &why) || monitor_open(g->monitor, &why)) {
        fprintf(stderr, "bench_overhead: %s\n", why.text);
        exit(1);
    }
}

static void open_agent(struct rig *g)
{
    struct ring_conf ring;
    struct batch_conf batch = {.ledger = ledger, .out = on_batch, .ctx = g};

    load_conf(g);
    for (size_t i = 0; i < ETWLOAD_SESSIONS; i++) {
        ring.bytes = etw_live_ring_bytes(g->agent.etw.ring_bytes, i == ETWLOAD_RATE);
        bench_check(ring_create(&g->rings[i], &ring), "ring");
    }
    open_monitor(g);
    bench_check(privacy_create(&g->filter, &g->agent.filter), "filter");
    bench_check(queue_create(&g->queue, g->agent.queue_bytes), "queue");
    batch.samples = g->agent.batch_samples;
    batch.max_bytes = g->agent.batch_bytes;
    batch.max_age_ns = g->agent.batch_age_ns;
    batch.filter = g->filter;
    batch.head.source = str_make(monitor_about(g->monitor)->name);
    batch.head.cpus = ETWLOAD_CPUS;
    batch.head.stream = 1;
    bench_check(batch_create(&g->batch, &batch), "batch");
}

static void run_core(void *arg)
{
    struct rig *g = arg;

    bench_check(monitor_run(g->monitor), "run");
    atomic_store(&g->core_ns, os_thread_cpu_ns());
}

static void close_agent(struct rig *g)
{
    batch_destroy(g->batch);
    monitor_destroy(g->monitor);
    queue_destroy(g->queue);
    privacy_destroy(g->filter);
    for (size_t i = 0; i < ETWLOAD_SESSIONS; i++) {
        ring_destroy(g->rings[i]);
    }
    agent_conf_fini(&g->agent);
}

/* -- measuring -- */

struct reading {
    int64_t now_ns, cpu_ns, feeder_ns, callback_ns, tables_ns, core_ns;
    uint64_t fed, taken, waits;
};

static struct reading read_now(const struct rig *g)
{
    struct reading r = {.feeder_ns = atomic_load(&g->feeder_ns),
                        .callback_ns = atomic_load(&g->callback_ns),
                        .tables_ns = atomic_load(&g->tables_ns),
                        .core_ns = atomic_load(&g->core_ns),
                        .fed = atomic_load(&g->fed),
                        .taken = atomic_load(&g->taken),
                        .waits = atomic_load(&g->waits),
                        .cpu_ns = os_cpu_ns(),
                        .now_ns = os_mono_ns()};

    return r;
}

static void tell_counters(const struct rig *g, struct overhead_figures *f)
{
    const struct batch_stats *b = batch_stats(g->batch);
    struct monitor_stats m;
    uint64_t in;

    monitor_stats(g->monitor, &m);
    count_rings(g, &in, &f->dropped);
    f->late = g->merge.late;
    f->hurried = g->merge.hurried;
    f->unknown = m.decode.unknown;
    f->corrupt = m.decode.corrupt;
    f->unattributed = m.lifecycle.no_owner;
    f->gaps = m.aggregate.sched.gaps;
    f->collections = m.aggregate.groups[SOURCE_SHED_CLR];
    f->network = m.aggregate.groups[SOURCE_SHED_NETWORK];
    f->ticks = m.sampler.ticks;
    f->idle_ticks = m.sampler.idle;
    f->rows = m.sampler.rows;
    f->values = b->values;
    f->batches = b->batches;
    f->bytes = b->bytes;
    f->lives = g->lives;
    f->level = m.level;
}

void overhead_measure(const struct overhead_conf *conf, struct overhead_figures *out)
{
    static struct rig g;
    struct reading a, b;

    g.conf = *conf;
    g.load_conf = (struct etwload_conf){.seed = 1,
                                        .processes = 200,
                                        .per_second = conf->per_second,
                                        .gc_network = conf->gc_network,
                                        .begin_wall = os_utc_ns(),
                                        .begin_ns = os_mono_ns()};
    g.load = etwload_create(&g.load_conf);
    if (conf->empty) {
        bench_check(os_thread_start(&g.feeder, "feeder", feed, &g), "thread");
    } else {
        open_agent(&g);
        bench_check(os_thread_start(&g.core, "core", run_core, &g), "thread");
    }
    os_sleep_ns(conf->warm_up_s * CLK_S);
    a = read_now(&g);
    os_sleep_ns(conf->seconds * CLK_S);
    b = read_now(&g);
    *out = (struct overhead_figures){
        .elapsed_ns = b.now_ns - a.now_ns,
        .callback_ns = b.callback_ns - a.callback_ns,
        .core_ns = (b.core_ns - a.core_ns) - (b.tables_ns - a.tables_ns),
        .resident = os_resident_bytes() - (int64_t)g.tables.load_bytes,
        .records = b.fed - a.fed,
        .tables = b.taken - a.taken,
        .waits = b.waits - a.waits,
    };
    out->cpu_ns = (b.cpu_ns - a.cpu_ns) - (b.feeder_ns - a.feeder_ns) -
                  (b.tables_ns - a.tables_ns) + out->callback_ns;
    if (conf->empty) {
        atomic_store(&g.ends, true);
        os_thread_join(g.feeder);
    } else {
        monitor_stop(g.monitor);
        os_thread_join(g.core);
        tell_counters(&g, out);
        close_agent(&g);
    }
    etwload_destroy(g.load);
}

void overhead_wake(unsigned per_second, unsigned bytes, unsigned seconds,
                   struct overhead_figures *out)
{
    int64_t began_ns = os_mono_ns(), cpu_ns = os_cpu_ns(), next_ns = began_ns;
    volatile uint8_t *p = mem_zalloc(bytes);
    struct os_mutex *lock;
    struct os_cond *cond;

    bench_check(p ? os_mutex_create(&lock) : ERR_NOMEM, "wake");
    bench_check(os_cond_create(&cond, lock), "wake");
    while (next_ns < began_ns + seconds * CLK_S) {
        next_ns += CLK_S / per_second;
        os_mutex_lock(lock);
        while (os_cond_wait_until(cond, next_ns) != ERR_TIMEOUT) {
        }
        os_mutex_unlock(lock);
        for (size_t i = 0; i < bytes; i += 64) {
            p[i]++;
        }
    }
    *out = (struct overhead_figures){.elapsed_ns = os_mono_ns() - began_ns,
                                     .cpu_ns = os_cpu_ns() - cpu_ns};
    os_cond_destroy(cond);
    os_mutex_destroy(lock);
    mem_free((void *)p);
}
