/* What only a real Windows machine can confirm is tried here as far as it can be without
 * collecting, so that one run on a new host tells. A trace session of a name of our own is started
 * and stopped at once; nothing else is touched. The calls that abort the process under Wine
 * (TDH, TraceQueryInformation) are not made. */
#include <stdio.h>
#include <string.h>

#include "agent/doctor/doctor.h"
#include "agent/doctor/doctor_dump.h"
#include "agent/doctor/doctor_facts.h"
#include "agent/doctor/doctor_proof.h"
#include "agent/doctor/doctor_trial_win32.h"
#include "agent/source/etw_guid.h"
#include "agent/source/event.h" /* before the names of windows.h */
#include "agent/source/windows/etw_api.h"
#include "agent/source/windows/etw_ctl.h"
#include "agent/source/windows/etw_orphans.h"
#include "agent/source/windows/etw_owner.h"
#include "agent/source/windows/right_win32.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/os/os.h"
#include "common/os/os_owner.h"
#include "common/os/win32.h"

#define TABLE_MAX    (64u << 20)
#define BUILD_OLDEST 14393 /* Windows 10 1607, Server 2016 */
#define SESSIONS_MAX 64
#define NAME_UNITS   1024
#define PATIENCE_NS  (2 * CLK_S)
#define SESSION_GUID \
    ETW_GUID(0x5c0e913a, 0x2477, 0x464b, 0x9d, 0x31, 0xc2, 0x08, 0x6f, 0x1b, 0xd4, 0xe9)
#define SESSION_KP_GUID \
    ETW_GUID(0x1e7a40d6, 0xb83c, 0x4d15, 0x8c, 0x62, 0x09, 0xf7, 0x5d, 0xa1, 0x3b, 0x74)

#define PRIVATE_LOGGERS 6u
#define RIGHTS_FIX                                                                        \
    "run the service as LocalSystem, or let 'procfleet-agent service install --account' " \
    "give its account the group, the right and its place in the access lists of event "   \
    "tracing; see docs/windows.md"
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
        check_result_report(d->all, "system.build", CHECK_RESULT_SKIPPED, "",
                            "the system does not tell its version");
    } else if (is_wine()) {
        check_result_report(
            d->all, "system.build", CHECK_RESULT_SKIPPED, "",
            "this is Wine, which says %lu.%lu.%lu: only processes are seen, without events",
            v.dwMajorVersion, v.dwMinorVersion, v.dwBuildNumber);
    } else if (v.dwBuildNumber < BUILD_OLDEST) {
        check_result_report(
            d->all, "system.build", CHECK_RESULT_WARNING,
            "Windows 10 (1607), Server 2016 or newer is what this agent is made for",
            "Windows %lu.%lu.%lu is older than any this agent was made for", v.dwMajorVersion,
            v.dwMinorVersion, v.dwBuildNumber);
    } else {
        check_result_report(d->all, "system.build", CHECK_RESULT_OK, "", "Windows %lu.%lu.%lu",
                            v.dwMajorVersion, v.dwMinorVersion, v.dwBuildNumber);
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

static bool is_admin(void)
{
    return is_member(WinBuiltinAdministratorsSid) || is_member(WinLocalSystemSid);
}

/* How far tracing went when it was tried. */
struct tracing {
    enum err e;   /* of what failed first */
    bool started; /* a session, and it was opened for reading */
    bool flag;    /* the kernel took a flag for it */
    bool told;    /* and a process that lives was told */
};

/* The rights are what a flag of the kernel says they are: groups and privileges alone do not tell.
 */
static void check_rights(struct doctor *d, const struct tracing *t)
{
    bool refused = !t->flag && (t->e == ERR_ACCESS || t->started);
    bool wine = !t->started && is_wine();

    check_result_report(d->all, "rights.events",
                        t->flag            ? CHECK_RESULT_OK
                        : refused && !wine ? CHECK_RESULT_WARNING
                                           : CHECK_RESULT_SKIPPED,
                        refused && !wine ? RIGHTS_FIX : "",
                        "administrator or LocalSystem: %s; Performance Log Users: %s; right to "
                        "profile the system: %s; %s",
                        is_admin() ? "yes" : "no",
                        is_member(WinBuiltinPerfLoggingUsersSid) ? "yes" : "no",
                        right_win32_profile() == ERR_OK ? "yes" : "no",
                        t->flag            ? "the kernel takes flags from this account"
                        : refused && !wine ? "the kernel takes no flag from this account: starts "
                                             "and ends will be found by comparison only"
                                           : "whether they are enough could not be tried");
}

/* -- the clock -- */

/* Where the time comes from: "NTP", "NT5DS" (the domain), "AllSync", "NoSync". */
static bool time_source(char *text, DWORD size)
{
    static const char key[] = "SYSTEM\\CurrentControlSet\\Services\\W32Time\\Parameters";

    return RegGetValueA(HKEY_LOCAL_MACHINE, key, "Type", RRF_RT_REG_SZ, NULL, text, &size) ==
           ERROR_SUCCESS;
}

/* That the time service rests says nothing: outside of domains it runs for moments only. */
static void check_sync(struct doctor *d)
{
    char from[64] = "";
    bool off;

    if (!time_source(from, sizeof from)) {
        check_result_report(d->all, "clock.sync", CHECK_RESULT_SKIPPED, "",
                            "the system does not say whether the clock is synchronised");
        return;
    }
    off = strcmp(from, "NoSync") == 0;
    check_result_report(
        d->all, "clock.sync", off ? CHECK_RESULT_WARNING : CHECK_RESULT_OK,
        off ? "let the time service synchronise: w32tm /config /syncfromflags:manual "
              "/manualpeerlist:SERVER /update, then net start w32time"
            : "",
        "the time service's source is %s", from);
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

/* Eight sessions may be system loggers; these two names have theirs reserved. */
static bool is_private(const char *name)
{
    return _stricmp(name, "NT Kernel Logger") != 0 &&
           _stricmp(name, "Circular Kernel Context Logger") != 0;
}

/* Who holds the system loggers, and whether a session of ours is there. */
static void say_sessions(struct doctor *d, const struct block *blocks, ULONG n, bool more)
{
    char holders[400] = "", name[200];
    bool ours = false;
    unsigned loggers = 0;

    for (ULONG i = 0; i < n; i++) {
        size_t used = strlen(holders);

        narrow(name, sizeof name, blocks[i].logger);
        ours = ours || strncmp(name, "procfleet", 9) == 0;
        if ((blocks[i].p.LogFileMode & EVENT_TRACE_SYSTEM_LOGGER_MODE) && is_private(name)) {
            loggers++;
            (void)snprintf(holders + used, sizeof holders - used, "%s%s", used ? ", " : " (", name);
        }
    }
    check_result_report(
        d->all, "etw.sessions", loggers >= PRIVATE_LOGGERS ? CHECK_RESULT_WARNING : CHECK_RESULT_OK,
        loggers >= PRIVATE_LOGGERS ? "stop one that is not needed: logman stop NAME -ets" : "",
        "%lu%s %s, %u of %u private system loggers%s%s; ours among them: %s", n,
        more ? " and more" : "", plural(more ? 2 : n, "session", "sessions"), loggers,
        PRIVATE_LOGGERS, holders, holders[0] ? ")" : "", ours ? "yes" : "no");
}

static void check_sessions(struct doctor *d, const struct etw_api *api)
{
    struct block *blocks = mem_array(SESSIONS_MAX, sizeof *blocks);
    EVENT_TRACE_PROPERTIES *list[SESSIONS_MAX];
    struct errmsg why = {""};
    ULONG n = 0, code;
    bool more;

    if (!blocks) {
        check_result_report(d->all, "etw.sessions", CHECK_RESULT_SKIPPED, "", "out of memory");
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
    more = code == ERROR_MORE_DATA;
    if (!more && etw_ctl_error(&why, "listing", "sessions", code)) {
        check_result_report(d->all, "etw.sessions", CHECK_RESULT_WARNING, RIGHTS_FIX, "%s",
                            why.text);
    } else {
        say_sessions(d, blocks, n < SESSIONS_MAX ? n : SESSIONS_MAX, more);
    }
    mem_free(blocks);
}

static const char *fix_of_session(enum err e)
{
    switch (e) {
    case ERR_PROVIDER:
    case ERR_FULL:
        return "stop a session that is not needed: logman stop NAME -ets";
    case ERR_ACCESS:
        if (is_wine()) {
            return "nothing: Wine has no trace sessions, a real Windows has";
        }
        return is_admin() ? "this account has the rights, so something else refuses: look for "
                            "security software that guards event tracing"
                          : RIGHTS_FIX;
    default:
        return "see what the error says; the agent polls until a session can be had";
    }
}

/* A session without a flag passes where tracing is refused; a flag that is taken and tells nobody
 * is what a container does. */
static void try_tracing(struct tracing *out, const struct etw_api *api, struct errmsg *why)
{
    const struct doctor_trial_conf conf = {.api = api, .late = true, .flush_ms = 100};
    struct doctor_trial *t = NULL;

    *out = (struct tracing){.e = doctor_trial_begin(&t, &conf, why)};
    if (!out->e) {
        out->started = true;
        out->e = doctor_trial_read(t);
    }
    if (!out->e) {
        out->e = etw_ctl_flags(t->ctl, EVENT_TRACE_FLAG_PROCESS, why);
        out->flag = !out->e;
    }
    if (!out->e) {
        doctor_trial_wait(t, &t->found, 1, PATIENCE_NS);
        out->told = atomic_load(&t->found) > 0;
    }
    doctor_trial_free(t);
}

static void check_session(struct doctor *d, const struct etw_api *api, struct tracing *t)
{
    struct errmsg why = {""};

    try_tracing(t, api, &why);
    if (t->e) {
        check_result_report(d->all, "etw.session", CHECK_RESULT_WARNING, fix_of_session(t->e),
                            "a system trace session cannot be had, processes are polled: %s",
                            why.text[0] ? why.text : err_text(t->e));
    } else if (!t->told) {
        check_result_report(d->all, "etw.session", CHECK_RESULT_WARNING,
                            "outside of a container, where the kernel takes flags and tells "
                            "nothing, report the system's build",
                            "a system trace session was started and took a flag, but told of no "
                            "process within %d s",
                            (int)(PATIENCE_NS / CLK_S));
    } else {
        check_result_report(d->all, "etw.session", CHECK_RESULT_OK, "",
                            "a system trace session was started, told who lives, and was stopped");
    }
}

static void check_events(struct doctor *d)
{
    struct tracing t = {.e = ERR_UNSUPPORTED};
    struct errmsg why = {""};
    struct etw_api api;

    if (etw_api_load(&api, &why)) {
        check_result_report(d->all, "etw.functions", CHECK_RESULT_WARNING,
                            "none: processes are polled", "%s", why.text);
    } else {
        check_sessions(d, &api);
        check_session(d, &api, &t);
    }
    check_rights(d, &t);
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
        check_result_report(d->all, check, CHECK_RESULT_OK, "", "%lu bytes in %lld us", got,
                            (long long)(took_ns / CLK_US));
    } else {
        check_result_report(
            d->all, check, needed ? CHECK_RESULT_FAILED : CHECK_RESULT_SKIPPED,
            needed ? "without this table the agent sees nothing: report the system's version" : "",
            "not available here (status %#lx)%s", (unsigned long)status,
            needed ? ""
            : class == 148
                ? "; it takes an administrator, LocalSystem or Windows of 2015 on; image "
                  "paths and users come from elsewhere, or are absent"
                : "; its columns are absent");
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

/* -- what a start takes on trust -- */

static void check_trust(struct doctor *d)
{
    struct errmsg why = {""};
    const char *dir = d->conf->state_dir;
    enum err e = os_owner_check(dir, &why), above = e ? ERR_OK : os_owner_check_above(dir, &why);
    char *cause = strchr(why.text, ';');

    if (cause) {
        *cause = '\0';
    }
    check_result_report(
        d->all, "state.trust",
        e       ? CHECK_RESULT_FAILED
        : above ? CHECK_RESULT_WARNING /* a service would not start */
                : CHECK_RESULT_OK,
        cause ? cause + 1 + (cause[1] == ' ') : "", "%s",
        e || above ? why.text : "only administrators and the agent can change what a start reads");
}

void doctor_host(struct doctor *d)
{
    check_build(d);
    check_trust(d);
    check_sync(d);
    check_events(d);
    check_tables(d);
}

static void prove(struct doctor *d)
{
    struct doctor_proof *proof = mem_zalloc(sizeof *proof);
    struct doctor_dump *dump = NULL;
    struct errmsg why = {""};
    enum err e = d->dump ? doctor_dump_open(&dump, d->dump, d->anonymous, &why) : ERR_OK;

    if (proof) {
        doctor_proof_try(proof, d->conf->state_dir, dump, PATIENCE_NS);
        doctor_proof_tell(d, proof);
    }
    e = e ? e : doctor_dump_close(dump, &why);
    if (d->dump) {
        check_result_report(d->all, "fact.dump", e ? CHECK_RESULT_FAILED : CHECK_RESULT_OK, "",
                            e ? "%s" : "tables, records and calls are in %s",
                            e ? why.text : d->dump);
    }
    mem_free(proof);
}

void doctor_host_facts(struct doctor *d)
{
    struct doctor_seen seen;

    if (!d->facts) {
        check_result_report(
            d->all, "facts", CHECK_RESULT_SKIPPED, "",
            "what only a real machine can confirm (rundown, loss, delays, short lives, "
            "totals and more) is tried by doctor --facts");
        return;
    }
    doctor_try(&seen, d->conf->state_dir, PATIENCE_NS);
    doctor_facts_tell(d, &seen);
    prove(d);
}

/* -- sessions left behind -- */

enum err doctor_orphans(struct doctor_orphans *out, const struct etw_conf *conf, bool stop,
                        struct errmsg *why)
{
    struct etw_owner *owner = NULL;
    struct etw_orphans seen = {0};
    struct etw_live_conf ours;
    struct etw_api api;
    enum err e = etw_api_load(&api, why);

    if (e) {
        return e;
    }
    e = etw_owner_take(&owner, why);
    if (e == ERR_BUSY) {
        *out = (struct doctor_orphans){.busy = true};
        return ERR_OK;
    }
    if (e) {
        return e;
    }
    etw_live_conf_make(&ours, conf, false);
    e = etw_orphans_look(&seen, &api, &ours, stop, why);
    etw_owner_give(owner);
    *out = (struct doctor_orphans){.found = seen.found, .stopped = seen.stopped};
    return e;
}

size_t doctor_sessions(uint8_t guids[DOCTOR_SESSIONS][16], const struct etw_conf *conf)
{
    static const uint8_t own[][16] = {SESSION_GUID, SESSION_KP_GUID};
    struct etw_live_conf ours;
    size_t n = 0;

    _Static_assert(ETW_LIVE_SESSIONS + sizeof own / sizeof *own <= DOCTOR_SESSIONS, "room");
    etw_live_conf_make(&ours, conf, false);
    for (size_t i = 0; i < ours.n_sessions; i++) {
        memcpy(guids[n++], ours.sessions[i].session.guid, 16);
    }
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        memcpy(guids[n++], own[i], 16);
    }
    return n;
}
