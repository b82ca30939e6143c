/* Random schedules of lives, pids reused within milliseconds, told by kernel records without a time
 * of creation, by the manifest provider's with one, and by tables: every life is told once, whoever
 * tells of it first, and rows go to the instance they are about. */
#include "tests/support/t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/process/lifecycle.h"
#include "common/base/mem.h"
#include "tests/agent/feed.h"
#include "tests/support/draw.h"

enum { PIDS = 6, LIVES = 4000, NOTES = 40000, SEEDS = 300, SPAN_MS = 30000 };

#define LATE_NS CLK_MS /* a record, after what it tells of */

enum teller { CLASSIC = 1, MANIFEST = 2 };

struct life {
    uint32_t pid;
    int64_t from_ns, to_ns;   /* true times after the beginning; to_ns = INT64_MAX: it lives */
    int64_t create_ns;        /* as the system says */
    bool at_first;            /* lived before everything */
    bool lingers;             /* listed for a while after its end */
    const struct instance *p; /* what its rows went to */
    uint32_t generation;
};

struct note {
    int64_t at_ns;
    enum { NOTE_START, NOTE_STOP, NOTE_FOUND, NOTE_TABLE } what;
    bool manifest;
    size_t life;
    size_t order;
};

struct world {
    uint64_t random;
    unsigned tellers; /* set of enum teller */
    bool rundown;     /* records tell who lived at first */
    bool gaps;        /* at times no records come, and tables are all there is */
    struct life lives[LIVES];
    size_t n_lives;
    struct note notes[NOTES];
    size_t n_notes;
    struct instances *table;
    struct lifecycle *life;
    struct {
        struct proc_id id;
        unsigned starts, stops;
    } ids[2 * LIVES]; /* told */
    size_t n_ids;
    unsigned starts[PIDS], stops[PIDS]; /* told */
    bool running[PIDS];
};

/* -- what happens -- */

static int64_t draw_span(struct world *w)
{
    static const int64_t longest_ms[] = {2, 20, 300, 3000, 9000};

    return CLK_US + draw(&w->random, (uint32_t)(longest_ms[draw(&w->random, 5)] * 1000)) * CLK_US;
}

static void add_life(struct world *w, uint32_t pid, int64_t from_ns, int64_t to_ns)
{
    struct life *l = &w->lives[w->n_lives];
    int64_t skew_ns =
        -(int64_t)draw(&w->random, 16000) * CLK_US; /* the system's clock goes in steps */

    assert_true(w->n_lives < LIVES);
    *l = (struct life){.pid = pid, .from_ns = from_ns, .to_ns = to_ns, .at_first = from_ns < 0};
    l->create_ns = from_ns + skew_ns;
    if (w->n_lives > 0 && l[-1].pid == pid && l->create_ns <= l[-1].create_ns) {
        l->create_ns = l[-1].create_ns + 100; /* never twice the same */
    }
    l->lingers = draw(&w->random, 4) == 0;
    w->n_lives++;
}

static void make_lives(struct world *w)
{
    for (uint32_t pid = 0; pid < PIDS; pid++) {
        int64_t at_ns = draw(&w->random, 2) ? -60 * CLK_S : draw_span(w);

        while (at_ns < SPAN_MS * CLK_MS) {
            int64_t to_ns = (at_ns < 0 ? 0 : at_ns) + draw_span(w);

            add_life(w, pid, at_ns, to_ns < SPAN_MS * CLK_MS ? to_ns : INT64_MAX);
            at_ns = to_ns + draw_span(w);
        }
    }
}

/* -- what is told of it -- */

static void add_note(struct world *w, struct note n)
{
    assert_true(w->n_notes < NOTES);
    n.order = w->n_notes;
    w->notes[w->n_notes++] = n;
}

static void tell_life(struct world *w, size_t i, bool manifest, int64_t late_ns)
{
    const struct life *l = &w->lives[i];

    if (!l->at_first) {
        add_note(w, (struct note){l->from_ns + late_ns, NOTE_START, manifest, i, 0});
    } else if (w->rundown) {
        add_note(w, (struct note){-CLK_S + late_ns, NOTE_FOUND, manifest, i, 0});
    }
    if (l->to_ns < INT64_MAX) {
        add_note(w, (struct note){l->to_ns + late_ns, NOTE_STOP, manifest, i, 0});
    }
}

static int by_time(const void *a, const void *b)
{
    const struct note *x = a, *y = b;

    if (x->at_ns != y->at_ns) {
        return x->at_ns < y->at_ns ? -1 : 1;
    }
    return x->order < y->order ? -1 : 1;
}

/* The two providers' records of one event come up to a millisecond apart, either first. */
static void make_notes(struct world *w)
{
    int64_t classic_ns = draw(&w->random, LATE_NS), manifest_ns = draw(&w->random, LATE_NS);

    for (size_t i = 0; i < w->n_lives; i++) {
        if (w->tellers & CLASSIC) {
            tell_life(w, i, false, classic_ns);
        }
        if (w->tellers & MANIFEST) {
            tell_life(w, i, true, manifest_ns);
        }
    }
    for (int64_t at_ns = 0; at_ns < SPAN_MS * CLK_MS;) {
        add_note(w, (struct note){at_ns, NOTE_TABLE, false, 0, 0});
        at_ns += draw_span(w);
    }
    qsort(w->notes, w->n_notes, sizeof *w->notes, by_time);
}

/* -- telling it -- */

static struct proc_info exact_info(const struct life *l)
{
    return (struct proc_info){.id = {.pid = l->pid, .start = clk_to_filetime(WALL0 + l->create_ns)},
                              .have = INFO_CREATE_TIME,
                              .create_ns = clk_from_filetime(clk_to_filetime(WALL0 + l->create_ns)),
                              .name = str_make("app")};
}

static void feed_record(struct world *w, const struct note *n)
{
    static const enum event_kind kinds[] = {EV_PROC_START, EV_PROC_STOP, EV_PROC_FOUND};
    const struct life *l = &w->lives[n->life];
    struct event ev = feed_at(kinds[n->what], 0);

    ev.wall_ns = WALL0 + n->at_ns;
    ev.mono_ns = n->at_ns + 100 * CLK_S;
    ev.u.proc.manifest = n->manifest;
    ev.u.proc.info = (struct proc_info){.id = {.pid = l->pid}, .name = str_make("app")};
    if (n->manifest) {
        ev.u.proc.info = exact_info(l);
    } else if (n->what == NOTE_START) {
        ev.u.proc.provisional = true;
        ev.u.proc.info.id.start = clk_to_filetime(ev.wall_ns);
        ev.u.proc.info.create_ns = ev.wall_ns;
        ev.u.proc.info.have = INFO_CREATE_TIME;
    }
    if (n->what == NOTE_STOP) {
        ev.u.proc.info.have |= INFO_EXIT_TIME;
        ev.u.proc.info.exit_ns = ev.wall_ns;
    }
    lifecycle_advance(w->life, ev.wall_ns, ev.mono_ns);
    (void)lifecycle_event(w->life, &ev);
}

/* The row went to an instance of its own life, always the same one. */
static void check_row(struct world *w, struct life *l, const struct instance *p)
{
    assert_int_equal(p->info.id.pid, l->pid);
    for (size_t i = 0; i < w->n_lives; i++) {
        const struct life *other = &w->lives[i];

        assert_false(other != l && other->p == p && other->generation == p->generation);
    }
    assert_true(!l->p || (l->p == p && l->generation == p->generation));
    l->p = p;
    l->generation = p->generation;
}

/* Everybody who lives, and a few who have ended but are listed still. */
static void feed_rows(struct world *w, const struct note *n)
{
    struct snap_row rows[PIDS];
    struct life *of[PIDS];
    struct snapshot snap = {.wall_ns = WALL0 + n->at_ns,
                            .mono_ns = n->at_ns + 100 * CLK_S,
                            .rows = rows,
                            .complete = true};

    for (size_t i = 0; i < w->n_lives; i++) {
        struct life *l = &w->lives[i];
        bool next = i + 1 < w->n_lives && l[1].pid == l->pid && l[1].from_ns <= n->at_ns;
        bool lives = l->from_ns <= n->at_ns && l->to_ns > n->at_ns;

        if (lives ||
            (l->from_ns <= n->at_ns && !next && n->at_ns - l->to_ns < 3 * CLK_S && l->lingers)) {
            of[snap.n_rows] = l;
            rows[snap.n_rows++] = (struct snap_row){.info = exact_info(l)};
        }
    }
    lifecycle_table_begin(w->life, &snap);
    for (size_t i = 0; i < snap.n_rows; i++) {
        const struct instance *p = lifecycle_row(w->life, &snap, &rows[i]);

        if (p) {
            check_row(w, of[i], p);
        } else { /* who lives has an instance, unless its record is under way */
            assert_true(w->gaps || of[i]->to_ns <= n->at_ns || of[i]->from_ns > n->at_ns - LATE_NS);
        }
    }
    lifecycle_table_end(w->life, &snap);
    lifecycle_advance(w->life, snap.wall_ns, snap.mono_ns);
}

/* Nobody starts or ends twice. */
static void tell_id(struct world *w, const struct life_event *ev)
{
    size_t i = 0;

    while (i < w->n_ids && !proc_id_eq(w->ids[i].id, ev->info.id)) {
        i++;
    }
    assert_true(i < COUNT_OF(w->ids));
    if (i == w->n_ids) {
        w->ids[w->n_ids++].id = ev->info.id;
    }
    w->ids[i].starts += ev->kind == LIFE_PROCESS_START;
    w->ids[i].stops += ev->kind == LIFE_PROCESS_STOP;
    assert_true(w->ids[i].starts <= 1 && w->ids[i].stops <= 1);
}

static void on_told(void *ctx, const struct life_event *ev)
{
    struct world *w = ctx;
    uint32_t pid = ev->info.id.pid;

    assert_true(pid < PIDS);
    tell_id(w, ev);
    if (w->gaps) {
        return;
    }
    if (ev->kind == LIFE_PROCESS_START) {
        assert_false(w->running[pid]);
        w->running[pid] = true;
        w->starts[pid]++;
    } else {
        assert_true(w->running[pid]);
        w->running[pid] = false;
        w->stops[pid]++;
    }
}

static void run_world(struct world *w)
{
    static const struct instances_conf table_conf = {
        .instances_max = LIVES, .threads_max = 10, .text_max = 1 << 20, .grace_ns = 10 * CLK_S};
    struct lifecycle_conf conf = {.told = on_told, .ctx = w};

    assert_ok(instances_create(&w->table, &table_conf));
    conf.table = w->table;
    assert_ok(lifecycle_create(&w->life, &conf));
    for (size_t i = 0; i < w->n_lives; i++) {
        w->running[w->lives[i].pid] = w->running[w->lives[i].pid] || w->lives[i].at_first;
    }
    for (size_t i = 0; i < w->n_notes; i++) {
        /* Every third of ten seconds. */
        bool gap = w->gaps && w->notes[i].at_ns / (10 * CLK_S / 3) % 3 == 1;

        lifecycle_set_polled(w->life, gap);
        if (w->notes[i].what == NOTE_TABLE) {
            feed_rows(w, &w->notes[i]);
        } else if (!gap) {
            feed_record(w, &w->notes[i]);
        }
    }
    lifecycle_advance(w->life, WALL0 + (SPAN_MS + 5000) * CLK_MS, (SPAN_MS + 105000) * CLK_MS);
    lifecycle_finish(w->life);
    lifecycle_destroy(w->life);
    instances_destroy(w->table);
}

static void check_world(const struct world *w)
{
    unsigned starts[PIDS] = {0}, stops[PIDS] = {0};

    for (size_t i = 0; i < w->n_lives; i++) {
        starts[w->lives[i].pid] += !w->lives[i].at_first;
        stops[w->lives[i].pid] += w->lives[i].to_ns < INT64_MAX;
    }
    for (size_t i = 0; i < PIDS; i++) {
        assert_int_equal(w->starts[i], starts[i]);
        assert_int_equal(w->stops[i], stops[i]);
    }
}

static void every_life_is_told_once(unsigned tellers, bool gaps)
{
    struct world *w = mem_alloc(sizeof *w);

    assert_non_null(w);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        memset(w, 0, sizeof *w);
        w->random = seed * UINT64_C(0x9e3779b97f4a7c15);
        w->tellers = tellers;
        w->gaps = gaps;
        w->rundown = draw(&w->random, 2);
        make_lives(w);
        make_notes(w);
        run_world(w);
        if (!gaps) {
            check_world(w);
        }
    }
    mem_free(w);
}

static void kernel_records_and_tables_tell_every_life_once(void **state)
{
    every_life_is_told_once(CLASSIC, false);
}

static void manifest_records_and_tables_tell_every_life_once(void **state)
{
    every_life_is_told_once(MANIFEST, false);
}

static void both_providers_and_tables_tell_every_life_once(void **state)
{
    every_life_is_told_once(CLASSIC | MANIFEST, false);
}

/* Who lives in a gap between two tables is told by nobody; whoever is told is told once. */
static void where_records_are_missing_nobody_is_told_twice(void **state)
{
    every_life_is_told_once(CLASSIC, true);
    every_life_is_told_once(MANIFEST, true);
    every_life_is_told_once(CLASSIC | MANIFEST, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernel_records_and_tables_tell_every_life_once),
        cmocka_unit_test(manifest_records_and_tables_tell_every_life_once),
        cmocka_unit_test(both_providers_and_tables_tell_every_life_once),
        cmocka_unit_test(where_records_are_missing_nobody_is_told_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
