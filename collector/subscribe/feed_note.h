/* A batch that waits to be published. Plain data. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_FEED_NOTE_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_FEED_NOTE_H

#include "collector/subscribe/journal.h"
#include "common/wire/wire_batch.h"

struct feed_note {
    struct feed_note *next;
    char name[MODEL_HOST_NAME_MAX + 1];
    struct uuid host;
    uint64_t stream, seq;
    int64_t received_ns; /* UTC */
    int64_t mono_ns;     /* when it began to wait */
    bool topics[FEED_TOPICS];
    size_t n;            /* bytes of the encoded batch */
    struct batch *batch; /* held; NULL: its bytes are here instead */
    size_t memory;       /* of the held batch */
    uint8_t bytes[];
};

#endif
