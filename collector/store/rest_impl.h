/* Between the files of rest_value.h: the bytes of its values, unpacked, and what is remembered
 * while a segment is written. Tests and fuzz targets look here too. */
#ifndef PROCFLEET_COLLECTOR_STORE_REST_IMPL_H
#define PROCFLEET_COLLECTOR_STORE_REST_IMPL_H

#include "collector/store/rest_value.h"

#define REST_FORMAT      1u
#define REST_RAW_MAX     (48u << 20) /* unpacked: a chunk and the batch that made it overflow */
#define REST_ACCOUNT_MAX (1u << 20)

/* Appends the rests from the first of them on, as many as fit a chunk; *done says how many, at
 * least one. What `written` has is left out; NULL: everything is written. Errors: ERR_FULL,
 * ERR_NOMEM */
NODISCARD enum err rest_encode(struct buf *out, const struct host_window *hw, size_t from,
                               struct rest_written *written, size_t *done);

/* Everything but text, which points into `raw`, is in `memory`; all batches get `host`. *more:
 * another chunk follows. Errors: ERR_CORRUPT, ERR_VERSION, ERR_FULL (the arena's limit) */
NODISCARD enum err rest_decode(struct arena *memory, const uint8_t *raw, size_t raw_n,
                               const struct uuid *host, struct window_rest **out, size_t *n,
                               bool *more);

/* -- accounts -- */
NODISCARD enum err rest_sums_encode(struct buf *out, const struct host_window *hw);
NODISCARD enum err rest_account_decode(struct rest_account *out, struct arena *memory,
                                       const uint8_t *raw, size_t raw_n);

/* -- what is written -- */

/* Whether the info, as it is, was the last one written of its instance on the segment's day; from
 * now on it is. */
bool rest_written_has(struct rest_written *r, const struct uuid *host, const struct uuid *boot,
                      const struct proc_info *info);
/* Keeps an account until rest_accounts_write. Errors: ERR_NOMEM */
NODISCARD enum err rest_written_account(struct rest_written *r, struct packer *p, uint32_t host,
                                        uint8_t window, const struct buf *raw);
/* All of them, by window and host; a result other than ERR_OK ends it and is returned. */
NODISCARD enum err rest_written_accounts(struct rest_written *r,
                                         enum err (*each)(void *ctx, struct seg_key key,
                                                          const void *p, size_t n),
                                         void *ctx);

#endif
