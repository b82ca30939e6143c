/* Provider Microsoft-Windows-Kernel-Disk: requests to disks, when they are done.
 *
 *   10, 11   read, write: u32 disk, u32 irp flags, u32 bytes, u32 reserved, u64 offset, P file,
 *            P irp, u64 response time in clock ticks
 *   14       flush: u32 disk, u32 irp flags, u64 response time, P irp
 *
 * Nothing names who asked, neither the payload nor, the request having ended in whatever context
 * the disk's interrupt found, the header: these are of the host and of no process. */
#include "agent/decode/decode_class.h"
#include "agent/decode/decode_ticks.h"
#include "agent/source/etw_guid.h"
#include "common/base/cur.h"

static enum err decode_disk(struct event *out, enum event_kind kind, const struct raw_event *raw,
                            struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_disk ev = {.manifest = true, .issuer_tid = EVENT_NO_ID};

    (void)text;
    ev.disk = cur_u32le(&c);
    ev.flags = cur_u32le(&c);
    if (kind == EV_DISK_FLUSH) {
        ev.took_ns = decode_span_ns(raw, cur_u64le(&c));
        ev.irp = cur_uptr(&c, raw->pointer_size);
    } else {
        ev.bytes = cur_u32le(&c);
        cur_skip(&c, 4);
        ev.offset = cur_u64le(&c);
        ev.file = cur_uptr(&c, raw->pointer_size);
        ev.irp = cur_uptr(&c, raw->pointer_size);
        ev.took_ns = decode_span_ns(raw, cur_u64le(&c));
    }
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.disk = ev;
    return ERR_OK;
}

static const struct decode_op ops[] = {
    {10, 0, EV_DISK_READ, decode_disk},
    {11, 0, EV_DISK_WRITE, decode_disk},
    {14, 0, EV_DISK_FLUSH, decode_disk},
};

static const struct layout_field done[] = {
    {"DiskNumber", LAYOUT_U32, 0, 0, 0},
    {"IrpFlags", LAYOUT_HEX32, 0, 0, 0},
    {"TransferSize", LAYOUT_U32, 0, 0, 0},
    {"Reserved", LAYOUT_U32, 0, 0, 0},
    {"ByteOffset", LAYOUT_U64, 0, 0, 0},
    {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"IORequestPacket", LAYOUT_PTR, 0, 0, 0},
    {"HighResResponseTime", LAYOUT_U64, 0, 0, 0},
    {0},
};

static const struct layout_field flushed[] = {
    {"DiskNumber", LAYOUT_U32, 0, 0, 0},
    {"IrpFlags", LAYOUT_HEX32, 0, 0, 0},
    {"HighResResponseTime", LAYOUT_U64, 0, 0, 0},
    {"IORequestPacket", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout layouts[] = {
    {10, 0, 0, "DiskRead", done},
    {11, 0, 0, "DiskWrite", done},
    {14, 0, 0, "DiskFlush", flushed},
};

const struct decode_class decode_kernel_disk_class = {
    .guid = ETW_PROVIDER_KERNEL_DISK,
    .form = RAW_MANIFEST,
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .name = "Microsoft-Windows-Kernel-Disk",
    .layouts = layouts,
    .n_layouts = sizeof layouts / sizeof layouts[0],
};
