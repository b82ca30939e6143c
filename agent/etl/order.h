/* How often time goes backwards from one record to the next in the order of the file, found while
 * the records come in order of time: within a buffer they keep the file's order, so each buffer's
 * first and last stamp are all that is needed. 32 bytes per buffer.
 * Bounds: ORDER_BUFFERS_MAX buffers; beyond them the answer is not known. Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_ORDER_H
#define PROCFLEET_AGENT_ETL_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/source/source.h"
#include "common/base/err.h"

#define ORDER_BUFFERS_MAX (1u << 20)

struct order;

/* Errors: ERR_NOMEM */
NODISCARD enum err order_create(struct order **out);
void order_destroy(struct order *o); /* NULL is allowed */
void order_record(struct order *o, const struct raw_event *raw);

/* Pairs that go backwards; false: not known. Sorts; no order_record may follow. */
bool order_inversions(struct order *o, uint64_t *n);

#endif
