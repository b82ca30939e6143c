/* Between the files of rest_value.h: the bytes of its values, unpacked, and what is remembered
 * while a segment is written. Tests and fuzz targets look here too. */
#ifndef PROCFLEET_COLLECTOR_STORE_META_META_IMPL_H
#define PROCFLEET_COLLECTOR_STORE_META_META_IMPL_H

#include "collector/store/meta/meta_value.h"
#include "common/base/cur.h"

#define META_FORMAT      1u
#define META_RAW_MAX     (48u << 20) /* unpacked: a chunk and the batch that made it overflow */
#define META_ACCOUNT_MAX (1u << 20)

/* Appends the rests from the first of them on, as many as fit a chunk; *done says how many, at
 * least one. What `written` has is left out; NULL: everything is written. Errors: ERR_FULL,
 * ERR_NOMEM */
NODISCARD enum err meta_encode(struct buf *out, const struct host_window *hw, size_t from,
                               struct meta_written *written, size_t *done);

/* An unpacked chunk being read, one batch after the other. Text points into its bytes. */
struct meta_chunk {
    struct cur c;
    enum err bad; /* the first failure but those of the cursor */
    struct uuid host;
    struct str *texts;
    size_t n_texts, left; /* batches to come */
    int64_t received_ns, wall_ns;
    struct arena *memory; /* of the batch being read */
};

/* Everything of it but the batches is in `memory`; all batches get `host`. *more: another chunk
 * follows. Errors: ERR_CORRUPT, ERR_VERSION, ERR_FULL (the arena's limit), ERR_NOMEM */
NODISCARD enum err meta_chunk_open(struct meta_chunk *out, struct arena *memory, const uint8_t *raw,
                                   size_t raw_n, const struct uuid *host, bool *more);
/* The next one, but for text in `memory`. Errors: ERR_END, and those of meta_chunk_open */
NODISCARD enum err meta_chunk_next(struct meta_chunk *x, struct arena *memory,
                                   struct window_rest *out);

/* All of them at once. Errors: those of meta_chunk_open */
NODISCARD enum err meta_decode(struct arena *memory, const uint8_t *raw, size_t raw_n,
                               const struct uuid *host, struct window_rest **out, size_t *n,
                               bool *more);

/* -- accounts -- */
NODISCARD enum err meta_sums_encode(struct buf *out, const struct host_window *hw);
NODISCARD enum err loss_sum_decode(struct loss_sum *out, struct arena *memory, const uint8_t *raw,
                                   size_t raw_n);

/* -- what is written -- */

/* Whether the info, as it is, was the last one written of its instance on the segment's day; from
 * now on it is. */
bool meta_written_has(struct meta_written *r, const struct uuid *host, const struct uuid *boot,
                      const struct proc_info *info);
/* Keeps an account until meta_accounts_write. Errors: ERR_NOMEM */
NODISCARD enum err meta_written_account(struct meta_written *r, struct packer *p, uint32_t host,
                                        uint8_t window, const struct buf *raw);
/* All of them, by window and host; a result other than ERR_OK ends it and is returned. */
NODISCARD enum err meta_written_accounts(struct meta_written *r,
                                         enum err (*each)(void *ctx, struct seg_key key,
                                                          const void *p, size_t n),
                                         void *ctx);

#endif
