/* The rows of one host and window as values of a raw segment and back: SEG_PART_ROWS (raw_rows.h)
 * and a SEG_PART_COLUMN for each metric (raw_column.h). Bytes: docs/formats.md.
 * Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_STORE_SEGMENT_RAW_VALUE_H
#define PROCFLEET_COLLECTOR_STORE_SEGMENT_RAW_VALUE_H

#include "collector/store/segment/pack.h"
#include "collector/store/segment/seg.h"
#include "collector/store/segment/window.h"

/* Adds all values of the host's window; nothing when it has no parts. *values grows by the samples
 * inside. Errors: ERR_FULL (a value over SEG_VALUE_MAX), ERR_NOMEM, ERR_INVALID, and those of
 * seg_writer_add */
NODISCARD enum err raw_value_write(struct seg_writer *w, struct packer *p, uint32_t host,
                                   uint8_t window, const struct host_window *hw, uint64_t *values);

/* What of the rows is wanted. */
struct raw_want {
    uint64_t metrics; /* bits; runs' masks are cut to them */
    bool has_pid;     /* only runs of this process; ticks are all there */
    uint32_t pid;
};

/* Reads the parts back. Everything is in `memory`. Errors: ERR_NOTFOUND (host has no rows in that
 * window), ERR_CORRUPT, ERR_FULL, ERR_NOMEM, ERR_IO */
NODISCARD enum err raw_value_read(const struct seg *s, struct packer *p, struct arena *memory,
                                  uint32_t host, uint8_t window, const struct raw_want *want,
                                  struct window_part **parts, size_t *n_parts);

#endif
