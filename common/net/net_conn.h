/* What is behind a listener's or a dialer's configuration, and the connections that NNG makes with
 * it. Between net.c, net_engine.c and net_conn.c only. */
#ifndef PROCFLEET_COMMON_NET_NET_CONN_H
#define PROCFLEET_COMMON_NET_NET_CONN_H

#include <nng/nng.h>
#include <nng/supplemental/tls/engine.h>

#include "common/tls/tls_config.h"
#include "common/tls/tls_engine.h"
#include "common/tls/tls_session.h"

struct nng_tls_engine_config {
    struct tls_config *tls; /* NULL: refuses everything */
    struct net_policy policy;
    char name[32];
    struct net_session *session; /* dialers that resume */
};

/* How NNG drives a connection. */
extern nng_tls_engine_conn_ops net_conn_ops;

/* Where `verified` copies the peer's identity on this thread; NULL: nowhere. */
void net_conn_ask(struct net_identity *out);

#endif
