/* Records of several trace files in one order of time, in constant memory: one open buffer for each
 * CPU of each file. Equal times keep the order of the files, and within a file that of its buffers.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_SOURCE_TRACE_ETL_MERGE_H
#define PROCFLEET_AGENT_SOURCE_TRACE_ETL_MERGE_H

#include "agent/source/trace/etl_stream.h"

#define ETL_MERGE_MEMORY_MAX (UINT64_C(512) << 20) /* bytes of open buffers */
#define ETL_MERGE_KEEP_MAX   (22u << 20) /* bytes of unpacked buffers that stay, and of indexes */

struct etl_merge;

/* Errors: ERR_NOMEM, ERR_FULL (more open buffers than the limit) */
NODISCARD enum err etl_merge_open(struct etl_merge **out, struct etl_part *parts, size_t n);
void etl_merge_close(struct etl_merge *m); /* NULL is allowed */

/* Goes to the start. */
void etl_merge_rewind(struct etl_merge *m, enum etl_want want);

/* Damage met since the last rewind. */
struct etl_damage etl_merge_damage(const struct etl_merge *m);

/* Groups (enum event_group) of all records that passes with another want than ALL have met. */
uint32_t etl_merge_groups(const struct etl_merge *m);

/* Gives the stream that stands at the next record (see struct etl_stream for what may be read of
 * it), until the next call; with peek.type ETL_NOTHING there is only a gap. Errors: ERR_END,
 * ERR_IO, ERR_NOMEM */
NODISCARD enum err etl_merge_next(struct etl_merge *m, const struct etl_stream **out);

/* Times of the first and the last record, found in the outer buffers of each CPU alone; the
 * log-file header's own where there are no others. Errors: ERR_IO, ERR_NOMEM */
NODISCARD enum err etl_merge_span(struct etl_merge *m, int64_t *first_ns, int64_t *last_ns);

#endif
