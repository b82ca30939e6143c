/* A service of consumers, each on a thread of its own, until the stop signal comes or one of them
 * fails. Threads: the main one. */
#ifndef PROCFLEET_COLLECTOR_FORWARD_RUN_SERVICE_H
#define PROCFLEET_COLLECTOR_FORWARD_RUN_SERVICE_H

#include "collector/forward/consumer.h"
#include "common/conf/opt.h"

enum run_service_exit {
    RUN_SERVICE_DONE = 0,
    RUN_SERVICE_FAILED = 1,
    RUN_SERVICE_USAGE = 2,
    RUN_SERVICE_REFUSED = 4,
};

struct run_service {
    const char *module; /* for the log: "forward" */
    struct consumer *const *consumers;
    size_t n; /* at most 64 */
    /* Any thread: whatever a consumer's `deliver` waits for ends. */
    void (*stop)(void *ctx);
    void (*report)(void *ctx); /* one log line of counters: once a minute, and at the end */
    void *ctx;
};

/* Errors: ERR_NOMEM, ERR_IO, those of consumer_run (of the first that failed) */
NODISCARD enum err run_service(const struct run_service *s, struct errmsg *why);

/* opt_program.fail of both programs: a sentence on standard error. */
int run_service_fail(const struct opt_command *cmd, enum err e, const char *text);

#endif
