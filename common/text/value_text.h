/* Values of events as text for people and as JSON. Threads: any. */
#ifndef PROCFLEET_COMMON_TEXT_VALUE_TEXT_H
#define PROCFLEET_COMMON_TEXT_VALUE_TEXT_H

#include "common/model/value.h"
#include "common/os/uuid.h"
#include "common/text/jsonw.h"

struct value_people {
    struct buf *out;
    uint64_t arrays; /* a bit per open group, the innermost lowest */
    bool first;
};

#define VALUE_JSON_NAMES 256 /* open ones; the names of further members are not looked at */

/* An object's keys must differ: the second member called Arg becomes Arg#2. */
struct value_json {
    struct jsonw *out;
    uint32_t names[VALUE_JSON_NAMES]; /* hashes, of all open levels */
    size_t n;
    size_t first[JSONW_DEPTH]; /* of each level in `names` */
    unsigned depth, too_deep;
};

/* Sinks that print `name=value name={…} name=[…]` and members of an open JSON object. `p`, `j`
 * and `out` are the caller's and outlive the sink. */
struct value_sink value_text_people(struct value_people *p, struct buf *out);
struct value_sink value_text_json(struct value_json *j, struct jsonw *out);

/* A GUID from its bytes as Windows stores them. */
const char *value_text_guid(char text[UUID_TEXT], const uint8_t guid[16]);

/* 4 or 16 bytes: "192.0.2.7", "2001:db8::1". */
void value_text_address(struct buf *out, const uint8_t *p, size_t n);
void value_text_hex(struct buf *out, const uint8_t *p, size_t n);

#endif
