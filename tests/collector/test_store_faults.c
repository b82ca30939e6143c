/* Writes and syncs that fail, a full disk, power cuts: what was acknowledged is there, once. */
#include "collector/store/store_read.h"

#include <string.h>

#include "tests/support/fio_fault.h"
#include "tests/support/store_rig.h"
#include "tests/support/t.h"

#define SECOND 1000000000LL

static struct rig rig;

struct failure {
    unsigned calls;
    struct errmsg why;
};

static void on_failed(void *ctx, const struct errmsg *why)
{
    struct failure *f = ctx;

    f->calls++;
    f->why = *why;
}

static void any_failing_write_or_sync_stops_acknowledging_for_good(void **state)
{
    static const struct {
        unsigned op;
        enum err e;
    } faults[] = {
        {FIO_WRITE, ERR_IO}, {FIO_WRITE, ERR_NOSPACE}, {FIO_SYNC, ERR_IO}, {FIO_SYNC, ERR_NOSPACE}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(faults); i++) {
        struct fleetgen *g = rig_host(10 + i);
        struct store_stats stats;
        struct fio_fault *f;
        struct rig_batch good, bad, later;
        struct failure failure = {0};
        long syncs;

        assert_ok(fio_fault_create(&f));
        rig.conf.fio = fio_fault_fio(f);
        rig.conf.on_failed = on_failed;
        rig.conf.ctx = &failure;
        rig_open(&rig);
        rig_batch(&good, g, 10);
        rig_batch(&bad, g, 10);
        rig_batch(&later, g, 10);
        assert_ok(rig_put(&rig, &good));
        fio_fault_fail(f, faults[i].op, 0, faults[i].e, false); /* once: it must not be retried */
        assert_err(rig_put(&rig, &bad), ERR_IO);
        syncs = fio_fault_count(f, FIO_SYNC);
        assert_err(rig_put(&rig, &later), ERR_IO);
        assert_int_equal(fio_fault_count(f, FIO_SYNC), syncs);
        store_stats(rig.store, &stats);
        assert_true(stats.failed);
        assert_int_equal(failure.calls, 1);
        assert_non_null(strstr(failure.why.text, err_text(faults[i].e)));
        assert_int_equal(rig_count(&rig, &good.head), 1); /* reading goes on */
        assert_int_equal(rig_count(&rig, &bad.head), 0);
        rig_close(&rig);
        fio_fault_destroy(f);

        rig.conf.fio = fio_unsynced();
        rig_open(&rig);
        assert_int_equal(rig_count(&rig, &good.head), 1);
        assert_int_equal(rig_count(&rig, &bad.head), 0);
        assert_ok(rig_put(&rig, &bad));
        assert_ok(rig_put(&rig, &later));
        rig_close(&rig);
        rig_batch_fini(&good);
        rig_batch_fini(&bad);
        rig_batch_fini(&later);
        fleetgen_destroy(g);
    }
}

static void a_full_disk_loses_nothing_that_was_acknowledged(void **state)
{
    struct fleetgen *g = rig_host(1);
    struct rig_batch b[64];
    enum err results[64];
    struct fio_fault *f;
    size_t acknowledged = 0;

    (void)state;
    assert_ok(fio_fault_create(&f));
    fio_fault_disk_full(f, 20000);
    rig.conf.fio = fio_fault_fio(f);
    rig_open(&rig);
    for (size_t i = 0; i < COUNT_OF(b); i++) {
        rig_batch(&b[i], g, 10);
        results[i] = rig_put(&rig, &b[i]);
        acknowledged += results[i] == ERR_OK;
    }
    assert_in_range(acknowledged, 5, 63);
    rig_close(&rig);
    fio_fault_destroy(f);
    rig.conf.fio = fio_unsynced();
    rig_open(&rig);
    for (size_t i = 0; i < COUNT_OF(b); i++) {
        assert_int_equal(rig_count(&rig, &b[i].head), results[i] == ERR_OK);
        rig_batch_fini(&b[i]);
    }
    fleetgen_destroy(g);
}

static void count_ok(void *ctx, enum err e)
{
    *(size_t *)ctx += e == ERR_OK;
}

static enum err count_seq(void *ctx, const struct batch *b)
{
    size_t *there = ctx;

    there[b->head.seq - 1]++;
    return ERR_OK;
}

/* How often each batch of the first host is in the answers, by its place. */
static void count_by_seq(size_t *there, size_t n)
{
    struct store_view *v;

    memset(there, 0, n * sizeof *there);
    assert_ok(store_view_open(&v, rig.store));
    if (store_view_hosts(v) > 0) {
        rig_each(v, 0, count_seq, there);
    }
    store_view_close(v);
}

/* One life of the store ends by a power cut after some puts; what was acknowledged is there once
 * in the next, and nothing is there twice. */
static void every_acknowledged_batch_survives_a_power_cut_once(void **state)
{
    struct fleetgen *g = rig_host(1);
    static struct rig_batch b[160];
    static bool acknowledged[160];
    size_t there[160], next = 0;

    (void)state;
    rig.conf.accept_age_ns = 100 * 3600 * SECOND;
    for (uint64_t life = 0; next < COUNT_OF(b); life++) {
        struct fio_fault *f;
        size_t ok = 0;

        assert_ok(fio_fault_create(&f));
        rig.conf.fio = fio_fault_fio(f);
        rig_open(&rig);
        count_by_seq(there, COUNT_OF(there));
        for (size_t i = 0; i < next; i++) { /* the agent sends it again */
            assert_in_range(there[i], acknowledged[i], 1);
            assert_err(rig_put(&rig, &b[i]), there[i] ? ERR_EXISTS : ERR_OK);
            acknowledged[i] = true;
        }
        for (size_t k = 0; k < 8; k++, next++) {
            rig_batch(&b[next], g, 60); /* windows change now and then */
            if (k < 6) {
                assert_ok(rig_put(&rig, &b[next]));
                acknowledged[next] = true;
            } else {
                assert_ok(rig_put_async(&rig, &b[next], count_ok, &ok));
            }
        }
        fio_fault_power_cut(f, (enum fio_fault_keep)(life % 3), life * 77 + 1);
        rig_close(&rig);
        acknowledged[next - 2] = ok > 0;
        acknowledged[next - 1] = ok > 1;
        fio_fault_destroy(f);
    }
    rig.conf.fio = fio_unsynced();
    rig_open(&rig);
    count_by_seq(there, COUNT_OF(there));
    for (size_t i = 0; i < COUNT_OF(b); i++) {
        assert_in_range(there[i], acknowledged[i], 1);
        rig_batch_fini(&b[i]);
    }
    fleetgen_destroy(g);
}
#define T(f) cmocka_unit_test_prestate_setup_teardown(f, rig_setup, rig_teardown, &rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(any_failing_write_or_sync_stops_acknowledging_for_good),
        T(a_full_disk_loses_nothing_that_was_acknowledged),
        T(every_acknowledged_batch_survives_a_power_cut_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
