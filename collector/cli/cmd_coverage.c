#include <stdio.h>

#include "collector/cli/rows.h"
#include "common/base/clk.h"
#include "common/model/ledger.h"

static const struct opt opts[] = {
    CLI_OPT_HOST,
    CLI_OPT_LABEL,
    CLI_OPTS_RANGE,
    {"last", 0, "SPAN", "instead: so much before each host's newest data (15min)", 0},
    {"stages", 0, NULL, "what every stage on the way took in, handed on and dropped", 0},
    CLI_OPTS_ANSWER,
    CLI_OPTS_CONNECTION,
};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "coverage",
    .brief = "how much of what happened has arrived, and what was lost where",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet coverage --since 1d\n"
        "  procfleet coverage --host lab-7 --since 2h --until 1h --stages\n"
        "  procfleet coverage --last 1h --format json\n"
        "\n"
        "Events are what the host's source handed on, ticks its samples. \xe2\x89\xa4 says that "
        "something was lost\nof which it is unknown how many events it held. docs/ledger.md "
        "names stages and reasons.\nA run of the agent is an account of its own: over restarts "
        "the rows of --stages are sums of several.\n",
};

/* -- one line for each host -- */

static const struct table_column host_columns[] = {
    {"host", "HOST", TABLE_TEXT},
    {NULL, "COVERAGE", TABLE_TEXT},
    {"coverage_ppm", NULL, TABLE_COUNT},
    {"at_most", NULL, TABLE_FLAG},
    {"missing", NULL, TABLE_FLAG},
    {NULL, "TICKS", TABLE_TEXT},
    {"ticks_ppm", NULL, TABLE_COUNT},
    {"ticks", NULL, TABLE_COUNT},
    {"lost_ticks", "LOST_TICKS", TABLE_ALARM},
    {NULL, "EVENTS", TABLE_TEXT},
    {"events_ppm", NULL, TABLE_COUNT},
    {"events", NULL, TABLE_COUNT},
    {"lost_events", "LOST_EVENTS", TABLE_ALARM},
    {"lost_rows", NULL, TABLE_COUNT},
    {"missing_batches", NULL, TABLE_COUNT},
    {"most_lost_by", "MOST_LOST_BY", TABLE_TEXT},
    {"lost_first_time", "FROM", TABLE_TIME},
    {"lost_last_time", "TO", TABLE_TIME},
    {"since_time", NULL, TABLE_TIME},
    {"until_time", NULL, TABLE_TIME},
};

static const char *const yields[] = {"TO", "FROM", "EVENTS", "TICKS", "MOST_LOST_BY", NULL};

struct share {
    char text[24];
};

static struct table_cell share_cell(struct share *s, bool have, uint32_t ppm, bool at_most)
{
    if (!have) {
        return table_number(false, 0);
    }
    (void)snprintf(s->text, sizeof s->text, ppm == 1000000 ? "%s100 %%" : "%s%u.%02u %%",
                   at_most ? "\xe2\x89\xa4 " : "", ppm / 10000, ppm / 100 % 100);
    return table_string(str_make(s->text));
}

/* Whether answers lack what the row counts, or at least the figure does. */
static bool is_loss(const struct wire_stage *s)
{
    return s->count > 0 && (s->loss || (s->role == LEDGER_LOST && s->unit == LEDGER_TICKS));
}

static struct table_cell cause_cell(char text[96], const struct wire_coverage *c)
{
    const struct wire_stage *most = NULL;

    for (size_t i = 0; i < c->n_stages; i++) {
        if (is_loss(&c->stages[i]) && (!most || c->stages[i].count > most->count)) {
            most = &c->stages[i];
        }
    }
    text[0] = '\0';
    if (most) {
        (void)snprintf(text, 96, "%.*s %.*s", (int)(most->stage.n < 40 ? most->stage.n : 40),
                       most->stage.p, (int)(most->reason.n < 50 ? most->reason.n : 50),
                       most->reason.p);
    }
    return table_string(str_make(text));
}

static void span_of(const struct wire_coverage *c, int64_t *first_ns, int64_t *last_ns)
{
    for (size_t i = 0; i < c->n_spans; i++) {
        const struct wire_loss_span *s = &c->spans[i];

        *first_ns = i == 0 || s->first_ns < *first_ns ? s->first_ns : *first_ns;
        *last_ns = i == 0 || s->last_ns > *last_ns ? s->last_ns : *last_ns;
    }
}

static enum err put_host(struct table *t, const struct wire_answer *a,
                         const struct wire_coverage *c)
{
    struct share all, ticks, events;
    char cause[96];
    int64_t first_ns = 0, last_ns = 0;

    span_of(c, &first_ns, &last_ns);
    const struct table_cell cells[] = {
        table_string(a->hosts[c->host].name),
        share_cell(&all, true, c->ppm, c->at_most),
        table_number(true, c->ppm),
        table_number(true, c->at_most),
        table_number(true, c->missing),
        share_cell(&ticks, c->has_ticks, c->ticks_ppm, false),
        table_number(c->has_ticks, c->ticks_ppm),
        table_count(c->ticks),
        table_count(c->lost_ticks),
        share_cell(&events, c->has_events, c->events_ppm, c->at_most),
        table_number(c->has_events, c->events_ppm),
        table_count(c->events),
        table_count(c->lost_events),
        table_count(c->lost_rows),
        table_count(c->missing_batches),
        cause_cell(cause, c),
        table_number(c->n_spans > 0, first_ns),
        table_number(c->n_spans > 0, last_ns),
        table_number(true, c->since_ns),
        table_number(true, c->until_ns),
    };

    return table_row(t, cells);
}

static enum err page_hosts(void *ctx, struct table *t, const struct wire_answer *a)
{
    enum err e = ERR_OK;

    (void)ctx;
    for (size_t i = 0; !e && i < a->n_coverage; i++) {
        e = put_host(t, a, &a->coverage[i]);
    }
    return e;
}

/* -- one line for each count -- */

static const struct table_column stage_columns[] = {
    {"host", "HOST", TABLE_TEXT},     {"stage", "STAGE", TABLE_TEXT},
    {"reason", "REASON", TABLE_TEXT}, {"role", "ROLE", TABLE_TEXT},
    {"count", "COUNT", TABLE_COUNT},  {"unit", "UNIT", TABLE_TEXT},
    {"loss", "LOSS", TABLE_FLAG},     {"first_time", NULL, TABLE_TIME},
    {"last_time", NULL, TABLE_TIME},
};

static enum err page_stages(void *ctx, struct table *t, const struct wire_answer *a)
{
    enum err e = ERR_OK;

    (void)ctx;
    for (size_t i = 0; i < a->n_coverage; i++) {
        const struct wire_coverage *c = &a->coverage[i];

        for (size_t k = 0; !e && k < c->n_stages; k++) {
            const struct wire_stage *s = &c->stages[k];
            const struct table_cell cells[] = {
                table_string(a->hosts[c->host].name),
                table_string(s->stage),
                table_string(s->reason),
                table_string(str_make(ledger_role_name(s->role))),
                table_count(s->count),
                table_string(str_make(ledger_unit_name(s->unit))),
                table_number(true, s->loss),
                table_number(s->first_ns != 0, s->first_ns),
                table_number(s->last_ns != 0, s->last_ns),
            };

            e = table_row(t, cells);
        }
    }
    return e;
}

static enum err read_last(struct cli *c, struct wire_query *q, struct errmsg *why)
{
    const char *last = opt_value(c->args, "last");

    if (last && (clk_parse_span(&q->last_ns, last) != ERR_OK || q->last_ns <= 0)) {
        return errmsg_set(why, ERR_USAGE, "--last: '%s' is not a time such as 15min or 2h", last);
    }
    if (last && (q->since_ns || q->until_ns)) {
        return errmsg_set(why, ERR_USAGE, "--last goes without --since and --until");
    }
    return ERR_OK;
}

static int coverage_body(struct cli *c)
{
    struct rows_table t = {.columns = host_columns,
                           .n = sizeof host_columns / sizeof *host_columns,
                           .yields = yields,
                           .page = page_hosts};
    struct wire_query q;
    struct errmsg why = {""};

    if (cli_query(c, &q, UINT32_MAX, &why) != ERR_OK || read_last(c, &q, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    q.stages = opt_flag(c->args, "stages");
    if (q.stages) {
        t.columns = stage_columns;
        t.n = sizeof stage_columns / sizeof *stage_columns;
        t.page = page_stages;
    }
    return rows_table(c, RPC_QUERY_COVERAGE, &q, &t);
}

const struct cli_command cmd_coverage = {&usage, coverage_body, CLI_NEEDS_COLLECTOR, NULL};
