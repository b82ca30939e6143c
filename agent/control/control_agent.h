/* What an administrator of this host may change about the running agent, see control.h: done by
 * the monitor, written into the log, and sent as an event of kind `source`.
 * Threads: start and stop the owner's; the control has one of its own. */
#ifndef PROCFLEET_AGENT_CONTROL_CONTROL_AGENT_H
#define PROCFLEET_AGENT_CONTROL_CONTROL_AGENT_H

#include "agent/conf/agent_conf.h"
#include "agent/monitor.h"

struct control_agent;

/* conf and m are borrowed until stop. Errors: those of control_open */
NODISCARD enum err control_agent_start(struct control_agent **out, const struct agent_conf *conf,
                                       struct monitor *m, struct errmsg *why);
void control_agent_stop(struct control_agent *c); /* NULL is allowed; while m still stands */

#endif
