/* TLS sessions that are taken up again: the collector's side, as mbedTLS's callbacks over
 * tls_ticket, and the client's, which keeps the last ticket of one dialer in memory. Both ways the
 * identity comes from the certificate of the handshake that began the session; the essay is in
 * tls_session.c. Private to tls/ and net/. */
#ifndef PROCFLEET_COMMON_TLS_TLS_SESSION_H
#define PROCFLEET_COMMON_TLS_TLS_SESSION_H

#include <stdbool.h>

#include "common/base/err.h"
#include "common/tls/tls_ticket.h"

struct mbedtls_ssl_context;
struct mbedtls_ssl_session;
struct mbedtls_x509_crt;

/* -- the collector's side -- */

/* With what a rule set seals; part of tls_context, and read-only. */
struct tls_session_seal {
    struct tls_ticket *keys; /* NULL: no tickets */
    uint8_t binding[32];
};

/* For mbedtls_ssl_conf_session_tickets_cb, with a tls_session_seal as context. Threads: any. */
int tls_session_write(void *seal, const struct mbedtls_ssl_session *session, unsigned char *start,
                      const unsigned char *end, size_t *n, uint32_t *life_s);
int tls_session_parse(void *seal, struct mbedtls_ssl_session *session, unsigned char *p, size_t n);

/* Who may come in to `ssl` by a ticket on this thread until the next call: `admit` is given the
 * certificate of the session; false costs its holder a full handshake, which reports what is wrong.
 * Without `admit` no ticket is taken. */
void tls_session_judge(const struct mbedtls_ssl_context *ssl,
                       bool (*admit)(void *ctx, const struct mbedtls_x509_crt *crt), void *ctx);

/* -- the client's side -- */

/* The last session of one dialer. `rules` is tls_context_id of those the handshake runs under.
 * Threads: any. */
struct tls_session;

NODISCARD enum err tls_session_create(struct tls_session **out);
void tls_session_destroy(struct tls_session *s); /* NULL is allowed */

/* Prepares a handshake under `rules` to take up the session; false: there is none for them. */
bool tls_session_offer(struct tls_session *s, uint64_t rules, struct mbedtls_ssl_context *ssl);
/* A full handshake under `rules` went well, or a ticket has come since: keeps it, if there is one.
 */
void tls_session_keep(struct tls_session *s, uint64_t rules, const struct mbedtls_ssl_context *ssl);
/* How a handshake ended for which the session was offered. */
enum tls_session_offer_state { TLS_SESSION_TAKEN, TLS_SESSION_LOST, TLS_SESSION_FAILED };
void tls_session_offered(struct tls_session *s, enum tls_session_offer_state how);

#endif
