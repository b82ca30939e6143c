#include "collector/api/serve.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/glob.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "common/os/uuid.h"

#define MAY_ASK     (NET_QUERY | NET_ADMIN)
#define METHODS_MAX 64u

/* What a question's handler gets. */
struct question {
    struct serve *serve;
    enum query_kind kind;
};

struct serve {
    struct serve_conf conf;
    struct uuid id; /* of this start of the collector */
    struct question questions[QUERY_KINDS];
    size_t n_methods;
    struct rpc_method methods[METHODS_MAX];
};

enum rpc_code serve_code(enum err e)
{
    switch (e) {
    case ERR_INVALID:
    case ERR_CORRUPT:
    case ERR_VERSION:
        return RPC_INVALID_ARGUMENT;
    case ERR_NOTFOUND:
        return RPC_NOT_FOUND;
    case ERR_ACCESS:
        return RPC_PERMISSION_DENIED;
    case ERR_TIMEOUT:
        return RPC_DEADLINE_EXCEEDED;
    case ERR_FULL:
    case ERR_NOMEM:
        return RPC_RESOURCE_EXHAUSTED;
    default:
        return RPC_INTERNAL;
    }
}

static void fail(struct rpc_call *call, enum err e, const struct errmsg *why)
{
    rpc_fail(call, serve_code(e), e == ERR_NOMEM ? 1000 : 0, "%s",
             why->text[0] ? why->text : err_text(e));
}

static void answer_send(struct rpc_call *call, const struct query_answer *a)
{
    struct rpc_answer_opt opt = {a->more, a->cursor, a->cursor_n};
    struct errmsg why = {""};
    struct buf out;
    enum err e;

    buf_init(&out, QUERY_REPLY_MAX);
    e = wire_answer_encode(&out, &a->data);
    if (e) {
        fail(call, e, &why);
    } else {
        rpc_answer(call, out.p, out.n, &opt);
    }
    buf_fini(&out);
}

/* A host asked for by a name that the certificate's scope excludes. Whether there is such a host is
 * not told; patterns and ids find nothing outside the scope. */
static enum err scope_check_name(const struct net_identity *who, struct str asked,
                                 struct errmsg *why)
{
    char name[80], host[160], scope[160];

    if (!who->scope[0] || asked.n == 0 || asked.n > MODEL_HOST_NAME_MAX || glob_is_pattern(asked) ||
        glob_match(str_make(who->scope), asked)) {
        return ERR_OK;
    }
    (void)snprintf(name, sizeof name, "%.*s", (int)asked.n, asked.p);
    log_line(LOG_WARN, "query", "denied",
             "listener=query peer=%s name=%s host=%s scope=%s reason=\"outside the scope\"",
             who->address, who->name, log_str(host, sizeof host, name),
             log_str(scope, sizeof scope, who->scope));
    return errmsg_set(why, ERR_ACCESS,
                      "this certificate sees hosts that fit '%s' only: ask for those, or use one "
                      "with another scope",
                      who->scope);
}

static enum err scope_check(const struct net_identity *who, const struct wire_query *q,
                            struct errmsg *why)
{
    enum err e = scope_check_name(who, q->host, why);

    for (size_t i = 0; !e && i < q->n_hosts; i++) {
        e = scope_check_name(who, q->hosts[i], why);
    }
    return e;
}

/* Where the question's window begins, as far as it says. */
static int64_t since_of(enum query_kind kind, const struct wire_query *q, int64_t now_ns)
{
    int64_t until_ns = q->until_ns ? q->until_ns : now_ns;

    if (kind == QUERY_HOSTS || kind == QUERY_OVERVIEW || kind == QUERY_PULSE || q->run.n) {
        return INT64_MAX;
    }
    if (kind == QUERY_TREE && q->at_ns) {
        until_ns = q->at_ns;
    }
    return q->since_ns ? q->since_ns
                       : clk_sub(until_ns, q->last_ns > 0 ? q->last_ns : QUERY_LAST_NS);
}

static enum err view_open(struct serve *s, struct store_view **out, enum query_kind kind,
                          const struct wire_query *q, const struct query_env *env)
{
    return s->conf.view
               ? s->conf.view(s->conf.ctx, out, since_of(kind, q, env->now_ns), env->deadline)
               : store_view_open(out, s->conf.store);
}

enum err serve_ask(struct serve *s, struct serve_answer *out, enum query_kind kind,
                   const struct net_identity *who, const struct deadline *deadline,
                   const struct wire_query *q, struct errmsg *why)
{
    struct query_env env = {
        .scope = who->scope,
        .now_ns = os_utc_ns(),
        .deadline = deadline,
        .pulse = s->conf.pulse,
        .host_state = s->conf.host_state,
        .is_forgotten = s->conf.is_forgotten,
        .facts = s->conf.facts,
        .host_class = s->conf.host_class,
        .notices = s->conf.notices,
        .boots = s->conf.boots,
        .ctx = s->conf.ctx,
    };
    struct store_stats stats;
    struct store_room room;
    struct query_run run;
    struct arena memory;
    enum err e = scope_check(who, q, why);

    *out = (struct serve_answer){.view = NULL};
    if (e) {
        return e;
    }
    store_stats(s->conf.store, &stats);
    env.store_failed = stats.failed;
    env.stats = &stats;
    if (kind == QUERY_OVERVIEW) {
        store_room(s->conf.store, &room);
        env.room = &room;
    }
    arena_init(&memory, QUERY_MEMORY_MAX);
    e = view_open(s, &out->view, kind, q, &env);
    if (!e && q->run.n) {
        e = s->conf.run ? s->conf.run(s->conf.ctx, out->view, who, q->run, &memory, &run, why)
                        : errmsg_set(why, ERR_NOTFOUND, "this collector keeps no runs");
        env.run = &run;
    }
    if (!e) {
        env.view = out->view;
        e = query_run(&out->a, kind, &env, q, why);
    }
    arena_fini(&memory);
    return e;
}

void serve_answer_fini(struct serve_answer *x)
{
    query_answer_fini(&x->a);
    store_view_close(x->view);
    x->view = NULL;
}

static void ask(struct serve *s, enum query_kind kind, struct rpc_call *call)
{
    struct serve_answer x = {.view = NULL};
    struct wire_query *q = NULL;
    struct errmsg why = {""};
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);
    enum err e = wire_query_decode(&q, p, n);

    if (!e) {
        e = serve_ask(s, &x, kind, rpc_call_peer(call), rpc_call_deadline(call), q, &why);
    }
    if (e) {
        fail(call, e, &why);
    } else {
        answer_send(call, &x.a);
    }
    serve_answer_fini(&x);
    wire_query_free(q);
}

static void on_question(void *ctx, struct rpc_call *call)
{
    const struct question *x = ctx;

    ask(x->serve, x->kind, call);
}

enum err serve_info(struct serve *s, struct wire_server_info *out, const struct net_identity *who)
{
    struct query_env env = {
        .scope = who->scope, .is_forgotten = s->conf.is_forgotten, .ctx = s->conf.ctx};
    struct store_view *view;
    enum err e = store_view_open(&view, s->conf.store);

    if (e) {
        return e;
    }
    env.view = view;
    *out = (struct wire_server_info){
        .version = PROCFLEET_VERSION,
        .now_ns = os_utc_ns(),
        .epoch = s->conf.event_epoch,
        .max_request = s->conf.request_max,
        .max_reply = QUERY_REPLY_MAX,
        .hosts = query_count_hosts(&env),
        .frame_version_min = FRAME_VERSION,
        .frame_version_max = FRAME_VERSION,
        .id = s->id,
        .n_methods = s->n_methods,
    };
    store_view_close(view);
    for (size_t i = 0; i < s->n_methods; i++) {
        (void)snprintf(out->methods[i].name, sizeof out->methods[i].name, "%s", s->methods[i].name);
        out->methods[i].id = rpc_method_id(s->methods[i].name);
    }
    return ERR_OK;
}

uint64_t serve_generation(struct serve *s)
{
    struct store_room room;
    uint64_t n;

    store_room(s->conf.store, &room);
    n = room.sealed_windows + room.patches;
    for (size_t i = 0; i < sizeof room.kind / sizeof *room.kind; i++) {
        n += room.kind[i].dropped_age + room.kind[i].dropped_bytes;
    }
    return n;
}

static void on_server_info(void *ctx, struct rpc_call *call)
{
    struct wire_server_info info;
    struct errmsg why = {""};
    struct buf out;
    enum err e = serve_info(ctx, &info, rpc_call_peer(call));

    buf_init(&out, QUERY_REPLY_MAX);
    if (!e) {
        e = wire_query_server_info_encode(&out, &info);
    }
    if (e) {
        fail(call, e, &why);
    } else {
        rpc_answer(call, out.p, out.n, NULL);
    }
    buf_fini(&out);
}

#define QUESTION_NAME(kind, name) [QUERY_##kind] = RPC_QUERY_##kind,
static const char *const question_names[QUERY_KINDS] = {QUERY_LIST(QUESTION_NAME)};

static void methods_add(struct serve *s)
{
    s->methods[s->n_methods++] =
        (struct rpc_method){RPC_QUERY_SERVER_INFO, MAY_ASK | NET_SUBSCRIBE, on_server_info, s};
    for (unsigned kind = 0; kind < QUERY_KINDS; kind++) {
        s->questions[kind] = (struct question){s, (enum query_kind)kind};
        s->methods[s->n_methods++] =
            (struct rpc_method){question_names[kind], MAY_ASK, on_question, &s->questions[kind]};
    }
}

enum err serve_create(struct serve **out, const struct serve_conf *conf)
{
    struct serve *s = mem_zalloc(sizeof *s);
    enum err e;

    if (!s) {
        return ERR_NOMEM;
    }
    s->conf = *conf;
    e = uuid_random(&s->id);
    if (e) {
        mem_free(s);
        return e;
    }
    methods_add(s);
    *out = s;
    return ERR_OK;
}

void serve_destroy(struct serve *s)
{
    mem_free(s);
}

void serve_add(struct serve *s, const struct rpc_method *methods, size_t n)
{
    assert(n <= METHODS_MAX - s->n_methods);
    memcpy(&s->methods[s->n_methods], methods, n * sizeof *methods);
    s->n_methods += n;
}

const struct rpc_method *serve_methods(const struct serve *s, size_t *n)
{
    *n = s->n_methods;
    return s->methods;
}
