/* An update to and from its message, for replies that carry several. Private to the folder.
 * Threads: any; no state. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_UPDATE_H
#define PROCFLEET_COMMON_WIRE_WIRE_UPDATE_H

#include "common/wire/wire.h"
#include "common/wire/wire_query.h"
#include "proto/query.pb-c.h"

/* `m` and what it points to borrow from `u` and live in the arena. Errors: ERR_INVALID (a host that
 * is none, a count over its limit), ERR_NOMEM, ERR_FULL (the arena) */
NODISCARD enum err wire_update_put(Procfleet__V1__Update *m, const struct wire_update *u,
                                   struct wire_arena *a);

/* As wire_update_encode, slower, by way of the message. */
NODISCARD enum err wire_update_pack(struct buf *out, const struct wire_update *u);

/* Lets the arena grow by what one answer may take. Errors: ERR_CORRUPT, ERR_FULL, ERR_NOMEM */
NODISCARD enum err wire_update_get(struct wire_update *u, const Procfleet__V1__Update *m,
                                   struct wire_arena *a);

#endif
