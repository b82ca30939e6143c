#include <string.h>

#include "collector/cli/rows.h"
#include "collector/cli/watch/watch_run.h"
#include "common/base/clk.h"

/* The words of --as and --group-by stand in the order of enum wire_by and enum wire_group. */
static const struct opt opts[] = {
    {"by", 'b', "METRIC", "order by this metric (cpu_time)", 0},
    {"as", 0, "usual|sum|rate|max|avg|growth",
     "what counts of it (usual: growth of counters, last value of others; growth: of others, from "
     "the first of 32 parts of the range to the last)",
     0},
    {"group-by", 'g', "process|image|user|host|tree|fleet|image-user",
     "add up what belongs together (process)", 0},
    {"include-exited", 0, NULL, "trees: with the processes that ended", 0},
    {"folded", 0, NULL, "also images' sums where only those are left of short lives", 0},
    {"limit", 'n', "N", "processes shown (10)", 0},
    {"watch", 0, NULL, "a live view of the whole screen, driven by keys; ? shows them", 0},
    {"every", 0, "SPAN", "how often --watch asks again (2s)", 0},
    CLI_OPT_HOST,
    CLI_OPT_LABEL,
    CLI_OPT_WHERE,
    CLI_OPTS_RANGE,
    CLI_OPTS_PROCESS,
    {"idle", 0, NULL, "show the idle process (pid 0) too", 0},
    CLI_OPTS_ANSWER,
    CLI_OPTS_CONNECTION,
};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "top",
    .brief = "the processes that used most of a metric, ended ones included",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .sets = fields_sets,
    .examples = "  procfleet top\n"
                "  procfleet top --by working_set_size -n 20 --host 'lab-*'\n"
                "  procfleet top --by write_bytes --since 1h --format json\n"
                "  procfleet top --by working_set_size --as avg --group-by image --since 7d\n"
                "  procfleet top --by private_bytes --as growth --since 1d\n"
                "  procfleet top --group-by tree --include-exited --host lab-7\n"
                "  procfleet top --watch --host 'lab-*' --since 5m\n"
                "\n"
                "Without a time range it is the last 15 minutes of each host's data. Counters show "
                "what was "
                "used in the range,\n"
                "gauges their last value. docs/cli.md says what each metric is.\n"
                "\n" CLI_ABSENT,
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

/* What stands in front of the figures. */
static void add_heads(struct fields *f, unsigned group_by, bool folded)
{
    if (group_by == WIRE_GROUP_NONE || group_by == WIRE_GROUP_TREE) {
        fields_add(f, FIELD_HOST, true);
        fields_add(f, FIELD_PID, true);
        fields_add(f, FIELD_NAME, true);
    } else if (group_by == WIRE_GROUP_IMAGE) {
        fields_add(f, FIELD_NAME, true);
    } else if (group_by == WIRE_GROUP_USER) {
        fields_add(f, FIELD_USER, true);
    } else if (group_by == WIRE_GROUP_HOST) {
        fields_add(f, FIELD_HOST, true);
    } else if (group_by == WIRE_GROUP_IMAGE_USER) {
        fields_add(f, FIELD_NAME, true);
        fields_add(f, FIELD_USER, true);
    }
    if (group_by == WIRE_GROUP_IMAGE || group_by == WIRE_GROUP_USER ||
        group_by == WIRE_GROUP_FLEET || group_by == WIRE_GROUP_IMAGE_USER) {
        fields_add(f, FIELD_HOSTS, true);
    }
    if (group_by != WIRE_GROUP_NONE || folded) {
        fields_add(f, FIELD_INSTANCES, true);
    }
}

static void add_metrics(struct wire_query *q, struct fields *f, uint8_t first)
{
    want(q, f, first, true);
    for (size_t i = 0; i < sizeof shown; i++) {
        want(q, f, shown[i], true);
    }
    for (size_t i = 0; i < sizeof carried; i++) {
        want(q, f, carried[i], false);
    }
}

/* How fast it grew, in its unit, and how steadily. */
static void add_trend(struct fields *f, uint8_t first)
{
    size_t at = f->n;

    fields_add(f, FIELD_PER_HOUR, true);
    f->columns[at].unit = table_unit_of(metric_by_id(first));
    fields_add(f, FIELD_STEADY, true);
}

/* The title of the metric that decides says how it was taken. */
static void retitle(struct fields *f, uint8_t id, unsigned by, char *title, size_t size)
{
    static const char *const before[] = {"", "sum ", "", "max ", "avg ", "grew "};

    for (size_t i = 0; i < f->n; i++) {
        if (f->what[i] == FIELD_METRIC + id) {
            (void)snprintf(title, size, "%s%s%s", before[by], metric_by_id(id)->name,
                           by == WIRE_BY_RATE ? "/s" : "");
            f->columns[i].title = title;
            f->keep = title;
        }
    }
}

static enum err read_order(struct cli *c, struct wire_query *q, const char *def, uint8_t *first,
                           struct errmsg *why)
{
    const char *by = opt_value(c->args, "by");
    enum err e = field_metric(first, by ? by : def, why);

    q->by = cli_word(c, "as", WIRE_BY_USUAL);
    q->group_by = cli_word(c, "group-by", WIRE_GROUP_NONE);
    q->exited = opt_flag(c->args, "include-exited");
    if (!e && q->exited && q->group_by != WIRE_GROUP_TREE) {
        e = errmsg_set(why, ERR_USAGE,
                       "--include-exited goes with --group-by tree; all others count what ended");
    }
    return e;
}

/* -- the live view -- */

static enum err read_spans(struct cli *c, struct watch *w, struct errmsg *why)
{
    const char *every = opt_value(c->args, "every"), *since = opt_value(c->args, "since");

    if (every && (clk_parse_span(&w->every_ns, every) != ERR_OK || w->every_ns < CLK_S / 10)) {
        return errmsg_set(why, ERR_USAGE, "--every: '%s' is not a time such as 2s, at least 100ms",
                          every);
    }
    if (since && (clk_parse_span(&w->ask.window_ns, since) != ERR_OK || w->ask.window_ns <= 0)) {
        return errmsg_set(why, ERR_USAGE,
                          "--since: '%s' is not a time such as 5m; with --watch it moves along",
                          since);
    }
    if (opt_value(c->args, "until") || opt_value(c->args, "run")) {
        return errmsg_set(why, ERR_USAGE,
                          "--until, --run: --watch is about now; leave one of them away");
    }
    if (opt_flag(c->args, "wide") || opt_value(c->args, "sort")) {
        return errmsg_set(why, ERR_USAGE,
                          "--wide, --sort: --watch draws a screen; leave one of them away");
    }
    if (c->format != TABLE_AS_TABLE) {
        return errmsg_set(why, ERR_USAGE,
                          "--format: --watch draws a screen; leave one of them away");
    }
    return ERR_OK;
}

static enum err read_filter(char out[WATCH_TEXT], const char *option, struct str text,
                            struct errmsg *why)
{
    if (text.n >= WATCH_TEXT) {
        return errmsg_set(why, ERR_USAGE, "--%s: at most %u bytes", option, WATCH_TEXT - 1);
    }
    if (text.n) {
        memcpy(out, text.p, text.n);
    }
    return ERR_OK;
}

static int watch_body(struct cli *c)
{
    struct watch w;
    struct wire_query q;
    struct errmsg why = {""};
    uint8_t first;
    int code;

    watch_init(&w, c->settings.collector);
    if (read_spans(c, &w, &why) != ERR_OK || cli_query(c, &q, WATCH_ROWS, &why) != ERR_OK ||
        read_order(c, &q, "cpu_percent", &first, &why) != ERR_OK ||
        read_filter(w.ask.host, "host", q.host, &why) != ERR_OK ||
        read_filter(w.ask.name, "name", q.name, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    w.ask.given = &q;
    w.ask.has_pid = q.has_pid;
    w.ask.pid = q.pid;
    w.ask.by = q.by;
    w.ask.group_by = q.group_by;
    w.ask.exited = q.exited;
    w.ask.idle = opt_flag(c->args, "idle");
    w.ask.folded = opt_flag(c->args, "folded");
    w.ask.limit = q.limit < WIRE_ROWS_MAX ? q.limit : WIRE_ROWS_MAX;
    watch_order(&w, first);
    code = watch_run(c, &w);
    watch_fini(&w);
    return code;
}

/* -- the table -- */

static int top_body(struct cli *c)
{
    struct fields f = {0};
    struct wire_query q;
    struct errmsg why = {""};
    char title[64];
    uint8_t first;

    if (opt_flag(c->args, "watch")) {
        return watch_body(c);
    }
    if (opt_value(c->args, "every")) {
        return cli_fail(c, CLI_USAGE, "--every goes with --watch");
    }
    if (cli_query(c, &q, 10, &why) != ERR_OK ||
        read_order(c, &q, "cpu_time", &first, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    q.idle = opt_flag(c->args, "idle");
    q.folded = opt_flag(c->args, "folded");
    add_heads(&f, q.group_by, q.folded);
    add_metrics(&q, &f, first);
    retitle(&f, first, q.by, title, sizeof title);
    if (q.by == WIRE_BY_GROWTH) {
        add_trend(&f, first);
    }
    if (q.group_by == WIRE_GROUP_NONE || q.group_by == WIRE_GROUP_TREE) {
        fields_add(&f, FIELD_CPU_TIME_ORIGIN, true);
        fields_add(&f, FIELD_EXIT_CODE, true);
        fields_add(&f, FIELD_USER, true);
        rows_add_details(&f);
    }
    return rows_ask(
        c, RPC_QUERY_TOP, &q, &f, false,
        "no process has this metric in this range; --help says where it is absent and why", NULL);
}

const struct cli_command cmd_top = {&usage, top_body, CLI_NEEDS_COLLECTOR, NULL};
