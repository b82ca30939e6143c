/* Writing a segment: <name>.tmp, then renamed. Threads: a writer has one owner. */
#ifndef PROCFLEET_COLLECTOR_STORE_SEGMENT_SEG_WRITE_H
#define PROCFLEET_COLLECTOR_STORE_SEGMENT_SEG_WRITE_H

#include "collector/store/segment/seg_format.h"
#include "common/os/fio.h"

struct seg_writer;
NODISCARD enum err seg_writer_create(struct seg_writer **out, const struct fio *fio,
                                     const char *dir, const struct seg_info *info,
                                     const int64_t *windows_ns, struct errmsg *why);
/* A host that is in it. t0, t1: oldest and newest stamp of its data in window w, by its clock.
 * Call again for each further window of the host; further spans of the same window are joined.
 * *index = the host's. Errors of this and the next two: ERR_IO, ERR_NOSPACE, ERR_NOMEM, ERR_FULL,
 * after which only abort or finish remain; ERR_INVALID (no such window, host or part) */
NODISCARD enum err seg_writer_host(struct seg_writer *w, uint32_t *index, const struct uuid *host,
                                   const char *name, uint8_t window, int64_t t0_ns, int64_t t1_ns);
/* Numbers of the batches inside. */
NODISCARD enum err seg_writer_ranges(struct seg_writer *w, const struct uuid *host, uint64_t stream,
                                     const struct seq_range *ranges, size_t n);
NODISCARD enum err seg_writer_add(struct seg_writer *w, struct seg_key key, const void *p,
                                  size_t n);
/* Writes directory and footer, syncs, renames, syncs the directory. *info gets bytes; w is gone,
 * also after an error (then nothing is left of the file). Errors: ERR_IO, ERR_NOSPACE, ERR_NOMEM */
NODISCARD enum err seg_writer_finish(struct seg_writer *w, uint64_t values, struct seg_info *info,
                                     struct errmsg *why);
void seg_writer_abort(struct seg_writer *w); /* NULL is allowed */

/* The file that is written takes the place of one that exists, so a failure leaves that one. */
void seg_writer_replaces(struct seg_writer *w);

#endif
