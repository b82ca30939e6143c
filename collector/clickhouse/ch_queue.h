/* Batches that wait in memory to be sent, and those of the block under way. Bounds: bytes_max.
 * Threads: the caller's lock guards it; what lies in `sending` is its sender's to read without. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_QUEUE_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_QUEUE_H

#include "collector/store/store_conf.h"
#include "common/base/map.h"

struct ch_queue_item {
    struct ch_queue_item *next;
    struct batch *batch;
    char name[MODEL_HOST_NAME_MAX + 1];
    struct host_offset clock;
    int64_t received_ns, made_ns;
    size_t bytes;
};

struct ch_queue {
    struct ch_queue_item *first, **last;
    struct ch_queue_item *sending;
    size_t bytes, batches, bytes_max; /* without those of `sending` */
    struct map index;                 /* from their numbers' hash to them; when it is made: */
    bool indexed;
};

void ch_queue_init(struct ch_queue *q, size_t bytes_max);
void ch_queue_fini(struct ch_queue *q);

/* Needs no lock. NULL: no memory */
struct ch_queue_item *ch_queue_item(const struct store_stored *stored, int64_t made_ns);
void ch_queue_free(struct ch_queue_item *list); /* likewise; with all behind it */

/* False: there is no room; the item stays the caller's. */
bool ch_queue_put(struct ch_queue *q, struct ch_queue_item *item);
/* The oldest become `sending`, until they are so many cells or bytes. False: there are none. */
bool ch_queue_take(struct ch_queue *q, size_t cells, size_t bytes);
/* Whether that batch waits. */
bool ch_queue_has(struct ch_queue *q, const struct uuid *host, uint64_t stream, uint64_t seq);
/* `sending` in the order of the tables, by host and time: an array of *n. NULL: no memory */
struct ch_queue_item **ch_queue_sorted(const struct ch_queue *q, size_t *n);

#endif
