/* The listening socket of the HTTP server. Private to the folder. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_HTTP_HTTP_SOCKET_H
#define PROCFLEET_COMMON_HTTP_HTTP_SOCKET_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

/* Listens on "host:port", "[v6]:port" or "*:port", which is all addresses of both families.
 * *fd    owned by the caller, who gives it to libmicrohttpd
 * Errors: ERR_INVALID, ERR_BUSY, ERR_UNREACHABLE (not of this machine), ERR_ACCESS, ERR_IO */
NODISCARD enum err http_socket_listen(intptr_t *fd, unsigned *port, const char *address,
                                      struct errmsg *why);

/* Ends a connection in both directions; it is still to be closed. */
void http_socket_end(intptr_t fd);

/* The address of a peer as text, without its port; IPv4 in its own form also where IPv6 carries it.
 * sa: a struct sockaddr; NULL and other families give "?". */
void http_socket_address(char *text, size_t size, const void *sa);

#endif
