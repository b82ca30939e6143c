#include "tests/support/t.h"

#include <string.h>

#include "agent/spool/queue.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

static struct outbox box; /* of the queue under test */

static struct queue *queue_of(size_t max_bytes)
{
    struct queue *q;

    assert_ok(queue_create(&q, max_bytes));
    box = queue_outbox(q, 7);
    return q;
}

static void put(struct queue *q, uint64_t seq)
{
    assert_ok(queue_put(q, seq, "0123456789", 10, false));
}

static uint64_t take(void)
{
    struct outbox_item item;

    return box.take(box.ctx, &item) ? 0 : item.seq;
}

static void ack(uint64_t seq)
{
    box.ack(box.ctx, &(struct outbox_item){.stream = 7, .seq = seq});
}

static struct queue_stats stats_of(struct queue *q)
{
    struct queue_stats s;

    queue_stats(q, &s);
    return s;
}

static void batches_leave_in_order_and_each_is_in_flight_once(void **state)
{
    struct queue *q = queue_of(100);
    struct outbox_item item;

    put(q, 1);
    put(q, 2);
    assert_ok(box.take(box.ctx, &item));
    assert_int_equal(item.seq, 1);
    assert_int_equal(item.n, 10);
    assert_memory_equal(item.p, "0123456789", 10);
    assert_int_equal(take(), 2);
    assert_err(box.take(box.ctx, &item), ERR_TIMEOUT);
    ack(2); /* in any order */
    ack(2); /* and once */
    assert_int_equal(stats_of(q).held, 1);
    ack(1);
    assert_int_equal(stats_of(q).held, 0);
    assert_int_equal(stats_of(q).out, 2);
    queue_destroy(q);
}

static void what_is_stored_goes_up_to_its_number_but_for_what_is_in_flight(void **state)
{
    struct queue *q = queue_of(100);

    for (uint64_t seq = 1; seq <= 5; seq++) {
        put(q, seq);
    }
    assert_int_equal(take(), 1);
    assert_int_equal(box.ack_upto(box.ctx, 7, 3), 2);
    assert_int_equal(take(), 4);
    ack(1);
    assert_int_equal(stats_of(q).out, 3);
    queue_destroy(q);
}

static void hands_have_a_limit(void **state)
{
    struct queue *q = queue_of(1000);
    struct outbox_item item;

    for (uint64_t seq = 1; seq <= OUTBOX_INFLIGHT_MAX + 1; seq++) {
        put(q, seq);
    }
    for (uint64_t seq = 1; seq <= OUTBOX_INFLIGHT_MAX; seq++) {
        assert_int_equal(take(), seq);
    }
    assert_err(box.take(box.ctx, &item), ERR_FULL);
    ack(3);
    assert_int_equal(take(), OUTBOX_INFLIGHT_MAX + 1);
    queue_destroy(q);
}

static void a_full_queue_drops_its_oldest_but_not_those_in_flight(void **state)
{
    struct queue *q = queue_of(30);
    struct outbox_item item;

    put(q, 1);
    put(q, 2);
    put(q, 3);
    assert_ok(box.take(box.ctx, &item));
    put(q, 4);
    assert_memory_equal(item.p, "0123456789", 10);
    assert_int_equal(take(), 3);
    ack(1);
    assert_int_equal(take(), 4);
    assert_int_equal(stats_of(q).overflow, 1);
    assert_err(queue_put(q, 5, "0123456789012345678901234567890", 31, true), ERR_FULL);
    queue_destroy(q);
}

static void counts_add_up_at_rest(void **state)
{
    struct queue *q = queue_of(30);

    for (uint64_t seq = 1; seq <= 10; seq++) {
        put(q, seq);
    }
    box.ack_upto(box.ctx, 7, 9);
    assert_int_equal(stats_of(q).in, stats_of(q).out + stats_of(q).overflow + stats_of(q).held);
    queue_destroy(q);
}

static void a_closed_queue_drains_and_then_ends(void **state)
{
    struct queue *q = queue_of(30);
    struct outbox_item item;

    put(q, 1);
    queue_close(q);
    assert_err(queue_put(q, 2, "x", 1, true), ERR_CLOSED);
    assert_int_equal(take(), 1);
    assert_err(box.take(box.ctx, &item), ERR_TIMEOUT); /* it may have to be sent again */
    ack(1);
    assert_err(box.take(box.ctx, &item), ERR_END);
    queue_destroy(q);
}

struct reader {
    struct queue *q;
    uint64_t seen;
};

static void read_all(void *arg)
{
    struct reader *r = arg;
    struct outbox_item item;

    enum err e;

    while ((e = box.take(box.ctx, &item)) != ERR_END) {
        if (e == ERR_TIMEOUT) {
            box.wait(box.ctx, os_mono_ns() + 10 * CLK_S);
            continue;
        }
        if (e || item.seq != r->seen + 1) {
            return;
        }
        r->seen = item.seq;
        ack(item.seq);
    }
}

static void a_waiting_writer_loses_nothing(void **state)
{
    struct reader r = {.q = queue_of(100)};
    struct os_thread *t;

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

    put(q, 1);
    assert_ok(os_thread_start(&t, "closer", close_later, q));
    assert_err(queue_put(q, 2, "0123456789", 10, true), ERR_CLOSED);
    os_thread_join(t);
    queue_destroy(q);
}

static void waiting_ends_with_news_a_wake_or_its_moment(void **state)
{
    struct queue *q = queue_of(10);

    box.wake(box.ctx);
    box.wait(box.ctx, INT64_MAX);
    put(q, 1);
    box.wait(box.ctx, INT64_MAX);
    box.wait(box.ctx, os_mono_ns() + CLK_MS);
    queue_close(q);
    box.wait(box.ctx, INT64_MAX);
    queue_destroy(q);
}

static void creation_and_putting_survive_every_failing_allocation(void **state)
{
    struct queue *q = NULL;
    long before = mem_live(), n = 0;

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
        cmocka_unit_test(batches_leave_in_order_and_each_is_in_flight_once),
        cmocka_unit_test(what_is_stored_goes_up_to_its_number_but_for_what_is_in_flight),
        cmocka_unit_test(hands_have_a_limit),
        cmocka_unit_test(a_full_queue_drops_its_oldest_but_not_those_in_flight),
        cmocka_unit_test(counts_add_up_at_rest),
        cmocka_unit_test(a_closed_queue_drains_and_then_ends),
        cmocka_unit_test(a_waiting_writer_loses_nothing),
        cmocka_unit_test(closing_frees_a_waiting_writer),
        cmocka_unit_test(waiting_ends_with_news_a_wake_or_its_moment),
        cmocka_unit_test(creation_and_putting_survive_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
