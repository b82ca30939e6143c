/* What needs no session: the account, the bulk tables, waits, renames, the clock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doctor/doctor_dump.h"
#include "agent/doctor/doctor_proof.h"
#include "agent/doctor/doctor_trial_win32.h"
#include "agent/source/etw_guid.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

#define NAME_UNITS  256
#define TOKEN_BYTES 16384
#define WAITS       40
#define RENAMES     200
#define WRITE_BYTES (8u << 20)
#define DRIFT_PARTS 5 /* of the patience */
#define SYSTEM_TRACE \
    ETW_GUID(0x9e814aad, 0x3204, 0x11d2, 0x9a, 0x82, 0x00, 0x60, 0x08, 0xa8, 0x69, 0x39)

typedef ULONG(WINAPI *access_query_fn)(const GUID *, void *, ULONG *);

static void to_utf8(char *out, size_t size, const WCHAR *text)
{
    if (!WideCharToMultiByte(CP_UTF8, 0, text, -1, out, (int)size, NULL, NULL)) {
        *out = 0;
    }
}

static void append(char *out, size_t size, const char *word)
{
    size_t n = strlen(out);

    (void)snprintf(out + n, size - n, "%s%s", n ? "," : "", word);
}

/* -- the account -- */

static void tell_privileges(struct doctor_proof *out, HANDLE token, uint8_t *room)
{
    const TOKEN_PRIVILEGES *p = (const TOKEN_PRIVILEGES *)(void *)room;
    DWORD got;

    if (!GetTokenInformation(token, TokenPrivileges, room, TOKEN_BYTES, &got)) {
        return;
    }
    for (DWORD i = 0; i < p->PrivilegeCount; i++) {
        LUID id = p->Privileges[i].Luid;
        WCHAR name[NAME_UNITS];
        DWORD n = NAME_UNITS;
        char text[NAME_UNITS];

        if (LookupPrivilegeNameW(NULL, &id, name, &n)) {
            to_utf8(text, sizeof text, name);
            append(out->privileges, sizeof out->privileges,
                   strncmp(text, "Se", 2) == 0 ? text + 2 : text);
        }
    }
}

/* Of the well-known groups only: others name the domain. */
static void tell_groups(struct doctor_proof *out, HANDLE token, uint8_t *room)
{
    static const char known[] = "S-1-5-32-";
    const TOKEN_GROUPS *g = (const TOKEN_GROUPS *)(void *)room;
    DWORD got;

    if (!GetTokenInformation(token, TokenGroups, room, TOKEN_BYTES, &got)) {
        return;
    }
    for (DWORD i = 0; i < g->GroupCount; i++) {
        WCHAR *sid;
        char text[NAME_UNITS];

        if (ConvertSidToStringSidW(g->Groups[i].Sid, &sid)) {
            to_utf8(text, sizeof text, sid);
            LocalFree(sid);
            if (strncmp(text, known, sizeof known - 1) == 0) {
                append(out->groups, sizeof out->groups, text + sizeof known - 1);
            }
        }
    }
}

static void try_provider(struct doctor_proof *out)
{
    static const uint8_t guid[16] = SYSTEM_TRACE;
    HMODULE advapi = GetModuleHandleW(L"advapi32.dll");
    FARPROC p = advapi ? GetProcAddress(advapi, "EventAccessQuery") : NULL;
    access_query_fn query;
    ULONG n = 0;
    GUID g;

    memcpy(&query, &p, sizeof query);
    memcpy(&g, guid, sizeof g);
    out->provider_code = p ? query(&g, NULL, &n) : ERROR_PROC_NOT_FOUND;
    out->provider_bytes = n; /* ERROR_MORE_DATA (234) and the size: it may be read */
}

static void try_account(struct doctor_proof *out, struct doctor_dump *dump)
{
    uint8_t *room = mem_alloc(TOKEN_BYTES);
    TOKEN_ELEVATION elevation = {0};
    WCHAR name[NAME_UNITS];
    DWORD n = NAME_UNITS, got;
    HANDLE token;
    char host[NAME_UNITS];

    if (GetUserNameW(name, &n)) {
        to_utf8(out->user, sizeof out->user, name);
        if (dump) {
            doctor_dump_cover(dump, out->user);
        }
    }
    if (dump && os_host_name(host, sizeof host) == ERR_OK) {
        doctor_dump_cover(dump, host);
    }
    if (room && OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token)) {
        out->account = true;
        (void)GetTokenInformation(token, TokenElevation, &elevation, sizeof elevation, &got);
        out->elevated = elevation.TokenIsElevated != 0;
        tell_privileges(out, token, room);
        tell_groups(out, token, room);
        CloseHandle(token);
    }
    mem_free(room);
}

/* -- what kind of host -- */

static uint32_t registry_number(const char *key, const char *name)
{
    uint32_t value = 0;
    DWORD n = sizeof value;

    return RegGetValueA(HKEY_LOCAL_MACHINE, key, name, RRF_RT_REG_DWORD, NULL, &value, &n) ==
                   ERROR_SUCCESS
               ? value
               : 0;
}

static void try_kind(struct doctor_proof_kind *out)
{
    static const char nt[] = "SOFTWARE\\Microsoft\\Windows NT\\CurrentVersion";
    static const char control[] = "SYSTEM\\CurrentControlSet\\Control";
    static const char fips[] = "SYSTEM\\CurrentControlSet\\Control\\Lsa\\FipsAlgorithmPolicy";
    BYTE sid[SECURITY_MAX_SID_SIZE];
    WCHAR name[NAME_UNITS], domain[NAME_UNITS];
    DWORD n = sizeof sid, name_n = NAME_UNITS, domain_n = NAME_UNITS;
    DWORD size = sizeof out->installation;
    SID_NAME_USE use;

    out->asked = true;
    if (RegGetValueA(HKEY_LOCAL_MACHINE, nt, "InstallationType", RRF_RT_REG_SZ, NULL,
                     out->installation, &size) != ERROR_SUCCESS) {
        out->installation[0] = '\0';
    }
    if (CreateWellKnownSid(WinBuiltinAdministratorsSid, NULL, sid, &n) &&
        LookupAccountSidW(NULL, sid, name, &name_n, domain, &domain_n, &use)) {
        to_utf8(out->administrators, sizeof out->administrators, name);
    }
    out->language = GetSystemDefaultUILanguage();
    out->ansi = GetACP();
    out->oem = GetOEMCP();
    out->container = registry_number(control, "ContainerType");
    out->fips = registry_number(fips, "Enabled") != 0;
    out->lockdown = GetEnvironmentVariableW(L"__PSLockdownPolicy", NULL, 0) > 0;
}

/* -- tables -- */

static uint64_t private_bytes(void)
{
    PROCESS_MEMORY_COUNTERS_EX m = {.cb = sizeof m};

    return GetProcessMemoryInfo(GetCurrentProcess(), (PROCESS_MEMORY_COUNTERS *)(void *)&m,
                                sizeof m)
               ? m.PrivateUsage
               : 0;
}

/* 8 MiB past the cache. */
static void write_through(const char *dir)
{
    char *path = os_path_join(dir, "doctor-disk.probe");
    void *block = VirtualAlloc(NULL, WRITE_BYTES, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE);
    WCHAR wide[MAX_PATH];
    HANDLE file = INVALID_HANDLE_VALUE;
    DWORD done;

    if (path && block && MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, MAX_PATH)) {
        file = CreateFileW(
            wide, GENERIC_WRITE, 0, NULL, CREATE_ALWAYS,
            FILE_FLAG_NO_BUFFERING | FILE_FLAG_WRITE_THROUGH | FILE_FLAG_DELETE_ON_CLOSE, NULL);
    }
    if (file != INVALID_HANDLE_VALUE) {
        (void)WriteFile(file, block, WRITE_BYTES, &done, NULL);
        CloseHandle(file);
    }
    if (block) {
        VirtualFree(block, 0, MEM_RELEASE);
    }
    mem_free(path);
}

static void read_once(struct doctor_proof_table *out, struct doctor_dump *dump)
{
    size_t n;
    uint8_t *bytes = doctor_try_table(out->class, &n, (ULONG *)&out->status);

    if (!bytes) {
        return;
    }
    /* Class 5 has the small threads. */
    if (doctor_proof_read(out, bytes, n, (uintptr_t)bytes, out->class != 5, os_process_id()) !=
        ERR_OK) {
        out->processes = 0;
    }
    doctor_dump_table(dump, out->class, (uintptr_t)bytes, bytes, n);
    mem_free(bytes);
}

static void try_tables(struct doctor_proof *out, const char *dir, struct doctor_dump *dump,
                       int64_t patience_ns)
{
    static const unsigned classes[DOCTOR_PROOF_TABLES] = {5, 57, 148};

    for (size_t i = 0; i < DOCTOR_PROOF_TABLES; i++) {
        struct doctor_proof_table *t = &out->tables[i], first = {.class = classes[i]};
        int64_t begun_ns = os_mono_ns();

        read_once(&first, NULL);
        *t = first;
        if (first.status != 0) {
            continue;
        }
        write_through(dir);
        os_sleep_ns(patience_ns / 8);
        read_once(t, dump);
        t->disk_before = first.disk_after;
        t->cpu_ns = clk_sub(t->cpu_ns, first.cpu_ns);
        t->wall_ns = os_mono_ns() - begun_ns;
        t->private_asked = private_bytes();
    }
}

/* -- waits, renames, clock -- */

static void try_timers(struct doctor_proof *out)
{
    static const int64_t asked[DOCTOR_PROOF_TIMERS] = {CLK_MS, 5 * CLK_MS, 10 * CLK_MS};

    for (size_t i = 0; i < DOCTOR_PROOF_TIMERS; i++) {
        int64_t took[WAITS];

        for (size_t k = 0; k < WAITS; k++) {
            int64_t begun_ns = os_mono_ns();

            os_sleep_ns(asked[i]);
            took[k] = os_mono_ns() - begun_ns;
        }
        out->timers[i].asked_ns = asked[i];
        doctor_proof_spread(&out->timers[i].took, took, WAITS);
    }
}

static void try_renames(struct doctor_proof *out, const char *dir)
{
    char *to = os_path_join(dir, "doctor-rename.probe");
    char *from = os_path_join(dir, "doctor-rename.probe.new");

    for (unsigned i = 0; from && to && os_exists(dir) && i < RENAMES; i++) {
        if (os_write_file(from, "x", 1, true) != ERR_OK) {
            break;
        }
        out->renames++;
        out->renames_failed += os_rename(from, to) != ERR_OK;
    }
    if (from && to) {
        err_ignore(os_remove(to));
        err_ignore(os_remove(from));
    }
    mem_free(from);
    mem_free(to);
}

static void try_clock(struct doctor_proof *out, int64_t patience_ns)
{
    int64_t mono_ns = os_mono_ns(), utc_ns = os_utc_ns();

    os_sleep_ns(DRIFT_PARTS * patience_ns);
    out->drift_over_ns = os_mono_ns() - mono_ns;
    out->drift_ns = clk_sub(clk_sub(os_utc_ns(), utc_ns), out->drift_over_ns);
}

void doctor_proof_host(struct doctor_proof *out, const char *dir, struct doctor_dump *dump,
                       int64_t patience_ns)
{
    WCHAR wide[MAX_PATH + 1];
    char temporary[3 * (MAX_PATH + 1)];

    if (!os_exists(dir) && GetTempPathW(MAX_PATH + 1, wide)) { /* the agent has not run yet */
        to_utf8(temporary, sizeof temporary, wide);
        dir = temporary;
    }
    try_account(out, dump);
    try_provider(out);
    try_kind(&out->kind);
    try_tables(out, dir, dump, patience_ns);
    try_timers(out);
    try_renames(out, dir);
    try_clock(out, patience_ns);
}
