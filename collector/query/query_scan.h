/* Reads the store for one span under the question's deadline, and keeps for each span what the
 * collector's disk did not return: that is left out of the answer, named in a remark, and not
 * counted as delivered. Private to collector/query. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_SCAN_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_SCAN_H

#include "collector/query/query_impl.h"

/* Whether the question's time is over. */
bool query_scan_is_late(const struct query *q);

/* store_cells_scan under the deadline; adds what was read to q->used.
 * Errors: ERR_TIMEOUT and those of store_cells_scan; so in the two below. */
NODISCARD enum err query_scan_cells(struct query *q, const struct query_span *s,
                                    struct store_cells *ask,
                                    enum err (*each)(void *ctx, const struct store_cell_row *row),
                                    void *ctx, struct store_ticks *ticks);

/* Adds what a scan of the span has read, and could not read, to what the answer was read from. */
void query_scan_used(struct query *q, const struct query_span *s, const struct store_used *used);

/* store_blocks_scan likewise; q->clock is that of the block during the call. */
NODISCARD enum err query_scan_blocks(struct query *q, const struct query_span *s,
                                     const struct store_range *range,
                                     enum err (*each)(void *ctx, const struct store_block *b),
                                     void *ctx);

/* store_accounts_scan likewise. */
NODISCARD enum err
query_scan_accounts(struct query *q, const struct query_span *s, const struct store_range *range,
                    enum err (*each_account)(void *ctx, const struct loss_sum *a),
                    enum err (*each)(void *ctx, const struct store_block *b), void *ctx);

/* What of one span could not be read. */
struct query_unread {
    uint32_t values;
    struct store_holes holes; /* inside the span */
    struct store_holes all;   /* also before it, where bases lie */
};

/* From the first to the last moment of it; false: none is inside the span. */
bool query_scan_unread_span(const struct query_unread *u, int64_t *first_ns, int64_t *last_ns);

/* Whether something between these moments, both left out, could not be read. */
bool query_scan_unread_between(const struct query *q, const struct query_span *s, int64_t after_ns,
                               int64_t before_ns);

/* Delivered and readable, in parts per million; after query_cover_scan. */
uint32_t query_scan_unread_ppm(const struct query *q, const struct query_span *s);

#endif
