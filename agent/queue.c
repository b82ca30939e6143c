#include "agent/queue.h"

#include <string.h>

#include "common/mem.h"
#include "common/os.h"

struct node {
    struct node *next;
    uint64_t seq;
    size_t n;
    bool peeked; /* the reader has it in hand */
    uint8_t p[];
};

struct queue {
    size_t max_bytes;
    struct os_mutex *lock; /* guards all below */
    struct os_cond *news;  /* a batch came, the queue was closed, or queue_wake */
    struct os_cond *room;
    struct node *first, *last;
    bool closed, woken;
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
static void take_out(struct queue *q, struct node *before)
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
    q->stats.held--;
    q->stats.held_bytes -= n->n;
    mem_free(n);
}

/* Drops the oldest batch that the reader does not have in hand; false when there is none. */
static bool drop_oldest(struct queue *q)
{
    struct node *before = q->first && q->first->peeked ? q->first : NULL;

    if (!q->first || (before && !before->next)) {
        return false;
    }
    take_out(q, before);
    q->stats.overflow++;
    return true;
}

/* Called with the lock held. */
static enum err make_room(struct queue *q, size_t n, bool wait)
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
        } else if (!drop_oldest(q)) {
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
    e = make_room(q, n, wait);
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
        os_cond_wake(q->news);
    }
    os_mutex_unlock(q->lock);
    if (e) {
        mem_free(node);
    }
    return e;
}

enum err queue_peek(struct queue *q, int64_t until_ns, struct queue_item *out)
{
    enum err e = ERR_OK;

    os_mutex_lock(q->lock);
    while (!e && !q->first && !q->closed && !q->woken) {
        e = os_cond_wait_until(q->news, until_ns);
    }
    q->woken = false;
    if (q->first) {
        q->first->peeked = true;
        *out = (struct queue_item){.seq = q->first->seq, .p = q->first->p, .n = q->first->n};
        e = ERR_OK;
    } else {
        e = q->closed ? ERR_END : ERR_TIMEOUT;
    }
    os_mutex_unlock(q->lock);
    return e;
}

size_t queue_drop(struct queue *q, uint64_t seq)
{
    size_t n = 0;

    os_mutex_lock(q->lock);
    while (q->first && q->first->seq <= seq) {
        take_out(q, NULL);
        q->stats.out++;
        n++;
    }
    os_cond_wake_all(q->room);
    os_mutex_unlock(q->lock);
    return n;
}

void queue_close(struct queue *q)
{
    os_mutex_lock(q->lock);
    q->closed = true;
    os_cond_wake_all(q->news);
    os_cond_wake_all(q->room);
    os_mutex_unlock(q->lock);
}

void queue_wake(struct queue *q)
{
    os_mutex_lock(q->lock);
    q->woken = true;
    os_cond_wake_all(q->news);
    os_mutex_unlock(q->lock);
}
