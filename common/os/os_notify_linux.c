#include "common/os/os_notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/clk.h"

/* A path, or '@' and a name outside the file system. 0: not an address. */
static socklen_t address_of(struct sockaddr_un *out, const char *text)
{
    size_t n = text ? strlen(text) : 0;

    if (n < 2 || n >= sizeof out->sun_path || (text[0] != '/' && text[0] != '@')) {
        return 0;
    }
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out->sun_path, text, n);
    if (text[0] == '@') {
        out->sun_path[0] = '\0';
    }
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
}

static void send_to(const struct sockaddr_un *to, socklen_t to_n, const char *text, size_t n)
{
    struct timeval limit = {.tv_sec = 1};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0) {
        while (sendto(fd, text, n, MSG_NOSIGNAL, (const struct sockaddr *)to, to_n) < 0 &&
               errno == EINTR) {
        }
    }
    close(fd);
}

void os_notify(const char *fmt, ...)
{
    struct sockaddr_un to;
    socklen_t to_n = address_of(&to, getenv("NOTIFY_SOCKET"));
    char text[OS_NOTIFY_MAX];
    va_list args;
    int n;

    if (to_n == 0) {
        return;
    }
    va_start(args, fmt);
    n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n > 0) {
        send_to(&to, to_n, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
    }
}

/* A whole number of decimal digits; 0: it is not, or too large. */
static int64_t number_of(const char *text)
{
    long long n;
    char *end;

    if (!text || text[0] < '0' || text[0] > '9') {
        return 0;
    }
    errno = 0;
    n = strtoll(text, &end, 10);
    return errno || *end ? 0 : n;
}

int64_t os_notify_watchdog_ns(void)
{
    const char *pid = getenv("WATCHDOG_PID");
    int64_t us = number_of(getenv("WATCHDOG_USEC"));

    if (!getenv("NOTIFY_SOCKET") || (pid && number_of(pid) != getpid()) ||
        us > INT64_MAX / CLK_US) {
        return 0;
    }
    return us * CLK_US;
}
