/* Time as int64_t nanoseconds: UTC since 1970 for stamps, the monotonic clock for intervals.
 * Conversions saturate instead of wrapping. Functions that need the time take `now_ns`; only loops
 * at the edge read a clock (os.h). */
#ifndef PROCFLEET_COMMON_BASE_CLK_H
#define PROCFLEET_COMMON_BASE_CLK_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define CLK_US                 1000LL
#define CLK_MS                 1000000LL
#define CLK_S                  1000000000LL
#define CLK_FILETIME_UNIX_DIFF 116444736000000000LL /* 1601 to 1970 in 100 ns */

/* FILETIME (100 ns since 1601 UTC) to UTC ns and back. */
int64_t clk_from_filetime(uint64_t filetime);
uint64_t clk_to_filetime(int64_t utc_ns);

/* ticks × CLK_S ÷ frequency without overflow, rounded down; frequency 0 returns 0. */
int64_t clk_ticks_to_ns(int64_t ticks, uint64_t frequency);

/* Saturating sum and difference. */
static inline int64_t clk_add(int64_t a, int64_t b)
{
    int64_t sum;

    return !__builtin_add_overflow(a, b, &sum) ? sum : b > 0 ? INT64_MAX : INT64_MIN;
}

static inline int64_t clk_sub(int64_t a, int64_t b)
{
    int64_t difference;

    return !__builtin_sub_overflow(a, b, &difference) ? difference : b > 0 ? INT64_MIN : INT64_MAX;
}

/* A span that somebody says; 0 of nonsense. */
static inline uint64_t clk_span(int64_t ns)
{
    return ns > 0 ? (uint64_t)ns : 0;
}

/* "2026-11-21T09:39:00.123456Z" into text (at least CLK_TEXT bytes); digits = 0, 3, 6 or 9 of the
 * fraction. */
#define CLK_TEXT 40
const char *clk_format_utc(char *text, size_t size, int64_t utc_ns, int digits);

/* A moment: RFC 3339; the latest time of day in UTC that is not behind now ("14:02", "14:02:05.5");
 * a span before now ("5m", "90s", "1h30m", "2d"); or "now".
 * Errors: ERR_INVALID */
NODISCARD enum err clk_parse_when(int64_t *utc_ns, const char *text, int64_t now_ns);

/* A span: digits with ns, us, ms, s, m/min, h, d, several may follow each other.
 * Errors: ERR_INVALID, ERR_RANGE */
NODISCARD enum err clk_parse_span(int64_t *ns, const char *text);

#endif
