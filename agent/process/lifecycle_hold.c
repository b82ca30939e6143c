/* Where two providers speak, each start and end has two records. The first one waits here for the
 * other before the event is told: a queue in order of time, in which each waits as long as every
 * other. The first of all is let go when the queue is full. */
#include "agent/process/lifecycle_impl.h"

static bool hold_full(const struct lifecycle_hold *h)
{
    return h->n == LIFECYCLE_HOLD_MAX;
}

/* Not when full. */
static void hold_push(struct lifecycle_hold *h, struct lifecycle_held item)
{
    h->items[(h->first + h->n++) % LIFECYCLE_HOLD_MAX] = item;
}

/* The first one that came at until_ns or before, taken out. False: none. */
static bool hold_pop(struct lifecycle_hold *h, int64_t until_ns, struct lifecycle_held *out)
{
    if (h->n == 0 || h->items[h->first].mono_ns > until_ns) {
        return false;
    }
    *out = h->items[h->first];
    h->first = (h->first + 1) % LIFECYCLE_HOLD_MAX;
    h->n--;
    return true;
}

/* The one of p, where it stands in the queue, or NULL. */
static const struct lifecycle_held *hold_find(const struct lifecycle_hold *h,
                                              const struct ptable_proc *p, uint8_t kind)
{
    for (size_t i = h->n; i-- > 0;) {
        const struct lifecycle_held *item = &h->items[(h->first + i) % LIFECYCLE_HOLD_MAX];

        if (item->p == p && item->generation == p->generation && item->kind == kind) {
            return item;
        }
    }
    return NULL;
}

static void release_start(struct lifecycle *l, const struct lifecycle_held *item)
{
    if (item && item->p->life.start_held) {
        l->stats.unpaired += item->p->life.start_half != LIFECYCLE_BOTH;
        lifecycle_tell_start(l, item->p, item->wall_ns, item->mono_ns);
    }
}

static void release(struct lifecycle *l, const struct lifecycle_held *item)
{
    struct ptable_proc *p = item->p;

    if (p->generation != item->generation) {
        return; /* has been told */
    }
    if (item->kind == LIFE_PROCESS_START) {
        release_start(l, item);
    } else if (p->life.stop_held) {
        release_start(l, hold_find(&l->hold, p, LIFE_PROCESS_START));
        l->stats.unpaired += p->life.stop_half != LIFECYCLE_BOTH;
        lifecycle_tell_end(l, p, item->wall_ns, item->mono_ns);
    }
}

void lifecycle_hold_until(struct lifecycle *l, int64_t mono_ns)
{
    struct lifecycle_held item;

    while (hold_pop(&l->hold, mono_ns, &item)) {
        release(l, &item);
    }
}

int64_t lifecycle_hold_next(const struct lifecycle *l)
{
    return l->hold.n ? l->hold.items[l->hold.first].mono_ns : LIFECYCLE_NEVER;
}

void lifecycle_hold_begin(struct lifecycle *l, struct ptable_proc *p, enum life_kind kind,
                          const struct event *ev)
{
    struct lifecycle_held first;

    if (hold_full(&l->hold) && hold_pop(&l->hold, LIFECYCLE_NEVER, &first)) {
        release(l, &first);
    }
    if (kind == LIFE_PROCESS_START) {
        p->life.start_held = true;
    } else {
        p->life.stop_held = true;
    }
    hold_push(&l->hold,
              (struct lifecycle_held){p, p->generation, (uint8_t)kind, ev->wall_ns, ev->mono_ns});
}

void lifecycle_hold_end(struct lifecycle *l, struct ptable_proc *p, enum life_kind kind)
{
    const struct lifecycle_held *item = hold_find(&l->hold, p, (uint8_t)kind);

    if (item) {
        release(l, item);
    }
}

void lifecycle_finish(struct lifecycle *l)
{
    lifecycle_hold_until(l, LIFECYCLE_NEVER);
}
