/* A store under a ceiling: hours of data pass through log, sealing, compaction and retention while
 * every byte of its files is counted as it is written. */
#include <stdio.h>
#include <string.h>

#include "collector/store/read/store_view.h"
#include "collector/store/segment/window.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "tests/support/fio_fault.h"
#include "tests/support/fio_meter.h"
#include "tests/support/store_rig.h"
#include "tests/support/t.h"

#define H     (3600 * CLK_S)
#define KIB   UINT64_C(1024)
#define MIB   (1024 * KIB)
#define HOSTS 3u

struct life {
    struct rig rig;
    struct fio_meter *meter;
    struct fleetgen *gens[HOSTS];
    uint64_t most;      /* bytes of all files, catalogue included, at any moment */
    uint64_t catalogue; /* bytes of it at the last look */
};

static void life_init(struct life *f)
{
    memset(f, 0, sizeof *f);
    rig_init(&f->rig);
    assert_ok(fio_meter_create(&f->meter, fio_unsynced()));
    f->rig.conf.fio = fio_meter_fio(f->meter);
    f->rig.conf.accept_age_ns = 24 * H;
    for (size_t i = 0; i < HOSTS; i++) {
        struct fleetgen_conf conf = {.seed = 200 + i,
                                     .processes = 25,
                                     .starts_per_hour = 300,
                                     .tick_ns = 10 * CLK_S,
                                     .begin_ns = RIG_T0};

        f->gens[i] = fleetgen_create(&conf);
    }
}

static void life_fini(struct life *f)
{
    rig_fini(&f->rig);
    for (size_t i = 0; i < HOSTS; i++) {
        fleetgen_destroy(f->gens[i]);
    }
    fio_meter_destroy(f->meter);
}

static struct store_room room_of(struct life *f)
{
    struct store_room r;

    store_room(f->rig.store, &r);
    return r;
}

static void most(struct life *f, uint64_t bytes)
{
    f->most = bytes > f->most ? bytes : f->most;
}

static void look(struct life *f)
{
    struct store_room r = room_of(f);
    uint64_t files = fio_meter_most(f->meter);

    /* Old and new files were there together before the catalogue read the new ones. */
    most(f, files + f->catalogue);
    most(f, fio_meter_bytes(f->meter) + r.catalogue_bytes);
    f->catalogue = r.catalogue_bytes;
}

/* One window of every host in two batches; then the clock is past its end. */
static void live_window(struct life *f, int n)
{
    for (size_t b = 0; b < 2; b++) {
        for (size_t i = 0; i < HOSTS; i++) {
            struct rig_batch batch;

            rig_batch(&batch, f->gens[i], 15);
            assert_ok(rig_put(&f->rig, &batch));
            rig_batch_fini(&batch);
        }
    }
    rig_set_now(RIG_T0 + (n + 1) * WINDOW_NS + 31 * CLK_S);
    assert_ok(store_seal_now(f->rig.store, INT64_MIN));
    look(f);
}

static void the_ceiling_holds_while_windows_come_and_go(void **state)
{
    uint64_t ceiling = 2 * MIB, least = UINT64_MAX;
    struct store_room r;
    struct life f;

    life_init(&f);
    f.rig.conf.retain.total_bytes = ceiling;
    rig_open(&f.rig);
    for (int n = 0; n < 48; n++) {
        live_window(&f, n);
        if (n == 24) { /* also what recovery makes of it */
            rig_close(&f.rig);
            rig_open(&f.rig);
        }
        if (n > 32) {
            r = room_of(&f);
            least = r.total_bytes < least ? r.total_bytes : least;
        }
    }
    r = room_of(&f);
    assert_true(f.most <= ceiling);
    assert_true(least > ceiling / 2); /* the room is used */
    assert_true(r.ceiling_bytes == ceiling && !r.refusing);
    assert_true(r.kind[SEG_RAW].dropped_bytes > 0);
    assert_true(r.kind[SEG_1H].files > 0); /* the hours that are over have their tier */
    assert_int_equal(r.seal_failures, 0);
    life_fini(&f);
}

static void ages_act_kind_by_kind(void **state)
{
    struct store_room r;
    struct life f;

    life_init(&f);
    f.rig.conf.retain.age_ns[SEG_RAW] = H / 2;
    f.rig.conf.retain.age_ns[SEG_10S] = H;
    f.rig.conf.retain.age_ns[SEG_1MIN] = 2 * H;
    f.rig.conf.retain.age_ns[SEG_1H] = 24 * H;
    rig_open(&f.rig);
    for (int n = 0; n < 42; n++) { /* three hours and a half */
        live_window(&f, n);
    }
    r = room_of(&f);
    assert_true(r.kind[SEG_RAW].oldest_ns >= rig_now() - H / 2 - WINDOW_NS);
    assert_true(r.kind[SEG_10S].oldest_ns >= rig_now() - 2 * H - WINDOW_NS);
    assert_true(r.kind[SEG_1MIN].oldest_ns <= rig_now() - 2 * H);
    assert_true(r.kind[SEG_1MIN].oldest_ns >= rig_now() - 4 * H); /* hours go whole */
    assert_true(r.kind[SEG_1H].oldest_ns == RIG_T0 && r.kind[SEG_1H].files == 3);
    assert_true(r.kind[SEG_REST].oldest_ns == RIG_T0);
    assert_true(r.kind[SEG_RAW].dropped_age > 0 && r.kind[SEG_RAW].dropped_bytes == 0);
    assert_true(r.next_kind != 0 && r.next_in_ns >= 0);
    life_fini(&f);
}

static void a_disk_all_but_full_takes_samples_and_then_refuses(void **state)
{
    struct store_room r;
    struct rig_batch batch;
    struct life f;

    life_init(&f);
    rig_open(&f.rig);
    for (int n = 0; n < 3; n++) {
        live_window(&f, n);
    }
    r = room_of(&f);
    assert_true(r.disk_total > 0 && r.kind[SEG_RAW].files == 3);
    rig_close(&f.rig);
    f.rig.conf.retain.disk_free_min = r.disk_total; /* so much is never free */
    rig_open(&f.rig);
    assert_ok(store_seal_now(f.rig.store, INT64_MIN));
    r = room_of(&f);
    assert_true(r.kind[SEG_RAW].files == 0 && !r.refusing);
    assert_true(r.kind[SEG_10S].files == 3 && r.kind[SEG_1MIN].files == 3);
    assert_true(r.kind[SEG_REST].files == 3);
    rig_batch(&batch, f.gens[0], 3);
    assert_ok(rig_put(&f.rig, &batch));
    rig_batch_fini(&batch);
    rig_close(&f.rig);
    f.rig.conf.retain.disk_free_stop = r.disk_total;
    rig_open(&f.rig);
    assert_ok(store_seal_now(f.rig.store, INT64_MIN));
    assert_true(room_of(&f).refusing);
    rig_batch(&batch, f.gens[0], 3);
    assert_err(rig_put(&f.rig, &batch), ERR_FULL); /* to be tried again */
    rig_close(&f.rig);
    f.rig.conf.retain.disk_free_stop = 1;
    rig_open(&f.rig);
    assert_ok(store_seal_now(f.rig.store, INT64_MIN));
    assert_ok(rig_put(&f.rig, &batch));
    rig_batch_fini(&batch);
    life_fini(&f);
}

static void what_is_joined_is_in_the_catalogue_already(void **state)
{
    struct catalogue_stats st;
    struct store_room r;
    struct life f;

    life_init(&f);
    rig_open(&f.rig);
    for (int n = 0; n < 16; n++) {
        live_window(&f, n);
    }
    r = room_of(&f);
    assert_true(r.kind[SEG_REST].files < 16); /* the first hour is one file */
    catalogue_stats(f.rig.store->catalogue, &st);
    assert_int_equal(st.imported, 16);
    rig_close(&f.rig);
    rig_open(&f.rig);
    catalogue_stats(f.rig.store->catalogue, &st);
    assert_int_equal(st.imported, 0);
    life_fini(&f);
}

static void the_head_leaves_room_below_the_ceiling(void **state)
{
    struct life f;

    life_init(&f);
    f.rig.conf.retain.total_bytes = 8 * MIB;
    rig_open(&f.rig);
    assert_true(f.rig.store->conf.head_bytes_max == MIB);
    life_fini(&f);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ceiling_holds_while_windows_come_and_go),
        cmocka_unit_test(ages_act_kind_by_kind),
        cmocka_unit_test(what_is_joined_is_in_the_catalogue_already),
        cmocka_unit_test(the_head_leaves_room_below_the_ceiling),
        cmocka_unit_test(a_disk_all_but_full_takes_samples_and_then_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
