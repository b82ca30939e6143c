/* The TLS engine that we give to NNG, and the bridge from a pipe to its peer's identity. Private to
 * the folder but for the counters; the essay is in net_engine.c. */
#ifndef PROCFLEET_COMMON_NET_NET_ENGINE_H
#define PROCFLEET_COMMON_NET_NET_ENGINE_H

#include "common/net/authorizer.h"
#include "common/net/conn_limits.h"
#include "common/net/sp_framing.h"
#include "common/tls/tls_config.h"

struct nng_tls_config;

/* What a listener or a dialer asks of its connections. */
struct net_policy {
    enum sp_framing_kind peer; /* what the other side must be */
    size_t message_max;        /* bytes of one message from it, 0 = it must be silent */
    const char *name;          /* listeners: for the log; copied, at most 31 bytes */
    unsigned roles;            /* listeners: NET_* that may come in */
    bool refuse_scoped;        /* listeners */
    bool strangers; /* listeners: no certificate is asked for, the identity stays empty */
    struct conn_limits *crowd; /* listeners: those that are connected; configurations hold it */
    struct authorizer *judge;  /* listeners: asked in the handshake, where the peer hears of it, and
                                before a session is taken up; may be NULL; configurations hold it */
    /* Dialers: told why a connection failed; called with NNG's locks held: copy and return.
     * ERR_CLOSED: it ended when the server had seen our certificate, without a reason: refused, or
     * a server that just went away. */
    void (*on_fault)(void *ctx, enum err e, enum tls_cause cause, const char *text);
    /* Called once when no connection is left that could call on_fault. */
    void (*release)(void *ctx);
    void *ctx;
};

/* After NNG was initialised, before any other function here.
 * Errors: ERR_VERSION (another NNG than the one this is written for) */
NODISCARD enum err net_engine_register(struct errmsg *why);

/* How many configurations there are: none when everything that connects or listens, and every
 * connection, has been released. */
unsigned net_engine_live(void);

/* A configuration to set on one listener or dialer; nng_tls_config_free gives it back. Takes
 * `policy->ctx` only on ERR_OK; keeps its own reference to `tls`. Errors: ERR_NOMEM */
NODISCARD enum err net_engine_config(struct nng_tls_config **out, struct tls_config *tls,
                                     const struct net_policy *policy);

/* Who is at the other end of a pipe. From a pipe callback: it counts as the moment of admission.
 * Errors: ERR_CLOSED */
NODISCARD enum err net_engine_identity(struct net_identity *out, uint32_t pipe_id);

/* Handshakes of both sides since net_init, this process; resumed ones took a ticket. */
struct net_engine_stats {
    uint64_t full, resumed, failed;
};
void net_engine_stats(struct net_engine_stats *out);

#endif
