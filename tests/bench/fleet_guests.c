#include "tests/bench/fleet_guests.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/model/metric.h"
#include "common/os/os.h"
#include "tests/support/support.h"

#define ASKED_MAX  4096u /* answers of a kind whose times are kept */
#define ASK_NS     (30 * CLK_S)
#define SETTLE_NS  (2 * CLK_S) /* for a subscriber to connect before it is stopped for good */
#define SPAN_NS    (60 * CLK_S)
#define ANSWER_MAX (8u << 20)
#define NAP_NS     (100 * CLK_MS)

extern char **environ;

enum { TAIL_WELL, TAIL_SLOW, TAIL_DEAD, TAIL_DURABLE, TAILS };

struct fleet_guests {
    struct fleet_guests_conf conf;
    struct tls_config *tls;
    struct rpc_client *client;
    struct buf request, reply;
    struct os_thread *thread;
    atomic_bool stop;
    unsigned asked[FLEET_QUESTIONS], failed[FLEET_QUESTIONS];
    double ms[FLEET_QUESTIONS][ASKED_MAX];
    pid_t tails[TAILS]; /* 0 = not running */
};

/* -- questions -- */

static struct wire_query question(const struct fleet_guests *g, enum fleet_question kind,
                                  unsigned round, char *host, size_t size)
{
    struct wire_query q = {.last_ns = SPAN_NS, .limit = 10};

    if (kind == FLEET_HOSTS) {
        q = (struct wire_query){.limit = 1000};
    } else if (kind == FLEET_HISTORY) {
        (void)snprintf(host, size, "gen-%u", 1 + round * 7919 % g->conf.hosts);
        q.host = str_make(host);
        q.limit = 1000;
    }
    if (kind != FLEET_HOSTS) {
        q.n_metrics = 1;
        q.metrics[0] = M_CPU_TIME;
    }
    return q;
}

static void ask(struct fleet_guests *g, enum fleet_question kind, unsigned round)
{
    static const char *const methods[FLEET_QUESTIONS] = {RPC_QUERY_TOP, RPC_QUERY_HOSTS,
                                                         RPC_QUERY_HISTORY};
    char host[32];
    struct wire_query q = question(g, kind, round, host, sizeof host);
    struct rpc_result result;
    int64_t start_ns;
    enum err e;

    buf_reset(&g->request);
    buf_reset(&g->reply);
    e = wire_query_encode(&g->request, &q);
    start_ns = os_mono_ns();
    if (!e) {
        e = rpc_client_call(g->client, methods[kind], FRAME_RAW, g->request.p, g->request.n, ASK_NS,
                            &g->reply, &result);
    }
    if (atomic_load(&g->stop)) {
        return;
    }
    g->failed[kind] += e != ERR_OK;
    if (!e && g->asked[kind] < ASKED_MAX) {
        g->ms[kind][g->asked[kind]++] = (double)(os_mono_ns() - start_ns) / (double)CLK_MS;
    }
}

/* Every other second the slow one does nothing. */
static void nudge(struct fleet_guests *g, int64_t now_ns)
{
    if (g->tails[TAIL_SLOW]) {
        (void)kill(g->tails[TAIL_SLOW], now_ns / CLK_S % 2 ? SIGSTOP : SIGCONT);
    }
}

static void work(void *arg)
{
    struct fleet_guests *g = arg;
    int64_t start_ns = os_mono_ns(), next_ns = start_ns;
    unsigned round = 0;
    bool dead = false;

    while (!atomic_load(&g->stop)) {
        int64_t now_ns = os_mono_ns();

        nudge(g, now_ns);
        if (!dead && now_ns - start_ns > SETTLE_NS && g->tails[TAIL_DEAD]) {
            dead = kill(g->tails[TAIL_DEAD], SIGSTOP) == 0;
        }
        if (now_ns < next_ns) {
            os_sleep_ns(NAP_NS);
            continue;
        }
        for (int kind = 0; kind < FLEET_QUESTIONS && !atomic_load(&g->stop); kind++) {
            ask(g, (enum fleet_question)kind, round);
        }
        round++;
        next_ns = now_ns + g->conf.every_ns;
    }
}

static enum err open_client(struct fleet_guests *g, struct errmsg *why)
{
    const struct fleet_keys *keys = g->conf.operator_keys;
    struct net_tls_conf tls = {
        .ca = keys->ca, .cert = keys->cert, .key = keys->key, .server_name = "procfleet-collector"};
    struct net_client_conf net = {.address = fleet_collector_query(g->conf.collector),
                                  .receive_max = 4u << 20};
    enum err e = tls_config_load(&g->tls, &tls, false, why);

    if (e) {
        return e;
    }
    net.tls = g->tls;
    return rpc_client_open(&g->client, &net, "bench_fleet", why);
}

/* -- subscribers -- */

static char *word(const char *text)
{
    return (char *)(uintptr_t)text;
}

static enum err spawn_tail(struct fleet_guests *g, int which)
{
    const struct fleet_keys *keys = g->conf.subscriber_keys;
    bool durable = which == TAIL_DURABLE;
    char *argv[] = {word(g->conf.tail),
                    word("tail"),
                    word("--collector"),
                    word(fleet_collector_query(g->conf.collector)),
                    word("--ca"),
                    word(keys->ca),
                    word("--cert"),
                    word(keys->cert),
                    word("--key"),
                    word(keys->key),
                    word("--format"),
                    word("csv"),
                    word(durable ? "--durable" : "--events"),
                    word(durable ? "bench" : fleet_collector_events(g->conf.collector)),
                    durable ? NULL : word("--samples"),
                    NULL};
    char log[FLEET_PATH_MAX + 32];
    posix_spawn_file_actions_t files;
    int r;

    (void)snprintf(log, sizeof log, "%s-%d.log", g->conf.prefix, which);
    if (posix_spawn_file_actions_init(&files) != 0) {
        return ERR_NOMEM;
    }
    r = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0) |
        posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0) |
        posix_spawn_file_actions_addopen(&files, 2, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (r == 0) {
        r = posix_spawn(&g->tails[which], g->conf.tail, &files, NULL, argv, environ);
    }
    posix_spawn_file_actions_destroy(&files);
    g->tails[which] = r == 0 ? g->tails[which] : 0;
    return r == 0 ? ERR_OK : ERR_IO;
}

enum err fleet_guests_start(struct fleet_guests **out, const struct fleet_guests_conf *conf,
                            struct errmsg *why)
{
    struct fleet_guests *g = mem_zalloc(sizeof *g);
    enum err e = g ? ERR_OK : ERR_NOMEM;

    if (e) {
        return e;
    }
    g->conf = *conf;
    buf_init(&g->request, 64u << 10);
    buf_init(&g->reply, ANSWER_MAX);
    e = open_client(g, why);
    for (int i = 0; i < TAILS && !e; i++) {
        e = spawn_tail(g, i);
        if (e) {
            err_ignore(errmsg_set(why, e, "cannot start %s", conf->tail));
        }
    }
    if (!e) {
        e = os_thread_start(&g->thread, "guests", work, g);
    }
    if (e) {
        fleet_guests_stop(g, NULL);
        return e;
    }
    *out = g;
    return ERR_OK;
}

/* -- the end -- */

static unsigned end_tails(struct fleet_guests *g)
{
    unsigned listening = 0;

    for (int i = 0; i < TAILS; i++) {
        if (g->tails[i]) {
            listening += waitpid(g->tails[i], NULL, WNOHANG) == 0;
            (void)kill(g->tails[i], SIGKILL);
            (void)waitpid(g->tails[i], NULL, 0);
        }
    }
    return listening;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return a < b ? -1 : a > b;
}

static void sum_up(struct fleet_guests *g, struct fleet_guests_sum *out)
{
    for (int k = 0; k < FLEET_QUESTIONS; k++) {
        unsigned n = g->asked[k];

        qsort(g->ms[k], n, sizeof g->ms[k][0], by_value);
        out->asked[k].answered = n;
        out->asked[k].failed = g->failed[k];
        out->asked[k].p50_ms = n ? g->ms[k][n / 2] : 0;
        out->asked[k].p99_ms = n ? g->ms[k][n * 99 / 100] : 0;
    }
}

void fleet_guests_stop(struct fleet_guests *g, struct fleet_guests_sum *out)
{
    unsigned listening;

    if (!g) {
        return;
    }
    atomic_store(&g->stop, true);
    if (g->client) {
        rpc_client_hang_up(g->client);
    }
    os_thread_join(g->thread);
    listening = end_tails(g);
    if (out) {
        sum_up(g, out);
        out->listening = listening;
    }
    rpc_client_close(g->client);
    tls_config_free(g->tls);
    buf_fini(&g->request);
    buf_fini(&g->reply);
    mem_free(g);
}
