/* A small file written as a whole through a file layer. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_OS_FIO_WHOLE_H
#define PROCFLEET_COMMON_OS_FIO_WHOLE_H

#include "common/os/fio.h"

/* Makes `path` anew with these bytes, synced; what stood there goes first. For the new file of a
 * replacement: renaming it and syncing the directory are the caller's. Errors: those of the layer;
 * the file may be there in part then. */
NODISCARD enum err fio_write_whole(const struct fio *fio, const char *path, const void *p,
                                   size_t n);

#endif
