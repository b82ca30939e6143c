/* Threads: one consumer for each session (etw_session.c), the control thread, and the caller's,
 * which alone calls the sink. Ending: the control thread first, so that nothing is started again;
 * then the sessions, which deliver what is buffered; then the consumers; the rings last. */
#include "agent/source/windows/etw_live.h"

#include <stdio.h>
#include <string.h>

#include "agent/source/windows/etw_ledger.h"
#include "agent/source/windows/etw_live_impl.h"
#include "agent/source/windows/etw_owner.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

#define LOOK_NS       (100 * CLK_MS) /* at losses and at other sessions, while nothing comes */
#define DRAIN_NS      (2 * CLK_S)    /* for what a stopped session still delivers */
#define DRAIN_STEP_NS (2 * CLK_MS)

static struct etw_live *self(struct live_events *e)
{
    return (struct etw_live *)e;
}

/* ---- the caller's thread ---- */

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
        struct etw_live_told *t = &l->told[i];
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

/* Of samples, where it was us who set it: not every system says so in the stream. */
static void tell_interval(struct etw_live *l)
{
    struct event ev = {.kind = EV_CPU_SAMPLE_INTERVAL,
                       .pid = EVENT_NO_ID,
                       .tid = EVENT_NO_ID,
                       .wall_ns = l->merge.wall_ns,
                       .mono_ns = l->merge.mono_ns};

    for (size_t i = 0; i < l->n && l->merge.begun; i++) {
        int64_t ns = atomic_load(&l->sessions[i].sample_ns);

        if (ns && ns != l->told_sample_ns) {
            l->told_sample_ns = ns;
            ev.u.interval_ns = ns;
            l->merge.sink.fact(l->merge.sink.ctx, &ev);
        }
    }
}

static size_t etw_live_step(struct live_events *e)
{
    struct etw_live *l = self(e);
    int64_t utc_ns, now_ns = etw_live_now(l, &utc_ns);
    size_t n;

    l->merge.window_ns = atomic_load(&l->window_ns);
    tell_losses(l, false);
    tell_interval(l);
    n = etw_merge_step(&l->merge, l->conf.batch_events, now_ns);
    if (!n) {
        etw_merge_advance(&l->merge, utc_ns - l->merge.window_ns, now_ns - l->merge.window_ns);
    }
    atomic_store(&l->late, l->merge.late);
    atomic_store(&l->hurried, l->merge.hurried);
    return n;
}

static enum err etw_live_begin(struct live_events *e)
{
    struct etw_live *l = self(e);

    for (size_t i = 0; i < l->n; i++) {
        struct etw_session *s = &l->sessions[i];
        enum err failed = s->down || s->idle ? ERR_OK : etw_session_read(s);

        if (failed) {
            return failed;
        }
    }
    return etw_live_control_begin(l);
}

static void etw_live_wait(struct live_events *e, int64_t until_ns)
{
    struct etw_live *l = self(e);
    int64_t look_ns = os_mono_ns() + LOOK_NS;

    etw_merge_wait(&l->merge, until_ns < look_ns ? until_ns : look_ns);
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

static void etw_live_end(struct live_events *e)
{
    struct etw_live *l = self(e);
    int64_t until_ns;

    if (l->ended) {
        return;
    }
    l->ended = true;
    etw_live_control_end(l);
    for (size_t i = 0; i < l->n; i++) {
        etw_session_stop(&l->sessions[i]);
    }
    until_ns = os_mono_ns() + DRAIN_NS;
    while (!all_returned(l) && os_mono_ns() < until_ns) {
        if (!etw_live_step(e)) {
            os_sleep_ns(DRAIN_STEP_NS);
        }
    }
    for (size_t i = 0; i < l->n; i++) {
        etw_session_join(&l->sessions[i]);
        ring_close(l->sessions[i].ring);
        etw_live_publish(l, i);
    }
    (void)etw_live_step(e);
    etw_merge_finish(&l->merge);
    tell_losses(l, true);
    atomic_store(&l->late, l->merge.late);
}

/* ---- what it counts ---- */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static int64_t larger_ns(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void add_lost(struct etw_live_stats *v, const struct etw_session *s)
{
    uint64_t events = larger(atomic_load(&s->events_lost), atomic_load(&s->seen.events));
    uint64_t buffers = larger(atomic_load(&s->buffers_lost), atomic_load(&s->seen.buffers));

    v->lost_events += events;
    v->lost_buffers += buffers;
    if (s->conf.high) {
        v->high_events += events;
        v->high_buffers += buffers;
    }
}

static void add_ctl(struct etw_ctl_stats *sum, const struct etw_ctl_stats *one)
{
    sum->started += one->started;
    sum->orphan_reclaimed += one->orphan_reclaimed;
    sum->resent += one->resent;
    sum->grown += one->grown;
    sum->flags_refused += one->flags_refused;
    sum->providers_refused += one->providers_refused;
    sum->filters_refused += one->filters_refused;
    sum->failed += one->failed;
}

void etw_live_stats(const struct live_events *e, struct etw_live_stats *out)
{
    const struct etw_live *l = (const struct etw_live *)e;
    struct etw_live_stats v = {.late = atomic_load(&l->late), .hurried = atomic_load(&l->hurried)};

    for (size_t i = 0; i < l->n; i++) {
        const struct etw_session *s = &l->sessions[i];
        struct ring_stats ring;

        ring_stats(s->ring, &ring);
        v.records += atomic_load(&s->seen.came);
        v.skipped += atomic_load(&s->seen.skipped);
        v.refused += ring.refused;
        v.held += ring.held;
        for (size_t k = 0; k < RING_KIND_COUNT; k++) {
            v.dropped += ring.dropped[k];
            v.dropped_of[k] += ring.dropped[k];
        }
        add_lost(&v, s);
        v.callback_p99_ns = larger_ns(v.callback_p99_ns, atomic_load(&s->p99_ns));
        v.items_skipped += atomic_load(&s->seen.items_skipped);
        v.sessions_lost += atomic_load(&s->losses);
        v.restarts += atomic_load(&s->restarts);
        v.restarts_failed += atomic_load(&s->restarts_failed);
    }
    os_mutex_lock(l->lock);
    for (size_t i = 0; i < l->n; i++) {
        add_ctl(&v.ctl, &l->states[i].ctl);
    }
    os_mutex_unlock(l->lock);
    *out = v;
}

static void etw_live_source_stats(const struct live_events *e, struct source_stats *out)
{
    const struct etw_live *l = (const struct etw_live *)e;
    unsigned fullest = 0;
    struct etw_live_stats v;

    for (size_t i = 0; i < l->n; i++) {
        unsigned permille = ring_fill_permille(l->sessions[i].ring);

        fullest = permille > fullest ? permille : fullest;
    }
    etw_live_stats(e, &v);
    *out = (struct source_stats){.in = v.records,
                                 .lost_events = v.lost_events + v.dropped,
                                 .lost_buffers = v.lost_buffers,
                                 .damaged = v.refused,
                                 .skipped = v.skipped,
                                 .ring_full = v.dropped + v.refused,
                                 .held = v.held,
                                 .ring_permille = fullest,
                                 .callback_p99_ns = v.callback_p99_ns};
}

static size_t etw_live_ledger(const struct live_events *e, struct ledger_row *rows, size_t max)
{
    struct etw_live_stats v;

    etw_live_stats(e, &v);
    return etw_ledger(&v, rows, max);
}

/* What is in the way of a session, or what of it is refused; "" is well. */
static void explain(const struct etw_live *l, struct errmsg *why)
{
    struct errmsg v = {""};
    size_t n = 0;

    os_mutex_lock(l->lock);
    for (size_t i = 0; i < l->n && n < sizeof v.text; i++) {
        const struct etw_live_state *s = &l->states[i];
        int put = s->why[0] ? snprintf(v.text + n, sizeof v.text - n, "%s%s%s", n ? "; " : "",
                                       s->why, s->down ? "; it is tried again" : "")
                            : 0;

        n += put > 0 ? (size_t)put : 0;
    }
    os_mutex_unlock(l->lock);
    *why = v;
}

/* Of a foreign session nobody can be asked what it records: it shows. Of ours the kernel may have
 * refused just this. */
static bool tells_of_starts(const struct etw_live *l)
{
    const struct etw_session *first = &l->sessions[0];

    return first->conf.session.attach
               ? atomic_load(&first->seen.starts) > 0
               : atomic_load(&l->tells) && (atomic_load(&first->flags_on) & ETW_FLAG_PROCESS);
}

/* Until begin: whether the sessions stand. */
static bool etw_live_up(struct live_events *e, struct errmsg *why)
{
    struct etw_live *l = self(e);
    bool tells = tells_of_starts(l), up = tells;

    for (size_t i = 0; i < l->n && up; i++) {
        const struct etw_session *s = &l->sessions[i];

        up = s->conf.optional || (l->control ? atomic_load(&s->delivers) : !s->down);
    }
    if (why) {
        explain(l, why);
    }
    if (!tells && why && !why->text[0]) {
        err_ignore(l->sessions[0].conf.session.attach
                       ? errmsg_set(why, ERR_UNSUPPORTED,
                                    "session %.200s has told of no start of a process yet",
                                    l->sessions[0].conf.session.name)
                       : errmsg_set(why, ERR_UNSUPPORTED,
                                    "starts and ends of processes are not recorded; see "
                                    "etw.enable_process_events and etw.kernel_flags"));
    }
    return up;
}

static void etw_live_level(struct live_events *e, unsigned level)
{
    struct etw_live *l = self(e);

    os_mutex_lock(l->lock);
    l->level_new = l->level_new || level != l->level;
    l->level = level;
    os_cond_wake_all(l->wake);
    os_mutex_unlock(l->lock);
}

/* ---- open and close ---- */

static void etw_live_close(struct live_events *e)
{
    struct etw_live *l = self(e);

    if (!l) {
        return;
    }
    etw_live_control_end(l);
    for (size_t i = 0; i < l->n; i++) {
        etw_session_fini(&l->sessions[i]);
    }
    mem_free(l->sessions);
    etw_owner_give(l->owner);
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
    s->trusted = &l->trusted;
    s->owner = l->conf.api == &l->own_api && !conf->session.attach ? &l->owner : NULL;
    s->stacks = conf->high && l->conf.stacks;
    e = etw_session_init(
        s, l->conf.api, conf,
        etw_live_ring_bytes(l->conf.ring_bytes, conf->high || conf->session.attach), why);
    if (e) {
        return e;
    }
    l->merge.rings[l->merge.n++] = s->ring;
    e = conf->high ? ERR_OK : etw_session_start(s, &l->conf, why);
    if (e && !conf->optional && !l->conf.patient) {
        return e;
    }
    if (e) {
        s->down = true;
        s->next_try_ns = os_mono_ns() + (l->conf.retry_fast ? l->conf.retry_ns : l->conf.pause_ns);
    }
    etw_live_publish(l, l->n - 1);
    return ERR_OK;
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
    etw_live_set_clock(l);
    atomic_store(&l->tells, (conf->permitted & ETW_FLAG_PROCESS) != 0);
    for (size_t i = 0; i < conf->n_sessions; i++) {
        e = open_session(l, &conf->sessions[i], why);
        if (e) {
            return e;
        }
    }
    etw_live_reclaim(l);
    return ERR_OK;
}

enum err etw_live_open(struct live_events **out, const struct etw_live_conf *conf,
                       struct source_sink sink, struct errmsg *why)
{
    static const struct live_events_ops ops = {
        .begin = etw_live_begin,
        .step = etw_live_step,
        .wait = etw_live_wait,
        .up = etw_live_up,
        .level = etw_live_level,
        .ask = etw_live_ask,
        .end = etw_live_end,
        .stats = etw_live_source_stats,
        .ledger = etw_live_ledger,
        .close = etw_live_close,
    };
    struct etw_live *l;
    enum err e;

    if (conf->n_sessions == 0 || conf->n_sessions > ETW_LIVE_SESSIONS || conf->query_ns <= 0) {
        return errmsg_set(why, ERR_INVALID,
                          "1 to %d event sessions can be read; the settings etw.enable_* or "
                          "etw.kernel_flags leave none to record",
                          ETW_LIVE_SESSIONS);
    }
    l = mem_zalloc(sizeof *l);
    if (!l) {
        return errmsg_set(why, ERR_NOMEM, "out of memory for the event source");
    }
    l->base.ops = &ops;
    l->conf = *conf;
    l->merge.sink = sink;
    atomic_store(&l->window_ns, etw_merge_window(conf->flush_ms));
    e = open_parts(l, conf, why);
    if (e) {
        etw_live_close(&l->base);
        return e;
    }
    *out = &l->base;
    return ERR_OK;
}
