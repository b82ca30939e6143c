#include "tests/support/etwreplay.h"

#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/trace/etl_file.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/t.h"

#define SLOTS         8
#define NAME_UNITS    1024
#define ITEMS_MAX     32
#define PATIENCE_S    60
#define READER_S      2 /* so long nothing is turned on, if nobody reads it */
#define MASKS_MAX     16
#define BUFFER_NS     (10 * CLK_MS)
#define FILE_MODES    (EVENT_TRACE_FILE_MODE_SEQUENTIAL | EVENT_TRACE_FILE_MODE_CIRCULAR)
#define TURNED_ON_MAX 20
#define ROOM          ((size_t)64 << 10)

struct slot {
    WCHAR name[NAME_UNITS];
    GUID guid;
    ULONG mode, written, events_lost, buffers_lost, max_buffers, flags;
    unsigned lives, enabled, readers;
    uint32_t timer;     /* as the session says */
    int64_t started_ns; /* the life under way */
    bool exists, told_all;
    struct etwreplay_on on[TURNED_ON_MAX];
};

/* One trace that somebody has opened. Its records come from a pass of its own over the file. */
struct consumer {
    struct slot *slot;
    PEVENT_RECORD_CALLBACK record;
    void *context;
    struct source *file;
    uint8_t *room; /* for a moved record's payload */
    unsigned n;    /* records that were wanted */
    bool open, closed, ended, over;
    ULONG code;
    char name[NAME_UNITS];
};

static struct {
    struct os_mutex *lock; /* guards everything below */
    struct os_cond *news;
    struct etwreplay_script script;
    struct slot slots[SLOTS];
    struct consumer consumers[SLOTS * 8];
    size_t n_consumers;
    unsigned calls[REPLAY_CALLS];
    uint32_t flags, max_buffers, interval;
    unsigned stacks, filter_ids, unread, n_masks;
    char filters[1024];
    char payload[2 * SOURCE_PROVIDER_FIELD]; /* of the last filter by field and value */
    uint32_t masks[MASKS_MAX];               /* of flags, in the order in which they were set */
    int priority;                            /* of the last reader */
    bool opened;                             /* some trace could be */
    unsigned told_sessions;
    uint64_t told;
    bool resumed;
    int64_t ticks, utc_ns, after_ns; /* of the recording's first record; clock ahead of it, */
    int64_t set_ns;                  /* and set by so much */
    uint64_t frequency;
} replay;

static void lock(void)
{
    os_mutex_lock(replay.lock);
}

static void unlock(void)
{
    os_cond_wake_all(replay.news);
    os_mutex_unlock(replay.lock);
}

/* Locked. Counts the call; what it is to fail with, or 0. */
static ULONG fault(enum etwreplay_call call)
{
    const struct etwreplay_fault *f = &replay.script.faults[call];
    unsigned nth = replay.calls[call]++;

    return nth >= f->from && nth - f->from < f->times ? f->code : ERROR_SUCCESS;
}

static struct slot *find(const WCHAR *name)
{
    for (size_t i = 0; i < SLOTS; i++) {
        if (replay.slots[i].exists && wcscmp(replay.slots[i].name, name) == 0) {
            return &replay.slots[i];
        }
    }
    return NULL;
}

/* The same slot for the same name, so that its lives are counted. */
static struct slot *place(const WCHAR *name)
{
    for (size_t i = 0; i < SLOTS; i++) {
        if (!replay.slots[i].name[0] || wcscmp(replay.slots[i].name, name) == 0) {
            wcscpy_s(replay.slots[i].name, NAME_UNITS, name);
            return &replay.slots[i];
        }
    }
    return NULL;
}

/* ---- sessions ---- */

static ULONG WINAPI replay_start(TRACEHANDLE *out, const WCHAR *name, EVENT_TRACE_PROPERTIES *p)
{
    int64_t until_ns = os_mono_ns() + PATIENCE_S * CLK_S;
    struct slot *s;
    ULONG code;

    lock();
    MUST(p->LogFileNameOffset == 0 || (p->LogFileMode & FILE_MODES)); /* there is no file */
    code = fault(REPLAY_START);
    if (!code && replay.script.whole_seconds && (p->LogFileMode & EVENT_TRACE_USE_MS_FLUSH_TIMER)) {
        code = ERROR_INVALID_PARAMETER;
    }
    s = code ? NULL : find(name);
    if (s) {
        code = ERROR_ALREADY_EXISTS;
    } else if (!code) {
        s = place(name);
        code = s ? ERROR_SUCCESS : ERROR_NO_SYSTEM_RESOURCES;
        while (s && s->lives > 0 && replay.script.stays_away && !replay.resumed &&
               !os_cond_wait_until(replay.news, until_ns)) {
        }
    }
    if (!code) {
        s->guid = p->Wnode.Guid;
        s->mode = p->LogFileMode;
        s->timer = p->FlushTimer;
        s->max_buffers = replay.max_buffers = p->MaximumBuffers;
        s->events_lost = s->buffers_lost = s->written = 0;
        s->flags = s->enabled = 0;
        memset(s->on, 0, sizeof s->on);
        s->exists = true;
        s->told_all = false;
        s->started_ns = os_mono_ns();
        s->lives++;
        *out = (TRACEHANDLE)(s - replay.slots + 1);
    }
    unlock();
    return code;
}

static void tell_totals(const struct slot *s, EVENT_TRACE_PROPERTIES *p)
{
    p->Wnode.Guid = s->guid;
    p->Wnode.HistoricalContext = (ULONG64)(s - replay.slots + 1);
    p->LogFileMode = s->mode;
    p->EventsLost = s->events_lost;
    p->RealTimeBuffersLost = s->buffers_lost + replay.script.buffers_lost;
    p->BuffersWritten = s->written;
    p->MaximumBuffers = s->max_buffers;
}

static ULONG WINAPI replay_control(TRACEHANDLE h, const WCHAR *name, EVENT_TRACE_PROPERTIES *p,
                                   ULONG what)
{
    static const enum etwreplay_call calls[] = {
        [EVENT_TRACE_CONTROL_QUERY] = REPLAY_QUERY,
        [EVENT_TRACE_CONTROL_STOP] = REPLAY_STOP,
        [EVENT_TRACE_CONTROL_UPDATE] = REPLAY_UPDATE,
        [EVENT_TRACE_CONTROL_FLUSH] = REPLAY_FLUSH,
    };
    struct slot *s;
    ULONG code;

    (void)h;
    lock();
    code = fault(calls[what]);
    s = find(name);
    if (!code && p->Wnode.BufferSize < sizeof *p + 4 * NAME_UNITS) {
        code = ERROR_MORE_DATA;
    } else if (!code && !s) {
        code = ERROR_WMI_INSTANCE_NOT_FOUND;
    }
    if (!code) {
        if (what == EVENT_TRACE_CONTROL_UPDATE) {
            s->max_buffers = replay.max_buffers = p->MaximumBuffers;
            s->flags = p->EnableFlags;
            s->timer = p->FlushTimer;
        }
        s->written += what == EVENT_TRACE_CONTROL_FLUSH && !replay.script.stuck;
        tell_totals(s, p);
        s->exists = what != EVENT_TRACE_CONTROL_STOP;
    }
    unlock();
    return code;
}

static struct slot *slot_of(TRACEHANDLE h)
{
    return h >= 1 && h <= SLOTS && replay.slots[h - 1].exists ? &replay.slots[h - 1] : NULL;
}

/* Locked. What is turned on while nobody reads fills the buffers of a real session. */
static void await_reader(const struct slot *s)
{
    int64_t until_ns = os_mono_ns() + READER_S * CLK_S;

    if (!replay.script.read_first) {
        return;
    }
    while (s->readers == 0 && os_cond_wait_until(replay.news, until_ns) != ERR_TIMEOUT) {
    }
    replay.unread += s->readers == 0;
}

/* Locked. Nothing is recorded before it is turned on; then it comes. */
static void await_flags(const struct consumer *c)
{
    const struct slot *s = c->slot;
    int64_t until_ns = os_mono_ns() + READER_S * CLK_S;

    while (replay.script.read_first && s->exists && !c->closed && !s->flags && !s->enabled &&
           os_cond_wait_until(replay.news, until_ns) != ERR_TIMEOUT) {
    }
}

static void tell_filter(const EVENT_FILTER_DESCRIPTOR *d)
{
    const void *p = (const void *)(uintptr_t)d->Ptr;
    const uint16_t *ids = p;
    const ULONG *pids = p;
    size_t at = strlen(replay.filters);
    char *to = replay.filters + at;
    size_t room = sizeof replay.filters - at, n = 0;

    switch (d->Type) {
    case EVENT_FILTER_TYPE_EVENT_ID:
        MUST(d->Size == 4 + 2u * ids[1] && (ids[0] & 0xff) == TRUE);
        replay.filter_ids = ids[1];
        for (size_t i = 0; i < ids[1]; i++) {
            n += (size_t)snprintf(to + n, room - n, "%s%u",
                                  i    ? "+"
                                  : at ? " ids="
                                       : "ids=",
                                  ids[2 + i]);
        }
        break;
    case EVENT_FILTER_TYPE_PID:
        MUST(d->Size % 4 == 0 && d->Size / 4 <= 8);
        for (size_t i = 0; i < d->Size / 4; i++) {
            n += (size_t)snprintf(to + n, room - n, "%s%lu",
                                  i    ? "+"
                                  : at ? " pids="
                                       : "pids=",
                                  pids[i]);
        }
        break;
    case EVENT_FILTER_TYPE_EXECUTABLE_NAME:
        MUST(d->Size <= 1024 && ((const WCHAR *)p)[d->Size / 2 - 1] == 0);
        (void)snprintf(to, room, "%sexe=%ls", at ? " " : "", (const WCHAR *)p);
        break;
    default:
        MUST(d->Type == EVENT_FILTER_TYPE_PAYLOAD && p == replay.payload);
        (void)snprintf(to, room, "%spayload=%s", at ? " " : "", replay.payload);
    }
}

/* Locked. */
static void turn_on(struct slot *s, const GUID *guid, bool on, const struct etwreplay_on *as)
{
    static const GUID none;

    for (size_t i = 0; i < TURNED_ON_MAX; i++) {
        struct etwreplay_on *t = &s->on[i];
        bool free_or_it = memcmp(&t->guid, guid, sizeof *guid) == 0 ||
                          (on && memcmp(&t->guid, &none, sizeof none) == 0);

        if (free_or_it) {
            *t = on ? *as : (struct etwreplay_on){.level = 0};
            return;
        }
    }
}

/* Locked. */
static ULONG turn(struct slot *s, const struct etwreplay_on *as, ULONG control,
                  const ENABLE_TRACE_PARAMETERS *p)
{
    const EVENT_FILTER_DESCRIPTOR *d = p->FilterDescCount ? p->EnableFilterDesc : NULL;

    if (!s) {
        return ERROR_WMI_INSTANCE_NOT_FOUND;
    }
    if (d && replay.script.filters_refused) {
        return ERROR_INVALID_PARAMETER;
    }
    replay.filters[0] = '\0';
    for (ULONG i = 0; d && i < p->FilterDescCount; i++) {
        tell_filter(&d[i]);
    }
    if (control == EVENT_CONTROL_CODE_ENABLE_PROVIDER) {
        await_reader(s);
    }
    if (control != EVENT_CONTROL_CODE_CAPTURE_STATE) {
        turn_on(s, &as->guid, control == EVENT_CONTROL_CODE_ENABLE_PROVIDER, as);
    }
    s->enabled += control == EVENT_CONTROL_CODE_ENABLE_PROVIDER;
    s->enabled -= control == EVENT_CONTROL_CODE_DISABLE_PROVIDER;
    return ERROR_SUCCESS;
}

static bool replay_payload(const struct source_provider *p, EVENT_FILTER_DESCRIPTOR *out)
{
    int n = snprintf(replay.payload, sizeof replay.payload, "%s=%s", p->field, p->value);

    *out = (EVENT_FILTER_DESCRIPTOR){.Ptr = (ULONGLONG)(uintptr_t)replay.payload,
                                     .Size = (ULONG)n,
                                     .Type = EVENT_FILTER_TYPE_PAYLOAD};
    return !replay.script.payload_refused;
}

static void replay_payload_free(EVENT_FILTER_DESCRIPTOR *d)
{
    MUST(d->Ptr == (ULONGLONG)(uintptr_t)replay.payload);
    replay.payload[0] = '\0';
}

static ULONG WINAPI replay_enable(TRACEHANDLE h, const GUID *guid, ULONG control, UCHAR level,
                                  ULONGLONG any, ULONGLONG all, ULONG timeout,
                                  ENABLE_TRACE_PARAMETERS *p)
{
    const struct etwreplay_on as = {*guid, level, any, all, 0};
    ULONG code;

    (void)timeout;
    lock();
    code = fault(REPLAY_ENABLE);
    if (!code) {
        code = turn(slot_of(h), &as, control, p);
    }
    unlock();
    return code;
}

/* Locked. */
static ULONG set_flags(struct slot *s, const void *p, ULONG n)
{
    uint32_t flags;

    if (n != 8 * sizeof flags) {
        return ERROR_BAD_LENGTH;
    }
    memcpy(&flags, p, sizeof flags);
    if (flags & replay.script.flags_refused) {
        return ERROR_INVALID_PARAMETER;
    }
    if (flags) {
        await_reader(s);
    }
    s->flags = replay.flags = flags;
    if (replay.n_masks < MASKS_MAX) {
        replay.masks[replay.n_masks++] = flags;
    }
    return ERROR_SUCCESS;
}

static ULONG WINAPI replay_set_info(TRACEHANDLE h, TRACE_INFO_CLASS info, void *p, ULONG n)
{
    struct slot *s;
    ULONG code;

    lock();
    code = fault(REPLAY_SET_INFO);
    s = slot_of(h);
    if (code) {
    } else if (info == TraceSampledProfileIntervalInfo) {
        MUST(h == 0); /* of the machine */
        replay.interval = ((TRACE_PROFILE_INTERVAL *)p)->Interval;
    } else if (!s) {
        code = ERROR_WMI_INSTANCE_NOT_FOUND;
    } else if (info == TraceStackTracingInfo) {
        replay.stacks = n / sizeof(CLASSIC_EVENT_ID);
    } else {
        code = info == TraceSystemTraceEnableFlagsInfo ? set_flags(s, p, n) : ERROR_NOT_SUPPORTED;
    }
    unlock();
    return code;
}

/* Wine's own ends the process: who asks without having opened a trace would not live there. */
static ULONG WINAPI replay_query_info(TRACEHANDLE h, TRACE_INFO_CLASS info, void *p, ULONG n,
                                      ULONG *got)
{
    ULONG code;

    (void)h;
    lock();
    MUST(replay.opened);
    code = fault(REPLAY_QUERY_INFO);
    if (code) {
    } else if (info == TraceSampledProfileIntervalInfo && n == sizeof(TRACE_PROFILE_INTERVAL)) {
        ((TRACE_PROFILE_INTERVAL *)p)->Interval = replay.interval;
        *got = n;
    } else if (info == TraceMaxLoggersQuery && n == sizeof(ULONG)) {
        *(ULONG *)p = 80;
        *got = n;
    } else {
        code = ERROR_NOT_SUPPORTED;
    }
    unlock();
    return code;
}

static ULONG WINAPI replay_list(EVENT_TRACE_PROPERTIES **out, ULONG max, ULONG *n)
{
    *n = 0;
    lock();
    for (size_t i = 0; i < SLOTS && *n < max; i++) {
        const struct slot *s = &replay.slots[i];

        if (s->exists) {
            tell_totals(s, out[*n]);
            wcscpy_s((WCHAR *)((char *)out[*n] + out[*n]->LoggerNameOffset), NAME_UNITS, s->name);
            ++*n;
        }
    }
    unlock();
    return replay.script.more_sessions ? ERROR_MORE_DATA : ERROR_SUCCESS;
}

/* ---- records ---- */

static USHORT at16(const uint8_t *p)
{
    return (USHORT)(p[0] | p[1] << 8);
}

static USHORT unchain(EVENT_HEADER_EXTENDED_DATA_ITEM *items, const struct raw_event *raw)
{
    USHORT n = 0;

    for (size_t at = 0; at + 8 <= raw->ext_n && n < ITEMS_MAX; n++) {
        const uint8_t *p = raw->ext + at;

        items[n] = (EVENT_HEADER_EXTENDED_DATA_ITEM){.ExtType = at16(p + 2),
                                                     .DataSize = at16(p + 6),
                                                     .DataPtr = (ULONGLONG)(uintptr_t)(p + 8)};
        at += at16(p);
    }
    return n;
}

static void call_back(const struct consumer *c, const struct raw_event *raw)
{
    EVENT_HEADER_EXTENDED_DATA_ITEM items[ITEMS_MAX];
    EVENT_RECORD r = {.UserDataLength = (USHORT)raw->payload_n,
                      .UserData = (void *)(uintptr_t)raw->payload,
                      .UserContext = c->context};
    EVENT_HEADER *h = &r.EventHeader;

    h->Flags =
        raw->pointer_size == 4 ? EVENT_HEADER_FLAG_32_BIT_HEADER : EVENT_HEADER_FLAG_64_BIT_HEADER;
    h->Flags = (USHORT)(h->Flags | EVENT_HEADER_FLAG_PROCESSOR_INDEX |
                        (raw->form == RAW_CLASSIC ? EVENT_HEADER_FLAG_CLASSIC_HEADER : 0) |
                        (raw->form == RAW_MESSAGE ? EVENT_HEADER_FLAG_TRACE_MESSAGE : 0));
    h->ThreadId = raw->tid;
    h->ProcessId = raw->pid;
    h->TimeStamp.QuadPart = raw->ticks;
    memcpy(&h->ProviderId, raw->guid, sizeof raw->guid);
    h->EventDescriptor = (EVENT_DESCRIPTOR){.Id = raw->id,
                                            .Version = raw->version,
                                            .Level = raw->level,
                                            .Opcode = raw->opcode,
                                            .Task = raw->task,
                                            .Keyword = raw->keyword};
    r.BufferContext.ProcessorIndex = raw->cpu;
    r.ExtendedDataCount = unchain(items, raw);
    r.ExtendedData = r.ExtendedDataCount ? items : NULL;
    c->record(&r);
}

static void tell_loss(const struct consumer *c, const struct raw_event *raw)
{
    struct raw_event lost = {.guid = ETW_CLASS_LOST_EVENT,
                             .opcode = 32,
                             .pointer_size = 8,
                             .pid = EVENT_NO_ID,
                             .tid = EVENT_NO_ID,
                             .cpu = raw->cpu,
                             .ticks = raw->ticks};

    call_back(c, &lost);
}

/* Locked. What happens behind record n of the session's first life; false: no more of them. */
static bool goes_on(struct consumer *c)
{
    const struct etwreplay_script *script = &replay.script;
    int64_t until_ns = os_mono_ns() + PATIENCE_S * CLK_S;

    if (c->slot->lives <= 1) {
        if (script->pause_after && c->n == script->pause_after && !replay.resumed) {
            replay.told_sessions++;
            os_cond_wake_all(replay.news);
            while (!replay.resumed && !c->closed && !os_cond_wait_until(replay.news, until_ns)) {
            }
        }
        if (script->stop_after && c->n == script->stop_after) {
            c->slot->exists = false;
        }
        if (script->return_after && c->n == script->return_after) {
            c->ended = true;
            c->code = script->return_code;
        }
    }
    return c->slot->exists && !c->closed && !c->ended;
}

/* Locked. Until the record is due, or nobody waits for it any more. Then come those of the next
 * moment with it, as a session's buffers do: a wait for each would last longer than they do. */
static void wait_due(const struct consumer *c, int64_t due_ns)
{
    if (os_mono_ns() < due_ns) {
        due_ns += BUFFER_NS;
    }
    while (c->slot->exists && !c->closed && os_mono_ns() < due_ns &&
           os_cond_wait_until(replay.news, due_ns) != ERR_TIMEOUT) {
    }
}

static void stop_playing(struct consumer *c)
{
    c->over = true;
    if (c->file) {
        c->file->ops->stop(c->file);
    }
}

static void deliver(void *ctx, const struct raw_event *recorded)
{
    struct consumer *c = ctx;
    const struct etwreplay_script *script = &replay.script;
    struct raw_event moved = *recorded;
    const struct raw_event *raw = &moved;
    bool lost, on;

    /* What ProcessTrace does not hand on: another pass's records, those without a name. */
    if (raw->early || raw->header == 13) {
        return;
    }
    if (script->move && !script->move(&moved, c->room, c->slot->started_ns)) {
        return;
    }
    if (script->move) {
        lock();
        wait_due(c, moved.mono_ns);
        on = c->slot->exists && !c->closed;
        unlock();
        if (!on) {
            stop_playing(c);
            return;
        }
    }
    if (script->wants && !script->wants(c->name, raw)) { /* as it is turned on by now */
        return;
    }
    lock();
    c->n++;
    c->slot->written++;
    lost = script->lose_every && c->n % script->lose_every == 0;
    c->slot->events_lost += lost;
    replay.told += !lost;
    unlock();
    if (!lost) {
        call_back(c, raw);
    } else if (script->lose_told) {
        tell_loss(c, raw);
    }
    lock();
    on = goes_on(c);
    unlock();
    if (!on) {
        stop_playing(c);
    }
}

static void ignore_fact(void *ctx, const struct event *ev)
{
    (void)ctx;
    (void)ev;
}

static void ignore_time(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    (void)ctx;
    (void)wall_ns;
    (void)mono_ns;
}

static void play(struct consumer *c)
{
    struct etl_file_conf conf = {.paths = &replay.script.path, .n_paths = 1};
    struct source_sink sink = {
        .ctx = c, .raw = deliver, .fact = ignore_fact, .advance = ignore_time};

    for (uint64_t n = 0; replay.script.make && !c->over; n++) {
        struct raw_event raw = {.pointer_size = 8};

        if (!replay.script.make(n, &raw)) {
            break;
        }
        deliver(c, &raw);
    }
    if (!conf.paths[0]) {
        return;
    }
    c->room = replay.script.move ? mem_alloc(ROOM) : NULL;
    MUST(!replay.script.move || c->room);
    MUST(etl_file_open(&c->file, &conf, sink, NULL) == ERR_OK);
    err_ignore(c->file->ops->run(c->file));
    c->file->ops->close(c->file);
    mem_free(c->room);
}

static TRACEHANDLE WINAPI replay_open(EVENT_TRACE_LOGFILEW *log)
{
    struct consumer *c = NULL;
    struct slot *s;
    ULONG code;

    lock();
    code = fault(REPLAY_OPEN);
    s = find(log->LoggerName);
    if (!code && (!s || replay.n_consumers == COUNT_OF(replay.consumers))) {
        code = ERROR_WMI_INSTANCE_NOT_FOUND;
    }
    if (!code) {
        c = &replay.consumers[replay.n_consumers++];
        *c = (struct consumer){
            .slot = s, .record = log->EventRecordCallback, .context = log->Context, .open = true};
        WideCharToMultiByte(CP_UTF8, 0, s->name, -1, c->name, sizeof c->name, NULL, NULL);
        log->LogfileHeader.PerfFreq.QuadPart = (LONGLONG)replay.frequency;
        replay.opened = true;
    }
    unlock();
    SetLastError(code);
    return c ? (TRACEHANDLE)(c - replay.consumers) + 1000 : INVALID_PROCESSTRACE_HANDLE;
}

static struct consumer *consumer_of(TRACEHANDLE h)
{
    return h >= 1000 && h - 1000 < replay.n_consumers ? &replay.consumers[h - 1000] : NULL;
}

static ULONG WINAPI replay_process(TRACEHANDLE *h, ULONG n, FILETIME *from, FILETIME *to)
{
    struct consumer *c = consumer_of(h[0]);

    (void)from;
    (void)to;
    if (!c || n != 1) {
        return ERROR_INVALID_HANDLE;
    }
    lock();
    c->slot->readers++;
    os_cond_wake_all(replay.news);
    replay.priority = GetThreadPriority(GetCurrentThread());
    await_flags(c);
    unlock();
    play(c);
    lock();
    if (!c->slot->told_all) {
        c->slot->told_all = true;
        replay.told_sessions++;
        os_cond_wake_all(replay.news);
    }
    while (c->slot->exists && !c->closed && !c->ended) {
        os_cond_wait(replay.news);
    }
    c->slot->readers--;
    unlock();
    return c->code;
}

static ULONG WINAPI replay_close(TRACEHANDLE h)
{
    struct consumer *c = consumer_of(h);
    bool pending;

    if (!c) {
        return ERROR_INVALID_HANDLE;
    }
    lock();
    pending = !c->ended;
    c->closed = true;
    unlock();
    return pending ? 7007 : ERROR_SUCCESS; /* ERROR_CTX_CLOSE_PENDING */
}

static void replay_clock(int64_t *ticks, uint64_t *frequency, int64_t *utc_ns)
{
    lock();
    *frequency = replay.frequency;
    *ticks = replay.ticks + replay.after_ns / 1000 * (int64_t)replay.frequency / 1000000;
    *utc_ns = replay.utc_ns + replay.after_ns + replay.set_ns;
    unlock();
}

/* ---- the script ---- */

struct first {
    struct source *file;
    bool any;
};

static void take_first(void *ctx, const struct raw_event *raw)
{
    struct first *f = ctx;

    if (!raw->early && !f->any) {
        f->any = true;
        replay.ticks = raw->ticks;
        replay.utc_ns = raw->wall_ns;
        replay.frequency = raw->frequency;
        f->file->ops->stop(f->file);
    }
}

static void read_clock(void)
{
    struct etl_file_conf conf = {.paths = &replay.script.path, .n_paths = 1};
    struct first first = {0};
    struct source_sink sink = {
        .ctx = &first, .raw = take_first, .fact = ignore_fact, .advance = ignore_time};

    MUST(etl_file_open(&first.file, &conf, sink, NULL) == ERR_OK);
    err_ignore(first.file->ops->run(first.file));
    first.file->ops->close(first.file);
    MUST(first.any);
}

const struct etw_api *etwreplay_begin(const struct etwreplay_script *script)
{
    static const struct etw_api api = {
        .start = replay_start,
        .control = replay_control,
        .enable = replay_enable,
        .set_info = replay_set_info,
        .query_info = replay_query_info,
        .list = replay_list,
        .open = replay_open,
        .process = replay_process,
        .close = replay_close,
        .clock = replay_clock,
        .payload = replay_payload,
        .payload_free = replay_payload_free,
    };
    struct os_mutex *mutex = replay.lock;
    struct os_cond *news = replay.news;

    if (!mutex) {
        MUST(os_mutex_create(&mutex) == ERR_OK);
        MUST(os_cond_create(&news, mutex) == ERR_OK);
    }
    memset(&replay, 0, sizeof replay);
    replay.lock = mutex;
    replay.news = news;
    replay.script = *script;
    replay.frequency = 10000000;
    replay.interval = 10000;
    if (script->path) {
        read_clock();
    }
    if (script->move) {
        replay.frequency = script->frequency;
    }
    return &api;
}

void etwreplay_add(const char *name, const uint8_t guid[16], bool kernel)
{
    WCHAR wide[NAME_UNITS];
    struct slot *s;

    MUST(MultiByteToWideChar(CP_UTF8, 0, name, -1, wide, NAME_UNITS) > 0);
    s = place(wide);
    MUST(s != NULL);
    memcpy(&s->guid, guid, sizeof s->guid);
    s->mode = kernel ? EVENT_TRACE_SYSTEM_LOGGER_MODE : 0;
    s->exists = true;
}

static struct slot snapshot_of(const char *name)
{
    WCHAR wide[NAME_UNITS];
    struct slot copy = {.exists = false};
    struct slot *s;

    MUST(MultiByteToWideChar(CP_UTF8, 0, name, -1, wide, NAME_UNITS) > 0);
    lock();
    s = find(wide);
    if (s) {
        copy = *s;
    }
    unlock();
    return copy;
}

bool etwreplay_exists(const char *name)
{
    return snapshot_of(name).exists;
}

size_t etwreplay_turned_on(struct etwreplay_on *out, size_t max)
{
    static const GUID none;
    size_t n = 0;

    for (size_t i = 0; i < SLOTS * TURNED_ON_MAX && n < max; i++) {
        const struct slot *s = &replay.slots[i / TURNED_ON_MAX];

        out[n] = s->on[i % TURNED_ON_MAX];
        out[n].logger = (USHORT)(i / TURNED_ON_MAX + 1);
        n += s->exists && memcmp(&out[n].guid, &none, sizeof none) != 0;
    }
    return n;
}

TRACEHANDLE etwreplay_handle(const char *name)
{
    WCHAR wide[NAME_UNITS];
    const struct slot *s;

    MUST(MultiByteToWideChar(CP_UTF8, 0, name, -1, wide, NAME_UNITS) > 0);
    s = find(wide);
    return s ? (TRACEHANDLE)(s - replay.slots + 1) : 0;
}

unsigned etwreplay_calls(enum etwreplay_call call)
{
    unsigned n;

    lock();
    n = replay.calls[call];
    unlock();
    return n;
}

uint32_t etwreplay_flags(void)
{
    return replay.flags;
}

uint32_t etwreplay_flags_of(const char *name)
{
    return snapshot_of(name).flags;
}

unsigned etwreplay_enabled(const char *name)
{
    return snapshot_of(name).enabled;
}

unsigned etwreplay_filter_ids(void)
{
    return replay.filter_ids;
}

const char *etwreplay_filters(void)
{
    return replay.filters;
}

uint32_t etwreplay_interval(void)
{
    return replay.interval;
}

void etwreplay_set_utc(int64_t by_ns)
{
    lock();
    replay.set_ns += by_ns;
    unlock();
}

unsigned etwreplay_unread(void)
{
    return replay.unread;
}

size_t etwreplay_masks(const uint32_t **masks)
{
    *masks = replay.masks;
    return replay.n_masks;
}

int etwreplay_priority(void)
{
    return replay.priority;
}

uint32_t etwreplay_timer_of(const char *name, bool *in_ms)
{
    struct slot s = snapshot_of(name);

    *in_ms = s.mode & EVENT_TRACE_USE_MS_FLUSH_TIMER;
    return s.timer;
}

unsigned etwreplay_stacks(void)
{
    return replay.stacks;
}

uint32_t etwreplay_max_buffers(void)
{
    return replay.max_buffers;
}

void etwreplay_lost(uint32_t events, uint32_t buffers)
{
    lock();
    for (size_t i = 0; i < SLOTS; i++) {
        replay.slots[i].events_lost += events;
        replay.slots[i].buffers_lost += buffers;
    }
    unlock();
}

void etwreplay_resume(void)
{
    lock();
    replay.resumed = true;
    unlock();
}

static bool wait_until(const unsigned *what, unsigned n)
{
    int64_t until_ns = os_mono_ns() + PATIENCE_S * CLK_S;
    bool reached;

    lock();
    while (*what < n && !os_cond_wait_until(replay.news, until_ns)) {
    }
    reached = *what >= n;
    unlock();
    return reached;
}

bool etwreplay_wait_told(unsigned n)
{
    return wait_until(&replay.told_sessions, n);
}

bool etwreplay_wait_calls(enum etwreplay_call call, unsigned n)
{
    return wait_until(&replay.calls[call], n);
}

uint64_t etwreplay_told(void)
{
    uint64_t n;

    lock();
    n = replay.told;
    unlock();
    return n;
}

void etwreplay_clock(int64_t after_ns)
{
    lock();
    replay.after_ns = after_ns;
    unlock();
}
