/* Who owns the files of a program's directory. A start as root by mistake leaves files there that
 * the service's own user cannot read, and says nothing at the time. Linux; elsewhere nothing is
 * ever wrong. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_OS_OS_OWNER_H
#define PROCFLEET_COMMON_OS_OS_OWNER_H

#include <stdbool.h>

#include "common/base/err.h"

struct os_owner_foreign {
    char path[512]; /* the first that was found */
    char of[64];    /* its owner */
    char user[64];  /* owns the directory and cannot read the file */
};

/* Looks for what the owner of `dir` cannot read among what our programs keep there, and in its
 * directories, at the first 10,000 names of each; what others put beside it is theirs, and so is an
 * authority's key that is kept from its collector. False: nothing, or there is no such directory.
 */
bool os_owner_find_foreign(struct os_owner_foreign *out, const char *dir);

/* Whether this program may go to work in `dir`, or make it: as root not where it belongs to
 * another user, and not where something in it is not that user's. why says what to do.
 * Errors: ERR_ACCESS */
NODISCARD enum err os_owner_check(const char *dir, struct errmsg *why);

#endif
