/* TraceLogging: events that carry their own schema in extended items of the record. Format: at the
 * head of the .c file. Bounds: SCHEMA_FIELDS_MAX fields, 16 structs within each other; a schema
 * beyond them is damaged. Threads: one owner. */
#ifndef PROCFLEET_AGENT_DECODE_SCHEMA_DESCRIBE_TRACELOGGING_H
#define PROCFLEET_AGENT_DECODE_SCHEMA_DESCRIBE_TRACELOGGING_H

#include "agent/decode/schema/schema.h"
#include "common/base/err.h"

struct tracelogging {
    struct schema_event event; /* texts borrowed from the record; fields below */
    const uint8_t *group;      /* GUID as stored, or NULL */
    struct schema_field fields[SCHEMA_FIELDS_MAX];
};

/* Whether the record carries a schema. */
bool describe_tracelogging_is(const struct raw_event *raw);

/* Fills event.provider and event.name; they stay empty where the record is damaged. */
void describe_tracelogging_name(struct tracelogging *t, const struct raw_event *raw);

/* The same and the fields. Errors: ERR_CORRUPT (no readable schema) */
NODISCARD enum err describe_tracelogging_read(struct tracelogging *t, const struct raw_event *raw);

#endif
