/* What this host is made of, as its agent tells it with the labels of its settings. Read once at
 * the start, in less than 10 ms; only the governor of the CPUs is looked for again, once a minute.
 * Threads: one at a time. */
#ifndef PROCFLEET_AGENT_INVENTORY_INVENTORY_HOST_H
#define PROCFLEET_AGENT_INVENTORY_INVENTORY_HOST_H

#include "common/base/err.h"
#include "common/model/inventory.h"
#include "common/wire/wire_inventory.h"

struct inventory_host;

/* labels  borrowed with their texts until inventory_host_destroy, n of INVENTORY_LABELS_MAX at most
 * Errors: ERR_NOMEM; what the system does not tell is empty */
NODISCARD enum err inventory_host_create(struct inventory_host **out, const struct label *labels,
                                         size_t n);
void inventory_host_destroy(struct inventory_host *h); /* NULL is allowed */

/* Whether something has changed since the last look, or the start. */
bool inventory_host_look(struct inventory_host *h, int64_t mono_ns);

/* Until the next look. */
const struct facts *inventory_host_facts(const struct inventory_host *h);

/* The same as the collector wants it. Returns its bytes; 0: no memory. */
size_t inventory_host_encode(const struct inventory_host *h, uint8_t out[WIRE_FACTS_MAX]);

#endif
