#include "tests/support/t.h"

#include <string.h>

#include "agent/cmd/wire_text.h"
#include "common/base/clk.h"

#define T0 (1700000000LL * CLK_S)

static const int64_t wall_ns[] = {T0, T0 + CLK_S, T0 + 2 * CLK_S};
static const int64_t mono_ns[] = {1, 2, 3};

/* Two processes; the first changes its columns at the third tick. */
static const struct batch_run runs[] = {
    {{8, 10}, 0, 2, true, METRIC_BIT(M_CPU_TIME) | METRIC_BIT(M_THREAD_COUNT)},
    {{8, 10}, 2, 1, false, METRIC_BIT(M_CPU_TIME)},
    {{12, 20}, 1, 2, false, METRIC_BIT(M_THREAD_COUNT)},
};
static const int64_t cpu_time[] = {100, 200, 300};
static const int64_t threads[] = {1, 2, 7, 8};
static const struct batch_column columns[] = {{M_CPU_TIME, 3, cpu_time},
                                              {M_THREAD_COUNT, 4, threads}};

static void print(char *out, size_t size, bool json)
{
    static const struct ledger_row ledger[] = {{{"filter", 6}, {"filtered", 8}, 5}};
    struct proc_info info = {.id = {8, 10},
                             .have = INFO_COMMAND_LINE_KNOWN | INFO_PARENT | INFO_EXITED |
                                     INFO_EXIT_CODE,
                             .origin = ORIGIN_START,
                             .parent_pid = 4,
                             .exit_code = 3,
                             .name = str_make("a.exe"),
                             .command_line = str_make("a \"b\"\x1b[2J")};
    struct life_event events[] = {
        {.kind = LIFE_THREAD_START, .wall_ns = T0, .tid = 80, .info = {.id = {8, 10}}},
        {.kind = LIFE_LEVEL, .wall_ns = T0, .text = str_make("from L1 to L0")},
    };
    struct batch b = {.head = {.seq = 7,
                               .flags = BATCH_POLLED | BATCH_LAST,
                               .cpus = 2,
                               .source = str_make("proc")},
                      .n_ticks = 3,
                      .wall_ns = wall_ns,
                      .mono_ns = mono_ns,
                      .n_runs = COUNT_OF(runs),
                      .runs = runs,
                      .n_columns = COUNT_OF(columns),
                      .columns = columns,
                      .n_infos = 1,
                      .infos = &info,
                      .n_events = COUNT_OF(events),
                      .events = events,
                      .n_ledger = 1,
                      .ledger = ledger};
    struct wire_text w = {.to = tmpfile(), .json = json};
    size_t n;

    assert_non_null(w.to);
    wire_text_batch(&w, &b, 321);
    rewind(w.to);
    n = fread(out, 1, size - 1, w.to);
    out[n] = '\0';
    assert_int_equal(fclose(w.to), 0);
    assert_int_equal(w.sums.batches, 1);
    assert_int_equal(w.sums.bytes, 321);
    assert_int_equal(w.sums.ticks, 3);
    assert_int_equal(w.sums.processes, 1);
    assert_int_equal(w.sums.samples, 5);
    assert_int_equal(w.sums.values, 7);
    assert_int_equal(w.sums.events, 2);
}

static void every_value_stands_in_a_line_of_its_process_and_tick(void **state)
{
    char out[4096];

    print(out, sizeof out, false);
    assert_string_equal(
        out,
        "batch seq=7 bytes=321 source=\"proc\" boot=\"00000000-0000-0000-0000-000000000000\" "
        "cpus=2 polled last ticks=3 first=2023-11-14T22:13:20.000Z "
        "last_tick=2023-11-14T22:13:22.000Z\n"
        "process pid=8 start=10 name=\"a.exe\" command_line=\"a \\\"b\\\"\\u001b[2J\" "
        "parent_pid=4 parent_start=0 exit_code=3 exited origin=\"start\"\n"
        "sample time=2023-11-14T22:13:20.000Z pid=8 start=10 fresh cpu_time=100 thread_count=1\n"
        "sample time=2023-11-14T22:13:21.000Z pid=8 start=10 cpu_time=200 thread_count=2\n"
        "sample time=2023-11-14T22:13:22.000Z pid=8 start=10 cpu_time=300\n"
        "sample time=2023-11-14T22:13:21.000Z pid=12 start=20 thread_count=7\n"
        "sample time=2023-11-14T22:13:22.000Z pid=12 start=20 thread_count=8\n"
        "event kind=\"thread_start\" time=2023-11-14T22:13:20.000Z tid=80 pid=8 start=10\n"
        "event kind=\"level\" time=2023-11-14T22:13:20.000Z text=\"from L1 to L0\"\n"
        "ledger stage=\"filter\" reason=\"filtered\" count=5\n");
}

static void programs_get_the_same_as_json(void **state)
{
    char out[4096];

    print(out, sizeof out, true);
    assert_non_null(strstr(out, "{\"type\": \"batch\", \"seq\": 7, \"bytes\": 321, "));
    assert_non_null(strstr(out, "\"command_line\": \"a \\\"b\\\"\\u001b[2J\""));
    assert_non_null(strstr(out,
                           "{\"type\": \"sample\", \"time\": \"1700000000000000000\", \"pid\": 8, "
                           "\"start\": \"10\", \"fresh\": true, \"cpu_time\": \"100\", "
                           "\"thread_count\": 1}\n"));
    assert_non_null(strstr(out, "{\"type\": \"ledger\", \"stage\": \"filter\", \"reason\": "
                                "\"filtered\", \"count\": 5}\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_stands_in_a_line_of_its_process_and_tick),
        cmocka_unit_test(programs_get_the_same_as_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
