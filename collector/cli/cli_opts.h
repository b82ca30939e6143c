/* Options that several commands have, for their tables. */
#ifndef PROCFLEET_COLLECTOR_CLI_CLI_OPTS_H
#define PROCFLEET_COLLECTOR_CLI_CLI_OPTS_H

#include "common/text/table.h"

/* Options of every subcommand, and of those that ask about processes in a time range. */
#define CLI_OPTS_CONNECTION                                                                        \
    {"collector", 0, "HOST[:PORT]", "collector to ask (PROCFLEET_COLLECTOR; localhost:7421)", 0},  \
        {"ca", 0, "FILE", "certificate of the authority (PROCFLEET_CA)", 0},                       \
        {"cert", 0, "FILE", "own certificate (PROCFLEET_CERT)", 0},                                \
        {"key", 0, "FILE", "own private key (PROCFLEET_KEY)", 0},                                  \
        {"server-name", 0, "NAME",                                                                 \
         "name the collector's certificate must carry (PROCFLEET_SERVER_NAME)", 0},                \
        {"timeout", 0, "SPAN", "longest wait for an answer (PROCFLEET_TIMEOUT; 10s)", 0},          \
        {"config", 'c', "FILE", "file with profiles (PROCFLEET_CONFIG); see procfleet config", 0}, \
        {"profile", 0, "NAME", "the one to use of these (PROCFLEET_PROFILE; default_profile)", 0}, \
        {"time", 0, "utc|local", "zone of times read and shown in tables (PROCFLEET_TIME; utc)",   \
         0},                                                                                       \
        TABLE_OPT_WIDE,                                                                            \
        {"color", 0, "auto|always|never",                                                          \
         "bold and colours in tables (auto: on a terminal, unless NO_COLOR is set)", 0},           \
    {                                                                                              \
        "format", 'f', "table|json|csv|jsonl", "how it is printed (PROCFLEET_FORMAT; table)", 0    \
    }

#define CLI_OPT_HOST                                                                              \
    {                                                                                             \
        "host", 0, "HOST",                                                                        \
            "name, glob or uuid of the hosts asked for; may be repeated (PROCFLEET_HOST; all)", 1 \
    }

/* Which of the hosts, and which rows. */
#define CLI_OPT_LABEL                                                              \
    {                                                                              \
        "label", 0, "KEY=GLOB", "only hosts with such a label; may be repeated", 1 \
    }

#define CLI_OPT_CLASS                                                                    \
    {                                                                                    \
        "class", 0, "KEY,...", "hosts of one class are the same in these (lab.class)", 0 \
    }

#define CLI_OPT_WHERE                                                                          \
    {                                                                                          \
        "where", 0, "EXPR",                                                                    \
            "only what fulfils it: 'exit != 0 and life < 1s'; docs/lab.md has the language", 0 \
    }

/* Of commands that print what a collector answers. */
#define CLI_OPT_ENVELOPE                                                          \
    {                                                                             \
        "envelope", 0, NULL, "JSON as an object: rows, range, coverage, notes", 0 \
    }
#define CLI_OPTS_ANSWER                                                                    \
    {"sort", 0, "COLUMN,...", "order of the rows printed; -COLUMN: the largest first", 0}, \
        CLI_OPT_ENVELOPE

#define CLI_OPTS_RANGE                                                                     \
    {"run", 0, "NAME", "a run's hosts, range and processes; also NAME@3, NAME@ID", 0},     \
        {"since", 0, "WHEN",                                                               \
         "from then on: 5m, 14:02, today, 'yesterday 14:00', mon, '2026-11-21 09:00'", 0}, \
    {                                                                                      \
        "until", 0, "WHEN", "up to then; as since", 0                                      \
    }

/* Of commands that take a METRIC, for --help. */
#define CLI_ABSENT                                                                                \
    "What a host cannot tell is absent, never 0:\n"                                               \
    "  Linux       tcp_*, udp_*, file_*, virtual_*, system_calls, wait_time, interrupt_time,\n"   \
    "              disk_reads, disk_writes, disk_time, hard_fault_bytes, image_loads,\n"          \
    "              threads_started: no source but eBPF has them for a process;\n"                 \
    "              io_wait_time, memory_wait_time: unless kernel.task_delayacct is 1;\n"          \
    "              ready_time: where the kernel has no CONFIG_SCHED_INFO;\n"                      \
    "              clr.*, presents, registry_operations, private_working_set, cpu_cycles,\n"      \
    "              pools, other_operations, thread_states.ready, GDI and USER objects:\n"         \
    "              Windows'\n"                                                                    \
    "  Windows     io_wait_time, memory_wait_time, thread_states.disk_wait, .stopped, .idle:\n"   \
    "              Linux'; what events count, while the level or the settings etw. leave\n"       \
    "              these events off\n"                                                            \
    "  recordings  kernel_time, user_time, active_threads, suspended_threads, thread_states.*,\n" \
    "              other_operations, private_working_set, peak_handle_count, GDI and USER\n"      \
    "              objects: no record has them; what events count, where the file has none\n"     \
    "              of these events; sizes of memory, until its last second\n"                     \
    "  agent.*     everywhere but for the agent's own process\n"

/* Of events of providers. */
#define CLI_OPTS_PROVIDER                                                                  \
    {"provider", 0, "NAME|GUID", "only of this provider; NAME may be a glob", 0},          \
        {"event", 'e', "NAME|ID", "only this event of a provider; NAME may be a glob", 0}, \
    {                                                                                      \
        "where", 0, "EXPR", "only events of which it is true: field.Status != 0", 0        \
    }

#define CLI_OPTS_PROCESS                                 \
    {"pid", 'p', "PID", "only this process id", 0},      \
    {                                                    \
        "name", 0, "GLOB", "only images of this name", 0 \
    }

#endif
