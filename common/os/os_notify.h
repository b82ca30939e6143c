/* The service's state, for the service manager that started it: the datagram protocol of
 * sd_notify(3), which systemd keeps stable, without its library. Without a manager (NOTIFY_SOCKET
 * is not set; any system but Linux) nothing happens. Threads: any; waits for a second at most. */
#ifndef PROCFLEET_COMMON_OS_OS_NOTIFY_H
#define PROCFLEET_COMMON_OS_OS_NOTIFY_H

#include <stdint.h>

#include "common/base/err.h"

#define OS_NOTIFY_MAX 512u /* bytes of a message; the rest is cut off */

/* Sends one message, lines of NAME=value: "READY=1", "STATUS=…", "WATCHDOG=1", "STOPPING=1",
 * "EXTEND_TIMEOUT_USEC=…". What cannot be delivered is lost. */
void os_notify(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* The manager ends this process when it hears no WATCHDOG=1 for so long; 0 = it does not. */
int64_t os_notify_watchdog_ns(void);

#endif
