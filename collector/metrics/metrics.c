/* Stages list their numbers once (common/model/stats.h); here they become metrics. What is no
 * member of such a list is added by hand. docs/figures.md has all of them, which e2e_metrics
 * compares. */
#include "collector/metrics/metrics.h"

#include <assert.h>
#include <stdio.h>

#include "collector/ca/trust.h"
#include "collector/clickhouse/ch_sink.h"
#include "collector/console/console.h"
#include "collector/console/console_door.h"
#include "collector/ingest/session.h"
#include "collector/query/pulse.h"
#include "collector/rules/rules_live.h"
#include "collector/store/store.h"
#include "collector/subscribe/feed.h"
#include "collector/subscribe/journal.h"
#include "collector/subscribe/subscriptions.h"
#include "common/base/clk.h"
#include "common/http/http_server.h"
#include "common/net/net_engine.h"
#include "common/os/os.h"
#include "common/rpc/rpc.h"

#define LISTENERS 4u

/* A line of a stage's list of numbers (stats.h). */
struct member {
    const char *name, *help;
    enum metrics_kind kind;
    size_t at; /* of a uint64_t */
};

#define MEMBER(kind, member, name, help) {name, help, METRICS_##kind, offsetof(STATS, member)},

#define STATS struct store_stats
static const struct member store_members[] = {STORE_STATS(MEMBER)};
#undef STATS
#define STATS struct session_stats
static const struct member session_members[] = {SESSION_STATS(MEMBER)};
#undef STATS
#define STATS struct feed_stats
static const struct member feed_members[] = {FEED_STATS(MEMBER)};
#undef STATS
#define STATS struct ch_sink_stats
static const struct member sink_members[] = {CH_SINK_STATS(MEMBER)};
#undef STATS
#define STATS struct journal_stats
static const struct member journal_members[] = {JOURNAL_STATS(MEMBER)};
#undef STATS
#define STATS struct rules_stats
static const struct member rules_members[] = {RULES_STATS(MEMBER)};
#undef STATS
#define STATS struct subscriptions_stats
static const struct member subscriptions_members[] = {SUBSCRIPTIONS_STATS(MEMBER)};
#undef STATS

static void metrics_add(struct metrics *out, const char *name, const char *help,
                        enum metrics_kind kind, const char *labels, double value)
{
    struct metrics_value *f = &out->all[out->n];

    assert(out->n < METRICS_MAX);
    if (out->n == METRICS_MAX) {
        return;
    }
    out->n++;
    f->name = name;
    f->help = help;
    f->kind = kind;
    f->value = value;
    (void)snprintf(f->labels, sizeof f->labels, "%s", labels);
}

static void add_members(struct metrics *out, const void *stats, const struct member *m, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t *v = (const uint64_t *)(const void *)((const char *)stats + m[i].at);

        metrics_add(out, m[i].name, m[i].help, m[i].kind, "", (double)*v);
    }
}

#define ADD_MEMBERS(out, stats, list) add_members(out, stats, list, sizeof(list) / sizeof *(list))

static void gauge(struct metrics *out, const char *name, const char *help, double value)
{
    metrics_add(out, name, help, METRICS_GAUGE, "", value);
}

static double seconds(int64_t ns)
{
    return (double)ns / (double)CLK_S;
}

/* -- the process -- */

static enum err entry_count(void *ctx, const char *name)
{
    (void)name;
    ++*(unsigned *)ctx;
    return ERR_OK;
}

static unsigned entries_count(const char *dir)
{
    unsigned n = 0;

    err_ignore(os_list_dir(dir, entry_count, &n));
    return n;
}

static void add_process(struct metrics *out, int64_t started_ns)
{
    unsigned descriptors = entries_count("/proc/self/fd");

    metrics_add(out, "procfleet_build_info", "The collector's version.", METRICS_GAUGE,
                "version=\"" PROCFLEET_VERSION "\"", 1);
    gauge(out, "procfleet_start_time_seconds", "When the collector started, UTC since 1970.",
          seconds(started_ns));
    metrics_add(out, "procfleet_cpu_seconds_total", "CPU time of the collector, user and kernel.",
                METRICS_COUNTER, "", seconds(os_cpu_ns()));
    gauge(out, "procfleet_resident_bytes", "Resident memory of the collector.",
          (double)os_resident_bytes());
    gauge(out, "procfleet_resident_peak_bytes", "The most that it ever was.",
          (double)os_resident_peak());
    gauge(out, "procfleet_open_descriptors", "Open descriptors of the collector.",
          descriptors > 0 ? descriptors - 1 : 0); /* without the one that lists them */
    gauge(out, "procfleet_max_descriptors", "How many it may open.", (double)os_open_files_max());
    gauge(out, "procfleet_threads", "Threads of the collector.", entries_count("/proc/self/task"));
}

/* -- the store -- */

static void add_store(struct metrics *out, const struct metrics_env *env)
{
    struct store_stats s;

    store_stats(env->store, &s);
    gauge(out, "procfleet_store_hosts", "Hosts with data, without those that are forgotten.",
          (double)env->hosts);
    gauge(out, "procfleet_store_forgotten_hosts", "Hosts with data that are forgotten.",
          s.hosts > env->hosts ? (double)(s.hosts - env->hosts) : 0);
    ADD_MEMBERS(out, &s, store_members);
    gauge(out, "procfleet_store_failed", "1: the log failed, nothing is accepted until a restart.",
          s.failed);
    gauge(out, "procfleet_store_no_space",
          "1: the disk has no room for the log, batches are refused until it has.", s.no_space);
    gauge(out, "procfleet_store_no_catalogue", "1: the catalogue could not be opened.",
          s.no_catalogue);
    gauge(out, "procfleet_store_lost_hosts_file",
          "1: the file of hosts was damaged, hosts are what segments say.", s.lost_hosts_file);
}

/* -- its room on disk, by tier -- */

enum tier_metric { FILES, BYTES, VALUES, SHARE, AGE, OLDEST, DROPPED_AGE, DROPPED_BYTES };

static const struct {
    const char *name, *help;
    enum metrics_kind kind;
} tier_metrics[] = {
    [FILES] = {"procfleet_tier_files", "Segments.", METRICS_GAUGE},
    [BYTES] = {"procfleet_tier_bytes", "Bytes of them.", METRICS_GAUGE},
    [VALUES] = {"procfleet_tier_values", "Samples, points or events inside.", METRICS_GAUGE},
    [SHARE] = {"procfleet_tier_share_bytes", "Bytes that the tier may take.", METRICS_GAUGE},
    [AGE] = {"procfleet_tier_age_seconds", "Age that its data may reach.", METRICS_GAUGE},
    [OLDEST] = {"procfleet_tier_oldest_timestamp_seconds",
                "Begin of its oldest window, UTC since 1970; 0: there is none.", METRICS_GAUGE},
    [DROPPED_AGE] = {"procfleet_tier_dropped_age_total", "Segments dropped for their age.",
                     METRICS_COUNTER},
    [DROPPED_BYTES] = {"procfleet_tier_dropped_size_total", "Segments dropped for want of room.",
                       METRICS_COUNTER},
};

static double tier_value(const struct store_room *r, unsigned kind, enum tier_metric f)
{
    switch (f) {
    case FILES:
        return (double)r->kind[kind].files;
    case BYTES:
        return (double)r->kind[kind].bytes;
    case VALUES:
        return (double)r->kind[kind].values;
    case SHARE:
        return (double)r->kind[kind].share_bytes;
    case AGE:
        return seconds(r->kind[kind].age_ns);
    case OLDEST:
        return seconds(r->kind[kind].oldest_ns);
    case DROPPED_AGE:
        return (double)r->kind[kind].dropped_age;
    default:
        return (double)r->kind[kind].dropped_bytes;
    }
}

static void add_tiers(struct metrics *out, const struct store_room *r)
{
    static const struct {
        unsigned kind;
        const char *labels;
    } tiers[] = {{SEG_RAW, "tier=\"raw\""},     {SEG_10S, "tier=\"10s\""},
                 {SEG_1MIN, "tier=\"1min\""},   {SEG_1H, "tier=\"1h\""},
                 {SEG_REST, "tier=\"events\""}, {SEG_PROVIDER, "tier=\"provider\""}};

    for (size_t f = 0; f < sizeof tier_metrics / sizeof *tier_metrics; f++) {
        for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++) {
            metrics_add(out, tier_metrics[f].name, tier_metrics[f].help, tier_metrics[f].kind,
                        tiers[i].labels, tier_value(r, tiers[i].kind, (enum tier_metric)f));
        }
    }
}

#define ROOM_STATS(X)                                                                       \
    X(GAUGE, catalogue_bytes, "procfleet_store_catalogue_bytes", "Bytes of the catalogue.") \
    X(GAUGE, total_bytes, "procfleet_store_disk_bytes", "All that the store has on disk.")  \
    X(GAUGE, ceiling_bytes, "procfleet_store_ceiling_bytes", "What it may have at most.")   \
    X(GAUGE, disk_free, "procfleet_disk_free_bytes", "Free on the disk of data_dir.")       \
    X(GAUGE, disk_total, "procfleet_disk_size_bytes", "Size of that disk.")                 \
    X(COUNTER, sealed_windows, "procfleet_store_sealed_windows_total", "Windows sealed.")   \
    X(COUNTER, patches, "procfleet_store_patches_total",                                    \
      "Sealed windows that late data was added to.")                                        \
    X(COUNTER, seal_failures, "procfleet_store_seal_failures_total",                        \
      "Times that sealing, compaction or retention failed; it is tried again.")             \
    X(COUNTER, unreadable_batches, "procfleet_store_unreadable_batches_total",              \
      "Batches of the log damaged, or not given by the disk, when sealed: left out.")

#define STATS struct store_room
static const struct member room_members[] = {ROOM_STATS(MEMBER)};
#undef STATS

static void add_room(struct metrics *out, struct store *store)
{
    struct store_room r;

    store_room(store, &r);
    add_tiers(out, &r);
    ADD_MEMBERS(out, &r, room_members);
    gauge(out, "procfleet_store_refusing", "1: the disk is all but full, agents are told to wait.",
          r.refusing);
    gauge(out, "procfleet_store_sealed_timestamp_seconds",
          "End of the newest sealed window, UTC since 1970; 0: there is none.",
          seconds(r.sealed_ns));
}

/* -- sessions with agents -- */

static void add_session(struct metrics *out, struct session *session)
{
    struct session_stats s;

    session_stats(session, &s);
    ADD_MEMBERS(out, &s, session_members);
}

/* -- the live stream, its journal, durable subscriptions -- */

static void add_feed(struct metrics *out, const struct metrics_env *env)
{
    struct feed_stats feed;
    struct journal_stats journal;
    struct subscriptions_stats subscriptions;

    if (env->feed) {
        feed_stats(env->feed, &feed);
        ADD_MEMBERS(out, &feed, feed_members);
    }
    if (env->journal) {
        journal_stats(env->journal, &journal);
        ADD_MEMBERS(out, &journal, journal_members);
        gauge(out, "procfleet_journal_oldest_timestamp_seconds",
              "When its oldest message was stored, UTC since 1970; 0: there is none.",
              seconds(journal.oldest_ns));
    }
    if (env->subscriptions) {
        subscriptions_stats(env->subscriptions, &subscriptions);
        ADD_MEMBERS(out, &subscriptions, subscriptions_members);
    }
}

static void add_sink(struct metrics *out, const struct metrics_env *env)
{
    struct ch_sink_stats s;

    if (env->sink) {
        ch_sink_stats(env->sink, &s);
        ADD_MEMBERS(out, &s, sink_members);
        gauge(out, "procfleet_clickhouse_lag_seconds",
              "Age of the oldest batch that is not in ClickHouse.", seconds(s.lag_ns));
        gauge(out, "procfleet_clickhouse_working", "1: ClickHouse takes what is sent.", s.working);
        metrics_add(out, "procfleet_clickhouse_cpu_seconds_total", "CPU time of its thread.",
                    METRICS_COUNTER, "", seconds(s.cpu_ns));
    }
}

/* -- listeners, TLS, certificates, http -- */

struct listener {
    const char *name;
    struct net_server_stats s;
};

static size_t listeners_get(struct listener *l, const struct metrics_env *env)
{
    const struct {
        const char *name;
        struct rpc_server *server;
    } servers[] = {{"ingest", env->ingest}, {"query", env->query}, {"enroll", env->enroll}};
    size_t n = 0;

    for (size_t i = 0; i < sizeof servers / sizeof *servers; i++) {
        if (servers[i].server) {
            l[n].name = servers[i].name;
            rpc_server_stats(servers[i].server, &l[n++].s);
        }
    }
    if (env->pub) {
        l[n].name = "events";
        net_pub_stats(env->pub, &l[n++].s);
    }
    return n;
}

static void add_refusals(struct metrics *out, const struct listener *l)
{
    const struct {
        const char *cause;
        uint64_t n;
    } causes[] = {
        {"handshake", l->s.handshake},   {"role", l->s.role},         {"judged", l->s.judged},
        {"expired", l->s.expired},       {"crowded", l->s.crowded},   {"silent", l->s.silent},
        {"late_reply", l->s.late_reply}, {"oversize", l->s.oversize},
    };

    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        char labels[64];

        (void)snprintf(labels, sizeof labels, "listener=\"%s\",cause=\"%s\"", l->name,
                       causes[i].cause);
        metrics_add(out, "procfleet_listener_refused_total",
                    "Connections refused or ended, by cause.", METRICS_COUNTER, labels,
                    (double)causes[i].n);
    }
}

static void add_listeners(struct metrics *out, const struct metrics_env *env)
{
    struct listener l[LISTENERS];
    size_t n = listeners_get(l, env);
    char labels[64];

    for (size_t i = 0; i < n; i++) {
        (void)snprintf(labels, sizeof labels, "listener=\"%s\"", l[i].name);
        metrics_add(out, "procfleet_listener_connections", "Connections at this moment.",
                    METRICS_GAUGE, labels, (double)l[i].s.peers);
    }
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(labels, sizeof labels, "listener=\"%s\"", l[i].name);
        metrics_add(out, "procfleet_listener_admitted_total", "Connections let in.",
                    METRICS_COUNTER, labels, (double)l[i].s.admitted);
    }
    for (size_t i = 0; i < n; i++) {
        add_refusals(out, &l[i]);
    }
}

static void add_tls(struct metrics *out)
{
    static const char name[] = "procfleet_tls_handshakes_total";
    static const char help[] = "TLS handshakes; resumed ones took a ticket.";
    struct net_engine_stats s;

    net_engine_stats(&s);
    metrics_add(out, name, help, METRICS_COUNTER, "result=\"full\"", (double)s.full);
    metrics_add(out, name, help, METRICS_COUNTER, "result=\"resumed\"", (double)s.resumed);
    metrics_add(out, name, help, METRICS_COUNTER, "result=\"failed\"", (double)s.failed);
}

static void add_enroll(struct metrics *out, struct enroll_service *enroll)
{
    static const char name[] = "procfleet_certificates_issued_total";
    static const char help[] = "Certificates given to agents.";
    struct enroll_service_stats s;

    enroll_service_stats(enroll, &s);
    metrics_add(out, name, help, METRICS_COUNTER, "call=\"enroll\"", (double)s.enrolled);
    metrics_add(out, name, help, METRICS_COUNTER, "call=\"renew\"", (double)s.renewed);
    metrics_add(out, name, help, METRICS_COUNTER, "call=\"renew_expired\"",
                (double)s.renewed_expired);
    metrics_add(out, "procfleet_certificates_refused_total",
                "Requests for a certificate that were refused.", METRICS_COUNTER, "",
                (double)s.refused);
}

static void add_http(struct metrics *out, struct http_server *http)
{
    struct http_server_stats s;

    http_server_stats(http, &s);
    metrics_add(out, "procfleet_http_requests_total", "Requests for these numbers.",
                METRICS_COUNTER, "", (double)s.requests);
    metrics_add(out, "procfleet_http_refused_total",
                "Of them: another method than GET, another Host, or too many at once.",
                METRICS_COUNTER, "", (double)s.refused);
}

/* -- the pulse -- */

static void add_pulse(struct metrics *out, struct pulse *pulse)
{
    struct pulse_stats s;

    pulse_stats(pulse, &s);
    metrics_add(out, "procfleet_pulse_hosts", "Hosts whose last two hours are in memory.",
                METRICS_GAUGE, "", (double)s.hosts);
    metrics_add(out, "procfleet_pulse_bytes", "Memory of that.", METRICS_GAUGE, "",
                (double)s.bytes);
    metrics_add(out, "procfleet_pulse_refilled_total", "Hosts read back from the store.",
                METRICS_COUNTER, "", (double)s.refilled);
    metrics_add(out, "procfleet_pulse_gone_total", "Hosts that gave way to others.",
                METRICS_COUNTER, "", (double)s.gone);
}

/* -- the console -- */

static void add_console(struct metrics *out, struct console *console)
{
    static const char name[] = "procfleet_console_requests_total";
    static const char help[] =
        "Requests for the console's page or API, by path and status of HTTP.";
    struct console_stats s;
    const char *path;
    unsigned status;
    char labels[64];
    uint64_t n;
    size_t i = 0;

    for (; console_requests(console, i, &path, &status, &n); i++) {
        (void)snprintf(labels, sizeof labels, "path=\"%s\",code=\"%u\"", path, status);
        metrics_add(out, name, help, METRICS_COUNTER, labels, (double)n);
    }
    if (i == 0) {
        metrics_add(out, name, help, METRICS_COUNTER, "path=\"page\",code=\"200\"", 0);
    }
    console_stats(console, &s);
    metrics_add(out, "procfleet_console_seconds_total", "Time that its threads were at requests.",
                METRICS_COUNTER, "", seconds(s.busy_ns));
    metrics_add(out, "procfleet_console_bytes_total", "Bytes answered, as sent.", METRICS_COUNTER,
                "", (double)s.bytes);
    metrics_add(out, "procfleet_console_crowded_total",
                "Requests answered 429 because too many were under way.", METRICS_COUNTER, "",
                (double)s.crowded);
    metrics_add(out, "procfleet_console_kept_total",
                "Of the answers those that were kept from a question before.", METRICS_COUNTER, "",
                (double)s.kept);
    gauge(out, "procfleet_console_waiting", "Requests that wait for a thread.", s.waiting);
}

/* The collector's own door: who is there, and who was sent away. */
static void add_door(struct metrics *out, const struct console_door *door)
{
    static const char *const reasons[HTTP_DOOR_REFUSALS] = {
        [HTTP_DOOR_NO_SESSION] = "no_session",
        [HTTP_DOOR_OTHER_SITE] = "other_site",
        [HTTP_DOOR_WRONG_TICKET] = "wrong_ticket",
        [HTTP_DOOR_TOO_MANY] = "too_many",
    };
    static const char name[] = "procfleet_console_door_refused_total";
    static const char help[] = "Of them those that were refused, by reason.";
    struct http_door_stats s;
    char labels[64];

    if (!console_door_stats(door, &s)) {
        return;
    }
    gauge(out, "procfleet_console_door_sessions", "Sessions at listen.console, without tokens.",
          (double)s.sessions);
    gauge(out, "procfleet_console_door_streams", "Streams of updates at listen.console.",
          (double)s.streams);
    metrics_add(out, "procfleet_console_door_requests_total", "Requests at listen.console.",
                METRICS_COUNTER, "", (double)s.requests);
    metrics_add(out, "procfleet_console_door_questions_total",
                "Questions that came of them, those of streams too.", METRICS_COUNTER, "",
                (double)s.asked);
    metrics_add(out, name, help, METRICS_COUNTER, "reason=\"request\"", (double)s.refused);
    for (size_t i = 0; i < HTTP_DOOR_REFUSALS; i++) {
        (void)snprintf(labels, sizeof labels, "reason=\"%s\"", reasons[i]);
        metrics_add(out, name, help, METRICS_COUNTER, labels, (double)s.refusals[i]);
    }
}

static void add_net(struct metrics *out, const struct metrics_env *env)
{
    add_listeners(out, env);
    add_tls(out);
    if (env->trust && trust_enroll(env->trust)) {
        add_enroll(out, trust_enroll(env->trust));
    }
    if (env->http) {
        add_http(out, env->http);
    }
}

void metrics_gather(struct metrics *out, const struct metrics_env *env)
{
    out->n = 0;
    add_process(out, env->started_ns);
    if (env->store) {
        add_store(out, env);
        add_room(out, env->store);
    }
    if (env->session) {
        add_session(out, env->session);
    }
    add_feed(out, env);
    add_sink(out, env);
    add_net(out, env);
    if (env->console) {
        add_console(out, env->console);
    }
    if (env->door) {
        add_door(out, env->door);
    }
    if (env->pulse) {
        add_pulse(out, env->pulse);
    }
    if (env->rules) {
        struct rules_stats s;

        rules_live_stats(env->rules, &s);
        ADD_MEMBERS(out, &s, rules_members);
    }
}
