/* Messages on their way out: encoded, numbered, into the journal, synced, then sent. Threads: one
 * owner, the publisher. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_FEED_OUT_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_FEED_OUT_H

#include "collector/subscribe/feed.h"
#include "common/wire/wire_query.h"

struct feed_out;

/* conf: copied, what it points to is borrowed. Errors: ERR_NOMEM */
NODISCARD enum err feed_out_create(struct feed_out **out, const struct feed_conf *conf);
/* Called while the disk is full; waits a moment. False: what waits is to be dropped. Without it
 * that is so at once. */
void feed_out_on_full(struct feed_out *o, bool (*wait)(void *ctx), void *ctx);
void feed_out_destroy(struct feed_out *o); /* NULL is allowed */

/* Makes a message of the update. about: of its record, all but position, seq and n. Failures are
 * counted and leave a hole in the topic's numbers. */
void feed_out_put(struct feed_out *o, const struct journal_record *about,
                  const struct wire_update *u);
/* `n` messages that never were take a number of their topic. With a journal a record without
 * payload says so to those who have not come yet; one that fails is written at the next begin. */
void feed_out_skip(struct feed_out *o, enum feed_topic topic, const char *name, uint64_t n);
/* Before the messages of batches that were stored at that time, and of skips. */
void feed_out_begin(struct feed_out *o, int64_t stored_ns);

/* Between batches: what waits is journalled and sent, when it is much or `all` is wanted. */
void feed_out_flush(struct feed_out *o, bool all);
void feed_out_quiet(struct feed_out *o, bool quiet); /* journalled, and not sent */

/* Adds what was counted since the last call. */
void feed_out_counts(struct feed_out *o, struct feed_stats *stats);

#endif
