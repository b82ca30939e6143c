/* Where the buffers of one trace file stand: read once from their headers, so that each CPU's
 * buffers can then be read in order of time. 40 bytes per buffer.
 * Threads: one owner. Damage does not fail the index: it searches for the next believable buffer
 * and counts what it passed over. A file that ends too soon is damaged too: inside a buffer, or
 * before the number of buffers that a properly closed file gives. */
#ifndef PROCFLEET_AGENT_SOURCE_TRACE_ETL_INDEX_H
#define PROCFLEET_AGENT_SOURCE_TRACE_ETL_INDEX_H

#include "agent/source/trace/etl_buffer.h"
#include "agent/source/trace/etl_census.h"
#include "agent/source/trace/etl_input.h"

#define ETL_INDEX_BUFFERS_MAX (1u << 20) /* of one file */
#define ETL_INDEX_STREAMS_MAX 8192u      /* of one file; buffers of further ones are damage */
#define ETL_INDEX_UNPACKED_MAX \
    (UINT64_C(256) << 30) /* bytes, of all its buffers; of small files less */

struct etl_slot {
    uint64_t offset;     /* in the file, of the header */
    int64_t first_ticks; /* stamp of its first record; ETL_RECORD_NO_TIME = empty or unreadable */
    uint32_t stored;     /* bytes present in the file, header included; less than the header says
                            where the file ends early */
    uint32_t filled; /* valid bytes once unpacked, header included, at least ETL_BUFFER_HEADER */
    uint32_t stream; /* buffers filled one after the other: of one CPU and one type */
    uint16_t flags;  /* enum etl_buffer_flag */
    uint16_t gaps;   /* stretches passed over in the file before it, modulo 65536 */
    uint8_t *plain;  /* its body, left unpacked by a pass of etl_merge, which owns it; or NULL */
};

struct etl_index {
    struct etl_log_header log;
    struct etl_slot *slots; /* by stream, within a stream in order of time */
    size_t n_slots, cap;
    uint32_t filled_max, stored_max;        /* bytes, over all slots */
    uint64_t unpacked, unpacked_compressed; /* bytes, over all slots; over the compressed ones */
    uint64_t compressed, flagged_events_lost, flagged_buffers_lost; /* buffers */
    uint64_t damaged, skipped_bytes, searches;
    struct etl_census census; /* without damage, which grows later */
};

/* Errors: ERR_CORRUPT (no trace file), ERR_FULL (more buffers or bytes than the limits), ERR_NOMEM,
 * ERR_IO */
NODISCARD enum err etl_index_init(struct etl_index *x, struct etl_input *in, const char *path,
                                  struct errmsg *why);
void etl_index_fini(struct etl_index *x); /* zeroed storage is allowed */

#endif
