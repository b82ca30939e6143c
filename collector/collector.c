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
 * Stop: following, http, the query listener, which both ask the other listeners, those, the feed's
 * thread, the session (which waits for the batches under way), the store, the publisher, and then
 * the rest.
 * collector_store.c opens the store, collector_listen.c the listeners; collector_tell.c is what the
 * others ask of the whole.
 * Locks: none here. Each stage's own; no stage calls another while it holds one. */
#include "collector/collector_impl.h"

#include <string.h>

#include "collector/api/admin.h"
#include "collector/api/serve.h"
#include "collector/ca/trust.h"
#include "collector/ingest/session.h"
#include "collector/metrics/http.h"
#include "collector/store/read/store_read.h"
#include "collector/store/store.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/uuid.h"

#define DESCRIPTORS_FREE 1024u /* for everything but agents */
#define SLOW_STOP_NS     CLK_S /* is told of */

/* -- what stages hand to each other -- */

static void pub_send(void *ctx, const struct str *list, size_t n)
{
    net_pub_send(((struct collector *)ctx)->pub, list, n);
}

static unsigned pub_listeners(void *ctx)
{
    struct collector *c = ctx;

    return c->pub ? net_pub_subscribers(c->pub) : 0;
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

/* By id, or by name: of several with one name those that are connected stay. */
static enum err forget(void *ctx, const char *host, uint32_t *hosts, struct errmsg *why)
{
    struct collector *c = ctx;
    struct store_view *view;
    struct session_host s;
    struct uuid id;
    bool by_id = uuid_parse(&id, host) == ERR_OK, connected = false;
    enum err e = store_view_open(&view, c->store);

    if (e) {
        return e;
    }
    *hosts = 0;
    for (size_t i = 0; !e && i < store_view_hosts(view); i++) {
        const struct store_host *h = store_view_host(view, i);

        if (by_id ? memcmp(h->id.b, id.b, sizeof id.b) != 0 : strcmp(h->name, host) != 0) {
            continue;
        }
        if (session_host_state(c->session, &h->id, &s) && s.connected) {
            connected = true;
            continue;
        }
        e = forgotten_add(c->forgotten, &h->id);
        *hosts += !e;
    }
    store_view_close(view);
    if (e || *hosts > 0) {
        return e;
    }
    return connected ? errmsg_set(why, ERR_BUSY,
                                  "%s is connected: only a host whose agent calls no more can be "
                                  "forgotten; stop its agent, or revoke its certificate",
                                  host)
                     : errmsg_set(why, ERR_NOTFOUND, "no host of that name or id: %s", host);
}

/* -- start -- */

static enum err data_dir_make(struct collector *c, struct errmsg *why)
{
    enum err e = os_mkdirs(c->conf->data_dir, true);

    return e ? errmsg_set(why, e, "cannot make data_dir %s: %s", c->conf->data_dir, err_text(e))
             : ERR_OK;
}

/* What to do about a file that is not there. */
static enum err not_there(struct errmsg *why, enum tls_cause cause)
{
    struct errmsg missing = *why;

    return errmsg_set(why, ERR_NOTFOUND, "%s; %s", missing.text,
                      cause == TLS_CAUSE_NO_LIST
                          ? "make the authority's tools write it there, or leave tls.crl empty"
                          : "make it with 'procfleet-collector pki issue --role collector', or say "
                            "with tls.ca, tls.cert and tls.key where it is");
}

static enum err trust_load(struct collector *c, struct errmsg *why)
{
    enum tls_cause cause = TLS_CAUSE_NONE;
    struct net_tls_conf tls = {.cause = &cause,
                               .ca = c->conf->ca,
                               .cert = c->conf->cert,
                               .key = c->conf->key,
                               .crl = c->conf->crl};
    char *tickets = os_path_join(c->conf->data_dir, "ticket.keys");
    enum err e = tickets ? ERR_OK : ERR_NOMEM;

    tls.tickets = tickets;
    if (!e) {
        e = tls_config_load(&c->tls, &tls, true, why);
    }
    mem_free(tickets);
    return e == ERR_NOTFOUND ? not_there(why, cause) : e;
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

static enum err admin_make(struct collector *c)
{
    const struct admin_conf conf = {.started_ns = c->started_ns,
                                    .figures = collector_tell_figures,
                                    .disconnect = disconnect,
                                    .forget = forget,
                                    .ctx = c};
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
        .max_in_flight = COLLECTOR_IN_FLIGHT,
        .accept_age_ns = c->conf->accept_age_ns,
        .future_max_ns = 300 * CLK_S,
        .forgotten = c->forgotten,
    };
    struct serve_conf serve = {
        .store = c->store,
        .event_epoch = epoch,
        .request_max = COLLECTOR_QUERY_BYTES,
        .host_state = collector_tell_host,
        .is_forgotten = collector_tell_forgotten,
        .ctx = c,
    };
    enum err e = session_create(&c->session, &session);

    if (!e) {
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
        e = collector_store_open(c, why);
    }
    if (e) {
        return e;
    }
    e = forgotten_open(&c->forgotten, c->conf->fio, c->conf->data_dir, why);
    if (!e) {
        e = feed_make(c, why);
    }
    if (!e) {
        e = collector_listen_events(c, why);
    }
    if (!e) {
        e = collector_feed_start(&c->feed, c->store, why);
    }
    if (!e) {
        e = stages_make(c, c->feed.epoch, why);
    }
    if (!e) {
        e = collector_listen_query(c, why);
    }
    if (!e) {
        e = collector_listen_ingest(c, why);
    }
    if (!e) {
        e = collector_listen_enroll(c, why);
    }
    if (!e) {
        e = collector_listen_http(c, why);
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

/* Since the last call, or the one that began. */
static void stopped(int64_t *since_ns, const char *part)
{
    int64_t now_ns = os_mono_ns();

    log_line(now_ns - *since_ns < SLOW_STOP_NS ? LOG_DEBUG : LOG_INFO, "collector", "stopped",
             "part=%s ms=%lld", part, (long long)((now_ns - *since_ns) / CLK_MS));
    *since_ns = now_ns;
}

void collector_stop(struct collector *c)
{
    int64_t since_ns = os_mono_ns();

    if (!c) {
        return;
    }
    trust_unfollow(c->trust);
    stopped(&since_ns, "trust");
    http_stop(c->http);
    stopped(&since_ns, "http");
    collector_feed_stop_polls(&c->feed);
    rpc_server_stop(c->query);
    stopped(&since_ns, "query");
    rpc_server_stop(c->enroll);
    stopped(&since_ns, "enroll");
    rpc_server_stop(c->ingest);
    stopped(&since_ns, "ingest");
    collector_feed_stop(&c->feed);
    stopped(&since_ns, "feed");
    session_destroy(c->session);
    forgotten_close(c->forgotten);
    stopped(&since_ns, "session");
    store_close(c->store);
    stopped(&since_ns, "store");
    serve_destroy(c->serve);
    admin_destroy(c->admin);
    net_pub_stop(c->pub);
    stopped(&since_ns, "events");
    collector_feed_close(&c->feed);
    stopped(&since_ns, "journal");
    trust_close(c->trust);
    tls_config_free(c->tls);
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
