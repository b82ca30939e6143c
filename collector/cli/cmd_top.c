#include "collector/cli/rows.h"

static const struct opt opts[] = {
    {"by", 'b', "METRIC", "order by this metric (cpu_time)", 0},
    {"limit", 'n', "N", "processes shown (10)", 0},
    CLI_OPT_HOST,
    CLI_OPTS_RANGE,
    CLI_OPTS_PROCESS,
    {"idle", 0, NULL, "show the idle process (pid 0) too", 0},
    CLI_OPTS_CONNECTION,
};

const struct opt_command cmd_top_usage = {
    .program = "procfleet",
    .name = "top",
    .brief = "the processes that used most of a metric, ended ones included",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet top\n"
                "  procfleet top --by working_set_size -n 20 --host 'lab-*'\n"
                "  procfleet top --by write_bytes --since 1h --format json\n"
                "\n"
                "Without a time range it is the last 15 minutes of each host's data. Counters show "
                "what was "
                "used in the range,\n"
                "gauges their last value. Metrics: cpu_time cpu_percent kernel_time user_time "
                "context_switches "
                "working_set_size\n"
                "private_bytes virtual_bytes page_faults hard_faults peak_working_set thread_count "
                "read_bytes "
                "write_bytes\n"
                "read_operations write_operations disk_read_bytes disk_write_bytes handle_count "
                "and more, see "
                "docs/cli.md.\n",
};

static const uint8_t shown[] = {M_CPU_TIME,     M_CPU_PERCENT, M_WORKING_SET_SIZE,
                                M_THREAD_COUNT, M_READ_BYTES,  M_WRITE_BYTES};
static const uint8_t carried[] = {M_KERNEL_TIME,      M_USER_TIME,        M_CONTEXT_SWITCHES,
                                  M_PRIVATE_BYTES,    M_PEAK_WORKING_SET, M_PAGE_FAULTS,
                                  M_HARD_FAULTS,      M_HANDLE_COUNT,     M_READ_OPERATIONS,
                                  M_WRITE_OPERATIONS, M_DISK_READ_BYTES,  M_DISK_WRITE_BYTES};

static void want(struct wire_query *q, struct fields *f, uint8_t id, bool in_table)
{
    if (!fields_has_metric(f, id)) {
        fields_add_metric(f, id, in_table);
        q->metrics[q->n_metrics++] = id;
    }
}

static int body(struct cli *c)
{
    const char *by = opt_value(c->args, "by");
    struct fields f = {0};
    struct wire_query q;
    struct errmsg why = {""};
    uint8_t first;

    if (cli_query(c, &q, 10, &why) != ERR_OK ||
        cli_metric(&first, by ? by : "cpu_time", &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    q.idle = opt_flag(c->args, "idle");
    fields_add(&f, FIELD_HOST, true);
    fields_add(&f, FIELD_PID, true);
    fields_add(&f, FIELD_NAME, true);
    want(&q, &f, first, true);
    for (size_t i = 0; i < sizeof shown; i++) {
        want(&q, &f, shown[i], true);
    }
    for (size_t i = 0; i < sizeof carried; i++) {
        want(&q, &f, carried[i], false);
    }
    fields_add(&f, FIELD_CPU_TIME_ORIGIN, true);
    fields_add(&f, FIELD_EXIT_CODE, true);
    fields_add(&f, FIELD_USER, true);
    rows_add_details(&f);
    return rows_ask(c, RPC_QUERY_TOP, &q, &f, false,
                    "no process has this metric in this range; 'procfleet ps' shows what there is");
}

int cmd_top(int argc, char **argv)
{
    return cli_main(&cmd_top_usage, argc, argv, body);
}
