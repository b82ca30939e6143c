/* A program that consumes a durable subscription: polls, hands each reply to its owner, and keeps
 * the cursor in a file when the owner is done with all of it. Killed in between, the same updates
 * come again, with what the owner had kept beside the cursor.
 *
 * While the collector does not answer it is asked again, with pauses that grow to a minute.
 * Threads: consumer_run is one thread's, and calls its owner there. consumer_stop: any. */
#ifndef PROCFLEET_COLLECTOR_FORWARD_CONSUMER_H
#define PROCFLEET_COLLECTOR_FORWARD_CONSUMER_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/tls/tls_config.h"
#include "common/wire/wire_feed.h"

#define CONSUMER_STATE_MAX ((size_t)256 << 20) /* bytes of the file */

struct consumer;

/* Texts are borrowed until consumer_close. */
struct consumer_conf {
    const char *collector; /* HOST:PORT of queries */
    const char *ca, *cert, *key, *server_name;
    const char *program; /* "procfleet-forward": for the collector's log */
    const char *name;    /* of the subscription */
    const char *state;   /* the file; locked while it is open */
    struct wire_filter filter;
    bool from_oldest; /* a new subscription begins with the oldest update kept */
    uint32_t max;     /* events and rows of a reply, 1 to WIRE_UPDATES_MAX */
    /* Is done with all of the reply when it returns ERR_OK; ERR_CLOSED: stopped before that. Other
     * errors end consumer_run. After any error nothing is saved any more. */
    enum err (*deliver)(void *ctx, const struct wire_poll_reply *reply, struct errmsg *why);
    void (*save)(void *ctx, struct buf *out); /* what stands beside the cursor; may be NULL */
    enum err (*load)(void *ctx, const void *p, size_t n); /* likewise */
    void *ctx;
};

/* Reads the state. Errors: ERR_NOMEM; ERR_BUSY (another one runs with it), ERR_CORRUPT, ERR_ACCESS,
 * ERR_IO (the file); those of tls_config_load */
NODISCARD enum err consumer_open(struct consumer **out, const struct consumer_conf *conf,
                                 struct errmsg *why);
void consumer_close(struct consumer *c); /* NULL is allowed */

/* Until it is stopped. Errors: ERR_REFUSED (the collector takes neither certificate nor question:
 * asking again would not help), those of `deliver` */
NODISCARD enum err consumer_run(struct consumer *c, struct errmsg *why);
void consumer_stop(struct consumer *c);
bool consumer_is_stopped(const struct consumer *c);

/* -- for `deliver`: attempts of something that may succeed later -- */

struct consumer_retry {
    int64_t begun_ns;  /* monotonic, the first attempt; 0: none yet */
    int64_t end_ns;    /* monotonic, after which there are no more; 0: never */
    uint32_t attempts; /* that failed */
};

/* After a failure: waits for a pause that grows from half a second to two minutes, or after_s if
 * that is longer. False: consumer_stop, or the end has passed: give up. */
bool consumer_again(struct consumer *c, struct consumer_retry *r, uint32_t after_s);

/* Asks the collector something besides; one attempt. reply: emptied first. more: the cursor for the
 * next page, n 0: there is none. Errors: ERR_REFUSED and others; *again: asking once more may help;
 * ERR_CLOSED: stopped */
struct consumer_ask {
    const char *method;
    const void *p;
    size_t n;
    bool more, again;
    uint8_t cursor[255];
    size_t n_cursor;
};
NODISCARD enum err consumer_ask(struct consumer *c, struct consumer_ask *ask, struct buf *reply,
                                struct errmsg *why);

struct consumer_stats {
    uint64_t updates; /* all so far, over restarts, like the next */
    uint64_t dropped; /* messages that the collector dropped before they were asked for */
    uint64_t behind_bytes;
};
void consumer_stats(struct consumer *c, struct consumer_stats *out); /* any thread */

#endif
