#include "common/net/net_addr.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nng/nng.h>

#include "common/net/net_impl.h"

/* The colon before the port, outside of "[…]"; NULL when there is none or the port is no number. */
static const char *port_of(const char *address)
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

enum err net_addr_url(char url[NET_ADDR_URL_MAX], const char *address, struct errmsg *why)
{
    if (!address || strlen(address) > 260 || !port_of(address) || strpbrk(address, "/?#@ \t")) {
        return errmsg_set(why, ERR_INVALID, "'%.80s' is no address: write host:port, or [v6]:port",
                          address ? address : "");
    }
    snprintf(url, NET_ADDR_URL_MAX, "tls+tcp://%s", address);
    return ERR_OK;
}

enum err net_addr_refused(int rv, const char *address, struct errmsg *why)
{
    const char *text = nng_strerror(rv);
    enum err e = net_error(rv);

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
static unsigned port_number(const uint16_t *port)
{
    const uint8_t *b = (const uint8_t *)port;

    return (unsigned)b[0] << 8 | b[1];
}

static void v6_text(char *text, size_t size, const nng_sockaddr_in6 *sa)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    const uint8_t *a = sa->sa_addr;
    unsigned g[8];

    if (memcmp(a, mapped, sizeof mapped) == 0) {
        snprintf(text, size, "%u.%u.%u.%u:%u", a[12], a[13], a[14], a[15],
                 port_number(&sa->sa_port));
        return;
    }
    for (size_t i = 0; i < 8; i++) {
        g[i] = (unsigned)a[2 * i] << 8 | a[2 * i + 1];
    }
    snprintf(text, size, "[%x:%x:%x:%x:%x:%x:%x:%x]:%u", g[0], g[1], g[2], g[3], g[4], g[5], g[6],
             g[7], port_number(&sa->sa_port));
}

void net_addr_peer(char *text, size_t size, void *stream)
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
                 port_number(&sa.s_in.sa_port));
    } else if (sa.s_family == NNG_AF_INET6) {
        v6_text(text, size, &sa.s_in6);
    }
}
