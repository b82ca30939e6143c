#include "collector/clickhouse/ch_migrate.h"

#include <inttypes.h>
#include <string.h>

#include "collector/clickhouse/ch_native.h"
#include "common/base/clk.h"
#include "common/os/os.h"

#define LOOK_NS  (30 * CLK_S)
#define APPLY_NS (600 * CLK_S)
#define INDEX    ((size_t)8 << 20)

void ch_migrate_init(struct ch_migrate_plan *p)
{
    *p = (struct ch_migrate_plan){0};
    buf_init(&p->text, (size_t)4 << 20);
}

void ch_migrate_fini(struct ch_migrate_plan *p)
{
    buf_fini(&p->text);
}

/* Behind each statement that was put. */
static void statement_end(struct ch_migrate_plan *p)
{
    buf_put_u8(&p->text, 0);
    p->n++;
}

/* Whether there is such a thing; *type: of the column, else that of no interest. column NULL: the
 * table. */
static bool is_there(const struct ch_in *in, const char *table, const char *column,
                     struct str *type)
{
    const struct ch_in_column *tables = ch_native_column(in, "table");
    const struct ch_in_column *names = ch_native_column(in, "name");

    for (size_t i = 0; i < in->n_rows; i++) {
        if (str_eq(ch_native_get_str(tables, i), str_make(table)) &&
            (!column || str_eq(ch_native_get_str(names, i), str_make(column)))) {
            *type = ch_native_get_str(ch_native_column(in, "type"), i);
            return true;
        }
    }
    return false;
}

static enum err table_look(struct ch_migrate_plan *p, const struct ch_in *in,
                           const struct ch_layout *l, enum ch_table t, struct errmsg *why)
{
    const struct ch_column *columns;
    size_t n = ch_schema_columns(t, &columns);
    struct str type;

    if (!is_there(in, ch_schema_table(t), NULL, &type)) {
        ch_schema_create(&p->text, l, t);
        statement_end(p);
        return ERR_OK;
    }
    for (size_t i = 0; i < n; i++) {
        const char *wanted = ch_schema_type(l->dialect, columns[i].type, false);

        if (!is_there(in, ch_schema_table(t), columns[i].name, &type)) {
            ch_schema_add(&p->text, l, t, i);
            statement_end(p);
        } else if (!str_eq(type, str_make(wanted))) {
            return errmsg_set(why, ERR_REFUSED,
                              "column %s of table %s.%s has type %.*s and must have %s: it was "
                              "altered by somebody else, or made by another version of ClickHouse",
                              columns[i].name, l->database, ch_schema_table(t), (int)type.n, type.p,
                              wanted);
        }
    }
    return ERR_OK;
}

static void views_look(struct ch_migrate_plan *p, const struct ch_in *in, const struct ch_layout *l)
{
    static const char *const names[] = {"cell_once", "sample_once"};
    struct str type;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!is_there(in, names[i], NULL, &type)) {
            (void)ch_schema_view(&p->text, l, i);
            statement_end(p);
        }
    }
}

/* The row that says which version of the schema is there. */
static void version_put(struct ch_migrate_plan *p, const struct ch_layout *l)
{
    buf_printf(&p->text, "INSERT INTO `%s`.`schema` (version, applied, by) VALUES (%u, ",
               l->database, CH_SCHEMA_VERSION);
    ch_schema_time(&p->text, l->dialect, os_utc_ns());
    buf_put_str(&p->text, ", 'procfleet-collector " PROCFLEET_VERSION "')");
    statement_end(p);
}

static enum err version_look(struct ch_migrate_plan *p, struct ch_http *h, const struct ch_in *in,
                             const struct ch_layout *l, struct buf *reply, struct errmsg *why)
{
    struct str type;
    enum err e;

    if (is_there(in, "schema", NULL, &type)) {
        e = ch_http_ask(h, "SELECT max(version) FROM schema", LOOK_NS, reply, why);
        if (e || strcmp(buf_cstr(reply), "0\n") != 0) {
            p->empty = false;
            return e;
        }
    }
    version_put(p, l);
    return ERR_OK;
}

static enum err answer_look(struct ch_migrate_plan *p, struct ch_http *h, const struct ch_layout *l,
                            struct buf *reply, struct errmsg *why)
{
    struct buf second;
    struct ch_in in;
    enum err e;

    ch_native_in_init(&in, reply->p, reply->n, INDEX);
    e = ch_native_next(&in);
    if (e == ERR_END) {
        e = ERR_OK; /* no database, no table */
    } else if (e) {
        e = errmsg_set(why, ERR_CORRUPT, "%s sent something else than its columns: %s",
                       ch_http_url(h), err_text(e));
    }
    if (!e && !in.n_rows) {
        buf_printf(&p->text, "CREATE DATABASE IF NOT EXISTS `%s`", l->database);
        statement_end(p);
    }
    for (size_t t = 0; t < CH_TABLES && !e; t++) {
        e = table_look(p, &in, l, (enum ch_table)t, why);
    }
    if (!e) {
        views_look(p, &in, l);
        buf_init(&second, 4096);
        e = version_look(p, h, &in, l, &second, why);
        buf_fini(&second);
    }
    ch_native_in_fini(&in);
    return e ? e : p->text.bad;
}

enum err ch_migrate_look(struct ch_migrate_plan *p, struct ch_http *h, const struct ch_layout *l,
                         struct errmsg *why)
{
    struct buf sql, reply;
    enum err e;

    buf_reset(&p->text);
    p->n = 0;
    p->empty = true;
    buf_init(&sql, 4096);
    buf_init(&reply, CH_HTTP_REPLY_MAX);
    buf_put_str(&sql, "SELECT table, name, type FROM system.columns WHERE database = ");
    ch_schema_quote(&sql, str_make(l->database));
    /* One block: 12 tables, some 1,600 columns. */
    buf_put_str(&sql, " ORDER BY table, name LIMIT 10000 FORMAT Native");
    e = ch_http_ask_nowhere(h, buf_cstr(&sql), LOOK_NS, &reply, why);
    e = e ? e : answer_look(p, h, l, &reply, why);
    buf_fini(&reply);
    buf_fini(&sql);
    return e;
}

enum err ch_migrate_apply(const struct ch_migrate_plan *p, struct ch_http *h,
                          void (*done)(void *ctx, const char *sql), void *ctx, struct errmsg *why)
{
    const char *sql = (const char *)p->text.p;
    enum err e = ERR_OK;

    for (size_t i = 0; i < p->n && !e; i++, sql += strlen(sql) + 1) {
        if (done) {
            done(ctx, sql);
        }
        e = ch_http_ask_nowhere(h, sql, APPLY_NS, NULL, why);
    }
    return e;
}
