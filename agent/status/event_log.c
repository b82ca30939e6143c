#include "agent/status/event_log.h"

#include <stdio.h>
#include <string.h>

/* Whether the state changes, and it thus is news. */
static bool turn(atomic_bool *state, bool now)
{
    return atomic_exchange(state, now) != now;
}

enum event_log_kind event_log_judge(struct event_log *n, enum log_level level, const char *module,
                                    const char *event, const char *text, char *out, size_t size)
{
    const struct {
        const char *module, *event;
        atomic_bool *state;
        const char *begins, *ends; /* ends: with a line below LOG_WARN */
    } rows[] = {
        {"agent", "failed", NULL, "The agent cannot go on", NULL},
        {"agent", "certificate", NULL,
         "The agent's certificate ends soon, and could not be renewed", NULL},
        {"agent", "level", &n->shed,
         "The agent collects less, because it cost too much or events were lost",
         "The agent has recovered and collects more again"},
        {"agent", "source", &n->polled,
         "The agent cannot trace events and compares tables of processes instead",
         "The agent has recovered and traces events"},
        {"uplink", "refused", &n->refused, "The collector refuses the agent", NULL},
        {"uplink", "connected", &n->refused, NULL, "The collector takes the agent's data again"},
    };
    bool bad = level <= LOG_WARN;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *sentence = bad ? rows[i].begins : rows[i].ends;

        if (strcmp(module, rows[i].module) != 0 || strcmp(event, rows[i].event) != 0) {
            continue;
        }
        if (!sentence || (rows[i].state && !turn(rows[i].state, bad))) {
            return EVENT_LOG_NOT;
        }
        (void)snprintf(out, size, "%s. %s", sentence, text);
        return level == LOG_ERROR ? EVENT_LOG_ERROR : bad ? EVENT_LOG_WARNING : EVENT_LOG_INFO;
    }
    return EVENT_LOG_NOT;
}
