/* What the sink says of itself while no ClickHouse answers. What arrives there: e2e_clickhouse. */
#include "collector/clickhouse/ch_sink.h"

#include <string.h>

#include "collector/clickhouse/ch_forward.h"
#include "collector/clickhouse/ch_queue.h"
#include "collector/clickhouse/ch_sent.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/store_rig.h"
#include "tests/support/t.h"

static const char *const nowhere[] = {"http://127.0.0.1:9"};

static struct ch_sink *sink_open(const struct rig *r)
{
    const struct ch_sink_conf conf = {.fio = fio_os(),
                                      .data_dir = r->dir,
                                      .name = "a",
                                      .server = {.urls = nowhere,
                                                 .n_urls = 1,
                                                 .database = "procfleet",
                                                 .user = "default",
                                                 .password_file = "",
                                                 .ca = "",
                                                 .cert = "",
                                                 .key = ""},
                                      .gather_ns = CLK_S / 10,
                                      .hosts_max = 16,
                                      .forget_ns = INT64_MAX / 2};
    struct errmsg why = {""};
    struct ch_sink *s;

    assert_ok(ch_sink_open(&s, &conf, &why));
    return s;
}

/* The state that is on disk; write: it says this from now on. */
static struct ch_sent_from state_of(const struct rig *r, const struct ch_sent_from *write)
{
    char *dir = os_path_join(r->dir, "clickhouse");
    const struct ch_sent_conf conf = {fio_os(), dir, "a", 16, INT64_MAX / 2};
    struct ch_sent_from from;
    struct errmsg why = {""};
    struct ch_sent *sent;
    struct buf bytes;

    buf_init(&bytes, CH_SENT_BYTES_MAX);
    assert_ok(ch_sent_open(&sent, &conf, &from, &why));
    if (write) {
        assert_ok(ch_sent_bytes(sent, write, &bytes));
        assert_ok(ch_sent_write(sent, &bytes));
    }
    ch_sent_close(sent);
    buf_fini(&bytes);
    mem_free(dir);
    return from;
}

static void what_recovery_found_is_known_before_it_may_leave_the_head(void **state)
{
    struct rig *r = *state;
    const struct ch_sent_from nothing_missing = {INT64_MAX, INT64_MAX, RIG_T0};
    struct ch_sent_from from;
    struct ch_sink *s;

    rig_open(r);
    rig_put_host(r, 1, 3);
    rig_close(r);
    state_of(r, &nothing_missing); /* as it was written before the three came, then kill -9 */
    rig_open(r);
    s = sink_open(r);
    assert_false(ch_sink_keep(s)); /* sealing must wait */
    from = state_of(r, NULL);
    assert_true(from.made_ns == INT64_MAX);
    assert_ok(ch_sink_start(s, r->store));
    for (int i = 0; i < 1000 && !ch_sink_keep(s); i++) {
        os_sleep_ns(10 * CLK_MS);
    }
    from = state_of(r, NULL);
    assert_true(from.made_ns >= RIG_T0 && from.made_ns <= RIG_T0 + 60 * CLK_S);
    assert_true(from.received_ns > RIG_T0 && from.received_ns <= RIG_T0 + 60 * CLK_S);
    ch_sink_stop(s);
    ch_sink_close(s);
    from = state_of(r, NULL);
    assert_true(from.made_ns <= RIG_T0 + 60 * CLK_S);
}

static void lag_goes_by_arrival(void **state)
{
    struct rig *r = *state;
    struct ch_sink *s;
    struct ch_sink_stats stats;
    struct fleetgen *host = rig_host(1);
    struct rig_batch b;
    struct batch *batch;
    struct store_stored stored;
    const struct ch_sent_from nothing_missing = {INT64_MAX, INT64_MAX, RIG_T0};

    rig_batch(&b, host, 10);
    assert_ok(wire_batch_decode(&batch, b.bytes, b.n));
    stored = (struct store_stored){
        .host_name = b.host_name, .batch = batch, .received_ns = os_utc_ns(), .clock = &b.clock};
    state_of(r, &nothing_missing);
    s = sink_open(r);
    ch_sink_stored(s, &stored); /* from a spool, or a host that takes itself to be back there */
    os_sleep_ns(2 * CLK_MS);
    ch_sink_stats(s, &stats);
    assert_int_equal(stats.queue_batches, 1);
    assert_in_range(stats.lag_ns, CLK_MS, 600 * CLK_S);
    ch_sink_close(s);
    wire_batch_free(batch);
    rig_batch_fini(&b);
    fleetgen_destroy(host);
}

static void a_request_ends_with_its_reason(void **state)
{
    struct rig *r = *state;
    char *dir = os_path_join(r->dir, "clickhouse");
    struct errmsg why = {""};
    struct ch_forward ask;
    uint64_t batches;

    for (int failed = 0; failed < 2; failed++) {
        assert_ok(ch_forward_ask(r->dir, 5, 6, "web-*", &why));
        assert_false(ch_forward_done(r->dir, &batches, &why));
        assert_true(ch_forward_get(dir, &ask));
        assert_true(ask.since_ns == 5 && ask.until_ns == 6);
        assert_string_equal(ask.hosts, "web-*");
        assert_ok(ch_forward_end(dir, 7, failed ? ERR_FULL : ERR_OK));
        assert_false(ch_forward_get(dir, &ask));
        assert_true(ch_forward_done(r->dir, &batches, &why));
        assert_int_equal(batches, 7);
        assert_string_equal(why.text, failed ? err_text(ERR_FULL) : "");
    }
    mem_free(dir);
}

/* Streams are the agents' to number: two hosts may have the same. */
static void what_waits_of_one_host_is_not_taken_for_anothers(void **state)
{
    static const struct host_offset unknown;
    struct batch batches[3] = {{.head = {.host = {{1}}, .stream = 7, .seq = 1}},
                               {.head = {.host = {{1}}, .stream = 7, .seq = 2}},
                               {.head = {.host = {{2}}, .stream = 7, .seq = 3}}};
    const struct uuid *one = &batches[0].head.host, *two = &batches[2].head.host;
    struct ch_queue_item items[3] = {{.bytes = 1}, {.bytes = 1}, {.bytes = 1}};
    struct ch_queue q;

    ch_queue_init(&q, 100);
    for (unsigned i = 0; i < 2; i++) {
        items[i].batch = &batches[i];
        items[i].clock = unknown;
        assert_true(ch_queue_put(&q, &items[i]));
    }
    assert_true(ch_queue_has(&q, one, 7, 1));
    assert_true(ch_queue_has(&q, one, 7, 2));
    assert_false(ch_queue_has(&q, two, 7, 2));
    assert_false(ch_queue_has(&q, one, 8, 2));
    items[2].batch = &batches[2];
    assert_true(ch_queue_put(&q, &items[2])); /* into the index that is there */
    assert_true(ch_queue_has(&q, two, 7, 3));
    assert_false(ch_queue_has(&q, one, 7, 3));
    assert_true(ch_queue_take(&q, 1, 1)); /* the first; it waits no longer */
    assert_false(ch_queue_has(&q, one, 7, 1));
    assert_true(ch_queue_has(&q, one, 7, 2));
    q.first = q.sending = NULL; /* they are the test's */
    ch_queue_fini(&q);
}

int main(void)
{
    static struct rig r;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate_setup_teardown(
            what_recovery_found_is_known_before_it_may_leave_the_head, rig_setup, rig_teardown, &r),
        cmocka_unit_test(what_waits_of_one_host_is_not_taken_for_anothers),
        cmocka_unit_test_prestate_setup_teardown(lag_goes_by_arrival, rig_setup, rig_teardown, &r),
        cmocka_unit_test_prestate_setup_teardown(a_request_ends_with_its_reason, rig_setup,
                                                 rig_teardown, &r),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
