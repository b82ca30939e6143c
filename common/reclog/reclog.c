#include "common/reclog/reclog.h"

#include <assert.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/mem.h"

/* -- checksums -- */

void reclog_seal(struct buf *b, size_t start, uint64_t seed)
{
    if (!b->bad) {
        buf_put_u64le(b, hash_bytes(b->p + start, b->n - start, seed));
    }
}

bool reclog_is_sealed(struct cur *c, const uint8_t *start, uint64_t seed)
{
    size_t n = c->bad ? 0 : (size_t)(c->p - start);
    uint64_t sum = cur_u64le(c);

    return !c->bad && sum == hash_bytes(start, n, seed);
}

/* -- the header -- */

static void header_put_copy(struct buf *b, const struct reclog_format *f, uint32_t extra,
                            const uint64_t *words)
{
    size_t start = b->n;

    buf_put(b, f->magic, sizeof f->magic);
    buf_put_u32le(b, f->version);
    buf_put_u32le(b, extra);
    for (unsigned i = 0; i < f->words; i++) {
        buf_put_u64le(b, words[i]);
    }
    reclog_seal(b, start, 0);
}

void reclog_header_put(struct buf *b, const struct reclog_format *f, uint32_t extra,
                       const uint64_t *words)
{
    assert(f->words <= RECLOG_WORDS_MAX && f->twice <= f->version);
    header_put_copy(b, f, extra, words);
    header_put_copy(b, f, extra, words);
}

static enum err header_parse_copy(struct reclog_header *h, const struct reclog_format *f,
                                  const uint64_t *number, const uint8_t *p, size_t n)
{
    struct cur c = cur_make(p, n);
    const uint8_t *magic = cur_bytes(&c, sizeof f->magic);
    struct reclog_header found = {.version = cur_u32le(&c)};

    found.extra = cur_u32le(&c);
    for (unsigned i = 0; i < f->words; i++) {
        found.words[i] = cur_u64le(&c);
    }
    if (!reclog_is_sealed(&c, p, 0) || memcmp(magic, f->magic, sizeof f->magic) != 0 ||
        (number && found.words[0] != *number) ||
        (f->above_0 >= 0 && found.words[f->above_0] == 0)) {
        return ERR_CORRUPT;
    }
    if (found.version == 0 || found.version > f->version || found.extra > f->extra_max) {
        return ERR_VERSION;
    }
    found.bytes = RECLOG_HEADER(f->words) * (found.version < f->twice ? 1 : 2);
    *h = found;
    return ERR_OK;
}

enum err reclog_header_parse(struct reclog_header *h, const struct reclog_format *f,
                             const uint64_t *number, const uint8_t *p, size_t n)
{
    size_t one = RECLOG_HEADER(f->words);
    struct reclog_header found;
    enum err e = header_parse_copy(&found, f, number, p, n);

    if (e == ERR_CORRUPT && n > one) {
        e = header_parse_copy(&found, f, number, p + one, n - one);
    }
    if (!e) {
        *h = found;
        h->damaged = found.bytes > one && n >= found.bytes && memcmp(p, p + one, one) != 0;
    }
    return e;
}

/* -- reading -- */

enum err reclog_reader_open(struct reclog_reader *r, size_t window)
{
    assert(window >= r->format->look);
    r->cap = r->size < window ? (size_t)r->size : window;
    r->n = 0;
    r->p = r->own = mem_alloc(r->cap ? r->cap : 1);
    return r->own ? ERR_OK : ERR_NOMEM;
}

void reclog_reader_close(struct reclog_reader *r)
{
    mem_free(r->own);
    r->p = r->own = NULL;
    r->n = 0;
}

enum err reclog_bytes(struct reclog_reader *r, uint64_t at, size_t want, const uint8_t **p,
                      size_t *n)
{
    uint64_t left = r->size - at;

    assert(at <= r->size);
    want = want < left ? want : (size_t)left;
    if (at < r->base || at + want > r->base + r->n) {
        enum err e = r->fio->read(r->fio->ctx, r->f, at, r->own,
                                  left < r->cap ? (size_t)left : r->cap, &r->n);

        r->base = at;
        if (e || r->n < want) { /* less: the file shrank meanwhile */
            r->n = 0;
            return e ? e : ERR_IO;
        }
    }
    *p = r->p + (at - r->base);
    *n = (size_t)(r->base + r->n - at);
    return ERR_OK;
}

static enum err reader_parse(struct reclog_reader *r, uint64_t at, size_t *used)
{
    const uint8_t *p;
    size_t n;
    enum err e = reclog_bytes(r, at, r->format->look, &p, &n);

    return e ? e : r->parse(r->ctx, p, n, r->size - at, used);
}

/* The first place in n bytes where the magic stands, or NULL; MinGW has no memmem. */
static const uint8_t *find_magic(const uint8_t *p, size_t n, const void *magic)
{
    const uint8_t *end = p + n;

    while ((size_t)(end - p) >= RECLOG_MAGIC) {
        p = memchr(p, *(const uint8_t *)magic, (size_t)(end - p) - (RECLOG_MAGIC - 1));
        if (!p || memcmp(p, magic, RECLOG_MAGIC) == 0) {
            return p;
        }
        p++;
    }
    return NULL;
}

/* Moves *at to the first place from there on where a record may begin. Errors: ERR_END (none) */
static enum err reader_seek_magic(struct reclog_reader *r, uint64_t *at)
{
    size_t want = r->format->look > RECLOG_MAGIC ? r->format->look : RECLOG_MAGIC;

    while (r->size - *at >= RECLOG_MAGIC) {
        const uint8_t *p, *hit;
        size_t n;
        enum err e = reclog_bytes(r, *at, want, &p, &n);

        if (e) {
            return e;
        }
        hit = find_magic(p, n, r->format->record_magic);
        if (hit) {
            *at += (uint64_t)(hit - p);
            return ERR_OK;
        }
        *at += n - (RECLOG_MAGIC - 1);
    }
    return ERR_END;
}

enum err reclog_next(struct reclog_reader *r, uint64_t *at, size_t *used)
{
    uint64_t from = *at;
    enum err e = from < r->size ? reader_parse(r, from, used) : ERR_END;

    while (e == ERR_CORRUPT) {
        from++;
        e = reader_seek_magic(r, &from);
        if (!e) {
            e = reader_parse(r, from, used);
        }
    }
    if (!e) {
        *at = from;
    }
    return e;
}

/* -- writing -- */

void reclog_writer_close(struct reclog_writer *w)
{
    if (w->f) {
        w->fio->close(w->fio->ctx, w->f);
        w->f = NULL;
    }
}

static enum err writer_begin(struct reclog_writer *w, uint64_t number)
{
    char *path = fio_name_path(w->dir, w->prefix, number, w->suffix);
    enum err e;

    w->number = number;
    if (!path) {
        return ERR_NOMEM;
    }
    reclog_writer_close(w);
    w->bytes = 0;
    e = w->fio->create(w->fio->ctx, &w->f, path);
    if (e) {
        w->f = NULL;
    }
    mem_free(path);
    return e;
}

enum err reclog_commit(struct reclog_writer *w, uint64_t begins, const struct buf *b)
{
    const struct fio *fio = w->fio;
    enum err e = begins ? writer_begin(w, begins) : ERR_OK;

    assert(e || w->f);
    if (!e) {
        e = fio->write(fio->ctx, w->f, w->bytes, b->p, b->n);
    }
    if (!e) {
        e = fio->sync(fio->ctx, w->f);
    }
    return !e && begins ? fio->sync_dir(fio->ctx, w->dir) : e;
}

void reclog_undo(struct reclog_writer *w)
{
    if (w->f) {
        err_ignore(w->fio->truncate(w->fio->ctx, w->f, w->bytes));
    }
}

void reclog_discard(struct reclog_writer *w)
{
    char *path = fio_name_path(w->dir, w->prefix, w->number, w->suffix);

    reclog_writer_close(w);
    if (path) {
        err_ignore(w->fio->remove(w->fio->ctx, path));
    }
    mem_free(path);
}

enum err reclog_cut(const struct fio *fio, struct fio_file *f, const char *dir, uint64_t size,
                    uint64_t end)
{
    enum err e = end < size ? fio->truncate(fio->ctx, f, end) : ERR_OK;

    if (!e) {
        e = fio->sync(fio->ctx, f);
    }
    return e ? e : fio->sync_dir(fio->ctx, dir);
}

int reclog_by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}
