/* Calls about runs on an open connection, and a run's file in its pieces. Threads: one. */
#ifndef PROCFLEET_COLLECTOR_CLI_RUN_FETCH_H
#define PROCFLEET_COLLECTOR_CLI_RUN_FETCH_H

#include "collector/cli/cli_client.h"
#include "common/wire/wire_run.h"

struct run_fetch {
    struct cli *c;
    struct cli_client *client;
    struct errmsg why; /* of what failed; may be empty */
    int code;          /* its exit code */
};

/* One call. *out: decoded, wire_run_free. Errors: those of cli_client_call and wire_run */
NODISCARD enum err run_fetch_call(struct run_fetch *f, const char *method, enum wire_run_kind kind,
                                  const void *ask, enum wire_run_kind answer, void *out);

/* The whole file of NAME, compared with its hash, into an empty `out`. One that is made again
 * meanwhile is begun anew. Errors: as above; ERR_CORRUPT (it came damaged) */
NODISCARD enum err run_fetch_file(struct run_fetch *f, struct str name, struct buf *out);

/* Prints why; the exit code. */
int run_fetch_fail(const struct run_fetch *f, enum err e);

#endif
