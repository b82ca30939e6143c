/* What coding and decoding of batches share; only wire_batch.c and wire_batch_decode.c include
 * this.
 */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_BATCH_H
#define PROCFLEET_COMMON_WIRE_WIRE_BATCH_H

/* zstd lets a static library's user bring its own allocator. */
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "common/wire/wire.h"

#define WIRE_BATCH_FORMAT     1u
#define WIRE_BATCH_SOURCE_MAX 31u        /* bytes */
#define WIRE_BATCH_UNPACK_MAX (8u << 20) /* memory to unpack the message in */

extern const uint64_t wire_batch_columns; /* bit m: metric m is a column */
extern const ZSTD_customMem wire_batch_zstd;

/* How many values column `metric` has by the runs' masks; counts gets the lengths of those runs. */
size_t wire_batch_count(uint32_t *counts, size_t *n_counts, const struct batch_run *runs,
                        size_t n_runs, unsigned metric);

#endif
