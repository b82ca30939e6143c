/* What the parts of etw_ctl share: etw_ctl.c (the session itself), etw_ctl_record.c (what it
 * records) and etw_ctl_error.c (what was refused, in words). */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_CTL_IMPL_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_CTL_IMPL_H

#include "agent/source/windows/etw_api.h"
#include "agent/source/windows/etw_ctl.h"

#define ETW_CTL_NAME_UNITS 1024 /* of session and of log file, terminators included */

struct etw_ctl_block {
    EVENT_TRACE_PROPERTIES p;
    WCHAR logger[ETW_CTL_NAME_UNITS];
    WCHAR file[ETW_CTL_NAME_UNITS];
};

struct etw_ctl {
    const struct etw_api *api;
    struct etw_session_conf conf;
    WCHAR name[ETW_CTL_NAME_UNITS];
    TRACEHANDLE handle;
    uint32_t max_buffers; /* now */
    uint32_t limit;       /* of it */
    bool running;
    bool trusted;          /* a trace of ours could be opened */
    bool told_flags;       /* of this life */
    uint32_t flags_on;     /* likewise: what the kernel has taken */
    uint32_t interval_was; /* of the machine's samples, 100 ns; 0 = not ours to put back */
    struct etw_ctl_stats stats;
    struct etw_ctl_block block; /* of the call under way */
};

/* ---- etw_ctl_error.c ---- */

/* Says why and counts it; ERROR_SUCCESS gives ERR_OK. */
NODISCARD enum err etw_ctl_failed(struct etw_ctl *c, struct errmsg *why, const char *call,
                                  uint32_t code);

#endif
