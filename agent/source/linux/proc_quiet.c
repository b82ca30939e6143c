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

/* The same by CPU time alone: what ran in the last PROC_TICK_NS may not show yet. False: it may
 * have run before that, too. */
static bool is_charged_nothing(struct proc_inst *p)
{
    struct proc_quiet *q = &p->quiet;
    uint64_t before_ns = q->run_ns;

    return !p->threads_changed && proc_host_cpu(p->id.pid, &q->run_ns) == ERR_OK && before_ns > 0 &&
           q->run_ns == before_ns;
}

/* Before p is read in full: what the next row is compared with. `still`: what stands_still has
 * said just now; twice in a row would lose which threads have run. */
static void begin_anew(struct proc_table *t, struct proc_inst *p, bool still)
{
    struct proc_quiet *q = &p->quiet;

    if (!t->host->clocks_tick || proc_host_cpu(p->id.pid, &q->run_ns) != ERR_OK) {
        q->run_ns = 0;
    }
    q->marked = still && read_marks(t, p, &q->marks);
    q->kept = false;
    p->ran = p->sampled && !still;
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

bool proc_quiet_begin(struct proc_table *t, struct proc_inst *p, struct snap_row *row)
{
    struct proc_quiet *q = &p->quiet;
    struct proc_marks now;

    if (!t->host->counts_turns || t->host->every_file) {
        q->kept = false;
        p->ran = true;
        return false;
    }
    if (!q->kept || p->stale || !q->marked || q->rows + 1 >= PROC_QUIET_ROWS ||
        !read_marks(t, p, &now) || memcmp(&now, &q->marks, sizeof now) != 0) {
        begin_anew(t, p, stands_still(t, p));
        return false;
    }
    give_again(q, row);
    return true;
}

bool proc_quiet_end(struct proc_table *t, struct proc_inst *p, bool late)
{
    struct proc_quiet *q = &p->quiet;

    if (!(late && t->host->clocks_tick && is_charged_nothing(p)) && !stands_still(t, p)) {
        begin_anew(t, p, false);
        return false;
    }
    q->rows++;
    if (q->rows == PROC_QUIET_RELEASE || (t->host->fds_left == 0 && q->rows < PROC_QUIET_RELEASE)) {
        proc_inst_release(t, p);
    }
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
