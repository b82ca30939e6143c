/* Moments as people write them, in UTC or in the machine's own zone. Threads: one (the C library's
 * calendar). */
#ifndef PROCFLEET_COLLECTOR_CLI_TIMES_H
#define PROCFLEET_COLLECTOR_CLI_TIMES_H

#include <stdbool.h>

#include "common/base/clk.h"

/* "14:02[:05]" (the latest that is not behind now), "2026-11-23 02:00[:05]", "2026-11-23", "today",
 * "yesterday", "mon" (the latest such day that is not behind now), each with a time of day behind
 * it: "yesterday 14:00"; and what clk_parse_when takes, which is UTC.
 * local  in the zone of the machine: a time that comes twice or never there, at the ends of summer
 *        time, is refused, and why names both choices
 * Errors: ERR_USAGE (why says) */
NODISCARD enum err times_parse(int64_t *utc_ns, const char *text, int64_t now_ns, bool local,
                               struct errmsg *why);

/* "2026-11-23T02:00:00.123+01:00", as clk_format_utc in the zone of the machine. */
const char *times_format_local(char *text, size_t size, int64_t utc_ns, int digits);

#endif
