/* Boots: when the systems of hosts started, and how each ended as far as can be told. What is asked
 * is the book of boots (query_env.boots), not the samples: it reaches further back than they do.
 *
 * An agent says good-bye when it stops, so a boot whose last word that is ended in order, or the
 * agent alone was stopped and did not come again. Without one the agent was killed, the system
 * stopped at once or lost its power: nothing that agents send tells which. */
#include "collector/query/query_impl.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/wire/wire_boots.h"

#define DEFAULT_LIMIT 1000u

struct boots {
    struct query *q;
    struct query_span *s;
    size_t n, cap;
    struct wire_boot *list;
    size_t first; /* of the span's host */
};

static enum err boots_take(void *to, const struct query_boot *b)
{
    struct boots *x = to;
    enum err e = VEC_ROOM(&x->list, &x->cap, x->n + 1, WIRE_BOOTS_MAX + 1);

    if (e == ERR_FULL) {
        return ERR_END; /* the limit is far below */
    }
    if (!e) {
        x->list[x->n++] = (struct wire_boot){.boot = b->boot,
                                             .booted_ns = b->booted_ns,
                                             .first_ns = b->first_ns,
                                             .last_ns = b->last_ns,
                                             .end = b->good_bye ? WIRE_BOOT_CLEAN : WIRE_BOOT_CUT};
    }
    return e;
}

/* The newest boot is not over while the host is connected. */
static void newest_judge(struct boots *x)
{
    const struct store_host *h = x->s->about;
    const struct query_host_state state = query_host_state_of(x->q, h);

    for (size_t i = x->first; i < x->n; i++) {
        struct wire_boot *b = &x->list[i];

        if (memcmp(b->boot.b, h->boot.b, sizeof h->boot.b) != 0) {
            continue;
        }
        b->last_ns = h->last_ns > b->last_ns ? h->last_ns : b->last_ns;
        if (state.connected) {
            b->end = WIRE_BOOT_GOES_ON;
        } else if (b->end == WIRE_BOOT_CUT) {
            b->end = WIRE_BOOT_SILENT;
        }
    }
}

static enum err boots_host(struct boots *x)
{
    uint32_t host = 0;
    enum err e =
        x->q->env->boots(x->q->env->ctx, &x->s->about->id, x->q->ask->since_ns,
                         x->q->ask->until_ns ? x->q->ask->until_ns : INT64_MAX, boots_take, x);

    if (e || x->n == x->first) {
        return e;
    }
    newest_judge(x);
    x->s->since_ns = x->q->ask->since_ns ? x->q->ask->since_ns : x->list[x->first].first_ns;
    e = query_host_index(x->q, x->s, &host);
    for (size_t i = x->first; i < x->n; i++) {
        x->list[i].host = host;
    }
    return e;
}

enum err query_boots(struct query *q)
{
    static const uint8_t none[1] = {M_CPU_TIME};
    struct boots x = {.q = q};
    struct wire_boots *out;
    enum err e = query_plan(q, none, 1, DEFAULT_LIMIT);

    q->out->data.n_metrics = 0;
    for (size_t i = 0; !e && i < q->n_spans && q->env->boots && x.n <= q->limit; i++) {
        x.s = &q->spans[i];
        x.first = x.n;
        e = boots_host(&x);
    }
    out = e ? NULL : arena_alloc(&q->out->memory, sizeof *out);
    if (!e && out) {
        out->n = x.n < q->limit ? x.n : q->limit;
        out->list = arena_dup(&q->out->memory, x.list, out->n * sizeof *x.list);
        e = out->list || !out->n ? ERR_OK : ERR_FULL;
        q->out->data.boots = out;
    }
    q->boots_cut = x.n > q->limit;
    mem_free(x.list);
    return e || out ? e : ERR_FULL;
}
