#include "tests/bench/store_cost.h"

#include <stdio.h>

#include "common/os/os.h"
#include "tests/bench/bench.h"

/* Bytes of write calls so far, in the whole process. */
static uint64_t written(void)
{
    FILE *f = fopen("/proc/self/io", "r");
    unsigned long long n = 0;
    char line[128];

    while (f && fgets(line, sizeof line, f)) {
        (void)sscanf(line, "wchar: %llu", &n);
    }
    if (f) {
        fclose(f);
    }
    return n;
}

struct store_cost store_cost_now(void)
{
    return (struct store_cost){os_cpu_ns(), os_mono_ns(), written()};
}

void store_cost_add(struct store_cost *sum, const struct store_cost *since)
{
    struct store_cost now = store_cost_now();

    sum->cpu_ns += now.cpu_ns - since->cpu_ns;
    sum->wall_ns += now.wall_ns - since->wall_ns;
    sum->written += now.written - since->written;
}

double store_cost_per_cpu(uint64_t values, int64_t cpu_ns)
{
    return (double)values * 1e3 / (double)cpu_ns;
}

struct fill *store_cost_fill(unsigned hosts, size_t ticks, unsigned starts_per_hour)
{
    struct fill_conf conf = {
        .hosts = hosts, .ticks = ticks, .host = {.starts_per_hour = starts_per_hour}};

    return fill_create(&conf);
}

struct store_costs store_cost_windows(struct fill *f, int64_t span_ns, struct store_sqlite *y)
{
    struct store_costs c = {.put = {0}};

    for (int64_t w = FILL_T0; w < FILL_T0 + span_ns; w += STORE_COST_WINDOW) {
        struct store_cost begin;

        fill_make(f, w + STORE_COST_WINDOW);
        begin = store_cost_now();
        fill_put(f, SIZE_MAX);
        store_cost_add(&c.put, &begin);
        begin = store_cost_now();
        fill_seal(f, w + STORE_COST_WINDOW);
        store_cost_add(&c.seal, &begin);
        if (y) {
            begin = store_cost_now();
            store_sqlite_batches(y, f);
            store_cost_add(&c.sql_put, &begin);
            begin = store_cost_now();
            store_sqlite_window(y, f->store, w);
            store_cost_add(&c.sql_window, &begin);
        }
        fill_forget(f);
    }
    return c;
}

void store_cost_settle(struct fill *f, struct store_cost *sum)
{
    struct store_cost begin = store_cost_now();

    fill_set_now((fill_now() / (3600 * CLK_S) + 1) * 3600 * CLK_S + 700 * CLK_S);
    fill_seal(f, f->until_ns);
    store_cost_add(sum, &begin);
}

uint64_t store_cost_tell_bytes(struct fill *f, const char *name, bool goals)
{
    static const char *const kinds[SEG_KINDS] = {"",   "raw",  "10s",     "1min",
                                                 "1h", "rest", "provider"};
    static const double goal[SEG_KINDS] = {0, 0.60, 0, 0, 0.0035, 0, 0};
    struct store_room room;
    char text[96];

    store_room(f->store, &room);
    for (unsigned k = SEG_RAW; k < SEG_KINDS; k++) {
        snprintf(text, sizeof text, "%s_sealed_%s", name, kinds[k]);
        bench_figure(text, (double)room.kind[k].bytes / (double)f->values, "B/value",
                     goals ? goal[k] : 0, BENCH_LESS);
        if (goals && k >= SEG_10S && k <= SEG_1H && room.kind[k].values) {
            snprintf(text, sizeof text, "%s_point_%s", name, kinds[k]);
            bench_figure(text, (double)room.kind[k].bytes / (double)room.kind[k].values, "B/point",
                         k == SEG_10S    ? 2.45
                         : k == SEG_1MIN ? 4.45
                                         : 0,
                         BENCH_LESS);
        }
    }
    snprintf(text, sizeof text, "%s_catalogue", name);
    bench_figure(text, (double)room.catalogue_bytes / (double)f->values, "B/value", 0, BENCH_LESS);
    return room.kind[SEG_RAW].bytes;
}

void store_cost_tell(const char *name, const struct fill *f, const struct store_costs *c,
                     double goal)
{
    int64_t cpu_ns = c->put.cpu_ns + c->seal.cpu_ns;
    char text[96];

    snprintf(text, sizeof text, "%s_values_per_cpu_second", name);
    bench_figure(text, store_cost_per_cpu(f->values, cpu_ns), "M", goal, BENCH_MORE);
    snprintf(text, sizeof text, "%s_put", name);
    bench_figure(text, (double)c->put.cpu_ns / (double)f->values, "ns/value", 0, BENCH_LESS);
    snprintf(text, sizeof text, "%s_seal", name);
    bench_figure(text, (double)c->seal.cpu_ns / (double)f->values, "ns/value", 0, BENCH_LESS);
}
