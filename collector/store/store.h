/* The collector's store: durable batches of many hosts, and what queries read: write-ahead log
 * (wal.h), a head in memory of what is not sealed yet (head.h), sealed segments (seg.h) with tiers.
 * Bounds:  hosts, bytes of the head, instances per host: struct store_conf; what waits for the log:
 *          STORE_WAITING_MAX. Nothing is dropped for want of room in memory: windows are sealed
 *          early, and when that is too slow batches are refused. What is sealed is dropped by
 *          retention (retain.h), whole segments at a time.
 * Threads: store_put, store_last_seq, store_stats and views from any thread; one writer thread of
 *          its own commits, one seals (seal.h).
 * Crashes: after `done` was called with ERR_OK the batch is in every later answer, also after
 *          kill -9 and loss of everything that was not synced; it is there once.
 * No room: a write of the log that meets a full disk or a quota refuses what is not durable yet and
 *          all that comes, and is tried again until it succeeds or the store is closed.
 * Fatal:   any other error of the log: nothing is accepted until the store is opened again; what
 *          was acknowledged can still be read. */
#ifndef PROCFLEET_COLLECTOR_STORE_STORE_H
#define PROCFLEET_COLLECTOR_STORE_STORE_H

#include "collector/store/host_offset.h"
#include "collector/store/retention/retain.h"
#include "collector/store/store_stats.h"
#include "common/os/fio.h"
#include "common/wire/wire_batch.h"

#define STORE_WAITING_BATCHES 4096u        /* accepted, not durable yet */
#define STORE_WAITING_MAX     (128u << 20) /* bytes of them, encoded and decoded */
#define STORE_HOT_SHARE       8u           /* of head_bytes_max: hot forms of recent batches */
#define STORE_STAMP_MAX       (INT64_C(7258118400) * 1000000000) /* 2200: sums never wrap */
#define STORE_MONO_MAX        (INT64_MAX / 2)

struct store;
struct wal_damage;

/* A batch that has become durable. */
struct store_stored {
    const char *host_name;
    struct batch *batch; /* decoded: wire_batch_hold keeps it */
    const void *bytes;   /* encoded */
    size_t n;
    int64_t received_ns; /* UTC */
};

/* Something that a question could not read. */
enum store_unread_kind {
    STORE_UNREAD_LOG,       /* a batch that is not sealed */
    STORE_UNREAD_SEGMENT,   /* a window of a host in a segment, or a segment */
    STORE_UNREAD_CATALOGUE, /* names and lives */
    STORE_UNREAD_KINDS
};

struct store_unread_what {
    const char *host; /* that was asked about */
    enum store_unread_kind kind;
    int64_t first_ns, last_ns; /* the host's stamps, as far as they are known; 0: not at all */
    enum err error;
};

struct store_conf {
    const char *dir;           /* data_dir; locked while open */
    const struct fio *fio;     /* fio_os() but for tests */
    uint64_t head_bytes_max;   /* encoded batches not sealed, all hosts; from three quarters of it
                                  windows are sealed early */
    int64_t accept_age_ns;     /* batches whose newest stamp is older are refused */
    struct retain_conf retain; /* 0: by default, from the disk */
    int64_t (*now_ns)(void);   /* the clock that windows end by; NULL: os_utc_ns */
    int64_t seal_poll_ns;      /* how often is looked whether something is to be done; 0: 1 s */
    uint32_t hosts_max;
    uint32_t instances_max;           /* remembered per host, running ones first */
    uint64_t info_host_max, info_max; /* bytes that they may take, of a host, of all; 0: any */
    int64_t commit_gather_ns;         /* commits begin this far apart: 20 ms; the first at once; */
    uint64_t commit_bytes;            /* or when this much waits: 1 MiB */
    uint64_t beside_bytes;            /* room below the ceiling for others' files in `dir` */
    /* Called once for each batch when it has become durable, in commit order, from the writer
     * thread; must not block. Not called for what recovery reads. May be NULL. */
    void (*on_stored)(void *ctx, const struct store_stored *stored);
    /* Called from the sealing thread before batches that are sealed leave the head and the log:
     * whoever keeps something of what on_stored told has it when this returns, and all of them were
     * told of before. False: they must stay for the next opening. May be NULL. */
    bool (*before_forget)(void *ctx);
    /* Called once, when the log has failed, with the reason; from the writer thread. May be NULL.
     */
    void (*on_failed)(void *ctx, const struct errmsg *why);
    /* Called when the log finds no room on the disk, with the reason, and with NULL when it does
     * again; from the writer thread. May be NULL. */
    void (*on_no_space)(void *ctx, const struct errmsg *why);
    /* Called when sealing, compaction or retention fails, with the error and the reason; then not
     * again before it works, with ERR_OK and NULL; from the sealing thread. May be NULL. */
    void (*on_trouble)(void *ctx, enum err e, const struct errmsg *why);
    /* Called when the disk is so full that batches are refused, and when they no longer are; from
     * the sealing thread. May be NULL. */
    void (*on_refusing)(void *ctx, bool refusing, uint64_t disk_free);
    /* Called when a question could not read something and answers without it, once in ten minutes
     * at most; from any thread that reads. May be NULL. */
    void (*on_unread)(void *ctx, const struct store_unread_what *what);
    /* Called while opening for each damaged file of the log. May be NULL. */
    void (*on_damaged_log)(void *ctx, const struct wal_damage *d);
    /* Of recovery. May be NULL. */
    void (*on_progress)(void *ctx, uint64_t done_bytes, uint64_t total_bytes);
    void *ctx;
};

/* Opens or creates, replays the log, truncates a torn end of the last file.
 * Errors: ERR_BUSY (another collector holds the directory), ERR_IO, ERR_NOSPACE, ERR_ACCESS,
 * ERR_NOMEM, ERR_VERSION (written by a newer collector) */
NODISCARD enum err store_open(struct store **out, const struct store_conf *conf,
                              struct errmsg *why);
void store_close(struct store *s); /* commits what waits, seals nothing; NULL is allowed */

/* Seals every window that ends at or before until_ns (INT64_MAX: all) and does what follows from
 * that, compaction and retention, before it returns. Errors: those of sealing; ERR_CLOSED */
NODISCARD enum err store_seal_now(struct store *s, int64_t until_ns);

/* One batch to keep. */
struct store_put {
    struct batch *batch; /* decoded form; moved, also on failure */
    const void *bytes;   /* encoded form, copied */
    size_t n;
    const char *host_name;    /* from the certificate, copied */
    int64_t received_ns;      /* UTC */
    struct host_offset clock; /* of the host when it made the batch; kept with it */
    void (*done)(
        void *ctx,
        enum err e); /* exactly once when store_put gave ERR_OK: ERR_OK durable, else not stored */
    void *ctx;
};

/* Errors: ERR_EXISTS (durable already: acknowledge), ERR_BUSY (same batch is being written: ask
 * again), ERR_FULL (hosts, too much waiting or not sealed, disk all but full: later perhaps),
 * ERR_RANGE (older than accept_age_ns by the collector's clock), ERR_INVALID (seq 0, a name or
 * content over its bound, a stamp before 1970 or behind 2200, a monotonic one over STORE_MONO_MAX),
 * ERR_NOSPACE (the log finds no room on the disk: later perhaps), ERR_IO (the log failed; nothing
 * is accepted until reopened), ERR_CLOSED, ERR_NOMEM. `done` is not called then. It is called from
 * the writer thread, or from the one in store_close, without locks. */
NODISCARD enum err store_put(struct store *s, const struct store_put *put);

/* The span of stamps of a batch's ticks and events; of one without any, [now, now]. */
void store_span(const struct batch *b, int64_t now_ns, int64_t *t0_ns, int64_t *t1_ns);

/* Highest seq of the stream below which nothing is missing; 0 = none known. */
uint64_t store_last_seq(struct store *s, const struct uuid *host, uint64_t stream);

/* Whether a batch that is durable already (ERR_EXISTS) holds other bytes than these. False too when
 * it is sealed, or the host has another name there. */
bool store_differs(struct store *s, const char *host_name, const struct batch_head *key,
                   const void *bytes, size_t n);

/* The boot of what the host made last, and when that came, UTC. False: nothing is held of it. */
bool store_last_boot(struct store *s, const char *host_name, const struct uuid *host,
                     struct uuid *boot, int64_t *received_ns);

void store_stats(struct store *s, struct store_stats *out);

/* How long the writer or the sealing thread, whichever longer, has been at one step of its work
 * without any sign that it moves; 0 = both wait for more. */
int64_t store_busy_ns(struct store *s, int64_t now_ns);

/* Bytes, files, oldest data of each kind, and what will be dropped next. */
struct store_room {
    struct {
        uint64_t files, bytes, values, share_bytes;
        int64_t oldest_ns, age_ns; /* window of the oldest, UTC (0 = none); the age it may reach */
        uint64_t dropped_age, dropped_bytes; /* files, since opening */
    } kind[SEG_KINDS];
    uint64_t log_bytes, catalogue_bytes, total_bytes, ceiling_bytes;
    uint64_t disk_free, disk_total;
    bool refusing;     /* the disk is all but full: agents are told to wait */
    uint8_t next_kind; /* of the next drop; 0 = none in sight */
    int64_t next_window_ns, next_in_ns;
    uint64_t sealed_windows, patches, seal_failures;
    uint64_t unreadable_batches; /* damaged in the log after they were acknowledged, or never given
                                    by the disk: left out */
    int64_t sealed_ns;           /* end of the newest sealed window, UTC */
};
void store_room(struct store *s, struct store_room *out);

#endif
