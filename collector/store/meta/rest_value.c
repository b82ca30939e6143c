#include "collector/store/meta/rest_value.h"

#include "collector/store/meta/rest_impl.h"
#include "common/base/mem.h"

#define REST_READ_MAX (256u << 20) /* a damaged chunk's lengths reach no further */

/* -- writing -- */

static enum err write_chunks(struct seg_writer *w, struct packer *p, struct seg_key key,
                             const struct host_window *hw, struct rest_written *written)
{
    struct buf raw, packed;
    enum err e = ERR_OK;
    unsigned chunk = 0;

    buf_init(&raw, REST_RAW_MAX);
    buf_init(&packed, SEG_VALUE_MAX);
    for (size_t at = 0, n = 0; !e && at < hw->n_rests; at += n) {
        if (chunk == REST_CHUNKS_MAX) {
            e = ERR_FULL;
            break;
        }
        buf_reset(&raw);
        buf_reset(&packed);
        key.metric = (uint8_t)chunk++;
        e = rest_encode(&raw, hw, at, written, &n);
        if (!e) {
            pack_put(p, &packed, raw.p, raw.n);
            e = packed.bad ? packed.bad : seg_writer_add(w, key, packed.p, packed.n);
        }
    }
    buf_fini(&raw);
    buf_fini(&packed);
    return e;
}

static enum err account(struct packer *p, uint32_t host, uint8_t window,
                        const struct host_window *hw, struct rest_written *written)
{
    struct buf raw;
    enum err e;

    buf_init(&raw, REST_ACCOUNT_MAX);
    e = rest_sums_encode(&raw, hw);
    if (!e) {
        e = rest_written_account(written, p, host, window, &raw);
    }
    buf_fini(&raw);
    return e;
}

enum err rest_value_write(struct seg_writer *w, struct packer *p, uint32_t host, uint8_t window,
                          const struct host_window *hw, struct rest_written *written,
                          uint64_t *events)
{
    const struct seg_key key = {SEG_PART_REST, 0, window, host};
    enum err e = write_chunks(w, p, key, hw, written);

    if (!e && hw->n_rests) {
        e = account(p, host, window, hw, written);
    }
    for (size_t i = 0; !e && i < hw->n_rests; i++) {
        *events += hw->rests[i].batch.n_events + hw->rests[i].batch.n_ledger;
    }
    return e;
}

static enum err add_account(void *ctx, struct seg_key key, const void *p, size_t n)
{
    return seg_writer_add(ctx, key, p, n);
}

enum err rest_accounts_write(struct seg_writer *w, struct rest_written *written)
{
    return rest_written_accounts(written, add_account, w);
}

/* -- reading -- */

struct rest_reader {
    const struct seg *seg;
    struct packer *packer;
    struct seg_key key;
    unsigned chunks; /* read so far */
    bool more;       /* another one follows */
    struct arena unpacked, batch;
    struct rest_chunk chunk;
    struct window_rest rest;
};

enum err rest_reader_open(struct rest_reader **out, const struct seg *s, struct packer *p,
                          uint32_t host, uint8_t window)
{
    struct rest_reader *r = mem_zalloc(sizeof *r);

    if (!r) {
        return ERR_NOMEM;
    }
    r->seg = s;
    r->packer = p;
    r->key = (struct seg_key){SEG_PART_REST, 0, window, host};
    r->more = true;
    arena_init(&r->unpacked, REST_READ_MAX);
    arena_init(&r->batch, REST_READ_MAX);
    *out = r;
    return ERR_OK;
}

void rest_reader_close(struct rest_reader *r)
{
    if (r) {
        arena_fini(&r->unpacked);
        arena_fini(&r->batch);
        mem_free(r);
    }
}

size_t rest_reader_memory(const struct rest_reader *r)
{
    return r->unpacked.used + r->batch.used;
}

/* The bytes as they are on disk give way to the first batch. */
static enum err next_chunk(struct rest_reader *r)
{
    const uint8_t *value, *raw;
    size_t value_n, raw_n;
    enum err e;

    if (r->chunks == REST_CHUNKS_MAX) {
        return ERR_CORRUPT;
    }
    arena_fini(&r->batch);
    arena_fini(&r->unpacked);
    r->key.metric = (uint8_t)r->chunks++;
    e = seg_read(r->seg, &r->batch, r->key, &value, &value_n);
    if (e == ERR_NOTFOUND && r->chunks > 1) {
        return ERR_CORRUPT; /* the one before said it is there */
    }
    e = e ? e : pack_open(r->packer, &r->unpacked, &raw, &raw_n, value, value_n, 2 * REST_RAW_MAX);
    return e ? e
             : rest_chunk_open(&r->chunk, &r->unpacked, raw, raw_n,
                               &seg_host(r->seg, r->key.host)->id, &r->more);
}

static enum err next_batch(struct rest_reader *r)
{
    arena_reset(&r->batch);
    return rest_chunk_next(&r->chunk, &r->batch, &r->rest);
}

enum err rest_reader_next(struct rest_reader *r, const struct window_rest **out)
{
    enum err e = r->chunks ? next_batch(r) : ERR_END;

    while (e == ERR_END && r->more) {
        e = next_chunk(r);
        e = e ? e : next_batch(r);
    }
    if (e) {
        r->more = false;
        r->chunk.left = 0;
    }
    *out = &r->rest;
    return e;
}

enum err rest_account_read(const struct seg *s, struct packer *p, struct seg_ahead *ahead,
                           struct arena *memory, uint32_t host, uint8_t window,
                           struct rest_account *out)
{
    const struct seg_key key = {SEG_PART_ACCOUNT, 0, window, host};
    const uint8_t *value, *raw;
    size_t value_n, raw_n;
    enum err e = seg_ahead_read(ahead, s, memory, &key, 1, &value, &value_n);

    if (!e && !value) {
        e = value_n == SEG_DAMAGED ? ERR_CORRUPT : ERR_NOTFOUND;
    }
    if (!e) {
        e = pack_open(p, memory, &raw, &raw_n, value, value_n, REST_ACCOUNT_MAX);
    }
    return e ? e : rest_account_decode(out, memory, raw, raw_n);
}
