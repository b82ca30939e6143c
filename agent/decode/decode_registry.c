/* Class Registry: operations on keys and values, and the names of key control blocks (KCB), which
 * most operations give instead of a path.
 *
 *   version 2   i64 begin in clock ticks, u32 status, u32 index, P key control block, w name
 *   version 1   P status, P key handle, i64 elapsed, u32 index, w name
 *   version 0   the same without index
 *   34          Counters: u64 × 11;  35  Config: u32 number of the current control set
 *
 * 22 … 25 only name key control blocks (created, deleted, at either end of the trace): they are no
 * operations, so no facts. The unit of "elapsed" is written nowhere; it is not used. Of the
 * status of versions 0 and 1, which is as wide as a pointer, the lower half counts. */
#include "agent/decode/decode_class.h"
#include "agent/decode/decode_ticks.h"
#include "agent/source/etw_guid.h"
#include "common/base/cur.h"

static enum err decode_registry(struct event *out, enum event_kind kind,
                                const struct raw_event *raw, struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_registry ev = {.opcode = raw->opcode};
    size_t n;

    (void)kind;
    (void)text;
    if (raw->version >= 2) {
        ev.took_ns = decode_took_ns(raw, cur_u64le(&c));
        ev.status = cur_u32le(&c);
        cur_skip(&c, 4u + raw->pointer_size);
    } else {
        ev.status = (uint32_t)cur_uptr(&c, raw->pointer_size);
        cur_skip(&c, raw->pointer_size + 8u);
        cur_skip(&c, raw->version == 1 ? 4 : 0);
    }
    (void)cur_wstr(&c, &n);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.registry = ev;
    return ERR_OK;
}

static const struct decode_op ops[] = {
    {16, 0, EV_REGISTRY, decode_registry}, {11, 0, EV_REGISTRY, decode_registry},
    {27, 2, EV_REGISTRY, decode_registry}, {13, 0, EV_REGISTRY, decode_registry},
    {17, 0, EV_REGISTRY, decode_registry}, {18, 0, EV_REGISTRY, decode_registry},
    {10, 0, EV_REGISTRY, decode_registry}, {14, 0, EV_REGISTRY, decode_registry},
    {12, 0, EV_REGISTRY, decode_registry}, {15, 0, EV_REGISTRY, decode_registry},
    {19, 0, EV_REGISTRY, decode_registry}, {20, 0, EV_REGISTRY, decode_registry},
    {21, 0, EV_REGISTRY, decode_registry}, {26, 2, EV_REGISTRY, decode_registry},
    {28, 2, EV_REGISTRY, decode_registry}, {29, 2, EV_REGISTRY, decode_registry},
};

static const struct layout_field key_v2[] = {
    {"InitialTime", LAYOUT_TICKS, 0, 0, 0}, {"Status", LAYOUT_HEX32, 0, 0, 0},
    {"Index", LAYOUT_U32, 0, 0, 0},         {"KeyHandle", LAYOUT_PTR, 0, 0, 0},
    {"KeyName", LAYOUT_W, 0, 0, 0},         {0},
};

static const struct layout_field key_v0[] = {
    {"Status", LAYOUT_PTR, 0, 0, 0},      {"KeyHandle", LAYOUT_PTR, 0, 0, 0},
    {"ElapsedTime", LAYOUT_I64, 0, 0, 0}, {"Index", LAYOUT_U32, 1, 0, 0},
    {"KeyName", LAYOUT_W, 0, 0, 0},       {0},
};

static const struct layout_field counters[] = {
    {"Counter1", LAYOUT_U64, 0, 0, 0},  {"Counter2", LAYOUT_U64, 0, 0, 0},
    {"Counter3", LAYOUT_U64, 0, 0, 0},  {"Counter4", LAYOUT_U64, 0, 0, 0},
    {"Counter5", LAYOUT_U64, 0, 0, 0},  {"Counter6", LAYOUT_U64, 0, 0, 0},
    {"Counter7", LAYOUT_U64, 0, 0, 0},  {"Counter8", LAYOUT_U64, 0, 0, 0},
    {"Counter9", LAYOUT_U64, 0, 0, 0},  {"Counter10", LAYOUT_U64, 0, 0, 0},
    {"Counter11", LAYOUT_U64, 0, 0, 0}, {0},
};

static const struct layout_field config[] = {
    {"CurrentControlSet", LAYOUT_U32, 0, 0, 0},
    {0},
};

#define OPERATION(OPCODE, NAME)    \
    {OPCODE, 2, 0, NAME, key_v2},  \
    {                              \
        OPCODE, 0, 1, NAME, key_v0 \
    }

static const struct layout layouts[] = {
    OPERATION(10, "Create"),
    OPERATION(11, "Open"),
    OPERATION(12, "Delete"),
    OPERATION(13, "Query"),
    OPERATION(14, "SetValue"),
    OPERATION(15, "DeleteValue"),
    OPERATION(16, "QueryValue"),
    OPERATION(17, "EnumerateKey"),
    OPERATION(18, "EnumerateValueKey"),
    OPERATION(19, "QueryMultipleValue"),
    OPERATION(20, "SetInformation"),
    OPERATION(21, "Flush"),
    OPERATION(22, "KCBCreate"),
    {23, 2, 0, "KCBDelete", key_v2},
    {24, 2, 0, "KCBRundownBegin", key_v2},
    {25, 2, 0, "KCBRundownEnd", key_v2},
    {26, 2, 0, "Virtualize", key_v2},
    {27, 2, 0, "Close", key_v2},
    {28, 2, 0, "SetSecurity", key_v2},
    {29, 2, 0, "QuerySecurity", key_v2},
    {34, 2, 0, "Counters", counters},
    {35, 2, 0, "Config", config},
};

const struct decode_class decode_registry_class = {
    .guid = ETW_CLASS_REGISTRY,
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .name = "Registry",
    .layouts = layouts,
    .n_layouts = sizeof layouts / sizeof layouts[0],
};
