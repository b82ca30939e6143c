/* Names of the exit codes that mean that a process was ended by a fault. Threads: constant data. */
#ifndef PROCFLEET_AGENT_ETL_ETL_NTSTATUS_H
#define PROCFLEET_AGENT_ETL_ETL_NTSTATUS_H

#include <stdint.h>

/* "ACCESS_VIOLATION"; NULL: no name is known. */
const char *etl_ntstatus_name(uint32_t code);

#endif
