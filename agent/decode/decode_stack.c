/* Class StackWalk: the call stack of another record, which was logged before it.
 *
 *   stack 32        u64 stamp, u32 pid, u32 tid of the record it belongs to, P × n addresses, the
 *                   innermost first
 *   by key 37, 38   u64 stamp, u32 pid, u32 tid, P key: the kernel's (37) or the user's (38)
 *                   half of a stack that is told once
 *   key 34, 35, 36  P key, P × n addresses: that stack, when its key is made (34) or given up
 *                   (35), or at the end of the session (36); no fact, since it belongs to no
 *                   record */
#include "agent/decode/decode_class.h"
#include "agent/source/etw_guid.h"
#include "common/base/cur.h"

static enum err decode_stack(struct event *out, enum event_kind kind, const struct raw_event *raw,
                             struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_stack ev = {0};

    (void)kind;
    (void)text;
    ev.ticks = (int64_t)cur_u64le(&c);
    ev.pid = cur_u32le(&c);
    ev.tid = cur_u32le(&c);
    if (raw->opcode == 32) {
        ev.n_frames = cur_left(&c) / raw->pointer_size;
    } else {
        ev.key = cur_uptr(&c, raw->pointer_size);
    }
    if (c.bad) {
        return ERR_CORRUPT;
    }
    out->u.stack = ev;
    return ERR_OK;
}

static const struct decode_op ops[] = {
    {32, 0, EV_STACK, decode_stack},
    {37, 0, EV_STACK, decode_stack},
    {38, 0, EV_STACK, decode_stack},
};

static const struct layout_field stack[] = {
    {"EventTimeStamp", LAYOUT_TICKS, 0, 0, 0},
    {"StackProcess", LAYOUT_U32, 0, 0, 0},
    {"StackThread", LAYOUT_U32, 0, 0, 0},
    {"Stack", LAYOUT_PTR_REST, 0, 0, 0},
    {0},
};

static const struct layout_field by_key[] = {
    {"EventTimeStamp", LAYOUT_TICKS, 0, 0, 0},
    {"StackProcess", LAYOUT_U32, 0, 0, 0},
    {"StackThread", LAYOUT_U32, 0, 0, 0},
    {"StackKey", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field key[] = {
    {"StackKey", LAYOUT_PTR, 0, 0, 0},
    {"Stack", LAYOUT_PTR_REST, 0, 0, 0},
    {0},
};

static const struct layout layouts[] = {
    {32, 0, 0, "Stack", stack},           {34, 0, 0, "StackKeyCreate", key},
    {35, 0, 0, "StackKeyDelete", key},    {36, 0, 0, "StackKeyRundown", key},
    {37, 0, 0, "StackKeyKernel", by_key}, {38, 0, 0, "StackKeyUser", by_key},
};

const struct decode_class decode_stack_walk_class = {
    .guid = ETW_CLASS_STACK_WALK,
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .name = "StackWalk",
    .layouts = layouts,
    .n_layouts = sizeof layouts / sizeof layouts[0],
};
