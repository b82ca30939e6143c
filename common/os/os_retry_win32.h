/* Renaming, replacing, removing and creating files that somebody else has open for a moment: virus
 * scanners, indexers and back-up programs look at each new file and do not share it. What fails
 * with access denied, a sharing or a lock violation is tried again, OS_RETRY_WIN32_MS in all; then
 * the code stands as it does after the system's own function. Only common/os/ includes this.
 * Threads: any. */
#ifndef PROCFLEET_COMMON_OS_OS_RETRY_WIN32_H
#define PROCFLEET_COMMON_OS_OS_RETRY_WIN32_H

#include <stdbool.h>

#include "common/os/win32.h"

#define OS_RETRY_WIN32_MS 293

/* As MoveFileExW. */
bool os_retry_win32_move(const WCHAR *from, const WCHAR *to, DWORD flags);

/* As DeleteFileW and RemoveDirectoryW. */
bool os_retry_win32_delete(const WCHAR *path);
bool os_retry_win32_remove_dir(const WCHAR *path);

/* As CreateFileW with these rights, sharing and attributes; a file whose removal is under way keeps
 * its name for a moment. Gives INVALID_HANDLE_VALUE after failure. */
HANDLE os_retry_win32_create(const WCHAR *path, DWORD access, DWORD share, SECURITY_ATTRIBUTES *sa,
                             DWORD how, DWORD attributes);

#endif
