/* The records of one stream (CPU and buffer type) of one trace file, buffer after buffer. Threads:
 * one owner. */
#ifndef PROCFLEET_AGENT_SOURCE_TRACE_ETL_STREAM_H
#define PROCFLEET_AGENT_SOURCE_TRACE_ETL_STREAM_H

#include "agent/source/trace/etl_index.h"
#include "agent/source/trace/etl_record.h"

/* Which records to give. */
enum etl_want {
    ETL_WANT_ALL,
    ETL_WANT_LIFE,    /* those for which etl_record_tells_life */
    ETL_WANT_SCHEMAS, /* these and those for which etl_record_tells_schema */
};

/* A file as streams take it; owned by whoever opened it, borrowed by the streams. */
struct etl_part {
    struct etl_input *in;
    struct etl_index index;
    size_t nth; /* of the paths given */
};

/* Damage met while reading; grows only. */
struct etl_damage {
    uint64_t damaged, skipped_bytes;
};

/* Something is missing: events or buffers that flags tell (at least so many; both 0: damage). */
struct etl_gap {
    bool open;
    uint32_t events, buffers;
};

#define ETL_DULL_KINDS 32u /* powers of two */
#define ETL_DULL_HOOKS 64u

/* Kinds of records of which a pass that does not want all knows already that it passes over them,
 * and which groups they are of: the last ones met, by a few of their bits. */
struct etl_dull {
    uint32_t hooks[ETL_DULL_HOOKS]; /* etl_record_hook and one; 0: none */
    struct {
        uint64_t guid[2], number; /* of records with a GUID; number 0: none */
    } named[ETL_DULL_KINDS];
};

/* Memory shared by all streams: what a compressed buffer is read into before it is unpacked, and
 * room for unpacked bodies which the first pass leaves for the second. */
struct etl_memory {
    uint8_t *packed;
    size_t packed_cap;
    uint8_t *keep;
    size_t keep_cap, keep_used;
    bool filling; /* a pass follows for which it is worth keeping */
    struct etl_dull dull;
};

struct etl_stream {
    const struct etl_part *part;
    struct etl_slot *slots; /* borrowed from part */
    size_t n_slots;
    size_t next_slot;

    uint8_t *body; /* of the current buffer, unpacked; owned */
    size_t body_cap;
    const uint8_t *p, *end; /* current record; end of the body */

    struct etl_peek peek; /* of the current record; ETL_NOTHING: only the gap is told, at the end */
    struct etl_gap gap;   /* before the current record, behind the one before it */
    struct etl_gap ahead; /* met since then */
    int64_t wall_ns;      /* of the current record, as recorded */
    int64_t last_ticks;
    enum etl_want want;
    uint32_t groups; /* enum event_group, of what passes that do not want all have met */
    bool at_record;  /* p, peek, gap and wall_ns are valid */
    bool started;    /* there has been a record */
};

/* Goes to the start, without reading anything. `wall_ns` is then the time of the first record as
 * the index knows it, which allows to sort streams before they are read. */
void etl_stream_rewind(struct etl_stream *s, enum etl_want want);
void etl_stream_release(struct etl_stream *s); /* frees the body */

/* Goes to the next record. Errors: ERR_END (body released), ERR_IO, ERR_NOMEM */
NODISCARD enum err etl_stream_next(struct etl_stream *s, struct etl_memory *mem,
                                   struct etl_damage *damage);

/* Time of the latest record, from the last readable buffer alone. The position is lost.
 * Errors: ERR_END (there is none), ERR_IO, ERR_NOMEM */
NODISCARD enum err etl_stream_last(struct etl_stream *s, struct etl_memory *mem, int64_t *wall_ns);

static inline uint16_t etl_stream_cpu(const struct etl_stream *s)
{
    return (uint16_t)s->slots->stream;
}

/* Where in the file the buffer of the current record stands, or the first one will. */
static inline uint64_t etl_stream_place(const struct etl_stream *s)
{
    return s->slots[s->next_slot - (s->next_slot > 0)].offset;
}

#endif
