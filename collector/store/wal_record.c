#include "collector/store/wal_record.h"

#include <string.h>

#include "common/cur.h"
#include "common/hash.h"

#define RECORD_MAGIC 0x52574650u /* "PFWR" */
#define VERSION      2u          /* 1 had no offsets; every flag was 0 */
#define HAS_OFFSET   1u          /* flag: an offset stands behind the content */
#define UNBOUNDED    UINT64_MAX  /* as its error: not known */

static const uint8_t file_magic[8] = {'P', 'F', 'W', 'A', 'L', 0x1a, '\r', '\n'};

void wal_header_put(struct buf *b, uint64_t number, uint64_t seed)
{
    size_t start = b->n;

    buf_put(b, file_magic, sizeof file_magic);
    buf_put_u32le(b, VERSION);
    buf_put_u32le(b, 0);
    buf_put_u64le(b, number);
    buf_put_u64le(b, seed);
    if (!b->bad) {
        buf_put_u64le(b, hash_bytes(b->p + start, b->n - start, 0));
    }
}

enum err wal_header_parse(uint64_t *seed, const uint8_t *p, size_t n)
{
    struct cur c = cur_make(p, n);
    const uint8_t *magic = cur_bytes(&c, sizeof file_magic);
    uint32_t version = cur_u32le(&c);
    uint64_t found;

    cur_skip(&c, 12); /* zero, number: the name says it too */
    found = cur_u64le(&c);
    if (cur_u64le(&c) != hash_bytes(p, c.bad ? 0 : WAL_HEADER_BYTES - 8, 0) || c.bad ||
        memcmp(magic, file_magic, sizeof file_magic) != 0) {
        return ERR_CORRUPT;
    }
    if (version == 0 || version > VERSION) {
        return ERR_VERSION;
    }
    *seed = found;
    return ERR_OK;
}

void wal_record_put(struct buf *b, const struct wal_record *r, uint64_t seed)
{
    size_t start = b->n;

    buf_put_u32le(b, RECORD_MAGIC);
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
    buf_put(b, r->host_name.p, r->host_name.n);
    buf_put(b, r->bytes, r->n);
    if (r->clock.known) {
        buf_put_u64le(b, (uint64_t)r->clock.offset_ns);
        buf_put_u64le(b, r->clock.bounded ? (uint64_t)r->clock.error_ns : UNBOUNDED);
    }
    if (!b->bad) {
        buf_put_u64le(b, hash_bytes(b->p + start, b->n - start, seed));
    }
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
                          uint64_t seed)
{
    struct cur c = cur_make(p, n);
    struct wal_record found = {0};
    uint32_t magic = cur_u32le(&c);
    const uint8_t *host;
    uint32_t flags;
    size_t covered;

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
    if (c.bad || magic != RECORD_MAGIC || found.host_name.n > MODEL_HOST_NAME_MAX ||
        found.n > WAL_BYTES_MAX || flags > HAS_OFFSET) {
        return ERR_CORRUPT;
    }
    memcpy(found.host.b, host, sizeof found.host.b);
    found.host_name.p = (const char *)cur_bytes(&c, found.host_name.n);
    found.bytes = cur_bytes(&c, found.n);
    covered = WAL_RECORD_FIXED + found.host_name.n + found.n;
    if (flags & HAS_OFFSET) {
        found.clock = offset_parse(&c);
        covered += WAL_OFFSET_BYTES;
    }
    if (cur_u64le(&c) != hash_bytes(p, c.bad ? 0 : covered, seed) || c.bad) {
        return ERR_CORRUPT;
    }
    *r = found;
    *used = covered + 8;
    return ERR_OK;
}
