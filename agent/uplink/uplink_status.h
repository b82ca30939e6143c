/* What the uplink reports of itself. Plain data; part of uplink.h. */
#ifndef PROCFLEET_AGENT_UPLINK_UPLINK_STATUS_H
#define PROCFLEET_AGENT_UPLINK_UPLINK_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/clk.h"

#define UPLINK_ADDRESSES_MAX 8
#define UPLINK_IN_FLIGHT_MAX 4 /* of what the collector allows, as many are used */

#define UPLINK_BREAKS    16u
#define UPLINK_BREAKS_NS (600 * CLK_S)

enum uplink_state {
    UPLINK_CONNECTING,  /* nothing has been decided yet */
    UPLINK_CONNECTED,   /* the last exchange succeeded */
    UPLINK_UNREACHABLE, /* no collector answers */
    UPLINK_REFUSED,     /* the collector, or we, do not accept the other */
    UPLINK_FAILING,     /* it answers, but no batch gets through */
};

struct uplink_status {
    enum uplink_state state;
    int64_t since_ns;     /* monotonic, of the state */
    bool drained;         /* the outbox has ended: everything is acknowledged or set aside */
    uint64_t taken, held; /* out of the outbox; in hand, of them */
    uint64_t acknowledged, duplicates, quarantined, resent, heartbeats;
    uint64_t quarantined_rows, quarantined_events; /* in them; a row is a process at a tick */
    uint64_t bytes;                                /* acknowledged */
    /* Connections that broke in the last UPLINK_BREAKS_NS, UPLINK_BREAKS at most. */
    unsigned breaks;
    char why[512]; /* of all but connected: cause and remedy; of quarantined: the cause */
};

#endif
