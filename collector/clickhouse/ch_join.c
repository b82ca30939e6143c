#include "collector/clickhouse/ch_join.h"

#include <stdlib.h>
#include <string.h>

#include "collector/store/memtable/head_info.h"
#include "common/base/arena.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/search.h"

#define HOSTS_MAX ((size_t)1 << 30) /* bytes */
#define EACH_MAX  ((size_t)256 << 20)
#define NOWHERE   SIZE_MAX

/* Where a host is in either view. */
struct joined_host {
    size_t local, far; /* NOWHERE */
    int64_t cut_ns;    /* what is older is far */
};

struct ch_join {
    const struct view_ops *ops;     /* first, as in every view */
    struct store_view *local, *far; /* far: NULL: it does not answer */
    struct arena memory;
    size_t n;
    struct store_host *hosts; /* by name, then id */
    struct joined_host *places;
};

static const struct ch_join *join_of(const struct store_view *v)
{
    return (const struct ch_join *)(const void *)v;
}

/* -- hosts -- */

struct listed {
    const struct store_host *host;
    size_t at;
};

static int by_id(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;

    return memcmp(x->host->id.b, y->host->id.b, sizeof x->host->id.b);
}

static int by_name(const struct store_host *x, const char *name, const struct uuid *id)
{
    int d = strcmp(x->name, name);

    return d ? d : memcmp(x->id.b, id->b, sizeof id->b);
}

static struct listed *list_by_id(struct arena *memory, const struct store_view *v, size_t n)
{
    struct listed *list = arena_array(memory, n + 1, sizeof *list);

    for (size_t i = 0; list && i < n; i++) {
        list[i] = (struct listed){store_view_host(v, i), i};
    }
    if (list && n) {
        qsort(list, n, sizeof *list, by_id);
    }
    return list;
}

/* What both know of a host: the newest is here, the oldest there. */
static struct store_host host_join(const struct store_host *local, const struct store_host *far)
{
    struct store_host h = local ? *local : *far;

    if (local && far) {
        h.first_ns = far->first_ns < h.first_ns ? far->first_ns : h.first_ns;
        h.batches = far->batches > h.batches ? far->batches : h.batches;
        h.held = far->held > h.held ? far->held : h.held;
        h.lost_events = far->lost_events > h.lost_events ? far->lost_events : h.lost_events;
    }
    return h;
}

struct pair {
    struct store_host host;
    struct joined_host place;
};

static int by_pair(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;

    return by_name(&x->host, y->host.name, &y->host.id);
}

static enum err hosts_join(struct ch_join *v)
{
    size_t n_local = store_view_hosts(v->local), n_far = v->far ? store_view_hosts(v->far) : 0;
    struct listed *local = list_by_id(&v->memory, v->local, n_local);
    struct listed *far = list_by_id(&v->memory, v->far, n_far);
    struct pair *pairs = arena_array(&v->memory, n_local + n_far + 1, sizeof *pairs);
    size_t i = 0, k = 0;

    v->hosts = arena_array(&v->memory, n_local + n_far + 1, sizeof *v->hosts);
    v->places = arena_array(&v->memory, n_local + n_far + 1, sizeof *v->places);
    if (!local || !far || !pairs || !v->hosts || !v->places) {
        return arena_refused(&v->memory, (n_local + n_far) * sizeof *pairs);
    }
    while (i < n_local || k < n_far) {
        int d = i == n_local ? 1 : k == n_far ? -1 : by_id(&local[i], &far[k]);
        const struct listed *l = d <= 0 ? &local[i++] : NULL, *f = d >= 0 ? &far[k++] : NULL;

        pairs[v->n++] = (struct pair){
            .host = host_join(l ? l->host : NULL, f ? f->host : NULL),
            .place = {l ? l->at : NOWHERE, f ? f->at : NOWHERE, l ? l->host->first_ns : INT64_MAX},
        };
    }
    if (v->n) {
        qsort(pairs, v->n, sizeof *pairs, by_pair);
    }
    for (i = 0; i < v->n; i++) {
        v->hosts[i] = pairs[i].host;
        v->places[i] = pairs[i].place;
    }
    return ERR_OK;
}

static void joined_close(struct store_view *view)
{
    struct ch_join *v = (struct ch_join *)(void *)view;

    store_view_close(v->local);
    store_view_close(v->far);
    arena_fini(&v->memory);
    mem_free(v);
}

static size_t joined_hosts(const struct store_view *v)
{
    return join_of(v)->n;
}

static const struct store_host *joined_host(const struct store_view *v, size_t i)
{
    return &join_of(v)->hosts[i];
}

static size_t joined_find(const struct store_view *view, const char *name, const struct uuid *id)
{
    const struct ch_join *v = join_of(view);
    size_t i;

    SEARCH_LOWER(i, v->n, by_name(&v->hosts[i], name, id) < 0);
    return i < v->n && by_name(&v->hosts[i], name, id) == 0 ? i : v->n;
}

/* -- parts -- */

/* Of [since, until) what is older than the cut is [since, *mid). Where rows are gone here and were
 * not yet when the view was opened, the far view has them, too. */
static enum err cut_find(const struct ch_join *v, size_t host, int64_t since_ns, int64_t until_ns,
                         int64_t *mid_ns)
{
    const struct joined_host *p = &v->places[host];
    struct store_gone gone;
    int64_t cut_ns = p->cut_ns;
    enum err e = ERR_OK;

    if (p->local != NOWHERE && v->far && until_ns > cut_ns) {
        e = store_cells_gone(v->local, p->local, since_ns > cut_ns ? since_ns : cut_ns, until_ns,
                             &gone);
        cut_ns = !e && gone.since_ns < gone.until_ns ? gone.until_ns : cut_ns;
    }
    *mid_ns = cut_ns < since_ns ? since_ns : cut_ns < until_ns ? cut_ns : until_ns;
    return e;
}

/* Nobody answers for what is older. */
static void hole_note(struct store_used *used, int64_t since_ns, int64_t until_ns)
{
    if (used && since_ns < until_ns) {
        used->damaged++;
        used->far = true;
        store_used_hole_add(&used->holes, since_ns, clk_sub(until_ns, 1));
    }
}

/* Whether the far view has a part in [since, mid). It has none that nobody knows of the host. */
static bool has_far(const struct ch_join *v, size_t host, int64_t since_ns, int64_t mid_ns,
                    struct store_used *used)
{
    if (since_ns >= mid_ns) {
        return false;
    }
    if (!v->far) {
        hole_note(used, since_ns, mid_ns);
        return false;
    }
    return v->places[host].far != NOWHERE;
}

/* -- blocks -- */

struct blocks {
    int64_t cut_ns; /* the first stamp lies before it, or not */
    bool both, far; /* both sides are asked; which one */
    enum err (*each)(void *ctx, const struct store_block *b);
    enum err (*each_account)(void *ctx, const struct loss_sum *a);
    void *ctx;
};

/* INT64_MIN: it has none. */
static int64_t first_of(const struct batch *b)
{
    int64_t ticks = b->n_ticks ? b->wall_ns[0] : INT64_MAX;
    int64_t events = b->n_events ? b->events[0].wall_ns : INT64_MAX;
    int64_t first = ticks < events ? ticks : events;

    return first == INT64_MAX ? INT64_MIN : first;
}

static enum err block_take(void *ctx, const struct store_block *b)
{
    const struct blocks *x = ctx;
    int64_t first_ns = first_of(b->batch);

    /* rows of a window belong together: the local store's are all its own */
    if (x->both && first_ns != INT64_MIN &&
        (x->far ? first_ns >= x->cut_ns : first_ns < x->cut_ns && b->part != STORE_ROWS)) {
        return ERR_OK;
    }
    return x->each(x->ctx, b);
}

static enum err account_take(void *ctx, const struct loss_sum *a)
{
    const struct blocks *x = ctx;

    return x->each_account(x->ctx, a);
}

static enum err joined_blocks(const struct store_view *view, size_t host,
                              const struct store_range *range,
                              enum err (*each)(void *ctx, const struct store_block *b), void *ctx)
{
    const struct ch_join *v = join_of(view);
    const struct joined_host *p = &v->places[host];
    struct blocks x = {.far = true, .each = each, .ctx = ctx};
    struct store_range part = *range;
    enum err e = cut_find(v, host, range->since_ns, range->until_ns, &x.cut_ns);

    part.until_ns = x.cut_ns;
    x.both = !e && has_far(v, host, range->since_ns, x.cut_ns, range->used);
    if (x.both) {
        e = store_blocks_scan(v->far, p->far, &part, block_take, &x);
    }
    x.far = false;
    part.since_ns = x.cut_ns;
    part.until_ns = range->until_ns;
    if (!e && p->local != NOWHERE && part.since_ns < part.until_ns) {
        e = store_blocks_scan(v->local, p->local, &part, block_take, &x);
    }
    return e;
}

static enum err joined_accounts(const struct store_view *view, size_t host,
                                const struct store_range *range,
                                enum err (*each_account)(void *ctx, const struct loss_sum *a),
                                enum err (*each)(void *ctx, const struct store_block *b), void *ctx)
{
    const struct ch_join *v = join_of(view);
    const struct joined_host *p = &v->places[host];
    struct blocks x = {.far = true, .each = each, .each_account = each_account, .ctx = ctx};
    struct store_range part = *range;
    int64_t mid_ns = p->cut_ns < range->since_ns   ? range->since_ns
                     : p->cut_ns < range->until_ns ? p->cut_ns
                                                   : range->until_ns;
    enum err e = ERR_OK;

    /* what was told is held as long as anything is: tiers do not matter */
    x.cut_ns = part.until_ns = mid_ns;
    x.both = has_far(v, host, range->since_ns, mid_ns, range->used);
    if (x.both) {
        e = store_accounts_scan(v->far, p->far, &part, account_take, block_take, &x);
    }
    x.far = false;
    part.since_ns = mid_ns;
    part.until_ns = range->until_ns;
    if (!e && p->local != NOWHERE && part.since_ns < part.until_ns) {
        e = store_accounts_scan(v->local, p->local, &part, account_take, block_take, &x);
    }
    return e;
}

/* -- cells -- */

/* From the last tick there to where the time here begins; 0 over a restart of the host. */
static int64_t ticks_between(const struct store_ticks *far, const struct store_ticks *local)
{
    bool same = memcmp(far->last_boot.b, local->first_boot.b, sizeof far->last_boot.b) == 0;

    return far->ticks && local->ticks && same && local->from_mono_ns > far->last_mono_ns
               ? clk_sub(local->from_mono_ns, far->last_mono_ns)
               : 0;
}

/* The time that both parts cover. */
static struct store_ticks ticks_join(const struct store_ticks *far, const struct store_ticks *local)
{
    struct store_ticks t = *far;

    if (!far->ticks || !local->ticks) {
        return far->ticks ? *far : *local;
    }
    t.ticks += local->ticks;
    t.span_mono_ns =
        clk_add(clk_add(far->span_mono_ns, local->span_mono_ns), ticks_between(far, local));
    t.last_wall_ns = local->last_wall_ns;
    t.last_boot = local->last_boot;
    t.last_mono_ns = local->last_mono_ns;
    return t;
}

static enum err row_ignore(void *ctx, const struct store_cell_row *row)
{
    (void)ctx;
    (void)row;
    return ERR_OK;
}

struct inside {
    enum err (*each)(void *ctx, const struct store_cell_row *row);
    void *ctx;
};

static enum err row_inside(void *ctx, const struct store_cell_row *row)
{
    const struct inside *x = ctx;

    return row->before ? ERR_OK : x->each(x->ctx, row);
}

/* The far part of [since, mid). Where bases come last, they are asked for in the end. */
static enum err far_cells(const struct ch_join *v, size_t host, const struct store_cells *ask,
                          int64_t mid_ns,
                          enum err (*each)(void *ctx, const struct store_cell_row *row), void *ctx,
                          struct store_ticks *ticks)
{
    struct inside x = {each, ctx};
    struct store_cells part = *ask;

    part.until_ns = mid_ns;
    if (!ask->bases_from) {
        return store_cells_scan(v->far, v->places[host].far, &part, each, ctx, ticks);
    }
    part.bases_from = NULL;
    return store_cells_scan(v->far, v->places[host].far, &part, row_inside, &x, ticks);
}

/* Samples before the range that are far: those of [since - before, mid). */
static enum err far_bases(const struct ch_join *v, size_t host, const struct store_cells *ask,
                          enum err (*each)(void *ctx, const struct store_cell_row *row), void *ctx)
{
    struct store_cells part = *ask;

    part.until_ns = part.since_ns;
    return store_cells_scan(v->far, v->places[host].far, &part, each, ctx, NULL);
}

static enum err ticks_of(const struct store_view *v, size_t host, const struct store_cells *ask,
                         int64_t since_ns, int64_t until_ns, struct store_ticks *out)
{
    const struct store_cells time = {
        .since_ns = since_ns, .until_ns = until_ns, .deadline = ask->deadline};

    return store_cells_scan(v, host, &time, row_ignore, NULL, out);
}

/* How long it took into the first tick here, when the one before is far. */
static enum err first_interval(const struct ch_join *v, size_t host, const struct store_cells *ask,
                               int64_t cut_ns, struct store_ticks *ticks)
{
    const struct joined_host *p = &v->places[host];
    struct store_ticks here = {0}, far = {0};
    enum err e = ERR_OK;

    if (cut_ns < ask->since_ns && p->local != NOWHERE) {
        e = ticks_of(v->local, p->local, ask, cut_ns, ask->since_ns, &here);
    }
    if (!e && !here.ticks) {
        e = ticks_of(v->far, p->far, ask, clk_sub(ask->since_ns, ask->before_ns), cut_ns, &far);
    }
    ticks->span_mono_ns = clk_add(ticks->span_mono_ns, ticks_between(&far, ticks));
    return e;
}

/* Of what lies before the range some is far, too: [since - before, cut). The range may be empty:
 * then what lies before it is all that is asked for. */
static enum err joined_cells(const struct store_view *view, size_t host,
                             const struct store_cells *ask,
                             enum err (*each)(void *ctx, const struct store_cell_row *row),
                             void *ctx, struct store_ticks *ticks)
{
    const struct ch_join *v = join_of(view);
    const struct joined_host *p = &v->places[host];
    struct store_ticks far = {0}, local = {0};
    struct store_cells part = *ask;
    int64_t lo_ns = clk_sub(ask->since_ns, ask->before_ns), cut_ns = lo_ns;
    enum err e = cut_find(v, host, lo_ns, ask->until_ns, &cut_ns);
    int64_t mid_ns = cut_ns > ask->since_ns ? cut_ns : ask->since_ns;
    bool inside = !e && has_far(v, host, ask->since_ns, mid_ns, ask->used);
    bool bases = !e && v->far && p->far != NOWHERE && lo_ns < ask->since_ns && lo_ns < cut_ns;

    if (inside) {
        e = far_cells(v, host, ask, mid_ns, each, ctx, ticks ? &far : NULL);
    } else if (bases && !ask->bases_from) {
        e = far_bases(v, host, ask, each, ctx);
    }
    part.since_ns = mid_ns;
    part.before_ns = cut_ns < ask->since_ns ? clk_sub(ask->since_ns, cut_ns) : 0;
    if (!e && p->local != NOWHERE && (mid_ns < ask->until_ns || part.before_ns > 0)) {
        e = store_cells_scan(v->local, p->local, &part, each, ctx, ticks ? &local : NULL);
    }
    if (!e && ticks && bases && !inside) {
        e = first_interval(v, host, ask, mid_ns < cut_ns ? mid_ns : cut_ns, &local);
    }
    if (!e && bases && ask->bases_from) {
        e = far_bases(v, host, ask, each, ctx);
    }
    if (ticks) {
        *ticks = ticks_join(&far, &local);
    }
    return e;
}

/* Here what is gone is there; only there may something be gone. */
static enum err joined_gone(const struct store_view *view, size_t host, int64_t since_ns,
                            int64_t until_ns, struct store_gone *out)
{
    const struct ch_join *v = join_of(view);
    const struct joined_host *p = &v->places[host];
    int64_t mid_ns;
    enum err e = cut_find(v, host, since_ns, until_ns, &mid_ns);

    *out = (struct store_gone){until_ns, until_ns};
    if (!e && v->far && p->far != NOWHERE && since_ns < mid_ns) {
        e = store_cells_gone(v->far, p->far, since_ns, mid_ns, out);
        if (!e && out->since_ns == out->until_ns) {
            *out = (struct store_gone){until_ns, until_ns};
        }
    } else if (!e && !v->far && p->local != NOWHERE) {
        e = store_cells_gone(v->local, p->local, since_ns, until_ns, out);
    }
    return e;
}

/* -- instances -- */

static void joined_range(const struct store_view *view, int64_t since_ns, int64_t until_ns)
{
    const struct ch_join *v = join_of(view);

    store_info_range(v->local, since_ns, until_ns);
    if (v->far) {
        store_info_range(v->far, since_ns, until_ns);
    }
}

static bool joined_info(const struct store_view *view, size_t host, const struct uuid *boot,
                        struct proc_id id, bool brief, struct proc_info *out)
{
    const struct ch_join *v = join_of(view);
    const struct joined_host *p = &v->places[host];

    return (p->local != NOWHERE &&
            store_view_ops(v->local)->info(v->local, p->local, boot, id, brief, out)) ||
           (v->far && p->far != NOWHERE &&
            store_view_ops(v->far)->info(v->far, p->far, boot, id, brief, out));
}

static void joined_want(const struct store_view *view, size_t host, const struct proc_key *keys,
                        size_t n)
{
    const struct ch_join *v = join_of(view);

    if (v->places[host].local != NOWHERE) {
        store_info_want(v->local, v->places[host].local, keys, n);
    }
}

static uint32_t joined_unlisted(const struct store_view *view)
{
    const struct ch_join *v = join_of(view);

    return store_info_unlisted(v->local) + (v->far ? store_info_unlisted(v->far) : 0);
}

/* Of whom something is far: up to where the local store begins. */
static void joined_expect(const struct store_view *view, const struct store_expected *list,
                          size_t n)
{
    const struct ch_join *v = join_of(view);
    struct store_expected *far = v->far && n ? mem_array(n, sizeof *far) : NULL;
    size_t n_far = 0;

    for (size_t i = 0; far && i < n; i++) {
        const struct joined_host *p = &v->places[list[i].host];

        if (p->far != NOWHERE && list[i].since_ns < p->cut_ns) {
            far[n_far++] = (struct store_expected){p->far, list[i].since_ns,
                                                   p->cut_ns < list[i].until_ns ? p->cut_ns
                                                                                : list[i].until_ns};
        }
    }
    if (v->far) {
        store_expect(v->far, far, n_far);
    }
    mem_free(far);
}

struct instance {
    struct uuid boot;
    struct proc_info info;
    bool local;
};

struct instances {
    struct arena memory;
    size_t n, cap;
    struct instance *at;
    bool local;
};

static bool text_keep(struct arena *memory, struct str *s)
{
    s->p = arena_dup(memory, s->p, s->n);
    return s->p != NULL;
}

static enum err instance_take(void *ctx, const struct uuid *boot, const struct proc_info *info)
{
    struct instances *x = ctx;
    struct instance one = {*boot, *info, x->local};

    if (x->n == x->cap) {
        size_t cap = x->cap ? x->cap * 2 : 256;
        struct instance *more = arena_array(&x->memory, cap, sizeof *more);

        if (!more) {
            return arena_refused(&x->memory, cap * sizeof *more);
        }
        if (x->n) {
            memcpy(more, x->at, x->n * sizeof *more);
        }
        x->at = more;
        x->cap = cap;
    }
    if (!text_keep(&x->memory, &one.info.name) || !text_keep(&x->memory, &one.info.image) ||
        !text_keep(&x->memory, &one.info.command_line) || !text_keep(&x->memory, &one.info.user)) {
        return arena_refused(&x->memory, 1);
    }
    x->at[x->n++] = one;
    return ERR_OK;
}

/* What is known there first. */
static int by_instance(const void *a, const void *b)
{
    const struct instance *x = a, *y = b;
    int d = memcmp(x->boot.b, y->boot.b, sizeof x->boot.b);

    if (d == 0 && x->info.id.pid != y->info.id.pid) {
        d = x->info.id.pid < y->info.id.pid ? -1 : 1;
    }
    if (d == 0 && x->info.id.start != y->info.id.start) {
        d = x->info.id.start < y->info.id.start ? -1 : 1;
    }
    return d ? d : x->local - y->local;
}

static bool is_same(const struct instance *a, const struct instance *b)
{
    return proc_id_eq(a->info.id, b->info.id) &&
           memcmp(a->boot.b, b->boot.b, sizeof a->boot.b) == 0;
}

static enum err
joined_each(const struct store_view *view, size_t host, const struct store_instances *ask,
            enum err (*each)(void *ctx, const struct uuid *boot, const struct proc_info *info),
            void *ctx)
{
    const struct ch_join *v = join_of(view);
    const struct joined_host *p = &v->places[host];
    struct instances x = {.local = true};
    enum err e = ERR_OK;

    if (p->local != NOWHERE && (!v->far || p->far == NOWHERE || ask->since_ns >= p->cut_ns)) {
        return store_info_each(v->local, p->local, ask, each, ctx);
    }
    arena_init(&x.memory, EACH_MAX);
    if (p->local != NOWHERE) {
        e = store_info_each(v->local, p->local, ask, instance_take, &x);
    }
    x.local = false;
    if (!e && v->far && p->far != NOWHERE) {
        e = store_info_each(v->far, p->far, ask, instance_take, &x);
    }
    if (!e && x.n) {
        qsort(x.at, x.n, sizeof *x.at, by_instance);
    }
    for (size_t i = 0; !e && i < x.n; i++) {
        if (i + 1 < x.n && is_same(&x.at[i], &x.at[i + 1])) {
            head_info_join(&x.at[i].info, &x.at[i + 1].info, true);
            e = each(ctx, &x.at[i].boot, &x.at[i].info);
            i++;
        } else {
            e = each(ctx, &x.at[i].boot, &x.at[i].info);
        }
    }
    arena_fini(&x.memory);
    return e;
}

/* -- the view -- */

static const struct view_ops joined = {
    .close = joined_close,
    .hosts = joined_hosts,
    .host = joined_host,
    .find = joined_find,
    .blocks_scan = joined_blocks,
    .cells_scan = joined_cells,
    .cells_gone = joined_gone,
    .accounts_scan = joined_accounts,
    .info_each = joined_each,
    .info_range = joined_range,
    .info = joined_info,
    .info_want = joined_want,
    .info_unlisted = joined_unlisted,
    .expect = joined_expect,
};

enum err ch_join_open(struct store_view **out, struct store_view *local, struct store_view *far)
{
    struct ch_join *v = mem_zalloc(sizeof *v);
    enum err e;

    if (!v) {
        store_view_close(local);
        store_view_close(far);
        return ERR_NOMEM;
    }
    v->ops = &joined;
    v->local = local;
    v->far = far;
    arena_init(&v->memory, HOSTS_MAX);
    e = hosts_join(v);
    if (e) {
        joined_close((struct store_view *)(void *)v);
        return e;
    }
    *out = (struct store_view *)(void *)v;
    return ERR_OK;
}
