#include "tests/bench/fleet_tabs.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/wire/wire_web.h"

#define TIMES_MAX  4096u
#define ASK_NS     (30 * CLK_S)
#define ANSWER_MAX (8u << 20)
#define NAP_NS     (50 * CLK_MS)
#define FLEET_NS   (10 * CLK_S)
#define PULSE_NS   (30 * CLK_S)
#define HOST_NS    (2 * CLK_S)
#define CURSOR_MAX 600u

/* What a view asks; the host view of its host. */
struct tab_question {
    const char *path, *query;
    int64_t every_ns;
    bool pages; /* all of them */
};

/* Of what fills rows the view asks for those in sight, some 40: here for a hundred of thousands. */
static const struct tab_question fleet_view[] = {
    {"/api/v1/hosts", "", FLEET_NS, true},
    {"/api/v1/overview", "last=15m", FLEET_NS, false},
    {"/api/v1/coverage", "last=15m&host=gen-1%3F%3F", FLEET_NS, true},
    {"/api/v1/pulse", "host=gen-1%3F%3F", PULSE_NS, true},
};

static const struct tab_question host_view[] = {
    {"/api/v1/series", "last=15m&group_by=image&limit=12&buckets=900&metric=cpu_percent", HOST_NS,
     false},
    {"/api/v1/series", "last=15m&group_by=image&limit=12&buckets=900&metric=working_set_size",
     HOST_NS, false},
    {"/api/v1/series", "last=15m&group_by=image&limit=12&buckets=900&metric=read_bytes", HOST_NS,
     false},
    {"/api/v1/series", "last=15m&group_by=image&limit=12&buckets=900&metric=write_bytes", HOST_NS,
     false},
    {"/api/v1/lifetimes", "last=15m&max=1&buckets=900", HOST_NS, false},
    {"/api/v1/hosts", "", HOST_NS, false},
    {"/api/v1/events", "last=15m&kinds=level,source&limit=20", HOST_NS, false},
    {"/api/v1/top",
     "last=15m&group_by=image&limit=500&metric=cpu_percent,cpu_time,working_set_size", HOST_NS,
     false},
};

#define QUESTIONS_MAX (sizeof host_view / sizeof *host_view)

struct tab {
    struct fleet_tabs *all;
    const struct tab_question *asks;
    size_t n_asks;
    char host[40]; /* "host=gen-1&", "" */
    int64_t next_ns[QUESTIONS_MAX];
    struct fleet_keys keys;
    struct tls_config *tls;
    struct rpc_client *client;
    struct buf request, reply;
    struct os_thread *thread;
    uint64_t answered, failed, bytes;
};

struct fleet_tabs {
    atomic_bool stop;
    unsigned n;
    struct os_mutex *lock; /* guards what follows */
    size_t n_times;
    double ms[TIMES_MAX];
    struct tab tabs[FLEET_TABS_MAX];
};

/* -- one question -- */

/* The cursor of an answer that has more pages; false: it has none. */
static bool tab_cursor(const struct wire_web_reply *r, char cursor[CURSOR_MAX])
{
    static const char key[] = "\"cursor\":\"";
    size_t n = sizeof key - 1, len = 0;

    for (size_t i = 0; i + n < r->body.n; i++) {
        if (memcmp(r->body.p + i, key, n) == 0) {
            const char *from = r->body.p + i + n;
            size_t left = r->body.n - i - n;

            while (len < left && len < CURSOR_MAX - 1 && from[len] != '"') {
                len++;
            }
            memcpy(cursor, from, len);
            cursor[len] = '\0';
            return len > 0;
        }
    }
    return false;
}

/* *more: there is a page behind it, at `cursor`. */
static enum err tab_call(struct tab *t, const char *path, const char *query,
                         char cursor[CURSOR_MAX], bool *more)
{
    const struct wire_web_request ask = {
        .path = str_make(path), .query = str_make(query), .accept = str_make("application/json")};
    struct wire_web_reply *reply = NULL;
    struct rpc_result result;
    enum err e;

    *more = false;
    buf_reset(&t->request);
    buf_reset(&t->reply);
    e = wire_web_request_encode(&t->request, &ask);
    e = e ? e
          : rpc_client_call(t->client, RPC_QUERY_WEB, FRAME_RAW, t->request.p, t->request.n, ASK_NS,
                            &t->reply, &result);
    e = e ? e : wire_web_reply_decode(&reply, t->reply.p, t->reply.n);
    if (!e) {
        t->bytes += reply->body.n;
        *more = reply->status == 200 && tab_cursor(reply, cursor);
        e = reply->status == 200 ? ERR_OK : ERR_REFUSED;
    }
    wire_web_reply_free(reply);
    return e;
}

static void tab_time(struct fleet_tabs *all, int64_t ns)
{
    os_mutex_lock(all->lock);
    all->ms[all->n_times++ % TIMES_MAX] = (double)ns / (double)CLK_MS;
    os_mutex_unlock(all->lock);
}

static void tab_ask(struct tab *t, const struct tab_question *q)
{
    char cursor[CURSOR_MAX] = "", query[2 * CURSOR_MAX];
    bool more = true;

    for (bool first = true; more && !atomic_load(&t->all->stop); first = false) {
        int64_t start_ns = os_mono_ns();
        int n = snprintf(query, CURSOR_MAX, "%s%s", t->host, q->query);
        enum err e;

        if (!first) {
            (void)snprintf(query + n, sizeof query - (size_t)n, "%scursor=%s", n ? "&" : "",
                           cursor);
        }
        e = tab_call(t, q->path, query, cursor, &more);
        if (atomic_load(&t->all->stop)) {
            return;
        }
        t->failed += e != ERR_OK;
        t->answered += !e;
        if (e && t->failed == 1) {
            fprintf(stderr, "bench_fleet: a tab's %s?%s: %s, %.*s\n", q->path, query, err_text(e),
                    (int)(t->reply.n < 300 ? t->reply.n : 300), (const char *)t->reply.p);
        }
        tab_time(t->all, os_mono_ns() - start_ns);
        more = more && q->pages;
    }
}

static void tab_work(void *arg)
{
    struct tab *t = arg;

    while (!atomic_load(&t->all->stop)) {
        for (size_t i = 0; i < t->n_asks && !atomic_load(&t->all->stop); i++) {
            int64_t now_ns = os_mono_ns();

            if (now_ns >= t->next_ns[i]) {
                t->next_ns[i] = now_ns + t->asks[i].every_ns;
                tab_ask(t, &t->asks[i]);
            }
        }
        os_sleep_ns(NAP_NS);
    }
}

/* -- all of them -- */

static enum err tab_start(struct fleet_tabs *all, struct tab *t, unsigned i,
                          const struct fleet_tabs_conf *conf, struct errmsg *why)
{
    struct net_tls_conf tls = {.server_name = "procfleet-collector"};
    struct net_client_conf net = {.address = fleet_collector_query(conf->collector),
                                  .receive_max = ANSWER_MAX};
    enum err e = fleet_pki_tab(&t->keys, conf->keys_dir, i, why);

    t->all = all;
    t->asks = i % 2 ? host_view : fleet_view;
    t->n_asks =
        i % 2 ? sizeof host_view / sizeof *host_view : sizeof fleet_view / sizeof *fleet_view;
    if (i % 2) {
        (void)snprintf(t->host, sizeof t->host, "host=gen-%u&", 1 + i * 7919 % conf->hosts);
    }
    buf_init(&t->request, 64u << 10);
    buf_init(&t->reply, ANSWER_MAX);
    tls.ca = t->keys.ca;
    tls.cert = t->keys.cert;
    tls.key = t->keys.key;
    e = e ? e : tls_config_load(&t->tls, &tls, false, why);
    net.tls = t->tls;
    e = e ? e : rpc_client_open(&t->client, &net, "bench_fleet", why);
    return e ? e : os_thread_start(&t->thread, "tab", tab_work, t);
}

enum err fleet_tabs_start(struct fleet_tabs **out, const struct fleet_tabs_conf *conf,
                          struct errmsg *why)
{
    struct fleet_tabs *all = mem_zalloc(sizeof *all);
    enum err e = all ? os_mutex_create(&all->lock) : ERR_NOMEM;

    for (unsigned i = 0; !e && i < conf->tabs && i < FLEET_TABS_MAX; i++) {
        all->n++;
        e = tab_start(all, &all->tabs[i], i, conf, why);
    }
    if (e) {
        fleet_tabs_stop(all, NULL);
        return e;
    }
    *out = all;
    return ERR_OK;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return a < b ? -1 : a > b;
}

void fleet_tabs_stop(struct fleet_tabs *all, struct fleet_tabs_sum *out)
{
    struct fleet_tabs_sum sum = {.answered = 0};
    size_t n;

    if (!all) {
        return;
    }
    atomic_store(&all->stop, true);
    for (unsigned i = 0; i < all->n; i++) {
        struct tab *t = &all->tabs[i];

        if (t->client) {
            rpc_client_hang_up(t->client);
        }
        os_thread_join(t->thread);
        rpc_client_close(t->client);
        tls_config_free(t->tls);
        buf_fini(&t->request);
        buf_fini(&t->reply);
        sum.answered += t->answered;
        sum.failed += t->failed;
        sum.bytes += t->bytes;
    }
    n = all->n_times < TIMES_MAX ? all->n_times : TIMES_MAX;
    qsort(all->ms, n, sizeof all->ms[0], by_value);
    sum.p50_ms = n ? all->ms[n / 2] : 0;
    sum.p99_ms = n ? all->ms[n * 99 / 100] : 0;
    if (out) {
        *out = sum;
    }
    os_mutex_destroy(all->lock);
    mem_free(all);
}
