/* The process instances of every host, one SQLite file per UTC day: whom a pid belonged to, the
 * tree at a moment, names of the dead. Derived data: everything in it is read from rest segments
 * that the manifest has, so a missing, damaged, older or newer file is simply made anew, and what a
 * crash took is taken in again. Those still running at midnight are carried into the new day, which
 * their hosts' announcements say once more. Old days are unlinked whole.
 * Bounds:  CATALOGUE_*; instances beyond are counted as refused.
 * Threads: one writer; readers any (SQLite's WAL mode), each find with connections of its own from
 *          a small pool. A failure here never stops ingest: it is counted and repaired at the next
 *          catalogue_follow. */
#ifndef PROCFLEET_COLLECTOR_STORE_CATALOGUE_CATALOGUE_H
#define PROCFLEET_COLLECTOR_STORE_CATALOGUE_CATALOGUE_H

#include "collector/store/catalogue/catalogue_db.h"
#include "collector/store/manifest/manifest.h"

#define CATALOGUE_DAYS_MAX  4096u
#define CATALOGUE_FOUND_MAX 2000000u /* of one find */

struct catalogue;

struct catalogue_conf {
    const char *dir;                                               /* made when it is not there */
    void (*on_progress)(void *ctx, uint64_t done, uint64_t total); /* segments imported, at opening;
                                                                      may be NULL */
    void *ctx;
};

struct catalogue_stats {
    uint64_t days, bytes;
    uint64_t instances, running; /* over all days; of the newest day */
    uint64_t imported;           /* segments, since opening */
    uint64_t failed;             /* imports that failed; they are tried again */
    uint64_t damaged;            /* values that could not be read from segments */
    uint64_t rebuilt;            /* files that had to be made anew */
    uint64_t refused;            /* instances over CATALOGUE_INSTANCES_MAX */
};

/* Imports what the segments have and the days lack, for two seconds; segments NULL: nothing yet.
 * catalogue_step or catalogue_follow do the rest. Errors: ERR_IO, ERR_ACCESS, ERR_NOMEM (of the
 * directory; files are repaired) */
NODISCARD enum err catalogue_open(struct catalogue **out, const struct catalogue_conf *conf,
                                  struct manifest_list *segments, struct errmsg *why);
void catalogue_close(struct catalogue *c); /* NULL is allowed */

/* -- writer -- */

/* Imports every rest segment of the list that is not in yet, by day and number, one transaction
 * each: to be called whenever the manifest has changed. Goes on after a failure and gives the first
 * one. Errors: ERR_IO, ERR_NOSPACE, ERR_CORRUPT, ERR_NOMEM */
NODISCARD enum err catalogue_follow(struct catalogue *c, struct manifest_list *segments);

/* The same until the time is over, but at least one segment. *more: something is left, and no
 * import failed. */
NODISCARD enum err catalogue_step(struct catalogue *c, struct manifest_list *segments,
                                  int64_t until_mono_ns, bool *more);

/* Compaction put `add` in the place of `old`: when all of them are in, it is too and need not be
 * read. To be called before catalogue_follow sees it; otherwise it is imported, which is only slow.
 */
void catalogue_replaced(struct catalogue *c, const uint64_t *old, size_t n,
                        const struct seg_info *add);

/* Unlinks the days before that of day_ns. *bytes: how much they were. */
NODISCARD enum err catalogue_drop_before(struct catalogue *c, int64_t day_ns, uint64_t *bytes);

/* -- any thread -- */
uint64_t catalogue_bytes(struct catalogue *c);
int64_t catalogue_oldest_day(struct catalogue *c); /* its begin, UTC; 0 = none */
void catalogue_stats(struct catalogue *c, struct catalogue_stats *out);

struct catalogue_ask {
    const struct uuid *host;
    const struct uuid *boot; /* NULL = any */
    bool has_pid;
    uint32_t pid;
    uint64_t start; /* with pid; 0 = any */
    size_t n_only;  /* when there are any: these and no others */
    const struct proc_key *only;
    int64_t since_ns, until_ns; /* alive at any moment of this, by the host's stamps */
    bool brief;                 /* without path and command line: half the time */
};

/* Instances by (boot, pid, start), each once, with all that its days know; *info is valid during
 * the call; seen_ns is the stamp of the newest batch that told something of it. Of those that never
 * said they ended, the ones of an earlier boot ended with its last batch. A result other than
 * ERR_OK ends it and is returned. Errors: ERR_FULL (CATALOGUE_FOUND_MAX), ERR_NOMEM; and when all
 * else was given: ERR_IO, ERR_ACCESS, ERR_VERSION, ERR_BUSY (also: a day is being made anew, and
 * does not have all yet), ERR_NOTFOUND (a day's file cannot be opened), ERR_CORRUPT (the day is
 * made anew later, as is one whose file is gone) */
NODISCARD enum err catalogue_find(struct catalogue *c, const struct catalogue_ask *ask,
                                  enum err (*each)(void *ctx, const struct uuid *boot,
                                                   const struct proc_info *info, int64_t seen_ns),
                                  void *ctx);

/* -- within the folder: the days of a catalogue -- */
struct os_mutex;

#define CATALOGUE_IDLE 16u /* connections kept for finds */

struct catalogue_day {
    int64_t day_ns;
    struct day_facts facts;
    uint64_t bytes;
    bool bad;       /* a find has seen damage: to be made anew */
    bool remaking;  /* segments are not in that were there at the start, or once were in */
    bool dropped;   /* its file is being unlinked for good */
    uint64_t *done; /* segments that are in, sorted */
    size_t n_done, cap_done;
};

struct catalogue {
    char *dir;
    void (*on_progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
    struct day_db *writing; /* the writer's, of writing_ns */
    int64_t writing_ns;
    struct packer *packer; /* the writer's */
    struct arena memory;
    struct os_mutex *lock;      /* guards what follows, and is held for a look only */
    struct catalogue_day *days; /* by day; only the writer changes them */
    size_t n_days, cap_days;
    struct catalogue_stats stats;
    uint64_t round; /* changes when files are unlinked: connections of before are closed */
    struct {
        struct day_db *db;
        int64_t day_ns;
    } idle[CATALOGUE_IDLE];
    size_t n_idle;
};

struct catalogue_day *catalogue_day(struct catalogue *c, int64_t day_ns); /* NULL: none */
/* A connection for a find; given back by catalogue_release, `sound` unless it has failed. */
NODISCARD enum err catalogue_borrow(struct catalogue *c, int64_t day_ns, struct day_db **out,
                                    uint64_t *round);
void catalogue_release(struct catalogue *c, int64_t day_ns, struct day_db *d, uint64_t round,
                       bool sound);
void catalogue_bad(struct catalogue *c, int64_t day_ns); /* any thread */
/* The file of a day that was listed in that round cannot be opened: whether it should be there. If
 * it is gone, it is made anew. Any thread. */
bool catalogue_missing(struct catalogue *c, int64_t day_ns, uint64_t round);
/* What one batch tells, into the writer's day; host: of catalogue_db_host. For fuzz targets too. */
struct batch;
NODISCARD enum err catalogue_take_rest(struct catalogue *c, int64_t host, const struct batch *b);

#endif
