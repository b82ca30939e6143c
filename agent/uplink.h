/* Queue → collector: says Hello, pushes batches in order, one under way at a time, and drops a
 * batch only when the collector has acknowledged it. Sending a batch again is harmless: the
 * collector knows it by (host, stream, seq).
 *
 *   acknowledged, or stored already       dropped from the queue
 *   RESOURCE_EXHAUSTED                    again after retry_after
 *   unreachable, timed out, UNAVAILABLE   again, after Hello, at the next address, pauses growing
 *   the batch itself is refused           set aside: counted as quarantined, logged once per cause
 *   larger than the collector takes       the same, and whoever makes batches is told the limit
 *   we are refused (identity, role, CA)   state refused; tried again with long pauses
 *
 * Every change of state is one log line with cause and remedy.
 * Threads: one of its own; the functions below from any. */
#ifndef PROCFLEET_AGENT_UPLINK_H
#define PROCFLEET_AGENT_UPLINK_H

#include "agent/queue.h"
#include "common/net.h"
#include "common/wire_rpc.h"

#define UPLINK_ADDRESSES_MAX 8

struct uplink;

enum uplink_state {
    UPLINK_CONNECTING,  /* nothing has been decided yet */
    UPLINK_CONNECTED,   /* the last exchange succeeded */
    UPLINK_UNREACHABLE, /* no collector answers */
    UPLINK_REFUSED,     /* the collector, or we, do not accept the other */
};

struct uplink_conf {
    struct queue *queue; /* borrowed until uplink_stop has returned */
    struct net_tls *tls; /* borrowed during start */
    const char *const *addresses;
    size_t n_addresses;
    struct wire_hello hello;                /* its times are filled in at sending */
    int64_t heartbeat_ns;                   /* when nothing else was sent for so long */
    void (*limit)(void *ctx, size_t bytes); /* the largest batch the collector takes; may be NULL */
    void *ctx;
};

struct uplink_status {
    enum uplink_state state;
    int64_t since_ns; /* monotonic, of the state */
    bool drained; /* the queue was closed and is empty: everything is acknowledged or set aside */
    uint64_t acknowledged, duplicates, quarantined, resent, heartbeats;
    uint64_t bytes; /* acknowledged */
    char why[512];  /* of unreachable and refused: cause and remedy; of quarantined: the cause */
};

/* Errors: ERR_NOMEM, ERR_INVALID (an address), ERR_RANGE (their number) */
NODISCARD enum err uplink_start(struct uplink **out, const struct uplink_conf *conf,
                                struct errmsg *why);

/* Goes on until the closed queue is empty or the monotonic moment has come, which also ends a call
 * under way; then ends the thread and releases. NULL is allowed. */
void uplink_stop(struct uplink *u, int64_t until_ns);

void uplink_status(struct uplink *u, struct uplink_status *out);

#endif
