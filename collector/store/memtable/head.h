/* The batches of every host that are not sealed yet, encoded as they came, and what is known of all
 * hosts and of their processes. Decoding happens in the reader.
 * Bounds:  instances per host (head_info.h); bytes and hosts are bounded by the store, which seals
 *          and refuses. Nothing is dropped here: batches go when they are sealed, a host when
 *          nothing of it is held any more, sealed or not.
 * Threads: one writer. Readers take the published state, which never changes, by reference; the
 *          writer waits for none of them. */
#ifndef PROCFLEET_COLLECTOR_STORE_MEMTABLE_HEAD_H
#define PROCFLEET_COLLECTOR_STORE_MEMTABLE_HEAD_H

#include "collector/store/memtable/head_view.h"

struct head;

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
                                const struct batch *b, struct dedup_counts *counts,
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
struct head_state *head_view(struct head *h); /* any thread; released by head_view_release */

/* -- sealing: by the writer -- */

struct head_window {
    int64_t window_ns;
    int64_t received_ns; /* arrival of the oldest batch */
    uint64_t bytes, batches;
};

/* The windows that have batches, the oldest first; *list is the caller's (mem_free).
 * Errors: ERR_NOMEM */
NODISCARD enum err head_windows(const struct head *h, struct head_window **list, size_t *n);

/* One host's batches, by window, then first stamp, stream and number. Valid while taken. */
struct head_taken_host {
    struct uuid id;
    char name[MODEL_HOST_NAME_MAX + 1];
    struct head_infos_snap *infos;
    size_t n;
    const struct head_batch **batches;
};
struct head_taken;

/* The batches of these windows as they are now; later ones of the same windows stay apart. They
 * remain in the head and in answers until head_release.
 * memory_max  decoded bytes of one host and window; at least one chunk is taken of each, the rest
 *             waits for the next time
 * Errors: ERR_NOMEM, ERR_NOTFOUND (no batch) */
NODISCARD enum err head_take(struct head *h, struct head_taken **out, const int64_t *windows,
                             size_t n_windows, uint64_t memory_max);
void head_taken_destroy(struct head_taken *t); /* any thread; NULL is allowed */
size_t head_taken_hosts(const struct head_taken *t);
const struct head_taken_host *head_taken_host(const struct head_taken *t, size_t i); /* by id */

/* They are sealed: out of the next state. */
void head_release(struct head *h, const struct head_taken *t);

/* What outlives the batches of a host. */
struct head_record {
    struct uuid id, boot;
    char name[MODEL_HOST_NAME_MAX + 1];
    char source[32];
    uint32_t flags, cpus;
    int64_t first_ns, last_ns, made_ns, received_ns;
    struct host_offset clock;
    uint64_t batches, lost_events, held, too_old, no_room; /* as in struct head_seen, sealed ones */
};

/* Every host of which something is sealed once `taken` (NULL: nothing) is: what the log will tell
 * again is left out of the counts. *list is the caller's. Errors: ERR_NOMEM */
NODISCARD enum err head_records(const struct head *h, const struct head_taken *taken,
                                struct head_record **list, size_t *n);
/* Gives hosts that were restored without counts theirs; `of` gives a reference, or NULL. */
void head_take_counts(struct head *h, struct dedup_counts *(*of)(void *ctx, const struct uuid *id),
                      void *ctx);
/* Before any batch; of several of one host the newest counts, and the oldest stamp of all. counts:
 * moved when ERR_OK; NULL is allowed. Errors: ERR_NOMEM */
NODISCARD enum err head_restore(struct head *h, const struct head_record *r,
                                struct dedup_counts *counts);

/* Sealed batches of the host were dropped. */
uint64_t head_dropped(struct head *h, const struct uuid *host, uint64_t batches, bool by_age);
/* What is sealed begins with this window (INT64_MAX: nothing is sealed). A host of which nothing is
 * left goes with the next state. */
void head_begins(struct head *h, int64_t from_ns);

#endif
