/* Values that lie side by side for all hosts, read together: for those who ask one host after the
 * other. What of a group (part, metric, window) is asked for again and again is read whole, the
 * larger the later, so that a few hosts out of many do not cost the reading of all.
 * Bounds: SEG_READAHEAD_MEMORY; what goes beyond is read one by one. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_STORE_SEGMENT_SEG_READAHEAD_H
#define PROCFLEET_COLLECTOR_STORE_SEGMENT_SEG_READAHEAD_H

#include "collector/store/segment/seg.h"

#define SEG_READAHEAD_MEMORY    ((size_t)32 << 20)
#define SEG_READAHEAD_GROUP_MAX ((size_t)4 << 20)
#define SEG_READAHEAD_PER_ASKED ((size_t)96 << 10) /* read for each value that was asked for */

struct seg_readahead;
NODISCARD enum err seg_readahead_create(struct seg_readahead **out);
void seg_readahead_destroy(struct seg_readahead *a); /* NULL is allowed */

/* As seg_read_many; values may lie in the memory of `a`, which they last as long as. a: NULL is
 * allowed. The segments must be of one store. */
NODISCARD enum err seg_readahead_read(struct seg_readahead *a, const struct seg *s,
                                      struct arena *memory, const struct seg_key *keys, size_t n,
                                      const uint8_t **p, size_t *lengths);

#endif
