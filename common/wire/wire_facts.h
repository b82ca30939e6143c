/* Facts as fields of other messages, which have `inventory`, `n_labels` and `labels`. Private to
 * the folder. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_FACTS_H
#define PROCFLEET_COMMON_WIRE_WIRE_FACTS_H

#include "common/wire/wire.h"
#include "common/wire/wire_inventory.h"
#include "proto/telemetry.pb-c.h"

NODISCARD enum err wire_facts_put(Procfleet__V1__Inventory **inventory, size_t *n_labels,
                                  Procfleet__V1__Label ***labels, const struct facts *f,
                                  struct wire_arena *a);

/* Appends encoded facts, made by us, to a packed message whose fields of these numbers (below 16)
 * are inventory and labels. Errors: those of buf_put */
NODISCARD enum err wire_facts_small_append(struct buf *out, const uint8_t *told, size_t n,
                                           unsigned inventory, unsigned labels);

/* Texts are the message's. Errors: ERR_CORRUPT, ERR_FULL */
NODISCARD enum err wire_facts_get(struct facts *out, const Procfleet__V1__Inventory *inventory,
                                  size_t n_labels, Procfleet__V1__Label *const *labels);

/* Encoded facts of a message's fields, checked. 0 bytes where it has none. Errors: as
 * wire_facts_get */
NODISCARD enum err wire_facts_pack(uint8_t out[WIRE_FACTS_MAX], size_t *n,
                                   Procfleet__V1__Inventory *inventory, size_t n_labels,
                                   Procfleet__V1__Label **labels);

#endif
