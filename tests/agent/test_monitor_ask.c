/* A monitor on a thread of its own, asked from this one. */
#include "tests/support/t.h"

#include <stdatomic.h>
#include <string.h>

#include "agent/monitor.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/agent/feed.h"

/* A live source that goes on until it is stopped: three processes, a table every millisecond. */
struct endless {
    struct source base;
    struct source_sink sink;
    atomic_bool stopping;
    struct os_mutex *lock;
    struct os_cond *wake;
    int64_t ms;
};

static enum err endless_run(struct source *s)
{
    struct endless *l = (struct endless *)s;
    struct snap_row rows[3] = {feed_row(8, 10, 0), feed_row(12, 20, 0), feed_row(16, 30, 0)};

    rows[0].info.name = str_make("first.exe");
    rows[1].info.name = str_make("second.exe");
    rows[2].info.name = str_make("third.exe");
    while (!atomic_load(&l->stopping)) {
        struct snapshot snap = feed_table(++l->ms, rows, 3);

        for (size_t i = 0; i < 3; i++) {
            rows[i].mask = METRIC_BIT(M_WORKING_SET_SIZE);
            rows[i].values[M_WORKING_SET_SIZE] = 4096 * (int64_t)(i + 1);
        }
        l->sink.table(l->sink.ctx, &snap);
        l->sink.advance(l->sink.ctx, snap.wall_ns, snap.mono_ns);
        os_mutex_lock(l->lock);
        if (!atomic_load(&l->stopping)) {
            err_ignore(os_cond_wait_until(l->wake, os_mono_ns() + CLK_MS));
        }
        os_mutex_unlock(l->lock);
    }
    return ERR_OK;
}

static void endless_stop(struct source *s)
{
    struct endless *l = (struct endless *)s;

    os_mutex_lock(l->lock);
    atomic_store(&l->stopping, true);
    os_cond_wake_all(l->wake);
    os_mutex_unlock(l->lock);
}

static void endless_stats(const struct source *s, struct source_stats *out)
{
    *out = (struct source_stats){.in = (uint64_t)((const struct endless *)s)->ms};
}

static void endless_close(struct source *s)
{
    struct endless *l = (struct endless *)s;

    os_cond_destroy(l->wake);
    os_mutex_destroy(l->lock);
}

static enum err open_endless(void *ctx, struct source **out, struct source_sink sink,
                             struct errmsg *why)
{
    static const struct source_ops ops = {
        .run = endless_run, .stop = endless_stop, .stats = endless_stats, .close = endless_close};
    struct endless *l = ctx;

    (void)why;
    l->base.ops = &ops;
    l->base.about.name = "endless";
    l->sink = sink;
    assert_ok(os_mutex_create(&l->lock));
    assert_ok(os_cond_create(&l->wake, l->lock));
    *out = &l->base;
    return ERR_OK;
}

/* What came out. Atomic, since the core thread writes it. */
struct out {
    struct endless source;
    atomic_uint ticks, rows, ended, events;
    atomic_int result;
    struct monitor *m; /* asked from within a tick, when set */
    atomic_uint asked_inside;
};

static void on_tick(void *ctx, const struct sample_tick *tick)
{
    struct out *o = ctx;
    static struct monitor_row row; /* too large for some stacks */

    atomic_store(&o->rows, (unsigned)tick->n_rows);
    atomic_fetch_add(&o->ticks, 1);
    if (o->m && monitor_process(o->m, 12, &row) == ERR_OK) {
        atomic_fetch_add(&o->asked_inside, 1);
    }
}

static void on_life(void *ctx, const struct life_event *ev)
{
    (void)ctx;
    (void)ev;
}

static void on_ended(void *ctx, enum err result)
{
    struct out *o = ctx;

    atomic_store(&o->result, (int)result);
    atomic_fetch_add(&o->ended, 1);
}

static struct monitor *monitor_of(struct out *o)
{
    struct monitor_conf conf = {.open = open_endless,
                                .open_ctx = &o->source,
                                .period_ns = CLK_MS,
                                .processes_max = 16,
                                .tick = on_tick,
                                .life = on_life,
                                .ended = on_ended,
                                .ctx = o};
    struct monitor *m;

    *o = (struct out){.m = NULL};
    assert_ok(monitor_create(&m, &conf, NULL));
    return m;
}

static void start_and_stop_may_be_said_twice(void **state)
{
    struct monitor_stats stats;
    struct errmsg why;
    struct out o;
    struct monitor *m = monitor_of(&o);

    assert_string_equal(monitor_source(m, &why), "");
    monitor_stats(m, &stats);
    assert_int_equal(stats.source.in, 0);
    assert_ok(monitor_start(m, &why));
    assert_ok(monitor_start(m, &why));
    assert_string_equal(monitor_source(m, &why), "endless");
    do {
        monitor_stats(m, &stats); /* each answer takes a turn of the source, and some CPU time, */
    } while (stats.sampler.ticks < 3 || stats.cpu_ns == 0); /* which clocks tell in steps */
    assert_true(stats.resident_bytes > 0);
    monitor_stop(m);
    monitor_stop(m);
    monitor_destroy(m);
    assert_int_equal(o.ended, 1);
    assert_int_equal(o.result, ERR_OK);
    assert_true(o.ticks >= 3);
}

static void stopped_before_its_start_it_ends_at_once(void **state)
{
    struct out o;
    struct monitor *m = monitor_of(&o);

    monitor_stop(m);
    assert_ok(monitor_run(m));
    assert_int_equal(o.ended, 1);
    assert_int_equal(o.ticks, 0);
    monitor_destroy(m);
}

static void destroying_what_runs_ends_it(void **state)
{
    struct out o;
    struct monitor *m = monitor_of(&o);

    assert_ok(monitor_start(m, NULL));
    monitor_destroy(m);
    assert_int_equal(o.ended, 1);
}

static void a_process_is_told_with_texts_that_stay(void **state)
{
    static struct monitor_row row, again;
    struct out o;
    struct monitor *m = monitor_of(&o);

    assert_err(monitor_process(m, 12, &row), ERR_NOTFOUND); /* nothing is open yet */
    assert_ok(monitor_start(m, NULL));
    while (monitor_process(m, 12, &row)) {
    }
    assert_ok(monitor_process_by_key(m, (struct proc_id){12, 20}, &again));
    assert_err(monitor_process_by_key(m, (struct proc_id){12, 21}, &again), ERR_NOTFOUND);
    assert_err(monitor_process(m, 13, &again), ERR_NOTFOUND);
    monitor_destroy(m);
    assert_int_equal(row.row.values[M_WORKING_SET_SIZE], 8192);
    assert_true(str_eq(row.info.name, str_make("second.exe")));
    assert_ptr_equal(row.row.info, &row.info);
    assert_in_range((size_t)(row.info.name.p - row.text), 0, sizeof row.text - 1);
}

struct look {
    size_t n_rows;
    int64_t wall_ns, sum;
};

static void on_look(void *ctx, const struct sample_tick *tick)
{
    struct look *l = ctx;

    l->n_rows = tick->n_rows;
    l->wall_ns = tick->wall_ns;
    l->sum = 0;
    for (size_t i = 0; i < tick->n_rows; i++) {
        l->sum += tick->rows[i].values[M_WORKING_SET_SIZE];
    }
}

static void collecting_gives_everybody_and_changes_no_tick(void **state)
{
    struct look look = {.n_rows = 0};
    struct monitor_sink sink = {on_look, &look};
    struct out o;
    struct monitor *m = monitor_of(&o);

    assert_err(monitor_collect(m, 1, &sink), ERR_NOTFOUND);
    assert_ok(monitor_start(m, NULL));
    while (look.n_rows == 0) {
        assert_ok(monitor_collect(m, 4711, &sink));
    }
    assert_int_equal(look.n_rows, 3);
    assert_int_equal(look.wall_ns, 4711);
    assert_int_equal(look.sum, 4096 + 8192 + 12288);
    monitor_destroy(m);
    assert_int_equal(o.rows, 3);
}

static void another_filter_holds_from_the_next_tick_on(void **state)
{
    static const char *const names[] = {"SECOND*"};
    static const char *const empty[] = {""};
    struct process_filter_conf second = {.only = {.names = names, .n_names = 1}};
    struct process_filter_conf wrong = {.only = {.names = empty, .n_names = 1}};
    struct process_filter_conf everybody = {.except_system = false};
    struct look look = {.n_rows = 0};
    struct monitor_sink sink = {on_look, &look};
    struct monitor_stats stats;
    static struct monitor_row row;
    struct out o;
    struct monitor *m = monitor_of(&o);

    assert_ok(monitor_set_filter(m, &second)); /* before it runs */
    assert_ok(monitor_start(m, NULL));
    do {
        monitor_stats(m, &stats);
    } while (stats.sampler.ticks < 2);
    assert_int_equal(o.rows, 1);
    assert_true(stats.filtered >= 2 * 2);
    assert_ok(monitor_collect(m, 1, &sink));
    assert_int_equal(look.sum, 8192);
    assert_ok(monitor_process(m, 8, &row)); /* asked for by number, it is told */
    assert_err(monitor_set_filter(m, &wrong), ERR_INVALID);
    assert_ok(monitor_collect(m, 1, &sink));
    assert_int_equal(look.n_rows, 1);
    assert_ok(monitor_set_filter(m, &everybody));
    assert_ok(monitor_collect(m, 1, &sink));
    assert_int_equal(look.n_rows, 3);
    monitor_destroy(m);
}

static void a_sink_may_ask_too(void **state)
{
    struct monitor_stats stats;
    struct out o;
    struct monitor *m = monitor_of(&o);

    o.m = m;
    assert_ok(monitor_start(m, NULL));
    do {
        monitor_stats(m, &stats);
    } while (stats.sampler.ticks < 2);
    monitor_destroy(m);
    assert_true(o.asked_inside >= 2);
}

static void asker(void *arg)
{
    static atomic_uint found;
    struct monitor *m = arg;
    struct monitor_row *row = mem_alloc(sizeof *row);
    struct monitor_stats stats;

    assert_non_null(row);
    for (int i = 0; i < 50; i++) {
        if (monitor_process(m, 8 + 4 * ((uint32_t)i % 3), row) == ERR_OK) {
            atomic_fetch_add(&found, 1);
        }
        monitor_stats(m, &stats);
    }
    mem_free(row);
}

static void many_may_ask_while_it_runs_and_while_it_stops(void **state)
{
    struct os_thread *threads[4];
    struct out o;
    struct monitor *m = monitor_of(&o);

    assert_ok(monitor_start(m, NULL));
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_ok(os_thread_start(&threads[i], "asker", asker, m));
    }
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        os_thread_join(threads[i]);
    }
    assert_ok(os_thread_start(&threads[0], "asker", asker, m));
    monitor_stop(m); /* the one who waits is answered all the same */
    os_thread_join(threads[0]);
    monitor_destroy(m);
}

/* -- events -- */

struct scripted {
    struct source base;
    struct source_sink sink;
    const struct event *events;
    size_t n;
};

static enum err scripted_run(struct source *s)
{
    struct scripted *p = (struct scripted *)s;

    for (size_t i = 0; i < p->n; i++) {
        p->sink.advance(p->sink.ctx, p->events[i].wall_ns, p->events[i].mono_ns);
        p->sink.fact(p->sink.ctx, &p->events[i]);
    }
    return ERR_END;
}

static void nothing(struct source *s)
{
    (void)s;
}

static void no_stats(const struct source *s, struct source_stats *out)
{
    (void)s;
    *out = (struct source_stats){0};
}

static enum err open_scripted(void *ctx, struct source **out, struct source_sink sink,
                              struct errmsg *why)
{
    static const struct source_ops ops = {
        .run = scripted_run, .stop = nothing, .stats = no_stats, .close = nothing};
    struct scripted *p = ctx;

    (void)why;
    p->base.ops = &ops;
    p->base.about.name = "scripted";
    p->base.about.replay = true;
    p->sink = sink;
    *out = &p->base;
    return ERR_OK;
}

struct heard {
    size_t n, nobodys;
    uint32_t pids[8];
};

static void on_event(void *ctx, const struct event *ev, const struct proc_info *of)
{
    struct heard *h = ctx;

    (void)ev;
    assert_true(h->n < COUNT_OF(h->pids));
    h->pids[h->n++] = of ? of->id.pid : UINT32_MAX;
    h->nobodys += of == NULL;
}

static void events_go_to_who_listens_unless_their_process_is_filtered(void **state)
{
    static const uint32_t pids[] = {8};
    const struct event events[] = {
        feed_early(feed_proc(EV_PROC_START, 5, 8, 10)), /* ahead of its time: not told */
        feed_interval(0, CLK_MS),
        feed_proc(EV_PROC_START, 10, 8, 10),
        feed_proc(EV_PROC_START, 10, 12, 10),
        feed_thread(EV_THREAD_START, 20, 8, 80),
        feed_thread(EV_THREAD_START, 20, 12, 120),
        feed_sample(30, 80, false),
        feed_sample(40, 120, false),
        feed_proc(EV_PROC_STOP, 50, 8, 0),
    };
    struct scripted script = {.events = events, .n = COUNT_OF(events)};
    struct heard heard = {.n = 0};
    struct monitor_event_sink sink = {on_event, &heard};
    struct out o = {.m = NULL};
    struct monitor_conf conf = {.open = open_scripted,
                                .open_ctx = &script,
                                .period_ns = CLK_S,
                                .processes_max = 16,
                                .who = {.only = {.pids = pids, .n_pids = 1}},
                                .tick = on_tick,
                                .life = on_life,
                                .ctx = &o};
    struct monitor *m;

    assert_ok(monitor_create(&m, &conf, NULL));
    monitor_on_event(m, &sink);
    assert_err(monitor_run(m), ERR_END);
    assert_int_equal(heard.n, 5);
    assert_int_equal(heard.nobodys, 1); /* the interval of samples */
    assert_int_equal(heard.pids[1], 8);
    assert_int_equal(heard.pids[4], 8);
    monitor_destroy(m);
    assert_ok(monitor_create(&m, &conf, NULL));
    monitor_on_event(m, &sink);
    monitor_on_event(m, NULL);
    assert_err(monitor_run(m), ERR_END);
    assert_int_equal(heard.n, 5);
    monitor_destroy(m);
}

static void a_recording_that_is_not_there_is_an_error_with_its_name(void **state)
{
    struct out o;
    struct monitor *m = monitor_of(&o);
    struct errmsg why = {""};

    assert_err(monitor_read_etl(m, "no/such.etl", &why), ERR_NOTFOUND);
    assert_non_null(strstr(why.text, "no/such.etl"));
    monitor_destroy(m);
    m = monitor_of(&o);
    assert_ok(monitor_open(m, NULL));
    assert_err(monitor_read_etl(m, "no/such.etl", &why), ERR_EXISTS);
    monitor_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(start_and_stop_may_be_said_twice),
        cmocka_unit_test(stopped_before_its_start_it_ends_at_once),
        cmocka_unit_test(destroying_what_runs_ends_it),
        cmocka_unit_test(a_process_is_told_with_texts_that_stay),
        cmocka_unit_test(collecting_gives_everybody_and_changes_no_tick),
        cmocka_unit_test(another_filter_holds_from_the_next_tick_on),
        cmocka_unit_test(a_sink_may_ask_too),
        cmocka_unit_test(many_may_ask_while_it_runs_and_while_it_stops),
        cmocka_unit_test(events_go_to_who_listens_unless_their_process_is_filtered),
        cmocka_unit_test(a_recording_that_is_not_there_is_an_error_with_its_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
