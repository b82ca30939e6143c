/* Providers: how much came of each provider from each host or, with `types`, of each kind of event
 * from all hosts together. The events are counted where they lie, so that an answer's size hangs on
 * how many providers there are and not on what they sent.
 *
 * By provider a host is read at a time, and its sums are written most events first; a page ends
 * between two hosts. By type there is one page, of the kinds that came most often; of further ones
 * the events are counted. Memory: GROUPS_MAX groups, whose types are in the answer's memory. */
#include "collector/query/query_impl.h"

#include <stdlib.h>
#include <string.h>

#include "collector/query/query_scan.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/model/event_values.h"
#include "common/os/os.h"
#include "common/wire/wire_providers.h"

#define GROUPS_MAX 65536u
#define ROW_BYTES  64u /* of a sum, its type aside */

struct provider_group {
    size_t span; /* of the newest event */
    size_t seen; /* the span that was counted last, plus 1 */
    struct wire_provider_sum sum;
};

struct providers {
    struct query *q;
    size_t span;
    uint64_t seed;
    struct map by_key;
    size_t n, cap;
    struct provider_group *list; /* grows */
    struct wire_providers out;
    struct wire_provider_sum *rows;
};

/* -- groups -- */

static bool provider_is(const struct providers *x, const struct event_type *a,
                        const struct event_type *b)
{
    return x->q->ask->types ? event_values_same_type(a, b)
                            : memcmp(a->guid, b->guid, sizeof a->guid) == 0;
}

static uint64_t provider_key(const struct providers *x, const struct event_type *t)
{
    uint64_t key = hash_bytes(t->guid, sizeof t->guid, x->seed);

    if (x->q->ask->types) {
        const uint32_t id[] = {t->id, t->version, t->opcode, t->level};

        key = hash_bytes(id, sizeof id, key);
        key = hash_bytes(t->name.p, t->name.n, key);
        key = hash_bytes(t->task.p, t->task.n, key);
    }
    return key;
}

/* What the answer says of a type, in its memory; NULL: there is no room. */
static const struct event_type *provider_type(const struct providers *x, const struct event_type *t)
{
    struct event_type bare = {.provider = t->provider};
    void *room;

    memcpy(bare.guid, t->guid, sizeof bare.guid);
    t = x->q->ask->types ? t : &bare;
    room = arena_alloc(&x->q->out->memory, event_values_type_bytes(t));
    return room ? event_values_copy_type(room, t) : NULL;
}

/* The type's group; ERR_END: there are too many. */
static enum err provider_group(struct providers *x, const struct event_type *t,
                               struct provider_group **out)
{
    uint64_t place, key = provider_key(x, t);
    enum err e;

    for (; (place = map_get(&x->by_key, key)) != 0; key++) {
        *out = &x->list[place - 1];
        if (provider_is(x, (*out)->sum.type, t)) {
            return ERR_OK;
        }
    }
    if (x->n == GROUPS_MAX) {
        return ERR_END;
    }
    e = map_reserve(&x->by_key);
    e = e ? e : VEC_ROOM(&x->list, &x->cap, x->n + 1, GROUPS_MAX);
    if (e) {
        return e;
    }
    *out = &x->list[x->n];
    **out = (struct provider_group){.sum = {.type = provider_type(x, t), .first_ns = INT64_MAX}};
    (*out)->sum.last_ns = INT64_MIN;
    if (!(*out)->sum.type) {
        return ERR_FULL;
    }
    map_put(&x->by_key, key, ++x->n);
    return ERR_OK;
}

static enum err provider_count(struct providers *x, const struct life_event *ev)
{
    struct provider_group *g;
    enum err e = provider_group(x, ev->type, &g);

    if (e) {
        x->out.left_out += e == ERR_END;
        return e == ERR_END ? ERR_OK : e;
    }
    g->sum.events++;
    g->sum.value_bytes += ev->values.n;
    g->sum.redacted += (ev->value_flags & LIFE_VALUES_REDACTED) != 0;
    g->sum.cut += (ev->value_flags & LIFE_VALUES_CUT) != 0;
    g->sum.hosts += g->seen != x->span + 1;
    g->seen = x->span + 1;
    g->sum.first_ns = ev->wall_ns < g->sum.first_ns ? ev->wall_ns : g->sum.first_ns;
    if (ev->wall_ns >= g->sum.last_ns) {
        g->sum.last_ns = ev->wall_ns;
        g->span = x->span;
    }
    return ERR_OK;
}

static enum err providers_block(void *ctx, const struct store_block *block)
{
    struct providers *x = ctx;
    const struct query_span *s = &x->q->spans[x->span];
    const struct wire_events *ask = &x->q->ask->events;
    enum err e = ERR_OK;

    for (size_t i = 0; !e && i < block->batch->n_events; i++) {
        const struct life_event *ev = &block->batch->events[i];

        if (ev->kind == LIFE_PROVIDER && ev->type && ev->wall_ns >= s->since_ns &&
            ev->wall_ns < s->until_ns && event_values_is(ev->type, ask->provider, ask->event)) {
            e = provider_count(x, ev);
        }
    }
    return e;
}

static enum err providers_host(struct providers *x)
{
    const struct query_span *s = &x->q->spans[x->span];
    const struct store_range range = {.since_ns = s->since_ns,
                                      .until_ns = s->until_ns,
                                      .no_rests = true,
                                      .providers = true,
                                      .made_since_ns = INT64_MIN};

    return query_scan_blocks(x->q, s, &range, providers_block, x);
}

/* -- rows -- */

static int providers_by_count(const void *a, const void *b)
{
    const struct wire_provider_sum *x = &((const struct provider_group *)a)->sum;
    const struct wire_provider_sum *y = &((const struct provider_group *)b)->sum;
    int d = (x->events < y->events) - (x->events > y->events);

    d = d ? d : memcmp(x->type->guid, y->type->guid, sizeof x->type->guid);
    d = d ? d : (int)x->type->id - (int)y->type->id;
    return d ? d : (int)x->type->version - (int)y->type->version;
}

/* Adds the groups to the rows as far as there is room. *all: they were. */
static enum err providers_rows(struct providers *x, bool *all)
{
    enum err e = ERR_OK;
    size_t i = 0;

    if (x->n) {
        qsort(x->list, x->n, sizeof *x->list, providers_by_count);
    }
    for (; !e && i < x->n && x->out.n < x->q->limit; i++) {
        struct provider_group *g = &x->list[i];

        if (!query_fits(x->q, NULL, ROW_BYTES + event_values_type_bytes(g->sum.type))) {
            break;
        }
        e = query_host_index(x->q, &x->q->spans[g->span], &g->sum.host);
        x->rows[x->out.n++] = g->sum;
    }
    *all = i == x->n;
    for (; !e && i < x->n; i++) {
        x->out.left_out += x->list[i].sum.events;
    }
    return e;
}

/* Host by host; a page begins with whole hosts, and ends in front of the first that has no room. */
static enum err providers_by_host(struct providers *x)
{
    struct query *q = x->q;
    size_t first = query_first_span(q);
    enum err e = ERR_OK;

    for (x->span = first; !e && x->span < q->n_spans; x->span++) {
        const struct wire_providers before = x->out;
        struct query_cursor key = {0};
        bool all = false;

        if (query_is_cursor_host(q, &q->spans[x->span])) {
            continue;
        }
        x->n = 0;
        map_clear(&x->by_key);
        e = providers_host(x);
        e = e ? e : providers_rows(x, &all);
        if (!e && !all && before.n > 0) {
            x->out.n = before.n;
            x->out.left_out = before.left_out;
            query_key_host(&key, &q->spans[x->span - 1]);
            query_more(q, &key);
            break;
        }
    }
    return e;
}

static enum err providers_by_type(struct providers *x)
{
    enum err e = ERR_OK;
    bool all = false;

    for (x->span = 0; !e && x->span < x->q->n_spans; x->span++) {
        e = providers_host(x);
    }
    return e ? e : providers_rows(x, &all);
}

enum err query_providers(struct query *q)
{
    struct providers x = {.q = q};
    struct wire_providers *out;
    enum err e = query_plan(q, NULL, 0, WIRE_ROWS_MAX);

    if (e) {
        return e;
    }
    if (os_random(&x.seed, sizeof x.seed)) {
        x.seed = (uint64_t)q->env->now_ns;
    }
    x.rows = arena_array(&q->out->memory, q->limit, sizeof *x.rows);
    out = arena_alloc(&q->out->memory, sizeof *out);
    e = x.rows && out ? ERR_OK : ERR_NOMEM;
    if (!e) {
        e = q->ask->types ? providers_by_type(&x) : providers_by_host(&x);
    }
    if (!e) {
        x.out.list = x.rows;
        *out = x.out;
        q->out->data.providers = out;
    }
    map_fini(&x.by_key);
    mem_free(x.list);
    return e;
}
