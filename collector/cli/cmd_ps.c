#include <stdlib.h>
#include <string.h>

#include "collector/cli/cli_client.h"
#include "collector/cli/rows.h"
#include "common/base/mem.h"
#include "common/base/vec.h"

static const struct opt opts[] = {
    CLI_OPT_HOST,
    CLI_OPT_LABEL,
    CLI_OPT_WHERE,
    CLI_OPTS_PROCESS,
    {"all", 'a', NULL,
     "also processes that ended inside the time range (with --run always); JSON and CSV: every "
     "metric",
     0},
    CLI_OPTS_RANGE,
    {"idle", 0, NULL, "show the idle process (pid 0) too", 0},
    {"limit", 'n', "N", "processes shown (all)", 0},
    CLI_OPTS_ANSWER,
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
        "Counters are totals since the process began; JSON and CSV carry the metrics the host "
        "supplies, with --all\nalso those that few systems have.\n"
        "\n" CLI_ABSENT,
};

static const uint8_t shown[] = {M_THREAD_COUNT, M_CPU_TIME, M_WORKING_SET_SIZE};

/* -- the metrics of page 1: an answer holds 64, so that with --all they are asked for before -- */

#define PS_ROWS_MAX 1000000u

struct ps_row {
    struct uuid host, boot;
    struct proc_id id;
    int64_t create_ns;
    uint64_t have;
    int64_t *values; /* owned */
};

struct ps {
    const struct fields *f;
    struct wire_query asked; /* its metrics alone, */
    struct wire_answer more; /* and those that were answered */
    struct ps_row *rows;     /* sorted once all have come */
    bool refused;            /* by an older collector */
    size_t n, cap;
    enum err e;
};

static void ps_fini(struct ps *x)
{
    for (size_t i = 0; i < x->n; i++) {
        mem_free(x->rows[i].values);
    }
    mem_free(x->rows);
}

static int ps_order(const void *pa, const void *pb)
{
    const struct ps_row *a = pa, *b = pb;
    int d = memcmp(a->host.b, b->host.b, sizeof a->host.b);

    d = d ? d : memcmp(a->boot.b, b->boot.b, sizeof a->boot.b);
    d = d ? d : (a->id.pid > b->id.pid) - (a->id.pid < b->id.pid);
    d = d ? d : (a->id.start > b->id.start) - (a->id.start < b->id.start);
    return d ? d : (a->create_ns > b->create_ns) - (a->create_ns < b->create_ns);
}

static struct ps_row ps_key(const struct wire_answer *a, const struct wire_row *row)
{
    return (struct ps_row){.host = a->hosts[row->host].id,
                           .boot = a->hosts[row->host].boot,
                           .id = row->info.id,
                           .create_ns = row->info.create_ns};
}

static void ps_more_take(void *ctx, const struct wire_answer *a)
{
    struct ps *x = ctx;

    x->more.n_metrics = a->n_metrics;
    memcpy(x->more.metrics, a->metrics, sizeof x->more.metrics);
    for (size_t i = 0; i < a->n_rows && !x->e; i++) {
        struct ps_row row = ps_key(a, &a->rows[i]);

        x->e = VEC_ROOM(&x->rows, &x->cap, x->n + 1, PS_ROWS_MAX);
        row.have = a->rows[i].have;
        row.values = x->e ? NULL : mem_dup(a->rows[i].values, a->n_metrics * sizeof *row.values);
        if (!x->e && !row.values) {
            x->e = ERR_NOMEM;
        }
        if (!x->e) {
            x->rows[x->n++] = row;
        }
    }
}

/* What their notes say the other question's do, too. */
static enum err ps_more_pages(struct cli_client *l, struct wire_query *q, struct ps *x,
                              struct errmsg *why)
{
    struct cli_client_cursor next = {.n = 1};
    const uint32_t limit = q->limit;
    struct wire_answer *a;
    enum err e = ERR_OK;

    while (!e && next.n && x->n < limit) {
        q->limit = limit - x->n < WIRE_ROWS_MAX ? limit - (uint32_t)x->n : WIRE_ROWS_MAX;
        e = cli_client_fetch(l, RPC_QUERY_PROCESSES, q, &a, &next, why);
        if (!e) {
            ps_more_take(x, a);
            wire_answer_free(a);
            q->cursor = (struct str){next.bytes, next.n};
            e = x->e ? errmsg_set(why, x->e, "%s", err_text(x->e)) : ERR_OK;
        }
    }
    return e;
}

static int ps_ask_more(struct cli *c, const struct wire_query *q, struct ps *x)
{
    struct wire_query more = *q;
    struct errmsg why = {""};
    struct cli_client *l;
    int code = CLI_FAILED;
    enum err e;

    more.n_metrics = 0;
    for (const struct metric *m = metric_next(NULL); m; m = metric_next(m)) {
        if (m->column && m->id >= METRIC_PAGE) {
            more.metrics[more.n_metrics++] = m->id;
        }
    }
    x->asked = more;
    if (cli_client_open(&l, c, &code) != ERR_OK) {
        return code;
    }
    e = ps_more_pages(l, &more, x, &why);
    cli_client_close(l);
    x->refused = e == ERR_REFUSED; /* the other question says why, unless it is for these metrics */
    if (e && !x->refused) {
        return cli_fail(c, cli_client_exit(e), "%s", why.text);
    }
    if (x->n > 1) {
        qsort(x->rows, x->n, sizeof *x->rows, ps_order);
    }
    return CLI_OK;
}

static enum err ps_page(void *ctx, struct table *t, const struct wire_answer *a)
{
    struct ps *x = ctx;
    struct table_cell cells[TABLE_COLUMNS];
    enum err e = ERR_OK;

    if (x->refused) {
        table_note(t, str_make("this collector is older: it refuses metrics that it does not know, "
                               "and further ones are left out"));
    }
    x->refused = false;
    rows_note_unknown(t, &x->asked, &x->more);
    x->asked.n_metrics = 0; /* once */
    for (size_t i = 0; i < a->n_rows && !e; i++) {
        const struct ps_row key = ps_key(a, &a->rows[i]), *more = NULL;
        struct wire_row row = {0};

        fields_row(x->f, cells, a, &a->rows[i]);
        more = x->n ? bsearch(&key, x->rows, x->n, sizeof key, ps_order) : NULL;
        if (more) {
            row.have = more->have;
            row.values = more->values;
        }
        for (size_t k = 0; k < x->f->n && more; k++) {
            if (x->f->what[k] >= (int)(FIELD_METRIC + METRIC_PAGE)) {
                cells[k] = field_of_row(x->f->what[k], &x->more, &row);
            }
        }
        e = table_row(t, cells);
    }
    return e;
}

static int ps_ask(struct cli *c, struct wire_query *q, const struct fields *f)
{
    struct ps x = {.f = f};
    const struct rows_table t = {
        .fields = f, .page = ps_page, .ctx = &x, .none = "no such processes", .counted = true};
    int code = ps_ask_more(c, q, &x);

    if (code == CLI_OK) {
        code = rows_table(c, RPC_QUERY_PROCESSES, q, &t);
    }
    ps_fini(&x);
    return code;
}

static int ps_body(struct cli *c)
{
    struct fields f = {0};
    struct wire_query q;
    struct errmsg why = {""};

    if (cli_query(c, &q, 100000, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    q.idle = opt_flag(c->args, "idle");
    q.exited = opt_flag(c->args, "all") || q.run.n; /* of a run that is over none lives */
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
        if (m->id < METRIC_PAGE && (m->column || m->id == M_CPU_PERCENT)) {
            fields_add_metric(&f, m->id, false);
            q.metrics[q.n_metrics++] = m->id;
        } else if (q.exited && m->column) {
            fields_add_metric(&f, m->id, false);
        }
    }
    fields_add(&f, FIELD_TIME, false);
    rows_add_details(&f);
    if (q.exited) {
        return ps_ask(c, &q, &f);
    }
    return rows_ask(c, RPC_QUERY_PROCESSES, &q, &f, false, "no such processes", NULL);
}

const struct cli_command cmd_ps = {&usage, ps_body, CLI_NEEDS_COLLECTOR, NULL};
