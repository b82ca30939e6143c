#include "collector/query/query_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "collector/query/query_scan.h"
#include "collector/query/query_where.h"
#include "common/base/clk.h"
#include "common/base/hash.h"

#define BOOT_FOLDED  UINT16_MAX /* of what stands for many */
#define BOOTS_FIRST  16
#define TOLD_AT_ONCE 64u
#define STALE_NS     (15 * CLK_S) /* a living process has had a row since */

/* Every process that is sampled has one of them, and the store keeps them at hand. */
#define PRESENCE \
    (METRIC_BIT(M_CPU_TIME) | METRIC_BIT(M_WORKING_SET_SIZE) | METRIC_BIT(M_THREAD_COUNT))

void query_table_init(struct query_table *t, struct query *q)
{
    const struct wire_answer *a = &q->out->data;

    *t = (struct query_table){.q = q, .n_metrics = a->n_metrics};
    arena_init(&t->memory, QUERY_MEMORY_MAX / 2);
}

void query_table_fini(struct query_table *t)
{
    arena_fini(&t->memory);
}

/* -- instances -- */

int query_table_key_order(const void *a, const void *b)
{
    const struct proc_key *x = a, *y = b;

    if (x->id.pid != y->id.pid) {
        return x->id.pid < y->id.pid ? -1 : 1;
    }
    if (x->id.start != y->id.start) {
        return x->id.start < y->id.start ? -1 : 1;
    }
    return memcmp(x->boot.b, y->boot.b, sizeof x->boot.b);
}

/* What an instance is found by; of a folded one the texts are its identity, of others they are
 * what its tier says of it. */
struct look {
    struct proc_id id;
    uint16_t boot;
    struct str name, user;
};

static size_t look_hash(struct proc_id id, unsigned boot)
{
    uint64_t h = (id.start ^ (uint64_t)id.pid << 32 ^ boot) * UINT64_C(0x9e3779b97f4a7c15);

    h = (h ^ h >> 32) * UINT64_C(0xbf58476d1ce4e5b9); /* starts and pids are multiples: use all */
    return (size_t)(h ^ h >> 32);
}

static bool inst_is(const struct query_inst *inst, const struct look *k)
{
    return proc_id_eq(inst->id, k->id) && inst->boot == k->boot &&
           (k->boot != BOOT_FOLDED ||
            (str_eq(inst->info->name, k->name) && str_eq(inst->info->user, k->user)));
}

static struct query_inst **slot_find(struct query_inst **slots, size_t cap, const struct look *k)
{
    size_t i = look_hash(k->id, k->boot) & (cap - 1);

    while (slots[i] && !inst_is(slots[i], k)) {
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
            size_t at = look_hash(inst->id, inst->boot) & (cap - 1);

            while (slots[at]) {
                at = (at + 1) & (cap - 1);
            }
            slots[at] = inst;
        }
    }
    t->slots = slots;
    t->cap = cap;
    return ERR_OK;
}

static enum err boot_add(struct query_table *t, const struct uuid *id)
{
    unsigned cap = t->cap_boots ? t->cap_boots * 2 : BOOTS_FIRST;
    struct uuid *more;

    if (t->n_boots == QUERY_BOOTS_MAX) {
        return ERR_FULL;
    }
    if (t->n_boots == t->cap_boots) {
        more = arena_array(&t->memory, cap, sizeof *more);
        if (!more) {
            return ERR_FULL;
        }
        if (t->n_boots) {
            memcpy(more, t->boots, t->n_boots * sizeof *more);
        }
        t->boots = more;
        t->cap_boots = cap;
    }
    t->boots[t->n_boots++] = *id;
    return ERR_OK;
}

static bool boot_is(const struct query_table *t, unsigned i, const struct uuid *id)
{
    uint64_t a[2], b[2];

    if (i >= t->n_boots) {
        return false;
    }
    memcpy(a, t->boots[i].b, sizeof a);
    memcpy(b, id->b, sizeof b);
    return a[0] == b[0] && a[1] == b[1];
}

static enum err boot_find(struct query_table *t, const struct uuid *id, uint16_t *boot)
{
    unsigned i = boot_is(t, t->boot_at, id) ? t->boot_at : 0;
    enum err e = ERR_OK;

    while (i < t->n_boots && !boot_is(t, i, id)) {
        i++;
    }
    if (i == t->n_boots) {
        e = boot_add(t, id);
    }
    t->boot_at = i;
    *boot = (uint16_t)i;
    return e;
}

/* Whether cells are kept for it, before anything is known of it. */
static bool is_asked_for(const struct query_table *t, const struct look *k)
{
    struct proc_key key = {.id = k->id};

    if (!t->n_only) {
        return true;
    }
    if (k->boot == BOOT_FOLDED) {
        return false;
    }
    key.boot = t->boots[k->boot];
    return bsearch(&key, t->only, t->n_only, sizeof key, query_table_key_order) != NULL;
}

static bool inst_is_shown(const struct query_table *t, const struct query_inst *inst,
                          const struct proc_info *info)
{
    if (inst->boot == BOOT_FOLDED) {
        return query_wants_folded(t->q, info->name);
    }
    if (t->all) {
        return inst->id.pid != 0 || t->q->ask->idle;
    }
    return t->nameless ? query_wants_id(t->q, inst->id) : query_wants(t->q, inst->id, info);
}

/* What the row's tier says, where nothing else is known, as of folded ones. */
static const struct proc_info *told_info(struct query_table *t, const struct look *k)
{
    struct arena *memory = t->brief ? &t->memory : &t->q->out->memory;
    struct proc_info *info = arena_alloc(memory, sizeof *info);

    if (!info) {
        return NULL;
    }
    if (k->boot != BOOT_FOLDED) {
        info->id = k->id;
    }
    info->name = (struct str){arena_dup(memory, k->name.p, k->name.n), k->name.n};
    info->user = (struct str){arena_dup(memory, k->user.p, k->user.n), k->user.n};
    return info->name.p && info->user.p ? info : NULL;
}

/* *is_known: *known is what the store knows; else inst->info is what a tier says, or NULL. */
static enum err info_find(struct query_table *t, struct query_inst *inst, const struct look *k,
                          struct proc_info *known, bool *is_known)
{
    bool folded = k->boot == BOOT_FOLDED;

    *is_known =
        !folded && store_info_brief(t->q->env->view, t->host, &t->boots[k->boot], k->id, known);
    if (!*is_known && (k->name.n || folded)) {
        inst->info = told_info(t, k);
        return inst->info ? ERR_OK : ERR_FULL;
    }
    return ERR_OK;
}

/* What only those have that are shown. known  NULL: inst->info stays as it is */
static enum err inst_show(struct query_table *t, struct query_inst *inst,
                          const struct proc_info *known)
{
    if (known) {
        inst->info = arena_dup(&t->memory, known, sizeof *known);
    }
    if (t->n_metrics) {
        inst->cells = arena_array(&t->memory, t->n_metrics, sizeof *inst->cells);
    }
    if ((t->n_metrics && !inst->cells) || (known && !inst->info)) {
        return ERR_FULL;
    }
    for (unsigned i = 0; i < t->n_metrics; i++) {
        inst->cells[i].base_ns = QUERY_NEVER;
    }
    return ERR_OK;
}

static enum err inst_make(struct query_table *t, struct query_inst **slot, const struct look *k)
{
    struct query_inst *inst = arena_alloc(&t->memory, sizeof *inst);
    bool asked_for = is_asked_for(t, k), is_known = false;
    enum err e = inst ? ERR_OK : ERR_FULL;
    struct proc_info known;

    if (e) {
        return e;
    }
    inst->id = k->id;
    inst->boot = k->boot;
    inst->seen_ns = QUERY_NEVER;
    if (asked_for && ((t->infos && !t->told) || k->boot == BOOT_FOLDED)) {
        e = info_find(t, inst, k, &known, &is_known);
    }
    if (e) {
        return e;
    }
    inst->hidden = !asked_for || !inst_is_shown(t, inst, is_known ? &known : inst->info);
    if (!inst->hidden) { /* of hidden ones there may be very many: they have no more than this */
        e = inst_show(t, inst, is_known ? &known : NULL);
    }
    if (e) {
        return e;
    }
    *slot = inst;
    t->n_insts++;
    assert(t->n_insts < t->cap); /* or a look-up would not end */
    return ERR_OK;
}

static enum err inst_get(struct query_table *t, const struct look *k, struct query_inst **inst)
{
    struct query_inst **slot;
    enum err e;

    if (t->n_insts * 2 >= t->cap) {
        e = table_grow(t);
        if (e) {
            return e;
        }
    }
    slot = slot_find(t->slots, t->cap, k);
    if (!*slot) {
        e = inst_make(t, slot, k);
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
    struct look k = {.id = id};
    enum err e = boot_find(t, boot, &k.boot);

    return e ? e : inst_get(t, &k, inst);
}

struct query_inst *query_table_find(const struct query_table *t, const struct uuid *boot,
                                    struct proc_id id)
{
    struct look k = {.id = id};

    while (k.boot < t->n_boots && !boot_is(t, k.boot, boot)) {
        k.boot++;
    }
    return k.boot < t->n_boots ? *slot_find(t->slots, t->cap, &k) : NULL;
}

static enum err folded_get(struct query_table *t, const struct store_cell_row *row,
                           struct query_inst **inst)
{
    struct look k = {.boot = BOOT_FOLDED, .name = row->name, .user = row->user};

    /* spreads them over the table; the texts tell them apart */
    k.id.start = hash_bytes(row->name.p, row->name.n, hash_bytes(row->user.p, row->user.n, 0));
    return inst_get(t, &k, inst);
}

/* -- values -- */

static void cell_take(struct query_cell *to, bool counter, const struct store_cell_row *row,
                      const struct cell *c)
{
    if (!c->count) {
        return;
    }
    if (!row->before) {
        cell_join(&to->in, counter, c);
    } else if (c->last_ns > to->base_ns) {
        to->base_ns = c->last_ns;
        to->base = c->last;
    }
}

/* Of many at once: growth is in `sum`, and there is no first and last. */
static void folded_take(struct query_cell *to, const struct cell *c)
{
    struct cell *in = &to->in;

    if (!c->count) {
        return;
    }
    in->min = in->count && in->min < c->min ? in->min : c->min;
    in->max = in->count && in->max > c->max ? in->max : c->max;
    in->sum = cell_sum(in->sum, c->sum);
    in->count += c->count;
}

enum err query_table_row(struct query_table *t, const struct store_cell_row *row,
                         struct query_inst **inst)
{
    enum err e =
        row->instances ? folded_get(t, row, inst) : query_table_get(t, row->boot, row->id, inst);

    if (!e && !row->before) {
        (*inst)->instances += row->instances;
        (*inst)->fresh |= row->fresh;
    }
    return e;
}

/* What tiers tell of many is kept once. NULL: there is no room. */
static const struct proc_info *told_shared(struct query_table *t, const struct look *k)
{
    uint64_t hash = hash_bytes(k->name.p, k->name.n, hash_bytes(k->user.p, k->user.n, 0));
    const struct proc_info **last = &t->told_last[hash & (QUERY_TOLD - 1)];

    if (!*last || !str_eq((*last)->name, k->name) || !str_eq((*last)->user, k->user)) {
        *last = told_info(t, k);
    }
    return *last;
}

/* The name is that of the newest row that tells one; rows before the range come last. */
enum err query_table_name(struct query_table *t, struct query_inst *inst,
                          const struct store_cell_row *row)
{
    const struct look k = {.boot = BOOT_FOLDED, .name = row->name, .user = row->user};

    if (!row->name.n || row->instances || inst->hidden || (row->before && inst->info) ||
        (inst->info && str_eq(inst->info->name, k.name) && str_eq(inst->info->user, k.user))) {
        return ERR_OK;
    }
    inst->info = told_shared(t, &k);
    return inst->info ? ERR_OK : ERR_FULL;
}

static enum err row_take(void *ctx, const struct store_cell_row *row)
{
    struct query_table *t = ctx;
    struct query_inst *inst;
    enum err e = query_table_row(t, row, &inst);

    e = !e && t->told ? query_table_name(t, inst, row) : e;
    if (e) {
        return e;
    }
    if (t->presence && !row->instances && row->end_ns - 1 > inst->seen_ns) {
        inst->seen_ns = row->end_ns - 1;
    }
    for (unsigned i = 0; i < t->n_metrics; i++) {
        metric_mask bit = METRIC_BIT(query_table_column(t, i));
        const struct cell *c;

        if (!(row->mask & bit)) {
            continue;
        }
        c = row->cells + (row->mask & (bit - 1) ? metric_mask_count(row->mask & (bit - 1)) : 0);
        if (!row->instances && c->count && c->last_ns > inst->seen_ns) {
            inst->seen_ns = c->last_ns;
        }
        if (inst->hidden) {
            continue;
        }
        if (!row->instances) {
            cell_take(&inst->cells[i], query_table_counts(t, i), row, c);
        } else if (!row->before) {
            folded_take(&inst->cells[i], c);
            inst->seen_ns = row->end_ns > inst->seen_ns ? row->end_ns : inst->seen_ns;
        }
    }
    if (!row->instances && inst->seen_ns > t->newest_ns) {
        t->newest_ns = inst->seen_ns;
        t->newest_boot = inst->boot;
    }
    return ERR_OK;
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
    t->n_boots = t->cap_boots = t->boot_at = 0;
    t->boots = NULL;
    t->newest_ns = QUERY_NEVER;
    t->newest_boot = 0;
    t->ticks = (struct store_ticks){0};
    memset(t->told_last, 0, sizeof t->told_last);
}

/* Samples before the range that are older than this are no process's base: each has a newer one, or
 * needs none. */
static int64_t table_bases_from(void *ctx)
{
    const struct query_table *t = ctx;
    int64_t from_ns = INT64_MAX;

    for (size_t k = 0; k < t->cap; k++) {
        const struct query_inst *inst = t->slots[k];

        if (!inst || inst->hidden || inst->fresh || inst->instances) {
            continue;
        }
        for (unsigned i = 0; i < t->n_metrics; i++) {
            const struct query_cell *c = &inst->cells[i];
            int64_t own_ns = c->in.first_ns < t->since_ns ? c->in.first_ns : QUERY_NEVER;
            int64_t base_ns = own_ns > c->base_ns ? own_ns : c->base_ns;

            if (c->in.count && query_table_counts(t, i) && base_ns < from_ns) {
                from_ns = base_ns;
            }
        }
    }
    return from_ns;
}

/* Others are in no answer. */
static bool inst_has_values(const struct query_table *t, const struct query_inst *inst)
{
    for (unsigned i = 0; i < t->n_metrics; i++) {
        if (inst->cells[i].in.count) {
            return true;
        }
    }
    return false;
}

/* Whether the store is to be asked for it at the end. */
static bool told_is_open(const struct query_table *t, const struct query_inst *inst)
{
    uint8_t by = t->q->ask->group_by;
    bool nameless = !inst->info && (by == WIRE_GROUP_IMAGE || by == WIRE_GROUP_USER ||
                                    by == WIRE_GROUP_IMAGE_USER);
    bool may_live = inst->boot == t->newest_boot && inst->seen_ns + STALE_NS >= t->newest_ns;

    return !inst->hidden && inst->boot != BOOT_FOLDED && (nameless || may_live);
}

/* Of what was not told, and of whether those live that may. */
static enum err told_end(struct query_table *t)
{
    const struct store_view *v = t->q->env->view;

    for (size_t i = 0; i < t->cap;) {
        struct query_inst *open[TOLD_AT_ONCE];
        struct proc_key keys[TOLD_AT_ONCE];
        struct proc_info known;
        size_t n = 0;

        for (; i < t->cap && n < TOLD_AT_ONCE; i++) {
            if (t->slots[i] && told_is_open(t, t->slots[i])) {
                open[n] = t->slots[i];
                keys[n] = (struct proc_key){t->slots[i]->id, t->boots[t->slots[i]->boot]};
                n++;
            }
        }
        store_info_want(v, t->host, keys, n);
        for (size_t k = 0; k < n; k++) {
            if (store_info_brief(v, t->host, &keys[k].boot, keys[k].id, &known)) {
                open[k]->info = arena_dup(&t->memory, &known, sizeof known);
                if (!open[k]->info) {
                    return ERR_FULL;
                }
            }
        }
        if (query_scan_is_late(t->q)) {
            return ERR_TIMEOUT;
        }
    }
    return ERR_OK;
}

static bool judged_value(const struct query_where_row *row, unsigned i, int64_t *v)
{
    const struct query_table *t = row->of;
    const struct query_inst *inst = row->at;

    return i >= t->first && i < t->first + (unsigned)t->n_metrics &&
           query_table_value(t, inst, i - t->first, WIRE_BY_USUAL, v);
}

/* Hides all but those that the filter fits: by what is known of them and what they did. */
static enum err table_judge(struct query_table *t, const struct query_span *s)
{
    const struct store_view *v = t->q->env->view;
    bool is_long = t->q->where_is_long;

    for (size_t i = 0; i < t->cap;) {
        struct query_inst *open[TOLD_AT_ONCE];
        struct proc_key keys[TOLD_AT_ONCE];
        struct proc_info known;
        size_t n = 0;

        for (; i < t->cap && n < TOLD_AT_ONCE; i++) {
            if (t->slots[i] && !t->slots[i]->hidden && inst_has_values(t, t->slots[i])) {
                bool folded = t->slots[i]->boot == BOOT_FOLDED;

                open[n] = t->slots[i];
                keys[n] = (struct proc_key){.id = open[n]->id};
                keys[n].boot = folded ? keys[n].boot : t->boots[open[n]->boot];
                n++;
            }
        }
        store_info_want(v, t->host, keys, n);
        for (size_t k = 0; k < n; k++) {
            bool is_known = !open[k]->instances &&
                            (is_long ? store_info : store_info_brief)(v, t->host, &keys[k].boot,
                                                                      keys[k].id, &known);
            struct query_where_row row = {
                .span = s,
                .info = is_known ? &known : open[k]->info,
                .id = open[k]->instances ? NULL : &open[k]->id,
                .value = judged_value,
                .of = t,
                .at = open[k],
            };

            open[k]->hidden = !query_where_fits(t->q, &row);
        }
        if (query_scan_is_late(t->q)) {
            return ERR_TIMEOUT;
        }
    }
    return ERR_OK;
}

enum err query_table_fill(struct query_table *t, const struct query_span *s,
                          const struct query_reach *reach)
{
    enum err e;

    struct store_cells ask = {.since_ns = reach->since_ns,
                              .until_ns = s->until_ns,
                              .before_ns = reach->before_ns,
                              .metrics = t->presence ? PRESENCE : 0,
                              .folded = reach->folded,
                              .hours = reach->hours,
                              .names = t->infos,
                              .totals =
                                  (t->q->kind == QUERY_TOP || t->q->kind == QUERY_PROCESSES) &&
                                  t->q->ask->by != WIRE_BY_MAX,
                              .has_pid = t->q->ask->has_pid && !t->all,
                              .pid = t->q->ask->pid,
                              .bases_from = reach->range_only ? table_bases_from : NULL,
                              .bases_ctx = t};

    query_table_start(t, s, reach->since_ns);
    if (t->infos && t->n_only) { /* nor is more of them needed, but few are cheaper like this */
        store_info_want(t->q->env->view, s->host, t->only, t->n_only);
    }
    for (unsigned i = 0; i < t->n_metrics; i++) {
        ask.metrics |= METRIC_BIT(query_table_column(t, i));
    }
    e = query_scan_cells(t->q, s, &ask, row_take, t, &t->ticks);
    e = !e && t->told ? told_end(t) : e;
    return !e && t->judged && t->q->where ? table_judge(t, s) : e;
}

/* -- results -- */

bool query_table_lives(const struct query_table *t, const struct query_inst *inst)
{
    const struct proc_info *info = inst->info;

    if (inst->instances || inst->boot != t->newest_boot) {
        return false;
    }
    if (info && (info->have & INFO_EXITED) &&
        (!(info->have & INFO_EXIT_TIME) || info->exit_ns < t->until_ns)) {
        return false;
    }
    if (info && (info->have & INFO_CREATE_TIME) && info->create_ns >= t->until_ns) {
        return false;
    }
    return inst->seen_ns == QUERY_NEVER || inst->seen_ns + STALE_NS >= t->newest_ns;
}

/* The sample that growth inside the window counts from. */
static bool cell_base(const struct query_table *t, const struct query_cell *c, int64_t *base_ns,
                      int64_t *base)
{
    bool own = c->in.first_ns < t->since_ns; /* the cell brings it along */

    if (!own && c->base_ns == QUERY_NEVER) {
        return false;
    }
    own = own && c->in.first_ns > c->base_ns;
    *base_ns = own ? c->in.first_ns : c->base_ns;
    *base = own ? c->in.first : c->base;
    return true;
}

/* Growth of a counter inside the window, and the steps from sample to sample it happened in; false:
 * unknown. */
static bool cell_growth_of(const struct query_table *t, const struct query_inst *inst,
                           const struct query_cell *c, int64_t *growth, uint64_t *steps)
{
    int64_t base_ns, base = 0;

    if (!c->in.count) {
        return false;
    }
    *steps = c->in.count;
    if (inst->instances) {
        *growth = c->in.sum;
        return true;
    }
    /* of what began inside, earlier samples are another count of the same process: its base is 0 */
    if (!inst->fresh && !cell_base(t, c, &base_ns, &base)) {
        if (c->in.count == 1) {
            return false;
        }
        base = c->in.first;
        --*steps;
    }
    /* a counter never falls within one instance: the counter began anew */
    *growth = c->in.last >= base ? cell_growth(base, c->in.last) : c->in.last;
    return true;
}

/* The largest growth in one step. */
static bool cell_most_of(const struct query_table *t, const struct query_inst *inst,
                         const struct query_cell *c, int64_t *most)
{
    struct cell in = c->in, before = {.count = 1};
    int64_t base_ns, base;

    if (!in.count) {
        return false;
    }
    if (inst->instances) {
        *most = in.max;
        return true;
    }
    if (inst->fresh) { /* from zero to its first value, unless the cell brings a base along */
        bool own = in.first_ns < t->since_ns;

        *most = own || (cell_grew(&in) && in.max > in.first) ? in.max : in.first;
        return true;
    }
    if (cell_base(t, c, &base_ns, &base)) {
        before.first_ns = before.last_ns = base_ns;
        before.first = before.last = base;
        cell_follow(&in, &before);
    }
    *most = in.max;
    return cell_grew(&in);
}

/* Growth in a second of the host's time, and in permille of one CPU. False: no time has passed. */
static bool table_rate(const struct query_table *t, int64_t growth, int64_t *rate)
{
    if (t->ticks.span_mono_ns <= 0) {
        return false;
    }
    *rate = (int64_t)((double)growth * 1e9 / (double)t->ticks.span_mono_ns + 0.5);
    return true;
}

static bool table_permille(const struct query_table *t, int64_t growth, int64_t *permille)
{
    int64_t most = (int64_t)store_view_host(t->q->env->view, t->host)->cpus * 1000;

    if (t->ticks.span_mono_ns <= 0) {
        return false;
    }
    *permille = (int64_t)((double)growth * 1000.0 / (double)t->ticks.span_mono_ns + 0.5);
    if (most && *permille > most) {
        *permille = most;
    }
    return true;
}

static bool counter_value(const struct query_table *t, const struct query_inst *inst, unsigned i,
                          unsigned by, int64_t *value)
{
    const struct query_cell *c = &inst->cells[i];
    int64_t growth;
    uint64_t steps;

    if (by == WIRE_BY_MAX) {
        return cell_most_of(t, inst, c, value);
    }
    if (!cell_growth_of(t, inst, c, &growth, &steps)) {
        return false;
    }
    if (query_table_metric(t, i) == M_CPU_PERCENT) {
        return table_permille(t, growth, value);
    }
    if (by == WIRE_BY_RATE) {
        return table_rate(t, growth, value);
    }
    *value = by == WIRE_BY_AVG ? query_mean(growth, steps) : growth;
    return true;
}

bool query_table_value(const struct query_table *t, const struct query_inst *inst, unsigned i,
                       unsigned by, int64_t *value)
{
    const struct cell *in = &inst->cells[i].in;

    if (query_table_counts(t, i)) {
        return counter_value(t, inst, i, by, value);
    }
    if (!in->count || (inst->instances && by == WIRE_BY_USUAL)) {
        return false; /* those that are gone have no value now */
    }
    switch (by) {
    case WIRE_BY_SUM:
        *value = in->sum;
        break;
    case WIRE_BY_MAX:
        *value = in->max;
        break;
    case WIRE_BY_AVG:
        *value = query_mean(in->sum, in->count);
        break;
    default:
        *value = in->last;
    }
    return true;
}

bool query_table_total(const struct query_table *t, const struct query_inst *inst, unsigned i,
                       int64_t *value)
{
    const struct query_cell *c = &inst->cells[i];

    if (query_table_metric(t, i) == M_CPU_PERCENT) {
        return counter_value(t, inst, i, WIRE_BY_USUAL, value);
    }
    if (!c->in.count && c->base_ns == QUERY_NEVER) {
        return false;
    }
    *value = c->in.count ? c->in.last : c->base; /* the newest may lie before the window */
    return true;
}

static void sum_add_most(struct query_sum *s, int64_t most)
{
    s->most = s->has_most && s->most > most ? s->most : most;
    s->has_most = true;
}

static void sum_add_counter(struct query_sum *s, const struct query_table *t,
                            const struct query_inst *inst, const struct query_cell *c)
{
    uint64_t steps;
    int64_t v;

    if (cell_growth_of(t, inst, c, &v, &steps)) {
        s->total = cell_sum(s->total, v);
        s->steps += steps;
        s->has_total = true;
    }
    if (cell_most_of(t, inst, c, &v)) {
        sum_add_most(s, v);
    }
}

void query_table_sum_add(struct query_sum *s, const struct query_table *t,
                         const struct query_inst *inst, unsigned i)
{
    const struct query_cell *c = &inst->cells[i];

    if (query_table_counts(t, i)) {
        sum_add_counter(s, t, inst, c);
    } else if (c->in.count) {
        s->total = cell_sum(s->total, c->in.sum);
        s->has_total = true;
        sum_add_most(s, c->in.max);
        if (query_table_lives(t, inst)) {
            s->now = cell_sum(s->now, c->in.last);
            s->has_now = true;
        }
    }
}

static bool sum_of_counter(const struct query_sum *s, const struct query_table *t, unsigned i,
                           unsigned by, int64_t *value)
{
    if (by == WIRE_BY_MAX) {
        *value = s->most;
        return s->has_most;
    }
    if (!s->has_total) {
        return false;
    }
    if (query_table_metric(t, i) == M_CPU_PERCENT) {
        return table_permille(t, s->total, value);
    }
    if (by == WIRE_BY_RATE) {
        return table_rate(t, s->total, value);
    }
    *value = by == WIRE_BY_AVG ? query_mean(s->total, s->steps) : s->total;
    return true;
}

bool query_table_sum_value(const struct query_sum *s, const struct query_table *t, unsigned i,
                           unsigned by, int64_t *value)
{
    if (query_table_counts(t, i)) {
        return sum_of_counter(s, t, i, by, value);
    }
    switch (by) {
    case WIRE_BY_SUM:
        *value = s->total;
        return s->has_total;
    case WIRE_BY_MAX:
        *value = s->most;
        return s->has_most;
    case WIRE_BY_AVG:
        *value = query_mean(s->total, t->ticks.ticks);
        return s->has_total && t->ticks.ticks > 0;
    default:
        *value = s->now;
        return s->has_now;
    }
}
