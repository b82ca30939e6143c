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

/* A provider that a session has turned on. */
struct session_provider_row {
    uint8_t guid[16];
    char session[SESSION_LIST_NAME]; /* "" = one that no list has */
    uint8_t level;
    uint64_t any, all;  /* keywords */
    uint32_t processes; /* that have registered it; 0: it was turned on before any did */
    uint64_t events_lost, buffers_lost; /* of the session, whoever's they were */
    bool ours;
};

/* One call of `row` for each provider and session. Errors: as session_list */
NODISCARD enum err session_list_providers(void (*row)(void *ctx,
                                                      const struct session_provider_row *r),
                                          void *ctx, struct errmsg *why);

/* One call of `row` for each. Errors: ERR_UNSUPPORTED (this system has none), ERR_ACCESS, ERR_IO,
 * ERR_NOMEM */
NODISCARD enum err session_list(void (*row)(void *ctx, const struct session_list_row *r), void *ctx,
                                struct errmsg *why);

#endif
