/* Rows of processes that have not run since the last one: most of them, most of the time. Their
 * counters, states and files cannot have changed; what others can change from outside is looked at
 * (memory, priority, CPUs, I/O priority), so such a row is the one that reading everything would
 * return, for a quarter of the cost.
 *
 *   CPU time: has it grown? ──────────────────────yes──► read in full
 *        │ no                                            ▲
 *   statm, priority, CPUs, I/O priority: changed? ──yes──┤
 *        │ no                                            │
 *   last row again, 299 times at most ───────────────────┘
 *
 * A thread is charged when it leaves its CPU and at every tick of the scheduler. So a process may
 * be shown as it was a tick ago (PROC_TICK_NS; a second on CPUs without a tick, nohz_full) if a
 * thread has a CPU at this moment, for the first time since the last row: its own files would show
 * the same CPU time.
 *
 * Priority and CPUs of another process are seldom changed: that shows with the fourth row.
 *
 * Not seen: a thread that was woken but has not got a CPU yet still counts as waiting. A process
 * that shares its memory or descriptors with another one (clone without CLONE_THREAD, rare) shows
 * the other's changes to peak and handles with the 300th row at the latest. */
#include "agent/source/linux/proc_read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched/types.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/vec.h"

#define STAT_MAX     1024
#define STATUS_MAX   8192
#define IO_MAX       512
#define CPU_WORDS    128  /* 8,192 CPUs, the most Linux can have */
#define FDS_RESERVED 1024 /* of the budget: threads keep none of them open */
#define STILL_MAX    10   /* looks at a thread that does not run before its stat is closed */

/* -- threads: states, which ran, switches; a process of one thread needs none of this -- */

static void begin_states(struct snap_row *row)
{
    static const unsigned all[] = {M_THREADS_RUNNING,  M_THREADS_WAITING,    M_THREADS_DISK_WAIT,
                                   M_THREADS_STOPPED,  M_THREADS_TERMINATED, M_THREADS_IDLE,
                                   M_SUSPENDED_THREADS};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        row->values[all[i]] = 0;
        row->mask |= METRIC_BIT(all[i]);
    }
}

static void count_state(struct snap_row *row, char state)
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

static void end_threads(struct proc_table *t, struct proc_inst *p)
{
    for (size_t i = 0; i < p->n_threads; i++) {
        if (p->threads[i].tid != p->id.pid) {
            p->dead.switches += p->threads[i].switches;
            p->dead.ready_ns += p->threads[i].ready_ns;
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
        p->dead.switches += th->switches;
        p->dead.ready_ns += th->ready_ns;
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
    th->ready_ns = switches && looked ? th->turns.ready_ns : 0;
    count_state(row, th->state);
    if (th->state == 'R' || th->ran) {
        row->values[M_ACTIVE_THREADS]++;
    }
    return true;
}

static void put(struct snap_row *row, unsigned id, int64_t v)
{
    row->values[id] = v;
    row->mask |= METRIC_BIT(id);
}

static int64_t clamp(uint64_t v)
{
    return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

static uint64_t more(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Counters that may not step back when a thread ends just now. */
static void put_ready(struct proc_inst *p, struct snap_row *row, bool known, uint64_t ready_ns)
{
    if (known) {
        p->seen.ready_ns = more(p->seen.ready_ns, ready_ns);
        put(row, M_READY_TIME, clamp(p->seen.ready_ns));
    }
}

static void put_waits(struct proc_inst *p, const struct proc_switches *sw, struct snap_row *row,
                      const struct proc_net_waits *w)
{
    uint64_t io_ns = w->io_ns + (sw->with_ended ? 0 : p->dead.io_wait_ns);
    uint64_t memory_ns = w->memory_ns + (sw->with_ended ? 0 : p->dead.memory_wait_ns);

    p->seen.io_wait_ns = more(p->seen.io_wait_ns, io_ns);
    p->seen.memory_wait_ns = more(p->seen.memory_wait_ns, memory_ns);
    put(row, M_IO_WAIT_TIME, clamp(p->seen.io_wait_ns));
    put(row, M_MEMORY_WAIT_TIME, clamp(p->seen.memory_wait_ns));
}

static enum err read_threads(struct proc_table *t, struct proc_inst *p, struct snap_row *row,
                             bool switches)
{
    uint64_t sum = 0, ready_ns = 0;

    if (p->threads_changed || switches) {
        enum err e = list_threads(t, p);

        if (e) {
            return e;
        }
        p->threads_changed = false;
    }
    begin_states(row);
    row->values[M_ACTIVE_THREADS] = 0;
    for (size_t i = 0; i < p->n_threads; i++) {
        if (!read_thread(t, p, &p->threads[i], row, switches)) {
            p->threads_changed = true;
        }
        sum += p->threads[i].switches;
        ready_ns += p->threads[i].ready_ns;
    }
    if (p->sampled) {
        row->mask |= METRIC_BIT(M_ACTIVE_THREADS);
    }
    if (switches) {
        row->values[M_CONTEXT_SWITCHES] = (int64_t)(sum + p->dead.switches);
        row->mask |= METRIC_BIT(M_CONTEXT_SWITCHES);
        put_ready(p, row, ready_ns > 0, ready_ns + p->dead.ready_ns);
    }
    return ERR_OK;
}

/* -- rows of processes that have not run -- */

/* Whether no thread of p has been charged for a CPU since the last look. */
static bool rests(struct proc_inst *p)
{
    uint64_t before_ns = p->quiet.run_ns;

    if (proc_host_cpu(p->id.pid, &p->quiet.run_ns) != ERR_OK) {
        p->quiet.run_ns = 0;
    }
    return before_ns > 0 && p->quiet.run_ns == before_ns;
}

/* Marks that were read before are read in two parts, the second with each fourth row. */
static bool read_marks(struct proc_table *t, struct proc_inst *p, struct proc_marks *out)
{
    const struct proc_quiet *q = &p->quiet;
    struct sched_attr attr = {0};
    uint64_t cpus[CPU_WORDS];
    char buf[128];
    size_t n;

    *out = q->marks;
    if (proc_host_read_kept(t->host, &p->quiet.statm_fd, p->id.pid, "statm", buf, sizeof buf, &n) !=
            ERR_OK ||
        proc_text_statm(&out->pages, buf, n) != ERR_OK) {
        return false;
    }
    if (q->kept && q->marked && (q->rows + p->id.pid) % PROC_QUIET_OTHERS) {
        return true;
    }
    if (syscall(SYS_sched_getattr, p->id.pid, &attr, sizeof attr, 0) != 0 ||
        syscall(SYS_sched_getaffinity, p->id.pid, sizeof cpus, cpus) < (long)sizeof *cpus) {
        return false;
    }
    out->cpus = cpus[0];
    out->policy = (int32_t)attr.sched_policy;
    out->nice = attr.sched_nice;
    out->priority = (int32_t)attr.sched_priority;
    out->io = (int32_t)syscall(SYS_ioprio_get, 1, p->id.pid);
    return true;
}

static void repeat_values(struct proc_table *t, struct proc_inst *p, struct snap_row *row)
{
    struct proc_quiet *q = &p->quiet;
    size_t i = 0;

    row->mask = q->mask;
    for (struct metric_mask_walk each = metric_mask_walk(q->mask); metric_mask_walk_next(&each);) {
        row->values[each.id] = q->values[i++];
    }
    /* No thread ran. The first row of all could not say. */
    row->values[M_ACTIVE_THREADS] = 0;
    row->mask |= METRIC_BIT(M_ACTIVE_THREADS);
    p->ran = false;
    q->rows++;
    if (q->rows == PROC_QUIET_RELEASE || (t->host->fds_left == 0 && q->rows < PROC_QUIET_RELEASE)) {
        proc_inst_release(t, p);
    }
}

static bool repeat_row(struct proc_table *t, struct proc_inst *p, struct snap_row *row)
{
    struct proc_quiet *q = &p->quiet;
    struct proc_marks now;
    bool still, marked;

    if (t->host->every_file) {
        q->kept = false;
        p->ran = true;
        return false;
    }
    /* In this order: what happens between two steps shows in the next row. */
    still = rests(p);
    marked = (still || !p->ran) && read_marks(t, p, &now); /* not if it runs in every row */
    if (still && marked && q->kept && q->marked && !p->stale && q->rows + 1 < PROC_QUIET_ROWS &&
        memcmp(&now, &q->marks, sizeof now) == 0) {
        repeat_values(t, p, row);
        return true;
    }
    q->kept = false;
    q->marked = marked;
    if (marked) {
        q->marks = now;
    }
    p->ran = p->sampled && !still;
    return false;
}

/* Whether all of its threads are known and none has or waits for a CPU. */
static bool may_keep(const struct proc_inst *p, uint32_t threads, const struct snap_row *row)
{
    return (row->mask & METRIC_BIT(M_THREADS_RUNNING)) && row->values[M_THREADS_RUNNING] == 0 &&
           (threads <= 1 ? p->n_threads == 0 : p->n_threads == threads) &&
           metric_mask_count(row->mask) <= PROC_COLUMNS;
}

static void keep_row(struct proc_inst *p, uint32_t threads, const struct snap_row *row)
{
    struct proc_quiet *q = &p->quiet;
    size_t i = 0;

    q->rows = 0;
    q->kept = may_keep(p, threads, row);
    if (!q->kept) {
        return;
    }
    q->mask = row->mask;
    for (struct metric_mask_walk each = metric_mask_walk(row->mask);
         metric_mask_walk_next(&each);) {
        q->values[i++] = row->values[each.id];
    }
}

/* -- all of a process -- */

/* Whether nothing runs in it any more. */
static bool has_ended(const struct proc_stat *st)
{
    bool gone =
        st->state == 'Z' || st->state == 'X' || st->state == 'x' || (st->flags & PROC_FLAG_EXITING);

    /* A leader may end before its threads: then the process goes on. */
    return gone && st->threads <= 1;
}

enum err proc_read_stat(struct proc_table *t, uint32_t pid, struct proc_stat *out)
{
    char buf[STAT_MAX];
    struct proc_stat st;
    size_t n;
    enum err e = proc_host_read(t->host, pid, "stat", buf, sizeof buf, &n);

    if (!e) {
        e = proc_text_stat(&st, buf, n);
    }
    if (!e && has_ended(&st)) {
        e = ERR_END;
    }
    if (!e) {
        *out = st;
    }
    return e;
}

/* Descriptors of a process that does not run are not worth keeping. */
static enum err read_own_file(struct proc_table *t, const struct proc_inst *p, int *fd,
                              const char *file, char *buf, size_t cap, size_t *n)
{
    return p->ran || *fd >= 0 ? proc_host_read_kept(t->host, fd, p->id.pid, file, buf, cap, n)
                              : proc_host_read(t->host, p->id.pid, file, buf, cap, n);
}

static void put_stat(const struct proc_host *h, struct proc_inst *p, const struct proc_stat *st,
                     struct snap_row *row)
{
    uint64_t tick = (uint64_t)h->tick_ns;

    p->seen.user_ns = st->user_ticks * tick;
    p->seen.kernel_ns = st->kernel_ticks * tick;
    p->seen.run_ns = p->seen.user_ns + p->seen.kernel_ns;
    p->seen.minor_faults = st->minor_faults;
    p->seen.major_faults = st->major_faults;
    put(row, M_CPU_TIME, clamp(p->seen.run_ns));
    put(row, M_KERNEL_TIME, clamp(p->seen.kernel_ns));
    put(row, M_USER_TIME, clamp(p->seen.user_ns));
    put(row, M_PAGE_FAULTS, clamp(st->minor_faults + st->major_faults));
    put(row, M_HARD_FAULTS, clamp(st->major_faults));
    put(row, M_PRIORITY, st->priority);
    put(row, M_THREAD_COUNT, st->threads);
    put(row, M_VIRTUAL_BYTES, clamp(st->virtual_bytes));
    if (st->resident_pages >= 0 && st->resident_pages < INT64_MAX / h->page_bytes) {
        put(row, M_WORKING_SET_SIZE, st->resident_pages * h->page_bytes);
    }
}

static enum err put_status(struct proc_table *t, struct proc_inst *p, struct snap_row *row,
                           struct proc_status *status)
{
    char buf[STATUS_MAX];
    size_t n;
    enum err e = read_own_file(t, p, &p->status_fd, "status", buf, sizeof buf, &n);

    if (!e) {
        e = proc_text_status(status, buf, n);
    }
    if (e) {
        return e;
    }
    if (status->have & STATUS_UID) {
        proc_inst_user(t, p, status->uid);
    }
    if (status->have & STATUS_PEAK) {
        put(row, M_PEAK_WORKING_SET, clamp(status->peak_bytes));
        p->seen.peak_bytes = status->peak_bytes;
    }
    if (status->have & STATUS_PRIVATE) {
        put(row, M_PRIVATE_BYTES, clamp(status->private_bytes));
    }
    if (status->have & STATUS_CPUS) {
        put(row, M_AFFINITY_MASK, (int64_t)status->cpus_allowed);
    }
    return ERR_OK;
}

static enum err read_io(struct proc_table *t, struct proc_inst *p, struct proc_io *io)
{
    char buf[IO_MAX];
    size_t n;
    enum err e = read_own_file(t, p, &p->io_fd, "io", buf, sizeof buf, &n);

    return e ? e : proc_text_io(io, buf, n);
}

static void put_io(struct proc_table *t, struct proc_inst *p, struct snap_row *row)
{
    struct proc_io io;
    enum err e;

    if (p->io_denied) {
        return;
    }
    e = read_io(t, p, &io);
    if (e == ERR_ACCESS) {
        /* Asked again only after exec or a change of user. */
        p->io_denied = true;
        t->host->counts.denied++;
        proc_host_release(t->host, &p->io_fd);
    }
    if (e) {
        return;
    }
    put(row, M_READ_OPERATIONS, clamp(io.read_calls));
    put(row, M_WRITE_OPERATIONS, clamp(io.write_calls));
    put(row, M_READ_BYTES, clamp(io.read_chars));
    put(row, M_WRITE_BYTES, clamp(io.write_chars));
    put(row, M_DISK_READ_BYTES, clamp(io.disk_read));
    put(row, M_DISK_WRITE_BYTES, clamp(io.disk_write));
    p->seen.read_chars = io.read_chars;
    p->seen.write_chars = io.write_chars;
    p->seen.disk_read = io.disk_read;
    p->seen.disk_write = io.disk_write;
}

/* Entries of fd/ one by one, where the kernel does not know their number (before 6.2). */
static enum err count_entries(struct proc_table *t, uint32_t pid, uint64_t *count)
{
    uint64_t n = 0;
    int fd;
    DIR *d;
    enum err e = proc_host_open_file(t->host, &fd, pid, "fd", O_RDONLY | O_DIRECTORY);

    if (e) {
        return e;
    }
    d = fdopendir(fd);
    if (!d) {
        close(fd);
        return ERR_NOMEM;
    }
    for (struct dirent *entry = readdir(d); entry; entry = readdir(d)) {
        n += entry->d_name[0] != '.';
    }
    closedir(d);
    *count = n;
    return ERR_OK;
}

/* The number of open descriptors is the directory's size; only its name must be reachable for
 * that, so it works for other users' processes as well. */
static enum err count_handles(struct proc_table *t, struct proc_inst *p, uint64_t *count)
{
    char path[PROC_PATH_MAX];
    struct stat st;

    if (!t->host->fd_dir_has_count) {
        return count_entries(t, p->id.pid, count);
    }
    if (p->fd_fd >= 0 ||
        (p->ran && proc_host_keep(t->host, &p->fd_fd, p->id.pid, "fd", O_PATH) == ERR_OK)) {
        if (fstat(p->fd_fd, &st) != 0) {
            return ERR_NOTFOUND;
        }
    } else {
        proc_host_path(path, p->id.pid, "fd");
        if (fstatat(t->host->root, path, &st, 0) != 0) {
            return ERR_NOTFOUND;
        }
    }
    *count = (uint64_t)st.st_size;
    return ERR_OK;
}

static void put_handles(struct proc_table *t, struct proc_inst *p, struct snap_row *row)
{
    uint64_t count;

    if (count_handles(t, p, &count) != ERR_OK) {
        return;
    }
    if (count > p->peak_handles) {
        p->peak_handles = count;
    }
    put(row, M_HANDLE_COUNT, clamp(count));
    put(row, M_PEAK_HANDLE_COUNT, clamp(p->peak_handles));
}

/* Class and level as Windows' five steps: 0 very low, 1 low, 2 normal, 3 high, 4 critical. */
static int64_t io_priority(long value)
{
    long class = value >> 13, level = value & 7;

    switch (class) {
    case 1:
        return 4; /* real time */
    case 3:
        return 0; /* idle */
    case 2:
        return level < 4 ? 3 : level == 4 ? 2 : 1;
    default:
        return 2;
    }
}

static void put_io_priority(struct proc_inst *p, struct snap_row *row)
{
    long value = syscall(SYS_ioprio_get, 1, p->id.pid);

    if (value >= 0) {
        put(row, M_IO_PRIORITY, io_priority(value));
    }
}

/* One thread: its schedstat says it; waits for disk and memory must be asked for. */
static void put_single_waits(struct proc_table *t, struct proc_inst *p,
                             const struct proc_switches *sw, struct snap_row *row)
{
    struct proc_turns turns;
    struct proc_net_task sums;
    char buf[128];
    size_t n;

    if (read_own_file(t, p, &p->sched_fd, "schedstat", buf, sizeof buf, &n) == ERR_OK &&
        proc_text_schedstat(&turns, buf, n) == ERR_OK) {
        put_ready(p, row, turns.turns > 0, turns.ready_ns + p->dead.ready_ns);
    }
    if (t->host->delays && sw->ask && sw->ask(sw->ctx, p->id.pid, &sums) == ERR_OK) {
        put_waits(p, sw, row, &sums.waits);
    }
}

/* A process of one thread: its own files say everything. */
static void put_single(struct proc_table *t, struct proc_inst *p, const struct proc_stat *st,
                       const struct proc_status *status, struct snap_row *row, uint64_t run_before)
{
    uint64_t before = p->seen.switches;

    if (p->threads || p->task_fd >= 0) {
        end_threads(t, p);
    }
    p->threads_changed = true;
    begin_states(row);
    count_state(row, st->state);
    if (status->have & STATUS_SWITCHES) {
        p->seen.switches = more(p->seen.switches, status->switches + p->dead.switches);
        put(row, M_CONTEXT_SWITCHES, clamp(p->seen.switches));
    }
    if (p->sampled) {
        put(row, M_ACTIVE_THREADS,
            st->state == 'R' || p->seen.run_ns > run_before || p->seen.switches > before);
    }
}

static enum err put_threads(struct proc_table *t, struct proc_inst *p,
                            const struct proc_switches *sw, const struct proc_stat *st,
                            struct snap_row *row)
{
    struct proc_net_task sums;
    enum err e;

    if (st->threads != p->n_threads) {
        p->threads_changed = true;
    }
    proc_host_release(t->host, &p->sched_fd); /* its threads have their own */
    e = read_threads(t, p, row, !sw->ask);
    if (e == ERR_NOTFOUND || e == ERR_NOMEM) {
        return e;
    }
    if (sw->ask && sw->ask(sw->ctx, p->id.pid, &sums) == ERR_OK) {
        sums.switches += sw->with_ended ? 0 : p->dead.switches;
        /* A thread that ends just now may be in neither part. */
        p->seen.switches = more(p->seen.switches, sums.switches);
        put(row, M_CONTEXT_SWITCHES, clamp(p->seen.switches));
        put_ready(p, row, sums.waits.ready_known,
                  sums.waits.ready_ns + (sw->with_ended ? 0 : p->dead.ready_ns));
        if (t->host->delays) {
            put_waits(p, sw, row, &sums.waits);
        }
    }
    return ERR_OK;
}

static enum err read_own_stat(struct proc_table *t, struct proc_inst *p, struct proc_stat *st)
{
    char buf[STAT_MAX];
    size_t n;
    bool was_kept = p->stat_fd >= 0;
    enum err e = read_own_file(t, p, &p->stat_fd, "stat", buf, sizeof buf, &n);

    if (e == ERR_NOTFOUND && was_kept) { /* another may have its number by now */
        e = proc_host_read(t->host, p->id.pid, "stat", buf, sizeof buf, &n);
    }
    if (!e) {
        e = proc_text_stat(st, buf, n);
    }
    if (e) {
        return e;
    }
    if (st->start_ticks != p->id.start) {
        return ERR_EXISTS;
    }
    return has_ended(st) ? ERR_END : ERR_OK;
}

static enum err read_full(struct proc_table *t, struct proc_inst *p, const struct proc_switches *sw,
                          struct snap_row *row)
{
    struct proc_status status = {0};
    struct proc_stat st;
    uint64_t run_before = p->seen.run_ns;
    enum err e;

    row->mask = 0;
    e = read_own_stat(t, p, &st);
    if (e) {
        return e;
    }
    proc_inst_stat(t, p, &st);
    e = proc_inst_refresh(t, p);
    if (e) {
        return e;
    }
    put_stat(t->host, p, &st, row);
    e = put_status(t, p, row, &status);
    if (e) {
        return e;
    }
    put_io(t, p, row);
    put_handles(t, p, row);
    put_io_priority(p, row);
    if (st.threads <= 1) {
        put_single(t, p, &st, &status, row, run_before);
        put_single_waits(t, p, sw, row);
    } else {
        e = put_threads(t, p, sw, &st, row);
        if (e) {
            return e;
        }
    }
    p->sampled = true;
    keep_row(p, st.threads, row);
    proc_inst_row(t->host, p, row);
    return ERR_OK;
}

enum err proc_read_row(struct proc_table *t, struct proc_inst *p, const struct proc_switches *sw,
                       struct snap_row *row)
{
    if (!repeat_row(t, p, row)) {
        return read_full(t, p, sw, row);
    }
    proc_inst_row(t->host, p, row);
    return ERR_OK;
}

void proc_read_last(struct proc_table *t, struct proc_inst *p, bool with_stat)
{
    char buf[STAT_MAX];
    struct proc_stat st;
    struct proc_io io;
    size_t n;

    if (with_stat) {
        if (read_own_file(t, p, &p->stat_fd, "stat", buf, sizeof buf, &n) != ERR_OK ||
            proc_text_stat(&st, buf, n) != ERR_OK || st.start_ticks != p->id.start) {
            return;
        }
        p->last_stat = st;
        p->last_stat_known = true;
    }
    if (!p->io_denied && read_io(t, p, &io) == ERR_OK) {
        p->last_io = io;
        p->last_io_known = true;
    }
}
