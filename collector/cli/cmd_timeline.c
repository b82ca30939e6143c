#include <inttypes.h>
#include <string.h>

#include "collector/cli/plot/lanes.h"
#include "collector/cli/rows.h"
#include "collector/cli/term/term.h"
#include "common/base/clk.h"
#include "common/base/plural.h"
#include "common/os/os.h"
#include "common/text/style.h"

#define COLUMNS_DEFAULT 100u /* where there is no terminal */
#define LAST_NS         (15 * 60 * CLK_S)
#define PICTURE_MAX     (4u << 20)

static const struct opt opts[] = {
    {"group-by", 'g', "image|tree|user|host", "what a lane is of (image)", 0},
    CLI_OPT_HOST,
    CLI_OPT_LABEL,
    CLI_OPTS_PROCESS,
    CLI_OPTS_RANGE,
    {"last", 0, "SPAN", "instead: so much before the newest data (15m)", 0},
    {"limit", 'n', "N", "groups shown, of a tree processes; the others are counted (12; tree: 60)",
     0},
    {"lanes", 0, "N", "lanes of a group at most; what finds none is counted (3)", 0},
    {"max", 0, "N",
     "processes asked for, up to 50000 (20000): of more those that failed, then those of most CPU "
     "time",
     0},
    {"columns", 0, "N", "width of the picture (that of the terminal)", 0},
    CLI_OPTS_ANSWER,
    CLI_OPTS_CONNECTION,
};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "timeline",
    .brief = "when which process lived, and how it ended, as bars over time",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet timeline --host lab-7 --last 2m\n"
        "  procfleet timeline --host lab-7 --since 1h --until 50m --group-by tree\n"
        "  procfleet timeline --name 'cc1*' --since 2026-11-21T09:00:00Z --lanes 12\n"
        "  procfleet timeline --host lab-7 --last 1h --format csv > lives.csv\n"
        "\n"
        "Lanes are for what changed: those that lived throughout are one pale line. A hatch is "
        "where data is\nmissing, dots are where no agent ran. JSON and CSV have a row for each "
        "process.\n",
};

/* -- rows for programs -- */

static const struct table_column columns[] = {
    {"host", NULL, TABLE_TEXT},         {"pid", NULL, TABLE_ID},
    {"start", NULL, TABLE_WIDE},        {"name", NULL, TABLE_TEXT},
    {"user", NULL, TABLE_USER},         {"start_time", NULL, TABLE_TIME},
    {"end_time", NULL, TABLE_TIME},     {"life_ns", NULL, TABLE_NS},
    {"lives", NULL, TABLE_FLAG},        {"parent", NULL, TABLE_ID},
    {"parent_start", NULL, TABLE_WIDE}, {"exit_code", NULL, TABLE_EXIT},
    {"cpu_time", NULL, TABLE_NS},       {"start_unknown", NULL, TABLE_FLAG},
    {"end_inferred", NULL, TABLE_FLAG}, {"end_unknown", NULL, TABLE_FLAG},
    {"cpu_exact", NULL, TABLE_FLAG},
};

#define COLUMNS (sizeof columns / sizeof *columns)

struct timeline {
    struct cli *c;
    struct lanes how;
    struct buf picture;
};

static enum err timeline_row(struct table *t, const struct wire_answer *a, size_t i)
{
    const struct wire_lifetimes *l = a->lifetimes;
    int64_t began_ns = clk_add(l->t0_ns, l->start_us[i] * CLK_US), life_us = l->life_us[i];
    bool row = l->parent[i] > 0, over = life_us >= 0;
    bool ended = over && !(l->flags[i] & WIRE_LIFE_END_UNKNOWN);
    const struct table_cell cells[COLUMNS] = {
        table_string(a->hosts[l->host[i]].name),
        table_number(true, l->pid[i]),
        table_number(true, (int64_t)l->start[i]),
        table_string(l->names[l->name[i]]),
        table_string(l->names[l->user[i]]),
        table_number(true, began_ns),
        table_number(ended, clk_add(began_ns, life_us * CLK_US)),
        table_number(over, life_us * CLK_US),
        table_number(true, life_us == WIRE_LIFE_LIVES),
        table_number(l->parent[i] != 0, row ? l->pid[l->parent[i] - 1] : -l->parent[i]),
        table_number(row, row ? (int64_t)l->start[l->parent[i] - 1] : 0),
        table_number(l->exit_code[i] >= 0, l->exit_code[i]),
        table_number(l->cpu_us[i] >= 0, l->cpu_us[i] * CLK_US),
        table_number(true, (l->flags[i] & WIRE_LIFE_START_UNKNOWN) != 0),
        table_number(true, (l->flags[i] & WIRE_LIFE_END_INFERRED) != 0),
        table_number(true, (l->flags[i] & WIRE_LIFE_END_UNKNOWN) != 0),
        table_number(true, (l->flags[i] & WIRE_LIFE_CPU_EXACT) != 0),
    };

    return table_row(t, cells);
}

static void note_left_out(struct table *t, uint64_t n)
{
    char text[160];

    if (n) {
        (void)snprintf(text, sizeof text,
                       "%" PRIu64 " more %s only in the numbers of starts and ends: --max, --name "
                       "or a shorter range shows more",
                       n, plural(n, "process is", "processes are"));
        table_note(t, str_make(text));
    }
}

static enum err timeline_page(void *ctx, struct table *t, const struct wire_answer *a)
{
    struct timeline *x = ctx;
    enum err e = ERR_OK;

    if (!a->lifetimes) {
        return ERR_CORRUPT;
    }
    note_left_out(t, a->lifetimes->left_out);
    if (a->n_hosts && !a->lifetimes->n) {
        table_note(t, str_make("no such process in this range"));
    }
    if (x->c->format == TABLE_AS_TABLE) {
        return lanes_draw(&x->picture, &x->how, a);
    }
    for (size_t i = 0; !e && i < a->lifetimes->n; i++) {
        e = timeline_row(t, a, i);
    }
    return e;
}

static enum err timeline_end(void *ctx, struct table *t)
{
    struct timeline *x = ctx;

    (void)t;
    if (x->picture.n) {
        (void)fwrite(x->picture.p, 1, x->picture.n, stdout);
    }
    return x->picture.bad;
}

/* -- the question -- */

/* The shortest usual step with which the range fills no more than so many columns. */
static int64_t timeline_step(int64_t span_ns, unsigned room)
{
    static const int64_t steps[] = {1,  2,  3,  4,  5,   6,   8,   10,  12,  15,  20,  25, 30,
                                    40, 50, 60, 75, 100, 120, 150, 200, 250, 300, 400, 500};
    static const int64_t tenths[] = {
        10,    12,    15,    20,     24,     30,     40,     50,     60,      75,     100,   120,
        150,   200,   240,   300,    400,    500,    600,    750,    900,     1000,   1200,  1500,
        1800,  2400,  3000,  3600,   4500,   6000,   7200,   9000,   12000,   14400,  18000, 24000,
        36000, 54000, 72000, 108000, 144000, 216000, 432000, 864000, 1728000, 6048000};
    int64_t most = room > 2 ? room - 1 : 1; /* the range may cut a column at both ends */

    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (span_ns / (steps[i] * CLK_MS) < most) {
            return steps[i] * CLK_MS;
        }
    }
    for (size_t i = 0; i < sizeof tenths / sizeof *tenths; i++) {
        if (span_ns / (tenths[i] * 100 * CLK_MS) < most) {
            return tenths[i] * 100 * CLK_MS;
        }
    }
    return span_ns / most + CLK_S;
}

static enum err timeline_range(struct cli *c, struct wire_query *q, unsigned room,
                               struct errmsg *why)
{
    const char *last = opt_value(c->args, "last");
    int64_t until_ns = q->until_ns ? q->until_ns : os_utc_ns(), span_ns = LAST_NS;

    if (last && (clk_parse_span(&span_ns, last) != ERR_OK || span_ns <= 0)) {
        return errmsg_set(why, ERR_USAGE, "--last: '%s' is not a time such as 2m or 1h", last);
    }
    if (last && (q->since_ns || q->until_ns)) {
        return errmsg_set(why, ERR_USAGE, "--last goes without --since and --until");
    }
    if (q->since_ns) {
        span_ns = clk_sub(until_ns, q->since_ns);
    } else {
        q->last_ns = span_ns;
    }
    q->step_ns = timeline_step(span_ns > 0 ? span_ns : 1, room);
    return ERR_OK;
}

static enum err timeline_how(struct cli *c, struct lanes *how, struct errmsg *why)
{
    unsigned width = os_terminal_columns();
    enum err e;

    width = width ? width : COLUMNS_DEFAULT;
    width = width < LANES_COLUMNS_MIN ? LANES_COLUMNS_MIN : width;
    width = width < LANES_COLUMNS_MAX ? width : LANES_COLUMNS_MAX;
    how->group = (enum lanes_group)cli_word(c, "group-by", LANES_IMAGE);
    how->ascii = !term_is_utf8();
    how->colours = style_wanted();
    e = cli_number(c, "columns", width, LANES_COLUMNS_MAX, &how->columns, why);
    e = e ? e : cli_number(c, "lanes", 3, 64, &how->lanes, why);
    if (!e && (how->columns < LANES_COLUMNS_MIN || !how->lanes)) {
        e = errmsg_set(why, ERR_USAGE, "at least --columns %u and --lanes 1", LANES_COLUMNS_MIN);
    }
    return e;
}

static int timeline_body(struct cli *c)
{
    struct timeline x = {.c = c};
    const struct rows_table t = {.columns = columns,
                                 .n = COLUMNS,
                                 .page = timeline_page,
                                 .end = timeline_end,
                                 .ctx = &x,
                                 .none = "no host has data in this range"};
    struct errmsg why = {""};
    struct wire_query q;
    int code;

    if (timeline_how(c, &x.how, &why) != ERR_OK ||
        cli_query(c, &q, x.how.group == LANES_TREE ? 60 : 12, &why) != ERR_OK ||
        timeline_range(c, &q, lanes_buckets(x.how.columns), &why) != ERR_OK ||
        cli_number(c, "max", 0, WIRE_LIVES_MAX, &q.max, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    x.how.groups = q.limit;
    q.limit = WIRE_ROWS_MAX;
    buf_init(&x.picture, PICTURE_MAX);
    code = rows_table(c, RPC_QUERY_LIFETIMES, &q, &t);
    buf_fini(&x.picture);
    return code;
}

const struct cli_command cmd_timeline = {&usage, timeline_body, CLI_NEEDS_COLLECTOR, NULL};
