#include "agent/source/windows/etw_api.h"

#include <stdbool.h>
#include <string.h>

#include "common/os/os.h"

/* Newer systems have the functions in sechost, older ones in advapi32, which forwards to it. */
static const WCHAR *const libraries[] = {L"sechost.dll", L"advapi32.dll"};

#define LIBRARIES (sizeof libraries / sizeof libraries[0])

static void system_clock(int64_t *ticks, uint64_t *frequency, int64_t *utc_ns)
{
    LARGE_INTEGER now, per_second;

    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&per_second);
    *utc_ns = os_utc_ns();
    *ticks = now.QuadPart;
    *frequency = (uint64_t)per_second.QuadPart;
}

static FARPROC find(const HMODULE *modules, const char *name)
{
    for (size_t i = 0; i < LIBRARIES; i++) {
        FARPROC p = modules[i] ? GetProcAddress(modules[i], name) : NULL;

        if (p) {
            return p;
        }
    }
    return NULL;
}

enum err etw_api_load(struct etw_api *out, struct errmsg *why)
{
    struct etw_api api = {.clock = system_clock};
    const struct {
        const char *name;
        void *slot;
        bool optional;
    } rows[] = {
        {"StartTraceW", &api.start, false},
        {"ControlTraceW", &api.control, false},
        {"EnableTraceEx2", &api.enable, false},
        {"TraceSetInformation", &api.set_info, false},
        {"QueryAllTracesW", &api.list, false},
        {"OpenTraceW", &api.open, false},
        {"ProcessTrace", &api.process, false},
        {"CloseTrace", &api.close, false},
        {"TraceQueryInformation", &api.query_info, true},
    };
    HMODULE modules[LIBRARIES]; /* stay loaded: the table outlives every caller */

    for (size_t i = 0; i < LIBRARIES; i++) {
        modules[i] = LoadLibraryExW(libraries[i], NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        FARPROC p = find(modules, rows[i].name);

        if (!p && !rows[i].optional) {
            return errmsg_set(why, ERR_UNSUPPORTED,
                              "%s is missing from the system's sechost.dll and advapi32.dll; "
                              "Windows 8.1 or newer is needed for events",
                              rows[i].name);
        }
        memcpy(rows[i].slot, &p, sizeof p);
    }
    *out = api;
    return ERR_OK;
}
