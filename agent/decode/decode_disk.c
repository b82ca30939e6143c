/* Class DiskIo: requests to disks, when they are handed over and when they are done.
 *
 *   10, 11       read, write done: u32 disk, u32 irp flags, u32 bytes, u32 reserved, u64 offset,
 *                P file, P irp, u64 response time in clock ticks; version 3: u32 tid of the issuer
 *   12, 13, 15   read, write, flush begun: P irp; version 3: u32 tid of the issuer
 *   14           flush done: u32 disk, u32 irp flags, u64 response time, P irp; 3: u32 tid
 *   34 … 53      delays by drivers: calls, returns and completions of one irp
 *   55 … 60      the same as 10, 11, 14, 12, 13, 15 for optical drives
 *
 * A request ends in whatever context the disk's interrupt finds; version 2 (Windows 7) says nothing
 * else about its owner. There the owner is the context of the begin record with the same irp, which
 * whoever counts must keep. Lazy writes belong to System in both versions. */
#include "agent/decode/decode_class.h"
#include "agent/decode/decode_ticks.h"
#include "agent/source/etw_guid.h"
#include "common/base/cur.h"

static uint32_t issuer(struct cur *c, const struct raw_event *raw)
{
    return raw->version >= 3 ? cur_u32le(c) : EVENT_NO_ID;
}

static enum err decode_done(struct event *out, enum event_kind kind, const struct raw_event *raw,
                            struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_disk ev = {0};

    (void)kind;
    (void)text;
    ev.disk = cur_u32le(&c);
    ev.flags = cur_u32le(&c);
    ev.bytes = cur_u32le(&c);
    cur_skip(&c, 4);
    ev.offset = cur_u64le(&c);
    ev.file = cur_uptr(&c, raw->pointer_size);
    ev.irp = cur_uptr(&c, raw->pointer_size);
    ev.took_ns = decode_span_ns(raw, cur_u64le(&c));
    ev.issuer_tid = issuer(&c, raw);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.disk = ev;
    return ERR_OK;
}

static enum err decode_begun(struct event *out, enum event_kind kind, const struct raw_event *raw,
                             struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_disk ev = {0};

    (void)kind;
    (void)text;
    ev.irp = cur_uptr(&c, raw->pointer_size);
    ev.issuer_tid = issuer(&c, raw);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.disk = ev;
    return ERR_OK;
}

static enum err decode_flushed(struct event *out, enum event_kind kind, const struct raw_event *raw,
                               struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_disk ev = {0};

    (void)kind;
    (void)text;
    ev.disk = cur_u32le(&c);
    ev.flags = cur_u32le(&c);
    ev.took_ns = decode_span_ns(raw, cur_u64le(&c));
    ev.irp = cur_uptr(&c, raw->pointer_size);
    ev.issuer_tid = issuer(&c, raw);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.disk = ev;
    return ERR_OK;
}

static const struct decode_op ops[] = {
    {10, 2, EV_DISK_READ, decode_done},     {11, 2, EV_DISK_WRITE, decode_done},
    {12, 2, EV_DISK_INIT, decode_begun},    {13, 2, EV_DISK_INIT, decode_begun},
    {14, 2, EV_DISK_FLUSH, decode_flushed}, {15, 2, EV_DISK_INIT, decode_begun},
};

static const struct layout_field done[] = {
    {"DiskNumber", LAYOUT_U32, 0, 0, 0},
    {"IrpFlags", LAYOUT_HEX32, 0, 0, 0},
    {"TransferSize", LAYOUT_U32, 0, 0, 0},
    {"Reserved", LAYOUT_U32, 0, 0, 0},
    {"ByteOffset", LAYOUT_U64, 0, 0, 0},
    {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"Irp", LAYOUT_PTR, 0, 0, 0},
    {"HighResResponseTime", LAYOUT_U64, 0, 0, 0},
    {"IssuingThreadId", LAYOUT_U32, 3, 0, 0},
    {0},
};

static const struct layout_field begun[] = {
    {"Irp", LAYOUT_PTR, 0, 0, 0},
    {"IssuingThreadId", LAYOUT_U32, 3, 0, 0},
    {0},
};

static const struct layout_field flushed[] = {
    {"DiskNumber", LAYOUT_U32, 0, 0, 0},          {"IrpFlags", LAYOUT_HEX32, 0, 0, 0},
    {"HighResResponseTime", LAYOUT_U64, 0, 0, 0}, {"Irp", LAYOUT_PTR, 0, 0, 0},
    {"IssuingThreadId", LAYOUT_U32, 3, 0, 0},     {0},
};

static const struct layout_field driver_call[] = {
    {"MajorFunction", LAYOUT_U32, 0, 0, 0},
    {"MinorFunction", LAYOUT_U32, 0, 0, 0},
    {"RoutineAddr", LAYOUT_PTR, 0, 0, 0},
    {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"Irp", LAYOUT_PTR, 0, 0, 0},
    {"UniqMatchId", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field driver_return[] = {
    {"Irp", LAYOUT_PTR, 0, 0, 0},
    {"UniqMatchId", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field driver_routine[] = {
    {"Routine", LAYOUT_PTR, 0, 0, 0},
    {"IrpPtr", LAYOUT_PTR, 0, 0, 0},
    {"UniqMatchId", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field driver_complete[] = {
    {"RoutineAddr", LAYOUT_PTR, 0, 0, 0},
    {"Irp", LAYOUT_PTR, 0, 0, 0},
    {"UniqMatchId", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout layouts[] = {
    {10, 2, 0, "Read", done},
    {11, 2, 0, "Write", done},
    {12, 2, 0, "ReadInit", begun},
    {13, 2, 0, "WriteInit", begun},
    {14, 2, 0, "FlushBuffers", flushed},
    {15, 2, 0, "FlushInit", begun},
    {34, 2, 0, "DrvMjFnCall", driver_call},
    {35, 2, 0, "DrvMjFnRet", driver_return},
    {37, 2, 0, "DrvComplRout", driver_routine},
    {52, 2, 0, "DrvComplReq", driver_complete},
    {53, 2, 0, "DrvComplReqRet", driver_return},
    {55, 2, 0, "OpticalRead", done},
    {56, 2, 0, "OpticalWrite", done},
    {57, 2, 0, "OpticalFlushBuffers", flushed},
    {58, 2, 0, "OpticalReadInit", begun},
    {59, 2, 0, "OpticalWriteInit", begun},
    {60, 2, 0, "OpticalFlushInit", begun},
};

const struct decode_class decode_disk_io_class = {
    .guid = ETW_CLASS_DISK_IO,
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .name = "DiskIo",
    .layouts = layouts,
    .n_layouts = sizeof layouts / sizeof layouts[0],
};
