#include "tests/support/fleetgen.h"

#include <string.h>

#include "tests/support/t.h"

static void one_seed_always_gives_the_same_bytes(void **state)
{
    struct fleetgen_conf conf = {.seed = 7, .processes = 20};
    struct fleetgen *a = fleetgen_create(&conf), *b = fleetgen_create(&conf);

    for (int i = 0; i < 5; i++) {
        const struct batch *x = fleetgen_batch(a, 10), *y = fleetgen_batch(b, 10);

        assert_memory_equal(&x->head.host, &y->head.host, sizeof x->head.host);
        assert_int_equal(x->head.seq, i + 1);
        assert_int_equal(x->n_runs, y->n_runs);
        for (size_t k = 0; k < x->n_columns; k++) {
            assert_int_equal(x->columns[k].n_values, y->columns[k].n_values);
            assert_memory_equal(x->columns[k].values, y->columns[k].values,
                                x->columns[k].n_values * sizeof(int64_t));
        }
    }
    fleetgen_destroy(a);
    fleetgen_destroy(b);
}

static void about_64_percent_of_the_values_stay(void **state)
{
    struct fleetgen_conf conf = {.seed = 1};
    struct fleetgen *g = fleetgen_create(&conf);
    uint64_t values, same;

    for (int i = 0; i < 600; i++) {
        fleetgen_tick(g);
    }
    fleetgen_counts(g, &values, &same);
    assert_in_range(same * 1000 / values, 620, 660);
    fleetgen_destroy(g);
}

static void batches_hold_what_ticks_say(void **state)
{
    struct fleetgen_conf conf = {.seed = 3, .processes = 30, .starts_per_hour = 3600};
    struct fleetgen *by_tick = fleetgen_create(&conf), *by_batch = fleetgen_create(&conf);
    const struct batch *b = fleetgen_batch(by_batch, 20);
    size_t rows = 0, run_rows = 0, events = 0;

    for (size_t i = 0; i < 20; i++) {
        const struct sample_tick *t = fleetgen_tick(by_tick);
        size_t n;

        assert_true(t->wall_ns == b->wall_ns[i] && t->mono_ns == b->mono_ns[i]);
        fleetgen_events(by_tick, &n);
        events += n;
        rows += t->n_rows;
    }
    for (size_t i = 0; i < b->n_runs; i++) {
        run_rows += b->runs[i].n_ticks;
    }
    assert_int_equal(rows, run_rows);
    assert_int_equal(events, b->n_events);
    assert_true(events >= 30); /* a start and a stop in each second */
    assert_true(b->n_infos == b->n_runs);
    fleetgen_destroy(by_tick);
    fleetgen_destroy(by_batch);
}

static void batches_are_what_the_wire_takes(void **state)
{
    static const int64_t ticks_ns[] = {10000000, 1000000000, 60000000000};
    struct wire_encoder *enc;
    struct buf out;

    assert_ok(wire_batch_encoder_create(&enc));
    buf_init(&out, WIRE_BATCH_BYTES_MAX);
    for (size_t i = 0; i < COUNT_OF(ticks_ns); i++) {
        struct fleetgen_conf conf = {.seed = i, .tick_ns = ticks_ns[i], .metrics = 3};
        struct fleetgen *g = fleetgen_create(&conf);

        for (int k = 0; k < 10; k++) {
            const struct batch *in = fleetgen_batch(g, 7);
            struct batch *back;

            buf_reset(&out);
            assert_ok(wire_batch_encode(enc, &out, in));
            assert_ok(wire_batch_decode(&back, out.p, out.n));
            assert_int_equal(back->n_runs, in->n_runs);
            assert_int_equal(back->n_columns, 3);
            for (size_t c = 0; c < 3; c++) {
                assert_memory_equal(back->columns[c].values, in->columns[c].values,
                                    in->columns[c].n_values * sizeof(int64_t));
            }
            wire_batch_free(back);
        }
        fleetgen_destroy(g);
    }
    buf_fini(&out);
    wire_batch_encoder_destroy(enc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_seed_always_gives_the_same_bytes),
        cmocka_unit_test(about_64_percent_of_the_values_stay),
        cmocka_unit_test(batches_hold_what_ticks_say),
        cmocka_unit_test(batches_are_what_the_wire_takes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
