#include "common/lab/outlier.h"

#include <math.h>

#include "tests/support/t.h"

#define FLEET 200u

static uint64_t seed;

static double random_unit(void)
{
    seed += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = seed;

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return ((double)((z ^ z >> 31) >> 11) + 0.5) * 0x1p-53;
}

static double random_normal(void)
{
    return sqrt(-2 * log(random_unit())) * cos(6.283185307179586 * random_unit());
}

/* Hosts that differ by 14 %, and their parts by 20 % more. */
static void fleet(struct outlier *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double own = 1000 * exp(0.14 * random_normal());

        list[i].value = 0;
        for (size_t p = 0; p < OUTLIER_PARTS; p++) {
            list[i].parts[p] = own * exp(0.2 * random_normal());
            list[i].value += list[i].parts[p];
        }
    }
}

static void host_times(struct outlier *o, double by)
{
    o->value *= by;
    for (size_t p = 0; p < OUTLIER_PARTS; p++) {
        o->parts[p] *= by;
    }
}

static size_t judge(struct outlier_class *c, struct outlier *list, size_t n)
{
    static double room[2 * FLEET];
    size_t found = 0;

    outlier_judge(c, list, n, n, room);
    for (size_t i = 0; i < n; i++) {
        found += list[i].is_one;
    }
    return found;
}

static void one_bad_host_of_200_is_found_and_of_equal_ones_none(void **state)
{
    static struct outlier list[FLEET];
    struct outlier_class c;
    unsigned false_ones = 0;

    for (uint64_t s = 1; s <= 20; s++) {
        seed = s;
        fleet(list, FLEET);
        false_ones += judge(&c, list, FLEET) > 0;
        assert_true(c.judged);
        assert_true(fabs(c.median - 6000) < 300);
        assert_true(c.spread > 0.1 && c.spread < 0.25);
        host_times(&list[s], s % 2 ? 3.0 : 1 / 3.0);
        (void)judge(&c, list, FLEET);
        assert_true(list[s].is_one);
        assert_true(s % 2 ? list[s].z > 4 && list[s].times > 1.5
                          : list[s].z < -4 && list[s].times < 1 / 1.5);
        assert_true(list[s].parts_out >= OUTLIER_PARTS_OUT);
    }
    assert_true(false_ones <= 1);
}

static void a_single_peak_is_none(void **state)
{
    static struct outlier list[50];
    struct outlier_class c;

    seed = 7;
    fleet(list, 50);
    list[3].value += 30000; /* all of it in two parts */
    list[3].parts[1] += 15000;
    list[3].parts[2] += 15000;
    assert_int_equal(judge(&c, list, 50), 0);
    assert_true(list[3].times > 3);
    assert_int_equal(list[3].parts_out, 2);
}

static void few_hosts_and_idle_ones_are_not_judged(void **state)
{
    static struct outlier list[OUTLIER_HOSTS_MIN];
    struct outlier_class c;

    seed = 3;
    fleet(list, OUTLIER_HOSTS_MIN);
    host_times(&list[0], 50);
    assert_int_equal(judge(&c, list, OUTLIER_HOSTS_MIN), 1);
    assert_int_equal(judge(&c, list, OUTLIER_HOSTS_MIN - 1), 0);
    assert_false(c.judged);
    assert_int_equal(judge(&c, list, 0), 0);
    for (size_t i = 1; i < OUTLIER_HOSTS_MIN; i++) {
        host_times(&list[i], 0);
    }
    assert_int_equal(judge(&c, list, OUTLIER_HOSTS_MIN), 0); /* the median is nothing */
    assert_false(c.judged);
}

static void a_host_that_does_nothing_is_one(void **state)
{
    static struct outlier list[20];
    struct outlier_class c;

    seed = 5;
    fleet(list, 20);
    host_times(&list[4], 0);
    assert_int_equal(judge(&c, list, 20), 1);
    assert_true(list[4].is_one && list[4].times < 0.01);
}

static void equal_hosts_have_a_spread_all_the_same(void **state)
{
    static struct outlier list[20];
    struct outlier_class c;

    for (size_t i = 0; i < 20; i++) {
        list[i] = (struct outlier){6, {1, 1, 1, 1, 1, 1}, 0, 0, 0, false};
    }
    host_times(&list[0], 1.1); /* many spreads of nothing, but no difference that matters */
    assert_int_equal(judge(&c, list, 20), 0);
    assert_true(fabs(c.spread - OUTLIER_SPREAD) < 1e-9);
    host_times(&list[0], 2);
    assert_int_equal(judge(&c, list, 20), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_bad_host_of_200_is_found_and_of_equal_ones_none),
        cmocka_unit_test(a_single_peak_is_none),
        cmocka_unit_test(few_hosts_and_idle_ones_are_not_judged),
        cmocka_unit_test(a_host_that_does_nothing_is_one),
        cmocka_unit_test(equal_hosts_have_a_spread_all_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
