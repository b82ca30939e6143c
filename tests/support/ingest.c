#include "tests/support/ingest.h"

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/rpc/rpc.h"
#include "tests/support/t.h"

#define LONG_NS (30 * CLK_S)

static void on_hello(void *ctx, struct rpc_call *call)
{
    struct ingest *c = ctx;
    struct buf out;
    bool clone, silent, full;
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);

    os_mutex_lock(c->lock);
    c->hellos++;
    assert_ok(wire_rpc_hello_decode(&c->said, p, n));
    silent = c->silent_hellos > 0 && c->n_unheard < INGEST_UNHEARD;
    if (silent) {
        c->silent_hellos--;
        c->unheard[c->n_unheard++] = call;
    }
    clone = c->clones > 0;
    c->clones -= clone;
    full = c->full > 0;
    c->full -= full;
    os_mutex_unlock(c->lock);
    if (silent) {
        return;
    }
    if (clone) {
        rpc_fail_detail(call, RPC_FAILED_PRECONDITION, 50, "clone", "agent",
                        "another machine is agent: run procfleet-agent enroll --force");
        return;
    }
    if (full) {
        rpc_fail_detail(call, RPC_RESOURCE_EXHAUSTED, 50, "elsewhere", "agent", "too many hosts");
        return;
    }
    buf_init(&out, 4096);
    assert_ok(wire_rpc_hello_reply_encode(&out, &c->hello));
    rpc_answer(call, out.p, out.n, NULL);
    buf_fini(&out);
}

static void answer_push(struct rpc_call *call)
{
    struct wire_push_reply reply = {0};
    struct buf out;

    buf_init(&out, 4096);
    assert_ok(wire_rpc_push_reply_encode(&out, &reply));
    rpc_answer(call, out.p, out.n, NULL);
    buf_fini(&out);
}

/* With the lock held: INGEST_* or a code. */
static int verdict(struct ingest *c, const uint8_t *p, size_t n)
{
    int v = c->decide ? c->decide(c->ctx, p, n) : INGEST_ANSWER;

    if (v == INGEST_ANSWER && c->refuse_times > 0 && (char)p[0] == c->refuse_first) {
        c->refuse_times--;
        v = (int)c->refuse;
    }
    return v == INGEST_ANSWER ? (int)c->mute : v;
}

static void on_push(void *ctx, struct rpc_call *call)
{
    struct ingest *c = ctx;
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);
    char first = (char)p[0];
    int v;

    os_mutex_lock(c->lock);
    c->answered_ns = os_mono_ns();
    v = verdict(c, p, n);
    if (v == INGEST_ANSWER || v == INGEST_TAKE) {
        if (c->n_got + 1 < sizeof c->got) {
            c->got[c->n_got++] = first;
        }
        if (c->on_batch) {
            c->on_batch(c->ctx, p, n);
        }
    }
    if (v < 0 && c->n_unheard < INGEST_UNHEARD) {
        c->unheard[c->n_unheard++] = call;
    }
    c->refused_ns = v > 0 ? c->answered_ns : c->refused_ns;
    os_mutex_unlock(c->lock);
    if (v > 0) {
        rpc_fail(call, (enum rpc_code)v, c->retry_after_ms ? c->retry_after_ms : 10, "no %c",
                 first);
    } else if (v == INGEST_ANSWER) {
        answer_push(call);
    }
}

static void on_heartbeat(void *ctx, struct rpc_call *call)
{
    struct ingest *c = ctx;
    struct wire_heartbeat_reply reply = {0};
    struct wire_heartbeat beat;
    struct buf out;
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);

    assert_ok(wire_rpc_heartbeat_decode(&beat, p, n));
    os_mutex_lock(c->lock);
    c->beats++;
    c->next_seq = beat.next_seq;
    c->beat = beat;
    os_mutex_unlock(c->lock);
    buf_init(&out, 4096);
    assert_ok(wire_rpc_heartbeat_reply_encode(&out, &reply));
    rpc_answer(call, out.p, out.n, NULL);
    buf_fini(&out);
}

static void on_peer(void *ctx, const struct net_identity *who, bool connected)
{
    struct ingest *c = ctx;

    (void)who;
    os_mutex_lock(c->lock);
    c->connections += connected;
    os_mutex_unlock(c->lock);
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
                                   .on_peer = on_peer,
                                   .peer_ctx = c,
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

struct ingest *ingest_create(struct tls_config *tls)
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
    while (c->n_unheard > 0) {
        rpc_fail(c->unheard[--c->n_unheard], RPC_UNAVAILABLE, 0, "too late");
    }
}

static struct rpc_call *take_unheard(struct ingest *c)
{
    struct rpc_call *call = NULL;

    os_mutex_lock(c->lock);
    if (c->n_unheard > 0) {
        call = c->unheard[--c->n_unheard];
    }
    os_mutex_unlock(c->lock);
    return call;
}

void ingest_answer(struct ingest *c)
{
    struct rpc_call *call = take_unheard(c);

    if (call) {
        answer_push(call);
    }
}

void ingest_fail(struct ingest *c)
{
    struct rpc_call *call = take_unheard(c);

    if (call) {
        rpc_fail(call, RPC_UNAVAILABLE, 10, "too late");
    }
}

size_t ingest_unheard(struct ingest *c)
{
    size_t n;

    os_mutex_lock(c->lock);
    n = c->n_unheard;
    os_mutex_unlock(c->lock);
    return n;
}

unsigned ingest_port(const struct ingest *c)
{
    return rpc_server_port(c->server);
}
