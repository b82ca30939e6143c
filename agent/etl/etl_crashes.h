/* `etl processes --crashed`: which processes were ended by a fault, by rules over exit codes and
 * over who reported whom. Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_ETL_CRASHES_H
#define PROCFLEET_AGENT_ETL_ETL_CRASHES_H

#include "agent/etl/etl_job.h"

/* Errors: as an etl_command's run */
NODISCARD enum err etl_crashes_run(struct etl_job *job, struct errmsg *why);

#endif
