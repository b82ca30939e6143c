#include "collector/api/admin.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "common/wire/wire_admin.h"

#define REPLY_MAX (1u << 20)

struct admin {
    struct admin_conf conf;
};

static void fail(struct rpc_call *call, enum err e)
{
    bool ours = e == ERR_NOMEM || e == ERR_FULL;

    rpc_fail(call, ours ? RPC_RESOURCE_EXHAUSTED : RPC_INVALID_ARGUMENT, ours ? 1000 : 0, "%s",
             err_text(e));
}

/* A certificate with a scope may not touch other hosts, and these calls concern all of them. */
static bool refused(struct rpc_call *call)
{
    if (!rpc_call_peer(call)->scope[0]) {
        return false;
    }
    rpc_fail(call, RPC_PERMISSION_DENIED, 0,
             "this certificate is limited to hosts that fit '%s': use one without a scope",
             rpc_call_peer(call)->scope);
    return true;
}

static void reply(struct rpc_call *call, struct buf *out, enum err e)
{
    if (e) {
        fail(call, e);
    } else {
        rpc_answer(call, out->p, out->n, NULL);
    }
    buf_fini(out);
}

/* -- Status -- */

static enum err status_put(struct buf *out, const struct admin *a, struct metrics *f,
                           struct wire_figure *figures)
{
    struct wire_status_reply m = {.version = str_make(PROCFLEET_VERSION),
                                  .started_ns = a->conf.started_ns,
                                  .now_ns = os_utc_ns(),
                                  .figures = figures};

    a->conf.metrics(a->conf.ctx, f);
    m.n = f->n < WIRE_FIGURES_MAX ? f->n : WIRE_FIGURES_MAX;
    for (size_t i = 0; i < m.n; i++) {
        figures[i] = (struct wire_figure){.name = str_make(f->all[i].name),
                                          .labels = str_make(f->all[i].labels),
                                          .help = str_make(f->all[i].help),
                                          .value = f->all[i].value};
    }
    return wire_admin_status_reply_encode(out, &m);
}

static void on_status(void *ctx, struct rpc_call *call)
{
    const struct net_identity *who = rpc_call_peer(call);
    struct metrics *f;
    struct wire_figure *figures;
    char name[160];
    struct buf out;
    enum err e = ERR_NOMEM;

    if (refused(call)) {
        return;
    }
    f = mem_zalloc(sizeof *f);
    figures = mem_array(WIRE_FIGURES_MAX, sizeof *figures);
    log_line(LOG_INFO, "admin", "status", "peer=%s name=%s", who->address,
             log_str(name, sizeof name, who->name));
    buf_init(&out, REPLY_MAX);
    if (f && figures) {
        e = status_put(&out, ctx, f, figures);
    }
    mem_free(figures);
    mem_free(f);
    reply(call, &out, e);
}

/* -- Disconnect -- */

static void on_disconnect(void *ctx, struct rpc_call *call)
{
    const struct net_identity *who = rpc_call_peer(call);
    struct admin *a = ctx;
    struct wire_disconnect ask;
    struct wire_disconnect_reply m;
    char name[160], host[160];
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);
    struct buf out;
    enum err e;

    if (refused(call)) {
        return;
    }
    e = wire_admin_disconnect_decode(&ask, p, n);
    if (e || !ask.host[0]) {
        fail(call, e ? e : ERR_INVALID);
        return;
    }
    m.connections = a->conf.disconnect(a->conf.ctx, ask.host);
    log_line(LOG_WARN, "admin", "disconnect", "peer=%s name=%s host=%s connections=%u",
             who->address, log_str(name, sizeof name, who->name),
             log_str(host, sizeof host, ask.host), (unsigned)m.connections);
    if (m.connections == 0) {
        rpc_fail(call, RPC_NOT_FOUND, 0, "there is no connection of a certificate named '%s'",
                 ask.host);
        return;
    }
    buf_init(&out, REPLY_MAX);
    e = wire_admin_disconnect_reply_encode(&out, &m);
    reply(call, &out, e);
}

/* -- ForgetHost -- */

static void forget_failed(struct rpc_call *call, enum err e, const struct errmsg *why)
{
    enum rpc_code code = e == ERR_NOTFOUND ? RPC_NOT_FOUND
                         : e == ERR_BUSY   ? RPC_FAILED_PRECONDITION
                                           : RPC_INTERNAL;

    if (e == ERR_NOMEM || e == ERR_FULL) {
        fail(call, e);
    } else {
        rpc_fail(call, code, 0, "%s", why->text[0] ? why->text : err_text(e));
    }
}

static void on_forget(void *ctx, struct rpc_call *call)
{
    const struct net_identity *who = rpc_call_peer(call);
    struct admin *a = ctx;
    struct wire_forget ask;
    struct wire_forget_reply m = {0};
    struct errmsg why = {""};
    char name[160], host[160];
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);
    struct buf out;
    enum err e;

    if (refused(call)) {
        return;
    }
    e = wire_admin_forget_decode(&ask, p, n);
    if (e || !ask.host[0]) {
        fail(call, e ? e : ERR_INVALID);
        return;
    }
    e = a->conf.forget(a->conf.ctx, ask.host, &m.hosts, &why);
    log_line(LOG_WARN, "admin", "forget", "peer=%s name=%s host=%s hosts=%u error=%s", who->address,
             log_str(name, sizeof name, who->name), log_str(host, sizeof host, ask.host),
             (unsigned)m.hosts, e ? err_name(e) : "-");
    if (e) {
        forget_failed(call, e, &why);
        return;
    }
    buf_init(&out, REPLY_MAX);
    e = wire_admin_forget_reply_encode(&out, &m);
    reply(call, &out, e);
}

/* -- SetLogLevel -- */

static void on_log_level(void *ctx, struct rpc_call *call)
{
    const struct net_identity *who = rpc_call_peer(call);
    struct wire_log_level ask;
    struct wire_log_level_reply m = {""};
    enum log_level level, before;
    char name[160];
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);
    struct buf out;
    enum err e;

    (void)ctx;
    if (refused(call)) {
        return;
    }
    e = wire_admin_log_level_decode(&ask, p, n);
    if (e || log_level_parse(&level, ask.level) != ERR_OK) {
        rpc_fail(call, RPC_INVALID_ARGUMENT, 0, "a level is error, warn, info or debug");
        return;
    }
    before = log_set_level(LOG_INFO); /* turning the log down leaves a line */
    log_line(LOG_WARN, "admin", "log_level", "peer=%s name=%s level=%s before=%s", who->address,
             log_str(name, sizeof name, who->name), ask.level, log_level_name(before));
    (void)log_set_level(level);
    memcpy(m.before, log_level_name(before), strlen(log_level_name(before)));
    buf_init(&out, REPLY_MAX);
    e = wire_admin_log_level_reply_encode(&out, &m);
    reply(call, &out, e);
}

enum err admin_create(struct admin **out, const struct admin_conf *conf)
{
    struct admin *a = mem_zalloc(sizeof *a);

    if (!a) {
        return ERR_NOMEM;
    }
    a->conf = *conf;
    *out = a;
    return ERR_OK;
}

void admin_destroy(struct admin *a)
{
    mem_free(a);
}

void admin_methods(struct admin *a, struct rpc_method methods[ADMIN_METHODS])
{
    methods[0] = (struct rpc_method){RPC_ADMIN_STATUS, NET_ADMIN, on_status, a};
    methods[1] = (struct rpc_method){RPC_ADMIN_DISCONNECT, NET_ADMIN, on_disconnect, a};
    methods[2] = (struct rpc_method){RPC_ADMIN_SET_LOG_LEVEL, NET_ADMIN, on_log_level, a};
    methods[3] = (struct rpc_method){RPC_ADMIN_FORGET_HOST, NET_ADMIN, on_forget, a};
}
