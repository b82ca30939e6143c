#include "common/os/os_retry_win32.h"

#include <stddef.h>

/* What is to be done, tried again with the same arguments. */
struct os_retry {
    bool (*once)(struct os_retry *r);
    const WCHAR *path, *to;
    DWORD flags, access, share, how;
    SECURITY_ATTRIBUTES *sa;
    HANDLE file;
};

static bool os_retry_worth(DWORD code)
{
    return code == ERROR_ACCESS_DENIED || code == ERROR_SHARING_VIOLATION ||
           code == ERROR_LOCK_VIOLATION;
}

/* A directory, or a file that may not be written, stays what it is: access is denied for good. */
static bool os_retry_for_good(const WCHAR *path)
{
    DWORD a = path ? GetFileAttributesW(path) : INVALID_FILE_ATTRIBUTES;

    return a != INVALID_FILE_ATTRIBUTES &&
           (a & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_READONLY));
}

static bool os_retry_until(struct os_retry *r)
{
    static const DWORD pauses_ms[] = {1, 2, 5, 10, 25, 50, 100, 100};
    bool done = r->once(r);

    for (size_t i = 0; !done && i < sizeof pauses_ms / sizeof *pauses_ms; i++) {
        DWORD code = GetLastError();

        if (!os_retry_worth(code) || (code == ERROR_ACCESS_DENIED &&
                                      (os_retry_for_good(r->path) || os_retry_for_good(r->to)))) {
            SetLastError(code);
            break;
        }
        Sleep(pauses_ms[i]);
        done = r->once(r);
    }
    return done;
}

static bool os_retry_move_once(struct os_retry *r)
{
    return MoveFileExW(r->path, r->to, r->flags);
}

static bool os_retry_delete_once(struct os_retry *r)
{
    return DeleteFileW(r->path);
}

static bool os_retry_remove_dir_once(struct os_retry *r)
{
    return RemoveDirectoryW(r->path);
}

static bool os_retry_create_once(struct os_retry *r)
{
    r->file = CreateFileW(r->path, r->access, r->share, r->sa, r->how, r->flags, NULL);
    return r->file != INVALID_HANDLE_VALUE;
}

bool os_retry_win32_move(const WCHAR *from, const WCHAR *to, DWORD flags)
{
    struct os_retry r = {.once = os_retry_move_once, .path = from, .to = to, .flags = flags};

    return os_retry_until(&r);
}

bool os_retry_win32_delete(const WCHAR *path)
{
    struct os_retry r = {.once = os_retry_delete_once, .path = path};

    return os_retry_until(&r);
}

bool os_retry_win32_remove_dir(const WCHAR *path)
{
    struct os_retry r = {.once = os_retry_remove_dir_once, .path = path};

    return os_retry_until(&r);
}

HANDLE os_retry_win32_create(const WCHAR *path, DWORD access, DWORD share, SECURITY_ATTRIBUTES *sa,
                             DWORD how, DWORD attributes)
{
    struct os_retry r = {.once = os_retry_create_once,
                         .path = path,
                         .access = access,
                         .share = share,
                         .sa = sa,
                         .how = how,
                         .flags = attributes,
                         .file = INVALID_HANDLE_VALUE};

    (void)os_retry_until(&r);
    return r.file;
}
