/* What the collector has of runs: `run list`, `run show`, `run export`, `run import`. Bodies return
 * the exit code; a failure has been printed. Threads: one. */
#ifndef PROCFLEET_COLLECTOR_CLI_RUN_SHOW_H
#define PROCFLEET_COLLECTOR_CLI_RUN_SHOW_H

#include "collector/cli/cli.h"

extern const struct opt_command run_show_list, run_show_usage, run_show_export, run_show_import;

int run_show_list_body(struct cli *c);
int run_show_body(struct cli *c);
int run_show_export_body(struct cli *c);
int run_show_import_body(struct cli *c);

#endif
