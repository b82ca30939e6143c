#include "agent/spool/spool_segment.h"

#include <string.h>

#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/reclog/reclog.h"

#define WINDOW (64u << 10) /* looked through at once for the next record */

static const struct reclog_format format = {.magic = {'P', 'F', 'S', 'P', 'L', 0x1a, '\r', '\n'},
                                            .record_magic = "PFSR",
                                            .version = SPOOL_VERSION,
                                            .twice = 2,
                                            .extra_max = SPOOL_LEDGER,
                                            .words = 4,
                                            .above_0 = 2,
                                            .look = SPOOL_RECORD_BYTES};

void spool_segment_put_header(struct buf *b, const struct spool_header *h)
{
    const uint64_t words[] = {h->number, h->stream, h->first_seq, h->seed};

    reclog_header_put(b, &format, h->detail, words);
}

enum err spool_segment_header(struct spool_header *h, uint64_t number, const uint8_t *p, size_t n)
{
    struct reclog_header found;
    enum err e = reclog_header_parse(&found, &format, &number, p, n);

    if (!e && n < found.bytes) {
        e = ERR_CORRUPT; /* it was never finished */
    }
    if (!e) {
        *h = (struct spool_header){.detail = found.extra,
                                   .number = found.words[0],
                                   .stream = found.words[1],
                                   .first_seq = found.words[2],
                                   .seed = found.words[3],
                                   .bytes = found.bytes,
                                   .damaged = found.damaged};
    }
    return e;
}

void spool_segment_put_record(struct buf *b, uint64_t seed, uint64_t seq, int64_t when_ns,
                              const void *p, size_t n)
{
    size_t start = b->n;

    buf_put(b, format.record_magic, RECLOG_MAGIC);
    buf_put_u32le(b, (uint32_t)n);
    buf_put_u64le(b, seq);
    buf_put_u64le(b, (uint64_t)when_ns);
    buf_put_u64le(b, 0);
    buf_put_u64le(b, hash_bytes(p, n, seed));
    reclog_seal(b, start, seed);
    buf_put(b, p, n);
}

enum err spool_segment_record(struct spool_record *r, const void *p, size_t n, uint64_t seed)
{
    struct cur c = cur_make(p, n);
    const uint8_t *magic = cur_bytes(&c, RECLOG_MAGIC);
    struct spool_record found;

    found.n = cur_u32le(&c);
    found.seq = cur_u64le(&c);
    found.when_ns = (int64_t)cur_u64le(&c);
    cur_skip(&c, 8);
    found.sum = cur_u64le(&c);
    if (!reclog_is_sealed(&c, p, seed) || memcmp(magic, format.record_magic, RECLOG_MAGIC) != 0 ||
        found.n > SPOOL_BATCH_MAX) {
        return ERR_CORRUPT;
    }
    *r = found;
    return ERR_OK;
}

uint64_t spool_segment_end(uint64_t at, const struct spool_record *r)
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
        e = spool_segment_record(&found, bytes, got, s->seed);
    }
    if (!e && spool_segment_end(at, &found) > s->end) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        *r = found;
    }
    return e;
}

struct search {
    const struct spool_segment *s;
    struct spool_record r;
};

static enum err search_parse(void *ctx, const uint8_t *p, size_t n, uint64_t left, size_t *used)
{
    struct search *x = ctx;
    enum err e = spool_segment_record(&x->r, p, n, x->s->seed);

    if (!e) {
        *used = SPOOL_RECORD_BYTES + x->r.n;
        e = *used > left ? ERR_CORRUPT : ERR_OK;
    }
    return e;
}

enum err spool_segment_next(const struct spool_segment *s, uint64_t *at, struct spool_record *r,
                            uint64_t *damaged)
{
    struct search x = {.s = s};
    struct reclog_reader reader = {.format = &format,
                                   .fio = s->fio,
                                   .f = s->f,
                                   .size = s->end,
                                   .parse = search_parse,
                                   .ctx = &x};
    size_t used;
    enum err e;

    if (*at >= s->end) {
        return ERR_END;
    }
    e = record_at(s, *at, r);
    if (e != ERR_CORRUPT) {
        return e;
    }
    e = reclog_reader_open(&reader, WINDOW);
    if (!e) {
        e = reclog_next(&reader, at, &used);
        *damaged += !e || e == ERR_END;
    }
    if (!e) {
        *r = x.r;
    }
    reclog_reader_close(&reader);
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
