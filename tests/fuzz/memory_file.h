/* A file that is bytes in memory, for decoders that read through a file layer: give the layer
 * memory_file_read. A target that includes this has no other struct fio_file. */
#ifndef PROCFLEET_TESTS_FUZZ_MEMORY_FILE_H
#define PROCFLEET_TESTS_FUZZ_MEMORY_FILE_H

#include <string.h>

#include "common/os/fio.h"

struct fio_file {
    const uint8_t *p;
    size_t n;
};

static inline enum err memory_file_read(void *ctx, struct fio_file *f, uint64_t offset, void *p,
                                        size_t n, size_t *got)
{
    size_t left = offset < f->n ? f->n - (size_t)offset : 0;

    (void)ctx;
    n = n < left ? n : left;
    if (n > 0) {
        memcpy(p, f->p + offset, n);
    }
    *got = n;
    return ERR_OK;
}

#endif
