/* Class Process: who was created, who ended, who was there when a recording began and ended.
 *
 * P = pointer of the record, w = UTF-16 text, a = 8-bit text, both NUL-terminated:
 *   version 0   P pid, P parent, SID, a image
 *   version 1   P key, u32 pid, u32 parent, u32 session, i32 exit status, SID, a image
 *   version 2   … and w command line
 *   version 3   … P page directory before the SID
 *   version 4   … u32 flags before the SID; w package, w application at the end
 *   version 5   … u64 exit time at the end (only seen with opcode 39)
 * Those are start 1, end 2, the rundowns 3 and 4, and defunct 39. Terminate 11 is u32 pid; the
 * counters 32, 33 at a process' end and at the end of the session are u32 pid, u32 page faults, u32
 * handles, u32 reserved, P × 11 sizes. */
#include "agent/decode/decode_class.h"
#include "agent/source/etw_guid.h"
#include "common/base/clk.h"
#include "common/base/cur.h"

#define NO_SESSION      UINT32_MAX
#define COUNTERS_AT_END 32 /* opcode */

static void ids_read(struct ev_proc *ev, struct cur *c, const struct raw_event *raw)
{
    if (raw->version == 0) {
        ev->info.id.pid = (uint32_t)cur_uptr(c, raw->pointer_size);
        ev->info.parent_pid = (uint32_t)cur_uptr(c, raw->pointer_size);
        return;
    }
    ev->key = cur_uptr(c, raw->pointer_size);
    ev->info.id.pid = cur_u32le(c);
    ev->info.parent_pid = cur_u32le(c);
    ev->info.session_id = cur_u32le(c);
    ev->info.exit_code = cur_u32le(c);
    if (ev->info.session_id != NO_SESSION) {
        ev->info.have |= INFO_SESSION;
    }
}

static void texts_read(struct ev_proc *ev, struct cur *c, const struct raw_event *raw,
                       struct decode_text *text)
{
    size_t n;
    bool cut = false;
    const uint8_t *w;
    const char *a = cur_cstr(c, &n);

    if (a) {
        ev->info.name = decode_text_8bit(text, a, n, MODEL_TEXT_MAX);
    }
    if (raw->version < 2) {
        return;
    }
    w = cur_wstr(c, &n);
    if (w) {
        ev->info.command_line = decode_text_utf16(text, w, n, MODEL_COMMAND_LINE_MAX, &cut);
        ev->info.have |= cut ? INFO_COMMAND_LINE_CUT : 0u;
    }
    if (raw->version >= 4) {
        w = cur_wstr(c, &n);
        if (w && n) {
            ev->package = decode_text_utf16(text, w, n, MODEL_TEXT_MAX, NULL);
        }
        (void)cur_wstr(c, &n); /* application */
    }
}

/* What follows from the kind of record rather than from its bytes. An empty command line in a
 * rundown may only mean that it could not be read. */
static void imply(struct ev_proc *ev, enum event_kind kind, const struct raw_event *raw)
{
    struct proc_info *info = &ev->info;

    info->have |= INFO_PARENT;
    if (raw->version >= 2 && (info->command_line.n > 0 || kind == EV_PROC_START)) {
        info->have |= INFO_COMMAND_LINE_KNOWN;
    }
    switch (kind) {
    case EV_PROC_START:
        info->origin = ORIGIN_START;
        ev->provisional = true;
        info->id.start = clk_to_filetime(raw->wall_ns);
        info->create_ns = raw->wall_ns;
        info->have |= INFO_CREATE_TIME;
        break;
    case EV_PROC_STOP:
        info->exit_ns = raw->wall_ns;
        info->have |= INFO_EXITED | INFO_EXIT_TIME;
        info->have |= raw->version >= 1 ? INFO_EXIT_CODE : 0u;
        break;
    case EV_PROC_DEFUNCT:
        info->origin = ORIGIN_RUNDOWN;
        info->have |= INFO_EXITED;
        break;
    default:
        info->origin = ORIGIN_RUNDOWN;
        break;
    }
    if (!(info->have & INFO_EXIT_CODE)) {
        info->exit_code = 0; /* of the living it only says that they live */
    }
}

static enum err decode_process(struct event *out, enum event_kind kind, const struct raw_event *raw,
                               struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_proc ev = {0};
    uint64_t exit_filetime = 0;

    ids_read(&ev, &c, raw);
    if (raw->version >= 3) {
        cur_skip(&c, raw->pointer_size);
    }
    if (raw->version >= 4) {
        cur_skip(&c, 4);
    }
    ev.info.user = decode_text_user_at(text, &c, raw->pointer_size);
    texts_read(&ev, &c, raw, text);
    if (raw->version >= 5) {
        exit_filetime = cur_u64le(&c);
    }
    if (c.bad) {
        return ERR_CORRUPT;
    }
    imply(&ev, kind, raw);
    if (exit_filetime && kind == EV_PROC_DEFUNCT) {
        ev.info.exit_ns = clk_add(clk_from_filetime(exit_filetime), raw->shift_ns);
        ev.info.have |= INFO_EXIT_TIME;
    }
    out->u.proc = ev;
    return ERR_OK;
}

static void counter_put(struct event *out, struct decode_text *text, unsigned id, uint64_t v)
{
    text->totals[id] = v > INT64_MAX ? INT64_MAX : (int64_t)v;
    out->u.counters.mask |= METRIC_BIT(id);
}

/* Process 0 has the handles of the System process. At an end all but the peaks is 0 already. */
static enum err decode_counters(struct event *out, enum event_kind kind,
                                const struct raw_event *raw, struct decode_text *text)
{
    enum {
        PEAK_WORKING_SET = 1,
        VIRTUAL = 5,
        WORKING_SET = 6,
        PAGED = 8,
        NON_PAGED = 9,
        PRIVATE = 10
    };
    struct cur c = cur_make(raw->payload, raw->payload_n);
    uint32_t pid = cur_u32le(&c), faults = cur_u32le(&c), handles = cur_u32le(&c);
    uint64_t sizes[11];

    (void)kind;
    cur_skip(&c, 4);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        sizes[i] = cur_uptr(&c, raw->pointer_size);
    }
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.counters = (struct ev_proc_counters){.pid = pid, .values = text->totals};
    if (pid == 0) {
        return ERR_OK;
    }
    counter_put(out, text, M_PEAK_WORKING_SET, sizes[PEAK_WORKING_SET]);
    if (raw->opcode == COUNTERS_AT_END) {
        return ERR_OK;
    }
    counter_put(out, text, M_PAGE_FAULTS, faults);
    counter_put(out, text, M_HANDLE_COUNT, handles);
    counter_put(out, text, M_VIRTUAL_BYTES, sizes[VIRTUAL]);
    counter_put(out, text, M_WORKING_SET_SIZE, sizes[WORKING_SET]);
    counter_put(out, text, M_PAGED_POOL, sizes[PAGED]);
    counter_put(out, text, M_NON_PAGED_POOL, sizes[NON_PAGED]);
    counter_put(out, text, M_PRIVATE_BYTES, sizes[PRIVATE]);
    return ERR_OK;
}

static const struct decode_op ops[] = {
    {1, 0, EV_PROC_START, decode_process},
    {2, 0, EV_PROC_STOP, decode_process},
    {3, 0, EV_PROC_FOUND, decode_process},
    {4, 0, EV_PROC_LAST, decode_process},
    {39, 0, EV_PROC_DEFUNCT, decode_process},
    {COUNTERS_AT_END, 2, EV_PROC_COUNTERS, decode_counters},
    {33, 2, EV_PROC_COUNTERS, decode_counters},
};

static const struct layout_field process[] = {
    {"UniqueProcessKey", LAYOUT_PTR, 2, 0, 0},
    {"PageDirectoryBase", LAYOUT_PTR, 0, 1, 0},
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"ParentId", LAYOUT_U32, 0, 0, 0},
    {"SessionId", LAYOUT_U32, 0, 0, 0},
    {"ExitStatus", LAYOUT_I32, 0, 0, 0},
    {"DirectoryTableBase", LAYOUT_PTR, 3, 0, 0},
    {"Flags", LAYOUT_HEX32, 4, 0, 0},
    {"UserSID", LAYOUT_USER, 0, 0, 0},
    {"ImageFileName", LAYOUT_A, 0, 0, 0},
    {"CommandLine", LAYOUT_W, 2, 0, 0},
    {"PackageFullName", LAYOUT_W, 4, 0, 0},
    {"ApplicationId", LAYOUT_W, 4, 0, 0},
    {"ExitTime", LAYOUT_FILETIME, 5, 0, 0},
    {0},
};

static const struct layout_field process_v0[] = {
    {"ProcessId", LAYOUT_SIZE, 0, 0, 0},
    {"ParentId", LAYOUT_SIZE, 0, 0, 0},
    {"UserSID", LAYOUT_USER, 0, 0, 0},
    {"ImageFileName", LAYOUT_A, 0, 0, 0},
    {0},
};

static const struct layout_field terminate[] = {
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field counters[] = {
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"PageFaultCount", LAYOUT_U32, 0, 0, 0},
    {"HandleCount", LAYOUT_U32, 0, 0, 0},
    {"Reserved", LAYOUT_U32, 0, 0, 0},
    {"PeakVirtualSize", LAYOUT_SIZE, 0, 0, 0},
    {"PeakWorkingSetSize", LAYOUT_SIZE, 0, 0, 0},
    {"PeakPagefileUsage", LAYOUT_SIZE, 0, 0, 0},
    {"QuotaPeakPagedPoolUsage", LAYOUT_SIZE, 0, 0, 0},
    {"QuotaPeakNonPagedPoolUsage", LAYOUT_SIZE, 0, 0, 0},
    {"VirtualSize", LAYOUT_SIZE, 0, 0, 0},
    {"WorkingSetSize", LAYOUT_SIZE, 0, 0, 0},
    {"PagefileUsage", LAYOUT_SIZE, 0, 0, 0},
    {"QuotaPagedPoolUsage", LAYOUT_SIZE, 0, 0, 0},
    {"QuotaNonPagedPoolUsage", LAYOUT_SIZE, 0, 0, 0},
    {"PrivatePageCount", LAYOUT_SIZE, 0, 0, 0},
    {0},
};

static const struct layout layouts[] = {
    {1, 1, 0, "Start", process},
    {2, 1, 0, "End", process},
    {3, 1, 0, "DCStart", process},
    {4, 1, 0, "DCEnd", process},
    {39, 1, 0, "Defunct", process},
    {1, 0, 0, "Start", process_v0},
    {2, 0, 0, "End", process_v0},
    {3, 0, 0, "DCStart", process_v0},
    {4, 0, 0, "DCEnd", process_v0},
    {39, 0, 0, "Defunct", process_v0},
    {11, 2, 0, "Terminate", terminate},
    {32, 2, 0, "PerfCtr", counters},
    {33, 2, 0, "PerfCtrRundown", counters},
};

const struct decode_class decode_process_class = {
    .guid = ETW_CLASS_PROCESS,
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .name = "Process",
    .layouts = layouts,
    .n_layouts = sizeof layouts / sizeof layouts[0],
};
