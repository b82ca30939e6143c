/* What the service's account needs beyond being one, unless it is LocalSystem: the right to profile
 * the system, the group Performance Log Users, and a place in the access lists of event tracing.
 * Threads: one. */
#ifndef PROCFLEET_AGENT_SERVICE_SERVICE_ACCOUNT_WIN32_H
#define PROCFLEET_AGENT_SERVICE_SERVICE_ACCOUNT_WIN32_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/os/win32.h"

/* -- access lists of event tracing -- */

/* The system's functions; tests hand in their own. */
struct service_account_api {
    ULONG(WINAPI *control)(GUID *, ULONG, PSID, ULONG, BOOLEAN);
    ULONG(WINAPI *query)(GUID *, void *, ULONG *);
    ULONG(WINAPI *remove)(GUID *);
};

/* Adds the account to the kernel's provider and to n sessions. Errors: ERR_ACCESS, ERR_IO */
NODISCARD enum err service_account_access_grant(const struct service_account_api *api, PSID account,
                                                const uint8_t (*sessions)[16], size_t n);

/* Takes it out again. The provider's list stays otherwise as it is, since it is Windows' own; those
 * of sessions, which are ours alone, go. Errors: ERR_ACCESS, ERR_NOMEM, ERR_IO; why says what is
 * missing in the provider's list, if anything is */
NODISCARD enum err service_account_access_revoke(const struct service_account_api *api,
                                                 PSID account, const uint8_t (*sessions)[16],
                                                 size_t n, struct errmsg *why);

/* -- all of it -- */

/* What of it is refused is said in notes. `sessions`: GUIDs of the trace sessions. Returns whether
 * the account has the right to profile the system. */
bool service_account_grant(const WCHAR *account, const uint8_t (*sessions)[16], size_t n,
                           struct buf *notes);

/* Takes it away again from an account that exists for the service alone ("NT SERVICE\…"); others
 * may have had it before. What of the provider's access list was not possible is said in why. */
void service_account_revoke(const WCHAR *account, const uint8_t (*sessions)[16], size_t n,
                            struct errmsg *why);

#endif
