/* The subcommands of procfleet-agent, and what they share. Threads: the main one. */
#ifndef PROCFLEET_AGENT_CMD_AGENT_CMD_H
#define PROCFLEET_AGENT_CMD_AGENT_CMD_H

#include "agent/agent.h"
#include "agent/conf/agent_conf.h"
#include "common/conf/opt.h"

enum {
    AGENT_CMD_OK,
    AGENT_CMD_FAILED,
    AGENT_CMD_USAGE,
    AGENT_CMD_UNREACHABLE,
    AGENT_CMD_REFUSED,
    AGENT_CMD_PARTIAL
};

extern const struct opt_command cmd_run_opts, cmd_replay_opts, cmd_etl_opts, cmd_watch_opts,
    cmd_doctor_opts, cmd_enroll_opts, cmd_service_opts, cmd_show_wire_opts, cmd_spool_opts,
    cmd_status_opts, cmd_prepare_opts, cmd_session_opts, cmd_record_opts, cmd_mark_opts;

/* The configuration of the installed service, else the one in the default state_dir; mem_free, NULL
 * when out of memory. */
char *agent_cmd_default_config(void);

/* The names of the settings, for --set. */
extern const struct opt_set cmd_conf_sets[];

/* Options every subcommand with settings has. */
#define AGENT_CMD_CONF_OPTS                                                                   \
    {"config", 'c', "FILE", "settings, YAML; 'procfleet-agent config-sample' shows them all", \
     false},                                                                                  \
    {                                                                                         \
        "set", 's', "KEY=VALUE", "one setting; stronger than the file; may be repeated", true \
    }

/* Prints "procfleet-agent: TEXT" on standard error and gives the exit code that suits `e`. */
int agent_cmd_fail(enum err e, const char *text);

/* Loads --config and --set and opens the log. Errors: ERR_USAGE (a file or a setting), ERR_NOMEM,
 * those of log_open */
NODISCARD enum err agent_cmd_settings(struct agent_conf *out, const struct opt_args *args,
                                      struct errmsg *why);

/* The same for what works with an agent's rights and files: first of all others must not be able to
 * change the settings, or to have put something into state_dir (common/os/os_owner.h).
 * Errors: also ERR_ACCESS */
NODISCARD enum err agent_cmd_trusted_settings(struct agent_conf *out, const struct opt_args *args,
                                              struct errmsg *why);

/* As monitor_conf.open, with the settings (struct agent_conf) as ctx: this machine, live, in a way
 * that does not disturb an agent that runs here too. */
NODISCARD enum err agent_cmd_open_source(void *ctx, struct source **out, struct source_sink sink,
                                         struct errmsg *why);

/* From now on a stop signal makes agent_cmd_stopped true; nothing else happens by itself. */
NODISCARD enum err agent_cmd_catch_stop(struct errmsg *why);
/* As a signal would; from any thread. */
void agent_cmd_stop(void);
/* From now on signals and console events stay uncaught, since a service's stop comes otherwise, and
 * the log goes to log/agent.log in the state directory unless log.file says where. */
void agent_cmd_as_service(void);
/* What agent_cmd_fail prints goes to the system's event log, too: nobody sees the output of what an
 * installer starts. */
void agent_cmd_also_note(void);
bool agent_cmd_stopped(void);
bool agent_cmd_hurried(void); /* and a second one came */

#endif
