/* Reading back: the index says where, the bytes are read without the lock by a file of the reader's
 * own. A file that went meanwhile is as if its records had gone before. Of a record whose payload
 * is not asked for only the head is read. */
#include <string.h>

#include "collector/subscribe/journal_impl.h"
#include "common/base/mem.h"

#define LOOK 16u /* records that are looked at at once */

/* One record and where it stands. */
struct place {
    struct journal_record r; /* as far as the index knows */
    struct journal_place at; /* without its name */
};

void journal_known(struct journal_record *out, const struct journal_place *at)
{
    *out = (struct journal_record){
        .position = at->position, .seq = at->seq, .topic = at->topic, .n = at->n};
    memcpy(out->name, at->name, strnlen(at->name, sizeof out->name - 1));
}

static void place_make(const struct journal_index *x, size_t file, size_t entry, struct place *out)
{
    journal_index_place(x, file, entry, &out->at);
    journal_known(&out->r, &out->at);
    out->at.name = NULL;
}

static enum err read_bytes(const struct journal *j, const struct place *p, uint8_t *to, size_t *n)
{
    const struct fio *fio = j->conf.fio;
    char *path = journal_path(j, p->at.file);
    struct fio_file *f;
    enum err e = path ? fio->open(fio->ctx, &f, path) : ERR_NOMEM;

    mem_free(path);
    if (e) {
        return e;
    }
    e = fio->read(fio->ctx, f, p->at.offset, to, *n, n);
    fio->close(fio->ctx, f);
    return e;
}

/* Whether it is the record that the index means, and what that does not know. */
static enum err take(struct place *p, const struct journal_part *part)
{
    const struct journal_record *r = &part->about;

    if (r->position != p->r.position || r->seq != p->r.seq || r->topic != p->r.topic ||
        r->n != p->r.n) {
        return ERR_CORRUPT;
    }
    memcpy(p->r.host.b, r->host.b, sizeof p->r.host.b);
    p->r.stream = r->stream;
    p->r.batch = r->batch;
    p->r.last_batch = r->last_batch;
    p->r.more = r->more;
    p->r.stored_ns = r->stored_ns;
    p->r.first_ns = r->first_ns;
    p->r.last_ns = r->last_ns;
    return ERR_OK;
}

/* Fills in what the index does not know. Errors: ERR_NOTFOUND (the file has gone), ERR_CORRUPT and
 * others */
static enum err read_place(const struct journal *j, struct place *p, struct buf *payload)
{
    size_t most = payload ? JOURNAL_RECORD_MAX : JOURNAL_RECORD_FIXED, used;
    size_t n = p->at.bytes < most ? (size_t)p->at.bytes : most;
    uint8_t *bytes = mem_alloc(n);
    struct journal_part part;
    enum err e = bytes ? read_bytes(j, p, bytes, &n) : ERR_NOMEM;

    if (!e && payload) {
        e = journal_part_parse(&part, &used, bytes, n, p->at.seed);
    } else if (!e) {
        e = journal_part_head(&part, bytes, n, p->at.seed);
    }
    if (!e) {
        e = take(p, &part);
    }
    if (!e && payload) {
        e = journal_part_unpack(payload, &part);
    }
    mem_free(bytes);
    return e;
}

void journal_range(struct journal *j, uint64_t *first, uint64_t *next)
{
    size_t file, entry;

    os_mutex_lock(j->lock);
    *next = j->next;
    *first =
        journal_index_at(&j->index, 0, &file, &entry) ? j->index.files[file].position : j->next;
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
            struct place *at = &places[i];
            enum err e;

            if (want && !want(ctx, &at->r)) {
                *from = at->r.position + 1;
                continue;
            }
            e = at->r.name[0] ? read_place(j, at, payload) : ERR_CORRUPT;
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
        struct place at;
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
        e = read_place(j, &at, payload);
        *r = at.r;
        seq = at.r.seq + 1;
    }
    return e;
}

/* The index is changed by the caller's thread alone, so it may be looked at without the lock. */
bool journal_has(struct journal *j, enum feed_topic topic, const char *name,
                 const struct journal_batch *b)
{
    const struct journal_index *x = &j->index;
    const struct journal_channel *c = journal_index_channel(x, name);
    const struct journal_spots *s = c ? &c->spots[topic] : NULL;

    for (size_t i = s ? s->n : 0; i > 0; i--) {
        struct journal_spot spot = s->all[s->first + i - 1];
        struct place at;

        place_make(x, spot.file - x->dropped, spot.entry, &at);
        if (at.r.n == 0 || (b->before && at.r.position >= b->before)) {
            continue;
        }
        if (read_place(j, &at, NULL) != ERR_OK) {
            continue;
        }
        if (at.r.stored_ns < b->since_ns) {
            return false;
        }
        if (at.r.stream == b->stream && !at.r.more && at.r.batch <= b->seq &&
            b->seq <= at.r.last_batch) {
            return true;
        }
    }
    return false;
}
