#include "common/os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os_acl_win32.h"
#include "common/os/os_awake.h"
#include "common/os/os_impl_win32.h"
#include "common/os/os_notify.h"
#include "common/os/os_retry_win32.h"
#include "common/os/os_wait_win32.h"
#include "common/os/win32.h"

#define PATH_UNITS OS_WIN32_PATH_UNITS

static enum err err_from_win32(DWORD code)
{
    switch (code) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
        return ERR_NOTFOUND;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS:
        return ERR_EXISTS;
    case ERROR_ACCESS_DENIED:
    case ERROR_PRIVILEGE_NOT_HELD:
        return ERR_ACCESS;
    case ERROR_WRITE_PROTECT:
        return ERR_READONLY;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL:
        return ERR_NOSPACE;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
        return ERR_NOMEM;
    case ERROR_SHARING_VIOLATION:
    case ERROR_LOCK_VIOLATION:
        return ERR_BUSY;
    case ERROR_INVALID_NAME:
    case ERROR_INVALID_PARAMETER:
    case ERROR_FILENAME_EXCED_RANGE:
        return ERR_INVALID;
    default:
        return ERR_IO;
    }
}

static enum err last_error(void)
{
    return err_from_win32(GetLastError());
}

/* UTF-8 to UTF-16; false when it does not fit or is not UTF-8. */
static bool wide(WCHAR *out, int units, const char *utf8)
{
    return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, utf8, -1, out, units) > 0;
}

enum err os_win32_last_error(void)
{
    return last_error();
}

bool os_win32_wide(WCHAR *out, int units, const char *utf8)
{
    return wide(out, units, utf8);
}

/* -- clocks and random -- */

static uint64_t filetime_u64(FILETIME ft)
{
    return (uint64_t)ft.dwHighDateTime << 32 | ft.dwLowDateTime;
}

int64_t os_utc_ns(void)
{
    FILETIME ft;

    GetSystemTimePreciseAsFileTime(&ft);
    return clk_from_filetime(filetime_u64(ft));
}

int64_t os_mono_ns(void)
{
    LARGE_INTEGER now, frequency;

    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&frequency);
    return clk_ticks_to_ns(now.QuadPart, (uint64_t)frequency.QuadPart);
}

int64_t os_awake_ns(void)
{
    ULONGLONG units;

    return QueryUnbiasedInterruptTime(&units) ? (int64_t)units * 100 : os_mono_ns();
}

int64_t os_cpu_ns(void)
{
    FILETIME created, ended, kernel, user;

    if (!GetProcessTimes(GetCurrentProcess(), &created, &ended, &kernel, &user)) {
        return 0;
    }
    return (int64_t)(filetime_u64(kernel) + filetime_u64(user)) * 100;
}

int64_t os_thread_cpu_ns(void)
{
    FILETIME created, ended, kernel, user;

    if (!GetThreadTimes(GetCurrentThread(), &created, &ended, &kernel, &user)) {
        return 0;
    }
    return (int64_t)(filetime_u64(kernel) + filetime_u64(user)) * 100;
}

enum err os_random(void *p, size_t n)
{
    return BCryptGenRandom(NULL, p, (ULONG)n, BCRYPT_USE_SYSTEM_PREFERRED_RNG) == 0 ? ERR_OK
                                                                                    : ERR_IO;
}

void os_sleep_ns(int64_t ns)
{
    if (ns > 0 && !os_wait_win32_sleep(ns)) {
        Sleep((DWORD)((ns + CLK_MS - 1) / CLK_MS));
    }
}

/* -- threads -- */

struct os_thread {
    HANDLE handle;
    void (*run)(void *);
    void *arg;
};

struct os_mutex {
    SRWLOCK lock;
};

struct os_cond {
    CONDITION_VARIABLE cv;
    struct os_mutex *m;
    struct os_wait_win32_list brief; /* those who wait for a moment */
};

static DWORD WINAPI thread_main(void *p)
{
    struct os_thread *t = p;

    t->run(t->arg);
    return 0;
}

enum err os_thread_start(struct os_thread **out, const char *name, void (*run)(void *), void *arg)
{
    struct os_thread *t = mem_zalloc(sizeof *t);

    (void)name;
    if (!t) {
        return ERR_NOMEM;
    }
    t->run = run;
    t->arg = arg;
    t->handle = CreateThread(NULL, 0, thread_main, t, 0, NULL);
    if (!t->handle) {
        mem_free(t);
        return ERR_NOMEM;
    }
    *out = t;
    return ERR_OK;
}

void os_thread_join(struct os_thread *t)
{
    if (t) {
        WaitForSingleObject(t->handle, INFINITE);
        CloseHandle(t->handle);
        mem_free(t);
    }
}

void os_thread_leave(struct os_thread *t)
{
    CloseHandle(t->handle);
    mem_free(t);
}

/* A lower one runs only while no higher one is ready, but for the turn that the system gives
 * every thread that waited for some seconds. One step down already does that among the program's
 * own threads; further ones would put it behind other programs, too. */
enum err os_thread_background(void)
{
    return SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_BELOW_NORMAL) ? ERR_OK
                                                                               : ERR_ACCESS;
}

bool os_thread_is_background(void)
{
    return GetThreadPriority(GetCurrentThread()) == THREAD_PRIORITY_BELOW_NORMAL;
}

enum err os_mutex_create(struct os_mutex **out)
{
    struct os_mutex *m = mem_zalloc(sizeof *m);

    if (!m) {
        return ERR_NOMEM;
    }
    InitializeSRWLock(&m->lock);
    *out = m;
    return ERR_OK;
}

void os_mutex_destroy(struct os_mutex *m)
{
    mem_free(m);
}

void os_mutex_lock(struct os_mutex *m)
{
    AcquireSRWLockExclusive(&m->lock);
}

void os_mutex_unlock(struct os_mutex *m)
{
    ReleaseSRWLockExclusive(&m->lock);
}

enum err os_cond_create(struct os_cond **out, struct os_mutex *m)
{
    struct os_cond *c = mem_zalloc(sizeof *c);

    if (!c) {
        return ERR_NOMEM;
    }
    InitializeConditionVariable(&c->cv);
    c->m = m;
    *out = c;
    return ERR_OK;
}

void os_cond_destroy(struct os_cond *c)
{
    mem_free(c);
}

void os_cond_wait(struct os_cond *c)
{
    SleepConditionVariableSRW(&c->cv, &c->m->lock, INFINITE, 0);
}

enum err os_cond_wait_until(struct os_cond *c, int64_t mono_ns)
{
    int64_t left_ns = mono_ns - os_mono_ns();
    int64_t left_ms = (left_ns + CLK_MS - 1) / CLK_MS;
    DWORD ms = left_ms <= 0 ? 0 : left_ms > 86400000 ? 86400000 : (DWORD)left_ms;

    if (left_ns <= 0 || !os_wait_win32_for(&c->brief, &c->m->lock, left_ns)) {
        if (SleepConditionVariableSRW(&c->cv, &c->m->lock, ms, 0)) {
            return ERR_OK;
        }
    }
    return os_mono_ns() >= mono_ns ? ERR_TIMEOUT : ERR_OK;
}

void os_cond_wake(struct os_cond *c)
{
    WakeConditionVariable(&c->cv);
    os_wait_win32_wake(&c->brief); /* more than one may look and wait again */
}

void os_cond_wake_all(struct os_cond *c)
{
    WakeAllConditionVariable(&c->cv);
    os_wait_win32_wake(&c->brief);
}

/* -- host -- */

enum err os_host_name(char *text, size_t size)
{
    WCHAR name[256];
    DWORD n = 256;

    if (!GetComputerNameExW(ComputerNameDnsHostname, name, &n)) {
        return last_error();
    }
    return WideCharToMultiByte(CP_UTF8, 0, name, -1, text, (int)size, NULL, NULL) > 0 ? ERR_OK
                                                                                      : ERR_FULL;
}

/* What NtQuerySystemInformation(SystemTimeOfDayInformation) gives. */
struct time_of_day {
    int64_t boot_time, current_time, zone_bias;
    uint32_t zone_id, reserved;
    int64_t boot_bias, sleep_bias;
};

_Static_assert(sizeof(struct time_of_day) == 48, "layout of SYSTEM_TIMEOFDAY_INFORMATION");

/* Windows has no boot id of its own: the moment of the start serves as one. Setting the clock moves
 * that moment and adds as much to its bias, so the difference stays what it was at the start
 * (of Windows itself: not verified). */
enum err os_boot_id(uint8_t id[16])
{
    struct time_of_day t;
    uint64_t start;

    if (NtQuerySystemInformation(SystemTimeOfDayInformation, &t, sizeof t, NULL) != 0) {
        return ERR_UNSUPPORTED;
    }
    start = (uint64_t)t.boot_time - (uint64_t)t.boot_bias;
    memset(id, 0, 16);
    for (int i = 0; i < 8; i++) {
        id[i] = (uint8_t)(start >> 8 * i);
    }
    return ERR_OK;
}

unsigned os_cpu_count(void)
{
    DWORD n = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);

    return n ? n : 1;
}

uint64_t os_memory_bytes(void)
{
    MEMORYSTATUSEX m = {.dwLength = sizeof m};

    return GlobalMemoryStatusEx(&m) ? m.ullTotalPhys : 0;
}

uint32_t os_process_id(void)
{
    return GetCurrentProcessId();
}

uint32_t os_listed_id(void)
{
    return os_process_id();
}

int64_t os_resident_bytes(void)
{
    PROCESS_MEMORY_COUNTERS counters = {.cb = sizeof counters};

    return K32GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters)
               ? (int64_t)counters.WorkingSetSize
               : 0;
}

size_t os_open_files_max(void)
{
    return 0; /* handles are not numbered as files are */
}

void os_lean_heap(void)
{
    /* the system's heap gives large blocks back by itself */
}

void os_steady_heap(void)
{
    /* likewise */
}

int64_t os_resident_peak(void)
{
    PROCESS_MEMORY_COUNTERS counters = {.cb = sizeof counters};

    return K32GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters)
               ? (int64_t)counters.PeakWorkingSetSize
               : 0;
}

void os_heap_trim(void)
{
    (void)HeapCompact(GetProcessHeap(), 0);
}

void os_prefer_large_pages(void *p, size_t n)
{
    (void)p; /* large pages need a right that services do not have */
    (void)n;
}

bool os_output_is_pipe(void)
{
    return GetFileType(GetStdHandle(STD_OUTPUT_HANDLE)) == FILE_TYPE_PIPE;
}

size_t os_read_input(void *p, size_t n)
{
    DWORD got = 0;

    return ReadFile(GetStdHandle(STD_INPUT_HANDLE), p, (DWORD)n, &got, NULL) ? got : 0;
}

/* As shellapi.h has it; the library is loaded when it is wanted, since services do without. */
typedef HINSTANCE(WINAPI *shell_execute_fn)(HWND, const WCHAR *, const WCHAR *, const WCHAR *,
                                            const WCHAR *, INT);

enum err os_open_in_browser(const char *path)
{
    HMODULE shell = LoadLibraryExW(L"shell32.dll", NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
    shell_execute_fn execute =
        shell ? (shell_execute_fn)(void (*)(void))GetProcAddress(shell, "ShellExecuteW") : NULL;
    WCHAR wide[MAX_PATH];

    if (!execute) {
        return ERR_UNSUPPORTED;
    }
    if (!os_win32_wide(wide, MAX_PATH, path)) {
        return ERR_IO;
    }
    return (INT_PTR)execute(NULL, L"open", wide, NULL, NULL, SW_SHOWNORMAL) > 32 ? ERR_OK
                                                                                 : ERR_NOTFOUND;
}

FILE *os_stdout_bytes(void)
{
    (void)fflush(stdout);
    (void)_setmode(_fileno(stdout), _O_BINARY);
    return stdout;
}

bool os_is_terminal(int fd)
{
    HANDLE h = GetStdHandle(fd == 0   ? STD_INPUT_HANDLE
                            : fd == 1 ? STD_OUTPUT_HANDLE
                                      : STD_ERROR_HANDLE);
    DWORD mode;

    return GetConsoleMode(h, &mode) != 0;
}

bool os_terminal_vt(void)
{
    HANDLE h = GetStdHandle(STD_OUTPUT_HANDLE);
    DWORD mode;

    return GetConsoleMode(h, &mode) != 0 &&
           SetConsoleMode(h, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING) != 0;
}

unsigned os_terminal_columns(void)
{
    CONSOLE_SCREEN_BUFFER_INFO info;

    if (!GetConsoleScreenBufferInfo(GetStdHandle(STD_OUTPUT_HANDLE), &info)) {
        return 0;
    }
    return (unsigned)(info.srWindow.Right - info.srWindow.Left + 1);
}

static UINT console_was; /* its code page before us; 0: left as it was */

/* The console is the caller's, who writes on in it. */
static void console_restore(void)
{
    (void)SetConsoleOutputCP(console_was);
}

static void console_take_utf8(void)
{
    UINT now = GetConsoleOutputCP();

    if (!console_was && now && now != CP_UTF8 && SetConsoleOutputCP(CP_UTF8)) {
        console_was = now;
        (void)atexit(console_restore);
    }
}

/* The C library's argv is in the ANSI code page; this one is made from the command line as given.
 */
enum err os_args(int *argc, char ***argv)
{
    WCHAR **given, **environment;
    int n, expand = 0, mode = 0;
    char **all;

    console_take_utf8();
    if (__wgetmainargs(&n, &given, &environment, expand, &mode) != 0 || n < 0) {
        return ERR_NOMEM;
    }
    all = mem_array((size_t)n + 1, sizeof *all);
    for (int i = 0; all && i < n; i++) {
        int size = WideCharToMultiByte(CP_UTF8, 0, given[i], -1, NULL, 0, NULL, NULL);

        all[i] = size > 0 ? mem_alloc((size_t)size) : NULL;
        if (!all[i]) {
            return ERR_NOMEM; /* the program ends */
        }
        WideCharToMultiByte(CP_UTF8, 0, given[i], -1, all[i], size, NULL, NULL);
    }
    if (!all) {
        return ERR_NOMEM;
    }
    *argc = n;
    *argv = all;
    return ERR_OK;
}

/* -- stop signal -- */

static struct {
    void (*on_stop)(void *);
    void *arg;
} stop;

/* The system ends the program as soon as the handler of these returns, or after some seconds. */
static bool is_last_word(DWORD type)
{
    return type == CTRL_CLOSE_EVENT || type == CTRL_LOGOFF_EVENT || type == CTRL_SHUTDOWN_EVENT;
}

static BOOL WINAPI stop_handler(DWORD type)
{
    stop.on_stop(stop.arg);
    if (is_last_word(type)) {
        Sleep(INFINITE); /* the main thread ends the program */
    }
    return TRUE;
}

enum err os_stop_install(void (*on_stop)(void *), void *arg)
{
    stop.on_stop = on_stop;
    stop.arg = arg;
    return SetConsoleCtrlHandler(stop_handler, TRUE) ? ERR_OK : last_error();
}

/* -- files -- */

static enum err open_wide(HANDLE *out, const char *path, DWORD access, DWORD share, DWORD how)
{
    WCHAR w[PATH_UNITS];

    if (!wide(w, PATH_UNITS, path)) {
        return ERR_INVALID;
    }
    *out = CreateFileW(w, access, share, NULL, how, FILE_ATTRIBUTE_NORMAL, NULL);
    return *out == INVALID_HANDLE_VALUE ? last_error() : ERR_OK;
}

static bool is_directory(const WCHAR *path)
{
    DWORD attributes = GetFileAttributesW(path);

    return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY);
}

/* Why a file cannot be read. The system calls a directory a matter of rights. */
static enum err unreadable(const char *path, enum err e)
{
    WCHAR w[PATH_UNITS];

    if (e == ERR_ACCESS && wide(w, PATH_UNITS, path) && is_directory(w)) {
        return ERR_INVALID;
    }
    return e == ERR_INVALID ? ERR_NOTFOUND : e; /* no file can have such a name */
}

enum err os_read_file(uint8_t **p, size_t *n, const char *path, size_t max_bytes)
{
    LARGE_INTEGER size;
    uint8_t *data;
    DWORD got = 0;
    HANDLE h;
    enum err e =
        open_wide(&h, path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, OPEN_EXISTING);

    if (e) {
        return unreadable(path, e);
    }
    if (!GetFileSizeEx(h, &size) || size.QuadPart > (LONGLONG)max_bytes ||
        size.QuadPart > INT32_MAX) {
        CloseHandle(h);
        return ERR_FULL;
    }
    data = mem_alloc((size_t)size.QuadPart + 1);
    if (!data) {
        CloseHandle(h);
        return ERR_NOMEM;
    }
    if (!ReadFile(h, data, (DWORD)size.QuadPart, &got, NULL) || got != (DWORD)size.QuadPart) {
        e = last_error();
        CloseHandle(h);
        mem_free(data);
        return e;
    }
    CloseHandle(h);
    data[got] = '\0';
    *p = data;
    *n = got;
    return ERR_OK;
}

/* For a file that all may read, access comes from its directory. */
static enum err create_wide(HANDLE *out, const WCHAR *path, bool private_file)
{
    struct os_acl acl;
    enum err e = private_file ? os_acl_private(&acl, NULL) : ERR_OK;

    if (e) {
        return e;
    }
    *out = os_retry_win32_create(path, GENERIC_WRITE, 0, private_file ? &acl.attributes : NULL,
                                 CREATE_ALWAYS, FILE_ATTRIBUTE_NORMAL);
    return *out == INVALID_HANDLE_VALUE ? last_error() : ERR_OK;
}

enum err os_write_file(const char *path, const void *p, size_t n, bool private_file)
{
    char tmp[PATH_UNITS];
    WCHAR from[PATH_UNITS], to[PATH_UNITS];
    DWORD put = 0;
    HANDLE h;
    enum err e;

    if (snprintf(tmp, sizeof tmp, "%s.%lu.tmp", path, (unsigned long)GetCurrentProcessId()) >=
            (int)sizeof tmp ||
        !wide(from, PATH_UNITS, tmp) || !wide(to, PATH_UNITS, path) || n > INT32_MAX) {
        return ERR_INVALID;
    }
    e = create_wide(&h, from, private_file);
    if (e) {
        return e;
    }
    if (!WriteFile(h, p, (DWORD)n, &put, NULL) || put != (DWORD)n || !FlushFileBuffers(h)) {
        e = last_error();
    }
    CloseHandle(h);
    if (!e && !os_retry_win32_move(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)) {
        e = last_error();
    }
    if (e) {
        (void)os_retry_win32_delete(from);
    }
    return e;
}

FILE *os_fopen(const char *path, const char *mode)
{
    WCHAR w[PATH_UNITS], how[8];

    if (!wide(w, PATH_UNITS, path) || !wide(how, 8, mode)) {
        errno = EINVAL;
        return NULL;
    }
    return _wfopen(w, how);
}

enum err os_make_public(FILE *f)
{
    (void)f;
    return ERR_OK;
}

enum err os_rename(const char *from, const char *to)
{
    WCHAR wide_from[PATH_UNITS], wide_to[PATH_UNITS];

    if (!wide(wide_from, PATH_UNITS, from) || !wide(wide_to, PATH_UNITS, to)) {
        return ERR_INVALID;
    }
    return os_retry_win32_move(wide_from, wide_to, MOVEFILE_REPLACE_EXISTING) ? ERR_OK
                                                                              : last_error();
}

enum err os_mkdirs(const char *path, bool private_dir)
{
    WCHAR w[PATH_UNITS];
    struct os_acl acl;
    enum err e = private_dir ? os_acl_private(&acl, NULL) : ERR_OK;

    if (e) {
        return e;
    }
    if (path[0] == '\0' || !wide(w, PATH_UNITS, path)) {
        return ERR_INVALID;
    }
    for (size_t i = 1;; i++) {
        WCHAR c = w[i];

        if (c != L'/' && c != L'\\' && c != L'\0') {
            continue;
        }
        w[i] = L'\0';
        if (!is_directory(w) && !CreateDirectoryW(w, private_dir ? &acl.attributes : NULL)) {
            e = last_error();
        } else {
            e = ERR_OK;
        }
        w[i] = c;
        if (c == L'\0') {
            return is_directory(w) ? ERR_OK : e ? e : ERR_EXISTS;
        }
    }
}

enum err os_check_private(const char *path)
{
    WCHAR w[PATH_UNITS];

    return wide(w, PATH_UNITS, path) ? os_acl_check(w) : ERR_INVALID;
}

enum err os_remove(const char *path)
{
    WCHAR w[PATH_UNITS];

    if (!wide(w, PATH_UNITS, path)) {
        return ERR_INVALID;
    }
    return os_retry_win32_delete(w) ? ERR_OK : last_error();
}

enum err os_remove_dir(const char *path)
{
    WCHAR w[PATH_UNITS];

    if (!wide(w, PATH_UNITS, path)) {
        return ERR_INVALID;
    }
    return os_retry_win32_remove_dir(w) ? ERR_OK : last_error();
}

bool os_exists(const char *path)
{
    WCHAR w[PATH_UNITS];

    return wide(w, PATH_UNITS, path) && GetFileAttributesW(w) != INVALID_FILE_ATTRIBUTES;
}

bool os_is_file(const char *path)
{
    WCHAR w[PATH_UNITS];
    DWORD is = wide(w, PATH_UNITS, path) ? GetFileAttributesW(w) : INVALID_FILE_ATTRIBUTES;

    return is != INVALID_FILE_ATTRIBUTES &&
           !(is & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_DEVICE));
}

enum err os_list_dir(const char *path, enum err (*each)(void *ctx, const char *name), void *ctx)
{
    WCHAR pattern[PATH_UNITS];
    char text[PATH_UNITS], name[4 * MAX_PATH];
    WIN32_FIND_DATAW found;
    enum err e = ERR_OK;
    HANDLE h;

    if (snprintf(text, sizeof text, "%s\\*", path) >= (int)sizeof text ||
        !wide(pattern, PATH_UNITS, text)) {
        return ERR_INVALID;
    }
    h = FindFirstFileW(pattern, &found);
    if (h == INVALID_HANDLE_VALUE) {
        return last_error();
    }
    do {
        WideCharToMultiByte(CP_UTF8, 0, found.cFileName, -1, name, (int)sizeof name, NULL, NULL);
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            e = each(ctx, name);
        }
    } while (!e && FindNextFileW(h, &found));
    FindClose(h);
    return e;
}

enum err os_disk_free(const char *path, uint64_t *free_bytes, uint64_t *total_bytes)
{
    WCHAR w[PATH_UNITS];
    ULARGE_INTEGER available, total;

    if (!wide(w, PATH_UNITS, path)) {
        return ERR_INVALID;
    }
    if (!GetDiskFreeSpaceExW(w, &available, &total, NULL)) {
        return last_error();
    }
    *free_bytes = available.QuadPart;
    *total_bytes = total.QuadPart;
    return ERR_OK;
}

struct os_lock {
    HANDLE handle;
};

enum err os_lock(struct os_lock **out, const char *path)
{
    struct os_lock *l = mem_zalloc(sizeof *l);
    enum err e;

    if (!l) {
        return ERR_NOMEM;
    }
    e = open_wide(&l->handle, path, GENERIC_READ | GENERIC_WRITE, 0, OPEN_ALWAYS);
    if (e) {
        mem_free(l);
        return e;
    }
    *out = l;
    return ERR_OK;
}

void os_unlock(struct os_lock *l)
{
    if (l) {
        CloseHandle(l->handle);
        mem_free(l);
    }
}

static bool is_absolute(const char *p)
{
    return p[0] == '/' || p[0] == '\\' || (p[0] && p[1] == ':');
}

char *os_path_join(const char *dir, const char *name)
{
    size_t n = strlen(dir) + strlen(name) + 2;
    char *path;

    if (is_absolute(name) || dir[0] == '\0') {
        return mem_strdup(name);
    }
    path = mem_alloc(n);
    if (path) {
        snprintf(path, n, "%s\\%s", dir, name);
    }
    return path;
}

const char *os_path_base(const char *path)
{
    const char *base = path;

    for (const char *c = path; *c; c++) {
        if (*c == '/' || *c == '\\') {
            base = c + 1;
        }
    }
    return base;
}

/* -- what has no meaning here -- */

/* The service control manager is notified by agent/service/service_win32.c. */
void os_notify(const char *fmt, ...)
{
    (void)fmt;
}

int64_t os_notify_watchdog_ns(void)
{
    return 0;
}
