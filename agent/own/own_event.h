/* An event that describes itself, as bytes: its schema and its payload, for EventWriteTransfer,
 * which puts the schema into the record's extended item 11. For own.c and its test.
 * Bounds: OWN_EVENT_SCHEMA, OWN_EVENT_PAYLOAD. Threads: any; no state. */
#ifndef PROCFLEET_AGENT_OWN_OWN_EVENT_H
#define PROCFLEET_AGENT_OWN_OWN_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/str.h"

#define OWN_EVENT_SCHEMA  256
#define OWN_EVENT_PAYLOAD ((size_t)50 << 10)
#define OWN_EVENT_TEXT    1024

enum own_kind { OWN_NUMBER, OWN_TEXT, OWN_ID, OWN_BYTES };

struct own_field {
    const char *name;
    enum own_kind kind;
    uint64_t number;
    struct str text; /* OWN_TEXT: to its first NUL, cut at OWN_EVENT_TEXT bytes; OWN_ID: a GUID;
                        OWN_BYTES: all, less than 64 KiB */
};

struct own_event {
    uint8_t schema[OWN_EVENT_SCHEMA], payload[OWN_EVENT_PAYLOAD];
    size_t schema_n, payload_n;
    uint8_t opcode;
};

/* Names are ours: they fit. */
void own_event_make(struct own_event *e, const char *name, const struct own_field *fields,
                    size_t n);

/* The provider's traits: its name. Returns the bytes used of `out`. */
size_t own_event_traits(uint8_t *out, size_t size, const char *provider);

#endif
