/* The dialing side of a socket: connects, keeps connecting with growing pauses, and knows why it
 * fails. Shared by net_client.c and net_sub.c; private to the folder. Threads: safe from any. */
#ifndef PROCFLEET_COMMON_NET_NET_DIAL_H
#define PROCFLEET_COMMON_NET_NET_DIAL_H

#include "common/net/net_engine.h"

struct net_dial;

struct net_dial_conf {
    const char *address;
    struct tls_config *tls; /* borrowed during open */
    enum sp_framing_kind peer;
    size_t receive_max;
    int64_t reconnect_min_ns, reconnect_max_ns; /* 0 = 500 ms and 60 s */
    bool wary;                                  /* as net_client_conf's */
};

/* Starts connecting `socket_id`, of which it takes the pipe callbacks, and returns at once. The
 * socket is closed on failure. Errors: ERR_INVALID, ERR_NOMEM, ERR_IO */
NODISCARD enum err net_dial_open(struct net_dial **out, uint32_t socket_id,
                                 const struct net_dial_conf *conf, struct errmsg *why);

/* After nng_close of the socket. NULL is allowed. */
void net_dial_close(struct net_dial *d);

/* Current and later callers of net_dial_wait get ERR_CLOSED. NULL is allowed. */
void net_dial_hang_up(struct net_dial *d);

bool net_dial_connected(struct net_dial *d);
/* For net_client_*; net.h says what they do. */
uint64_t net_dial_connection(struct net_dial *d);
void net_dial_redial(struct net_dial *d);
void net_dial_useful(struct net_dial *d);
void net_dial_pause(struct net_dial *d, int64_t max_ns);
NODISCARD enum err net_dial_fault(struct net_dial *d, struct errmsg *out);
enum tls_cause net_dial_cause(struct net_dial *d);
void net_dial_watch(struct net_dial *d, void (*on_change)(void *ctx), void *ctx);

/* The last reason why connecting failed, one sentence; "" when connected or none is known. */
void net_dial_problem(struct net_dial *d, struct errmsg *out);

/* See net_client_wait. */
NODISCARD enum err net_dial_wait(struct net_dial *d, int64_t timeout_ns, struct errmsg *why);

/* Waits until *done is true, the moment has passed (ERR_TIMEOUT), or, while not connected, trust
 * was found missing (ERR_TRUST): each refusal ends the waits of that moment, once. */
NODISCARD enum err net_dial_wait_done(struct net_dial *d, const bool *done, int64_t mono_ns);
/* Sets *done and wakes. */
void net_dial_done(struct net_dial *d, bool *done);

#endif
