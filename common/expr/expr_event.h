/* The fields of an event in expressions (--where): what it is, and of a provider's its values.
 *
 *     kind provider event task name host     texts; `name` is the process's
 *     id level pid tid                       numbers
 *     field.NAME, field.OUTER.NAME           a value, a number or a text as it is
 *
 * What an event does not have is unknown. An environment that has other fields, too, asks here
 * last; what judges events alone compiles them here. Threads: any; a compiled one is only read. */
#ifndef PROCFLEET_COMMON_EXPR_EXPR_EVENT_H
#define PROCFLEET_COMMON_EXPR_EXPR_EVENT_H

#include "common/base/buf.h"
#include "common/expr/expr_host.h"
#include "common/model/model.h"

#define EXPR_EVENT        EXPR_HOST_END
#define EXPR_EVENT_VALUES 32 /* different values that one expression may name */
#define EXPR_EVENT_END    (EXPR_EVENT + 16u + EXPR_EVENT_VALUES)

/* The values that an expression speaks of: names behind "field.", borrowed from its text. */
struct expr_event_values {
    size_t n;
    struct str names[EXPR_EVENT_VALUES];
};

/* False: there is no such field, or too many values. */
bool expr_event_field(struct str name, struct expr_event_values *values, struct expr_field *out);

/* An event whose fields are asked for. Caller's storage. */
struct expr_event_look {
    const struct expr_event_values *values;
    const struct life_event *event;
    struct str host, kind;               /* `kind` is its kind's name */
    struct buf rooms[EXPR_EVENT_VALUES]; /* texts of values; one may be asked for while another is
                                            in use */
};

void expr_event_look_init(struct expr_event_look *l, const struct expr_event_values *values,
                          const struct life_event *ev, struct str host, struct str kind);
void expr_event_look_fini(struct expr_event_look *l);

/* A slot of [EXPR_EVENT, EXPR_EVENT_END); *out is unknown before. */
void expr_event_value(struct expr_event_look *l, uint32_t slot, struct expr_value *out);

/* -- of events alone -- */

struct expr_event {
    struct expr expr;
    struct expr_event_values values;
};

/* `text` is borrowed as long as *out is used. Errors: those of expr_compile; `why` names the
 * column */
NODISCARD enum err expr_event_compile(struct expr_event *out, struct str text, struct errmsg *why);

enum expr_truth expr_event_run(const struct expr_event *x, const struct life_event *ev,
                               struct str host, struct str kind);

#endif
