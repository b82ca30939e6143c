#include "collector/cli/rows.h"

static const struct opt opts[] = {
    CLI_OPT_HOST,
    CLI_OPTS_PROCESS,
    {"all", 'a', NULL, "also processes that ended inside the time range", 0},
    CLI_OPTS_RANGE,
    {"idle", 0, NULL, "show the idle process (pid 0) too", 0},
    {"limit", 'n', "N", "processes shown (all)", 0},
    CLI_OPTS_CONNECTION,
};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "ps",
    .brief = "the processes of the hosts with their newest figures",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet ps --host lab-7\n"
        "  procfleet ps --name 'python*' --format json\n"
        "  procfleet ps --host lab-7 --all --since 1h\n"
        "\n"
        "Counters are totals since the process began; JSON and CSV carry every metric the host "
        "supplies.\n",
};

static const uint8_t shown[] = {M_THREAD_COUNT, M_CPU_TIME, M_WORKING_SET_SIZE};

static int ps_body(struct cli *c)
{
    struct fields f = {0};
    struct wire_query q;
    struct errmsg why = {""};

    if (cli_query(c, &q, 100000, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    q.idle = opt_flag(c->args, "idle");
    q.exited = opt_flag(c->args, "all");
    fields_add(&f, FIELD_HOST, true);
    fields_add(&f, FIELD_PID, true);
    fields_add(&f, FIELD_PARENT_PID, true);
    fields_add(&f, FIELD_USER, true);
    fields_add(&f, FIELD_CREATE_TIME, true);
    for (size_t i = 0; i < sizeof shown; i++) {
        fields_add_metric(&f, shown[i], true);
    }
    if (q.exited) {
        fields_add(&f, FIELD_EXIT_CODE, true);
    }
    fields_add(&f, FIELD_NAME, true);
    fields_add(&f, FIELD_COMMAND_LINE, true);
    for (const struct metric *m = metric_next(NULL); m; m = metric_next(m)) {
        if (m->column || m->id == M_CPU_PERCENT) {
            fields_add_metric(&f, m->id, false);
            if (q.n_metrics < WIRE_METRICS_MAX) {
                q.metrics[q.n_metrics++] = m->id;
            }
        }
    }
    fields_add(&f, FIELD_TIME, false);
    rows_add_details(&f);
    return rows_ask(c, RPC_QUERY_PROCESSES, &q, &f, false, "no such processes", NULL);
}

const struct cli_command cmd_ps = {&usage, ps_body, CLI_NEEDS_COLLECTOR, NULL};
