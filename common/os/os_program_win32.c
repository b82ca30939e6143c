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

/* One argument as the C library's start code takes them apart: in quotes, with backslashes doubled
 * before a quote and at the end. */
static void put_argument(struct buf *out, const char *text)
{
    size_t slashes = 0;

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

static enum err start_and_wait(const WCHAR *path, WCHAR *line, int *code)
{
    STARTUPINFOW start = {.cb = sizeof start};
    PROCESS_INFORMATION child;
    HANDLE job = job_create();
    enum err e = ERR_OK;
    DWORD exit_code = 1;

    (void)SetConsoleCtrlHandler(leave_to_the_other, TRUE);
    if (!CreateProcessW(path, line, NULL, NULL, TRUE, CREATE_SUSPENDED, NULL, NULL, &start,
                        &child)) {
        e = translate(GetLastError());
    } else {
        if (job) {
            (void)AssignProcessToJobObject(job, child.hProcess);
        }
        (void)ResumeThread(child.hThread);
        if (WaitForSingleObject(child.hProcess, INFINITE) != WAIT_OBJECT_0 ||
            !GetExitCodeProcess(child.hProcess, &exit_code)) {
            e = ERR_IO;
        }
        CloseHandle(child.hThread);
        CloseHandle(child.hProcess);
    }
    if (job) {
        CloseHandle(job);
    }
    *code = (int)exit_code;
    return e;
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
