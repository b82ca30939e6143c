/* Sessions of other programs: read, never controlled. */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/source/windows/etw_live.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "tests/agent/source/windows/etw_starts.h"
#include "tests/agent/source/windows/events_source.h"
#include "tests/support/etwreplay.h"
#include "tests/support/support.h"

static char dir[256];

struct reader {
    struct live_events *events;
    struct events_source source;
    struct os_thread *thread;
    enum err result;
    uint64_t raw;
    int64_t last_ns;
};

static void on_raw(void *ctx, const struct raw_event *raw)
{
    struct reader *r = ctx;

    r->raw++;
    r->last_ns = raw->mono_ns;
}

static void on_fact(void *ctx, const struct event *ev)
{
    (void)ctx;
    (void)ev;
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    (void)ctx;
    (void)wall_ns;
    (void)mono_ns;
}

static void run(void *arg)
{
    struct reader *r = arg;

    r->result = events_source_run(&r->source.source);
}

static void a_foreign_session_counts_once_it_tells_of_a_start(void **state)
{
    static const uint8_t guid[16] = {7};
    struct etw_conf v = {.session_name = "theirs", .ring_bytes = RING_BYTES, .batch_events = 100};
    char starts[sizeof dir + 16];
    struct etwreplay_script script = {.path = starts, .pause_after = 2}; /* header, and the end */
    struct source_sink sink = {.raw = on_raw, .fact = on_fact, .advance = on_advance};
    struct etw_live_conf conf;
    struct etw_live_stats stats;
    struct reader r = {.events = NULL};
    struct errmsg why;

    (void)snprintf(starts, sizeof starts, "%s/starts.etl", dir);
    etw_starts_write(starts);
    etw_live_conf_make(&conf, &v, true);
    conf.query_ns = 10 * CLK_MS;
    conf.api = etwreplay_begin(&script);
    sink.ctx = &r;
    assert_err(etw_live_open(&r.events, &conf, sink, &why), ERR_NOTFOUND);
    etwreplay_add("theirs", guid, true);
    etwreplay_lost(1000, 10); /* before we came */
    assert_ok(etw_live_open(&r.events, &conf, sink, &why));
    (void)events_source_make(&r.source, r.events);
    assert_ok(os_thread_start(&r.thread, "source", run, &r));
    assert_true(etwreplay_wait_told(1));
    assert_false(r.events->ops->up(r.events, &why));
    assert_non_null(strstr(why.text, "theirs has told of no start"));
    etwreplay_resume();
    assert_true(etwreplay_wait_told(2));
    assert_true(r.events->ops->up(r.events, &why));
    assert_string_equal(why.text, "");
    etw_live_stats(r.events, &stats);
    assert_int_equal(stats.lost_events + stats.lost_buffers, 0);
    etwreplay_lost(3, 0);
    assert_true(etwreplay_wait_calls(REPLAY_QUERY, etwreplay_calls(REPLAY_QUERY) + 2));
    assert_true(r.events->ops->up(r.events, &why));
    assert_non_null(strstr(why.text, "whoever starts it"));
    events_source_stop(&r.source.source);
    os_thread_join(r.thread);
    assert_ok(r.result);
    etw_live_stats(r.events, &stats);
    assert_int_equal(stats.lost_events, 3);
    assert_int_equal(stats.lost_buffers, 0);
    r.events->ops->close(r.events);
    assert_true(etwreplay_exists("theirs"));
    assert_int_equal(etwreplay_calls(REPLAY_STOP) + etwreplay_calls(REPLAY_SET_INFO), 0);
    assert_int_equal(etwreplay_calls(REPLAY_FLUSH) + etwreplay_calls(REPLAY_UPDATE), 0);
}

static bool move_by_wall_clock(struct raw_event *raw, uint8_t *room, int64_t since_ns)
{
    (void)room;
    (void)since_ns;
    raw->wall_ns = os_utc_ns();
    raw->mono_ns = os_mono_ns();
    raw->ticks = (int64_t)clk_to_filetime(raw->wall_ns);
    return true;
}

static void a_foreign_session_may_stamp_by_the_wall_clock(void **state)
{
    static const uint8_t guid[16] = {7};
    struct etw_conf v = {.session_name = "theirs", .ring_bytes = RING_BYTES, .batch_events = 100};
    char starts[sizeof dir + 16];
    struct etwreplay_script script = {
        .path = starts, .move = move_by_wall_clock, .frequency = 10000000};
    struct source_sink sink = {.raw = on_raw, .fact = on_fact, .advance = on_advance};
    int64_t begun_ns = os_mono_ns() - CLK_S;
    void (*clock)(int64_t * ticks, uint64_t * frequency, int64_t * utc_ns);
    struct etw_live_conf conf;
    struct etw_api api;
    struct reader r = {.events = NULL};

    (void)snprintf(starts, sizeof starts, "%s/starts.etl", dir);
    etw_starts_write(starts);
    etw_live_conf_make(&conf, &v, true);
    assert_ok(etw_api_load(&api, NULL));
    clock = api.clock; /* of this system, not of the recording */
    api = *etwreplay_begin(&script);
    api.clock = clock;
    conf.api = &api;
    etwreplay_add("theirs", guid, true);
    sink.ctx = &r;
    assert_ok(etw_live_open(&r.events, &conf, sink, NULL));
    (void)events_source_make(&r.source, r.events);
    assert_ok(os_thread_start(&r.thread, "source", run, &r));
    assert_true(etwreplay_wait_told(1));
    events_source_stop(&r.source.source);
    os_thread_join(r.thread);
    assert_ok(r.result);
    r.events->ops->close(r.events);
    assert_int_equal(r.raw, 3);
    assert_in_range(r.last_ns, begun_ns, os_mono_ns() + CLK_S);
}

static int make_dir(void **state)
{
    return support_temp_dir(dir, sizeof dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    support_remove_dir(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_foreign_session_counts_once_it_tells_of_a_start),
        cmocka_unit_test(a_foreign_session_may_stamp_by_the_wall_clock),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
