#include "collector/store/wal/wal_replay.h"

#include <string.h>

#include "common/base/mem.h"

#define SCAN_BYTES (4u << 20) /* at least WAL_RECORD_MAX */

/* A window over the file, moved forward as it is read. */
struct scan {
    const struct wal_replay *job;
    uint8_t *p;
    size_t cap;    /* of p */
    uint64_t base; /* offset of p[0] */
    size_t n;
    uint64_t ranges; /* records of them that were read */
    struct wal_replayed out;
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

    return e ? e : wal_record_parse(r, used, p, n, s->job->header->seed, s->job->header->version);
}

/* The next place from *at on where a record may begin; ERR_END when there is none. */
static enum err scan_magic(struct scan *s, uint64_t *at)
{
    while (*at < s->job->size && s->job->size - *at >= 4) {
        const uint8_t *p, *hit;
        size_t n;
        enum err e = scan_at(s, *at, WAL_RECORD_MAX, &p, &n);

        if (e) {
            return e;
        }
        hit = memmem(p, n, WAL_RECORD_MAGIC, 4);
        if (hit) {
            *at += (uint64_t)(hit - p);
            return ERR_OK;
        }
        *at += n - 3; /* at least 4 are left */
    }
    return ERR_END;
}

/* The next sound record after damage at *at; ERR_END when none follows. */
static enum err scan_resync(struct scan *s, uint64_t *at, struct wal_record *r, size_t *used)
{
    enum err e = ERR_CORRUPT;

    while (e == ERR_CORRUPT) {
        (*at)++;
        e = scan_magic(s, at);
        if (!e) {
            e = scan_record(s, *at, r, used);
        }
    }
    return e;
}

static enum err deliver(struct scan *s, const struct wal_record *r)
{
    enum err e = ERR_CORRUPT;

    s->ranges += r->kind == WAL_RANGES;
    if (r->kind == WAL_BATCH || r->kind == WAL_RANGES) {
        e = s->job->each(s->job->ctx, r);
    }
    if (e == ERR_CORRUPT) {
        s->out.bad_records++;
        return ERR_OK;
    }
    return e;
}

static enum err scan_all(struct scan *s)
{
    uint64_t at = s->job->header->bytes;
    enum err e = ERR_OK;

    s->out.end = at < s->job->size ? at : s->job->size;
    while (!e && at < s->job->size) {
        struct wal_record r;
        size_t used = 0;

        e = scan_record(s, at, &r, &used);
        if (e == ERR_CORRUPT) {
            e = scan_resync(s, &at, &r, &used);
            s->out.bad_records += e == ERR_OK;
        }
        if (!e) {
            r.at = at;
            r.size = (uint32_t)used;
            at += used;
            s->out.end = at;
            e = deliver(s, &r);
        }
    }
    return e == ERR_END ? ERR_OK : e;
}

/* A write that was never finished leaves the beginning of a record, or zeros. */
static enum err scan_end(struct scan *s)
{
    static const uint8_t zeros[4] = {0};
    uint64_t left = s->job->size - s->out.end;
    const uint8_t *p;
    size_t n;
    enum err e = left > 0 ? scan_at(s, s->out.end, sizeof zeros, &p, &n) : ERR_OK;

    if (!e && left > 0) {
        n = n < sizeof zeros ? n : sizeof zeros;
        s->out.strange_end = memcmp(p, WAL_RECORD_MAGIC, n) != 0 && memcmp(p, zeros, n) != 0;
    }
    return e;
}

static enum err scan_begin(struct scan *s)
{
    s->cap = s->job->size < SCAN_BYTES ? (size_t)s->job->size : SCAN_BYTES;
    s->p = mem_alloc(s->cap ? s->cap : 1);
    return s->p ? ERR_OK : ERR_NOMEM;
}

enum err wal_replay(struct wal_replayed *out, const struct wal_replay *job)
{
    struct scan s = {.job = job};
    enum err e = scan_begin(&s);

    if (!e) {
        e = scan_all(&s);
    }
    if (!e) {
        e = scan_end(&s);
    }
    mem_free(s.p);
    if (e) {
        return e;
    }
    s.out.ranges_lost =
        job->header->version < 3 ? s.out.bad_records > 0 : s.ranges < job->header->ranges;
    *out = s.out;
    return ERR_OK;
}

enum err wal_replay_any(bool *any, const struct fio *fio, struct fio_file *f, uint64_t size)
{
    const struct wal_replay job = {.fio = fio, .f = f, .size = size};
    struct scan s = {.job = &job};
    enum err e = scan_begin(&s);

    *any = false;
    for (uint64_t at = 0; !e && !*any && size > WAL_HEADER_BYTES && at < size;) {
        const uint8_t *p;
        size_t n;

        e = scan_at(&s, at, 1, &p, &n);
        for (size_t i = 0; !e && !*any && i < n; i++) {
            *any = p[i] != 0;
        }
        at += e ? 0 : n;
    }
    mem_free(s.p);
    return e;
}
