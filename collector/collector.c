/* The collector's root: who is opened with what, and in which order.
 *
 *   agents -> ingest listener -> session -> store -> feed -> events listener -> subscribers
 *                                             |
 *             operators -> query listener -> serve -> query
 *
 *   strangers -> enroll listener -> trust, which also renews agents (ingest) and judges all
 *   whoever watches -> http listener -> figures of all stages; administrators -> query listener ->
 *   admin -> the same figures
 *
 * Start: network layer, certificates, store (recovery), the feed (unstarted), events listener, the
 * feed's thread, session, serve, query listener, the ingest listener, so that nothing is accepted
 * before it can be stored and seen, and the enroll listener and http last; the trust is opened
 * before the first listener, since they ask it, and follows its book once all listen. Figures of
 * listeners are told from then on (`running`).
 * Stop: following, http, the query listener, which both ask the other listeners, those, the
 * publisher, the session (which waits for the batches under way), the store, and then the rest.
 * Locks: none here. Each stage's own; no stage calls another while it holds one. */
#include "collector/collector.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "collector/admin.h"
#include "collector/collector_feed.h"
#include "collector/figures/figures.h"
#include "collector/http/http.h"
#include "collector/serve.h"
#include "collector/session/session.h"
#include "collector/store/store.h"
#include "collector/trust/trust.h"
#include "common/clk.h"
#include "common/mem.h"
#include "common/os.h"
#include "common/os_notify.h"
#include "common/rpc.h"

#define FRAME_ROOM       (FRAME_HEADER_MAX + 64u)
#define QUERY_BYTES_MAX  (64u << 10)
#define IN_FLIGHT        4u    /* requests of one agent at once */
#define DESCRIPTORS_FREE 1024u /* for everything but agents */
#define PUB_QUEUE        1024u
#define REPLY_TIMEOUT_NS (5 * CLK_S)
#define PROGRESS_NS      (2 * CLK_S)
#define EXTEND_NS        (60 * CLK_S) /* the service manager gives so much more at each progress */
#define ENROLL_BYTES_MAX (16u << 10)
#define ENROLL_PEERS_MAX 64u
#define ENROLL_SILENT_NS (10 * CLK_S)
#define ENROLL_SAME_MAX  16u          /* of one address, so that nobody holds all alone */
#define INGEST_SILENT_NS (90 * CLK_S) /* agents call every 30 s */
#define QUERY_SILENT_NS  (600 * CLK_S)

struct collector {
    const struct collector_conf *conf;
    bool net; /* initialised */
    struct net_tls *tls;
    struct collector_feed feed;
    struct store *store;
    struct net_pub *pub;
    struct session *session;
    struct serve *serve;
    struct admin *admin;
    struct http *http;
    struct rpc_server *query;
    struct rpc_server *ingest;
    struct rpc_server *enroll;
    struct trust *trust;
    int64_t progress_ns; /* of the last line about recovery */
    int percent;         /* of the last word to the service manager about it */
    int64_t started_ns;  /* UTC */
    atomic_bool running; /* everything listens: the pointers above stay as they are */
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

static void on_stored(void *ctx, const struct store_stored *stored)
{
    collector_feed_stored(&((struct collector *)ctx)->feed, stored);
}

static bool before_forget(void *ctx)
{
    return collector_feed_keep(&((struct collector *)ctx)->feed);
}

static void on_failed(void *ctx, const struct errmsg *why)
{
    char quoted[600];

    (void)ctx;
    log_line(LOG_ERROR, "store", "failed", "reason=%s remedy=%s",
             log_str(quoted, sizeof quoted, why->text),
             "\"mend the disk of data_dir, then restart the collector\"");
}

static void on_trouble(void *ctx, const struct errmsg *why)
{
    char quoted[600];

    (void)ctx;
    if (why) {
        log_line(LOG_WARN, "store", "sealing_failed", "reason=%s remedy=%s",
                 log_str(quoted, sizeof quoted, why->text),
                 "\"it is tried again; when memory is full, agents wait: make room on the disk of "
                 "data_dir\"");
    } else {
        log_line(LOG_INFO, "store", "sealing_works", "after=failure");
    }
}

static void on_refusing(void *ctx, bool refusing, uint64_t disk_free)
{
    (void)ctx;
    if (refusing) {
        log_line(LOG_WARN, "store", "disk_full", "free=%" PRIu64 " remedy=%s", disk_free,
                 "\"batches are refused, agents keep them and wait: make room on the disk of "
                 "data_dir\"");
    } else {
        log_line(LOG_INFO, "store", "disk_works", "free=%" PRIu64, disk_free);
    }
}

static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct collector *c = ctx;
    int64_t now = os_mono_ns();
    int percent = total ? (int)((double)done * 100 / (double)total) : 100;
    bool due = now - c->progress_ns >= PROGRESS_NS;

    if (due || percent != c->percent) {
        c->percent = percent;
        os_notify("STATUS=reading the log, %d %%\nEXTEND_TIMEOUT_USEC=%lld", percent,
                  (long long)(EXTEND_NS / CLK_US));
    }
    if (due) {
        c->progress_ns = now;
        log_line(LOG_INFO, "store", "recovering", "bytes=%" PRIu64 " of=%" PRIu64 " percent=%d",
                 done, total, percent);
    }
}

static bool host_state(void *ctx, const struct uuid *host, struct query_host_state *out)
{
    struct session_host s;

    if (!session_host_state(ctx, host, &s)) {
        return false;
    }
    *out = (struct query_host_state){.connected = s.connected,
                                     .clock = s.clock,
                                     .heard_ns = s.heard_ns,
                                     .not_before_ns = s.not_before_ns,
                                     .not_after_ns = s.not_after_ns,
                                     .clones = s.clones,
                                     .stored = s.stored,
                                     .duplicates = s.duplicates,
                                     .conflicts = s.conflicts,
                                     .corrupt = s.corrupt,
                                     .spoofed = s.spoofed,
                                     .too_old = s.too_old};
    memcpy(out->version, s.version, sizeof out->version);
    return true;
}

/* -- what the collector says of itself: from any thread -- */

static void figures(void *ctx, struct figures *out)
{
    struct collector *c = ctx;
    struct figures_env env = {
        .store = c->store, .session = c->session, .trust = c->trust, .started_ns = c->started_ns};

    if (atomic_load(&c->running)) {
        env.ingest = c->ingest;
        env.query = c->query;
        env.enroll = c->enroll;
        env.pub = c->pub;
        env.feed = c->feed.feed;
        env.journal = c->feed.journal;
        env.roster = c->feed.roster;
        env.http = c->http ? http_listener(c->http) : NULL;
    }
    figures_gather(out, &env);
}

static bool ready(void *ctx, struct errmsg *why)
{
    struct collector *c = ctx;
    struct store_stats stats;
    struct store_room room;

    store_stats(c->store, &stats);
    store_room(c->store, &room);
    if (!atomic_load(&c->running)) {
        (void)errmsg_set(why, ERR_BUSY, "starting");
    } else if (stats.failed) {
        (void)errmsg_set(why, ERR_IO,
                         "the store's log failed: mend the disk of data_dir, then restart");
    } else if (room.refusing) {
        (void)errmsg_set(why, ERR_NOSPACE, "the disk of data_dir is full: agents wait");
    } else if (stats.head_bytes >= c->conf->head_bytes_max) {
        (void)errmsg_set(why, ERR_FULL, "the store's memory is full: agents wait");
    } else {
        return true;
    }
    return false;
}

static unsigned disconnect(void *ctx, const char *name)
{
    struct collector *c = ctx;
    unsigned n = 0;

    if (atomic_load(&c->running)) {
        n += rpc_server_disconnect(c->ingest, name);
        n += c->pub ? net_pub_disconnect(c->pub, name) : 0;
        n += rpc_server_disconnect(c->query, name);
    }
    return n;
}

static int64_t stuck(void *ctx)
{
    struct collector *c = ctx;

    return atomic_load(&c->running) ? collector_stuck_ns(c, os_mono_ns()) : 0;
}

/* -- start -- */

static enum err data_dir_make(struct collector *c, struct errmsg *why)
{
    enum err e = os_mkdirs(c->conf->data_dir, true);

    return e ? errmsg_set(why, e, "cannot make data_dir %s: %s", c->conf->data_dir, err_text(e))
             : ERR_OK;
}

static enum err trust_load(struct collector *c, struct errmsg *why)
{
    struct net_tls_conf tls = {
        .ca = c->conf->ca, .cert = c->conf->cert, .key = c->conf->key, .crl = c->conf->crl};
    char *tickets = os_path_join(c->conf->data_dir, "ticket.keys");
    enum err e = tickets ? ERR_OK : ERR_NOMEM;

    tls.tickets = tickets;
    if (!e) {
        e = net_tls_load(&c->tls, &tls, true, why);
        if (e == ERR_NOTFOUND) {
            struct errmsg cause = *why;

            e = errmsg_set(why, e,
                           "%s; make it with 'procfleet-collector pki issue --role "
                           "collector', or say with tls.ca, tls.cert and tls.key where it is",
                           cause.text);
        }
    }
    mem_free(tickets);
    return e;
}

static enum err trust_make(struct collector *c, struct errmsg *why)
{
    const struct trust_conf conf = {
        .dir = c->conf->pki_dir,
        .required = c->conf->pki_required,
        .life_ns = c->conf->cert_life_ns,
        .grace_ns = c->conf->renew_grace_ns,
        .tls = c->tls,
        .ca = c->conf->ca,
        .cert = c->conf->cert,
        .crl = c->conf->crl,
    };

    return trust_open(&c->trust, &conf, why);
}

/* Somebody may be here no longer. */
static void on_revoked(void *ctx)
{
    struct collector *c = ctx;

    rpc_server_review(c->ingest);
    rpc_server_review(c->query);
    if (c->pub) {
        net_pub_review(c->pub);
    }
}

static enum err feed_make(struct collector *c, struct errmsg *why)
{
    const struct collector_feed_conf conf = {c->conf, pub_send, pub_listeners, c};

    return collector_feed_open(&c->feed, &conf, why);
}

static enum err store_make(struct collector *c, struct errmsg *why)
{
    const struct store_conf conf = {
        .dir = c->conf->data_dir,
        .fio = c->conf->fio,
        .head_bytes_max = c->conf->head_bytes_max,
        .accept_age_ns = c->conf->accept_age_ns,
        .retain = c->conf->retain,
        .beside_bytes = collector_feed_bytes(c->conf),
        .hosts_max = c->conf->hosts_max,
        .instances_max = c->conf->processes_max * 4,
        .commit_gather_ns = 20 * CLK_MS,
        .commit_bytes = 1u << 20,
        .on_stored = on_stored,
        .before_forget = c->conf->feed_bytes ? before_forget : NULL,
        .on_failed = on_failed,
        .on_trouble = on_trouble,
        .on_refusing = on_refusing,
        .ctx = c,
        .on_progress = on_progress,
    };

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
        .judge = trust_registry(c->trust) ? registry_judge : NULL,
        .judge_ctx = trust_registry(c->trust),
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
                .judge = trust_registry(c->trust) ? registry_judge : NULL,
                .judge_ctx = trust_registry(c->trust),
                .receive_max = QUERY_BYTES_MAX,
                .contexts = 32 + FEED_WAITING_MAX, /* polls that wait take nobody's place */
                .reply_timeout_ns = REPLY_TIMEOUT_NS,
                .silent_ns = QUERY_SILENT_NS,
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
    struct rpc_method methods[SESSION_METHODS + 1];
    struct rpc_server_conf conf = {
        .net =
            {
                .name = "ingest",
                .address = c->conf->ingest,
                .tls = c->tls,
                .roles = NET_AGENT,
                .judge = trust_registry(c->trust) ? registry_judge : NULL,
                .judge_ctx = trust_registry(c->trust),
                .receive_max = c->conf->batch_bytes_max + FRAME_ROOM,
                .contexts = 64,
                .per_peer = IN_FLIGHT,
                .peers_max = 2 * c->conf->hosts_max, /* one that came back may be there twice */
                .reply_timeout_ns = REPLY_TIMEOUT_NS,
                .silent_ns = INGEST_SILENT_NS,
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
    if (trust_enroll(c->trust)) {
        enroll_renew_method(trust_enroll(c->trust), &methods[conf.n_methods++]);
    }
    e = rpc_server_start(&c->ingest, &conf, why);
    if (!e) {
        listening_log("ingest", conf.net.address, rpc_server_port(c->ingest));
    }
    return e;
}

static enum err enroll_listen(struct collector *c, struct errmsg *why)
{
    struct rpc_method methods[ENROLL_METHODS];
    const struct rpc_server_conf conf = {
        .net =
            {
                .name = "enroll",
                .address = c->conf->enroll,
                .tls = c->tls,
                .strangers = true,
                .receive_max = ENROLL_BYTES_MAX,
                .contexts = 8,
                .per_peer = 2, /* the last reply may be on its way still */
                .peers_max = ENROLL_PEERS_MAX,
                .handshakes_max = ENROLL_PEERS_MAX,
                .same_address_max = ENROLL_SAME_MAX,
                .reply_timeout_ns = REPLY_TIMEOUT_NS,
                .silent_ns = ENROLL_SILENT_NS,
            },
        .methods = methods,
        .n_methods = ENROLL_METHODS,
        .workers = 2,
        .queue = 16,
        .raw_max = ENROLL_BYTES_MAX,
        .default_timeout_ns = 30 * CLK_S,
    };
    enum err e;

    if (!c->conf->enroll[0] || !trust_enroll(c->trust)) {
        return ERR_OK;
    }
    enroll_methods(trust_enroll(c->trust), methods);
    e = rpc_server_start(&c->enroll, &conf, why);
    if (!e) {
        listening_log("enroll", conf.net.address, rpc_server_port(c->enroll));
    }
    return e;
}

static enum err admin_make(struct collector *c)
{
    const struct admin_conf conf = {
        .started_ns = c->started_ns, .figures = figures, .disconnect = disconnect, .ctx = c};
    struct rpc_method methods[ADMIN_METHODS];
    enum err e = admin_create(&c->admin, &conf);

    if (!e) {
        admin_methods(c->admin, methods);
        serve_add(c->serve, methods, ADMIN_METHODS);
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
        .accept_age_ns = c->conf->accept_age_ns,
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
    if (!e && c->feed.serve) {
        struct rpc_method methods[FEED_METHODS];

        feed_serve_methods(c->feed.serve, methods);
        serve_add(c->serve, methods, FEED_METHODS);
    }
    if (!e) {
        e = admin_make(c);
    }
    return e ? errmsg_set(why, e, "cannot start: %s", err_text(e)) : ERR_OK;
}

static enum err http_listen(struct collector *c, struct errmsg *why)
{
    const struct http_conf conf = {
        .address = c->conf->http,
        .refresh_ns = c->conf->http_refresh_ns,
        .fleet = {.store = c->store,
                  .hosts_max = c->conf->http_hosts_max,
                  .programs = c->conf->http_programs,
                  .host_state = host_state,
                  .ctx = c->session},
        .figures = figures,
        .ready = ready,
        .stuck_ns = stuck,
        .ctx = c,
    };
    enum err e;

    if (!c->conf->http[0]) {
        return ERR_OK;
    }
    e = http_start(&c->http, &conf, why);
    if (!e) {
        listening_log("http", conf.address, http_port(c->http));
    }
    return e;
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
    enum err e = net_init(why);

    if (e) {
        return e;
    }
    c->net = true;
    descriptors_check(c);
    e = data_dir_make(c, why);
    if (!e) {
        e = trust_load(c, why);
    }
    if (!e) {
        e = trust_make(c, why);
    }
    if (!e) {
        e = store_make(c, why);
    }
    if (e) {
        return e;
    }
    recovery_log(c);
    e = feed_make(c, why);
    if (!e) {
        e = events_listen(c, why);
    }
    if (!e) {
        e = collector_feed_start(&c->feed, c->store, why);
    }
    if (!e) {
        e = stages_make(c, c->feed.epoch, why);
    }
    if (!e) {
        e = query_listen(c, why);
    }
    if (!e) {
        e = ingest_listen(c, why);
    }
    if (!e) {
        e = enroll_listen(c, why);
    }
    if (!e) {
        e = http_listen(c, why);
    }
    atomic_store(&c->running, e == ERR_OK);
    return e ? e : trust_follow(c->trust, on_revoked, c);
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
    c->started_ns = os_utc_ns();
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
    trust_unfollow(c->trust);
    http_stop(c->http);
    collector_feed_stop_polls(&c->feed);
    rpc_server_stop(c->query);
    rpc_server_stop(c->enroll);
    rpc_server_stop(c->ingest);
    collector_feed_stop(&c->feed);
    session_destroy(c->session);
    store_close(c->store);
    serve_destroy(c->serve);
    admin_destroy(c->admin);
    net_pub_stop(c->pub);
    collector_feed_close(&c->feed);
    trust_close(c->trust);
    net_tls_free(c->tls);
    if (c->net) {
        net_fini();
    }
    mem_free(c);
}

struct collector_ports collector_ports(const struct collector *c)
{
    return (struct collector_ports){
        .ingest = rpc_server_port(c->ingest),
        .query = rpc_server_port(c->query),
        .events = c->pub ? net_pub_port(c->pub) : 0,
        .enroll = c->enroll ? rpc_server_port(c->enroll) : 0,
        .http = c->http ? http_port(c->http) : 0,
    };
}

int64_t collector_stuck_ns(const struct collector *c, int64_t now_ns)
{
    struct rpc_server *const listeners[] = {c->ingest, c->query, c->enroll};
    int64_t longest_ns = store_busy_ns(c->store, now_ns);

    for (size_t i = 0; i < sizeof listeners / sizeof *listeners; i++) {
        int64_t ns = listeners[i] ? rpc_server_waiting_ns(listeners[i], now_ns) : 0;

        longest_ns = ns > longest_ns ? ns : longest_ns;
    }
    return longest_ns;
}
