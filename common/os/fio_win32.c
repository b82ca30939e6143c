/* The real file layer on Windows: one handle a file, positioned reads and writes, FlushFileBuffers.
 * What is created is private, as telemetry is. Handles are
 * shared, as on other systems: a file can be opened twice, and renamed or removed while it is open.
 *
 * NTFS journals names: a directory cannot be flushed and need not be. */
#include "common/os/fio.h"

#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/os_acl_win32.h"
#include "common/os/os_impl_win32.h"
#include "common/os/os_retry_win32.h"
#include "common/os/win32.h"

#define PIECE_MAX (1u << 30) /* of one call */

struct fio_file {
    HANDLE handle;
};

static enum err open_with(struct fio_file **out, const char *path, DWORD how)
{
    WCHAR w[OS_WIN32_PATH_UNITS];
    struct os_acl acl;
    struct fio_file *f;
    enum err e = os_acl_private(&acl, NULL);

    if (e) {
        return e;
    }
    if (!os_win32_wide(w, OS_WIN32_PATH_UNITS, path)) {
        return ERR_INVALID;
    }
    f = mem_zalloc(sizeof *f);
    if (!f) {
        return ERR_NOMEM;
    }
    f->handle = os_retry_win32_create(
        w, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
        &acl.attributes, how, FILE_ATTRIBUTE_NORMAL | FILE_FLAG_OPEN_REPARSE_POINT);
    if (f->handle == INVALID_HANDLE_VALUE) {
        e = os_win32_last_error();
        mem_free(f);
        return e;
    }
    *out = f;
    return ERR_OK;
}

static enum err real_create(void *ctx, struct fio_file **out, const char *path)
{
    (void)ctx;
    return open_with(out, path, CREATE_NEW);
}

static enum err real_open(void *ctx, struct fio_file **out, const char *path)
{
    (void)ctx;
    return open_with(out, path, OPEN_EXISTING);
}

static enum err real_size(void *ctx, struct fio_file *f, uint64_t *bytes)
{
    LARGE_INTEGER size;

    (void)ctx;
    if (!GetFileSizeEx(f->handle, &size)) {
        return os_win32_last_error();
    }
    *bytes = (uint64_t)size.QuadPart;
    return ERR_OK;
}

static OVERLAPPED place_of(uint64_t offset)
{
    OVERLAPPED at = {0};

    at.Offset = (DWORD)offset;
    at.OffsetHigh = (DWORD)(offset >> 32);
    return at;
}

static enum err real_read(void *ctx, struct fio_file *f, uint64_t offset, void *p, size_t n,
                          size_t *got)
{
    uint8_t *to = p;
    size_t have = 0;

    (void)ctx;
    while (have < n) {
        OVERLAPPED at = place_of(offset + have);
        DWORD want = n - have < PIECE_MAX ? (DWORD)(n - have) : PIECE_MAX;
        DWORD k = 0;

        if (!ReadFile(f->handle, to + have, want, &k, &at) && GetLastError() != ERROR_HANDLE_EOF) {
            return os_win32_last_error();
        }
        if (k == 0) {
            break;
        }
        have += k;
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
        OVERLAPPED at = place_of(offset + done);
        DWORD want = n - done < PIECE_MAX ? (DWORD)(n - done) : PIECE_MAX;
        DWORD k = 0;

        if (!WriteFile(f->handle, from + done, want, &k, &at)) {
            return os_win32_last_error();
        }
        if (k == 0) {
            return ERR_IO;
        }
        done += k;
    }
    return ERR_OK;
}

static enum err real_sync(void *ctx, struct fio_file *f)
{
    (void)ctx;
    return FlushFileBuffers(f->handle) ? ERR_OK : os_win32_last_error();
}

static enum err real_truncate(void *ctx, struct fio_file *f, uint64_t bytes)
{
    LARGE_INTEGER end;

    (void)ctx;
    end.QuadPart = (LONGLONG)bytes;
    return SetFilePointerEx(f->handle, end, NULL, FILE_BEGIN) && SetEndOfFile(f->handle)
               ? ERR_OK
               : os_win32_last_error();
}

static void real_close(void *ctx, struct fio_file *f)
{
    (void)ctx;
    if (f) {
        CloseHandle(f->handle);
        mem_free(f);
    }
}

static enum err real_rename(void *ctx, const char *from, const char *to)
{
    WCHAR wide_from[OS_WIN32_PATH_UNITS], wide_to[OS_WIN32_PATH_UNITS];

    (void)ctx;
    if (!os_win32_wide(wide_from, OS_WIN32_PATH_UNITS, from) ||
        !os_win32_wide(wide_to, OS_WIN32_PATH_UNITS, to)) {
        return ERR_INVALID;
    }
    return os_retry_win32_move(wide_from, wide_to,
                               MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)
               ? ERR_OK
               : os_win32_last_error();
}

static enum err real_remove(void *ctx, const char *path)
{
    (void)ctx;
    return os_remove(path);
}

static enum err real_sync_dir(void *ctx, const char *dir)
{
    (void)ctx;
    return os_exists(dir) ? ERR_OK : ERR_NOTFOUND;
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
