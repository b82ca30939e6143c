#include "tests/support/raw_peer.h"

#include <stdio.h>
#include <string.h>

#include <mbedtls/net_sockets.h>
#include <mbedtls/oid.h>
#include <mbedtls/ssl.h>

#include "common/base/mem.h"
#include "common/pki/pki.h"

struct raw_peer {
    mbedtls_net_context listener, net;
    bool tls;
    mbedtls_ssl_config rules;
    mbedtls_ssl_context ssl;
    mbedtls_x509_crt cert;
    mbedtls_pk_context key;
};

static struct raw_peer *create(void)
{
    struct raw_peer *p = mem_zalloc(sizeof *p);

    if (p) {
        mbedtls_net_init(&p->listener);
        mbedtls_net_init(&p->net);
        mbedtls_ssl_config_init(&p->rules);
        mbedtls_ssl_init(&p->ssl);
        mbedtls_x509_crt_init(&p->cert);
        mbedtls_pk_init(&p->key);
    }
    return p;
}

static void forget_tls(struct raw_peer *p)
{
    mbedtls_ssl_free(&p->ssl);
    mbedtls_ssl_config_free(&p->rules);
    mbedtls_x509_crt_free(&p->cert);
    mbedtls_pk_free(&p->key);
    p->tls = false;
}

void raw_peer_close(struct raw_peer *p)
{
    if (!p) {
        return;
    }
    forget_tls(p);
    mbedtls_net_free(&p->net);
    mbedtls_net_free(&p->listener);
    mem_free(p);
}

enum err raw_peer_connect(struct raw_peer **out, unsigned port)
{
    struct raw_peer *p = create();
    char text[16];

    if (!p) {
        return ERR_NOMEM;
    }
    snprintf(text, sizeof text, "%u", port);
    if (mbedtls_net_connect(&p->net, "127.0.0.1", text, MBEDTLS_NET_PROTO_TCP) != 0) {
        raw_peer_close(p);
        return ERR_UNREACHABLE;
    }
    *out = p;
    return ERR_OK;
}

/* mbedTLS's helper does not tell which port it got: free ones are tried upwards. */
static unsigned bind_somewhere(mbedtls_net_context *listener)
{
    unsigned char seed[2] = {0, 0};

    if (pki_rng(NULL, seed, sizeof seed) != 0) {
        return 0;
    }
    for (unsigned i = 0; i < 1000; i++) {
        unsigned port = 20000 + ((unsigned)seed[0] << 4) + seed[1] + i;
        char text[16];

        snprintf(text, sizeof text, "%u", port);
        if (mbedtls_net_bind(listener, "127.0.0.1", text, MBEDTLS_NET_PROTO_TCP) == 0) {
            return port;
        }
    }
    return 0;
}

enum err raw_peer_accept(struct raw_peer **out, void (*ready)(void *ctx, unsigned port), void *ctx)
{
    struct raw_peer *p = create();
    unsigned port;
    enum err e = ERR_IO;

    if (!p) {
        return ERR_NOMEM;
    }
    port = bind_somewhere(&p->listener);
    if (port > 0) {
        ready(ctx, port);
        e = raw_peer_accept_next(p);
    }
    if (e) {
        raw_peer_close(p);
        return e;
    }
    *out = p;
    return ERR_OK;
}

enum err raw_peer_die(unsigned port, unsigned times)
{
    mbedtls_net_context listener, one;
    unsigned char byte;
    char text[16];
    enum err e = ERR_OK;

    mbedtls_net_init(&listener);
    snprintf(text, sizeof text, "%u", port);
    if (mbedtls_net_bind(&listener, "127.0.0.1", text, MBEDTLS_NET_PROTO_TCP) != 0) {
        e = ERR_IO;
    }
    for (unsigned i = 0; i < times && !e; i++) {
        mbedtls_net_init(&one);
        if (mbedtls_net_accept(&listener, &one, NULL, 0, NULL) != 0) {
            e = ERR_IO;
        }
        if (i + 1 == times) {
            mbedtls_net_free(&listener);
        }
        if (!e && mbedtls_net_recv_timeout(&one, &byte, 1, 20000) != 1) {
            e = ERR_IO;
        }
        mbedtls_net_free(&one);
    }
    mbedtls_net_free(&listener);
    return e;
}

enum err raw_peer_accept_next(struct raw_peer *p)
{
    forget_tls(p);
    mbedtls_net_free(&p->net);
    return mbedtls_net_accept(&p->listener, &p->net, NULL, 0, NULL) == 0 ? ERR_OK : ERR_IO;
}

static enum err load(struct raw_peer *p, const struct raw_cert *c)
{
    if (!c->cert) {
        return ERR_OK;
    }
    if (mbedtls_x509_crt_parse_file(&p->cert, c->cert) != 0 ||
        mbedtls_pk_parse_keyfile(&p->key, c->key, NULL, pki_rng, NULL) != 0 ||
        mbedtls_ssl_conf_own_cert(&p->rules, &p->cert, &p->key) != 0) {
        return ERR_INVALID;
    }
    /* mbedTLS would not show a certificate against its use: it must not know. */
    p->cert.MBEDTLS_PRIVATE(ext_types) &= ~MBEDTLS_X509_EXT_EXTENDED_KEY_USAGE;
    return ERR_OK;
}

static enum err set_up_tls(struct raw_peer *p, bool server, const struct raw_cert *cert)
{
    enum err e;

    if (mbedtls_ssl_config_defaults(
            &p->rules, server ? MBEDTLS_SSL_IS_SERVER : MBEDTLS_SSL_IS_CLIENT,
            MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT) != 0) {
        return ERR_NOMEM;
    }
    mbedtls_ssl_conf_authmode(&p->rules, MBEDTLS_SSL_VERIFY_NONE);
    mbedtls_ssl_conf_max_tls_version(&p->rules, MBEDTLS_SSL_VERSION_TLS1_2);
    mbedtls_ssl_conf_rng(&p->rules, pki_rng, NULL);
    e = load(p, cert);
    if (!e && mbedtls_ssl_setup(&p->ssl, &p->rules) != 0) {
        e = ERR_NOMEM;
    }
    if (e) {
        return e;
    }
    if (!server && mbedtls_ssl_set_hostname(&p->ssl, NULL) != 0) {
        return ERR_NOMEM;
    }
    mbedtls_ssl_set_bio(&p->ssl, &p->net, mbedtls_net_send, mbedtls_net_recv,
                        mbedtls_net_recv_timeout);
    return ERR_OK;
}

enum err raw_peer_tls(struct raw_peer *p, bool server, const struct raw_cert *cert)
{
    enum err e = set_up_tls(p, server, cert);

    if (e) {
        return e;
    }
    p->tls = mbedtls_ssl_handshake(&p->ssl) == 0;
    return p->tls ? ERR_OK : ERR_REFUSED;
}

/* Goes on with the handshake up to this state. */
static int shake_until(struct raw_peer *p, int state)
{
    int r = 0;

    while (r == 0 && p->ssl.MBEDTLS_PRIVATE(state) < state) {
        r = mbedtls_ssl_handshake_step(&p->ssl);
    }
    return r;
}

enum err raw_peer_refuse_tls(struct raw_peer *p, const struct raw_cert *cert, unsigned char alert)
{
    enum err e = set_up_tls(p, true, cert);

    if (e) {
        return e;
    }
    if (shake_until(p, MBEDTLS_SSL_SERVER_CHANGE_CIPHER_SPEC) != 0 ||
        mbedtls_ssl_send_alert_message(&p->ssl, MBEDTLS_SSL_ALERT_LEVEL_FATAL, alert) != 0) {
        return ERR_REFUSED;
    }
    return ERR_OK;
}

enum err raw_peer_hesitate(struct raw_peer *p, const struct raw_cert *cert, unsigned *alert)
{
    enum err e = set_up_tls(p, false, cert);

    if (e) {
        return e;
    }
    if (shake_until(p, MBEDTLS_SSL_CLIENT_KEY_EXCHANGE) != 0 ||
        mbedtls_net_poll(&p->net, MBEDTLS_NET_POLL_READ, 20000) <= 0 ||
        mbedtls_ssl_handshake(&p->ssl) != MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE) {
        return ERR_CLOSED;
    }
    *alert = p->ssl.MBEDTLS_PRIVATE(in_msg)[1];
    return ERR_OK;
}

enum err raw_peer_break_tls(struct raw_peer *p, const struct raw_cert *cert)
{
    enum err e = set_up_tls(p, true, cert);
    int r = e ? 0 : shake_until(p, MBEDTLS_SSL_CLIENT_CERTIFICATE);

    if (!e && r == 0) { /* closing with its answer unread is how an end looks that comes at once */
        r = mbedtls_net_poll(&p->net, MBEDTLS_NET_POLL_READ, UINT32_MAX) > 0 ? 0 : -1;
    }
    mbedtls_net_free(&p->net);
    return e ? e : r == 0 ? ERR_OK : ERR_REFUSED;
}

enum err raw_peer_send(struct raw_peer *p, const void *bytes, size_t n)
{
    const unsigned char *from = bytes;

    while (n > 0) {
        int r = p->tls ? mbedtls_ssl_write(&p->ssl, from, n) : mbedtls_net_send(&p->net, from, n);

        if (r <= 0) {
            return ERR_CLOSED;
        }
        from += r;
        n -= (size_t)r;
    }
    return ERR_OK;
}

/* Bytes read, 0 = closed, -1 = nothing came. */
static int read_some(struct raw_peer *p, void *bytes, size_t n, unsigned timeout_ms)
{
    int r;

    if (p->tls) {
        mbedtls_ssl_conf_read_timeout(&p->rules, timeout_ms);
        r = mbedtls_ssl_read(&p->ssl, bytes, n);
    } else {
        r = mbedtls_net_recv_timeout(&p->net, bytes, n, timeout_ms);
    }
    if (r == MBEDTLS_ERR_SSL_TIMEOUT) {
        return -1;
    }
    return r < 0 ? 0 : r;
}

enum err raw_peer_read(struct raw_peer *p, void *bytes, size_t n, unsigned timeout_ms)
{
    unsigned char *to = bytes;

    while (n > 0) {
        int r = read_some(p, to, n, timeout_ms);

        if (r <= 0) {
            return r < 0 ? ERR_TIMEOUT : ERR_CLOSED;
        }
        to += r;
        n -= (size_t)r;
    }
    return ERR_OK;
}

bool raw_peer_is_closed(struct raw_peer *p, unsigned timeout_ms)
{
    unsigned char some[256];
    int r;

    do {
        r = read_some(p, some, sizeof some, timeout_ms);
    } while (r > 0);
    return r == 0;
}
