#include "collector/ingest/session_impl.h"

#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/uuid.h"

#define BUSY_MS     100 /* until the same batch is asked for again */
#define OVERLOAD_MS 1000
#define FAILED_MS   5000

/* A batch that must never come again: its sender drops it, so it is told here too. */
static void refuse_batch(struct session *s, struct rpc_call *call, uint64_t *counter,
                         enum rpc_code code, const char *reason)
{
    const struct net_identity *who = rpc_call_peer(call);
    char name[160], quoted[320];

    session_count(s, counter, &who->host);
    log_line(LOG_WARN, "session", "refused", "name=%s address=%s reason=%s",
             log_str(name, sizeof name, who->name), who->address,
             log_str(quoted, sizeof quoted, reason));
    rpc_fail(call, code, 0, "%s", reason);
}

/* A batch on its way through the store. */
struct push {
    struct session *session;
    struct rpc_call *call;
    struct uuid host;
    uint64_t stream;
};

static void answer_push(struct session *s, struct rpc_call *call, uint64_t stream, bool duplicate)
{
    const struct uuid host = rpc_call_peer(call)->host;
    struct wire_push_reply reply = {duplicate, store_last_seq(s->conf.store, &host, stream)};
    struct session_entry *h;
    struct buf b;

    os_mutex_lock(s->lock);
    s->stats.stored += !duplicate;
    s->stats.duplicates += duplicate;
    h = session_hosts_find(&s->hosts, &host);
    if (h) {
        h->seen.stored += !duplicate;
        h->seen.duplicates += duplicate;
    }
    os_mutex_unlock(s->lock);
    buf_init(&b, FRAME_HEADER_MAX);
    session_answer(call, &b, wire_rpc_push_reply_encode(&b, &reply));
}

/* Says what the store's refusal means. */
static void refuse_push(struct session *s, struct rpc_call *call, enum err e)
{
    switch (e) {
    case ERR_BUSY:
        session_count(s, &s->stats.overloaded, NULL);
        rpc_fail(call, RPC_RESOURCE_EXHAUSTED, BUSY_MS, "this batch is being written");
        break;
    case ERR_FULL:
    case ERR_NOMEM:
        session_count(s, &s->stats.overloaded, NULL);
        rpc_fail(call, RPC_RESOURCE_EXHAUSTED, OVERLOAD_MS, "too much at once");
        break;
    case ERR_NOSPACE:
        session_count(s, &s->stats.overloaded, NULL);
        rpc_fail(call, RPC_RESOURCE_EXHAUSTED, OVERLOAD_MS, "the collector's disk is full");
        break;
    case ERR_RANGE:
        refuse_batch(s, call, &s->stats.too_old, RPC_OUT_OF_RANGE,
                     "older than the collector keeps");
        break;
    case ERR_INVALID:
        refuse_batch(s, call, &s->stats.corrupt, RPC_INVALID_ARGUMENT,
                     "a batch has a sequence number from 1 and stamps between 1970 and 2200");
        break;
    default:
        session_count(s, &s->stats.unavailable, NULL);
        rpc_fail(call, RPC_UNAVAILABLE, FAILED_MS, "the collector cannot store now: %s",
                 err_text(e));
        break;
    }
}

/* From the store's writer: the batch is durable, or will never be. */
static void on_durable(void *ctx, enum err e)
{
    struct push *p = ctx;
    struct session *s = p->session;

    if (e) {
        refuse_push(s, p->call, e);
    } else {
        answer_push(s, p->call, p->stream, false);
    }
    mem_free(p);
    os_mutex_lock(s->lock);
    s->under_way--;
    os_cond_wake_all(s->idle);
    os_mutex_unlock(s->lock);
}

/* Its number is stored with other content: either two machines are this host, or an agent gave
 * a number twice. Called a duplicate, it would be lost without a word. */
static void refuse_conflict(struct session *s, struct rpc_call *call)
{
    const struct uuid *host = &rpc_call_peer(call)->host;
    struct clock_moment now = session_now(s);
    struct session_entry *h;

    os_mutex_lock(s->lock);
    h = session_hosts_find(&s->hosts, host);
    if (h) {
        h->seen.conflicts++;
        h->conflict_ns = now.mono_ns;
    }
    os_mutex_unlock(s->lock);
    refuse_batch(s, call, &s->stats.conflicts, RPC_ALREADY_EXISTS,
                 "another batch of this stream and number is stored: if a machine was copied "
                 "while it ran, make a new token and run procfleet-agent enroll --force on the "
                 "copy");
}

/* The store did not take it. */
static void settle(struct session *s, struct rpc_call *call, const struct batch_head *key,
                   enum err e)
{
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);

    if (e != ERR_EXISTS) {
        refuse_push(s, call, e);
    } else if (store_differs(s->conf.store, rpc_call_peer(call)->name, key, p, n)) {
        refuse_conflict(s, call);
    } else {
        answer_push(s, call, key->stream, true);
    }
}

static void store_it(struct session *s, struct rpc_call *call, struct batch *b,
                     const struct host_offset *clock, int64_t received_ns)
{
    struct push *p = mem_zalloc(sizeof *p);
    struct batch_head key = b->head;
    struct store_put put = {.batch = b,
                            .host_name = rpc_call_peer(call)->name,
                            .received_ns = received_ns,
                            .clock = *clock,
                            .done = on_durable,
                            .ctx = p};
    enum err e;

    key.source = str_make(NULL); /* goes with the batch */
    if (!p) {
        wire_batch_free(b);
        refuse_push(s, call, ERR_NOMEM);
        return;
    }
    put.bytes = rpc_call_payload(call, &put.n);
    *p = (struct push){s, call, key.host, key.stream};
    os_mutex_lock(s->lock);
    s->under_way++;
    os_mutex_unlock(s->lock);
    e = store_put(s->conf.store, &put);
    if (!e) {
        return; /* the answer is on_durable's, perhaps given already */
    }
    mem_free(p);
    settle(s, call, &key, e);
    os_mutex_lock(s->lock);
    s->under_way--;
    os_cond_wake_all(s->idle);
    os_mutex_unlock(s->lock);
}

static void tell_ahead(const struct net_identity *who, int64_t ahead_ns)
{
    char name[160];

    log_line(LOG_WARN, "session", "stamps_ahead", "name=%s address=%s seconds=%lld remedy=%s",
             log_str(name, sizeof name, who->name), who->address, (long long)(ahead_ns / CLK_S),
             "\"set the host's clock; the data is kept with the stamps it has\"");
}

/* The host's clock when it made the batch. Stamps that are of the future even so are counted, and
 * told about once until they are not. */
static struct host_offset judge_clock(struct session *s, const struct net_identity *who,
                                      const struct batch *b, const struct clock_moment *now)
{
    struct host_offset clock = {0};
    struct session_entry *h;
    int64_t t0_ns, t1_ns, ahead_ns = 0;
    bool news = false;

    store_span(b, now->utc_ns, &t0_ns, &t1_ns);
    os_mutex_lock(s->lock);
    h = session_hosts_find(&s->hosts, &who->host);
    if (h) {
        host_clocks_note_batch(&h->clocks, b, now);
        clock = host_clocks_batch(&h->clocks, b, now, clk_sub(now->utc_ns, s->conf.accept_age_ns));
        ahead_ns = clk_sub(clk_add(t1_ns, clock.known ? clock.offset_ns : 0), now->utc_ns);
        news = ahead_ns > s->conf.future_max_ns && !h->ahead;
        h->ahead = ahead_ns > s->conf.future_max_ns;
        s->stats.future += h->ahead;
    }
    os_mutex_unlock(s->lock);
    if (news) {
        tell_ahead(who, ahead_ns);
    }
    return clock;
}

static void take_batch(struct session *s, struct rpc_call *call, struct batch *b)
{
    const struct net_identity *who = rpc_call_peer(call);
    struct clock_moment now = session_now(s);
    struct host_offset clock;
    char claims[UUID_TEXT];

    if (memcmp(b->head.host.b, who->host.b, sizeof who->host.b) != 0) {
        session_refuse_spoof(s, call, uuid_format(claims, &b->head.host));
        wire_batch_free(b);
        return;
    }
    clock = judge_clock(s, who, b, &now);
    store_it(s, call, b, &clock, now.utc_ns);
}

/* A decoder is one thread's at a time; its making would cost a fifth of a small batch's decoding.
 */
static struct wire_decoder *decoder_take(struct session *s)
{
    struct wire_decoder *dec = NULL;

    os_mutex_lock(s->lock);
    if (s->n_decoders > 0) {
        dec = s->decoders[--s->n_decoders];
    }
    os_mutex_unlock(s->lock);
    return dec || !wire_batch_decoder_create(&dec) ? dec : NULL;
}

static void decoder_give(struct session *s, struct wire_decoder *dec)
{
    os_mutex_lock(s->lock);
    if (s->n_decoders < SESSION_DECODERS) {
        s->decoders[s->n_decoders++] = dec;
        dec = NULL;
    }
    os_mutex_unlock(s->lock);
    wire_batch_decoder_destroy(dec);
}

static enum err decode(struct session *s, struct batch **b, const void *p, size_t n)
{
    struct wire_decoder *dec;
    enum err e;

    if (n > s->conf.max_message) {
        return ERR_FULL;
    }
    dec = decoder_take(s);
    if (!dec) {
        return ERR_NOMEM;
    }
    e = wire_batch_decode_next(dec, b, UINT64_MAX, p, n);
    decoder_give(s, dec);
    return e;
}

void session_push(void *session, struct rpc_call *call)
{
    struct session *s = session;
    const struct session_greeting nothing = {0};
    struct batch *b;
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);
    enum err e;

    if (!rpc_call_peer(call)->has_host) {
        session_refuse_anonymous(s, call);
        return;
    }
    if (!session_greet(s, call, &nothing)) {
        return;
    }
    session_count(s, &s->stats.pushes, NULL);
    e = decode(s, &b, p, n);
    if (e == ERR_NOMEM) {
        refuse_push(s, call, e);
    } else if (e) {
        refuse_batch(s, call, &s->stats.corrupt, RPC_INVALID_ARGUMENT,
                     e == ERR_FULL ? "not a batch: over a limit" : "not a batch");
    } else {
        take_batch(s, call, b);
    }
}
