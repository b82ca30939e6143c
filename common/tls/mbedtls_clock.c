/* What mbedTLS measures the age of tickets with (MBEDTLS_PLATFORM_MS_TIME_ALT), as it does on
 * Windows by itself. Its own clock for Linux begins with the system, and tickets outlive that. Part
 * of mbedcrypto. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include <mbedtls/platform_time.h>
#include <time.h>

mbedtls_ms_time_t mbedtls_ms_time(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail */
    return (mbedtls_ms_time_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
