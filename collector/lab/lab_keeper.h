/* The thread that keeps runs: ends those whose ttl is over, adds hosts that come later, makes the
 * file of each run that has ended, makes it again when data came late, and drops the oldest.
 *
 * A file is data_dir/runs/ID.pfr: written under another name, synced, renamed; then the run's row
 * says that it is there. A kill in between makes it once more, and one that came from elsewhere is
 * removed by the next start: its sender had no answer.
 *
 * Threads: a thread of its own works; lab_keeper_stored from the store's writer thread, the others
 * from any. */
#ifndef PROCFLEET_COLLECTOR_LAB_LAB_KEEPER_H
#define PROCFLEET_COLLECTOR_LAB_LAB_KEEPER_H

#include "collector/lab/extract.h"
#include "collector/lab/facts.h"
#include "collector/lab/runs.h"

struct lab_keeper;

struct lab_keeper_conf {
    struct lab_db *db; /* borrowed, as all below, until lab_keeper_stop */
    struct store *store;
    struct facts_book *facts; /* saved by the thread; for what runs' files say of hosts; or NULL */
    struct boots_book *boots; /* saved by the thread; or NULL */
    const struct fio *fio;
    const char *data_dir;
    int64_t age_ns;         /* runs older than this are dropped */
    uint64_t max_bytes;     /* of all files (runs_trim.h) */
    uint64_t max_runs;      /* 0: RUNS_MAX */
    int64_t samples_age_ns; /* late data of older runs are left alone */
    int64_t wait_ns;        /* for hosts whose data have not passed the end; 0: 3 min */
    int64_t again_ns;       /* a file is made again at most so often; 0: 10 min */
    int64_t poll_ns;        /* how often is looked; 0: 1 s */
    /* The rules' notices of a run's hosts and time into its file, texts into its memory; or NULL.
     * Errors: ERR_FULL and others */
    enum err (*notices)(struct lab_db *db, struct run_file *f);
    bool (*host_state)(void *ctx, const struct uuid *host, struct query_host_state *out);
    bool (*is_forgotten)(void *ctx, const struct uuid *host);
    void *ctx;
};

/* Errors: ERR_NOMEM, those of making data_dir/runs; why says more */
NODISCARD enum err lab_keeper_start(struct lab_keeper **out, const struct lab_keeper_conf *conf,
                                    struct errmsg *why);
void lab_keeper_stop(struct lab_keeper *k); /* an extraction is given up; NULL is allowed */

/* A run has ended: look now. */
void lab_keeper_wake(struct lab_keeper *k);

/* A batch has become durable: does it belong to a run whose file is made? Never blocks for long. */
void lab_keeper_stored(struct lab_keeper *k, const struct uuid *host, int64_t first_ns,
                       int64_t last_ns);

/* The run's hosts that the view has, each with the run's range by its own clock at that time; and
 * the tree, where it is one. In the arena. Errors: ERR_FULL, those of extract_range_clock */
NODISCARD enum err lab_keeper_range(struct query_run *out, const struct store_view *view,
                                    const struct wire_run *run, struct arena *memory);

/* "data_dir/runs/ID.pfr"; mem_free. NULL: out of memory. */
char *lab_keeper_path(const struct lab_keeper *k, const struct uuid *id);

/* Makes the file that came from elsewhere a run of this collector. `transfer` names it while it is
 * written: two may bring one run. Errors: those of runs_import and fio; all is as before then */
NODISCARD enum err lab_keeper_import(struct lab_keeper *k, const struct uuid *transfer,
                                     const struct wire_run *row, const void *p, size_t n,
                                     struct arena *memory, struct wire_run *out,
                                     struct errmsg *why);

/* Reads at most *n bytes of a run's file from `offset` on. *total: of the whole file. Errors:
 * ERR_NOTFOUND, those of fio */
NODISCARD enum err lab_keeper_read(const struct lab_keeper *k, const struct uuid *id,
                                   uint64_t offset, void *p, size_t *n, uint64_t *total);

#endif
