#include "collector/clickhouse/ch_view_ask.h"

#include <stdatomic.h>
#include <stdio.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/deadline.h"
#include "common/os/uuid.h"

#define STRINGS_MAX ((size_t)64 << 20) /* the index of one block's strings */

struct buf *ch_view_ask_begin(struct ch_view *v)
{
    buf_reset(&v->sql);
    return &v->sql;
}

void ch_view_ask_from(struct ch_view *v, enum ch_table t, bool final)
{
    buf_printf(&v->sql, " FROM `%s`.`%s`%s", v->conf.database, ch_schema_table(t),
               final ? " FINAL" : "");
}

void ch_view_ask_host(struct ch_view *v, size_t host)
{
    char text[UUID_TEXT];

    buf_printf(&v->sql, " host_id = toUUID('%s')", uuid_format(text, &v->hosts[host].id));
}

void ch_view_ask_when(struct ch_view *v, const char *name, const char *op, int64_t ns)
{
    buf_printf(&v->sql, " AND %s %s ", name, op);
    ch_schema_time(&v->sql, v->conf.dialect, ns);
}

void ch_view_ask_ns(struct ch_view *v, const char *name)
{
    ch_schema_ns(&v->sql, v->conf.dialect, name);
    buf_printf(&v->sql, " AS %s_ns", name);
}

bool ch_view_ask_is_hole(enum err e)
{
    return e && e != ERR_NOMEM && e != ERR_FULL && e != ERR_TIMEOUT && e != ERR_END;
}

/* Half of what is left, so that the rest of an answer has its time, too. */
static int64_t time_for(const struct deadline *d)
{
    int64_t left_ns = CH_VIEW_ASK_NS;

    if (d) {
        left_ns = clk_sub(atomic_load_explicit(&d->ns, memory_order_relaxed), os_mono_ns()) / 2;
    }
    return left_ns < CH_VIEW_ASK_NS ? left_ns : CH_VIEW_ASK_NS;
}

enum err ch_view_ask(struct ch_view *v, struct buf *reply, const struct deadline *deadline)
{
    int64_t left_ns = time_for(deadline ? deadline : v->conf.deadline);
    struct errmsg why = {""};
    const char *sql;
    enum err e;

    buf_put_str(&v->sql, " FORMAT Native");
    sql = buf_cstr(&v->sql);
    if (v->sql.bad || left_ns <= 0) {
        return v->sql.bad ? v->sql.bad : ERR_TIMEOUT;
    }
    if (v->down) {
        return ERR_BUSY;
    }
    buf_reset(reply);
    e = v->conf.ask(v->conf.ctx, sql, left_ns, reply, &why);
    e = e ? e : reply->bad;
    v->too_large = e == ERR_FULL;
    v->down = e == ERR_TIMEOUT || e == ERR_UNREACHABLE;
    return v->down ? ERR_BUSY : e;
}

enum err ch_view_ask_rows(struct ch_view *v, struct buf *reply, size_t columns,
                          const struct deadline *deadline,
                          enum err (*row)(void *ctx, const struct ch_in *in, size_t i), void *ctx)
{
    enum err e = ch_view_ask(v, reply, deadline);
    struct ch_in *in;

    if (e) {
        return e;
    }
    in = mem_alloc(sizeof *in);
    if (!in) {
        return ERR_NOMEM;
    }
    ch_native_in_init(in, reply->p, reply->n, STRINGS_MAX);
    while (!e && !(e = ch_native_next(in))) {
        if (in->n_columns != columns) {
            e = ERR_CORRUPT;
        }
        for (size_t i = 0; i < in->n_rows && !e; i++) {
            e = row(ctx, in, i);
        }
        if (e == ERR_END) { /* of `row` */
            break;
        }
    }
    ch_native_in_fini(in);
    mem_free(in);
    return e == ERR_END ? ERR_OK : e == ERR_UNSUPPORTED ? ERR_CORRUPT : e;
}

const char *ch_view_ask_from_of(char text[CH_VIEW_FROM], const struct ch_view *v, enum ch_table t,
                                const char *more)
{
    (void)snprintf(text, CH_VIEW_FROM, " FROM `%s`.`%s` WHERE @%s", v->conf.database,
                   ch_schema_table(t), more);
    return text;
}

const char *ch_view_ask_ns_of(char text[64], const struct ch_view *v, const char *column)
{
    struct buf b;

    buf_init(&b, 64);
    ch_schema_ns(&b, v->conf.dialect, column);
    (void)snprintf(text, 64, "%s AS %s_ns", buf_cstr(&b), column);
    buf_fini(&b);
    return text;
}
