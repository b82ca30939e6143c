#include "agent/spool/spool_batch.h"

#include "common/base/mem.h"
#include "tests/agent/spool/spool_rig.h"

struct bench {
    struct wire_encoder *enc;
    struct buf in, out;
};

static int setup(void **state)
{
    struct bench *t = mem_zalloc(sizeof *t);

    assert_non_null(t);
    assert_ok(wire_batch_encoder_create(&t->enc));
    buf_init(&t->in, SPOOL_BATCH_MAX);
    buf_init(&t->out, SPOOL_BATCH_MAX);
    rig_batch(&t->in, 5, 6);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct bench *t = *state;

    wire_batch_encoder_destroy(t->enc);
    buf_fini(&t->in);
    buf_fini(&t->out);
    mem_free(t);
    return 0;
}

static void without_samples_events_stay_and_the_loss_is_told(void **state)
{
    struct bench *t = *state;
    struct spool_loss loss = {0};
    struct batch *b;

    assert_ok(spool_batch_reduce(t->enc, &t->out, &loss, t->in.p, t->in.n, SPOOL_EVENTS));
    assert_ok(wire_batch_decode(&b, t->out.p, t->out.n));
    assert_int_equal(b->head.stream, 5);
    assert_int_equal(b->head.seq, 6);
    assert_int_equal(b->n_ticks, 0);
    assert_int_equal(b->n_runs, 0);
    assert_int_equal(b->n_events, RIG_EVENTS);
    assert_int_equal(b->n_ledger, 3); /* its own row is still there */
    assert_int_equal(rig_told(b, "ticks_dropped"), RIG_TICKS);
    assert_int_equal(rig_told(b, "metrics_dropped"), RIG_ROWS);
    assert_int_equal(loss.rows, RIG_ROWS);
    assert_int_equal(loss.events, 0);
    wire_batch_free(b);
}

static void losses_of_both_steps_add_up(void **state)
{
    struct bench *t = *state;
    struct spool_loss loss = {0};
    struct batch *b;

    assert_ok(spool_batch_reduce(t->enc, &t->out, &loss, t->in.p, t->in.n, SPOOL_EVENTS));
    assert_ok(spool_batch_reduce(t->enc, &t->in, &loss, t->out.p, t->out.n, SPOOL_LEDGER));
    assert_ok(wire_batch_decode(&b, t->in.p, t->in.n));
    assert_int_equal(b->n_events, 0);
    assert_int_equal(rig_told(b, "metrics_dropped"), RIG_ROWS);
    assert_int_equal(rig_told(b, "events_dropped"), RIG_EVENTS);
    assert_int_equal(loss.rows, RIG_ROWS);
    assert_int_equal(loss.events, RIG_EVENTS);
    wire_batch_free(b);
}

static void a_batch_without_events_keeps_its_last_tick(void **state)
{
    struct bench *t = *state;
    struct spool_loss loss = {0};
    struct batch *b;

    assert_ok(spool_batch_reduce(t->enc, &t->out, &loss, t->in.p, t->in.n, SPOOL_LEDGER));
    assert_ok(wire_batch_decode(&b, t->out.p, t->out.n));
    assert_int_equal(b->n_ticks, 1);
    assert_int_equal(b->wall_ns[0], 1700000603000000000);
    assert_int_equal(b->n_events, 0);
    wire_batch_free(b);
}

static void another_number_changes_nothing_else(void **state)
{
    struct bench *t = *state;
    struct batch *b;

    assert_ok(spool_batch_renumber(t->enc, &t->out, t->in.p, t->in.n, 8, 9));
    assert_ok(wire_batch_decode(&b, t->out.p, t->out.n));
    assert_int_equal(b->head.stream, 8);
    assert_int_equal(b->head.seq, 9);
    assert_int_equal(b->n_events, RIG_EVENTS);
    assert_int_equal(b->n_runs, RIG_RUNS);
    assert_int_equal(b->n_columns, 1);
    assert_int_equal(b->columns[0].n_values, RIG_ROWS);
    wire_batch_free(b);
}

static void what_is_no_batch_is_refused_and_counted_as_one(void **state)
{
    struct bench *t = *state;
    struct spool_loss loss = {0};

    for (size_t n = 0; n < t->in.n; n++) {
        assert_true(spool_batch_reduce(t->enc, &t->out, &loss, t->in.p, n, SPOOL_EVENTS));
        assert_true(spool_batch_renumber(t->enc, &t->out, t->in.p, n, 1, 2));
    }
    assert_int_equal(loss.rows, 0);
    spool_batch_count(&loss, "x", 1);
    assert_int_equal(loss.batches, 1);
    assert_int_equal(loss.rows, 0);
    spool_batch_count(&loss, t->in.p, t->in.n);
    assert_int_equal(loss.batches, 2);
    assert_int_equal(loss.rows, RIG_ROWS);
    assert_int_equal(loss.events, RIG_EVENTS);
}

static void without_memory_nothing_is_lost(void **state)
{
    struct bench *t = *state;
    struct spool_loss loss = {0};
    enum err e = ERR_NOMEM;

    for (long n = 0; e; n++) {
        mem_fail_after(n);
        e = spool_batch_reduce(t->enc, &t->out, &loss, t->in.p, t->in.n, SPOOL_EVENTS);
        assert_true(e == ERR_OK || loss.rows == 0);
        assert_true(n < 1000);
    }
    mem_fail_after(-1);
    assert_int_equal(loss.rows, RIG_ROWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(without_samples_events_stay_and_the_loss_is_told), T(losses_of_both_steps_add_up),
        T(a_batch_without_events_keeps_its_last_tick),       T(another_number_changes_nothing_else),
        T(what_is_no_batch_is_refused_and_counted_as_one),   T(without_memory_nothing_is_lost),
#undef T
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
