/* Tables that say which fields the payload of a kernel record has, version by version, and the one
 * function that reads a payload by such a table. Each decode_*.c holds the tables of its class, so
 * that it reads like the format's own description. Field names are those of the MOF classes.
 * Bounds: a payload shorter than its layout gives what is there and ERR_CORRUPT; a longer one is
 * accepted and what is left over is counted. Threads: any. */
#ifndef PROCFLEET_AGENT_DECODE_LAYOUT_H
#define PROCFLEET_AGENT_DECODE_LAYOUT_H

#include "agent/decode/decode_text.h"
#include "agent/source/source.h"
#include "common/base/err.h"
#include "common/model/value.h"

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
    LAYOUT_BOOL32,
    LAYOUT_BOOL8,
    LAYOUT_PTR,     /* 4 or 8 bytes, shown as hex */
    LAYOUT_SIZE,    /* as LAYOUT_PTR, shown as a number */
    LAYOUT_U32_OPT, /* u32, or nothing where the payload ends before it */
    LAYOUT_W,       /* UTF-16 text with terminator */
    LAYOUT_W_OPT,   /* the same, or nothing where the payload ends before it or within it */
    LAYOUT_W_FIXED, /* n units, cut at the first NUL */
    LAYOUT_W_REST,  /* all that is left, as an array of texts with terminators */
    LAYOUT_A,       /* 8-bit text with terminator */
    LAYOUT_A_REST,  /* 8-bit text up to its terminator or the payload's end */
    LAYOUT_USER,    /* u32 0, or TOKEN_USER and a SID */
    LAYOUT_SID,     /* a SID alone */
    LAYOUT_GUID,
    LAYOUT_FILETIME,   /* moved by shift_ns; a number where ns since 1970 cannot hold it (0) */
    LAYOUT_TICKS,      /* u64 stamp of the session's clock, given as UTC ns; a number where the
                          clock is unknown */
    LAYOUT_SYSTEMTIME, /* a struct of eight u16 */
    LAYOUT_IP4,
    LAYOUT_IP6,
    LAYOUT_PORT, /* u16, big-endian */
    LAYOUT_F64,
    LAYOUT_BEGIN,    /* opens a struct; no bytes */
    LAYOUT_END,      /* closes it; no bytes */
    LAYOUT_BYTES,    /* n bytes */
    LAYOUT_REST,     /* all that is left, as bytes */
    LAYOUT_PTR_REST, /* all that is left, as an array of pointers (stacks) */
    LAYOUT_SKIP,     /* n bytes without meaning */
    LAYOUT_ALIGN8,   /* to the next multiple of 8 from the payload's begin, at most to its end */
    LAYOUT_ALIGN,    /* the same with the size of a pointer */
};

#define LAYOUT_TO_END UINT16_MAX /* numbers: as many as the rest of the payload holds */

struct layout_field {
    const char *name;    /* NULL ends the list */
    uint8_t type;        /* enum layout_type */
    uint8_t first, last; /* versions of the record that have it; last 0 = all later ones */
    /* See the types; numbers: elements of an array (or LAYOUT_TO_END), 0 = one number. */
    uint16_t n;
};

struct layout {
    uint16_t opcode;     /* of a manifest provider: the event's id */
    uint8_t first, last; /* versions it describes; last 0 = all later ones */
    const char *name;    /* of the operation: "Start", "ReadInit" */
    const struct layout_field *fields;
};

/* The first layout in the list for the opcode (or id) and version, or NULL. So newer versions stand
 * before older ones: {1, 2, 0, …} takes versions 2 and up, {1, 0, 0, …} after it the rest. */
const struct layout *layout_find(const struct layout *layouts, size_t n, uint16_t opcode,
                                 uint8_t version);

/* Gives every value of `raw` to the sink. `text` is room for texts that must be converted, used
 * afresh for each value. *left = payload bytes behind the last field.
 * Errors: ERR_CORRUPT (the payload ends too early, or a text or SID in it has no end; the values
 *         before that were given, *left = 0) */
NODISCARD enum err layout_read(const struct layout *l, const struct raw_event *raw,
                               const struct value_sink *sink, struct decode_text *text,
                               size_t *left);

#endif
