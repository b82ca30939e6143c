/* One notice at a time: the cursor is kept behind each that was taken, refused for good or given
 * up. A notice that is killed between the two comes again under the same key: its id. */
#include "collector/notify/notify_target.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "collector/forward/consumer.h"
#include "collector/notify/notify_body.h"
#include "collector/notify/notify_exec.h"
#include "common/base/clk.h"
#include "common/base/glob.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "common/wire/wire_events.h"
#include "common/wire/wire_query.h"

/* -- what is told of already -- */

/* What the collector's rules have told of that is not over: asked for when notices were dropped,
 * and again and again for targets that forget. Threads: that of the consumer. */

#define PAGE      1000u
#define REPLY_MAX (4u << 20)

static enum err page_give(const struct wire_answer *a,
                          enum err (*each)(void *ctx, const struct notify_told *list, size_t n),
                          void *ctx)
{
    struct notify_told *list = mem_array(a->n_events + 1, sizeof *list);
    size_t n = 0;
    enum err e;

    if (!list) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < a->n_events; i++) {
        struct str host = a->hosts[a->events[i].host].name;

        if (notice_read(&list[n].notice, &a->events[i].event) == ERR_OK) {
            list[n++].host = str_eq(host, str_make(NOTICE_NO_HOST)) ? str_make("") : host;
        }
    }
    e = each(ctx, list, n);
    mem_free(list);
    return e;
}

static enum err page_ask(struct consumer *c, struct wire_query *q, struct consumer_ask *ask,
                         struct wire_answer **out, struct errmsg *why)
{
    struct buf request, reply;
    enum err e;

    buf_init(&request, 64u << 10);
    buf_init(&reply, REPLY_MAX);
    e = wire_query_encode(&request, q);
    ask->p = request.p;
    ask->n = request.n;
    e = e ? e : consumer_ask(c, ask, &reply, why);
    e = e ? e : wire_answer_decode(out, reply.p, reply.n);
    buf_fini(&request);
    buf_fini(&reply);
    return e;
}

/* Page by page, valid during the call; an error of `each` ends it. Notices have the id under which
 * the change was told, the step of it, and no number.
 * *again: asking once more may help. Errors: ERR_BUSY (the collector's rules have not come to now),
 * those of consumer_ask and of `each`, ERR_NOMEM, ERR_CORRUPT */
static enum err notify_told_ask(struct consumer *c,
                                enum err (*each)(void *ctx, const struct notify_told *list,
                                                 size_t n),
                                void *ctx, bool *again, struct errmsg *why)
{
    struct consumer_ask ask = {.method = RPC_QUERY_RULES, .more = true};
    struct wire_query q = {.limit = PAGE, .rules_ask = WIRE_RULES_TOLD};
    enum err e = ERR_OK;

    *again = false;
    while (!e && ask.more) {
        struct wire_answer *a;

        q.cursor = (struct str){(const char *)ask.cursor, ask.n_cursor};
        e = page_ask(c, &q, &ask, &a, why);
        *again = ask.again;
        if (e) {
            break;
        }
        if (a->partial) {
            *again = true;
            e = errmsg_set(why, ERR_BUSY, "the collector's rules are being filled");
        }
        e = e ? e : page_give(a, each, ctx);
        wire_answer_free(a);
    }
    return e;
}

/* -- targets -- */

#define QUOTED         600
#define RETRY_LEAST_NS (600 * CLK_S) /* also of a notice that is old when it comes */
#define REFRESH_NS     (60 * CLK_S)  /* of targets that forget */
#define ALERTS_AT_ONCE 64u

struct notify_target {
    const struct notify_target_conf *conf;
    struct consumer *consumer;
    struct post *post; /* of a webhook */
    struct http_client_reply reply;
    struct buf body;
    bool failing;         /* exec */
    int64_t refreshed_ns; /* monotonic; 0: never */
    atomic_uint_fast64_t sent, refused, given_up, passed_over;
};

/* -- which -- */

static bool notice_uses(struct str use, const char *name)
{
    size_t n = strlen(name);

    if (use.n == 0) {
        return true;
    }
    while (use.n) {
        const char *comma = memchr(use.p, ',', use.n);
        size_t part = comma ? (size_t)(comma - use.p) : use.n;

        if (part == n && memcmp(use.p, name, n) == 0) {
            return true;
        }
        part += comma != NULL;
        use.p += part;
        use.n -= part;
    }
    return false;
}

/* The end of an alert passes a silence: what had begun before it is to end, too. */
static bool notice_wanted(const struct notify_target_conf *c, const struct notice *n)
{
    bool rule = c->n_rules == 0;

    for (size_t i = 0; i < c->n_rules; i++) {
        rule = rule || glob_match(c->rules[i], n->rule);
    }
    return rule && notice_uses(n->use, c->name) && (n->silenced.n == 0 || n->state == NOTICE_OK);
}

/* -- sending one -- */

static bool target_stopped(void *ctx)
{
    return consumer_is_stopped(ctx);
}

static enum err send_exec(struct notify_target *t, struct consumer_retry *retry,
                          enum post_outcome *outcome)
{
    const struct notify_target_conf *c = t->conf;
    char quoted[QUOTED];

    for (;;) {
        struct errmsg why = {""};
        enum err e = notify_exec_run(c->program, t->body.p, t->body.n, c->timeout_ns,
                                     target_stopped, t->consumer, &why);

        if (e == ERR_CLOSED || !e) {
            t->failing = false;
            *outcome = POST_TAKEN;
            return e;
        }
        if (!t->failing) {
            t->failing = true;
            log_line(LOG_WARN, "notify", "failing", "target=%s trying_again=yes reason=%s", c->name,
                     log_str(quoted, sizeof quoted, why.text[0] ? why.text : err_text(e)));
        }
        if (!consumer_again(t->consumer, retry, 0)) {
            *outcome = POST_GIVEN_UP;
            return consumer_is_stopped(t->consumer) ? ERR_CLOSED : ERR_OK;
        }
    }
}

static void send_ended(struct notify_target *t, const struct notice *n, enum post_outcome outcome)
{
    char rule[QUOTED];

    (void)snprintf(rule, sizeof rule, "%.*s", (int)(n->rule.n < 200 ? n->rule.n : 200), n->rule.p);
    if (outcome == POST_TAKEN) {
        atomic_fetch_add(&t->sent, 1);
        log_line(LOG_DEBUG, "notify", "sent", "target=%s id=%s", t->conf->name, n->id);
    } else if (outcome == POST_REFUSED) {
        atomic_fetch_add(&t->refused, 1);
        log_line(LOG_ERROR, "notify", "refused", "target=%s id=%s status=%u", t->conf->name, n->id,
                 t->reply.status);
    } else {
        atomic_fetch_add(&t->given_up, 1);
        log_line(LOG_ERROR, "notify", "given up", "target=%s id=%s n=%" PRIu64, t->conf->name,
                 n->id, n->n);
    }
}

static enum err target_send(struct notify_target *t, struct str host, const struct notice *n)
{
    struct consumer_retry retry = {0};
    int64_t now_ns = os_mono_ns();
    int64_t left_ns = clk_sub(clk_add(n->step_ns, t->conf->retry_ns), os_utc_ns());
    struct post_body body = {.path = "", .type = "application/json", .key = n->id};
    enum post_outcome outcome = POST_TAKEN;
    enum err e;

    left_ns = left_ns < t->conf->retry_ns ? left_ns : t->conf->retry_ns;
    left_ns =
        left_ns > RETRY_LEAST_NS || t->conf->retry_ns < RETRY_LEAST_NS ? left_ns : RETRY_LEAST_NS;
    retry.end_ns = now_ns + (left_ns > 1 ? left_ns : 1);
    buf_reset(&t->body);
    notify_body(&t->body, t->conf->format, host, n, t->conf->name,
                clk_add(os_utc_ns(), NOTIFY_ENDS_NS));
    if (t->body.bad) {
        return t->body.bad;
    }
    body.p = t->body.p;
    body.n = t->body.n;
    e = t->post ? post_send(t->post, t->consumer, &body, &retry, &outcome, &t->reply)
                : send_exec(t, &retry, &outcome);
    if (!e) {
        send_ended(t, n, outcome);
    }
    return e;
}

/* -- a reply of Poll -- */

static enum err target_update(struct notify_target *t, const struct wire_update *u)
{
    struct str host = u->name;
    enum err e = ERR_OK;

    if (str_eq(host, str_make(NOTICE_NO_HOST))) {
        host = (struct str){"", 0};
    }
    for (size_t i = 0; i < u->data.n_events && !e; i++) {
        const struct life_event *ev = &u->data.events[i].event;
        struct notice n;

        if (ev->kind != LIFE_RULE) {
            continue;
        }
        if (notice_read(&n, ev) != ERR_OK) {
            log_line(LOG_ERROR, "notify", "strange notice", "target=%s", t->conf->name);
            atomic_fetch_add(&t->passed_over, 1);
        } else if (!notice_wanted(t->conf, &n)) {
            atomic_fetch_add(&t->passed_over, 1);
        } else {
            e = target_send(t, host, &n);
        }
    }
    return e;
}

/* -- what fires now -- */

/* Each as the notice that told of it. */
static enum err told_send(void *ctx, const struct notify_told *list, size_t n)
{
    struct notify_target *t = ctx;
    enum err e = ERR_OK;

    for (size_t i = 0; !e && i < n; i++) {
        if (notice_wanted(t->conf, &list[i].notice)) {
            e = target_send(t, list[i].host, &list[i].notice);
        }
    }
    return e;
}

/* Lists of alerts, tried once: they come again. */
static enum err told_refresh(void *ctx, const struct notify_told *list, size_t n)
{
    struct notify_target *t = ctx;
    struct notify_told wanted[ALERTS_AT_ONCE];
    enum err e = ERR_OK;

    for (size_t i = 0, k = 0; !e && i < n; i++) {
        struct consumer_retry once = {.end_ns = os_mono_ns()};
        struct post_body body = {.path = "", .type = "application/json"};
        enum post_outcome outcome;

        if (notice_wanted(t->conf, &list[i].notice)) {
            wanted[k++] = list[i];
        }
        if (k == 0 || (k < ALERTS_AT_ONCE && i + 1 < n)) {
            continue;
        }
        buf_reset(&t->body);
        notify_body_alerts(&t->body, wanted, k, clk_add(os_utc_ns(), NOTIFY_ENDS_NS));
        body.p = t->body.p;
        body.n = t->body.n;
        e = t->body.bad ? t->body.bad
                        : post_send(t->post, t->consumer, &body, &once, &outcome, &t->reply);
        k = 0;
    }
    return e;
}

/* After a loss; until the collector answers. */
static enum err target_recover(struct notify_target *t)
{
    struct consumer_retry retry = {0};
    struct errmsg why = {""};
    char quoted[QUOTED];
    bool again = true;
    enum err e = ERR_BUSY;

    while (e && again) {
        e = notify_told_ask(t->consumer, told_send, t, &again, &why);
        if (e == ERR_CLOSED || (e && again && !consumer_again(t->consumer, &retry, 0))) {
            return ERR_CLOSED;
        }
    }
    log_line(LOG_WARN, "notify", "notices dropped", "target=%s instead=%s", t->conf->name,
             e ? log_str(quoted, sizeof quoted, why.text[0] ? why.text : err_text(e))
               : "\"what fires now is sent\"");
    return ERR_OK;
}

static enum err target_refresh(struct notify_target *t)
{
    struct errmsg why = {""};
    bool again;
    enum err e;

    if (t->refreshed_ns && os_mono_ns() - t->refreshed_ns < REFRESH_NS) {
        return ERR_OK;
    }
    t->refreshed_ns = os_mono_ns();
    e = notify_told_ask(t->consumer, told_refresh, t, &again, &why);
    if (e && e != ERR_CLOSED) {
        log_line(LOG_DEBUG, "notify", "not refreshed", "target=%s reason=\"%s\"", t->conf->name,
                 err_text(e));
    }
    return e == ERR_CLOSED ? e : ERR_OK;
}

static enum err on_reply(void *ctx, const struct wire_poll_reply *reply, struct errmsg *why)
{
    struct notify_target *t = ctx;
    bool forgets = t->post && t->conf->format == NOTIFY_ALERTMANAGER_API;
    enum err e = ERR_OK;

    if (reply->dropped_now && !forgets) {
        e = target_recover(t);
    } else if (forgets) {
        t->refreshed_ns = reply->dropped_now ? 0 : t->refreshed_ns;
        e = target_refresh(t);
    }
    for (size_t i = 0; i < reply->n_updates && !e; i++) {
        e = target_update(t, &reply->updates[i]);
    }
    return e && e != ERR_CLOSED
               ? errmsg_set(why, e, "a notice cannot be sent to %s: %s", t->conf->name, err_text(e))
               : e;
}

/* -- open, close -- */

enum err notify_target_open(struct notify_target **out, const struct notify_target_conf *conf,
                            struct errmsg *why)
{
    struct notify_target *t = mem_zalloc(sizeof *t);
    struct consumer_conf consumer = {.program = "procfleet-notify/" PROCFLEET_VERSION,
                                     .name = conf->subscription,
                                     .state = conf->state,
                                     .filter = {.rules = true, .no_events = true},
                                     .max = 1,
                                     .deliver = on_reply,
                                     .ctx = t};
    enum err e = ERR_OK;

    if (!t) {
        return ERR_NOMEM;
    }
    t->conf = conf;
    buf_init(&t->body, NOTIFY_BODY_MAX);
    http_client_reply_init(&t->reply);
    service_conf_consumer(&conf->service, &consumer);
    if (conf->type == NOTIFY_WEBHOOK) {
        e = post_open(&t->post, &conf->post, why);
    }
    e = e ? e : consumer_open(&t->consumer, &consumer, why);
    if (e) {
        notify_target_close(t);
        return e;
    }
    *out = t;
    return ERR_OK;
}

void notify_target_close(struct notify_target *t)
{
    if (t) {
        consumer_close(t->consumer);
        post_close(t->post);
        http_client_reply_fini(&t->reply);
        buf_fini(&t->body);
        mem_free(t);
    }
}

struct consumer *notify_target_consumer(struct notify_target *t)
{
    return t->consumer;
}

void notify_target_stop(struct notify_target *t)
{
    if (t->post) {
        post_stop(t->post);
    }
}

void notify_target_report(struct notify_target *t)
{
    struct post_stats p = {0};
    struct consumer_stats c;

    consumer_stats(t->consumer, &c);
    if (t->post) {
        post_stats(t->post, &p);
    }
    log_line(LOG_INFO, "notify", "notified",
             "target=%s sent=%" PRIu64 " refused=%" PRIu64 " given_up=%" PRIu64
             " passed_over=%" PRIu64 " retried=%" PRIu64 " dropped_messages=%" PRIu64,
             t->conf->name, (uint64_t)atomic_load(&t->sent), (uint64_t)atomic_load(&t->refused),
             (uint64_t)atomic_load(&t->given_up), (uint64_t)atomic_load(&t->passed_over), p.retried,
             c.dropped);
}
