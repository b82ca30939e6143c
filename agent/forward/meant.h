/* What is meant of each provider that is not meant whole, in place of what the system was asked: it
 * may have refused, and its kernel filters nothing. Bounds: MEANT_MAX providers, as many as can be
 * enabled; what is beyond is meant whole. Threads: one owner. */
#ifndef PROCFLEET_AGENT_FORWARD_MEANT_H
#define PROCFLEET_AGENT_FORWARD_MEANT_H

#include "agent/source/etw_provider.h"

#define MEANT_MAX 17

struct meant {
    struct source_provider rows[MEANT_MAX];
    size_t n;
};

void meant_init(struct meant *m, const struct source_provider *rows, size_t n);

/* From now on, instead of what was meant before. Copied. */
void meant_put(struct meant *m, const struct source_provider *p);

/* NULL: all of it. Valid until the next put. */
const struct source_provider *meant_of(const struct meant *m, const uint8_t guid[16]);

#endif
