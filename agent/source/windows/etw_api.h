/* Every ETW entry point of the agent, and the clock of its stamps. Filled once from System32;
 * tests hand in their own. Nothing can name another library: in a privileged service that would
 * be a way in. Threads: the table is constant once filled. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_API_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_API_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/source/etw_provider.h"
#include "common/base/err.h"
#include "common/os/win32.h"

struct etw_api {
    ULONG(WINAPI *start)(TRACEHANDLE *, const WCHAR *, EVENT_TRACE_PROPERTIES *);
    ULONG(WINAPI *control)(TRACEHANDLE, const WCHAR *, EVENT_TRACE_PROPERTIES *, ULONG);
    ULONG(WINAPI *enable)
    (TRACEHANDLE, const GUID *, ULONG, UCHAR, ULONGLONG, ULONGLONG, ULONG,
     ENABLE_TRACE_PARAMETERS *);
    ULONG(WINAPI *set_info)(TRACEHANDLE, TRACE_INFO_CLASS, void *, ULONG);
    /* May be NULL. Where tracing is refused it may end the process: see etw_ctl_trust. */
    ULONG(WINAPI *query_info)(TRACEHANDLE, TRACE_INFO_CLASS, void *, ULONG, ULONG *);
    ULONG(WINAPI *list)(EVENT_TRACE_PROPERTIES **, ULONG, ULONG *);
    TRACEHANDLE(WINAPI *open)(EVENT_TRACE_LOGFILEW *);
    ULONG(WINAPI *process)(TRACEHANDLE *, ULONG, FILETIME *, FILETIME *);
    ULONG(WINAPI *close)(TRACEHANDLE);
    /* What the provider's filter by field and value is for enable; false: it cannot be had. NULL:
     * never. Called only where a trace of ours could be opened, as query_info. */
    bool (*payload)(const struct source_provider *p, EVENT_FILTER_DESCRIPTOR *out);
    void (*payload_free)(EVENT_FILTER_DESCRIPTOR *d);
    /* One moment on both clocks, and how often the first one ticks in a second. */
    void (*clock)(int64_t *ticks, uint64_t *frequency, int64_t *utc_ns);
};

/* Errors: ERR_UNSUPPORTED (a function is missing: this is no Windows we know) */
NODISCARD enum err etw_api_load(struct etw_api *out, struct errmsg *why);

#endif
