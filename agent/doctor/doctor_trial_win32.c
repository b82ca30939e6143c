#include "agent/doctor/doctor_trial_win32.h"

#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/windows/etw_ctl.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

#define OPCODE_LOST_EVENT 32
#define LOOK_NS           (10 * CLK_MS)
#define LAST_NS           (2 * CLK_S)
#define KP_START          1
#define KP_STOP           2

/* -- the consumer thread -- */

static void note_start(struct doctor_trial *t, const struct raw_event *raw, const struct event *ev)
{
    static const char mark[] = TRIAL_MARK;
    struct str line = ev->u.proc.info.command_line;
    int64_t ticks, utc_ns;
    uint64_t frequency;
    bool marked = false;

    if (ev->u.proc.info.parent_pid != os_process_id()) {
        return;
    }
    for (size_t i = 0; i + sizeof mark - 1 <= line.n && !marked; i++) {
        marked = memcmp(line.p + i, mark, sizeof mark - 1) == 0;
    }
    if (marked) {
        atomic_fetch_add(&t->lines, 1);
    }
    if (t->seen.n_delays < TRIAL_DELAYS) {
        t->conf.api->clock(&ticks, &frequency, &utc_ns);
        t->seen.delays[t->seen.n_delays++] = clk_ticks_to_ns(ticks - raw->ticks, t->frequency);
    }
    atomic_fetch_add(&t->children, 1);
}

static void note_key(struct doctor_trial *t, const struct event *ev)
{
    if (!ev->u.proc.manifest) {
        t->seen.keys++;
        t->seen.keys_zero += ev->u.proc.key == 0;
    }
}

static void note_stop(struct doctor_trial *t, const struct event *ev)
{
    const struct ev_proc *p = &ev->u.proc;

    if (p->info.id.pid == t->seen.watched && p->totals && (p->totals_mask >> M_CPU_CYCLES & 1)) {
        t->seen.watched_cycles = (uint64_t)p->totals[M_CPU_CYCLES];
        atomic_fetch_add(&t->stops, 1);
    }
}

static void note(struct doctor_trial *t, const struct raw_event *raw)
{
    struct event ev;
    bool fact = decode_event(t->decode, raw, &ev) == ERR_OK;

    if (t->conf.each) {
        t->conf.each(t->conf.ctx, raw, fact ? &ev : NULL);
    }
    if (!fact) {
        return;
    }
    switch (ev.kind) {
    case EV_PROC_FOUND:
        note_key(t, &ev);
        atomic_fetch_add(&t->found, 1);
        break;
    case EV_PROC_START:
        note_start(t, raw, &ev);
        break;
    case EV_PROC_STOP:
        note_stop(t, &ev);
        break;
    default:
        break;
    }
}

static void note_version(struct doctor_trial *t, const struct raw_event *raw)
{
    static const uint8_t provider[16] = ETW_PROVIDER_KERNEL_PROCESS;
    int *version = raw->id == KP_START ? &t->seen.start_version : &t->seen.stop_version;

    if (raw->form == RAW_MANIFEST && (raw->id == KP_START || raw->id == KP_STOP) &&
        memcmp(raw->guid, provider, sizeof provider) == 0 && raw->version > *version) {
        *version = raw->version;
    }
}

static VOID WINAPI on_record(EVENT_RECORD *r)
{
    static const uint8_t lost[16] = ETW_CLASS_LOST_EVENT;
    struct doctor_trial *t = r->UserContext;
    struct raw_event raw;

    (void)etw_record_read(&raw, r, t->ext);
    raw.frequency = t->frequency;
    raw.mono_ns = clk_ticks_to_ns(raw.ticks, t->frequency);
    raw.wall_ns = raw.mono_ns;
    t->seen.records++;
    doctor_dump_record(t->conf.dump, t->conf.manifest, &raw);
    if (memcmp(raw.guid, lost, sizeof lost) == 0) {
        t->seen.lost_events += raw.opcode == OPCODE_LOST_EVENT;
        t->seen.lost_buffers += raw.opcode != OPCODE_LOST_EVENT;
        return;
    }
    t->seen.backwards += raw.ticks < t->last_ticks;
    t->last_ticks = raw.ticks;
    note_version(t, &raw);
    note(t, &raw);
}

static void consume(void *arg)
{
    struct doctor_trial *t = arg;

    (void)t->conf.api->process(&t->trace, 1, NULL, NULL);
    atomic_store(&t->returned, true);
}

/* -- the session -- */

static struct etw_session_conf session_of(const struct doctor_trial_conf *conf)
{
    static const uint8_t guids[2][16] = {
        ETW_GUID(0x5c0e913a, 0x2477, 0x464b, 0x9d, 0x31, 0xc2, 0x08, 0x6f, 0x1b, 0xd4, 0xe9),
        ETW_GUID(0x1e7a40d6, 0xb83c, 0x4d15, 0x8c, 0x62, 0x09, 0xf7, 0x5d, 0xa1, 0x3b, 0x74)};
    struct etw_session_conf s = {.kernel = !conf->manifest,
                                 .one_stream = !conf->manifest,
                                 .flags = conf->flags,
                                 .buffer_kb = conf->small ? 4 : 64,
                                 .min_buffers = conf->small         ? 2
                                                : conf->min_buffers ? conf->min_buffers
                                                                    : 16,
                                 .max_buffers = conf->small ? 2 : 64,
                                 .pool_mib = 8,
                                 .flush_s = 1};

    memcpy(s.name, conf->manifest ? "procfleet-doctor-kp" : "procfleet-doctor",
           conf->manifest ? sizeof "procfleet-doctor-kp" : sizeof "procfleet-doctor");
    memcpy(s.guid, guids[conf->manifest], sizeof s.guid);
    return s;
}

static enum err open_trace(struct doctor_trial *t, struct errmsg *why)
{
    WCHAR name[64];
    EVENT_TRACE_LOGFILEW log = {.LoggerName = name, .Context = t};
    int64_t ticks, utc_ns;

    if (!MultiByteToWideChar(CP_UTF8, 0, etw_ctl_name(t->ctl), -1, name, 64)) {
        return errmsg_set(why, ERR_INVALID, "the session's name is too long");
    }
    log.ProcessTraceMode = PROCESS_TRACE_MODE_REAL_TIME | PROCESS_TRACE_MODE_EVENT_RECORD |
                           PROCESS_TRACE_MODE_RAW_TIMESTAMP;
    log.EventRecordCallback = on_record;
    SetLastError(ERROR_SUCCESS);
    t->trace = t->conf.api->open(&log);
    if (t->trace == INVALID_PROCESSTRACE_HANDLE) {
        return etw_ctl_error(why, "open", etw_ctl_name(t->ctl),
                             GetLastError() ? GetLastError() : ERROR_INVALID_PARAMETER);
    }
    t->tracing = true;
    t->conf.api->clock(&ticks, &t->frequency, &utc_ns);
    if (log.LogfileHeader.PerfFreq.QuadPart > 0) {
        t->frequency = (uint64_t)log.LogfileHeader.PerfFreq.QuadPart;
    }
    return ERR_OK;
}

static void configure(struct doctor_trial *t)
{
    static const struct source_provider provider = {
        .guid = ETW_PROVIDER_KERNEL_PROCESS, .level = 4, .any = 0x10, .rundown = true};
    ULONG masks[8] = {t->conf.flags};

    if (t->conf.manifest) {
        err_ignore(etw_ctl_enable(t->ctl, &provider, NULL));
    } else if (t->conf.once) {
        (void)t->conf.api->set_info(etw_ctl_handle(t->ctl), TraceSystemTraceEnableFlagsInfo, masks,
                                    sizeof masks);
    } else {
        err_ignore(etw_ctl_flags(t->ctl, t->conf.flags, NULL));
    }
}

enum err doctor_trial_begin(struct doctor_trial **out, const struct doctor_trial_conf *conf,
                            struct errmsg *why)
{
    struct etw_session_conf session = session_of(conf);
    struct doctor_trial *t = mem_zalloc(sizeof *t);
    enum err e = t ? ERR_OK : errmsg_set(why, ERR_NOMEM, "out of memory");

    if (e) {
        return e;
    }
    t->conf = *conf;
    t->seen.start_version = t->seen.stop_version = -1;
    e = decode_create(&t->decode);
    if (!e) {
        e = etw_ctl_open(&t->ctl, conf->api, &session, why);
    }
    if (!e) {
        e = etw_ctl_start(t->ctl, why);
    }
    if (!e) {
        e = open_trace(t, why);
    }
    if (e) {
        doctor_trial_free(t);
        return e;
    }
    etw_ctl_trust(t->ctl);
    if (!conf->late) {
        configure(t);
    }
    *out = t;
    return ERR_OK;
}

void doctor_trial_guid(const struct doctor_trial *t, uint8_t out[16])
{
    struct etw_session_conf session = session_of(&t->conf);

    memcpy(out, session.guid, sizeof session.guid);
}

void doctor_trial_flags(struct doctor_trial *t)
{
    configure(t);
}

enum err doctor_trial_mask(struct doctor_trial *t, unsigned bytes)
{
    ULONG masks[8] = {t->conf.flags};

    return etw_ctl_error(NULL, "flags", etw_ctl_name(t->ctl),
                         t->conf.api->set_info(etw_ctl_handle(t->ctl),
                                               TraceSystemTraceEnableFlagsInfo, masks, bytes));
}

enum err doctor_trial_read(struct doctor_trial *t)
{
    return os_thread_start(&t->consumer, "trial", consume, t);
}

void doctor_trial_wait(struct doctor_trial *t, atomic_uint *what, unsigned n, int64_t patience_ns)
{
    int64_t now_ns = os_mono_ns(), until_ns = now_ns + patience_ns, flush_ns = now_ns;

    while (now_ns < until_ns && (n == 0 || atomic_load(what) < n)) {
        if (t->conf.flush_ms && now_ns >= flush_ns) {
            err_ignore(etw_ctl_flush(t->ctl, NULL));
            flush_ns = now_ns + (int64_t)t->conf.flush_ms * CLK_MS;
        }
        os_sleep_ns(t->conf.flush_ms && t->conf.flush_ms < 10 ? CLK_MS : LOOK_NS);
        now_ns = os_mono_ns();
    }
}

/* The session is stopped: what it still has is delivered, then process returns. */
static void end_reading(struct doctor_trial *t)
{
    int64_t until_ns = os_mono_ns() + LAST_NS;

    while (t->consumer && !atomic_load(&t->returned) && os_mono_ns() < until_ns) {
        os_sleep_ns(LOOK_NS);
    }
    (void)t->conf.api->close(t->trace);
    t->tracing = false;
    os_thread_join(t->consumer);
    t->consumer = NULL;
}

void doctor_trial_end(struct doctor_trial *t)
{
    if (t->ctl && t->tracing) {
        err_ignore(etw_ctl_flush(t->ctl, NULL));
        err_ignore(etw_ctl_query(t->ctl, &t->totals, NULL));
    }
    if (t->ctl) {
        err_ignore(etw_ctl_stop(t->ctl, NULL));
    }
    if (t->tracing) {
        end_reading(t);
    }
}

void doctor_trial_free(struct doctor_trial *t)
{
    if (!t) {
        return;
    }
    doctor_trial_end(t);
    etw_ctl_close(t->ctl);
    decode_destroy(t->decode);
    mem_free(t);
}
