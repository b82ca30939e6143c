/* 'procfleet-agent record', which the program beside it does. Threads: the main one. */
#ifndef PROCFLEET_AGENT_RECORD_RECORD_CMD_H
#define PROCFLEET_AGENT_RECORD_RECORD_CMD_H

#include "common/base/str.h"
#include "common/conf/opt.h"

extern const struct opt_command record_cmd_opts;

/* Behind its name; returns the exit code. `name` as session_cmd's. */
int record_cmd(int argc, char **argv, struct str (*name)(const uint8_t guid[16]));

#endif
