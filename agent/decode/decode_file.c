/* Class FileIo: operations on files as file systems see them, and the names of file objects.
 *
 *   0, 32, 35, 36   name, created, deleted, rundown: P file object, w name
 *   64              create: P irp, P file, u32 tid, u32 options, u32 attributes, u32 share, w path
 *   65, 66, 73      cleanup, close, flush: P irp, P file, P key, u32 tid
 *   67, 68          read, write: u64 offset, P irp, P file, P key, u32 tid, u32 bytes, u32 flags,
 *                   newer: u32 extra flags
 *   69 … 71         set information, delete, rename; 74 query information, 75 file system control:
 *                   P irp, P file, P key, P extra, u32 tid, u32 class
 *   72, 77          directory listing and notification: P irp, P file, P key, u32 tid, u32 length,
 *                   u32 class, u32 index, w pattern
 *   76              the end of any of these: P irp, P extra, u32 status
 *   79 … 81         delete, rename, link once more with the path: as 69, then w path
 *
 * That is version 3. Version 2 (up to Windows 7) has the thread in a P of its own right behind the
 * irp and nowhere else. "Key" is the file object of the names, "file" the one of the open file.
 *
 * Facts are operations and their ends. Names are none: whoever wants to show paths of disk requests
 * must keep a table of file objects, which grows with the disk and not with the processes. Nor are
 * 79 … 81, which repeat an operation already told. */
#include "agent/decode/decode_class.h"
#include "agent/source/etw_guid.h"
#include "common/base/cur.h"

struct head {
    uint64_t irp, object;
    uint32_t tid; /* version 2 only */
};

static struct head head_read(struct cur *c, const struct raw_event *raw)
{
    struct head h = {.tid = EVENT_NO_ID};

    h.irp = cur_uptr(c, raw->pointer_size);
    if (raw->version < 3) {
        h.tid = (uint32_t)cur_uptr(c, raw->pointer_size);
    }
    h.object = cur_uptr(c, raw->pointer_size);
    return h;
}

/* Where version 3 has the thread. */
static uint32_t tid_read(struct cur *c, const struct raw_event *raw, const struct head *h)
{
    return raw->version < 3 ? h->tid : cur_u32le(c);
}

static enum err decode_create(struct event *out, enum event_kind kind, const struct raw_event *raw,
                              struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct head h = head_read(&c, raw);
    struct ev_file ev = {.op = FILE_CREATE, .irp = h.irp, .object = h.object};
    const uint8_t *path;
    size_t n;

    (void)kind;
    ev.tid = tid_read(&c, raw, &h);
    cur_skip(&c, 3 * 4);
    path = cur_wstr(&c, &n);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    ev.path = decode_text_utf16(text, path, n, MODEL_TEXT_MAX, NULL);
    out->u.file = ev;
    return ERR_OK;
}

static enum err decode_simple(struct event *out, enum event_kind kind, const struct raw_event *raw,
                              struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct head h = head_read(&c, raw);
    struct ev_file ev = {.irp = h.irp, .object = h.object, .path = {"", 0}};

    (void)kind;
    (void)text;
    ev.op = raw->opcode == 65 ? FILE_CLEANUP : raw->opcode == 66 ? FILE_CLOSE : FILE_FLUSH;
    cur_skip(&c, raw->pointer_size);
    ev.tid = tid_read(&c, raw, &h);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.file = ev;
    return ERR_OK;
}

static enum err decode_transfer(struct event *out, enum event_kind kind,
                                const struct raw_event *raw, struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    uint64_t offset = cur_u64le(&c);
    struct head h = head_read(&c, raw);
    struct ev_file ev = {.irp = h.irp, .object = h.object, .offset = offset, .path = {"", 0}};

    (void)kind;
    (void)text;
    ev.op = raw->opcode == 67 ? FILE_READ : FILE_WRITE;
    cur_skip(&c, raw->pointer_size);
    ev.tid = tid_read(&c, raw, &h);
    ev.bytes = cur_u32le(&c);
    cur_skip(&c, 4);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.file = ev;
    return ERR_OK;
}

static enum err decode_info(struct event *out, enum event_kind kind, const struct raw_event *raw,
                            struct decode_text *text)
{
    static const uint8_t op_of[] = {[0] = FILE_SET_INFO,
                                    [1] = FILE_DELETE,
                                    [2] = FILE_RENAME,
                                    [5] = FILE_QUERY_INFO,
                                    [6] = FILE_CONTROL};
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct head h = head_read(&c, raw);
    struct ev_file ev = {.irp = h.irp, .object = h.object, .path = {"", 0}};

    (void)kind;
    (void)text;
    ev.op = op_of[raw->opcode - 69];
    cur_skip(&c, 2u * raw->pointer_size);
    ev.tid = tid_read(&c, raw, &h);
    cur_skip(&c, 4);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.file = ev;
    return ERR_OK;
}

static enum err decode_directory(struct event *out, enum event_kind kind,
                                 const struct raw_event *raw, struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct head h = head_read(&c, raw);
    struct ev_file ev = {.irp = h.irp, .object = h.object};
    const uint8_t *pattern;
    size_t n;

    (void)kind;
    ev.op = raw->opcode == 72 ? FILE_DIR_ENUM : FILE_DIR_NOTIFY;
    cur_skip(&c, raw->pointer_size);
    ev.tid = tid_read(&c, raw, &h);
    cur_skip(&c, 3 * 4);
    pattern = cur_wstr(&c, &n);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    ev.path = decode_text_utf16(text, pattern, n, MODEL_TEXT_MAX, NULL);
    out->u.file = ev;
    return ERR_OK;
}

static enum err decode_end(struct event *out, enum event_kind kind, const struct raw_event *raw,
                           struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_file ev = {.op = FILE_OP_END, .tid = EVENT_NO_ID, .path = {"", 0}};

    (void)kind;
    (void)text;
    ev.irp = cur_uptr(&c, raw->pointer_size);
    cur_skip(&c, raw->pointer_size + 4u);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.file = ev;
    return ERR_OK;
}

static const struct decode_op ops[] = {
    {76, 2, EV_FILE_OP, decode_end},       {64, 2, EV_FILE_OP, decode_create},
    {67, 2, EV_FILE_OP, decode_transfer},  {68, 2, EV_FILE_OP, decode_transfer},
    {65, 2, EV_FILE_OP, decode_simple},    {66, 2, EV_FILE_OP, decode_simple},
    {73, 2, EV_FILE_OP, decode_simple},    {74, 2, EV_FILE_OP, decode_info},
    {69, 2, EV_FILE_OP, decode_info},      {70, 2, EV_FILE_OP, decode_info},
    {71, 2, EV_FILE_OP, decode_info},      {75, 2, EV_FILE_OP, decode_info},
    {72, 2, EV_FILE_OP, decode_directory}, {77, 2, EV_FILE_OP, decode_directory},
};

static const struct layout_field name[] = {
    {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"FileName", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field create_v2[] = {
    {"IrpPtr", LAYOUT_PTR, 0, 0, 0},           {"TTID", LAYOUT_SIZE, 0, 0, 0},
    {"FileObject", LAYOUT_PTR, 0, 0, 0},       {"CreateOptions", LAYOUT_HEX32, 0, 0, 0},
    {"FileAttributes", LAYOUT_HEX32, 0, 0, 0}, {"ShareAccess", LAYOUT_HEX32, 0, 0, 0},
    {"OpenPath", LAYOUT_W, 0, 0, 0},           {0},
};

static const struct layout_field create_v3[] = {
    {"IrpPtr", LAYOUT_PTR, 0, 0, 0},
    {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"TTID", LAYOUT_U32, 0, 0, 0},
    {"CreateOptions", LAYOUT_HEX32, 0, 0, 0},
    {"FileAttributes", LAYOUT_HEX32, 0, 0, 0},
    {"ShareAccess", LAYOUT_HEX32, 0, 0, 0},
    {"OpenPath", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field simple_v2[] = {
    {"IrpPtr", LAYOUT_PTR, 0, 0, 0},
    {"TTID", LAYOUT_SIZE, 0, 0, 0},
    {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"FileKey", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field simple_v3[] = {
    {"IrpPtr", LAYOUT_PTR, 0, 0, 0},
    {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"FileKey", LAYOUT_PTR, 0, 0, 0},
    {"TTID", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field transfer_v2[] = {
    {"Offset", LAYOUT_U64, 0, 0, 0},    {"IrpPtr", LAYOUT_PTR, 0, 0, 0},
    {"TTID", LAYOUT_SIZE, 0, 0, 0},     {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"FileKey", LAYOUT_PTR, 0, 0, 0},   {"IoSize", LAYOUT_U32, 0, 0, 0},
    {"IoFlags", LAYOUT_HEX32, 0, 0, 0}, {0},
};

static const struct layout_field transfer_v3[] = {
    {"Offset", LAYOUT_U64, 0, 0, 0},
    {"IrpPtr", LAYOUT_PTR, 0, 0, 0},
    {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"FileKey", LAYOUT_PTR, 0, 0, 0},
    {"TTID", LAYOUT_U32, 0, 0, 0},
    {"IoSize", LAYOUT_U32, 0, 0, 0},
    {"IoFlags", LAYOUT_HEX32, 0, 0, 0},
    {"ExtraFlags", LAYOUT_U32_OPT, 0, 0, 0},
    {0},
};

static const struct layout_field info_v2[] = {
    {"IrpPtr", LAYOUT_PTR, 0, 0, 0},
    {"TTID", LAYOUT_SIZE, 0, 0, 0},
    {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"FileKey", LAYOUT_PTR, 0, 0, 0},
    {"ExtraInfo", LAYOUT_PTR, 0, 0, 0},
    {"InfoClass", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field info_v3[] = {
    {"IrpPtr", LAYOUT_PTR, 0, 0, 0},
    {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"FileKey", LAYOUT_PTR, 0, 0, 0},
    {"ExtraInfo", LAYOUT_PTR, 0, 0, 0},
    {"TTID", LAYOUT_U32, 0, 0, 0},
    {"InfoClass", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field directory_v2[] = {
    {"IrpPtr", LAYOUT_PTR, 0, 0, 0},
    {"TTID", LAYOUT_SIZE, 0, 0, 0},
    {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"FileKey", LAYOUT_PTR, 0, 0, 0},
    {"Length", LAYOUT_U32, 0, 0, 0},
    {"InfoClass", LAYOUT_U32, 0, 0, 0},
    {"FileIndex", LAYOUT_U32, 0, 0, 0},
    {"FileName", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field directory_v3[] = {
    {"IrpPtr", LAYOUT_PTR, 0, 0, 0},
    {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"FileKey", LAYOUT_PTR, 0, 0, 0},
    {"TTID", LAYOUT_U32, 0, 0, 0},
    {"Length", LAYOUT_U32, 0, 0, 0},
    {"InfoClass", LAYOUT_U32, 0, 0, 0},
    {"FileIndex", LAYOUT_U32, 0, 0, 0},
    {"FileName", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field end[] = {
    {"IrpPtr", LAYOUT_PTR, 0, 0, 0},
    {"ExtraInfo", LAYOUT_PTR, 0, 0, 0},
    {"NtStatus", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout_field path[] = {
    {"IrpPtr", LAYOUT_PTR, 0, 0, 0},  {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"FileKey", LAYOUT_PTR, 0, 0, 0}, {"ExtraInfo", LAYOUT_PTR, 0, 0, 0},
    {"TTID", LAYOUT_U32, 0, 0, 0},    {"InfoClass", LAYOUT_U32, 0, 0, 0},
    {"FileName", LAYOUT_W, 0, 0, 0},  {0},
};

static const struct layout layouts[] = {
    {0, 0, 0, "Name", name},
    {32, 0, 0, "FileCreate", name},
    {35, 0, 0, "FileDelete", name},
    {36, 0, 0, "FileRundown", name},
    {64, 3, 0, "Create", create_v3},
    {64, 2, 2, "Create", create_v2},
    {65, 3, 0, "Cleanup", simple_v3},
    {65, 2, 2, "Cleanup", simple_v2},
    {66, 3, 0, "Close", simple_v3},
    {66, 2, 2, "Close", simple_v2},
    {67, 3, 0, "Read", transfer_v3},
    {67, 2, 2, "Read", transfer_v2},
    {68, 3, 0, "Write", transfer_v3},
    {68, 2, 2, "Write", transfer_v2},
    {69, 3, 0, "SetInfo", info_v3},
    {69, 2, 2, "SetInfo", info_v2},
    {70, 3, 0, "Delete", info_v3},
    {70, 2, 2, "Delete", info_v2},
    {71, 3, 0, "Rename", info_v3},
    {71, 2, 2, "Rename", info_v2},
    {72, 3, 0, "DirEnum", directory_v3},
    {72, 2, 2, "DirEnum", directory_v2},
    {73, 3, 0, "Flush", simple_v3},
    {73, 2, 2, "Flush", simple_v2},
    {74, 3, 0, "QueryInfo", info_v3},
    {74, 2, 2, "QueryInfo", info_v2},
    {75, 3, 0, "FSControl", info_v3},
    {75, 2, 2, "FSControl", info_v2},
    {76, 2, 0, "OperationEnd", end},
    {77, 3, 0, "DirNotify", directory_v3},
    {77, 2, 2, "DirNotify", directory_v2},
    {79, 3, 0, "DeletePath", path},
    {80, 3, 0, "RenamePath", path},
    {81, 3, 0, "SetLinkPath", path},
};

const struct decode_class decode_file_io_class = {
    .guid = ETW_CLASS_FILE_IO,
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .name = "FileIo",
    .layouts = layouts,
    .n_layouts = sizeof layouts / sizeof layouts[0],
};
