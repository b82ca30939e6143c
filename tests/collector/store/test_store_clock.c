#include "collector/store/read/store_read.h"

#include "common/base/clk.h"
#include "tests/support/store_rig.h"
#include "tests/support/t.h"

static struct rig rig;
static struct fleetgen *gen;

static int setup(void **state)
{
    rig_init(&rig);
    gen = rig_host(1);
    return 0;
}

static int teardown(void **state)
{
    fleetgen_destroy(gen);
    rig_fini(&rig);
    return 0;
}

/* Only host of the answers. */
static struct store_host only_host(void)
{
    struct store_view *v;
    struct store_host h;

    assert_ok(store_view_open(&v, rig.store));
    assert_int_equal(store_view_hosts(v), 1);
    h = *store_view_host(v, 0);
    store_view_close(v);
    return h;
}

static void a_hosts_clock_is_kept_with_its_batches(void **state)
{
    struct rig_batch b[3];

    rig_open(&rig);
    for (size_t i = 0; i < 3; i++) {
        rig_batch(&b[i], gen, 10);
        b[i].clock = (struct host_offset){true, i < 2, (int64_t)i * 1000, 5};
    }
    assert_ok(rig_put(&rig, &b[1]));
    assert_ok(rig_put(&rig, &b[0])); /* older: changes nothing */
    for (int i = 0; i < 2; i++) {
        struct store_host h = only_host();

        assert_true(h.clock.known && h.clock.bounded);
        assert_int_equal(h.clock.offset_ns, 1000);
        assert_int_equal(h.clock.error_ns, 5);
        rig_close(&rig);
        rig_open(&rig);
    }
    assert_ok(rig_put(&rig, &b[2]));
    rig_close(&rig);
    rig_open(&rig);
    assert_true(only_host().clock.known);
    assert_false(only_host().clock.bounded);
    assert_int_equal(only_host().clock.offset_ns, 2000);
    for (size_t i = 0; i < 3; i++) {
        rig_batch_fini(&b[i]);
    }
}

static void age_goes_by_the_collectors_clock_where_the_hosts_is_known(void **state)
{
    /* Hours: what the host's clock lacks, and how far after its last stamp the batch arrives. */
    static const struct {
        int64_t behind_h, late_h;
        bool known;
        enum err e;
    } rows[] = {
        {0, 0, false, ERR_OK},
        {0, 2, false, ERR_RANGE},
        {400000, 400000, true, ERR_OK}, /* the host thinks it is 1980 */
        {400000, 400002, true, ERR_RANGE},
        {-24, -24, true, ERR_OK}, /* and tomorrow */
        {0, -24, false, ERR_OK},  /* of the future by no one knows what */
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct rig_batch b;

        rig_open(&rig);
        rig_batch(&b, gen, 10);
        b.clock = (struct host_offset){rows[i].known, false, rows[i].behind_h * 3600 * CLK_S, 0};
        b.received_ns += rows[i].late_h * 3600 * CLK_S;
        assert_err(rig_put(&rig, &b), rows[i].e);
        rig_close(&rig);
        rig_open(&rig); /* as recovery judges it */
        assert_int_equal(rig_count(&rig, &b.head), rows[i].e == ERR_OK);
        rig_close(&rig);
        rig_batch_fini(&b);
        rig_fini(&rig);
        rig_init(&rig);
    }
}

static void stamps_of_the_future_do_not_keep_a_batch(void **state)
{
    struct fleetgen *other = rig_host(2);
    struct rig_batch early, b;

    for (unsigned k = SEG_RAW; k < SEG_KINDS; k++) {
        rig.conf.retain.age_ns[k] = 3600 * CLK_S;
    }
    rig_open(&rig);
    rig_batch(&early, other, 10);
    early.received_ns -= 24 * 3600 * CLK_S; /* came a day before its stamps */
    assert_ok(rig_put(&rig, &early));
    assert_int_equal(rig_count(&rig, &early.head), 1);
    rig_batch(&b, gen, 10);
    assert_ok(rig_put(&rig, &b)); /* a day has gone by, more than is kept */
    assert_ok(store_seal_now(rig.store, INT64_MAX));
    assert_int_equal(rig_count(&rig, &early.head), 0);
    assert_int_equal(rig_count(&rig, &b.head), 1);
    assert_err(rig_put(&rig, &early), ERR_EXISTS);
    rig_batch_fini(&early);
    rig_batch_fini(&b);
    fleetgen_destroy(other);
}

static void the_newest_data_is_what_was_made_last_not_what_is_stamped_latest(void **state)
{
    struct rig_batch jumped, b;

    rig_open(&rig);
    rig_batch(&jumped, gen, 10);
    jumped.received_ns -= 3600 * CLK_S; /* made while the clock was an hour ahead */
    jumped.clock = (struct host_offset){true, true, -3600 * CLK_S, 0};
    rig_batch_as(&b, gen, 10, 5, 1);
    b.clock = (struct host_offset){true, true, 0, 0};
    assert_ok(rig_put(&rig, &b));
    assert_ok(rig_put(&rig, &jumped)); /* out of the spool, later */
    assert_int_equal(only_host().last_ns, b.received_ns - CLK_S);
    assert_int_equal(only_host().clock.offset_ns, 0);
    rig_batch_fini(&jumped);
    rig_batch_fini(&b);
}

static void a_stored_batch_can_be_compared_with_another(void **state)
{
    struct rig_batch b[40], other;

    rig_open(&rig);
    for (size_t i = 0; i < 40; i++) { /* more than one chunk */
        rig_batch_as(&b[i], gen, 1, 5, 1 + i);
        assert_ok(rig_put(&rig, &b[i]));
    }
    rig_batch_as(&other, gen, 1, 5, 7);
    for (int life = 0; life < 2; life++) {
        for (size_t i = 0; i < 40; i++) {
            const struct rig_batch *x = &b[i];

            assert_false(store_differs(rig.store, x->host_name, &x->head, x->bytes, x->n));
            assert_true(store_differs(rig.store, x->host_name, &x->head, x->bytes, x->n - 1));
            assert_int_equal(store_differs(rig.store, x->host_name, &other.head, x->bytes, x->n),
                             i != 6);
            assert_false(store_differs(rig.store, "nobody", &x->head, other.bytes, other.n));
        }
        other.head.seq = 41; /* not stored */
        assert_false(store_differs(rig.store, other.host_name, &other.head, other.bytes, other.n));
        other.head.seq = 7;
        rig_close(&rig);
        rig_open(&rig);
    }
    rig_batch_fini(&other);
    for (size_t i = 0; i < 40; i++) {
        rig_batch_fini(&b[i]);
    }
}

static void the_boot_of_the_newest_data_is_known_also_after_reopening(void **state)
{
    struct fleetgen *others[12];
    struct rig_batch b;
    struct uuid boot;
    int64_t received_ns;

    rig_open(&rig);
    rig_batch(&b, gen, 1);
    assert_false(store_last_boot(rig.store, b.host_name, &b.head.host, &boot, &received_ns));
    for (uint64_t i = 0; i < COUNT_OF(others); i++) { /* found among them by name */
        struct rig_batch x;

        others[i] = rig_host(100 + i);
        rig_batch(&x, others[i], 1);
        assert_ok(rig_put(&rig, &x));
        rig_batch_fini(&x);
    }
    assert_ok(rig_put(&rig, &b));
    for (int life = 0; life < 2; life++) {
        assert_true(store_last_boot(rig.store, b.host_name, &b.head.host, &boot, &received_ns));
        assert_memory_equal(boot.b, b.head.boot.b, sizeof boot.b);
        assert_int_equal(received_ns, b.received_ns);
        rig_close(&rig);
        rig_open(&rig);
    }
    rig_batch_fini(&b);
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        fleetgen_destroy(others[i]);
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_hosts_clock_is_kept_with_its_batches),
        T(age_goes_by_the_collectors_clock_where_the_hosts_is_known),
        T(stamps_of_the_future_do_not_keep_a_batch),
        T(a_stored_batch_can_be_compared_with_another),
        T(the_boot_of_the_newest_data_is_known_also_after_reopening),
        T(the_newest_data_is_what_was_made_last_not_what_is_stamped_latest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
