#include "collector/store/read/store_unread.h"

#include "common/base/clk.h"
#include "common/os/os.h"

#define TOLD_NS (600 * CLK_S) /* one sentence in so long: the figures count all */

bool store_unread_is(enum err e)
{
    return e == ERR_CORRUPT || e == ERR_IO || e == ERR_VERSION || e == ERR_ACCESS ||
           e == ERR_READONLY || e == ERR_NOTFOUND || e == ERR_BUSY;
}

bool store_unread_is_batch(enum err e)
{
    return e == ERR_FULL || store_unread_is(e);
}

/* Whether it is time for another sentence; whoever is told so says it. */
static bool is_due(struct store_reading *r)
{
    int64_t now_ns = os_mono_ns(), told_ns = atomic_load(&r->told_ns);

    return (!told_ns || now_ns - told_ns >= TOLD_NS) &&
           atomic_compare_exchange_strong(&r->told_ns, &told_ns, now_ns);
}

void store_unread(const struct store_view *v, size_t host, struct store_used *used,
                  enum store_unread_kind kind, int64_t first_ns, int64_t last_ns, enum err e)
{
    struct store_reading *r = &v->store->reading;
    const struct store_conf *conf = &v->store->conf;
    const struct store_unread_what what = {v->hosts[host].name, kind, first_ns, last_ns, e};

    if (used) {
        used->damaged++;
        store_holes_add(&used->holes, first_ns, last_ns);
    }
    atomic_fetch_add_explicit(&r->unread[kind], 1, memory_order_relaxed);
    if (conf->on_unread && is_due(r)) {
        conf->on_unread(conf->ctx, &what);
    }
}
