#include "collector/console/console_door.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"

#define LINK_MAX 600u

struct console_door {
    struct console_door_conf conf;
    uint64_t tokens_seen; /* hash of the file as it was read last, or of why it could not be */
    _Atomic(struct http_door *) http; /* NULL: off, or not yet */
};

/* -- questions -- */

/* Who is answered. */
struct asked {
    http_ask_done done;
    void *ctx;
};

static void on_reply(void *ctx, const struct wire_web_reply *reply)
{
    struct asked asked = *(struct asked *)ctx;

    mem_free(ctx);
    asked.done(asked.ctx, &(struct http_ask_answer){.status = reply->status,
                                                    .type = reply->type,
                                                    .encoding = reply->encoding,
                                                    .etag = reply->etag,
                                                    .body = reply->body,
                                                    .immutable = reply->immutable,
                                                    .retry_after_s = reply->retry_after_s});
}

/* The page is for everybody, and asked for in nobody's name. */
static void door_ask(void *ctx, const struct http_ask_question *q, http_ask_done done,
                     void *done_ctx)
{
    const struct wire_web_request web = {.path = q->path,
                                         .query = q->query,
                                         .accept = q->accept,
                                         .accept_encoding = q->accept_encoding,
                                         .if_none_match = q->if_none_match};
    struct net_identity who = *q->who;
    struct console_door *d = ctx;
    struct asked *asked = mem_alloc(sizeof *asked);

    if (!asked) {
        done(done_ctx, &(struct http_ask_answer){.status = 503, .retry_after_s = 1});
        return;
    }
    *asked = (struct asked){done, done_ctx};
    if (!who.roles) {
        who.roles = NET_QUERY;
    }
    console_ask(d->conf.console, &who, &web, on_reply, asked);
}

static const char *door_keep(void *ctx, const struct net_identity *who)
{
    const struct console_door *d = ctx;

    return d->conf.judge ? d->conf.judge(d->conf.judge_ctx, who) : NULL;
}

/* -- the log -- */

static void door_note(void *ctx, const struct http_door_note *note)
{
    static const char *const events[] = {[HTTP_DOOR_SESSION] = "session",
                                         [HTTP_DOOR_END] = "end",
                                         [HTTP_DOOR_REFUSED] = "refused",
                                         [HTTP_DOOR_ASKED] = "asked"};
    const struct console_door *d = ctx;
    char name[200], scope[400], reason[800], user[200];

    if (note->event == HTTP_DOOR_ASKED && !d->conf.audit) {
        return;
    }
    log_line(
        LOG_INFO, "console", events[note->event], "peer=%s name=%s scope=%s reason=%s user=%s",
        note->who->address[0] ? note->who->address : "-",
        log_str(name, sizeof name, note->who->name), log_str(scope, sizeof scope, note->who->scope),
        log_quote(reason, sizeof reason, note->reason), log_quote(user, sizeof user, note->user));
}

/* -- links -- */

static void answer_link(struct rpc_call *call, const char *link)
{
    const struct wire_web_reply reply = {
        .status = 200, .type = str_make("text/plain"), .body = str_make(link)};
    struct buf out;
    enum err e;

    buf_init(&out, 4096);
    e = wire_web_reply_encode(&out, &reply);
    if (e) {
        rpc_fail(call, RPC_RESOURCE_EXHAUSTED, 1000, "%s", err_text(e));
    } else {
        rpc_answer(call, out.p, out.n, NULL);
    }
    buf_fini(&out);
}

static void on_ticket(void *ctx, struct rpc_call *call)
{
    struct console_door *d = ctx;
    struct http_door *http = atomic_load(&d->http);
    char ticket[HTTP_SESSION_TEXT], link[LINK_MAX];
    enum err e;

    if (!http) {
        rpc_fail(call, RPC_FAILED_PRECONDITION, 0,
                 "the collector has no console of its own: listen.console is not set");
        return;
    }
    e = http_door_ticket(http, rpc_call_peer(call), ticket);
    if (e) {
        rpc_fail(call, RPC_RESOURCE_EXHAUSTED, 1000, "no link: %s", err_text(e));
        return;
    }
    if (d->conf.url[0]) {
        (void)snprintf(link, sizeof link, "%s/#ticket=%s", d->conf.url, ticket);
    } else {
        (void)snprintf(link, sizeof link, "http://%.*s:%u/#ticket=%s",
                       (int)(strrchr(d->conf.address, ':') - d->conf.address), d->conf.address,
                       http_door_port(http), ticket);
    }
    answer_link(call, link);
}

void console_door_method(struct console_door *d, struct rpc_method *out)
{
    *out = (struct rpc_method){RPC_QUERY_CONSOLE_TICKET, NET_QUERY | NET_ADMIN, on_ticket, d};
}

/* -- life -- */

static enum err read_tokens(struct console_door *d, struct http_door *http, bool *changed,
                            struct errmsg *why)
{
    struct errmsg reason = {""};
    enum err e =
        http_door_token_file(http, d->conf.tokens, true, &d->tokens_seen, changed, &reason);

    return e ? errmsg_set(why, e, "console.tokens: %s", reason.text) : ERR_OK;
}

/* As with certificates, what cannot be read leaves what is in use. */
static void door_tokens_again(void *ctx)
{
    struct console_door *d = ctx;
    struct http_door *http = atomic_load(&d->http);
    struct errmsg why = {""};
    char text[800];
    bool changed;
    enum err e;

    if (!http || !d->conf.tokens) {
        return;
    }
    e = read_tokens(d, http, &changed, &why);
    if (changed && e) {
        log_line(LOG_WARN, "console", "tokens_refused", "reason=%s",
                 log_quote(text, sizeof text, why.text));
    } else if (changed) {
        log_line(LOG_INFO, "console", "tokens_read", "path=%s",
                 log_quote(text, sizeof text, d->conf.tokens));
    }
}

/* A scheme and a host, nothing behind them; or empty. */
static bool url_is_origin(const char *url)
{
    const char *host = strncmp(url, "https://", 8) == 0  ? url + 8
                       : strncmp(url, "http://", 7) == 0 ? url + 7
                                                         : NULL;

    return !url[0] ||
           (host && host[0] && strlen(url) < LINK_MAX - 100 && !strpbrk(host, "/?#@\\ \t\"'<>"));
}

enum err console_door_start(struct console_door *d, struct errmsg *why)
{
    const struct http_door_conf conf = {.address = d->conf.address,
                                        .names = d->conf.names,
                                        .n_names = d->conf.n_names,
                                        .url = d->conf.url,
                                        .user_header = d->conf.user_header,
                                        .ask = door_ask,
                                        .note = door_note,
                                        .keep = door_keep,
                                        .each_second = door_tokens_again,
                                        .ctx = d};
    struct http_door *http = NULL;
    bool changed;
    enum err e;

    if (!d->conf.address[0]) {
        return ERR_OK;
    }
    if (!url_is_origin(d->conf.url)) {
        return errmsg_set(why, ERR_INVALID,
                          "console.url: '%s' is not like https://console.example.org", d->conf.url);
    }
    e = http_door_start(&http, &conf, why);
    if (!e && d->conf.tokens) {
        e = read_tokens(d, http, &changed, why);
    }
    if (e) {
        http_door_stop(http);
        return e;
    }
    atomic_store(&d->http, http);
    return ERR_OK;
}

enum err console_door_create(struct console_door **out, const struct console_door_conf *conf)
{
    struct console_door *d = mem_zalloc(sizeof *d);

    if (!d) {
        return ERR_NOMEM;
    }
    d->conf = *conf;
    *out = d;
    return ERR_OK;
}

void console_door_destroy(struct console_door *d)
{
    if (d) {
        http_door_stop(atomic_load(&d->http));
        mem_free(d);
    }
}

void console_door_review(struct console_door *d)
{
    struct http_door *http = atomic_load(&d->http);

    if (http) {
        http_door_review(http);
    }
}

bool console_door_stats(const struct console_door *d, struct http_door_stats *out)
{
    struct http_door *http = atomic_load(&d->http);

    if (http) {
        http_door_stats(http, out);
    }
    return http != NULL;
}

unsigned console_door_port(const struct console_door *d)
{
    struct http_door *http = atomic_load(&d->http);

    return http ? http_door_port(http) : 0;
}
