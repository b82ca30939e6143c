/* What the net_*.c files share, implemented in net.c: addresses and NNG's error numbers. */
#ifndef PROCFLEET_COMMON_NET_IMPL_H
#define PROCFLEET_COMMON_NET_IMPL_H

#include "common/net.h"

#define NET_URL_MAX 320

/* What the protocol puts before a message's body, beyond what callers count. */
#define NET_ENVELOPE 64u

#define NET_PEERS_DEFAULT      4096u
#define NET_HANDSHAKES_DEFAULT 1024u

/* "host:port" to a URL in `url`. Errors: ERR_INVALID */
NODISCARD enum err net_url(char url[NET_URL_MAX], const char *address, struct errmsg *why);

/* The far end of an nng_stream: "192.0.2.1:40312", "[2001:db8:0:0:0:0:0:1]:40312", or "?". */
void net_stream_peer(char *text, size_t size, void *stream);

/* ERR_OK for 0. */
NODISCARD enum err net_error(int nng_rv);

/* Nanoseconds to NNG's milliseconds, rounded up, at least 1. */
int net_ms(int64_t ns);

#endif
