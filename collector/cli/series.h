/* Asking for the series of groups and printing them: a line of bars for each group and metric in a
 * table, a row for each group and bucket in JSON and CSV. */
#ifndef PROCFLEET_COLLECTOR_CLI_SERIES_H
#define PROCFLEET_COLLECTOR_CLI_SERIES_H

#include "collector/cli/cli.h"

#define SERIES_BUCKETS_DEFAULT 60u

/* q: with metrics, limit, buckets and group_by. Returns the exit code. */
int series_ask(struct cli *c, struct wire_query *q);

#endif
