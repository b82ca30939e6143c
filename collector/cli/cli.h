/* One invocation of the operator's command: options, settings of the connection, format, exit code.
 * Every subcommand is a table of options and a body; what they share is here. Threads: one. */
#ifndef PROCFLEET_COLLECTOR_CLI_CLI_H
#define PROCFLEET_COLLECTOR_CLI_CLI_H

#include <stdio.h>

#include "collector/cli/cli_opts.h"
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
extern const struct cli_command cmd_admin, cmd_boots, cmd_config, cmd_console, cmd_coverage,
    cmd_crashes, cmd_diff, cmd_events, cmd_gate, cmd_history, cmd_hosts, cmd_outliers, cmd_overview,
    cmd_providers, cmd_ps, cmd_report, cmd_rules, cmd_run, cmd_subscriptions, cmd_tail,
    cmd_timeline, cmd_top, cmd_tree;

#endif
