/* Figures of the listeners, side by side by their name. */
#include "collector/metrics/metrics.h"

#include <stdio.h>

#include "collector/ca/trust.h"
#include "common/http/net_http.h"
#include "common/net/net_engine.h"
#include "common/rpc/rpc.h"

#define LISTENERS 4u

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

static void add_refusals(struct figures *out, const struct listener *l)
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

static void add_listeners(struct figures *out, const struct metrics_env *env)
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

static void add_tls(struct figures *out)
{
    static const char name[] = "procfleet_tls_handshakes_total";
    static const char help[] = "TLS handshakes; resumed ones took a ticket.";
    struct net_engine_stats s;

    net_engine_stats(&s);
    metrics_add(out, name, help, METRICS_COUNTER, "result=\"full\"", (double)s.full);
    metrics_add(out, name, help, METRICS_COUNTER, "result=\"resumed\"", (double)s.resumed);
    metrics_add(out, name, help, METRICS_COUNTER, "result=\"failed\"", (double)s.failed);
}

static void add_enroll(struct figures *out, struct enroll_service *enroll)
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

static void add_http(struct figures *out, struct net_http *http)
{
    struct net_http_stats s;

    net_http_stats(http, &s);
    metrics_add(out, "procfleet_http_requests_total", "Requests for these numbers.",
                METRICS_COUNTER, "", (double)s.requests);
    metrics_add(out, "procfleet_http_refused_total",
                "Of them: another method than GET, another Host, or too many at once.",
                METRICS_COUNTER, "", (double)s.refused);
}

void metrics_net(struct figures *out, const struct metrics_env *env)
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
