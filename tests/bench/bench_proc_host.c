/* What the agent costs on a Linux host of many processes: CPU of the whole program with the live
 * source, from procfs to encoded batches, nothing sent. Two ways by turns in one run: all files of
 * every process at every tick, as it was, and only of those that have run, as it is; that once more
 * with --starts programs that start and end each second. Most processes wait; of a hundred, --busy
 * wake once a second. The host's own processes are beside them: `unshare --pid --fork --mount-proc`
 * leaves them out, and with them the kernel's events, which the first namespace alone gets. */
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/batch/batch.h"
#include "agent/conf/agent_conf.h"
#include "agent/monitor.h"
#include "agent/source/linux/proc_linux.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"

#define ROUNDS_MAX 32

static unsigned processes, busy, rate_hz, seconds, rounds, starts;

struct rig {
    bool every_file;
    struct agent_conf agent;
    struct privacy *filter;
    struct monitor *monitor;
    struct batch_builder *batch;
    struct os_thread *core;
    uint64_t bytes;
};

struct cost {
    double cpu[ROUNDS_MAX], us[ROUNDS_MAX]; /* % of a core; per process and tick */
    double resident_mb, rows, lives;        /* of the last round */
};

/* -- the host -- */

static void be_process(bool wakes)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    for (;;) {
        if (wakes) {
            os_sleep_ns(CLK_S);
        } else {
            pause();
        }
    }
}

static pid_t *start_processes(void)
{
    pid_t *pids = mem_array(processes, sizeof *pids);

    for (unsigned i = 0; pids && i < processes; i++) {
        pids[i] = fork();
        if (pids[i] < 0) {
            bench_fail("cannot fork");
        }
        if (pids[i] == 0) {
            be_process(i % 100 < busy);
        }
    }
    bench_check(pids ? ERR_OK : ERR_NOMEM, "processes");
    return pids;
}

/* Starts a program so many times a second and waits for its end. */
static void be_starter(void)
{
    char name[] = "true";
    char *argv[] = {name, NULL}, *no_environment[] = {NULL};
    int64_t next_ns = os_mono_ns();

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    for (;;) {
        pid_t pid;

        if (posix_spawn(&pid, "/bin/true", NULL, NULL, argv, no_environment) != 0 ||
            waitpid(pid, NULL, 0) != pid) {
            _exit(1);
        }
        next_ns += CLK_S / starts;
        os_sleep_ns(next_ns - os_mono_ns());
    }
}

static pid_t start_starter(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        be_starter();
    }
    return pid;
}

static void stop_starter(pid_t pid)
{
    if (kill(pid, SIGKILL) != 0 || waitpid(pid, NULL, 0) != pid) {
        bench_fail("nothing could be started");
    }
}

static void stop_processes(pid_t *pids)
{
    for (unsigned i = 0; i < processes; i++) {
        kill(pids[i], SIGKILL);
        (void)waitpid(pids[i], NULL, 0);
    }
    mem_free(pids);
}

/* -- the agent -- */

static enum err open_source(void *ctx, struct source **out, struct source_sink sink,
                            struct errmsg *why)
{
    const struct rig *g = ctx;
    const struct proc_linux_conf conf = {g->agent.period_ns, MODEL_PROCESSES_MAX, true,
                                         g->every_file};

    return proc_linux_open(out, &conf, sink, why);
}

static void on_tick(void *ctx, const struct sample_tick *tick)
{
    struct rig *g = ctx;

    bench_check(batch_tick(g->batch, tick), "batch");
}

static void on_life(void *ctx, const struct life_event *ev)
{
    struct rig *g = ctx;

    bench_check(batch_event(g->batch, ev), "batch");
}

static enum err on_batch(void *ctx, uint64_t seq, const void *bytes, size_t n)
{
    struct rig *g = ctx;

    (void)seq;
    (void)bytes;
    g->bytes += n;
    return ERR_OK;
}

static void run_core(void *arg)
{
    const struct rig *g = arg;

    bench_check(monitor_run(g->monitor), "run");
}

static void open_agent(struct rig *g)
{
    struct monitor_conf monitor = {.open = open_source,
                                   .open_ctx = g,
                                   .processes_max = MODEL_PROCESSES_MAX,
                                   .tick = on_tick,
                                   .life = on_life,
                                   .ctx = g};
    struct batch_conf batch = {.out = on_batch, .ctx = g};
    struct errmsg why = {0};
    char rate[48];
    const char *const sets[] = {rate};

    (void)snprintf(rate, sizeof rate, "sampling.rate_hz=%u", rate_hz);
    if (agent_conf_load(&g->agent, NULL, sets, 1, &why)) {
        bench_fail(why.text);
    }
    monitor.period_ns = g->agent.period_ns;
    if (monitor_create(&g->monitor, &monitor, &why) || monitor_open(g->monitor, &why)) {
        bench_fail(why.text);
    }
    bench_check(privacy_create(&g->filter, &g->agent.filter), "filter");
    batch.samples = g->agent.batch_samples;
    batch.max_bytes = g->agent.batch_bytes;
    batch.max_age_ns = g->agent.batch_age_ns;
    batch.filter = g->filter;
    batch.head.source = str_make(monitor_about(g->monitor)->name);
    batch.head.cpus = (uint32_t)os_cpu_count();
    batch.head.stream = 1;
    bench_check(batch_create(&g->batch, &batch), "batch");
    bench_check(os_thread_start(&g->core, "core", run_core, g), "thread");
}

static void close_agent(struct rig *g)
{
    monitor_stop(g->monitor);
    os_thread_join(g->core);
    batch_destroy(g->batch);
    monitor_destroy(g->monitor);
    privacy_destroy(g->filter);
    agent_conf_fini(&g->agent);
}

/* -- measuring -- */

static void measure(struct cost *c, unsigned round, bool every_file)
{
    struct rig g = {.every_file = every_file};
    struct monitor_stats a, b;
    int64_t began_ns;
    double span_ns, rows;

    open_agent(&g);
    os_sleep_ns(4 * CLK_S);
    began_ns = os_mono_ns();
    monitor_stats(g.monitor, &a);
    os_sleep_ns(seconds * CLK_S);
    monitor_stats(g.monitor, &b);
    span_ns = (double)(os_mono_ns() - began_ns);
    rows = (double)(b.source.rows - a.source.rows);
    c->cpu[round] = 100.0 * (double)(b.cpu_ns - a.cpu_ns) / span_ns;
    c->us[round] = rows > 0 ? (double)(b.cpu_ns - a.cpu_ns) / 1000 / rows : 0;
    c->rows = rows * 1e9 / span_ns;
    c->lives = (double)(b.source.facts - a.source.facts) * 1e9 / span_ns;
    c->resident_mb = (double)b.resident_bytes / 1e6;
    close_agent(&g);
}

static void tell(const char *way, const char *what, double value, const char *unit, double goal)
{
    char name[64];

    (void)snprintf(name, sizeof name, "proc_host_%s%s", way, what);
    bench_figure(name, value, unit, goal, BENCH_LESS);
}

static void tell_cost(const char *way, struct cost *c, double goal)
{
    tell(way, "", bench_median(c->cpu, rounds), "% of a core", goal);
    tell(way, "_least", c->cpu[0], "% of a core", 0);
    tell(way, "_most", c->cpu[rounds - 1], "% of a core", 0);
    tell(way, "_each", bench_median(c->us, rounds), "us/process", 0);
    tell(way, "_rows", c->rows, "per s", 0);
    tell(way, "_starts_and_stops", c->lives, "per s", 0);
    tell(way, "_resident", c->resident_mb, "MB", 0);
}

static const struct opt options[] = {
    {"processes", 0, "N", "beside those of this host (2000)", false},
    {"busy", 0, "N", "of a hundred wake once a second (5)", false},
    {"starts", 0, "N", "programs started a second in the last way (20; 0: without it)", false},
    {"rate", 0, "N", "ticks a second (1)", false},
    {"seconds", 0, "N", "of a measurement (20)", false},
    {"rounds", 0, "N", "both ways by turns so often (3)", false},
    {"quick", 0, NULL, "try the program out", false},
    {"json", 0, NULL, "one line per figure", false},
};
static const struct opt_command command = {.program = "bench_proc_host",
                                           .brief = "the agent's CPU on a host of many processes",
                                           .opts = options,
                                           .n_opts = sizeof options / sizeof *options};

static void take_options(const struct opt_args *args)
{
    bool quick = opt_flag(args, "quick");

    processes = (unsigned)bench_number(args, "processes", 1, 4000, quick ? 200 : 2000);
    busy = (unsigned)bench_number(args, "busy", 0, 100, 5);
    starts = (unsigned)bench_number(args, "starts", 0, 1000, 20);
    rate_hz = (unsigned)bench_number(args, "rate", 1, 10, 1);
    seconds = (unsigned)bench_number(args, "seconds", 1, 600, quick ? 1 : 20);
    rounds = (unsigned)bench_number(args, "rounds", 1, ROUNDS_MAX, quick ? 1 : 3);
}

static void begin(bool json)
{
    char name[] = "bench_proc_host", flag[] = "--json", about[320];
    char *argv[] = {name, flag, NULL};

    (void)snprintf(
        about, sizeof about,
        "the agent from procfs to batches, %u processes beside this host's own, %u %% of "
        "them\nwake once a second, %u Hz; %u x %u s with every file, as many of who ran, "
        "and as many\nwith %u starts a second",
        processes, busy, rate_hz, rounds, seconds, starts);
    bench_begin(json ? 2 : 1, argv, name, about);
}

int main(int argc, char **argv)
{
    static struct cost before, after, with_starts;
    double goal;
    struct opt_args *args = bench_options(&command, argc, argv);
    pid_t *pids;

    take_options(args);
    begin(opt_flag(args, "json"));
    opt_free(args);
    os_lean_heap(); /* as the agent does */
    pids = start_processes();
    for (unsigned i = 0; i < rounds; i++) {
        measure(&before, i, true);
        measure(&after, i, false);
        if (starts > 0) {
            pid_t starter = start_starter();

            measure(&with_starts, i, false);
            stop_starter(starter);
        }
    }
    stop_processes(pids);
    goal = processes == 2000 && rate_hz == 1 ? 2 : 0;
    tell_cost("every_file", &before, 0);
    tell_cost("who_ran", &after, goal);
    if (starts > 0) {
        tell_cost("with_starts", &with_starts, goal);
    }
    bench_figure("proc_host_ratio", before.us[rounds / 2] / after.us[rounds / 2], "times less", 0,
                 BENCH_MORE);
    return bench_end();
}
