#include "agent/source/windows/etw_merge.h"

#include "common/base/clk.h"
#include "common/os/os.h"

#define HALF_FULL    500 /* permille */
#define QUARTER_FULL 250
#define HURRIED      16 /* records taken of a ring that is half full before looking again */

#define WINDOW_LEAST_NS (200 * CLK_MS)

#define NAP_NS   (100 * CLK_MS) /* while records come: what comes meanwhile gathers */
#define ORDER_NS (50 * CLK_MS)  /* while a ring that is not empty any more waits for others */

int64_t etw_merge_window(unsigned flush_ms)
{
    int64_t window_ns = WINDOW_LEAST_NS + 4 * CLK_MS * (int64_t)flush_ms;

    return flush_ms && window_ns < ETW_MERGE_WINDOW_NS ? window_ns : ETW_MERGE_WINDOW_NS;
}

void etw_merge_advance(struct etw_merge *m, int64_t wall_ns, int64_t mono_ns)
{
    if (m->begun && mono_ns <= m->mono_ns) {
        return;
    }
    m->begun = true;
    m->mono_ns = mono_ns;
    m->wall_ns = wall_ns;
    m->sink.advance(m->sink.ctx, wall_ns, mono_ns);
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    etw_merge_advance(ctx, wall_ns, mono_ns);
}

static void on_raw(void *ctx, const struct raw_event *raw)
{
    struct etw_merge *m = ctx;
    struct raw_event in_order;

    if (!m->begun || raw->mono_ns >= m->mono_ns) {
        m->sink.raw(m->sink.ctx, raw);
        return;
    }
    m->late++;
    in_order = *raw;
    in_order.mono_ns = m->mono_ns; /* its wall time stays true: creation may rest on it */
    m->sink.raw(m->sink.ctx, &in_order);
}

static void on_fact(void *ctx, const struct event *ev)
{
    struct etw_merge *m = ctx;
    struct event in_order = *ev;

    if (m->begun && ev->mono_ns < m->mono_ns) {
        in_order.mono_ns = m->mono_ns;
        in_order.wall_ns = m->wall_ns;
    }
    m->sink.fact(m->sink.ctx, &in_order);
}

void etw_merge_lost(struct etw_merge *m, uint64_t events, uint64_t buffers)
{
    struct event ev = {.kind = EV_LOST,
                       .pid = EVENT_NO_ID,
                       .tid = EVENT_NO_ID,
                       .wall_ns = m->wall_ns,
                       .mono_ns = m->mono_ns,
                       .u.lost = {.all_cpus = true, .events = events, .buffers = buffers}};

    m->sink.fact(m->sink.ctx, &ev);
}

/* Whose turn it is, and for how long. */
struct turn {
    size_t ring;      /* m->n: nobody's */
    size_t max;       /* records, */
    int64_t until_ns; /* and what is later waits for others */
    bool hurried;
};

static bool any_half_full(const struct etw_merge *m)
{
    for (size_t i = 0; i < m->n; i++) {
        if (ring_fill_permille(m->rings[i]) >= HALF_FULL) {
            return true;
        }
    }
    return false;
}

static struct turn pick(struct etw_merge *m, size_t max, int64_t now_ns)
{
    struct turn t = {m->n, max, INT64_MAX, false};
    int64_t least_ns = 0, next_ns;
    bool incomplete = false;

    for (size_t i = 0; i < m->n; i++) {
        if (!ring_next_ns(m->rings[i], &next_ns)) {
            incomplete = incomplete || !m->silent[i];
        } else if (t.ring == m->n || next_ns < least_ns) {
            t.until_ns = t.ring == m->n ? INT64_MAX : least_ns;
            least_ns = next_ns;
            t.ring = i;
        } else if (next_ns < t.until_ns) {
            t.until_ns = next_ns;
        }
    }
    if (t.ring == m->n || !incomplete) {
        return t;
    }
    if (least_ns <= now_ns - m->window_ns) {
        if (now_ns - m->window_ns < t.until_ns) {
            t.until_ns = now_ns - m->window_ns;
        }
    } else if (any_half_full(m)) {
        t.hurried = true;
        t.max = max < HURRIED ? max : HURRIED;
    } else {
        t.ring = m->n;
    }
    return t;
}

size_t etw_merge_step(struct etw_merge *m, size_t max, int64_t now_ns)
{
    struct source_sink sink = {.ctx = m, .raw = on_raw, .fact = on_fact, .advance = on_advance};
    size_t n = 0;

    if (m->n == 1) {
        n = ring_drain(m->rings[0], max, &sink);
    }
    while (m->n > 1 && n < max) {
        struct turn t = pick(m, max - n, now_ns);
        size_t taken;

        if (t.ring == m->n) {
            break;
        }
        taken = ring_drain_until(m->rings[t.ring], t.max, t.until_ns, &sink);
        m->hurried += t.hurried ? taken : 0;
        n += taken;
    }
    m->flowing = n > 0;
    return n;
}

/* The ring that holds most; held: not everything is empty. */
static struct ring *fullest(const struct etw_merge *m, unsigned *permille, bool *held)
{
    struct ring *r = m->rings[0];

    *permille = 0;
    *held = false;
    for (size_t i = 0; i < m->n; i++) {
        unsigned own = ring_fill_permille(m->rings[i]);
        int64_t next_ns;

        *held = *held || ring_next_ns(m->rings[i], &next_ns);
        if (own > *permille) {
            *permille = own;
            r = m->rings[i];
        }
    }
    return r;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void etw_merge_wait(struct etw_merge *m, int64_t until_ns)
{
    int64_t now_ns = os_mono_ns();
    unsigned permille;
    bool held;
    struct ring *r = fullest(m, &permille, &held);

    if (permille >= QUARTER_FULL) {
        /* Just above what makes it half full, which ends waiting for others. */
        err_ignore(ring_wait(r, ring_bytes(r) / 16 * 9, sooner(until_ns, now_ns + ORDER_NS)));
    } else if (held || m->flowing) {
        err_ignore(ring_wait(r, ring_bytes(r) / 4, sooner(until_ns, now_ns + NAP_NS)));
    } else {
        err_ignore(ring_wait(r, 1, until_ns));
    }
}

void etw_merge_finish(struct etw_merge *m)
{
    struct source_sink sink = {.ctx = m, .raw = on_raw, .fact = on_fact, .advance = on_advance};

    for (size_t i = 0; i < m->n; i++) {
        m->silent[i] = true;
    }
    while (etw_merge_step(m, SIZE_MAX, INT64_MAX)) {
    }
    for (size_t i = 0; i < m->n; i++) {
        (void)ring_drain(m->rings[i], 1, &sink);
    }
}
