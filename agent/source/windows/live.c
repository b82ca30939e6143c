/* One loop joins both inputs:
 *
 *   events  step → record, advance ─┐
 *                                   ├→ in order of time → sink
 *   tables  take → waits (queue) ───┘
 *
 * A table is told as soon as events have come as far as it, so that what happened before it is
 * known when it is compared. While events are not up nothing comes that it could wait for: it is
 * told at once, and time is what the clock says. Records that come behind a table nevertheless (a
 * session that is lost still delivers; too many tables waited) get its monotonic time and are
 * counted.
 *
 * The first table is told before anything else: who lived before has its exact creation, and so its
 * identity, from there; the sessions' rundown, which has no such time, then finds everybody known.
 *
 * A change is told where it is noticed: that events are lost, as of the last moment they told of;
 * that they are back, as of now. */
#include "agent/source/windows/live.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "agent/source/windows/live_queue.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/os_awake.h"

#define LOOK_NS   (100 * CLK_MS) /* at how events are, and whether to stop */
#define STEPS_MAX 64             /* to empty the rings of lost sessions */

#define PERIOD_LEAST_NS CLK_MS
#define PERIOD_MOST_NS  (10 * CLK_S)

struct live {
    struct source base; /* first: struct source * is cast to us */
    struct live_conf conf;
    struct source_sink sink;
    struct live_events *events; /* NULL: tables alone */
    struct live_tables *tables;
    struct live_queue queue;
    int64_t wall_ns, mono_ns; /* told so far */
    bool begun;
    bool up;
    bool groups_told;
    uint32_t groups;   /* as told */
    struct errmsg why; /* why not, or what is refused */
    uint64_t early, behind;
    uint64_t facts, late;
    uint64_t failed; /* tables that could not be taken */
    unsigned failed_in_row;
    int64_t first_ns; /* of the first table: records may well be older */

    unsigned level;
    unsigned shed;
    int64_t period_ns, tick_ns;
    int64_t next_table_ns, next_tick_ns, next_look_ns;
    int64_t awake_ns; /* at the last table, by the clock that stands still in sleep */

    atomic_bool stopping;
    struct os_mutex *lock; /* guards stopping against a wake that comes too early */
    struct os_cond *wake;
};

static struct live *self(struct source *s)
{
    return (struct live *)s;
}

/* ---- in order of time ---- */

static void tell_time(struct live *l, int64_t wall_ns, int64_t mono_ns)
{
    if (l->begun && mono_ns <= l->mono_ns) {
        return;
    }
    l->begun = true;
    l->wall_ns = wall_ns;
    l->mono_ns = mono_ns;
    l->sink.advance(l->sink.ctx, wall_ns, mono_ns);
}

static void tell_table(struct live *l, const struct snapshot *table)
{
    struct snapshot in_order = *table;

    if (l->begun && table->mono_ns < l->mono_ns) {
        in_order.mono_ns = l->mono_ns;
        in_order.wall_ns = l->wall_ns;
    }
    l->sink.table(l->sink.ctx, &in_order);
    tell_time(l, in_order.wall_ns, in_order.mono_ns);
}

/* The first of those that wait. */
static void tell_first(struct live *l)
{
    struct snapshot table;

    if (live_queue_first(&l->queue, &table)) {
        tell_table(l, &table);
        live_queue_drop(&l->queue);
    }
}

static void tell_waiting(struct live *l)
{
    while (l->queue.n > 0) {
        tell_first(l);
    }
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct live *l = ctx;

    while (live_queue_due(&l->queue, mono_ns)) {
        tell_first(l);
    }
    tell_time(l, wall_ns, mono_ns);
}

static bool is_behind(struct live *l, int64_t mono_ns)
{
    bool behind = l->begun && mono_ns < l->mono_ns;

    l->behind += behind && l->mono_ns > l->first_ns;
    return behind;
}

static void on_raw(void *ctx, const struct raw_event *raw)
{
    struct live *l = ctx;
    struct raw_event in_order;

    if (!is_behind(l, raw->mono_ns)) {
        l->sink.raw(l->sink.ctx, raw);
        return;
    }
    in_order = *raw;
    in_order.mono_ns = l->mono_ns; /* its wall time stays true */
    l->sink.raw(l->sink.ctx, &in_order);
}

static void on_fact(void *ctx, const struct event *ev)
{
    struct live *l = ctx;
    struct event in_order = *ev;

    l->facts++;
    if (is_behind(l, ev->mono_ns)) {
        in_order.mono_ns = l->mono_ns;
    }
    l->sink.fact(l->sink.ctx, &in_order);
}

/* ---- tables ---- */

/* Those before it go on early where there is no room for it beside them. */
static void keep(struct live *l, const struct snapshot *table)
{
    enum err e = live_queue_put(&l->queue, table);

    while (e == ERR_FULL && l->queue.n > 0) {
        l->early++;
        tell_first(l);
        e = live_queue_put(&l->queue, table);
    }
    if (e) {
        tell_waiting(l);
        l->early++;
        tell_table(l, table);
    }
}

/* A host that is short of memory for a moment costs tables, not the agent. */
static enum err miss_table(struct live *l, enum err e)
{
    if (e == ERR_BUSY) {
        return ERR_OK;
    }
    l->failed++;
    l->failed_in_row++;
    return l->failed_in_row < LIVE_TABLES_FAILED ? ERR_OK : e;
}

static enum err take_table(struct live *l)
{
    struct snapshot table;
    enum err e;

    l->tables->records = l->up;
    e = l->tables->ops->take(l->tables, &table);
    if (e) {
        return miss_table(l, e);
    }
    l->failed_in_row = 0;
    if (l->up && l->first_ns) {
        keep(l, &table);
    } else {
        l->first_ns = l->first_ns ? l->first_ns : table.mono_ns;
        tell_table(l, &table);
    }
    return ERR_OK;
}

/* The next moment of the grid after now; what came too late is left out. */
static int64_t grid_next(int64_t next_ns, int64_t period_ns, int64_t now_ns)
{
    return next_ns + (now_ns - next_ns) / period_ns * period_ns + period_ns;
}

/* Tables that were left out. While the machine slept there was nobody who could have taken one. */
static uint64_t missed(struct live *l)
{
    int64_t awake_ns = l->conf.awake_ns(), late_ns = os_mono_ns() - l->next_table_ns;
    int64_t most_ns = clk_sub(awake_ns, l->awake_ns);

    l->awake_ns = awake_ns;
    return (uint64_t)((late_ns < most_ns ? late_ns : most_ns) / l->period_ns);
}

static enum err table_when_due(struct live *l)
{
    enum err e;

    if (os_mono_ns() < l->next_table_ns) {
        return ERR_OK;
    }
    e = take_table(l);
    l->late += missed(l);
    l->next_table_ns = grid_next(l->next_table_ns, l->period_ns, os_mono_ns());
    return e;
}

/* While events are up, they tell how far time has come. */
static void tick_when_due(struct live *l)
{
    int64_t now_ns = os_mono_ns();

    if (l->tick_ns <= 0 || now_ns < l->next_tick_ns) {
        return;
    }
    l->next_tick_ns = grid_next(l->next_tick_ns, l->tick_ns, now_ns);
    if (!l->up) {
        tell_time(l, os_utc_ns(), now_ns);
    }
}

static void follow_pace(struct live *l)
{
    const struct source_pace *pace = &l->base.pace;
    int64_t period_ns = pace->table_ns > 0 ? pace->table_ns : l->conf.period_ns;
    int64_t tick_ns = pace->tick_ns < period_ns ? pace->tick_ns : 0;

    if (period_ns != l->period_ns) {
        int64_t now_ns = os_mono_ns(), next_ns = l->next_table_ns + period_ns - l->period_ns;

        /* What was not due yet is not late because tables come faster from now on. */
        l->next_table_ns = next_ns < now_ns && now_ns < l->next_table_ns ? now_ns : next_ns;
        l->period_ns = period_ns;
    }
    if (tick_ns != l->tick_ns) {
        l->next_tick_ns = os_mono_ns() + tick_ns;
        l->tick_ns = tick_ns;
    }
    if (pace->level != l->level && l->events) {
        l->level = pace->level;
        l->events->ops->level(l->events, pace->level);
    }
    if (pace->shed != l->shed && l->events && l->events->ops->shed) {
        l->shed = pace->shed;
        l->events->ops->shed(l->events, pace->shed);
    }
}

/* ---- how events are ---- */

static void describe(struct live *l)
{
    struct source_about *a = &l->base.about;
    const char *tables = l->tables->detail, *why = l->why.text;
    struct errmsg text;

    if (l->up) {
        err_ignore(errmsg_set(&text, ERR_OK, "events and %s%s%s", tables, why[0] ? "; " : "", why));
    } else {
        err_ignore(errmsg_set(&text, ERR_OK,
                              "%s, compared: lives shorter than an interval are invisible%s%s",
                              tables, why[0] ? "; no events: " : "", why));
    }
    a->name = l->up ? "live" : "snapshot";
    a->polled = !l->up;
    (void)snprintf(a->detail, sizeof a->detail, "%.*s", (int)sizeof a->detail - 1, text.text);
}

/* From this moment on it is as `about` says. */
static void tell_source(struct live *l, bool was_up)
{
    struct event ev = {.kind = EV_SOURCE, .pid = EVENT_NO_ID, .tid = EVENT_NO_ID};
    char text[sizeof l->why.text + 96];

    if (l->up && !was_up) {
        (void)snprintf(text, sizeof text, "events tell of starts and ends from now on%s%s",
                       l->why.text[0] ? "; " : "", l->why.text);
    } else if (l->up) {
        (void)snprintf(text, sizeof text, "%s",
                       l->why.text[0] ? l->why.text : "nothing of the events is refused any more");
    } else {
        (void)snprintf(text, sizeof text,
                       "%s; tables are compared meanwhile, short lives are invisible", l->why.text);
    }
    if (!was_up || !l->begun) {
        tell_time(l, os_utc_ns(), os_mono_ns());
    }
    ev.wall_ns = l->wall_ns;
    ev.mono_ns = l->mono_ns;
    ev.u.source = (struct ev_source){
        .polled = !l->up, .name = str_make(l->base.about.name), .text = str_make(text)};
    l->sink.fact(l->sink.ctx, &ev);
}

/* Which groups are recorded, when that has changed: as of the last moment that events told of. */
static void tell_groups(struct live *l)
{
    struct event ev = {.kind = EV_GROUPS, .pid = EVENT_NO_ID, .tid = EVENT_NO_ID};

    if (!l->events->ops->groups || !l->events->ops->groups(l->events, &ev.u.groups) ||
        (l->groups_told && ev.u.groups == l->groups)) {
        return;
    }
    l->groups_told = true;
    l->groups = ev.u.groups;
    ev.wall_ns = l->wall_ns;
    ev.mono_ns = l->mono_ns;
    l->sink.fact(l->sink.ctx, &ev);
}

static void look(struct live *l)
{
    struct errmsg why = {""};
    bool was_up = l->up, up = l->events->ops->up(l->events, &why);

    l->next_look_ns = os_mono_ns() + LOOK_NS;
    tell_groups(l);
    if (up == was_up && strcmp(why.text, l->why.text) == 0) {
        return;
    }
    for (int i = 0; was_up && !up && i < STEPS_MAX && l->events->ops->step(l->events); i++) {
    }
    l->up = up;
    l->why = why;
    describe(l);
    tell_source(l, was_up);
    if (!up) {
        tell_waiting(l);
    }
}

/* ---- run ---- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void wait_alone(struct live *l, int64_t until_ns)
{
    os_mutex_lock(l->lock);
    while (!atomic_load(&l->stopping) && os_cond_wait_until(l->wake, until_ns) != ERR_TIMEOUT) {
    }
    os_mutex_unlock(l->lock);
}

static void wait_for_more(struct live *l)
{
    int64_t until_ns = l->next_table_ns;

    if (l->tick_ns > 0 && !l->up) {
        until_ns = earlier(until_ns, l->next_tick_ns);
    }
    if (l->events) {
        l->events->ops->wait(l->events, earlier(until_ns, l->next_look_ns));
    } else {
        wait_alone(l, until_ns);
    }
}

static enum err run_once(struct live *l)
{
    enum err e;

    follow_pace(l);
    if (l->events) {
        if (os_mono_ns() >= l->next_look_ns) {
            look(l);
        }
        (void)l->events->ops->step(l->events);
    }
    e = table_when_due(l);
    if (!e) {
        tick_when_due(l);
    }
    return e;
}

static enum err run(struct source *source)
{
    struct live *l = self(source);
    enum err e = l->events ? l->events->ops->begin(l->events) : ERR_OK;

    l->next_table_ns = os_mono_ns();
    l->awake_ns = l->conf.awake_ns();
    if (!e && l->events) { /* what was refused meanwhile is known now */
        l->up = l->events->ops->up(l->events, &l->why);
        describe(l);
    }
    if (!e && l->events && l->why.text[0]) {
        tell_source(l, l->up); /* how it begins, where not all is well */
    }
    if (!e) {
        e = table_when_due(l);
    }
    while (!e && !atomic_load(&l->stopping)) {
        e = run_once(l);
        if (!e) {
            wait_for_more(l);
        }
    }
    if (l->events) {
        l->events->ops->end(l->events);
    }
    tell_waiting(l);
    return e;
}

static void stop(struct source *source)
{
    struct live *l = self(source);

    os_mutex_lock(l->lock);
    atomic_store(&l->stopping, true);
    os_cond_wake_all(l->wake);
    os_mutex_unlock(l->lock);
}

/* ---- what it counts ---- */

static void stats(const struct source *source, struct source_stats *out)
{
    const struct live *l = (const struct live *)source;
    struct source_stats events = {0}, v = {0};

    l->tables->ops->stats(l->tables, &v);
    if (l->events) {
        l->events->ops->stats(l->events, &events);
    }
    v.in += events.in;
    v.facts = l->facts;
    v.late = l->late;
    v.skipped = events.skipped;
    v.ring_full = events.ring_full;
    v.held = events.held;
    v.lost_events += events.lost_events;
    v.lost_buffers += events.lost_buffers;
    v.lost_at_start = events.lost_at_start;
    v.damaged += events.damaged + l->failed;
    v.skipped_bytes += events.skipped_bytes;
    v.gone += events.gone;
    v.denied += events.denied;
    v.capped += events.capped;
    v.ring_permille = events.ring_permille;
    v.callback_p99_ns = events.callback_p99_ns;
    *out = v;
}

static size_t ledger(const struct source *source, struct ledger_row *rows, size_t max)
{
    const struct live *l = (const struct live *)source;
    const struct ledger_row own[] = {{str_make("etw"), str_make("table_early"), l->early},
                                     {str_make("etw"), str_make("behind_table"), l->behind},
                                     {str_make("snap"), str_make("table_failed"), l->failed}};
    size_t n = 0;

    if (l->events && l->events->ops->ledger) {
        n = l->events->ops->ledger(l->events, rows, max);
    }
    for (size_t i = 0; i < sizeof own / sizeof *own && n < max; i++) {
        rows[n++] = own[i];
    }
    if (l->tables->ops->ledger) {
        n += l->tables->ops->ledger(l->tables, rows + n, max - n);
    }
    return n;
}

static enum err ask(struct source *source, const struct source_ask *wish, struct errmsg *why)
{
    struct live *l = self(source);

    return l->events->ops->ask(l->events, wish, why);
}

/* ---- open and close ---- */

static void close_source(struct source *source)
{
    struct live *l = self(source);

    if (!l) {
        return;
    }
    if (l->events) {
        l->events->ops->close(l->events);
    }
    if (l->tables) {
        l->tables->ops->close(l->tables);
    }
    live_queue_fini(&l->queue);
    os_cond_destroy(l->wake);
    os_mutex_destroy(l->lock);
    mem_free(l);
}

static enum err open_events(struct live *l, struct errmsg *why)
{
    struct source_sink sink = {.ctx = l, .raw = on_raw, .fact = on_fact, .advance = on_advance};
    enum err e;

    if (!l->conf.open_events) {
        return ERR_OK;
    }
    e = l->conf.open_events(l->conf.ctx, &l->events, sink, &l->why);
    if (e && (l->conf.events_needed || e == ERR_NOMEM)) {
        return errmsg_set(why, e, "%s", l->why.text);
    }
    if (!e) {
        l->up = l->events->ops->up(l->events, &l->why);
        l->base.ask = l->events->ops->ask ? ask : NULL;
    }
    return ERR_OK;
}

static enum err open_parts(struct live *l, struct errmsg *why)
{
    enum err e = os_mutex_create(&l->lock);

    if (!e) {
        e = os_cond_create(&l->wake, l->lock);
    }
    if (e) {
        return errmsg_set(why, e, "out of memory for the source");
    }
    e = l->conf.open_tables(l->conf.ctx, &l->tables, why);
    return e ? e : open_events(l, why);
}

enum err live_open(struct source **out, const struct live_conf *conf, struct source_sink sink,
                   struct errmsg *why)
{
    static const struct source_ops ops = {
        .run = run, .stop = stop, .stats = stats, .ledger = ledger, .close = close_source};
    struct live *l;
    enum err e;

    if (conf->period_ns < PERIOD_LEAST_NS || conf->period_ns > PERIOD_MOST_NS) {
        return errmsg_set(why, ERR_RANGE, "the distance of tables is 1 ms to 10 s");
    }
    l = mem_zalloc(sizeof *l);
    if (!l) {
        return errmsg_set(why, ERR_NOMEM, "out of memory for the source");
    }
    l->base.ops = &ops;
    l->base.about = conf->about;
    l->conf = *conf;
    l->conf.awake_ns = conf->awake_ns ? conf->awake_ns : os_awake_ns;
    l->sink = sink;
    l->period_ns = conf->period_ns;
    e = open_parts(l, why);
    if (e) {
        close_source(&l->base);
        return e;
    }
    describe(l);
    *out = &l->base;
    return ERR_OK;
}
