/* NNG's numbers, times and addresses to ours. Private to the folder. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_NET_NET_NNG_H
#define PROCFLEET_COMMON_NET_NET_NNG_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define NET_NNG_URL_MAX 320

/* What the protocol puts before a message's body, beyond what callers count. */
#define NET_NNG_ENVELOPE 64u

/* ERR_OK for 0. */
NODISCARD enum err net_nng_error(int nng_rv);

/* Nanoseconds to NNG's milliseconds, rounded up, at least 1. */
int net_nng_ms(int64_t ns);

/* "host:port" to a URL. Errors: ERR_INVALID */
NODISCARD enum err net_nng_url(char url[NET_NNG_URL_MAX], const char *address, struct errmsg *why);

/* Why an address cannot be listened on, and what to do. `rv` is NNG's. Returns the code for it. */
NODISCARD enum err net_nng_refused(int rv, const char *address, struct errmsg *why);

/* The far end of an nng_stream: "192.0.2.1:40312", "[2001:db8:0:0:0:0:0:1]:40312", or "?". */
void net_nng_peer(char *text, size_t size, void *stream);

#endif
