#include "agent/source/windows/etw_live_impl.h"
#include "common/base/clk.h"

int64_t etw_live_now(const struct etw_live *l, int64_t *utc_ns)
{
    uint64_t frequency;
    int64_t ticks;

    l->conf.api->clock(&ticks, &frequency, utc_ns);
    return clk_ticks_to_ns(ticks, frequency);
}

void etw_live_set_clock(struct etw_live *l)
{
    int64_t utc_ns, mono_ns = etw_live_now(l, &utc_ns);

    atomic_store(&l->wall_less_mono, clk_sub(utc_ns, mono_ns));
}
