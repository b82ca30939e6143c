/* The view of the local store, as the files of this folder see it. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_STORE_READ_STORE_VIEW_H
#define PROCFLEET_COLLECTOR_STORE_READ_STORE_VIEW_H

#include "collector/store/read/store_read.h"
#include "collector/store/store_state.h"

/* Everything acknowledged, at one moment: what is in the head is in no segment of the list. */
struct store_view {
    const struct view_ops *ops; /* first, as in every view */
    struct store *store;
    struct head_state *head;
    struct manifest_list *segments; /* NULL: a store without segments */
    struct catalogue *catalogue;    /* NULL: there is none */
    struct store_lookup *lookup;    /* NULL: no memory */
    struct packer *packer;          /* NULL until one is needed: store_view_packer */
    struct wire_decoder *decoder;   /* likewise: store_view_decode */
    struct seg_readahead *ahead;    /* likewise: store_view_ahead */
    uint32_t unlisted;              /* see store_info_unlisted */
    struct store_host hosts[];      /* in the order of the head's */
};

/* The view's own, for reading. Errors: ERR_NOMEM */
NODISCARD enum err store_view_packer(const struct store_view *v, struct packer **out);
/* A batch of the head with the columns of these metrics. Errors: those of head_batch_decode */
NODISCARD enum err store_view_decode(const struct store_view *v, struct batch **out,
                                     metric_mask metrics, const struct head_batch *kept);
struct seg_readahead *store_view_ahead(const struct store_view *v); /* NULL: no memory */

/* A value of the host, or a segment that may hold some, with stamps in [first_ns, last_ns] cannot
 * be read, for this reason. used: NULL: the answer is not marked. It is counted, and reported to
 * on_unread once in ten minutes at most. */
void store_view_unread(const struct store_view *v, size_t host, struct store_used *used,
                       enum store_unread_kind kind, int64_t first_ns, int64_t last_ns, enum err e);

/* -- of its table (view_ops.h), what the other files of this folder do -- */

NODISCARD enum err store_blocks_local(const struct store_view *v, size_t host,
                                      const struct store_range *range,
                                      enum err (*each)(void *ctx, const struct store_block *b),
                                      void *ctx);
NODISCARD enum err store_cells_local(const struct store_view *v, size_t host,
                                     const struct store_cells *ask,
                                     enum err (*each)(void *ctx, const struct store_cell_row *row),
                                     void *ctx, struct store_ticks *ticks);
NODISCARD enum err store_cells_local_gone(const struct store_view *v, size_t host, int64_t since_ns,
                                          int64_t until_ns, struct store_gone *out);
NODISCARD enum err store_groups_local(const struct store_view *v, size_t host, int64_t since_ns,
                                      int64_t until_ns, metric_mask metrics, struct arena *memory,
                                      struct store_groups **list, size_t *n);
NODISCARD enum err
store_accounts_local(const struct store_view *v, size_t host, const struct store_range *range,
                     enum err (*each_account)(void *ctx, const struct loss_sum *a),
                     enum err (*each)(void *ctx, const struct store_block *b), void *ctx);

#endif
