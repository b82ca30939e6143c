#include "collector/cli/console_relay.h"

#include <inttypes.h>
#include <string.h>

#include "collector/cli/cli_client.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/text/jsonw.h"
#include "common/wire/wire_web.h"

#define UPDATES     "/api/v1/updates"
#define WAIT_MAX_NS (25 * CLK_S)   /* of an update */
#define LOST_NS     (500 * CLK_MS) /* for a connection that is made just now */
#define REQUEST_MAX ((size_t)32 << 10)
#define REPLY_MAX   ((size_t)4 << 20)

/* A question that waits for a thread. */
struct asked {
    struct asked *next;
    struct buf request;
    bool api;
    http_ask_done done;
    void *done_ctx;
};

/* A connection, the threads that ask over it, and what waits for them. */
struct line {
    struct console_relay *relay;
    struct cli_client *client;
    int64_t timeout_ns;
    struct asked *first, **last; /* guarded by the relay's lock */
    struct os_thread *threads[CONSOLE_RELAY_CALLS];
};

struct console_relay {
    const struct cli *cli;
    struct os_mutex *lock; /* guards the queues and what follows */
    struct os_cond *wake;
    bool stopping;
    struct line questions, updates;
};

/* -- answers of our own -- */

static void answer_text(const struct asked *a, unsigned status, const char *code,
                        const char *message, uint32_t retry_s)
{
    struct http_ask_answer answer = {.status = status, .retry_after_s = retry_s};
    struct jsonw j;
    struct buf text;

    buf_init(&text, REQUEST_MAX);
    if (a->api) {
        jsonw_init_buf(&j, &text);
        j.compact = true;
        jsonw_object(&j, NULL);
        jsonw_text(&j, "code", str_make(code));
        jsonw_text(&j, "message", str_make(message));
        jsonw_text(&j, "details", str_make(""));
        jsonw_end(&j);
        answer.type = str_make("application/json");
    } else {
        buf_printf(&text, "%s\n", message);
        answer.type = str_make("text/plain; charset=utf-8");
    }
    answer.body = (struct str){(const char *)text.p, text.n};
    a->done(a->done_ctx, &answer);
    buf_fini(&text);
}

/* What the collector, or the way to it, says instead of an answer. */
static unsigned refusal_status(const struct line *line, enum err e, const struct rpc_result *result)
{
    if (cli_client_is_refused(line->client)) {
        return 401;
    }
    if (e == ERR_TIMEOUT) {
        return 504;
    }
    if (e != ERR_REFUSED) {
        return 503;
    }
    switch (result->code) {
    case RPC_INVALID_ARGUMENT:
        return 400;
    case RPC_UNAUTHENTICATED:
        return 401;
    case RPC_PERMISSION_DENIED:
        return 403;
    case RPC_NOT_FOUND:
        return 404;
    case RPC_RESOURCE_EXHAUSTED:
        return 429;
    case RPC_UNIMPLEMENTED:
        return 501;
    case RPC_DEADLINE_EXCEEDED:
        return 504;
    default:
        return 503;
    }
}

static const char *status_code(unsigned status)
{
    switch (status) {
    case 400:
        return "INVALID_ARGUMENT";
    case 401:
        return "UNAUTHENTICATED";
    case 403:
        return "PERMISSION_DENIED";
    case 404:
        return "NOT_FOUND";
    case 429:
        return "RESOURCE_EXHAUSTED";
    case 501:
        return "UNIMPLEMENTED";
    case 504:
        return "DEADLINE_EXCEEDED";
    default:
        return "UNAVAILABLE";
    }
}

static void answer_refusal(const struct line *line, const struct asked *a, enum err e,
                           const struct rpc_result *result, const struct errmsg *why)
{
    unsigned status = refusal_status(line, e, result);

    answer_text(a, status, status_code(status), why->text[0] ? why->text : err_text(e),
                status == 429 || status == 503 ? 1 + result->retry_after_ms / 1000 : 0);
}

static void answer_reply(const struct asked *a, const struct buf *reply)
{
    struct wire_web_reply *web;
    enum err e = wire_web_reply_decode(&web, reply->p, reply->n);

    if (e) {
        answer_text(a, 503, "UNAVAILABLE", "the collector's answer cannot be read", 0);
        return;
    }
    a->done(a->done_ctx, &(struct http_ask_answer){.status = web->status,
                                                   .type = web->type,
                                                   .encoding = web->encoding,
                                                   .etag = web->etag,
                                                   .body = web->body,
                                                   .immutable = web->immutable,
                                                   .retry_after_s = web->retry_after_s});
    wire_web_reply_free(web);
}

/* -- threads -- */

static void relay_ask(struct line *line, const struct asked *a)
{
    const struct cli_client_request q = {RPC_QUERY_WEB, a->request.p, a->request.n,
                                         line->timeout_ns, NULL};
    struct rpc_result result = {.code = RPC_OK};
    struct errmsg why = {""};
    struct buf reply;
    enum err e = cli_client_ready(line->client, LOST_NS, &why);

    buf_init(&reply, REPLY_MAX);
    if (!e) {
        e = cli_client_call(line->client, &q, &reply, &result, &why);
    } else if (e == ERR_TIMEOUT) {
        e = ERR_UNREACHABLE;
    }
    if (e) {
        answer_refusal(line, a, e, &result, &why);
    } else {
        answer_reply(a, &reply);
    }
    buf_fini(&reply);
}

static struct asked *line_next(struct line *line)
{
    struct console_relay *r = line->relay;
    struct asked *a;

    os_mutex_lock(r->lock);
    while (!line->first && !r->stopping) {
        os_cond_wait(r->wake);
    }
    a = line->first;
    if (a) {
        line->first = a->next;
        line->last = line->first ? line->last : &line->first;
    }
    os_mutex_unlock(r->lock);
    return a;
}

static void line_work(void *arg)
{
    struct line *line = arg;
    struct asked *a;

    while ((a = line_next(line)) != NULL) {
        relay_ask(line, a); /* at once and in vain when we stop */
        buf_fini(&a->request);
        mem_free(a);
    }
}

void console_relay_ask(void *ctx, const struct http_ask_question *q, http_ask_done done,
                       void *done_ctx)
{
    const struct wire_web_request web = {.path = q->path,
                                         .query = q->query,
                                         .accept = q->accept,
                                         .accept_encoding = q->accept_encoding,
                                         .if_none_match = q->if_none_match};
    struct console_relay *r = ctx;
    struct line *line = str_eq(q->path, str_make(UPDATES)) ? &r->updates : &r->questions;
    struct asked *a = mem_zalloc(sizeof *a), none = {.done = done, .done_ctx = done_ctx};
    enum err e = a ? ERR_OK : ERR_NOMEM;

    none.api = q->path.n > 5 && memcmp(q->path.p, "/api/", 5) == 0;
    if (!e) {
        *a = none;
        buf_init(&a->request, REQUEST_MAX);
        e = wire_web_request_encode(&a->request, &web);
    }
    if (e) {
        if (a) {
            buf_fini(&a->request);
            mem_free(a);
        }
        answer_text(&none, 503, "UNAVAILABLE", err_text(e), 1);
        return;
    }
    os_mutex_lock(r->lock);
    *line->last = a;
    line->last = &a->next;
    os_cond_wake_all(r->wake);
    os_mutex_unlock(r->lock);
}

const char *console_relay_keep(void *ctx, const struct net_identity *who)
{
    const struct console_relay *r = ctx;

    (void)who;
    return cli_client_is_refused(r->questions.client) ? "the collector refuses the certificate"
                                                      : NULL;
}

void console_relay_identity(const struct console_relay *r, struct net_identity *out)
{
    cli_client_identity(r->questions.client, out);
}

/* -- start and stop -- */

static enum err line_start(struct line *line, struct console_relay *r, int64_t timeout_ns,
                           int *code)
{
    enum err e;

    line->relay = r;
    line->timeout_ns = timeout_ns < RPC_TIMEOUT_MAX_NS ? timeout_ns : RPC_TIMEOUT_MAX_NS;
    line->last = &line->first;
    e = cli_client_open(&line->client, r->cli, code);
    for (size_t i = 0; i < CONSOLE_RELAY_CALLS && !e; i++) {
        e = os_thread_start(&line->threads[i], "relay", line_work, line);
        if (e) {
            *code = cli_fail(r->cli, CLI_FAILED, "%s", err_text(e));
        }
    }
    return e;
}

static void line_stop(struct line *line)
{
    if (line->client) {
        cli_client_hang_up(line->client);
    }
    for (size_t i = 0; i < CONSOLE_RELAY_CALLS; i++) {
        os_thread_join(line->threads[i]);
    }
    cli_client_close(line->client);
}

enum err console_relay_start(struct console_relay **out, const struct cli *c, int *code)
{
    struct console_relay *r = mem_zalloc(sizeof *r);
    enum err e = r ? os_mutex_create(&r->lock) : ERR_NOMEM;

    *code = CLI_FAILED;
    if (!e) {
        r->cli = c;
        e = os_cond_create(&r->wake, r->lock);
    }
    if (e) {
        *code = cli_fail(c, CLI_FAILED, "%s", err_text(e));
    }
    if (!e) {
        e = line_start(&r->questions, r, c->settings.timeout_ns, code);
    }
    if (!e) {
        e = line_start(&r->updates, r, c->settings.timeout_ns + WAIT_MAX_NS, code);
    }
    if (e) {
        console_relay_stop(r);
        return e;
    }
    *out = r;
    return ERR_OK;
}

void console_relay_stop(struct console_relay *r)
{
    if (!r) {
        return;
    }
    if (r->wake) {
        os_mutex_lock(r->lock);
        r->stopping = true;
        os_cond_wake_all(r->wake);
        os_mutex_unlock(r->lock);
        line_stop(&r->questions);
        line_stop(&r->updates);
    }
    os_cond_destroy(r->wake);
    os_mutex_destroy(r->lock);
    mem_free(r);
}
