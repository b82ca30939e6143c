#include "collector/clickhouse/ch_sink.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collector/clickhouse/ch_backlog.h"
#include "collector/clickhouse/ch_forward.h"
#include "collector/clickhouse/ch_queue.h"
#include "collector/clickhouse/ch_ready.h"
#include "collector/clickhouse/ch_send.h"
#include "collector/clickhouse/ch_sent.h"
#include "collector/clickhouse/ch_tier.h"
#include "collector/store/batch_time.h"
#include "common/base/clk.h"
#include "common/base/glob.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"

/* Three sources feed one kind of block:
 *   live     what on_stored put into the queue, not older than this process;
 *   head     once after a start: what recovery found in the log, sent or not;
 *   backlog  from `from` on, slice by slice of the collector's clock: what the queue had no room
 *            for, and what a former process left.
 * The state on disk says `from`: nothing made before is missing. It is written before batches leave
 * the store's head, so that what it does not know of is in the head after a crash; after a start
 * not before the head was looked through for what is not sent. Batches of a former process may be
 * in without a ledger row: they are announced (`coming`). */

#define SAVE_NS     (10 * CLK_S)
#define STATE_NS    (10 * CLK_S)
#define SLICE_NS    (900 * CLK_S)
#define PAUSE_MIN   (CLK_S / 2)
#define PAUSE_MAX   (60 * CLK_S)
#define GATHER_MAX  (10 * CLK_S)
#define FEW_ROWS    4096u
#define LAGGING_NS  (60 * CLK_S)
#define LEDGER_BACK (600 * CLK_S) /* how far clocks may have been set back */
#define FLUSH_NS    (5 * CLK_S)   /* so long the end waits for what the queue has */

struct ch_sink {
    struct ch_sink_conf conf;
    char *dir;
    struct ch_http *http;
    struct ch_send *send;
    struct store *store;
    struct os_thread *thread;
    struct ch_tier *tier;    /* has the tiers made of what was sent */
    struct os_mutex *saving; /* one writes the state at a time; taken before the lock */
    struct os_mutex *lock;
    struct os_cond *cond;
    struct uuid id;
    int64_t started_ns;

    /* Guarded by the lock. */
    struct ch_sent *sent;
    struct ch_queue queue;
    struct ch_sent_from backlog; /* what the store has to be asked for; INT64_MAX: nothing */
    struct ch_sent_from lowered; /* of it, since the pass began: what overflowed meanwhile */
    bool stop, noted;            /* noted: what recovery found is in `backlog` */
    bool flushed;                /* after `stop`: what the queue had is in, or cannot be sent */
    struct ch_sink_stats stats;

    /* The thread's own. */
    bool more; /* the block under way is not the last one of `sending` */
    bool ready, head_done;
    int64_t saved_ns, told_ns, lag_told_ns, live_ns;
    int64_t pass_at_ns; /* where the pass over the backlog is; INT64_MIN: none runs */
    struct store_view *view;
    size_t view_host; /* of the slice, the next one */
    bool again;       /* rows of the block at hand may be there */
    enum err scan_error;
    /* Of a request of `forward`: one slice a round, live batches in between. */
    bool forwarding;
    struct ch_forward forward;
    struct store_view *forward_view; /* of its slice; the next host, where it is, how many so far */
    size_t forward_host;
    int64_t forward_at_ns;
    uint64_t forwarded;
};

/* -- from other threads -- */

static void from_lower(struct ch_sent_from *from, int64_t made_ns, int64_t received_ns)
{
    from->made_ns = made_ns < from->made_ns ? made_ns : from->made_ns;
    from->received_ns = received_ns < from->received_ns ? received_ns : from->received_ns;
}

/* Under the lock: this batch is to be read from the store. */
static void backlog_lower(struct ch_sink *s, int64_t made_ns, int64_t received_ns)
{
    from_lower(&s->backlog, made_ns, received_ns);
    from_lower(&s->lowered, made_ns, received_ns);
}

void ch_sink_stored(struct ch_sink *s, const struct store_stored *stored)
{
    struct ch_queue_item *i;
    int64_t t0_ns, t1_ns, made_ns;

    batch_time_span(stored->batch, stored->received_ns, &t0_ns, &t1_ns);
    made_ns = batch_time_made(t1_ns, stored->clock, stored->received_ns);
    i = ch_queue_item(stored, made_ns);
    os_mutex_lock(s->lock);
    if (!i || !ch_queue_put(&s->queue, i)) {
        backlog_lower(s, made_ns, stored->received_ns);
        s->stats.overflowed++;
        os_mutex_unlock(s->lock);
        ch_queue_free(i);
        return;
    }
    if (s->queue.batches == 1 || s->queue.bytes > CH_SINK_QUEUE_BYTES / 2) {
        os_cond_wake(s->cond);
    }
    os_mutex_unlock(s->lock);
}

static void from_take(struct ch_sent_from *from, const struct ch_queue_item *i)
{
    for (; i; i = i->next) {
        from_lower(from, i->made_ns, i->received_ns);
    }
}

/* Under the lock. */
static struct ch_sent_from from_now(const struct ch_sink *s)
{
    struct ch_sent_from from = s->backlog;

    from_take(&from, s->queue.first);
    from_take(&from, s->queue.sending);
    from.written_ns = os_utc_ns();
    return from;
}

bool ch_sink_keep(struct ch_sink *s)
{
    struct ch_sent_from from;
    struct buf bytes;
    bool noted;
    enum err e;

    buf_init(&bytes, CH_SENT_BYTES_MAX);
    os_mutex_lock(s->saving);
    os_mutex_lock(s->lock);
    noted = s->noted;
    from = from_now(s);
    e = noted ? ch_sent_bytes(s->sent, &from, &bytes) : ERR_OK;
    os_mutex_unlock(s->lock); /* the store's writer must not wait for the disk here */
    e = e || !noted ? e : ch_sent_write(s->sent, &bytes);
    os_mutex_unlock(s->saving);
    buf_fini(&bytes);
    if (e) {
        log_line(LOG_WARN, "clickhouse", "state_unwritten", "reason=%s remedy=%s", err_name(e),
                 "\"make room on the disk of data_dir; without it more is sent again after a "
                 "restart\"");
    }
    return noted && !e;
}

static int64_t lag_of(const struct ch_sent_from *from, int64_t now_ns)
{
    /* Not by `made`: what a spool kept for days, or a host that takes itself to be in 1970 says. */
    return from->received_ns >= now_ns ? 0 : clk_sub(now_ns, from->received_ns);
}

void ch_sink_stats(struct ch_sink *s, struct ch_sink_stats *out)
{
    struct ch_sent_from from;

    os_mutex_lock(s->lock);
    *out = s->stats;
    out->queue_bytes = s->queue.bytes;
    out->queue_batches = s->queue.batches;
    from = from_now(s);
    os_mutex_unlock(s->lock);
    if (from.received_ns == INT64_MIN) { /* a first start: everything that the store has */
        from.received_ns = s->started_ns;
    }
    out->lag_ns = lag_of(&from, from.written_ns);
    out->working = !out->trouble[0];
}

/* -- waiting, and what is said of it -- */

static bool is_stopping(struct ch_sink *s)
{
    bool stop;

    os_mutex_lock(s->lock);
    stop = s->stop;
    os_mutex_unlock(s->lock);
    return stop;
}

/* Waits, but not longer than until the end. */
static void sink_pause(struct ch_sink *s, int64_t ns)
{
    int64_t until_ns = os_mono_ns() + ns;

    os_mutex_lock(s->lock);
    while (!s->stop && os_cond_wait_until(s->cond, until_ns) != ERR_TIMEOUT) {
    }
    os_mutex_unlock(s->lock);
}

/* Says once why nothing goes in, and once that it does again. */
static void trouble_set(struct ch_sink *s, enum err e, const char *what, const struct errmsg *why)
{
    char quoted[600];
    bool was, same;

    os_mutex_lock(s->lock);
    was = s->stats.trouble[0] != 0;
    same = e && strncmp(s->stats.trouble, why->text, 40) == 0;
    (void)snprintf(s->stats.trouble, sizeof s->stats.trouble, "%.300s%s%s",
                   !e             ? ""
                   : why->text[0] ? why->text
                                  : err_text(e),
                   e ? ", for " : "", e ? what : "");
    os_mutex_unlock(s->lock);
    if (e && !same) {
        log_line(LOG_WARN, "clickhouse",
                 e == ERR_REFUSED                      ? "rejected"
                 : e == ERR_VERSION || e == ERR_EXISTS ? "waits"
                                                       : "unreachable",
                 "what=%s reason=%s remedy=%s", what,
                 log_str(quoted, sizeof quoted, why->text[0] ? why->text : err_text(e)),
                 "\"it is tried again all the time; the store keeps what is not sent as long as "
                 "retention lets it: 'procfleet-collector clickhouse check'\"");
    } else if (!e && was) {
        log_line(LOG_INFO, "clickhouse", "works", "after=failure");
    }
}

static void lag_log(struct ch_sink *s)
{
    struct ch_sink_stats stats;

    ch_sink_stats(s, &stats);
    if (stats.lag_ns > LAGGING_NS && os_mono_ns() - s->lag_told_ns > LAGGING_NS) {
        s->lag_told_ns = os_mono_ns();
        log_line(LOG_WARN, "clickhouse", "lagging",
                 "seconds=%" PRId64 " queue=%" PRIu64 " overflowed=%" PRIu64,
                 (int64_t)(stats.lag_ns / CLK_S), stats.queue_batches, stats.overflowed);
    }
}

/* -- one block -- */

static void sink_tell(void *ctx, enum err e, const char *what, const struct errmsg *why)
{
    trouble_set(ctx, e, what, why);
}

static bool sink_wait(void *ctx, int64_t ns)
{
    struct ch_sink *s = ctx;

    if (is_stopping(s)) {
        return false;
    }
    lag_log(s);
    os_mutex_lock(s->lock);
    s->stats.retries++;
    os_mutex_unlock(s->lock);
    sink_pause(s, ns);
    return true;
}

static void sink_done(void *ctx, const struct ch_send_done *b)
{
    struct ch_sink *s = ctx;
    int64_t now_ns = os_utc_ns();
    struct ch_queue_item *done;

    os_mutex_lock(s->lock);
    for (size_t i = 0; i < b->n_keys; i++) {
        err_ignore(ch_sent_add(s->sent, &b->keys[i].host, b->keys[i].stream, b->keys[i].seq,
                               b->keys[i].seq, now_ns));
    }
    s->stats.batches += b->n_keys - b->given_up;
    s->stats.given_up += b->given_up;
    s->stats.cells += b->cells;
    s->stats.samples += b->samples;
    s->stats.values += b->values;
    s->stats.bytes = ch_http_bytes_sent(s->http);
    s->stats.blocks++;
    s->stats.cpu_ns = os_thread_cpu_ns();
    done = s->more ? NULL : s->queue.sending;
    s->queue.sending = s->more ? s->queue.sending : NULL;
    os_mutex_unlock(s->lock);
    ch_queue_free(done);
}

static enum err sink_send_create(struct ch_sink *s)
{
    const struct ch_send_conf conf = {.http = s->http,
                                      .collector = s->conf.name,
                                      .started_ns = s->started_ns,
                                      .samples = s->conf.samples,
                                      .n_samples = s->conf.n_samples,
                                      .quorum = s->conf.quorum,
                                      .tell = sink_tell,
                                      .wait = sink_wait,
                                      .done = sink_done,
                                      .ctx = s};

    return ch_send_create(&s->send, &conf);
}

/* -- opening -- */

enum err ch_sink_open(struct ch_sink **out, const struct ch_sink_conf *conf, struct errmsg *why)
{
    struct ch_sink *s = mem_zalloc(sizeof *s);
    struct ch_sent_conf sent = {conf->fio, NULL, conf->name, conf->hosts_max, conf->forget_ns};
    enum err e = ERR_NOMEM;

    if (!s) {
        return ERR_NOMEM;
    }
    s->conf = *conf;
    ch_queue_init(&s->queue, CH_SINK_QUEUE_BYTES);
    s->pass_at_ns = INT64_MIN;
    s->lowered = (struct ch_sent_from){INT64_MAX, INT64_MAX, 0};
    s->started_ns = os_utc_ns();
    s->dir = os_path_join(conf->data_dir, "clickhouse");
    if (s->dir) {
        sent.dir = s->dir;
        e = os_mutex_create(&s->lock);
        e = e ? e : os_mutex_create(&s->saving);
    }
    e = e ? e : os_cond_create(&s->cond, s->lock);
    e = e ? e : ch_sent_open(&s->sent, &sent, &s->backlog, why);
    e = e ? e : ch_ready_id(&s->id, s->dir, why);
    e = e ? e : ch_http_open(&s->http, &conf->server, why);
    e = e ? e : sink_send_create(s);
    if (e) {
        ch_sink_close(s);
        return e;
    }
    *out = s;
    return ERR_OK;
}

void ch_sink_close(struct ch_sink *s)
{
    if (!s) {
        return;
    }
    ch_tier_stop(s->tier);
    ch_queue_fini(&s->queue);
    ch_send_destroy(s->send);
    ch_http_close(s->http);
    ch_sent_close(s->sent);
    os_cond_destroy(s->cond);
    os_mutex_destroy(s->lock);
    os_mutex_destroy(s->saving);
    mem_free(s->dir);
    mem_free(s);
}

/* -- getting ready -- */

/* As ch_ready_ledger's add. */
static enum err ledger_add(void *ctx, const struct uuid *host, uint64_t stream, uint64_t first,
                           uint64_t last)
{
    struct ch_sink *s = ctx;
    enum err e;

    os_mutex_lock(s->lock);
    e = ch_sent_add(s->sent, host, stream, first, last, os_utc_ns());
    os_mutex_unlock(s->lock);
    return e == ERR_FULL ? ERR_OK : e;
}

/* From when on, by arrival, the ledger matters: what the state does not say, of what the store has.
 * Nothing arrives before it was made. */
static enum err ledger_since(struct ch_sink *s, int64_t *out)
{
    struct store_view *view;
    int64_t oldest_ns;
    enum err e = store_view_open(&view, s->store);

    if (e) {
        return e;
    }
    oldest_ns = store_view_made(view, INT64_MIN);
    store_view_close(view);
    oldest_ns = oldest_ns < s->started_ns ? oldest_ns : s->started_ns;
    os_mutex_lock(s->lock);
    *out = s->backlog.written_ns < s->backlog.received_ns ? s->backlog.written_ns
                                                          : s->backlog.received_ns;
    os_mutex_unlock(s->lock);
    *out = clk_sub(*out > oldest_ns ? *out : oldest_ns, LEDGER_BACK);
    return ERR_OK;
}

static enum err ready_check(struct ch_sink *s, struct errmsg *why)
{
    const struct ch_layout layout = {.database = s->conf.server.database,
                                     .replicated = s->conf.server.n_urls > 1,
                                     .keep = s->conf.keep};
    struct ch_ready_ledger ledger = {.collector = s->conf.name, .add = ledger_add, .ctx = s};
    enum err e = ch_ready_tables(s->http, &layout, why);

    e = e ? e : ledger_since(s, &ledger.received_ns);
    e = e ? e : ch_ready_name(s->http, s->conf.name, &s->id, why);
    return e ? e : ch_ready_ledger(s->http, &ledger, why);
}

static void sink_prepare(struct ch_sink *s)
{
    struct errmsg why = {""};
    int64_t pause_ns = PAUSE_MIN;
    enum err e = ERR_BUSY;

    while (e && !is_stopping(s)) {
        why.text[0] = 0;
        e = ready_check(s, &why);
        if (e != ERR_CLOSED) {
            trouble_set(s, e, "tables", &why);
        }
        if (e) {
            lag_log(s);
            sink_pause(s, e == ERR_VERSION || e == ERR_EXISTS ? 5 * CLK_S : pause_ns);
            pause_ns = pause_ns * 2 < PAUSE_MAX / 4 ? pause_ns * 2 : PAUSE_MAX / 4;
        }
    }
    if (!e) {
        char url[600], version[200], name[600];

        s->ready = true;
        os_mutex_lock(s->lock);
        (void)snprintf(s->stats.version, sizeof s->stats.version, "%s", ch_http_version(s->http));
        os_mutex_unlock(s->lock);
        log_line(LOG_INFO, "clickhouse", "connected", "server=%s version=%s collector=%s",
                 log_str(url, sizeof url, ch_http_url(s->http)),
                 log_str(version, sizeof version, ch_http_version(s->http)),
                 log_str(name, sizeof name, s->conf.name));
    }
}

/* -- live -- */

static enum err live_add(struct ch_sink *s, const struct ch_queue_item *i)
{
    const struct ch_rows_batch b = {.rest = i->batch,
                                    .rows = i->batch,
                                    .clock = &i->clock,
                                    .received_ns = i->received_ns,
                                    .host_name = i->name};

    return ch_send_add(s->send, &b);
}

static enum err live_send(struct ch_sink *s)
{
    struct ch_queue_item **list;
    size_t n;
    bool some;
    enum err e;

    os_mutex_lock(s->lock);
    some = ch_queue_take(&s->queue, CH_SEND_CELLS, CH_SEND_BYTES);
    os_mutex_unlock(s->lock);
    if (!some) {
        return ERR_OK;
    }
    list = ch_queue_sorted(&s->queue, &n);
    e = list ? ERR_OK : ERR_NOMEM;
    for (size_t i = 0; i < n && !e; i++) {
        e = live_add(s, list[i]);
        if (!e && i + 1 < n && ch_send_is_full(s->send)) {
            s->more = true;
            e = ch_send_block(s->send, false);
            s->more = false;
        }
    }
    mem_free(list);
    return e ? e : ch_send_block(s->send, false);
}

/* What was taken and not sent is to be read from the store some day. */
static void live_put_back(struct ch_sink *s)
{
    struct ch_queue_item *list;

    os_mutex_lock(s->lock);
    list = s->queue.sending;
    for (const struct ch_queue_item *i = list; i; i = i->next) {
        backlog_lower(s, i->made_ns, i->received_ns);
        s->stats.overflowed++;
    }
    s->queue.sending = NULL;
    os_mutex_unlock(s->lock);
    ch_queue_free(list);
    ch_send_reset(s->send);
}

/* -- backlog -- */

static bool stored_is_sent(void *ctx, const struct uuid *host, uint64_t stream, uint64_t seq)
{
    struct ch_sink *s = ctx;
    bool sent;

    os_mutex_lock(s->lock);
    sent = ch_sent_has(s->sent, host, stream, seq) ||
           ch_queue_has(&s->queue, host, stream, seq); /* it will be */
    os_mutex_unlock(s->lock);
    return sent;
}

static bool stored_never_sent(void *ctx, const struct uuid *host, uint64_t stream, uint64_t seq)
{
    (void)ctx;
    (void)host;
    (void)stream;
    (void)seq;
    return false;
}

static enum err stored_when_full(struct ch_sink *s)
{
    enum err e = ERR_OK;

    if (ch_send_is_full(s->send)) {
        e = ch_send_block(s->send, s->again);
        s->again = false;
    }
    return e;
}

static enum err stored_take(void *ctx, const struct ch_rows_batch *b)
{
    struct ch_sink *s = ctx;
    enum err e = is_stopping(s) ? ERR_CLOSED : ch_send_add(s->send, b);

    s->again = s->again || b->received_ns <= s->started_ns;
    return e ? e : stored_when_full(s);
}

static enum err stored_process(void *ctx, const struct uuid *host, const struct uuid *boot,
                               const struct proc_info *info, int64_t seen_ns)
{
    struct ch_sink *s = ctx;

    ch_send_process(s->send, host, boot, info, seen_ns);
    return stored_when_full(s);
}

static enum err stored_flush(struct ch_sink *s)
{
    enum err e = ERR_OK;

    if (!ch_send_is_empty(s->send)) {
        e = ch_send_block(s->send, s->again);
        s->again = false;
    }
    return e;
}

/* After a start: everything in the head. */
static enum err head_send(struct ch_sink *s)
{
    const struct ch_backlog b = {.is_sent = stored_is_sent, .take = stored_take, .ctx = s};
    enum err e = ch_backlog_heads(&b, s->store);

    e = e ? e : stored_flush(s);
    s->head_done = !e;
    return e;
}

static enum err note_take(void *ctx, const struct ch_rows_batch *b)
{
    struct ch_sink *s = ctx;
    int64_t t0_ns, t1_ns;

    batch_time_span(b->rest, b->received_ns, &t0_ns, &t1_ns);
    os_mutex_lock(s->lock);
    backlog_lower(s, batch_time_made(t1_ns, b->clock, b->received_ns), b->received_ns);
    os_mutex_unlock(s->lock);
    return is_stopping(s) ? ERR_CLOSED : ERR_OK;
}

/* After a start: what recovery found and nobody has sent may be sealed, and leave the head, before
 * ClickHouse can be asked. */
static enum err head_note(struct ch_sink *s)
{
    const struct ch_backlog b = {.is_sent = stored_is_sent, .take = note_take, .ctx = s};
    enum err e = ch_backlog_heads(&b, s->store);

    os_mutex_lock(s->lock);
    s->noted = !e;
    os_mutex_unlock(s->lock);
    return e;
}

/* Opens the view of the next slice. ERR_END: the pass is over. */
static enum err slice_begin(struct ch_sink *s)
{
    int64_t begins_ns;
    enum err e = store_view_open(&s->view, s->store);

    if (e) {
        return e;
    }
    s->view_host = 0;
    if (s->pass_at_ns == INT64_MIN) { /* a pass begins */
        os_mutex_lock(s->lock);
        s->pass_at_ns = s->backlog.made_ns;
        s->lowered = (struct ch_sent_from){INT64_MAX, INT64_MAX, 0};
        os_mutex_unlock(s->lock);
    }
    begins_ns = store_view_made(s->view, s->pass_at_ns); /* the next window that there is */
    s->pass_at_ns = begins_ns == INT64_MAX ? os_utc_ns() : begins_ns;
    return ERR_OK;
}

/* All of the slice is in: what is missing begins behind it. */
static void slice_end(struct ch_sink *s, int64_t until_ns, bool last)
{
    store_view_close(s->view);
    s->view = NULL;
    os_mutex_lock(s->lock);
    s->backlog.made_ns = last ? INT64_MAX : until_ns;
    if (s->backlog.received_ns < until_ns) { /* nothing arrives before it was made */
        s->backlog.received_ns = until_ns;
    }
    s->backlog.received_ns = last ? INT64_MAX : s->backlog.received_ns;
    from_lower(&s->backlog, s->lowered.made_ns, s->lowered.received_ns);
    os_mutex_unlock(s->lock);
    s->pass_at_ns = last ? INT64_MIN : until_ns;
}

/* A block's worth of what the store has and ClickHouse has not. */
static enum err backlog_send(struct ch_sink *s)
{
    struct ch_backlog b = {
        .is_sent = stored_is_sent, .take = stored_take, .process = stored_process, .ctx = s};
    uint64_t blocks = ch_send_blocks(s->send);
    int64_t until_ns;
    bool last;
    enum err e = s->view ? ERR_OK : slice_begin(s);

    if (e) {
        return e;
    }
    until_ns = clk_add(s->pass_at_ns, SLICE_NS);
    last = until_ns > os_utc_ns() - SLICE_NS / 3;
    b.view = s->view;
    while (!e && ch_send_blocks(s->send) == blocks && s->view_host < store_view_hosts(s->view)) {
        e = ch_backlog_span(&b, s->view_host++, s->pass_at_ns, last ? INT64_MAX : until_ns);
    }
    e = e ? e : stored_flush(s); /* live batches must not come into a block of these */
    if (!e && s->view_host == store_view_hosts(s->view)) {
        slice_end(s, until_ns, last);
    }
    return e;
}

static bool backlog_is_due(struct ch_sink *s)
{
    bool due;

    os_mutex_lock(s->lock);
    due = s->backlog.made_ns != INT64_MAX;
    os_mutex_unlock(s->lock);
    return due;
}

/* -- asked for -- */

static enum err forward_take(void *ctx, const struct ch_rows_batch *b)
{
    struct ch_sink *s = ctx;

    s->again = true;
    s->forwarded++;
    return stored_take(ctx, b);
}

/* A slice, or a block's worth of it. ERR_END: that was all. */
static enum err forward_slice(struct ch_sink *s)
{
    struct ch_backlog b = {
        .is_sent = stored_never_sent, .take = forward_take, .process = stored_process, .ctx = s};
    uint64_t blocks = ch_send_blocks(s->send);
    int64_t until_ns;
    enum err e = ERR_OK;

    if (!s->forward_view) {
        e = store_view_open(&s->forward_view, s->store);
        if (e) {
            return e;
        }
        s->forward_host = 0;
        s->forward_at_ns = store_view_made(s->forward_view, s->forward_at_ns);
    }
    if (s->forward_at_ns >= s->forward.until_ns) {
        return ERR_END;
    }
    until_ns = clk_add(s->forward_at_ns, SLICE_NS);
    until_ns = until_ns < s->forward.until_ns ? until_ns : s->forward.until_ns;
    b.view = s->forward_view;
    while (!e && ch_send_blocks(s->send) == blocks && s->forward_host < store_view_hosts(b.view)) {
        size_t i = s->forward_host++;

        if (glob_match(str_make(s->forward.hosts), str_make(store_view_host(b.view, i)->name))) {
            e = ch_backlog_span(&b, i, s->forward_at_ns, until_ns);
        }
    }
    e = e ? e : stored_flush(s);
    if (!e && s->forward_host == store_view_hosts(b.view)) {
        store_view_close(s->forward_view);
        s->forward_view = NULL;
        s->forward_at_ns = until_ns;
    }
    return e;
}

/* A request of `clickhouse forward`, when there is one. */
static enum err forward_poll(struct ch_sink *s)
{
    enum err e;

    if (!s->forwarding) {
        s->forwarding = ch_forward_get(s->dir, &s->forward);
        s->forward_at_ns = s->forward.since_ns;
        s->forwarded = 0;
    }
    e = s->forwarding ? forward_slice(s) : ERR_OK;
    if (!e) {
        return ERR_OK;
    }
    store_view_close(s->forward_view);
    s->forward_view = NULL;
    s->forwarding = false;
    if (e == ERR_CLOSED) { /* the request stays for the next start */
        return e;
    }
    ch_send_reset(s->send);
    e = e == ERR_END ? ERR_OK : e;
    log_line(e ? LOG_WARN : LOG_INFO, "clickhouse", e ? "forward_failed" : "forwarded",
             "batches=%" PRIu64 " reason=%s", s->forwarded, err_name(e));
    return ch_forward_end(s->dir, s->forwarded, e);
}

/* -- the thread -- */

/* Waits until a block is worth sending: gathered long enough, or full. */
static void live_wait(struct ch_sink *s, bool backlog)
{
    int64_t begun_ns = os_mono_ns(), until_ns = begun_ns + s->conf.gather_ns;

    os_mutex_lock(s->lock);
    while (!s->stop && !backlog && s->queue.bytes < CH_SINK_QUEUE_BYTES / 4) {
        size_t rows = 0;

        if (os_mono_ns() >= until_ns) {
            for (const struct ch_queue_item *i = s->queue.first; i; i = i->next) {
                rows += i->batch->n_runs;
            }
            if (rows >= FEW_ROWS || !s->queue.first ||
                os_mono_ns() - begun_ns >= 5 * s->conf.gather_ns ||
                os_mono_ns() - begun_ns >= GATHER_MAX) {
                break;
            }
            until_ns = os_mono_ns() + s->conf.gather_ns / 4 + 1;
        }
        err_ignore(os_cond_wait_until(s->cond, until_ns));
    }
    os_mutex_unlock(s->lock);
}

/* While there is a backlog, live batches are gathered likewise. */
static bool live_is_due(struct ch_sink *s)
{
    int64_t now_ns = os_mono_ns();
    bool due;

    os_mutex_lock(s->lock);
    due = now_ns - s->live_ns >= s->conf.gather_ns || s->queue.bytes >= CH_SINK_QUEUE_BYTES / 4;
    os_mutex_unlock(s->lock);
    s->live_ns = due ? now_ns : s->live_ns;
    return due;
}

/* What is due beside the blocks. */
static void sink_housekeep(struct ch_sink *s)
{
    int64_t now_ns = os_mono_ns();
    struct ch_tell tell;

    if (now_ns - s->saved_ns >= SAVE_NS) {
        s->saved_ns = now_ns;
        (void)ch_sink_keep(s);
        lag_log(s);
    }
    if (s->ready && now_ns - s->told_ns >= STATE_NS) {
        s->told_ns = now_ns;
        tell = (struct ch_tell){.http = s->http,
                                .store = s->store,
                                .name = s->conf.name,
                                .id = &s->id,
                                .started_ns = s->started_ns,
                                .host_state = s->conf.host_state,
                                .ctx = s->conf.ctx};
        ch_send_buffers(s->send, &tell.sql, &tell.body);
        ch_tell_all(&tell);
    }
}

static void sink_failed(struct ch_sink *s, const char *what, enum err e)
{
    live_put_back(s);
    store_view_close(s->view);
    s->view = NULL;
    s->pass_at_ns = INT64_MIN;
    if (e != ERR_CLOSED) {
        log_line(LOG_WARN, "clickhouse", "unread", "what=%s reason=%s remedy=%s", what, err_name(e),
                 "\"it is read from the store and tried again\"");
        sink_pause(s, 5 * CLK_S);
    }
}

static void sink_round(struct ch_sink *s)
{
    bool backlog = backlog_is_due(s), busy = backlog || s->forwarding;
    enum err e;

    live_wait(s, busy || !s->head_done);
    e = busy && !live_is_due(s) ? ERR_OK : live_send(s);
    if (e) {
        sink_failed(s, "queue", e);
        return;
    }
    e = s->head_done ? ERR_OK : head_send(s);
    if (e) {
        sink_failed(s, "log", e);
        return;
    }
    e = backlog ? backlog_send(s) : forward_poll(s);
    if (e) {
        sink_failed(s, "store", e);
    }
    sink_housekeep(s);
}

/* The end: what the queue has goes in if it can at once; the rest is read from the store after the
 * next start. */
static void sink_flush(struct ch_sink *s)
{
    bool some = s->ready;
    enum err e = ERR_OK;

    while (some && !e) {
        e = live_send(s);
        os_mutex_lock(s->lock);
        some = s->queue.first != NULL;
        os_mutex_unlock(s->lock);
    }
    live_put_back(s);
    os_mutex_lock(s->lock);
    s->flushed = true;
    os_cond_wake_all(s->cond);
    os_mutex_unlock(s->lock);
}

static void sink_run(void *arg)
{
    struct ch_sink *s = arg;

    err_ignore(os_thread_background());
    while (!is_stopping(s) && head_note(s)) {
        sink_pause(s, CLK_S);
    }
    sink_prepare(s);
    while (!is_stopping(s)) {
        sink_round(s);
    }
    sink_flush(s);
    store_view_close(s->view);
    store_view_close(s->forward_view);
    s->view = s->forward_view = NULL;
    (void)ch_sink_keep(s);
}

enum err ch_sink_start(struct ch_sink *s, struct store *store)
{
    const struct ch_tier_conf tier = {.server = &s->conf.server,
                                      .name = s->conf.name,
                                      .keep_cell_ns = s->conf.keep.cell_ns,
                                      .quorum = s->conf.quorum};
    struct errmsg why = {""};
    enum err e = ch_tier_start(&s->tier, &tier, &why);

    s->store = store;
    return e ? e : os_thread_start(&s->thread, "clickhouse", sink_run, s);
}

void ch_sink_stop(struct ch_sink *s)
{
    int64_t until_ns = clk_add(os_mono_ns(), FLUSH_NS);

    if (!s || !s->thread) {
        return;
    }
    ch_tier_stop(s->tier);
    s->tier = NULL;
    os_mutex_lock(s->lock);
    s->stop = true;
    os_cond_wake_all(s->cond);
    while (!s->flushed && !s->stats.trouble[0] &&
           os_cond_wait_until(s->cond, until_ns) != ERR_TIMEOUT) {
    }
    os_mutex_unlock(s->lock);
    ch_http_stop(s->http);
    os_thread_join(s->thread);
    s->thread = NULL;
}
