/* The real file layer: one descriptor a file, positioned reads and writes, fdatasync (which also
 * makes a grown size durable). Files are created 0600: telemetry is private. */
#include "common/os/fio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/os/os_posix.h"

struct fio_file {
    int fd;
};

static enum err open_with(struct fio_file **out, const char *path, int flags)
{
    struct fio_file *f = mem_zalloc(sizeof *f);
    enum err e;

    if (!f) {
        return ERR_NOMEM;
    }
    f->fd = open(path, flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (f->fd < 0) {
        e = os_posix_err(errno);
        mem_free(f);
        return e;
    }
    *out = f;
    return ERR_OK;
}

static enum err real_create(void *ctx, struct fio_file **out, const char *path)
{
    (void)ctx;
    return open_with(out, path, O_CREAT | O_EXCL);
}

static enum err real_open(void *ctx, struct fio_file **out, const char *path)
{
    (void)ctx;
    return open_with(out, path, 0);
}

static enum err real_size(void *ctx, struct fio_file *f, uint64_t *bytes)
{
    struct stat st;

    (void)ctx;
    if (fstat(f->fd, &st) != 0) {
        return os_posix_err(errno);
    }
    *bytes = (uint64_t)st.st_size;
    return ERR_OK;
}

static enum err real_read(void *ctx, struct fio_file *f, uint64_t offset, void *p, size_t n,
                          size_t *got)
{
    uint8_t *to = p;
    size_t have = 0;

    (void)ctx;
    while (have < n) {
        ssize_t k = pread(f->fd, to + have, n - have, (off_t)(offset + have));

        if (k < 0 && errno != EINTR) {
            return os_posix_err(errno);
        }
        if (k == 0) {
            break;
        }
        if (k > 0) {
            have += (size_t)k;
        }
    }
    *got = have;
    return ERR_OK;
}

static enum err real_write(void *ctx, struct fio_file *f, uint64_t offset, const void *p, size_t n)
{
    const uint8_t *from = p;
    size_t done = 0;

    (void)ctx;
    while (done < n) {
        ssize_t k = pwrite(f->fd, from + done, n - done, (off_t)(offset + done));

        if (k < 0 && errno != EINTR) {
            return os_posix_err(errno);
        }
        if (k > 0) {
            done += (size_t)k;
        }
    }
    return ERR_OK;
}

static enum err real_sync(void *ctx, struct fio_file *f)
{
    (void)ctx;
    return fdatasync(f->fd) == 0 ? ERR_OK : os_posix_err(errno);
}

static enum err real_truncate(void *ctx, struct fio_file *f, uint64_t bytes)
{
    (void)ctx;
    return ftruncate(f->fd, (off_t)bytes) == 0 ? ERR_OK : os_posix_err(errno);
}

static void real_close(void *ctx, struct fio_file *f)
{
    (void)ctx;
    if (f) {
        close(f->fd);
        mem_free(f);
    }
}

static enum err real_rename(void *ctx, const char *from, const char *to)
{
    (void)ctx;
    return rename(from, to) == 0 ? ERR_OK : os_posix_err(errno);
}

static enum err real_remove(void *ctx, const char *path)
{
    (void)ctx;
    return unlink(path) == 0 ? ERR_OK : os_posix_err(errno);
}

static enum err real_sync_dir(void *ctx, const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum err e;

    (void)ctx;
    if (fd < 0) {
        return os_posix_err(errno);
    }
    e = fsync(fd) == 0 ? ERR_OK : os_posix_err(errno);
    close(fd);
    return e;
}

const struct fio *fio_os(void)
{
    static const struct fio real = {
        .create = real_create,
        .open = real_open,
        .size = real_size,
        .read = real_read,
        .write = real_write,
        .sync = real_sync,
        .truncate = real_truncate,
        .close = real_close,
        .rename = real_rename,
        .remove = real_remove,
        .sync_dir = real_sync_dir,
    };

    return &real;
}
