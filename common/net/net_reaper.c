/* How late we are is measured by an operation that needs no time and ends, like everything that
 * arrives, with a call on one of NNG's threads: what it takes is the time that work waits there. */
#include "common/net/net_reaper.h"

#include <nng/nng.h>

#include "common/base/clk.h"
#include "common/base/heartbeat.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define CHECK_NS (20 * CLK_MS) /* while places are short */

struct net_reaper {
    struct conn_limits *crowd;
    void (*sweep)(void *ctx);
    void *ctx;
    atomic_bool ends;
    struct os_thread *thread;
    nng_aio *probe;
    struct heartbeat round; /* the thread's */
    atomic_llong probed_ns; /* since when it is under way; 0: it is not */
    atomic_llong lag_ns;    /* what the last one took */
};

static void probe_ended(void *arg)
{
    struct net_reaper *j = arg;

    atomic_store(&j->lag_ns, os_mono_ns() - atomic_load(&j->probed_ns));
    atomic_store(&j->probed_ns, 0);
}

/* How late we are, from the last probe or the one under way, and begins the next. */
static int64_t lag(struct net_reaper *j, int64_t now_ns)
{
    int64_t since_ns = atomic_load(&j->probed_ns), last_ns = atomic_load(&j->lag_ns);

    if (since_ns > 0) {
        return now_ns - since_ns > last_ns ? now_ns - since_ns : last_ns;
    }
    atomic_store(&j->probed_ns, now_ns);
    nng_sleep_aio(0, j->probe);
    return last_ns;
}

static void work(void *arg)
{
    struct net_reaper *j = arg;
    int64_t sweep_ns = os_mono_ns() + CLK_S;

    int64_t until_ns = sweep_ns;

    while (!atomic_load(&j->ends)) {
        int64_t now_ns;

        conn_limits_wait(j->crowd, until_ns);
        now_ns = os_mono_ns();
        heartbeat_work(&j->round, now_ns);
        if (now_ns >= sweep_ns) {
            j->sweep(j->ctx);
            sweep_ns = now_ns + CLK_S;
        }
        until_ns = sweep_ns;
        if (conn_limits_clear(j->crowd, now_ns, lag(j, now_ns)) && now_ns + CHECK_NS < sweep_ns) {
            until_ns = now_ns + CHECK_NS;
        }
    }
}

enum err net_reaper_start(struct net_reaper **out, const char *name, struct conn_limits *crowd,
                          void (*sweep)(void *ctx), void *ctx)
{
    struct net_reaper *j = mem_zalloc(sizeof *j);
    enum err e;

    if (!j) {
        return ERR_NOMEM;
    }
    j->crowd = conn_limits_hold(crowd);
    j->sweep = sweep;
    j->ctx = ctx;
    atomic_init(&j->ends, false);
    e = nng_aio_alloc(&j->probe, probe_ended, j) == 0 ? ERR_OK : ERR_NOMEM;
    if (!e) {
        e = os_thread_start(&j->thread, name, work, j);
    }
    if (e) {
        net_reaper_stop(j);
        return e;
    }
    *out = j;
    return ERR_OK;
}

int64_t net_reaper_stuck_ns(const struct net_reaper *j, int64_t now_ns)
{
    int64_t round_ns = heartbeat_busy_ns(&j->round, now_ns), since_ns = atomic_load(&j->probed_ns);
    int64_t probe_ns = since_ns > 0 && now_ns > since_ns ? now_ns - since_ns : 0;

    return probe_ns > round_ns ? probe_ns : round_ns;
}

void net_reaper_stop(struct net_reaper *j)
{
    if (!j) {
        return;
    }
    atomic_store(&j->ends, true);
    conn_limits_wake(j->crowd);
    os_thread_join(j->thread);
    if (j->probe) {
        nng_aio_stop(j->probe);
        nng_aio_free(j->probe);
    }
    conn_limits_release(j->crowd);
    mem_free(j);
}
