/* The live stream: what was stored becomes messages of the event socket.
 *
 * Topics are `event/<host>` (lifecycle events) and `sample/<host>` (the newest row of every process
 * of the batch's last tick). A message is the topic and a NUL, u64 epoch, u64 sequence (little
 * endian; from 1, per topic), then an encoded wire_update. A subscriber that sees a hole in the
 * sequence, or another epoch, has missed messages.
 *
 * The store's writer only notes which batch has become durable; a thread of its own reads it back,
 * completes it with what is known of the processes and publishes. Nothing is done while nobody
 * listens.
 * Bounds: `queue` batches waiting, then new ones are left out and counted: their messages take
 * sequence numbers all the same, so that subscribers see the hole. Threads: subs_stored from the
 * store's writer; the rest from the owner. */
#ifndef PROCFLEET_COLLECTOR_SUBS_H
#define PROCFLEET_COLLECTOR_SUBS_H

#include "collector/store/store_read.h"

struct subs;

#define SUBS_MESSAGE_MAX (1u << 20) /* a subscriber's receive limit */

struct subs_conf {
    uint64_t epoch;     /* other at every start of the collector */
    unsigned queue;     /* batches, 1 to 65536 */
    uint32_t hosts_max; /* topics remembered: two for each host */
    /* Sends one message; never blocks. */
    void (*send)(void *ctx, const void *body, size_t n);
    unsigned (*listeners)(void *ctx); /* subscribers at this moment */
    void *ctx;
};

/* Errors: ERR_NOMEM */
NODISCARD enum err subs_create(struct subs **out, const struct subs_conf *conf);
void subs_destroy(struct subs *s); /* stopped; NULL is allowed */

/* Starts publishing from the store. Errors: ERR_NOMEM, ERR_IO */
NODISCARD enum err subs_start(struct subs *s, struct store *store);
void subs_stop(struct subs *s); /* what waits is not sent; the store is left alone from here on */

/* The store's on_stored; ctx is the subs. Notes and returns. */
void subs_stored(void *ctx, const char *host_name, const struct batch *b);

struct subs_stats {
    uint64_t messages, bytes;
    uint64_t dropped; /* batches that found the queue full */
    uint64_t missed;  /* batches that had left the store before they were published */
    uint64_t oversize;
};
void subs_stats(struct subs *s, struct subs_stats *out);

#endif
