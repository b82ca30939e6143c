#include "agent/source/linux/proc_read.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/source/linux/proc_attr.h"
#include "agent/source/linux/proc_quiet.h"
#include "agent/source/linux/proc_threads.h"

#define STAT_MAX   1024
#define STATUS_MAX 8192
#define IO_MAX     512

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

bool proc_read_ended(const struct proc_stat *st)
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
    if (!e && proc_read_ended(&st)) {
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
        proc_attr_user(t, p, status->uid);
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

/* A process of one thread: its own files say everything. */
static void put_single(struct proc_table *t, struct proc_inst *p, const struct proc_stat *st,
                       const struct proc_status *status, struct snap_row *row, uint64_t run_before)
{
    uint64_t before = p->seen.switches;

    if (p->threads || p->task_fd >= 0) {
        proc_threads_end(t, p);
    }
    p->threads_changed = true;
    proc_threads_begin(row);
    proc_threads_count(row, st->state);
    if (status->have & STATUS_SWITCHES) {
        p->seen.switches = more(p->seen.switches, status->switches + p->dead_switches);
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
    uint64_t switches;
    enum err e;

    if (st->threads != p->n_threads) {
        p->threads_changed = true;
    }
    e = proc_threads_read(t, p, row, !sw->ask);
    if (e == ERR_NOTFOUND || e == ERR_NOMEM) {
        return e;
    }
    if (sw->ask && sw->ask(sw->ctx, p->id.pid, &switches) == ERR_OK) {
        switches += sw->with_ended ? 0 : p->dead_switches;
        /* A thread that ends just now may be in neither part. */
        p->seen.switches = more(p->seen.switches, switches);
        put(row, M_CONTEXT_SWITCHES, clamp(p->seen.switches));
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
    return proc_read_ended(st) ? ERR_END : ERR_OK;
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
    proc_attr_stat(t, p, &st);
    e = proc_attr_refresh(t, p);
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
    } else {
        e = put_threads(t, p, sw, &st, row);
        if (e) {
            return e;
        }
    }
    p->sampled = true;
    proc_quiet_keep(p, st.threads, row);
    proc_inst_row(t->host, p, row);
    return ERR_OK;
}

enum err proc_read_row(struct proc_table *t, struct proc_inst *p, const struct proc_switches *sw,
                       struct snap_row *row)
{
    if (!proc_quiet_again(t, p, row)) {
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
