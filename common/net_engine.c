/* NNG 1.5.2's own engine tells only whether a peer was verified. Ours tells who it is, enforces our
 * rules, and says why it refused.
 *
 *   bytes → mbedTLS → plain bytes → meter → NNG
 *
 * Identity: the verification callback reads the peer's certificate into the connection. To hand it
 * over, net_engine_identity asks NNG for the pipe's option TLS_VERIFIED; NNG runs conn_verified on
 * the calling thread, which copies the identity to where a thread-local pointer says. No private
 * symbol is used, and nothing is matched by address.
 *
 * Configuration: NNG allocates ours and calls config_init; what to put in comes through another
 * thread-local pointer, set around nng_tls_config_alloc. The configurations that NNG makes for
 * itself (every listener and dialer starts with one) stay empty, and an empty one refuses all
 * connections: forgetting to set ours cannot open a door.
 *
 * The meter follows SP's framing (8 bytes of greeting, then length and body), because NNG drops a
 * peer that speaks another protocol or declares 16 GiB without telling anybody.
 *
 * Refusals: a listener logs one line, a dialer tells its owner one sentence. `told` keeps it at
 * one. Role and scope are checked during the handshake, where the peer still hears the reason as
 * an alert, and again on admission (net_gate.c), which is what counts.
 *
 * Callbacks run with NNG's lock of the connection held: short, and no call into NNG but
 * nng_tls_engine_send and _recv. The one exception is conn_init, which runs before the connection
 * is shared and asks for the peer's address: the context NNG passes is the stream itself in this
 * version, the only one that net_engine_register accepts. */
#include "common/net_engine.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <mbedtls/oid.h>
#include <mbedtls/ssl.h>
#include <mbedtls/x509_crt.h>
#include <nng/nng.h>
#include <nng/supplemental/tls/engine.h>

#include "common/log.h"
#include "common/net_addr.h"
#include "common/net_cert.h"
#include "common/net_meter.h"
#include "common/net_tls.h"

#define NNG_KNOWN    "1.5.2"
#define ALERT_RECORD 21 /* TLS record types */
#define HELLO_RECORD 22

struct nng_tls_engine_config {
    struct net_tls *tls; /* NULL: refuses everything */
    struct net_policy policy;
    char name[32];
    atomic_uint shaking; /* connections in CONN_SHAKING */
};

enum conn_state { CONN_NONE, CONN_SHAKING, CONN_UP, CONN_FAILED };

struct nng_tls_engine_conn {
    void *stream;
    struct nng_tls_engine_config *cfg;
    mbedtls_ssl_context ssl;
    enum conn_state state;
    bool heard;    /* anything came from the peer */
    bool garbage;  /* and it was not TLS */
    bool admitted; /* its identity was asked for */
    bool told;
    const char *denied; /* why verification failed beyond mbedTLS's own reasons */
    struct net_identity who;
    struct net_meter meter;
};

/* What config_init and conn_verified get from the calling thread, see above. */
static _Thread_local struct {
    struct net_tls *tls;
    const struct net_policy *policy;
    struct net_identity *identity;
} call;

/* -- refusals -- */

static const char *alert_text(unsigned char alert)
{
    switch (alert) {
    case MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA:
        return "it does not know the authority of our certificate";
    case MBEDTLS_SSL_ALERT_MSG_ACCESS_DENIED:
        return "our certificate's role is not allowed here";
    case MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED:
        return "it finds our certificate expired or not yet valid";
    case MBEDTLS_SSL_ALERT_MSG_CERT_REVOKED:
        return "our certificate is revoked";
    case MBEDTLS_SSL_ALERT_MSG_UNSUPPORTED_CERT:
        return "our certificate is not for this use";
    case MBEDTLS_SSL_ALERT_MSG_BAD_CERT:
    case MBEDTLS_SSL_ALERT_MSG_CERT_UNKNOWN:
    case MBEDTLS_SSL_ALERT_MSG_NO_CERT:
        return "it does not accept our certificate";
    case MBEDTLS_SSL_ALERT_MSG_PROTOCOL_VERSION:
    case MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE:
        return "no TLS version, cipher or certificate in common";
    default:
        return "it ended the handshake with an alert";
    }
}

/* The alert that MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE is about; mbedTLS 3.6 has no public way. */
static unsigned char alert_of(const nng_tls_engine_conn *c)
{
    return c->ssl.MBEDTLS_PRIVATE(in_msg)[1];
}

static bool is_verify_failure(int r)
{
    return r == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED || r == MBEDTLS_ERR_SSL_BAD_CERTIFICATE;
}

/* Words for the log. */
static const char *failure_text(const nng_tls_engine_conn *c, int r)
{
    if (c->denied) {
        return c->denied;
    }
    if (c->garbage) {
        return "garbage instead of TLS";
    }
    if (is_verify_failure(r)) {
        return net_cert_flags_text(mbedtls_ssl_get_verify_result(&c->ssl));
    }
    switch (r) {
    case MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE:
        return "no certificate";
    case MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE:
        return "the peer refused us";
    case MBEDTLS_ERR_SSL_BAD_PROTOCOL_VERSION:
        return "other TLS version than 1.2";
    case MBEDTLS_ERR_SSL_HANDSHAKE_FAILURE:
        return "no cipher in common";
    default:
        return "TLS handshake failed";
    }
}

static void log_refused(nng_tls_engine_conn *c, const char *reason, const char *more)
{
    char name[80], peer[80], words[80];

    /* The listener is the module, so that the log's limit counts each one for itself. */
    log_line(LOG_WARN, c->cfg->name, "refused", "listener=%s peer=%s name=%s reason=%s%s",
             c->cfg->name, log_str(peer, sizeof peer, c->who.address),
             log_str(name, sizeof name, c->who.name), log_str(words, sizeof words, reason), more);
}

static void tell_owner(nng_tls_engine_conn *c, enum err e, const char *text)
{
    if (c->cfg->policy.on_fault) {
        c->cfg->policy.on_fault(c->cfg->policy.ctx, e, text);
    }
}

/* Tells of a failure, the first one of a connection only. */
static void tell(nng_tls_engine_conn *c, enum err e, const char *reason, const char *more)
{
    if (c->told) {
        return;
    }
    c->told = true;
    if (net_tls_is_server(c->cfg->tls)) {
        log_refused(c, reason, more);
    } else {
        tell_owner(c, e, reason);
    }
}

/* A handshake that mbedTLS ended with `r`. */
static void tell_handshake(nng_tls_engine_conn *c, int r)
{
    const char *reason = failure_text(c, r);
    char text[256];
    enum err e = c->garbage ? ERR_UNREACHABLE : ERR_TRUST;

    if (r == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE) {
        snprintf(text, sizeof text, " alert=%u", alert_of(c));
    } else {
        snprintf(text, sizeof text, " tls=-0x%04x", (unsigned)-r);
    }
    if (net_tls_is_server(c->cfg->tls)) {
        tell(c, e, reason, text);
        return;
    }
    if (r == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE) {
        snprintf(text, sizeof text, "the server refused us: %s", alert_text(alert_of(c)));
    } else if (c->garbage) {
        snprintf(text, sizeof text, "what listens there does not speak TLS");
    } else {
        snprintf(text, sizeof text, "the server is not to be trusted as %s: %s",
                 net_tls_server_name(c->cfg->tls), reason);
    }
    tell(c, e, text, "");
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

/* mbedTLS has judged one certificate of the chain; we add what it does not check. A certificate
 * without extended key usage would pass there as good for everything. */
static int verify(void *arg, mbedtls_x509_crt *crt, int depth, uint32_t *flags)
{
    nng_tls_engine_conn *c = arg;
    struct net_identity who;

    if (depth != 0 || *flags != 0) {
        return 0;
    }
    if (!mbedtls_x509_crt_has_ext_type(crt, MBEDTLS_X509_EXT_EXTENDED_KEY_USAGE)) {
        *flags |= MBEDTLS_X509_BADCERT_EXT_KEY_USAGE;
        return 0;
    }
    if (net_cert_identity(&who, crt) != ERR_OK) {
        c->denied = "names not understood";
        *flags |= MBEDTLS_X509_BADCERT_OTHER;
        return 0;
    }
    memcpy(who.address, c->who.address, sizeof who.address);
    c->who = who;
    /* Wrong use is mbedTLS's next check, and the more telling cause. */
    if (net_tls_is_server(c->cfg->tls) &&
        mbedtls_x509_crt_check_extended_key_usage(crt, MBEDTLS_OID_CLIENT_AUTH,
                                                  MBEDTLS_OID_SIZE(MBEDTLS_OID_CLIENT_AUTH)) == 0) {
        c->denied = net_cert_denied(&c->who, c->cfg->policy.roles, c->cfg->policy.refuse_scoped);
        *flags |= c->denied ? MBEDTLS_X509_BADCERT_OTHER : 0;
    }
    return 0;
}

/* Every connection that leaves CONN_SHAKING comes by here. */
static void enter_state(nng_tls_engine_conn *c, enum conn_state state)
{
    if (c->state == CONN_SHAKING) {
        atomic_fetch_sub(&c->cfg->shaking, 1);
    }
    c->state = state;
}

/* Takes a place among the handshakes under way; false when all are taken. */
static bool begin_handshake(nng_tls_engine_conn *c)
{
    unsigned max = c->cfg->policy.handshakes_max;

    if (atomic_fetch_add(&c->cfg->shaking, 1) >= max && net_tls_is_server(c->cfg->tls)) {
        atomic_fetch_sub(&c->cfg->shaking, 1);
        return false;
    }
    c->state = CONN_SHAKING;
    return true;
}

static int conn_init(nng_tls_engine_conn *c, void *stream, nng_tls_engine_config *cfg)
{
    if (!cfg->tls) {
        return NNG_ECRYPTO;
    }
    c->stream = stream;
    c->cfg = cfg;
    net_addr_peer(c->who.address, sizeof c->who.address, stream);
    if (!begin_handshake(c)) {
        tell(c, ERR_FULL, "too many handshakes under way", "");
        return NNG_ECONNABORTED;
    }
    mbedtls_ssl_init(&c->ssl);
    mbedtls_ssl_set_bio(&c->ssl, c, bio_send, bio_recv, NULL);
    if (mbedtls_ssl_setup(&c->ssl, net_tls_rules(cfg->tls)) != 0) {
        return NNG_ENOMEM;
    }
    mbedtls_ssl_set_verify(&c->ssl, verify, c);
    if (!net_tls_is_server(cfg->tls) &&
        mbedtls_ssl_set_hostname(&c->ssl, net_tls_server_name(cfg->tls)) != 0) {
        return NNG_ENOMEM;
    }
    return 0;
}

/* A client whose connection ended during the handshake. The alert that would say why is lost when
 * the server closes with bytes of ours unread, which it does right after it saw a certificate that
 * it does not like; a server that crashes then looks the same. */
static void tell_lost(nng_tls_engine_conn *c)
{
    if (c->ssl.MBEDTLS_PRIVATE(state) > MBEDTLS_SSL_CLIENT_CERTIFICATE) {
        tell(c, ERR_CLOSED,
             "the server closed the connection when it had seen our certificate: its log says why",
             "");
    } else {
        tell(c, ERR_UNREACHABLE,
             "the other side closed the connection, or fell silent, before TLS was up", "");
    }
}

/* Also for connections whose init failed or never ran. */
static void conn_fini(nng_tls_engine_conn *c)
{
    if (c->state == CONN_NONE) {
        return;
    }
    if (net_tls_is_server(c->cfg->tls)) {
        if (c->state == CONN_SHAKING && c->heard) {
            tell(c, ERR_TRUST, c->garbage ? "garbage instead of TLS" : "handshake not finished",
                 "");
        } else if (c->state == CONN_UP && !c->admitted) {
            tell(c, ERR_TRUST, "no SP greeting", "");
        }
    } else if (c->state == CONN_SHAKING) {
        tell_lost(c);
    }
    enter_state(c, CONN_NONE);
    mbedtls_ssl_free(&c->ssl);
}

static void conn_close(nng_tls_engine_conn *c)
{
    if (c->state == CONN_UP) {
        /* The peer may be gone already: the result says nothing that matters. */
        (void)mbedtls_ssl_close_notify(&c->ssl);
    }
}

static bool would_block(int r)
{
    return r == MBEDTLS_ERR_SSL_WANT_READ || r == MBEDTLS_ERR_SSL_WANT_WRITE;
}

static int conn_handshake(nng_tls_engine_conn *c)
{
    int r;

    if (c->state == CONN_UP) {
        return 0;
    }
    if (c->state != CONN_SHAKING) {
        return NNG_EPEERAUTH;
    }
    r = mbedtls_ssl_handshake(&c->ssl);
    if (would_block(r)) {
        return NNG_EAGAIN;
    }
    if (r == 0 && c->who.name[0]) {
        enter_state(c, CONN_UP);
        return 0;
    }
    enter_state(c, CONN_FAILED);
    if (r != MBEDTLS_ERR_SSL_CONN_EOF) {
        tell_handshake(c, r);
    } else if (!net_tls_is_server(c->cfg->tls)) {
        tell_lost(c);
    }
    return NNG_EPEERAUTH;
}

/* A peer that is not what the policy says, or declares too much. */
static void tell_meter(nng_tls_engine_conn *c, const char *why)
{
    char more[80] = "";

    if (c->meter.left > 0) {
        snprintf(more, sizeof more, " declared=%llu limit=%zu", (unsigned long long)c->meter.left,
                 c->cfg->policy.message_max);
    }
    if (net_tls_is_server(c->cfg->tls)) {
        tell(c, ERR_REFUSED, why, more);
    } else if (c->meter.left > 0) {
        tell(c, ERR_FULL, "the server sent a message larger than is taken here", "");
    } else {
        tell(c, ERR_UNREACHABLE, "what listens there speaks another protocol: is the port right?",
             "");
    }
}

static int conn_recv(nng_tls_engine_conn *c, uint8_t *p, size_t *n)
{
    const char *why;
    int r = conn_handshake(c);

    if (r != 0) {
        return r;
    }
    r = mbedtls_ssl_read(&c->ssl, p, *n);
    if (would_block(r)) {
        return NNG_EAGAIN;
    }
    if (r <= 0) {
        return r == 0 || r == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY || r == MBEDTLS_ERR_SSL_CONN_EOF
                   ? NNG_ECONNSHUT
                   : NNG_ECRYPTO;
    }
    why = net_meter_feed(&c->meter, c->cfg->policy.peer, c->cfg->policy.message_max, p, (size_t)r);
    if (why) {
        tell_meter(c, why);
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
    r = mbedtls_ssl_write(&c->ssl, p, *n);
    if (would_block(r)) {
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
    if (c->state != CONN_UP) {
        return false;
    }
    if (call.identity) {
        *call.identity = c->who;
        c->admitted = true;
    }
    return true;
}

/* -- configurations -- */

static int config_init(nng_tls_engine_config *cfg, nng_tls_mode mode)
{
    (void)mode;
    atomic_init(&cfg->shaking, 0);
    if (call.tls) {
        cfg->tls = net_tls_hold(call.tls);
        cfg->policy = *call.policy;
        snprintf(cfg->name, sizeof cfg->name, "%s", call.policy->name ? call.policy->name : "");
        cfg->policy.name = cfg->name;
    }
    return 0;
}

static void config_fini(nng_tls_engine_config *cfg)
{
    net_tls_free(cfg->tls);
    if (cfg->policy.release) {
        cfg->policy.release(cfg->policy.ctx);
    }
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

enum err net_engine_config(struct nng_tls_config **out, struct net_tls *tls,
                           const struct net_policy *policy)
{
    int rv;

    call.tls = tls;
    call.policy = policy;
    rv = nng_tls_config_alloc(out,
                              net_tls_is_server(tls) ? NNG_TLS_MODE_SERVER : NNG_TLS_MODE_CLIENT);
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

    call.identity = &who;
    rv = nng_pipe_get_bool(pipe, NNG_OPT_TLS_VERIFIED, &verified);
    call.identity = NULL;
    if (rv != 0 || !verified) {
        return ERR_CLOSED;
    }
    *out = who;
    return ERR_OK;
}
