/* Who owns the files of a program's directory. Linux: a start as root by mistake leaves files there
 * that the service's own user cannot read, and says nothing at the time. Windows: everybody may
 * make a directory where ours shall be, before us, and owns it then; what he put into it must not
 * become settings, keys or the target of a write. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_OS_OS_OWNER_H
#define PROCFLEET_COMMON_OS_OS_OWNER_H

#include <stdbool.h>

#include "common/base/err.h"

struct os_owner_foreign {
    char path[512]; /* the first that was found */
    char of[64];    /* its owner */
    char user[64];  /* owns the directory and cannot read the file */
};

/* Linux; elsewhere none are found. Looks for what the owner of `dir` cannot read among what our
 * programs keep there, and in its directories, at the first 10,000 names of each; what others put
 * beside it is theirs, and so is an authority's key that is kept from its collector. False:
 * nothing, or there is no such directory. */
bool os_owner_find_foreign(struct os_owner_foreign *out, const char *dir);

/* Whether this program may go to work in `dir`, or make it. Linux: as root not where it belongs to
 * another user, and not where something in it is not that user's. Windows: neither it nor what is
 * in it is a link, belongs to one who is not trusted (os_acl_win32.h) or can be changed by others.
 * why says what to do. Errors: ERR_ACCESS, ERR_NOMEM */
NODISCARD enum err os_owner_check(const char *dir, struct errmsg *why);

/* Windows: the same of a directory of programs, whose libraries any of them would load; Linux:
 * nothing is ever wrong. One that is not there is fine. Errors: as above, ERR_FULL, ERR_INVALID */
NODISCARD enum err os_owner_check_programs(const char *dir, struct errmsg *why);

/* Windows: the same of one file and the directory it is in; Linux: nothing is ever wrong. A file
 * that is not there is for its reader to notice. Errors: as above */
NODISCARD enum err os_owner_check_file(const char *path, struct errmsg *why);

/* Windows: whether nobody else can put another directory in the place of one above `path`: all up
 * to the top of the volume belong to trusted ones, none is a link; others may make theirs in them.
 * For what the system itself will do at its start. Linux: nothing is ever wrong. Errors: as above
 */
NODISCARD enum err os_owner_check_above(const char *path, struct errmsg *why);

/* Windows: from now on this account may own and change what is checked: whom the service shall run
 * as. That of the installed service may anyway. Threads: one, before others start. Errors:
 * ERR_NOTFOUND / */
NODISCARD enum err os_owner_also_trust(const char *account, struct errmsg *why);

/* Windows: makes `dir`, or takes one that is there: nobody but the system, administrators and
 * `account` (NULL: none) may use it or anything in it afterwards. One that belongs to others, has
 * links or things of others in it, or is no agent's directory at all, is refused and stays as it
 * is, but for its list; so is one below a directory that others could move away, and one with files
 * that others could change until now, unless somebody has looked at them (`accept`).
 * Errors: ERR_ACCESS, ERR_INVALID (the path), ERR_NOTFOUND (no such account), ERR_FULL (too many
 * files), ERR_NOMEM, ERR_IO; ERR_UNSUPPORTED (elsewhere) */
NODISCARD enum err os_owner_claim(const char *dir, const char *account, bool accept,
                                  struct errmsg *why);

#endif
