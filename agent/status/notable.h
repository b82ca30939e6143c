/* Which lines of the log belong into the system's event log as well, where operators look without
 * knowing of us: why the agent could not start, that it is degraded and that it has recovered, that
 * the collector refuses it, that its certificate ends and cannot be renewed. Nothing about
 * processes. Threads: any; a line of one state that comes while another is judged may be told or
 * not. */
#ifndef PROCFLEET_AGENT_STATUS_NOTABLE_H
#define PROCFLEET_AGENT_STATUS_NOTABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/log/log.h"

enum notable_kind { NOTABLE_NOT, NOTABLE_INFO, NOTABLE_WARNING, NOTABLE_ERROR };

/* What has been told; zeroed at first. */
struct notable {
    atomic_bool shed, polled, refused;
};

/* `out` gets a sentence for people, cut at its size. Each state is told when it begins and when it
 * ends, however often the log repeats it. */
enum notable_kind notable_judge(struct notable *n, enum log_level level, const char *module,
                                const char *event, const char *text, char *out, size_t size);

#endif
