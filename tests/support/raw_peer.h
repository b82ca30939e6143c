/* A peer that does as the test says, not as the protocol does: bytes over TCP, or over TLS with any
 * certificate. It never checks whom it talks to. Threads: one owner. */
#ifndef PROCFLEET_TESTS_SUPPORT_RAW_PEER_H
#define PROCFLEET_TESTS_SUPPORT_RAW_PEER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"

struct raw_peer;

/* Which certificate it shows; both NULL: none. */
struct raw_cert {
    const char *cert, *key; /* PEM files */
};

/* Connects to a port of 127.0.0.1 and does no TLS. */
NODISCARD enum err raw_peer_connect(struct raw_peer **out, unsigned port);

/* Waits for somebody to connect to a port of its own; `ready` is told the port first. */
NODISCARD enum err raw_peer_accept(struct raw_peer **out, void (*ready)(void *ctx, unsigned port),
                                   void *ctx);

/* Ends that connection and waits for the next one to the same port. Errors: ERR_IO */
NODISCARD enum err raw_peer_accept_next(struct raw_peer *p);

/* A server that begins the handshake and ends the connection when the client has shown who it is.
 * Errors: ERR_REFUSED (the client went first), ERR_INVALID (files) */
NODISCARD enum err raw_peer_break_tls(struct raw_peer *p, const struct raw_cert *cert);

/* A server that takes all the client shows and refuses it with this alert.
 * Errors: ERR_REFUSED (the client went first), ERR_INVALID (files) */
NODISCARD enum err raw_peer_refuse_tls(struct raw_peer *p, const struct raw_cert *cert,
                                       unsigned char alert);

/* A client that says who it is, and the rest only when the server has answered to that.
 * Gives the server's alert. Errors: ERR_CLOSED (there was none), ERR_INVALID (files) */
NODISCARD enum err raw_peer_hesitate(struct raw_peer *p, const struct raw_cert *cert,
                                     unsigned *alert);

/* A server on `port` that dies `times` times: takes a connection, waits for what the client says
 * first, and is gone. The port is free before the last client notices. Errors: ERR_IO */
NODISCARD enum err raw_peer_die(unsigned port, unsigned times);

/* The handshake. Errors: ERR_REFUSED, ERR_INVALID (files) */
NODISCARD enum err raw_peer_tls(struct raw_peer *p, bool server, const struct raw_cert *cert);

/* Errors: ERR_CLOSED */
NODISCARD enum err raw_peer_send(struct raw_peer *p, const void *bytes, size_t n);

/* Reads exactly n bytes. Errors: ERR_CLOSED, ERR_TIMEOUT */
NODISCARD enum err raw_peer_read(struct raw_peer *p, void *bytes, size_t n, unsigned timeout_ms);

/* Whether the other side closes within the time; what it says before is thrown away. */
bool raw_peer_is_closed(struct raw_peer *p, unsigned timeout_ms);

void raw_peer_close(struct raw_peer *p); /* NULL is allowed */

#endif
