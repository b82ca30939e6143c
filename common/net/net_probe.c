#include "common/net/net_probe.h"

#include <stdio.h>
#include <string.h>

#include <mbedtls/x509_crt.h>
#include <nng/nng.h>

#include "common/base/mem.h"
#include "common/net/net_addr.h"
#include "common/net/net_impl.h"
#include "common/os/os.h"
#include "common/tls/tls_cert.h"

#define FILE_MAX (1u << 20)

enum err net_probe_listen(const char *address, struct errmsg *why)
{
    char url[NET_ADDR_URL_MAX];
    nng_stream_listener *l;
    enum err e = net_addr_url(url, address, why);
    int rv;

    if (e) {
        return e;
    }
    rv = nng_stream_listener_alloc(&l, strstr(url, "tcp://")); /* without TLS */
    if (rv == 0) {
        rv = nng_stream_listener_listen(l);
        nng_stream_listener_free(l);
    }
    e = rv ? net_error(rv) : ERR_OK;
    return e ? errmsg_set(why, e, "%s cannot be listened at: %s", address, nng_strerror(rv)) : e;
}

/* -- one question over HTTP -- */

/* Sends the request and takes the answer up to its end. Errors: those of NNG. */
static int exchange(nng_stream *s, nng_aio *aio, const char *request, char *answer, size_t size)
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

static int talk(const char *url, const char *request, int64_t timeout_ns, char *answer, size_t size)
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
        rv = exchange(s, aio, request, answer, size);
        nng_stream_free(s);
    }
    nng_aio_free(aio);
    nng_stream_dialer_free(d);
    return rv;
}

static enum err answer_parse(unsigned *status, char *text, size_t size, const char *answer)
{
    const char *body = strstr(answer, "\r\n\r\n");
    unsigned found;
    size_t n;

    if (!body || sscanf(answer, "HTTP/1.%*1u %3u", &found) != 1) {
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
    char here[NET_ADDR_URL_MAX], url[NET_ADDR_URL_MAX], request[NET_ADDR_URL_MAX + 128];
    char answer[2048];
    enum err e;
    int rv;

    (void)snprintf(here, sizeof here, "%s%s", address[0] == '*' ? "127.0.0.1" : "",
                   address + (address[0] == '*'));
    e = net_addr_url(url, here, why);
    if (e) {
        return e;
    }
    (void)snprintf(request, sizeof request,
                   "GET %.64s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, here);
    rv = talk(strstr(url, "tcp://"), request, timeout_ns, answer, sizeof answer);
    if (rv) {
        return errmsg_set(why, net_error(rv), "%s does not answer: %s", here, nng_strerror(rv));
    }
    e = answer_parse(status, text, size, answer);
    return e ? errmsg_set(why, e, "%s does not speak HTTP", here) : ERR_OK;
}

/* -- authorities -- */

static enum err first_end(int64_t *end_ns, const mbedtls_x509_crt *chain)
{
    int64_t first_ns = INT64_MAX;
    enum err e = ERR_OK;

    for (const mbedtls_x509_crt *c = chain; c && !e; c = c->next) {
        int64_t ns;

        e = tls_cert_end(&ns, c);
        first_ns = !e && ns < first_ns ? ns : first_ns;
    }
    if (!e) {
        *end_ns = first_ns;
    }
    return e;
}

enum err net_probe_authority(int64_t *end_ns, const char *path)
{
    mbedtls_x509_crt chain;
    uint8_t *text;
    size_t n;
    enum err e = os_read_file(&text, &n, path, FILE_MAX);

    if (e) {
        return e;
    }
    mbedtls_x509_crt_init(&chain);
    e = mbedtls_x509_crt_parse(&chain, text, n + 1) == 0 ? first_end(end_ns, &chain) : ERR_INVALID;
    mbedtls_x509_crt_free(&chain);
    mem_free(text);
    return e;
}
