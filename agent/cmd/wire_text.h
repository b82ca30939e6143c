/* What a batch says, in lines for people (text) or for programs (JSONL), value by value, so that
 * whoever wonders what leaves a host can read it. A line begins with its kind; in JSON that is
 * "type":
 *   batch    the head: number, bytes, flags, ticks
 *   process  attributes of an instance, where they travel
 *   sample   one process at one tick
 *   event    something that happened
 *   ledger   a counter of the agent's stages, since the batch before
 * Numbers are those on the wire: ns, bytes, counts. Threads: one. Caller's storage. */
#ifndef PROCFLEET_AGENT_CMD_WIRE_TEXT_H
#define PROCFLEET_AGENT_CMD_WIRE_TEXT_H

#include <stdio.h>

#include "common/wire/wire_batch.h"

struct wire_text_sums {
    uint64_t batches, bytes; /* encoded */
    uint64_t ticks, processes, samples, values, events;
};

struct wire_text {
    FILE *to;
    bool json;
    struct wire_text_sums sums;
};

/* `bytes` is the encoded size; the batch came out of wire_batch_decode. */
void wire_text_batch(struct wire_text *w, const struct batch *b, size_t bytes);

#endif
