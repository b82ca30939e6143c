/* What changes while sessions run: levels, wishes, buffers; and whether they still live. */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/source_shed.h"
#include "agent/source/windows/etw_live.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/agent/source/windows/etw_starts.h"
#include "tests/agent/source/windows/events_source.h"
#include "tests/support/etl_load.h"
#include "tests/support/etwreplay.h"
#include "tests/support/support.h"

#define FILE_BYTES (UINT64_C(1) << 20)
#define PERMITTED  0x0100251fu /* everything there is a setting for */
#define LIFE       0xfu
#define INTERVAL   10000u /* of samples, before anybody changes it */

static char dir[256], path[300];
static uint64_t in_file; /* records */

struct heard {
    uint64_t raw;
    uint64_t threads, switches;
    uint64_t spin;
    volatile uint64_t sum;
    int64_t interval_ns;
};

static void on_raw(void *ctx, const struct raw_event *raw)
{
    static const uint8_t thread[16] = ETW_CLASS_THREAD;
    struct heard *h = ctx;

    h->raw++;
    if (memcmp(raw->guid, thread, sizeof thread) == 0) {
        h->threads += raw->opcode <= 4;
        h->switches += raw->opcode == 36;
    }
    for (uint64_t i = 0; i < h->spin; i++) {
        h->sum += i;
    }
}

static void on_fact(void *ctx, const struct event *ev)
{
    struct heard *h = ctx;

    if (ev->kind == EV_CPU_SAMPLE_INTERVAL) {
        h->interval_ns = ev->u.interval_ns;
    }
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    (void)ctx;
    (void)wall_ns;
    (void)mono_ns;
}

/* Three sessions, asked and tried again at once. */
static struct etw_live_conf three_sessions(void)
{
    struct etw_conf v = {.session_name = "procfleet",
                         .buffers = {64, 4, 64},
                         .hi = {256, 64, 128},
                         .pool_mib = 64,
                         .flush_s = 1,
                         .flags = PERMITTED,
                         .n_providers = 1,
                         .samples_per_s = 2000,
                         .ring_bytes = (size_t)16 << 20,
                         .batch_events = 10000,
                         .retry_fast = 3,
                         .retry_pause_ns = CLK_MS};
    struct etw_live_conf conf;

    assert_ok(etw_provider_parse(&v.providers[0], ETW_PROVIDER_KERNEL_PROCESS_NAME, NULL));
    etw_live_conf_make(&conf, &v, false);
    conf.query_ns = CLK_MS;
    conf.pause_ns = CLK_MS;
    conf.images_ns = 0;
    return conf;
}

struct rig {
    struct live_events *events;
    struct events_source source;
    struct os_thread *thread;
    struct heard heard;
    enum err result;
};

static void run(void *arg)
{
    struct rig *r = arg;

    r->result = events_source_run(&r->source.source);
}

static void rig_open(struct rig *r, const struct etwreplay_script *script,
                     const struct etw_live_conf *conf)
{
    struct source_sink sink = {
        .ctx = &r->heard, .raw = on_raw, .fact = on_fact, .advance = on_advance};
    struct etw_live_conf with = *conf;
    struct errmsg why = {""};

    r->source = (struct events_source){0};
    with.api = etwreplay_begin(script);
    if (etw_live_open(&r->events, &with, sink, &why)) {
        fail_msg("%s", why.text);
    }
    (void)events_source_make(&r->source, r->events);
}

static struct source_ask nothing_new(void)
{
    return (struct source_ask){.what = SOURCE_ASK_STACKS};
}

static enum err wish(struct rig *r, struct source_ask ask, struct errmsg *why)
{
    return r->events->ops->ask(r->events, &ask, why);
}

/* The control thread serves nobody before it runs. */
static void rig_start(struct rig *r)
{
    unsigned queries = etwreplay_calls(REPLAY_QUERY);

    assert_err(wish(r, nothing_new(), NULL), ERR_UNSUPPORTED);
    assert_ok(os_thread_start(&r->thread, "source", run, r));
    assert_true(etwreplay_wait_calls(REPLAY_QUERY, queries + 1)); /* by that thread */
    assert_ok(wish(r, nothing_new(), NULL));
}

/* What was told before a wish is done when the wish is. */
static void set_level(struct rig *r, unsigned level)
{
    r->events->ops->level(r->events, level);
    assert_ok(wish(r, nothing_new(), NULL));
}

static struct etw_live_stats rig_stop(struct rig *r)
{
    struct etw_live_stats stats;

    events_source_stop(&r->source.source);
    os_thread_join(r->thread);
    assert_ok(r->result);
    assert_err(wish(r, nothing_new(), NULL), ERR_UNSUPPORTED);
    etw_live_stats(r->events, &stats);
    r->events->ops->close(r->events);
    assert_false(etwreplay_exists("procfleet"));
    assert_false(etwreplay_exists("procfleet-hi"));
    assert_false(etwreplay_exists("procfleet-kp"));
    assert_int_equal(etwreplay_interval(), INTERVAL);
    return stats;
}

/* ---- levels ---- */

static void the_session_of_high_rates_follows_the_level(void **state)
{
    static const struct {
        unsigned level;
        uint32_t flags, interval;
    } rows[] = {
        {0, 0, INTERVAL},      {1, 0, INTERVAL},      {2, 0x2502, INTERVAL},
        {3, 0x2512, INTERVAL}, {4, 0x01002512, 5000}, {3, 0x2512, INTERVAL},
        {4, 0x01002512, 5000}, {1, 0, INTERVAL},      {4, 0x01002512, 5000},
    };
    struct etwreplay_script script = {0};
    struct etw_live_conf conf = three_sessions();
    struct rig r = {0};
    struct etw_live_stats stats;

    rig_open(&r, &script, &conf);
    rig_start(&r);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        set_level(&r, rows[i].level);
        assert_int_equal(etwreplay_exists("procfleet-hi"), rows[i].flags != 0);
        assert_int_equal(etwreplay_flags_of("procfleet-hi"), rows[i].flags);
        assert_int_equal(etwreplay_flags_of("procfleet"), LIFE);
        assert_int_equal(etwreplay_interval(), rows[i].interval);
        assert_true(r.events->ops->up(r.events, NULL));
    }
    stats = rig_stop(&r);
    assert_int_equal(stats.sessions_lost, 0);
    assert_int_equal(stats.ctl.failed, 0);
    assert_int_equal(stats.ctl.started, 4); /* two, and two times the third */
}

/* .NET's runtimes are asked at L1 for collections, from L2 on for everything; what is too many by
 * itself goes alone. */
static void dotnet_follows_the_level_and_what_is_left_out(void **state)
{
    static const struct {
        unsigned level, shed;
        unsigned enabled, ids; /* calls, less those that disable; of the filter told last */
        uint32_t flags;
    } rows[] = {
        {1, 0, 2, 9, 0},
        {2, 0, 3, 13, 0x12502},
        {2, 1u << SOURCE_SHED_CLR, 4, 9, 0x12502},
        {1, 1u << SOURCE_SHED_CLR, 3, 9, 0},
        {2, 1u << SOURCE_SHED_NETWORK, 4, 13, 0x2502},
        {0, 0, 3, 13, 0},
    };
    struct etwreplay_script script = {0};
    struct etw_live_conf conf = three_sessions();
    struct rig r = {0};
    struct etw_live_stats stats;

    conf.clr = ETW_CLR_FULL;
    conf.permitted |= ETW_FLAG_NETWORK;
    rig_open(&r, &script, &conf);
    rig_start(&r);
    assert_int_equal(etwreplay_enabled("procfleet-kp"), 1);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        r.events->ops->shed(r.events, rows[i].shed);
        set_level(&r, rows[i].level);
        assert_int_equal(etwreplay_enabled("procfleet-kp"), rows[i].enabled);
        assert_int_equal(etwreplay_filter_ids(), rows[i].ids);
        assert_int_equal(etwreplay_flags_of("procfleet-hi"), rows[i].flags);
    }
    stats = rig_stop(&r);
    assert_int_equal(stats.sheds[SOURCE_SHED_CLR], 1);
    assert_int_equal(stats.sheds[SOURCE_SHED_NETWORK], 1);
    assert_int_equal(stats.ctl.failed, 0);
}

/* Who hands over frames is asked from L1 on, and no more when the level is given up. */
static void frames_follow_the_level(void **state)
{
    static const struct {
        unsigned level, enabled; /* calls, less those that disable */
    } rows[] = {{1, 3}, {2, 3}, {0, 1}, {1, 3}};
    struct etwreplay_script script = {0};
    struct etw_live_conf conf = three_sessions();
    struct rig r = {0};
    uint32_t groups;

    conf.presents = true;
    rig_open(&r, &script, &conf);
    rig_start(&r);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        set_level(&r, rows[i].level);
        assert_int_equal(etwreplay_enabled("procfleet-kp"), rows[i].enabled);
        assert_true(r.events->ops->groups(r.events, &groups));
        assert_int_equal((groups & EVENT_GROUP_PRESENT) != 0, rows[i].level > 0);
    }
    assert_int_equal(rig_stop(&r).ctl.failed, 0);
}

/* High rates in bursts of a second would overflow their ring. The kernel's own timer does it. */
static void while_high_rates_stand_sessions_deliver_ten_times_a_second(void **state)
{
    static const char *const names[] = {"procfleet", "procfleet-kp", "procfleet-hi"};
    struct etwreplay_script script = {0};
    struct etw_live_conf conf = three_sessions();
    struct rig r = {0};
    unsigned flushes;
    bool in_ms;

    rig_open(&r, &script, &conf);
    rig_start(&r);
    assert_int_equal(etwreplay_timer_of("procfleet", &in_ms), 1000);
    assert_true(in_ms);
    set_level(&r, 2);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_int_equal(etwreplay_timer_of(names[i], &in_ms), 100);
        assert_true(in_ms);
    }
    assert_int_equal(etwreplay_flags_of("procfleet"), LIFE); /* an update leaves them on */
    flushes = etwreplay_calls(REPLAY_FLUSH);
    assert_true(flushes <= 3); /* each once: the longer timer runs still */
    os_sleep_ns(300 * CLK_MS);
    assert_int_equal(etwreplay_calls(REPLAY_FLUSH), flushes);
    set_level(&r, 1);
    assert_int_equal(etwreplay_timer_of("procfleet", &in_ms), 1000);
    assert_int_equal(etwreplay_flags_of("procfleet"), LIFE);
    (void)rig_stop(&r);
}

/* Where it knows seconds only, we ask. */
static void a_system_without_short_timers_is_asked_ten_times_a_second(void **state)
{
    struct etwreplay_script script = {.whole_seconds = true};
    struct etw_live_conf conf = three_sessions();
    struct rig r = {0};
    unsigned before, begun;
    int64_t began_ns;

    conf.query_ns = 2 * CLK_MS;
    rig_open(&r, &script, &conf);
    rig_start(&r);
    set_level(&r, 1);
    before = etwreplay_calls(REPLAY_FLUSH);
    assert_true(etwreplay_wait_calls(REPLAY_QUERY, etwreplay_calls(REPLAY_QUERY) + 40));
    assert_int_equal(etwreplay_calls(REPLAY_FLUSH), before);
    began_ns = os_mono_ns();
    set_level(&r, 2);
    assert_true(etwreplay_wait_calls(REPLAY_FLUSH, before + 7)); /* three at once, twice again */
    assert_true(os_mono_ns() - began_ns >= 200 * CLK_MS);
    set_level(&r, 1);
    begun = etwreplay_calls(REPLAY_FLUSH);
    began_ns = os_mono_ns();
    while (os_mono_ns() - began_ns < 300 * CLK_MS) {
        assert_true(etwreplay_wait_calls(REPLAY_QUERY, etwreplay_calls(REPLAY_QUERY) + 2));
    }
    assert_int_equal(etwreplay_calls(REPLAY_FLUSH), begun);
    (void)rig_stop(&r);
}

static void what_is_not_permitted_stays_off(void **state)
{
    static const struct {
        uint32_t permitted;
        size_t sessions;
        uint32_t flags; /* at L4 */
    } rows[] = {{0x1f, 3, 0x12}, {0x200f, 3, 0x2002}, {0xf, 2, 0}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct etw_conf v = {.session_name = "procfleet",
                             .buffers = {64, 4, 64},
                             .hi = {256, 64, 128},
                             .pool_mib = 64,
                             .flush_s = 1,
                             .flags = rows[i].permitted,
                             .n_providers = 1};
        struct etw_live_conf conf;

        etw_live_conf_make(&conf, &v, false);
        assert_int_equal(conf.n_sessions, rows[i].sessions);
        assert_int_equal(etw_conf_high_flags(conf.permitted, 4), rows[i].flags);
    }
}

static void a_lost_session_of_high_rates_comes_back_with_its_flags(void **state)
{
    struct etwreplay_script script = {
        .faults[REPLAY_START] = {.from = 2, .times = 3, .code = ERROR_NO_SYSTEM_RESOURCES}};
    struct etw_live_conf conf = three_sessions();
    struct rig r = {0};
    struct errmsg why;
    struct etw_live_stats stats;

    conf.retry_ns = 3600 * CLK_S;
    rig_open(&r, &script, &conf);
    rig_start(&r);
    set_level(&r, 3);
    assert_false(etwreplay_exists("procfleet-hi"));
    assert_true(r.events->ops->up(r.events, &why));
    assert_non_null(strstr(why.text, "start of procfleet-hi: no session slot is free"));
    assert_non_null(strstr(why.text, "80 sessions at most")); /* it may be asked by now */
    assert_non_null(strstr(why.text, "held by: procfleet;"));
    (void)rig_stop(&r);

    conf.retry_ns = CLK_MS;
    rig_open(&r, &script, &conf);
    rig_start(&r);
    set_level(&r, 3);
    assert_true(etwreplay_wait_calls(REPLAY_START, 6));
    assert_true(etwreplay_wait_calls(REPLAY_SET_INFO, 4)); /* two for each */
    assert_ok(wish(&r, nothing_new(), NULL));
    assert_int_equal(etwreplay_flags_of("procfleet-hi"), 0x2512);
    assert_true(r.events->ops->up(r.events, &why));
    assert_string_equal(why.text, "");
    stats = rig_stop(&r);
    assert_int_equal(stats.restarts, 1);
}

/* As by programs that guard others' games: they refuse a start, and let alone what stands. */
static void a_session_of_high_rates_that_was_refused_anew_is_kept(void **state)
{
    struct etwreplay_script script = {
        .faults[REPLAY_START] = {.from = 3, .times = 2, .code = ERROR_ACCESS_DENIED}};
    struct etw_live_conf conf = three_sessions();
    struct errmsg why;
    struct rig r = {0};

    conf.retry_ns = 100 * CLK_MS;
    rig_open(&r, &script, &conf);
    rig_start(&r);
    set_level(&r, 2);
    set_level(&r, 1);
    assert_false(etwreplay_exists("procfleet-hi"));
    set_level(&r, 2);
    assert_true(r.events->ops->up(r.events, &why));
    assert_non_null(strstr(why.text, "start of procfleet-hi: access denied"));
    assert_true(etwreplay_wait_calls(REPLAY_START, 6));
    while (etwreplay_flags_of("procfleet-hi") != 0x2502) {
        assert_ok(wish(&r, nothing_new(), NULL));
    }
    set_level(&r, 1);
    assert_true(etwreplay_exists("procfleet-hi"));
    assert_int_equal(etwreplay_flags_of("procfleet-hi"), 0);
    set_level(&r, 2);
    assert_int_equal(etwreplay_flags_of("procfleet-hi"), 0x2502);
    assert_int_equal(etwreplay_calls(REPLAY_START), 6);
    (void)rig_stop(&r);
}

static void losses_of_high_rates_are_counted_apart(void **state)
{
    struct etwreplay_script script = {0};
    struct etw_live_conf conf = three_sessions();
    struct rig r = {0};
    struct errmsg why;
    struct etw_live_stats stats;
    unsigned queries;

    rig_open(&r, &script, &conf);
    rig_start(&r);
    set_level(&r, 3);
    etwreplay_lost(5, 2);
    queries = etwreplay_calls(REPLAY_QUERY);
    assert_true(etwreplay_wait_calls(REPLAY_QUERY, queries + 6));
    assert_ok(wish(&r, nothing_new(), NULL));
    assert_true(r.events->ops->up(r.events, &why));
    assert_non_null(strstr(why.text, "etw.max_buffers"));
    assert_non_null(strstr(why.text, "etw.hi.max_buffers"));
    stats = rig_stop(&r);
    assert_int_equal(stats.lost_events, 15);
    assert_int_equal(stats.high_events, 5);
    assert_int_equal(stats.lost_buffers, 6);
    assert_int_equal(stats.high_buffers, 2);
    assert_int_equal(stats.ctl.grown, 3);
}

static void threads_are_told_once_although_two_sessions_record_them(void **state)
{
    struct etwreplay_script script = {.path = path};
    struct etw_live_conf conf = three_sessions();
    struct etw_live_conf one = conf;
    uint64_t threads, switches;
    struct rig r = {0};

    one.n_sessions = 1;
    one.sessions[0].high = false;
    rig_open(&r, &script, &one);
    assert_ok(os_thread_start(&r.thread, "source", run, &r));
    assert_true(etwreplay_wait_told(1));
    (void)rig_stop(&r);
    threads = r.heard.threads;
    switches = r.heard.switches;
    assert_true(threads > 0 && switches > 0);

    r = (struct rig){0};
    conf.sessions[1] = conf.sessions[2]; /* no providers: they would get all of it too */
    conf.n_sessions = 2;
    script.pause_after = 1; /* each, until all of them are there */
    rig_open(&r, &script, &conf);
    rig_start(&r);
    set_level(&r, 3);
    assert_true(etwreplay_wait_told(2));
    assert_ok(wish(&r, nothing_new(), NULL));
    etwreplay_resume();
    assert_true(etwreplay_wait_told(4));
    (void)rig_stop(&r);
    assert_int_equal(r.heard.threads, threads);
    assert_int_equal(r.heard.switches, 2 * switches);
}

static void what_a_killed_agent_left_of_it_ends_at_every_level(void **state)
{
    struct etwreplay_script script = {0};
    struct etw_live_conf conf = three_sessions();
    struct source_sink sink = {.raw = on_raw, .fact = on_fact, .advance = on_advance};
    struct live_events *events;

    conf.api = etwreplay_begin(&script);
    etwreplay_add("procfleet-hi", conf.sessions[2].session.guid, true);
    assert_ok(etw_live_open(&events, &conf, sink, NULL));
    assert_false(etwreplay_exists("procfleet-hi"));
    events->ops->close(events);

    conf.api = etwreplay_begin(&script);
    etwreplay_add("procfleet-hi", conf.sessions[0].session.guid, true); /* not ours */
    assert_ok(etw_live_open(&events, &conf, sink, NULL));
    assert_true(etwreplay_exists("procfleet-hi"));
    events->ops->close(events);
    assert_true(etwreplay_exists("procfleet-hi"));
}

/* ---- wishes ---- */

static void wishes_are_followed_while_it_runs(void **state)
{
    struct etwreplay_script script = {0};
    struct etw_live_conf conf = three_sessions();
    struct source_ask ask = {.what = SOURCE_ASK_FLAGS, .flags = 0x13};
    struct rig r = {0};
    struct errmsg why;

    rig_open(&r, &script, &conf);
    rig_start(&r);
    set_level(&r, 4);
    assert_ok(wish(&r, ask, NULL));
    assert_int_equal(etwreplay_flags_of("procfleet"), 0x3);
    assert_int_equal(etwreplay_flags_of("procfleet-hi"), 0x12);
    assert_int_equal(etwreplay_interval(), INTERVAL); /* no samples any more */
    ask.flags = 0x2;
    assert_ok(wish(&r, ask, NULL));
    assert_false(etwreplay_exists("procfleet-hi"));
    assert_false(r.events->ops->up(r.events, &why)); /* nobody tells of starts */
    assert_non_null(strstr(why.text, "enable_process_events"));
    ask.flags = 0x1003;
    assert_err(wish(&r, ask, &why), ERR_UNSUPPORTED);
    ask.flags = PERMITTED;
    assert_ok(wish(&r, ask, NULL));
    assert_true(r.events->ops->up(r.events, NULL));
    assert_int_equal(etwreplay_flags_of("procfleet-hi"), 0x01002512);

    assert_ok(wish(&r, (struct source_ask){.what = SOURCE_ASK_STACKS, .on = true}, NULL));
    assert_int_equal(etwreplay_stacks(), 2);
    assert_ok(wish(&r, nothing_new(), NULL));
    assert_int_equal(etwreplay_stacks(), 0);

    ask = (struct source_ask){.what = SOURCE_ASK_PROVIDER};
    assert_ok(etw_provider_parse(&ask.provider, "Microsoft-Windows-DXGI#42", NULL));
    assert_ok(wish(&r, ask, NULL));
    assert_ok(wish(&r, ask, NULL)); /* again: the same */
    assert_int_equal(etwreplay_filter_ids(), 1);
    assert_int_equal(etwreplay_enabled("procfleet-kp"), 3);
    ask.what = SOURCE_ASK_NO_PROVIDER;
    assert_ok(wish(&r, ask, NULL));
    assert_err(wish(&r, ask, &why), ERR_NOTFOUND);

    ask = (struct source_ask){.what = SOURCE_ASK_BUFFERS, .max_buffers = 100};
    assert_ok(wish(&r, ask, NULL));
    assert_int_equal(etwreplay_max_buffers(), 100);
    ask.max_buffers = 100000;
    assert_err(wish(&r, ask, &why), ERR_RANGE);
    (void)rig_stop(&r);
}

static void what_cannot_be_followed_says_so(void **state)
{
    struct etwreplay_script script = {
        .flags_refused = 0x100, .faults[REPLAY_ENABLE] = {.from = 2, .times = 100, .code = 5}};
    struct etw_live_conf conf = three_sessions();
    struct source_ask ask = {.what = SOURCE_ASK_PROVIDER};
    struct rig r = {0};
    struct errmsg why;

    rig_open(&r, &script, &conf);
    rig_start(&r);
    assert_ok(etw_provider_parse(&ask.provider, "Microsoft-Windows-Dwm-Core", NULL));
    assert_err(wish(&r, ask, &why), ERR_PROVIDER);
    assert_non_null(strstr(why.text, "provider Microsoft-Windows-Dwm-Core"));
    set_level(&r, 2);
    assert_true(r.events->ops->up(r.events, &why));
    assert_non_null(strstr(why.text, "procfleet-hi: the kernel refuses the flags 0x100"));
    assert_int_equal(etwreplay_flags_of("procfleet-hi"), 0x2402); /* the others are on */
    (void)rig_stop(&r);
}

/* ---- is it alive? ---- */

static void a_session_that_hands_on_nothing_is_started_again(void **state)
{
    struct etwreplay_script script = {.stuck = true};
    struct etw_live_conf conf = three_sessions();
    struct rig r = {0};
    struct etw_live_stats stats;

    conf.heartbeat_ns = 10 * CLK_MS;
    rig_open(&r, &script, &conf);
    rig_start(&r);
    assert_true(etwreplay_wait_calls(REPLAY_START, 4));
    stats = rig_stop(&r);
    assert_true(stats.sessions_lost >= 1);
    assert_true(stats.restarts >= 1);
}

static void a_quiet_session_that_answers_is_left_alone(void **state)
{
    struct etwreplay_script script = {0};
    struct etw_live_conf conf = three_sessions();
    struct rig r = {0};
    struct etw_live_stats stats;

    conf.heartbeat_ns = 10 * CLK_MS;
    rig_open(&r, &script, &conf);
    rig_start(&r);
    assert_true(etwreplay_wait_calls(REPLAY_FLUSH, 5)); /* as often it was put to the test */
    stats = rig_stop(&r);
    assert_int_equal(stats.sessions_lost, 0);
    assert_int_equal(etwreplay_calls(REPLAY_START), 2);
}

static bool only_lifecycle(const char *session, const struct raw_event *raw)
{
    (void)raw;
    return strcmp(session, "procfleet") == 0;
}

/* Starts are seen by the other session meanwhile; the one of providers has nothing to say of them,
 * because its provider was refused or is another one. */
static void a_session_that_cannot_tell_of_starts_is_not_expected_to(void **state)
{
    char starts[sizeof path + 8];

    (void)snprintf(starts, sizeof starts, "%s.starts", path);
    etw_starts_write(starts);
    for (int i = 0; i < 3; i++) {
        struct etwreplay_script script = {
            .path = starts, .wants = only_lifecycle, .pause_after = 2, .stuck = true};
        struct etw_live_conf conf = three_sessions();
        struct rig r = {0};
        struct etw_live_stats stats;

        if (i == 0) {
            script.faults[REPLAY_ENABLE] =
                (struct etwreplay_fault){.times = 100, .code = ERROR_ACCESS_DENIED};
        } else if (i == 1) {
            assert_ok(etw_provider_parse(&conf.sessions[1].providers[0],
                                         "Microsoft-Windows-DotNETRuntime", NULL));
        }
        conf.sessions[0].session.flags = ETW_FLAG_PROCESS;
        conf.heartbeat_ns = 10 * CLK_MS;
        rig_open(&r, &script, &conf);
        rig_start(&r);
        assert_true(etwreplay_wait_told(2));
        assert_true(etwreplay_wait_calls(REPLAY_QUERY, etwreplay_calls(REPLAY_QUERY) + 20));
        etwreplay_resume(); /* a process starts */
        if (i == 2) {
            assert_true(etwreplay_wait_calls(REPLAY_START, 3));
        } else {
            assert_true(etwreplay_wait_calls(REPLAY_QUERY, etwreplay_calls(REPLAY_QUERY) + 60));
        }
        stats = rig_stop(&r);
        assert_true(i == 2 ? stats.sessions_lost > 0 : stats.sessions_lost == 0);
    }
}

/* ---- what it costs ---- */

static void the_callback_is_timed(void **state)
{
    struct etwreplay_script script = {.path = path};
    struct etw_live_conf conf = three_sessions();
    struct rig r = {0};
    struct source_stats seen;
    struct etw_live_stats stats;
    unsigned queries;

    rig_open(&r, &script, &conf);
    assert_ok(os_thread_start(&r.thread, "source", run, &r));
    assert_true(etwreplay_wait_told(2));
    queries = etwreplay_calls(REPLAY_QUERY);
    assert_true(etwreplay_wait_calls(REPLAY_QUERY, queries + 4));
    r.events->ops->stats(r.events, &seen);
    assert_in_range(seen.callback_p99_ns, 1, CLK_S);
    stats = rig_stop(&r);
    assert_int_equal(stats.records, 2 * in_file);
    assert_int_equal(stats.dropped, 0);
}

static void a_ring_that_overflows_is_said(void **state)
{
    struct etwreplay_script script = {.path = path};
    struct etw_live_conf conf = three_sessions();
    struct rig r = {.heard.spin = 20000};
    struct errmsg why;
    unsigned queries;

    conf.ring_bytes = RING_BYTES_MIN;
    rig_open(&r, &script, &conf);
    assert_ok(os_thread_start(&r.thread, "source", run, &r));
    assert_true(etwreplay_wait_told(2));
    queries = etwreplay_calls(REPLAY_QUERY);
    assert_true(etwreplay_wait_calls(REPLAY_QUERY, queries + 4));
    assert_true(r.events->ops->up(r.events, &why));
    assert_non_null(strstr(why.text, "raise etw.ring_bytes"));
    assert_true(rig_stop(&r).dropped > 0);
}

static void the_distance_of_samples_is_told_where_we_have_set_it(void **state)
{
    struct etwreplay_script script = {.path = path};
    struct etw_live_conf conf = three_sessions();
    struct rig r = {0};

    rig_open(&r, &script, &conf);
    rig_start(&r);
    set_level(&r, 4);
    assert_true(etwreplay_wait_told(3));
    (void)rig_stop(&r);
    assert_int_equal(r.heard.interval_ns, CLK_S / 2000);
}

/* ---- which sessions ---- */

static void sessions_of_another_name_are_other_sessions(void **state)
{
    struct etw_conf v = {.session_name = "procfleet",
                         .buffers = {64, 4, 64},
                         .hi = {256, 64, 128},
                         .pool_mib = 64,
                         .flush_s = 2,
                         .flags = PERMITTED,
                         .n_providers = 1};
    struct etw_live_conf ours, theirs, again;
    static const char *const names[] = {"lab", "lab-kp", "lab-hi"};

    etw_live_conf_make(&ours, &v, false);
    v.session_name = "lab";
    etw_live_conf_make(&theirs, &v, false);
    etw_live_conf_make(&again, &v, false);
    assert_int_equal(theirs.n_sessions, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(theirs.sessions[i].session.name, names[i]);
        assert_memory_not_equal(ours.sessions[i].session.guid, theirs.sessions[i].session.guid, 16);
        assert_memory_equal(again.sessions[i].session.guid, theirs.sessions[i].session.guid, 16);
        assert_int_equal(theirs.sessions[i].session.flush_s, 2);
        for (size_t k = 0; k < i; k++) {
            assert_memory_not_equal(ours.sessions[i].session.guid, ours.sessions[k].session.guid,
                                    16);
        }
    }
    assert_int_equal(theirs.sessions[2].session.buffer_kb, 256);
    assert_true(theirs.sessions[0].session.one_stream && !theirs.sessions[2].session.one_stream);
    etw_live_conf_make(&theirs, &v, true);
    assert_int_equal(theirs.n_sessions, 1);
    assert_true(theirs.sessions[0].session.attach);
}

static void many_processors_have_buffers_of_their_own(void **state)
{
    static const struct {
        uint32_t cpus;
        bool one_stream;
        struct etw_buffers conf, made;
    } rows[] = {
        {8, false, {256, 64, 128}, {256, 64, 128}},
        {64, false, {256, 64, 128}, {256, 128, 148}},
        {256, false, {256, 64, 128}, {64, 512, 532}}, /* smaller ones, within the pool */
        {2048, false, {256, 64, 128}, {64, 1024, 1024}},
        {256, true, {64, 64, 256}, {64, 64, 256}},
        {2, false, {32, 64, 512}, {32, 64, 512}},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct etw_session_conf s = {.one_stream = rows[i].one_stream};

        etw_live_conf_buffers(&s, &rows[i].conf, 64, rows[i].cpus);
        assert_int_equal(s.buffer_kb, rows[i].made.kb);
        assert_int_equal(s.min_buffers, rows[i].made.min);
        assert_int_equal(s.max_buffers, rows[i].made.max);
    }
}

static void nothing_to_record_is_an_error(void **state)
{
    struct etw_conf v = {.session_name = "procfleet"};
    struct source_sink sink = {.raw = on_raw, .fact = on_fact, .advance = on_advance};
    struct live_events *events;
    struct etw_live_conf conf;
    struct errmsg why;

    etw_live_conf_make(&conf, &v, false);
    assert_int_equal(conf.n_sessions, 0);
    assert_err(etw_live_open(&events, &conf, sink, &why), ERR_INVALID);
    assert_non_null(strstr(why.text, "etw.enable_"));
}

static void opening_survives_every_failing_allocation(void **state)
{
    struct etwreplay_script script = {0};
    struct etw_live_conf conf = three_sessions();
    struct source_sink sink = {.raw = on_raw, .fact = on_fact, .advance = on_advance};
    struct live_events *events = NULL;
    enum err e = ERR_NOMEM;
    long before, n = 0;

    conf.api = etwreplay_begin(&script);
    before = mem_live();
    for (; e; n++) {
        assert_true(n < 100);
        mem_fail_after(n);
        e = etw_live_open(&events, &conf, sink, NULL);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        assert_true(e == ERR_OK || mem_live() == before);
        assert_true(e == ERR_OK || !etwreplay_exists("procfleet"));
    }
    assert_true(n > 8);
    events->ops->close(events);
    assert_int_equal(mem_live(), before);
    assert_false(etwreplay_exists("procfleet-kp"));
}

static int make_file(void **state)
{
    support_temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/load.etl", dir);
    in_file = etl_load_make(path, FILE_BYTES, false);
    return 0;
}

static int remove_file(void **state)
{
    support_remove_dir(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_session_of_high_rates_follows_the_level),
        cmocka_unit_test(dotnet_follows_the_level_and_what_is_left_out),
        cmocka_unit_test(frames_follow_the_level),
        cmocka_unit_test(while_high_rates_stand_sessions_deliver_ten_times_a_second),
        cmocka_unit_test(a_system_without_short_timers_is_asked_ten_times_a_second),
        cmocka_unit_test(what_is_not_permitted_stays_off),
        cmocka_unit_test(a_lost_session_of_high_rates_comes_back_with_its_flags),
        cmocka_unit_test(a_session_of_high_rates_that_was_refused_anew_is_kept),
        cmocka_unit_test(losses_of_high_rates_are_counted_apart),
        cmocka_unit_test(threads_are_told_once_although_two_sessions_record_them),
        cmocka_unit_test(what_a_killed_agent_left_of_it_ends_at_every_level),
        cmocka_unit_test(wishes_are_followed_while_it_runs),
        cmocka_unit_test(what_cannot_be_followed_says_so),
        cmocka_unit_test(a_session_that_hands_on_nothing_is_started_again),
        cmocka_unit_test(a_quiet_session_that_answers_is_left_alone),
        cmocka_unit_test(a_session_that_cannot_tell_of_starts_is_not_expected_to),
        cmocka_unit_test(the_callback_is_timed),
        cmocka_unit_test(a_ring_that_overflows_is_said),
        cmocka_unit_test(the_distance_of_samples_is_told_where_we_have_set_it),
        cmocka_unit_test(sessions_of_another_name_are_other_sessions),
        cmocka_unit_test(many_processors_have_buffers_of_their_own),
        cmocka_unit_test(nothing_to_record_is_an_error),
        cmocka_unit_test(opening_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, make_file, remove_file);
}
