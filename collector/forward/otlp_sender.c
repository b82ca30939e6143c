/* A reply of Poll becomes one request of logs and one of metrics, or several when they are large.
 * It is done with when the server has taken, or refused for good, all of them. Killed before the
 * cursor is kept, it sends the same records again, whose log.record.uid is the same, and the same
 * points: their sums are part of what stands beside the cursor. */
#include "collector/forward/otlp_sender.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "collector/forward/otlp.h"
#include "collector/forward/run_service.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/net/net.h"
#include "common/os/os.h"

#define REQUEST_BYTES ((size_t)512 << 10) /* from which a request is sent */
#define ITEMS_MAX     4096u
#define QUOTED        600

/* One of the two kinds of requests. */
struct stream {
    const char *name, *path;
    struct buf body;
    size_t n; /* records or points in it */
    atomic_uint_fast64_t taken, rejected, refused;
};

struct otlp_sender {
    const struct forward_conf_otlp *conf;
    struct post *post;
    struct consumer *consumer;
    struct program_sums *sums;
    atomic_uint_fast64_t left_out; /* rows, as program_sums_left_out */
    struct stream logs, metrics;
    struct http_client_reply reply;
};

/* -- one request -- */

static void stream_taken(struct otlp_sender *s, struct stream *t)
{
    struct otlp_reply r;
    char quoted[QUOTED], text[300];
    enum err e = otlp_reply_read(&r, s->reply.body.p, s->reply.body.n);

    if (e) {
        r = (struct otlp_reply){.rejected = 0}; /* it has said 2xx: that counts */
        log_line(LOG_WARN, "otlp", "strange reply", "kind=%s bytes=%zu", t->name, s->reply.body.n);
    }
    r.rejected = r.rejected < t->n ? r.rejected : t->n;
    atomic_fetch_add(&t->taken, t->n - r.rejected);
    atomic_fetch_add(&t->rejected, r.rejected);
    if (r.rejected || r.message.n) {
        (void)snprintf(text, sizeof text, "%.*s", (int)(r.message.n < 250 ? r.message.n : 250),
                       r.message.n ? r.message.p : "");
        log_line(LOG_WARN, "otlp", "partial success", "kind=%s rejected=%" PRIu64 " of=%zu said=%s",
                 t->name, r.rejected, t->n, log_quote(quoted, sizeof quoted, text));
    }
}

static void stream_refused(struct otlp_sender *s, struct stream *t)
{
    struct str said = otlp_status_message(s->reply.body.p, s->reply.body.n);
    char quoted[QUOTED], text[300];

    atomic_fetch_add(&t->refused, t->n);
    (void)snprintf(text, sizeof text, "%.*s", (int)(said.n < 250 ? said.n : 250),
                   said.n ? said.p : "");
    log_line(LOG_ERROR, "otlp", "refused", "kind=%s status=%u lost=%zu said=%s", t->name,
             s->reply.status, t->n, log_quote(quoted, sizeof quoted, text));
}

static enum err stream_send(struct otlp_sender *s, struct stream *t)
{
    struct consumer_retry retry = {0};
    struct post_body body = {
        .path = t->path, .type = "application/x-protobuf", .p = t->body.p, .n = t->body.n};
    enum post_outcome outcome;
    enum err e = t->body.bad;

    if (!e && t->n == 0) {
        buf_reset(&t->body);
        return ERR_OK;
    }
    e = e ? e : post_send(s->post, s->consumer, &body, &retry, &outcome, &s->reply);
    if (e) {
        return e;
    }
    if (outcome == POST_TAKEN) {
        stream_taken(s, t);
    } else {
        stream_refused(s, t);
    }
    buf_reset(&t->body);
    t->n = 0;
    return ERR_OK;
}

/* -- a reply of Poll -- */

static enum err on_tick(void *ctx, const struct program_sums_tick *tick)
{
    struct otlp_sender *s = ctx;
    enum err e = ERR_OK;

    for (size_t from = 0, to; from < tick->n && !e; from = to) {
        to = tick->n - from < OTLP_ROWS ? tick->n : from + OTLP_ROWS;
        s->metrics.n += otlp_metrics(&s->metrics.body, tick, from, to, s->conf->sums.metrics,
                                     s->conf->sums.n_metrics);
        e = s->metrics.body.n >= REQUEST_BYTES ? stream_send(s, &s->metrics) : ERR_OK;
    }
    return e;
}

static enum err on_reply(void *ctx, const struct wire_poll_reply *reply, struct errmsg *why)
{
    struct otlp_sender *s = ctx;
    struct program_sums_sink sink = {on_tick, s};
    enum err e = ERR_OK;

    for (size_t i = 0; i < reply->n_updates && !e; i++) {
        if (s->conf->logs) {
            s->logs.n += otlp_logs(&s->logs.body, &reply->updates[i], os_utc_ns());
        }
        if (s->conf->metrics) {
            e = program_sums_take(s->sums, &reply->updates[i], &sink);
            atomic_store(&s->left_out, program_sums_left_out(s->sums));
        }
        if (!e && s->logs.body.n >= REQUEST_BYTES) {
            e = stream_send(s, &s->logs);
        }
    }
    e = e ? e : stream_send(s, &s->logs);
    e = e ? e : stream_send(s, &s->metrics);
    return e && e != ERR_CLOSED
               ? errmsg_set(why, e, "what was polled cannot be sent: %s", err_text(e))
               : e;
}

static void on_save(void *ctx, struct buf *out)
{
    struct otlp_sender *s = ctx;

    if (s->conf->metrics) {
        program_sums_save(s->sums, out);
    }
}

static enum err on_load(void *ctx, const void *p, size_t n)
{
    struct otlp_sender *s = ctx;

    return s->conf->metrics ? program_sums_load(s->sums, p, n) : ERR_OK;
}

static void on_stop(void *ctx)
{
    struct otlp_sender *s = ctx;

    post_stop(s->post);
}

static void on_report(void *ctx)
{
    struct otlp_sender *s = ctx;
    struct consumer_stats c;
    struct post_stats p;

    consumer_stats(s->consumer, &c);
    post_stats(s->post, &p);
    log_line(LOG_INFO, "otlp", "forwarded",
             "records=%" PRIu64 " points=%" PRIu64 " rejected=%" PRIu64 " refused=%" PRIu64
             " left_out_rows=%" PRIu64 " requests=%" PRIu64 " retried=%" PRIu64
             " dropped_messages=%" PRIu64 " behind_bytes=%" PRIu64,
             (uint64_t)atomic_load(&s->logs.taken), (uint64_t)atomic_load(&s->metrics.taken),
             (uint64_t)(atomic_load(&s->logs.rejected) + atomic_load(&s->metrics.rejected)),
             (uint64_t)(atomic_load(&s->logs.refused) + atomic_load(&s->metrics.refused)),
             (uint64_t)atomic_load(&s->left_out), p.sent, p.retried, c.dropped, c.behind_bytes);
}

/* -- the service -- */

static enum err sender_open(struct otlp_sender *s, const struct forward_conf_otlp *conf,
                            struct errmsg *why)
{
    struct consumer_conf consumer = {.program = "procfleet-forward/" PROCFLEET_VERSION,
                                     .name = conf->subscription,
                                     .state = conf->state,
                                     .filter = conf->filter,
                                     .from_oldest = conf->from_oldest,
                                     .max = ITEMS_MAX,
                                     .deliver = on_reply,
                                     .save = on_save,
                                     .load = on_load,
                                     .ctx = s};
    enum err e = ERR_OK;

    s->conf = conf;
    s->logs = (struct stream){.name = "logs", .path = "/v1/logs"};
    s->metrics = (struct stream){.name = "metrics", .path = "/v1/metrics"};
    buf_init(&s->logs.body, OTLP_REQUEST_MAX);
    buf_init(&s->metrics.body, OTLP_REQUEST_MAX);
    http_client_reply_init(&s->reply);
    if (conf->metrics) {
        e = program_sums_create(&s->sums, &conf->sums);
    }
    service_conf_consumer(&conf->service, &consumer);
    e = e ? e : post_open(&s->post, &conf->post, why);
    return e ? e : consumer_open(&s->consumer, &consumer, why);
}

enum err otlp_sender_run(const struct forward_conf_otlp *conf, struct errmsg *why)
{
    static struct otlp_sender s; /* the signal's thread outlives this function */
    struct run_service service = {.module = "forward",
                                  .consumers = &s.consumer,
                                  .n = 1,
                                  .stop = on_stop,
                                  .report = on_report,
                                  .ctx = &s};
    enum err e = net_init(why);

    if (e) {
        return e;
    }
    e = sender_open(&s, conf, why);
    e = e ? e : run_service(&service, why);
    consumer_close(s.consumer);
    post_close(s.post);
    program_sums_destroy(s.sums);
    http_client_reply_fini(&s.reply);
    buf_fini(&s.logs.body);
    buf_fini(&s.metrics.body);
    net_fini();
    return e;
}
