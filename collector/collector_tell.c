/* What the collector says of itself, from any thread: figures, readiness, the state of a host. */
#include "collector/collector_impl.h"

#include <string.h>

#include "collector/ca/trust.h"
#include "collector/ingest/session.h"
#include "collector/metrics/http.h"
#include "collector/store/store.h"
#include "collector/subscribe/feed.h"
#include "collector/subscribe/feed_serve.h"
#include "common/os/os.h"

bool collector_tell_host(void *ctx, const struct uuid *host, struct query_host_state *out)
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

bool collector_tell_forgotten(void *ctx, const struct uuid *host)
{
    return forgotten_has(((struct collector *)ctx)->forgotten, host);
}

/* Without those that are forgotten; 0 for want of memory. */
static uint32_t count_hosts(struct collector *c)
{
    struct query_env env = {.is_forgotten = collector_tell_forgotten, .ctx = c};
    struct store_view *view;
    uint32_t n;

    if (store_view_open(&view, c->store) != ERR_OK) {
        return 0;
    }
    env.view = view;
    n = query_count_hosts(&env);
    store_view_close(view);
    return n;
}

void collector_tell_figures(void *ctx, struct figures *out)
{
    struct collector *c = ctx;
    struct metrics_env env = {
        .store = c->store,
        .session = c->session,
        .trust = c->trust,
        .started_ns = c->started_ns,
        .hosts = count_hosts(c),
    };

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
    metrics_gather(out, &env);
}

bool collector_tell_ready(void *ctx, struct errmsg *why)
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
                         "the store's log failed: repair the disk of data_dir, then restart");
    } else if (stats.no_space) {
        (void)errmsg_set(why, ERR_NOSPACE,
                         "the disk of data_dir has no room for the log: agents wait");
    } else if (room.refusing) {
        (void)errmsg_set(why, ERR_NOSPACE, "the disk of data_dir is full: agents wait");
    } else if (stats.head_bytes >= c->conf->head_bytes_max) {
        (void)errmsg_set(why, ERR_FULL, "the store's memory is full: agents wait");
    } else {
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
        {"store", store_busy_ns(c->store, now_ns)},
        {"ingest", rpc_server_stuck_ns(c->ingest, now_ns)},
        {"query", rpc_server_stuck_ns(c->query, now_ns)},
        {"enroll", c->enroll ? rpc_server_stuck_ns(c->enroll, now_ns) : 0},
        {"events", c->pub ? net_pub_stuck_ns(c->pub, now_ns) : 0},
        {"feed", feed_stuck_ns(c->feed.feed, now_ns)},
        {"polls", c->feed.serve ? feed_serve_stuck_ns(c->feed.serve, now_ns) : 0},
        {"http", c->http ? http_stuck_ns(c->http, now_ns) : 0},
        {"trust", trust_stuck_ns(c->trust, now_ns)},
    };
    size_t longest = 0;

    for (size_t i = 1; i < sizeof parts / sizeof *parts; i++) {
        longest = parts[i].ns > parts[longest].ns ? i : longest;
    }
    *what = parts[longest].what;
    return parts[longest].ns;
}

int64_t collector_tell_stuck(void *ctx)
{
    struct collector *c = ctx;
    const char *what;

    return atomic_load(&c->running) ? collector_stuck_ns(c, os_mono_ns(), &what) : 0;
}
