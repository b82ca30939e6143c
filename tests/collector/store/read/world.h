/* A small world of one host for tests of what is summed: batches of a generator, windows sealed by
 * hand into segments of a directory of its own, one more window in a store's head, and all samples
 * as they were made, to compare with. Threads: the test's own. */
#ifndef PROCFLEET_TESTS_COLLECTOR_STORE_READ_WORLD_H
#define PROCFLEET_TESTS_COLLECTOR_STORE_READ_WORLD_H

#include "collector/store/read/store_view.h"
#include "collector/store/rollup/tier.h"
#include "tests/support/store_rig.h"

#define WORLD_PER_WINDOW  30u /* batches */
#define WORLD_WINDOWS_MAX 13u
#define WORLD_BATCHES_MAX (WORLD_PER_WINDOW * WORLD_WINDOWS_MAX)

/* What became of a batch. */
enum world_fate { WORLD_SEALED, WORLD_LATE, WORLD_LOST };

struct world_sample {
    unsigned metric;
    struct proc_id id;
    int64_t wall_ns, mono_ns, value;
    bool fresh;
};

struct world {
    struct rig rig;
    char dir[256]; /* of our segments */
    struct manifest *m;
    struct packer *packer;
    struct arena memory;
    struct store_view *opened, *view; /* view: opened's head, our segments */
    size_t n_windows;                 /* sealed; one more is in the head */
    struct batch *batches[WORLD_BATCHES_MAX];
    enum world_fate fates[WORLD_BATCHES_MAX];
    struct tier minutes[WORLD_WINDOWS_MAX];
    size_t n_samples, cap_samples;
    struct world_sample *samples; /* by metric, process, time */
    uint64_t rng;
};

/* lost, late: every so many-th batch, 0 = none. Every failure fails the test. */
void world_open(struct world *w, uint64_t seed, size_t n_windows, unsigned lost, unsigned late);
void world_close(struct world *w);

/* Opens a view of how things are now; world_open does. */
void world_look(struct world *w);
/* The same with the segments opened anew. */
void world_reopen(struct world *w);

/* Seals the first twelve windows' hour. */
void world_seal_hour(struct world *w);
/* Retention: drops the segments of a kind whose window is before that one. */
void world_drop(struct world *w, unsigned kind, size_t before_window);
/* All minutes are in their hour. */
void world_mark_in_hour(struct world *w);

/* The next number of the world's own chance. */
uint64_t world_next(struct world *w);
bool world_same_series(const struct world_sample *x, const struct world_sample *y);

#endif
