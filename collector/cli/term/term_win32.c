/* The console: it takes and gives VT sequences since Windows 10, so keys and drawing are the same
 * as elsewhere; what it says of its size comes between the keys. */
#include "collector/cli/term/term.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "collector/cli/term/term_vt.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/win32.h"

#define RECORDS 64

struct term {
    HANDLE in, out, wake;
    WCHAR lead; /* first half of a pair */
    size_t at, n;
    uint8_t bytes[RECORDS * 4];
    bool resized;
};

static struct {
    atomic_bool taken, stop;
    HANDLE in, out, wake;
    DWORD in_mode, out_mode;
} the;

static void give_back(void)
{
    DWORD done;

    if (atomic_exchange(&the.taken, false)) {
        (void)WriteFile(the.out, TERM_LEAVE, sizeof TERM_LEAVE - 1, &done, NULL);
        (void)SetConsoleMode(the.in, the.in_mode);
        (void)SetConsoleMode(the.out, the.out_mode);
    }
}

static BOOL WINAPI on_control(DWORD what)
{
    if (what == CTRL_BREAK_EVENT || what == CTRL_C_EVENT) {
        atomic_store(&the.stop, true);
        (void)SetEvent(the.wake);
        return TRUE;
    }
    give_back(); /* the console closes, the user logs off: the system ends us */
    return FALSE;
}

static LONG WINAPI on_crash(EXCEPTION_POINTERS *what)
{
    (void)what;
    give_back();
    return EXCEPTION_CONTINUE_SEARCH;
}

static enum err take(struct term *t, struct errmsg *why)
{
    DWORD done;

    if (!GetConsoleMode(t->in, &the.in_mode) || !GetConsoleMode(t->out, &the.out_mode)) {
        return errmsg_set(why, ERR_INVALID, "standard input and output must be a console");
    }
    if (!SetConsoleMode(t->in, ENABLE_VIRTUAL_TERMINAL_INPUT | ENABLE_WINDOW_INPUT)) {
        return errmsg_set(
            why, ERR_INVALID,
            "this console knows no VT input; it needs Windows 10 or a newer terminal");
    }
    if (!SetConsoleMode(t->out, ENABLE_PROCESSED_OUTPUT | ENABLE_VIRTUAL_TERMINAL_PROCESSING |
                                    DISABLE_NEWLINE_AUTO_RETURN)) {
        (void)SetConsoleMode(t->in, the.in_mode);
        return errmsg_set(
            why, ERR_INVALID,
            "this console knows no VT sequences; it needs Windows 10 or a newer terminal");
    }
    the.in = t->in;
    the.out = t->out;
    the.wake = t->wake;
    atomic_store(&the.stop, false);
    atomic_store(&the.taken, true);
    (void)WriteFile(t->out, TERM_ENTER, sizeof TERM_ENTER - 1, &done, NULL);
    return ERR_OK;
}

enum err term_usable(struct errmsg *why)
{
    if (!os_is_terminal(0) || !os_is_terminal(1)) {
        return errmsg_set(why, ERR_INVALID, "standard input and output must be a terminal");
    }
    return ERR_OK; /* term_open finds out what the console knows */
}

enum err term_open(struct term **out, struct errmsg *why)
{
    static bool prepared;
    struct term *t;
    enum err e;

    e = term_usable(why);
    if (e) {
        return e;
    }
    if (atomic_load(&the.taken)) {
        return errmsg_set(why, ERR_BUSY, "the terminal is in use");
    }
    t = mem_zalloc(sizeof *t);
    if (!t) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    t->in = GetStdHandle(STD_INPUT_HANDLE);
    t->out = GetStdHandle(STD_OUTPUT_HANDLE);
    t->wake = CreateEventW(NULL, FALSE, FALSE, NULL);
    e = t->wake ? take(t, why) : errmsg_set(why, ERR_NOMEM, "out of memory");
    if (e) {
        term_close(t);
        return e;
    }
    if (!prepared) {
        prepared = true;
        (void)atexit(give_back);
        (void)SetUnhandledExceptionFilter(on_crash);
    }
    (void)SetConsoleCtrlHandler(on_control, TRUE);
    *out = t;
    return ERR_OK;
}

void term_close(struct term *t)
{
    if (t) {
        give_back();
        (void)SetConsoleCtrlHandler(on_control, FALSE);
        if (t->wake) {
            (void)CloseHandle(t->wake);
        }
        mem_free(t);
    }
}

void term_size(const struct term *t, unsigned *rows, unsigned *columns)
{
    CONSOLE_SCREEN_BUFFER_INFO info;

    *rows = 24;
    *columns = 80;
    if (GetConsoleScreenBufferInfo(t->out, &info)) {
        *rows = (unsigned)(info.srWindow.Bottom - info.srWindow.Top + 1);
        *columns = (unsigned)(info.srWindow.Right - info.srWindow.Left + 1);
    }
}

/* -- keys -- */

/* One unit of UTF-16 as bytes of UTF-8; halves of a pair wait for each other. */
static void type(struct term *t, WCHAR unit)
{
    WCHAR pair[2] = {t->lead, unit};
    int n;

    if (unit >= 0xD800 && unit < 0xDC00) {
        t->lead = unit;
        return;
    }
    n = t->lead ? 2 : 1;
    t->lead = 0;
    n = WideCharToMultiByte(CP_UTF8, 0, n == 2 ? pair : pair + 1, n, (char *)t->bytes + t->n,
                            (int)(sizeof t->bytes - t->n), NULL, NULL);
    t->n += n > 0 ? (size_t)n : 0;
}

/* What the console has, without waiting. Bytes of an earlier time are read by now. */
static void collect(struct term *t)
{
    INPUT_RECORD records[RECORDS];
    DWORD n = 0;

    if (t->at == t->n) {
        t->at = t->n = 0;
    }
    if (t->n > 0 || !GetNumberOfConsoleInputEvents(t->in, &n) || n == 0 ||
        !ReadConsoleInputW(t->in, records, RECORDS, &n)) {
        return;
    }
    for (DWORD i = 0; i < n; i++) {
        const INPUT_RECORD *r = &records[i];

        if (r->EventType == WINDOW_BUFFER_SIZE_EVENT) {
            t->resized = true;
        } else if (r->EventType == KEY_EVENT && r->Event.KeyEvent.bKeyDown &&
                   r->Event.KeyEvent.uChar.UnicodeChar) {
            type(t, r->Event.KeyEvent.uChar.UnicodeChar);
        }
    }
}

unsigned term_wait(struct term *t, int64_t timeout_ns)
{
    HANDLE what[] = {t->in, t->wake};
    int64_t ms = timeout_ns < 0 ? 60000 : (timeout_ns + CLK_MS - 1) / CLK_MS;
    unsigned saw = 0;

    if (t->at == t->n) {
        DWORD which = WaitForMultipleObjects(2, what, FALSE, ms > 60000 ? 60000 : (DWORD)ms);

        saw |= which == WAIT_OBJECT_0 + 1 ? TERM_WOKEN : 0;
        saw |= which == WAIT_FAILED ? TERM_STOP : 0;
    }
    collect(t);
    saw |= t->at < t->n ? TERM_KEYS : 0;
    saw |= t->resized ? TERM_RESIZED : 0;
    saw |= atomic_load(&the.stop) ? TERM_STOP : 0;
    t->resized = false;
    return saw;
}

size_t term_read(struct term *t, void *p, size_t n)
{
    uint8_t *to = p;
    size_t done = 0;

    collect(t);
    while (done < n && t->at < t->n) {
        to[done++] = t->bytes[t->at++];
    }
    return done;
}

void term_write(struct term *t, const void *p, size_t n)
{
    const uint8_t *from = p;

    while (n > 0) {
        DWORD done = 0;

        if (!WriteFile(t->out, from, n < 16384 ? (DWORD)n : 16384, &done, NULL) || done == 0) {
            return;
        }
        from += done;
        n -= done;
    }
}

void term_wake(struct term *t)
{
    (void)SetEvent(t->wake);
}

void term_suspend(struct term *t)
{
    (void)t; /* there is no such thing */
}

bool term_is_utf8(void)
{
    return GetConsoleOutputCP() == CP_UTF8; /* os_args has set it */
}
