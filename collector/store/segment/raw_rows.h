/* The table of a host's rows in one window as bytes and back: parts, their ticks and runs, without
 * values. Bytes: docs/formats.md. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_STORE_SEGMENT_RAW_ROWS_H
#define PROCFLEET_COLLECTOR_STORE_SEGMENT_RAW_ROWS_H

#include "collector/store/segment/pack.h"
#include "collector/store/segment/window.h"

#define RAW_TICKS_MAX (1u << 24) /* of a part */

void raw_rows_put(struct packer *p, struct buf *out, const struct host_window *hw); /* latches */

/* Parts as they were put, without columns; host: whose they are. Everything is in `memory`.
 * Errors: ERR_CORRUPT, ERR_FULL, ERR_NOMEM */
NODISCARD enum err raw_rows_get(struct packer *p, struct arena *memory, const struct uuid *host,
                                const void *bytes, size_t n, struct window_part **parts,
                                size_t *n_parts);

#endif
