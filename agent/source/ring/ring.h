/* The bounded ring of bytes behind one trace session's callback: the callback copies a record in
 * and returns, another thread takes it out in batches. Single producer, single consumer: one ring
 * per session. Records keep their order.
 * Bounds:  conf.bytes, taken when the ring is made. What does not fit is dropped and counted by
 *          kind. Ordinary records leave the last eighth to those that tell who lives, threads and
 *          images the last sixteenth to processes: lifecycle is shed last.
 * Cost:    the producer copies, and no more: no lock, no allocation, no system call, except that it
 *          wakes a consumer that sleeps, and, where conf.wait says so, waits for room.
 * Loss:    before the first record that fits again the consumer is told EV_LOST for each CPU that
 *          missed something, with the time of the first record missed there.
 * Threads: put, lost, advance: the producer. drain, wait: the consumer. stats, fill: any. */
#ifndef PROCFLEET_AGENT_SOURCE_RING_RING_H
#define PROCFLEET_AGENT_SOURCE_RING_RING_H

#include "agent/source/source.h"
#include "common/base/err.h"

#define RING_BYTES     ((size_t)1 << 20)
#define RING_BYTES_MIN ((size_t)64 << 10)
#define RING_BYTES_MAX ((size_t)256 << 20)

/* What records count as; the second word is in the loss ledger's row, "full_process". */
#define RING_KINDS(X)                           \
    X(PROCESS, process)                         \
    X(THREAD, thread) /* starts, ends, names */ \
    X(IMAGE, image)                             \
    X(CSWITCH, cswitch) /* and ready threads */ \
    X(SAMPLE, sample)                           \
    X(DISK, disk)                               \
    X(FAULT, fault)                             \
    X(NET, net)                                 \
    X(OTHER, other)

enum ring_kind {
#define RING_KIND(id, name) RING_##id,
    RING_KINDS(RING_KIND)
#undef RING_KIND
        RING_KIND_COUNT
};

struct ring;

struct ring_conf {
    size_t bytes; /* RING_BYTES_MIN to RING_BYTES_MAX, rounded up to a power of two */
    bool wait;    /* for room (a recording can) instead of dropping */
};

/* in = out + dropped + refused + held, when the producer is not in ring_put. Grows only, but held.
 */
struct ring_stats {
    uint64_t in;                       /* records given to ring_put */
    uint64_t out;                      /* handed to a sink */
    uint64_t dropped[RING_KIND_COUNT]; /* no room */
    uint64_t refused; /* after ring_close; payload or items longer than an eighth of the ring */
    uint64_t gaps;    /* stretches of loss the consumer was told of */
    uint64_t waits, wakes; /* system calls of the producer */
    uint64_t held;         /* now */
};

/* Errors: ERR_RANGE (bytes), ERR_NOMEM */
NODISCARD enum err ring_create(struct ring **out, const struct ring_conf *conf);
void ring_destroy(struct ring *r); /* NULL is allowed */

/* Copies header, payload and extended items. Errors, all counted: ERR_FULL (dropped), ERR_INVALID
 * (too long), ERR_CLOSED */
NODISCARD enum err ring_put(struct ring *r, const struct raw_event *raw);

/* What the platform itself says is missing (EV_LOST; other facts are ignored): told in its place,
 * never dropped. */
void ring_lost(struct ring *r, const struct event *ev);

/* Time has come this far although no record says so. May be lost in a full ring: the next record
 * has a time too. */
void ring_advance(struct ring *r, int64_t wall_ns, int64_t mono_ns);

/* No further puts. By the producer's thread, or when that is over. */
void ring_close(struct ring *r);

/* Hands up to `max` records, oldest first, to the sink: advance where a record is newer than all
 * before it, fact with EV_LOST, raw. Pointers are into the ring. Gives the number of records; 0 =
 * nothing was held. ring_drain_until stops at what is later than until_ns. */
size_t ring_drain(struct ring *r, size_t max, const struct source_sink *sink);
size_t ring_drain_until(struct ring *r, size_t max, int64_t until_ns,
                        const struct source_sink *sink);

/* The time of what ring_drain would hand on first. False: nothing is held. The consumer's. */
bool ring_next_ns(struct ring *r, int64_t *mono_ns);

/* Sleeps until at least `bytes` are held (1 = anything), the ring is closed, or until_ns
 * (monotonic). Errors: ERR_TIMEOUT, ERR_END (closed and empty) */
NODISCARD enum err ring_wait(struct ring *r, size_t bytes, int64_t until_ns);

size_t ring_bytes(const struct ring *r);
unsigned ring_fill_permille(const struct ring *r); /* now */
void ring_stats(const struct ring *r, struct ring_stats *out);

const char *ring_full_reason(enum ring_kind kind); /* "full_process": what the row is called */

/* What a record counts as, by class and opcode. */
enum ring_kind ring_kind_of(const struct raw_event *raw);

#endif
