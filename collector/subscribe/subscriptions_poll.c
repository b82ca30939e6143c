/* A poll in three steps. Under the lock: what the cursor acknowledges, made durable. Without it:
 * the search, which changes nothing. Under it again: the counters.
 *
 * What the journal drops while somebody searches is counted for the subscription at the same time;
 * then the poll is begun anew, so that no update is both delivered and told as dropped, or neither.
 *
 *   at ........ floor ........ next        at: acknowledged; [at, floor): dropped before anybody
 *      `lost`         kept                 came, of which `told` was in a reply already
 *
 * A cursor behind `floor` came with a reply that began there or that was given before the drop: in
 * the latter case nothing was lost, and what had not been told is taken back. */
#include <stdio.h>
#include <string.h>

#include "collector/subscribe/subscriptions_impl.h"
#include "collector/subscribe/subscriptions_scan.h"
#include "common/base/clk.h"

#define TRIES_MAX      8u
#define SAMPLES_FOR_NS (120 * CLK_S) /* after a poll that nobody remembers */
#define POLLED_PART    16            /* of idle_ns: how far the file's polled_ns may be behind */
#define MIN_OF(a, b)   ((a) < (b) ? (a) : (b))
#define MAX_OF(a, b)   ((a) > (b) ? (a) : (b))

struct round {
    struct subscriptions *r;
    const struct subscriptions_peer *peer;
    const struct wire_poll *poll;
    bool has_cursor;
    struct subscriptions_cursor cursor; /* given */
    const struct subscriptions_cursor *seen;
    uint64_t first, next; /* of the journal */

    struct wire_filter filter;
    uint64_t number; /* of the subscription; 0 = none */
    uint64_t begin;  /* where the search began */
    uint64_t lost;   /* told with this reply */
    uint64_t dropped;
};

/* -- acknowledging -- */

/* The cursor is of this epoch and differs from the one kept. */
static void move_within(struct subscriptions_state *s, uint64_t told,
                        const struct subscriptions_cursor *c, uint64_t first)
{
    if (c->position >= s->at.position) {
        uint64_t untold = s->lost - MIN_OF(told, s->lost);
        uint64_t left = MIN_OF(untold, s->lost_end > c->position ? s->lost_end - c->position : 0);

        s->dropped -= MIN_OF(untold - left, s->dropped);
        s->lost = left;
    } else if (c->position < first) { /* back to what is kept no longer */
        uint64_t gone = MIN_OF(first, s->at.position) - c->position;

        s->lost += gone;
        s->lost_end = MAX_OF(s->lost_end, first);
        s->dropped += gone;
        s->floor = MAX_OF(s->floor, first);
    }
    s->at = *c;
}

/* new_epoch: as of struct subscriptions_sub. A cursor of another epoch that comes again changes
 * nothing.
 */
static void acknowledge(struct subscriptions_state *s, uint64_t told, bool new_epoch,
                        const struct round *k)
{
    struct subscriptions_cursor c = k->cursor;

    if (c.epoch != k->r->epoch && new_epoch) {
        return;
    }
    if (c.epoch != k->r->epoch) {
        s->at = (struct subscriptions_cursor){k->r->epoch, k->first, 0};
        s->floor = k->first;
        s->lost = 1; /* how many, nobody knows */
        s->lost_end = k->first;
        s->dropped++;
        return;
    }
    if (c.position > k->next) {
        c.position = k->next;
        c.offset = 0;
    }
    if (!subscriptions_cursor_same(&c, &s->at)) {
        move_within(s, told, &c, k->first);
    } else if (s->lost_end <= c.position) { /* the first of a new epoch: it came with the loss */
        s->lost = 0;
    }
}

/* -- beginning, with a name -- */

static struct subscriptions_state state_new(const struct round *k)
{
    struct subscriptions_state s = {
        .at = {k->r->epoch, k->poll->from_oldest ? k->first : k->next, 0}, .floor = k->first};

    memcpy(s.name, k->poll->name.p, k->poll->name.n);
    (void)snprintf(s.owner, sizeof s.owner, "%s", k->peer->name);
    s.created_ns = subscriptions_now(k->r);
    return s;
}

static bool has_moved(const struct subscriptions_sub *sub, const struct subscriptions_state *s)
{
    return !subscriptions_cursor_same(&s->at, &sub->s.at) || s->lost != sub->s.lost;
}

static bool must_write(const struct subscriptions_sub *sub, const struct subscriptions_state *s)
{
    return has_moved(sub, s) || !feed_filter_same(&s->filter, &sub->s.filter) ||
           strcmp(s->scope, sub->s.scope) != 0;
}

/* The poll's part in the subscription, durable. */
static enum err take_part(struct round *k, struct subscriptions_sub **out, struct errmsg *why)
{
    struct subscriptions *r = k->r;
    struct subscriptions_sub *sub = subscriptions_find(r, k->peer->name, k->poll->name);
    struct subscriptions_state s = sub ? sub->s : state_new(k);
    enum err e = ERR_OK;

    if (k->has_cursor) {
        acknowledge(&s, sub ? sub->told : 0, sub && sub->new_epoch, k);
    }
    if (k->poll->has_filter) {
        s.filter = k->poll->filter;
    }
    (void)snprintf(s.scope, sizeof s.scope, "%s", k->peer->scope);
    s.polled_ns = subscriptions_now(r);
    if (!sub) {
        e = subscriptions_add(r, &sub, &s, why);
    } else if (must_write(sub, &s) ||
               clk_sub(s.polled_ns, sub->written_ns) > r->conf.idle_ns / POLLED_PART) {
        bool moved = has_moved(sub, &s), same = feed_filter_same(&s.filter, &sub->s.filter);

        e = subscriptions_put(r, sub, &s);
        if (!e && moved) {
            sub->told = 0;
        }
        if (!e && !same) {
            sub->counted = 0;
        }
    } else {
        sub->s.polled_ns = s.polled_ns;
    }
    if (!e && k->has_cursor) {
        sub->new_epoch = k->cursor.epoch != r->epoch;
    }
    *out = sub;
    return e;
}

static enum err begin_named(struct round *k, struct subscriptions_scan *scan, struct errmsg *why)
{
    struct subscriptions *r = k->r;
    struct subscriptions_sub *sub;
    enum err e = ERR_OK;

    os_mutex_lock(r->lock);
    journal_range(r->conf.journal, &k->first, &k->next);
    if (k->seen->epoch) {
        sub = subscriptions_find(r, k->peer->name, k->poll->name);
        e = sub ? ERR_OK : ERR_NOTFOUND;
    } else {
        e = take_part(k, &sub, why);
    }
    if (!e) {
        k->number = sub->s.number;
        k->lost = sub->s.lost;
        k->filter = sub->s.filter;
        scan->counted = sub->counted;
        scan->at = k->seen->epoch ? *k->seen : sub->s.at;
        if (scan->at.position < sub->s.floor) {
            scan->at = (struct subscriptions_cursor){r->epoch, sub->s.floor, 0};
        }
        e = subscriptions_filter_keep(&k->filter, scan->memory) ? ERR_OK : ERR_NOMEM;
    }
    os_mutex_unlock(r->lock);
    return e;
}

/* -- without one -- */

static void begin_nameless(struct round *k, struct subscriptions_scan *scan)
{
    struct subscriptions *r = k->r;
    struct subscriptions_cursor c;

    journal_range(r->conf.journal, &k->first, &k->next);
    c = (struct subscriptions_cursor){r->epoch, k->poll->from_oldest ? k->first : k->next, 0};
    c = k->seen->epoch ? *k->seen : k->has_cursor ? k->cursor : c;
    k->lost = 0;
    if (c.epoch != r->epoch) {
        c = (struct subscriptions_cursor){r->epoch, k->first, 0};
        k->lost = 1;
    } else if (c.position < k->first) {
        k->lost = k->first - c.position;
        c = (struct subscriptions_cursor){r->epoch, k->first, 0};
    } else if (c.position > k->next) {
        c = (struct subscriptions_cursor){r->epoch, k->next, 0};
    }
    k->filter = k->poll->filter; /* all zero when there is none */
    if (k->filter.samples) {
        atomic_store(&r->samples_until_ns, clk_add(subscriptions_now(r), SAMPLES_FOR_NS));
    }
    scan->at = c;
}

/* -- ending -- */

/* Whether something went that lay behind where the search began. */
static bool overtaken(struct round *k)
{
    struct subscriptions *r = k->r;
    bool gone = false;

    if (k->number == 0) {
        uint64_t first, next;

        journal_range(r->conf.journal, &first, &next);
        return first > k->begin;
    }
    os_mutex_lock(r->lock);
    for (size_t i = 0; i < r->n; i++) {
        gone |= r->subs[i]->s.number == k->number && r->subs[i]->s.floor > k->begin;
    }
    os_mutex_unlock(r->lock);
    return gone;
}

static void note(struct round *k, const struct subscriptions_scan *scan)
{
    struct subscriptions *r = k->r;

    k->dropped = k->lost + scan->missing;
    os_mutex_lock(r->lock);
    r->stats.polls++;
    r->stats.delivered += scan->items;
    r->stats.dropped += scan->fresh;
    for (size_t i = 0; i < r->n; i++) {
        struct subscriptions_sub *sub = r->subs[i];

        if (sub->s.number != k->number) {
            continue;
        }
        sub->s.delivered += scan->items;
        sub->s.dropped += scan->fresh;
        sub->told = MAX_OF(sub->told, k->lost);
        sub->counted = MAX_OF(sub->counted, scan->at.position);
        sub->dirty = sub->dirty || scan->items || scan->fresh;
        k->dropped = sub->s.dropped;
    }
    os_mutex_unlock(r->lock);
}

static enum err fill(struct wire_poll_reply *reply, const struct round *k,
                     const struct subscriptions_scan *scan)
{
    uint8_t *cursor = arena_alloc(scan->memory, SUBSCRIPTIONS_CURSOR_BYTES);

    if (!cursor) {
        return ERR_NOMEM;
    }
    subscriptions_cursor_put(cursor, &scan->at);
    *reply = (struct wire_poll_reply){
        .n_updates = scan->n,
        .updates = scan->updates,
        .cursor = {(const char *)cursor, SUBSCRIPTIONS_CURSOR_BYTES},
        .more = scan->more,
        .dropped = k->dropped,
        .dropped_now = k->lost + scan->missing,
        .behind_bytes = subscriptions_behind(k->r->conf.journal, scan->at.position)};
    return scan->n || scan->more || reply->dropped_now ? ERR_OK : ERR_END;
}

static enum err check(struct round *k, struct errmsg *why)
{
    const struct wire_poll *p = k->poll;

    if (p->name.n && !subscriptions_name_ok(p->name)) {
        return errmsg_set(why, ERR_INVALID,
                          "a subscription's name has letters, digits, '.', '_' and '-' only");
    }
    if (p->max > WIRE_UPDATES_MAX) {
        return errmsg_set(why, ERR_INVALID, "max may be %u at most", WIRE_UPDATES_MAX);
    }
    k->has_cursor = p->cursor.n > 0;
    if (k->has_cursor && subscriptions_cursor_get(&k->cursor, p->cursor)) {
        return errmsg_set(why, ERR_INVALID, "this is no cursor of a collector");
    }
    return ERR_OK;
}

enum err subscriptions_poll(struct subscriptions *r, const struct subscriptions_peer *peer,
                            const struct wire_poll *poll, struct subscriptions_cursor *seen,
                            struct wire_poll_reply *reply, struct arena *memory, struct errmsg *why)
{
    struct round k = {.r = r, .peer = peer, .poll = poll, .seen = seen};
    struct subscriptions_scan scan;
    bool done = false;
    enum err e = check(&k, why);

    for (unsigned i = 0; !e && !done && i < TRIES_MAX; i++) {
        scan = (struct subscriptions_scan){
            .filter = &k.filter,
            .scope = peer->scope,
            .room = {poll->max ? poll->max : SUBSCRIPTIONS_ITEMS_DEFAULT,
                     SUBSCRIPTIONS_REPLY_BYTES},
            .memory = memory};
        if (poll->name.n) {
            e = begin_named(&k, &scan, why);
        } else {
            begin_nameless(&k, &scan);
        }
        k.begin = scan.at.position;
        if (!e) {
            e = subscriptions_scan(&scan, r->conf.journal);
        }
        done = !e && !overtaken(&k);
    }
    if (!e && !done) {
        e = errmsg_set(why, ERR_BUSY, "updates go faster than this poll reads them: ask again");
    }
    if (e) {
        return e;
    }
    note(&k, &scan);
    *seen = scan.at;
    return fill(reply, &k, &scan);
}
