#include "agent/spool/spool_disk.h"

#include <stdlib.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/agent/spool/spool_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"

#define NOW_NS (1700000000 * CLK_S)
#define AGE_NS (3600 * CLK_S)

static struct spool_disk *open_small(void)
{
    return rig_disk_open(fio_unsynced(), SPOOL_BYTES_MIN);
}

static enum err put_at(struct spool_disk *d, int64_t when_ns)
{
    struct buf b;
    enum err e;

    buf_init(&b, SPOOL_BATCH_MAX);
    rig_batch(&b, spool_disk_stream(d), spool_disk_next_seq(d));
    e = spool_disk_add(d, when_ns, b.p, b.n);
    buf_fini(&b);
    return e ? e : spool_disk_commit(d);
}

static void put(struct spool_disk *d, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        assert_ok(put_at(d, NOW_NS));
    }
}

/* Takes everything that is left, in the order given out; gives how many. */
static size_t take_all(struct spool_disk *d, uint64_t *seqs, size_t max)
{
    struct spool_taken t;
    size_t n = 0;

    while (spool_disk_next(d, &rig_content, &t) == ERR_OK) {
        assert_true(n < max);
        seqs[n++] = t.seq;
        spool_disk_ack(d, &t);
    }
    return n;
}

/* Whether each number from `first` on is there once. */
static void check_all(const uint64_t *seqs, size_t n, uint64_t first)
{
    for (uint64_t want = first; want < first + n; want++) {
        size_t found = 0;

        for (size_t i = 0; i < n; i++) {
            found += seqs[i] == want;
        }
        assert_int_equal(found, 1);
    }
}

static void what_was_committed_comes_back_after_reopening(void **state)
{
    struct spool_disk *d = open_small();
    uint64_t stream = spool_disk_stream(d), seqs[16];

    put(d, 5);
    spool_disk_close(d);
    d = open_small();
    assert_int_equal(rig_disk_stats(d).held, 5);
    assert_int_equal(spool_disk_stream(d), stream);
    assert_int_equal(spool_disk_next_seq(d), 6);
    put(d, 1);
    assert_int_equal(take_all(d, seqs, 16), 6);
    check_all(seqs, 6, 1);
    assert_int_equal(rig_disk_stats(d).held, 0);
    spool_disk_close(d);
}

static void without_a_backlog_everything_leaves_in_order(void **state)
{
    struct spool_disk *d = open_small();
    uint64_t seqs[4];

    for (uint64_t i = 1; i <= 50; i++) {
        put(d, 1);
        assert_int_equal(take_all(d, seqs, 4), 1);
        assert_int_equal(seqs[0], i);
    }
    spool_disk_close(d);
}

static void after_an_outage_the_newest_takes_turns_with_the_backlog(void **state)
{
    struct spool_disk *d = open_small();
    uint64_t seqs[300], newest_at = 0;
    size_t n;

    for (unsigned i = 0; i < 100; i++) {
        assert_ok(put_at(d, NOW_NS + i * 10 * CLK_S));
    }
    n = take_all(d, seqs, COUNT_OF(seqs));
    assert_int_equal(n, 100);
    check_all(seqs, n, 1);
    for (size_t i = 0; i < n; i++) {
        newest_at = seqs[i] == 100 ? i : newest_at;
    }
    assert_true(newest_at <= 2);
    put(d, 1);
    assert_int_equal(take_all(d, seqs, COUNT_OF(seqs)), 1);
    assert_int_equal(seqs[0], 101);
    spool_disk_close(d);
}

static void batches_in_hand_are_given_once_and_done_in_any_order(void **state)
{
    struct spool_disk *d = open_small();
    struct spool_taken t[SPOOL_INFLIGHT_MAX], more;
    uint64_t seqs[128];
    size_t n;

    put(d, 100);
    for (unsigned i = 0; i < SPOOL_INFLIGHT_MAX; i++) {
        assert_ok(spool_disk_next(d, &rig_content, &t[i]));
        for (unsigned k = 0; k < i; k++) {
            assert_int_not_equal(t[k].seq, t[i].seq);
        }
    }
    assert_err(spool_disk_next(d, &rig_content, &more), ERR_FULL);
    spool_disk_return(d, &t[3]);
    assert_ok(spool_disk_next(d, &rig_content, &more));
    assert_int_equal(more.seq, t[3].seq);
    for (unsigned i = SPOOL_INFLIGHT_MAX; i-- > 0;) {
        spool_disk_ack(d, &t[i]);
    }
    assert_int_equal(rig_disk_stats(d).held, 100 - SPOOL_INFLIGHT_MAX);
    n = take_all(d, seqs, COUNT_OF(seqs));
    assert_int_equal(n, 100 - SPOOL_INFLIGHT_MAX);
    for (size_t i = 0; i < n; i++) {
        for (unsigned k = 0; k < SPOOL_INFLIGHT_MAX; k++) {
            assert_int_not_equal(seqs[i], t[k].seq);
        }
    }
    assert_int_equal(rig_disk_stats(d).segments, 1);
    spool_disk_close(d);
}

static void what_the_collector_holds_is_not_sent(void **state)
{
    struct spool_disk *d = open_small();
    uint64_t seqs[16];

    put(d, 8);
    assert_int_equal(spool_disk_ack_upto(d, spool_disk_stream(d) + 1, 5), 0);
    assert_int_equal(spool_disk_ack_upto(d, spool_disk_stream(d), 5), 5);
    assert_int_equal(rig_disk_stats(d).held, 3);
    assert_int_equal(take_all(d, seqs, 16), 3);
    check_all(seqs, 3, 6);
    spool_disk_close(d);
}

static void files_go_when_all_of_them_is_done(void **state)
{
    struct spool_disk *d = open_small();
    uint64_t seqs[2000];
    size_t n;

    put(d, 1000);
    assert_true(rig_disk_stats(d).segments > 2);
    n = take_all(d, seqs, COUNT_OF(seqs));
    assert_int_equal(n, 1000);
    check_all(seqs, n, 1);
    assert_int_equal(rig_disk_stats(d).segments, 1);
    spool_disk_close(d);
}

static void after_an_orderly_end_nothing_is_sent_again(void **state)
{
    struct spool_disk *d = open_small();
    uint64_t stream = spool_disk_stream(d), seqs[16];

    put(d, 5);
    spool_disk_tidy(d);
    assert_int_equal(rig_disk_stats(d).held, 5); /* not all is done: nothing happens */
    assert_int_equal(take_all(d, seqs, 16), 5);
    for (unsigned again = 0; again < 3; again++) {
        spool_disk_tidy(d);
        spool_disk_close(d);
        d = open_small();
        spool_disk_expire(d, NOW_NS + 2 * AGE_NS);
        assert_int_equal(rig_disk_stats(d).held, 0);
        assert_int_equal(rig_disk_stats(d).segments, 1);
        assert_int_equal(spool_disk_stream(d), stream);
        assert_int_equal(spool_disk_next_seq(d), 6);
    }
    put(d, 1);
    assert_int_equal(take_all(d, seqs, 16), 1);
    assert_int_equal(seqs[0], 6);
    spool_disk_close(d);
}

/* Sums over everything that leaves. */
struct sums {
    uint64_t batches, rows, events, rows_told, events_told;
};

static struct sums sum_all(struct spool_disk *d)
{
    struct sums s = {0};
    struct spool_taken t;

    while (spool_disk_next(d, &rig_content, &t) == ERR_OK) {
        struct batch *b;

        assert_ok(wire_batch_decode(&b, t.p, t.n));
        assert_int_equal(b->head.seq, t.seq);
        for (size_t i = 0; i < b->n_runs; i++) {
            s.rows += b->runs[i].n_ticks;
        }
        s.batches++;
        s.events += b->n_events;
        s.rows_told += rig_told(b, "metrics_dropped");
        s.events_told += rig_told(b, "events_dropped");
        wire_batch_free(b);
        spool_disk_ack(d, &t);
    }
    return s;
}

/* What is in hand while its file goes for want of room is still sent, or counted when it comes
 * back. */
static void what_is_in_hand_when_its_file_goes_is_counted_once(void **state)
{
    struct spool_disk *d = open_small();
    struct spool_taken sent, unsent;
    struct buf kept[2];
    uint64_t n = 10000;

    buf_init(&kept[0], SPOOL_BATCH_MAX);
    buf_init(&kept[1], SPOOL_BATCH_MAX);
    put(d, 2);
    assert_ok(spool_disk_next(d, &kept[0], &sent));
    assert_ok(spool_disk_next(d, &kept[1], &unsent));
    put(d, (unsigned)n - 2);
    assert_true(rig_disk_stats(d).dropped.batches > 0);
    assert_int_equal(rig_disk_stats(d).dropped.batches + rig_disk_stats(d).held, n);
    spool_disk_ack(d, &sent);
    spool_disk_return(d, &unsent);
    assert_int_equal(rig_disk_stats(d).dropped.batches + rig_disk_stats(d).held, n - 1);
    assert_int_equal(sum_all(d).batches, n - 1 - rig_disk_stats(d).dropped.batches);
    assert_int_equal(rig_disk_stats(d).held, 0);
    buf_fini(&kept[0]);
    buf_fini(&kept[1]);
    spool_disk_close(d);
}

static void above_the_limit_samples_go_before_events_and_all_is_told(void **state)
{
    static const struct {
        unsigned batches;
        bool lose_events, lose_batches;
    } cases[] = {{4200, false, false}, {5500, true, false}, {10000, true, true}};

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct spool_disk *d = open_small();
        uint64_t put_n = cases[i].batches;
        struct spool_disk_stats before, after;
        struct sums s;

        put(d, cases[i].batches);
        before = rig_disk_stats(d);
        assert_true(before.bytes <= SPOOL_BYTES_MIN);
        s = sum_all(d);
        after = rig_disk_stats(d);
        assert_int_equal(after.held, 0);
        assert_int_equal(after.held_bytes, 0);
        assert_true(s.rows < put_n * RIG_ROWS);
        assert_int_equal(s.events < put_n * RIG_EVENTS, cases[i].lose_events);
        assert_int_equal(s.batches < put_n, cases[i].lose_batches);
        assert_int_equal(s.batches + before.dropped.batches, put_n);
        if (!cases[i].lose_batches) {
            assert_int_equal(s.rows + s.rows_told, put_n * RIG_ROWS);
            assert_int_equal(s.events + s.events_told, put_n * RIG_EVENTS);
        }
        if (!cases[i].lose_events) {
            assert_int_equal(s.events, put_n * RIG_EVENTS);
        }
        spool_disk_close(d);
        support_empty_dir(rig_dir);
    }
}

static void what_is_too_old_goes_and_is_counted(void **state)
{
    struct spool_disk *d = open_small();
    struct spool_disk_stats s;

    put(d, 3);
    spool_disk_close(d);
    d = open_small();
    spool_disk_expire(d, NOW_NS + AGE_NS);
    assert_int_equal(rig_disk_stats(d).held, 3);
    spool_disk_expire(d, NOW_NS + AGE_NS + 1);
    s = rig_disk_stats(d);
    assert_int_equal(s.held, 0);
    assert_int_equal(s.expired.batches, 3);
    assert_int_equal(s.expired.rows, 3 * RIG_ROWS);
    assert_int_equal(s.expired.events, 3 * RIG_EVENTS);
    put(d, 1);
    spool_disk_close(d);
}

/* -- damage -- */

/* What three batches leave behind. */
struct left {
    uint64_t stream, ends[4]; /* where the n-th one ends */
    uint8_t *segment, *mark;
    size_t n, mark_n;
};

static const char *mark_path(void)
{
    static char path[300];

    (void)snprintf(path, sizeof path, "%s/mark", rig_dir);
    return path;
}

static void leave_three(struct left *l)
{
    struct spool_disk *d = open_small();

    l->stream = spool_disk_stream(d);
    for (unsigned i = 0; i < 4; i++) {
        l->ends[i] = rig_disk_stats(d).bytes;
        put(d, i < 3);
    }
    spool_disk_close(d);
    assert_ok(os_read_file(&l->segment, &l->n, rig_segment_path(1), 1 << 20));
    assert_ok(os_read_file(&l->mark, &l->mark_n, mark_path(), 1 << 10));
}

static void free_three(struct left *l)
{
    mem_free(l->segment);
    mem_free(l->mark);
}

/* Opened with the segment cut off and so much of the mark. */
static struct spool_disk *open_cut(const struct left *l, size_t cut, size_t mark_n)
{
    err_ignore(os_remove(rig_segment_path(2)));
    support_write_file(rig_segment_path(1), l->segment, cut);
    support_write_file(mark_path(), l->mark, mark_n);
    return open_small();
}

static void a_file_cut_at_any_byte_keeps_the_batches_before_the_cut(void **state)
{
    struct left l;
    uint64_t seqs[8];

    leave_three(&l);
    for (size_t cut = 0; cut <= l.n; cut++) {
        struct spool_disk *d = open_cut(&l, cut, l.mark_n);
        size_t want = 0;

        for (unsigned i = 1; i < 4; i++) {
            want += cut >= l.ends[i];
        }
        assert_int_equal(rig_disk_stats(d).held, want);
        put(d, 1);
        assert_int_equal(take_all(d, seqs, 8), want + 1);
        spool_disk_close(d);
    }
    free_three(&l);
}

static void no_number_is_given_twice_wherever_a_file_is_cut(void **state)
{
    struct left l;

    leave_three(&l);
    for (size_t cut = 0; cut <= l.n; cut++) {
        struct spool_disk *d = open_cut(&l, cut, l.mark_n);

        if (cut == l.n) { /* nothing is missing: it goes on */
            assert_int_equal(spool_disk_stream(d), l.stream);
            assert_int_equal(spool_disk_next_seq(d), 4);
            assert_int_equal(rig_disk_stats(d).forgotten, 0);
        } else {
            assert_int_not_equal(spool_disk_stream(d), l.stream);
            assert_int_equal(spool_disk_next_seq(d), 1);
        }
        if (cut >= l.ends[1]) {
            assert_int_equal(rig_disk_stats(d).forgotten, cut < l.n ? 1 + (cut < l.ends[2]) : 0);
        }
        spool_disk_close(d);
    }
    free_three(&l);
}

static void without_a_whole_mark_a_torn_end_begins_a_stream(void **state)
{
    struct left l;

    leave_three(&l);
    for (size_t mark_n = 0; mark_n <= l.mark_n; mark_n++) {
        struct spool_disk *d = open_cut(&l, l.n - 1, mark_n);

        assert_int_not_equal(spool_disk_stream(d), l.stream);
        spool_disk_close(d);
        d = open_cut(&l, l.n, mark_n);
        assert_int_equal(spool_disk_stream(d), l.stream);
        assert_int_equal(spool_disk_next_seq(d), 4);
        spool_disk_close(d);
    }
    free_three(&l);
}

static void a_mark_from_before_the_last_commits_changes_nothing(void **state)
{
    struct spool_disk *d = open_small();
    uint64_t stream = spool_disk_stream(d);
    uint8_t *mark;
    size_t n;

    put(d, 1);
    spool_disk_close(d);
    assert_ok(os_read_file(&mark, &n, mark_path(), 1 << 10));
    d = open_small();
    put(d, 2);
    spool_disk_close(d);
    support_write_file(mark_path(), mark, n);
    mem_free(mark);
    d = open_small();
    assert_int_equal(spool_disk_stream(d), stream);
    assert_int_equal(spool_disk_next_seq(d), 4);
    spool_disk_close(d);
}

static void what_memory_alone_held_makes_the_newest_batch_older(void **state)
{
    struct spool_disk *d = open_small();

    spool_disk_memory(d, NOW_NS - 5 * CLK_S);
    put(d, 2);
    spool_disk_close(d);
    d = open_small();
    assert_int_equal(rig_disk_stats(d).newest_ns, NOW_NS - 5 * CLK_S);
    spool_disk_memory(d, 0);
    put(d, 1);
    spool_disk_close(d);
    d = open_small();
    assert_int_equal(rig_disk_stats(d).newest_ns, NOW_NS);
    spool_disk_close(d);
}

static void every_flipped_bit_is_found_and_costs_one_batch_at_most(void **state)
{
    struct spool_disk *d = open_small();
    uint8_t *bytes;
    size_t n;

    put(d, 3);
    spool_disk_close(d);
    assert_ok(os_read_file(&bytes, &n, rig_segment_path(1), 1 << 20));
    for (size_t bit = 0; bit < n * 8; bit += bit % 61 == 0 ? 1 : 5) {
        struct spool_disk_conf conf = {rig_dir, fio_unsynced(), SPOOL_BYTES_MIN, AGE_NS};
        struct errmsg why;
        struct sums s;
        enum err e;

        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        support_write_file(rig_segment_path(1), bytes, n);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        e = spool_disk_open(&d, &conf, &why);
        assert_ok(e);
        s = sum_all(d); /* decodes: what comes out is what went in */
        assert_int_equal(s.batches, bit / 8 < SPOOL_HEADER_BYTES ? 3 : 2);
        assert_true(rig_disk_stats(d).unreadable + rig_disk_stats(d).torn_bytes +
                        rig_disk_stats(d).damaged_headers >
                    0);
        spool_disk_close(d);
        err_ignore(os_remove(rig_segment_path(1)));
    }
    mem_free(bytes);
}

static void other_files_are_left_alone(void **state)
{
    static const char *const names[] = {"notes.txt", "spool-1.seg", "spool-000000000000000g.seg"};
    char path[400];
    struct spool_disk *d;

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", rig_dir, names[i]);
        support_write_file(path, (const uint8_t *)"x", 1);
    }
    d = open_small();
    put(d, 1);
    assert_int_equal(rig_disk_stats(d).foreign, COUNT_OF(names));
    spool_disk_close(d);
    assert_true(os_exists(path));
}

/* -- faults -- */

static void every_failing_operation_loses_nothing_that_was_committed(void **state)
{
    for (long after = 0; after < 40; after++) {
        struct fio_fault *fault;
        struct spool_disk *d;
        uint64_t seqs[64];
        size_t good = 0;

        assert_ok(fio_fault_create(&fault));
        d = rig_disk_open(fio_fault_fio(fault), SPOOL_BYTES_MIN);
        put(d, 2);
        fio_fault_fail(fault, FIO_CREATE | FIO_WRITE | FIO_SYNC | FIO_SYNC_DIR, after, ERR_IO,
                       false);
        for (unsigned i = 0; i < 10; i++) {
            if (put_at(d, NOW_NS) == ERR_OK) {
                good++;
            } else {
                spool_disk_renew(d, spool_disk_stream(d) + 1, 1);
            }
        }
        assert_true(good >= 9);
        assert_int_equal(take_all(d, seqs, 64), good + 2);
        spool_disk_close(d);
        fio_fault_destroy(fault);
        support_empty_dir(rig_dir);
    }
}

static void a_power_cut_loses_nothing_that_was_committed(void **state)
{
    static const enum fio_fault_keep keeps[] = {FIO_KEEP_NOTHING, FIO_KEEP_PREFIX,
                                                FIO_KEEP_SECTORS};

    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct fio_fault *fault;
        struct spool_disk *d;
        uint64_t seqs[64];
        size_t good, found;
        struct buf b;

        buf_init(&b, SPOOL_BATCH_MAX);
        assert_ok(fio_fault_create(&fault));
        d = rig_disk_open(fio_fault_fio(fault), SPOOL_BYTES_MIN);
        good = seed % 7;
        put(d, (unsigned)good);
        rig_batch(&b, spool_disk_stream(d), good + 1);
        assert_ok(spool_disk_add(d, NOW_NS, b.p, b.n));
        fio_fault_fail(fault, FIO_SYNC, 0, ERR_IO, true); /* the power goes before the sync ends */
        assert_true(spool_disk_commit(d) != ERR_OK);
        fio_fault_power_cut(fault, keeps[seed % 3], seed);
        spool_disk_close(d);
        fio_fault_destroy(fault);
        d = open_small();
        found = take_all(d, seqs, 64);
        assert_in_range(found, good, good + 1);
        check_all(seqs, found, 1);
        spool_disk_close(d);
        buf_fini(&b);
        support_empty_dir(rig_dir);
    }
}

static void a_full_disk_ends_the_commit_and_is_found_again(void **state)
{
    struct fio_fault *fault;
    struct spool_disk *d;

    assert_ok(fio_fault_create(&fault));
    d = rig_disk_open(fio_fault_fio(fault), SPOOL_BYTES_MIN);
    put(d, 1);
    fio_fault_disk_full(fault, 10);
    assert_err(put_at(d, NOW_NS), ERR_NOSPACE);
    assert_err(spool_disk_probe(d, 5000), ERR_NOSPACE);
    fio_fault_disk_full(fault, 1 << 20);
    assert_ok(spool_disk_probe(d, 5000));
    spool_disk_renew(d, 77, 1);
    put(d, 1);
    assert_int_equal(rig_disk_stats(d).held, 2);
    spool_disk_close(d);
    d = open_small();
    assert_int_equal(spool_disk_stream(d), 77);
    assert_int_equal(spool_disk_next_seq(d), 2);
    spool_disk_close(d);
    fio_fault_destroy(fault);
}

static void every_failing_allocation_leaves_the_spool_as_it_was(void **state)
{
    struct spool_disk_conf conf = {rig_dir, fio_unsynced(), SPOOL_BYTES_MIN, AGE_NS};
    struct spool_disk *d = open_small();
    struct errmsg why;
    uint64_t seqs[64];
    long before;

    put(d, 3);
    spool_disk_close(d);
    before = mem_live();
    for (long n = 0;; n++) {
        enum err e;

        mem_fail_after(n);
        e = spool_disk_open(&d, &conf, &why);
        if (e == ERR_OK) {
            break;
        }
        assert_err(e, ERR_NOMEM);
        assert_int_equal(mem_live(), before);
        assert_true(n < 1000);
    }
    for (long n = 0; n < 30; n++) {
        struct spool_taken t;
        struct buf b;
        enum err e;

        mem_fail_after(-1);
        buf_init(&b, SPOOL_BATCH_MAX);
        rig_batch(&b, spool_disk_stream(d), spool_disk_next_seq(d));
        mem_fail_after(n);
        e = spool_disk_add(d, NOW_NS, b.p, b.n);
        if (!e) {
            e = spool_disk_commit(d);
        }
        if (!e && spool_disk_next(d, &rig_content, &t) == ERR_OK) {
            spool_disk_return(d, &t);
        }
        buf_fini(&b);
    }
    mem_fail_after(-1);
    assert_int_equal(take_all(d, seqs, 64), rig_disk_stats(d).batches + 3);
    spool_disk_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
        T(what_was_committed_comes_back_after_reopening),
        T(without_a_backlog_everything_leaves_in_order),
        T(after_an_outage_the_newest_takes_turns_with_the_backlog),
        T(batches_in_hand_are_given_once_and_done_in_any_order),
        T(what_is_in_hand_when_its_file_goes_is_counted_once),
        T(what_the_collector_holds_is_not_sent),
        T(files_go_when_all_of_them_is_done),
        T(after_an_orderly_end_nothing_is_sent_again),
        T(above_the_limit_samples_go_before_events_and_all_is_told),
        T(what_is_too_old_goes_and_is_counted),
        T(a_file_cut_at_any_byte_keeps_the_batches_before_the_cut),
        T(no_number_is_given_twice_wherever_a_file_is_cut),
        T(without_a_whole_mark_a_torn_end_begins_a_stream),
        T(a_mark_from_before_the_last_commits_changes_nothing),
        T(what_memory_alone_held_makes_the_newest_batch_older),
        T(every_flipped_bit_is_found_and_costs_one_batch_at_most),
        T(other_files_are_left_alone),
        T(every_failing_operation_loses_nothing_that_was_committed),
        T(a_power_cut_loses_nothing_that_was_committed),
        T(a_full_disk_ends_the_commit_and_is_found_again),
        T(every_failing_allocation_leaves_the_spool_as_it_was),
#undef T
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
