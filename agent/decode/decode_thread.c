/* Class Thread: which process a thread belongs to, from the payload, since the record's own ids are
 * those of the code that ran; and what the scheduler does with threads.
 *
 * P = pointer of the record, w = UTF-16 text with terminator.
 *   start 1, end 2, rundown 3 and 4
 *     version 0   u32 tid, u32 pid
 *     version 1   u32 pid, u32 tid; all but opcode 2 also: P × 6 addresses, u8 wait mode
 *     version 2   u32 pid, u32 tid, P × 7 addresses, u32 service tag
 *     version 3   the fifth address became the affinity; … u8 × 4 priorities and flags, and on
 *                 newer systems w thread name, without a new version: the length tells
 *     version 4   as 3 with the name
 *   switch 36     24 bytes whatever the pointers: u32 new tid, u32 old tid, their priorities, six
 *                 single bytes, most of them about the old one, u32 wait time of the new one, u32
 *                 reserved; version 1 ends before the wait time. Later versions give the spare
 *                 bytes a meaning but move nothing. Whose threads these are is not said.
 *   ready 50      u32 tid, then three bytes: why and by how much its priority is raised, flags
 *   name 72       u32 pid, u32 tid, w name */
#include "agent/decode/decode_class.h"
#include "agent/source/etw_guid.h"
#include "agent/source/event_switch.h"
#include "common/base/cur.h"

/* Addresses between the ids and the name; from version 3 on also where the thread may run. */
static void places_read(struct ev_thread *ev, struct cur *c, enum event_kind kind,
                        const struct raw_event *raw)
{
    if (raw->version < 3) {
        cur_skip(c, raw->version == 2                             ? 7u * raw->pointer_size + 4
                    : raw->version == 1 && kind != EV_THREAD_STOP ? 6u * raw->pointer_size + 1
                                                                  : 0);
        return;
    }
    cur_skip(c, 4u * raw->pointer_size);
    ev->affinity = cur_uptr(c, raw->pointer_size);
    cur_skip(c, 2u * raw->pointer_size + 4);
    ev->priority = cur_u8(c);
    cur_skip(c, 1);
    ev->io_priority = cur_u8(c);
    cur_skip(c, 1);
    ev->placed = true;
}

static enum err decode_thread(struct event *out, enum event_kind kind, const struct raw_event *raw,
                              struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_thread ev = {.name = {"", 0}};
    uint32_t first = cur_u32le(&c), second = cur_u32le(&c);
    const uint8_t *name;
    size_t n;

    ev.pid = raw->version == 0 ? second : first;
    ev.tid = raw->version == 0 ? first : second;
    places_read(&ev, &c, kind, raw);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    name = raw->version >= 3 ? cur_wstr(&c, &n) : NULL;
    if (name && n) {
        ev.name = decode_text_utf16(text, name, n, MODEL_TEXT_MAX, NULL);
    }
    out->u.thread = ev;
    return ERR_OK;
}

static enum err decode_name(struct event *out, enum event_kind kind, const struct raw_event *raw,
                            struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_thread ev = {.name = {"", 0}};
    const uint8_t *name;
    size_t n;

    (void)kind;
    ev.pid = cur_u32le(&c);
    ev.tid = cur_u32le(&c);
    name = cur_wstr(&c, &n);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    ev.name = decode_text_utf16(text, name, n, MODEL_TEXT_MAX, NULL);
    out->u.thread = ev;
    return ERR_OK;
}

/* Nine of ten records of a busy trace: one look at the length, then reads at fixed places. */
static enum err decode_cswitch(struct event *out, enum event_kind kind, const struct raw_event *raw,
                               struct decode_text *text)
{
    struct ev_cswitch *ev = &out->u.cswitch;
    const uint8_t *p = raw->payload;
    struct event_switch sw;

    (void)kind;
    (void)text;
    if (!event_switch_read(&sw, raw->cpu, p, raw->payload_n, raw->version)) {
        return ERR_CORRUPT;
    }
    ev->new_tid = sw.new_tid;
    ev->old_tid = sw.old_tid;
    ev->old_state = sw.old_state;
    ev->new_priority = (int8_t)p[8];
    ev->old_priority = (int8_t)p[9];
    ev->old_wait_reason = p[12];
    ev->old_wait_mode = (int8_t)p[13];
    ev->new_wait_time = raw->version >= 2 ? cur_at32le(p + 16) : 0;
    return ERR_OK;
}

static enum err decode_ready(struct event *out, enum event_kind kind, const struct raw_event *raw,
                             struct decode_text *text)
{
    struct event_switch sw;

    (void)kind;
    (void)text;
    if (!event_ready_read(&sw, raw->cpu, raw->payload, raw->payload_n, raw->version)) {
        return ERR_CORRUPT;
    }
    out->u.ready.tid = sw.new_tid;
    return ERR_OK;
}

static const struct decode_op ops[] = {
    {36, 1, EV_CSWITCH, decode_cswitch},    {50, 2, EV_READY, decode_ready},
    {1, 0, EV_THREAD_START, decode_thread}, {2, 0, EV_THREAD_STOP, decode_thread},
    {3, 0, EV_THREAD_FOUND, decode_thread}, {4, 0, EV_THREAD_LAST, decode_thread},
    {72, 2, EV_THREAD_NAME, decode_name},
};

static const struct layout_field thread_v2[] = {
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"TThreadId", LAYOUT_U32, 0, 0, 0},
    {"StackBase", LAYOUT_PTR, 0, 0, 0},
    {"StackLimit", LAYOUT_PTR, 0, 0, 0},
    {"UserStackBase", LAYOUT_PTR, 0, 0, 0},
    {"UserStackLimit", LAYOUT_PTR, 0, 0, 0},
    {"StartAddr", LAYOUT_PTR, 0, 2, 0},
    {"Affinity", LAYOUT_PTR, 3, 0, 0},
    {"Win32StartAddr", LAYOUT_PTR, 0, 0, 0},
    {"TebBase", LAYOUT_PTR, 0, 0, 0},
    {"SubProcessTag", LAYOUT_HEX32, 0, 0, 0},
    {"BasePriority", LAYOUT_U8, 3, 0, 0},
    {"PagePriority", LAYOUT_U8, 3, 0, 0},
    {"IoPriority", LAYOUT_U8, 3, 0, 0},
    {"ThreadFlags", LAYOUT_U8, 3, 0, 0},
    {"ThreadName", LAYOUT_W_OPT, 3, 0, 0},
    {0},
};

static const struct layout_field thread_v1_begin[] = {
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"TThreadId", LAYOUT_U32, 0, 0, 0},
    {"StackBase", LAYOUT_PTR, 0, 0, 0},
    {"StackLimit", LAYOUT_PTR, 0, 0, 0},
    {"UserStackBase", LAYOUT_PTR, 0, 0, 0},
    {"UserStackLimit", LAYOUT_PTR, 0, 0, 0},
    {"StartAddr", LAYOUT_PTR, 0, 0, 0},
    {"Win32StartAddr", LAYOUT_PTR, 0, 0, 0},
    {"WaitMode", LAYOUT_I8, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {0},
};

static const struct layout_field thread_v1_end[] = {
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"TThreadId", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field thread_v0[] = {
    {"TThreadId", LAYOUT_U32, 0, 0, 0},
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field cswitch[] = {
    {"NewThreadId", LAYOUT_U32, 0, 0, 0},
    {"OldThreadId", LAYOUT_U32, 0, 0, 0},
    {"NewThreadPriority", LAYOUT_I8, 0, 0, 0},
    {"OldThreadPriority", LAYOUT_I8, 0, 0, 0},
    {"NewThreadQuantum", LAYOUT_I8, 0, 1, 0},
    {"OldThreadQuantum", LAYOUT_I8, 0, 1, 0},
    {"PreviousCState", LAYOUT_U8, 2, 0, 0},
    {"SpareByte", LAYOUT_I8, 2, 0, 0},
    {"OldThreadWaitReason", LAYOUT_I8, 0, 0, 0},
    {"OldThreadWaitMode", LAYOUT_I8, 0, 3, 0},
    {"ThreadFlags", LAYOUT_I8, 4, 0, 0},
    {"OldThreadState", LAYOUT_I8, 0, 0, 0},
    {"OldThreadWaitIdealProcessor", LAYOUT_I8, 0, 0, 0},
    {"NewThreadWaitTime", LAYOUT_U32, 2, 0, 0},
    {"Reserved", LAYOUT_HEX32, 2, 0, 0},
    {0},
};

static const struct layout_field spin_lock[] = {
    {"SpinLockAddress", LAYOUT_PTR, 0, 0, 0},
    {"CallerAddress", LAYOUT_PTR, 0, 0, 0},
    {"AcquireTime", LAYOUT_U64, 0, 0, 0},
    {"ReleaseTime", LAYOUT_U64, 0, 0, 0},
    {"WaitTimeInCycles", LAYOUT_U32, 0, 0, 0},
    {"SpinCount", LAYOUT_U32, 0, 0, 0},
    {"ThreadId", LAYOUT_U32, 0, 0, 0},
    {"InterruptCount", LAYOUT_U32, 0, 0, 0},
    {"Irql", LAYOUT_U8, 0, 0, 0},
    {"AcquireDepth", LAYOUT_U8, 0, 0, 0},
    {"Flag", LAYOUT_U8, 0, 0, 0},
    {"Reserved", LAYOUT_U8, 0, 0, 5},
    {0},
};

static const struct layout_field priority[] = {
    {"ThreadId", LAYOUT_U32, 0, 0, 0},
    {"OldPriority", LAYOUT_U8, 0, 0, 0},
    {"NewPriority", LAYOUT_U8, 0, 0, 0},
    {"Reserved", LAYOUT_U16, 0, 0, 0},
    {0},
};

static const struct layout_field ready[] = {
    {"TThreadId", LAYOUT_U32, 0, 0, 0},      {"AdjustReason", LAYOUT_I8, 0, 0, 0},
    {"AdjustIncrement", LAYOUT_I8, 0, 0, 0}, {"Flag", LAYOUT_I8, 0, 0, 0},
    {"Reserved", LAYOUT_I8, 0, 0, 0},        {0},
};

static const struct layout_field boost_floor[] = {
    {"Lock", LAYOUT_PTR, 0, 0, 0},
    {"ThreadId", LAYOUT_U32, 0, 0, 0},
    {"NewCpuPriorityFloor", LAYOUT_U8, 0, 0, 0},
    {"OldCpuPriority", LAYOUT_U8, 0, 0, 0},
    {"IoPriorities", LAYOUT_U8, 0, 0, 0},
    {"BoostFlags", LAYOUT_U8, 0, 0, 0},
    {0},
};

static const struct layout_field boost_clear[] = {
    {"LockAddress", LAYOUT_PTR, 0, 0, 0},
    {"ThreadId", LAYOUT_U32, 0, 0, 0},
    {"BoostBitmap", LAYOUT_U16, 0, 0, 0},
    {"Reserved", LAYOUT_U16, 0, 0, 0},
    {0},
};

static const struct layout_field boost_exhausted[] = {
    {"LockAddress", LAYOUT_PTR, 0, 0, 0},
    {"ThreadId", LAYOUT_U32, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {0},
};

static const struct layout_field name[] = {
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"TThreadId", LAYOUT_U32, 0, 0, 0},
    {"ThreadName", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field affinity[] = {
    {"Affinity", LAYOUT_PTR, 0, 0, 0},
    {"ThreadId", LAYOUT_U32, 0, 0, 0},
    {"Group", LAYOUT_U16, 0, 0, 0},
    {"Reserved", LAYOUT_U16, 0, 0, 0},
    {0},
};

static const struct layout_field worker[] = {
    {"TThreadId", LAYOUT_U32, 0, 0, 0},
    {"StartTime", LAYOUT_U64, 0, 0, 0},
    {"ThreadRoutine", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field starving[] = {
    {"ThreadId", LAYOUT_U32, 0, 0, 0},
    {"ProcessorIndex", LAYOUT_U16, 0, 0, 0},
    {"Priority", LAYOUT_U8, 0, 0, 0},
    {"Reserved", LAYOUT_U8, 0, 0, 0},
    {0},
};

static const struct layout_field migration[] = {
    {"ThreadId", LAYOUT_U32, 0, 0, 0},
    {"SourceProcessorIndex", LAYOUT_U16, 0, 0, 0},
    {"TargetProcessorIndex", LAYOUT_U16, 0, 0, 0},
    {"Priority", LAYOUT_U8, 0, 0, 0},
    {"IdealProcessorAdjust", LAYOUT_BOOL8, 0, 0, 0},
    {"OldIdealProcessorIndex", LAYOUT_U16, 0, 0, 0},
    {0},
};

static const struct layout_field enqueue[] = {
    {"Entry", LAYOUT_PTR, 0, 0, 0},
    {"ThreadId", LAYOUT_U32, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {0},
};

static const struct layout_field dequeue[] = {
    {"ThreadId", LAYOUT_U32, 0, 0, 0},
    {"EntryCount", LAYOUT_U32, 0, 0, 0},
    {"Entries", LAYOUT_PTR_REST, 0, 0, 0},
    {0},
};

static const struct layout_field callback[] = {
    {"CallbackRoutine", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field service_tag[] = {
    {"OldTag", LAYOUT_HEX32, 0, 0, 0},
    {"NewTag", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout_field raw_only[] = {{0}};

static const struct layout layouts[] = {
    {1, 2, 0, "Start", thread_v2},
    {2, 2, 0, "End", thread_v2},
    {3, 2, 0, "DCStart", thread_v2},
    {4, 2, 0, "DCEnd", thread_v2},
    {1, 1, 1, "Start", thread_v1_begin},
    {2, 1, 1, "End", thread_v1_end},
    {3, 1, 1, "DCStart", thread_v1_begin},
    {4, 1, 1, "DCEnd", thread_v1_begin},
    {1, 0, 0, "Start", thread_v0},
    {2, 0, 0, "End", thread_v0},
    {3, 0, 0, "DCStart", thread_v0},
    {4, 0, 0, "DCEnd", thread_v0},
    {36, 1, 0, "CSwitch", cswitch},
    {37, 0, 0, "CompCS", raw_only}, /* a batch of packed switches; not documented */
    {41, 2, 0, "SpinLock", spin_lock},
    {48, 3, 0, "SetPriority", priority},
    {49, 3, 0, "SetBasePriority", priority},
    {50, 2, 0, "ReadyThread", ready},
    {51, 3, 0, "SetPagePriority", priority},
    {52, 3, 0, "SetIoPriority", priority},
    {53, 2, 0, "ThreadAffinity", affinity},
    {57, 2, 0, "WorkerThread", worker},
    {60, 2, 0, "AntiStarvationBoost", starving},
    {61, 2, 0, "ThreadMigration", migration},
    {62, 2, 0, "KernelQueueEnqueue", enqueue},
    {63, 2, 0, "KernelQueueDequeue", dequeue},
    {64, 2, 0, "WorkerThreadStart", callback},
    {65, 2, 0, "WorkerThreadEnd", callback},
    {66, 2, 0, "AutoBoostSetFloor", boost_floor},
    {67, 2, 0, "AutoBoostClearFloor", boost_clear},
    {68, 2, 0, "AutoBoostEntryExhaustion", boost_exhausted},
    {69, 2, 0, "SubProcessTagChanged", service_tag},
    {72, 2, 0, "SetName", name},
};

const struct decode_class decode_thread_class = {
    .guid = ETW_CLASS_THREAD,
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .name = "Thread",
    .layouts = layouts,
    .n_layouts = sizeof layouts / sizeof layouts[0],
};
