#include <string.h>

#include "collector/cli/cli.h"
#include "collector/cli/plot/history_plot.h"
#include "collector/cli/rows.h"
#include "collector/cli/term/term.h"
#include "common/base/clk.h"
#include "common/base/plural.h"
#include "common/os/os.h"
#include "common/wire/wire_series.h"

#define SERIES_BUCKETS_DEFAULT 60u

/* -- series of groups -- */

/* A line of bars for each group and metric in a table, a row for each group and bucket in JSON and
 * CSV. In a table a bucket is one character: a bar as high as its share of the row's largest value,
 * "/" where data is missing, "." where there was nothing to measure. What of a bucket arrived
 * stands in a line of its own, when it is not all. */

#define WHOLE     1000000u /* ppm */
#define TEXT_MAX  (16u << 10)
#define LEVELS    8u
#define HEAD_COLS 6u /* of programs' rows: time, host, pid, start, name, user */

struct series_print {
    struct cli *c;
    const struct wire_query *q;
    struct table *table;
    bool ascii;
    size_t n_columns;
    struct table_column columns[HEAD_COLS + WIRE_METRICS_MAX + 5];
    enum err e;
};

static const struct table_column table_columns[] = {
    {"group", "GROUP", TABLE_TEXT},   {"metric", "METRIC", TABLE_WORD},
    {"range", "RANGE", TABLE_WORD},   {"peak", "PEAK", TABLE_WORD},
    {"series", "SERIES", TABLE_TEXT},
};

enum { COLUMN_GROUP, COLUMN_METRIC, COLUMN_RANGE, COLUMN_PEAK, COLUMN_SERIES, COLUMNS };

static bool series_adds_up(const struct metric *m)
{
    return m->kind == METRIC_COUNTER && m->id != M_CPU_PERCENT;
}

static void put_bar(struct buf *b, const struct series_print *p, int64_t value, int64_t most)
{
    static const char *const bars[LEVELS] = {"\xe2\x96\x81", "\xe2\x96\x82", "\xe2\x96\x83",
                                             "\xe2\x96\x84", "\xe2\x96\x85", "\xe2\x96\x86",
                                             "\xe2\x96\x87", "\xe2\x96\x88"};
    static const char plain[LEVELS + 1] = "_.:-=+*#";
    size_t level = 0;

    if (value > 0 && most > 0) {
        level = (size_t)((double)value / (double)most * (LEVELS - 1) + 0.5);
    }
    level = level < LEVELS ? level : LEVELS - 1;
    if (p->ascii) {
        buf_printf(b, "%c", plain[level]);
    } else {
        buf_printf(b, "%s", bars[level]);
    }
}

static void put_bars(struct buf *b, const struct series_print *p, const struct wire_series *s,
                     const struct wire_series_column *c, int64_t most)
{
    for (uint32_t k = 0; k < s->n_buckets; k++) {
        if (wire_series_has(c, k)) {
            put_bar(b, p, c->avg[k], most);
        } else {
            buf_printf(b, "%s", s->present[k] < WHOLE ? "/" : ".");
        }
    }
}

static void put_value(struct buf *b, const struct metric *m, bool have, int64_t value)
{
    struct table_cell cell = table_number(have, value);

    table_put_cell(b, table_unit_of(m), &cell);
}

/* "lab-1 4711 cc1" */
static void put_group(struct buf *b, const struct series_print *p, const struct wire_answer *a,
                      size_t group)
{
    const struct wire_row *r = &a->rows[group];
    struct str host;

    if (group >= a->n_rows) {
        buf_printf(b, "(others)");
        return;
    }
    host = a->hosts[r->host].name;
    switch (p->q->group_by) {
    case WIRE_GROUP_NONE:
        buf_printf(b, "%.*s %u %.*s", (int)host.n, host.p, (unsigned)r->info.id.pid,
                   (int)r->info.name.n, r->info.name.p);
        break;
    case WIRE_GROUP_IMAGE:
        buf_printf(b, "%.*s", (int)r->info.name.n, r->info.name.p);
        break;
    case WIRE_GROUP_USER:
        buf_printf(b, "%.*s", (int)r->info.user.n, r->info.user.p);
        break;
    case WIRE_GROUP_HOST:
        buf_printf(b, "%.*s", (int)host.n, host.p);
        break;
    default:
        buf_printf(b, "fleet");
    }
}

/* Cells of a table from texts that lie one behind the other in `b`, ends[i] behind the i-th. */
static void print_texts(struct series_print *p, const struct buf *b, const size_t *ends)
{
    struct table_cell cells[COLUMNS];
    size_t at = 0;

    for (unsigned i = 0; i < COLUMNS; i++) {
        cells[i] = table_string((struct str){(const char *)b->p + at, ends[i] - at});
        at = ends[i];
    }
    p->e = b->bad ? b->bad : table_row(p->table, cells);
}

static void print_line(struct series_print *p, const struct wire_answer *a, size_t group,
                       unsigned metric)
{
    const struct wire_series_column *c = &a->series->columns[group * a->n_metrics + metric];
    const struct metric *m = metric_by_id(a->metrics[metric]);
    int64_t all = 0, most = 0;
    size_t ends[COLUMNS];
    uint32_t n = 0;
    struct buf b;

    for (uint32_t k = 0; k < a->series->n_buckets; k++) {
        if (wire_series_has(c, k)) {
            most = !n || c->avg[k] > most ? c->avg[k] : most;
            all = clk_add(all, c->avg[k]); /* stops at the ends */
            n++;
        }
    }
    if (group < a->n_rows && metric == 0 && a->rows[group].have & 1) {
        all = a->rows[group].values[0]; /* what ranks it, exactly */
    } else if (n && !series_adds_up(m)) {
        all /= n;
    }
    buf_init(&b, TEXT_MAX);
    put_group(&b, p, a, group);
    ends[COLUMN_GROUP] = b.n;
    buf_printf(&b, "%s", m->name);
    ends[COLUMN_METRIC] = b.n;
    put_value(&b, m, n > 0, all);
    ends[COLUMN_RANGE] = b.n;
    put_value(&b, m, n > 0, most);
    ends[COLUMN_PEAK] = b.n;
    put_bars(&b, p, a->series, c, most);
    ends[COLUMN_SERIES] = b.n;
    print_texts(p, &b, ends);
    buf_fini(&b);
}

/* What of each bucket arrived, when it is not all. */
static void print_arrived(struct series_print *p, const struct wire_series *s)
{
    size_t ends[COLUMNS];
    bool whole = true;
    struct buf b;

    for (uint32_t k = 0; k < s->n_buckets; k++) {
        whole = whole && s->present[k] >= WHOLE;
    }
    if (whole || p->e) {
        return;
    }
    buf_init(&b, TEXT_MAX);
    buf_printf(&b, "(arrived)");
    ends[COLUMN_GROUP] = ends[COLUMN_METRIC] = ends[COLUMN_RANGE] = ends[COLUMN_PEAK] = b.n;
    for (uint32_t k = 0; k < s->n_buckets; k++) {
        if (s->present[k]) {
            put_bar(&b, p, s->present[k], WHOLE);
        } else {
            buf_printf(&b, "/");
        }
    }
    ends[COLUMN_SERIES] = b.n;
    print_texts(p, &b, ends);
    buf_fini(&b);
}

/* What grew while a host was not measured is in the bucket after that. */
static void print_reaches(struct series_print *p, const struct wire_series *s)
{
    char at[CLK_TEXT], since[CLK_TEXT], text[192];
    uint32_t n = 0, widest = 0;

    for (uint32_t b = 0; s->reaches && b < s->n_buckets; b++) {
        n += s->reaches[b] > 0;
        widest = s->reaches[b] > s->reaches[widest] ? b : widest;
    }
    if (n == 0 || p->e) {
        return;
    }
    (void)snprintf(
        text, sizeof text, "%u %s what grew while nothing was measured: that of %s since %s", n,
        plural(n, "character holds", "characters hold"),
        clk_format_utc(at, sizeof at, clk_add(s->t0_ns, (int64_t)widest * s->step_ns), 0),
        clk_format_utc(since, sizeof since,
                       clk_add(s->t0_ns, (int64_t)(widest - s->reaches[widest]) * s->step_ns), 0));
    table_note(p->table, str_make(text));
}

static void print_axis(struct series_print *p, const struct wire_series *s)
{
    char from[CLK_TEXT], to[CLK_TEXT], text[160];
    struct buf step;
    struct table_cell span = table_number(true, s->step_ns);

    buf_init(&step, 64);
    table_put_cell(&step, TABLE_NS, &span);
    (void)snprintf(
        text, sizeof text, "%s to %s, a character is %s",
        clk_format_utc(from, sizeof from, s->t0_ns, 0),
        clk_format_utc(to, sizeof to, clk_add(s->t0_ns, (int64_t)s->n_buckets * s->step_ns), 0),
        buf_cstr(&step));
    table_note(p->table, str_make(text));
    buf_fini(&step);
}

static void print_table(struct series_print *p, const struct wire_answer *a)
{
    for (size_t g = 0; !p->e && g < a->series->n_groups; g++) {
        for (unsigned i = 0; !p->e && i < a->n_metrics; i++) {
            print_line(p, a, g, i);
        }
    }
    print_arrived(p, a->series);
    if (!p->e && a->series->n_buckets) {
        print_axis(p, a->series);
        print_reaches(p, a->series);
    }
}

/* -- rows for programs -- */

static void add_column(struct series_print *p, const char *key, enum table_unit unit)
{
    p->columns[p->n_columns++] = (struct table_column){key, NULL, unit};
}

static void add_columns(struct series_print *p)
{
    add_column(p, "time", TABLE_TIME);
    if (p->q->group_by == WIRE_GROUP_NONE || p->q->group_by == WIRE_GROUP_HOST) {
        add_column(p, "host", TABLE_TEXT);
    }
    if (p->q->group_by == WIRE_GROUP_NONE) {
        add_column(p, "pid", TABLE_ID);
        add_column(p, "start", TABLE_WIDE);
    }
    if (p->q->group_by == WIRE_GROUP_NONE || p->q->group_by == WIRE_GROUP_IMAGE) {
        add_column(p, "name", TABLE_TEXT);
    }
    if (p->q->group_by == WIRE_GROUP_USER) {
        add_column(p, "user", TABLE_USER);
    }
    add_column(p, "others", TABLE_FLAG);
    for (unsigned i = 0; i < p->q->n_metrics; i++) {
        const struct metric *m = metric_by_id(p->q->metrics[i]);

        add_column(p, m->name, table_unit_of(m));
    }
    add_column(p, "present_ppm", TABLE_COUNT);
    add_column(p, "hosts_in", TABLE_COUNT);
    add_column(p, "reaches", TABLE_COUNT);
}

static size_t put_heads(const struct series_print *p, struct table_cell *cells,
                        const struct wire_answer *a, size_t group)
{
    const struct wire_row *r = group < a->n_rows ? &a->rows[group] : NULL;
    const struct str none = {NULL, 0};
    size_t n = 0;

    if (p->q->group_by == WIRE_GROUP_NONE || p->q->group_by == WIRE_GROUP_HOST) {
        cells[n++] = table_string(r ? a->hosts[r->host].name : none);
    }
    if (p->q->group_by == WIRE_GROUP_NONE) {
        cells[n++] = table_number(r != NULL, r ? r->info.id.pid : 0);
        cells[n++] = table_number(r != NULL, r ? (int64_t)r->info.id.start : 0);
    }
    if (p->q->group_by == WIRE_GROUP_NONE || p->q->group_by == WIRE_GROUP_IMAGE) {
        cells[n++] = table_string(r ? r->info.name : none);
    }
    if (p->q->group_by == WIRE_GROUP_USER) {
        cells[n++] = table_string(r ? r->info.user : none);
    }
    cells[n++] = table_number(true, r == NULL);
    return n;
}

static void print_rows(struct series_print *p, const struct wire_answer *a)
{
    struct table_cell cells[HEAD_COLS + WIRE_METRICS_MAX + 5];
    const struct wire_series *s = a->series;

    for (size_t g = 0; g < s->n_groups; g++) {
        size_t heads = put_heads(p, cells + 1, a, g) + 1;

        for (uint32_t b = 0; !p->e && b < s->n_buckets; b++) {
            size_t n = heads;

            cells[0] = table_number(true, clk_add(s->t0_ns, (int64_t)b * s->step_ns));
            for (unsigned i = 0; i < a->n_metrics; i++) {
                const struct wire_series_column *c = &s->columns[g * a->n_metrics + i];

                cells[n++] = table_number(wire_series_has(c, b), c->avg[b]);
            }
            cells[n++] = table_number(true, s->present[b]);
            cells[n++] = table_number(true, s->hosts_in[b]);
            cells[n++] = table_number(s->reaches != NULL, s->reaches ? s->reaches[b] : 0);
            p->e = table_row(p->table, cells);
        }
    }
}

/* -- asking -- */

static enum err series_page(void *ctx, struct table *t, const struct wire_answer *a)
{
    struct series_print *p = ctx;

    p->table = t;
    if (!a->series) {
        return ERR_OK;
    }
    if (a->n_metrics != p->q->n_metrics || memcmp(a->metrics, p->q->metrics, a->n_metrics) != 0) {
        return ERR_CORRUPT; /* not what was asked for */
    }
    if (p->c->format == TABLE_AS_TABLE) {
        print_table(p, a);
    } else {
        print_rows(p, a);
    }
    return p->e;
}

/* q: with metrics, limit, buckets and group_by. Returns the exit code. */
static int series_ask(struct cli *c, struct wire_query *q)
{
    static const char *const yields[] = {"PEAK", NULL};
    struct series_print p = {.c = c, .q = q, .ascii = !term_is_utf8()};
    struct rows_table t = {
        .columns = table_columns, .n = COLUMNS, .yields = yields, .page = series_page, .ctx = &p};

    if (c->format != TABLE_AS_TABLE) {
        add_columns(&p);
        t.columns = p.columns;
        t.n = p.n_columns;
    }
    return rows_table(c, RPC_QUERY_SERIES, q, &t);
}

/* -- the command -- */

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
