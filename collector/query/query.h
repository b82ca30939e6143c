/* Questions over a view of the store: hosts, top, processes, history, events.
 * An answer is computed from what the view holds when it was opened, and says what it does not
 * know: `partial` when a host or span asked for is missing or known to have loss, notes otherwise.
 *
 * Windows are [since, until) in UTC ns by each host's own stamps. With since = until = 0 the window
 * is the last `last_ns` (0: 15 minutes) up to the host's newest data, so that a recording that has
 * ended still answers. Only since: up to the newest data; only until: the last `last_ns` before it.
 *
 * What values stand for: Top gives each counter's growth inside the window (last value minus the
 * last one before the window; from zero when the process began inside it; from the first value
 * inside when nothing is known of before) and each gauge's last value. Processes gives running
 * totals and last values. History gives each counter's growth since the previous row of the process
 * and the gauge's value; absent where there is no previous row. cpu_percent is the growth of
 * cpu_time over the monotonic time of the same span, in permille of one logical CPU (Processes: the
 * last 10 s).
 *
 * Hosts that are forgotten are in no answer unless they are asked for, by name, by id or all. Of
 * recordings that have ended nothing more is expected: a window without their data lacks nothing.
 *
 * Coverage gives for each host what of its window was delivered and lost (query_ledger.h); every
 * other answer but that of hosts ends with a sentence that says how much that is.
 *
 * Bounds: WIRE_ROWS_MAX rows and QUERY_REPLY_MAX bytes in one answer, more with a cursor;
 * QUERY_MEMORY_MAX of working memory. Threads: any, one query each. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_H

#include "collector/query/query_env.h"

/* out  released by query_answer_fini, also after an error; must not outlive env->view.
 * Errors: ERR_INVALID (the question; why says what), ERR_TIMEOUT (the deadline), ERR_FULL (too much
 * working memory: a narrower question works), ERR_NOMEM, and those of store_scan */
NODISCARD enum err query_run(struct query_answer *out, enum query_kind kind,
                             const struct query_env *env, const struct wire_query *ask,
                             struct errmsg *why);
void query_answer_fini(struct query_answer *a);

/* How many hosts of the view may be seen by `env`'s scope and are not forgotten. */
uint32_t query_count_hosts(const struct query_env *env);

#endif
