/* A clock for intervals that stands still while the machine sleeps. (On Windows os_mono_ns goes on
 * meanwhile.) Threads: any. */
#ifndef PROCFLEET_COMMON_OS_OS_AWAKE_H
#define PROCFLEET_COMMON_OS_OS_AWAKE_H

#include <stdint.h>

int64_t os_awake_ns(void);

#endif
