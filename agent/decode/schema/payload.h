/* Reads a payload by the fields of a schema and gives every value by name. Structs and arrays nest;
 * the walk keeps its own stack and counts its steps, so that neither depth nor an array of nothing
 * can hold it up.
 * Bounds:  PAYLOAD_DEPTH_MAX nested structs, PAYLOAD_STEPS_MAX values; where a large array meets a
 *          large map, its last elements stay numbers. Threads: one owner. */
#ifndef PROCFLEET_AGENT_DECODE_SCHEMA_PAYLOAD_H
#define PROCFLEET_AGENT_DECODE_SCHEMA_PAYLOAD_H

#include "agent/decode/decode_text.h"
#include "agent/decode/schema/schema.h"
#include "common/model/value.h"

#define PAYLOAD_DEPTH_MAX 16
#define PAYLOAD_STEPS_MAX 131072

/* Scratch memory, nothing to set up. */
struct payload {
    struct decode_text text;             /* of the value at hand */
    uint32_t numbers[SCHEMA_FIELDS_MAX]; /* latest value of each field */
};

/* *left = bytes behind the last field. `maps` may be NULL. begin and end are balanced in any case.
 * Errors: ERR_CORRUPT (the payload ends too early, counts or depth beyond sense) */
NODISCARD enum err payload_read(struct payload *p, const struct schema_event *schema,
                                const struct schema *maps, const struct raw_event *raw,
                                const struct value_sink *sink, size_t *left);

#endif
