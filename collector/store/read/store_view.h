/* A view of the store, as the files of this folder see it (store_read.h). Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_STORE_READ_STORE_VIEW_H
#define PROCFLEET_COLLECTOR_STORE_READ_STORE_VIEW_H

#include "collector/store/read/store_read.h"
#include "collector/store/store_state.h"

/* Everything acknowledged, at one moment: what is in the head is in no segment of the list. */
struct store_view {
    struct store *store;
    struct head_state *head;
    struct manifest_list *segments; /* NULL: a store without segments */
    struct catalogue *catalogue;    /* NULL: there is none */
    struct store_lookup *lookup;    /* NULL: no memory; store_info.c */
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

#endif
