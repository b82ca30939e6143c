#include "tests/support/ingest.h"

#include "common/clk.h"
#include "common/mem.h"
#include "common/rpc.h"
#include "tests/support/t.h"

#define LONG_NS (30 * CLK_S)

static void on_hello(void *ctx, struct rpc_call *call)
{
    struct ingest *c = ctx;
    struct buf out;

    os_mutex_lock(c->lock);
    c->hellos++;
    os_mutex_unlock(c->lock);
    buf_init(&out, 4096);
    assert_ok(wire_hello_reply_encode(&out, &c->hello));
    rpc_answer(call, out.p, out.n, NULL);
    buf_fini(&out);
}

static void on_push(void *ctx, struct rpc_call *call)
{
    struct ingest *c = ctx;
    struct wire_push_reply reply = {0};
    struct buf out;
    bool refuse;
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);
    char first = (char)p[0];

    os_mutex_lock(c->lock);
    if (c->mute && !c->unheard) {
        c->unheard = call;
        os_mutex_unlock(c->lock);
        return;
    }
    refuse = c->refuse_times > 0 && first == c->refuse_first;
    if (refuse) {
        c->refuse_times--;
    } else if (c->n_got + 1 < sizeof c->got) {
        c->got[c->n_got++] = first;
    }
    if (!refuse && c->on_batch) {
        c->on_batch(c->ctx, p, n);
    }
    os_mutex_unlock(c->lock);
    if (refuse) {
        rpc_fail(call, c->refuse, 10, "no %c", first);
        return;
    }
    buf_init(&out, 4096);
    assert_ok(wire_push_reply_encode(&out, &reply));
    rpc_answer(call, out.p, out.n, NULL);
    buf_fini(&out);
}

static void on_heartbeat(void *ctx, struct rpc_call *call)
{
    struct ingest *c = ctx;
    struct wire_heartbeat_reply reply = {0};
    struct wire_heartbeat beat;
    struct buf out;
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);

    assert_ok(wire_heartbeat_decode(&beat, p, n));
    os_mutex_lock(c->lock);
    c->beats++;
    c->next_seq = beat.next_seq;
    os_mutex_unlock(c->lock);
    buf_init(&out, 4096);
    assert_ok(wire_heartbeat_reply_encode(&out, &reply));
    rpc_answer(call, out.p, out.n, NULL);
    buf_fini(&out);
}

void ingest_listen(struct ingest *c, const char *address)
{
    struct rpc_method methods[] = {
        {RPC_INGEST_HELLO, NET_AGENT, on_hello, c},
        {RPC_INGEST_PUSH, NET_AGENT, on_push, c},
        {RPC_INGEST_HEARTBEAT, NET_AGENT, on_heartbeat, c},
    };
    struct rpc_server_conf conf = {.net = {.name = "ingest",
                                           .address = address,
                                           .tls = c->tls,
                                           .roles = NET_AGENT,
                                           .receive_max = c->receive_max ? c->receive_max : 1 << 20,
                                           .contexts = 8},
                                   .methods = methods,
                                   .n_methods = COUNT_OF(methods),
                                   .workers = 1,
                                   .queue = 8,
                                   .raw_max = 1 << 20,
                                   .default_timeout_ns = LONG_NS};
    struct errmsg why = {""};

    if (rpc_server_start(&c->server, &conf, &why)) {
        fail_msg("%s", why.text);
    }
}

struct ingest *ingest_create(struct net_tls *tls)
{
    struct ingest *c = mem_zalloc(sizeof *c);

    assert_non_null(c);
    assert_ok(os_mutex_create(&c->lock));
    c->tls = tls;
    c->hello.max_message = 1 << 20;
    ingest_listen(c, "127.0.0.1:0");
    return c;
}

void ingest_destroy(struct ingest *c)
{
    ingest_stop(c);
    os_mutex_destroy(c->lock);
    mem_free(c);
}

void ingest_stop(struct ingest *c)
{
    rpc_server_stop(c->server);
    c->server = NULL;
    if (c->unheard) {
        rpc_fail(c->unheard, RPC_UNAVAILABLE, 0, "too late");
        c->unheard = NULL;
    }
}

unsigned ingest_port(const struct ingest *c)
{
    return rpc_server_port(c->server);
}
