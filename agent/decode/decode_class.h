/* What decode_*.c files offer: for each class a list of operations, which decode.c makes facts
 * with, and a list of layouts, by which describe.c names every field. */
#ifndef PROCFLEET_AGENT_DECODE_DECODE_CLASS_H
#define PROCFLEET_AGENT_DECODE_DECODE_CLASS_H

#include "agent/decode/decode_text.h"
#include "agent/decode/layout.h"
#include "agent/event.h"
#include "agent/source.h"

/* Fills out->u only, on ERR_OK only. Errors: ERR_CORRUPT (short), ERR_NOTFOUND (of no interest) */
typedef enum err (*decode_fn)(struct event *out, enum event_kind kind, const struct raw_event *raw,
                              struct decode_text *text);

struct decode_op {
    uint8_t opcode;
    uint8_t first_version; /* older layouts are unknown; newer ones begin like the last known */
    enum event_kind kind;
    decode_fn fn;
};

struct decode_class {
    uint8_t guid[16];
    const struct decode_op *ops;
    size_t n_ops;
    const char *name; /* "Process" */
    const struct layout *layouts;
    size_t n_layouts;
};

extern const struct decode_class decode_process_class;
extern const struct decode_class decode_thread_class;
extern const struct decode_class decode_image_class;
extern const struct decode_class decode_perf_info_class;

#endif
