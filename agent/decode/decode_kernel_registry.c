/* Provider Microsoft-Windows-Kernel-Registry: operations on keys and values, by the process of the
 * header. Version 0 is the only one known.
 *
 *   1, 2           create, open: P base, P key, u32 status, u32 disposition, w base, w name
 *   3, 12 … 15     delete, flush, close, query and set security: P key, u32 status, w name
 *   4, 11          query, set information: P key, u32 status, u32 class, u32 bytes, w name, data
 *   5              set value: P key, u32 status, u32 type, u32 bytes, w name, w value's name, data,
 *                  u32 type, u32 bytes and data of the value before
 *   6              delete value: P key, u32 status, w name, w value's name
 *   7              query value: P key, u32 status, u32 class, u32 bytes, w name, w value's name,
 *                  data
 *   8, 9           enumerate keys, values: P key, u32 status, u32 index, u32 class, u32 bytes,
 *                  w name, data
 *   10             query several values: P key, u32 status, u32 entries, u32 bytes, w name
 *
 * Data are u16 bytes that were captured, and they. 16 and up are about hives, no operations. */
#include "agent/decode/decode_class.h"
#include "agent/source/etw_guid.h"
#include "common/base/cur.h"

/* What follows the status, and the opcode that the class Registry has for it. */
static const struct {
    uint8_t opcode, numbers, texts;
    bool base, data;
} shapes[] = {
    [1] = {10, 1, 2, true, false},   [2] = {11, 1, 2, true, false},
    [3] = {12, 0, 1, false, false},  [4] = {13, 2, 1, false, true},
    [5] = {14, 2, 2, false, true},   [6] = {15, 0, 2, false, false},
    [7] = {16, 2, 2, false, true},   [8] = {17, 3, 1, false, true},
    [9] = {18, 3, 1, false, true},   [10] = {19, 2, 1, false, false},
    [11] = {20, 2, 1, false, true},  [12] = {21, 0, 1, false, false},
    [13] = {27, 0, 1, false, false}, [14] = {28, 0, 1, false, false},
    [15] = {29, 0, 1, false, false},
};

static enum err decode_registry(struct event *out, enum event_kind kind,
                                const struct raw_event *raw, struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_registry ev = {.manifest = true, .opcode = shapes[raw->id].opcode};
    size_t n;

    (void)kind;
    (void)text;
    cur_skip(&c, (shapes[raw->id].base ? 2u : 1u) * raw->pointer_size);
    ev.status = cur_u32le(&c);
    cur_skip(&c, 4u * shapes[raw->id].numbers);
    for (unsigned i = 0; i < shapes[raw->id].texts; i++) {
        (void)cur_wstr(&c, &n);
    }
    cur_skip(&c, shapes[raw->id].data ? 2 : 0);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.registry = ev;
    return ERR_OK;
}

static const struct decode_op ops[] = {
    {7, 0, EV_REGISTRY, decode_registry},  {2, 0, EV_REGISTRY, decode_registry},
    {13, 0, EV_REGISTRY, decode_registry}, {4, 0, EV_REGISTRY, decode_registry},
    {8, 0, EV_REGISTRY, decode_registry},  {9, 0, EV_REGISTRY, decode_registry},
    {1, 0, EV_REGISTRY, decode_registry},  {5, 0, EV_REGISTRY, decode_registry},
    {3, 0, EV_REGISTRY, decode_registry},  {6, 0, EV_REGISTRY, decode_registry},
    {10, 0, EV_REGISTRY, decode_registry}, {11, 0, EV_REGISTRY, decode_registry},
    {12, 0, EV_REGISTRY, decode_registry}, {14, 0, EV_REGISTRY, decode_registry},
    {15, 0, EV_REGISTRY, decode_registry},
};

#define KEY                              \
    {                                    \
        "KeyObject", LAYOUT_PTR, 0, 0, 0 \
    }
#define STATUS                          \
    {                                   \
        "Status", LAYOUT_HEX32, 0, 0, 0 \
    }
#define NUMBER(name)              \
    {                             \
        name, LAYOUT_U32, 0, 0, 0 \
    }
#define TEXT(name)              \
    {                           \
        name, LAYOUT_W, 0, 0, 0 \
    }
#define CAPTURED                               \
    {"CapturedDataSize", LAYOUT_U16, 0, 0, 0}, \
    {                                          \
        "CapturedData", LAYOUT_REST, 0, 0, 0   \
    }
#define END \
    {       \
        0   \
    }

static const struct layout_field open[] = {{"BaseObject", LAYOUT_PTR, 0, 0, 0},
                                           KEY,
                                           STATUS,
                                           NUMBER("Disposition"),
                                           TEXT("BaseName"),
                                           TEXT("RelativeName"),
                                           END};
static const struct layout_field key[] = {KEY, STATUS, TEXT("KeyName"), END};
static const struct layout_field query[] = {
    KEY, STATUS, NUMBER("InfoClass"), NUMBER("DataSize"), TEXT("KeyName"), CAPTURED, END};
static const struct layout_field set_value[] = {
    KEY,      STATUS, NUMBER("Type"), NUMBER("DataSize"), TEXT("KeyName"), TEXT("ValueName"),
    CAPTURED, END};
static const struct layout_field delete_value[] = {KEY, STATUS, TEXT("KeyName"), TEXT("ValueName"),
                                                   END};
static const struct layout_field query_value[] = {
    KEY,      STATUS, NUMBER("InfoClass"), NUMBER("DataSize"), TEXT("KeyName"), TEXT("ValueName"),
    CAPTURED, END};
static const struct layout_field enumerate[] = {
    KEY,      STATUS, NUMBER("Index"), NUMBER("InfoClass"), NUMBER("DataSize"), TEXT("KeyName"),
    CAPTURED, END};
static const struct layout_field several[] = {
    KEY, STATUS, NUMBER("EntryCount"), NUMBER("DataSize"), TEXT("KeyName"), END};

static const struct layout layouts[] = {
    {1, 0, 0, "CreateKey", open},
    {2, 0, 0, "OpenKey", open},
    {3, 0, 0, "DeleteKey", key},
    {4, 0, 0, "QueryKey", query},
    {5, 0, 0, "SetValueKey", set_value},
    {6, 0, 0, "DeleteValueKey", delete_value},
    {7, 0, 0, "QueryValueKey", query_value},
    {8, 0, 0, "EnumerateKey", enumerate},
    {9, 0, 0, "EnumerateValueKey", enumerate},
    {10, 0, 0, "QueryMultipleValueKey", several},
    {11, 0, 0, "SetInformationKey", query},
    {12, 0, 0, "FlushKey", key},
    {13, 0, 0, "CloseKey", key},
    {14, 0, 0, "QuerySecurityKey", key},
    {15, 0, 0, "SetSecurityKey", key},
};

const struct decode_class decode_kernel_registry_class = {
    .guid = ETW_PROVIDER_KERNEL_REGISTRY,
    .form = RAW_MANIFEST,
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .name = "Microsoft-Windows-Kernel-Registry",
    .layouts = layouts,
    .n_layouts = sizeof layouts / sizeof layouts[0],
};
