/* Addresses as text, and as NNG has them. For net*.c only. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_NET_NET_ADDR_H
#define PROCFLEET_COMMON_NET_NET_ADDR_H

#include <stddef.h>

#include "common/base/err.h"

#define NET_ADDR_URL_MAX 320

/* "host:port" to a URL. Errors: ERR_INVALID */
NODISCARD enum err net_addr_url(char url[NET_ADDR_URL_MAX], const char *address,
                                struct errmsg *why);

/* Why an address cannot be listened on, and what to do. `rv` is NNG's. Gives the code for it. */
NODISCARD enum err net_addr_refused(int rv, const char *address, struct errmsg *why);

/* The far end of an nng_stream: "192.0.2.1:40312", "[2001:db8:0:0:0:0:0:1]:40312", or "?". */
void net_addr_peer(char *text, size_t size, void *stream);

#endif
