/* Batches of one host for the tests of sealing, and what to compare afterwards: every sample as a
 * line of a sorted list. Failures end the test. */
#ifndef PROCFLEET_TESTS_COLLECTOR_STORE_SEGMENT_WINDOW_RIG_H
#define PROCFLEET_TESTS_COLLECTOR_STORE_SEGMENT_WINDOW_RIG_H

#include "collector/store/segment/window.h"
#include "tests/support/fleetgen.h"

#define WINDOW_RIG_MAX 64

struct window_rig {
    struct fleetgen *g;
    size_t n;
    struct batch *batches[WINDOW_RIG_MAX]; /* decoded copies, to be changed at will */
    struct window_batch in[WINDOW_RIG_MAX];
};

/* Sixteen processes with much churn and five metrics. */
void window_rig_init(struct window_rig *r, uint64_t seed);
void window_rig_fini(struct window_rig *r);
struct batch *window_rig_add(struct window_rig *r, size_t ticks); /* one more batch */
void window_rig_shuffle(struct window_rig *r, uint64_t seed);

/* One value, or with metric METRIC_COLS the presence of a process at a tick. */
struct sample {
    struct uuid boot;
    struct proc_id id;
    int64_t wall_ns, mono_ns, value;
    unsigned metric;
    bool fresh; /* the first of a fresh run */
};

struct samples {
    size_t n, cap;
    struct sample *p;
};

void samples_add(struct samples *s, const struct batch *rows);
void samples_of_batches(struct samples *s, const struct window_batch *in, size_t n);
void samples_of_parts(struct samples *s, const struct window_part *parts, size_t n);
void samples_keep(struct samples *s, metric_mask metrics, bool has_pid, uint32_t pid);
void samples_same(struct samples *a, struct samples *b); /* sorts and frees both */

/* That rows are as struct batch demands. */
void rows_sound(const struct batch *rows);

#endif
