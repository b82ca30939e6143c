/* Events that describe themselves, for a program that has no room for more: TraceLogging (in the
 * record), EventSource manifests and event metadata (in the stream). The decoders are those of
 * describe.h; layouts of kernel classes, WPP and given schemas are not here.
 * What else is known of events comes by describe_self_absorb.
 * Bounds:  schemas together take at most schema_max bytes. Threads: one owner. */
#ifndef PROCFLEET_AGENT_DECODE_DESCRIBE_SELF_H
#define PROCFLEET_AGENT_DECODE_DESCRIBE_SELF_H

#include "agent/decode/describe.h"

struct describe_self;

NODISCARD enum err describe_self_create(struct describe_self **out, size_t schema_max);
void describe_self_destroy(struct describe_self *d); /* NULL is allowed */

/* Whether the record tells what others look like, and is no event itself. */
bool describe_self_carries(const struct raw_event *raw);

/* As describe_learn; such a record. */
void describe_self_learn(struct describe_self *d, const struct raw_event *raw);
uint64_t describe_self_schemas(const struct describe_self *d); /* events known by now */

/* What others know: as if the stream had taught it. Borrowed during the call. */
struct schema;
void describe_self_absorb(struct describe_self *d, const struct schema *from);

/* Whether nothing tells how the event looks, and that was not asked before. */
bool describe_self_asks(struct describe_self *d, const struct raw_event *raw);

/* As describe_name and describe_values. */
void describe_self_name(struct describe_self *d, const struct raw_event *raw,
                        struct described *out);
NODISCARD enum err describe_self_values(struct describe_self *d, const struct raw_event *raw,
                                        const struct value_sink *sink, struct described *out);

#endif
