/* Outbox → collector: says Hello, pushes batches as they come, as many under way at a time as the
 * collector allows, and drops a batch only when the collector has acknowledged it. Sending a batch
 * again is harmless: the collector knows it by (host, stream, seq).
 *
 *   acknowledged, or stored already       done with
 *   RESOURCE_EXHAUSTED, UNAVAILABLE       again after retry_after, or a little later
 *   Hello answered "elsewhere": full      Hello at once at the next address; after all, as busy
 *   unreachable, timed out                again, after Hello, at the next address, pauses growing
 *   the collector fails inside            the same
 *   the batch itself is refused           set aside: kept with the reason where the outbox has a
 *                                         place for it, counted, logged once per cause
 *   larger than the collector takes       the same, and whoever makes batches is told the limit
 *   the exchange breaks under this batch  set aside for a while: eight times over two minutes,
 *                                         alone under way, each time right behind one that was
 *                                         acknowledged (uplink_push.c)
 *   under each of them                    again and again, pauses growing: state failing
 *   Hello is answered as busy             again after retry_after; failing from the third on
 *   we are refused (identity, role, CA)   state refused; tried again with long pauses, up to a
 *                                         minute, at once after uplink_refresh
 *
 * Away from the first address, Hello is said there again after ten minutes or more.
 *
 * Pauses begin small again when a batch was acknowledged: connections and Hellos that lead to
 * nothing do not count. All pauses have chance in them. Every change of state is one log line with
 * cause and remedy. Threads: one of its own; the functions below from any. */
#ifndef PROCFLEET_AGENT_UPLINK_UPLINK_H
#define PROCFLEET_AGENT_UPLINK_UPLINK_H

#include "agent/spool/outbox.h"
#include "agent/uplink/uplink_status.h"
#include "common/net/net.h"
#include "common/rpc/rpc.h"
#include "common/wire/wire_rpc.h"

struct uplink;

struct uplink_conf {
    struct outbox outbox;   /* borrowed until uplink_stop has returned */
    struct tls_config *tls; /* borrowed during start */
    const char *const *addresses;
    size_t n_addresses;
    bool spread; /* the first address is each host's own choice: a fleet divides evenly */
    struct wire_hello hello; /* its times and stream are filled in at sending */
    int64_t heartbeat_ns;    /* when nothing else was sent for so long */
    int64_t call_ns;         /* an answer takes no longer; 0 = 10 s */
    int64_t pause_max_ns;    /* between tries; 0 = 30 s */
    int64_t home_ns;         /* before the first address is tried again; 0 = 10 min */
    int64_t doubt_ns;        /* before a batch that breaks exchanges is set aside; 0 = 2 min */
    void (*limit)(void *ctx, size_t bytes); /* the largest batch the collector takes; may be NULL */
    /* At each Hello: whether it keeps events of providers. May be NULL. */
    void (*events)(void *ctx, bool kept);
    int64_t (*utc_ns)(void *ctx); /* the host's clock; NULL: os_utc_ns */
    /* Before each Hello and Heartbeat, on the uplink's thread: the bytes of what the host is known
     * by (wire_inventory.h), at most WIRE_FACTS_MAX. A Heartbeat has them when they have changed
     * since the call before. May be NULL. */
    size_t (*facts)(void *ctx, uint8_t *out, bool *changed);
    void *ctx;
};

/* Errors: ERR_NOMEM, ERR_INVALID (an address), ERR_RANGE (their number) */
NODISCARD enum err uplink_start(struct uplink **out, const struct uplink_conf *conf,
                                struct errmsg *why);

/* Goes on until the outbox has ended or the monotonic moment has come, which also ends a call
 * under way; then ends the thread and releases. NULL is allowed. */
void uplink_stop(struct uplink *u, int64_t until_ns);

void uplink_status(struct uplink *u, struct uplink_status *out);

/* The certificate has changed: connects anew when nothing is under way. Threads: any. */
void uplink_refresh(struct uplink *u);

/* One call beside the batches, to the collector in use; waits for the answer. Threads: any.
 * Errors: ERR_UNREACHABLE (not connected), those of rpc_client_call */
NODISCARD enum err uplink_call(struct uplink *u, const char *method, const void *p, size_t n,
                               int64_t timeout_ns, struct buf *reply, struct rpc_result *result);

#endif
