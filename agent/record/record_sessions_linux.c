#include "agent/record/record_sessions.h"

#define INSTEAD                                                                                 \
    "this system has no trace sessions to record. What there is instead: 'procfleet-agent "     \
    "watch' shows what the agent sees here, 'procfleet-agent session level L3 --for 5min' has " \
    "the running agent send more for a while, 'procfleet run begin' has the collector keep it " \
    "as a run, and perf(1) records samples and stacks"

enum err record_sessions_run(const struct record_plan *plan, const struct record_files *files,
                             void (*wait)(void *ctx), void *ctx, struct record_result *out,
                             struct errmsg *why)
{
    (void)plan;
    (void)files;
    (void)wait;
    (void)ctx;
    (void)out;
    return errmsg_set(why, ERR_UNSUPPORTED, INSTEAD);
}

enum err record_sessions_end(struct errmsg *why)
{
    return errmsg_set(why, ERR_UNSUPPORTED, INSTEAD);
}
