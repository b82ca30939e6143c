/* Lifetimes: when which process lived, tens of thousands of them in columns, also those that lived
 * for a few milliseconds between two samples.
 *
 * Who lived, and from when to when, is known from what was announced: head and catalogue name each
 * instance once. The samples of the window say how much CPU time each used, and what became of
 * those whose end was never told: one that is sampled up to the window's end lives, one that is not
 * ended some time after its last sample. One that nobody ever announced has only samples.
 *
 * Every process of the window is counted in the density, over all and by image. Of the processes
 * themselves at most `max` are answered: those with an exit code other than 0 first, then those of
 * most CPU time, then the longest, which a heap of that size finds while they come by; the others
 * are left out, and counted. In the end they are sorted by start, and parents found among them: one
 * that is there comes before its children, also when both began in one tick of the host's clock.
 *
 * Memory: one host's instances (query_table.h); where they are too many for figures, CPU times are
 * not known; `max` lives, LIVES_NAMES_MAX names, LIVES_DENSITY_MAX for the images' densities. */
#include <stdlib.h>
#include <string.h>

#include "collector/query/query_buckets.h"
#include "collector/query/query_cover.h"
#include "collector/query/query_impl.h"
#include "collector/query/query_table.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/search.h"
#include "common/os/deadline.h"
#include "common/os/os.h"
#include "common/wire/wire_lifetimes.h"

#define LIVES_NAMES_MAX   (512u << 10) /* bytes of all names together */
#define LIVES_DENSITY_MAX (16u << 20)  /* bytes of counts */
#define LIVES_IMAGES_SENT 32768u       /* images x buckets */
#define LIVES_ROW_BYTES   56u          /* of one on the wire, from above */
#define LIVES_EACH        64u          /* the clock is read once in so many */
#define LIVES_SAME_PID    64u          /* so many of one pid are looked at for a parent */
#define LIVES_FAR_US      (INT64_MAX / 4000)

/* One process. */
struct life {
    int64_t start_us, life_us, cpu_us, exit_code; /* as in struct wire_lifetimes */
    uint64_t start, parent_start;
    uint64_t boot; /* half of its id */
    uint32_t pid, parent_pid;
    uint32_t span, name, user;
    uint32_t flags;
    bool has_parent;
};

/* An image name or user; as an image also what it did in each bucket, where there was room. */
struct life_name {
    struct str text;
    uint64_t told;           /* starts and ends */
    uint32_t *starts, *ends; /* NULL: none, or no room */
    uint32_t sent;           /* index in the answer + 1; 0: not in it */
};

struct lives {
    struct query *q;
    struct query_buckets axis;
    struct query_table table;
    const struct query_span *s; /* of the host that is read */
    size_t max, n;
    struct life *list; /* a heap from the time when there are more than max: the least first */
    bool heaped;
    uint64_t all;
    uint32_t *starts, *ends;
    struct map by_text;
    uint64_t seed;
    size_t n_names, name_bytes, density_bytes;
    struct life_name *names;
    unsigned since_look;
};

/* -- the heap of those that stay -- */

/* How much of a life counts: 0 for one of which not even that is known. */
static int64_t life_length(const struct life *x)
{
    return x->life_us == WIRE_LIFE_LIVES ? INT64_MAX : x->life_us;
}

/* Whether a stays rather than b. */
static bool life_before(const struct life *a, const struct life *b)
{
    bool failed_a = a->exit_code > 0, failed_b = b->exit_code > 0;

    if (failed_a != failed_b) {
        return failed_a;
    }
    if (a->cpu_us != b->cpu_us) {
        return a->cpu_us > b->cpu_us;
    }
    if (life_length(a) != life_length(b)) {
        return life_length(a) > life_length(b);
    }
    return a->start_us != b->start_us ? a->start_us < b->start_us : a->pid < b->pid;
}

static void lives_sift_down(struct life *h, size_t n, size_t i)
{
    struct life x = h[i];

    for (size_t next; 2 * i + 1 < n; i = next) {
        next = 2 * i + 1;
        next += next + 1 < n && life_before(&h[next], &h[next + 1]);
        if (!life_before(&x, &h[next])) {
            break;
        }
        h[i] = h[next];
    }
    h[i] = x;
}

static void lives_keep(struct lives *l, const struct life *x)
{
    if (l->n < l->max) {
        l->list[l->n++] = *x;
        return;
    }
    for (size_t i = l->heaped ? 0 : l->n / 2; i > 0; i--) {
        lives_sift_down(l->list, l->n, i - 1);
    }
    l->heaped = true;
    if (l->n && life_before(x, &l->list[0])) {
        l->list[0] = *x;
        lives_sift_down(l->list, l->n, 0);
    }
}

/* -- names -- */

/* False: there are too many. */
static bool lives_name(struct lives *l, struct str text, uint32_t *index)
{
    uint64_t key = hash_bytes(text.p, text.n, l->seed), at;
    struct life_name *x = &l->names[l->n_names];

    for (; (at = map_get(&l->by_text, key)) != 0; key++) {
        if (str_eq(l->names[at - 1].text, text)) {
            *index = (uint32_t)at - 1;
            return true;
        }
    }
    if (l->n_names == WIRE_LIFE_NAMES_MAX || l->name_bytes + text.n > LIVES_NAMES_MAX ||
        map_reserve(&l->by_text)) {
        return false;
    }
    *x = (struct life_name){.text = {arena_dup(&l->q->out->memory, text.p, text.n), text.n}};
    if (!x->text.p) {
        return false;
    }
    l->name_bytes += text.n;
    *index = (uint32_t)l->n_names++;
    (void)map_put(&l->by_text, key, l->n_names);
    return true;
}

/* -- density -- */

static bool lives_bucket(const struct lives *l, int64_t ns, uint32_t *b)
{
    int64_t since = ns - l->axis.t0_ns; /* of no more than the window */

    *b = (uint32_t)(since / l->axis.step_ns);
    return *b < l->axis.n;
}

static void lives_room_for_image(struct lives *l, struct life_name *image)
{
    size_t bytes = 2 * l->axis.n * sizeof *image->starts;

    if (!image->starts && l->density_bytes + bytes <= LIVES_DENSITY_MAX) {
        image->starts = arena_alloc(&l->q->out->memory, bytes);
        image->ends = image->starts ? image->starts + l->axis.n : NULL;
        l->density_bytes += bytes;
    }
}

/* image  NULL: not known, or there are too many */
static void lives_count(struct lives *l, struct life_name *image, bool end, int64_t ns)
{
    uint32_t b;

    if (ns < l->s->since_ns || ns >= l->s->until_ns || !lives_bucket(l, ns, &b)) {
        return;
    }
    (end ? l->ends : l->starts)[b]++;
    if (image) {
        lives_room_for_image(l, image);
    }
    if (image && image->starts) {
        (end ? image->ends : image->starts)[b]++;
        image->told++;
    }
}

/* -- one process -- */

/* Rounded down on both sides of `since`: the same moment whichever t0 an answer has. */
static int64_t life_us(int64_t ns, int64_t since_ns)
{
    int64_t span = clk_sub(ns, since_ns), us = span / CLK_US - (span % CLK_US < 0);

    us = us < LIVES_FAR_US ? us : LIVES_FAR_US;
    return us > -LIVES_FAR_US ? us : -LIVES_FAR_US;
}

/* Sampled in the window, not only in front of it. */
static bool life_is_sampled(const struct lives *l, const struct query_inst *inst)
{
    return inst && inst->seen_ns >= l->s->since_ns;
}

/* Whether samples say that it lived to the end. inst  NULL: it has none */
static bool life_goes_on(const struct lives *l, const struct uuid *boot,
                         const struct query_inst *inst, int64_t began_ns)
{
    const struct query_table *t = &l->table;
    struct query_inst known = {.seen_ns = began_ns, .boot = t->newest_boot};

    if (inst) {
        known = *inst;
        known.info = NULL;
    } else if (memcmp(boot, &t->boots[t->newest_boot], sizeof *boot) != 0) {
        return false;
    }
    return query_table_lives(t, &known);
}

/* The life of one whose end was not told; false: it was over before the window. */
static bool life_end_by_samples(const struct lives *l, struct life *x, const struct uuid *boot,
                                const struct query_inst *inst, int64_t began_ns, bool ended)
{
    bool sampled = life_is_sampled(l, inst);

    x->life_us = ended ? WIRE_LIFE_UNKNOWN : WIRE_LIFE_LIVES;
    if (l->table.newest_ns == QUERY_NEVER) {
        return true; /* nothing was sampled: all that is known */
    }
    if (!sampled && (began_ns < l->s->since_ns || x->flags & WIRE_LIFE_START_UNKNOWN)) {
        return false;
    }
    if (ended || !life_goes_on(l, boot, sampled ? inst : NULL, began_ns)) {
        x->life_us = sampled ? life_us(inst->seen_ns, began_ns) : WIRE_LIFE_UNKNOWN;
        x->life_us = x->life_us > 0 || !sampled ? x->life_us : 0;
        x->flags |= WIRE_LIFE_END_UNKNOWN;
    }
    return true;
}

static void life_cpu(const struct lives *l, struct life *x, const struct query_inst *inst)
{
    int64_t ns;

    x->cpu_us = WIRE_LIFE_NOT_KNOWN;
    if (inst && l->table.n_metrics && query_table_value(&l->table, inst, 0, WIRE_BY_USUAL, &ns) &&
        ns >= 0) {
        x->cpu_us = ns / CLK_US < LIVES_FAR_US ? ns / CLK_US : LIVES_FAR_US;
    }
}

/* What is told of it; the density has it whether it stays or not. info or inst may be NULL. */
static enum err life_add(struct lives *l, const struct uuid *boot, struct proc_id id,
                         const struct proc_info *info, const struct query_inst *inst)
{
    const struct proc_info none = {.id = id};
    const struct proc_info *p = info ? info : &none;
    bool told = (p->have & INFO_EXITED) && (p->have & INFO_EXIT_TIME);
    bool sampled = life_is_sampled(l, inst) && inst->cells && inst->cells[0].in.count;
    int64_t began_ns = p->create_ns;
    struct life x = {.pid = id.pid,
                     .start = id.start,
                     .has_parent = (p->have & INFO_PARENT) != 0,
                     .parent_pid = p->parent_pid,
                     .parent_start = p->parent_start,
                     .exit_code = WIRE_LIFE_NOT_KNOWN,
                     .span = (uint32_t)(l->s - l->q->spans)};
    bool named;

    if (p->have & INFO_EXIT_CODE) {
        x.exit_code = p->exit_code;
    }
    if (!(p->have & INFO_CREATE_TIME)) {
        x.flags |= WIRE_LIFE_START_UNKNOWN;
        began_ns = sampled && inst->cells[0].base_ns == QUERY_NEVER &&
                           inst->cells[0].in.first_ns > l->s->since_ns
                       ? inst->cells[0].in.first_ns
                       : l->s->since_ns;
    }
    if (told && p->exit_ns < l->s->until_ns) {
        x.life_us = p->exit_ns > began_ns ? life_us(p->exit_ns, began_ns) : 0;
        x.flags |= p->have & INFO_EXIT_INFERRED ? WIRE_LIFE_END_INFERRED : 0;
        x.flags |= p->have & INFO_FINAL_TOTALS ? WIRE_LIFE_CPU_EXACT : 0;
    } else if (told) {
        x.life_us = WIRE_LIFE_LIVES; /* it ended behind the window */
        x.exit_code = WIRE_LIFE_NOT_KNOWN;
    } else if (!life_end_by_samples(l, &x, boot, inst, began_ns, p->have & INFO_EXITED)) {
        return ERR_OK;
    }
    memcpy(&x.boot, boot->b, sizeof x.boot);
    x.start_us = life_us(began_ns, l->axis.t0_ns);
    life_cpu(l, &x, inst);
    named = lives_name(l, p->name, &x.name) && lives_name(l, p->user, &x.user);
    l->all++;
    if (!(x.flags & WIRE_LIFE_START_UNKNOWN)) {
        lives_count(l, named ? &l->names[x.name] : NULL, false, began_ns);
    }
    if (told) {
        lives_count(l, named ? &l->names[x.name] : NULL, true, p->exit_ns);
    }
    if (named) {
        lives_keep(l, &x);
    }
    return ERR_OK;
}

/* -- one host -- */

static enum err lives_look(struct lives *l)
{
    return l->since_look++ % LIVES_EACH == 0 && deadline_passed(l->q->env->deadline) ? ERR_TIMEOUT
                                                                                     : ERR_OK;
}

static enum err lives_announced(void *ctx, const struct uuid *boot, const struct proc_info *info)
{
    struct lives *l = ctx;
    struct query_inst *inst = query_table_find(&l->table, boot, info->id);
    enum err e = lives_look(l);

    if (inst) {
        inst->order = 1;
    }
    return e || !query_wants(l->q, info->id, info) ? e : life_add(l, boot, info->id, info, inst);
}

/* One that was sampled in the window and not announced as alive in it: it ended just before, and
 * the sample with its last figures came in the window; or nobody ever announced it. */
static enum err lives_only_sampled(struct lives *l, const struct query_inst *inst)
{
    const struct uuid *boot = &l->table.boots[inst->boot];
    struct proc_info known;
    bool is_known = store_info_brief(l->q->env->view, l->s->host, boot, inst->id, &known);

    if (is_known && known.have & INFO_EXIT_TIME && known.exit_ns < l->s->since_ns) {
        return ERR_OK;
    }
    return query_wants(l->q, inst->id, is_known ? &known : NULL)
               ? life_add(l, boot, inst->id, is_known ? &known : NULL, inst)
               : ERR_OK;
}

static enum err lives_nameless(struct lives *l)
{
    struct query_table *t = &l->table;
    struct proc_key keys[64];
    enum err e = ERR_OK;

    for (size_t i = 0; !e && i < t->cap;) {
        const struct query_inst *found[sizeof keys / sizeof *keys];
        size_t n = 0;

        for (; i < t->cap && n < sizeof keys / sizeof *keys; i++) {
            const struct query_inst *inst = t->slots[i];

            if (inst && !inst->hidden && !inst->order && life_is_sampled(l, inst)) {
                keys[n] = (struct proc_key){inst->id, t->boots[inst->boot]};
                found[n++] = inst;
            }
        }
        store_info_want(l->q->env->view, l->s->host, keys, n);
        for (size_t k = 0; !e && k < n; k++) {
            e = lives_look(l);
            e = e ? e : lives_only_sampled(l, found[k]);
        }
    }
    return e;
}

static enum err lives_fill(struct lives *l)
{
    const struct query_reach reach = {
        .since_ns = l->s->since_ns, .before_ns = QUERY_LOOKBACK_NS, .range_only = true};
    const struct store_used used = l->q->used;
    enum err e;

    l->table.n_metrics = 1;
    e = query_table_fill(&l->table, l->s, &reach);
    if (e == ERR_FULL) { /* too many for figures: who was there, and how long */
        memcpy(l->q->used.windows, used.windows, sizeof used.windows);
        l->table.n_metrics = 0;
        e = query_table_fill(&l->table, l->s, &reach);
    }
    return e;
}

static enum err lives_host(struct lives *l, struct query_span *s)
{
    const struct store_instances ask = {.since_ns = s->since_ns,
                                        .until_ns = s->until_ns,
                                        .has_pid = l->q->ask->has_pid,
                                        .pid = l->q->ask->pid,
                                        .start = l->q->ask->start,
                                        .brief = true};
    uint32_t host;
    enum err e = query_host_index(l->q, s, &host);

    l->s = s;
    e = e ? e : lives_fill(l);
    e = e ? e : store_info_each(l->q->env->view, s->host, &ask, lives_announced, l);
    return e ? e : lives_nameless(l);
}

/* -- order, and parents -- */

static int life_by_start(const void *a, const void *b)
{
    const struct life *x = a, *y = b;

    if (x->start_us != y->start_us) {
        return x->start_us < y->start_us ? -1 : 1;
    }
    if (x->span != y->span) {
        return x->span < y->span ? -1 : 1;
    }
    if (x->pid != y->pid) {
        return x->pid < y->pid ? -1 : 1;
    }
    return x->start != y->start ? (x->start < y->start ? -1 : 1) : 0;
}

/* By identity, of one pid by start. */
static int life_by_who(const void *a, const void *b)
{
    const struct life *x = *(const struct life *const *)a, *y = *(const struct life *const *)b;

    if (x->span != y->span) {
        return x->span < y->span ? -1 : 1;
    }
    if (x->boot != y->boot) {
        return x->boot < y->boot ? -1 : 1;
    }
    if (x->pid != y->pid) {
        return x->pid < y->pid ? -1 : 1;
    }
    return x->start_us != y->start_us ? (x->start_us < y->start_us ? -1 : 1) : 0;
}

/* The parent among those in `who`, which are in that order; NULL: it is not there, or said to have
 * begun after its child. Without its start, the newest of its pid before the child. */
static const struct life *life_parent(const struct life *const *who, size_t n, const struct life *x)
{
    struct life key = {.span = x->span, .boot = x->boot, .pid = x->parent_pid};
    const struct life *wanted = &key;
    size_t i;

    key.start_us = x->start_us;
    SEARCH_LOWER(i, n, life_by_who(&who[i], &wanted) <= 0);
    for (unsigned k = 0; x->has_parent && i > 0 && k < LIVES_SAME_PID; i--, k++) {
        const struct life *p = who[i - 1];

        if (p->span != key.span || p->boot != key.boot || p->pid != key.pid) {
            return NULL;
        }
        if (p != x && (!x->parent_start || p->start == x->parent_start)) {
            return p;
        }
    }
    return NULL;
}

struct lives_order {
    const struct life **who;
    uint32_t *parent; /* index in the list + 1 */
    uint32_t *row;    /* where the life of this index comes + 1; UINT32_MAX: waits for its parent */
    uint32_t *list;   /* indices in their final order */
    uint32_t *waiting;
    size_t n;
};

/* Gives the life its place, behind its ancestors. A circle is cut where it closes. */
static void lives_place(struct lives_order *o, uint32_t i)
{
    size_t n = 0;

    for (uint32_t at = i; !o->row[at];) {
        o->row[at] = UINT32_MAX;
        o->waiting[n++] = at;
        if (!o->parent[at]) {
            break;
        }
        at = o->parent[at] - 1;
    }
    while (n > 0) {
        o->list[o->n++] = o->waiting[--n];
        o->row[o->waiting[n]] = (uint32_t)o->n;
    }
}

static enum err lives_sort(struct lives *l, struct lives_order *o)
{
    struct arena *a = &l->q->out->memory;

    o->who = arena_array(a, l->n, sizeof *o->who);
    o->parent = arena_array(a, l->n, sizeof *o->parent);
    o->row = arena_array(a, l->n, sizeof *o->row);
    o->list = arena_array(a, l->n, sizeof *o->list);
    o->waiting = arena_array(a, l->n, sizeof *o->waiting);
    if (!o->who || !o->parent || !o->row || !o->list || !o->waiting) {
        return ERR_FULL;
    }
    if (l->n) {
        qsort(l->list, l->n, sizeof *l->list, life_by_start);
    }
    for (size_t i = 0; i < l->n; i++) {
        o->who[i] = &l->list[i];
    }
    if (l->n) {
        qsort(o->who, l->n, sizeof *o->who, life_by_who);
    }
    for (size_t i = 0; i < l->n; i++) {
        const struct life *p = life_parent(o->who, l->n, &l->list[i]);

        o->parent[i] = p ? (uint32_t)(p - l->list) + 1 : 0;
    }
    for (uint32_t i = 0; i < l->n; i++) {
        lives_place(o, i);
    }
    return ERR_OK;
}

/* -- the answer -- */

struct lives_columns {
    int64_t *start_us, *life_us, *parent, *exit_code, *cpu_us;
    uint32_t *host, *name, *user, *pid, *flags;
    uint64_t *start;
};

static enum err lives_room(struct arena *a, struct lives_columns *c, size_t n)
{
    uint32_t *small = arena_array(a, n, 5 * sizeof *small);
    int64_t *wide = arena_array(a, n, 6 * sizeof *wide);

    if (!small || !wide) {
        return ERR_FULL;
    }
    *c = (struct lives_columns){.start_us = wide,
                                .life_us = wide + n,
                                .parent = wide + 2 * n,
                                .exit_code = wide + 3 * n,
                                .cpu_us = wide + 4 * n,
                                .host = small,
                                .name = small + n,
                                .user = small + 2 * n,
                                .pid = small + 3 * n,
                                .flags = small + 4 * n,
                                .start = (uint64_t *)(wide + 5 * n)};
    return ERR_OK;
}

/* The name's index in the answer, which has those that are used. */
static uint32_t lives_send_name(struct life_name *x, struct str *names, struct wire_lifetimes *out)
{
    if (!x->sent) {
        names[out->n_names++] = x->text;
        x->sent = (uint32_t)out->n_names;
    }
    return x->sent - 1;
}

static enum err lives_rows(struct lives *l, struct wire_lifetimes *out, struct str *names)
{
    struct lives_order o = {.n = 0};
    struct lives_columns c = {0};
    enum err e = lives_room(&l->q->out->memory, &c, l->n);

    e = e ? e : lives_sort(l, &o);
    for (size_t i = 0; !e && i < l->n; i++) {
        const struct life *x = &l->list[o.list[i]];
        uint32_t parent = o.parent[o.list[i]];

        c.start_us[i] = x->start_us;
        c.life_us[i] = x->life_us;
        c.parent[i] = parent && o.row[parent - 1] <= i ? o.row[parent - 1]
                      : x->has_parent                  ? -(int64_t)x->parent_pid
                                                       : 0;
        c.exit_code[i] = x->exit_code;
        c.cpu_us[i] = x->cpu_us;
        c.host[i] = l->q->spans[x->span].answer;
        c.name[i] = lives_send_name(&l->names[x->name], names, out);
        c.user[i] = lives_send_name(&l->names[x->user], names, out);
        c.pid[i] = x->pid;
        c.flags[i] = x->flags;
        c.start[i] = x->start;
    }
    out->n = l->n;
    out->start_us = c.start_us;
    out->life_us = c.life_us;
    out->parent = c.parent;
    out->exit_code = c.exit_code;
    out->cpu_us = c.cpu_us;
    out->host = c.host;
    out->name = c.name;
    out->user = c.user;
    out->pid = c.pid;
    out->flags = c.flags;
    out->start = c.start;
    out->left_out = l->all - l->n;
    return e;
}

static int image_by_told(const void *a, const void *b)
{
    const struct life_name *x = *(struct life_name *const *)a, *y = *(struct life_name *const *)b;
    size_t n = x->text.n < y->text.n ? x->text.n : y->text.n;
    int d = memcmp(x->text.p, y->text.p, n);

    if (x->told != y->told) {
        return x->told > y->told ? -1 : 1;
    }
    return d ? d : (x->text.n > y->text.n) - (x->text.n < y->text.n);
}

static enum err lives_images(struct lives *l, struct wire_lifetimes *out, struct str *names)
{
    struct arena *a = &l->q->out->memory;
    size_t n = 0, most = l->axis.n ? LIVES_IMAGES_SENT / l->axis.n : 0;
    struct life_name **order = arena_array(a, l->n_names, sizeof *order);
    struct wire_lifetimes_image *images = arena_array(a, WIRE_LIFE_IMAGES_MAX, sizeof *images);

    if (!order || !images) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < l->n_names; i++) {
        if (l->names[i].told) {
            order[n++] = &l->names[i];
        }
    }
    if (n) {
        qsort(order, n, sizeof(struct life_name *), image_by_told);
    }
    most = most < WIRE_LIFE_IMAGES_MAX ? most : WIRE_LIFE_IMAGES_MAX;
    for (size_t i = 0; i < n && i < most; i++) {
        images[i] = (struct wire_lifetimes_image){lives_send_name(order[i], names, out),
                                                  order[i]->starts, order[i]->ends};
        out->n_images++;
    }
    out->images = images;
    return ERR_OK;
}

/* What of each host arrived, as far as there is room for it beside the lives. */
static enum err lives_cover(struct lives *l, struct wire_lifetimes *out)
{
    struct query *q = l->q;
    struct wire_coverage *all = arena_array(&q->out->memory, q->n_spans, sizeof *all);
    struct query_ledger *ledger = arena_array(&q->out->memory, 1, sizeof *ledger);
    struct query_quiet *quiet = arena_array(&q->out->memory, 1, sizeof *quiet);
    size_t bytes = (l->axis.n + 7u) / 8u;
    uint8_t *bits = NULL;
    enum err e = all && ledger && quiet ? ERR_OK : ERR_FULL;

    out->n_measured = q->n_spans * bytes <= WIRE_LIFE_MEASURED_MAX ? q->n_spans : 0;
    if (!e && out->n_measured) {
        bits = arena_array(&q->out->memory, q->n_spans, bytes);
        out->measured = bits;
        e = bits ? ERR_OK : ERR_FULL;
    }
    for (size_t i = 0; !e && i < q->n_spans; i++) {
        query_quiet_init(quiet, &q->spans[i], query_buckets_quiet_least(&l->axis));
        e = query_cover_scan_quiet(q, &q->spans[i], ledger, quiet);
        if (!e) {
            query_buckets_cover(&l->axis, &q->spans[i], ledger, quiet, NULL,
                                bits ? bits + q->spans[i].answer * bytes : NULL);
        }
        if (!e && query_fits(q, NULL, ledger->n_spans * 64)) {
            e = query_cover_host(q, &q->spans[i], &all[q->out->data.n_coverage++], ledger);
        }
    }
    q->out->data.coverage = all;
    query_buckets_end(&l->axis);
    return e;
}

static enum err lives_answer(struct lives *l)
{
    struct query *q = l->q;
    struct wire_lifetimes *out = arena_array(&q->out->memory, 1, sizeof *out);
    struct str *names = arena_array(&q->out->memory, l->n_names, sizeof *names);
    enum err e = out && names ? ERR_OK : ERR_FULL;

    e = e ? e : lives_rows(l, out, names);
    e = e ? e : lives_images(l, out, names);
    if (!e) {
        q->bytes += l->n * LIVES_ROW_BYTES;
        e = lives_cover(l, out);
    }
    if (!e) {
        out->t0_ns = l->axis.t0_ns;
        out->step_ns = l->axis.step_ns;
        out->n_buckets = l->axis.n;
        out->present = l->axis.present;
        out->hosts_in = l->axis.hosts_in;
        out->starts = l->starts;
        out->ends = l->ends;
        out->names = names;
        q->out->data.lifetimes = out;
        q->out->data.n_metrics = 0; /* there are no rows */
    }
    return e;
}

/* As many as the question wants, and as fit beside hosts, names and density. */
static enum err lives_max(struct lives *l)
{
    const struct query *q = l->q;
    size_t other = LIVES_NAMES_MAX + 3 * 3 * LIVES_IMAGES_SENT + q->n_spans * 160;

    if (q->ask->max > WIRE_LIVES_MAX) {
        return errmsg_set(q->why, ERR_INVALID, "at most %u processes in one answer",
                          WIRE_LIVES_MAX);
    }
    if (q->n_spans > WIRE_ROWS_MAX) {
        return errmsg_set(q->why, ERR_INVALID, "lifetimes are of at most %u hosts at once",
                          WIRE_ROWS_MAX);
    }
    l->max = (QUERY_REPLY_MAX - other) / LIVES_ROW_BYTES;
    l->max = l->max < WIRE_LIVES_MAX ? l->max : WIRE_LIVES_MAX;
    if (l->max > (q->ask->max ? q->ask->max : WIRE_LIVES_DEFAULT)) {
        l->max = q->ask->max ? q->ask->max : WIRE_LIVES_DEFAULT;
    }
    return ERR_OK;
}

static enum err lives_begin(struct lives *l)
{
    struct arena *a = &l->q->out->memory;
    enum err e = lives_max(l);

    if (e) {
        return e;
    }
    if (os_random(&l->seed, sizeof l->seed)) {
        l->seed = (uint64_t)l->q->env->now_ns;
    }
    l->list = arena_array(a, l->max, sizeof *l->list);
    l->names = arena_array(a, WIRE_LIFE_NAMES_MAX + 1, sizeof *l->names);
    l->starts = arena_array(a, l->axis.n, sizeof *l->starts);
    l->ends = arena_array(a, l->axis.n, sizeof *l->ends);
    return l->list && l->names && l->starts && l->ends ? ERR_OK : ERR_FULL;
}

enum err query_lifetimes(struct query *q)
{
    static const uint8_t cpu_time[] = {M_CPU_TIME};
    const struct wire_query *given = q->ask;
    struct wire_query ask = *given;
    struct lives l = {.q = q};
    enum err e;

    ask.n_metrics = 0;
    q->ask = &ask;
    e = query_plan(q, cpu_time, sizeof cpu_time, WIRE_ROWS_MAX);
    e = e ? e : query_buckets_plan(&l.axis, q);
    e = e ? e : lives_begin(&l);
    query_table_init(&l.table, q);
    l.table.brief = l.table.presence = l.table.all = true;
    for (size_t i = 0; !e && i < q->n_spans; i++) {
        e = lives_host(&l, &q->spans[i]);
    }
    query_table_fini(&l.table);
    map_fini(&l.by_text);
    e = e ? e : lives_answer(&l);
    q->ask = given;
    return e;
}
