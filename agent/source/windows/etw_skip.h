/* Records nobody makes anything of: they never enter a ring. The list holds, for the kernel's
 * classes that live sessions bring, what the stages behind decode; whatever is of another class
 * passes. Threads: any; no state. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_SKIP_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_SKIP_H

#include "agent/source/source.h"

/* threads_elsewhere: another session tells who starts and ends threads. */
bool etw_skip(const struct raw_event *raw, bool threads_elsewhere);

#endif
