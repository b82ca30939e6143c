#include "tests/support/t.h"

#include <string.h>

#include "agent/queue.h"
#include "common/clk.h"
#include "common/mem.h"
#include "common/os.h"

static struct queue *queue_of(size_t max_bytes)
{
    struct queue *q;

    assert_ok(queue_create(&q, max_bytes));
    return q;
}

static void put(struct queue *q, uint64_t seq)
{
    assert_ok(queue_put(q, seq, "0123456789", 10, false));
}

static uint64_t first(struct queue *q)
{
    struct queue_item item;

    return queue_peek(q, 0, &item) ? 0 : item.seq;
}

static struct queue_stats stats_of(struct queue *q)
{
    struct queue_stats s;

    queue_stats(q, &s);
    return s;
}

static void batches_leave_in_order_and_only_when_dropped(void **state)
{
    struct queue *q = queue_of(100);
    struct queue_item item;

    (void)state;
    put(q, 1);
    put(q, 2);
    assert_ok(queue_peek(q, 0, &item));
    assert_int_equal(item.seq, 1);
    assert_int_equal(item.n, 10);
    assert_memory_equal(item.p, "0123456789", 10);
    assert_int_equal(first(q), 1);
    queue_drop(q, 1);
    assert_int_equal(first(q), 2);
    queue_drop(q, 2);
    assert_err(queue_peek(q, 0, &item), ERR_TIMEOUT);
    queue_destroy(q);
}

static void dropping_up_to_a_number_takes_all_before_it(void **state)
{
    struct queue *q = queue_of(100);

    (void)state;
    for (uint64_t seq = 1; seq <= 5; seq++) {
        put(q, seq);
    }
    queue_drop(q, 3);
    assert_int_equal(first(q), 4);
    assert_int_equal(stats_of(q).out, 3);
    queue_destroy(q);
}

static void a_full_queue_drops_its_oldest_but_not_the_one_in_hand(void **state)
{
    struct queue *q = queue_of(30);
    struct queue_item item;

    (void)state;
    put(q, 1);
    put(q, 2);
    put(q, 3);
    assert_ok(queue_peek(q, 0, &item));
    put(q, 4);
    assert_memory_equal(item.p, "0123456789", 10);
    assert_int_equal(first(q), 1);
    queue_drop(q, 1);
    assert_int_equal(first(q), 3);
    assert_int_equal(stats_of(q).overflow, 1);
    assert_err(queue_put(q, 5, "0123456789012345678901234567890", 31, true), ERR_FULL);
    queue_destroy(q);
}

static void counts_add_up_at_rest(void **state)
{
    struct queue *q = queue_of(30);

    (void)state;
    for (uint64_t seq = 1; seq <= 10; seq++) {
        put(q, seq);
    }
    queue_drop(q, 8);
    assert_int_equal(stats_of(q).in, stats_of(q).out + stats_of(q).overflow + stats_of(q).held);
    queue_destroy(q);
}

static void a_closed_queue_drains_and_then_ends(void **state)
{
    struct queue *q = queue_of(30);
    struct queue_item item;

    (void)state;
    put(q, 1);
    queue_close(q);
    assert_err(queue_put(q, 2, "x", 1, true), ERR_CLOSED);
    assert_int_equal(first(q), 1);
    queue_drop(q, 1);
    assert_err(queue_peek(q, INT64_MAX, &item), ERR_END);
    queue_destroy(q);
}

struct reader {
    struct queue *q;
    uint64_t seen;
};

static void read_all(void *arg)
{
    struct reader *r = arg;
    struct queue_item item;

    while (queue_peek(r->q, os_mono_ns() + 10 * CLK_S, &item) == ERR_OK) {
        if (item.seq != r->seen + 1) {
            return;
        }
        r->seen = item.seq;
        queue_drop(r->q, item.seq);
    }
}

static void a_waiting_writer_loses_nothing(void **state)
{
    struct reader r = {.q = queue_of(100)};
    struct os_thread *t;

    (void)state;
    assert_ok(os_thread_start(&t, "reader", read_all, &r));
    for (uint64_t seq = 1; seq <= 2000; seq++) {
        assert_ok(queue_put(r.q, seq, "0123456789", 10, true));
    }
    queue_close(r.q);
    os_thread_join(t);
    assert_int_equal(r.seen, 2000);
    assert_int_equal(stats_of(r.q).overflow, 0);
    queue_destroy(r.q);
}

static void close_later(void *arg)
{
    queue_close(arg);
}

static void closing_frees_a_waiting_writer(void **state)
{
    struct queue *q = queue_of(10);
    struct os_thread *t;

    (void)state;
    put(q, 1);
    assert_ok(os_thread_start(&t, "closer", close_later, q));
    assert_err(queue_put(q, 2, "0123456789", 10, true), ERR_CLOSED);
    os_thread_join(t);
    queue_destroy(q);
}

static void waking_ends_a_peek(void **state)
{
    struct queue *q = queue_of(10);
    struct queue_item item;

    (void)state;
    queue_wake(q);
    assert_err(queue_peek(q, INT64_MAX, &item), ERR_TIMEOUT);
    queue_destroy(q);
}

static void creation_and_putting_survive_every_failing_allocation(void **state)
{
    struct queue *q = NULL;
    long before = mem_live(), n = 0;

    (void)state;
    for (mem_fail_after(n); queue_create(&q, 10); mem_fail_after(++n)) {
        assert_int_equal(mem_live(), before);
    }
    mem_fail_after(0);
    assert_err(queue_put(q, 1, "x", 1, false), ERR_NOMEM);
    mem_fail_after(-1);
    assert_true(n >= 1);
    assert_int_equal(stats_of(q).refused, 1);
    queue_destroy(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_leave_in_order_and_only_when_dropped),
        cmocka_unit_test(dropping_up_to_a_number_takes_all_before_it),
        cmocka_unit_test(a_full_queue_drops_its_oldest_but_not_the_one_in_hand),
        cmocka_unit_test(counts_add_up_at_rest),
        cmocka_unit_test(a_closed_queue_drains_and_then_ends),
        cmocka_unit_test(a_waiting_writer_loses_nothing),
        cmocka_unit_test(closing_frees_a_waiting_writer),
        cmocka_unit_test(waking_ends_a_peek),
        cmocka_unit_test(creation_and_putting_survive_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
