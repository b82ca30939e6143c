#include "collector/store/wal/wal_index.h"

#include <string.h>

#include "common/base/cur.h"
#include "common/base/mem.h"
#include "common/reclog/reclog.h"

#define VERSION      2u /* 1 had records of the log's version 2: made again */
#define HEADER_BYTES 56u
#define PLACE_BYTES  16u /* of a WAL_PLACE, before the note */

static const uint8_t magic[8] = {'P', 'F', 'W', 'I', 'X', 0x1a, '\r', '\n'};

/* -- making -- */

void wal_index_init(struct wal_index *x)
{
    buf_init(&x->records, WAL_INDEX_MAX - HEADER_BYTES);
    x->lacking = true;
}

void wal_index_fini(struct wal_index *x)
{
    buf_fini(&x->records);
}

void wal_index_begin(struct wal_index *x, uint64_t seed, uint32_t version)
{
    buf_reset(&x->records);
    x->seed = seed;
    x->version = version;
    x->lacking = false;
}

static void add_place(struct wal_index *x, const struct wal_record *r)
{
    struct wal_record place = *r;
    struct buf content;

    buf_init(&content, WAL_BYTES_MAX);
    buf_put_u64le(&content, r->at);
    buf_put_u32le(&content, r->size);
    buf_put_u32le(&content, (uint32_t)r->n);
    if (r->note_n <= WAL_BYTES_MAX - PLACE_BYTES) { /* else without: the batch will be read */
        buf_put(&content, r->note, r->note_n);
    }
    place.kind = WAL_PLACE;
    place.bytes = content.p;
    place.n = content.n;
    if (content.bad) {
        x->lacking = true;
    } else {
        wal_record_put(&x->records, &place, x->seed);
    }
    buf_fini(&content);
}

void wal_index_add(struct wal_index *x, const struct wal_record *r)
{
    if (x->lacking) {
        return;
    }
    if (r->kind == WAL_RANGES) {
        wal_record_put(&x->records, r, x->seed);
    } else if (r->kind == WAL_BATCH && r->note) {
        add_place(x, r);
    } else {
        x->lacking = true;
    }
    x->lacking = x->lacking || x->records.bad;
}

static void put_header(struct buf *b, const struct wal_index *x, uint64_t number,
                       uint64_t log_bytes)
{
    buf_put(b, magic, sizeof magic);
    buf_put_u32le(b, VERSION);
    buf_put_u32le(b, x->version);
    buf_put_u64le(b, number);
    buf_put_u64le(b, x->seed);
    buf_put_u64le(b, log_bytes);
    buf_put_u64le(b, x->records.n);
    reclog_seal(b, 0, 0);
}

enum err wal_index_write(const struct wal_index *x, const struct fio *fio, const char *path,
                         uint64_t number, uint64_t log_bytes)
{
    struct buf header;
    struct fio_file *f;
    enum err e;

    if (x->lacking) {
        return ERR_INVALID;
    }
    buf_init(&header, HEADER_BYTES);
    put_header(&header, x, number, log_bytes);
    err_ignore(fio->remove(fio->ctx, path)); /* one that was of no use */
    e = header.bad ? header.bad : fio->create(fio->ctx, &f, path);
    if (!e) {
        e = fio->write(fio->ctx, f, 0, header.p, header.n);
        if (!e) {
            e = fio->write(fio->ctx, f, header.n, x->records.p, x->records.n);
        }
        fio->close(fio->ctx, f);
        if (e) {
            err_ignore(fio->remove(fio->ctx, path));
        }
    }
    buf_fini(&header);
    return e;
}

/* -- reading -- */

/* Up to `max` bytes from its start; mem_free. ERR_NOTFOUND: none, or of another length than any
 * index. */
static enum err read_some(const struct fio *fio, const char *path, size_t max, uint8_t **out,
                          size_t *n)
{
    struct fio_file *f;
    uint64_t bytes = 0;
    uint8_t *p = NULL;
    enum err e = fio->open(fio->ctx, &f, path);

    if (e) {
        return e == ERR_NOMEM ? e : ERR_NOTFOUND;
    }
    e = fio->size(fio->ctx, f, &bytes);
    if (!e && (bytes < HEADER_BYTES || bytes > WAL_INDEX_MAX)) {
        e = ERR_NOTFOUND;
    }
    bytes = bytes < max ? bytes : max;
    if (!e) {
        p = mem_alloc((size_t)bytes);
        e = p ? fio->read(fio->ctx, f, 0, p, (size_t)bytes, n) : ERR_NOMEM;
    }
    fio->close(fio->ctx, f);
    if (e || *n != bytes) {
        mem_free(p);
        return e == ERR_NOMEM ? e : ERR_NOTFOUND;
    }
    *out = p;
    return ERR_OK;
}

/* What the first bytes of an index say. */
struct about {
    struct wal_header log;
    uint64_t log_bytes, records;
};

static bool header_parse(struct about *a, const uint8_t *p, size_t n)
{
    struct cur c = cur_make(p, n);
    const uint8_t *found = cur_bytes(&c, sizeof magic);
    uint32_t version = cur_u32le(&c), log_version = cur_u32le(&c);
    uint64_t number = cur_u64le(&c), seed = cur_u64le(&c);

    a->log = wal_source_header_of(number, seed, log_version);
    a->log_bytes = cur_u64le(&c);
    a->records = cur_u64le(&c);
    return reclog_is_sealed(&c, p, 0) && memcmp(found, magic, sizeof magic) == 0 &&
           version == VERSION && log_version > 0 && log_version <= WAL_VERSION;
}

enum err wal_index_header(struct wal_header *out, uint64_t *log_bytes, const struct fio *fio,
                          const char *path, uint64_t number)
{
    struct about a;
    uint8_t *p;
    size_t n;
    enum err e = read_some(fio, path, HEADER_BYTES, &p, &n);

    if (e) {
        return e;
    }
    e = header_parse(&a, p, n) && a.log.number == number ? ERR_OK : ERR_NOTFOUND;
    mem_free(p);
    if (!e) {
        *out = a.log;
        *log_bytes = a.log_bytes;
        out->ranges = UINT32_MAX;
        out->damaged = 1;
    }
    return e;
}

static bool header_is_sound(const struct wal_index_job *job, const uint8_t *p, size_t n)
{
    const struct wal_header *log = wal_source_about(job->log);
    struct about a;

    return header_parse(&a, p, n) && a.log.number == job->number && a.log.seed == log->seed &&
           a.log.version == log->version && a.log_bytes == job->log_bytes &&
           a.records == n - HEADER_BYTES;
}

/* The record at the start of p, as `each` gets it. */
static enum err parse(const struct wal_index_job *job, struct wal_record *r, size_t *used,
                      const uint8_t *p, size_t n)
{
    enum err e = wal_record_parse(r, used, p, n, wal_source_about(job->log)->seed, WAL_VERSION);
    struct cur c;

    if (e || r->kind == WAL_RANGES) {
        return e;
    }
    c = cur_make(r->bytes, r->n);
    r->at = cur_u64le(&c);
    r->size = cur_u32le(&c);
    r->n = cur_u32le(&c);
    r->note_n = cur_left(&c);
    r->note = cur_bytes(&c, r->note_n);
    if (c.bad || r->kind != WAL_PLACE || r->n > WAL_BYTES_MAX || r->size > WAL_RECORD_MAX ||
        r->size < WAL_RECORD_LEAST + r->host_name.n + r->n || r->at > job->log_bytes ||
        r->size > job->log_bytes - r->at) {
        return ERR_CORRUPT;
    }
    r->kind = WAL_BATCH;
    r->bytes = NULL;
    r->from = job->log;
    return ERR_OK;
}

static enum err walk(const struct wal_index_job *job, const uint8_t *p, size_t n, bool deliver)
{
    enum err e = ERR_OK;

    for (size_t at = HEADER_BYTES, used; at < n && !e; at += used) {
        struct wal_record r;

        e = parse(job, &r, &used, p + at, n - at);
        if (e) {
            return ERR_NOTFOUND;
        }
        e = deliver ? job->each(job->ctx, &r) : ERR_OK;
    }
    return e;
}

enum err wal_index_replay(const struct wal_index_job *job, uint64_t *bytes)
{
    uint8_t *p;
    size_t n;
    enum err e = read_some(job->fio, job->path, SIZE_MAX, &p, &n);

    if (e) {
        return e;
    }
    e = header_is_sound(job, p, n) ? walk(job, p, n, false) : ERR_NOTFOUND;
    if (!e) {
        *bytes = n;
        e = walk(job, p, n, true);
    }
    mem_free(p);
    return e;
}

bool wal_index_is_torn(const struct fio *fio, const char *path)
{
    struct about a;
    uint8_t *p;
    size_t n;
    enum err e = read_some(fio, path, WAL_INDEX_MAX, &p, &n);
    bool torn = e == ERR_NOTFOUND; /* shorter than a header, or gone */

    if (!e) {
        torn = header_parse(&a, p, n) && a.records > n - HEADER_BYTES;
        mem_free(p);
    }
    return torn;
}
