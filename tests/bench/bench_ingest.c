/* From a batch's bytes as received to durable and visible: decode, log with group commit, head.
 * CPU is that of the whole process; the generator ran before. The disk is the one below the
 * temporary directory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/store.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/bench/load.h"
#include "tests/support/support.h"

#define SECOND    1000000000LL
#define UNDER_WAY 64

/* -- putting -- */

static struct os_mutex *lock;
static struct os_cond *answered;
static unsigned under_way;

struct mark {
    int64_t put_ns;
    int64_t took_ns;
};

static void on_done(void *ctx, enum err e)
{
    struct mark *m = ctx;

    load_check(e, "durable");
    m->took_ns = os_mono_ns() - m->put_ns;
    os_mutex_lock(lock);
    under_way--;
    os_cond_wake(answered);
    os_mutex_unlock(lock);
}

static void wait_until(unsigned left)
{
    os_mutex_lock(lock);
    while (under_way > left) {
        os_cond_wait(answered);
    }
    os_mutex_unlock(lock);
}

static void put_one(struct store *s, const struct load *l, size_t i, struct mark *m)
{
    struct store_put put = {.bytes = l->batch[i].p,
                            .n = l->batch[i].n,
                            .host_name = l->batch[i].host_name,
                            .received_ns = l->batch[i].received_ns,
                            .done = on_done,
                            .ctx = m};

    m->put_ns = os_mono_ns();
    os_mutex_lock(lock);
    under_way++;
    os_mutex_unlock(lock);
    load_check(wire_batch_decode(&put.batch, put.bytes, put.n), "decode");
    load_check(store_put(s, &put), "put");
}

/* Ingest alone: no window ever ends. */
static int64_t no_time(void)
{
    return 0;
}

static struct store_conf conf_of(const char *dir)
{
    struct store_conf conf = {.dir = dir,
                              .fio = fio_os(),
                              .head_bytes_max = (uint64_t)4 << 30,
                              .now_ns = no_time,
                              .accept_age_ns = 24 * 3600 * SECOND,
                              .hosts_max = 10000,
                              .instances_max = 8192,
                              .commit_gather_ns = 20000000,
                              .commit_bytes = 1u << 20};

    return conf;
}

static double per_cpu_second(uint64_t values, int64_t cpu_ns)
{
    return (double)values / ((double)cpu_ns / SECOND) / 1e6;
}

/* Everything as fast as it goes, UNDER_WAY at once; then the same directory opened again. */
static void throughput(const char *name, unsigned hosts, unsigned per_host, size_t ticks)
{
    char dir[256], text[128];
    struct load l = load_make(hosts, bench_quick() ? per_host / 10 : per_host, ticks, 0);
    struct mark *marks = mem_array(l.n, sizeof *marks);
    struct store_conf conf = conf_of(support_temp_dir(dir, sizeof dir));
    struct store_stats stats;
    struct store *s;
    int64_t cpu, wall;

    load_check(marks ? store_open(&s, &conf, NULL) : ERR_NOMEM, "open");
    cpu = os_cpu_ns();
    wall = os_mono_ns();
    for (size_t i = 0; i < l.n; i++) {
        wait_until(UNDER_WAY - 1);
        put_one(s, &l, i, &marks[i]);
    }
    wait_until(0);
    cpu = os_cpu_ns() - cpu;
    wall = os_mono_ns() - wall;
    store_stats(s, &stats);
    store_close(s);
    snprintf(text, sizeof text, "%s_values_per_cpu_second", name);
    bench_figure(text, per_cpu_second(l.values, cpu), "M", 0, BENCH_MORE);
    snprintf(text, sizeof text, "%s_batches_per_second", name);
    bench_figure(text, (double)l.n / ((double)wall / SECOND), "1/s", 0, BENCH_MORE);
    snprintf(text, sizeof text, "%s_log_bytes_per_value", name);
    bench_figure(text, (double)stats.log_bytes / (double)l.values, "B", 0, BENCH_LESS);
    wall = os_mono_ns();
    load_check(store_open(&s, &conf, NULL), "open again");
    wall = os_mono_ns() - wall;
    snprintf(text, sizeof text, "%s_recovery_per_gb", name);
    bench_figure(text, (double)wall / (double)stats.log_bytes, "s", 0, BENCH_LESS);
    store_close(s);
    support_remove_dir(dir);
    mem_free(marks);
    load_free(&l);
}

static int by_value(const void *a, const void *b)
{
    const struct mark *x = a, *y = b;

    return x->took_ns < y->took_ns ? -1 : x->took_ns > y->took_ns;
}

/* `rate` batches a second, evenly, as 10 × rate hosts send them. */
static void latency(unsigned rate)
{
    char dir[256], text[128];
    struct load l = load_make(rate, bench_quick() ? 1 : 4, 10, 0);
    struct mark *marks = mem_array(l.n, sizeof *marks);
    struct store_conf conf = conf_of(support_temp_dir(dir, sizeof dir));
    struct store_stats stats;
    struct store *s;
    int64_t start;

    load_check(marks ? store_open(&s, &conf, NULL) : ERR_NOMEM, "open");
    start = os_mono_ns();
    for (size_t i = 0; i < l.n; i++) {
        os_sleep_ns(start + (int64_t)i * SECOND / rate - os_mono_ns());
        put_one(s, &l, i, &marks[i]);
    }
    wait_until(0);
    store_stats(s, &stats);
    qsort(marks, l.n, sizeof *marks, by_value);
    snprintf(text, sizeof text, "ingest_ack_p50_at_%u_batches_s", rate);
    bench_figure(text, (double)marks[l.n / 2].took_ns / 1e6, "ms", 25, BENCH_LESS);
    snprintf(text, sizeof text, "ingest_ack_p99_at_%u_batches_s", rate);
    bench_figure(text, (double)marks[l.n * 99 / 100].took_ns / 1e6, "ms", 0, BENCH_LESS);
    snprintf(text, sizeof text, "ingest_batches_per_commit_at_%u_batches_s", rate);
    bench_figure(text, (double)stats.batches / (double)stats.commits, "", 0, BENCH_MORE);
    store_close(s);
    support_remove_dir(dir);
    mem_free(marks);
    load_free(&l);
}

int main(int argc, char **argv)
{
    bench_begin(argc, argv, "bench_ingest",
                "from a batch's bytes to durable and visible, without TLS");
    load_check(os_mutex_create(&lock), "mutex");
    load_check(os_cond_create(&answered, lock), "cond");
    /* The goals of these are with TLS: bench_ingest_tls judges them. */
    throughput("ingest_20_hosts_10s", 20, 60, 10);
    throughput("ingest_1_host_1s", 1, 2000, 1);
    latency(10);
    latency(100);
    os_cond_destroy(answered);
    os_mutex_destroy(lock);
    return bench_end();
}
