#include "collector/store/wal/wal_record.h"

#include <string.h>

#include "common/base/cur.h"
#include "common/reclog/reclog.h"

#define HEAD_SEALED 3u         /* the head has a checksum of its own from this version on */
#define HAS_OFFSET  1u         /* flag: an offset stands behind the content */
#define UNBOUNDED   UINT64_MAX /* as its error: not known */

void wal_record_put(struct buf *b, const struct wal_record *r, uint64_t seed)
{
    size_t start = b->n;

    buf_put(b, WAL_RECORD_MAGIC, 4);
    buf_put_u16le(b, r->kind);
    buf_put_u16le(b, (uint16_t)r->host_name.n);
    buf_put_u32le(b, (uint32_t)r->n);
    buf_put_u32le(b, r->clock.known ? HAS_OFFSET : 0);
    buf_put(b, r->host.b, sizeof r->host.b);
    buf_put_u64le(b, r->stream);
    buf_put_u64le(b, r->seq);
    buf_put_u64le(b, (uint64_t)r->t0_ns);
    buf_put_u64le(b, (uint64_t)r->t1_ns);
    buf_put_u64le(b, (uint64_t)r->received_ns);
    reclog_seal(b, start, seed);
    buf_put(b, r->host_name.p, r->host_name.n);
    buf_put(b, r->bytes, r->n);
    if (r->clock.known) {
        buf_put_u64le(b, (uint64_t)r->clock.offset_ns);
        buf_put_u64le(b, r->clock.bounded ? (uint64_t)r->clock.error_ns : UNBOUNDED);
    }
    reclog_seal(b, start, seed);
}

static struct host_offset offset_parse(struct cur *c)
{
    struct host_offset o = {.known = true, .offset_ns = (int64_t)cur_u64le(c)};
    uint64_t error = cur_u64le(c);

    o.bounded = error <= INT64_MAX;
    o.error_ns = o.bounded ? (int64_t)error : 0;
    return o;
}

enum err wal_record_parse(struct wal_record *r, size_t *used, const uint8_t *p, size_t n,
                          uint64_t seed, uint32_t version)
{
    struct cur c = cur_make(p, n);
    struct wal_record found = {0};
    const uint8_t *magic = cur_bytes(&c, 4), *host;
    uint32_t flags;

    found.kind = cur_u16le(&c);
    found.host_name.n = cur_u16le(&c);
    found.n = cur_u32le(&c);
    flags = cur_u32le(&c);
    host = cur_bytes(&c, sizeof found.host.b);
    found.stream = cur_u64le(&c);
    found.seq = cur_u64le(&c);
    found.t0_ns = (int64_t)cur_u64le(&c);
    found.t1_ns = (int64_t)cur_u64le(&c);
    found.received_ns = (int64_t)cur_u64le(&c);
    if (c.bad || memcmp(magic, WAL_RECORD_MAGIC, 4) != 0 ||
        found.host_name.n > MODEL_HOST_NAME_MAX || found.n > WAL_BYTES_MAX || flags > HAS_OFFSET) {
        return ERR_CORRUPT;
    }
    /* Without a checksum here, whoever may choose content makes a search slow. */
    if (version >= HEAD_SEALED && !reclog_is_sealed(&c, p, seed)) {
        return ERR_CORRUPT;
    }
    memcpy(found.host.b, host, sizeof found.host.b);
    found.host_name.p = (const char *)cur_bytes(&c, found.host_name.n);
    found.bytes = cur_bytes(&c, found.n);
    if (flags & HAS_OFFSET) {
        found.clock = offset_parse(&c);
    }
    if (!reclog_is_sealed(&c, p, seed)) {
        return ERR_CORRUPT;
    }
    *r = found;
    *used = (size_t)(c.p - p);
    return ERR_OK;
}
