/* Any bytes from a client of the HTTP listener, over a socket of this machine: byte 0 says into how
 * many writes the others are cut. The listener answers with a whole reply of a status that it has,
 * or hangs up; and every so often a good request shows that it lives. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "collector/metrics/http.h"
#include "common/base/clk.h"
#include "tests/fuzz/filled_store.h"

#define REPLY_MAX (1u << 20)
#define PATIENCE  10 /* s: whoever waits so long hangs */
#define GOOD_EACH 32 /* inputs */

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static struct http *http;

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

/* -- the listener -- */

static void metrics(void *ctx, struct metrics *out)
{
    (void)ctx;
    out->n = 0;
}

static bool ready(void *ctx, struct errmsg *why)
{
    (void)ctx;
    (void)why;
    return true;
}

static int64_t stuck_ns(void *ctx)
{
    (void)ctx;
    return 0;
}

static void stop(void)
{
    http_stop(http);
}

static void start(void)
{
    const struct http_conf conf = {
        .address = "127.0.0.1:0",
        .refresh_ns = 3600 * CLK_S,
        .fleet = {.store = filled_store(), .hosts_max = 10, .programs = 5},
        .metrics = metrics,
        .ready = ready,
        .stuck_ns = stuck_ns,
    };
    struct errmsg why;

    must(http_start(&http, &conf, &why) == ERR_OK);
    (void)atexit(stop); /* before the store goes */
}

/* -- a client -- */

static int dial(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)http_port(http)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = PATIENCE};
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    must(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    must(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
    must(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    return fd;
}

/* A refusal may come before all is said. */
static void say(int fd, const uint8_t *p, size_t n, size_t writes)
{
    size_t each = n / writes + 1;

    for (size_t at = 0; at < n; at += each) {
        size_t want = n - at < each ? n - at : each;

        if (send(fd, p + at, want, MSG_NOSIGNAL) != (ssize_t)want) {
            return;
        }
    }
    (void)shutdown(fd, SHUT_WR);
}

/* Everything until the other side hangs up, which it has to. */
static size_t hear(int fd, char *reply)
{
    struct timeval begin, end;
    size_t n = 0;
    ssize_t got;

    must(gettimeofday(&begin, NULL) == 0);
    do {
        got = recv(fd, reply + n, REPLY_MAX - n, 0);
        n += got > 0 ? (size_t)got : 0;
        must(n < REPLY_MAX);
    } while (got > 0);
    must(gettimeofday(&end, NULL) == 0 && end.tv_sec - begin.tv_sec < PATIENCE - 1);
    reply[n] = '\0';
    return n;
}

/* bare: a request that wants no body. */
static void judge(const char *reply, size_t n, bool bare)
{
    static const char *const known[] = {" 200 ", " 400 ", " 404 ", " 405 ", " 411 ", " 413 ",
                                        " 414 ", " 421 ", " 431 ", " 501 ", " 503 ", " 505 "};
    const char *length = strstr(reply, "Content-Length: "), *body = strstr(reply, "\r\n\r\n");
    bool is_known = false;
    size_t after, want;

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        is_known = is_known || strncmp(reply + 8, known[i], strlen(known[i])) == 0;
    }
    must(strncmp(reply, "HTTP/1.", 7) == 0 && is_known && length && body && length < body);
    after = (size_t)(reply + n - (body + 4));
    want = strtoul(length + 16, NULL, 10);
    if (after > want && strstr(body + 4 + want, "HTTP/1.1 400 ") == body + 4 + want) {
        judge(body + 4 + want, after - want, bare); /* the library repeats a 400 of its own */
        return;
    }
    must(after == want || (bare && after == 0));
}

static size_t talk(const uint8_t *p, size_t n, size_t writes, char *reply)
{
    int fd = dial();
    size_t heard;

    say(fd, p, n, writes);
    heard = hear(fd, reply);
    must(close(fd) == 0);
    return heard;
}

static void lives(char *reply)
{
    static const char good[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

    must(talk((const uint8_t *)good, sizeof good - 1, 1, reply) > 0);
    must(strncmp(reply, "HTTP/1.1 200 ", 13) == 0 && strstr(reply, "\r\n\r\nok\n"));
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static char reply[REPLY_MAX + 1];
    static unsigned inputs;
    size_t heard;

    if (!http) {
        start();
    }
    if (n == 0) {
        return 0;
    }
    heard = talk(p + 1, n - 1, 1 + p[0] % 4, reply);
    if (heard > 0) {
        judge(reply, heard, n > 4 && memcmp(p + 1, "HEAD", 4) == 0);
    }
    if (++inputs % GOOD_EACH == 0) {
        lives(reply);
    }
    return 0;
}
