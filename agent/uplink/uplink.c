/* The thread: takes what has ended, sends what may be sent, says what is due, and waits for news in
 * the outbox, where also the ends of calls and changes of the connection wake it. While nothing
 * happens it runs once a heartbeat. */
#include "agent/uplink/uplink.h"

#include <stdio.h>
#include <string.h>

#include "agent/status/event_log.h"
#include "agent/uplink/uplink_impl.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/log/log.h"

#define RETRY_AFTER_NS CLK_S /* when the collector does not say */
#define REPLY_MAX      (64u << 10)

/* -- status -- */

void uplink_status(struct uplink *u, struct uplink_status *out)
{
    int64_t now_ns = os_mono_ns();

    os_mutex_lock(u->lock);
    *out = u->status;
    for (size_t i = 0; i < UPLINK_BREAKS; i++) {
        out->breaks += u->broke_ns[i] > 0 && now_ns - u->broke_ns[i] < UPLINK_BREAKS_NS;
    }
    os_mutex_unlock(u->lock);
}

void uplink_set_state(struct uplink *u, enum uplink_state state, const char *why)
{
    static const struct {
        const char *event;
        enum event_log_note note;
    } states[] = {[UPLINK_CONNECTING] = {"connecting", EVENT_LOG_NO_NOTE},
                  [UPLINK_CONNECTED] = {"connected", EVENT_LOG_CONNECTED},
                  [UPLINK_UNREACHABLE] = {"unreachable", EVENT_LOG_NO_NOTE},
                  [UPLINK_REFUSED] = {"refused", EVENT_LOG_REFUSED},
                  [UPLINK_FAILING] = {"failing", EVENT_LOG_NO_NOTE}};
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
        log_note(states[state].note, state == UPLINK_CONNECTED ? LOG_INFO : LOG_WARN, "uplink",
                 states[state].event, "collector=%s why=%s",
                 log_str(address, sizeof address, u->addresses[u->current]),
                 log_str(quoted, sizeof quoted, why));
    }
}

/* -- time and chance -- */

int64_t uplink_time_left(struct uplink *u)
{
    int64_t left_ns = INT64_MAX;

    os_mutex_lock(u->lock);
    if (u->stopping) {
        left_ns = u->until_ns - os_mono_ns();
    }
    os_mutex_unlock(u->lock);
    return left_ns;
}

/* xorshift64*: good enough to spread a fleet. */
int64_t uplink_chance(struct uplink *u, int64_t ns)
{
    uint64_t x = u->chance;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    u->chance = x;
    return ns > 0 ? clk_add(ns, (int64_t)((x * 0x2545f4914f6cdd1du >> 1) % (uint64_t)ns)) : ns;
}

int64_t uplink_growing(struct uplink *u, int64_t *pause_ns)
{
    int64_t now_ns = *pause_ns > UPLINK_PAUSE_MIN_NS ? *pause_ns : UPLINK_PAUSE_MIN_NS;

    *pause_ns = now_ns * 2 < u->pause_max_ns ? now_ns * 2 : u->pause_max_ns;
    return uplink_chance(u, now_ns);
}

bool uplink_is_busy(enum rpc_code code)
{
    return code == RPC_RESOURCE_EXHAUSTED || code == RPC_UNAVAILABLE ||
           code == RPC_DEADLINE_EXCEEDED || code == RPC_ABORTED || code == RPC_CANCELLED;
}

int64_t uplink_retry_ns(struct uplink *u, const struct rpc_result *result)
{
    int64_t ns = result->retry_after_ms ? result->retry_after_ms * CLK_MS : RETRY_AFTER_NS;

    return os_mono_ns() + uplink_chance(u, ns);
}

/* -- calls of others -- */

enum err uplink_call(struct uplink *u, const char *method, const void *p, size_t n,
                     int64_t timeout_ns, struct buf *reply, struct rpc_result *result)
{
    for (size_t i = 0; i < u->n_clients; i++) {
        if (rpc_client_connected(u->clients[i])) {
            return rpc_client_call(u->clients[i], method, FRAME_RAW, p, n, timeout_ns, reply,
                                   result);
        }
    }
    return ERR_UNREACHABLE;
}

/* -- the thread -- */

void uplink_woken(void *ctx)
{
    struct uplink *u = ctx;

    u->outbox.wake(u->outbox.ctx);
}

void uplink_refresh(struct uplink *u)
{
    os_mutex_lock(u->lock);
    u->refresh = true;
    os_mutex_unlock(u->lock);
    uplink_woken(u);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Ends what is under way. */
static void hang_up(struct uplink *u)
{
    struct rpc_result result;

    for (size_t i = 0; i < u->n_clients; i++) {
        rpc_client_hang_up(u->clients[i]);
    }
    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        if (u->slots[i].call) {
            buf_reset(&u->reply);
            err_ignore(rpc_client_finish(u->slots[i].call, &u->reply, &result, NULL));
        }
    }
    if (u->talk_call) {
        buf_reset(&u->reply);
        err_ignore(rpc_client_finish(u->talk_call, &u->reply, &result, NULL));
    }
}

static void uplink_run(void *arg)
{
    struct uplink *u = arg;
    bool drained = false;

    while (!drained && uplink_time_left(u) > 0) {
        int64_t push_ns, talk_ns, left_ns;

        uplink_push_collect(u);
        push_ns = uplink_push_step(u);
        talk_ns = uplink_talk_step(u);
        drained = u->ended_outbox;
        left_ns = uplink_time_left(u);
        if (!drained && left_ns > 0) {
            u->outbox.wait(u->outbox.ctx,
                           earlier(earlier(push_ns, talk_ns), clk_add(os_mono_ns(), left_ns)));
        }
    }
    os_mutex_lock(u->lock);
    u->status.drained = drained;
    os_mutex_unlock(u->lock);
    hang_up(u);
}

/* -- start and end -- */

/* The i-th address to try. Spread: by a hash of host and address (rendezvous), so that when one
 * falls out its hosts divide among the others and nobody else moves. */
static const char *uplink_address(const struct uplink_conf *conf, size_t i)
{
    uint64_t below = UINT64_MAX, seed = hash_bytes(&conf->hello.host, sizeof conf->hello.host, 0);
    size_t at = i;

    for (size_t rank = 0; conf->spread && rank <= i; rank++) {
        uint64_t most = 0;

        for (size_t k = 0; k < conf->n_addresses; k++) {
            /* its place makes equal addresses differ */
            uint64_t h = (hash_bytes(conf->addresses[k], strlen(conf->addresses[k]), seed) &
                          ~(uint64_t)(UPLINK_ADDRESSES_MAX - 1)) |
                         k;

            if (h < below && h >= most) {
                most = h;
                at = k;
            }
        }
        below = most;
    }
    return conf->addresses[at];
}

static enum err open_clients(struct uplink *u, const struct uplink_conf *conf, struct errmsg *why)
{
    struct net_client_conf net = {.tls = conf->tls,
                                  .receive_max = REPLY_MAX,
                                  .reconnect_min_ns = earlier(500 * CLK_MS, u->pause_max_ns),
                                  .reconnect_max_ns =
                                      earlier(UPLINK_RECONNECT_MAX_NS, u->pause_max_ns),
                                  .wary = true};
    enum err e;

    for (size_t i = 0; i < conf->n_addresses; i++) {
        struct errmsg cause = {""};

        u->addresses[i] = mem_strdup(uplink_address(conf, i));
        if (!u->addresses[i]) {
            return errmsg_set(why, ERR_NOMEM, "out of memory");
        }
        net.address = u->addresses[i];
        e = rpc_client_open(&u->clients[i], &net, "procfleet-agent " PROCFLEET_VERSION, &cause);
        if (e) {
            mem_free(u->addresses[i]);
            u->addresses[i] = NULL;
            return errmsg_set(why, e, "collector.addresses: %s",
                              cause.text[0] ? cause.text : err_text(e));
        }
        u->n_clients = i + 1;
        rpc_client_watch(u->clients[i], uplink_woken, u);
    }
    return ERR_OK;
}

static void release(struct uplink *u)
{
    for (size_t i = 0; i < u->n_clients; i++) {
        rpc_client_close(u->clients[i]);
        mem_free(u->addresses[i]);
    }
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
    u->outbox = conf->outbox;
    u->hello = conf->hello;
    u->heartbeat_ns = conf->heartbeat_ns;
    u->call_ns = conf->call_ns > 0 ? conf->call_ns : UPLINK_CALL_NS;
    u->pause_max_ns = conf->pause_max_ns > 0 ? conf->pause_max_ns : UPLINK_PAUSE_MAX_NS;
    u->home_ns = conf->home_ns > 0 ? conf->home_ns : UPLINK_HOME_NS;
    u->doubt_ns = conf->doubt_ns > 0 ? conf->doubt_ns : UPLINK_DOUBT_NS;
    u->limit = conf->limit;
    u->events = conf->events;
    u->utc_ns = conf->utc_ns;
    u->facts = conf->facts;
    u->ctx = conf->ctx;
    u->in_flight = 1;
    u->settled = !conf->spread;
    u->status.since_ns = os_mono_ns();
    buf_init(&u->request, REPLY_MAX);
    buf_init(&u->reply, REPLY_MAX);
    e = os_mutex_create(&u->lock);
    if (!e) {
        e = os_random(&u->chance, sizeof u->chance);
        u->chance |= 1; /* 0 would stay 0 */
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

void uplink_stop(struct uplink *u, int64_t until_ns)
{
    if (!u) {
        return;
    }
    os_mutex_lock(u->lock);
    u->stopping = true;
    u->until_ns = until_ns;
    os_mutex_unlock(u->lock);
    uplink_woken(u);
    os_thread_join(u->thread);
    release(u);
}
