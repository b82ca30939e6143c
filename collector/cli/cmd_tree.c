#include <string.h>

#include "collector/cli/cli_client.h"
#include "collector/cli/rows.h"
#include "common/base/buf.h"
#include "common/os/os.h"

#define INDENT_MAX 40u /* generations that are indented */

static const struct opt opts[] = {
    {"at", 0, "TIME", "as it was then: 5m, 2h, or 2026-11-21T09:00:00Z (the newest data)", 0},
    CLI_OPT_HOST,
    CLI_OPTS_PROCESS,
    {"idle", 0, NULL, "show the idle process (pid 0) too", 0},
    {"limit", 'n', "N", "processes shown (all)", 0},
    CLI_OPTS_CONNECTION,
};

const struct opt_command cmd_tree_usage = {
    .program = "procfleet",
    .name = "tree",
    .brief = "who started whom: the processes of the hosts at a moment",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .sets = cli_sets,
    .examples = "  procfleet tree --host lab-7\n"
                "  procfleet tree --host lab-7 --at 2026-11-21T09:00:00Z\n"
                "  procfleet tree --host 'lab-*' --name 'sshd*' --format json\n"
                "\n"
                "With --pid or --name only those and their descendants are shown. Counters are "
                "totals at that moment;\n"
                "JSON and CSV carry the generation as depth.\n",
};

struct tree {
    const struct fields *f;
    struct table *sheet;
    bool indent;
    size_t rows;
    enum err e;
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

static void page(void *ctx, const struct wire_answer *a)
{
    struct table_cell cells[TABLE_COLUMNS];
    struct tree *t = ctx;

    for (size_t i = 0; i < a->n_rows && !t->e; i++) {
        struct buf text;

        buf_init(&text, 2 * INDENT_MAX + MODEL_TEXT_MAX + 1);
        fields_row(t->f, cells, a, &a->rows[i]);
        for (size_t k = 0; k < t->f->n && t->indent; k++) {
            if (t->f->what[k] == FIELD_NAME) {
                cells[k] = table_string(indented(&text, a->rows[i].info.name, a->rows[i].depth));
            }
        }
        t->e = table_row(t->sheet, cells);
        t->rows++;
        buf_fini(&text);
    }
}

static void note(void *ctx, struct str text)
{
    table_note(((struct tree *)ctx)->sheet, text);
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

static int ask(struct cli *c, struct wire_query *q, const struct fields *f)
{
    struct tree t = {.f = f, .indent = c->format == TABLE_AS_TABLE};
    struct cli_client *l;
    int code = CLI_FAILED;

    if (cli_client_open(&l, c, &code) != ERR_OK) {
        return code;
    }
    t.e = fields_sheet(f, c, &t.sheet, false);
    if (!t.e) {
        code = cli_client_ask(l, RPC_QUERY_TREE, q, page, note, &t);
        if (t.rows == 0 && code == CLI_OK) {
            table_note(t.sheet, str_make("no such processes"));
        }
    }
    table_end(t.sheet);
    cli_client_close(l);
    return t.e ? cli_fail(c, CLI_FAILED, "%s", err_text(t.e)) : code;
}

static int body(struct cli *c)
{
    struct fields f = {0};
    struct wire_query q;
    struct errmsg why = {""};

    if (cli_query(c, &q, 100000, &why) != ERR_OK ||
        cli_moment(c, "at", os_utc_ns(), &q.at_ns, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    q.idle = opt_flag(c->args, "idle");
    add_fields(&f, &q);
    return ask(c, &q, &f);
}

int cmd_tree(int argc, char **argv)
{
    return cli_main(&cmd_tree_usage, argc, argv, body);
}
