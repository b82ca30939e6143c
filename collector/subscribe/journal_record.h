/* One message of the feed, as the journal and its readers hand it on. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_JOURNAL_RECORD_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_JOURNAL_RECORD_H

#include "common/model/model.h"
#include "common/os/uuid.h"

#define JOURNAL_PAYLOAD_MAX (1u << 20)

enum feed_topic { FEED_EVENT, FEED_SAMPLE, FEED_RULE, FEED_TOPICS };

struct journal_record {
    uint64_t position; /* given by journal_append */
    uint64_t seq;      /* of its topic, from 1; likewise */
    enum feed_topic topic;
    struct uuid host;
    char name[MODEL_HOST_NAME_MAX + 1];
    uint64_t stream, batch, last_batch; /* the batches it was made of: one, or several in a row;
                                           FEED_RULE: those of the book of notices, its numbers */
    bool more;                          /* the next record goes on with the same batch */
    int64_t stored_ns;                  /* UTC, collector's clock */
    int64_t first_ns, last_ns;          /* stamps inside */
    size_t n; /* bytes of an encoded Update; 0: a gap, of last_batch - batch + 1 messages that never
                 were, with stream 0 */
};

#endif
