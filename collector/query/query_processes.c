/* Processes: the newest row of every instance that lives at the end of the window, in the order of
 * hosts and pids; `exited` adds those that ended inside the window. Tree finds its processes here
 * too (query_processes.h). */
#include "collector/query/query_processes.h"

#include <stdlib.h>
#include <string.h>

#include "collector/query/query_impl.h"
#include "collector/query/query_scan.h"
#include "collector/query/query_where.h"
#include "common/base/clk.h"

#define RATE_NS     (10 * CLK_S)      /* cpu_percent is that of the last 10 s */
#define ANNOUNCE_NS (330 * CLK_S)     /* every instance is announced anew each 300 s */
#define VALUED_MAX  ((size_t)4 << 20) /* memory up to which values are read with who is there */
#define ASK_AT_ONCE 64u               /* what is known of so many is looked for together */

void query_processes_init(struct query_living_list *a, struct query *q)
{
    *a = (struct query_living_list){.q = q};
    query_table_init(&a->table, q);
    arena_init(&a->memory, QUERY_MEMORY_MAX / 4);
}

void query_processes_fini(struct query_living_list *a)
{
    query_table_fini(&a->table);
    arena_fini(&a->memory);
}

/* -- the list -- */

static int living_by_key(const void *x, const void *y)
{
    return query_table_key_order(&((const struct query_living *)x)->key,
                                 &((const struct query_living *)y)->key);
}

/* In order, each once, and no more than are wanted. */
static void living_settle(struct query_living_list *a)
{
    size_t n = 0;

    if (a->n) {
        qsort(a->list, a->n, sizeof *a->list, living_by_key);
    }
    for (size_t i = 0; i < a->n && n <= a->ask->limit; i++) {
        if (n == 0 || living_by_key(&a->list[n - 1], &a->list[i]) != 0) {
            a->list[n++] = a->list[i];
        }
    }
    a->n = n;
}

static enum err living_add(struct query_living_list *a, const struct query_living *x)
{
    if (a->n == a->cap && a->cap / 2 > a->ask->limit) {
        living_settle(a);
    }
    if (a->n == a->cap) {
        size_t cap = a->cap ? a->cap * 2 : 256;
        struct query_living *more = arena_array(&a->memory, cap, sizeof *more);

        if (!more) {
            return ERR_FULL;
        }
        if (a->n) {
            memcpy(more, a->list, a->n * sizeof *more);
        }
        a->list = more;
        a->cap = cap;
    }
    a->list[a->n++] = *x;
    return ERR_OK;
}

/* Behind the one after which is asked, and chosen as far as that is asked. */
static bool living_is_wanted(const struct query_living_list *a, struct proc_id id,
                             const struct proc_info *info)
{
    const struct query_living_ask *ask = a->ask;
    bool behind = !ask->has_after || (id.pid != ask->after.pid ? id.pid > ask->after.pid
                                                               : id.start > ask->after.start);

    return behind && (!ask->chosen || query_wants(a->q, id, info));
}

/* -- who was there -- */

static enum err announced_add(struct query_table *t, const struct uuid *boot, struct proc_id id)
{
    struct query_inst *inst;

    return query_table_get(t, boot, id, &inst);
}

struct announced {
    struct query_table *table;
    int64_t since_ns;
};

/* What a batch names that began earlier may have ended before, and what one names that goes on
 * behind the window may have begun there: it has rows if it has not. */
static enum err announced_block(void *ctx, const struct store_block *block)
{
    const struct announced *x = ctx;
    const struct batch *b = block->batch;
    struct query_table *t = x->table;
    bool inside =
        !b->n_ticks || (b->wall_ns[0] >= x->since_ns && b->wall_ns[b->n_ticks - 1] < t->until_ns);
    enum err e = ERR_OK;

    for (size_t i = 0; !e && inside && i < b->n_infos; i++) {
        e = announced_add(t, &b->head.boot, b->infos[i].id);
    }
    for (size_t i = 0; !e && i < b->n_events; i++) {
        const struct life_event *ev = &b->events[i];
        struct query_inst *inst;

        if (ev->kind <= LIFE_PROCESS_STOP && ev->wall_ns >= x->since_ns &&
            ev->wall_ns < t->until_ns) {
            e = query_table_get(t, &b->head.boot, ev->info.id, &inst);
            if (!e && ev->kind == LIFE_PROCESS_STOP) {
                inst->ended = true;
            }
        }
    }
    return e;
}

static enum err announced_any(void *ctx, const struct uuid *boot, const struct proc_info *info)
{
    return announced_add(ctx, boot, info->id);
}

/* n_metrics: 0, or values too */
static enum err living_fill_within(struct query_living_list *a, uint8_t n_metrics, size_t max_bytes)
{
    const struct query_span *s = a->s;
    const struct query_reach reach = {.since_ns = clk_add(s->until_ns, -RATE_NS),
                                      .before_ns = ANNOUNCE_NS - RATE_NS};
    const struct store_range range = {.since_ns = clk_add(s->until_ns, -ANNOUNCE_NS),
                                      .until_ns = s->until_ns,
                                      .made_since_ns = INT64_MIN};
    const struct store_instances all = {.since_ns = clk_sub(s->until_ns, 1),
                                        .until_ns = s->until_ns};
    struct query_table *t = &a->table;
    enum err e;

    arena_fini(&t->memory);
    arena_init(&t->memory, max_bytes);
    t->n_metrics = n_metrics;
    t->presence = true;
    t->n_only = 0;
    t->infos = false;
    t->nameless = a->ask->chosen;
    t->all = !a->ask->chosen;
    memcpy(a->counted, a->q->used.windows, sizeof a->counted);
    e = query_table_fill(t, s, &reach);
    for (unsigned i = 0; i < STORE_TIERS; i++) {
        a->counted[i] = a->q->used.windows[i] - a->counted[i];
    }
    e = e ? e
          : query_scan_blocks(a->q, s, &range, announced_block,
                              &(struct announced){t, range.since_ns});
    if (!e && t->newest_ns == QUERY_NEVER) { /* nothing is sampled: all that is known of lives */
        e = store_info_each(a->q->env->view, s->host, &all, announced_any, t);
    }
    t->memory.max_bytes = QUERY_MEMORY_MAX / 2;
    return e;
}

/* Of those that ended the values lie further back. */
static enum err living_fill(struct query_living_list *a)
{
    const struct store_used used = a->q->used;
    enum err e = ERR_FULL;

    a->valued = !a->ask->ended;
    if (a->valued) {
        e = living_fill_within(a, a->q->out->data.n_metrics, VALUED_MAX);
    }
    if (e == ERR_FULL) {
        memcpy(a->q->used.windows, used.windows, sizeof used.windows);
        a->valued = false;
        e = living_fill_within(a, 0, QUERY_MEMORY_MAX / 2);
    }
    return e;
}

/* -- who of them lives -- */

struct candidate {
    struct proc_key key;
    struct query_inst *inst;
};

static int candidate_by_key(const void *x, const void *y)
{
    return query_table_key_order(x, y);
}

/* Those that live as far as can be told without knowing anything of them, in order. */
static enum err candidates_list(struct query_living_list *a, struct candidate **out, size_t *n)
{
    struct query_table *t = &a->table;
    struct candidate *list = arena_array(&t->memory, t->n_insts, sizeof *list);

    *n = 0;
    for (size_t i = 0; list && i < t->cap; i++) {
        struct query_inst *inst = t->slots[i];

        if (inst && !inst->hidden && !inst->ended && query_table_lives(t, inst)) {
            list[(*n)++] = (struct candidate){{inst->id, t->boots[inst->boot]}, inst};
        }
    }
    if (*n) {
        qsort(list, *n, sizeof *list, candidate_by_key);
    }
    *out = list;
    return list ? ERR_OK : ERR_FULL;
}

/* Adds the candidate if it lives by what is known of it. */
static enum err candidate_judge(struct query_living_list *a, const struct candidate *c)
{
    struct query_living x = {.key = c->key, .seen_ns = c->inst->seen_ns};
    struct query_inst inst = *c->inst;
    struct proc_info known;

    if (store_info(a->q->env->view, a->s->host, &c->key.boot, c->key.id, &known)) {
        inst.info = &known;
    }
    if (!query_table_lives(&a->table, &inst) || !living_is_wanted(a, c->key.id, inst.info)) {
        return ERR_OK;
    }
    if (inst.info) {
        x.info = arena_dup(&a->memory, &known, sizeof known);
    }
    return inst.info && !x.info ? ERR_FULL : living_add(a, &x);
}

static enum err living_find(struct query_living_list *a)
{
    struct candidate *list;
    size_t n;
    enum err e = candidates_list(a, &list, &n);

    for (size_t i = 0; i < n && !e && a->n <= a->ask->limit; i++) {
        if (i % ASK_AT_ONCE == 0) {
            struct proc_key keys[ASK_AT_ONCE];
            size_t k = 0;

            for (; k < ASK_AT_ONCE && i + k < n; k++) {
                keys[k] = list[i + k].key;
            }
            store_info_want(a->q->env->view, a->s->host, keys, k);
        }
        e = candidate_judge(a, &list[i]);
    }
    return e;
}

/* -- who ended -- */

static enum err ended_add(void *ctx, const struct uuid *boot, const struct proc_info *info)
{
    struct query_living_list *a = ctx;
    struct query_living x = {.key = {info->id, *boot}, .ended = true, .seen_ns = QUERY_NEVER};
    bool inside = !(info->have & INFO_EXIT_TIME) ||
                  (info->exit_ns >= a->s->since_ns && info->exit_ns < a->s->until_ns);

    return (info->have & INFO_EXITED) && inside && living_is_wanted(a, info->id, info)
               ? living_add(a, &x)
               : ERR_OK;
}

/* What is known of them, once it is settled who they are. */
static enum err ended_infos(struct query_living_list *a)
{
    for (size_t i = 0; i < a->n; i++) {
        struct query_living *x = &a->list[i];
        struct proc_info known;

        if (i % ASK_AT_ONCE == 0) {
            struct proc_key keys[ASK_AT_ONCE];
            size_t k = 0;

            for (; k < ASK_AT_ONCE && i + k < a->n; k++) {
                keys[k] = a->list[i + k].key;
            }
            store_info_want(a->q->env->view, a->s->host, keys, k);
        }
        if (x->ended && store_info(a->q->env->view, a->s->host, &x->key.boot, x->key.id, &known)) {
            x->info = arena_dup(&a->memory, &known, sizeof known);
            if (!x->info) {
                return ERR_FULL;
            }
        }
    }
    return ERR_OK;
}

enum err query_processes_find(struct query_living_list *a, const struct query_span *s,
                              const struct query_living_ask *ask)
{
    const struct store_instances span = {.since_ns = s->since_ns, .until_ns = s->until_ns};
    enum err e;

    arena_reset(&a->memory);
    a->list = NULL;
    a->n = a->cap = 0;
    a->s = s;
    a->ask = ask;
    e = living_fill(a);
    e = e ? e : living_find(a);
    if (!e && ask->ended) {
        e = store_info_each(a->q->env->view, s->host, &span, ended_add, a);
    }
    if (!e) {
        living_settle(a);
        e = ask->ended ? ended_infos(a) : ERR_OK;
    }
    return e;
}

/* -- their values -- */

static size_t living_shown(const struct query_living_list *a, struct proc_key *only,
                           int64_t *from_ns)
{
    size_t n = 0;

    for (size_t i = 0; i < a->n; i++) {
        if (a->list[i].shown) {
            only[n++] = a->list[i].key;
            *from_ns = a->list[i].ended && a->s->since_ns < *from_ns ? a->s->since_ns : *from_ns;
        }
    }
    return n;
}

static enum err living_read_shown(struct query_living_list *a, const struct proc_key *only,
                                  size_t n, int64_t from_ns)
{
    struct query_reach reach = {.since_ns = clk_add(a->s->until_ns, -RATE_NS)};
    struct query_table *t = &a->table;

    reach.before_ns = clk_sub(reach.since_ns, from_ns);
    t->only = only;
    t->n_only = n;
    t->n_metrics = a->q->out->data.n_metrics;
    t->presence = false;
    t->infos = true;
    for (unsigned i = 0; i < STORE_TIERS; i++) {
        a->q->used.windows[i] -= a->counted[i]; /* the same windows again: told once */
    }
    return query_table_fill(t, a->s, &reach);
}

enum err query_processes_read(struct query_living_list *a)
{
    struct proc_key *only = arena_array(&a->memory, a->n, sizeof *only);
    int64_t from_ns = clk_add(a->s->until_ns, -ANNOUNCE_NS);
    enum err e = ERR_OK;
    size_t n;

    if (!only) {
        return ERR_FULL;
    }
    n = living_shown(a, only, &from_ns);
    if (n && !a->valued) {
        e = living_read_shown(a, only, n, from_ns);
    }
    for (size_t i = 0; i < a->n && !e; i++) {
        struct query_living *x = &a->list[i];
        struct query_inst *inst;

        if (x->shown) {
            e = query_table_get(&a->table, &x->key.boot, x->key.id, &inst);
            x->inst = inst;
        }
    }
    return e;
}

static bool living_value(const struct query_where_row *row, unsigned i, int64_t *v)
{
    return query_table_total(row->of, row->at, i, v);
}

bool query_processes_fits(const struct query_living_list *a, const struct query_living *x)
{
    const struct query_where_row row = {.span = a->s,
                                        .info = x->info || !x->inst ? x->info : x->inst->info,
                                        .id = &x->key.id,
                                        .value = living_value,
                                        .of = &a->table,
                                        .at = x->inst};

    return !a->q->where || query_where_fits(a->q, &row);
}

enum err query_processes_row(struct query_living_list *a, const struct query_living *x,
                             struct query_span *s, struct wire_row *rows, uint32_t depth)
{
    struct wire_answer *out = &a->q->out->data;
    const struct query_inst *inst = x->inst;
    struct wire_row *row = &rows[out->n_rows];
    const struct proc_info *info = x->info ? x->info : inst->info;
    int64_t *values;

    if (!x->ended && x->seen_ns == QUERY_NEVER && !query_table_lives(&a->table, inst)) {
        return ERR_OK;
    }
    values = arena_array(&a->q->out->memory, out->n_metrics, sizeof *values);
    if (!values) {
        return ERR_FULL;
    }
    *row = (struct wire_row){.values = values, .depth = depth, .when_ns = x->seen_ns};
    row->when_ns = inst->seen_ns > row->when_ns ? inst->seen_ns : row->when_ns;
    if (row->when_ns == QUERY_NEVER) {
        row->when_ns = a->table.newest_ns != QUERY_NEVER ? a->table.newest_ns : s->about->last_ns;
    }
    row->info.id = x->key.id;
    if (info) {
        row->info = *info;
    }
    for (unsigned i = 0; i < out->n_metrics; i++) {
        if (query_table_total(&a->table, inst, i, &values[i])) {
            row->have |= UINT64_C(1) << i;
        }
    }
    out->n_rows++;
    return query_host_index(a->q, s, &row->host);
}

/* -- the question -- */

static const uint8_t ps_metrics[] = {M_CPU_TIME, M_CPU_PERCENT, M_WORKING_SET_SIZE, M_THREAD_COUNT,
                                     M_HANDLE_COUNT};

/* Reads the values of all, and keeps those that the filter fits. */
static enum err processes_judge(struct query_living_list *a)
{
    size_t n = 0;
    enum err e;

    for (size_t i = 0; i < a->n; i++) {
        a->list[i].shown = true;
    }
    e = query_processes_read(a);
    for (size_t i = 0; !e && i < a->n; i++) {
        a->list[i].shown = false;
        if (query_processes_fits(a, &a->list[i])) {
            a->list[n++] = a->list[i];
        }
    }
    a->n = n;
    return e;
}

static enum err processes_host(struct query_living_list *a, struct query_span *s,
                               struct wire_row *rows)
{
    struct query *q = a->q;
    const struct query_living_ask ask = {.ended = q->ask->exited,
                                         .chosen = true,
                                         .limit =
                                             q->where ? SIZE_MAX : q->limit - q->out->data.n_rows,
                                         .has_after = query_is_cursor_host(q, s) && q->cursor.c,
                                         .after = {(uint32_t)q->cursor.a, q->cursor.b}};
    enum err e = query_processes_find(a, s, &ask);

    if (!e && q->where) {
        e = processes_judge(a);
    }
    for (size_t n = 0; !e && n < a->n && !q->out->more; n++) {
        if (n == q->limit - q->out->data.n_rows || !query_fits(q, a->list[n].info, 0)) {
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
    e = e || q->where ? e : query_processes_read(a);
    for (size_t i = 0; !e && i < a->n; i++) {
        e = a->list[i].shown ? query_processes_row(a, &a->list[i], s, rows, 0) : ERR_OK;
    }
    return e;
}

enum err query_processes(struct query *q)
{
    struct query_living_list a;
    struct wire_row *rows;
    enum err e = query_plan(q, ps_metrics, sizeof ps_metrics, WIRE_ROWS_MAX);

    if (e) {
        return e;
    }
    rows = arena_array(&q->out->memory, q->limit, sizeof *rows);
    if (!rows) {
        return ERR_NOMEM;
    }
    query_processes_init(&a, q);
    for (size_t i = query_first_span(q); !e && i < q->n_spans && !q->out->more; i++) {
        e = processes_host(&a, &q->spans[i], rows);
    }
    q->out->data.rows = rows;
    query_processes_fini(&a);
    return e;
}
