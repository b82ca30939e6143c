/* Class PerfInfo: what interrupts a CPU and what a profile interrupt finds running there.
 *
 *   sample 46            P instruction, u32 tid, u16 count, u8 flags (1 DPC, 2 ISR), u8 rank; the
 * MOF class calls the last two one reserved u16 counter sample 47    P instruction, u32 tid, u16
 * source, u16 reserved intervals 73, 74     u32 source, u32 new interval, u32 old interval, in 100
 * ns; version 3: w name of the source. 73 when the session begins, 72 at a change, 74 at its end
 *   system call 51, 52   P address at its entry; u32 status at its exit
 *   DPC 66, 68, 69       u64 begin (stamp of the session's clock), P routine; logged at its end
 *   interrupt 67         u64 begin, P routine, u8 return value, u16 vector, u8 reserved, packed
 *   interrupt 50         … u32 message number: message-signalled
 *   mark 34              8-bit text of who marks, with or without terminator */
#include "agent/decode/decode_class.h"
#include "agent/decode/decode_ticks.h"
#include "agent/source/etw_guid.h"
#include "common/base/cur.h"

#define FLAGS_INTERRUPT 3
#define SOURCE_TIMER    0
#define INTERVAL_UNIT   100          /* ns */
#define INTERVAL_MAX    10000000u    /* one second; Windows allows a tenth of it */
#define TOOK_MAX        (60 * CLK_S) /* no system survives a longer DPC or ISR */

static enum err decode_sample(struct event *out, enum event_kind kind, const struct raw_event *raw,
                              struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_cpu_sample ev = {0};

    (void)kind;
    (void)text;
    ev.ip = cur_uptr(&c, raw->pointer_size);
    ev.tid = cur_u32le(&c);
    cur_skip(&c, 2);
    ev.interrupt = cur_u8(&c) & FLAGS_INTERRUPT;
    cur_skip(&c, 1);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.sample = ev;
    return ERR_OK;
}

static enum err decode_pmc(struct event *out, enum event_kind kind, const struct raw_event *raw,
                           struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_cpu_pmc ev = {0};

    (void)kind;
    (void)text;
    ev.ip = cur_uptr(&c, raw->pointer_size);
    ev.tid = cur_u32le(&c);
    ev.source = cur_u16le(&c);
    cur_skip(&c, 2);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.pmc = ev;
    return ERR_OK;
}

static enum err decode_interval(struct event *out, enum event_kind kind,
                                const struct raw_event *raw, struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    uint32_t source = cur_u32le(&c), interval = cur_u32le(&c);

    (void)kind;
    (void)text;
    cur_skip(&c, 4);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    if (source != SOURCE_TIMER) {
        return ERR_NOTFOUND;
    }
    if (interval == 0 || interval > INTERVAL_MAX) {
        return ERR_CORRUPT; /* multiplied by all samples of a recording it must stay a time */
    }
    out->u.interval_ns = (int64_t)interval * INTERVAL_UNIT;
    return ERR_OK;
}

static enum err decode_interrupt(struct event *out, enum event_kind kind,
                                 const struct raw_event *raw, struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_interrupt ev;

    (void)text;
    ev.took_ns = decode_took_ns(raw, cur_u64le(&c));
    ev.routine = cur_uptr(&c, raw->pointer_size);
    if (kind == EV_ISR) {
        cur_skip(&c, raw->opcode == 50 ? 8 : 4);
    }
    if (c.bad) {
        return ERR_CORRUPT;
    }
    if (ev.took_ns > TOOK_MAX) {
        ev.took_ns = 0;
    }
    out->u.interrupt = ev;
    return ERR_OK;
}

static enum err decode_syscall(struct event *out, enum event_kind kind, const struct raw_event *raw,
                               struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_syscall ev = {0};

    (void)text;
    if (kind == EV_SYSCALL_ENTER) {
        ev.address = cur_uptr(&c, raw->pointer_size);
    } else {
        ev.status = cur_u32le(&c);
    }
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.syscall = ev;
    return ERR_OK;
}

/* The most frequent first. */
static const struct decode_op ops[] = {
    {51, 2, EV_SYSCALL_ENTER, decode_syscall},
    {52, 2, EV_SYSCALL_EXIT, decode_syscall},
    {68, 2, EV_DPC, decode_interrupt},
    {67, 2, EV_ISR, decode_interrupt},
    {46, 2, EV_CPU_SAMPLE, decode_sample},
    {47, 2, EV_CPU_PMC, decode_pmc},
    {69, 2, EV_DPC, decode_interrupt},
    {66, 2, EV_DPC, decode_interrupt},
    {50, 2, EV_ISR, decode_interrupt},
    {72, 2, EV_CPU_SAMPLE_INTERVAL, decode_interval},
    {73, 2, EV_CPU_SAMPLE_INTERVAL, decode_interval},
    {74, 2, EV_CPU_SAMPLE_INTERVAL, decode_interval},
};

static const struct layout_field sample[] = {
    {"InstructionPointer", LAYOUT_PTR, 0, 0, 0},
    {"ThreadId", LAYOUT_U32, 0, 0, 0},
    {"Count", LAYOUT_U16, 0, 0, 0},
    {"Reserved", LAYOUT_U16, 0, 0, 0},
    {0},
};

static const struct layout_field pmc_sample[] = {
    {"InstructionPointer", LAYOUT_PTR, 0, 0, 0},
    {"ThreadId", LAYOUT_U32, 0, 0, 0},
    {"ProfileSource", LAYOUT_U16, 0, 0, 0},
    {"Reserved", LAYOUT_U16, 0, 0, 0},
    {0},
};

static const struct layout_field interval[] = {
    {"Source", LAYOUT_U32, 0, 0, 0},
    {"NewInterval", LAYOUT_U32, 0, 0, 0},
    {"OldInterval", LAYOUT_U32, 0, 0, 0},
    {"SourceName", LAYOUT_W_OPT, 3, 0, 0},
    {0},
};

static const struct layout_field syscall_enter[] = {
    {"SysCallAddress", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field syscall_exit[] = {
    {"SysCallNtStatus", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout_field dpc[] = {
    {"InitialTime", LAYOUT_TICKS, 0, 0, 0},
    {"Routine", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field isr[] = {
    {"InitialTime", LAYOUT_TICKS, 0, 0, 0}, {"Routine", LAYOUT_PTR, 0, 0, 0},
    {"ReturnValue", LAYOUT_U8, 0, 0, 0},    {"Vector", LAYOUT_U16, 0, 0, 0},
    {"Reserved", LAYOUT_U8, 0, 0, 0},       {0},
};

static const struct layout_field isr_message[] = {
    {"InitialTime", LAYOUT_TICKS, 0, 0, 0},
    {"Routine", LAYOUT_PTR, 0, 0, 0},
    {"ReturnValue", LAYOUT_U8, 0, 0, 0},
    {"Vector", LAYOUT_U16, 0, 0, 0},
    {"Reserved", LAYOUT_U8, 0, 0, 0},
    {"MessageNumber", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field mark[] = {
    {"Message", LAYOUT_A_REST, 0, 0, 0},
    {0},
};

static const struct layout_field flag[] = {
    {"", LAYOUT_SKIP, 0, 0, 1},
    {0},
};

static const struct layout_field counter_names[] = {
    {"CounterCount", LAYOUT_U32, 0, 0, 0},
    {"CounterName", LAYOUT_W_REST, 0, 0, 0},
    {0},
};

static const struct layout_field vector[] = {
    {"Vector", LAYOUT_U16, 0, 0, 0},
    {0},
};

static const struct layout_field routine[] = {
    {"Routine", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field io_timer[] = {
    {"DeviceObject", LAYOUT_PTR, 0, 0, 0},
    {"TimerRoutine", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field timer_set[] = {
    {"DueTime", LAYOUT_U64, 0, 0, 0},   {"MaximumDueTime", LAYOUT_U64, 0, 0, 0},
    {"Period", LAYOUT_U64, 0, 0, 0},    {"Timer", LAYOUT_PTR, 0, 0, 0},
    {"Callback", LAYOUT_PTR, 0, 0, 0},  {"CallbackContext", LAYOUT_PTR, 0, 0, 0},
    {"TimerFlags", LAYOUT_U8, 0, 0, 0}, {0},
};

static const struct layout_field timer[] = {
    {"Timer", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field timer_disabled[] = {
    {"Timer", LAYOUT_PTR, 0, 0, 0},
    {"DisableCallback", LAYOUT_PTR, 0, 0, 0},
    {"DisableContext", LAYOUT_PTR, 0, 0, 0},
    {"TimerFlags", LAYOUT_U8, 0, 0, 0},
    {0},
};

static const struct layout_field timer_finalized[] = {
    {"Timer", LAYOUT_PTR, 0, 0, 0},
    {"DisableCallback", LAYOUT_PTR, 0, 0, 0},
    {"DisableContext", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field hypercall[] = {
    {"CallCode", LAYOUT_U32, 0, 0, 0},
    {"IsFast", LAYOUT_U8, 0, 0, 0},
    {"IsNested", LAYOUT_U8, 0, 0, 0},
    {0},
};

static const struct layout layouts[] = {
    {34, 0, 0, "Mark", mark},
    {46, 2, 0, "SampleProf", sample},
    {47, 2, 0, "PmcCounterProf", pmc_sample},
    {48, 2, 0, "PmcCtrConfig", counter_names},
    {50, 2, 0, "ISR-MSI", isr_message},
    {51, 2, 0, "SysClEnter", syscall_enter},
    {52, 2, 0, "SysClExit", syscall_exit},
    {58, 2, 0, "DebuggerEnabled", flag},
    {66, 2, 0, "ThreadedDPC", dpc},
    {67, 2, 0, "ISR", isr},
    {68, 2, 0, "DPC", dpc},
    {69, 2, 0, "TimerDPC", dpc},
    {70, 2, 0, "IOTimer", dpc},
    {72, 2, 0, "SetInterval", interval},
    {73, 2, 0, "CollectionStart", interval},
    {74, 2, 0, "CollectionEnd", interval},
    {92, 2, 0, "ISR-Unexpected", vector},
    {93, 2, 0, "IoStartTimer", io_timer},
    {94, 2, 0, "IoStopTimer", io_timer},
    {95, 2, 0, "ISR-Passive", isr},
    {96, 2, 0, "WdfISR", routine},
    {97, 2, 0, "WdfPassiveISR", routine},
    {98, 2, 0, "WdfDPC", routine},
    {103, 2, 0, "WdfWorkItem", routine},
    {104, 2, 0, "SetKTimer2", timer_set},
    {105, 2, 0, "ExpireKTimer2", timer_set},
    {106, 2, 0, "CancelKTimer2", timer},
    {107, 2, 0, "DisableKTimer2", timer_disabled},
    {108, 2, 0, "FinalizeKTimer2", timer_finalized},
    {114, 2, 0, "KernelHypercall", hypercall},
};

const struct decode_class decode_perf_info_class = {
    .guid = ETW_CLASS_PERF_INFO,
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .name = "PerfInfo",
    .layouts = layouts,
    .n_layouts = sizeof layouts / sizeof layouts[0],
};
