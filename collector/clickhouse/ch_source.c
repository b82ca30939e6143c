#include "collector/clickhouse/ch_source.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "collector/clickhouse/ch_join.h"
#include "collector/clickhouse/ch_native.h"
#include "collector/clickhouse/ch_view.h"
#include "collector/clickhouse/ch_view_hosts.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/deadline.h"
#include "common/os/os.h"

#define OTHERS_NS   (10 * CLK_S)    /* so long it is not asked again whether there are others */
#define ALIVE_NS    (86400 * CLK_S) /* they were heard of since then */
#define TOLD_NS     (600 * CLK_S)   /* one line of the log in so long */
#define LOOKBACK_NS (120 * CLK_S)   /* questions look a little behind their windows */
#define LOOK_NS     (5 * CLK_S)     /* for a short answer */
#define DOWN_NS     (10 * CLK_S)    /* so long nothing is asked when it did not answer */
#define CONNECT_NS  (CLK_S / 4)     /* who has less and waits in vain does not say it is down */
#define STRINGS_MAX ((size_t)1 << 20)
#define LIST_LEAST  (2 * CLK_S)        /* so long a list of hosts is good, */
#define LIST_MOST   (30 * CLK_S)       /* or as long as four of them took */
#define TIERS_LEAST (2 * 3600 * CLK_S) /* shorter windows are read from cells */
#define NEVER       INT64_MIN

struct ch_source {
    struct ch_source_conf conf;
    struct os_mutex *lock; /* guards what follows */
    size_t n_idle;
    struct ch_http *idle[CH_SOURCE_IDLE];
    int64_t others_ns; /* monotonic: when it was asked whether there are others */
    bool others;
    int64_t told_ns;
    int64_t down_until_ns;       /* monotonic */
    size_t url;                  /* which replica a new connection asks first */
    struct ch_view_hosts *hosts; /* what was listed last, until then; NULL: nothing */
    int64_t hosts_until_ns;
};

/* A view's connection. */
struct lease {
    struct ch_source *source;
    struct ch_http *http;
    bool sound;
};

enum err ch_source_open(struct ch_source **out, const struct ch_source_conf *conf)
{
    struct ch_source *s = mem_zalloc(sizeof *s);
    enum err e;

    if (!s) {
        return ERR_NOMEM;
    }
    s->conf = *conf;
    s->others_ns = s->told_ns = s->down_until_ns = NEVER;
    e = os_mutex_create(&s->lock);
    if (e) {
        mem_free(s);
        return e;
    }
    *out = s;
    return ERR_OK;
}

void ch_source_close(struct ch_source *s)
{
    if (!s) {
        return;
    }
    for (size_t i = 0; i < s->n_idle; i++) {
        ch_http_close(s->idle[i]);
    }
    ch_view_hosts_unref(s->hosts);
    os_mutex_destroy(s->lock);
    mem_free(s);
}

/* -- connections -- */

static void trouble_tell(struct ch_source *s, const struct errmsg *why)
{
    int64_t now_ns = os_mono_ns();
    char text[600];
    bool due;

    os_mutex_lock(s->lock);
    due = s->told_ns == NEVER || now_ns - s->told_ns >= TOLD_NS;
    s->told_ns = due ? now_ns : s->told_ns;
    os_mutex_unlock(s->lock);
    if (due) {
        log_line(LOG_WARN, "clickhouse", "unanswered", "why=%s effect=%s",
                 log_str(text, sizeof text, why->text),
                 "\"answers are the local store's, and say what is left out\"");
    }
}

/* At most a quarter of what the question has left: the local store has its time, too. */
static int64_t time_for(const struct deadline *d, int64_t most_ns)
{
    int64_t left_ns = most_ns;

    if (d) {
        left_ns = clk_sub(atomic_load_explicit(&d->ns, memory_order_relaxed), os_mono_ns()) / 4;
    }
    return left_ns < most_ns ? left_ns : most_ns;
}

/* When no replica answers nothing is asked for a while: questions do not wait one by one. */
static enum err lease_connect(struct lease *l, size_t url, int64_t timeout_ns, struct errmsg *why)
{
    struct ch_source *s = l->source;
    enum err e = ch_http_open(&l->http, s->conf.server, why);

    if (e) {
        return e;
    }
    ch_http_choose(l->http, url);
    e = ch_http_connect_any(l->http, timeout_ns, why);
    os_mutex_lock(s->lock);
    if (!e) {
        s->url = ch_http_chosen(l->http);
    } else if (e == ERR_UNREACHABLE || e == ERR_BUSY ||
               (e == ERR_TIMEOUT && timeout_ns >= CONNECT_NS)) {
        s->down_until_ns = clk_add(os_mono_ns(), DOWN_NS);
    }
    os_mutex_unlock(s->lock);
    return e;
}

static enum err lease_take(struct ch_source *s, const struct deadline *deadline, struct lease **out,
                           struct errmsg *why)
{
    int64_t left_ns = time_for(deadline, CH_HTTP_CONNECT_NS);
    struct lease *l;
    enum err e = ERR_OK;
    bool down;
    size_t url;

    if (left_ns <= 0) {
        return errmsg_set(why, ERR_BUSY, "no time is left to ask");
    }
    l = mem_zalloc(sizeof *l);
    if (!l) {
        return ERR_NOMEM;
    }
    l->source = s;
    os_mutex_lock(s->lock);
    down = os_mono_ns() < s->down_until_ns;
    l->http = !down && s->n_idle ? s->idle[--s->n_idle] : NULL;
    url = s->url;
    os_mutex_unlock(s->lock);
    if (down) {
        e = errmsg_set(why, ERR_BUSY, "it did not answer a moment ago");
    } else if (!l->http) {
        e = lease_connect(l, url, left_ns, why);
    }
    if (e) {
        ch_http_close(l->http);
        mem_free(l);
        return e;
    }
    l->sound = true;
    *out = l;
    return ERR_OK;
}

/* One that failed goes, and those that wait: the next one asks anew what the server knows, the next
 * replica first. */
static void lease_end(void *ctx)
{
    struct lease *l = ctx;
    struct ch_source *s = l->source;
    struct ch_http *gone[CH_SOURCE_IDLE + 1];
    size_t n = 0;

    os_mutex_lock(s->lock);
    if (l->sound && s->n_idle < CH_SOURCE_IDLE) {
        s->idle[s->n_idle++] = l->http;
    } else {
        gone[n++] = l->http;
    }
    if (!l->sound) {
        while (s->n_idle) {
            gone[n++] = s->idle[--s->n_idle];
        }
        s->url = ch_http_chosen(l->http);
        s->hosts_until_ns = NEVER;
    }
    os_mutex_unlock(s->lock);
    while (n) {
        ch_http_close(gone[--n]);
    }
    mem_free(l);
}

static enum err lease_ask(void *ctx, const char *sql, int64_t timeout_ns, struct buf *reply,
                          struct errmsg *why)
{
    struct lease *l = ctx;
    enum err e = ch_http_ask(l->http, sql, timeout_ns, reply, why);

    if (e && e != ERR_FULL) {
        l->sound = false;
        trouble_tell(l->source, why);
    }
    return e;
}

/* -- which view -- */

static enum err others_ask(struct ch_source *s, struct lease *l, int64_t timeout_ns, bool *others)
{
    enum ch_dialect d = ch_http_dialect(l->http);
    struct errmsg why = {""};
    struct buf sql, reply;
    struct ch_in *in = mem_alloc(sizeof *in);
    enum err e;

    if (!in) {
        return ERR_NOMEM;
    }
    buf_init(&sql, 4096);
    buf_init(&reply, STRINGS_MAX);
    buf_printf(&sql,
               "SELECT count() AS n FROM (SELECT name, max(seen) AS last, argMax(version, seen) "
               "AS said FROM `%s`.`%s` WHERE name != ",
               s->conf.server->database, ch_schema_table(CH_COLLECTOR));
    ch_schema_quote(&sql, str_make(s->conf.name));
    buf_put_str(&sql, " GROUP BY name) WHERE said != '" CH_FORGOTTEN "' AND last >= ");
    ch_schema_time(&sql, d, clk_sub(os_utc_ns(), ALIVE_NS));
    buf_put_str(&sql, " FORMAT Native");
    e = sql.bad ? sql.bad : lease_ask(l, buf_cstr(&sql), timeout_ns, &reply, &why);
    ch_native_in_init(in, reply.p, reply.n, STRINGS_MAX);
    e = e ? e : ch_native_next(in);
    if (!e) {
        *others = in->n_columns == 1 && in->n_rows == 1 && ch_native_get(&in->columns[0], 0) > 0;
    }
    ch_native_in_fini(in);
    mem_free(in);
    buf_fini(&sql);
    buf_fini(&reply);
    return e;
}

/* Whether other collectors feed the same database; what was known last, when it does not answer. */
static bool has_others(struct ch_source *s, const struct deadline *deadline)
{
    int64_t now_ns = os_mono_ns();
    struct errmsg why = {""};
    struct lease *l;
    int64_t left_ns;
    bool others, due;

    os_mutex_lock(s->lock);
    others = s->others;
    due = s->others_ns == NEVER || now_ns - s->others_ns >= OTHERS_NS;
    s->others_ns = due ? now_ns : s->others_ns;
    os_mutex_unlock(s->lock);
    if (!due) {
        return others;
    }
    if (lease_take(s, deadline, &l, &why)) {
        trouble_tell(s, &why);
        return others;
    }
    left_ns = time_for(deadline, LOOK_NS);
    if (left_ns > 0) {
        err_ignore(others_ask(s, l, left_ns, &others));
    }
    lease_end(l);
    os_mutex_lock(s->lock);
    s->others = others;
    os_mutex_unlock(s->lock);
    return others;
}

/* -- the list of hosts: one scan of the ledger for the questions of some seconds -- */

/* NULL: there is none that is young enough. */
static struct ch_view_hosts *hosts_get(struct ch_source *s)
{
    struct ch_view_hosts *h;

    os_mutex_lock(s->lock);
    h = s->hosts && os_mono_ns() < s->hosts_until_ns ? ch_view_hosts_ref(s->hosts) : NULL;
    os_mutex_unlock(s->lock);
    return h;
}

/* Asked for at begun_ns. */
static void hosts_put(struct ch_source *s, struct ch_view_hosts *h, int64_t begun_ns)
{
    int64_t took_ns = clk_sub(os_mono_ns(), begun_ns), good_ns = took_ns * 4;
    struct ch_view_hosts *old;

    good_ns = good_ns > LIST_LEAST ? good_ns : LIST_LEAST;
    good_ns = good_ns < LIST_MOST ? good_ns : LIST_MOST;
    os_mutex_lock(s->lock);
    old = s->hosts;
    s->hosts = h;
    s->hosts_until_ns = clk_add(begun_ns, good_ns);
    os_mutex_unlock(s->lock);
    ch_view_hosts_unref(old);
}

/* NULL: it does not answer. */
static struct store_view *far_open(struct ch_source *s, const struct deadline *deadline)
{
    struct ch_view_hosts *hosts = hosts_get(s);
    int64_t begun_ns = os_mono_ns();
    struct store_view *far = NULL;
    struct errmsg why = {""};
    struct lease *l;

    if (lease_take(s, deadline, &l, &why)) {
        trouble_tell(s, &why);
    } else if (ch_view_open(&far,
                            &(struct ch_view_conf){.ask = lease_ask,
                                                   .closed = lease_end,
                                                   .ctx = l,
                                                   .dialect = ch_http_dialect(l->http),
                                                   .database = s->conf.server->database,
                                                   .hosts = hosts,
                                                   .tiers_least_ns = TIERS_LEAST,
                                                   .tiers_age_ns = s->conf.keep_cell_ns,
                                                   .deadline = deadline},
                            &why)) {
        far = NULL; /* told by lease_ask; it has ended */
    } else if (!hosts) {
        hosts_put(s, ch_view_hosts_of(far), begun_ns);
    }
    ch_view_hosts_unref(hosts);
    return far;
}

/* The oldest stamp that the store holds of any host: what is older may be there. */
static int64_t oldest_of(const struct store_view *v)
{
    int64_t oldest_ns = INT64_MAX;

    for (size_t i = 0; i < store_view_hosts(v); i++) {
        int64_t first_ns = store_view_host(v, i)->first_ns;

        oldest_ns = first_ns < oldest_ns ? first_ns : oldest_ns;
    }
    return oldest_ns;
}

enum err ch_source_view(struct ch_source *s, struct store_view **out, int64_t since_ns,
                        const struct deadline *deadline)
{
    struct store_view *local, *far = NULL;
    bool alone = s->conf.mode != CH_SOURCE_FAR &&
                 (s->conf.mode == CH_SOURCE_LOCAL || !has_others(s, deadline));
    enum err e;

    if (!alone) {
        far = far_open(s, deadline);
        if (far) {
            *out = far;
            return ERR_OK;
        }
    }
    e = store_view_open(&local, s->conf.store);
    if (e) {
        return e;
    }
    if (alone && (s->conf.mode == CH_SOURCE_LOCAL || since_ns == INT64_MAX ||
                  clk_sub(since_ns, LOOKBACK_NS) >= oldest_of(local))) {
        *out = local;
        return ERR_OK;
    }
    return ch_join_open(out, local, alone ? far_open(s, deadline) : NULL);
}
