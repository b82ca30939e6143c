/* How often time goes backwards from one record to the next in the order of the file, found while
 * the records come in order of time: within a buffer they keep the file's order, so each buffer's
 * first and last stamp are all that is needed. At most 88 bytes per buffer.
 * Bounds: ETL_BUFFER_ORDER_BUFFERS_MAX buffers; beyond them the answer is not known. Threads: one
 * owner. */
#ifndef PROCFLEET_AGENT_ETL_ETL_BUFFER_ORDER_H
#define PROCFLEET_AGENT_ETL_ETL_BUFFER_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/source/source.h"
#include "common/base/err.h"

#define ETL_BUFFER_ORDER_BUFFERS_MAX (1u << 20)

struct etl_buffer_order;

/* Errors: ERR_NOMEM */
NODISCARD enum err etl_buffer_order_create(struct etl_buffer_order **out);
void etl_buffer_order_destroy(struct etl_buffer_order *o); /* NULL is allowed */
void etl_buffer_order_record(struct etl_buffer_order *o, const struct raw_event *raw);

/* Pairs that go backwards; false: not known. Sorts; no etl_buffer_order_record may follow. */
bool etl_buffer_order_inversions(struct etl_buffer_order *o, uint64_t *n);

#endif
