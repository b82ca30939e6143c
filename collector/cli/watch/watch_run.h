/* Runs the live view on this process's terminal until the user leaves it. */
#ifndef PROCFLEET_COLLECTOR_CLI_WATCH_WATCH_RUN_H
#define PROCFLEET_COLLECTOR_CLI_WATCH_WATCH_RUN_H

#include "collector/cli/watch/watch.h"

struct cli;

/* Released with watch_fini by the caller. Returns the exit code; what went wrong has been
 * printed. */
int watch_run(struct cli *c, struct watch *w);

#endif
