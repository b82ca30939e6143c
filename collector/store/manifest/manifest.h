/* Which segments exist: an append-only, checksummed log of additions and removals (bytes:
 * docs/formats.md), and in memory an immutable list that readers hold by reference.
 * A change of several segments (sealing, compaction, retention) is one record: all of it or none
 * after a crash. A removed segment's file is unlinked when the last list that names it is let go.
 * Files that no record names are leftovers of a crash and removed at opening.
 * Bounds: 1,000,000 segments. Threads: one writer (calls manifest_change); lists from any. */
#ifndef PROCFLEET_COLLECTOR_STORE_MANIFEST_MANIFEST_H
#define PROCFLEET_COLLECTOR_STORE_MANIFEST_MANIFEST_H

#include "collector/store/segment/seg.h"

#define MANIFEST_OPEN_BYTES (64u << 20) /* directories kept of segments not in use */
#define MANIFEST_OPEN_FILES 64u         /* descriptors kept */

struct manifest;

struct manifest_conf {
    const char *dir; /* of the segments; exists; the caller holds its lock */
    const struct fio *fio;
};

struct manifest_stats {
    uint64_t files[SEG_KINDS], bytes[SEG_KINDS], values[SEG_KINDS];
    int64_t oldest_ns[SEG_KINDS]; /* window of the oldest; 0 = none */
    uint64_t opened, open_bytes;
    uint64_t leftovers, torn_bytes, missing, unreadable; /* found at opening; or while reading */
    uint64_t damaged_records; /* of the manifest: one of their two copies */
    uint64_t held_bytes;      /* of files that were dropped and that some list still needs */
    uint64_t file_bytes;      /* of the manifest itself */
};

/* Errors: ERR_IO, ERR_ACCESS, ERR_NOMEM, ERR_VERSION, ERR_CORRUPT (a record before the last one is
 * damaged: `procfleet-collector store check --repair` rebuilds it from the segments) */
NODISCARD enum err manifest_open(struct manifest **out, const struct manifest_conf *conf,
                                 struct errmsg *why);
/* To read only, also beside the owner and without its lock: nothing is repaired, made or removed,
 * and manifest_change returns ERR_ACCESS. Segments that go meanwhile: ERR_NOTFOUND. */
NODISCARD enum err manifest_open_reader(struct manifest **out, const struct manifest_conf *conf,
                                        struct errmsg *why);
void manifest_close(struct manifest *m); /* NULL is allowed; lists must be gone */
void manifest_keep_open(struct manifest *m, uint64_t bytes); /* another MANIFEST_OPEN_BYTES */

uint64_t manifest_number(struct manifest *m); /* a fresh segment number; any thread */

/* Durable when it returns ERR_OK; the new list is current from manifest_publish on, which cannot
 * fail (so that the caller can change something else with it). What is added must be durable
 * already (seg_writer_finish). A number both dropped and added keeps its file and gets a new info.
 * Errors: ERR_IO, ERR_NOSPACE, ERR_NOMEM, ERR_FULL, ERR_INVALID (an unknown number dropped, a known
 * one added): nothing changed; the added files are the caller's to remove (manifest_discard) */
NODISCARD enum err manifest_change(struct manifest *m, const struct seg_info *add, size_t n_add,
                                   const uint64_t *drop, size_t n_drop, struct errmsg *why);
void manifest_publish(struct manifest *m);
/* Removes the file of a finished segment that could not be added; what fails is removed at the next
 * opening. */
void manifest_discard(struct manifest *m, const struct seg_info *info);

/* -- readers -- */
struct manifest_list; /* sorted by kind, then window, then number */
struct manifest_list *manifest_view(struct manifest *m); /* any thread; NULL: no memory */
void manifest_list_release(struct manifest_list *l);     /* NULL is allowed */
size_t manifest_segments(const struct manifest_list *l);
const struct seg_info *manifest_segment(const struct manifest_list *l, size_t i);
/* First index whose kind and window are not less. */
size_t manifest_lower(const struct manifest_list *l, unsigned kind, int64_t window_ns);
/* The i-th, opened when it was not; valid as long as the list. Errors: those of seg_open */
NODISCARD enum err manifest_seg(const struct manifest_list *l, size_t i, const struct seg **out);
/* This list needs the i-th no more: for those who look through many. */
void manifest_seg_done(const struct manifest_list *l, size_t i);

void manifest_stats(struct manifest *m, struct manifest_stats *out);

/* For `store check --repair`, with the store closed: a manifest of what the directory's segments
 * say of themselves. Where data is there twice (a crash between a change and the removal of what it
 * dropped), the newer segment has it. What cannot be read is put aside as NAME.bad.
 * Errors: ERR_VERSION (a segment of a newer format), ERR_IO, ERR_NOSPACE, ERR_NOMEM, ERR_FULL */
NODISCARD enum err manifest_rebuild(const struct manifest_conf *conf, uint64_t *found,
                                    struct errmsg *why);

#endif
