/* Tables that say which member of a struct of ours is which field of a message, and the walks over
 * them in both directions. Private to the folder. Threads: any; no state.
 *
 *     #define OF struct wire_label, Procfleet__V1__Label
 *     static const struct wire_field label_fields[] = {
 *         WIRE_TEXT(key, LABEL_KEY_MAX),
 *         WIRE_TEXT(value, LABEL_VALUE_MAX),
 *         WIRE_BY_HAND(assigned),
 *         WIRE_END,
 *     };
 *     #undef OF
 *     static const struct wire_table label_table = WIRE_TABLE(wire_label, label, label_fields);
 *
 * Each field of the message has a line, in the order of the .proto file. A name that the struct or
 * the message does not have does not compile; test_wire_table compares the rest with the generated
 * descriptors: that no field is left out, that types fit, that no member is used twice. What is not
 * of one field alone, as an index into another list, is checked by functions beside the table. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_TABLE_H
#define PROCFLEET_COMMON_WIRE_WIRE_TABLE_H

#include "common/wire/wire.h"

/* What a member is. Over its bound: ERR_INVALID where it is encoded; decoded ERR_FULL where it is a
 * count or bytes, else ERR_CORRUPT. Text that is too long or no UTF-8 is repaired where it is
 * encoded. */
enum wire_kind {
    WIRE_KIND_END,
    WIRE_KIND_BY_HAND,  /* left to the table's put and get, or left out */
    WIRE_KIND_BOOL,     /* numbers: of both sides' types */
    WIRE_KIND_8,        /* uint8_t */
    WIRE_KIND_32,       /* uint32_t, int32_t */
    WIRE_KIND_64,       /* uint64_t, int64_t, double */
    WIRE_KIND_POSITIVE, /* int64_t, there uint64_t: below 0 is sent as 0 */
    WIRE_KIND_TEXT,     /* struct str */
    WIRE_KIND_CHARS,    /* char[max + 1] */
    WIRE_KIND_UUID,     /* struct uuid */
    WIRE_KIND_ID,       /* struct uuid; all zero is absent */
    WIRE_KIND_BYTES,    /* struct str of any bytes */
    WIRE_KIND_DER,      /* uint8_t[max], and its size_t; too long is ERR_CORRUPT */
    WIRE_KIND_METRICS,  /* uint8_t[list_max], and its uint8_t; there uint32 */
    WIRE_KIND_TEXTS,    /* struct str *, and its size_t */
    WIRE_KIND_TEXTS_IN, /* struct str[list_max], and its size_t */
    WIRE_KIND_LIST,     /* structs, and their size_t */
    WIRE_KIND_LIST_IN,  /* structs in an array of list_max, and their size_t */
    WIRE_KIND_SUB,      /* pointer to a struct; NULL is absent */
    WIRE_KIND_PART      /* struct in the struct; _IF: with a bool whether it is there */
};

#define WIRE_NONZERO UINT16_MAX        /* instead of a flag: a number is sent when it is not 0, */
#define WIRE_ALWAYS  (UINT16_MAX - 1u) /* or always */

struct wire_field {
    uint8_t kind;
    uint16_t ours, theirs;         /* offsets */
    uint16_t n_ours, n_theirs;     /* of the count, or of what says that the field is there */
    uint16_t list_max;             /* entries */
    uint32_t max;                  /* bytes of a text */
    const struct wire_table *each; /* of what a list has, of a part */
};

struct wire_table {
    const ProtobufCMessageDescriptor *message;
    size_t size; /* of our struct */
    const struct wire_field *fields;
    /* Where not NULL: of all fields together, else ERR_INVALID or, decoded, ERR_CORRUPT; */
    bool (*sound)(const void *ours);
    /* and what comes after the fields, before what is decoded has to be sound. */
    enum err (*put)(void *message, const void *ours, struct wire_arena *a);
    enum err (*get)(void *ours, const void *message, struct wire_arena *a);
};

/* clang-format off */
#define WIRE_TABLE(ours, theirs, ...) \
    {.message = &procfleet__v1__##theirs##__descriptor, .size = sizeof(struct ours),              \
     .fields = __VA_ARGS__}

/* -- rows: a member and the field of the same name, or the one named behind it -- */

#define WIRE_NUM(member)                 WIRE_ROW_(WIRE_NUM_, OF, member, member, WIRE_NONZERO)
#define WIRE_NUM_AS(member, field)       WIRE_ROW_(WIRE_NUM_, OF, member, field, WIRE_NONZERO)
#define WIRE_NUM_ALWAYS(member)          WIRE_ROW_(WIRE_NUM_, OF, member, member, WIRE_ALWAYS)
#define WIRE_NUM_IF(member, flag)        WIRE_ROW_(WIRE_NUM_IF_, OF, member, flag)
#define WIRE_TEXT(member, max)           WIRE_ROW_(WIRE_HAS_, OF, TEXT, member, member, max)
#define WIRE_TEXT_AS(member, field, max) WIRE_ROW_(WIRE_HAS_, OF, TEXT, member, field, max)
#define WIRE_CHARS(member)               WIRE_ROW_(WIRE_CHARS_, OF, member)
#define WIRE_UUID(member)                WIRE_ROW_(WIRE_HAS_, OF, UUID, member, member, 16)
#define WIRE_ID(member)                  WIRE_ROW_(WIRE_HAS_, OF, ID, member, member, 16)
#define WIRE_BYTES(member, max)          WIRE_ROW_(WIRE_HAS_, OF, BYTES, member, member, max)
#define WIRE_DER(member)                 WIRE_ROW_(WIRE_DER_, OF, member)
#define WIRE_METRICS(member, n) \
    WIRE_ROW_(WIRE_IN_, OF, METRICS, member, n, member, 0, NULL)
#define WIRE_TEXTS(member, n, list_max, max) \
    WIRE_ROW_(WIRE_N_, OF, TEXTS, member, n, member, list_max, max, NULL)
#define WIRE_TEXTS_IN(member, n, field, max) \
    WIRE_ROW_(WIRE_IN_, OF, TEXTS_IN, member, n, field, max, NULL)
#define WIRE_LIST(member, n, list_max, each) \
    WIRE_ROW_(WIRE_N_, OF, LIST, member, n, member, list_max, 0, each)
#define WIRE_LIST_IN(member, n, each) \
    WIRE_ROW_(WIRE_IN_, OF, LIST_IN, member, n, member, 0, each)
#define WIRE_SUB(member, each) \
    WIRE_ROW_(WIRE_PART_, OF, SUB, member, member, WIRE_ALWAYS, each)
#define WIRE_PART(member, each) \
    WIRE_ROW_(WIRE_PART_, OF, PART, member, member, WIRE_ALWAYS, each)
#define WIRE_PART_IF(member, flag, field, each) \
    WIRE_ROW_(WIRE_PART_IF_, OF, member, flag, field, each)
#define WIRE_BY_HAND(field)              WIRE_ROW_(WIRE_BY_HAND_, OF, field)
#define WIRE_END                         {.kind = WIRE_KIND_END}

/* How: O and M are the two types that OF stands for, o and f the member and the field. */
#define WIRE_ROW_(row, ...) row(__VA_ARGS__)
#define WIRE_OF_(O, M, kind, o, f) kind, offsetof(O, o), offsetof(M, f)
#define WIRE_NUM_(O, M, o, f, when)                                                               \
    {WIRE_OF_(O, M, WIRE_KIND_OF_(((O *)NULL)->o, ((M *)NULL)->f), o, f), when,                   \
     offsetof(M, has_##f), 0, 0, NULL}
#define WIRE_KIND_OF_(o, f)                                                                       \
    _Generic((o), bool: WIRE_KIND_BOOL, uint8_t: WIRE_KIND_8, int32_t: WIRE_KIND_32,              \
             uint32_t: WIRE_KIND_32, uint64_t: WIRE_KIND_64, double: WIRE_KIND_64,                \
             int64_t: _Generic((f), uint64_t: WIRE_KIND_POSITIVE, default: WIRE_KIND_64))
#define WIRE_NUM_IF_(O, M, o, flag) WIRE_NUM_(O, M, o, o, offsetof(O, flag))
#define WIRE_HAS_(O, M, kind, o, f, max) \
    {WIRE_OF_(O, M, WIRE_KIND_##kind, o, f), 0, offsetof(M, has_##f), 0, max, NULL}
#define WIRE_CHARS_(O, M, o) WIRE_HAS_(O, M, CHARS, o, o, sizeof(((O *)NULL)->o) - 1)
#define WIRE_DER_(O, M, o)                                                                        \
    {WIRE_OF_(O, M, WIRE_KIND_DER, o, o), offsetof(O, o##_n), offsetof(M, has_##o), 0,            \
     sizeof(((O *)NULL)->o), NULL}
#define WIRE_N_(O, M, kind, o, n, f, list_max, max, each)                                         \
    {WIRE_OF_(O, M, WIRE_KIND_##kind, o, f), offsetof(O, n), offsetof(M, n_##f), list_max, max,   \
     each}
#define WIRE_IN_(O, M, kind, o, n, f, max, each) \
    WIRE_N_(O, M, kind, o, n, f, sizeof(((O *)NULL)->o) / sizeof(((O *)NULL)->o[0]), max, each)
#define WIRE_PART_(O, M, kind, o, f, flag, each) \
    {WIRE_OF_(O, M, WIRE_KIND_##kind, o, f), flag, 0, 0, 0, each}
#define WIRE_PART_IF_(O, M, o, flag, f, each) WIRE_PART_(O, M, PART, o, f, offsetof(O, flag), each)
#define WIRE_BY_HAND_(O, M, f) {WIRE_KIND_BY_HAND, 0, offsetof(M, f), 0, 0, 0, 0, NULL}
/* clang-format on */

/* -- walks -- */

/* A struct to a message, which may be uninitialised; it borrows from `ours` and the arena.
 * Errors: ERR_INVALID, ERR_NOMEM, ERR_FULL (the arena) */
NODISCARD enum err wire_table_put(void *message, const void *ours, const struct wire_table *t,
                                  struct wire_arena *a);

/* A message to a struct, which is zeroed; its texts are the message's, its lists the arena's.
 * Errors: ERR_CORRUPT, ERR_FULL (a bound, the arena), ERR_NOMEM */
NODISCARD enum err wire_table_get(void *ours, const void *message, const struct wire_table *t,
                                  struct wire_arena *a);

/* n structs to *list, an array of pointers as protobuf-c wants it, and back to an array that *ours
 * points to. */
NODISCARD enum err wire_table_put_list(void *list, const void *ours, size_t n,
                                       const struct wire_table *t, struct wire_arena *a);
NODISCARD enum err wire_table_get_list(void *ours, const void *list, size_t n,
                                       const struct wire_table *t, struct wire_arena *a);

/* To bytes, with at most so much memory for lists and repaired text. */
NODISCARD enum err wire_table_encode(struct buf *out, const void *ours, const struct wire_table *t,
                                     size_t max_bytes);

/* Of a struct that borrows nothing; it is written on success. */
NODISCARD enum err wire_table_decode(void *ours, const struct wire_table *t, const void *p,
                                     size_t n);

/* *out: a struct that is released with wire_table_free, as is all that it points to. Unpacked with
 * at most `budget` bytes, 0: wire_unpack's; `more` are allowed for lists beside that, 0: none. */
NODISCARD enum err wire_table_owned(void *out, const struct wire_table *t, size_t budget,
                                    size_t more, const void *p, size_t n);
void wire_table_free(void *ours);

/* Defines NAME_encode and NAME_decode of a struct that borrows nothing, */
#define WIRE_TABLE_PLAIN(name, ours, table, max_bytes)                \
    enum err name##_encode(struct buf *out, const struct ours *in)    \
    {                                                                 \
        return wire_table_encode(out, in, &(table), max_bytes);       \
    }                                                                 \
    enum err name##_decode(struct ours *out, const void *p, size_t n) \
    {                                                                 \
        return wire_table_decode(out, &(table), p, n);                \
    }

/* or with NAME_free of one that does. */
#define WIRE_TABLE_OWNED(name, ours, table, max_bytes, budget, more)   \
    enum err name##_encode(struct buf *out, const struct ours *in)     \
    {                                                                  \
        return wire_table_encode(out, in, &(table), max_bytes);        \
    }                                                                  \
    enum err name##_decode(struct ours **out, const void *p, size_t n) \
    {                                                                  \
        return wire_table_owned(out, &(table), budget, more, p, n);    \
    }                                                                  \
    void name##_free(struct ours *m)                                   \
    {                                                                  \
        wire_table_free(m);                                            \
    }

/* Of wire_rpc.c, for wire_rpc_heard.c. */
extern const struct wire_field wire_rpc_hello_fields[], wire_rpc_heartbeat_fields[];

#endif
