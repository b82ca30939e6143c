#include "tests/support/ring_pump.h"

#include "common/base/clk.h"
#include "common/os/os.h"

#define NAP_NS  (10 * CLK_MS)
#define LONG_NS (3600 * CLK_S)

/* False: the ring is closed and empty. */
static bool ring_pump_sleep(const struct ring_pump *p, bool nap)
{
    return ring_wait(p->ring, nap ? ring_bytes(p->ring) / 4 : 1,
                     os_mono_ns() + (nap ? NAP_NS : LONG_NS)) != ERR_END;
}

static void ring_pump_run(void *arg)
{
    const struct ring_pump *p = arg;
    size_t n;

    do {
        n = ring_drain(p->ring, p->batch, &p->sink);
    } while (n == p->batch || ring_pump_sleep(p, n > 0));
    (void)ring_drain(p->ring, p->batch, &p->sink); /* loss that found no room in the ring */
}

enum err ring_pump_start(struct ring_pump *p)
{
    return os_thread_start(&p->thread, "pump", ring_pump_run, p);
}

void ring_pump_stop(struct ring_pump *p)
{
    ring_close(p->ring);
    os_thread_join(p->thread);
}
