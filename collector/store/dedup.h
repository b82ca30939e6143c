/* Which sequence numbers of every (host, stream) are durable: what makes at-least-once delivery
 * exactly once in the store. Numbers are kept as ranges; a well-behaved stream is one range.
 * Bounds:  hosts_max hosts, DEDUP_STREAMS_MAX streams of each, DEDUP_RANGES_MAX ranges of each.
 *          - A further host takes the place of one unused for forget_ns (its data is over the age
 *            limit by then), else ERR_FULL.
 *          - A further stream of a host takes the place of the one unused longest: streams die with
 *            their agent's queue, so only dead ones are ever that old.
 *          - A further range closes the lowest hole of its stream: numbers that old were given up
 *            by their sender; should one arrive after all, it is taken for a duplicate. Counted.
 * Threads: none of its own; the caller's lock guards it. Counts (struct dedup_counts) are atomic
 *          and outlive the set by reference, so that readers need no lock. */
#ifndef PROCFLEET_COLLECTOR_STORE_DEDUP_H
#define PROCFLEET_COLLECTOR_STORE_DEDUP_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/model/model.h"

#define DEDUP_STREAMS_MAX 64u
#define DEDUP_RANGES_MAX  64u

struct dedup;

struct seq_range {
    uint64_t first, last; /* both included */
};

/* What readers want to know of a host. */
struct dedup_counts {
    atomic_uint refs;
    _Atomic uint64_t duplicates; /* counted by the store */
    _Atomic uint64_t gaps;       /* numbers missing below the highest, of all streams */
    _Atomic uint64_t head_bytes; /* of its batches in the head; counted by the head */
};

/* Errors: ERR_NOMEM */
NODISCARD enum err dedup_create(struct dedup **out, uint32_t hosts_max, int64_t forget_ns);
/* Hosts over a lower limit stay until they are forgotten; no others are added. */
void dedup_limit(struct dedup *s, uint32_t hosts_max);
/* From now on a further range costs the lowest one of its stream: its numbers count as missing. For
 * those who may do a thing twice but never leave it undone. */
void dedup_forgets(struct dedup *s);
void dedup_destroy(struct dedup *s); /* NULL is allowed */

/* Makes room for a stream, so that dedup_add cannot fail for want of memory. now_ns is the time of
 * use, UTC. Errors: ERR_FULL (hosts), ERR_NOMEM */
NODISCARD enum err dedup_open(struct dedup *s, const struct uuid *host, uint64_t stream,
                              int64_t now_ns);

bool dedup_has(const struct dedup *s, const struct uuid *host, uint64_t stream, uint64_t seq);

/* Errors: ERR_NOTFOUND (no such stream: open it first) */
NODISCARD enum err dedup_add(struct dedup *s, const struct uuid *host, uint64_t stream,
                             struct seq_range r);

/* As dedup_has; *last: up to which number that is the same. */
bool dedup_span(const struct dedup *s, const struct uuid *host, uint64_t stream, uint64_t seq,
                uint64_t *last);
/* These are not durable after all: they count as missing. An unknown stream is passed over. */
void dedup_remove(struct dedup *s, const struct uuid *host, uint64_t stream, struct seq_range r);
/* All numbers of a stream, rising and apart, at most DEDUP_RANGES_MAX, in the place of those that
 * are known. Errors: ERR_NOTFOUND (no such stream) */
NODISCARD enum err dedup_set(struct dedup *s, const struct uuid *host, uint64_t stream,
                             const struct seq_range *ranges, size_t n);

/* Highest number below which, from 1, none is missing; 0 = none known. */
uint64_t dedup_last(const struct dedup *s, const struct uuid *host, uint64_t stream);

/* The host's counts with a reference for the caller; NULL when the host is unknown. */
struct dedup_counts *dedup_counts_ref(struct dedup *s, const struct uuid *host);
void dedup_counts_unref(struct dedup_counts *c); /* NULL is allowed */

uint64_t dedup_closed(const struct dedup *s);    /* numbers given up in closed holes */
uint64_t dedup_forgotten(const struct dedup *s); /* streams that gave place */

/* One stream as it goes into a checkpoint. */
struct dedup_stream {
    struct uuid host;
    uint64_t stream;
    int64_t used_ns;
    const struct seq_range *ranges; /* rising, never touching */
    size_t n_ranges;
};

/* Every stream that has numbers; a result other than ERR_OK ends the walk and is returned. */
NODISCARD enum err dedup_each(const struct dedup *s,
                              enum err (*each)(void *ctx, const struct dedup_stream *stream),
                              void *ctx);

/* Ranges as bytes: 16 each, first and last, little endian. The decoder takes at most
 * DEDUP_RANGES_MAX, rising and apart. Errors: ERR_CORRUPT */
void dedup_encode(struct buf *out, const struct seq_range *ranges, size_t n);
NODISCARD enum err dedup_decode(struct seq_range *ranges, size_t *n, const void *p, size_t bytes);

#endif
