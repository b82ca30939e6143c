/* Which lines of the log belong into the system's event log as well, where operators look without
 * knowing of us: why the agent could not start, that it is degraded and that it has recovered, that
 * the collector refuses it, that its certificate ends and cannot be renewed. Nothing about
 * processes. Threads: any; a line of one state that comes while another is judged may be told or
 * not. */
#ifndef PROCFLEET_AGENT_STATUS_EVENT_LOG_H
#define PROCFLEET_AGENT_STATUS_EVENT_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/log/log.h"

enum event_log_kind { EVENT_LOG_NOT, EVENT_LOG_INFO, EVENT_LOG_WARNING, EVENT_LOG_ERROR };

/* What has been told; zeroed at first. */
struct event_log {
    atomic_bool shed, polled, refused;
};

/* `out` gets a sentence for people, cut at its size. Each state is told when it begins and when it
 * ends, however often the log repeats it. */
enum event_log_kind event_log_judge(struct event_log *n, enum log_level level, const char *module,
                                    const char *event, const char *text, char *out, size_t size);

#endif
