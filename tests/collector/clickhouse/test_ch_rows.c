#include "collector/clickhouse/ch_rows.h"

#include <string.h>

#include "collector/clickhouse/ch_backlog.h"
#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "tests/collector/lab.h"
#include "tests/support/store_fill.h"
#include "tests/support/store_rig.h"
#include "tests/support/t.h"

/* -- rows of one batch -- */

struct block_in {
    struct buf sql, bytes;
    struct ch_in in;
};

/* The block as a server would read it. False: no rows. */
static bool block_read(struct block_in *b, struct ch_rows *r, enum ch_table t)
{
    enum err e;

    buf_init(&b->sql, 1u << 20);
    buf_init(&b->bytes, 64u << 20);
    if (ch_native_rows(ch_rows_block(r, t))) {
        assert_ok(ch_native_encode(ch_rows_block(r, t), CH_PLAIN, &b->sql, &b->bytes));
    }
    ch_native_in_init(&b->in, b->bytes.p, b->bytes.n, 64u << 20);
    e = ch_native_next(&b->in);
    assert_true(!e || e == ERR_END);
    return !e;
}

static void block_close(struct block_in *b)
{
    ch_native_in_fini(&b->in);
    buf_fini(&b->bytes);
    buf_fini(&b->sql);
}

static int64_t value(const struct block_in *b, const char *column, size_t row)
{
    return (int64_t)ch_native_get(ch_native_column(&b->in, column), row);
}

/* What the test's one batch is: ticks from 8 s to 12 s, across a multiple of ten. */
#define N_TICKS 5
static const int64_t wall[N_TICKS] = {LAB_NS(8), LAB_NS(9), LAB_NS(10), LAB_NS(11), LAB_NS(12)};
static const int64_t mono[N_TICKS] = {1, 2, 3, 4, 5};
/* pid 1: cpu_time and threads all along; pid 2: threads first, from the third tick on both. */
#define BOTH (METRIC_BIT(M_CPU_TIME) | METRIC_BIT(M_THREAD_COUNT))
static const struct batch_run runs[] = {
    {{1, 10}, 0, 5, true, BOTH},
    {{2, 20}, 0, 2, false, METRIC_BIT(M_THREAD_COUNT)},
    {{2, 20}, 2, 3, false, BOTH},
};
static const int64_t cpu[] = {100, 150, 160, 160, 300, /* 2: */ 7, 9, 4};
static const int64_t threads[] = {3, 5, INT64_MAX, 2, 4, /* 2: */ 1, 1, /* */ 8, 9, 7};
static const struct batch_column columns[] = {{M_CPU_TIME, COUNT_OF(cpu), cpu},
                                              {M_THREAD_COUNT, COUNT_OF(threads), threads}};
static const struct ledger_row ledger[] = {{{"source", 6}, {"lost", 4}, 3}};
static const struct proc_info infos[] = {{.id = {1, 10}, .have = INFO_PARENT, .name = {"a", 1}}};
static const struct life_event events[] = {
    {.kind = LIFE_PROCESS_STOP, .wall_ns = LAB_NS(11), .info = {.id = {1, 10}, .name = {"a", 1}}}};
static const struct batch whole = {
    .head = {.stream = 5, .seq = 9, .boot = {{1}}, .host = {{2}}, .source = {"proc", 4}},
    .n_ticks = N_TICKS,
    .wall_ns = wall,
    .mono_ns = mono,
    .n_runs = COUNT_OF(runs),
    .runs = runs,
    .n_columns = COUNT_OF(columns),
    .columns = columns,
    .n_infos = 1,
    .infos = infos,
    .n_events = 1,
    .events = events,
    .n_ledger = 1,
    .ledger = ledger,
};
static const struct host_offset clock_known = {true, true, 5, 6};

static struct ch_rows *rows_of(const struct batch *rest, const struct batch *rows, size_t first,
                               bool samples)
{
    const struct ch_rows_batch b = {.rest = rest,
                                    .rows = rows,
                                    .first_tick = first,
                                    .clock = &clock_known,
                                    .received_ns = LAB_NS(20),
                                    .host_name = "web-1",
                                    .samples = samples};
    struct ch_rows *r;

    assert_ok(ch_rows_create(&r, "a"));
    assert_ok(ch_rows_add(r, &b));
    return r;
}

static void a_cell_is_a_run_inside_ten_seconds(void **state)
{
    static const struct {
        int64_t pid, ts_s, n, fresh, cpu, grew, most, threads, up, down;
    } want[] = {
        {1, 8, 2, CH_FRESH, 150, 50, 50, 5, 0, 2},
        {1, 10, 3, 0, 300, 140, 140, 4, INT64_MAX - 4, 2},
        {2, 8, 2, 0, 0, 0, 0, 1, 0, 0},
        {2, 10, 3, 0, 4, -3, 2, 7, 2, 0},
    };
    struct ch_rows *r = rows_of(&whole, &whole, 0, false);
    struct block_in b;

    assert_true(block_read(&b, r, CH_CELL));
    assert_int_equal(b.in.n_rows, COUNT_OF(want));
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        assert_int_equal(value(&b, "pid", i), want[i].pid);
        assert_int_equal(value(&b, "ts", i), LAB_NS((double)want[i].ts_s));
        assert_int_equal(value(&b, "last_ts", i), LAB_NS((double)(want[i].ts_s + want[i].n - 1)));
        assert_int_equal(value(&b, "n", i), want[i].n);
        assert_int_equal(value(&b, "flags", i), want[i].fresh);
        assert_int_equal(value(&b, "m9", i), want[i].cpu);
        assert_int_equal(value(&b, "m9_grew", i), want[i].grew);
        assert_int_equal(value(&b, "m9_most", i), want[i].most);
        assert_int_equal(value(&b, "m25", i), want[i].threads);
        assert_int_equal(value(&b, "m25_up", i), want[i].up);
        assert_int_equal(value(&b, "m25_down", i), want[i].down);
        assert_int_equal(value(&b, "stream", i), 5);
        assert_int_equal(value(&b, "seq", i), 9);
    }
    /* The sum of the second cell stops at the end of int64_t, as everywhere else. */
    assert_true((uint64_t)value(&b, "m25_dev", 1) + 3 * 4u == (uint64_t)INT64_MAX);
    assert_int_equal(value(&b, "m25_dev", 0) + 2 * 5, 8);
    assert_null(ch_native_column(&b.in, "m17"));
    block_close(&b);
    assert_false(block_read(&b, r, CH_SAMPLE));
    block_close(&b);
    assert_int_equal(ch_rows_values(r), 10 + 2 + 6);
    ch_rows_destroy(r);
}

static void samples_are_every_value(void **state)
{
    struct ch_rows *r = rows_of(&whole, &whole, 0, true);
    struct block_in b;

    assert_true(block_read(&b, r, CH_SAMPLE));
    assert_int_equal(b.in.n_rows, 10);
    for (size_t i = 0; i < 10; i++) {
        size_t run = i < 5 ? 0 : i < 7 ? 1 : 2;

        assert_int_equal(value(&b, "ts", i), wall[i < 5 ? i : i - 5]);
        assert_int_equal(value(&b, "m25", i), threads[i]);
        assert_int_equal(value(&b, "m9", i), run == 0 ? cpu[i] : run == 1 ? 0 : cpu[i - 2]);
        assert_int_equal(value(&b, "mask", i), (int64_t)metric_mask_low(runs[run].mask));
        assert_int_equal(value(&b, "flags", i), i == 0 ? CH_FRESH : 0);
    }
    block_close(&b);
    ch_rows_destroy(r);
}

static void the_ledger_row_says_what_is_in_the_batch(void **state)
{
    struct ch_rows *r = rows_of(&whole, &whole, 0, false);
    struct block_in b;
    struct batch *rest;
    struct str text;

    ch_rows_announce(r, CH_COMING, true);
    ch_rows_announce(r, CH_STORED, false);
    assert_true(block_read(&b, r, CH_BATCH));
    assert_int_equal(b.in.n_rows, 1);
    assert_int_equal(value(&b, "kind", 0), CH_STORED);
    assert_null(ch_native_column(&b.in, "again"));
    assert_int_equal(value(&b, "rows", 0), 10);
    assert_int_equal(value(&b, "cells", 0), 4);
    assert_int_equal(value(&b, "ticks", 0), 5);
    assert_int_equal(value(&b, "events", 0), 1);
    assert_int_equal(value(&b, "alive", 0), 2);
    assert_int_equal(value(&b, "lost", 0), 3);
    assert_int_equal(value(&b, "t0", 0), LAB_NS(8));
    assert_int_equal(value(&b, "t1", 0), LAB_NS(12));
    assert_int_equal(value(&b, "received", 0), LAB_NS(20));
    assert_int_equal(value(&b, "clock", 0), 3);
    assert_int_equal(value(&b, "clock_offset", 0), 5);
    text = ch_native_get_str(ch_native_column(&b.in, "rest"), 0);
    assert_ok(wire_batch_unpack(&rest, text.p, text.n));
    assert_int_equal(rest->n_ticks, 5);
    assert_int_equal(rest->n_runs, 0);
    assert_int_equal(rest->n_events, 1);
    assert_int_equal(rest->n_infos, 1);
    assert_int_equal(rest->n_ledger, 1);
    wire_batch_free(rest);
    block_close(&b);
    assert_true(block_read(&b, r, CH_PROCESS)); /* the end says most */
    assert_int_equal(b.in.n_rows, 2);
    assert_true(value(&b, "seen", 0) > value(&b, "seen", 1));
    block_close(&b);
    ch_rows_destroy(r);
}

static void what_a_run_lacks_is_refused_and_adds_nothing(void **state)
{
    const struct batch_column few[] = {{M_CPU_TIME, COUNT_OF(cpu) - 1, cpu},
                                       {M_THREAD_COUNT, COUNT_OF(threads), threads}};
    struct batch wrong = whole;
    struct ch_rows_batch b = {
        .rest = &wrong, .rows = &wrong, .clock = &clock_known, .host_name = "web-1"};
    struct ch_rows *r;

    assert_ok(ch_rows_create(&r, "a"));
    wrong.columns = few;
    assert_err(ch_rows_add(r, &b), ERR_INVALID);
    wrong.columns = columns;
    wrong.n_columns = 1;
    assert_err(ch_rows_add(r, &b), ERR_INVALID);
    assert_int_equal(ch_rows_bytes(r), 0);
    assert_int_equal(ch_rows_batches(r), 0);
    ch_rows_destroy(r);
}

static void a_batch_whose_rows_are_gone_is_given_up(void **state)
{
    struct ch_rows *r = rows_of(&whole, NULL, 0, false);
    struct batch no_ticks = whole;
    const struct ch_rows_batch other = {
        .rest = &no_ticks, .clock = &clock_known, .received_ns = LAB_NS(20), .host_name = "web-1"};
    struct block_in b;

    no_ticks.n_ticks = 0; /* it never had any */
    assert_ok(ch_rows_add(r, &other));
    assert_int_equal(ch_rows_given_up(r), 1);
    ch_rows_announce(r, CH_STORED, true);
    assert_true(block_read(&b, r, CH_BATCH));
    assert_int_equal(value(&b, "kind", 0), CH_GIVEN_UP);
    assert_int_equal(value(&b, "kind", 1), CH_STORED);
    assert_int_equal(value(&b, "again", 0) + value(&b, "again", 1), 2);
    assert_int_equal(value(&b, "rows", 0), 0);
    block_close(&b);
    assert_false(block_read(&b, r, CH_CELL));
    block_close(&b);
    ch_rows_reset(r);
    assert_int_equal(ch_rows_given_up(r), 0);
    ch_rows_destroy(r);
}

/* A batch of `ticks` ticks `step` apart and as many runs all along without a metric. */
static enum err add_wide(struct ch_rows *r, size_t ticks, int64_t step_ns, size_t n_runs,
                         bool samples)
{
    static int64_t wall_ns[WIRE_TICKS_MAX], mono_ns[WIRE_TICKS_MAX];
    struct batch_run *wide = mem_array(n_runs, sizeof *wide);
    struct batch b = whole;
    const struct ch_rows_batch add = {.rest = &b,
                                      .rows = &b,
                                      .clock = &clock_known,
                                      .received_ns = LAB_NS(20),
                                      .host_name = "web-1",
                                      .samples = samples};
    enum err e;

    for (size_t i = 0; i < ticks; i++) {
        wall_ns[i] = (int64_t)(i + 1) * step_ns;
        mono_ns[i] = (int64_t)i + 1;
    }
    for (size_t i = 0; i < n_runs; i++) {
        wide[i] = (struct batch_run){{(uint32_t)i + 1, 1}, 0, (uint16_t)ticks, false, 0};
    }
    b.n_ticks = ticks;
    b.wall_ns = wall_ns;
    b.mono_ns = mono_ns;
    b.n_runs = n_runs;
    b.runs = wide;
    b.n_columns = b.n_events = 0;
    e = ch_rows_add(r, &add);
    if (e) {
        size_t batches = ch_rows_batches(r), given_up = ch_rows_given_up(r);
        size_t cells = ch_native_rows(ch_rows_block(r, CH_CELL));

        assert_ok(ch_rows_leave_out(r, &add));
        assert_int_equal(ch_rows_batches(r), batches + 1);
        assert_int_equal(ch_rows_given_up(r), given_up + 1);
        assert_int_equal(ch_native_rows(ch_rows_block(r, CH_CELL)), cells);
    }
    mem_free(wide);
    return e;
}

static void more_cells_or_days_than_a_batch_has_are_left_out(void **state)
{
    const int64_t day_ns = 86400 * CLK_S;
    struct ch_rows *r;

    assert_ok(ch_rows_create(&r, "a"));
    assert_err(add_wide(r, 1024, 10 * CLK_S, 65536, false), ERR_FULL); /* 64 Mi cells */
    assert_err(add_wide(r, 1024, CLK_MS, 513, true), ERR_FULL);        /* few cells, 513 Ki rows */
    assert_err(add_wide(r, 33, day_ns, 1, false), ERR_FULL);
    assert_int_equal(ch_native_rows(ch_rows_block(r, CH_CELL)), 0);
    assert_int_equal(ch_native_rows(ch_rows_block(r, CH_EVENT)), 0);
    assert_in_range(ch_rows_days(r), 1, 2); /* of their first stamps */
    ch_rows_reset(r);
    assert_int_equal(ch_rows_days(r), 0);
    assert_ok(add_wide(r, 1024, 10 * CLK_S, 100, false));
    assert_ok(add_wide(r, 512, CLK_MS, 1024, true));
    assert_int_equal(ch_native_rows(ch_rows_block(r, CH_SAMPLE)), 512 * 1024);
    assert_ok(add_wide(r, 31, day_ns, 1, false));
    assert_int_equal(ch_rows_days(r), 32);
    ch_rows_destroy(r);
}

/* -- the same from wherever a batch is read -- */

#define BATCHES 256

struct seen {
    struct uuid host;
    uint64_t stream, seq, cells, events;
    size_t n_cells, n_events;
};

struct gathered {
    struct ch_rows *rows;
    struct seen list[BATCHES];
    size_t n, processes;
    uint64_t sent_below; /* numbers below count as sent */
};

static bool is_sent(void *ctx, const struct uuid *host, uint64_t stream, uint64_t seq)
{
    return seq < ((struct gathered *)ctx)->sent_below;
}

static uint64_t block_hash(struct ch_rows *r, enum ch_table t, size_t *rows)
{
    struct buf sql, bytes;
    uint64_t h = 0;

    *rows = ch_native_rows(ch_rows_block(r, t));
    buf_init(&sql, 1u << 20);
    buf_init(&bytes, 64u << 20);
    if (*rows) {
        assert_ok(ch_native_encode(ch_rows_block(r, t), CH_FULL, &sql, &bytes));
        h = hash_bytes(bytes.p, bytes.n, hash_bytes(sql.p, sql.n, 0));
    }
    buf_fini(&bytes);
    buf_fini(&sql);
    return h;
}

static enum err gather(void *ctx, const struct ch_rows_batch *b)
{
    struct gathered *g = ctx;
    struct seen *s = &g->list[g->n++];

    assert_true(g->n <= BATCHES);
    ch_rows_reset(g->rows);
    assert_ok(ch_rows_add(g->rows, b));
    *s = (struct seen){b->rest->head.host, b->rest->head.stream, b->rest->head.seq, 0, 0, 0, 0};
    s->cells = block_hash(g->rows, CH_CELL, &s->n_cells);
    s->events = block_hash(g->rows, CH_EVENT, &s->n_events);
    return ERR_OK;
}

static enum err count_process(void *ctx, const struct uuid *host, const struct uuid *boot,
                              const struct proc_info *info, int64_t seen_ns)
{
    ((struct gathered *)ctx)->processes++;
    return ERR_OK;
}

static int seen_order(const void *x, const void *y)
{
    const struct seen *a = x, *b = y;
    int by_host = memcmp(&a->host, &b->host, sizeof a->host);

    return by_host                  ? by_host
           : a->stream != b->stream ? (a->stream < b->stream ? -1 : 1)
                                    : (a->seq > b->seq) - (a->seq < b->seq);
}

static void gather_all(struct gathered *g, struct store *store, bool head, int64_t since_ns,
                       int64_t until_ns, uint64_t sent_below)
{
    struct ch_backlog b = {.is_sent = is_sent, .take = gather, .process = count_process, .ctx = g};
    struct store_view *view;

    *g = (struct gathered){.sent_below = sent_below};
    assert_ok(ch_rows_create(&g->rows, "a"));
    assert_ok(store_view_open(&view, store));
    b.view = view;
    for (size_t i = 0; i < store_view_hosts(view); i++) {
        assert_ok(head ? ch_backlog_head(&b, i) : ch_backlog_span(&b, i, since_ns, until_ns));
    }
    store_view_close(view);
    ch_rows_destroy(g->rows);
    qsort(g->list, g->n, sizeof *g->list, seen_order);
}

static void same(const struct gathered *a, const struct gathered *b)
{
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        assert_int_equal(seen_order(&a->list[i], &b->list[i]), 0);
        assert_int_equal(a->list[i].n_cells, b->list[i].n_cells);
        assert_int_equal(a->list[i].n_events, b->list[i].n_events);
        assert_true(a->list[i].cells == b->list[i].cells);
        assert_true(a->list[i].events == b->list[i].events);
    }
}

static void sealed_batches_make_the_rows_that_fresh_ones_made(void **state)
{
    const struct fill_conf conf = {
        .hosts = 2, .host = {.processes = 12, .metrics = 8}, .ticks = 10};
    static struct gathered fresh, sealed, late;
    struct fill *f = fill_create(&conf);
    char dir[] = "/tmp/test_ch_rows.XXXXXX";
    struct store_conf store;

    assert_non_null(mkdtemp(dir));
    store = fill_store_conf(dir);
    fill_open(f, &store);
    fill_make(f, FILL_T0 + 700 * CLK_S);
    fill_put(f, SIZE_MAX);
    gather_all(&fresh, f->store, true, 0, 0, 0);
    assert_true(fresh.n >= 140);
    assert_int_equal(fresh.processes, 0);
    gather_all(&sealed, f->store, false, INT64_MIN, INT64_MAX, 0);
    same(&fresh, &sealed); /* not sealed yet */
    fill_seal(f, FILL_T0 + 700 * CLK_S);
    gather_all(&late, f->store, true, 0, 0, 0);
    assert_true(late.n < fresh.n / 2); /* two windows of five minutes have gone */
    gather_all(&sealed, f->store, false, INT64_MIN, INT64_MAX, 0);
    same(&fresh, &sealed);
    assert_true(sealed.processes >= 24);
    gather_all(&sealed, f->store, false, INT64_MIN, INT64_MAX, 31);
    assert_int_equal(sealed.n, fresh.n - 2 * 30); /* those that are sent are left out */
    gather_all(&sealed, f->store, false, FILL_T0 + 200 * CLK_S, FILL_T0 + 250 * CLK_S, 0);
    assert_in_range(sealed.n, 2 * 29, 2 * 31); /* the window of five minutes */
    fill_close(f);
    fill_destroy(f);
}

static void a_corrected_clock_hides_nothing_that_was_made_before(void **state)
{
    static struct rig r;
    static struct gathered g;
    const int64_t day_ns = 86400 * CLK_S;
    const int64_t offsets[] = {0, -10 * day_ns};
    struct fleetgen *host = rig_host(1);
    struct store_view *view;
    int64_t at_ns;

    rig_init(&r);
    r.conf.accept_age_ns = 100 * day_ns;
    rig_open(&r);
    for (size_t i = 0; i < COUNT_OF(offsets); i++) {
        struct rig_batch b;

        rig_batch(&b, host, 10);
        b.clock = (struct host_offset){true, false, offsets[i], 0};
        assert_ok(rig_put(&r, &b));
        rig_batch_fini(&b);
    }
    gather_all(&g, r.store, false, RIG_T0, RIG_T0 + 100 * CLK_S, 0);
    assert_int_equal(g.n, 1);
    gather_all(&g, r.store, false, RIG_T0 - 10 * day_ns, RIG_T0 - 10 * day_ns + 100 * CLK_S, 0);
    assert_int_equal(g.n, 1);
    gather_all(&g, r.store, false, RIG_T0 - 9 * day_ns, RIG_T0 - day_ns, 0);
    assert_int_equal(g.n, 0);
    assert_ok(store_view_open(&view, r.store)); /* no step over days without anything */
    at_ns = store_view_made(view, INT64_MIN);
    assert_in_range(at_ns - (RIG_T0 - 10 * day_ns), 0, 100 * CLK_S);
    at_ns = store_view_made(view, at_ns + 1);
    assert_in_range(at_ns - RIG_T0, 0, 100 * CLK_S);
    assert_true(store_view_made(view, at_ns + 1) == INT64_MAX);
    store_view_close(view);
    fleetgen_destroy(host);
    rig_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cell_is_a_run_inside_ten_seconds),
        cmocka_unit_test(samples_are_every_value),
        cmocka_unit_test(the_ledger_row_says_what_is_in_the_batch),
        cmocka_unit_test(what_a_run_lacks_is_refused_and_adds_nothing),
        cmocka_unit_test(a_batch_whose_rows_are_gone_is_given_up),
        cmocka_unit_test(more_cells_or_days_than_a_batch_has_are_left_out),
        cmocka_unit_test(sealed_batches_make_the_rows_that_fresh_ones_made),
        cmocka_unit_test(a_corrected_clock_hides_nothing_that_was_made_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
