/* Where a subscriber stands in the journal: what it is done with lies before. As bytes it is opaque
 * to clients, and carries a checksum. Threads: any; no state. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_SUBSCRIPTIONS_CURSOR_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_SUBSCRIPTIONS_CURSOR_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/model/model.h"

struct subscriptions_cursor {
    uint64_t epoch;    /* of the journal */
    uint64_t position; /* of the first record that it is not done with */
    uint32_t offset;   /* events and rows of that record that it is */
};

#define SUBSCRIPTIONS_CURSOR_BYTES 25u

void subscriptions_cursor_put(uint8_t out[SUBSCRIPTIONS_CURSOR_BYTES],
                              const struct subscriptions_cursor *c);
/* Errors: ERR_INVALID */
NODISCARD enum err subscriptions_cursor_get(struct subscriptions_cursor *out, struct str bytes);

bool subscriptions_cursor_same(const struct subscriptions_cursor *a,
                               const struct subscriptions_cursor *b);

#endif
