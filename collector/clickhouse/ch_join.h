/* Two views as one: what the local store still holds comes from it, what is older from a far one.
 * Each host has its own cut: the oldest stamp that the local store holds, or where it has samples
 * again behind what only its tiers have. No batch lies on both sides of it but for clocks that
 * jump: a batch is the side's on which its first stamp lies.
 *
 * A far view that fails is a hole in answers, as it says itself.
 * Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_JOIN_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_JOIN_H

#include "collector/store/read/store_read.h"

/* Both become the view's, also on failure: store_view_close closes them. far: NULL: it does not
 * answer, all that is older than a host's cut is a hole. Errors: ERR_NOMEM, ERR_FULL */
NODISCARD enum err ch_join_open(struct store_view **out, struct store_view *local,
                                struct store_view *far);

#endif
