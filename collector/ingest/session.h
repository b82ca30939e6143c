/* Between the ingest listener and the store: who a host is, what of its batches is taken, and when
 * it is told so. A Push is answered only after the store made the batch durable.
 *
 *   OK, duplicate or not   stored; the sender may forget it
 *   INVALID_ARGUMENT       not a batch; never send it again
 *   PERMISSION_DENIED      host or name are not those of the certificate
 *   ALREADY_EXISTS         its number is stored with other content: two machines are one host, or
 *                          numbers were given twice; never send it again, it is lost here
 *   OUT_OF_RANGE           older than the store's age; never send it again
 *   FAILED_PRECONDITION    detail clone: another machine is this host (clones.h); enrol anew
 *   RESOURCE_EXHAUSTED     detail elsewhere: hosts_max hosts are here; another collector may have
 *                          room
 *   RESOURCE_EXHAUSTED     too much at once, this very batch is being written, or the boot before
 *                          this one may still be alive: retry_after
 *   UNAVAILABLE            the store takes nothing now: retry_after
 *
 * No batch is refused for its clock alone: age is counted by the collector's clock, as far as the
 * host's is known (host_clock.h), by the host's else; stamps of the future are stored as they are
 * and counted.
 *
 * Bounds:  hosts_max hosts; one unheard of for ten minutes and not connected gives place, and so
 *          does one that has only connected: agents that know several collectors do.
 * Threads: any; one lock, held across no callback. */
#ifndef PROCFLEET_COLLECTOR_INGEST_SESSION_H
#define PROCFLEET_COLLECTOR_INGEST_SESSION_H

#include "collector/ingest/forgotten.h"
#include "collector/ingest/session_hosts.h"
#include "collector/store/store.h"
#include "common/model/stats.h"
#include "common/rpc/rpc.h"

struct session;

struct session_conf {
    struct store *store; /* borrowed; must still be open in session_destroy */
    uint32_t hosts_max;
    uint32_t max_message;   /* bytes of one Push payload, told in Hello */
    uint32_t max_in_flight; /* told in Hello; the listener enforces it */
    int64_t accept_age_ns;  /* the store's */
    int64_t future_max_ns;  /* 5 min; stamps further ahead are counted */
    struct forgotten
        *forgotten; /* a host that calls is forgotten no more; borrowed; NULL: none is */
    /* What a host's agent told of it, checked and encoded (wire_inventory.h). May be NULL. */
    void (*facts)(void *ctx, const struct uuid *host, const void *p, size_t n, int64_t now_ns);
    void *facts_ctx;
    int64_t (*utc_ns)(void); /* the clocks; NULL: the system's */
    int64_t (*mono_ns)(void);
};

/* Errors: ERR_NOMEM */
NODISCARD enum err session_create(struct session **out, const struct session_conf *conf);

/* Waits for the batches under way; no call may come any more. NULL is allowed. */
void session_destroy(struct session *s);

/* The methods of the ingest listener: Hello, Push, Heartbeat, for role agent. */
#define SESSION_METHODS 3
void session_methods(struct session *s, struct rpc_method methods[SESSION_METHODS]);

/* For rpc_server_conf.on_peer, with the session as peer_ctx: keeps `connected`. */
void session_peer(void *session, const struct net_identity *who, bool connected);

/* False: not heard of since the collector started. */
bool session_host_state(struct session *s, const struct uuid *host, struct session_host *out);

#define SESSION_STATS(X)                                                                      \
    X(COUNTER, hellos, "procfleet_ingest_hellos_total", "Agents that introduced themselves.") \
    X(COUNTER, heartbeats, "procfleet_ingest_heartbeats_total", "Heartbeats of agents.")      \
    X(COUNTER, pushes, "procfleet_ingest_pushes_total", "Batches that agents sent.")          \
    X(COUNTER, stored, "procfleet_ingest_stored_total", "Batches stored and acknowledged.")   \
    X(COUNTER, duplicates, "procfleet_ingest_duplicates_total",                               \
      "Batches acknowledged once more: they were stored before.")                             \
    X(COUNTER, corrupt, "procfleet_ingest_corrupt_total",                                     \
      "Batches refused for good: they cannot be read.")                                       \
    X(COUNTER, spoofed, "procfleet_ingest_spoofed_total",                                     \
      "Batches refused for good: of another host than the certificate's.")                    \
    X(COUNTER, too_old, "procfleet_ingest_too_old_total",                                     \
      "Batches refused for good: older than accept_age.")                                     \
    X(COUNTER, conflicts, "procfleet_ingest_conflicts_total",                                 \
      "Batches refused for good: their number is taken by another one.")                      \
    X(COUNTER, clones, "procfleet_ingest_clones_total",                                       \
      "Calls of machines that claim to be another one.")                                      \
    X(COUNTER, overloaded, "procfleet_ingest_overloaded_total",                               \
      "Batches to be sent again: too much at once.")                                          \
    X(COUNTER, unavailable, "procfleet_ingest_unavailable_total",                             \
      "Batches to be sent again: the store took nothing.")                                    \
    X(COUNTER, waiting, "procfleet_ingest_waiting_total",                                     \
      "Batches to be sent again: an older boot of the host may still be alive.")              \
    X(COUNTER, future, "procfleet_ingest_future_total",                                       \
      "Batches stored whose stamps lie ahead of the collector's clock.")                      \
    X(GAUGE, hosts, "procfleet_ingest_hosts", "Hosts heard of since the start.")

struct session_stats {
    SESSION_STATS(STATS_MEMBER)
};
void session_stats(struct session *s, struct session_stats *out);

#endif
