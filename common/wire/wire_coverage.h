/* The coverage of an answer to and from its messages, for wire_answer.c; nobody else includes this.
 * Threads: any; no state. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_COVERAGE_H
#define PROCFLEET_COMMON_WIRE_WIRE_COVERAGE_H

#include "common/wire/wire_mem.h"
#include "common/wire/wire_query.h"
#include "proto/query.pb-c.h"

/* Errors: ERR_INVALID (a host that is none, a count over its limit), ERR_NOMEM */
NODISCARD enum err wire_coverage_put(Procfleet__V1__Answer *m, const struct wire_answer *in,
                                     struct wire_arena *a);

/* out->n_hosts is known. Errors: ERR_CORRUPT, ERR_FULL, ERR_NOMEM */
NODISCARD enum err wire_coverage_get(struct wire_answer *out, const Procfleet__V1__Answer *m,
                                     struct wire_arena *a);

#endif
