/* Sealing: one thread turns the head's batches of a window that has ended into segments of every
 * kind, makes them current and lets the batches go, in one step for readers.
 *
 *   window's end + grace, or head over its limit (the oldest window first, then the open one)
 *     for each host: decode ─ window_join ─ raw values, summaries, 10 s, 1 min, rest  (seal_write)
 *     hosts file ─ manifest_change ─ publish manifest and head together ─ catalogue
 *   then what is due: retention (retain.h), 1 h from its minutes and compaction (compact.h)
 *
 * What arrives when its window's time is over waits a minute for more and becomes, together with
 * the other such windows of the same hour, one more segment (a patch, where the window is sealed
 * already). A failure (disk full, I/O) leaves everything as it was and is tried again after a
 * pause; meanwhile the head fills and the agents are told to wait. Threads: its own. */
#ifndef PROCFLEET_COLLECTOR_STORE_SEAL_SEAL_H
#define PROCFLEET_COLLECTOR_STORE_SEAL_SEAL_H

#include <stdatomic.h>

#include "collector/store/compact/compact.h"
#include "collector/store/seal/seal_write.h"
#include "collector/store/store_state.h"
#include "common/base/heartbeat.h"

struct seal_stats {
    uint64_t windows, patches, early; /* sealed; of them late data; before their end */
    uint64_t batches, values, failures, bad;
    int64_t sealed_ns; /* end of the newest sealed window */
    int64_t cpu_ns;
};

/* Errors: ERR_NOMEM */
NODISCARD enum err seal_start(struct seal **out, struct store *s);
/* Gives up what is under way; the log still has it. NULL is allowed. */
void seal_stop(struct seal *x);

void seal_stats(struct seal *x, struct seal_stats *out);
int64_t seal_busy_ns(const struct seal *x, int64_t now_ns); /* as store_busy_ns */

/* How long numbers of a silent host are remembered: as long as anything of it may be held. */
int64_t seal_keeps(const struct store_conf *conf);

/* As store_seal_now and store_room. */
NODISCARD enum err seal_now(struct seal *x, int64_t until_ns);
void seal_room(struct seal *x, struct store_room *out);

/* The oldest window of any kind; INT64_MAX: there is no segment. */
int64_t seal_begins(const struct manifest_list *l);

/* -- within the folder: seal.c is the thread and one sealing, seal_retain.c what is dropped and
 *    joined -- */

/* Segments with numbers up to this one were sealed while this was the log's newest file: as long as
 * it or an older one is there, recovery needs the numbers in their rest segments. */
struct mark {
    uint64_t segment, file;
};

struct seal {
    struct store *s;
    struct os_thread *thread;
    struct seal_writer *writer;
    struct compact *compact;
    struct retain_conf retain;
    bool troubled;        /* and the caller knows */
    uint64_t usual_bytes; /* of batches when windows were sealed last */
    bool unlisted;        /* the catalogue lacks segments */
    int64_t opened_ns;    /* monotonic: when it was tried to open it last */
    uint64_t times;       /* SEAL_TIMES_FIRST */
    struct mark *marks;   /* rising */
    size_t n_marks, cap_marks;
    uint64_t asked;   /* by store_seal_now, up to this ticket; the thread's */
    int64_t until_ns; /* windows that end by then are due whatever the clock says */
    atomic_bool stop;
    struct heartbeat moving;

    struct os_mutex *lock; /* guards what follows */
    struct os_cond *wake;  /* the thread */
    struct os_cond *done;  /* those in store_seal_now */
    uint64_t ticket, finished;
    int64_t asked_until_ns;
    enum err result; /* of the last ticket */
    bool stopped;
    struct seal_stats stats;
    struct store_room room;
};

/* What a step changes in head and manifest, published by the writer. */
struct seal_change {
    struct head_taken *taken;     /* NULL: nothing leaves the head */
    bool listed;                  /* the manifest has a change to publish */
    const struct seal_lost *lost; /* batches in `taken` that could not be read */
    size_t n_lost;
    uint64_t log_newest; /* its newest file then */
    enum err result;
};
/* A task of the writer's (store_writer_do); ctx: struct seal_change. Memory that never comes back
 * is fatal, as for a commit. */
void seal_publish(struct store *s, void *ctx);

/* The catalogue reads what the manifest has got, a while at a time: all of it when its files are
 * gone. What fails is counted there and repaired later. Returns whether something is left. */
bool seal_follow(struct store *s);

/* What segments and catalogue take of a window, in sixteenths of its batches, until it was
 * measured: 1.1 times at 1 Hz, 3.7 when it is sampled every 10 s and tiers are as large as samples.
 */
#define SEAL_TIMES_FIRST (6u * 16u)
/* Measures it: batches were `bytes`, and took `made`. */
void seal_retain_learn(struct seal *x, uint64_t bytes, uint64_t made);

/* seal_retain.c, by the thread. head_bytes: of all that waits to be sealed. */
void seal_retain_mark(struct seal *x, uint64_t log_newest);
NODISCARD enum err seal_retain(struct seal *x, uint64_t head_bytes, int64_t now_ns,
                               struct errmsg *why);
NODISCARD enum err seal_retain_compact(struct seal *x, uint64_t head_bytes, int64_t now_ns,
                                       bool *worked, struct errmsg *why);

#endif
