/* Expressions on events (--where): what an event is, and of a provider's event its values.
 *
 *     kind provider event task name host     texts; `name` is the process's
 *     id level pid tid                       numbers
 *     field.NAME, field.OUTER.NAME           a value, a number or a text as it is
 *
 * What an event does not have is unknown. Threads: any; a compiled one is only read. */
#ifndef PROCFLEET_COMMON_EXPR_EXPR_EVENT_H
#define PROCFLEET_COMMON_EXPR_EXPR_EVENT_H

#include "common/expr/expr.h"
#include "common/model/model.h"

#define EXPR_EVENT_FIELDS 32 /* different values that one expression may name */

struct expr_event {
    struct expr expr;
    size_t n_fields;
    struct {
        uint16_t at, n; /* in `text`, behind "field." */
    } fields[EXPR_EVENT_FIELDS];
    char text[EXPR_TEXT_MAX];
};

/* Errors: those of expr_compile; `why` names the column */
NODISCARD enum err expr_event_compile(struct expr_event *out, struct str text, struct errmsg *why);

/* `kind` is its kind's name. */
enum expr_truth expr_event_run(const struct expr_event *x, const struct life_event *ev,
                               struct str host, struct str kind);

#endif
