/* The values of one record by name, for questions that need a few of them: numbers, texts, and
 * addresses with their ports. Members of structs and arrays are not taken, but for an address.
 * Bounds:  ETL_FIELDS_MAX values, ETL_FIELDS_TEXT bytes; further ones are left out.
 * Threads: one owner. Caller's storage, nothing to set up. */
#ifndef PROCFLEET_AGENT_ETL_ETL_FIELDS_H
#define PROCFLEET_AGENT_ETL_ETL_FIELDS_H

#include "agent/etl/etl_walk.h"

#define ETL_FIELDS_MAX  40
#define ETL_FIELDS_TEXT 16384

struct etl_fields_address {
    uint8_t n; /* 4 or 16; 0 = none */
    uint8_t b[16];
    uint16_t port;
};

struct etl_fields_one {
    struct str name; /* in text */
    uint8_t kind;    /* enum value_kind */
    uint64_t u;      /* signed ones extended */
    struct str text; /* texts; bytes as they are */
    struct etl_fields_address address;
};

struct etl_fields {
    size_t n, used;
    size_t depth;
    struct etl_fields_one all[ETL_FIELDS_MAX];
    char text[ETL_FIELDS_TEXT];
};

/* Reads the record. Errors: those of describe_values; values before the damage are there. */
NODISCARD enum err etl_fields_read(struct etl_fields *f, struct etl_walk *w,
                                   const struct raw_event *raw);

/* By name; NULL: there is none. */
const struct etl_fields_one *etl_fields_get(const struct etl_fields *f, const char *name);
uint64_t etl_fields_uint(const struct etl_fields *f, const char *name, uint64_t none);
struct str etl_fields_text(const struct etl_fields *f, const char *name); /* empty: none */

#endif
