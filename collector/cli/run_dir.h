/* Runs of a directory of run files (--runs DIR), as a collector lists and shows them. Functions
 * return the exit code; a failure has been printed. Threads: one. */
#ifndef PROCFLEET_COLLECTOR_CLI_RUN_DIR_H
#define PROCFLEET_COLLECTOR_CLI_RUN_DIR_H

#include "collector/cli/cli.h"
#include "common/lab/run_file.h"
#include "common/wire/wire_run.h"

/* Calls `each` with the runs that are asked for, the newest first, at most `limit`; texts are
 * borrowed during the call. *more: there are further ones. */
int run_dir_list(struct cli *c, const char *dir, const struct wire_runs_ask *ask, uint32_t limit,
                 enum err (*each)(void *ctx, const struct wire_run *run), void *ctx, bool *more);

/* Calls `show` with the newest run of this name, with all sections. */
int run_dir_show(struct cli *c, const char *dir, const char *name,
                 int (*show)(struct cli *c, const struct run_file *f));

#endif
