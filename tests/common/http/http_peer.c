#include "tests/common/http/http_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/t.h"

#define PATIENCE_S 30

int http_peer_dial(unsigned port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    struct timeval patience = {.tv_sec = PATIENCE_S};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

bool http_peer_tell(int fd, const void *p, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);

        if (sent <= 0) {
            assert_true(errno == EPIPE || errno == ECONNRESET);
            return false;
        }
        p = (const char *)p + sent;
        n -= (size_t)sent;
    }
    return true;
}

size_t http_peer_hear(int fd, char *text, size_t size)
{
    size_t n = 0;

    for (;;) {
        ssize_t got = recv(fd, text + n, size - 1 - n, 0);

        if (got <= 0) {
            assert_true(got == 0 || errno == ECONNRESET); /* and no timeout */
            text[n] = '\0';
            close(fd);
            return n;
        }
        n += (size_t)got;
        assert_true(n < size - 1);
    }
}
