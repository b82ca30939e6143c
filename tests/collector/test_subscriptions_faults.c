/* What is kept of subscriptions, when files are damaged, the power fails, disk or memory is full.
 */
#include "collector/subscribe/subscriptions.h"

#include "collector/subscribe/feed_filter.h"
#include "collector/subscribe/subscriptions_file.h"
#include "common/base/mem.h"
#include "common/os/fio.h"
#include "common/os/os.h"
#include "tests/collector/feed_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/t.h"

static struct feed_rig rig;

static void states_come_back_as_they_were(void **state)
{
    const struct subscriptions_state in = {
        .number = UINT64_MAX,
        .name = "n",
        .owner = "ann",
        .scope = "web-*",
        .filter = {.n_hosts = 2,
                   .hosts = {str_make("a*"), str_make("")},
                   .program = str_make("*.exe"),
                   .kinds = 6,
                   .no_events = true,
                   .samples = true,
                   .n_metrics = 2,
                   .metrics = {M_CPU_TIME, 255},
                   .min_interval_ns = 5},
        .created_ns = INT64_MIN,
        .polled_ns = 2,
        .at = {3, 4, 5},
        .floor = 6,
        .lost = 7,
        .lost_end = 10,
        .dropped = 8,
        .delivered = 9,
    };
    struct subscriptions_state out;
    struct buf b, again;

    (void)state;
    buf_init(&b, SUBSCRIPTIONS_FILE_MAX);
    buf_init(&again, SUBSCRIPTIONS_FILE_MAX);
    subscriptions_state_encode(&b, &in);
    assert_ok(subscriptions_state_decode(&out, b.p, b.n));
    assert_true(feed_filter_same(&in.filter, &out.filter));
    subscriptions_state_encode(&again, &out);
    assert_int_equal(b.n, again.n);
    assert_memory_equal(b.p, again.p, b.n);
    subscriptions_state_fini(&out);
    for (size_t n = 0; n < b.n; n++) {
        assert_err(subscriptions_state_decode(&out, b.p, n), ERR_CORRUPT);
    }
    buf_fini(&b);
    buf_fini(&again);
}

static void damaged_files_are_put_aside(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a");
    char *path = fio_name_path(rig.dir, "sub-", 1, ".state");
    uint8_t *p;
    size_t n;

    (void)state;
    assert_err(feed_rig_poll(&rig, &c, true), ERR_END);
    feed_rig_close(&rig);
    assert_ok(os_read_file(&p, &n, path, 1 << 20));
    p[n / 2] ^= 1;
    assert_ok(os_write_file(path, p, n, false));
    mem_free(p);
    feed_rig_open(&rig);
    assert_false(os_exists(path));
    assert_err(subscriptions_remove(rig.roster, "ann", "a"), ERR_NOTFOUND);
    assert_err(feed_rig_poll(&rig, &c, true), ERR_END);
    mem_free(path);
}

/* Polls until the power fails at the k-th operation; then what was acknowledged is so, and what was
 * not comes again: together each event once. False: it did not fail any more. */
static bool cut_power_at(long k, enum fio_fault_keep keep)
{
    struct feed_rig_client c = feed_rig_subscriber("a");
    struct fio_fault *faults;
    struct feed_rig r;
    uint32_t next = 1;
    enum err e = ERR_OK;

    assert_ok(fio_fault_create(&faults));
    feed_rig_init(&r, fio_fault_fio(faults));
    feed_rig_events(&r, "web-1", 1, 12, "x");
    fio_fault_fail(faults, FIO_ALL & ~(unsigned)(FIO_READ | FIO_OPEN), k, ERR_IO, true);
    c.max = 2;
    while ((e = feed_rig_poll(&r, &c, true)) == ERR_OK) {
        feed_rig_assert_pids(&c, c.n, next);
        next += (uint32_t)c.n;
    }
    fio_fault_power_cut(faults, keep, (uint64_t)k);
    feed_rig_close(&r);
    fio_fault_destroy(faults);

    r.fio = fio_unsynced();
    feed_rig_open(&r);
    if (e != ERR_END) { /* the subscriber goes on from where it was */
        while (feed_rig_poll(&r, &c, true) == ERR_OK) {
            assert_int_equal(c.dropped_now, 0);
            feed_rig_assert_pids(&c, c.n, next);
            next += (uint32_t)c.n;
        }
    }
    assert_int_equal(next, 13);
    feed_rig_fini(&r);
    return e != ERR_END;
}

static void a_power_cut_at_any_moment_loses_and_repeats_nothing(void **state)
{
    (void)state;
    for (unsigned keep = FIO_KEEP_NOTHING; keep <= FIO_KEEP_SECTORS; keep++) {
        long k = 0;

        while (cut_power_at(k, (enum fio_fault_keep)keep)) {
            k++;
        }
        assert_true(k > 20);
    }
}

/* Without a cursor of its own the subscriber relies on the collector's: nothing is lost. */
static void an_acknowledgement_is_durable_before_the_reply(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a"), blank = feed_rig_subscriber("a");
    struct fio_fault *faults;
    struct feed_rig r;

    (void)state;
    assert_ok(fio_fault_create(&faults));
    feed_rig_init(&r, fio_fault_fio(faults));
    feed_rig_events(&r, "web-1", 1, 4, "x");
    c.max = blank.max = 2;
    assert_ok(feed_rig_poll(&r, &c, true));
    assert_ok(feed_rig_poll(&r, &c, true)); /* acknowledges 1 and 2 */
    fio_fault_power_cut(faults, FIO_KEEP_NOTHING, 1);
    feed_rig_close(&r);
    fio_fault_destroy(faults);
    r.fio = fio_unsynced();
    feed_rig_open(&r);
    assert_ok(feed_rig_poll(&r, &blank, true));
    feed_rig_assert_pids(&blank, 2, 3);
    feed_rig_fini(&r);
}

static void a_full_disk_refuses_and_changes_nothing(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a");
    struct fio_fault *faults;
    struct feed_rig r;

    (void)state;
    assert_ok(fio_fault_create(&faults));
    feed_rig_init(&r, fio_fault_fio(faults));
    feed_rig_events(&r, "web-1", 1, 4, "x");
    c.max = 2;
    assert_ok(feed_rig_poll(&r, &c, true));
    fio_fault_disk_full(faults, 0);
    assert_err(feed_rig_poll(&r, &c, true), ERR_NOSPACE);
    fio_fault_disk_full(faults, 1u << 20);
    assert_ok(feed_rig_poll(&r, &c, true));
    feed_rig_assert_pids(&c, 2, 3);
    feed_rig_fini(&r);
    fio_fault_destroy(faults);
}

static void every_failed_allocation_is_survived(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a");
    enum err e = ERR_NOMEM;

    (void)state;
    feed_rig_events(&rig, "web-1", 1, 3, "x");
    for (long k = 0; e; k++) {
        c = feed_rig_subscriber("a");
        c.has_filter = true;
        c.filter.n_hosts = 1;
        c.filter.hosts[0] = str_make("*");
        mem_fail_after(k);
        e = feed_rig_poll(&rig, &c, true);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM || e == ERR_FULL);
        assert_true(k < 300);
    }
    feed_rig_assert_pids(&c, 3, 1);
}

#define T(f) cmocka_unit_test_prestate_setup_teardown(f, feed_rig_setup, feed_rig_teardown, &rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(damaged_files_are_put_aside),
        T(every_failed_allocation_is_survived),
        cmocka_unit_test(states_come_back_as_they_were),
        cmocka_unit_test(a_power_cut_at_any_moment_loses_and_repeats_nothing),
        cmocka_unit_test(an_acknowledgement_is_durable_before_the_reply),
        cmocka_unit_test(a_full_disk_refuses_and_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
