#include "collector/store/read/store_read.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "collector/store/segment/window.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/store_rig.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define SECOND 1000000000LL

static struct rig rig;

/* Puts the first n batches of a host of its own; the last of them is *last. */
static void put_first(struct rig_batch *last, size_t n)
{
    struct fleetgen *g = rig_host(1);

    rig_put_next(&rig, g, n - 1);
    rig_batch(last, g, 10);
    assert_ok(rig_put(&rig, last));
    fleetgen_destroy(g);
}

static void a_stored_batch_is_in_the_answers_and_after_reopening(void **state)
{
    struct rig_batch b;
    struct store_view *v;

    rig_open(&rig);
    put_first(&b, 3);
    for (int life = 0; life < 3; life++) {
        assert_int_equal(rig_count(&rig, &b.head), 1);
        assert_int_equal(rig_count_all(&rig), 3);
        assert_ok(store_view_open(&v, rig.store));
        assert_int_equal(store_view_hosts(v), 1);
        assert_string_equal(store_view_host(v, 0)->name, b.host_name);
        assert_int_equal(store_view_host(v, 0)->batches, 3);
        assert_int_equal(store_view_host(v, 0)->gaps, 0);
        assert_int_equal(store_view_host(v, 0)->received_ns, b.received_ns);
        assert_int_equal(store_view_host(v, 0)->last_ns, b.received_ns - SECOND);
        assert_memory_equal(store_view_host(v, 0)->boot.b, b.head.boot.b, 16);
        store_view_close(v);
        assert_int_equal(store_last_seq(rig.store, &b.head.host, b.head.stream), 3);
        rig_close(&rig);
        rig_open(&rig);
    }
    rig_batch_fini(&b);
}

static void a_repeat_is_a_duplicate_before_and_after_reopening(void **state)
{
    struct rig_batch b;
    struct store_view *v;

    rig_open(&rig);
    put_first(&b, 1);
    assert_err(rig_put(&rig, &b), ERR_EXISTS);
    assert_ok(store_view_open(&v, rig.store));
    assert_int_equal(store_view_host(v, 0)->duplicates, 1);
    store_view_close(v);
    rig_close(&rig);
    rig_open(&rig);
    assert_err(rig_put(&rig, &b), ERR_EXISTS);
    assert_int_equal(rig_count(&rig, &b.head), 1);
    rig_batch_fini(&b);
}

static void an_agent_restarted_in_the_same_boot_is_no_duplicate(void **state)
{
    struct fleetgen *g = rig_host(1), *again = rig_host(1);
    struct rig_batch first, second;

    rig_open(&rig);
    rig_batch_as(&first, g, 10, 7, 1);
    rig_batch_as(&second, again, 10, 8, 1);
    assert_memory_equal(first.head.boot.b, second.head.boot.b, 16);
    assert_ok(rig_put(&rig, &first));
    assert_ok(rig_put(&rig, &second));
    assert_int_equal(rig_count(&rig, &first.head), 1);
    assert_int_equal(rig_count(&rig, &second.head), 1);
    rig_batch_fini(&first);
    rig_batch_fini(&second);
    fleetgen_destroy(g);
    fleetgen_destroy(again);
}

static void missing_numbers_are_gaps_until_they_arrive(void **state)
{
    static const uint64_t order[] = {1, 4, 2, 3};
    static const uint64_t gaps[] = {0, 2, 1, 0};
    static const uint64_t last[] = {1, 1, 2, 4};
    struct fleetgen *g = rig_host(1);

    rig_open(&rig);
    for (size_t i = 0; i < COUNT_OF(order); i++) {
        struct rig_batch b;
        struct store_view *v;

        rig_batch_as(&b, g, 10, 5, order[i]);
        assert_ok(rig_put(&rig, &b));
        assert_ok(store_view_open(&v, rig.store));
        assert_int_equal(store_view_host(v, 0)->gaps, gaps[i]);
        assert_int_equal(store_last_seq(rig.store, &b.head.host, 5), last[i]);
        store_view_close(v);
        rig_batch_fini(&b);
    }
    fleetgen_destroy(g);
}

static void what_cannot_be_a_batch_is_refused(void **state)
{
    struct fleetgen *g = rig_host(1);
    struct rig_batch b;

    rig_open(&rig);
    rig_batch(&b, g, 10);
    memset(b.host_name, 'x', sizeof b.host_name - 1);
    assert_ok(rig_put(&rig, &b)); /* 63 bytes are a name */
    rig_batch_fini(&b);
    rig_batch(&b, g, 10);
    b.received_ns += rig.conf.accept_age_ns;
    assert_err(rig_put(&rig, &b), ERR_RANGE);
    rig_batch_fini(&b);
    fleetgen_destroy(g);
}

static void a_host_beyond_the_limit_is_refused(void **state)
{
    struct fleetgen *g;
    struct rig_batch b;

    rig.conf.hosts_max = 2;
    rig_open(&rig);
    rig_put_host(&rig, 1, 1);
    rig_put_host(&rig, 2, 1);
    g = rig_host(3);
    rig_batch(&b, g, 10);
    assert_err(rig_put(&rig, &b), ERR_FULL);
    /* Once the data of the others is past its age, one of them gives place. */
    b.received_ns += 2 * rig.conf.accept_age_ns;
    assert_err(rig_put(&rig, &b), ERR_RANGE);
    rig_batch_fini(&b);
    fleetgen_destroy(g);
}

/* -- order of scans, infos -- */

struct order {
    int64_t last_ns;
    size_t n;
    size_t stop_after;
};

static enum err must_rise(void *ctx, const struct batch *b)
{
    struct order *o = ctx;

    assert_true(b->wall_ns[0] > o->last_ns);
    o->last_ns = b->wall_ns[0];
    o->n++;
    return o->n == o->stop_after ? ERR_END : ERR_OK;
}

static void a_scan_is_in_order_of_time_and_within_its_span(void **state)
{
    static const uint64_t order[] = {2, 1, 3, 0};
    struct fleetgen *g = rig_host(1);
    struct rig_batch b[4];
    struct order o = {0};
    struct store_view *v;

    rig_open(&rig);
    for (size_t i = 0; i < COUNT_OF(b); i++) {
        rig_batch(&b[i], g, 10);
    }
    for (size_t i = 0; i < COUNT_OF(b); i++) {
        assert_ok(rig_put(&rig, &b[order[i]]));
    }
    assert_ok(store_view_open(&v, rig.store));
    assert_ok(store_view_scan(v, 0, 0, INT64_MAX, must_rise, &o));
    assert_int_equal(o.n, 4);
    o = (struct order){.stop_after = 2};
    assert_err(store_view_scan(v, 0, 0, INT64_MAX, must_rise, &o), ERR_END);
    assert_int_equal(o.n, 2);
    o = (struct order){0};
    assert_ok(store_view_scan(v, 0, RIG_T0 + 10 * SECOND, RIG_T0 + 20 * SECOND, must_rise, &o));
    assert_int_equal(o.n, 1);
    store_view_close(v);
    for (size_t i = 0; i < COUNT_OF(b); i++) {
        rig_batch_fini(&b[i]);
    }
    fleetgen_destroy(g);
}

static void every_instance_of_a_batch_is_known_also_after_reopening(void **state)
{
    struct fleetgen *g = rig_host(1);
    struct rig_batch b;
    struct batch *decoded;

    rig_open(&rig);
    rig_batch(&b, g, 10);
    assert_ok(rig_put(&rig, &b));
    assert_ok(wire_batch_decode(&decoded, b.bytes, b.n));
    assert_true(decoded->n_infos >= 3);
    for (int life = 0; life < 2; life++) {
        struct proc_info nobody;
        struct store_view *v;

        assert_ok(store_view_open(&v, rig.store));
        for (size_t i = 0; i < decoded->n_infos; i++) {
            const struct proc_info *want = &decoded->infos[i];
            struct proc_info found;

            assert_true(store_info(v, 0, &b.head.boot, want->id, &found));
            assert_true(str_eq(found.name, want->name));
            assert_true(str_eq(found.command_line, want->command_line));
        }
        assert_false(
            store_info(v, 0, &b.head.host, decoded->infos[0].id, &nobody)); /* no such boot */
        store_view_close(v);
        rig_close(&rig);
        rig_open(&rig);
    }
    wire_batch_free(decoded);
    rig_batch_fini(&b);
    fleetgen_destroy(g);
}

/* -- limits of head and log -- */

static size_t log_files(void)
{
    struct store_stats stats;

    store_stats(rig.store, &stats);
    return (size_t)stats.log_files;
}

static void sealed_batches_leave_head_and_log_and_stay_duplicates(void **state)
{
    struct fleetgen *g = rig_host(1);
    struct rig_batch first;
    struct store_stats stats;

    rig_open(&rig);
    rig_batch(&first, g, 10);
    assert_ok(rig_put(&rig, &first));
    rig_put_next(&rig, g, 199); /* 2,000 s: the log changes files every 300 s */
    rig_set_now(RIG_T0 + 1500 * SECOND);
    assert_ok(store_seal_now(rig.store, rig_now())); /* five windows of thirty */
    assert_in_range(log_files(), 2, 3);
    for (int life = 0; life < 2; life++) {
        store_stats(rig.store, &stats);
        assert_int_equal(stats.head_batches, 50);
        assert_int_equal(rig_count_all(&rig), 200);
        assert_int_equal(rig_count(&rig, &first.head), 1);
        assert_err(rig_put(&rig, &first), ERR_EXISTS);
        rig_close(&rig);
        rig_open(&rig);
        assert_in_range(log_files(), 2, 3);
    }
    rig_batch_fini(&first);
    fleetgen_destroy(g);
}

/* -- views -- */

static void a_view_does_not_change_while_batches_come_and_go(void **state)
{
    struct store_view *v;
    struct order o = {0};

    rig_open(&rig);
    rig_put_host(&rig, 1, 5);
    assert_ok(store_view_open(&v, rig.store));
    rig_put_host(&rig, 2, 200);
    assert_ok(store_seal_now(rig.store, INT64_MAX)); /* takes all out of the head */
    assert_int_equal(store_view_hosts(v), 1);
    assert_int_equal(store_view_host(v, 0)->batches, 5);
    assert_ok(store_view_scan(v, 0, 0, INT64_MAX, must_rise, &o));
    assert_int_equal(o.n, 5);
    store_view_close(v);
}

struct reader {
    struct rig *rig;
    atomic_bool stop;
    size_t views;
};

static void read_for_ever(void *arg)
{
    struct reader *r = arg;

    while (!atomic_load(&r->stop)) {
        struct store_view *v;

        assert_ok(store_view_open(&v, r->rig->store));
        for (size_t i = 0; i < store_view_hosts(v); i++) {
            struct proc_info info;
            struct order o = {0};

            assert_ok(store_view_scan(v, i, 0, INT64_MAX, must_rise, &o));
            (void)store_info(v, i, &store_view_host(v, i)->boot, (struct proc_id){.pid = 4}, &info);
        }
        store_view_close(v);
        r->views++;
    }
}

static void readers_beside_the_writer_see_whole_batches(void **state)
{
    struct reader r = {.rig = &rig};
    struct os_thread *t;

    rig_open(&rig);
    assert_ok(os_thread_start(&t, "reader", read_for_ever, &r));
    for (uint64_t host = 1; host <= 4; host++) {
        rig_put_host(&rig, host, 75);
        assert_ok(store_seal_now(rig.store, RIG_T0 + 600 * SECOND));
    }
    atomic_store(&r.stop, true);
    os_thread_join(t);
    assert_true(r.views > 0);
}

/* -- callbacks -- */

struct heard {
    atomic_int n;
    atomic_int ok;
    uint64_t last_seq;
};

static void on_stored(void *ctx, const struct store_stored *stored)
{
    struct heard *h = ctx;
    const struct batch *b = stored->batch;
    struct batch *again;

    assert_int_equal(strncmp(stored->host_name, "gen-", 4), 0);
    assert_ok(wire_batch_decode(&again, stored->bytes, stored->n));
    assert_int_equal(again->head.seq, b->head.seq);
    wire_batch_free(again);
    assert_int_equal(b->head.seq, h->last_seq + 1);
    h->last_seq = b->head.seq;
    atomic_fetch_add(&h->n, 1);
}

static void count_done(void *ctx, enum err e)
{
    struct heard *h = ctx;

    atomic_fetch_add(&h->n, 1);
    atomic_fetch_add(&h->ok, e == ERR_OK);
}

static void stored_batches_are_told_in_order_and_not_again_by_recovery(void **state)
{
    struct heard h = {0};

    rig.conf.on_stored = on_stored;
    rig.conf.ctx = &h;
    rig_open(&rig);
    rig_put_host(&rig, 1, 20);
    rig_close(&rig);
    assert_int_equal(h.n, 20);
    rig_open(&rig);
    assert_int_equal(rig_count_all(&rig), 20);
    assert_int_equal(h.n, 20);
}

static void closing_commits_what_waits_and_calls_back_once(void **state)
{
    struct fleetgen *g = rig_host(1);
    struct heard h = {0};

    rig.conf.commit_gather_ns = 3600 * SECOND;
    rig_open(&rig);
    rig_put_host(&rig, 2, 1); /* the first commit is at once, the next one never by time */
    for (size_t i = 0; i < 50; i++) {
        struct rig_batch b;

        rig_batch(&b, g, 10);
        assert_ok(rig_put_async(&rig, &b, count_done, &h));
        assert_err(rig_put(&rig, &b), ERR_BUSY);
        rig_batch_fini(&b);
    }
    assert_int_equal(h.n, 0);
    rig_close(&rig);
    assert_int_equal(h.n, 50);
    assert_int_equal(h.ok, 50);
    rig_open(&rig);
    assert_int_equal(rig_count_all(&rig), 51);
    fleetgen_destroy(g);
}

static void many_waiting_batches_share_a_commit(void **state)
{
    struct fleetgen *g = rig_host(1);
    struct store_stats stats;
    struct heard h = {0};

    rig.conf.commit_gather_ns = 3600 * SECOND;
    rig_open(&rig);
    rig_put_host(&rig, 2, 1);
    for (size_t i = 0; i < 100; i++) {
        struct rig_batch b;

        rig_batch(&b, g, 10);
        assert_ok(rig_put_async(&rig, &b, count_done, &h));
        rig_batch_fini(&b);
    }
    rig.conf.commit_bytes = 1;
    store_stats(rig.store, &stats);
    assert_int_equal(stats.commits, 1);
    rig_close(&rig);
    rig_open(&rig);
    store_stats(rig.store, &stats);
    assert_int_equal(stats.recovered_batches, 101);
    fleetgen_destroy(g);
}

/* -- the directory -- */

static void a_second_store_in_the_same_directory_is_refused_with_a_reason(void **state)
{
    struct store *second;
    struct errmsg why;

    rig_open(&rig);
    assert_err(store_open(&second, &rig.conf, &why), ERR_BUSY);
    assert_non_null(strstr(why.text, rig.dir));
}

static void opening_survives_every_allocation_failing(void **state)
{
    long held;

    rig_open(&rig);
    rig_put_host(&rig, 1, 20);
    rig_put_host(&rig, 2, 3);
    rig_close(&rig);
    held = mem_live();
    for (long n = 0;; n++) {
        struct errmsg why;
        enum err e;

        mem_fail_after(n);
        e = store_open(&rig.store, &rig.conf, &why);
        mem_fail_after(-1);
        if (e == ERR_OK) {
            assert_true(n > 50);
            break;
        }
        assert_err(e, ERR_NOMEM);
        assert_int_equal(mem_live(), held);
        rig.store = NULL;
    }
    assert_int_equal(rig_count_all(&rig), 23);
}

static void putting_survives_every_allocation_failing(void **state)
{
    struct fleetgen *g = rig_host(1);
    struct rig_batch b[40];

    rig_open(&rig);
    for (size_t i = 0; i < COUNT_OF(b); i++) {
        rig_batch(&b[i], g, 10);
    }
    for (size_t i = 0; i < COUNT_OF(b); i++) {
        struct store_put put = {.bytes = b[i].bytes,
                                .n = b[i].n,
                                .host_name = b[i].host_name,
                                .received_ns = b[i].received_ns,
                                .done = count_done};
        struct heard h = {0};
        enum err e;

        put.ctx = &h;
        assert_ok(wire_batch_decode(&put.batch, b[i].bytes, b[i].n));
        mem_fail_after((long)i);
        e = store_put(rig.store, &put);
        if (e == ERR_OK) {
            rig_close(&rig); /* commits */
            mem_fail_after(-1);
            assert_int_equal(h.n, 1);
            rig_open(&rig);
        }
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        assert_int_equal(rig_count(&rig, &b[i].head), h.ok);
    }
    for (size_t i = 0; i < COUNT_OF(b); i++) {
        rig_batch_fini(&b[i]);
    }
    fleetgen_destroy(g);
}

static void a_lower_limit_on_hosts_loses_nothing_after_reopening(void **state)
{
    struct fleetgen *g[4];
    struct rig_batch b[4];

    for (size_t i = 0; i < COUNT_OF(b); i++) {
        g[i] = rig_host(i + 1);
        rig_batch(&b[i], g[i], 5);
    }
    rig.conf.hosts_max = 3;
    rig_open(&rig);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(rig_put(&rig, &b[i]));
    }
    assert_err(rig_put(&rig, &b[3]), ERR_FULL);
    rig.conf.hosts_max = 1;
    for (int life = 0; life < 3; life++) {
        rig_close(&rig);
        rig_open(&rig);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(rig_count(&rig, &b[i].head), 1);
            assert_err(rig_put(&rig, &b[i]), ERR_EXISTS);
        }
        assert_err(rig_put(&rig, &b[3]), ERR_FULL);
        if (life == 1) {
            assert_ok(store_seal_now(rig.store, INT64_MAX));
        }
    }
    for (size_t i = 0; i < COUNT_OF(b); i++) {
        rig_batch_fini(&b[i]);
        fleetgen_destroy(g[i]);
    }
}

static void stamps_that_sums_could_wrap_are_refused(void **state)
{
    static const struct {
        int64_t first_ns, last_ns;
        enum err e;
    } rows[] = {
        {0, WINDOW_STAMP_MAX, ERR_OK},    {-1, RIG_T0, ERR_INVALID},
        {INT64_MIN, RIG_T0, ERR_INVALID}, {RIG_T0, WINDOW_STAMP_MAX + 1, ERR_INVALID},
        {RIG_T0, INT64_MAX, ERR_INVALID},
    };
    struct life_event events[COUNT_OF(rows)][2]; /* the store's until it is closed */
    struct heard answers = {0};

    rig_open(&rig);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct fleetgen *g = rig_host(i + 1);
        struct batch *b;
        struct rig_batch from;
        struct store_put put = {.received_ns = RIG_T0, .done = count_done, .ctx = &answers};

        rig_batch(&from, g, 1);
        assert_ok(wire_batch_decode(&b, from.bytes, from.n));
        events[i][0] = (struct life_event){.kind = LIFE_PROCESS_START, .wall_ns = rows[i].last_ns};
        events[i][1] = (struct life_event){.kind = LIFE_PROCESS_STOP, .wall_ns = rows[i].first_ns};
        b->n_events = 2;
        b->events = events[i];
        put.batch = b;
        put.bytes = from.bytes;
        put.n = from.n;
        put.host_name = from.host_name;
        assert_err(store_put(rig.store, &put), rows[i].e);
        rig_batch_fini(&from);
        fleetgen_destroy(g);
    }
    rig_close(&rig);
}

static void monotonic_stamps_that_spans_could_wrap_are_refused(void **state)
{
    static const struct {
        int64_t first_ns, last_ns;
        enum err e;
    } rows[] = {
        {-WINDOW_MONO_MAX, WINDOW_MONO_MAX, ERR_OK},
        {INT64_MIN, INT64_MIN + 1, ERR_INVALID},
        {0, WINDOW_MONO_MAX + 1, ERR_INVALID},
    };
    struct fleetgen *g = rig_host(1);
    struct wire_encoder *enc;

    rig_open(&rig);
    assert_ok(wire_batch_encoder_create(&enc));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const int64_t mono_ns[2] = {rows[i].first_ns, rows[i].last_ns};
        struct rig_batch odd;
        struct buf bytes;
        struct batch b;

        rig_batch(&odd, g, 1);
        b = *fleetgen_batch(g, 2);
        b.mono_ns = mono_ns;
        b.head.seq = odd.head.seq;
        buf_init(&bytes, WIRE_BATCH_BYTES_MAX);
        mem_free(odd.bytes);
        assert_ok(wire_batch_encode(enc, &bytes, &b));
        odd.bytes = bytes.p;
        odd.n = bytes.n;
        assert_err(rig_put(&rig, &odd), rows[i].e);
        rig_batch_fini(&odd);
    }
    wire_batch_encoder_destroy(enc);
    assert_ok(store_seal_now(rig.store, INT64_MAX));
    fleetgen_destroy(g);
}

#define T(f) cmocka_unit_test_prestate_setup_teardown(f, rig_setup, rig_teardown, &rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_stored_batch_is_in_the_answers_and_after_reopening),
        T(a_repeat_is_a_duplicate_before_and_after_reopening),
        T(an_agent_restarted_in_the_same_boot_is_no_duplicate),
        T(missing_numbers_are_gaps_until_they_arrive),
        T(what_cannot_be_a_batch_is_refused),
        T(a_host_beyond_the_limit_is_refused),
        T(a_scan_is_in_order_of_time_and_within_its_span),
        T(every_instance_of_a_batch_is_known_also_after_reopening),
        T(sealed_batches_leave_head_and_log_and_stay_duplicates),
        T(a_view_does_not_change_while_batches_come_and_go),
        T(readers_beside_the_writer_see_whole_batches),
        T(stored_batches_are_told_in_order_and_not_again_by_recovery),
        T(closing_commits_what_waits_and_calls_back_once),
        T(many_waiting_batches_share_a_commit),
        T(a_second_store_in_the_same_directory_is_refused_with_a_reason),
        T(opening_survives_every_allocation_failing),
        T(putting_survives_every_allocation_failing),
        T(a_lower_limit_on_hosts_loses_nothing_after_reopening),
        T(stamps_that_sums_could_wrap_are_refused),
        T(monotonic_stamps_that_spans_could_wrap_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
