/* What the agent costs at 10 to 1000 ticks a second while 10,000 records a second come in from a
 * host of 200 processes, at level L3, beside psutil reading as many processes at the same rates;
 * and what it costs at other rates of records. Nothing is sent: from the callbacks to the queue of
 * batches.
 *
 * Every measurement is a process of its own (this program again, --measure), so that memory is that
 * of one agent. Rounds interleave all rates, a process with all but the agent, which gives what the
 * measuring itself costs, one that only wakes as often as the agent, and psutil; what is told is
 * the median, its spread the least and the largest. Memory is that of the whole process, what makes
 * the records included. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/bench/overhead_agent.h"

#define ROUNDS_MAX 32
#define SLEEPERS   200
#define PATH_SIZE  512
#define LINE_SIZE  4096
#define WAKES      13          /* a second, as the agent's core thread with this load; */
#define WAKE_BYTES (300 << 10) /* so much it touches then: threads, processes, records */

struct options {
    unsigned rounds, seconds, warm_up, delivery_ms, per_second, psutil_s;
    unsigned rate; /* only this one; 0 = all */
    unsigned extension, curve, gc_network;
};

/* Short enough to be run: 7 * 6 s and, beside psutil, 5 * 3 s a round; under 3 minutes. */
static struct options opt = {.rounds = 3,
                             .seconds = 4,
                             .warm_up = 2,
                             .delivery_ms = 100,
                             .per_second = 10000,
                             .psutil_s = 2};

struct row {
    unsigned rate_hz;
    double cpu_goal, mb_goal; /* 0 = none */
    double cpu[ROUNDS_MAX], mb[ROUNDS_MAX], psutil_cpu[ROUNDS_MAX], psutil_hz[ROUNDS_MAX],
        psutil_mb[ROUNDS_MAX];
    unsigned n, n_psutil;
    struct overhead_figures last;
};

static struct row rows[] = {{.rate_hz = 10, .cpu_goal = 0.3, .mb_goal = 8},
                            {.rate_hz = 50},
                            {.rate_hz = 100, .cpu_goal = 0.45, .mb_goal = 9},
                            {.rate_hz = 500},
                            {.rate_hz = 1000, .cpu_goal = 0.7, .mb_goal = 10}};
enum { N_ROWS = sizeof rows / sizeof *rows };

static pid_t sleepers[SLEEPERS];

/* -- options -- */

static const struct {
    const char *name;
    unsigned *to;
} options[] = {
    {"--rounds", &opt.rounds},      {"--seconds", &opt.seconds},
    {"--warm-up", &opt.warm_up},    {"--delivery-ms", &opt.delivery_ms},
    {"--records", &opt.per_second}, {"--psutil-seconds", &opt.psutil_s},
    {"--rate", &opt.rate},          {"--extension", &opt.extension},
    {"--curve", &opt.curve},        {"--gc-network", &opt.gc_network},
};

/* Takes out of argv what is ours; gives how many are left. */
static int take_options(int argc, char **argv)
{
    int left = 1;

    for (int i = 1; i < argc; i++) {
        size_t k = 0, n = sizeof options / sizeof *options;

        while (k < n && strcmp(argv[i], options[k].name) != 0) {
            k++;
        }
        if (k == n || i + 1 == argc) {
            argv[left++] = argv[i];
        } else {
            *options[k].to = (unsigned)strtoul(argv[++i], NULL, 10);
        }
    }
    argv[left] = NULL;
    return left;
}

/* -- the other end of a measurement -- */

static int measure_here(char **argv)
{
    struct overhead_conf conf = {.rate_hz = (unsigned)strtoul(argv[2], NULL, 10),
                                 .per_second = opt.per_second,
                                 .delivery_ms = opt.delivery_ms,
                                 .warm_up_s = opt.warm_up,
                                 .seconds = opt.seconds,
                                 .gc_network = opt.gc_network,
                                 .empty = strcmp(argv[2], "0") == 0,
                                 .extension = opt.extension != 0};
    struct overhead_figures f;

    os_lean_heap(); /* as the agent does */
    if (strcmp(argv[2], "wakes") == 0) {
        overhead_wake(WAKES, WAKE_BYTES, opt.seconds, &f);
    } else {
        overhead_measure(&conf, &f);
    }
    return fwrite(&f, sizeof f, 1, stdout) == 1 ? 0 : 1;
}

/* Runs this program again. */
static struct overhead_figures measure_what(const char *what, unsigned per_second, unsigned seconds)
{
    char path[PATH_SIZE], command[PATH_SIZE + 256];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    struct overhead_figures f;
    FILE *p;

    if (n <= 0) {
        bench_fail("where am I?");
    }
    path[n] = '\0';
    (void)snprintf(command, sizeof command,
                   "'%s' --measure %s --records %u --delivery-ms %u --warm-up %u --seconds %u "
                   "--extension %u --gc-network %u",
                   path, what, per_second, opt.delivery_ms, opt.warm_up, seconds, opt.extension,
                   opt.gc_network);
    p = popen(command, "r");
    if (!p || fread(&f, sizeof f, 1, p) != 1 || pclose(p) != 0) {
        bench_fail("a measurement failed");
    }
    return f;
}

/* rate_hz 0: without an agent. */
static struct overhead_figures measure(unsigned rate_hz, unsigned per_second, unsigned seconds)
{
    char what[16];

    (void)snprintf(what, sizeof what, "%u", rate_hz);
    return measure_what(what, per_second, seconds);
}

static double percent(int64_t ns, const struct overhead_figures *f)
{
    return 100.0 * (double)ns / (double)f->elapsed_ns;
}

/* -- psutil -- */

/* They end with this program, however it ends: nobody else holds the other end of their pipe. */
static void start_sleepers(void)
{
    int ends[2];
    char c;

    if (pipe(ends) != 0) {
        bench_fail("no pipe");
    }
    for (size_t i = 0; i < SLEEPERS; i++) {
        sleepers[i] = fork();
        if (sleepers[i] < 0) {
            bench_fail("cannot fork");
        }
        if (sleepers[i] == 0) {
            close(ends[1]);
            close(STDOUT_FILENO);
            close(STDERR_FILENO);
            _exit(read(ends[0], &c, 1) == 0 ? 0 : 1);
        }
    }
    close(ends[0]);
    (void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
}

static void stop_sleepers(void)
{
    for (size_t i = 0; i < SLEEPERS; i++) {
        kill(sleepers[i], SIGKILL);
        (void)waitpid(sleepers[i], NULL, 0);
    }
}

/* False: python3 has no psutil. */
static bool poll_with(const char *python, struct row *row, char *pids)
{
    char command[LINE_SIZE], line[256];
    long long rounds, elapsed_ns, cpu_ns, resident;
    bool good;
    FILE *p;

    (void)snprintf(command, sizeof command, "%s -B tests/bench/psutil_loop.py %u 1 %u%s", python,
                   row->rate_hz, opt.psutil_s, pids);
    p = popen(command, "r");
    good = p && fgets(line, sizeof line, p) &&
           sscanf(line, "rounds=%lld elapsed_ns=%lld cpu_ns=%lld resident=%lld", &rounds,
                  &elapsed_ns, &cpu_ns, &resident) == 4;
    if (p) {
        (void)pclose(p);
    }
    if (good) {
        row->psutil_cpu[row->n_psutil] = 100.0 * (double)cpu_ns / (double)elapsed_ns;
        row->psutil_hz[row->n_psutil] = (double)rounds * 1e9 / (double)elapsed_ns;
        row->psutil_mb[row->n_psutil++] = (double)resident / 1e6;
    }
    return good;
}

static bool poll(struct row *row)
{
    char pids[LINE_SIZE - 256];
    size_t n = 0;

    for (size_t i = 0; i < SLEEPERS; i++) {
        n += (size_t)snprintf(pids + n, sizeof pids - n, " %ld", (long)sleepers[i]);
    }
    return poll_with("python3", row, pids) || poll_with("/usr/bin/python3", row, pids);
}

/* -- rounds -- */

static void check_figures(const struct overhead_figures *f)
{
    double records = (double)f->records * 1e9 / (double)f->elapsed_ns;

    if (f->level != 3 || f->dropped || f->unknown || f->corrupt || f->gaps || f->unattributed ||
        !f->batches || !f->lives || !f->tables || records < 0.95 * opt.per_second ||
        (opt.gc_network && (!f->collections || !f->network))) {
        fprintf(stderr,
                "bench_overhead: L%u, %llu records dropped, %llu unknown, %llu corrupt, %llu "
                "unattributed, %llu gaps, %llu late, %.0f records/s\n",
                f->level, (unsigned long long)f->dropped, (unsigned long long)f->unknown,
                (unsigned long long)f->corrupt, (unsigned long long)f->unattributed,
                (unsigned long long)f->gaps, (unsigned long long)f->late, records);
        bench_fail("the stream was not taken in as it should be");
    }
}

static double empty_cpu[ROUNDS_MAX], empty_mb[ROUNDS_MAX], wakes_cpu[ROUNDS_MAX];

static void run_row(struct row *row, double without)
{
    row->last = measure(row->rate_hz, opt.per_second, opt.seconds);
    check_figures(&row->last);
    row->cpu[row->n] = percent(row->last.cpu_ns, &row->last) - without;
    row->mb[row->n++] = (double)row->last.resident / 1e6;
}

static void run_rounds(void)
{
    bool psutil = opt.psutil_s > 0;

    for (unsigned i = 0; i < opt.rounds; i++) {
        struct overhead_figures without, wakes;

        fprintf(stderr, "bench_overhead: round %u of %u\n", i + 1, opt.rounds);
        without = measure(0, opt.per_second, opt.seconds);
        wakes = measure_what("wakes", opt.per_second, opt.seconds);
        empty_cpu[i] = percent(without.cpu_ns, &without);
        wakes_cpu[i] = percent(wakes.cpu_ns, &wakes);
        empty_mb[i] = (double)without.resident / 1e6;
        for (size_t k = 0; k < N_ROWS; k++) {
            if (opt.rate && opt.rate != rows[k].rate_hz) {
                continue;
            }
            run_row(&rows[k], empty_cpu[i]);
            psutil = psutil && poll(&rows[k]);
        }
    }
    if (opt.psutil_s && !psutil) {
        fprintf(stderr, "bench_overhead: no psutil (python3-psutil): left out\n");
    }
}

/* -- what is told -- */

static void figure(const char *format, unsigned rate_hz, double value, const char *unit,
                   double goal)
{
    char name[64];

    (void)snprintf(name, sizeof name, "overhead_%s%u_hz_%s", opt.gc_network ? "gc_network_" : "",
                   rate_hz, format);
    bench_figure(name, value, unit, goal, BENCH_LESS);
}

static void tell_row(struct row *r)
{
    const struct overhead_figures *f = &r->last;
    double seconds = (double)f->elapsed_ns / 1e9, all = seconds + opt.warm_up;

    figure("cpu", r->rate_hz, bench_median(r->cpu, r->n), "% of a core", r->cpu_goal);
    figure("cpu_least", r->rate_hz, r->cpu[0], "% of a core", 0);
    figure("cpu_most", r->rate_hz, r->cpu[r->n - 1], "% of a core", 0);
    figure("resident", r->rate_hz, bench_median(r->mb, r->n), "MB", r->mb_goal);
    figure("callbacks", r->rate_hz, percent(f->callback_ns, f), "% of a core", 0);
    figure("core_thread", r->rate_hz, percent(f->core_ns, f), "% of a core", 0);
    figure("waits", r->rate_hz, (double)f->waits / seconds, "per s", 0);
    figure("tables", r->rate_hz, (double)f->tables / seconds, "per s", 0);
    figure("ticks_with_rows", r->rate_hz, (double)f->ticks / all, "per s", 0);
    figure("ticks_without", r->rate_hz, (double)f->idle_ticks / all, "per s", 0);
    figure("rows", r->rate_hz, (double)f->rows / all, "per s", 0);
    figure("values", r->rate_hz, (double)f->values / all, "per s", 0);
    figure("bytes", r->rate_hz, (double)f->bytes / all, "per s", 0);
    if (opt.gc_network) {
        figure("collections", r->rate_hz, (double)f->collections / all, "records/s", 0);
        figure("network", r->rate_hz, (double)f->network / all, "records/s", 0);
    }
    figure("late", r->rate_hz, (double)f->late, "records", 0);
    figure("hurried", r->rate_hz, (double)f->hurried, "records", 0);
    if (r->n_psutil) {
        figure("psutil_cpu", r->rate_hz, bench_median(r->psutil_cpu, r->n_psutil), "% of a core",
               0);
        figure("psutil_reached", r->rate_hz, bench_median(r->psutil_hz, r->n_psutil), "Hz", 0);
        figure("psutil_resident", r->rate_hz, bench_median(r->psutil_mb, r->n_psutil), "MB", 0);
    }
}

static void tell_curve(void)
{
    static const unsigned rates[] = {1000, 3000, 10000, 30000, 100000};

    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        struct overhead_figures f = measure(100, rates[i], opt.seconds < 20 ? opt.seconds : 20);
        char name[64];

        (void)snprintf(name, sizeof name, "overhead_%u_records_cpu", rates[i]);
        bench_figure(name, percent(f.cpu_ns, &f), "% of a core", 0, BENCH_LESS);
        (void)snprintf(name, sizeof name, "overhead_%u_records_dropped", rates[i]);
        bench_figure(name, (double)f.dropped, "records", 0, BENCH_LESS);
        (void)snprintf(name, sizeof name, "overhead_%u_records_level", rates[i]);
        bench_figure(name, f.level, "", 0, BENCH_MORE); /* below 3: what was lost made it fall */
    }
}

static const char *verdict(double value, double goal)
{
    return goal <= 0 ? "" : value < goal ? ", OK" : ", **MISSED**";
}

/* The table of docs/performance.md; values are sorted by now. */
static void print_table(void)
{
    printf("\n| ticks | CPU, %% of a core: median (least–most) | goal | resident | goal | psutil: "
           "reached | CPU | resident |\n|---|---|---|---|---|---|---|---|\n");
    for (size_t k = 0; k < N_ROWS; k++) {
        const struct row *r = &rows[k];
        double cpu, mb;

        if (r->n == 0) {
            continue;
        }
        cpu = r->cpu[r->n / 2];
        mb = r->mb[r->n / 2];
        printf("| %u Hz | %.3f (%.3f–%.3f)%s | ", r->rate_hz, cpu, r->cpu[0], r->cpu[r->n - 1],
               verdict(cpu, r->cpu_goal));
        if (r->cpu_goal > 0) {
            printf("< %g | %.1f MB%s | < %g MB | ", r->cpu_goal, mb, verdict(mb, r->mb_goal),
                   r->mb_goal);
        } else {
            printf("none | %.1f MB | none | ", mb);
        }
        if (r->n_psutil) {
            printf("%.1f Hz | %.1f | %.1f MB |\n", r->psutil_hz[r->n_psutil / 2],
                   r->psutil_cpu[r->n_psutil / 2], r->psutil_mb[r->n_psutil / 2]);
        } else {
            printf("– | – | – |\n");
        }
    }
}

int main(int argc, char **argv)
{
    bool json = false;

    argc = take_options(argc, argv);
    if (argc == 3 && strcmp(argv[1], "--measure") == 0) {
        return measure_here(argv);
    }
    for (int i = 1; i < argc; i++) {
        json = json || strcmp(argv[i], "--json") == 0;
    }
    bench_begin(argc, argv, "bench_overhead",
                "The agent, 200 processes, level L3. Also: --rounds N --seconds N --warm-up N "
                "--records N --delivery-ms N --rate HZ --curve 1 --psutil-seconds N --gc-network "
                "PERMILLE (of the records: the kernel's network and .NET's collections)");
    if (bench_quick()) {
        opt.rounds = 1;
        opt.seconds = opt.psutil_s = 2;
        opt.warm_up = 1;
    }
    if (opt.rounds == 0 || opt.rounds > ROUNDS_MAX || opt.seconds == 0 || opt.per_second < 100) {
        bench_fail("1 to 32 rounds, at least 1 second and 100 records");
    }
    for (size_t k = 0; k < N_ROWS && opt.gc_network; k++) { /* what is asked of that alone */
        rows[k].cpu_goal = 1;
        rows[k].mb_goal = 0;
    }
    start_sleepers();
    run_rounds();
    stop_sleepers();
    bench_figure("overhead_without_cpu", bench_median(empty_cpu, opt.rounds), "% of a core", 0,
                 BENCH_LESS);
    bench_figure("overhead_without_resident", bench_median(empty_mb, opt.rounds), "MB", 0,
                 BENCH_LESS);
    bench_figure("overhead_wakes_alone", bench_median(wakes_cpu, opt.rounds), "% of a core", 0,
                 BENCH_LESS);
    for (size_t k = 0; k < N_ROWS; k++) {
        if (rows[k].n) {
            tell_row(&rows[k]);
        }
    }
    if (opt.curve) {
        tell_curve();
    }
    if (!json) {
        print_table();
    }
    return bench_end();
}
