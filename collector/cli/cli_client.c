#include "collector/cli/cli_client.h"

#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/rpc/rpc.h"

#define REPLY_MAX (4u << 20)
#define PAGES_MAX 10000 /* a server that never ends does not keep us for ever */
#define RETRIES   3
#define PAUSE_MS  1000u         /* between them, unless the collector says */
#define LOOK_NS   (20 * CLK_MS) /* whether to stop */

struct cli_client {
    const struct cli *cli;
    struct tls_config *tls;
    struct rpc_client *client;
    atomic_bool hung_up;
};

enum cli_exit cli_client_exit(enum err e)
{
    switch (e) {
    case ERR_INVALID:
        return CLI_USAGE;
    case ERR_UNREACHABLE:
    case ERR_TIMEOUT:
    case ERR_CLOSED:
        return CLI_UNREACHABLE;
    case ERR_TRUST:
    case ERR_REFUSED:
    case ERR_ACCESS:
    case ERR_UNSUPPORTED: /* by an older collector */
        return CLI_REFUSED;
    default:
        return CLI_FAILED;
    }
}

const char *cli_client_remedy(enum err e, enum tls_cause cause)
{
    static const char *const remedies[] = {
        [TLS_CAUSE_SERVER_AUTHORITY] = "; --ca takes the ca.pem of the collector's authority",
        [TLS_CAUSE_SERVER_NAME] = "; --server-name takes a name that is in its certificate",
        [TLS_CAUSE_SERVER_EXPIRED] = "; the collector needs a new certificate, or a clock is wrong",
        [TLS_CAUSE_REFUSED_REVOKED] =
            "; have a new certificate issued, and give it with --cert and --key",
        [TLS_CAUSE_REFUSED_ROLE] =
            "; queries need a certificate of role query, tail one of role subscribe without a "
            "scope: give it with --cert and --key (tail without --events takes one of role query "
            "too). Or it is another listener's port: queries go to 7421, tail to 7422",
        [TLS_CAUSE_OWN_AUTHORITY] =
            "; --ca, --cert and --key take files of the collector's authority",
        [TLS_CAUSE_REFUSED_AUTHORITY] =
            "; give one of the collector's own authority with --cert and --key",
        [TLS_CAUSE_REFUSED_TIME] = "; have a new certificate issued; or a clock is wrong",
        [TLS_CAUSE_OWN_EXPIRED] = "; have a new certificate issued; or a clock is wrong",
        [TLS_CAUSE_OWN_FUTURE] = "; a clock is wrong",
    };

    if (e == ERR_UNREACHABLE || e == ERR_TIMEOUT || e == ERR_CLOSED) {
        return "; see that the collector runs there, that the port is right (queries 7421, tail "
               "7422), and that no firewall is between";
    }
    if (e == ERR_NOTFOUND) {
        return "; --ca, --cert and --key, the environment or the profile say where they are";
    }
    return e == ERR_TRUST && cause < sizeof remedies / sizeof *remedies && remedies[cause]
               ? remedies[cause]
               : "";
}

enum err cli_client_tls(struct tls_config **out, const struct cli *c, int *code)
{
    const struct cli_settings *s = &c->settings;
    enum tls_cause cause = TLS_CAUSE_NONE;
    struct net_tls_conf conf = {.cause = &cause,
                                .ca = s->ca,
                                .cert = s->cert,
                                .key = s->key,
                                .server_name = s->server_name};
    struct errmsg why = {""};
    enum err e = tls_config_load(out, &conf, false, &why);

    if (e) {
        *code = cli_fail(c, e == ERR_TRUST ? CLI_REFUSED : CLI_FAILED, "%s%s",
                         why.text[0] ? why.text : err_text(e), cli_client_remedy(e, cause));
    }
    return e;
}

enum err cli_client_open(struct cli_client **out, const struct cli *c, int *code)
{
    struct cli_client *l = mem_zalloc(sizeof *l);
    struct net_client_conf conf = {.address = c->settings.collector,
                                   .receive_max = REPLY_MAX + (64u << 10),
                                   .reconnect_min_ns = 100 * CLK_MS,
                                   .reconnect_max_ns = CLK_S};
    struct errmsg why = {""};
    enum err e;

    if (!l) {
        *code = cli_fail(c, CLI_FAILED, "out of memory");
        return ERR_NOMEM;
    }
    l->cli = c;
    e = cli_client_tls(&l->tls, c, code);
    if (e) {
        goto fail;
    }
    conf.tls = l->tls;
    e = rpc_client_open(&l->client, &conf, "procfleet/" PROCFLEET_VERSION, &why);
    if (!e) {
        e = rpc_client_wait(l->client, c->settings.timeout_ns, &why);
    }
    if (e) {
        *code = cli_fail(
            c, cli_client_exit(e), "collector %s%s", why.text[0] ? why.text : c->settings.collector,
            cli_client_remedy(e, l->client ? rpc_client_cause(l->client) : TLS_CAUSE_NONE));
        goto fail;
    }
    *out = l;
    return ERR_OK;

fail:
    cli_client_close(l);
    return e;
}

void cli_client_close(struct cli_client *l)
{
    if (l) {
        rpc_client_close(l->client);
        tls_config_free(l->tls);
        mem_free(l);
    }
}

/* Which exit code the collector's answer stands for. */
static enum cli_exit code_exit(enum rpc_code code)
{
    switch (code) {
    case RPC_INVALID_ARGUMENT:
        return CLI_USAGE;
    case RPC_PERMISSION_DENIED:
    case RPC_UNAUTHENTICATED:
    case RPC_UNIMPLEMENTED:
    case RPC_FAILED_PRECONDITION: /* a frame version it does not speak */
        return CLI_REFUSED;
    case RPC_UNAVAILABLE:
        return CLI_UNREACHABLE;
    default:
        return CLI_FAILED;
    }
}

static const char *answer_remedy(enum rpc_code code)
{
    return code == RPC_UNIMPLEMENTED ? "; it is older than this program, or --collector names "
                                       "another of its listeners than that for queries (7421)"
                                     : "";
}

/* A collector that has let us in is there, whatever it takes for the answer. */
static const char *call_remedy(const struct cli_client *l, enum err e)
{
    return e == ERR_TIMEOUT && rpc_client_connected(l->client)
               ? "; it is connected, but has not answered in time: ask for less, or take a longer "
                 "--timeout"
               : cli_client_remedy(e, rpc_client_cause(l->client));
}

/* Why a call failed; a refusal carries the collector's own sentence. */
static enum err call_problem(const struct cli_client *l, enum err e, const struct rpc_result *r,
                             struct errmsg *why)
{
    struct errmsg problem = {""};

    if (e == ERR_REFUSED) {
        return errmsg_set(why, e, "the collector answers %s: %s%s", frame_code_name(r->code),
                          r->message, answer_remedy(r->code));
    }
    rpc_client_problem(l->client, &problem);
    return errmsg_set(why, e, "collector %s: %s%s%s%s", l->cli->settings.collector, err_text(e),
                      problem.text[0] ? ": " : "", problem.text, call_remedy(l, e));
}

/* -- calls: all go through cli_client_call -- */

static void call_ended(void *ctx)
{
    (void)ctx; /* it is looked at */
}

static bool call_is_stopped(const struct cli_client *l, const struct cli_client_request *q)
{
    return atomic_load(&l->hung_up) || (q->stop && atomic_load(q->stop));
}

static enum err call_try(struct cli_client *l, const struct cli_client_request *q,
                         struct buf *reply, struct rpc_result *result)
{
    struct rpc_pending *p;
    enum err e = rpc_client_begin(&p, l->client, q->method, FRAME_RAW, q->p, q->n, q->timeout_ns,
                                  call_ended, NULL);

    if (e) {
        return e;
    }
    while (q->stop && !rpc_client_ended(p)) {
        if (call_is_stopped(l, q)) {
            rpc_client_hang_up(l->client);
            break;
        }
        os_sleep_ns(LOOK_NS);
    }
    return rpc_client_finish(p, reply, result, NULL);
}

static void call_pause(const struct cli_client *l, const struct cli_client_request *q, uint32_t ms)
{
    int64_t pause_ns = (ms ? ms : PAUSE_MS) * CLK_MS;
    int64_t until = os_mono_ns() + (pause_ns < q->timeout_ns ? pause_ns : q->timeout_ns);

    while (!call_is_stopped(l, q) && os_mono_ns() < until) {
        os_sleep_ns(LOOK_NS);
    }
}

enum err cli_client_call(struct cli_client *l, const struct cli_client_request *q,
                         struct buf *reply, struct rpc_result *result, struct errmsg *why)
{
    enum err e = ERR_OK;

    for (int i = 0; i <= RETRIES; i++) {
        size_t before = reply->n;

        memset(result, 0, sizeof *result);
        e = call_try(l, q, reply, result);
        if (e != ERR_REFUSED || i == RETRIES || call_is_stopped(l, q) ||
            (result->code != RPC_RESOURCE_EXHAUSTED && result->code != RPC_UNAVAILABLE)) {
            break;
        }
        reply->n = before;
        call_pause(l, q, result->retry_after_ms);
    }
    return e ? call_problem(l, e, result, why) : ERR_OK;
}

enum cli_exit cli_client_call_exit(enum err e, const struct rpc_result *result)
{
    return e == ERR_REFUSED ? code_exit(result->code) : cli_client_exit(e);
}

int cli_client_once(const struct cli *c, const char *method, const struct buf *request,
                    struct buf *reply)
{
    const struct cli_client_request q = {method, request->p, request->n, c->settings.timeout_ns,
                                         NULL};
    struct rpc_result result;
    struct errmsg why = {""};
    struct cli_client *l;
    int code = CLI_FAILED;
    enum err e;

    if (request->bad) {
        return cli_fail(c, CLI_FAILED, "%s", err_text(request->bad));
    }
    if (cli_client_open(&l, c, &code) != ERR_OK) {
        return code;
    }
    e = cli_client_call(l, &q, reply, &result, &why);
    cli_client_close(l);
    return e ? cli_fail(c, cli_client_call_exit(e, &result), "%s",
                        why.text[0] ? why.text : err_text(e))
             : CLI_OK;
}

/* -- queries -- */

/* What an older collector has not read it has not heeded. */
static enum err answer_check(const struct wire_query *q, const struct wire_answer *a,
                             struct errmsg *why)
{
    const char *what = wire_query_unknown(q, a->knows);

    return what ? errmsg_set(why, ERR_UNSUPPORTED,
                             "the collector is older than this program and does not know %s: its "
                             "answer is of everything, and is not shown",
                             what)
                : ERR_OK;
}

/* One page into `reply`. */
static enum err page_ask(struct cli_client *l, const char *method, const struct wire_query *q,
                         struct buf *reply, struct rpc_result *result, struct errmsg *why)
{
    struct buf request;
    enum err e;

    buf_init(&request, WIRE_RULES_MAX + (64u << 10));
    e = wire_query_encode(&request, q);
    if (e) {
        e = call_problem(l, e, result, why);
    } else {
        e = cli_client_call(l,
                            &(struct cli_client_request){method, request.p, request.n,
                                                         l->cli->settings.timeout_ns, NULL},
                            reply, result, why);
    }
    buf_fini(&request);
    return e;
}

enum err cli_client_fetch(struct cli_client *l, const char *method, const struct wire_query *q,
                          struct wire_answer **out, struct cli_client_cursor *next,
                          struct errmsg *why)
{
    struct rpc_result result = {.code = RPC_OK};
    struct buf reply;
    enum err e = ERR_OK;

    if (!rpc_client_connected(l->client)) {
        e = rpc_client_wait(l->client, l->cli->settings.timeout_ns, why);
        if (e) {
            return e;
        }
    }
    buf_init(&reply, REPLY_MAX);
    e = page_ask(l, method, q, &reply, &result, why);
    if (!e) {
        e = wire_answer_decode(out, reply.p, reply.n);
        e = e ? call_problem(l, e, &result, why) : answer_check(q, *out, why);
        if (e == ERR_UNSUPPORTED) {
            wire_answer_free(*out);
        }
    }
    buf_fini(&reply);
    if (!e && next) {
        next->n = result.more ? result.cursor_n : 0;
        memcpy(next->bytes, result.cursor, next->n);
    }
    return e;
}

/* Hands the page on; *rows: how many rows or events it had. Errors: those of wire_answer_decode,
 * ERR_UNSUPPORTED (why says it) */
static enum err page_take(const struct wire_query *q, struct buf *reply,
                          void (*page)(void *ctx, const struct wire_answer *a),
                          void (*note)(void *ctx, struct str text), void *ctx, size_t *rows,
                          bool *partial, struct errmsg *why)
{
    struct wire_answer *a;
    enum err e = wire_answer_decode(&a, reply->p, reply->n);

    if (e) {
        return e;
    }
    e = answer_check(q, a, why);
    if (e) {
        wire_answer_free(a);
        return e;
    }
    *rows = a->n_rows + a->n_events + a->n_coverage;
    *partial = *partial || a->partial;
    page(ctx, a);
    for (size_t i = 0; i < a->n_notes; i++) {
        note(ctx, a->notes[i]);
    }
    wire_answer_free(a);
    return ERR_OK;
}

int cli_client_ask(struct cli_client *l, const char *method, struct wire_query *q,
                   void (*page)(void *ctx, const struct wire_answer *a),
                   void (*note)(void *ctx, struct str text), void *ctx)
{
    uint32_t left = q->limit;
    uint8_t cursor[sizeof((struct rpc_result *)0)->cursor];
    bool partial = false, more = true;
    struct buf reply;
    int code = CLI_OK;

    buf_init(&reply, REPLY_MAX);
    for (int i = 0; more && left > 0 && i < PAGES_MAX; i++) {
        struct rpc_result result = {.code = RPC_OK};
        struct errmsg why = {""};
        size_t rows = 0;
        enum err e;

        q->limit = left < WIRE_ROWS_MAX ? left : WIRE_ROWS_MAX;
        buf_reset(&reply);
        e = page_ask(l, method, q, &reply, &result, &why);
        if (!e) {
            e = page_take(q, &reply, page, note, ctx, &rows, &partial, &why);
            e = e && e != ERR_UNSUPPORTED ? call_problem(l, e, &result, &why) : e;
        }
        if (e) {
            code = cli_fail(l->cli, cli_client_call_exit(e, &result), "%s", why.text);
            break;
        }
        left = rows < left ? left - (uint32_t)rows : 0;
        more = result.more;
        memcpy(cursor, result.cursor, result.cursor_n);
        q->cursor = (struct str){(const char *)cursor, result.cursor_n};
    }
    q->cursor = (struct str){NULL, 0};
    buf_fini(&reply);
    return code == CLI_OK && partial ? CLI_PARTIAL : code;
}

/* -- the rest -- */

bool cli_client_is_admin(const struct cli_client *l)
{
    struct net_identity own;

    tls_config_identity(l->tls, &own);
    return (own.roles & NET_ADMIN) != 0;
}

void cli_client_own_name(const struct cli_client *l, char *out, size_t size)
{
    struct net_identity who;

    tls_config_identity(l->tls, &who);
    snprintf(out, size, "%s", who.name);
}

void cli_client_identity(const struct cli_client *l, struct net_identity *out)
{
    tls_config_identity(l->tls, out);
}

enum err cli_client_ready(struct cli_client *l, int64_t timeout_ns, struct errmsg *why)
{
    struct errmsg problem = {""};
    enum err e;

    if (rpc_client_connected(l->client)) {
        return ERR_OK;
    }
    e = rpc_client_wait(l->client, timeout_ns, &problem);
    return e ? errmsg_set(why, e, "collector %s%s",
                          problem.text[0] ? problem.text : l->cli->settings.collector,
                          cli_client_remedy(e, rpc_client_cause(l->client)))
             : ERR_OK;
}

bool cli_client_is_refused(const struct cli_client *l)
{
    switch (rpc_client_connected(l->client) ? TLS_CAUSE_NONE : rpc_client_cause(l->client)) {
    case TLS_CAUSE_REFUSED_REVOKED:
    case TLS_CAUSE_REFUSED_ROLE:
    case TLS_CAUSE_REFUSED_AUTHORITY:
    case TLS_CAUSE_REFUSED_TIME:
    case TLS_CAUSE_OWN_EXPIRED:
        return true;
    default:
        return false;
    }
}

void cli_client_hang_up(struct cli_client *l)
{
    atomic_store(&l->hung_up, true);
    rpc_client_hang_up(l->client);
}
