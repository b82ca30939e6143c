/* Whether ClickHouse can take what this collector sends, for `doctor` and `clickhouse check`: each
 * server reached, its version, the tables; what the state on disk
 * says is not sent. Changes nothing.
 * Threads: one. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_CHECK_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_CHECK_H

#include "collector/clickhouse/ch_conf.h"
#include "common/check/check_result.h"

void ch_check_run(struct findings *to, const struct ch_conf *c, const char *data_dir,
                  int64_t now_ns);

#endif
