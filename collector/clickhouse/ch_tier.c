#include "collector/clickhouse/ch_tier.h"

#include <inttypes.h>
#include <string.h>

#include "collector/clickhouse/ch_fold.h"
#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"

#define SETTLE_NS (900 * CLK_S) /* after its end an hour is made, by the one whose turn it is, */
#define OTHERS_NS (600 * CLK_S) /* and so much later by any */
#define ROUND_NS  (120 * CLK_S)
#define RECENT    3              /* hours that each round looks at */
#define AGAIN_NS  (600 * CLK_S)  /* one is not made again sooner: late batches come in many */
#define DEEP_NS   (3600 * CLK_S) /* from one pass over all hours to the next */
#define FAILED_NS (60 * CLK_S)
#define ALIVE_NS  (120 * CLK_S) /* collectors were heard of since then */
#define NAMES_MAX ((size_t)1 << 20)
#define LOOK_NS   (30 * CLK_S)

struct ch_tier {
    struct ch_tier_conf conf;
    struct ch_http *http;
    struct os_thread *thread;
    struct os_mutex *lock; /* guards `stop` */
    struct os_cond *cond;
    bool stop;
    /* The thread's own. */
    int64_t deep_ns, deep_until_ns; /* the pass over all hours: the next one, its end */
    int64_t passed_ns;              /* monotonic: when it ended */
};

static bool tier_stops(void *ctx)
{
    struct ch_tier *t = ctx;
    bool stop;

    os_mutex_lock(t->lock);
    stop = t->stop;
    os_mutex_unlock(t->lock);
    return stop;
}

static void tier_pause(struct ch_tier *t, int64_t ns)
{
    int64_t until_ns = clk_add(os_mono_ns(), ns);

    os_mutex_lock(t->lock);
    while (!t->stop && os_cond_wait_until(t->cond, until_ns) != ERR_TIMEOUT) {
    }
    os_mutex_unlock(t->lock);
}

static int64_t hour_floor(int64_t ns)
{
    return ns < 0 ? 0 : ns - ns % CH_FOLD_HOUR_NS;
}

/* -- whose turn it is -- */

static uint64_t turn_of(const char *name, size_t n, int64_t hour_ns)
{
    return hash_bytes(name, n, (uint64_t)hour_ns);
}

/* Whether no living collector's name ranks above this one's. */
static enum err turn_ask(struct ch_tier *t, int64_t hour_ns, bool *own, struct errmsg *why)
{
    uint64_t mine = turn_of(t->conf.name, strlen(t->conf.name), hour_ns);
    struct buf sql, reply;
    enum err e;

    buf_init(&sql, 4096);
    buf_init(&reply, NAMES_MAX);
    buf_put_str(&sql, "SELECT name FROM collector GROUP BY name HAVING argMax(version, seen) != "
                      "'" CH_FORGOTTEN "' AND max(seen) >= ");
    ch_schema_time(&sql, ch_http_dialect(t->http), clk_sub(os_utc_ns(), ALIVE_NS));
    e = ch_http_ask(t->http, buf_cstr(&sql), LOOK_NS, &reply, why);
    *own = true;
    for (const char *s = e ? "" : buf_cstr(&reply); *s;) { /* names have no white space */
        size_t n = strcspn(s, "\n");

        *own = *own && turn_of(s, n, hour_ns) <= mine;
        s += n + (s[n] != 0);
    }
    buf_fini(&sql);
    buf_fini(&reply);
    return e;
}

/* -- hours -- */

static enum err hour_make(struct ch_tier *t, int64_t hour_ns, size_t *hosts, struct errmsg *why)
{
    const struct ch_fold_ask ask = {.database = t->conf.server->database,
                                    .quorum = t->conf.quorum,
                                    .hour_ns = hour_ns,
                                    .now_ns = os_utc_ns(),
                                    .again_ns = AGAIN_NS,
                                    .stop = tier_stops,
                                    .ctx = t};
    int64_t over_ns = clk_sub(ask.now_ns, hour_ns + CH_FOLD_HOUR_NS);
    bool own = true;
    enum err e = ERR_OK;

    *hosts = 0;
    if (over_ns < SETTLE_NS + OTHERS_NS) {
        e = turn_ask(t, hour_ns, &own, why);
    }
    return e || !own ? e : ch_fold_hour(t->http, &ask, hosts, why);
}

/* The newest hours that are due. */
static enum err recent_make(struct ch_tier *t, struct errmsg *why)
{
    int64_t last_ns = hour_floor(clk_sub(os_utc_ns(), SETTLE_NS)) - CH_FOLD_HOUR_NS;
    enum err e = ERR_OK;

    for (int i = RECENT - 1; i >= 0 && !e; i--) {
        size_t hosts;

        e = hour_make(t, last_ns - i * CH_FOLD_HOUR_NS, &hosts, why);
    }
    return e;
}

static enum err first_ask(struct ch_tier *t, int64_t *first_ns, struct errmsg *why)
{
    struct buf sql, reply;
    enum err e;

    buf_init(&sql, 4096);
    buf_init(&reply, 4096);
    buf_put_str(&sql, "SELECT min(");
    ch_schema_ns(&sql, ch_http_dialect(t->http), "t0");
    buf_put_str(&sql, ") FROM batch WHERE");
    ch_fold_where(&sql);
    e = ch_http_ask(t->http, buf_cstr(&sql), LOOK_NS, &reply, why);
    *first_ns = 0;
    for (const char *s = e ? "" : buf_cstr(&reply); *s >= '0' && *s <= '9'; s++) {
        *first_ns = *first_ns * 10 + (*s - '0');
    }
    buf_fini(&sql);
    buf_fini(&reply);
    return e;
}

/* One older hour. *on: more of them, at once. */
static enum err deep_make(struct ch_tier *t, bool *on, struct errmsg *why)
{
    int64_t now_ns = os_utc_ns(), least_ns;
    size_t hosts;
    enum err e = ERR_OK;

    *on = false;
    if (t->deep_ns >= t->deep_until_ns) {
        if (t->passed_ns && os_mono_ns() - t->passed_ns < DEEP_NS) {
            return ERR_OK;
        }
        e = first_ask(t, &t->deep_ns, why);
        least_ns = t->conf.keep_cell_ns ? clk_sub(now_ns, t->conf.keep_cell_ns) : 0;
        t->deep_ns = hour_floor(t->deep_ns > least_ns ? t->deep_ns : least_ns) +
                     (t->deep_ns > least_ns ? 0 : CH_FOLD_HOUR_NS);
        t->deep_until_ns = hour_floor(clk_sub(now_ns, SETTLE_NS)) - RECENT * CH_FOLD_HOUR_NS;
    }
    if (!e && t->deep_ns < t->deep_until_ns) {
        e = hour_make(t, t->deep_ns, &hosts, why);
        t->deep_ns += e ? 0 : CH_FOLD_HOUR_NS;
        *on = true;
    }
    t->passed_ns = t->deep_ns >= t->deep_until_ns ? os_mono_ns() : t->passed_ns;
    return e;
}

/* -- the thread -- */

static void tier_failed(enum err e, const struct errmsg *why)
{
    char text[600];

    log_line(e == ERR_REFUSED ? LOG_WARN : LOG_INFO, "clickhouse", "tiers_wait",
             "reason=%s effect=%s",
             log_str(text, sizeof text, why->text[0] ? why->text : err_text(e)),
             "\"questions read cells instead of minutes and hours\"");
}

static void tier_run(void *arg)
{
    struct ch_tier *t = arg;
    int64_t looked_ns = INT64_MIN;

    err_ignore(os_thread_background());
    while (!tier_stops(t)) {
        struct errmsg why = {""};
        int64_t begun_ns = os_mono_ns();
        bool on = false;
        enum err e =
            ch_http_version(t->http)[0] ? ERR_OK : ch_http_connect_any(t->http, LOOK_NS, &why);

        if (!e && (looked_ns == INT64_MIN || begun_ns - looked_ns >= ROUND_NS)) {
            looked_ns = begun_ns;
            e = recent_make(t, &why);
        }
        e = e ? e : deep_make(t, &on, &why);
        if (e && e != ERR_CLOSED && e != ERR_NOTFOUND) { /* the sink has not made the tables yet */
            tier_failed(e, &why);
        }
        /* at most half of the time */
        tier_pause(t, e ? FAILED_NS : on ? os_mono_ns() - begun_ns + CLK_S / 10 : ROUND_NS / 4);
    }
}

enum err ch_tier_start(struct ch_tier **out, const struct ch_tier_conf *conf, struct errmsg *why)
{
    struct ch_tier *t = mem_zalloc(sizeof *t);
    enum err e;

    if (!t) {
        return ERR_NOMEM;
    }
    t->conf = *conf;
    e = os_mutex_create(&t->lock);
    e = e ? e : os_cond_create(&t->cond, t->lock);
    e = e ? e : ch_http_open(&t->http, conf->server, why);
    e = e ? e : os_thread_start(&t->thread, "tiers", tier_run, t);
    if (e) {
        ch_tier_stop(t);
        return e;
    }
    *out = t;
    return ERR_OK;
}

void ch_tier_stop(struct ch_tier *t)
{
    if (!t) {
        return;
    }
    if (t->thread) {
        os_mutex_lock(t->lock);
        t->stop = true;
        os_cond_wake_all(t->cond);
        os_mutex_unlock(t->lock);
        ch_http_stop(t->http);
        os_thread_join(t->thread);
    }
    ch_http_close(t->http);
    os_cond_destroy(t->cond);
    os_mutex_destroy(t->lock);
    mem_free(t);
}
