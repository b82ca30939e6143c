#include "collector/cli/rows.h"
#include "common/base/buf.h"
#include "common/os/os.h"

#define INDENT_MAX 40u /* generations that are indented */

static const struct opt opts[] = {
    {"at", 0, "WHEN",
     "as it was then: 5m, 14:02, 'yesterday 14:00', '2026-11-21 09:00' (the newest data)", 0},
    {"run", 0, "NAME", "at the end of this run, its hosts and processes; also NAME@3, NAME@ID", 0},
    CLI_OPT_HOST,
    CLI_OPT_LABEL,
    CLI_OPT_WHERE,
    CLI_OPTS_PROCESS,
    {"ancestors", 0, NULL, "with --pid, --name or --where: also those above", 0},
    {"idle", 0, NULL, "show the idle process (pid 0) too", 0},
    {"limit", 'n', "N", "processes shown (all)", 0},
    CLI_OPTS_CONNECTION,
};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "tree",
    .brief = "who started whom: the processes of the hosts at a moment",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet tree --host lab-7\n"
                "  procfleet tree --host lab-7 --at 2026-11-21T09:00:00Z\n"
                "  procfleet tree --host 'lab-*' --name 'sshd*' --format json\n"
                "  procfleet tree --host lab-7 --pid 4711 --ancestors\n"
                "\n"
                "With --pid or --name only those and their descendants are shown. Counters are "
                "totals at that moment;\n"
                "JSON and CSV carry the generation as depth.\n",
};

struct tree {
    const struct fields *f;
    bool indent;
};

/* The name, moved to the right by its generation. */
static struct str indented(struct buf *text, struct str name, uint32_t depth)
{
    for (uint32_t i = 0; i < depth && i < INDENT_MAX; i++) {
        buf_put_str(text, "  ");
    }
    buf_put(text, name.p, name.n);
    return str_make(buf_cstr(text));
}

static enum err tree_page(void *ctx, struct table *table, const struct wire_answer *a)
{
    struct table_cell cells[TABLE_COLUMNS];
    const struct tree *t = ctx;
    enum err e = ERR_OK;

    for (size_t i = 0; i < a->n_rows && !e; i++) {
        struct buf text;

        buf_init(&text, 2 * INDENT_MAX + MODEL_TEXT_MAX + 1);
        fields_row(t->f, cells, a, &a->rows[i]);
        for (size_t k = 0; k < t->f->n && t->indent; k++) {
            if (t->f->what[k] == FIELD_NAME) {
                cells[k] = table_string(indented(&text, a->rows[i].info.name, a->rows[i].depth));
            }
        }
        e = table_row(table, cells);
        buf_fini(&text);
    }
    return e;
}

static void add_fields(struct fields *f, struct wire_query *q)
{
    static const uint8_t shown[] = {M_CPU_TIME, M_CPU_PERCENT, M_WORKING_SET_SIZE, M_THREAD_COUNT};

    fields_add(f, FIELD_HOST, true);
    fields_add(f, FIELD_PID, true);
    fields_add(f, FIELD_NAME, true);
    fields_add(f, FIELD_DEPTH, false);
    fields_add(f, FIELD_USER, true);
    fields_add(f, FIELD_CREATE_TIME, true);
    for (size_t i = 0; i < sizeof shown; i++) {
        fields_add_metric(f, shown[i], true);
        q->metrics[q->n_metrics++] = shown[i];
    }
    fields_add(f, FIELD_COMMAND_LINE, true);
    fields_add(f, FIELD_TIME, false);
    rows_add_details(f);
}

static int tree_body(struct cli *c)
{
    struct fields f = {0};
    struct tree tree = {&f, c->format == TABLE_AS_TABLE};
    const struct rows_table t = {
        .fields = &f, .page = tree_page, .ctx = &tree, .none = "no such processes"};
    struct wire_query q;
    struct errmsg why = {""};

    if (cli_query(c, &q, 100000, &why) != ERR_OK ||
        cli_moment(c, "at", os_utc_ns(), &q.at_ns, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    q.idle = opt_flag(c->args, "idle");
    q.ancestors = opt_flag(c->args, "ancestors");
    add_fields(&f, &q);
    return rows_table(c, RPC_QUERY_TREE, &q, &t);
}

const struct cli_command cmd_tree = {&usage, tree_body, CLI_NEEDS_COLLECTOR, NULL};
