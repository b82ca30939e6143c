/* A collector's enroll listener whose answers a test decides: real sockets, TLS, calls and
 * certificates. Failures end the test. Threads: the fields are set while no call is under way. */
#ifndef PROCFLEET_TESTS_AGENT_ENROLL_DESK_H
#define PROCFLEET_TESTS_AGENT_ENROLL_DESK_H

#include <stdatomic.h>

#include "common/rpc/rpc.h"
#include "common/wire/wire_enroll.h"
#include "tests/support/certs.h"

enum desk_trick {
    DESK_HONEST,
    DESK_OTHER_KEY,       /* the certificate is of another key */
    DESK_OTHER_ROLE,      /* and not an agent's */
    DESK_OTHER_HOST,      /* RenewExpired: another id */
    DESK_OTHER_NAME,      /* RenewExpired */
    DESK_OTHER_AUTHORITY, /* signed by `other` */
    DESK_NO_AUTHORITY,    /* none is sent */
    DESK_CUT,             /* `cut` bytes of the answer are sent */
    DESK_TRICKS
};

struct desk {
    struct rpc_server *server;
    struct certs *pki, *other;
    struct tls_config *tls;
    enum desk_trick trick;
    size_t cut, reply_n; /* reply_n: of the last whole answer */
    unsigned busy;       /* so many calls are answered RESOURCE_EXHAUSTED */
    enum rpc_code refuse;
    const char *message;
    int64_t life_ns, ahead_ns; /* of certificates; of the clock */
    atomic_uint calls;
    char address[32], token[WIRE_TOKEN_MAX + 1], name[64]; /* token, name: of the last Enroll */
};

/* Shows the certificate "collector" of `pki`. */
struct desk *desk_open(struct certs *pki, struct certs *other);
void desk_close(struct desk *d);

/* The answer to a request as this desk gives it, for calls that come another way. */
NODISCARD enum err desk_sign(struct desk *d, struct buf *reply, const void *csr, size_t csr_n,
                             const struct net_identity *who);

/* A token's text with the pin of `pki`. */
void desk_token(char text[WIRE_TOKEN_MAX + 1], struct certs *pki);

#endif
