/* The collector's root: what is opened with what, and in which order.
 *
 *   agents -> ingest listener -> session -> store -> feed -> events listener -> subscribers
 *                                             |
 *             operators -> query listener -> serve -> query
 *                                    \-> console -> serve
 *
 *   hosts without a certificate -> enroll listener -> trust: renewals, and every certificate
 *   monitoring -> http listener -> metrics of all stages; administrators -> query -> admin -> same
 *
 * collector_store.c opens the store and the feed. Locks: none here; no stage calls with one. */
#include "collector/collector.h"

#include <stdatomic.h>
#include <string.h>

#include "collector/api/admin.h"
#include "collector/api/serve.h"
#include "collector/ca/trust.h"
#include "collector/clickhouse/ch_conf.h"
#include "collector/clickhouse/ch_source.h"
#include "collector/collector_store.h"
#include "collector/console/console.h"
#include "collector/console/console_door.h"
#include "collector/ingest/forgotten.h"
#include "collector/ingest/session.h"
#include "collector/lab/lab_service.h"
#include "collector/metrics/http.h"
#include "collector/metrics/metrics.h"
#include "collector/query/pulse.h"
#include "collector/query/query.h"
#include "collector/rules/rules_service.h"
#include "collector/store/read/store_read.h"
#include "collector/store/store.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/net/net.h"
#include "common/os/os.h"
#include "common/os/uuid.h"
#include "common/rpc/rpc.h"

#define QUERY_BYTES_MAX  (320u << 10) /* the longest question: a file of rules */
#define IN_FLIGHT        4u           /* requests of one agent at once */
#define DESCRIPTORS_FREE 1024u        /* for everything but agents */
#define SLOW_STOP_NS     CLK_S        /* is told of */
#define FRAME_ROOM       (FRAME_HEADER_MAX + 64u)
#define PUB_QUEUE        1024u
#define REPLY_TIMEOUT_NS (5 * CLK_S)
#define ENROLL_BYTES_MAX (16u << 10)
#define ENROLL_PEERS_MAX 64u
#define ENROLL_SILENT_NS (10 * CLK_S)
#define ENROLL_SAME_MAX  16u          /* of one address, so that none takes all */
#define INGEST_SILENT_NS (90 * CLK_S) /* agents call every 30 s */
#define QUERY_SILENT_NS  (600 * CLK_S)

struct collector {
    const struct collector_conf *conf;
    bool net; /* initialised */
    struct tls_config *tls;
    struct collector_store data;
    struct ch_conf ch;
    struct ch_source *source; /* NULL: questions read the local store */
    struct net_pub *pub;
    struct forgotten *forgotten;
    struct session *session;
    struct serve *serve;
    struct lab_service *lab;
    struct rules_service *rules;
    struct admin *admin;
    struct console *console;
    struct console_door *door;
    struct http *http;
    struct rpc_server *query;
    struct rpc_server *ingest;
    struct rpc_server *enroll;
    struct trust *trust;
    int64_t started_ns;  /* UTC */
    atomic_bool running; /* everything listens: the pointers above stay as they are */
};

/* -- what stages call: ctx is the collector, any thread -- */

static bool tell_host(void *ctx, const struct uuid *host, struct query_host_state *out)
{
    const struct collector *c = ctx;
    struct ca_db *ca = trust_ca_db(c->trust);
    struct session_host s = {0};
    bool heard = session_host_state(c->session, host, &s);

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
    out->revoked = ca && ca_db_host_revoked(ca, host);
    return heard || out->revoked;
}

static bool tell_forgotten(void *ctx, const struct uuid *host)
{
    return forgotten_has(((struct collector *)ctx)->forgotten, host);
}

static enum err tell_run(void *ctx, const struct store_view *view, const struct net_identity *who,
                         struct str name, struct arena *memory, struct query_run *out,
                         struct errmsg *why)
{
    return lab_service_run(((struct collector *)ctx)->lab, view, who, name, memory, out, why);
}

static void tell_facts(void *ctx, const struct uuid *host, const void *p, size_t n, int64_t now_ns)
{
    facts_told(lab_service_facts(((struct collector *)ctx)->lab), host, p, n, now_ns);
}

static const struct facts *tell_known(void *ctx, const struct uuid *host, const char *name,
                                      struct arena *a)
{
    return facts_now(lab_service_facts(((struct collector *)ctx)->lab), host, name, a);
}

static enum err tell_notices(void *ctx, int64_t since_ns, int64_t until_ns, query_notice_each each,
                             void *to)
{
    return rules_service_notices(lab_service_db(((struct collector *)ctx)->lab), since_ns, until_ns,
                                 each, to);
}

static enum err tell_boots(void *ctx, const struct uuid *host, int64_t since_ns, int64_t until_ns,
                           query_boot_each each, void *to)
{
    return lab_service_boots(((struct collector *)ctx)->lab, host, since_ns, until_ns, each, to);
}

static struct str tell_class(void *ctx, const struct facts *f, const char *const *keys,
                             struct arena *a)
{
    return facts_class(lab_service_facts(((struct collector *)ctx)->lab), f, keys, a);
}

/* Without those that are forgotten; 0 for want of memory. */
static uint32_t count_hosts(struct collector *c)
{
    struct query_env env = {.is_forgotten = tell_forgotten, .ctx = c};
    struct store_view *view;
    uint32_t n;

    if (store_view_open(&view, c->data.store) != ERR_OK) {
        return 0;
    }
    env.view = view;
    n = query_count_hosts(&env);
    store_view_close(view);
    return n;
}

static void tell_metrics(void *ctx, struct metrics *out)
{
    struct collector *c = ctx;
    struct metrics_env env = {
        .store = c->data.store,
        .session = c->session,
        .trust = c->trust,
        .console = c->console,
        .door = c->door,
        .pulse = c->data.pulse,
        .sink = c->data.sink,
        .rules = rules_service_live(c->rules),
        .started_ns = c->started_ns,
        .hosts = count_hosts(c),
    };

    if (atomic_load(&c->running)) {
        env.ingest = c->ingest;
        env.query = c->query;
        env.enroll = c->enroll;
        env.pub = c->pub;
        env.feed = c->data.feed.feed;
        env.journal = c->data.feed.journal;
        env.subscriptions = c->data.feed.subscriptions;
        env.http = c->http ? http_listener(c->http) : NULL;
    }
    metrics_gather(out, &env);
}

/* Of a collector that is ready: agents need no ClickHouse. */
static void tell_lag(const struct collector *c, struct errmsg *why)
{
    struct ch_sink_stats s;

    if (!c->data.sink) {
        return;
    }
    ch_sink_stats(c->data.sink, &s);
    if (!s.working || s.lag_ns > 60 * CLK_S) {
        (void)errmsg_set(why, ERR_OK, "ClickHouse lags %lld s%s%s", (long long)(s.lag_ns / CLK_S),
                         s.working ? "" : ": ", s.trouble);
    }
}

static bool tell_ready(void *ctx, struct errmsg *why)
{
    struct collector *c = ctx;
    struct store_stats stats;
    struct store_room room;

    store_stats(c->data.store, &stats);
    store_room(c->data.store, &room);
    if (!atomic_load(&c->running)) {
        (void)errmsg_set(why, ERR_BUSY, "starting");
    } else if (stats.failed) {
        (void)errmsg_set(why, ERR_IO,
                         "the store's log failed: repair the disk of data_dir, then restart");
    } else if (stats.no_space) {
        (void)errmsg_set(why, ERR_NOSPACE,
                         "the disk of data_dir has no room for the log: agents wait");
    } else if (room.refusing) {
        (void)errmsg_set(why, ERR_NOSPACE, "the disk of data_dir is full: agents wait");
    } else if (stats.head_bytes >= c->conf->head_bytes_max) {
        (void)errmsg_set(why, ERR_FULL, "the store's memory is full: agents wait");
    } else {
        tell_lag(c, why);
        return true;
    }
    return false;
}

int64_t collector_stuck_ns(const struct collector *c, int64_t now_ns, const char **what)
{
    const struct {
        const char *what;
        int64_t ns;
    } parts[] = {
        {"store", store_busy_ns(c->data.store, now_ns)},
        {"ingest", rpc_server_stuck_ns(c->ingest, now_ns)},
        {"query", rpc_server_stuck_ns(c->query, now_ns)},
        {"enroll", c->enroll ? rpc_server_stuck_ns(c->enroll, now_ns) : 0},
        {"events", c->pub ? net_pub_stuck_ns(c->pub, now_ns) : 0},
        {"feed", feed_stuck_ns(c->data.feed.feed, now_ns)},
        {"polls", c->data.feed.serve ? feed_serve_stuck_ns(c->data.feed.serve, now_ns) : 0},
        {"rules", rules_live_stuck_ns(rules_service_live(c->rules), now_ns)},
        {"http", c->http ? http_stuck_ns(c->http, now_ns) : 0},
        {"console", console_stuck_ns(c->console, now_ns)},
        {"trust", trust_stuck_ns(c->trust, now_ns)},
    };
    size_t longest = 0;

    for (size_t i = 1; i < sizeof parts / sizeof *parts; i++) {
        longest = parts[i].ns > parts[longest].ns ? i : longest;
    }
    *what = parts[longest].what;
    return parts[longest].ns;
}

static int64_t tell_stuck(void *ctx)
{
    struct collector *c = ctx;
    const char *what;

    return atomic_load(&c->running) ? collector_stuck_ns(c, os_mono_ns(), &what) : 0;
}

static void pub_send(void *ctx, const struct str *list, size_t n)
{
    net_pub_send(((struct collector *)ctx)->pub, list, n);
}

static unsigned pub_listeners(void *ctx)
{
    struct collector *c = ctx;

    return c->pub ? net_pub_subscribers(c->pub) : 0;
}

static unsigned tell_disconnect(void *ctx, const char *name)
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
static enum err tell_forget(void *ctx, const char *host, uint32_t *hosts, struct errmsg *why)
{
    struct collector *c = ctx;
    struct store_view *view;
    struct session_host s;
    struct uuid id;
    bool by_id = uuid_parse(&id, host) == ERR_OK, connected = false;
    enum err e = store_view_open(&view, c->data.store);

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

/* -- listeners: who may connect to each, with what limits, and what answers there -- */

static void listen_log(const char *listener, const char *address, unsigned port)
{
    char quoted[300];

    log_line(LOG_INFO, "collector", "listening", "listener=%s address=%s port=%u", listener,
             log_str(quoted, sizeof quoted, address), port);
}

/* Names the setting that the problem is about; an address that cannot be read is wrong usage. */
static enum err listen_problem(const char *key, enum err e, struct errmsg *why)
{
    struct errmsg cause = *why;

    return errmsg_set(why, e == ERR_INVALID ? ERR_USAGE : e, "%s: %s", key,
                      cause.text[0] ? cause.text : err_text(e));
}

static enum err listen_events(struct collector *c, struct errmsg *why)
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
        listen_log("events", conf.address, net_pub_port(c->pub));
    }
    return e ? listen_problem("listen.events", e, why) : e;
}

static unsigned listen_workers(void)
{
    unsigned n = os_cpu_count();

    return n < 2 ? 2 : n > 8 ? 8 : n;
}

static enum err listen_query(struct collector *c, struct errmsg *why)
{
    struct rpc_server_conf conf = {
        .net =
            {
                .name = "query",
                .address = c->conf->query,
                .tls = c->tls,
                .roles = NET_QUERY | NET_SUBSCRIBE | NET_ADMIN | NET_MARK,
                .judge = trust_ca_db(c->trust) ? ca_db_judge : NULL,
                .judge_ctx = trust_ca_db(c->trust),
                .receive_max = QUERY_BYTES_MAX,
                .contexts = 32 + FEED_WAITING_MAX, /* polls that wait take no place of others */
                .reply_timeout_ns = REPLY_TIMEOUT_NS,
                .silent_ns = QUERY_SILENT_NS,
            },
        .workers = listen_workers(),
        .background = true,
        .queue = 64,
        .raw_max = QUERY_BYTES_MAX,
        .default_timeout_ns = 30 * CLK_S,
    };
    enum err e;

    conf.methods = serve_methods(c->serve, &conf.n_methods);
    e = rpc_server_start(&c->query, &conf, why);
    if (!e) {
        listen_log("query", conf.net.address, rpc_server_port(c->query));
    }
    return e ? listen_problem("listen.query", e, why) : e;
}

static enum err listen_ingest(struct collector *c, struct errmsg *why)
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
                .per_peer = IN_FLIGHT,
                .peers_max = 2 * c->conf->hosts_max, /* one that came back may be there twice */
                .reply_timeout_ns = REPLY_TIMEOUT_NS,
                .silent_ns = INGEST_SILENT_NS,
            },
        .on_peer = session_peer,
        .peer_ctx = c->session,
        .methods = methods,
        .n_methods = SESSION_METHODS,
        .workers = listen_workers(),
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
        listen_log("ingest", conf.net.address, rpc_server_port(c->ingest));
    }
    return e ? listen_problem("listen.ingest", e, why) : e;
}

static enum err listen_enroll(struct collector *c, struct errmsg *why)
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
        listen_log("enroll", conf.net.address, rpc_server_port(c->enroll));
    }
    return e ? listen_problem("listen.enroll", e, why) : e;
}

static enum err listen_http(struct collector *c, struct errmsg *why)
{
    const struct http_conf conf = {
        .address = c->conf->http,
        .names = c->conf->http_names,
        .n_names = c->conf->n_http_names,
        .refresh_ns = c->conf->http_refresh_ns,
        .fleet = {.store = c->data.store,
                  .hosts_max = c->conf->http_hosts_max,
                  .programs = c->conf->http_programs,
                  .programs_more = c->conf->http_programs_more,
                  .host_state = tell_host,
                  .is_forgotten = tell_forgotten,
                  .ctx = c},
        .metrics = tell_metrics,
        .ready = tell_ready,
        .stuck_ns = tell_stuck,
        .ctx = c,
    };
    enum err e;

    if (!c->conf->http[0]) {
        return ERR_OK;
    }
    e = http_start(&c->http, &conf, why);
    if (!e) {
        listen_log("http", conf.address, http_port(c->http));
    }
    return e ? listen_problem("listen.http", e, why) : e;
}

static enum err listen_console(struct collector *c, struct errmsg *why)
{
    enum err e = console_door_start(c->door, why);

    if (!e && console_door_port(c->door)) {
        listen_log("console", c->conf->console, console_door_port(c->door));
    }
    return e ? listen_problem("listen.console", e, why) : e;
}

/* -- start -- */

static enum err data_dir_make(struct collector *c, struct errmsg *why)
{
    enum err e = os_mkdirs(c->conf->data_dir, true);

    return e ? errmsg_set(why, e, "cannot make data_dir %s: %s", c->conf->data_dir, err_text(e))
             : ERR_OK;
}

/* What to do about a file that is not there. */
static enum err trust_missing(struct errmsg *why, enum tls_cause cause)
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
    return e == ERR_NOTFOUND ? trust_missing(why, cause) : e;
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

/* A certificate was revoked: re-check every connection. */
static void tell_revoked(void *ctx)
{
    struct collector *c = ctx;

    rpc_server_review(c->ingest);
    rpc_server_review(c->query);
    if (c->pub) {
        net_pub_review(c->pub);
    }
    console_door_review(c->door);
}

static enum err feed_make(struct collector *c, struct errmsg *why)
{
    return collector_store_feed_open(
        &c->data.feed, &(struct collector_feed_conf){c->conf, pub_send, pub_listeners, c}, why);
}

static enum err admin_make(struct collector *c)
{
    const struct admin_conf conf = {.started_ns = c->started_ns,
                                    .metrics = tell_metrics,
                                    .disconnect = tell_disconnect,
                                    .forget = tell_forget,
                                    .ctx = c};
    struct rpc_method methods[ADMIN_METHODS];
    enum err e = admin_create(&c->admin, &conf);

    if (!e) {
        admin_methods(c->admin, methods);
        serve_add(c->serve, methods, ADMIN_METHODS);
    }
    return e;
}

static enum err door_make(struct collector *c)
{
    const struct console_door_conf conf = {
        .address = c->conf->console,
        .names = c->conf->console_names,
        .n_names = c->conf->n_console_names,
        .url = c->conf->console_url,
        .user_header = c->conf->console_user_header,
        .tokens = c->conf->console_tokens,
        .audit = c->conf->console_audit,
        .console = c->console,
        .judge = trust_judge,
        .judge_ctx = c->trust,
    };
    struct rpc_method method;
    enum err e = console_door_create(&c->door, &conf);

    if (!e) {
        console_door_method(c->door, &method);
        serve_add(c->serve, &method, 1);
    }
    return e;
}

static enum err console_make(struct collector *c)
{
    const struct console_conf conf = {.serve = c->serve,
                                      .feed = c->data.feed.serve,
                                      .workers = listen_workers(),
                                      .rules = rules_service_status,
                                      .ctx = c->rules};
    struct rpc_method method;
    enum err e = console_create(&c->console, &conf);

    if (!e) {
        console_method(c->console, &method);
        serve_add(c->serve, &method, 1);
        e = door_make(c);
    }
    return e;
}

static enum err lab_make(struct collector *c, struct errmsg *why)
{
    const struct lab_service_conf conf = {
        .store = c->data.store,
        .fio = c->conf->fio,
        .data_dir = c->conf->data_dir,
        .age_ns = c->conf->runs_age_ns,
        .max_bytes = collector_store_runs_bytes(c->conf),
        .samples_age_ns = c->conf->retain.age_ns[SEG_RAW],
        .labels = c->conf->lab_labels,
        .n_labels = c->conf->n_lab_labels,
        .class_keys = c->conf->lab_class,
        .n_class_keys = c->conf->n_lab_class,
        .notices = rules_db_run_notices,
        .host_state = tell_host,
        .is_forgotten = tell_forgotten,
        .ctx = c,
    };
    struct rpc_method methods[LAB_SERVICE_METHODS];
    enum err e = lab_service_open(&c->lab, &conf, why);

    if (!e) {
        atomic_store(&c->data.lab, c->lab);
        lab_service_methods(c->lab, methods);
        serve_add(c->serve, methods, LAB_SERVICE_METHODS);
    }
    return e;
}

static enum err open_view(void *ctx, struct store_view **out, int64_t since_ns,
                          const struct deadline *deadline)
{
    return ch_source_view(((struct collector *)ctx)->source, out, since_ns, deadline);
}

/* Where questions find what the store does not hold. */
static enum err source_make(struct collector *c)
{
    const char *view = conf_text(c->conf->source, "clickhouse.view");
    bool far = strcmp(view, "far") == 0;
    const struct ch_source_conf conf = {.store = c->data.store,
                                        .mode = far ? CH_SOURCE_FAR : CH_SOURCE_AUTO,
                                        .server = &c->ch.reader,
                                        .name = c->ch.name,
                                        .keep_cell_ns = c->ch.keep.cell_ns};

    return c->ch.on && strcmp(view, "local") != 0 ? ch_source_open(&c->source, &conf) : ERR_OK;
}

static enum err rules_make(struct collector *c)
{
    const struct rules_live_conf conf = {.store = c->data.store,
                                         .db = lab_service_db(c->lab),
                                         .feed = c->data.feed.feed,
                                         .file = c->conf->rules_file,
                                         .facts = tell_known,
                                         .host_class = tell_class,
                                         .is_forgotten = tell_forgotten,
                                         .ctx = c};
    struct rpc_method methods[RULES_SERVICE_METHODS];
    enum err e = rules_service_open(&c->rules, &conf);

    if (!e) {
        atomic_store(&c->data.rules, rules_service_live(c->rules));
        rules_service_methods(c->rules, methods);
        serve_add(c->serve, methods, RULES_SERVICE_METHODS);
    }
    return e;
}

static enum err stages_make(struct collector *c, uint64_t epoch, struct errmsg *why)
{
    const struct session_conf session = {
        .store = c->data.store,
        .hosts_max = c->conf->hosts_max,
        .max_message = c->conf->batch_bytes_max,
        .max_in_flight = IN_FLIGHT,
        .accept_age_ns = c->conf->accept_age_ns,
        .future_max_ns = 300 * CLK_S,
        .forgotten = c->forgotten,
        .facts = tell_facts,
        .facts_ctx = c,
    };
    struct serve_conf serve = {
        .store = c->data.store,
        .event_epoch = epoch,
        .request_max = QUERY_BYTES_MAX,
        .pulse = c->data.pulse,
        .host_state = tell_host,
        .is_forgotten = tell_forgotten,
        .run = tell_run,
        .view = c->source ? open_view : NULL,
        .facts = tell_known,
        .host_class = tell_class,
        .notices = tell_notices,
        .boots = tell_boots,
        .ctx = c,
    };
    enum err e = session_create(&c->session, &session);

    if (!e) {
        e = serve_create(&c->serve, &serve);
    }
    if (!e && c->data.feed.serve) {
        struct rpc_method methods[FEED_METHODS];

        feed_serve_methods(c->data.feed.serve, methods);
        serve_add(c->serve, methods, FEED_METHODS);
    }
    if (!e) {
        e = lab_make(c, why);
    }
    if (!e) {
        e = rules_make(c);
    }
    if (!e) {
        e = admin_make(c);
    }
    if (!e) {
        e = console_make(c);
    }
    if (e && why->text[0]) {
        return e;
    }
    return e ? errmsg_set(why, e, "cannot start: %s", err_text(e)) : ERR_OK;
}

/* Each connection takes a descriptor; without one no connection is accepted and no file opened. */
static void descriptors_check(const struct collector *c)
{
    size_t limit = os_open_files_max();

    if (limit > 0 && limit < c->conf->hosts_max + DESCRIPTORS_FREE) {
        log_line(LOG_WARN, "collector", "few_descriptors", "limit=%zu hosts=%u remedy=%s", limit,
                 (unsigned)c->conf->hosts_max, "\"raise LimitNOFILE, or lower limits.hosts\"");
    }
}

static bool tell_sink(void *ctx, const struct uuid *host, struct ch_host_state *out)
{
    struct session_host s = {0};
    bool heard = session_host_state(((const struct collector *)ctx)->session, host, &s);

    *out = (struct ch_host_state){
        .connected = s.connected, .heard_ns = s.heard_ns, .clones = s.clones};
    return heard;
}

/* The way into ClickHouse, when there is one; before the store, whose threads come to it. */
static enum err sink_make(struct collector *c, struct errmsg *why)
{
    struct ch_sink_conf conf = {.fio = c->conf->fio,
                                .data_dir = c->conf->data_dir,
                                .hosts_max = c->conf->hosts_max,
                                .forget_ns = c->conf->accept_age_ns,
                                .host_state = tell_sink,
                                .ctx = c};
    enum err e = ch_conf_read(&c->ch, c->conf->source, c->conf->data_dir, why);

    if (e || !c->ch.on) {
        return e;
    }
    conf.name = c->ch.name;
    conf.server = c->ch.server;
    conf.keep = c->ch.keep;
    conf.samples = c->ch.samples;
    conf.n_samples = c->ch.n_samples;
    conf.gather_ns = c->ch.gather_ns;
    conf.quorum = c->ch.quorum;
    return ch_sink_open(&c->data.sink, &conf, why);
}

static enum err collector_open(struct collector *c, struct errmsg *why)
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
        e = sink_make(c, why);
    }
    if (!e) {
        e = collector_store_open(&c->data, why);
    }
    if (e) {
        return e;
    }
    e = forgotten_open(&c->forgotten, c->conf->fio, c->conf->data_dir, why);
    if (!e) {
        e = feed_make(c, why);
    }
    if (!e) {
        e = listen_events(c, why);
    }
    if (!e) {
        e = collector_store_feed_start(&c->data.feed, c->data.store, why);
    }
    if (!e) {
        e = source_make(c);
    }
    if (!e) {
        e = stages_make(c, c->data.feed.epoch, why);
    }
    e = e || !c->data.sink ? e : ch_sink_start(c->data.sink, c->data.store);
    if (!e) {
        e = listen_query(c, why);
    }
    if (!e) {
        e = listen_ingest(c, why);
    }
    if (!e) {
        e = listen_enroll(c, why);
    }
    if (!e) {
        e = listen_http(c, why);
    }
    if (!e) {
        e = listen_console(c, why);
    }
    atomic_store(&c->running, e == ERR_OK);
    return e ? e : trust_follow(c->trust, tell_revoked, c);
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
    c->data.conf = conf;
    c->started_ns = os_utc_ns();
    e = collector_open(c, why);
    if (e) {
        collector_stop(c);
        return e;
    }
    *out = c;
    return ERR_OK;
}

/* Since the last call, or the one that began. */
static void stop_log(int64_t *since_ns, const char *part)
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
    stop_log(&since_ns, "trust");
    http_stop(c->http);
    stop_log(&since_ns, "http");
    collector_store_feed_stop_polls(&c->data.feed);
    rpc_server_stop(c->query);
    stop_log(&since_ns, "query");
    console_door_destroy(c->door);
    console_destroy(c->console);
    stop_log(&since_ns, "console");
    rpc_server_stop(c->enroll);
    stop_log(&since_ns, "enroll");
    rpc_server_stop(c->ingest);
    stop_log(&since_ns, "ingest");
    atomic_store(&c->data.rules, NULL);
    rules_service_close(c->rules);
    collector_store_feed_stop(&c->data.feed);
    stop_log(&since_ns, "feed");
    pulse_stop(c->data.pulse);
    ch_sink_stop(c->data.sink);
    stop_log(&since_ns, "clickhouse");
    session_destroy(c->session);
    atomic_store(&c->data.lab, NULL);
    lab_service_close(c->lab);
    stop_log(&since_ns, "lab");
    forgotten_close(c->forgotten);
    stop_log(&since_ns, "session");
    store_close(c->data.store);
    stop_log(&since_ns, "store");
    ch_sink_close(c->data.sink);
    ch_source_close(c->source);
    ch_conf_fini(&c->ch);
    serve_destroy(c->serve);
    pulse_destroy(c->data.pulse);
    admin_destroy(c->admin);
    net_pub_stop(c->pub);
    stop_log(&since_ns, "events");
    collector_store_feed_close(&c->data.feed);
    stop_log(&since_ns, "journal");
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
        .console = console_door_port(c->door),
    };
}
