#include "common/os/fio_whole.h"

enum err fio_write_whole(const struct fio *fio, const char *path, const void *p, size_t n)
{
    struct fio_file *f;
    enum err e = fio->remove(fio->ctx, path); /* of an attempt that failed */

    if (e && e != ERR_NOTFOUND) {
        return e;
    }
    e = fio->create(fio->ctx, &f, path);
    if (e) {
        return e;
    }
    e = fio->write(fio->ctx, f, 0, p, n);
    if (!e) {
        e = fio->sync(fio->ctx, f);
    }
    fio->close(fio->ctx, f);
    return e;
}
