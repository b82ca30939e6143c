#include "collector/store/memtable/head.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "tests/support/fleetgen.h"
#include "tests/support/t.h"

static const uint8_t hot_metrics[] = {M_CPU_TIME, M_WORKING_SET_SIZE, M_THREAD_COUNT};

static uint64_t noise; /* of the test that runs */

static uint64_t any(uint64_t below)
{
    noise ^= noise << 13;
    noise ^= noise >> 7;
    noise ^= noise << 17;
    return below ? noise % below : noise;
}

/* -- what is read is what was written -- */

static void assert_same_run(const struct batch_run *got, const struct batch_run *want,
                            metric_mask metrics)
{
    assert_true(proc_id_eq(got->id, want->id));
    assert_int_equal(got->first_tick, want->first_tick);
    assert_int_equal(got->n_ticks, want->n_ticks);
    assert_int_equal(got->fresh, want->fresh);
    assert_true(got->mask == (want->mask & metrics));
}

static void assert_same_columns(const struct batch *got, const struct batch *want,
                                metric_mask metrics)
{
    size_t n = 0;

    for (size_t c = 0; c < want->n_columns; c++) {
        const struct batch_column *w = &want->columns[c], *g = &got->columns[n];

        if (!(METRIC_BIT(w->metric) & metrics)) {
            continue;
        }
        n++;
        assert_in_range(n, 1, got->n_columns);
        assert_int_equal(g->metric, w->metric);
        assert_int_equal(g->n_values, w->n_values);
        assert_memory_equal(g->values, w->values, w->n_values * sizeof *w->values);
    }
    assert_int_equal(got->n_columns, n);
}

/* Every choice of the hot metrics, and none. */
static void assert_hot(const struct batch *b)
{
    struct recent_columns *hot = recent_columns_create(b);
    struct arena a;

    assert_non_null(hot);
    arena_init(&a, 64u << 20);
    for (unsigned bits = 0; bits < 8; bits++) {
        metric_mask metrics = 0;
        struct batch got;

        for (unsigned i = 0; i < 3; i++) {
            metrics |= bits >> i & 1 ? METRIC_BIT(hot_metrics[i]) : 0;
        }
        arena_reset(&a);
        assert_ok(recent_columns_read(hot, metrics, &a, &got));
        assert_memory_equal(got.head.boot.b, b->head.boot.b, sizeof b->head.boot.b);
        assert_int_equal(got.n_ticks, b->n_ticks);
        if (b->n_ticks) {
            assert_memory_equal(got.wall_ns, b->wall_ns, b->n_ticks * sizeof *b->wall_ns);
            assert_memory_equal(got.mono_ns, b->mono_ns, b->n_ticks * sizeof *b->mono_ns);
        }
        assert_int_equal(got.n_runs, metrics ? b->n_runs : 0);
        for (size_t r = 0; r < got.n_runs; r++) {
            assert_same_run(&got.runs[r], &b->runs[r], metrics);
        }
        assert_same_columns(&got, b, metrics);
    }
    arena_fini(&a);
    recent_columns_destroy(hot);
}

static void what_a_fleet_sends_is_read_as_it_was(void **state)
{
    static const size_t ticks[] = {1, 2, 10, 60};

    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct fleetgen_conf conf = {.seed = seed};
        struct fleetgen *g = fleetgen_create(&conf);

        for (unsigned i = 0; i < 20; i++) {
            assert_hot(fleetgen_batch(g, ticks[(seed + i) % COUNT_OF(ticks)]));
        }
        fleetgen_destroy(g);
    }
}

#define RUNS  40u
#define TICKS 30u

/* A batch of chance: runs of any shape, values of any size, also those whose differences wrap. */
struct chance {
    struct batch b;
    struct batch_run runs[RUNS];
    struct batch_column columns[4];
    int64_t wall[TICKS], mono[TICKS], values[4][RUNS * TICKS];
};

static int64_t any_value(unsigned sort, int64_t last)
{
    switch (sort) {
    case 0:
        return last;
    case 1:
        return (int64_t)((uint64_t)(last / 4096 * 4096) + 4096 * any(5));
    case 2:
        return (int64_t)any(1u << 20) - (1 << 19);
    case 3:
        return any(2) ? INT64_MAX : INT64_MIN;
    default:
        return (int64_t)any(0);
    }
}

static void chance_make(struct chance *c)
{
    static const uint8_t metrics[] = {M_CPU_TIME, M_PRIORITY, M_WORKING_SET_SIZE, M_THREAD_COUNT};
    uint32_t n_ticks = (uint32_t)any(TICKS + 1);

    *c = (struct chance){.b = {.wall_ns = c->wall,
                               .mono_ns = c->mono,
                               .n_ticks = n_ticks,
                               .runs = c->runs,
                               .columns = c->columns,
                               .n_columns = 4}};
    for (uint32_t i = 0; i < n_ticks; i++) {
        c->wall[i] = (int64_t)(i * 1000 + any(1000));
        c->mono[i] = (int64_t)(i * 77 + any(50));
    }
    for (unsigned k = 0; k < 4; k++) {
        c->columns[k] = (struct batch_column){.metric = metrics[k], .values = c->values[k]};
    }
    c->b.n_runs = n_ticks ? any(RUNS + 1) : 0;
    for (size_t r = 0; r < c->b.n_runs; r++) {
        struct batch_run *run = &c->runs[r];

        run->id = (struct proc_id){(uint32_t)any(0), any(0) >> any(64)};
        run->first_tick = (uint32_t)any(n_ticks);
        run->n_ticks = 1 + (uint32_t)any(n_ticks - run->first_tick);
        run->fresh = any(2);
        for (unsigned k = 0; k < 4; k++) {
            unsigned sort = (unsigned)any(5);
            int64_t v = any_value((unsigned)any(5), 0);

            run->mask |= any(3) ? METRIC_BIT(metrics[k]) : 0;
            for (uint32_t i = 0; run->mask & METRIC_BIT(metrics[k]) && i < run->n_ticks; i++) {
                c->values[k][c->columns[k].n_values++] = v;
                v = any_value(sort, v);
            }
        }
    }
}

static void values_of_any_size_are_read_as_they_were(void **state)
{
    static struct chance c;

    noise = 88172645463325252u;
    for (unsigned i = 0; i < 2000; i++) {
        chance_make(&c);
        assert_hot(&c.b);
    }
}

static void too_many_shapes_have_no_hot_form(void **state)
{
    static struct batch_run runs[256];
    static int64_t ticks[WIRE_TICKS_MAX];
    struct batch b = {
        .n_ticks = 256, .wall_ns = ticks, .mono_ns = ticks, .runs = runs, .n_runs = 256};

    for (uint32_t i = 0; i < 256; i++) {
        ticks[i] = i;
        runs[i] = (struct batch_run){.id = {i, i}, .first_tick = i, .n_ticks = 1};
    }
    assert_null(recent_columns_create(&b));
    b.n_runs = 255;
    assert_hot(&b);
}

static void what_would_be_large_has_no_hot_form(void **state)
{
    static struct batch_run runs[4096];
    static int64_t values[4096 * 10], ticks[10];
    struct batch_column column = {M_CPU_TIME, COUNT_OF(values), values};
    struct batch b = {.n_ticks = 10,
                      .wall_ns = ticks,
                      .mono_ns = ticks,
                      .runs = runs,
                      .n_runs = COUNT_OF(runs),
                      .columns = &column,
                      .n_columns = 1};

    noise = 1;
    for (size_t i = 0; i < COUNT_OF(runs); i++) {
        runs[i] = (struct batch_run){
            .id = {(uint32_t)i, i}, .n_ticks = 10, .mask = METRIC_BIT(M_CPU_TIME)};
    }
    assert_hot(&b);
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        values[i] = (int64_t)any(0);
    }
    assert_null(recent_columns_create(&b));
}

static void without_memory_there_is_none(void **state)
{
    struct fleetgen_conf conf = {.seed = 9};
    struct fleetgen *g = fleetgen_create(&conf);
    const struct batch *b = fleetgen_batch(g, 10);
    long live = mem_live();
    struct recent_columns *hot = NULL;

    for (long n = 0; !hot; n++) {
        mem_fail_after(n);
        hot = recent_columns_create(b);
        mem_fail_after(-1);
        assert_true(hot || mem_live() == live);
        assert_in_range(n, 0, 10);
    }
    recent_columns_destroy(hot);
    assert_int_equal(mem_live(), live);
    fleetgen_destroy(g);
}

/* -- which are kept -- */

static void ignore_release(void *ctx, uint64_t file)
{
    (void)ctx;
    (void)file;
}

static struct head *head_with(uint64_t hot_bytes_max)
{
    struct head_conf conf = {
        .instances_max = 100, .hot_bytes_max = hot_bytes_max, .on_release = ignore_release};
    struct head *h;

    assert_ok(head_create(&h, &conf));
    return h;
}

/* A batch with so many processes, at that second; the next state has it. */
static void put(struct head *h, uint8_t host, int64_t second, uint32_t processes)
{
    static struct batch_run runs[MODEL_PROCESSES_MAX];
    static int64_t values[MODEL_PROCESSES_MAX];
    int64_t t_ns = second * CLK_S;
    struct batch_column column = {M_CPU_TIME, processes, values};
    struct batch b = {.head = {.host = {{host}}, .source = {"proc", 4}},
                      .n_ticks = 1,
                      .wall_ns = &t_ns,
                      .mono_ns = &t_ns,
                      .runs = runs,
                      .n_runs = processes,
                      .columns = &column,
                      .n_columns = 1};
    struct dedup_counts *counts = mem_zalloc(sizeof *counts);
    struct head_batch *kept;
    struct head_host *to;
    char name[16];

    for (uint32_t i = 0; i < processes; i++) {
        runs[i] =
            (struct batch_run){.id = {i, any(0)}, .n_ticks = 1, .mask = METRIC_BIT(M_CPU_TIME)};
        values[i] = (int64_t)any(0);
    }
    (void)snprintf(name, sizeof name, "host-%u", host);
    assert_non_null(counts);
    atomic_init(&counts->refs, 1);
    assert_ok(head_batch_create(&kept, "", 0));
    kept->t0_ns = kept->t1_ns = kept->made_ns = kept->received_ns = t_ns;
    kept->seq = (uint64_t)second;
    assert_ok(head_reserve(h, &to, name, &b, counts, kept));
    head_append(h, to, &b, kept);
    head_keep_hot(h, to, kept, recent_columns_create(&b));
    assert_ok(head_prepare(h));
    head_publish(h);
}

/* Of the host's batches from that second on, how many there are and how many have a hot form, which
 * is read. */
static size_t hot_since(const struct head_state *s, size_t host, int64_t second, size_t *n_hot)
{
    const struct head_batch **list;
    size_t n;

    *n_hot = 0;
    assert_ok(head_view_batches(s, host, second * CLK_S, INT64_MAX, &list, &n));
    for (size_t i = 0; i < n; i++) {
        const struct recent_columns *hot = head_view_hot(s, host, list[i]);
        struct arena a;
        struct batch b;

        arena_init(&a, 1u << 20);
        if (hot) {
            assert_ok(recent_columns_read(hot, METRIC_BIT(M_CPU_TIME), &a, &b));
            assert_true(b.wall_ns[0] == list[i]->t0_ns); /* its own */
            ++*n_hot;
        }
        arena_fini(&a);
    }
    mem_free(list);
    return n;
}

static void recent_batches_are_hot_and_older_ones_are_not(void **state)
{
    struct head *h = head_with(UINT64_MAX);
    struct head_state *s;
    size_t n_hot;

    noise = 2;
    for (int64_t t = 10; t <= 1000; t += 10) {
        put(h, 1, t, 20);
        s = head_view(h);
        (void)hot_since(s, 0, t - RECENT_COLUMNS_NS / CLK_S, &n_hot);
        assert_int_equal(n_hot, t < 140 ? t / 10 : 14);
        assert_int_equal(hot_since(s, 0, 0, &n_hot), t / 10);
        assert_in_range(n_hot, 0, 14 + RECENT_COLUMNS_BLOCK);
        head_view_release(s);
    }
    head_destroy(h);
}

static void a_silent_host_keeps_none_and_a_view_keeps_what_it_has(void **state)
{
    struct head *h = head_with(UINT64_MAX);
    struct head_state *before, *after;
    struct head_stats one, all;
    size_t n_hot;

    noise = 3;
    for (int64_t t = 10; t <= 50; t += 10) {
        put(h, 1, t, 20);
    }
    head_stats(h, &one);
    before = head_view(h);
    put(h, 2, 500, 20);
    after = head_view(h);
    assert_int_equal(hot_since(before, 0, 0, &n_hot), 5);
    assert_int_equal(n_hot, 5);
    assert_int_equal(hot_since(after, 0, 0, &n_hot), 5);
    assert_int_equal(n_hot, 0);
    head_stats(h, &all);
    assert_in_range(all.hot_bytes, 1, one.hot_bytes / 2);
    put(h, 1, 510, 20); /* it is back */
    head_view_release(after);
    after = head_view(h);
    assert_int_equal(hot_since(after, 0, 500, &n_hot), 1);
    assert_int_equal(n_hot, 1);
    head_view_release(after);
    head_destroy(h);
    assert_int_equal(hot_since(before, 0, 0, &n_hot), 5);
    assert_int_equal(n_hot, 5);
    head_view_release(before);
}

static void a_clock_set_back_is_followed(void **state)
{
    struct head *h = head_with(UINT64_MAX);
    struct head_state *s;
    size_t n_hot;

    noise = 6;
    for (int64_t t = 1000; t <= 1100; t += 10) {
        put(h, 1, t, 20);
    }
    for (int64_t t = 10; t <= 400; t += 10) {
        put(h, 1, t, 20);
    }
    put(h, 2, 400, 20);
    s = head_view(h);
    (void)hot_since(s, 0, 400 - RECENT_COLUMNS_NS / CLK_S, &n_hot);
    assert_int_equal(n_hot, 14);
    (void)hot_since(s, 0, 0, &n_hot);
    assert_in_range(n_hot, 14, 14 + RECENT_COLUMNS_BLOCK);
    assert_int_equal(hot_since(s, 1, 0, &n_hot), 1);
    assert_int_equal(n_hot, 1);
    head_view_release(s);
    head_destroy(h);
}

static void a_host_with_many_processes_has_fewer(void **state)
{
    struct head *h = head_with(UINT64_MAX);
    struct head_stats stats;
    struct head_state *s;
    size_t n_hot;

    noise = 4;
    for (int64_t t = 1; t <= 40; t++) {
        put(h, 1, t, MODEL_PROCESSES_MAX);
    }
    head_stats(h, &stats);
    assert_in_range(stats.hot_bytes, RECENT_COLUMNS_HOST_BYTES / 2, RECENT_COLUMNS_HOST_BYTES);
    assert_int_equal(stats.hot_left_out, 0);
    s = head_view(h);
    (void)hot_since(s, 0, 40, &n_hot);
    assert_int_equal(n_hot, 1);
    (void)hot_since(s, 0, 0, &n_hot);
    assert_in_range(n_hot, 1, 20);
    head_view_release(s);
    head_destroy(h);
}

static void what_finds_no_room_is_counted_and_decoded(void **state)
{
    struct head *h = head_with(3000);
    struct head_stats stats;
    struct head_state *s;
    size_t n_hot;

    noise = 5;
    for (int64_t t = 1; t <= 10; t++) {
        put(h, (uint8_t)t, 1, 20);
    }
    head_stats(h, &stats);
    assert_in_range(stats.hot_bytes, 1000, 3000);
    assert_in_range(stats.hot_left_out, 1, 9);
    s = head_view(h);
    for (size_t i = 0, total = 0; i < 10; i++, total += n_hot) {
        assert_int_equal(hot_since(s, i, 0, &n_hot), 1);
        assert_true(i < 9 || total + n_hot == 10 - stats.hot_left_out);
    }
    head_view_release(s);
    head_destroy(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_fleet_sends_is_read_as_it_was),
        cmocka_unit_test(values_of_any_size_are_read_as_they_were),
        cmocka_unit_test(too_many_shapes_have_no_hot_form),
        cmocka_unit_test(what_would_be_large_has_no_hot_form),
        cmocka_unit_test(without_memory_there_is_none),
        cmocka_unit_test(recent_batches_are_hot_and_older_ones_are_not),
        cmocka_unit_test(a_silent_host_keeps_none_and_a_view_keeps_what_it_has),
        cmocka_unit_test(a_clock_set_back_is_followed),
        cmocka_unit_test(a_host_with_many_processes_has_fewer),
        cmocka_unit_test(what_finds_no_room_is_counted_and_decoded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
