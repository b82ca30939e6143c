/* Processes: the newest row of every instance that lives at the end of the window, in the order of
 * hosts and pids; `exited` adds those that ended inside the window.
 *
 * A process lives when nothing says that it ended, it belongs to the newest boot, and its newest
 * row is not much older than the host's newest data: an agent that was away for a while cannot tell
 * how a process it knew has ended. Processes that never had a row (a trace that only names them)
 * are taken at their word. */
#include "collector/query/query_plan.h"

#include <stdlib.h>

#include "collector/query/query_alive.h"

static const uint8_t ps_metrics[] = {M_CPU_TIME, M_CPU_PERCENT, M_WORKING_SET_SIZE, M_THREAD_COUNT,
                                     M_HANDLE_COUNT};

struct found {
    const struct query_inst *inst;
};

struct ps {
    struct query *q;
    struct query_table table;
};

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
        row->when_ns = p->table.newest_ns != QUERY_NEVER ? p->table.newest_ns : s->about->last_ns;
    }
    row->info.id = inst->id;
    if (inst->info) {
        row->info = *inst->info;
    }
    for (unsigned i = 0; i < a->n_metrics; i++) {
        if (query_table_total(&p->table, inst, i, &values[i])) {
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
            (query_inst_lives(&p->table, inst) || (q->ask->exited && query_alive_ended(inst, s)))) {
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

        e = query_alive_fill(&p.table, s, q->ask->exited);
        if (!e) {
            e = host_rows(&p, s, rows);
        }
    }
    q->out->data.rows = rows;
    query_table_fini(&p.table);
    return e;
}
