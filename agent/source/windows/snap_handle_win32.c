/* Every handle lives within one call. A pid may have a new owner since the table was taken, so the
 * time of creation is compared first. A gauge that cannot be had is left out: the rest counts. */
#include "agent/source/windows/snap_handle_win32.h"

#include <string.h>

#include "agent/source/windows/snap_layout.h"
#include "agent/source/windows/snap_rows.h"
#include "common/base/mem.h"
#include "common/os/win32.h"

#define UNKNOWN_CLASS   ((NTSTATUS)0xC0000003)
#define LINE_BYTES      (2 * 32768 + 64) /* the longest the system allows, and its head */
#define PROTECTION_TYPE 7                /* bits of the class's one byte; 0 = not protected */

struct snap_handle {
    DWORD(WINAPI *gui)(HANDLE process, DWORD kind);
    bool gui_tried;
    WCHAR wide[MODEL_COMMAND_LINE_MAX]; /* more than fits in UTF-8 is never needed */
    char line[MODEL_COMMAND_LINE_MAX], image[MODEL_TEXT_MAX], user[MODEL_TEXT_MAX];
};

enum err snap_handle_create(struct snap_handle **out)
{
    *out = mem_zalloc(sizeof **out);
    return *out ? ERR_OK : ERR_NOMEM;
}

void snap_handle_destroy(struct snap_handle *h)
{
    mem_free(h);
}

static struct str to_utf8(char *out, size_t size, const WCHAR *text, size_t units, bool *cut)
{
    return snap_rows_text(out, size, (const uint8_t *)text, units, cut);
}

/* -- opening -- */

static enum err open_process(HANDLE *out, DWORD access, const struct proc_id *id)
{
    FILETIME created, exited, kernel, user;
    HANDLE process = OpenProcess(access, FALSE, id->pid);
    uint64_t start;

    if (!process) {
        DWORD code = GetLastError();

        return code == ERROR_ACCESS_DENIED       ? ERR_ACCESS
               : code == ERROR_INVALID_PARAMETER ? ERR_NOTFOUND
                                                 : ERR_IO;
    }
    if (!GetProcessTimes(process, &created, &exited, &kernel, &user)) {
        CloseHandle(process);
        return ERR_IO;
    }
    start = (uint64_t)created.dwHighDateTime << 32 | created.dwLowDateTime;
    if (start != id->start) {
        CloseHandle(process);
        return ERR_NOTFOUND;
    }
    *out = process;
    return ERR_OK;
}

static NTSTATUS query(HANDLE process, int number, void *p, ULONG n, ULONG *got)
{
    return NtQueryInformationProcess(process, (PROCESSINFOCLASS)number, p, n, got);
}

static bool is_protected(HANDLE process)
{
    UCHAR protection = 0;

    return query(process, SNAP_ProcessProtectionInformation, &protection, sizeof protection,
                 NULL) == 0 &&
           (protection & PROTECTION_TYPE) != 0;
}

/* -- gauges -- */

static void put(struct snap_answer *out, unsigned gauge, int64_t value)
{
    out->have |= 1u << gauge;
    out->values[gauge] = value;
}

/* 0 objects and a failure look the same but for the last error. */
static void read_objects(struct snap_handle *h, HANDLE process, unsigned gauge, DWORD kind,
                         struct snap_answer *out)
{
    DWORD n;

    SetLastError(ERROR_SUCCESS);
    n = h->gui(process, kind);
    if (n > 0 || GetLastError() == ERROR_SUCCESS) {
        put(out, gauge, n);
    }
}

static void read_gui(struct snap_handle *h, HANDLE process, struct snap_answer *out)
{
    if (!h->gui_tried) { /* most hosts of a service never need this library */
        HMODULE user32 = LoadLibraryExW(L"user32.dll", NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
        FARPROC p = user32 ? GetProcAddress(user32, "GetGuiResources") : NULL;

        h->gui_tried = true;
        memcpy(&h->gui, &p, sizeof p);
    }
    if (h->gui) {
        read_objects(h, process, SNAP_SLOW_GDI, GR_GDIOBJECTS, out);
        read_objects(h, process, SNAP_SLOW_USER, GR_USEROBJECTS, out);
    }
}

static void read_gauges(struct snap_handle *h, HANDLE process, struct snap_answer *out)
{
    DWORD_PTR mask, of_system;
    ULONG priority, counts[2];

    /* 0: its threads are in several groups of CPUs, and one mask cannot say it. */
    if (GetProcessAffinityMask(process, &mask, &of_system) && mask != 0) {
        put(out, SNAP_SLOW_AFFINITY, (int64_t)mask);
    }
    if (query(process, SNAP_ProcessIoPriority, &priority, sizeof priority, NULL) == 0) {
        put(out, SNAP_SLOW_IO_PRIORITY, priority);
    }
    if (query(process, SNAP_ProcessHandleCount, counts, sizeof counts, NULL) == 0) {
        out->peak_handles = counts[1];
    }
    if (out->job.what & SNAP_JOB_GUI) {
        read_gui(h, process, out);
    }
}

/* -- command line -- */

/* By the call that needs no more than limited query; since Windows 8.1. False: there is no such
 * call. */
static bool ask_line(struct snap_handle *h, HANDLE process, struct snap_answer *out)
{
    UNICODE_STRING *text = mem_alloc(LINE_BYTES);
    NTSTATUS status =
        text ? query(process, SNAP_ProcessCommandLineInformation, text, LINE_BYTES, NULL) : 0;

    if (text && status == 0) {
        out->line = to_utf8(h->line, sizeof h->line, text->Buffer, text->Length / sizeof(WCHAR),
                            &out->line_cut);
    }
    mem_free(text);
    return status != UNKNOWN_CLASS;
}

static bool read_memory(HANDLE process, uint64_t address, void *p, size_t n)
{
    SIZE_T got;

    return ReadProcessMemory(process, (const void *)(uintptr_t)address, p, n, &got) && got == n;
}

/* From where the process keeps it. */
static void read_line(struct snap_handle *h, const struct proc_id *id, struct snap_answer *out)
{
    PROCESS_BASIC_INFORMATION basic;
    UNICODE_STRING text;
    uint64_t parameters;
    HANDLE process;
    size_t bytes;

    if (open_process(&process, PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_VM_READ, id)) {
        return;
    }
    if (query(process, SNAP_ProcessBasicInformation, &basic, sizeof basic, NULL) == 0 &&
        basic.PebBaseAddress &&
        read_memory(process, (uintptr_t)basic.PebBaseAddress + SNAP_PEB_PARAMETERS, &parameters,
                    sizeof parameters) &&
        read_memory(process, parameters + SNAP_PARAMETERS_LINE, &text, sizeof text)) {
        bytes = text.Length < sizeof h->wide ? text.Length : sizeof h->wide;
        if (read_memory(process, (uintptr_t)text.Buffer, h->wide, bytes)) {
            out->line =
                to_utf8(h->line, sizeof h->line, h->wide, bytes / sizeof(WCHAR), &out->line_cut);
            out->line_cut |= bytes < text.Length;
        }
    }
    CloseHandle(process);
}

/* -- image and user -- */

static void read_image(struct snap_handle *h, HANDLE process, struct snap_answer *out)
{
    DWORD units = sizeof h->wide / sizeof *h->wide;
    bool cut;

    if (QueryFullProcessImageNameW(process, 0, h->wide, &units)) {
        out->image = to_utf8(h->image, sizeof h->image, h->wide, units, &cut);
    }
}

static void read_user(struct snap_handle *h, HANDLE process, struct snap_answer *out)
{
    _Alignas(TOKEN_USER) uint8_t answer[sizeof(TOKEN_USER) + SID_BYTES_MAX];
    const TOKEN_USER *user = (const TOKEN_USER *)answer;
    HANDLE token;
    DWORD got = 0;

    if (!OpenProcessToken(process, TOKEN_QUERY, &token)) {
        return;
    }
    if (GetTokenInformation(token, TokenUser, answer, sizeof answer, &got)) {
        size_t at = (size_t)((const uint8_t *)user->User.Sid - answer);

        if (at < got) {
            out->user =
                (struct str){h->user, sid_text(h->user, sizeof h->user, user->User.Sid, got - at)};
        }
    }
    CloseHandle(token);
}

/* May ask a domain controller, and take seconds. */
static void read_account(struct snap_handle *h, const char *sid, struct snap_answer *out)
{
    WCHAR name[257], domain[257];
    DWORD name_n = 257, domain_n = 257;
    SID_NAME_USE use;
    PSID binary;
    size_t n;
    bool cut;

    if (!ConvertStringSidToSidA(sid, &binary)) {
        out->error = ERR_INVALID;
        return;
    }
    if (LookupAccountSidW(NULL, binary, name, &name_n, domain, &domain_n, &use)) {
        n = to_utf8(h->user, sizeof h->user / 2, domain, domain_n, &cut).n;
        if (n > 0) {
            h->user[n++] = '\\';
        }
        n += to_utf8(h->user + n, sizeof h->user - n, name, name_n, &cut).n;
        out->user = (struct str){h->user, n};
    } else {
        out->error = ERR_NOTFOUND;
    }
    LocalFree(binary);
}

/* -- a job -- */

void snap_handle_read(struct snap_handle *h, const struct snap_job *job, struct snap_answer *out)
{
    HANDLE process;

    if (job->what & SNAP_JOB_ACCOUNT) {
        read_account(h, job->sid, out);
        return;
    }
    out->error = open_process(&process, PROCESS_QUERY_LIMITED_INFORMATION, &job->id);
    if (out->error) {
        return;
    }
    if (is_protected(process)) {
        out->error = ERR_UNSUPPORTED;
        CloseHandle(process);
        return;
    }
    if (job->what & SNAP_JOB_GAUGES) {
        read_gauges(h, process, out);
    }
    if (job->what & SNAP_JOB_IMAGE) {
        read_image(h, process, out);
    }
    if (job->what & SNAP_JOB_USER) {
        read_user(h, process, out);
    }
    if ((job->what & SNAP_JOB_LINE) && !ask_line(h, process, out)) {
        read_line(h, &job->id, out);
    }
    CloseHandle(process);
}
