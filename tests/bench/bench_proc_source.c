/* What the live Linux source costs: CPU of its thread per process and table, all columns, with 200
 * further processes that wait, and per life of a brief process. "every_file": as if all of them had
 * run. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/source/linux/proc_linux.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"

#define CHILDREN   200
#define LIVES      500
#define TABLES_MAX 200
#define WARM_UP    10

struct run {
    struct source *source;
    size_t tables, wanted;
    int64_t last_ns;
    double per_row_us[TABLES_MAX];
    size_t n_rows, stops;
    int64_t first_stop_ns;
    int go_fd; /* gets a byte at the first table; -1 = none */
    double columns;
};

static void *wait_for_ever(void *arg)
{
    (void)arg;
    for (;;) {
        pause();
    }
    return NULL;
}

/* Processes of `threads` threads each that wait until they are killed. */
static void start_children(pid_t *pids, size_t n, unsigned threads)
{
    for (size_t i = 0; i < n; i++) {
        pids[i] = fork();
        if (pids[i] < 0) {
            bench_fail("cannot fork");
        }
        if (pids[i] == 0) {
            for (unsigned t = 1; t < threads; t++) {
                pthread_t th;

                if (pthread_create(&th, NULL, wait_for_ever, NULL) != 0) {
                    _exit(1);
                }
            }
            wait_for_ever(NULL);
        }
    }
}

static void stop_children(const pid_t *pids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        kill(pids[i], SIGKILL);
        (void)waitpid(pids[i], NULL, 0);
    }
}

static void on_table(void *ctx, const struct snapshot *snap)
{
    struct run *r = ctx;
    int64_t now_ns = os_thread_cpu_ns();

    if (r->tables >= WARM_UP && snap->n_rows > 0) {
        r->per_row_us[r->tables - WARM_UP] =
            (double)(now_ns - r->last_ns) / 1000 / (double)snap->n_rows;
    }
    r->tables++;
    r->n_rows = snap->n_rows;
    r->columns = 0;
    for (size_t i = 0; i < snap->n_rows; i++) {
        r->columns += metric_mask_count(snap->rows[i].mask) / (double)snap->n_rows;
    }
    if (r->go_fd >= 0 && r->tables == 1 && write(r->go_fd, "g", 1) != 1) {
        bench_fail("cannot start the lives");
    }
    if (r->tables == r->wanted + WARM_UP) {
        r->source->ops->stop(r->source);
    }
    r->last_ns = os_thread_cpu_ns();
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    (void)ctx;
    (void)wall_ns;
    (void)mono_ns;
}

static void on_fact(void *ctx, const struct event *ev)
{
    struct run *r = ctx;

    if (ev->kind != EV_PROC_STOP || r->go_fd < 0) {
        return;
    }
    r->stops++;
    if (r->stops == 1) {
        r->first_stop_ns = os_thread_cpu_ns(); /* the first table is not counted */
    } else if (r->stops == LIVES) {
        r->source->ops->stop(r->source);
    }
}

static void open_source(struct run *r, bool events, bool every_file, int64_t period_ns)
{
    const struct proc_linux_conf conf = {period_ns, MODEL_PROCESSES_MAX, events, every_file};
    const struct source_sink sink = {
        .ctx = r, .fact = on_fact, .table = on_table, .advance = on_advance};
    struct errmsg why;

    if (proc_linux_open(&r->source, &conf, sink, &why) != ERR_OK) {
        bench_fail(why.text);
    }
}

static void measure_tables(const char *name, bool events, bool every_file, unsigned threads,
                           double goal)
{
    static struct run r;
    pid_t pids[CHILDREN];
    char figure[64];
    double us;

    r = (struct run){.wanted = bench_quick() ? 20 : TABLES_MAX, .go_fd = -1};
    start_children(pids, CHILDREN, threads);
    open_source(&r, events, every_file, 20 * CLK_MS);
    if (r.source->ops->run(r.source) != ERR_OK) {
        bench_fail("the source failed");
    }
    r.source->ops->close(r.source);
    stop_children(pids, CHILDREN);
    us = bench_median(r.per_row_us, r.wanted);
    bench_figure(name, us, "us/process", goal, BENCH_LESS);
    snprintf(figure, sizeof figure, "%s_columns", name);
    bench_figure(figure, r.columns, "columns/process", 0, BENCH_MORE);
}

/* A process that, told to by a byte, makes LIVES brief ones. (Forks of this process itself would
 * make the source pay for copied pages.) */
static pid_t start_forker(const int go[2])
{
    pid_t forker = fork();
    char c;

    if (forker == 0) {
        close(go[1]);
        if (read(go[0], &c, 1) != 1) {
            _exit(1);
        }
        for (int i = 0; i < LIVES; i++) {
            pid_t pid = fork();

            if (pid == 0) {
                _exit(0);
            }
            (void)waitpid(pid, NULL, 0);
        }
        _exit(0);
    }
    return forker;
}

/* Lives of fork, brief being, end: what their messages cost. */
static void measure_lives(void)
{
    static struct run r;
    pid_t forker;
    int go[2];

    r = (struct run){.wanted = SIZE_MAX - WARM_UP, .go_fd = -1};
    if (pipe(go) != 0) {
        bench_fail("no pipe");
    }
    forker = start_forker(go);
    open_source(&r, true, false, 10 * CLK_S);
    if (r.source->about.polled || forker < 0) {
        fprintf(stderr, "skipped: %s\n", r.source->about.detail);
    } else {
        r.go_fd = go[1]; /* told after the first table */
        if (r.source->ops->run(r.source) != ERR_OK) {
            bench_fail("the source failed");
        }
        bench_figure("proc_source_life",
                     (double)(os_thread_cpu_ns() - r.first_stop_ns) / 1000 / (LIVES - 1), "us/life",
                     0, BENCH_LESS);
    }
    r.source->ops->close(r.source);
    close(go[0]);
    close(go[1]);
    (void)waitpid(forker, NULL, 0);
}

int main(int argc, char **argv)
{
    bench_begin(argc, argv, "bench_proc_source",
                "live Linux source, 200 processes that wait beside this machine's own");
    measure_tables("proc_source", true, false, 1, 10);
    measure_tables("proc_source_every_file", true, true, 1, 18);
    measure_tables("proc_source_polled", false, false, 1, 10);
    measure_tables("proc_source_4_threads", true, false, 4, 0);
    measure_tables("proc_source_4_threads_every_file", true, true, 4, 0);
    measure_tables("proc_source_polled_4_threads", false, false, 4, 0);
    measure_tables("proc_source_polled_4_threads_every_file", false, true, 4, 0);
    measure_lives();
    return bench_end();
}
