/* What the system itself knows of the events of its registered providers: chosen by the build.
 * Threads: one at a time. */
#ifndef PROCFLEET_AGENT_DECODE_SCHEMA_SCHEMA_SYSTEM_H
#define PROCFLEET_AGENT_DECODE_SCHEMA_SCHEMA_SYSTEM_H

#include "agent/decode/schema/schema.h"

struct schema_system;

/* Errors: ERR_UNSUPPORTED (it tells nothing), ERR_NOMEM */
NODISCARD enum err schema_system_open(struct schema_system **out);
void schema_system_close(struct schema_system *sys); /* NULL is allowed */

/* Puts the event and the maps of its values; only events of manifests (RAW_MANIFEST) are asked for.
 * Errors: ERR_NOTFOUND (not registered here), ERR_CORRUPT, ERR_FULL, ERR_NOMEM */
NODISCARD enum err schema_system_put(struct schema_system *sys, struct schema *s,
                                     const struct raw_event *raw);

/* All events of the provider and the maps of their values, as they would be embedded in a
 * recording, with the opcodes of such records (describe_metadata.c). Errors: ERR_NOTFOUND (not
 * registered here), ERR_NOMEM */
NODISCARD enum err
schema_system_each(struct schema_system *sys, const uint8_t guid[16],
                   void (*each)(void *ctx, uint8_t opcode, const uint8_t *p, size_t n), void *ctx);

#endif
