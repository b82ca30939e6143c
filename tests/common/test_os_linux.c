/* What os_thread_background asks of Linux, as Linux tells it. */
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/os/os.h"
#include "tests/support/t.h"

#define STEP 10
#define MOST 19

static int least(int a, int b)
{
    return a < b ? a : b;
}

struct seen {
    int first; /* a nice value that the thread takes before; 0: none */
    int once, twice, class;
};

static void step_back(void *arg)
{
    struct seen *s = arg;

    if (s->first) {
        assert_int_equal(setpriority(PRIO_PROCESS, 0, s->first), 0);
    }
    assert_ok(os_thread_background());
    s->once = getpriority(PRIO_PROCESS, 0);
    s->class = sched_getscheduler(0);
    assert_ok(os_thread_background());
    s->twice = getpriority(PRIO_PROCESS, 0);
}

static struct seen run(int first)
{
    struct seen s = {.first = first};
    struct os_thread *t;

    assert_ok(os_thread_start(&t, "step", step_back, &s));
    os_thread_join(t);
    return s;
}

static void nice_rises_by_ten_once_and_wakes_of_the_thread_interrupt_nobody(void **state)
{
    int own = getpriority(PRIO_PROCESS, (id_t)getpid());
    struct seen s = run(0);

    (void)state;
    assert_int_equal(s.once, least(own + STEP, MOST));
    assert_int_equal(s.twice, s.once);
    assert_int_equal(s.class, SCHED_BATCH);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), own); /* of this thread, and so the program's */
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
}

static void a_thread_that_stands_further_back_stays_there(void **state)
{
    struct seen s = run(MOST);

    (void)state;
    assert_int_equal(s.once, MOST);
    assert_int_equal(s.twice, MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nice_rises_by_ten_once_and_wakes_of_the_thread_interrupt_nobody),
        cmocka_unit_test(a_thread_that_stands_further_back_stays_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
