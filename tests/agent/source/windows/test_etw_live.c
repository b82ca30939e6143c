/* Live sessions against the replay: whatever goes wrong between the system and the sink is mended,
 * and shows in counters and in the stream. */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/ring/ring.h"
#include "agent/source/windows/etw_live.h"
#include "agent/source/windows/etw_owner.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/agent/source/windows/events_source.h"
#include "tests/support/etl_load.h"
#include "tests/support/etwreplay.h"
#include "tests/support/support.h"

#define FILE_BYTES (UINT64_C(1) << 20)
#define NEVER_NS   (3600 * CLK_S)
#define PART       1000u /* records until something happens */

static char dir[256], path[300];
static uint64_t in_file; /* records */

struct heard {
    uint64_t raw, marks, lost_events, lost_buffers;
    int64_t now_ns;
    uint64_t spin;
    int64_t step_ns;         /* count by the first offset of wall and stamps that was heard: */
    int64_t less_ns;         /* that, */
    uint64_t before, behind; /* with it, and with one that is so much more */
    volatile uint64_t sum;
};

static void on_raw(void *ctx, const struct raw_event *raw)
{
    static const uint8_t lost[16] = ETW_CLASS_LOST_EVENT;
    struct heard *h = ctx;

    assert_true(raw->mono_ns <= h->now_ns);
    if (h->step_ns) {
        int64_t less_ns = raw->wall_ns - raw->mono_ns;

        h->less_ns = h->raw ? h->less_ns : less_ns;
        assert_true(less_ns == h->less_ns || less_ns == h->less_ns + h->step_ns);
        h->before += less_ns == h->less_ns;
        h->behind += less_ns != h->less_ns;
    }
    h->raw += memcmp(raw->guid, lost, sizeof lost) != 0;
    for (uint64_t i = 0; i < h->spin; i++) {
        h->sum += i;
    }
}

static void on_fact(void *ctx, const struct event *ev)
{
    struct heard *h = ctx;

    assert_int_equal(ev->kind, EV_LOST);
    h->marks++;
    h->lost_events += ev->u.lost.events;
    h->lost_buffers += ev->u.lost.buffers;
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct heard *h = ctx;

    (void)wall_ns;
    assert_true(mono_ns > h->now_ns);
    h->now_ns = mono_ns;
}

/* One session, asked and tried again at once, with room for everything. */
static struct etw_live_conf one_session(void)
{
    struct etw_live_conf conf;

    etw_live_conf_defaults(&conf);
    conf.n_sessions = 1;
    conf.ring_bytes = (size_t)16 << 20;
    conf.query_ns = CLK_MS;
    conf.retry_ns = CLK_MS;
    conf.pause_ns = CLK_MS;
    conf.images_ns = 0;
    return conf;
}

struct rig {
    struct live_events *events;
    struct events_source source;
    struct os_thread *thread;
    struct heard heard;
    struct etw_live_stats stats; /* of the end */
    enum err result;
};

static void run(void *arg)
{
    struct rig *r = arg;

    r->result = events_source_run(&r->source.source);
}

static enum err rig_open(struct rig *r, const struct etwreplay_script *script,
                         const struct etw_live_conf *conf, struct errmsg *why)
{
    struct source_sink sink = {
        .ctx = &r->heard, .raw = on_raw, .fact = on_fact, .advance = on_advance};
    struct etw_live_conf with = *conf;

    r->heard.now_ns = INT64_MIN;
    with.api = etwreplay_begin(script);
    return etw_live_open(&r->events, &with, sink, why);
}

static bool rig_up(struct rig *r)
{
    return r->events->ops->up(r->events, NULL);
}

/* With those of no use: the header that each file begins with. */
static uint64_t arrived(const struct rig *r)
{
    return r->heard.raw + r->stats.skipped;
}

static void rig_start(struct rig *r)
{
    (void)events_source_make(&r->source, r->events);
    assert_ok(os_thread_start(&r->thread, "source", run, r));
}

static void rig_stop(struct rig *r)
{
    events_source_stop(&r->source.source);
    os_thread_join(r->thread);
    assert_ok(r->result);
    etw_live_stats(r->events, &r->stats);
    r->events->ops->close(r->events);
    assert_false(etwreplay_exists("procfleet"));
    assert_int_equal(r->heard.raw + r->stats.dropped + r->stats.skipped, etwreplay_told());
}

/* Until so many sessions have told all, or paused. */
static void rig_run(struct rig *r, const struct etwreplay_script *script,
                    const struct etw_live_conf *conf, unsigned told)
{
    struct errmsg why = {0};

    assert_ok(rig_open(r, script, conf, &why));
    rig_start(r);
    assert_true(etwreplay_wait_told(told));
    rig_stop(r);
}

static void every_record_arrives(void **state)
{
    struct etwreplay_script script = {.path = path};
    struct etw_live_conf conf = one_session();
    struct rig r = {0};

    rig_run(&r, &script, &conf, 1);
    assert_int_equal(arrived(&r), in_file);
    assert_int_equal(r.stats.records, in_file);
    assert_int_equal(r.heard.marks, 0);
    assert_int_equal(r.stats.sessions_lost, 0);
    assert_int_equal(r.stats.ctl.failed, 0);
}

static void a_session_that_ends_by_itself_is_started_again(void **state)
{
    static const ULONG codes[] = {ERROR_SUCCESS, 1, ERROR_WMI_INSTANCE_NOT_FOUND};

    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        struct etwreplay_script script = {
            .path = path, .return_after = PART, .return_code = codes[i]};
        struct etw_live_conf conf = one_session();
        struct rig r = {0};

        rig_run(&r, &script, &conf, 2);
        assert_int_equal(arrived(&r), PART + in_file);
        assert_int_equal(r.stats.sessions_lost, 1);
        assert_int_equal(r.stats.restarts, 1);
        assert_true(r.heard.marks >= 1); /* nobody knows how much is missing */
    }
}

static void a_session_that_another_program_stops_is_started_again(void **state)
{
    struct etwreplay_script script = {.path = path, .stop_after = PART};
    struct etw_live_conf conf = one_session();
    struct rig r = {0};

    rig_run(&r, &script, &conf, 2);
    assert_int_equal(arrived(&r), PART + in_file);
    assert_int_equal(r.stats.sessions_lost, 1);
    assert_int_equal(r.stats.restarts, 1);
    assert_true(r.heard.marks >= 1);
}

static void starting_again_is_tried_until_it_succeeds(void **state)
{
    struct etwreplay_script script = {
        .path = path,
        .stop_after = PART,
        .faults[REPLAY_START] = {.from = 1, .times = 5, .code = ERROR_NO_SYSTEM_RESOURCES}};
    struct etw_live_conf conf = one_session();
    struct rig r = {0};

    rig_run(&r, &script, &conf, 2);
    assert_int_equal(r.stats.restarts_failed, 5);
    assert_int_equal(r.stats.restarts, 1);
    assert_int_equal(arrived(&r), PART + in_file);
}

static void lost_events_that_the_stream_tells_are_told_once(void **state)
{
    struct etwreplay_script script = {.path = path, .lose_every = 10, .lose_told = true};
    struct etw_live_conf conf = one_session();
    struct rig r = {0};

    conf.query_ns = NEVER_NS; /* the session's own number comes at the end */
    rig_run(&r, &script, &conf, 1);
    assert_int_equal(arrived(&r), in_file - in_file / 10);
    assert_int_equal(r.stats.lost_events, in_file / 10);
    assert_int_equal(r.heard.lost_events, 0); /* the records themselves tell */
}

static void lost_events_that_only_the_session_counts_are_told(void **state)
{
    struct etwreplay_script script = {.path = path, .lose_every = 10, .buffers_lost = 5};
    struct etw_live_conf conf = one_session();
    struct rig r = {0};

    rig_run(&r, &script, &conf, 1);
    assert_int_equal(r.stats.lost_events, in_file / 10);
    assert_int_equal(r.stats.lost_buffers, 5);
    assert_int_equal(r.heard.lost_events, in_file / 10);
    assert_int_equal(r.heard.lost_buffers, 5);
}

static void loss_makes_the_buffers_grow(void **state)
{
    struct etwreplay_script script = {.path = path};
    struct etw_live_conf conf = one_session();
    struct rig r = {0};

    assert_ok(rig_open(&r, &script, &conf, NULL));
    rig_start(&r);
    etwreplay_lost(3, 0);
    assert_true(etwreplay_wait_calls(REPLAY_UPDATE, 1));
    assert_true(etwreplay_wait_told(1));
    rig_stop(&r);
    assert_int_equal(r.stats.ctl.grown, 1);
    assert_int_equal(etwreplay_max_buffers(), 2 * conf.sessions[0].session.max_buffers);
    assert_int_equal(r.heard.lost_events, 3);
}

/* While the kernel tells who lives; afterwards it is a matter of the level. */
static void what_is_lost_right_after_a_start_counts_apart(void **state)
{
    struct etwreplay_script script = {.path = path};
    struct etw_live_conf conf = one_session();

    for (int settled = 0; settled < 2; settled++) {
        struct rig r = {0};

        conf.settle_ns = settled ? 0 : NEVER_NS;
        assert_ok(rig_open(&r, &script, &conf, NULL));
        rig_start(&r);
        assert_true(etwreplay_wait_calls(REPLAY_QUERY, 5)); /* each looks whether it has */
        etwreplay_lost(3, 2);
        assert_true(etwreplay_wait_calls(REPLAY_UPDATE, 1));
        assert_true(etwreplay_wait_told(1));
        rig_stop(&r);
        assert_int_equal(r.stats.lost_events, 3);
        assert_int_equal(r.stats.lost_buffers, 2);
        assert_int_equal(r.stats.lost_at_start, settled ? 0 : 5);
    }
}

static void a_sink_that_is_too_slow_costs_records_and_says_so(void **state)
{
    struct etwreplay_script script = {.path = path};
    struct etw_live_conf conf = one_session();
    struct rig r = {.heard.spin = 20000};

    conf.ring_bytes = RING_BYTES_MIN;
    rig_run(&r, &script, &conf, 1);
    assert_true(r.stats.dropped > 0);
    assert_int_equal(arrived(&r), in_file - r.stats.dropped);
    assert_int_equal(r.heard.lost_events, r.stats.dropped);
}

static void a_pause_loses_nothing(void **state)
{
    struct etwreplay_script script = {.path = path, .pause_after = PART};
    struct etw_live_conf conf = one_session();
    struct rig r = {0};
    unsigned queries;

    assert_ok(rig_open(&r, &script, &conf, NULL));
    assert_true(rig_up(&r)); /* the session stands */
    rig_start(&r);
    assert_true(etwreplay_wait_told(1));
    queries = etwreplay_calls(REPLAY_QUERY);
    assert_true(etwreplay_wait_calls(REPLAY_QUERY, queries + 5)); /* meanwhile it is watched */
    assert_true(rig_up(&r));
    etwreplay_resume();
    assert_true(etwreplay_wait_told(2));
    rig_stop(&r);
    assert_int_equal(arrived(&r), in_file);
    assert_int_equal(r.stats.sessions_lost, 0);
}

static void a_short_flush_is_asked_for(void **state)
{
    struct etwreplay_script script = {.path = path};
    struct etw_live_conf conf = one_session();
    struct rig r = {0};

    conf.flush_ms = 5;
    conf.query_ns = CLK_S;
    assert_ok(rig_open(&r, &script, &conf, NULL));
    rig_start(&r);
    assert_true(etwreplay_wait_calls(REPLAY_FLUSH, 3));
    assert_true(etwreplay_wait_told(1));
    rig_stop(&r);
}

static void a_refusal_is_an_error_and_leaves_no_session(void **state)
{
    static const struct {
        enum etwreplay_call call;
        ULONG code;
        enum err e;
    } rows[] = {
        {REPLAY_START, ERROR_ACCESS_DENIED, ERR_ACCESS},
        {REPLAY_START, ERROR_NO_SYSTEM_RESOURCES, ERR_FULL},
        {REPLAY_OPEN, ERROR_ACCESS_DENIED, ERR_ACCESS},
        {REPLAY_OPEN, ERROR_PRIVILEGE_NOT_HELD, ERR_ACCESS},
        {REPLAY_OPEN, ERROR_CALL_NOT_IMPLEMENTED, ERR_UNSUPPORTED},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct etwreplay_script script = {0};
        struct etw_live_conf conf = one_session();
        struct rig r = {0};
        struct errmsg why = {0};

        script.faults[rows[i].call] = (struct etwreplay_fault){.times = 1, .code = rows[i].code};
        assert_err(rig_open(&r, &script, &conf, &why), rows[i].e);
        assert_true(strlen(why.text) > 40);
        assert_false(etwreplay_exists("procfleet"));
    }
}

static void what_may_be_refused_does_not_cost_the_rest(void **state)
{
    struct etwreplay_script script = {
        .path = path,
        .flags_refused = 0x8,
        .faults[REPLAY_ENABLE] = {.times = 1, .code = ERROR_ACCESS_DENIED}};
    struct etw_live_conf conf;
    struct rig r = {0};
    struct errmsg why;

    etw_live_conf_defaults(&conf);
    conf.ring_bytes = (size_t)16 << 20;
    assert_ok(rig_open(&r, &script, &conf, NULL));
    rig_start(&r);
    assert_true(etwreplay_wait_told(2));
    assert_true(etwreplay_wait_calls(REPLAY_QUERY, etwreplay_calls(REPLAY_QUERY) + 3));
    assert_true(r.events->ops->up(r.events, &why));
    assert_non_null(strstr(why.text, "procfleet: the kernel refuses the flags 0x8"));
    assert_non_null(strstr(why.text, "procfleet-kp: provider Microsoft-Windows-Kernel-Process"));
    rig_stop(&r);
    assert_int_equal(arrived(&r), 2 * in_file); /* both sessions got all of it */
    assert_int_equal(r.stats.ctl.flags_refused, 1);
    assert_int_equal(r.stats.ctl.providers_refused, 1);
    assert_int_equal(r.stats.late, 0);
}

/* It stands and delivers, but not what we need: tables must be compared, and starting it anew would
 * not help. */
static void without_the_right_to_its_events_a_session_is_not_up(void **state)
{
    static const struct {
        uint32_t refused;
        ULONG code;
        const char *why;
    } rows[] = {
        {0x1, 0, "procfleet: the kernel refuses the flags 0x1;"},
        {0x3, 0, "procfleet: the kernel refuses the flags 0x3;"},
        {0, ERROR_ACCESS_DENIED, "flags of procfleet: access denied"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct etwreplay_script script = {.flags_refused = rows[i].refused, .stuck = true};
        struct etw_live_conf conf = one_session();
        struct rig r = {0};
        struct errmsg why;

        script.faults[REPLAY_SET_INFO] =
            (struct etwreplay_fault){.times = rows[i].code ? 100 : 0, .code = rows[i].code};
        conf.heartbeat_ns = rows[i].refused == 0x1 ? 3600 * CLK_S : CLK_MS;
        conf.pause_ns = 3600 * CLK_S;
        assert_ok(rig_open(&r, &script, &conf, NULL));
        rig_start(&r);
        assert_true(etwreplay_wait_calls(REPLAY_QUERY, etwreplay_calls(REPLAY_QUERY) + 30));
        assert_false(r.events->ops->up(r.events, &why));
        assert_non_null(strstr(why.text, rows[i].why));
        rig_stop(&r);
        assert_int_equal(r.stats.sessions_lost, 0);
    }
}

/* The right comes, or whoever held the flags back is gone: no start anew is needed. */
static void a_refused_flag_is_asked_for_again(void **state)
{
    static const struct {
        unsigned from, times;
        ULONG code;
    } rows[] = {
        {0, 5, ERROR_ACCESS_DENIED}, /* none of them */
        {0, 3, ERROR_PRIVILEGE_NOT_HELD},
        {2, 5, ERROR_INVALID_PARAMETER}, /* the one that comes last */
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct etwreplay_script script = {0};
        struct etw_live_conf conf = one_session();
        struct rig r = {0};

        script.faults[REPLAY_SET_INFO] = (struct etwreplay_fault){
            .from = rows[i].from, .times = rows[i].times, .code = rows[i].code};
        conf.heartbeat_ns = NEVER_NS;
        assert_ok(rig_open(&r, &script, &conf, NULL));
        rig_start(&r);
        assert_true(etwreplay_wait_calls(REPLAY_SET_INFO, rows[i].from + rows[i].times + 1));
        assert_true(etwreplay_wait_calls(REPLAY_QUERY, etwreplay_calls(REPLAY_QUERY) + 5));
        assert_int_equal(etwreplay_flags_of("procfleet"), conf.sessions[0].session.flags);
        assert_true(rig_up(&r));
        rig_stop(&r);
        assert_int_equal(r.stats.ctl.started, 1);
    }
}

/* Else the rundown of a large host fills the buffers, and each start of the agent loses events. */
static void somebody_reads_before_anything_is_recorded(void **state)
{
    struct etwreplay_script script = {.path = path, .read_first = true};
    struct etw_live_conf conf;
    const uint32_t *masks;
    struct rig r = {0};
    size_t n;

    etw_live_conf_defaults(&conf);
    conf.ring_bytes = (size_t)16 << 20;
    conf.images_ns = 0;
    assert_ok(rig_open(&r, &script, &conf, NULL));
    assert_int_equal(etwreplay_calls(REPLAY_SET_INFO) + etwreplay_calls(REPLAY_ENABLE), 0);
    rig_start(&r);
    assert_true(etwreplay_wait_calls(REPLAY_SET_INFO, 3));
    assert_true(etwreplay_wait_told(2));
    assert_int_equal(etwreplay_unread(), 0);
    assert_int_equal(etwreplay_priority(), THREAD_PRIORITY_ABOVE_NORMAL);
    n = etwreplay_masks(&masks);
    assert_int_equal(n, 3);
    assert_int_equal(masks[0], 0);
    assert_int_equal(masks[1], conf.sessions[0].session.flags & ~(uint32_t)ETW_FLAG_IMAGE);
    assert_int_equal(masks[2], conf.sessions[0].session.flags); /* images last */
    rig_stop(&r);
}

/* A step of the clock at once, and what it drifts with the next query: what is recorded behind it
 * has the new time. */
static void a_clock_that_is_set_is_followed_at_once(void **state)
{
    static const struct {
        int64_t step_ns, query_ns;
    } rows[] = {{10 * CLK_S, NEVER_NS}, {50 * CLK_MS, CLK_MS}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct etwreplay_script script = {.path = path, .pause_after = PART};
        struct etw_live_conf conf = one_session();
        struct source_ask served = {.what = SOURCE_ASK_BUFFERS,
                                    .max_buffers = conf.sessions[0].session.max_buffers};
        struct rig r = {0};

        conf.query_ns = rows[i].query_ns; /* of a step nothing else happens meanwhile */
        r.heard.step_ns = rows[i].step_ns;
        assert_ok(rig_open(&r, &script, &conf, NULL));
        rig_start(&r);
        assert_true(etwreplay_wait_told(1));
        while (r.events->ops->ask(r.events, &served, NULL)) { /* it has begun, and read the clock */
            os_sleep_ns(CLK_MS);
        }
        etwreplay_set_utc(rows[i].step_ns);
        os_sleep_ns(300 * CLK_MS);
        etwreplay_resume();
        assert_true(etwreplay_wait_told(2));
        rig_stop(&r);
        assert_true(r.heard.before > PART / 2 && r.heard.before <= PART);
        assert_true(r.heard.behind > 0);
        assert_int_equal(r.heard.before + r.heard.behind, r.heard.raw);
    }
}

static void an_optional_session_may_come_later(void **state)
{
    struct etwreplay_script script = {
        .path = path,
        .faults[REPLAY_START] = {.from = 1, .times = 3, .code = ERROR_NO_SYSTEM_RESOURCES}};
    struct etw_live_conf conf;
    struct rig r = {0};

    etw_live_conf_defaults(&conf);
    conf.ring_bytes = (size_t)16 << 20;
    conf.query_ns = conf.retry_ns = conf.pause_ns = CLK_MS;
    rig_run(&r, &script, &conf, 2);
    assert_int_equal(arrived(&r), 2 * in_file);
    assert_int_equal(r.stats.restarts_failed, 2);
    assert_int_equal(r.stats.restarts, 1);
}

static void a_source_that_never_ran_leaves_nothing(void **state)
{
    struct etwreplay_script script = {0};
    struct etw_live_conf conf = one_session();
    struct rig r = {0};
    enum err e = ERR_NOMEM;
    long before;

    etwreplay_begin(&script); /* makes what it keeps */
    before = mem_live();
    for (long n = 0; e; n++) {
        assert_true(n < 100);
        mem_fail_after(n);
        e = rig_open(&r, &script, &conf, NULL);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        assert_true(e == ERR_OK || mem_live() == before);
        assert_true(e == ERR_OK || !etwreplay_exists("procfleet"));
    }
    r.events->ops->close(r.events);
    assert_int_equal(mem_live(), before);
    assert_false(etwreplay_exists("procfleet"));
}

static void wine_refuses_to_let_sessions_be_read(void **state)
{
    struct etw_live_conf conf = one_session();
    struct source_sink sink = {.raw = on_raw, .fact = on_fact, .advance = on_advance};
    struct live_events *events;
    struct errmsg why;

    /* the system's own functions, unchanged */
    assert_err(etw_live_open(&events, &conf, sink, &why), ERR_ACCESS);
    assert_non_null(strstr(why.text, "administrator"));
    conf.patient = true;
    assert_ok(etw_live_open(&events, &conf, sink, NULL));
    assert_false(events->ops->up(events, &why));
    assert_non_null(strstr(why.text, "administrator"));
    assert_non_null(strstr(why.text, "tried again"));
    events->ops->close(events);
}

static void two_agents_do_not_take_each_others_sessions(void **state)
{
    struct etw_live_conf conf = one_session();
    struct source_sink sink = {.raw = on_raw, .fact = on_fact, .advance = on_advance};
    struct live_events *second;
    struct etw_owner *first;
    struct errmsg why;

    /* the system's own functions, unchanged */
    conf.patient = true;
    assert_ok(etw_owner_take(&first, NULL));
    assert_ok(etw_live_open(&second, &conf, sink, NULL));
    assert_false(second->ops->up(second, &why));
    assert_non_null(strstr(why.text, "another agent"));
    second->ops->close(second);
    conf.patient = false;
    assert_err(etw_live_open(&second, &conf, sink, &why), ERR_BUSY);
    etw_owner_give(first);
    assert_err(etw_live_open(&second, &conf, sink, &why), ERR_ACCESS); /* of Wine, not of us */
}

/* One without rights would keep the sessions from the service for as long as it runs. */
static void who_is_refused_keeps_nobody_from_the_sessions(void **state)
{
    struct etw_live_conf conf;
    struct source_sink sink = {.raw = on_raw, .fact = on_fact, .advance = on_advance};
    struct live_events *refused;
    struct etw_owner *other;
    struct errmsg why;

    /* the system's own functions, unchanged */
    etw_live_conf_defaults(&conf);
    conf.patient = true;
    assert_ok(etw_live_open(&refused, &conf, sink, NULL));
    assert_false(refused->ops->up(refused, &why));
    assert_ok(etw_owner_take(&other, &why));
    etw_owner_give(other);
    refused->ops->close(refused);
}

static void patience_begins_without_a_session_and_gets_it_later(void **state)
{
    struct etwreplay_script script = {
        .path = path, .faults[REPLAY_START] = {.times = 3, .code = ERROR_NO_SYSTEM_RESOURCES}};
    struct etw_live_conf conf = one_session();
    struct rig r = {0};

    conf.patient = true;
    assert_ok(rig_open(&r, &script, &conf, NULL));
    assert_false(rig_up(&r));
    rig_start(&r);
    assert_true(etwreplay_wait_told(1));
    while (!rig_up(&r)) { /* the first records come before all is turned on */
        os_sleep_ns(CLK_MS);
    }
    rig_stop(&r);
    assert_int_equal(arrived(&r), in_file);
    assert_int_equal(r.stats.restarts_failed, 2);
    assert_int_equal(r.stats.restarts, 1);
    assert_int_equal(r.stats.sessions_lost, 0);
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
        cmocka_unit_test(every_record_arrives),
        cmocka_unit_test(a_session_that_ends_by_itself_is_started_again),
        cmocka_unit_test(a_session_that_another_program_stops_is_started_again),
        cmocka_unit_test(starting_again_is_tried_until_it_succeeds),
        cmocka_unit_test(lost_events_that_the_stream_tells_are_told_once),
        cmocka_unit_test(lost_events_that_only_the_session_counts_are_told),
        cmocka_unit_test(loss_makes_the_buffers_grow),
        cmocka_unit_test(what_is_lost_right_after_a_start_counts_apart),
        cmocka_unit_test(a_sink_that_is_too_slow_costs_records_and_says_so),
        cmocka_unit_test(a_pause_loses_nothing),
        cmocka_unit_test(a_short_flush_is_asked_for),
        cmocka_unit_test(a_refusal_is_an_error_and_leaves_no_session),
        cmocka_unit_test(what_may_be_refused_does_not_cost_the_rest),
        cmocka_unit_test(without_the_right_to_its_events_a_session_is_not_up),
        cmocka_unit_test(a_refused_flag_is_asked_for_again),
        cmocka_unit_test(somebody_reads_before_anything_is_recorded),
        cmocka_unit_test(a_clock_that_is_set_is_followed_at_once),
        cmocka_unit_test(an_optional_session_may_come_later),
        cmocka_unit_test(a_source_that_never_ran_leaves_nothing),
        cmocka_unit_test(wine_refuses_to_let_sessions_be_read),
        cmocka_unit_test(two_agents_do_not_take_each_others_sessions),
        cmocka_unit_test(who_is_refused_keeps_nobody_from_the_sessions),
        cmocka_unit_test(patience_begins_without_a_session_and_gets_it_later),
    };

    return cmocka_run_group_tests(tests, make_file, remove_file);
}
