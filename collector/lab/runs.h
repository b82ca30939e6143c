/* Runs in the lab's database: which time, which hosts, whose, and in which state.
 *
 *   open -> closing -> ready       ended with exit code 0 or none
 *                   -> failed      ended with another
 *                   -> expired     nobody ended it within its ttl
 *   imported                       its file came from elsewhere
 *
 * Begin and end are idempotent: of one owner the same id, or the same key, is the same run; a
 * repeated mark gets the same answer. Times are UTC ns by the collector's clock.
 *
 * Bounds:  RUNS_MAX rows (runs_trim.h); RUNS_OPEN_MAX open ones. Threads: any (lab_db.h).
 * Texts of results live in the arena that was given. */
#ifndef PROCFLEET_COLLECTOR_LAB_RUNS_H
#define PROCFLEET_COLLECTOR_LAB_RUNS_H

#include "collector/lab/lab_db.h"
#include "common/base/arena.h"
#include "common/wire/wire_run.h"

#define RUNS_MAX        100000u
#define RUNS_OPEN_MAX   256u
#define RUNS_OPEN_SHARE 64u /* of one owner who is no administrator */
#define RUNS_TTL_NS     (4 * 3600 * CLK_S)
#define RUNS_TTL_MAX_NS (30 * 24 * 3600 * CLK_S)

/* Who marks or asks. */
struct runs_who {
    const char *name;  /* in the certificate */
    const char *scope; /* host glob; "" = every host */
    bool admin;
};

/* What a mark means, times and hosts found out. */
struct runs_mark {
    const struct wire_run_mark *m;
    int64_t when_ns, error_ns; /* the moment, and how far it may be off */
    int64_t now_ns;            /* of arrival */
    size_t n_hosts;            /* of the begin: those there are */
    const struct wire_run_host *hosts;
};

/* Writes the begin, or returns what there is of that id or key. Errors: ERR_INVALID (why says
 * what), ERR_ACCESS (another's run has this id), ERR_FULL (too many are open), those of lab_db */
NODISCARD enum err runs_begin(struct lab_db *l, const struct runs_who *who,
                              const struct runs_mark *mark, struct arena *memory,
                              struct wire_run *out, struct errmsg *why);

/* Writes the end of the run of that id, key or name; one that has ended stays as it is. Errors:
 * ERR_NOTFOUND, ERR_ACCESS (another's run), ERR_INVALID, those of lab_db */
NODISCARD enum err runs_end(struct lab_db *l, const struct runs_who *who,
                            const struct runs_mark *mark, struct arena *memory,
                            struct wire_run *out, struct errmsg *why);

/* The runs that fit, the newest first; those with a host outside the scope are left out, as are
 * those without hosts for whoever has a scope. NAME@3 is the third newest of that name, NAME@id the
 * one whose id begins so. *next: 0, or there are more below this number.
 * Errors: ERR_INVALID (why), ERR_FULL (memory), those of lab_db */
NODISCARD enum err runs_find(struct lab_db *l, const struct runs_who *who,
                             const struct wire_runs_ask *ask, struct arena *memory,
                             struct wire_runs *out, struct errmsg *why);

/* -- for the thread that keeps them -- */

/* The run of that number, hosts included. Errors: ERR_NOTFOUND */
NODISCARD enum err runs_read(struct lab_db *l, uint64_t number, struct arena *memory,
                             struct wire_run *out);

/* Ends what is older than its ttl. *ended: how many. */
NODISCARD enum err runs_expire(struct lab_db *l, int64_t now_ns, uint32_t *ended);

/* The numbers of at most `max` runs: open ones, closing ones, those whose data came late, those
 * that ended at `since` (UTC ns) or later and have a file of ours, the last to end first, or
 * imported ones of numbers above `since`. */
enum runs_which { RUNS_OPEN, RUNS_CLOSING, RUNS_STALE, RUNS_ENDED, RUNS_IMPORTED };
NODISCARD enum err runs_list(struct lab_db *l, enum runs_which which, int64_t since,
                             uint64_t *numbers, size_t max, size_t *n);

/* Whether another run of whole hosts, neither parent nor child of this one nor a silence, was under
 * way on that host at the same time. Runs of one process tree disturb nobody. */
NODISCARD enum err runs_overlaps(struct lab_db *l, const struct wire_run *run,
                                 const struct uuid *host, bool *overlaps);

/* Whether there is a run of that id. */
NODISCARD enum err runs_known(struct lab_db *l, const struct uuid *id, bool *known);

/* A host of an open run that came after its begin. There already: nothing. */
NODISCARD enum err runs_host_add(struct lab_db *l, uint64_t number, const struct uuid *host,
                                 struct str name);

/* Data came late: the file is made anew. */
NODISCARD enum err runs_stale(struct lab_db *l, uint64_t number);

/* Its file is there: revision, bytes, coverage, class and hosts_in of `run` are written, its state
 * follows. */
NODISCARD enum err runs_filed(struct lab_db *l, const struct wire_run *run, bool root_found);

/* A run whose file came from elsewhere; one that was imported before is replaced. `place` puts the
 * file where the run's is, durably, as the last step before the row is: a kill leaves a file
 * without a row, which the next start removes, and never a row without its file. Errors:
 * ERR_EXISTS (the collector has that run itself), those of place */
NODISCARD enum err runs_import(struct lab_db *l, const struct wire_run *run, struct arena *memory,
                               struct wire_run *out, enum err (*place)(void *ctx), void *ctx,
                               struct errmsg *why);

#endif
