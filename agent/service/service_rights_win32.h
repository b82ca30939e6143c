/* What the service's account needs beyond being one: the right to profile the system, without which
 * the kernel's records are refused to all but administrators. For service_win32.c only. */
#ifndef PROCFLEET_AGENT_SERVICE_SERVICE_RIGHTS_WIN32_H
#define PROCFLEET_AGENT_SERVICE_SERVICE_RIGHTS_WIN32_H

#include "common/base/err.h"
#include "common/os/win32.h"

/* Errors: ERR_NOTFOUND (no such account), ERR_ACCESS (we are no administrator), ERR_UNSUPPORTED */
NODISCARD enum err service_rights_grant(const WCHAR *account);

/* Takes it away again from an account that exists for the service alone ("NT SERVICE\…"); others
 * may have had it before. */
void service_rights_revoke(const WCHAR *account);

#endif
