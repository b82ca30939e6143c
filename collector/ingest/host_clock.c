#include "collector/ingest/host_clock.h"

#include <string.h>

#include "common/base/clk.h"

#define LATE_NS  (30 * CLK_S) /* no call takes longer: one that seems to comes from a step */
#define FRESH_NS (60 * CLK_S) /* a batch that was just made is no older */
#define AHEAD_NS CLK_S        /* a batch of this moment may seem so much later than now */

static int64_t drift(int64_t span_ns)
{
    return span_ns > 0 ? span_ns / 1000000 * HOST_CLOCK_DRIFT_PPM : 0;
}

static struct clock_span widened(const struct clock_span *s, int64_t by_ns)
{
    return (struct clock_span){s->bounded, clk_sub(s->low_ns, by_ns), clk_add(s->high_ns, by_ns)};
}

static int64_t middle(const struct clock_span *s)
{
    return s->bounded ? s->low_ns + clk_sub(s->high_ns, s->low_ns) / 2 : s->high_ns;
}

static int64_t half(const struct clock_span *s)
{
    int64_t width_ns = clk_sub(s->high_ns, s->low_ns);

    return s->bounded ? width_ns / 2 + width_ns % 2 : 0;
}

/* -- boots -- */

static size_t boot_find(const struct host_clocks *c, const struct uuid *boot)
{
    size_t i = 0;

    while (i < c->n && memcmp(c->at[i].boot.b, boot->b, sizeof boot->b) != 0) {
        i++;
    }
    return i;
}

/* Its clock, now the first. `fresh`: nothing is known of it yet. */
static struct host_clock *boot_heard(struct host_clocks *c, const struct uuid *boot, bool *fresh)
{
    size_t i = boot_find(c, boot);
    struct host_clock heard = {.boot = *boot};

    *fresh = i == c->n;
    if (!*fresh) {
        heard = c->at[i];
    } else if (c->n < HOST_CLOCK_BOOTS) {
        c->n++;
    } else {
        i--;
    }
    memmove(c->at + 1, c->at, i * sizeof *c->at);
    c->at[0] = heard;
    return &c->at[0];
}

/* -- the estimate -- */

/* Begins anew; `before` is what was known with the last call. */
static void step(struct host_clock *h, const struct clock_span *before, struct clock_span to)
{
    if (h->n_steps == HOST_CLOCK_STEPS) {
        h->n_steps--;
        memmove(h->steps, h->steps + 1, h->n_steps * sizeof *h->steps);
    }
    h->steps[h->n_steps++] = *before;
    h->span = to;
}

/* What one exchange more allows. */
static void meet(struct host_clock *h, const struct clock_span *before, struct clock_span s)
{
    bool below = h->span.bounded && s.high_ns < h->span.low_ns;
    bool above =
        s.bounded ? s.low_ns > h->span.high_ns : clk_sub(s.high_ns, h->span.high_ns) > LATE_NS;

    if (below || above) {
        step(h, before, s);
        return;
    }
    if (s.bounded && (!h->span.bounded || s.low_ns > h->span.low_ns)) {
        h->span.bounded = true;
        h->span.low_ns = s.low_ns;
    }
    h->span.high_ns = s.high_ns < h->span.high_ns ? s.high_ns : h->span.high_ns;
}

static void remember(struct host_clock *h, int64_t sent_ns, int64_t received_ns)
{
    if (h->n_sent == HOST_CLOCK_SENT) {
        h->n_sent--;
        memmove(h->sent, h->sent + 1, h->n_sent * sizeof *h->sent);
    }
    h->sent[h->n_sent].sent_ns = sent_ns;
    h->sent[h->n_sent++].received_ns = received_ns;
}

/* The agent reports how long an earlier exchange took. */
static void measured(struct host_clock *h, const struct clock_span *before,
                     const struct clock_told *told, int64_t now_ns)
{
    for (size_t i = 0; i < h->n_sent && told->last_rtt_ns > 0; i++) {
        struct clock_span s = {.bounded = true};

        if (h->sent[i].sent_ns != told->last_mono_ns) {
            continue;
        }
        s.high_ns = clk_sub(h->sent[i].received_ns, h->sent[i].sent_ns);
        s.low_ns = clk_sub(s.high_ns, told->last_rtt_ns);
        meet(h, before, widened(&s, drift(now_ns - h->sent[i].received_ns)));
    }
}

void host_clocks_note(struct host_clocks *c, const struct clock_told *told,
                      const struct clock_moment *now)
{
    int64_t sent_ns = told->mono_ns ? told->mono_ns : told->wall_ns;
    struct clock_span s = {.high_ns = clk_sub(now->mono_ns, sent_ns)};
    bool fresh;
    struct host_clock *h = boot_heard(c, &told->boot, &fresh);
    const struct clock_span before = h->span;

    if (fresh) {
        h->span = s;
    } else {
        h->span = widened(&h->span, drift(now->mono_ns - h->at_ns));
        measured(h, &before, told, now->mono_ns);
        meet(h, &before, s);
    }
    h->at_ns = now->mono_ns;
    h->by_wall = told->mono_ns == 0;
    h->ahead_ns = clk_sub(told->wall_ns, sent_ns);
    remember(h, sent_ns, now->mono_ns);
}

/* -- answers -- */

/* The offset of a host's clock that is ahead_ns ahead of its monotonic one. */
static struct host_offset offset_of(const struct clock_span *s, int64_t ahead_ns,
                                    const struct clock_moment *now)
{
    int64_t utc_ns = clk_add(middle(s), clk_sub(now->utc_ns, now->mono_ns));

    return (struct host_offset){true, s->bounded, clk_sub(utc_ns, ahead_ns), half(s)};
}

/* What is known of the difference now; without a bound the best guess is that of then. */
static struct clock_span span_now(const struct host_clock *h, const struct clock_moment *now)
{
    return h->span.bounded ? widened(&h->span, drift(now->mono_ns - h->at_ns)) : h->span;
}

static struct host_offset now_of(const struct host_clock *h, const struct clock_moment *now)
{
    struct clock_span s = span_now(h, now);

    return offset_of(&s, h->ahead_ns, now);
}

struct host_offset host_clocks_now(const struct host_clocks *c, const struct clock_moment *now)
{
    return c->n > 0 ? now_of(&c->at[0], now) : (struct host_offset){0};
}

/* How far the wall clock was ahead of the monotonic one at the batch's end, and how much of that
 * came during the batch. False: it does not tell. */
static bool batch_ahead(const struct batch *b, int64_t *ahead_ns, int64_t *moved_ns)
{
    int64_t first_ns;

    if (b->head.flags & BATCH_REPLAY) {
        return false;
    }
    if (b->n_ticks > 0) {
        *ahead_ns = clk_sub(b->wall_ns[b->n_ticks - 1], b->mono_ns[b->n_ticks - 1]);
        first_ns = clk_sub(b->wall_ns[0], b->mono_ns[0]);
    } else if (b->n_events > 0) {
        *ahead_ns = clk_sub(b->events[b->n_events - 1].wall_ns, b->events[b->n_events - 1].mono_ns);
        first_ns = clk_sub(b->events[0].wall_ns, b->events[0].mono_ns);
    } else {
        return false;
    }
    *moved_ns = clk_sub(*ahead_ns, first_ns);
    *moved_ns = *moved_ns < 0 ? clk_sub(0, *moved_ns) : *moved_ns;
    return true;
}

void host_clocks_note_batch(struct host_clocks *c, const struct batch *b,
                            const struct clock_moment *now)
{
    size_t i = boot_find(c, &b->head.boot);
    int64_t ahead_ns, moved_ns, made_ns;

    if (i == c->n || c->at[i].by_wall || b->n_ticks == 0 || !batch_ahead(b, &ahead_ns, &moved_ns)) {
        return;
    }
    made_ns = clk_add(middle(&c->at[i].span), b->mono_ns[b->n_ticks - 1]);
    if (made_ns <= now->mono_ns + AHEAD_NS && made_ns >= now->mono_ns - FRESH_NS) {
        c->at[i].ahead_ns = ahead_ns;
    }
}

static bool sensible(const struct host_offset *o, int64_t t1_ns, const struct clock_moment *now,
                     int64_t oldest_ns)
{
    int64_t made_ns = clk_add(t1_ns, o->offset_ns);

    return made_ns <= clk_add(now->utc_ns, AHEAD_NS + o->error_ns) && made_ns >= oldest_ns;
}

/* Differs less from what the wall clock says: where a host slept, several differences are possible.
 */
static bool nearer(const struct host_offset *a, const struct host_offset *b, int64_t to_ns)
{
    int64_t x = clk_sub(a->offset_ns, to_ns), y = clk_sub(b->offset_ns, to_ns);

    x = x < 0 ? clk_sub(0, x) : x;
    y = y < 0 ? clk_sub(0, y) : y;
    return x < y;
}

struct host_offset host_clocks_batch(const struct host_clocks *c, const struct batch *b,
                                     const struct clock_moment *now, int64_t oldest_ns)
{
    size_t i = boot_find(c, &b->head.boot);
    struct host_offset wall = i < c->n ? now_of(&c->at[i], now) : host_clocks_now(c, now), best;
    const struct host_clock *h = &c->at[i];
    int64_t ahead_ns, moved_ns, t1_ns;
    struct clock_span s;

    if (i == c->n || h->by_wall || !batch_ahead(b, &ahead_ns, &moved_ns)) {
        return wall;
    }
    t1_ns = b->n_ticks > 0 ? b->wall_ns[b->n_ticks - 1] : b->events[b->n_events - 1].wall_ns;
    s = span_now(h, now);
    best = offset_of(&s, ahead_ns, now);
    for (size_t k = h->n_steps; k > 0; k--) {
        struct host_offset o = offset_of(&h->steps[k - 1], ahead_ns, now);

        if (sensible(&o, t1_ns, now, oldest_ns) &&
            (!sensible(&best, t1_ns, now, oldest_ns) || nearer(&o, &best, wall.offset_ns))) {
            best = o;
        }
    }
    if (!sensible(&best, t1_ns, now, oldest_ns) && sensible(&wall, t1_ns, now, oldest_ns)) {
        return wall;
    }
    best.error_ns = clk_add(best.error_ns, moved_ns);
    return best;
}
