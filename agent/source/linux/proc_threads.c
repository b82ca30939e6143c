#include "agent/source/linux/proc_threads.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/vec.h"

#define FDS_RESERVED 1024
#define STILL_MAX    10 /* looks at a thread that does not run before its stat is closed */

void proc_threads_begin(struct snap_row *row)
{
    static const unsigned all[] = {M_THREADS_RUNNING,  M_THREADS_WAITING,    M_THREADS_DISK_WAIT,
                                   M_THREADS_STOPPED,  M_THREADS_TERMINATED, M_THREADS_IDLE,
                                   M_SUSPENDED_THREADS};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        row->values[all[i]] = 0;
        row->mask |= METRIC_BIT(all[i]);
    }
}

void proc_threads_count(struct snap_row *row, char state)
{
    switch (state) {
    case 'R':
    case 'W':
        row->values[M_THREADS_RUNNING]++;
        break;
    case 'D':
    case 'K':
        row->values[M_THREADS_DISK_WAIT]++;
        break;
    case 'T':
    case 't':
        row->values[M_THREADS_STOPPED]++;
        row->values[M_SUSPENDED_THREADS]++;
        break;
    case 'Z':
    case 'X':
    case 'x':
        row->values[M_THREADS_TERMINATED]++;
        break;
    case 'I':
    case 'P':
        row->values[M_THREADS_IDLE]++;
        break;
    default:
        row->values[M_THREADS_WAITING]++;
        break;
    }
}

/* Lists come in the order of creation, so the wanted thread is nearly always the next one. */
static enum err mark_thread(struct proc_inst *p, uint32_t tid, size_t *hint)
{
    enum err e;

    for (size_t i = 0; i < p->n_threads; i++) {
        size_t at = (*hint + i) % p->n_threads;

        if (p->threads[at].tid == tid) {
            p->threads[at].seen = true;
            *hint = at + 1;
            return ERR_OK;
        }
    }
    e = VEC_ROOM(&p->threads, &p->cap_threads, p->n_threads + 1, PROC_THREADS_MAX);
    if (e) {
        return e;
    }
    p->threads[p->n_threads++] =
        (struct proc_thread){.tid = tid, .stat_fd = -1, .sched_fd = -1, .seen = true};
    return ERR_OK;
}

struct entry { /* struct linux_dirent64 */
    uint64_t ino, off;
    uint16_t length;
    uint8_t type;
    char name[];
};

static enum err mark_all(struct proc_inst *p, int fd)
{
    _Alignas(8) char buf[4096];
    size_t hint = 0;

    if (lseek(fd, 0, SEEK_SET) < 0) {
        return ERR_IO;
    }
    for (;;) {
        long got = syscall(SYS_getdents64, fd, buf, sizeof buf);

        if (got < 0) {
            return errno == ENOENT || errno == ESRCH ? ERR_NOTFOUND : ERR_IO;
        }
        if (got == 0) {
            return ERR_OK;
        }
        for (long at = 0; at < got;) {
            const struct entry *d = (const struct entry *)(buf + at);
            uint32_t tid;

            at += d->length;
            if (proc_text_pid(&tid, d->name) == ERR_OK) {
                enum err e = mark_thread(p, tid, &hint);

                if (e) {
                    return e;
                }
            }
        }
    }
}

void proc_threads_end(struct proc_table *t, struct proc_inst *p)
{
    for (size_t i = 0; i < p->n_threads; i++) {
        if (p->threads[i].tid != p->id.pid) {
            p->dead_switches += p->threads[i].switches;
        }
    }
    proc_inst_drop_threads(t, p);
}

/* Ended threads leave their switches behind, where these are read thread by thread. */
static void sweep(struct proc_table *t, struct proc_inst *p)
{
    size_t kept = 0;

    for (size_t i = 0; i < p->n_threads; i++) {
        struct proc_thread *th = &p->threads[i];

        if (th->seen) {
            p->threads[kept++] = *th;
            continue;
        }
        p->dead_switches += th->switches;
        proc_host_release(t->host, &th->stat_fd);
        proc_host_release(t->host, &th->sched_fd);
    }
    p->n_threads = kept;
}

static enum err list_threads(struct proc_table *t, struct proc_inst *p)
{
    enum err e = ERR_OK;

    for (size_t i = 0; i < p->n_threads; i++) {
        p->threads[i].seen = false;
    }
    if (p->task_fd < 0) {
        e = proc_host_keep(t->host, &p->task_fd, p->id.pid, "task", O_RDONLY | O_DIRECTORY);
    }
    if (e == ERR_FULL) {
        int fd;

        e = proc_host_open_file(t->host, &fd, p->id.pid, "task", O_RDONLY | O_DIRECTORY);
        if (!e) {
            e = mark_all(p, fd);
            close(fd);
        }
    } else if (!e) {
        e = mark_all(p, p->task_fd);
    }
    if (!e) {
        sweep(t, p);
    }
    return e;
}

/* Threads keep descriptors only while plenty are left: a process needs its own more. */
static enum err read_file(struct proc_table *t, struct proc_inst *p, const char *file, int *fd,
                          char *buf, size_t cap, size_t *n)
{
    if (*fd < 0 && t->host->fds_left < FDS_RESERVED) {
        return proc_host_read(t->host, p->id.pid, file, buf, cap, n);
    }
    return proc_host_read_kept(t->host, fd, p->id.pid, file, buf, cap, n);
}

/* Time on a CPU, exact from schedstat where the kernel has it: has it grown, or had the thread a
 * CPU at all? Before its state is read, so that what happens after shows the next time.
 * False: ticks of its stat must do. */
static bool look(struct proc_table *t, struct proc_inst *p, struct proc_thread *th)
{
    struct proc_turns now;
    char file[48], buf[128];
    size_t n;

    snprintf(file, sizeof file, "task/%u/schedstat", th->tid);
    th->ran = false;
    th->moved = true;
    if (read_file(t, p, file, &th->sched_fd, buf, sizeof buf, &n) != ERR_OK ||
        proc_text_schedstat(&now, buf, n) != ERR_OK || now.turns == 0) {
        return false;
    }
    th->ran = th->known && now.run_ns > th->turns.run_ns;
    th->moved = now.turns != th->turns.turns || now.run_ns != th->turns.run_ns ||
                th->state == 'R' || th->state == 0;
    th->turns = now;
    th->still = th->moved ? 0 : th->still + 1;
    if (th->still == STILL_MAX) {
        proc_host_release(t->host, &th->stat_fd);
    }
    return true;
}

static enum err read_switches(struct proc_table *t, struct proc_inst *p, struct proc_thread *th)
{
    char file[48], buf[8192];
    struct proc_status status;
    size_t n;
    enum err e;

    snprintf(file, sizeof file, "task/%u/status", th->tid);
    e = proc_host_read(t->host, p->id.pid, file, buf, sizeof buf, &n);
    if (!e) {
        e = proc_text_status(&status, buf, n);
    }
    if (!e && (status.have & STATUS_SWITCHES)) {
        th->switches = status.switches;
    }
    return e;
}

static bool read_state(struct proc_table *t, struct proc_inst *p, struct proc_thread *th,
                       bool looked)
{
    char file[48], buf[1024];
    struct proc_stat st;
    uint64_t ticks;
    size_t n;

    snprintf(file, sizeof file, "task/%u/stat", th->tid);
    if (read_file(t, p, file, &th->stat_fd, buf, sizeof buf, &n) != ERR_OK ||
        proc_text_stat(&st, buf, n) != ERR_OK) {
        return false;
    }
    th->state = st.state;
    if (!looked) {
        ticks = st.user_ticks + st.kernel_ticks;
        th->ran = th->known && ticks > th->turns.run_ns;
        th->turns.run_ns = ticks;
    }
    th->known = true;
    return true;
}

/* One thread; false when it has ended meanwhile. One that had no CPU is in the state it was in. */
static bool read_thread(struct proc_table *t, struct proc_inst *p, struct proc_thread *th,
                        struct snap_row *row, bool switches)
{
    bool looked = look(t, p, th);

    if (th->moved || t->host->every_file) {
        if (!read_state(t, p, th, looked)) {
            return false;
        }
        if (switches) {
            err_ignore(read_switches(t, p, th));
        }
    }
    proc_threads_count(row, th->state);
    if (th->state == 'R' || th->ran) {
        row->values[M_ACTIVE_THREADS]++;
    }
    return true;
}

enum err proc_threads_read(struct proc_table *t, struct proc_inst *p, struct snap_row *row,
                           bool switches)
{
    uint64_t sum = 0;

    if (p->threads_changed || switches) {
        enum err e = list_threads(t, p);

        if (e) {
            return e;
        }
        p->threads_changed = false;
    }
    proc_threads_begin(row);
    row->values[M_ACTIVE_THREADS] = 0;
    for (size_t i = 0; i < p->n_threads; i++) {
        if (!read_thread(t, p, &p->threads[i], row, switches)) {
            p->threads_changed = true;
        }
        sum += p->threads[i].switches;
    }
    if (p->sampled) {
        row->mask |= METRIC_BIT(M_ACTIVE_THREADS);
    }
    if (switches) {
        row->values[M_CONTEXT_SWITCHES] = (int64_t)(sum + p->dead_switches);
        row->mask |= METRIC_BIT(M_CONTEXT_SWITCHES);
    }
    return ERR_OK;
}
