/* Where a subscriber stands in the journal: what it is done with lies before. As bytes it is opaque
 * to clients, and carries a checksum. Threads: any; no state. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_ROSTER_CURSOR_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_ROSTER_CURSOR_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/model/model.h"

struct roster_cursor {
    uint64_t epoch;    /* of the journal */
    uint64_t position; /* of the first record that it is not done with */
    uint32_t offset;   /* events and rows of that record that it is */
};

#define ROSTER_CURSOR_BYTES 25u

void roster_cursor_put(uint8_t out[ROSTER_CURSOR_BYTES], const struct roster_cursor *c);
/* Errors: ERR_INVALID */
NODISCARD enum err roster_cursor_get(struct roster_cursor *out, struct str bytes);

bool roster_cursor_same(const struct roster_cursor *a, const struct roster_cursor *b);

#endif
