/* Files of segments, opened when they are read; a pool bounds how many are open at once.
 * Threads: any. */
#ifndef PROCFLEET_COLLECTOR_STORE_SEGMENT_SEG_FILE_H
#define PROCFLEET_COLLECTOR_STORE_SEGMENT_SEG_FILE_H

#include "common/os/fio.h"

/* Open files, shared by the segments of a manifest. */
struct seg_pool;
NODISCARD enum err seg_file_pool_create(struct seg_pool **out, unsigned files_max);
void seg_file_pool_destroy(struct seg_pool *p); /* its segments are closed; NULL is allowed */

struct seg_file {
    const struct fio *fio;
    struct seg_pool *pool; /* NULL: stays open */
    char *path;
    struct fio_file *f; /* NULL = closed; guarded by the pool's lock, as what follows */
    unsigned users;
    struct seg_file *older, *newer; /* open and without users */
};

NODISCARD enum err seg_file_open(struct seg_file *sf, const struct fio *fio, struct seg_pool *pool,
                                 const char *dir, const char *name);
void seg_file_close(struct seg_file *sf);
/* Exactly n bytes. Errors: ERR_CORRUPT (the file is shorter), ERR_IO, … */
NODISCARD enum err seg_file_read(struct seg_file *sf, uint64_t at, void *p, size_t n);
NODISCARD enum err seg_file_size(struct seg_file *sf, uint64_t *bytes);

#endif
