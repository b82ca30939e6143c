#include "agent/source/windows/snap_lane_win32.h"

#include "agent/source/windows/snap_ask.h"
#include "agent/source/windows/snap_handle_win32.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/win32.h"

#define BUDGET_NS   (100 * CLK_MS) /* of a period's gauges: 0.2 % of the default period */
#define PATIENCE_NS CLK_S          /* of closing */

struct snap_lane {
    struct snap_slow *slow;
    struct snap_handle *handle;
    struct snap_ask *ask; /* NULL: nobody is asked anything */
};

static void read_job(void *lane, const struct snap_job *job, struct snap_answer *out)
{
    snap_handle_read(((struct snap_lane *)lane)->handle, job, out);
}

static void destroy(void *lane)
{
    struct snap_lane *l = lane;

    snap_handle_destroy(l->handle);
    snap_slow_destroy(l->slow);
    mem_free(l);
}

static enum err open_parts(struct snap_lane *l, const struct snap_slow_conf *conf)
{
    const struct snap_ask_conf ask = {.read = read_job,
                                      .release = destroy,
                                      .ctx = l,
                                      .budget_ns = BUDGET_NS,
                                      .patience_ns = PATIENCE_NS};
    struct snap_slow_conf slow = *conf;
    DWORD session = 0;
    enum err e;

    (void)ProcessIdToSessionId(os_process_id(), &session);
    slow.session = session;
    e = snap_slow_create(&l->slow, &slow);
    if (e || (conf->top == 0 && !conf->users && !conf->command_lines)) {
        return e;
    }
    e = snap_handle_create(&l->handle);
    if (e) {
        return e;
    }
    return snap_ask_open(&l->ask, &ask);
}

enum err snap_lane_open(struct snap_lane **out, const struct snap_slow_conf *conf)
{
    struct snap_lane *l = mem_zalloc(sizeof *l);
    enum err e;

    if (!l) {
        return ERR_NOMEM;
    }
    e = open_parts(l, conf);
    if (e) {
        destroy(l);
        return e;
    }
    *out = l;
    return ERR_OK;
}

void snap_lane_close(struct snap_lane *l)
{
    if (l && l->ask) {
        snap_ask_close(l->ask); /* releases it */
    } else if (l) {
        destroy(l);
    }
}

void snap_lane_table(struct snap_lane *l, struct snap_row *rows, size_t n, int64_t mono_ns,
                     bool records)
{
    struct snap_answer *a;
    struct snap_job job;

    snap_slow_begin(l->slow);
    while (l->ask && (a = snap_ask_take(l->ask))) {
        snap_slow_answer(l->slow, a);
        mem_free(a);
    }
    snap_slow_table(l->slow, rows, n, mono_ns, records);
    while (l->ask && snap_ask_has_room(l->ask) && snap_slow_next(l->slow, &job)) {
        snap_ask_put(l->ask, &job);
    }
}

const struct snap_slow_stats *snap_lane_stats(const struct snap_lane *l)
{
    return snap_slow_stats(l->slow);
}
