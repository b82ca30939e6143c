/* Which lines of the log also belong into the system's event log, where operators look who do not
 * know the agent: why it could not start, that it collects less and that it has recovered, that the
 * collector refuses it, that its certificate ends and cannot be renewed. Nothing about processes.
 * Each such line is written with log_note and its enum event_log_note.
 * Threads: any; of two lines of one state at the same moment either may be the one reported. */
#ifndef PROCFLEET_AGENT_STATUS_EVENT_LOG_H
#define PROCFLEET_AGENT_STATUS_EVENT_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/log/log.h"

/* What a line is about. LOG_WARN and LOG_ERROR: it begins; LOG_INFO: it is over. */
enum event_log_note {
    EVENT_LOG_NO_NOTE,
    EVENT_LOG_FAILED,      /* the agent ends with an error */
    EVENT_LOG_CERTIFICATE, /* could not be renewed */
    EVENT_LOG_LEVEL,       /* of collection: lowered, raised again */
    EVENT_LOG_SOURCE,      /* tables are compared instead of events; events are traced again */
    EVENT_LOG_REFUSED,     /* by the collector */
    EVENT_LOG_CONNECTED,   /* with the collector: ends EVENT_LOG_REFUSED */
    EVENT_LOG_NOTE_COUNT,
};

enum event_log_kind { EVENT_LOG_NOT, EVENT_LOG_INFO, EVENT_LOG_WARNING, EVENT_LOG_ERROR };

/* Which states have been reported; zeroed at first. */
struct event_log {
    atomic_bool on[EVENT_LOG_NOTE_COUNT];
};

/* Writes a sentence for people to `out`, cut at its size. Each state is reported when it begins and
 * when it ends, however often the log repeats it. EVENT_LOG_NOT: nothing is written. */
enum event_log_kind event_log_judge(struct event_log *l, unsigned note, enum log_level level,
                                    const char *text, char *out, size_t size);

#endif
