/* Batches with metrics of both pages, and what the release before, which knows of page 0 only,
 * made of them. Its encoder and decoder wrote two of the fixtures:
 *
 *   batch-before.pb        wire_sample(), as its encoder packed it
 *   batch-pages.pb         both_pages(), as ours packs it
 *   batch-pages-before.pb  what its decoder made of that, packed by its encoder
 *
 * Ours are made by this program with PROCFLEET_MAKE_FIXTURES=1 where they are missing. */
#include "common/wire/wire_batch.h"

#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/common/wire/wire_sample.h"
#include "tests/support/t.h"

#define FIXTURES "tests/common/fixtures/"

#define LOW  (METRIC_BIT(M_CPU_TIME) | METRIC_BIT(M_WORKING_SET_SIZE)) /* what it knows */
#define HIGH (METRIC_BIT(M_TCP_CONNECTS) | METRIC_BIT(M_PRIVATE_WORKING_SET))

static const int64_t cpu[] = {100, 100, 250, 7, 8, 9};
static const int64_t working_set[] = {4096, 8192, 4096, -1, 1, INT64_MAX};
static const int64_t ready[] = {1, 2};
static const int64_t connects[] = {0, 5, INT64_MAX, 3};
static const int64_t private_set[] = {INT64_MIN, 0, 12};

/* The second and third run differ in page 1 only. */
static const struct batch_run runs[] = {
    {.id = {4, 0}, .n_ticks = 3, .mask = LOW | METRIC_BIT(M_TCP_CONNECTS)},
    {.id = {4, 10}, .n_ticks = 1, .fresh = true, .mask = LOW | HIGH},
    {.id = {4, 10}, .first_tick = 1, .n_ticks = 2, .mask = LOW},
    {.id = {9, 1},
     .n_ticks = 2,
     .mask = METRIC_BIT(M_READY_TIME) | METRIC_BIT(M_PRIVATE_WORKING_SET)},
};
static const struct batch_column columns[] = {
    {M_CPU_TIME, 6, cpu},
    {M_WORKING_SET_SIZE, 6, working_set},
    {M_READY_TIME, 2, ready},
    {M_TCP_CONNECTS, 4, connects},
    {M_PRIVATE_WORKING_SET, 3, private_set},
};

static struct batch both_pages(void)
{
    struct batch b = wire_sample();

    b.n_runs = COUNT_OF(runs);
    b.runs = runs;
    b.n_columns = COUNT_OF(columns);
    b.columns = columns;
    return b;
}

static void assert_samples(const struct batch *got, const struct batch *want, metric_mask known)
{
    size_t n = 0;

    assert_int_equal(got->n_ticks, want->n_ticks);
    assert_int_equal(got->n_runs, want->n_runs);
    for (size_t i = 0; i < want->n_runs; i++) {
        assert_true(proc_id_eq(got->runs[i].id, want->runs[i].id));
        assert_int_equal(got->runs[i].n_ticks, want->runs[i].n_ticks);
        assert_int_equal(got->runs[i].fresh, want->runs[i].fresh);
        assert_true(got->runs[i].mask == (want->runs[i].mask & known));
    }
    for (size_t i = 0; i < want->n_columns; i++) {
        const struct batch_column *c = &want->columns[i];

        if (known & METRIC_BIT(c->metric)) {
            assert_in_range(n + 1, 1, got->n_columns);
            assert_int_equal(got->columns[n].metric, c->metric);
            assert_int_equal(got->columns[n].n_values, c->n_values);
            assert_memory_equal(got->columns[n].values, c->values, c->n_values * sizeof *c->values);
            n++;
        }
    }
    assert_int_equal(got->n_columns, n);
    assert_int_equal(got->n_infos, want->n_infos);
    assert_int_equal(got->n_events, want->n_events);
    assert_int_equal(got->n_ledger, want->n_ledger);
}

static uint8_t *message_of(const struct batch *b, size_t *n)
{
    struct buf out;
    uint8_t *raw;

    assert_ok(wire_sample_encode(&out, b));
    raw = wire_sample_unwrap(n, &out);
    buf_fini(&out);
    return raw;
}

static struct batch *decoded(const void *raw, size_t n)
{
    size_t room = ZSTD_compressBound(n);
    uint8_t *frame = malloc(room);
    struct batch *out;

    assert_non_null(frame);
    assert_ok(wire_batch_decode(&out, frame, ZSTD_compress(frame, room, raw, n, 1)));
    free(frame);
    return out;
}

static void assert_fixture(const char *name, const struct batch *b)
{
    uint8_t *p, *raw;
    size_t n, raw_n;

    raw = message_of(b, &raw_n);
    if (getenv("PROCFLEET_MAKE_FIXTURES") && !os_exists(name)) {
        assert_ok(os_write_file(name, raw, raw_n, false));
    }
    assert_ok(os_read_file(&p, &n, name, 1u << 20));
    assert_int_equal(n, raw_n);
    assert_memory_equal(p, raw, n);
    mem_free(p);
    free(raw);
}

static void metrics_of_both_pages_come_back_as_they_were(void **state)
{
    struct batch in = both_pages(), *out;
    size_t n;
    uint8_t *raw = message_of(&in, &n);

    out = decoded(raw, n);
    assert_samples(out, &in, METRIC_ALL);
    wire_batch_free(out);
    free(raw);
}

static void part_of_page_1_is_the_same_as_in_the_whole(void **state)
{
    struct batch in = both_pages(), *out;
    struct buf b;

    assert_ok(wire_sample_encode(&b, &in));
    assert_ok(wire_batch_decode_part(&out, METRIC_BIT(M_PRIVATE_WORKING_SET), b.p, b.n));
    assert_samples(out, &in, METRIC_BIT(M_PRIVATE_WORKING_SET));
    wire_batch_free(out);
    assert_ok(wire_batch_decode_part(&out, HIGH | METRIC_BIT(M_CPU_TIME), b.p, b.n));
    assert_samples(out, &in, HIGH | METRIC_BIT(M_CPU_TIME));
    wire_batch_free(out);
    buf_fini(&b);
}

static void a_message_cut_anywhere_is_refused_or_whole(void **state)
{
    struct batch in = both_pages();
    size_t n;
    uint8_t *raw = message_of(&in, &n);

    for (size_t i = 0; i < n; i++) {
        err_ignore(wire_sample_decode(raw, i)); /* between two members it may be sound */
    }
    assert_ok(wire_sample_decode(raw, n));
    free(raw);
}

static void a_batch_without_page_1_is_as_the_release_before_wrote_it(void **state)
{
    struct batch in = wire_sample(), *out;
    uint8_t *p;
    size_t n;

    assert_fixture(FIXTURES "batch-before.pb", &in);
    assert_ok(os_read_file(&p, &n, FIXTURES "batch-before.pb", 1u << 20));
    out = decoded(p, n);
    assert_samples(out, &in, METRIC_ALL);
    wire_batch_free(out);
    mem_free(p);
}

static void the_release_before_leaves_out_what_it_does_not_know(void **state)
{
    struct batch in = both_pages(), *out;
    uint8_t *p;
    size_t n;

    assert_fixture(FIXTURES "batch-pages.pb", &in);
    assert_ok(os_read_file(&p, &n, FIXTURES "batch-pages-before.pb", 1u << 20));
    out = decoded(p, n);
    assert_samples(out, &in, LOW);
    wire_batch_free(out);
    mem_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_of_both_pages_come_back_as_they_were),
        cmocka_unit_test(part_of_page_1_is_the_same_as_in_the_whole),
        cmocka_unit_test(a_message_cut_anywhere_is_refused_or_whole),
        cmocka_unit_test(a_batch_without_page_1_is_as_the_release_before_wrote_it),
        cmocka_unit_test(the_release_before_leaves_out_what_it_does_not_know),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
