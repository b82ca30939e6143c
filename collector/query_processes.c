/* Processes: the newest row of every instance that lives at the end of the window, in the order of
 * hosts and pids; `exited` adds those that ended inside the window.
 *
 * A process lives when nothing says that it ended, it belongs to the newest boot, and its newest
 * row is not much older than the host's newest data: an agent that was away for a while cannot tell
 * how a process it knew has ended. Processes that never had a row (a trace that only names them)
 * are taken at their word. */
#include "collector/query_plan.h"

#include <stdlib.h>
#include <string.h>

#include "collector/query_table.h"
#include "common/clk.h"

#define RATE_NS     (10 * CLK_S)  /* cpu_percent is that of the last 10 s */
#define ANNOUNCE_NS (330 * CLK_S) /* every instance is announced anew each 300 s */
#define STALE_NS    (15 * CLK_S)  /* a living process has had a row since */

static const uint8_t ps_metrics[] = {M_CPU_TIME, M_CPU_PERCENT, M_WORKING_SET_SIZE, M_THREAD_COUNT,
                                     M_HANDLE_COUNT};

struct found {
    const struct query_inst *inst;
};

struct ps {
    struct query *q;
    struct query_table table;
    int64_t newest_ns; /* newest tick inside the window */
    struct uuid boot;  /* of that tick */
};

static enum err touch(struct ps *p, const struct uuid *boot, struct proc_id id)
{
    struct query_inst *inst;

    return query_table_get(&p->table, boot, id, &inst);
}

static enum err take(void *ctx, const struct batch *b)
{
    struct ps *p = ctx;
    enum err e = query_table_add(&p->table, b);

    for (size_t i = 0; !e && i < b->n_infos; i++) {
        e = touch(p, &b->head.boot, b->infos[i].id);
    }
    for (size_t i = 0; !e && i < b->n_events; i++) {
        if (b->events[i].kind <= LIFE_PROCESS_STOP && b->events[i].wall_ns < p->table.until_ns) {
            e = touch(p, &b->head.boot, b->events[i].info.id);
        }
    }
    for (size_t i = b->n_ticks; i-- > 0;) {
        if (b->wall_ns[i] < p->table.until_ns) {
            if (b->wall_ns[i] >= p->newest_ns) {
                p->newest_ns = b->wall_ns[i];
                p->boot = b->head.boot;
            }
            break;
        }
    }
    return e;
}

static bool lives(const struct ps *p, const struct query_inst *inst)
{
    const struct proc_info *info = inst->info;

    if (memcmp(p->table.boots[inst->boot].id.b, p->boot.b, sizeof p->boot.b) != 0) {
        return false;
    }
    if (info && (info->have & INFO_EXITED) &&
        (!(info->have & INFO_EXIT_TIME) || info->exit_ns < p->table.until_ns)) {
        return false;
    }
    if (info && (info->have & INFO_CREATE_TIME) && info->create_ns >= p->table.until_ns) {
        return false;
    }
    return inst->seen_ns == QUERY_NEVER || inst->seen_ns + STALE_NS >= p->newest_ns;
}

static bool ended_inside(const struct query_inst *inst, const struct query_span *s)
{
    const struct proc_info *info = inst->info;

    if (!info || !(info->have & INFO_EXITED)) {
        return false;
    }
    return !(info->have & INFO_EXIT_TIME) ||
           (info->exit_ns >= s->since_ns && info->exit_ns < s->until_ns);
}

static int by_pid(const void *a, const void *b)
{
    const struct query_inst *x = ((const struct found *)a)->inst;
    const struct query_inst *y = ((const struct found *)b)->inst;

    if (x->id.pid != y->id.pid) {
        return x->id.pid < y->id.pid ? -1 : 1;
    }
    if (x->id.start != y->id.start) {
        return x->id.start < y->id.start ? -1 : 1;
    }
    return (int)x->boot - (int)y->boot;
}

static enum err row_add(struct ps *p, struct query_span *s, const struct query_inst *inst,
                        struct wire_row *row)
{
    struct wire_answer *a = &p->q->out->data;
    int64_t *values = arena_array(&p->q->out->memory, a->n_metrics, sizeof *values);

    if (!values) {
        return ERR_FULL;
    }
    *row = (struct wire_row){.values = values, .when_ns = inst->seen_ns};
    if (inst->seen_ns == QUERY_NEVER) {
        row->when_ns = p->newest_ns;
    }
    row->info.id = inst->id;
    if (inst->info) {
        row->info = *inst->info;
    }
    for (unsigned i = 0; i < a->n_metrics; i++) {
        if (query_table_value(&p->table, inst, i, true, &values[i])) {
            row->have |= UINT64_C(1) << i;
        }
    }
    a->n_rows++;
    return query_host_index(p->q, s, &row->host);
}

/* Behind the cursor, if this is the host where the previous page ended? */
static bool already_given(const struct query *q, const struct query_span *s,
                          const struct query_inst *inst)
{
    if (!query_is_cursor_host(q, s) || !q->cursor.c) {
        return false;
    }
    return inst->id.pid != q->cursor.a ? inst->id.pid < q->cursor.a : inst->id.start <= q->cursor.b;
}

static enum err host_rows(struct ps *p, struct query_span *s, struct wire_row *rows)
{
    struct query *q = p->q;
    struct found *found = arena_array(&p->table.memory, p->table.n_insts, sizeof *found);
    size_t n = 0;
    enum err e = ERR_OK;

    if (!found) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < p->table.cap; i++) {
        const struct query_inst *inst = p->table.slots[i];

        if (inst && !inst->hidden && !already_given(q, s, inst) &&
            (lives(p, inst) || (q->ask->exited && ended_inside(inst, s)))) {
            found[n++].inst = inst;
        }
    }
    qsort(found, n, sizeof *found, by_pid);
    for (size_t i = 0; !e && i < n && !q->out->more; i++) {
        const struct query_inst *inst = found[i].inst;

        if (q->out->data.n_rows == q->limit || !query_fits(q, inst->info, 0)) {
            struct query_cursor key = {0};

            query_key_host(&key, s);
            key.c = i > 0; /* whether any of this host was given */
            key.a = i ? found[i - 1].inst->id.pid : 0;
            key.b = i ? found[i - 1].inst->id.start : 0;
            query_more(q, &key);
        } else {
            e = row_add(p, s, inst, &rows[q->out->data.n_rows]);
        }
    }
    return e;
}

enum err query_processes(struct query *q)
{
    struct ps p = {.q = q};
    struct wire_row *rows;
    enum err e = query_plan(q, ps_metrics, sizeof ps_metrics, WIRE_ROWS_MAX);

    if (e) {
        return e;
    }
    rows = arena_array(&q->out->memory, q->limit, sizeof *rows);
    if (!rows) {
        return ERR_NOMEM;
    }
    query_table_init(&p.table, q);
    for (size_t i = query_first_span(q); !e && i < q->n_spans && !q->out->more; i++) {
        struct query_span *s = &q->spans[i];
        int64_t from = clk_add(s->until_ns, -ANNOUNCE_NS);

        p.newest_ns = QUERY_NEVER;
        from = q->ask->exited && s->since_ns < from ? s->since_ns : from;
        query_table_start(&p.table, s, clk_add(s->until_ns, -RATE_NS));
        e = query_scan(q, s, from, take, &p);
        if (!e) {
            e = host_rows(&p, s, rows);
        }
    }
    q->out->data.rows = rows;
    query_table_fini(&p.table);
    return e;
}
