/* Words behind a number, in sentences for people. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_BASE_PLURAL_H
#define PROCFLEET_COMMON_BASE_PLURAL_H

#include <stdint.h>

/* `one` for 1, else `many`: plural(n, "host is", "hosts are"). */
static inline const char *plural(uint64_t n, const char *one, const char *many)
{
    return n == 1 ? one : many;
}

#endif
