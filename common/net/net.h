/* Sockets: NNG's REQ/REP and PUB/SUB over mutual TLS, with the peer's identity, and every limit
 * set. The only door to NNG; who is believed, and what is refused, is in net_engine.c. Threads:
 * functions are safe from any thread unless said; callbacks run on the library's threads and must
 * copy, enqueue and return. Addresses are "host:port" or "[v6]:port"; "*" is every address; port 0
 * listens on any free one. net_init first (refuses another NNG version), net_fini last. */
#ifndef PROCFLEET_COMMON_NET_NET_H
#define PROCFLEET_COMMON_NET_NET_H

#include "common/base/buf.h"
#include "common/model/model.h"
#include "common/tls/tls_config.h"

NODISCARD enum err net_init(struct errmsg *why);
void net_fini(void);

/* -- server: REP -- */
struct net_server;
/* One request; owned by the receiver until net_server_reply or net_server_drop. */
struct net_request;

struct net_server_conf {
    const char *name; /* for logs: "ingest" */
    const char *address;
    struct tls_config *tls;    /* borrowed during start */
    unsigned roles;            /* any of these may connect */
    size_t receive_max;        /* bytes of one request */
    unsigned contexts;         /* requests under way at once */
    unsigned per_peer;         /* of one connection under way; 0 = 4. See net_server_excess */
    unsigned peers_max;        /* connections; 0 = 4096 */
    unsigned same_max;         /* of one holder; the oldest goes for a new one; 0 = 64 */
    unsigned handshakes_max;   /* connections that are no peer's yet; 0 = 1024; conn_limits.h */
    unsigned same_address_max; /* connections from one address, handshakes included; 0 = no limit */
    int64_t reply_timeout_ns;  /* for a peer to take a reply; 0 = 5 s */
    int64_t silent_ns;         /* a connection without a request for so long is closed; 0 = never */
    /* No certificate is asked for: who is empty but for address and connection; roles is 0. */
    bool strangers;
    /* Why this holder may not be here (words for the log, valid for ever), or NULL: asked when a
     * connection comes and for all of them by net_server_review; must not block. May be NULL. */
    const char *(*judge)(void *ctx, const struct net_identity *who);
    void *judge_ctx;
    void (*on_request)(void *ctx, struct net_request *r);                       /* must not block */
    void (*on_peer)(void *ctx, const struct net_identity *who, bool connected); /* may be NULL */
    void *ctx;
};

NODISCARD enum err net_server_start(struct net_server **out, const struct net_server_conf *conf,
                                    struct errmsg *why);
/* Refuses new work, closes the connections, waits for callbacks; NULL is allowed. Requests that
 * are still held stay valid and are released by net_server_reply or net_server_drop. */
void net_server_stop(struct net_server *s);
unsigned net_server_port(const struct net_server *s);

/* Asks `judge` about every connection and closes those that may stay no longer. Certificates that
 * expire meanwhile need no call: their connections are closed within a second. */
void net_server_review(struct net_server *s);
/* Ends the connections of certificates of this name, which may come again. Gives how many. */
unsigned net_server_disconnect(struct net_server *s, const char *name);

struct net_server_stats {
    uint64_t admitted, peers; /* peers: now */
    /* refused or closed, by cause */
    uint64_t handshake, role, judged, expired, crowded, silent, late_reply, oversize;
};
void net_server_stats(struct net_server *s, struct net_server_stats *out);
int64_t net_server_stuck_ns(const struct net_server *s, int64_t now_ns); /* its threads and NNG's */

/* More than `per_peer` of its connection are under way: answer at once that it must wait. Beyond
 * twice as many the connection is cut instead. */
bool net_server_excess(const struct net_request *r);
const uint8_t *net_server_body(const struct net_request *r, size_t *n);
const struct net_identity *
net_server_peer(const struct net_request *r); /* until net_server_reply */
/* Copies p, which may point into the request; releases r; late peers are cut. */
void net_server_reply(struct net_request *r, const void *p, size_t n);
void net_server_drop(struct net_request *r); /* no answer */

/* -- client: REQ -- */
struct net_client;
struct net_client_conf {
    const char *address;
    struct tls_config *tls;
    size_t receive_max;
    int64_t reconnect_min_ns, reconnect_max_ns; /* growing pauses; wary: they begin small again */
    bool wary;                                  /* after net_client_useful, not a connection */
};
/* Starts connecting and returns at once. */
NODISCARD enum err net_client_open(struct net_client **out, const struct net_client_conf *conf,
                                   struct errmsg *why);
/* Calls and waits under way, and later ones, end with ERR_CLOSED; it must still be closed. */
void net_client_hang_up(struct net_client *c);
void net_client_close(struct net_client *c); /* hangs up first; NULL is allowed */
/* One request, one reply; several threads may call at once. The reply is appended to `reply`.
 * Errors: ERR_TIMEOUT (also while not connected), ERR_UNREACHABLE (the connection was lost under
 * the request; it may or may not have been handled), ERR_TRUST (the server was refused, or refused
 * us: net_client_problem says why), ERR_CLOSED, ERR_FULL (more than fits `reply`), ERR_NOMEM */
NODISCARD enum err net_client_call(struct net_client *c, const void *p, size_t n,
                                   int64_t timeout_ns, struct buf *reply);
bool net_client_connected(const struct net_client *c);
/* Waits for the connection; ends at the first failed attempt. Errors: ERR_TRUST, ERR_UNREACHABLE,
 * ERR_FULL (the server sent more than receive_max; why says), ERR_TIMEOUT, ERR_CLOSED */
NODISCARD enum err net_client_wait(struct net_client *c, int64_t timeout_ns, struct errmsg *why);
void net_client_problem(struct net_client *c, struct errmsg *out); /* of connecting; "" = none */

/* -- client, for callers that must not wait. A call belongs to the caller that began it -- */
struct net_call;

/* Begins one request and returns at once; p is copied. `on_end` is called once, on a thread of the
 * library, when net_client_finish would no longer wait: it must only wake somebody. It may come
 * before this returns. A request that finds no connection waits for one. Errors: ERR_CLOSED (hung
 * up), ERR_NOMEM */
NODISCARD enum err net_client_begin(struct net_call **out, struct net_client *c, const void *p,
                                    size_t n, int64_t timeout_ns, void (*on_end)(void *ctx),
                                    void *ctx);
bool net_client_ended(const struct net_call *call);
/* Waits for the end, appends the reply and releases the call; until then net_client_close waits.
 * ended_ns: monotonic, when it ended; may be NULL.
 * Errors: ERR_TIMEOUT, ERR_UNREACHABLE (the connection was lost under the request), ERR_CLOSED
 * (hung up), ERR_FULL (more than fits `reply`), ERR_NOMEM */
NODISCARD enum err net_client_finish(struct net_call *call, struct buf *reply, int64_t *ended_ns);

/* Which connection stands: 1, 2, ... as they come; 0 while there is none. */
uint64_t net_client_connection(const struct net_client *c);
/* Gives up the connection that stands, or the pause between two attempts, and dials anew. */
void net_client_redial(struct net_client *c);
/* The connection that stands was worth making: see net_client_conf.wary. Cheap. */
void net_client_useful(struct net_client *c);
/* From the next pause on they grow up to `max_ns`; a connection lets them begin small again. Until
 * net_client_redial finds none, then what the client was opened with holds. */
void net_client_pause(struct net_client *c, int64_t max_ns);

/* Why TLS failed last, as far as no connection has stood since: ERR_TRUST or another error, with
 * its sentence; ERR_OK when nothing is known. Cheap, unlike net_client_problem. */
NODISCARD enum err net_client_fault(struct net_client *c, struct errmsg *out);
enum tls_cause net_client_cause(const struct net_client *c); /* of the newest ERR_TRUST */
/* From now on `on_change` is called when the connection has come or gone or TLS has failed, on a
 * thread of the library and under a lock of the client: it must only wake somebody. NULL ends it;
 * after that it is not called any more. */
void net_client_watch(struct net_client *c, void (*on_change)(void *ctx), void *ctx);

/* -- event stream: PUB and SUB -- */
struct net_pub;
struct net_pub_conf {
    const char *address;
    struct tls_config *tls;
    unsigned roles;
    bool refuse_scoped; /* certificates with a scope are refused: a topic is no access control */
    unsigned queue; /* a subscriber's, 1 to 8192 groups as net_pub.c makes them; oldest go first */
    unsigned peers_max;      /* connections; 0 = 4096 */
    unsigned handshakes_max; /* connections that are no peer's yet; 0 = 1024 */
    void (*on_peer)(void *ctx, const struct net_identity *who, bool connected);
    void *ctx;
    const char *(*judge)(void *ctx, const struct net_identity *who); /* as net_server_conf's */
    void *judge_ctx;
};
NODISCARD enum err net_pub_start(struct net_pub **out, const struct net_pub_conf *conf,
                                 struct errmsg *why);
void net_pub_stop(struct net_pub *p);
unsigned net_pub_port(const struct net_pub *p);
void net_pub_review(struct net_pub *p); /* as net_server_review; the next: as its _disconnect */
unsigned net_pub_disconnect(struct net_pub *p, const char *name);
unsigned net_pub_subscribers(const struct net_pub *p);
int64_t net_pub_stuck_ns(const struct net_pub *p, int64_t now_ns); /* as net_server_stuck_ns */
void net_pub_stats(struct net_pub *p, struct net_server_stats *out);
void net_pub_send(struct net_pub *p, const struct str *list, size_t n); /* never blocks */

struct net_sub;
struct net_sub_conf {
    const char *address;
    struct tls_config *tls;
    size_t receive_max;
    const void *topic; /* prefix of the wanted messages */
    size_t topic_n;
};
NODISCARD enum err net_sub_open(struct net_sub **out, const struct net_sub_conf *conf,
                                struct errmsg *why);
void net_sub_close(struct net_sub *s); /* no thread may be inside net_sub_receive or net_sub_wait */
/* The next message, appended to `out`. Errors: ERR_TIMEOUT, ERR_CLOSED, ERR_FULL (more than fits
 * `out`; it is lost), ERR_NOMEM */
NODISCARD enum err net_sub_receive(struct net_sub *s, int64_t timeout_ns, struct buf *out);
bool net_sub_connected(const struct net_sub *s);
/* As net_client_wait. */
NODISCARD enum err net_sub_wait(struct net_sub *s, int64_t timeout_ns, struct errmsg *why);
enum tls_cause net_sub_cause(const struct net_sub *s); /* as net_client_cause */

/* -- for doctors -- */

/* Whether `address` can be listened at: binds for a moment, accepts nothing.
 * Errors: ERR_BUSY (the address is in use), ERR_INVALID (no address, or none of this machine),
 * ERR_ACCESS (a port below 1024, and no right to it), ERR_NOMEM, ERR_IO */
NODISCARD enum err net_probe_listen(const char *address, struct errmsg *why);

/* Asks a server of this machine over plain HTTP. *status: what it answers; text: the body, cut to
 * size, without line breaks at its end. `*` as the address's host is 127.0.0.1.
 * Errors: ERR_INVALID (no address), ERR_TIMEOUT, ERR_CORRUPT (no HTTP), those of connecting,
 * ERR_NOMEM */
NODISCARD enum err net_probe_get(unsigned *status, char *text, size_t size, const char *address,
                                 const char *path, int64_t timeout_ns, struct errmsg *why);

#endif
