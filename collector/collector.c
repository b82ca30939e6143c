/* The collector's root: who is opened with what, and in which order.
 *
 *   agents -> ingest listener -> session -> store -> subs -> events listener -> subscribers
 *                                             |
 *             operators -> query listener -> serve -> query
 *
 * Start: network layer, certificates, subs (unstarted), store (recovery), events listener, subs'
 * thread, session, serve, query listener, and the ingest listener last, so that nothing is accepted
 * before it can be stored and seen.
 * Stop: listeners that take requests, the publisher, the session (which waits for the batches under
 * way), the store, and then the rest.
 * Locks: none here. Each stage's own; no stage calls another while it holds one. */
#include "collector/collector.h"

#include <inttypes.h>
#include <string.h>

#include "collector/serve.h"
#include "collector/session.h"
#include "collector/store.h"
#include "collector/subs.h"
#include "common/clk.h"
#include "common/mem.h"
#include "common/os.h"
#include "common/rpc.h"

#define FRAME_ROOM       (FRAME_HEADER_MAX + 64u)
#define QUERY_BYTES_MAX  (64u << 10)
#define IN_FLIGHT        4u    /* requests of one agent at once */
#define DESCRIPTORS_FREE 1024u /* for everything but agents */
#define SUBS_QUEUE       1024u
#define PUB_QUEUE        1024u
#define REPLY_TIMEOUT_NS (5 * CLK_S)
#define PROGRESS_NS      (2 * CLK_S)

struct collector {
    const struct collector_conf *conf;
    bool net; /* initialised */
    struct net_tls *tls;
    struct subs *subs;
    struct store *store;
    struct net_pub *pub;
    struct session *session;
    struct serve *serve;
    struct rpc_server *query;
    struct rpc_server *ingest;
    int64_t progress_ns; /* of the last line about recovery */
};

/* -- what stages hand to each other -- */

static void pub_send(void *ctx, const void *body, size_t n)
{
    net_pub_send(((struct collector *)ctx)->pub, body, n);
}

static unsigned pub_listeners(void *ctx)
{
    struct collector *c = ctx;

    return c->pub ? net_pub_subscribers(c->pub) : 0;
}

static void on_stored(void *ctx, const char *host_name, const struct batch *b)
{
    subs_stored(((struct collector *)ctx)->subs, host_name, b);
}

static void on_failed(void *ctx, const struct errmsg *why)
{
    char quoted[600];

    (void)ctx;
    log_line(LOG_ERROR, "store", "failed", "reason=%s remedy=%s",
             log_str(quoted, sizeof quoted, why->text),
             "\"mend the disk of data_dir, then restart the collector\"");
}

static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct collector *c = ctx;
    int64_t now = os_mono_ns();

    if (now - c->progress_ns >= PROGRESS_NS) {
        c->progress_ns = now;
        log_line(LOG_INFO, "store", "recovering", "bytes=%" PRIu64 " of=%" PRIu64 " percent=%d",
                 done, total, total ? (int)((double)done * 100 / (double)total) : 100);
    }
}

static bool host_state(void *ctx, const struct uuid *host, struct query_host_state *out)
{
    struct session_host s;

    if (!session_host_state(ctx, host, &s)) {
        return false;
    }
    *out = (struct query_host_state){.connected = s.connected, .offset_ns = s.offset_ns};
    memcpy(out->version, s.version, sizeof out->version);
    return true;
}

/* -- start -- */

static enum err trust_load(struct collector *c, struct errmsg *why)
{
    const struct net_tls_conf tls = {c->conf->ca, c->conf->cert, c->conf->key, NULL};

    return net_tls_load(&c->tls, &tls, true, why);
}

static enum err subs_make(struct collector *c, uint64_t epoch)
{
    const struct subs_conf conf = {
        .epoch = epoch,
        .queue = SUBS_QUEUE,
        .hosts_max = c->conf->hosts_max,
        .send = pub_send,
        .listeners = pub_listeners,
        .ctx = c,
    };

    return subs_create(&c->subs, &conf);
}

static enum err store_make(struct collector *c, struct errmsg *why)
{
    const struct store_conf conf = {
        .dir = c->conf->data_dir,
        .fio = c->conf->fio,
        .head_bytes_max = c->conf->head_bytes_max,
        .age_max_ns = c->conf->age_max_ns,
        .hosts_max = c->conf->hosts_max,
        .instances_max = c->conf->processes_max * 4,
        .commit_gather_ns = 20 * CLK_MS,
        .commit_bytes = 1u << 20,
        .on_stored = on_stored,
        .on_failed = on_failed,
        .ctx = c,
        .on_progress = on_progress,
    };
    enum err e = os_mkdirs(c->conf->data_dir, true);

    if (e) {
        return errmsg_set(why, e, "cannot make data_dir %s: %s", c->conf->data_dir, err_text(e));
    }
    return store_open(&c->store, &conf, why);
}

static void recovery_log(struct collector *c)
{
    struct store_stats s;

    store_stats(c->store, &s);
    log_line(s.bad_records ? LOG_WARN : LOG_INFO, "store", "open",
             "hosts=%" PRIu64 " batches=%" PRIu64 " bytes=%" PRIu64 " torn_bytes=%" PRIu64
             " bad_records=%" PRIu64,
             s.hosts, s.recovered_batches, s.recovered_bytes, s.torn_bytes, s.bad_records);
}

static void listening_log(const char *listener, const char *address, unsigned port)
{
    char quoted[300];

    log_line(LOG_INFO, "collector", "listening", "listener=%s address=%s port=%u", listener,
             log_str(quoted, sizeof quoted, address), port);
}

static enum err events_listen(struct collector *c, struct errmsg *why)
{
    const struct net_pub_conf conf = {
        .address = c->conf->events,
        .tls = c->tls,
        .roles = NET_SUBSCRIBE,
        .refuse_scoped = true,
        .queue = PUB_QUEUE,
    };
    enum err e;

    if (!c->conf->events[0]) {
        return ERR_OK;
    }
    e = net_pub_start(&c->pub, &conf, why);
    if (!e) {
        listening_log("events", conf.address, net_pub_port(c->pub));
    }
    return e;
}

static unsigned workers(void)
{
    unsigned n = os_cpu_count();

    return n < 2 ? 2 : n > 8 ? 8 : n;
}

static enum err query_listen(struct collector *c, struct errmsg *why)
{
    struct rpc_server_conf conf = {
        .net =
            {
                .name = "query",
                .address = c->conf->query,
                .tls = c->tls,
                .roles = NET_QUERY | NET_SUBSCRIBE | NET_ADMIN,
                .receive_max = QUERY_BYTES_MAX,
                .contexts = 32,
                .reply_timeout_ns = REPLY_TIMEOUT_NS,
            },
        .workers = workers(),
        .queue = 64,
        .raw_max = QUERY_BYTES_MAX,
        .default_timeout_ns = 30 * CLK_S,
    };
    enum err e;

    conf.methods = serve_methods(c->serve, &conf.n_methods);
    e = rpc_server_start(&c->query, &conf, why);
    if (!e) {
        listening_log("query", conf.net.address, rpc_server_port(c->query));
    }
    return e;
}

static enum err ingest_listen(struct collector *c, struct errmsg *why)
{
    struct rpc_method methods[SESSION_METHODS];
    struct rpc_server_conf conf = {
        .net =
            {
                .name = "ingest",
                .address = c->conf->ingest,
                .tls = c->tls,
                .roles = NET_AGENT,
                .receive_max = c->conf->batch_bytes_max + FRAME_ROOM,
                .contexts = 64,
                .per_peer = IN_FLIGHT,
                .peers_max = 2 * c->conf->hosts_max, /* one that came back may be there twice */
                .reply_timeout_ns = REPLY_TIMEOUT_NS,
            },
        .on_peer = session_peer,
        .peer_ctx = c->session,
        .methods = methods,
        .n_methods = SESSION_METHODS,
        .workers = workers(),
        .queue = 256,
        .raw_max = c->conf->batch_bytes_max,
        .default_timeout_ns = 30 * CLK_S,
    };
    enum err e;

    session_methods(c->session, methods);
    e = rpc_server_start(&c->ingest, &conf, why);
    if (!e) {
        listening_log("ingest", conf.net.address, rpc_server_port(c->ingest));
    }
    return e;
}

static enum err stages_make(struct collector *c, uint64_t epoch, struct errmsg *why)
{
    const struct session_conf session = {
        .store = c->store,
        .hosts_max = c->conf->hosts_max,
        .max_message = c->conf->batch_bytes_max,
        .max_in_flight = IN_FLIGHT,
        .future_max_ns = 300 * CLK_S,
    };
    struct serve_conf serve = {
        .store = c->store,
        .event_epoch = epoch,
        .request_max = QUERY_BYTES_MAX,
        .host_state = host_state,
    };
    enum err e = session_create(&c->session, &session);

    if (!e) {
        serve.ctx = c->session;
        e = serve_create(&c->serve, &serve);
    }
    return e ? errmsg_set(why, e, "cannot start: %s", err_text(e)) : ERR_OK;
}

/* Each connection takes a descriptor; without one nobody comes in and no file is opened. */
static void descriptors_check(const struct collector *c)
{
    size_t limit = os_open_files_max();

    if (limit > 0 && limit < c->conf->hosts_max + DESCRIPTORS_FREE) {
        log_line(LOG_WARN, "collector", "few_descriptors", "limit=%zu hosts=%u remedy=%s", limit,
                 (unsigned)c->conf->hosts_max, "\"raise LimitNOFILE, or lower limits.hosts\"");
    }
}

static enum err start(struct collector *c, struct errmsg *why)
{
    uint64_t epoch = (uint64_t)os_utc_ns();
    enum err e = net_init(why);

    if (e) {
        return e;
    }
    c->net = true;
    descriptors_check(c);
    e = trust_load(c, why);
    if (!e) {
        e = subs_make(c, epoch);
    }
    if (!e) {
        e = store_make(c, why);
    }
    if (e) {
        return e;
    }
    recovery_log(c);
    e = events_listen(c, why);
    if (!e && c->pub) {
        e = subs_start(c->subs, c->store);
    }
    if (!e) {
        e = stages_make(c, epoch, why);
    }
    if (!e) {
        e = query_listen(c, why);
    }
    return e ? e : ingest_listen(c, why);
}

enum err collector_start(struct collector **out, const struct collector_conf *conf,
                         struct errmsg *why)
{
    struct collector *c = mem_zalloc(sizeof *c);
    enum err e;

    if (!c) {
        return ERR_NOMEM;
    }
    c->conf = conf;
    c->progress_ns = os_mono_ns();
    e = start(c, why);
    if (e) {
        collector_stop(c);
        return e;
    }
    *out = c;
    return ERR_OK;
}

void collector_stop(struct collector *c)
{
    if (!c) {
        return;
    }
    rpc_server_stop(c->ingest);
    rpc_server_stop(c->query);
    if (c->subs) {
        subs_stop(c->subs);
    }
    session_destroy(c->session);
    store_close(c->store);
    serve_destroy(c->serve);
    net_pub_stop(c->pub);
    subs_destroy(c->subs);
    net_tls_free(c->tls);
    if (c->net) {
        net_fini();
    }
    mem_free(c);
}

struct collector_ports collector_ports(const struct collector *c)
{
    return (struct collector_ports){rpc_server_port(c->ingest), rpc_server_port(c->query),
                                    c->pub ? net_pub_port(c->pub) : 0};
}
