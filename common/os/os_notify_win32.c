/* The service control manager is told otherwise: agent/service/service_win32.c. */
#include "common/os/os_notify.h"

void os_notify(const char *fmt, ...)
{
    (void)fmt;
}

int64_t os_notify_watchdog_ns(void)
{
    return 0;
}
