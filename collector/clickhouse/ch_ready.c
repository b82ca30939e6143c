#include "collector/clickhouse/ch_ready.h"

#include <stdio.h>
#include <string.h>

#include "collector/clickhouse/ch_migrate.h"
#include "collector/clickhouse/ch_native.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"

#define ASK_NS  (60 * CLK_S)
#define SAME_NS (60 * CLK_S) /* another collector of the name was alive so recently */

#define PAGE_BITS 12u

/* The tables at one replica. ERR_VERSION: an administrator must migrate. */
static enum err tables_make(struct ch_http *h, const struct ch_layout *wanted,
                            struct ch_migrate_plan *plan, struct errmsg *why)
{
    struct ch_layout layout = *wanted;
    enum err e;

    layout.dialect = ch_http_dialect(h);
    e = ch_migrate_look(plan, h, &layout, why);

    if (e || !plan->n) {
        return e;
    }
    if (!plan->empty) {
        return errmsg_set(why, ERR_VERSION,
                          "the tables at %s are older than this collector: run "
                          "'procfleet-collector clickhouse migrate'",
                          ch_http_url(h));
    }
    e = ch_migrate_apply(plan, h, NULL, NULL, why);
    if (!e) {
        char url[600], version[200];

        log_line(LOG_INFO, "clickhouse", "set_up", "server=%s database=%s version=%s",
                 log_str(url, sizeof url, ch_http_url(h)), layout.database,
                 log_str(version, sizeof version, ch_http_version(h)));
    }
    return e;
}

enum err ch_ready_tables(struct ch_http *h, const struct ch_layout *layout, struct errmsg *why)
{
    struct ch_migrate_plan plan;
    size_t good = 0;
    enum err e = ERR_OK, first = ERR_OK;

    ch_migrate_init(&plan);
    for (size_t i = 0; i < ch_http_urls(h); i++) {
        struct errmsg other = {""};

        ch_http_choose(h, i);
        e = ch_http_connect(h, &other);
        e = e ? e : tables_make(h, layout, &plan, &other);
        good += !e;
        if (e && (!first || e == ERR_VERSION || e == ERR_REFUSED)) {
            first = e;
            *why = other;
        }
        if (e == ERR_VERSION || e == ERR_REFUSED || e == ERR_CLOSED) {
            break;
        }
    }
    ch_migrate_fini(&plan);
    if (e == ERR_VERSION || e == ERR_REFUSED || e == ERR_CLOSED) {
        return e;
    }
    return good ? ERR_OK : first; /* a replica that is down is made complete by `migrate` */
}

/* Whether another collector of this name was alive a moment ago. */
enum err ch_ready_name(struct ch_http *h, const char *name, const struct uuid *self,
                       struct errmsg *why)
{
    enum ch_dialect d = ch_http_dialect(h);
    struct buf sql, reply;
    char id[UUID_TEXT];
    enum err e;

    buf_init(&sql, 4096);
    buf_init(&reply, 4096);
    buf_put_str(&sql, "SELECT count() FROM collector WHERE name = ");
    ch_schema_quote(&sql, str_make(name));
    buf_printf(&sql, " AND version != '" CH_FORGOTTEN "' AND id != '%s' AND seen > ",
               uuid_format(id, self));
    ch_schema_time(&sql, d, os_utc_ns() - SAME_NS);
    e = ch_http_ask(h, buf_cstr(&sql), ASK_NS, &reply, why);
    if (!e && strcmp(buf_cstr(&reply), "0\n") != 0) {
        e = errmsg_set(why, ERR_EXISTS,
                       "another collector is called '%s', too: give one of them another "
                       "collector.name",
                       name);
    }
    buf_fini(&reply);
    buf_fini(&sql);
    return e;
}

static enum err ledger_block(const struct ch_ready_ledger *l, const struct ch_in *in)
{
    const struct ch_in_column *host = ch_native_column(in, "host_id");
    const struct ch_in_column *stream = ch_native_column(in, "stream");
    const struct ch_in_column *firsts = ch_native_column(in, "firsts");
    const struct ch_in_column *lasts = ch_native_column(in, "lasts");
    enum err e = ERR_OK;

    for (size_t i = 0; i < in->n_rows && !e; i++) {
        struct uuid id = ch_native_get_uuid(host, i);
        size_t first, last, n = ch_native_get_array(firsts, i, &first);

        if (ch_native_get_array(lasts, i, &last) != n) {
            return ERR_CORRUPT;
        }
        for (size_t k = 0; k < n && !e; k++) {
            uint64_t from = ch_native_get(firsts, first + k), to = ch_native_get(lasts, last + k);

            from += from == 0; /* numbers begin at 1 */
            e = from > to ? ERR_OK : l->add(l->ctx, &id, ch_native_get(stream, i), from, to);
        }
    }
    return e;
}

enum err ch_ready_ledger_read(const struct ch_ready_ledger *l, const void *p, size_t n)
{
    struct ch_in in;
    enum err e = ERR_OK;

    ch_native_in_init(&in, p, n, (size_t)16 << 20);
    while (!e) {
        e = ch_native_next(&in);
        e = e ? e : ledger_block(l, &in);
    }
    ch_native_in_fini(&in);
    return e == ERR_END ? ERR_OK : e;
}

/* One part of the hosts, by their hashes' first bits; 0 bits: all. */
static enum err ledger_page(struct ch_http *h, const struct ch_ready_ledger *l, unsigned bits,
                            unsigned page, struct buf *reply, struct errmsg *why)
{
    struct buf sql;
    enum err e;

    buf_init(&sql, 4096);
    /* Where runs of numbers begin and end, not the numbers: a ledger may have 10^9 of these. */
    buf_put_str(&sql,
                "SELECT host_id, stream, "
                "arrayFilter((x, y, i) -> i = 1 OR x != y + 1, seqs, "
                "arrayPushFront(arrayPopBack(seqs), toUInt64(0)), arrayEnumerate(seqs)) AS firsts, "
                "arrayFilter((x, y, i) -> i = length(seqs) OR y != x + 1, seqs, "
                "arrayPushBack(arrayPopFront(seqs), toUInt64(0)), arrayEnumerate(seqs)) AS lasts "
                "FROM (SELECT host_id, stream, arraySort(groupUniqArray(seq)) AS seqs FROM batch "
                "WHERE collector = ");
    ch_schema_quote(&sql, str_make(l->collector));
    buf_printf(&sql, " AND kind = %d", CH_STORED);
    if (l->received_ns > 0) {
        buf_put_str(&sql, " AND received >= ");
        ch_schema_time(&sql, ch_http_dialect(h), l->received_ns);
    }
    if (bits) {
        buf_printf(&sql, " AND bitShiftRight(sipHash64(toString(host_id)), %u) = %u", 64 - bits,
                   page);
    }
    buf_put_str(&sql, " GROUP BY host_id, stream) FORMAT Native");
    e = ch_http_ask(h, buf_cstr(&sql), ASK_NS, reply, why);
    buf_fini(&sql);
    return e;
}

enum err ch_ready_ledger(struct ch_http *h, const struct ch_ready_ledger *l, struct errmsg *why)
{
    unsigned bits = 0, page = 0;
    struct buf reply;
    enum err e;

    buf_init(&reply, CH_HTTP_REPLY_MAX);
    do {
        e = ledger_page(h, l, bits, page, &reply, why);
        if (e == ERR_FULL && bits < PAGE_BITS) { /* it is divided by four */
            why->text[0] = 0;
            bits += 2;
            page *= 4;
            e = ERR_OK;
            continue;
        }
        e = e ? e : ch_ready_ledger_read(l, reply.p, reply.n);
        page++;
    } while (!e && page < 1u << bits);
    buf_fini(&reply);
    return !e || why->text[0] ? e : errmsg_set(why, e, "cannot read the ledger: %s", err_text(e));
}

enum err ch_ready_id(struct uuid *out, const char *dir, struct errmsg *why)
{
    char *path = os_path_join(dir, "id");
    char text[UUID_TEXT];
    uint8_t *p;
    size_t n;
    enum err e = path ? os_read_file(&p, &n, path, 64) : ERR_NOMEM;

    if (!e) {
        (void)snprintf(text, sizeof text, "%.36s", (const char *)p);
        mem_free(p);
        e = uuid_parse(out, text);
    }
    if (e == ERR_NOTFOUND || e == ERR_INVALID) {
        e = uuid_random(out);
        if (!e) {
            (void)uuid_format(text, out);
            e = os_write_file(path, text, UUID_TEXT - 1, false);
        }
    }
    mem_free(path);
    return e ? errmsg_set(why, e, "cannot keep %s/id: %s", dir, err_text(e)) : ERR_OK;
}
