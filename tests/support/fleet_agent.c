#include "tests/support/fleet_agent.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/fleetgen.h"

#define EVENTS_MAX 64u /* of one tick; further ones never happened */

/* When a batch was made and first handed to the uplink. */
struct trip {
    uint64_t stream, seq, values;
    int64_t made_ns, sent_ns;
};

/* A batch made before its time. */
struct made_batch {
    unsigned tick; /* that closed it */
    uint64_t seq, values;
    void *p; /* owned */
    size_t n;
};

struct made_tick {
    uint32_t rows, events;
};

/* What fleet_agent_premake leaves to be taken. */
struct stock {
    struct made_tick *ticks;
    unsigned n_ticks, taken;
    struct made_batch *batches;
    size_t n_batches, max_batches, handed;
};

struct fleet_agent {
    struct fleet_agent_conf conf;
    struct fleetgen *gen;
    struct life_event events[EVENTS_MAX];
    struct tls_config *tls;
    struct privacy *filter;
    struct batch_builder *batch;
    struct agent_store store;
    struct uplink *uplink;
    struct outbox inner; /* the store's: the uplink gets one that watches */
    uint64_t stream;     /* of the batch being made; the owner's */
    int64_t last_wall_ns;
    uint64_t values_told; /* batch_stats' values when the last batch left */
    int64_t moment_ns;    /* monotonic, of the tick that is made before its time; 0 = now */
    struct stock stock;
    atomic_llong offset_ns;

    struct os_mutex *lock; /* guards all below; taken after no other, held across no call */
    struct fleet_agent_stats stats; /* without store and uplink */
    struct trip trips[FLEET_AGENT_BATCHES];
    size_t n_trips; /* ever; they go round */
};

/* -- the meter -- */

static void trip_begin(struct fleet_agent *a, uint64_t seq, uint64_t values)
{
    os_mutex_lock(a->lock);
    a->trips[a->n_trips++ % FLEET_AGENT_BATCHES] =
        (struct trip){a->stream, seq, values, os_mono_ns(), 0};
    os_mutex_unlock(a->lock);
}

/* With the lock held. */
static struct trip *trip_find(struct fleet_agent *a, const struct outbox_item *item)
{
    size_t n = a->n_trips < FLEET_AGENT_BATCHES ? a->n_trips : FLEET_AGENT_BATCHES;

    for (size_t i = 1; i <= n; i++) {
        struct trip *t = &a->trips[(a->n_trips - i) % FLEET_AGENT_BATCHES];

        if (t->stream == item->stream && t->seq == item->seq) {
            return t;
        }
    }
    return NULL;
}

static enum err watched_take(void *ctx, struct outbox_item *out)
{
    struct fleet_agent *a = ctx;
    enum err e = a->inner.take(a->inner.ctx, out);

    if (!e) {
        struct trip *t;

        os_mutex_lock(a->lock);
        t = trip_find(a, out);
        if (t && t->sent_ns == 0) {
            t->sent_ns = os_mono_ns();
        }
        os_mutex_unlock(a->lock);
    }
    return e;
}

static void watched_ack(void *ctx, const struct outbox_item *item)
{
    struct fleet_agent *a = ctx;
    struct fleet_ack ack = {.acked_ns = os_mono_ns()};
    struct trip *t;

    os_mutex_lock(a->lock);
    t = trip_find(a, item);
    if (t) {
        ack.made_ns = t->made_ns;
        ack.sent_ns = t->sent_ns;
        ack.values = t->values;
    }
    a->stats.acked_ns = ack.acked_ns;
    os_mutex_unlock(a->lock);
    if (t && ack.sent_ns && a->conf.acked) {
        a->conf.acked(a->conf.ctx, &ack);
    }
    a->inner.ack(a->inner.ctx, item);
}

static void watched_reject(void *ctx, const struct outbox_item *item, enum outbox_cause cause,
                           const char *why)
{
    struct fleet_agent *a = ctx;

    a->inner.reject(a->inner.ctx, item, cause, why);
}

static void watched_wait(void *ctx, int64_t until_ns)
{
    struct fleet_agent *a = ctx;

    a->inner.wait(a->inner.ctx, until_ns);
}

static size_t watched_ack_upto(void *ctx, uint64_t stream, uint64_t last_seq)
{
    struct fleet_agent *a = ctx;

    os_mutex_lock(a->lock);
    a->stats.greeted_ns = os_mono_ns();
    os_mutex_unlock(a->lock);
    if (a->conf.greeted) {
        a->conf.greeted(a->conf.ctx);
    }
    return a->inner.ack_upto(a->inner.ctx, stream, last_seq);
}

static void watched_next(void *ctx, uint64_t *stream, uint64_t *seq)
{
    struct fleet_agent *a = ctx;

    a->inner.next(a->inner.ctx, stream, seq);
}

static void watched_wake(void *ctx)
{
    struct fleet_agent *a = ctx;

    a->inner.wake(a->inner.ctx);
}

static struct outbox watched(struct fleet_agent *a)
{
    a->inner = agent_store_outbox(&a->store);
    return (struct outbox){.ctx = a,
                           .take = watched_take,
                           .wait = watched_wait,
                           .reject = watched_reject,
                           .ack = watched_ack,
                           .ack_upto = watched_ack_upto,
                           .next = watched_next,
                           .wake = watched_wake};
}

/* -- the pipeline -- */

static int64_t host_utc(void *ctx)
{
    return os_utc_ns() + atomic_load(&((struct fleet_agent *)ctx)->offset_ns);
}

static void on_number(void *ctx, uint64_t *stream, uint64_t *seq)
{
    struct fleet_agent *a = ctx;

    agent_store_number(&a->store, stream, seq);
    a->stream = *stream;
}

/* Keeps a batch that is made before its time. */
static void stock_put(struct stock *s, uint64_t seq, uint64_t values, const void *bytes, size_t n)
{
    void *p = malloc(n);

    if (s->n_batches == s->max_batches) {
        s->max_batches = s->max_batches ? 2 * s->max_batches : 8;
        s->batches = realloc(s->batches, s->max_batches * sizeof *s->batches);
    }
    if (!p || !s->batches) {
        abort();
    }
    memcpy(p, bytes, n);
    s->batches[s->n_batches++] = (struct made_batch){s->n_ticks, seq, values, p, n};
}

static enum err hand_on(struct fleet_agent *a, uint64_t seq, uint64_t values, const void *bytes,
                        size_t n)
{
    trip_begin(a, seq, values);
    if (a->store.queue) {
        err_ignore(queue_put(a->store.queue, seq, bytes, n, false)); /* a live agent never waits */
        return ERR_OK;
    }
    return agent_store_put(&a->store, seq, bytes, n);
}

static enum err on_batch(void *ctx, uint64_t seq, const void *bytes, size_t n)
{
    struct fleet_agent *a = ctx;
    uint64_t total = batch_stats(a->batch)->values, values = total - a->values_told;

    a->values_told = total;
    if (a->moment_ns) {
        stock_put(&a->stock, seq, values, bytes, n);
        return ERR_OK;
    }
    return hand_on(a, seq, values, bytes, n);
}

static size_t ledger(void *ctx, struct ledger_row *rows, size_t max)
{
    struct fleet_agent *a = ctx;
    const struct batch_stats *b = batch_stats(a->batch);
    size_t n = agent_store_ledger(&a->store, rows, max);
    struct uplink_status u = {0};

    if (a->uplink) {
        uplink_status(a->uplink, &u);
    }
    const struct ledger_row all[] = {
        {str_make("source"), str_make("in"), b->events},
        {str_make("source"), str_make("out"), b->events},
        {str_make("batch"), str_make("in"), b->rows + b->events},
        {str_make("batch"), str_make("out"), b->batches},
        {str_make("batch"), str_make("no_memory"), b->nomem},
        {str_make("batch"), str_make("oversize"), b->oversize},
        {str_make("uplink"), str_make("out"), u.acknowledged},
        {str_make("uplink"), str_make("duplicate"), u.duplicates},
        {str_make("uplink"), str_make("quarantined"), u.quarantined},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all && n < max; i++) {
        rows[n++] = all[i];
    }
    return n;
}

static void on_limit(void *ctx, size_t bytes)
{
    batch_limit(((struct fleet_agent *)ctx)->batch, bytes);
}

static enum err open_store(struct fleet_agent *a, struct errmsg *why)
{
    struct agent_conf conf = {.period_ns = a->conf.tick_ns,
                              .batch_age_ns = a->conf.batch_age_ns,
                              .spool_dir = (char *)(uintptr_t)a->conf.spool_dir,
                              .spool_bytes = a->conf.spool_bytes,
                              .spool_age_ns = 72 * 3600 * CLK_S,
                              .queue_bytes = a->conf.queue_bytes};

    enum err e = agent_store_open(&a->store, &conf, NULL, !a->conf.spool_dir, why);

    if (!e) {
        agent_store_mark(&a->store, &conf, &fleetgen_head(a->gen)->boot);
    }
    return e;
}

static enum err open_pipeline(struct fleet_agent *a, struct errmsg *why)
{
    struct privacy_conf filter = {.command_line = PRIVACY_REDACT};
    struct batch_conf batch = {.head = *fleetgen_head(a->gen),
                               .samples = a->conf.samples,
                               .max_bytes = 256u << 10,
                               .max_age_ns = a->conf.batch_age_ns,
                               .ledger = ledger,
                               .number = on_number,
                               .out = on_batch,
                               .ctx = a};
    enum err e = open_store(a, why);

    if (e) {
        return e;
    }
    e = privacy_create(&a->filter, &filter);
    if (!e) {
        batch.filter = a->filter;
        e = batch_create(&a->batch, &batch);
    }
    return e ? errmsg_set(why, e, "cannot set up the pipeline: %s", err_text(e)) : ERR_OK;
}

static enum err open_identity(struct fleet_agent *a, struct errmsg *why)
{
    struct net_tls_conf tls = {.ca = a->conf.ca,
                               .cert = a->conf.cert,
                               .key = a->conf.key,
                               .server_name = "procfleet-collector"};

    return tls_config_load(&a->tls, &tls, false, why);
}

enum err fleet_agent_create(struct fleet_agent **out, const struct fleet_agent_conf *conf,
                            struct errmsg *why)
{
    struct fleetgen_conf gen = {.seed = conf->seed,
                                .processes = conf->processes,
                                .metrics = conf->metrics,
                                .starts_per_hour = conf->starts_per_hour,
                                .tick_ns = conf->tick_ns,
                                .begin_ns = os_utc_ns() + conf->offset_ns};
    struct fleet_agent *a = mem_zalloc(sizeof *a);
    enum err e;

    if (!a) {
        abort();
    }
    a->conf = *conf;
    atomic_init(&a->offset_ns, conf->offset_ns);
    a->gen = fleetgen_create(&gen);
    e = os_mutex_create(&a->lock);
    if (!e) {
        e = open_identity(a, why);
    }
    if (!e) {
        e = open_pipeline(a, why);
    }
    if (e) {
        fleet_agent_destroy(a, 0);
        return e;
    }
    *out = a;
    return ERR_OK;
}

enum err fleet_agent_start(struct fleet_agent *a, struct errmsg *why)
{
    const struct batch_head *head = fleetgen_head(a->gen);
    struct uplink_conf conf = {.outbox = watched(a),
                               .tls = a->tls,
                               .addresses = a->conf.addresses,
                               .n_addresses = a->conf.n_addresses,
                               .heartbeat_ns = a->conf.heartbeat_ns,
                               .limit = on_limit,
                               .utc_ns = host_utc,
                               .ctx = a};

    conf.hello.host = head->host;
    conf.hello.boot = head->boot;
    conf.hello.cpus = head->cpus;
    snprintf(conf.hello.name, sizeof conf.hello.name, "%s", fleetgen_host_name(a->gen));
    snprintf(conf.hello.version, sizeof conf.hello.version, "simulated");
    snprintf(conf.hello.source, sizeof conf.hello.source, "fleetgen");
    snprintf(conf.hello.system, sizeof conf.hello.system, "simulated");
    return uplink_start(&a->uplink, &conf, why);
}

/* -- ticks -- */

/* The generator's moment becomes this one. A clock set back shows as such: wall time is not mended.
 */
static size_t stamp(struct fleet_agent *a, struct sample_tick *tick)
{
    int64_t now_ns = os_mono_ns(), mono_ns = a->moment_ns ? a->moment_ns : now_ns;
    int64_t wall_ns = host_utc(a) + mono_ns - now_ns;
    int64_t shift_ns = wall_ns - tick->wall_ns;
    int64_t mono_shift_ns = mono_ns - tick->mono_ns;
    const struct life_event *events;
    size_t n;

    events = fleetgen_events(a->gen, &n);
    n = n < EVENTS_MAX ? n : EVENTS_MAX;
    for (size_t i = 0; i < n; i++) {
        a->events[i] = events[i];
        a->events[i].wall_ns += shift_ns;
        a->events[i].mono_ns += mono_shift_ns;
        if (events[i].info.have & INFO_EXIT_TIME) {
            a->events[i].info.exit_ns += shift_ns;
        }
    }
    tick->wall_ns = wall_ns;
    tick->mono_ns = mono_ns;
    return n;
}

static void count(struct fleet_agent *a, size_t n_rows, size_t n_events)
{
    uint64_t metrics = a->conf.metrics ? a->conf.metrics : FLEETGEN_METRICS;

    os_mutex_lock(a->lock);
    a->stats.ticks++;
    a->stats.events += n_events;
    a->stats.rows += n_rows;
    a->stats.values += n_rows * metrics;
    a->stats.batch = *batch_stats(a->batch);
    os_mutex_unlock(a->lock);
}

/* Makes a tick. */
static enum err make(struct fleet_agent *a, size_t *n_rows, size_t *n_events)
{
    struct sample_tick tick = *fleetgen_tick(a->gen);
    size_t n = stamp(a, &tick);
    enum err e = ERR_OK;

    if (a->conf.journal) {
        a->conf.journal(a->conf.ctx, &tick, a->events, n);
    }
    for (size_t i = 0; i < n && !e; i++) {
        e = batch_event(a->batch, &a->events[i]);
    }
    *n_rows = tick.n_rows;
    *n_events = n;
    return e ? e : batch_tick(a->batch, &tick);
}

static bool stock_left(const struct stock *s)
{
    return s->taken < s->n_ticks;
}

/* The next tick that was made before. */
static enum err take(struct fleet_agent *a)
{
    struct stock *s = &a->stock;
    const struct made_tick *tick = &s->ticks[s->taken];
    enum err e = ERR_OK;

    count(a, tick->rows, tick->events);
    while (s->handed < s->n_batches && s->batches[s->handed].tick == s->taken && !e) {
        struct made_batch *b = &s->batches[s->handed++];

        e = hand_on(a, b->seq, b->values, b->p, b->n);
        free(b->p);
        b->p = NULL;
    }
    s->taken++;
    return e;
}

enum err fleet_agent_tick(struct fleet_agent *a)
{
    size_t n_rows, n_events;
    enum err e;

    if (stock_left(&a->stock)) {
        return take(a);
    }
    e = make(a, &n_rows, &n_events);
    count(a, n_rows, n_events);
    return e;
}

enum err fleet_agent_premake(struct fleet_agent *a, int64_t first_ns, unsigned ticks)
{
    struct stock *s = &a->stock;
    enum err e = ERR_OK;

    s->ticks = calloc(ticks, sizeof *s->ticks);
    if (!s->ticks && ticks > 0) {
        abort();
    }
    while (s->n_ticks < ticks && !e) {
        size_t n_rows, n_events;

        a->moment_ns = first_ns + s->n_ticks * a->conf.tick_ns;
        e = make(a, &n_rows, &n_events);
        s->ticks[s->n_ticks] = (struct made_tick){(uint32_t)n_rows, (uint32_t)n_events};
        s->n_ticks++;
    }
    a->moment_ns = 0;
    return e;
}

static void stock_fini(struct stock *s)
{
    for (size_t i = s->handed; i < s->n_batches; i++) {
        free(s->batches[i].p);
    }
    free(s->batches);
    free(s->ticks);
}

void fleet_agent_offset(struct fleet_agent *a, int64_t offset_ns)
{
    atomic_store(&a->offset_ns, offset_ns);
}

void fleet_agent_stats(struct fleet_agent *a, struct fleet_agent_stats *out)
{
    os_mutex_lock(a->lock);
    *out = a->stats;
    os_mutex_unlock(a->lock);
    agent_store_stats(&a->store, &out->store);
    if (a->uplink) {
        uplink_status(a->uplink, &out->uplink);
    }
}

/* -- the end -- */

void fleet_agent_finish(struct fleet_agent *a)
{
    while (stock_left(&a->stock)) {
        err_ignore(take(a)); /* fails only when the store has ended */
    }
    err_ignore(batch_finish(a->batch)); /* fails only when the store has ended */
    os_mutex_lock(a->lock);
    a->stats.batch = *batch_stats(a->batch);
    os_mutex_unlock(a->lock);
    agent_store_end(&a->store);
}

void fleet_agent_destroy(struct fleet_agent *a, int64_t until_ns)
{
    if (!a) {
        return;
    }
    agent_store_end(&a->store);
    uplink_stop(a->uplink, until_ns);
    batch_destroy(a->batch);
    privacy_destroy(a->filter);
    agent_store_close(&a->store);
    tls_config_free(a->tls);
    fleetgen_destroy(a->gen);
    stock_fini(&a->stock);
    os_mutex_destroy(a->lock);
    mem_free(a);
}

void fleet_agent_host(uint64_t seed, struct uuid *host, char *name, size_t size)
{
    struct fleetgen_conf conf = {.seed = seed, .processes = 1, .metrics = 1};
    struct fleetgen *g = fleetgen_create(&conf);

    *host = fleetgen_head(g)->host;
    snprintf(name, size, "%s", fleetgen_host_name(g));
    fleetgen_destroy(g);
}
