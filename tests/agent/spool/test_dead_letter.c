#include "agent/spool/dead_letter.h"

#include <stdlib.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/agent/spool/spool_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"

#define NOW_NS (1700000000 * CLK_S)

static enum err try_open(struct dead_letter **out, const struct fio *fio, uint64_t max_bytes)
{
    struct dead_letter_conf conf = {rig_dir, fio, max_bytes, DEAD_LETTER_AGE};

    return dead_letter_open(out, &conf);
}

static struct dead_letter *open_with(uint64_t max_bytes)
{
    struct dead_letter *q;

    assert_ok(try_open(&q, fio_unsynced(), max_bytes));
    return q;
}

static struct dead_letter_stats stats_of(const struct dead_letter *q)
{
    struct dead_letter_stats s;

    dead_letter_stats(q, &s);
    return s;
}

/* Keeps the rig's batch of this number, which stays in `rig_content`. */
static void put(struct dead_letter *q, uint64_t seq, const char *why)
{
    struct dead_letter_batch b = {.stream = 7, .seq = seq, .when_ns = NOW_NS};

    (void)snprintf(b.why, sizeof b.why, "%s", why);
    rig_batch(&rig_content, 7, seq);
    b.p = rig_content.p;
    b.n = rig_content.n;
    dead_letter_put(q, &b);
}

static size_t list(uint64_t *numbers, size_t max)
{
    size_t n;

    assert_ok(dead_letter_file_list(rig_dir, numbers, max, &n));
    return n;
}

static void a_batch_is_kept_with_its_reason_across_restarts(void **state)
{
    struct dead_letter *q = open_with(1 << 20);
    struct dead_letter_batch b;
    uint64_t numbers[4];
    uint8_t *bytes;

    assert_int_equal(list(numbers, 4), 0); /* no directory yet */
    put(q, 5, "older than the collector keeps");
    assert_int_equal(stats_of(q).put.batches, 1);
    assert_int_equal(stats_of(q).put.rows, RIG_ROWS);
    assert_int_equal(stats_of(q).put.events, RIG_EVENTS);
    assert_int_equal(stats_of(q).unkept, 0);
    dead_letter_close(q);
    q = open_with(1 << 20);
    assert_int_equal(stats_of(q).held, 1);
    assert_int_equal(list(numbers, 4), 1);
    assert_ok(dead_letter_file_read(&b, &bytes, rig_dir, numbers[0]));
    assert_int_equal(b.stream, 7);
    assert_int_equal(b.seq, 5);
    assert_int_equal(b.when_ns, NOW_NS);
    assert_false(b.again);
    assert_string_equal(b.why, "older than the collector keeps");
    assert_int_equal(b.n, rig_content.n);
    assert_memory_equal(b.p, rig_content.p, b.n);
    mem_free(bytes);
    assert_err(dead_letter_next(q, &rig_content, &b), ERR_END); /* never by itself */
    dead_letter_close(q);
}

static void every_shorter_file_and_every_flipped_bit_is_refused(void **state)
{
    struct dead_letter_batch b = {.stream = 1, .seq = 2, .when_ns = 3, .p = "content", .n = 7}, out;
    struct buf file;

    buf_init(&file, 1 << 10);
    (void)snprintf(b.why, sizeof b.why, "why");
    dead_letter_file_format(&file, &b);
    assert_ok(dead_letter_file_parse(&out, file.p, file.n));
    assert_string_equal(out.why, "why");
    assert_memory_equal(out.p, "content", 7);
    for (size_t n = 0; n < file.n; n++) {
        uint8_t *part = mem_dup(file.p, n);

        assert_err(dead_letter_file_parse(&out, part, n), ERR_CORRUPT);
        mem_free(part);
    }
    for (size_t bit = 0; bit < file.n * 8; bit++) {
        enum err e;

        file.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
        e = dead_letter_file_parse(&out, file.p, file.n);
        assert_true(e == ERR_CORRUPT || e == ERR_VERSION);
        file.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    buf_fini(&file);
}

static void what_is_asked_for_again_is_given_once_and_goes_when_it_arrived(void **state)
{
    struct dead_letter *q = open_with(1 << 20);
    struct dead_letter_batch b, none;
    uint64_t numbers[4];

    put(q, 1, "a");
    put(q, 2, "b");
    assert_int_equal(list(numbers, 4), 2);
    assert_ok(dead_letter_file_retry(rig_dir, numbers[1]));
    assert_ok(dead_letter_file_retry(rig_dir, numbers[1])); /* it is asked for already */
    assert_err(dead_letter_file_retry(rig_dir, 99), ERR_NOTFOUND);
    dead_letter_tidy(q, NOW_NS);
    assert_ok(dead_letter_next(q, &rig_content, &b));
    assert_int_equal(b.seq, 2);
    assert_err(dead_letter_next(q, &rig_content, &none), ERR_END); /* it is in hand */
    dead_letter_return(q, b.number);
    assert_ok(dead_letter_next(q, &rig_content, &b));
    dead_letter_ack(q, &b);
    assert_int_equal(stats_of(q).again.batches, 1);
    assert_int_equal(stats_of(q).again.rows, RIG_ROWS);
    assert_int_equal(stats_of(q).held, 1);
    assert_int_equal(list(numbers, 4), 1);
    dead_letter_close(q);
}

static void what_is_refused_again_is_kept_with_the_new_reason(void **state)
{
    struct dead_letter *q = open_with(1 << 20);
    struct dead_letter_batch b;
    uint64_t numbers[4];
    uint8_t *bytes;

    put(q, 1, "first");
    assert_int_equal(list(numbers, 4), 1);
    assert_ok(dead_letter_file_retry(rig_dir, numbers[0]));
    dead_letter_close(q);
    q = open_with(1 << 20);
    assert_ok(dead_letter_next(q, &rig_content, &b));
    (void)snprintf(b.why, sizeof b.why, "second");
    dead_letter_reject(q, &b);
    assert_int_equal(list(numbers, 4), 1);
    assert_ok(dead_letter_file_read(&b, &bytes, rig_dir, numbers[0]));
    assert_string_equal(b.why, "second");
    assert_false(b.again);
    mem_free(bytes);
    assert_int_equal(stats_of(q).held, 1);
    assert_int_equal(stats_of(q).put.batches, 0); /* it was counted the first time */
    dead_letter_close(q);
}

/* Bad luck repairs itself: after a minute, after two, ..., and it is given up after six days. */
static void what_broke_exchanges_is_given_again_by_itself_ever_more_seldom(void **state)
{
    struct dead_letter *q = open_with(1 << 20);
    struct dead_letter_batch b = {.stream = 7, .seq = 1, .when_ns = NOW_NS}, none;
    int64_t now_ns = NOW_NS, pause_ns = 60 * CLK_S;

    rig_batch(&rig_content, 7, 1);
    b.cause = DEAD_LETTER_BROKEN;
    b.p = rig_content.p;
    b.n = rig_content.n;
    dead_letter_put(q, &b);
    for (unsigned try = 0; try < DEAD_LETTER_TRIES; try++) {
        assert_int_equal(stats_of(q).held_broken, 1);
        dead_letter_tidy(q, now_ns + pause_ns - 1);
        assert_err(dead_letter_next(q, &rig_content, &none), ERR_END);
        dead_letter_close(q); /* the file remembers */
        q = open_with(1 << 20);
        now_ns += pause_ns;
        dead_letter_tidy(q, now_ns);
        assert_ok(dead_letter_next(q, &rig_content, &b));
        assert_int_equal(b.cause, DEAD_LETTER_BROKEN);
        assert_int_equal(b.tries, try);
        b.when_ns = now_ns;
        dead_letter_reject(q, &b);
        pause_ns *= 2;
    }
    assert_int_equal(stats_of(q).held, 1);
    assert_int_equal(stats_of(q).held_broken, 0);
    dead_letter_tidy(q, now_ns + DEAD_LETTER_AGE);
    assert_err(dead_letter_next(q, &rig_content, &none), ERR_END);
    assert_int_equal(stats_of(q).put.batches, 0); /* it was counted the first time */
    dead_letter_close(q);
}

static void a_clock_that_was_set_back_does_not_keep_a_batch(void **state)
{
    struct dead_letter *q = open_with(1 << 20);
    struct dead_letter_batch b = {.stream = 7, .seq = 1, .when_ns = NOW_NS};

    rig_batch(&rig_content, 7, 1);
    b.cause = DEAD_LETTER_BROKEN;
    b.p = rig_content.p;
    b.n = rig_content.n;
    dead_letter_put(q, &b);
    dead_letter_tidy(q, NOW_NS - 3600 * CLK_S);
    assert_ok(dead_letter_next(q, &rig_content, &b));
    dead_letter_close(q);
}

/* As version 1 wrote it: the reason's length has four bytes, there is no cause. */
static void a_file_of_version_1_is_read(void **state)
{
    static const char file[] = "\x50\x46\x51\x54\x4e\x1a\x0d\x0a\x01\x00\x00\x00\x03\x00\x00\x00"
                               "\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00"
                               "\x03\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00"
                               "\xc6\x02\xe9\x7f\x34\x1d\xe8\x67\xb6\xc7\x35\x44\x61\x61\x38\xc4"
                               "why"
                               "content";
    struct dead_letter_batch b;
    uint8_t *bytes = mem_dup(file, sizeof file - 1);

    assert_non_null(bytes);
    assert_ok(dead_letter_file_parse(&b, bytes, sizeof file - 1));
    assert_int_equal(b.cause, DEAD_LETTER_REFUSED);
    assert_int_equal(b.tries, 0);
    assert_int_equal(b.seq, 2);
    assert_string_equal(b.why, "why");
    assert_memory_equal(b.p, "content", 7);
    mem_free(bytes);
}

static void what_is_refused_on_a_full_disk_is_not_sent_in_a_circle(void **state)
{
    struct fio_fault *fault;
    struct dead_letter_batch b;
    struct dead_letter *q;
    uint64_t numbers[4];

    assert_ok(fio_fault_create(&fault));
    assert_ok(try_open(&q, fio_fault_fio(fault), 1 << 20));
    put(q, 1, "first");
    assert_int_equal(list(numbers, 4), 1);
    assert_ok(dead_letter_file_retry(rig_dir, numbers[0]));
    dead_letter_tidy(q, NOW_NS);
    assert_ok(dead_letter_next(q, &rig_content, &b));
    fio_fault_fail(fault, FIO_WRITE, 0, ERR_NOSPACE, true);
    (void)snprintf(b.why, sizeof b.why, "second");
    dead_letter_reject(q, &b);
    assert_err(dead_letter_next(q, &rig_content, &b), ERR_END);
    fio_fault_fail(fault, 0, -1, ERR_OK, false);
    dead_letter_tidy(q, NOW_NS); /* a minute later */
    assert_ok(dead_letter_next(q, &rig_content, &b));
    assert_string_equal(b.why, "first");
    dead_letter_close(q);
    fio_fault_destroy(fault);
}

static void the_same_batch_takes_its_own_place(void **state)
{
    struct dead_letter *q = open_with(1 << 20);
    uint64_t numbers[4];

    put(q, 1, "before a crash");
    put(q, 1, "and after it");
    assert_int_equal(list(numbers, 4), 1);
    assert_int_equal(stats_of(q).held, 1);
    dead_letter_close(q);
}

static void the_oldest_go_for_room_and_for_age(void **state)
{
    struct dead_letter *q = open_with(1 << 20);
    uint64_t numbers[64], one;

    put(q, 1, "x");
    one = stats_of(q).held_bytes;
    dead_letter_close(q);
    q = open_with(one * 5 + one / 2);
    for (uint64_t seq = 2; seq <= 30; seq++) {
        put(q, seq, "x");
        assert_true(stats_of(q).held_bytes <= one * 5 + one / 2);
    }
    assert_int_equal(list(numbers, 64), stats_of(q).held);
    assert_int_equal(stats_of(q).dropped + stats_of(q).held, 30);
    assert_int_equal(numbers[stats_of(q).held - 1], 30);
    dead_letter_tidy(q, NOW_NS + DEAD_LETTER_AGE);
    assert_true(stats_of(q).held > 0);
    dead_letter_tidy(q, NOW_NS + DEAD_LETTER_AGE + 1);
    assert_int_equal(stats_of(q).held, 0);
    assert_int_equal(stats_of(q).held_bytes, 0);
    assert_int_equal(list(numbers, 64), 0);
    dead_letter_close(q);
}

static void what_somebody_removes_is_gone_and_other_files_are_left_alone(void **state)
{
    struct dead_letter *q = open_with(1 << 20);
    char path[400];
    uint64_t numbers[4];

    put(q, 1, "a");
    put(q, 2, "b");
    assert_int_equal(list(numbers, 4), 2);
    assert_ok(dead_letter_file_drop(rig_dir, numbers[0]));
    assert_err(dead_letter_file_drop(rig_dir, numbers[0]), ERR_NOTFOUND);
    (void)snprintf(path, sizeof path, "%s/" DEAD_LETTER_DIR "/batch-00000000000000ff.quar",
                   rig_dir);
    assert_ok(os_write_file(path, "damaged", 7, true));
    dead_letter_tidy(q, NOW_NS);
    assert_int_equal(stats_of(q).held, 1);
    assert_int_equal(stats_of(q).unreadable, 1);
    put(q, 3, "c"); /* its number is a new one */
    assert_true(os_exists(path));
    assert_int_equal(list(numbers, 4), 3);
    assert_int_equal(numbers[2], 0x100);
    dead_letter_close(q);
}

static void a_failing_disk_costs_the_batch_and_is_counted(void **state)
{
    static const unsigned ops[] = {FIO_CREATE, FIO_WRITE, FIO_SYNC, FIO_RENAME, FIO_SYNC_DIR};

    for (size_t i = 0; i < COUNT_OF(ops); i++) {
        struct fio_fault *fault;
        struct dead_letter *q;

        assert_ok(fio_fault_create(&fault));
        assert_ok(try_open(&q, fio_fault_fio(fault), 1 << 20));
        fio_fault_fail(fault, ops[i], 0, ERR_NOSPACE, false);
        put(q, 1, "x");
        assert_int_equal(stats_of(q).put.batches, 1);
        assert_int_equal(stats_of(q).unkept, 1);
        put(q, 2, "x");
        if (stats_of(q).unkept != 1) {
            fail_msg("operation %zu", i);
        }
        dead_letter_close(q);
        fio_fault_destroy(fault);
        support_empty_dir(rig_dir);
    }
}

static void opening_survives_every_failing_allocation(void **state)
{
    struct dead_letter *q = open_with(1 << 20);
    enum err e = ERR_NOMEM;
    long before;

    put(q, 1, "x");
    dead_letter_close(q);
    before = mem_live();
    for (long n = 0; e; n++) {
        mem_fail_after(n);
        e = try_open(&q, fio_unsynced(), 1 << 20);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || (e == ERR_NOMEM && mem_live() == before));
        assert_true(n < 100);
    }
    assert_int_equal(stats_of(q).held, 1);
    dead_letter_close(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
        T(a_batch_is_kept_with_its_reason_across_restarts),
        T(every_shorter_file_and_every_flipped_bit_is_refused),
        T(what_is_asked_for_again_is_given_once_and_goes_when_it_arrived),
        T(what_is_refused_again_is_kept_with_the_new_reason),
        T(what_broke_exchanges_is_given_again_by_itself_ever_more_seldom),
        T(a_clock_that_was_set_back_does_not_keep_a_batch),
        T(a_file_of_version_1_is_read),
        T(what_is_refused_on_a_full_disk_is_not_sent_in_a_circle),
        T(the_same_batch_takes_its_own_place),
        T(the_oldest_go_for_room_and_for_age),
        T(what_somebody_removes_is_gone_and_other_files_are_left_alone),
        T(a_failing_disk_costs_the_batch_and_is_counted),
        T(opening_survives_every_failing_allocation),
#undef T
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
