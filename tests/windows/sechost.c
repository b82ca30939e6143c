/* Stands as sechost.dll in a Wine prefix: the ten functions of event tracing deliver a recording,
 * with faults as a script says; everything else is Wine's own, kept beside it as sechost_real.dll.
 * The script is a file of `key=value` lines, named by PROCFLEET_ETW_SCRIPT. That variable is this
 * library's: the agent knows nothing of it. Without it all functions are Wine's.
 *
 *   recording=PATH   speed=N          as fast as recorded: 1000, twice as fast: 2000
 *   delay=MS                          its time begins so long after somebody reads it
 *   tables=1                          the table of processes is the recorded host's
 *   all=1                             what no session asked for comes to the first one
 *   at_once=1                         records come as fast as they can, all stamped with the clock
 *   own=PATH                          somebody listens to our own provider: what it writes goes
 *                                     there, a line each, see own_file.py
 *   left=NAME                         a recording that a killed program has left behind
 *   recorded=PATH                     what a session of the kernel that writes a file writes
 *   journal=PATH                      what was done is written there
 *   holder=NAME                       somebody's system logger of that name runs (up to 8)
 *   on=NAME GUID LEVEL ANY            that session has turned on a provider (up to 8)
 *   orphan=NAME                       so does one that an agent has left behind
 *   made=RATE                         no recording: so many records a second, as they are due, of
 *                                     two TraceLogging providers, to the session of providers
 *   made_quiet=N                      each Nth is of procfleet-Quiet, the others of procfleet-Loud;
 *                                     their field is `seq`, a number of its own
 *   made_registered=1                 all are of a provider that describes nothing: see tdh.c
 *   made_first=N   made_count=N       the first number; so many records (0: without an end)
 *   fault.CALL=FROM,TIMES,CODE        CALL: start query stop update flush enable set_info open
 *                                     query_info
 *   flags_refused filters_refused stuck return_after return_code stop_after lose_every lose_told
 * buffers_lost more_sessions: see tests/support/etwreplay.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/source/etw_guid.h"
#include "common/os/os.h"
#include "tests/support/etwreplay.h"
#include "tests/support/t.h"
#include "tests/windows/recorded_host.h"

#define SCRIPT_BYTES ((size_t)64 << 10)
#define HOLDERS_MAX  8
#define PATH_BYTES   1024
#define COLLISION    91 /* exit code: start the program again, with another number */

static struct {
    struct etwreplay_script replay;
    char recording[PATH_BYTES], journal[PATH_BYTES], recorded[PATH_BYTES], left[128],
        own[PATH_BYTES];
    char holders[HOLDERS_MAX][128], orphan[128], on[HOLDERS_MAX][256];
    size_t n_holders, n_on;
    unsigned speed, delay_ms;
    unsigned made, made_quiet, made_first, made_count;
    bool made_registered;
    bool tables, all, at_once;
} script = {.speed = 1000};

static const struct etw_api *api;
static struct etw_api wine;
static ULONG(WINAPI *wine_guids)(TRACE_QUERY_INFO_CLASS, void *, ULONG, void *, ULONG, ULONG *);
static INIT_ONCE once = INIT_ONCE_STATIC_INIT;

/* ---- the journal ---- */

static void note(const char *what, const char *session, ULONG code)
{
    FILE *f = script.journal[0] ? os_fopen(script.journal, "a") : NULL;

    if (f) {
        (void)fprintf(f, "%s %s code=%lu told=%llu flags=0x%x max_buffers=%u unread=%u\n", what,
                      session, code, (unsigned long long)etwreplay_told(),
                      (unsigned)etwreplay_flags(), (unsigned)etwreplay_max_buffers(),
                      etwreplay_unread());
        (void)fclose(f);
    }
}

/* "start NAME code=0 mode=0x8000001 file=… max=4096 buffers=64x1024", and what writes it. */
static void note_file(const char *what, const WCHAR *session, const EVENT_TRACE_PROPERTIES *p,
                      ULONG mode, ULONG code)
{
    FILE *f = script.journal[0] ? os_fopen(script.journal, "a") : NULL;
    const WCHAR *file =
        p->LogFileNameOffset ? (const WCHAR *)((const char *)p + p->LogFileNameOffset) : L"";

    if (f) {
        (void)fprintf(f, "%s %ls code=%lu mode=0x%lx file=%ls max=%lu buffers=%lux%lu\n", what,
                      session, code, mode, file, p->MaximumFileSize, p->MinimumBuffers,
                      p->BufferSize);
        (void)fclose(f);
    }
}

/* What the system would have written: the kernel's session the recording, the others nothing. */
static void write_file(const WCHAR *session, const EVENT_TRACE_PROPERTIES *p)
{
    const WCHAR *file = (const WCHAR *)((const char *)p + p->LogFileNameOffset);
    WCHAR from[PATH_BYTES];

    if (p->LogFileNameOffset && !wcsstr(session, L"user") && script.recorded[0] &&
        MultiByteToWideChar(CP_UTF8, 0, script.recorded, -1, from, PATH_BYTES)) {
        MUST(CopyFileW(from, file, TRUE));
    }
}

static void note_wide(const char *what, const WCHAR *session, ULONG code)
{
    char name[256];

    if (script.journal[0] &&
        WideCharToMultiByte(CP_UTF8, 0, session, -1, name, sizeof name, NULL, NULL)) {
        note(what, name, code);
    }
}

/* ---- which session gets a record ---- */

static bool is_class(const struct raw_event *raw, const uint8_t guid[16])
{
    return memcmp(raw->guid, guid, 16) == 0;
}

/* Which kernel flag it takes to get the record; 0 = none that anybody sets. */
static uint32_t flag_of(const struct raw_event *raw)
{
    static const struct {
        uint8_t guid[16];
        uint8_t from, to;
        uint32_t flag;
    } rows[] = {
        {ETW_CLASS_PROCESS, 32, 33, EVENT_TRACE_FLAG_PROCESS_COUNTERS},
        {ETW_CLASS_PROCESS, 1, 39, EVENT_TRACE_FLAG_PROCESS},
        {ETW_CLASS_THREAD, 1, 4, EVENT_TRACE_FLAG_THREAD},
        {ETW_CLASS_THREAD, 36, 36, EVENT_TRACE_FLAG_CSWITCH},
        {ETW_CLASS_IMAGE, 2, 10, EVENT_TRACE_FLAG_IMAGE_LOAD},
        {ETW_CLASS_PERF_INFO, 46, 46, EVENT_TRACE_FLAG_PROFILE},
        {ETW_CLASS_PERF_INFO, 72, 74, EVENT_TRACE_FLAG_PROFILE},
        {ETW_CLASS_DISK_IO, 10, 11, EVENT_TRACE_FLAG_DISK_IO},
        {ETW_CLASS_DISK_IO, 14, 14, EVENT_TRACE_FLAG_DISK_IO},
        {ETW_CLASS_DISK_IO, 12, 15, EVENT_TRACE_FLAG_DISK_IO_INIT},
        {ETW_CLASS_PAGE_FAULT, 32, 32, EVENT_TRACE_FLAG_MEMORY_HARD_FAULTS},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (is_class(raw, rows[i].guid) && raw->opcode >= rows[i].from &&
            raw->opcode <= rows[i].to) {
            return rows[i].flag;
        }
    }
    return 0;
}

/* Somebody's session records who lives. */
static bool is_holder(const char *session)
{
    for (size_t i = 0; i < script.n_holders; i++) {
        if (strcmp(script.holders[i], session) == 0) {
            return true;
        }
    }
    return false;
}

static bool wants(const char *session, const struct raw_event *raw)
{
    static const uint8_t kernel_process[16] = ETW_PROVIDER_KERNEL_PROCESS;
    uint32_t flags = is_holder(session) ? 0xf : etwreplay_flags_of(session);
    size_t n = strlen(session);

    if (raw->form == RAW_CLASSIC && (flags & flag_of(raw))) {
        return true;
    }
    if (is_class(raw, kernel_process)) {
        return n > 3 && strcmp(session + n - 3, "-kp") == 0 && etwreplay_enabled(session) > 0;
    }
    if (script.made) {
        return n > 3 && strcmp(session + n - 3, "-kp") == 0 && etwreplay_enabled(session) > 1;
    }
    return script.all && strcmp(session, "procfleet") == 0;
}

static bool move_to_now(struct raw_event *raw, uint8_t *room, int64_t since_ns)
{
    int64_t utc_ns = os_utc_ns();
    LARGE_INTEGER now;

    (void)room;
    (void)since_ns;
    QueryPerformanceCounter(&now);
    raw->ticks = now.QuadPart;
    raw->mono_ns = os_mono_ns();
    raw->wall_ns = utc_ns;
    return true;
}

/* ---- records that are made up ---- */

static _Thread_local int64_t made_begun_ns;

/* Extended items with the schema, then the provider's name: size, type, more of them, bytes. */
static size_t made_item(uint8_t *p, unsigned type, bool more, const void *data, size_t n)
{
    size_t size = (8 + n + 7) / 8 * 8;
    const uint16_t head[4] = {(uint16_t)size, (uint16_t)type, more, (uint16_t)n};

    memset(p, 0, size);
    memcpy(p, head, sizeof head);
    memcpy(p + 8, data, n);
    return size;
}

static bool made_next(uint64_t n, struct raw_event *raw)
{
    static const char schema[] = "\x0d\0\0Tick\0seq\0\x0a", loud[] = "\x11\0procfleet-Loud",
                      quiet[] = "\x12\0procfleet-Quiet"; /* with the NUL that is not written */
    static _Thread_local uint8_t ext[128];               /* each session is read by a thread */
    static _Thread_local uint64_t seq;
    static _Thread_local uint8_t payload[12];
    bool is_quiet = script.made_quiet && n % script.made_quiet == 0;
    LARGE_INTEGER frequency;

    if (script.made_count && n >= script.made_count) {
        return false;
    }
    QueryPerformanceFrequency(&frequency);
    made_begun_ns = n ? made_begun_ns : os_mono_ns();
    seq = script.made_first + n;
    raw->form = RAW_MANIFEST;
    memset(raw->guid, is_quiet ? 0x22 : 0x11, sizeof raw->guid);
    raw->level = 4;
    raw->keyword = 1;
    raw->pid = os_process_id();
    raw->tid = 1;
    raw->ext = ext;
    raw->ext_n = made_item(ext, 11, true, schema, sizeof schema - 1);
    raw->ext_n += made_item(ext + raw->ext_n, 12, false, is_quiet ? quiet : loud,
                            is_quiet ? sizeof quiet : sizeof loud);
    raw->payload = (const uint8_t *)&seq;
    raw->payload_n = sizeof seq;
    if (script.made_registered) {
        static const uint32_t kind = 3;

        memset(raw->guid, 0x33, sizeof raw->guid);
        raw->id = 7;
        raw->version = 1;
        raw->ext = NULL;
        raw->ext_n = 0;
        memcpy(payload, &seq, sizeof seq);
        memcpy(payload + sizeof seq, &kind, sizeof kind);
        raw->payload = payload;
        raw->payload_n = sizeof payload;
    }
    raw->mono_ns = made_begun_ns + (int64_t)(n * UINT64_C(1000000000) / script.made);
    raw->ticks = raw->mono_ns / 100 * (frequency.QuadPart / 1000) / 10000;
    return true;
}

static bool made_as_it_is(struct raw_event *raw, uint8_t *room, int64_t since_ns)
{
    (void)raw;
    (void)room;
    (void)since_ns;
    return true;
}

/* ---- the script ---- */

static const char *const calls[REPLAY_CALLS] = {
    [REPLAY_START] = "fault.start",
    [REPLAY_QUERY] = "fault.query",
    [REPLAY_STOP] = "fault.stop",
    [REPLAY_UPDATE] = "fault.update",
    [REPLAY_FLUSH] = "fault.flush",
    [REPLAY_ENABLE] = "fault.enable",
    [REPLAY_SET_INFO] = "fault.set_info",
    [REPLAY_OPEN] = "fault.open",
    [REPLAY_QUERY_INFO] = "fault.query_info",
};

static bool take_fault(const char *key, const char *value)
{
    for (size_t i = 0; i < REPLAY_CALLS; i++) {
        struct etwreplay_fault *f = &script.replay.faults[i];
        unsigned code;

        if (calls[i] && strcmp(key, calls[i]) == 0) {
            MUST(sscanf(value, "%u,%u,%u", &f->from, &f->times, &code) == 3);
            f->code = code;
            return true;
        }
    }
    return false;
}

static bool take_number(const char *key, const char *value)
{
    struct etwreplay_script *r = &script.replay;
    const struct {
        const char *key;
        unsigned *number;
        bool *flag;
    } rows[] = {
        {"speed", &script.speed, NULL},
        {"delay", &script.delay_ms, NULL},
        {"made", &script.made, NULL},
        {"made_quiet", &script.made_quiet, NULL},
        {"made_first", &script.made_first, NULL},
        {"made_count", &script.made_count, NULL},
        {"made_registered", NULL, &script.made_registered},
        {"tables", NULL, &script.tables},
        {"all", NULL, &script.all},
        {"at_once", NULL, &script.at_once},
        {"flags_refused", &r->flags_refused, NULL},
        {"return_after", &r->return_after, NULL},
        {"stop_after", &r->stop_after, NULL},
        {"lose_every", &r->lose_every, NULL},
        {"filters_refused", NULL, &r->filters_refused},
        {"stuck", NULL, &r->stuck},
        {"lose_told", NULL, &r->lose_told},
        {"more_sessions", NULL, &r->more_sessions},
        {"buffers_lost", &r->buffers_lost, NULL},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (strcmp(key, rows[i].key) == 0) {
            unsigned v = (unsigned)strtoul(value, NULL, 0);

            if (rows[i].number) {
                *rows[i].number = v;
            } else {
                *rows[i].flag = v != 0;
            }
            return true;
        }
    }
    return false;
}

static void take_text(char *text, size_t size, const char *value)
{
    int n = snprintf(text, size, "%s", value);

    MUST(n >= 0 && (size_t)n < size);
}

static void take_line(char *line)
{
    char *value = strchr(line, '=');

    if (!value) {
        return;
    }
    *value++ = '\0';
    value[strcspn(value, "\r\n")] = '\0';
    if (strcmp(line, "recording") == 0) {
        take_text(script.recording, sizeof script.recording, value);
    } else if (strcmp(line, "journal") == 0) {
        take_text(script.journal, sizeof script.journal, value);
    } else if (strcmp(line, "own") == 0) {
        take_text(script.own, sizeof script.own, value);
    } else if (strcmp(line, "left") == 0) {
        take_text(script.left, sizeof script.left, value);
    } else if (strcmp(line, "recorded") == 0) {
        take_text(script.recorded, sizeof script.recorded, value);
    } else if (strcmp(line, "holder") == 0) {
        MUST(script.n_holders < HOLDERS_MAX);
        take_text(script.holders[script.n_holders++], sizeof script.holders[0], value);
    } else if (strcmp(line, "on") == 0) {
        MUST(script.n_on < HOLDERS_MAX);
        take_text(script.on[script.n_on++], sizeof script.on[0], value);
    } else if (strcmp(line, "orphan") == 0) {
        take_text(script.orphan, sizeof script.orphan, value);
    } else if (strcmp(line, "return_code") == 0) {
        script.replay.return_code = strtoul(value, NULL, 0);
    } else if (!take_fault(line, value) && !take_number(line, value)) {
        fprintf(stderr, "sechost: no such key: %s\n", line);
        exit(1);
    }
}

static void read_script(const char *path)
{
    FILE *f = os_fopen(path, "r");
    char line[PATH_BYTES];

    MUST(f != NULL);
    while (fgets(line, sizeof line, f)) {
        take_line(line);
    }
    (void)fclose(f);
}

/* "NAME GUID LEVEL ANY"; the session's name may have blanks. */
static void turn_on(char *text)
{
    char *words[3];
    uint8_t bytes[16];
    ENABLE_TRACE_PARAMETERS none = {.Version = ENABLE_TRACE_PARAMETERS_VERSION_2};
    TRACEHANDLE h;
    GUID guid;

    for (size_t i = 3; i-- > 0;) {
        words[i] = strrchr(text, ' ');
        MUST(words[i] != NULL);
        *words[i]++ = '\0';
    }
    MUST(etw_provider_guid(bytes, words[0], strlen(words[0])) == ERR_OK);
    memcpy(&guid, bytes, sizeof guid);
    h = etwreplay_handle(text);
    MUST(h && api->enable(h, &guid, EVENT_CONTROL_CODE_ENABLE_PROVIDER,
                          (UCHAR)strtoul(words[1], NULL, 0), strtoull(words[2], NULL, 0), 0, 0,
                          &none) == ERROR_SUCCESS);
}

static void begin(void)
{
    static const uint8_t theirs[16] = {1},
                         ours[16] = ETW_GUID(0x6f1b7a52, 0x93d4, 0x4c0e, 0xa1, 0x58, 0x3e, 0x90,
                                             0x27, 0xc4, 0x6b, 0xd1);

    if (script.recording[0]) {
        script.replay.path = script.recording;
        script.replay.read_first = true;
        script.replay.move = script.at_once ? move_to_now : recorded_host_move;
        recorded_host_open(script.recording, script.speed, script.delay_ms);
        script.replay.frequency = recorded_host_frequency();
        if (script.tables && recorded_host_collides()) {
            exit(COLLISION);
        }
    }
    if (script.made) {
        LARGE_INTEGER per_second;

        QueryPerformanceFrequency(&per_second);
        script.replay.frequency = (uint64_t)per_second.QuadPart;
        script.replay.make = made_next;
        script.replay.move = made_as_it_is;
        script.replay.read_first = true;
    }
    script.replay.wants = wants;
    api = etwreplay_begin(&script.replay);
    for (size_t i = 0; i < script.n_holders; i++) {
        etwreplay_add(script.holders[i], theirs, true);
    }
    for (size_t i = 0; i < script.n_on; i++) {
        turn_on(script.on[i]);
    }
    if (script.left[0]) {
        static const uint8_t record[16] =
            ETW_GUID(0x2c1b0f4e, 0x5d70, 0x4f83, 0x9a, 0x41, 0x7e, 0xb2, 0x15, 0x60, 0xd3, 0xa8);

        etwreplay_add(script.left, record, true);
    }
    if (script.orphan[0]) {
        etwreplay_add(script.orphan, ours, true);
    }
    note("begun", "-", 0);
}

/* ---- binding ---- */

/* Where the script is, in our programs; Wine's own may inherit the variable. */
static const char *script_path(void)
{
    WCHAR program[PATH_BYTES];
    DWORD n = GetModuleFileNameW(NULL, program, PATH_BYTES);
    const WCHAR *name = n && n < PATH_BYTES ? wcsrchr(program, L'\\') : NULL;
    bool ours = name && (wcscmp(name, L"\\procfleet-agent.exe") == 0 ||
                         wcscmp(name, L"\\procfleet-etl.exe") == 0);

    return ours ? getenv("PROCFLEET_ETW_SCRIPT") : NULL;
}

static void bind_wine(void)
{
    HMODULE real = LoadLibraryW(L"sechost_real.dll");
    const struct {
        const char *name;
        void *slot;
    } rows[] = {
        {"StartTraceW", &wine.start},
        {"ControlTraceW", &wine.control},
        {"EnableTraceEx2", &wine.enable},
        {"TraceSetInformation", &wine.set_info},
        {"QueryAllTracesW", &wine.list},
        {"OpenTraceW", &wine.open},
        {"ProcessTrace", &wine.process},
        {"CloseTrace", &wine.close},
        {"TraceQueryInformation", &wine.query_info},
        {"EnumerateTraceGuidsEx", &wine_guids},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        FARPROC p = GetProcAddress(real, rows[i].name);

        memcpy(rows[i].slot, &p, sizeof p);
    }
    api = &wine;
}

static BOOL CALLBACK bind_once(INIT_ONCE *init, void *parameter, void **context)
{
    const char *path = script_path();

    (void)init;
    (void)parameter;
    (void)context;
    if (path) {
        read_script(path);
        begin();
    } else {
        bind_wine();
    }
    return TRUE;
}

static const struct etw_api *bound(void)
{
    InitOnceExecuteOnce(&once, bind_once, NULL, NULL);
    return api;
}

/* ---- what the .def file exports under the system's names ---- */

ULONG WINAPI sechost_start(TRACEHANDLE *h, const WCHAR *name, EVENT_TRACE_PROPERTIES *p);
ULONG WINAPI sechost_control(TRACEHANDLE h, const WCHAR *name, EVENT_TRACE_PROPERTIES *p,
                             ULONG what);
ULONG WINAPI sechost_enable(TRACEHANDLE h, const GUID *guid, ULONG code, UCHAR level, ULONGLONG any,
                            ULONGLONG all, ULONG timeout, ENABLE_TRACE_PARAMETERS *p);
ULONG WINAPI sechost_set_info(TRACEHANDLE h, TRACE_INFO_CLASS info, void *p, ULONG n);
ULONG WINAPI sechost_list(EVENT_TRACE_PROPERTIES **out, ULONG max, ULONG *n);
TRACEHANDLE WINAPI sechost_open(EVENT_TRACE_LOGFILEW *log);
ULONG WINAPI sechost_process(TRACEHANDLE *h, ULONG n, FILETIME *from, FILETIME *to);
ULONG WINAPI sechost_close(TRACEHANDLE h);
ULONG WINAPI sechost_query_info(TRACEHANDLE h, TRACE_INFO_CLASS info, void *p, ULONG n, ULONG *got);
ULONG WINAPI sechost_guids(TRACE_QUERY_INFO_CLASS what, void *in, ULONG n, void *out, ULONG size,
                           ULONG *got);

ULONG WINAPI sechost_start(TRACEHANDLE *h, const WCHAR *name, EVENT_TRACE_PROPERTIES *p)
{
    ULONG mode = p->LogFileMode, code = bound()->start(h, name, p);

    if (mode & EVENT_TRACE_REAL_TIME_MODE) {
        note_wide("start", name, code);
    } else {
        note_file("start", name, p, mode, code);
        if (!code && bound() != &wine) {
            write_file(name, p);
        }
    }
    return code;
}

ULONG WINAPI sechost_control(TRACEHANDLE h, const WCHAR *name, EVENT_TRACE_PROPERTIES *p,
                             ULONG what)
{
    const ULONG mode = p->LogFileMode;
    ULONG code = bound()->control(h, name, p, what);

    if (what == EVENT_TRACE_CONTROL_FLUSH && (mode & EVENT_TRACE_BUFFERING_MODE)) {
        note_file("write", name, p, mode, code);
        if (!code && bound() != &wine) {
            write_file(name, p);
        }
    }
    if (what == EVENT_TRACE_CONTROL_STOP || what == EVENT_TRACE_CONTROL_UPDATE) {
        note_wide(what == EVENT_TRACE_CONTROL_STOP ? "stop" : "update", name, code);
    }
    return code;
}

ULONG WINAPI sechost_enable(TRACEHANDLE h, const GUID *guid, ULONG code, UCHAR level, ULONGLONG any,
                            ULONGLONG all, ULONG timeout, ENABLE_TRACE_PARAMETERS *p)
{
    ULONG result = bound()->enable(h, guid, code, level, any, all, timeout, p);

    note(code == EVENT_CONTROL_CODE_DISABLE_PROVIDER ? "disable" : "enable",
         etwreplay_filters()[0] ? etwreplay_filters() : "-", result);
    return result;
}

ULONG WINAPI sechost_set_info(TRACEHANDLE h, TRACE_INFO_CLASS info, void *p, ULONG n)
{
    ULONG code = bound()->set_info(h, info, p, n);

    note(info == TraceStackTracingInfo ? "stacks" : "set_info", "-", code);
    return code;
}

ULONG WINAPI sechost_list(EVENT_TRACE_PROPERTIES **out, ULONG max, ULONG *n)
{
    return bound()->list(out, max, n);
}

TRACEHANDLE WINAPI sechost_open(EVENT_TRACE_LOGFILEW *log)
{
    return bound()->open(log);
}

ULONG WINAPI sechost_process(TRACEHANDLE *h, ULONG n, FILETIME *from, FILETIME *to)
{
    ULONG code;

    if (script.recording[0]) {
        recorded_host_begin();
    }
    code = bound()->process(h, n, from, to);
    note("process", "-", code);
    return code;
}

ULONG WINAPI sechost_close(TRACEHANDLE h)
{
    return bound()->close(h);
}

ULONG WINAPI sechost_query_info(TRACEHANDLE h, TRACE_INFO_CLASS info, void *p, ULONG n, ULONG *got)
{
    return bound()->query_info(h, info, p, n, got);
}

/* Each provider once, however many sessions have it; else of one: one process has registered it. */
static ULONG on_guids(TRACE_QUERY_INFO_CLASS what, const GUID *of, uint8_t *out, ULONG size)
{
    TRACE_PROVIDER_INSTANCE_INFO process = {.Pid = 1};
    TRACE_GUID_INFO head = {.InstanceCount = 1};
    struct etwreplay_on on[HOLDERS_MAX];
    size_t all = etwreplay_turned_on(on, COUNT_OF(on));
    ULONG n = what == TraceGuidQueryList ? 0 : sizeof head + sizeof process;

    for (size_t i = 0; i < all; i++) {
        const TRACE_ENABLE_INFO info = {TRUE, on[i].level, 0,         on[i].logger,
                                        0,    0,           on[i].any, on[i].all};
        const void *p = what == TraceGuidQueryList ? (const void *)&on[i].guid : &info;
        ULONG bytes = what == TraceGuidQueryList ? sizeof on[i].guid : sizeof info;
        bool wanted = !of || memcmp(of, &on[i].guid, sizeof *of) == 0;

        for (size_t k = 0; k < i && !of; k++) {
            wanted = wanted && memcmp(&on[k].guid, &on[i].guid, sizeof *of) != 0;
        }
        if (wanted && n + bytes <= size) {
            memcpy(out + n, p, bytes);
        }
        n += wanted ? bytes : 0;
        process.EnableCount += wanted;
    }
    if (what != TraceGuidQueryList && n <= size) {
        memcpy(out, &head, sizeof head);
        memcpy(out + sizeof head, &process, sizeof process);
    }
    return n;
}

ULONG WINAPI sechost_guids(TRACE_QUERY_INFO_CLASS what, void *in, ULONG n, void *out, ULONG size,
                           ULONG *got)
{
    if (bound() == &wine) {
        return wine_guids(what, in, n, out, size, got);
    }
    *got = on_guids(what, in, out, size);
    return *got <= size ? ERROR_SUCCESS : ERROR_INSUFFICIENT_BUFFER;
}

/* ---- our own provider ---- */

ULONG WINAPI sechost_event_register(const GUID *guid, PENABLECALLBACK on, void *ctx, REGHANDLE *h);
ULONG WINAPI sechost_event_set(REGHANDLE h, int what, void *p, ULONG n);
ULONG WINAPI sechost_event_write(REGHANDLE h, const EVENT_DESCRIPTOR *d, const GUID *activity,
                                 const GUID *related, ULONG n, EVENT_DATA_DESCRIPTOR *parts);
ULONG WINAPI sechost_event_unregister(REGHANDLE h);

ULONG WINAPI sechost_event_register(const GUID *guid, PENABLECALLBACK on, void *ctx, REGHANDLE *h)
{
    *h = 1;
    (void)bound();
    if (script.own[0]) {
        on(guid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 0, 0, NULL, ctx);
    }
    return ERROR_SUCCESS;
}

ULONG WINAPI sechost_event_set(REGHANDLE h, int what, void *p, ULONG n)
{
    return h == 1 && what == 2 && n > 2 && ((uint8_t *)p)[0] == n ? ERROR_SUCCESS
                                                                  : ERROR_INVALID_PARAMETER;
}

ULONG WINAPI sechost_event_write(REGHANDLE h, const EVENT_DESCRIPTOR *d, const GUID *activity,
                                 const GUID *related, ULONG n, EVENT_DATA_DESCRIPTOR *parts)
{
    static const ULONG types[] = {2, 1, 0};
    FILE *f = script.own[0] ? os_fopen(script.own, "a") : NULL;

    (void)activity, (void)related;
    MUST(h == 1 && n == COUNT_OF(types) && d->Channel == 11);
    MUST(f != NULL); /* nothing is written while nobody listens */
    (void)fprintf(f, "%u %llu %u", d->Level, d->Keyword, d->Opcode);
    for (ULONG i = 0; i < n; i++) {
        MUST(parts[i].Reserved == types[i]);
        (void)fputc(' ', f);
        for (ULONG k = 0; k < parts[i].Size; k++) {
            (void)fprintf(f, "%02x", ((const uint8_t *)(uintptr_t)parts[i].Ptr)[k]);
        }
    }
    (void)fputc('\n', f);
    (void)fclose(f);
    return ERROR_SUCCESS;
}

ULONG WINAPI sechost_event_unregister(REGHANDLE h)
{
    return h == 1 ? ERROR_SUCCESS : ERROR_INVALID_HANDLE;
}

static bool tables_wanted(void)
{
    (void)bound();
    return script.tables;
}

BOOL WINAPI DllMain(HINSTANCE self, DWORD reason, void *reserved);

BOOL WINAPI DllMain(HINSTANCE self, DWORD reason, void *reserved)
{
    (void)self;
    (void)reserved;
    if (reason == DLL_PROCESS_ATTACH && script_path()) {
        (void)recorded_host_hook(tables_wanted); /* a program without it has no use for it */
    }
    return TRUE;
}
