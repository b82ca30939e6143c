/* What events of other providers look like: fields with types, names, maps of values; and the store
 * of all that a stream has taught. Types are those of the platform's own schemas (TDH), to which
 * TraceLogging, manifests and metadata all come down. payload.h reads payloads by it.
 * Bounds:  the store holds at most max_bytes and SCHEMA_ITEMS_MAX events, maps and providers.
 * Threads: one owner. Ownership: items put are copied; items found live as long as the store. */
#ifndef PROCFLEET_AGENT_DECODE_SCHEMA_SCHEMA_H
#define PROCFLEET_AGENT_DECODE_SCHEMA_SCHEMA_H

#include "agent/source/source.h"
#include "common/base/err.h"
#include "common/model/model.h"

#define SCHEMA_FIELDS_MAX 1024   /* of an event, members of structs included */
#define SCHEMA_MAP_MAX    4096   /* entries of a map */
#define SCHEMA_ITEMS_MAX  12288  /* of a store */
#define SCHEMA_NONE       0xffff /* no further field */

/* How a field is stored. Values of the platform; those from 300 on are of classic (MOF) schemas. */
enum schema_in {
    SCHEMA_NULL,
    SCHEMA_UTF16, /* to the terminator, or of a given length */
    SCHEMA_8BIT,
    SCHEMA_I8,
    SCHEMA_U8,
    SCHEMA_I16,
    SCHEMA_U16,
    SCHEMA_I32,
    SCHEMA_U32,
    SCHEMA_I64,
    SCHEMA_U64,
    SCHEMA_F32,
    SCHEMA_F64,
    SCHEMA_BOOL32,
    SCHEMA_BINARY, /* of a given length */
    SCHEMA_GUID,
    SCHEMA_POINTER,
    SCHEMA_FILETIME,
    SCHEMA_SYSTEMTIME,
    SCHEMA_SID,
    SCHEMA_HEX32,
    SCHEMA_HEX64,
    SCHEMA_COUNTED_UTF16, /* u16 bytes, then the text */
    SCHEMA_COUNTED_8BIT,
    SCHEMA_STRUCT,
    SCHEMA_COUNTED_BINARY,
    SCHEMA_MOF_COUNTED_UTF16 = 300,
    SCHEMA_MOF_COUNTED_8BIT,
    SCHEMA_REVERSED_UTF16, /* the count is big-endian */
    SCHEMA_REVERSED_8BIT,
    SCHEMA_REST_UTF16, /* all that is left */
    SCHEMA_REST_8BIT,
    SCHEMA_CHAR16,
    SCHEMA_CHAR8,
    SCHEMA_SIZE_T,
    SCHEMA_HEX_DUMP, /* u32 bytes, then the bytes */
    SCHEMA_MOF_SID,  /* u32 0, or TOKEN_USER and a SID */
};

/* How it is shown, as far as it changes the value that is given. */
enum schema_out {
    SCHEMA_AS_STORED,
    SCHEMA_AS_TEXT,
    SCHEMA_AS_UTF8, /* XML and JSON too */
    SCHEMA_AS_BOOL,
    SCHEMA_AS_HEX, /* statuses and code addresses too */
    SCHEMA_AS_SIGNED,
    SCHEMA_AS_UNSIGNED,
    SCHEMA_AS_PORT, /* u16, big-endian */
    SCHEMA_AS_IP4,
    SCHEMA_AS_IP6,
    SCHEMA_AS_SOCKADDR,
    SCHEMA_AS_TIME, /* FILETIME in a 64-bit number */
    SCHEMA_AS_GUID,
};

/* Where the number of elements, or the length of a text, comes from. */
enum schema_by {
    SCHEMA_BY_NOTHING, /* a single value; a length told by the type */
    SCHEMA_BY_CONST,
    SCHEMA_BY_FIELD, /* the value of an earlier field */
    SCHEMA_BY_U16,   /* a u16 before the elements */
};

struct schema_field {
    struct str name;
    struct str map; /* name of the provider's map for the values, or empty */
    uint16_t in;    /* enum schema_in */
    uint8_t out;    /* enum schema_out */
    uint8_t count_by, length_by;
    uint16_t count, length; /* the constant, or the index of the field */
    uint16_t first;         /* SCHEMA_STRUCT: its first member */
    uint16_t next;          /* the next member of the same struct or event, or SCHEMA_NONE */
};

/* Who told what an event looks like. */
enum schema_origin {
    SCHEMA_FROM_METADATA,    /* TRACE_EVENT_INFO in the stream, or a record's own TraceLogging */
    SCHEMA_FROM_EVENTSOURCE, /* a manifest in the stream */
    SCHEMA_FROM_FILE,        /* a manifest that was given */
    SCHEMA_FROM_TABLE,       /* the tables of the program */
};

struct schema_event {
    uint8_t guid[16];
    uint8_t owner[16]; /* of the provider its maps belong to: guid but for classic events */
    uint8_t origin;    /* enum schema_origin */
    uint8_t form;      /* RAW_CLASSIC: number is the opcode; RAW_MANIFEST: the id */
    uint8_t version;
    uint16_t number;
    struct str provider, task, name; /* as in struct described */
    const struct schema_field *fields;
    size_t n_fields; /* field 0 is the first */
};

struct schema_map_entry {
    uint32_t value;
    struct str text;
};

struct schema_map {
    uint8_t guid[16]; /* of the provider */
    struct str name;
    bool bits; /* entries are bits, several may be set */
    const struct schema_map_entry *entries;
    size_t n_entries;
};

struct schema;

NODISCARD enum err schema_create(struct schema **out, size_t max_bytes); /* ERR_NOMEM */
void schema_destroy(struct schema *s);                                   /* NULL is allowed */

/* The first one stays. Errors: ERR_EXISTS (known already), ERR_FULL, ERR_NOMEM */
NODISCARD enum err schema_put_event(struct schema *s, const struct schema_event *ev);
NODISCARD enum err schema_put_map(struct schema *s, const struct schema_map *map);
NODISCARD enum err schema_put_provider(struct schema *s, const uint8_t guid[16], struct str name);

/* Remembers that `hash` was seen. Errors: ERR_EXISTS, ERR_FULL, ERR_NOMEM */
NODISCARD enum err schema_put_seen(struct schema *s, const uint8_t guid[16], uint64_t hash);

/* Puts all of `from` but what was seen; *events = events that were not known. Errors: ERR_FULL,
 * ERR_NOMEM; the rest is put */
NODISCARD enum err schema_absorb(struct schema *s, const struct schema *from, uint64_t *events);

/* NULL or empty when unknown. */
const struct schema_event *schema_find_event(const struct schema *s, const struct raw_event *raw);
const struct schema_map *schema_find_map(const struct schema *s, const uint8_t guid[16],
                                         struct str name);
struct str schema_find_provider(const struct schema *s, const uint8_t guid[16]);

/* Every event, in no order. */
void schema_each_event(const struct schema *s,
                       void (*each)(void *ctx, const struct schema_event *ev), void *ctx);

/* Of a TDH_OUTTYPE_* number. */
uint8_t schema_out_of_tdh(unsigned type);

#endif
