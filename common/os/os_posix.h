/* Where errno enters: the operating system's numbers become ours. For *_posix.c and *_linux.c
 * files only. */
#ifndef PROCFLEET_COMMON_OS_OS_POSIX_H
#define PROCFLEET_COMMON_OS_OS_POSIX_H

#include "common/base/err.h"

/* What an errno value means to us; ERR_IO for everything without a meaning of its own. */
NODISCARD enum err os_posix_err(int errno_value);

#endif
