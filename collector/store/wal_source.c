#include "collector/store/wal_source.h"

#include <stdatomic.h>

#include "common/mem.h"

struct wal_source {
    atomic_uint refs;
    const struct fio *fio;
    struct fio_file *f;
    uint64_t seed;
};

enum err wal_source_create(struct wal_source **out, const struct fio *fio, struct fio_file *f)
{
    struct wal_source *s = mem_zalloc(sizeof *s);
    uint8_t header[WAL_HEADER_BYTES];
    size_t got;
    enum err e = s ? fio->read(fio->ctx, f, 0, header, sizeof header, &got) : ERR_NOMEM;

    if (!e) {
        e = wal_header_parse(&s->seed, header, got);
    }
    if (e) {
        mem_free(s);
        return e;
    }
    atomic_init(&s->refs, 1);
    s->fio = fio;
    s->f = f;
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

uint64_t wal_source_seed(const struct wal_source *s)
{
    return s->seed;
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
    e = wal_record_parse(r, &used, p, got, s->seed);
    return e ? e : used == size ? ERR_OK : ERR_CORRUPT;
}
