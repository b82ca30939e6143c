/* Which hosts there are, and the table of the view. Of each host the newest batch says the most, as
 * in the head of the local store: the one made last, then with the newest stamp. That is asked for
 * in two steps, since old servers cannot take the row of a maximum of two. */
#include "collector/clickhouse/ch_view.h"

#include <stdlib.h>
#include <string.h>

#include "collector/clickhouse/ch_view_ask.h"
#include "collector/store/batch_time.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/os/uuid.h"

#define SQL_MAX    ((size_t)1 << 20)
#define HOSTS_MAX  ((size_t)1 << 30) /* bytes */
#define NAMES_LATE "toInt64(9000000000000000000)"

/* -- what there is of each -- */

struct listing {
    struct ch_view *v;
    size_t cap;
    int64_t *made_ns, *t1_ns; /* of the newest batch, by host */
};

enum { HOST_ID, HOST_NAME, HOST_COLUMNS };

static const char *text_keep(struct ch_view *v, struct str s)
{
    char *p = arena_array(&v->memory, s.n + 1, 1);

    if (p && s.n) {
        memcpy(p, s.p, s.n);
    }
    return p;
}

static int by_id(const void *a, const void *b)
{
    return memcmp(((const struct store_host *)a)->id.b, ((const struct store_host *)b)->id.b,
                  sizeof(struct uuid));
}

static int by_name(const void *a, const void *b)
{
    const struct store_host *x = a, *y = b;
    int d = strcmp(x->name, y->name);

    return d ? d : by_id(a, b);
}

static enum err host_take(void *ctx, const struct ch_in *in, size_t i)
{
    struct listing *l = ctx;
    struct ch_view *v = l->v;
    struct store_host *more;

    if (v->n == CH_VIEW_HOSTS_MAX) {
        return ERR_FULL;
    }
    if (v->n == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 64;
        more = arena_array(&v->memory, l->cap, sizeof *more);
        if (!more) {
            return arena_refused(&v->memory, l->cap * sizeof *more);
        }
        if (v->n) {
            memcpy(more, v->hosts, v->n * sizeof *more);
        }
        v->hosts = more;
    }
    v->hosts[v->n] = (struct store_host){
        .id = ch_native_get_uuid(&in->columns[HOST_ID], i),
        .name = text_keep(v, ch_native_get_str(&in->columns[HOST_NAME], i)),
        .source = "",
    };
    return v->hosts[v->n++].name ? ERR_OK : arena_refused(&v->memory, 1);
}

static struct store_host *host_of(const struct ch_view *v, const struct uuid *id)
{
    size_t i;

    SEARCH_LOWER(i, v->n, memcmp(v->hosts[i].id.b, id->b, sizeof id->b) < 0);
    return i < v->n && memcmp(v->hosts[i].id.b, id->b, sizeof id->b) == 0 ? &v->hosts[i] : NULL;
}

/* The host's name is that of the newest row. */
static enum err list_names(struct listing *l, struct buf *reply)
{
    struct ch_view *v = l->v;
    enum err e;

    buf_put_str(ch_view_ask_begin(v), "SELECT host_id, argMax(name, seen) AS name_last");
    ch_view_ask_from(v, CH_HOST, false);
    buf_put_str(&v->sql, " GROUP BY host_id");
    e = ch_view_ask_rows(v, reply, HOST_COLUMNS, NULL, host_take, l);
    if (!e && v->n) {
        qsort(v->hosts, v->n, sizeof *v->hosts, by_id);
    }
    return e;
}

enum { SUM_ID, SUM_BATCHES, SUM_FIRST, SUM_RECEIVED, SUM_LOST, SUM_GAPS, SUM_COLUMNS };

static int64_t least(bool is_first, int64_t a, int64_t b)
{
    return is_first || b < a ? b : a;
}

/* Of one of the host's streams. */
static enum err sum_take(void *ctx, const struct ch_in *in, size_t i)
{
    struct listing *l = ctx;
    const struct ch_in_column *c = in->columns;
    struct uuid id = ch_native_get_uuid(&c[SUM_ID], i);
    struct store_host *h = host_of(l->v, &id);
    int64_t received_ns = (int64_t)ch_native_get(&c[SUM_RECEIVED], i);

    if (h) {
        h->first_ns = least(!h->batches, h->first_ns, (int64_t)ch_native_get(&c[SUM_FIRST], i));
        h->received_ns = !h->batches || received_ns > h->received_ns ? received_ns : h->received_ns;
        h->batches += ch_native_get(&c[SUM_BATCHES], i);
        h->held = h->batches;
        h->lost_events += ch_native_get(&c[SUM_LOST], i);
        h->gaps += ch_native_get(&c[SUM_GAPS], i);
    }
    return ERR_OK;
}

/* Each batch once: an inner SELECT takes one row of those of two collectors. Numbers between the
 * first and the last that no collector has are gaps; what lies below the first may have been
 * deleted for its age. */
static enum err list_sums(struct listing *l, struct buf *reply)
{
    struct ch_view *v = l->v;

    buf_put_str(ch_view_ask_begin(v), "SELECT host_id, count() AS n, min(");
    ch_schema_ns(&v->sql, v->conf.dialect, "t0");
    buf_put_str(&v->sql, ") AS first, max(");
    ch_schema_ns(&v->sql, v->conf.dialect, "received");
    buf_put_str(&v->sql, ") AS last, sum(lost) AS lost_sum, max(seq) - min(seq) + 1 - count() AS "
                         "gaps FROM (SELECT host_id, stream, seq, t0, received, lost");
    ch_view_ask_from(v, CH_BATCH, false);
    buf_printf(&v->sql,
               " WHERE kind = %d LIMIT 1 BY host_id, stream, seq) GROUP BY host_id, stream",
               CH_STORED);
    return ch_view_ask_rows(v, reply, SUM_COLUMNS, NULL, sum_take, l);
}

/* -- the newest batch -- */

enum {
    NEW_ID,
    NEW_T1,
    NEW_RECEIVED,
    NEW_CLOCK,
    NEW_OFFSET,
    NEW_ERROR,
    NEW_BOOT,
    NEW_FLAGS,
    NEW_CPUS,
    NEW_SOURCE,
    NEW_ALIVE,
    NEW_REST,
    NEW_COLUMNS
};

/* Whether the batch has a tick at its newest stamp: then `alive` is of that moment. */
static bool has_tick(struct str rest, int64_t t1_ns)
{
    struct batch *b;
    bool has = false;

    if (!wire_batch_unpack(&b, rest.p, rest.n)) {
        has = b->n_ticks > 0 && b->wall_ns[b->n_ticks - 1] == t1_ns;
        wire_batch_free(b);
    }
    return has;
}

static enum err newest_take(void *ctx, const struct ch_in *in, size_t i)
{
    struct listing *l = ctx;
    const struct ch_in_column *c = in->columns;
    struct uuid id = ch_native_get_uuid(&c[NEW_ID], i);
    struct store_host *h = host_of(l->v, &id);
    uint8_t clock = (uint8_t)ch_native_get(&c[NEW_CLOCK], i);
    int64_t t1_ns = (int64_t)ch_native_get(&c[NEW_T1], i), made_ns;
    struct host_offset offset = {.known = clock & 1,
                                 .bounded = clock >> 1 & 1,
                                 .offset_ns = (int64_t)ch_native_get(&c[NEW_OFFSET], i),
                                 .error_ns = (int64_t)ch_native_get(&c[NEW_ERROR], i)};
    size_t at;

    if (!h) {
        return ERR_OK; /* its name comes later */
    }
    at = (size_t)(h - l->v->hosts);
    made_ns = batch_time_made(t1_ns, &offset, (int64_t)ch_native_get(&c[NEW_RECEIVED], i));
    if (made_ns < l->made_ns[at] || (made_ns == l->made_ns[at] && t1_ns < l->t1_ns[at])) {
        return ERR_OK;
    }
    l->made_ns[at] = made_ns;
    l->t1_ns[at] = t1_ns;
    h->last_ns = t1_ns;
    h->clock = offset;
    h->boot = ch_native_get_uuid(&c[NEW_BOOT], i);
    h->flags = (uint32_t)ch_native_get(&c[NEW_FLAGS], i);
    h->cpus = (uint32_t)ch_native_get(&c[NEW_CPUS], i);
    h->has_alive = has_tick(ch_native_get_str(&c[NEW_REST], i), t1_ns);
    h->alive = h->has_alive ? (uint32_t)ch_native_get(&c[NEW_ALIVE], i) : 0;
    h->source = text_keep(l->v, ch_native_get_str(&c[NEW_SOURCE], i));
    return h->source ? ERR_OK : arena_refused(&l->v->memory, 1);
}

/* When a batch was made, by the collector's clock (batch_time.h). */
static void put_made(struct ch_view *v)
{
    buf_put_str(&v->sql, "least(");
    ch_schema_ns(&v->sql, v->conf.dialect, "t1");
    buf_put_str(&v->sql, " + if(bitAnd(clock, 1) = 1, clock_offset, toInt64(0)), ");
    ch_schema_ns(&v->sql, v->conf.dialect, "received");
    buf_put_str(&v->sql, ")");
}

static enum err list_newest(struct listing *l, struct buf *reply)
{
    struct ch_view *v = l->v;

    buf_put_str(ch_view_ask_begin(v), "SELECT host_id, ");
    ch_view_ask_ns(v, "t1");
    buf_put_str(&v->sql, ", ");
    ch_view_ask_ns(v, "received");
    buf_put_str(&v->sql, ", clock, clock_offset, clock_error, boot, flags, cpus, source, "
                         "alive, rest");
    ch_view_ask_from(v, CH_BATCH, false);
    buf_printf(&v->sql, " WHERE kind = %d AND (host_id, ", CH_STORED);
    put_made(v);
    buf_put_str(&v->sql, ") IN (SELECT host_id, max(");
    put_made(v);
    buf_put_str(&v->sql, ")");
    ch_view_ask_from(v, CH_BATCH, false);
    buf_printf(&v->sql, " WHERE kind = %d GROUP BY host_id)", CH_STORED);
    return ch_view_ask_rows(v, reply, NEW_COLUMNS, NULL, newest_take, l);
}

static enum err hosts_list(struct ch_view *v)
{
    struct listing l = {.v = v};
    size_t n = 0;
    struct buf reply;
    enum err e;

    buf_init(&reply, CH_VIEW_REPLY_MAX);
    e = list_names(&l, &reply);
    l.made_ns = arena_array(&v->memory, v->n + 1, sizeof *l.made_ns);
    l.t1_ns = arena_array(&v->memory, v->n + 1, sizeof *l.t1_ns);
    if (!e && (!l.made_ns || !l.t1_ns)) {
        e = arena_refused(&v->memory, v->n * sizeof *l.made_ns);
    }
    for (size_t i = 0; !e && i < v->n; i++) {
        l.made_ns[i] = l.t1_ns[i] = INT64_MIN;
    }
    e = e ? e : list_sums(&l, &reply);
    e = e ? e : list_newest(&l, &reply);
    buf_fini(&reply);
    if (e) {
        return e;
    }
    for (size_t i = 0; i < v->n; i++) { /* without a batch there is no host yet */
        if (v->hosts[i].batches && l.t1_ns[i] != INT64_MIN) {
            v->hosts[n++] = v->hosts[i];
        }
    }
    v->n = n;
    if (n) {
        qsort(v->hosts, n, sizeof *v->hosts, by_name);
    }
    v->known = arena_array(&v->memory, n + 1, sizeof *v->known);
    return v->known ? ERR_OK : arena_refused(&v->memory, n * sizeof *v->known);
}

/* -- the view -- */

static void far_close(struct store_view *view)
{
    struct ch_view *v = ch_view_ask_of(view);

    ch_view_info_fini(v);
    arena_fini(&v->memory);
    buf_fini(&v->sql);
    if (v->conf.closed) {
        v->conf.closed(v->conf.ctx);
    }
    mem_free(v);
}

static size_t far_hosts(const struct store_view *view)
{
    return ch_view_ask_of(view)->n;
}

static const struct store_host *far_host(const struct store_view *view, size_t i)
{
    return &ch_view_ask_of(view)->hosts[i];
}

static size_t far_find(const struct store_view *view, const char *name, const struct uuid *id)
{
    const struct ch_view *v = ch_view_ask_of(view);
    const struct store_host key = {.id = *id, .name = name};
    size_t i;

    SEARCH_LOWER(i, v->n, by_name(&v->hosts[i], &key) < 0);
    return i < v->n && by_name(&v->hosts[i], &key) == 0 ? i : v->n;
}

static const struct view_ops far = {
    .close = far_close,
    .hosts = far_hosts,
    .host = far_host,
    .find = far_find,
    .blocks_scan = ch_view_rest_blocks,
    .cells_scan = ch_view_cells_scan,
    .cells_gone = ch_view_cells_gone,
    .accounts_scan = ch_view_rest_accounts,
    .info_each = ch_view_info_each,
    .info_range = ch_view_info_range,
    .info = ch_view_info_find,
    .info_want = ch_view_info_want,
    .info_unlisted = ch_view_info_unlisted,
};

enum err ch_view_open(struct store_view **out, const struct ch_view_conf *conf, struct errmsg *why)
{
    struct ch_view *v = mem_zalloc(sizeof *v);
    enum err e;

    if (!v) {
        if (conf->closed) {
            conf->closed(conf->ctx);
        }
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    v->ops = &far;
    v->conf = *conf;
    v->until_ns = INT64_MAX;
    arena_init(&v->memory, HOSTS_MAX);
    buf_init(&v->sql, SQL_MAX);
    e = hosts_list(v);
    if (e) {
        far_close((struct store_view *)(void *)v);
        return errmsg_set(why, e, "ClickHouse did not list the hosts: %s", err_text(e));
    }
    *out = (struct store_view *)(void *)v;
    return ERR_OK;
}
