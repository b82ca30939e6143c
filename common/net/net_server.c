/* A fixed number of slots, each a REP context with one asynchronous operation, goes round:
 *
 *   IDLE → RECEIVING → HELD (net_request, by its owner) → REPLYING → RECEIVING …
 *
 * The slot is the net_request. When the server stops, operations of NNG end with an error and their
 * slots become IDLE; HELD ones stay with their owners, and the server's memory lives until the last
 * one is given back. `lock` guards state and `stopping`, and is held while an operation is started
 * so that none starts after net_server_stop has begun; completions never run on the starting
 * thread, so that cannot recurse.
 *
 * A peer that sends and never reads parks at most twice `per_peer` slots, and those for the reply
 * timeout only: then its connection is cut. */
#include <assert.h>
#include <stdio.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/net/admission.h"
#include "common/net/net_nng.h"
#include "common/os/os.h"

#define PER_PEER_DEFAULT      4u
#define REPLY_TIMEOUT_DEFAULT (5 * CLK_S)

enum slot_state { SLOT_IDLE, SLOT_RECEIVING, SLOT_HELD, SLOT_REPLYING };

struct net_request {
    struct net_server *server;
    enum slot_state state; /* guarded by server->lock */
    nng_ctx ctx;
    nng_aio *aio;
    nng_msg *msg;          /* HELD: the request */
    struct net_peer *peer; /* HELD, REPLYING */
    bool excess;
};

struct net_server {
    struct net_server_conf conf;
    nng_socket socket;
    struct admission *gate;
    struct os_mutex *lock;
    bool stopping;
    unsigned refs; /* the owner's, and one per HELD slot; guarded by lock */
    unsigned n_slots;
    struct net_request *slots;
};

static void server_free(struct net_server *s)
{
    for (unsigned i = 0; s->slots && i < s->n_slots; i++) {
        if (s->slots[i].aio) {
            nng_aio_free(s->slots[i].aio);
        }
    }
    admission_close(s->gate);
    os_mutex_destroy(s->lock);
    mem_free(s->slots);
    mem_free(s);
}

static void drop_ref(struct net_server *s)
{
    bool last;

    os_mutex_lock(s->lock);
    assert(s->refs > 0);
    s->refs--;
    last = s->refs == 0;
    os_mutex_unlock(s->lock);
    if (last) {
        server_free(s);
    }
}

static void receive(struct net_request *r)
{
    struct net_server *s = r->server;

    os_mutex_lock(s->lock);
    if (s->stopping) {
        r->state = SLOT_IDLE;
    } else {
        r->state = SLOT_RECEIVING;
        nng_aio_set_timeout(r->aio, NNG_DURATION_INFINITE);
        nng_ctx_recv(r->ctx, r->aio);
    }
    os_mutex_unlock(s->lock);
}

/* Takes the message that came in; true when it becomes the owner's. */
static bool take(struct net_request *r)
{
    struct net_server *s = r->server;
    unsigned under_way = 0;
    bool taken;

    r->msg = nng_aio_get_msg(r->aio);
    nng_aio_set_msg(r->aio, NULL);
    r->peer = admission_enter(s->gate, (uint32_t)nng_pipe_id(nng_msg_get_pipe(r->msg)), &under_way);
    if (r->peer && under_way > 2 * s->conf.per_peer) {
        admission_cut(s->gate, r->peer, NET_CROWDED, "too many requests under way");
        admission_leave(s->gate, r->peer);
        r->peer = NULL;
    }
    os_mutex_lock(s->lock);
    taken = r->peer && !s->stopping;
    if (taken) {
        assert(r->state == SLOT_RECEIVING);
        r->state = SLOT_HELD;
        s->refs++;
    }
    os_mutex_unlock(s->lock);
    if (!taken) {
        if (r->peer) {
            admission_leave(s->gate, r->peer);
            r->peer = NULL;
        }
        nng_msg_free(r->msg);
        r->msg = NULL;
        return false;
    }
    r->excess = under_way > s->conf.per_peer;
    return true;
}

static void received(struct net_request *r, int rv)
{
    if (rv == NNG_ECLOSED || rv == NNG_ECANCELED) {
        os_mutex_lock(r->server->lock);
        r->state = SLOT_IDLE;
        os_mutex_unlock(r->server->lock);
    } else if (rv == 0 && take(r)) {
        r->server->conf.on_request(r->server->conf.ctx, r);
    } else {
        receive(r);
    }
}

static void replied(struct net_request *r, int rv)
{
    struct net_server *s = r->server;

    if (rv != 0) {
        nng_msg *msg = nng_aio_get_msg(r->aio);

        nng_aio_set_msg(r->aio, NULL);
        if (msg) {
            nng_msg_free(msg);
        }
    }
    if (rv == NNG_ETIMEDOUT) {
        admission_cut(s->gate, r->peer, NET_LATE_REPLY, "does not read its replies");
    }
    admission_leave(s->gate, r->peer);
    r->peer = NULL;
    receive(r);
}

static void completed(void *arg)
{
    struct net_request *r = arg;
    enum slot_state state;

    os_mutex_lock(r->server->lock);
    state = r->state;
    os_mutex_unlock(r->server->lock);
    if (state == SLOT_RECEIVING) {
        received(r, nng_aio_result(r->aio));
    } else {
        assert(state == SLOT_REPLYING);
        replied(r, nng_aio_result(r->aio));
    }
}

static void release_msg(struct net_request *r)
{
    nng_msg_free(r->msg);
    r->msg = NULL;
}

/* A message with the n bytes, or NULL. */
static nng_msg *message(const void *p, size_t n)
{
    nng_msg *msg;

    if (nng_msg_alloc(&msg, 0) != 0) {
        return NULL;
    }
    if (nng_msg_append(msg, p, n) != 0) {
        nng_msg_free(msg);
        return NULL;
    }
    return msg;
}

/* Sends the reply, which may be NULL for want of memory; false when nothing was sent. */
static bool start_reply(struct net_request *r, nng_msg *msg)
{
    struct net_server *s = r->server;
    bool started;

    os_mutex_lock(s->lock);
    started = msg && !s->stopping;
    assert(r->state == SLOT_HELD && r->peer);
    if (started) {
        r->state = SLOT_REPLYING;
        nng_aio_set_msg(r->aio, msg);
        nng_aio_set_timeout(r->aio, net_nng_ms(s->conf.reply_timeout_ns));
        nng_ctx_send(r->ctx, r->aio);
    }
    os_mutex_unlock(s->lock);
    if (!started && msg) {
        nng_msg_free(msg);
    }
    return started;
}

void net_server_reply(struct net_request *r, const void *p, size_t n)
{
    struct net_server *s = r->server;
    nng_msg *msg = message(p, n); /* first: p may point into the request */

    release_msg(r);
    if (!start_reply(r, msg)) {
        admission_leave(s->gate, r->peer);
        r->peer = NULL;
        receive(r);
    }
    drop_ref(s);
}

void net_server_drop(struct net_request *r)
{
    struct net_server *s = r->server;

    assert(r->state == SLOT_HELD && r->peer);
    release_msg(r);
    admission_leave(s->gate, r->peer);
    r->peer = NULL;
    receive(r);
    drop_ref(s);
}

bool net_server_excess(const struct net_request *r)
{
    return r->excess;
}

const uint8_t *net_server_body(const struct net_request *r, size_t *n)
{
    *n = nng_msg_len(r->msg);
    return nng_msg_body(r->msg);
}

const struct net_identity *net_server_peer(const struct net_request *r)
{
    return &r->peer->who;
}

static enum err open_slots(struct net_server *s)
{
    s->slots = mem_array(s->conf.contexts, sizeof *s->slots);
    if (!s->slots) {
        return ERR_NOMEM;
    }
    s->n_slots = s->conf.contexts;
    for (unsigned i = 0; i < s->n_slots; i++) {
        struct net_request *r = &s->slots[i];

        r->server = s;
        if (nng_aio_alloc(&r->aio, completed, r) != 0 || nng_ctx_open(&r->ctx, s->socket) != 0) {
            return ERR_NOMEM;
        }
    }
    return ERR_OK;
}

static void fill_defaults(struct net_server_conf *c)
{
    c->contexts = c->contexts > 0 ? c->contexts : 1;
    c->per_peer = c->per_peer > 0 ? c->per_peer : PER_PEER_DEFAULT;
    c->peers_max = c->peers_max > 0 ? c->peers_max : ADMISSION_PEERS;
    c->same_max = c->same_max > 0 ? c->same_max : ADMISSION_SAME;
    c->handshakes_max = c->handshakes_max > 0 ? c->handshakes_max : ADMISSION_HANDSHAKES;
    c->reply_timeout_ns = c->reply_timeout_ns > 0 ? c->reply_timeout_ns : REPLY_TIMEOUT_DEFAULT;
}

static enum err open_gate(struct net_server *s, struct errmsg *why)
{
    struct admission_conf gate = {
        .address = s->conf.address,
        .tls = s->conf.tls,
        .policy = {.peer = SP_FRAMING_REQ,
                   .message_max = s->conf.receive_max + NET_NNG_ENVELOPE,
                   .name = s->conf.name,
                   .roles = s->conf.roles,
                   .strangers = s->conf.strangers},
        .peers_max = s->conf.peers_max,
        .same_max = s->conf.same_max,
        .handshakes_max = s->conf.handshakes_max,
        .same_address_max = s->conf.same_address_max,
        .silent_ns = s->conf.silent_ns,
        .judge = s->conf.judge,
        .judge_ctx = s->conf.judge_ctx,
        .on_peer = s->conf.on_peer,
        .ctx = s->conf.ctx,
    };

    return admission_open(&s->gate, s->socket.id, &gate, why);
}

enum err net_server_start(struct net_server **out, const struct net_server_conf *conf,
                          struct errmsg *why)
{
    struct net_server *s = mem_zalloc(sizeof *s);
    enum err e;

    if (!s) {
        return ERR_NOMEM;
    }
    s->conf = *conf;
    s->refs = 1;
    fill_defaults(&s->conf);
    e = os_mutex_create(&s->lock);
    if (e) {
        mem_free(s);
        return e;
    }
    e = net_nng_error(nng_rep0_open(&s->socket));
    if (e) {
        server_free(s);
        return errmsg_set(why, e, "cannot open a socket: %s", err_text(e));
    }
    e = open_slots(s);
    if (!e) {
        e = open_gate(s, why);
    }
    if (e) {
        net_server_stop(s);
        return e;
    }
    for (unsigned i = 0; i < s->n_slots; i++) {
        receive(&s->slots[i]);
    }
    *out = s;
    return ERR_OK;
}

void net_server_stop(struct net_server *s)
{
    if (!s) {
        return;
    }
    os_mutex_lock(s->lock);
    s->stopping = true;
    os_mutex_unlock(s->lock);
    nng_close(s->socket);
    admission_stop(s->gate);
    for (unsigned i = 0; i < s->n_slots; i++) {
        if (s->slots[i].aio) {
            nng_aio_stop(s->slots[i].aio); /* waits for its callback */
        }
    }
    drop_ref(s);
}

unsigned net_server_port(const struct net_server *s)
{
    return admission_port(s->gate);
}

void net_server_review(struct net_server *s)
{
    admission_review(s->gate);
}

unsigned net_server_disconnect(struct net_server *s, const char *name)
{
    return admission_disconnect(s->gate, name);
}

int64_t net_server_stuck_ns(const struct net_server *s, int64_t now_ns)
{
    return admission_stuck_ns(s->gate, now_ns);
}

void net_server_stats(struct net_server *s, struct net_server_stats *out)
{
    admission_stats(s->gate, out);
}
