#include "collector/store/meta/meta_value.h"

#include "collector/store/meta/meta_impl.h"
#include "common/base/mem.h"

#define META_READ_MAX (256u << 20) /* a damaged chunk's lengths reach no further */

/* -- writing -- */

static enum err write_chunks(struct seg_writer *w, struct packer *p, struct seg_key key,
                             const struct host_window *hw, struct meta_written *written)
{
    struct buf raw, packed;
    enum err e = ERR_OK;
    unsigned chunk = 0;

    buf_init(&raw, META_RAW_MAX);
    buf_init(&packed, SEG_VALUE_MAX);
    for (size_t at = 0, n = 0; !e && at < hw->n_rests; at += n) {
        if (chunk == META_CHUNKS_MAX) {
            e = ERR_FULL;
            break;
        }
        buf_reset(&raw);
        buf_reset(&packed);
        key.metric = (uint8_t)chunk++;
        e = meta_encode(&raw, hw, at, written, &n);
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
                        const struct host_window *hw, struct meta_written *written)
{
    struct buf raw;
    enum err e;

    buf_init(&raw, META_ACCOUNT_MAX);
    e = meta_sums_encode(&raw, hw);
    if (!e) {
        e = meta_written_account(written, p, host, window, &raw);
    }
    buf_fini(&raw);
    return e;
}

enum err meta_value_write(struct seg_writer *w, struct packer *p, uint32_t host, uint8_t window,
                          const struct host_window *hw, struct meta_written *written,
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

enum err meta_accounts_write(struct seg_writer *w, struct meta_written *written)
{
    return meta_written_accounts(written, add_account, w);
}

/* -- reading -- */

struct meta_reader {
    const struct seg *seg;
    struct packer *packer;
    struct seg_key key;
    unsigned chunks; /* read so far */
    bool more;       /* another one follows */
    struct arena unpacked, batch;
    struct meta_chunk chunk;
    struct window_rest rest;
};

enum err meta_reader_open(struct meta_reader **out, const struct seg *s, struct packer *p,
                          uint32_t host, uint8_t window)
{
    struct meta_reader *r = mem_zalloc(sizeof *r);

    if (!r) {
        return ERR_NOMEM;
    }
    r->seg = s;
    r->packer = p;
    r->key = (struct seg_key){SEG_PART_REST, 0, window, host};
    r->more = true;
    arena_init(&r->unpacked, META_READ_MAX);
    arena_init(&r->batch, META_READ_MAX);
    *out = r;
    return ERR_OK;
}

void meta_reader_close(struct meta_reader *r)
{
    if (r) {
        arena_fini(&r->unpacked);
        arena_fini(&r->batch);
        mem_free(r);
    }
}

size_t meta_reader_memory(const struct meta_reader *r)
{
    return r->unpacked.used + r->batch.used;
}

/* The bytes as they are on disk give way to the first batch. */
static enum err next_chunk(struct meta_reader *r)
{
    const uint8_t *value, *raw;
    size_t value_n, raw_n;
    enum err e;

    if (r->chunks == META_CHUNKS_MAX) {
        return ERR_CORRUPT;
    }
    arena_fini(&r->batch);
    arena_fini(&r->unpacked);
    r->key.metric = (uint8_t)r->chunks++;
    e = seg_read(r->seg, &r->batch, r->key, &value, &value_n);
    if (e == ERR_NOTFOUND && r->chunks > 1) {
        return ERR_CORRUPT; /* the one before said it is there */
    }
    e = e ? e : pack_open(r->packer, &r->unpacked, &raw, &raw_n, value, value_n, 2 * META_RAW_MAX);
    return e ? e
             : meta_chunk_open(&r->chunk, &r->unpacked, raw, raw_n,
                               &seg_host(r->seg, r->key.host)->id, &r->more);
}

static enum err next_batch(struct meta_reader *r)
{
    arena_reset(&r->batch);
    return meta_chunk_next(&r->chunk, &r->batch, &r->rest);
}

enum err meta_reader_next(struct meta_reader *r, const struct window_rest **out)
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

enum err meta_account_read(const struct seg *s, struct packer *p, struct seg_readahead *ahead,
                           struct arena *memory, uint32_t host, uint8_t window,
                           struct loss_sum *out)
{
    const struct seg_key key = {SEG_PART_ACCOUNT, 0, window, host};
    const uint8_t *value, *raw;
    size_t value_n, raw_n;
    enum err e = seg_readahead_read(ahead, s, memory, &key, 1, &value, &value_n);

    if (!e && !value) {
        e = value_n == SEG_DAMAGED ? ERR_CORRUPT : ERR_NOTFOUND;
    }
    if (!e) {
        e = pack_open(p, memory, &raw, &raw_n, value, value_n, META_ACCOUNT_MAX);
    }
    return e ? e : loss_sum_decode(out, memory, raw, raw_n);
}
