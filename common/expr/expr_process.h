/* The fields of a process in expressions, for whoever judges processes: filters, rules, events.
 *
 *     name image user command pid parent exit ended life age session, and every metric that is a
 *     number
 *
 * An environment asks here first and adds its own fields from EXPR_PROCESS_END on. Threads: any; no
 * state. */
#ifndef PROCFLEET_COMMON_EXPR_EXPR_PROCESS_H
#define PROCFLEET_COMMON_EXPR_EXPR_PROCESS_H

#include "common/expr/expr.h"
#include "common/model/model.h"

#define EXPR_PROCESS_METRIC 256u  /* plus the metric's id */
#define EXPR_PROCESS_END    1024u /* slots from here on are others' */

/* False: there is no such field. */
bool expr_process_field(struct str name, struct expr_field *out);

/* A slot below EXPR_PROCESS_METRIC. info: NULL: nothing is known. now_ns: UTC, for the age; 0: not
 * known. */
void expr_process_value(uint32_t slot, const struct proc_info *info, int64_t now_ns,
                        struct expr_value *out);

/* The metric of a slot; NULL: it is none. */
static inline const struct metric *expr_process_metric(uint32_t slot)
{
    return slot >= EXPR_PROCESS_METRIC && slot < EXPR_PROCESS_END
               ? metric_by_id(slot - EXPR_PROCESS_METRIC)
               : NULL;
}

/* A metric's value in the units of expressions. */
static inline struct expr_value expr_process_number(const struct metric *m, int64_t value)
{
    return expr_number(m->unit == UNIT_PERMILLE ? (long double)value / 1000 : (long double)value);
}

/* The field that is spelt most like it, or NULL. */
const char *expr_process_closest(struct str name);

#endif
