#include "collector/store/rest_value.h"

#include "collector/store/rest_impl.h"

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

/* *rests and *n are those of all chunks. */
static enum err append(struct arena *memory, struct window_rest **rests, size_t *n,
                       const struct window_rest *more, size_t n_more)
{
    struct window_rest *all = arena_array(memory, *n + n_more, sizeof *all);

    if (!all) {
        return arena_refused(memory, (*n + n_more) * sizeof *all);
    }
    if (*n) {
        memcpy(all, *rests, *n * sizeof *all);
    }
    if (n_more) {
        memcpy(all + *n, more, n_more * sizeof *all);
    }
    *rests = all;
    *n += n_more;
    return ERR_OK;
}

static enum err read_chunk(const struct seg *s, struct packer *p, struct arena *memory,
                           struct seg_key key, struct window_rest **rests, size_t *n, bool *more)
{
    const uint8_t *value;
    const uint8_t *raw;
    size_t value_n, raw_n, count;
    struct window_rest *chunk;
    enum err e = seg_read(s, memory, key, &value, &value_n);

    if (!e) {
        e = pack_open(p, memory, &raw, &raw_n, value, value_n, 2 * REST_RAW_MAX);
    }
    if (!e) {
        e = rest_decode(memory, raw, raw_n, &seg_host(s, key.host)->id, &chunk, &count, more);
    }
    if (e || *n == 0) {
        if (!e) {
            *rests = chunk;
            *n = count;
        }
        return e;
    }
    return append(memory, rests, n, chunk, count);
}

enum err rest_value_read(const struct seg *s, struct packer *p, struct arena *memory, uint32_t host,
                         uint8_t window, struct window_rest **out, size_t *n)
{
    struct seg_key key = {SEG_PART_REST, 0, window, host};
    struct window_rest *rests = NULL;
    size_t count = 0;
    bool more = true;

    for (unsigned i = 0; more; i++) {
        enum err e;

        if (i == REST_CHUNKS_MAX) {
            return ERR_CORRUPT;
        }
        key.metric = (uint8_t)i;
        e = read_chunk(s, p, memory, key, &rests, &count, &more);
        if (e) {
            return e == ERR_NOTFOUND && i ? ERR_CORRUPT : e; /* the one before said it is there */
        }
    }
    *out = rests;
    *n = count;
    return ERR_OK;
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
