/* Event metadata: the records by which tools that merge a trace make it readable elsewhere. Each
 * tells how one event of one provider looks, or one map of values. Format: at the head of the .c
 * file. Bounds: SCHEMA_FIELDS_MAX fields, SCHEMA_MAP_MAX entries, names of 1023 units; beyond them
 * a record is damaged. Threads: one owner. */
#ifndef PROCFLEET_AGENT_DECODE_SCHEMA_DESCRIBE_METADATA_H
#define PROCFLEET_AGENT_DECODE_SCHEMA_DESCRIBE_METADATA_H

#include "agent/decode/decode_text.h"
#include "agent/decode/layout.h"
#include "agent/decode/schema/schema.h"

/* Scratch memory, nothing to set up. */
struct metadata {
    struct decode_text text;
    struct schema_field fields[SCHEMA_FIELDS_MAX];
    struct schema_map_entry entries[SCHEMA_MAP_MAX];
};

bool describe_metadata_is(const struct raw_event *raw);

/* What such a record holds, undecoded. */
const struct layout *describe_metadata_layout(const struct raw_event *raw);

/* Adds what the record teaches to `s`; *events = events that are known now and were not before.
 * Errors: ERR_CORRUPT, ERR_FULL, ERR_NOMEM */
NODISCARD enum err describe_metadata_learn(struct metadata *m, struct schema *s,
                                           const struct raw_event *raw, uint64_t *events);

#endif
