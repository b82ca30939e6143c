/* The rows of an answer, and the table of instances they share, to and from their messages. Of more
 * than 64 metrics the others are in a message of their own, which older readers leave out. Private
 * to the folder. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_ROWS_H
#define PROCFLEET_COMMON_WIRE_WIRE_ROWS_H

#include "common/wire/wire.h"
#include "common/wire/wire_query.h"
#include "proto/query.pb-c.h"

/* Errors: ERR_INVALID (a host that is none), ERR_NOMEM */
NODISCARD enum err wire_rows_put(Procfleet__V1__Answer *m, const struct wire_answer *in,
                                 struct wire_arena *a);
/* After the answer's metrics. Errors: ERR_CORRUPT, ERR_NOMEM */
NODISCARD enum err wire_rows_get(struct wire_answer *out, const Procfleet__V1__Answer *m,
                                 struct wire_arena *a);

/* Whether a row shares its entry in the table of instances with the row before. */
bool wire_rows_same_info(const struct proc_info *x, const struct proc_info *y);

/* The bits of a row's have (`high`: have_high) that stand for one of so many metrics. */
uint64_t wire_rows_known(size_t n_metrics, bool high);

#endif
