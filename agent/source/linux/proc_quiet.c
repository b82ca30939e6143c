#include "agent/source/linux/proc_quiet.h"

#include <linux/sched/types.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CPU_WORDS 128 /* 8,192 CPUs, the most Linux can have */

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

static void give_again(struct proc_table *t, struct proc_inst *p, struct snap_row *row)
{
    struct proc_quiet *q = &p->quiet;
    size_t i = 0;

    row->mask = q->mask;
    for (uint64_t left = q->mask; left; left &= left - 1) {
        row->values[__builtin_ctzll(left)] = q->values[i++];
    }
    /* Nobody ran. The first row of all could not tell. */
    row->values[M_ACTIVE_THREADS] = 0;
    row->mask |= METRIC_BIT(M_ACTIVE_THREADS);
    p->ran = false;
    q->rows++;
    if (q->rows == PROC_QUIET_RELEASE || (t->host->fds_left == 0 && q->rows < PROC_QUIET_RELEASE)) {
        proc_inst_release(t, p);
    }
}

bool proc_quiet_again(struct proc_table *t, struct proc_inst *p, struct snap_row *row)
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
    marked = (still || !p->ran) && read_marks(t, p, &now); /* who runs in every row needs none */
    if (still && marked && q->kept && q->marked && !p->stale && q->rows + 1 < PROC_QUIET_ROWS &&
        memcmp(&now, &q->marks, sizeof now) == 0) {
        give_again(t, p, row);
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
           __builtin_popcountll(row->mask) <= PROC_COLUMNS;
}

void proc_quiet_keep(struct proc_inst *p, uint32_t threads, const struct snap_row *row)
{
    struct proc_quiet *q = &p->quiet;
    size_t i = 0;

    q->rows = 0;
    q->kept = may_keep(p, threads, row);
    if (!q->kept) {
        return;
    }
    q->mask = row->mask;
    for (uint64_t left = row->mask; left; left &= left - 1) {
        q->values[i++] = row->values[__builtin_ctzll(left)];
    }
}
