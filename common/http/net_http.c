/* A request is an operation of NNG that its handler ends with a reply. Between the two it stands in
 * one of a fixed number of places, because either side may end it: the owner with
 * net_http_answer, or NNG, when it closes the connection, with `cancelled`. Who comes first takes
 * the operation out of the place; the place itself stays the owner's until it answers. NNG closes
 * no connection while a handler is at work, but when the server stops. `lock`
 * guards the places, `refuses` and the counters. NNG calls `cancelled` with its own locks held, so
 * nothing of NNG that takes those is called under `lock`.
 *
 * All paths and methods go to one handler, so that every answer is made here; what NNG answers of
 * its own accord (400, 404 for a path without a slash, 505) it ends the connection with too. */
#include "common/http/net_http.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <nng/nng.h>
#include <nng/supplemental/http/http.h>

#include "common/base/mem.h"
#include "common/http/net_host.h"
#include "common/net/net_nng.h"
#include "common/os/os.h"

struct net_http_call {
    struct net_http *http;
    bool taken;   /* guarded by http->lock, as the next */
    nng_aio *aio; /* NULL: ended already */
    char path[NET_HTTP_PATH_MAX];
};

struct net_http {
    struct net_http_conf conf; /* address is not kept */
    struct net_host host;
    nng_http_server *server;
    bool started;
    unsigned port;
    struct os_mutex *lock;
    bool refuses;
    struct net_http_stats stats;
    struct net_http_call calls[NET_HTTP_CALLS];
};

/* NULL: out of memory. */
static nng_http_res *reply_make(unsigned status, const char *type, const void *p, size_t n)
{
    nng_http_res *res;

    if (nng_http_res_alloc(&res) != 0) {
        return NULL;
    }
    if (nng_http_res_set_status(res, (uint16_t)status) != 0 ||
        nng_http_res_set_header(res, "Content-Type", type) != 0 ||
        nng_http_res_set_header(res, "Cache-Control", "no-store") != 0 ||
        nng_http_res_set_header(res, "Connection", "close") != 0 ||
        (status == NNG_HTTP_STATUS_METHOD_NOT_ALLOWED &&
         nng_http_res_set_header(res, "Allow", "GET") != 0) ||
        nng_http_res_copy_data(res, p, n) != 0) {
        nng_http_res_free(res);
        return NULL;
    }
    return res;
}

static void finish(nng_aio *aio, unsigned status, const char *type, const void *p, size_t n)
{
    nng_http_res *res = reply_make(status, type, p, n);

    if (res) {
        nng_aio_set_output(aio, 0, res);
    }
    nng_aio_finish(aio, res ? 0 : NNG_ENOMEM);
}

static void finish_text(nng_aio *aio, unsigned status, const char *text)
{
    finish(aio, status, "text/plain; charset=utf-8", text, strlen(text));
}

static void cancelled(nng_aio *aio, void *arg, int rv)
{
    struct net_http_call *call = arg;
    bool mine;

    os_mutex_lock(call->http->lock);
    mine = call->aio == aio;
    if (mine) {
        call->aio = NULL;
    }
    os_mutex_unlock(call->http->lock);
    if (mine) {
        nng_aio_finish(aio, rv);
    }
}

static struct net_http_call *place_find(struct net_http *h)
{
    for (size_t i = 0; i < NET_HTTP_CALLS; i++) {
        if (!h->calls[i].taken) {
            return &h->calls[i];
        }
    }
    return NULL;
}

/* Puts the request into a place; NULL: there is none. */
static struct net_http_call *take(struct net_http *h, nng_aio *aio, bool is_get, const char *uri)
{
    size_t n = strcspn(uri, "?#");
    struct net_http_call *call;

    os_mutex_lock(h->lock);
    h->stats.requests++;
    call = is_get && !h->refuses ? place_find(h) : NULL;
    if (call) {
        call->taken = true;
        call->aio = aio;
        (void)snprintf(call->path, sizeof call->path, "%.*s", (int)(n < 4096 ? n : 4096), uri);
        nng_aio_defer(aio, cancelled, call);
    } else {
        h->stats.refused++;
    }
    os_mutex_unlock(h->lock);
    return call;
}

/* 0: for us. */
static unsigned misdirected(const struct net_http *h, nng_http_req *req)
{
    const char *host = nng_http_req_get_header(req, "Host");

    if (!host) {
        return strcmp(nng_http_req_get_version(req), "HTTP/1.0") == 0 ? 0 : 400;
    }
    return net_host_is_ours(&h->host, host) ? 0 : 421;
}

static void on_request(nng_aio *aio)
{
    nng_http_req *req = nng_aio_get_input(aio, 0);
    struct net_http *h = nng_http_handler_get_data(nng_aio_get_input(aio, 1));
    bool is_get = strcmp(nng_http_req_get_method(req), "GET") == 0;
    unsigned wrong = misdirected(h, req);
    struct net_http_call *call = take(h, aio, is_get && !wrong, nng_http_req_get_uri(req));

    if (wrong) {
        finish_text(aio, wrong, "ask for localhost, or set http.names to the name in use\n");
    } else if (call) {
        h->conf.on_get(h->conf.ctx, call);
    } else if (is_get) {
        finish_text(aio, NNG_HTTP_STATUS_SERVICE_UNAVAILABLE, "busy or stopping: ask again\n");
    } else {
        finish_text(aio, NNG_HTTP_STATUS_METHOD_NOT_ALLOWED, "only GET is answered here\n");
    }
}

const char *net_http_path(const struct net_http_call *call)
{
    return call->path;
}

void net_http_answer(struct net_http_call *call, unsigned status, const char *type, const void *p,
                     size_t n)
{
    struct net_http *h = call->http;
    nng_aio *aio;

    os_mutex_lock(h->lock);
    aio = call->aio;
    call->aio = NULL;
    os_mutex_unlock(h->lock);
    if (aio) {
        finish(aio, status, type, p, n);
    }
    os_mutex_lock(h->lock);
    call->taken = false;
    os_mutex_unlock(h->lock);
}

/* -- start and stop -- */

static enum err handler_add(struct net_http *h)
{
    nng_http_handler *handler;
    int rv = nng_http_handler_alloc(&handler, "", on_request);

    if (rv != 0) {
        return net_nng_error(rv);
    }
    rv = nng_http_handler_set_method(handler, NULL);
    if (rv == 0) {
        rv = nng_http_handler_collect_body(handler, false, 0);
    }
    if (rv == 0) {
        rv = nng_http_handler_set_tree(handler);
    }
    if (rv == 0) {
        rv = nng_http_handler_set_data(handler, h, NULL);
    }
    if (rv == 0) {
        rv = nng_http_server_add_handler(h->server, handler);
    }
    if (rv != 0) {
        nng_http_handler_free(handler);
    }
    return net_nng_error(rv);
}

static enum err server_make(struct net_http *h, const char *address, struct errmsg *why)
{
    char tls[NET_NNG_URL_MAX], text[NET_NNG_URL_MAX];
    nng_url *url = NULL;
    enum err e = net_nng_url(tls, address, why);
    int rv;

    if (e) {
        return e;
    }
    (void)snprintf(text, sizeof text, "http%s", strstr(tls, "://"));
    rv = nng_url_parse(&url, text);
    if (rv == 0) {
        rv = nng_http_server_hold(&h->server, url);
    }
    nng_url_free(url);
    return rv == 0 ? ERR_OK : net_nng_refused(rv, address, why);
}

static enum err listen_on(struct net_http *h, const char *address, struct errmsg *why)
{
    nng_sockaddr sa;
    const uint8_t *port = NULL;
    int rv = nng_http_server_start(h->server);

    h->started = rv == 0;
    if (rv == 0) {
        rv = nng_http_server_get_addr(h->server, &sa);
    }
    if (rv != 0) {
        return net_nng_refused(rv, address, why);
    }
    port = sa.s_family == NNG_AF_INET6 ? (const uint8_t *)&sa.s_in6.sa_port
                                       : (const uint8_t *)&sa.s_in.sa_port;
    h->port = (unsigned)port[0] << 8 | port[1]; /* in network order */
    return ERR_OK;
}

enum err net_http_start(struct net_http **out, const struct net_http_conf *conf, struct errmsg *why)
{
    struct net_http *h = mem_zalloc(sizeof *h);
    enum err e;

    if (!h) {
        return ERR_NOMEM;
    }
    h->conf = *conf;
    h->conf.address = NULL;
    for (size_t i = 0; i < NET_HTTP_CALLS; i++) {
        h->calls[i].http = h;
    }
    net_host_init(&h->host, conf->address, conf->names, conf->n_names);
    e = os_mutex_create(&h->lock);
    if (!e) {
        e = server_make(h, conf->address, why);
    }
    if (!e) {
        e = handler_add(h);
    }
    if (!e) {
        e = listen_on(h, conf->address, why);
    }
    if (e) {
        net_http_stop(h);
        return e;
    }
    *out = h;
    return ERR_OK;
}

void net_http_stop(struct net_http *h)
{
    if (!h) {
        return;
    }
    if (h->started) {
        os_mutex_lock(h->lock);
        h->refuses = true; /* an operation that NNG has stopped must not be put off */
        os_mutex_unlock(h->lock);
        nng_http_server_stop(h->server); /* waits for its connections */
    }
    if (h->server) {
        nng_http_server_release(h->server);
    }
    os_mutex_destroy(h->lock);
    mem_free(h);
}

unsigned net_http_port(const struct net_http *h)
{
    return h->port;
}

void net_http_stats(struct net_http *h, struct net_http_stats *out)
{
    os_mutex_lock(h->lock);
    *out = h->stats;
    os_mutex_unlock(h->lock);
}
