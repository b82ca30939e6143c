#include "agent/source/linux/proc_quiet.h"

#include <linux/sched/types.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/source/linux/proc_threads.h"

#define CPU_WORDS 128 /* 8,192 CPUs, the most Linux can have */

/* Whether no thread has had a CPU since the last look. */
static bool stands_still(struct proc_table *t, struct proc_inst *p)
{
    struct proc_quiet *q = &p->quiet;
    struct proc_turns now;
    char buf[128];
    size_t n;
    bool same;

    if (p->n_threads > 0) {
        return proc_threads_look(t, p) && !p->threads_changed;
    }
    if (proc_host_read_kept(t->host, &q->sched_fd, p->id.pid, "schedstat", buf, sizeof buf, &n) !=
            ERR_OK ||
        proc_text_schedstat(&now, buf, n) != ERR_OK) {
        return false;
    }
    same = now.run_ns == q->turns.run_ns && now.turns == q->turns.turns;
    q->turns = now;
    return same;
}

static bool read_marks(struct proc_table *t, struct proc_inst *p, struct proc_marks *out)
{
    struct sched_attr attr = {0};
    uint64_t cpus[CPU_WORDS];
    char buf[128];
    size_t n;

    memset(out, 0, sizeof *out);
    if (proc_host_read_kept(t->host, &p->quiet.statm_fd, p->id.pid, "statm", buf, sizeof buf, &n) !=
            ERR_OK ||
        proc_text_statm(&out->pages, buf, n) != ERR_OK ||
        syscall(SYS_sched_getattr, p->id.pid, &attr, sizeof attr, 0) != 0 ||
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

/* Whether what others can change is as it was. */
static bool is_left_alone(struct proc_table *t, struct proc_inst *p)
{
    struct proc_quiet *q = &p->quiet;
    struct proc_marks now;
    bool known = read_marks(t, p, &now);
    bool same = known && q->marked && memcmp(&now, &q->marks, sizeof now) == 0;

    q->marked = known;
    q->marks = now;
    return same;
}

static void give_again(const struct proc_quiet *q, struct snap_row *row)
{
    size_t i = 0;

    row->mask = q->mask;
    for (uint64_t left = q->mask; left; left &= left - 1) {
        row->values[__builtin_ctzll(left)] = q->values[i++];
    }
    /* Nobody ran. The first row of all could not tell. */
    row->values[M_ACTIVE_THREADS] = 0;
    row->mask |= METRIC_BIT(M_ACTIVE_THREADS);
}

bool proc_quiet_row(struct proc_table *t, struct proc_inst *p, struct snap_row *row)
{
    struct proc_quiet *q = &p->quiet;
    bool kept = q->kept && !p->stale;

    q->kept = false;
    if (!t->host->counts_turns || t->host->every_file) {
        return false;
    }
    if (!stands_still(t, p)) {
        q->marked = false;
        return false;
    }
    if (!is_left_alone(t, p) || !kept || q->rows + 1 >= PROC_QUIET_ROWS) {
        return false;
    }
    q->kept = true;
    if (++q->rows == PROC_QUIET_RELEASE) {
        proc_inst_release(t, p);
    }
    give_again(q, row);
    return true;
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
