/* The functions are loaded as etw_api's are: from System32, sechost before advapi32. The system
 * calls back, also within the registration, whenever a session turns the provider on or off. */
#include "agent/own/own_write.h"

#include <stdatomic.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/win32.h"

#define SET_TRAITS     2  /* EventProviderSetTraits */
#define OF_PROVIDER    2  /* EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA */
#define OF_EVENT       1  /* EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA */
#define CHANNEL        11 /* of events that describe themselves */
#define LEVEL_INFO     4
#define KEYWORD        1
#define CONTROL_ENABLE 1

struct own_write {
    ULONG(WINAPI *open)(const GUID *, PENABLECALLBACK, void *, REGHANDLE *);
    ULONG(WINAPI *set)(REGHANDLE, int, void *, ULONG);
    ULONG(WINAPI *write)
    (REGHANDLE, const EVENT_DESCRIPTOR *, const GUID *, const GUID *, ULONG,
     EVENT_DATA_DESCRIPTOR *);
    ULONG(WINAPI *close)(REGHANDLE);
    REGHANDLE handle;
    const uint8_t *traits;
    size_t traits_n;
    atomic_bool listens;
};

static bool own_load(struct own_write *w)
{
    const HMODULE modules[] = {
        LoadLibraryExW(L"sechost.dll", NULL, LOAD_LIBRARY_SEARCH_SYSTEM32),
        LoadLibraryExW(L"advapi32.dll", NULL, LOAD_LIBRARY_SEARCH_SYSTEM32),
    };
    const struct {
        const char *name;
        void *slot;
    } rows[] = {{"EventRegister", &w->open},
                {"EventSetInformation", &w->set},
                {"EventWriteTransfer", &w->write},
                {"EventUnregister", &w->close}};
    bool all = true;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        FARPROC p = modules[0] ? GetProcAddress(modules[0], rows[i].name) : NULL;

        p = p || !modules[1] ? p : GetProcAddress(modules[1], rows[i].name);
        memcpy(rows[i].slot, &p, sizeof p);
        all = all && p;
    }
    return all;
}

static void NTAPI own_on_enable(const GUID *source, ULONG control, UCHAR level, ULONGLONG any,
                                ULONGLONG all, EVENT_FILTER_DESCRIPTOR *filter, void *ctx)
{
    struct own_write *w = ctx;

    (void)source;
    (void)filter;
    if (control <= CONTROL_ENABLE) { /* else what is there is asked for: nothing */
        atomic_store(&w->listens,
                     control == CONTROL_ENABLE && (level == 0 || level >= LEVEL_INFO) &&
                         (any == 0 || (any & KEYWORD)) && !(all & ~(ULONGLONG)KEYWORD));
    }
}

enum err own_write_open(struct own_write **out, const uint8_t guid[16], const uint8_t *traits,
                        size_t n)
{
    struct own_write *w = mem_zalloc(sizeof *w);
    GUID id;

    if (!w) {
        return ERR_NOMEM;
    }
    w->traits = traits;
    w->traits_n = n;
    memcpy(&id, guid, sizeof id);
    if (!own_load(w) || w->open(&id, own_on_enable, w, &w->handle)) {
        mem_free(w);
        return ERR_UNSUPPORTED;
    }
    (void)w->set(w->handle, SET_TRAITS, (void *)(uintptr_t)traits, (ULONG)n); /* Windows 10 */
    *out = w;
    return ERR_OK;
}

void own_write_close(struct own_write *w)
{
    if (w) {
        (void)w->close(w->handle); /* no callback is under way afterwards */
        mem_free(w);
    }
}

bool own_write_listens(const struct own_write *w)
{
    return atomic_load_explicit(&w->listens, memory_order_relaxed);
}

static EVENT_DATA_DESCRIPTOR own_part(const void *p, size_t n, ULONG type)
{
    return (EVENT_DATA_DESCRIPTOR){
        .Ptr = (ULONGLONG)(uintptr_t)p, .Size = (ULONG)n, .Reserved = type};
}

void own_write_event(struct own_write *w, const struct own_event *e)
{
    const EVENT_DESCRIPTOR d = {
        .Channel = CHANNEL, .Level = LEVEL_INFO, .Opcode = e->opcode, .Keyword = KEYWORD};
    EVENT_DATA_DESCRIPTOR parts[] = {own_part(w->traits, w->traits_n, OF_PROVIDER),
                                     own_part(e->schema, e->schema_n, OF_EVENT),
                                     own_part(e->payload, e->payload_n, 0)};

    (void)w->write(w->handle, &d, NULL, NULL, sizeof parts / sizeof *parts, parts);
}
