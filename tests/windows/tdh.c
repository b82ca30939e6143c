/* Stands as tdh.dll in a Wine prefix: it knows an event of two providers, one whose GUID is all 33
 * and the resolver's, as a Windows does on which their manifests are registered: event 7, version
 * 1, with a number `seq` of 64 bits and one of 32, `kind`, of the map Kinds. It takes its time to
 * say so. Names stand behind what refers to them, as the system has it. It has an identity of
 * symbols, which Wine's own libraries do not have. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/os/win32.h"

#define SLOW_MS 300

ULONG WINAPI tdh_event(EVENT_RECORD *r, ULONG n_context, void *context, void *out, ULONG *n);
ULONG WINAPI tdh_map(EVENT_RECORD *r, WCHAR *name, void *out, ULONG *n);
ULONG WINAPI tdh_list(GUID *guid, void *out, ULONG *n);

static void put16(uint8_t *p, size_t at, uint16_t v)
{
    memcpy(p + at, &v, sizeof v);
}

static void put32(uint8_t *p, size_t at, uint32_t v)
{
    memcpy(p + at, &v, sizeof v);
}

/* Behind what is there; its place is written at `at`. */
static size_t put_name(uint8_t *p, size_t at, size_t end, const WCHAR *name)
{
    size_t n = (wcslen(name) + 1) * sizeof *name;

    put32(p, at, (uint32_t)end);
    memcpy(p + end, name, n);
    return end + n;
}

static bool is_known(const EVENT_RECORD *r)
{
    static const GUID dns = {
        0x1c95126e, 0x7eea, 0x49a9, {0xa3, 0xfe, 0xa3, 0x78, 0xb0, 0x3d, 0xdb, 0x4d}};
    uint8_t guid[16];

    memset(guid, 0x33, sizeof guid);
    return memcmp(&r->EventHeader.ProviderId, guid, sizeof guid) == 0 ||
           memcmp(&r->EventHeader.ProviderId, &dns, sizeof dns) == 0;
}

static ULONG give(const uint8_t *p, size_t size, void *out, ULONG *n)
{
    bool fits = *n >= size;

    *n = (ULONG)size;
    if (fits) {
        memcpy(out, p, size);
    }
    return fits ? ERROR_SUCCESS : ERROR_INSUFFICIENT_BUFFER;
}

/* TRACE_EVENT_INFO, see agent/decode/schema/describe_metadata.c. */
ULONG WINAPI tdh_event(EVENT_RECORD *r, ULONG n_context, void *context, void *out, ULONG *n)
{
    enum { PROPERTIES = 112, PROPERTY = 24 };
    uint8_t p[512] = {0};
    size_t end = PROPERTIES + 2 * PROPERTY;

    (void)n_context;
    (void)context;
    Sleep(SLOW_MS);
    if (!is_known(r) || r->EventHeader.EventDescriptor.Id != 7 ||
        r->EventHeader.EventDescriptor.Version != 1) {
        return ERROR_NOT_FOUND;
    }
    memcpy(p, &r->EventHeader.ProviderId, 16);
    memcpy(p + 32, &r->EventHeader.EventDescriptor, sizeof r->EventHeader.EventDescriptor);
    end = put_name(p, 52, end, L"procfleet-Registered");
    end = put_name(p, 68, end, L"Tick ");
    put32(p, 100, 2);
    put32(p, 104, 2);
    end = put_name(p, PROPERTIES + 4, end, L"seq");
    put16(p, PROPERTIES + 8, 10); /* TDH_INTYPE_UINT64 */
    put16(p, PROPERTIES + 16, 1);
    end = put_name(p, PROPERTIES + PROPERTY + 4, end, L"kind");
    put16(p, PROPERTIES + PROPERTY + 8, 8); /* TDH_INTYPE_UINT32 */
    put16(p, PROPERTIES + PROPERTY + 16, 1);
    end = put_name(p, PROPERTIES + PROPERTY + 12, end, L"Kinds");
    return give(p, end, out, n);
}

/* PROVIDER_EVENT_INFO. */
ULONG WINAPI tdh_list(GUID *guid, void *out, ULONG *n)
{
    const EVENT_RECORD r = {.EventHeader = {.ProviderId = *guid}};
    EVENT_DESCRIPTOR known = {.Id = 7, .Version = 1};
    uint8_t p[8 + sizeof known] = {1};

    memcpy(p + 8, &known, sizeof known);
    return is_known(&r) ? give(p, sizeof p, out, n) : ERROR_NOT_FOUND;
}

/* EVENT_MAP_INFO. */
ULONG WINAPI tdh_map(EVENT_RECORD *r, WCHAR *name, void *out, ULONG *n)
{
    enum { ENTRIES = 16 };
    uint8_t p[128] = {0};
    size_t end = ENTRIES + 8;

    if (!is_known(r) || wcscmp(name, L"Kinds") != 0) {
        return ERROR_NOT_FOUND;
    }
    end = put_name(p, 0, end, L"Kinds");
    put32(p, 4, 1); /* EVENTMAP_INFO_FLAG_MANIFEST_VALUEMAP */
    put32(p, 8, 1);
    end = put_name(p, ENTRIES, end, L"plain ");
    put32(p, ENTRIES + 4, 3);
    return give(p, end, out, n);
}
