/* What makes a stop hurry when it takes too long. The end waits for a call that runs just then:
 * after it nothing is called any more, so what the call uses may go.
 * Threads: start and end from any, each once. */
#ifndef PROCFLEET_AGENT_SERVICE_STOP_TIMER_WIN32_H
#define PROCFLEET_AGENT_SERVICE_STOP_TIMER_WIN32_H

#include <stdbool.h>

#include "common/os/win32.h"

struct stop_timer {
    SRWLOCK lock; /* guards timer, over */
    HANDLE timer;
    bool over;
    void (*late)(void *ctx);
    void *ctx;
};

#define STOP_TIMER(late, ctx)                \
    {                                        \
        SRWLOCK_INIT, NULL, false, late, ctx \
    }

/* late is called after `ms`, on a thread of the system's; not when the end came first. */
void stop_timer_start(struct stop_timer *t, unsigned ms);
void stop_timer_end(struct stop_timer *t);

#endif
