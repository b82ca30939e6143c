/* Sockets: NNG's REQ/REP and PUB/SUB over mutual TLS, with the peer's identity, and every limit
 * set. The only door to NNG; who is believed, and what is refused, is in net_conn.c. Threads:
 * functions are safe from any thread unless said; callbacks run on the library's threads and must
 * copy, enqueue and return. Addresses are "host:port" or "[v6]:port"; "*" is every address; port 0
 * listens on any free one. net_init first (refuses another NNG version), net_fini last. */
#ifndef PROCFLEET_COMMON_NET_NET_H
#define PROCFLEET_COMMON_NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/model/model.h"

NODISCARD enum err net_init(struct errmsg *why);
void net_fini(void);

enum net_role { NET_AGENT = 1, NET_QUERY = 2, NET_SUBSCRIBE = 4, NET_ADMIN = 8 };

/* Who the peer's certificate says it is. Never what the peer claims. */
struct net_identity {
    char name[64]; /* CN: the host's name, or the user's */
    bool has_host;
    struct uuid host;                    /* from urn:procfleet:host: */
    unsigned roles;                      /* NET_* */
    char scope[128];                     /* host glob from urn:procfleet:scope:, "" = everything */
    uint8_t fingerprint[32];             /* SHA-256 of the certificate */
    uint8_t serial[20], serial_n;        /* its number, as it stands in it */
    int64_t not_before_ns, not_after_ns; /* UTC */
    char address[64];                    /* of the peer */
    uint32_t connection; /* listeners: told from the holder's others; never to be stored */
};

/* What a certificate says; trusts nothing. net_client_parse: only a client. Errors: ERR_INVALID */
NODISCARD enum err net_identity_parse(struct net_identity *out, const void *der, size_t n);
NODISCARD enum err net_client_parse(struct net_identity *out, const void *der, size_t n);

/* Certificates of one side. */
struct tls_config;
struct net_tls_conf {
    const char *ca, *cert, *key; /* PEM files */
    const char *server_name;     /* clients: the DNS name the server must carry; servers: NULL */
    /* Clients without a certificate yet: SHA-256 of the authority's certificate that the server
     * must show and be signed by; ca, cert and key are NULL then. Checked before the first byte of
     * a message leaves. */
    const uint8_t *pin;
    const char *tickets; /* servers: file of the ticket keys, see tls_ticket.h; NULL: no tickets */
    const char *crl;     /* servers: revocation list, PEM, on top of `judge`; NULL: none */
    bool lapsed; /* clients: the own certificate may be outside its time: the server decides */
};
/* Errors: ERR_NOTFOUND, ERR_ACCESS (others can read the key), ERR_TRUST (not signed by the CA,
 * expired, wrong use), ERR_INVALID, ERR_NOMEM */
NODISCARD enum err tls_config_load(struct tls_config **out, const struct net_tls_conf *conf,
                                   bool server, struct errmsg *why);
void tls_config_free(struct tls_config *t); /* NULL is allowed; sockets keep their own reference */
/* Of the own certificate, as of now; empty for a client with a pin. */
void tls_config_identity(struct tls_config *t, struct net_identity *out);
/* Reads the files again. Handshakes from now on use what they hold; connections that stand go on.
 * On failure everything stays as it was. Threads: any. Errors: those of tls_config_load */
NODISCARD enum err tls_config_reload(struct tls_config *t, struct errmsg *why);
/* Since net_init, this process. Handshakes of both sides; resumed ones took a ticket. */
struct net_tls_stats {
    uint64_t full, resumed, failed;
};
void net_tls_stats(struct net_tls_stats *out);

/* -- server: REP -- */
struct net_server;
struct net_request; /* one request; owned by whoever got it until net_reply or net_drop */

struct net_server_conf {
    const char *name; /* for logs: "ingest" */
    const char *address;
    struct tls_config *tls;    /* borrowed during start */
    unsigned roles;            /* any of these may connect */
    size_t receive_max;        /* bytes of one request */
    unsigned contexts;         /* requests under way at once */
    unsigned per_peer;         /* of one connection under way; 0 = 4. See net_request_excess */
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
 * somebody still holds stay valid and are released by net_reply or net_drop as ever. */
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
bool net_request_excess(const struct net_request *r);
const uint8_t *net_request_body(const struct net_request *r, size_t *n);
const struct net_identity *net_request_peer(const struct net_request *r); /* until net_reply */
/* Copies p, which may point into the request; releases r; late peers are cut. */
void net_reply(struct net_request *r, const void *p, size_t n);
void net_drop(struct net_request *r); /* no answer */

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
void net_sub_close(struct net_sub *s); /* nobody may be inside net_sub_receive or net_sub_wait */
/* The next message, appended to `out`. Errors: ERR_TIMEOUT, ERR_CLOSED, ERR_FULL (more than fits
 * `out`; it is lost), ERR_NOMEM */
NODISCARD enum err net_sub_receive(struct net_sub *s, int64_t timeout_ns, struct buf *out);
bool net_sub_connected(const struct net_sub *s);
/* As net_client_wait. */
NODISCARD enum err net_sub_wait(struct net_sub *s, int64_t timeout_ns, struct errmsg *why);
void net_sub_problem(struct net_sub *s, struct errmsg *out);

#endif
