/* Class Thread: which process a thread belongs to, from the payload; the record's own ids are those
 * of the code that ran.
 *
 *   version 0   u32 tid, u32 pid
 *   version 1   u32 pid, u32 tid; start also: P × 6 addresses, u8 wait mode
 *   version 2   u32 pid, u32 tid, P × 7 addresses, u32 service tag
 *   version 3   … u8 × 4 priorities and flags, and on newer systems w thread name */
#include "agent/decode/decode_class.h"
#include "agent/etw_guid.h"
#include "common/cur.h"

static void addresses_skip(struct cur *c, enum event_kind kind, const struct raw_event *raw)
{
    if (raw->version >= 2) {
        cur_skip(c, 7u * raw->pointer_size + 4);
    } else if (raw->version == 1 && kind == EV_THREAD_START) {
        cur_skip(c, 6u * raw->pointer_size + 1);
    }
    if (raw->version >= 3) {
        cur_skip(c, 4);
    }
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
    addresses_skip(&c, kind, raw);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    /* The name came without a new version: whether it is there only the length tells. */
    name = raw->version >= 3 ? cur_wstr(&c, &n) : NULL;
    if (name && n) {
        ev.name = decode_text_utf16(text, name, n, MODEL_TEXT_MAX, NULL);
    }
    out->u.thread = ev;
    return ERR_OK;
}

static const struct decode_op ops[] = {
    {1, 0, EV_THREAD_START, decode_thread},
    {2, 0, EV_THREAD_STOP, decode_thread},
    {3, 0, EV_THREAD_FOUND, decode_thread},
    {4, 0, EV_THREAD_LAST, decode_thread},
};

const struct decode_class decode_thread_class = {
    .guid = ETW_CLASS_THREAD,
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .name = "Thread",
};
