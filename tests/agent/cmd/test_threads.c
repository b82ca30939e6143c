#include "tests/support/t.h"

#include <stdatomic.h>

#include "agent/cmd/threads.h"
#include "common/os/os.h"

static atomic_bool burning, over;

static void burn(void *arg)
{
    (void)arg;
    atomic_store(&burning, true);
    while (!atomic_load(&over)) {
    }
}

static void our_own_threads_are_listed_once_with_their_time(void **state)
{
    static struct thread_use before[64], after[64];
    struct os_thread *thread;
    int64_t used_ns = 0;
    size_t n, n_after;
    bool cut;

    assert_ok(threads_read(before, COUNT_OF(before), os_listed_id(), &n, &cut));
    assert_false(cut);
    assert_true(n >= 1);
    atomic_store(&over, false);
    assert_ok(os_thread_start(&thread, "burner", burn, NULL));
    do { /* until the new one has been seen to run */
        assert_ok(threads_read(after, COUNT_OF(after), os_listed_id(), &n_after, &cut));
        for (size_t i = 0; i < n_after; i++) {
            bool old = false;

            for (size_t k = 0; k < n; k++) {
                old = old || before[k].tid == after[i].tid;
            }
            used_ns = old || !after[i].has_cpu ? used_ns : after[i].cpu_ns;
        }
    } while (used_ns < 20000000);
    for (size_t i = 1; i < n_after; i++) {
        assert_true(after[i - 1].tid < after[i].tid);
    }
    assert_ok(threads_read(after, 1, os_listed_id(), &n_after, &cut));
    assert_int_equal(n_after, 1);
    assert_true(cut);
    atomic_store(&over, true);
    os_thread_join(thread);
}

static void a_process_that_is_not_there_has_none(void **state)
{
    struct thread_use one;
    size_t n = 7;
    bool cut;

    assert_err(threads_read(&one, 1, 0x7ffffff3, &n, &cut), ERR_NOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_own_threads_are_listed_once_with_their_time),
        cmocka_unit_test(a_process_that_is_not_there_has_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
