/* The file layer that durable code writes through. The real one calls the operating system; a
 * faulty one (tests/support/fio_fault.h) makes writes short, fail, or forget everything not yet
 * synced. Threads: one owner per file, but `read` of one file may be called from many at once; the
 * layer itself may be used from many. */
#ifndef PROCFLEET_COMMON_OS_FIO_H
#define PROCFLEET_COMMON_OS_FIO_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

struct fio_file; /* of whichever layer opened it */

struct fio {
    void *ctx;
    /* Creates (must not exist) or opens for appending and reading. */
    enum err (*create)(void *ctx, struct fio_file **out, const char *path);
    enum err (*open)(void *ctx, struct fio_file **out, const char *path);
    enum err (*size)(void *ctx, struct fio_file *f, uint64_t *bytes);
    enum err (*read)(void *ctx, struct fio_file *f, uint64_t offset, void *p, size_t n,
                     size_t *got); /* got < n at the end */
    enum err (*write)(void *ctx, struct fio_file *f, uint64_t offset, const void *p,
                      size_t n);                     /* all or an error; may be torn then */
    enum err (*sync)(void *ctx, struct fio_file *f); /* data and size durable */
    enum err (*truncate)(void *ctx, struct fio_file *f, uint64_t bytes);
    void (*close)(void *ctx, struct fio_file *f);
    enum err (*rename)(void *ctx, const char *from, const char *to);
    enum err (*remove)(void *ctx, const char *path);
    enum err (*sync_dir)(void *ctx, const char *dir); /* names durable */
};

/* The operating system's files. */
const struct fio *fio_os(void);

#endif
