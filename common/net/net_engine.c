/* NNG 1.5.2's own engine reports only whether a peer was verified. Ours reports who it is, enforces
 * our rules, and says why it refused.
 *
 * Identity: to hand it over, net_engine_identity asks NNG for the pipe's option TLS_VERIFIED; NNG
 * runs the connection's `verified` on the calling thread, which copies the identity to where a
 * thread-local pointer says. No private symbol is used, and nothing is matched by address.
 *
 * Configuration: NNG allocates ours and calls config_init; what to put in comes through another
 * thread-local pointer, set around nng_tls_config_alloc. The configurations that NNG makes for
 * itself (every listener and dialer starts with one) stay empty, and an empty one refuses all
 * connections: forgetting to set ours cannot open a door.
 *
 * One connection:
 *
 *   bytes → mbedTLS → plain bytes → meter → NNG
 *
 * The verification callback reads the peer's certificate into the connection; of a session that is
 * taken up again, the certificate that came with its ticket.
 *
 * The meter follows SP's framing (8 bytes of greeting, then length and body), because NNG drops a
 * peer that speaks another protocol or declares 16 GiB without telling anybody.
 *
 * Refusals: a listener logs one line, a dialer returns one sentence to its owner. `told` keeps it
 * at one. Role, scope and the judge are asked during the handshake, where the peer still hears the
 * reason as an alert, and again on admission (admission.c), which is what counts.
 *
 * In TLS 1.3 a client is through with its handshake before the server has seen its certificate. A
 * refusal then comes instead of the first bytes of SP, and until those have come the connection is
 * on trial: it is not counted, and its end is told like that of a handshake. NNG adds a pipe only
 * after SP's greeting, so nobody above takes it for connected.
 *
 * Callbacks run with NNG's lock of the connection held: short, and no call into NNG but
 * nng_tls_engine_send and _recv. The one exception is conn_init, which runs before the connection
 * is shared and asks for the peer's address: the context NNG passes is the stream itself in this
 * version, the only one that net_engine_register accepts. */
#include "common/net/net_engine.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <mbedtls/ssl.h>
#include <mbedtls/x509_crt.h>
#include <nng/nng.h>
#include <nng/supplemental/tls/engine.h>

#include "common/log/log.h"
#include "common/net/net_nng.h"
#include "common/tls/tls_cert.h"
#include "common/tls/tls_context.h"
#include "common/tls/tls_flight.h"
#include "common/tls/tls_session.h"

#define NNG_KNOWN    "1.5.2"
#define ALERT_RECORD 21 /* TLS record types */
#define HELLO_RECORD 22
#define OUT_OF_TIME  ((uint32_t)(MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE))

/* What is behind a listener's or a dialer's configuration. */
struct nng_tls_engine_config {
    struct tls_config *tls; /* NULL: refuses everything */
    struct net_policy policy;
    char name[32];
    struct tls_session *session; /* dialers that resume */
};

enum conn_state {
    CONN_NONE,
    CONN_SHAKING,
    CONN_TRIAL, /* a client of TLS 1.3 that has not heard yet whether the server takes it */
    CONN_UP,
    CONN_PARTING,
    CONN_FAILED
};

struct nng_tls_engine_conn {
    void *stream;
    struct nng_tls_engine_config *cfg;
    struct tls_context *rules; /* those it began with */
    mbedtls_ssl_context ssl;
    enum conn_state state;
    bool offered;  /* dialers: the last session was, and what became of it is not known yet */
    bool resumed;  /* the identity is a session's, not that of a certificate just verified */
    bool heard;    /* anything came from the peer */
    bool garbage;  /* and it was not TLS */
    bool admitted; /* its identity was asked for */
    bool told;
    uint32_t above;     /* what was found wrong with the chain above the peer's certificate */
    char holder[64];    /* whose certificate is good but for its time or use; for the log */
    char claimed[64];   /* the name in a certificate that no authority signed; for the log */
    const char *denied; /* why verification failed beyond mbedTLS's own reasons */
    enum net_cause cause;
    struct tls_flight parting;
    struct conn_limits_member member;
    struct net_identity who;
    struct sp_framing meter;
};

/* All connections since net_init. */
static struct {
    _Atomic uint64_t full, resumed, failed;
} stats;

/* Where conn_verified copies the peer's identity on this thread; NULL: nowhere. */
static _Thread_local struct net_identity *wanted;

void net_engine_stats(struct net_engine_stats *out)
{
    out->full = atomic_load(&stats.full);
    out->resumed = atomic_load(&stats.resumed);
    out->failed = atomic_load(&stats.failed);
}

/* -- refusals -- */

/* The alert that MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE is about; mbedTLS 3.6 has no public way. */
static unsigned char conn_alert(const nng_tls_engine_conn *c)
{
    return c->ssl.MBEDTLS_PRIVATE(in_msg)[1];
}

static bool conn_verify_failed(int r)
{
    return r == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED || r == MBEDTLS_ERR_SSL_BAD_CERTIFICATE;
}

/* Words for the log. */
static const char *conn_failure_text(const nng_tls_engine_conn *c, int r)
{
    if (c->denied) {
        return c->denied;
    }
    if (c->garbage) {
        return "garbage instead of TLS";
    }
    if (conn_verify_failed(r)) {
        return tls_cert_flags_text(mbedtls_ssl_get_verify_result(&c->ssl));
    }
    switch (r) {
    case MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE:
        return "no certificate";
    case MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE:
        return "the peer refused us";
    case MBEDTLS_ERR_SSL_BAD_PROTOCOL_VERSION:
        return "other TLS version than 1.2 and 1.3";
    case MBEDTLS_ERR_SSL_HANDSHAKE_FAILURE:
        return "no cipher in common";
    default:
        return "TLS handshake failed";
    }
}

static void conn_log_refused(nng_tls_engine_conn *c, const char *reason, const char *more)
{
    bool known = c->who.name[0] || c->holder[0] || !c->claimed[0];
    const char *name = c->who.name[0] ? c->who.name : known ? c->holder : c->claimed;
    char text[400], peer[80], words[160];

    /* The listener is the module, so that the log's limit counts each one for itself. */
    log_line(LOG_WARN, c->cfg->name, "refused", "listener=%s peer=%s %s=%s reason=%s%s",
             c->cfg->name, log_str(peer, sizeof peer, c->who.address), known ? "name" : "claimed",
             known ? log_str(text, sizeof text, name) : log_quote(text, sizeof text, name),
             log_str(words, sizeof words, reason), more);
}

/* Reports a failure, the first one of a connection only: a listener's in the log, ... */
static void conn_tell_log(nng_tls_engine_conn *c, const char *reason, const char *more)
{
    if (!c->told) {
        c->told = true;
        conn_limits_count(c->cfg->policy.crowd, c->cause);
        conn_log_refused(c, reason, more);
    }
}

/* ... a dialer's to its owner. */
static void conn_tell_owner(nng_tls_engine_conn *c, enum err e, enum tls_cause cause,
                            const char *text)
{
    if (!c->told) {
        c->told = true;
        if (c->cfg->policy.on_fault) {
            c->cfg->policy.on_fault(c->cfg->policy.ctx, e, cause, text);
        }
    }
}

/* Whether nothing is in common but for a client that offers a session: mbedTLS does so in the
 * session's version only. The next attempt is without, and its end is the one to report. */
static bool conn_session_outlived(const nng_tls_engine_conn *c, int r)
{
    return c->offered && r == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE &&
           (conn_alert(c) == MBEDTLS_SSL_ALERT_MSG_PROTOCOL_VERSION ||
            conn_alert(c) == MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE);
}

/* A client's handshake that mbedTLS ended with `r`. */
static void conn_tell_server_failed(nng_tls_engine_conn *c, int r)
{
    enum tls_cause cause = TLS_CAUSE_NONE;
    char text[256];

    if (conn_session_outlived(c, r)) {
        conn_tell_owner(c, ERR_UNREACHABLE, TLS_CAUSE_NONE,
                        "the server does not speak our session's TLS version or cipher any more: "
                        "the next attempt goes without the session");
        return;
    }
    if (r == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE) {
        cause = tls_cert_alert_cause(conn_alert(c));
        snprintf(text, sizeof text, "the server refused us: %s",
                 tls_cert_alert_text(conn_alert(c)));
    } else if (c->garbage) {
        snprintf(text, sizeof text, "what listens there does not speak TLS");
    } else {
        if (!c->denied && conn_verify_failed(r)) {
            cause = tls_cert_flags_cause(mbedtls_ssl_get_verify_result(&c->ssl), false);
        }
        snprintf(text, sizeof text, "the server is not to be trusted as %s: %s",
                 tls_config_server_name(c->cfg->tls), conn_failure_text(c, r));
    }
    conn_tell_owner(c, c->garbage ? ERR_UNREACHABLE : ERR_TRUST, cause, text);
}

/* A handshake that mbedTLS ended with `r`. */
static void conn_tell_handshake(nng_tls_engine_conn *c, int r)
{
    char refused[128], more[32];

    if (!tls_config_is_server(c->cfg->tls)) {
        conn_tell_server_failed(c, r);
        return;
    }
    if (!c->denied && conn_verify_failed(r) &&
        (mbedtls_ssl_get_verify_result(&c->ssl) & MBEDTLS_X509_BADCERT_EXPIRED)) {
        c->cause = NET_EXPIRED;
    }
    if (r == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE) {
        snprintf(refused, sizeof refused, "the peer refused us: %s",
                 tls_cert_alert_text(conn_alert(c)));
        snprintf(more, sizeof more, " alert=%u", conn_alert(c));
        conn_tell_log(c, refused, more);
    } else {
        snprintf(more, sizeof more, " tls=-0x%04x", (unsigned)-r);
        conn_tell_log(c, conn_failure_text(c, r), more);
    }
}

/* -- connections -- */

static int bio_send(void *arg, const unsigned char *p, size_t n)
{
    nng_tls_engine_conn *c = arg;
    int rv = nng_tls_engine_send(c->stream, p, &n);

    if (rv == NNG_EAGAIN) {
        return MBEDTLS_ERR_SSL_WANT_WRITE;
    }
    return rv == 0 ? (int)n : MBEDTLS_ERR_SSL_CONN_EOF;
}

static int bio_recv(void *arg, unsigned char *p, size_t n)
{
    nng_tls_engine_conn *c = arg;
    int rv = nng_tls_engine_recv(c->stream, p, &n);

    if (rv == NNG_EAGAIN) {
        return MBEDTLS_ERR_SSL_WANT_READ;
    }
    if (rv != 0) {
        return MBEDTLS_ERR_SSL_CONN_EOF;
    }
    if (!c->heard && n > 0) {
        c->heard = true;
        c->garbage = p[0] != HELLO_RECORD && p[0] != ALERT_RECORD;
    }
    return (int)n;
}

/* Whether a holder whose certificate is good may come in to this listener: 0, or mbedTLS's flag for
 * what the peer is to be told. */
static uint32_t conn_holder_denied(nng_tls_engine_conn *c, const struct net_identity *who)
{
    const struct net_policy *policy = &c->cfg->policy;

    c->denied = tls_cert_denied(who, policy->roles, policy->refuse_scoped);
    if (c->denied) {
        c->cause = NET_ROLE;
        return MBEDTLS_X509_BADCERT_OTHER;
    }
    c->denied = authorizer_ask(policy->judge, who);
    if (c->denied) {
        c->cause = NET_JUDGED;
        return MBEDTLS_X509_BADCERT_REVOKED;
    }
    return 0;
}

/* The end of a chain that mbedTLS, or the pin, found good; we add what neither checks. A
 * certificate without extended key usage, or with more than one, would pass there. */
static void conn_verify_leaf(nng_tls_engine_conn *c, const mbedtls_x509_crt *crt, uint32_t *flags)
{
    bool server = tls_config_is_server(c->cfg->tls);
    struct net_identity who;

    if (!tls_cert_is_only(crt, !server)) {
        *flags |= MBEDTLS_X509_BADCERT_EXT_KEY_USAGE;
        if (tls_cert_identity(&who, crt) == ERR_OK) {
            memcpy(c->holder, who.name, sizeof c->holder);
        }
        return;
    }
    if (tls_cert_identity(&who, crt) != ERR_OK) {
        c->denied = "names not understood";
        *flags |= MBEDTLS_X509_BADCERT_OTHER;
        return;
    }
    memcpy(who.address, c->who.address, sizeof who.address);
    c->who = who;
    c->resumed = false;
    if (server) {
        *flags |= conn_holder_denied(c, &c->who);
    }
}

/* mbedTLS has judged one certificate of the chain; the authority's comes first, and what is wrong
 * with it stands with it alone. */
static int conn_verify(void *arg, mbedtls_x509_crt *crt, int depth, uint32_t *flags)
{
    nng_tls_engine_conn *c = arg;

    if (tls_context_pinned(c->rules)) {
        /* mbedTLS knows no authority then, and all it found is replaced by one verdict. */
        *flags = depth == 0
                     ? tls_context_pin_flags(c->rules, crt, tls_config_server_name(c->cfg->tls))
                     : 0;
        if (*flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) {
            c->denied = "it does not show the authority that the token names";
        }
    }
    c->above |= depth > 0 ? *flags : 0;
    if (depth == 0 && (*flags | c->above) == 0) {
        conn_verify_leaf(c, crt, flags);
    } else if (depth == 0 && ((*flags | c->above) & ~OUT_OF_TIME) == 0) {
        struct net_identity who;

        if (tls_cert_identity(&who, crt) == ERR_OK) {
            memcpy(c->holder, who.name, sizeof c->holder);
        }
    } else if (depth == 0) {
        tls_cert_claimed(c->claimed, sizeof c->claimed, crt);
    }
    return 0;
}

/* Whether this connection may begin with the session of a certificate that was verified when the
 * session did; what can have changed since is looked at. */
static bool conn_admit_resumed(void *arg, const mbedtls_x509_crt *crt)
{
    nng_tls_engine_conn *c = arg;
    struct net_identity who;

    if (mbedtls_x509_time_is_past(&crt->valid_to) ||
        mbedtls_x509_time_is_future(&crt->valid_from) ||
        !tls_cert_is_only(crt, !tls_config_is_server(c->cfg->tls)) ||
        tls_cert_identity(&who, crt) != ERR_OK) {
        return false;
    }
    if (tls_config_is_server(c->cfg->tls) &&
        (tls_cert_denied(&who, c->cfg->policy.roles, c->cfg->policy.refuse_scoped) ||
         authorizer_ask(c->cfg->policy.judge, &who))) {
        return false;
    }
    memcpy(who.address, c->who.address, sizeof who.address);
    c->who = who;
    c->resumed = true;
    return true;
}

/* What became of the session that was offered, if one was. */
static void conn_end_offer(nng_tls_engine_conn *c, enum tls_session_offer_state how)
{
    if (c->offered) {
        c->offered = false;
        tls_session_offered(c->cfg->session, how);
    }
}

static bool conn_is_1_3(const nng_tls_engine_conn *c)
{
    return mbedtls_ssl_get_version_number(&c->ssl) == MBEDTLS_SSL_VERSION_TLS1_3;
}

/* A dialer's, if one came. */
static void conn_keep_ticket(nng_tls_engine_conn *c)
{
    if (c->cfg->session) {
        tls_session_keep(c->cfg->session, tls_context_id(c->rules), &c->ssl);
    }
}

/* mbedTLS is through with the handshake; true when the connection is still open. */
static bool conn_settle(nng_tls_engine_conn *c)
{
    const mbedtls_x509_crt *crt = mbedtls_ssl_get_peer_cert(&c->ssl);

    if (c->cfg->policy.strangers) {
        return true;
    }
    if (c->offered && !c->who.name[0] && crt && conn_admit_resumed(c, crt)) {
        conn_end_offer(c, TLS_SESSION_TAKEN);
    }
    if (c->cfg->session && c->who.name[0] && !c->resumed) {
        conn_keep_ticket(c);
        c->offered = false; /* the server preferred a full handshake: a newer one comes with it */
    }
    return c->who.name[0] != '\0';
}

static bool conn_is_early(const nng_tls_engine_conn *c)
{
    return c->state == CONN_SHAKING || c->state == CONN_TRIAL;
}

/* Every connection that leaves CONN_SHAKING or CONN_TRIAL comes by here. */
static void conn_enter_state(nng_tls_engine_conn *c, enum conn_state state)
{
    assert(state == CONN_NONE || conn_is_early(c) ||
           (c->state == CONN_PARTING && state == CONN_FAILED));
    if (conn_is_early(c) && state != CONN_TRIAL) {
        if (state == CONN_UP) {
            atomic_fetch_add(c->resumed ? &stats.resumed : &stats.full, 1);
        } else if (c->heard) {
            atomic_fetch_add(&stats.failed, 1);
        }
    }
    c->state = state;
}

static int conn_init(nng_tls_engine_conn *c, void *stream, nng_tls_engine_config *cfg)
{
    const char *crowded;

    if (!cfg->tls) {
        return NNG_ECRYPTO;
    }
    c->stream = stream;
    c->cfg = cfg;
    net_nng_peer(c->who.address, sizeof c->who.address, stream);
    crowded = conn_limits_enter(cfg->policy.crowd, &c->member, stream, c->who.address);
    if (crowded) {
        c->cause = NET_CROWDED;
        conn_tell_log(c, crowded, "");
        return NNG_ECONNABORTED;
    }
    c->state = CONN_SHAKING;
    mbedtls_ssl_init(&c->ssl);
    mbedtls_ssl_set_bio(&c->ssl, c, bio_send, bio_recv, NULL);
    c->rules = tls_config_rules(cfg->tls);
    if (mbedtls_ssl_setup(&c->ssl, tls_context_config(c->rules, cfg->policy.strangers)) != 0) {
        return NNG_ENOMEM;
    }
    mbedtls_ssl_set_verify(&c->ssl, conn_verify, c);
    if (!tls_config_is_server(cfg->tls) &&
        mbedtls_ssl_set_hostname(&c->ssl, tls_config_server_name(cfg->tls)) != 0) {
        return NNG_ENOMEM;
    }
    c->offered = cfg->session && tls_session_offer(cfg->session, tls_context_id(c->rules), &c->ssl);
    return 0;
}

/* A client whose connection ended during the handshake. The alert that would say why is lost when
 * the server closes with bytes of ours unread: ours do so only when they are in distress, others
 * right after they saw a certificate that they do not like; a server that crashes then looks the
 * same. */
static void conn_tell_lost(nng_tls_engine_conn *c)
{
    bool resuming = c->offered && !c->who.name[0];
    bool shown = c->state == CONN_TRIAL ? !c->resumed
                                        : !conn_is_1_3(c) && c->ssl.MBEDTLS_PRIVATE(state) >
                                                                 MBEDTLS_SSL_CLIENT_CERTIFICATE;

    if (shown && !resuming) {
        conn_tell_owner(
            c, ERR_CLOSED, TLS_CAUSE_NONE,
            "the server closed the connection when it had seen our certificate: its log says why");
    } else {
        conn_tell_owner(c, ERR_UNREACHABLE, TLS_CAUSE_NONE,
                        "the other side closed the connection, or fell silent, before TLS was up");
    }
}

/* A listener's connection that ended before it was let in. Who never said a word, as port scanners
 * and monitoring do, is counted only, but for those who were in the way. */
static void conn_tell_unfinished(nng_tls_engine_conn *c, const char *sent_away)
{
    if (sent_away) {
        conn_tell_log(c, sent_away, "");
    } else if (c->state == CONN_SHAKING && c->heard) {
        conn_tell_log(c, c->garbage ? "garbage instead of TLS" : "handshake not finished", "");
    } else if (c->state == CONN_SHAKING) {
        conn_limits_count(c->cfg->policy.crowd, NET_HANDSHAKE);
    } else if (c->state == CONN_UP && !c->admitted) {
        conn_tell_log(c, "no SP greeting", "");
    }
}

/* Also for connections whose init failed or never ran. */
static void conn_fini(nng_tls_engine_conn *c)
{
    const char *sent_away = conn_limits_leave(&c->member);

    if (c->state == CONN_NONE) {
        return;
    }
    if (tls_config_is_server(c->cfg->tls)) {
        conn_tell_unfinished(c, sent_away);
    } else if (conn_is_early(c)) {
        conn_tell_lost(c);
    }
    conn_end_offer(c, TLS_SESSION_LOST);
    conn_enter_state(c, CONN_NONE);
    mbedtls_ssl_free(&c->ssl);
    tls_context_free(c->rules);
}

static void conn_close(nng_tls_engine_conn *c)
{
    if (c->state == CONN_TRIAL) {
        conn_tell_lost(c); /* as below */
    }
    if (c->state == CONN_UP || c->state == CONN_TRIAL) {
        /* The peer may be gone already: the result says nothing that matters. */
        (void)mbedtls_ssl_close_notify(&c->ssl);
    } else if (c->state == CONN_SHAKING && !tls_config_is_server(c->cfg->tls)) {
        conn_tell_lost(
            c); /* before NNG counts the failure: a reader of the count finds the reason */
    }
}

static bool conn_would_block(int r)
{
    return r == MBEDTLS_ERR_SSL_WANT_READ || r == MBEDTLS_ERR_SSL_WANT_WRITE;
}

/* Whether the peer is still sending what belongs to its certificate, which we have just refused. */
static bool conn_in_flight(const nng_tls_engine_conn *c, int r)
{
    int state = c->ssl.MBEDTLS_PRIVATE(state);

    if (!tls_config_is_server(c->cfg->tls)) {
        return false;
    }
    return conn_is_1_3(c)
               ? state >= MBEDTLS_SSL_CLIENT_CERTIFICATE && r != 0 &&
                     r != MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE && r != MBEDTLS_ERR_SSL_CONN_EOF
               : state == MBEDTLS_SSL_CLIENT_CERTIFICATE && conn_verify_failed(r);
}

/* Takes what is left of the refused peer's flight: to close with bytes unread would take back the
 * alert, and with it the reason. In TLS 1.3, where the flight cannot be read from outside and SP's
 * greeting may follow at once, that is until the peer has heard the alert and closes. Who does not
 * send it, or does not close, is sent away by the janitor. */
static int conn_part(nng_tls_engine_conn *c)
{
    uint8_t some[512];
    bool over = false;
    int r;

    do {
        r = bio_recv(c, some, sizeof some);
        if (r > 0) {
            over = conn_is_1_3(c) ? tls_flight_skip(&c->parting, (size_t)r)
                                  : tls_flight_feed(&c->parting, some, (size_t)r);
        }
    } while (r > 0 && !over);
    if (r == MBEDTLS_ERR_SSL_WANT_READ) {
        return NNG_EAGAIN;
    }
    conn_enter_state(c, CONN_FAILED);
    return NNG_EPEERAUTH;
}

static int conn_handshake(nng_tls_engine_conn *c)
{
    int step = c->ssl.MBEDTLS_PRIVATE(state);
    int r;

    if (c->state == CONN_UP || c->state == CONN_TRIAL) {
        return 0;
    }
    if (c->state == CONN_PARTING) {
        return conn_part(c);
    }
    if (c->state != CONN_SHAKING) {
        return NNG_EPEERAUTH;
    }
    tls_session_judge(&c->ssl, conn_admit_resumed, c);
    r = mbedtls_ssl_handshake(&c->ssl);
    tls_session_judge(NULL, NULL, NULL);
    if (c->ssl.MBEDTLS_PRIVATE(state) != step) {
        conn_limits_moved(&c->member);
    }
    if (conn_would_block(r)) {
        return NNG_EAGAIN;
    }
    if (r == 0 && conn_settle(c)) {
        bool trial = conn_is_1_3(c) && !tls_config_is_server(c->cfg->tls);

        conn_enter_state(c, trial ? CONN_TRIAL : CONN_UP);
        return 0;
    }
    conn_enter_state(c, conn_in_flight(c, r) ? CONN_PARTING : CONN_FAILED);
    if (r != MBEDTLS_ERR_SSL_CONN_EOF) {
        conn_tell_handshake(c, r);
    } else if (!tls_config_is_server(c->cfg->tls)) {
        conn_tell_lost(c);
    }
    conn_end_offer(c, r == MBEDTLS_ERR_SSL_CONN_EOF ? TLS_SESSION_LOST : TLS_SESSION_FAILED);
    return c->state == CONN_PARTING ? conn_part(c) : NNG_EPEERAUTH;
}

/* A peer that is not what the policy says, or declares too much. */
static void conn_tell_framing(nng_tls_engine_conn *c, const char *why)
{
    char more[80] = "";

    if (c->meter.left > 0) {
        snprintf(more, sizeof more, " declared=%llu limit=%zu", (unsigned long long)c->meter.left,
                 c->cfg->policy.message_max);
    }
    if (tls_config_is_server(c->cfg->tls)) {
        c->cause = c->meter.left > 0 ? NET_OVERSIZE : NET_HANDSHAKE;
        conn_tell_log(c, why, more);
    } else if (c->meter.left > 0) {
        conn_tell_owner(c, ERR_FULL, TLS_CAUSE_NONE,
                        "the server sent a message larger than is taken here");
    } else {
        conn_tell_owner(c, ERR_UNREACHABLE, TLS_CAUSE_NONE,
                        "what listens there speaks another protocol: is the port right?");
    }
}

/* Whether mbedTLS is to be asked again at once, for it was busy with a ticket, which is kept. When
 * it has found one it says WANT_READ, though all of it is there. */
static bool conn_took_ticket(nng_tls_engine_conn *c, int r)
{
    if (r == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET) {
        conn_keep_ticket(c);
        return true;
    }
    return r == MBEDTLS_ERR_SSL_WANT_READ && !tls_config_is_server(c->cfg->tls) &&
           c->ssl.MBEDTLS_PRIVATE(state) == MBEDTLS_SSL_TLS1_3_NEW_SESSION_TICKET;
}

/* What the server said to the client's certificate, if it said anything. */
static void conn_end_trial(nng_tls_engine_conn *c, int r)
{
    if (r > 0) {
        conn_enter_state(c, CONN_UP);
        return;
    }
    if (r == 0 || r == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY || r == MBEDTLS_ERR_SSL_CONN_EOF) {
        conn_tell_lost(c);
    } else {
        conn_tell_handshake(c, r);
    }
    conn_enter_state(c, CONN_FAILED);
}

static int conn_recv(nng_tls_engine_conn *c, uint8_t *p, size_t *n)
{
    const char *why;
    int r = conn_handshake(c);

    if (r != 0) {
        return r;
    }
    do {
        r = mbedtls_ssl_read(&c->ssl, p, *n);
    } while (conn_took_ticket(c, r));
    if (conn_would_block(r)) {
        return NNG_EAGAIN;
    }
    if (c->state == CONN_TRIAL) {
        conn_end_trial(c, r);
    }
    if (r <= 0) {
        return r == 0 || r == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY || r == MBEDTLS_ERR_SSL_CONN_EOF
                   ? NNG_ECONNSHUT
                   : NNG_ECRYPTO;
    }
    why = sp_framing_feed(&c->meter, c->cfg->policy.peer, c->cfg->policy.message_max, p, (size_t)r);
    if (why) {
        conn_tell_framing(c, why);
        c->state = CONN_FAILED;
        return NNG_EPROTO;
    }
    *n = (size_t)r;
    return 0;
}

static int conn_send(nng_tls_engine_conn *c, const uint8_t *p, size_t *n)
{
    int r = conn_handshake(c);

    if (r != 0) {
        return r;
    }
    do {
        r = mbedtls_ssl_write(&c->ssl, p, *n);
    } while (conn_took_ticket(c, r));
    if (conn_would_block(r)) {
        return NNG_EAGAIN;
    }
    if (r < 0) {
        return NNG_ECRYPTO;
    }
    *n = (size_t)r;
    return 0;
}

static bool conn_verified(nng_tls_engine_conn *c)
{
    if (c->state != CONN_UP) { /* NNG asks after SP's greeting */
        return false;
    }
    if (wanted) {
        *wanted = c->who;
        c->admitted = true;
        conn_limits_let_in(&c->member);
    }
    return true;
}

static nng_tls_engine_conn_ops conn_ops = {
    .size = sizeof(nng_tls_engine_conn),
    .init = conn_init,
    .fini = conn_fini,
    .close = conn_close,
    .handshake = conn_handshake,
    .recv = conn_recv,
    .send = conn_send,
    .verified = conn_verified,
};

/* -- configurations -- */

/* What config_init gets from the calling thread, see above. */
static _Thread_local struct {
    struct tls_config *tls;
    const struct net_policy *policy;
} call;

/* Every dialer, listener and connection holds one from its first moment to its last. */
static atomic_uint live;

unsigned net_engine_live(void)
{
    return atomic_load(&live);
}

static int config_init(nng_tls_engine_config *cfg, nng_tls_mode mode)
{
    if (call.tls && mode == NNG_TLS_MODE_CLIENT && tls_session_create(&cfg->session) != ERR_OK) {
        return NNG_ENOMEM;
    }
    if (call.tls) {
        cfg->tls = tls_config_hold(call.tls);
        cfg->policy = *call.policy;
        cfg->policy.crowd = conn_limits_hold(call.policy->crowd);
        cfg->policy.judge = authorizer_hold(call.policy->judge);
        snprintf(cfg->name, sizeof cfg->name, "%s", call.policy->name ? call.policy->name : "");
        cfg->policy.name = cfg->name;
    }
    atomic_fetch_add(&live, 1);
    return 0;
}

static void config_fini(nng_tls_engine_config *cfg)
{
    tls_session_destroy(cfg->session);
    tls_config_free(cfg->tls);
    conn_limits_release(cfg->policy.crowd);
    authorizer_release(cfg->policy.judge);
    if (cfg->policy.release) {
        cfg->policy.release(cfg->policy.ctx);
    }
    atomic_fetch_sub(&live, 1);
}

/* NNG calls these two on the configurations it makes for itself; our rules come from elsewhere. */
static int config_server(nng_tls_engine_config *cfg, const char *name)
{
    (void)cfg;
    (void)name;
    return 0;
}

static int config_auth(nng_tls_engine_config *cfg, nng_tls_auth_mode mode)
{
    (void)cfg;
    (void)mode;
    return 0;
}

static int config_ca_chain(nng_tls_engine_config *cfg, const char *certs, const char *crl)
{
    (void)cfg;
    (void)certs;
    (void)crl;
    return NNG_ENOTSUP;
}

static int config_own_cert(nng_tls_engine_config *cfg, const char *cert, const char *key,
                           const char *pass)
{
    (void)cfg;
    (void)cert;
    (void)key;
    (void)pass;
    return NNG_ENOTSUP;
}

static int config_version(nng_tls_engine_config *cfg, nng_tls_version min, nng_tls_version max)
{
    (void)cfg;
    (void)min;
    (void)max;
    return NNG_ENOTSUP;
}

static nng_tls_engine_config_ops config_ops = {
    .size = sizeof(nng_tls_engine_config),
    .init = config_init,
    .fini = config_fini,
    .server = config_server,
    .auth = config_auth,
    .ca_chain = config_ca_chain,
    .own_cert = config_own_cert,
    .version = config_version,
};

static const nng_tls_engine engine = {
    .version = NNG_TLS_ENGINE_VERSION,
    .config_ops = &config_ops,
    .conn_ops = &conn_ops,
    .name = "procfleet",
    .description = "identity per connection, over mbedTLS",
};

enum err net_engine_register(struct errmsg *why)
{
    /* The engine's interface changed later without a new number of its own. */
    if (strcmp(nng_version(), NNG_KNOWN) != 0) {
        return errmsg_set(why, ERR_VERSION,
                          "this program works with NNG " NNG_KNOWN " only and was linked with %s",
                          nng_version());
    }
    return nng_tls_engine_register(&engine) == 0
               ? ERR_OK
               : errmsg_set(why, ERR_VERSION, "NNG does not take our TLS engine");
}

enum err net_engine_config(struct nng_tls_config **out, struct tls_config *tls,
                           const struct net_policy *policy)
{
    int rv;

    call.tls = tls;
    call.policy = policy;
    rv = nng_tls_config_alloc(out, tls_config_is_server(tls) ? NNG_TLS_MODE_SERVER
                                                             : NNG_TLS_MODE_CLIENT);
    call.tls = NULL;
    call.policy = NULL;
    return rv == 0 ? ERR_OK : ERR_NOMEM;
}

enum err net_engine_identity(struct net_identity *out, uint32_t pipe_id)
{
    nng_pipe pipe = {.id = pipe_id};
    struct net_identity who = {.has_host = false};
    bool verified = false;
    int rv;

    wanted = &who;
    rv = nng_pipe_get_bool(pipe, NNG_OPT_TLS_VERIFIED, &verified);
    wanted = NULL;
    if (rv != 0 || !verified) {
        return ERR_CLOSED;
    }
    *out = who;
    return ERR_OK;
}
