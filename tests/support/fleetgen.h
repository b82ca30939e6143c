/* A host that never was: process tables with churn, the same for every benchmark and test.
 * Seeded and deterministic: one configuration always gives the same ticks, on every platform.
 *
 * By default 150 processes with 30 metrics each (the Windows columns) at 1 Hz; from one second to
 * the next about 64 % of the values stay as they are. Processes have rates of their own, spread
 * over orders of magnitude; a third of them rests in most seconds. CPU times grow by scheduler
 * ticks of 15.625 ms, cpu_time is their sum; memory moves by pages; bytes and cycles are arbitrary
 * numbers. About 16 processes a minute start and as many end, most of them short-lived. With
 * shorter ticks the change per second stays the same, so that fewer values change per tick.
 *
 * Threads: one owner. Out of memory ends the program: this is for benchmarks and tests. */
#ifndef PROCFLEET_TESTS_SUPPORT_FLEETGEN_H
#define PROCFLEET_TESTS_SUPPORT_FLEETGEN_H

#include "common/wire/wire_batch.h"

#define FLEETGEN_METRICS 30u

struct fleetgen_conf {
    uint64_t seed;            /* also gives host, boot and stream; two seeds are two hosts */
    unsigned processes;       /* alive at once, 1 to MODEL_PROCESSES_MAX; 0 = 150 */
    unsigned metrics;         /* columns, 1 to FLEETGEN_METRICS; 0 = all */
    unsigned starts_per_hour; /* process starts; 0 = 960 */
    int64_t tick_ns;          /* 0 = 1 s */
    int64_t begin_ns;         /* UTC of the first tick; 0 = 2026-01-01 */
};

struct fleetgen;
struct fleetgen *fleetgen_create(const struct fleetgen_conf *conf);
void fleetgen_destroy(struct fleetgen *g); /* NULL is allowed */

/* Identity: in every batch, and for Hello. */
const struct batch_head *fleetgen_head(const struct fleetgen *g);
const char *fleetgen_host_name(const struct fleetgen *g); /* "gen-17" */

/* The next tick; valid until the next call of fleetgen_tick or fleetgen_batch. */
const struct sample_tick *fleetgen_tick(struct fleetgen *g);

/* Starts and stops between the last tick and the one before it; valid as long as the tick. */
const struct life_event *fleetgen_events(const struct fleetgen *g, size_t *n);

/* The next `ticks` ticks (1 to WIRE_TICKS_MAX) as one batch with the next sequence number, as the
 * agent's batch stage makes them: runs, columns, infos of instances new to the stream, events, a
 * ledger. Valid until the next call. */
const struct batch *fleetgen_batch(struct fleetgen *g, size_t ticks);

/* Values made so far, and how many of them equalled the one of the tick before (an instance's
 * first tick counts for neither). */
void fleetgen_counts(const struct fleetgen *g, uint64_t *values, uint64_t *unchanged);

#endif
