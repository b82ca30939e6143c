#include "collector/ca/rate_limit.h"

#include <stdio.h>

#include "common/base/clk.h"
#include "tests/support/t.h"

#define NOW (1000 * CLK_S)

static struct rate_limit t;

static int setup(void **state)
{
    assert_ok(
        rate_limit_init(&t, (struct rate_limit_rate){50, 100}, (struct rate_limit_rate){10, 40}));
    return 0;
}

/* How many of n at once get through. */
static unsigned through(const char *address, unsigned n, int64_t now_ns)
{
    unsigned ok = 0;

    for (unsigned i = 0; i < n; i++) {
        ok += rate_limit_take(&t, address, now_ns) == 0;
    }
    return ok;
}

static void an_address_has_its_burst_and_then_its_rate(void **state)
{
    int64_t wait;

    assert_int_equal(through("192.0.2.1:5000", 90, NOW), 40);
    wait = rate_limit_take(&t, "192.0.2.1:5000", NOW);
    assert_int_equal(wait, CLK_S / 10);
    assert_int_equal(rate_limit_take(&t, "192.0.2.1:5000", NOW + wait), 0);
    assert_int_equal(through("192.0.2.1:5000", 90, NOW + wait + CLK_S), 10);
    assert_int_equal(through("192.0.2.1:5000", 90, NOW + 1000 * CLK_S), 40);
}

static void the_port_is_no_address(void **state)
{
    assert_int_equal(through("192.0.2.1:5000", 90, NOW), 40);
    assert_int_equal(through("192.0.2.1:5001", 90, NOW), 0);
    assert_int_equal(through("[2001:db8:0:0:0:0:0:1]:1", 40, NOW), 40);
    assert_int_equal(through("[2001:db8:0:0:0:0:0:1]:2", 40, NOW), 0);
}

/* Whoever has one address of a /64 has them all. */
static void a_network_of_version_6_is_one_address(void **state)
{
    assert_int_equal(through("[2001:db8:1:2:3:4:5:6]:1", 90, NOW), 40);
    assert_int_equal(through("[2001:db8:1:2:9:9:9:9]:1", 90, NOW), 0);
    assert_int_equal(through("[2001:db8:1:20:3:4:5:6]:1", 90, NOW), 40);
}

static void all_together_have_a_burst_and_a_rate(void **state)
{
    unsigned ok = 0;

    for (unsigned i = 0; i < 1000; i++) {
        char address[32];

        snprintf(address, sizeof address, "192.0.%u.%u:1", i / 250, i % 250);
        ok += rate_limit_take(&t, address, NOW) == 0;
    }
    assert_int_equal(ok, 100);
    assert_true(rate_limit_take(&t, "198.51.100.1:1", NOW) > 0);
    assert_int_equal(rate_limit_take(&t, "198.51.100.1:1", NOW + CLK_S / 50), 0);
}

/* Who has to wait is not made to wait longer by asking. */
static void asking_in_vain_costs_nothing(void **state)
{
    assert_int_equal(through("192.0.2.1:1", 10000, NOW), 40);
    assert_int_equal(rate_limit_take(&t, "192.0.2.1:1", NOW + CLK_S / 10), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_address_has_its_burst_and_then_its_rate, setup),
        cmocka_unit_test_setup(the_port_is_no_address, setup),
        cmocka_unit_test_setup(a_network_of_version_6_is_one_address, setup),
        cmocka_unit_test_setup(all_together_have_a_burst_and_a_rate, setup),
        cmocka_unit_test_setup(asking_in_vain_costs_nothing, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
