/* Named values of an event, one at a time, in the order of its payload: what layouts and schemas
 * give to whoever prints, filters or compares. Text and bytes are borrowed for the duration of the
 * call. Threads: any. */
#ifndef PROCFLEET_COMMON_MODEL_VALUE_H
#define PROCFLEET_COMMON_MODEL_VALUE_H

#include "common/model/model.h"

enum value_kind {
    VALUE_INT,     /* i */
    VALUE_UINT,    /* u */
    VALUE_HEX,     /* u: addresses, handles, flags, statuses */
    VALUE_FLOAT,   /* f */
    VALUE_BOOL,    /* u: 0 or 1 */
    VALUE_TEXT,    /* text: UTF-8; "enum" names of a schema's maps too */
    VALUE_TIME,    /* i: UTC ns */
    VALUE_GUID,    /* bytes: 16 as stored */
    VALUE_SID,     /* text: S-1-… */
    VALUE_ADDRESS, /* bytes: 4 or 16, as on the network */
    VALUE_BYTES,   /* bytes */
};

struct value {
    struct str name; /* empty: an element of an array */
    uint8_t kind;    /* enum value_kind */
    uint8_t bits;    /* 8 to 64, of the numbers as stored; 0 otherwise */
    union {
        int64_t i;
        uint64_t u;
        double f;
        struct str text;
        struct {
            const uint8_t *p;
            size_t n;
        } bytes;
    } v;
};

enum value_group { VALUE_STRUCT, VALUE_ARRAY };

/* begin and end enclose the members of a struct or the elements of an array. */
struct value_sink {
    void *ctx;
    void (*value)(void *ctx, const struct value *v);
    void (*begin)(void *ctx, struct str name, enum value_group group);
    void (*end)(void *ctx);
};

#endif
