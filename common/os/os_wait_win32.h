/* Waits of less than OS_WAIT_WIN32_NS that end when they should: the waits of Windows otherwise
 * last until its next clock tick, 15.6 ms. By timers of high resolution (Windows 10 1803 and
 * newer); where there are none, the caller waits as it always did. Each thread that waits so has a
 * timer and an event of its own until it ends. Only common/os/ includes this.
 * Threads: any; a list belongs to its condition. */
#ifndef PROCFLEET_COMMON_OS_OS_WAIT_WIN32_H
#define PROCFLEET_COMMON_OS_OS_WAIT_WIN32_H

#include <stdbool.h>
#include <stdint.h>

#include "common/os/win32.h"

#define OS_WAIT_WIN32_NS 50000000

struct os_wait_win32; /* one that waits */

/* Those who wait for one condition; zeroed = none. */
struct os_wait_win32_list {
    SRWLOCK lock; /* guards the rest */
    struct os_wait_win32 *first;
};

/* False: not in this way. */
bool os_wait_win32_sleep(int64_t ns);

/* Gives up the lock for as long as it waits, until wake or for so long. False: not in this way, the
 * lock has been held all along. */
bool os_wait_win32_for(struct os_wait_win32_list *list, SRWLOCK *held, int64_t ns);

/* Everybody in the list; nobody there costs a look. */
void os_wait_win32_wake(struct os_wait_win32_list *list);

#endif
