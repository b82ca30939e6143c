/* What of a host's window is not rows, as values of a rest segment and back: SEG_PART_REST (every
 * batch's key, stamps, infos, events and ledger) and SEG_PART_ACCOUNT (the same summed, for
 * coverage of whole windows). Bytes: docs/formats.md.
 * An info that was written before on the same UTC day, unchanged, is left out (`written` remembers
 * hashes); the first window of a day has them all, so a day needs no older file.
 * Threads: one owner of each packer and rest_written; readers any. */
#ifndef PROCFLEET_COLLECTOR_STORE_META_REST_VALUE_H
#define PROCFLEET_COLLECTOR_STORE_META_REST_VALUE_H

#include "collector/store/meta/rest_account.h"
#include "collector/store/segment/pack.h"
#include "collector/store/segment/seg.h"
#include "collector/store/segment/seg_ahead.h"
#include "collector/store/segment/window.h"

#define REST_CHUNK_BYTES (4u << 20) /* a value's bytes unpacked, from which on another begins */
#define REST_CHUNKS_MAX  256u       /* of one host and window; seg_key.metric counts them */
#define REST_COUNTS_MAX  256u       /* of an account; beyond it is not `plain` */
#define REST_STREAMS_MAX 128u
#define REST_TOLD_MAX    8192u
#define REST_KNOWN_MAX   (1u << 19) /* instances remembered at least; at most twice as many */

/* What is on disk already, and what waits to get there with the segment being written: its infos,
 * and the accounts of its hosts. Forgets under pressure: then infos are written again. */
struct rest_written;
NODISCARD enum err rest_written_create(struct rest_written **out);
void rest_written_destroy(struct rest_written *w); /* NULL is allowed */

/* One segment: begin; rest_value_write for every host and window; accounts; then, once it is
 * durable, keep. What was not kept counts as never written. */
void rest_written_begin(struct rest_written *r, int64_t window_ns);
void rest_written_keep(struct rest_written *r);

/* Adds the values of a host's window. *events grows by its events and ledger rows. Errors: ERR_FULL
 * (REST_CHUNKS_MAX), ERR_NOMEM, and those of seg_writer_add */
NODISCARD enum err rest_value_write(struct seg_writer *w, struct packer *p, uint32_t host,
                                    uint8_t window, const struct host_window *hw,
                                    struct rest_written *written, uint64_t *events);

/* Adds the accounts of all hosts written since begin, so that they lie side by side. A segment
 * without them is sound, but slow to ask for coverage. */
NODISCARD enum err rest_accounts_write(struct seg_writer *w, struct rest_written *written);

/* The rests of a host's window, one after the other by first stamp, stream and seq. Holds one chunk
 * unpacked and one batch. `s` and `p` are borrowed. Errors: ERR_NOMEM */
struct rest_reader;
NODISCARD enum err rest_reader_open(struct rest_reader **out, const struct seg *s, struct packer *p,
                                    uint32_t host, uint8_t window);
void rest_reader_close(struct rest_reader *r); /* NULL is allowed */
/* *out is valid until the next call; after an error nothing more comes. Errors: ERR_END (that was
 * all), ERR_NOTFOUND (the host has none in that window), ERR_CORRUPT, ERR_VERSION, ERR_FULL,
 * ERR_IO, ERR_NOMEM */
NODISCARD enum err rest_reader_next(struct rest_reader *r, const struct window_rest **out);
size_t rest_reader_memory(const struct rest_reader *r); /* bytes it holds now */

/* The account of one batch, for who keeps it in memory: its bytes (mem_free), or NULL when it would
 * not be plain or is larger than REST_TOLD_MAX. Errors: ERR_NOMEM. And back. */
NODISCARD enum err rest_told_make(void **told, size_t *n, const struct batch *b);
NODISCARD enum err rest_told_read(const void *told, size_t n, struct arena *memory,
                                  struct rest_account *out);

/* ahead: may be NULL. Errors: as rest_reader_next but ERR_END */
NODISCARD enum err rest_account_read(const struct seg *s, struct packer *p, struct seg_ahead *ahead,
                                     struct arena *memory, uint32_t host, uint8_t window,
                                     struct rest_account *out);

#endif
