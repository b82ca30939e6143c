/* What the spool has given to the reader, and will give next. Hands are filled by the disk thread:
 * READY_MAX wait for the reader, so that it need not wait for the disk, and the rest is with it or
 * on the way back. They are filled from the files; while the disk fails, from the files and from
 * what waits in memory by turns; and from the quarantine, as somebody asks for it. */
#include "agent/spool/spool_impl.h"

#include <stdio.h>
#include <string.h>

#define READY_MAX 2u

static struct hand *hand_in(struct spool *s, enum hand_state state)
{
    struct hand *found = NULL;

    for (size_t i = 0; i < OUTBOX_HANDS; i++) {
        struct hand *h = &s->hands[i];

        if (h->state == state && (!found || h->order < found->order)) {
            found = h;
        }
    }
    return found;
}

static size_t count_in(const struct spool *s, enum hand_state state)
{
    size_t n = 0;

    for (size_t i = 0; i < OUTBOX_HANDS; i++) {
        n += s->hands[i].state == state;
    }
    return n;
}

/* -- the disk thread -- */

bool spool_hand_waits(const struct spool *s)
{
    return s->stored_news || count_in(s, HAND_DONE) > 0 || count_in(s, HAND_ASIDE) > 0;
}

static void fill(struct spool *s, struct hand *h, const struct spool_taken *t)
{
    h->taken = *t;
    h->order = s->handed++;
    h->state = HAND_READY;
}

/* A batch that is to be sent again. Lock not held. */
static enum err next_of_quarantine(struct spool *s, struct hand *h, struct spool_taken *t)
{
    struct quarantine_batch b;
    enum err e = dead_letter_next(s->quarantine, &h->content, &b);

    if (!e) {
        *t = (struct spool_taken){b.stream, b.seq, b.p, b.n};
        h->from_quarantine = b.number;
        h->doubted = b.cause == QUARANTINE_BROKEN;
    }
    return e;
}

bool spool_hand_out(struct spool *s)
{
    struct hand *h = hand_in(s, HAND_EMPTY);
    bool from_memory = s->failing && s->waiting.first && s->memory_turn;
    struct spool_taken t;
    enum err e = ERR_END;

    if (!h || count_in(s, HAND_READY) >= READY_MAX) {
        return false;
    }
    s->memory_turn = !s->memory_turn;
    if (!from_memory) {
        os_mutex_unlock(s->lock);
        e = next_of_quarantine(s, h, &t);
        if (e) {
            e = spool_disk_next(s->disk, &h->content, &t);
        }
        os_mutex_lock(s->lock);
    }
    if (!e) {
        fill(s, h, &t);
    } else if (s->failing && s->waiting.first) {
        struct waiting *w = spool_list_take(&s->waiting);

        h->from_memory = w;
        fill(s, h, &(struct spool_taken){w->stream, w->seq, w->p, w->n});
    } else {
        s->drained = s->ended && !s->waiting.first && e == ERR_END &&
                     count_in(s, HAND_EMPTY) == OUTBOX_HANDS;
    }
    if (h->state == HAND_READY || s->drained) {
        spool_ring(s);
    }
    return h->state == HAND_READY;
}

static struct quarantine_batch batch_of(const struct hand *h)
{
    struct quarantine_batch b = {.number = h->from_quarantine,
                                 .cause = h->cause == OUTBOX_BROKEN ? QUARANTINE_BROKEN
                                                                    : QUARANTINE_REFUSED,
                                 .stream = h->taken.stream,
                                 .seq = h->taken.seq,
                                 .when_ns = os_utc_ns(),
                                 .p = h->taken.p,
                                 .n = h->taken.n};

    (void)snprintf(b.why, sizeof b.why, "%s", h->why);
    return b;
}

/* Lock not held. */
static void put_away(struct spool *s, struct hand *h, bool aside)
{
    struct quarantine_batch b = batch_of(h);

    if (h->from_quarantine && aside) {
        dead_letter_keep(s->quarantine, &b);
    } else if (h->from_quarantine) {
        dead_letter_done(s->quarantine, &b);
    } else if (aside) {
        dead_letter_put(s->quarantine, &b);
    }
    if (!h->from_quarantine && !h->from_memory) {
        spool_disk_done(s->disk, &h->taken);
    }
}

static void empty(struct hand *h)
{
    spool_waiting_free(h->from_memory);
    h->from_memory = NULL;
    h->from_quarantine = 0;
    h->doubted = false;
    h->state = HAND_EMPTY;
}

void spool_hand_back(struct spool *s)
{
    for (size_t i = 0; i < OUTBOX_HANDS; i++) {
        struct hand *h = &s->hands[i];
        bool aside = h->state == HAND_ASIDE;

        if (h->state == HAND_DONE || aside) {
            os_mutex_unlock(s->lock);
            put_away(s, h, aside);
            os_mutex_lock(s->lock);
            s->stats.again += h->from_quarantine != 0;
            empty(h);
        }
    }
}

/* What is ready goes back to where it came from, but for what came from memory. */
static void take_back(struct spool *s, struct hand *h)
{
    os_mutex_unlock(s->lock);
    if (h->from_quarantine) {
        dead_letter_back(s->quarantine, h->from_quarantine);
    } else {
        spool_disk_back(s->disk, &h->taken);
    }
    os_mutex_lock(s->lock);
    empty(h);
}

void spool_hand_stored(struct spool *s)
{
    uint64_t stream = s->stored_stream, seq = s->stored_seq;
    size_t n = 0;

    if (!s->stored_news) {
        return;
    }
    for (size_t i = 0; i < OUTBOX_HANDS; i++) {
        struct hand *h = &s->hands[i];

        if (h->state == HAND_READY && !h->from_memory) {
            take_back(s, h);
        } else if (h->state == HAND_READY && h->taken.stream == stream && h->taken.seq <= seq) {
            empty(h);
            n++;
        }
    }
    os_mutex_unlock(s->lock);
    n += spool_disk_stored(s->disk, stream, seq);
    os_mutex_lock(s->lock);
    s->stats.out += n;
    s->stored_n = n;
    s->stored_news = false;
    os_cond_wake_all(s->news);
}

/* What the hands took from memory waits again, before the rest and in its order. */
void spool_hand_end(struct spool *s)
{
    struct list first;

    spool_list_init(&first);
    for (;;) {
        struct hand *ready = hand_in(s, HAND_READY), *h = hand_in(s, HAND_TAKEN);

        if (!h || (ready && ready->order < h->order)) {
            h = ready;
        }
        if (!h) {
            break;
        }
        if (h->from_memory) {
            spool_list_add(&first, h->from_memory);
            h->from_memory = NULL;
            empty(h);
        } else {
            take_back(s, h);
        }
    }
    spool_list_move(&first, &s->waiting);
    spool_list_move(&s->waiting, &first);
    s->stored_news = false;
    os_cond_wake_all(s->news);
}

int64_t spool_hand_since(const struct spool *s)
{
    int64_t since_ns = 0;

    for (size_t i = 0; i < OUTBOX_HANDS; i++) {
        const struct waiting *w = s->hands[i].from_memory;

        since_ns = w && (since_ns == 0 || w->since_ns < since_ns) ? w->since_ns : since_ns;
    }
    return since_ns;
}

size_t spool_hand_memory(const struct spool *s, uint64_t *bytes)
{
    size_t n = 0;

    for (size_t i = 0; i < OUTBOX_HANDS; i++) {
        const struct waiting *w = s->hands[i].from_memory;

        if (w && s->hands[i].state != HAND_DONE && s->hands[i].state != HAND_ASIDE) {
            n++;
            *bytes += w->n;
        }
    }
    return n;
}

/* -- the reader -- */

static enum err take(void *ctx, struct outbox_item *out)
{
    struct spool *s = ctx;
    struct hand *h;
    enum err e = ERR_TIMEOUT;

    os_mutex_lock(s->lock);
    h = s->stopping ? NULL : hand_in(s, HAND_READY);
    if (h) {
        h->state = HAND_TAKEN;
        *out =
            (struct outbox_item){h->taken.stream, h->taken.seq, h->taken.p, h->taken.n, h->doubted};
        os_cond_wake_all(s->work); /* for the next one */
        e = ERR_OK;
    } else if (s->drained) {
        e = ERR_END;
    } else if (count_in(s, HAND_TAKEN) == OUTBOX_HANDS) {
        e = ERR_FULL;
    }
    os_mutex_unlock(s->lock);
    return e;
}

static void wait(void *ctx, int64_t until_ns)
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

static void wake(void *ctx)
{
    struct spool *s = ctx;

    os_mutex_lock(s->lock);
    spool_ring(s);
    os_mutex_unlock(s->lock);
}

static struct hand *taken(struct spool *s, const struct outbox_item *item)
{
    for (size_t i = 0; i < OUTBOX_HANDS; i++) {
        struct hand *h = &s->hands[i];

        if (h->state == HAND_TAKEN && h->taken.stream == item->stream &&
            h->taken.seq == item->seq) {
            return h;
        }
    }
    return NULL;
}

static void done(void *ctx, const struct outbox_item *item)
{
    struct spool *s = ctx;
    struct hand *h;

    os_mutex_lock(s->lock);
    h = taken(s, item);
    if (h) {
        h->state = HAND_DONE;
        s->stats.out++;
        os_cond_wake_all(s->work);
    }
    os_mutex_unlock(s->lock);
}

static void aside(void *ctx, const struct outbox_item *item, enum outbox_cause cause,
                  const char *why)
{
    struct spool *s = ctx;
    struct hand *h;

    os_mutex_lock(s->lock);
    h = taken(s, item);
    if (h) {
        h->state = HAND_ASIDE;
        s->stats.out++; /* whoever set it aside counts it */
        h->cause = cause;
        (void)snprintf(h->why, sizeof h->why, "%s", why);
        os_cond_wake_all(s->work);
    }
    os_mutex_unlock(s->lock);
}

static size_t stored(void *ctx, uint64_t stream, uint64_t last_seq)
{
    struct spool *s = ctx;
    size_t n;

    os_mutex_lock(s->lock);
    s->stored_stream = stream;
    s->stored_seq = last_seq;
    s->stored_n = 0;
    s->stored_news = last_seq > 0 && !s->stopping;
    os_cond_wake_all(s->work);
    while (s->stored_news) {
        os_cond_wait(s->news);
    }
    n = (size_t)s->stored_n;
    os_mutex_unlock(s->lock);
    return n;
}

static void next(void *ctx, uint64_t *stream, uint64_t *seq)
{
    spool_next(ctx, stream, seq);
}

struct outbox spool_outbox(struct spool *s)
{
    return (struct outbox){.ctx = s,
                           .take = take,
                           .wait = wait,
                           .wake = wake,
                           .done = done,
                           .aside = aside,
                           .stored = stored,
                           .next = next};
}
