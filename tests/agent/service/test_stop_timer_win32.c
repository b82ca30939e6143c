/* A stop that ends at the moment it is hurried: what the hurry calls must be over with the stop. */
#include "tests/support/t.h"

#include "agent/service/stop_timer_win32.h"
#include "common/base/clk.h"
#include "common/os/os.h"

struct call {
    volatile LONG begun, ended;
};

static void slow(void *ctx)
{
    struct call *c = ctx;

    InterlockedIncrement(&c->begun);
    os_sleep_ns(150 * CLK_MS);
    InterlockedIncrement(&c->ended);
}

static void the_end_waits_for_a_call_that_runs(void **state)
{
    struct call c = {0, 0};
    struct stop_timer t = STOP_TIMER(slow, &c);

    stop_timer_start(&t, 1);
    for (int i = 0; i < 500 && !c.begun; i++) {
        os_sleep_ns(2 * CLK_MS);
    }
    assert_int_equal(c.begun, 1);
    assert_int_equal(c.ended, 0);
    stop_timer_end(&t);
    assert_int_equal(c.ended, 1);
}

static void after_the_end_nothing_is_called(void **state)
{
    struct call c = {0, 0};
    struct stop_timer early = STOP_TIMER(slow, &c), late = STOP_TIMER(slow, &c);

    stop_timer_start(&early, 60);
    stop_timer_end(&early);
    stop_timer_end(&late); /* the program ended by itself, and then it is told to stop */
    stop_timer_start(&late, 1);
    os_sleep_ns(120 * CLK_MS);
    assert_int_equal(c.begun, 0);
}

static void a_second_start_changes_nothing(void **state)
{
    struct call c = {0, 0};
    struct stop_timer t = STOP_TIMER(slow, &c);

    stop_timer_start(&t, 1);
    stop_timer_start(&t, 1);
    os_sleep_ns(100 * CLK_MS);
    stop_timer_end(&t);
    assert_int_equal(c.ended, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_waits_for_a_call_that_runs),
        cmocka_unit_test(after_the_end_nothing_is_called),
        cmocka_unit_test(a_second_start_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
