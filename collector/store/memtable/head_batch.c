/* One batch of the head: its bytes are here, or in a file of the log. */
#include "collector/store/memtable/head_batch.h"

#include <string.h>

#include "collector/store/meta/meta.h"
#include "common/base/cur.h"
#include "common/base/mem.h"

static enum err batch_create(struct head_batch **out, size_t n)
{
    struct head_batch *b = mem_alloc(sizeof *b + n);

    if (!b) {
        return ERR_NOMEM;
    }
    memset(b, 0, sizeof *b);
    *out = b;
    return ERR_OK;
}

enum err head_batch_create(struct head_batch **out, const void *bytes, size_t n)
{
    enum err e = batch_create(out, n);

    if (!e) {
        (*out)->n = n;
        memcpy((*out)->bytes, bytes, n);
    }
    return e;
}

enum err head_batch_create_at(struct head_batch **out, const struct wal_record *r)
{
    enum err e = batch_create(out, 0);

    if (!e) {
        (*out)->n = r->n;
        (*out)->from = wal_source_ref(r->from);
        (*out)->at = r->at;
        (*out)->size = r->size;
    }
    return e;
}

void head_batch_destroy(struct head_batch *b)
{
    if (b) {
        wal_source_unref(b->from);
        mem_free(b->told);
        mem_free(b);
    }
}

/* Processes of the batch's last tick. */
static uint32_t alive_at_last(const struct batch *b)
{
    uint32_t n = 0;

    for (size_t i = 0; i < b->n_runs; i++) {
        n += b->runs[i].id.pid != 0 && b->runs[i].first_tick + b->runs[i].n_ticks == b->n_ticks;
    }
    return n;
}

void head_batch_describe(struct head_batch *kept, const struct batch *b)
{
    kept->memory = wire_batch_memory(b);
    kept->alive = alive_at_last(b);
    kept->has_events = b->n_events > 0;
}

enum err head_batch_bytes(const struct head_batch *b, struct buf *room, const void **bytes)
{
    struct wal_record r;
    enum err e;

    if (!b->from) {
        *bytes = b->bytes;
        return ERR_OK;
    }
    e = wal_source_read(b->from, b->at, b->size, room, &r);
    if (e) {
        return e;
    }
    *bytes = r.bytes;
    return r.stream == b->stream && r.seq == b->seq && r.n == b->n ? ERR_OK : ERR_CORRUPT;
}

enum err head_batch_decode(const struct head_batch *b, struct wire_decoder *dec,
                           metric_mask metrics, struct batch **out)
{
    const void *bytes;
    struct buf room;
    enum err e;

    buf_init(&room, WAL_RECORD_MAX);
    e = head_batch_bytes(b, &room, &bytes);
    if (!e) {
        e = dec ? wire_batch_decode_next(dec, out, metrics, bytes, b->n)
                : wire_batch_decode_part(out, metrics, bytes, b->n);
    }
    buf_fini(&room);
    return e;
}

#define FORMAT   1u
#define NOTE_MAX (512u << 10) /* beyond it the batch itself is read */

enum err head_batch_note_put(struct buf *out, const struct batch *b, const struct head_batch *kept)
{
    struct window_rest rest = {.batch = *b, .clock = kept->clock, .received_ns = kept->received_ns};
    const struct host_window hw = {.host = b->head.host, .n_rests = 1, .rests = &rest};
    size_t start = out->n, done;
    enum err e;

    buf_put_u8(out, FORMAT);
    buf_put_varint(out, kept->alive);
    buf_put_varint(out, kept->memory);
    e = out->bad ? out->bad : meta_encode(out, &hw, 0, NULL, &done);
    if (e == ERR_FULL || out->n - start > NOTE_MAX) {
        out->n = start;
        out->bad = ERR_OK;
        return ERR_OK;
    }
    return e;
}

enum err head_batch_note_get(struct head_batch_note *out, struct arena *memory,
                             const struct uuid *host, const void *note, size_t n)
{
    struct cur c = cur_make(note, n);
    uint8_t format = cur_u8(&c);
    uint64_t alive = cur_varint(&c), bytes = cur_varint(&c);
    struct window_rest *rests;
    size_t count;
    bool more;
    enum err e;

    if (c.bad || format != FORMAT || alive > UINT32_MAX) {
        return c.bad || format == FORMAT ? ERR_CORRUPT : ERR_VERSION;
    }
    e = meta_decode(memory, c.p, cur_left(&c), host, &rests, &count, &more);
    if (e) {
        return e;
    }
    if (count != 1 || more) {
        return ERR_CORRUPT;
    }
    *out = (struct head_batch_note){(uint32_t)alive, bytes, &rests[0].batch};
    return ERR_OK;
}
