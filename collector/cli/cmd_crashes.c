/* Ends of processes that were no success, as the collector judges them (`ended`): its question is
 * that of events with a filter, so that nothing but them comes over the wire. */
#include <stdlib.h>
#include <string.h>

#include "collector/cli/ancestry.h"
#include "collector/cli/rows.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/lab/ended.h"
#include "common/text/table_kept.h"

#define CRASHES_LIMIT 100u
#define GROUPS_MAX    100000u
#define KEPT_MAX      ((size_t)512 << 20)

static const struct opt opts[] = {
    {"kind", 'k', "crash|killed|error,...",
     "crash: a fault of its own; killed; error: another "
     "exit code than 0 (crash)",
     1},
    {"group-by", 'g', "image|host|code", "how many of each instead of one by one", 0},
    {"ancestors", 0, NULL, "with the chain of parents instead of the parent", 0},
    {"limit", 'n', "N", "newest ones shown (100); with --group-by groups", 0},
    CLI_OPT_HOST,
    CLI_OPT_LABEL,
    CLI_OPT_WHERE,
    CLI_OPTS_RANGE,
    CLI_OPTS_PROCESS,
    CLI_OPTS_ANSWER,
    CLI_OPTS_CONNECTION,
};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "crashes",
    .brief = "which processes crashed, were killed or ended with an error",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet crashes --since 1d\n"
        "  procfleet crashes --kind crash,killed --host 'lab-*' --ancestors\n"
        "  procfleet crashes --kind error --where 'life < 1s' --since 1h\n"
        "  procfleet crashes --since 7d --group-by image\n"
        "\n"
        "On Linux a crash is SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGTRAP or SIGSYS, as "
        "the agent\n"
        "was told by the kernel; on Windows an exit code that an unhandled exception leaves.\n",
};

/* -- the question -- */

static const char *const kinds[] = {"crash", "killed", "error"};

/* "ended in [crash, error]", and the given filter. */
static enum err crashes_filter(struct cli *c, struct buf *out, struct str where, struct errmsg *why)
{
    const char *given[OPT_MANY_MAX];
    size_t n = opt_values(c->args, "kind", given, OPT_MANY_MAX);
    const char *between = "";

    buf_put_str(out, "ended in [");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bool wanted = n == 0 && i == 0;

        for (size_t k = 0; k < n; k++) {
            wanted = wanted || strstr(given[k], kinds[i]);
        }
        if (wanted) {
            buf_printf(out, "%s%s", between, kinds[i]);
            between = ", ";
        }
    }
    buf_put_str(out, "]");
    if (where.n) {
        buf_printf(out, " and (%.*s)", (int)where.n, where.p);
    }
    if (out->n > WIRE_WHERE_MAX) {
        return errmsg_set(why, ERR_USAGE, "--where: at most %u bytes with --kind", WIRE_WHERE_MAX);
    }
    return out->bad;
}

/* -- one by one -- */

static const struct table_column columns[] = {{"time", "TIME", TABLE_TIME},
                                              {"host", "HOST", TABLE_TEXT},
                                              {"name", "NAME", TABLE_TEXT},
                                              {"pid", "PID", TABLE_ID},
                                              {"ended", NULL, TABLE_WORD},
                                              {"ended_by", "ENDED", TABLE_WORD},
                                              {"exit_code", NULL, TABLE_EXIT},
                                              {"lived", "LIVED", TABLE_NS},
                                              {"user", NULL, TABLE_USER},
                                              {"parent_pid", NULL, TABLE_ID},
                                              {"parent_name", NULL, TABLE_TEXT},
                                              {"ancestors", "PARENT", TABLE_TEXT},
                                              {"command_line", "COMMAND", TABLE_TEXT}};

#define COLUMNS (sizeof columns / sizeof *columns)

static const char *const yields[] = {"LIVED", "PARENT", NULL};

struct crashes {
    const struct cli *c;
    uint32_t keep; /* the newest so many are shown */
    struct table *table;
    struct table_kept *list;
    size_t n_groups, cap_groups;
    struct crash_group *groups;
    uint8_t by; /* 0: one by one */
};

struct crash_group {
    char *key;
    size_t n;
    int64_t last_ns;
    char host[MODEL_HOST_NAME_MAX + 1]; /* of the last */
};

static enum err crash_row(struct crashes *x, const struct wire_answer *a,
                          const struct wire_event *ev)
{
    const struct proc_info *p = &ev->event.info, *parent = ev->n_ancestors ? ev->ancestors : NULL;
    char ended[ENDED_TEXT];
    struct table_cell cells[COLUMNS];
    struct buf chain;
    size_t shown = opt_flag(x->c->args, "ancestors") ? WIRE_ANCESTORS : 1, n = 0;
    enum err e;

    buf_init(&chain, ANCESTRY_TEXT);
    ancestry_put(&chain, ev, shown);
    cells[n++] = table_number(true, ev->event.wall_ns);
    cells[n++] = field_of_event(FIELD_HOST, a, ev, NULL);
    cells[n++] = field_of_event(FIELD_NAME, a, ev, NULL);
    cells[n++] = field_of_event(FIELD_PID, a, ev, NULL);
    cells[n++] = field_of_event(FIELD_KIND_OF_END, a, ev, NULL);
    cells[n++] = table_string(str_make(ended_text(ended, p)));
    cells[n++] = field_of_event(FIELD_EXIT_CODE, a, ev, NULL);
    cells[n++] = field_of_event(FIELD_LIVED, a, ev, NULL);
    cells[n++] = field_of_event(FIELD_USER, a, ev, NULL);
    cells[n++] = field_of_event(FIELD_PARENT_PID, a, ev, NULL);
    cells[n++] = table_string(parent ? parent->name : (struct str){NULL, 0});
    cells[n++] = table_string((struct str){(const char *)chain.p, chain.n});
    cells[n++] = field_of_event(FIELD_COMMAND_LINE, a, ev, NULL);
    e = table_kept_add(x->list, cells);
    buf_fini(&chain);
    return e;
}

static enum err crashes_print(struct crashes *x)
{
    size_t n = table_kept_count(x->list), first = n > x->keep ? n - x->keep : 0;
    char text[96];
    enum err e = ERR_OK;

    for (size_t i = first; !e && i < n; i++) {
        e = table_row(x->table, table_kept_row(x->list, i));
    }
    if (first) {
        (void)snprintf(text, sizeof text, "the newest %zu of %zu are shown; --limit shows more",
                       n - first, n);
        table_note(x->table, str_make(text));
    }
    return e;
}

/* -- counted -- */

static const struct table_column group_columns[] = {{"group", "GROUP", TABLE_TEXT},
                                                    {"count", "COUNT", TABLE_COUNT},
                                                    {"last_time", "LAST", TABLE_TIME},
                                                    {"last_host", "LAST_HOST", TABLE_TEXT}};

static enum err group_add(struct crashes *x, struct str key, const struct wire_answer *a,
                          const struct wire_event *ev)
{
    struct str host = a->hosts[ev->host].name;
    struct crash_group *g = NULL;

    for (size_t i = 0; i < x->n_groups && !g; i++) {
        g = str_eq(str_make(x->groups[i].key), key) ? &x->groups[i] : NULL;
    }
    if (!g) {
        enum err e = VEC_ROOM(&x->groups, &x->cap_groups, x->n_groups + 1, GROUPS_MAX);

        if (e) {
            return e;
        }
        g = &x->groups[x->n_groups];
        *g = (struct crash_group){.key = mem_strndup(key.p, key.n)};
        if (!g->key) {
            return ERR_NOMEM;
        }
        x->n_groups++;
    }
    g->n++;
    g->last_ns = ev->event.wall_ns;
    (void)snprintf(g->host, sizeof g->host, "%.*s", (int)host.n, host.p);
    return ERR_OK;
}

static int group_order(const void *a, const void *b)
{
    const struct crash_group *x = a, *y = b;

    return x->n != y->n ? (x->n < y->n ? 1 : -1) : strcmp(x->key, y->key);
}

static enum err groups_print(struct crashes *x)
{
    enum err e = ERR_OK;

    if (x->n_groups) {
        qsort(x->groups, x->n_groups, sizeof *x->groups, group_order);
    }
    for (size_t i = 0; !e && i < x->n_groups && i < x->keep; i++) {
        const struct crash_group *g = &x->groups[i];
        const struct table_cell cells[] = {table_string(str_make(g->key)), table_count(g->n),
                                           table_number(true, g->last_ns),
                                           table_string(str_make(g->host))};

        e = table_row(x->table, cells);
    }
    return e;
}

static enum err crashes_page(void *ctx, struct table *t, const struct wire_answer *a)
{
    struct crashes *x = ctx;
    enum err e = ERR_OK;

    x->table = t;
    for (size_t i = 0; !e && i < a->n_events; i++) {
        const struct wire_event *ev = &a->events[i];
        char code[ENDED_TEXT];

        if (x->by == 0) {
            e = crash_row(x, a, ev);
        } else {
            struct str key = x->by == 1   ? ev->event.info.name
                             : x->by == 2 ? a->hosts[ev->host].name
                                          : str_make(ended_text(code, &ev->event.info));

            e = group_add(x, key.n ? key : str_make("-"), a, ev);
        }
    }
    return e;
}

static enum err crashes_end(void *ctx, struct table *t)
{
    struct crashes *x = ctx;

    x->table = t;
    return x->by ? groups_print(x) : crashes_print(x);
}

static void crashes_fini(struct crashes *x)
{
    for (size_t i = 0; i < x->n_groups; i++) {
        mem_free(x->groups[i].key);
    }
    table_kept_destroy(x->list);
    mem_free(x->groups);
}

static int crashes_body(struct cli *c)
{
    struct crashes x = {.c = c};
    struct rows_table t = {.columns = columns,
                           .n = COLUMNS,
                           .yields = yields,
                           .page = crashes_page,
                           .end = crashes_end,
                           .ctx = &x,
                           .none = "nothing ended like that in this range; --since looks further "
                                   "back, --kind at other ends"};
    struct wire_query q;
    struct errmsg why = {""};
    struct buf where;
    int code;

    buf_init(&where, 2 * WIRE_WHERE_MAX);
    if (cli_query(c, &q, CRASHES_LIMIT, &why) != ERR_OK ||
        crashes_filter(c, &where, q.events.where, &why) != ERR_OK) {
        buf_fini(&where);
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    if (table_kept_create(&x.list, COLUMNS, KEPT_MAX) != ERR_OK) {
        buf_fini(&where);
        return cli_fail(c, CLI_FAILED, "out of memory");
    }
    x.keep = q.limit;
    t.counted = !opt_value(c->args, "group-by");
    x.by = !t.counted ? (uint8_t)(1 + cli_word(c, "group-by", 0)) : 0;
    if (x.by) {
        t.columns = group_columns;
        t.n = sizeof group_columns / sizeof *group_columns;
        t.yields = NULL;
    }
    q.limit = UINT32_MAX; /* the newest are at the end */
    q.kinds = 1u << LIFE_PROCESS_STOP;
    q.ancestors = x.by == 0;
    q.events.where = (struct str){(const char *)where.p, where.n};
    code = rows_table(c, RPC_QUERY_EVENTS, &q, &t);
    crashes_fini(&x);
    buf_fini(&where);
    return code;
}

const struct cli_command cmd_crashes = {&usage, crashes_body, CLI_NEEDS_COLLECTOR, NULL};
