/* What decode_*.c files offer: for each class a list of operations, which decode.c makes facts
 * with, and a list of layouts, by which describe.c names every field. */
#ifndef PROCFLEET_AGENT_DECODE_DECODE_CLASS_H
#define PROCFLEET_AGENT_DECODE_DECODE_CLASS_H

#include "agent/decode/decode_text.h"
#include "agent/decode/layout.h"
#include "agent/source/event.h"
#include "agent/source/source.h"

/* Fills out->u only, on ERR_OK only. Errors: ERR_CORRUPT (short), ERR_NOTFOUND (of no interest) */
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

extern const struct decode_class decode_disk_io_class;
extern const struct decode_class decode_event_trace_class;
extern const struct decode_class decode_file_io_class;
extern const struct decode_class decode_image_class;
extern const struct decode_class decode_image_id_class;
extern const struct decode_class decode_kernel_process_class;
extern const struct decode_class decode_lost_event_class;
extern const struct decode_class decode_page_fault_class;
extern const struct decode_class decode_perf_info_class;
extern const struct decode_class decode_process_class;
extern const struct decode_class decode_registry_class;
extern const struct decode_class decode_stack_walk_class;
extern const struct decode_class decode_sys_config_class;
extern const struct decode_class decode_system_config_class;
extern const struct decode_class decode_tcp_ip_class;
extern const struct decode_class decode_thread_class;
extern const struct decode_class decode_udp_ip_class;

/* All of them, the most frequent first. */
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
