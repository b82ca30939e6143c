/* Each call has a REQ context of its own and two operations in turn: send, which ends when a
 * connection has taken the request, and receive. A lost connection ends the call at once
 * (NNG_OPT_REQ_RESENDTIME is infinite: NNG's habit of asking again after a minute would hide slow
 * servers and double work); the caller decides about a retry. */
#include <assert.h>
#include <stdatomic.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/net/net.h"
#include "common/net/net_dial.h"
#include "common/net/net_nng.h"
#include "common/os/os.h"

struct net_client {
    nng_socket socket;
    struct net_dial *dial;
    struct os_mutex *lock; /* guards what follows */
    struct os_cond *idle;
    unsigned calls; /* under way, waits for the connection too */
    bool closing;
};

struct call {
    struct net_dial *dial;
    nng_aio *aio;
    nng_ctx ctx;
    bool done; /* the operation under way has ended; guarded by the dial */
};

static void client_free(struct net_client *c)
{
    net_dial_close(c->dial);
    os_cond_destroy(c->idle);
    os_mutex_destroy(c->lock);
    mem_free(c);
}

static enum err open_socket(struct net_client *c)
{
    int rv = nng_req0_open(&c->socket);

    if (rv == 0) {
        rv = nng_socket_set_ms(c->socket, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE);
        if (rv != 0) {
            nng_close(c->socket);
        }
    }
    return net_nng_error(rv);
}

enum err net_client_open(struct net_client **out, const struct net_client_conf *conf,
                         struct errmsg *why)
{
    struct net_dial_conf dial = {.address = conf->address,
                                 .tls = conf->tls,
                                 .peer = SP_FRAMING_REP,
                                 .receive_max = conf->receive_max,
                                 .reconnect_min_ns = conf->reconnect_min_ns,
                                 .reconnect_max_ns = conf->reconnect_max_ns,
                                 .wary = conf->wary};
    struct net_client *c = mem_zalloc(sizeof *c);
    enum err e;

    if (!c) {
        return ERR_NOMEM;
    }
    e = os_mutex_create(&c->lock);
    if (!e) {
        e = os_cond_create(&c->idle, c->lock);
    }
    if (!e) {
        e = open_socket(c);
    }
    if (!e) {
        e = net_dial_open(&c->dial, c->socket.id, &dial, why);
    }
    if (e) {
        client_free(c);
        return e;
    }
    *out = c;
    return ERR_OK;
}

void net_client_hang_up(struct net_client *c)
{
    bool first;

    os_mutex_lock(c->lock);
    first = !c->closing;
    c->closing = true;
    os_mutex_unlock(c->lock);
    if (first) {
        net_dial_hang_up(c->dial);
        nng_close(c->socket);
    }
}

void net_client_close(struct net_client *c)
{
    if (!c) {
        return;
    }
    net_client_hang_up(c);
    os_mutex_lock(c->lock);
    while (c->calls > 0) {
        os_cond_wait(c->idle);
    }
    os_mutex_unlock(c->lock);
    client_free(c);
}

static void completed(void *arg)
{
    struct call *call = arg;

    net_dial_done(call->dial, &call->done);
}

/* Waits for the operation that was started; its result. */
static enum err finish(struct call *call, int64_t deadline)
{
    /* The operation has its own timeout: the margin only covers a late completion. */
    enum err e = net_dial_wait_done(call->dial, &call->done, clk_add(deadline, CLK_S));
    int rv;

    if (e) {
        nng_aio_cancel(call->aio);
    }
    nng_aio_wait(call->aio);
    rv = nng_aio_result(call->aio);
    return rv != 0 && e ? e : net_nng_error(rv);
}

static void arm(struct call *call, int64_t deadline)
{
    call->done = false;
    nng_aio_set_timeout(call->aio, net_nng_ms(deadline - os_mono_ns()));
}

static enum err message_of(nng_msg **out, const void *p, size_t n)
{
    nng_msg *msg;

    if (nng_msg_alloc(&msg, 0) != 0) {
        return ERR_NOMEM;
    }
    if (nng_msg_append(msg, p, n) != 0) {
        nng_msg_free(msg);
        return ERR_NOMEM;
    }
    *out = msg;
    return ERR_OK;
}

static enum err send_request(struct call *call, const void *p, size_t n, int64_t deadline)
{
    nng_msg *msg;
    enum err e = message_of(&msg, p, n);

    if (e) {
        return e;
    }
    arm(call, deadline);
    nng_aio_set_msg(call->aio, msg);
    nng_ctx_send(call->ctx, call->aio);
    e = finish(call, deadline);
    msg = nng_aio_get_msg(call->aio);
    if (nng_aio_result(call->aio) != 0 && msg) {
        nng_msg_free(msg); /* it became ours again */
    }
    nng_aio_set_msg(call->aio, NULL);
    return e;
}

static enum err receive_reply(struct call *call, int64_t deadline, struct buf *reply)
{
    nng_msg *msg;
    enum err e;

    arm(call, deadline);
    nng_ctx_recv(call->ctx, call->aio);
    e = finish(call, deadline);
    if (nng_aio_result(call->aio) != 0) {
        return e;
    }
    msg = nng_aio_get_msg(call->aio);
    nng_aio_set_msg(call->aio, NULL);
    buf_put(reply, nng_msg_body(msg), nng_msg_len(msg));
    nng_msg_free(msg);
    return reply->bad;
}

/* The operation first: a deadline that passes just as a reply comes is looked after by a thread of
 * NNG that knows the context, and freeing the operation waits for it. */
static void close_call(struct call *call)
{
    nng_aio_free(call->aio);
    if (nng_ctx_id(call->ctx) > 0) {
        nng_ctx_close(call->ctx);
    }
}

static enum err run(struct net_client *c, const void *p, size_t n, int64_t deadline,
                    struct buf *reply)
{
    struct call call = {.dial = c->dial};
    enum err e;

    if (nng_aio_alloc(&call.aio, completed, &call) != 0) {
        return ERR_NOMEM;
    }
    e = net_nng_error(nng_ctx_open(&call.ctx, c->socket));
    if (!e) {
        e = send_request(&call, p, n, deadline);
        if (!e) {
            e = receive_reply(&call, deadline, reply);
        }
    }
    close_call(&call);
    return e;
}

/* Keeps net_client_close waiting. Errors: ERR_CLOSED */
static enum err enter(struct net_client *c)
{
    bool closing;

    os_mutex_lock(c->lock);
    closing = c->closing;
    c->calls += !closing;
    os_mutex_unlock(c->lock);
    return closing ? ERR_CLOSED : ERR_OK;
}

static bool is_closing(struct net_client *c)
{
    bool closing;

    os_mutex_lock(c->lock);
    closing = c->closing;
    os_mutex_unlock(c->lock);
    return closing;
}

static void leave(struct net_client *c)
{
    os_mutex_lock(c->lock);
    assert(c->calls > 0);
    c->calls--;
    if (c->calls == 0) {
        os_cond_wake_all(c->idle);
    }
    os_mutex_unlock(c->lock);
}

enum err net_client_call(struct net_client *c, const void *p, size_t n, int64_t timeout_ns,
                         struct buf *reply)
{
    int64_t deadline = clk_add(os_mono_ns(), timeout_ns);
    enum err e = enter(c);

    if (!e) {
        e = run(c, p, n, deadline, reply);
        leave(c);
    }
    return e;
}

bool net_client_connected(const struct net_client *c)
{
    return net_dial_connected(c->dial);
}

enum err net_client_wait(struct net_client *c, int64_t timeout_ns, struct errmsg *why)
{
    enum err e = enter(c);

    if (e) {
        return errmsg_set(why, e, "given up");
    }
    e = net_dial_wait(c->dial, timeout_ns, why);
    leave(c);
    return e;
}

void net_client_problem(struct net_client *c, struct errmsg *out)
{
    net_dial_problem(c->dial, out);
}

/* -- calls that report their end -- */

struct net_call {
    struct net_client *client;
    nng_aio *aio;
    nng_ctx ctx;
    int64_t deadline;
    bool sent;
    void (*on_end)(void *ctx);
    void *waiter;
    int64_t ended_ns;
    atomic_bool ended; /* the operations are over; set after all above */
};

/* An operation has ended: the other one follows, or nothing does. */
static void stepped(void *arg)
{
    struct net_call *call = arg;
    nng_msg *msg = nng_aio_get_msg(call->aio);
    int rv = nng_aio_result(call->aio);

    if (!call->sent && rv != 0 && msg) {
        nng_msg_free(msg); /* it became ours again */
        nng_aio_set_msg(call->aio, NULL);
    }
    if (!call->sent && rv == 0) {
        call->sent = true;
        nng_aio_set_msg(call->aio, NULL);
        nng_aio_set_timeout(call->aio, net_nng_ms(call->deadline - os_mono_ns()));
        nng_ctx_recv(call->ctx, call->aio);
        return;
    }
    assert(!atomic_load(&call->ended));
    call->ended_ns = os_mono_ns();
    atomic_store(&call->ended, true);
    call->on_end(call->waiter);
}

static void call_free(struct net_call *call, bool has_ctx)
{
    if (call->aio) {
        nng_aio_free(call->aio); /* first, as in close_call */
    }
    if (has_ctx) {
        nng_ctx_close(call->ctx);
    }
    leave(call->client);
    mem_free(call);
}

enum err net_client_begin(struct net_call **out, struct net_client *c, const void *p, size_t n,
                          int64_t timeout_ns, void (*on_end)(void *ctx), void *ctx)
{
    struct net_call *call = mem_zalloc(sizeof *call);
    bool has_ctx = false;
    nng_msg *msg;
    enum err e = call ? enter(c) : ERR_NOMEM;

    if (e) {
        mem_free(call);
        return e;
    }
    call->client = c;
    call->deadline = clk_add(os_mono_ns(), timeout_ns);
    call->on_end = on_end;
    call->waiter = ctx;
    atomic_init(&call->ended, false);
    e = nng_aio_alloc(&call->aio, stepped, call) == 0 ? ERR_OK : ERR_NOMEM;
    if (!e) {
        e = net_nng_error(nng_ctx_open(&call->ctx, c->socket));
        has_ctx = !e;
    }
    if (!e) {
        e = message_of(&msg, p, n);
    }
    if (e) {
        call_free(call, has_ctx);
        return e;
    }
    *out = call; /* before the end may be reported */
    nng_aio_set_timeout(call->aio, net_nng_ms(timeout_ns));
    nng_aio_set_msg(call->aio, msg);
    nng_ctx_send(call->ctx, call->aio);
    return ERR_OK;
}

bool net_client_ended(const struct net_call *call)
{
    return atomic_load(&call->ended);
}

enum err net_client_finish(struct net_call *call, struct buf *reply, int64_t *ended_ns)
{
    nng_msg *msg;
    enum err e;

    nng_aio_wait(call->aio);
    e = net_nng_error(nng_aio_result(call->aio));
    msg = nng_aio_get_msg(call->aio);
    if (!e && msg) {
        buf_put(reply, nng_msg_body(msg), nng_msg_len(msg));
        nng_msg_free(msg);
        e = reply->bad;
    } else if (is_closing(call->client)) {
        e = ERR_CLOSED; /* whichever way its connection ended */
    }
    if (ended_ns) {
        *ended_ns = call->ended_ns;
    }
    call_free(call, true);
    return e;
}

/* -- the connection -- */

uint64_t net_client_connection(const struct net_client *c)
{
    return net_dial_connection(c->dial);
}

void net_client_redial(struct net_client *c)
{
    net_dial_redial(c->dial);
}

void net_client_useful(struct net_client *c)
{
    net_dial_useful(c->dial);
}

void net_client_pause(struct net_client *c, int64_t max_ns)
{
    net_dial_pause(c->dial, max_ns);
}

enum err net_client_fault(struct net_client *c, struct errmsg *out)
{
    return net_dial_fault(c->dial, out);
}

enum tls_cause net_client_cause(const struct net_client *c)
{
    return net_dial_cause(c->dial);
}

void net_client_watch(struct net_client *c, void (*on_change)(void *ctx), void *ctx)
{
    net_dial_watch(c->dial, on_change, ctx);
}
