#include "collector/store/memtable/wal_note.h"

#include "collector/store/meta/meta_impl.h"
#include "common/base/cur.h"

#define FORMAT   1u
#define NOTE_MAX (512u << 10) /* beyond it the batch itself is read */

enum err wal_note_put(struct buf *out, const struct batch *b, const struct head_batch *kept)
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

enum err wal_note_get(struct wal_note *out, struct arena *memory, const struct uuid *host,
                      const void *note, size_t n)
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
    *out = (struct wal_note){(uint32_t)alive, bytes, &rests[0].batch};
    return ERR_OK;
}
