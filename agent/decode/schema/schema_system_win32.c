/* TDH answers with TRACE_EVENT_INFO and EVENT_MAP_INFO, the structures that tools embed where they
 * merge a recording: they are read as those are (describe_metadata.c), with the same bounds.
 * Classic events would be looked up in WMI, which takes seconds and COM: they are not asked for. */
#include <string.h>

#include "agent/decode/schema/describe_metadata.h"
#include "agent/decode/schema/schema_system.h"
#include "agent/source/etw_guid.h"
#include "common/base/mem.h"
#include "common/os/win32.h"

#define BLOB_BYTES  ((size_t)64 << 10) /* of an event, as in a record; more is not known */
#define GUID_BYTES  16
#define OP_EVENT    32
#define OP_MAP      33
#define COUNT_AT    100 /* see describe_metadata.c */
#define PROPERTIES  112
#define PROPERTY    24
#define MAP_AT      12 /* of a property */
#define IS_STRUCT   1u
#define HEAD_64_BIT 0x40
#define HEAD_32_BIT 0x20

struct schema_system {
    ULONG(WINAPI *event)(EVENT_RECORD *, ULONG, void *, void *, ULONG *);
    ULONG(WINAPI *map)(EVENT_RECORD *, WCHAR *, void *, ULONG *);
    ULONG(WINAPI *list)(GUID *, void *, ULONG *); /* NULL before Windows 8.1 */
    struct metadata metadata;
    uint8_t blob[BLOB_BYTES], entries[GUID_BYTES + BLOB_BYTES];
};

static FARPROC system_find(HMODULE module, const char *name)
{
    return module ? GetProcAddress(module, name) : NULL;
}

enum err schema_system_open(struct schema_system **out)
{
    HMODULE module = LoadLibraryExW(L"tdh.dll", NULL, LOAD_LIBRARY_SEARCH_SYSTEM32); /* stays */
    FARPROC event = system_find(module, "TdhGetEventInformation"),
            map = system_find(module, "TdhGetEventMapInformation"),
            list = system_find(module, "TdhEnumerateManifestProviderEvents");
    struct schema_system *sys;

    if (!event || !map) {
        return ERR_UNSUPPORTED;
    }
    sys = mem_zalloc(sizeof *sys);
    if (!sys) {
        return ERR_NOMEM;
    }
    memcpy(&sys->event, &event, sizeof event);
    memcpy(&sys->map, &map, sizeof map);
    memcpy(&sys->list, &list, sizeof list);
    *out = sys;
    return ERR_OK;
}

void schema_system_close(struct schema_system *sys)
{
    mem_free(sys);
}

static void system_record(EVENT_RECORD *r, const struct raw_event *raw)
{
    *r = (EVENT_RECORD){.EventHeader = {.Flags = raw->pointer_size == 4 ? HEAD_32_BIT : HEAD_64_BIT,
                                        .ThreadId = raw->tid,
                                        .ProcessId = raw->pid,
                                        .EventDescriptor = {.Id = raw->id,
                                                            .Version = raw->version,
                                                            .Level = raw->level,
                                                            .Opcode = raw->opcode,
                                                            .Task = raw->task,
                                                            .Keyword = raw->keyword}}};
    memcpy(&r->EventHeader.ProviderId, raw->guid, sizeof r->EventHeader.ProviderId);
}

/* A name within the blob, with its end. */
static WCHAR *system_name(struct schema_system *sys, size_t n, uint32_t at)
{
    if (at == 0 || at % sizeof(WCHAR)) {
        return NULL;
    }
    for (size_t i = at; i + sizeof(WCHAR) <= n; i += sizeof(WCHAR)) {
        if (sys->blob[i] == 0 && sys->blob[i + 1] == 0) {
            return (WCHAR *)(void *)(sys->blob + at);
        }
    }
    return NULL;
}

typedef void (*system_each)(void *ctx, uint8_t opcode, const uint8_t *p, size_t n);

/* Without its map a value stays a number. */
static void system_maps(struct schema_system *sys, EVENT_RECORD *r, size_t n, system_each each,
                        void *ctx)
{
    uint32_t count, flags, at;

    memcpy(&count, sys->blob + COUNT_AT, sizeof count);
    for (size_t i = 0; i < count && PROPERTIES + PROPERTY * (i + 1) <= n; i++) {
        const uint8_t *p = sys->blob + PROPERTIES + PROPERTY * i;
        ULONG size = BLOB_BYTES;
        WCHAR *name;

        memcpy(&flags, p, sizeof flags);
        memcpy(&at, p + MAP_AT, sizeof at);
        name = flags & IS_STRUCT ? NULL : system_name(sys, n, at);
        if (name && !sys->map(r, name, sys->entries + GUID_BYTES, &size) && size <= BLOB_BYTES) {
            memcpy(sys->entries, &r->EventHeader.ProviderId, GUID_BYTES);
            each(ctx, OP_MAP, sys->entries, GUID_BYTES + size);
        }
    }
}

static enum err system_ask(struct schema_system *sys, EVENT_RECORD *r, system_each each, void *ctx)
{
    ULONG size = BLOB_BYTES;

    if (sys->event(r, 0, NULL, sys->blob, &size) || size > BLOB_BYTES || size < PROPERTIES) {
        return ERR_NOTFOUND;
    }
    each(ctx, OP_EVENT, sys->blob, size);
    system_maps(sys, r, size, each, ctx);
    return ERR_OK;
}

/* -- into a store -- */

struct learning {
    struct schema_system *sys;
    struct schema *s;
    enum err e;
};

/* As if a tool had put it into the stream. */
static void system_learn(void *ctx, uint8_t opcode, const uint8_t *p, size_t n)
{
    struct learning *l = ctx;
    struct raw_event raw = {.form = RAW_CLASSIC,
                            .guid = ETW_CONTROL_METADATA,
                            .opcode = opcode,
                            .payload = p,
                            .payload_n = n};
    uint64_t events;
    enum err e = describe_metadata_learn(&l->sys->metadata, l->s, &raw, &events);

    l->e = l->e ? l->e : e;
}

enum err schema_system_put(struct schema_system *sys, struct schema *s, const struct raw_event *raw)
{
    struct learning l = {sys, s, ERR_OK};
    EVENT_RECORD r;
    enum err e;

    if (raw->form != RAW_MANIFEST) {
        return ERR_NOTFOUND;
    }
    system_record(&r, raw);
    e = system_ask(sys, &r, system_learn, &l);
    return e ? e : l.e;
}

/* -- all of a provider: PROVIDER_EVENT_INFO is u32 events, u32 of nothing, EVENT_DESCRIPTORs -- */

#define LIST_HEAD 8
#define LIST_MAX  ((ULONG)4 << 20)

enum err schema_system_each(struct schema_system *sys, const uint8_t guid[16], system_each each,
                            void *ctx)
{
    EVENT_RECORD r = {.EventHeader = {.Flags = HEAD_64_BIT}};
    GUID id;
    ULONG size = 0, got, count;
    uint8_t *list = NULL;
    enum err e = ERR_NOTFOUND;

    memcpy(&id, guid, sizeof id);
    r.EventHeader.ProviderId = id;
    if (!sys->list || sys->list(&id, NULL, &size) != ERROR_INSUFFICIENT_BUFFER ||
        size < LIST_HEAD || size > LIST_MAX) {
        return ERR_NOTFOUND;
    }
    list = mem_zalloc(size);
    if (!list) {
        return ERR_NOMEM;
    }
    got = size;
    if (!sys->list(&id, list, &got)) {
        memcpy(&count, list, sizeof count);
        for (ULONG i = 0; i < count && LIST_HEAD + (i + 1) * sizeof(EVENT_DESCRIPTOR) <= size;
             i++) {
            memcpy(&r.EventHeader.EventDescriptor, list + LIST_HEAD + i * sizeof(EVENT_DESCRIPTOR),
                   sizeof(EVENT_DESCRIPTOR));
            e = system_ask(sys, &r, each, ctx) && e ? e : ERR_OK;
        }
    }
    mem_free(list);
    return e;
}
