/* Access lists of files: what "private" means on Windows, where files have no mode. For
 * common/os/os_win32.c and tests. Threads: any. */
#ifndef PROCFLEET_COMMON_OS_OS_ACL_WIN32_H
#define PROCFLEET_COMMON_OS_OS_ACL_WIN32_H

#include "common/base/err.h"
#include "common/os/win32.h"

/* Private: only these may read or change it: its owner, `user` (whom we run as), the system,
 * administrators and accounts of services. Without a list every account may.
 * Errors: ERR_ACCESS (others may), ERR_INVALID (no such descriptor) */
NODISCARD enum err os_acl_judge(void *descriptor, void *user);

/* Errors: those of os_acl_judge; ERR_NOTFOUND, ERR_ACCESS (we may not even ask), ERR_NOMEM, ERR_IO
 */
NODISCARD enum err os_acl_check(const WCHAR *path);

/* What a file or directory is made with so that it is private, whatever its parent allows. */
struct os_acl {
    SECURITY_ATTRIBUTES attributes; /* for CreateFileW, CreateDirectoryW */
    SECURITY_DESCRIPTOR descriptor;
    BYTE list[512], user[SECURITY_MAX_SID_SIZE];
};

/* Fills storage that must not move afterwards. Errors: ERR_IO */
NODISCARD enum err os_acl_private(struct os_acl *out);

#endif
