/* What a run was, out of the store: which process used what on which host, when, and what of it
 * arrived; everything that a run file (run_file.h) holds. The sums are those of Top over the same
 * hosts, range and tree.
 *
 * Bounds:  EXTRACT_MEMORY_MAX; above it ERR_FULL. Threads: any, one call each, over a view of its
 * own. Takes as long as reading the range does: callers are background threads or have a deadline.
 */
#ifndef PROCFLEET_COLLECTOR_LAB_EXTRACT_H
#define PROCFLEET_COLLECTOR_LAB_EXTRACT_H

#include "collector/query/query.h"
#include "common/lab/run_file.h"

#define EXTRACT_MEMORY_MAX ((size_t)512 << 20)

struct extract_ask {
    struct query_env env; /* view, scope, callbacks, deadline; its run is set here */
    const struct query_run *run;
    struct run_head head;   /* made_by, revision and peak_step_ns are set where they are zero; texts
                             are copied */
    int64_t clock_error_ns; /* of the marks */
    bool command_lines;
    /* Adds what else is known of a host: labels, facts, overlapped; texts into the arena. May be
     * NULL. Errors: ERR_FULL and others */
    enum err (*about)(void *ctx, const struct uuid *host, struct arena *memory,
                      struct run_host *out);
    void *ctx;
};

/* *out: released by run_file_free. Errors: ERR_FULL, ERR_TIMEOUT, ERR_NOMEM and those of query_run;
 * why says more */
NODISCARD enum err extract_run(struct run_file **out, const struct extract_ask *ask,
                               struct errmsg *why);

#endif
