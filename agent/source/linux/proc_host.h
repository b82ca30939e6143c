/* What the readers of procfs share: the machine's constants and clocks, the descriptor budget, the
 * source's counters, names of users. Threads: one owner; only the counters are read elsewhere. */
#ifndef PROCFLEET_AGENT_SOURCE_LINUX_PROC_HOST_H
#define PROCFLEET_AGENT_SOURCE_LINUX_PROC_HOST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/source/source.h"
#include "common/base/clk.h"
#include "common/base/err.h"

#define PROC_USER_MAX  64            /* bytes of an account name */
#define PROC_TICK_NS   (10 * CLK_MS) /* of the scheduler: CONFIG_HZ is 100 at least */
#define PROC_USERS_MAX 256 /* names remembered; beyond it the number stands for the name */

struct proc_counts {
    _Atomic uint64_t in, facts, late, ended, lost_events, damaged, gone, denied, capped;
};

struct proc_user {
    uint32_t uid;
    char name[PROC_USER_MAX];
};

struct proc_host {
    int root; /* directory /proc */
    int64_t tick_ns, page_bytes;
    int64_t boot_wall_ns; /* UTC of the start of the system, fixed at open */
    int64_t mono_to_wall_ns, mono_to_boot_ns;
    size_t fds_left;       /* descriptors that may still be kept */
    bool every_file;       /* read in full whatever it shows: to measure, and to compare */
    int delays_fd;         /* of kernel.task_delayacct; -1: this kernel has none */
    bool delays;           /* it is on: waits for disk and memory are measured */
    bool fd_dir_has_count; /* since 6.2 the size of /proc/PID/fd is its number of entries */
    struct proc_counts counts;
    struct proc_user *users;
    size_t n_users;
};

/* Raises the soft limit of descriptors to the hard one. proc_dir is "/proc" outside of tests.
 * Errors: ERR_NOMEM, ERR_NOTFOUND or ERR_ACCESS (procfs is missing), ERR_IO */
NODISCARD enum err proc_host_open(struct proc_host *h, const char *proc_dir, struct errmsg *why);
void proc_host_close(struct proc_host *h);

/* Compares the clocks anew, and looks at what the kernel measures; called once a tick. */
void proc_host_clocks(struct proc_host *h);

/* A start in ticks as UTC, and the ticks of a monotonic moment. */
int64_t proc_host_create_ns(const struct proc_host *h, uint64_t start_ticks);
uint64_t proc_host_ticks_at(const struct proc_host *h, int64_t mono_ns);

/* "PID/file", without printf, which costs as much as it takes the kernel to find the file. */
#define PROC_PATH_MAX 64
void proc_host_path(char out[PROC_PATH_MAX], uint32_t pid, const char *file);

/* Opens a file or directory of process pid; the caller closes *fd. Errors: as proc_host_read. */
NODISCARD enum err proc_host_open_file(const struct proc_host *h, int *fd, uint32_t pid,
                                       const char *file, int flags);

/* Reads a file of process pid from its beginning: at most cap bytes, *n of them came.
 * Errors: ERR_NOTFOUND (the process has ended), ERR_ACCESS, ERR_FULL (no descriptor left), ERR_IO
 */
NODISCARD enum err proc_host_read(struct proc_host *h, uint32_t pid, const char *file, char *buf,
                                  size_t cap, size_t *n);

/* The same through a descriptor that stays open in *fd (-1 = not open yet) while the budget lasts;
 * it belongs to this process for ever, whoever gets its number later. */
NODISCARD enum err proc_host_read_kept(struct proc_host *h, int *fd, uint32_t pid, const char *file,
                                       char *buf, size_t cap, size_t *n);
/* Opens a kept descriptor without reading. Errors: as above. */
NODISCARD enum err proc_host_keep(struct proc_host *h, int *fd, uint32_t pid, const char *file,
                                  int flags);
void proc_host_release(struct proc_host *h, int *fd);

/* Time process pid, all of its threads together, has had a CPU. Anybody may ask, and it costs a
 * quarter of what one thread's schedstat does. A thread that has a CPU is charged at every tick of
 * the scheduler: *run_ns may be PROC_TICK_NS old. Errors: ERR_NOTFOUND (it has ended) */
NODISCARD enum err proc_host_cpu(uint32_t pid, uint64_t *run_ns);

/* Account name of a user, its number as text where there is none. Borrowed until the next call. */
const char *proc_host_user(struct proc_host *h, uint32_t uid);

#endif
