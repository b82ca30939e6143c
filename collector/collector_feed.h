/* The feed and what belongs to it, wired: journal and roster in data_dir/feed, publisher, methods
 * of the query listener. The directory is the store's, so the store is open before. Threads: the
 * owner; stored and keep from the store's. */
#ifndef PROCFLEET_COLLECTOR_COLLECTOR_FEED_H
#define PROCFLEET_COLLECTOR_COLLECTOR_FEED_H

#include <stdatomic.h>

#include "collector/conf/collector_conf.h"
#include "collector/subscribe/feed.h"
#include "collector/subscribe/feed_serve.h"

struct collector_feed {
    struct journal *journal; /* NULL: the configuration wants none; then the next two also */
    struct subscriptions *roster;
    struct feed_serve *serve;
    struct feed *feed;
    uint64_t epoch;    /* of the messages */
    atomic_bool ready; /* the store's threads may come */
    void (*send)(void *ctx, const struct str *list, size_t n);
    unsigned (*listeners)(void *ctx);
    void *ctx;
};

struct collector_feed_conf {
    const struct collector_conf *conf;
    void (*send)(void *ctx, const struct str *list, size_t n);
    unsigned (*listeners)(void *ctx);
    void *ctx;
};

/* What the journal may take: as configured, and at most an eighth of the ceiling over data_dir.
 * 0: there is none. */
uint64_t collector_feed_bytes(const struct collector_conf *conf);

/* Errors: those of journal_open and feed_create; why names the file. Close after an error, too. */
NODISCARD enum err collector_feed_open(struct collector_feed *f,
                                       const struct collector_feed_conf *conf, struct errmsg *why);
NODISCARD enum err collector_feed_start(struct collector_feed *f, struct store *store,
                                        struct errmsg *why);
void collector_feed_stop_polls(struct collector_feed *f); /* before the query listener stops */
void collector_feed_stop(struct collector_feed *f);       /* before the store closes */
void collector_feed_close(struct collector_feed *f);      /* after it */

/* The store's on_stored and before_forget; ctx is this. */
void collector_feed_stored(void *ctx, const struct store_stored *stored);
bool collector_feed_keep(void *ctx);

#endif
