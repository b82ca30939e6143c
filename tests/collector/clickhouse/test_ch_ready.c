/* What the ledger's answer is taken for, whoever made it. The statement itself: e2e_clickhouse. */
#include "collector/clickhouse/ch_ready.h"

#include <string.h>

#include "tests/support/t.h"

struct got {
    uint64_t first[8], last[8];
    size_t n;
};

static enum err add(void *ctx, const struct uuid *host, uint64_t stream, uint64_t first,
                    uint64_t last)
{
    struct got *g = ctx;

    assert_true(host->b[0] == 1 && stream == 7);
    assert_true(first >= 1 && first <= last);
    g->first[g->n] = first;
    g->last[g->n++] = last;
    return ERR_OK;
}

static void put_array(struct buf *b, const char *name, const uint64_t *v, size_t n)
{
    buf_put_varint(b, strlen(name));
    buf_put_str(b, name);
    buf_put_varint(b, strlen("Array(UInt64)"));
    buf_put_str(b, "Array(UInt64)");
    buf_put_u64le(b, n);
    for (size_t i = 0; i < n; i++) {
        buf_put_u64le(b, v[i]);
    }
}

static enum err read(struct got *g, const uint64_t *first, size_t n, const uint64_t *last,
                     size_t n_last)
{
    const struct ch_ready_ledger l = {.collector = "a", .add = add, .ctx = g};
    static const uint8_t host[16] = {0, 0, 0, 0, 0, 0, 0, 1}; /* two words, little endian */
    struct buf b;
    enum err e;

    g->n = 0;
    buf_init(&b, 1u << 20);
    buf_put_varint(&b, 4);
    buf_put_varint(&b, 1);
    buf_put_varint(&b, 7);
    buf_put_str(&b, "host_id");
    buf_put_varint(&b, 4);
    buf_put_str(&b, "UUID");
    buf_put(&b, host, sizeof host);
    buf_put_varint(&b, 6);
    buf_put_str(&b, "stream");
    buf_put_varint(&b, 6);
    buf_put_str(&b, "UInt64");
    buf_put_u64le(&b, 7);
    put_array(&b, "firsts", first, n);
    put_array(&b, "lasts", last, n_last);
    e = ch_ready_ledger_read(&l, b.p, b.n);
    buf_fini(&b);
    return e;
}

static void runs_are_added_and_no_answer_is_more_than_numbers(void **state)
{
    static const uint64_t first[] = {1, 9, 20}, last[] = {7, 9, UINT64_MAX};
    static const uint64_t top_down[] = {UINT64_MAX, 0, 5}, below[] = {0, 0, 4};
    struct got g;

    assert_ok(read(&g, first, 3, last, 3));
    assert_int_equal(g.n, 3);
    assert_memory_equal(g.first, first, sizeof first);
    assert_memory_equal(g.last, last, sizeof last);
    assert_ok(read(&g, top_down, 3, below, 3)); /* from ∞ to 0, 0 alone, 5 to 4: nothing */
    assert_int_equal(g.n, 0);
    assert_ok(read(&g, top_down, 1, top_down, 1));
    assert_true(g.n == 1 && g.first[0] == UINT64_MAX && g.last[0] == UINT64_MAX);
    assert_int_equal(read(&g, first, 3, last, 2), ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_added_and_no_answer_is_more_than_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
