#include "tests/support/t.h"

#include "collector/query/query_ledger.h"
#include "common/model/ledger.h"
#include "common/wire/wire_overview.h"
#include "tests/collector/query/ask.h"

static struct lab *l;
static struct query_answer a; /* the last one */

static int open_lab(void **state)
{
    l = lab_open(NULL, NULL);
    return 0;
}

static int close_lab(void **state)
{
    query_answer_fini(&a);
    lab_close(l);
    return 0;
}

/* A batch of host 1, stream 7, with one tick a second from `second` on. */
static void begin(uint64_t seq, double second, unsigned ticks)
{
    static const int64_t cpu[LAB_MAX];

    lab_begin(l, 1, 7, seq);
    for (unsigned i = 0; i < ticks; i++) {
        lab_tick(l, second + i);
    }
    lab_cpu(l, 5, seq == 1, 0, ticks, cpu);
}

static void put(uint64_t seq, double second, unsigned ticks)
{
    begin(seq, second, ticks);
    lab_put(l);
}

static void ask_about(enum query_kind kind, const struct wire_query *q)
{
    query_answer_fini(&a);
    ask_run(&a, l, kind, q, NULL);
}

/* Of the one host, up to now. */
static const struct wire_coverage *ask(bool stages)
{
    struct wire_query q = {.last_ns = LAB_NS(1000) - LAB_EPOCH_NS, .stages = stages};

    ask_about(QUERY_COVERAGE, &q);
    assert_int_equal(a.data.n_coverage, 1);
    assert_int_equal(a.data.n_hosts, 1);
    return &a.data.coverage[0];
}

static const struct wire_stage *stage_of(const struct wire_coverage *c, const char *stage,
                                         const char *reason)
{
    for (size_t i = 0; i < c->n_stages; i++) {
        if (str_eq(c->stages[i].stage, str_make(stage)) &&
            str_eq(c->stages[i].reason, str_make(reason))) {
            return &c->stages[i];
        }
    }
    return NULL;
}

static void where_nothing_was_lost_all_is_delivered(void **state)
{
    const struct wire_coverage *c;

    begin(1, 900, 10);
    lab_ledger(l, "source", "out", 5000);
    lab_put(l);
    c = ask(false);
    assert_int_equal(c->ppm, 1000000);
    assert_int_equal(c->ticks, 10);
    assert_int_equal(c->events, 5000);
    assert_true(c->has_events && c->has_ticks && !c->at_most && !c->missing);
    assert_int_equal(c->n_spans, 0);
    assert_int_equal(c->n_stages, 0);
    assert_false(a.data.partial);
    assert_true(ask_note(&a.data, "coverage 100 %"));
}

static void lost_events_and_ticks_are_weighed_against_what_came(void **state)
{
    const struct wire_coverage *c;

    begin(1, 900, 10);
    lab_ledger(l, "source", "out", 39988);
    lab_ledger(l, "source", "lost_events", 12);
    lab_ledger(l, "etw", "full_cswitch", 12);
    lab_put(l);
    begin(2, 910, 9);
    lab_ledger(l, "table", "late", 1);
    lab_put(l);
    c = ask(false);
    assert_int_equal(c->events_ppm, 999700);
    assert_int_equal(c->ticks_ppm, 950000);
    assert_int_equal(c->ppm, 950000);
    assert_int_equal(c->lost_events, 12);
    assert_int_equal(c->lost_ticks, 1);
    assert_int_equal(c->n_spans, 1);
    assert_int_equal(c->spans[0].first_ns, LAB_NS(900));
    assert_int_equal(c->spans[0].last_ns, LAB_NS(918));
    assert_int_equal(c->n_stages, 1);
    assert_true(str_eq(c->stages[0].reason, str_make("lost_events")));
    assert_true(a.data.partial);
    assert_true(ask_note(&a.data, "coverage 95.00 %, 12 events and 1 tick lost on host-1 22:28"));
}

static void ticks_left_out_are_named_where_nothing_else_was_lost(void **state)
{
    const struct wire_coverage *c;

    begin(1, 700, 9);
    lab_ledger(l, "table", "late", 1);
    lab_put(l);
    c = ask(false);
    assert_int_equal(c->lost_ticks, 1);
    assert_int_equal(c->n_stages, 1);
    assert_true(str_eq(c->stages[0].reason, str_make("late")));
    assert_false(c->stages[0].loss);
}

static void ticks_left_out_do_not_hide_a_batch_that_is_missing(void **state)
{
    const struct wire_coverage *c;

    begin(1, 900, 10);
    lab_ledger(l, "table", "late", 5);
    lab_put(l);
    put(3, 920, 10);
    c = ask(false);
    assert_int_equal(c->missing_batches, 1);
    assert_int_equal(c->n_stages, 1);
    assert_int_equal(stage_of(c, "stream", "missing")->count, 1);
}

static void a_lost_buffer_makes_the_figure_an_upper_bound(void **state)
{
    const struct wire_coverage *c;

    begin(1, 900, 10);
    lab_ledger(l, "source", "out", 100);
    lab_ledger(l, "source", "lost_buffers", 2);
    lab_put(l);
    c = ask(false);
    assert_true(c->at_most);
    assert_int_equal(c->ppm, 1000000);
    assert_true(a.data.partial);
    assert_true(ask_note(&a.data, "coverage \xe2\x89\xa4 100 %, an unknown number of events lost"));
}

static void a_hole_in_the_numbers_is_a_loss_of_the_time_between(void **state)
{
    const struct wire_coverage *c;

    put(1, 900, 10);
    put(4, 930, 10); /* 910 to 929 never came */
    c = ask(true);
    assert_int_equal(c->missing_batches, 2);
    assert_int_equal(c->lost_ticks, 20);
    assert_int_equal(c->ppm, 500000);
    assert_true(c->at_most);
    assert_int_equal(c->spans[0].first_ns, LAB_NS(909));
    assert_int_equal(c->spans[0].last_ns, LAB_NS(930));
    assert_int_equal(stage_of(c, "stream", "missing")->count, 2);
    assert_true(stage_of(c, "stream", "missing")->loss);
    assert_true(a.data.partial);

    put(3, 920, 10);
    put(2, 910, 10); /* late, and in no order: nothing is missing any more */
    c = ask(false);
    assert_int_equal(c->missing_batches, 0);
    assert_int_equal(c->ppm, 1000000);
}

static void a_killed_agent_explains_the_time_until_it_is_back(void **state)
{
    struct wire_query q = {.since_ns = LAB_NS(914.5), .until_ns = LAB_NS(940)};
    const struct wire_coverage *c;

    put(1, 900, 10);
    begin(2, 920, 10);
    lab_ledger(l, "agent", "killed", 10);
    lab_put(l);
    c = ask(false);
    assert_int_equal(c->lost_ticks, 10);
    assert_int_equal(c->ticks, 20);
    assert_int_equal(c->missing_batches, 0);
    assert_true(c->at_most);
    assert_int_equal(c->spans[0].first_ns, LAB_NS(909));
    assert_int_equal(c->spans[0].last_ns, LAB_NS(920));
    assert_true(str_eq(c->stages[0].stage, str_make("agent")));

    ask_about(QUERY_COVERAGE, &q); /* of a window that begins half-way */
    c = &a.data.coverage[0];
    assert_in_range(c->lost_ticks, 4, 6);
    assert_int_equal(c->spans[0].first_ns, LAB_NS(914.5));
}

/* Its disk failed: batches of a new stream left from memory, the second one first, and a kill took
 * the rest. The next run goes on with the stream on its disk. */
static void a_kill_does_not_hide_a_batch_that_a_later_one_overtook(void **state)
{
    struct wire_query q = {.since_ns = LAB_NS(924), .until_ns = LAB_NS(960)};
    static const int64_t cpu[LAB_MAX];
    const struct wire_coverage *c;

    put(1, 900, 10);
    lab_begin(l, 1, 8, 2); /* number 1, of 910 to 919, never came */
    for (unsigned i = 0; i < 10; i++) {
        lab_tick(l, 920 + i);
    }
    lab_cpu(l, 5, true, 0, 10, cpu);
    lab_put(l);
    begin(2, 935, 10);
    lab_ledger(l, "agent", "killed", 26);
    lab_put(l);
    c = ask(true);
    assert_int_equal(c->ticks, 30);
    assert_int_equal(c->missing_batches, 1);
    assert_int_equal(c->lost_ticks, 10 + 6);
    assert_true(c->at_most);
    assert_int_equal(stage_of(c, "stream", "missing")->count, 1);

    ask_about(QUERY_COVERAGE, &q); /* neither stream begins in this window */
    assert_int_equal(a.data.coverage[0].missing_batches, 0);
    assert_int_equal(a.data.coverage[0].lost_ticks, 6);

    lab_begin(l, 1, 8, 1); /* late */
    for (unsigned i = 0; i < 10; i++) {
        lab_tick(l, 910 + i);
    }
    lab_cpu(l, 5, true, 0, 10, cpu);
    lab_put(l);
    c = ask(false);
    assert_int_equal(c->missing_batches, 0);
    assert_int_equal(c->lost_ticks, 6);
}

/* One tick before the kill, one in the first batch after it: how fast they come shows later. */
static void a_kill_is_counted_by_the_ticks_that_follow(void **state)
{
    static const int64_t cpu[LAB_MAX];
    const struct wire_coverage *c;

    put(1, 900, 1);
    begin(2, 902, 1);
    lab_ledger(l, "agent", "killed", 20); /* by the rate it was to have, ten times the real one */
    lab_put(l);
    assert_int_equal(ask(false)->lost_ticks, 2); /* while nobody knows: one a second */
    lab_begin(l, 1, 7, 3);
    for (unsigned i = 0; i < 10; i++) {
        lab_tick(l, 902.25 + 0.25 * i);
    }
    lab_cpu(l, 5, false, 0, 10, cpu);
    lab_put(l);
    c = ask(false);
    assert_int_equal(c->lost_ticks, 8);
    assert_int_equal(c->ticks, 12);
    assert_int_equal(c->spans[0].first_ns, LAB_NS(900));
    assert_int_equal(c->spans[0].last_ns, LAB_NS(902));
}

static void a_clock_that_was_set_does_not_change_what_a_kill_cost(void **state)
{
    static const int64_t cpu[LAB_MAX];

    put(1, 900, 10);
    lab_begin(l, 1, 7, 2);
    lab_tick(l, 920); /* then it was set, 50 seconds ahead */
    for (unsigned i = 1; i < 10; i++) {
        lab_tick_at(l, 970 + i, 920 + i);
    }
    lab_cpu(l, 5, false, 0, 10, cpu);
    lab_ledger(l, "agent", "killed", 10);
    lab_put(l);
    assert_int_equal(ask(false)->lost_ticks, 10);
}

static void what_a_spool_took_away_is_lost_though_a_tick_is_left(void **state)
{
    const struct wire_coverage *c;

    put(1, 900, 10);
    lab_begin(l, 1, 7, 2);
    lab_tick(l, 919);
    lab_ledger(l, "spool", "ticks_dropped", 10);
    lab_ledger(l, "spool", "metrics_dropped", 1500);
    lab_put(l);
    c = ask(false);
    assert_int_equal(c->ticks, 10);
    assert_int_equal(c->lost_ticks, 10);
    assert_int_equal(c->lost_rows, 1500);
    assert_int_equal(c->ppm, 500000);
}

/* What the spool took out of a batch is told by the last row, of batches gone whole before. */
static void events_that_the_spool_took_away_are_not_delivered(void **state)
{
    const struct wire_coverage *c;

    begin(1, 900, 1);
    lab_life(l, LIFE_PROCESS_START, 900, 5, "a");
    lab_ledger(l, "source", "out", 10);
    lab_ledger(l, "spool", "events_dropped", 7); /* of whole batches, and nothing of this one */
    lab_put(l);
    lab_begin(l, 1, 7, 2);
    lab_tick(l, 901);
    lab_ledger(l, "spool", "events_dropped", 20); /* of whole batches again */
    lab_ledger(l, "source", "out", 10);
    lab_ledger(l, "spool", "ticks_dropped", 1);
    lab_ledger(l, "spool", "metrics_dropped", 1);
    lab_ledger(l, "spool", "events_dropped", 4);
    lab_put(l);
    c = ask(false);
    assert_int_equal(c->events, 16);
    assert_int_equal(c->lost_events, 31);
    assert_int_equal(c->events_ppm, 340425);
    assert_int_equal(c->ticks, 1);
    assert_int_equal(c->lost_ticks, 1);
}

/* Of the one host, of these seconds. */
static const struct wire_coverage *ask_between(double since, double until)
{
    struct wire_query q = {.since_ns = LAB_NS(since), .until_ns = LAB_NS(until)};

    ask_about(QUERY_COVERAGE, &q);
    assert_int_equal(a.data.n_coverage, 1);
    return &a.data.coverage[0];
}

/* Ticks at 100 to 109 and 150 to 159; batches 2 to 5 never came. */
static void a_window_that_begins_or_ends_in_a_gap_tells_of_it(void **state)
{
    const struct wire_coverage *c;

    put(1, 100, 10);
    put(6, 150, 10);
    c = ask_between(100, 160);
    assert_int_equal(c->missing_batches, 4);
    assert_int_equal(c->lost_ticks, 40);
    c = ask_between(100, 130);
    assert_int_equal(c->lost_ticks, 20);
    assert_in_range(c->missing_batches, 2, 3);
    assert_int_equal(c->n_spans, 1);
    assert_true(c->spans[0].first_ns == LAB_NS(109) && c->spans[0].last_ns == LAB_NS(130));
    assert_true(c->at_most && a.data.partial);
    assert_int_equal(c->ticks_ppm, 333333);
    c = ask_between(130, 160);
    assert_int_equal(c->lost_ticks, 20);
    assert_in_range(c->missing_batches, 2, 3);
    assert_true(c->spans[0].first_ns == LAB_NS(130) && c->spans[0].last_ns == LAB_NS(150));
    assert_true(a.data.partial);
    c = ask_between(100, 110); /* up to the gap, and from its end on */
    assert_int_equal(c->lost_ticks + c->missing_batches, 0);
    c = ask_between(150, 160);
    assert_int_equal(c->lost_ticks + c->missing_batches, 0);
    assert_false(a.data.partial);
}

/* Far away, and of another stream. */
static void so_does_one_whose_gap_is_long(void **state)
{
    const struct wire_coverage *c;

    put(1, 100, 10);
    put(5, 900, 10);
    lab_begin(l, 1, 8, 3); /* numbers 1 and 2 of it are missing */
    lab_tick(l, 950);
    lab_put(l);
    c = ask_between(100, 140);
    assert_int_equal(c->lost_ticks, 30);
    assert_int_equal(c->missing_batches, 1); /* of three, in 31 s of 791 */
    c = ask_between(880, 910);
    assert_int_equal(c->lost_ticks, 20);
    assert_int_equal(c->missing_batches, 1);
    c = ask_between(900, 930);
    assert_int_equal(c->lost_ticks, 20);
    assert_int_equal(c->missing_batches, 1);
}

/* What it counted between its last tick and its first one is in the batch behind the window. */
static void a_window_that_ends_before_a_killed_agent_is_back_tells_of_it(void **state)
{
    const struct wire_coverage *c;

    put(1, 100, 10);
    begin(2, 150, 10);
    lab_ledger(l, "agent", "killed", 40);
    lab_put(l);
    c = ask_between(100, 160);
    assert_int_equal(c->lost_ticks, 40);
    c = ask_between(100, 130);
    assert_int_equal(c->lost_ticks, 20);
    assert_int_equal(c->missing_batches, 0);
    assert_true(c->at_most && a.data.partial);
    c = ask_between(100, 110);
    assert_int_equal(c->lost_ticks, 0);
    assert_false(a.data.partial);
}

static void a_missing_host_counts_as_nothing_delivered(void **state)
{
    struct wire_query q = {.since_ns = LAB_NS(900), .until_ns = LAB_NS(910)};

    put(1, 900, 10);
    lab_begin(l, 2, 7, 1);
    lab_tick(l, 10);
    lab_put(l);
    ask_about(QUERY_COVERAGE, &q);
    assert_int_equal(a.data.n_coverage, 2);
    assert_false(a.data.coverage[0].missing);
    assert_true(a.data.coverage[1].missing);
    assert_int_equal(a.data.coverage[1].ppm, 0);
    assert_true(a.data.partial);
    assert_true(ask_note(&a.data, "coverage 50.00 %, nothing from host-2"));

    q.since_ns = LAB_NS(800); /* most of it before host 1 had anything */
    q.host = str_make("host-1");
    ask_about(QUERY_COVERAGE, &q);
    assert_in_range(a.data.coverage[0].ppm, 90000, 91000);

    q.until_ns = LAB_NS(100000); /* what has not happened is not missing: now is 1000 */
    ask_about(QUERY_COVERAGE, &q);
    assert_in_range(a.data.coverage[0].ppm, 45000, 46000);
}

static void a_host_nobody_knows_has_delivered_nothing(void **state)
{
    struct wire_query q = {.host = str_make("nobody")};

    put(1, 900, 10);
    ask_run(&a, l, QUERY_TOP, &q, NULL);
    assert_true(a.data.partial);
    assert_true(ask_note(&a.data, "coverage 0.00 %, nothing from nobody"));
}

static void the_last_words_of_an_agent_count_though_they_have_no_time(void **state)
{
    const struct wire_coverage *c;

    put(1, 900, 10);
    lab_begin(l, 1, 7, 2);
    lab_flags(l, BATCH_LAST);
    lab_ledger(l, "source", "lost_events", 3);
    lab_put(l);
    c = ask(false);
    assert_int_equal(c->lost_events, 3);
}

static void every_stage_is_told_when_asked_for(void **state)
{
    const struct wire_coverage *c;
    const struct wire_stage *s;

    for (unsigned i = 0; i < 3; i++) {
        begin(i + 1, 900 + 10 * i, 10);
        lab_ledger(l, "who", "knows", 1);
        lab_ledger(l, "batch", "held", 7 - i);
        lab_ledger(l, "batch", "in", 100);
        lab_put(l);
    }
    c = ask(true);
    assert_int_equal(c->n_stages, 5);
    assert_int_equal(stage_of(c, "store", "in")->count, 3); /* the collector's own */
    assert_int_equal(stage_of(c, "store", "held")->count, 3);
    assert_int_equal(stage_of(c, "store", "held")->first_ns, 0);
    assert_true(str_eq(c->stages[0].reason, str_make("in"))); /* as data flows */
    assert_true(str_eq(c->stages[2].stage, str_make("who")));
    s = stage_of(c, "batch", "in");
    assert_int_equal(s->count, 300);
    assert_int_equal(s->role, LEDGER_IN);
    assert_int_equal(s->unit, LEDGER_RECORDS);
    assert_false(s->loss);
    assert_int_equal(s->first_ns, LAB_NS(900));
    assert_int_equal(s->last_ns, LAB_NS(929));
    assert_int_equal(stage_of(c, "batch", "held")->count, 5); /* no sum: the newest */
    assert_true(stage_of(c, "who", "knows")->loss);
}

static void it_comes_in_pages_and_the_figure_with_the_first(void **state)
{
    struct wire_query q = {.limit = 2};
    struct query_answer b;
    static const int64_t cpu[1];

    for (unsigned i = 1; i <= 3; i++) {
        lab_begin(l, i, 7, 1);
        lab_tick(l, 990);
        lab_cpu(l, 5, true, 0, 1, cpu);
        lab_ledger(l, "source", "lost_events", i);
        lab_put(l);
    }
    ask_about(QUERY_COVERAGE, &q);
    assert_int_equal(a.data.n_coverage, 2);
    assert_true(a.more && a.data.partial);
    assert_true(ask_note(&a.data, "3 events lost on host-3")); /* of all hosts */
    q.cursor = (struct str){(const char *)a.cursor, a.cursor_n};
    ask_run(&b, l, QUERY_COVERAGE, &q, NULL);
    assert_int_equal(b.data.n_coverage, 1);
    assert_int_equal(b.data.coverage[0].lost_events, 3);
    assert_int_equal(b.data.n_notes, 0);
    assert_false(b.more);
    query_answer_fini(&b);
}

static void a_window_as_wide_as_numbers_go_has_hardly_anything(void **state)
{
    static const struct wire_query rows[] = {{.since_ns = INT64_MIN + 5, .until_ns = LAB_NS(1000)},
                                             {.since_ns = INT64_MIN}};

    put(1, 900, 10);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        ask_about(QUERY_COVERAGE, &rows[i]);
        assert_int_equal(a.data.n_coverage, 1);
        assert_int_equal(a.data.coverage[0].ppm, 0);
        assert_true(a.data.partial);
    }
    ask_about(QUERY_PROCESSES, &(struct wire_query){.until_ns = INT64_MIN, .exited = true});
    assert_int_equal(a.data.n_rows, 0);
}

static void every_answer_ends_with_the_figure(void **state)
{
    static const enum query_kind kinds[] = {QUERY_TOP, QUERY_PROCESSES, QUERY_HISTORY,
                                            QUERY_EVENTS};
    struct wire_query q = {.limit = 1};

    for (unsigned i = 0; i < 20; i++) { /* more than a page of one row sees */
        begin(i + 1, 900 + i, 1);
        lab_ledger(l, "source", "out", 50);
        lab_ledger(l, "source", "lost_events", i == 19);
        lab_put(l);
    }
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const struct wire_answer *w = &a.data;

        ask_about(kinds[i], &q);
        if (!ask_note(w, "coverage 99.90 %, 1 event lost on host-1 22:28") ||
            strncmp(w->notes[w->n_notes - 1].p, "coverage", 8) != 0) {
            fail_msg("kind %d does not end with it", (int)kinds[i]);
        }
        assert_true(w->partial);
    }
    ask_about(QUERY_HOSTS, &q); /* asks about no span */
    assert_int_equal(a.data.n_notes, 0);
}

/* -- hosts that lie -- */

/* Host 1 lost twelve events; host 2 says what is near the end of the numbers, again and again. */
static void put_liar(uint64_t count, const char *reason)
{
    static const int64_t cpu[1];

    begin(1, 900, 10);
    lab_ledger(l, "source", "out", 88);
    lab_ledger(l, "source", "lost_events", 12);
    lab_put(l);
    for (uint64_t seq = 1; seq <= 3; seq++) {
        lab_begin(l, 2, 7, seq == 3 ? UINT64_MAX : seq);
        lab_tick(l, 900 + (double)seq);
        lab_cpu(l, 5, seq == 1, 0, 1, cpu);
        lab_ledger(l, "source", "out", count);
        lab_ledger(l, "source", reason, count);
        lab_ledger(l, "sampler", "capped", count);
        lab_ledger(l, "spool", "ticks_dropped", count);
        lab_put(l);
    }
}

static const uint64_t lies[] = {UINT64_MAX,         UINT64_MAX - 11, UINT64_MAX / 2 + 1,
                                UINT64_MAX / 3 + 1, INT64_MAX,       (uint64_t)1 << 53};

static void a_host_whose_counts_cannot_be_hides_no_others_loss(void **state)
{
    for (size_t i = 0; i < COUNT_OF(lies); i++) {
        const struct wire_query q = {.last_ns = LAB_NS(1000) - LAB_EPOCH_NS, .stages = true};
        const struct wire_coverage *liar;

        (void)close_lab(state);
        (void)open_lab(state);
        put_liar(lies[i], "lost_events");
        ask_about(QUERY_COVERAGE, &q);
        assert_int_equal(a.data.n_coverage, 2);
        assert_int_equal(a.data.coverage[0].lost_events, 12);
        assert_int_equal(a.data.coverage[0].ppm, 880000);
        liar = &a.data.coverage[1];
        assert_true(liar->lost_events == LEDGER_MAX && liar->events == LEDGER_MAX);
        assert_true(liar->lost_ticks == LEDGER_MAX && liar->lost_rows == LEDGER_MAX);
        assert_true(liar->missing_batches == LEDGER_MAX);
        for (size_t k = 0; k < liar->n_stages; k++) {
            assert_true(liar->stages[k].count <= LEDGER_MAX);
        }
        for (size_t k = 0; k < liar->n_spans; k++) {
            assert_true(liar->spans[k].ticks <= LEDGER_MAX && liar->spans[k].events <= LEDGER_MAX);
        }
        assert_true(liar->ppm < 500000);
        assert_true(a.data.partial);
        assert_true(ask_note(&a.data, "12 events lost on host-1"));
        assert_true(ask_note(&a.data, "not believed and left out of sums: host-2"));
        assert_false(ask_note(&a.data, "left out of sums: host-1"));
        ask_about(QUERY_OVERVIEW, &(struct wire_query){0});
        assert_int_equal(a.data.overview->lost_events, 12);
        assert_int_equal(a.data.overview->gaps, 0);
        assert_true(ask_note(&a.data, "not believed and left out of sums: host-2"));
        assert_false(ask_note(&a.data, "host-2, host-2")); /* of the window and of ever: once */
        ask_about(QUERY_HOSTS, &(struct wire_query){0});
        assert_true(a.data.hosts[1].lost_events == LEDGER_MAX);
        assert_true(a.data.hosts[1].gaps == LEDGER_MAX);
        assert_true(ask_note(&a.data, "not believed and left out of sums: host-2"));
    }
}

/* -- numbers -- */

static void ranges_of_numbers_are_joined_up_to_the_highest_number(void **state)
{
    static const struct rest_stream streams[] = {
        {7, UINT64_MAX - 9, UINT64_MAX - 5, 10, 20}, {7, UINT64_MAX - 4, UINT64_MAX, 30, 40},
        {7, UINT64_MAX, UINT64_MAX, 40, 40},         {7, UINT64_MAX - 12, UINT64_MAX - 11, 1, 2},
        {8, UINT64_MAX, UINT64_MAX, 50, 50},
    };
    const struct loss_sum account = {
        .last_ns = 50, .n_streams = COUNT_OF(streams), .streams = streams};
    static struct query_ledger all;

    query_ledger_init(&all, 0, INT64_MAX);
    query_ledger_account(&all, &account);
    assert_int_equal(all.n_ranges, 3);
    for (size_t i = 0; i < all.n_ranges; i++) {
        const struct qledger_range *r = &all.ranges[i];

        if (r->stream == 7 && r->last == UINT64_MAX) {
            assert_true(r->first == UINT64_MAX - 9);
            assert_int_equal(r->first_ns, 10);
            assert_int_equal(r->last_ns, 40);
        }
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_lab, close_lab)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(where_nothing_was_lost_all_is_delivered),
        TEST(lost_events_and_ticks_are_weighed_against_what_came),
        TEST(a_lost_buffer_makes_the_figure_an_upper_bound),
        TEST(a_hole_in_the_numbers_is_a_loss_of_the_time_between),
        TEST(a_killed_agent_explains_the_time_until_it_is_back),
        TEST(ticks_left_out_are_named_where_nothing_else_was_lost),
        TEST(ticks_left_out_do_not_hide_a_batch_that_is_missing),
        TEST(a_kill_does_not_hide_a_batch_that_a_later_one_overtook),
        TEST(a_kill_is_counted_by_the_ticks_that_follow),
        TEST(a_clock_that_was_set_does_not_change_what_a_kill_cost),
        TEST(what_a_spool_took_away_is_lost_though_a_tick_is_left),
        TEST(events_that_the_spool_took_away_are_not_delivered),
        TEST(a_window_that_begins_or_ends_in_a_gap_tells_of_it),
        TEST(so_does_one_whose_gap_is_long),
        TEST(a_window_that_ends_before_a_killed_agent_is_back_tells_of_it),
        TEST(a_missing_host_counts_as_nothing_delivered),
        TEST(a_host_nobody_knows_has_delivered_nothing),
        TEST(the_last_words_of_an_agent_count_though_they_have_no_time),
        TEST(every_stage_is_told_when_asked_for),
        TEST(it_comes_in_pages_and_the_figure_with_the_first),
        TEST(a_window_as_wide_as_numbers_go_has_hardly_anything),
        TEST(every_answer_ends_with_the_figure),
        TEST(a_host_whose_counts_cannot_be_hides_no_others_loss),
        cmocka_unit_test(ranges_of_numbers_are_joined_up_to_the_highest_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ||
           cmocka_run_group_tests_name("sealed", tests, lab_seal_all, NULL);
}
