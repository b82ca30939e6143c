/* procfleet-collector clickhouse: look at, make and fill the tables there. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collector/clickhouse/ch_check.h"
#include "collector/clickhouse/ch_forward.h"
#include "collector/clickhouse/ch_migrate.h"
#include "collector/clickhouse/ch_native.h"
#include "collector/cmd/collector_cmd.h"
#include "collector/conf/collector_conf.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/os/os.h"

#define PROGRAM   "procfleet-collector clickhouse"
#define ASK_NS    (30 * CLK_S)
#define REPLY_MAX ((size_t)4 << 20)
#define OPT_CONFIG                                                              \
    {                                                                           \
        "config", 'c', "FILE", "YAML file with the collector's settings", false \
    }
#define OPT_SET                                                       \
    {                                                                 \
        "set", 's', "KEY=VALUE", "one setting, over the file's", true \
    }
#define OPT_FORMAT                                                                 \
    {                                                                              \
        "format", 'f', "table|json|csv", "how it is printed; default table", false \
    }

/* -- what all of them begin with -- */

struct clickhouse {
    struct collector_conf conf;
    struct ch_conf ch;
    struct ch_http *http; /* NULL: not asked for */
};

static void clickhouse_close(struct clickhouse *c)
{
    ch_http_close(c->http);
    ch_conf_fini(&c->ch);
    collector_conf_fini(&c->conf);
}

static enum err clickhouse_open(struct clickhouse *c, const struct opt_args *a, bool server,
                                struct errmsg *why)
{
    const char *sets[OPT_MANY_MAX];
    size_t n_sets = opt_values(a, "set", sets, OPT_MANY_MAX);
    enum err e;

    *c = (struct clickhouse){.http = NULL};
    e = collector_conf_load(&c->conf, opt_value(a, "config"), sets, n_sets, why);
    e = e ? e : ch_conf_read(&c->ch, c->conf.source, c->conf.data_dir, why);
    if (e) {
        return e == ERR_NOMEM ? e : ERR_USAGE;
    }
    if (!c->ch.on) {
        return errmsg_set(why, ERR_USAGE,
                          "clickhouse.urls is not set: name the servers in --config, or --set "
                          "clickhouse.urls=http://127.0.0.1:8123");
    }
    return server ? ch_http_open(&c->http, &c->ch.server, why) : ERR_OK;
}

/* -- check -- */

static const struct opt check_opts[] = {OPT_CONFIG, OPT_SET, OPT_FORMAT};

static int check_run(const struct opt_args *a);

static const struct opt_command check_options = {
    .program = PROGRAM,
    .name = "check",
    .brief = "whether the servers can be reached and have the tables; what is not sent",
    .opts = check_opts,
    .n_opts = sizeof check_opts / sizeof *check_opts,
    .sets = cmd_conf_sets,
    .examples = "  " PROGRAM " check --config /etc/procfleet/collector.yaml\n",
    .action = &(const struct opt_action){.judge = check_run},
};

static int check_run(const struct opt_args *a)
{
    struct clickhouse c;
    struct check_result_print report;
    struct findings all = {.found = check_result_print_found, .ctx = &report};
    struct errmsg why = {""};
    enum table_format format;
    enum err e = collector_cmd_format(&format, a, &why);

    if (e) {
        return collector_cmd_complain(&check_options, e, why.text);
    }
    e = clickhouse_open(&c, a, false, &why);
    e = e ? e : check_result_print_begin(&report, format);
    if (!e) {
        ch_check_run(&all, &c.ch, c.conf.data_dir, os_utc_ns());
        e = check_result_print_end(&report, &all);
    }
    clickhouse_close(&c);
    if (e) {
        return collector_cmd_complain(&check_options, e, why.text);
    }
    return all.count[CHECK_RESULT_FAILED] > 0 ? COLLECTOR_CMD_FAILED : COLLECTOR_CMD_DONE;
}

/* -- migrate -- */

static const struct opt migrate_opts[] = {
    OPT_CONFIG,
    OPT_SET,
    {"dry-run", 0, NULL, "print the statements, change nothing", false},
};

static enum err migrate_run(const struct opt_args *a, struct errmsg *why);

static const struct opt_command migrate_options = {
    .program = PROGRAM,
    .name = "migrate",
    .brief = "make what the tables lack, on every server; may be repeated at any time",
    .opts = migrate_opts,
    .n_opts = sizeof migrate_opts / sizeof *migrate_opts,
    .sets = cmd_conf_sets,
    .examples =
        "  " PROGRAM " migrate --dry-run --config /etc/procfleet/collector.yaml\n"
        "  " PROGRAM " migrate --config /etc/procfleet/collector.yaml\n"
        "\nTables and columns are added, nothing is dropped or altered. Migrate, then start "
        "new collectors, then new agents.\n",
    .action = &(const struct opt_action){.run = migrate_run},
};

static void statement_show(void *ctx, const char *sql)
{
    (void)ctx;
    printf("%.*s%s\n", 100, sql, strlen(sql) > 100 ? " ..." : "");
    (void)fflush(stdout);
}

static enum err server_migrate(struct clickhouse *c, struct ch_migrate_plan *plan, bool dry,
                               struct errmsg *why)
{
    struct ch_layout layout = {.database = c->ch.server.database,
                               .replicated = c->ch.server.n_urls > 1,
                               .keep = c->ch.keep};
    const char *sql;
    enum err e = ch_http_connect(c->http, why);

    layout.dialect = ch_http_dialect(c->http);
    e = e ? e : ch_migrate_look(plan, c->http, &layout, why);
    if (e) {
        return e;
    }
    if (!plan->n) {
        printf("%s: nothing to do\n", ch_http_url(c->http));
        return ERR_OK;
    }
    if (!dry) {
        e = ch_migrate_apply(plan, c->http, statement_show, NULL, why);
        if (!e) {
            printf("%s: %zu %s done\n", ch_http_url(c->http), plan->n,
                   plural(plan->n, "statement", "statements"));
        }
        return e;
    }
    sql = (const char *)plan->text.p;
    for (size_t i = 0; i < plan->n; i++, sql += strlen(sql) + 1) {
        printf("%s;\n", sql);
    }
    return ERR_OK;
}

static enum err migrate_run(const struct opt_args *a, struct errmsg *why)
{
    struct clickhouse c;
    struct ch_migrate_plan plan;
    enum err e = clickhouse_open(&c, a, true, why);

    ch_migrate_init(&plan);
    for (size_t i = 0; !e && i < ch_http_urls(c.http); i++) {
        ch_http_choose(c.http, i);
        e = server_migrate(&c, &plan, opt_flag(a, "dry-run"), why);
    }
    ch_migrate_fini(&plan);
    clickhouse_close(&c);
    return e;
}

/* -- status -- */

static const struct opt status_opts[] = {OPT_CONFIG, OPT_SET, OPT_FORMAT};

static enum err status_run(const struct opt_args *a, struct errmsg *why);

static const struct opt_command status_options = {
    .program = PROGRAM,
    .name = "status",
    .brief = "rows and bytes of each table, and what each collector has sent",
    .opts = status_opts,
    .n_opts = sizeof status_opts / sizeof *status_opts,
    .sets = cmd_conf_sets,
    .examples = "  " PROGRAM " status --config /etc/procfleet/collector.yaml\n",
    .action = &(const struct opt_action){.run = status_run},
};

static const struct table_column status_columns[] = {
    {"table", "TABLE", TABLE_TEXT},
    {"rows", "ROWS", TABLE_COUNT},
    {"bytes", "SIZE", TABLE_BYTES},
    {"parts", "PARTS", TABLE_COUNT},
};

static enum err status_rows(struct table *t, const struct ch_in *in)
{
    enum err e = ERR_OK;

    for (size_t i = 0; i < in->n_rows && !e; i++) {
        const struct table_cell cells[] = {
            table_string(ch_native_get_str(ch_native_column(in, "table"), i)),
            table_number(true, (int64_t)ch_native_get(ch_native_column(in, "rows"), i)),
            table_number(true, (int64_t)ch_native_get(ch_native_column(in, "size"), i)),
            table_number(true, (int64_t)ch_native_get(ch_native_column(in, "parts"), i)),
        };

        e = table_row(t, cells);
    }
    return e;
}

/* One note for each collector. */
static enum err status_collectors(struct table *t, const struct ch_in *in)
{
    int64_t now_ns = os_utc_ns();
    char text[256];

    for (size_t i = 0; i < in->n_rows; i++) {
        struct str name = ch_native_get_str(ch_native_column(in, "name"), i);
        int64_t newest_ns = (int64_t)ch_native_get(ch_native_column(in, "newest"), i);

        (void)snprintf(
            text, sizeof text,
            "collector %.*s sent %" PRIu64 " %s, the newest of %" PRId64 " s ago", (int)name.n,
            name.p, ch_native_get(ch_native_column(in, "batches"), i),
            plural(ch_native_get(ch_native_column(in, "batches"), i), "batch", "batches"),
            (int64_t)(clk_sub(now_ns, newest_ns) / CLK_S));
        table_note(t, str_make(text));
    }
    return ERR_OK;
}

static enum err status_ask(struct clickhouse *c, struct table *t, const char *sql,
                           enum err (*each)(struct table *t, const struct ch_in *in),
                           struct errmsg *why)
{
    struct buf reply;
    struct ch_in in;
    enum err e;

    buf_init(&reply, REPLY_MAX);
    e = ch_http_ask(c->http, sql, ASK_NS, &reply, why);
    ch_native_in_init(&in, reply.p, reply.n, REPLY_MAX);
    while (!e) {
        e = ch_native_next(&in);
        e = e ? e : each(t, &in);
    }
    ch_native_in_fini(&in);
    buf_fini(&reply);
    return e == ERR_END ? ERR_OK : e;
}

static enum err status_print(struct clickhouse *c, const struct opt_args *a, struct errmsg *why)
{
    struct table *t = NULL;
    struct buf sql;
    enum err e = ch_http_connect_any(c->http, CH_HTTP_CONNECT_NS, why);

    e = e ? e
          : collector_cmd_table(&t, a, status_columns,
                                sizeof status_columns / sizeof *status_columns,
                                (const char *const[]){NULL}, why);
    buf_init(&sql, 4096);
    if (!e) {
        buf_put_str(&sql, "SELECT table, sum(rows) AS rows, sum(bytes_on_disk) AS size, count() AS "
                          "parts FROM system.parts WHERE active AND database = ");
        ch_schema_quote(&sql, str_make(c->ch.server.database));
        buf_put_str(&sql, " GROUP BY table ORDER BY table FORMAT Native");
        e = status_ask(c, t, buf_cstr(&sql), status_rows, why);
    }
    if (!e) {
        buf_reset(&sql);
        buf_put_str(&sql, "SELECT collector AS name, max(");
        ch_schema_ns(&sql, ch_http_dialect(c->http), "received");
        buf_printf(
            &sql,
            ") AS newest, uniqExact(host_id, stream, seq) AS batches FROM batch WHERE kind = "
            "%d GROUP BY name ORDER BY name FORMAT Native",
            CH_STORED);
        e = status_ask(c, t, buf_cstr(&sql), status_collectors, why);
    }
    buf_fini(&sql);
    table_end(t);
    return e;
}

static enum err status_run(const struct opt_args *a, struct errmsg *why)
{
    struct clickhouse c;
    enum err e = clickhouse_open(&c, a, true, why);

    e = e ? e : status_print(&c, a, why);
    clickhouse_close(&c);
    return e;
}

/* -- forward -- */

static const struct opt forward_opts[] = {
    OPT_CONFIG,
    OPT_SET,
    {"since", 0, "TIME", "from this moment on: 2026-11-21T09:00:00Z, or 2h for two hours ago",
     false},
    {"until", 0, "TIME", "before this moment; default now", false},
    {"host", 0, "GLOB", "only hosts of this name", false},
};

static enum err forward_run(const struct opt_args *a, struct errmsg *why);

static const struct opt_command forward_options = {
    .program = PROGRAM,
    .name = "forward",
    .brief = "have the running collector send again what its store holds; harmless when repeated",
    .opts = forward_opts,
    .n_opts = sizeof forward_opts / sizeof *forward_opts,
    .sets = cmd_conf_sets,
    .examples = "  " PROGRAM " forward --since 2h --config /etc/procfleet/collector.yaml\n",
    .action = &(const struct opt_action){.run = forward_run},
};

static enum err forward_time(int64_t *ns, const struct opt_args *a, const char *option,
                             struct errmsg *why)
{
    const char *text = opt_value(a, option);

    if (text && clk_parse_when(ns, text, os_utc_ns()) != ERR_OK) {
        return errmsg_set(why, ERR_USAGE,
                          "--%s takes a moment such as 2026-11-21T09:00:00Z, or 2h, not '%s'",
                          option, text);
    }
    return ERR_OK;
}

static bool is_running(const struct collector_conf *conf)
{
    char *path = os_path_join(conf->data_dir, "lock");
    struct os_lock *lock = NULL;
    bool running = path && os_exists(path) && os_lock(&lock, path) == ERR_BUSY;

    os_unlock(lock);
    mem_free(path);
    return running;
}

static enum err forward_ask(struct clickhouse *c, const struct opt_args *a, struct errmsg *why)
{
    int64_t since_ns = 0, until_ns = os_utc_ns();
    uint64_t batches = 0;
    struct errmsg failed = {""};
    enum err e = opt_value(a, "since") ? ERR_OK : ERR_USAGE;

    if (e) {
        return errmsg_set(why, e, "--since says from when on, such as --since 2h");
    }
    e = forward_time(&since_ns, a, "since", why);
    e = e ? e : forward_time(&until_ns, a, "until", why);
    if (e) {
        return e;
    }
    if (!is_running(&c->conf)) {
        return errmsg_set(why, ERR_NOTFOUND,
                          "no collector runs with %s: start it, it has the store",
                          c->conf.data_dir);
    }
    e = ch_forward_ask(c->conf.data_dir, since_ns, until_ns, collector_cmd_value_or(a, "host", "*"),
                       why);
    while (!e && !ch_forward_done(c->conf.data_dir, &batches, &failed)) {
        if (!is_running(&c->conf)) {
            return errmsg_set(why, ERR_CLOSED,
                              "the collector was stopped; it goes on when it is "
                              "started again");
        }
        os_sleep_ns(CLK_S / 5);
    }
    if (!e && failed.text[0]) {
        e = errmsg_set(why, ERR_IO, "ended after %" PRIu64 " %s: %s; ask again", batches,
                       plural(batches, "batch", "batches"), failed.text);
    }
    if (!e) {
        printf("%" PRIu64 " %s sent\n", batches, plural(batches, "batch", "batches"));
    }
    return e;
}

static enum err forward_run(const struct opt_args *a, struct errmsg *why)
{
    struct clickhouse c;
    enum err e = clickhouse_open(&c, a, false, why);

    e = e ? e : forward_ask(&c, a, why);
    clickhouse_close(&c);
    return e;
}

/* -- forget-collector -- */

static const struct opt forget_opts[] = {OPT_CONFIG, OPT_SET};

static enum err forget_run(const struct opt_args *a, struct errmsg *why);

static const struct opt_command forget_options = {
    .program = PROGRAM,
    .name = "forget-collector",
    .brief = "a collector that is gone for good; what it sent stays",
    .operands = "NAME",
    .opts = forget_opts,
    .n_opts = sizeof forget_opts / sizeof *forget_opts,
    .sets = cmd_conf_sets,
    .examples = "  " PROGRAM " forget-collector old-1 --config /etc/procfleet/collector.yaml\n",
    .action = &(const struct opt_action){.run = forget_run},
};

static enum err forget_name(struct clickhouse *c, const char *name, struct errmsg *why)
{
    enum ch_dialect d;
    struct buf sql, reply;
    enum err e = ch_http_connect_any(c->http, CH_HTTP_CONNECT_NS, why);

    d = ch_http_dialect(c->http);
    buf_init(&sql, 4096);
    buf_init(&reply, 4096);
    if (!e) {
        buf_put_str(&sql, "SELECT count() FROM collector WHERE name = ");
        ch_schema_quote(&sql, str_make(name));
        e = ch_http_ask(c->http, buf_cstr(&sql), ASK_NS, &reply, why);
    }
    if (!e && strcmp(buf_cstr(&reply), "0\n") == 0) {
        e = errmsg_set(why, ERR_NOTFOUND, "no collector of that name ever sent anything");
    }
    if (!e) {
        buf_reset(&sql);
        buf_put_str(&sql, "INSERT INTO collector (name, version, seen) VALUES (");
        ch_schema_quote(&sql, str_make(name));
        buf_put_str(&sql, ", '" CH_FORGOTTEN "', ");
        ch_schema_time(&sql, d, os_utc_ns());
        buf_put_str(&sql, ")");
        e = ch_http_ask(c->http, buf_cstr(&sql), ASK_NS, NULL, why);
    }
    buf_fini(&reply);
    buf_fini(&sql);
    return e;
}

static enum err forget_run(const struct opt_args *a, struct errmsg *why)
{
    struct clickhouse c;
    char **names;
    enum err e;

    if (opt_operands(a, &names) != 1) {
        return errmsg_set(why, ERR_USAGE, "one name is wanted");
    }
    e = clickhouse_open(&c, a, true, why);
    e = e ? e : forget_name(&c, names[0], why);
    clickhouse_close(&c);
    return e;
}

/* -- the command of commands -- */

static const struct opt_command *const subs[] = {&check_options, &migrate_options, &status_options,
                                                 &forward_options, &forget_options};

const struct opt_command cmd_clickhouse_options = {
    .program = "procfleet-collector",
    .name = "clickhouse",
    .brief = "look at, make and fill the tables in ClickHouse",
    .operands = "COMMAND",
    .subs = subs,
    .n_subs = sizeof subs / sizeof *subs,
    .examples = "  " PROGRAM " check --config /etc/procfleet/collector.yaml\n"
                "  " PROGRAM " migrate --config /etc/procfleet/collector.yaml\n",
};
