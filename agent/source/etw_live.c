/* Threads: one consumer for each session (etw_session.c), the control thread, and the caller's in
 * run, which alone calls the sink. Stopping: the control thread first, so that nothing is started
 * again; then the sessions, which deliver what is buffered; then the consumers; the rings last. */
#include "agent/source/etw_live.h"

#include <stdio.h>
#include <string.h>

#include "agent/etw_guid.h"
#include "agent/source/etw_merge.h"
#include "agent/source/etw_session.h"
#include "common/clk.h"
#include "common/mem.h"

#define BATCH         10000
#define LOOK_NS       (50 * CLK_MS) /* at stop and at losses, while nothing comes */
#define DRAIN_NS      (2 * CLK_S)   /* for what a stopped session still delivers */
#define DRAIN_STEP_NS (2 * CLK_MS)
#define ORDER_NS      (20 * CLK_MS) /* while one session waits for another */
#define CLOCK_NS      (60 * CLK_S)  /* the two clocks are compared anew */

/* What has been told to the sink of one session's losses. */
struct told {
    uint64_t events, buffers, losses;
};

struct etw_live {
    struct source base; /* first: struct source * is cast to us */
    struct etw_live_conf conf;
    struct etw_api own_api;
    struct etw_session *sessions;
    size_t n;
    struct told told[ETW_LIVE_SESSIONS];
    struct etw_merge merge;
    atomic_int_fast64_t wall_less_mono;
    atomic_uint_fast64_t late, hurried; /* of merge, for others */
    atomic_bool stopping;

    struct os_mutex *lock; /* guards control_ends and ctl_stats */
    struct os_cond *wake;
    struct os_thread *control;
    bool control_ends;
    struct etw_ctl_stats ctl_stats[ETW_LIVE_SESSIONS];
};

static struct etw_live *self(struct source *s)
{
    return (struct etw_live *)s;
}

/* ---- clocks ---- */

static int64_t stamp_now(const struct etw_live *l, int64_t *utc_ns)
{
    uint64_t frequency;
    int64_t ticks;

    l->conf.api->clock(&ticks, &frequency, utc_ns);
    return clk_ticks_to_ns(ticks, frequency);
}

static void set_clock(struct etw_live *l)
{
    int64_t utc_ns, mono_ns = stamp_now(l, &utc_ns);

    atomic_store(&l->wall_less_mono, clk_sub(utc_ns, mono_ns));
}

/* ---- the control thread ---- */

static void control_once(struct etw_live *l, bool query, int64_t now_ns)
{
    for (size_t i = 0; i < l->n; i++) {
        struct etw_session *s = &l->sessions[i];
        struct etw_ctl_stats stats;

        if (l->conf.flush_ms && !s->down) {
            err_ignore(etw_ctl_flush(s->ctl, NULL)); /* a session that is gone shows in the query */
        }
        if (query) {
            etw_session_watch(s, &l->conf, now_ns);
        }
        etw_ctl_stats(s->ctl, &stats);
        os_mutex_lock(l->lock);
        l->ctl_stats[i] = stats;
        os_mutex_unlock(l->lock);
    }
}

/* True: go on. */
static bool control_wait(struct etw_live *l, int64_t until_ns)
{
    bool ends;

    os_mutex_lock(l->lock);
    while (!l->control_ends && os_cond_wait_until(l->wake, until_ns) != ERR_TIMEOUT) {
    }
    ends = l->control_ends;
    os_mutex_unlock(l->lock);
    return !ends;
}

static void control(void *arg)
{
    struct etw_live *l = arg;
    int64_t flush_ns = (int64_t)l->conf.flush_ms * CLK_MS;
    int64_t step_ns = flush_ns && flush_ns < l->conf.query_ns ? flush_ns : l->conf.query_ns;
    int64_t now_ns = os_mono_ns();
    int64_t query_at_ns = now_ns + l->conf.query_ns, clock_at_ns = now_ns + CLOCK_NS;

    while (control_wait(l, now_ns + step_ns)) {
        bool query;

        now_ns = os_mono_ns();
        query = now_ns >= query_at_ns;
        if (query) {
            query_at_ns = now_ns + l->conf.query_ns;
        }
        control_once(l, query, now_ns);
        if (now_ns >= clock_at_ns) {
            set_clock(l);
            clock_at_ns = now_ns + CLOCK_NS;
        }
    }
}

static void control_end(struct etw_live *l)
{
    os_mutex_lock(l->lock);
    l->control_ends = true;
    os_cond_wake_all(l->wake);
    os_mutex_unlock(l->lock);
    os_thread_join(l->control);
    l->control = NULL;
}

/* ---- run ---- */

static uint64_t beyond(uint64_t counted, uint64_t in_stream, uint64_t told)
{
    return counted > in_stream + told ? counted - in_stream - told : 0;
}

/* What sessions count and the stream does not tell; all = as of now, else as of the query before
 * the last, since records that tell it may be under way. */
static void tell_losses(struct etw_live *l, bool all)
{
    if (!l->merge.begun) {
        return; /* there is no time yet at which to tell it */
    }
    for (size_t i = 0; i < l->n; i++) {
        struct etw_session *s = &l->sessions[i];
        struct told *t = &l->told[i];
        uint64_t losses = atomic_load(&s->losses);
        uint64_t events = beyond(atomic_load(all ? &s->events_lost : &s->events_settled),
                                 atomic_load(&s->seen.events), t->events);
        uint64_t buffers = beyond(atomic_load(all ? &s->buffers_lost : &s->buffers_settled),
                                  atomic_load(&s->seen.buffers), t->buffers);

        l->merge.silent[i] = !atomic_load(&s->delivers);
        if (!events && !buffers && losses == t->losses) {
            continue;
        }
        t->events += events;
        t->buffers += buffers;
        t->losses = losses;
        etw_merge_lost(&l->merge, events, buffers);
    }
}

static size_t step(struct etw_live *l)
{
    int64_t utc_ns, now_ns = stamp_now(l, &utc_ns);
    size_t n;

    tell_losses(l, false);
    n = etw_merge_step(&l->merge, BATCH, now_ns);
    if (!n) {
        etw_merge_advance(&l->merge, utc_ns - ETW_MERGE_WINDOW_NS, now_ns - ETW_MERGE_WINDOW_NS);
    }
    atomic_store(&l->late, l->merge.late);
    atomic_store(&l->hurried, l->merge.hurried);
    return n;
}

static enum err start_threads(struct etw_live *l)
{
    for (size_t i = 0; i < l->n; i++) {
        enum err e = l->sessions[i].down ? ERR_OK : etw_session_read(&l->sessions[i]);

        if (e) {
            return e;
        }
    }
    return os_thread_start(&l->control, "etw-control", control, l);
}

static bool all_returned(const struct etw_live *l)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct etw_session *s = &l->sessions[i];

        if (s->consumer && !s->conf.session.attach && !atomic_load(&s->returned)) {
            return false;
        }
    }
    return true;
}

static void wind_down(struct etw_live *l)
{
    int64_t until_ns;

    control_end(l);
    for (size_t i = 0; i < l->n; i++) {
        etw_session_stop(&l->sessions[i]);
    }
    until_ns = os_mono_ns() + DRAIN_NS;
    while (!all_returned(l) && os_mono_ns() < until_ns) {
        if (!step(l)) {
            os_sleep_ns(DRAIN_STEP_NS);
        }
    }
    for (size_t i = 0; i < l->n; i++) {
        etw_session_join(&l->sessions[i]);
        ring_close(l->sessions[i].ring);
        etw_ctl_stats(l->sessions[i].ctl, &l->ctl_stats[i]);
    }
    (void)step(l);
    etw_merge_finish(&l->merge);
    tell_losses(l, true);
    atomic_store(&l->late, l->merge.late);
}

static enum err etw_live_run(struct source *source)
{
    struct etw_live *l = self(source);
    enum err e = start_threads(l);

    while (!e && !atomic_load(&l->stopping)) {
        if (!step(l)) {
            err_ignore(ring_wait(l->merge.rings[0], 1, os_mono_ns() + LOOK_NS));
            if (l->n > 1 && ring_fill_permille(l->merge.rings[0])) {
                os_sleep_ns(ORDER_NS); /* it waits for another session */
            }
        }
    }
    wind_down(l);
    return e;
}

static void etw_live_stop(struct source *source)
{
    atomic_store(&self(source)->stopping, true);
}

/* ---- what it counts ---- */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void add_ctl(struct etw_ctl_stats *sum, const struct etw_ctl_stats *one)
{
    sum->started += one->started;
    sum->orphan_reclaimed += one->orphan_reclaimed;
    sum->resent += one->resent;
    sum->grown += one->grown;
    sum->flags_refused += one->flags_refused;
    sum->providers_refused += one->providers_refused;
    sum->failed += one->failed;
}

void etw_live_stats(const struct source *source, struct etw_live_stats *out)
{
    const struct etw_live *l = (const struct etw_live *)source;
    struct etw_live_stats v = {.late = atomic_load(&l->late), .hurried = atomic_load(&l->hurried)};

    for (size_t i = 0; i < l->n; i++) {
        const struct etw_session *s = &l->sessions[i];
        struct ring_stats ring;

        ring_stats(s->ring, &ring);
        v.records += ring.in;
        v.refused += ring.refused;
        for (size_t k = 0; k < RING_KIND_COUNT; k++) {
            v.dropped += ring.dropped[k];
        }
        v.lost_events += larger(atomic_load(&s->events_lost), atomic_load(&s->seen.events));
        v.lost_buffers += larger(atomic_load(&s->buffers_lost), atomic_load(&s->seen.buffers));
        v.items_skipped += atomic_load(&s->seen.items_skipped);
        v.sessions_lost += atomic_load(&s->losses);
        v.restarts += atomic_load(&s->restarts);
        v.restarts_failed += atomic_load(&s->restarts_failed);
    }
    os_mutex_lock(l->lock);
    for (size_t i = 0; i < l->n; i++) {
        add_ctl(&v.ctl, &l->ctl_stats[i]);
    }
    os_mutex_unlock(l->lock);
    *out = v;
}

static void source_stats_of(const struct source *source, struct source_stats *out)
{
    struct etw_live_stats v;

    etw_live_stats(source, &v);
    *out = (struct source_stats){.in = v.records,
                                 .lost_events = v.lost_events + v.dropped,
                                 .lost_buffers = v.lost_buffers,
                                 .damaged = v.refused};
}

bool etw_live_up(const struct source *source)
{
    const struct etw_live *l = (const struct etw_live *)source;

    for (size_t i = 0; i < l->n; i++) {
        if (!l->sessions[i].conf.optional && !atomic_load(&l->sessions[i].delivers)) {
            return false;
        }
    }
    return true;
}

/* ---- open and close ---- */

static void etw_live_close(struct source *source)
{
    struct etw_live *l = self(source);

    if (!l) {
        return;
    }
    for (size_t i = 0; i < l->n; i++) {
        etw_session_fini(&l->sessions[i]);
    }
    mem_free(l->sessions);
    os_cond_destroy(l->wake);
    os_mutex_destroy(l->lock);
    mem_free(l);
}

static enum err open_session(struct etw_live *l, const struct etw_live_session *conf,
                             struct errmsg *why)
{
    struct etw_session *s = &l->sessions[l->n++];
    enum err e;

    s->wall_less_mono = &l->wall_less_mono;
    e = etw_session_init(s, l->conf.api, conf, l->conf.ring_bytes, why);
    if (e) {
        return e;
    }
    l->merge.rings[l->merge.n++] = s->ring;
    e = etw_session_start(s, why);
    etw_ctl_stats(s->ctl, &l->ctl_stats[l->n - 1]);
    if (!e || !conf->optional) {
        return e;
    }
    s->down = true;
    s->next_try_ns = os_mono_ns() + l->conf.pause_ns;
    return ERR_OK;
}

static void set_about(struct etw_live *l)
{
    struct source_about *a = &l->base.about;
    size_t n = 0;

    a->name = "live";
    err_ignore(os_boot_id(a->boot.b));
    a->cpus = os_cpu_count();
    for (size_t i = 0; i < l->n && n < sizeof a->detail; i++) {
        const struct etw_session *s = &l->sessions[i];
        const struct etw_ctl_stats *c = &l->ctl_stats[i];
        int put = snprintf(a->detail + n, sizeof a->detail - n, "%ssession %s%s%s%s", i ? ", " : "",
                           s->conf.session.name, s->down ? " (refused, tried again)" : "",
                           c->orphan_reclaimed ? " (reclaimed)" : "",
                           c->flags_refused || c->providers_refused ? " (in part refused)" : "");

        n += put > 0 ? (size_t)put : 0;
    }
}

static enum err open_parts(struct etw_live *l, const struct etw_live_conf *conf, struct errmsg *why)
{
    enum err e = os_mutex_create(&l->lock);

    if (!e) {
        e = os_cond_create(&l->wake, l->lock);
    }
    l->sessions = e ? NULL : mem_array(conf->n_sessions, sizeof *l->sessions);
    if (!l->sessions) {
        return errmsg_set(why, ERR_NOMEM, "out of memory for event sessions");
    }
    if (!conf->api) {
        e = etw_api_load(&l->own_api, why);
        l->conf.api = &l->own_api;
        if (e) {
            return e;
        }
    }
    set_clock(l);
    for (size_t i = 0; i < conf->n_sessions; i++) {
        e = open_session(l, &conf->sessions[i], why);
        if (e) {
            return e;
        }
    }
    return ERR_OK;
}

enum err etw_live_open(struct source **out, const struct etw_live_conf *conf,
                       struct source_sink sink, struct errmsg *why)
{
    static const struct source_ops ops = {etw_live_run, etw_live_stop, source_stats_of,
                                          etw_live_close};
    struct etw_live *l;
    enum err e;

    if (conf->n_sessions == 0 || conf->n_sessions > ETW_LIVE_SESSIONS || conf->query_ns <= 0) {
        return errmsg_set(why, ERR_INVALID, "1 to %d event sessions can be read",
                          ETW_LIVE_SESSIONS);
    }
    l = mem_zalloc(sizeof *l);
    if (!l) {
        return errmsg_set(why, ERR_NOMEM, "out of memory for the event source");
    }
    l->base.ops = &ops;
    l->conf = *conf;
    l->merge.sink = sink;
    e = open_parts(l, conf, why);
    if (e) {
        etw_live_close(&l->base);
        return e;
    }
    set_about(l);
    *out = &l->base;
    return ERR_OK;
}

void etw_live_defaults(struct etw_live_conf *out)
{
    static const struct etw_session_conf session = {
        .buffer_kb = 64, .min_buffers = 4, .max_buffers = 64, .pool_mib = 64, .flush_s = 1};
    static const uint8_t lifecycle[16] =
        ETW_GUID(0x6f1b7a52, 0x93d4, 0x4c0e, 0xa1, 0x58, 0x3e, 0x90, 0x27, 0xc4, 0x6b, 0xd1);
    static const uint8_t kernel_process[16] =
        ETW_GUID(0x2c8e04f9, 0x5b67, 0x4e13, 0x8f, 0x0a, 0xd2, 0x71, 0x96, 0x3c, 0xe8, 0x45);
    static const struct etw_provider provider = {
        .guid = ETW_PROVIDER_KERNEL_PROCESS, .level = 4, .any = 0x10, .rundown = true};
    struct etw_live_conf v = {.n_sessions = 2,
                              .ring_bytes = RING_BYTES,
                              .query_ns = CLK_S,
                              .retry_fast = 3,
                              .retry_ns = CLK_S,
                              .pause_ns = 60 * CLK_S};
    struct etw_live_session *kernel = &v.sessions[0], *manifest = &v.sessions[1];

    kernel->session = session;
    kernel->session.name = "procfleet";
    kernel->session.kernel = true;
    kernel->session.one_stream = true;
    kernel->session.flags = EVENT_TRACE_FLAG_PROCESS | EVENT_TRACE_FLAG_PROCESS_COUNTERS |
                            EVENT_TRACE_FLAG_THREAD | EVENT_TRACE_FLAG_IMAGE_LOAD;
    memcpy(kernel->session.guid, lifecycle, sizeof lifecycle);
    manifest->session = session;
    manifest->session.name = "procfleet-kp";
    memcpy(manifest->session.guid, kernel_process, sizeof kernel_process);
    manifest->providers[0] = provider;
    manifest->n_providers = 1;
    manifest->optional = true;
    *out = v;
}
