/* Writes and syncs that fail, a full disk, power cuts: what was acknowledged is there, once. */
#include "collector/store/read/store_read.h"

#include <stdio.h>
#include <string.h>

#include "common/os/os.h"
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
    } faults[] = {{FIO_WRITE, ERR_IO}, {FIO_SYNC, ERR_IO}, {FIO_SYNC, ERR_ACCESS}};

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

/* -- no room -- */

struct space {
    struct os_mutex *lock;
    struct os_cond *changed;
    unsigned entered, left;
    unsigned stored; /* on_stored */
};

static void on_no_space(void *ctx, const struct errmsg *why)
{
    struct space *x = ctx;

    os_mutex_lock(x->lock);
    x->entered += why != NULL;
    x->left += why == NULL;
    os_cond_wake_all(x->changed);
    os_mutex_unlock(x->lock);
}

static void on_stored(void *ctx, const struct store_stored *s)
{
    struct space *x = ctx;

    (void)s;
    os_mutex_lock(x->lock);
    x->stored++;
    os_mutex_unlock(x->lock);
}

static void space_open(struct space *x, struct fio_fault **f)
{
    *x = (struct space){0};
    assert_ok(os_mutex_create(&x->lock));
    assert_ok(os_cond_create(&x->changed, x->lock));
    assert_ok(fio_fault_create(f));
    rig.conf.fio = fio_fault_fio(*f);
    rig.conf.on_no_space = on_no_space;
    rig.conf.on_stored = on_stored;
    rig.conf.ctx = x;
    rig_open(&rig);
}

static void space_close(struct space *x, struct fio_fault *f)
{
    rig_close(&rig);
    fio_fault_destroy(f);
    os_cond_destroy(x->changed);
    os_mutex_destroy(x->lock);
    rig.conf.fio = fio_unsynced();
    rig.conf.on_no_space = NULL;
    rig.conf.on_stored = NULL;
}

static void wait_for_space(struct space *x)
{
    os_mutex_lock(x->lock);
    while (x->left < x->entered) {
        os_cond_wait(x->changed);
    }
    os_mutex_unlock(x->lock);
}

static struct store_stats stats_now(void)
{
    struct store_stats stats;

    store_stats(rig.store, &stats);
    return stats;
}

static void a_disk_that_was_full_is_written_to_again_without_a_restart(void **state)
{
    static const unsigned ops[] = {FIO_WRITE, FIO_SYNC, FIO_CREATE | FIO_WRITE, FIO_SYNC_DIR};

    for (size_t i = 0; i < COUNT_OF(ops); i++) {
        struct fleetgen *g = rig_host(20 + i);
        struct rig_batch b[4];
        struct fio_fault *f;
        struct space x;
        size_t first = ops[i] != FIO_SYNC_DIR; /* else the log's first file is begun */

        space_open(&x, &f);
        for (size_t k = 0; k < COUNT_OF(b); k++) {
            rig_batch(&b[k], g, 10);
        }
        for (size_t k = 0; k < first; k++) {
            assert_ok(rig_put(&rig, &b[k]));
        }
        fio_fault_fail(f, ops[i], 0, ERR_NOSPACE, true);
        for (size_t k = first; k < COUNT_OF(b); k++) { /* all answered, none accepted */
            assert_err(rig_put(&rig, &b[k]), ERR_NOSPACE);
            assert_err(rig_put(&rig, &b[k]), ERR_NOSPACE);
        }
        assert_true(stats_now().no_space);
        assert_false(stats_now().failed);
        assert_int_equal(x.stored, first);
        assert_err(store_seal_now(rig.store, INT64_MAX), ERR_NOSPACE); /* answered, too */
        fio_fault_fail(f, FIO_ALL, -1, ERR_OK, false);
        wait_for_space(&x);
        assert_int_equal(x.entered, 1);
        assert_false(stats_now().no_space);
        for (size_t k = first; k < COUNT_OF(b); k++) { /* the agent sends it again */
            enum err e = rig_put(&rig, &b[k]);

            assert_err(e, k == first ? ERR_EXISTS : ERR_OK);
        }
        assert_int_equal(x.stored, COUNT_OF(b));
        assert_int_equal(rig_count_all(&rig), COUNT_OF(b));
        fio_fault_power_cut(f, FIO_KEEP_NOTHING, 1);
        space_close(&x, f);
        rig_open(&rig);
        for (size_t k = 0; k < COUNT_OF(b); k++) {
            assert_int_equal(rig_count(&rig, &b[k].head), 1);
            rig_batch_fini(&b[k]);
        }
        fleetgen_destroy(g);
        rig_fini(&rig);
        rig_init(&rig);
    }
}

static void a_store_on_a_full_disk_can_be_closed(void **state)
{
    struct fleetgen *g = rig_host(1);
    struct rig_batch b;
    struct fio_fault *f;
    struct space x;

    space_open(&x, &f);
    rig_batch(&b, g, 10);
    fio_fault_disk_full(f, 100);
    assert_err(rig_put(&rig, &b), ERR_NOSPACE);
    space_close(&x, f);
    assert_int_equal(x.left, 0);
    rig_open(&rig);
    assert_int_equal(rig_count(&rig, &b.head), 0);
    assert_ok(rig_put(&rig, &b));
    rig_batch_fini(&b);
    fleetgen_destroy(g);
}

/* What the log would have to begin a file for stays; the rest may be what makes room. */
static void retention_goes_on_while_the_log_has_no_room(void **state)
{
    struct fleetgen *g = rig_host(1);
    struct store_room room;
    struct fio_fault *f;
    struct space x;

    for (unsigned k = SEG_RAW; k < SEG_KINDS; k++) {
        rig.conf.retain.age_ns[k] = 3600 * SECOND;
    }
    space_open(&x, &f);
    rig_put_next(&rig, g, 40);
    rig_set_now(RIG_T0 + 600 * SECOND);
    assert_ok(store_seal_now(rig.store, INT64_MAX));
    store_room(rig.store, &room);
    assert_true(room.kind[SEG_RAW].files > 0 && room.kind[SEG_REST].files > 0);
    fio_fault_fail(f, FIO_CREATE, 0, ERR_NOSPACE, true);
    rig_set_now(RIG_T0 + 36000 * SECOND);
    assert_ok(store_seal_now(rig.store, RIG_T0));
    store_room(rig.store, &room);
    assert_int_equal(room.kind[SEG_RAW].files, 0);
    assert_true(room.kind[SEG_REST].files > 0);
    fio_fault_fail(f, FIO_CREATE, -1, ERR_OK, false);
    assert_ok(store_seal_now(rig.store, RIG_T0));
    store_room(rig.store, &room);
    assert_int_equal(room.kind[SEG_REST].files, 0);
    space_close(&x, f);
    fleetgen_destroy(g);
    rig_set_now(RIG_T0);
}

static void a_catalogue_that_could_not_be_opened_is_opened_later(void **state)
{
    char path[300];

    snprintf(path, sizeof path, "%s/catalogue", rig.dir);
    assert_ok(os_write_file(path, "in the way", 10, true));
    rig_open(&rig);
    rig_put_host(&rig, 1, 3);
    assert_ok(store_seal_now(rig.store, INT64_MAX));
    assert_true(stats_now().no_catalogue);
    assert_ok(os_remove(path));
    assert_ok(store_seal_now(rig.store, INT64_MAX));
    assert_false(stats_now().no_catalogue);
    assert_int_equal(rig_count_all(&rig), 3);
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
        T(a_disk_that_was_full_is_written_to_again_without_a_restart),
        T(a_store_on_a_full_disk_can_be_closed),
        T(retention_goes_on_while_the_log_has_no_room),
        T(a_catalogue_that_could_not_be_opened_is_opened_later),
        T(every_acknowledged_batch_survives_a_power_cut_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
