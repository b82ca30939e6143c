#include "common/model/metric.h"

#include <string.h>

#include "tests/support/t.h"

static void ids_are_unique_and_columns_fit_the_mask(void **state)
{
    for (const struct metric *m = metric_next(NULL); m; m = metric_next(m)) {
        assert_ptr_equal(metric_by_id(m->id), m);
        assert_ptr_equal(metric_by_name(m->name), m);
        assert_true(!m->column || m->id < METRIC_COLS);
        assert_true(m->help[0] != '\0');
    }
    assert_null(metric_by_id(0));
    assert_null(metric_by_name("cpu"));
}

static void names_that_code_uses_have_their_ids(void **state)
{
    static const struct {
        const char *name;
        unsigned id;
    } table[] = {
        {"cpu_time", M_CPU_TIME},
        {"cpu_percent", M_CPU_PERCENT},
        {"context_switches", M_CONTEXT_SWITCHES},
        {"working_set_size", M_WORKING_SET_SIZE},
        {"peak_working_set", M_PEAK_WORKING_SET},
        {"thread_count", M_THREAD_COUNT},
        {"write_bytes", M_WRITE_BYTES},
        {"peak_handle_count", M_PEAK_HANDLE_COUNT},
        {"thread_states.idle", M_THREADS_IDLE},
        {"disk_write_bytes", M_DISK_WRITE_BYTES},
        {"agent.level", M_AGENT_LEVEL},
        {"agent.bytes_sent", M_AGENT_BYTES_SENT},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        assert_string_equal(metric_by_id(table[i].id)->name, table[i].name);
    }
}

static void the_forty_metrics_of_the_contract_come_first(void **state)
{
    unsigned n = 0;

    for (unsigned id = 1; id <= 40; id++) {
        n += metric_by_id(id) != NULL;
    }
    assert_int_equal(n, 40);
}

static void a_wrong_name_finds_the_likeliest(void **state)
{
    assert_string_equal(metric_closest("cpu_tme"), "cpu_time");
    assert_string_equal(metric_closest("write_byte"), "write_bytes");
    assert_null(metric_closest("something_else_entirely"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_unique_and_columns_fit_the_mask),
        cmocka_unit_test(names_that_code_uses_have_their_ids),
        cmocka_unit_test(the_forty_metrics_of_the_contract_come_first),
        cmocka_unit_test(a_wrong_name_finds_the_likeliest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
