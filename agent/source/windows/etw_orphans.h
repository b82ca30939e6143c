/* Sessions of ours that nobody owns any more: an agent that was killed leaves them, and they go on
 * collecting into buffers of the kernel. Ours are those whose name and identifier are both as
 * configured; a foreign session is never touched. Threads: one. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_ORPHANS_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_ORPHANS_H

#include "agent/source/windows/etw_live_conf.h"

struct etw_orphans {
    unsigned found, stopped;
};

/* Looks for the sessions of conf among those of the system and stops them if asked to; the caller
 * owns them (etw_owner.h). Errors: those of the system's list, of etw_ctl_reclaim, ERR_NOMEM */
NODISCARD enum err etw_orphans_look(struct etw_orphans *out, const struct etw_api *api,
                                    const struct etw_live_conf *conf, bool stop,
                                    struct errmsg *why);

#endif
