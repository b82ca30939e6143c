/* The path of a batch:
 *
 *   writer --put--> waiting --disk thread--> files --disk thread--> leases --take, ack--> reader
 *
 * Only the disk thread touches files (spool_disk.h, dead_letter.h). It writes what waits and fills
 * READY_MAX leases ahead of the reader, so that the reader never waits for the disk: from the
 * files; while the disk fails, from the files and from memory by turns; and from the dead letters
 * that are to be sent again. The lock is not held across its I/O: what it writes is taken out of
 * the waiting list first, and put back if the disk fails.
 *
 * A lease: FREE -> READY (filled) -> LEASED (take) -> ACKED or REJECTED -> FREE (the disk thread
 * has put it away). READY also goes back to FREE when the batch returns to where it came from. */
#include "agent/spool/spool.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"

#define SYNC_NS   (250 * CLK_MS)
#define EXPIRE_NS (60 * CLK_S)
#define READY_MAX 2u /* leases filled ahead of the reader */
/* Between tries of a failed disk; grows when it took a probe but not what waits. */
#define RETRY_MIN_NS (5 * CLK_S)
#define RETRY_MAX_NS (300 * CLK_S)

struct waiting {
    struct waiting *next;
    uint64_t stream, seq;
    int64_t when_ns;
    int64_t since_ns; /* when the one before it was put: it holds what happened since */
    size_t n;
    uint8_t *p;
};

struct list {
    struct waiting *first, **end;
    uint64_t n, bytes;
};

enum lease_state {
    LEASE_FREE,
    LEASE_READY,    /* filled, for the reader */
    LEASE_LEASED,   /* the reader has it */
    LEASE_ACKED,    /* the reader is finished with it: the disk thread puts it away */
    LEASE_REJECTED, /* likewise, as a dead letter */
};

struct lease {
    enum lease_state state;
    uint64_t order; /* leases are taken in the order in which they were filled */
    struct spool_taken taken;
    struct buf content;          /* of a batch from a file */
    struct waiting *from_memory; /* NULL: it comes from a file */
    uint64_t from_dead_letter;   /* number of its file; 0: it is none */
    bool doubted;                /* a dead letter because exchanges broke under it */
    enum outbox_cause cause;     /* of LEASE_REJECTED */
    char why[DEAD_LETTER_WHY + 1];
};

struct spool {
    struct spool_conf conf;
    struct os_lock *dir_lock;
    struct os_thread *thread;

    /* of the disk thread alone */
    struct spool_disk *disk;
    struct dead_letter *dead_letters;
    int64_t synced_ns, retry_ns, retry_pause_ns, expired_ns;
    bool tried; /* numbers may have reached the disk */
    bool memory_turn;

    struct os_mutex *lock; /* guards all below */
    struct os_cond *work;  /* for the disk thread */
    struct os_cond *news;  /* for the reader */
    struct list waiting;
    struct wire_encoder *encoder;
    struct buf renumbered;
    uint64_t stream, next_seq;
    int64_t put_ns; /* UTC, of the last batch; at first, of the start */
    bool ended, stopping;
    bool woken;   /* the reader must look again */
    bool drained; /* ended, and there is nothing left to lease */
    bool failing;
    uint64_t reported_damage; /* logged so far */
    struct lease leases[OUTBOX_INFLIGHT_MAX];
    uint64_t filled;                     /* leases, ever */
    bool ack_asked;                      /* outbox_ack_upto waits for the disk thread */
    uint64_t ack_stream, ack_seq, ack_n; /* its question; and the answer */
    struct spool_stats stats;
};

/* -- what waits -- */

static void list_init(struct list *l)
{
    *l = (struct list){.end = &l->first};
}

static void list_add(struct list *l, struct waiting *w)
{
    w->next = NULL;
    *l->end = w;
    l->end = &w->next;
    l->n++;
    l->bytes += w->n;
}

static struct waiting *list_take(struct list *l)
{
    struct waiting *w = l->first;

    if (w) {
        l->first = w->next;
        l->end = l->first ? l->end : &l->first;
        l->n--;
        l->bytes -= w->n;
    }
    return w;
}

/* All of `from` behind what is in `to`. */
static void list_move(struct list *to, struct list *from)
{
    struct waiting *w;

    while ((w = list_take(from)) != NULL) {
        list_add(to, w);
    }
}

static void waiting_free(struct waiting *w)
{
    if (w) {
        mem_free(w->p);
        mem_free(w);
    }
}

/* Since when these hold what happened, UTC; 0: there are none. */
static int64_t lease_since_ns(const struct spool *s)
{
    int64_t since_ns = 0;

    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        const struct waiting *w = s->leases[i].from_memory;

        since_ns = w && (since_ns == 0 || w->since_ns < since_ns) ? w->since_ns : since_ns;
    }
    return since_ns;
}

/* Batches leased that are not on disk; adds their bytes. */
static size_t lease_memory(const struct spool *s, uint64_t *bytes)
{
    size_t n = 0;

    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        const struct waiting *w = s->leases[i].from_memory;

        if (w && s->leases[i].state != LEASE_ACKED && s->leases[i].state != LEASE_REJECTED) {
            n++;
            *bytes += w->n;
        }
    }
    return n;
}

static void waiting_lose(struct spool *s, const void *p, size_t n)
{
    spool_batch_count(&s->stats.unwritten, p, n);
}

/* Gives the batch the next number. False: it cannot be done, the batch is lost. Lock held. */
static bool waiting_number(struct spool *s, struct waiting *w)
{
    if (w->stream != s->stream || w->seq != s->next_seq) {
        uint8_t *p = NULL;

        if (spool_batch_renumber(s->encoder, &s->renumbered, w->p, w->n, s->stream, s->next_seq) ==
            ERR_OK) {
            p = mem_dup(s->renumbered.p, s->renumbered.n);
        }
        if (!p) {
            waiting_lose(s, w->p, w->n);
            return false;
        }
        mem_free(w->p);
        w->p = p;
        w->n = s->renumbered.n;
        w->stream = s->stream;
        w->seq = s->next_seq;
    }
    s->next_seq++;
    return true;
}

static struct waiting *waiting_new(struct spool *s, uint64_t stream, uint64_t seq, const void *p,
                                   size_t n)
{
    struct waiting *w = mem_zalloc(sizeof *w);
    int64_t since_ns = s->put_ns;

    if (!w) {
        return NULL;
    }
    s->put_ns = os_utc_ns();
    *w = (struct waiting){.stream = stream,
                          .seq = seq,
                          .when_ns = s->put_ns,
                          .since_ns = since_ns,
                          .n = n,
                          .p = mem_dup(p, n)};
    if (!w->p) {
        mem_free(w);
        return NULL;
    }
    return w;
}

static void waiting_make_room(struct spool *s, size_t n)
{
    uint64_t leased_bytes = 0;

    (void)lease_memory(s, &leased_bytes);
    while (s->waiting.first && s->waiting.bytes + leased_bytes + n > s->conf.memory_bytes) {
        struct waiting *w = list_take(&s->waiting);

        waiting_lose(s, w->p, w->n);
        waiting_free(w);
    }
}

enum err spool_put(struct spool *s, uint64_t stream, uint64_t seq, const void *p, size_t n)
{
    struct waiting *w = waiting_new(s, stream, seq, p, n);

    os_mutex_lock(s->lock);
    if (s->ended) {
        os_mutex_unlock(s->lock);
        waiting_free(w);
        return ERR_CLOSED;
    }
    s->stats.in++;
    if (!w) {
        waiting_lose(s, p, n);
    } else if (n > SPOOL_BATCH_MAX || !waiting_number(s, w)) {
        if (n > SPOOL_BATCH_MAX) {
            waiting_lose(s, p, n);
        }
        waiting_free(w);
    } else {
        waiting_make_room(s, w->n);
        list_add(&s->waiting, w);
        os_cond_wake_all(s->work);
    }
    os_mutex_unlock(s->lock);
    return ERR_OK;
}

void spool_next(struct spool *s, uint64_t *stream, uint64_t *seq)
{
    os_mutex_lock(s->lock);
    *stream = s->stream;
    *seq = s->next_seq;
    os_mutex_unlock(s->lock);
}

static void reader_wake(struct spool *s)
{
    s->woken = true;
    os_cond_wake_all(s->news);
}

/* -- leases: what the reader has, and will be given next -- */

static struct lease *lease_oldest(struct spool *s, enum lease_state state)
{
    struct lease *found = NULL;

    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        struct lease *h = &s->leases[i];

        if (h->state == state && (!found || h->order < found->order)) {
            found = h;
        }
    }
    return found;
}

static size_t lease_count(const struct spool *s, enum lease_state state)
{
    size_t n = 0;

    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        n += s->leases[i].state == state;
    }
    return n;
}

static bool lease_ended_any(const struct spool *s)
{
    return s->ack_asked || lease_count(s, LEASE_ACKED) > 0 || lease_count(s, LEASE_REJECTED) > 0;
}

static void lease_fill(struct spool *s, struct lease *h, const struct spool_taken *t)
{
    assert(h->state == LEASE_FREE);
    h->taken = *t;
    h->order = s->filled++;
    h->state = LEASE_READY;
}

/* A batch that is to be sent again. Lock not held. */
static enum err lease_from_dead_letters(struct spool *s, struct lease *h, struct spool_taken *t)
{
    struct dead_letter_batch b;
    enum err e = dead_letter_next(s->dead_letters, &h->content, &b);

    if (!e) {
        *t = (struct spool_taken){b.stream, b.seq, b.p, b.n};
        h->from_dead_letter = b.number;
        h->doubted = b.cause == DEAD_LETTER_BROKEN;
    }
    return e;
}

/* Fills one lease. False: there is nothing to fill it with, or enough is ready. Lock held, released
 * meanwhile. */
static bool lease_next(struct spool *s)
{
    struct lease *h = lease_oldest(s, LEASE_FREE);
    bool from_memory = s->failing && s->waiting.first && s->memory_turn;
    struct spool_taken t;
    enum err e = ERR_END;

    if (!h || lease_count(s, LEASE_READY) >= READY_MAX) {
        return false;
    }
    s->memory_turn = !s->memory_turn;
    if (!from_memory) {
        os_mutex_unlock(s->lock);
        e = lease_from_dead_letters(s, h, &t);
        if (e) {
            e = spool_disk_next(s->disk, &h->content, &t);
        }
        os_mutex_lock(s->lock);
    }
    if (!e) {
        lease_fill(s, h, &t);
    } else if (s->failing && s->waiting.first) {
        struct waiting *w = list_take(&s->waiting);

        h->from_memory = w;
        lease_fill(s, h, &(struct spool_taken){w->stream, w->seq, w->p, w->n});
    } else {
        s->drained = s->ended && !s->waiting.first && e == ERR_END &&
                     lease_count(s, LEASE_FREE) == OUTBOX_INFLIGHT_MAX;
    }
    if (h->state == LEASE_READY || s->drained) {
        reader_wake(s);
    }
    return h->state == LEASE_READY;
}

static struct dead_letter_batch lease_dead_letter(const struct lease *h)
{
    struct dead_letter_batch b = {.number = h->from_dead_letter,
                                  .cause = h->cause == OUTBOX_BROKEN ? DEAD_LETTER_BROKEN
                                                                     : DEAD_LETTER_REFUSED,
                                  .stream = h->taken.stream,
                                  .seq = h->taken.seq,
                                  .when_ns = os_utc_ns(),
                                  .p = h->taken.p,
                                  .n = h->taken.n};

    (void)snprintf(b.why, sizeof b.why, "%s", h->why);
    return b;
}

/* Of one that the reader has ended. Lock not held. */
static void lease_settle(struct spool *s, struct lease *h, bool rejected)
{
    struct dead_letter_batch b = lease_dead_letter(h);

    if (h->from_dead_letter && rejected) {
        dead_letter_reject(s->dead_letters, &b);
    } else if (h->from_dead_letter) {
        dead_letter_ack(s->dead_letters, &b);
    } else if (rejected) {
        dead_letter_put(s->dead_letters, &b);
    }
    if (!h->from_dead_letter && !h->from_memory) {
        spool_disk_ack(s->disk, &h->taken);
    }
}

static void lease_empty(struct lease *h)
{
    assert(h->state != LEASE_FREE);
    waiting_free(h->from_memory);
    h->from_memory = NULL;
    h->from_dead_letter = 0;
    h->doubted = false;
    h->state = LEASE_FREE;
}

/* Puts away what the reader has ended. Lock held, released meanwhile. */
static void lease_collect(struct spool *s)
{
    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        struct lease *h = &s->leases[i];
        bool rejected = h->state == LEASE_REJECTED;

        if (h->state == LEASE_ACKED || rejected) {
            os_mutex_unlock(s->lock);
            lease_settle(s, h, rejected);
            os_mutex_lock(s->lock);
            s->stats.again += h->from_dead_letter != 0;
            lease_empty(h);
        }
    }
}

/* The batch of a file returns to it. Lock held, released meanwhile. */
static void lease_return(struct spool *s, struct lease *h)
{
    os_mutex_unlock(s->lock);
    if (h->from_dead_letter) {
        dead_letter_return(s->dead_letters, h->from_dead_letter);
    } else {
        spool_disk_return(s->disk, &h->taken);
    }
    os_mutex_lock(s->lock);
    lease_empty(h);
}

/* Answers outbox_ack_upto. Lock held, released meanwhile. */
static void lease_ack_upto(struct spool *s)
{
    uint64_t stream = s->ack_stream, seq = s->ack_seq;
    size_t n = 0;

    if (!s->ack_asked) {
        return;
    }
    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        struct lease *h = &s->leases[i];

        if (h->state == LEASE_READY && !h->from_memory) {
            lease_return(s, h);
        } else if (h->state == LEASE_READY && h->taken.stream == stream && h->taken.seq <= seq) {
            lease_empty(h);
            n++;
        }
    }
    os_mutex_unlock(s->lock);
    n += spool_disk_ack_upto(s->disk, stream, seq);
    os_mutex_lock(s->lock);
    s->stats.out += n;
    s->ack_n = n;
    s->ack_asked = false;
    os_cond_wake_all(s->news);
}

/* Before the end: batches from memory wait again, before the rest and in their order; others return
 * to their files. Lock held, released meanwhile. */
static void lease_end_all(struct spool *s)
{
    struct list first;

    list_init(&first);
    for (;;) {
        struct lease *ready = lease_oldest(s, LEASE_READY), *h = lease_oldest(s, LEASE_LEASED);

        if (!h || (ready && ready->order < h->order)) {
            h = ready;
        }
        if (!h) {
            break;
        }
        if (h->from_memory) {
            list_add(&first, h->from_memory);
            h->from_memory = NULL;
            lease_empty(h);
        } else {
            lease_return(s, h);
        }
    }
    list_move(&first, &s->waiting);
    list_move(&s->waiting, &first);
    s->ack_asked = false;
    os_cond_wake_all(s->news);
}

/* -- the disk thread -- */

/* What a failure means, lock held: a new stream for everything that waits. */
static void disk_fail(struct spool *s, enum err e)
{
    struct list old;
    struct waiting *w;
    uint64_t stream = 0;

    list_init(&old);
    s->failing = true;
    s->stats.failures++;
    (void)snprintf(s->stats.why, sizeof s->stats.why, "cannot write to %s: %s", s->conf.disk.dir,
                   err_text(e));
    if (os_random(&stream, sizeof stream)) {
        stream = s->stream + 1;
    }
    s->stream = stream;
    s->next_seq = 1;
    list_move(&old, &s->waiting);
    while ((w = list_take(&old)) != NULL) {
        if (waiting_number(s, w)) {
            list_add(&s->waiting, w);
        } else {
            waiting_free(w);
        }
    }
}

/* Makes `job` durable and frees it; what could not be stays in it. Lock not held. */
static enum err disk_write_all(struct spool *s, struct list *job)
{
    enum err e = ERR_OK;

    for (struct waiting *w = job->first, *after; w && !e; w = after) {
        after = w->next;
        if (spool_disk_stream(s->disk) != w->stream || spool_disk_next_seq(s->disk) != w->seq) {
            e = spool_disk_commit(s->disk);
            if (!e) {
                spool_disk_renew(s->disk, w->stream, w->seq);
            }
        }
        if (!e) {
            e = spool_disk_add(s->disk, w->when_ns, w->p, w->n);
        }
        if (!e && (!after || spool_disk_waiting(s->disk) >= SPOOL_COMMIT_MAX)) {
            e = spool_disk_commit(s->disk);
        }
        while (!e && spool_disk_waiting(s->disk) == 0 && job->first != after) {
            waiting_free(list_take(job));
        }
    }
    return e;
}

/* Writes what waits. Lock held, and given up meanwhile. */
static void disk_write_waiting(struct spool *s)
{
    bool was_failing = s->failing;
    struct list job;
    enum err e = ERR_OK;

    list_init(&job);
    list_move(&job, &s->waiting);
    spool_disk_memory(s->disk, lease_since_ns(s));
    os_mutex_unlock(s->lock);
    if (was_failing) {
        e = spool_disk_probe(s->disk, job.bytes);
        s->retry_ns = os_mono_ns() + s->retry_pause_ns;
    }
    s->tried = !e;
    if (!e) {
        e = disk_write_all(s, &job);
    }
    s->synced_ns = os_mono_ns();
    os_mutex_lock(s->lock);
    if (!e) {
        s->failing = false;
        return;
    }
    list_move(&job, &s->waiting); /* what has come since goes behind it */
    list_move(&s->waiting, &job);
    if (s->tried) {
        s->retry_pause_ns = was_failing ? s->retry_pause_ns * 2 : RETRY_MIN_NS;
        s->retry_pause_ns = s->retry_pause_ns < RETRY_MAX_NS ? s->retry_pause_ns : RETRY_MAX_NS;
        s->retry_ns = s->synced_ns + s->retry_pause_ns;
        disk_fail(s, e);
    }
}

static bool disk_may_write(const struct spool *s)
{
    int64_t now_ns = os_mono_ns();

    if (!s->waiting.first) {
        return false;
    }
    return s->stopping || now_ns >= (s->failing ? s->retry_ns : s->synced_ns + SYNC_NS);
}

static void disk_report(struct spool *s, bool was_failing)
{
    char quoted[300];

    if (s->failing && !was_failing) {
        log_line(LOG_WARN, "spool", "failed", "why=%s next=%s",
                 log_str(quoted, sizeof quoted, s->stats.why),
                 "\"going on from memory, the disk is tried again every few seconds: repair what "
                 "why says, or set spool.dir\"");
    } else if (!s->failing && was_failing) {
        log_line(LOG_INFO, "spool", "recovered", "waiting=%llu", (unsigned long long)s->waiting.n);
    }
}

static void disk_report_damage(struct spool *s)
{
    const struct spool_disk_stats *d = &s->stats.disk;
    uint64_t damage = d->unreadable + d->damaged_headers;

    if (damage > s->reported_damage) {
        s->reported_damage = damage;
        log_line(
            LOG_WARN, "spool", "damaged", "unreadable=%llu headers=%llu why=%s",
            (unsigned long long)d->unreadable, (unsigned long long)d->damaged_headers,
            "\"the disk of spool.dir returns other bytes than were written; the rest is sent\"");
    }
}

static void disk_publish(struct spool *s)
{
    spool_disk_stats(s->disk, &s->stats.disk);
    dead_letter_stats(s->dead_letters, &s->stats.dead_letters);
    s->stats.failing = s->failing;
    disk_report_damage(s);
}

static int64_t disk_next_ns(const struct spool *s)
{
    int64_t at_ns = s->expired_ns + EXPIRE_NS;
    int64_t write_ns = s->failing ? s->retry_ns : s->synced_ns + SYNC_NS;

    return s->waiting.first && write_ns < at_ns ? write_ns : at_ns;
}

static void disk_expire(struct spool *s)
{
    s->expired_ns = os_mono_ns();
    os_mutex_unlock(s->lock);
    spool_disk_expire(s->disk, os_utc_ns());
    dead_letter_tidy(s->dead_letters, os_utc_ns());
    os_mutex_lock(s->lock);
}

static void disk_run(void *arg)
{
    struct spool *s = arg;

    os_mutex_lock(s->lock);
    while (!s->stopping) {
        bool was_failing = s->failing, more;

        lease_collect(s);
        lease_ack_upto(s);
        if (disk_may_write(s)) {
            disk_write_waiting(s);
            disk_report(s, was_failing);
        }
        if (os_mono_ns() - s->expired_ns >= EXPIRE_NS) {
            disk_expire(s);
        }
        more = lease_next(s);
        disk_publish(s);
        if (!s->stopping && !more && !lease_ended_any(s) && !disk_may_write(s)) {
            (void)os_cond_wait_until(s->work, disk_next_ns(s));
        }
    }
    lease_collect(s);
    lease_end_all(s);
    if (disk_may_write(s)) {
        disk_write_waiting(s);
    }
    if (!s->failing) {
        spool_disk_tidy(s->disk); /* under the lock: no thread waits for it any more */
    }
    disk_publish(s);
    reader_wake(s);
    os_mutex_unlock(s->lock);
}

/* -- the reader -- */

static enum err outbox_take(void *ctx, struct outbox_item *out)
{
    struct spool *s = ctx;
    struct lease *h;
    enum err e = ERR_TIMEOUT;

    os_mutex_lock(s->lock);
    h = s->stopping ? NULL : lease_oldest(s, LEASE_READY);
    if (h) {
        h->state = LEASE_LEASED;
        *out =
            (struct outbox_item){h->taken.stream, h->taken.seq, h->taken.p, h->taken.n, h->doubted};
        os_cond_wake_all(s->work); /* for the next one */
        e = ERR_OK;
    } else if (s->drained) {
        e = ERR_END;
    } else if (lease_count(s, LEASE_LEASED) == OUTBOX_INFLIGHT_MAX) {
        e = ERR_FULL;
    }
    os_mutex_unlock(s->lock);
    return e;
}

static void outbox_wait(void *ctx, int64_t until_ns)
{
    struct spool *s = ctx;
    enum err e = ERR_OK;

    os_mutex_lock(s->lock);
    while (!e && !s->woken) {
        e = os_cond_wait_until(s->news, until_ns);
    }
    s->woken = false;
    os_mutex_unlock(s->lock);
}

static void outbox_wake(void *ctx)
{
    struct spool *s = ctx;

    os_mutex_lock(s->lock);
    reader_wake(s);
    os_mutex_unlock(s->lock);
}

static struct lease *lease_of(struct spool *s, const struct outbox_item *item)
{
    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        struct lease *h = &s->leases[i];

        if (h->state == LEASE_LEASED && h->taken.stream == item->stream &&
            h->taken.seq == item->seq) {
            return h;
        }
    }
    return NULL;
}

/* cause, why: of a rejected one. */
static void lease_end(struct spool *s, const struct outbox_item *item, enum lease_state state,
                      enum outbox_cause cause, const char *why)
{
    struct lease *h;

    os_mutex_lock(s->lock);
    h = lease_of(s, item);
    if (h) {
        h->state = state;
        h->cause = cause;
        (void)snprintf(h->why, sizeof h->why, "%s", why);
        s->stats.out++;
        os_cond_wake_all(s->work);
    }
    os_mutex_unlock(s->lock);
}

static void outbox_ack(void *ctx, const struct outbox_item *item)
{
    lease_end(ctx, item, LEASE_ACKED, OUTBOX_REFUSED, "");
}

static void outbox_reject(void *ctx, const struct outbox_item *item, enum outbox_cause cause,
                          const char *why)
{
    lease_end(ctx, item, LEASE_REJECTED, cause, why);
}

static size_t outbox_ack_upto(void *ctx, uint64_t stream, uint64_t last_seq)
{
    struct spool *s = ctx;
    size_t n;

    os_mutex_lock(s->lock);
    s->ack_stream = stream;
    s->ack_seq = last_seq;
    s->ack_n = 0;
    s->ack_asked = last_seq > 0 && !s->stopping;
    os_cond_wake_all(s->work);
    while (s->ack_asked) {
        os_cond_wait(s->news);
    }
    n = (size_t)s->ack_n;
    os_mutex_unlock(s->lock);
    return n;
}

static void outbox_next(void *ctx, uint64_t *stream, uint64_t *seq)
{
    spool_next(ctx, stream, seq);
}

struct outbox spool_outbox(struct spool *s)
{
    return (struct outbox){.ctx = s,
                           .take = outbox_take,
                           .wait = outbox_wait,
                           .wake = outbox_wake,
                           .ack = outbox_ack,
                           .reject = outbox_reject,
                           .ack_upto = outbox_ack_upto,
                           .next = outbox_next};
}

/* -- ends and counters -- */

void spool_end(struct spool *s)
{
    os_mutex_lock(s->lock);
    s->ended = true;
    os_cond_wake_all(s->work);
    os_mutex_unlock(s->lock);
}

void spool_stats(struct spool *s, struct spool_stats *out)
{
    os_mutex_lock(s->lock);
    *out = s->stats;
    out->waiting_bytes = s->waiting.bytes;
    out->waiting = s->waiting.n + lease_memory(s, &out->waiting_bytes);
    os_mutex_unlock(s->lock);
}

/* -- open, close -- */

static enum err spool_lock_dir(struct spool *s, const char *dir, struct errmsg *why)
{
    enum err e = os_mkdirs(dir, true);
    char *path;

    if (e) {
        return errmsg_set(why, e, "cannot make the spool's directory %s: %s; set spool.dir", dir,
                          err_text(e));
    }
    path = os_path_join(dir, "lock");
    if (!path) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    e = os_lock(&s->dir_lock, path);
    mem_free(path);
    if (e == ERR_BUSY) {
        return errmsg_set(why, e,
                          "another agent uses the spool in %s; stop it or set spool.dir to "
                          "another directory",
                          dir);
    }
    return e ? errmsg_set(why, e, "cannot lock the spool in %s: %s", dir, err_text(e)) : ERR_OK;
}

static enum err spool_open_thread(struct spool *s)
{
    enum err e = os_mutex_create(&s->lock);

    if (!e) {
        e = os_cond_create(&s->work, s->lock);
    }
    if (!e) {
        e = os_cond_create(&s->news, s->lock);
    }
    if (!e) {
        e = wire_batch_encoder_create(&s->encoder);
    }
    if (!e) {
        e = os_thread_start(&s->thread, "spool", disk_run, s);
    }
    return e;
}

static enum err spool_keep_own(struct spool *s, struct errmsg *why)
{
    struct spool_disk_stats found;
    enum err e = s->conf.host ? spool_disk_keep(s->disk, s->conf.host) : ERR_OK;

    s->conf.host = NULL;
    spool_disk_stats(s->disk, &found);
    if (found.other_host.batches > 0) {
        log_line(LOG_WARN, "spool", "other_host", "batches=%llu rows=%llu events=%llu why=%s",
                 (unsigned long long)found.other_host.batches,
                 (unsigned long long)found.other_host.rows,
                 (unsigned long long)found.other_host.events,
                 "\"spooled under another identity; the collector would not take them from this "
                 "one\"");
    }
    return e ? errmsg_set(why, e, "cannot begin a stream: %s", err_text(e)) : ERR_OK;
}

enum err spool_open(struct spool **out, const struct spool_conf *conf, struct errmsg *why)
{
    struct spool *s = mem_zalloc(sizeof *s);
    enum err e;

    if (!s) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    s->conf = *conf;
    list_init(&s->waiting);
    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        buf_init(&s->leases[i].content, SPOOL_BATCH_MAX);
    }
    buf_init(&s->renumbered, SPOOL_BATCH_MAX);
    s->expired_ns = os_mono_ns() - EXPIRE_NS;
    s->synced_ns = s->expired_ns;
    e = spool_lock_dir(s, conf->disk.dir, why);
    if (e) {
        goto fail;
    }
    e = spool_disk_open(&s->disk, &conf->disk, why);
    if (e) {
        goto fail;
    }
    e = dead_letter_open(&s->dead_letters,
                         &(struct dead_letter_conf){.spool_dir = conf->disk.dir,
                                                    .fio = conf->disk.fio,
                                                    .max_bytes = DEAD_LETTER_BYTES,
                                                    .max_age_ns = DEAD_LETTER_AGE});
    if (e) {
        e = errmsg_set(why, e, "cannot read the spool's dead letters in %s: %s", conf->disk.dir,
                       err_text(e));
        goto fail;
    }
    disk_publish(s);
    s->stats.recovered = s->stats.disk.held;
    e = spool_keep_own(s, why);
    if (e) {
        goto fail;
    }
    s->stream = spool_disk_stream(s->disk);
    s->next_seq = spool_disk_next_seq(s->disk);
    s->put_ns = os_utc_ns();
    disk_publish(s);
    e = spool_open_thread(s);
    if (e) {
        e = errmsg_set(why, e, "cannot start the spool: %s", err_text(e));
        goto fail;
    }
    *out = s;
    return ERR_OK;

fail:
    spool_close(s);
    return e;
}

bool spool_stop(struct spool *s)
{
    uint64_t bytes = 0;

    if (s->thread) {
        os_mutex_lock(s->lock);
        s->ended = s->stopping = true;
        os_cond_wake_all(s->work);
        os_mutex_unlock(s->lock);
        os_thread_join(s->thread);
        s->thread = NULL;
    }
    return !s->waiting.first && lease_memory(s, &bytes) == 0;
}

void spool_close(struct spool *s)
{
    if (!s) {
        return;
    }
    (void)spool_stop(s);
    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        waiting_free(s->leases[i].from_memory);
        buf_fini(&s->leases[i].content);
    }
    while (s->waiting.first) {
        waiting_free(list_take(&s->waiting));
    }
    dead_letter_close(s->dead_letters);
    spool_disk_close(s->disk);
    os_unlock(s->dir_lock);
    wire_batch_encoder_destroy(s->encoder);
    buf_fini(&s->renumbered);
    os_cond_destroy(s->news);
    os_cond_destroy(s->work);
    os_mutex_destroy(s->lock);
    mem_free(s);
}
