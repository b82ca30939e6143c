/* Access lists of files: what "private" means on Windows, where files have no mode. For
 * common/os/os_win32.c and tests. Threads: any. */
#ifndef PROCFLEET_COMMON_OS_OS_ACL_WIN32_H
#define PROCFLEET_COMMON_OS_OS_ACL_WIN32_H

#include <stdbool.h>

#include "common/base/err.h"
#include "common/os/win32.h"

/* Whose hands are trusted: the system, administrators, the installer of Windows, the agent's
 * service and `user`, whom we run as. One who owns a thing can change its list, so an owner is
 * trusted or the thing is not. NULL is nobody. */
bool os_acl_is_trusted(PSID sid, PSID user);

/* From now on this account is trusted, too: whom the service shall run as. Threads: one, before
 * others start. Errors: ERR_NOTFOUND */
NODISCARD enum err os_acl_also_trust(const WCHAR *account);

/* What an account that is not trusted must not be able to do. */
enum os_acl_use {
    OS_ACL_SEE,    /* read or change: a key */
    OS_ACL_CHANGE, /* change, replace or remove: a configuration, a program, a directory */
    OS_ACL_MOVE,   /* put another in the place of what is in this directory, or of itself, */
    OS_ACL_TOP,    /* and of the top of a volume, which can only have another list */
};

/* Whether the owner is trusted and the list lets nobody else do this. Without a list everybody may.
 * Errors: ERR_ACCESS (the owner is not, others may), ERR_INVALID (no such descriptor) */
NODISCARD enum err os_acl_judge(void *descriptor, void *user, enum os_acl_use use);

/* A file or directory as it stands there; a link is not followed. */
struct os_acl_object {
    HANDLE handle;
    DWORD attributes;
    bool is_link; /* a junction, a symbolic link or another reparse point; or a file of two names */
    void *security; /* descriptor: owner and list */
    PSID owner;     /* in it */
};

/* rights: those beyond reading its descriptor. What others hold open is opened, too.
 * Errors: ERR_NOTFOUND, ERR_ACCESS, ERR_NOMEM, ERR_IO */
NODISCARD enum err os_acl_open(struct os_acl_object *out, const WCHAR *path, DWORD rights);
void os_acl_close(struct os_acl_object *o);

/* Of a key. Errors: those of os_acl_judge, os_acl_open; ERR_ACCESS: it is a link, too */
NODISCARD enum err os_acl_check(const WCHAR *path);

/* What a file or directory is made with so that it is private, whatever its parent allows. Of who
 * is an administrator it becomes the administrators': a service that is the system takes a file of
 * one person for a stranger's. */
struct os_acl {
    SECURITY_ATTRIBUTES attributes; /* for CreateFileW, CreateDirectoryW */
    SECURITY_DESCRIPTOR descriptor;
    BYTE list[512], owner[SECURITY_MAX_SID_SIZE], administrators[SECURITY_MAX_SID_SIZE];
};

/* Fills storage that must not move afterwards. `more`: an account that may change it as well, or
 * NULL. Errors: ERR_IO */
NODISCARD enum err os_acl_private(struct os_acl *out, PSID more);

/* Whom we run as. Errors: ERR_IO */
NODISCARD enum err os_acl_user(BYTE sid[SECURITY_MAX_SID_SIZE]);

/* To whom what we make belongs: to the administrators when we are one, else to whom we run as.
 * Errors: ERR_IO */
NODISCARD enum err os_acl_owner(BYTE sid[SECURITY_MAX_SID_SIZE]);

/* "LocalSystem", and "NT SERVICE\\procfleet-agent" also where the system cannot look it up, since
 * the service is not there yet; else as the system knows the name. Errors: ERR_NOTFOUND */
NODISCARD enum err os_acl_account(BYTE sid[SECURITY_MAX_SID_SIZE], const WCHAR *name);

#endif
