#include "collector/store/retention/retain.h"

#include "common/base/clk.h"
#include "common/base/mem.h"

#define H_NS   (3600 * CLK_S)
#define DAY_NS (24 * H_NS)

/* Where the list's segments of each kind are, and what the plan has taken of them so far. */
struct sweep {
    const struct retain_conf *conf;
    const struct manifest_list *l;
    bool *gone;                           /* by index of the list */
    size_t first[SEG_KINDS + 1];          /* of each kind; the last is the end */
    size_t at[SEG_KINDS];                 /* the oldest not gone, or behind the kind's last */
    uint64_t bytes[SEG_KINDS], all_bytes; /* of what is not gone */
    struct retain_plan *plan;
};

/* -- defaults -- */

static uint64_t percent(uint64_t of, unsigned n)
{
    return of / 100 * n;
}

static void default_shares(struct retain_conf *c)
{
    static const unsigned percents[SEG_KINDS] = {0, 25, 22, 35, 13, 5, 0};
    uint64_t left = c->total_bytes;
    unsigned parts = 0;

    for (unsigned k = SEG_RAW; k < SEG_KINDS; k++) {
        left -= c->share[k] < left ? c->share[k] : left;
        parts += c->share[k] ? 0 : percents[k];
    }
    for (unsigned k = SEG_RAW; k <= SEG_REST; k++) {
        if (c->share[k] == 0) {
            c->share[k] = left / parts * percents[k];
        }
    }
    /* Most collectors have none of them: the others' shares are as if there were none. */
    if (c->share[SEG_PROVIDER] == 0) {
        c->share[SEG_PROVIDER] = percent(c->total_bytes, 5);
    }
}

static void default_ages(struct retain_conf *c)
{
    static const int64_t hours[SEG_KINDS] = {0, 48, 5 * 24, 30 * 24, 90 * 24, 0, 7 * 24};
    int64_t longest = 0;

    for (unsigned k = SEG_RAW; k < SEG_REST; k++) {
        if (c->age_ns[k] == 0) {
            c->age_ns[k] = hours[k] * H_NS;
        }
        longest = c->age_ns[k] > longest ? c->age_ns[k] : longest;
    }
    if (c->age_ns[SEG_REST] == 0) {
        c->age_ns[SEG_REST] = longest;
    }
    if (c->age_ns[SEG_PROVIDER] == 0) {
        c->age_ns[SEG_PROVIDER] = hours[SEG_PROVIDER] * H_NS;
    }
}

void retain_defaults(struct retain_conf *conf, uint64_t disk_total)
{
    if (conf->total_bytes == 0) {
        conf->total_bytes = disk_total ? percent(disk_total, 80) : UINT64_MAX; /* unknown */
    }
    if (conf->disk_free_min == 0) {
        conf->disk_free_min = percent(disk_total, 5);
    }
    if (conf->disk_free_stop == 0) {
        conf->disk_free_stop = percent(disk_total, 2);
    }
    default_ages(conf);
    default_shares(conf);
}

/* -- dropping -- */

static int64_t end_of(const struct seg_info *s)
{
    return s->window_ns + s->span_ns;
}

static void take(struct sweep *w, size_t i, uint64_t *counts)
{
    const struct seg_info *s = manifest_segment(w->l, i);

    w->gone[i] = true;
    w->bytes[s->kind] -= s->bytes;
    w->all_bytes -= s->bytes;
    w->plan->bytes += s->bytes;
    w->plan->drop[w->plan->n++] = s->number;
    counts[s->kind]++;
}

/* The oldest of the kind that is not gone; NULL when all are. */
static const struct seg_info *oldest(struct sweep *w, unsigned kind)
{
    while (w->at[kind] < w->first[kind + 1] && w->gone[w->at[kind]]) {
        w->at[kind]++;
    }
    return w->at[kind] < w->first[kind + 1] ? manifest_segment(w->l, w->at[kind]) : NULL;
}

/* False: there is none. */
static bool take_oldest(struct sweep *w, unsigned kind, uint64_t *counts)
{
    if (!oldest(w, kind)) {
        return false;
    }
    take(w, w->at[kind], counts);
    return true;
}

/* Minutes that are not in their hour yet stay as long as the hour would. */
static int64_t age_of(const struct retain_conf *c, const struct seg_info *s)
{
    int64_t age = c->age_ns[s->kind];

    if (age == 0 || s->kind != SEG_1MIN || s->in_hour) {
        return age;
    }
    return c->age_ns[SEG_1H] == 0 || c->age_ns[SEG_1H] > age ? c->age_ns[SEG_1H] : age;
}

static void drop_old(struct sweep *w, int64_t now_ns)
{
    for (size_t i = w->first[SEG_RAW]; i < w->first[SEG_KINDS]; i++) {
        const struct seg_info *s = manifest_segment(w->l, i);
        int64_t age = age_of(w->conf, s);

        if (age && end_of(s) < now_ns - age) {
            take(w, i, w->plan->by_age);
        }
    }
}

static double fill(const struct sweep *w, unsigned kind)
{
    uint64_t share = w->conf->share[kind];

    return (double)w->bytes[kind] / (double)(share ? share : 1);
}

/* The kind with something left that is most over its share, or next to it; 0 = nothing is left. */
static unsigned fullest(struct sweep *w)
{
    unsigned most = 0;

    for (unsigned k = SEG_RAW; k < SEG_KINDS; k++) {
        if (oldest(w, k) && (most == 0 || fill(w, k) > fill(w, most))) {
            most = k;
        }
    }
    return most;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t used(const struct sweep *w, const struct retain_now *now)
{
    return add(w->all_bytes, add(now->other_bytes, now->coming_bytes));
}

static void drop_over(struct sweep *w, const struct retain_now *now)
{
    uint64_t total = w->conf->total_bytes;
    uint64_t wanted = now->wanted_bytes <= total / 4 ? now->wanted_bytes : 0;
    unsigned k;

    for (k = SEG_RAW; k < SEG_KINDS; k++) {
        while (w->bytes[k] > w->conf->share[k] && take_oldest(w, k, w->plan->by_bytes)) {
        }
    }
    while (add(used(w, now), wanted) > total && (k = fullest(w)) != 0) {
        take_oldest(w, k, w->plan->by_bytes);
    }
    w->plan->stop = used(w, now) > total;
}

/* Tiers and events of processes are small and say what happened when the rows are gone: they never
 * go for the disk's sake. Events of providers are as many as their programs write: they do. */
static void drop_for_disk(struct sweep *w, const struct retain_now *now)
{
    struct retain_plan *p = w->plan;

    if (now->disk_total == 0) {
        return;
    }
    while (add(now->disk_free, p->bytes) < add(w->conf->disk_free_min, now->coming_bytes) &&
           (take_oldest(w, SEG_RAW, p->by_disk) || take_oldest(w, SEG_PROVIDER, p->by_disk))) {
    }
    p->stop =
        p->stop || add(now->disk_free, p->bytes) < add(w->conf->disk_free_stop, now->coming_bytes);
}

/* The catalogue follows the events it is made of. */
static void plan_catalogue(struct sweep *w, int64_t now_ns)
{
    const struct seg_info *s = oldest(w, SEG_REST);
    int64_t first = s && s->window_ns < now_ns ? s->window_ns : now_ns;

    w->plan->catalogue_before_ns = first - ((first % DAY_NS) + DAY_NS) % DAY_NS;
}

/* -- what comes next -- */

static void next_is(struct sweep *w, unsigned kind, double in_ns)
{
    struct retain_plan *p = w->plan;
    const struct seg_info *s = oldest(w, kind);
    int64_t in = in_ns < (double)(INT64_MAX / 2) ? (int64_t)in_ns : INT64_MAX / 2;

    if (s && (p->next_kind == 0 || in < p->next_in_ns)) {
        p->next_kind = (uint8_t)kind;
        p->next_window_ns = s->window_ns;
        p->next_in_ns = in > 0 ? in : 0;
    }
}

/* Bytes per nanosecond, the mean over what is there. */
static double growth(struct sweep *w, unsigned kind)
{
    const struct seg_info *first = oldest(w, kind), *last;
    int64_t span;

    if (!first) {
        return 0;
    }
    last = manifest_segment(w->l, w->first[kind + 1] - 1);
    span = end_of(last) - first->window_ns;
    return span > 0 ? (double)w->bytes[kind] / (double)span : 0;
}

static void foresee(struct sweep *w, const struct retain_now *now)
{
    double all = 0;

    for (unsigned k = SEG_RAW; k < SEG_KINDS; k++) {
        const struct seg_info *s = oldest(w, k);
        double rate = growth(w, k);

        if (s && age_of(w->conf, s)) {
            next_is(w, k, (double)end_of(s) + (double)age_of(w->conf, s) - (double)now->now_ns);
        }
        if (s && rate > 0 && w->conf->share[k] >= w->bytes[k]) {
            next_is(w, k, (double)(w->conf->share[k] - w->bytes[k]) / rate);
        }
        all += rate;
    }
    if (all > 0 && w->conf->total_bytes >= used(w, now)) {
        next_is(w, fullest(w), (double)(w->conf->total_bytes - used(w, now)) / all);
    }
    if (now->disk_total && all > 0 && oldest(w, SEG_RAW)) {
        uint64_t have = add(now->disk_free, w->plan->bytes);
        uint64_t least = add(w->conf->disk_free_min, now->coming_bytes);

        next_is(w, SEG_RAW, have > least ? (double)(have - least) / all : 0);
    }
}

/* -- the plan -- */

static void sweep_init(struct sweep *w, const struct retain_conf *conf,
                       const struct manifest_list *l)
{
    *w = (struct sweep){.conf = conf, .l = l};
    for (unsigned k = SEG_RAW; k < SEG_KINDS; k++) {
        w->first[k] = w->at[k] = manifest_lower(l, k, INT64_MIN);
    }
    w->first[SEG_KINDS] = manifest_segments(l);
    for (size_t i = w->first[SEG_RAW]; i < w->first[SEG_KINDS]; i++) {
        const struct seg_info *s = manifest_segment(l, i);

        w->bytes[s->kind] += s->bytes;
        w->all_bytes += s->bytes;
    }
}

enum err retain_plan(struct retain_plan *out, const struct retain_conf *conf,
                     const struct manifest_list *l, const struct retain_now *now)
{
    size_t n = manifest_segments(l);
    struct retain_plan plan = {0};
    struct sweep w;

    sweep_init(&w, conf, l);
    w.plan = &plan;
    w.gone = mem_array(n ? n : 1, sizeof *w.gone);
    plan.drop = mem_array(n ? n : 1, sizeof *plan.drop);
    if (!w.gone || !plan.drop) {
        mem_free(w.gone);
        mem_free(plan.drop);
        return ERR_NOMEM;
    }
    drop_old(&w, now->now_ns);
    drop_over(&w, now);
    drop_for_disk(&w, now);
    plan_catalogue(&w, now->now_ns);
    foresee(&w, now);
    mem_free(w.gone);
    if (plan.n == 0) {
        mem_free(plan.drop);
        plan.drop = NULL;
    }
    *out = plan;
    return ERR_OK;
}

uint64_t retain_spare(const struct retain_conf *conf, const struct manifest_list *l,
                      const struct retain_now *now)
{
    struct sweep w;
    uint64_t least = add(conf->disk_free_stop, now->coming_bytes);
    uint64_t taken, spare;

    sweep_init(&w, conf, l);
    taken = used(&w, now);
    spare = conf->total_bytes > taken ? conf->total_bytes - taken : 0;
    if (now->disk_total) {
        uint64_t disk = now->disk_free > least ? now->disk_free - least : 0;

        spare = disk < spare ? disk : spare;
    }
    return spare;
}
