/* The types of the provider events that a batch holds, each once. For batch.c. Threads: one owner.
 */
#ifndef PROCFLEET_AGENT_BATCH_BATCH_TYPES_H
#define PROCFLEET_AGENT_BATCH_BATCH_TYPES_H

#include "common/base/arena.h"
#include "common/wire/wire_batch.h"

struct batch_types {
    const struct event_type *list[WIRE_TYPES_MAX];
    uint32_t n;
};

/* Whether it is there, or there is room for it. */
bool batch_types_fits(const struct batch_types *t, const struct event_type *type);

/* The one like it, or a copy in `memory`, which must be dropped with the list; NULL: no memory. */
const struct event_type *batch_types_keep(struct batch_types *t, struct arena *memory,
                                          const struct event_type *type);

#endif
