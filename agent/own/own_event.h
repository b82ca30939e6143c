/* An event that describes itself, as bytes: its schema and its payload, for EventWriteTransfer,
 * which puts the schema into the record's extended item 11. For own.c and its test.
 * Bounds: OWN_EVENT_SCHEMA, OWN_EVENT_PAYLOAD. Threads: any; no state. */
#ifndef PROCFLEET_AGENT_OWN_OWN_EVENT_H
#define PROCFLEET_AGENT_OWN_OWN_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/str.h"

#define OWN_EVENT_SCHEMA  256
#define OWN_EVENT_PAYLOAD 4096
#define OWN_EVENT_TEXT    1024

struct own_field {
    const char *name;
    bool is_text;
    uint64_t number;
    struct str text; /* to its first NUL, cut at OWN_EVENT_TEXT bytes */
};

struct own_event {
    uint8_t schema[OWN_EVENT_SCHEMA], payload[OWN_EVENT_PAYLOAD];
    size_t schema_n, payload_n;
};

/* Names are ours: they fit. */
void own_event_make(struct own_event *e, const char *name, const struct own_field *fields,
                    size_t n);

/* The provider's traits: its name. Returns the bytes used of `out`. */
size_t own_event_traits(uint8_t *out, size_t size, const char *provider);

#endif
