/* The collector's store: durable batches of many hosts, and what queries read.
 * Today: write-ahead log (wal.h) and a bounded head in memory (head.h); sealed segments and tiers
 * come behind this same interface.
 * Bounds:  hosts, bytes of the head, age, instances per host: struct store_conf; what waits for the
 *          log: STORE_WAITING_MAX. What does not fit drops the oldest batches first and is counted.
 *          Age is counted back from the newest arrival, so an idle collector keeps what it has.
 * Threads: store_put, store_last_seq, store_stats and views from any thread; one writer thread of
 *          its own commits.
 * Crashes: after `done` was called with ERR_OK the batch is in every later answer, also after
 *          kill -9 and loss of everything that was not synced; it is there once.
 * Fatal:   an error of the log, a full disk too: nothing is accepted until the store is opened
 *          again; what was acknowledged can still be read. */
#ifndef PROCFLEET_COLLECTOR_STORE_H
#define PROCFLEET_COLLECTOR_STORE_H

#include "common/fio.h"
#include "common/wire.h"

#define STORE_WAITING_BATCHES 4096u        /* accepted, not durable yet */
#define STORE_WAITING_MAX     (128u << 20) /* bytes of them, encoded and decoded */
#define STORE_STAMP_MAX       (INT64_C(7258118400) * 1000000000) /* 2200: sums with spans never wrap */

struct store;

struct store_conf {
    const char *dir;         /* data_dir; locked while open */
    const struct fio *fio;   /* fio_os() but for tests */
    uint64_t head_bytes_max; /* encoded batches held, all hosts */
    int64_t age_max_ns;      /* batches whose newest stamp is older are refused, and dropped from
                                head and log */
    uint32_t hosts_max;
    uint32_t instances_max;   /* remembered per host, running ones first */
    int64_t commit_gather_ns; /* commits begin this far apart: 20 ms; the first at once; */
    uint64_t commit_bytes;    /* or when this much waits: 1 MiB */
    /* Called once for each batch when it has become durable, in commit order, from the writer
     * thread; must not block. Not called for what recovery reads. May be NULL. */
    void (*on_stored)(void *ctx, const char *host_name, const struct batch *b);
    /* Called once, when the log has failed, with the reason; from the writer thread. May be NULL.
     */
    void (*on_failed)(void *ctx, const struct errmsg *why);
    void *ctx;
    void (*on_progress)(void *ctx, uint64_t done_bytes,
                        uint64_t total_bytes); /* recovery; may be NULL */
};

/* Opens or creates, replays the log, truncates a torn tail of the last file.
 * Errors: ERR_BUSY (another collector holds the directory), ERR_IO, ERR_NOSPACE, ERR_ACCESS,
 * ERR_NOMEM, ERR_VERSION (written by a newer collector) */
NODISCARD enum err store_open(struct store **out, const struct store_conf *conf,
                              struct errmsg *why);
void store_close(struct store *s); /* commits what waits; NULL is allowed */

/* One batch to keep. */
struct store_put {
    struct batch *batch; /* decoded form; moved, also on failure */
    const void *bytes;   /* encoded form, copied */
    size_t n;
    const char *host_name; /* from the certificate, copied */
    int64_t received_ns;   /* UTC */
    void (*done)(
        void *ctx,
        enum err e); /* exactly once when store_put gave ERR_OK: ERR_OK durable, else not stored */
    void *ctx;
};

/* Errors: ERR_EXISTS (durable already: acknowledge), ERR_BUSY (same batch is being written: ask
 * again), ERR_FULL (hosts, or too much waiting), ERR_RANGE (older than age_max_ns), ERR_INVALID
 * (seq 0, a name or content over its bound, a stamp before 1970 or behind 2200), ERR_IO (the log
 * failed; nothing is accepted until reopened), ERR_CLOSED, ERR_NOMEM. `done` is not called then. It
 * is called from the writer thread, or from the one in store_close, without locks. */
NODISCARD enum err store_put(struct store *s, const struct store_put *put);

/* The span of stamps of a batch's ticks and events; of one without any, [now, now]. */
void store_span(const struct batch *b, int64_t now_ns, int64_t *t0_ns, int64_t *t1_ns);

/* Highest seq of the stream below which nothing is missing; 0 = none known. */
uint64_t store_last_seq(struct store *s, const struct uuid *host, uint64_t stream);

struct store_stats {
    uint64_t batches, bytes, commits; /* made durable since opening */
    uint64_t duplicates;              /* refused, or found twice in the log */
    uint64_t too_old;                 /* refused */
    uint64_t dropped_batches;         /* left the head, by age or bytes */
    uint64_t recovered_batches, recovered_bytes, torn_bytes, bad_records; /* see wal.h */
    uint64_t forgotten_streams, closed_holes;                             /* see seqset.h */
    uint64_t head_bytes, head_batches, hosts;
    uint64_t log_files, log_bytes;
    bool failed; /* the log failed */
};
void store_stats(struct store *s, struct store_stats *out);

/* -- reading: an immutable view; the writer is never blocked by it for longer than a pointer swap
 * -- */
struct store_view;
NODISCARD enum err store_view_open(struct store_view **out, struct store *s);
void store_view_close(struct store_view *v);

struct store_host {
    struct uuid id, boot; /* boot of the newest batch */
    const char *name;
    const char *source;
    uint32_t flags; /* BATCH_* of the newest batch */
    uint32_t cpus;
    int64_t first_ns, last_ns;          /* oldest and newest tick held */
    int64_t received_ns;                /* arrival of the newest batch */
    uint64_t batches, duplicates, gaps; /* gaps: sequence numbers missing below the highest;
                                           batches: stored and recovered since opening */
    uint64_t lost_events;               /* sum of the ledger's losses */
};

size_t store_view_hosts(const struct store_view *v);
const struct store_host *store_view_host(const struct store_view *v,
                                         size_t i); /* by name, then id */

/* Calls `each` with every batch of the host whose span of ticks and events meets [since, until),
 * oldest first; the batch is valid during the call only. A result other than ERR_OK ends the scan
 * and is returned (ERR_END for "enough"). */
NODISCARD enum err store_scan(const struct store_view *v, size_t host, int64_t since_ns,
                              int64_t until_ns, enum err (*each)(void *ctx, const struct batch *b),
                              void *ctx);

/* Everything known of an instance; NULL when nothing is. Valid until store_view_close. start 0: the
 * latest of that pid in that boot. */
const struct proc_info *store_info(const struct store_view *v, size_t host, const struct uuid *boot,
                                   struct proc_id id);
const struct proc_info *store_info_latest(const struct store_view *v, size_t host, uint32_t pid);

#endif
