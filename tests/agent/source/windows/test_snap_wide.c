#include "tests/support/t.h"

#include "agent/source/windows/snap_wide.h"
#include "common/base/mem.h"

#define WRAP INT64_C(0x100000000)

static int64_t faults(struct snap_wide *w, uint32_t pid, uint64_t start, uint32_t value)
{
    struct snap_row row = {.info.id = {pid, start}};

    row.values[M_PAGE_FAULTS] = value;
    row.values[M_HARD_FAULTS] = value / 2;
    snap_wide_row(w, &row);
    assert_int_equal(row.values[M_HARD_FAULTS] % WRAP, value / 2);
    return row.values[M_PAGE_FAULTS];
}

static void a_counter_goes_on_where_32_bits_wrap(void **state)
{
    struct snap_wide *w;

    assert_ok(snap_wide_create(&w, 10));
    snap_wide_begin(w);
    assert_int_equal(faults(w, 1, 1, 0xfffffff0), 0xfffffff0);
    snap_wide_begin(w);
    assert_int_equal(faults(w, 1, 1, 0x10), WRAP + 0x10);
    snap_wide_begin(w);
    assert_int_equal(faults(w, 1, 1, 0x10), WRAP + 0x10);
    snap_wide_begin(w);
    assert_int_equal(faults(w, 1, 1, 0x0f), 2 * WRAP + 0x0f);
    snap_wide_destroy(w);
}

static void a_pid_used_again_begins_anew(void **state)
{
    struct snap_wide *w;

    assert_ok(snap_wide_create(&w, 10));
    snap_wide_begin(w);
    assert_int_equal(faults(w, 1, 1, 0xfffffff0), 0xfffffff0);
    snap_wide_begin(w);
    assert_int_equal(faults(w, 1, 2, 0x10), 0x10);
    snap_wide_begin(w); /* gone for one table */
    snap_wide_begin(w);
    assert_int_equal(faults(w, 1, 2, 0x05), 0x05);
    snap_wide_destroy(w);
}

/* 200 tables, each with the same pids given to other processes. */
static void a_storm_of_reused_pids_mixes_nothing_up(void **state)
{
    struct snap_wide *w;

    assert_ok(snap_wide_create(&w, 1000));
    for (uint64_t table = 0; table < 200; table++) {
        snap_wide_begin(w);
        for (uint32_t pid = 4; pid < 4000; pid += 4) {
            bool stays = pid % 8 == 0;
            uint32_t value = (uint32_t)(pid + table * 0x40000000u);

            assert_int_equal(faults(w, pid, stays ? 0 : table, value),
                             stays ? pid + (int64_t)table * 0x40000000 : value);
        }
    }
    snap_wide_destroy(w);
}

static void beyond_the_limit_values_stay_as_they_are(void **state)
{
    struct snap_wide *w;

    assert_ok(snap_wide_create(&w, 40));
    for (int table = 0; table < 2; table++) {
        snap_wide_begin(w);
        for (uint32_t pid = 0; pid < 60; pid++) {
            uint32_t value = table ? 1 : 2;
            bool known = table && pid < 40;

            assert_int_equal(faults(w, pid, 7, value), known ? WRAP + 1 : value);
        }
    }
    snap_wide_destroy(w);
}

static void creation_survives_any_failing_allocation(void **state)
{
    long live = mem_live();

    for (long n = 0;; n++) {
        struct snap_wide *w;
        enum err e;

        mem_fail_after(n);
        e = snap_wide_create(&w, 10);
        mem_fail_after(-1);
        if (e == ERR_OK) {
            assert_int_equal(n, 2);
            snap_wide_destroy(w);
            break;
        }
        assert_err(e, ERR_NOMEM);
    }
    assert_int_equal(mem_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_counter_goes_on_where_32_bits_wrap),
        cmocka_unit_test(a_pid_used_again_begins_anew),
        cmocka_unit_test(a_storm_of_reused_pids_mixes_nothing_up),
        cmocka_unit_test(beyond_the_limit_values_stay_as_they_are),
        cmocka_unit_test(creation_survives_any_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
