#include "common/net/net.h"

#include <limits.h>

#include <nng/nng.h>
#include <nng/protocol/pubsub0/pub.h>
#include <nng/supplemental/tls/tls.h>

#include "common/base/clk.h"
#include "common/net/net_impl.h"
#include "common/os/os.h"
#include "common/tls/tls_engine.h"

#define FINI_WAITS 2000 /* of a millisecond */

enum err net_init(struct errmsg *why)
{
    nng_socket s;
    int rv;

    /* Opening any socket initialises NNG, which forgets engines registered before. */
    rv = nng_pub0_open(&s);
    if (rv != 0) {
        return errmsg_set(why, net_error(rv), "cannot start the network library: %s",
                          nng_strerror(rv));
    }
    nng_close(s);
    return tls_engine_register(why);
}

void net_fini(void)
{
    /* It hangs under Wine 8 and gains nothing in a program that ends; leak checkers need it. NNG
     * panics, or forgets, when one of its threads still closes a connection that failed a moment
     * ago, or gives up one that never began. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    for (int i = 0; i < FINI_WAITS && tls_engine_live() > 0; i++) {
        os_sleep_ns(CLK_MS);
    }
    nng_fini();
#endif
}

enum err net_error(int nng_rv)
{
    switch (nng_rv) {
    case 0:
        return ERR_OK;
    case NNG_ENOMEM:
        return ERR_NOMEM;
    case NNG_ETIMEDOUT:
        return ERR_TIMEOUT;
    case NNG_ECLOSED:
    case NNG_ECANCELED:
        return ERR_CLOSED;
    case NNG_ECONNREFUSED:
    case NNG_ECONNRESET:
    case NNG_ECONNABORTED:
    case NNG_ECONNSHUT:
    case NNG_EUNREACHABLE:
        return ERR_UNREACHABLE;
    case NNG_EPEERAUTH:
    case NNG_ECRYPTO:
        return ERR_TRUST;
    case NNG_EADDRINUSE:
        return ERR_BUSY;
    case NNG_EADDRINVAL:
    case NNG_EINVAL:
        return ERR_INVALID;
    case NNG_EPERM:
        return ERR_ACCESS;
    case NNG_ENOFILES:
        return ERR_FULL;
    default:
        return ERR_IO;
    }
}

int net_ms(int64_t ns)
{
    int64_t ms = ns / CLK_MS + (ns % CLK_MS > 0);

    if (ms < 1) {
        return 1;
    }
    return ms > INT_MAX / 2 ? INT_MAX / 2 : (int)ms;
}
