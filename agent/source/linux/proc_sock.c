/* Most messages can wait: an end says little after its record, a thread's start and end nothing
 * that is wanted at once. Execs and records cannot wait, as the process may be gone before its
 * files could be read; nor can forks, whose exec comes within the millisecond: if the agent runs by
 * then, it has a CPU of its own, else the kernel often lets it wait behind the new program, until
 * that has ended. So a second socket of the connector, the bell, gets forks of processes and execs
 * alone, by a filter in the kernel: it wakes the agent and is emptied unread, and what happened is
 * read, in its order, from the first one. Without records the first one wakes, as it has the ends.
 *
 * Rejected: waiting some milliseconds for more messages (command lines of brief programs would be
 * gone), and execs alone in the bell (four of five were gone in a trial with two CPUs). */
#include "agent/source/linux/proc_sock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define PACKETS       16
#define PACKET_MAX    2048
#define RECEIVE_BYTES (16 << 20) /* kernel memory, used only while we are late */
#define ANSWER_MS     500
#define ROUNDS_MAX    1000 /* of one drain: 16,000 messages, then the others have their turn */

struct packets {
    struct mmsghdr headers[PACKETS];
    struct iovec parts[PACKETS];
    struct sockaddr_nl from[PACKETS];
    uint8_t bytes[PACKETS][PACKET_MAX];
};

struct proc_sock {
    int events, exits, query; /* -1 = not open */
    int bell;                 /* forks of processes and execs; -1 = events wakes */
    bool rang, recorded;      /* something may wait in bell, in exits */
    uint16_t family;
    bool counts_ended;
    struct packets of_events, of_exits;
    struct proc_net_task tasks[PACKETS]; /* records that wait for the events before them */
    size_t n_tasks;
    uint8_t answer[PACKET_MAX];
};

/* filter: NULL = everything comes. */
static enum err open_socket(int *out, int protocol, uint32_t groups,
                            const struct sock_fprog *filter)
{
    struct sockaddr_nl me = {.nl_family = AF_NETLINK, .nl_groups = groups};
    int bytes = RECEIVE_BYTES;
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);

    if (fd < 0) {
        return errno == EPROTONOSUPPORT ? ERR_UNSUPPORTED : ERR_IO;
    }
    /* Without the right to force it, as much as any process may have. */
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    }
    if ((filter && setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, filter, sizeof *filter) != 0) ||
        bind(fd, (struct sockaddr *)&me, sizeof me) != 0) {
        enum err e = errno == EPERM || errno == EACCES ? ERR_ACCESS : ERR_IO;

        close(fd);
        return e;
    }
    *out = fd;
    return ERR_OK;
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

static enum err send_request(int fd, const uint8_t *p, size_t n)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

    if (sendto(fd, p, n, 0, (struct sockaddr *)&kernel, sizeof kernel) != (ssize_t)n) {
        return errno == EPERM || errno == EACCES ? ERR_ACCESS : ERR_IO;
    }
    return ERR_OK;
}

/* One packet from the kernel, waiting until the moment; others' packets are ignored. */
static enum err receive(int fd, uint8_t *p, size_t cap, size_t *n, int64_t until_ns)
{
    for (;;) {
        struct sockaddr_nl from = {0};
        socklen_t from_n = sizeof from;
        ssize_t got = recvfrom(fd, p, cap, 0, (struct sockaddr *)&from, &from_n);
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int64_t left = (until_ns - os_mono_ns()) / CLK_MS;

        if (got >= 0 && from.nl_pid == 0) {
            *n = (size_t)got;
            return ERR_OK;
        }
        if (got < 0 && errno != EAGAIN && errno != EINTR) {
            return ERR_IO;
        }
        if (left <= 0) {
            return ERR_TIMEOUT;
        }
        (void)poll(&wait, 1, (int)left);
    }
}

static enum err open_events(struct proc_sock *s)
{
    uint8_t request[PROC_NET_REQUEST_MAX];
    int64_t until_ns = os_mono_ns() + ANSWER_MS * CLK_MS;
    uint32_t token = 0;
    enum err e = os_random(&token, sizeof token);

    if (!e) {
        e = open_socket(&s->events, NETLINK_CONNECTOR, 1, NULL);
    }
    if (!e) {
        e = send_request(s->events, request, proc_net_listen(request, true, token));
    }
    /* Other events may come before the acknowledgement; nothing is known yet, so they may go. They
     * come without end where others have subscribed and we are not answered. */
    while (!e) {
        struct proc_net_event ev;
        struct proc_net_msg msg;
        struct cur packet;
        size_t n;

        e = os_mono_ns() < until_ns ? receive(s->events, s->answer, PACKET_MAX, &n, until_ns)
                                    : ERR_TIMEOUT;
        if (e) {
            break;
        }
        packet = cur_make(s->answer, n);
        if (proc_net_next(&packet, &msg) == ERR_OK && proc_net_event(&ev, &msg) == ERR_OK &&
            ev.kind == PROC_NET_ACK && ev.token == token) {
            e = ev.code ? ERR_ACCESS : ERR_OK;
            break;
        }
    }
    if (e) {
        close_fd(&s->events);
    }
    return e;
}

static enum err ask(int fd, struct proc_sock *s, const uint8_t *request, size_t request_n,
                    struct proc_net_msg *answer)
{
    struct cur packet;
    size_t n;
    enum err e = send_request(fd, request, request_n);

    if (!e) {
        e = receive(fd, s->answer, PACKET_MAX, &n, os_mono_ns() + ANSWER_MS * CLK_MS);
    }
    if (!e) {
        packet = cur_make(s->answer, n);
        e = proc_net_next(&packet, answer);
    }
    return e == ERR_END ? ERR_CORRUPT : e;
}

/* The CPUs that may ever be there, as the kernel writes them ("0-3"). */
static void possible_cpus(char text[100])
{
    int fd = open("/sys/devices/system/cpu/possible", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, 99);

    if (fd >= 0) {
        close(fd);
    }
    if (n <= 0) {
        memcpy(text, "0", 2);
        return;
    }
    text[n] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

static enum err register_exits(struct proc_sock *s)
{
    uint8_t request[PROC_NET_REQUEST_MAX];
    struct proc_net_msg msg;
    char cpus[100];
    int error = 0;
    enum err e;

    e = ask(s->exits, s, request, proc_net_ask_family(request, "TASKSTATS"), &msg);
    if (!e) {
        e = proc_net_family(&s->family, &msg);
    }
    if (e) {
        return e;
    }
    possible_cpus(cpus);
    e = ask(s->exits, s, request, proc_net_register(request, s->family, cpus), &msg);
    if (!e) {
        e = proc_net_result(&error, &msg);
    }
    return e ? e : error ? ERR_ACCESS : ERR_OK;
}

static enum err query_group(struct proc_sock *s, uint32_t pid, struct proc_net_task *task)
{
    uint8_t request[PROC_NET_REQUEST_MAX];
    struct proc_net_msg msg;
    int error;
    enum err e = ask(s->query, s, request, proc_net_ask_group(request, s->family, pid), &msg);

    if (e) {
        return e;
    }
    if (proc_net_result(&error, &msg) == ERR_OK) {
        return error ? ERR_NOTFOUND : ERR_CORRUPT;
    }
    return proc_net_task(task, &msg);
}

/* A thread that waits some two hundred times, says so, and ends when it is let go. */
#define TRIAL_WAITS 200

struct trial {
    int waited[2], go[2]; /* pipes */
};

static void trial_thread(void *arg)
{
    struct trial *tr = arg;
    struct timespec shortest = {0, 1};
    char c = 0;

    for (int i = 0; i < TRIAL_WAITS; i++) {
        nanosleep(&shortest, NULL);
    }
    if (write(tr->waited[1], &c, 1) == 1) {
        while (read(tr->go[0], &c, 1) < 0 && errno == EINTR) {
        }
    }
}

/* The sum with the thread alive, then with it ended: on a kernel that forgets ended threads it
 * falls by what that thread had. */
static enum err try_ended(struct proc_sock *s)
{
    struct trial tr = {{-1, -1}, {-1, -1}};
    struct proc_net_task alive, ended;
    struct os_thread *th = NULL;
    enum err e = ERR_IO;
    char c = 0;

    if (pipe2(tr.waited, O_CLOEXEC) != 0 || pipe2(tr.go, O_CLOEXEC) != 0) {
        goto out;
    }
    e = os_thread_start(&th, "trial", trial_thread, &tr);
    if (e) {
        goto out;
    }
    while (read(tr.waited[0], &c, 1) < 0 && errno == EINTR) {
    }
    e = proc_sock_sums(s, (uint32_t)getpid(), &alive);
    close_fd(&tr.go[1]); /* end of file lets it go */
    os_thread_join(th);
    if (!e) {
        e = proc_sock_sums(s, (uint32_t)getpid(), &ended);
    }
    s->counts_ended = !e && ended.switches + TRIAL_WAITS / 2 > alive.switches;
out:
    close_fd(&tr.waited[0]);
    close_fd(&tr.waited[1]);
    close_fd(&tr.go[0]);
    close_fd(&tr.go[1]);
    return e;
}

static enum err open_exits(struct proc_sock *s)
{
    struct proc_net_task task;
    enum err e = open_socket(&s->exits, NETLINK_GENERIC, 0, NULL);

    if (!e) {
        e = register_exits(s);
    }
    if (!e) {
        e = open_socket(&s->query, NETLINK_GENERIC, 0, NULL);
    }
    if (!e) {
        e = query_group(s, (uint32_t)getpid(), &task);
    }
    if (!e) {
        e = try_ended(s);
    }
    if (e) {
        close_fd(&s->exits);
        close_fd(&s->query);
        return e;
    }
    return ERR_OK;
}

static void prepare(struct packets *k)
{
    for (size_t i = 0; i < PACKETS; i++) {
        k->parts[i] = (struct iovec){k->bytes[i], PACKET_MAX};
        k->headers[i].msg_hdr = (struct msghdr){.msg_name = &k->from[i],
                                                .msg_namelen = sizeof k->from[i],
                                                .msg_iov = &k->parts[i],
                                                .msg_iovlen = 1};
    }
}

enum err proc_sock_open(struct proc_sock **out, struct errmsg *why)
{
    struct proc_sock *s = mem_zalloc(sizeof *s);
    enum err e;

    if (!s) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    s->events = s->exits = s->query = s->bell = -1;
    prepare(&s->of_events);
    prepare(&s->of_exits);
    e = open_events(s);
    if (e) {
        proc_sock_close(s);
        return errmsg_set(why, e, "%s",
                          e == ERR_ACCESS ? "the process connector needs CAP_NET_ADMIN"
                          : e == ERR_TIMEOUT
                              ? "the process connector does not answer (a container, or a kernel "
                                "without CONFIG_PROC_EVENTS)"
                              : "the process connector cannot be opened");
    }
    e = open_exits(s);
    if (e == ERR_NOMEM) {
        proc_sock_close(s);
        return errmsg_set(why, e, "out of memory");
    }
    if (!e) {
        err_ignore(open_socket(&s->bell, NETLINK_CONNECTOR, 1, &proc_net_bell));
    }
    s->rang = s->bell >= 0;
    s->recorded = s->exits >= 0;
    err_ignore(errmsg_set(why, ERR_OK, "starts and exits from the process connector, %s",
                          !e                 ? "exact totals at exit from taskstats"
                          : e == ERR_VERSION ? "no exact totals: this kernel's taskstats is too old"
                          : e == ERR_ACCESS  ? "no exact totals: taskstats needs CAP_NET_ADMIN"
                                             : "no exact totals: this kernel has no taskstats"));
    *out = s;
    return ERR_OK;
}

void proc_sock_close(struct proc_sock *s)
{
    if (s) {
        close_fd(&s->events);
        close_fd(&s->exits);
        close_fd(&s->query);
        close_fd(&s->bell);
        mem_free(s);
    }
}

bool proc_sock_has_records(const struct proc_sock *s)
{
    return s->exits >= 0;
}

enum err proc_sock_wait(struct proc_sock *s, int other, int64_t ns, bool *other_ready)
{
    struct pollfd fds[3] = {{.fd = other, .events = POLLIN},
                            {.fd = !s             ? -1
                                   : s->bell >= 0 ? s->bell
                                                  : s->events,
                             .events = POLLIN},
                            {.fd = s ? s->exits : -1, .events = POLLIN}};
    const struct timespec t = {ns / CLK_S, ns % CLK_S};

    if (ppoll(fds, s ? 3 : 1, &t, NULL) < 0 && errno != EINTR) {
        return ERR_IO;
    }
    if (s) {
        s->rang = s->bell >= 0 && fds[1].revents != 0;
        s->recorded = s->exits >= 0 && fds[2].revents != 0;
    }
    *other_ready = (fds[0].revents & POLLIN) != 0;
    return ERR_OK;
}

/* Up to `max` packets; 0 when nothing waits. An overflow is reported by the socket once and
 * counted; what had fitted is still there. */
static int receive_many(struct packets *k, int fd, unsigned max, uint64_t *lost)
{
    for (;;) {
        int n;

        for (size_t i = 0; i < PACKETS; i++) {
            k->headers[i].msg_hdr.msg_namelen = sizeof k->from[i];
        }
        n = recvmmsg(fd, k->headers, max, MSG_DONTWAIT, NULL);
        if (n >= 0) {
            return n;
        }
        if (errno == ENOBUFS) {
            (*lost)++;
        } else if (errno != EINTR) {
            return 0;
        }
    }
}

static void hand_on_events(const struct packets *k, int n, const struct proc_sock_sink *sink,
                           uint64_t *damaged)
{
    for (int i = 0; i < n; i++) {
        struct cur packet = cur_make(k->bytes[i], k->headers[i].msg_len);
        struct proc_net_event ev;
        struct proc_net_msg msg;
        enum err e;

        if (k->from[i].nl_pid != 0) {
            continue; /* only the kernel is listened to */
        }
        while ((e = proc_net_next(&packet, &msg)) == ERR_OK) {
            e = proc_net_event(&ev, &msg);
            if (!e) {
                sink->event(sink->ctx, &ev);
            }
            *damaged += e != ERR_OK;
        }
        *damaged += e != ERR_END;
    }
}

/* Takes in as many records as there is room for; the kernel sends each in a packet of its own.
 * True: more may wait. */
static bool fetch_records(struct proc_sock *s, uint64_t *lost, uint64_t *damaged)
{
    const struct packets *k = &s->of_exits;
    unsigned room = PACKETS - (unsigned)s->n_tasks;
    int n = room > 0 ? receive_many(&s->of_exits, s->exits, room, lost) : 0;

    for (int i = 0; i < n; i++) {
        struct cur packet = cur_make(k->bytes[i], k->headers[i].msg_len);
        struct proc_net_task *task = &s->tasks[s->n_tasks];
        struct proc_net_msg msg;
        enum err e;

        if (k->from[i].nl_pid != 0) {
            continue;
        }
        e = proc_net_next(&packet, &msg);
        if (!e) {
            e = proc_net_task(task, &msg);
        }
        if (!e && !task->group) {
            s->n_tasks++;
        }
        *damaged += e != ERR_OK && e != ERR_NOTFOUND;
    }
    return n == (int)room;
}

/* Those not taken yet wait on, unless there is nothing more to wait for: no event is left, or a
 * younger record was taken with the end of its process. A stranger's, which is never taken,
 * would else hold up those behind it while events fill the table. (So do PACKETS strangers in a
 * row: after an overflow, when tables set right what was lost anyway.) */
static void hand_on_records(struct proc_sock *s, const struct proc_sock_sink *sink, bool final)
{
    size_t kept = 0, older = 0;

    for (size_t i = 0; i < s->n_tasks; i++) {
        enum proc_took took = sink->task(sink->ctx, &s->tasks[i], final);

        if (took == PROC_TOOK_NOT && !final) {
            s->tasks[kept++] = s->tasks[i];
        } else if (took == PROC_TOOK_ENDED) {
            older = kept;
        }
    }
    for (size_t i = 0; i < older; i++) {
        (void)sink->task(sink->ctx, &s->tasks[i], true);
    }
    s->n_tasks = kept - older;
    memmove(s->tasks, s->tasks + older, s->n_tasks * sizeof *s->tasks);
}

/* Both streams are taken in small, alternating portions, so that after a delay a backlog of
 * thousands of lives passes through a few places of the table: all events first would fill it with
 * processes whose records still wait. */
void proc_sock_drain(struct proc_sock *s, const struct proc_sock_sink *sink, uint64_t *lost,
                     uint64_t *damaged)
{
    uint64_t unheard = 0;

    *lost = *damaged = 0;
    /* Before the events, so that a later one rings again. */
    while (s->rang) {
        s->rang = receive_many(&s->of_events, s->bell, PACKETS, &unheard) == PACKETS;
    }
    for (int round = 0; round < ROUNDS_MAX; round++) {
        bool more = s->recorded && fetch_records(s, lost, damaged);
        int events = receive_many(&s->of_events, s->events, PACKETS, lost);

        hand_on_events(&s->of_events, events, sink, damaged);
        /* Less than asked for: every event older than the records has been handed on. */
        hand_on_records(s, sink, events < PACKETS);
        s->rang = s->bell >= 0; /* until the next wait says otherwise */
        s->recorded = s->exits >= 0;
        if (events < PACKETS && !more) {
            return;
        }
    }
}

enum err proc_sock_sums(struct proc_sock *s, uint32_t pid, struct proc_net_task *out)
{
    enum err e = query_group(s, pid, out);

    return e == ERR_OK || e == ERR_NOTFOUND ? e : ERR_IO;
}

bool proc_sock_counts_ended(const struct proc_sock *s)
{
    return s->counts_ended;
}
