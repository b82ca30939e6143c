/* The control thread: queries, flushes, new starts; and what others wish of the sessions, which
 * they hand over and wait for, so that one thread alone calls the system. */
#include <string.h>

#include "agent/source/windows/etw_live_impl.h"
#include "common/base/clk.h"

#define CLOCK_NS (60 * CLK_S) /* the two clocks are compared anew */
#define ROLL_NS  (10 * CLK_S) /* so long a callback counts for the p99 */

/* High rates come in small portions, or a second of them overflows its ring: 10,000 records of 100
 * bytes are 1 MiB. The core thread sleeps as long while records come (etw_merge.c), so that shorter
 * is of no use. The others are flushed with it, since records of high rates wait in their ring
 * until these have come as far. */
#define HIGH_FLUSH_MS 100

/* ---- by time ---- */

void etw_live_publish(struct etw_live *l, size_t i)
{
    const struct etw_session *s = &l->sessions[i];
    struct etw_live_state state = {.down = s->down};

    etw_ctl_stats(s->ctl, &state.ctl);
    etw_session_tell(s, state.why, os_mono_ns());
    os_mutex_lock(l->lock);
    l->states[i] = state;
    os_mutex_unlock(l->lock);
}

void etw_live_reclaim(struct etw_live *l)
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
static void share_threads(struct etw_live *l)
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

static void time_callback(struct etw_session *s, bool roll)
{
    int64_t p99_ns = etw_hist_bound_ns(&s->took, 990);

    if (p99_ns || roll) {
        atomic_store(&s->p99_ns, p99_ns);
    }
    if (roll) {
        etw_hist_roll(&s->took);
    }
}

static uint64_t starts_of_others(const struct etw_live *l, size_t but)
{
    uint64_t starts = 0;

    for (size_t i = 0; i < l->n; i++) {
        starts += i == but ? 0 : atomic_load(&l->sessions[i].seen.starts);
    }
    return starts;
}

/* How often sessions are flushed at present; 0: not by us. */
static uint32_t flush_ms(const struct etw_live *l)
{
    bool high = false;

    for (size_t i = 0; i < l->n; i++) {
        const struct etw_session *s = &l->sessions[i];

        high = high || (s->conf.high && !s->idle && !s->down);
    }
    return !l->conf.flush_ms && high ? HIGH_FLUSH_MS : l->conf.flush_ms;
}

struct due {
    int64_t query_ns, flush_ns, clock_ns, roll_ns;
};

static bool is_due(int64_t *at_ns, int64_t now_ns, int64_t distance_ns)
{
    bool due = now_ns >= *at_ns;

    if (due) {
        *at_ns = now_ns + distance_ns;
    }
    return due;
}

static void by_time(struct etw_live *l, struct due *due, int64_t now_ns)
{
    uint32_t every_ms = flush_ms(l);
    bool flush = every_ms && is_due(&due->flush_ns, now_ns, every_ms * CLK_MS);
    bool query = is_due(&due->query_ns, now_ns, l->conf.query_ns);
    bool roll = is_due(&due->roll_ns, now_ns, ROLL_NS);

    for (size_t i = 0; i < l->n; i++) {
        struct etw_session *s = &l->sessions[i];

        if (flush && !s->down && !s->idle) {
            err_ignore(etw_ctl_flush(s->ctl, NULL)); /* a session that is gone shows in the query */
        }
        if (query) {
            etw_session_watch(s, &l->conf, starts_of_others(l, i), now_ns);
            time_callback(s, roll);
        }
        etw_live_publish(l, i);
    }
    if (flush || !every_ms) { /* what came before the first flush is on its way by now */
        atomic_store(&l->window_ns, etw_merge_window(every_ms));
    }
    etw_live_reclaim(l);
    share_threads(l);
    if (is_due(&due->clock_ns, now_ns, CLOCK_NS)) {
        etw_live_set_clock(l);
    }
}

/* ---- by wish ---- */

static struct etw_session *high_session(struct etw_live *l)
{
    for (size_t i = 0; i < l->n; i++) {
        if (l->sessions[i].conf.high) {
            return &l->sessions[i];
        }
    }
    return NULL;
}

static void want_high(struct etw_live *l, unsigned level)
{
    struct etw_session *s = high_session(l);

    if (s) {
        share_threads(l);
        etw_session_want(s, &l->conf, etw_conf_high_flags(l->conf.permitted, level), os_mono_ns());
    }
}

static enum err not_here(struct errmsg *why, const char *what)
{
    return errmsg_set(why, ERR_UNSUPPORTED,
                      "there is no event session for %s; see the settings etw.", what);
}

static enum err set_flags(struct etw_live *l, uint32_t flags, unsigned level, struct errmsg *why)
{
    uint32_t life = etw_conf_lifecycle_flags(flags);
    struct etw_session *s = &l->sessions[0];
    enum err e;

    if (flags & ETW_FLAG_ALL_FAULTS) {
        return errmsg_set(why, ERR_UNSUPPORTED, "every page fault (0x1000) is not collected");
    }
    if (!s->conf.session.kernel || (etw_conf_high_flags(flags, 4) && !high_session(l))) {
        return not_here(why, "these flags");
    }
    l->conf.permitted = flags;
    atomic_store(&l->tells, (flags & ETW_FLAG_PROCESS) != 0);
    e = etw_session_flags(s, life, why);
    want_high(l, level);
    return e;
}

static enum err set_stacks(struct etw_live *l, bool on, struct errmsg *why)
{
    struct etw_session *s = high_session(l);

    return s ? etw_session_stacks(s, on, why) : not_here(why, "stacks");
}

static enum err set_provider(struct etw_live *l, const struct source_provider *p, bool on,
                             struct errmsg *why)
{
    for (size_t i = 0; i < l->n; i++) {
        struct etw_session *s = &l->sessions[i];

        if (!s->conf.session.kernel && !s->conf.session.attach) {
            return on ? etw_session_add(s, p, why) : etw_session_remove(s, p->guid, why);
        }
    }
    return not_here(why, "providers");
}

static enum err set_buffers(struct etw_live *l, uint32_t max_buffers, struct errmsg *why)
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

static enum err follow(struct etw_live *l, const struct source_ask *ask, unsigned level,
                       struct errmsg *why)
{
    switch (ask->what) {
    case SOURCE_ASK_FLAGS:
        return set_flags(l, ask->flags, level, why);
    case SOURCE_ASK_STACKS:
        return set_stacks(l, ask->on, why);
    case SOURCE_ASK_PROVIDER:
    case SOURCE_ASK_NO_PROVIDER:
        return set_provider(l, &ask->provider, ask->what == SOURCE_ASK_PROVIDER, why);
    case SOURCE_ASK_BUFFERS:
        return set_buffers(l, ask->max_buffers, why);
    }
    return not_here(why, "this");
}

/* From here on it is the asker's again. */
static void answer(struct etw_live *l, struct etw_live_request *r, enum err e)
{
    os_mutex_lock(l->lock);
    r->result = e;
    r->done = true;
    l->request = NULL;
    os_cond_wake_all(l->wake);
    os_mutex_unlock(l->lock);
}

static void serve(struct etw_live *l)
{
    struct etw_live_request *r;
    enum err e = ERR_OK;
    unsigned level;
    bool stepped;

    os_mutex_lock(l->lock);
    r = l->request;
    level = l->level;
    stepped = l->level_new;
    l->level_new = false;
    os_mutex_unlock(l->lock);
    if (stepped) {
        want_high(l, level);
    }
    if (r) {
        e = follow(l, r->ask, level, &r->why);
    }
    for (size_t i = 0; i < l->n && (r || stepped); i++) {
        etw_live_publish(l, i);
    }
    if (r) {
        answer(l, r, e);
    }
}

enum err etw_live_ask(struct live_events *e, const struct source_ask *ask, struct errmsg *why)
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

/* ---- the thread ---- */

/* Until that moment, or until somebody wishes something. False: it ends. */
static bool wait_until(struct etw_live *l, int64_t until_ns)
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

static int64_t next_of(const struct etw_live *l, const struct due *due)
{
    return flush_ms(l) && due->flush_ns < due->query_ns ? due->flush_ns : due->query_ns;
}

static void run(struct etw_live *l)
{
    int64_t now_ns = os_mono_ns();
    struct due due = {.query_ns = now_ns + l->conf.query_ns,
                      .flush_ns = now_ns,
                      .clock_ns = now_ns + CLOCK_NS,
                      .roll_ns = now_ns + ROLL_NS};

    while (wait_until(l, next_of(l, &due))) {
        serve(l);
        now_ns = os_mono_ns();
        if (now_ns >= next_of(l, &due)) {
            by_time(l, &due, now_ns);
        }
    }
}

static void control(void *arg)
{
    struct etw_live *l = arg;

    run(l);
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

enum err etw_live_control_begin(struct etw_live *l)
{
    enum err e;

    os_mutex_lock(l->lock);
    l->control_runs = true;
    os_mutex_unlock(l->lock);
    e = os_thread_start(&l->control, "etw-control", control, l);
    if (e) {
        os_mutex_lock(l->lock);
        l->control_runs = false;
        os_cond_wake_all(l->wake);
        os_mutex_unlock(l->lock);
    }
    return e;
}

void etw_live_control_end(struct etw_live *l)
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
