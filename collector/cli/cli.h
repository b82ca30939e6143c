/* One invocation of the operator's command: options, settings of the connection, format, exit code.
 * Every subcommand is a table of options and a body; what they share is here. Threads: one. */
#ifndef PROCFLEET_COLLECTOR_CLI_CLI_H
#define PROCFLEET_COLLECTOR_CLI_CLI_H

#include <stdio.h>

#include "common/conf/opt.h"
#include "common/net/net.h"
#include "common/text/table.h"
#include "common/wire/wire_query.h"

enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_UNREACHABLE = 3,
    CLI_REFUSED = 4,
    CLI_PARTIAL = 5, /* of diff and gate: no verdict */
    CLI_REGRESSION = 6,
};

/* From options, else the environment, else the profile, else the default (profile.h). Texts are
 * borrowed from there. */
struct cli_settings {
    char collector[300]; /* host:port of queries */
    char events[300];    /* host:port of the event stream */
    const char *ca, *cert, *key, *server_name;
    const char *host; /* NULL: all */
    int64_t timeout_ns;
    bool local; /* times are read and shown in the zone of this machine */
};

struct profile;

struct cli {
    const struct opt_command *cmd;
    struct opt_args *args;
    struct profile *profile;
    struct cli_settings settings;
    enum table_format format;
};

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
    "              clr.*, registry_operations, private_working_set, cpu_cycles, pools,\n"         \
    "              other_operations, thread_states.ready, GDI and USER objects: Windows'\n"       \
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

/* What has to be there before a command's body runs. */
enum cli_needs {
    CLI_NEEDS_COLLECTOR, /* settings, a certificate, the network library */
    CLI_NEEDS_SETTINGS,
    CLI_NEEDS_NOTHING,
};

/* A command, or one of its commands. */
struct cli_command {
    const struct opt_command *usage;
    int (*body)(struct cli *c); /* returns the exit code; NULL: it only has commands */
    enum cli_needs needs;
    const struct cli_command *subs; /* in the order of usage->subs */
};

/* Chooses among its commands, parses, answers --help, runs the body, cleans up. Returns the exit
 * code. */
int cli_run(const struct cli_command *cmd, int argc, char **argv);

/* Runs a body that asks a collector: with a certificate and the network library. */
int cli_connected(struct cli *c, int (*body)(struct cli *c));

/* Prints "procfleet top: sentence" on standard error; what is named there steers no terminal. */
void cli_tell(const struct cli *c, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The same, and returns the code. */
int cli_fail(const struct cli *c, enum cli_exit code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Fills a query from --host, --label, --where, --since, --until, --pid, --name and --limit; texts
 * stay borrowed from the arguments. Errors: ERR_USAGE (why says) */
NODISCARD enum err cli_query(const struct cli *c, struct wire_query *q, uint32_t default_limit,
                             struct errmsg *why);

/* What --provider and --event say; borrowed from the arguments. */
void cli_events(const struct cli *c, struct wire_events *out);

/* A moment from an option: a span before now or a time; 0 when it was not given. Errors: ERR_USAGE
 */
NODISCARD enum err cli_moment(const struct cli *c, const char *option, int64_t now_ns, int64_t *out,
                              struct errmsg *why);

/* Which of the words that its table lists an option was given, counted from 0; `def` when absent.
 */
uint8_t cli_word(const struct cli *c, const char *option, uint8_t def);

/* A number of an option, up to max; `def` when it was not given. Errors: ERR_USAGE */
NODISCARD enum err cli_number(const struct cli *c, const char *option, uint32_t def, uint32_t max,
                              uint32_t *out, struct errmsg *why);

/* A table on standard output as --format, --sort and --envelope say. Without --wide it fits into a
 * terminal: titles in `yields`, up to NULL, give way first. Errors: ERR_NOMEM, ERR_USAGE (told) */
NODISCARD enum err cli_table(const struct cli *c, struct table **out, bool live,
                             const struct table_column *columns, size_t n,
                             const char *const *yields);

/* Says why there is no table, or no row of it, unless that has been said; returns the exit code. */
int cli_table_failed(const struct cli *c, enum err e);

/* Below a table: which range it is of, or which moment if `moment`, and the zone of its times. */
void cli_table_range(const struct cli *c, struct table *t, int64_t since_ns, int64_t until_ns,
                     bool moment);

/* The commands, each in its own file. */
extern const struct cli_command cmd_admin, cmd_config, cmd_console, cmd_coverage, cmd_crashes,
    cmd_diff, cmd_events, cmd_gate, cmd_history, cmd_hosts, cmd_overview, cmd_providers, cmd_ps,
    cmd_report, cmd_run, cmd_subscriptions, cmd_tail, cmd_timeline, cmd_top, cmd_tree;

#endif
