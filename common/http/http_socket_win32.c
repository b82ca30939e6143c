#include "common/http/http_socket.h"

#include <stdbool.h>
#include <stdio.h>

#include "common/http/http_host.h"
#include "common/os/win32.h"

#define BACKLOG 128

/* For the system's code, and what to do. */
static enum err listen_failed(int cause, const char *address, struct errmsg *why)
{
    switch (cause) {
    case WSAEADDRINUSE:
        return errmsg_set(why, ERR_BUSY,
                          "cannot listen on %s: another program listens there; end it, or choose "
                          "another port",
                          address);
    case WSAEADDRNOTAVAIL:
        return errmsg_set(why, ERR_UNREACHABLE,
                          "cannot listen on %s: this machine has no such address", address);
    case WSAEACCES:
        return errmsg_set(why, ERR_ACCESS,
                          "cannot listen on %s: not permitted; another program may have this port "
                          "alone, or the system keeps it",
                          address);
    default:
        return errmsg_set(why, ERR_IO, "cannot listen on %s: error %d", address, cause);
    }
}

/* Nobody else may listen at the same address beside us, as Windows lets others by default. */
static SOCKET listen_at(const struct addrinfo *at)
{
    SOCKET s = socket(at->ai_family, SOCK_STREAM, IPPROTO_TCP);
    BOOL on = TRUE;
    u_long nonblocking = 1;
    int cause;

    if (s == INVALID_SOCKET) {
        return s;
    }
    if (setsockopt(s, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, (const char *)&on, sizeof on) == 0 &&
        ioctlsocket(s, (long)FIONBIO, &nonblocking) == 0 &&
        bind(s, at->ai_addr, (int)at->ai_addrlen) == 0 && listen(s, BACKLOG) == 0) {
        (void)SetHandleInformation((HANDLE)s, HANDLE_FLAG_INHERIT, 0);
        return s;
    }
    cause = WSAGetLastError();
    (void)closesocket(s);
    WSASetLastError(cause);
    return INVALID_SOCKET;
}

static SOCKET listen_any(const char *host, const char *port)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    SOCKET s = INVALID_SOCKET;
    int cause = WSAEADDRNOTAVAIL;

    if (getaddrinfo(host[0] ? host : NULL, port, &hints, &list) != 0) {
        list = NULL;
    }
    for (const struct addrinfo *at = list; at && s == INVALID_SOCKET; at = at->ai_next) {
        s = listen_at(at);
        cause = s == INVALID_SOCKET ? WSAGetLastError() : cause;
    }
    if (list) {
        freeaddrinfo(list);
    }
    WSASetLastError(cause);
    return s;
}

static unsigned port_of(SOCKET s)
{
    struct sockaddr_storage sa = {0};
    int n = sizeof sa;

    if (getsockname(s, (struct sockaddr *)&sa, &n) != 0) {
        return 0;
    }
    return ntohs(sa.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&sa)->sin6_port
                                          : ((const struct sockaddr_in *)&sa)->sin_port);
}

enum err http_socket_listen(intptr_t *fd, unsigned *port, const char *address, struct errmsg *why)
{
    char host[HTTP_HOST_MAX];
    const char *number;
    WSADATA data;
    SOCKET s;

    if (http_host_split(host, &number, address)) {
        return errmsg_set(why, ERR_INVALID, "'%.80s' is no address: write host:port, or [v6]:port",
                          address ? address : "");
    }
    if (WSAStartup(MAKEWORD(2, 2), &data) != 0) { /* counted; as long as the program */
        return errmsg_set(why, ERR_IO, "no network");
    }
    s = listen_any(host, number);
    if (s == INVALID_SOCKET) {
        return listen_failed(WSAGetLastError(), address, why);
    }
    *fd = (intptr_t)s;
    *port = port_of(s);
    return ERR_OK;
}

void http_socket_end(intptr_t fd)
{
    (void)shutdown((SOCKET)fd, SD_BOTH);
}

void http_socket_address(char *text, size_t size, const void *sa)
{
    const struct sockaddr *any = sa;
    const void *ip = NULL;
    int family = AF_INET;

    if (any && any->sa_family == AF_INET) {
        ip = &((const struct sockaddr_in *)sa)->sin_addr;
    } else if (any && any->sa_family == AF_INET6) {
        family = AF_INET6;
        ip = &((const struct sockaddr_in6 *)sa)->sin6_addr;
    }
    if (!ip || !inet_ntop(family, ip, text, size)) {
        (void)snprintf(text, size, "?");
    }
}
