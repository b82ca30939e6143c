#include "tests/support/t.h"

#include "agent/monitor.h"
#include "common/mem.h"
#include "tests/agent/feed.h"
#include "tests/agent/seen.h"

/* -- a source that plays a script -- */

struct script {
    struct source base;
    struct source_sink sink;
    const struct event *events;
    size_t n_events;
    bool closed;
};

static enum err script_run(struct source *s)
{
    struct script *p = (struct script *)s;

    for (size_t i = 0; i < p->n_events; i++) {
        p->sink.advance(p->sink.ctx, p->events[i].wall_ns, p->events[i].mono_ns);
        p->sink.fact(p->sink.ctx, &p->events[i]);
    }
    return ERR_END;
}

static void script_stop(struct source *s)
{
    (void)s;
}

static void script_stats(const struct source *s, struct source_stats *out)
{
    *out = (struct source_stats){.in = ((const struct script *)s)->n_events, .lost_events = 3};
}

static void script_close(struct source *s)
{
    ((struct script *)s)->closed = true;
}

static const struct source_ops script_ops = {script_run, script_stop, script_stats, script_close};

static enum err open_script(void *ctx, struct source **out, struct source_sink sink,
                            struct errmsg *why)
{
    struct script *p = ctx;

    (void)why;
    p->base.ops = &script_ops;
    p->base.about.replay = true;
    p->sink = sink;
    *out = &p->base;
    return ERR_OK;
}

static void a_script_runs_to_its_end_and_closes(void **state)
{
    const struct event events[] = {
        feed_interval(0, CLK_MS),
        feed_proc(EV_PROC_START, 10, 8, 10),
        feed_thread(EV_THREAD_START, 10, 8, 80),
        feed_sample(20, 80, false),
        feed_proc(EV_PROC_STOP, 1500, 8, 0),
    };
    struct script script = {.events = events, .n_events = COUNT_OF(events)};
    struct seen *s = mem_zalloc(sizeof *s);
    struct monitor_conf conf = {.open = open_script,
                                .open_ctx = &script,
                                .period_ns = CLK_S,
                                .processes_max = 16,
                                .tick = seen_tick,
                                .life = seen_life,
                                .ctx = s};
    struct ledger_row rows[MONITOR_LEDGER_ROWS];
    struct sample_row row;
    struct monitor *m;

    (void)state;
    assert_ok(monitor_create(&m, &conf, NULL));
    assert_err(monitor_run(m), ERR_END);
    assert_int_equal(s->n_ticks, 3);
    assert_int_equal(s->n_starts, 1);
    assert_int_equal(s->n_stops, 1);
    assert_int_equal(seen_total(s, (struct proc_id){8, 10})->cpu_ns, CLK_MS);
    assert_ok(monitor_process(m, 8, &row));
    assert_int_equal(row.values[M_CPU_TIME], CLK_MS);
    assert_true(row.info->have & INFO_EXITED);
    assert_ok(monitor_process_by_key(m, (struct proc_id){8, 10}, &row));
    assert_int_equal(row.info->id.start, 10);
    assert_err(monitor_process_by_key(m, (struct proc_id){8, 11}, &row), ERR_NOTFOUND);
    assert_err(monitor_process(m, 9, &row), ERR_NOTFOUND);
    assert_true(monitor_ledger(m, rows, COUNT_OF(rows)) < COUNT_OF(rows));
    assert_int_equal(rows[1].count, 3);
    monitor_destroy(m);
    assert_true(script.closed);
    mem_free(s);
}

/* A live source on a clock of its own: a minute of tables, as often as they are wanted. */
struct live {
    struct source base;
    struct source_sink sink;
    struct source_pace begin, end; /* as wanted after the first and the last table */
    size_t n_steps;
    struct level_step steps[4];
};

static enum err live_run(struct source *s)
{
    struct live *l = (struct live *)s;

    for (int64_t ms = 1000; ms <= 62000; ms += s->pace.table_ns / CLK_MS) {
        struct snapshot snap = feed_table(ms, NULL, 0);

        l->sink.table(l->sink.ctx, &snap);
        l->sink.advance(l->sink.ctx, snap.wall_ns, snap.mono_ns);
        l->begin = ms == 1000 ? s->pace : l->begin;
    }
    l->end = s->pace;
    return ERR_OK;
}

static void live_stats(const struct source *s, struct source_stats *out)
{
    (void)s;
    *out = (struct source_stats){0};
}

static void live_close(struct source *s)
{
    (void)s;
}

static const struct source_ops live_ops = {live_run, script_stop, live_stats, live_close};

static enum err open_live(void *ctx, struct source **out, struct source_sink sink,
                          struct errmsg *why)
{
    struct live *l = ctx;

    (void)why;
    l->base.ops = &live_ops;
    l->sink = sink;
    *out = &l->base;
    return ERR_OK;
}

static void on_level(void *ctx, const struct level_step *step)
{
    struct live *l = ctx;

    assert_true(l->n_steps < COUNT_OF(l->steps));
    l->steps[l->n_steps++] = *step;
}

static void no_tick(void *ctx, const struct sample_tick *tick)
{
    (void)ctx;
    (void)tick;
}

static void no_life(void *ctx, const struct life_event *ev)
{
    (void)ctx;
    (void)ev;
}

static void a_live_source_goes_at_the_pace_of_the_level(void **state)
{
    struct live live = {.n_steps = 0};
    struct levels_conf levels = {.max = 0, .request = 3, .request_span_ns = 30 * CLK_S};
    struct monitor_conf conf = {.open = open_live,
                                .open_ctx = &live,
                                .period_ns = CLK_MS,
                                .processes_max = 16,
                                .levels = &levels,
                                .level = on_level,
                                .tick = no_tick,
                                .life = no_life,
                                .ctx = &live};
    struct monitor_stats stats;
    struct monitor *m;

    (void)state;
    assert_ok(monitor_create(&m, &conf, NULL));
    assert_int_equal(live.base.pace.tick_ns, CLK_S);
    assert_ok(monitor_run(m));
    assert_int_equal(live.begin.level, 3);
    assert_int_equal(live.begin.tick_ns, CLK_MS);
    assert_int_equal(live.begin.table_ns, 500 * CLK_MS);
    assert_int_equal(live.end.level, 0);
    assert_int_equal(live.end.table_ns, CLK_S);
    assert_int_equal(live.n_steps, 2);
    assert_int_equal(live.steps[0].cause, LEVEL_CAUSE_REQUEST);
    assert_int_equal(live.steps[1].cause, LEVEL_CAUSE_REQUEST_OVER);
    monitor_stats(m, &stats);
    assert_int_equal(stats.level_steps[LEVEL_CAUSE_REQUEST_OVER], 1);
    monitor_destroy(m);
}

static void creation_survives_every_failing_allocation(void **state)
{
    struct script script = {.n_events = 0};
    struct monitor_conf conf = {
        .open = open_script, .open_ctx = &script, .period_ns = CLK_S, .processes_max = 16};
    struct monitor *m = NULL;
    long before = mem_live(), n = 0;

    (void)state;
    for (mem_fail_after(n); monitor_create(&m, &conf, NULL); mem_fail_after(++n)) {
        assert_int_equal(mem_live(), before);
    }
    mem_fail_after(-1);
    assert_true(n > 5);
    monitor_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_script_runs_to_its_end_and_closes),
        cmocka_unit_test(a_live_source_goes_at_the_pace_of_the_level),
        cmocka_unit_test(creation_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
