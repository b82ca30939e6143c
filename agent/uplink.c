#include "agent/uplink.h"

#include <stdio.h>
#include <string.h>

#include "common/clk.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/os.h"
#include "common/rpc.h"

#define CONNECT_TIMEOUT_NS (2 * CLK_S)
#define CALL_TIMEOUT_NS    (10 * CLK_S)
#define LOOK_NS            CLK_S /* at the connection, while nothing is to be sent */
#define PAUSE_MIN_NS       (100 * CLK_MS)
#define PAUSE_MAX_NS       (5 * CLK_S)
#define RETRY_AFTER_NS     CLK_S /* when the collector does not say */
#define REPLY_MAX          (64u << 10)

/* A batch under which connections keep breaking is the cause of it. So many in a row do not happen
 * to a collector that is merely restarted. */
enum { RESETS_MAX = 16, TRIES_MAX = 16 };

struct uplink {
    struct queue *queue;
    struct wire_hello hello;
    int64_t heartbeat_ns;
    void (*limit)(void *ctx, size_t bytes);
    void *ctx;
    struct rpc_client *clients[UPLINK_ADDRESSES_MAX];
    char *addresses[UPLINK_ADDRESSES_MAX];
    size_t n_clients;
    struct os_thread *thread;

    /* of the thread alone */
    size_t current;       /* client in use */
    bool greeted;         /* Hello succeeded and nothing failed since */
    int64_t pause_ns;     /* before the next try */
    int64_t exchanged_ns; /* last answer */
    uint64_t trying;      /* seq the counts below are about */
    unsigned resets, tries;
    size_t max_message; /* the collector's; 0 = not known */
    struct buf request, reply;

    struct os_mutex *lock; /* guards all below */
    struct os_cond *bell;  /* stopping, ended */
    bool stopping;
    bool ended; /* the thread is through with the clients */
    int64_t until_ns;
    struct uplink_status status;
};

/* -- status -- */

void uplink_status(struct uplink *u, struct uplink_status *out)
{
    os_mutex_lock(u->lock);
    *out = u->status;
    os_mutex_unlock(u->lock);
}

/* Until the thread has to end. */
static int64_t time_left(struct uplink *u)
{
    int64_t left_ns = INT64_MAX;

    os_mutex_lock(u->lock);
    if (u->stopping) {
        left_ns = u->until_ns - os_mono_ns();
    }
    os_mutex_unlock(u->lock);
    return left_ns;
}

/* Waits, but no longer than the stop's deadline. */
static void pause_for(struct uplink *u, int64_t ns)
{
    int64_t until_ns = os_mono_ns() + ns;
    bool was_stopping;

    os_mutex_lock(u->lock);
    was_stopping = u->stopping;
    while (os_mono_ns() < until_ns && u->stopping == was_stopping) {
        int64_t end_ns = u->stopping && u->until_ns < until_ns ? u->until_ns : until_ns;

        if (os_cond_wait_until(u->bell, end_ns)) {
            break;
        }
    }
    os_mutex_unlock(u->lock);
}

static void pause_growing(struct uplink *u)
{
    pause_for(u, u->pause_ns);
    u->pause_ns = u->pause_ns * 2 < PAUSE_MAX_NS ? u->pause_ns * 2 : PAUSE_MAX_NS;
}

/* One log line when the state changes. */
static void set_state(struct uplink *u, enum uplink_state state, const char *why)
{
    static const char *const events[] = {"connecting", "connected", "unreachable", "refused"};
    char quoted[600], address[160];
    bool changed;

    os_mutex_lock(u->lock);
    changed = u->status.state != state;
    if (changed) {
        u->status.state = state;
        u->status.since_ns = os_mono_ns();
    }
    if (state != UPLINK_CONNECTED) {
        (void)snprintf(u->status.why, sizeof u->status.why, "%s", why);
    }
    os_mutex_unlock(u->lock);
    if (changed) {
        log_line(state == UPLINK_CONNECTED ? LOG_INFO : LOG_WARN, "uplink", events[state],
                 "collector=%s why=%s", log_str(address, sizeof address, u->addresses[u->current]),
                 log_str(quoted, sizeof quoted, why));
    }
}

/* -- calls -- */

static const char *remedy(enum err e)
{
    switch (e) {
    case ERR_TRUST:
        return "check tls.ca, tls.cert, tls.key and collector.server_name";
    case ERR_REFUSED:
        return "check that the certificate is an agent's, of this host, from this collector's "
               "authority";
    default:
        return "check collector.addresses and that the collector is running";
    }
}

/* A call to the current client. The reply is in u->reply. */
static enum err call(struct uplink *u, const char *method, enum frame_encoding encoding,
                     const void *p, size_t n, struct rpc_result *result)
{
    int64_t left_ns = time_left(u);

    buf_reset(&u->reply);
    memset(result, 0, sizeof *result);
    return rpc_client_call(u->clients[u->current], method, encoding, p, n,
                           left_ns < CALL_TIMEOUT_NS ? left_ns : CALL_TIMEOUT_NS, &u->reply,
                           result);
}

static bool any_connected(const struct uplink *u)
{
    for (size_t i = 0; i < u->n_clients; i++) {
        if (rpc_client_connected(u->clients[i])) {
            return true;
        }
    }
    return false;
}

/* The sockets go on dialling by themselves: no use in asking before one has got through. */
static void await_connection(struct uplink *u)
{
    int64_t until_ns = os_mono_ns() + PAUSE_MAX_NS;

    while (!any_connected(u) && os_mono_ns() < until_ns && time_left(u) > 0) {
        pause_for(u, PAUSE_MIN_NS);
    }
}

/* The exchange failed: next time begins with Hello, at the next address. */
static void on_failure(struct uplink *u, enum err e, const struct rpc_result *result)
{
    struct errmsg problem = {""};
    char why[512];

    u->greeted = false;
    if (e == ERR_CLOSED) {
        return; /* uplink_stop has hung up */
    }
    if (e == ERR_REFUSED) {
        (void)snprintf(why, sizeof why, "the collector says %s: %.200s; %s",
                       rpc_code_name(result->code), result->message, remedy(e));
    } else {
        rpc_client_problem(u->clients[u->current], &problem);
        (void)snprintf(why, sizeof why, "%.300s; %s", problem.text[0] ? problem.text : err_text(e),
                       remedy(e));
    }
    set_state(u, e == ERR_REFUSED || e == ERR_TRUST ? UPLINK_REFUSED : UPLINK_UNREACHABLE, why);
    if (rpc_client_connected(u->clients[u->current])) {
        pause_growing(u); /* it answers, but not as we wish */
    } else {
        await_connection(u);
    }
    u->current = (u->current + 1) % u->n_clients;
}

static void on_success(struct uplink *u, const char *what)
{
    u->pause_ns = PAUSE_MIN_NS;
    u->exchanged_ns = os_mono_ns();
    set_state(u, UPLINK_CONNECTED, what);
}

/* -- Hello and Heartbeat -- */

static void take_limit(struct uplink *u, const struct wire_hello_reply *r)
{
    u->max_message = r->max_message;
    if (u->limit && r->max_message > 0) {
        u->limit(u->ctx, r->max_message);
    }
}

static bool is_busy(enum rpc_code code)
{
    return code == RPC_RESOURCE_EXHAUSTED || code == RPC_UNAVAILABLE ||
           code == RPC_DEADLINE_EXCEEDED || code == RPC_ABORTED || code == RPC_CANCELLED;
}

static void wait_as_told(struct uplink *u, const struct rpc_result *result)
{
    pause_for(u, result->retry_after_ms ? result->retry_after_ms * CLK_MS : RETRY_AFTER_NS);
}

static void prefer_connected(struct uplink *u)
{
    for (size_t i = 0; i < u->n_clients && !rpc_client_connected(u->clients[u->current]); i++) {
        if (rpc_client_connected(u->clients[i])) {
            u->current = i;
        }
    }
}

static enum err wait_connected(struct uplink *u, struct errmsg *why)
{
    int64_t left_ns = time_left(u);

    return rpc_client_wait(u->clients[u->current],
                           left_ns < CONNECT_TIMEOUT_NS ? left_ns : CONNECT_TIMEOUT_NS, why);
}

/* What the collector made durable although its answer never reached us: acknowledged like the rest.
 */
static void stored_unheard(struct uplink *u, uint64_t last_seq)
{
    size_t n = queue_drop(u->queue, last_seq);

    os_mutex_lock(u->lock);
    u->status.acknowledged += n;
    u->status.duplicates += n;
    os_mutex_unlock(u->lock);
}

static bool greet(struct uplink *u)
{
    struct wire_hello_reply answer;
    struct rpc_result result = {0};
    struct errmsg why;
    enum err e;

    prefer_connected(u);
    e = wait_connected(u, &why);
    if (e) {
        on_failure(u, e, &result);
        return false;
    }
    u->hello.wall_ns = os_utc_ns();
    u->hello.mono_ns = os_mono_ns();
    buf_reset(&u->request);
    e = wire_hello_encode(&u->request, &u->hello);
    if (!e) {
        e = call(u, RPC_INGEST_HELLO, FRAME_RAW, u->request.p, u->request.n, &result);
    }
    if (e == ERR_REFUSED && is_busy(result.code)) {
        wait_as_told(u, &result);
        return false;
    }
    if (!e) {
        e = wire_hello_reply_decode(&answer, u->reply.p, u->reply.n);
    }
    if (e) {
        on_failure(u, e, &result);
        return false;
    }
    take_limit(u, &answer);
    stored_unheard(u, answer.last_seq);
    u->greeted = true;
    on_success(u, "hello accepted");
    return true;
}

static void heartbeat(struct uplink *u)
{
    struct wire_heartbeat beat = {.stream = u->hello.stream};
    struct rpc_result result;
    struct queue_stats q;
    enum err e;

    queue_stats(u->queue, &q);
    beat.next_seq = q.last_seq + 1;
    beat.wall_ns = os_utc_ns();
    beat.mono_ns = os_mono_ns();
    buf_reset(&u->request);
    e = wire_heartbeat_encode(&u->request, &beat);
    if (!e) {
        e = call(u, RPC_INGEST_HEARTBEAT, FRAME_RAW, u->request.p, u->request.n, &result);
    }
    if (e == ERR_REFUSED && is_busy(result.code)) {
        wait_as_told(u, &result);
    } else if (e == ERR_REFUSED) {
        u->greeted = false; /* a restarted collector does not know us: greet again */
        pause_growing(u);
    } else if (e) {
        on_failure(u, e, &result);
    } else {
        on_success(u, "heartbeat");
        os_mutex_lock(u->lock);
        u->status.heartbeats++;
        os_mutex_unlock(u->lock);
    }
}

/* -- Push -- */

static void acknowledged(struct uplink *u, const struct queue_item *item, bool duplicate)
{
    os_mutex_lock(u->lock);
    u->status.acknowledged++;
    u->status.duplicates += duplicate;
    u->status.bytes += item->n;
    os_mutex_unlock(u->lock);
    queue_drop(u->queue, item->seq);
}

/* The batch will never be taken: make way for the next. */
static void quarantine(struct uplink *u, const struct queue_item *item, const char *why)
{
    char quoted[400];
    bool news;

    os_mutex_lock(u->lock);
    news = u->status.quarantined == 0 || strcmp(u->status.why, why) != 0;
    u->status.quarantined++;
    (void)snprintf(u->status.why, sizeof u->status.why, "%s", why);
    os_mutex_unlock(u->lock);
    if (news) {
        log_line(LOG_WARN, "uplink", "quarantined", "seq=%llu bytes=%zu why=%s",
                 (unsigned long long)item->seq, item->n, log_str(quoted, sizeof quoted, why));
    }
    queue_drop(u->queue, item->seq);
}

static void count_resent(struct uplink *u)
{
    os_mutex_lock(u->lock);
    u->status.resent++;
    os_mutex_unlock(u->lock);
}

/* What the collector's status means for the batch. */
static void on_refused(struct uplink *u, const struct queue_item *item,
                       const struct rpc_result *result)
{
    char why[320];

    (void)snprintf(why, sizeof why, "%s: %.256s", rpc_code_name(result->code), result->message);
    if (is_busy(result->code)) {
        count_resent(u);
        wait_as_told(u, result);
        return;
    }
    switch (result->code) {
    case RPC_FAILED_PRECONDITION:
    case RPC_UNAUTHENTICATED:
    case RPC_NOT_FOUND: /* it wants a Hello first, */
    case RPC_INTERNAL:
    case RPC_UNKNOWN: /* or has trouble of its own; but not for ever */
        u->greeted = false;
        if (++u->tries > TRIES_MAX) {
            quarantine(u, item, why);
        } else {
            count_resent(u);
            pause_growing(u);
        }
        break;
    default:
        quarantine(u, item, why);
        break;
    }
}

static void on_broken(struct uplink *u, const struct queue_item *item, enum err e,
                      const struct rpc_result *result)
{
    if (e == ERR_UNREACHABLE && ++u->resets > RESETS_MAX) {
        quarantine(u, item, "the connection broke under this batch again and again");
    } else {
        count_resent(u);
    }
    on_failure(u, e, result);
}

static void push(struct uplink *u, const struct queue_item *item)
{
    struct wire_push_reply answer = {0};
    struct rpc_result result;
    enum err e;

    if (u->trying != item->seq) {
        u->trying = item->seq;
        u->resets = u->tries = 0;
    }
    if (u->max_message && item->n > u->max_message) {
        quarantine(u, item, "larger than the collector takes");
        return;
    }
    e = call(u, RPC_INGEST_PUSH, FRAME_ZSTD, item->p, item->n, &result);
    if (e == ERR_REFUSED) {
        on_refused(u, item, &result);
        return;
    }
    if (!e) {
        e = wire_push_reply_decode(&answer, u->reply.p, u->reply.n);
    }
    if (e) {
        on_broken(u, item, e, &result);
        return;
    }
    on_success(u, "push acknowledged");
    acknowledged(u, item, answer.duplicate);
}

/* -- the thread -- */

static void set_drained(struct uplink *u)
{
    os_mutex_lock(u->lock);
    u->status.drained = true;
    os_mutex_unlock(u->lock);
}

static void uplink_run(void *arg)
{
    struct uplink *u = arg;

    while (time_left(u) > 0) {
        struct queue_item item;
        int64_t beat_ns = u->exchanged_ns + u->heartbeat_ns;
        int64_t look_ns = os_mono_ns() + LOOK_NS;
        int64_t until_ns = beat_ns < look_ns ? beat_ns : look_ns;
        enum err e = queue_peek(u->queue, u->greeted ? until_ns : 0, &item);

        if (e == ERR_END) {
            set_drained(u);
            break;
        }
        if (!rpc_client_connected(u->clients[u->current])) {
            u->greeted = false; /* lost while nothing was under way */
        }
        if (!u->greeted) {
            (void)greet(u);
        } else if (!e) {
            push(u, &item);
        } else if (os_mono_ns() >= beat_ns) {
            heartbeat(u);
        }
    }
    os_mutex_lock(u->lock);
    u->ended = true;
    os_cond_wake_all(u->bell);
    os_mutex_unlock(u->lock);
}

static enum err open_clients(struct uplink *u, const struct uplink_conf *conf, struct errmsg *why)
{
    struct net_client_conf net = {.tls = conf->tls,
                                  .receive_max = REPLY_MAX,
                                  .reconnect_min_ns = 500 * CLK_MS,
                                  .reconnect_max_ns = 60 * CLK_S};
    enum err e;

    for (size_t i = 0; i < conf->n_addresses; i++) {
        u->addresses[i] = mem_strdup(conf->addresses[i]);
        if (!u->addresses[i]) {
            return errmsg_set(why, ERR_NOMEM, "out of memory");
        }
        net.address = u->addresses[i];
        e = rpc_client_open(&u->clients[i], &net, "procfleet-agent " PROCFLEET_VERSION, why);
        if (e) {
            mem_free(u->addresses[i]);
            u->addresses[i] = NULL;
            return e;
        }
        u->n_clients = i + 1;
    }
    return ERR_OK;
}

static void release(struct uplink *u)
{
    for (size_t i = 0; i < u->n_clients; i++) {
        rpc_client_close(u->clients[i]);
        mem_free(u->addresses[i]);
    }
    os_cond_destroy(u->bell);
    os_mutex_destroy(u->lock);
    buf_fini(&u->request);
    buf_fini(&u->reply);
    mem_free(u);
}

enum err uplink_start(struct uplink **out, const struct uplink_conf *conf, struct errmsg *why)
{
    struct uplink *u;
    enum err e;

    if (conf->n_addresses == 0 || conf->n_addresses > UPLINK_ADDRESSES_MAX) {
        return errmsg_set(why, ERR_RANGE, "collector.addresses: 1 to %d addresses are needed",
                          UPLINK_ADDRESSES_MAX);
    }
    u = mem_zalloc(sizeof *u);
    if (!u) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    u->queue = conf->queue;
    u->hello = conf->hello;
    u->heartbeat_ns = conf->heartbeat_ns;
    u->limit = conf->limit;
    u->ctx = conf->ctx;
    u->pause_ns = PAUSE_MIN_NS;
    u->status.since_ns = u->exchanged_ns = os_mono_ns();
    buf_init(&u->request, REPLY_MAX);
    buf_init(&u->reply, REPLY_MAX);
    e = os_mutex_create(&u->lock);
    if (!e) {
        e = os_cond_create(&u->bell, u->lock);
    }
    if (!e) {
        e = open_clients(u, conf, why);
    }
    if (!e) {
        e = os_thread_start(&u->thread, "uplink", uplink_run, u);
    }
    if (e) {
        release(u);
        return e;
    }
    *out = u;
    return ERR_OK;
}

/* Whether the thread ended by itself. */
static bool await_end(struct uplink *u, int64_t until_ns)
{
    enum err e = ERR_OK;
    bool ended;

    os_mutex_lock(u->lock);
    while (!u->ended && !e) {
        e = os_cond_wait_until(u->bell, until_ns);
    }
    ended = u->ended;
    os_mutex_unlock(u->lock);
    return ended;
}

void uplink_stop(struct uplink *u, int64_t until_ns)
{
    if (!u) {
        return;
    }
    os_mutex_lock(u->lock);
    u->stopping = true;
    u->until_ns = until_ns;
    os_cond_wake_all(u->bell);
    os_mutex_unlock(u->lock);
    queue_wake(u->queue);
    if (!await_end(u, until_ns)) {
        for (size_t i = 0; i < u->n_clients; i++) {
            rpc_client_hang_up(u->clients[i]); /* what is under way has had its time */
        }
    }
    os_thread_join(u->thread);
    release(u);
}
