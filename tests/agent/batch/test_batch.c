#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/batch/batch.h"
#include "common/base/mem.h"

#define WALL0 (1700000100LL * CLK_S) /* a multiple of the window */

struct bench {
    struct batch_conf conf;
    struct privacy *filter;
    struct batch_builder *b;
    struct batch *got[256]; /* decoded, in order */
    size_t n_got;
    uint64_t ledger_count;
    enum err refuse;
    struct str line; /* command line of everybody, instead of a short one */
};

static enum err take(void *ctx, uint64_t seq, const void *bytes, size_t n)
{
    struct bench *t = ctx;

    if (t->refuse) {
        return t->refuse;
    }
    assert_true(t->n_got < COUNT_OF(t->got));
    assert_ok(wire_batch_decode(&t->got[t->n_got], bytes, n));
    assert_int_equal(t->got[t->n_got]->head.seq, seq);
    t->n_got++;
    return ERR_OK;
}

static size_t ledger(void *ctx, struct ledger_row *rows, size_t max)
{
    struct bench *t = ctx;

    assert_true(max >= 2);
    rows[0] = (struct ledger_row){str_make("source"), str_make("in"), t->ledger_count};
    rows[1] = (struct ledger_row){str_make("source"), str_make("lost"), 0};
    return 2;
}

static struct bench *bench_new(void)
{
    static const char *const words[] = {"password"};
    struct privacy_conf filter = {.command_line = PRIVACY_REDACT, .words = words, .n_words = 1};
    struct bench *t = mem_zalloc(sizeof *t);

    assert_non_null(t);
    assert_ok(privacy_create(&t->filter, &filter));
    t->conf = (struct batch_conf){.samples = 10,
                                  .max_bytes = 256 << 10,
                                  .max_age_ns = 10 * CLK_S,
                                  .filter = t->filter,
                                  .ledger = ledger,
                                  .out = take,
                                  .ctx = t};
    t->conf.head.stream = 77;
    t->conf.head.source = str_make("test");
    return t;
}

static void open_it(struct bench *t)
{
    assert_ok(batch_create(&t->b, &t->conf));
}

static void bench_free(struct bench *t)
{
    for (size_t i = 0; i < t->n_got; i++) {
        wire_batch_free(t->got[i]);
    }
    batch_destroy(t->b);
    privacy_destroy(t->filter);
    mem_free(t);
}

static struct proc_info info_of(uint32_t pid)
{
    return (struct proc_info){.id = {pid, pid * 10u},
                              .have = INFO_COMMAND_LINE_KNOWN,
                              .name = str_make("app"),
                              .command_line = str_make("app --password x")};
}

/* One tick at `ms` of processes 1 to n with two columns. */
static enum err tick_at(struct bench *t, int64_t ms, uint32_t n)
{
    struct proc_info *infos = mem_array(n, sizeof *infos);
    struct sample_row *rows = mem_array(n, sizeof *rows);
    struct sample_tick tick = {.wall_ns = WALL0 + ms * CLK_MS, .mono_ns = ms * CLK_MS};
    enum err e;

    assert_non_null(infos);
    assert_non_null(rows);
    for (uint32_t i = 0; i < n; i++) {
        infos[i] = info_of(i + 1);
        if (t->line.n > 0) {
            infos[i].command_line = t->line;
        }
        rows[i].info = &infos[i];
        rows[i].info_version = 1;
        rows[i].mask = METRIC_BIT(M_CPU_TIME) | METRIC_BIT(M_WORKING_SET_SIZE);
        rows[i].values[M_CPU_TIME] = ms * (i + 1);
        rows[i].values[M_WORKING_SET_SIZE] = 4096 * ((ms + i * 131) % 7919) * (i + 1);
    }
    tick.rows = rows;
    tick.n_rows = n;
    e = batch_tick(t->b, &tick);
    mem_free(rows);
    mem_free(infos);
    return e;
}

static int64_t value_of(const struct batch *b, uint8_t metric, size_t i)
{
    for (size_t c = 0; c < b->n_columns; c++) {
        if (b->columns[c].metric == metric) {
            assert_true(i < b->columns[c].n_values);
            return b->columns[c].values[i];
        }
    }
    fail_msg("no column of metric %d", (int)metric);
    return 0;
}

static void the_first_batch_closes_with_its_first_tick_and_the_next_after_ten(void **state)
{
    struct bench *t = bench_new();

    open_it(t);
    for (int i = 0; i < 11; i++) {
        assert_ok(tick_at(t, i * 1000, 3));
    }
    assert_int_equal(t->n_got, 2);
    assert_int_equal(t->got[0]->n_ticks, 1);
    assert_int_equal(t->got[1]->n_ticks, 10);
    assert_int_equal(t->got[1]->head.seq, 2);
    assert_int_equal(t->got[1]->head.stream, 77);
    assert_int_equal(t->got[1]->n_runs, 3);
    assert_int_equal(t->got[1]->runs[1].id.pid, 2);
    assert_int_equal(t->got[1]->runs[1].n_ticks, 10);
    assert_int_equal(value_of(t->got[1], M_CPU_TIME, 10), 1000 * 2);
    assert_int_equal(value_of(t->got[1], M_CPU_TIME, 29), 10000 * 3);
    bench_free(t);
}

static void infos_travel_when_new_changed_or_in_a_new_window(void **state)
{
    struct bench *t = bench_new();

    t->conf.samples = 1;
    open_it(t);
    assert_ok(tick_at(t, 0, 2));
    assert_ok(tick_at(t, 1000, 2));
    assert_ok(tick_at(t, 2000, 3));
    assert_ok(tick_at(t, 300000, 3));
    assert_int_equal(t->n_got, 4);
    assert_int_equal(t->got[0]->n_infos, 2);
    assert_int_equal(t->got[1]->n_infos, 0);
    assert_int_equal(t->got[2]->n_infos, 1);
    assert_int_equal(t->got[2]->infos[0].id.pid, 3);
    assert_int_equal(t->got[3]->n_infos, 3);
    bench_free(t);
}

static void a_batch_that_is_full_does_not_make_infos_travel_again(void **state)
{
    enum { PROCESSES = 2000 };
    struct bench *t = bench_new();
    int i;

    t->conf.samples = WIRE_TICKS_MAX;
    t->conf.max_bytes = 8 << 20;
    t->conf.max_age_ns = 300 * CLK_S;
    open_it(t);
    for (i = 0; t->n_got < 3 && i < 299; i++) {
        assert_ok(tick_at(t, i * 1000, PROCESSES));
    }
    assert_int_equal(t->n_got, 3); /* BATCH_ROWS_MAX is reached twice */
    assert_int_equal(t->got[0]->n_infos, PROCESSES);
    assert_true(t->got[1]->n_ticks < 100);
    assert_int_equal(t->got[1]->n_infos, 0);
    assert_int_equal(t->got[2]->n_infos, 0);
    bench_free(t);
}

static void of_many_processes_a_batch_holds_as_many_ticks(void **state)
{
    struct bench *t = bench_new();

    t->conf.max_bytes = 8 << 20;
    open_it(t);
    for (int i = 0; i < 11; i++) {
        assert_ok(tick_at(t, i * 1000, 4000));
    }
    assert_int_equal(t->n_got, 2);
    assert_int_equal(t->got[1]->n_ticks, 10);
    bench_free(t);
}

static void a_changed_info_travels_once_and_filtered(void **state)
{
    struct bench *t = bench_new();
    struct proc_info info = info_of(1);
    struct sample_row row = {.info = &info, .info_version = 1, .mask = 0};

    open_it(t);
    for (int i = 0; i < 12; i++) {
        struct sample_tick tick = {WALL0 + i * CLK_S, i * CLK_S, &row, 1};

        row.info_version = i < 5 ? 1 : 2;
        info.name = str_make(i < 5 ? "old" : "new");
        assert_ok(batch_tick(t->b, &tick));
    }
    assert_int_equal(t->got[1]->n_infos, 1);
    assert_true(str_eq(t->got[1]->infos[0].name, str_make("new")));
    assert_true(str_eq(t->got[1]->infos[0].command_line, str_make("app --password ***")));
    bench_free(t);
}

static void a_window_boundary_ends_a_batch(void **state)
{
    struct bench *t = bench_new();

    open_it(t);
    assert_ok(tick_at(t, 297000, 1));
    assert_ok(tick_at(t, 298000, 1));
    assert_ok(tick_at(t, 299000, 1));
    assert_ok(tick_at(t, 300000, 1));
    assert_int_equal(t->n_got, 2);
    assert_int_equal(t->got[1]->n_ticks, 2);
    bench_free(t);
}

static void age_ends_a_batch(void **state)
{
    struct bench *t = bench_new();

    t->conf.max_age_ns = 2 * CLK_S;
    open_it(t);
    for (int i = 0; i < 4; i++) {
        assert_ok(tick_at(t, i * 1000, 1));
    }
    assert_int_equal(t->n_got, 2);
    assert_int_equal(t->got[1]->n_ticks, 3);
    bench_free(t);
}

static void a_clock_set_back_ends_a_batch(void **state)
{
    struct bench *t = bench_new();
    struct sample_tick tick = {.wall_ns = WALL0, .mono_ns = 9 * CLK_S};

    open_it(t);
    assert_ok(tick_at(t, 0, 1));
    assert_ok(tick_at(t, 1000, 1));
    assert_ok(batch_tick(t->b, &tick));
    assert_int_equal(t->n_got, 2);
    assert_int_equal(t->got[1]->n_ticks, 1);
    bench_free(t);
}

static void runs_split_where_columns_change_or_a_tick_is_missing(void **state)
{
    struct bench *t = bench_new();
    struct proc_info info = info_of(1);

    open_it(t);
    assert_ok(tick_at(t, 0, 1));
    for (int i = 1; i <= 10; i++) {
        struct sample_row row = {.info = &info, .info_version = 1, .fresh = i == 1};
        struct sample_tick tick = {WALL0 + i * CLK_S, i * CLK_S, &row, i == 8 ? 0 : 1};

        row.mask = METRIC_BIT(M_CPU_TIME) | (i >= 5 ? METRIC_BIT(M_PRIORITY) : 0);
        row.values[M_CPU_TIME] = i;
        row.values[M_PRIORITY] = 100 + i;
        assert_ok(batch_tick(t->b, &tick));
    }
    assert_int_equal(t->n_got, 2);
    assert_int_equal(t->got[1]->n_runs, 3); /* 1-4, 5-7, 9-10 */
    assert_true(t->got[1]->runs[0].fresh);
    assert_int_equal(t->got[1]->runs[0].n_ticks, 4);
    assert_int_equal(t->got[1]->runs[1].first_tick, 4);
    assert_int_equal(t->got[1]->runs[2].first_tick, 8);
    assert_int_equal(value_of(t->got[1], M_PRIORITY, 3), 109);
    bench_free(t);
}

static void a_batch_too_large_is_split_and_nothing_is_lost(void **state)
{
    struct bench *t = bench_new();
    size_t ticks = 0, infos = 0, values = 0, events = 0;

    open_it(t);
    assert_ok(tick_at(t, 0, 1));
    batch_limit(t->b, 3000);
    for (uint32_t i = 0; i < 100; i++) {
        struct life_event ev = {.kind = LIFE_PROCESS_START, .wall_ns = WALL0 + i};

        ev.info = info_of(i * 7919);
        assert_ok(batch_event(t->b, &ev));
    }
    assert_ok(tick_at(t, 1000, 400));
    assert_ok(tick_at(t, 2000, 400));
    assert_ok(batch_finish(t->b));
    assert_true(batch_stats(t->b)->split > 0);
    for (size_t i = 1; i < t->n_got; i++) {
        ticks += t->got[i]->n_ticks;
        infos += t->got[i]->n_infos;
        events += t->got[i]->n_events;
        for (size_t c = 0; c < t->got[i]->n_columns; c++) {
            values += t->got[i]->columns[c].n_values;
        }
        assert_int_equal(t->got[i]->head.seq, i + 1);
        assert_int_equal(t->got[i]->head.flags & BATCH_LAST, i + 1 == t->n_got ? BATCH_LAST : 0);
    }
    assert_int_equal(values, 2 * 2 * 400);
    assert_int_equal(infos, 399); /* process 1 was announced before */
    assert_int_equal(events, 100);
    assert_true(ticks >= 2);
    bench_free(t);
}

static void texts_without_room_in_one_batch_travel_in_a_later_one(void **state)
{
    enum { N = 2500 };
    static char long_line[MODEL_COMMAND_LINE_MAX]; /* of all together more than a batch keeps */
    struct bench *t = bench_new();
    size_t n_told = 0;

    memset(long_line, 'x', sizeof long_line);
    t->line = (struct str){long_line, sizeof long_line};
    open_it(t);
    for (int64_t ms = 0; ms < 5000; ms += 1000) {
        assert_ok(tick_at(t, ms, N));
    }
    assert_ok(batch_finish(t->b));
    for (size_t i = 0; i < t->n_got; i++) {
        for (size_t k = 0; k < t->got[i]->n_infos; k++) {
            n_told += t->got[i]->infos[k].command_line.n == sizeof long_line;
        }
    }
    assert_int_equal(n_told, N);
    bench_free(t);
}

static void events_are_in_time_order_and_filtered(void **state)
{
    struct bench *t = bench_new();
    struct life_event ev = {.kind = LIFE_PROCESS_START};

    open_it(t);
    assert_ok(tick_at(t, 0, 1));
    ev.info = info_of(1);
    for (int i = 0; i < 3; i++) {
        ev.wall_ns = WALL0 + 100 - i;
        assert_ok(batch_event(t->b, &ev));
    }
    assert_ok(batch_finish(t->b));
    assert_int_equal(t->got[1]->n_events, 3);
    assert_int_equal(t->got[1]->events[0].wall_ns, WALL0 + 98);
    assert_int_equal(t->got[1]->events[2].wall_ns, WALL0 + 100);
    assert_true(str_eq(t->got[1]->events[0].info.command_line, str_make("app --password ***")));
    bench_free(t);
}

static void the_ledger_travels_as_differences(void **state)
{
    struct bench *t = bench_new();

    t->conf.samples = 1;
    open_it(t);
    t->ledger_count = 5;
    assert_ok(tick_at(t, 0, 1));
    t->ledger_count = 12;
    assert_ok(tick_at(t, 1000, 1));
    assert_ok(tick_at(t, 2000, 1));
    assert_int_equal(t->got[0]->n_ledger, 1);
    assert_int_equal(t->got[0]->ledger[0].count, 5);
    assert_int_equal(t->got[1]->ledger[0].count, 7);
    assert_int_equal(t->got[2]->n_ledger, 0);
    bench_free(t);
}

static size_t forward_ledger(void *ctx, struct ledger_row *rows, size_t max)
{
    struct bench *t = ctx;

    assert_true(max >= 2);
    rows[0] = (struct ledger_row){str_make("forward"), str_make("in"), t->ledger_count};
    rows[1] = (struct ledger_row){str_make("source"), str_make("in"), t->ledger_count};
    return 2;
}

/* A collector of the release before would take them for losses; what it was not told the next one
 * is. */
static void rows_that_a_collector_does_not_know_wait(void **state)
{
    static const unsigned rows[] = {2, 1, 1, 2}; /* in each batch */
    struct bench *t = bench_new();
    atomic_bool no_events = false;
    uint64_t in[2] = {0, 0};

    t->conf.samples = 1;
    t->conf.ledger = forward_ledger;
    t->conf.no_events = &no_events;
    open_it(t);
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        atomic_store(&no_events, rows[i] == 1);
        t->ledger_count += 5;
        assert_ok(tick_at(t, 1000 * i, 1));
        assert_int_equal(t->got[i]->n_ledger, rows[i]);
        for (size_t k = 0; k < t->got[i]->n_ledger; k++) {
            const struct ledger_row *r = &t->got[i]->ledger[k];

            in[str_eq(r->stage, str_make("source"))] += r->count;
        }
    }
    assert_int_equal(in[0], 20);
    assert_int_equal(in[1], 20);
    bench_free(t);
}

/* As many rows as an agent can have, each grown since it was asked last. */
static size_t full_ledger(void *ctx, struct ledger_row *rows, size_t max)
{
    static char names[BATCH_LEDGER_MAX][16];
    struct bench *t = ctx;

    t->ledger_count++;
    for (size_t i = 0; i < max; i++) {
        (void)snprintf(names[i], sizeof names[i], "reason_%u", (unsigned)i);
        rows[i] = (struct ledger_row){str_make("etw"), str_make(names[i]), t->ledger_count * i};
    }
    return max;
}

/* Events of more types than one batch names, of texts that need many batches, beside a ledger that
 * is full: each event and each count travels once. */
static void events_of_providers_travel_beside_a_full_ledger(void **state)
{
    enum { EVENTS = 6000, TYPES = 3 * WIRE_TYPES_MAX };
    static uint8_t came[EVENTS];
    struct bench *t = bench_new();
    uint64_t counts = 0, calls;
    char name[16];

    memset(came, 0, sizeof came);
    t->conf.ledger = full_ledger;
    t->conf.max_bytes = 64 << 10;
    open_it(t);
    assert_ok(tick_at(t, 0, 1));
    for (uint32_t i = 0; i < EVENTS; i++) {
        struct event_type type = {.id = (uint16_t)(i % TYPES), .provider = str_make("P")};
        struct life_event ev = {.kind = LIFE_PROVIDER,
                                .wall_ns = WALL0 + i,
                                .mono_ns = i,
                                .tid = i,
                                .info = {.id = {1, 10}, .name = str_make(name)},
                                .type = &type};

        (void)snprintf(name, sizeof name, "app%u", (unsigned)i);
        assert_ok(batch_event(t->b, &ev));
    }
    assert_ok(batch_finish(t->b));
    calls = t->ledger_count;
    for (size_t i = 0; i < t->n_got; i++) {
        const struct batch *b = t->got[i];

        for (size_t k = 0; k < b->n_events; k++) {
            assert_int_equal(b->events[k].type->id, b->events[k].tid % TYPES);
            came[b->events[k].tid]++;
        }
        for (size_t k = 0; k < b->n_ledger; k++) {
            counts += b->ledger[k].count;
        }
    }
    for (size_t i = 0; i < EVENTS; i++) {
        assert_int_equal(came[i], 1);
    }
    assert_int_equal(counts, calls * (BATCH_LEDGER_MAX * (BATCH_LEDGER_MAX - 1) / 2));
    assert_int_equal(batch_stats(t->b)->oversize, 0);
    bench_free(t);
}

static void an_empty_end_still_says_that_it_is_the_end(void **state)
{
    struct bench *t = bench_new();

    open_it(t);
    assert_ok(batch_finish(t->b));
    assert_int_equal(t->n_got, 1);
    assert_true(t->got[0]->head.flags & BATCH_LAST);
    bench_free(t);
}

static void a_closed_receiver_ends_the_call(void **state)
{
    struct bench *t = bench_new();

    open_it(t);
    t->refuse = ERR_CLOSED;
    assert_err(tick_at(t, 0, 1), ERR_CLOSED);
    bench_free(t);
}

static enum err discard(void *ctx, uint64_t seq, const void *bytes, size_t n)
{
    size_t *batches = ctx;

    (void)seq;
    (void)bytes;
    (void)n;
    (*batches)++;
    return ERR_OK;
}

/* Opens, adds one event and one tick with the n-th allocation failing; whether all of it arrived.
 */
static bool one_batch(struct bench *t, long n)
{
    struct proc_info info = info_of(1);
    struct life_event ev = {.kind = LIFE_PROCESS_START, .wall_ns = WALL0, .info = info};
    struct sample_row row = {.info = &info, .info_version = 1, .mask = METRIC_BIT(M_CPU_TIME)};
    struct sample_tick tick = {WALL0, 1, &row, 1};
    size_t batches = 0;
    bool all = false;

    t->conf.out = discard;
    t->conf.ledger = NULL;
    t->conf.ctx = &batches;
    mem_fail_after(n);
    if (!batch_create(&t->b, &t->conf)) {
        assert_ok(batch_event(t->b, &ev));
        assert_ok(batch_tick(t->b, &tick));
        all = batches == 1 && batch_stats(t->b)->nomem == 0 && batch_stats(t->b)->text_lost == 0;
    }
    mem_fail_after(-1);
    return all;
}

static void a_batch_ends_where_its_source_changes(void **state)
{
    struct bench *t = bench_new();

    open_it(t);
    for (int i = 0; i < 4; i++) {
        assert_ok(tick_at(t, i * 1000, 3));
    }
    assert_ok(batch_source(t->b, "snapshot", true));
    assert_ok(batch_source(t->b, "snapshot", true)); /* nothing is held: nothing leaves */
    assert_ok(tick_at(t, 4000, 3));
    assert_ok(batch_source(t->b, "live", false));
    assert_ok(tick_at(t, 5000, 3));
    assert_ok(batch_finish(t->b));
    assert_int_equal(t->n_got, 4);
    assert_int_equal(t->got[1]->n_ticks, 3);
    assert_true(str_eq(t->got[1]->head.source, str_make("test")));
    assert_int_equal(t->got[1]->head.flags & BATCH_POLLED, 0);
    assert_int_equal(t->got[2]->n_ticks, 1);
    assert_true(str_eq(t->got[2]->head.source, str_make("snapshot")));
    assert_true(t->got[2]->head.flags & BATCH_POLLED);
    assert_true(str_eq(t->got[3]->head.source, str_make("live")));
    assert_int_equal(t->got[3]->head.flags & BATCH_POLLED, 0);
    bench_free(t);
}

static void every_failing_allocation_is_survived(void **state)
{
    long before = mem_live(), n = 0;
    bool all = false;

    for (; !all; n++) {
        struct bench *t = bench_new();

        all = one_batch(t, n);
        bench_free(t);
        assert_int_equal(mem_live(), before);
        assert_true(n < 1000);
    }
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_batch_closes_with_its_first_tick_and_the_next_after_ten),
        cmocka_unit_test(infos_travel_when_new_changed_or_in_a_new_window),
        cmocka_unit_test(a_batch_that_is_full_does_not_make_infos_travel_again),
        cmocka_unit_test(of_many_processes_a_batch_holds_as_many_ticks),
        cmocka_unit_test(a_changed_info_travels_once_and_filtered),
        cmocka_unit_test(a_window_boundary_ends_a_batch),
        cmocka_unit_test(age_ends_a_batch),
        cmocka_unit_test(a_clock_set_back_ends_a_batch),
        cmocka_unit_test(runs_split_where_columns_change_or_a_tick_is_missing),
        cmocka_unit_test(a_batch_too_large_is_split_and_nothing_is_lost),
        cmocka_unit_test(texts_without_room_in_one_batch_travel_in_a_later_one),
        cmocka_unit_test(events_are_in_time_order_and_filtered),
        cmocka_unit_test(the_ledger_travels_as_differences),
        cmocka_unit_test(rows_that_a_collector_does_not_know_wait),
        cmocka_unit_test(events_of_providers_travel_beside_a_full_ledger),
        cmocka_unit_test(an_empty_end_still_says_that_it_is_the_end),
        cmocka_unit_test(a_closed_receiver_ends_the_call),
        cmocka_unit_test(a_batch_ends_where_its_source_changes),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
