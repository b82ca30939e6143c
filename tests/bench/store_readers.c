/* A million values a second for a while, alone and beside threads that ask. */
#include "tests/bench/store_parts.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/bench/store_ask.h"
#include "tests/bench/store_cost.h"
#include "tests/support/support.h"

#define READERS 8u

static _Atomic bool ended;
static _Atomic int64_t readers_cpu_ns;
static _Atomic uint64_t asked;

static void read_on(void *arg)
{
    struct fill *f = arg;
    struct wire_query top = store_ask_top(0, 0), events = {.limit = 1000}, hosts = {.limit = 1000};
    unsigned me = (unsigned)(atomic_fetch_add(&asked, 0) % READERS);

    top.last_ns = 15 * 60 * CLK_S;
    for (unsigned i = me; !atomic_load(&ended); i++) {
        static const enum query_kind kinds[] = {QUERY_TOP, QUERY_HOSTS, QUERY_EVENTS, QUERY_TOP};
        enum query_kind kind = kinds[i % 4];

        (void)store_ask_ms(f->store, kind,
                           kind == QUERY_TOP      ? &top
                           : kind == QUERY_EVENTS ? &events
                                                  : &hosts,
                           NULL);
        atomic_fetch_add(&asked, 1);
    }
    atomic_fetch_add(&readers_cpu_ns, os_thread_cpu_ns());
}

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static double percentile(const struct fill *f, unsigned percent)
{
    int64_t *took = mem_array(f->n_put, sizeof *took);
    double v;

    if (!took) {
        bench_fail("out of memory");
    }
    for (size_t i = 0; i < f->n_put; i++) {
        took[i] = f->batches[i].took_ns;
    }
    qsort(took, f->n_put, sizeof *took, by_time);
    v = bench_ms(took[f->n_put * percent / 100]);
    mem_free(took);
    return v;
}

/* CPU per value without the readers' own. 10 hosts make 1 M values a second as their time passes 22
 * times as fast as ours: windows end all the time. */
static double steady(const struct store_sizes *o, const char *name, bool readers)
{
    char dir[256], text[96];
    struct store_conf conf = fill_store_conf(support_temp_dir(dir, sizeof dir));
    struct fill *f = store_cost_fill(10, 10, 0);
    struct os_thread *threads[READERS] = {NULL};
    int64_t cpu_ns, start_ns;
    double v;

    conf.seal_poll_ns = 100 * CLK_MS;
    fill_open(f, &conf);
    fill_make(f, FILL_T0 + (int64_t)o->readers_s * CLK_S * 22);
    atomic_store(&ended, false);
    atomic_store(&readers_cpu_ns, 0);
    atomic_store(&asked, 0);
    cpu_ns = os_cpu_ns();
    start_ns = os_mono_ns();
    for (unsigned i = 0; readers && i < READERS; i++) {
        if (os_thread_start(&threads[i], "reader", read_on, f)) {
            bench_fail("cannot start a thread");
        }
    }
    for (size_t i = 0; i < f->n_batches; i++) {
        double at_s = (double)i * (double)f->values / (double)f->n_batches / 1e6;

        os_sleep_ns(start_ns + (int64_t)(at_s * 1e9) - os_mono_ns());
        fill_set_now(f->batches[i].made_ns + CLK_S);
        fill_put_next(f);
    }
    fill_wait(f);
    start_ns = os_mono_ns() - start_ns;
    atomic_store(&ended, true);
    for (unsigned i = 0; i < READERS; i++) {
        os_thread_join(threads[i]);
    }
    cpu_ns = os_cpu_ns() - cpu_ns - atomic_load(&readers_cpu_ns);
    v = (double)cpu_ns / (double)f->values;
    snprintf(text, sizeof text, "%s_values_per_second", name);
    bench_figure(text, (double)f->values * 1e3 / (double)start_ns, "M", 0, BENCH_MORE);
    snprintf(text, sizeof text, "%s_ack_p50", name);
    bench_figure(text, percentile(f, 50), "ms", 25, BENCH_LESS);
    snprintf(text, sizeof text, "%s_ack_p99", name);
    bench_figure(text, percentile(f, 99), "ms", 250, BENCH_LESS);
    snprintf(text, sizeof text, "%s_cpu", name);
    bench_figure(text, v, "ns/value", 0, BENCH_LESS);
    if (readers) {
        bench_figure("readers_questions", (double)atomic_load(&asked) * 1e9 / (double)start_ns,
                     "1/s", 0, BENCH_MORE);
    }
    fill_destroy(f);
    support_remove_dir(dir);
    return v;
}

void store_readers(const struct store_sizes *o)
{
    double alone = steady(o, "alone", false), with = steady(o, "readers", true);

    bench_figure("readers_cpu_growth", 100 * (with / alone - 1), "%", 15, BENCH_LESS);
}
