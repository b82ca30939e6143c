/* The values of one event of a chosen provider as bytes, as they travel and are kept; the names of
 * its fields are in its type (struct event_type), the values stand in their order:
 *
 *   u8 kind, then   0 absent · 1 int, 7 time: zigzag LEB128 · 2 uint, 3 hex, 5 bool: LEB128
 *                   4 float: 8 bytes · 12 float of 32 bits: 4 bytes · 8 GUID: 16 bytes
 *                   6 text, 9 SID, 10 address, 11 bytes: length, bytes
 *                   14 array: count, values · 15 struct: count, of each length and name, value
 *
 * Bounds:  EVENT_VALUES_MAX bytes, EVENT_VALUES_FIELDS fields, EVENT_VALUES_TEXT bytes of a text or
 *          a name, EVENT_VALUES_DEPTH groups within each other; a writer cuts, a reader refuses.
 * Threads: one owner of each writer; readers any. */
#ifndef PROCFLEET_COMMON_MODEL_EVENT_VALUES_H
#define PROCFLEET_COMMON_MODEL_EVENT_VALUES_H

#include "common/base/err.h"
#include "common/model/value.h"

#define EVENT_VALUES_MAX    4096u
#define EVENT_VALUES_FIELDS 64u
#define EVENT_VALUES_TEXT   1024u
#define EVENT_VALUES_NAME   128u
#define EVENT_VALUES_DEPTH  4u

/* Takes values by its sink; caller's storage. */
struct event_values {
    uint8_t bytes[EVENT_VALUES_MAX];
    size_t n;
    struct str fields[EVENT_VALUES_FIELDS]; /* their names, in `names` */
    size_t n_fields;
    char names[EVENT_VALUES_MAX];
    size_t names_n;
    bool cut; /* something had no room, or was cut */

    struct {
        size_t count_at;
        uint16_t count;
        bool array;
    } open[EVENT_VALUES_DEPTH];
    unsigned depth, hidden; /* groups open; of those that are left out */
};

/* Begins an event: what the sink is given from here on is its values. */
struct value_sink event_values_begin(struct event_values *w);

/* Gives the values in their order; absent ones are left out. Texts point into the bytes. Errors:
 * ERR_CORRUPT (they are not n_fields values; what came before was given) */
NODISCARD enum err event_values_read(const struct str *fields, size_t n_fields, struct str values,
                                     const struct value_sink *sink);

/* Whether event_values_read would give them all. */
bool event_values_ok(size_t n_fields, struct str values);

/* The value of a field, or of a member of a struct ("outer.member"); the first of that name. False:
 * there is none, or it is a group. */
bool event_values_find(struct value *out, const struct event_type *type, struct str values,
                       struct str name);

/* -- types -- */

/* Whether all of it is the same. */
bool event_values_same_type(const struct event_type *a, const struct event_type *b);

/* A copy with everything it points to, in one piece of so many bytes, aligned as mem_alloc does. */
size_t event_values_type_bytes(const struct event_type *type);
struct event_type *event_values_copy_type(void *room, const struct event_type *type);

/* Whether it is of this provider (a glob on its name, or its GUID) and this event (its id, or a
 * glob on name, task or "task/name"). Empty: any. */
bool event_values_is(const struct event_type *type, struct str provider, struct str event);

#endif
