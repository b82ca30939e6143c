#include <nng/nng.h>
#include <nng/protocol/pubsub0/sub.h>

#include "common/base/mem.h"
#include "common/net/net.h"
#include "common/net/net_dial.h"
#include "common/net/net_nng.h"

#define QUEUE 1024 /* messages waiting for the reader; the oldest go first, and sequences tell */

struct net_sub {
    nng_socket socket;
    struct net_dial *dial;
};

static enum err open_socket(struct net_sub *s, const struct net_sub_conf *conf)
{
    int rv = nng_sub0_open(&s->socket);

    if (rv != 0) {
        return net_nng_error(rv);
    }
    rv = nng_socket_set(s->socket, NNG_OPT_SUB_SUBSCRIBE, conf->topic, conf->topic_n);
    if (rv == 0) {
        rv = nng_socket_set_int(s->socket, NNG_OPT_RECVBUF, QUEUE);
    }
    if (rv == 0) {
        rv = nng_socket_set_bool(s->socket, NNG_OPT_SUB_PREFNEW, true);
    }
    if (rv != 0) {
        nng_close(s->socket);
    }
    return net_nng_error(rv);
}

enum err net_sub_open(struct net_sub **out, const struct net_sub_conf *conf, struct errmsg *why)
{
    struct net_dial_conf dial = {.address = conf->address,
                                 .tls = conf->tls,
                                 .peer = SP_FRAMING_PUB,
                                 .receive_max = conf->receive_max};
    struct net_sub *s = mem_zalloc(sizeof *s);
    enum err e;

    if (!s) {
        return ERR_NOMEM;
    }
    e = open_socket(s, conf);
    if (!e) {
        e = net_dial_open(&s->dial, s->socket.id, &dial, why);
    }
    if (e) {
        mem_free(s);
        return e;
    }
    *out = s;
    return ERR_OK;
}

void net_sub_close(struct net_sub *s)
{
    if (!s) {
        return;
    }
    nng_close(s->socket);
    net_dial_close(s->dial);
    mem_free(s);
}

enum err net_sub_receive(struct net_sub *s, int64_t timeout_ns, struct buf *out)
{
    nng_aio *aio;
    nng_msg *msg;
    enum err e;

    if (nng_aio_alloc(&aio, NULL, NULL) != 0) {
        return ERR_NOMEM;
    }
    nng_aio_set_timeout(aio, net_nng_ms(timeout_ns));
    nng_recv_aio(s->socket, aio);
    nng_aio_wait(aio);
    e = net_nng_error(nng_aio_result(aio));
    if (!e) {
        msg = nng_aio_get_msg(aio);
        buf_put(out, nng_msg_body(msg), nng_msg_len(msg));
        nng_msg_free(msg);
        e = out->bad;
    }
    nng_aio_free(aio);
    return e;
}

bool net_sub_connected(const struct net_sub *s)
{
    return net_dial_connected(s->dial);
}

enum err net_sub_wait(struct net_sub *s, int64_t timeout_ns, struct errmsg *why)
{
    return net_dial_wait(s->dial, timeout_ns, why);
}

enum tls_cause net_sub_cause(const struct net_sub *s)
{
    return net_dial_cause(s->dial);
}
