/* Netlink messages of the process connector and of taskstats: bytes to plain structs and back, as
 * pure functions; the sockets are in proc_sock.h. The kernel is the only sender that is listened
 * to, yet kernels differ in age, so lengths and versions are checked like any other input.
 * Numbers are in the machine's own byte order, which on every Linux this is built for is little
 * endian. */
#ifndef PROCFLEET_AGENT_SOURCE_LINUX_PROC_NET_H
#define PROCFLEET_AGENT_SOURCE_LINUX_PROC_NET_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/cur.h"
#include "common/base/err.h"

/* One netlink message: type and body. Errors: ERR_END (nothing left), ERR_CORRUPT. */
struct proc_net_msg {
    uint16_t type;
    struct cur body;
};
NODISCARD enum err proc_net_next(struct cur *packet, struct proc_net_msg *out);

/* -- process connector -- */

enum proc_net_kind {
    PROC_NET_ACK, /* of the subscription; `code` 0 = granted, else an errno */
    PROC_NET_FORK,
    PROC_NET_EXEC,
    PROC_NET_UID,
    PROC_NET_EXIT,
    PROC_NET_OTHER, /* of no interest here */
};

/* Process = thread group. Stamps are the monotonic clock's. */
struct proc_net_event {
    enum proc_net_kind kind;
    int64_t mono_ns;
    uint32_t pid, tid;   /* the process it happened to, the thread of it */
    uint32_t parent_pid; /* fork */
    uint32_t code;       /* exit: wait status; uid: the real user; ack: errno */
    uint32_t
        token; /* ack: that of the subscription it answers; every subscriber gets all of them */
};
NODISCARD enum err proc_net_event(struct proc_net_event *out, const struct proc_net_msg *msg);

/* The subscription message; its answer bears the token. Gives its length, at most
 * PROC_NET_REQUEST_MAX. */
#define PROC_NET_REQUEST_MAX 192
size_t proc_net_listen(uint8_t out[PROC_NET_REQUEST_MAX], bool on, uint32_t token);

/* Lets through forks of processes and execs alone. */
extern const struct sock_fprog proc_net_bell;

/* -- taskstats -- */

#define PROC_NET_EXIT_VERSION 12 /* the first that names the process of a thread */

/* What threads waited for. */
struct proc_net_waits {
    bool ready_known; /* the kernel keeps it (CONFIG_SCHED_INFO) */
    uint64_t ready_ns;
    uint64_t io_ns, memory_ns; /* 0 while kernel.task_delayacct is */
};

/* What one thread used from its first to its last moment. */
struct proc_net_task {
    uint16_t version;
    bool group;  /* of a whole process, as a query's answer */
    bool last;   /* the process's last thread */
    bool leader; /* the thread whose id is the process's */
    uint32_t pid, tid, parent_pid, uid;
    uint32_t exit_status; /* wait status; of the leader only */
    char name[32];
    size_t name_n;
    uint64_t run_ns; /* measured; 0 = this kernel does not say */
    uint64_t user_ns, kernel_ns;
    uint64_t minor_faults, major_faults;
    uint64_t peak_bytes;
    uint64_t read_chars, write_chars; /* rounded down to KiB by the kernel */
    uint64_t disk_read, disk_write;   /* likewise */
    uint64_t switches;                /* voluntary + nonvoluntary */
    struct proc_net_waits waits;
};

/* What became of a record that was offered. */
enum proc_took {
    PROC_TOOK_NOT, /* its process, or how it ended, is not known yet */
    PROC_TOOK,
    PROC_TOOK_ENDED, /* and its process's end was known: so is all that happened before it */
};

/* Errors: ERR_NOTFOUND (a message without such a record), ERR_VERSION (too old), ERR_CORRUPT */
NODISCARD enum err proc_net_task(struct proc_net_task *out, const struct proc_net_msg *msg);

/* The number of the generic netlink family from the answer to proc_net_ask_family. */
NODISCARD enum err proc_net_family(uint16_t *out, const struct proc_net_msg *msg);

/* The errno of an acknowledgement (0 = granted). Errors: ERR_NOTFOUND (no acknowledgement) */
NODISCARD enum err proc_net_result(int *error, const struct proc_net_msg *msg);

size_t proc_net_ask_family(uint8_t out[PROC_NET_REQUEST_MAX], const char *name);
/* `cpus` as in "0-3,8", at most 100 bytes. */
size_t proc_net_register(uint8_t out[PROC_NET_REQUEST_MAX], uint16_t family, const char *cpus);
size_t proc_net_ask_group(uint8_t out[PROC_NET_REQUEST_MAX], uint16_t family, uint32_t pid);

#endif
