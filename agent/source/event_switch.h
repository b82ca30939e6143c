/* Context switches, and threads made ready, by themselves: where their threads stand in the
 * payloads of records of class Thread, opcodes 36 and 50. Used by whoever hands on runs of them,
 * and by the decoder of that class; see decode_thread.c. */
#ifndef PROCFLEET_AGENT_SOURCE_EVENT_SWITCH_H
#define PROCFLEET_AGENT_SOURCE_EVENT_SWITCH_H

#include "agent/source/event.h"
#include "common/base/cur.h"

/* An EV_CSWITCH or EV_READY whose header names nobody, with what counters need of it: for runs of
 * them. */
struct event_switch {
    int64_t wall_ns, mono_ns;
    uint32_t new_tid, old_tid; /* new_tid: put on; or made ready */
    uint32_t cpu;              /* and EVENT_SWITCH_READY, where it was made ready */
    uint8_t old_state;
};

#define EVENT_SWITCH_READY 0x10000u

#define EVENT_SWITCH_BYTES   24u /* payload of a switch, */
#define EVENT_SWITCH_BYTES_1 16u /* and of version 1 */

#define EVENT_READY_BYTES 8u

/* CPU, threads and state of a switch, from fixed places of its payload. False: the version is
 * unknown, or the payload too short; nothing is written. */
static inline bool event_switch_read(struct event_switch *out, uint16_t cpu, const uint8_t *p,
                                     size_t n, uint8_t version)
{
    if (version == 0 || (n < EVENT_SWITCH_BYTES && (n < EVENT_SWITCH_BYTES_1 || version > 1))) {
        return false;
    }
    out->new_tid = cur_at32le(p);
    out->old_tid = cur_at32le(p + 4);
    out->old_state = p[14];
    out->cpu = cpu;
    return true;
}

/* The same of the thread that was made ready. */
static inline bool event_ready_read(struct event_switch *out, uint16_t cpu, const uint8_t *p,
                                    size_t n, uint8_t version)
{
    if (version < 2 || n < EVENT_READY_BYTES) {
        return false;
    }
    out->new_tid = cur_at32le(p);
    out->cpu = cpu | EVENT_SWITCH_READY;
    return true;
}

#endif
