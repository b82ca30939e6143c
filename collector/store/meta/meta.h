/* What of a host's window is not rows, as values of a rest segment and back: SEG_PART_REST (every
 * batch's key, stamps, infos, events and ledger) and SEG_PART_ACCOUNT (the same summed, for
 * coverage of whole windows). Bytes: docs/formats.md.
 * An info that was written before on the same UTC day, unchanged, is left out (`written` remembers
 * hashes); the first window of a day has them all, so a day needs no older file.
 * Threads: one owner of each packer and meta_written; readers any. */
#ifndef PROCFLEET_COLLECTOR_STORE_META_META_H
#define PROCFLEET_COLLECTOR_STORE_META_META_H

#include "collector/store/meta/loss_sum.h"
#include "collector/store/segment/pack.h"
#include "collector/store/segment/seg.h"
#include "collector/store/segment/seg_readahead.h"
#include "collector/store/segment/seg_write.h"
#include "collector/store/segment/window.h"

#define META_CHUNK_BYTES (4u << 20)  /* a value's bytes unpacked, from which on another begins */
#define META_CHUNKS_MAX  256u        /* of one host and window; seg_key.metric counts them */
#define META_RAW_MAX     (48u << 20) /* unpacked: a chunk and the batch that made it overflow */
#define META_KNOWN_MAX   (1u << 19)  /* instances remembered at least; at most twice as many */

/* What is on disk already, and what waits to get there with the segment being written: its infos,
 * and the accounts of its hosts. Forgets under pressure: then infos are written again. */
struct meta_written;
NODISCARD enum err meta_written_create(struct meta_written **out);
void meta_written_destroy(struct meta_written *w); /* NULL is allowed */

/* One segment: begin; meta_value_write for every host and window; accounts; then, once it is
 * durable, keep. What was not kept counts as never written. */
void meta_written_begin(struct meta_written *r, int64_t window_ns);
void meta_written_keep(struct meta_written *r);

/* Adds the values of a host's window. *events grows by its events and ledger rows. Errors: ERR_FULL
 * (META_CHUNKS_MAX), ERR_NOMEM, and those of seg_writer_add */
NODISCARD enum err meta_value_write(struct seg_writer *w, struct packer *p, uint32_t host,
                                    uint8_t window, const struct host_window *hw,
                                    struct meta_written *written, uint64_t *events);

/* Adds the accounts of all hosts written since begin, so that they lie side by side. A segment
 * without them is sound, but slow to ask for coverage. */
NODISCARD enum err meta_accounts_write(struct seg_writer *w, struct meta_written *written);

/* The rests of a host's window, one after the other by first stamp, stream and seq. Holds one chunk
 * unpacked and one batch. `s` and `p` are borrowed. Errors: ERR_NOMEM */
struct meta_reader;
NODISCARD enum err meta_reader_open(struct meta_reader **out, const struct seg *s, struct packer *p,
                                    uint32_t host, uint8_t window);
void meta_reader_close(struct meta_reader *r); /* NULL is allowed */
/* *out is valid until the next call; after an error nothing more comes. Errors: ERR_END (that was
 * all), ERR_NOTFOUND (the host has none in that window), ERR_CORRUPT, ERR_VERSION, ERR_FULL,
 * ERR_IO, ERR_NOMEM */
NODISCARD enum err meta_reader_next(struct meta_reader *r, const struct window_rest **out);
size_t meta_reader_memory(const struct meta_reader *r); /* bytes it holds now */

/* ahead: may be NULL. Errors: as meta_reader_next but ERR_END */
NODISCARD enum err meta_account_read(const struct seg *s, struct packer *p,
                                     struct seg_readahead *ahead, struct arena *memory,
                                     uint32_t host, uint8_t window, struct loss_sum *out);

/* -- bytes: for the log's notes, tests and fuzz targets -- */

/* Appends the rests from the first of them on, as many as fit a chunk; *done says how many, at
 * least one. What `written` has is left out; NULL: everything is written. Errors: ERR_FULL,
 * ERR_NOMEM */
NODISCARD enum err meta_encode(struct buf *out, const struct host_window *hw, size_t from,
                               struct meta_written *written, size_t *done);

/* All batches of an unpacked chunk, in `memory` or pointing into `raw`; all get `host`. *more:
 * another chunk follows. Errors: ERR_CORRUPT, ERR_VERSION, ERR_FULL (the arena's limit),
 * ERR_NOMEM */
NODISCARD enum err meta_decode(struct arena *memory, const uint8_t *raw, size_t raw_n,
                               const struct uuid *host, struct window_rest **out, size_t *n,
                               bool *more);

/* Whether the info, as it is, was the last one written of its instance on the segment's day; from
 * now on it is. */
bool meta_written_has(struct meta_written *r, const struct uuid *host, const struct uuid *boot,
                      const struct proc_info *info);

#endif
