/* The writer: takes what waits as one group, commits it to the log, makes it part of the head and
 * answers; see store.c.
 *
 * No room. The head has the group already and cannot give it back, so the commit stays and is tried
 * again; meanwhile the group and the queue are refused, as is all that comes, and the sealing
 * thread's tasks run, since retention may be what makes room. Nothing is sealed: a batch must not
 * be in a segment whose number is not known as durable. Readers may see the group before it is
 * durable. When it is, its agents send it again and get the acknowledgement.
 *
 * Group commit: a commit begins at once when the last one began commit_gather_ns ago or more,
 * otherwise when that is so or commit_bytes wait. An idle store thus answers after one sync, a busy
 * one makes at most 1 / commit_gather_ns commits a second and waits half of that on average. */

#include "collector/store/store_state.h"

#include <assert.h>

#include "collector/store/dedup.h"
#include "collector/store/seal/seal.h"
#include "collector/store/wal/wal.h"
#include "common/os/os.h"

#define GROUP_BYTES (8u << 20) /* taken for one commit */
#define RETRY_NS    20000000LL /* while memory is short */
#define RETRIES     250
#define SPACE_NS    250000000LL /* while the disk is full */

void store_writer_release_file(void *ctx, uint64_t file)
{
    struct store *s = ctx;

    wal_release(s->wal, file);
}

/* Between two commits, under the lock. */
static void writer_run_task(struct store *s)
{
    struct store_task *t = s->task;

    if (t) {
        os_mutex_unlock(s->lock);
        t->run(s, t->ctx);
        os_mutex_lock(s->lock);
        s->task = NULL;
        t->done = true;
        os_cond_wake(s->task_done);
    }
}

void store_writer_do(struct store *s, void (*run)(struct store *s, void *ctx), void *ctx)
{
    struct store_task t = {run, ctx, false};

    os_mutex_lock(s->lock);
    s->task = &t;
    os_cond_wake(s->work);
    while (!t.done) {
        os_cond_wait(s->task_done);
    }
    os_mutex_unlock(s->lock);
}

/* Waits for work; takes the oldest of it as the group. False: stopping and nothing is left. */
static bool group_take(struct store *s, int64_t last_ns)
{
    struct store_item **end = &s->queue;
    size_t bytes = 0;

    os_mutex_lock(s->lock);
    writer_run_task(s);
    while (!s->queue && !s->stopping) {
        heartbeat_rest(&s->writing);
        os_cond_wait(s->work);
        heartbeat_work(&s->writing, os_mono_ns());
        writer_run_task(s);
    }
    while (!s->stopping && s->queued_bytes < s->conf.commit_bytes &&
           os_cond_wait_until(s->work, last_ns + s->conf.commit_gather_ns) != ERR_TIMEOUT) {
        writer_run_task(s);
    }
    while (*end && bytes < GROUP_BYTES) {
        bytes += (*end)->kept->n;
        end = &(*end)->next;
    }
    assert(!s->group && s->queued_bytes >= bytes);
    s->group = s->queue;
    s->queue = *end;
    *end = NULL;
    if (!s->queue) {
        s->queue_end = &s->queue;
    }
    s->queued_bytes -= bytes;
    os_mutex_unlock(s->lock);
    return s->group != NULL;
}

/* Puts one batch into the head and the commit. */
static enum err group_stage(struct store *s, struct store_item *i)
{
    struct head_batch *kept = i->kept;
    struct dedup_counts *counts;
    struct head_host *host;
    struct wal_record r = {.kind = WAL_BATCH,
                           .host = i->batch->head.host,
                           .stream = kept->stream,
                           .seq = kept->seq,
                           .t0_ns = kept->t0_ns,
                           .t1_ns = kept->t1_ns,
                           .received_ns = kept->received_ns,
                           .clock = kept->clock,
                           .host_name = str_make(i->host_name),
                           .bytes = kept->bytes,
                           .n = kept->n,
                           .note = i->note.n ? i->note.p : (const void *)"",
                           .note_n = i->note.n};
    enum err e;

    os_mutex_lock(s->lock);
    counts = dedup_counts_ref(s->seen, &r.host);
    os_mutex_unlock(s->lock);
    if (!counts) {
        return ERR_FULL; /* its place was given to another host meanwhile */
    }
    e = head_reserve(s->head, &host, i->host_name, i->batch, counts, kept);
    if (e) {
        dedup_counts_unref(counts);
        return e;
    }
    s->newest_ns = kept->received_ns > s->newest_ns ? kept->received_ns : s->newest_ns;
    e = wal_add(s->wal, &r, s->newest_ns, &kept->file);
    if (e) {
        return e;
    }
    wal_hold(s->wal, kept->file);
    head_append(s->head, host, i->batch, kept);
    head_keep_hot(s->head, host, kept, i->hot);
    i->hot = NULL;
    i->sent = kept;
    i->kept = NULL;
    return ERR_OK;
}

/* Memory may come back: the agents wait for their answers meanwhile, nothing is lost. */
enum err store_writer_prepare(struct store *s)
{
    enum err e = head_prepare(s->head);

    for (int i = 0; e == ERR_NOMEM && i < RETRIES; i++) {
        os_sleep_ns(RETRY_NS);
        e = head_prepare(s->head);
    }
    return e;
}

static void group_settle(struct store *s, struct store_item *i)
{
    const struct batch_head *h = &i->batch->head;
    struct seq_range r = {h->seq, h->seq};

    /* The stream can be missing when it was forgotten since: then it is so for its repeats too. */
    err_ignore(dedup_add(s->seen, &h->host, h->stream, r));
    s->stats.batches++;
}

void store_writer_refresh_stats(struct store *s)
{
    struct head_stats head;
    struct wal_stats wal;

    head_stats(s->head, &head);
    wal_stats(s->wal, &wal);
    s->stats.commits = wal.commits;
    s->stats.torn_bytes = wal.torn_bytes;
    s->stats.bad_records = wal.bad_records;
    s->stats.aside_files = wal.aside;
    s->stats.recovered_bytes = wal.replayed_bytes;
    s->stats.log_files = wal.files;
    s->stats.log_bytes = wal.bytes;
    s->stats.unindexed = wal.unindexed;
    s->stats.head_bytes = head.bytes;
    s->stats.head_batches = head.batches;
    s->stats.head_hosts = head.busy;
    s->stats.hot_bytes = head.hot_bytes;
    s->stats.hot_left_out = head.hot_left_out;
    s->stats.info_bytes = head.info_bytes;
    s->stats.info_gone = head.info_gone;
    s->stats.info_cut = head.info_cut;
    s->stats.hosts = head.hosts;
    s->stats.forgotten_streams = dedup_forgotten(s->seen);
    s->stats.closed_holes = dedup_closed(s->seen);
}

/* The group is durable or failed: make that known, to readers first. */
static void group_finish(struct store *s, enum err failed, const struct errmsg *why, size_t bytes)
{
    bool first = failed && !s->stats.failed; /* only this thread sets it */

    if (!failed) {
        head_publish(s->head);
        wal_trim(s->wal);
    }
    os_mutex_lock(s->lock);
    for (struct store_item *i = s->group; i; i = i->next) {
        if (failed) {
            i->result = failed;
        } else if (i->result == ERR_OK) {
            group_settle(s, i);
        }
    }
    s->stats.failed = s->stats.failed || failed;
    s->stats.bytes += failed ? 0 : bytes;
    store_writer_refresh_stats(s);
    os_mutex_unlock(s->lock);
    if (first && s->conf.on_failed) {
        s->conf.on_failed(s->conf.ctx, why);
    }
}

/* Takes the group out of the queue's books and calls back. */
static void group_answer(struct store *s)
{
    struct store_item *i;

    for (i = s->group; i; i = i->next) {
        if (i->result == ERR_OK && s->conf.on_stored) {
            const struct store_stored stored = {i->host_name,         i->batch,
                                                i->sent->bytes,       i->sent->n,
                                                i->sent->received_ns, &i->sent->clock};

            s->conf.on_stored(s->conf.ctx, &stored);
        }
    }
    os_mutex_lock(s->lock);
    i = s->group;
    s->group = NULL;
    for (const struct store_item *x = i; x; x = x->next) {
        assert(s->waiting_batches > 0 && s->waiting_bytes >= x->weight &&
               s->coming_bytes >= x->head_bytes);
        s->waiting_batches--;
        s->waiting_bytes -= x->weight;
        s->coming_bytes -= x->head_bytes;
    }
    os_mutex_unlock(s->lock);
    while (i) {
        struct store_item answered = *i;

        store_item_destroy(i); /* first: after the answer the memory is free */
        if (answered.done) {
            answered.done(answered.ctx, answered.result);
        }
        i = answered.next;
    }
}

void store_writer_fail(struct store *s)
{
    struct errmsg why;
    bool first;

    errmsg_set(&why, ERR_NOMEM, "out of memory for too long; restart with a smaller head");
    os_mutex_lock(s->lock);
    first = !s->stats.failed;
    s->stats.failed = true;
    os_mutex_unlock(s->lock);
    if (first && s->conf.on_failed) {
        s->conf.on_failed(s->conf.ctx, &why);
    }
}

void store_writer_keep_lost(struct store *s)
{
    struct errmsg why;

    err_ignore(wal_turn(s->wal, s->newest_ns, &why));
}

/* -- no room on the disk -- */

/* What has not begun to become durable goes back to its agents; of the group they get only the
 * answer. */
static void space_refuse_waiting(struct store *s)
{
    struct store_item *queue;

    os_mutex_lock(s->lock);
    queue = s->queue;
    s->queue = NULL;
    s->queue_end = &s->queue;
    s->queued_bytes = 0;
    for (const struct store_item *i = queue; i; i = i->next) {
        s->waiting_batches--;
        s->waiting_bytes -= i->weight;
        s->coming_bytes -= i->head_bytes;
        s->stats.refused++;
    }
    os_mutex_unlock(s->lock);
    while (queue) {
        struct store_item refused = *queue;

        store_item_destroy(queue);
        refused.done(refused.ctx, ERR_NOSPACE);
        queue = refused.next;
    }
    for (struct store_item *i = s->group; i; i = i->next) {
        i->done(i->ctx, i->result ? i->result : ERR_NOSPACE);
        i->done = NULL;
    }
}

static void space_set_none(struct store *s, const struct errmsg *why)
{
    os_mutex_lock(s->lock);
    s->stats.no_space = why != NULL;
    os_mutex_unlock(s->lock);
    if (s->conf.on_no_space) {
        s->conf.on_no_space(s->conf.ctx, why);
    }
}

/* Runs tasks for a while. False: the store is to be closed. */
static bool space_wait(struct store *s)
{
    int64_t until_ns = os_mono_ns() + SPACE_NS;
    bool stopping;

    os_mutex_lock(s->lock);
    heartbeat_rest(&s->writing);
    while (!s->stopping && os_cond_wait_until(s->work, until_ns) != ERR_TIMEOUT) {
        heartbeat_work(&s->writing, os_mono_ns());
        writer_run_task(s);
        heartbeat_rest(&s->writing);
    }
    writer_run_task(s);
    stopping = s->stopping;
    /* No caller waits any more: closing is no failure to report. */
    s->stats.failed = s->stats.failed || stopping;
    os_mutex_unlock(s->lock);
    heartbeat_work(&s->writing, os_mono_ns());
    return !stopping;
}

static enum err group_commit_when_there_is_space(struct store *s, struct errmsg *why)
{
    enum err e = ERR_NOSPACE;

    space_set_none(s, why);
    space_refuse_waiting(s);
    while (e == ERR_NOSPACE && space_wait(s) && !s->stats.failed) {
        e = wal_commit(s->wal, why);
    }
    return e;
}

static void group_commit(struct store *s)
{
    struct errmsg why = {""};
    size_t bytes = 0;
    enum err e = s->stats.failed ? ERR_IO : ERR_OK; /* only this thread sets it */

    for (struct store_item *i = s->group; i && !e; i = i->next) {
        size_t n = i->kept->n;

        i->result = group_stage(s, i);
        bytes += i->result == ERR_OK ? n : 0;
    }
    if (!e) {
        e = store_writer_prepare(s);
        if (e) {
            errmsg_set(&why, e, "out of memory for too long; restart with a smaller head");
        }
    }
    if (!e) {
        e = wal_commit(s->wal, &why);
    }
    if (e == ERR_NOSPACE) {
        e = group_commit_when_there_is_space(s, &why);
    }
    group_finish(s, e ? ERR_IO : ERR_OK, &why, bytes);
    group_answer(s);
    if (!e && s->stats.no_space) { /* only this thread sets it */
        space_set_none(s, NULL);
    }
}

void store_writer_main(void *arg)
{
    struct store *s = arg;
    int64_t last_ns = os_mono_ns() - s->conf.commit_gather_ns;

    while (group_take(s, last_ns)) {
        last_ns = os_mono_ns();
        heartbeat_work(&s->writing, last_ns);
        group_commit(s);
    }
    heartbeat_rest(&s->writing);
}
