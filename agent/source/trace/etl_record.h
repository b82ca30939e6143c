/* Records inside a buffer of a trace file: every header type (the table is in etl_record.c).
 * Pure functions over bytes from outside. A reader first peeks (size and time, cheap), then reads
 * what it wants. Threads: any. Pointers given back are borrowed from the bytes. */
#ifndef PROCFLEET_AGENT_SOURCE_TRACE_ETL_RECORD_H
#define PROCFLEET_AGENT_SOURCE_TRACE_ETL_RECORD_H

#include "agent/source/source.h"
#include "common/base/cur.h"

enum etl_record_type {
    ETL_NOTHING = 0, /* no record: see struct etl_item */
    ETL_SYSTEM32 = 1,
    ETL_SYSTEM64 = 2,
    ETL_COMPACT32 = 3,
    ETL_COMPACT64 = 4,
    ETL_FULL32 = 10,
    ETL_INSTANCE32 = 11,
    ETL_ERROR = 13,   /* an event that could not be logged */
    ETL_MESSAGE = 15, /* WPP; on disk it has no number, this one is ours */
    ETL_PERFINFO32 = 16,
    ETL_PERFINFO64 = 17,
    ETL_EVENT32 = 18,
    ETL_EVENT64 = 19,
    ETL_FULL64 = 20,
    ETL_INSTANCE64 = 21,
    ETL_TYPE_COUNT = 22,
};

#define ETL_RECORD_SYSTEM_HEADER 0x20      /* bytes of a SYSTEM record's header */
#define ETL_RECORD_HEADER_MAX    0x50      /* bytes of the longest header */
#define ETL_RECORD_FLAGS         0xc0      /* in byte 3, both set: a header of the type in byte 2 */
#define ETL_RECORD_NO_TIME       INT64_MIN /* ticks of a message without stamp */

/* What a merge needs to know before a record is worth reading in full. */
struct etl_peek {
    uint8_t type;  /* enum etl_record_type */
    uint32_t size; /* without the padding to 8 */
    int64_t ticks;
};

/* What differs between the types: where size and time stand. */
struct etl_shape {
    uint8_t header; /* bytes; 0 = no such type */
    uint8_t size_at, time_at;
    uint8_t pointer_size;
};

extern const struct etl_shape etl_record_shapes[ETL_TYPE_COUNT];

/* The rest of etl_record_peek: messages, markers and damage. */
NODISCARD enum err etl_record_peek_other(struct etl_peek *out, const uint8_t *p, size_t n);

/* Looks at the record at `p`; n = valid bytes left in its buffer. Errors: ERR_END (an end marker or
 * nothing but padding), ERR_CORRUPT (unknown type or impossible size: what follows cannot be found)
 */
NODISCARD static inline enum err etl_record_peek(struct etl_peek *out, const uint8_t *p, size_t n)
{
    const struct etl_shape *s;
    struct cur c;
    uint32_t size;

    if (n < 8 || (p[3] & ETL_RECORD_FLAGS) != ETL_RECORD_FLAGS || p[2] >= ETL_TYPE_COUNT) {
        return etl_record_peek_other(out, p, n);
    }
    s = &etl_record_shapes[p[2]];
    c = cur_make(p + s->size_at, 2);
    size = cur_u16le(&c);
    if (s->header == 0 || size < s->header || size > n) {
        return ERR_CORRUPT;
    }
    c = cur_make(p + s->time_at, 8);
    out->type = p[2];
    out->size = size;
    out->ticks = (int64_t)cur_u64le(&c);
    return ERR_OK;
}

/* Group byte << 8 | opcode of a SYSTEM, COMPACT or PERFINFO record; UINT32_MAX of all others. */
static inline uint32_t etl_record_hook(const struct etl_peek *k, const uint8_t *p)
{
    static const uint32_t types = 1u << ETL_SYSTEM32 | 1u << ETL_SYSTEM64 | 1u << ETL_COMPACT32 |
                                  1u << ETL_COMPACT64 | 1u << ETL_PERFINFO32 | 1u << ETL_PERFINFO64;

    return types >> k->type & 1 ? cur_at16le(p + 6) : UINT32_MAX;
}

#define ETL_HOOK_SWITCH 0x0524u /* class Thread, opcode 36; */
#define ETL_HOOK_READY  0x0532u /* 50 */

/* Which of these two it is, with nothing in its header but version and time, and no counters in
 * front of its payload; 0: none. */
static inline uint32_t etl_record_switch(const struct etl_peek *k, const uint8_t *p)
{
    uint32_t hook;

    if ((k->type != ETL_PERFINFO64 && k->type != ETL_PERFINFO32) || p[1] != 0) {
        return 0;
    }
    hook = cur_at16le(p + 6);
    return hook == ETL_HOOK_SWITCH || hook == ETL_HOOK_READY ? hook : 0;
}

/* Whether the record tells who lives: lifecycle and rundown of processes and threads; and the
 * sampling interval. */
bool etl_record_tells_life(const struct etl_peek *k, const uint8_t *p);

/* Whether the record holds schemas of other records: an EventSource manifest, or event metadata
 * that a relogger has added. */
bool etl_record_tells_schema(const struct etl_peek *k, const uint8_t *p);

/* Fills everything of `out` but cpu, early, frequency and the nanoseconds. `p` and `k` as accepted
 * by etl_record_peek. An ERROR record names nobody: its GUID is all zero, so that no decoder takes
 * it for the event that could not be logged. Errors: ERR_CORRUPT (optional parts that leave the
 * record); `out` is then of no use */
NODISCARD enum err etl_record_read(struct raw_event *out, const struct etl_peek *k,
                                   const uint8_t *p);

static inline size_t etl_record_step(const struct etl_peek *k)
{
    return ((size_t)k->size + 7) & ~(size_t)7;
}

#endif
