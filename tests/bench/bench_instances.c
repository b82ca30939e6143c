/* What the collector remembers of a host's processes: heap bytes an instance, and CPU time to join
 * what a batch says, be told again, and find one.
 *
 *   differ   every process has a command line of its own (fleetgen's, 62 bytes or so)
 *   repeat   the same without what makes it its own
 *   few      the processes of a quiet host; too few for the heap to tell what they take
 *
 * The first two start half as many processes again as are remembered, so that the oldest are
 * forgotten. A snapshot is taken and the one before let go with every batch, as the store does. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/memtable/head_info.h"
#include "common/base/arena.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/support/fleetgen.h"

#define MAX        16384u
#define ROUNDS_MAX 9u
#define PER_BATCH  20u

struct told {
    struct proc_info info;
    int64_t seen_ns;
};

struct load {
    struct arena memory;
    struct told *list;
    size_t n, cap;
    uint32_t max; /* to remember */
};

struct result {
    double bytes, join_ns, again_ns, find_ns;
};

static const struct uuid boot = {{7}};

static void *must(void *p)
{
    if (!p) {
        bench_fail("out of memory");
    }
    return p;
}

/* -- what hosts say -- */

static struct str keep(struct load *l, struct str s)
{
    return (struct str){must(arena_dup(&l->memory, s.p, s.n)), s.n};
}

/* Without the number of the session, which makes it its own. */
static struct str common_line(struct str line)
{
    size_t n = line.n;

    while (n > 0 && line.p[n - 1] != '-') {
        n--;
    }
    return n > 0 ? (struct str){line.p, n} : line;
}

static void tell(struct load *l, const struct proc_info *info, int64_t seen_ns, bool repeat)
{
    struct told *to;

    if (l->n == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 1024;
        l->list = must(mem_realloc_array(l->list, l->cap, sizeof *l->list));
    }
    to = &l->list[l->n++];
    *to = (struct told){*info, seen_ns};
    to->info.name = keep(l, info->name);
    to->info.image = keep(l, info->image);
    to->info.command_line = keep(l, repeat ? common_line(info->command_line) : info->command_line);
    to->info.user = keep(l, info->user);
}

/* Those that are there, and every start and end of `starts` processes. */
static void load_make(struct load *l, uint32_t max, size_t starts, bool repeat)
{
    struct fleetgen_conf conf = {
        .seed = 5, .starts_per_hour = 9600, .tick_ns = INT64_C(10000000000)};
    struct fleetgen *g = fleetgen_create(&conf);
    const struct sample_tick *tick = fleetgen_tick(g);

    *l = (struct load){.max = max};
    arena_init(&l->memory, 256u << 20);
    for (size_t i = 0; i < tick->n_rows; i++) {
        tell(l, tick->rows[i].info, tick->wall_ns, repeat);
    }
    for (size_t started = 0; started < starts;) {
        const struct life_event *events;
        size_t n;

        fleetgen_tick(g);
        events = fleetgen_events(g, &n);
        for (size_t i = 0; i < n; i++) {
            tell(l, &events[i].info, events[i].wall_ns, repeat);
            started += events[i].kind == LIFE_PROCESS_START;
        }
    }
    fleetgen_destroy(g);
}

static void load_free(struct load *l)
{
    arena_fini(&l->memory);
    mem_free(l->list);
}

/* -- rounds -- */

static double each(int64_t since_ns, size_t n)
{
    return (double)(os_thread_cpu_ns() - since_ns) / (double)(n ? n : 1);
}

/* What was said last, said again: nothing is new. */
static double tell_again(struct head_infos *t, const struct load *l)
{
    size_t n = l->n < 2000 ? l->n : 2000;
    int64_t t0;

    for (int round = 0; round < 2; round++) { /* the first time ends are new to starts */
        t0 = os_thread_cpu_ns();
        for (size_t i = l->n - n; i < l->n; i++) {
            bench_check(head_infos_merge(t, &boot, &l->list[i].info, l->list[i].seen_ns), NULL);
        }
    }
    return each(t0, n);
}

static double find_all(const struct head_infos_snap *s, const struct load *l)
{
    int64_t t0 = os_thread_cpu_ns();
    struct proc_info info;
    size_t found = 0;

    for (size_t i = 0; i < l->n; i++) {
        found += head_infos_find(s, &boot, l->list[i * 7919 % l->n].info.id, &info);
    }
    if (found == 0) {
        bench_fail("nothing is found");
    }
    return each(t0, l->n);
}

static struct result round_of(const struct load *l)
{
    struct head_infos_snap *s = NULL;
    size_t before = mallinfo2().uordblks;
    struct head_infos *t;
    struct result r;
    int64_t t0 = os_thread_cpu_ns();

    bench_check(head_infos_create(&t, l->max), NULL);
    for (size_t i = 0; i < l->n; i++) {
        bench_check(head_infos_merge(t, &boot, &l->list[i].info, l->list[i].seen_ns), NULL);
        if (i % PER_BATCH == PER_BATCH - 1 || i + 1 == l->n) {
            struct head_infos_snap *older = s;

            bench_check(head_infos_snapshot(t, &s), NULL);
            head_infos_snap_unref(older);
        }
    }
    r.join_ns = each(t0, l->n);
    r.bytes = (double)(mallinfo2().uordblks - before) / (double)head_infos_count(t);
    r.find_ns = find_all(s, l);
    r.again_ns = tell_again(t, l);
    head_infos_snap_unref(s);
    head_infos_destroy(t);
    return r;
}

static void measure(const char *name, uint32_t max, size_t starts, bool repeat, double goal)
{
    unsigned rounds = bench_quick() ? 1 : ROUNDS_MAX;
    double bytes[ROUNDS_MAX], join[ROUNDS_MAX], again[ROUNDS_MAX], find[ROUNDS_MAX];
    struct load l;
    char figure[64];

    load_make(&l, max, starts, repeat);
    for (unsigned i = 0; i < rounds; i++) {
        struct result r = round_of(&l);

        bytes[i] = r.bytes;
        join[i] = r.join_ns;
        again[i] = r.again_ns;
        find[i] = r.find_ns;
    }
    load_free(&l);
    if (goal > 0) {
        snprintf(figure, sizeof figure, "instances_%s", name);
        bench_figure(figure, bench_median(bytes, rounds), "B/instance", goal, BENCH_LESS);
    }
    snprintf(figure, sizeof figure, "instances_%s_join", name);
    bench_figure(figure, bench_median(join, rounds), "ns/info", 0, BENCH_LESS);
    snprintf(figure, sizeof figure, "instances_%s_again", name);
    bench_figure(figure, bench_median(again, rounds), "ns/info", 0, BENCH_LESS);
    snprintf(figure, sizeof figure, "instances_%s_find", name);
    bench_figure(figure, bench_median(find, rounds), "ns", 0, BENCH_LESS);
}

int main(int argc, char **argv)
{
    uint32_t max;

    bench_begin(argc, argv, "bench_instances", "what is remembered of a host's processes");
    max = bench_quick() ? 2048 : MAX;
    measure("differ", max, max + max / 2, false, 120);
    measure("repeat", max, max + max / 2, true, 60);
    measure("few", max, 100, false, 0);
    return bench_end();
}
