#include "tests/support/t.h"

#include "agent/source/event_switch.h"
#include "common/base/mem.h"
#include "tests/agent/account/stages.h"
#include "tests/support/draw.h"

enum { WAITS = 5, READY = 1, ENDED = 4 };
#define NOBODY EVENT_NO_ID

/* A schedule: what happens at which ms on which CPU. */
struct step {
    enum { SWITCH, WAKE, LOST_HERE, LOST_EVERYWHERE } what;
    int64_t ms;
    uint16_t cpu;
    uint32_t old_tid, new_tid;
    uint8_t old_state;
};

/* And what a process has afterwards, in ms. */
struct share {
    uint32_t pid;
    uint64_t in, run, lost, ready, wait;
};

static struct event event_of(const struct step *step)
{
    struct event ev = feed_at(EV_CSWITCH, step->ms);

    ev.cpu = step->cpu;
    if (step->what == SWITCH) {
        ev.u.cswitch.old_tid = step->old_tid;
        ev.u.cswitch.new_tid = step->new_tid;
        ev.u.cswitch.old_state = step->old_state;
    } else if (step->what == WAKE) {
        ev.kind = EV_READY;
        ev.u.ready.tid = step->new_tid;
    } else {
        ev.kind = EV_LOST;
        ev.u.lost.all_cpus = step->what == LOST_EVERYWHERE;
    }
    return ev;
}

static void play(struct stages *s, const struct step *steps, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        (void)stages_feed(s, event_of(&steps[i]));
    }
}

/* The same, switches and wake-ups in runs of `max` at most. */
static void play_runs(struct stages *s, const struct step *steps, size_t n, size_t max)
{
    struct event_switch run[16];
    size_t n_run = 0;

    assert_true(max <= COUNT_OF(run));
    for (size_t i = 0; i < n; i++) {
        struct event ev = event_of(&steps[i]);

        if (ev.kind == EV_LOST || n_run == max) {
            aggregate_switches(s->agg, run, n_run);
            n_run = 0;
        }
        if (ev.kind == EV_LOST) {
            (void)stages_feed(s, ev);
            continue;
        }
        run[n_run++] =
            (struct event_switch){.wall_ns = ev.wall_ns,
                                  .mono_ns = ev.mono_ns,
                                  .new_tid = steps[i].new_tid,
                                  .old_tid = steps[i].old_tid,
                                  .cpu = ev.cpu | (ev.kind == EV_READY ? EVENT_SWITCH_READY : 0),
                                  .old_state = steps[i].old_state};
    }
    aggregate_switches(s->agg, run, n_run);
}

static void check_shares(const struct stages *s, const struct share *shares, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct share *x = &shares[i];

        assert_int_equal(stages_tally(s, x->pid, COUNTERS_SWITCHES_IN), x->in);
        assert_int_equal(stages_tally(s, x->pid, COUNTERS_RUN), x->run * CLK_MS);
        assert_int_equal(stages_tally(s, x->pid, COUNTERS_RUN_LOST), x->lost * CLK_MS);
        assert_int_equal(stages_tally(s, x->pid, COUNTERS_READY), x->ready * CLK_MS);
        assert_int_equal(stages_tally(s, x->pid, COUNTERS_WAIT), x->wait * CLK_MS);
    }
}

static void check(const struct step *steps, size_t n_steps, const struct share *shares,
                  size_t n_shares)
{
    for (size_t max = 0; max <= 16; max++) {
        struct stages s = stages_new(10 * CLK_S);

        stages_populate(&s);
        if (max == 0) {
            play(&s, steps, n_steps);
        } else {
            play_runs(&s, steps, n_steps, max);
        }
        check_shares(&s, shares, n_shares);
        stages_free(&s);
    }
}

#define CHECK(steps, shares) check(steps, COUNT_OF(steps), shares, COUNT_OF(shares))

static void time_between_switches_of_a_cpu_belongs_to_the_thread_put_on(void **state)
{
    static const struct step steps[] = {
        {SWITCH, 10, 0, 0, 80, READY},  {SWITCH, 12, 1, 0, 120, READY},
        {SWITCH, 13, 0, 80, 84, WAITS}, {SWITCH, 17, 1, 120, 0, WAITS},
        {SWITCH, 18, 0, 84, 0, ENDED},
    };
    static const struct share shares[] = {
        {8, 2, 8, 0, 0, 0}, {12, 1, 5, 0, 0, 0}, {0, 2, 0, 0, 0, 0}, {NOBODY, 0, 0, 0, 0, 0}};

    CHECK(steps, shares);
}

static void nothing_is_said_of_the_time_before_the_first_switch_and_after_the_last(void **state)
{
    static const struct step steps[] = {{SWITCH, 100, 0, 80, 120, WAITS}};
    static const struct share shares[] = {{8, 0, 0, 0, 0, 0}, {12, 1, 0, 0, 0, 0}};

    CHECK(steps, shares);
}

static void an_unknown_threads_time_is_nobodys_and_not_the_next_owners(void **state)
{
    struct stages s = stages_new(10 * CLK_S);
    static const struct step first[] = {{SWITCH, 10, 0, 0, 999, READY},
                                        {SWITCH, 14, 0, 999, 80, WAITS}};
    static const struct step second[] = {{SWITCH, 20, 0, 80, 999, READY},
                                         {SWITCH, 23, 0, 999, 0, WAITS}};
    static const struct share shares[] = {
        {8, 1, 6, 0, 0, 0}, {12, 1, 3, 0, 0, 0}, {NOBODY, 1, 4, 0, 0, 0}};

    stages_populate(&s);
    play(&s, first, COUNT_OF(first));
    (void)stages_feed(&s, feed_thread(EV_THREAD_START, 15, 12, 999));
    play(&s, second, COUNT_OF(second));
    check_shares(&s, shares, COUNT_OF(shares));
    stages_free(&s);
}

static void
a_tid_reused_while_its_thread_still_runs_stays_with_the_process_that_had_it(void **state)
{
    struct stages s = stages_new(10 * CLK_S);
    static const struct step first[] = {{SWITCH, 10, 0, 0, 80, READY}};
    static const struct step second[] = {{SWITCH, 14, 0, 80, 0, ENDED},
                                         {SWITCH, 15, 0, 0, 80, READY},
                                         {SWITCH, 18, 0, 80, 0, WAITS}};
    static const struct share shares[] = {{8, 1, 4, 0, 0, 0}, {12, 1, 3, 0, 0, 0}};

    stages_populate(&s);
    play(&s, first, COUNT_OF(first));
    (void)stages_feed(&s, feed_thread(EV_THREAD_STOP, 12, 8, 80));
    (void)stages_feed(&s, feed_thread(EV_THREAD_START, 13, 12, 80));
    play(&s, second, COUNT_OF(second));
    check_shares(&s, shares, COUNT_OF(shares));
    stages_free(&s);
}

static void a_thread_told_of_while_it_runs_gets_its_time(void **state)
{
    struct stages s = stages_new(10 * CLK_S);
    static const struct step first[] = {{SWITCH, 10, 0, 0, 999, READY}};
    static const struct step second[] = {{SWITCH, 14, 0, 999, 0, WAITS}};
    static const struct share shares[] = {{8, 0, 4, 0, 0, 0}, {NOBODY, 1, 0, 0, 0, 0}};

    stages_populate(&s);
    play(&s, first, COUNT_OF(first));
    (void)stages_feed(&s, feed_thread(EV_THREAD_LAST, 12, 8, 999));
    play(&s, second, COUNT_OF(second));
    check_shares(&s, shares, COUNT_OF(shares));
    stages_free(&s);
}

static void waits_end_when_the_thread_is_readied_and_readiness_when_it_is_put_on(void **state)
{
    static const struct step steps[] = {
        {SWITCH, 10, 0, 80, 0, WAITS},   {WAKE, 15, 1, 0, 80, 0},
        {WAKE, 16, 1, 0, 80, 0},         {SWITCH, 18, 0, 0, 80, 0},       /* wait 5, ready 3 */
        {SWITCH, 20, 0, 80, 120, READY}, {SWITCH, 24, 0, 120, 80, WAITS}, /* preempted: ready 4 */
        {SWITCH, 25, 0, 80, 0, WAITS},   {SWITCH, 32, 0, 0, 80, 0}, /* never readied: wait 7 */
    };
    static const struct share shares[] = {{8, 3, 3, 0, 7, 12}, {12, 1, 4, 0, 0, 0}};

    CHECK(steps, shares);
}

static void a_loss_mark_makes_the_time_from_switch_to_switch_uncertain(void **state)
{
    static const struct step steps[] = {
        {SWITCH, 10, 0, 0, 80, READY}, {SWITCH, 10, 1, 0, 84, READY},   {LOST_HERE, 13, 0, 0, 0, 0},
        {LOST_HERE, 14, 0, 0, 0, 0},   {SWITCH, 15, 0, 120, 80, WAITS}, /* 3 of process 8, 2 of
                                                                           process 12 */
        {SWITCH, 17, 0, 80, 0, WAITS}, {SWITCH, 20, 1, 84, 0, WAITS}, /* the other CPU: all good */
    };
    static const struct share shares[] = {{8, 3, 12, 3, 0, 0}, {12, 0, 0, 2, 0, 0}};

    CHECK(steps, shares);
}

static void a_loss_mark_for_all_cpus_ends_what_is_open_on_each(void **state)
{
    static const struct step steps[] = {
        {SWITCH, 10, 0, 0, 80, READY},     {SWITCH, 11, 1, 0, 120, READY},
        {LOST_EVERYWHERE, 13, 0, 0, 0, 0}, {SWITCH, 15, 0, 80, 0, WAITS},
        {SWITCH, 16, 1, 120, 0, WAITS},
    };
    static const struct share shares[] = {{8, 1, 0, 5, 0, 0}, {12, 1, 0, 5, 0, 0}};

    CHECK(steps, shares);
}

static void waits_under_way_at_a_loss_mark_are_not_counted(void **state)
{
    static const struct step steps[] = {
        {SWITCH, 10, 0, 80, 0, WAITS}, {LOST_HERE, 12, 1, 0, 0, 0},   {SWITCH, 14, 0, 0, 80, 0},
        {SWITCH, 15, 0, 80, 0, WAITS}, {SWITCH, 17, 0, 0, 80, WAITS},
    };
    static const struct share shares[] = {{8, 2, 1, 0, 0, 2}};

    CHECK(steps, shares);
}

static void a_switch_that_takes_off_another_thread_than_was_put_on_loses_the_time(void **state)
{
    struct stages s = stages_new(10 * CLK_S);
    static const struct step steps[] = {{SWITCH, 10, 0, 0, 80, READY},
                                        {SWITCH, 14, 0, 120, 80, WAITS},
                                        {SWITCH, 15, 0, 80, 0, WAITS}};
    static const struct share shares[] = {{8, 2, 1, 4, 0, 0}, {12, 0, 0, 0, 0, 0}};

    stages_populate(&s);
    play(&s, steps, COUNT_OF(steps));
    check_shares(&s, shares, COUNT_OF(shares));
    assert_int_equal(aggregate_stats(s.agg)->sched.gaps, 1);
    assert_int_equal(aggregate_stats(s.agg)->sched.switches, 3);
    stages_free(&s);
}

static void cpus_beyond_the_limit_are_counted(void **state)
{
    struct stages s = stages_new(10 * CLK_S);
    static const struct step steps[] = {{SWITCH, 10, SCHED_CPUS_MAX, 0, 80, READY},
                                        {SWITCH, 14, SCHED_CPUS_MAX - 1, 80, 0, WAITS},
                                        {LOST_HERE, 15, UINT16_MAX, 0, 0, 0}};
    static const struct share shares[] = {{8, 0, 0, 0, 0, 0}};

    stages_populate(&s);
    play(&s, steps, COUNT_OF(steps));
    check_shares(&s, shares, COUNT_OF(shares));
    assert_int_equal(aggregate_stats(s.agg)->sched.cpus_max, 1);
    stages_free(&s);
}

static void interrupts_and_records_without_ids_belong_to_who_has_the_cpu(void **state)
{
    struct stages s = stages_new(10 * CLK_S);
    static const struct step first[] = {{SWITCH, 10, 0, 0, 80, READY}};
    static const struct step second[] = {{LOST_HERE, 20, 0, 0, 0, 0}};
    struct event dpc = feed_at(EV_DPC, 12), isr = feed_at(EV_ISR, 13);
    struct event fault = feed_at(EV_SOFT_FAULT, 14);

    dpc.u.interrupt.took_ns = 1000;
    isr.u.interrupt.took_ns = 300;
    stages_populate(&s);
    (void)stages_feed(&s, dpc); /* no switch yet: nobody's */
    play(&s, first, COUNT_OF(first));
    (void)stages_feed(&s, dpc);
    (void)stages_feed(&s, isr);
    assert_int_equal(stages_feed(&s, fault)->info.id.pid, 8);
    play(&s, second, COUNT_OF(second));
    (void)stages_feed(&s, isr); /* uncertain: nobody's */
    assert_int_equal(stages_tally(&s, 8, COUNTERS_DPC), 1000);
    assert_int_equal(stages_tally(&s, 8, COUNTERS_ISR), 300);
    assert_int_equal(stages_tally(&s, 8, COUNTERS_SOFT_FAULTS), 1);
    assert_int_equal(stages_tally(&s, NOBODY, COUNTERS_DPC), 1000);
    assert_int_equal(stages_tally(&s, NOBODY, COUNTERS_ISR), 300);
    stages_free(&s);
}

static void an_instance_that_is_forgotten_while_it_has_a_cpu_gets_nothing(void **state)
{
    struct stages s = stages_new(0);
    static const struct step first[] = {{SWITCH, 10, 0, 0, 80, READY}};
    static const struct step second[] = {{SWITCH, 19, 0, 80, 0, WAITS}};

    stages_populate(&s);
    play(&s, first, COUNT_OF(first));
    (void)stages_feed(&s, feed_proc(EV_PROC_STOP, 12, 8, 0));
    instances_owner(s.table, 8)->row.final_done = true;
    instances_expire(s.table, 15 * CLK_MS);
    assert_null(instances_owner(s.table, 8));
    (void)stages_feed(&s, feed_proc(EV_PROC_START, 16, 16, 0)); /* takes the slot */
    play(&s, second, COUNT_OF(second));
    assert_int_equal(stages_tally(&s, 16, COUNTERS_RUN), 0);
    assert_int_equal(stages_tally(&s, NOBODY, COUNTERS_RUN), 9 * CLK_MS);
    stages_free(&s);
}

/* Threads that are unknown, that end and begin again as another's, CPUs beyond the limit, records
 * that a gap has eaten: what comes of them is the same. */
static void runs_are_what_their_events_are(void **state)
{
    static const uint32_t tids[] = {0, 0, 80, 84, 120, 120, 124, 128, 400};
    static const uint8_t states[] = {WAITS, WAITS, WAITS, READY, ENDED};
    struct stages one = stages_new(10 * CLK_S), other = stages_new(10 * CLK_S);
    const struct aggregate_stats *a, *b;
    uint32_t running[3] = {0};
    uint64_t random = 7;
    int64_t ms = 0;

    stages_populate(&one);
    stages_populate(&other);
    for (size_t round = 0; round < 3000; round++) {
        struct step steps[40];
        uint32_t n = draw(&random, COUNT_OF(steps));
        struct event ev = feed_thread(draw(&random, 2) ? EV_THREAD_START : EV_THREAD_STOP, ms,
                                      draw(&random, 2) ? 8 : 12, 120 + 4 * draw(&random, 3));

        for (uint32_t i = 0; i < n; i++) {
            uint32_t cpu = draw(&random, COUNT_OF(running)), what = draw(&random, 40);
            uint32_t tid = tids[draw(&random, COUNT_OF(tids))];

            ms += draw(&random, 3);
            steps[i] = (struct step){SWITCH,       ms,  (uint16_t)cpu,
                                     running[cpu], tid, states[draw(&random, COUNT_OF(states))]};
            steps[i].what = what == 0   ? LOST_HERE
                            : what == 1 ? LOST_EVERYWHERE
                            : what < 9  ? WAKE
                                        : SWITCH;
            steps[i].cpu = what == 9 ? SCHED_CPUS_MAX + 3 : steps[i].cpu;
            running[cpu] = what > 10 ? tid : running[cpu]; /* 10: nobody saw it */
        }
        play(&one, steps, n);
        play_runs(&other, steps, n, 1 + draw(&random, 16));
        (void)stages_feed(&one, ev);
        (void)stages_feed(&other, ev);
    }
    for (unsigned id = 0; id < COUNTERS_COUNT; id++) {
        assert_int_equal(stages_tally(&one, 8, id), stages_tally(&other, 8, id));
        assert_int_equal(stages_tally(&one, 12, id), stages_tally(&other, 12, id));
        assert_int_equal(stages_tally(&one, 0, id), stages_tally(&other, 0, id));
        assert_int_equal(stages_tally(&one, NOBODY, id), stages_tally(&other, NOBODY, id));
    }
    assert_true(stages_tally(&one, 8, COUNTERS_READY) && stages_tally(&one, 12, COUNTERS_WAIT));
    assert_true(stages_tally(&one, 8, COUNTERS_RUN) && stages_tally(&one, 8, COUNTERS_RUN_LOST));
    assert_true(stages_tally(&one, NOBODY, COUNTERS_RUN) != 0);
    a = aggregate_stats(one.agg);
    b = aggregate_stats(other.agg);
    assert_int_equal(a->events, b->events);
    assert_int_equal(a->charged, b->charged);
    assert_int_equal(a->sched.switches, b->sched.switches);
    assert_int_equal(a->sched.unowned, b->sched.unowned);
    assert_int_equal(a->sched.gaps, b->sched.gaps);
    assert_int_equal(a->sched.cpus_max, b->sched.cpus_max);
    assert_true(a->sched.gaps && a->sched.cpus_max && a->sched.unowned && b->sched.readied);
    stages_free(&one);
    stages_free(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_between_switches_of_a_cpu_belongs_to_the_thread_put_on),
        cmocka_unit_test(nothing_is_said_of_the_time_before_the_first_switch_and_after_the_last),
        cmocka_unit_test(an_unknown_threads_time_is_nobodys_and_not_the_next_owners),
        cmocka_unit_test(
            a_tid_reused_while_its_thread_still_runs_stays_with_the_process_that_had_it),
        cmocka_unit_test(a_thread_told_of_while_it_runs_gets_its_time),
        cmocka_unit_test(waits_end_when_the_thread_is_readied_and_readiness_when_it_is_put_on),
        cmocka_unit_test(a_loss_mark_makes_the_time_from_switch_to_switch_uncertain),
        cmocka_unit_test(a_loss_mark_for_all_cpus_ends_what_is_open_on_each),
        cmocka_unit_test(waits_under_way_at_a_loss_mark_are_not_counted),
        cmocka_unit_test(a_switch_that_takes_off_another_thread_than_was_put_on_loses_the_time),
        cmocka_unit_test(cpus_beyond_the_limit_are_counted),
        cmocka_unit_test(interrupts_and_records_without_ids_belong_to_who_has_the_cpu),
        cmocka_unit_test(an_instance_that_is_forgotten_while_it_has_a_cpu_gets_nothing),
        cmocka_unit_test(runs_are_what_their_events_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
