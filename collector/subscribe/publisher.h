/* Messages on their way out: encoded, numbered, into the journal, synced, then sent. Threads: one
 * owner, the publisher. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_PUBLISHER_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_PUBLISHER_H

#include "collector/subscribe/feed_types.h"
#include "common/wire/wire_query.h"

struct publisher;

/* conf: copied, what it points to is borrowed. Errors: ERR_NOMEM */
NODISCARD enum err publisher_create(struct publisher **out, const struct feed_conf *conf);
/* Called while the disk is full; waits a moment. False: what waits is to be dropped. Without it
 * that is so at once. */
void publisher_on_full(struct publisher *o, bool (*wait)(void *ctx), void *ctx);
void publisher_destroy(struct publisher *o); /* NULL is allowed */

/* Makes a message of the update. about: of its record, all but position, seq and n. Failures are
 * counted and leave a hole in the topic's numbers. */
void publisher_put(struct publisher *o, const struct journal_record *about,
                   const struct wire_update *u);
/* `n` messages that never were take a number of their topic. With a journal a record without
 * payload says so to those who have not come yet; one that fails is written at the next begin. */
void publisher_skip(struct publisher *o, enum feed_topic topic, const char *name, uint64_t n);
/* Before the messages of batches that were stored at that time, and of skips. */
void publisher_begin(struct publisher *o, int64_t stored_ns);

/* Between batches: what waits is journalled and sent, when it is much or `all` is wanted. */
void publisher_flush(struct publisher *o, bool all);
void publisher_quiet(struct publisher *o, bool quiet); /* journalled, and not sent */

/* Adds what was counted since the last call. */
void publisher_counts(struct publisher *o, struct feed_stats *stats);

/* -- numbers of topics by the host's name: where there is no journal to give them, and of batches
 * that were left out. Bounds: `max` names. One owner. -- */

struct publisher_topic {
    char name[MODEL_HOST_NAME_MAX + 1];
    uint64_t seq[FEED_TOPICS];
};

struct publisher_topics {
    struct publisher_topic *all; /* by name */
    size_t n, cap, max;
};

void publisher_topics_init(struct publisher_topics *t, size_t max);
void publisher_topics_fini(struct publisher_topics *t);

/* Made when it is not there. NULL: no room. Valid until the next call. */
struct publisher_topic *publisher_topics_get(struct publisher_topics *t, const char *name);

#endif
