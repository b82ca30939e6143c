#include <stdio.h>

#include "collector/cli/rows.h"
#include "common/wire/wire_outliers.h"

static const struct opt opts[] = {
    {"by", 'b', "METRIC", "what is compared (cpu_time)", 0},
    {"group-by", 'g', "host|image", "hosts, or each image on its hosts (host)", 0},
    CLI_OPT_CLASS,
    CLI_OPT_HOST,
    CLI_OPT_LABEL,
    {"where", 0, "EXPR", "only hosts that fulfil it: 'memory < 32GiB and label.rack == \"3\"'", 0},
    CLI_OPTS_RANGE,
    {"name", 0, "GLOB", "only images of this name", 0},
    {"limit", 'n', "N", "rows shown, the furthest from the median first (100)", 0},
    CLI_OPTS_ANSWER,
    CLI_OPTS_CONNECTION,
};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "outliers",
    .brief = "hosts that use much more or less than the others of their class",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .sets = fields_sets,
    .examples =
        "  procfleet outliers --since 1d\n"
        "  procfleet outliers --by private_bytes --class os_name,cpu --since 6h\n"
        "  procfleet outliers --group-by image --run nightly-412\n"
        "\n"
        "A class needs 8 hosts of which 99 % of the data arrived. A host is one that is at least\n"
        "1.5 times or at most 1/1.5 of the median, further from it than chance explains among so\n"
        "many hosts (Z, in robust spreads), and so in 4 of 6 parts of the range. MOST is the "
        "image\n"
        "that most of it is of; DIFFERS_IN names facts and labels that most of the class has\n"
        "otherwise.\n",
};

static struct table_column columns[] = {
    {"host", "HOST", TABLE_TEXT},
    {"name", "NAME", TABLE_TEXT},
    {"value", "VALUE", TABLE_COUNT}, /* of the metric's unit */
    {"times_median", "TIMES_MEDIAN", TABLE_REAL},
    {"z", "Z", TABLE_REAL},
    {"parts", NULL, TABLE_COUNT},
    {NULL, "IN_PARTS", TABLE_WORD},
    {"most", "MOST", TABLE_TEXT},
    {"most_value", "OF_IT", TABLE_COUNT},
    {"median", NULL, TABLE_COUNT},
    {"differs_in", "DIFFERS_IN", TABLE_TEXT},
    {"class", NULL, TABLE_TEXT},
};

enum { COLUMN_NAME = 1, COLUMN_VALUE, COLUMN_MOST = 7, COLUMN_OF_IT, COLUMN_MEDIAN };

#define COLUMNS       (sizeof columns / sizeof *columns)
#define CLASSES_SHOWN 20u

struct outliers {
    const struct metric *metric;
};

static void class_note(struct table *t, const struct outliers *x,
                       const struct wire_outlier_class *c)
{
    struct table_cell median = table_number(c->hosts > 0, c->median);
    struct buf b;

    buf_init(&b, 1024);
    if (c->image.n) {
        buf_printf(&b, "%.*s, ", (int)c->image.n, c->image.p);
    }
    if (c->name.n) {
        buf_printf(&b, "class %.*s: %u hosts", (int)c->name.n, c->name.p, (unsigned)c->hosts);
    } else {
        buf_put_str(&b, "hosts without a class: 0");
    }
    if (c->not_judged) {
        buf_printf(&b, ", %u not judged", (unsigned)c->not_judged);
    }
    if (c->hosts) {
        buf_printf(&b, "; %s: median ", x->metric->name);
        table_put_cell(&b, table_unit_of(x->metric), &median);
        buf_printf(&b, ", usual \u00b1%u %%", (unsigned)((c->spread_ppm + 5000) / 10000));
    }
    table_note(t, (struct str){(const char *)b.p, b.n});
    buf_fini(&b);
}

/* A fleet of many kinds has thousands of classes, most of them too small to judge. */
static void classes_note(struct table *t, const struct outliers *x, const struct wire_outliers *all)
{
    bool few = all->n_classes <= CLASSES_SHOWN;
    size_t shown = 0, further = 0;
    uint64_t judged = 0, not_judged = 0;
    char text[160];

    for (size_t i = 0; i < all->n_classes; i++) {
        const struct wire_outlier_class *c = &all->classes[i];

        if (few || (c->hosts && shown < CLASSES_SHOWN)) {
            class_note(t, x, c);
            shown++;
        } else {
            further++;
            judged += c->hosts;
            not_judged += c->not_judged;
        }
    }
    if (further) {
        (void)snprintf(text, sizeof text,
                       "%zu further classes: %llu hosts, %llu not judged; --class makes fewer, and "
                       "one needs 8 hosts",
                       further, (unsigned long long)judged, (unsigned long long)not_judged);
        table_note(t, str_make(text));
    }
}

static enum err outliers_page(void *ctx, struct table *t, const struct wire_answer *a)
{
    const struct outliers *x = ctx;
    const struct wire_outliers *all = a->outliers;
    enum err e = ERR_OK;

    if (!all) {
        return a->n_rows ? ERR_CORRUPT : ERR_OK;
    }
    for (size_t i = 0; !e && i < a->n_rows; i++) {
        const struct wire_outlier *o = &all->rows[i];
        const struct wire_row *r = &a->rows[i];
        char times[24], z[24], parts[24];

        (void)snprintf(times, sizeof times, "%.2f", o->times_milli / 1000.0);
        (void)snprintf(z, sizeof z, "%.1f", o->z_milli / 1000.0);
        (void)snprintf(parts, sizeof parts, "%u of %u", o->parts, WIRE_OUTLIER_PARTS);
        const struct table_cell cells[] = {
            table_string(a->hosts[r->host].name),
            table_string(r->info.name),
            table_number(r->have & 1, r->have & 1 ? r->values[0] : 0),
            table_string(str_make(times)),
            table_string(str_make(z)),
            table_number(true, o->parts),
            table_string(str_make(parts)),
            table_string(o->most),
            table_number(o->most.n > 0, o->most_value),
            table_number(true, all->classes[o->class].median),
            table_string(o->differs),
            table_string(all->classes[o->class].name),
        };

        e = table_row(t, cells);
    }
    classes_note(t, x, all);
    return e;
}

static int outliers_body(struct cli *c)
{
    static const char *const yields[] = {"OF_IT", "IN_PARTS", "MOST", NULL};
    struct outliers x;
    const struct rows_table t = {.columns = columns,
                                 .n = COLUMNS,
                                 .yields = yields,
                                 .page = outliers_page,
                                 .ctx = &x,
                                 .counted = true,
                                 .none = "no host is unlike the others of its class"};
    const char *by = opt_value(c->args, "by");
    struct wire_query q;
    struct errmsg why = {""};
    uint8_t id;

    if (cli_query(c, &q, 100, &why) != ERR_OK ||
        field_metric(&id, by ? by : "cpu_time", &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    x.metric = metric_by_id(id);
    q.metrics[0] = id;
    q.n_metrics = 1;
    q.group_by = cli_word(c, "group-by", 0) ? WIRE_GROUP_IMAGE : WIRE_GROUP_HOST;
    columns[COLUMN_VALUE].unit = columns[COLUMN_OF_IT].unit = columns[COLUMN_MEDIAN].unit =
        table_unit_of(x.metric);
    columns[q.group_by == WIRE_GROUP_IMAGE ? COLUMN_MOST : COLUMN_NAME].title = NULL;
    if (q.group_by == WIRE_GROUP_IMAGE) {
        columns[COLUMN_OF_IT].title = NULL;
    }
    return rows_table(c, RPC_QUERY_OUTLIERS, &q, &t);
}

const struct cli_command cmd_outliers = {&usage, outliers_body, CLI_NEEDS_COLLECTOR, NULL};
