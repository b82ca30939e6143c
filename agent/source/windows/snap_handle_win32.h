/* Answers the jobs of snap_slow.h by opening the process with the least access that serves:
 * limited query; reading of memory only where the system has no call for command lines. What is
 * protected is closed at once. Threads: one owner, that of the calls. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_SNAP_HANDLE_WIN32_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_SNAP_HANDLE_WIN32_H

#include "agent/source/windows/snap_slow.h"

struct snap_handle;

/* Errors: ERR_NOMEM */
NODISCARD enum err snap_handle_create(struct snap_handle **out);
void snap_handle_destroy(struct snap_handle *h);

/* Fills *out, which is zeroed but for the job; texts are borrowed until the next call. */
void snap_handle_read(struct snap_handle *h, const struct snap_job *job, struct snap_answer *out);

#endif
