#include "tests/support/t.h"

#include "agent/monitor.h"
#include "agent/source/etw_guid.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/agent/feed.h"
#include "tests/agent/seen.h"

/* -- a source that plays a script -- */

struct script {
    struct source base;
    struct source_sink sink;
    const struct event *events;
    size_t n_events;
    const struct raw_event *raws; /* after them */
    size_t n_raws;
    bool closed;
};

static enum err script_run(struct source *s)
{
    struct script *p = (struct script *)s;

    for (size_t i = 0; i < p->n_events; i++) {
        p->sink.advance(p->sink.ctx, p->events[i].wall_ns, p->events[i].mono_ns);
        p->sink.fact(p->sink.ctx, &p->events[i]);
    }
    for (size_t i = 0; i < p->n_raws; i++) {
        p->sink.raw(p->sink.ctx, &p->raws[i]);
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

static size_t script_ledger(const struct source *s, struct ledger_row *rows, size_t max)
{
    (void)s;
    assert_true(max >= SOURCE_LEDGER_ROWS);
    rows[0] = (struct ledger_row){str_make("etw"), str_make("late"), 7};
    return 1;
}

static const struct source_ops script_ops = {.run = script_run,
                                             .stop = script_stop,
                                             .stats = script_stats,
                                             .ledger = script_ledger,
                                             .close = script_close};

static enum err open_script(void *ctx, struct source **out, struct source_sink sink,
                            struct errmsg *why)
{
    struct script *p = ctx;

    (void)why;
    p->base.ops = &script_ops;
    p->base.about.replay = true;
    p->base.about.name = "script";
    p->sink = sink;
    *out = &p->base;
    return ERR_OK;
}

static uint64_t row_of(const struct ledger_row *rows, size_t n, const char *stage,
                       const char *reason)
{
    for (size_t i = 0; i < n; i++) {
        if (str_eq(rows[i].stage, str_make(stage)) && str_eq(rows[i].reason, str_make(reason))) {
            return rows[i].count;
        }
    }
    fail_msg("no row %s %s", stage, reason);
    return 0;
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

static struct monitor_conf conf_of(struct script *script)
{
    return (struct monitor_conf){.open = open_script,
                                 .open_ctx = script,
                                 .period_ns = CLK_S,
                                 .processes_max = 16,
                                 .tick = no_tick,
                                 .life = no_life};
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
    struct monitor_row row;
    struct errmsg why;
    struct monitor *m;
    size_t n;

    assert_ok(monitor_create(&m, &conf, NULL));
    assert_err(monitor_run(m), ERR_END);
    assert_int_equal(s->n_ticks, 3);
    assert_int_equal(s->n_starts, 1);
    assert_int_equal(s->n_stops, 1);
    assert_int_equal(seen_total(s, (struct proc_id){8, 10})->cpu_ns, CLK_MS);
    assert_ok(monitor_process(m, 8, &row));
    assert_int_equal(row.row.values[M_CPU_TIME], CLK_MS);
    assert_true(row.row.info->have & INFO_EXITED);
    assert_memory_equal(row.row.info->name.p, "app", 3);
    assert_ok(monitor_process_by_key(m, (struct proc_id){8, 10}, &row));
    assert_int_equal(row.info.id.start, 10);
    assert_err(monitor_process_by_key(m, (struct proc_id){8, 11}, &row), ERR_NOTFOUND);
    assert_err(monitor_process(m, 9, &row), ERR_NOTFOUND);
    assert_string_equal(monitor_source(m, &why), "script");
    n = monitor_ledger(m, rows, COUNT_OF(rows));
    assert_true(n < COUNT_OF(rows));
    assert_int_equal(row_of(rows, n, "source", "lost_events"), 3);
    assert_true(str_eq(rows[n - 1].reason, str_make("late"))); /* the source's own come last */
    assert_int_equal(rows[n - 1].count, 7);
    monitor_destroy(m);
    assert_true(script.closed);
    mem_free(s);
}

/* A frame is a figure, and an event where its provider is chosen. */
static void a_frame_is_counted_whether_it_is_sent_or_not(void **state)
{
    static const char *const chosen[] = {"{ca11c036-0102-4a2d-a6ad-f03cfed5d3c9}"};
    const struct forward_conf events = {.providers = chosen, .n_providers = 1};
    const struct event start = feed_proc(EV_PROC_START, 10, 8, 10);
    static const uint8_t payload[16];
    struct raw_event frame = {.form = RAW_MANIFEST,
                              .guid = ETW_PROVIDER_DXGI,
                              .id = 42,
                              .pointer_size = 8,
                              .pid = 8,
                              .tid = 80,
                              .payload = payload,
                              .payload_n = sizeof payload,
                              .wall_ns = start.wall_ns,
                              .mono_ns = start.mono_ns};

    for (int sent = 0; sent <= 1; sent++) {
        struct script script = {.events = &start, .n_events = 1, .raws = &frame, .n_raws = 1};
        struct monitor_conf conf = conf_of(&script);
        struct monitor_stats stats;
        struct monitor_row row;
        struct monitor *m;

        conf.events = sent ? &events : NULL;
        assert_ok(monitor_create(&m, &conf, NULL));
        assert_err(monitor_run(m), ERR_END);
        assert_ok(monitor_process(m, 8, &row));
        assert_true((row.row.mask & METRIC_BIT(M_PRESENTS)) != 0);
        assert_int_equal(row.row.values[M_PRESENTS], 1);
        monitor_stats(m, &stats);
        assert_int_equal(stats.decode.decoded, 1);
        assert_int_equal(stats.forward.in, sent);
        monitor_destroy(m);
    }
}

static void a_change_of_the_source_is_told_and_changes_how_tables_are_read(void **state)
{
    struct event lost = feed_at(EV_SOURCE, 100);
    struct script script = {.events = &lost, .n_events = 1};
    struct seen *s = mem_zalloc(sizeof *s);
    struct monitor_conf conf = {.open = open_script,
                                .open_ctx = &script,
                                .period_ns = CLK_S,
                                .processes_max = 16,
                                .tick = seen_tick,
                                .life = seen_life,
                                .ctx = s};
    const struct snap_row rows[] = {feed_row(4, 40, -60000), feed_row(8, 80, 900)};
    struct snapshot first = feed_table(200, rows, 1), second = feed_table(1200, rows, 2);
    struct monitor *m;

    lost.u.source.polled = true;
    lost.u.source.name = str_make("snapshot");
    lost.u.source.text = str_make("somebody stopped it");
    assert_ok(monitor_create(&m, &conf, NULL));
    assert_err(monitor_run(m), ERR_END);
    assert_int_equal(s->n_sources, 1);
    assert_string_equal(s->source_text, "somebody stopped it");
    script.sink.table(script.sink.ctx, &first);
    script.sink.table(script.sink.ctx, &second);
    assert_int_equal(s->n_starts, 1); /* without waiting for a record */
    monitor_destroy(m);
    mem_free(s);
}

/* A live source on a clock of its own: a minute of tables, as often as they are wanted. */
struct live {
    struct source base;
    struct source_sink sink;
    struct source_pace begin, end; /* as wanted after the first and the last table */
    uint64_t lost; /* one with each table: of the rundown, which is no reason to want less */
    size_t n_steps, n_told;
    struct level_step steps[4];
    char told[4][BUDGET_TEXT];
};

static enum err live_run(struct source *s)
{
    struct live *l = (struct live *)s;

    for (int64_t ms = 1000; ms <= 62000; ms += s->pace.table_ns / CLK_MS) {
        struct snapshot snap = feed_table(ms, NULL, 0);

        l->sink.table(l->sink.ctx, &snap);
        l->sink.advance(l->sink.ctx, snap.wall_ns, snap.mono_ns);
        l->begin = ms == 1000 ? s->pace : l->begin;
        l->lost++;
    }
    l->end = s->pace;
    return ERR_OK;
}

static void live_stats(const struct source *s, struct source_stats *out)
{
    uint64_t lost = ((const struct live *)s)->lost;

    *out = (struct source_stats){.lost_events = lost, .lost_at_start = lost};
}

static void live_close(struct source *s)
{
    (void)s;
}

static const struct source_ops live_ops = {
    .run = live_run, .stop = script_stop, .stats = live_stats, .close = live_close};

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

static void on_told(void *ctx, const struct life_event *ev)
{
    struct live *l = ctx;

    assert_int_equal(ev->kind, LIFE_LEVEL);
    assert_int_equal(ev->info.id.pid, 0);
    assert_true(ev->wall_ns > 0 && ev->mono_ns > 0);
    assert_true(l->n_told < COUNT_OF(l->told));
    (void)snprintf(l->told[l->n_told++], BUDGET_TEXT, "%.*s", (int)ev->text.n, ev->text.p);
}

static void a_live_source_goes_at_the_pace_of_the_level(void **state)
{
    struct live live = {.n_steps = 0};
    struct budget_conf budget = {.max = 0, .request = 3, .request_span_ns = 30 * CLK_S};
    struct monitor_conf conf = {.open = open_live,
                                .open_ctx = &live,
                                .period_ns = CLK_MS,
                                .processes_max = 16,
                                .budget = &budget,
                                .level = on_level,
                                .tick = no_tick,
                                .life = on_told,
                                .ctx = &live};
    struct monitor_stats stats;
    struct monitor *m;

    assert_ok(monitor_create(&m, &conf, NULL));
    assert_ok(monitor_open(m, NULL));
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
    assert_int_equal(live.n_told, 2); /* each step is a life event too */
    assert_string_equal(live.told[0], "from L0 to L3: asked for, for a time");
    assert_string_equal(live.told[1], "from L3 to L0: the time it was asked for is over");
    monitor_stats(m, &stats);
    assert_int_equal(stats.level_steps[LEVEL_CAUSE_REQUEST_OVER], 1);
    monitor_destroy(m);
}

/* -- who comes out -- */

/* Of three processes one is wanted; another takes its name only later, a third never. */
static void only_who_is_wanted_comes_out_and_the_rest_is_counted(void **state)
{
    static const char *const names[] = {"wanted*"};
    struct event events[] = {
        feed_interval(0, CLK_MS),
        feed_proc(EV_PROC_START, 10, 8, 10),
        feed_proc(EV_PROC_START, 10, 12, 10),
        feed_proc(EV_PROC_START, 10, 16, 10),
        feed_thread(EV_THREAD_START, 20, 8, 80),
        feed_thread(EV_THREAD_START, 20, 12, 120),
        feed_sample(30, 80, false),
        feed_sample(40, 120, false),
        feed_proc(EV_PROC_FOUND, 1500, 12, 10),
        feed_sample(1600, 120, false),
        feed_proc(EV_PROC_STOP, 2500, 8, 0),
        feed_proc(EV_PROC_STOP, 2500, 12, 0),
        feed_proc(EV_PROC_STOP, 2500, 16, 0),
    };
    struct script script = {.events = events, .n_events = COUNT_OF(events)};
    struct seen *s = mem_zalloc(sizeof *s);
    struct monitor_conf conf = {.open = open_script,
                                .open_ctx = &script,
                                .period_ns = CLK_S,
                                .processes_max = 16,
                                .who = {.only = {.names = names, .n_names = 1}},
                                .tick = seen_tick,
                                .life = seen_life,
                                .ctx = s};
    struct monitor_stats stats;
    struct monitor *m;

    events[1].u.proc.info.name = str_make("wanted.exe");
    events[8].u.proc.info.name = str_make("wanted too");
    assert_ok(monitor_create(&m, &conf, NULL));
    assert_err(monitor_run(m), ERR_END);
    assert_int_equal(s->n_totals, 2);
    assert_int_equal(seen_total(s, (struct proc_id){8, 10})->cpu_ns, CLK_MS);
    assert_int_equal(seen_total(s, (struct proc_id){12, 10})->cpu_ns, 2 * CLK_MS);
    assert_int_equal(s->n_starts, 1);
    assert_int_equal(s->n_stops, 2);
    monitor_stats(m, &stats);
    assert_int_equal(stats.lifecycle.starts, 3);
    /* two starts, a thread's start and a stop; rows at 1 s of two, at 2 s and at the end of one */
    assert_int_equal(stats.filtered, 4 + 2 + 1 + 1);
    monitor_destroy(m);
    mem_free(s);
}

enum { LIVES = 200 };

/* Starts, stops and samples in any order, numbers used again: of every life comes everything or
 * nothing, as its name says. */
static void of_a_life_comes_everything_or_nothing(void **state)
{
    static const char *const names[] = {"wanted", "other"};
    static struct event events[3 * LIVES];
    struct script script = {.events = events};
    struct seen *s = mem_zalloc(sizeof *s);
    struct monitor_conf conf = {.open = open_script,
                                .open_ctx = &script,
                                .period_ns = CLK_S,
                                .processes_max = 1024,
                                .who = {.only = {.names = names, .n_names = 1}},
                                .tick = seen_tick,
                                .life = seen_life,
                                .ctx = s};
    bool alive[16] = {false}, is_wanted[LIVES + 1] = {false};
    size_t born = 0, wanted = 0, stopped = 0;
    uint32_t dice = 4711;
    struct monitor *m;

    while (script.n_events < COUNT_OF(events) && born < LIVES) {
        struct event *ev = &events[script.n_events++];
        int64_t ms = 7 * (int64_t)script.n_events;
        uint32_t pid;

        dice = dice * 1664525u + 1013904223u;
        pid = (dice >> 8) % 16;
        if (alive[pid]) {
            *ev = feed_proc(EV_PROC_STOP, ms, pid + 8, 0);
            ev->u.proc.info.name = str_make(""); /* the number is all it says */
        } else {
            *ev = feed_proc(EV_PROC_START, ms, pid + 8, ++born);
            is_wanted[born] = (dice >> 20) % 2 == 0;
            ev->u.proc.info.name = str_make(is_wanted[born] ? "wanted" : "other");
            wanted += is_wanted[born];
        }
        alive[pid] = !alive[pid];
    }
    assert_ok(monitor_create(&m, &conf, NULL));
    assert_err(monitor_run(m), ERR_END);
    assert_int_equal(s->n_starts, wanted);
    assert_int_equal(s->n_totals, wanted);
    for (size_t i = 0; i < s->n_events; i++) {
        assert_true(is_wanted[s->events[i].info.id.start]);
        assert_string_equal(s->names[i], "wanted");
        stopped += s->events[i].kind == LIFE_PROCESS_STOP;
    }
    for (size_t i = 0; i < s->n_totals; i++) {
        assert_true(is_wanted[s->totals[i].id.start]);
    }
    assert_in_range(wanted, LIVES / 4, LIVES - LIVES / 4);
    assert_in_range(wanted - stopped, 0, 16); /* still alive */
    monitor_destroy(m);
    mem_free(s);
}

/* -- the own row -- */

struct own {
    struct live live;
    size_t n_own, n_other;
    int64_t level, sent, p99;
};

/* Two tables of this process and another one. */
static enum err own_run(struct source *s)
{
    struct own *o = (struct own *)s;
    struct snap_row rows[2] = {feed_row(os_listed_id(), 5, 5), feed_row(0xfffffff0, 5, 5)};

    for (int64_t ms = 1000; ms <= 2000; ms += 1000) {
        struct snapshot snap = feed_table(ms, rows, 2);

        o->live.sink.table(o->live.sink.ctx, &snap);
    }
    return ERR_OK;
}

static void own_stats(const struct source *s, struct source_stats *out)
{
    (void)s;
    *out = (struct source_stats){.callback_p99_ns = 700};
}

static enum err open_own(void *ctx, struct source **out, struct source_sink sink,
                         struct errmsg *why)
{
    static const struct source_ops ops = {
        .run = own_run, .stop = script_stop, .stats = own_stats, .close = live_close};
    enum err e = open_live(ctx, out, sink, why);

    ((struct own *)ctx)->live.base.ops = &ops;
    return e;
}

static uint64_t own_sent(void *ctx)
{
    (void)ctx;
    return 4096;
}

static void own_tick(void *ctx, const struct sample_tick *tick)
{
    static const metric_mask all = METRIC_BIT(M_AGENT_LEVEL) | METRIC_BIT(M_AGENT_EVENTS) |
                                   METRIC_BIT(M_AGENT_CALLBACK_P99) |
                                   METRIC_BIT(M_AGENT_BYTES_SENT);
    struct own *o = ctx;

    for (size_t i = 0; i < tick->n_rows; i++) {
        const struct sample_row *row = &tick->rows[i];

        if (row->info->id.pid == os_listed_id()) {
            assert_true((row->mask & all) == all);
            o->level = row->values[M_AGENT_LEVEL];
            o->sent = row->values[M_AGENT_BYTES_SENT];
            o->p99 = row->values[M_AGENT_CALLBACK_P99];
            o->n_own++;
        } else {
            assert_true((row->mask & all) == 0);
            o->n_other++;
        }
    }
}

static void its_own_row_and_no_other_tells_what_the_agent_does(void **state)
{
    struct own own = {.n_own = 0};
    struct budget_conf budget = {.max = 2};
    struct monitor_conf conf = {.open = open_own,
                                .open_ctx = &own,
                                .period_ns = CLK_S,
                                .processes_max = 16,
                                .budget = &budget,
                                .bytes_sent = own_sent,
                                .tick = own_tick,
                                .life = on_told,
                                .ctx = &own};
    struct monitor *m;

    assert_ok(monitor_create(&m, &conf, NULL));
    assert_ok(monitor_run(m));
    assert_int_equal(own.n_own, 2);
    assert_int_equal(own.n_other, 2);
    assert_int_equal(own.level, 0);
    assert_int_equal(own.sent, 4096);
    assert_int_equal(own.p99, 700);
    monitor_destroy(m);
}

/* -- wishes -- */

static struct source_ask asked;

static enum err remember_wish(struct source *s, const struct source_ask *wish, struct errmsg *why)
{
    (void)s;
    asked = *wish;
    return wish->what == SOURCE_ASK_STACKS ? errmsg_set(why, ERR_PROVIDER, "no stacks today")
                                           : ERR_OK;
}

static void a_wish_goes_to_the_source_or_is_refused_with_a_reason(void **state)
{
    struct script script = {.n_events = 0};
    struct monitor_conf conf = conf_of(&script);
    struct source_provider provider = {.guid = {1}, .level = 4, .any = 0x10};
    struct errmsg why = {""};
    struct monitor *m;

    assert_ok(monitor_create(&m, &conf, NULL));
    assert_err(monitor_set_flags(m, 0x100, &why), ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "no source yet"));
    assert_ok(monitor_open(m, &why));
    assert_err(monitor_set_flags(m, 0x100, &why), ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "the source script has no flags of the kernel"));
    assert_err(monitor_set_stacks(m, true, &why), ERR_UNSUPPORTED);
    assert_err(monitor_add_provider(m, &provider, &why), ERR_UNSUPPORTED);
    script.base.ask = remember_wish;
    assert_ok(monitor_set_flags(m, 0x100, &why));
    assert_int_equal(asked.what, SOURCE_ASK_FLAGS);
    assert_int_equal(asked.flags, 0x100);
    assert_ok(monitor_set_flags(m, 0x10, &why)); /* context switches need threads */
    assert_int_equal(asked.flags, 0x12);
    assert_err(monitor_set_stacks(m, true, &why), ERR_PROVIDER);
    assert_string_equal(why.text, "no stacks today");
    assert_true(asked.on);
    assert_ok(monitor_add_provider(m, &provider, &why));
    assert_int_equal(asked.what, SOURCE_ASK_PROVIDER);
    assert_memory_equal(&asked.provider, &provider, sizeof provider);
    monitor_destroy(m);
}

static void creation_survives_every_failing_allocation(void **state)
{
    struct script script = {.n_events = 0};
    struct monitor_conf conf = conf_of(&script);
    struct monitor *m = NULL;
    long before = mem_live(), n = 0;
    enum err e = ERR_NOMEM;

    for (; e; n++) {
        mem_fail_after(n);
        e = monitor_create(&m, &conf, NULL);
        if (!e) {
            e = monitor_open(m, NULL);
            if (e) {
                monitor_destroy(m);
            }
        }
        if (e) {
            assert_int_equal(mem_live(), before);
        }
    }
    mem_fail_after(-1);
    assert_true(n > 5);
    monitor_destroy(m);
    assert_int_equal(mem_live(), before);
}

static void wrong_configurations_are_refused_before_anything_is_opened(void **state)
{
    struct script script = {.n_events = 0};
    static const char *const empty[] = {""};
    struct monitor_conf conf = conf_of(&script);
    struct monitor *m;

    conf.period_ns = CLK_MS - 1;
    assert_err(monitor_create(&m, &conf, NULL), ERR_RANGE);
    conf = conf_of(&script);
    conf.tick = NULL;
    assert_err(monitor_create(&m, &conf, NULL), ERR_INVALID);
    conf = conf_of(&script);
    conf.who.only = (struct process_filter_list){.names = empty, .n_names = 1};
    assert_err(monitor_create(&m, &conf, NULL), ERR_INVALID);
    conf = conf_of(&script);
    assert_ok(monitor_create(&m, &conf, NULL));
    assert_null(script.sink.raw); /* not opened */
    monitor_destroy(m);
    assert_false(script.closed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_script_runs_to_its_end_and_closes),
        cmocka_unit_test(a_change_of_the_source_is_told_and_changes_how_tables_are_read),
        cmocka_unit_test(a_live_source_goes_at_the_pace_of_the_level),
        cmocka_unit_test(only_who_is_wanted_comes_out_and_the_rest_is_counted),
        cmocka_unit_test(of_a_life_comes_everything_or_nothing),
        cmocka_unit_test(its_own_row_and_no_other_tells_what_the_agent_does),
        cmocka_unit_test(a_frame_is_counted_whether_it_is_sent_or_not),
        cmocka_unit_test(a_wish_goes_to_the_source_or_is_refused_with_a_reason),
        cmocka_unit_test(wrong_configurations_are_refused_before_anything_is_opened),
        cmocka_unit_test(creation_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
