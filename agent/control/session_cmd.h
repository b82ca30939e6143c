/* 'procfleet-agent session', which the program beside it does: tables and lists need not be in a
 * service. Threads: the main one. */
#ifndef PROCFLEET_AGENT_CONTROL_SESSION_CMD_H
#define PROCFLEET_AGENT_CONTROL_SESSION_CMD_H

#include "common/base/str.h"
#include "common/conf/opt.h"

#define SESSION_CMD_PROGRAM "procfleet-etl"

extern const struct opt_command session_cmd_opts;
/* Behind its name; returns the exit code. `name`: what a provider is called, empty where nobody
 * knows, valid for good. */
int session_cmd(int argc, char **argv, struct str (*name)(const uint8_t guid[16]));

#endif
