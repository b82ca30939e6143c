#include "common/net/net.h"

#include <stdio.h>
#include <string.h>

#include <nng/nng.h>
#include <nng/protocol/pubsub0/pub.h>
#include <nng/supplemental/tls/tls.h>

#include "common/base/clk.h"
#include "common/net/net_engine.h"
#include "common/net/net_nng.h"
#include "common/os/os.h"

#define FINI_WAITS 2000 /* of a millisecond */

enum err net_init(struct errmsg *why)
{
    nng_socket s;
    int rv;

    /* Opening any socket initialises NNG, which forgets engines registered before. */
    rv = nng_pub0_open(&s);
    if (rv != 0) {
        return errmsg_set(why, net_nng_error(rv), "cannot start the network library: %s",
                          nng_strerror(rv));
    }
    nng_close(s);
    return net_engine_register(why);
}

void net_fini(void)
{
    /* It hangs under Wine 8 and gains nothing in a program that ends; leak checkers need it. NNG
     * panics, or forgets, when one of its threads still closes a connection that failed a moment
     * ago, or gives up one that never began. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    for (int i = 0; i < FINI_WAITS && net_engine_live() > 0; i++) {
        os_sleep_ns(CLK_MS);
    }
    nng_fini();
#endif
}

/* -- what doctors look at -- */

enum err net_probe_listen(const char *address, struct errmsg *why)
{
    char url[NET_NNG_URL_MAX];
    nng_stream_listener *l;
    enum err e = net_nng_url(url, address, why);
    int rv;

    if (e) {
        return e;
    }
    rv = nng_stream_listener_alloc(&l, strstr(url, "tcp://")); /* without TLS */
    if (rv == 0) {
        rv = nng_stream_listener_listen(l);
        nng_stream_listener_free(l);
    }
    e = rv ? net_nng_error(rv) : ERR_OK;
    return e ? errmsg_set(why, e, "%s cannot be listened at: %s", address, nng_strerror(rv)) : e;
}

/* -- one question over HTTP -- */

/* Sends the request and takes the answer up to its end. Errors: those of NNG. */
static int probe_exchange(nng_stream *s, nng_aio *aio, const char *request, char *answer,
                          size_t size)
{
    size_t sent = 0, got = 0, n = strlen(request);
    int rv = 0;

    while (!rv && sent < n) {
        nng_iov iov = {(void *)(request + sent), n - sent};

        rv = nng_aio_set_iov(aio, 1, &iov);
        if (!rv) {
            nng_stream_send(s, aio);
            nng_aio_wait(aio);
            rv = nng_aio_result(aio);
        }
        sent += rv ? 0 : nng_aio_count(aio);
    }
    while (!rv && got + 1 < size) {
        nng_iov iov = {answer + got, size - 1 - got};

        rv = nng_aio_set_iov(aio, 1, &iov);
        if (!rv) {
            nng_stream_recv(s, aio);
            nng_aio_wait(aio);
            rv = nng_aio_result(aio);
        }
        got += rv ? 0 : nng_aio_count(aio);
    }
    answer[got] = '\0';
    return rv == NNG_ECLOSED || rv == NNG_ECONNSHUT || rv == NNG_ECONNRESET ? 0 : rv;
}

static int probe_talk(const char *url, const char *request, int64_t timeout_ns, char *answer,
                      size_t size)
{
    nng_stream_dialer *d = NULL;
    nng_stream *s = NULL;
    nng_aio *aio = NULL;
    int rv = nng_stream_dialer_alloc(&d, url);

    rv = rv ? rv : nng_aio_alloc(&aio, NULL, NULL);
    if (!rv) {
        nng_aio_set_timeout(aio, (nng_duration)(timeout_ns / 1000000));
        nng_stream_dialer_dial(d, aio);
        nng_aio_wait(aio);
        rv = nng_aio_result(aio);
    }
    if (!rv) {
        s = nng_aio_get_output(aio, 0);
        rv = probe_exchange(s, aio, request, answer, size);
        nng_stream_free(s);
    }
    nng_aio_free(aio);
    nng_stream_dialer_free(d);
    return rv;
}

/* "HTTP/1.1 200 …"; 0: it is no such line. Not by sscanf, which takes 20 KiB of a program for
 * Windows. */
static unsigned probe_status(const char *answer)
{
    static const char begin[] = "HTTP/1.";
    const char *at = answer + sizeof begin - 1;
    unsigned v = 0;

    if (strncmp(answer, begin, sizeof begin - 1) != 0 || *at < '0' || *at > '9' || at[1] != ' ') {
        return 0;
    }
    at += 2;
    for (int i = 0; i < 3 && at[i] >= '0' && at[i] <= '9'; i++) {
        v = v * 10 + (unsigned)(at[i] - '0');
    }
    return v;
}

static enum err probe_answer_parse(unsigned *status, char *text, size_t size, const char *answer)
{
    const char *body = strstr(answer, "\r\n\r\n");
    unsigned found = probe_status(answer);
    size_t n;

    if (!body || found == 0) {
        return ERR_CORRUPT;
    }
    body += 4;
    n = strlen(body);
    while (n > 0 && (body[n - 1] == '\n' || body[n - 1] == '\r')) {
        n--;
    }
    (void)snprintf(text, size, "%.*s", (int)n, body);
    *status = found;
    return ERR_OK;
}

enum err net_probe_get(unsigned *status, char *text, size_t size, const char *address,
                       const char *path, int64_t timeout_ns, struct errmsg *why)
{
    char here[NET_NNG_URL_MAX], url[NET_NNG_URL_MAX], request[NET_NNG_URL_MAX + 128];
    char answer[2048];
    enum err e;
    int rv;

    (void)snprintf(here, sizeof here, "%s%s", address[0] == '*' ? "127.0.0.1" : "",
                   address + (address[0] == '*'));
    e = net_nng_url(url, here, why);
    if (e) {
        return e;
    }
    (void)snprintf(request, sizeof request,
                   "GET %.64s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, here);
    rv = probe_talk(strstr(url, "tcp://"), request, timeout_ns, answer, sizeof answer);
    if (rv) {
        return errmsg_set(why, net_nng_error(rv), "%s does not answer: %s", here, nng_strerror(rv));
    }
    e = probe_answer_parse(status, text, size, answer);
    return e ? errmsg_set(why, e, "%s does not speak HTTP", here) : ERR_OK;
}
