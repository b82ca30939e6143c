/* A resumed handshake verifies no certificate: both sides prove that they know a secret of an
 * earlier one. What must hold now is looked at again:
 *
 *   authority    the ticket opens only under the same authority and collector certificate
 *   validity, revocation, role, scope
 *                `admit` sees the session's certificate before the ticket is taken
 *   the server's certificate
 *                the client offers no session of a certificate that has expired
 *
 * A ticket that is not taken is no failure: a full handshake follows, where the peer hears why it
 * may not come in, if it may not. So there is one place where refusals are reported.
 *
 * What is sealed is mbedTLS's form of the session. That of TLS 1.3 lacks the peer's certificate, so
 * it goes along:
 *
 *   length of the form, u16 | the form | certificate, DER
 *
 * A ticket serves in the version it was given in; that of the other one is not taken.
 *
 * The client gives a session up when a handshake with it failed, when its rules changed, and when
 * the connection was lost three times in a row while it was offered: an overloaded collector drops
 * connections early, and full handshakes would be the last thing it needs then. */
#include "common/tls/tls_session.h"

#include <string.h>

#include <mbedtls/ssl.h>
#include <mbedtls/x509_crt.h>

#include "common/base/mem.h"
#include "common/os/os.h"

#define LOST_MAX 3u

/* -- the collector's side -- */

#define FORM_HEAD 2u /* TLS 1.3: its length */

static _Thread_local struct {
    const mbedtls_ssl_context *ssl;
    bool (*admit)(void *ctx, const mbedtls_x509_crt *crt);
    void *ctx;
} judge;

void tls_session_judge(const struct mbedtls_ssl_context *ssl,
                       bool (*admit)(void *ctx, const struct mbedtls_x509_crt *crt), void *ctx)
{
    judge.ssl = ssl;
    judge.admit = admit;
    judge.ctx = ctx;
}

/* What a ticket of TLS 1.3 holds; *n is its length. */
static int session_save_1_3(const mbedtls_ssl_session *session, unsigned char *p, size_t room,
                            size_t *n)
{
    const mbedtls_x509_crt *crt = session->MBEDTLS_PRIVATE(peer_cert);
    size_t form;
    int r;

    if (!crt || room < FORM_HEAD) {
        return MBEDTLS_ERR_SSL_INTERNAL_ERROR;
    }
    r = mbedtls_ssl_session_save(session, p + FORM_HEAD, room - FORM_HEAD, &form);
    if (r != 0) {
        return r;
    }
    if (form > UINT16_MAX || crt->raw.len > room - FORM_HEAD - form) {
        return MBEDTLS_ERR_SSL_BUFFER_TOO_SMALL;
    }
    p[0] = (unsigned char)form;
    p[1] = (unsigned char)(form >> 8);
    memcpy(p + FORM_HEAD + form, crt->raw.p, crt->raw.len);
    *n = FORM_HEAD + form + crt->raw.len;
    return 0;
}

int tls_session_write(void *seal, const struct mbedtls_ssl_session *session, unsigned char *start,
                      const unsigned char *end, size_t *n, uint32_t *life_s)
{
    const struct tls_session_seal *s = seal;
    size_t room = (size_t)(end - start), content;
    bool is_1_3 = session->MBEDTLS_PRIVATE(tls_version) == MBEDTLS_SSL_VERSION_TLS1_3;
    int r;

    /* Before anything can fail: mbedTLS sends both in any case. */
    *n = 0;
    *life_s = TLS_TICKET_LIFE_S;
    if (room < TLS_TICKET_HEAD + TLS_TICKET_TAIL) {
        return MBEDTLS_ERR_SSL_BUFFER_TOO_SMALL;
    }
    room -= TLS_TICKET_HEAD + TLS_TICKET_TAIL;
    r = (is_1_3 ? session_save_1_3 : mbedtls_ssl_session_save)(session, start + TLS_TICKET_HEAD,
                                                               room, &content);
    if (r != 0) {
        return r;
    }
    if (tls_ticket_seal(s->keys, s->binding, os_utc_ns(), start, content) != ERR_OK) {
        return MBEDTLS_ERR_SSL_INTERNAL_ERROR;
    }
    *n = TLS_TICKET_HEAD + content + TLS_TICKET_TAIL;
    return 0;
}

static bool session_admit(const mbedtls_x509_crt *crt)
{
    return crt && judge.admit && judge.admit(judge.ctx, crt);
}

/* mbedTLS looks at the versions of tickets in TLS 1.3 only. */
static bool session_load(mbedtls_ssl_session *session, const unsigned char *p, size_t n)
{
    return mbedtls_ssl_session_load(session, p, n) == 0 &&
           session->MBEDTLS_PRIVATE(tls_version) == mbedtls_ssl_get_version_number(judge.ssl);
}

static bool session_parse_1_2(mbedtls_ssl_session *session, const unsigned char *p, size_t n)
{
    return session_load(session, p, n) && session_admit(session->MBEDTLS_PRIVATE(peer_cert));
}

static bool session_parse_1_3(mbedtls_ssl_session *session, const unsigned char *p, size_t n)
{
    mbedtls_x509_crt crt;
    size_t form = n < FORM_HEAD ? SIZE_MAX : (size_t)(p[0] | p[1] << 8);
    bool good =
        n >= FORM_HEAD && form <= n - FORM_HEAD && session_load(session, p + FORM_HEAD, form);

    mbedtls_x509_crt_init(&crt);
    good = good &&
           mbedtls_x509_crt_parse_der(&crt, p + FORM_HEAD + form, n - FORM_HEAD - form) == 0 &&
           session_admit(&crt);
    mbedtls_x509_crt_free(&crt);
    return good;
}

int tls_session_parse(void *seal, struct mbedtls_ssl_session *session, unsigned char *p, size_t n)
{
    const struct tls_session_seal *s = seal;
    size_t content;
    bool good;

    if (!judge.ssl ||
        tls_ticket_unseal(s->keys, s->binding, os_utc_ns(), p, n, &content) != ERR_OK) {
        return MBEDTLS_ERR_SSL_INVALID_MAC;
    }
    good = (mbedtls_ssl_get_version_number(judge.ssl) == MBEDTLS_SSL_VERSION_TLS1_3
                ? session_parse_1_3
                : session_parse_1_2)(session, p + TLS_TICKET_HEAD, content);
    return good ? 0 : MBEDTLS_ERR_SSL_SESSION_TICKET_EXPIRED;
}

/* -- the client's side -- */

struct tls_session {
    struct os_mutex *lock; /* guards what follows */
    uint64_t rules;        /* of the session; 0: there is none */
    mbedtls_ssl_session session;
    unsigned lost; /* connections in a row */
};

enum err tls_session_create(struct tls_session **out)
{
    struct tls_session *s = mem_zalloc(sizeof *s);
    enum err e;

    if (!s) {
        return ERR_NOMEM;
    }
    mbedtls_ssl_session_init(&s->session);
    e = os_mutex_create(&s->lock);
    if (e) {
        tls_session_destroy(s);
        return e;
    }
    *out = s;
    return ERR_OK;
}

/* The lock is held, or there is no other thread. */
static void session_drop(struct tls_session *s)
{
    mbedtls_ssl_session_free(&s->session);
    mbedtls_ssl_session_init(&s->session);
    s->rules = 0;
    s->lost = 0;
}

void tls_session_destroy(struct tls_session *s)
{
    if (s) {
        session_drop(s);
        os_mutex_destroy(s->lock);
        mem_free(s);
    }
}

static bool has_expired(const mbedtls_x509_crt *crt)
{
    return !crt || mbedtls_x509_time_is_past(&crt->valid_to);
}

bool tls_session_offer(struct tls_session *s, uint64_t rules, struct mbedtls_ssl_context *ssl)
{
    bool offered = false;

    os_mutex_lock(s->lock);
    if (s->rules && (s->rules != rules || has_expired(s->session.MBEDTLS_PRIVATE(peer_cert)))) {
        session_drop(s);
    }
    if (s->rules) {
        offered = mbedtls_ssl_set_session(ssl, &s->session) == 0;
    }
    os_mutex_unlock(s->lock);
    return offered;
}

void tls_session_keep(struct tls_session *s, uint64_t rules, const struct mbedtls_ssl_context *ssl)
{
    mbedtls_ssl_session fresh;

    mbedtls_ssl_session_init(&fresh);
    if (mbedtls_ssl_get_session(ssl, &fresh) != 0 || fresh.MBEDTLS_PRIVATE(ticket_len) == 0) {
        mbedtls_ssl_session_free(&fresh);
        return;
    }
    os_mutex_lock(s->lock);
    session_drop(s);
    s->session = fresh; /* moved */
    s->rules = rules;
    os_mutex_unlock(s->lock);
}

void tls_session_offered(struct tls_session *s, enum tls_session_offer_state how)
{
    os_mutex_lock(s->lock);
    if (how == TLS_SESSION_TAKEN) {
        s->lost = 0;
    } else if (how == TLS_SESSION_FAILED || ++s->lost >= LOST_MAX) {
        session_drop(s);
    }
    os_mutex_unlock(s->lock);
}
