#include "agent/agent.h"

#include <stdio.h>
#include <string.h>

#include "agent/agent_source.h"
#include "agent/batch.h"
#include "agent/monitor.h"
#include "agent/source/etl_file.h"
#include "common/clk.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/os.h"

struct agent {
    struct agent_opts opts;
    int64_t now_ns; /* UTC, at start */
    struct os_lock *dir_lock;
    struct net_tls *tls;
    struct filter *filter;
    struct monitor *monitor;
    struct batch_builder *batch;
    struct queue *queue;
    struct uplink *uplink;
    struct os_thread *core;

    struct os_mutex *lock; /* guards all below; taken after no other */
    struct os_cond *over;  /* status.ended */
    struct agent_status status;
};

/* -- the core thread -- */

static void publish(struct agent *a, int64_t wall_ns)
{
    const struct source_about *about = monitor_about(a->monitor);
    int64_t span_ns = about->last_wall_ns - about->first_wall_ns;
    int64_t done_ns = wall_ns - about->first_wall_ns;
    struct monitor_stats s;

    monitor_stats(a->monitor, &s);
    os_mutex_lock(a->lock);
    a->status.events = s.source.in;
    a->status.processes = s.ptable.instances;
    a->status.starts = s.lifecycle.starts;
    a->status.stops = s.lifecycle.stops;
    a->status.unattributed = s.lifecycle.no_owner;
    a->status.lost = s.source.lost_events + s.source.lost_buffers + s.source.damaged;
    a->status.ticks = s.sampler.ticks;
    a->status.level = s.level;
    a->status.batches = batch_stats(a->batch)->batches;
    a->status.permille = span_ns > 0 ? (int)((double)done_ns / (double)span_ns * 1000) : 0;
    os_mutex_unlock(a->lock);
}

static void on_tick(void *ctx, const struct sample_tick *tick)
{
    struct agent *a = ctx;

    if (batch_tick(a->batch, tick)) {
        monitor_stop(a->monitor); /* the queue was closed: nobody wants more */
    }
    publish(a, tick->wall_ns);
}

static void on_life(void *ctx, const struct life_event *ev)
{
    struct agent *a = ctx;

    if (batch_event(a->batch, ev)) {
        monitor_stop(a->monitor);
    }
}

static void on_level(void *ctx, const struct level_step *step)
{
    bool down = step->to < step->from && step->cause < LEVEL_CAUSE_QUIET;

    (void)ctx;
    log_line(down ? LOG_WARN : LOG_INFO, "agent", "level",
             "from=L%u to=L%u cause=%s value=%lld limit=%lld", step->from, step->to,
             level_cause_name(step->cause), (long long)step->value, (long long)step->limit);
}

static enum err on_batch(void *ctx, uint64_t seq, const void *bytes, size_t n)
{
    struct agent *a = ctx;
    enum err e = queue_put(a->queue, seq, bytes, n, a->opts.n_files > 0);

    return e == ERR_CLOSED ? e : ERR_OK; /* what the queue refuses it has counted */
}

static void run_core(void *arg)
{
    struct agent *a = arg;
    enum err e = monitor_run(a->monitor);

    err_ignore(batch_finish(a->batch)); /* fails only when the queue is closed */
    queue_close(a->queue);
    publish(a, monitor_about(a->monitor)->last_wall_ns);
    os_mutex_lock(a->lock);
    a->status.ended = true;
    a->status.result = e;
    os_cond_wake_all(a->over);
    os_mutex_unlock(a->lock);
}

/* The counters of the stages behind the monitor. */
static size_t ledger(void *ctx, struct ledger_row *rows, size_t max)
{
    struct agent *a = ctx;
    const struct batch_stats *b = batch_stats(a->batch);
    size_t n = monitor_ledger(a->monitor, rows, max);
    struct queue_stats q;
    struct uplink_status u;

    queue_stats(a->queue, &q);
    uplink_status(a->uplink, &u);
    const struct {
        const char *stage, *reason;
        uint64_t count;
    } all[] = {
        {"filter", "redacted", filter_stats(a->filter)->redacted},
        {"batch", "in", b->rows + b->events},
        {"batch", "out", b->batches},
        {"batch", "no_memory", b->nomem},
        {"batch", "oversize", b->oversize},
        {"queue", "in", q.in},
        {"queue", "out", q.out},
        {"queue", "oldest_dropped", q.overflow},
        {"queue", "refused", q.refused},
        {"uplink", "out", u.acknowledged},
        {"uplink", "duplicate", u.duplicates},
        {"uplink", "quarantined", u.quarantined},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all && n < max; i++) {
        rows[n++] =
            (struct ledger_row){str_make(all[i].stage), str_make(all[i].reason), all[i].count};
    }
    return n;
}

/* -- start -- */

static enum err lock_dir(struct agent *a, struct errmsg *why)
{
    const char *dir = a->opts.conf->state_dir;
    char *path;
    enum err e = os_mkdirs(dir, true);

    if (e) {
        return errmsg_set(why, e, "cannot make the state directory %s: %s; set state_dir", dir,
                          err_text(e));
    }
    path = os_path_join(dir, "lock");
    if (!path) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    e = os_lock(&a->dir_lock, path);
    mem_free(path);
    if (e == ERR_BUSY) {
        return errmsg_set(why, e,
                          "another agent uses %s; stop it or set state_dir to another "
                          "directory",
                          dir);
    }
    return e ? errmsg_set(why, e, "cannot lock %s: %s", dir, err_text(e)) : ERR_OK;
}

static enum err load_identity(struct agent *a, struct errmsg *why)
{
    const struct agent_conf *c = a->opts.conf;
    struct net_tls_conf tls = {
        .ca = c->ca, .cert = c->cert, .key = c->key, .server_name = c->server_name};
    const struct net_identity *own;
    enum err e = net_tls_load(&a->tls, &tls, false, why);

    if (e) {
        return e;
    }
    own = net_tls_identity(a->tls);
    if (!own->has_host || !(own->roles & NET_AGENT)) {
        return errmsg_set(why, ERR_TRUST,
                          "%s is not an agent's certificate; issue one with 'procfleet-collector "
                          "pki issue --role agent'",
                          c->cert);
    }
    if (a->opts.name && strcmp(a->opts.name, own->name) != 0) {
        return errmsg_set(why, ERR_USAGE,
                          "--name %s, but the certificate %s is of host %s; the collector believes "
                          "the certificate: leave --name out or issue one for %s",
                          a->opts.name, c->cert, own->name, a->opts.name);
    }
    return ERR_OK;
}

static enum err open_source(void *ctx, struct source **out, struct source_sink sink,
                            struct errmsg *why)
{
    struct agent *a = ctx;
    struct agent_source_conf live = {.name = a->opts.conf->source,
                                     .period_ns = a->opts.conf->period_ns,
                                     .processes_max = MODEL_PROCESSES_MAX};
    struct etl_file_conf files = {.paths = a->opts.files,
                                  .n_paths = a->opts.n_files,
                                  .rebase = a->opts.rebase,
                                  .speed_permille = a->opts.speed_permille,
                                  .now_ns = a->now_ns};

    return a->opts.n_files > 0 ? etl_file_open(out, &files, sink, why)
                               : agent_source_open_live(out, &live, sink, why);
}

static enum err open_monitor(struct agent *a, struct errmsg *why)
{
    struct levels_conf levels = a->opts.conf->levels;
    struct monitor_conf conf = {.open = open_source,
                                .open_ctx = a,
                                .period_ns = a->opts.conf->period_ns,
                                .processes_max = MODEL_PROCESSES_MAX,
                                .levels = &levels,
                                .level = on_level,
                                .tick = on_tick,
                                .life = on_life,
                                .ctx = a};

    levels.request = a->opts.level;
    levels.request_span_ns = a->opts.level_span_ns;
    return monitor_create(&a->monitor, &conf, why);
}

static enum err open_batch(struct agent *a, uint64_t stream)
{
    const struct source_about *about = monitor_about(a->monitor);
    struct batch_conf conf = {.samples = a->opts.conf->batch_samples,
                              .max_bytes = a->opts.conf->batch_bytes,
                              .max_age_ns = a->opts.conf->batch_age_ns,
                              .filter = a->filter,
                              .ledger = ledger,
                              .out = on_batch,
                              .ctx = a};

    conf.head.host = net_tls_identity(a->tls)->host;
    conf.head.stream = stream;
    conf.head.boot = about->boot;
    conf.head.flags = (about->polled ? BATCH_POLLED : 0u) | (about->replay ? BATCH_REPLAY : 0u);
    conf.head.cpus = about->cpus;
    conf.head.source = str_make(about->name);
    return batch_create(&a->batch, &conf);
}

static void on_limit(void *ctx, size_t bytes)
{
    struct agent *a = ctx;

    batch_limit(a->batch, bytes);
}

static enum err open_uplink(struct agent *a, uint64_t stream, struct errmsg *why)
{
    const struct source_about *about = monitor_about(a->monitor);
    struct uplink_conf conf = {.queue = a->queue,
                               .tls = a->tls,
                               .addresses = (const char *const *)a->opts.conf->addresses,
                               .n_addresses = a->opts.conf->n_addresses,
                               .heartbeat_ns = a->opts.conf->heartbeat_ns,
                               .limit = on_limit,
                               .ctx = a};
    struct wire_hello *h = &conf.hello;

    h->host = net_tls_identity(a->tls)->host;
    h->boot = about->boot;
    h->stream = stream;
    h->cpus = about->cpus;
    (void)snprintf(h->name, sizeof h->name, "%s", net_tls_identity(a->tls)->name);
    (void)snprintf(h->version, sizeof h->version, "%s", PROCFLEET_VERSION);
    (void)snprintf(h->source, sizeof h->source, "%s", about->name);
    (void)snprintf(h->system, sizeof h->system, "%s", about->system);
    return uplink_start(&a->uplink, &conf, why);
}

static enum err open_pipeline(struct agent *a, struct errmsg *why)
{
    uint64_t stream;
    enum err e = os_random(&stream, sizeof stream);

    if (!e) {
        e = filter_create(&a->filter, &a->opts.conf->filter);
    }
    if (!e) {
        e = queue_create(&a->queue, a->opts.conf->queue_bytes);
    }
    if (!e) {
        e = open_batch(a, stream);
    }
    if (e) {
        return errmsg_set(why, e, "cannot set up the agent's pipeline: %s", err_text(e));
    }
    return open_uplink(a, stream, why);
}

static enum err start_core(struct agent *a, struct errmsg *why)
{
    enum err e = os_thread_start(&a->core, "core", run_core, a);

    return e ? errmsg_set(why, e, "cannot start a thread: %s", err_text(e)) : ERR_OK;
}

enum err agent_start(struct agent **out, const struct agent_opts *opts, struct errmsg *why)
{
    struct agent *a;
    enum err e;

    if (opts->conf->n_addresses == 0) {
        return errmsg_set(why, ERR_USAGE,
                          "collector.addresses is not set; give it in the configuration file or "
                          "with --set collector.addresses=HOST:" AGENT_CONF_PORT);
    }
    a = mem_zalloc(sizeof *a);
    if (!a) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    a->opts = *opts;
    a->now_ns = os_utc_ns();
    e = os_mutex_create(&a->lock);
    if (!e) {
        e = os_cond_create(&a->over, a->lock);
    }
    if (e) {
        e = errmsg_set(why, e, "out of memory");
        goto fail;
    }
    e = lock_dir(a, why);
    if (e) {
        goto fail;
    }
    e = load_identity(a, why);
    if (e) {
        goto fail;
    }
    e = open_monitor(a, why);
    if (e) {
        goto fail;
    }
    e = open_pipeline(a, why);
    if (e) {
        goto fail;
    }
    e = start_core(a, why);
    if (e) {
        goto fail;
    }
    *out = a;
    return ERR_OK;

fail:
    agent_destroy(a, 0);
    return e;
}

/* -- running and stopping -- */

const struct source_about *agent_about(const struct agent *a)
{
    return monitor_about(a->monitor);
}

const char *agent_name(const struct agent *a)
{
    return net_tls_identity(a->tls)->name;
}

enum err agent_wait(struct agent *a, int64_t timeout_ns)
{
    int64_t until_ns = os_mono_ns() + timeout_ns;
    enum err e = ERR_OK;

    os_mutex_lock(a->lock);
    while (!a->status.ended && !e) {
        e = os_cond_wait_until(a->over, until_ns);
    }
    e = a->status.ended ? ERR_OK : ERR_TIMEOUT;
    os_mutex_unlock(a->lock);
    return e;
}

void agent_status(struct agent *a, struct agent_status *out)
{
    os_mutex_lock(a->lock);
    *out = a->status;
    os_mutex_unlock(a->lock);
    queue_stats(a->queue, &out->queue);
    uplink_status(a->uplink, &out->uplink);
}

void agent_stop(struct agent *a)
{
    monitor_stop(a->monitor);
}

void agent_destroy(struct agent *a, int64_t until_ns)
{
    if (!a) {
        return;
    }
    if (a->core) {
        monitor_stop(a->monitor);
        if (agent_wait(a, until_ns - os_mono_ns())) {
            queue_close(a->queue); /* it waits for room, in vain */
        }
        os_thread_join(a->core);
    } else if (a->queue) {
        queue_close(a->queue);
    }
    uplink_stop(a->uplink, until_ns);
    batch_destroy(a->batch);
    monitor_destroy(a->monitor);
    queue_destroy(a->queue);
    filter_destroy(a->filter);
    net_tls_free(a->tls);
    os_unlock(a->dir_lock);
    os_cond_destroy(a->over);
    os_mutex_destroy(a->lock);
    mem_free(a);
}
