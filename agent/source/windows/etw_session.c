#include "agent/source/windows/etw_session.h"

#include <stdio.h>
#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/windows/etw_ledger.h"
#include "agent/source/windows/etw_owner.h"
#include "agent/source/windows/etw_skip.h"
#include "common/base/clk.h"

/* ---- the consumer: its thread, and the callback that copies a record and returns ---- */

/* A stamp of the performance counter in ns is the time of os_mono_ns: tables and records share one
 * clock. */

#define SAY_NS        (60 * CLK_S) /* so long after it was lost, loss is in the way */
#define LAST_NS       (CLK_S / 2)  /* for what a stopped session still delivers */
#define LAST_STEP_NS  (2 * CLK_MS)
#define READER_NS     CLK_S /* for a thread to begin, */
#define READER_MS     10    /* and then for the system to know that somebody reads */
#define LEVEL_INFO    4
#define FILETIME_HZ   10000000u
#define FILETIME_2000 INT64_C(125911584000000000) /* more than any counter has counted */

#define OPCODE_LOST_EVENT  32
#define OPCODE_LOST_BUFFER 33
#define OPCODE_LOST_FILE   34

static void etw_session_count_loss(struct etw_session *s, const struct raw_event *raw)
{
    static const uint8_t lost[16] = ETW_CLASS_LOST_EVENT;

    if (memcmp(raw->guid, lost, sizeof lost) != 0) {
        return;
    }
    if (raw->opcode == OPCODE_LOST_EVENT) {
        atomic_fetch_add(&s->seen.events, 1);
    } else if (raw->opcode == OPCODE_LOST_BUFFER || raw->opcode == OPCODE_LOST_FILE) {
        atomic_fetch_add(&s->seen.buffers, 1);
    }
}

static void etw_session_count_start(struct etw_session *s, const struct raw_event *raw)
{
    static const uint8_t process[16] = ETW_CLASS_PROCESS;
    static const uint8_t provider[16] = ETW_PROVIDER_KERNEL_PROCESS;

    if ((raw->form == RAW_CLASSIC && raw->opcode == 1 &&
         memcmp(raw->guid, process, sizeof process) == 0) ||
        (raw->form == RAW_MANIFEST && raw->id == 1 &&
         memcmp(raw->guid, provider, sizeof provider) == 0)) {
        atomic_fetch_add_explicit(&s->seen.starts, 1, memory_order_relaxed);
    }
}

/* A foreign session may stamp by the wall clock; ours never do. */
static void etw_session_set_times(const struct etw_session *s, struct raw_event *raw)
{
    int64_t wall_less_mono = atomic_load_explicit(s->wall_less_mono, memory_order_relaxed);

    if (s->conf.session.attach && raw->ticks >= FILETIME_2000) {
        raw->frequency = FILETIME_HZ;
        raw->wall_ns = clk_from_filetime((uint64_t)raw->ticks);
        raw->mono_ns = clk_sub(raw->wall_ns, wall_less_mono);
        return;
    }
    raw->frequency = s->frequency;
    raw->mono_ns = clk_ticks_to_ns(raw->ticks, s->frequency);
    raw->wall_ns = clk_add(raw->mono_ns, wall_less_mono);
}

static void etw_session_take(struct etw_session *s, const EVENT_RECORD *r)
{
    struct raw_event raw;
    unsigned cut = etw_record_read(&raw, r, s->ext);

    etw_session_count_loss(s, &raw);
    if (etw_skip(&raw, atomic_load_explicit(&s->threads_elsewhere, memory_order_relaxed))) {
        atomic_fetch_add_explicit(&s->seen.skipped, 1, memory_order_relaxed);
        return;
    }
    if (cut) {
        atomic_fetch_add(&s->seen.items_skipped, cut);
    }
    etw_session_count_start(s, &raw);
    etw_session_set_times(s, &raw);
    err_ignore(ring_put(s->ring, &raw)); /* counted there */
}

/* Where the clock is slow, reading it twice costs more than all the rest: only some are timed. */
static VOID WINAPI etw_session_on_record(EVENT_RECORD *r)
{
    struct etw_session *s = r->UserContext;
    uint64_t nth = atomic_load_explicit(&s->seen.came, memory_order_relaxed);
    int64_t from_ns;

    atomic_store_explicit(&s->seen.came, nth + 1, memory_order_relaxed); /* nobody else writes */
    if (nth % ETW_SESSION_TIMED) {
        etw_session_take(s, r);
        return;
    }
    from_ns = os_mono_ns();
    etw_session_take(s, r);
    etw_hist_add(&s->took, os_mono_ns() - from_ns);
}

static void etw_session_consume(void *arg)
{
    struct etw_session *s = arg;

    /* It only copies, and what it does not take in time is lost. */
    (void)SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_ABOVE_NORMAL);
    atomic_store(&s->reading, true);
    (void)s->api->process(&s->trace, 1, NULL, NULL); /* whatever it says: it is over */
    atomic_store(&s->returned, true);
}

/* What follows makes the kernel tell who lives, some 10^5 records: somebody must read by then. */
static void etw_session_await_reader(const struct etw_session *s)
{
    int64_t until_ns = os_mono_ns() + READER_NS;

    while (!atomic_load(&s->reading) && os_mono_ns() < until_ns) {
        os_sleep_ns(CLK_MS);
    }
    os_sleep_ns(READER_MS * CLK_MS);
}

void etw_session_join(struct etw_session *s)
{
    if (s->tracing) {
        (void)s->api->close(s->trace); /* "pending" is success; so is a trace that has ended */
        s->tracing = false;
    }
    os_thread_join(s->consumer);
    s->consumer = NULL;
    atomic_store(&s->delivers, false);
}

/* Opens the session that stands for reading. Errors: ERR_INVALID (name), as etw_ctl_error */
static enum err etw_session_open_trace(struct etw_session *s, struct errmsg *why)
{
    WCHAR name[1024];
    EVENT_TRACE_LOGFILEW log = {.LoggerName = name, .Context = s};
    int64_t ticks, utc_ns;
    DWORD code;

    if (!MultiByteToWideChar(CP_UTF8, 0, s->conf.session.name, -1, name, 1024)) {
        return errmsg_set(why, ERR_INVALID, "session_name is too long");
    }
    log.ProcessTraceMode = PROCESS_TRACE_MODE_REAL_TIME | PROCESS_TRACE_MODE_EVENT_RECORD |
                           PROCESS_TRACE_MODE_RAW_TIMESTAMP;
    log.EventRecordCallback = etw_session_on_record;
    SetLastError(ERROR_SUCCESS);
    s->trace = s->api->open(&log);
    if (s->trace == INVALID_PROCESSTRACE_HANDLE) {
        code = GetLastError();
        return etw_ctl_error(why, "open", s->conf.session.name,
                             code ? code : ERROR_INVALID_PARAMETER);
    }
    s->tracing = true;
    atomic_store(s->trusted, true);
    s->api->clock(&ticks, &s->frequency, &utc_ns);
    if (log.LogfileHeader.PerfFreq.QuadPart > 0) {
        s->frequency = (uint64_t)log.LogfileHeader.PerfFreq.QuadPart;
    }
    return ERR_OK;
}

/* ---- what is lost ---- */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t etw_session_dropped(const struct etw_session *s)
{
    struct ring_stats ring;
    uint64_t sum = 0;

    ring_stats(s->ring, &ring);
    for (size_t i = 0; i < RING_KIND_COUNT; i++) {
        sum += ring.dropped[i];
    }
    return sum;
}

static uint64_t etw_session_lost_events(const struct etw_session *s)
{
    return larger(atomic_load(&s->events_lost), atomic_load(&s->seen.events));
}

static uint64_t etw_session_lost_buffers(const struct etw_session *s)
{
    return larger(atomic_load(&s->buffers_lost), atomic_load(&s->seen.buffers));
}

static uint64_t etw_session_lost(const struct etw_session *s)
{
    return etw_session_lost_events(s) + etw_session_lost_buffers(s) + etw_session_dropped(s);
}

/* From now on, for a while: the kernel tells all at once who lives, whatever the rate is
 * afterwards. Sessions of high rates tell of nobody. */
static void etw_session_settle(struct etw_session *s, int64_t settle_ns)
{
    if (s->conf.high || s->conf.session.attach) {
        return;
    }
    if (!atomic_load(&s->settling)) {
        atomic_store(&s->settle_from, etw_session_lost(s));
        atomic_store(&s->settling, true);
    }
    s->settles_ns = os_mono_ns() + settle_ns;
}

/* In this order: whoever reads meanwhile counts too much as the rundown's for a moment, never too
 * little. */
static void etw_session_settled(struct etw_session *s, int64_t now_ns)
{
    if (atomic_load(&s->settling) && now_ns >= s->settles_ns) {
        atomic_fetch_add(&s->settle_lost, etw_session_lost(s) - atomic_load(&s->settle_from));
        atomic_store(&s->settling, false);
    }
}

static uint64_t etw_session_lost_at_start(const struct etw_session *s)
{
    bool settling = atomic_load(&s->settling);
    uint64_t now = settling ? etw_session_lost(s) - atomic_load(&s->settle_from) : 0;

    return atomic_load(&s->settle_lost) + now;
}

/* ---- start ---- */

static void etw_session_set_why(struct etw_session *s, const struct errmsg *why)
{
    (void)snprintf(s->why, sizeof s->why, "%.*s", (int)sizeof s->why - 1, why->text);
}

static uint32_t etw_session_lacks(const struct etw_session *s)
{
    return s->conf.session.kernel ? s->conf.session.flags & ~etw_ctl_flags_on(s->ctl) : 0;
}

/* What is refused is asked for again. */
static enum err etw_session_flags_done(struct etw_session *s, enum err e, int64_t again_ns)
{
    atomic_store(&s->flags_on, etw_ctl_flags_on(s->ctl));
    s->lacks = etw_session_lacks(s) != 0;
    s->flags_ns = os_mono_ns() + again_ns;
    return e;
}

static enum err etw_session_set_flags(struct etw_session *s, uint32_t flags,
                                      const struct etw_live_conf *conf, struct errmsg *why)
{
    s->images_due = (s->conf.session.flags & ~flags) != 0;
    return etw_session_flags_done(s, etw_ctl_flags(s->ctl, flags, why),
                                  s->images_due ? conf->images_ns : conf->pause_ns);
}

/* Those that come last, or that were refused. */
static void etw_session_more_flags(struct etw_session *s, const struct etw_live_conf *conf)
{
    struct errmsg why = {""};
    bool refused = !s->images_due;
    enum err e;

    s->images_due = false;
    e = etw_session_flags_done(s, etw_ctl_flags_add(s->ctl, s->conf.session.flags, &why),
                               conf->pause_ns);
    if (e && e != ERR_LOST) { /* of that the next query tells more */
        etw_session_set_why(s, &why);
    } else if (!e && refused) {
        s->why[0] = '\0';
    }
}

/* Of a session of high rates, beside its flags. */
static void etw_session_configure_high(struct etw_session *s, const struct etw_live_conf *conf)
{
    struct errmsg why = {""};

    if (!(s->conf.session.flags & ETW_FLAG_PROFILE)) {
        etw_ctl_sampling_end(s->ctl);
    } else if (etw_ctl_sampling(s->ctl, conf->samples_per_s, &why)) {
        etw_session_set_why(s, &why);
    } else {
        atomic_store(&s->sample_ns, CLK_S / conf->samples_per_s);
    }
}

/* Whether the provider tells when processes start: its event 1. */
static bool etw_session_has_starts(const struct source_provider *p)
{
    static const uint8_t kernel_process[16] = ETW_PROVIDER_KERNEL_PROCESS;
    bool passes = p->n_ids == 0;

    for (size_t i = 0; i < p->n_ids; i++) {
        passes = passes || p->ids[i] == 1;
    }
    return memcmp(p->guid, kernel_process, sizeof kernel_process) == 0 && passes &&
           p->level >= LEVEL_INFO && (p->any & ETW_KEYWORD_PROCESS) &&
           !(p->all & ~ETW_KEYWORD_PROCESS);
}

static enum err etw_session_enable(struct etw_session *s, const struct source_provider *p,
                                   struct errmsg *why)
{
    enum err e = etw_ctl_enable(s->ctl, p, why);

    if (!e && etw_session_has_starts(p)) {
        s->starts_told = true;
    }
    return e;
}

/* What is refused is counted by the session and said; the rest goes on. Every process with its
 * threads goes before every image that it has loaded. */
static void etw_session_configure(struct etw_session *s, const struct etw_live_conf *conf)
{
    uint32_t first = s->conf.session.flags & ~(uint32_t)ETW_FLAG_IMAGE;
    struct errmsg why = {""};

    if (s->stacks && etw_ctl_stacks(s->ctl, true, &why)) {
        etw_session_set_why(s, &why);
    }
    if (etw_session_set_flags(s, first ? first : s->conf.session.flags, conf, &why)) {
        etw_session_set_why(s, &why);
    }
    if (s->conf.high) {
        etw_session_configure_high(s, conf);
    }
    s->starts_told = false;
    for (size_t i = 0; i < s->conf.n_providers; i++) {
        if (etw_session_enable(s, &s->conf.providers[i], &why)) {
            etw_session_set_why(s, &why);
        }
    }
}

static enum err etw_session_start_and_open(struct etw_session *s, struct errmsg *why)
{
    enum err e;

    if (atomic_load(s->trusted)) {
        etw_ctl_trust(s->ctl);
    }
    e = etw_ctl_start(s->ctl, why);
    if (e) {
        return e;
    }
    e = etw_session_open_trace(s, why);
    if (e) {
        err_ignore(etw_ctl_stop(s->ctl, NULL));
    }
    return e;
}

/* Who is refused owns nothing: an agent that may have the sessions would wait for it in vain. */
static enum err etw_session_start_owned(struct etw_session *s, struct errmsg *why)
{
    bool takes = s->owner && !*s->owner;
    enum err e = takes ? etw_owner_take(s->owner, why) : ERR_OK;

    if (e) {
        return e;
    }
    e = etw_session_start_and_open(s, why);
    if (e && takes) {
        etw_owner_give(*s->owner);
        *s->owner = NULL;
    }
    if (e) {
        return e;
    }
    etw_ctl_trust(s->ctl);
    s->before = (struct etw_totals){0};
    if (s->conf.session.attach) {
        err_ignore(etw_ctl_query(s->ctl, &s->before, NULL));
    }
    s->still.since_ns = os_mono_ns();
    s->still.probed = false;
    return ERR_OK;
}

enum err etw_session_start(struct etw_session *s, struct errmsg *why)
{
    struct errmsg refused = {""};
    enum err e = etw_session_start_owned(s, &refused);

    etw_session_set_why(s, &refused);
    return e ? errmsg_set(why, e, "%s", refused.text) : ERR_OK;
}

enum err etw_session_read(struct etw_session *s, const struct etw_live_conf *conf)
{
    enum err e;

    atomic_store(&s->returned, false);
    atomic_store(&s->reading, false);
    e = os_thread_start(&s->consumer, "etw-consumer", etw_session_consume, s);
    if (e) {
        return e;
    }
    etw_session_await_reader(s);
    etw_session_settle(s, conf->settle_ns);
    etw_session_configure(s, conf);
    atomic_store(&s->delivers, true);
    return ERR_OK;
}

enum err etw_session_init(struct etw_session *s, const struct etw_api *api,
                          const struct etw_live_session *conf, size_t ring_bytes,
                          struct errmsg *why)
{
    struct ring_conf ring = {.bytes = ring_bytes};
    enum err e;

    s->api = api;
    s->conf = *conf;
    s->idle = conf->high;
    e = etw_ctl_open(&s->ctl, api, &s->conf.session, why);
    if (e) {
        return e;
    }
    e = ring_create(&s->ring, &ring);
    return e ? errmsg_set(why, e, "ring_bytes of session %s: %s", conf->session.name, err_text(e))
             : ERR_OK;
}

void etw_session_fini(struct etw_session *s)
{
    if (s->ctl) {
        err_ignore(etw_ctl_stop(s->ctl, NULL));
    }
    etw_session_join(s);
    ring_destroy(s->ring);
    etw_ctl_close(s->ctl);
    s->ring = NULL;
    s->ctl = NULL;
}

/* ---- the control thread ---- */

static void etw_session_publish(struct etw_session *s)
{
    atomic_store(&s->events_lost, s->events_base + s->last.events_lost);
    atomic_store(&s->buffers_lost, s->buffers_base + s->last.buffers_lost);
}

/* What it counted until now stays counted. */
static void etw_session_end_life(struct etw_session *s)
{
    s->events_base += s->last.events_lost;
    s->buffers_base += s->last.buffers_lost;
    s->last = (struct etw_totals){0};
}

/* A session that stands although nobody reads it any more is stopped, so that the next start finds
 * its name free. */
static void etw_session_lose(struct etw_session *s, const struct etw_live_conf *conf,
                             const char *cause, int64_t now_ns)
{
    etw_session_join(s);
    err_ignore(etw_ctl_stop(s->ctl, NULL));
    etw_session_end_life(s);
    (void)snprintf(s->why, sizeof s->why, "session %.200s was lost: %s", s->conf.session.name,
                   cause);
    s->down = true;
    s->tries = 0;
    s->next_try_ns = now_ns + conf->retry_ns;
    atomic_fetch_add(&s->losses, 1);
}

static bool etw_session_try_start(struct etw_session *s, const struct etw_live_conf *conf)
{
    struct errmsg why = {""};

    if (etw_session_start(s, &why) == ERR_OK && etw_session_read(s, conf) == ERR_OK) {
        s->stood = true;
        return true;
    }
    etw_session_join(s);
    err_ignore(etw_ctl_stop(s->ctl, NULL));
    return false;
}

static void etw_session_retry(struct etw_session *s, const struct etw_live_conf *conf,
                              int64_t now_ns)
{
    if (now_ns < s->next_try_ns) {
        return;
    }
    if (etw_session_try_start(s, conf)) {
        s->down = false;
        atomic_fetch_add(&s->restarts, 1);
        return;
    }
    atomic_fetch_add(&s->restarts_failed, 1);
    s->tries++;
    s->next_try_ns = now_ns + (s->tries < conf->retry_fast ? conf->retry_ns : conf->pause_ns);
}

/* What a foreign session lost before it was read is not ours; less than then: it is a new one. */
static void etw_session_less_before(struct etw_session *s, struct etw_totals *t)
{
    if (t->events_lost < s->before.events_lost || t->buffers_lost < s->before.buffers_lost) {
        s->before = (struct etw_totals){0};
    }
    t->events_lost -= s->before.events_lost;
    t->buffers_lost -= s->before.buffers_lost;
}

/* more: it has lost something since it was asked last. */
static enum err etw_session_query(struct etw_session *s, bool *more)
{
    struct etw_totals totals;
    enum err e = etw_ctl_query(s->ctl, &totals, NULL);

    if (e) {
        return e;
    }
    etw_session_less_before(s, &totals);
    atomic_store(&s->events_settled, s->events_base + s->last.events_lost);
    atomic_store(&s->buffers_settled, s->buffers_base + s->last.buffers_lost);
    *more = totals.events_lost > s->last.events_lost || totals.buffers_lost > s->last.buffers_lost;
    s->last = totals;
    etw_session_publish(s);
    return ERR_OK;
}

static void etw_session_idle_thread(void *arg)
{
    (void)arg;
}

/* Something that the session must tell of has happened: where it tells of threads, one of ours. */
static bool etw_session_provoke(const struct etw_session *s, uint64_t starts)
{
    uint32_t on = etw_ctl_flags_on(s->ctl);
    struct os_thread *t;

    if (!(on & ETW_FLAG_THREAD)) {
        return (s->starts_told || (on & ETW_FLAG_PROCESS)) && starts > s->still.starts;
    }
    if (os_thread_start(&t, "etw-heartbeat", etw_session_idle_thread, NULL)) {
        return false;
    }
    os_thread_join(t);
    return true;
}

/* True: it hands on nothing although it must. The flush brings what waits in its buffers until the
 * next look. */
static bool etw_session_silent(struct etw_session *s, const struct etw_live_conf *conf,
                               uint64_t starts, int64_t now_ns)
{
    uint64_t came = atomic_load(&s->seen.came);

    if (came != s->still.came || s->last.buffers_written != s->still.written) {
        s->still.came = came;
        s->still.written = s->last.buffers_written;
        s->still.starts = starts;
        s->still.since_ns = now_ns;
        s->still.probed = false;
        return false;
    }
    if (s->conf.session.attach || now_ns - s->still.since_ns < conf->heartbeat_ns) {
        return false;
    }
    if (s->still.probed) {
        return now_ns - s->still.probed_ns >= conf->heartbeat_ns / 10;
    }
    s->still.probed = etw_session_provoke(s, starts) && etw_ctl_flush(s->ctl, NULL) == ERR_OK;
    s->still.probed_ns = now_ns;
    return false;
}

static void etw_session_watch_up(struct etw_session *s, const struct etw_live_conf *conf,
                                 uint64_t starts, int64_t now_ns)
{
    bool more = false;

    if (etw_session_query(s, &more) == ERR_LOST) {
        etw_session_lose(s, conf, "another program stopped it", now_ns);
    } else if (atomic_load(&s->returned)) {
        etw_session_lose(s, conf, "the system ended its delivery", now_ns);
    } else if (etw_session_silent(s, conf, starts, now_ns)) {
        etw_session_lose(s, conf, "it hands on nothing any more", now_ns);
    } else if (more) {
        s->lost_until_ns = now_ns + SAY_NS;
        err_ignore(etw_ctl_grow(s->ctl, NULL)); /* at the limit: the level must fall */
    }
}

void etw_session_watch(struct etw_session *s, const struct etw_live_conf *conf, uint64_t starts,
                       int64_t now_ns)
{
    uint64_t full = etw_session_dropped(s);

    if (full > s->dropped) {
        s->full_until_ns = now_ns + SAY_NS;
    }
    s->dropped = full;
    if (s->idle) {
        return;
    }
    if (s->down) {
        etw_session_retry(s, conf, now_ns);
    } else {
        etw_session_watch_up(s, conf, starts, now_ns);
    }
    etw_session_settled(s, now_ns);
}

int64_t etw_session_due_ns(const struct etw_session *s)
{
    return s->lacks && !s->down && !s->idle ? s->flags_ns : INT64_MAX;
}

void etw_session_by_time(struct etw_session *s, const struct etw_live_conf *conf, int64_t now_ns)
{
    if (now_ns >= etw_session_due_ns(s)) {
        etw_session_more_flags(s, conf);
    }
}

bool etw_session_refused(const struct etw_session *s)
{
    return s->lacks && !s->images_due;
}

void etw_session_tell(const struct etw_session *s, char *text, int64_t now_ns)
{
    const char *name = s->conf.session.name;

    text[0] = '\0';
    if (s->why[0]) {
        memcpy(text, s->why, sizeof s->why);
    } else if (now_ns < s->full_until_ns) {
        (void)snprintf(text, ETW_SESSION_WHY,
                       "session %.120s: records come faster than they are taken, its ring "
                       "overflows; raise etw.ring_bytes or lower sampler.level_max",
                       name);
    } else if (now_ns < s->lost_until_ns && s->conf.session.attach) {
        (void)snprintf(text, ETW_SESSION_WHY,
                       "session %.120s: the system loses events for want of buffers; whoever "
                       "starts it must give it more",
                       name);
    } else if (now_ns < s->lost_until_ns) {
        (void)snprintf(text, ETW_SESSION_WHY,
                       "session %.120s: the system loses events for want of buffers; raise "
                       "etw.%smax_buffers or etw.pool_limit_mib",
                       name, s->conf.high ? "hi." : "");
    }
}

void etw_session_stop(struct etw_session *s)
{
    bool more;

    if (!s->down && !s->idle) {
        err_ignore(etw_session_query(s, &more));
    }
    err_ignore(etw_ctl_stop(s->ctl, NULL));
}

/* ---- live changes ---- */

/* To the end of what it still delivers. A session of high rates that is not wanted costs a slot and
 * its buffers, so it ends; but programs that guard others' games refuse a second start. */
static void etw_session_rest(struct etw_session *s)
{
    int64_t until_ns = os_mono_ns() + LAST_NS;

    etw_session_stop(s);
    while (s->consumer && !atomic_load(&s->returned) && os_mono_ns() < until_ns) {
        os_sleep_ns(LAST_STEP_NS);
    }
    etw_session_join(s);
    etw_session_end_life(s);
    atomic_store(&s->flags_on, 0);
    s->idle = true;
    s->down = false;
    s->why[0] = '\0';
}

void etw_session_want(struct etw_session *s, const struct etw_live_conf *conf, uint32_t flags,
                      int64_t now_ns)
{
    struct errmsg why = {""};

    if (!flags && (s->idle || s->down || !s->keeps)) {
        if (!s->idle) {
            etw_session_rest(s);
        }
        return;
    }
    s->conf.session.flags = flags;
    if (s->idle) {
        s->idle = false;
        s->down = !etw_session_try_start(s, conf);
        s->keeps = s->keeps || (s->down && s->stood);
        s->tries = 0;
        s->next_try_ns = now_ns + conf->retry_ns;
    } else if (!s->down) {
        s->why[0] = '\0';
        if (etw_session_set_flags(s, flags, conf, &why)) {
            etw_session_set_why(s, &why);
        }
        etw_session_configure_high(s, conf);
    }
}

enum err etw_session_flags(struct etw_session *s, const struct etw_live_conf *conf, uint32_t flags,
                           struct errmsg *why)
{
    s->conf.session.flags = flags;
    return s->down ? ERR_OK : etw_session_set_flags(s, flags, conf, why);
}

enum err etw_session_stacks(struct etw_session *s, bool on, struct errmsg *why)
{
    s->stacks = on;
    return s->down || s->idle ? ERR_OK : etw_ctl_stacks(s->ctl, on, why);
}

static size_t etw_session_find_provider(const struct etw_session *s, const uint8_t guid[16])
{
    size_t i = 0;

    while (i < s->conf.n_providers && memcmp(s->conf.providers[i].guid, guid, 16) != 0) {
        i++;
    }
    return i;
}

enum err etw_session_add(struct etw_session *s, const struct source_provider *p, struct errmsg *why)
{
    size_t i = etw_session_find_provider(s, p->guid);
    enum err e;

    if (i == ETW_LIVE_PROVIDERS) {
        return errmsg_set(why, ERR_FULL, "session %s has %d providers already",
                          s->conf.session.name, ETW_LIVE_PROVIDERS);
    }
    e = s->down ? ERR_OK : etw_session_enable(s, p, why);
    if (e) {
        return e;
    }
    s->conf.providers[i] = *p;
    s->conf.n_providers += i == s->conf.n_providers;
    return ERR_OK;
}

enum err etw_session_remove(struct etw_session *s, const uint8_t guid[16], struct errmsg *why)
{
    size_t i = etw_session_find_provider(s, guid);
    struct source_provider *p = &s->conf.providers[i];

    if (i == s->conf.n_providers) {
        return errmsg_set(why, ERR_NOTFOUND, "session %s has no such provider",
                          s->conf.session.name);
    }
    s->starts_told = s->starts_told && !etw_session_has_starts(p);
    s->conf.n_providers--;
    memmove(p, p + 1, (s->conf.n_providers - i) * sizeof *p);
    return s->down ? ERR_OK : etw_ctl_disable(s->ctl, guid, why);
}

void etw_session_time_callback(struct etw_session *s, bool roll)
{
    int64_t p99_ns = etw_hist_bound_ns(&s->took, 990);

    if (p99_ns || roll) {
        atomic_store(&s->p99_ns, p99_ns);
    }
    if (roll) {
        etw_hist_roll(&s->took);
    }
}

void etw_session_add_lost(const struct etw_session *s, struct etw_live_stats *v)
{
    uint64_t events = etw_session_lost_events(s), buffers = etw_session_lost_buffers(s);

    v->lost_events += events;
    v->lost_buffers += buffers;
    v->lost_at_start += etw_session_lost_at_start(s);
    if (s->conf.high) {
        v->high_events += events;
        v->high_buffers += buffers;
    }
}
