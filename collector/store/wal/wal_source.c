#include "collector/store/wal/wal_source.h"

#include <stdatomic.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/reclog/reclog.h"

static const struct reclog_format format = {.magic = {'P', 'F', 'W', 'A', 'L', 0x1a, '\r', '\n'},
                                            .record_magic = WAL_RECORD_MAGIC,
                                            .version = WAL_VERSION,
                                            .twice = 3,
                                            .extra_max = UINT32_MAX,
                                            .words = 2,
                                            .above_0 = -1,
                                            .look = WAL_RECORD_MAX};

struct wal_source {
    atomic_uint refs;
    const struct fio *fio;
    struct fio_file *f;
    struct wal_header header;
};

/* -- the header -- */

void wal_source_header_put(struct buf *b, uint64_t number, uint64_t seed, uint32_t ranges)
{
    const uint64_t words[] = {number, seed};

    reclog_header_put(b, &format, ranges, words);
}

struct wal_header wal_source_header_of(uint64_t number, uint64_t seed, uint32_t version)
{
    return (struct wal_header){.number = number,
                               .seed = seed,
                               .version = version,
                               .bytes = WAL_HEADER_BYTES / (version < format.twice ? 2 : 1)};
}

enum err wal_source_header_parse(struct wal_header *h, uint64_t number, const uint8_t *p, size_t n)
{
    struct reclog_header found;
    enum err e = reclog_header_parse(&found, &format, &number, p, n);

    if (!e) {
        *h = wal_source_header_of(number, found.words[1], found.version);
        h->ranges = found.extra;
        h->damaged = found.damaged;
    }
    return e;
}

enum err wal_source_header(struct wal_header *out, const struct fio *fio, struct fio_file *f,
                           uint64_t number)
{
    uint8_t bytes[WAL_HEADER_BYTES];
    size_t got;
    enum err e = fio->read(fio->ctx, f, 0, bytes, sizeof bytes, &got);

    return e ? e : wal_source_header_parse(out, number, bytes, got);
}

/* -- reading records again, by their places -- */

enum err wal_source_create(struct wal_source **out, const struct fio *fio, struct fio_file *f,
                           const struct wal_header *header)
{
    struct wal_source *s = mem_zalloc(sizeof *s);

    if (!s) {
        return ERR_NOMEM;
    }
    atomic_init(&s->refs, 1);
    s->fio = fio;
    s->f = f;
    s->header = *header;
    *out = s;
    return ERR_OK;
}

struct wal_source *wal_source_ref(struct wal_source *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void wal_source_unref(struct wal_source *s)
{
    if (s && atomic_fetch_sub(&s->refs, 1) == 1) {
        s->fio->close(s->fio->ctx, s->f);
        mem_free(s);
    }
}

const struct wal_header *wal_source_about(const struct wal_source *s)
{
    return &s->header;
}

enum err wal_source_read(const struct wal_source *s, uint64_t at, size_t size, struct buf *room,
                         struct wal_record *r)
{
    size_t got, used;
    uint8_t *p;
    enum err e;

    buf_reset(room);
    p = buf_grow(room, size);
    if (!p) {
        return room->bad == ERR_FULL ? ERR_CORRUPT : room->bad;
    }
    e = s->fio->read(s->fio->ctx, s->f, at, p, size, &got);
    if (e) {
        return e;
    }
    e = wal_record_parse(r, &used, p, got, s->header.seed, s->header.version);
    return e ? e : used == size ? ERR_OK : ERR_CORRUPT;
}

/* -- reading all of a file -- */

struct scan {
    const struct wal_replay *job;
    struct reclog_reader reader;
    struct wal_record r; /* the last that was found */
    uint64_t ranges;     /* records of them that were read */
    struct wal_replayed out;
};

static enum err scan_parse(void *ctx, const uint8_t *p, size_t n, uint64_t left, size_t *used)
{
    struct scan *s = ctx;

    (void)left;
    return wal_record_parse(&s->r, used, p, n, s->job->header->seed, s->job->header->version);
}

static enum err scan_deliver(struct scan *s)
{
    const struct wal_record *r = &s->r;
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
    while (!e) {
        size_t used = 0;

        e = reclog_next(&s->reader, &at, &used);
        if (e) {
            return e == ERR_END ? ERR_OK : e;
        }
        s->out.bad_records += at > s->out.end;
        s->r.at = at;
        s->r.size = (uint32_t)used;
        at += used;
        s->out.end = at;
        e = scan_deliver(s);
    }
    return e;
}

/* A write that was never finished leaves the beginning of a record, or zeros. */
static enum err scan_end(struct scan *s)
{
    static const uint8_t zeros[4] = {0};
    uint64_t left = s->job->size - s->out.end;
    const uint8_t *p;
    size_t n;
    enum err e = left > 0 ? reclog_bytes(&s->reader, s->out.end, sizeof zeros, &p, &n) : ERR_OK;

    if (!e && left > 0) {
        n = n < sizeof zeros ? n : sizeof zeros;
        s->out.strange_end = memcmp(p, WAL_RECORD_MAGIC, n) != 0 && memcmp(p, zeros, n) != 0;
    }
    return e;
}

static struct reclog_reader scan_reader(const struct fio *fio, struct fio_file *f, uint64_t size)
{
    return (struct reclog_reader){.format = &format, .fio = fio, .f = f, .size = size};
}

enum err wal_source_replay(struct wal_replayed *out, const struct wal_replay *job)
{
    struct scan s = {.job = job, .reader = scan_reader(job->fio, job->f, job->size)};
    enum err e = reclog_reader_open(&s.reader, RECLOG_WINDOW);

    s.reader.parse = scan_parse;
    s.reader.ctx = &s;
    if (!e) {
        e = scan_all(&s);
    }
    if (!e) {
        e = scan_end(&s);
    }
    reclog_reader_close(&s.reader);
    if (e) {
        return e;
    }
    s.out.ranges_lost =
        job->header->version < 3 ? s.out.bad_records > 0 : s.ranges < job->header->ranges;
    *out = s.out;
    return ERR_OK;
}

enum err wal_source_any(bool *any, const struct fio *fio, struct fio_file *f, uint64_t size)
{
    struct reclog_reader reader = scan_reader(fio, f, size);
    enum err e = reclog_reader_open(&reader, RECLOG_WINDOW);

    *any = false;
    for (uint64_t at = 0; !e && !*any && size > WAL_HEADER_BYTES && at < size;) {
        const uint8_t *p;
        size_t n;

        e = reclog_bytes(&reader, at, 1, &p, &n);
        for (size_t i = 0; !e && !*any && i < n; i++) {
            *any = p[i] != 0;
        }
        at += e ? 0 : n;
    }
    reclog_reader_close(&reader);
    return e;
}
