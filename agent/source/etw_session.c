#include "agent/source/etw_session.h"

#include <string.h>

#include "agent/etw_guid.h"
#include "common/clk.h"

/* A stamp of the performance counter in ns is the time of os_mono_ns: tables and records share one
 * clock. */

#define OPCODE_LOST_EVENT  32
#define OPCODE_LOST_BUFFER 33
#define OPCODE_LOST_FILE   34

/* ---- the consumer thread ---- */

static void count_loss(struct etw_session *s, const struct raw_event *raw)
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

static VOID WINAPI on_record(EVENT_RECORD *r)
{
    struct etw_session *s = r->UserContext;
    struct raw_event raw;
    unsigned skipped = etw_record_read(&raw, r, s->ext);

    if (skipped) {
        atomic_fetch_add(&s->seen.items_skipped, skipped);
    }
    raw.frequency = s->frequency;
    raw.mono_ns = clk_ticks_to_ns(raw.ticks, s->frequency);
    raw.wall_ns =
        clk_add(raw.mono_ns, atomic_load_explicit(s->wall_less_mono, memory_order_relaxed));
    count_loss(s, &raw);
    err_ignore(ring_put(s->ring, &raw)); /* counted there */
}

static void consume(void *arg)
{
    struct etw_session *s = arg;

    (void)s->api->process(&s->trace, 1, NULL, NULL); /* whatever it says: it is over */
    atomic_store(&s->returned, true);
}

enum err etw_session_read(struct etw_session *s)
{
    enum err e;

    atomic_store(&s->returned, false);
    e = os_thread_start(&s->consumer, "etw-consumer", consume, s);
    if (!e) {
        atomic_store(&s->delivers, true);
    }
    return e;
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

/* ---- start ---- */

static enum err open_trace(struct etw_session *s, struct errmsg *why)
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
    log.EventRecordCallback = on_record;
    SetLastError(ERROR_SUCCESS);
    s->trace = s->api->open(&log);
    if (s->trace == INVALID_PROCESSTRACE_HANDLE) {
        code = GetLastError();
        return etw_ctl_error(why, "open", s->conf.session.name,
                             code ? code : ERROR_INVALID_PARAMETER);
    }
    s->tracing = true;
    s->api->clock(&ticks, &s->frequency, &utc_ns);
    if (log.LogfileHeader.PerfFreq.QuadPart > 0) {
        s->frequency = (uint64_t)log.LogfileHeader.PerfFreq.QuadPart;
    }
    return ERR_OK;
}

/* What is refused is counted by the session; the rest goes on. */
static void configure(struct etw_session *s)
{
    err_ignore(etw_ctl_flags(s->ctl, s->conf.session.flags, NULL));
    for (size_t i = 0; i < s->conf.n_providers; i++) {
        err_ignore(etw_ctl_enable(s->ctl, &s->conf.providers[i], NULL));
    }
}

enum err etw_session_start(struct etw_session *s, struct errmsg *why)
{
    enum err e = etw_ctl_start(s->ctl, why);

    if (e) {
        return e;
    }
    e = open_trace(s, why);
    if (e) {
        err_ignore(etw_ctl_stop(s->ctl, NULL));
        return e;
    }
    configure(s);
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

static void publish(struct etw_session *s)
{
    atomic_store(&s->events_lost, s->events_base + s->last.events_lost);
    atomic_store(&s->buffers_lost, s->buffers_base + s->last.buffers_lost);
}

/* Gone: what it lost until then stays counted. A session that stands although nobody reads it any
 * more is stopped, so that the next start finds its name free. */
static void lose(struct etw_session *s, const struct etw_live_conf *conf, int64_t now_ns)
{
    etw_session_join(s);
    err_ignore(etw_ctl_stop(s->ctl, NULL));
    s->events_base += s->last.events_lost;
    s->buffers_base += s->last.buffers_lost;
    s->last = (struct etw_totals){0};
    s->down = true;
    s->tries = 0;
    s->next_try_ns = now_ns + conf->retry_ns;
    atomic_fetch_add(&s->losses, 1);
}

static void try_again(struct etw_session *s, const struct etw_live_conf *conf, int64_t now_ns)
{
    if (now_ns < s->next_try_ns) {
        return;
    }
    if (etw_session_start(s, NULL) == ERR_OK && etw_session_read(s) == ERR_OK) {
        s->down = false;
        atomic_fetch_add(&s->restarts, 1);
        return;
    }
    etw_session_join(s);
    err_ignore(etw_ctl_stop(s->ctl, NULL));
    atomic_fetch_add(&s->restarts_failed, 1);
    s->tries++;
    s->next_try_ns = now_ns + (s->tries < conf->retry_fast ? conf->retry_ns : conf->pause_ns);
}

/* more: it has lost something since it was asked last. */
static enum err ask(struct etw_session *s, bool *more)
{
    struct etw_totals totals;
    enum err e = etw_ctl_query(s->ctl, &totals, NULL);

    if (e) {
        return e;
    }
    atomic_store(&s->events_settled, s->events_base + s->last.events_lost);
    atomic_store(&s->buffers_settled, s->buffers_base + s->last.buffers_lost);
    *more = totals.events_lost > s->last.events_lost || totals.buffers_lost > s->last.buffers_lost;
    s->last = totals;
    publish(s);
    return ERR_OK;
}

void etw_session_watch(struct etw_session *s, const struct etw_live_conf *conf, int64_t now_ns)
{
    bool more = false;

    if (s->down) {
        try_again(s, conf, now_ns);
    } else if (atomic_load(&s->returned) || ask(s, &more) == ERR_LOST) {
        lose(s, conf, now_ns);
    } else if (more) {
        err_ignore(etw_ctl_grow(s->ctl, NULL)); /* at the limit: the level must fall */
    }
}

void etw_session_stop(struct etw_session *s)
{
    bool more;

    if (!s->down) {
        err_ignore(ask(s, &more));
    }
    err_ignore(etw_ctl_stop(s->ctl, NULL));
}
