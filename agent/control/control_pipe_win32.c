/* A pipe of one name on each host, whose access list has the system, administrators and the agent's
 * account; nobody comes over the network. Its first instance is ours or there is none of us: who
 * made the name before would hear what administrators ask for. */
#include "agent/control/control_pipe.h"

#include <string.h>

#include "agent/control/control.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/os_acl_win32.h"
#include "common/os/win32.h"

#define NAME        L"\\\\.\\pipe\\procfleet-agent-control"
#define PEOPLE      "the pipe procfleet-agent-control"
#define WAIT_MS     ((DWORD)(CONTROL_WAIT_NS / CLK_MS))
#define OWNER_BYTES 1024
#define NO_OTHER    (FILE_FLAG_FIRST_PIPE_INSTANCE | FILE_FLAG_OVERLAPPED)

struct control_pipe {
    HANDLE pipe, stop, done; /* done: of the call under way */
};

static enum err pipe_error(DWORD code)
{
    return code == ERROR_ACCESS_DENIED || code == ERROR_PIPE_BUSY ? ERR_BUSY
           : code == ERROR_NOT_ENOUGH_MEMORY                      ? ERR_NOMEM
                                                                  : ERR_IO;
}

enum err control_pipe_open(struct control_pipe **out, const char *dir, struct errmsg *why)
{
    const DWORD how = PIPE_TYPE_BYTE | PIPE_READMODE_BYTE | PIPE_WAIT | PIPE_REJECT_REMOTE_CLIENTS;
    struct control_pipe *p = mem_zalloc(sizeof *p);
    struct os_acl acl;
    enum err e;

    (void)dir;
    if (!p) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    p->pipe = INVALID_HANDLE_VALUE;
    p->stop = CreateEventW(NULL, TRUE, FALSE, NULL);
    p->done = CreateEventW(NULL, TRUE, FALSE, NULL);
    e = p->stop && p->done ? os_acl_private(&acl, NULL) : ERR_NOMEM;
    if (!e) {
        p->pipe = CreateNamedPipeW(NAME, PIPE_ACCESS_DUPLEX | NO_OTHER, how, 1, CONTROL_LINE,
                                   CONTROL_LINE, 0, &acl.attributes);
        e = p->pipe == INVALID_HANDLE_VALUE ? pipe_error(GetLastError()) : ERR_OK;
    }
    if (e) {
        control_pipe_close(p);
        return errmsg_set(why, e, PEOPLE ": %s", err_text(e));
    }
    *out = p;
    return ERR_OK;
}

/* What was begun has ended, or it is ended: after so long, or when we stop. */
static bool pipe_wait(struct control_pipe *p, OVERLAPPED *o, BOOL begun, DWORD ms, DWORD *n)
{
    HANDLE both[2] = {p->stop, p->done};
    DWORD code = begun ? ERROR_SUCCESS : GetLastError();

    if (code == ERROR_PIPE_CONNECTED) {
        return true;
    }
    if (code != ERROR_SUCCESS && code != ERROR_IO_PENDING) {
        return false;
    }
    if (WaitForMultipleObjects(2, both, FALSE, ms) != WAIT_OBJECT_0 + 1) {
        (void)CancelIoEx(p->pipe, o);
    }
    return GetOverlappedResult(p->pipe, o, n, TRUE) != 0;
}

static bool pipe_connect(struct control_pipe *p)
{
    OVERLAPPED o = {.hEvent = p->done};
    DWORD n;

    (void)ResetEvent(p->done);
    return pipe_wait(p, &o, ConnectNamedPipe(p->pipe, &o), INFINITE, &n);
}

/* One line without its end. */
static bool pipe_read_line(struct control_pipe *p, char line[CONTROL_LINE], size_t *n)
{
    int64_t until_ns = os_mono_ns() + CONTROL_WAIT_NS;
    size_t have = 0;

    while (have < CONTROL_LINE && os_mono_ns() < until_ns) {
        OVERLAPPED o = {.hEvent = p->done};
        DWORD got = 0;
        char *end;

        (void)ResetEvent(p->done);
        if (!pipe_wait(p, &o,
                       ReadFile(p->pipe, line + have, (DWORD)(CONTROL_LINE - have), NULL, &o),
                       WAIT_MS, &got) ||
            got == 0) {
            return false;
        }
        end = memchr(line + have, '\n', got);
        have += got;
        if (end) {
            *n = (size_t)(end - line);
            return true;
        }
    }
    return false;
}

/* Until the asker has it, or goes: what is disconnected before is lost. */
static void pipe_answer(struct control_pipe *p, const struct buf *out)
{
    OVERLAPPED o = {.hEvent = p->done};
    char byte;
    DWORD n;

    (void)ResetEvent(p->done);
    if (pipe_wait(p, &o, WriteFile(p->pipe, out->p, (DWORD)out->n, NULL, &o), WAIT_MS, &n)) {
        o = (OVERLAPPED){.hEvent = p->done};
        (void)ResetEvent(p->done);
        (void)pipe_wait(p, &o, ReadFile(p->pipe, &byte, 1, NULL, &o), WAIT_MS, &n);
    }
}

void control_pipe_serve(struct control_pipe *p,
                        void (*answer)(void *ctx, const char *line, size_t n, struct buf *out),
                        void *ctx)
{
    char line[CONTROL_LINE];
    size_t n;

    while (WaitForSingleObject(p->stop, 0) != WAIT_OBJECT_0) {
        if (pipe_connect(p) && pipe_read_line(p, line, &n)) {
            struct buf out;

            buf_init(&out, CONTROL_LINE);
            answer(ctx, line, n, &out);
            if (!out.bad) {
                pipe_answer(p, &out);
            }
            buf_fini(&out);
        }
        (void)DisconnectNamedPipe(p->pipe);
    }
}

void control_pipe_stop(struct control_pipe *p)
{
    (void)SetEvent(p->stop);
}

static void pipe_release(struct control_pipe *p)
{
    if (p->pipe != INVALID_HANDLE_VALUE) {
        CloseHandle(p->pipe);
    }
    if (p->stop) {
        CloseHandle(p->stop);
    }
    if (p->done) {
        CloseHandle(p->done);
    }
}

void control_pipe_close(struct control_pipe *p)
{
    if (p) {
        pipe_release(p);
        mem_free(p);
    }
}

/* -- the asker's side -- */

/* Before the agent another program may have made the name: whose it is says who answers. */
static bool pipe_is_trusted(HANDLE h)
{
    BYTE user[SECURITY_MAX_SID_SIZE], descriptor[OWNER_BYTES];
    PSID owner = NULL;
    BOOL defaulted;
    DWORD n;

    return os_acl_user(user) == ERR_OK &&
           GetKernelObjectSecurity(h, OWNER_SECURITY_INFORMATION, descriptor, sizeof descriptor,
                                   &n) &&
           GetSecurityDescriptorOwner(descriptor, &owner, &defaulted) && owner &&
           os_acl_is_trusted(owner, user);
}

/* Whom it talks to must not act in its name: the agent learns who asks, and no more. */
static HANDLE pipe_dial(enum err *e)
{
    int64_t until_ns = os_mono_ns() + CONTROL_WAIT_NS;

    for (;;) {
        HANDLE h = CreateFileW(
            NAME, GENERIC_READ | GENERIC_WRITE, 0, NULL, OPEN_EXISTING,
            SECURITY_SQOS_PRESENT | SECURITY_IDENTIFICATION | FILE_FLAG_OVERLAPPED, NULL);
        DWORD code = GetLastError();

        if (h != INVALID_HANDLE_VALUE) {
            *e = pipe_is_trusted(h) ? ERR_OK : ERR_CORRUPT;
            return h; /* the caller's to close, whatever *e says */
        }
        if (code != ERROR_PIPE_BUSY || os_mono_ns() > until_ns) {
            *e = code == ERROR_FILE_NOT_FOUND  ? ERR_NOTFOUND
                 : code == ERROR_ACCESS_DENIED ? ERR_ACCESS
                 : code == ERROR_PIPE_BUSY     ? ERR_TIMEOUT
                                               : ERR_IO;
            return INVALID_HANDLE_VALUE;
        }
        (void)WaitNamedPipeW(NAME, WAIT_MS);
    }
}

/* An agent that hangs keeps nobody waiting. */
static enum err pipe_talk(struct control_pipe *p, const char *line, size_t n, struct buf *out)
{
    int64_t until_ns = os_mono_ns() + 2 * CONTROL_WAIT_NS; /* the agent itself waits once */
    OVERLAPPED o = {.hEvent = p->done};
    char got[CONTROL_LINE];
    DWORD k = 0;

    if (!pipe_wait(p, &o, WriteFile(p->pipe, line, (DWORD)n, NULL, &o), WAIT_MS, &k) || k != n) {
        return ERR_IO;
    }
    while (out->n < CONTROL_LINE && !memchr(got, '\n', out->n)) {
        if (os_mono_ns() > until_ns) {
            return ERR_TIMEOUT;
        }
        o = (OVERLAPPED){.hEvent = p->done};
        (void)ResetEvent(p->done);
        if (!pipe_wait(p, &o,
                       ReadFile(p->pipe, got + out->n, (DWORD)(CONTROL_LINE - out->n), NULL, &o),
                       2 * WAIT_MS, &k) ||
            k == 0) {
            return GetLastError() == ERROR_OPERATION_ABORTED ? ERR_TIMEOUT : ERR_CLOSED;
        }
        buf_put(out, got + out->n, k);
    }
    return out->bad;
}

enum err control_pipe_ask(const char *dir, const char *line, size_t n, struct buf *out,
                          struct errmsg *why)
{
    struct control_pipe p = {.stop = CreateEventW(NULL, TRUE, FALSE, NULL),
                             .done = CreateEventW(NULL, TRUE, FALSE, NULL)};
    enum err e = p.stop && p.done ? ERR_OK : ERR_NOMEM;

    (void)dir;
    p.pipe = e ? INVALID_HANDLE_VALUE : pipe_dial(&e);
    if (!e) {
        e = pipe_talk(&p, line, n, out);
    }
    pipe_release(&p);
    return !e ? ERR_OK
              : errmsg_set(why, e,
                           e == ERR_NOTFOUND  ? "no agent of this host listens: is it running?"
                           : e == ERR_ACCESS  ? "the agent takes wishes of administrators only"
                           : e == ERR_CORRUPT ? PEOPLE " is another program's, of an account that "
                                                       "is not trusted"
                                              : PEOPLE " did not answer");
}
