#include "collector/store/dedup.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/model/ledger.h"
#include "tests/support/t.h"

static const struct uuid host_a = {{1}}, host_b = {{2}}, host_c = {{3}};

static struct dedup *set_with(const struct uuid *host, uint64_t stream)
{
    struct dedup *s;

    assert_ok(dedup_create(&s, 2, 100));
    assert_ok(dedup_open(s, host, stream, 0));
    return s;
}

static void add(struct dedup *s, uint64_t first, uint64_t last)
{
    struct seq_range r = {first, last};

    assert_ok(dedup_add(s, &host_a, 7, r));
}

static uint64_t gaps(struct dedup *s)
{
    struct dedup_counts *c = dedup_counts_ref(s, &host_a);
    uint64_t n = atomic_load(&c->gaps);

    dedup_counts_unref(c);
    return n;
}

static void numbers_are_known_after_they_were_added(void **state)
{
    static const struct {
        struct seq_range add;
        uint64_t last, gaps;
    } rows[] = {
        {{3, 3}, 0, 2},           {{1, 1}, 1, 1},   {{2, 2}, 3, 0},
        {{2, 3}, 3, 0},           {{10, 12}, 3, 6}, {{UINT64_MAX, UINT64_MAX}, 3, LEDGER_MAX},
        {{4, 9}, 12, LEDGER_MAX},
    };
    struct dedup *s = set_with(&host_a, 7);

    assert_false(dedup_has(s, &host_a, 7, 1));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        add(s, rows[i].add.first, rows[i].add.last);
        assert_true(dedup_has(s, &host_a, 7, rows[i].add.first));
        assert_true(dedup_has(s, &host_a, 7, rows[i].add.last));
        assert_true(dedup_last(s, &host_a, 7) == rows[i].last);
        assert_true(gaps(s) == rows[i].gaps);
    }
    assert_false(dedup_has(s, &host_a, 7, 13));
    assert_false(dedup_has(s, &host_a, 8, 1)); /* another stream */
    assert_false(dedup_has(s, &host_b, 7, 1)); /* another host */
    dedup_destroy(s);
}

static void a_stream_must_be_opened(void **state)
{
    struct dedup *s = set_with(&host_a, 7);
    struct seq_range r = {1, 1};

    assert_err(dedup_add(s, &host_a, 8, r), ERR_NOTFOUND);
    assert_err(dedup_add(s, &host_b, 7, r), ERR_NOTFOUND);
    assert_null(dedup_counts_ref(s, &host_b));
    dedup_destroy(s);
}

/* Against a plain array of booleans: as long as no hole was closed, both agree on everything; a
 * number that was added is never forgotten in any case. */
static void ranges_agree_with_a_plain_table(void **state)
{
    enum { N = 600 };
    uint64_t rng = 12345;

    for (int round = 0; round < 200; round++) {
        struct dedup *s = set_with(&host_a, 7);
        bool known[N + 1] = {false};
        unsigned spread = 1 + (unsigned)round % 8;

        for (unsigned i = 0; i < 300; i++) {
            struct seq_range r;

            rng = rng * 6364136223846793005u + 1442695040888963407u;
            r.first = 1 + (rng >> 33) % (N - 8);
            r.last = r.first + (rng >> 20) % spread;
            add(s, r.first, r.last);
            memset(known + r.first, true, (size_t)(r.last - r.first + 1));
        }
        for (uint64_t k = 1; k <= N; k++) {
            if (known[k] || dedup_closed(s) == 0) {
                assert_int_equal(dedup_has(s, &host_a, 7, k), known[k]);
            }
        }
        dedup_destroy(s);
    }
}

static void too_many_holes_close_the_lowest_and_count(void **state)
{
    struct dedup *s = set_with(&host_a, 7);

    for (uint64_t i = 0; i < DEDUP_RANGES_MAX; i++) {
        add(s, 1 + 10 * i, 1 + 10 * i);
    }
    assert_int_equal(dedup_closed(s), 0);
    assert_false(dedup_has(s, &host_a, 7, 5));
    add(s, 5000, 5000);
    assert_int_equal(dedup_closed(s), 9);
    assert_true(dedup_has(s, &host_a, 7, 5)); /* given up */
    assert_false(dedup_has(s, &host_a, 7, 15));
    assert_true(dedup_has(s, &host_a, 7, 5000));
    assert_int_equal(dedup_last(s, &host_a, 7), 11);
    /* what never arrived stays a gap: 5000 numbers, all but the 65 added */
    assert_int_equal(gaps(s), 5000 - DEDUP_RANGES_MAX - 1);
    dedup_destroy(s);
}

static void the_stream_used_longest_ago_gives_place(void **state)
{
    struct dedup *s = set_with(&host_a, 7);

    add(s, 1, 5);
    for (uint64_t i = 1; i < DEDUP_STREAMS_MAX; i++) {
        assert_ok(dedup_open(s, &host_a, 100 + i, (int64_t)i));
    }
    assert_true(dedup_has(s, &host_a, 7, 5));
    assert_ok(dedup_open(s, &host_a, 7, 1000)); /* used again: the next in age goes */
    assert_ok(dedup_open(s, &host_a, 900, 1001));
    assert_int_equal(dedup_forgotten(s), 1);
    assert_true(dedup_has(s, &host_a, 7, 5));
    dedup_destroy(s);
}

static void a_host_gives_place_only_after_its_time(void **state)
{
    struct dedup *s = set_with(&host_a, 7);

    assert_ok(dedup_open(s, &host_b, 7, 50));
    assert_err(dedup_open(s, &host_c, 7, 100), ERR_FULL);
    assert_ok(dedup_open(s, &host_c, 7, 101));
    assert_null(dedup_counts_ref(s, &host_a));
    dedup_destroy(s);
}

static void counts_outlive_the_set(void **state)
{
    struct dedup *s = set_with(&host_a, 7);
    struct dedup_counts *c;

    add(s, 3, 3);
    c = dedup_counts_ref(s, &host_a);
    dedup_destroy(s);
    assert_int_equal(atomic_load(&c->gaps), 2);
    dedup_counts_unref(c);
}

static void gaps_of_many_streams_do_not_wrap(void **state)
{
    struct dedup *s = set_with(&host_a, 7);
    struct dedup_counts *c = dedup_counts_ref(s, &host_a);

    add(s, UINT64_MAX, UINT64_MAX);
    assert_ok(dedup_open(s, &host_a, 8, 1));
    assert_ok(dedup_add(s, &host_a, 8, (struct seq_range){4, 4}));
    assert_true(atomic_load(&c->gaps) == LEDGER_MAX);
    dedup_counts_unref(c);
    dedup_destroy(s);
}

/* -- checkpoints -- */

static enum err copy_into(void *ctx, const struct dedup_stream *st)
{
    struct dedup *to = ctx;
    struct seq_range ranges[DEDUP_RANGES_MAX];
    size_t n = 0;
    struct buf b;

    buf_init(&b, DEDUP_RANGES_MAX * 16);
    dedup_encode(&b, st->ranges, st->n_ranges);
    assert_ok(b.bad);
    assert_ok(dedup_decode(ranges, &n, b.p, b.n));
    assert_int_equal(n, st->n_ranges);
    buf_fini(&b);
    assert_ok(dedup_open(to, &st->host, st->stream, st->used_ns));
    for (size_t i = 0; i < n; i++) {
        assert_ok(dedup_add(to, &st->host, st->stream, ranges[i]));
    }
    return ERR_OK;
}

static void a_checkpoint_carries_every_number(void **state)
{
    struct dedup *s = set_with(&host_a, 7), *copy;
    struct seq_range other = {4, 6};

    for (uint64_t i = 0; i < DEDUP_RANGES_MAX; i++) {
        add(s, 2 + 3 * i, 3 + 3 * i);
    }
    assert_ok(dedup_open(s, &host_b, 9, 60));
    assert_ok(dedup_add(s, &host_b, 9, other));
    assert_ok(dedup_create(&copy, 2, 100));
    assert_ok(dedup_each(s, copy_into, copy));
    for (uint64_t k = 1; k < 3 * DEDUP_RANGES_MAX + 5; k++) {
        assert_int_equal(dedup_has(copy, &host_a, 7, k), dedup_has(s, &host_a, 7, k));
        assert_int_equal(dedup_has(copy, &host_b, 9, k), k >= 4 && k <= 6);
    }
    dedup_destroy(s);
    dedup_destroy(copy);
}

static void ranges_that_are_none_are_refused(void **state)
{
    static const struct {
        struct seq_range r[3];
        size_t n;
        enum err e;
    } rows[] = {
        {{{1, 1}}, 1, ERR_OK},
        {{{1, 5}, {7, 9}, {11, UINT64_MAX}}, 3, ERR_OK},
        {{{0, 5}}, 1, ERR_CORRUPT},
        {{{5, 4}}, 1, ERR_CORRUPT},
        {{{1, 5}, {5, 9}}, 2, ERR_CORRUPT}, /* overlapping */
        {{{1, 5}, {6, 9}}, 2, ERR_CORRUPT}, /* touching */
        {{{7, 9}, {1, 5}}, 2, ERR_CORRUPT}, /* falling */
        {{{1, UINT64_MAX}, {1, 2}}, 2, ERR_CORRUPT},
    };
    struct seq_range out[DEDUP_RANGES_MAX];
    static const uint8_t many[(DEDUP_RANGES_MAX + 1) * 16];
    struct buf b;
    size_t n;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        buf_init(&b, 1024);
        dedup_encode(&b, rows[i].r, rows[i].n);
        assert_err(dedup_decode(out, &n, b.p, b.n), rows[i].e);
        for (size_t k = 0; k < b.n; k++) { /* a whole number of ranges may be a list again */
            if (k % 16 != 0 || k == 0) {
                assert_err(dedup_decode(out, &n, b.p, k), ERR_CORRUPT);
            }
        }
        buf_fini(&b);
    }
    assert_err(dedup_decode(out, &n, many, sizeof many), ERR_CORRUPT);
}

static void opening_streams_survives_every_allocation_failing(void **state)
{
    long held = mem_live();

    for (long n = 0;; n++) {
        struct dedup *s = NULL;
        enum err e;

        mem_fail_after(n);
        e = dedup_create(&s, 2, 100);
        if (!e) {
            e = dedup_open(s, &host_a, 7, 0);
        }
        mem_fail_after(-1);
        dedup_destroy(s);
        assert_int_equal(mem_live(), held);
        if (e == ERR_OK) {
            assert_true(n >= 4);
            break;
        }
        assert_err(e, ERR_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_known_after_they_were_added),
        cmocka_unit_test(a_stream_must_be_opened),
        cmocka_unit_test(ranges_agree_with_a_plain_table),
        cmocka_unit_test(too_many_holes_close_the_lowest_and_count),
        cmocka_unit_test(the_stream_used_longest_ago_gives_place),
        cmocka_unit_test(a_host_gives_place_only_after_its_time),
        cmocka_unit_test(counts_outlive_the_set),
        cmocka_unit_test(gaps_of_many_streams_do_not_wrap),
        cmocka_unit_test(a_checkpoint_carries_every_number),
        cmocka_unit_test(ranges_that_are_none_are_refused),
        cmocka_unit_test(opening_streams_survives_every_allocation_failing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
