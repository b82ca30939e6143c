/* What a joined view says when ClickHouse does not answer, and what the far view makes of replies
 * that are none. Equal answers of one that does answer: test_ch_equal. */
#include "tests/support/t.h"

#include <string.h>

#include "collector/clickhouse/ch_join.h"
#include "collector/clickhouse/ch_view.h"
#include "collector/clickhouse/ch_view_hosts.h"
#include "collector/query/query.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/wire/wire_series.h"
#include "tests/collector/query/ask.h"

static const int64_t cpu[] = {10, 20, 30, 40};

static void put(struct lab *l)
{
    lab_begin(l, 1, 1, 1);
    for (unsigned i = 0; i < 4; i++) {
        lab_tick(l, 100 + i);
    }
    lab_cpu(l, 4, false, 0, 4, cpu);
    lab_put(l);
}

static void ask(struct query_answer *a, struct lab *l, double since, double until)
{
    const struct wire_query q = {.since_ns = LAB_NS(since), .until_ns = LAB_NS(until)};
    struct query_env env = {.now_ns = LAB_NS(1000)};
    struct store_view *local, *joined;
    struct errmsg why = {""};

    assert_ok(store_view_open(&local, lab_store(l)));
    assert_ok(ch_join_open(&joined, local, NULL));
    env.view = joined;
    assert_ok(query_run(a, QUERY_TOP, &env, &q, &why));
    assert_int_equal(a->data.n_rows, 1);
    store_view_close(joined);
}

static void what_only_a_silent_clickhouse_has_is_named_and_left_out(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct query_answer a;

    put(l);
    ask(&a, l, 50, 110);
    assert_true(ask_note(&a.data, "left out, ClickHouse did not answer"));
    assert_true(a.data.partial);
    query_answer_fini(&a);
    ask(&a, l, 101, 110);
    assert_false(ask_note(&a.data, "ClickHouse"));
    assert_false(a.data.partial);
    query_answer_fini(&a);
    lab_close(l);
}

static void encoded(struct buf *out, const struct store_view *v, const struct wire_query *q)
{
    struct query_env env = {.view = v, .now_ns = LAB_NS(1000)};
    struct errmsg why = {""};
    struct query_answer a;

    buf_init(out, QUERY_REPLY_MAX);
    assert_ok(query_run(&a, QUERY_SERIES, &env, q, &why));
    assert_true(a.data.series->columns[0].avg[0] > 0); /* since the sample before the window */
    assert_ok(wire_answer_encode(out, &a.data));
    query_answer_fini(&a);
}

static void samples_before_the_window_are_those_of_the_local_store(void **state)
{
    const struct wire_query q = {.since_ns = LAB_NS(102),
                                 .until_ns = LAB_NS(104),
                                 .step_ns = CLK_S,
                                 .n_metrics = 1,
                                 .metrics = {M_CPU_TIME}};
    struct lab *l = lab_open(NULL, NULL);
    struct store_view *local, *joined;
    struct buf want, got;

    put(l);
    assert_ok(store_view_open(&local, lab_store(l)));
    assert_ok(ch_join_open(&joined, local, NULL));
    encoded(&want, lab_view(l), &q);
    encoded(&got, joined, &q);
    assert_int_equal(got.n, want.n);
    assert_memory_equal(got.p, want.p, want.n);
    buf_fini(&want);
    buf_fini(&got);
    store_view_close(joined);
    lab_close(l);
}

struct script {
    const void *reply;
    size_t n;
    enum err e;
    unsigned asked, closed;
};

static enum err scripted(void *ctx, const char *sql, int64_t timeout_ns, struct buf *reply,
                         struct errmsg *why)
{
    struct script *s = ctx;

    assert_non_null(strstr(sql, " FORMAT Native"));
    assert_true(timeout_ns > 0);
    s->asked++;
    buf_put(reply, s->reply, s->n);
    return s->e ? errmsg_set(why, s->e, "scripted") : ERR_OK;
}

static void closed(void *ctx)
{
    ((struct script *)ctx)->closed++;
}

static enum err open_far(struct script *s, struct store_view **v)
{
    struct errmsg why = {""};

    return ch_view_open(v,
                        &(struct ch_view_conf){.ask = scripted,
                                               .closed = closed,
                                               .ctx = s,
                                               .dialect = CH_PLAIN,
                                               .database = "procfleet"},
                        &why);
}

static void a_reply_that_is_no_answer_opens_no_view(void **state)
{
    static const char html[] = "<html><body>502 Bad Gateway</body></html>";
    struct script scripts[] = {
        {html, sizeof html - 1, ERR_OK, 0, 0},
        {"\1\1\1", 3, ERR_OK, 0, 0},
        {"\1\0\1n\6UInt64", 11, ERR_OK, 0, 0},
        {"", 0, ERR_UNREACHABLE, 0, 0},
        {"", 0, ERR_TIMEOUT, 0, 0},
        {"", 0, ERR_ACCESS, 0, 0},
    };

    for (size_t i = 0; i < COUNT_OF(scripts); i++) {
        struct store_view *v = NULL;
        enum err e = open_far(&scripts[i], &v);

        if (i == 2) { /* no row of any table: no host */
            assert_ok(e);
            assert_int_equal(store_view_hosts(v), 0);
            store_view_close(v);
        } else {
            assert_true(e != ERR_OK);
            assert_int_equal(scripts[i].asked, 1);
        }
        assert_int_equal(scripts[i].closed, 1);
    }
}

static void opening_survives_every_failing_allocation(void **state)
{
    long held = mem_live();

    for (long n = 0;; n++) {
        struct script s = {"", 0, ERR_OK, 0, 0};
        struct store_view *v = NULL;
        enum err e;

        mem_fail_after(n);
        e = open_far(&s, &v);
        mem_fail_after(-1);
        assert_int_equal(s.closed, e ? 1 : 0);
        if (!e) {
            store_view_close(v);
            assert_true(n > 3);
            break;
        }
    }
    assert_int_equal(mem_live(), held);
}

/* -- a far view of replies that the test writes -- */

static void block(struct buf *out, size_t rows, size_t columns)
{
    buf_put_varint(out, columns);
    buf_put_varint(out, rows);
}

static void head(struct buf *out, const char *type)
{
    buf_put_str(out, "\1x");
    buf_put_varint(out, strlen(type));
    buf_put_str(out, type);
}

static void numbers(struct buf *out, size_t n, const int64_t *v)
{
    head(out, "Int64");
    for (size_t i = 0; i < n; i++) {
        buf_put_u64le(out, (uint64_t)v[i]);
    }
}

static void number(struct buf *out, size_t rows, int64_t v)
{
    head(out, "Int64");
    for (size_t i = 0; i < rows; i++) {
        buf_put_u64le(out, (uint64_t)v);
    }
}

static void uuids(struct buf *out, size_t rows)
{
    static const uint8_t id[16] = {1};

    head(out, "UUID");
    for (size_t i = 0; i < rows; i++) {
        buf_put(out, id, sizeof id);
    }
}

static void text(struct buf *out, const void *p, size_t n)
{
    head(out, "String");
    buf_put_varint(out, n);
    buf_put(out, p, n);
}

#define T(i) LAB_NS(100 + (i))

static unsigned statements; /* asked */
static bool too_large;      /* an answer about all hosts */

/* A host with one batch of two ticks, and three samples: the second is at none of them. */
static enum err one_batch(void *ctx, const char *sql, int64_t timeout_ns, struct buf *reply,
                          struct errmsg *why)
{
    const struct buf *rest = ctx;

    statements++;
    if (too_large && !strstr(sql, "bitShiftRight") && strstr(sql, "GROUP BY host_id") &&
        !strstr(sql, "GROUP BY host_id, stream, seq)")) {
        return ERR_FULL;
    }
    if (strstr(sql, "bitShiftRight") && !strstr(sql, ", 62) = 2")) {
        return ERR_OK; /* the host is in the third part of four */
    }
    if (strstr(sql, "argMax(name, seen)")) {
        block(reply, 1, 2);
        uuids(reply, 1);
        text(reply, "far", 3);
    } else if (strstr(sql, "GROUP BY host_id, stream, seq)")) {
        block(reply, 1, 4);
        uuids(reply, 1);
        number(reply, 1, 2);
        number(reply, 1, 4);
        number(reply, 1, 5);
    } else if (strstr(sql, "GROUP BY host_id, stream")) {
        block(reply, 2, 12); /* two streams; of the second some are there twice */
        uuids(reply, 2);
        numbers(reply, 2, (int64_t[]){1, 2});
        numbers(reply, 2, (int64_t[]){1, 7});
        numbers(reply, 2, (int64_t[]){T(0), T(-50)});
        numbers(reply, 2, (int64_t[]){T(9), T(-40)});
        numbers(reply, 2, (int64_t[]){3, 9});
        numbers(reply, 2, (int64_t[]){1, 1});
        numbers(reply, 2, (int64_t[]){1, 6});
        numbers(reply, 2, (int64_t[]){0, 1});
        numbers(reply, 2, (int64_t[]){T(1), T(-45)});
        numbers(reply, 2, (int64_t[]){1, 6});
        numbers(reply, 2, (int64_t[]){1, 6});
    } else if (strstr(sql, "cpus, source")) {
        block(reply, 1, 12);
        uuids(reply, 1);
        number(reply, 1, T(1));
        number(reply, 1, T(9));
        for (unsigned i = 0; i < 3; i++) {
            number(reply, 1, 0);
        }
        uuids(reply, 1);
        number(reply, 1, 0);
        number(reply, 1, 4);
        text(reply, "test", 4);
        number(reply, 1, 7);
        text(reply, rest->p, rest->n);
    } else if (strstr(sql, "SELECT stream, seq, boot")) {
        block(reply, 1, 9);
        number(reply, 1, 1);
        number(reply, 1, 1);
        uuids(reply, 1);
        number(reply, 1, T(0));
        number(reply, 1, T(1));
        number(reply, 1, T(9));
        for (unsigned i = 0; i < 3; i++) {
            number(reply, 1, 0);
        }
    } else if (strstr(sql, "SELECT stream, seq, rest")) {
        block(reply, 1, 3);
        number(reply, 1, 1);
        number(reply, 1, 1);
        text(reply, rest->p, rest->n);
    } else if (strstr(sql, "SELECT stream, seq, pid")) {
        block(reply, 3, 9);
        number(reply, 3, 1);
        number(reply, 3, 1);
        number(reply, 3, 4);
        number(reply, 3, 4);
        numbers(reply, 3, (int64_t[]){T(0), T(0) + CLK_S / 2, T(1)});
        number(reply, 3, 0);
        number(reply, 3, (int64_t)metric_mask_low(METRIC_BIT(M_CPU_TIME)));
        number(reply, 3, 0);
        numbers(reply, 3, (int64_t[]){10, 15, 20});
    } else {
        return errmsg_set(why, ERR_REFUSED, "%s", sql);
    }
    assert_true(timeout_ns > 0);
    return reply->bad;
}

static void rest_make(struct buf *out)
{
    static const int64_t wall_ns[] = {T(0), T(1)}, mono_ns[] = {CLK_S, 2 * CLK_S};
    const struct batch b = {
        .head = {.host = {{1}}, .stream = 1, .seq = 1, .boot = {{1}}, .source = {"test", 4}},
        .n_ticks = 2,
        .wall_ns = wall_ns,
        .mono_ns = mono_ns};
    struct wire_encoder *enc;

    buf_init(out, 1u << 20);
    assert_ok(wire_batch_encoder_create(&enc));
    assert_ok(wire_batch_pack(enc, out, &b));
    wire_batch_encoder_destroy(enc);
}

static struct store_view *one_batch_view(struct buf *rest)
{
    struct store_view *v = NULL;
    struct errmsg why = {""};

    assert_ok(ch_view_open(
        &v,
        &(struct ch_view_conf){
            .ask = one_batch, .ctx = rest, .dialect = CH_PLAIN, .database = "procfleet"},
        &why));
    assert_int_equal(store_view_hosts(v), 1);
    return v;
}

static void host_check(const struct store_view *v)
{
    const struct store_host *h = store_view_host(v, 0);

    assert_int_equal(h->batches, 5);
    assert_int_equal(h->held, 5);
    assert_int_equal(h->gaps, 2);
    assert_int_equal(h->lost_events, 8);
    assert_int_equal(h->first_ns, T(-50));
    assert_int_equal(h->received_ns, T(9));
    assert_int_equal(h->alive, 7);
}

static void streams_of_a_host_are_added_up(void **state)
{
    struct store_view *v;
    struct buf rest;

    rest_make(&rest);
    v = one_batch_view(&rest);
    host_check(v);
    store_view_close(v);
    buf_fini(&rest);
}

static void a_list_that_is_too_large_is_asked_for_in_parts(void **state)
{
    struct store_view *v;
    struct buf rest;

    rest_make(&rest);
    too_large = true;
    v = one_batch_view(&rest);
    too_large = false;
    host_check(v);
    store_view_close(v);
    buf_fini(&rest);
}

static void the_next_view_of_a_list_asks_nothing(void **state)
{
    struct ch_view_conf conf = {.ask = one_batch, .dialect = CH_PLAIN, .database = "procfleet"};
    struct errmsg why = {""};
    struct store_view *v, *next;
    unsigned before;
    struct buf rest;

    rest_make(&rest);
    v = one_batch_view(&rest);
    before = statements;
    conf.ctx = &rest;
    conf.hosts = ch_view_hosts_of(v);
    store_view_close(v);
    assert_ok(ch_view_open(&next, &conf, &why));
    ch_view_hosts_unref(conf.hosts);
    assert_int_equal(statements, before);
    host_check(next);
    store_view_close(next);
    buf_fini(&rest);
}

static enum err block_see(void *ctx, const struct store_block *b)
{
    const struct batch *batch = b->batch;

    assert_int_equal(batch->n_runs, 1);
    assert_int_equal(batch->runs[0].n_ticks, 2);
    assert_int_equal(batch->n_columns, 1);
    assert_int_equal(batch->columns[0].n_values, 2);
    assert_int_equal(batch->columns[0].values[0], 10);
    assert_int_equal(batch->columns[0].values[1], 20);
    ++*(unsigned *)ctx;
    return ERR_OK;
}

static void a_sample_at_no_tick_is_left_out(void **state)
{
    struct store_range range = {.since_ns = T(-10),
                                .until_ns = T(10),
                                .made_since_ns = INT64_MIN,
                                .metrics = METRIC_BIT(M_CPU_TIME)};
    struct store_used used = {.damaged = 0};
    struct store_view *v;
    unsigned seen = 0;
    struct buf rest;

    range.used = &used;
    rest_make(&rest);
    v = one_batch_view(&rest);
    assert_ok(store_blocks_scan(v, 0, &range, block_see, &seen));
    assert_int_equal(seen, 1);
    assert_int_equal(used.damaged, 0);
    store_view_close(v);
    buf_fini(&rest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_only_a_silent_clickhouse_has_is_named_and_left_out),
        cmocka_unit_test(samples_before_the_window_are_those_of_the_local_store),
        cmocka_unit_test(a_reply_that_is_no_answer_opens_no_view),
        cmocka_unit_test(streams_of_a_host_are_added_up),
        cmocka_unit_test(a_list_that_is_too_large_is_asked_for_in_parts),
        cmocka_unit_test(the_next_view_of_a_list_asks_nothing),
        cmocka_unit_test(a_sample_at_no_tick_is_left_out),
        cmocka_unit_test(opening_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
