/* Signals only note what happened and write one byte into a pipe that term_wait looks at. Those of
 * a crash give the terminal back themselves, with calls that are allowed in a handler, and then let
 * whoever was responsible before - a sanitizer, the system - do the rest. */
#include "collector/cli/term/term.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "collector/cli/term/term_vt.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/os_posix.h"

#define WRITE_WAIT_MS \
    2000 /* a terminal that takes nothing for so long gets no more of this picture */

#define EMPTY_READS 20 /* readable, and nothing to read, so many times: the other side is gone */

static const int noted[] = {SIGWINCH, SIGCONT, SIGTSTP, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

#define N_NOTED (sizeof noted / sizeof *noted)
#define N_FATAL (sizeof fatal / sizeof *fatal)

struct term {
    bool lost;            /* it can be used no more */
    unsigned empty_reads; /* one after the other; a change of modes causes one at times */
    struct sigaction before[N_NOTED];
};

/* One terminal, one process: what handlers and atexit need. */
static struct {
    atomic_bool taken; /* it is raw now */
    struct termios saved;
    int pipe[2];
    atomic_uint signals; /* bits of enum note */
    struct sigaction before_fatal[N_FATAL];
} the = {.pipe = {-1, -1}};

enum note { NOTE_SIZE = 1, NOTE_SUSPEND = 2, NOTE_STOP = 4, NOTE_CONTINUED = 8 };

/* -- giving back and taking -- */

static void write_all(const char *p, size_t n)
{
    while (n > 0) {
        ssize_t done = write(STDOUT_FILENO, p, n);
        struct pollfd room = {.fd = STDOUT_FILENO, .events = POLLOUT};

        if (done >= 0) {
            p += done;
            n -= (size_t)done;
        } else if (errno == EAGAIN) {
            if (poll(&room, 1, WRITE_WAIT_MS) <= 0) {
                return;
            }
        } else if (errno != EINTR) {
            return;
        }
    }
}

/* Async-signal-safe, and idempotent: exit, a signal and term_close may all come here. */
static void give_back(void)
{
    if (atomic_exchange(&the.taken, false)) {
        write_all(TERM_LEAVE, sizeof TERM_LEAVE - 1);
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &the.saved);
    }
}

static enum err remember(void)
{
    return tcgetattr(STDIN_FILENO, &the.saved) == 0 ? ERR_OK : os_posix_err(errno);
}

static enum err take(void)
{
    struct termios raw = the.saved;

    raw.c_iflag &= ~(tcflag_t)(BRKINT | ICRNL | INPCK | ISTRIP | IXON);
    raw.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN | ISIG);
    raw.c_cflag |= CS8;
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) != 0) {
        return os_posix_err(errno);
    }
    atomic_store(&the.taken, true);
    write_all(TERM_ENTER, sizeof TERM_ENTER - 1);
    return ERR_OK;
}

/* -- signals -- */

static void poke(void)
{
    const char byte = 0;
    ssize_t done = write(the.pipe[1], &byte, 1); /* full: it wakes anyway */

    (void)done;
}

static void on_noted(int number)
{
    int keep = errno;

    atomic_fetch_or(&the.signals, number == SIGWINCH  ? NOTE_SIZE
                                  : number == SIGCONT ? NOTE_CONTINUED
                                  : number == SIGTSTP ? NOTE_SUSPEND
                                                      : NOTE_STOP);
    poke();
    errno = keep;
}

static void on_fatal(int number)
{
    give_back();
    for (size_t i = 0; i < N_FATAL; i++) {
        if (fatal[i] == number) {
            (void)sigaction(number, &the.before_fatal[i], NULL);
        }
    }
    (void)raise(number); /* comes when this handler has returned */
}

static void install(struct term *t)
{
    struct sigaction note = {.sa_handler = on_noted, .sa_flags = SA_RESTART};
    struct sigaction crash = {.sa_handler = on_fatal};

    (void)sigemptyset(&note.sa_mask);
    (void)sigemptyset(&crash.sa_mask);
    for (size_t i = 0; i < N_NOTED; i++) {
        (void)sigaction(noted[i], &note, &t->before[i]);
    }
    for (size_t i = 0; i < N_FATAL; i++) {
        (void)sigaction(fatal[i], &crash, &the.before_fatal[i]);
    }
}

static void uninstall(const struct term *t)
{
    for (size_t i = 0; i < N_NOTED; i++) {
        (void)sigaction(noted[i], &t->before[i], NULL);
    }
    for (size_t i = 0; i < N_FATAL; i++) {
        (void)sigaction(fatal[i], &the.before_fatal[i], NULL);
    }
}

/* -- opening and closing -- */

enum err term_usable(struct errmsg *why)
{
    const char *name = getenv("TERM");

    if (!os_is_terminal(0) || !os_is_terminal(1)) {
        return errmsg_set(why, ERR_INVALID, "standard input and output must be a terminal");
    }
    if (!name || !*name || strcmp(name, "dumb") == 0) {
        return errmsg_set(why, ERR_INVALID,
                          "this terminal cannot be steered (TERM is '%s'); set TERM to what it is",
                          name ? name : "");
    }
    return ERR_OK;
}

static enum err open_pipe(void)
{
    if (the.pipe[0] >= 0) {
        return ERR_OK; /* kept for the next time: a late signal must find it */
    }
    if (pipe(the.pipe) != 0) {
        return os_posix_err(errno);
    }
    for (int i = 0; i < 2; i++) {
        (void)fcntl(the.pipe[i], F_SETFD, FD_CLOEXEC);
        (void)fcntl(the.pipe[i], F_SETFL, O_NONBLOCK);
    }
    (void)atexit(give_back);
    return ERR_OK;
}

enum err term_open(struct term **out, struct errmsg *why)
{
    struct term *t;
    enum err e = term_usable(why);

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
    e = open_pipe();
    if (!e) {
        atomic_store(&the.signals, 0);
        e = remember();
    }
    if (!e) {
        install(t);
        e = take();
        if (e) {
            uninstall(t);
        }
    }
    if (e) {
        mem_free(t);
        return errmsg_set(why, e, "the terminal: %s", err_text(e));
    }
    *out = t;
    return ERR_OK;
}

void term_close(struct term *t)
{
    if (t) {
        give_back();
        uninstall(t);
        mem_free(t);
    }
}

void term_size(const struct term *t, unsigned *rows, unsigned *columns)
{
    struct winsize w = {0};

    (void)t;
    *rows = 24;
    *columns = 80;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row > 0 && w.ws_col > 0) {
        *rows = w.ws_row;
        *columns = w.ws_col;
    }
}

/* -- waiting, reading, writing -- */

static void empty_pipe(void)
{
    char bytes[64];

    while (read(the.pipe[0], bytes, sizeof bytes) > 0) {
        continue;
    }
}

/* What the signals that came mean. */
static unsigned by_signals(struct term *t)
{
    unsigned notes = atomic_exchange(&the.signals, 0), saw = 0;

    if (notes & NOTE_SUSPEND) {
        term_suspend(t);
        saw |= TERM_RESIZED;
    } else if (notes & NOTE_CONTINUED) { /* it was stopped by force: the shell had the terminal */
        saw |= take() == ERR_OK ? TERM_RESIZED : TERM_STOP;
    }
    saw |= notes & NOTE_SIZE ? TERM_RESIZED : 0;
    saw |= notes & NOTE_STOP ? TERM_STOP : 0;
    return saw;
}

unsigned term_wait(struct term *t, int64_t timeout_ns)
{
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = the.pipe[0], .events = POLLIN}};
    int64_t ms = timeout_ns < 0 ? -1 : (timeout_ns + CLK_MS - 1) / CLK_MS;
    unsigned saw = 0;

    if (poll(fds, 2, ms > 60000 ? 60000 : (int)ms) < 0) {
        fds[0].revents = fds[1].revents = 0;
    }
    if (fds[1].revents) {
        empty_pipe();
        saw |= TERM_WOKEN;
    }
    saw |= by_signals(t);
    saw |= fds[0].revents & POLLIN ? TERM_KEYS : 0;
    saw |= fds[0].revents & (POLLHUP | POLLERR | POLLNVAL) ? TERM_STOP : 0;
    return t->lost || t->empty_reads >= EMPTY_READS ? saw | TERM_STOP : saw;
}

size_t term_read(struct term *t, void *p, size_t n)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    ssize_t got;

    if (poll(&in, 1, 0) <= 0) {
        return 0;
    }
    got = read(STDIN_FILENO, p, n);
    if (got < 0) {
        t->lost = errno != EINTR && errno != EAGAIN;
        return 0;
    }
    t->empty_reads = got == 0 ? t->empty_reads + 1 : 0;
    return (size_t)got;
}

void term_write(struct term *t, const void *p, size_t n)
{
    (void)t;
    write_all(p, n);
}

void term_wake(struct term *t)
{
    (void)t;
    poke();
}

void term_suspend(struct term *t)
{
    struct sigaction usual = {.sa_handler = SIG_DFL}, mine;

    (void)sigemptyset(&usual.sa_mask);
    give_back();
    (void)sigaction(SIGTSTP, &usual, &mine);
    (void)raise(SIGTSTP); /* stops all threads, and returns when it goes on */
    (void)sigaction(SIGTSTP, &mine, NULL);
    atomic_fetch_and(&the.signals, ~(unsigned)(NOTE_CONTINUED | NOTE_SUSPEND));
    if (remember() != ERR_OK || take() != ERR_OK) {
        t->lost = true;
    }
}

bool term_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);

        if (value && *value) {
            return strstr(value, "UTF-8") || strstr(value, "utf8") || strstr(value, "UTF8") ||
                   strstr(value, "utf-8");
        }
    }
    return false;
}
