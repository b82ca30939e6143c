/* Event sessions that deliver a recording, beside the real tables of this system: what the agent
 * makes of both. */
#include "tests/support/t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/monitor.h"
#include "agent/source/etw_guid.h"
#include "agent/source/trace/etl_file.h"
#include "agent/source/windows/etw_live.h"
#include "agent/source/windows/live.h"
#include "agent/source/windows/snap_win32.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/model/ledger.h"
#include "common/os/os.h"
#include "tests/support/etl_load.h"
#include "tests/support/etwreplay.h"
#include "tests/support/support.h"
#include "tests/windows/recorded_host.h"

#define LIVES_MAX  2000
#define SPEED      10000 /* permille */
#define FILE_BYTES (UINT64_C(1) << 18)
#define LARGE      ((size_t)128 << 20) /* a ring holds the whole recording: none waits for us */
#define PATIENCE_S 60

static char dir[256], path[300];

/* ---- what comes out ---- */

struct told {
    struct proc_id id;
    unsigned starts, stops;
    bool by_record; /* its start was */
};

struct out {
    struct os_mutex *lock; /* guards sources, polled, ticks; written by the core thread */
    struct os_cond *news;
    unsigned sources, ups, ticks; /* ups: of the sources, those that say that events are back */
    bool polled;
    char text[512];
    struct told told[LIVES_MAX];
    size_t n_told;
    int64_t tick_ns, own_cpu_ns;
    uint64_t own_rows;
};

static struct told *told_of(struct out *o, struct proc_id id)
{
    for (size_t i = 0; i < o->n_told; i++) {
        if (proc_id_eq(o->told[i].id, id)) {
            return &o->told[i];
        }
    }
    assert_true(o->n_told < LIVES_MAX);
    o->told[o->n_told].id = id;
    return &o->told[o->n_told++];
}

static void on_life(void *ctx, const struct life_event *ev)
{
    struct out *o = ctx;
    struct told *t;

    if (ev->kind == LIFE_SOURCE) {
        os_mutex_lock(o->lock);
        o->sources++;
        (void)snprintf(o->text, sizeof o->text, "%.*s", (int)ev->text.n, ev->text.p);
        o->ups += strstr(o->text, "from now on") != NULL;
        os_cond_wake_all(o->news);
        os_mutex_unlock(o->lock);
    }
    if (ev->kind != LIFE_PROCESS_START && ev->kind != LIFE_PROCESS_STOP) {
        return;
    }
    t = told_of(o, ev->info.id);
    t->starts += ev->kind == LIFE_PROCESS_START;
    t->stops += ev->kind == LIFE_PROCESS_STOP;
    t->by_record |= ev->kind == LIFE_PROCESS_START && ev->info.origin == ORIGIN_START;
}

/* Ticks go on in time, and our own CPU time in them never goes back. */
static void on_tick(void *ctx, const struct sample_tick *tick)
{
    struct out *o = ctx;

    assert_true(tick->mono_ns > o->tick_ns);
    o->tick_ns = tick->mono_ns;
    for (size_t i = 0; i < tick->n_rows; i++) {
        const struct sample_row *row = &tick->rows[i];

        if (row->info->id.pid == os_process_id() && (row->mask & METRIC_BIT(M_CPU_TIME))) {
            assert_true(row->values[M_CPU_TIME] >= o->own_cpu_ns);
            o->own_cpu_ns = row->values[M_CPU_TIME];
            o->own_rows++;
        }
    }
    os_mutex_lock(o->lock);
    o->ticks++;
    os_cond_wake_all(o->news);
    os_mutex_unlock(o->lock);
}

/* False: it took too long. */
static bool wait_for(struct out *o, const unsigned *what, unsigned n)
{
    int64_t until_ns = os_mono_ns() + PATIENCE_S * CLK_S;
    bool reached;

    os_mutex_lock(o->lock);
    while (*what < n && !os_cond_wait_until(o->news, until_ns)) {
    }
    reached = *what >= n;
    os_mutex_unlock(o->lock);
    return reached;
}

/* ---- the source ---- */

struct rig {
    struct etw_live_conf events;
    struct etw_api api;
    struct out *out;
    struct monitor *monitor;
    struct os_thread *thread;
    struct monitor_stats stats; /* of the end */
    uint64_t skipped;           /* in the callback: nobody makes anything of these */
};

static uint64_t counted(struct monitor *m, const char *reason)
{
    struct ledger_row rows[MONITOR_LEDGER_ROWS];
    size_t n = monitor_ledger(m, rows, COUNT_OF(rows));

    for (size_t i = 0; i < n; i++) {
        if (str_eq(rows[i].stage, str_make("etw")) && str_eq(rows[i].reason, str_make(reason))) {
            return rows[i].count;
        }
    }
    fail();
    return 0;
}

/* At rest: what came in is accounted for. */
static void check_accounts(struct monitor *m)
{
    static const char *const stages[] = {"source",    "table",     "decode",
                                         "aggregate", "instances", "sampler"};
    struct ledger_row rows[MONITOR_LEDGER_ROWS];
    size_t n = monitor_ledger(m, rows, COUNT_OF(rows));

    for (size_t i = 0; i < COUNT_OF(stages); i++) {
        int64_t open = ledger_balance(rows, n, stages[i]);

        if (open != 0) {
            fail_msg("%s: %lld are not accounted for", stages[i], (long long)open);
        }
    }
}

static enum err open_events(void *ctx, struct live_events **out, struct source_sink sink,
                            struct errmsg *why)
{
    const struct rig *r = ctx;

    return etw_live_open(out, &r->events, sink, why);
}

static enum err open_tables(void *ctx, struct live_tables **out, struct errmsg *why)
{
    struct snap_win32_conf conf = {.processes_max = 1000};

    (void)ctx;
    return snap_win32_open(out, &conf, why);
}

static enum err open_source(void *ctx, struct source **out, struct source_sink sink,
                            struct errmsg *why)
{
    struct live_conf conf = {.open_events = open_events,
                             .open_tables = open_tables,
                             .ctx = ctx,
                             .period_ns = 50 * CLK_MS};

    assert_ok(snap_win32_about(&conf.about));
    return live_open(out, &conf, sink, why);
}

static void run(void *arg)
{
    assert_ok(monitor_run(arg));
}

static void rig_open(struct rig *r, const struct etwreplay_script *script)
{
    struct monitor_conf conf = {.open = open_source,
                                .open_ctx = r,
                                .period_ns = 50 * CLK_MS,
                                .processes_max = 4096,
                                .tick = on_tick,
                                .life = on_life};
    struct etw_api own;
    struct errmsg why = {""};

    r->out = mem_zalloc(sizeof *r->out);
    assert_non_null(r->out);
    assert_ok(os_mutex_create(&r->out->lock));
    assert_ok(os_cond_create(&r->out->news, r->out->lock));
    conf.ctx = r->out;
    r->api = *etwreplay_begin(script);
    assert_ok(etw_api_load(&own, &why));
    r->api.clock = own.clock; /* stamps are moved to this system's */
    etw_live_conf_defaults(&r->events);
    r->events.api = &r->api;
    r->events.patient = true;
    r->events.ring_bytes = LARGE;
    r->events.query_ns = 20 * CLK_MS;
    r->events.retry_ns = r->events.pause_ns = 200 * CLK_MS;
    assert_ok(monitor_create(&r->monitor, &conf, &why));
    assert_ok(monitor_open(r->monitor, &why));
}

static void rig_start(struct rig *r)
{
    assert_ok(os_thread_start(&r->thread, "monitor", run, r->monitor));
}

static void rig_stop(struct rig *r)
{
    monitor_stop(r->monitor);
    os_thread_join(r->thread);
    monitor_stats(r->monitor, &r->stats);
    r->skipped = counted(r->monitor, "skipped");
    assert_int_equal(r->stats.decode.in + r->skipped, etwreplay_told());
    check_accounts(r->monitor);
    r->out->polled = monitor_about(r->monitor)->polled;
    monitor_destroy(r->monitor);
    assert_false(etwreplay_exists("procfleet"));
    for (size_t i = 0; i < r->out->n_told; i++) { /* nobody twice */
        assert_true(r->out->told[i].starts <= 1);
        assert_true(r->out->told[i].stops <= 1);
    }
}

static void rig_free(struct rig *r)
{
    os_cond_destroy(r->out->news);
    os_mutex_destroy(r->out->lock);
    mem_free(r->out);
}

/* ---- a recording ---- */

struct census {
    uint64_t records, starts;
};

static void count(void *ctx, const struct raw_event *raw)
{
    static const uint8_t process[16] = ETW_CLASS_PROCESS;
    struct census *c = ctx;

    if (!raw->early && raw->header != 13) {
        c->records++;
        c->starts += memcmp(raw->guid, process, sizeof process) == 0 && raw->opcode == 1;
    }
}

static void ignore_fact(void *ctx, const struct event *ev)
{
    (void)ctx;
    (void)ev;
}

static void ignore_time(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    (void)ctx;
    (void)wall_ns;
    (void)mono_ns;
}

static struct census census_of(const char *file)
{
    struct census c = {0};
    struct etl_file_conf conf = {.paths = &file, .n_paths = 1};
    struct source_sink sink = {
        .ctx = &c, .raw = count, .fact = ignore_fact, .advance = ignore_time};
    struct source *s;

    assert_ok(etl_file_open(&s, &conf, sink, NULL));
    assert_err(s->ops->run(s), ERR_END);
    s->ops->close(s);
    return c;
}

/* As on a host: the kernel's records come in the first session, the provider's in the other. */
static bool wants(const char *session, const struct raw_event *raw)
{
    return (raw->form == RAW_CLASSIC) == (strcmp(session, "procfleet") == 0);
}

static void a_recording_beside_real_tables_is_told_as_it_was(void **state)
{
    const char *from = getenv("PROCFLEET_PLAIN");
    char file[1024];
    struct etwreplay_script script = {.path = file, .wants = wants, .move = recorded_host_move};
    struct rig r = {.out = NULL};
    uint64_t by_record = 0;
    struct census c;

    (void)snprintf(file, sizeof file, "%s/net.4.5.2.x64.etl", from ? from : ".");
    if (!os_exists(file)) {
        print_message("skipped: corpus not found (PROCFLEET_CORPUS names another place)\n");
        skip();
    }
    c = census_of(file);
    recorded_host_open(file, SPEED, 0);
    script.frequency = recorded_host_frequency();
    rig_open(&r, &script);
    assert_false(monitor_about(r.monitor)->polled);
    recorded_host_begin();
    rig_start(&r);
    assert_true(etwreplay_wait_told(2)); /* sessions */
    assert_true(wait_for(r.out, &r.out->ticks, r.out->ticks + 3));
    rig_stop(&r);
    assert_int_equal(etwreplay_told(), c.records);
    assert_int_equal(r.stats.source.lost_events, 0);
    assert_true(c.starts > 0);
    for (size_t i = 0; i < r.out->n_told; i++) {
        by_record += r.out->told[i].by_record;
    }
    assert_int_equal(by_record, c.starts);
    assert_true(r.out->own_rows > 0);
    rig_free(&r);
}

/* ---- sessions that come and go ---- */

static bool move_to_now(struct raw_event *raw, uint8_t *room, int64_t since_ns)
{
    LARGE_INTEGER now;

    (void)room;
    (void)since_ns;
    QueryPerformanceCounter(&now);
    raw->ticks = now.QuadPart;
    raw->mono_ns = os_mono_ns();
    raw->wall_ns = os_utc_ns();
    return true;
}

static uint64_t own_frequency(void)
{
    LARGE_INTEGER f;

    QueryPerformanceFrequency(&f);
    return (uint64_t)f.QuadPart;
}

static void refused_readers_poll_until_they_are_let_in(void **state)
{
    struct etwreplay_script script = {
        .path = path,
        .move = move_to_now,
        .frequency = own_frequency(),
        .faults[REPLAY_OPEN] = {.times = 6, .code = ERROR_ACCESS_DENIED}};
    struct rig r = {.out = NULL};
    unsigned ticks;

    rig_open(&r, &script);
    assert_true(monitor_about(r.monitor)->polled);
    assert_string_equal(monitor_about(r.monitor)->name, "snapshot");
    assert_non_null(strstr(monitor_about(r.monitor)->detail, "access denied"));
    rig_start(&r);
    assert_true(wait_for(r.out, &r.out->ticks, 3)); /* meanwhile */
    assert_true(wait_for(r.out, &r.out->ups, 1));
    assert_true(etwreplay_wait_told(2));
    ticks = r.out->ticks;
    assert_true(wait_for(r.out, &r.out->ticks, ticks + 2));
    rig_stop(&r);
    assert_false(r.out->polled);
    rig_free(&r);
}

static bool only_lifecycle(const char *session, const struct raw_event *raw)
{
    (void)raw;
    return strcmp(session, "procfleet") == 0;
}

/* The other session has nothing to tell and is left alone. It stays away until that was told: on a
 * busy system it would be back before anybody has looked. */
static void what_another_program_stops_is_polled_until_it_is_back(void **state)
{
    struct etwreplay_script script = {.path = path,
                                      .wants = only_lifecycle,
                                      .move = move_to_now,
                                      .frequency = own_frequency(),
                                      .stop_after = 500,
                                      .read_first = true,
                                      .stays_away = true};
    struct rig r = {.out = NULL};

    rig_open(&r, &script);
    assert_false(monitor_about(r.monitor)->polled);
    rig_start(&r);
    assert_true(wait_for(r.out, &r.out->sources, 1));
    assert_non_null(strstr(r.out->text, "lost"));
    etwreplay_resume();
    assert_true(wait_for(r.out, &r.out->ups, 1));
    assert_true(etwreplay_wait_told(2));
    rig_stop(&r);
    assert_false(r.out->polled);
    rig_free(&r);
}

static int make_file(void **state)
{
    support_temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/load.etl", dir);
    return etl_load_make(path, FILE_BYTES, false) > 0 ? 0 : -1;
}

static int remove_file(void **state)
{
    support_remove_dir(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recording_beside_real_tables_is_told_as_it_was),
        cmocka_unit_test(refused_readers_poll_until_they_are_let_in),
        cmocka_unit_test(what_another_program_stops_is_polled_until_it_is_back),
    };

    return cmocka_run_group_tests(tests, make_file, remove_file);
}
