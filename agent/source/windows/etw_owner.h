/* One program at a time owns the sessions of their fixed names: the next one would take those of a
 * living one for orphans and stop them. The system gives them free when the owner ends, however it
 * does. Threads: any. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_OWNER_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_OWNER_H

#include "common/base/err.h"

struct etw_owner;

/* Errors: ERR_BUSY (another one is the owner), ERR_ACCESS, ERR_NOMEM */
NODISCARD enum err etw_owner_take(struct etw_owner **out, struct errmsg *why);
void etw_owner_give(struct etw_owner *o); /* NULL is allowed */

#endif
