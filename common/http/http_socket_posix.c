#include "common/http/http_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/http/http_host.h"

#define BACKLOG 128

/* For errno, and what to do. */
static enum err listen_failed(int cause, const char *address, struct errmsg *why)
{
    switch (cause) {
    case EADDRINUSE:
        return errmsg_set(why, ERR_BUSY,
                          "cannot listen on %s: another program listens there; end it, or choose "
                          "another port",
                          address);
    case EADDRNOTAVAIL:
        return errmsg_set(why, ERR_UNREACHABLE,
                          "cannot listen on %s: this machine has no such address; '*' stands for "
                          "all it has",
                          address);
    case EACCES:
    case EPERM:
        return errmsg_set(why, ERR_ACCESS,
                          "cannot listen on %s: not permitted; ports below 1024 are for root",
                          address);
    default:
        return errmsg_set(why, ERR_IO, "cannot listen on %s: %s", address, strerror(cause));
    }
}

static int listen_at(const struct addrinfo *at, bool all)
{
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1, off = 0, cause;

    if (fd < 0) {
        return -1;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        (at->ai_family != AF_INET6 || !all ||
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0) &&
        bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) {
        return fd;
    }
    cause = errno;
    close(fd);
    errno = cause;
    return -1;
}

/* Everything, both families where the system has IPv6: its address comes first then. */
static int listen_any(const char *host, const char *port)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    int fd = -1, cause = EADDRNOTAVAIL;
    bool all = !host[0];

    if (getaddrinfo(all ? NULL : host, port, &hints, &list) != 0) {
        list = NULL;
    }
    for (int want6 = all ? 1 : 0; list && want6 >= 0 && fd < 0; want6--) {
        for (const struct addrinfo *at = list; at && fd < 0; at = at->ai_next) {
            if (all && (at->ai_family == AF_INET6) != (want6 == 1)) {
                continue;
            }
            fd = listen_at(at, all);
            cause = fd < 0 ? errno : cause;
        }
    }
    if (list) {
        freeaddrinfo(list);
    }
    errno = cause;
    return fd;
}

static unsigned port_of(int fd)
{
    struct sockaddr_storage sa = {0};
    socklen_t n = sizeof sa;

    if (getsockname(fd, (struct sockaddr *)&sa, &n) != 0) {
        return 0;
    }
    return ntohs(sa.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&sa)->sin6_port
                                          : ((const struct sockaddr_in *)&sa)->sin_port);
}

enum err http_socket_listen(intptr_t *fd, unsigned *port, const char *address, struct errmsg *why)
{
    char host[HTTP_HOST_MAX];
    const char *number;
    int s;

    if (http_host_split(host, &number, address)) {
        return errmsg_set(why, ERR_INVALID, "'%.80s' is no address: write host:port, or [v6]:port",
                          address ? address : "");
    }
    s = listen_any(host, number);
    if (s < 0) {
        return listen_failed(errno, address, why);
    }
    *fd = s;
    *port = port_of(s);
    return ERR_OK;
}

void http_socket_end(intptr_t fd)
{
    (void)shutdown((int)fd, SHUT_RDWR);
}

void http_socket_address(char *text, size_t size, const void *sa)
{
    const struct sockaddr *any = sa;
    const void *ip = NULL;
    int family = AF_INET;

    if (any && any->sa_family == AF_INET) {
        ip = &((const struct sockaddr_in *)sa)->sin_addr;
    } else if (any && any->sa_family == AF_INET6) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)sa)->sin6_addr;
        bool mapped = IN6_IS_ADDR_V4MAPPED(six);

        family = mapped ? AF_INET : AF_INET6;
        ip = mapped ? (const void *)&six->s6_addr[12] : six;
    }
    if (!ip || !inet_ntop(family, ip, text, (socklen_t)size)) {
        (void)snprintf(text, size, "?");
    }
}
