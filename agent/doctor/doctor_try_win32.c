/* One trial after the other, each with a session of its own that ends before the next begins: a
 * trial that fails leaves the rest measured. Children are the system's command interpreter with a
 * remark for an argument: they do nothing and end at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/conf/etw_conf.h"
#include "agent/doctor/doctor_facts.h"
#include "agent/doctor/doctor_trial_win32.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

#define PATH_UNITS   512
#define FEW          8
#define MANY         100
#define TABLE_MAX    (64u << 20)
#define CHILD_MS     10000
#define LENGTH_WRONG ((LONG)0xC0000004) /* STATUS_INFO_LENGTH_MISMATCH */
#define CLASS_TABLE  5
#define CLASS_HANDLE 64 /* SystemExtendedHandleInformation */

typedef LONG(WINAPI *query_fn)(ULONG, void *, ULONG, ULONG *);

/* -- tables of the system -- */

uint8_t *doctor_try_table(ULONG class, size_t *n, ULONG *status)
{
    FARPROC p = GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "NtQuerySystemInformation");
    LONG code = LENGTH_WRONG;
    uint8_t *bytes = NULL;
    ULONG room = 1u << 17, got = 0;
    query_fn query;

    memcpy(&query, &p, sizeof query);
    while (p && code == LENGTH_WRONG && room <= TABLE_MAX) {
        mem_free(bytes);
        room *= 2;
        bytes = mem_alloc(room);
        code = bytes ? query(class, bytes, room, &got) : -1;
    }
    *n = got < room ? got : room;
    *status = (ULONG)code;
    if (code != 0) {
        mem_free(bytes);
        return NULL;
    }
    return bytes;
}

static uint8_t *table(ULONG class, size_t *n)
{
    ULONG status;

    return doctor_try_table(class, n, &status);
}

static bool read_table(struct doctor_table *out)
{
    size_t n;
    uint8_t *bytes = table(CLASS_TABLE, &n);
    bool good = bytes && doctor_facts_table(out, bytes, n) == ERR_OK;

    mem_free(bytes);
    return good;
}

static void try_tables(struct doctor_seen *out, int64_t patience_ns)
{
    struct doctor_table first, second;
    int64_t begun_ns = os_mono_ns();

    out->cpus = os_cpu_count();
    if (!read_table(&first)) {
        return;
    }
    os_sleep_ns(patience_ns / 2);
    if (read_table(&second)) {
        out->cycles_ns = os_mono_ns() - begun_ns;
        out->cycles = second.cycles > first.cycles ? second.cycles - first.cycles : 0;
        out->tick_ns = (int64_t)second.tick * 100;
    }
}

struct handle_row {
    void *object;
    uint64_t pid, handle;
    uint32_t access;
    uint16_t trace, type;
    uint32_t attributes, reserved;
};

_Static_assert(sizeof(struct handle_row) == 40, "SYSTEM_HANDLE_TABLE_ENTRY_INFO_EX");

/* Handles of the kind of `self`, a handle of our own process, that mean another one. */
static void count_handles(struct doctor_seen *out, const uint8_t *bytes, size_t n, HANDLE self)
{
    const struct handle_row *rows = (const struct handle_row *)(const void *)(bytes + 16);
    uint64_t count, own = os_process_id();
    int type = -1;

    memcpy(&count, bytes, sizeof count);
    if (n < 16 || count > (n - 16) / sizeof *rows) {
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (rows[i].pid == own && rows[i].handle == (uint64_t)(uintptr_t)self) {
            type = rows[i].type;
        }
    }
    out->handles_known = type >= 0;
    for (uint64_t i = 0; type >= 0 && i < count; i++) {
        if (rows[i].pid == own && rows[i].type == type &&
            GetProcessId((HANDLE)(uintptr_t)rows[i].handle) != own) {
            out->handles++;
        }
    }
}

static void try_handles(struct doctor_seen *out)
{
    HANDLE me = GetCurrentProcess(), self;
    uint8_t *bytes;
    size_t n;

    if (!DuplicateHandle(me, me, me, &self, 0, FALSE, DUPLICATE_SAME_ACCESS)) {
        return;
    }
    bytes = table(CLASS_HANDLE, &n);
    if (bytes) {
        count_handles(out, bytes, n, self);
    }
    mem_free(bytes);
    CloseHandle(self);
}

static void try_names(struct doctor_seen *out, const char *dir)
{
    char *path = os_path_join(dir, "doctor \xd0\xb6 \xe6\x97\xa5.probe");
    uint8_t *p = NULL;
    size_t n = 0;

    if (path && os_exists(dir)) {
        out->path_tried = true;
        out->path_works = os_write_file(path, "x", 1, true) == ERR_OK &&
                          os_read_file(&p, &n, path, 16) == ERR_OK && n == 1 &&
                          os_remove(path) == ERR_OK;
    }
    mem_free(p);
    mem_free(path);
}

/* -- children -- */

bool doctor_try_spawn(PROCESS_INFORMATION *out, unsigned number, bool wait)
{
    STARTUPINFOW how = {.cb = sizeof how};
    WCHAR exe[PATH_UNITS], line[128];
    UINT n = GetSystemDirectoryW(exe, PATH_UNITS);

    if (n == 0 || n + 16 > PATH_UNITS) {
        return false;
    }
    wcscat_s(exe, PATH_UNITS, L"\\cmd.exe");
    /* swprintf would bring a second formatter, 10 KiB of the program */
    (void)_snwprintf(line, 128, L"cmd.exe /d /c rem %hs-%u", TRIAL_MARK, number);
    return CreateProcessW(exe, line, NULL, NULL, FALSE,
                          DETACHED_PROCESS | (wait ? CREATE_SUSPENDED : 0), NULL, NULL, &how, out);
}

uint64_t doctor_try_reap(PROCESS_INFORMATION *p)
{
    ULONG64 cycles = 0;

    ResumeThread(p->hThread); /* of one that runs: nothing happens */
    if (WaitForSingleObject(p->hProcess, CHILD_MS) != WAIT_OBJECT_0) {
        TerminateProcess(p->hProcess, 1); /* ours; it should have ended long ago */
    }
    (void)QueryProcessCycleTime(p->hProcess, &cycles);
    CloseHandle(p->hThread);
    CloseHandle(p->hProcess);
    return cycles;
}

static unsigned run_children(unsigned n)
{
    unsigned started = 0;

    for (unsigned i = 0; i < n; i++) {
        PROCESS_INFORMATION p;

        if (doctor_try_spawn(&p, i, false)) {
            started++;
            (void)doctor_try_reap(&p);
        }
    }
    return started;
}

/* -- trials -- */

static void try_rundown(struct doctor_seen *out, const struct etw_api *api, int64_t patience_ns)
{
    struct doctor_trial_conf conf = {.api = api, .flags = ETW_FLAG_PROCESS, .flush_ms = 200};
    struct doctor_table living = {0};

    for (int once = 0; once < 2; once++) {
        struct errmsg why = {""};
        struct doctor_trial *t;

        conf.once = once;
        if (doctor_trial_begin(&t, &conf, &why) != ERR_OK) {
            out->why = once ? out->why : why;
            return;
        }
        out->reads = true;
        if (doctor_trial_read(t) == ERR_OK) {
            doctor_trial_wait(t, &t->found, 0, patience_ns);
        }
        doctor_trial_end(t);
        if (once) {
            out->told_once = atomic_load(&t->found);
        } else {
            out->told = atomic_load(&t->found);
            out->keys = t->seen.keys;
            out->keys_zero = t->seen.keys_zero;
            out->living = read_table(&living) ? living.n : 0;
        }
        doctor_trial_free(t);
    }
}

/* Asked of the system only after a trace could be opened: elsewhere the call may end the program.
 */
static uint32_t ask(const struct etw_api *api, TRACE_INFO_CLASS what)
{
    TRACE_PROFILE_INTERVAL interval = {0};
    ULONG max = 0, got = 0;

    if (!api->query_info) {
        return 0;
    }
    if (what == TraceMaxLoggersQuery) {
        return api->query_info(0, what, &max, sizeof max, &got) == ERROR_SUCCESS ? max : 0;
    }
    return api->query_info(0, what, &interval, sizeof interval, &got) == ERROR_SUCCESS
               ? interval.Interval
               : 0;
}

static void try_masks(struct doctor_seen *out, const struct etw_api *api)
{
    struct doctor_trial_conf conf = {.api = api, .flags = ETW_FLAG_PROCESS};
    struct doctor_trial *t;

    if (doctor_trial_begin(&t, &conf, NULL) != ERR_OK) {
        return;
    }
    for (unsigned i = 0; i < 4; i++) {
        if (doctor_trial_mask(t, 4u << i) == ERR_OK) {
            out->masks |= 1u << i;
        }
    }
    doctor_trial_free(t);
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void try_delay(struct doctor_seen *out, size_t i, const struct etw_api *api,
                      int64_t patience_ns)
{
    static const unsigned flushes[DOCTOR_DELAYS] = {0, 20, 5};
    struct doctor_trial_conf conf = {.api = api, .flags = ETW_FLAG_PROCESS, .flush_ms = flushes[i]};
    struct doctor_delay *x = &out->delays[i];
    struct doctor_trial *t;

    x->flush_ms = flushes[i];
    if (doctor_trial_begin(&t, &conf, NULL) != ERR_OK) {
        return;
    }
    if (doctor_trial_read(t) == ERR_OK) {
        for (unsigned k = 0; k < FEW && atomic_load(&t->children) >= x->started; k++) {
            x->started += run_children(1);
            doctor_trial_wait(t, &t->children, x->started, patience_ns);
        }
    }
    doctor_trial_end(t);
    x->seen = atomic_load(&t->children);
    if (t->seen.n_delays > 0) {
        qsort(t->seen.delays, t->seen.n_delays, sizeof *t->seen.delays, by_size);
        x->least_ns = t->seen.delays[0];
        x->median_ns = t->seen.delays[t->seen.n_delays / 2];
        x->most_ns = t->seen.delays[t->seen.n_delays - 1];
    }
    out->records += t->seen.records;
    out->backwards += t->seen.backwards;
    doctor_trial_free(t);
}

static void try_children(struct doctor_seen *out, const struct etw_api *api, unsigned n,
                         int64_t patience_ns)
{
    struct doctor_trial_conf conf = {.api = api, .flags = ETW_FLAG_PROCESS, .flush_ms = 100};
    struct doctor_trial *t;

    if (doctor_trial_begin(&t, &conf, NULL) != ERR_OK) {
        return;
    }
    if (doctor_trial_read(t) == ERR_OK) {
        out->children = run_children(n);
        doctor_trial_wait(t, &t->children, out->children, patience_ns);
    }
    doctor_trial_end(t);
    out->children_seen = atomic_load(&t->children);
    out->children_lines = atomic_load(&t->lines);
    doctor_trial_free(t);
}

static void try_manifest(struct doctor_seen *out, const struct etw_api *api, int64_t patience_ns)
{
    struct doctor_trial_conf conf = {.api = api, .manifest = true, .flush_ms = 100};
    PROCESS_INFORMATION p;
    struct doctor_trial *t;

    out->kp_start = out->kp_stop = -1;
    if (doctor_trial_begin(&t, &conf, NULL) != ERR_OK) {
        return;
    }
    if (doctor_try_spawn(&p, 0, true)) {
        t->seen.watched = p.dwProcessId; /* before anybody reads */
        if (doctor_trial_read(t) == ERR_OK) {
            out->end_known = doctor_try_reap(&p);
            doctor_trial_wait(t, &t->stops, 1, patience_ns);
        } else {
            (void)doctor_try_reap(&p);
        }
    }
    doctor_trial_end(t);
    out->end_told = t->seen.watched_cycles;
    out->kp_start = t->seen.start_version;
    out->kp_stop = t->seen.stop_version;
    doctor_trial_free(t);
}

/* Nobody reads for a while and two small buffers are full at once. */
static void try_loss(struct doctor_seen *out, const struct etw_api *api, int64_t patience_ns)
{
    struct doctor_trial_conf conf = {
        .api = api, .flags = ETW_FLAG_PROCESS | ETW_FLAG_THREAD | ETW_FLAG_CSWITCH, .small = true};
    struct doctor_trial *t;

    if (doctor_trial_begin(&t, &conf, NULL) != ERR_OK) {
        return;
    }
    out->forced = true;
    (void)run_children(FEW);
    os_sleep_ns(patience_ns / 2);
    if (doctor_trial_read(t) == ERR_OK) {
        doctor_trial_wait(t, &t->found, 0, patience_ns / 2);
    }
    doctor_trial_end(t);
    out->counted_events = t->totals.events_lost;
    out->counted_buffers = t->totals.buffers_lost;
    out->told_events = t->seen.lost_events;
    out->told_buffers = t->seen.lost_buffers;
    doctor_trial_free(t);
}

static void try_switches(struct doctor_seen *out, const struct etw_api *api, int64_t patience_ns)
{
    struct doctor_trial_conf conf = {.api = api,
                                     .flags = ETW_FLAG_PROCESS | ETW_FLAG_THREAD | ETW_FLAG_CSWITCH,
                                     .flush_ms = 100};
    int64_t begun_ns = os_mono_ns();
    struct doctor_trial *t;

    if (doctor_trial_begin(&t, &conf, NULL) != ERR_OK) {
        return;
    }
    if (doctor_trial_read(t) == ERR_OK) {
        (void)run_children(FEW);
        doctor_trial_wait(t, &t->found, 0, patience_ns);
    }
    doctor_trial_end(t);
    out->switches_ns = os_mono_ns() - begun_ns;
    out->switches = t->seen.records;
    out->switches_lost = t->totals.events_lost;
    doctor_trial_free(t);
}

static void try_sessions(struct doctor_seen *out, const struct etw_api *api, unsigned children,
                         int64_t patience_ns)
{
    try_rundown(out, api, patience_ns);
    if (!out->reads) {
        return;
    }
    out->loggers = ask(api, TraceMaxLoggersQuery);
    out->interval_before = ask(api, TraceSampledProfileIntervalInfo);
    try_masks(out, api);
    try_manifest(out, api, patience_ns);
    for (size_t i = 0; i < DOCTOR_DELAYS; i++) {
        try_delay(out, i, api, patience_ns);
    }
    try_children(out, api, children, patience_ns);
    try_loss(out, api, patience_ns);
    try_switches(out, api, patience_ns);
    out->interval_after = ask(api, TraceSampledProfileIntervalInfo);
}

void doctor_try_with(struct doctor_seen *out, const struct etw_api *api, const char *dir,
                     unsigned children, int64_t patience_ns)
{
    try_sessions(out, api, children, patience_ns);
    try_tables(out, patience_ns);
    try_handles(out);
    try_names(out, dir);
    out->cpu_ns = os_cpu_ns();
    out->resident = os_resident_bytes();
}

void doctor_try(struct doctor_seen *out, const char *dir, int64_t patience_ns)
{
    struct etw_api api;

    memset(out, 0, sizeof *out);
    if (etw_api_load(&api, &out->why) == ERR_OK) {
        doctor_try_with(out, &api, dir, MANY, patience_ns);
    }
}
