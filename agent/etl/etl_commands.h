/* The commands of procfleet-etl. A command is a file of its own, etl_NAME.c, with a struct
 * etl_command called etl_NAME_command, and a word in this list: its place here is its place in
 * --help. Threads: constant data. */
#ifndef PROCFLEET_AGENT_ETL_ETL_COMMANDS_H
#define PROCFLEET_AGENT_ETL_ETL_COMMANDS_H

#include "agent/etl/etl_job.h"

#define ETL_COMMANDS(X) \
    X(info)             \
    X(summary)          \
    X(processes_top)    \
    X(processes)        \
    X(tree)             \
    X(threads)          \
    X(stacks)           \
    X(clr)              \
    X(events)           \
    X(tcp)              \
    X(http)             \
    X(dns)              \
    X(rpc)              \
    X(pcap)             \
    X(files)            \
    X(modules)          \
    X(providers)        \
    X(marks)            \
    X(load)             \
    X(layouts)

#define ETL_COMMANDS_DECLARE(name) extern const struct etl_command etl_##name##_command;
ETL_COMMANDS(ETL_COMMANDS_DECLARE)
#undef ETL_COMMANDS_DECLARE

#endif
