#include "common/os/os_program.h"

#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/os/win32.h"

#define PATH_UNITS 32768 /* the longest path and command line of the system */

static BOOL WINAPI leave_to_the_other(DWORD event)
{
    return event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT;
}

/* The path of `name` beside this program's own file. */
static enum err beside(WCHAR *path, const char *name)
{
    WCHAR wide[256];
    DWORD n = GetModuleFileNameW(NULL, path, PATH_UNITS);
    WCHAR *slash;

    if (n == 0 || n >= PATH_UNITS ||
        MultiByteToWideChar(CP_UTF8, 0, name, -1, wide, sizeof wide / sizeof *wide) == 0) {
        return ERR_IO;
    }
    slash = wcsrchr(path, L'\\');
    if (!slash || (size_t)(slash + 1 - path) + wcslen(wide) + 5 > PATH_UNITS) {
        return ERR_RANGE;
    }
    wcscpy(slash + 1, wide);
    wcscat(slash + 1, L".exe");
    return ERR_OK;
}

/* One argument as the C library's start code takes them apart: where it needs that in quotes, with
 * backslashes doubled before a quote and at the end. Others stand as they are: the command
 * interpreter has rules of its own for quotes. */
static void put_argument(struct buf *out, const char *text)
{
    size_t slashes = 0;

    if (*text && !text[strcspn(text, " \t\"")]) {
        buf_put_str(out, text);
        return;
    }
    buf_put_u8(out, '"');
    for (; *text; text++) {
        if (*text == '"') {
            for (size_t i = 0; i <= slashes; i++) {
                buf_put_u8(out, '\\');
            }
        }
        slashes = *text == '\\' ? slashes + 1 : 0;
        buf_put_u8(out, (uint8_t)*text);
    }
    for (size_t i = 0; i < slashes; i++) {
        buf_put_u8(out, '\\');
    }
    buf_put_u8(out, '"');
}

/* mem_free; NULL: too long, or no text. */
static WCHAR *command_line(const char *name, char **args)
{
    WCHAR *wide = mem_array(PATH_UNITS, sizeof *wide);
    struct buf line;

    buf_init(&line, 4 * PATH_UNITS);
    put_argument(&line, name);
    for (; *args; args++) {
        buf_put_u8(&line, ' ');
        put_argument(&line, *args);
    }
    if (wide && (line.bad || MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, buf_cstr(&line), -1,
                                                 wide, PATH_UNITS) == 0)) {
        mem_free(wide);
        wide = NULL;
    }
    buf_fini(&line);
    return wide;
}

static enum err translate(DWORD error)
{
    switch (error) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
        return ERR_NOTFOUND;
    case ERROR_ACCESS_DENIED:
        return ERR_ACCESS;
    case ERROR_NOT_ENOUGH_MEMORY:
        return ERR_NOMEM;
    default:
        return ERR_IO;
    }
}

/* A job whose processes end with its last handle, which is this process's. NULL: none, and the
 * other would outlive us. */
static HANDLE job_create(void)
{
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {0};
    HANDLE job = CreateJobObjectW(NULL, NULL);

    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    if (job) {
        (void)SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits,
                                      sizeof limits);
    }
    return job;
}

struct os_program {
    HANDLE job; /* NULL: there is none */
    PROCESS_INFORMATION child;
};

/* Suspended. */
static enum err program_create(struct os_program *x, const WCHAR *path, WCHAR *line)
{
    STARTUPINFOW start = {.cb = sizeof start};

    x->job = job_create();
    (void)SetConsoleCtrlHandler(leave_to_the_other, TRUE);
    if (!CreateProcessW(path, line, NULL, NULL, TRUE, CREATE_SUSPENDED, NULL, NULL, &start,
                        &x->child)) {
        return translate(GetLastError());
    }
    if (x->job) {
        (void)AssignProcessToJobObject(x->job, x->child.hProcess);
    }
    return ERR_OK;
}

/* Also of one that could not be started. */
static enum err program_finish(struct os_program *x, int *code)
{
    DWORD exit_code = 1;
    enum err e = ERR_OK;

    if (x->child.hProcess) {
        (void)ResumeThread(x->child.hThread);
        if (WaitForSingleObject(x->child.hProcess, INFINITE) != WAIT_OBJECT_0 ||
            !GetExitCodeProcess(x->child.hProcess, &exit_code)) {
            e = ERR_IO;
        }
        CloseHandle(x->child.hThread);
        CloseHandle(x->child.hProcess);
    }
    if (x->job) {
        CloseHandle(x->job);
    }
    *code = (int)exit_code;
    return e;
}

static enum err start_and_wait(const WCHAR *path, WCHAR *line, int *code)
{
    struct os_program x = {NULL};
    enum err e = program_create(&x, path, line), ended = program_finish(&x, code);

    return e ? e : ended;
}

static uint64_t start_of(HANDLE process)
{
    FILETIME made, ended, kernel, user;

    return GetProcessTimes(process, &made, &ended, &kernel, &user)
               ? (uint64_t)made.dwHighDateTime << 32 | made.dwLowDateTime
               : 0;
}

static enum err variable_set(const char *variable)
{
    WCHAR wide[512];
    WCHAR *value;

    if (MultiByteToWideChar(CP_UTF8, 0, variable, -1, wide, sizeof wide / sizeof *wide) == 0) {
        return ERR_RANGE;
    }
    value = wcschr(wide, L'=');
    if (!value) {
        return ERR_INVALID;
    }
    *value = 0;
    return SetEnvironmentVariableW(wide, value + 1) ? ERR_OK : ERR_IO;
}

enum err os_program_start(struct os_program **out, char **argv, const char *variable, uint32_t *pid,
                          uint64_t *start, struct errmsg *why)
{
    struct os_program *x = mem_zalloc(sizeof *x);
    WCHAR *line = command_line(argv[0], argv + 1);
    enum err e = x ? line ? variable_set(variable) : ERR_RANGE : ERR_NOMEM;
    int code;

    fflush(NULL);
    e = e ? e : program_create(x, NULL, line); /* looked for as the command interpreter does */
    mem_free(line);
    if (e) {
        e = errmsg_set(why, e, "%s: %s", argv[0], err_text(e));
        if (x) {
            err_ignore(program_finish(x, &code));
        }
        mem_free(x);
        return e;
    }
    *pid = x->child.dwProcessId;
    *start = start_of(x->child.hProcess);
    *out = x;
    return ERR_OK;
}

enum err os_program_wait(struct os_program *x, int *code, struct errmsg *why)
{
    enum err e = program_finish(x, code);

    mem_free(x);
    return e ? errmsg_set(why, e, "cannot wait for the command: %s", err_text(e)) : ERR_OK;
}

enum err os_program_run(const char *name, char **args, int *code, struct errmsg *why)
{
    WCHAR *path = mem_array(PATH_UNITS, sizeof *path), *line = command_line(name, args);
    enum err e = path ? line ? beside(path, name) : ERR_RANGE : ERR_NOMEM;

    fflush(NULL);
    if (!e) {
        e = start_and_wait(path, line, code);
    }
    mem_free(line);
    mem_free(path);
    return e ? errmsg_set(why, e, "%s.exe beside this program cannot be started: %s", name,
                          err_text(e))
             : e;
}
