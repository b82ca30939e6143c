/* What the producer's half (ring_put.c) and the consumer's (ring_take.c) share.
 *
 * The memory holds entries one behind the other, each contiguous and a multiple of 8 bytes long;
 * one that does not fit before the end stands at the beginning, behind an entry that only fills.
 * `tail` and `head` count bytes since the ring was made; their difference is what is held. The
 * producer alone writes tail, the consumer alone head, and each keeps a copy of the other's, which
 * it renews only when the copy says full (or empty): the two rarely touch the same cache line.
 *
 * What is the same for nearly all records of a session (keyword, offset of the wall clock,
 * frequency, and what only files and messages have) is an entry's `context`, stored only where it
 * differs from the entry before. Both sides keep the current one; a dropped record changes neither.
 *
 * Sleeping: the consumer says in `wake_at` at how many held bytes it wants to be woken, then looks
 * at tail once more; the producer moves tail, then looks at wake_at. These four are sequentially
 * consistent, so one of the two sees the other. The same holds for `want_room` and head. A lock is
 * taken only around sleeping and waking.
 *
 * Loss is kept by the producer as marks, one for each CPU, and stored before the next record that
 * finds room (the marks of the last stretch are read in place, once the ring is closed). Nothing is
 * handed on between a stretch's first missed record and its marks, so their times are in order. */
#ifndef PROCFLEET_AGENT_SOURCE_RING_RING_IMPL_H
#define PROCFLEET_AGENT_SOURCE_RING_RING_IMPL_H

#include <stdatomic.h>

#include "agent/source/ring/ring.h"
#include "common/os/os.h"

#define RING_MARKS      16 /* CPUs of one stretch told apart; beyond: all CPUs */
#define RING_CACHE_LINE 64

enum ring_what { RING_FILLING, RING_RECORD, RING_LOST, RING_ADVANCE };

struct ring_entry {
    uint32_t size;
    uint8_t what;
    bool context; /* RING_RECORD: a struct ring_context follows the header */
    uint16_t n;   /* RING_LOST: marks */
};

struct ring_record {
    struct ring_entry entry;
    uint32_t payload_n, ext_n;
    uint32_t pid, tid;
    uint16_t id, task, cpu;
    uint8_t form, version, opcode, level, pointer_size, header, counters;
    bool early, has_sequence, has_component;
    int64_t mono_ns, ticks;
    uint8_t guid[16];
};

struct ring_context {
    uint64_t keyword, wall_less_mono, frequency, place;
    int64_t shift_ns;
    uint32_t sequence, component;
};

struct ring_mark {
    int64_t wall_ns, mono_ns;
    uint64_t events, buffers;
    uint16_t cpu;
    bool all_cpus;
};

struct ring_moment {
    struct ring_entry entry;
    int64_t wall_ns, mono_ns;
};

struct ring {
    uint8_t *bytes;
    size_t size; /* a power of two */
    bool wait;
    atomic_bool closed;

    struct os_mutex *lock; /* guards nothing but sleeping and waking */
    struct os_cond *news, *room;
    uint8_t pad_a[RING_CACHE_LINE];

    struct {
        _Atomic uint64_t tail;
        uint64_t head_seen;
        struct ring_context context;
        int64_t told_ns; /* monotonic: of the last time stored */
        struct ring_mark marks[RING_MARKS];
        size_t n_marks;
        _Atomic uint64_t in, refused, gaps, waits, wakes;
        _Atomic uint64_t dropped[RING_KIND_COUNT];
    } put;
    uint8_t pad_b[RING_CACHE_LINE];

    struct {
        _Atomic uint64_t head;
        struct ring_context context;
        bool begun;
        int64_t advanced_ns; /* monotonic: told to the sink */
        _Atomic uint64_t out;
    } take;
    uint8_t pad_c[RING_CACHE_LINE];

    _Atomic size_t wake_at; /* 0: the consumer is awake */
    atomic_bool want_room;
};

/* Counters have one writer each: no locked instruction is needed. Released, so that whoever sees
 * what has become of a record also sees that it came in. */
static inline void ring_add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_release);
}

static inline size_t ring_up8(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

#endif
