/* The newest batches of every host in memory, encoded as they came, with what is known of their
 * processes. Decoding happens in the reader.
 * Bounds:  bytes over all hosts, age of a batch's newest stamp, instances per host (head_info.h);
 *          hosts are bounded by the store. Batches go in chunks of HEAD_CHUNK, the oldest first
 * over all hosts; a host without batches goes too. Threads: one writer. Readers take the published
 * state, which never changes, by reference; the writer waits for none of them. */
#ifndef PROCFLEET_COLLECTOR_HEAD_H
#define PROCFLEET_COLLECTOR_HEAD_H

#include <stdatomic.h>

#include "collector/head_info.h"
#include "collector/seqset.h"
#include "common/wire.h"

#define HEAD_CHUNK 16u

struct head;

/* A batch as it is kept. */
struct head_batch {
    uint64_t stream, seq;
    int64_t t0_ns, t1_ns; /* oldest and newest stamp inside */
    int64_t received_ns;
    uint64_t file; /* of the log */
    size_t n;
    uint8_t bytes[];
};

NODISCARD enum err head_batch_create(struct head_batch **out, const void *bytes, size_t n);
void head_batch_destroy(struct head_batch *b); /* NULL is allowed */

/* The span of stamps of a batch's ticks and events; of one without any, [now, now]. */
void head_span(const struct batch *b, int64_t now_ns, int64_t *t0_ns, int64_t *t1_ns);

struct head_conf {
    uint64_t bytes_max;
    int64_t age_max_ns;
    uint32_t instances_max;                    /* per host */
    void (*on_drop)(void *ctx, uint64_t file); /* a batch left the head; from the writer */
    void *ctx;
};

NODISCARD enum err head_create(struct head **out, const struct head_conf *conf);
void head_destroy(struct head *h); /* views live on; NULL is allowed */

/* -- writer. reserve does all that can fail, append what cannot; nothing is seen by readers until
 *    prepare and publish. -- */
struct head_host;

/* counts: moved when ERR_OK. Errors: ERR_NOMEM */
NODISCARD enum err head_reserve(struct head *h, struct head_host **host, const char *host_name,
                                const struct batch *b, struct seqset_counts *counts, int64_t t1_ns);
void head_append(struct head *h, struct head_host *host, const struct batch *b,
                 struct head_batch *kept); /* kept is moved */
/* Drops what is over the limits and builds the next state. now_ns: newest arrival, UTC.
 * Errors: ERR_NOMEM (call again) */
NODISCARD enum err head_prepare(struct head *h, int64_t now_ns);
void head_retain(struct head *h, int64_t now_ns); /* only drops */
void head_publish(struct head *h);

struct head_stats {
    uint64_t bytes, batches, dropped_batches, hosts;
};
void head_stats(const struct head *h, struct head_stats *out);

/* -- readers -- */
struct head_state;
struct head_state *head_view(struct head *h); /* any thread; released by head_view_release */
void head_view_release(struct head_state *s); /* NULL is allowed */

/* One host in a state. Plain data, valid until release. */
struct head_seen {
    struct uuid id, boot;
    char name[MODEL_HOST_NAME_MAX + 1];
    char source[32];
    uint32_t flags, cpus;
    int64_t first_ns, last_ns, received_ns;
    uint64_t batches;     /* ever appended, recovered ones included */
    uint64_t lost_events; /* by their ledgers */
    const struct seqset_counts *counts;
    const struct head_infos_snap *infos;
};

size_t head_view_hosts(const struct head_state *s);
const struct head_seen *head_view_host(const struct head_state *s, size_t i); /* by name, id */

/* The batches whose span meets [since, until), oldest first; *list is the caller's (mem_free), the
 * batches are valid until release. Errors: ERR_NOMEM */
NODISCARD enum err head_view_batches(const struct head_state *s, size_t host, int64_t since_ns,
                                     int64_t until_ns, const struct head_batch ***list, size_t *n);

#endif
