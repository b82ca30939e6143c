/* The batches of every host that are not sealed yet, encoded as they came, and what is known of all
 * hosts and of their processes. Decoding happens in the reader.
 * Bounds:  instances per host (head_info.h); bytes and hosts are bounded by the store, which seals
 *          and refuses. Nothing is dropped here: batches go when they are sealed, a host when
 *          nothing of it is held any more, sealed or not.
 * Threads: one writer. Readers take the published state, which never changes, by reference; the
 *          writer waits for none of them. */
#ifndef PROCFLEET_COLLECTOR_STORE_MEMTABLE_HEAD_H
#define PROCFLEET_COLLECTOR_STORE_MEMTABLE_HEAD_H

#include <stdatomic.h>

#include "collector/store/host_offset.h"
#include "collector/store/memtable/head_info.h"
#include "collector/store/memtable/recent_columns.h"
#include "collector/store/segment/seqset.h"
#include "collector/store/wal/wal_source.h"
#include "common/wire/wire_batch.h"

#define HEAD_CHUNK        16u
#define HEAD_CHUNK_MEMORY (16u << 20) /* decoded; one batch may be more */

/* Hot forms are kept of what came in so long: a minute, the one before it, in which counters have
 * their base, and a batch. */
#define HEAD_RECENT_NS    (INT64_C(135) * 1000000000)
#define HEAD_RECENT_BYTES (512u << 10) /* of one host; the oldest go first, up to 4 stay */

struct head;

/* A batch as it is kept: encoded, in memory or, when recovery found it in an index of the log, in
 * the log's file. */
struct head_batch {
    uint64_t stream, seq;
    int64_t t0_ns, t1_ns; /* oldest and newest stamp inside, by the host's clock */
    int64_t received_ns;
    struct host_offset clock; /* of the host when it made this */
    int64_t made_ns;          /* t1 by the collector's clock: head_made */
    int64_t window_ns;        /* in which it is sealed */
    uint64_t file;            /* of the log */
    uint64_t memory;          /* decoded */
    uint64_t hot;             /* the number of its hot form among the host's, from 1; 0: none */
    uint32_t alive;           /* processes in its last tick, the idle one not counted */
    bool has_events;
    void *told; /* its account (rest_value.h), where that says all; else NULL */
    size_t told_n;
    /* Where its bytes are read when they are wanted; NULL: they are here. */
    struct wal_source *from;
    uint64_t at;   /* its record there, */
    uint32_t size; /* all of it */
    size_t n;
    uint8_t bytes[];
};

/* Bytes that it takes: a host may tell much of itself in few bytes. */
static inline uint64_t head_batch_held(const struct head_batch *b)
{
    return sizeof *b + b->n + b->told_n;
}

NODISCARD enum err head_batch_create(struct head_batch **out, const void *bytes, size_t n);
NODISCARD enum err head_batch_create_at(struct head_batch **out, const struct wal_record *r);
void head_batch_destroy(struct head_batch *b); /* NULL is allowed */

/* Sets what it keeps of its decoded form: memory, alive, has_events. */
void head_batch_describe(struct head_batch *kept, const struct batch *b);

/* Its encoded bytes, valid while *room is left alone.
 * Errors: ERR_CORRUPT, ERR_IO (what is in the log cannot be read), ERR_NOMEM */
NODISCARD enum err head_batch_bytes(const struct head_batch *b, struct buf *room,
                                    const void **bytes);

/* With the columns of these metrics (METRIC_BITs). dec: NULL, or the caller's, which is quicker.
 * Errors: those of head_batch_bytes and of wire_batch_decode_part */
NODISCARD enum err head_batch_decode(const struct head_batch *b, struct wire_decoder *dec,
                                     uint64_t metrics, struct batch **out);

/* The span of stamps of a batch's ticks and events; of one without any, [now, now]. */
void head_span(const struct batch *b, int64_t now_ns, int64_t *t0_ns, int64_t *t1_ns);

/* When a batch whose newest stamp is t1_ns was made, by the collector's clock: as far as the host's
 * is known, and never after its arrival. Age and newness go by this, so that a host whose clock was
 * wrong neither keeps its data for ever nor loses it at once. */
int64_t head_made(int64_t t1_ns, const struct host_offset *clock, int64_t received_ns);

struct head_conf {
    uint32_t instances_max;                       /* per host */
    uint64_t info_host_max, info_max;             /* bytes that they take, of a host and of all; 0:
                                                     no limit */
    uint64_t hot_bytes_max;                       /* of all hot forms; 0: none are kept */
    void (*on_release)(void *ctx, uint64_t file); /* a batch was sealed; from the writer */
    void *ctx;
};

NODISCARD enum err head_create(struct head **out, const struct head_conf *conf);
void head_destroy(struct head *h); /* views live on; NULL is allowed */

/* -- writer. reserve does all that can fail, append what cannot; nothing is seen by readers until
 *    prepare and publish. -- */
struct head_host;

/* counts: moved when ERR_OK. Errors: ERR_NOMEM */
NODISCARD enum err head_reserve(struct head *h, struct head_host **host, const char *host_name,
                                const struct batch *b, struct seqset_counts *counts,
                                const struct head_batch *kept);
void head_append(struct head *h, struct head_host *host, const struct batch *b,
                 struct head_batch *kept); /* kept is moved */
/* Behind head_append: the hot form of that batch, which is moved; NULL is allowed. Without room it
 * is left out. */
void head_keep_hot(struct head *h, struct head_host *host, struct head_batch *kept,
                   struct recent_columns *hot);
/* Builds the next state. Errors: ERR_NOMEM (call again) */
NODISCARD enum err head_prepare(struct head *h);
void head_publish(struct head *h);

struct head_stats {
    uint64_t bytes, batches, hosts; /* batches not sealed, and their bytes */
    uint64_t hot_bytes;             /* of the hot forms kept */
    uint64_t hot_left_out;          /* for want of room */
    uint64_t busy;                  /* hosts with batches not sealed */
    uint64_t info_bytes;            /* of what is known of instances */
    uint64_t info_gone;             /* instances no longer in memory, on disk alone */
    uint64_t info_cut;              /* times that the long texts of a host were cut for memory */
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
    int64_t first_ns; /* oldest stamp, of what is sealed too */
    int64_t last_ns;  /* newest stamp of what was made last */
    bool has_alive;   /* a tick has that stamp, and came since opening: */
    uint32_t alive;   /* processes in it, the idle one not counted */
    int64_t received_ns;
    struct host_offset clock;           /* of what was made last */
    uint64_t batches;                   /* ever appended */
    uint64_t lost_events;               /* by their ledgers */
    uint64_t held, too_old, no_room;    /* of the batches: here, sealed or not; dropped by age, by
                                           size */
    const struct seqset_counts *counts; /* NULL: nothing arrived since opening */
    const struct head_infos_snap *infos;
};

size_t head_view_hosts(const struct head_state *s);
const struct head_seen *head_view_host(const struct head_state *s, size_t i); /* by name, id */

/* Its place; head_view_hosts when it is not there under this name. */
size_t head_view_find(const struct head_state *s, const char *name, const struct uuid *id);

/* Looks through the host's batches, the newest arrivals first; NULL when none is this one. */
const struct head_batch *head_view_batch(const struct head_state *s, size_t host, uint64_t stream,
                                         uint64_t seq);

/* Of one of the host's batches; NULL: decode it. Valid until release. */
const struct recent_columns *head_view_hot(const struct head_state *s, size_t host,
                                           const struct head_batch *b);

/* The batches whose span meets [since, until), oldest first; *list is the caller's (mem_free), the
 * batches are valid until release. Errors: ERR_NOMEM */
NODISCARD enum err head_view_batches(const struct head_state *s, size_t host, int64_t since_ns,
                                     int64_t until_ns, const struct head_batch ***list, size_t *n);

#endif
