/* Payloads of kernel records, written from a table's row and read by decode.c and by layout.c: both
 * must take the whole, refuse whatever is shorter, and agree. Every field has its own value, so
 * that no two can be exchanged unnoticed. */
#ifndef PROCFLEET_TESTS_AGENT_DECODE_PAYLOAD_H
#define PROCFLEET_TESTS_AGENT_DECODE_PAYLOAD_H

#include "tests/support/t.h"

#include <string.h>

#include "agent/decode/decode.h"
#include "agent/decode/decode_class.h"
#include "common/base/buf.h"

#define PAYLOAD_FIELDS 64
#define PAYLOAD_TEXT   32

/* form: one letter per field: P pointer, 8 4 2 1 numbers, T stamp of the clock (8), F FILETIME,
 * p port, i IPv4, I IPv6, w a texts, W text of 257 units, G GUID, H 32 bytes, s SID, u user, - 3
 * bytes and = 4 bytes without meaning; o a text that may be missing, with all behind it; R 4
 * bytes, the rest. names: of all but the meaningless ones. opcode: of manifest providers the event
 * id. */
struct payload_row {
    uint8_t opcode, version;
    const char *form, *names, *op;
    enum event_kind kind; /* EV_KIND_COUNT: no fact */
};

struct payload {
    struct buf bytes;
    unsigned pointer_size;
    size_t n;
    char form[PAYLOAD_FIELDS];
    char names[PAYLOAD_FIELDS][PAYLOAD_TEXT];
    uint64_t numbers[PAYLOAD_FIELDS];
    char texts[PAYLOAD_FIELDS][PAYLOAD_TEXT]; /* of texts: what it says */
    size_t must;                              /* bytes in front of the first that may be missing */
    size_t seen;                              /* values the layout gave */
};

#define PAYLOAD_BEGIN 0x0102030405060000 /* values of 8 bytes are slightly above */
#define PAYLOAD_TICKS 0x0102030405070000
#define PAYLOAD_HZ    1000000000

/* The number of a field by its name; the test fails when there is none. */
uint64_t payload_number(const struct payload *p, const char *name);

/* The same of a text; whether there is a field. */
const char *payload_text(const struct payload *p, const char *name);
bool payload_has(const struct payload *p, const char *name);

/* buf_fini(&p->bytes) */
void payload_init(struct payload *p, const struct payload_row *row, unsigned pointer_size);

/* Every row in both pointer sizes: the layout has its name, gives every field with its name and
 * value, and leaves over what is behind; layout and fact refuse every shorter payload. `fact`
 * compares what decode.c made of the payload with its fields. */
void payload_check(const struct decode_class *class, const struct payload_row *rows, size_t n,
                   void (*fact)(const struct event *, const struct payload *));

/* A sink's begin and end where groups must not come. */
void payload_on_begin(void *ctx, struct str name, enum value_group group);
void payload_on_end(void *ctx);

#endif
