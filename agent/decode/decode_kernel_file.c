/* Provider Microsoft-Windows-Kernel-File: operations on files, as the class FileIo has them.
 *
 *   version 1   12, 30       create, create new: P irp, P file, u32 tid, u32 options,
 *                            u32 attributes, u32 share, w path
 *               13, 14, 21   cleanup, close, flush: P irp, P file, P key, u32 tid
 *               15, 16       read, write: u64 offset, P irp, P file, P key, u32 tid, u32 bytes,
 *                            u32 flags, u32 extra flags
 *               17 … 19, 22, 23, 29, 31 … 34   set information, delete, rename, query information,
 *                            file system control, rename, query and set security, query and set
 *                            attributes: P irp, P file, P key, P extra, u32 tid, u32 class
 *               20, 25       directory listing and notification: P irp, P file, P key, u32 tid,
 *                            u32 length, u32 class, u32 index, w pattern
 *               26 … 28      delete, rename, link with the path: as 17, then w path
 *               24           the end of any of these: P irp, P extra, u32 status
 *   version 0   the thread is a P behind the irp and nowhere else; no extra flags
 *   10, 11      names of file objects: P key, w name
 *
 * 26 … 28 repeat an operation already told, so they are no facts; nor are names. 30 is a create,
 * told beside 12 of the same request when the file is new. */
#include "agent/decode/decode_class.h"
#include "agent/source/etw_guid.h"
#include "common/base/cur.h"

/* What stands between the irp and what is the operation's own. */
static void file_head(struct ev_file *ev, struct cur *c, const struct raw_event *raw)
{
    ev->irp = cur_uptr(c, raw->pointer_size);
    if (raw->version == 0) {
        ev->tid = (uint32_t)cur_uptr(c, raw->pointer_size);
    }
    ev->object = cur_uptr(c, raw->pointer_size);
}

static void file_tid(struct ev_file *ev, struct cur *c, const struct raw_event *raw)
{
    ev->tid = raw->version >= 1 ? cur_u32le(c) : ev->tid;
}

static void file_path(struct ev_file *ev, struct cur *c, struct decode_text *text)
{
    size_t n;
    const uint8_t *path = cur_wstr(c, &n);

    if (path) {
        ev->path = decode_text_utf16(text, path, n, MODEL_TEXT_MAX, NULL);
    }
}

static enum err file_give(struct event *out, const struct cur *c, const struct ev_file *ev)
{
    if (c->bad) {
        return ERR_CORRUPT;
    }
    out->u.file = *ev;
    return ERR_OK;
}

static enum err decode_create(struct event *out, enum event_kind kind, const struct raw_event *raw,
                              struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_file ev = {.manifest = true, .op = FILE_CREATE, .path = {"", 0}};

    (void)kind;
    file_head(&ev, &c, raw);
    file_tid(&ev, &c, raw);
    cur_skip(&c, 3 * 4);
    file_path(&ev, &c, text);
    return file_give(out, &c, &ev);
}

static enum err decode_simple(struct event *out, enum event_kind kind, const struct raw_event *raw,
                              struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_file ev = {.manifest = true, .path = {"", 0}};

    (void)kind;
    (void)text;
    ev.op = raw->id == 13 ? FILE_CLEANUP : raw->id == 14 ? FILE_CLOSE : FILE_FLUSH;
    file_head(&ev, &c, raw);
    cur_skip(&c, raw->pointer_size);
    file_tid(&ev, &c, raw);
    return file_give(out, &c, &ev);
}

static enum err decode_transfer(struct event *out, enum event_kind kind,
                                const struct raw_event *raw, struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_file ev = {.manifest = true, .path = {"", 0}};

    (void)kind;
    (void)text;
    ev.op = raw->id == 15 ? FILE_READ : FILE_WRITE;
    ev.offset = cur_u64le(&c);
    file_head(&ev, &c, raw);
    cur_skip(&c, raw->pointer_size);
    file_tid(&ev, &c, raw);
    ev.bytes = cur_u32le(&c);
    cur_skip(&c, raw->version >= 1 ? 2 * 4 : 4);
    return file_give(out, &c, &ev);
}

static enum err decode_info(struct event *out, enum event_kind kind, const struct raw_event *raw,
                            struct decode_text *text)
{
    static const uint8_t op_of[] = {
        [17] = FILE_SET_INFO,   [18] = FILE_DELETE,   [19] = FILE_RENAME,
        [22] = FILE_QUERY_INFO, [23] = FILE_CONTROL,  [29] = FILE_RENAME,
        [31] = FILE_QUERY_INFO, [32] = FILE_SET_INFO, [33] = FILE_QUERY_INFO,
        [34] = FILE_SET_INFO,
    };
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_file ev = {.manifest = true, .path = {"", 0}};

    (void)kind;
    (void)text;
    ev.op = op_of[raw->id];
    file_head(&ev, &c, raw);
    cur_skip(&c, 2u * raw->pointer_size);
    file_tid(&ev, &c, raw);
    cur_skip(&c, 4);
    return file_give(out, &c, &ev);
}

static enum err decode_directory(struct event *out, enum event_kind kind,
                                 const struct raw_event *raw, struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_file ev = {.manifest = true, .path = {"", 0}};

    (void)kind;
    ev.op = raw->id == 20 ? FILE_DIR_ENUM : FILE_DIR_NOTIFY;
    file_head(&ev, &c, raw);
    cur_skip(&c, raw->pointer_size);
    file_tid(&ev, &c, raw);
    cur_skip(&c, 3 * 4);
    file_path(&ev, &c, text);
    return file_give(out, &c, &ev);
}

static enum err decode_end(struct event *out, enum event_kind kind, const struct raw_event *raw,
                           struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_file ev = {.manifest = true, .op = FILE_OP_END, .tid = EVENT_NO_ID, .path = {"", 0}};

    (void)kind;
    (void)text;
    ev.irp = cur_uptr(&c, raw->pointer_size);
    cur_skip(&c, raw->pointer_size + 4u);
    return file_give(out, &c, &ev);
}

static const struct decode_op ops[] = {
    {24, 0, EV_FILE_OP, decode_end},       {12, 0, EV_FILE_OP, decode_create},
    {15, 0, EV_FILE_OP, decode_transfer},  {16, 0, EV_FILE_OP, decode_transfer},
    {13, 0, EV_FILE_OP, decode_simple},    {14, 0, EV_FILE_OP, decode_simple},
    {22, 0, EV_FILE_OP, decode_info},      {17, 0, EV_FILE_OP, decode_info},
    {18, 0, EV_FILE_OP, decode_info},      {19, 0, EV_FILE_OP, decode_info},
    {20, 0, EV_FILE_OP, decode_directory}, {21, 0, EV_FILE_OP, decode_simple},
    {23, 0, EV_FILE_OP, decode_info},      {25, 0, EV_FILE_OP, decode_directory},
    {29, 0, EV_FILE_OP, decode_info},      {31, 0, EV_FILE_OP, decode_info},
    {32, 0, EV_FILE_OP, decode_info},      {33, 0, EV_FILE_OP, decode_info},
    {34, 0, EV_FILE_OP, decode_info},
};

#define HEAD_V0                                                       \
    {"Irp", LAYOUT_PTR, 0, 0, 0}, {"ThreadId", LAYOUT_SIZE, 0, 0, 0}, \
    {                                                                 \
        "FileObject", LAYOUT_PTR, 0, 0, 0                             \
    }

#define HEAD_V1                           \
    {"Irp", LAYOUT_PTR, 0, 0, 0},         \
    {                                     \
        "FileObject", LAYOUT_PTR, 0, 0, 0 \
    }

#define KEY                            \
    {                                  \
        "FileKey", LAYOUT_PTR, 0, 0, 0 \
    }
#define EXTRA                                   \
    {                                           \
        "ExtraInformation", LAYOUT_PTR, 0, 0, 0 \
    }
#define ISSUER                                 \
    {                                          \
        "IssuingThreadId", LAYOUT_U32, 0, 0, 0 \
    }
#define CLASS                            \
    {                                    \
        "InfoClass", LAYOUT_U32, 0, 0, 0 \
    }
#define END \
    {       \
        0   \
    }

#define CREATE                                                                             \
    {"CreateOptions", LAYOUT_HEX32, 0, 0, 0}, {"CreateAttributes", LAYOUT_HEX32, 0, 0, 0}, \
        {"ShareAccess", LAYOUT_HEX32, 0, 0, 0}, {"FileName", LAYOUT_W, 0, 0, 0}, END

#define LISTING                                                                 \
    {"Length", LAYOUT_U32, 0, 0, 0}, CLASS, {"FileIndex", LAYOUT_U32, 0, 0, 0}, \
        {"FileName", LAYOUT_W, 0, 0, 0}, END

#define TRANSFER                         \
    {"IOSize", LAYOUT_U32, 0, 0, 0},     \
    {                                    \
        "IOFlags", LAYOUT_HEX32, 0, 0, 0 \
    }

static const struct layout_field name[] = {KEY, {"FileName", LAYOUT_W, 0, 0, 0}, END};

static const struct layout_field create_v0[] = {HEAD_V0, CREATE};
static const struct layout_field create_v1[] = {HEAD_V1, ISSUER, CREATE};
static const struct layout_field simple_v0[] = {HEAD_V0, KEY, END};
static const struct layout_field simple_v1[] = {HEAD_V1, KEY, ISSUER, END};
static const struct layout_field transfer_v0[] = {
    {"ByteOffset", LAYOUT_U64, 0, 0, 0}, HEAD_V0, KEY, TRANSFER, END};
static const struct layout_field transfer_v1[] = {
    {"ByteOffset", LAYOUT_U64, 0, 0, 0},   HEAD_V1, KEY, ISSUER, TRANSFER,
    {"ExtraFlags", LAYOUT_HEX32, 0, 0, 0}, END};
static const struct layout_field info_v0[] = {HEAD_V0, KEY, EXTRA, CLASS, END};
static const struct layout_field info_v1[] = {HEAD_V1, KEY, EXTRA, ISSUER, CLASS, END};
static const struct layout_field path_v0[] = {
    HEAD_V0, KEY, EXTRA, CLASS, {"FilePath", LAYOUT_W, 0, 0, 0}, END};
static const struct layout_field path_v1[] = {
    HEAD_V1, KEY, EXTRA, ISSUER, CLASS, {"FilePath", LAYOUT_W, 0, 0, 0}, END};
static const struct layout_field listing_v0[] = {HEAD_V0, KEY, LISTING};
static const struct layout_field listing_v1[] = {HEAD_V1, KEY, ISSUER, LISTING};

static const struct layout_field end[] = {
    {"Irp", LAYOUT_PTR, 0, 0, 0}, EXTRA, {"Status", LAYOUT_HEX32, 0, 0, 0}, END};

#define BOTH(id, name, fields)      \
    {id, 1, 0, name, fields##_v1},  \
    {                               \
        id, 0, 0, name, fields##_v0 \
    }

static const struct layout layouts[] = {
    {10, 0, 0, "NameCreate", name},
    {11, 0, 0, "NameDelete", name},
    BOTH(12, "Create", create),
    BOTH(13, "Cleanup", simple),
    BOTH(14, "Close", simple),
    BOTH(15, "Read", transfer),
    BOTH(16, "Write", transfer),
    BOTH(17, "SetInformation", info),
    BOTH(18, "SetDelete", info),
    BOTH(19, "Rename", info),
    BOTH(20, "DirEnum", listing),
    BOTH(21, "Flush", simple),
    BOTH(22, "QueryInformation", info),
    BOTH(23, "FSCTL", info),
    {24, 0, 0, "OperationEnd", end},
    BOTH(25, "DirNotify", listing),
    BOTH(26, "DeletePath", path),
    BOTH(27, "RenamePath", path),
    BOTH(28, "SetLinkPath", path),
    BOTH(29, "Rename29", info),
    BOTH(30, "CreateNewFile", create),
    BOTH(31, "QuerySecurity", info),
    BOTH(32, "SetSecurity", info),
    BOTH(33, "QueryEA", info),
    BOTH(34, "SetEA", info),
};

const struct decode_class decode_kernel_file_class = {
    .guid = ETW_PROVIDER_KERNEL_FILE,
    .form = RAW_MANIFEST,
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .name = "Microsoft-Windows-Kernel-File",
    .layouts = layouts,
    .n_layouts = sizeof layouts / sizeof layouts[0],
};
