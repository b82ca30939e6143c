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

/* ---- filters by what is in an event: tdh knows the layouts of registered providers ---- */

#define PAYLOAD_EQ   0  /* numbers */
#define PAYLOAD_IS   30 /* texts */
#define VERSIONS     4  /* of one event: nobody says which the provider writes */
#define PAYLOADS_MAX 64
#define FIELD_UNITS  SOURCE_PROVIDER_FIELD

struct etw_api_predicate { /* PAYLOAD_FILTER_PREDICATE */
    WCHAR *field;
    USHORT compare;
    WCHAR *value;
};

static struct {
    ULONG(WINAPI *create)
    (const GUID *, const EVENT_DESCRIPTOR *, BOOLEAN, ULONG, struct etw_api_predicate *, void **);
    ULONG(WINAPI *join)(ULONG, void **, const BOOLEAN *, EVENT_FILTER_DESCRIPTOR *);
    ULONG(WINAPI *drop)(void **);
    ULONG(WINAPI *drop_joined)(EVENT_FILTER_DESCRIPTOR *);
} tdh;

static bool tdh_load(void)
{
    static const char *const names[] = {"TdhCreatePayloadFilter", "TdhAggregatePayloadFilters",
                                        "TdhDeletePayloadFilter",
                                        "TdhCleanupPayloadEventFilterDescriptor"};
    void *slots[] = {&tdh.create, &tdh.join, &tdh.drop, &tdh.drop_joined};
    HMODULE module =
        tdh.create ? NULL : LoadLibraryExW(L"tdh.dll", NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
    bool all = true;

    for (size_t i = 0; module && i < sizeof slots / sizeof *slots; i++) {
        FARPROC p = GetProcAddress(module, names[i]);

        memcpy(slots[i], &p, sizeof p);
        all = all && p;
    }
    return tdh.create && all;
}

/* What registered versions of these events have the field. */
static ULONG payload_each(const struct source_provider *p, struct etw_api_predicate *is,
                          void *made[PAYLOADS_MAX])
{
    GUID guid;
    ULONG n = 0;

    memcpy(&guid, p->guid, sizeof guid);
    for (size_t i = 0; i < p->n_ids * VERSIONS && n < PAYLOADS_MAX; i++) {
        EVENT_DESCRIPTOR event = {.Id = p->ids[i / VERSIONS], .Version = (UCHAR)(i % VERSIONS)};

        n += tdh.create(&guid, &event, FALSE, 1, is, &made[n]) == ERROR_SUCCESS;
    }
    return n;
}

static bool system_payload(const struct source_provider *p, EVENT_FILTER_DESCRIPTOR *out)
{
    WCHAR field[FIELD_UNITS], value[FIELD_UNITS];
    bool number = p->value[strspn(p->value, "0123456789")] == '\0';
    struct etw_api_predicate is = {field, number ? PAYLOAD_EQ : PAYLOAD_IS, value};
    void *made[PAYLOADS_MAX];
    BOOLEAN all[PAYLOADS_MAX] = {FALSE};
    bool joined;
    ULONG n;

    if (!tdh_load() || !MultiByteToWideChar(CP_UTF8, 0, p->field, -1, field, FIELD_UNITS) ||
        !MultiByteToWideChar(CP_UTF8, 0, p->value, -1, value, FIELD_UNITS)) {
        return false;
    }
    n = payload_each(p, &is, made);
    joined = n > 0 && tdh.join(n, made, all, out) == ERROR_SUCCESS;
    while (n > 0) {
        (void)tdh.drop(&made[--n]);
    }
    return joined;
}

static void system_payload_free(EVENT_FILTER_DESCRIPTOR *d)
{
    (void)tdh.drop_joined(d);
}

enum err etw_api_load(struct etw_api *out, struct errmsg *why)
{
    struct etw_api api = {
        .clock = system_clock, .payload = system_payload, .payload_free = system_payload_free};
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
