#include "collector/query_table.h"

#include <string.h>

#include "common/mem.h"

void query_table_init(struct query_table *t, const struct query *q)
{
    const struct wire_answer *a = &q->out->data;

    *t = (struct query_table){.q = q, .n_metrics = a->n_metrics};
    for (unsigned i = 0; i < a->n_metrics; i++) {
        t->metrics[i] = a->metrics[i] == M_CPU_PERCENT ? M_CPU_TIME : a->metrics[i];
    }
    arena_init(&t->memory, QUERY_MEMORY_MAX / 2);
}

void query_table_fini(struct query_table *t)
{
    arena_fini(&t->memory);
}

void query_table_start(struct query_table *t, const struct query_span *s, int64_t since_ns)
{
    arena_reset(&t->memory);
    t->host = s->host;
    t->since_ns = since_ns;
    t->until_ns = s->until_ns;
    t->n_insts = 0;
    t->cap = 0;
    t->slots = NULL;
    t->n_boots = 0;
    t->span_mono_ns = 0;
}

/* -- instances -- */

static size_t inst_hash(struct proc_id id, unsigned boot)
{
    uint64_t h = (id.start ^ (uint64_t)id.pid << 32 ^ boot) * UINT64_C(0x9e3779b97f4a7c15);

    return (size_t)(h ^ h >> 29);
}

static struct query_inst **slot_find(struct query_inst **slots, size_t cap, struct proc_id id,
                                     unsigned boot)
{
    size_t i = inst_hash(id, boot) & (cap - 1);

    while (slots[i] && !(proc_id_eq(slots[i]->id, id) && slots[i]->boot == boot)) {
        i = (i + 1) & (cap - 1);
    }
    return &slots[i];
}

static enum err table_grow(struct query_table *t)
{
    size_t cap = t->cap ? t->cap * 2 : 512;
    struct query_inst **slots = arena_array(&t->memory, cap, sizeof(struct query_inst *));

    if (!slots) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < t->cap; i++) {
        struct query_inst *inst = t->slots[i];

        if (inst) {
            *slot_find(slots, cap, inst->id, inst->boot) = inst;
        }
    }
    t->slots = slots;
    t->cap = cap;
    return ERR_OK;
}

static enum err boot_find(struct query_table *t, const struct uuid *id, unsigned *boot)
{
    unsigned i = 0;

    while (i < t->n_boots && memcmp(t->boots[i].id.b, id->b, sizeof id->b) != 0) {
        i++;
    }
    if (i == QUERY_BOOTS_MAX) {
        return ERR_FULL;
    }
    if (i == t->n_boots) {
        t->boots[t->n_boots++] = (struct query_boot){.id = *id, .mono_ns = QUERY_NEVER};
    }
    *boot = i;
    return ERR_OK;
}

static enum err inst_make(struct query_table *t, struct query_inst **slot, unsigned boot,
                          struct proc_id id)
{
    struct query_inst *inst = arena_alloc(&t->memory, sizeof *inst);

    if (!inst) {
        return ERR_FULL;
    }
    inst->id = id;
    inst->boot = (uint8_t)boot;
    inst->seen_ns = QUERY_NEVER;
    inst->info = store_info(t->q->env->view, t->host, &t->boots[boot].id, id);
    inst->hidden = !query_wants(t->q, id, inst->info);
    if (!inst->hidden) {
        inst->cells = arena_array(&t->memory, t->n_metrics, sizeof *inst->cells);
        if (!inst->cells) {
            return ERR_FULL;
        }
        for (unsigned i = 0; i < t->n_metrics; i++) {
            inst->cells[i].base_ns = QUERY_NEVER;
            inst->cells[i].first_ns = QUERY_NEVER;
            inst->cells[i].last_ns = QUERY_NEVER;
        }
    }
    *slot = inst;
    t->n_insts++;
    return ERR_OK;
}

static enum err inst_get(struct query_table *t, unsigned boot, struct proc_id id,
                         struct query_inst **inst)
{
    struct query_inst **slot;
    enum err e;

    if (t->n_insts * 2 >= t->cap) {
        e = table_grow(t);
        if (e) {
            return e;
        }
    }
    slot = slot_find(t->slots, t->cap, id, boot);
    if (!*slot) {
        e = inst_make(t, slot, boot, id);
        if (e) {
            return e;
        }
    }
    *inst = *slot;
    return ERR_OK;
}

enum err query_table_get(struct query_table *t, const struct uuid *boot, struct proc_id id,
                         struct query_inst **inst)
{
    unsigned i;
    enum err e = boot_find(t, boot, &i);

    return e ? e : inst_get(t, i, id, inst);
}

/* -- values -- */

static size_t tick_at(const struct batch *b, int64_t when_ns)
{
    size_t lo = 0, hi = b->n_ticks;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (b->wall_ns[mid] < when_ns) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

/* Adds the monotonic time between ticks inside the window, and to the one just before it. */
static void span_add(struct query_table *t, unsigned boot)
{
    const struct batch *b = t->batch;
    struct query_boot *at = &t->boots[boot];

    for (size_t i = 0; i < t->tick_until; i++) {
        if (i >= t->tick_since && at->mono_ns != QUERY_NEVER && b->mono_ns[i] > at->mono_ns) {
            t->span_mono_ns += b->mono_ns[i] - at->mono_ns;
        }
        if (b->mono_ns[i] > at->mono_ns) {
            at->mono_ns = b->mono_ns[i];
        }
    }
}

static void cell_add(const struct query_table *t, struct query_cell *c, const struct batch_run *run,
                     const int64_t *values)
{
    const int64_t *wall = t->batch->wall_ns;
    size_t begin = run->first_tick, end = begin + run->n_ticks;
    size_t since = t->tick_since, until = t->tick_until < end ? t->tick_until : end;

    if (begin < since) { /* the last tick before the window */
        size_t k = (since < end ? since : end) - 1;

        if (wall[k] > c->base_ns) {
            c->base_ns = wall[k];
            c->base = values[k - begin];
        }
    }
    since = since > begin ? since : begin;
    if (since >= until) {
        return;
    }
    if (c->first_ns == QUERY_NEVER || wall[since] < c->first_ns) {
        c->first_ns = wall[since];
        c->first = values[since - begin];
    }
    if (wall[until - 1] > c->last_ns) {
        c->last_ns = wall[until - 1];
        c->last = values[until - 1 - begin];
    }
}

static void run_seen(const struct query_table *t, struct query_inst *inst,
                     const struct batch_run *run)
{
    size_t begin = run->first_tick, end = begin + run->n_ticks;

    end = end < t->tick_until ? end : t->tick_until;
    if (begin < end && t->batch->wall_ns[end - 1] > inst->seen_ns) {
        inst->seen_ns = t->batch->wall_ns[end - 1];
    }
    if (run->fresh && begin >= t->tick_since && begin < t->tick_until) {
        inst->fresh = true;
    }
}

static void column_add(struct query_table *t, const struct batch_column *col,
                       struct query_inst *const *insts)
{
    const struct batch *b = t->batch;
    size_t at = 0;

    for (size_t r = 0; r < b->n_runs; r++) {
        const struct batch_run *run = &b->runs[r];

        if (!(run->mask & METRIC_BIT(col->metric))) {
            continue;
        }
        for (unsigned i = 0; i < t->n_metrics && !insts[r]->hidden; i++) {
            if (t->metrics[i] == col->metric) {
                cell_add(t, &insts[r]->cells[i], run, col->values + at);
            }
        }
        at += run->n_ticks;
    }
}

enum err query_table_add(struct query_table *t, const struct batch *b)
{
    struct query_inst **insts;
    unsigned boot;
    enum err e = boot_find(t, &b->head.boot, &boot);

    if (e) {
        return e;
    }
    insts = mem_array(b->n_runs + 1, sizeof(struct query_inst *));
    if (!insts) {
        return ERR_NOMEM;
    }
    t->batch = b;
    t->tick_since = tick_at(b, t->since_ns);
    t->tick_until = tick_at(b, t->until_ns);
    span_add(t, boot);
    for (size_t r = 0; r < b->n_runs; r++) {
        e = inst_get(t, boot, b->runs[r].id, &insts[r]);
        if (e) {
            goto out;
        }
        run_seen(t, insts[r], &b->runs[r]);
    }
    for (size_t i = 0; i < b->n_columns; i++) {
        if (memchr(t->metrics, b->columns[i].metric, t->n_metrics)) {
            column_add(t, &b->columns[i], insts);
        }
    }
out:
    t->batch = NULL;
    mem_free(insts);
    return e;
}

/* -- results -- */

bool query_cell_growth(const struct query_inst *inst, const struct query_cell *c, int64_t *growth)
{
    int64_t base = 0;

    if (c->last_ns == QUERY_NEVER) {
        return false;
    }
    if (c->base_ns != QUERY_NEVER) {
        base = c->base;
    } else if (!inst->fresh) {
        if (c->first_ns == c->last_ns) {
            return false;
        }
        base = c->first;
    }
    /* a counter never falls within one instance: whoever counted began anew */
    *growth = c->last >= base ? c->last - base : c->last;
    return true;
}

static bool percent_value(const struct query_table *t, const struct query_inst *inst,
                          const struct query_cell *c, int64_t *value)
{
    int64_t most = (int64_t)store_view_host(t->q->env->view, t->host)->cpus * 1000;
    int64_t growth;

    if (t->span_mono_ns <= 0 || !query_cell_growth(inst, c, &growth)) {
        return false;
    }
    *value = (int64_t)((double)growth * 1000.0 / (double)t->span_mono_ns + 0.5);
    if (most && *value > most) {
        *value = most;
    }
    return true;
}

bool query_table_value(const struct query_table *t, const struct query_inst *inst, unsigned i,
                       bool totals, int64_t *value)
{
    unsigned id = t->q->out->data.metrics[i];
    const struct query_cell *c = &inst->cells[i];

    if (id == M_CPU_PERCENT) {
        return percent_value(t, inst, c, value);
    }
    if (!totals && metric_by_id(id)->kind == METRIC_COUNTER) {
        return query_cell_growth(inst, c, value);
    }
    if (c->last_ns == QUERY_NEVER) {
        if (!totals || c->base_ns == QUERY_NEVER) {
            return false;
        }
        *value = c->base; /* the newest value lies before the span of growth */
        return true;
    }
    *value = c->last;
    return true;
}
