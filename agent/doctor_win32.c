/* What only a real Windows machine can confirm is tried here as far as it can be without
 * collecting, so that one run on a new host tells. A trace session of a name of our own is started
 * and stopped at once; nothing else is touched. The calls that abort the process under Wine
 * (TDH, TraceQueryInformation) are not made. */
#include <stdio.h>
#include <string.h>

#include "agent/doctor_host.h"
#include "agent/source/etw_api.h"
#include "agent/source/etw_ctl.h"
#include "common/clk.h"
#include "common/mem.h"
#include "common/os.h"
#include "common/win32.h"

#define PATH_UNITS   4096
#define ACL_MAX      (64u << 10)
#define TABLE_MAX    (64u << 20)
#define BUILD_OLDEST 14393 /* Windows 10 1607, Server 2016 */
#define SESSIONS_MAX 64
#define NAME_UNITS   1024
#define SESSION_NAME "procfleet-doctor"
#define RIGHTS_FIX                                                                       \
    "run the service as LocalSystem, or put its account into Performance Log Users and " \
    "grant it 'Profile system performance'; see docs/windows.md"
#define LENGTH_WRONG ((LONG)0xC0000004) /* STATUS_INFO_LENGTH_MISMATCH */

/* -- system -- */

static FARPROC ntdll(const char *name)
{
    HMODULE module = GetModuleHandleW(L"ntdll.dll");

    return module ? GetProcAddress(module, name) : NULL;
}

static bool is_wine(void)
{
    return ntdll("wine_get_version") != NULL;
}

static void check_build(struct doctor *d)
{
    LONG(WINAPI * get)(OSVERSIONINFOW *);
    OSVERSIONINFOW v = {.dwOSVersionInfoSize = sizeof v};
    FARPROC p = ntdll("RtlGetVersion");

    memcpy(&get, &p, sizeof get);
    if (!p || get(&v) != 0) {
        doctor_say(d, "system.build", DOCTOR_SKIPPED, "", "the system does not tell its version");
    } else if (is_wine()) {
        doctor_say(d, "system.build", DOCTOR_SKIPPED, "",
                   "this is Wine, which says %lu.%lu.%lu: only processes are seen, without events",
                   v.dwMajorVersion, v.dwMinorVersion, v.dwBuildNumber);
    } else if (v.dwBuildNumber < BUILD_OLDEST) {
        doctor_say(d, "system.build", DOCTOR_WARNING,
                   "Windows 10 (1607), Server 2016 or newer is what this agent is made for",
                   "Windows %lu.%lu.%lu is older than any this agent was made for",
                   v.dwMajorVersion, v.dwMinorVersion, v.dwBuildNumber);
    } else {
        doctor_say(d, "system.build", DOCTOR_OK, "", "Windows %lu.%lu.%lu", v.dwMajorVersion,
                   v.dwMinorVersion, v.dwBuildNumber);
    }
}

/* -- rights -- */

static bool is_member(WELL_KNOWN_SID_TYPE group)
{
    BYTE sid[SECURITY_MAX_SID_SIZE];
    DWORD n = sizeof sid;
    BOOL member = FALSE;

    return CreateWellKnownSid(group, NULL, sid, &n) && CheckTokenMembership(NULL, sid, &member) &&
           member;
}

static bool has_privilege(const WCHAR *name)
{
    BYTE bytes[4096];
    TOKEN_PRIVILEGES *all = (TOKEN_PRIVILEGES *)(void *)bytes;
    bool found = false;
    HANDLE token;
    LUID wanted;
    DWORD n;

    if (!LookupPrivilegeValueW(NULL, name, &wanted) ||
        !OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token)) {
        return false;
    }
    if (GetTokenInformation(token, TokenPrivileges, bytes, sizeof bytes, &n)) {
        for (DWORD i = 0; i < all->PrivilegeCount && !found; i++) {
            found = all->Privileges[i].Luid.LowPart == wanted.LowPart &&
                    all->Privileges[i].Luid.HighPart == wanted.HighPart;
        }
    }
    CloseHandle(token);
    return found;
}

static void check_rights(struct doctor *d)
{
    bool admin = is_member(WinBuiltinAdministratorsSid) || is_member(WinLocalSystemSid);
    bool log_users = is_member(WinBuiltinPerfLoggingUsersSid);
    bool profile = has_privilege(L"SeSystemProfilePrivilege");
    bool enough = admin || (log_users && profile);

    doctor_say(d, "rights.events", enough ? DOCTOR_OK : DOCTOR_WARNING, enough ? "" : RIGHTS_FIX,
               "administrator or LocalSystem: %s; Performance Log Users: %s; right to profile the "
               "system: %s%s",
               admin ? "yes" : "no", log_users ? "yes" : "no", profile ? "yes" : "no",
               enough ? "" : "; starts and ends will be found by comparison only");
}

/* -- the key -- */

/* Whether an entry lets everybody, every user or every authenticated one read. */
static bool lets_others_read(const ACCESS_ALLOWED_ACE *ace)
{
    static const WELL_KNOWN_SID_TYPE others[] = {WinWorldSid, WinAuthenticatedUserSid,
                                                 WinBuiltinUsersSid, WinBuiltinGuestsSid,
                                                 WinInteractiveSid};

    if (ace->Header.AceType != ACCESS_ALLOWED_ACE_TYPE ||
        !(ace->Mask & (FILE_READ_DATA | GENERIC_READ | GENERIC_ALL))) {
        return false;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (IsWellKnownSid((PSID)(void *)&ace->SidStart, others[i])) {
            return true;
        }
    }
    return false;
}

static enum err judge(SECURITY_DESCRIPTOR *sd)
{
    BOOL present, defaulted;
    ACL *acl = NULL;
    void *ace;

    if (!GetSecurityDescriptorDacl(sd, &present, &acl, &defaulted)) {
        return ERR_IO;
    }
    if (!present || !acl) {
        return ERR_ACCESS; /* no list: everybody may */
    }
    for (DWORD i = 0; i < acl->AceCount; i++) {
        if (GetAce(acl, i, &ace) && lets_others_read(ace)) {
            return ERR_ACCESS;
        }
    }
    return ERR_OK;
}

enum err doctor_key_rights(const char *path)
{
    WCHAR wide[PATH_UNITS];
    SECURITY_DESCRIPTOR *sd;
    enum err e = ERR_ACCESS;
    DWORD n = 0;

    if (!os_exists(path)) {
        return ERR_NOTFOUND;
    }
    if (!MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, PATH_UNITS)) {
        return ERR_INVALID;
    }
    (void)GetFileSecurityW(wide, DACL_SECURITY_INFORMATION, NULL, 0, &n);
    if (n == 0 || n > ACL_MAX) {
        return ERR_IO;
    }
    sd = mem_zalloc(n);
    if (!sd) {
        return ERR_NOMEM;
    }
    if (GetFileSecurityW(wide, DACL_SECURITY_INFORMATION, sd, n, &n)) {
        e = judge(sd);
    }
    mem_free(sd);
    return e;
}

/* -- event tracing -- */

struct block {
    EVENT_TRACE_PROPERTIES p;
    WCHAR logger[NAME_UNITS], file[NAME_UNITS];
};

static void narrow(char *text, int size, const WCHAR *w)
{
    if (!WideCharToMultiByte(CP_UTF8, 0, w, -1, text, size, NULL, NULL)) {
        text[0] = '\0';
    }
}

/* Who holds the system loggers, and whether a session of ours is there. */
static void say_sessions(struct doctor *d, const struct block *blocks, ULONG n)
{
    char holders[400] = "", name[200];
    bool ours = false;
    unsigned loggers = 0;

    for (ULONG i = 0; i < n; i++) {
        size_t used = strlen(holders);

        narrow(name, sizeof name, blocks[i].logger);
        ours = ours || strncmp(name, "procfleet", 9) == 0;
        if (blocks[i].p.LogFileMode & EVENT_TRACE_SYSTEM_LOGGER_MODE) {
            loggers++;
            (void)snprintf(holders + used, sizeof holders - used, "%s%s", used ? ", " : " (", name);
        }
    }
    doctor_say(d, "etw.sessions", loggers >= 8 || n >= SESSIONS_MAX ? DOCTOR_WARNING : DOCTOR_OK,
               loggers >= 8 || n >= SESSIONS_MAX
                   ? "stop one that is not needed: logman stop NAME -ets"
                   : "",
               "%lu sessions, %u of 8 system loggers%s%s; ours among them: %s", n, loggers, holders,
               holders[0] ? ")" : "", ours ? "yes" : "no");
}

static void check_sessions(struct doctor *d, const struct etw_api *api)
{
    struct block *blocks = mem_array(SESSIONS_MAX, sizeof *blocks);
    EVENT_TRACE_PROPERTIES *list[SESSIONS_MAX];
    struct errmsg why = {""};
    ULONG n = 0, code;

    if (!blocks) {
        doctor_say(d, "etw.sessions", DOCTOR_SKIPPED, "", "out of memory");
        return;
    }
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        memset(&blocks[i], 0, sizeof blocks[i]);
        blocks[i].p.Wnode.BufferSize = sizeof blocks[i];
        blocks[i].p.LoggerNameOffset = offsetof(struct block, logger);
        blocks[i].p.LogFileNameOffset = offsetof(struct block, file);
        list[i] = &blocks[i].p;
    }
    code = api->list(list, SESSIONS_MAX, &n);
    if (etw_ctl_error(&why, "listing", "sessions", code)) {
        doctor_say(d, "etw.sessions", DOCTOR_WARNING, RIGHTS_FIX, "%s", why.text);
    } else {
        say_sessions(d, blocks, n < SESSIONS_MAX ? n : SESSIONS_MAX);
    }
    mem_free(blocks);
}

static void WINAPI on_record(EVENT_RECORD *record)
{
    (void)record; /* nobody processes: it is never called */
}

/* Whether what the session delivers may be read. */
static enum err try_reading(const struct etw_api *api, struct errmsg *why)
{
    WCHAR name[] = L"" SESSION_NAME;
    EVENT_TRACE_LOGFILEW log = {.LoggerName = name,
                                .ProcessTraceMode = PROCESS_TRACE_MODE_REAL_TIME |
                                                    PROCESS_TRACE_MODE_EVENT_RECORD |
                                                    PROCESS_TRACE_MODE_RAW_TIMESTAMP,
                                .EventRecordCallback = on_record};
    TRACEHANDLE handle = api->open(&log);

    if (handle == INVALID_PROCESSTRACE_HANDLE) {
        return etw_ctl_error(why, "reading", SESSION_NAME, GetLastError());
    }
    (void)api->close(handle);
    return ERR_OK;
}

static void check_session(struct doctor *d, const struct etw_api *api)
{
    struct etw_session_conf conf = {.name = SESSION_NAME,
                                    .guid = {0x3a, 0x91, 0x0e, 0x5c, 0x77, 0x24, 0x4b, 0x46, 0x9d,
                                             0x31, 0xc2, 0x08, 0x6f, 0x1b, 0xd4, 0xe9},
                                    .kernel = true,
                                    .one_stream = true,
                                    .buffer_kb = 64,
                                    .min_buffers = 4,
                                    .max_buffers = 8,
                                    .pool_mib = 8,
                                    .flush_s = 1};
    struct etw_ctl *session = NULL;
    struct errmsg why = {""};
    enum err e = etw_ctl_open(&session, api, &conf, &why);

    if (!e) {
        e = etw_ctl_start(session, &why);
    }
    if (!e) {
        e = try_reading(api, &why);
        err_ignore(etw_ctl_stop(session, NULL));
    }
    etw_ctl_close(session);
    if (e) {
        doctor_say(d, "etw.session", DOCTOR_WARNING, RIGHTS_FIX,
                   "a system trace session cannot be had, processes are polled: %s",
                   why.text[0] ? why.text : err_text(e));
    } else {
        doctor_say(d, "etw.session", DOCTOR_OK, "",
                   "a system trace session was started, opened for reading and stopped");
    }
}

static void check_events(struct doctor *d)
{
    struct etw_api api;
    struct errmsg why = {""};

    if (etw_api_load(&api, &why)) {
        doctor_say(d, "etw.functions", DOCTOR_WARNING, "none: processes are polled", "%s",
                   why.text);
        return;
    }
    check_sessions(d, &api);
    check_session(d, &api);
}

/* -- the bulk tables of processes -- */

typedef LONG(WINAPI *query_fn)(ULONG, void *, ULONG, ULONG *);

static void check_table(struct doctor *d, query_fn query, ULONG class, bool needed)
{
    ULONG room = 1u << 16, got = 0;
    LONG status = LENGTH_WRONG;
    int64_t took_ns = 0;
    char check[32];

    for (; status == LENGTH_WRONG && room <= TABLE_MAX; room *= 2) {
        void *p = mem_alloc(room);
        int64_t begun_ns = os_mono_ns();

        status = p ? query(class, p, room, &got) : status;
        took_ns = os_mono_ns() - begun_ns;
        mem_free(p);
    }
    (void)snprintf(check, sizeof check, "tables.%lu", class);
    if (status == 0) {
        doctor_say(d, check, DOCTOR_OK, "", "%lu bytes in %lld us", got,
                   (long long)(took_ns / CLK_US));
    } else {
        doctor_say(d, check, needed ? DOCTOR_FAILED : DOCTOR_SKIPPED,
                   needed ? "without this table the agent sees nothing: report the system's version"
                          : "",
                   "not available here (status %#lx)%s", (unsigned long)status,
                   needed ? "" : "; its columns are absent");
    }
}

static void check_tables(struct doctor *d)
{
    FARPROC p = ntdll("NtQuerySystemInformation");
    query_fn query;

    memcpy(&query, &p, sizeof query);
    if (p) {
        check_table(d, query, 5, true);
        check_table(d, query, 57, false);
        check_table(d, query, 148, false);
    }
}

/* -- what nobody has confirmed yet -- */

static const char *const facts[] = {
    "the rundown of living processes arrives, and agrees with the table",
    "group masks, versions of kernel events, start keys",
    "records of lost events agree with the counters",
    "delay from a process's start to its event",
    "command lines of 100 short-lived children are all seen",
    "cycles, and totals at exit, agree with the table",
    "protected processes are never opened",
    "service: recovery after a crash, start at boot, stop within 4 s",
    "own CPU time and memory over 72 h",
};

void doctor_host(struct doctor *d)
{
    check_build(d);
    check_rights(d);
    check_events(d);
    check_tables(d);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        doctor_say(d, "unverified", DOCTOR_SKIPPED, "", "not tried by this version: %s", facts[i]);
    }
}
