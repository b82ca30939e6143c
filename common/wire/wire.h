/* What the files of this folder share: memory under a budget, packing and unpacking, and the rules
 * for text from outside. Private to the folder. Threads: each arena has one owner. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_H
#define PROCFLEET_COMMON_WIRE_WIRE_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/model/model.h"

/* Memory of one message: allocated piece by piece, released at once. `max` bounds what may be
 * allocated in all; `bad` keeps the first failure (ERR_FULL, ERR_NOMEM). */
struct wire_chunk;
struct wire_arena {
    struct wire_chunk *chunks; /* of small pieces */
    struct wire_chunk *whole;  /* one piece each, given back when freed */
    uint8_t *at, *end;         /* the rest of the newest small chunk */
    size_t used, max;          /* bytes given out and not taken back */
    enum err bad;
    ProtobufCAllocator allocator;
};

void wire_arena_init(struct wire_arena *a, size_t max_bytes); /* allocates nothing */
void wire_arena_fini(struct wire_arena *a);
void *wire_arena_alloc(struct wire_arena *a, size_t n); /* uninitialised; NULL on failure */
void *wire_arena_array(struct wire_arena *a, size_t n, size_t size); /* zeroed */

/* Unpacks with at most 20 × n + 4 KiB and 8 MiB of memory; *out lives in the arena, whose limit is
 * that budget afterwards. Errors: ERR_CORRUPT, ERR_FULL (the budget), ERR_NOMEM */
NODISCARD enum err wire_unpack(void *out, struct wire_arena *a,
                               const ProtobufCMessageDescriptor *type, const void *p, size_t n);

/* The same with another budget. */
NODISCARD enum err wire_unpack_within(void *out, struct wire_arena *a,
                                      const ProtobufCMessageDescriptor *type, const void *p,
                                      size_t n, size_t max_bytes);

/* Lets the arena give out `n` more bytes than it has so far: for results whose size was checked. */
void wire_arena_allow(struct wire_arena *a, size_t n);

/* Appends the packed message. Errors: ERR_NOMEM, ERR_FULL (the buffer's maximum) */
NODISCARD enum err wire_pack(struct buf *out, const void *message);

/* Sets a field of plain type; zero is left out. */
#define WIRE_PUT(m, field, value)           \
    do {                                    \
        (m)->field = (value);               \
        (m)->has_##field = (m)->field != 0; \
    } while (0)

/* n zeroed messages of `size` bytes each, and in *list the pointers to them that protobuf-c wants.
 * NULL on failure. */
void *wire_list(void *list, size_t n, size_t size, struct wire_arena *a);

/* Numbers of a message into an array of bytes with room for `max`.
 * Errors: ERR_FULL (more than max), ERR_CORRUPT (one does not fit a byte) */
NODISCARD enum err wire_get_bytes(uint8_t *out, uint8_t *n_out, uint8_t max, const uint32_t *v,
                                  size_t n);

/* -- text: UTF-8 without NUL, of at most max_bytes -- */
bool wire_text_ok(const void *p, size_t n, size_t max_bytes);

/* Field to text that lives as long as the field; absent is empty. False when it breaks the rules.
 */
bool wire_text_get(struct str *out, protobuf_c_boolean has, const ProtobufCBinaryData *t,
                   size_t max_bytes);

/* The same into an array with a NUL behind it. */
bool wire_text_copy(char *out, size_t size, protobuf_c_boolean has, const ProtobufCBinaryData *t);

/* The text in an array of `size` bytes, up to its NUL. */
struct str wire_text_of(const char *s, size_t size);

/* Text to field. What a peer would refuse is repaired: bytes that are no UTF-8 and NULs become '?',
 * too long text is cut between characters. Borrows s.p when nothing has to be repaired. */
NODISCARD enum err wire_text_put(protobuf_c_boolean *has, ProtobufCBinaryData *t, struct str s,
                                 size_t max_bytes, struct wire_arena *a);
#define WIRE_PUT_TEXT(m, field, text, max, a) \
    wire_text_put(&(m)->has_##field, &(m)->field, text, max, a)

/* 16 bytes; absent is all zero. False for any other length. */
bool wire_uuid_get(struct uuid *out, protobuf_c_boolean has, const ProtobufCBinaryData *t);
void wire_uuid_put(protobuf_c_boolean *has, ProtobufCBinaryData *t, const struct uuid *id);

#endif
