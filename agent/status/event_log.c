#include "agent/status/event_log.h"

#include <stdio.h>

static const struct {
    enum event_log_note state; /* which it begins or ends; EVENT_LOG_NO_NOTE: reported each time */
    const char *begins, *ends;
} event_log_notes[EVENT_LOG_NOTE_COUNT] = {
    [EVENT_LOG_FAILED] = {EVENT_LOG_NO_NOTE, "The agent cannot go on", NULL},
    [EVENT_LOG_CERTIFICATE] = {EVENT_LOG_NO_NOTE,
                               "The agent's certificate ends soon, and could not be renewed", NULL},
    [EVENT_LOG_LEVEL] = {EVENT_LOG_LEVEL,
                         "The agent collects less, because it cost too much or events were lost",
                         "The agent has recovered and collects more again"},
    [EVENT_LOG_SOURCE] = {EVENT_LOG_SOURCE,
                          "The agent cannot trace events and compares tables of processes instead",
                          "The agent has recovered and traces events"},
    [EVENT_LOG_REFUSED] = {EVENT_LOG_REFUSED, "The collector refuses the agent", NULL},
    [EVENT_LOG_CONNECTED] = {EVENT_LOG_REFUSED, NULL, "The collector takes the agent's data again"},
};

enum event_log_kind event_log_judge(struct event_log *l, unsigned note, enum log_level level,
                                    const char *text, char *out, size_t size)
{
    bool begins = level <= LOG_WARN;
    enum event_log_note state;
    const char *sentence;

    if (note >= EVENT_LOG_NOTE_COUNT) {
        return EVENT_LOG_NOT;
    }
    state = event_log_notes[note].state;
    sentence = begins ? event_log_notes[note].begins : event_log_notes[note].ends;
    if (!sentence || (state && atomic_exchange(&l->on[state], begins) == begins)) {
        return EVENT_LOG_NOT;
    }
    (void)snprintf(out, size, "%s. %s", sentence, text);
    return level == LOG_ERROR ? EVENT_LOG_ERROR : begins ? EVENT_LOG_WARNING : EVENT_LOG_INFO;
}
