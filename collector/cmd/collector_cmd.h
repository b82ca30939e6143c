/* The subcommands of procfleet-collector, and what they share. Threads: the main one. */
#ifndef PROCFLEET_COLLECTOR_CMD_COLLECTOR_CMD_H
#define PROCFLEET_COLLECTOR_CMD_COLLECTOR_CMD_H

#include "common/conf/opt.h"
#include "common/text/table.h"

enum { COLLECTOR_CMD_DONE, COLLECTOR_CMD_FAILED, COLLECTOR_CMD_USAGE };

extern const struct opt_command cmd_run_options, cmd_pki_options, cmd_store_options,
    cmd_clickhouse_options, cmd_doctor_options;

/* The names of the settings, for --set: the i-th, NULL after the last. */
const char *collector_cmd_conf_setting(size_t i);
extern const struct opt_set cmd_conf_sets[];

/* Prints on standard error; returns the exit code: 1 failed, 2 wrong usage or setting. */
int collector_cmd_complain(const struct opt_command *cmd, enum err e, const char *text);

const char *collector_cmd_value_or(const struct opt_args *a, const char *name,
                                   const char *otherwise);

/* --life, --expiring and the like. Errors: ERR_USAGE */
NODISCARD enum err collector_cmd_span(int64_t *ns, const char *option, const char *text,
                                      int64_t min_ns, int64_t max_ns, const char *range,
                                      struct errmsg *why);

/* --format. Errors: ERR_USAGE */
NODISCARD enum err collector_cmd_format(enum table_format *format, const struct opt_args *a,
                                        struct errmsg *why);

/* A sheet on standard output as --format says. On a terminal a table fits in, unless --wide: the
 * titles in `yields`, which end with NULL, give way first. Errors: ERR_USAGE, ERR_NOMEM */
NODISCARD enum err collector_cmd_table(struct table **out, const struct opt_args *a,
                                       const struct table_column *columns, size_t n,
                                       const char *const *yields, struct errmsg *why);

#endif
