/* The whole store on generated data (fleetgen: 150 processes x 30 metrics): what it takes in, what
 * that costs on disk, and how long questions take; the goals are those of the design. Beside it the
 * same data as column chunks in SQLite, so that ratios are known on any machine.
 *
 *   hour     --hosts, --seconds at 1 Hz, batches of 10 s: window by window put, sealed, and given
 *            to SQLite; then questions, cold and warm; then all rows dropped
 *   wide     many hosts, two windows: the same questions; memory of a further host
 *   live     many hosts, nothing sealed: questions about the last minute
 *   second   batches of one second
 *   wal      closing with a full log, and opening it, as a clean end leaves it and as a kill does
 *   churn    7.5 times the process starts: bytes per value
 *   readers  1 M values a second, with and without 8 threads that ask
 *
 * CPU is that of the whole process while it puts and seals; bytes written are those of write calls
 * (/proc/self/io). Data is made between the measurements. */
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/conf/opt.h"
#include "tests/bench/bench.h"
#include "tests/bench/store_cost.h"
#include "tests/bench/store_parts.h"

static const struct opt options[] = {
    {"only", 0, "PART", "hour, wide, live, second, wal, churn or readers; may be repeated", true},
    {"hosts", 'n', "N", "of the hour (20)", false},
    {"seconds", 's', "S", "of the hour, whole windows of 300 s (3600)", false},
    {"wide-hosts", 0, "N", "(200)", false},
    {"wide-seconds", 0, "S", "(600)", false},
    {"wal-mb", 0, "MB", "log to open with (256)", false},
    {"readers-seconds", 0, "S", "measured, once with and once without them (30)", false},
    {"rounds", 0, "N", "of each question (9)", false},
    {"quick", 0, NULL, "a small form of everything", false},
    {"json", 0, NULL, "a line for each figure", false},
    {"count", 0, NULL, "one window, for callgrind (scripts/bench)", false},
};

static const struct opt_command command = {
    .program = "bench_store",
    .brief = "the store beside its design's figures, and SQLite with the same data",
    .opts = options,
    .n_opts = sizeof options / sizeof *options,
    .examples = "  bench_store\n"
                "  bench_store --only wal --wal-mb 1024\n",
};

static struct store_sizes o;
static const char *only[8];
static size_t n_only;

static void take_options(const struct opt_args *args)
{
    bool quick = opt_flag(args, "quick");
    double s = bench_number(args, "seconds", 300, 86400, quick ? 600 : 3600);

    n_only = opt_values(args, "only", only, sizeof only / sizeof *only);
    o.hosts = (unsigned)bench_number(args, "hosts", 1, 2000, quick ? 2 : 20);
    o.span_ns = (int64_t)(s / 300) * STORE_COST_WINDOW;
    o.wide_hosts = (unsigned)bench_number(args, "wide-hosts", 2, 5000, quick ? 8 : 200);
    s = bench_number(args, "wide-seconds", 300, 86400, quick ? 300 : 600);
    o.wide_ns = (int64_t)(s / 300) * STORE_COST_WINDOW;
    o.wal_mb = (unsigned)bench_number(args, "wal-mb", 1, 8192, quick ? 8 : 256);
    o.readers_s = (unsigned)bench_number(args, "readers-seconds", 1, 3600, quick ? 2 : 30);
    o.rounds = (unsigned)bench_number(args, "rounds", 1, 60, quick ? 2 : 9);
}

static bool wanted(const char *part)
{
    for (size_t i = 0; i < n_only; i++) {
        if (strcmp(only[i], part) == 0) {
            return true;
        }
    }
    return n_only == 0;
}

static void begin(bool json, bool count)
{
    char name[] = "bench_store", lines[] = "--json", counted[] = "--count", about[160];
    char *argv[] = {name, count ? counted : lines, NULL};

    (void)snprintf(about, sizeof about,
                   "150 processes x 30 metrics at 1 Hz; %u hosts x %d s, %u x %d s", o.hosts,
                   (int)(o.span_ns / CLK_S), o.wide_hosts, (int)(o.wide_ns / CLK_S));
    bench_begin(json || count ? 2 : 1, argv, name, about);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(const struct store_sizes *o);
    } parts[] = {{"hour", store_hour},      {"wide", store_wide}, {"live", store_live},
                 {"second", store_second},  {"wal", store_wal},   {"churn", store_churn},
                 {"readers", store_readers}};
    struct opt_args *args = bench_options(&command, argc, argv);

    take_options(args);
    begin(opt_flag(args, "json"), opt_flag(args, "count"));
    if (bench_counts()) {
        store_count();
    }
    for (size_t i = 0; !bench_counts() && i < sizeof parts / sizeof *parts; i++) {
        if (wanted(parts[i].name)) {
            parts[i].run(&o);
        }
    }
    opt_free(args);
    return bench_end();
}
