#include "agent/account/shed.h"

#include <string.h>

#include "tests/support/t.h"

#define LOOK_NS (CLK_S / 4)

struct rig {
    struct shed shed;
    int64_t now_ns;
    uint64_t counts[SOURCE_SHED_COUNT];
    struct shed_step step;
};

static struct rig rig_new(int64_t events_per_s)
{
    struct rig r = {.now_ns = 1000 * CLK_S};

    shed_init(&r.shed, events_per_s);
    assert_false(shed_look(&r.shed, r.now_ns, r.counts, &r.step));
    return r;
}

/* Looks until something changes or so much time has gone; ns that went. */
static int64_t run(struct rig *r, int64_t for_ns, enum source_shed group, uint64_t per_s)
{
    int64_t begun_ns = r->now_ns;

    while (r->now_ns - begun_ns < for_ns) {
        r->now_ns += LOOK_NS;
        r->counts[group] += per_s / 4;
        if (shed_look(&r->shed, r->now_ns, r->counts, &r->step)) {
            return r->now_ns - begun_ns;
        }
    }
    return for_ns;
}

static void a_group_above_half_of_the_budget_for_five_seconds_is_left_out(void **state)
{
    struct rig r = rig_new(10000);

    assert_int_equal(run(&r, 60 * CLK_S, SOURCE_SHED_NETWORK, 5000), 60 * CLK_S);
    assert_int_equal(r.shed.excused, 0);
    assert_int_equal(run(&r, 4 * CLK_S, SOURCE_SHED_NETWORK, 6000), 4 * CLK_S);
    assert_int_equal(run(&r, CLK_S, SOURCE_SHED_NETWORK, 100), CLK_S); /* a quiet second */
    assert_int_equal(run(&r, 60 * CLK_S, SOURCE_SHED_NETWORK, 6000), SHED_AFTER_NS);
    assert_true(r.step.off && r.step.group == SOURCE_SHED_NETWORK);
    assert_int_equal(r.step.per_s, 6000);
    assert_int_equal(r.shed.off, 1u << SOURCE_SHED_NETWORK);
    assert_int_equal(r.shed.excused, 9 * 6000); /* no reason to give up a level */
}

static void after_ten_minutes_it_is_collected_again(void **state)
{
    struct rig r = rig_new(10000);

    (void)run(&r, 60 * CLK_S, SOURCE_SHED_CLR, 9000);
    assert_true(r.step.off);
    assert_int_equal(run(&r, 2 * SHED_FOR_NS, SOURCE_SHED_CLR, 0), SHED_FOR_NS);
    assert_false(r.step.off);
    assert_int_equal(r.shed.off, 0);
    assert_int_equal(run(&r, 60 * CLK_S, SOURCE_SHED_CLR, 9000), SHED_AFTER_NS);
}

static void several_groups_change_one_by_one(void **state)
{
    struct rig r = rig_new(1000);
    struct shed_step other;

    for (int i = 0; i < 21; i++) {
        r.now_ns += LOOK_NS;
        r.counts[SOURCE_SHED_FILE] += 200;
        r.counts[SOURCE_SHED_REGISTRY] += 200;
        if (shed_look(&r.shed, r.now_ns, r.counts, &r.step)) {
            assert_true(shed_look(&r.shed, r.now_ns, r.counts, &other));
            assert_int_equal(r.step.group, SOURCE_SHED_FILE);
            assert_int_equal(other.group, SOURCE_SHED_REGISTRY);
            assert_int_equal(other.per_s, r.step.per_s);
            assert_int_equal(other.limit, r.step.limit);
            assert_false(shed_look(&r.shed, r.now_ns, r.counts, &other));
            return;
        }
    }
    fail_msg("nothing was left out");
}

static void without_a_budget_nothing_is_left_out(void **state)
{
    struct rig r = rig_new(0);

    assert_int_equal(run(&r, 60 * CLK_S, SOURCE_SHED_FILE, 1000000), 60 * CLK_S);
}

static void a_step_is_told_as_a_sentence(void **state)
{
    char text[SHED_TEXT];

    shed_text(text, &(struct shed_step){
                        .group = SOURCE_SHED_NETWORK, .off = true, .per_s = 6000, .limit = 5000});
    assert_non_null(strstr(text, "network events came 6000 times a second"));
    shed_text(text, &(struct shed_step){.group = SOURCE_SHED_CLR});
    assert_string_equal(text, ".NET events are collected again");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_above_half_of_the_budget_for_five_seconds_is_left_out),
        cmocka_unit_test(after_ten_minutes_it_is_collected_again),
        cmocka_unit_test(several_groups_change_one_by_one),
        cmocka_unit_test(without_a_budget_nothing_is_left_out),
        cmocka_unit_test(a_step_is_told_as_a_sentence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
