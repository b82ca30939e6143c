#include <string.h>

#include "common/base/clk.h"
#include "common/os/os.h"
#include "tests/collector/subscribe/journal_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

/* -- reading back -- */

static void a_record_is_read_as_it_was_appended(void **state)
{
    struct journal *j = journal_rig_open();
    struct journal_record in = journal_rig_event(3, 9, 300), out;
    uint64_t from = 0;
    struct buf b;

    in.last_batch = 11;
    in.topic = FEED_SAMPLE;
    assert_ok(journal_append(j, &in, journal_rig_payload(9, 300)));
    assert_ok(journal_sync(j));
    buf_init(&b, 1 << 20);
    assert_ok(journal_next(j, &from, NULL, NULL, &out, &b));
    assert_int_equal(out.position, in.position);
    assert_int_equal(out.seq, 1);
    assert_int_equal(out.topic, FEED_SAMPLE);
    assert_memory_equal(out.host.b, in.host.b, 16);
    assert_string_equal(out.name, "host-3");
    assert_int_equal(out.stream, 7);
    assert_int_equal(out.batch, 9);
    assert_int_equal(out.last_batch, 11);
    assert_int_equal(out.stored_ns, JOURNAL_RIG_T0 + 9);
    assert_int_equal(out.first_ns, 1);
    assert_int_equal(out.last_ns, 2);
    assert_int_equal(out.n, 300);
    assert_int_equal(b.n, 300);
    assert_memory_equal(b.p, journal_rig_payload(9, 300), 300);
    assert_int_equal(from, in.position + 1);
    assert_err(journal_next(j, &from, NULL, NULL, &out, &b), ERR_END);
    buf_fini(&b);
    journal_close(j);
}

static void nobody_sees_a_record_before_it_is_synced(void **state)
{
    struct journal *j = journal_rig_open();
    uint64_t first, next;

    (void)journal_rig_add(j, 1, 1);
    journal_range(j, &first, &next);
    assert_int_equal(first, next);
    assert_int_equal(journal_rig_count(j), 0);
    assert_int_equal(journal_rig_last(j, "host-1"), 0);
    assert_ok(journal_sync(j));
    journal_range(j, &first, &next);
    assert_int_equal(next, first + 1);
    assert_int_equal(journal_rig_count(j), 1);
    assert_int_equal(journal_rig_last(j, "host-1"), 1);
    journal_close(j);
}

static bool of_host_2(void *ctx, const struct journal_record *r)
{
    (*(size_t *)ctx)++;
    return strcmp(r->name, "host-2") == 0;
}

static void next_gives_what_the_reader_wants_and_goes_behind_it(void **state)
{
    struct journal *j = journal_rig_open();
    struct journal_record r;
    uint64_t from = 0;
    size_t asked = 0, got = 0;

    for (uint64_t b = 1; b <= 100; b++) {
        (void)journal_rig_add(j, b % 10 == 0 ? 2 : 1, b);
    }
    assert_ok(journal_sync(j));
    while (journal_next(j, &from, of_host_2, &asked, &r, NULL) == ERR_OK) {
        got++;
        assert_int_equal(r.batch, got * 10);
        assert_int_equal(r.seq, got);
    }
    assert_int_equal(got, 10);
    assert_int_equal(asked, 100);
    assert_int_equal(from, 101);
    journal_close(j);
}

static void find_gives_the_smallest_number_that_is_enough(void **state)
{
    struct journal *j = journal_rig_open();
    struct journal_record r;
    uint64_t last;

    (void)journal_rig_add(j, 1, 1);
    r = journal_rig_event(1, 1, JOURNAL_PAYLOAD_MAX + 1); /* refused, and 2 is used up */
    assert_err(journal_append(j, &r, ""), ERR_INVALID);
    assert_int_equal(r.seq, 2);
    (void)journal_rig_add(j, 2, 1);
    (void)journal_rig_add(j, 1, 2);
    assert_ok(journal_sync(j));
    assert_ok(journal_find(j, FEED_EVENT, "host-1", 2, &r, NULL, &last));
    assert_int_equal(r.seq, 3);
    assert_int_equal(last, 3);
    assert_err(journal_find(j, FEED_EVENT, "host-1", 4, &r, NULL, &last), ERR_END);
    assert_int_equal(last, 3);
    assert_err(journal_find(j, FEED_SAMPLE, "host-1", 1, &r, NULL, &last), ERR_END);
    assert_err(journal_find(j, FEED_EVENT, "host-9", 1, &r, NULL, &last), ERR_END);
    assert_int_equal(last, 0);
    journal_close(j);
}

static void has_knows_ranges_and_wants_the_last_part(void **state)
{
    struct journal *j = journal_rig_open();
    struct journal_record r = journal_rig_event(1, 5, 300);

    r.last_batch = 7;
    assert_ok(journal_append(j, &r, journal_rig_payload(5, 300)));
    r = journal_rig_event(1, 8, 300);
    r.more = true;
    assert_ok(journal_append(j, &r, journal_rig_payload(8, 300)));
    assert_ok(journal_sync(j));
    assert_false(journal_has(j, FEED_EVENT, "host-1", &(struct journal_batch){7, 4, INT64_MIN, 0}));
    assert_true(journal_has(j, FEED_EVENT, "host-1", &(struct journal_batch){7, 5, INT64_MIN, 0}));
    assert_true(journal_has(j, FEED_EVENT, "host-1", &(struct journal_batch){7, 7, INT64_MIN, 0}));
    assert_false(journal_has(j, FEED_EVENT, "host-1", &(struct journal_batch){7, 8, INT64_MIN, 0}));
    assert_false(journal_has(j, FEED_EVENT, "host-1", &(struct journal_batch){6, 5, INT64_MIN, 0}));
    assert_false(
        journal_has(j, FEED_SAMPLE, "host-1", &(struct journal_batch){7, 5, INT64_MIN, 0}));
    assert_false(journal_has(j, FEED_EVENT, "host-2", &(struct journal_batch){7, 5, INT64_MIN, 0}));
    journal_close(j);
}

static void has_looks_no_further_back_than_asked(void **state)
{
    struct journal *j = journal_rig_open();

    for (uint64_t b = 1; b <= 9; b++) {
        journal_rig_add_synced(j, 1, b);
    }
    for (uint64_t b = 1; b <= 9; b++) {
        const struct journal_batch key = {7, b, JOURNAL_RIG_T0 + 5, 0};

        assert_int_equal(journal_has(j, FEED_EVENT, "host-1", &key), b >= 5);
    }
    for (uint64_t b = 1; b <= 9; b++) { /* records are numbered as the batches are */
        const struct journal_batch key = {7, b, INT64_MIN, 6};

        assert_int_equal(journal_has(j, FEED_EVENT, "host-1", &key), b < 6);
    }
    journal_close(j);
}

static void has_takes_no_gap_for_a_batch(void **state)
{
    struct journal *j = journal_rig_open();
    struct journal_record gap = journal_rig_event(1, 1, 0);

    gap.stream = 0;
    gap.last_batch = 3;
    assert_ok(journal_append(j, &gap, ""));
    assert_ok(journal_sync(j));
    assert_false(journal_has(j, FEED_EVENT, "host-1", &(struct journal_batch){0, 2, INT64_MIN, 0}));
    journal_close(j);
}

static void what_is_over_a_bound_is_refused_and_uses_its_number(void **state)
{
    struct journal_conf conf = journal_rig_conf(fio_unsynced());
    struct journal *j;
    struct journal_record r = journal_rig_event(1, 1, JOURNAL_PAYLOAD_MAX + 1);

    conf.hosts_max = 2;
    j = journal_rig_open_with(&conf);
    assert_err(journal_append(j, &r, ""), ERR_INVALID);
    assert_int_equal(journal_rig_add(j, 1, 1).seq, 2);
    (void)journal_rig_add(j, 2, 1);
    r = journal_rig_event(3, 1, 10);
    assert_err(journal_append(j, &r, "0123456789"), ERR_FULL);
    assert_ok(journal_sync(j));
    assert_int_equal(journal_rig_count(j), 2);
    journal_close(j);
}

/* -- reopening -- */

static void numbers_go_on_after_reopening(void **state)
{
    struct journal *j = journal_rig_open();
    uint64_t epoch = journal_epoch(j);
    struct journal_record r;

    assert_true(epoch != 0);
    for (uint64_t b = 1; b <= 5; b++) {
        journal_rig_add_synced(j, 1, b);
        journal_close(j);
        j = journal_rig_open();
    }
    assert_int_equal(journal_epoch(j), epoch);
    assert_int_equal(journal_rig_count(j), 5);
    assert_true(journal_has(j, FEED_EVENT, "host-1", &(struct journal_batch){7, 5, INT64_MIN, 0}));
    r = journal_rig_add(j, 1, 6);
    assert_int_equal(r.seq, 6);
    assert_int_equal(r.position, 6);
    journal_close(j);
}

static void numbers_of_a_quiet_topic_outlive_its_records(void **state)
{
    struct journal *j = journal_rig_open();

    journal_rig_add_synced(j, 1, 1);
    journal_rig_add_synced(j, 1, 2);
    for (uint64_t b = 1; b <= 60; b++) { /* 6 MB */
        assert_ok(journal_rig_add_noise(j, 2, b, 100000));
        journal_trim(j, JOURNAL_RIG_T0, NULL, NULL);
    }
    assert_int_equal(journal_rig_count_batch(j, 1), 0);
    journal_close(j);
    j = journal_rig_open();
    assert_int_equal(journal_rig_last(j, "host-1"), 2);
    assert_int_equal(journal_rig_add(j, 1, 3).seq, 3);
    journal_close(j);
}

static void a_forgotten_topic_does_not_begin_anew(void **state)
{
    struct journal_conf conf = journal_rig_conf(fio_unsynced());
    struct journal *j;

    conf.hosts_max = 2;
    j = journal_rig_open_with(&conf);
    journal_rig_add_synced(j, 1, 1);
    journal_rig_add_synced(j, 1, 2);
    for (uint64_t b = 1; b <= 60; b++) {
        assert_ok(journal_rig_add_noise(j, 2, b, 100000));
        journal_trim(j, JOURNAL_RIG_T0, NULL, NULL);
    }
    journal_rig_add_synced(j, 3, 1); /* host-1 has no records: it makes room */
    assert_int_equal(journal_rig_last(j, "host-1"), 0);
    assert_int_equal(journal_rig_last(j, "host-3"), 3);
    for (uint64_t b = 61; b <= 120; b++) {
        assert_ok(journal_rig_add_noise(j, 2, b, 100000));
        journal_trim(j, JOURNAL_RIG_T0, NULL, NULL);
    }
    journal_close(j);
    j = journal_rig_open_with(&conf);
    assert_int_equal(journal_rig_add(j, 1, 3).seq, 4); /* host-3 had three and made room */
    journal_close(j);
}

/* -- trimming -- */

struct told {
    struct journal *j;
    uint64_t n, next;
};

static void note_lost(void *ctx, const struct journal_record *r)
{
    struct told *t = ctx;
    struct journal_record again;
    uint64_t from = r->position;

    assert_true(r->position >= t->next);
    t->next = r->position + 1;
    t->n++;
    assert_ok(journal_next(t->j, &from, NULL, NULL, &again, NULL)); /* no lock is held */
    assert_int_equal(again.position, r->position);
}

static void the_bound_on_bytes_holds_and_lost_sees_what_goes(void **state)
{
    struct journal *j = journal_rig_open();
    struct told told = {.j = j};
    struct journal_stats s;
    uint64_t first, next;

    for (uint64_t b = 1; b <= 100; b++) {
        struct journal_record r = journal_rig_event(1, b, 100000);
        static uint8_t noise[100000];

        assert_ok(os_random(noise, sizeof noise));
        assert_ok(journal_append(j, &r, noise));
        journal_trim(j, JOURNAL_RIG_T0, note_lost, &told);
        assert_ok(journal_sync(j));
        journal_stats(j, &s);
        assert_true(s.bytes <= JOURNAL_LEAST);
    }
    journal_range(j, &first, &next);
    assert_int_equal(next, 101);
    assert_int_equal(first, told.n + 1);
    assert_int_equal(s.trimmed, told.n);
    assert_int_equal(s.records, 100 - told.n);
    assert_int_equal(journal_rig_count(j), s.records);
    assert_true(s.records >= 30);
    assert_true(
        journal_has(j, FEED_EVENT, "host-1", &(struct journal_batch){7, 100, INT64_MIN, 0}));
    assert_false(journal_has(j, FEED_EVENT, "host-1", &(struct journal_batch){7, 1, INT64_MIN, 0}));
    journal_close(j);
    j = journal_rig_open();
    assert_int_equal(journal_rig_count(j), s.records);
    journal_close(j);
}

static void what_is_too_old_goes(void **state)
{
    struct journal_conf conf = journal_rig_conf(fio_unsynced());
    struct journal *j;

    conf.max_age_ns = 160;
    j = journal_rig_open_with(&conf);
    for (uint64_t b = 1; b <= 400; b++) {
        journal_rig_add_synced(j, 1, b); /* one a nanosecond */
        journal_trim(j, JOURNAL_RIG_T0 + (int64_t)b, NULL, NULL);
    }
    assert_in_range(journal_rig_count(j), 160, 160 + 2 * 11);
    journal_close(j);
}

static void a_file_that_cannot_be_removed_is_tried_again(void **state)
{
    struct fio_fault *fault;
    struct journal_conf conf = journal_rig_conf(NULL);
    struct journal *j;
    struct journal_stats s;

    assert_ok(fio_fault_create(&fault));
    conf.fio = fio_fault_fio(fault);
    j = journal_rig_open_with(&conf);
    for (uint64_t b = 1; b <= 50; b++) {
        assert_ok(journal_rig_add_noise(j, 1, b, 100000));
    }
    fio_fault_fail(fault, FIO_REMOVE, 0, ERR_IO, false);
    journal_trim(j, JOURNAL_RIG_T0, NULL, NULL);
    assert_int_equal(journal_rig_count(j), 50);
    journal_trim(j, JOURNAL_RIG_T0, NULL, NULL);
    journal_stats(j, &s);
    assert_true(s.bytes <= JOURNAL_LEAST);
    assert_int_equal(s.failed_writes, 1);
    journal_close(j);
    fio_fault_destroy(fault);
}

/* -- threads -- */

#define MANY 2000

struct reader {
    struct journal *j;
    struct os_thread *thread;
    size_t got;
};

static void read_all(void *arg)
{
    struct reader *me = arg;
    uint64_t from = 0, at = 0, last;
    struct buf b;

    buf_init(&b, 1 << 20);
    while (at < MANY) {
        struct journal_record r;
        enum err e = journal_next(me->j, &from, NULL, NULL, &r, &b);

        if (e == ERR_OK) {
            assert_true(r.batch > at);
            at = r.batch;
            assert_memory_equal(b.p + 8, &at, sizeof at);
            me->got++;
            buf_reset(&b);
            e = journal_find(me->j, FEED_EVENT, r.name, r.seq, &r, NULL, &last);
            assert_true((e == ERR_OK || e == ERR_END) && last >= r.seq);
        } else {
            assert_err(e, ERR_END);
            os_sleep_ns(CLK_MS);
        }
    }
    buf_fini(&b);
}

static void readers_follow_while_records_come_and_go(void **state)
{
    struct journal *j = journal_rig_open();
    struct reader readers[2] = {{.j = j}, {.j = j}};
    static uint8_t noise[4000];

    assert_ok(os_random(noise, sizeof noise));
    for (unsigned i = 0; i < 2; i++) {
        assert_ok(os_thread_start(&readers[i].thread, "reader", read_all, &readers[i]));
    }
    for (uint64_t b = 1; b <= MANY; b++) {
        struct journal_record r = journal_rig_event((unsigned)(b % 5), b, sizeof noise);

        memcpy(noise + 8, &b, sizeof b);
        assert_ok(journal_append(j, &r, noise));
        if (b % 10 == 0) {
            journal_trim(j, JOURNAL_RIG_T0, NULL, NULL);
            assert_ok(journal_sync(j));
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        os_thread_join(readers[i].thread);
        assert_in_range(readers[i].got, 1, MANY);
    }
    journal_close(j);
}

#define T(name) cmocka_unit_test_setup_teardown(name, journal_rig_setup, journal_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_record_is_read_as_it_was_appended),
        T(nobody_sees_a_record_before_it_is_synced),
        T(next_gives_what_the_reader_wants_and_goes_behind_it),
        T(find_gives_the_smallest_number_that_is_enough),
        T(has_knows_ranges_and_wants_the_last_part),
        T(has_looks_no_further_back_than_asked),
        T(has_takes_no_gap_for_a_batch),
        T(what_is_over_a_bound_is_refused_and_uses_its_number),
        T(numbers_go_on_after_reopening),
        T(numbers_of_a_quiet_topic_outlive_its_records),
        T(a_forgotten_topic_does_not_begin_anew),
        T(the_bound_on_bytes_holds_and_lost_sees_what_goes),
        T(what_is_too_old_goes),
        T(a_file_that_cannot_be_removed_is_tried_again),
        T(readers_follow_while_records_come_and_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
