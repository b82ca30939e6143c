#include "collector/store/wal/wal_record.h"

#include <string.h>

#include "common/base/cur.h"
#include "common/base/hash.h"

#define RECORD_MAGIC 0x52574650u /* "PFWR" */
#define COPIES       3u          /* the header is there twice from this version on */
#define COPY_BYTES   (WAL_HEADER_BYTES / 2)
#define HEAD_BYTES   72u        /* of a record: what its first checksum covers, from version 3 on */
#define HAS_OFFSET   1u         /* flag: an offset stands behind the content */
#define UNBOUNDED    UINT64_MAX /* as its error: not known */

static const uint8_t file_magic[8] = {'P', 'F', 'W', 'A', 'L', 0x1a, '\r', '\n'};

/* -- the file's header -- */

static void header_put_copy(struct buf *b, uint64_t number, uint64_t seed, uint32_t ranges)
{
    size_t start = b->n;

    buf_put(b, file_magic, sizeof file_magic);
    buf_put_u32le(b, WAL_VERSION);
    buf_put_u32le(b, ranges);
    buf_put_u64le(b, number);
    buf_put_u64le(b, seed);
    if (!b->bad) {
        buf_put_u64le(b, hash_bytes(b->p + start, b->n - start, 0));
    }
}

void wal_header_put(struct buf *b, uint64_t number, uint64_t seed, uint32_t ranges)
{
    header_put_copy(b, number, seed, ranges);
    header_put_copy(b, number, seed, ranges);
}

struct wal_header wal_header_of(uint64_t number, uint64_t seed, uint32_t version)
{
    return (struct wal_header){.number = number,
                               .seed = seed,
                               .version = version,
                               .bytes = version < COPIES ? COPY_BYTES : WAL_HEADER_BYTES};
}

static enum err header_parse_copy(struct wal_header *h, uint64_t number, const uint8_t *p, size_t n)
{
    struct cur c = cur_make(p, n);
    const uint8_t *magic = cur_bytes(&c, sizeof file_magic);
    uint32_t version = cur_u32le(&c), ranges = cur_u32le(&c);
    uint64_t found = cur_u64le(&c), seed = cur_u64le(&c);

    if (cur_u64le(&c) != hash_bytes(p, c.bad ? 0 : COPY_BYTES - 8, 0) || c.bad ||
        memcmp(magic, file_magic, sizeof file_magic) != 0 || found != number) {
        return ERR_CORRUPT;
    }
    if (version == 0 || version > WAL_VERSION) {
        return ERR_VERSION;
    }
    *h = wal_header_of(number, seed, version);
    h->ranges = ranges;
    return ERR_OK;
}

enum err wal_header_parse(struct wal_header *h, uint64_t number, const uint8_t *p, size_t n)
{
    struct wal_header second = {.version = 0};
    enum err e = header_parse_copy(h, number, p, n);
    enum err copy = n > COPY_BYTES
                        ? header_parse_copy(&second, number, p + COPY_BYTES, n - COPY_BYTES)
                        : ERR_CORRUPT;

    if (e == ERR_CORRUPT && copy != ERR_CORRUPT) {
        *h = second;
        e = copy;
    }
    if (!e && h->version >= COPIES && n >= WAL_HEADER_BYTES) { /* else it was never finished */
        h->damaged = second.version == 0 || memcmp(p, p + COPY_BYTES, COPY_BYTES) != 0;
    }
    return e;
}

/* -- a record -- */

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
    if (!b->bad) {
        buf_put_u64le(b, hash_bytes(b->p + start, b->n - start, seed));
    }
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
                          uint64_t seed, uint32_t version)
{
    struct cur c = cur_make(p, n);
    struct wal_record found = {0};
    uint32_t magic = cur_u32le(&c);
    const uint8_t *host;
    uint32_t flags;
    size_t covered = HEAD_BYTES;

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
    if (version >= COPIES) { /* else whoever may choose content makes a search slow */
        if (cur_u64le(&c) != hash_bytes(p, HEAD_BYTES, seed) || c.bad) {
            return ERR_CORRUPT;
        }
        covered += 8;
    }
    memcpy(found.host.b, host, sizeof found.host.b);
    found.host_name.p = (const char *)cur_bytes(&c, found.host_name.n);
    found.bytes = cur_bytes(&c, found.n);
    covered += found.host_name.n + found.n;
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
