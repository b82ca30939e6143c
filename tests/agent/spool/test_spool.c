#include "agent/spool/spool.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "tests/agent/spool/spool_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"

static char dir[256];

static enum err try_open(struct spool **out, const struct fio *fio, struct errmsg *why)
{
    struct spool_conf conf = {.disk = {dir, fio, SPOOL_BYTES_MIN, 3600 * CLK_S},
                              .memory_bytes = 1 << 20};

    return spool_open(out, &conf, why);
}

static struct spool *open_with(const struct fio *fio)
{
    struct errmsg why = {""};
    struct spool *s;

    if (try_open(&s, fio, &why)) {
        fail_msg("%s", why.text);
    }
    return s;
}

static struct outbox_item take(struct spool *s)
{
    struct outbox_item item;

    assert_ok(rig_try_take(s, &item));
    return item;
}

static void done(struct spool *s, const struct outbox_item *item)
{
    struct outbox o = spool_outbox(s);

    o.ack(o.ctx, item);
}

static void batches_leave_in_order_and_the_end_is_told(void **state)
{
    struct spool *s = open_with(fio_unsynced());
    struct outbox o = spool_outbox(s);
    struct outbox_item item;

    assert_err(o.take(o.ctx, &item), ERR_TIMEOUT);
    for (uint64_t i = 1; i <= 5; i++) {
        rig_put(s);
        item = take(s);
        assert_int_equal(item.seq, i);
        done(s, &item);
    }
    spool_end(s);
    assert_err(spool_put(s, 1, 1, "x", 1), ERR_CLOSED);
    assert_err(rig_try_take(s, &item), ERR_END);
    spool_close(s);
}

static void batches_are_done_with_in_any_order_and_the_rest_comes_again(void **state)
{
    struct spool *s = open_with(fio_unsynced());
    struct outbox o = spool_outbox(s);
    struct outbox_item items[OUTBOX_INFLIGHT_MAX], more;

    for (unsigned i = 0; i <= OUTBOX_INFLIGHT_MAX; i++) {
        rig_put(s);
    }
    for (unsigned i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        items[i] = take(s);
        assert_int_equal(items[i].seq, i + 1);
    }
    assert_err(o.take(o.ctx, &more), ERR_FULL);
    for (unsigned i = OUTBOX_INFLIGHT_MAX; i-- > 0;) {
        if (i != 2) {
            done(s, &items[i]);
        }
    }
    more = take(s);
    assert_int_equal(more.seq, OUTBOX_INFLIGHT_MAX + 1);
    done(s, &more);
    spool_close(s);
    s = open_with(fio_unsynced()); /* all in one file: what was done is sent once more */
    more = take(s);
    assert_int_equal(more.seq, 1);
    spool_close(s);
}

static void stream_and_numbers_go_on_after_a_restart(void **state)
{
    struct spool *s = open_with(fio_unsynced());
    uint64_t stream, again, seq;
    struct outbox_item item;

    spool_next(s, &stream, &seq);
    assert_int_equal(seq, 1);
    rig_put(s);
    rig_put(s);
    spool_close(s); /* writes what waits */
    s = open_with(fio_unsynced());
    spool_next(s, &again, &seq);
    assert_int_equal(again, stream);
    assert_int_equal(seq, 3);
    item = take(s);
    assert_int_equal(item.stream, stream);
    assert_int_equal(item.seq, 1);
    spool_close(s);
}

static void a_second_agent_is_refused(void **state)
{
    struct spool *s = open_with(fio_unsynced()), *other;
    struct errmsg why = {""};

    assert_err(try_open(&other, fio_unsynced(), &why), ERR_BUSY);
    assert_non_null(strstr(why.text, "another agent"));
    spool_close(s);
}

static void what_the_collector_told_it_holds_is_skipped(void **state)
{
    struct spool *s = open_with(fio_unsynced());
    struct outbox o = spool_outbox(s);
    struct outbox_item item;
    uint64_t stream, seq;

    for (unsigned i = 0; i < 4; i++) {
        rig_put(s);
    }
    spool_next(s, &stream, &seq);
    item = take(s);
    assert_int_equal(item.seq, 1);
    done(s, &item);
    while (rig_stats(s).disk.batches < 4) {
        os_sleep_ns(CLK_MS);
    }
    assert_int_equal(o.ack_upto(o.ctx, stream, 3), 2);
    item = take(s);
    assert_int_equal(item.seq, 4);
    assert_int_equal(rig_stats(s).out, 3);
    spool_close(s);
}

static uint64_t only_quarantined(void)
{
    uint64_t numbers[4];
    size_t n;

    assert_ok(dead_letter_file_list(dir, numbers, COUNT_OF(numbers), &n));
    return n == 1 ? numbers[0] : 0;
}

static void wait_for_held(struct spool *s, uint64_t disk, uint64_t quarantine)
{
    int64_t end_ns = os_mono_ns() + RIG_LONG_NS;

    while (rig_stats(s).disk.held != disk || rig_stats(s).dead_letters.held != quarantine) {
        assert_true(os_mono_ns() < end_ns);
        os_sleep_ns(CLK_MS);
    }
}

/* Set aside with the reason; sent again after somebody asked for it, under the numbers it had. */
static void what_is_set_aside_is_kept_until_somebody_wants_it_sent(void **state)
{
    struct spool *s = open_with(fio_unsynced());
    struct outbox o = spool_outbox(s);
    struct dead_letter_batch b;
    struct outbox_item item;
    uint64_t stream;
    uint8_t *bytes;

    rig_put(s);
    rig_put(s);
    item = take(s);
    stream = item.stream;
    o.reject(o.ctx, &item, OUTBOX_REFUSED, "of no use");
    item = take(s);
    assert_int_equal(item.seq, 2);
    done(s, &item);
    wait_for_held(s, 0, 1);
    assert_int_equal(rig_stats(s).out, 2);
    spool_close(s);
    assert_ok(dead_letter_file_read(&b, &bytes, dir, only_quarantined()));
    assert_string_equal(b.why, "of no use");
    mem_free(bytes);
    assert_ok(dead_letter_file_retry(dir, only_quarantined()));

    s = open_with(fio_unsynced());
    o = spool_outbox(s);
    item = take(s);
    assert_int_equal(item.stream, stream);
    assert_int_equal(item.seq, 1);
    o.reject(o.ctx, &item, OUTBOX_REFUSED, "again"); /* refused once more */
    while (rig_stats(s).again == 0) {
        os_sleep_ns(CLK_MS);
    }
    spool_close(s);
    assert_ok(dead_letter_file_retry(dir, only_quarantined()));

    s = open_with(fio_unsynced());
    item = take(s);
    assert_int_equal(item.seq, 1);
    done(s, &item);
    wait_for_held(s, 0, 0);
    assert_int_equal(only_quarantined(), 0);
    spool_end(s);
    assert_err(rig_try_take(s, &item), ERR_END);
    spool_close(s);
}

static void assert_account(const struct spool_stats *s)
{
    uint64_t lost = s->disk.dropped.batches + s->disk.expired.batches + s->disk.other_host.batches +
                    s->unwritten.batches + s->disk.unreadable;

    assert_int_equal(s->in + s->recovered + s->again, s->out + s->disk.held + s->waiting + lost);
}

/* What a run leaves is `recovered` by the next, with what was done with but still lay in a file
 * that held more: each run's account is whole, and one over several counts a batch in each. */
static void the_account_is_that_of_one_run(void **state)
{
    uint64_t held = 0, found_again = 0, in = 0, out = 0;

    for (unsigned i = 0; i < 12; i++) {
        struct spool *s = open_with(fio_unsynced());
        struct outbox o = spool_outbox(s);
        struct outbox_item item;
        struct spool_stats end;

        assert_in_range(rig_stats(s).recovered, held, in);
        found_again += rig_stats(s).recovered - held;
        for (unsigned k = 0; k < 3 + i % 4; k++) {
            rig_put(s);
        }
        for (unsigned k = 0; k < 2 + i % 3; k++) {
            item = take(s);
            if ((i + k) % 5 == 4) {
                o.reject(o.ctx, &item, OUTBOX_REFUSED, "of no use");
            } else {
                done(s, &item);
            }
        }
        if (i == 6) {
            (void)o.ack_upto(o.ctx, item.stream, item.seq + 1);
        }
        item = take(s); /* in hand at the end */
        (void)spool_stop(s);
        end = rig_stats(s);
        assert_account(&end);
        assert_int_equal(end.again, 0);
        held = end.disk.held;
        in += end.in;
        out += end.out;
        spool_close(s);
    }
    assert_true(held > 0 && found_again > 0);
    assert_int_equal(in + found_again, out + held); /* of all runs, each batch once */
}

static struct spool *open_for(const struct uuid *host)
{
    struct spool_conf conf = {.disk = {dir, fio_unsynced(), SPOOL_BYTES_MIN, 3600 * CLK_S},
                              .memory_bytes = 1 << 20,
                              .host = host};
    struct errmsg why = {""};
    struct spool *s;

    if (spool_open(&s, &conf, &why)) {
        fail_msg("%s", why.text);
    }
    return s;
}

/* The rig's batches are of the host whose id is all zeros. */
static void what_another_identity_spooled_is_dropped_and_counted(void **state)
{
    static const struct uuid nobody, somebody = {{1}};
    struct spool *s = open_for(&nobody);
    uint64_t before, stream, seq;
    struct outbox_item item;

    spool_next(s, &before, &seq);
    for (unsigned i = 0; i < 3; i++) {
        rig_put(s);
    }
    spool_close(s);
    s = open_for(&nobody);
    assert_int_equal(rig_stats(s).disk.other_host.batches, 0);
    assert_int_equal(rig_stats(s).recovered, 3);
    spool_close(s);
    s = open_for(&somebody);
    assert_int_equal(rig_stats(s).recovered, 3);
    assert_int_equal(rig_stats(s).disk.other_host.batches, 3);
    assert_int_equal(rig_stats(s).disk.other_host.rows, 3 * RIG_ROWS);
    assert_int_equal(rig_stats(s).disk.other_host.events, 3 * RIG_EVENTS);
    assert_int_equal(rig_stats(s).disk.held, 0);
    spool_next(s, &stream, &seq);
    assert_int_not_equal(stream, before);
    assert_int_equal(seq, 1);
    rig_put(s);
    item = take(s);
    assert_int_equal(item.stream, stream);
    assert_int_equal(item.seq, 1);
    spool_close(s);
}

static void nothing_leaves_before_it_is_durable(void **state)
{
    struct fio_fault *fault;
    struct outbox_item item;
    struct spool *s;

    assert_ok(fio_fault_create(&fault));
    s = open_with(fio_fault_fio(fault));
    for (unsigned i = 0; i < 20; i++) {
        long syncs = fio_fault_count(fault, FIO_SYNC);

        rig_put(s);
        item = take(s);
        assert_true(fio_fault_count(fault, FIO_SYNC) > syncs);
        done(s, &item);
    }
    spool_close(s);
    fio_fault_destroy(fault);
}

static void when_the_disk_fails_a_new_stream_goes_on_from_memory(void **state)
{
    struct fio_fault *fault;
    struct outbox_item item;
    uint64_t before, after, seq;
    struct spool_stats stats;
    struct spool *s;

    assert_ok(fio_fault_create(&fault));
    s = open_with(fio_fault_fio(fault));
    rig_put(s);
    item = take(s);
    before = item.stream;
    fio_fault_fail(fault, FIO_WRITE, 0, ERR_NOSPACE, true);
    rig_put(s);
    rig_put(s);
    done(s, &item);
    for (uint64_t i = 1; i <= 2; i++) {
        struct batch *b;

        item = take(s);
        assert_int_not_equal(item.stream, before);
        assert_int_equal(item.seq, i);
        assert_ok(wire_batch_decode(&b, item.p, item.n));
        assert_int_equal(b->head.stream, item.stream);
        assert_int_equal(b->head.seq, i);
        wire_batch_free(b);
        done(s, &item);
    }
    spool_next(s, &after, &seq);
    assert_int_equal(after, item.stream);
    assert_int_equal(seq, 3);
    spool_stats(s, &stats);
    assert_true(stats.failing);
    assert_int_equal(stats.failures, 1);
    assert_int_equal(stats.unwritten.batches, 0);
    spool_close(s);
    fio_fault_destroy(fault);
}

static void note_failed(void *ctx, unsigned note, enum log_level level, const char *module,
                        const char *event, const char *text)
{
    (void)note;
    (void)level;
    if (strcmp(module, "spool") == 0 && strcmp(event, "failed") == 0) {
        (void)snprintf(ctx, 500, "%s", text);
    }
}

static void the_log_does_not_ask_for_room_when_the_disk_is_broken(void **state)
{
    struct fio_fault *fault;
    struct spool_stats stats;
    struct spool *s;
    char told[500] = "";
    int64_t until_ns = os_mono_ns() + 20 * CLK_S;

    assert_ok(fio_fault_create(&fault));
    s = open_with(fio_fault_fio(fault));
    fio_fault_fail(fault, FIO_CREATE, 0, ERR_IO, true);
    log_tee(note_failed, told);
    rig_put(s);
    do { /* its figures say so after the log does */
        os_sleep_ns(CLK_MS);
        spool_stats(s, &stats);
        assert_true(os_mono_ns() < until_ns);
    } while (!stats.failing);
    spool_close(s);
    log_tee(NULL, NULL);
    assert_non_null(strstr(told, err_text(ERR_IO)));
    assert_non_null(strstr(told, "tried again"));
    assert_null(strstr(told, "free the disk"));
    fio_fault_destroy(fault);
}

static void memory_has_a_limit_too_and_the_loss_is_counted(void **state)
{
    struct fio_fault *fault;
    struct spool_stats stats;
    struct spool *s;
    uint64_t n = 0;

    assert_ok(fio_fault_create(&fault));
    s = open_with(fio_fault_fio(fault));
    fio_fault_fail(fault, FIO_CREATE, 0, ERR_ACCESS, true);
    do {
        rig_put(s);
        n++;
        spool_stats(s, &stats);
        assert_true(stats.waiting_bytes <= 1 << 20);
        assert_true(n < 100000);
    } while (stats.unwritten.batches < 3);
    assert_int_equal(stats.unwritten.rows, stats.unwritten.batches * RIG_ROWS);
    assert_int_equal(stats.unwritten.events, stats.unwritten.batches * RIG_EVENTS);
    spool_close(s);
    fio_fault_destroy(fault);
}

static void every_failing_allocation_at_opening_is_survived(void **state)
{
    long before = mem_live();
    struct spool *s;
    enum err e = ERR_NOMEM;

    for (long n = 0; e; n++) {
        struct errmsg why;

        mem_fail_after(n);
        e = try_open(&s, fio_unsynced(), &why);
        if (e) {
            assert_int_equal(mem_live(), before);
        }
        assert_true(n < 1000);
    }
    mem_fail_after(-1);
    spool_close(s);
    assert_int_equal(mem_live(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) \
    cmocka_unit_test_prestate_setup_teardown(name, support_dir_setup, support_dir_teardown, dir)
        T(batches_leave_in_order_and_the_end_is_told),
        T(batches_are_done_with_in_any_order_and_the_rest_comes_again),
        T(stream_and_numbers_go_on_after_a_restart),
        T(a_second_agent_is_refused),
        T(what_the_collector_told_it_holds_is_skipped),
        T(what_is_set_aside_is_kept_until_somebody_wants_it_sent),
        T(what_another_identity_spooled_is_dropped_and_counted),
        T(the_account_is_that_of_one_run),
        T(nothing_leaves_before_it_is_durable),
        T(when_the_disk_fails_a_new_stream_goes_on_from_memory),
        T(the_log_does_not_ask_for_room_when_the_disk_is_broken),
        T(memory_has_a_limit_too_and_the_loss_is_counted),
        T(every_failing_allocation_at_opening_is_survived),
#undef T
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
