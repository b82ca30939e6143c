/* A client of our HTTP servers that says what it wants: raw bytes. Linux. */
#ifndef PROCFLEET_TESTS_COMMON_HTTP_HTTP_PEER_H
#define PROCFLEET_TESTS_COMMON_HTTP_HTTP_PEER_H

#include <stdbool.h>
#include <stddef.h>

int http_peer_dial(unsigned port); /* 127.0.0.1 */
/* False: the server has closed before it took all. */
bool http_peer_tell(int fd, const void *p, size_t n);
/* All up to the end of the connection, which is awaited; closes. */
size_t http_peer_hear(int fd, char *text, size_t size);

#endif
