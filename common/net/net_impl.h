/* What the net_*.c files share, implemented in net.c: limits, NNG's error numbers and times. */
#ifndef PROCFLEET_COMMON_NET_NET_IMPL_H
#define PROCFLEET_COMMON_NET_NET_IMPL_H

#include "common/net/net.h"

/* What the protocol puts before a message's body, beyond what callers count. */
#define NET_ENVELOPE 64u

#define NET_PEERS_DEFAULT      4096u
#define NET_SAME_DEFAULT       64u
#define NET_HANDSHAKES_DEFAULT 1024u

/* ERR_OK for 0. */
NODISCARD enum err net_error(int nng_rv);

/* Nanoseconds to NNG's milliseconds, rounded up, at least 1. */
int net_ms(int64_t ns);

#endif
