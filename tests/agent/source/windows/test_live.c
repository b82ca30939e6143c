/* Events and tables joined: both inputs are scripts. Stamps are the real clock's, as on a host. */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/source/windows/live.h"
#include "agent/source/windows/live_queue.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define ACTS_MAX 400
#define LOG_MAX  4096
#define ROWS     3
#define NEVER_NS (10 * CLK_S)

enum act {
    END,       /* stops the source */
    RECORD,    /* of now */
    LATE,      /* a record of n ms ago */
    ADVANCE,   /* time has come this far */
    TABLES,    /* n tables can be taken; nothing until they are */
    SOURCES,   /* nothing until n more changes of the source were told */
    TIMES,     /* nothing until time was told n more times */
    UP,        /* from now on, with `text` */
    DOWN,      /* likewise */
    PACE,      /* n = ms between tables, m = between ticks */
    LEVEL,     /* n */
    BUSY,      /* nothing until n more tables could not be taken */
    BROKEN,    /* taking one fails n times; 0: from now on */
    EXPECTING, /* the log so far is `text` */
};

struct step {
    enum act act;
    unsigned n, m;
    const char *text;
};

struct rig {
    struct live_events events; /* first: struct live_events * is cast to us */
    struct live_tables tables;
    struct source_sink sink; /* of the events */
    struct source *source;

    const struct step *script;
    size_t at;
    unsigned base; /* tables or times when the act began */
    bool waiting;
    bool up;
    const char *why;
    unsigned taken, allowed, busy, times, sources, level;
    enum err broken, begin, open;
    unsigned failures; /* left, while broken; 0 = for ever */
    bool ended;
    struct snap_row rows[ROWS];
    char names[ROWS][16];

    /* What the source's sink was told after the first table: r record, t table, s source; and the
     * last of each. */
    bool first;
    int64_t slow_ns; /* what a table takes */
    int64_t (*awake_ns)(void);
    char log[LOG_MAX];
    size_t n;
    int64_t now_ns;
    bool polled;
    char name[16], text[600];
    int64_t recorded_ns[2]; /* the last record's stamp as made, and as told */
};

static void note(struct rig *r, char what)
{
    assert_true(r->n + 1 < LOG_MAX);
    r->log[r->n++] = what;
    r->log[r->n] = '\0';
}

/* ---- the source's sink ---- */

static void on_raw(void *ctx, const struct raw_event *raw)
{
    struct rig *r = ctx;

    assert_true(raw->mono_ns >= r->now_ns);
    r->recorded_ns[1] = raw->mono_ns;
    note(r, 'r');
}

static void on_fact(void *ctx, const struct event *ev)
{
    struct rig *r = ctx;

    assert_int_equal(ev->kind, EV_SOURCE);
    assert_true(ev->mono_ns >= r->now_ns);
    r->polled = ev->u.source.polled;
    (void)snprintf(r->name, sizeof r->name, "%.*s", (int)ev->u.source.name.n, ev->u.source.name.p);
    (void)snprintf(r->text, sizeof r->text, "%.*s", (int)ev->u.source.text.n, ev->u.source.text.p);
    assert_string_equal(r->name, r->source->about.name);
    assert_int_equal(r->polled, r->source->about.polled);
    r->sources++;
    note(r, 's');
}

/* Its rows are what they were when it was taken, whatever their owner has done since. */
static void on_table(void *ctx, const struct snapshot *table)
{
    struct rig *r = ctx;
    uint32_t number;

    assert_true(table->mono_ns >= r->now_ns);
    assert_int_equal(table->n_rows, ROWS);
    assert_true(table->complete);
    number = table->rows[0].info.id.pid;
    for (uint32_t i = 0; i < ROWS; i++) {
        const struct snap_row *row = &table->rows[i];
        char name[16];

        (void)snprintf(name, sizeof name, "p%u-%u", (unsigned)number, (unsigned)i);
        assert_int_equal(row->info.id.pid, number + i);
        assert_int_equal(row->info.name.n, strlen(name));
        assert_memory_equal(row->info.name.p, name, strlen(name));
        assert_int_equal(row->info.image.n, 0);
        assert_int_equal(row->mask, i == 1 ? 0 : METRIC_BIT(0) | METRIC_BIT(METRIC_COLS - 1));
        if (i != 1) {
            assert_int_equal(row->values[0], number * 10 + i);
            assert_int_equal(row->values[METRIC_COLS - 1], -(int64_t)number);
        }
    }
    if (r->first) {
        note(r, 't');
    }
    r->first = true;
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct rig *r = ctx;

    (void)wall_ns;
    assert_true(mono_ns > r->now_ns);
    r->now_ns = mono_ns;
    r->times++;
}

/* ---- tables ---- */

static enum err take(struct live_tables *tables, struct snapshot *out)
{
    struct rig *r = (struct rig *)((char *)tables - offsetof(struct rig, tables));

    if (r->broken) {
        enum err e = r->broken;

        r->broken = r->failures == 1 ? ERR_OK : e;
        r->failures -= r->failures > 0;
        return e;
    }
    if (r->taken == r->allowed) {
        r->busy++;
        return ERR_BUSY;
    }
    r->taken++;
    os_sleep_ns(r->slow_ns);
    for (uint32_t i = 0; i < ROWS; i++) {
        int n = snprintf(r->names[i], sizeof r->names[i], "p%u-%u", r->taken, (unsigned)i);

        r->rows[i] = (struct snap_row){.info = {.id = {.pid = r->taken + i}}};
        r->rows[i].info.name = (struct str){r->names[i], (size_t)n};
        r->rows[i].mask = i == 1 ? 0 : METRIC_BIT(0) | METRIC_BIT(METRIC_COLS - 1);
        r->rows[i].values[0] = (int64_t)r->taken * 10 + i;
        r->rows[i].values[METRIC_COLS - 1] = -(int64_t)r->taken;
    }
    *out = (struct snapshot){.wall_ns = os_utc_ns(),
                             .mono_ns = os_mono_ns(),
                             .rows = r->rows,
                             .n_rows = ROWS,
                             .complete = true};
    return ERR_OK;
}

static void tables_stats(const struct live_tables *tables, struct source_stats *out)
{
    (void)tables;
    *out = (struct source_stats){.in = 5, .capped = 1};
}

static void tables_close(struct live_tables *tables)
{
    (void)tables;
}

static enum err open_tables(void *ctx, struct live_tables **out, struct errmsg *why)
{
    static const struct live_tables_ops ops = {
        .take = take, .stats = tables_stats, .close = tables_close};
    struct rig *r = ctx;

    (void)why;
    r->tables = (struct live_tables){.ops = &ops, .detail = "tables of a script"};
    *out = &r->tables;
    return ERR_OK;
}

/* ---- events ---- */

static enum err begin(struct live_events *e)
{
    return ((struct rig *)e)->begin;
}

static void record(struct rig *r, int64_t mono_ns)
{
    struct raw_event raw = {.mono_ns = mono_ns, .wall_ns = os_utc_ns()};

    r->recorded_ns[0] = mono_ns;
    r->sink.advance(r->sink.ctx, raw.wall_ns, raw.mono_ns);
    r->sink.raw(r->sink.ctx, &raw);
}

/* True: `now` has grown by n since the act began. */
static bool reached(struct rig *r, unsigned now, unsigned n)
{
    if (!r->waiting) {
        r->waiting = true;
        r->base = now;
    }
    return now - r->base >= n;
}

/* True: the act is over. */
static bool act(struct rig *r, const struct step *s)
{
    switch (s->act) {
    case END:
        r->source->ops->stop(r->source);
        return false;
    case RECORD:
        record(r, os_mono_ns());
        return true;
    case LATE:
        record(r, os_mono_ns() - s->n * CLK_MS);
        return true;
    case ADVANCE:
        r->sink.advance(r->sink.ctx, os_utc_ns(), os_mono_ns());
        return true;
    case TABLES:
        r->allowed += r->waiting ? 0 : s->n;
        return reached(r, r->taken, s->n);
    case SOURCES:
        return reached(r, r->sources, s->n);
    case TIMES:
        return reached(r, r->times, s->n);
    case UP:
    case DOWN:
        r->up = s->act == UP;
        r->why = s->text ? s->text : "";
        return true;
    case PACE:
        r->source->pace.table_ns = s->n * CLK_MS;
        r->source->pace.tick_ns = s->m * CLK_MS;
        return true;
    case LEVEL:
        r->source->pace.level = s->n;
        return true;
    case BUSY:
        return reached(r, r->busy, s->n);
    case BROKEN:
        r->broken = ERR_IO;
        r->failures = s->n;
        return true;
    case EXPECTING:
        assert_string_equal(r->log, s->text);
        return true;
    }
    return false;
}

static size_t step(struct live_events *e)
{
    struct rig *r = (struct rig *)e;
    const struct step *s = &r->script[r->at];

    if (!act(r, s)) {
        return 0;
    }
    r->at++;
    r->waiting = false;
    return s->act == RECORD || s->act == LATE;
}

static void wait_until(struct live_events *e, int64_t until_ns)
{
    (void)e; /* the script goes on at once */
    (void)until_ns;
}

static bool up(struct live_events *e, struct errmsg *why)
{
    struct rig *r = (struct rig *)e;

    err_ignore(errmsg_set(why, ERR_OK, "%s", r->why ? r->why : ""));
    return r->up;
}

static void level(struct live_events *e, unsigned n)
{
    ((struct rig *)e)->level = n;
}

static void end(struct live_events *e)
{
    struct rig *r = (struct rig *)e;

    assert_false(r->ended);
    r->ended = true;
    if (!r->begin) {
        record(r, os_mono_ns()); /* the rest */
    }
}

static void events_stats(const struct live_events *e, struct source_stats *out)
{
    (void)e;
    *out = (struct source_stats){.in = 7, .lost_events = 2, .ring_permille = 300};
}

static void events_close(struct live_events *e)
{
    (void)e;
}

static enum err open_events(void *ctx, struct live_events **out, struct source_sink sink,
                            struct errmsg *why)
{
    static const struct live_events_ops ops = {.begin = begin,
                                               .step = step,
                                               .wait = wait_until,
                                               .up = up,
                                               .level = level,
                                               .end = end,
                                               .stats = events_stats,
                                               .close = events_close};
    struct rig *r = ctx;

    if (r->open) {
        return errmsg_set(why, r->open, "the script refuses");
    }
    r->events.ops = &ops;
    r->sink = sink;
    r->allowed = 1;
    *out = &r->events;
    return ERR_OK;
}

/* ---- both ---- */

static enum err rig_open(struct rig *r, bool needed, struct errmsg *why)
{
    struct live_conf conf = {.open_events = open_events,
                             .open_tables = open_tables,
                             .ctx = r,
                             .events_needed = needed,
                             .period_ns = CLK_MS,
                             .awake_ns = r->awake_ns,
                             .about = {.cpus = 3, .system = "Script 1"}};
    struct source_sink sink = {
        .ctx = r, .raw = on_raw, .fact = on_fact, .table = on_table, .advance = on_advance};

    return live_open(&r->source, &conf, sink, why);
}

static void rig_run(struct rig *r, const struct step *script, enum err want)
{
    assert_ok(rig_open(r, false, NULL));
    r->script = script;
    assert_int_equal(r->source->ops->run(r->source), want);
    assert_true(r->ended);
}

static uint64_t counted(const struct rig *r, const char *reason)
{
    struct ledger_row rows[SOURCE_LEDGER_ROWS];
    size_t n = r->source->ops->ledger(r->source, rows, COUNT_OF(rows));

    for (size_t i = 0; i < n; i++) {
        if (str_eq(rows[i].reason, str_make(reason))) {
            return rows[i].count;
        }
    }
    fail();
    return 0;
}

static void rig_close(struct rig *r, uint64_t early, uint64_t behind)
{
    assert_int_equal(counted(r, "table_early"), early);
    assert_int_equal(counted(r, "behind_table"), behind);
    r->source->ops->close(r->source);
}

static void tables_wait_until_records_have_come_as_far(void **state)
{
    static const struct step script[] = {
        {TABLES, .n = 2},  {EXPECTING, .text = ""},      {RECORD, .n = 0},
        {RECORD, .n = 0},  {EXPECTING, .text = "ttrr"},  {TABLES, .n = 1},
        {ADVANCE, .n = 0}, {EXPECTING, .text = "ttrrt"}, {END, .n = 0},
    };
    struct rig r = {.up = true};

    rig_run(&r, script, ERR_OK);
    assert_string_equal(r.source->about.name, "live");
    assert_false(r.source->about.polled);
    assert_string_equal(r.source->about.detail, "events and tables of a script");
    assert_int_equal(r.source->about.cpus, 3);
    assert_string_equal(r.log, "ttrrtr");
    rig_close(&r, 0, 0);
}

static void the_first_table_comes_before_records_that_are_older(void **state)
{
    static const struct step script[] = {{LATE, .n = 9000}, {END, .n = 0}};
    struct rig r = {.up = true};

    rig_run(&r, script, ERR_OK);
    assert_true(r.first);
    assert_string_equal(r.log, "rr");
    rig_close(&r, 0, 0); /* no disorder: they tell who lived */
}

static void what_waits_at_the_end_is_told(void **state)
{
    static const struct step script[] = {{RECORD, .n = 0}, {TABLES, .n = 3}, {END, .n = 0}};
    struct rig r = {.up = true};

    rig_run(&r, script, ERR_OK);
    assert_string_equal(r.log, "rtttr");
    rig_close(&r, 0, 0);
}

static void while_events_are_refused_tables_go_on_at_once(void **state)
{
    static const struct step script[] = {
        {TABLES, .n = 2}, {EXPECTING, .text = "stt"},  {UP, .n = 0},     {SOURCES, .n = 1},
        {TABLES, .n = 2}, {EXPECTING, .text = "stts"}, {RECORD, .n = 0}, {END, .n = 0},
    };
    struct rig r = {.why = "no right to", .script = script};

    assert_ok(rig_open(&r, false, NULL));
    assert_string_equal(r.source->about.name, "snapshot");
    assert_true(r.source->about.polled);
    assert_string_equal(r.source->about.detail,
                        "tables of a script, compared: lives shorter than an interval are "
                        "invisible; no events: no right to");
    assert_ok(r.source->ops->run(r.source));
    assert_string_equal(r.log, "sttsttrr");
    assert_string_equal(r.name, "live");
    assert_false(r.polled);
    assert_string_equal(r.text, "events tell of starts and ends from now on");
    rig_close(&r, 0, 0);
}

static void lost_events_let_waiting_tables_go_and_may_come_back(void **state)
{
    static const struct step script[] = {
        {RECORD, .n = 0},
        {TABLES, .n = 2},
        {DOWN, .text = "somebody stopped it"},
        {SOURCES, .n = 1},
        {EXPECTING, .text = "rstt"}, /* as of the last moment that records told of */
        {LATE, .n = 9000},
        {TABLES, .n = 1},
        {UP, .text = "kp is refused"},
        {SOURCES, .n = 1},
        {TABLES, .n = 1},
        {EXPECTING, .text = "rsttrts"},
        {RECORD, .n = 0},
        {END, .n = 0},
    };
    struct rig r = {.up = true};

    rig_run(&r, script, ERR_OK);
    assert_string_equal(r.log, "rsttrtstrr");
    assert_string_equal(r.text, "events tell of starts and ends from now on; kp is refused");
    assert_non_null(strstr(r.source->about.detail, "; kp is refused"));
    rig_close(&r, 0, 1); /* the late record has the table's time */
}

static void a_loss_is_told_with_its_reason(void **state)
{
    static const struct step script[] = {
        {RECORD, .n = 0}, {DOWN, .text = "lost"}, {SOURCES, .n = 1}, {END, .n = 0}};
    struct rig r = {.up = true};

    rig_run(&r, script, ERR_OK);
    assert_string_equal(r.name, "snapshot");
    assert_true(r.polled);
    assert_string_equal(r.text, "lost; tables are compared meanwhile, short lives are invisible");
    rig_close(&r, 0, 0);
}

static void what_is_refused_beside_is_told_while_events_go_on(void **state)
{
    static const struct step script[] = {
        {RECORD, .n = 0},  {UP, .text = "a provider is refused"},
        {SOURCES, .n = 1}, {UP, .n = 0},
        {SOURCES, .n = 1}, {END, .n = 0},
    };
    struct rig r = {.up = true};

    rig_run(&r, script, ERR_OK);
    assert_false(r.polled);
    assert_string_equal(r.text, "nothing of the events is refused any more");
    rig_close(&r, 0, 0);
}

static void too_many_tables_go_on_early_and_are_counted(void **state)
{
    static const struct step script[] = {{TABLES, .n = LIVE_TABLES_MAX + 5},
                                         {EXPECTING, .text = "ttttt"},
                                         {PACE, .n = 10000},
                                         {LATE, .n = 9000},
                                         {EXPECTING, .text = "tttttr"},
                                         {END, .n = 0}};
    struct rig r = {.up = true};

    rig_run(&r, script, ERR_OK);
    assert_int_equal(r.n, LIVE_TABLES_MAX + 5 + 2);
    rig_close(&r, 5, 1);
}

static void what_waits_is_bounded_in_bytes_too(void **state)
{
    size_t n = LIVE_TABLES_BYTES / 5 * 2;
    char *text = mem_zalloc(n);
    struct snap_row row = {.info = {.name = {text, n}}, .mask = METRIC_BIT(3), .values = {[3] = 7}};
    struct snapshot table = {.mono_ns = 1, .rows = &row, .n_rows = 1, .complete = true}, out;
    struct live_queue q = {.n = 0};

    assert_non_null(text);
    assert_ok(live_queue_put(&q, &table));
    table.mono_ns = 2;
    assert_ok(live_queue_put(&q, &table));
    assert_err(live_queue_put(&q, &table), ERR_FULL);
    assert_true(live_queue_first(&q, &out));
    assert_int_equal(out.rows[0].info.name.n, n);
    assert_int_equal(out.rows[0].values[3], 7);
    live_queue_drop(&q);
    assert_false(live_queue_due(&q, 1));
    assert_true(live_queue_due(&q, 2));
    table.mono_ns = 3;
    assert_ok(live_queue_put(&q, &table));
    assert_true(live_queue_due(&q, 2)); /* the first one's time, not the last one's */
    live_queue_drop(&q);
    assert_false(live_queue_due(&q, 2));
    live_queue_fini(&q);
    assert_false(live_queue_due(&q, INT64_MAX));
    mem_free(text);
}

static void ticks_come_although_nothing_happens(void **state)
{
    static const struct step script[] = {
        {PACE, .n = 10000, .m = 1}, {TIMES, .n = 20}, {END, .n = 0}};
    struct rig r = {.why = "refused"};

    rig_run(&r, script, ERR_OK);
    assert_true(r.busy <= 2); /* ticks are no tables */
    rig_close(&r, 0, 0);
}

static void the_pace_and_the_level_are_followed(void **state)
{
    static const struct step script[] = {
        {TABLES, .n = 3}, {PACE, .n = 10000}, {LEVEL, .n = 3},  {RECORD, .n = 0},
        {RECORD, .n = 0}, {PACE, .n = 2},     {TABLES, .n = 3}, {END, .n = 0},
    };
    struct rig r = {.up = true};
    int64_t from_ns = os_mono_ns();

    rig_run(&r, script, ERR_OK);
    assert_int_equal(r.level, 3);
    assert_true(os_mono_ns() - from_ns < NEVER_NS);
    rig_close(&r, 0, 0);
}

/* A third of a second into a long interval tables come every millisecond again. */
static void no_table_is_late_because_the_pace_grew(void **state)
{
    static const struct step script[] = {
        {PACE, .n = 10000, .m = 1}, {TIMES, .n = 300}, {PACE, .n = 1, .m = 1}, {END, .n = 0}};
    struct rig r = {.why = "refused"};
    struct source_stats s;

    rig_run(&r, script, ERR_OK);
    r.source->ops->stats(r.source, &s);
    assert_true(s.late < 150);
    rig_close(&r, 0, 0);
}

static int64_t asleep(void)
{
    return 0;
}

static int64_t awake(void)
{
    return os_mono_ns();
}

/* Eight hours of sleep are not 28,800 tables that came too late. */
static void what_the_machine_slept_through_is_not_late(void **state)
{
    static const struct step script[] = {{PACE, .n = 1, .m = 1}, {TABLES, .n = 20}, {END, .n = 0}};

    for (int sleeps = 0; sleeps < 2; sleeps++) {
        struct rig r = {.why = "refused", .slow_ns = 5 * CLK_MS};
        struct source_stats s;

        r.awake_ns = sleeps ? asleep : awake;
        rig_run(&r, script, ERR_OK);
        r.source->ops->stats(r.source, &s);
        assert_true(sleeps ? s.late == 0 : s.late >= 20);
        rig_close(&r, 0, 0);
    }
}

static void a_table_that_cannot_be_taken_now_is_left_out(void **state)
{
    static const struct step script[] = {
        {TABLES, .n = 1}, {BUSY, .n = 3}, {TABLES, .n = 1}, {END, .n = 0}};
    struct rig r = {.up = true};

    rig_run(&r, script, ERR_OK);
    assert_string_equal(r.log, "ttr");
    rig_close(&r, 0, 0);
}

static void tables_that_fail_for_a_while_are_missed_and_counted(void **state)
{
    static const struct step script[] = {
        {TABLES, .n = 2}, {PACE, .n = 1},   {BROKEN, .n = LIVE_TABLES_FAILED - 1}, {TABLES, .n = 1},
        {BROKEN, .n = 1}, {TABLES, .n = 1}, {EXPECTING, .text = "tttt"},           {END, .n = 0}};
    struct rig r = {.up = false};
    struct source_stats stats;

    rig_run(&r, script, ERR_OK);
    assert_int_equal(counted(&r, "table_failed"), LIVE_TABLES_FAILED);
    r.source->ops->stats(r.source, &stats);
    assert_int_equal(stats.damaged, LIVE_TABLES_FAILED);
    rig_close(&r, 0, 0);
}

static void tables_that_fail_end_the_run_in_order(void **state)
{
    static const struct step script[] = {
        {TABLES, .n = 2}, {PACE, .n = 1}, {BROKEN, .n = 0}, {TABLES, .n = 9}};
    struct rig r = {.up = true};

    rig_run(&r, script, ERR_IO);
    assert_string_equal(r.log, "ttr"); /* what waited and what was held are told */
    assert_int_equal(counted(&r, "table_failed"), LIVE_TABLES_FAILED);
    rig_close(&r, 0, 0);
}

static void events_that_cannot_begin_end_the_run(void **state)
{
    struct rig r = {.up = true, .begin = ERR_IO};

    rig_run(&r, NULL, ERR_IO);
    assert_int_equal(r.taken, 0);
    rig_close(&r, 0, 0);
}

static void events_that_cannot_be_opened_are_fatal_only_where_they_are_needed(void **state)
{
    struct rig r = {.open = ERR_UNSUPPORTED};
    struct errmsg why;

    assert_err(rig_open(&r, true, &why), ERR_UNSUPPORTED);
    assert_string_equal(why.text, "the script refuses");
    assert_ok(rig_open(&r, false, &why));
    assert_string_equal(r.source->about.name, "snapshot");
    assert_non_null(strstr(r.source->about.detail, "; no events: the script refuses"));
    r.source->ops->close(r.source);
    r.open = ERR_NOMEM;
    assert_err(rig_open(&r, false, &why), ERR_NOMEM);
}

static void both_inputs_are_counted(void **state)
{
    struct rig r = {.up = true};
    struct source_stats s;

    assert_ok(rig_open(&r, true, NULL));
    r.source->ops->stats(r.source, &s);
    assert_int_equal(s.in, 12);
    assert_int_equal(s.lost_events, 2);
    assert_int_equal(s.capped, 1);
    assert_int_equal(s.ring_permille, 300);
    r.source->ops->close(r.source);
}

static void run_source(void *arg)
{
    struct source *s = arg;

    assert_ok(s->ops->run(s));
}

static void tables_alone_stop_at_once_though_the_next_is_far(void **state)
{
    struct rig r = {.n = 0};
    struct live_conf conf = {.open_tables = open_tables, .ctx = &r, .period_ns = NEVER_NS};
    struct source_sink sink = {
        .ctx = &r, .raw = on_raw, .fact = on_fact, .table = on_table, .advance = on_advance};
    int64_t from_ns = os_mono_ns();
    struct os_thread *thread;

    assert_ok(live_open(&r.source, &conf, sink, NULL));
    assert_string_equal(r.source->about.name, "snapshot");
    assert_string_equal(
        r.source->about.detail,
        "tables of a script, compared: lives shorter than an interval are invisible");
    assert_ok(os_thread_start(&thread, "source", run_source, r.source));
    r.source->ops->stop(r.source);
    r.source->ops->stop(r.source);
    os_thread_join(thread);
    assert_true(os_mono_ns() - from_ns < NEVER_NS / 2);
    r.source->ops->close(r.source);
}

static void periods_out_of_range_are_refused(void **state)
{
    static const int64_t bad[] = {0, -1, CLK_MS - 1, 10 * CLK_S + 1};
    struct rig r = {.n = 0};

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct live_conf conf = {.open_tables = open_tables, .ctx = &r, .period_ns = bad[i]};

        assert_err(live_open(&r.source, &conf, (struct source_sink){0}, NULL), ERR_RANGE);
    }
}

/* Want of memory while it runs costs the order, not the table. */
static void every_failing_allocation_is_survived(void **state)
{
    static const struct step script[] = {{TABLES, .n = 3}, {RECORD, .n = 0}, {END, .n = 0}};
    long before = mem_live();
    bool failed = true;

    for (long n = 0; failed; n++) {
        struct rig r = {.up = true, .script = script};
        enum err e;

        assert_true(n < 100);
        mem_fail_after(n);
        e = rig_open(&r, false, NULL);
        if (!e) {
            assert_ok(r.source->ops->run(r.source));
            failed = counted(&r, "table_early") > 0;
            assert_int_equal(r.n, 3 + 2);
            r.source->ops->close(r.source);
        }
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        assert_int_equal(mem_live(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_wait_until_records_have_come_as_far),
        cmocka_unit_test(the_first_table_comes_before_records_that_are_older),
        cmocka_unit_test(what_waits_at_the_end_is_told),
        cmocka_unit_test(while_events_are_refused_tables_go_on_at_once),
        cmocka_unit_test(lost_events_let_waiting_tables_go_and_may_come_back),
        cmocka_unit_test(a_loss_is_told_with_its_reason),
        cmocka_unit_test(what_is_refused_beside_is_told_while_events_go_on),
        cmocka_unit_test(too_many_tables_go_on_early_and_are_counted),
        cmocka_unit_test(what_waits_is_bounded_in_bytes_too),
        cmocka_unit_test(ticks_come_although_nothing_happens),
        cmocka_unit_test(the_pace_and_the_level_are_followed),
        cmocka_unit_test(no_table_is_late_because_the_pace_grew),
        cmocka_unit_test(what_the_machine_slept_through_is_not_late),
        cmocka_unit_test(a_table_that_cannot_be_taken_now_is_left_out),
        cmocka_unit_test(tables_that_fail_for_a_while_are_missed_and_counted),
        cmocka_unit_test(tables_that_fail_end_the_run_in_order),
        cmocka_unit_test(events_that_cannot_begin_end_the_run),
        cmocka_unit_test(events_that_cannot_be_opened_are_fatal_only_where_they_are_needed),
        cmocka_unit_test(both_inputs_are_counted),
        cmocka_unit_test(tables_alone_stop_at_once_though_the_next_is_far),
        cmocka_unit_test(periods_out_of_range_are_refused),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
