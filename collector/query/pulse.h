/* The pulse of the fleet: of each host the last two hours in slots of 30 s, in memory, for a
 * picture of thousands of hosts at once. Filled as batches are stored; after a start the time
 * before is read back from the store, host by host, by a thread of the lowest rank.
 *
 * A slot says how much CPU time was used, memory, processes (the idle one left out) and how much of
 * the slot's time arrived. Figures have eleven bits, a relative error of a twentieth of a percent.
 * CPU is measured between two samples of which both name the same processes, or one batch has both;
 * the rest of the slot's time is not guessed.
 *
 * Bounds: hosts_max hosts, PULSE_HOST_BYTES each, then the one silent for longest gives way. No
 * allocation but with a host's first batch. Threads: pulse_stored from the store's writer; all
 * others any. One lock, held for one host at a time. */
#ifndef PROCFLEET_COLLECTOR_QUERY_PULSE_H
#define PROCFLEET_COLLECTOR_QUERY_PULSE_H

#include "collector/store/read/store_read.h"
#include "collector/store/store.h"

#define PULSE_SLOTS   240u
#define PULSE_STEP_NS (30 * INT64_C(1000000000))

struct pulse;

/* Errors: ERR_NOMEM */
NODISCARD enum err pulse_create(struct pulse **out, uint32_t hosts_max);
void pulse_destroy(struct pulse *p); /* refilling has stopped; NULL is allowed */

/* What became durable; ctx is the pulse. Never fails: a host without room is counted. */
void pulse_stored(void *ctx, const struct store_stored *stored);

/* Reads back what the store has of the two hours before `now_ns`, in a thread of its own; once.
 * Errors: ERR_NOMEM, ERR_FULL (no thread) */
NODISCARD enum err pulse_refill(struct pulse *p, struct store *store, int64_t now_ns);
void pulse_stop(struct pulse *p); /* the thread, before the store closes; again, or NULL, is fine */

/* One slot as it is now. */
struct pulse_slot {
    bool there;         /* anything is known of it */
    uint32_t delivered; /* of its time, ppm */
    bool has_cpu, has_memory;
    int64_t cpu_permille; /* of one processor, all processes together */
    int64_t memory;       /* working sets, bytes */
    uint32_t processes;
};

/* The `n` slots from that of first_ns on, at most PULSE_SLOTS; false: the host is not known. */
bool pulse_read(struct pulse *p, const struct uuid *host, int64_t first_ns, size_t n,
                struct pulse_slot *out);

struct pulse_stats {
    uint64_t hosts, bytes; /* that are kept; of memory */
    uint64_t refilled;     /* hosts read back since the start */
    uint64_t gone;         /* hosts that gave way to others */
    bool refilling;
};
void pulse_stats(struct pulse *p, struct pulse_stats *out);

#endif
