/* An answer to and from its message, for updates. Private to the folder. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_ANSWER_H
#define PROCFLEET_COMMON_WIRE_WIRE_ANSWER_H

#include "common/wire/wire.h"
#include "common/wire/wire_query.h"
#include "proto/query.pb-c.h"

#define WIRE_ANSWER_PACK_BYTES (64u << 20) /* memory to build a message in */

/* `m` and what it points to borrow from `in` and live in the arena. Errors: ERR_INVALID (a host
 * that is none, a count over its limit), ERR_NOMEM, ERR_FULL (the arena) */
NODISCARD enum err wire_answer_put(Procfleet__V1__Answer *m, const struct wire_answer *in,
                                   struct wire_arena *a);
/* Lets the arena grow by what one answer may take. Errors: ERR_CORRUPT, ERR_FULL, ERR_NOMEM */
NODISCARD enum err wire_answer_get(struct wire_answer *out, const Procfleet__V1__Answer *m,
                                   struct wire_arena *a);

#endif
