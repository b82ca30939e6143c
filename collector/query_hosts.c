#include "collector/query_plan.h"

#include "common/clk.h"

#define LOOKBACK_NS (60 * CLK_S) /* an agent's last batch may hold events or losses only */

struct count {
    uint32_t processes;
    int64_t newest_ns;
};

/* Rows of the newest tick, idle left out. */
static enum err count_newest(void *ctx, const struct batch *b)
{
    struct count *c = ctx;

    if (!b->n_ticks || b->wall_ns[b->n_ticks - 1] < c->newest_ns) {
        return ERR_OK;
    }
    c->newest_ns = b->wall_ns[b->n_ticks - 1];
    c->processes = 0;
    for (size_t i = 0; i < b->n_runs; i++) {
        const struct batch_run *run = &b->runs[i];

        c->processes += run->id.pid != 0 && run->first_tick + run->n_ticks == b->n_ticks;
    }
    return ERR_OK;
}

/* The newest data of the host, whatever window was asked for. */
static enum err host_count(const struct query *q, const struct query_span *s, struct count *c)
{
    const struct store_view *view = q->env->view;
    int64_t newest = s->about->last_ns;
    enum err e = store_scan(view, s->host, newest, INT64_MAX, count_newest, c);

    if (!e && c->newest_ns == INT64_MIN) {
        e = store_scan(view, s->host, clk_add(newest, -LOOKBACK_NS), INT64_MAX, count_newest, c);
    }
    return e;
}

enum err query_hosts(struct query *q)
{
    enum err e = query_plan(q, NULL, 0, WIRE_ROWS_MAX);

    if (e) {
        return e;
    }
    for (size_t i = query_first_span(q); i < q->n_spans; i++) {
        struct query_span *s = &q->spans[i];
        struct count c = {0, INT64_MIN};
        struct query_cursor key = {0};
        uint32_t at;

        if (query_is_cursor_host(q, s)) {
            continue;
        }
        if (q->n_hosts == q->limit || !query_fits(q, NULL, 0)) {
            query_key_host(&key, &q->spans[i - 1]);
            query_more(q, &key);
            break;
        }
        e = host_count(q, s, &c);
        if (!e) {
            e = query_host_index(q, s, &at);
        }
        if (e) {
            return e;
        }
        q->hosts[at].processes = c.processes;
    }
    return ERR_OK;
}
