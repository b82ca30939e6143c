/* Coarser buckets from finer ones, and folding.
 *
 * Parts of the same boot that follow each other become one part, so that a row may go on over the
 * borders of windows; a part that overlaps another (late data) stays by itself. Rows are chained
 * where the host had no tick between them and the mask is the same; a chain is a row of the result.
 * Then the short-lived are taken out and added up by name. Cells are joined metric by metric. */
#include "collector/store/rollup/tier.h"

#include <stdlib.h>

#include "collector/store/rollup/tier_shape.h"

/* A part of one of the tiers that go in. */
struct part_in {
    size_t tier, part, order;
    uint32_t out;      /* part of the result */
    uint32_t place;    /* among those that became it */
    uint32_t *buckets; /* of the result, for each of its own */
};

/* An exact row of one of them. */
struct piece {
    const struct part_in *in;
    const struct tier_row *row;
    size_t tier, index;
};

/* A row of the result: pieces one after the other. */
struct chain {
    size_t first, n; /* in pieces */
    struct tier_row row;
    bool folds;
};

/* One bucket of one chain that folds, or a row that is folded already. */
struct item {
    struct str name, user;
    uint32_t part, bucket;
    const struct chain *chain; /* NULL: */
    size_t tier, index;        /* of a folded row */
    uint32_t nth;              /* bucket of the chain */
    metric_mask mask;
    uint32_t instances;
    int64_t first_ns, last_ns;
};

struct joining {
    struct arena *memory;
    const struct tier *tiers;
    size_t n;
    int64_t bucket_ns;
    bool fold;
    struct tier *t;
    size_t n_parts, n_pieces, n_chains, n_items;
    struct part_in *parts;
    struct part_in **part_of; /* of each tier: its first, in the order of the tier */
    struct piece *pieces;
    struct chain *chains;
    struct item *items;
    size_t **at; /* of each tier: where each row's cells begin in the column at hand */
    struct cell *scratch;
};

static const struct tier_bucket *bucket_of(const struct joining *j, const struct part_in *in,
                                           size_t i)
{
    const struct tier *t = &j->tiers[in->tier];

    return &t->buckets[t->parts[in->part].first_bucket + i];
}

static uint32_t n_buckets_of(const struct joining *j, const struct part_in *in)
{
    return j->tiers[in->tier].parts[in->part].n_buckets;
}

/* What the row has of the columns that are there. */
static metric_mask mask_of(const struct joining *j, size_t tier, const struct tier_row *row)
{
    return row->mask & j->tiers[tier].metrics;
}

/* -- parts and buckets -- */

static enum err list_parts(struct joining *j)
{
    for (size_t i = 0; i < j->n; i++) {
        j->n_parts += j->tiers[i].n_parts;
    }
    j->parts = arena_array(j->memory, j->n_parts, sizeof *j->parts);
    j->part_of = arena_array(j->memory, j->n, sizeof *j->part_of);
    if (!j->parts || !j->part_of) {
        return ERR_FULL;
    }
    j->n_parts = 0;
    for (size_t i = 0; i < j->n; i++) {
        j->part_of[i] = &j->parts[j->n_parts];
        for (size_t p = 0; p < j->tiers[i].n_parts; p++) {
            struct part_in *in = &j->parts[j->n_parts];

            in->tier = i;
            in->part = p;
            in->order = j->n_parts++;
            in->buckets = arena_array(j->memory, n_buckets_of(j, in), sizeof(uint32_t));
            if (!in->buckets) {
                return ERR_FULL;
            }
        }
    }
    return ERR_OK;
}

struct part_key {
    int64_t first_ns;
    struct part_in *in;
};

static int by_first(const void *a, const void *b)
{
    const struct part_key *x = a, *y = b;

    if (x->first_ns != y->first_ns) {
        return x->first_ns < y->first_ns ? -1 : 1;
    }
    return x->in->order < y->in->order ? -1 : 1;
}

/* The result's newest part of that boot, if it ends before `in` begins; else n_parts. */
static size_t part_to_extend(const struct joining *j, const struct tier_part *parts,
                             const struct part_key *ends, const struct part_in *in)
{
    const struct uuid *boot = &j->tiers[in->tier].parts[in->part].boot;
    const struct tier_bucket *first = bucket_of(j, in, 0);

    for (size_t p = j->t->n_parts; p-- > 0;) {
        if (memcmp(parts[p].boot.b, boot->b, sizeof boot->b) == 0) {
            const struct part_in *tail = ends[p].in;
            const struct tier_bucket *last = bucket_of(j, tail, n_buckets_of(j, tail) - 1);

            return last->last_wall_ns < first->first_wall_ns &&
                           last->last_mono_ns < first->last_mono_ns - first->span_mono_ns
                       ? p
                       : j->t->n_parts;
        }
    }
    return j->t->n_parts;
}

/* Which part of the result each becomes. */
static enum err assign_parts(struct joining *j)
{
    struct part_key *keys = arena_array(j->memory, j->n_parts, sizeof *keys);
    struct part_key *ends = arena_array(j->memory, j->n_parts, sizeof *ends);
    struct tier_part *parts = arena_array(j->memory, j->n_parts, sizeof *parts);
    size_t n = 0;

    if (!keys || !ends || !parts) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < j->n_parts; i++) {
        if (n_buckets_of(j, &j->parts[i])) {
            keys[n++] =
                (struct part_key){bucket_of(j, &j->parts[i], 0)->first_wall_ns, &j->parts[i]};
        }
    }
    if (n) {
        qsort(keys, n, sizeof *keys, by_first);
    }
    for (size_t i = 0; i < n; i++) {
        struct part_in *in = keys[i].in;
        size_t p = part_to_extend(j, parts, ends, in);

        if (p == j->t->n_parts) {
            parts[p].boot = j->tiers[in->tier].parts[in->part].boot;
            j->t->n_parts++;
            in->place = 0;
        } else {
            in->place = ends[p].in->place + 1;
        }
        in->out = (uint32_t)p;
        ends[p].in = in;
    }
    j->t->parts = parts;
    return ERR_OK;
}

static int by_place(const void *a, const void *b)
{
    const struct part_in *x = *(struct part_in *const *)a, *y = *(struct part_in *const *)b;

    if (x->out != y->out) {
        return x->out < y->out ? -1 : 1;
    }
    return x->place < y->place ? -1 : x->place > y->place;
}

static int64_t begin_of(const struct joining *j, const struct tier_bucket *b)
{
    int64_t rest;

    if (!j->bucket_ns) {
        return b->first_wall_ns;
    }
    rest = b->begin_ns % j->bucket_ns;
    return b->begin_ns - (rest < 0 ? rest + j->bucket_ns : rest);
}

/* Adds bucket b to the result's bucket `to`, of which it is the first when it has no ticks. */
static void bucket_add(struct tier_bucket *to, const struct tier_bucket *b, bool first_of_part)
{
    if (to->ticks == 0) {
        to->first_wall_ns = b->first_wall_ns;
        to->span_mono_ns = b->span_mono_ns;
        if (!first_of_part) { /* the bucket before is of the same part */
            to->span_mono_ns = cell_growth(to[-1].last_mono_ns, b->last_mono_ns);
        }
    } else {
        to->span_mono_ns =
            cell_sum(to->span_mono_ns, cell_growth(to->last_mono_ns, b->last_mono_ns));
    }
    to->ticks += b->ticks;
    to->last_wall_ns = b->last_wall_ns;
    to->last_mono_ns = b->last_mono_ns;
}

static enum err join_buckets(struct joining *j)
{
    struct part_in **order = arena_array(j->memory, j->n_parts, sizeof *order);
    struct tier_part *parts = (struct tier_part *)j->t->parts;
    struct tier_bucket *out;
    size_t n = 0, n_order = 0;

    for (size_t i = 0; i < j->n_parts; i++) {
        n += n_buckets_of(j, &j->parts[i]);
    }
    out = arena_array(j->memory, n, sizeof *out);
    if (!order || !out) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < j->n_parts; i++) {
        if (n_buckets_of(j, &j->parts[i])) {
            order[n_order++] = &j->parts[i];
        }
    }
    if (n_order) {
        qsort(order, n_order, sizeof(struct part_in *), by_place);
    }
    n = 0;
    for (size_t i = 0; i < n_order; i++) {
        struct part_in *in = order[i];
        struct tier_part *part = &parts[in->out];

        if (in->place == 0) {
            part->first_bucket = (uint32_t)n;
        }
        for (uint32_t k = 0; k < n_buckets_of(j, in); k++) {
            const struct tier_bucket *b = bucket_of(j, in, k);
            bool first = part->n_buckets == 0;

            if (first || (j->bucket_ns && begin_of(j, b) != out[n - 1].begin_ns)) {
                out[n++] = (struct tier_bucket){.part = in->out, .begin_ns = begin_of(j, b)};
                part->n_buckets++;
            }
            bucket_add(&out[n - 1], b, part->n_buckets == 1);
            in->buckets[k] = (uint32_t)(n - 1);
        }
    }
    j->t->buckets = out;
    j->t->n_buckets = n;
    return ERR_OK;
}

/* -- rows -- */

static int by_row(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;

    if (x->in->out != y->in->out) {
        return x->in->out < y->in->out ? -1 : 1;
    }
    if (x->row->id.pid != y->row->id.pid) {
        return x->row->id.pid < y->row->id.pid ? -1 : 1;
    }
    if (x->row->id.start != y->row->id.start) {
        return x->row->id.start < y->row->id.start ? -1 : 1;
    }
    return x->row->first_ns < y->row->first_ns ? -1 : x->row->first_ns > y->row->first_ns;
}

static enum err list_pieces(struct joining *j)
{
    size_t n = 0;

    for (size_t i = 0; i < j->n; i++) {
        n += j->tiers[i].n_rows;
    }
    j->pieces = arena_array(j->memory, n, sizeof *j->pieces);
    j->chains = arena_array(j->memory, n, sizeof *j->chains);
    if (!j->pieces || !j->chains) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < j->n; i++) {
        const struct tier *t = &j->tiers[i];

        for (size_t r = 0; r < t->n_rows && t->rows[r].instances == 0; r++) {
            j->pieces[j->n_pieces++] =
                (struct piece){j->part_of[i] + t->rows[r].part, &t->rows[r], i, r};
        }
    }
    if (j->n_pieces) {
        qsort(j->pieces, j->n_pieces, sizeof *j->pieces, by_row);
    }
    return ERR_OK;
}

static bool same_instance(const struct piece *a, const struct piece *b)
{
    return a->in->out == b->in->out && proc_id_eq(a->row->id, b->row->id);
}

/* Whether b goes on where a stops, without a tick of the host between. */
static bool goes_on(const struct joining *j, const struct piece *a, const struct piece *b)
{
    return same_instance(a, b) && mask_of(j, a->tier, a->row) == mask_of(j, b->tier, b->row) &&
           b->in->place == a->in->place + 1 &&
           a->row->last_ns == bucket_of(j, a->in, n_buckets_of(j, a->in) - 1)->last_wall_ns &&
           b->row->first_ns == bucket_of(j, b->in, 0)->first_wall_ns;
}

/* The result's bucket of the piece's nth. */
static uint32_t piece_bucket(const struct joining *j, const struct piece *p, uint32_t nth)
{
    return p->in
        ->buckets[p->row->first_bucket - j->tiers[p->tier].parts[p->in->part].first_bucket + nth];
}

static uint32_t piece_count(const struct joining *j, const struct piece *p, uint32_t nth)
{
    const struct tier_row *r = p->row;

    if (nth == 0) {
        return r->first_count;
    }
    return nth + 1 == r->n_buckets ? r->last_count
                                   : j->tiers[p->tier].buckets[r->first_bucket + nth].ticks;
}

static void chain_row(const struct joining *j, struct chain *c)
{
    const struct piece *first = &j->pieces[c->first], *last = first + c->n - 1;
    struct tier_row *row = &c->row;

    *row = *first->row;
    row->mask = mask_of(j, first->tier, first->row);
    row->part = first->in->out;
    row->first_bucket = piece_bucket(j, first, 0);
    row->n_buckets = piece_bucket(j, last, last->row->n_buckets - 1) - row->first_bucket + 1;
    row->last_ns = last->row->last_ns;
    row->first_count = row->last_count = 0;
    for (const struct piece *p = first; p <= last; p++) {
        for (uint32_t i = 0; i < p->row->n_buckets; i++) {
            uint32_t at = piece_bucket(j, p, i) - row->first_bucket, n = piece_count(j, p, i);

            row->first_count += at == 0 ? n : 0;
            row->last_count += at + 1 == row->n_buckets ? n : 0;
        }
        row->ended |= p->row->ended;
        row->name = p->row->name.n ? p->row->name : row->name;
        row->user = p->row->user.n ? p->row->user : row->user;
    }
}

/* Began and ended inside, lived less than a bucket, and this is all of it. */
static bool chain_folds(const struct joining *j, const struct chain *c)
{
    const struct piece *first = &j->pieces[c->first], *last = first + c->n - 1;
    const struct tier_row *row = &c->row;

    return j->fold && row->fresh && row->ended && row->name.n &&
           row->last_ns - row->first_ns < j->bucket_ns &&
           (c->first == 0 || !same_instance(first - 1, first)) &&
           (last + 1 == j->pieces + j->n_pieces || !same_instance(last, last + 1));
}

static void make_chains(struct joining *j)
{
    for (size_t i = 0; i < j->n_pieces;) {
        struct chain *c = &j->chains[j->n_chains++];

        c->first = i;
        c->n = 1;
        while (i + c->n < j->n_pieces &&
               goes_on(j, &j->pieces[i + c->n - 1], &j->pieces[i + c->n])) {
            c->n++;
        }
        i += c->n;
        chain_row(j, c);
        c->folds = chain_folds(j, c);
    }
}

/* -- folding -- */

static int text_order(struct str a, struct str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int d = n ? memcmp(a.p, b.p, n) : 0;

    return d ? d : a.n < b.n ? -1 : a.n > b.n;
}

static int item_order(const struct item *x, const struct item *y)
{
    int d = text_order(x->name, y->name);

    d = d ? d : text_order(x->user, y->user);
    if (d) {
        return d;
    }
    return x->bucket < y->bucket ? -1 : x->bucket > y->bucket;
}

static int by_item(const void *a, const void *b)
{
    return item_order(a, b);
}

static void chain_items(struct joining *j, const struct chain *c)
{
    for (uint32_t i = 0; i < c->row.n_buckets; i++) {
        const struct tier_bucket *b = &j->t->buckets[c->row.first_bucket + i];
        bool last = i + 1 == c->row.n_buckets;

        j->items[j->n_items++] = (struct item){
            .name = c->row.name,
            .user = c->row.user,
            .part = c->row.part,
            .bucket = c->row.first_bucket + i,
            .chain = c,
            .nth = i,
            .mask = c->row.mask,
            .instances = 1,
            .first_ns = i == 0 ? c->row.first_ns : b->first_wall_ns,
            .last_ns = last ? c->row.last_ns : b->last_wall_ns,
        };
    }
}

static void folded_items(struct joining *j, size_t tier)
{
    const struct tier *t = &j->tiers[tier];

    for (size_t r = 0; r < t->n_rows; r++) {
        const struct tier_row *row = &t->rows[r];
        const struct part_in *in = j->part_of[tier] + row->part;

        if (row->instances) {
            j->items[j->n_items++] = (struct item){
                .name = row->name,
                .user = row->user,
                .part = in->out,
                .bucket = in->buckets[row->first_bucket - t->parts[row->part].first_bucket],
                .tier = tier,
                .index = r,
                .mask = mask_of(j, tier, row),
                .instances = row->instances,
                .first_ns = row->first_ns,
                .last_ns = row->last_ns,
            };
        }
    }
}

static enum err list_items(struct joining *j)
{
    size_t n = 0;

    for (size_t c = 0; c < j->n_chains; c++) {
        n += j->chains[c].folds ? j->chains[c].row.n_buckets : 0;
    }
    for (size_t i = 0; i < j->n; i++) {
        for (size_t r = j->tiers[i].n_rows; r > 0 && j->tiers[i].rows[r - 1].instances; r--) {
            n++;
        }
    }
    j->items = arena_array(j->memory, n, sizeof *j->items);
    if (!j->items) {
        return ERR_FULL;
    }
    for (size_t c = 0; c < j->n_chains; c++) {
        if (j->chains[c].folds) {
            chain_items(j, &j->chains[c]);
        }
    }
    for (size_t i = 0; i < j->n; i++) {
        folded_items(j, i);
    }
    if (j->n_items) {
        qsort(j->items, j->n_items, sizeof *j->items, by_item);
    }
    return ERR_OK;
}

static enum err make_rows(struct joining *j)
{
    struct tier_row *rows = arena_array(j->memory, j->n_chains + j->n_items, sizeof *rows);
    size_t n = 0;

    if (!rows) {
        return ERR_FULL;
    }
    for (size_t c = 0; c < j->n_chains; c++) {
        if (!j->chains[c].folds) {
            rows[n++] = j->chains[c].row;
            j->t->metrics |= j->chains[c].row.mask;
        }
    }
    for (size_t i = 0; i < j->n_items; i++) {
        const struct item *it = &j->items[i];

        if (i == 0 || item_order(&j->items[i - 1], it) != 0) {
            rows[n++] = (struct tier_row){.part = it->part,
                                          .first_bucket = it->bucket,
                                          .n_buckets = 1,
                                          .first_ns = it->first_ns,
                                          .last_ns = it->last_ns,
                                          .name = it->name,
                                          .user = it->user};
        }
        rows[n - 1].instances += it->instances;
        rows[n - 1].mask |= it->mask;
        rows[n - 1].first_ns =
            it->first_ns < rows[n - 1].first_ns ? it->first_ns : rows[n - 1].first_ns;
        rows[n - 1].last_ns = it->last_ns > rows[n - 1].last_ns ? it->last_ns : rows[n - 1].last_ns;
        j->t->metrics |= it->mask;
    }
    j->t->rows = rows;
    j->t->n_rows = n;
    return ERR_OK;
}

/* -- cells -- */

static void find_cells(struct joining *j, unsigned metric)
{
    for (size_t i = 0; i < j->n; i++) {
        size_t at = 0;

        for (size_t r = 0; r < j->tiers[i].n_rows; r++) {
            j->at[i][r] = at;
            at += mask_of(j, i, &j->tiers[i].rows[r]) & METRIC_BIT(metric)
                      ? j->tiers[i].rows[r].n_buckets
                      : 0;
        }
    }
}

static void chain_cells(const struct joining *j, const struct chain *c, unsigned metric,
                        bool counter, struct cell *out)
{
    for (size_t i = c->first; i < c->first + c->n; i++) {
        const struct piece *p = &j->pieces[i];
        const struct cell *in = j->tiers[p->tier].columns[metric] + j->at[p->tier][p->index];

        for (uint32_t k = 0, end; k < p->row->n_buckets; k = end) {
            uint32_t bucket = piece_bucket(j, p, k);
            struct cell *to = &out[bucket - c->row.first_bucket];

            for (end = k + 1; end < p->row->n_buckets && piece_bucket(j, p, end) == bucket; end++) {
            }
            while (k < end && counter && to > out && !to->count) {
                *to = in[k++];
                cell_follow(to, to - 1);
            }
            cell_join_list(to, counter, in + k, end - k);
        }
    }
}

/* What one cell adds to a folded one; the first of an instance grew from zero. */
static void fold_cell(struct cell *to, bool counter, const struct cell *c, bool begins)
{
    struct cell f = {.count = c->count, .min = c->min, .max = c->max};

    f.first_ns = to->count && to->first_ns < c->first_ns ? to->first_ns : c->first_ns;
    f.last_ns = to->last_ns > c->last_ns ? to->last_ns : c->last_ns;
    f.sum = counter ? cell_growth(begins ? 0 : c->first, c->last) : c->sum;
    f.last = counter ? 0 : to->count && to->last_ns > c->last_ns ? to->last : c->last;
    if (counter && begins) {
        f.min = !cell_grew(c) || c->first < c->min ? c->first : c->min;
        f.max = !cell_grew(c) || c->first > c->max ? c->first : c->max;
    }
    if (to->count) {
        f.count += to->count;
        f.sum = cell_sum(f.sum, to->sum);
        f.min = to->min < f.min ? to->min : f.min;
        f.max = to->max > f.max ? to->max : f.max;
    }
    *to = f;
}

/* Cells that are folded already. */
static void fold_join(struct cell *to, bool counter, const struct cell *c)
{
    struct cell f = *c;

    if (to->count) {
        f.first_ns = to->first_ns < f.first_ns ? to->first_ns : f.first_ns;
        f.last = counter ? 0 : to->last_ns > f.last_ns ? to->last : f.last;
        f.last_ns = to->last_ns > f.last_ns ? to->last_ns : f.last_ns;
        f.count += to->count;
        f.sum = cell_sum(f.sum, to->sum);
        f.min = to->min < f.min ? to->min : f.min;
        f.max = to->max > f.max ? to->max : f.max;
    }
    *to = f;
}

static void item_cells(const struct joining *j, const struct item *it, unsigned metric,
                       bool counter, struct cell *to)
{
    if (!it->chain) {
        const struct cell *in = j->tiers[it->tier].columns[metric] + j->at[it->tier][it->index];

        if (in->count) {
            fold_join(to, counter, in);
        }
        return;
    }
    memset(j->scratch, 0, it->chain->row.n_buckets * sizeof *j->scratch);
    chain_cells(j, it->chain, metric, counter, j->scratch);
    fold_cell(to, counter, &j->scratch[it->nth], it->nth == 0);
}

static enum err join_column(struct joining *j, unsigned metric)
{
    bool counter = tier_is_counter(metric);
    metric_mask bit = METRIC_BIT(metric);
    struct cell *cells;
    size_t n = 0;

    for (size_t r = 0; r < j->t->n_rows; r++) {
        n += j->t->rows[r].mask & bit ? j->t->rows[r].n_buckets : 0;
    }
    cells = arena_array(j->memory, n, sizeof *cells);
    if (!cells) {
        return ERR_FULL;
    }
    j->t->columns[metric] = cells;
    j->t->n_cells[metric] = n;
    find_cells(j, metric);
    for (size_t c = 0; c < j->n_chains; c++) {
        const struct chain *chain = &j->chains[c];

        if (!chain->folds && (chain->row.mask & bit)) {
            chain_cells(j, chain, metric, counter, cells);
            cells += chain->row.n_buckets;
        }
    }
    for (size_t i = 0; i < j->n_items;) {
        const struct item *first = &j->items[i];
        bool any = false;

        for (; i < j->n_items && item_order(first, &j->items[i]) == 0; i++) {
            if (j->items[i].mask & bit) {
                item_cells(j, &j->items[i], metric, counter, cells);
                any = true;
            }
        }
        cells += any;
    }
    return ERR_OK;
}

static enum err join_columns(struct joining *j)
{
    size_t widest = 0;
    enum err e = ERR_OK;

    for (size_t c = 0; c < j->n_chains; c++) {
        uint32_t n = j->chains[c].folds ? j->chains[c].row.n_buckets : 0;

        widest = n > widest ? n : widest;
    }
    j->scratch = arena_array(j->memory, widest, sizeof *j->scratch);
    j->at = arena_array(j->memory, j->n, sizeof *j->at);
    if (!j->scratch || !j->at) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < j->n; i++) {
        j->at[i] = arena_array(j->memory, j->tiers[i].n_rows, sizeof(size_t));
        if (!j->at[i]) {
            return ERR_FULL;
        }
    }
    for (unsigned m = 0; !e && m < METRIC_COLS; m++) {
        if (j->t->metrics & METRIC_BIT(m)) {
            e = join_column(j, m);
        }
    }
    return e;
}

enum err tier_join(struct tier *out, struct arena *memory, const struct tier *tiers, size_t n,
                   int64_t bucket_ns, bool fold)
{
    struct tier t = {.bucket_ns = bucket_ns, .whole = true};
    struct joining j = {.memory = memory, .tiers = tiers, .n = n, .bucket_ns = bucket_ns, .t = &t};
    enum err e;

    for (size_t i = 0; i < n; i++) {
        t.whole &= tiers[i].whole;
    }
    j.fold = fold && t.whole && bucket_ns;
    e = list_parts(&j);
    e = e ? e : assign_parts(&j);
    e = e ? e : join_buckets(&j);
    e = e ? e : list_pieces(&j);
    if (e) {
        return e;
    }
    make_chains(&j);
    e = list_items(&j);
    e = e ? e : make_rows(&j);
    e = e ? e : join_columns(&j);
    if (!e) {
        *out = t;
    }
    return e;
}
