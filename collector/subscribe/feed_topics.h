/* Numbers of topics by the host's name: where there is no journal to give them, and of batches that
 * were left out. Bounds: `max` names. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_FEED_TOPICS_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_FEED_TOPICS_H

#include "collector/subscribe/journal.h"

struct feed_topic_seqs {
    char name[MODEL_HOST_NAME_MAX + 1];
    uint64_t seq[FEED_TOPICS];
};

struct feed_topics {
    struct feed_topic_seqs *all; /* by name */
    size_t n, cap, max;
};

void feed_topics_init(struct feed_topics *t, size_t max);
void feed_topics_fini(struct feed_topics *t);

/* Made when it is not there. NULL: no room. Valid until the next call. */
struct feed_topic_seqs *feed_topics_get(struct feed_topics *t, const char *name);

#endif
