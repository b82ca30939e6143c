/* Which sequence numbers of every (host, stream) are durable: what makes at-least-once delivery
 * exactly once in the store. Numbers are kept as ranges; a well-behaved stream is one range.
 * Bounds:  hosts_max hosts, SEQSET_STREAMS_MAX streams of each, SEQSET_RANGES_MAX ranges of each.
 *          - A further host takes the place of one unused for forget_ns (its data is over the age
 *            limit by then), else ERR_FULL.
 *          - A further stream of a host takes the place of the one unused longest: streams die with
 *            their agent's queue, so only dead ones are ever that old.
 *          - A further range closes the lowest hole of its stream: numbers that old were given up
 *            by their sender; should one arrive after all, it is taken for a duplicate. Counted.
 * Threads: none of its own; the caller's lock guards it. Counts (struct seqset_counts) are atomic
 *          and outlive the set by reference, so that readers need no lock. */
#ifndef PROCFLEET_COLLECTOR_STORE_SEGMENT_SEQSET_H
#define PROCFLEET_COLLECTOR_STORE_SEGMENT_SEQSET_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/model/model.h"

#define SEQSET_STREAMS_MAX 64u
#define SEQSET_RANGES_MAX  64u

struct seqset;

struct seq_range {
    uint64_t first, last; /* both included */
};

/* What readers want to know of a host. */
struct seqset_counts {
    atomic_uint refs;
    _Atomic uint64_t duplicates; /* counted by the store */
    _Atomic uint64_t gaps;       /* numbers missing below the highest, of all streams */
    _Atomic uint64_t head_bytes; /* of its batches in the head; counted by the head */
};

/* Errors: ERR_NOMEM */
NODISCARD enum err seqset_create(struct seqset **out, uint32_t hosts_max, int64_t forget_ns);
/* Hosts over a lower limit stay until they are forgotten; no others are added. */
void seqset_limit(struct seqset *s, uint32_t hosts_max);
void seqset_destroy(struct seqset *s); /* NULL is allowed */

/* Makes room for a stream, so that seqset_add cannot fail for want of memory. now_ns is the time of
 * use, UTC. Errors: ERR_FULL (hosts), ERR_NOMEM */
NODISCARD enum err seqset_open(struct seqset *s, const struct uuid *host, uint64_t stream,
                               int64_t now_ns);

bool seqset_has(const struct seqset *s, const struct uuid *host, uint64_t stream, uint64_t seq);

/* Errors: ERR_NOTFOUND (no such stream: open it first) */
NODISCARD enum err seqset_add(struct seqset *s, const struct uuid *host, uint64_t stream,
                              struct seq_range r);

/* As seqset_has; *last: up to which number that is the same. */
bool seqset_span(const struct seqset *s, const struct uuid *host, uint64_t stream, uint64_t seq,
                 uint64_t *last);
/* These are not durable after all: they count as missing. An unknown stream is passed over. */
void seqset_remove(struct seqset *s, const struct uuid *host, uint64_t stream, struct seq_range r);
/* All numbers of a stream, rising and apart, at most SEQSET_RANGES_MAX, in the place of those that
 * are known. Errors: ERR_NOTFOUND (no such stream) */
NODISCARD enum err seqset_set(struct seqset *s, const struct uuid *host, uint64_t stream,
                              const struct seq_range *ranges, size_t n);

/* Highest number below which, from 1, none is missing; 0 = none known. */
uint64_t seqset_last(const struct seqset *s, const struct uuid *host, uint64_t stream);

/* The host's counts with a reference for the caller; NULL when the host is unknown. */
struct seqset_counts *seqset_counts_ref(struct seqset *s, const struct uuid *host);
void seqset_counts_unref(struct seqset_counts *c); /* NULL is allowed */

uint32_t seqset_hosts(const struct seqset *s);
uint64_t seqset_closed(const struct seqset *s);    /* numbers given up in closed holes */
uint64_t seqset_forgotten(const struct seqset *s); /* streams that gave place */

/* One stream as it goes into a checkpoint. */
struct seqset_stream {
    struct uuid host;
    uint64_t stream;
    int64_t used_ns;
    const struct seq_range *ranges; /* rising, never touching */
    size_t n_ranges;
};

/* Every stream that has numbers; a result other than ERR_OK ends the walk and is returned. */
NODISCARD enum err seqset_each(const struct seqset *s,
                               enum err (*each)(void *ctx, const struct seqset_stream *stream),
                               void *ctx);

/* Ranges as bytes: 16 each, first and last, little endian. The decoder takes at most
 * SEQSET_RANGES_MAX, rising and apart. Errors: ERR_CORRUPT */
void seqset_encode(struct buf *out, const struct seq_range *ranges, size_t n);
NODISCARD enum err seqset_decode(struct seq_range *ranges, size_t *n, const void *p, size_t bytes);

#endif
