/* The trace sessions of this system, whoever has started them: chosen by the build. */
#ifndef PROCFLEET_AGENT_CONTROL_SESSION_LIST_H
#define PROCFLEET_AGENT_CONTROL_SESSION_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

#define SESSION_LIST_NAME 256

struct session_list_row {
    char name[SESSION_LIST_NAME];
    char file[SESSION_LIST_NAME * 2]; /* it writes to; "" = none */
    char mode[64];                    /* "real time, system logger" */
    uint32_t buffers, max_buffers, buffer_kb;
    uint64_t events_lost, buffers_lost;
    bool system; /* takes one of the slots that there are few of */
    bool ours;   /* an agent's, by name */
};

/* One call of `row` for each. Errors: ERR_UNSUPPORTED (this system has none), ERR_ACCESS, ERR_IO,
 * ERR_NOMEM */
NODISCARD enum err session_list(void (*row)(void *ctx, const struct session_list_row *r), void *ctx,
                                struct errmsg *why);

#endif
