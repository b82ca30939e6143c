/* The file is written anew each time, to a temporary neighbour, synced and renamed: u8[8] magic,
 * u32 version, u64 updates, u64 dropped, u16 n and the cursor, u32 n and what the owner keeps,
 * u64 XXH3-64 of all before; little endian.
 *
 * A small state is written after each delivery. With a large one that costs: the next write waits
 * for twenty times as long as the last one took, for 10 s at most. What is delivered in between
 * comes again if the program is killed. */
#include "collector/forward/consumer.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "common/rpc/rpc.h"

#define MAGIC         "PFCONSUM"
#define VERSION       1u
#define SUM_BYTES     8u
#define REPLY_MAX     (4u << 20)
#define WAIT_MS       10000u /* of a poll, at the collector */
#define ANSWER_NS     (20 * CLK_S)
#define PAUSE_MIN_NS  (500 * CLK_MS)
#define PAUSE_MAX_NS  (120 * CLK_S)
#define POLL_PAUSE_NS (60 * CLK_S)
#define SAVE_SHARE    20
#define SAVE_SMALL    ((size_t)64 << 10)
#define SAVE_MAX_NS   (10 * CLK_S)
#define QUOTED        600

struct consumer {
    struct consumer_conf conf;
    struct tls_config *tls;
    struct rpc_client *client;
    struct os_lock *lock;
    struct os_mutex *mutex; /* guards stop and stats */
    struct os_cond *wake;
    bool stop;
    struct consumer_stats stats;
    uint8_t cursor[WIRE_CURSOR_MAX];
    size_t n_cursor;
    bool unsaved;
    int64_t save_from_ns;       /* not before */
    struct consumer_retry away; /* the collector */
    bool told_save;
};

/* -- the file -- */

static enum err state_parse(struct consumer *c, const uint8_t *p, size_t n)
{
    struct cur in = cur_make(p, n >= SUM_BYTES ? n - SUM_BYTES : 0);
    const uint8_t *cursor, *kept, *magic = cur_bytes(&in, sizeof MAGIC - 1);
    uint32_t version = cur_u32le(&in);
    uint64_t updates = cur_u64le(&in), dropped = cur_u64le(&in);
    size_t n_cursor = cur_u16le(&in), n_kept;
    enum err e = ERR_OK;

    cursor = cur_bytes(&in, n_cursor);
    n_kept = cur_u32le(&in);
    kept = cur_bytes(&in, n_kept);
    if (in.bad || cur_left(&in) || n_cursor > sizeof c->cursor ||
        memcmp(magic, MAGIC, sizeof MAGIC - 1) != 0 ||
        cur_at64le(p + n - SUM_BYTES) != hash_bytes(p, n - SUM_BYTES, 0)) {
        return ERR_CORRUPT;
    }
    if (version != VERSION) {
        return ERR_VERSION;
    }
    if (c->conf.load) {
        e = c->conf.load(c->conf.ctx, kept, n_kept);
    }
    if (!e) {
        memcpy(c->cursor, cursor, n_cursor);
        c->n_cursor = n_cursor;
        c->stats.updates = updates;
        c->stats.dropped = dropped;
    }
    return e;
}

static enum err state_read(struct consumer *c, struct errmsg *why)
{
    uint8_t *p;
    size_t n;
    enum err e = os_read_file(&p, &n, c->conf.state, CONSUMER_STATE_MAX);

    if (e == ERR_NOTFOUND) {
        return ERR_OK;
    }
    if (!e) {
        e = state_parse(c, p, n);
        mem_free(p);
    }
    return e ? errmsg_set(why, e,
                          "%s cannot be used: %s; without the file it goes on where the collector "
                          "knows this subscription to be",
                          c->conf.state, err_text(e))
             : ERR_OK;
}

static enum err state_write(struct consumer *c, size_t *size)
{
    struct buf b;
    size_t at, n;
    enum err e;

    buf_init(&b, CONSUMER_STATE_MAX);
    buf_put(&b, MAGIC, sizeof MAGIC - 1);
    buf_put_u32le(&b, VERSION);
    buf_put_u64le(&b, c->stats.updates);
    buf_put_u64le(&b, c->stats.dropped);
    buf_put_u16le(&b, (uint16_t)c->n_cursor);
    buf_put(&b, c->cursor, c->n_cursor);
    at = b.n;
    buf_put_u32le(&b, 0);
    if (c->conf.save) {
        c->conf.save(c->conf.ctx, &b);
    }
    if (!b.bad) {
        n = b.n - at - 4;
        for (size_t i = 0; i < 4; i++) {
            b.p[at + i] = (uint8_t)(n >> 8 * i);
        }
        buf_put_u64le(&b, hash_bytes(b.p, b.n, 0));
    }
    *size = b.n;
    e = b.bad ? b.bad : os_write_file(c->conf.state, b.p, b.n, true);
    buf_fini(&b);
    return e;
}

/* A full disk ends nothing: what was delivered since comes again if the program is killed. */
static void state_save(struct consumer *c)
{
    int64_t begin = os_mono_ns(), took;
    char quoted[QUOTED];
    size_t size;
    enum err e = state_write(c, &size);

    took = size > SAVE_SMALL ? (os_mono_ns() - begin) * SAVE_SHARE : 0;
    c->save_from_ns = begin + (took < SAVE_MAX_NS ? took : SAVE_MAX_NS);
    c->unsaved = e != ERR_OK;
    if (e && !c->told_save) {
        log_line(LOG_ERROR, "consumer", "not saved", "file=%s reason=\"%s\" until_then=%s",
                 log_str(quoted, sizeof quoted, c->conf.state), err_text(e),
                 "\"what is delivered comes again after a kill\"");
    }
    c->told_save = e != ERR_OK;
}

/* -- open, close -- */

static enum err consumer_lock(struct consumer *c, struct errmsg *why)
{
    char path[1024];
    enum err e = ERR_RANGE;

    if (snprintf(path, sizeof path, "%s.lock", c->conf.state) < (int)sizeof path) {
        e = os_lock(&c->lock, path);
    }
    if (e == ERR_BUSY) {
        return errmsg_set(why, e, "another program runs with %s: stop it, or set another state_dir",
                          c->conf.state);
    }
    return e ? errmsg_set(why, e,
                          "cannot lock %s: %s; its directory must be there and this "
                          "program's own",
                          path, err_text(e))
             : ERR_OK;
}

enum err consumer_open(struct consumer **out, const struct consumer_conf *conf, struct errmsg *why)
{
    struct consumer *c = mem_zalloc(sizeof *c);
    struct net_tls_conf tls = {
        .ca = conf->ca, .cert = conf->cert, .key = conf->key, .server_name = conf->server_name};
    struct net_client_conf net = {.address = conf->collector,
                                  .receive_max = REPLY_MAX + (64u << 10),
                                  .reconnect_min_ns = 200 * CLK_MS,
                                  .reconnect_max_ns = 10 * CLK_S};
    enum err e;

    if (!c) {
        return ERR_NOMEM;
    }
    c->conf = *conf;
    e = os_mutex_create(&c->mutex);
    e = e ? e : os_cond_create(&c->wake, c->mutex);
    e = e ? e : consumer_lock(c, why);
    e = e ? e : state_read(c, why);
    e = e ? e : tls_config_load(&c->tls, &tls, false, why);
    if (!e) {
        net.tls = c->tls;
        e = rpc_client_open(&c->client, &net, conf->program, why);
    }
    if (e) {
        consumer_close(c);
        return e;
    }
    *out = c;
    return ERR_OK;
}

void consumer_close(struct consumer *c)
{
    if (!c) {
        return;
    }
    rpc_client_close(c->client);
    tls_config_free(c->tls);
    os_unlock(c->lock);
    os_cond_destroy(c->wake);
    os_mutex_destroy(c->mutex);
    mem_free(c);
}

void consumer_stop(struct consumer *c)
{
    os_mutex_lock(c->mutex);
    c->stop = true;
    os_cond_wake_all(c->wake);
    os_mutex_unlock(c->mutex);
    rpc_client_hang_up(c->client);
}

bool consumer_is_stopped(const struct consumer *c)
{
    bool stop;

    os_mutex_lock(c->mutex);
    stop = c->stop;
    os_mutex_unlock(c->mutex);
    return stop;
}

void consumer_stats(struct consumer *c, struct consumer_stats *out)
{
    os_mutex_lock(c->mutex);
    *out = c->stats;
    os_mutex_unlock(c->mutex);
}

/* -- again -- */

static bool consumer_pause(struct consumer *c, int64_t ns)
{
    int64_t until = os_mono_ns() + ns;
    bool stop;

    os_mutex_lock(c->mutex);
    while (!c->stop && os_cond_wait_until(c->wake, until) == ERR_OK) {
    }
    stop = c->stop;
    os_mutex_unlock(c->mutex);
    return !stop;
}

/* Half of it for sure, the rest by chance, so that many do not come at once. */
static int64_t retry_pause(uint32_t attempts, int64_t max_ns)
{
    int64_t ns = PAUSE_MIN_NS;
    uint32_t chance = 0;

    for (uint32_t i = 1; i < attempts && ns < max_ns; i++) {
        ns *= 2;
    }
    ns = ns < max_ns ? ns : max_ns;
    err_ignore(os_random(&chance, sizeof chance));
    return ns / 2 + (int64_t)(chance % 1024) * (ns / 2048);
}

bool consumer_again(struct consumer *c, struct consumer_retry *r, uint32_t after_s)
{
    int64_t now = os_mono_ns(), ns;

    r->begun_ns = r->begun_ns ? r->begun_ns : now;
    r->attempts++;
    if (r->end_ns && now >= r->end_ns) {
        return false;
    }
    ns = retry_pause(r->attempts, PAUSE_MAX_NS);
    ns = ns > after_s * CLK_S ? ns : after_s * CLK_S;
    if (r->end_ns && now + ns > r->end_ns) {
        ns = r->end_ns - now; /* one more attempt, at the end */
    }
    return consumer_pause(c, ns);
}

/* -- polling -- */

static enum err consumer_call(struct consumer *c, const char *method, const void *p, size_t n,
                              struct buf *reply, struct rpc_result *result, struct errmsg *why)
{
    enum err e = rpc_client_call(c->client, method, FRAME_RAW, p, n, WAIT_MS * CLK_MS + ANSWER_NS,
                                 reply, result);

    if (e == ERR_REFUSED) {
        errmsg_set(why, e, "the collector answers %s: %s", frame_code_name(result->code),
                   result->message);
    } else if (e) {
        struct errmsg problem = {""};

        rpc_client_problem(c->client, &problem);
        errmsg_set(why, e, "collector %s: %s%s%s", c->conf.collector, err_text(e),
                   problem.text[0] ? ": " : "", problem.text);
    }
    return e;
}

static enum err poll_once(struct consumer *c, struct wire_poll_reply **out,
                          struct rpc_result *result, struct errmsg *why)
{
    struct wire_poll poll = {.name = str_make(c->conf.name),
                             .cursor = {(const char *)c->cursor, c->n_cursor},
                             .has_filter = true,
                             .filter = c->conf.filter,
                             .max = c->conf.max,
                             .wait_ms = WAIT_MS,
                             .from_oldest = c->conf.from_oldest};
    struct buf request, reply;
    enum err e;

    buf_init(&request, 64u << 10);
    buf_init(&reply, REPLY_MAX);
    e = wire_feed_poll_encode(&request, &poll);
    e = e ? e : consumer_call(c, RPC_QUERY_POLL, request.p, request.n, &reply, result, why);
    if (!e) {
        e = wire_feed_poll_reply_decode(out, reply.p, reply.n);
        e = e ? errmsg_set(why, e, "what the collector answers cannot be read: %s", err_text(e))
              : ERR_OK;
    }
    buf_fini(&request);
    buf_fini(&reply);
    return e;
}

/* Whether it may pass by itself; a certificate may be renewed, or the collector's clock set. */
static bool poll_passes(enum err e, const struct rpc_result *result)
{
    return e != ERR_REFUSED || result->code == RPC_UNAVAILABLE ||
           result->code == RPC_RESOURCE_EXHAUSTED || result->code == RPC_INTERNAL ||
           result->code == RPC_DEADLINE_EXCEEDED;
}

enum err consumer_ask(struct consumer *c, struct consumer_ask *ask, struct buf *reply,
                      struct errmsg *why)
{
    struct rpc_result result = {.code = RPC_OK};
    enum err e;

    buf_reset(reply);
    e = consumer_call(c, ask->method, ask->p, ask->n, reply, &result, why);
    ask->again = e && poll_passes(e, &result);
    ask->more = !e && result.more;
    ask->n_cursor = ask->more ? result.cursor_n : 0;
    memcpy(ask->cursor, result.cursor, ask->n_cursor);
    return e && consumer_is_stopped(c) ? ERR_CLOSED : e;
}

static void poll_failed(struct consumer *c, enum err e, const struct rpc_result *result,
                        const struct errmsg *why)
{
    char quoted[QUOTED];
    struct errmsg reload = {""};
    int64_t asked_ns = result->retry_after_ms * CLK_MS, ns;

    if (c->away.attempts == 0) {
        c->away.begun_ns = os_mono_ns();
        log_line(LOG_WARN, "consumer", "collector away", "subscription=%s reason=%s", c->conf.name,
                 log_str(quoted, sizeof quoted, why->text));
    }
    c->away.attempts++;
    if (e == ERR_TRUST) {
        err_ignore(tls_config_reload(c->tls, &reload)); /* our certificate may have been renewed */
    }
    ns = retry_pause(c->away.attempts, POLL_PAUSE_NS);
    consumer_pause(c, ns > asked_ns ? ns : asked_ns);
}

static void poll_succeeded(struct consumer *c, const struct wire_poll_reply *reply)
{
    if (c->away.attempts) {
        log_line(LOG_INFO, "consumer", "collector back", "subscription=%s after_s=%" PRId64,
                 c->conf.name, (int64_t)((os_mono_ns() - c->away.begun_ns) / CLK_S));
        c->away = (struct consumer_retry){0};
    }
    if (reply->dropped_now) {
        log_line(LOG_WARN, "consumer", "dropped",
                 "subscription=%s messages=%" PRIu64 " reason=\"%s\"", c->conf.name,
                 reply->dropped_now,
                 "the collector kept them no longer; feed.max_bytes and feed.max_age say how long");
    }
}

/* Hands it over; the cursor follows. */
static enum err consumer_take(struct consumer *c, const struct wire_poll_reply *reply,
                              struct errmsg *why)
{
    enum err e = c->conf.deliver(c->conf.ctx, reply, why);

    if (e) {
        return e;
    }
    os_mutex_lock(c->mutex);
    c->stats.updates += reply->n_updates;
    c->stats.dropped += reply->dropped_now;
    c->stats.behind_bytes = reply->behind_bytes;
    os_mutex_unlock(c->mutex);
    if (reply->cursor.n &&
        (reply->cursor.n != c->n_cursor || memcmp(reply->cursor.p, c->cursor, c->n_cursor) != 0)) {
        memcpy(c->cursor, reply->cursor.p, reply->cursor.n); /* the decoder checked the length */
        c->n_cursor = reply->cursor.n;
        c->unsaved = true;
    }
    return ERR_OK;
}

enum err consumer_run(struct consumer *c, struct errmsg *why)
{
    bool consistent = true; /* the owner's state is that of the cursor */
    enum err e = ERR_OK;

    while (!e && !consumer_is_stopped(c)) {
        struct rpc_result result = {.code = RPC_OK};
        struct wire_poll_reply *reply;

        *why = (struct errmsg){""};
        e = poll_once(c, &reply, &result, why);
        if (e && e != ERR_CLOSED && poll_passes(e, &result)) {
            poll_failed(c, e, &result, why);
            e = ERR_OK;
            continue;
        }
        if (e) {
            break;
        }
        poll_succeeded(c, reply);
        e = consumer_take(c, reply, why);
        wire_feed_poll_reply_free(reply);
        consistent = e == ERR_OK;
        if (consistent && c->unsaved && os_mono_ns() >= c->save_from_ns) {
            state_save(c);
        }
    }
    if (consistent && c->unsaved) {
        state_save(c);
    }
    return e == ERR_CLOSED && consumer_is_stopped(c) ? ERR_OK : e;
}
