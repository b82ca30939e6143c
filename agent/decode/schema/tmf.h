/* Trace message files (.tmf): for each message of a program its text and what its arguments are.
 * They come from the program's symbols (tracepdb) or its build.
 * Bounds:  TMF_FILE_MAX bytes a file, TMF_BYTES_MAX and TMF_MESSAGES_MAX of all, TMF_ITEMS_MAX
 *          arguments of a message; what is beyond them, and lines that cannot be read, are counted.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_DECODE_SCHEMA_TMF_H
#define PROCFLEET_AGENT_DECODE_SCHEMA_TMF_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/model/model.h"

#define TMF_FILE_MAX     ((size_t)16 << 20)
#define TMF_BYTES_MAX    ((size_t)64 << 20)
#define TMF_MESSAGES_MAX 200000
#define TMF_ITEMS_MAX    64

enum tmf_type {
    TMF_UNKNOWN, /* and whatever follows it cannot be found */
    TMF_I8,
    TMF_U8,
    TMF_CHAR,
    TMF_I16,
    TMF_U16,
    TMF_I32,
    TMF_U32,
    TMF_I64,
    TMF_U64,
    TMF_HEX32,
    TMF_HEX64,
    TMF_F32,
    TMF_F64,
    TMF_PTR,
    TMF_TEXT8, /* with a NUL */
    TMF_TEXT16,
    TMF_COUNTED8, /* u16 bytes, then the text */
    TMF_COUNTED16,
    TMF_HEX_DUMP, /* u16 bytes, then the bytes */
    TMF_SID,
    TMF_GUID,
    TMF_IP4,
    TMF_IP6,
    TMF_MAC,
    TMF_PORT,   /* u16, big-endian */
    TMF_STATUS, /* u32, shown as hex */
    TMF_ERROR,  /* u32, shown as a number */
    TMF_TIME,   /* FILETIME */
    TMF_DELTA,  /* i64, 100 ns */
    TMF_CHAR4,
    TMF_LIST8, /* index into `list` */
    TMF_LIST16,
    TMF_LIST32,
    TMF_SET8, /* bits with the names of `list` */
    TMF_SET16,
    TMF_SET32,
};

struct tmf_item {
    struct str name; /* the expression in the source */
    struct str list; /* "a,b=5,c" */
    uint8_t type;    /* enum tmf_type */
    uint16_t number; /* by which the text refers to it */
};

struct tmf_message {
    uint8_t guid[16];
    uint16_t number;
    struct str component, source;      /* of the GUID */
    struct str name;                   /* "queue_c120": file and line */
    struct str text;                   /* with %10!d! and the like */
    struct str function, level, flags; /* may be empty */
    const struct tmf_item *items;
    size_t n_items;
};

struct tmf;

NODISCARD enum err tmf_create(struct tmf **out); /* ERR_NOMEM */
void tmf_destroy(struct tmf *t);                 /* NULL is allowed */

/* Reads every *.tmf in the directory. Errors: ERR_NOTFOUND, ERR_ACCESS, ERR_IO, ERR_NOMEM */
NODISCARD enum err tmf_read_dir(struct tmf *t, const char *dir, struct errmsg *why);

/* One file's text. Of two messages with one number the first stays. Errors: ERR_NOMEM */
NODISCARD enum err tmf_read(struct tmf *t, const char *text, size_t n);

const struct tmf_message *tmf_find(const struct tmf *t, const uint8_t guid[16], uint16_t number);

/* Messages known; lines and messages that were given up. */
void tmf_counts(const struct tmf *t, uint64_t *messages, uint64_t *damaged);

/* The name in "a,b=5,c" for an index (`b` for 5 and `c` for 6), or empty. */
struct str tmf_list_name(struct str list, uint64_t index);

#endif
