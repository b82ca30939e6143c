#include "common/net/net_nng.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nng/nng.h>

#include "common/base/clk.h"

enum err net_nng_error(int nng_rv)
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

int net_nng_ms(int64_t ns)
{
    int64_t ms = ns / CLK_MS + (ns % CLK_MS > 0);

    if (ms < 1) {
        return 1;
    }
    return ms > INT_MAX / 2 ? INT_MAX / 2 : (int)ms;
}

/* -- addresses -- */

/* The colon before the port, outside of "[…]"; NULL when there is none or the port is no number. */
static const char *nng_port_at(const char *address)
{
    const char *colon = strrchr(address, ':');
    const char *bracket = strrchr(address, ']');
    char *end;
    unsigned long port;

    if (!colon || colon == address || (bracket && colon < bracket) || colon[1] < '0' ||
        colon[1] > '9') {
        return NULL;
    }
    if (!bracket && strchr(address, ':') != colon) {
        return NULL; /* a bare IPv6 address */
    }
    port = strtoul(colon + 1, &end, 10);
    return *end == '\0' && port <= 65535 ? colon : NULL;
}

enum err net_nng_url(char url[NET_NNG_URL_MAX], const char *address, struct errmsg *why)
{
    if (!address || strlen(address) > 260 || !nng_port_at(address) || strpbrk(address, "/?#@ \t")) {
        return errmsg_set(why, ERR_INVALID, "'%.80s' is no address: write host:port, or [v6]:port",
                          address ? address : "");
    }
    snprintf(url, NET_NNG_URL_MAX, "tls+tcp://%s", address);
    return ERR_OK;
}

enum err net_nng_refused(int rv, const char *address, struct errmsg *why)
{
    const char *text = nng_strerror(rv);
    enum err e = net_nng_error(rv);

    if (rv == NNG_EADDRINUSE) {
        text = "another program listens there; end it, or choose another port";
    } else if (rv == NNG_EADDRINVAL) {
        text = "this machine has no such address; '*' stands for all it has";
        e = ERR_UNREACHABLE; /* the text is an address, and the machine may get it yet */
    } else if (rv == NNG_EPERM) {
        text = "not permitted; ports below 1024 are for root";
    }
    return errmsg_set(why, e, "cannot listen on %s: %s", address, text);
}

/* A port as it stands in memory in network order. */
static unsigned nng_port_number(const uint16_t *port)
{
    const uint8_t *b = (const uint8_t *)port;

    return (unsigned)b[0] << 8 | b[1];
}

static void nng_v6_text(char *text, size_t size, const nng_sockaddr_in6 *sa)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    const uint8_t *a = sa->sa_addr;
    unsigned g[8];

    if (memcmp(a, mapped, sizeof mapped) == 0) {
        snprintf(text, size, "%u.%u.%u.%u:%u", a[12], a[13], a[14], a[15],
                 nng_port_number(&sa->sa_port));
        return;
    }
    for (size_t i = 0; i < 8; i++) {
        g[i] = (unsigned)a[2 * i] << 8 | a[2 * i + 1];
    }
    snprintf(text, size, "[%x:%x:%x:%x:%x:%x:%x:%x]:%u", g[0], g[1], g[2], g[3], g[4], g[5], g[6],
             g[7], nng_port_number(&sa->sa_port));
}

void net_nng_peer(char *text, size_t size, void *stream)
{
    nng_sockaddr sa;
    const uint8_t *a;

    snprintf(text, size, "?");
    if (nng_stream_get_addr(stream, NNG_OPT_REMADDR, &sa) != 0) {
        return;
    }
    if (sa.s_family == NNG_AF_INET) {
        a = (const uint8_t *)&sa.s_in.sa_addr;
        snprintf(text, size, "%u.%u.%u.%u:%u", a[0], a[1], a[2], a[3],
                 nng_port_number(&sa.s_in.sa_port));
    } else if (sa.s_family == NNG_AF_INET6) {
        nng_v6_text(text, size, &sa.s_in6);
    }
}
