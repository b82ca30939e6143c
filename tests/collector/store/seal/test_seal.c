#include "collector/store/seal/seal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "collector/store/read/store_view.h"
#include "collector/store/segment/window.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/store_rig.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define NOW        INT64_MIN /* store_seal_now: only what is due */
#define PER_WINDOW 30        /* batches of ten seconds */

static struct rig rig;
static struct fio_fault *log_fault;

static struct store_stats stats_now(void)
{
    struct store_stats stats;

    store_stats(rig.store, &stats);
    return stats;
}

static struct store_room room_now(void)
{
    struct store_room room;

    store_room(rig.store, &room);
    return room;
}

/* The host of that name. */
static struct store_host host_named(const char *name)
{
    struct store_host found = {.name = NULL};
    struct store_view *v;

    assert_ok(store_view_open(&v, rig.store));
    for (size_t i = 0; i < store_view_hosts(v); i++) {
        if (strcmp(store_view_host(v, i)->name, name) == 0) {
            found = *store_view_host(v, i);
        }
    }
    store_view_close(v);
    return found;
}

static void a_window_is_sealed_after_its_end_and_stays_in_the_answers(void **state)
{
    rig_open(&rig);
    rig_put_host(&rig, 1, PER_WINDOW + 10);
    rig_set_now(RIG_T0 + WINDOW_NS + 29 * CLK_S); /* what is under way may still come */
    assert_ok(store_seal_now(rig.store, NOW));
    assert_int_equal(room_now().sealed_windows, 0);
    rig_set_now(RIG_T0 + WINDOW_NS + 30 * CLK_S);
    assert_ok(store_seal_now(rig.store, NOW));
    for (int life = 0; life < 3; life++) {
        struct store_host h = host_named("gen-1");

        assert_int_equal(stats_now().head_batches, 10);
        assert_int_equal(rig_count_all(&rig), PER_WINDOW + 10);
        assert_int_equal(room_now().kind[SEG_REST].files, 1);
        assert_int_equal(room_now().kind[SEG_RAW].files, 1);
        assert_int_equal(room_now().kind[SEG_1MIN].files, 1);
        assert_int_equal(h.batches, PER_WINDOW + 10);
        assert_int_equal(h.held, PER_WINDOW + 10);
        assert_int_equal(h.gaps, 0);
        assert_true(h.first_ns >= RIG_T0 && h.first_ns <= RIG_T0 + CLK_S);
        rig_close(&rig);
        rig_open(&rig);
        assert_ok(store_seal_now(rig.store, NOW));
    }
}

static void what_is_sealed_is_a_duplicate_before_and_after_reopening(void **state)
{
    struct fleetgen *g = rig_host(1);
    struct rig_batch b[PER_WINDOW];

    rig_open(&rig);
    for (size_t i = 0; i < COUNT_OF(b); i++) {
        rig_batch(&b[i], g, 10);
        assert_ok(rig_put(&rig, &b[i]));
    }
    assert_ok(store_seal_now(rig.store, INT64_MAX));
    assert_int_equal(stats_now().head_batches, 0);
    for (int life = 0; life < 2; life++) {
        for (size_t i = 0; i < COUNT_OF(b); i++) {
            assert_err(rig_put(&rig, &b[i]), ERR_EXISTS);
            assert_int_equal(rig_count(&rig, &b[i].head), 1);
        }
        rig_close(&rig);
        rig_open(&rig);
    }
    for (size_t i = 0; i < COUNT_OF(b); i++) {
        rig_batch_fini(&b[i]);
    }
    fleetgen_destroy(g);
}

static void log_files_go_when_all_that_is_in_them_is_sealed(void **state)
{
    rig_open(&rig);
    rig_put_host(&rig, 1, 5 * PER_WINDOW);
    assert_in_range(stats_now().log_files, 5, 6);
    rig_set_now(RIG_T0 + 5 * WINDOW_NS);
    assert_ok(store_seal_now(rig.store, NOW));
    assert_in_range(stats_now().log_files, 1, 2);
    assert_int_equal(rig_count_all(&rig), 5 * PER_WINDOW);
}

static void late_data_waits_a_minute_and_becomes_a_patch(void **state)
{
    struct fleetgen *g = rig_host(1);
    struct rig_batch late[3];

    rig_open(&rig);
    for (size_t i = 0; i < COUNT_OF(late); i++) {
        rig_batch(&late[i], g, 10);
    }
    rig_put_next(&rig, g, PER_WINDOW);
    rig_set_now(RIG_T0 + WINDOW_NS + 30 * CLK_S);
    assert_ok(store_seal_now(rig.store, NOW));
    for (size_t i = 0; i < COUNT_OF(late); i++) {
        late[i].received_ns = rig_now() + (int64_t)(i + 1) * CLK_S;
        assert_ok(rig_put(&rig, &late[i]));
    }
    rig_set_now(late[0].received_ns + 59 * CLK_S);
    assert_ok(store_seal_now(rig.store, NOW));
    assert_int_equal(room_now().patches, 0);
    rig_set_now(late[0].received_ns + 60 * CLK_S);
    assert_ok(store_seal_now(rig.store, NOW));
    assert_int_equal(room_now().patches, 1);
    assert_int_equal(room_now().kind[SEG_REST].files, 2);
    for (size_t i = 0; i < COUNT_OF(late); i++) {
        assert_int_equal(rig_count(&rig, &late[i].head), 1);
        assert_err(rig_put(&rig, &late[i]), ERR_EXISTS);
        rig_batch_fini(&late[i]);
    }
    fleetgen_destroy(g);
}

/* Hours of data at once, as after an outage of the collector: not a file for every window. */
static void late_windows_of_one_hour_are_sealed_together(void **state)
{
    struct fleetgen *g = rig_host(1);
    int64_t now_ns = RIG_T0 + 10 * 3600 * CLK_S;

    rig.conf.accept_age_ns = 24 * 3600 * CLK_S;
    rig_open(&rig);
    for (size_t i = 0; i < 12 * PER_WINDOW; i++) {
        struct rig_batch b;

        rig_batch(&b, g, 10);
        b.received_ns = now_ns;
        assert_ok(rig_put(&rig, &b));
        rig_batch_fini(&b);
    }
    rig_set_now(now_ns + 60 * CLK_S);
    rig_close(&rig); /* the thread alone: without what follows the sealing */
    rig_open(&rig);
    assert_ok(store_seal_now(rig.store, NOW));
    assert_int_equal(room_now().sealed_windows, 12);
    assert_int_equal(rig_count_all(&rig), 12 * PER_WINDOW);
    assert_int_equal(room_now().kind[SEG_REST].files, 1);
    fleetgen_destroy(g);
}

static void data_from_the_future_is_sealed_in_the_window_of_its_arrival(void **state)
{
    struct fleetgen *g = rig_host(1);
    struct rig_batch b;

    rig_open(&rig);
    rig_batch(&b, g, 10);
    b.received_ns = RIG_T0 - 1000 * 3600 * CLK_S; /* the collector's clock says so */
    assert_ok(rig_put(&rig, &b));
    rig_set_now(b.received_ns + 2 * WINDOW_NS);
    assert_ok(store_seal_now(rig.store, NOW));
    assert_int_equal(stats_now().head_batches, 0);
    assert_int_equal(room_now().kind[SEG_RAW].oldest_ns, window_of(b.received_ns));
    assert_int_equal(rig_count(&rig, &b.head), 1);
    rig_batch_fini(&b);
    fleetgen_destroy(g);
}

static void a_full_head_is_sealed_early_and_loses_nothing(void **state)
{
    struct fleetgen *g = rig_host(1);
    size_t stored = 0, waited = 0;

    rig.conf.head_bytes_max = 60000;
    rig.conf.seal_poll_ns = CLK_MS;
    rig_open(&rig);
    for (size_t i = 0; i < 200; i++) {
        struct rig_batch b;
        enum err e;

        rig_batch(&b, g, 10);
        while ((e = rig_put(&rig, &b)) == ERR_FULL && waited < 5000) {
            waited++;
            os_sleep_ns(2 * CLK_MS); /* as an agent does, only longer */
        }
        assert_ok(e);
        stored++;
        assert_true(stats_now().head_bytes <= 60000);
        rig_batch_fini(&b);
    }
    assert_int_equal(rig_count_all(&rig), stored);
    assert_true(room_now().sealed_windows > 0);
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(rig_count_all(&rig), stored);
    fleetgen_destroy(g);
}

static atomic_int troubles, recoveries;

static void on_trouble(void *ctx, enum err e, const struct errmsg *why)
{
    (void)ctx;
    assert_err(e, why ? ERR_NOSPACE : ERR_OK);
    assert_true(!why || why->text[0]);
    atomic_fetch_add(why ? &troubles : &recoveries, 1);
}

/* A ledger of the same rows again and again packs well, and is kept beside the packed batch. */
static void what_a_batch_tells_of_itself_counts_for_the_head(void **state)
{
    static const struct uuid id = {{5}};
    static char reasons[7][900];
    struct ledger_row rows[7];
    const int64_t now = 1700000000 * CLK_S;
    struct batch b = {.head = {.host = id, .stream = 1, .seq = 1, .source = str_make("proc")},
                      .n_ticks = 1,
                      .wall_ns = &now,
                      .mono_ns = &now,
                      .n_ledger = COUNT_OF(rows),
                      .ledger = rows};
    struct rig_batch packed = {.head = b.head, .host_name = "h", .received_ns = now + CLK_S};
    struct wire_encoder *enc;
    struct buf bytes;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        memset(reasons[i], 'a' + (int)i, sizeof reasons[i]);
        rows[i] = (struct ledger_row){str_make("etw"), {reasons[i], sizeof reasons[i]}, 1};
    }
    buf_init(&bytes, 1u << 20);
    assert_ok(wire_batch_encoder_create(&enc));
    assert_ok(wire_batch_encode(enc, &bytes, &b));
    wire_batch_encoder_destroy(enc);
    assert_true(bytes.n < 1000);
    packed.bytes = bytes.p;
    packed.n = bytes.n;
    rig_open(&rig);
    assert_ok(rig_put(&rig, &packed));
    assert_true(stats_now().head_bytes > sizeof reasons);
    buf_fini(&bytes);
}

static void a_host_that_fills_the_head_makes_no_other_wait(void **state)
{
    struct fleetgen *greedy = rig_host(1), *modest[6];
    struct rig_batch b;
    enum err e = ERR_OK;

    rig.conf.head_bytes_max = 200000;
    rig.conf.seal_poll_ns = 3600 * CLK_S; /* nothing makes room */
    rig_open(&rig);
    for (uint64_t i = 0; i < COUNT_OF(modest); i++) {
        modest[i] = rig_host(i + 2);
        rig_batch(&b, modest[i], 1);
        assert_ok(rig_put(&rig, &b));
        rig_batch_fini(&b);
    }
    while (!e) {
        rig_batch(&b, greedy, 1);
        e = rig_put(&rig, &b);
        if (!e) {
            rig_batch_fini(&b);
        }
    }
    assert_err(e, ERR_FULL);
    rig_batch_fini(&b);
    for (uint64_t i = 0; i < COUNT_OF(modest); i++) {
        rig_batch(&b, modest[i], 1);
        assert_ok(rig_put(&rig, &b));
        rig_batch_fini(&b);
        fleetgen_destroy(modest[i]);
    }
    assert_true(stats_now().refused == 1 && stats_now().head_hosts == 1 + COUNT_OF(modest));
    fleetgen_destroy(greedy);
}

static void a_head_that_cannot_be_sealed_refuses_and_takes_again_later(void **state)
{
    struct fleetgen *g = rig_host(1);
    struct fio_fault *f;
    struct rig_batch b;
    enum err e = ERR_OK;
    size_t stored = 0;

    assert_ok(fio_fault_create(&f));
    rig.conf.fio = fio_fault_fio(f);
    rig.conf.head_bytes_max = 60000;
    rig.conf.seal_poll_ns = 3600 * CLK_S;
    rig.conf.on_trouble = on_trouble;
    rig_open(&rig);
    while (!e) {
        rig_batch(&b, g, 10);
        e = rig_put(&rig, &b);
        stored += e == ERR_OK;
        if (!e) {
            rig_batch_fini(&b);
        }
    }
    assert_err(e, ERR_FULL);
    assert_true(stats_now().refused > 0);
    fio_fault_fail(f, FIO_RENAME, 0, ERR_NOSPACE, true);
    assert_err(store_seal_now(rig.store, INT64_MAX), ERR_NOSPACE);
    assert_err(store_seal_now(rig.store, INT64_MAX), ERR_NOSPACE);
    assert_err(rig_put(&rig, &b), ERR_FULL);
    assert_int_equal(troubles, 1);
    assert_int_equal(recoveries, 0);
    fio_fault_fail(f, FIO_RENAME, -1, ERR_OK, false);
    assert_ok(store_seal_now(rig.store, INT64_MAX));
    assert_ok(rig_put(&rig, &b));
    assert_int_equal(rig_count_all(&rig), stored + 1);
    assert_int_equal(room_now().seal_failures, 2);
    assert_int_equal(recoveries, 1);
    rig_batch_fini(&b);
    rig_close(&rig);
    fio_fault_destroy(f);
    fleetgen_destroy(g);
}

/* A failing operation, whichever it is, changes nothing: neither for this store nor after a power
 * cut at that moment. */
static void sealing_survives_every_failing_file_operation(void **state)
{
    enum err e = ERR_IO;

    for (long n = 0; e; n++) {
        struct fio_fault *f;

        rig_init(&rig);
        assert_ok(fio_fault_create(&f));
        rig.conf.fio = fio_fault_fio(f);
        rig.conf.seal_poll_ns = 3600 * CLK_S;
        rig_open(&rig);
        rig_put_host(&rig, 1, 3);
        rig_put_host(&rig, 2, 3);
        fio_fault_fail(f, FIO_ALL, n, ERR_IO, false);
        e = store_seal_now(rig.store, INT64_MAX);
        fio_fault_fail(f, FIO_ALL, -1, ERR_OK, false);
        assert_int_equal(rig_count_all(&rig), 6);
        if (n % 2) {
            fio_fault_power_cut(f, FIO_KEEP_SECTORS, (uint64_t)n);
        } else if (e) {
            assert_ok(store_seal_now(rig.store, INT64_MAX));
            assert_int_equal(rig_count_all(&rig), 6);
        }
        rig_close(&rig);
        fio_fault_destroy(f);
        rig.conf.fio = fio_unsynced();
        rig_open(&rig);
        assert_int_equal(rig_count_all(&rig), 6);
        assert_int_equal(stats_now().bad_records, 0);
        assert_false(stats_now().lost_hosts_file);
        assert_int_equal(host_named("gen-1").batches, 3);
        rig_fini(&rig);
        assert_true(n < 1000);
    }
}

/* The power fails before the n-th operation of a sealing and of what follows. */
static void a_power_cut_at_any_moment_of_sealing_neither_loses_nor_doubles(void **state)
{
    enum err e = ERR_IO;

    for (long n = 0; e; n++) {
        for (unsigned keep = 0; keep < 3; keep++) {
            struct fio_fault *f;

            rig_init(&rig);
            assert_ok(fio_fault_create(&f));
            rig.conf.fio = fio_fault_fio(f);
            rig.conf.seal_poll_ns = 3600 * CLK_S;
            rig_open(&rig);
            rig_put_host(&rig, 1, 3);
            rig_put_host(&rig, 2, 3);
            fio_fault_fail(f, FIO_ALL, n, ERR_IO, true);
            e = store_seal_now(rig.store, INT64_MAX);
            fio_fault_power_cut(f, (enum fio_fault_keep)keep, (uint64_t)n);
            rig_close(&rig);
            fio_fault_destroy(f);
            rig.conf.fio = fio_unsynced();
            rig_open(&rig);
            assert_int_equal(rig_count_all(&rig), 6);
            assert_int_equal(host_named("gen-2").batches, 3);
            assert_ok(store_seal_now(rig.store, INT64_MAX));
            assert_int_equal(rig_count_all(&rig), 6);
            assert_int_equal(host_named("gen-2").held, 3);
            rig_fini(&rig);
        }
        assert_true(n < 1000);
    }
}

static void sealing_survives_every_allocation_failing(void **state)
{
    enum err e = ERR_NOMEM;

    for (long n = 0; e; n++) {
        rig_init(&rig);
        rig.conf.seal_poll_ns = 3600 * CLK_S;
        rig_open(&rig);
        rig_put_host(&rig, 1, 3);
        assert_ok(store_seal_now(rig.store, NOW)); /* what the thread does once */
        mem_fail_after(n);
        e = store_seal_now(rig.store, INT64_MAX);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM || e == ERR_IO);
        assert_int_equal(rig_count_all(&rig), 3);
        assert_ok(store_seal_now(rig.store, INT64_MAX));
        assert_int_equal(stats_now().head_batches, 0);
        assert_int_equal(rig_count_all(&rig), 3);
        rig_fini(&rig);
        assert_true(n < 5000);
    }
}

static void hosts_with_sealed_data_only_are_known_after_reopening(void **state)
{
    static const char *const lost[] = {"", "hosts"};
    struct store_host before;

    rig_open(&rig);
    rig_put_host(&rig, 1, 3);
    rig_put_host(&rig, 2, 1);
    assert_ok(store_seal_now(rig.store, INT64_MAX));
    before = host_named("gen-1");
    for (size_t i = 0; i < COUNT_OF(lost); i++) {
        struct store_host h;
        char path[300];

        rig_close(&rig);
        (void)snprintf(path, sizeof path, "%s/%s", rig.dir, lost[i]);
        if (lost[i][0]) {
            assert_ok(os_remove(path));
        }
        (void)snprintf(path, sizeof path, "%s/wal", rig.dir);
        support_remove_dir(path); /* not even a log */
        rig_open(&rig);
        assert_int_equal(rig_count_all(&rig), 4);
        h = host_named("gen-1");
        assert_memory_equal(h.id.b, before.id.b, sizeof h.id.b);
        assert_int_equal(h.first_ns, before.first_ns);
        assert_int_equal(h.last_ns, before.last_ns);
        assert_int_equal(store_last_seq(rig.store, &h.id, 0), 0);
        if (!lost[i][0]) {
            assert_int_equal(h.batches, 3);
            assert_int_equal(h.received_ns, before.received_ns);
            assert_memory_equal(h.boot.b, before.boot.b, sizeof h.boot.b);
        }
    }
}

static void numbers_of_sealed_batches_are_known_without_a_log(void **state)
{
    struct fleetgen *g = rig_host(1);
    struct rig_batch b;
    char path[300];

    rig_open(&rig);
    rig_batch(&b, g, 10);
    assert_ok(rig_put(&rig, &b));
    assert_ok(store_seal_now(rig.store, INT64_MAX));
    rig_close(&rig);
    (void)snprintf(path, sizeof path, "%s/wal", rig.dir);
    support_remove_dir(path);
    rig_open(&rig);
    assert_err(rig_put(&rig, &b), ERR_EXISTS);
    rig_batch_fini(&b);
    fleetgen_destroy(g);
}

static void a_host_goes_when_retention_dropped_all_of_it(void **state)
{
    struct fleetgen *g = rig_host(2);

    rig.conf.hosts_max = 2;
    for (unsigned k = SEG_RAW; k < SEG_KINDS; k++) {
        rig.conf.retain.age_ns[k] = 2 * 3600 * CLK_S;
    }
    rig_open(&rig);
    rig_put_host(&rig, 1, 3);
    for (int i = 0; i < 4; i++) { /* a quarter of an hour each */
        rig_put_next(&rig, g, 90);
        rig_set_now(RIG_T0 + (i + 1) * 900 * CLK_S + 31 * CLK_S);
        assert_ok(store_seal_now(rig.store, NOW));
    }
    assert_non_null(host_named("gen-1").name);
    rig_set_now(RIG_T0 + 2 * 3600 * CLK_S + 4 * WINDOW_NS);
    assert_ok(store_seal_now(rig.store, INT64_MAX));
    rig_put_next(&rig, g, 1);
    assert_ok(store_seal_now(rig.store, INT64_MAX));
    assert_true(stats_now().dropped_batches >= 3);
    for (int life = 0; life < 2; life++) {
        struct store_host h = host_named("gen-2");

        assert_null(host_named("gen-1").name);
        assert_non_null(h.name);
        assert_int_equal(h.batches, h.held + h.too_old + h.no_room);
        assert_true(h.first_ns >= RIG_T0 + 3 * WINDOW_NS);
        rig_close(&rig);
        rig_open(&rig);
    }
    fleetgen_destroy(g);
}

static enum err count_batch(void *ctx, const struct batch *b)
{
    (void)b;
    ++*(size_t *)ctx;
    return ERR_OK;
}

static void a_view_keeps_what_was_sealed_and_dropped_since(void **state)
{
    struct store_view *before, *sealed;
    size_t n = 0;

    for (unsigned k = SEG_RAW; k < SEG_KINDS; k++) {
        rig.conf.retain.age_ns[k] = 3600 * CLK_S;
    }
    rig_open(&rig);
    rig_put_host(&rig, 1, 3);
    assert_ok(store_view_open(&before, rig.store));
    assert_ok(store_seal_now(rig.store, INT64_MAX));
    assert_ok(store_view_open(&sealed, rig.store));
    rig_set_now(RIG_T0 + 24 * 3600 * CLK_S);
    assert_ok(store_seal_now(rig.store, INT64_MAX)); /* drops all */
    assert_int_equal(rig_count_all(&rig), 0);
    for (int i = 0; i < 2; i++) {
        struct store_view *v = i ? sealed : before;

        assert_int_equal(store_view_hosts(v), 1);
        n = 0;
        rig_each(v, 0, count_batch, &n);
        assert_int_equal(n, 3);
        store_view_close(v);
    }
}

/* Nobody writes any more: what was joined goes too in the end, and the log rests. */
static void joined_segments_of_an_idle_collector_are_dropped(void **state)
{
    struct fleetgen *g = rig_host(1);
    uint64_t commits;

    for (unsigned k = SEG_RAW; k < SEG_KINDS; k++) {
        rig.conf.retain.age_ns[k] = 2 * 3600 * CLK_S;
    }
    rig_open(&rig);
    for (int i = 0; i < 3; i++) {
        rig_put_next(&rig, g, PER_WINDOW);
        assert_ok(store_seal_now(rig.store, INT64_MAX));
    }
    assert_int_equal(room_now().kind[SEG_REST].files, 3);
    rig_set_now(RIG_T0 + 2 * 3600 * CLK_S - WINDOW_NS);
    assert_ok(store_seal_now(rig.store, NOW));
    assert_int_equal(room_now().kind[SEG_REST].files, 1);
    assert_int_equal(rig_count_all(&rig), 3 * PER_WINDOW);
    rig_set_now(RIG_T0 + 24 * 3600 * CLK_S);
    assert_ok(store_seal_now(rig.store, NOW));
    assert_int_equal(room_now().kind[SEG_REST].files, 0);
    assert_null(host_named("gen-1").name);
    commits = stats_now().commits;
    assert_ok(store_seal_now(rig.store, NOW));
    assert_int_equal(stats_now().commits, commits);
    fleetgen_destroy(g);
}

static void closing_seals_nothing(void **state)
{
    rig_open(&rig);
    rig_put_host(&rig, 1, 3);
    rig_set_now(RIG_T0 + 3600 * CLK_S); /* due, but who closes does not want to wait */
    rig_close(&rig);
    rig_set_now(RIG_T0);
    rig_open(&rig);
    assert_in_range(stats_now().recovered_batches + room_now().sealed_windows, 1, 3);
    assert_int_equal(rig_count_all(&rig), 3);
}

/* What was sealed and is in the log still is there once, however old it was when it came. */
static void a_lower_age_doubles_nothing_after_reopening(void **state)
{
    static const int64_t ages_ns[] = {3600 * CLK_S, 60 * CLK_S};
    struct fleetgen *g = rig_host(1);
    struct rig_batch late;

    rig.conf.accept_age_ns = 10 * 3600 * CLK_S;
    rig_open(&rig);
    rig_batch(&late, g, 10);
    late.received_ns = RIG_T0 + 9 * 3600 * CLK_S;
    assert_ok(rig_put(&rig, &late));
    for (int i = 0; i < 36; i++) {
        (void)fleetgen_batch(g, 900);
    }
    rig_put_next(&rig, g, 3);
    assert_ok(store_seal_now(rig.store, INT64_MAX));
    for (size_t i = 0; i < COUNT_OF(ages_ns); i++) {
        rig_close(&rig);
        rig.conf.accept_age_ns = ages_ns[i];
        rig_open(&rig);
        assert_int_equal(rig_count(&rig, &late.head), 1);
        assert_int_equal(rig_count_all(&rig), 4);
        assert_err(rig_put(&rig, &late), ERR_EXISTS);
    }
    rig_batch_fini(&late);
    fleetgen_destroy(g);
}

static struct rig_batch last_word;

/* The sealing thread has looked whether the log holds when it asks for the time. */
static int64_t now_after_the_log_failed(void)
{
    if (last_word.bytes) {
        fio_fault_fail(log_fault, FIO_SYNC, 0, ERR_IO, true);
        assert_err(rig_put(&rig, &last_word), ERR_IO);
        fio_fault_fail(log_fault, FIO_SYNC, -1, ERR_OK, false);
        rig_batch_fini(&last_word);
    }
    return rig_now();
}

/* An agent that was told so sends it again after the restart. */
static void what_was_reported_as_not_stored_is_not_sealed(void **state)
{
    struct fleetgen *g = rig_host(1);
    struct rig_batch b;

    assert_ok(fio_fault_create(&log_fault));
    rig.conf.fio = fio_fault_fio(log_fault);
    rig.conf.seal_poll_ns = 3600 * CLK_S;
    rig_open(&rig);
    rig_put_next(&rig, g, 3);
    rig_close(&rig);
    rig.conf.now_ns = now_after_the_log_failed;
    rig_open(&rig);
    assert_ok(store_seal_now(rig.store, NOW)); /* what the thread does first */
    rig_batch(&b, g, 10);
    last_word = b;
    last_word.bytes = mem_alloc(b.n);
    memcpy(last_word.bytes, b.bytes, b.n);
    assert_err(store_seal_now(rig.store, INT64_MAX), ERR_IO);
    assert_int_equal(rig_count(&rig, &b.head), 0);
    rig_close(&rig);
    fio_fault_destroy(log_fault);
    rig.conf.fio = fio_unsynced();
    rig_open(&rig);
    assert_int_equal(rig_count(&rig, &b.head), 0);
    assert_ok(rig_put(&rig, &b));
    assert_int_equal(rig_count(&rig, &b.head), 1);
    rig_batch_fini(&b);
    fleetgen_destroy(g);
}

struct reader {
    atomic_bool stop;
    size_t views;
};

/* Every view has an unbroken row of numbers, and never fewer than the one before. */
static enum err mark(void *ctx, const struct batch *b)
{
    uint8_t *there = ctx;

    assert_true(b->head.seq < 1000);
    assert_int_equal(there[b->head.seq], 0);
    there[b->head.seq] = 1;
    return ERR_OK;
}

static void read_for_ever(void *arg)
{
    struct reader *r = arg;
    size_t least = 0;

    while (!atomic_load(&r->stop)) {
        uint8_t there[1000] = {0};
        struct store_view *v;
        size_t n = 1;

        assert_ok(store_view_open(&v, rig.store));
        if (store_view_hosts(v) > 0) {
            rig_each(v, 0, mark, there);
        }
        store_view_close(v);
        while (there[n]) {
            n++;
        }
        assert_null(memchr(there + n, 1, sizeof there - n));
        assert_true(n >= least);
        least = n;
        r->views++;
    }
}

static void readers_see_every_batch_once_while_it_is_sealed(void **state)
{
    struct fleetgen *g = rig_host(1);
    struct reader r = {.views = 0};
    struct os_thread *t;

    rig_open(&rig);
    assert_ok(os_thread_start(&t, "reader", read_for_ever, &r));
    for (int i = 0; i < 30; i++) {
        rig_put_next(&rig, g, 8);
        assert_ok(store_seal_now(rig.store, i % 3 ? INT64_MAX : NOW));
    }
    atomic_store(&r.stop, true);
    os_thread_join(t);
    assert_true(r.views > 0);
    assert_int_equal(rig_count_all(&rig), 240);
    fleetgen_destroy(g);
}

#define T(f) cmocka_unit_test_prestate_setup_teardown(f, rig_setup, rig_teardown, &rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_window_is_sealed_after_its_end_and_stays_in_the_answers),
        T(what_is_sealed_is_a_duplicate_before_and_after_reopening),
        T(log_files_go_when_all_that_is_in_them_is_sealed),
        T(late_data_waits_a_minute_and_becomes_a_patch),
        T(late_windows_of_one_hour_are_sealed_together),
        T(data_from_the_future_is_sealed_in_the_window_of_its_arrival),
        T(a_full_head_is_sealed_early_and_loses_nothing),
        T(what_a_batch_tells_of_itself_counts_for_the_head),
        T(a_host_that_fills_the_head_makes_no_other_wait),
        T(a_head_that_cannot_be_sealed_refuses_and_takes_again_later),
        cmocka_unit_test(sealing_survives_every_failing_file_operation),
        cmocka_unit_test(a_power_cut_at_any_moment_of_sealing_neither_loses_nor_doubles),
        cmocka_unit_test(sealing_survives_every_allocation_failing),
        T(hosts_with_sealed_data_only_are_known_after_reopening),
        T(numbers_of_sealed_batches_are_known_without_a_log),
        T(a_host_goes_when_retention_dropped_all_of_it),
        T(a_view_keeps_what_was_sealed_and_dropped_since),
        T(joined_segments_of_an_idle_collector_are_dropped),
        T(closing_seals_nothing),
        T(a_lower_age_doubles_nothing_after_reopening),
        T(what_was_reported_as_not_stored_is_not_sealed),
        T(readers_see_every_batch_once_while_it_is_sealed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
