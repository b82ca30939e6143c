/* The write-ahead log: what was accepted, verbatim, in files of one directory (format: wal.c).
 * Records are added to a commit in memory and become durable together by one write and one sync.
 * Beside a finished file stands its index (wal_index.h), which recovery reads instead of it.
 * Bounds:  a record carries at most WAL_BYTES_MAX; a file ends with its window or when it reached
 *          file_bytes; files whose batches are all released are removed, except the newest.
 * Threads: one owner.
 * Crashes: what wal_commit answered ERR_OK for is replayed by the next wal_open, in order; of a
 *          commit that never ended, nothing, a part or all of it is.
 * Damage:  costs the records it is in. What cannot be read at all is set aside and kept.
 * No room: a commit that finds none keeps waiting and can be tried again: all of it is written
 * anew. Fatal:   any other error while writing or syncing. The failed sync is never tried again:
 * the kernel may have dropped the pages. From then on everything answers ERR_IO; reopen. */
#ifndef PROCFLEET_COLLECTOR_STORE_WAL_WAL_H
#define PROCFLEET_COLLECTOR_STORE_WAL_WAL_H

#include "collector/store/wal/wal_record.h"
#include "common/os/fio.h"

struct wal;

struct wal_stats {
    uint64_t commits;
    uint64_t replayed_bytes;
    uint64_t torn_bytes;  /* cut from the end of the last file */
    uint64_t bad_records; /* spans of unreadable bytes, damaged headers, and unknown kinds */
    uint64_t aside;       /* files set aside because nothing in them can be read, now or before */
    uint64_t unindexed;   /* files finished without an index: the next opening reads them */
    uint64_t files, bytes;
    uint64_t oldest, newest; /* numbers of files; 0 = none */
};

/* What is wrong with a file: found by wal_open. */
struct wal_damage {
    const char *name; /* of the file in the log's directory */
    uint64_t spans;   /* of it that are damaged */
    bool aside;       /* nothing of it can be read: it was set aside under this name */
};

/* What is known of damage in the files before the one that is replayed. */
enum wal_trust {
    WAL_WHOLE,
    WAL_HOLES,   /* records of batches are missing */
    WAL_BASELESS /* records of ranges too: which numbers came before is not known */
};

struct wal_conf {
    const char *dir; /* exists; the caller holds its lock */
    const struct fio *fio;
    int64_t window_ns;   /* a file holds records received in one multiple of this */
    uint64_t file_bytes; /* and ends beyond this size */

    /* Writes the checkpoint of a new file by wal_add. Called from inside wal_add. */
    enum err (*checkpoint)(void *ctx, struct wal *w, int64_t now_ns);
    /* A record read back, valid during the call; without content (`bytes` is NULL, `from` is not)
     * when an index told of it. ERR_CORRUPT: counted, goes on; other errors end wal_open. A batch
     * that stays in use takes a reference by wal_hold(file). */
    enum err (*replay)(void *ctx, struct wal *w, uint64_t file, const struct wal_record *r);
    void (*progress)(void *ctx, uint64_t done_bytes, uint64_t total_bytes); /* may be NULL */
    void (*damaged)(void *ctx, const struct wal_damage *d);                 /* may be NULL */
    void *ctx;
};

/* Replays everything, cuts the end of the last file where no sound record follows, makes the result
 * durable. Writing goes on in a new file with the first commit. Errors: ERR_IO, ERR_ACCESS,
 * ERR_NOMEM, ERR_VERSION (a file of a newer format), and replay's */
NODISCARD enum err wal_open(struct wal **out, const struct wal_conf *conf, struct errmsg *why);
/* From inside replay: the note of a batch whose content was given; copied. Files of which every
 * batch has one get an index, so that the next opening need not read them. */
void wal_note(struct wal *w, const void *note, size_t n);
/* From inside replay. */
enum wal_trust wal_trust(const struct wal *w);
void wal_close(struct wal *w); /* what was added but not committed is lost; NULL is allowed */

/* Adds to the commit under way. *file (may be NULL) is where it will be.
 * Errors: ERR_NOMEM, ERR_FULL (commit what waits), ERR_INVALID (a bound), ERR_IO (failed before) */
NODISCARD enum err wal_add(struct wal *w, const struct wal_record *r, int64_t now_ns,
                           uint64_t *file);

/* Errors: ERR_NOSPACE (call it again when there may be room), ERR_IO for any other cause; *why (may
 * be NULL) names it */
NODISCARD enum err wal_commit(struct wal *w, struct errmsg *why);

/* Batches of a file that are still in use: a file is removed by wal_trim when nothing holds it and
 * a newer one is durable. */
void wal_hold(struct wal *w, uint64_t file);
void wal_release(struct wal *w, uint64_t file);
void wal_trim(struct wal *w);

/* Begins a new file, its checkpoint durable, so that the ones before can go when nothing holds
 * them. What waits becomes durable instead. Errors: as wal_commit, ERR_NOMEM */
NODISCARD enum err wal_turn(struct wal *w, int64_t now_ns, struct errmsg *why);
/* Files removed so far stay so, whatever crashes. Errors: ERR_IO */
NODISCARD enum err wal_settle(struct wal *w);

void wal_stats(const struct wal *w, struct wal_stats *out);

#endif
