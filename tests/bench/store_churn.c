/* 7.5 times the usual process starts: what that makes of bytes per value. */
#include "tests/bench/store_parts.h"

#include "tests/bench/bench.h"
#include "tests/bench/store_cost.h"
#include "tests/support/support.h"

static void churned(const struct store_sizes *o, unsigned starts_per_hour, double *raw, double *all)
{
    char dir[256];
    struct store_conf conf = fill_store_conf(support_temp_dir(dir, sizeof dir));
    struct fill *f = store_cost_fill(o->hosts < 5 ? o->hosts : 5, 10, starts_per_hour);
    struct store_room room;
    struct store_cost unused = {0};
    int64_t most_ns = 4 * STORE_COST_WINDOW;

    fill_open(f, &conf);
    (void)store_cost_windows(f, o->span_ns < most_ns ? o->span_ns : most_ns, NULL);
    store_cost_settle(f, &unused);
    store_room(f->store, &room);
    *raw = (double)room.kind[SEG_RAW].bytes / (double)f->values;
    *all = 0;
    for (unsigned k = SEG_RAW; k < SEG_KINDS; k++) {
        *all += (double)room.kind[k].bytes / (double)f->values;
    }
    fill_destroy(f);
    support_remove_dir(dir);
}

void store_churn(const struct store_sizes *o)
{
    double raw[2], all[2];

    churned(o, 960, &raw[0], &all[0]);
    churned(o, 7200, &raw[1], &all[1]);
    bench_figure("churn_raw_usual", raw[0], "B/value", 0, BENCH_LESS);
    bench_figure("churn_raw_7.5x_starts", raw[1], "B/value", 0, BENCH_LESS);
    bench_figure("churn_raw_ratio", raw[1] / raw[0], "x", 1.15, BENCH_LESS);
    bench_figure("churn_all_kinds_ratio", all[1] / all[0], "x", 0, BENCH_LESS);
}
