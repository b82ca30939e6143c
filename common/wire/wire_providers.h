/* How much came of providers' events, as answers carry it. Plain data, coded in
 * wire_answer.c. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_PROVIDERS_H
#define PROCFLEET_COMMON_WIRE_WIRE_PROVIDERS_H

#include "common/model/model.h"

struct wire_provider_sum {
    uint32_t host;                 /* index into the answer's hosts; by type: of the newest event */
    uint32_t hosts;                /* that it came from */
    const struct event_type *type; /* by provider: its name and GUID alone */
    uint64_t events, value_bytes;
    uint64_t redacted, cut;    /* events of which something was hidden on the host, had no room */
    int64_t first_ns, last_ns; /* by the host's clock */
};

struct wire_providers {
    size_t n; /* at most WIRE_ROWS_MAX */
    const struct wire_provider_sum *list;
    uint64_t left_out; /* events of further ones */
};

#endif
