/* Reading the journal for one Poll: from a cursor on, what a filter lets pass, as much as a reply
 * may hold. Threads: any; no state. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_SUBSCRIPTIONS_SCAN_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_SUBSCRIPTIONS_SCAN_H

#include "collector/subscribe/feed_filter.h"
#include "collector/subscribe/subscriptions_cursor.h"

struct subscriptions_scan {
    const struct wire_filter *filter;
    const char *scope;
    struct subscriptions_cursor at; /* where it begins; then where it ended */
    struct feed_filter_room room;
    struct arena *memory;

    struct wire_update *updates; /* in `memory` */
    size_t n, cap;
    uint64_t items;   /* events and rows in them */
    uint64_t missing; /* messages that never were, could not be read, or went while it read */
    uint64_t counted; /* up to this position an earlier reply has counted them */
    uint64_t fresh;   /* of missing, those from there on */
    bool more;        /* it ended before the journal did */
};

/* Reads at most some MiB: with a filter that lets little pass, `more` may come with nothing.
 * Errors: ERR_IO, ERR_NOMEM, ERR_FULL (memory) */
NODISCARD enum err subscriptions_scan(struct subscriptions_scan *s, struct journal *j);

/* About the bytes of the records at and behind a position; exact when they are few. */
uint64_t subscriptions_scan_behind(struct journal *j, uint64_t position);

#endif
