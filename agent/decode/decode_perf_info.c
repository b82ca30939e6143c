/* Class PerfInfo, its sampling part: which thread a profile interrupt found running, and how far
 * apart these interrupts are.
 *
 *   46      version 2   P instruction, u32 tid, u16 count, u8 flags (1 DPC, 2 ISR), u8 rank
 *   73, 74  version 2   u32 source, u32 new interval, u32 old interval, in 100 ns; 3: w name */
#include "agent/decode/decode_class.h"
#include "agent/etw_guid.h"
#include "common/cur.h"

#define FLAGS_INTERRUPT 3
#define SOURCE_TIMER    0
#define INTERVAL_UNIT   100 /* ns */

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
    out->u.interval_ns = (int64_t)interval * INTERVAL_UNIT;
    return ERR_OK;
}

static const struct decode_op ops[] = {
    {46, 2, EV_CPU_SAMPLE, decode_sample},
    {73, 2, EV_CPU_SAMPLE_INTERVAL, decode_interval},
    {74, 2, EV_CPU_SAMPLE_INTERVAL, decode_interval},
};

const struct decode_class decode_perf_info_class = {
    .guid = ETW_CLASS_PERF_INFO,
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .name = "PerfInfo",
};
