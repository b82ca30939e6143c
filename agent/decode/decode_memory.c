/* Class PageFault: how pages come into working sets, and address space into processes.
 *
 *   10 … 15     the soft kinds, all versions: P address, P instruction
 *               10 transition, 11 demand zero, 12 copy on write, 13 guard, 14 hard, 15 violation
 *   32          HardFault, all versions: u64 begin in clock ticks, u64 offset in the file,
 *               P address, P file, u32 tid, u32 bytes
 *   98, 99      VirtualAlloc, VirtualFree: P base, P size, u32 pid, u32 flags (MEM_COMMIT 0x1000,
 *   128, 129    MEM_RESERVE 0x2000, MEM_DECOMMIT 0x4000, MEM_RELEASE 0x8000); the same and P bytes
 *               of it committed, at either end of a trace, for what is allocated then
 *   100 … 104   ranges of heaps
 *   105         ImageLoadBacked: an image that will be paged from the page file
 *
 * A fault of kind 14 tells that a page must be read, record 32 that it has been read: two views of
 * one thing, and only the second one knows thread, bytes and time. The soft kinds have no ids in
 * the payload; newer systems log them without any (PERFINFO), then nobody knows whose they were. */
#include "agent/decode/decode_class.h"
#include "agent/decode/decode_ticks.h"
#include "agent/source/etw_guid.h"
#include "common/base/cur.h"

#define OP_TRANSITION 10

static enum err decode_soft(struct event *out, enum event_kind kind, const struct raw_event *raw,
                            struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_soft_fault ev = {.what = (uint8_t)(FAULT_TRANSITION + raw->opcode - OP_TRANSITION)};

    (void)kind;
    (void)text;
    ev.address = cur_uptr(&c, raw->pointer_size);
    ev.ip = cur_uptr(&c, raw->pointer_size);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.soft_fault = ev;
    return ERR_OK;
}

static enum err decode_hard(struct event *out, enum event_kind kind, const struct raw_event *raw,
                            struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_hard_fault ev = {0};

    (void)kind;
    (void)text;
    ev.took_ns = decode_took_ns(raw, cur_u64le(&c));
    ev.offset = cur_u64le(&c);
    ev.address = cur_uptr(&c, raw->pointer_size);
    ev.file = cur_uptr(&c, raw->pointer_size);
    ev.tid = cur_u32le(&c);
    ev.bytes = cur_u32le(&c);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.hard_fault = ev;
    return ERR_OK;
}

static enum err decode_virtual(struct event *out, enum event_kind kind, const struct raw_event *raw,
                               struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_virtual ev = {0};

    (void)kind;
    (void)text;
    ev.base = cur_uptr(&c, raw->pointer_size);
    ev.size = cur_uptr(&c, raw->pointer_size);
    ev.pid = cur_u32le(&c);
    ev.flags = cur_u32le(&c);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.vm = ev;
    return ERR_OK;
}

static const struct decode_op ops[] = {
    {32, 0, EV_HARD_FAULT, decode_hard},      {10, 0, EV_SOFT_FAULT, decode_soft},
    {11, 0, EV_SOFT_FAULT, decode_soft},      {12, 0, EV_SOFT_FAULT, decode_soft},
    {13, 0, EV_SOFT_FAULT, decode_soft},      {14, 0, EV_SOFT_FAULT, decode_soft},
    {15, 0, EV_SOFT_FAULT, decode_soft},      {98, 0, EV_VIRTUAL_ALLOC, decode_virtual},
    {99, 0, EV_VIRTUAL_FREE, decode_virtual},
};

static const struct layout_field soft[] = {
    {"VirtualAddress", LAYOUT_PTR, 0, 0, 0},
    {"ProgramCounter", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field hard[] = {
    {"InitialTime", LAYOUT_TICKS, 0, 0, 0},
    {"ReadOffset", LAYOUT_U64, 0, 0, 0},
    {"VirtualAddress", LAYOUT_PTR, 0, 0, 0},
    {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"TThreadId", LAYOUT_U32, 0, 0, 0},
    {"ByteCount", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field region[] = {
    {"BaseAddress", LAYOUT_PTR, 0, 0, 0},
    {"RegionSize", LAYOUT_SIZE, 0, 0, 0},
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"Flags", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout_field region_found[] = {
    {"BaseAddress", LAYOUT_PTR, 0, 0, 0},        {"RegionSize", LAYOUT_SIZE, 0, 0, 0},
    {"ProcessId", LAYOUT_U32, 0, 0, 0},          {"Flags", LAYOUT_HEX32, 0, 0, 0},
    {"CommitSizeInBytes", LAYOUT_SIZE, 0, 0, 0}, {0},
};

/* The ranges are pairs: address, size. */
static const struct layout_field heap_rundown[] = {
    {"HeapHandle", LAYOUT_PTR, 0, 0, 0},    {"HRFlags", LAYOUT_HEX32, 0, 0, 0},
    {"HRPid", LAYOUT_U32, 0, 0, 0},         {"HRRangeCount", LAYOUT_U32, 0, 0, 0},
    {"Reserved", LAYOUT_U32, 3, 3, 0},      {"HRHeapTag", LAYOUT_HEX64, 4, 0, 0},
    {"HRRanges", LAYOUT_PTR_REST, 0, 0, 0}, {0},
};

static const struct layout_field heap_create[] = {
    {"HeapHandle", LAYOUT_PTR, 0, 0, 0},
    {"FirstRangeSize", LAYOUT_SIZE, 0, 0, 0},
    {"HRCreateFlags", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout_field heap_range[] = {
    {"HeapHandle", LAYOUT_PTR, 0, 0, 0},
    {"HRAddress", LAYOUT_PTR, 0, 0, 0},
    {"HRSize", LAYOUT_SIZE, 0, 0, 0},
    {0},
};

static const struct layout_field heap_destroy[] = {
    {"HeapHandle", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field image_backed[] = {
    {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"DeviceChar", LAYOUT_HEX32, 0, 0, 0},
    {"FileChar", LAYOUT_U16, 0, 0, 0},
    {"LoadFlags", LAYOUT_U16, 0, 0, 0},
    {0},
};

static const struct layout layouts[] = {
    {10, 0, 0, "TransitionFault", soft},
    {11, 0, 0, "DemandZeroFault", soft},
    {12, 0, 0, "CopyOnWrite", soft},
    {13, 0, 0, "GuardPageFault", soft},
    {14, 0, 0, "HardPageFault", soft},
    {15, 0, 0, "AccessViolation", soft},
    {32, 0, 0, "HardFault", hard},
    {98, 0, 0, "VirtualAlloc", region},
    {99, 0, 0, "VirtualFree", region},
    {100, 0, 0, "HRRundown", heap_rundown},
    {101, 0, 0, "HRCreate", heap_create},
    {102, 0, 0, "HRReserve", heap_range},
    {103, 0, 0, "HRRelease", heap_range},
    {104, 0, 0, "HRDestroy", heap_destroy},
    {105, 0, 0, "ImageLoadBacked", image_backed},
    {128, 0, 0, "VirtualAllocDCStart", region_found},
    {129, 0, 0, "VirtualAllocDCEnd", region_found},
};

const struct decode_class decode_page_fault_class = {
    .guid = ETW_CLASS_PAGE_FAULT,
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .name = "PageFault",
    .layouts = layouts,
    .n_layouts = sizeof layouts / sizeof layouts[0],
};
