#include "collector/store/batch_time.h"

#include "common/base/clk.h"

void batch_time_span(const struct batch *b, int64_t now_ns, int64_t *t0_ns, int64_t *t1_ns)
{
    int64_t t0 = now_ns, t1 = now_ns;

    if (b->n_ticks > 0) {
        t0 = b->wall_ns[0];
        t1 = b->wall_ns[b->n_ticks - 1];
    } else if (b->n_events > 0) {
        t0 = t1 = b->events[0].wall_ns;
    }
    for (size_t i = 0; i < b->n_events; i++) {
        t0 = b->events[i].wall_ns < t0 ? b->events[i].wall_ns : t0;
        t1 = b->events[i].wall_ns > t1 ? b->events[i].wall_ns : t1;
    }
    *t0_ns = t0;
    *t1_ns = t1;
}

int64_t batch_time_made(int64_t t1_ns, const struct host_offset *clock, int64_t received_ns)
{
    int64_t made_ns = clock->known ? clk_add(t1_ns, clock->offset_ns) : t1_ns;

    return made_ns < received_ns ? made_ns : received_ns;
}
