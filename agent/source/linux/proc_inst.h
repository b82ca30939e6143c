/* The processes the Linux source knows, by pid, each with its identity, attributes, open
 * descriptors and what its ended threads used.
 * Bounds:  `max` instances, allocated at once; ERR_FULL beyond. At most PROC_THREADS_MAX threads
 *          are looked at in one process. Descriptors within the budget of proc_host.h.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_SOURCE_LINUX_PROC_INST_H
#define PROCFLEET_AGENT_SOURCE_LINUX_PROC_INST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/source/linux/proc_host.h"
#include "agent/source/linux/proc_text.h"
#include "agent/source/source.h"
#include "common/model/model.h"

#define PROC_THREADS_MAX 4096

enum proc_phase {
    PROC_FREE,
    PROC_WAITING, /* started, not announced yet: its name is that before exec */
    PROC_ALIVE,
    PROC_DYING, /* its last thread has ended; records may still be on their way */
};

/* What a process used. */
struct proc_sums {
    uint64_t run_ns, user_ns, kernel_ns;
    uint64_t minor_faults, major_faults;
    uint64_t peak_bytes;
    uint64_t read_chars, write_chars, disk_read, disk_write;
    uint64_t switches;
    uint64_t ready_ns, io_wait_ns, memory_wait_ns;
};

struct proc_thread {
    uint32_t tid;
    int stat_fd, sched_fd;       /* kept descriptors, -1 = closed */
    struct proc_turns turns;     /* run_ns in ticks where there is no schedstat */
    uint64_t switches, ready_ns; /* only where nobody can be asked for their sum */
    unsigned still;              /* looks since it ran */
    char state;                  /* as in stat; 0 = not read yet */
    bool known, seen;
    bool ran;   /* since the last look: time on a CPU has grown, */
    bool moved; /* or it may have had a CPU since state was read */
};

#define PROC_COLUMNS 36 /* of a row, at most */

/* What others can change of a process that does not run. Compared as bytes. */
struct proc_marks {
    struct proc_pages pages;
    uint64_t cpus;
    int32_t policy, nice, priority, io;
};

/* The last row that was read in full, and what shows that nothing has changed: see proc_read.c. */
struct proc_quiet {
    int statm_fd;    /* kept descriptor, -1 = closed */
    uint64_t run_ns; /* CPU time, read before that row; 0 = not known */
    struct proc_marks marks;
    bool marked;
    bool kept;
    unsigned rows; /* given since */
    metric_mask mask;
    int64_t values[PROC_COLUMNS]; /* of the mask's bits in their order */
};

struct proc_inst {
    TAILQ_ENTRY(proc_inst) queue; /* of the phase: waiting or dying */
    struct proc_inst *next;       /* same bucket, or free */
    struct proc_id id;
    enum proc_phase phase;
    int64_t deadline_ns; /* waiting, dying: monotonic */
    bool by_event;       /* its start was seen, so its sums are complete */
    bool start_known;    /* id.start is that of its stat */
    bool kernel_thread;
    bool io_denied;
    bool stale;               /* attributes must be read again */
    bool sampled;             /* has had a row */
    bool ran;                 /* before the last row, after the one before */
    uint64_t tick;            /* number of the last list it was in */
    int64_t missing_since_ns; /* monotonic; 0 = it was in the last list */

    /* Attributes; text is owned. */
    uint64_t info_version; /* grows with every change of what proc_inst_info gives */
    uint32_t have;         /* INFO_* */
    uint32_t parent_pid, session_id, uid;
    uint64_t parent_start;
    bool uid_known;
    char comm[16]; /* as in stat, to see a change */
    size_t comm_n;
    uint64_t start_code, start_stack; /* as in stat: new after exec, 0 or 1 where it is hidden */
    char name[PROC_NAME_MAX];         /* the kernel's, that of the main thread */
    size_t name_n;
    char user[PROC_USER_MAX];
    char *program, *image, *command_line; /* program: the name of the file that runs */
    size_t program_n, image_n, command_line_n;

    /* Kept descriptors. */
    int stat_fd, status_fd, io_fd, fd_fd, task_fd, sched_fd;

    /* Threads, when there are several. */
    struct proc_thread *threads;
    size_t n_threads, cap_threads;
    bool threads_changed;
    struct proc_sums dead; /* switches and waits of threads that ended under observation */

    /* Last values. */
    struct proc_quiet quiet;
    uint64_t peak_handles;
    struct proc_sums seen; /* at the last row */

    /* Ends. */
    int32_t live_threads;
    uint32_t all_threads, records;
    bool leader_ended, last_record, exit_known;
    uint32_t exit_status;
    int64_t exit_mono_ns;
    struct proc_sums sums; /* of ended threads */
    uint64_t end_run_ns;   /* CPU time after its last record; 0 = not known */
    bool last_stat_known, last_io_known;
    struct proc_stat last_stat;
    struct proc_io last_io;
};

TAILQ_HEAD(proc_inst_queue, proc_inst);

struct proc_table {
    struct proc_host *host;
    struct proc_inst *all;
    struct proc_inst *free;
    struct proc_inst **buckets;
    size_t max, n, high, n_buckets; /* high: slots ever used, all at the front */
    uint32_t added;                 /* upper half of the last instance's first info_version */
};

NODISCARD enum err proc_inst_init(struct proc_table *t, struct proc_host *host, size_t max);
void proc_inst_fini(struct proc_table *t);

struct proc_inst *proc_inst_find(const struct proc_table *t, uint32_t pid); /* NULL: unknown */

/* A new instance in phase PROC_ALIVE, nothing known but its id. There must be none of that pid.
 * Errors: ERR_FULL */
NODISCARD enum err proc_inst_add(struct proc_inst **out, struct proc_table *t, struct proc_id id);

/* Forgets an instance; it must not be in a queue any more. */
void proc_inst_remove(struct proc_table *t, struct proc_inst *p);

/* Closes the descriptors that only a row read in full needs. */
void proc_inst_release(struct proc_table *t, struct proc_inst *p);

/* Closes what is kept of threads. */
void proc_inst_drop_threads(struct proc_table *t, struct proc_inst *p);

/* Everything known, as borrowed views into p. */
void proc_inst_info(const struct proc_host *h, const struct proc_inst *p, struct proc_info *out);
/* The same into a row, unless the row has it already: versions of two instances always differ. */
void proc_inst_row(const struct proc_host *h, const struct proc_inst *p, struct snap_row *row);

/* -- attributes: name, program, image, command line, user, parent; read once when a process is met
 * and again after exec, which shows in its stat -- */

/* Takes what stat says into p; p->stale afterwards: a program was started in it since. */
void proc_inst_stat(const struct proc_table *t, struct proc_inst *p, const struct proc_stat *st);

/* Reads program, image and command line of a stale instance: two calls for each exec or new name of
 * the main thread, none for a sample. What cannot be read stays absent (ended
 * meanwhile, or no right to see it: counted). Errors: ERR_NOMEM, then it is still stale */
NODISCARD enum err proc_inst_refresh(struct proc_table *t, struct proc_inst *p);

/* The real user is known to be `uid`. */
void proc_inst_user(struct proc_table *t, struct proc_inst *p, uint32_t uid);

/* Parent at start; its own start becomes known when it is in the table and is not younger. */
void proc_inst_parent(const struct proc_table *t, struct proc_inst *p, uint32_t parent_pid);

/* The name as the kernel has it, that of the main thread: used only where the program is unknown.
 */
void proc_inst_name(struct proc_inst *p, const char *name, size_t n);

/* Name, program, image, command line and session as another process's, as far as memory allows,
 * until its stat shows exec; or, but for the name, unknown again. */
void proc_inst_copy(struct proc_inst *p, const struct proc_inst *from);
void proc_inst_forget_text(struct proc_inst *p);

#endif
