/* The service manager gives us 30 s to say that we start, and kills nobody who says at once that he
 * runs: RUNNING is reported before anything is opened, since all of it tries again by itself. The
 * manager's thread only sets flags; the agent runs on ServiceMain's. A user's logoff is told to
 * console handlers of services too, which is why service mode installs none
 * (agent/cmd/agent_cmd.c). */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/service/service.h"
#include "agent/service/service_account_win32.h"
#include "agent/service/stop_timer_win32.h"
#include "common/base/clk.h"
#include "common/base/err.h"
#include "common/os/os.h"
#include "common/os/os_owner.h"
#include "common/os/win32.h"

#define PATH_UNITS    4096
#define ACCOUNT_UNITS 256
#define CONFIG_BYTES  8192 /* the most a service's configuration takes */
#define WAIT_NS       (15 * CLK_S)
#define LOOK_NS       (50 * CLK_MS)
#define LAST_NS       (1 * CLK_S)
#define HINT_MS       (SERVICE_STOP_MS + 2000)
#define EVENT_PLAIN   1 /* id of all our lines in the event log */
#define EVENT_KEY     L"SYSTEM\\CurrentControlSet\\Services\\EventLog\\Application\\" SERVICE_NAME
/* A file of every Windows whose messages 1 to 1000 are the text alone. */
#define EVENT_TEXTS  L"%SystemRoot%\\System32\\EventCreate.exe"
#define DISPLAY_NAME L"procfleet agent"

static const WCHAR service_name[] = L"" SERVICE_NAME;

/* -- errors and handles -- */

static enum err failed(struct errmsg *why, const char *what, DWORD code)
{
    static const struct {
        DWORD code;
        enum err e;
        const char *text;
    } codes[] = {
        {ERROR_ACCESS_DENIED, ERR_ACCESS, "access denied; run this as an administrator"},
        {ERROR_SERVICE_DOES_NOT_EXIST, ERR_NOTFOUND,
         "the service is not installed; 'procfleet-agent service install --config FILE' does it"},
        {ERROR_SERVICE_EXISTS, ERR_EXISTS,
         "the service is installed already; 'procfleet-agent service uninstall' removes it"},
        {ERROR_DUPLICATE_SERVICE_NAME, ERR_EXISTS, "another service has this name"},
        {ERROR_SERVICE_MARKED_FOR_DELETE, ERR_EXISTS,
         "the old service is not gone yet; close services.msc and try again"},
        {ERROR_INVALID_SERVICE_ACCOUNT, ERR_INVALID, "there is no such account"},
        {ERROR_INVALID_NAME, ERR_INVALID, "the name is not allowed"},
        {ERROR_SERVICE_DISABLED, ERR_ACCESS, "the service is disabled; enable it in services.msc"},
    };

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (codes[i].code == code) {
            return errmsg_set(why, codes[i].e, "%s: %s", what, codes[i].text);
        }
    }
    return errmsg_set(why, ERR_IO, "%s: error %lu; see net helpmsg %lu", what, code, code);
}

static enum err open_manager(SC_HANDLE *out, DWORD rights, struct errmsg *why)
{
    *out = OpenSCManagerW(NULL, NULL, rights);
    return *out ? ERR_OK : failed(why, "opening the service manager", GetLastError());
}

static enum err open_service(SC_HANDLE *out, DWORD rights, struct errmsg *why)
{
    SC_HANDLE manager;
    enum err e = open_manager(&manager, SC_MANAGER_CONNECT, why);

    if (e) {
        return e;
    }
    *out = OpenServiceW(manager, service_name, rights);
    e = *out ? ERR_OK : failed(why, "opening the service", GetLastError());
    CloseServiceHandle(manager);
    return e;
}

static enum err query(SC_HANDLE service, SERVICE_STATUS_PROCESS *out, struct errmsg *why)
{
    DWORD n;

    return QueryServiceStatusEx(service, SC_STATUS_PROCESS_INFO, (BYTE *)out, sizeof *out, &n)
               ? ERR_OK
               : failed(why, "asking for the service's state", GetLastError());
}

static bool to_wide(WCHAR *out, const char *text)
{
    return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, out, PATH_UNITS) > 0;
}

/* -- install -- */

/* "EXE" service run --config "FILE"; quoted, or a program of another name could be started. */
static enum err command_line(WCHAR *out, const char *config, struct errmsg *why)
{
    WCHAR given[PATH_UNITS], file[PATH_UNITS], exe[PATH_UNITS];
    DWORD n = GetModuleFileNameW(NULL, exe, PATH_UNITS);
    DWORD m = to_wide(given, config) ? GetFullPathNameW(given, PATH_UNITS, file, NULL) : 0;

    if (n == 0 || n >= PATH_UNITS || m == 0 || m >= PATH_UNITS || wcschr(file, L'"') ||
        n + m + 64 > PATH_UNITS) {
        return errmsg_set(why, ERR_INVALID, "--config %s: not a path that can be used", config);
    }
    wcscpy_s(out, PATH_UNITS, L"\"");
    wcscat_s(out, PATH_UNITS, exe);
    wcscat_s(out, PATH_UNITS, L"\" service run --config \"");
    wcscat_s(out, PATH_UNITS, file);
    wcscat_s(out, PATH_UNITS, L"\"");
    return ERR_OK;
}

/* Without it the event viewer adds to each of our lines that it does not know them. */
static void register_events(struct buf *notes)
{
    static const WCHAR file[] = EVENT_TEXTS;
    const DWORD types = EVENTLOG_ERROR_TYPE | EVENTLOG_WARNING_TYPE | EVENTLOG_INFORMATION_TYPE;
    HKEY key;
    LONG code =
        RegCreateKeyExW(HKEY_LOCAL_MACHINE, EVENT_KEY, 0, NULL, 0, KEY_SET_VALUE, NULL, &key, NULL);

    if (code == ERROR_SUCCESS) {
        code = RegSetValueExW(key, L"EventMessageFile", 0, REG_EXPAND_SZ, (const BYTE *)file,
                              sizeof file);
        if (code == ERROR_SUCCESS) {
            code = RegSetValueExW(key, L"TypesSupported", 0, REG_DWORD, (const BYTE *)&types,
                                  sizeof types);
        }
        (void)RegCloseKey(key);
    }
    if (code != ERROR_SUCCESS) {
        buf_printf(notes, "the system did not take a source of the event log (error %ld)\n", code);
    }
}

/* All that is used of what the system's own account has; the rest is taken out of the service's
 * token. The last two every service's account has. */
static WCHAR privileges[] =
    L"SeSystemProfilePrivilege\0SeChangeNotifyPrivilege\0SeImpersonatePrivilege\0";

/* What the service can live without: refused, it is a note. `profile`: its account has all of
 * `privileges`, without which the system would not start it. */
static void add_extras(SC_HANDLE service, bool profile, struct buf *notes)
{
    WCHAR text[] =
        L"Watches the processes of this host and reports them to the procfleet collector.";
    SERVICE_DESCRIPTIONW description = {text};
    SC_ACTION actions[] = {
        {SC_ACTION_RESTART, 1000}, {SC_ACTION_RESTART, 5000}, {SC_ACTION_RESTART, 60000}};
    SERVICE_FAILURE_ACTIONSW failure = {
        .dwResetPeriod = 24 * 3600, .cActions = 3, .lpsaActions = actions};
    SERVICE_FAILURE_ACTIONS_FLAG on_exit_code = {TRUE};
    SERVICE_DELAYED_AUTO_START_INFO delayed = {FALSE}; /* of an older version */
    SERVICE_PRESHUTDOWN_INFO preshutdown = {HINT_MS};
    SERVICE_SID_INFO sid = {SERVICE_SID_TYPE_UNRESTRICTED};
    SERVICE_REQUIRED_PRIVILEGES_INFOW required = {profile ? privileges : NULL};
    const struct {
        DWORD level;
        void *info;
        const char *what;
    } rows[] = {
        {SERVICE_CONFIG_DESCRIPTION, &description, "its description"},
        {SERVICE_CONFIG_FAILURE_ACTIONS, &failure, "starting it again after a failure"},
        {SERVICE_CONFIG_FAILURE_ACTIONS_FLAG, &on_exit_code,
         "starting it again after an exit code"},
        {SERVICE_CONFIG_DELAYED_AUTO_START_INFO, &delayed, NULL},
        {SERVICE_CONFIG_PRESHUTDOWN_INFO, &preshutdown, "time to end at shutdown"},
        {SERVICE_CONFIG_SERVICE_SID_INFO, &sid, "an identity of its own"},
        {SERVICE_CONFIG_REQUIRED_PRIVILEGES_INFO, &required,
         profile ? "that it needs few privileges" : NULL},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!ChangeServiceConfig2W(service, rows[i].level, rows[i].info) && rows[i].what) {
            buf_printf(notes, "the system did not take %s (error %lu)\n", rows[i].what,
                       GetLastError());
        }
    }
}

/* What the system will run as itself must be in the hands of administrators alone. */
static enum err check_program(const char *config, struct errmsg *why)
{
    WCHAR exe[PATH_UNITS];
    char path[3 * PATH_UNITS];
    DWORD n = GetModuleFileNameW(NULL, exe, PATH_UNITS);
    enum err e = os_owner_check_file(config, why);

    e = e ? e : os_owner_check_above(config, why);
    if (e || n == 0 || n >= PATH_UNITS ||
        !WideCharToMultiByte(CP_UTF8, 0, exe, -1, path, sizeof path, NULL, NULL)) {
        return e;
    }
    e = os_owner_check_file(path, why);
    return e ? e : os_owner_check_above(path, why);
}

/* What a service runs as, and its command line; both "" when unknown. */
static void config_of(SC_HANDLE service, WCHAR account[ACCOUNT_UNITS], WCHAR command[PATH_UNITS])
{
    BYTE bytes[CONFIG_BYTES];
    QUERY_SERVICE_CONFIGW *config = (QUERY_SERVICE_CONFIGW *)(void *)bytes;
    DWORD n;

    account[0] = command[0] = L'\0';
    if (!QueryServiceConfigW(service, config, sizeof bytes, &n)) {
        return;
    }
    if (config->lpServiceStartName && wcslen(config->lpServiceStartName) < ACCOUNT_UNITS) {
        wcscpy_s(account, ACCOUNT_UNITS, config->lpServiceStartName);
    }
    if (config->lpBinaryPathName && wcslen(config->lpBinaryPathName) < PATH_UNITS) {
        wcscpy_s(command, PATH_UNITS, config->lpBinaryPathName);
    }
}

static bool is_system(const WCHAR *account)
{
    return account[0] == L'\0' || _wcsicmp(account, L"LocalSystem") == 0;
}

/* The new service, or with keep the one that is there, with our command line. */
static enum err create_service(SC_HANDLE *out, SC_HANDLE manager, const WCHAR *command,
                               const WCHAR *who, bool keep, struct errmsg *why)
{
    *out = CreateServiceW(manager, service_name, DISPLAY_NAME, SERVICE_ALL_ACCESS,
                          SERVICE_WIN32_OWN_PROCESS, SERVICE_AUTO_START, SERVICE_ERROR_NORMAL,
                          command, NULL, NULL, NULL, who, NULL);
    if (*out || !keep || GetLastError() != ERROR_SERVICE_EXISTS) {
        return *out ? ERR_OK : failed(why, "installing the service", GetLastError());
    }
    *out = OpenServiceW(manager, service_name, SERVICE_ALL_ACCESS);
    if (!*out) {
        return failed(why, "opening the service", GetLastError());
    }
    if (!ChangeServiceConfigW(*out, SERVICE_WIN32_OWN_PROCESS, SERVICE_NO_CHANGE, SERVICE_NO_CHANGE,
                              command, NULL, NULL, NULL, NULL, NULL, NULL)) {
        enum err e = failed(why, "changing the service", GetLastError());

        CloseServiceHandle(*out);
        return e;
    }
    return ERR_OK;
}

enum err service_install(const struct service_setup *what, struct buf *notes, struct errmsg *why)
{
    WCHAR command[PATH_UNITS], who[PATH_UNITS], account[ACCOUNT_UNITS], ignored[PATH_UNITS];
    SC_HANDLE manager, service;
    enum err e = command_line(command, what->config, why);

    if (!e && what->account && !to_wide(who, what->account)) {
        e = errmsg_set(why, ERR_INVALID, "--account %s: not a name", what->account);
    }
    e = e ? e : check_program(what->config, why);
    if (!e) {
        e = open_manager(&manager, SC_MANAGER_CONNECT | SC_MANAGER_CREATE_SERVICE, why);
    }
    if (e) {
        return e;
    }
    e = create_service(&service, manager, command, what->account ? who : NULL, what->keep, why);
    if (!e) {
        config_of(service, account, ignored);
        register_events(notes);
        add_extras(service,
                   is_system(account) ||
                       service_account_grant(account, what->sessions, what->n_sessions, notes),
                   notes);
        CloseServiceHandle(service);
    }
    CloseServiceHandle(manager);
    return e;
}

enum err service_installed(struct service_installed *out, struct errmsg *why)
{
    static const WCHAR before[] = L"--config \"";
    WCHAR account[ACCOUNT_UNITS], command[PATH_UNITS], *file, *end;
    SC_HANDLE service;
    enum err e = open_service(&service, SERVICE_QUERY_CONFIG, why);

    if (e) {
        return e;
    }
    config_of(service, account, command);
    CloseServiceHandle(service);
    if (is_system(account)) {
        account[0] = L'\0';
    }
    file = wcsstr(command, before);
    file = file ? file + sizeof before / sizeof *before - 1 : command + wcslen(command);
    end = wcschr(file, L'"');
    if (end) {
        *end = L'\0';
    }
    return WideCharToMultiByte(CP_UTF8, 0, account, -1, out->account, sizeof out->account, NULL,
                               NULL) &&
                   WideCharToMultiByte(CP_UTF8, 0, file, -1, out->config, sizeof out->config, NULL,
                                       NULL)
               ? ERR_OK
               : ERR_FULL;
}

/* -- start, stop, status -- */

static enum err ended(const SERVICE_STATUS_PROCESS *s, struct errmsg *why)
{
    return errmsg_set(
        why, ERR_IO,
        "the service ended at once, with error %lu, exit code %lu; its log says why "
        "(log\\agent.log of its state_dir), and 'procfleet-agent doctor --config FILE'",
        s->dwWin32ExitCode, s->dwServiceSpecificExitCode);
}

static enum err wait_for(SC_HANDLE service, DWORD wanted, struct errmsg *why)
{
    int64_t until_ns = os_mono_ns() + WAIT_NS;
    SERVICE_STATUS_PROCESS s;
    enum err e = query(service, &s, why);

    while (!e && s.dwCurrentState != wanted) {
        if (wanted == SERVICE_RUNNING && s.dwCurrentState == SERVICE_STOPPED) {
            return ended(&s, why);
        }
        if (os_mono_ns() > until_ns) {
            return errmsg_set(why, ERR_TIMEOUT, "the service is still in state %lu after %d s",
                              s.dwCurrentState, (int)(WAIT_NS / CLK_S));
        }
        os_sleep_ns(LOOK_NS);
        e = query(service, &s, why);
    }
    return e;
}

/* It tells the service manager at once that it runs, before it has read its key: does it last? */
static enum err wait_whether_it_lasts(SC_HANDLE service, struct errmsg *why)
{
    int64_t until_ns = os_mono_ns() + LAST_NS;
    SERVICE_STATUS_PROCESS s;
    enum err e = query(service, &s, why);

    while (!e && os_mono_ns() < until_ns) {
        if (s.dwCurrentState == SERVICE_STOPPED) {
            return ended(&s, why);
        }
        os_sleep_ns(LOOK_NS);
        e = query(service, &s, why);
    }
    return e;
}

enum err service_start(struct errmsg *why)
{
    SC_HANDLE service;
    enum err e = open_service(&service, SERVICE_START | SERVICE_QUERY_STATUS, why);

    if (e) {
        return e;
    }
    if (!StartServiceW(service, 0, NULL) && GetLastError() != ERROR_SERVICE_ALREADY_RUNNING) {
        e = failed(why, "starting the service", GetLastError());
    }
    if (!e) {
        e = wait_for(service, SERVICE_RUNNING, why);
    }
    if (!e) {
        e = wait_whether_it_lasts(service, why);
    }
    CloseServiceHandle(service);
    return e;
}

/* One that starts or stops just then takes no control: an installer may have told it to stop a
 * moment ago. */
static enum err end(SC_HANDLE service, struct errmsg *why)
{
    int64_t until_ns = os_mono_ns() + WAIT_NS;
    SERVICE_STATUS ignored;

    while (!ControlService(service, SERVICE_CONTROL_STOP, &ignored)) {
        DWORD code = GetLastError();

        if (code == ERROR_SERVICE_NOT_ACTIVE) {
            break;
        }
        if (code != ERROR_SERVICE_CANNOT_ACCEPT_CTRL || os_mono_ns() > until_ns) {
            return failed(why, "stopping the service", code);
        }
        os_sleep_ns(LOOK_NS);
    }
    return wait_for(service, SERVICE_STOPPED, why);
}

enum err service_stop(struct errmsg *why)
{
    SC_HANDLE service;
    enum err e = open_service(&service, SERVICE_STOP | SERVICE_QUERY_STATUS, why);

    if (!e) {
        e = end(service, why);
        CloseServiceHandle(service);
    }
    return e;
}

enum err service_uninstall(const uint8_t (*sessions)[16], size_t n_sessions, struct errmsg *why)
{
    const DWORD rights = SERVICE_STOP | SERVICE_QUERY_STATUS | SERVICE_QUERY_CONFIG | DELETE;
    WCHAR account[ACCOUNT_UNITS], ignored[PATH_UNITS];
    SC_HANDLE service;
    enum err e = open_service(&service, rights, why);

    if (e == ERR_NOTFOUND) {
        return errmsg_set(why, e, "the service is not installed");
    }
    if (e) {
        return e;
    }
    config_of(service, account, ignored);
    e = end(service, why);
    if (!e) { /* while its name still means somebody */
        service_account_revoke(account, sessions, n_sessions, why);
    }
    if (!e && !DeleteService(service)) {
        e = failed(why, "removing the service", GetLastError());
    }
    if (!e) {
        (void)RegDeleteKeyW(HKEY_LOCAL_MACHINE, EVENT_KEY); /* there may be none */
    }
    CloseServiceHandle(service);
    return e;
}

enum err service_status(struct buf *out, bool *running, struct errmsg *why)
{
    static const char *const states[] = {
        "in an unknown state", "stopped", "starting", "stopping", "running",
        "continuing",          "pausing", "paused"};
    SERVICE_STATUS_PROCESS s;
    SC_HANDLE service;
    enum err e = open_service(&service, SERVICE_QUERY_STATUS, why);

    if (e) {
        return e;
    }
    e = query(service, &s, why);
    CloseServiceHandle(service);
    if (e) {
        return e;
    }
    *running = s.dwCurrentState == SERVICE_RUNNING;
    buf_put_str(out, states[s.dwCurrentState < 8 ? s.dwCurrentState : 0]);
    if (s.dwProcessId) {
        buf_printf(out, ", process %lu", s.dwProcessId);
    } else if (s.dwWin32ExitCode == ERROR_SERVICE_SPECIFIC_ERROR) {
        buf_printf(out, ", last exit code %lu", s.dwServiceSpecificExitCode);
    } else if (s.dwWin32ExitCode) {
        buf_printf(out, ", last error %lu", s.dwWin32ExitCode);
    }
    return out->bad;
}

/* -- being the service -- */

static struct {
    const struct service_calls *calls;
    SERVICE_STATUS_HANDLE handle;
    LONG stopping;
} self; /* one program is one service */

static void report(DWORD state, DWORD hint_ms, int code)
{
    static LONG steps;
    SERVICE_STATUS s = {
        .dwServiceType = SERVICE_WIN32_OWN_PROCESS, .dwCurrentState = state, .dwWaitHint = hint_ms};

    if (state == SERVICE_RUNNING) {
        s.dwControlsAccepted = SERVICE_ACCEPT_STOP | SERVICE_ACCEPT_PRESHUTDOWN;
    } else if (state != SERVICE_STOPPED) {
        s.dwCheckPoint = (DWORD)InterlockedIncrement(&steps);
    }
    if (code) {
        s.dwWin32ExitCode = ERROR_SERVICE_SPECIFIC_ERROR;
        s.dwServiceSpecificExitCode = (DWORD)code;
    }
    (void)SetServiceStatus(self.handle, &s);
}

static void write_event(WORD type, const char *text)
{
    HANDLE log = RegisterEventSourceW(NULL, service_name);
    WCHAR wide[PATH_UNITS];
    const WCHAR *lines[] = {wide};

    if (log && to_wide(wide, text)) {
        (void)ReportEventW(log, type, 0, EVENT_PLAIN, NULL, 1, 0, lines, NULL);
    }
    if (log) {
        (void)DeregisterEventSource(log);
    }
}

void service_note(enum service_note kind, const char *text)
{
    static const WORD types[] = {EVENTLOG_INFORMATION_TYPE, EVENTLOG_WARNING_TYPE,
                                 EVENTLOG_ERROR_TYPE};

    if (self.handle || kind == SERVICE_ERROR) {
        write_event(types[kind], text);
    }
}

static void on_late(void *unused)
{
    (void)unused;
    self.calls->stop(self.calls->ctx);
}

static struct stop_timer hurry = STOP_TIMER(on_late, NULL);

static DWORD WINAPI on_control(DWORD control, DWORD type, void *data, void *ctx)
{
    (void)type;
    (void)data;
    (void)ctx;
    switch (control) {
    case SERVICE_CONTROL_INTERROGATE:
        return NO_ERROR;
    case SERVICE_CONTROL_STOP:
    case SERVICE_CONTROL_PRESHUTDOWN:
        if (InterlockedExchange(&self.stopping, 1) == 0) {
            report(SERVICE_STOP_PENDING, HINT_MS, 0);
            self.calls->stop(self.calls->ctx);
            stop_timer_start(&hurry, SERVICE_STOP_MS);
        }
        return NO_ERROR;
    default:
        return ERROR_CALL_NOT_IMPLEMENTED;
    }
}

static void WINAPI service_main(DWORD argc, WCHAR **argv)
{
    char text[128];
    int code;

    (void)argc;
    (void)argv;
    self.handle = RegisterServiceCtrlHandlerExW(service_name, on_control, NULL);
    if (!self.handle) {
        return;
    }
    report(SERVICE_START_PENDING, HINT_MS, 0);
    report(SERVICE_RUNNING, 0, 0);
    write_event(EVENTLOG_INFORMATION_TYPE, "The agent was started.");
    code = self.calls->run(self.calls->ctx);
    stop_timer_end(&hurry); /* what it would call goes when service_run returns */
    (void)snprintf(text, sizeof text, "The agent ended with exit code %d%s", code,
                   code ? "; its log says why." : ".");
    write_event(code ? EVENTLOG_ERROR_TYPE : EVENTLOG_INFORMATION_TYPE, text);
    report(SERVICE_STOPPED, 0, code);
}

enum err service_run(const struct service_calls *calls, struct errmsg *why)
{
    WCHAR name[] = L"" SERVICE_NAME;
    const SERVICE_TABLE_ENTRYW table[] = {{name, service_main}, {NULL, NULL}};

    self.calls = calls;
    if (StartServiceCtrlDispatcherW(table)) {
        return ERR_OK;
    }
    if (GetLastError() == ERROR_FAILED_SERVICE_CONTROLLER_CONNECT) {
        return errmsg_set(why, ERR_UNSUPPORTED, "not started by the service manager");
    }
    return failed(why, "becoming the service", GetLastError());
}

enum err service_unit(struct buf *out, const char *config, struct errmsg *why)
{
    (void)out;
    (void)config;
    return errmsg_set(why, ERR_UNSUPPORTED,
                      "units are for Linux; here 'procfleet-agent service install' does it");
}
