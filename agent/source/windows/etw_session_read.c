/* The consumer of a session: its thread, and the callback that copies a record and returns. */
#include "agent/source/windows/etw_session.h"

#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/windows/etw_skip.h"
#include "common/base/clk.h"

/* A stamp of the performance counter in ns is the time of os_mono_ns: tables and records share one
 * clock. */

#define FILETIME_HZ   10000000u
#define FILETIME_2000 INT64_C(125911584000000000) /* more than any counter has counted */

#define OPCODE_LOST_EVENT  32
#define OPCODE_LOST_BUFFER 33
#define OPCODE_LOST_FILE   34

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

static void count_start(struct etw_session *s, const struct raw_event *raw)
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
static void set_times(const struct etw_session *s, struct raw_event *raw)
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

static void take(struct etw_session *s, const EVENT_RECORD *r)
{
    struct raw_event raw;
    unsigned cut = etw_record_read(&raw, r, s->ext);

    count_loss(s, &raw);
    if (etw_skip(&raw, atomic_load_explicit(&s->threads_elsewhere, memory_order_relaxed))) {
        atomic_fetch_add_explicit(&s->seen.skipped, 1, memory_order_relaxed);
        return;
    }
    if (cut) {
        atomic_fetch_add(&s->seen.items_skipped, cut);
    }
    count_start(s, &raw);
    set_times(s, &raw);
    err_ignore(ring_put(s->ring, &raw)); /* counted there */
}

/* Where the clock is slow, reading it twice costs more than all the rest: only some are timed. */
static VOID WINAPI on_record(EVENT_RECORD *r)
{
    struct etw_session *s = r->UserContext;
    uint64_t nth = atomic_load_explicit(&s->seen.came, memory_order_relaxed);
    int64_t from_ns;

    atomic_store_explicit(&s->seen.came, nth + 1, memory_order_relaxed); /* nobody else writes */
    if (nth % ETW_SESSION_TIMED) {
        take(s, r);
        return;
    }
    from_ns = os_mono_ns();
    take(s, r);
    etw_hist_add(&s->took, os_mono_ns() - from_ns);
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

enum err etw_session_open_trace(struct etw_session *s, struct errmsg *why)
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
    atomic_store(s->trusted, true);
    s->api->clock(&ticks, &s->frequency, &utc_ns);
    if (log.LogfileHeader.PerfFreq.QuadPart > 0) {
        s->frequency = (uint64_t)log.LogfileHeader.PerfFreq.QuadPart;
    }
    return ERR_OK;
}
