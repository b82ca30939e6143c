#include <nng/nng.h>
#include <nng/protocol/pubsub0/pub.h>

#include "common/base/mem.h"
#include "common/net/admission.h"
#include "common/net/net_nng.h"

/* Small messages that come together travel as a train: one of NNG's messages, see
 * cmake/patches/nng/09-publish-train.patch. All subscribers share its bytes. */
#define QUEUE_MAX      8192u
#define TRAIN_BYTES    (64u << 10) /* with one message more it is over */
#define TRAIN_MESSAGES 64u         /* far less than may wait for a reader (net_sub.c) */
#define TRAIN_MARK     0x80000000u
#define LENGTH_BYTES   8u

struct net_pub {
    nng_socket socket;
    struct admission *gate;
};

static enum err open_socket(struct net_pub *p, unsigned queue)
{
    int rv = nng_pub0_open(&p->socket);

    if (rv != 0) {
        return net_nng_error(rv);
    }
    queue = queue < 1 ? 1 : queue > QUEUE_MAX ? QUEUE_MAX : queue;
    rv = nng_socket_set_int(p->socket, NNG_OPT_SENDBUF, (int)queue);
    if (rv != 0) {
        nng_close(p->socket);
    }
    return net_nng_error(rv);
}

enum err net_pub_start(struct net_pub **out, const struct net_pub_conf *conf, struct errmsg *why)
{
    struct admission_conf gate = {
        .address = conf->address,
        .tls = conf->tls,
        .policy = {.peer = SP_FRAMING_SUB,
                   .message_max = 0, /* subscribing is local to the subscriber: it says nothing */
                   .name = "events",
                   .roles = conf->roles,
                   .refuse_scoped = conf->refuse_scoped},
        .peers_max = conf->peers_max > 0 ? conf->peers_max : ADMISSION_PEERS,
        .same_max = ADMISSION_SAME,
        .handshakes_max = conf->handshakes_max > 0 ? conf->handshakes_max : ADMISSION_HANDSHAKES,
        .judge = conf->judge,
        .judge_ctx = conf->judge_ctx,
        .on_peer = conf->on_peer,
        .ctx = conf->ctx,
    };
    struct net_pub *p = mem_zalloc(sizeof *p);
    enum err e;

    if (!p) {
        return ERR_NOMEM;
    }
    e = open_socket(p, conf->queue);
    if (!e) {
        e = admission_open(&p->gate, p->socket.id, &gate, why);
    }
    if (e) {
        mem_free(p);
        return e;
    }
    *out = p;
    return ERR_OK;
}

void net_pub_stop(struct net_pub *p)
{
    if (!p) {
        return;
    }
    nng_close(p->socket);
    admission_stop(p->gate);
    admission_close(p->gate);
    mem_free(p);
}

unsigned net_pub_port(const struct net_pub *p)
{
    return admission_port(p->gate);
}

void net_pub_review(struct net_pub *p)
{
    admission_review(p->gate);
}

unsigned net_pub_disconnect(struct net_pub *p, const char *name)
{
    return admission_disconnect(p->gate, name);
}

unsigned net_pub_subscribers(const struct net_pub *p)
{
    return admission_peers(p->gate);
}

int64_t net_pub_stuck_ns(const struct net_pub *p, int64_t now_ns)
{
    return admission_stuck_ns(p->gate, now_ns);
}

void net_pub_stats(struct net_pub *p, struct net_server_stats *out)
{
    admission_stats(p->gate, out);
}

/* The next train of the list, or a single message; *used of them are in it. NULL: no memory. */
static nng_msg *couple(const struct str *list, size_t n, size_t *used)
{
    size_t bytes = list[0].n, k = 1;
    bool whole;
    nng_msg *msg;

    while (k < n && k < TRAIN_MESSAGES && bytes + LENGTH_BYTES + list[k].n <= TRAIN_BYTES) {
        bytes += LENGTH_BYTES + list[k++].n;
    }
    *used = k;
    if (nng_msg_alloc(&msg, 0) != 0) {
        return NULL;
    }
    whole = nng_msg_reserve(msg, bytes) == 0 && nng_msg_append(msg, list[0].p, list[0].n) == 0;
    for (size_t i = 1; i < k && whole; i++) {
        whole = nng_msg_append_u64(msg, list[i].n) == 0 &&
                nng_msg_append(msg, list[i].p, list[i].n) == 0;
    }
    if (!whole) {
        nng_msg_free(msg);
        return NULL;
    }
    if (k > 1) {
        nng_msg_set_pipe(msg, (nng_pipe){.id = TRAIN_MARK | (uint32_t)list[0].n});
    }
    return msg;
}

void net_pub_send(struct net_pub *p, const struct str *list, size_t n)
{
    size_t used;

    if (admission_peers(p->gate) == 0) {
        return;
    }
    for (; n > 0; list += used, n -= used) {
        nng_msg *msg = couple(list, n, &used);

        if (msg && nng_sendmsg(p->socket, msg, NNG_FLAG_NONBLOCK) != 0) {
            nng_msg_free(msg); /* a lost message shows as a gap in the sequence */
        }
    }
}
