#include "collector/console/api.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "collector/console/api_json.h"
#include "common/base/clk.h"
#include "common/conf/opt.h"
#include "common/os/os.h"
#include "common/text/jsonw.h"

#define POLL_MAX  500u  /* events of one answer unless asked otherwise */
#define TRIES_MAX 8u    /* of a page that becomes too large */
#define BUSY_MS   1000u /* memory or places were short */

/* openapi.json as it stands: collector/CMakeLists.txt */
extern const char api_openapi[], api_openapi_end[];

#define HOSTS   (API_HOST | API_IDS | API_FORGOTTEN)
#define RANGE   (HOSTS | API_RUN | API_SINCE | API_UNTIL | API_LAST)
#define PROCESS (API_PID | API_START | API_NAME | API_IDLE)
#define PAGE    (API_LIMIT | API_CURSOR)

const struct api_route api_routes[] = {
    {"info", API_INFO, 0},
    {"metrics", API_METRICS, 0},
    {"openapi.json", API_OPENAPI, 0},
    {"updates", API_UPDATES, API_CURSOR | API_WAIT | API_MAX | API_HOST | API_NAME | API_KINDS},
    {"overview", API_QUESTION + QUERY_OVERVIEW, RANGE},
    {"hosts", API_QUESTION + QUERY_HOSTS, HOSTS | PAGE},
    {"top", API_QUESTION + QUERY_TOP,
     RANGE | PROCESS | PAGE | API_METRIC | API_BY | API_GROUP_BY | API_EXITED | API_FOLDED |
         API_SHAPE},
    {"processes", API_QUESTION + QUERY_PROCESSES,
     RANGE | PROCESS | PAGE | API_METRIC | API_EXITED | API_SHAPE},
    {"tree", API_QUESTION + QUERY_TREE,
     HOSTS | API_RUN | API_AT | PROCESS | PAGE | API_METRIC | API_SHAPE},
    {"history", API_QUESTION + QUERY_HISTORY,
     RANGE | PROCESS | PAGE | API_METRIC | API_STEP | API_FOLDED | API_SHAPE},
    {"series", API_QUESTION + QUERY_SERIES,
     RANGE | PROCESS | API_LIMIT | API_METRIC | API_STEP | API_BUCKETS | API_ENVELOPE |
         API_GROUP_BY | API_SHAPE},
    {"pulse", API_QUESTION + QUERY_PULSE, HOSTS | PAGE | API_BUCKETS},
    {"lifetimes", API_QUESTION + QUERY_LIFETIMES, RANGE | PROCESS | API_BUCKETS | API_MAX},
    {"events", API_QUESTION + QUERY_EVENTS,
     RANGE | API_PID | API_START | API_NAME | PAGE | API_KINDS | API_PROVIDER | API_EVENT |
         API_WHERE | API_SHAPE},
    {"coverage", API_QUESTION + QUERY_COVERAGE, RANGE | PAGE | API_STAGES},
    {"rules", API_RULES, API_HOST | API_NAME | API_FIRING | PAGE | API_SHAPE},
    {"outliers", API_QUESTION + QUERY_OUTLIERS,
     RANGE | API_NAME | API_LIMIT | API_METRIC | API_GROUP_BY | API_WHERE | API_CLASS | API_SHAPE},
};

const size_t api_routes_n = sizeof api_routes / sizeof *api_routes;

#define ROUTES_MAX 32u

const struct api_route *api_find(struct str path, const char **closest)
{
    const char *names[ROUTES_MAX];
    char name[64];

    *closest = NULL;
    if (path.n < strlen(API_ROOT) || memcmp(path.p, API_ROOT, strlen(API_ROOT)) != 0) {
        return NULL;
    }
    path = (struct str){path.p + strlen(API_ROOT), path.n - strlen(API_ROOT)};
    for (size_t i = 0; i < api_routes_n; i++) {
        if (str_eq(path, str_make(api_routes[i].name))) {
            return &api_routes[i];
        }
        names[i] = api_routes[i].name;
    }
    if (path.n < sizeof name) {
        memcpy(name, path.p, path.n);
        name[path.n] = '\0';
        *closest = opt_closest(name, names, api_routes_n);
    }
    return NULL;
}

/* -- JSON of what is no question -- */

static void json_begin(struct jsonw *j, struct buf *out)
{
    jsonw_init_buf(j, out);
    j->compact = true;
    jsonw_object(j, NULL);
}

static void json_info(struct buf *out, const struct wire_server_info *info,
                      const struct net_identity *who, bool updates)
{
    char id[UUID_TEXT];
    struct jsonw j;

    json_begin(&j, out);
    jsonw_text(&j, "version", str_make(info->version));
    jsonw_wide(&j, "now_ns", (uint64_t)info->now_ns);
    jsonw_bytes(&j, "name", str_make(who->name));
    jsonw_text(&j, "role", str_make(who->roles & NET_ADMIN ? "admin" : "query"));
    jsonw_bytes(&j, "scope", str_make(who->scope));
    if (who->not_after_ns > 0) {
        jsonw_wide(&j, "until_ns", (uint64_t)who->not_after_ns);
    } else {
        jsonw_null(&j, "until_ns");
    }
    jsonw_text(&j, "id", str_make(uuid_format(id, &info->id)));
    jsonw_uint(&j, "hosts", info->hosts);
    jsonw_bool(&j, "updates", updates);
    jsonw_end(&j);
}

static void json_metrics(struct buf *out)
{
    static const char *const units[] = {
        [UNIT_NONE] = "none",   [UNIT_NS] = "ns",       [UNIT_UTC_NS] = "UTC ns",
        [UNIT_BYTES] = "bytes", [UNIT_COUNT] = "count", [UNIT_PERMILLE] = "percent",
        [UNIT_MASK] = "mask",   [UNIT_TEXT] = "text",
    };
    struct jsonw j;

    json_begin(&j, out);
    jsonw_array(&j, "list");
    for (const struct metric *m = metric_next(NULL); m; m = metric_next(m)) {
        if (!m->column && m->id != M_CPU_PERCENT) {
            continue;
        }
        jsonw_object(&j, NULL);
        jsonw_text(&j, "name", str_make(m->name));
        jsonw_text(&j, "unit", str_make(units[m->unit]));
        jsonw_text(&j, "kind", str_make(m->kind == METRIC_COUNTER ? "counter" : "gauge"));
        jsonw_text(&j, "meaning", str_make(m->help));
        jsonw_end(&j);
    }
    jsonw_end(&j);
    jsonw_end(&j);
}

static void json_error(struct buf *out, const char *code, const char *message)
{
    struct jsonw j;

    json_begin(&j, out);
    jsonw_text(&j, "code", str_make(code));
    jsonw_bytes(&j, "message", str_make(message));
    jsonw_text(&j, "details", str_make(""));
    jsonw_end(&j);
}

/* -- answers -- */

void api_init(struct api_answer *x, size_t body_max)
{
    buf_init(&x->body, body_max);
    x->status = 0;
    x->retry_after_s = 0;
    x->sealed = false;
    x->waits = false;
    x->poll = (struct wire_poll){.name = {"", 0}};
    x->wait_ns = 0;
    x->args.given = 0;
}

static uint32_t status_of(enum rpc_code code)
{
    switch (code) {
    case RPC_OK:
        return 200;
    case RPC_INVALID_ARGUMENT:
    case RPC_OUT_OF_RANGE:
    case RPC_FAILED_PRECONDITION:
        return 400;
    case RPC_UNAUTHENTICATED:
        return 401;
    case RPC_PERMISSION_DENIED:
        return 403;
    case RPC_NOT_FOUND:
        return 404;
    case RPC_RESOURCE_EXHAUSTED:
        return 429;
    case RPC_UNAVAILABLE:
        return 503;
    case RPC_DEADLINE_EXCEEDED:
        return 504;
    default:
        return 500;
    }
}

void api_fail(struct api_answer *x, enum rpc_code code, uint32_t retry_ms, const char *message)
{
    x->status = status_of(code);
    x->retry_after_s = (retry_ms + 999) / 1000;
    buf_reset(&x->body);
    json_error(&x->body, frame_code_name(code), message);
}

static void fail_with(struct api_answer *x, enum err e, const struct errmsg *why)
{
    api_fail(x, serve_code(e), e == ERR_NOMEM ? BUSY_MS : 0,
             why->text[0] ? why->text : err_text(e));
}

/* What was written is the answer, if it was written. */
static void finish(struct api_answer *x)
{
    const struct errmsg none = {""};

    if (x->body.bad == ERR_FULL) {
        api_fail(
            x, RPC_RESOURCE_EXHAUSTED, 0,
            "the answer is too large: ask for fewer rows, metrics or buckets, or for a shorter "
            "range");
    } else if (x->body.bad) {
        fail_with(x, x->body.bad, &none);
    } else {
        x->status = 200;
    }
}

/* -- questions -- */

static void metrics_default(struct wire_query *q, unsigned kind)
{
    /* As the command line asks: docs/cli.md. */
    static const uint8_t of_top[] = {
        M_CPU_TIME,         M_CPU_PERCENT,      M_WORKING_SET_SIZE, M_THREAD_COUNT,
        M_READ_BYTES,       M_WRITE_BYTES,      M_KERNEL_TIME,      M_USER_TIME,
        M_CONTEXT_SWITCHES, M_PRIVATE_BYTES,    M_PEAK_WORKING_SET, M_PAGE_FAULTS,
        M_HARD_FAULTS,      M_HANDLE_COUNT,     M_READ_OPERATIONS,  M_WRITE_OPERATIONS,
        M_DISK_READ_BYTES,  M_DISK_WRITE_BYTES,
    };
    static const uint8_t of_time[] = {M_CPU_TIME, M_CPU_PERCENT, M_WORKING_SET_SIZE,
                                      M_THREAD_COUNT};

    if (q->n_metrics) {
        return;
    }
    if (kind == QUERY_TOP) {
        memcpy(q->metrics, of_top, sizeof of_top);
        q->n_metrics = sizeof of_top;
    } else if (kind == QUERY_HISTORY || kind == QUERY_TREE) {
        memcpy(q->metrics, of_time, sizeof of_time);
        q->n_metrics = sizeof of_time;
    } else if (kind == QUERY_PROCESSES) {
        for (const struct metric *m = metric_next(NULL); m; m = metric_next(m)) {
            if ((m->column || m->id == M_CPU_PERCENT) && q->n_metrics < WIRE_METRICS_MAX) {
                q->metrics[q->n_metrics++] = m->id;
            }
        }
    }
}

/* Such an answer stays what it is until something is sealed or dropped. */
static bool is_sealed(const struct api_answer *x, enum query_kind kind, const struct wire_answer *a)
{
    const uint32_t range = API_SINCE | API_UNTIL;

    return kind == QUERY_SERIES && (x->args.given & range) == range && !x->args.spans &&
           a->n_used && a->used[STORE_HEAD] == 0;
}

static void question(struct api_answer *x, enum query_kind kind, const struct api_env *env)
{
    struct wire_query *q = &x->args.q;

    metrics_default(q, kind);
    if (kind == QUERY_TOP && !q->limit) {
        q->limit = 10;
    }
    for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
        struct serve_answer answer;
        struct errmsg why = {""};
        enum err e = serve_ask(env->serve, &answer, kind, env->who, env->deadline, q, &why);
        size_t n = answer.a.data.n_rows + answer.a.data.n_events;

        buf_reset(&x->body);
        if (e) {
            fail_with(x, e, &why);
        } else {
            api_json_answer(&x->body, kind, q, &answer.a, x->args.rows);
            x->sealed = is_sealed(x, kind, &answer.a.data);
        }
        serve_answer_fini(&answer);
        if (e || x->body.bad != ERR_FULL || n < 2) {
            break;
        }
        q->limit = (uint32_t)n / 2;
    }
    if (!x->status) {
        finish(x);
    }
}

/* -- updates -- */

static void updates(struct api_answer *x, const struct api_env *env)
{
    struct wire_poll *p = &x->poll;
    const struct wire_query *q = &x->args.q;

    if (!env->updates) {
        api_fail(x, RPC_UNAVAILABLE, 0,
                 "this collector keeps no journal of events (feed.max_bytes is 0): ask events");
        return;
    }
    p->cursor = q->cursor;
    p->max = q->max ? q->max : POLL_MAX;
    if (p->max > WIRE_UPDATES_MAX) {
        p->max = WIRE_UPDATES_MAX;
    }
    if (q->host.n || q->name.n || q->kinds) {
        p->has_filter = true;
        p->filter.n_hosts = q->host.n ? 1 : 0;
        p->filter.hosts[0] = q->host;
        p->filter.program = q->name;
        p->filter.kinds = q->kinds;
    }
    x->wait_ns = x->args.wait_ns;
    x->waits = true;
}

void api_polled(struct api_answer *x, const struct feed_serve_end *end)
{
    x->waits = false;
    if (end->code != RPC_OK) {
        api_fail(x, end->code, end->retry_ms, end->message);
        return;
    }
    api_json_updates(&x->body, end->reply);
    finish(x);
}

/* -- the rest -- */

static void info(struct api_answer *x, const struct api_env *env)
{
    struct wire_server_info server;
    const struct errmsg none = {""};
    enum err e = serve_info(env->serve, &server, env->who);

    if (e) {
        fail_with(x, e, &none);
        return;
    }
    json_info(&x->body, &server, env->who, env->updates);
    finish(x);
}

/* What each subject of a rule is now, as events of kind rule: those that fire first. */
static void rules(struct api_answer *x, const struct api_env *env)
{
    struct query_answer a = {.more = false};
    const struct errmsg none = {""};
    enum err e = ERR_OK;

    x->args.q.limit = x->args.q.limit ? x->args.q.limit : WIRE_ROWS_MAX;
    if (env->rules) {
        e = env->rules(env->ctx, env->who, &x->args.q, &a);
    }
    if (e) {
        fail_with(x, e, &none);
    } else {
        api_json_answer(&x->body, QUERY_EVENTS, &x->args.q, &a, x->args.rows);
        finish(x);
    }
    query_answer_fini(&a);
}

void api_run(struct api_answer *x, const struct api_route *route, struct str query,
             const struct api_env *env)
{
    struct errmsg why = {""};

    if (api_args_read(&x->args, query, route->takes, os_utc_ns(), &why) != ERR_OK) {
        api_fail(x, RPC_INVALID_ARGUMENT, 0, why.text);
        return;
    }
    switch (route->kind) {
    case API_INFO:
        info(x, env);
        return;
    case API_METRICS:
        json_metrics(&x->body);
        finish(x);
        return;
    case API_OPENAPI:
        buf_put(&x->body, api_openapi, (size_t)(api_openapi_end - api_openapi));
        finish(x);
        return;
    case API_UPDATES:
        updates(x, env);
        return;
    case API_RULES:
        rules(x, env);
        return;
    default:
        question(x, (enum query_kind)(route->kind - API_QUESTION), env);
    }
}
