/* The subcommands of procfleet-collector. Each takes its own name as argv[0] and gives the exit
 * code: 0 ok, 1 failed, 2 wrong usage or setting. */
#ifndef PROCFLEET_COLLECTOR_CMD_H
#define PROCFLEET_COLLECTOR_CMD_H

#include "common/opt.h"

int cmd_run(int argc, char **argv);
int cmd_pki(int argc, char **argv);

extern const struct opt_command cmd_run_options; /* for the program's page and completion */

#endif
