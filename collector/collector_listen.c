/* The collector's listeners: who may connect to each, with what limits, and which services answer
 * there. Each is started once what it serves is there, and says in the log where it listens.
 *
 * Questions take what acknowledgements leave of the processors: the query listener's workers and
 * the thread of http are background threads. What they share with the way of a batch is locked for
 * some instructions only: the store's view_lock and the locks of head and manifest while a view is
 * taken (references are counted), the store's and the session's for numbers of one host or of all,
 * the heap's. manifest_stats, once a second for http, goes through the list of segments under the
 * lock that publishing a sealing takes, microseconds. Decoding, sorting, packing and reading of
 * files happen under none. One that is put off while it holds one has a tenth of the processor's
 * time still, so it comes free within some ten milliseconds.
 *
 * They write, too: a poll that acknowledges syncs its subscription's small file, under the roster's
 * lock, and whoever closes the last view of a dropped segment removes its file. Nobody on the way
 * of a batch takes that lock; the feed's thread does when old messages go, and waits so long.
 *
 * All others stay as they are. Sealing makes the room that batches need: when it lags the head
 * fills and agents wait, and nobody may be put forward again. It writes files, too, as the
 * feed does, and whoever is put off with the file system's journal in hand holds up the log's next
 * sync. The feed's queue is bounded, and what does not fit is missed by subscribers. NNG's threads
 * do the TLS of all listeners. */
#include "collector/collector_impl.h"

#include "collector/api/serve.h"
#include "collector/ca/trust.h"
#include "collector/ingest/session.h"
#include "collector/metrics/http.h"
#include "common/base/clk.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "common/rpc/rpc.h"

#define FRAME_ROOM       (FRAME_HEADER_MAX + 64u)
#define PUB_QUEUE        1024u
#define REPLY_TIMEOUT_NS (5 * CLK_S)
#define ENROLL_BYTES_MAX (16u << 10)
#define ENROLL_PEERS_MAX 64u
#define ENROLL_SILENT_NS (10 * CLK_S)
#define ENROLL_SAME_MAX  16u          /* of one address, so that nobody holds all alone */
#define INGEST_SILENT_NS (90 * CLK_S) /* agents call every 30 s */
#define QUERY_SILENT_NS  (600 * CLK_S)

static void listening_log(const char *listener, const char *address, unsigned port)
{
    char quoted[300];

    log_line(LOG_INFO, "collector", "listening", "listener=%s address=%s port=%u", listener,
             log_str(quoted, sizeof quoted, address), port);
}

/* Names the setting that the problem is about; an address that cannot be read is wrong usage. */
static enum err about(const char *key, enum err e, struct errmsg *why)
{
    struct errmsg cause = *why;

    return errmsg_set(why, e == ERR_INVALID ? ERR_USAGE : e, "%s: %s", key,
                      cause.text[0] ? cause.text : err_text(e));
}

enum err collector_listen_events(struct collector *c, struct errmsg *why)
{
    const struct net_pub_conf conf = {
        .address = c->conf->events,
        .tls = c->tls,
        .roles = NET_SUBSCRIBE,
        .refuse_scoped = true,
        .judge = trust_ca_db(c->trust) ? ca_db_judge : NULL,
        .judge_ctx = trust_ca_db(c->trust),
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
    return e ? about("listen.events", e, why) : e;
}

static unsigned workers(void)
{
    unsigned n = os_cpu_count();

    return n < 2 ? 2 : n > 8 ? 8 : n;
}

enum err collector_listen_query(struct collector *c, struct errmsg *why)
{
    struct rpc_server_conf conf = {
        .net =
            {
                .name = "query",
                .address = c->conf->query,
                .tls = c->tls,
                .roles = NET_QUERY | NET_SUBSCRIBE | NET_ADMIN,
                .judge = trust_ca_db(c->trust) ? ca_db_judge : NULL,
                .judge_ctx = trust_ca_db(c->trust),
                .receive_max = COLLECTOR_QUERY_BYTES,
                .contexts = 32 + FEED_WAITING_MAX, /* polls that wait take nobody's place */
                .reply_timeout_ns = REPLY_TIMEOUT_NS,
                .silent_ns = QUERY_SILENT_NS,
            },
        .workers = workers(),
        .background = true,
        .queue = 64,
        .raw_max = COLLECTOR_QUERY_BYTES,
        .default_timeout_ns = 30 * CLK_S,
    };
    enum err e;

    conf.methods = serve_methods(c->serve, &conf.n_methods);
    e = rpc_server_start(&c->query, &conf, why);
    if (!e) {
        listening_log("query", conf.net.address, rpc_server_port(c->query));
    }
    return e ? about("listen.query", e, why) : e;
}

enum err collector_listen_ingest(struct collector *c, struct errmsg *why)
{
    struct rpc_method methods[SESSION_METHODS + 1];
    struct rpc_server_conf conf = {
        .net =
            {
                .name = "ingest",
                .address = c->conf->ingest,
                .tls = c->tls,
                .roles = NET_AGENT,
                .judge = trust_ca_db(c->trust) ? ca_db_judge : NULL,
                .judge_ctx = trust_ca_db(c->trust),
                .receive_max = c->conf->batch_bytes_max + FRAME_ROOM,
                .contexts = 64,
                .per_peer = COLLECTOR_IN_FLIGHT,
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
        enroll_service_renew_method(trust_enroll(c->trust), &methods[conf.n_methods++]);
    }
    e = rpc_server_start(&c->ingest, &conf, why);
    if (!e) {
        listening_log("ingest", conf.net.address, rpc_server_port(c->ingest));
    }
    return e ? about("listen.ingest", e, why) : e;
}

enum err collector_listen_enroll(struct collector *c, struct errmsg *why)
{
    struct rpc_method methods[ENROLL_SERVICE_METHODS];
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
        .n_methods = ENROLL_SERVICE_METHODS,
        .workers = 2,
        .queue = 16,
        .raw_max = ENROLL_BYTES_MAX,
        .default_timeout_ns = 30 * CLK_S,
    };
    enum err e;

    if (!c->conf->enroll[0] || !trust_enroll(c->trust)) {
        return ERR_OK;
    }
    enroll_service_methods(trust_enroll(c->trust), methods);
    e = rpc_server_start(&c->enroll, &conf, why);
    if (!e) {
        listening_log("enroll", conf.net.address, rpc_server_port(c->enroll));
    }
    return e ? about("listen.enroll", e, why) : e;
}

enum err collector_listen_http(struct collector *c, struct errmsg *why)
{
    const struct http_conf conf = {
        .address = c->conf->http,
        .names = c->conf->http_names,
        .n_names = c->conf->n_http_names,
        .refresh_ns = c->conf->http_refresh_ns,
        .fleet = {.store = c->store,
                  .hosts_max = c->conf->http_hosts_max,
                  .programs = c->conf->http_programs,
                  .host_state = collector_tell_host,
                  .is_forgotten = collector_tell_forgotten,
                  .ctx = c},
        .figures = collector_tell_figures,
        .ready = collector_tell_ready,
        .stuck_ns = collector_tell_stuck,
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
    return e ? about("listen.http", e, why) : e;
}
