/* One statement makes a tier's rows of some hosts: few enough that what the server holds for it, an
 * array a metric and row, stays below some hundred MB.
 *
 *     fold (batches 0, made)      so that nobody reads rows that are about to replace others
 *     minute, hour                from cell FINAL, from minute FINAL of this `made`
 *     fold (batches, made + 1)    rows have made + 1
 *
 * A crash in between leaves the hour unread until it is made again. Readers compare what `fold`
 * says with the ledger, so late batches need no order. Arrays are sorted by stamps, since servers
 * with several threads gather in any order. Aliases never have a column's name: it would stand for
 * the column in all of the statement. */
#include "collector/clickhouse/ch_fold.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/clickhouse/ch_native.h"
#include "collector/clickhouse/ch_rows.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/base/vec.h"

#define LOOK_NS    (60 * CLK_S)
#define FILL_NS    (600 * CLK_S)
#define CELLS_EACH 120000u /* cells of one statement */
#define HOSTS_EACH 256u
#define HOSTS_MAX  1000000u
#define STRINGS    ((size_t)1 << 20)

/* -- SQL -- */

void ch_fold_where(struct buf *sql)
{
    buf_printf(sql, " kind = %d AND cells > 0", CH_STORED);
}

static void put_table(struct buf *sql, const char *database, enum ch_table t)
{
    buf_printf(sql, "`%s`.`%s`", database, ch_schema_table(t));
}

static void put_between(struct buf *sql, enum ch_dialect d, const char *column, int64_t from_ns,
                        int64_t until_ns)
{
    buf_printf(sql, " AND %s >= ", column);
    ch_schema_time(sql, d, from_ns);
    buf_printf(sql, " AND %s < ", column);
    ch_schema_time(sql, d, until_ns);
}

/* " AND …": batches that may have something in the hour. */
static void put_batches(struct buf *sql, enum ch_dialect d, int64_t hour_ns)
{
    put_between(sql, d, "t0", hour_ns - CH_ROWS_DAYS_MAX * 86400 * CLK_S,
                hour_ns + CH_FOLD_HOUR_NS);
    buf_put_str(sql, " AND t1 >= ");
    ch_schema_time(sql, d, hour_ns);
}

static void put_hosts(struct buf *sql, const struct ch_fold_part *p)
{
    char text[UUID_TEXT];

    buf_put_str(sql, " host_id IN (");
    for (size_t i = 0; i < p->n_hosts; i++) {
        buf_printf(sql, "%stoUUID('%s')", i ? ", " : "", uuid_format(text, &p->hosts[i]));
    }
    buf_put_str(sql, ")");
}

/* " FROM … WHERE …": what is folded. */
static void put_source(struct buf *sql, const struct ch_fold_part *p)
{
    bool minute = p->t == CH_MINUTE;

    buf_put_str(sql, " FROM ");
    put_table(sql, p->database, minute ? CH_CELL : CH_MINUTE);
    buf_put_str(sql, " FINAL WHERE");
    put_hosts(sql, p);
    put_between(sql, p->dialect, "ts", p->hour_ns, p->hour_ns + CH_FOLD_HOUR_NS);
    if (!minute) {
        buf_printf(sql, " AND made = %" PRIu64, p->made);
        return;
    }
    buf_put_str(sql, " AND (host_id, stream, seq) IN (SELECT host_id, stream, seq FROM ");
    put_table(sql, p->database, CH_BATCH);
    buf_put_str(sql, " WHERE");
    put_hosts(sql, p);
    buf_put_str(sql, " AND");
    ch_fold_where(sql);
    put_batches(sql, p->dialect, p->hour_ns);
    buf_put_str(sql, ")");
}

/* "intDiv(ts, …)": the span in which a row lies. */
static void put_span(struct buf *sql, const struct ch_fold_part *p)
{
    buf_put_str(sql, "intDiv(");
    ch_schema_ns(sql, p->dialect, "ts");
    buf_printf(sql, ", toInt64(%" PRId64 "))",
               p->t == CH_MINUTE ? CH_FOLD_MINUTE_NS : CH_FOLD_HOUR_NS);
}

#define SORTED(x) "arraySort((v, t) -> t, groupArray(" x "), groupArray(ts))"

/* Those that do not add up: what they have stays as it is. Only the first may be fresh. */
static void put_apart(struct buf *sql, const struct ch_fold_part *p)
{
    buf_put_str(sql, "(host_id, boot, pid, start, ");
    put_span(sql, p);
    buf_put_str(sql, ") IN (SELECT host_id, boot, pid, start, ");
    put_span(sql, p);
    buf_put_str(sql, " AS fold_span");
    put_source(sql, p);
    buf_put_str(sql, " GROUP BY host_id, boot, pid, start, fold_span HAVING count() > 1 AND "
                     "(min(mask) != max(mask) OR min(mask_high) != max(mask_high) OR "
                     "sum(bitAnd(flags, 1)) > bitAnd(argMin(flags, ts), 1) OR "
                     "arrayExists((a, b) -> a >= b, arrayPopBack(" SORTED(
                         "last_ts") "), arrayPopFront(" SORTED("ts") "))))");
}

/* What the rows of a metric make together (ch_tables.h). # stands for its column. */
static const char counter_parts[] =
    ", argMax(#, last_ts), argMax(#, last_ts) - argMin(# - #_grew, ts), "
    "arrayReduce('max', arrayConcat(groupArrayIf(#_most, n > 1), arrayMap((a, b) -> b - a, "
    "arrayPopBack(" SORTED("#") "), arrayPopFront(" SORTED("# - #_grew") "))))";
/* The same without looking for the largest step, which needs all of them in order. */
static const char counter_totals[] =
    ", argMax(#, last_ts), argMax(#, last_ts) - argMin(# - #_grew, ts), max(#_most)";
static const char gauge_parts[] = ", argMax(#, last_ts), max(# + #_up) - argMax(#, last_ts), "
                                  "argMax(#, last_ts) - min(# - #_down), "
                                  "sum(#_dev + n * #) - toInt64(sum(n)) * argMax(#, last_ts)";

static void put_parts(struct buf *sql, const struct metric *m, const char *parts)
{
    for (const char *s = parts; *s; s++) {
        if (*s == '#') {
            buf_printf(sql, "m%u", m->id);
        } else {
            buf_put_u8(sql, (uint8_t)*s);
        }
    }
}

void ch_fold_metric(struct buf *sql, const struct metric *m, bool steps)
{
    const char *counter = steps ? counter_parts : counter_totals;

    put_parts(sql, m, m->kind == METRIC_COUNTER ? counter : gauge_parts);
}

static void put_columns(struct buf *sql, enum ch_table t)
{
    const struct ch_column *columns;
    size_t n = ch_schema_columns(t, &columns);

    for (size_t i = 0; i < n; i++) {
        buf_printf(sql, "%s%s", i ? ", " : " (", columns[i].name);
    }
    buf_put_str(sql, ")");
}

void ch_fold_sql(struct buf *sql, const struct ch_fold_part *p)
{
    buf_put_str(sql, "INSERT INTO ");
    put_table(sql, p->database, p->t);
    put_columns(sql, p->t);
    buf_printf(sql,
               " SELECT host_id, boot, pid, start, min(ts), max(last_ts), toUInt32(sum(n)), "
               "argMin(flags, ts), any(mask), any(mask_high), toUInt64(%" PRIu64 ")",
               p->made);
    for (const struct metric *m = metric_next(NULL); m; m = metric_next(m)) {
        if (m->column && ch_schema_metric(p->t, m->id)) {
            ch_fold_metric(sql, m, true);
        }
    }
    put_source(sql, p);
    buf_put_str(sql, " GROUP BY host_id, boot, pid, start, ");
    put_span(sql, p);
    buf_put_str(sql, ", if(");
    put_apart(sql, p);
    buf_put_str(sql, ", tuple(");
    ch_schema_ns(sql, p->dialect, "ts");
    buf_put_str(sql, ", mask, mask_high), tuple(toInt64(0), toUInt64(0), toUInt64(0)))");
}

/* -- which hosts -- */

/* A host's hour: what the ledger has, and what was made of it. */
struct due {
    struct uuid host;
    uint64_t batches, numbers, cells;
    bool made; /* of these very batches, or a moment ago */
};

struct fold {
    struct ch_http *http;
    const struct ch_fold_ask *ask;
    struct errmsg *why;
    struct buf sql, reply;
    struct due *list; /* by host */
    size_t n, cap;
    struct uuid *hosts; /* of one statement */
};

/* Rows of what f->sql answers. */
static enum err rows_ask(struct fold *f, size_t columns,
                         enum err (*row)(struct fold *f, const struct ch_in *in, size_t i))
{
    struct ch_in *in = mem_alloc(sizeof *in);
    enum err e = ERR_OK;

    if (!in) {
        return ERR_NOMEM;
    }
    buf_put_str(&f->sql, " FORMAT Native");
    e = f->sql.bad ? f->sql.bad
                   : ch_http_ask(f->http, buf_cstr(&f->sql), LOOK_NS, &f->reply, f->why);
    ch_native_in_init(in, f->reply.p, f->reply.n, STRINGS);
    while (!e && !(e = ch_native_next(in))) {
        e = in->n_columns == columns ? ERR_OK : ERR_CORRUPT;
        for (size_t i = 0; i < in->n_rows && !e; i++) {
            e = row(f, in, i);
        }
    }
    ch_native_in_fini(in);
    mem_free(in);
    return e == ERR_END ? ERR_OK : e;
}

enum { DUE_HOST, DUE_BATCHES, DUE_NUMBERS, DUE_CELLS, DUE_COLUMNS };

static enum err due_take(struct fold *f, const struct ch_in *in, size_t i)
{
    enum err e = VEC_ROOM(&f->list, &f->cap, f->n + 1, HOSTS_MAX);

    if (!e) {
        f->list[f->n++] = (struct due){
            .host = ch_native_get_uuid(&in->columns[DUE_HOST], i),
            .batches = ch_native_get(&in->columns[DUE_BATCHES], i),
            .numbers = ch_native_get(&in->columns[DUE_NUMBERS], i),
            .cells = ch_native_get(&in->columns[DUE_CELLS], i),
        };
    }
    return e;
}

static enum err due_ask(struct fold *f)
{
    enum ch_dialect d = ch_http_dialect(f->http);

    buf_reset(&f->sql);
    buf_put_str(&f->sql, "SELECT host_id, count() AS n_batches, " CH_FOLD_NUMBERS
                         " AS n_numbers, sum(n_cells) AS n_all FROM (SELECT host_id, stream, seq, "
                         "max(cells) AS n_cells FROM ");
    put_table(&f->sql, f->ask->database, CH_BATCH);
    buf_put_str(&f->sql, " WHERE");
    ch_fold_where(&f->sql);
    put_batches(&f->sql, d, f->ask->hour_ns);
    buf_put_str(&f->sql, " GROUP BY host_id, stream, seq) GROUP BY host_id");
    return rows_ask(f, DUE_COLUMNS, due_take);
}

static int by_host(const void *a, const void *b)
{
    return memcmp(((const struct due *)a)->host.b, ((const struct due *)b)->host.b,
                  sizeof(struct uuid));
}

enum { MADE_HOST, MADE_MADE, MADE_BATCHES, MADE_NUMBERS, MADE_COLUMNS };

static enum err made_take(struct fold *f, const struct ch_in *in, size_t i)
{
    struct due key = {.host = ch_native_get_uuid(&in->columns[MADE_HOST], i)};
    struct due *x = f->n ? bsearch(&key, f->list, f->n, sizeof *x, by_host) : NULL;
    uint64_t made = ch_native_get(&in->columns[MADE_MADE], i);

    if (x) {
        x->made = (x->batches == ch_native_get(&in->columns[MADE_BATCHES], i) &&
                   x->numbers == ch_native_get(&in->columns[MADE_NUMBERS], i)) ||
                  (int64_t)made > clk_sub(f->ask->now_ns, f->ask->again_ns);
    }
    return ERR_OK;
}

static enum err made_ask(struct fold *f)
{
    buf_reset(&f->sql);
    buf_put_str(&f->sql, "SELECT host_id, max(made) AS made_last, argMax(batches, made) AS "
                         "n_batches, argMax(numbers, made) AS n_numbers FROM ");
    put_table(&f->sql, f->ask->database, CH_FOLD);
    buf_put_str(&f->sql, " WHERE tier = 'hour' AND span = ");
    ch_schema_time(&f->sql, ch_http_dialect(f->http), f->ask->hour_ns);
    buf_put_str(&f->sql, " GROUP BY host_id");
    return rows_ask(f, MADE_COLUMNS, made_take);
}

/* -- making -- */

/* Rows of `fold`; begin: that they are being made. */
static enum err fold_say(struct fold *f, const struct due *list, size_t n, uint64_t made,
                         bool begin)
{
    static const char *const tiers[] = {"minute", "hour"};
    struct buf body;
    struct ch_block *b;
    struct ch_http_insert in = {.quorum = f->ask->quorum};
    char token[128];
    enum err e = ch_native_block_create(&b, CH_FOLD);

    if (e) {
        return e;
    }
    for (size_t i = 0; i < 2 * n; i++) {
        const struct due *x = &list[i / 2];

        ch_native_row(b);
        ch_native_uuid(b, CH_FOLD_host_id, &x->host);
        ch_native_str(b, CH_FOLD_tier, str_make(tiers[i % 2]));
        ch_native_u64(b, CH_FOLD_span, (uint64_t)f->ask->hour_ns);
        ch_native_u64(b, CH_FOLD_made, made);
        ch_native_u64(b, CH_FOLD_batches, begin ? 0 : x->batches);
        ch_native_u64(b, CH_FOLD_numbers, begin ? 0 : x->numbers);
    }
    buf_reset(&f->sql);
    buf_init(&body, (size_t)64 << 20);
    e = ch_native_encode(b, ch_http_dialect(f->http), &f->sql, &body);
    (void)snprintf(token, sizeof token, "fold/%" PRIu64 "/%" PRId64 "/%d", made, f->ask->hour_ns,
                   begin);
    in.sql = buf_cstr(&f->sql);
    in.body = body.p;
    in.n = body.n;
    in.token = token;
    e = e ? e : ch_http_insert(f->http, &in, LOOK_NS, f->why);
    buf_fini(&body);
    ch_native_block_destroy(b);
    return e;
}

static enum err part_fill(struct fold *f, const struct due *list, size_t n, uint64_t made)
{
    static const enum ch_table order[] = {CH_MINUTE, CH_HOUR};
    struct ch_fold_part part = {.dialect = ch_http_dialect(f->http),
                                .database = f->ask->database,
                                .hour_ns = f->ask->hour_ns,
                                .made = made,
                                .hosts = f->hosts,
                                .n_hosts = n};
    enum err e = ERR_OK;

    for (size_t i = 0; i < n; i++) {
        f->hosts[i] = list[i].host;
    }
    for (size_t i = 0; i < sizeof order / sizeof *order && !e; i++) {
        part.t = order[i];
        buf_reset(&f->sql);
        ch_fold_sql(&f->sql, &part);
        e = f->sql.bad ? f->sql.bad
                       : ch_http_run(f->http, buf_cstr(&f->sql), f->ask->quorum, FILL_NS, f->why);
    }
    return e;
}

static enum err hosts_fill(struct fold *f, size_t *hosts)
{
    size_t kept = 0, at = 0;
    uint64_t made = (uint64_t)f->ask->now_ns;
    enum err e = ERR_OK;

    for (size_t i = 0; i < f->n; i++) { /* those that are due, in the order of the tables */
        if (!f->list[i].made) {
            f->list[kept++] = f->list[i];
        }
    }
    while (!e && at < kept) {
        uint64_t cells = 0;
        size_t n = 0;

        if (f->ask->stop && f->ask->stop(f->ask->ctx)) {
            return ERR_CLOSED;
        }
        while (at + n < kept && n < HOSTS_EACH &&
               (!n || cells + f->list[at + n].cells <= CELLS_EACH)) {
            cells += f->list[at + n++].cells;
        }
        e = fold_say(f, f->list + at, n, made, true);
        e = e ? e : part_fill(f, f->list + at, n, made + 1);
        e = e ? e : fold_say(f, f->list + at, n, made + 1, false);
        *hosts += e ? 0 : n;
        at += n;
    }
    return e;
}

enum err ch_fold_hour(struct ch_http *h, const struct ch_fold_ask *ask, size_t *hosts,
                      struct errmsg *why)
{
    struct fold f = {.http = h, .ask = ask, .why = why};
    enum err e;

    *hosts = 0;
    buf_init(&f.sql, (size_t)1 << 20);
    buf_init(&f.reply, CH_HTTP_REPLY_MAX);
    f.hosts = mem_array(HOSTS_EACH, sizeof *f.hosts);
    e = f.hosts ? due_ask(&f) : ERR_NOMEM;
    if (!e && f.n) {
        qsort(f.list, f.n, sizeof *f.list, by_host);
        e = made_ask(&f);
    }
    e = e ? e : hosts_fill(&f, hosts);
    buf_fini(&f.sql);
    buf_fini(&f.reply);
    mem_free(f.list);
    mem_free(f.hosts);
    return e;
}
