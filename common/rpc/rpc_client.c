#include "common/rpc/rpc.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/net/net.h"
#include "common/os/os.h"

struct rpc_client {
    struct net_client *net;
    size_t receive_max;
    char name[32];
    uint8_t id[8];          /* first half of the call ids */
    atomic_uint_fast64_t n; /* second half */
};

enum err rpc_client_open(struct rpc_client **out, const struct net_client_conf *conf,
                         const char *client_name, struct errmsg *why)
{
    struct rpc_client *c = mem_zalloc(sizeof *c);
    enum err e;

    if (!c) {
        return ERR_NOMEM;
    }
    c->receive_max = conf->receive_max;
    snprintf(c->name, sizeof c->name, "%s", client_name);
    atomic_init(&c->n, 1);
    e = os_random(c->id, sizeof c->id);
    if (!e) {
        e = net_client_open(&c->net, conf, why);
    }
    if (e) {
        mem_free(c);
        return e;
    }
    *out = c;
    return ERR_OK;
}

void rpc_client_hang_up(struct rpc_client *c)
{
    net_client_hang_up(c->net);
}

void rpc_client_close(struct rpc_client *c)
{
    if (!c) {
        return;
    }
    net_client_close(c->net);
    mem_free(c);
}

static void fill_header(struct rpc_client *c, struct frame_request *h, const char *method,
                        enum frame_encoding encoding, int64_t timeout_ns)
{
    int64_t ms = timeout_ns / CLK_MS;
    uint64_t n = atomic_fetch_add(&c->n, 1);

    snprintf(h->method, sizeof h->method, "%s", method);
    snprintf(h->client, sizeof h->client, "%s", c->name);
    memcpy(h->call_id, c->id, sizeof c->id);
    memcpy(h->call_id + sizeof c->id, &n, sizeof n);
    h->timeout_ms = ms < 1 ? 1 : ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
    h->encoding = (uint8_t)encoding;
}

static void fill_result(struct rpc_result *r, const struct frame_reply *h)
{
    memset(r, 0, sizeof *r);
    r->code = h->code;
    memcpy(r->message, h->message, sizeof r->message);
    memcpy(r->detail, h->details[0].key, sizeof r->detail); /* empty without details */
    r->retry_after_ms =
        h->retry_after_ms < RPC_RETRY_AFTER_MAX_MS ? h->retry_after_ms : RPC_RETRY_AFTER_MAX_MS;
    r->more = h->more;
    r->cursor_n = h->cursor_n;
    memcpy(r->cursor, h->cursor, h->cursor_n);
    r->epoch = h->epoch;
}

/* A server that does not know our frame version cannot know our call id either. */
static bool answers(const struct frame_reply *reply, const struct frame_request *request)
{
    static const uint8_t none[sizeof reply->call_id];

    return memcmp(reply->call_id, request->call_id, sizeof reply->call_id) == 0 ||
           (reply->code == RPC_FAILED_PRECONDITION &&
            memcmp(reply->call_id, none, sizeof none) == 0);
}

static enum err take_reply(const struct buf *frame, const struct frame_request *request,
                           struct buf *reply, struct rpc_result *result)
{
    struct frame_reply h;
    const uint8_t *payload;
    size_t n;
    enum err e = frame_get_reply(&h, &payload, &n, frame->p, frame->n);

    if (e) {
        return e == ERR_NOMEM ? e : ERR_CORRUPT;
    }
    if (!answers(&h, request)) {
        return ERR_CORRUPT;
    }
    if (result) {
        fill_result(result, &h);
    }
    if (h.code != RPC_OK) {
        return ERR_REFUSED;
    }
    if (h.encoding == FRAME_ZSTD) {
        return rpc_zstd_decode(reply, payload, n);
    }
    if (h.encoding != FRAME_RAW) {
        return ERR_CORRUPT;
    }
    buf_put(reply, payload, n);
    return reply->bad;
}

/* The frame of a request; *frame is to be released in any case. */
static enum err make_frame(struct rpc_client *c, struct buf *frame, struct frame_request *h,
                           const char *method, enum frame_encoding encoding, const void *payload,
                           size_t n, int64_t timeout_ns)
{
    fill_header(c, h, method, encoding, timeout_ns);
    if (encoding == FRAME_ZSTD) {
        h->raw_bytes = (uint32_t)rpc_zstd_size(payload, n);
    }
    buf_init(frame, n + FRAME_HEADER_MAX + 16);
    return frame_put_request(frame, h, payload, n);
}

enum err rpc_client_call(struct rpc_client *c, const char *method,
                         enum frame_encoding payload_encoding, const void *payload, size_t n,
                         int64_t timeout_ns, struct buf *reply, struct rpc_result *result)
{
    struct frame_request h = {.method = ""};
    struct buf frame, answer;
    enum err e = make_frame(c, &frame, &h, method, payload_encoding, payload, n, timeout_ns);

    buf_init(&answer, c->receive_max);
    if (!e) {
        e = net_client_call(c->net, frame.p, frame.n, timeout_ns, &answer);
    }
    if (!e) {
        e = take_reply(&answer, &h, reply, result);
    }
    buf_fini(&frame);
    buf_fini(&answer);
    return e;
}

/* -- without waiting -- */

struct rpc_pending {
    struct rpc_client *client;
    struct net_call *call;
    struct frame_request header;
    int64_t begun_ns;
};

enum err rpc_client_begin(struct rpc_pending **out, struct rpc_client *c, const char *method,
                          enum frame_encoding payload_encoding, const void *payload, size_t n,
                          int64_t timeout_ns, void (*on_end)(void *ctx), void *ctx)
{
    struct rpc_pending *p = mem_zalloc(sizeof *p);
    struct buf frame;
    enum err e;

    if (!p) {
        return ERR_NOMEM;
    }
    p->client = c;
    e = make_frame(c, &frame, &p->header, method, payload_encoding, payload, n, timeout_ns);
    if (!e) {
        p->begun_ns = os_mono_ns();
        e = net_client_begin(&p->call, c->net, frame.p, frame.n, timeout_ns, on_end, ctx);
    }
    buf_fini(&frame);
    if (e) {
        mem_free(p);
        return e;
    }
    *out = p;
    return ERR_OK;
}

bool rpc_client_ended(const struct rpc_pending *p)
{
    return net_client_ended(p->call);
}

enum err rpc_client_finish(struct rpc_pending *p, struct buf *reply, struct rpc_result *result,
                           int64_t *took_ns)
{
    struct buf answer;
    int64_t ended_ns;
    enum err e;

    buf_init(&answer, p->client->receive_max);
    e = net_client_finish(p->call, &answer, &ended_ns);
    if (!e) {
        e = take_reply(&answer, &p->header, reply, result);
    }
    if (took_ns) {
        *took_ns = ended_ns - p->begun_ns;
    }
    buf_fini(&answer);
    mem_free(p);
    return e;
}

uint64_t rpc_client_connection(const struct rpc_client *c)
{
    return net_client_connection(c->net);
}

void rpc_client_redial(struct rpc_client *c)
{
    net_client_redial(c->net);
}

void rpc_client_useful(struct rpc_client *c)
{
    net_client_useful(c->net);
}

void rpc_client_pause(struct rpc_client *c, int64_t max_ns)
{
    net_client_pause(c->net, max_ns);
}

enum err rpc_client_fault(struct rpc_client *c, struct errmsg *out)
{
    return net_client_fault(c->net, out);
}

enum tls_cause rpc_client_cause(const struct rpc_client *c)
{
    return net_client_cause(c->net);
}

void rpc_client_watch(struct rpc_client *c, void (*on_change)(void *ctx), void *ctx)
{
    net_client_watch(c->net, on_change, ctx);
}

bool rpc_client_connected(const struct rpc_client *c)
{
    return net_client_connected(c->net);
}

enum err rpc_client_wait(struct rpc_client *c, int64_t timeout_ns, struct errmsg *why)
{
    return net_client_wait(c->net, timeout_ns, why);
}

void rpc_client_problem(struct rpc_client *c, struct errmsg *out)
{
    net_client_problem(c->net, out);
}
