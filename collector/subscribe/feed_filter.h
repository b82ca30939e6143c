/* What a subscription wants of the journal's records: by topic and host without reading them, by
 * program, kind and metric inside. Threads: any; no state. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_FEED_FILTER_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_FEED_FILTER_H

#include "collector/subscribe/journal.h"
#include "common/base/arena.h"
#include "common/wire/wire_feed.h"

/* Whether the record's topic and host are wanted, and in the scope ("" = everything). One that is
 * damaged, so that its host is unknown (no name), concerns all. */
bool feed_filter_record(const struct wire_filter *f, const char *scope,
                        const struct journal_record *r);

/* Whether both are the same in every member. */
bool feed_filter_same(const struct wire_filter *a, const struct wire_filter *b);

/* Room for what is left of a reply; feed_filter_cut takes from it. */
struct feed_filter_room {
    size_t items; /* events and rows */
    size_t bytes; /* of the encoded reply, estimated generously */
};

/* What is wanted of an update, from its item `*from` on (events first, then rows), as much as there
 * is room for. *from becomes the first item that was not looked at, or UINT32_MAX when none is
 * left. `out` has neither events nor rows when nothing is wanted; it lives in `memory` and borrows
 * nothing from `in`. Errors: ERR_NOMEM, ERR_FULL (memory) */
NODISCARD enum err feed_filter_cut(struct wire_update *out, const struct wire_update *in,
                                   const struct wire_filter *f, uint32_t *from,
                                   struct feed_filter_room *room, struct arena *memory);

#endif
