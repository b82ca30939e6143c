#include "agent/spool/queue.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"

struct node {
    struct node *next;
    uint64_t seq;
    size_t n;
    bool leased; /* by the reader */
    uint8_t p[];
};

struct queue {
    size_t max_bytes;
    uint64_t stream;       /* set before the uplink starts */
    struct os_mutex *lock; /* guards all below */
    struct os_cond *news;  /* a batch came, the queue was closed, or wake */
    struct os_cond *room;
    struct node *first, *last;
    unsigned n_leased;
    bool closed;
    bool woken; /* there is news for the reader */
    struct queue_stats stats;
};

enum err queue_create(struct queue **out, size_t max_bytes)
{
    struct queue *q = mem_zalloc(sizeof *q);
    enum err e;

    if (!q) {
        return ERR_NOMEM;
    }
    q->max_bytes = max_bytes;
    e = os_mutex_create(&q->lock);
    if (e) {
        goto fail;
    }
    e = os_cond_create(&q->news, q->lock);
    if (e) {
        goto fail;
    }
    e = os_cond_create(&q->room, q->lock);
    if (e) {
        goto fail;
    }
    *out = q;
    return ERR_OK;

fail:
    queue_destroy(q);
    return e;
}

void queue_destroy(struct queue *q)
{
    if (!q) {
        return;
    }
    while (q->first) {
        struct node *n = q->first;

        q->first = n->next;
        mem_free(n);
    }
    os_cond_destroy(q->room);
    os_cond_destroy(q->news);
    os_mutex_destroy(q->lock);
    mem_free(q);
}

void queue_stats(struct queue *q, struct queue_stats *out)
{
    os_mutex_lock(q->lock);
    *out = q->stats;
    os_mutex_unlock(q->lock);
}

/* Takes the node behind `before` (NULL: the first) out of the list. */
static void queue_remove(struct queue *q, struct node *before)
{
    struct node *n = before ? before->next : q->first;

    if (before) {
        before->next = n->next;
    } else {
        q->first = n->next;
    }
    if (q->last == n) {
        q->last = before;
    }
    assert(q->stats.held > 0 && q->n_leased >= n->leased);
    q->n_leased -= n->leased;
    q->stats.held--;
    q->stats.held_bytes -= n->n;
    mem_free(n);
}

/* Drops the oldest batch that is not leased; false: there is none. */
static bool queue_drop_oldest(struct queue *q)
{
    struct node *before = NULL, *n = q->first;

    while (n && n->leased) {
        before = n;
        n = n->next;
    }
    if (!n) {
        return false;
    }
    queue_remove(q, before);
    q->stats.overflow++;
    return true;
}

static void queue_ring(struct queue *q)
{
    q->woken = true;
    os_cond_wake_all(q->news);
}

/* Called with the lock held. */
static enum err queue_make_room(struct queue *q, size_t n, bool wait)
{
    if (n > q->max_bytes) {
        q->stats.refused++;
        return ERR_FULL;
    }
    if (wait && q->stats.held_bytes + n > q->max_bytes) {
        q->stats.waits++;
    }
    while (!q->closed && q->stats.held_bytes + n > q->max_bytes) {
        if (wait) {
            os_cond_wait(q->room);
        } else if (!queue_drop_oldest(q)) {
            q->stats.refused++;
            return ERR_FULL;
        }
    }
    return q->closed ? ERR_CLOSED : ERR_OK;
}

enum err queue_put(struct queue *q, uint64_t seq, const void *p, size_t n, bool wait)
{
    struct node *node = mem_alloc(sizeof *node + n);
    enum err e;

    if (!node) {
        os_mutex_lock(q->lock);
        q->stats.refused++;
        q->stats.last_seq = seq;
        os_mutex_unlock(q->lock);
        return ERR_NOMEM;
    }
    *node = (struct node){.seq = seq, .n = n};
    memcpy(node->p, p, n);
    os_mutex_lock(q->lock);
    q->stats.last_seq = seq;
    e = queue_make_room(q, n, wait);
    if (!e) {
        if (q->last) {
            q->last->next = node;
        } else {
            q->first = node;
        }
        q->last = node;
        q->stats.in++;
        q->stats.held++;
        q->stats.held_bytes += n;
        queue_ring(q);
    }
    os_mutex_unlock(q->lock);
    if (e) {
        mem_free(node);
    }
    return e;
}

void queue_close(struct queue *q)
{
    os_mutex_lock(q->lock);
    q->closed = true;
    queue_ring(q);
    os_cond_wake_all(q->room);
    os_mutex_unlock(q->lock);
}

/* -- the reader -- */

static enum err outbox_take(void *ctx, struct outbox_item *out)
{
    struct queue *q = ctx;
    struct node *n;
    enum err e = ERR_TIMEOUT;

    os_mutex_lock(q->lock);
    for (n = q->first; n && n->leased;) {
        n = n->next;
    }
    if (n && q->n_leased == OUTBOX_INFLIGHT_MAX) {
        e = ERR_FULL;
    } else if (n) {
        n->leased = true;
        q->n_leased++;
        *out = (struct outbox_item){.stream = q->stream, .seq = n->seq, .p = n->p, .n = n->n};
        e = ERR_OK;
    } else if (q->closed && !q->first) {
        e = ERR_END;
    }
    os_mutex_unlock(q->lock);
    return e;
}

static void outbox_wait(void *ctx, int64_t until_ns)
{
    struct queue *q = ctx;
    enum err e = ERR_OK;

    os_mutex_lock(q->lock);
    while (!e && !q->woken) {
        e = os_cond_wait_until(q->news, until_ns);
    }
    q->woken = false;
    os_mutex_unlock(q->lock);
}

static void outbox_wake(void *ctx)
{
    struct queue *q = ctx;

    os_mutex_lock(q->lock);
    queue_ring(q);
    os_mutex_unlock(q->lock);
}

static void outbox_ack(void *ctx, const struct outbox_item *item)
{
    struct queue *q = ctx;
    struct node *before = NULL, *n;

    os_mutex_lock(q->lock);
    for (n = q->first; n && !(n->leased && n->seq == item->seq); n = n->next) {
        before = n;
    }
    if (n) {
        queue_remove(q, before);
        q->stats.out++;
    }
    os_cond_wake_all(q->room);
    os_mutex_unlock(q->lock);
}

static void outbox_reject(void *ctx, const struct outbox_item *item, enum outbox_cause cause,
                          const char *why)
{
    (void)cause;
    (void)why;
    outbox_ack(ctx, item);
}

static size_t outbox_ack_upto(void *ctx, uint64_t stream, uint64_t last_seq)
{
    struct queue *q = ctx;
    struct node *before = NULL, *n, *after;
    size_t count = 0;

    os_mutex_lock(q->lock);
    for (n = q->first; n && n->seq <= last_seq && stream == q->stream; n = after) {
        after = n->next;
        if (n->leased) {
            before = n;
            continue;
        }
        queue_remove(q, before);
        q->stats.out++;
        count++;
    }
    os_cond_wake_all(q->room);
    os_mutex_unlock(q->lock);
    return count;
}

static void outbox_next(void *ctx, uint64_t *stream, uint64_t *seq)
{
    struct queue *q = ctx;

    os_mutex_lock(q->lock);
    *stream = q->stream;
    *seq = q->stats.last_seq + 1;
    os_mutex_unlock(q->lock);
}

struct outbox queue_outbox(struct queue *q, uint64_t stream)
{
    q->stream = stream;
    return (struct outbox){.ctx = q,
                           .take = outbox_take,
                           .wait = outbox_wait,
                           .wake = outbox_wake,
                           .ack = outbox_ack,
                           .reject = outbox_reject,
                           .ack_upto = outbox_ack_upto,
                           .next = outbox_next};
}
