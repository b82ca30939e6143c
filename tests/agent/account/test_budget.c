#include "tests/support/t.h"

#include "agent/account/budget.h"

#define MIB (INT64_C(1) << 20)

static const struct budget_conf plain = {
    .max = 2, .cpus = 2, .cpu_permille = 20, .memory_bytes = 50 * MIB, .events_per_s = 10000};

/* What a second of a run adds, and how often it is repeated. */
struct phase {
    int seconds;
    int64_t cpu_ms; /* per second, of one CPU */
    int64_t mib;
    uint64_t events, lost; /* per second */
    unsigned ring;
};

/* One look each `look_ns`; gives the level at the end and writes the steps' causes. */
struct run {
    struct budget levels;
    struct budget_reading at;
    int64_t now_ns;
    struct level_step steps[16];
    int64_t step_s[16]; /* when, in seconds */
    size_t n_steps;
};

static void run_init(struct run *r, const struct budget_conf *conf)
{
    *r = (struct run){.now_ns = 1000 * CLK_S};
    budget_init(&r->levels, conf);
}

static void run_phase(struct run *r, struct phase p, int looks_per_s)
{
    for (int i = 0; i < p.seconds * looks_per_s; i++) {
        struct level_step step;

        r->at.resident_bytes = p.mib * MIB;
        r->at.ring_permille = p.ring;
        if (budget_look(&r->levels, r->now_ns, &r->at, &step)) {
            assert_true(r->n_steps < COUNT_OF(r->steps));
            r->step_s[r->n_steps] = r->now_ns / CLK_S - 1000;
            r->steps[r->n_steps++] = step;
        }
        r->now_ns += CLK_S / looks_per_s;
        r->at.cpu_ns += p.cpu_ms * CLK_MS / looks_per_s;
        r->at.events += p.events / (unsigned)looks_per_s;
        r->at.lost += p.lost / (unsigned)looks_per_s;
    }
}

static const struct phase quiet = {.seconds = 1, .cpu_ms = 5, .mib = 20, .events = 100};

static struct phase calm(int seconds)
{
    struct phase p = quiet;

    p.seconds = seconds;
    return p;
}

static void a_quiet_agent_climbs_one_level_a_minute_up_to_its_maximum(void **state)
{
    struct run r;

    run_init(&r, &plain);
    run_phase(&r, calm(60), 4);
    assert_int_equal(r.levels.level, 0);
    run_phase(&r, calm(300), 4);
    assert_int_equal(r.levels.level, 2);
    assert_int_equal(r.n_steps, 2);
    assert_int_equal(r.step_s[0], 60);
    assert_int_equal(r.step_s[1], 120);
    assert_int_equal(r.steps[0].cause, LEVEL_CAUSE_QUIET);
    assert_int_equal(r.levels.steps[LEVEL_CAUSE_QUIET], 2);
}

/* At level 2 for a minute, then something happens. */
static void every_cause_takes_one_level_after_its_time(void **state)
{
    static const struct {
        struct phase p;
        enum level_cause cause;
        int64_t after_s, value, limit;
    } rows[] = {
        {{8, 100, 20, 100, 0, 0}, LEVEL_CAUSE_CPU, 2, 24, 20},
        {{8, 5, 60, 100, 0, 0}, LEVEL_CAUSE_MEMORY, 0, 60 * MIB, 50 * MIB},
        {{8, 5, 20, 100, 0, 800}, LEVEL_CAUSE_RING, 1, 800, 750},
        {{8, 5, 20, 25000, 0, 0}, LEVEL_CAUSE_EVENTS, 2, 10060, 10000},
        {{4, 5, 20, 100, 4, 0}, LEVEL_CAUSE_LOSS, 0, 1, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct run r;
        int64_t begin_s;

        run_init(&r, &plain);
        run_phase(&r, calm(180), 4);
        assert_int_equal(r.levels.level, 2);
        begin_s = r.now_ns / CLK_S - 1000;
        r.n_steps = 0;
        run_phase(&r, rows[i].p, 4);
        assert_true(r.n_steps >= 1);
        assert_int_equal(r.steps[0].from, 2);
        assert_int_equal(r.steps[0].to, 1);
        assert_int_equal(r.steps[0].cause, rows[i].cause);
        assert_int_equal(r.step_s[0] - begin_s, rows[i].after_s);
        assert_int_equal(r.steps[0].limit, rows[i].limit);
        if (rows[i].cause == LEVEL_CAUSE_MEMORY || rows[i].cause == LEVEL_CAUSE_RING) {
            assert_int_equal(r.steps[0].value, rows[i].value);
        } else {
            assert_true(r.steps[0].value > rows[i].limit);
        }
    }
}

static void what_is_at_its_limit_or_shorter_than_its_time_is_no_cause(void **state)
{
    static const struct phase rows[] = {
        {30, 40, 20, 100, 0, 0},   /* CPU exactly at 2 % of two */
        {30, 5, 50, 100, 0, 0},    /* memory exactly at its limit */
        {30, 5, 20, 100, 0, 750},  /* ring exactly at 75 % */
        {30, 5, 20, 10000, 0, 0},  /* events exactly at their limit */
        {1, 170, 20, 100, 0, 0},   /* CPU: the mean of five seconds stays below */
        {1, 5, 20, 49000, 0, 900}, /* ring: less than a second; events: the mean stays below */
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct run r;

        run_init(&r, &plain);
        run_phase(&r, calm(180), 4);
        r.n_steps = 0;
        run_phase(&r, rows[i], 4);
        run_phase(&r, calm(20), 4);
        assert_int_equal(r.n_steps, 0);
    }
}

static void a_lasting_cause_takes_all_levels_and_then_holds(void **state)
{
    const struct phase hot = {60, 900, 20, 100, 0, 0};
    struct run r;

    run_init(&r, &plain);
    run_phase(&r, calm(180), 1);
    r.n_steps = 0;
    run_phase(&r, hot, 1);
    assert_int_equal(r.levels.level, 0);
    assert_int_equal(r.n_steps, 2);
    assert_true(r.step_s[1] - r.step_s[0] >= BUDGET_SETTLE_NS / CLK_S);
}

static void a_minute_without_cause_begins_when_the_cause_ends(void **state)
{
    const struct phase full = {30, 5, 60, 100, 0, 0};
    struct run r;

    run_init(&r, &plain);
    run_phase(&r, full, 1); /* nothing to shed at level 0, but no minute of quiet either */
    run_phase(&r, calm(59), 1);
    assert_int_equal(r.levels.level, 0);
    run_phase(&r, calm(3), 1);
    assert_int_equal(r.levels.level, 1);
}

/* What L0 costs lets it climb, what L1 costs does not let it stay: for an hour. */
static void a_level_that_cannot_be_held_is_tried_ever_more_seldom(void **state)
{
    struct budget_conf conf = plain;
    struct run r;

    conf.max = 1;
    run_init(&r, &conf);
    for (int i = 0; i < 3600; i++) {
        run_phase(&r, (struct phase){1, r.levels.level == 0 ? 25 : 45, 20, 100, 0, 0}, 4);
    }
    assert_in_range(r.n_steps, 4, 12); /* not the hundred of one each 36 seconds */
    assert_int_equal(r.levels.level, 0);
    r.n_steps = 0;
    run_phase(&r, calm(2 * 3600), 1); /* it is not shed for ever */
    assert_int_equal(r.levels.level, 1);
    assert_int_equal(r.levels.quiet_ns, BUDGET_QUIET_NS);
}

/* Between three quarters of the budget and all of it nothing is shed and nothing is climbed. */
static void near_its_budget_it_stays_where_it_is(void **state)
{
    static const struct phase near[] = {{600, 35, 20, 100, 0, 0}, {600, 5, 20, 9000, 0, 0}};

    for (size_t i = 0; i < COUNT_OF(near); i++) {
        struct run r;

        run_init(&r, &plain);
        run_phase(&r, near[i], 4);
        assert_int_equal(r.n_steps, 0);
        run_phase(&r, calm(70), 4);
        assert_int_equal(r.levels.level, 1);
        run_phase(&r, near[i], 4);
        assert_int_equal(r.levels.level, 1);
    }
}

static void one_loss_takes_one_level(void **state)
{
    const struct phase loss = {1, 5, 20, 100, 7, 0};
    struct run r;

    run_init(&r, &plain);
    run_phase(&r, calm(180), 1);
    r.n_steps = 0;
    run_phase(&r, loss, 1);
    run_phase(&r, calm(30), 1);
    assert_int_equal(r.n_steps, 1);
    assert_int_equal(r.steps[0].value, 7);
    assert_int_equal(r.levels.level, 1);
}

static void what_was_lost_before_the_start_is_no_cause(void **state)
{
    struct run r;

    run_init(&r, &plain);
    r.at.lost = 1000;
    run_phase(&r, calm(70), 1);
    assert_int_equal(r.levels.level, 1);
}

static void a_request_is_taken_at_once_and_ends_by_itself(void **state)
{
    struct budget_conf conf = plain;
    struct run r;

    conf.request = 4;
    conf.request_span_ns = 30 * CLK_S;
    run_init(&r, &conf);
    run_phase(&r, calm(1), 4);
    assert_int_equal(r.levels.level, 4);
    assert_int_equal(r.steps[0].cause, LEVEL_CAUSE_REQUEST);
    run_phase(&r, calm(30), 4);
    assert_int_equal(r.levels.level, 2);
    assert_int_equal(r.steps[1].cause, LEVEL_CAUSE_REQUEST_OVER);
    assert_int_equal(r.step_s[1], 30);
}

static void a_requested_level_is_shed_like_any_other(void **state)
{
    const struct phase full = {20, 5, 60, 100, 0, 0};
    struct level_step step;
    struct run r;

    run_init(&r, &plain);
    run_phase(&r, calm(2), 1);
    assert_true(budget_request(&r.levels, r.now_ns, 3, 600 * CLK_S, &step));
    assert_int_equal(step.to, 3);
    run_phase(&r, full, 1);
    assert_int_equal(r.levels.level, 0);
    run_phase(&r, calm(130), 1);
    assert_int_equal(r.levels.level, 2);
    run_phase(&r, calm(70), 1);
    assert_int_equal(r.levels.level, 3); /* its time is not over */
}

static void a_request_may_ask_for_less(void **state)
{
    struct level_step step;
    struct run r;

    run_init(&r, &plain);
    run_phase(&r, calm(180), 1);
    assert_true(budget_request(&r.levels, r.now_ns, 0, 120 * CLK_S, &step));
    run_phase(&r, calm(120), 1);
    assert_int_equal(r.levels.level, 0);
    run_phase(&r, calm(2), 1);
    assert_int_equal(r.levels.level, 1);
}

static void levels_cap_ticks_and_tables(void **state)
{
    static const struct {
        unsigned level;
        int64_t wanted_ns, tick_ns, table_ns, table_with_switches_ns;
    } rows[] = {
        {0, CLK_MS, CLK_S, CLK_S, CLK_S},
        {0, 10 * CLK_S, 10 * CLK_S, 10 * CLK_S, 10 * CLK_S},
        {1, CLK_MS, 100 * CLK_MS, 100 * CLK_MS, 500 * CLK_MS},
        {1, 200 * CLK_MS, 200 * CLK_MS, 200 * CLK_MS, 500 * CLK_MS},
        {2, CLK_MS, 10 * CLK_MS, 500 * CLK_MS, 500 * CLK_MS},
        {2, 50 * CLK_MS, 50 * CLK_MS, 500 * CLK_MS, 500 * CLK_MS},
        {3, CLK_MS, CLK_MS, 500 * CLK_MS, 500 * CLK_MS},
        {3, 100 * CLK_MS, 100 * CLK_MS, 100 * CLK_MS, 500 * CLK_MS},
        {3, 500 * CLK_MS, 500 * CLK_MS, 500 * CLK_MS, 500 * CLK_MS},
        {3, 501 * CLK_MS, 501 * CLK_MS, 501 * CLK_MS, 501 * CLK_MS},
        {4, CLK_MS, CLK_MS, 500 * CLK_MS, 500 * CLK_MS},
        {4, CLK_S, CLK_S, CLK_S, CLK_S},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t tick_ns = budget_tick_ns(rows[i].level, rows[i].wanted_ns);

        assert_int_equal(tick_ns, rows[i].tick_ns);
        assert_int_equal(budget_table_ns(tick_ns, false), rows[i].table_ns);
        assert_int_equal(budget_table_ns(tick_ns, true), rows[i].table_with_switches_ns);
    }
}

static void a_step_is_told_in_a_sentence(void **state)
{
    static const struct {
        struct level_step step;
        const char *text;
    } table[] = {
        {{3, 2, LEVEL_CAUSE_LOSS, 12, 0}, "from L3 to L2: 12 events or buffers were lost"},
        {{3, 2, LEVEL_CAUSE_LOSS, 1, 0}, "from L3 to L2: 1 event or buffer was lost"},
        {{2, 1, LEVEL_CAUSE_CPU, 31, 20},
         "from L2 to L1: own CPU time was 3.1 % of the machine, above budget.cpu (2.0 %)"},
        {{1, 0, LEVEL_CAUSE_MEMORY, 61 << 20, 50 << 20},
         "from L1 to L0: own memory is 62464 KiB, above budget.mem (51200 KiB)"},
        {{3, 2, LEVEL_CAUSE_RING, 815, 750},
         "from L3 to L2: the ring of a source was 81.5 % full, above 75.0 %"},
        {{3, 2, LEVEL_CAUSE_EVENTS, 20000, 10000},
         "from L3 to L2: 20000 events came in a second, above budget.events (10000)"},
        {{0, 1, LEVEL_CAUSE_QUIET, 0, 0}, "from L0 to L1: 60 s without a cause to collect less"},
        {{0, 1, LEVEL_CAUSE_QUIET, 240 * CLK_S, 0},
         "from L0 to L1: 240 s without a cause to collect less"},
        {{1, 0, LEVEL_CAUSE_MEMORY, INT64_MAX, INT64_MAX},
         "from L1 to L0: own memory is 9007199254740991 KiB, above budget.mem "
         "(9007199254740991 KiB)"},
    };
    char text[BUDGET_TEXT];

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        budget_step_text(text, &table[i].step);
        assert_string_equal(text, table[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quiet_agent_climbs_one_level_a_minute_up_to_its_maximum),
        cmocka_unit_test(every_cause_takes_one_level_after_its_time),
        cmocka_unit_test(what_is_at_its_limit_or_shorter_than_its_time_is_no_cause),
        cmocka_unit_test(a_lasting_cause_takes_all_levels_and_then_holds),
        cmocka_unit_test(a_minute_without_cause_begins_when_the_cause_ends),
        cmocka_unit_test(a_level_that_cannot_be_held_is_tried_ever_more_seldom),
        cmocka_unit_test(near_its_budget_it_stays_where_it_is),
        cmocka_unit_test(one_loss_takes_one_level),
        cmocka_unit_test(what_was_lost_before_the_start_is_no_cause),
        cmocka_unit_test(a_request_is_taken_at_once_and_ends_by_itself),
        cmocka_unit_test(a_requested_level_is_shed_like_any_other),
        cmocka_unit_test(a_request_may_ask_for_less),
        cmocka_unit_test(levels_cap_ticks_and_tables),
        cmocka_unit_test(a_step_is_told_in_a_sentence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
