/* A thread that takes records out of a ring in batches and hands them to a sink. While nothing
 * comes it sleeps, first for 10 ms, in which a burst may gather, then until there is a record.
 * Threads: the sink is called on this thread only. */
#ifndef PROCFLEET_TESTS_SUPPORT_RING_PUMP_H
#define PROCFLEET_TESTS_SUPPORT_RING_PUMP_H

#include "agent/source/ring/ring.h"

#define RING_PUMP_BATCH 10000u /* records */

struct ring_pump {
    struct ring *ring; /* borrowed; the pump is its consumer */
    struct source_sink sink;
    size_t batch; /* records at most */
    struct os_thread *thread;
};

NODISCARD enum err ring_pump_start(struct ring_pump *p); /* ring, sink and batch are set */

/* After the producer's last put: closes the ring, hands on what is in it, joins the thread. */
void ring_pump_stop(struct ring_pump *p);

#endif
