#include "common/net_probe.h"

#include <string.h>

#include <mbedtls/x509_crt.h>
#include <nng/nng.h>

#include "common/mem.h"
#include "common/net_addr.h"
#include "common/net_cert.h"
#include "common/net_impl.h"
#include "common/os.h"

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

static enum err first_end(int64_t *end_ns, const mbedtls_x509_crt *chain)
{
    int64_t first_ns = INT64_MAX;
    enum err e = ERR_OK;

    for (const mbedtls_x509_crt *c = chain; c && !e; c = c->next) {
        int64_t ns;

        e = net_cert_end(&ns, c);
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
