#include "collector/store/memtable/recall.h"

#include "collector/store/meta/rest_impl.h"
#include "common/base/cur.h"

#define FORMAT   1u
#define NOTE_MAX (512u << 10) /* beyond it the batch itself is read */

enum err recall_put(struct buf *out, const struct batch *b, const struct head_batch *kept)
{
    struct window_rest rest = {.batch = *b, .clock = kept->clock, .received_ns = kept->received_ns};
    const struct host_window hw = {.host = b->head.host, .n_rests = 1, .rests = &rest};
    size_t start = out->n, done;
    enum err e;

    buf_put_u8(out, FORMAT);
    buf_put_varint(out, kept->alive);
    buf_put_varint(out, kept->memory);
    e = out->bad ? out->bad : rest_encode(out, &hw, 0, NULL, &done);
    if (e == ERR_FULL || out->n - start > NOTE_MAX) {
        out->n = start;
        out->bad = ERR_OK;
        return ERR_OK;
    }
    return e;
}

enum err recall_get(struct recall *out, struct arena *memory, const struct uuid *host,
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
    e = rest_decode(memory, c.p, cur_left(&c), host, &rests, &count, &more);
    if (e) {
        return e;
    }
    if (count != 1 || more) {
        return ERR_CORRUPT;
    }
    *out = (struct recall){(uint32_t)alive, bytes, &rests[0].batch};
    return ERR_OK;
}
