/* Threads: one consumer for each session (etw_session.c), the control thread, and the caller's,
 * which alone calls the sink. Ending: the control thread first, so that nothing is started again;
 * then the sessions, which deliver what is buffered; then the consumers; the rings last. */
#include "agent/source/windows/etw_live.h"

#include <stdio.h>
#include <string.h>

#include "agent/source/source_shed.h"
#include "agent/source/windows/etw_ledger.h"
#include "agent/source/windows/etw_merge.h"
#include "agent/source/windows/etw_owner.h"
#include "agent/source/windows/etw_session.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

/* What has been told to the sink of one session's losses. */
struct etw_live_told {
    uint64_t events, buffers, losses;
};

/* What a session's control thread knows for others. */
struct etw_live_state {
    struct etw_ctl_stats ctl;
    bool down;                 /* or not all of it */
    char why[ETW_SESSION_WHY]; /* "": all is well */
};

struct etw_live {
    struct live_events base; /* first: struct live_events * is cast to us */
    struct etw_live_conf conf;
    struct etw_api own_api;
    struct etw_owner *owner; /* of the system's sessions; NULL: they are a test's, or foreign */
    struct etw_session *sessions;
    size_t n;
    struct etw_live_told told[ETW_LIVE_SESSIONS];
    struct etw_merge merge;
    atomic_int_fast64_t window_ns; /* of merge, as sessions are flushed at present */
    atomic_int_fast64_t wall_less_mono;
    atomic_uint_fast64_t late, hurried; /* of merge, for others */
    atomic_bool trusted;                /* see etw_ctl_trust */
    atomic_bool tells;                  /* starts and ends of processes are asked for */
    int64_t told_sample_ns;
    enum etw_clr clr_on;         /* asked for, */
    atomic_uint provider_groups; /* and what these record, for others */
    unsigned shed_now;           /* of the control thread: as of its last look */
    bool reclaimed;              /* what an earlier run left of a session that is not wanted yet */
    bool begun, ended;

    struct os_mutex *lock; /* guards everything below */
    struct os_cond *wake;  /* something of it has changed */
    struct os_thread *control;
    bool control_runs, control_ends;
    unsigned level;                    /* wanted */
    unsigned shed;                     /* but not these groups */
    bool level_new;                    /* either of them */
    struct etw_live_request *request;  /* one at a time; of a thread that waits for it */
    uint64_t sheds[SOURCE_SHED_COUNT]; /* how often */
    struct etw_live_state states[ETW_LIVE_SESSIONS];
};

#define CLOCK_READINGS 3
#define CLOCK_STEP_NS  (100 * CLK_MS) /* what no reading takes */

struct etw_live_request {
    const struct source_ask *ask;
    struct errmsg why;
    enum err result;
    bool done;
};

/* ---- clocks ---- */

/* As records are stamped; and UTC at that moment. */
static int64_t etw_live_now(const struct etw_live *l, int64_t *utc_ns)
{
    uint64_t frequency;
    int64_t ticks;

    l->conf.api->clock(&ticks, &frequency, utc_ns);
    return clk_ticks_to_ns(ticks, frequency);
}

/* How far UTC is from the stamps, from now on; the two clocks are read one after the other: of
 * several readings the quickest is nearest to the truth. */
static void etw_live_set_clock(struct etw_live *l)
{
    int64_t best_ns = INT64_MAX, less_ns = 0;

    for (int i = 0; i < CLOCK_READINGS; i++) {
        int64_t utc_ns, utc_after_ns;
        int64_t before_ns = etw_live_now(l, &utc_ns), after_ns = etw_live_now(l, &utc_after_ns);
        int64_t took_ns = clk_sub(after_ns, before_ns);

        if (took_ns < best_ns) {
            best_ns = took_ns;
            less_ns = clk_sub(utc_ns, before_ns);
        }
    }
    atomic_store(&l->wall_less_mono, less_ns);
}

/* Somebody has set the clock: what is recorded from now on has its time. */
static void etw_live_follow_clock(struct etw_live *l, int64_t utc_ns, int64_t mono_ns)
{
    int64_t off_ns = clk_sub(clk_sub(utc_ns, mono_ns), atomic_load(&l->wall_less_mono));

    if (off_ns > CLOCK_STEP_NS || off_ns < -CLOCK_STEP_NS) {
        etw_live_set_clock(l);
    }
}

/* ---- the control thread: by time ---- */

/* Queries, flushes and starts the sessions, and does what others ask of them: they hand over a
 * request and wait, so that one thread alone calls the system and touches the sessions. */

#define ROLL_NS (10 * CLK_S) /* so long a callback counts for the p99 */

/* High rates come in small portions, or a second of them overflows its ring: 10,000 records of 100
 * bytes are 1 MiB. The core thread sleeps as long while records come (etw_merge.c), so that shorter
 * is of no use. The others are flushed with it, since records of high rates wait in their ring
 * until these have come as far. */
#define HIGH_FLUSH_MS 100

/* What others may know of session i; by whoever drives it. */
static void etw_live_publish(struct etw_live *l, size_t i)
{
    const struct etw_session *s = &l->sessions[i];
    struct etw_live_state state = {.down = s->down || etw_session_refused(s)};

    etw_ctl_stats(s->ctl, &state.ctl);
    etw_session_tell(s, state.why, os_mono_ns());
    os_mutex_lock(l->lock);
    l->states[i] = state;
    os_mutex_unlock(l->lock);
}

/* Once some session stands: it is known then that the sessions are ours. */
static void etw_live_reclaim(struct etw_live *l)
{
    if (l->reclaimed || !atomic_load(&l->trusted)) {
        return;
    }
    for (size_t i = 0; i < l->n; i++) {
        if (l->sessions[i].idle) {
            err_ignore(etw_ctl_reclaim(l->sessions[i].ctl, NULL));
        }
    }
    l->reclaimed = true;
}

/* Who starts and ends threads is told once. */
static void etw_live_share_threads(struct etw_live *l)
{
    bool told = false;

    for (size_t i = 0; i < l->n; i++) {
        const struct etw_session *s = &l->sessions[i];

        told = told || (!s->conf.high && (atomic_load(&s->flags_on) & ETW_FLAG_THREAD) &&
                        atomic_load(&s->delivers));
    }
    for (size_t i = 0; i < l->n; i++) {
        atomic_store(&l->sessions[i].threads_elsewhere, told && l->sessions[i].conf.high);
    }
}

static uint64_t etw_live_starts_of_others(const struct etw_live *l, size_t but)
{
    uint64_t starts = 0;

    for (size_t i = 0; i < l->n; i++) {
        starts += i == but ? 0 : atomic_load(&l->sessions[i].seen.starts);
    }
    return starts;
}

/* How often sessions are flushed at present; 0: not by us. */
static uint32_t etw_live_flush_ms(const struct etw_live *l)
{
    bool high = false;

    for (size_t i = 0; i < l->n; i++) {
        const struct etw_session *s = &l->sessions[i];

        high = high || (s->conf.high && !s->idle && !s->down);
    }
    return !l->conf.flush_ms && high ? HIGH_FLUSH_MS : l->conf.flush_ms;
}

/* How often by asking for it each time; 0: the kernel does it. */
static uint32_t etw_live_ask_ms(const struct etw_live *l)
{
    bool ask = false;

    for (size_t i = 0; i < l->n; i++) {
        const struct etw_session *s = &l->sessions[i];

        ask = ask || (!s->down && !s->idle && !etw_ctl_flushes(s->ctl));
    }
    return ask ? etw_live_flush_ms(l) : 0;
}

static void etw_live_set_timers(struct etw_live *l)
{
    uint32_t every_ms = etw_live_flush_ms(l);

    for (size_t i = 0; i < l->n; i++) {
        const struct etw_session *s = &l->sessions[i];

        if (!s->down && !s->idle) {
            err_ignore(etw_ctl_timer_ms(s->ctl, every_ms, NULL)); /* else as often as before */
        }
    }
}

struct due {
    int64_t query_ns, flush_ns, roll_ns;
};

static bool etw_live_is_due(int64_t *at_ns, int64_t now_ns, int64_t distance_ns)
{
    bool due = now_ns >= *at_ns;

    if (due) {
        *at_ns = now_ns + distance_ns;
    }
    return due;
}

static void etw_live_by_time(struct etw_live *l, struct due *due, int64_t now_ns)
{
    uint32_t ask_ms = etw_live_ask_ms(l);
    bool flush = ask_ms && etw_live_is_due(&due->flush_ns, now_ns, ask_ms * CLK_MS);
    bool query = etw_live_is_due(&due->query_ns, now_ns, l->conf.query_ns);
    bool roll = etw_live_is_due(&due->roll_ns, now_ns, ROLL_NS);

    for (size_t i = 0; i < l->n; i++) {
        struct etw_session *s = &l->sessions[i];

        if (flush && !s->down && !s->idle && !etw_ctl_flushes(s->ctl)) {
            err_ignore(etw_ctl_flush(s->ctl, NULL)); /* a session that is gone shows in the query */
        }
        if (query) {
            etw_session_watch(s, &l->conf, etw_live_starts_of_others(l, i), now_ns);
            etw_session_time_callback(s, roll);
        }
        etw_session_by_time(s, &l->conf, now_ns);
        etw_live_publish(l, i);
    }
    etw_live_set_timers(l);
    if (flush || !ask_ms) { /* what came before the first flush is on its way by now */
        atomic_store(&l->window_ns, etw_merge_window(etw_live_flush_ms(l)));
    }
    etw_live_reclaim(l);
    etw_live_share_threads(l);
    if (query) {
        etw_live_set_clock(l);
    }
}

/* ---- the control thread: requests ---- */

static struct etw_session *etw_live_high_session(struct etw_live *l)
{
    for (size_t i = 0; i < l->n; i++) {
        if (l->sessions[i].conf.high) {
            return &l->sessions[i];
        }
    }
    return NULL;
}

static void etw_live_want_high(struct etw_live *l, unsigned level)
{
    struct etw_session *s = etw_live_high_session(l);
    uint32_t permitted = l->conf.permitted & ~etw_conf_shed_flags(l->shed_now);

    if (s) {
        etw_live_share_threads(l);
        etw_session_want(s, &l->conf, etw_conf_high_flags(permitted, level), os_mono_ns());
    }
}

static struct etw_session *etw_live_provider_session(struct etw_live *l)
{
    for (size_t i = 0; i < l->n; i++) {
        if (!l->sessions[i].conf.session.kernel && !l->sessions[i].conf.session.attach) {
            return &l->sessions[i];
        }
    }
    return NULL;
}

static enum err etw_live_no_session(struct errmsg *why, const char *what)
{
    return errmsg_set(why, ERR_UNSUPPORTED,
                      "there is no event session for %s; see the settings etw.", what);
}

static enum err etw_live_set_flags(struct etw_live *l, uint32_t flags, unsigned level,
                                   struct errmsg *why)
{
    uint32_t life = etw_conf_lifecycle_flags(flags);
    struct etw_session *s = &l->sessions[0];
    enum err e;

    if (flags & ETW_FLAG_ALL_FAULTS) {
        return errmsg_set(why, ERR_UNSUPPORTED, "every page fault (0x1000) is not collected");
    }
    if (!s->conf.session.kernel || (etw_conf_high_flags(flags, 4) && !etw_live_high_session(l))) {
        return etw_live_no_session(why, "these flags");
    }
    l->conf.permitted = flags;
    atomic_store(&l->tells, (flags & ETW_FLAG_PROCESS) != 0);
    e = etw_session_flags(s, &l->conf, life, why);
    etw_live_want_high(l, level);
    return e;
}

static enum err etw_live_set_stacks(struct etw_live *l, bool on, struct errmsg *why)
{
    struct etw_session *s = etw_live_high_session(l);

    return s ? etw_session_stacks(s, on, why) : etw_live_no_session(why, "stacks");
}

static enum err etw_live_set_provider(struct etw_live *l, const struct source_provider *p, bool on,
                                      struct errmsg *why)
{
    struct etw_session *s = etw_live_provider_session(l);

    return !s   ? etw_live_no_session(why, "providers")
           : on ? etw_session_add(s, p, why)
                : etw_session_remove(s, p->guid, why);
}

/* .NET's runtimes, and who hands over frames, are asked for what the level permits. */
static void etw_live_want_providers(struct etw_live *l, unsigned level)
{
    enum etw_clr clr = etw_conf_clr(l->conf.clr, level, l->shed_now);
    bool asks = etw_live_provider_session(l) != NULL,
         presents = asks && l->conf.presents && level > 0;
    bool had = (atomic_load(&l->provider_groups) & EVENT_GROUP_PRESENT) != 0;
    struct source_provider p;

    if (asks && clr != l->clr_on) {
        etw_conf_clr_provider(&p, clr, l->conf.clr_only);
        err_ignore(etw_live_set_provider(l, &p, clr != ETW_CLR_OFF, NULL));
        l->clr_on = clr;
    }
    for (size_t i = 0; presents != had && i < ETW_CONF_PRESENTS; i++) {
        etw_conf_present_provider(&p, i);
        err_ignore(etw_live_set_provider(l, &p, presents, NULL));
    }
    atomic_store(&l->provider_groups,
                 etw_conf_clr_groups(l->clr_on) | (presents ? EVENT_GROUP_PRESENT : 0));
}

static enum err etw_live_set_buffers(struct etw_live *l, uint32_t max_buffers, struct errmsg *why)
{
    for (size_t i = 0; i < l->n; i++) {
        struct etw_session *s = &l->sessions[i];
        enum err e = s->conf.high ? ERR_OK : etw_ctl_buffers(s->ctl, max_buffers, why);

        if (e) {
            return e;
        }
    }
    return ERR_OK;
}

static enum err etw_live_follow(struct etw_live *l, const struct source_ask *ask, unsigned level,
                                struct errmsg *why)
{
    switch (ask->what) {
    case SOURCE_ASK_FLAGS:
        return etw_live_set_flags(l, ask->flags, level, why);
    case SOURCE_ASK_STACKS:
        return etw_live_set_stacks(l, ask->on, why);
    case SOURCE_ASK_PROVIDER:
    case SOURCE_ASK_NO_PROVIDER:
        return etw_live_set_provider(l, &ask->provider, ask->what == SOURCE_ASK_PROVIDER, why);
    case SOURCE_ASK_BUFFERS:
        return etw_live_set_buffers(l, ask->max_buffers, why);
    }
    return etw_live_no_session(why, "this");
}

/* From here on it is the asker's again. */
static void etw_live_answer(struct etw_live *l, struct etw_live_request *r, enum err e)
{
    os_mutex_lock(l->lock);
    r->result = e;
    r->done = true;
    l->request = NULL;
    os_cond_wake_all(l->wake);
    os_mutex_unlock(l->lock);
}

static void etw_live_serve(struct etw_live *l)
{
    struct etw_live_request *r;
    enum err e = ERR_OK;
    unsigned level;
    bool stepped;

    os_mutex_lock(l->lock);
    r = l->request;
    level = l->level;
    l->shed_now = l->shed;
    stepped = l->level_new;
    l->level_new = false;
    os_mutex_unlock(l->lock);
    if (stepped) {
        etw_live_want_high(l, level);
        etw_live_want_providers(l, level);
    }
    if (r) {
        e = etw_live_follow(l, r->ask, level, &r->why);
    }
    if (r || stepped) {
        etw_live_set_timers(l);
    }
    for (size_t i = 0; i < l->n && (r || stepped); i++) {
        etw_live_publish(l, i);
    }
    if (r) {
        etw_live_answer(l, r, e);
    }
}

/* As ask of live.h; waits for the control thread. */
static enum err etw_live_ask(struct live_events *e, const struct source_ask *ask,
                             struct errmsg *why)
{
    struct etw_live *l = (struct etw_live *)e;
    struct etw_live_request r = {.ask = ask};

    os_mutex_lock(l->lock);
    while (l->request && l->control_runs) {
        os_cond_wait(l->wake);
    }
    if (!l->control_runs) {
        os_mutex_unlock(l->lock);
        return errmsg_set(why, ERR_UNSUPPORTED, "the event sessions are not read at present");
    }
    l->request = &r;
    os_cond_wake_all(l->wake);
    while (!r.done) {
        os_cond_wait(l->wake);
    }
    os_mutex_unlock(l->lock);
    return r.result ? errmsg_set(why, r.result, "%s", r.why.text) : ERR_OK;
}

/* ---- the control thread: its loop ---- */

/* Until that moment, or until somebody wishes something. False: it ends. */
static bool etw_live_wait_until(struct etw_live *l, int64_t until_ns)
{
    bool ends;

    os_mutex_lock(l->lock);
    while (!l->control_ends && !l->level_new && !l->request &&
           os_cond_wait_until(l->wake, until_ns) != ERR_TIMEOUT) {
    }
    ends = l->control_ends;
    os_mutex_unlock(l->lock);
    return !ends;
}

static int64_t etw_live_next_ns(const struct etw_live *l, const struct due *due)
{
    int64_t next_ns = due->query_ns;

    if (etw_live_ask_ms(l) && due->flush_ns < next_ns) {
        next_ns = due->flush_ns;
    }
    for (size_t i = 0; i < l->n; i++) {
        int64_t flags_ns = etw_session_due_ns(&l->sessions[i]);

        next_ns = flags_ns < next_ns ? flags_ns : next_ns;
    }
    return next_ns;
}

static void etw_live_control_run(struct etw_live *l)
{
    int64_t now_ns = os_mono_ns();
    struct due due = {
        .query_ns = now_ns + l->conf.query_ns, .flush_ns = now_ns, .roll_ns = now_ns + ROLL_NS};

    while (etw_live_wait_until(l, etw_live_next_ns(l, &due))) {
        etw_live_serve(l);
        now_ns = os_mono_ns();
        if (now_ns >= etw_live_next_ns(l, &due)) {
            etw_live_by_time(l, &due, now_ns);
        }
    }
}

static void etw_live_control(void *arg)
{
    struct etw_live *l = arg;

    etw_live_control_run(l);
    os_mutex_lock(l->lock);
    l->control_runs = false;
    if (l->request) { /* too late */
        l->request->result =
            errmsg_set(&l->request->why, ERR_UNSUPPORTED, "the event sessions are closed");
        l->request->done = true;
        l->request = NULL;
    }
    os_cond_wake_all(l->wake);
    os_mutex_unlock(l->lock);
}

/* Errors: those of os_thread_start */
static enum err etw_live_control_begin(struct etw_live *l)
{
    enum err e;

    os_mutex_lock(l->lock);
    l->control_runs = true;
    os_mutex_unlock(l->lock);
    e = os_thread_start(&l->control, "etw-control", etw_live_control, l);
    if (e) {
        os_mutex_lock(l->lock);
        l->control_runs = false;
        os_cond_wake_all(l->wake);
        os_mutex_unlock(l->lock);
    }
    return e;
}

static void etw_live_control_end(struct etw_live *l)
{
    if (!l->control) {
        return;
    }
    os_mutex_lock(l->lock);
    l->control_ends = true;
    os_cond_wake_all(l->wake);
    os_mutex_unlock(l->lock);
    os_thread_join(l->control);
    l->control = NULL;
}

#define LOOK_NS       (100 * CLK_MS) /* at losses and at other sessions, while nothing comes */
#define DRAIN_NS      (2 * CLK_S)    /* for what a stopped session still delivers */
#define DRAIN_STEP_NS (2 * CLK_MS)

static struct etw_live *etw_live_self(struct live_events *e)
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
static void etw_live_report_losses(struct etw_live *l, bool all)
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
static void etw_live_report_interval(struct etw_live *l)
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
    struct etw_live *l = etw_live_self(e);
    int64_t utc_ns, now_ns = etw_live_now(l, &utc_ns);
    size_t n;

    l->merge.window_ns = atomic_load(&l->window_ns);
    etw_live_follow_clock(l, utc_ns, now_ns);
    etw_live_report_losses(l, false);
    etw_live_report_interval(l);
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
    struct etw_live *l = etw_live_self(e);

    for (size_t i = 0; i < l->n; i++) {
        struct etw_session *s = &l->sessions[i];
        enum err failed = s->down || s->idle ? ERR_OK : etw_session_read(s, &l->conf);

        if (failed) {
            return failed;
        }
        etw_live_publish(l, i);
    }
    etw_live_set_clock(l);
    l->begun = true;
    return etw_live_control_begin(l);
}

static void etw_live_wait(struct live_events *e, int64_t until_ns)
{
    struct etw_live *l = etw_live_self(e);
    int64_t look_ns = os_mono_ns() + LOOK_NS;

    etw_merge_wait(&l->merge, until_ns < look_ns ? until_ns : look_ns);
}

static bool etw_live_all_returned(const struct etw_live *l)
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
    struct etw_live *l = etw_live_self(e);
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
    while (!etw_live_all_returned(l) && os_mono_ns() < until_ns) {
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
    etw_live_report_losses(l, true);
    atomic_store(&l->late, l->merge.late);
}

/* ---- what it counts ---- */

static int64_t larger_ns(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void etw_live_add_ctl(struct etw_ctl_stats *sum, const struct etw_ctl_stats *one)
{
#define ETW_CTL_ADD(member, reason) sum->member += one->member;
    ETW_CTL_COUNTERS(ETW_CTL_ADD)
#undef ETW_CTL_ADD
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
        etw_session_add_lost(s, &v);
        v.callback_p99_ns = larger_ns(v.callback_p99_ns, atomic_load(&s->p99_ns));
        v.items_skipped += atomic_load(&s->seen.items_skipped);
        v.sessions_lost += atomic_load(&s->losses);
        v.restarts += atomic_load(&s->restarts);
        v.restarts_failed += atomic_load(&s->restarts_failed);
    }
    os_mutex_lock(l->lock);
    for (size_t i = 0; i < l->n; i++) {
        etw_live_add_ctl(&v.ctl, &l->states[i].ctl);
    }
    memcpy(v.sheds, l->sheds, sizeof v.sheds);
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
                                 .lost_at_start = v.lost_at_start,
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
static void etw_live_explain(const struct etw_live *l, struct errmsg *why)
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
static bool etw_live_has_starts(const struct etw_live *l)
{
    const struct etw_session *first = &l->sessions[0];
    uint32_t flags = l->begun ? atomic_load(&first->flags_on) : first->conf.session.flags;

    return first->conf.session.attach ? atomic_load(&first->seen.starts) > 0
                                      : atomic_load(&l->tells) && (flags & ETW_FLAG_PROCESS);
}

/* What a foreign session records nobody can be asked: it shows. */
static bool etw_live_groups(struct live_events *e, uint32_t *groups)
{
    struct etw_live *l = etw_live_self(e);
    uint32_t flags = 0;

    for (size_t i = 0; i < l->n; i++) {
        if (l->sessions[i].conf.session.attach) {
            return false;
        }
        flags |= atomic_load(&l->sessions[i].flags_on);
    }
    *groups = etw_conf_groups(flags) | atomic_load(&l->provider_groups);
    return true;
}

/* Until begin: whether the sessions stand. */
static bool etw_live_up(struct live_events *e, struct errmsg *why)
{
    struct etw_live *l = etw_live_self(e);
    bool tells = etw_live_has_starts(l), up = tells;

    for (size_t i = 0; i < l->n && up; i++) {
        const struct etw_session *s = &l->sessions[i];

        up = s->conf.optional || (l->control ? atomic_load(&s->delivers) : !s->down);
    }
    if (why) {
        etw_live_explain(l, why);
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
    struct etw_live *l = etw_live_self(e);

    os_mutex_lock(l->lock);
    l->level_new = l->level_new || level != l->level;
    l->level = level;
    os_cond_wake_all(l->wake);
    os_mutex_unlock(l->lock);
}

static void etw_live_shed(struct live_events *e, unsigned groups)
{
    struct etw_live *l = etw_live_self(e);

    os_mutex_lock(l->lock);
    l->level_new = l->level_new || groups != l->shed;
    for (unsigned g = 0; g < SOURCE_SHED_COUNT; g++) {
        l->sheds[g] += (groups & ~l->shed) >> g & 1;
    }
    l->shed = groups;
    os_cond_wake_all(l->wake);
    os_mutex_unlock(l->lock);
}

/* ---- open and close ---- */

static void etw_live_close(struct live_events *e)
{
    struct etw_live *l = etw_live_self(e);

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

static enum err etw_live_open_session(struct etw_live *l, const struct etw_live_session *conf,
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
    e = conf->high ? ERR_OK : etw_session_start(s, why);
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

static enum err etw_live_open_parts(struct etw_live *l, const struct etw_live_conf *conf,
                                    struct errmsg *why)
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
        e = etw_live_open_session(l, &conf->sessions[i], why);
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
        .groups = etw_live_groups,
        .level = etw_live_level,
        .shed = etw_live_shed,
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
    e = etw_live_open_parts(l, conf, why);
    if (e) {
        etw_live_close(&l->base);
        return e;
    }
    *out = &l->base;
    return ERR_OK;
}
