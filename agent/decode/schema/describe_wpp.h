/* WPP trace messages: a GUID of the source file (or the number of a component), a number of the
 * message, arguments without any description. With the program's message files they become values
 * by name and a text; without, the header's fields and the raw payload.
 * Bounds: WPP_TEXT_MAX bytes of text; longer ones are cut. Threads: one owner. */
#ifndef PROCFLEET_AGENT_DECODE_SCHEMA_DESCRIBE_WPP_H
#define PROCFLEET_AGENT_DECODE_SCHEMA_DESCRIBE_WPP_H

#include "agent/decode/decode_text.h"
#include "agent/decode/schema/tmf.h"
#include "agent/source/source.h"
#include "common/base/buf.h"
#include "common/model/value.h"

#define WPP_TEXT_MAX ((size_t)128 << 10)

/* An argument as it was read. */
struct wpp_argument {
    uint8_t type; /* enum tmf_type */
    uint8_t bits; /* of numbers */
    uint64_t u;   /* numbers, signed ones extended */
    double f;
    struct str text; /* what %s shows; of numbers empty */
};

struct wpp {
    struct decode_text text; /* of all arguments */
    struct wpp_argument arguments[TMF_ITEMS_MAX];
    size_t n_arguments; /* read so far */
    struct buf message;
};

void describe_wpp_init(struct wpp *w);
void describe_wpp_fini(struct wpp *w);

/* Gives "Sequence" and "Component" where the record has them, then the arguments and "Message", or
 * without `m` (NULL) "Payload". An argument of a kind nobody knows ends them: "Rest" is what
 * follows. *left = bytes not understood.
 * Errors: ERR_CORRUPT (the payload ends within an argument; those before were given) */
NODISCARD enum err describe_wpp_read(struct wpp *w, const struct tmf_message *m,
                                     const struct raw_event *raw, const struct value_sink *sink,
                                     size_t *left);

#endif
