/* Polls, prints, flushes, keeps the cursor, polls with it. Of a durable subscription the cursor
 * is a file: killed between the flush and the cursor, the next run prints those lines again, and
 * the file says how many lines were printed up to it, so that who reads them can tell. Without a
 * name it begins with now and is kept in memory. */
#include <string.h>

#include "collector/cli/tail.h"
#include "collector/cli/tail_cursor.h"
#include "common/base/clk.h"
#include "common/base/plural.h"
#include "common/os/os.h"
#include "common/wire/wire_feed.h"

#define REPLY_MAX (4u << 20)
#define ITEMS_MAX 1024u

struct durable {
    struct tail *t;
    struct tail_cursor cursor;
    uint64_t before; /* lines of earlier runs */
    struct cli_client *link;
    struct wire_poll poll;
    bool lost; /* the connection */
    uint64_t dropped;
};

static void choose(struct durable *d, const char *name, bool from_oldest)
{
    const struct wire_query *q = &d->t->q;
    struct wire_filter *f = &d->poll.filter;

    d->poll.name = str_make(name ? name : "");
    d->poll.from_oldest = from_oldest;
    d->poll.has_filter = true;
    if (q->host.n) {
        f->hosts[f->n_hosts++] = q->host;
    }
    f->program = q->name;
    f->kinds = q->kinds;
    f->samples = f->no_events = d->t->samples;
}

/* How long a poll may wait: as long as it can, or up to the end. */
static uint32_t wait_ms(const struct tail *t)
{
    int64_t left = t->end_ns ? (t->end_ns - os_mono_ns()) / CLK_MS : WIRE_POLL_WAIT_MAX_MS;

    return left <= 0 ? 0 : left < WIRE_POLL_WAIT_MAX_MS ? (uint32_t)left : WIRE_POLL_WAIT_MAX_MS;
}

static enum err ask(struct durable *d, struct wire_poll_reply **out, struct rpc_result *result,
                    struct errmsg *why)
{
    const struct tail *t = d->t;
    struct buf request, reply;
    enum err e;

    d->poll.cursor = (struct str){(const char *)d->cursor.bytes, d->cursor.n};
    d->poll.wait_ms = wait_ms(t);
    d->poll.max = t->left < ITEMS_MAX ? (uint32_t)t->left : ITEMS_MAX;
    buf_init(&request, 64u << 10);
    buf_init(&reply, REPLY_MAX);
    e = wire_feed_poll_encode(&request, &d->poll);
    if (!e) {
        e = cli_client_call(d->link,
                            &(struct cli_client_request){
                                RPC_QUERY_POLL, request.p, request.n,
                                d->poll.wait_ms * CLK_MS + t->c->settings.timeout_ns, t->stop},
                            &reply, result, why);
    }
    if (!e) {
        e = wire_feed_poll_reply_decode(out, reply.p, reply.n);
    }
    buf_fini(&request);
    buf_fini(&reply);
    return e;
}

/* Prints, flushes, keeps the cursor: in this order. Errors: ERR_END, those of tail_cursor_write */
static enum err take(struct durable *d, const struct wire_poll_reply *reply, struct errmsg *why)
{
    struct tail *t = d->t;
    bool end = false;
    enum err e = ERR_OK;

    if (reply->dropped_now) {
        d->dropped += reply->dropped_now;
        cli_tell(t->c, "up to %llu %s asked for", (unsigned long long)reply->dropped_now,
                 plural(reply->dropped_now, "message was dropped before it was",
                        "messages were dropped before they were"));
    }
    for (size_t i = 0; i < reply->n_updates && !e; i++) {
        e = tail_print(t, &reply->updates[i], INT64_MIN);
        if (e == ERR_END && t->left == 0) { /* the rest of the reply has no wanted line */
            end = true;
            e = ERR_OK;
            break;
        }
    }
    if (e || fflush(stdout) != 0 || ferror(stdout)) {
        return e ? e : ERR_END; /* what was not printed is not done with */
    }
    if (reply->cursor.n != d->cursor.n ||
        memcmp(reply->cursor.p, d->cursor.bytes, d->cursor.n) != 0) {
        d->cursor.n = reply->cursor.n;
        memcpy(d->cursor.bytes, reply->cursor.p, reply->cursor.n);
        d->cursor.lines = d->before + t->lines;
        e = d->cursor.path ? tail_cursor_write(&d->cursor, why) : ERR_OK;
    }
    return e ? e : end ? ERR_END : ERR_OK;
}

/* Says what is wrong, once. Who is not asked to come again has to do something first. */
static bool passes(struct durable *d, enum err e, const struct rpc_result *result,
                   const struct errmsg *why)
{
    bool passing = e == ERR_UNREACHABLE || e == ERR_TIMEOUT ||
                   (e == ERR_REFUSED &&
                    (result->code == RPC_UNAVAILABLE ||
                     (result->code == RPC_RESOURCE_EXHAUSTED && result->retry_after_ms > 0)));

    if (passing && !d->lost) {
        cli_tell(d->t->c, "%s; trying again", why->text[0] ? why->text : err_text(e));
        d->lost = true;
    }
    return passing;
}

static int follow(struct durable *d)
{
    struct tail *t = d->t;

    while (!tail_over(t)) {
        struct rpc_result result = {.code = RPC_OK};
        struct wire_poll_reply *reply;
        struct errmsg why = {""};
        enum err e = ask(d, &reply, &result, &why);

        if (e == ERR_CLOSED || (e && passes(d, e, &result, &why))) {
            continue;
        }
        if (e) {
            return cli_fail(t->c, cli_client_call_exit(e, &result), "%s",
                            why.text[0] ? why.text : err_text(e));
        }
        if (d->lost) {
            cli_tell(t->c, "connected again");
            d->lost = false;
        }
        e = take(d, reply, &why);
        wire_feed_poll_reply_free(reply);
        if (e == ERR_END) {
            break;
        }
        if (e) {
            return cli_fail(t->c, CLI_FAILED, "%s", why.text[0] ? why.text : err_text(e));
        }
    }
    return d->dropped ? CLI_PARTIAL : CLI_OK;
}

int tail_poll(struct tail *t, const char *name, bool from_oldest)
{
    struct durable d = {.t = t};
    char owner[sizeof((struct net_identity *)0)->name];
    struct errmsg why = {""};
    int code;
    enum err e = ERR_OK;

    choose(&d, name, from_oldest);
    if (cli_client_open(&d.link, t->c, &code) != ERR_OK) {
        return code;
    }
    if (name) {
        cli_client_own_name(d.link, owner, sizeof owner);
        e = tail_cursor_open(&d.cursor, t->c->settings.collector, owner, name, &why);
    }
    if (e) {
        code = cli_fail(t->c, e == ERR_USAGE ? CLI_USAGE : CLI_FAILED, "%s",
                        why.text[0] ? why.text : err_text(e));
    } else {
        d.before = d.cursor.lines;
        code = follow(&d);
    }
    tail_cursor_close(&d.cursor);
    cli_client_close(d.link);
    return code;
}
