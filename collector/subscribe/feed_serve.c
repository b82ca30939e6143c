/* Handlers answer at once what they can. A poll that finds nothing and may wait goes to a list of
 * its own, looked through by one thread whenever the feed has something, and when a wait is over.
 *
 *   handler: try --- something, loss, error, or no time to wait ---> answer
 *              \--- nothing --> waiting list --> thread: try again --> answer
 *
 * `lock` guards the list and the flags, also those of its entries; the rest of an entry belongs to
 * the handler until it is in the list and to the thread from then on. Nothing is tried or answered
 * under it. Who waits has a place until it is answered; a certificate's name has only some of them.
 * A poll that is repeated from another connection while the first one waits ends the first:
 * who was killed and comes back leaves nothing behind. */
#include "collector/subscribe/feed_serve.h"

#include <assert.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/glob.h"
#include "common/base/heartbeat.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"

#define MAY_READ    (NET_SUBSCRIBE | NET_QUERY | NET_ADMIN)
#define MEMORY_MAX  ((size_t)32 << 20) /* of one poll */
#define REPLY_MAX   (4u << 20)
#define FETCH_BYTES (2u << 20)     /* of messages; one more may go beyond */
#define MARGIN_NS   (250 * CLK_MS) /* an answer is on its way before its caller gives up */
#define CROWDED_MS  1000u
#define DISK_MS     5000u
#define LOOK_NS     (60 * CLK_S) /* for subscriptions that are not polled */

struct waiting {
    feed_serve_done done;
    void *ctx;
    char name[sizeof((struct net_identity *)0)->name]; /* of the certificate, as */
    char scope[sizeof((struct net_identity *)0)->scope];
    const struct wire_poll *poll; /* the asker's */
    struct subscriptions_cursor seen;
    int64_t until_ns; /* monotonic */
    bool fresh;       /* the feed may have grown since it was tried */
    bool over;        /* the same is asked again */
};

struct feed_serve {
    struct journal *journal;
    struct subscriptions *roster;
    struct os_thread *thread;
    struct heartbeat round; /* the thread's */

    struct os_mutex *lock; /* guards what follows */
    struct os_cond *changed;
    bool stopping;
    bool grown; /* the feed, since the thread looked */
    bool look;  /* one of the list wants to be looked at */
    size_t n;
    struct waiting *list[FEED_WAITING_MAX];
};

/* -- answers -- */

static enum rpc_code reply_code(enum err e)
{
    switch (e) {
    case ERR_INVALID:
    case ERR_CORRUPT:
        return RPC_INVALID_ARGUMENT;
    case ERR_NOTFOUND:
        return RPC_NOT_FOUND;
    case ERR_FULL:
    case ERR_NOMEM:
        return RPC_RESOURCE_EXHAUSTED;
    case ERR_BUSY:
    case ERR_IO:
    case ERR_NOSPACE:
    case ERR_ACCESS:
    case ERR_READONLY:
        return RPC_UNAVAILABLE;
    default:
        return RPC_INTERNAL;
    }
}

static uint32_t reply_retry_ms(enum err e)
{
    return e == ERR_BUSY || e == ERR_NOMEM    ? CROWDED_MS
           : reply_code(e) == RPC_UNAVAILABLE ? DISK_MS
                                              : 0;
}

static void reply_send(struct rpc_call *call, enum err e, const struct buf *out,
                       const struct rpc_answer_opt *opt)
{
    if (e) {
        rpc_fail(call, reply_code(e), reply_retry_ms(e), "%s", err_text(e));
    } else {
        rpc_answer(call, out->p, out->n, opt);
    }
}

/* -- Poll -- */

static void waiting_end(const struct waiting *w, const struct feed_serve_end *end)
{
    w->done(w->ctx, end);
}

static void waiting_fail(const struct waiting *w, enum err e, const struct errmsg *why)
{
    waiting_end(w, &(struct feed_serve_end){.code = reply_code(e),
                                            .retry_ms = reply_retry_ms(e),
                                            .message = why->text[0] ? why->text : err_text(e)});
}

static void waiting_stop(const struct waiting *w)
{
    waiting_end(w, &(struct feed_serve_end){.code = RPC_UNAVAILABLE,
                                            .retry_ms = CROWDED_MS,
                                            .message = "the collector is stopping"});
}

/* Answers unless there is nothing and `may_wait`. Returns whether it answered. */
static bool poll_try(struct feed_serve *s, struct waiting *w, bool may_wait)
{
    const struct subscriptions_peer peer = {w->name, w->scope};
    struct wire_poll_reply reply;
    struct errmsg why = {""};
    struct arena memory;
    bool answered = true;
    enum err e;

    arena_init(&memory, MEMORY_MAX);
    e = subscriptions_poll(s->roster, &peer, w->poll, &w->seen, &reply, &memory, &why);
    if (e && e != ERR_END) {
        waiting_fail(w, e, &why);
    } else if (e == ERR_END && may_wait) {
        answered = false;
    } else {
        waiting_end(w, &(struct feed_serve_end){.code = RPC_OK, .reply = &reply});
    }
    arena_fini(&memory);
    return answered;
}

static bool waiting_same_name(const struct waiting *a, const struct waiting *b)
{
    return strcmp(a->name, b->name) == 0;
}

static bool waiting_same_subscription(const struct waiting *a, const struct waiting *b)
{
    return a->poll->name.n && str_eq(a->poll->name, b->poll->name) && waiting_same_name(a, b);
}

/* Those of the same certificate's name that go on waiting. */
static size_t waiting_count_own(const struct feed_serve *s, const struct waiting *w)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++) {
        n += !s->list[i]->over && waiting_same_name(s->list[i], w);
    }
    return n;
}

/* Errors: ERR_FULL (for all), ERR_BUSY (for this name), ERR_CLOSED: `w` stays the caller's */
static enum err waiting_add(struct feed_serve *s, struct waiting *w)
{
    enum err e = ERR_OK;

    os_mutex_lock(s->lock);
    for (size_t i = 0; i < s->n; i++) {
        s->list[i]->over = s->list[i]->over || waiting_same_subscription(s->list[i], w);
    }
    if (s->stopping) {
        e = ERR_CLOSED;
    } else if (s->n == FEED_WAITING_MAX) {
        e = ERR_FULL;
    } else if (waiting_count_own(s, w) >= FEED_WAITING_EACH) {
        e = ERR_BUSY;
    } else {
        w->fresh = true;
        s->list[s->n++] = w;
    }
    s->look = true;
    os_cond_wake(s->changed);
    os_mutex_unlock(s->lock);
    return e;
}

static void poll_refuse(const struct waiting *w, enum err e)
{
    struct errmsg why = {""};

    if (e == ERR_CLOSED) {
        waiting_stop(w);
        return;
    }
    err_ignore(e == ERR_FULL
                   ? errmsg_set(&why, e,
                                "there is nothing yet, and %u polls wait already: ask again later",
                                FEED_WAITING_MAX)
                   : errmsg_set(&why, e,
                                "there is nothing yet, and %u polls of this certificate's name "
                                "wait already: ask again later",
                                FEED_WAITING_EACH));
    waiting_end(w, &(struct feed_serve_end){.code = RPC_RESOURCE_EXHAUSTED,
                                            .retry_ms = CROWDED_MS,
                                            .message = why.text});
}

void feed_serve_poll(struct feed_serve *s, const struct net_identity *who,
                     const struct wire_poll *poll, int64_t until_ns, feed_serve_done done,
                     void *ctx)
{
    struct waiting first = {.done = done, .ctx = ctx, .poll = poll, .until_ns = until_ns}, *w;
    enum err e;

    memcpy(first.name, who->name, sizeof first.name);
    memcpy(first.scope, who->scope, sizeof first.scope);
    if (poll->name.n && !(who->roles & (NET_SUBSCRIBE | NET_ADMIN))) {
        waiting_end(&first, &(struct feed_serve_end){
                                .code = RPC_PERMISSION_DENIED,
                                .message = "a durable subscription takes a certificate of role "
                                           "subscribe; role query may poll without a name"});
        return;
    }
    if (poll_try(s, &first, os_mono_ns() < until_ns)) {
        return;
    }
    w = mem_dup(&first, sizeof first);
    e = w ? waiting_add(s, w) : ERR_NOMEM;
    if (e == ERR_NOMEM) {
        waiting_fail(&first, e, &(struct errmsg){""});
    } else if (e) {
        poll_refuse(&first, e);
    }
    if (e) {
        mem_free(w);
    }
}

/* -- Poll, the method -- */

struct poll_call {
    struct rpc_call *call;
    struct wire_poll *poll;
};

static void poll_answer(void *ctx, const struct feed_serve_end *end)
{
    struct poll_call *x = ctx;
    struct buf out;
    enum err e;

    buf_init(&out, REPLY_MAX);
    if (end->code == RPC_OK) {
        e = wire_feed_poll_reply_encode(&out, end->reply);
        reply_send(x->call, e, &out, NULL);
    } else {
        rpc_fail(x->call, end->code, end->retry_ms, "%s", end->message);
    }
    buf_fini(&out);
    wire_feed_poll_free(x->poll);
    mem_free(x);
}

static int64_t poll_until(const struct rpc_call *call, const struct wire_poll *poll)
{
    uint32_t ms = poll->wait_ms < WIRE_POLL_WAIT_MAX_MS ? poll->wait_ms : WIRE_POLL_WAIT_MAX_MS;
    int64_t until = clk_add(os_mono_ns(), ms * CLK_MS);
    int64_t latest = clk_sub(rpc_call_deadline_ns(call), MARGIN_NS);

    return until < latest ? until : latest;
}

static void on_poll(void *ctx, struct rpc_call *call)
{
    struct poll_call *x = mem_zalloc(sizeof *x);
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);
    enum err e = x ? wire_feed_poll_decode(&x->poll, p, n) : ERR_NOMEM;

    if (e) {
        mem_free(x);
        reply_send(call, e == ERR_FULL ? ERR_INVALID : e, NULL, NULL);
        return;
    }
    x->call = call;
    feed_serve_poll(ctx, rpc_call_peer(call), x->poll, poll_until(call, x->poll), poll_answer, x);
}

/* -- the thread -- */

/* Waits for a reason to look through the list; false: stop. *all: the feed has grown. */
static bool poller_wait(struct feed_serve *s, int64_t look_ns, bool *all)
{
    bool go_on;

    os_mutex_lock(s->lock);
    while (!s->stopping && !s->grown && !s->look) {
        int64_t until = os_mono_ns() + HEARTBEAT_ROUND_NS;

        until = look_ns < until ? look_ns : until;
        for (size_t i = 0; i < s->n; i++) {
            until = s->list[i]->until_ns < until ? s->list[i]->until_ns : until;
        }
        if (os_cond_wait_until(s->changed, until) == ERR_TIMEOUT) {
            break;
        }
    }
    *all = s->grown;
    s->grown = s->look = false;
    go_on = !s->stopping;
    os_mutex_unlock(s->lock);
    return go_on;
}

/* Those to be tried now, each once; they keep their places. */
static size_t waiting_due(struct feed_serve *s, bool all, struct waiting *out[FEED_WAITING_MAX])
{
    int64_t now = os_mono_ns();
    size_t n = 0;

    os_mutex_lock(s->lock);
    for (size_t i = 0; i < s->n; i++) {
        struct waiting *w = s->list[i];

        if (all || w->fresh || w->over || w->until_ns <= now) {
            w->fresh = false;
            out[n++] = w;
        }
    }
    os_mutex_unlock(s->lock);
    return n;
}

static bool waiting_may_wait(struct feed_serve *s, const struct waiting *w)
{
    bool may;

    os_mutex_lock(s->lock);
    may = !w->over && os_mono_ns() < w->until_ns;
    os_mutex_unlock(s->lock);
    return may;
}

/* Its place is free when it was answered. */
static void waiting_return(struct feed_serve *s, struct waiting *w, bool answered)
{
    os_mutex_lock(s->lock);
    for (size_t i = s->n; answered && i > 0; i--) {
        if (s->list[i - 1] == w) {
            assert(s->n > 0 && s->n <= FEED_WAITING_MAX);
            s->list[i - 1] = s->list[--s->n];
        }
    }
    os_mutex_unlock(s->lock);
    if (answered) {
        mem_free(w);
    }
}

static void poller_run(void *arg)
{
    struct feed_serve *s = arg;
    struct waiting *now[FEED_WAITING_MAX];
    int64_t look_ns = os_mono_ns() + LOOK_NS;
    bool all;

    while (poller_wait(s, look_ns, &all)) {
        size_t n = waiting_due(s, all, now);

        heartbeat_work(&s->round, os_mono_ns());
        for (size_t i = 0; i < n; i++) {
            struct waiting *w = now[i];
            bool may = waiting_may_wait(s, w);

            heartbeat_work(&s->round, os_mono_ns());
            waiting_return(s, w, poll_try(s, w, may));
        }
        if (os_mono_ns() >= look_ns) {
            subscriptions_expire(s->roster);
            look_ns = os_mono_ns() + LOOK_NS;
        }
    }
    heartbeat_rest(&s->round);
}

int64_t feed_serve_stuck_ns(const struct feed_serve *s, int64_t now_ns)
{
    return heartbeat_busy_ns(&s->round, now_ns);
}

void feed_serve_wake(void *serve)
{
    struct feed_serve *s = serve;

    os_mutex_lock(s->lock);
    s->grown = true;
    os_cond_wake(s->changed);
    os_mutex_unlock(s->lock);
}

/* -- Fetch -- */

/* "event/web-1" to its parts; false: no such kind of topic. */
static bool topic_parse(enum feed_topic *topic, char name[MODEL_HOST_NAME_MAX + 1], struct str text)
{
    static const char *const prefixes[FEED_TOPICS] = {"event/", "sample/", "rule/"};

    for (unsigned t = 0; t < FEED_TOPICS; t++) {
        size_t n = strlen(prefixes[t]);

        if (text.n > n && text.n - n <= MODEL_HOST_NAME_MAX &&
            memcmp(text.p, prefixes[t], n) == 0) {
            memcpy(name, text.p + n, text.n - n);
            name[text.n - n] = '\0';
            *topic = (enum feed_topic)t;
            return true;
        }
    }
    return false;
}

struct fetched {
    enum feed_topic topic;
    char name[MODEL_HOST_NAME_MAX + 1];
    struct wire_fetch_reply reply;
    struct wire_feed_message messages[WIRE_FETCH_MAX];
    bool more;
};

/* Messages from `from` up to `to`, in order; holes are counted. */
static enum err fetch_collect(struct feed_serve *s, struct fetched *f, uint64_t from, uint64_t to,
                              struct arena *memory)
{
    struct buf payload;
    size_t bytes = 0;
    enum err e = ERR_OK;

    buf_init(&payload, JOURNAL_PAYLOAD_MAX);
    while (!e && from <= to && !f->more) {
        struct wire_feed_message *m = &f->messages[f->reply.n];
        struct journal_record r = {.seq = 0};

        buf_reset(&payload);
        e = journal_find(s->journal, f->topic, f->name, from, &r, &payload, &f->reply.last_seq);
        if (e == ERR_END || ((!e || e == ERR_CORRUPT) && r.seq > to)) {
            e = ERR_END;
            break;
        }
        if (e == ERR_CORRUPT || (!e && r.n == 0)) { /* that message is missing */
            f->reply.missing += r.seq - from + 1;
            from = r.seq + 1;
            e = ERR_OK;
            continue;
        }
        if (!e) {
            const char *copy = arena_dup(memory, payload.p, payload.n);

            *m = (struct wire_feed_message){r.seq, {copy, payload.n}};
            e = copy ? ERR_OK : ERR_NOMEM;
            f->reply.n++;
            f->reply.missing += r.seq - from;
            from = r.seq + 1;
            bytes += payload.n;
            f->more = from <= to && (f->reply.n == WIRE_FETCH_MAX || bytes >= FETCH_BYTES);
        }
    }
    if ((!e || e == ERR_END) && !f->more) {
        f->reply.missing += from <= to ? to - from + 1 : 0;
        e = ERR_OK;
    }
    buf_fini(&payload);
    f->reply.messages = f->messages;
    return e;
}

/* Whether all of it went, or never was: then the range is of no use to the caller. */
static bool fetch_is_gone(struct feed_serve *s, const struct fetched *f, uint64_t to)
{
    struct journal_record oldest;
    uint64_t last;
    enum err e;

    if (f->reply.n > 0) {
        return false;
    }
    e = journal_find(s->journal, f->topic, f->name, 1, &oldest, NULL, &last);
    return (e && e != ERR_CORRUPT) || oldest.seq > to;
}

static void fetch_answer(struct feed_serve *s, struct rpc_call *call, const struct wire_fetch *q,
                         struct fetched *f, struct arena *memory)
{
    uint64_t from = q->from_seq ? q->from_seq : 1, to, last = 0;
    struct journal_record r;
    struct buf out;
    enum err e;

    err_ignore(journal_find(s->journal, f->topic, f->name, from, &r, NULL, &last));
    to = q->to_seq && q->to_seq < last ? q->to_seq : last;
    f->reply.last_seq = last;
    e = fetch_collect(s, f, from, to, memory);
    if (!e && from <= to && fetch_is_gone(s, f, to)) {
        rpc_fail(call, RPC_OUT_OF_RANGE, 0,
                 "messages up to number %llu of this topic are kept no longer: ask Events or "
                 "History",
                 (unsigned long long)to);
        return;
    }
    buf_init(&out, REPLY_MAX);
    if (!e) {
        e = wire_feed_fetch_reply_encode(&out, &f->reply);
    }
    reply_send(call, e, &out, &(struct rpc_answer_opt){.more = f->more});
    buf_fini(&out);
}

static bool outside_scope(struct rpc_call *call, const char *host)
{
    const struct net_identity *who = rpc_call_peer(call);
    char name[80], quoted[160], scope[160];

    if (!who->scope[0] || glob_match(str_make(who->scope), str_make(host))) {
        return false;
    }
    log_line(LOG_WARN, "query", "denied",
             "listener=query peer=%s name=%s host=%s scope=%s reason=\"outside the scope\"",
             who->address, log_str(name, sizeof name, who->name),
             log_str(quoted, sizeof quoted, host), log_str(scope, sizeof scope, who->scope));
    rpc_fail(call, RPC_PERMISSION_DENIED, 0, "this certificate sees hosts that fit '%s' only",
             who->scope);
    return true;
}

static void on_fetch(void *ctx, struct rpc_call *call)
{
    struct feed_serve *s = ctx;
    struct wire_fetch *q = NULL;
    struct arena memory;
    struct fetched *f;
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);
    enum err e;

    arena_init(&memory, MEMORY_MAX);
    f = arena_alloc(&memory, sizeof *f);
    e = f ? wire_feed_fetch_decode(&q, p, n) : ERR_NOMEM;
    if (e) {
        reply_send(call, e, NULL, NULL);
    } else if (!topic_parse(&f->topic, f->name, q->topic)) {
        rpc_fail(call, RPC_INVALID_ARGUMENT, 0, "a topic is event/HOST or sample/HOST");
    } else if (outside_scope(call, f->name)) {
        /* answered */
    } else if (q->epoch != journal_epoch(s->journal)) {
        rpc_fail(call, RPC_OUT_OF_RANGE, 0,
                 "these messages are of another epoch, of which nothing is kept");
    } else {
        fetch_answer(s, call, q, f, &memory);
    }
    wire_feed_fetch_free(q);
    arena_fini(&memory);
}

/* -- Subscriptions, Unsubscribe -- */

static void on_subscriptions(void *ctx, struct rpc_call *call)
{
    struct feed_serve *s = ctx;
    const struct net_identity *who = rpc_call_peer(call);
    struct wire_subscriptions_reply reply = {0, NULL};
    struct arena memory;
    struct buf out;
    enum err e;

    arena_init(&memory, MEMORY_MAX);
    buf_init(&out, REPLY_MAX);
    e = subscriptions_list(s->roster, who->roles & NET_ADMIN ? NULL : who->name,
                           &reply.subscriptions, &reply.n, &memory);
    if (!e) {
        e = wire_feed_subscriptions_reply_encode(&out, &reply);
    }
    reply_send(call, e, &out, NULL);
    buf_fini(&out);
    arena_fini(&memory);
}

static void text_copy(char *out, size_t size, struct str s)
{
    size_t n = s.n < size ? s.n : size - 1;

    memcpy(out, s.p, n);
    out[n] = '\0';
}

static void on_unsubscribe(void *ctx, struct rpc_call *call)
{
    struct feed_serve *s = ctx;
    const struct net_identity *who = rpc_call_peer(call);
    char name[WIRE_FEED_NAME_MAX + 1], owner[sizeof who->name];
    struct wire_unsubscribe *q = NULL;
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);
    enum err e = wire_feed_unsubscribe_decode(&q, p, n);

    if (e) {
        reply_send(call, e, NULL, NULL);
        return;
    }
    text_copy(name, sizeof name, q->name);
    text_copy(owner, sizeof owner, q->owner.n ? q->owner : str_make(who->name));
    wire_feed_unsubscribe_free(q);
    if (strcmp(owner, who->name) != 0 && !(who->roles & NET_ADMIN)) {
        rpc_fail(call, RPC_PERMISSION_DENIED, 0,
                 "only a certificate of role admin removes another's subscription");
        return;
    }
    e = subscriptions_remove(s->roster, owner, name);
    if (e == ERR_NOTFOUND) {
        rpc_fail(call, RPC_NOT_FOUND, 0, "%s has no subscription of this name", owner);
        return;
    }
    reply_send(call, e, &(struct buf){.p = NULL}, NULL);
}

/* -- life -- */

enum err feed_serve_create(struct feed_serve **out, struct journal *journal,
                           struct subscriptions *roster)
{
    struct feed_serve *s = mem_zalloc(sizeof *s);
    enum err e;

    if (!s) {
        return ERR_NOMEM;
    }
    s->journal = journal;
    s->roster = roster;
    e = os_mutex_create(&s->lock);
    if (!e) {
        e = os_cond_create(&s->changed, s->lock);
    }
    if (!e) {
        e = os_thread_start(&s->thread, "polls", poller_run, s);
    }
    if (e) {
        feed_serve_destroy(s);
        return e;
    }
    *out = s;
    return ERR_OK;
}

void feed_serve_stop(struct feed_serve *s)
{
    struct waiting *left[FEED_WAITING_MAX];
    size_t n;

    if (!s || !s->thread) {
        return;
    }
    os_mutex_lock(s->lock);
    s->stopping = true;
    os_cond_wake_all(s->changed);
    os_mutex_unlock(s->lock);
    os_thread_join(s->thread);
    s->thread = NULL;
    n = waiting_due(s, true, left);
    os_mutex_lock(s->lock);
    s->n = 0;
    os_mutex_unlock(s->lock);
    for (size_t i = 0; i < n; i++) {
        waiting_stop(left[i]);
        mem_free(left[i]);
    }
}

void feed_serve_destroy(struct feed_serve *s)
{
    if (!s) {
        return;
    }
    feed_serve_stop(s);
    os_cond_destroy(s->changed);
    os_mutex_destroy(s->lock);
    mem_free(s);
}

void feed_serve_methods(struct feed_serve *s, struct rpc_method methods[FEED_METHODS])
{
    methods[0] = (struct rpc_method){RPC_QUERY_FETCH, MAY_READ, on_fetch, s};
    methods[1] = (struct rpc_method){RPC_QUERY_POLL, MAY_READ, on_poll, s};
    methods[2] = (struct rpc_method){RPC_QUERY_SUBSCRIPTIONS, MAY_READ, on_subscriptions, s};
    methods[3] = (struct rpc_method){RPC_QUERY_UNSUBSCRIBE, MAY_READ, on_unsubscribe, s};
}
