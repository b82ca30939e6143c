#include "collector/subscribe/journal_format.h"

#include <string.h>
#include <zstd.h>

#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/reclog/reclog.h"

#define IS_PACKED 1u
#define HAS_MORE  2u

static const struct reclog_format format = {.magic = {'P', 'F', 'F', 'E', 'E', 'D', 0x1a, '\n'},
                                            .record_magic = JOURNAL_RECORD_MAGIC,
                                            .version = 2,
                                            .twice = 2,
                                            .extra_max = UINT32_MAX,
                                            .words = 4,
                                            .above_0 = 3,
                                            .look = JOURNAL_RECORD_MAX};

/* -- the header -- */

void journal_format_put_header(struct buf *b, const struct journal_header *h)
{
    const uint64_t words[] = {h->number, h->epoch, h->seed, h->position};

    reclog_header_put(b, &format, 0, words);
}

/* Errors: ERR_CORRUPT (no copy is sound, or it was never finished), ERR_VERSION (sound, of a newer
 * format) */
static enum err journal_format_header(struct journal_header *out, const uint8_t *p, size_t n)
{
    struct reclog_header found;
    enum err e = reclog_header_parse(&found, &format, NULL, p, n);

    if (!e && n < found.bytes) {
        e = ERR_CORRUPT; /* it was never finished */
    }
    if (!e) {
        *out = (struct journal_header){.number = found.words[0],
                                       .epoch = found.words[1],
                                       .seed = found.words[2],
                                       .position = found.words[3],
                                       .bytes = found.bytes,
                                       .damaged = found.damaged ? JOURNAL_HEADER_BYTES / 2 : 0};
    }
    return e;
}

/* -- a record -- */

static uint32_t check_of(const void *p, uint64_t seed)
{
    return (uint32_t)hash_bytes(p, JOURNAL_RECORD_FIXED - 4, seed);
}

void journal_format_put_part(struct buf *b, const struct journal_part *p, uint64_t seed)
{
    const struct journal_record *r = &p->about;
    size_t start = b->n, name_n = strnlen(r->name, sizeof r->name);

    buf_put(b, JOURNAL_RECORD_MAGIC, RECLOG_MAGIC);
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
    reclog_seal(b, start, seed);
}

/* The fixed part, as it stands: its checksum comes before its meaning. */
static enum err fixed_parse(struct journal_part *out, size_t *name_n, struct cur *c, uint64_t seed)
{
    const uint8_t *start = c->p;
    struct journal_part p = {0};
    struct journal_record *r = &p.about;
    const uint8_t *magic = cur_bytes(c, RECLOG_MAGIC), *host;
    uint32_t batches, topic, flags;

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
    if (cur_u32le(c) != (c->bad ? 0 : check_of(start, seed)) || c->bad ||
        memcmp(magic, JOURNAL_RECORD_MAGIC, RECLOG_MAGIC) != 0 || topic >= FEED_TOPICS ||
        flags > (IS_PACKED | HAS_MORE) || *name_n > MODEL_HOST_NAME_MAX ||
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

enum err journal_format_part_head(struct journal_part *out, const uint8_t *p, size_t n,
                                  uint64_t seed)
{
    struct cur c = cur_make(p, n);
    size_t name_n;

    return n < JOURNAL_RECORD_FIXED ? ERR_CORRUPT : fixed_parse(out, &name_n, &c, seed);
}

enum err journal_format_part(struct journal_part *out, size_t *used, const uint8_t *p, size_t n,
                             uint64_t seed)
{
    struct cur c = cur_make(p, n);
    struct journal_part found;
    const uint8_t *name;
    size_t name_n;
    enum err e = fixed_parse(&found, &name_n, &c, seed);

    if (e) {
        return e;
    }
    name = cur_bytes(&c, name_n);
    found.content = cur_bytes(&c, found.content_n);
    if (!reclog_is_sealed(&c, p, seed) || memchr(name, 0, name_n) ||
        (!found.packed && found.content_n != found.about.n)) {
        return ERR_CORRUPT;
    }
    memcpy(found.about.name, name, name_n);
    *out = found;
    *used = (size_t)(c.p - p);
    return ERR_OK;
}

enum err journal_format_unpack(struct buf *out, const struct journal_part *p)
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

static unsigned topics_of(enum journal_kind kind)
{
    return kind == JOURNAL_TOPICS ? 2 : FEED_TOPICS;
}

void journal_format_put_topic(struct buf *b, enum journal_kind kind, const struct journal_topic *t)
{
    buf_put_u8(b, (uint8_t)t->name.n);
    buf_put(b, t->name.p, t->name.n);
    for (unsigned i = 0; i < topics_of(kind); i++) {
        buf_put_u64le(b, t->seq[i]);
    }
}

enum err journal_format_topic(struct journal_topic *out, enum journal_kind kind, const uint8_t **p,
                              size_t *n)
{
    struct cur c = cur_make(*p, *n);
    struct journal_topic t = {.seq = {0}};

    if (*n == 0) {
        return ERR_END;
    }
    t.name.n = cur_u8(&c);
    t.name.p = (const char *)cur_bytes(&c, t.name.n);
    for (unsigned i = 0; i < topics_of(kind); i++) {
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

/* -- a file -- */

struct scan {
    const struct journal_scan *job;
    struct reclog_reader reader;
    uint64_t seed;
    struct journal_part part; /* the last that was found */
};

static enum err scan_parse(void *ctx, const uint8_t *p, size_t n, uint64_t left, size_t *used)
{
    struct scan *s = ctx;

    (void)left;
    return journal_format_part(&s->part, used, p, n, s->seed);
}

static enum err scan_records(struct scan *s, struct journal_scanned *out)
{
    uint64_t at = out->header.bytes;
    enum err e = ERR_OK;

    out->end = at;
    while (!e) {
        struct journal_found found = {.header = &out->header, .part = &s->part};

        e = reclog_next(&s->reader, &at, &found.bytes);
        if (e) {
            return e == ERR_END ? ERR_OK : e;
        }
        found.offset = at;
        found.damaged = at - out->end;
        e = s->job->each(s->job->ctx, &found);
        at += found.bytes;
        out->damaged += found.damaged;
        out->end = at;
    }
    return e;
}

enum err journal_format_scan(struct journal_scanned *out, const struct journal_scan *job)
{
    struct scan s = {.job = job,
                     .reader = {.format = &format,
                                .fio = job->fio,
                                .f = job->f,
                                .size = job->size,
                                .parse = scan_parse,
                                .ctx = &s}};
    struct journal_scanned done = {.end = 0};
    const uint8_t *p;
    size_t n;
    enum err e = reclog_reader_open(&s.reader, RECLOG_WINDOW);

    if (!e) {
        e = reclog_bytes(&s.reader, 0, JOURNAL_HEADER_BYTES, &p, &n);
    }
    if (!e) {
        e = journal_format_header(&done.header, p, n);
    }
    if (!e) {
        s.seed = done.header.seed;
        e = scan_records(&s, &done);
    }
    reclog_reader_close(&s.reader);
    if (!e) {
        *out = done;
    }
    return e;
}
