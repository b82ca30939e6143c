/* NNG keeps its sockets to itself, so the listening one is looked for among the descriptors of this
 * program: it listens, and at our port. Everything set there is inherited by the connections that
 * it accepts.
 *
 * The queue of connections that wait to be taken is first in, first out, and whoever dialled gives
 * up after ten seconds. So it must not hold more than we greet in less than that: else, once it is
 * full, all we take is stale, every handshake is done for somebody who has left, and those come
 * back and keep it full. (With 4,096 places and two cores at half their speed 4,000 agents stayed
 * out for ever.) Who finds no room is told nothing: its system asks again after one second, three,
 * seven, at no cost to anybody, and the ten seconds begin when it gets in. */
#include "common/net/socket_tune.h"

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

#define BACKLOG         256 /* NNG says 128 */
#define DEFER_S         5   /* for the first bytes; then the connection is handed over without */
#define IDLE_S          60 /* without a byte, before the system asks whether the other side lives */
#define ASK_S           10
#define ASK_TIMES       3
#define USER_TIMEOUT_MS 60000 /* for the other side to take what was sent */

static bool listens_at(int fd, unsigned port)
{
    struct sockaddr_storage sa;
    socklen_t n = sizeof sa;
    int listens = 0;
    socklen_t listens_n = sizeof listens;

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_n) != 0 || !listens ||
        getsockname(fd, (struct sockaddr *)&sa, &n) != 0) {
        return false;
    }
    if (sa.ss_family == AF_INET) {
        return ntohs(((const struct sockaddr_in *)&sa)->sin_port) == port;
    }
    return sa.ss_family == AF_INET6 && ntohs(((const struct sockaddr_in6 *)&sa)->sin6_port) == port;
}

static enum err socket_set(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_DEFER_ACCEPT, DEFER_S},
        {IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, ASK_S},
        {IPPROTO_TCP, TCP_KEEPCNT, ASK_TIMES},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS},
    };
    enum err e = listen(fd, BACKLOG) == 0 ? ERR_OK : ERR_IO; /* again is allowed, and is longer */

    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                       sizeof options[i].value) != 0) {
            e = ERR_IO;
        }
    }
    return e;
}

enum err socket_tune(unsigned port)
{
    DIR *d = opendir("/proc/self/fd");
    enum err e = ERR_NOTFOUND;
    struct dirent *entry;

    while (d && (entry = readdir(d)) != NULL) {
        char *end;
        long fd = strtol(entry->d_name, &end, 10);

        if (end != entry->d_name && *end == '\0' && listens_at((int)fd, port)) {
            e = socket_set((int)fd);
        }
    }
    if (d) {
        closedir(d);
    }
    return e;
}
