/* A socket in the state directory, which belongs to the agent's user and is closed to others; who
 * connects is asked of the kernel all the same. */
#include "agent/control/control_pipe.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/control/control.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/os_posix.h"

#define NAME    "/control"
#define WAITING 4

struct control_pipe {
    int listen, stop;
    struct sockaddr_un address;
};

static enum err pipe_address(struct sockaddr_un *out, const char *dir, struct errmsg *why)
{
    int n;

    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    n = snprintf(out->sun_path, sizeof out->sun_path, "%s" NAME, dir);
    return n > 0 && n < (int)sizeof out->sun_path
               ? ERR_OK
               : errmsg_set(why, ERR_RANGE, "%s is too long a path for a socket in it", dir);
}

/* What a killed agent left there goes: the caller has the directory's lock. */
enum err control_pipe_open(struct control_pipe **out, const char *dir, struct errmsg *why)
{
    struct control_pipe *p = mem_zalloc(sizeof *p);
    enum err e =
        p ? pipe_address(&p->address, dir, why) : errmsg_set(why, ERR_NOMEM, "out of memory");

    if (e) {
        mem_free(p);
        return e;
    }
    (void)unlink(p->address.sun_path);
    p->stop = eventfd(0, EFD_CLOEXEC);
    p->listen = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->stop < 0 || p->listen < 0 ||
        bind(p->listen, (const struct sockaddr *)&p->address, sizeof p->address) != 0 ||
        chmod(p->address.sun_path, S_IRUSR | S_IWUSR) != 0 || listen(p->listen, WAITING) != 0) {
        e = os_posix_err(errno);
        (void)errmsg_set(why, e, "%s: %s", p->address.sun_path, err_text(e));
        control_pipe_close(p);
        return e;
    }
    *out = p;
    return ERR_OK;
}

static bool pipe_may_ask(int fd)
{
    struct ucred who;
    socklen_t n = sizeof who;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 &&
           (who.uid == 0 || who.uid == geteuid());
}

/* Whether it can be read (or written) before that moment, and nobody stops meanwhile. */
static bool pipe_ready(int fd, int stop, short what, int64_t until_ns)
{
    struct pollfd both[2] = {{.fd = fd, .events = what}, {.fd = stop, .events = POLLIN}};
    int64_t left_ns = until_ns - os_mono_ns();

    return left_ns > 0 && poll(both, stop < 0 ? 1 : 2, (int)(left_ns / CLK_MS) + 1) > 0 &&
           !(stop >= 0 && both[1].revents) && (both[0].revents & what);
}

/* One line without its end. */
static enum err pipe_read_line(int fd, int stop, char line[CONTROL_LINE], size_t *n)
{
    int64_t until_ns = os_mono_ns() + CONTROL_WAIT_NS;
    size_t have = 0;

    while (have < CONTROL_LINE) {
        char *end;
        ssize_t got;

        if (!pipe_ready(fd, stop, POLLIN, until_ns)) {
            return ERR_TIMEOUT;
        }
        got = recv(fd, line + have, CONTROL_LINE - have, MSG_DONTWAIT);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        if (got <= 0) {
            return got < 0 ? os_posix_err(errno) : ERR_CLOSED;
        }
        end = memchr(line + have, '\n', (size_t)got);
        have += (size_t)got;
        if (end) {
            *n = (size_t)(end - line);
            return ERR_OK;
        }
    }
    return ERR_FULL;
}

static enum err pipe_write(int fd, int stop, const uint8_t *p, size_t n)
{
    int64_t until_ns = os_mono_ns() + CONTROL_WAIT_NS;

    while (n > 0) {
        ssize_t put;

        if (!pipe_ready(fd, stop, POLLOUT, until_ns)) {
            return ERR_TIMEOUT;
        }
        put = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && errno != EINTR && errno != EAGAIN) {
            return os_posix_err(errno);
        }
        p += put > 0 ? put : 0;
        n -= put > 0 ? (size_t)put : 0;
    }
    return ERR_OK;
}

void control_pipe_serve(struct control_pipe *p,
                        void (*answer)(void *ctx, const char *line, size_t n, struct buf *out),
                        void *ctx)
{
    struct pollfd both[2] = {{.fd = p->listen, .events = POLLIN},
                             {.fd = p->stop, .events = POLLIN}};
    char line[CONTROL_LINE];
    size_t n;

    for (;;) {
        struct buf out;
        int fd;

        if (poll(both, 2, -1) < 0 && errno != EINTR) {
            return;
        }
        if (both[1].revents) {
            return;
        }
        fd = accept4(p->listen, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) { /* none are left, say: it stays readable */
            (void)poll(&both[1], 1, 100);
            continue;
        }
        buf_init(&out, CONTROL_LINE);
        if (pipe_may_ask(fd) && pipe_read_line(fd, p->stop, line, &n) == ERR_OK) {
            answer(ctx, line, n, &out);
            err_ignore(pipe_write(fd, p->stop, out.p, out.bad ? 0 : out.n));
        }
        buf_fini(&out);
        close(fd);
    }
}

void control_pipe_stop(struct control_pipe *p)
{
    uint64_t one = 1;

    while (write(p->stop, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void control_pipe_close(struct control_pipe *p)
{
    if (!p) {
        return;
    }
    if (p->listen >= 0) {
        (void)unlink(p->address.sun_path);
        close(p->listen);
    }
    if (p->stop >= 0) {
        close(p->stop);
    }
    mem_free(p);
}

enum err control_pipe_ask(const char *dir, const char *line, size_t n, struct buf *out,
                          struct errmsg *why)
{
    struct sockaddr_un to;
    char got[CONTROL_LINE];
    size_t got_n;
    enum err e = pipe_address(&to, dir, why);
    int fd = e ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (e) {
        return e;
    }
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof to) != 0) {
        e = errno == ENOENT || errno == ECONNREFUSED ? ERR_NOTFOUND : os_posix_err(errno);
    }
    e = e ? e : pipe_write(fd, -1, (const uint8_t *)line, n);
    e = e ? e : pipe_read_line(fd, -1, got, &got_n);
    if (!e) {
        buf_put(out, got, got_n);
    }
    if (fd >= 0) {
        close(fd);
    }
    return !e ? ERR_OK
              : errmsg_set(why, e,
                           e == ERR_NOTFOUND  ? "no agent listens at %s: is it running, and with "
                                                "this state_dir?"
                           : e == ERR_CLOSED  ? "the agent at %s does not take this account's "
                                                "wishes: ask as root, or as its own user"
                           : e == ERR_ACCESS  ? "%s is closed to this account: ask as root, or as "
                                                "the agent's own user"
                           : e == ERR_TIMEOUT ? "the agent at %s did not answer in time"
                                              : "%s cannot be asked",
                           to.sun_path);
}
