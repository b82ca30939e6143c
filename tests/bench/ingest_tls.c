#include "tests/bench/ingest_tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collector/ingest/session.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/wire/wire_rpc.h"
#include "tests/bench/load.h"
#include "tests/support/certs.h"
#include "tests/support/support.h"

#define HOSTS_MAX 64
#define LONG_NS   (60 * CLK_S)

/* Between the two processes, one byte or number at a time. */
struct wires {
    int to_agents[2], to_server[2];
};

static void tell(int fd, unsigned what)
{
    if (write(fd, &what, sizeof what) != sizeof what) {
        exit(1);
    }
}

static unsigned hear(int fd)
{
    unsigned what;

    if (read(fd, &what, sizeof what) != sizeof what) {
        fprintf(stderr, "ingest: the other process ended\n");
        exit(1);
    }
    return what;
}

/* -- agents: one connection and one thread a host -- */

struct agent {
    const struct load *load;
    unsigned host;
    struct rpc_client *client;
    struct os_thread *thread;
    int64_t *took_ns; /* of its batches, in order */
    size_t n;
};

static void hello(struct agent *a)
{
    const struct load_batch *mine = &a->load->batch[a->host];
    struct wire_hello h = {.host = mine->host_id, .version = "bench", .wall_ns = os_utc_ns()};
    struct buf request, reply;

    snprintf(h.name, sizeof h.name, "%s", mine->host_name);
    buf_init(&request, 4096);
    buf_init(&reply, 4096);
    load_check(wire_rpc_hello_encode(&request, &h), "hello");
    load_check(rpc_client_call(a->client, RPC_INGEST_HELLO, FRAME_RAW, request.p, request.n,
                               LONG_NS, &reply, NULL),
               "hello");
    buf_fini(&request);
    buf_fini(&reply);
}

static void push_all(void *arg)
{
    struct agent *a = arg;
    struct buf reply;

    buf_init(&reply, 4096);
    for (size_t i = 0; i < a->load->n; i++) {
        const struct load_batch *b = &a->load->batch[i];
        struct rpc_result result = {.code = RPC_OK};
        int64_t start = os_mono_ns();
        enum err e = ERR_OK;

        if (b->host != a->host) {
            continue;
        }
        do {
            os_sleep_ns((int64_t)result.retry_after_ms * CLK_MS);
            buf_reset(&reply);
            e = rpc_client_call(a->client, RPC_INGEST_PUSH, FRAME_ZSTD, b->p, b->n, LONG_NS, &reply,
                                &result);
        } while (e == ERR_REFUSED && result.code == RPC_RESOURCE_EXHAUSTED);
        if (e) {
            fprintf(stderr, "ingest: push: %s: %s\n", err_text(e), result.message);
            exit(1);
        }
        a->took_ns[a->n++] = os_mono_ns() - start;
    }
    buf_fini(&reply);
}

static int by_time(const void *x, const void *y)
{
    const int64_t *a = x, *b = y;

    return *a < *b ? -1 : *a > *b;
}

/* Tells the quantiles of all agents in microseconds. */
static void tell_times(int fd, struct agent *agents, unsigned hosts, size_t total)
{
    int64_t *all = mem_array(total, sizeof *all);
    size_t n = 0;

    load_check(all ? ERR_OK : ERR_NOMEM, "times");
    for (unsigned h = 0; h < hosts; h++) {
        memcpy(all + n, agents[h].took_ns, agents[h].n * sizeof *all);
        n += agents[h].n;
    }
    qsort(all, n, sizeof *all, by_time);
    tell(fd, (unsigned)(all[n / 2] / 1000));
    tell(fd, (unsigned)(all[n * 99 / 100] / 1000));
    mem_free(all);
}

static void agents_main(const struct load *l, unsigned hosts, struct certs *pki, struct wires *w)
{
    static struct agent agents[HOSTS_MAX];
    struct net_client_conf conf = {.receive_max = 1 << 20};
    char address[32];

    snprintf(address, sizeof address, "127.0.0.1:%u", hear(w->to_agents[0]));
    conf.address = address;
    load_check(net_init(NULL), "net");
    for (unsigned h = 0; h < hosts; h++) {
        struct agent *a = &agents[h];

        *a = (struct agent){.load = l, .host = h, .took_ns = mem_array(l->n, sizeof(int64_t))};
        conf.tls = certs_load(pki, l->batch[h].host_name, pki, false);
        load_check(rpc_client_open(&a->client, &conf, "bench/1", NULL), "dial");
        hello(a);
    }
    tell(w->to_server[1], 1); /* everybody is connected */
    (void)hear(w->to_agents[0]);
    for (unsigned h = 0; h < hosts; h++) {
        load_check(os_thread_start(&agents[h].thread, "agent", push_all, &agents[h]), "thread");
    }
    for (unsigned h = 0; h < hosts; h++) {
        os_thread_join(agents[h].thread);
    }
    tell(w->to_server[1], 2); /* everything is acknowledged */
    tell_times(w->to_server[1], agents, hosts, l->n);
    _exit(0);
}

/* -- the server, as collector.c builds it -- */

struct server {
    char dir[256];
    struct tls_config *tls;
    struct store *store;
    struct session *session;
    struct rpc_server *rpc;
};

/* Ingest alone: no window ever ends. */
static int64_t no_time(void)
{
    return 0;
}

static void server_start(struct server *s, struct certs *pki)
{
    struct store_conf store = {.dir = support_temp_dir(s->dir, sizeof s->dir),
                               .fio = fio_os(),
                               .head_bytes_max = (uint64_t)4 << 30,
                               .now_ns = no_time,
                               .accept_age_ns = 48 * 3600 * CLK_S,
                               .hosts_max = 10000,
                               .instances_max = 8192,
                               .commit_gather_ns = 20 * CLK_MS,
                               .commit_bytes = 1u << 20};
    struct session_conf session = {.hosts_max = 10000,
                                   .max_message = 1u << 20,
                                   .max_in_flight = 4,
                                   .future_max_ns = 300 * CLK_S};
    struct rpc_method methods[SESSION_METHODS];
    struct rpc_server_conf rpc = {.net = {.name = "ingest",
                                          .address = "127.0.0.1:0",
                                          .roles = NET_AGENT,
                                          .receive_max = 1u << 20,
                                          .contexts = 64,
                                          .per_peer = 4},
                                  .methods = methods,
                                  .n_methods = SESSION_METHODS,
                                  .workers = 2,
                                  .queue = 256,
                                  .raw_max = 1u << 20,
                                  .default_timeout_ns = LONG_NS};

    load_check(net_init(NULL), "net");
    s->tls = certs_load(pki, "collector", pki, true);
    load_check(store_open(&s->store, &store, NULL), "store");
    session.store = s->store;
    load_check(session_create(&s->session, &session), "session");
    session_methods(s->session, methods);
    rpc.net.tls = s->tls;
    load_check(rpc_server_start(&s->rpc, &rpc, NULL), "listen");
}

static void server_stop(struct server *s)
{
    rpc_server_stop(s->rpc);
    session_destroy(s->session);
    store_close(s->store);
    tls_config_free(s->tls);
    support_remove_dir(s->dir);
}

static struct ingest_tls measure(struct server *s, const struct load *l, struct wires *w)
{
    struct ingest_tls r;
    struct store_stats stats;
    int64_t cpu, wall;

    (void)hear(w->to_server[0]);
    cpu = os_cpu_ns();
    wall = os_mono_ns();
    tell(w->to_agents[1], 1);
    (void)hear(w->to_server[0]);
    cpu = os_cpu_ns() - cpu;
    wall = os_mono_ns() - wall;
    store_stats(s->store, &stats);
    r.values_per_cpu_second = (double)l->values / ((double)cpu / CLK_S) / 1e6;
    r.batches_per_second = (double)l->n / ((double)wall / CLK_S);
    r.ack_p50_ms = (double)hear(w->to_server[0]) / 1000;
    r.ack_p99_ms = (double)hear(w->to_server[0]) / 1000;
    r.batches_per_commit = (double)stats.batches / (double)stats.commits;
    r.resident_mib = (double)os_resident_bytes() / (1 << 20);
    return r;
}

static void issue(struct certs *pki, const struct load *l, unsigned hosts)
{
    certs_issue(pki, PKI_COLLECTOR, "collector");
    for (unsigned h = 0; h < hosts; h++) {
        struct pki_issue what = {.use = PKI_AGENT,
                                 .name = l->batch[h].host_name,
                                 .has_host = true,
                                 .host = l->batch[h].host_id};

        certs_issue_as(pki, &what);
    }
}

/* A server process and its agents, from keys to the last acknowledgement. */
static struct ingest_tls serve(unsigned hosts, unsigned per_host, size_t ticks)
{
    struct load l = load_make(hosts, per_host, ticks, os_utc_ns() - 3600 * CLK_S);
    struct certs *pki = certs_create();
    struct server s = {0};
    struct ingest_tls r;
    struct wires w;
    pid_t agents;

    issue(pki, &l, hosts);
    load_check(pipe(w.to_agents) || pipe(w.to_server) ? ERR_IO : ERR_OK, "pipe");
    agents = fork(); /* before anything of the network exists */
    if (agents == 0) {
        close(w.to_agents[1]);
        close(w.to_server[0]);
        agents_main(&l, hosts, pki, &w);
    }
    close(w.to_agents[0]);
    close(w.to_server[1]);
    server_start(&s, pki);
    tell(w.to_agents[1], rpc_server_port(s.rpc));
    r = measure(&s, &l, &w);
    waitpid(agents, NULL, 0);
    server_stop(&s);
    certs_destroy(pki);
    load_free(&l);
    return r;
}

/* The same in a process of its own: NNG does not survive a fork, and memory starts from nothing. */
struct ingest_tls ingest_tls_run(unsigned hosts, unsigned per_host, size_t ticks)
{
    struct ingest_tls r;
    int back[2];
    pid_t server;

    load_check(pipe(back) ? ERR_IO : ERR_OK, "pipe");
    fflush(NULL);
    server = fork();
    if (server == 0) {
        r = serve(hosts, per_host, ticks);
        _exit(write(back[1], &r, sizeof r) == sizeof r ? 0 : 1);
    }
    close(back[1]);
    load_check(read(back[0], &r, sizeof r) == sizeof r ? ERR_OK : ERR_IO, "server");
    close(back[0]);
    waitpid(server, NULL, 0);
    return r;
}
