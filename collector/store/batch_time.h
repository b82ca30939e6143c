/* When a batch is from: by the host's clock, and by the collector's. No state. */
#ifndef PROCFLEET_COLLECTOR_STORE_BATCH_TIME_H
#define PROCFLEET_COLLECTOR_STORE_BATCH_TIME_H

#include "collector/store/host_offset.h"
#include "common/wire/wire_batch.h"

/* The span of stamps of a batch's ticks and events; of one without any, [now, now]. */
void batch_time_span(const struct batch *b, int64_t now_ns, int64_t *t0_ns, int64_t *t1_ns);

/* When a batch whose newest stamp is t1_ns was made, by the collector's clock: as far as the host's
 * is known, and never after its arrival. Age and newness go by this, so that a host whose clock was
 * wrong neither keeps its data for ever nor loses it at once. */
int64_t batch_time_made(int64_t t1_ns, const struct host_offset *clock, int64_t received_ns);

#endif
