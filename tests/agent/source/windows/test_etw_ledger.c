#include "agent/source/windows/etw_ledger.h"

#include "common/model/ledger.h"
#include "tests/support/t.h"

static uint64_t count_of(const struct ledger_row *rows, size_t n, const char *reason)
{
    for (size_t i = 0; i < n; i++) {
        if (str_eq(rows[i].reason, str_make(reason))) {
            return rows[i].count;
        }
    }
    fail_msg("no row %s", reason);
    return 0;
}

static void every_counter_is_a_row_of_its_own_and_none_a_second_loss(void **state)
{
    struct etw_live_stats v = {.lost_events = 1,
                               .sessions_lost = 2,
                               .late = 3,
                               .ctl = {.orphan_reclaimed = 4},
                               .dropped_of = {[RING_THREAD] = 5}};
    struct ledger_row rows[SOURCE_LEDGER_ROWS + 1];
    size_t n = etw_ledger(&v, rows, COUNT_OF(rows));

    assert_true(n <= SOURCE_LEDGER_ROWS);
    assert_int_equal(count_of(rows, n, "kernel_events"), 1);
    assert_int_equal(count_of(rows, n, "session_lost"), 2);
    assert_int_equal(count_of(rows, n, "late"), 3);
    assert_int_equal(count_of(rows, n, "orphan_reclaimed"), 4);
    assert_int_equal(count_of(rows, n, "full_thread"), 5);
    for (size_t i = 0; i < n; i++) {
        /* The others explain what the source's rows tell. */
        assert_int_equal(ledger_is_loss(&rows[i]),
                         str_eq(rows[i].reason, str_make("session_lost")));
        for (size_t k = 0; k < i; k++) {
            assert_false(str_eq(rows[i].reason, rows[k].reason));
        }
    }
    assert_int_equal(etw_ledger(&v, rows, 3), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_counter_is_a_row_of_its_own_and_none_a_second_loss),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
