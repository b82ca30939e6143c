#include "collector/cli/rows.h"
#include "collector/cli/term/term.h"
#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/text/table_kept.h"

#define DEPTH_MAX 40u /* generations that are drawn */
#define KEPT_MAX  ((size_t)256 << 20)

static const struct opt opts[] = {
    {"at", 0, "WHEN",
     "as it was then: 5m, 14:02, 'yesterday 14:00', '2026-11-21 09:00' (the newest data)", 0},
    {"run", 0, "NAME",
     "all processes of this run's tree, or of its hosts those at its end; also NAME@3, NAME@ID", 0},
    CLI_OPT_HOST,
    CLI_OPT_LABEL,
    CLI_OPT_WHERE,
    CLI_OPTS_PROCESS,
    {"ancestors", 0, NULL, "with --pid, --name or --where: also those above", 0},
    {"idle", 0, NULL, "show the idle process (pid 0) too", 0},
    {"limit", 'n', "N", "processes shown (all)", 0},
    CLI_OPT_ENVELOPE,
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

/* Of tables the rows wait: whether a line goes on below a process is known with the next. */
struct tree {
    const struct fields *f;
    struct table_kept *kept; /* NULL: rows are printed as they come */
    size_t name, depth;      /* where these are among the cells */
};

static enum err tree_page(void *ctx, struct table *table, const struct wire_answer *a)
{
    struct table_cell cells[TABLE_COLUMNS];
    struct tree *t = ctx;
    enum err e = ERR_OK;

    for (size_t i = 0; i < a->n_rows && !e; i++) {
        fields_row(t->f, cells, a, &a->rows[i]);
        e = t->kept ? table_kept_add(t->kept, cells) : table_row(table, cells);
    }
    return e;
}

static size_t tree_depth(struct tree *t, size_t i)
{
    int64_t depth = table_kept_row(t->kept, i)[t->depth].number;

    return depth < DEPTH_MAX ? (size_t)depth : DEPTH_MAX;
}

/* Bit d of below[i]: behind row i comes another sibling of its ancestor at depth d, or, at its own
 * depth, one of its own. */
static void tree_look_ahead(struct tree *t, uint64_t *below)
{
    uint64_t open = 0;

    for (size_t i = table_kept_count(t->kept); i-- > 0;) {
        uint64_t own = UINT64_C(1) << tree_depth(t, i);

        open &= own | (own - 1);
        below[i] = open;
        open |= own;
    }
}

/* "│  └─ cc1" */
static struct str tree_name(struct buf *b, struct str name, size_t depth, uint64_t below)
{
    bool plain = !term_is_utf8();

    for (size_t d = 1; d < depth; d++) {
        bool on = below >> d & 1;

        buf_put_str(b, !on ? "   " : plain ? "|  " : "\u2502  ");
    }
    if (depth) {
        bool on = below >> depth & 1;

        buf_put_str(b, plain ? (on ? "|- " : "`- ") : on ? "\u251c\u2500 " : "\u2514\u2500 ");
    }
    buf_put(b, name.p, name.n);
    return str_make(buf_cstr(b));
}

static enum err tree_end(void *ctx, struct table *table)
{
    struct tree *t = ctx;
    size_t n = t->kept ? table_kept_count(t->kept) : 0;
    uint64_t *below = mem_array(n + 1, sizeof *below);
    enum err e = below ? ERR_OK : ERR_NOMEM;

    if (!e && n) {
        tree_look_ahead(t, below);
    }
    for (size_t i = 0; i < n && !e; i++) {
        struct table_cell *cells = table_kept_row(t->kept, i);
        struct buf text;

        buf_init(&text, 4 * DEPTH_MAX + MODEL_TEXT_MAX + 16);
        cells[t->name] =
            table_string(tree_name(&text, cells[t->name].text, tree_depth(t, i), below[i]));
        e = text.bad ? text.bad : table_row(table, cells);
        buf_fini(&text);
    }
    mem_free(below);
    return e;
}

static void add_fields(struct tree *tree, struct fields *f, struct wire_query *q)
{
    static const uint8_t shown[] = {M_CPU_TIME, M_CPU_PERCENT, M_WORKING_SET_SIZE, M_THREAD_COUNT};

    fields_add(f, FIELD_HOST, true);
    fields_add(f, FIELD_PID, true);
    tree->name = f->n;
    fields_add(f, FIELD_NAME, true);
    tree->depth = f->n;
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
    struct tree tree = {.f = &f};
    const struct rows_table t = {.fields = &f,
                                 .page = tree_page,
                                 .end = tree_end,
                                 .ctx = &tree,
                                 .none = "no such processes",
                                 .counted = true,
                                 .moment = true};
    struct wire_query q;
    struct errmsg why = {""};
    int code;

    if (cli_query(c, &q, 100000, &why) != ERR_OK ||
        cli_moment(c, "at", os_utc_ns(), &q.at_ns, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    q.idle = opt_flag(c->args, "idle");
    q.ancestors = opt_flag(c->args, "ancestors");
    add_fields(&tree, &f, &q);
    if (c->format == TABLE_AS_TABLE && table_kept_create(&tree.kept, f.n, KEPT_MAX) != ERR_OK) {
        return cli_fail(c, CLI_FAILED, "out of memory");
    }
    code = rows_table(c, RPC_QUERY_TREE, &q, &t);
    table_kept_destroy(tree.kept);
    return code;
}

const struct cli_command cmd_tree = {&usage, tree_body, CLI_NEEDS_COLLECTOR, NULL};
