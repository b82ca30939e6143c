/* The thread behind a ring: takes records out in batches and hands them to a sink, the way the
 * ring's source would have. It sleeps while there is nothing: at first for a moment, in which a
 * burst may gather, later until something comes. Threads: the sink is called from the pump's own
 * thread only. */
#ifndef PROCFLEET_AGENT_SOURCE_RING_PUMP_H
#define PROCFLEET_AGENT_SOURCE_RING_PUMP_H

#include "agent/source/ring/ring.h"
#include "agent/source/source.h"
#include "common/base/err.h"

#define PUMP_BATCH     10000u
#define PUMP_BATCH_MAX 100000u

struct pump;

struct pump_conf {
    struct ring *ring; /* borrowed; this pump is its consumer */
    struct source_sink sink;
    size_t batch_events; /* records of one batch, 1 to PUMP_BATCH_MAX */
    const char *name;    /* of the thread */
};

struct pump_stats {
    uint64_t batches; /* with records in them */
    uint64_t full;    /* of these: batch_events records, more may have waited */
    uint64_t sleeps;
};

/* Errors: ERR_RANGE (batch_events), ERR_NOMEM, ERR_IO (no thread) */
NODISCARD enum err pump_start(struct pump **out, const struct pump_conf *conf);

/* Closes the ring, hands on what is in it, ends the thread, releases the pump; the ring stays. Call
 * it when the producer has made its last put. NULL is allowed. stats may be NULL. */
void pump_stop(struct pump *p, struct pump_stats *stats);

#endif
