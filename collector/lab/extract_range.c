#include "collector/lab/extract_range.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/glob.h"
#include "common/os/uuid.h"

#define TICK_NS (60 * CLK_S)
#define NEAR_NS (300 * CLK_S) /* a batch so far away tells the host's clock, too */

struct clock_search {
    int64_t when_ns, near_ns; /* how near the best one is */
    struct host_offset best;
};

static enum err clock_block(void *ctx, const struct store_block *b)
{
    struct clock_search *s = ctx;
    int64_t far_ns = clk_sub(b->received_ns, s->when_ns);

    far_ns = far_ns < 0 ? -far_ns : far_ns;
    if (b->clock && b->clock->known && (!s->best.known || far_ns < s->near_ns)) {
        s->best = *b->clock;
        s->near_ns = far_ns;
    }
    return ERR_OK;
}

enum err extract_range_clock(struct host_offset *out, const struct store_view *view, size_t host,
                             int64_t when_ns)
{
    const struct store_host *h = store_view_host(view, host);
    int64_t there_ns = clk_sub(when_ns, h->clock.known ? h->clock.offset_ns : 0);
    struct clock_search s = {.when_ns = when_ns};
    const struct store_range range = {.since_ns = clk_sub(there_ns, NEAR_NS),
                                      .until_ns = clk_add(there_ns, NEAR_NS),
                                      .made_since_ns = INT64_MIN};
    enum err e = store_blocks_scan(view, host, &range, clock_block, &s);

    *out = s.best.known ? s.best : h->clock;
    return e;
}

struct tick_search {
    int64_t when_ns, first_ns;
};

static enum err tick_block(void *ctx, const struct store_block *b)
{
    struct tick_search *s = ctx;

    for (size_t i = 0; i < b->batch->n_ticks; i++) {
        int64_t wall_ns = b->batch->wall_ns[i];

        if (wall_ns >= s->when_ns && wall_ns < s->first_ns) {
            s->first_ns = wall_ns;
        }
    }
    return ERR_OK;
}

enum err extract_range_tick(int64_t *out, const struct store_view *view, size_t host,
                            int64_t when_ns)
{
    struct tick_search s = {when_ns, INT64_MAX};
    const struct store_range range = {.since_ns = when_ns,
                                      .until_ns = clk_add(when_ns, TICK_NS),
                                      .made_since_ns = INT64_MIN,
                                      .metrics = METRIC_BIT(M_CPU_TIME),
                                      .no_rests = true};
    enum err e = store_blocks_scan(view, host, &range, tick_block, &s);

    *out = s.first_ns;
    return e;
}

static bool range_has(const struct extract_range *range, const struct query_env *env,
                      const struct store_host *h)
{
    char id[UUID_TEXT];
    bool fits = range->n_hosts == 0;

    if (env->scope && env->scope[0] && !glob_match(str_make(env->scope), str_make(h->name))) {
        return false;
    }
    for (size_t i = 0; i < range->n_hosts && !fits; i++) {
        fits = glob_match(range->hosts[i], str_make(h->name)) ||
               str_eq(range->hosts[i], str_make(uuid_format(id, &h->id)));
    }
    return fits;
}

static int host_order(const void *a, const void *b)
{
    return memcmp(((const struct query_run_host *)a)->id.b,
                  ((const struct query_run_host *)b)->id.b, sizeof(struct uuid));
}

enum err extract_range_hosts(struct query_run *out, const struct query_env *env,
                             const struct extract_range *range, struct arena *memory)
{
    size_t n = store_view_hosts(env->view);
    struct query_run_host *hosts = arena_array(memory, n, sizeof *hosts);
    enum err e = hosts ? ERR_OK : ERR_FULL;

    *out = (struct query_run){.hosts = hosts};
    for (size_t i = 0; !e && i < n; i++) {
        const struct store_host *h = store_view_host(env->view, i);
        struct host_offset since = {.known = false}, until = {.known = false};

        if (!range_has(range, env, h)) {
            continue;
        }
        e = extract_range_clock(&since, env->view, i, range->since_ns);
        if (!e && range->until_ns) {
            e = extract_range_clock(&until, env->view, i, range->until_ns);
        }
        hosts[out->n++] = (struct query_run_host){
            h->id, clk_sub(range->since_ns, since.known ? since.offset_ns : 0),
            range->until_ns ? clk_sub(range->until_ns, until.known ? until.offset_ns : 0) : 0};
    }
    if (out->n) {
        qsort(hosts, out->n, sizeof *hosts, host_order);
    }
    return e;
}

enum err extract_range(struct run_file **out, const struct query_env *env,
                       const struct extract_range *range, struct str name, struct errmsg *why)
{
    struct query_run run;
    struct extract_ask ask = {.env = *env,
                              .run = &run,
                              .head = {.name = name,
                                       .state = RUN_READY,
                                       .origin = RUN_OF_RANGE,
                                       .begin_ns = range->since_ns,
                                       .end_ns = range->until_ns}};
    struct arena memory;
    enum err e;

    arena_init(&memory, QUERY_MEMORY_MAX);
    e = extract_range_hosts(&run, env, range, &memory);
    e = e ? e : extract_run(out, &ask, why);
    arena_fini(&memory);
    return e;
}
