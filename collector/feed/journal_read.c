/* Reading back: the index says where, the bytes are read without the lock by a file of the reader's
 * own. A file that went meanwhile is as if its records had gone before. */
#include <string.h>

#include "collector/feed/journal_impl.h"
#include "common/mem.h"

#define LOOK 16u /* records that are looked at at once */

/* One record and where it stands. */
struct place {
    struct journal_record r;
    uint64_t file, seed;
    uint32_t offset, bytes;
};

static void place_make(const struct journal_index *x, size_t file, size_t entry, struct place *out)
{
    const struct journal_file *f = &x->files[file];
    const struct journal_entry *e = &f->entries[entry];

    journal_index_record(x, e, &out->r);
    out->file = f->number;
    out->seed = f->seed;
    out->offset = e->offset;
    out->bytes = e->bytes;
}

static enum err read_bytes(const struct journal *j, const struct place *at, uint8_t *p)
{
    const struct fio *fio = j->conf.fio;
    char *path = journal_path(j, at->file);
    struct fio_file *f;
    size_t got = 0;
    enum err e = path ? fio->open(fio->ctx, &f, path) : ERR_NOMEM;

    mem_free(path);
    if (e) {
        return e;
    }
    e = fio->read(fio->ctx, f, at->offset, p, at->bytes, &got);
    fio->close(fio->ctx, f);
    return e ? e : got < at->bytes ? ERR_CORRUPT : ERR_OK;
}

/* Errors: ERR_NOTFOUND (the file has gone), ERR_CORRUPT and others */
static enum err read_place(const struct journal *j, const struct place *at, struct buf *payload)
{
    uint8_t *p = mem_alloc(at->bytes);
    struct journal_part part;
    size_t used;
    enum err e = p ? read_bytes(j, at, p) : ERR_NOMEM;

    if (!e) {
        e = journal_part_parse(&part, &used, p, at->bytes, at->seed);
    }
    if (!e && (part.about.position != at->r.position || part.about.n != at->r.n)) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        e = journal_part_unpack(payload, &part);
    }
    mem_free(p);
    return e;
}

void journal_range(struct journal *j, uint64_t *first, uint64_t *next)
{
    size_t file, entry;

    os_mutex_lock(j->lock);
    *next = j->next;
    *first = journal_index_at(&j->index, 0, &file, &entry)
                 ? j->index.files[file].entries[entry].position
                 : j->next;
    os_mutex_unlock(j->lock);
}

/* Up to LOOK records from the position on. */
static size_t look(struct journal *j, uint64_t from, struct place *out, uint64_t *next)
{
    const struct journal_index *x = &j->index;
    size_t n = 0, file = 0, entry = 0;

    os_mutex_lock(j->lock);
    *next = j->next;
    if (journal_index_at(x, from, &file, &entry)) {
        for (; file < x->n_files && n < LOOK; file++, entry = 0) {
            for (; entry < x->files[file].n && n < LOOK; entry++) {
                place_make(x, file, entry, &out[n++]);
            }
        }
    }
    os_mutex_unlock(j->lock);
    return n;
}

enum err journal_next(struct journal *j, uint64_t *from,
                      bool (*want)(void *ctx, const struct journal_record *r), void *ctx,
                      struct journal_record *r, struct buf *payload)
{
    struct place places[LOOK];
    uint64_t next;
    size_t n;

    while ((n = look(j, *from, places, &next)) > 0) {
        for (size_t i = 0; i < n; i++) {
            const struct place *at = &places[i];
            enum err e = ERR_OK;

            if (want && !want(ctx, &at->r)) {
                *from = at->r.position + 1;
                continue;
            }
            if (payload) {
                e = read_place(j, at, payload);
            }
            if (e && e != ERR_CORRUPT && e != ERR_NOTFOUND) {
                return e;
            }
            *from = at->r.position + 1;
            if (e != ERR_NOTFOUND) {
                *r = at->r;
                return e;
            }
        }
    }
    *from = next > *from ? next : *from;
    return ERR_END;
}

enum err journal_find(struct journal *j, enum feed_topic topic, const char *name, uint64_t seq,
                      struct journal_record *r, struct buf *payload, uint64_t *last)
{
    enum err e = ERR_NOTFOUND;

    while (e == ERR_NOTFOUND) {
        const struct journal_channel *c;
        struct place at = {.file = 0};
        size_t file, entry;

        os_mutex_lock(j->lock);
        c = journal_index_channel(&j->index, name);
        *last = c ? c->last[topic] : 0;
        if (!c || !journal_index_find(&j->index, c, topic, seq, &file, &entry)) {
            os_mutex_unlock(j->lock);
            return ERR_END;
        }
        place_make(&j->index, file, entry, &at);
        os_mutex_unlock(j->lock);
        *r = at.r;
        e = payload ? read_place(j, &at, payload) : ERR_OK;
        seq = at.r.seq + 1;
    }
    return e;
}

bool journal_has(struct journal *j, enum feed_topic topic, const char *name, uint64_t stream,
                 uint64_t batch)
{
    const struct journal_index *x = &j->index;
    const struct journal_channel *c;
    const struct journal_spots *s;
    bool has = false;

    os_mutex_lock(j->lock);
    c = journal_index_channel(x, name);
    s = c ? &c->spots[topic] : NULL;
    for (size_t i = s ? s->n : 0; i > 0 && !has; i--) {
        struct journal_spot at = s->all[s->first + i - 1];
        const struct journal_entry *e = &x->files[at.file - x->dropped].entries[at.entry];

        has =
            e->stream == stream && !e->more && e->batch <= batch && batch - e->batch <= e->batches;
    }
    os_mutex_unlock(j->lock);
    return has;
}
