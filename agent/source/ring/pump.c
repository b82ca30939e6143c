#include "agent/source/ring/pump.h"

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

/* A nap bounds the delay of a single record and the number of wake-ups while records come now and
 * then; a burst that fills a quarter of the ring ends it early. After an empty nap the first record
 * wakes. */
#define NAP_NS  (10 * CLK_MS)
#define LONG_NS (3600 * CLK_S)

struct pump {
    struct pump_conf conf;
    struct pump_stats stats;
    struct os_thread *thread;
};

/* false: the ring is closed and empty. */
static bool sleep_until_news(struct pump *p, bool nap)
{
    struct ring *r = p->conf.ring;

    p->stats.sleeps++;
    return ring_wait(r, nap ? ring_bytes(r) / 4 : 1, os_mono_ns() + (nap ? NAP_NS : LONG_NS)) !=
           ERR_END;
}

static void run(void *arg)
{
    struct pump *p = arg;
    size_t n;

    do {
        n = ring_drain(p->conf.ring, p->conf.batch_events, &p->conf.sink);
        p->stats.batches += n > 0;
        p->stats.full += n == p->conf.batch_events;
    } while (n == p->conf.batch_events || sleep_until_news(p, n > 0));
    /* Closed and empty, but what the producer could not store is still to be told. */
    (void)ring_drain(p->conf.ring, p->conf.batch_events, &p->conf.sink);
}

enum err pump_start(struct pump **out, const struct pump_conf *conf)
{
    struct pump *p;
    enum err e;

    if (conf->batch_events == 0 || conf->batch_events > PUMP_BATCH_MAX) {
        return ERR_RANGE;
    }
    p = mem_zalloc(sizeof *p);
    if (!p) {
        return ERR_NOMEM;
    }
    p->conf = *conf;
    e = os_thread_start(&p->thread, conf->name, run, p);
    if (e) {
        mem_free(p);
        return e;
    }
    *out = p;
    return ERR_OK;
}

void pump_stop(struct pump *p, struct pump_stats *stats)
{
    if (!p) {
        return;
    }
    ring_close(p->conf.ring);
    os_thread_join(p->thread);
    if (stats) {
        *stats = p->stats;
    }
    mem_free(p);
}
