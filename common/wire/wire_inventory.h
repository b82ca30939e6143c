/* What a host is known by, to and from protobuf bytes: as a message of its own, which is how it is
 * kept, and as fields of others (wire_rpc.c, wire_answer.c). */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_INVENTORY_H
#define PROCFLEET_COMMON_WIRE_WIRE_INVENTORY_H

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/model/inventory.h"

#define WIRE_FACTS_MAX 4096u /* bytes, encoded */

/* Errors: ERR_INVALID (a text, label or count breaks the rules of inventory.h), ERR_FULL */
NODISCARD enum err wire_facts_encode(struct buf *out, const struct facts *f);

/* Labels, os, cpus and memory_bytes alone, of facts that keep the rules of inventory.h. Returns its
 * bytes. */
size_t wire_facts_small_encode(uint8_t out[WIRE_FACTS_MAX], const struct facts *f);

/* Texts are copied to the arena. Errors: ERR_CORRUPT, ERR_FULL, ERR_NOMEM */
NODISCARD enum err wire_facts_decode(struct facts *out, const void *p, size_t n, struct arena *a);

#endif
