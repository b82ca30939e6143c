/* Configuration and statistics of the store (store.h). Plain data. */
#ifndef PROCFLEET_COLLECTOR_STORE_STORE_CONF_H
#define PROCFLEET_COLLECTOR_STORE_STORE_CONF_H

#include "collector/store/host_offset.h"
#include "collector/store/retention/retain.h"
#include "collector/store/store_stats.h"
#include "common/os/fio.h"
#include "common/wire/wire_batch.h"

#define STORE_WAITING_BATCHES 4096u        /* accepted, not durable yet */
#define STORE_WAITING_MAX     (128u << 20) /* bytes of them, encoded and decoded */
#define STORE_HOT_SHARE       8u           /* of head_bytes_max: hot forms of recent batches */

struct store;
struct wal_damage;

/* A batch that has become durable. */
struct store_stored {
    const char *host_name;
    struct batch *batch; /* decoded: wire_batch_hold keeps it */
    const void *bytes;   /* encoded */
    size_t n;
    int64_t received_ns;             /* UTC */
    const struct host_offset *clock; /* of the host when it made the batch */
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

#endif
