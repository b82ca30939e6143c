/* What each process did in a window, for whoever keeps what the window was: the same sums that Top
 * makes, instance by instance. Threads: any, one call each. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_EXTRACT_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_EXTRACT_H

#include "collector/query/query_env.h"

/* One metric. Counters: total is the growth, most the largest in one step. Gauges: the sum of all
 * samples, and the largest. */
struct query_extract_value {
    bool has_total, has_most;
    int64_t total, most;
};

struct query_extract_host {
    size_t host; /* in the view */
    const struct store_host *about;
    int64_t since_ns, until_ns;      /* by its own clock */
    const struct store_ticks *ticks; /* inside */
    bool has_tree;                   /* the run's root was seen: in_tree tells, and of any */
    size_t n_family;              /* process of the run's boot whether it is among these, which */
    const struct proc_id *family; /* are in the order of pid and start: query_extract_has */
    bool coarse;                  /* samples are gone, or some short lives left as sums */
};

/* A process with a value of any of these metrics; a host's come once for each set of metrics, of
 * which the first has CPU time, working set and threads. */
struct query_extract_inst {
    const struct uuid *boot; /* NULL: of `instances` short lives only a sum by name is left */
    struct proc_id id;
    const struct proc_info *info; /* name and user; NULL: nothing is known */
    uint32_t instances;
    bool in_tree;
    bool first; /* of the first set */
    size_t n;
    const uint8_t *metrics;
    const struct query_extract_value *values;
};

/* Both are called until one returns an error, which is returned. What they get is valid during the
 * call. */
struct query_extract {
    enum err (*host)(void *ctx, const struct query_extract_host *h);
    enum err (*inst)(void *ctx, const struct query_extract_inst *i);
    void *ctx;
};

/* Whether it is one of n in the order of pid and start. */
bool query_extract_has(const struct proc_id *family, size_t n, struct proc_id id);

/* Every process of env->run's hosts but the idle one, host by host; ask's host, name and pid narrow
 * it. scratch: released by query_answer_fini, also after an error.
 * Errors: those of query_run */
NODISCARD enum err query_extract(struct query_answer *scratch, const struct query_env *env,
                                 const struct wire_query *ask, const struct query_extract *to,
                                 struct errmsg *why);

#endif
