/* The file layer that durable code writes through. The real one calls the operating system; a
 * faulty one (tests/support/fio_fault.h) makes writes short, fail, or forget everything not yet
 * synced. Threads: one owner per file, but `read` of one file may be called from many at once; the
 * layer itself may be used from many. */
#ifndef PROCFLEET_COMMON_OS_FIO_H
#define PROCFLEET_COMMON_OS_FIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
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

/* Writes a small file as a whole: makes `path` anew with these bytes, synced; what stood there goes
 * first. For the new file of a replacement: renaming it and syncing the directory are the caller's.
 * Errors: those of the layer; the file may be there in part then. */
NODISCARD enum err fio_write_whole(const struct fio *fio, const char *path, const void *p,
                                   size_t n);

/* Appends what is in the file, in pieces of a MiB. Errors: ERR_CORRUPT (more than the buffer takes,
 * or the file became shorter), ERR_NOMEM, those of the layer */
NODISCARD enum err fio_read_whole(const struct fio *fio, const char *path, struct buf *b);

/* -- names of numbered files, "wal-00000000000000a3.log": prefix, 16 hex digits, suffix. They sort
 * as their numbers do -- */

/* The file's path in `dir`; mem_free. NULL: no memory. */
char *fio_name_path(const char *dir, const char *prefix, uint64_t number, const char *suffix);

/* False: not such a name; *number is left alone then. */
bool fio_name_parse(uint64_t *number, const char *name, const char *prefix, const char *suffix);

#endif
