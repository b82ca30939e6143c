/* Tables that say which fields the payload of a kernel record has, version by version, and the one
 * function that reads a payload by such a table. Each decode_*.c holds the tables of its class, so
 * that it reads like the format's own description. Field names are those of the MOF classes.
 * Bounds: a payload shorter than its layout gives what is there and ERR_CORRUPT; a longer one is
 * accepted and what is left over is counted. Threads: any. */
#ifndef PROCFLEET_AGENT_DECODE_LAYOUT_H
#define PROCFLEET_AGENT_DECODE_LAYOUT_H

#include "agent/decode/value.h"
#include "agent/source.h"
#include "common/err.h"

enum layout_type {
    LAYOUT_U8,
    LAYOUT_I8,
    LAYOUT_U16,
    LAYOUT_I16,
    LAYOUT_U32,
    LAYOUT_I32,
    LAYOUT_U64,
    LAYOUT_I64,
    LAYOUT_HEX32,
    LAYOUT_HEX64,
    LAYOUT_PTR,     /* 4 or 8 bytes, shown as hex */
    LAYOUT_SIZE,    /* as LAYOUT_PTR, shown as a number */
    LAYOUT_W,       /* UTF-16 text with terminator */
    LAYOUT_W_OPT,   /* the same, or nothing where the payload ends before it */
    LAYOUT_W_FIXED, /* n units, cut at the first NUL */
    LAYOUT_A,       /* 8-bit text with terminator */
    LAYOUT_SID,     /* u32 0, or TOKEN_USER and a SID */
    LAYOUT_GUID,
    LAYOUT_FILETIME,
    LAYOUT_TICKS, /* stamp of the session's clock; given as UTC ns */
    LAYOUT_IP4,
    LAYOUT_IP6,
    LAYOUT_PORT,     /* u16, big-endian */
    LAYOUT_BYTES,    /* n bytes */
    LAYOUT_REST,     /* all that is left, as bytes */
    LAYOUT_PTR_REST, /* all that is left, as an array of pointers */
    LAYOUT_SKIP,     /* n bytes without meaning */
    LAYOUT_ALIGN8,   /* to the next multiple of 8 from the payload's begin */
};

struct layout_field {
    const char *name;    /* NULL ends the list */
    uint8_t type;        /* enum layout_type */
    uint8_t first, last; /* versions of the record that have it; last 0 = all later ones */
    uint16_t n;          /* see the types; numbers: elements of an array, 0 = a single one */
};

struct layout {
    uint8_t opcode;
    uint8_t first, last; /* versions it describes; last 0 = all later ones */
    const char *name;    /* of the operation: "Start", "ReadInit" */
    const struct layout_field *fields;
};

/* The layout of an opcode and version, or NULL. */
const struct layout *layout_find(const struct layout *layouts, size_t n, uint8_t opcode,
                                 uint8_t version);

/* Gives every value of `raw` to the sink. *left = payload bytes behind the last field.
 * Errors: ERR_CORRUPT (the payload ends too early) */
NODISCARD enum err layout_read(const struct layout *l, const struct raw_event *raw,
                               const struct value_sink *sink, size_t *left);

#endif
