/* One metric of a host's rows in one window as bytes and back: the values of all runs that have it,
 * in groups of runs, each coded and packed by itself, so that a reader who wants few processes
 * opens few groups. Bytes: docs/formats.md. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_STORE_SEGMENT_RAW_COLUMN_H
#define PROCFLEET_COLLECTOR_STORE_SEGMENT_RAW_COLUMN_H

#include "collector/store/segment/pack.h"
#include "collector/store/segment/window.h"

/* *values grows by how many there are. Latches. scratch: emptied and used. */
void raw_column_put(struct packer *p, struct buf *out, struct buf *scratch,
                    const struct host_window *hw, unsigned metric, uint64_t *values);

/* Runs [first, first + n) of a part. */
struct raw_runs {
    size_t first, n;
};

/* Adds the column to the parts, which have room for it behind their n_columns columns: of each
 * part's runs with the metric those in wanted[part]. Parts without any get none. Everything is in
 * `memory`. Errors: ERR_CORRUPT, ERR_FULL, ERR_NOMEM */
struct raw_part {
    struct window_part *part; /* runs as they were written */
    struct raw_runs wanted;
    struct batch_column *columns;
};
NODISCARD enum err raw_column_get(struct packer *p, struct arena *memory, struct raw_part *parts,
                                  size_t n_parts, unsigned metric, const void *bytes, size_t n);

#endif
