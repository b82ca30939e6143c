#include "collector/metrics/http.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "collector/metrics/om.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/deadline.h"
#include "common/os/os.h"

#define STOPPING "the collector is stopping\n"
#define ROUND_NS CLK_S
#define STUCK_NS (60 * CLK_S) /* longer than a build may take */
#define BUILD_NS (20 * CLK_S)

struct http {
    struct http_conf conf;
    struct http_server *net;
    struct os_thread *thread;
    atomic_llong round_ns; /* when the thread came round last, monotonic */
    atomic_llong stuck_ns; /* what it was told then */
    struct os_mutex *lock; /* guards what follows */
    struct os_cond *wake;
    bool stop;
    struct deadline deadline; /* of the text that is made; set under the lock */
    size_t n_waiting;
    struct http_server_call *waiting[HTTP_SERVER_CALLS];
    /* the thread's own */
    struct metrics *metrics;
    struct buf text;
    int64_t built_ns; /* monotonic; 0: never */
};

/* -- on the server's thread -- */

static void answer_health(const struct http *h, struct http_server_call *call)
{
    int64_t age_ns = os_mono_ns() - atomic_load(&h->round_ns);
    int64_t stuck_ns = atomic_load(&h->stuck_ns);
    char text[80];

    stuck_ns = age_ns > stuck_ns ? age_ns : stuck_ns;
    if (stuck_ns > STUCK_NS) {
        (void)snprintf(text, sizeof text, "a thread has stood still for %" PRId64 " s\n",
                       (int64_t)(stuck_ns / CLK_S));
        http_server_answer_text(call, 503, text);
    } else {
        http_server_answer_text(call, 200, "ok\n");
    }
}

static void http_queue(struct http *h, struct http_server_call *call)
{
    bool stop;

    os_mutex_lock(h->lock);
    stop = h->stop || h->n_waiting == HTTP_SERVER_CALLS;
    if (!stop) {
        assert(h->n_waiting < HTTP_SERVER_CALLS);
        h->waiting[h->n_waiting++] = call;
        os_cond_wake(h->wake);
    }
    os_mutex_unlock(h->lock);
    if (stop) {
        http_server_answer_text(call, 503, STOPPING);
    }
}

static void http_on_health(void *ctx, struct http_server_call *call)
{
    answer_health(ctx, call);
}

static void http_on_queued(void *ctx, struct http_server_call *call)
{
    http_queue(ctx, call);
}

static void http_on_other(void *ctx, struct http_server_call *call)
{
    (void)ctx;
    http_server_answer_text(call, 404, "there is /metrics, /healthz and /readyz\n");
}

static const struct http_server_route http_routes[] = {
    {"GET", "/healthz", 0, http_on_health},
    {"GET", "/metrics", 0, http_on_queued},
    {"GET", "/readyz", 0, http_on_queued},
    {"GET", "/", 0, http_on_other},
};

/* -- on our thread -- */

/* false: we stop. */
static bool http_build_begin(struct http *h)
{
    bool stop;

    os_mutex_lock(h->lock);
    stop = h->stop;
    if (!stop) {
        deadline_set(&h->deadline, os_mono_ns() + BUILD_NS);
    }
    os_mutex_unlock(h->lock);
    return !stop;
}

static bool http_is_stopping(struct http *h)
{
    bool stop;

    os_mutex_lock(h->lock);
    stop = h->stop;
    os_mutex_unlock(h->lock);
    return stop;
}

/* What cannot be asked is left out: the collector's own metrics say why. ERR_CLOSED: we stop. */
static enum err http_build(struct http *h)
{
    int64_t begin_ns = os_mono_ns();
    struct errmsg why = {""};
    char quoted[600];
    enum err e;

    buf_reset(&h->text);
    h->conf.metrics(h->conf.ctx, h->metrics);
    om_metrics(&h->text, h->metrics);
    e = fleet_write(&h->text, &h->conf.fleet, os_utc_ns(), &h->deadline, &why);
    if (e == ERR_TIMEOUT && http_is_stopping(h)) {
        return ERR_CLOSED; /* nothing was slow */
    }
    if (e) {
        log_line(LOG_WARN, "http", "fleet_failed", "reason=%s",
                 log_str(quoted, sizeof quoted, why.text[0] ? why.text : err_text(e)));
    }
    om_family(&h->text, "procfleet_metrics_complete", METRICS_GAUGE,
              "0: numbers of hosts and programs are missing, the log says why.");
    om_sample(&h->text, "procfleet_metrics_complete", "", e == ERR_OK);
    om_family(&h->text, "procfleet_metrics_build_seconds", METRICS_GAUGE,
              "What it took to make this text.");
    om_sample(&h->text, "procfleet_metrics_build_seconds", "",
              (double)(os_mono_ns() - begin_ns) / (double)CLK_S);
    om_end(&h->text);
    h->built_ns = h->text.bad ? 0 : os_mono_ns();
    return h->text.bad;
}

static void answer_metrics(struct http *h, struct http_server_call *call)
{
    enum err e = ERR_OK;

    if (h->built_ns == 0 || os_mono_ns() - h->built_ns >= h->conf.refresh_ns) {
        e = http_build_begin(h) ? http_build(h) : ERR_CLOSED;
    }
    if (e == ERR_CLOSED) {
        http_server_answer_text(call, 503, STOPPING);
    } else if (e) {
        http_server_answer_text(call, 503, "out of memory\n");
    } else {
        const struct http_server_reply reply = {
            .status = 200, .type = OM_TYPE, .text = {(const char *)h->text.p, h->text.n}};

        http_server_answer(call, &reply);
    }
}

static void answer_ready(struct http *h, struct http_server_call *call)
{
    struct errmsg why = {""};
    char text[600];

    if (h->conf.ready(h->conf.ctx, &why)) {
        (void)snprintf(text, sizeof text, "ok%s%s\n", why.text[0] ? "; " : "", why.text);
        http_server_answer_text(call, 200, text);
    } else {
        (void)snprintf(text, sizeof text, "%s\n", why.text);
        http_server_answer_text(call, 503, text);
    }
}

static void http_answer(struct http *h, struct http_server_call *call)
{
    if (strcmp(http_server_path(call), "/metrics") == 0) {
        answer_metrics(h, call);
    } else {
        answer_ready(h, call);
    }
}

/* The oldest that waits, or NULL when the round is over. */
static struct http_server_call *http_next(struct http *h, int64_t until_ns, bool *stop)
{
    struct http_server_call *call = NULL;

    os_mutex_lock(h->lock);
    while (!h->stop && h->n_waiting == 0 && os_cond_wait_until(h->wake, until_ns) != ERR_TIMEOUT) {
    }
    if (h->n_waiting > 0) {
        call = h->waiting[0];
        h->n_waiting--;
        memmove(&h->waiting[0], &h->waiting[1], h->n_waiting * sizeof(struct http_server_call *));
    }
    *stop = h->stop && !call;
    os_mutex_unlock(h->lock);
    return call;
}

static void http_work(void *arg)
{
    struct http *h = arg;
    struct errmsg why;
    bool stop = false;

    if (os_thread_background()) {
        log_line(LOG_WARN, "http", "priority_refused", "thread=http");
    }
    while (!stop) {
        struct http_server_call *call = http_next(h, os_mono_ns() + ROUND_NS, &stop);

        if (call) {
            http_answer(h, call);
        } else {
            (void)h->conf.ready(h->conf.ctx, &why); /* for the locks it takes */
        }
        atomic_store(&h->stuck_ns, h->conf.stuck_ns(h->conf.ctx));
        atomic_store(&h->round_ns, os_mono_ns());
    }
}

/* -- start and stop -- */

static enum err http_open(struct http *h, struct errmsg *why)
{
    const struct http_server_conf net = {.address = h->conf.address,
                                         .names = h->conf.names,
                                         .n_names = h->conf.n_names,
                                         .routes = http_routes,
                                         .n_routes = sizeof http_routes / sizeof *http_routes,
                                         .ctx = h};
    enum err e;

    h->metrics = mem_zalloc(sizeof *h->metrics);
    e = h->metrics ? os_mutex_create(&h->lock) : ERR_NOMEM;
    if (!e) {
        e = os_cond_create(&h->wake, h->lock);
    }
    if (!e) {
        e = os_thread_start(&h->thread, "http", http_work, h);
    }
    return e ? e : http_server_start(&h->net, &net, why);
}

enum err http_start(struct http **out, const struct http_conf *conf, struct errmsg *why)
{
    struct http *h = mem_zalloc(sizeof *h);
    enum err e;

    if (!h) {
        return ERR_NOMEM;
    }
    h->conf = *conf;
    atomic_init(&h->round_ns, os_mono_ns());
    atomic_init(&h->stuck_ns, 0);
    buf_init(&h->text, HTTP_TEXT_MAX);
    e = http_open(h, why);
    if (e) {
        http_stop(h);
        return e;
    }
    *out = h;
    return ERR_OK;
}

void http_stop(struct http *h)
{
    if (!h) {
        return;
    }
    if (h->thread) {
        os_mutex_lock(h->lock);
        h->stop = true;
        deadline_end(&h->deadline);
        os_cond_wake(h->wake);
        os_mutex_unlock(h->lock);
        os_thread_join(h->thread); /* it answers what waits */
    }
    http_server_stop(h->net);
    os_cond_destroy(h->wake);
    os_mutex_destroy(h->lock);
    buf_fini(&h->text);
    mem_free(h->metrics);
    mem_free(h);
}

int64_t http_stuck_ns(const struct http *h, int64_t now_ns)
{
    return now_ns - atomic_load(&h->round_ns);
}

unsigned http_port(const struct http *h)
{
    return http_server_port(h->net);
}

struct http_server *http_listener(struct http *h)
{
    return h->net;
}
