/* The live Linux source: one thread, one loop.
 *
 *   tick ── list pids ─── messages ── read every process ── messages ── table ── advance
 *     ▲                                (messages every 64)                          │
 *     └───────────── sleep until tick, message, due start or stop, or stop() ◄──────┘
 *
 * With the process connector (proc_sock.h) starts and stops are facts, reported as they happen
 * (proc_life.h), and a table only reconciles: whatever the kernel could not deliver shows as a
 * difference. Without it every table is complete and the receiver compares.
 *
 * A table never contains a process whose stop was reported, nor one whose start is still held back.
 * It is complete only if every process known to be alive is in it: one that vanished while its end
 * is still on its way makes that table incomplete, so that no end is reported twice.
 *
 * A process that has not run since the last table is read in part (proc_read.c).
 *
 * Rejected: eBPF (needs more privilege and a toolchain, for the same facts); leaving sleeping
 * processes out of tables (their memory and priority change from outside). */
#include "agent/source/linux/proc_linux.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/source/linux/proc_inst.h"
#include "agent/source/linux/proc_life.h"
#include "agent/source/linux/proc_pids.h"
#include "agent/source/linux/proc_read.h"
#include "agent/source/linux/proc_sock.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define DRAIN_EVERY 64 /* processes read between two looks at the sockets */

struct proc_linux {
    struct source base;
    struct proc_linux_conf conf;
    struct source_sink sink;
    struct proc_host host;
    struct proc_table table;
    struct proc_sock *sock; /* NULL: polled */
    struct proc_life life;
    struct proc_switches switches;
    struct proc_pids pids;
    int stop_fd;
    uint64_t tick;   /* number of the present list */
    bool first_done; /* what appears from now on has started since */
    struct snap_row *rows;
    struct proc_inst **owners; /* of the rows */
    size_t n_rows;
    bool capped; /* the present table lacks processes */
};

/* -- messages -- */

static void on_event(void *ctx, const struct proc_net_event *ev)
{
    struct proc_linux *s = ctx;

    proc_life_event(&s->life, ev);
}

static enum proc_took on_task(void *ctx, const struct proc_net_task *task, bool final)
{
    struct proc_linux *s = ctx;

    return proc_life_task(&s->life, task, final);
}

static void drain(struct proc_linux *s)
{
    const struct proc_sock_sink sink = {s, on_event, on_task};
    uint64_t lost, damaged;

    if (!s->sock) {
        return;
    }
    s->life.now_ns = os_mono_ns();
    proc_sock_drain(s->sock, &sink, &lost, &damaged);
    s->host.counts.lost_events += lost;
    s->host.counts.damaged += damaged;
    proc_life_due(&s->life, os_mono_ns());
}

static enum err ask_sums(void *ctx, uint32_t pid, struct proc_net_task *out)
{
    struct proc_linux *s = ctx;

    return proc_sock_sums(s->sock, pid, out);
}

/* -- table -- */

/* Meets a process the table does not know. After the first table and with the connector it has
 * started since, only its fork is not handed in yet; otherwise it is simply found. */
static enum err meet(struct proc_linux *s, uint32_t pid, struct proc_inst **out)
{
    struct proc_stat st;
    enum err e;

    if (s->sock && s->first_done) {
        return proc_life_met(&s->life, pid, os_mono_ns(), out);
    }
    e = proc_read_stat(&s->table, pid, &st);
    if (!e) {
        e = proc_inst_add(out, &s->table, (struct proc_id){pid, st.start_ticks});
    }
    if (!e) {
        (*out)->live_threads = (int32_t)st.threads;
    }
    return e;
}

/* The number now belongs to a younger process: the old one's end was missed. */
static enum err replace(struct proc_linux *s, struct proc_inst **p, uint32_t pid,
                        struct snap_row *row)
{
    enum err e;

    proc_life_vanished(&s->life, *p, os_mono_ns());
    e = meet(s, pid, p);
    return !e && (*p)->phase == PROC_ALIVE ? proc_read_row(&s->table, *p, &s->switches, row) : e;
}

static enum err read_one(struct proc_linux *s, uint32_t pid)
{
    struct snap_row *row = &s->rows[s->n_rows];
    struct proc_inst *p = proc_inst_find(&s->table, pid);
    enum err e = p ? ERR_OK : meet(s, pid, &p);

    if (!e && p->phase == PROC_ALIVE) {
        e = proc_read_row(&s->table, p, &s->switches, row);
        if (e == ERR_EXISTS) {
            e = replace(s, &p, pid, row);
        }
    }
    if (e) {
        return e;
    }
    p->tick = s->tick;
    p->missing_since_ns = 0;
    if (p->phase == PROC_ALIVE) {
        s->owners[s->n_rows++] = p;
        s->host.counts.in++;
    }
    return ERR_OK;
}

static void count_failure(struct proc_linux *s, uint32_t pid, enum err e)
{
    if (e == ERR_FULL) {
        s->capped = true;
    } else if (e == ERR_ACCESS) {
        /* Hidden (hidepid): none to us, unless its start was reported or it was seen before. */
        s->capped = s->capped || proc_inst_find(&s->table, pid);
    } else if (e != ERR_OK && e != ERR_END && e != ERR_NOTFOUND) {
        s->host.counts.damaged++;
        s->capped = true;
    }
}

static void read_all(struct proc_linux *s)
{
    s->n_rows = 0;
    for (size_t i = 0; i < s->pids.n; i++) {
        uint32_t pid = s->pids.all[i];
        enum err e = read_one(s, pid);

        if (e == ERR_NOTFOUND) {
            /* Others ended before this table. */
            s->host.counts.gone += i >= s->pids.new_from && i < s->pids.new_to;
            proc_pids_remove(&s->pids, i);
        }
        count_failure(s, pid, e);
        if (i % DRAIN_EVERY == DRAIN_EVERY - 1) {
            drain(s);
        }
    }
}

/* Removes the rows of processes that have ended since they were read. */
static void drop_ended(struct proc_linux *s)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->n_rows; i++) {
        const struct proc_inst *p = s->owners[i];

        if (p->phase != PROC_ALIVE || !proc_id_eq(p->id, s->rows[i].info.id)) {
            s->host.counts.ended++;
            continue;
        }
        if (kept != i) {
            s->rows[kept] = s->rows[i];
        }
        proc_inst_row(&s->host, p, &s->rows[kept++]); /* exec may have changed it */
    }
    s->n_rows = kept;
}

static bool is_alive(uint32_t pid)
{
    return kill((pid_t)pid, 0) == 0 || errno == EPERM;
}

/* A process that was not in this list has ended if we poll; with the connector its end must arrive,
 * and when it has not by the next tick (at least a tenth of a second) it was lost.
 * Returns whether a process is in doubt. */
static bool drop_vanished(struct proc_linux *s, int64_t now_ns)
{
    bool doubt = false;

    for (size_t i = 0; i < s->table.high; i++) {
        struct proc_inst *p = &s->table.all[i];

        if (p->phase == PROC_DYING) {
            doubt = true; /* its end is reported soon, listed or not */
        } else if (p->phase == PROC_FREE || p->phase == PROC_WAITING || p->tick == s->tick) {
            continue;
        } else if (s->sock && !p->sampled && is_alive(p->id.pid)) {
            doubt = true; /* hidden from us (hidepid): only its end will show */
        } else if (!s->sock || (p->missing_since_ns && now_ns - p->missing_since_ns > CLK_S / 10)) {
            proc_life_vanished(&s->life, p, now_ns);
        } else {
            p->missing_since_ns = p->missing_since_ns ? p->missing_since_ns : now_ns;
            doubt = true;
        }
    }
    return doubt;
}

static enum err take_table(struct proc_linux *s)
{
    struct snapshot snap;
    bool doubt;
    enum err e;

    s->tick++;
    proc_host_clocks(&s->host);
    /* Before the first process is read: that is the same distance from table to table, whatever is
     * reported meanwhile, so that shares of a CPU are right. */
    snap.mono_ns = os_mono_ns();
    if (snap.mono_ns < s->life.last_mono_ns) {
        snap.mono_ns = s->life.last_mono_ns;
    }
    s->life.until_ns = snap.mono_ns;
    e = proc_pids_look(&s->pids);
    if (e) {
        return e;
    }
    s->capped = s->pids.capped;
    drain(s);
    read_all(s);
    drain(s);
    drop_ended(s);
    doubt = drop_vanished(s, snap.mono_ns);
    snap.wall_ns = snap.mono_ns + s->host.mono_to_wall_ns;
    s->life.last_mono_ns = snap.mono_ns;
    s->life.until_ns = INT64_MAX;
    snap.rows = s->rows;
    snap.n_rows = s->n_rows;
    snap.complete = !s->capped && !doubt;
    s->sink.table(s->sink.ctx, &snap);
    s->sink.advance(s->sink.ctx, snap.wall_ns, snap.mono_ns);
    s->first_done = true;
    return ERR_OK;
}

/* -- source -- */

static int64_t wanted(int64_t pace_ns, int64_t conf_ns)
{
    return pace_ns > 0 ? pace_ns : conf_ns;
}

/* A tick that came too late is left out, the grid stays. */
static int64_t next_on_grid(int64_t due_ns, int64_t now_ns, int64_t period_ns)
{
    return due_ns + ((now_ns - due_ns) / period_ns + 1) * period_ns;
}

/* The same after a tick; those that were left out are counted. */
static int64_t after_tick(struct proc_linux *s, int64_t due_ns, int64_t now_ns, int64_t period_ns)
{
    if (now_ns > due_ns) {
        s->host.counts.late += (uint64_t)((now_ns - due_ns) / period_ns);
    }
    return next_on_grid(due_ns, now_ns, period_ns);
}

/* A tick between two tables. */
static void tell_time(struct proc_linux *s, int64_t now_ns)
{
    if (now_ns > s->life.last_mono_ns) {
        s->life.last_mono_ns = now_ns;
        s->sink.advance(s->sink.ctx, now_ns + s->host.mono_to_wall_ns, now_ns);
    }
}

static enum err run(struct source *base)
{
    struct proc_linux *s = (struct proc_linux *)base;
    const struct source_pace *pace = &base->pace;
    int64_t next_ns = os_mono_ns(), table_ns = next_ns;
    bool stopped = false;

    while (!stopped) {
        int64_t now_ns = os_mono_ns();
        int64_t due_ns = proc_life_deadline(&s->life);
        enum err e;

        if (now_ns >= table_ns) {
            e = take_table(s);
            if (e) {
                return e;
            }
            now_ns = os_mono_ns();
            table_ns = after_tick(s, table_ns, now_ns, wanted(pace->table_ns, s->conf.period_ns));
            next_ns = next_on_grid(next_ns, now_ns, wanted(pace->tick_ns, s->conf.period_ns));
            continue;
        }
        if (now_ns >= next_ns) {
            tell_time(s, now_ns);
            next_ns = next_on_grid(next_ns, now_ns, wanted(pace->tick_ns, s->conf.period_ns));
        }
        next_ns = next_ns < table_ns ? next_ns : table_ns;
        due_ns = due_ns < next_ns ? due_ns : next_ns;
        due_ns = due_ns < now_ns + CLK_S ? due_ns - now_ns : CLK_S;
        e = proc_sock_wait(s->sock, s->stop_fd, due_ns > 0 ? due_ns : 0, &stopped);
        if (e) {
            return e;
        }
        drain(s);
    }
    return ERR_OK;
}

static void stop(struct source *base)
{
    struct proc_linux *s = (struct proc_linux *)base;
    uint64_t one = 1;

    /* Fails only when called some 2^64 times already. */
    if (write(s->stop_fd, &one, sizeof one) != sizeof one) {
        return;
    }
}

static void stats(const struct source *base, struct source_stats *out)
{
    const struct proc_linux *s = (const struct proc_linux *)base;
    const struct proc_counts *c = &s->host.counts;

    *out = (struct source_stats){.facts = c->facts,
                                 .rows = c->in,
                                 .late = c->late,
                                 .ended = c->ended,
                                 .lost_events = c->lost_events,
                                 .damaged = c->damaged,
                                 .gone = c->gone,
                                 .denied = c->denied,
                                 .capped = c->capped};
}

static void close_source(struct source *base)
{
    struct proc_linux *s = (struct proc_linux *)base;

    if (!s) {
        return;
    }
    proc_sock_close(s->sock);
    proc_pids_close(&s->pids);
    proc_inst_fini(&s->table);
    proc_host_close(&s->host);
    if (s->stop_fd >= 0) {
        close(s->stop_fd);
    }
    mem_free(s->rows);
    mem_free(s->owners);
    mem_free(s);
}

static const struct source_ops ops = {
    .run = run, .stop = stop, .stats = stats, .close = close_source};

static enum err open_means(struct proc_linux *s)
{
    struct source_about *about = &s->base.about;
    struct errmsg means = {"turned off by configuration"};
    enum err e = s->conf.events ? proc_sock_open(&s->sock, &means) : ERR_ACCESS;

    if (e == ERR_NOMEM) {
        return e;
    }
    about->polled = s->sock == NULL;
    if (s->sock) {
        snprintf(about->detail, sizeof about->detail, "%.250s", means.text);
        s->life.records = proc_sock_has_records(s->sock);
    } else {
        snprintf(about->detail, sizeof about->detail,
                 "starts and exits by comparing tables, lives shorter than an interval are "
                 "invisible: %.150s",
                 means.text);
    }
    if (s->life.records) {
        s->switches = (struct proc_switches){s, ask_sums, proc_sock_counts_ended(s->sock)};
    }
    return ERR_OK;
}

static enum err describe(struct proc_linux *s)
{
    struct source_about *about = &s->base.about;
    struct utsname uts;

    about->name = "proc";
    about->cpus = os_cpu_count();
    if (uname(&uts) == 0) {
        snprintf(about->system, sizeof about->system, "%.12s %.48s", uts.sysname, uts.release);
    }
    return os_boot_id(about->boot.b);
}

static enum err open_parts(struct proc_linux *s, struct errmsg *why)
{
    enum err e = proc_host_open(&s->host, "/proc", why);

    if (e) {
        return e;
    }
    s->host.every_file = s->conf.every_file;
    s->rows = mem_array(s->conf.processes_max, sizeof *s->rows);
    s->owners = mem_array(s->conf.processes_max, sizeof *s->owners);
    if (!s->rows || !s->owners) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    e = proc_inst_init(&s->table, &s->host, s->conf.processes_max);
    if (e) {
        return errmsg_set(why, e, "out of memory");
    }
    e = proc_pids_open(&s->pids, &s->host, "/proc", s->conf.processes_max);
    if (e) {
        return errmsg_set(why, e, "cannot list /proc: %s", err_text(e));
    }
    s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->stop_fd < 0) {
        return errmsg_set(why, ERR_IO, "cannot create an event descriptor: %s", strerror(errno));
    }
    proc_life_init(&s->life, &s->table, s->sink, false);
    e = describe(s);
    if (!e) {
        e = open_means(s);
    }
    return e ? errmsg_set(why, e, "cannot open the process source: %s", err_text(e)) : ERR_OK;
}

enum err proc_linux_open(struct source **out, const struct proc_linux_conf *conf,
                         struct source_sink sink, struct errmsg *why)
{
    struct proc_linux *s;
    enum err e;

    if (conf->period_ns < CLK_MS || conf->period_ns > 10 * CLK_S || conf->processes_max == 0 ||
        conf->processes_max > PROC_LINUX_PROCESSES_MAX) {
        return errmsg_set(why, ERR_RANGE, "period 1 ms to 10 s, 1 to %d processes",
                          PROC_LINUX_PROCESSES_MAX);
    }
    s = mem_zalloc(sizeof *s);
    if (!s) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    s->base.ops = &ops;
    s->conf = *conf;
    s->sink = sink;
    s->stop_fd = -1;
    e = open_parts(s, why);
    if (e) {
        close_source(&s->base);
        return e;
    }
    *out = &s->base;
    return ERR_OK;
}
