/* Events of providers of a host's window, as values of a segment of their own (SEG_PROVIDER), so
 * that a noisy provider costs no other data its place, and back. A value is one pack (pack.h) of
 *
 *   u8 format, u8 more (another value follows), then records up to the end:
 *   received_ns zigzag, u8 clock (1 known, 2 bounded), offset_ns zigzag, error_ns zigzag,
 *   length LEB128, message Batch of telemetry.proto with these events alone
 *
 * one for each batch that had such events, by first stamp, stream and seq.
 * Threads: one owner of each writer and reader. */
#ifndef PROCFLEET_COLLECTOR_STORE_META_PROV_VALUE_H
#define PROCFLEET_COLLECTOR_STORE_META_PROV_VALUE_H

#include "collector/store/segment/pack.h"
#include "collector/store/segment/seg.h"
#include "collector/store/segment/seg_write.h"
#include "collector/store/segment/window.h"

#define PROV_VALUE_BYTES (4u << 20)  /* unpacked, from which on another value begins */
#define PROV_VALUE_MAX   (20u << 20) /* unpacked: that and the record that made it overflow */
#define PROV_VALUES_MAX  256u        /* of one host and window; seg_key.metric counts them */

/* Whether the window has any. */
bool prov_value_has(const struct host_window *hw);

/* Takes them out of the window: what is left is in `memory` or borrowed. Errors: ERR_FULL,
 * ERR_NOMEM */
NODISCARD enum err prov_value_strip(struct host_window *hw, struct arena *memory);

/* Adds the values of a host's window; *events grows by its events. Errors: ERR_FULL
 * (PROV_VALUES_MAX), ERR_NOMEM, and those of seg_writer_add */
NODISCARD enum err prov_value_write(struct seg_writer *w, struct packer *p, uint32_t host,
                                    uint8_t window, const struct host_window *hw,
                                    struct arena *memory, uint64_t *events);

/* The batches of a host's window, one after the other. Holds one value unpacked and one batch. `s`
 * and `p` are borrowed. Errors: ERR_NOMEM */
struct prov_reader;
NODISCARD enum err prov_value_open(struct prov_reader **out, const struct seg *s, struct packer *p,
                                   uint32_t host, uint8_t window);
void prov_value_close(struct prov_reader *r); /* NULL is allowed */
/* *out is valid until the next call; after an error nothing more comes. Errors: ERR_END (that was
 * all), ERR_NOTFOUND (the host has none in that window), ERR_CORRUPT, ERR_VERSION, ERR_FULL,
 * ERR_IO, ERR_NOMEM */
NODISCARD enum err prov_value_next(struct prov_reader *r, const struct window_rest **out);
size_t prov_value_memory(const struct prov_reader *r); /* bytes it holds now */

/* -- bytes: for tests and fuzz targets -- */

/* The record at the cursor; *out is released by wire_batch_free. Errors: ERR_CORRUPT, ERR_VERSION,
 * ERR_FULL, ERR_NOMEM */
struct cur;
NODISCARD enum err prov_value_record(struct cur *c, struct batch **out, struct window_rest *rest);

#endif
