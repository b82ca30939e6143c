/* What of the settings differs between systems (agent_conf_linux.c, agent_conf_win32.c; chosen by
 * the build). */
#ifndef PROCFLEET_AGENT_CONF_AGENT_CONF_HOST_H
#define PROCFLEET_AGENT_CONF_AGENT_CONF_HOST_H

#include "common/base/err.h"

/* Default of state_dir, as it would be written. */
extern const char agent_conf_state_dir[];

/* A directory as it was written, variables of the environment put in where this system has such a
 * custom; mem_free. Errors: ERR_INVALID (a variable that is not set), ERR_NOMEM */
NODISCARD enum err agent_conf_expand(char **out, const char *text);

#endif
