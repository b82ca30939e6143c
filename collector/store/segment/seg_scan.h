/* Segments read from their first byte to their last, past damage: verification and salvage.
 * Threads: any, each file one at a time. */
#ifndef PROCFLEET_COLLECTOR_STORE_SEGMENT_SEG_SCAN_H
#define PROCFLEET_COLLECTOR_STORE_SEGMENT_SEG_SCAN_H

#include "collector/store/segment/seg.h"

/* Reads the whole file and verifies every checksum. values: how many are inside; damaged: how many
 * of them, and of what is written among them for salvage, are not sound. Errors: ERR_NOMEM */
NODISCARD enum err seg_scan_verify(const struct seg *s, uint64_t *values, uint64_t *damaged);
/* What a file should be called by its header. Errors: ERR_CORRUPT (none can be read), ERR_VERSION,
 * ERR_IO, ERR_NOTFOUND, ERR_NOMEM */
NODISCARD enum err seg_scan_name(char out[SEG_NAME_MAX], const struct fio *fio, const char *dir,
                                 const char *file);
/* Makes a new file out of the sound values of one whose header, footer or directory is lost or some
 * of whose values are damaged, and puts it in its place. info: gets what the new file says; its
 * values count where the old footer is lost. kept: values; lost: values, or where the directory is
 * lost too, gaps between them. Of a value that the directory knows and that is lost an empty one is
 * left: no reader takes it for sound, so that answers stay without it and marked. Errors:
 * ERR_CORRUPT (no header can be read, it is of a file with another name, or nothing is sound),
 * ERR_VERSION, ERR_IO, ERR_NOSPACE, ERR_NOMEM: the old file is still there */
NODISCARD enum err seg_scan_salvage(const struct fio *fio, const char *dir, const char *file,
                                    struct seg_info *info, uint64_t *kept, uint64_t *lost,
                                    struct errmsg *why);

#endif
