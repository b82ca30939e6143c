#include "agent/spool/spool_segment.h"

#include <string.h>

#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/mem.h"

#define COPIES       2u /* the header is there twice from this version on */
#define COPY_BYTES   (SPOOL_HEADER_BYTES / 2)
#define RECORD_MAGIC 0x52534650u /* "PFSR" */
#define WINDOW       (64u << 10) /* looked through at once for the next record */

static const uint8_t file_magic[8] = {'P', 'F', 'S', 'P', 'L', 0x1a, '\r', '\n'};

static void header_put_copy(struct buf *b, const struct spool_header *h)
{
    size_t start = b->n;

    buf_put(b, file_magic, sizeof file_magic);
    buf_put_u32le(b, SPOOL_VERSION);
    buf_put_u32le(b, h->detail);
    buf_put_u64le(b, h->number);
    buf_put_u64le(b, h->stream);
    buf_put_u64le(b, h->first_seq);
    buf_put_u64le(b, h->seed);
    if (!b->bad) {
        buf_put_u64le(b, hash_bytes(b->p + start, b->n - start, 0));
    }
}

void spool_header_put(struct buf *b, const struct spool_header *h)
{
    header_put_copy(b, h);
    header_put_copy(b, h);
}

static enum err header_parse_copy(struct spool_header *h, uint64_t number, const uint8_t *p,
                                  size_t n)
{
    struct cur c = cur_make(p, n);
    const uint8_t *magic = cur_bytes(&c, sizeof file_magic);
    uint32_t version = cur_u32le(&c);
    struct spool_header found = {.detail = cur_u32le(&c)};

    found.number = cur_u64le(&c);
    found.stream = cur_u64le(&c);
    found.first_seq = cur_u64le(&c);
    found.seed = cur_u64le(&c);
    if (cur_u64le(&c) != hash_bytes(p, c.bad ? 0 : COPY_BYTES - 8, 0) || c.bad ||
        memcmp(magic, file_magic, sizeof file_magic) != 0 || found.number != number ||
        found.first_seq == 0) {
        return ERR_CORRUPT;
    }
    if (version == 0 || version > SPOOL_VERSION || found.detail > SPOOL_LEDGER) {
        return ERR_VERSION;
    }
    found.bytes = version < COPIES ? COPY_BYTES : SPOOL_HEADER_BYTES;
    *h = found;
    return ERR_OK;
}

enum err spool_header_parse(struct spool_header *h, uint64_t number, const uint8_t *p, size_t n)
{
    struct spool_header found = {0}, second = {0};
    enum err e = header_parse_copy(&found, number, p, n);
    enum err copy = n > COPY_BYTES
                        ? header_parse_copy(&second, number, p + COPY_BYTES, n - COPY_BYTES)
                        : ERR_CORRUPT;

    if (e == ERR_CORRUPT && copy != ERR_CORRUPT) {
        found = second;
        e = copy;
    }
    if (!e && n < found.bytes) {
        return ERR_CORRUPT;
    }
    if (!e) {
        found.damaged =
            found.bytes > COPY_BYTES && memcmp(p, p + COPY_BYTES, COPY_BYTES) != 0 ? 1 : 0;
        *h = found;
    }
    return e;
}

void spool_record_put(struct buf *b, uint64_t seed, uint64_t seq, int64_t when_ns, const void *p,
                      size_t n)
{
    size_t start = b->n;

    buf_put_u32le(b, RECORD_MAGIC);
    buf_put_u32le(b, (uint32_t)n);
    buf_put_u64le(b, seq);
    buf_put_u64le(b, (uint64_t)when_ns);
    buf_put_u64le(b, 0);
    buf_put_u64le(b, hash_bytes(p, n, seed));
    if (!b->bad) {
        buf_put_u64le(b, hash_bytes(b->p + start, b->n - start, seed));
    }
    buf_put(b, p, n);
}

enum err spool_record_parse(struct spool_record *r, const void *p, size_t n, uint64_t seed)
{
    struct cur c = cur_make(p, n);
    uint32_t magic = cur_u32le(&c);
    struct spool_record found;

    found.n = cur_u32le(&c);
    found.seq = cur_u64le(&c);
    found.when_ns = (int64_t)cur_u64le(&c);
    cur_skip(&c, 8);
    found.sum = cur_u64le(&c);
    if (cur_u64le(&c) != hash_bytes(p, c.bad ? 0 : SPOOL_RECORD_BYTES - 8, seed) || c.bad ||
        magic != RECORD_MAGIC || found.n > SPOOL_BATCH_MAX) {
        return ERR_CORRUPT;
    }
    *r = found;
    return ERR_OK;
}

uint64_t spool_record_end(uint64_t at, const struct spool_record *r)
{
    return at + SPOOL_RECORD_BYTES + r->n;
}

/* Whether a record that lies wholly inside begins there. Errors: ERR_CORRUPT, ERR_IO */
static enum err record_at(const struct spool_segment *s, uint64_t at, struct spool_record *r)
{
    uint8_t bytes[SPOOL_RECORD_BYTES];
    struct spool_record found;
    size_t got;
    enum err e;

    if (s->end - at < sizeof bytes) {
        return ERR_CORRUPT;
    }
    e = s->fio->read(s->fio->ctx, s->f, at, bytes, sizeof bytes, &got);
    if (!e) {
        e = spool_record_parse(&found, bytes, got, s->seed);
    }
    if (!e && spool_record_end(at, &found) > s->end) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        *r = found;
    }
    return e;
}

/* The first place in p at which a record may begin; n when there is none. */
static size_t find_magic(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i + 4 <= n; i++) {
        if (cur_at32le(p + i) == RECORD_MAGIC) {
            return i;
        }
    }
    return n;
}

/* Looks for a record from *at on, without what stands there. Errors: ERR_END */
static enum err search(const struct spool_segment *s, uint64_t *at, struct spool_record *r,
                       uint8_t *window)
{
    uint64_t from = *at + 1;

    while (from + SPOOL_RECORD_BYTES <= s->end) {
        size_t got, hit;
        enum err e = s->fio->read(s->fio->ctx, s->f, from, window, WINDOW, &got);

        if (e) {
            return e;
        }
        if (got < 4) {
            return ERR_END;
        }
        hit = find_magic(window, got);
        if (hit == got) {
            from += got - 3;
            continue;
        }
        from += hit;
        e = from < s->end ? record_at(s, from, r) : ERR_CORRUPT;
        if (!e) {
            *at = from;
        }
        if (e != ERR_CORRUPT) {
            return e;
        }
        from++;
    }
    return ERR_END;
}

enum err spool_segment_next(const struct spool_segment *s, uint64_t *at, struct spool_record *r,
                            uint64_t *damaged)
{
    uint8_t *window;
    enum err e;

    if (*at >= s->end) {
        return ERR_END;
    }
    e = record_at(s, *at, r);
    if (e != ERR_CORRUPT) {
        return e;
    }
    window = mem_alloc(WINDOW);
    if (!window) {
        return ERR_NOMEM;
    }
    e = search(s, at, r, window);
    mem_free(window);
    if (!e || e == ERR_END) {
        (*damaged)++;
    }
    return e;
}

enum err spool_segment_read(const struct spool_segment *s, uint64_t at,
                            const struct spool_record *r, struct buf *out)
{
    uint8_t *to;
    size_t got;
    enum err e;

    buf_reset(out);
    to = buf_grow(out, r->n);
    if (!to && r->n > 0) {
        return ERR_NOMEM;
    }
    e = s->fio->read(s->fio->ctx, s->f, at + SPOOL_RECORD_BYTES, out->p, r->n, &got);
    if (!e && (got != r->n || hash_bytes(out->p, r->n, s->seed) != r->sum)) {
        e = ERR_CORRUPT;
    }
    return e;
}
