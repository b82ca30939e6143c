/* Values of events as text for people and as JSON. Threads: any. */
#ifndef PROCFLEET_AGENT_ETL_VALUE_TEXT_H
#define PROCFLEET_AGENT_ETL_VALUE_TEXT_H

#include "agent/decode/value.h"
#include "agent/etl/jsonw.h"

struct value_people {
    struct buf *out;
    uint64_t arrays; /* a bit per open group, the innermost lowest */
    bool first;
};

/* Sinks that print `name=value name={…} name=[…]` and members of an open JSON object. `p` and
 * `out` are the caller's and outlive the sink. */
struct value_sink value_text_people(struct value_people *p, struct buf *out);
struct value_sink value_text_json(struct jsonw *out);

void value_text_hex(struct buf *out, const uint8_t *p, size_t n);

#endif
