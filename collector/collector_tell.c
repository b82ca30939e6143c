/* What the collector says of itself, from any thread: figures, readiness, the state of a host. */
#include "collector/collector_impl.h"

#include <string.h>

#include "collector/http/http.h"
#include "collector/session/session.h"
#include "common/os.h"

bool collector_tell_host(void *ctx, const struct uuid *host, struct query_host_state *out)
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

void collector_tell_figures(void *ctx, struct figures *out)
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

int64_t collector_tell_stuck(void *ctx)
{
    struct collector *c = ctx;

    return atomic_load(&c->running) ? collector_stuck_ns(c, os_mono_ns()) : 0;
}
