/* What the reasons of the loss ledger mean (metrics contract, section 14). */
#ifndef PROCFLEET_COMMON_LEDGER_H
#define PROCFLEET_COMMON_LEDGER_H

#include <stdbool.h>

#include "common/model.h"

/* Whether a count under this reason is data that is missing from answers. Counts of what went
 * through ("in", "out", "held"), of what was left out on purpose and of what was understood not to
 * concern any process are none; a reason nobody told us about is one. */
bool ledger_is_loss(struct str reason);

#endif
