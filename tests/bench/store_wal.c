/* Closing with a full log, and opening it, as a clean end leaves it and as a kill does. */
#include "tests/bench/store_parts.h"

#include <stdio.h>
#include <string.h>

#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/bench/store_ask.h"
#include "tests/bench/store_cost.h"
#include "tests/support/support.h"

/* The index of the log's newest file, which a clean end leaves and a kill does not. */
static enum err newest_index(void *ctx, const char *name)
{
    char *newest = ctx;
    size_t n = strlen(name);

    if (n > 4 && n < 64 && strcmp(name + n - 4, ".idx") == 0 && strcmp(name, newest) > 0) {
        memcpy(newest, name, n + 1);
    }
    return ERR_OK;
}

static void leave_as_killed(const char *dir)
{
    char log[320], newest[64] = "", path[400];

    snprintf(log, sizeof log, "%s/wal", dir);
    if (os_list_dir(log, newest_index, newest) != ERR_OK || !newest[0]) {
        bench_fail("the clean end left no index");
    }
    snprintf(path, sizeof path, "%s/%s", log, newest);
    err_ignore(os_remove(path));
}

/* Opens with nothing in memory. */
static void opening(struct fill *f, const struct store_conf *conf, const char *name,
                    uint64_t log_bytes)
{
    int64_t took_ns, cpu_ns;
    char text[96];

    store_ask_forget(conf->dir);
    took_ns = os_mono_ns();
    cpu_ns = os_cpu_ns();
    fill_open(f, conf);
    took_ns = os_mono_ns() - took_ns;
    cpu_ns = os_cpu_ns() - cpu_ns;
    snprintf(text, sizeof text, "restart_%s_cold", name);
    bench_figure(text, bench_ms(took_ns), "ms", 0, BENCH_LESS);
    snprintf(text, sizeof text, "restart_%s_cpu", name);
    bench_figure(text, bench_ms(cpu_ns), "ms", 0, BENCH_LESS);
    snprintf(text, sizeof text, "restart_%s_cold_per_gib", name);
    bench_figure(text, (double)took_ns / CLK_S * 1073741824 / (double)log_bytes, "s", 0.15,
                 BENCH_LESS);
}

void store_wal(const struct store_sizes *o)
{
    char dir[256];
    struct store_conf conf = fill_store_conf(support_temp_dir(dir, sizeof dir));
    struct fill *f = store_cost_fill(20, 10, 0);
    struct store_stats stats;
    int64_t began_ns;

    fill_open(f, &conf);
    while (f->bytes < (uint64_t)o->wal_mb << 20) { /* the clock stands still: nothing is sealed */
        fill_make(f, f->until_ns + 60 * CLK_S);
        fill_put(f, SIZE_MAX);
        fill_forget(f);
    }
    store_stats(f->store, &stats);
    bench_figure("restart_log", (double)stats.log_bytes / 1048576, "MiB", 0, BENCH_MORE);
    began_ns = os_mono_ns();
    fill_close(f);
    bench_figure("restart_close", bench_ms(os_mono_ns() - began_ns), "ms", 0, BENCH_LESS);
    opening(f, &conf, "clean", stats.log_bytes);
    fill_close(f);
    leave_as_killed(dir);
    opening(f, &conf, "kill", stats.log_bytes);
    fill_destroy(f);
    support_remove_dir(dir);
}
