/* What decode_*.c files offer: for each class a list of operations, which decode.c makes facts
 * with, and a list of layouts, by which describe.c names every field. */
#ifndef PROCFLEET_AGENT_DECODE_DECODE_CLASS_H
#define PROCFLEET_AGENT_DECODE_DECODE_CLASS_H

#include "agent/decode/decode_text.h"
#include "agent/decode/layout.h"
#include "agent/source/event.h"
#include "agent/source/source.h"
#include "common/base/cur.h"

/* Fills out->u only, which is of use on ERR_OK only. Errors: ERR_CORRUPT (short), ERR_NOTFOUND (of
 * no interest) */
typedef enum err (*decode_fn)(struct event *out, enum event_kind kind, const struct raw_event *raw,
                              struct decode_text *text);

struct decode_op {
    uint16_t opcode;       /* of a manifest provider: the event's id */
    uint8_t first_version; /* older layouts are unknown; newer ones begin like the last known */
    enum event_kind kind;
    decode_fn fn;
};

/* A record with a layout but without operation is known and of no interest to decode.c. */
struct decode_class {
    uint8_t guid[16];
    uint8_t form; /* RAW_CLASSIC: by opcode; RAW_MANIFEST: a provider, by event id */
    const struct decode_op *ops;
    size_t n_ops;
    const char *name; /* "Process"; a provider's full name */
    const struct layout *layouts;
    size_t n_layouts;
};

/* All of them, the most frequent first: decode_NAME_class. A class named here is decoded, described
 * by its layouts, and has a fuzz target. */
#define DECODE_CLASSES(X) \
    X(thread)             \
    X(perf_info)          \
    X(stack_walk)         \
    X(page_fault)         \
    X(disk_io)            \
    X(file_io)            \
    X(tcp_ip)             \
    X(udp_ip)             \
    X(registry)           \
    X(image)              \
    X(process)            \
    X(image_id)           \
    X(sys_config)         \
    X(event_trace)        \
    X(system_config)      \
    X(lost_event)         \
    X(kernel_process)     \
    X(clr)                \
    X(dxgi)               \
    X(d3d9)               \
    X(kernel_network)     \
    X(kernel_file)        \
    X(kernel_disk)        \
    X(kernel_registry)

#define DECODE_CLASS(name) extern const struct decode_class decode_##name##_class;
DECODE_CLASSES(DECODE_CLASS)
#undef DECODE_CLASS

extern const struct decode_class *const decode_classes[];
extern const size_t decode_classes_n;

/* The class or provider of a record, or NULL. */
const struct decode_class *decode_class_find(const struct raw_event *raw);

/* What operations and layouts go by: opcode of a classic record, id of others. */
static inline uint16_t decode_number(const struct raw_event *raw)
{
    return raw->form == RAW_CLASSIC ? raw->opcode : raw->id;
}

#endif
