/* The right to profile the system: who has been granted it still has it off. Threads: any. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_RIGHT_WIN32_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_RIGHT_WIN32_H

#include "common/base/err.h"

/* Turns SeSystemProfilePrivilege on, for this process until it ends; once more is fine. CPU samples
 * and the kernel's flags need it. Errors: ERR_ACCESS (the account has not been granted it), ERR_IO
 */
NODISCARD enum err right_win32_profile(void);

#endif
