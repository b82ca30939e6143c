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

#include "collector/store/store_conf.h"

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
 * content over its bound, a stamp before 1970 or behind 2200, a monotonic one over
 * WINDOW_MONO_MAX), ERR_NOSPACE (the log finds no room on the disk: later perhaps), ERR_IO (the log
 * failed; nothing is accepted until reopened), ERR_CLOSED, ERR_NOMEM. `done` is not called then. It
 * is called from the writer thread, or from the one in store_close, without locks. */
NODISCARD enum err store_put(struct store *s, const struct store_put *put);

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

void store_room(struct store *s, struct store_room *out);

#endif
