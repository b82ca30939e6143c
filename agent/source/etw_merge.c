#include "agent/source/etw_merge.h"

#define HALF_FULL 500 /* permille */

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
    struct raw_event in_order = *raw;

    if (m->begun && raw->mono_ns < m->mono_ns) {
        m->late++;
        in_order.mono_ns = m->mono_ns;
        in_order.wall_ns = m->wall_ns;
    }
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

/* The ring whose turn it is; m->n: none. */
static size_t pick(struct etw_merge *m, int64_t now_ns)
{
    int64_t least_ns = 0, next_ns;
    bool incomplete = false;
    size_t at = m->n;

    for (size_t i = 0; i < m->n; i++) {
        if (!ring_next_ns(m->rings[i], &next_ns)) {
            incomplete = incomplete || !m->silent[i];
        } else if (at == m->n || next_ns < least_ns) {
            least_ns = next_ns;
            at = i;
        }
    }
    if (at == m->n || !incomplete || least_ns <= now_ns - ETW_MERGE_WINDOW_NS) {
        return at;
    }
    for (size_t i = 0; i < m->n; i++) {
        if (ring_fill_permille(m->rings[i]) >= HALF_FULL) {
            m->hurried++;
            return at;
        }
    }
    return m->n;
}

size_t etw_merge_step(struct etw_merge *m, size_t max, int64_t now_ns)
{
    struct source_sink sink = {.ctx = m, .raw = on_raw, .fact = on_fact, .advance = on_advance};
    size_t n = 0;

    if (m->n == 1) {
        return ring_drain(m->rings[0], max, &sink);
    }
    while (n < max) {
        size_t i = pick(m, now_ns);

        if (i == m->n) {
            break;
        }
        n += ring_drain(m->rings[i], 1, &sink);
    }
    return n;
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
