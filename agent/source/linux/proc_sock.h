/* The netlink sockets of the Linux source: process connector (starts, exec, ends as they happen)
 * and taskstats (what every ended thread used). Both need CAP_NET_ADMIN in the first namespaces.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_SOURCE_LINUX_PROC_SOCK_H
#define PROCFLEET_AGENT_SOURCE_LINUX_PROC_SOCK_H

#include "agent/source/linux/proc_net.h"
#include "common/base/err.h"

struct proc_sock;

/* Opens and subscribes what the kernel grants. `why` says, on ERR_OK, in one sentence which means
 * are in use. Errors: ERR_NOMEM, ERR_IO (a socket cannot be made), ERR_ACCESS (no right to the
 * process connector), ERR_TIMEOUT (it does not answer: another namespace or kernel without it) */
NODISCARD enum err proc_sock_open(struct proc_sock **out, struct errmsg *why);
void proc_sock_close(struct proc_sock *s);

bool proc_sock_has_records(const struct proc_sock *s); /* taskstats is there as well */

/* Waits until something came, until `other` can be read (*other_ready) or for `ns`. Where there are
 * records, not everything wakes: see proc_sock.c; drain at least once a second. s may be NULL.
 * Errors: ERR_IO */
NODISCARD enum err proc_sock_wait(struct proc_sock *s, int other, int64_t ns, bool *other_ready);

struct proc_sock_sink {
    void *ctx;
    void (*event)(void *ctx, const struct proc_net_event *ev);
    /* PROC_TOOK_NOT: it is offered again after further events. final: there are none before it any
     * more, it is not offered again. */
    enum proc_took (*task)(void *ctx, const struct proc_net_task *task, bool final);
};

/* Hands on everything that waits. Before a record's last offer come all events that happened before
 * it; an end may come before its records.
 * *lost: how often a socket overflowed since the last call; *damaged: messages not understood. */
void proc_sock_drain(struct proc_sock *s, const struct proc_sock_sink *sink, uint64_t *lost,
                     uint64_t *damaged);

/* Switches and waits of a process over its living threads: of the others nothing means anything.
 * Errors: ERR_NOTFOUND, ERR_IO */
NODISCARD enum err proc_sock_sums(struct proc_sock *s, uint32_t pid, struct proc_net_task *out);

/* Whether these include ended threads: differs between kernels, found out by trying. */
bool proc_sock_counts_ended(const struct proc_sock *s);

#endif
