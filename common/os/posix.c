#include "common/os/posix.h"

#include <errno.h>

enum err posix_err(int errno_value)
{
    switch (errno_value) {
    case ENOENT:
    case ENOTDIR:
        return ERR_NOTFOUND;
    case EEXIST:
        return ERR_EXISTS;
    case EACCES:
    case EPERM:
        return ERR_ACCESS;
    case EROFS:
        return ERR_READONLY;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return ERR_NOSPACE;
    case ENOMEM:
        return ERR_NOMEM;
    case EWOULDBLOCK:
        return ERR_BUSY;
    case ENAMETOOLONG:
    case EINVAL:
        return ERR_INVALID;
    default:
        return ERR_IO;
    }
}
