#include "agent/service/stop_timer_win32.h"

static void CALLBACK stop_timer_on_late(void *ctx, BOOLEAN fired)
{
    struct stop_timer *t = ctx;

    (void)fired;
    t->late(t->ctx);
}

void stop_timer_start(struct stop_timer *t, unsigned ms)
{
    AcquireSRWLockExclusive(&t->lock);
    if (!t->over && !t->timer) {
        (void)CreateTimerQueueTimer(&t->timer, NULL, stop_timer_on_late, t, ms, 0,
                                    WT_EXECUTEONLYONCE);
    }
    ReleaseSRWLockExclusive(&t->lock);
}

void stop_timer_end(struct stop_timer *t)
{
    HANDLE timer;

    AcquireSRWLockExclusive(&t->lock);
    t->over = true;
    timer = t->timer;
    t->timer = NULL;
    ReleaseSRWLockExclusive(&t->lock);
    if (timer) {
        (void)DeleteTimerQueueTimer(NULL, timer, INVALID_HANDLE_VALUE);
    }
}
