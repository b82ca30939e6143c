/* The rows of one host and window as values of a raw segment and back: SEG_PART_ROWS
 * and a SEG_PART_COLUMN for each metric. Bytes: docs/formats.md.
 * Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_STORE_SEGMENT_RAW_H
#define PROCFLEET_COLLECTOR_STORE_SEGMENT_RAW_H

#include "collector/store/segment/pack.h"
#include "collector/store/segment/seg.h"
#include "collector/store/segment/seg_write.h"
#include "collector/store/segment/window.h"

/* Adds all values of the host's window; nothing when it has no parts. *values grows by the samples
 * inside. Errors: ERR_FULL (a value over SEG_VALUE_MAX), ERR_NOMEM, ERR_INVALID, and those of
 * seg_writer_add */
NODISCARD enum err raw_value_write(struct seg_writer *w, struct packer *p, uint32_t host,
                                   uint8_t window, const struct host_window *hw, uint64_t *values);

/* What of the rows is wanted. */
struct raw_want {
    metric_mask metrics; /* bits; runs' masks are cut to them */
    bool has_pid;        /* only runs of this process; ticks are all there */
    uint32_t pid;
};

/* Reads the parts back. Everything is in `memory`. Errors: ERR_NOTFOUND (host has no rows in that
 * window), ERR_CORRUPT, ERR_FULL, ERR_NOMEM, ERR_IO */
NODISCARD enum err raw_value_read(const struct seg *s, struct packer *p, struct arena *memory,
                                  uint32_t host, uint8_t window, const struct raw_want *want,
                                  struct window_part **parts, size_t *n_parts);

/* The table of a host's rows in one window as bytes and back: parts, their ticks and runs, without
 * values. Bytes: docs/formats.md. Threads: one owner. */
#define RAW_TICKS_MAX (1u << 24) /* of a part */

void raw_rows_put(struct packer *p, struct buf *out, const struct host_window *hw); /* latches */

/* Parts as they were put, without columns; host: whose they are. Everything is in `memory`.
 * Errors: ERR_CORRUPT, ERR_FULL, ERR_NOMEM */
NODISCARD enum err raw_rows_get(struct packer *p, struct arena *memory, const struct uuid *host,
                                const void *bytes, size_t n, struct window_part **parts,
                                size_t *n_parts);

/* One metric of a host's rows in one window as bytes and back: the values of all runs that have it,
 * in groups of runs, each coded and packed by itself, so that a reader who wants few processes
 * opens few groups. Bytes: docs/formats.md. Threads: one owner. */
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
