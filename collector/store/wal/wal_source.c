#include "collector/store/wal/wal_source.h"

#include <stdatomic.h>

#include "common/base/mem.h"

struct wal_source {
    atomic_uint refs;
    const struct fio *fio;
    struct fio_file *f;
    struct wal_header header;
};

enum err wal_source_header(struct wal_header *out, const struct fio *fio, struct fio_file *f,
                           uint64_t number)
{
    uint8_t bytes[WAL_HEADER_BYTES];
    size_t got;
    enum err e = fio->read(fio->ctx, f, 0, bytes, sizeof bytes, &got);

    return e ? e : wal_header_parse(out, number, bytes, got);
}

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
