/* Stamps and spans of the session's clock inside payloads, as ns. */
#ifndef PROCFLEET_AGENT_DECODE_DECODE_TICKS_H
#define PROCFLEET_AGENT_DECODE_DECODE_TICKS_H

#include "agent/source/source.h"
#include "common/base/clk.h"

/* A span; 0 where it cannot be one. */
static inline int64_t decode_span_ns(const struct raw_event *raw, uint64_t ticks)
{
    return ticks <= INT64_MAX ? clk_ticks_to_ns((int64_t)ticks, raw->frequency) : 0;
}

/* From `begin` to the record's own time; 0 where `begin` is missing or later than that. */
static inline int64_t decode_took_ns(const struct raw_event *raw, uint64_t begin)
{
    if (begin == 0 || raw->ticks < 0 || begin > (uint64_t)raw->ticks) {
        return 0;
    }
    return decode_span_ns(raw, (uint64_t)raw->ticks - begin);
}

#endif
