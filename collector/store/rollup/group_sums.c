#include "collector/store/rollup/group_sums.h"

#include <stdlib.h>

#include "common/base/cur.h"

#define FORMAT      1u
#define GROUP_LEAST 2u                  /* bytes of a group */
#define SAMPLES_MAX (UINT64_C(1) << 48) /* of one group in a window */

/* -- making -- */

/* A summary, read row by row: where the row's cells are. */
struct sums_rows {
    const struct tier *t;
    size_t at;
    const struct cell *cells[METRIC_COLS];
};

static metric_mask sums_mask(const struct sums_rows *r)
{
    return r->t->rows[r->at].mask & GROUP_SUMS_METRICS;
}

static void sums_rows_next(struct sums_rows *r)
{
    for (struct metric_mask_walk each = metric_mask_walk(sums_mask(r));
         metric_mask_walk_next(&each);) {
        r->cells[each.id] += r->t->rows[r->at].n_buckets;
    }
    r->at++;
}

static int sums_order(struct proc_id a, struct proc_id b)
{
    if (a.pid != b.pid) {
        return a.pid < b.pid ? -1 : 1;
    }
    return (a.start > b.start) - (a.start < b.start);
}

/* One row a process, of one boot; every column is there. */
static bool sums_are_plain(const struct tier *t, struct sums_rows *r)
{
    metric_mask masks = 0;

    *r = (struct sums_rows){.t = t};
    if (t->n_parts != 1 || t->bucket_ns != TIER_WINDOW_NS) {
        return false;
    }
    for (size_t i = 0; i < t->n_rows; i++) {
        if (t->rows[i].instances || t->rows[i].n_buckets != 1 ||
            (i && sums_order(t->rows[i - 1].id, t->rows[i].id) >= 0)) {
            return false;
        }
        masks |= t->rows[i].mask & GROUP_SUMS_METRICS;
    }
    for (struct metric_mask_walk each = metric_mask_walk(masks); metric_mask_walk_next(&each);) {
        r->cells[each.id] = t->columns[each.id];
        if (!(t->metrics & METRIC_BIT(each.id))) {
            return false;
        }
    }
    return true;
}

static int by_group(const void *a, const void *b)
{
    const struct group_sums_group *x = a, *y = b;
    const struct str pair[2][2] = {{x->name, y->name}, {x->user, y->user}};

    for (unsigned i = 0; i < 2; i++) {
        struct str s = pair[i][0], t = pair[i][1];
        size_t n = s.n < t.n ? s.n : t.n;
        int d = n ? memcmp(s.p, t.p, n) : 0;

        if (d || s.n != t.n) {
            return d ? d : s.n < t.n ? -1 : 1;
        }
    }
    return 0;
}

static enum err sums_groups(struct group_sums *s, struct arena *memory, const struct tier *now)
{
    struct group_sums_group *list = arena_array(memory, now->n_rows, sizeof *list);
    size_t n = 0;

    if (!list) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < now->n_rows; i++) {
        if (now->rows[i].id.pid != 0) {
            list[n++] =
                (struct group_sums_group){.name = now->rows[i].name, .user = now->rows[i].user};
        }
    }
    if (n) {
        qsort(list, n, sizeof *list, by_group);
    }
    for (size_t i = 0; i < n; i++) {
        if (s->n == 0 || by_group(&list[s->n - 1], &list[i]) != 0) {
            list[s->n++] = list[i];
        }
    }
    s->groups = list;
    return ERR_OK;
}

/* Adds the cell of a process to its group; false: the sums would not say what single ones do.
 * before: NULL: it began in this window */
static bool sums_add(struct group_sums_part *part, bool counter, const struct cell *c,
                     const struct cell *before)
{
    int64_t from = before ? before->last : 0, value = c->sum;

    if (!c->count || (before && !before->count) || part->count + c->count > SAMPLES_MAX) {
        return false;
    }
    if (counter && (c->last < from || __builtin_sub_overflow(c->last, from, &value))) {
        return false;
    }
    part->count += counter ? 1 : c->count;
    return !__builtin_add_overflow(part->sum, value, &part->sum);
}

/* The row's process goes into its group; was: its row in the window before, or NULL. */
static bool sums_row(struct group_sums *s, const struct sums_rows *now, const struct sums_rows *was,
                     struct group_sums_part *const *parts)
{
    const struct tier_row *row = &now->t->rows[now->at];
    const struct tier_row *old = was ? &was->t->rows[was->at] : NULL;
    const struct group_sums_group key = {.name = row->name, .user = row->user};
    const struct group_sums_group *group;
    size_t at;

    if (row->fresh == (was != NULL) || !row->name.n ||
        (old && (!str_eq(old->name, row->name) || !str_eq(old->user, row->user) ||
                 sums_mask(was) != sums_mask(now)))) {
        return false;
    }
    group = bsearch(&key, s->groups, s->n, sizeof key, by_group);
    at = (size_t)(group - s->groups);
    for (struct metric_mask_walk each = metric_mask_walk(sums_mask(now));
         metric_mask_walk_next(&each);) {
        const struct cell *c = now->cells[each.id];

        if (!sums_add(&parts[each.id][at], tier_is_counter(each.id), c,
                      was ? was->cells[each.id] : NULL)) {
            return false;
        }
        parts[each.id][at].n_new += was == NULL;
        if (c->count > s->ticks[each.id]) {
            s->ticks[each.id] = c->count;
            s->most[each.id] = row->id;
        }
    }
    return true;
}

enum err group_sums_make(struct group_sums *out, struct arena *memory, const struct tier *now,
                         const struct tier *before, const int64_t before_ns[2])
{
    struct group_sums_part *parts[METRIC_COLS] = {NULL};
    struct group_sums s = {.before_t0_ns = before_ns[0],
                           .before_t1_ns = before_ns[1],
                           .metrics = now->metrics & GROUP_SUMS_METRICS};
    struct sums_rows r, was;
    enum err e;

    if (!sums_are_plain(now, &r) || !sums_are_plain(before, &was) ||
        memcmp(now->parts->boot.b, before->parts->boot.b, sizeof now->parts->boot.b) != 0 ||
        before->buckets->last_wall_ns >= now->buckets->first_wall_ns) {
        return ERR_NOTFOUND;
    }
    s.t0_ns = now->buckets->first_wall_ns;
    s.t1_ns = now->buckets->last_wall_ns;
    e = sums_groups(&s, memory, now);
    for (struct metric_mask_walk each = metric_mask_walk(s.metrics);
         !e && metric_mask_walk_next(&each);) {
        parts[each.id] = arena_array(memory, s.n, sizeof *parts[each.id]);
        s.parts[each.id] = parts[each.id];
        e = parts[each.id] ? ERR_OK : ERR_FULL;
    }
    for (; !e && r.at < now->n_rows; sums_rows_next(&r)) {
        struct proc_id id = now->rows[r.at].id;
        bool found;

        while (was.at < before->n_rows && sums_order(before->rows[was.at].id, id) < 0) {
            sums_rows_next(&was);
        }
        found = was.at < before->n_rows && sums_order(before->rows[was.at].id, id) == 0;
        if (id.pid != 0 && !sums_row(&s, &r, found ? &was : NULL, parts)) {
            return ERR_NOTFOUND;
        }
    }
    if (!e) {
        *out = s;
    }
    return e;
}

/* -- bytes -- */

static void sums_put_text(struct buf *out, struct str s)
{
    buf_put_varint(out, s.n);
    buf_put(out, s.p, s.n);
}

static void sums_put_column(struct buf *out, const struct group_sums *s, unsigned metric)
{
    const struct group_sums_part *p = s->parts[metric];
    struct buf body;

    buf_init(&body, s->n * 30 + 1);
    for (size_t i = 0; i < s->n; i++) {
        buf_put_varint(&body, p[i].count);
        if (p[i].count) {
            buf_put_svarint(&body, p[i].sum);
            buf_put_varint(&body, p[i].n_new);
        }
    }
    buf_put_u8(out, (uint8_t)metric);
    buf_put_varint(out, s->ticks[metric]);
    buf_put_varint(out, s->most[metric].pid);
    buf_put_varint(out, s->most[metric].start);
    buf_put_varint(out, body.n);
    buf_put(out, body.p, body.n);
    out->bad = out->bad ? out->bad : body.bad;
    buf_fini(&body);
}

void group_sums_put(struct buf *out, const struct group_sums *s)
{
    buf_put_u8(out, FORMAT);
    buf_put_svarint(out, s->t0_ns);
    buf_put_varint(out, (uint64_t)s->t1_ns - (uint64_t)s->t0_ns);
    buf_put_svarint(out, s->before_t0_ns);
    buf_put_varint(out, (uint64_t)s->before_t1_ns - (uint64_t)s->before_t0_ns);
    buf_put_varint(out, s->n);
    for (size_t i = 0; i < s->n; i++) {
        sums_put_text(out, s->groups[i].name);
        sums_put_text(out, s->groups[i].user);
    }
    for (struct metric_mask_walk each = metric_mask_walk(s->metrics);
         metric_mask_walk_next(&each);) {
        sums_put_column(out, s, each.id);
    }
}

static struct str sums_get_text(struct cur *c)
{
    uint64_t n = cur_varint(c);
    const uint8_t *p = n <= MODEL_TEXT_MAX ? cur_bytes(c, (size_t)n) : NULL;

    c->bad |= !p;
    return (struct str){(const char *)p, p ? (size_t)n : 0};
}

static enum err sums_get_groups(struct cur *c, struct group_sums *s, struct arena *memory)
{
    uint64_t n = cur_varint(c);
    struct group_sums_group *list;

    if (c->bad || n > cur_left(c) / GROUP_LEAST) {
        return ERR_CORRUPT;
    }
    list = arena_array_unset(memory, (size_t)n, sizeof *list);
    if (!list) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < n; i++) {
        list[i].name = sums_get_text(c);
        list[i].user = sums_get_text(c);
        if (c->bad || (i && by_group(&list[i - 1], &list[i]) >= 0)) {
            return ERR_CORRUPT;
        }
    }
    s->groups = list;
    s->n = (size_t)n;
    return ERR_OK;
}

static enum err sums_get_column(struct cur *c, struct group_sums *s, struct arena *memory,
                                unsigned metric)
{
    struct group_sums_part *list = arena_array_unset(memory, s->n, sizeof *list);

    if (!list) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < s->n; i++) {
        list[i].count = cur_varint(c);
        list[i].sum = list[i].count ? cur_svarint(c) : 0;
        list[i].n_new = list[i].count ? cur_varint(c) : 0;
        if (c->bad || list[i].count > SAMPLES_MAX || list[i].n_new > list[i].count) {
            return ERR_CORRUPT;
        }
    }
    s->parts[metric] = list;
    s->metrics |= METRIC_BIT(metric);
    return cur_left(c) ? ERR_CORRUPT : ERR_OK;
}

enum err group_sums_get(struct group_sums *out, struct arena *memory, metric_mask metrics,
                        const void *p, size_t n)
{
    struct cur c = cur_make(p, n);
    struct group_sums s = {.n = 0};
    uint8_t format = cur_u8(&c);
    unsigned least = 0;
    enum err e;

    if (c.bad || format != FORMAT) {
        return c.bad || !format ? ERR_CORRUPT : ERR_VERSION;
    }
    s.t0_ns = cur_svarint(&c);
    s.t1_ns = (int64_t)((uint64_t)s.t0_ns + cur_varint(&c));
    s.before_t0_ns = cur_svarint(&c);
    s.before_t1_ns = (int64_t)((uint64_t)s.before_t0_ns + cur_varint(&c));
    if (c.bad || s.t1_ns < s.t0_ns || s.before_t1_ns < s.before_t0_ns) {
        return ERR_CORRUPT;
    }
    e = sums_get_groups(&c, &s, memory);
    while (!e && cur_left(&c)) {
        unsigned metric = cur_u8(&c);
        uint64_t ticks = cur_varint(&c), pid = cur_varint(&c), start = cur_varint(&c);
        uint64_t length = cur_varint(&c);
        const uint8_t *body = length <= n ? cur_bytes(&c, (size_t)length) : NULL;
        struct cur column = cur_make(body, body ? (size_t)length : 0);

        if (!body || metric >= METRIC_COLS || metric < least || ticks > SAMPLES_MAX ||
            pid > UINT32_MAX) {
            return ERR_CORRUPT;
        }
        s.most[metric] = (struct proc_id){(uint32_t)pid, start};
        least = metric + 1;
        s.ticks[metric] = ticks;
        if (metrics & METRIC_BIT(metric)) {
            e = sums_get_column(&column, &s, memory, metric);
        }
    }
    if (!e) {
        *out = s;
    }
    return e;
}
