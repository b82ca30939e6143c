/* A listener's connections: admits them (after the authorizer's check), counts and keeps them.
 * Shared by net_server.c and net_pub.c; private to the folder.
 * Bounds:
 *   - at most `peers_max` connections; more are refused with a line in the log, but of strangers
 *     the oldest idle one goes for a new one (while it goes, there are more);
 *   - at most `same_max` of one host, whichever of its certificates they have, and of one
 *     certificate of anybody else; the oldest of them goes when one more comes, because a holder
 *     that came back must not be kept out by what it left behind.
 * Threads: safe from any; callbacks run on NNG's threads. */
#ifndef PROCFLEET_COMMON_NET_ADMISSION_H
#define PROCFLEET_COMMON_NET_ADMISSION_H

#include "common/net/net.h"
#include "common/net/net_engine.h"

#define ADMISSION_PEERS      4096u /* defaults */
#define ADMISSION_SAME       64u
#define ADMISSION_HANDSHAKES 1024u

struct admission;

struct admission_conf {
    const char *address;
    struct tls_config *tls;   /* borrowed during open */
    struct net_policy policy; /* on_fault, release, ctx and crowd are left zero */
    unsigned peers_max;
    unsigned same_max;
    unsigned handshakes_max;
    unsigned same_address_max;                                       /* 0 = no limit */
    int64_t silent_ns;                                               /* 0 = never */
    const char *(*judge)(void *ctx, const struct net_identity *who); /* may be NULL */
    void *judge_ctx;
    void (*on_peer)(void *ctx, const struct net_identity *who, bool connected); /* may be NULL */
    void *ctx;
};

/* Listens on `socket_id`, of which it takes the pipe callbacks. The socket is closed on failure.
 * Errors: ERR_INVALID, ERR_BUSY (the address is taken), ERR_ACCESS, ERR_NOMEM, ERR_IO */
NODISCARD enum err admission_open(struct admission **out, uint32_t socket_id,
                                  const struct admission_conf *conf, struct errmsg *why);

/* After nng_close of the socket; NULL is allowed. Ends the janitor, which uses NNG, while requests
 * may still be held. */
void admission_stop(struct admission *g);

/* After admission_stop, and with no request between enter and leave. NULL is allowed. */
void admission_close(struct admission *g);

unsigned admission_port(const struct admission *g);
unsigned admission_peers(struct admission *g);
void admission_stats(struct admission *g, struct net_server_stats *out);

int64_t admission_stuck_ns(const struct admission *g,
                           int64_t now_ns); /* longest pause of its thread or of NNG's */

/* Re-checks every connection; those refused are cut. */
void admission_review(struct admission *g);

/* Cuts every connection whose certificate has this name; returns how many. */
unsigned admission_disconnect(struct admission *g, const char *name);

/* One connection that was let in. Valid until admission_leave, even when it is gone by then. */
struct net_peer {
    struct net_identity who;
    uint32_t pipe_id;
    unsigned under_way; /* requests, this one included; guarded by the gate */
    int64_t heard_ns;   /* it came, asked, or was answered; monotonic */
    bool cut;           /* admission_cut was called */
    enum { PEER_COMING, PEER_INSIDE, PEER_GONE } state;
    unsigned refs;
    struct net_peer *next;          /* in the table by pipe, */
    struct net_peer *next_same;     /* in the one by certificate: newer ones first; */
    struct net_peer *newer, *older; /* and in the list of all, until the last reference is gone */
};

/* A request of `pipe_id` comes in; *under_way counts it. NULL: the connection is gone. */
struct net_peer *admission_enter(struct admission *g, uint32_t pipe_id, unsigned *under_way);
void admission_leave(struct admission *g, struct net_peer *p);

/* Ends the connection, counted, with one line in the log; false: it was done before. */
bool admission_cut(struct admission *g, struct net_peer *p, enum net_cause cause,
                   const char *reason);

#endif
