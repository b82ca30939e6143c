#include "collector/store/wal_replay.h"

#include <string.h>

#include "common/mem.h"

#define SCAN_BYTES (4u << 20) /* at least WAL_RECORD_MAX */

/* A window over the file, moved forward as it is read. */
struct scan {
    const struct wal_replay *job;
    uint8_t *p;
    size_t cap;    /* of p */
    uint64_t base; /* offset of p[0] */
    size_t n;
    uint64_t seed;
    uint64_t bad_records;
};

/* The bytes from `at` on: at least `want` of them unless the file ends before. */
static enum err scan_at(struct scan *s, uint64_t at, size_t want, const uint8_t **p, size_t *n)
{
    const struct fio *fio = s->job->fio;
    uint64_t left = s->job->size - at;
    enum err e;

    want = want < left ? want : (size_t)left;
    if (at < s->base || at + want > s->base + s->n) {
        e = fio->read(fio->ctx, s->job->f, at, s->p, s->cap, &s->n);
        if (e) {
            s->n = 0;
            return e;
        }
        s->base = at;
        if (s->n < want) {
            return ERR_IO; /* the file shrank under us */
        }
    }
    *p = s->p + (at - s->base);
    *n = (size_t)(s->base + s->n - at);
    return ERR_OK;
}

static enum err scan_record(struct scan *s, uint64_t at, struct wal_record *r, size_t *used)
{
    const uint8_t *p;
    size_t n;
    enum err e = scan_at(s, at, WAL_RECORD_MAX, &p, &n);

    return e ? e : wal_record_parse(r, used, p, n, s->seed);
}

/* The next sound record after damage at *at; ERR_END when none follows. */
static enum err scan_resync(struct scan *s, uint64_t *at, struct wal_record *r, size_t *used)
{
    while (s->job->size - *at > WAL_RECORD_FIXED + 8) {
        const uint8_t *p, *hit;
        size_t n;
        enum err e;

        (*at)++;
        e = scan_at(s, *at, WAL_RECORD_MAX, &p, &n);
        if (e) {
            return e;
        }
        hit = memmem(p, n, WAL_RECORD_MAGIC, 4);
        if (!hit) {
            *at += n > 4 ? n - 4 : 0;
            continue;
        }
        *at += (uint64_t)(hit - p);
        e = scan_record(s, *at, r, used);
        if (e != ERR_CORRUPT) {
            return e;
        }
    }
    return ERR_END;
}

static enum err deliver(struct scan *s, const struct wal_record *r)
{
    enum err e = ERR_CORRUPT;

    if (r->kind == WAL_BATCH || r->kind == WAL_RANGES) {
        e = s->job->each(s->job->ctx, r);
    }
    if (e == ERR_CORRUPT) {
        s->bad_records++;
        return ERR_OK;
    }
    return e;
}

static enum err scan_all(struct scan *s, uint64_t *end)
{
    uint64_t at = WAL_HEADER_BYTES;
    enum err e = ERR_OK;

    while (!e && at < s->job->size) {
        struct wal_record r;
        size_t used = 0;

        e = scan_record(s, at, &r, &used);
        if (e == ERR_CORRUPT && s->job->last) {
            break;
        }
        if (e == ERR_CORRUPT) {
            s->bad_records++;
            e = scan_resync(s, &at, &r, &used);
        }
        if (!e) {
            r.at = at;
            r.size = (uint32_t)used;
            at += used;
            e = deliver(s, &r);
        }
    }
    *end = s->job->last ? at : s->job->size;
    return e == ERR_CORRUPT || e == ERR_END ? ERR_OK : e;
}

enum err wal_replay(struct wal_replayed *out, const struct wal_replay *job)
{
    struct scan s = {.job = job};
    struct wal_replayed result = {0};
    const uint8_t *p;
    size_t n;
    enum err e;

    s.cap = job->size < SCAN_BYTES ? (size_t)job->size : SCAN_BYTES;
    s.p = mem_alloc(s.cap);
    if (!s.p) {
        return ERR_NOMEM;
    }
    e = scan_at(&s, 0, WAL_HEADER_BYTES, &p, &n);
    if (!e) {
        e = wal_header_parse(&s.seed, p, n);
    }
    if (e == ERR_CORRUPT) {
        e = ERR_OK; /* end stays 0 */
    } else if (!e) {
        e = scan_all(&s, &result.end);
    }
    mem_free(s.p);
    if (e) {
        return e;
    }
    result.bad_records = s.bad_records;
    *out = result;
    return ERR_OK;
}
