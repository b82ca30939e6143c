/* Processes: the newest row of every instance that lives at the end of the window, in the order of
 * hosts and pids; `exited` adds those that ended inside the window. */
#include "collector/query/query_plan.h"

#include "collector/query/query_alive.h"

static const uint8_t ps_metrics[] = {M_CPU_TIME, M_CPU_PERCENT, M_WORKING_SET_SIZE, M_THREAD_COUNT,
                                     M_HANDLE_COUNT};

static enum err host_rows(struct query_alive *a, struct query_span *s, struct wire_row *rows)
{
    struct query *q = a->q;
    const struct query_alive_ask ask = {.ended = q->ask->exited,
                                        .chosen = true,
                                        .limit = q->limit - q->out->data.n_rows,
                                        .has_after = query_is_cursor_host(q, s) && q->cursor.c,
                                        .after = {(uint32_t)q->cursor.a, q->cursor.b}};
    size_t n = 0;
    enum err e = query_alive_find(a, s, &ask);

    for (; !e && n < a->n && !q->out->more; n++) {
        if (n == ask.limit || !query_fits(q, a->list[n].info, 0)) {
            struct query_cursor key = {0};

            query_key_host(&key, s);
            key.c = n > 0; /* whether any of this host was given */
            key.a = n ? a->list[n - 1].key.id.pid : 0;
            key.b = n ? a->list[n - 1].key.id.start : 0;
            query_more(q, &key);
        } else {
            a->list[n].shown = true;
        }
    }
    e = e ? e : query_alive_read(a);
    for (size_t i = 0; !e && i < n; i++) {
        e = a->list[i].shown ? query_alive_row(a, &a->list[i], s, rows, 0) : ERR_OK;
    }
    return e;
}

enum err query_processes(struct query *q)
{
    struct query_alive a;
    struct wire_row *rows;
    enum err e = query_plan(q, ps_metrics, sizeof ps_metrics, WIRE_ROWS_MAX);

    if (e) {
        return e;
    }
    rows = arena_array(&q->out->memory, q->limit, sizeof *rows);
    if (!rows) {
        return ERR_NOMEM;
    }
    query_alive_init(&a, q);
    for (size_t i = query_first_span(q); !e && i < q->n_spans && !q->out->more; i++) {
        e = host_rows(&a, &q->spans[i], rows);
    }
    q->out->data.rows = rows;
    query_alive_fini(&a);
    return e;
}
