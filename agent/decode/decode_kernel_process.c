/* Microsoft-Windows-Kernel-Process, a manifest provider: by event id, not opcode. It tells of a
 * process what the class Process cannot: the exact creation time, the full path, and exact totals
 * at the exit; the command line it does not know. So its records are the other half of classic
 * ones.
 *
 * P = pointer of the record, w = UTF-16 text, a = 8-bit text, both with terminator, t = FILETIME.
 *   start 1     version 0   u32 pid, t created, u32 parent, u32 session, w image
 *               version 1   … u32 flags before the image
 *               version 2   … u32 checksum, u32 time stamp, w package, w application
 *               version 3   u64 sequence number behind the pid and behind the parent, and before
 *                           the image u32 elevation type, u32 is elevated, SID of the integrity
 *                           label
 *               version 4   … u32 mitigations at the end
 *               version 5   … u32 partition, u16 machine at the end
 *   rundown 15  version 0   as start 2, and so on: version 3 as start 5
 *   stop 2      version 0   u32 pid, t created, t ended, u32 exit code, u32 elevation type,
 *                           u32 handles, u64 committed, u64 most committed, a image
 *               version 1   … before the image u64 cycles, u32 reads, u32 writes, u32 KiB read,
 *                           u32 KiB written, u32 hard faults
 *               version 2   … u64 sequence number behind the pid
 *   thread 3, 4 version 0   u32 pid, u32 tid, P × 7 addresses
 *               version 1   … u32 service tag; 4 also u64 cycles
 *   image 5, 6              P base, P size, u32 pid, u32 checksum, u32 time stamp, P default base,
 *                           w path
 *   priorities 7 to 10      u32 pid, u32 tid, u8 old, u8 new
 *   freeze 11, 12           u32 pid; version 1: t created */
#include "agent/decode/decode_class.h"
#include "agent/source/etw_guid.h"
#include "common/base/clk.h"
#include "common/base/cur.h"

#define KIB 1024

/* Where a rundown of the provider stands among the versions of its start. */
static unsigned start_version(const struct raw_event *raw)
{
    return raw->version + (raw->id == 15 ? 2u : 0);
}

/* Gives false where no moment is stored, or one that nanoseconds cannot tell. */
static bool filetime_read(int64_t *utc_ns, struct cur *c, const struct raw_event *raw)
{
    uint64_t stored = cur_u64le(c);
    int64_t as_stored = clk_from_filetime(stored);

    if (stored == 0 || clk_to_filetime(as_stored) != stored) {
        return false;
    }
    *utc_ns = clk_add(as_stored, raw->shift_ns);
    return true;
}

static void id_read(struct ev_proc *ev, struct cur *c, const struct raw_event *raw, bool sequence)
{
    ev->manifest = true;
    ev->info.id.pid = cur_u32le(c);
    if (sequence) {
        ev->info.sequence = cur_u64le(c);
    }
    if (filetime_read(&ev->info.create_ns, c, raw)) {
        ev->info.id.start = clk_to_filetime(ev->info.create_ns);
        ev->info.have |= INFO_CREATE_TIME;
    }
}

/* The last part of a path. */
static struct str base_name(struct str path)
{
    size_t at = path.n;

    while (at > 0 && path.p[at - 1] != '\\') {
        at--;
    }
    return (struct str){path.p + at, path.n - at};
}

static void image_read(struct ev_proc *ev, struct cur *c, unsigned version,
                       struct decode_text *text)
{
    size_t n;
    const uint8_t *w = cur_wstr(c, &n);

    if (w) {
        ev->info.image = decode_text_utf16(text, w, n, MODEL_TEXT_MAX, NULL);
        ev->info.name = base_name(ev->info.image);
    }
    if (version >= 2) {
        cur_skip(c, 8);
        w = cur_wstr(c, &n);
        if (w && n) {
            ev->package = decode_text_utf16(text, w, n, MODEL_TEXT_MAX, NULL);
        }
        (void)cur_wstr(c, &n);
    }
    if (version >= 4) {
        cur_skip(c, 4);
    }
    if (version >= 5) {
        cur_skip(c, 6);
    }
}

static enum err decode_start(struct event *out, enum event_kind kind, const struct raw_event *raw,
                             struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    unsigned version = start_version(raw);
    struct ev_proc ev = {0};

    id_read(&ev, &c, raw, version >= 3);
    ev.info.parent_pid = cur_u32le(&c);
    if (version >= 3) {
        cur_skip(&c, 8);
    }
    ev.info.session_id = cur_u32le(&c);
    ev.info.have |= INFO_PARENT | (ev.info.session_id != UINT32_MAX ? INFO_SESSION : 0u);
    if (version >= 1) {
        cur_skip(&c, 4);
    }
    if (version >= 3) {
        cur_skip(&c, 8);
        (void)decode_text_sid_at(text, &c);
    }
    image_read(&ev, &c, version, text);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    ev.info.origin = kind == EV_PROC_START ? ORIGIN_START : ORIGIN_RUNDOWN;
    out->u.proc = ev;
    return ERR_OK;
}

static void put_total(struct ev_proc *ev, struct decode_text *text, unsigned id, uint64_t v)
{
    text->totals[id] = v > INT64_MAX ? INT64_MAX : (int64_t)v;
    ev->totals_mask |= METRIC_BIT(id);
}

static void totals_read(struct ev_proc *ev, struct cur *c, struct decode_text *text)
{
    put_total(ev, text, M_CPU_CYCLES, cur_u64le(c));
    put_total(ev, text, M_READ_OPERATIONS, cur_u32le(c));
    put_total(ev, text, M_WRITE_OPERATIONS, cur_u32le(c));
    put_total(ev, text, M_READ_BYTES, (uint64_t)cur_u32le(c) * KIB);
    put_total(ev, text, M_WRITE_BYTES, (uint64_t)cur_u32le(c) * KIB);
    put_total(ev, text, M_HARD_FAULTS, cur_u32le(c));
}

static enum err decode_stop(struct event *out, enum event_kind kind, const struct raw_event *raw,
                            struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_proc ev = {0};
    const char *name;
    size_t n;

    (void)kind;
    id_read(&ev, &c, raw, raw->version >= 2);
    ev.info.have |= INFO_EXITED | INFO_EXIT_CODE;
    ev.info.have |= filetime_read(&ev.info.exit_ns, &c, raw) ? INFO_EXIT_TIME : 0u;
    ev.info.exit_code = cur_u32le(&c);
    cur_skip(&c, 4);
    put_total(&ev, text, M_HANDLE_COUNT, cur_u32le(&c));
    cur_skip(&c, 16);
    if (raw->version >= 1) {
        totals_read(&ev, &c, text);
    }
    name = cur_cstr(&c, &n);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    ev.info.name = base_name(decode_text_8bit(text, name, n, MODEL_TEXT_MAX));
    ev.totals = text->totals;
    out->u.proc = ev;
    return ERR_OK;
}

static enum err decode_thread(struct event *out, enum event_kind kind, const struct raw_event *raw,
                              struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_thread ev = {.manifest = true, .name = {"", 0}};

    (void)text;
    ev.pid = cur_u32le(&c);
    ev.tid = cur_u32le(&c);
    cur_skip(&c, 7u * raw->pointer_size);
    if (raw->version >= 1) {
        cur_skip(&c, kind == EV_THREAD_STOP ? 12 : 4);
    }
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.thread = ev;
    return ERR_OK;
}

static enum err decode_image(struct event *out, enum event_kind kind, const struct raw_event *raw,
                             struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_image ev = {.manifest = true};
    const uint8_t *path;
    size_t n;

    (void)kind;
    ev.base = cur_uptr(&c, raw->pointer_size);
    ev.size = cur_uptr(&c, raw->pointer_size);
    ev.pid = cur_u32le(&c);
    ev.checksum = cur_u32le(&c);
    ev.time_stamp = cur_u32le(&c);
    cur_skip(&c, raw->pointer_size);
    path = cur_wstr(&c, &n);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    ev.path = decode_text_utf16(text, path, n, MODEL_TEXT_MAX, NULL);
    out->u.image = ev;
    return ERR_OK;
}

static const struct decode_op ops[] = {
    {1, 0, EV_PROC_START, decode_start},   {2, 0, EV_PROC_STOP, decode_stop},
    {15, 0, EV_PROC_FOUND, decode_start},  {3, 0, EV_THREAD_START, decode_thread},
    {4, 0, EV_THREAD_STOP, decode_thread}, {5, 0, EV_IMAGE_LOAD, decode_image},
    {6, 0, EV_IMAGE_UNLOAD, decode_image},
};

static const struct layout_field start[] = {
    {"ProcessID", LAYOUT_U32, 0, 0, 0},
    {"ProcessSequenceNumber", LAYOUT_U64, 3, 0, 0},
    {"CreateTime", LAYOUT_FILETIME, 0, 0, 0},
    {"ParentProcessID", LAYOUT_U32, 0, 0, 0},
    {"ParentProcessSequenceNumber", LAYOUT_U64, 3, 0, 0},
    {"SessionID", LAYOUT_U32, 0, 0, 0},
    {"Flags", LAYOUT_HEX32, 1, 0, 0},
    {"ProcessTokenElevationType", LAYOUT_U32, 3, 0, 0},
    {"ProcessTokenIsElevated", LAYOUT_U32, 3, 0, 0},
    {"MandatoryLabel", LAYOUT_SID, 3, 0, 0},
    {"ImageName", LAYOUT_W, 0, 0, 0},
    {"ImageChecksum", LAYOUT_HEX32, 2, 0, 0},
    {"TimeDateStamp", LAYOUT_HEX32, 2, 0, 0},
    {"PackageFullName", LAYOUT_W, 2, 0, 0},
    {"PackageRelativeAppId", LAYOUT_W, 2, 0, 0},
    {"Mitigations", LAYOUT_HEX32, 4, 0, 0},
    {"PartitionID", LAYOUT_U32, 5, 0, 0},
    {"ProcessMachine", LAYOUT_U16, 5, 0, 0},
    {0},
};

static const struct layout_field rundown[] = {
    {"ProcessID", LAYOUT_U32, 0, 0, 0},
    {"ProcessSequenceNumber", LAYOUT_U64, 1, 0, 0},
    {"CreateTime", LAYOUT_FILETIME, 0, 0, 0},
    {"ParentProcessID", LAYOUT_U32, 0, 0, 0},
    {"ParentProcessSequenceNumber", LAYOUT_U64, 1, 0, 0},
    {"SessionID", LAYOUT_U32, 0, 0, 0},
    {"Flags", LAYOUT_HEX32, 0, 0, 0},
    {"ProcessTokenElevationType", LAYOUT_U32, 1, 0, 0},
    {"ProcessTokenIsElevated", LAYOUT_U32, 1, 0, 0},
    {"MandatoryLabel", LAYOUT_SID, 1, 0, 0},
    {"ImageName", LAYOUT_W, 0, 0, 0},
    {"ImageChecksum", LAYOUT_HEX32, 0, 0, 0},
    {"TimeDateStamp", LAYOUT_HEX32, 0, 0, 0},
    {"PackageFullName", LAYOUT_W, 0, 0, 0},
    {"PackageRelativeAppId", LAYOUT_W, 0, 0, 0},
    {"Mitigations", LAYOUT_HEX32, 2, 0, 0},
    {"PartitionID", LAYOUT_U32, 3, 0, 0},
    {"ProcessMachine", LAYOUT_U16, 3, 0, 0},
    {0},
};

static const struct layout_field stop[] = {
    {"ProcessID", LAYOUT_U32, 0, 0, 0},
    {"ProcessSequenceNumber", LAYOUT_U64, 2, 0, 0},
    {"CreateTime", LAYOUT_FILETIME, 0, 0, 0},
    {"ExitTime", LAYOUT_FILETIME, 0, 0, 0},
    {"ExitCode", LAYOUT_HEX32, 0, 0, 0},
    {"TokenElevationType", LAYOUT_U32, 0, 0, 0},
    {"HandleCount", LAYOUT_U32, 0, 0, 0},
    {"CommitCharge", LAYOUT_U64, 0, 0, 0},
    {"CommitPeak", LAYOUT_U64, 0, 0, 0},
    {"CPUCycleCount", LAYOUT_U64, 1, 0, 0},
    {"ReadOperationCount", LAYOUT_U32, 1, 0, 0},
    {"WriteOperationCount", LAYOUT_U32, 1, 0, 0},
    {"ReadTransferKiloBytes", LAYOUT_U32, 1, 0, 0},
    {"WriteTransferKiloBytes", LAYOUT_U32, 1, 0, 0},
    {"HardFaultCount", LAYOUT_U32, 1, 0, 0},
    {"ImageName", LAYOUT_A, 0, 0, 0},
    {0},
};

static const struct layout_field thread_start[] = {
    {"ProcessID", LAYOUT_U32, 0, 0, 0},
    {"ThreadID", LAYOUT_U32, 0, 0, 0},
    {"StackBase", LAYOUT_PTR, 0, 0, 0},
    {"StackLimit", LAYOUT_PTR, 0, 0, 0},
    {"UserStackBase", LAYOUT_PTR, 0, 0, 0},
    {"UserStackLimit", LAYOUT_PTR, 0, 0, 0},
    {"StartAddr", LAYOUT_PTR, 0, 0, 0},
    {"Win32StartAddr", LAYOUT_PTR, 0, 0, 0},
    {"TebBase", LAYOUT_PTR, 0, 0, 0},
    {"SubProcessTag", LAYOUT_HEX32, 1, 0, 0},
    {0},
};

static const struct layout_field thread_stop[] = {
    {"ProcessID", LAYOUT_U32, 0, 0, 0},     {"ThreadID", LAYOUT_U32, 0, 0, 0},
    {"StackBase", LAYOUT_PTR, 0, 0, 0},     {"StackLimit", LAYOUT_PTR, 0, 0, 0},
    {"UserStackBase", LAYOUT_PTR, 0, 0, 0}, {"UserStackLimit", LAYOUT_PTR, 0, 0, 0},
    {"StartAddr", LAYOUT_PTR, 0, 0, 0},     {"Win32StartAddr", LAYOUT_PTR, 0, 0, 0},
    {"TebBase", LAYOUT_PTR, 0, 0, 0},       {"SubProcessTag", LAYOUT_HEX32, 1, 0, 0},
    {"CycleTime", LAYOUT_U64, 1, 0, 0},     {0},
};

static const struct layout_field image[] = {
    {"ImageBase", LAYOUT_PTR, 0, 0, 0},       {"ImageSize", LAYOUT_SIZE, 0, 0, 0},
    {"ProcessID", LAYOUT_U32, 0, 0, 0},       {"ImageCheckSum", LAYOUT_HEX32, 0, 0, 0},
    {"TimeDateStamp", LAYOUT_HEX32, 0, 0, 0}, {"DefaultBase", LAYOUT_PTR, 0, 0, 0},
    {"ImageName", LAYOUT_W, 0, 0, 0},         {0},
};

static const struct layout_field priority[] = {
    {"ProcessID", LAYOUT_U32, 0, 0, 0},
    {"ThreadID", LAYOUT_U32, 0, 0, 0},
    {"OldPriority", LAYOUT_U8, 0, 0, 0},
    {"NewPriority", LAYOUT_U8, 0, 0, 0},
    {0},
};

static const struct layout_field freeze[] = {
    {"FrozenProcessID", LAYOUT_U32, 0, 0, 0},
    {"CreateTime", LAYOUT_FILETIME, 1, 0, 0},
    {0},
};

static const struct layout_field job[] = {
    {"ContainerID", LAYOUT_GUID, 0, 0, 0},
    {"JobID", LAYOUT_U32, 0, 0, 0},
    {"StatusCode", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout layouts[] = {
    {1, 0, 0, "ProcessStart", start},
    {2, 0, 0, "ProcessStop", stop},
    {3, 0, 0, "ThreadStart", thread_start},
    {4, 0, 0, "ThreadStop", thread_stop},
    {5, 0, 0, "ImageLoad", image},
    {6, 0, 0, "ImageUnload", image},
    {7, 0, 0, "CpuBasePriorityChange", priority},
    {8, 0, 0, "CpuPriorityChange", priority},
    {9, 0, 0, "PagePriorityChange", priority},
    {10, 0, 0, "IoPriorityChange", priority},
    {11, 0, 0, "ProcessFreezeStart", freeze},
    {12, 0, 0, "ProcessFreezeStop", freeze},
    {13, 0, 0, "JobStart", job},
    {14, 0, 0, "JobTerminate", job},
    {15, 0, 0, "ProcessRundown", rundown},
};

const struct decode_class decode_kernel_process_class = {
    .guid = ETW_PROVIDER_KERNEL_PROCESS,
    .form = RAW_MANIFEST,
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .name = "Microsoft-Windows-Kernel-Process",
    .layouts = layouts,
    .n_layouts = sizeof layouts / sizeof layouts[0],
};
