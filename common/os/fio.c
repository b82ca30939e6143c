#include "common/os/fio.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/os/os.h"

#define DIGITS     16u
#define READ_BYTES ((size_t)1 << 20)

char *fio_name_path(const char *dir, const char *prefix, uint64_t number, const char *suffix)
{
    char name[64];

    (void)snprintf(name, sizeof name, "%s%016" PRIx64 "%s", prefix, number, suffix);
    return os_path_join(dir, name);
}

bool fio_name_parse(uint64_t *number, const char *name, const char *prefix, const char *suffix)
{
    static const char digits[] = "0123456789abcdef";
    size_t n = strlen(prefix);
    uint64_t v = 0;

    if (strlen(name) != n + DIGITS + strlen(suffix) || memcmp(name, prefix, n) != 0 ||
        strcmp(name + n + DIGITS, suffix) != 0) {
        return false;
    }
    for (size_t i = n; i < n + DIGITS; i++) {
        const char *d = strchr(digits, name[i]);

        if (!d) {
            return false;
        }
        v = v << 4 | (uint64_t)(d - digits);
    }
    *number = v;
    return true;
}

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

enum err fio_read_whole(const struct fio *fio, const char *path, struct buf *b)
{
    uint64_t bytes = 0;
    struct fio_file *f;
    enum err e = fio->open(fio->ctx, &f, path);

    if (e) {
        return e;
    }
    e = fio->size(fio->ctx, f, &bytes);
    if (!e && bytes > b->max - b->n) {
        e = ERR_CORRUPT;
    }
    for (uint64_t at = 0; !e && at < bytes;) {
        size_t want = bytes - at < READ_BYTES ? (size_t)(bytes - at) : READ_BYTES, got = 0;
        uint8_t *p = buf_grow(b, want);

        e = p ? fio->read(fio->ctx, f, at, p, want, &got) : b->bad;
        e = !e && got < want ? ERR_CORRUPT : e;
        at += want;
    }
    fio->close(fio->ctx, f);
    return e;
}
