/* What the Windows halves of common/os/os.h and common/os/fio.h share; only they include this. */
#ifndef PROCFLEET_COMMON_OS_OS_IMPL_WIN32_H
#define PROCFLEET_COMMON_OS_OS_IMPL_WIN32_H

#include <stdbool.h>

#include "common/base/err.h"
#include "common/os/win32.h"

#define OS_WIN32_PATH_UNITS 4096

/* GetLastError, as ours. */
NODISCARD enum err os_win32_last_error(void);

/* UTF-8 to UTF-16; false when it does not fit or is not UTF-8. */
bool os_win32_wide(WCHAR *out, int units, const char *utf8);

#endif
