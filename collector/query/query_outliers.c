/* Outliers: which hosts used much more or less of a metric than the others of their class
 * (common/lab/outlier.h), in total or by image.
 *
 * Every host is read once in steps of a sixth of the window; what its processes did is added up in
 * entries, one for each host and image (one for each host without images). Entries are sorted by
 * class and image, and each such group is judged. Of the hosts that are told the window is read
 * once more: which image most of it is of.
 *
 * A counter's value is its growth; a gauge's the mean of what all processes together had at the
 * host's ticks. Hosts of which less than COVERAGE_LEAST arrived are counted and not judged: they
 * would be outliers for what is missing.
 *
 * Memory: ENTRIES_MAX entries. */
#include "collector/query/query_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/query/query_cover.h"
#include "collector/query/query_history.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/lab/outlier.h"
#include "common/wire/wire_outliers.h"

#define ENTRIES_MAX    (1u << 20)
#define NAMES_MAX      (1u << 18)
#define LIMIT          100u
#define COVERAGE_LEAST 990000u /* ppm */
#define HOUR_NS        (3600 * CLK_S)
#define HOURS_FROM_NS  (3 * HOUR_NS) /* steps of so much and more are whole hours */
#define DIFFERS_MAX    300u          /* bytes */
#define FACTS          20u /* of the inventory, those of INVENTORY_TEXTS and INVENTORY_NUMBERS */

static const uint8_t outlier_metrics[] = {M_CPU_TIME};

/* Texts, each with a number. */
struct names {
    struct map map;
    struct str *list; /* in the answer's memory */
    size_t n, cap;
};

/* What one host did, of one image. */
struct entry {
    uint32_t span, image, class;
    double value, parts[OUTLIER_PARTS];
};

/* The same while the host is read. */
struct image_sum {
    uint32_t image;
    int64_t sum[OUTLIER_PARTS];
};

struct found {
    const struct entry *entry;
    struct outlier o;
    uint32_t class_row;
};

struct outliers {
    struct query *q;
    bool by_image, gauge;
    int64_t step_ns;
    struct names images, classes; /* class 0: unknown */
    uint32_t *local;              /* of each image its sum of this host + 1; NAMES_MAX */
    struct image_sum *sums;
    size_t n_sums, cap_sums;
    uint64_t ticks[OUTLIER_PARTS];
    uint32_t *class_of; /* of each span */
    bool *thin;         /* likewise: too little arrived */
    struct entry *entries;
    size_t n, cap;
    struct found *found;
    size_t n_found, cap_found;
    struct wire_outlier_class *rows; /* of classes that were judged */
    size_t n_rows, cap_rows;
};

/* -- names -- */

static enum err names_number(struct names *x, struct arena *a, struct str name, uint32_t *out)
{
    uint64_t place, key = hash_bytes(name.p, name.n, 0);
    enum err e;

    for (; (place = map_get(&x->map, key)) != 0; key++) {
        if (str_eq(x->list[place - 1], name)) {
            *out = (uint32_t)(place - 1);
            return ERR_OK;
        }
    }
    e = map_reserve(&x->map);
    e = e ? e : VEC_ROOM(&x->list, &x->cap, x->n + 1, NAMES_MAX);
    if (e) {
        return e;
    }
    x->list[x->n].p = arena_dup(a, name.p, name.n);
    x->list[x->n].n = name.n;
    if (!x->list[x->n].p) {
        return ERR_FULL;
    }
    *out = (uint32_t)x->n++;
    (void)map_put(&x->map, key, x->n);
    return ERR_OK;
}

static void names_fini(struct names *x)
{
    map_fini(&x->map);
    mem_free(x->list);
}

/* -- reading -- */

static enum err sum_of(struct outliers *x, const struct query_step *step)
{
    const struct proc_info *info = step->inst->info;
    struct proc_info known = {.have = 0};
    uint32_t image = 0;
    enum err e = ERR_OK;

    if (x->by_image && !info && step->boot) {
        (void)store_info_brief(x->q->env->view, step->span->host, step->boot, step->inst->id,
                               &known);
    }
    if (x->by_image) {
        e = names_number(&x->images, &x->q->out->memory, info ? info->name : known.name, &image);
    }
    if (!e && !x->local[image]) {
        e = VEC_ROOM(&x->sums, &x->cap_sums, x->n_sums + 1, NAMES_MAX);
        if (!e) {
            x->sums[x->n_sums++] = (struct image_sum){.image = image};
            x->local[image] = (uint32_t)x->n_sums;
        }
    }
    if (!e) {
        *step->tag = x->local[image];
    }
    return e;
}

/* The last part has what the window has of a seventh step: steps begin on whole ones. */
static size_t part_of(const struct outliers *x, const struct query_span *s, int64_t slot_ns)
{
    int64_t first_ns = s->since_ns - s->since_ns % x->step_ns;
    int64_t part = (slot_ns - first_ns) / x->step_ns;

    return part < 0 ? 0 : part < (int64_t)OUTLIER_PARTS ? (size_t)part : OUTLIER_PARTS - 1;
}

static enum err outliers_step(void *ctx, const struct query_step *step)
{
    struct outliers *x = ctx;
    const struct query_spread *s = &step->spreads[0];
    size_t part = part_of(x, step->span, step->slot_ns);
    struct image_sum *to;
    enum err e;

    if (x->gauge && !step->inst->instances && s->count > x->ticks[part]) {
        x->ticks[part] = s->count;
    }
    if (!(x->gauge ? s->count > 0 : (step->grew & 1) != 0) ||
        (!step->inst->instances && !query_wants(x->q, step->inst->id, step->inst->info))) {
        return ERR_OK;
    }
    e = *step->tag ? ERR_OK : sum_of(x, step);
    if (e) {
        return e;
    }
    to = &x->sums[*step->tag - 1];
    to->sum[part] = cell_sum(to->sum[part], x->gauge ? s->sum : step->growth[0]);
    return ERR_OK;
}

/* Of gauges parts have the mean of a tick, and the whole the mean of the parts. */
static void entry_fill(const struct outliers *x, struct entry *to, const struct image_sum *from)
{
    double all = 0, ticks = 0;

    for (size_t p = 0; p < OUTLIER_PARTS; p++) {
        double v = (double)(from->sum[p] > 0 ? from->sum[p] : 0);

        all += v;
        ticks += (double)x->ticks[p];
        to->parts[p] = !x->gauge ? v : x->ticks[p] ? v / (double)x->ticks[p] : (double)NAN;
    }
    to->value = !x->gauge ? all : ticks > 0 ? all / ticks : 0;
}

static enum err outliers_host(void *ctx, const struct query_span *s)
{
    struct outliers *x = ctx;
    size_t span = (size_t)(s - x->q->spans);
    struct query_ledger ledger;
    enum err e = query_cover_scan(x->q, s, &ledger);

    x->thin[span] = x->q->covers[span].ppm < COVERAGE_LEAST || x->q->covers[span].missing;
    e = e ? e
          : names_number(&x->classes, &x->q->out->memory, query_class(x->q, query_facts(x->q, s)),
                         &x->class_of[span]);
    for (size_t i = 0; !e && i < x->n_sums && !x->thin[span]; i++) {
        e = VEC_ROOM(&x->entries, &x->cap, x->n + 1, ENTRIES_MAX);
        if (!e) {
            struct entry *to = &x->entries[x->n++];

            *to = (struct entry){(uint32_t)span, x->sums[i].image, x->class_of[span], 0, {0}};
            entry_fill(x, to, &x->sums[i]);
        }
    }
    for (size_t i = 0; i < x->n_sums; i++) {
        x->local[x->sums[i].image] = 0;
    }
    x->n_sums = 0;
    memset(x->ticks, 0, sizeof x->ticks);
    return e;
}

/* A sixth of the window. Of long ones in whole hours: these are read from the sums of hours, a
 * twelfth of the windows, and the last part is the longer or shorter for it. */
static int64_t step_of(int64_t window_ns)
{
    int64_t step_ns = window_ns / OUTLIER_PARTS;

    if (step_ns >= HOURS_FROM_NS) {
        step_ns += HOUR_NS / 2;
        return step_ns - step_ns % HOUR_NS;
    }
    step_ns -= step_ns % CLK_S;
    return step_ns > CLK_S ? step_ns : CLK_S;
}

static enum err outliers_read(struct outliers *x)
{
    struct query_history_steps steps = {
        .each = outliers_step, .host_done = outliers_host, .ctx = x};
    int64_t longest_ns = 0;

    for (size_t i = 0; i < x->q->n_spans; i++) {
        int64_t ns = clk_sub(x->q->spans[i].until_ns, x->q->spans[i].since_ns);

        longest_ns = ns > longest_ns ? ns : longest_ns;
    }
    x->step_ns = step_of(longest_ns);
    steps.hours = true;
    steps.step_ns = x->step_ns;
    steps.nameless = steps.unnamed = !x->by_image && x->q->ask->name.n == 0;
    steps.told = x->by_image && x->q->ask->name.n == 0;
    return query_history_steps(x->q, &steps);
}

/* -- judging -- */

static int entry_order(const void *pa, const void *pb)
{
    const struct entry *a = pa, *b = pb;

    if (a->class != b->class) {
        return a->class < b->class ? -1 : 1;
    }
    if (a->image != b->image) {
        return a->image < b->image ? -1 : 1;
    }
    return (a->span > b->span) - (a->span < b->span);
}

static size_t group_end(const struct outliers *x, size_t i)
{
    size_t k = i;

    while (k < x->n && x->entries[k].class == x->entries[i].class &&
           x->entries[k].image == x->entries[i].image) {
        k++;
    }
    return k;
}

static uint32_t class_thin(const struct outliers *x, uint32_t class)
{
    uint32_t n = 0;

    for (size_t i = 0; i < x->q->n_spans; i++) {
        n += x->class_of[i] == class && x->thin[i];
    }
    return n;
}

static enum err class_add(struct outliers *x, const struct entry *first, size_t n,
                          const struct outlier_class *c)
{
    enum err e = VEC_ROOM(&x->rows, &x->cap_rows, x->n_rows + 1, WIRE_OUTLIER_CLASSES);

    if (!e) {
        x->rows[x->n_rows++] = (struct wire_outlier_class){
            .name = x->classes.list[first->class],
            .image = x->by_image ? x->images.list[first->image] : str_make(""),
            .hosts = c->judged ? (uint32_t)n : 0,
            .not_judged = class_thin(x, first->class) + (c->judged ? 0 : (uint32_t)n),
            .median = (int64_t)c->median,
            .spread_ppm = c->spread > 4000 ? UINT32_MAX : (uint32_t)(c->spread * 1e6 + 0.5)};
    }
    return e;
}

/* Entries [from, to) are of one class and image. */
static enum err group_judge(struct outliers *x, size_t from, size_t to, size_t tests,
                            struct outlier *list, double *room)
{
    size_t n = to - from, before = x->n_found;
    struct outlier_class c;
    enum err e = ERR_OK;

    for (size_t i = 0; i < n; i++) {
        list[i].value = x->entries[from + i].value;
        memcpy(list[i].parts, x->entries[from + i].parts, sizeof list[i].parts);
    }
    outlier_judge(&c, list, x->entries[from].class ? n : 0, tests, room);
    for (size_t i = 0; !e && i < n && c.judged; i++) {
        if (list[i].is_one) {
            e = VEC_ROOM(&x->found, &x->cap_found, x->n_found + 1, ENTRIES_MAX);
            if (!e) {
                x->found[x->n_found++] =
                    (struct found){&x->entries[from + i], list[i], (uint32_t)x->n_rows};
            }
        }
    }
    if (!e && (!x->by_image || x->n_found > before)) {
        e = class_add(x, &x->entries[from], n, &c);
    }
    return e;
}

/* Classes of which too little arrived from every host. */
static enum err thin_classes_add(struct outliers *x)
{
    size_t judged = x->n_rows;
    enum err e = ERR_OK;

    for (uint32_t c = 0; !e && c < x->classes.n; c++) {
        const struct entry none = {.class = c};
        bool there = class_thin(x, c) == 0;

        for (size_t i = 0; i < judged && !there; i++) {
            there = str_eq(x->rows[i].name, x->classes.list[c]);
        }
        if (!there) {
            e = class_add(x, &none, 0, &(struct outlier_class){.judged = false});
        }
    }
    return e;
}

static enum err outliers_judge(struct outliers *x)
{
    size_t n = x->q->n_spans, tests = 0, end;
    struct outlier *list = mem_array(n + 1, sizeof *list);
    double *room = mem_array(2 * n + 2, sizeof *room);
    enum err e = list && room ? ERR_OK : ERR_NOMEM;

    if (x->n) {
        qsort(x->entries, x->n, sizeof *x->entries, entry_order);
    }
    for (size_t i = 0; i < x->n; i = end) {
        end = group_end(x, i);
        tests += x->entries[i].class && end - i >= OUTLIER_HOSTS_MIN ? end - i : 0;
    }
    for (size_t i = 0; !e && i < x->n; i = end) {
        end = group_end(x, i);
        e = group_judge(x, i, end, tests, list, room);
    }
    mem_free(list);
    mem_free(room);
    return e || x->by_image ? e : thin_classes_add(x);
}

/* -- in what they differ -- */

/* The i-th fact as text, the label of a key; empty: not known. */
static struct str fact_text(const struct facts *f, unsigned i, const char **name, char text[24])
{
    const struct inventory *in = &f->inventory;
    const struct {
        const char *name;
        struct str text;
        uint64_t number;
    } all[] = {
#define TEXT(fact)   {#fact, in->fact, 0},
#define NUMBER(fact) {#fact, {NULL, 0}, in->fact},
        INVENTORY_TEXTS(TEXT) INVENTORY_NUMBERS(NUMBER)
#undef TEXT
#undef NUMBER
    };
    _Static_assert(sizeof all / sizeof *all == FACTS, "one for each");

    *name = all[i].name;
    if (!all[i].number) {
        return all[i].text;
    }
    (void)snprintf(text, 24, "%" PRIu64, all[i].number);
    return str_make(text);
}

static struct str label_text(const struct facts *f, struct str key)
{
    for (size_t i = 0; i < f->n_labels; i++) {
        if (str_eq(f->labels[i].key, key)) {
            return f->labels[i].value;
        }
    }
    return str_make("");
}

/* Of the other hosts of the class: the value that more than half of them have, in `out`. */
struct votes {
    const struct outliers *x;
    uint32_t class;
    unsigned fact; /* FACTS: the label */
    struct str label;
};

static struct str vote_value(const struct votes *v, const struct facts *f, char text[24])
{
    const char *name;

    return v->fact < FACTS ? fact_text(f, v->fact, &name, text) : label_text(f, v->label);
}

/* Boyer and Moore's candidate, then counted. */
static bool votes_most(const struct votes *v, char out[64], size_t *n_out)
{
    const struct query *q = v->x->q;
    size_t lead = 0, same = 0, all = 0;
    char text[24];

    *n_out = 0;
    for (unsigned pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < q->n_spans; i++) {
            const struct facts *f = q->spans[i].facts;
            struct str s = {NULL, 0};

            if (v->x->class_of[i] != v->class || !f) {
                continue;
            }
            s = vote_value(v, f, text);
            s.n = s.n < 64 ? s.n : 64;
            if (pass) {
                same += s.n == *n_out && memcmp(s.p ? s.p : "", out, s.n) == 0;
                all++;
            } else if (!lead) {
                memcpy(out, s.p ? s.p : "", s.n);
                *n_out = s.n;
                lead = 1;
            } else if (s.n == *n_out && memcmp(s.p ? s.p : "", out, s.n) == 0) {
                lead++;
            } else {
                lead--;
            }
        }
    }
    return same * 2 > all;
}

static void differs_one(struct buf *b, const struct votes *v, const char *kind, struct str name,
                        const struct facts *f)
{
    char text[24], most[64];
    struct str own = vote_value(v, f, text);
    size_t n;

    if (b->n > DIFFERS_MAX / 2 || !votes_most(v, most, &n) ||
        (own.n == n && memcmp(own.p ? own.p : "", most, n) == 0)) {
        return;
    }
    buf_printf(b, "%s%s%.*s=%.*s (others %.*s)", b->n ? ", " : "", kind, (int)name.n, name.p,
               own.n ? (int)(own.n < 64 ? own.n : 64) : 1, own.n ? own.p : "-", n ? (int)n : 1,
               n ? most : "-");
}

static void differs_labels(struct buf *b, struct votes *v, const struct facts *of,
                           const struct facts *own, bool own_has)
{
    v->fact = FACTS;
    for (size_t i = 0; i < of->n_labels; i++) {
        v->label = of->labels[i].key;
        if ((label_text(own, v->label).n > 0) == own_has) {
            differs_one(b, v, "label ", v->label, own);
        }
    }
}

static enum err differs_make(const struct outliers *x, const struct entry *en, struct str *out)
{
    const struct facts *f = x->q->spans[en->span].facts, *other = NULL;
    struct votes v = {.x = x, .class = en->class};
    struct buf b;

    *out = str_make("");
    if (!f) {
        return ERR_OK;
    }
    buf_init(&b, 4096);
    differs_labels(&b, &v, f, f, true);
    for (size_t i = 0; i < x->q->n_spans && !other; i++) {
        other = x->class_of[i] == en->class && i != en->span ? x->q->spans[i].facts : NULL;
    }
    if (other) { /* labels that it lacks */
        differs_labels(&b, &v, other, f, false);
    }
    for (v.fact = 0; v.fact < FACTS; v.fact++) {
        const char *name;
        char text[24];

        (void)fact_text(f, v.fact, &name, text);
        differs_one(&b, &v, "", str_make(name), f);
    }
    out->n = b.n < DIFFERS_MAX ? b.n : DIFFERS_MAX;
    out->p = arena_dup(&x->q->out->memory, b.p, out->n);
    buf_fini(&b);
    return out->p ? ERR_OK : ERR_FULL;
}

/* -- most of it -- */

static enum err most_done(void *ctx, const struct query_span *s)
{
    (void)ctx;
    (void)s;
    return ERR_OK;
}

/* Reads the host once more, by images. */
static enum err most_find(struct outliers *x, uint32_t span, struct wire_outlier *out)
{
    struct query one = *x->q;
    struct outliers again = {.q = &one, .by_image = true, .gauge = x->gauge, .local = x->local};
    const struct query_history_steps steps = {.step_ns = x->step_ns,
                                              .told = x->q->ask->name.n == 0,
                                              .hours = true,
                                              .each = outliers_step,
                                              .host_done = most_done,
                                              .ctx = &again};
    enum err e;

    again.step_ns = x->step_ns;
    one.spans += span;
    one.covers += span;
    one.n_spans = 1;
    e = query_history_steps(&one, &steps);
    for (size_t i = 0; i < again.n_sums; i++) {
        struct entry en;

        entry_fill(&again, &en, &again.sums[i]);
        if (!e && en.value > (double)out->most_value) {
            out->most_value = (int64_t)en.value;
            out->most = again.images.list[again.sums[i].image];
        }
        x->local[again.sums[i].image] = 0;
    }
    names_fini(&again.images);
    mem_free(again.sums);
    return e;
}

/* -- the answer -- */

static int found_order(const void *pa, const void *pb)
{
    const struct found *a = pa, *b = pb;
    double x = fabs(a->o.z), y = fabs(b->o.z);

    return x != y ? (x < y ? 1 : -1) : entry_order(a->entry, b->entry);
}

static int64_t rounded(double v, double least, double most)
{
    return (int64_t)(v < least ? least : v > most ? most : v);
}

static enum err outlier_row(struct outliers *x, const struct found *f, struct wire_row *row,
                            struct wire_outlier *out)
{
    struct query_span *s = &x->q->spans[f->entry->span];
    int64_t *value = arena_alloc(&x->q->out->memory, sizeof *value);
    enum err e = value ? query_host_index(x->q, s, &row->host) : ERR_FULL;

    if (e) {
        return e;
    }
    *value = (int64_t)f->entry->value;
    row->values = value;
    row->have = 1;
    row->when_ns = s->until_ns;
    row->info.name = x->by_image ? x->images.list[f->entry->image] : str_make("");
    *out = (struct wire_outlier){.class = f->class_row,
                                 .times_milli =
                                     (uint32_t)rounded(f->o.times * 1000 + 0.5, 0, UINT32_MAX),
                                 .z_milli = (int32_t)rounded(f->o.z * 1000, INT32_MIN, INT32_MAX),
                                 .parts = (uint8_t)f->o.parts_out};
    e = differs_make(x, f->entry, &out->differs);
    return e || x->by_image ? e : most_find(x, f->entry->span, out);
}

static enum err outliers_answer(struct outliers *x)
{
    struct arena *a = &x->q->out->memory;
    size_t n = x->n_found < x->q->limit ? x->n_found : x->q->limit;
    struct wire_row *rows = arena_array(a, n, sizeof *rows);
    struct wire_outlier *list = arena_array(a, n, sizeof *list);
    struct wire_outliers *out = arena_alloc(a, sizeof *out);
    enum err e = rows && list && out ? ERR_OK : ERR_FULL;

    if (x->n_found) {
        qsort(x->found, x->n_found, sizeof *x->found, found_order);
    }
    for (size_t i = 0; !e && i < n; i++) {
        if (!query_fits(x->q, NULL, DIFFERS_MAX + 2 * MODEL_TEXT_MAX)) {
            n = i;
            break;
        }
        e = outlier_row(x, &x->found[i], &rows[i], &list[i]);
    }
    if (!e) {
        out->n_classes = x->n_rows;
        out->classes = arena_dup(a, x->rows, x->n_rows * sizeof *x->rows);
        out->rows = list;
        x->q->out->data.rows = rows;
        x->q->out->data.n_rows = n;
        x->q->out->data.outliers = out;
        e = out->classes ? ERR_OK : ERR_FULL;
    }
    return e;
}

static enum err outliers_check(struct outliers *x)
{
    struct query *q = x->q;
    const struct metric *m = metric_by_id(q->out->data.metrics[0]);

    x->gauge = m->kind == METRIC_GAUGE;
    x->by_image = q->ask->group_by == WIRE_GROUP_IMAGE;
    q->out->data.n_metrics = 1;
    if (q->ask->n_metrics > 1) {
        return errmsg_set(q->why, ERR_INVALID, "outliers are of one metric");
    }
    if (m->id == M_CPU_PERCENT) {
        return errmsg_set(q->why, ERR_INVALID, "cpu_percent is a rate: ask for cpu_time");
    }
    if (!x->by_image && q->ask->group_by != WIRE_GROUP_NONE &&
        q->ask->group_by != WIRE_GROUP_HOST) {
        return errmsg_set(q->why, ERR_INVALID, "outliers are hosts, or images on hosts");
    }
    return ERR_OK;
}

enum err query_outliers(struct query *q)
{
    struct outliers x = {.q = q};
    uint32_t none;
    enum err e = query_plan(q, outlier_metrics, sizeof outlier_metrics, LIMIT);

    e = e ? e : outliers_check(&x);
    if (e) {
        return e;
    }
    x.local = mem_array(NAMES_MAX, sizeof *x.local);
    x.class_of = arena_array(&q->out->memory, q->n_spans, sizeof *x.class_of);
    x.thin = arena_array(&q->out->memory, q->n_spans, sizeof *x.thin);
    e = x.local && x.class_of && x.thin ? ERR_OK : ERR_NOMEM;
    if (!e) {
        e = names_number(&x.classes, &q->out->memory, str_make(""), &none);
    }
    e = e ? e : names_number(&x.images, &q->out->memory, str_make(""), &none);
    e = e ? e : outliers_read(&x);
    e = e ? e : outliers_judge(&x);
    e = e ? e : outliers_answer(&x);
    names_fini(&x.images);
    names_fini(&x.classes);
    mem_free(x.local);
    mem_free(x.sums);
    mem_free(x.entries);
    mem_free(x.found);
    mem_free(x.rows);
    return e;
}
