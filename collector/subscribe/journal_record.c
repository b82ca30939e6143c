#include "collector/subscribe/journal_record.h"

#include <string.h>
#include <zstd.h>

#include "common/base/cur.h"
#include "common/base/hash.h"

#define VERSION      2u
#define COPIES       2u /* the header is there twice from this version on */
#define COPY_BYTES   (JOURNAL_HEADER_BYTES / 2)
#define RECORD_MAGIC 0x52464650u /* "PFFR" */

#define IS_PACKED 1u
#define HAS_MORE  2u

static const uint8_t file_magic[8] = {'P', 'F', 'F', 'E', 'E', 'D', 0x1a, '\n'};

static void header_put_copy(struct buf *b, const struct journal_header *h)
{
    size_t start = b->n;

    buf_put(b, file_magic, sizeof file_magic);
    buf_put_u32le(b, VERSION);
    buf_put_u32le(b, 0);
    buf_put_u64le(b, h->number);
    buf_put_u64le(b, h->epoch);
    buf_put_u64le(b, h->seed);
    buf_put_u64le(b, h->position);
    if (!b->bad) {
        buf_put_u64le(b, hash_bytes(b->p + start, b->n - start, 0));
    }
}

void journal_header_put(struct buf *b, const struct journal_header *h)
{
    header_put_copy(b, h);
    header_put_copy(b, h);
}

static enum err header_parse_copy(struct journal_header *out, const uint8_t *p, size_t n)
{
    struct cur c = cur_make(p, n);
    const uint8_t *magic = cur_bytes(&c, sizeof file_magic);
    uint32_t version = cur_u32le(&c);
    struct journal_header h = {0};

    cur_skip(&c, 4);
    h.number = cur_u64le(&c);
    h.epoch = cur_u64le(&c);
    h.seed = cur_u64le(&c);
    h.position = cur_u64le(&c);
    if (cur_u64le(&c) != hash_bytes(p, c.bad ? 0 : COPY_BYTES - 8, 0) || c.bad ||
        memcmp(magic, file_magic, sizeof file_magic) != 0 || h.position == 0) {
        return ERR_CORRUPT;
    }
    if (version == 0 || version > VERSION) {
        return ERR_VERSION;
    }
    h.bytes = version < COPIES ? COPY_BYTES : JOURNAL_HEADER_BYTES;
    *out = h;
    return ERR_OK;
}

enum err journal_header_parse(struct journal_header *out, const uint8_t *p, size_t n)
{
    struct journal_header found = {0}, second = {0};
    enum err e = header_parse_copy(&found, p, n);
    enum err copy =
        n > COPY_BYTES ? header_parse_copy(&second, p + COPY_BYTES, n - COPY_BYTES) : ERR_CORRUPT;

    if (e == ERR_CORRUPT && copy != ERR_CORRUPT) {
        found = second;
        e = copy;
    }
    if (!e && n < found.bytes) {
        return ERR_CORRUPT;
    }
    if (!e && found.bytes > COPY_BYTES && memcmp(p, p + COPY_BYTES, COPY_BYTES) != 0) {
        found.damaged = COPY_BYTES;
    }
    if (!e) {
        *out = found;
    }
    return e;
}

static uint32_t check_of(const void *p, uint64_t seed)
{
    return (uint32_t)hash_bytes(p, JOURNAL_RECORD_FIXED - 4, seed);
}

void journal_part_put(struct buf *b, const struct journal_part *p, uint64_t seed)
{
    const struct journal_record *r = &p->about;
    size_t start = b->n, name_n = strnlen(r->name, sizeof r->name);

    buf_put_u32le(b, RECORD_MAGIC);
    buf_put_u16le(b, p->kind);
    buf_put_u8(b, (uint8_t)r->topic);
    buf_put_u8(b, (uint8_t)((p->packed ? IS_PACKED : 0) | (r->more ? HAS_MORE : 0)));
    buf_put_u32le(b, (uint32_t)p->content_n);
    buf_put_u32le(b, (uint32_t)r->n);
    buf_put_u32le(b, (uint32_t)name_n);
    buf_put_u32le(b, (uint32_t)(r->last_batch - r->batch));
    buf_put(b, r->host.b, sizeof r->host.b);
    buf_put_u64le(b, r->position);
    buf_put_u64le(b, r->seq);
    buf_put_u64le(b, r->stream);
    buf_put_u64le(b, r->batch);
    buf_put_u64le(b, (uint64_t)r->stored_ns);
    buf_put_u64le(b, (uint64_t)r->first_ns);
    buf_put_u64le(b, (uint64_t)r->last_ns);
    if (!b->bad) {
        buf_put_u32le(b, check_of(b->p + start, seed));
    }
    buf_put(b, r->name, name_n);
    buf_put(b, p->content, p->content_n);
    if (!b->bad) {
        buf_put_u64le(b, hash_bytes(b->p + start, b->n - start, seed));
    }
}

/* The fixed part, as it stands: its checksum comes before its meaning. */
static enum err fixed_parse(struct journal_part *out, size_t *name_n, struct cur *c, uint64_t seed)
{
    const uint8_t *start = c->p;
    struct journal_part p = {0};
    struct journal_record *r = &p.about;
    uint32_t magic = cur_u32le(c), batches, topic, flags;
    const uint8_t *host;

    p.kind = cur_u16le(c);
    topic = cur_u8(c);
    flags = cur_u8(c);
    p.content_n = cur_u32le(c);
    r->n = cur_u32le(c);
    *name_n = cur_u32le(c);
    batches = cur_u32le(c);
    host = cur_bytes(c, sizeof r->host.b);
    r->position = cur_u64le(c);
    r->seq = cur_u64le(c);
    r->stream = cur_u64le(c);
    r->batch = cur_u64le(c);
    r->stored_ns = (int64_t)cur_u64le(c);
    r->first_ns = (int64_t)cur_u64le(c);
    r->last_ns = (int64_t)cur_u64le(c);
    if (cur_u32le(c) != (c->bad ? 0 : check_of(start, seed)) || c->bad || magic != RECORD_MAGIC ||
        topic >= FEED_TOPICS || flags > (IS_PACKED | HAS_MORE) || *name_n > MODEL_HOST_NAME_MAX ||
        p.content_n > JOURNAL_PAYLOAD_MAX || r->n > JOURNAL_PAYLOAD_MAX ||
        r->batch > UINT64_MAX - batches || r->position == UINT64_MAX) {
        return ERR_CORRUPT;
    }
    r->topic = (enum feed_topic)topic;
    r->last_batch = r->batch + batches;
    r->more = (flags & HAS_MORE) != 0;
    p.packed = (flags & IS_PACKED) != 0;
    memcpy(r->host.b, host, sizeof r->host.b);
    *out = p;
    return ERR_OK;
}

enum err journal_part_head(struct journal_part *out, const uint8_t *p, size_t n, uint64_t seed)
{
    struct cur c = cur_make(p, n);
    size_t name_n;

    return n < JOURNAL_RECORD_FIXED ? ERR_CORRUPT : fixed_parse(out, &name_n, &c, seed);
}

enum err journal_part_parse(struct journal_part *out, size_t *used, const uint8_t *p, size_t n,
                            uint64_t seed)
{
    struct cur c = cur_make(p, n);
    struct journal_part found;
    const uint8_t *name;
    size_t name_n, covered;
    enum err e = fixed_parse(&found, &name_n, &c, seed);

    if (e) {
        return e;
    }
    name = cur_bytes(&c, name_n);
    found.content = cur_bytes(&c, found.content_n);
    covered = JOURNAL_RECORD_FIXED + name_n + found.content_n;
    if (cur_u64le(&c) != hash_bytes(p, c.bad ? 0 : covered, seed) || c.bad ||
        memchr(name, 0, name_n) || (!found.packed && found.content_n != found.about.n)) {
        return ERR_CORRUPT;
    }
    memcpy(found.about.name, name, name_n);
    *out = found;
    *used = covered + 8;
    return ERR_OK;
}

enum err journal_part_unpack(struct buf *out, const struct journal_part *p)
{
    size_t before = out->n;
    uint8_t *to;

    if (p->packed && ZSTD_getFrameContentSize(p->content, p->content_n) != p->about.n) {
        return ERR_CORRUPT;
    }
    to = buf_grow(out, p->about.n);
    if (!to) {
        return out->bad;
    }
    if (!p->packed) {
        memcpy(to, p->content, p->about.n);
        return ERR_OK;
    }
    if (ZSTD_decompress(to, p->about.n, p->content, p->content_n) != p->about.n) {
        out->n = before;
        return ERR_CORRUPT;
    }
    return ERR_OK;
}

void journal_topic_put(struct buf *b, const struct journal_topic *t)
{
    buf_put_u8(b, (uint8_t)t->name.n);
    buf_put(b, t->name.p, t->name.n);
    for (unsigned i = 0; i < FEED_TOPICS; i++) {
        buf_put_u64le(b, t->seq[i]);
    }
}

enum err journal_topic_parse(struct journal_topic *out, const uint8_t **p, size_t *n)
{
    struct cur c = cur_make(*p, *n);
    struct journal_topic t;

    if (*n == 0) {
        return ERR_END;
    }
    t.name.n = cur_u8(&c);
    t.name.p = (const char *)cur_bytes(&c, t.name.n);
    for (unsigned i = 0; i < FEED_TOPICS; i++) {
        t.seq[i] = cur_u64le(&c);
    }
    if (c.bad || t.name.n > MODEL_HOST_NAME_MAX || memchr(t.name.p, 0, t.name.n)) {
        return ERR_CORRUPT;
    }
    *out = t;
    *p = c.p;
    *n = cur_left(&c);
    return ERR_OK;
}
