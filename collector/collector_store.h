/* The store in data_dir, and the feed: journal and subscriptions in data_dir/feed, publisher,
 * methods of the query listener. The directory is the store's, so the store is open before.
 * Threads: the owner; stored and keep from the store's. */
#ifndef PROCFLEET_COLLECTOR_COLLECTOR_STORE_H
#define PROCFLEET_COLLECTOR_COLLECTOR_STORE_H

#include <stdatomic.h>

#include "collector/clickhouse/ch_sink.h"
#include "collector/conf/collector_conf.h"
#include "collector/lab/lab_service.h"
#include "collector/query/pulse.h"
#include "collector/rules/rules_live.h"
#include "collector/subscribe/feed.h"
#include "collector/subscribe/feed_serve.h"

struct collector_feed {
    struct journal *journal; /* NULL: the configuration wants none; then the next two also */
    struct subscriptions *subscriptions;
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

struct collector_store {
    const struct collector_conf *conf; /* borrowed */
    struct store *store;
    struct collector_feed feed;
    _Atomic(struct lab_service *) lab;  /* NULL: not yet, or no more; the owner's */
    struct ch_sink *sink;               /* NULL: no clickhouse.urls; the owner's, as pulse */
    _Atomic(struct rules_live *) rules; /* likewise */
    struct pulse *pulse; /* stopped before the store closes, destroyed by the owner */
    int64_t progress_ns; /* of the last line about recovery */
    int percent;         /* last reported to the service manager */
};

/* Opens and recovers the store with s->conf; what it held is logged. The caller closes s->store.
 * Errors: those of store_open */
NODISCARD enum err collector_store_open(struct collector_store *s, struct errmsg *why);

/* What the journal may take: as configured, and at most an eighth of the ceiling over data_dir.
 * 0: there is none. */
uint64_t collector_store_feed_bytes(const struct collector_conf *conf);

/* What runs' files may take: as configured, likewise. */
uint64_t collector_store_runs_bytes(const struct collector_conf *conf);

/* Errors: those of journal_open and feed_create; why names the file. Close after an error, too. */
NODISCARD enum err collector_store_feed_open(struct collector_feed *f,
                                             const struct collector_feed_conf *conf,
                                             struct errmsg *why);
NODISCARD enum err collector_store_feed_start(struct collector_feed *f, struct store *store,
                                              struct errmsg *why);
void collector_store_feed_stop_polls(
    struct collector_feed *f);                             /* before the query listener stops */
void collector_store_feed_stop(struct collector_feed *f);  /* before the store closes */
void collector_store_feed_close(struct collector_feed *f); /* after it */

/* The store's on_stored and before_forget; ctx is this. */
void collector_store_feed_stored(void *ctx, const struct store_stored *stored);
bool collector_store_feed_keep(void *ctx);

#endif
