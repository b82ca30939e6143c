#include "collector/query/query_alive.h"

#include "collector/query/query_cells.h"
#include "common/clk.h"

#define RATE_NS     (10 * CLK_S)  /* cpu_percent is that of the last 10 s */
#define ANNOUNCE_NS (330 * CLK_S) /* every instance is announced anew each 300 s */

static enum err touch(struct query_table *t, const struct uuid *boot, struct proc_id id)
{
    struct query_inst *inst;

    return query_table_get(t, boot, id, &inst);
}

struct announced {
    struct query_table *table;
    int64_t since_ns;
};

/* What a batch names that began earlier may have ended before: it has rows if it has not. */
static enum err take(void *ctx, const struct store_block *block)
{
    const struct announced *x = ctx;
    const struct batch *b = block->batch;
    struct query_table *t = x->table;
    bool inside = !b->n_ticks || b->wall_ns[0] >= x->since_ns;
    enum err e = ERR_OK;

    for (size_t i = 0; !e && inside && i < b->n_infos; i++) {
        e = touch(t, &b->head.boot, b->infos[i].id);
    }
    for (size_t i = 0; !e && i < b->n_events; i++) {
        if (b->events[i].kind <= LIFE_PROCESS_STOP && b->events[i].wall_ns >= x->since_ns &&
            b->events[i].wall_ns < t->until_ns) {
            e = touch(t, &b->head.boot, b->events[i].info.id);
        }
    }
    return e;
}

static enum err take_ended(void *ctx, const struct uuid *boot, const struct proc_info *info)
{
    return info->have & INFO_EXITED ? touch(ctx, boot, info->id) : ERR_OK;
}

static enum err take_any(void *ctx, const struct uuid *boot, const struct proc_info *info)
{
    return touch(ctx, boot, info->id);
}

enum err query_alive_fill(struct query_table *t, const struct query_span *s, bool ended)
{
    struct query_reach reach = {.since_ns = clk_add(s->until_ns, -RATE_NS)};
    struct store_range range = {.until_ns = s->until_ns, .made_since_ns = INT64_MIN};
    struct store_instances all = {.since_ns = clk_sub(s->until_ns, 1), .until_ns = s->until_ns};
    int64_t from = clk_add(s->until_ns, -ANNOUNCE_NS);
    enum err e;

    range.since_ns = from;
    from = ended && s->since_ns < from ? s->since_ns : from;
    reach.before_ns = clk_sub(reach.since_ns, from);
    t->infos = true;
    e = query_table_fill(t, s, &reach);
    if (!e) {
        e = query_blocks(t->q, s, &range, take, &(struct announced){t, range.since_ns});
    }
    if (!e && ended) {
        all.since_ns = s->since_ns;
        e = store_each_instance(t->q->env->view, s->host, &all, take_ended, t);
    }
    if (!e && t->newest_ns == QUERY_NEVER) { /* nothing is sampled: all that is known of lives */
        all.since_ns = clk_sub(s->until_ns, 1);
        e = store_each_instance(t->q->env->view, s->host, &all, take_any, t);
    }
    return e;
}

bool query_alive_ended(const struct query_inst *inst, const struct query_span *s)
{
    const struct proc_info *info = inst->info;

    if (!info || !(info->have & INFO_EXITED)) {
        return false;
    }
    return !(info->have & INFO_EXIT_TIME) ||
           (info->exit_ns >= s->since_ns && info->exit_ns < s->until_ns);
}
