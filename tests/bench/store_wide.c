/* Many hosts: a few windows of them, the memory of one more, and questions about the last minute.
 */
#include "tests/bench/store_parts.h"

#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/bench/store_ask.h"
#include "tests/bench/store_cost.h"
#include "tests/support/support.h"

/* The first window in two halves of the hosts: what the second adds. */
static void memory_per_host(const struct store_sizes *o)
{
    double per_host[2];
    char dir[256];

    for (unsigned i = 0; i < 2; i++) {
        unsigned hosts = o->wide_hosts / (2 - i);
        struct store_conf conf = fill_store_conf(support_temp_dir(dir, sizeof dir));
        struct fill *f = store_cost_fill(hosts, 10, 0);
        int64_t before;

        fill_make(f, FILL_T0 + STORE_COST_WINDOW);
        before = os_resident_bytes();
        fill_open(f, &conf);
        fill_put(f, SIZE_MAX);
        per_host[i] = (double)(os_resident_bytes() - before);
        fill_destroy(f);
        support_remove_dir(dir);
    }
    bench_figure("memory_per_further_host",
                 (per_host[1] - per_host[0]) / (o->wide_hosts - o->wide_hosts / 2) / 1048576, "MiB",
                 2, BENCH_LESS);
}

void store_wide(const struct store_sizes *o)
{
    char dir[256];
    struct store_conf conf = fill_store_conf(support_temp_dir(dir, sizeof dir));
    struct fill *f = store_cost_fill(o->wide_hosts, 10, 0);
    struct wire_query top = store_ask_top(FILL_T0, FILL_T0 + o->wide_ns);
    struct store_costs c;

    fill_open(f, &conf);
    c = store_cost_windows(f, o->wide_ns, NULL);
    store_cost_tell("wide", f, &c, 40);
    store_cost_tell_bytes(f, "wide", false);
    store_ask_tell(f, &conf, &(struct store_ask_figures){"wide_top10", QUERY_TOP, &top, 0, 0},
                   o->rounds);
    fill_destroy(f);
    support_remove_dir(dir);
    memory_per_host(o);
}

/* Nothing sealed: what `top`, and what /metrics asks, cost of each host. */
void store_live(const struct store_sizes *o)
{
    char dir[256];
    struct store_conf conf = fill_store_conf(support_temp_dir(dir, sizeof dir));
    struct fill *f = store_cost_fill(o->wide_hosts, 10, 0);
    struct store_stats stats;
    struct store_ask_cpu t;

    fill_open(f, &conf);
    fill_make(f, FILL_T0 + 180 * CLK_S);
    fill_put(f, SIZE_MAX);
    fill_forget(f);
    fill_set_now(f->until_ns);
    store_stats(f->store, &stats);
    t = store_ask_live(f->store, o->rounds);
    bench_figure("live_top10", t.top_us / o->wide_hosts, "us/host", 75, BENCH_LESS);
    bench_figure("live_hot", (double)stats.hot_bytes / o->wide_hosts / 1024, "KiB/host", 0,
                 BENCH_LESS);
    bench_figure("live_head", (double)stats.head_bytes / o->wide_hosts / 1024, "KiB/host", 0,
                 BENCH_LESS);
    bench_figure("live_images", t.images_us / o->wide_hosts, "us/host", 0, BENCH_LESS);
    fill_destroy(f);
    support_remove_dir(dir);
}
