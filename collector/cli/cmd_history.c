#include <string.h>

#include "collector/cli/plot/history_plot.h"
#include "collector/cli/rows.h"
#include "collector/cli/series.h"
#include "collector/cli/term/term.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "common/wire/wire_series.h"

static const struct opt opts[] = {
    {"metric", 'm', "METRIC,...",
     "metrics to show; may be repeated (cpu_time, cpu_percent, working_set_size, thread_count)", 1},
    CLI_OPTS_PROCESS,
    CLI_OPT_HOST,
    CLI_OPT_LABEL,
    CLI_OPT_WHERE,
    CLI_OPTS_RANGE,
    {"step", 0, "SPAN", "one row per process and step (every sample)", 0},
    {"group-by", 'g', "process|image|user|host|fleet",
     "instead of samples a series of buckets for each of those that used most", 0},
    {"buckets", 0, "N", "with --group-by: how many buckets at most (60)", 0},
    {"folded", 0, NULL, "also images' sums where only those are left of short lives", 0},
    {"plot", 0, "braille|spark|none",
     "plots of the whole range instead of the table, of at most 16 processes (below the table on a "
     "terminal, of one process)",
     0},
    {"limit", 'n', "N", "newest rows shown (1000); with --group-by groups (10)", 0},
    CLI_OPTS_ANSWER,
    CLI_OPTS_CONNECTION,
};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "history",
    .brief = "how metrics of processes went over time",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .sets = fields_sets,
    .examples = "  procfleet history --host lab-7 --pid 4711\n"
                "  procfleet history --name 'chrome*' -m working_set_size --since 1h --step 1m\n"
                "  procfleet history --host lab-7 --pid 4711 --since 2h --plot braille\n"
                "  procfleet history --pid 4711 -m read_bytes,write_bytes --format csv\n"
                "  procfleet history --group-by image --since 1h\n"
                "  procfleet history --group-by fleet -m cpu_percent --buckets 300 --format csv\n"
                "\n"
                "Counters show their growth since the row before of the same process, gauges their "
                "value.\n"
                "\n" CLI_ABSENT,
};

static enum err read_step(struct cli *c, struct wire_query *q, struct errmsg *why)
{
    const char *step = opt_value(c->args, "step");

    if (step && (clk_parse_span(&q->step_ns, step) != ERR_OK || q->step_ns <= 0)) {
        return errmsg_set(why, ERR_USAGE, "--step: '%s' is not a time such as 10s or 1m", step);
    }
    return ERR_OK;
}

/* Those of a list with commas, each once. */
static enum err add_metrics(const char *list, struct wire_query *q, struct fields *f,
                            struct errmsg *why)
{
    for (size_t n; *list; list += n + (list[n] == ',')) {
        char name[64];
        uint8_t id;
        enum err e;

        n = strcspn(list, ",");
        (void)snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1),
                       list);
        e = field_metric(&id, name, why);
        if (e) {
            return e;
        }
        if (!fields_has_metric(f, id) && q->n_metrics == WIRE_METRICS_MAX) {
            return errmsg_set(why, ERR_USAGE, "--metric: at most %u", WIRE_METRICS_MAX);
        }
        if (!fields_has_metric(f, id)) {
            fields_add_metric(f, id, true);
            q->metrics[q->n_metrics++] = id;
        }
    }
    return ERR_OK;
}

static enum err read_metrics(struct cli *c, struct wire_query *q, struct fields *f,
                             struct errmsg *why)
{
    static const char *const defaults[] = {"cpu_time", "cpu_percent", "working_set_size",
                                           "thread_count"};
    const char *given[WIRE_METRICS_MAX];
    size_t n = opt_values(c->args, "metric", given, WIRE_METRICS_MAX);

    if (n == 0) {
        n = sizeof defaults / sizeof *defaults;
        memcpy(given, defaults, sizeof defaults);
    }
    for (size_t i = 0; i < n; i++) {
        enum err e = add_metrics(given[i], q, f, why);

        if (e) {
            return e;
        }
    }
    return ERR_OK;
}

/* -- plots -- */

static enum err read_plot(struct cli *c, uint8_t *how, struct errmsg *why)
{
    bool table = c->format == TABLE_AS_TABLE;
    uint8_t def = table && os_is_terminal(1) ? HISTORY_PLOT_MAYBE : HISTORY_PLOT_NONE;

    *how = cli_word(c, "plot", def); /* in the order of enum history_plot_how */
    if (!table && *how != HISTORY_PLOT_NONE) {
        return errmsg_set(why, ERR_USAGE, "--plot is for people; leave it or --format away");
    }
    return ERR_OK;
}

static enum err print_plots(void *ctx)
{
    unsigned columns = os_terminal_columns();

    return history_plot_print(ctx, stdout, columns ? columns : 80, !term_is_utf8());
}

/* The rows as a table, as plots, or both. */
static int ask(struct cli *c, struct wire_query *q, const struct fields *f, uint8_t how)
{
    struct rows_also also = {.row = history_plot_row, .end = print_plots};
    struct history_plot *plot;
    int code;

    if (history_plot_create(&plot, (enum history_plot_how)how, q->step_ns) != ERR_OK) {
        return cli_fail(c, CLI_FAILED, "out of memory");
    }
    also.ctx = plot;
    also.instead = how == HISTORY_PLOT_BRAILLE || how == HISTORY_PLOT_SPARK;
    code =
        rows_ask(c, RPC_QUERY_HISTORY, q, f, true,
                 "no samples of such a process in this range; --since looks further back", &also);
    history_plot_destroy(plot);
    return code;
}

/* -- series -- */

static int history_series(struct cli *c, struct wire_query *q)
{
    static const uint8_t groups[] = {WIRE_GROUP_NONE, WIRE_GROUP_IMAGE, WIRE_GROUP_USER,
                                     WIRE_GROUP_HOST, WIRE_GROUP_FLEET};
    struct errmsg why = {""};

    if (opt_value(c->args, "plot") || opt_flag(c->args, "folded")) {
        return cli_fail(c, CLI_USAGE, "--plot and --folded are for samples; leave --group-by away");
    }
    q->group_by = groups[cli_word(c, "group-by", 0)];
    if (cli_number(c, "limit", 10, WIRE_ROWS_MAX, &q->limit, &why) != ERR_OK ||
        cli_number(c, "buckets", q->step_ns ? 0 : SERIES_BUCKETS_DEFAULT, WIRE_BUCKETS_MAX,
                   &q->buckets, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    if (!opt_value(c->args, "metric")) {
        q->n_metrics = 1;
        q->metrics[0] = M_CPU_PERCENT;
    }
    return series_ask(c, q);
}

static int history_body(struct cli *c)
{
    struct fields f = {0};
    struct wire_query q;
    struct errmsg why = {""};
    uint8_t how;

    fields_add(&f, FIELD_TIME, true);
    fields_add(&f, FIELD_HOST, true);
    fields_add(&f, FIELD_PID, true);
    fields_add(&f, FIELD_NAME, true);
    fields_add(&f, FIELD_START, false);
    if (cli_query(c, &q, 1000, &why) != ERR_OK || read_step(c, &q, &why) != ERR_OK ||
        read_metrics(c, &q, &f, &why) != ERR_OK || read_plot(c, &how, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    if (opt_value(c->args, "group-by")) {
        return history_series(c, &q);
    }
    if (opt_value(c->args, "buckets")) {
        return cli_fail(c, CLI_USAGE, "--buckets goes with --group-by; --step is for samples");
    }
    if (!q.has_pid && q.name.n == 0) {
        return cli_fail(c, CLI_USAGE,
                        "whose history? give --pid PID or --name GLOB, or --group-by for the "
                        "series of those that used most");
    }
    q.folded = opt_flag(c->args, "folded");
    if (q.folded) {
        fields_add(&f, FIELD_INSTANCES, true);
    }
    fields_add(&f, FIELD_CPU_TIME_ORIGIN, false);
    return ask(c, &q, &f, how);
}

const struct cli_command cmd_history = {&usage, history_body, CLI_NEEDS_COLLECTOR, NULL};
