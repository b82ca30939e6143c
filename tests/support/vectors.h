/* Payloads with expected fields, from JSON files of the form of the corpus'
 * kernel-payload-vectors.json, and a list that collects what a layout gives. */
#ifndef PROCFLEET_TESTS_SUPPORT_VECTORS_H
#define PROCFLEET_TESTS_SUPPORT_VECTORS_H

#include <jansson.h>

#include "agent/source/source.h"
#include "common/model/value.h"

#define VECTORS_PAYLOAD_MAX 65536

/* The file's array of vectors, json_decref. Integers that JSON libraries have no room for are given
 * as text. NULL: the reason is in `why`. */
json_t *vectors_load(const char *path, char *why, size_t size);

/* A vector's record; its payload lies in `payload`, VECTORS_PAYLOAD_MAX bytes. A clock of 1 GHz
 * that began in 1970 stamps it, so that times of the session's clock read as their own number.
 * False: a member is missing or wrong, named in `why`. */
bool vectors_record(struct raw_event *raw, uint8_t *payload, const json_t *vector, char *why,
                    size_t size);

/* An integer, as number or as text of any base; its 64 bits. */
bool vectors_integer(uint64_t *out, const json_t *value);

#define VALUES_MAX      1024
#define VALUES_TEXT_MAX 300000

struct values_row {
    struct value value; /* text and bytes are copies */
    bool group;         /* begins a struct or an array; its members follow */
    bool array;
    unsigned depth;
};

/* Everything given since values_reset, in order; more than fits is left out and counted. */
struct values {
    struct values_row rows[VALUES_MAX];
    size_t n, lost;
    unsigned depth;
    char text[VALUES_TEXT_MAX];
    size_t text_n;
};

void values_reset(struct values *v);
struct value_sink values_sink(struct values *v);

/* The row of that name, after skipping `skip` of them, or NULL. */
const struct values_row *values_find(const struct values *v, struct str name, size_t skip);

/* The elements or members of a group, *n rows. */
const struct values_row *values_members(const struct values *v, const struct values_row *group,
                                        size_t *n);

/* A value as a person reads it. */
const char *values_print(char *text, size_t size, const struct values_row *row);

#endif
