/* Class Image: files mapped as code.
 *
 *   version 0   P base, u32 size, w path (the process is the record's own)
 *   version 1   P base, P size, u32 pid, w path
 *   version 2   P base, P size, u32 pid, u32 checksum, u32 time stamp, u32 reserved,
 *               P default base, u32 × 4 reserved, w path
 *   version 3   the first reserved became u8 signature level, u8 signature type, u16
 *   33, 34      P base of the kernel, P page for calls to the hypervisor
 *
 * Load is a record of group Process in files (hook 0x030a), delivered under this class. Paths are
 * those of the object manager (\Device\HarddiskVolumeN\…). */
#include "agent/decode/decode_class.h"
#include "agent/source/etw_guid.h"
#include "common/base/cur.h"

static enum err decode_image(struct event *out, enum event_kind kind, const struct raw_event *raw,
                             struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_image ev = {0};
    const uint8_t *path;
    size_t n;

    ev.base = cur_uptr(&c, raw->pointer_size);
    if (raw->version == 0) {
        bool own = kind == EV_IMAGE_LOAD || kind == EV_IMAGE_UNLOAD;

        ev.size = cur_u32le(&c);
        ev.pid = own ? raw->pid : EVENT_NO_ID; /* a rundown is logged by whoever made it */
    } else {
        ev.size = cur_uptr(&c, raw->pointer_size);
        ev.pid = cur_u32le(&c);
    }
    if (raw->version >= 2) {
        ev.checksum = cur_u32le(&c);
        ev.time_stamp = cur_u32le(&c);
        cur_skip(&c, 4u + raw->pointer_size + 16);
    }
    path = cur_wstr(&c, &n);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    ev.path = decode_text_utf16(text, path, n, MODEL_TEXT_MAX, NULL);
    out->u.image = ev;
    return ERR_OK;
}

static const struct decode_op ops[] = {
    {10, 0, EV_IMAGE_LOAD, decode_image},
    {2, 0, EV_IMAGE_UNLOAD, decode_image},
    {3, 0, EV_IMAGE_FOUND, decode_image},
    {4, 0, EV_IMAGE_LAST, decode_image},
};

static const struct layout_field image_v3[] = {
    {"BaseAddress", LAYOUT_PTR, 0, 0, 0},
    {"ModuleSize", LAYOUT_SIZE, 0, 0, 0},
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"ImageCheckSum", LAYOUT_U32, 0, 0, 0},
    {"TimeDateStamp", LAYOUT_U32, 0, 0, 0},
    {"SignatureLevel", LAYOUT_U8, 0, 0, 0},
    {"SignatureType", LAYOUT_U8, 0, 0, 0},
    {"Reserved0", LAYOUT_U16, 0, 0, 0},
    {"DefaultBase", LAYOUT_PTR, 0, 0, 0},
    {"Reserved1", LAYOUT_U32, 0, 0, 0},
    {"Reserved2", LAYOUT_U32, 0, 0, 0},
    {"Reserved3", LAYOUT_U32, 0, 0, 0},
    {"Reserved4", LAYOUT_U32, 0, 0, 0},
    {"ImageFileName", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field image_v1[] = {
    {"BaseAddress", LAYOUT_PTR, 0, 0, 0},
    {"ModuleSize", LAYOUT_SIZE, 0, 0, 0},
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"ImageCheckSum", LAYOUT_U32, 2, 0, 0},
    {"TimeDateStamp", LAYOUT_U32, 2, 0, 0},
    {"Reserved0", LAYOUT_U32, 2, 0, 0},
    {"DefaultBase", LAYOUT_PTR, 2, 0, 0},
    {"Reserved1", LAYOUT_U32, 2, 0, 0},
    {"Reserved2", LAYOUT_U32, 2, 0, 0},
    {"Reserved3", LAYOUT_U32, 2, 0, 0},
    {"Reserved4", LAYOUT_U32, 2, 0, 0},
    {"ImageFileName", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field image_v0[] = {
    {"BaseAddress", LAYOUT_PTR, 0, 0, 0},
    {"ModuleSize", LAYOUT_U32, 0, 0, 0},
    {"ImageFileName", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field base[] = {
    {"BaseAddress", LAYOUT_PTR, 0, 0, 0},
    {0},
};

#define IMAGE(OPCODE, NAME)                                         \
    {OPCODE, 3, 0, NAME, image_v3}, {OPCODE, 1, 2, NAME, image_v1}, \
    {                                                               \
        OPCODE, 0, 0, NAME, image_v0                                \
    }

static const struct layout layouts[] = {
    IMAGE(10, "Load"),
    IMAGE(2, "Unload"),
    IMAGE(3, "DCStart"),
    IMAGE(4, "DCEnd"),
    {33, 0, 0, "KernelBase", base},
    {34, 0, 0, "HypercallPage", base},
};

const struct decode_class decode_image_class = {
    .guid = ETW_CLASS_IMAGE,
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .name = "Image",
    .layouts = layouts,
    .n_layouts = sizeof layouts / sizeof layouts[0],
};
