#include "collector/subscribe/subscriptions_scan.h"

#include <string.h>

#define SCAN_BYTES  (8u << 20) /* of records that are read for one poll */
#define COUNT_MAX   1024u      /* records that are counted one by one */
#define PARTS_MAX   64u        /* of one batch, looked back over */
#define UPDATES_MIN 16u

/* -- which records -- */

struct look {
    const struct subscriptions_scan *scan;
    uint64_t behind; /* the last record seen */
};

static bool want(void *ctx, const struct journal_record *r)
{
    struct look *l = ctx;

    l->behind = r->position + 1;
    return feed_filter_record(l->scan->filter, l->scan->scope, r);
}

static int64_t cell_of(int64_t when_ns, int64_t interval_ns)
{
    int64_t cell = when_ns / interval_ns;

    return when_ns % interval_ns < 0 ? cell - 1 : cell;
}

/* Whether a sample is the first of its host in its interval. The one before it tells: no state that
 * could run ahead of what a subscriber has really got. */
static bool first_in_interval(struct journal *j, const struct journal_record *r,
                              int64_t interval_ns)
{
    struct journal_record before = *r;
    uint64_t last;

    for (unsigned i = 0; i < PARTS_MAX && before.seq > 1; i++) {
        uint64_t seq = before.seq - 1;

        if (journal_find(j, FEED_SAMPLE, r->name, seq, &before, NULL, &last) != ERR_OK ||
            before.seq != seq) {
            return true;
        }
        if (before.n == 0) {
            continue;
        }
        if (before.stream != r->stream || before.batch != r->batch) {
            return cell_of(before.last_ns, interval_ns) != cell_of(r->last_ns, interval_ns);
        }
    }
    return true;
}

/* -- what is in them -- */

static enum err updates_room(struct subscriptions_scan *s)
{
    size_t cap = s->cap ? 2 * s->cap : UPDATES_MIN;
    struct wire_update *grown;

    if (s->n < s->cap) {
        return ERR_OK;
    }
    grown = arena_array(s->memory, cap, sizeof *grown);
    if (!grown) {
        return arena_refused(s->memory, cap * sizeof *grown);
    }
    if (s->n) {
        memcpy(grown, s->updates, s->n * sizeof *grown);
    }
    s->updates = grown;
    s->cap = cap;
    return ERR_OK;
}

static enum err take_update(struct subscriptions_scan *s, const struct wire_update *u)
{
    struct wire_update *out;
    enum err e = updates_room(s);

    if (e) {
        return e;
    }
    out = &s->updates[s->n];
    e = feed_filter_cut(out, u, s->filter, &s->at.offset, &s->room, s->memory);
    if (!e && out->data.n_events + out->data.n_rows > 0) {
        s->items += out->data.n_events + out->data.n_rows;
        s->n++;
    }
    return e;
}

static void add_missing(struct subscriptions_scan *s, uint64_t position, uint64_t n)
{
    s->missing += n;
    s->fresh += position >= s->counted ? n : 0;
}

static enum err take_record(struct subscriptions_scan *s, struct journal *j,
                            const struct journal_record *r, struct buf *payload)
{
    struct journal_record same;
    struct wire_update *u;
    uint64_t from = r->position;
    enum err e;

    if (r->position != s->at.position) {
        s->at.position = r->position;
        s->at.offset = 0;
    }
    buf_reset(payload);
    e = journal_next(j, &from, NULL, NULL, &same, payload);
    if (!e && same.position == r->position) {
        e = wire_update_decode(&u, payload->p, payload->n);
        e = e == ERR_FULL ? ERR_CORRUPT : e; /* it would be so whenever it is tried again */
        if (!e) {
            e = take_update(s, u);
            wire_update_free(u);
        }
    }
    if (e == ERR_CORRUPT || e == ERR_END || (!e && same.position != r->position)) {
        /* or it went meanwhile: the caller may not see that yet */
        add_missing(s, r->position, 1);
    } else if (e) {
        return e;
    }
    if (e || same.position != r->position || s->at.offset == UINT32_MAX) {
        s->at.position = r->position + 1;
        s->at.offset = 0;
    }
    return ERR_OK;
}

static void pass_missing(struct subscriptions_scan *s, uint64_t position, uint64_t n)
{
    add_missing(s, position, n);
    s->at.position = position + 1;
    s->at.offset = 0;
}

enum err subscriptions_scan(struct subscriptions_scan *s, struct journal *j)
{
    struct look l = {s, s->at.position};
    uint64_t from = s->at.position, read = 0;
    struct buf payload;
    enum err e = ERR_OK;

    buf_init(&payload, JOURNAL_PAYLOAD_MAX);
    while (!e) {
        struct journal_record r;

        if (s->room.items == 0 || read >= SCAN_BYTES) {
            s->more = true;
            break;
        }
        e = journal_next(j, &from, want, &l, &r, NULL);
        if (e == ERR_CORRUPT) {
            pass_missing(s, r.position, 1);
            e = ERR_OK;
            continue;
        }
        if (e) {
            break;
        }
        if (r.n == 0) {
            pass_missing(s, r.position, r.last_batch - r.batch + 1);
            continue;
        }
        if (r.topic == FEED_SAMPLE && s->filter->min_interval_ns > 0 &&
            !first_in_interval(j, &r, s->filter->min_interval_ns)) {
            continue;
        }
        read += r.n;
        e = take_record(s, j, &r, &payload);
    }
    buf_fini(&payload);
    if (e == ERR_END) {
        if (l.behind > s->at.position) { /* behind what there was, and no further */
            s->at.position = l.behind;
            s->at.offset = 0;
        }
        e = ERR_OK;
    }
    return e;
}

/* -- how much is left -- */

struct rest {
    uint64_t bytes;
    unsigned n;
};

static bool add(void *ctx, const struct journal_record *r)
{
    struct rest *rest = ctx;

    rest->bytes += r->n;
    return ++rest->n == COUNT_MAX;
}

uint64_t subscriptions_scan_behind(struct journal *j, uint64_t position)
{
    struct rest rest = {0, 0};
    struct journal_record r;
    uint64_t first, next, from = position;

    if (journal_next(j, &from, add, &rest, &r, NULL) != ERR_OK) {
        return rest.bytes; /* all of them */
    }
    journal_range(j, &first, &next);
    return next > from
               ? rest.bytes + (uint64_t)((double)rest.bytes / COUNT_MAX * (double)(next - from))
               : rest.bytes;
}
