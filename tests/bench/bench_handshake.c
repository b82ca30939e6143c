/* What a connection costs when it begins, with a full handshake and with a ticket: CPU of both
 * sides together, since both are in this process, and of the call that follows. The same client
 * loses its connection again and again and comes back. The difference is the full handshake, but
 * for the 2 % of it that a resumed one costs; its goal is the design's figure for both sides. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clk.h"
#include "common/log/log.h"
#include "common/net/net.h"
#include "common/net/net_engine.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/support/certs.h"
#include "tests/support/support.h"

#define LONG_NS (30 * CLK_S)

struct rig {
    struct net_server *server;
    atomic_uint last, cut; /* connections: of the last request, and to be closed */
};

static void echo(void *ctx, struct net_request *r)
{
    size_t n;
    const uint8_t *p = net_server_body(r, &n);

    atomic_store(&((struct rig *)ctx)->last, net_server_peer(r)->connection);
    net_server_reply(r, p, n);
}

static const char *judge(void *ctx, const struct net_identity *who)
{
    return who->connection != 0 && who->connection == atomic_load(&((struct rig *)ctx)->cut)
               ? "its turn is over"
               : NULL;
}

/* Until another connection than the one that was cut has answered. */
static void call(struct rig *g, struct net_client *c)
{
    struct buf reply;
    enum err e;

    buf_init(&reply, 64);
    do {
        e = net_client_call(c, "x", 1, LONG_NS, &reply);
        buf_reset(&reply);
    } while (e == ERR_UNREACHABLE || (!e && atomic_load(&g->last) == atomic_load(&g->cut)));
    bench_check(e, "call");
    buf_fini(&reply);
}

/* CPU ms of one connection, of `n`. */
static double connect_again(struct rig *g, struct net_client *c, unsigned n)
{
    int64_t begun_ns;

    call(g, c);
    begun_ns = os_cpu_ns();
    for (unsigned i = 0; i < n; i++) {
        atomic_store(&g->cut, atomic_load(&g->last));
        net_server_review(g->server);
        call(g, c);
    }
    return (double)(os_cpu_ns() - begun_ns) / 1e6 / n;
}

static double measure(struct certs *pki, const char *tickets, unsigned n)
{
    char address[32], ca[400], cert[400], key[400];
    struct net_tls_conf files = {.ca = ca, .cert = cert, .key = key, .tickets = tickets};
    struct tls_config *agent = certs_load(pki, "agent", pki, false), *collector;
    struct rig g = {.server = NULL};
    struct net_server_conf server = {.name = "bench",
                                     .address = "127.0.0.1:0",
                                     .roles = NET_AGENT,
                                     .receive_max = 64,
                                     .contexts = 4,
                                     .judge = judge,
                                     .judge_ctx = &g,
                                     .on_request = echo,
                                     .ctx = &g};
    struct net_client_conf client = {.address = address,
                                     .tls = agent,
                                     .receive_max = 64,
                                     .reconnect_min_ns = CLK_MS,
                                     .reconnect_max_ns = CLK_MS};
    struct net_client *c;
    double ms;

    snprintf(ca, sizeof ca, "%s", certs_path(pki, "ca", ".pem"));
    snprintf(cert, sizeof cert, "%s", certs_path(pki, "collector", ".pem"));
    snprintf(key, sizeof key, "%s", certs_path(pki, "collector", ".key"));
    bench_check(tls_config_load(&collector, &files, true, NULL), "net_tls_load");
    server.tls = collector;
    bench_check(net_server_start(&g.server, &server, NULL), "net_server_start");
    snprintf(address, sizeof address, "127.0.0.1:%u", net_server_port(g.server));
    bench_check(net_client_open(&c, &client, NULL), "net_client_open");
    ms = connect_again(&g, c, n);
    net_client_close(c);
    net_server_stop(g.server);
    tls_config_free(collector);
    tls_config_free(agent);
    return ms;
}

int main(int argc, char **argv)
{
    char dir[256], tickets[300];
    struct net_engine_stats before, after;
    struct certs *pki;
    unsigned n;
    double full, resumed;

    bench_begin(argc, argv, "handshake", "What a connection costs, CPU of both sides together");
    n = bench_quick() ? 50 : 1000;
    bench_check(log_open(LOG_ERROR, LOG_TEXT, NULL), "log_open");
    bench_check(net_init(NULL), "net_init");
    support_temp_dir(dir, sizeof dir);
    snprintf(tickets, sizeof tickets, "%s/tickets", dir);
    pki = certs_create();
    certs_issue(pki, PKI_COLLECTOR, "collector");
    certs_issue(pki, PKI_AGENT, "agent");
    full = measure(pki, NULL, n);
    net_engine_stats(&before);
    resumed = measure(pki, tickets, n);
    net_engine_stats(&after);
    bench_check(after.resumed - before.resumed < 2 * (uint64_t)n ? ERR_INVALID : ERR_OK,
                "tickets not used");
    bench_figure("connection, full handshake", full, "ms", 0, BENCH_LESS);
    bench_figure("connection, with a ticket", resumed, "ms", 0, BENCH_LESS);
    bench_figure("what the ticket saves: the handshake", full - resumed, "ms", 4.2, BENCH_LESS);
    certs_destroy(pki);
    support_remove_dir(dir);
    net_fini();
    log_close();
    return bench_end();
}
