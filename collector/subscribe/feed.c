/* One publisher thread takes what waits, in slices:
 *
 *   feed_stored (store's writer) - queue - publisher: gather up to 50 ms from the first that came
 *                                                     by host: complete, make messages
 *                                                     journal, sync, send, wake the polls
 *
 * A slice ends when batches in it came more than SLICE_NS apart. So whatever came that long before
 * the journal's newest record is in the journal too, or was counted as left out, and starting looks
 * only at what came later.
 *
 * When the disk is full the publisher waits with what it has, and what comes waits in the queue, so
 * that nothing is lost as long as that has room; feed_keep then returns false
 * at once, for it is the sealing thread, which may be about to make room.
 *
 * Rejected: reading batches back from the store (one that is sealed meanwhile would be missed);
 * sending before the sync (a number could be given again after loss of power). */
#include "collector/subscribe/feed.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "collector/subscribe/update_builder.h"
#include "common/base/clk.h"
#include "common/base/heartbeat.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define SLICE_BYTES ((size_t)8 << 20) /* with so much waiting nothing more is gathered */
#define SLICE_NOTES 4096u
#define SLICE_NS    (10 * CLK_S)
#define SPACE_NS    (CLK_S / 4)  /* between attempts while the disk is full */
#define BEFORE_NS   (60 * CLK_S) /* far more than SLICE_NS and what arrivals overtake each other */

enum state { FEED_NEW, FEED_RUNS, FEED_STOPPED };

struct feed {
    struct feed_conf conf;
    struct store *store;
    struct os_thread *thread;
    struct heartbeat round; /* the thread's */

    struct os_mutex *lock; /* guards what follows, up to the next blank line */
    struct os_cond *wake;  /* the publisher */
    struct os_cond *done;  /* those in feed_keep */
    enum state state;
    struct feed_note *queue, **queue_end;
    size_t queued_bytes, held_bytes;
    uint64_t came, finished;      /* batches, ever */
    unsigned hurry;               /* callers in feed_keep */
    bool full;                    /* the journal waits for room on the disk */
    struct publisher_topics left; /* of batches left out: whether numbers are to be skipped */
    struct feed_stats stats;

    /* the publisher's own */
    struct publisher *out;
    struct update_builder *make;
    struct feed_note *slice[SLICE_NOTES];
    size_t n_slice;
    bool notices_new; /* no notice that comes is in the journal already */
};

/* While the disk is full. */
static bool feed_wait_for_space(void *ctx)
{
    struct feed *f = ctx;
    int64_t until_ns = os_mono_ns() + SPACE_NS;
    bool runs;

    os_mutex_lock(f->lock);
    f->full = f->state == FEED_RUNS;
    os_cond_wake_all(f->done);
    while (f->state == FEED_RUNS && os_cond_wait_until(f->wake, until_ns) != ERR_TIMEOUT) {
    }
    runs = f->state == FEED_RUNS;
    os_mutex_unlock(f->lock);
    heartbeat_work(&f->round, os_mono_ns());
    return runs;
}

static enum err feed_open_parts(struct feed *f)
{
    enum err e = os_mutex_create(&f->lock);

    if (!e) {
        e = os_cond_create(&f->wake, f->lock);
    }
    if (!e) {
        e = os_cond_create(&f->done, f->lock);
    }
    if (!e) {
        e = publisher_create(&f->out, &f->conf);
    }
    if (!e) {
        publisher_on_full(f->out, feed_wait_for_space, f);
        e = update_builder_create(&f->make, f->out);
    }
    return e;
}

static void note_free(struct feed_note *n)
{
    if (n) {
        wire_batch_free(n->batch);
        mem_free(n);
    }
}

enum err feed_create(struct feed **out, const struct feed_conf *conf)
{
    struct feed *f = mem_zalloc(sizeof *f);
    enum err e;

    if (!f) {
        return ERR_NOMEM;
    }
    f->conf = *conf;
    f->queue_end = &f->queue;
    publisher_topics_init(&f->left, conf->hosts_max);
    e = feed_open_parts(f);
    if (e) {
        feed_destroy(f);
        return e;
    }
    *out = f;
    return ERR_OK;
}

void feed_destroy(struct feed *f)
{
    if (!f) {
        return;
    }
    if (f->done) {
        feed_stop(f);
    }
    while (f->queue) {
        struct feed_note *n = f->queue;

        f->queue = n->next;
        note_free(n);
    }
    update_builder_destroy(f->make);
    publisher_destroy(f->out);
    publisher_topics_fini(&f->left);
    os_cond_destroy(f->done);
    os_cond_destroy(f->wake);
    os_mutex_destroy(f->lock);
    mem_free(f);
}

/* -- the writer's side -- */

/* batch: to be held, NULL: copies the bytes. */
static struct feed_note *note_make(const char *name, const struct uuid *host,
                                   const struct store_raw *raw, struct batch *batch)
{
    struct feed_note *n = mem_alloc(sizeof *n + (batch ? 0 : raw->n));

    if (!n) {
        return NULL;
    }
    *n = (struct feed_note){.host = *host,
                            .stream = raw->stream,
                            .seq = raw->seq,
                            .received_ns = raw->received_ns,
                            .mono_ns = os_mono_ns(),
                            .n = raw->n};
    memcpy(n->name, name, strnlen(name, sizeof n->name - 1));
    if (batch) {
        n->batch = wire_batch_hold(batch);
        n->memory = wire_batch_room(batch);
    } else {
        memcpy(n->bytes, raw->bytes, raw->n);
    }
    return n;
}

/* Under the lock: both topics, where they would have had a message, skip a number. */
static void topics_leave_out(struct feed *f, const char *name, const bool topics[FEED_TOPICS])
{
    struct publisher_topic *t = publisher_topics_get(&f->left, name);

    for (unsigned i = 0; t && i < FEED_TOPICS; i++) {
        t->seq[i] += topics[i];
    }
    f->stats.left_out++;
}

static bool feed_wants_samples(const struct feed *f)
{
    return f->conf.listeners(f->conf.ctx) > 0 ||
           (f->conf.journal && f->conf.samples_wanted && f->conf.samples_wanted(f->conf.ctx));
}

void feed_stored(void *ctx, const struct store_stored *s)
{
    struct feed *f = ctx;
    struct batch *b = s->batch;
    const struct store_raw raw = {.stream = b->head.stream,
                                  .seq = b->head.seq,
                                  .received_ns = s->received_ns,
                                  .clock = s->clock,
                                  .has_events = b->n_events > 0,
                                  .bytes = s->bytes,
                                  .n = s->n};
    bool topics[FEED_TOPICS] = {
        [FEED_EVENT] = b->n_events && (f->conf.journal || f->conf.listeners(f->conf.ctx) > 0),
        [FEED_SAMPLE] = b->n_ticks && b->n_runs && feed_wants_samples(f),
    };
    struct feed_note *n;
    bool hold;

    if (!topics[FEED_EVENT] && !topics[FEED_SAMPLE]) {
        return;
    }
    os_mutex_lock(f->lock);
    hold = f->held_bytes + wire_batch_room(b) <= FEED_HELD_MAX;
    os_mutex_unlock(f->lock);
    n = note_make(s->host_name, &b->head.host, &raw, hold ? b : NULL);
    os_mutex_lock(f->lock);
    if (f->state != FEED_STOPPED && (!n || f->queued_bytes + n->n > f->conf.queue_bytes)) {
        topics_leave_out(f, s->host_name, topics);
    } else if (f->state != FEED_STOPPED) {
        memcpy(n->topics, topics, sizeof topics);
        *f->queue_end = n;
        f->queue_end = &n->next;
        f->queued_bytes += n->n;
        f->held_bytes += n->memory;
        f->came++;
        os_cond_wake(f->wake);
        n = NULL;
    }
    os_mutex_unlock(f->lock);
    note_free(n);
}

enum err feed_notify(struct feed *f, const struct feed_notice *x, uint64_t *ticket)
{
    struct feed_note *n = mem_alloc(sizeof *n + x->bytes);
    enum err e = n ? ERR_CLOSED : ERR_NOMEM;

    if (!n) {
        return e;
    }
    *n = (struct feed_note){.host = x->host,
                            .stream = FEED_NOTICES,
                            .seq = x->n,
                            .received_ns = os_utc_ns(),
                            .mono_ns = os_mono_ns(),
                            .topics = {[FEED_RULE] = true},
                            .check = x->check,
                            .step_ns = x->step_ns,
                            .n = x->bytes};
    memcpy(n->name, x->name, strnlen(x->name, sizeof n->name - 1));
    memcpy(n->bytes, x->update, x->bytes);
    os_mutex_lock(f->lock);
    if (f->state != FEED_STOPPED) {
        *f->queue_end = n;
        f->queue_end = &n->next;
        f->queued_bytes += n->n;
        *ticket = ++f->came;
        os_cond_wake(f->wake);
        n = NULL;
        e = ERR_OK;
    }
    os_mutex_unlock(f->lock);
    note_free(n);
    return e;
}

bool feed_done(struct feed *f, uint64_t ticket)
{
    bool done;

    os_mutex_lock(f->lock);
    done = f->finished >= ticket;
    os_mutex_unlock(f->lock);
    return done;
}

bool feed_keep(void *ctx)
{
    struct feed *f = ctx;
    uint64_t mine;
    bool kept;

    os_mutex_lock(f->lock);
    mine = f->came;
    f->hurry++;
    os_cond_wake(f->wake);
    while (f->state == FEED_RUNS && f->finished < mine && !f->full) {
        os_cond_wait(f->done);
    }
    f->hurry--;
    kept = f->state == FEED_RUNS && f->finished >= mine;
    os_mutex_unlock(f->lock);
    return kept;
}

/* -- the publisher's side -- */

static void note_take(struct feed *f)
{
    struct feed_note *n = f->queue;

    f->queue = n->next;
    if (!f->queue) {
        f->queue_end = &f->queue;
    }
    assert(f->n_slice < SLICE_NOTES && f->queued_bytes >= n->n);
    f->queued_bytes -= n->n;
    f->slice[f->n_slice++] = n;
}

/* Waits for batches and takes a slice of them. False: stopping, and nothing is left. */
static bool slice_gather(struct feed *f)
{
    size_t bytes = 0;
    int64_t first_ns;

    os_mutex_lock(f->lock);
    while (!f->queue && f->state == FEED_RUNS) {
        heartbeat_work(&f->round, os_mono_ns());
        err_ignore(os_cond_wait_until(f->wake, os_mono_ns() + HEARTBEAT_ROUND_NS));
    }
    heartbeat_work(&f->round, os_mono_ns());
    while (f->queue && f->state == FEED_RUNS && f->queued_bytes < SLICE_BYTES && !f->hurry &&
           os_cond_wait_until(f->wake, f->queue->mono_ns + FEED_GATHER_NS) != ERR_TIMEOUT) {
    }
    publisher_quiet(f->out, f->state != FEED_RUNS);
    f->n_slice = 0;
    first_ns = f->queue ? f->queue->received_ns : 0;
    while (f->queue && f->n_slice < SLICE_NOTES && bytes < SLICE_BYTES &&
           llabs(f->queue->received_ns - first_ns) < SLICE_NS) {
        bytes += f->queue->n;
        note_take(f);
    }
    os_mutex_unlock(f->lock);
    return f->n_slice > 0;
}

static int note_order(const void *a, const void *b)
{
    const struct feed_note *const *x = a, *const *y = b;
    int d = strcmp((*x)->name, (*y)->name);

    d = d ? d : memcmp((*x)->host.b, (*y)->host.b, sizeof(*x)->host.b);
    d = d ? d : ((*x)->stream > (*y)->stream) - ((*x)->stream < (*y)->stream);
    return d ? d : ((*x)->seq > (*y)->seq) - ((*x)->seq < (*y)->seq);
}

static bool note_same_host(const struct feed_note *a, const struct feed_note *b)
{
    return a && b && strcmp(a->name, b->name) == 0 &&
           memcmp(a->host.b, b->host.b, sizeof a->host.b) == 0;
}

static enum err notice_publish(struct feed *f, const struct feed_note *n)
{
    const struct journal_batch key = {FEED_NOTICES, n->seq, INT64_MIN, 0};
    struct journal_record about = {.topic = FEED_RULE,
                                   .host = n->host,
                                   .stream = FEED_NOTICES,
                                   .batch = n->seq,
                                   .last_batch = n->seq,
                                   .stored_ns = n->received_ns,
                                   .first_ns = n->step_ns,
                                   .last_ns = n->step_ns};
    struct journal *j = f->conf.journal;
    struct wire_update *u;
    enum err e;

    /* They come in the order of their numbers: behind one that it has not, it has none. */
    if (n->check && j && !f->notices_new) {
        if (journal_has(j, FEED_RULE, n->name, &key)) {
            return ERR_OK;
        }
        f->notices_new = true;
    }
    e = wire_update_decode(&u, n->bytes, n->n);
    if (!e) {
        memcpy(about.name, n->name, strnlen(n->name, sizeof about.name - 1));
        publisher_put(f->out, &about, u);
        wire_update_free(u);
    }
    return e;
}

/* Notices first, in the order they came. */
static uint64_t slice_notices(struct feed *f)
{
    uint64_t bad = 0;

    for (size_t i = 0; i < f->n_slice; i++) {
        if (f->slice[i]->topics[FEED_RULE]) {
            bad += notice_publish(f, f->slice[i]) != ERR_OK;
        }
    }
    return bad;
}

/* What is wanted of the slice, host by host. */
static void slice_build(struct feed *f, const struct store_view *view)
{
    const struct feed_note *before = NULL;
    uint64_t bad = slice_notices(f);

    qsort(f->slice, f->n_slice, sizeof *f->slice, note_order);
    for (size_t i = 0; i < f->n_slice; i++) {
        const struct feed_note *n = f->slice[i];
        enum err e;

        if (n->topics[FEED_RULE]) {
            continue;
        }
        if (!note_same_host(before, n)) {
            if (before) {
                update_builder_end(f->make);
            }
            update_builder_begin(f->make, view, n->name, &n->host);
        }
        e = update_builder_add(f->make, n);
        bad += e && e != ERR_END;
        before = n;
    }
    if (before) {
        update_builder_end(f->make);
    }
    publisher_flush(f->out, true);
    os_mutex_lock(f->lock);
    f->stats.failed += bad;
    os_mutex_unlock(f->lock);
}

/* Numbers of messages that never were, before those that come. */
static void slice_skip_left_out(struct feed *f)
{
    struct publisher_topics left;

    os_mutex_lock(f->lock);
    left = f->left;
    publisher_topics_init(&f->left, f->conf.hosts_max);
    os_mutex_unlock(f->lock);
    for (size_t i = 0; i < left.n; i++) {
        for (unsigned t = 0; t < FEED_TOPICS; t++) {
            if (left.all[i].seq[t] > 0) {
                publisher_skip(f->out, (enum feed_topic)t, left.all[i].name, left.all[i].seq[t]);
            }
        }
    }
    publisher_topics_fini(&left);
}

static void slice_publish(struct feed *f)
{
    struct store_view *view;
    enum err e = store_view_open(&view, f->store);

    publisher_begin(f->out, f->slice[0]->received_ns);
    slice_skip_left_out(f);
    if (!e) {
        slice_build(f, view);
        store_view_close(view);
    } else {
        (void)slice_notices(f);
        publisher_flush(f->out, true);
    }
    os_mutex_lock(f->lock);
    for (size_t i = 0; e && i < f->n_slice; i++) {
        f->slice[i]->topics[FEED_RULE] = false;
        topics_leave_out(f, f->slice[i]->name, f->slice[i]->topics);
    }
    publisher_counts(f->out, &f->stats);
    f->finished += f->n_slice;
    assert(f->finished <= f->came);
    f->full = false;
    for (size_t i = 0; i < f->n_slice; i++) {
        assert(f->held_bytes >= f->slice[i]->memory);
        f->held_bytes -= f->slice[i]->memory;
    }
    os_cond_wake_all(f->done);
    os_mutex_unlock(f->lock);
    for (size_t i = 0; i < f->n_slice; i++) {
        note_free(f->slice[i]);
    }
    f->n_slice = 0;
}

static void feed_run(void *arg)
{
    struct feed *f = arg;

    while (slice_gather(f)) {
        slice_publish(f);
    }
    heartbeat_rest(&f->round);
}

/* -- starting: what the journal lacks --
 *
 * In slices of time, all hosts of one before the next, as it would have come: whenever this ends,
 * the journal's newest record says from when on something may be lacking. */

struct missing {
    struct feed *f;
    int64_t since_ns;         /* where to look for records, */
    uint64_t before;          /* up to what is made up now: no batch is met twice */
    struct store_raw_ask ask; /* the slice */
    const struct store_host *host;
    bool samples;
};

static enum err missing_batch(void *ctx, const struct store_raw *raw)
{
    struct missing *x = ctx;
    struct feed *f = x->f;
    struct journal *j = f->conf.journal;
    const char *name = x->host->name;
    struct feed_note *n;
    enum err e;
    struct journal_batch key = {raw->stream, raw->seq, x->since_ns, x->before};
    bool events = raw->has_events && !journal_has(j, FEED_EVENT, name, &key);
    bool samples = x->samples && !journal_has(j, FEED_SAMPLE, name, &key);

    if (!events && !samples) {
        return ERR_OK;
    }
    n = note_make(name, &x->host->id, raw, NULL);
    if (!n) {
        return ERR_NOMEM;
    }
    n->topics[FEED_EVENT] = events;
    n->topics[FEED_SAMPLE] = samples;
    e = update_builder_add(f->make, n);
    f->stats.made_up += e == ERR_OK;
    f->stats.failed += e && e != ERR_END;
    note_free(n);
    return ERR_OK;
}

/* From when on the journal may lack batches, by their arrival. */
static int64_t missing_since(struct feed *f)
{
    struct journal_stats s;
    int64_t kept_ns;

    journal_stats(f->conf.journal, &s);
    if (s.newest_ns <= 0) {
        return INT64_MIN;
    }
    /* What came before the oldest record was there, and went: it must not come again. */
    kept_ns = s.oldest_ns < s.newest_ns - 2 * SLICE_NS ? s.oldest_ns : s.newest_ns - 2 * SLICE_NS;
    return kept_ns > s.newest_ns - BEFORE_NS ? kept_ns : s.newest_ns - BEFORE_NS;
}

static enum err missing_slice(struct missing *x, const struct store_view *view)
{
    struct feed *f = x->f;
    enum err e = ERR_OK;

    x->ask.next_ns = INT64_MAX;
    for (size_t i = 0; i < store_view_hosts(view) && !e; i++) {
        x->host = store_view_host(view, i);
        update_builder_begin(f->make, view, x->host->name, &x->host->id);
        e = store_view_raw(view, i, &x->ask, missing_batch, x);
        update_builder_end(f->make);
        publisher_flush(f->out, false);
    }
    return e;
}

static enum err missing_make_up(struct feed *f)
{
    int64_t since_ns = missing_since(f);
    bool samples = f->conf.samples_wanted && f->conf.samples_wanted(f->conf.ctx);
    struct missing x = {.f = f,
                        /* a record's stamp is that of one batch of its slice */
                        .since_ns = clk_sub(since_ns, SLICE_NS),
                        /* the first slice is empty, and says where the next one begins */
                        .ask = {since_ns, since_ns, .events_only = !samples},
                        .samples = samples};
    struct store_view *view;
    uint64_t first;
    enum err e = store_view_open(&view, f->store);

    if (e) {
        return e;
    }
    journal_range(f->conf.journal, &first, &x.before);
    publisher_quiet(f->out, true);
    do {
        e = missing_slice(&x, view);
        x.ask.since_ns = x.ask.next_ns;
        x.ask.until_ns = clk_add(x.ask.next_ns, SLICE_NS);
    } while (!e && x.ask.next_ns != INT64_MAX);
    publisher_flush(f->out, true);
    publisher_counts(f->out, &f->stats);
    store_view_close(view);
    return e;
}

enum err feed_start(struct feed *f, struct store *store)
{
    enum err e;

    f->store = store;
    e = f->conf.journal ? missing_make_up(f) : ERR_OK;
    if (e) {
        return e;
    }
    os_mutex_lock(f->lock);
    f->state = FEED_RUNS;
    os_mutex_unlock(f->lock);
    e = os_thread_start(&f->thread, "feed", feed_run, f);
    if (e) {
        feed_stop(f);
    }
    return e;
}

void feed_stop(struct feed *f)
{
    os_mutex_lock(f->lock);
    f->state = FEED_STOPPED;
    os_cond_wake_all(f->wake);
    os_cond_wake_all(f->done);
    os_mutex_unlock(f->lock);
    os_thread_join(f->thread);
    f->thread = NULL;
}

int64_t feed_stuck_ns(const struct feed *f, int64_t now_ns)
{
    return heartbeat_busy_ns(&f->round, now_ns);
}

void feed_stats(struct feed *f, struct feed_stats *out)
{
    os_mutex_lock(f->lock);
    *out = f->stats;
    os_mutex_unlock(f->lock);
}
