/* The states of a subject: ok, firing, unknown. Private to the engine.
 *
 *             true for `for`                 unknown for longer than `for`
 *        ok ------------------> firing    ok, firing ---------------------> unknown
 *           <------------------                    <-----------------------
 *            false for `clear`               known again: what it was, by the same times
 *
 * Only a subject that fires, a host, or several hosts become unknown with a notice: of a process on
 * a host that is silent the host's own rules tell. A window that is not full yet is no news. Both
 * times are of steps without a break: one that is unknown begins them anew. */
#ifndef PROCFLEET_COLLECTOR_RULES_RULES_STATE_H
#define PROCFLEET_COLLECTOR_RULES_RULES_STATE_H

#include "collector/rules/rules_types.h"

/* One step further. */
void rules_state_step(struct rules_judge *j, uint32_t sub, int64_t step_ns, enum expr_truth truth,
                      uint8_t reason);

/* Whatever it was, it is ok. */
void rules_state_end(struct rules_judge *j, uint32_t sub, int64_t step_ns);

/* As it is known outside. */
void rules_state_subject(const struct rules_judge *j, uint32_t sub, struct rules_subject *out);

#endif
