#include "agent/control/session_list.h"

#include <stddef.h>

enum err session_list(void (*row)(void *ctx, const struct session_list_row *r), void *ctx,
                      struct errmsg *why)
{
    (void)row;
    (void)ctx;
    return errmsg_set(why, ERR_UNSUPPORTED,
                      "this system has no trace sessions: an agent on Linux reads /proc, taskstats "
                      "and the process connector; 'procfleet-agent session flags' says what the "
                      "one here does");
}

enum err session_list_providers(void (*row)(void *ctx, const struct session_provider_row *r),
                                void *ctx, struct errmsg *why)
{
    (void)row;
    return session_list(NULL, ctx, why);
}
