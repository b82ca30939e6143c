#include "common/os/owner.h"

bool owner_find_foreign(struct owner_foreign *out, const char *dir)
{
    (void)out;
    (void)dir;
    return false; /* what is made there inherits the directory's access list */
}

enum err owner_check(const char *dir, struct errmsg *why)
{
    (void)dir;
    (void)why;
    return ERR_OK;
}
