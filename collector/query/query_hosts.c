#include "collector/query/query_impl.h"

#include <stdio.h>

#include "collector/query/pulse.h"
#include "collector/query/query_scan.h"
#include "collector/query/query_where.h"
#include "common/base/clk.h"
#include "common/base/plural.h"

#define DAY_NS      (86400 * CLK_S)
#define LOOKBACK_NS (60 * CLK_S) /* an agent's last batch may hold events or losses only */
#define RECENT      4u           /* slots of the pulse up to the newest data's */

struct count {
    uint32_t processes;
    int64_t newest_ns;
};

/* Rows of the newest tick, idle left out. */
static enum err alive_count(void *ctx, const struct store_block *block)
{
    const struct batch *b = block->batch;
    struct count *c = ctx;

    if (!b->n_ticks || block->part == STORE_REST || b->wall_ns[b->n_ticks - 1] < c->newest_ns) {
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

enum err query_hosts_alive(struct query *q, const struct query_span *s, uint32_t *processes)
{
    int64_t newest = s->about->last_ns;
    struct store_range range = {.since_ns = newest,
                                .until_ns = clk_add(newest, 1),
                                .made_since_ns = INT64_MIN,
                                .metrics = METRIC_BIT(M_CPU_TIME),
                                .no_rests = true};
    struct count c = {0, INT64_MIN};
    enum err e;

    if (s->about->has_alive) { /* else thousands of batches are unpacked for one answer */
        *processes = s->about->alive;
        return ERR_OK;
    }
    e = query_scan_blocks(q, s, &range, alive_count, &c);
    if (!e && c.newest_ns == INT64_MIN) {
        range.since_ns = clk_add(newest, -LOOKBACK_NS);
        e = query_scan_blocks(q, s, &range, alive_count, &c);
    }
    *processes = c.processes;
    return e;
}

/* Agents renew at two thirds of a certificate's life, 30 days before its end at the longest: one
 * that is closer to its end has not managed. */
static void certificate_remark(struct query *q, const struct query_span *s)
{
    static const int64_t steps[] = {1, 7, 30}; /* days */
    struct query_host_state state = query_host_state_of(q, s->about);
    int64_t left_ns = clk_sub(state.not_after_ns, q->env->now_ns);
    int64_t third_ns = clk_sub(state.not_after_ns, state.not_before_ns) / 3;
    char detail[64];

    if (!state.not_after_ns || left_ns > third_ns) {
        return;
    }
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (left_ns <= steps[i] * DAY_NS) {
            (void)snprintf(detail, sizeof detail, "%d %s or less", (int)steps[i],
                           plural((uint64_t)steps[i], "day", "days"));
            query_remark(q, QNOTE_CERTIFICATE, s, "%s", left_ns < 0 ? "it has ended" : detail);
            return;
        }
    }
}

/* What it used last: of the newest slot that has it, since the one being filled may not yet. */
static void figures_put(const struct query *q, const struct query_span *s, struct wire_host *h)
{
    struct pulse_slot slots[RECENT];
    int64_t first_ns = clk_sub(s->about->last_ns, (int64_t)(RECENT - 1) * PULSE_STEP_NS);

    if (!q->env->pulse || !pulse_read(q->env->pulse, &s->about->id, first_ns, RECENT, slots)) {
        return;
    }
    for (size_t i = 0; i < RECENT; i++) {
        if (slots[i].there && slots[i].has_cpu) {
            h->has_cpu = true;
            h->cpu_permille = slots[i].cpu_permille;
        }
        if (slots[i].there && slots[i].has_memory) {
            h->has_memory = true;
            h->memory = slots[i].memory;
        }
    }
}

enum err query_hosts(struct query *q)
{
    enum err e = query_plan(q, NULL, 0, WIRE_ROWS_MAX);

    if (e) {
        return e;
    }
    for (size_t i = query_first_span(q); i < q->n_spans; i++) {
        struct query_span *s = &q->spans[i];
        struct query_cursor key = {0};
        uint32_t at, processes;

        if (query_is_cursor_host(q, s) ||
            !query_where_fits(q, &(struct query_where_row){.span = s})) {
            continue;
        }
        if (q->n_hosts == q->limit || !query_fits(q, NULL, 0)) {
            query_key_host(&key, &q->spans[i - 1]);
            query_more(q, &key);
            break;
        }
        e = query_hosts_alive(q, s, &processes);
        if (!e) {
            e = query_host_index(q, s, &at);
        }
        if (e) {
            return e;
        }
        q->hosts[at].processes = processes;
        figures_put(q, s, &q->hosts[at]);
        certificate_remark(q, s);
    }
    return ERR_OK;
}
