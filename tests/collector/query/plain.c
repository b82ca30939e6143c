#include "tests/collector/query/plain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/wire/wire_query.h"

#define LOOKBACK_NS (60 * CLK_S)
#define STALE_NS    (15 * CLK_S)
#define LIVES_MAX   4096u /* of one host */
#define SLOTS       10u   /* processes at a time */
#define BATCH_TICKS 10u
#define TICKS_MAX   4096u
#define BEGIN_S     400.0

const uint8_t plain_metrics[PLAIN_METRICS] = {M_CPU_TIME, M_READ_BYTES, M_WORKING_SET_SIZE,
                                              M_THREAD_COUNT};

struct life {
    struct proc_id id;
    uint8_t boot;
    bool fresh;       /* its first row says so */
    metric_mask mask; /* without one metric, sometimes */
    char name[16];    /* of the image, known when its first batch came */
    char user[16];
    unsigned first; /* tick */
    int64_t value[PLAIN_METRICS];
    size_t at, n; /* its samples */
};

struct sample {
    uint32_t life;
    uint32_t tick;
    metric_mask mask;
    int64_t value[PLAIN_METRICS];
};

struct tick {
    int64_t wall_ns, mono_ns;
    uint8_t boot;
    unsigned batch;
};

struct chunk {
    unsigned first, n; /* ticks */
    uint64_t seq;
    bool lost, put;
    double arrives_s;
};

struct host {
    size_t n_lives, n_samples, cap_samples, n_ticks, n_chunks;
    struct life lives[LIVES_MAX];
    struct sample *samples; /* by life, then tick */
    struct tick ticks[TICKS_MAX];
    struct chunk chunks[TICKS_MAX];
};

struct plain {
    uint64_t state;
    struct host hosts[PLAIN_HOSTS];
};

static void check(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "plain: %s\n", what);
        abort();
    }
}

uint64_t plain_random(struct plain *p, uint64_t below)
{
    uint64_t z = p->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % below;
}

static bool one_in(struct plain *p, uint64_t n)
{
    return plain_random(p, n) == 0;
}

static bool is_counter(unsigned m)
{
    return metric_by_id(plain_metrics[m])->kind == METRIC_COUNTER;
}

/* -- making -- */

static uint32_t life_begin(struct plain *p, struct host *h, uint8_t boot, bool fresh)
{
    struct life *x = &h->lives[h->n_lives];

    check(h->n_lives < LIVES_MAX, "room for lives");
    *x = (struct life){.id = {(uint32_t)(4 + 4 * plain_random(p, 24)), 1000 + h->n_lives},
                       .boot = boot,
                       .fresh = fresh};
    for (size_t i = 0; i < h->n_lives; i++) { /* a start belongs to one instance of its pid */
        check(!proc_id_eq(h->lives[i].id, x->id) || h->lives[i].boot != boot, "another start");
    }
    for (unsigned m = 0; m < PLAIN_METRICS; m++) {
        x->mask |= METRIC_BIT(plain_metrics[m]);
        x->value[m] = fresh && is_counter(m) ? 0 : (int64_t)plain_random(p, 1000000);
    }
    if (one_in(p, 8)) {
        x->mask &= ~METRIC_BIT(plain_metrics[1 + plain_random(p, PLAIN_METRICS - 1)]);
    }
    (void)snprintf(x->name, sizeof x->name, "image-%u", (unsigned)plain_random(p, 5));
    (void)snprintf(x->user, sizeof x->user, "user-%u", (unsigned)plain_random(p, 3));
    x->first = (unsigned)h->n_ticks;
    return (uint32_t)h->n_lives++;
}

static void life_go_on(struct plain *p, struct life *x)
{
    for (unsigned m = 0; m < PLAIN_METRICS; m++) {
        if (one_in(p, 3)) {
            continue;
        }
        if (is_counter(m)) {
            x->value[m] += (int64_t)plain_random(p, 2000000);
        } else {
            x->value[m] = (int64_t)plain_random(p, 100000);
        }
    }
}

static void sample_keep(struct host *h, uint32_t life)
{
    struct sample *s;

    if (h->n_samples == h->cap_samples) {
        struct sample *more = mem_array(h->cap_samples * 2 + 1024, sizeof *more);

        check(more != NULL, "memory");
        if (h->n_samples) {
            memcpy(more, h->samples, h->n_samples * sizeof *more);
        }
        mem_free(h->samples);
        h->samples = more;
        h->cap_samples = h->cap_samples * 2 + 1024;
    }
    s = &h->samples[h->n_samples++];
    *s = (struct sample){.life = life, .tick = (uint32_t)h->n_ticks, .mask = h->lives[life].mask};
    memcpy(s->value, h->lives[life].value, sizeof s->value);
}

/* Processes of one tick: some end, some begin, some are missed once. */
static void tick_make(struct plain *p, struct host *h, uint32_t *slots, uint8_t boot, bool anew)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        bool brief = i >= SLOTS / 2;

        if (anew || one_in(p, brief ? 5 : 150)) {
            slots[i] = life_begin(p, h, boot, !anew && !one_in(p, 10));
        } else if (!one_in(p, 100)) {
            life_go_on(p, &h->lives[slots[i]]);
        } else if (h->lives[slots[i]].first != h->n_ticks) {
            continue;
        }
        sample_keep(h, slots[i]);
    }
}

static void chunk_end(struct plain *p, struct host *h, unsigned first, bool late)
{
    struct chunk *c = &h->chunks[h->n_chunks];
    double end_s = (double)(h->ticks[h->n_ticks - 1].wall_ns - LAB_EPOCH_NS) / 1e9;

    *c = (struct chunk){.first = first, .n = (unsigned)h->n_ticks - first, .seq = ++h->n_chunks};
    c->lost = one_in(p, 40);
    c->arrives_s = end_s + 0.1 + (late && one_in(p, 6) ? (double)plain_random(p, 900) : 0);
}

static int by_life(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;

    if (x->life != y->life) {
        return x->life < y->life ? -1 : 1;
    }
    return x->tick < y->tick ? -1 : x->tick > y->tick;
}

static void samples_sort(struct host *h)
{
    qsort(h->samples, h->n_samples, sizeof *h->samples, by_life);
    for (size_t i = 0; i < h->n_samples; i++) {
        struct life *x = &h->lives[h->samples[i].life];

        x->at = x->n++ ? x->at : i;
    }
}

static void host_make(struct plain *p, struct host *h, unsigned number, unsigned ticks, bool late)
{
    uint32_t slots[SLOTS];
    unsigned first = 0, n = 0;
    double at_s = BEGIN_S + 0.7 * number + (number == 2 ? 200 : 0); /* one comes later */
    int64_t mono_ns = 0;
    uint8_t boot = 1;
    bool anew = true;

    for (unsigned i = 0; i < ticks; i++, at_s += PLAIN_TICK_S) {
        bool restart = number == 1 && i == ticks / 2;
        bool pause = i > 0 && one_in(p, 150); /* nobody looked for a while */

        if (n && (restart || pause || n == BATCH_TICKS)) {
            chunk_end(p, h, first, late);
            first = (unsigned)h->n_ticks;
            n = 0;
        }
        boot = (uint8_t)(boot + restart);
        anew = anew || restart;
        at_s += restart ? 30 : pause ? (double)plain_random(p, 40) : 0;
        mono_ns = (int64_t)((at_s - (boot - 1) * 1000.0) * 1e9);
        h->ticks[h->n_ticks] = (struct tick){LAB_NS(at_s), mono_ns, boot, (unsigned)h->n_chunks};
        tick_make(p, h, slots, boot, anew);
        anew = false;
        h->n_ticks++;
        n++;
    }
    if (n) {
        chunk_end(p, h, first, late);
    }
    samples_sort(h);
}

struct plain *plain_make(uint64_t seed, unsigned ticks, bool late)
{
    struct plain *p = mem_zalloc(sizeof *p);

    check(p && ticks < TICKS_MAX, "memory");
    p->state = seed;
    for (unsigned i = 0; i < PLAIN_HOSTS; i++) {
        host_make(p, &p->hosts[i], i, ticks, late);
    }
    return p;
}

void plain_free(struct plain *p)
{
    for (unsigned i = 0; p && i < PLAIN_HOSTS; i++) {
        mem_free(p->hosts[i].samples);
    }
    mem_free(p);
}

/* -- putting -- */

static bool has_sample(const struct host *h, uint32_t life, unsigned tick,
                       const struct sample **out)
{
    const struct life *x = &h->lives[life];

    for (size_t i = x->at; i < x->at + x->n && h->samples[i].tick <= tick; i++) {
        if (h->samples[i].tick == tick) {
            *out = &h->samples[i];
            return true;
        }
    }
    return false;
}

static int by_id(const void *a, const void *b)
{
    const struct life *x = *(const struct life *const *)a, *y = *(const struct life *const *)b;

    if (x->id.pid != y->id.pid) {
        return x->id.pid < y->id.pid ? -1 : 1;
    }
    return x->id.start < y->id.start ? -1 : x->id.start > y->id.start;
}

static void put_runs(struct lab *l, const struct host *h, const struct chunk *c, uint32_t life)
{
    const struct life *x = &h->lives[life];
    const struct sample *s;
    int64_t values[PLAIN_METRICS * BATCH_TICKS];
    uint8_t metrics[PLAIN_METRICS];
    unsigned n_metrics = 0;

    for (unsigned m = 0; m < PLAIN_METRICS; m++) {
        if (x->mask & METRIC_BIT(plain_metrics[m])) {
            metrics[n_metrics++] = plain_metrics[m];
        }
    }
    for (unsigned t = 0, n; t < c->n; t += n) {
        n = 1;
        if (!has_sample(h, life, c->first + t, &s)) {
            continue;
        }
        while (t + n < c->n && has_sample(h, life, c->first + t + n, &s)) {
            n++;
        }
        for (unsigned k = 0; k < n; k++) {
            unsigned at = 0;

            check(has_sample(h, life, c->first + t + k, &s), "a sample");
            for (unsigned m = 0; m < PLAIN_METRICS; m++) {
                if (x->mask & METRIC_BIT(plain_metrics[m])) {
                    values[at++ * n + k] = s->value[m];
                }
            }
        }
        lab_run(l, x->id.pid, x->id.start, t, n, x->fresh && x->first == c->first + t, n_metrics,
                metrics, values);
    }
}

static void put_chunk(struct lab *l, const struct host *h, unsigned number, const struct chunk *c)
{
    const struct life *order[LIVES_MAX];
    const struct sample *s;
    size_t n = 0;

    lab_begin(l, number + 1, 7, c->seq);
    lab_boot(l, h->ticks[c->first].boot);
    for (unsigned t = 0; t < c->n; t++) {
        const struct tick *k = &h->ticks[c->first + t];

        lab_tick_at(l, (double)(k->wall_ns - LAB_EPOCH_NS) / 1e9, (double)k->mono_ns / 1e9);
    }
    for (uint32_t i = 0; i < h->n_lives; i++) {
        for (unsigned t = 0; t < c->n; t++) {
            if (has_sample(h, i, c->first + t, &s)) {
                order[n++] = &h->lives[i];
                break;
            }
        }
    }
    qsort(order, n, sizeof(const struct life *), by_id);
    for (size_t i = 0; i < n; i++) {
        put_runs(l, h, c, (uint32_t)(order[i] - h->lives));
        lab_info(l, &(struct proc_info){.id = order[i]->id,
                                        .name = str_make(order[i]->name),
                                        .user = str_make(order[i]->user)});
    }
    lab_put(l);
}

bool plain_put(struct plain *p, struct lab *l, double *now_s)
{
    struct chunk *next = NULL;
    unsigned number = 0;

    for (unsigned i = 0; i < PLAIN_HOSTS; i++) {
        for (size_t k = 0; k < p->hosts[i].n_chunks; k++) {
            struct chunk *c = &p->hosts[i].chunks[k];

            if (!c->put && !c->lost && (!next || c->arrives_s < next->arrives_s)) {
                next = c;
                number = i;
            }
        }
    }
    if (!next) {
        return false;
    }
    *now_s = next->arrives_s;
    lab_received(l, next->arrives_s);
    put_chunk(l, &p->hosts[number], number, next);
    next->put = true;
    return true;
}

/* -- what was put -- */

static bool tick_put(const struct host *h, unsigned tick)
{
    return h->chunks[h->ticks[tick].batch].put;
}

void plain_span(const struct plain *p, int64_t *first_ns, int64_t *last_ns)
{
    *first_ns = INT64_MAX;
    *last_ns = INT64_MIN;
    for (unsigned i = 0; i < PLAIN_HOSTS; i++) {
        const struct host *h = &p->hosts[i];

        for (unsigned t = 0; t < h->n_ticks; t++) {
            if (tick_put(h, t)) {
                *first_ns = h->ticks[t].wall_ns < *first_ns ? h->ticks[t].wall_ns : *first_ns;
                *last_ns = h->ticks[t].wall_ns > *last_ns ? h->ticks[t].wall_ns : *last_ns;
            }
        }
    }
}

uint32_t plain_pid(struct plain *p)
{
    const struct host *h = &p->hosts[plain_random(p, PLAIN_HOSTS)];

    return h->lives[plain_random(p, h->n_lives)].id.pid;
}

/* One metric of one instance in the window. */
struct seen {
    bool any; /* a sample of any metric inside */
    bool fresh;
    bool has_base;
    uint64_t count;
    int64_t base, base_ns, first, last, last_ns, sum, max, most;
    int64_t seen_ns; /* of this metric, also before the window; INT64_MIN: none */
};

static struct seen look(const struct host *h, uint32_t life, const struct plain_ask *ask)
{
    metric_mask bit = METRIC_BIT(plain_metrics[ask->metric]);
    struct seen x = {.seen_ns = INT64_MIN};
    int64_t before = 0;

    for (size_t i = h->lives[life].at; i < h->lives[life].at + h->lives[life].n; i++) {
        const struct sample *s = &h->samples[i];
        int64_t when = h->ticks[s->tick].wall_ns, v = s->value[ask->metric];

        if (!tick_put(h, s->tick) || when >= ask->until_ns || when < ask->since_ns - LOOKBACK_NS) {
            continue;
        }
        x.fresh = x.fresh || (when >= ask->since_ns && h->lives[life].fresh &&
                              h->lives[life].first == s->tick);
        if (!(s->mask & bit)) {
            continue;
        }
        x.seen_ns = when;
        if (when < ask->since_ns) {
            x.has_base = true;
            x.base = before = v;
            continue;
        }
        if (x.count || x.has_base || x.fresh) {
            int64_t step = v - (x.count || x.has_base ? before : 0);

            x.most = x.any && x.most > step ? x.most : step;
            x.any = true;
        }
        x.first = x.count ? x.first : v;
        x.max = x.count && x.max > v ? x.max : v;
        x.sum += v;
        x.count++;
        x.last = before = v;
        x.last_ns = when;
    }
    return x;
}

static bool grown(const struct seen *x, int64_t *growth, uint64_t *steps)
{
    if (!x->count || (!x->has_base && !x->fresh && x->count == 1)) {
        return false;
    }
    *steps = x->count - (!x->has_base && !x->fresh);
    *growth = x->last - (x->has_base ? x->base : x->fresh ? 0 : x->first);
    return true;
}

/* Monotonic time of the ticks inside, from the tick before on; and how many they are. */
static int64_t span_mono(const struct host *h, const struct plain_ask *ask, uint64_t *ticks)
{
    int64_t sum = 0, before = 0;
    uint8_t boot = 0;

    *ticks = 0;
    for (unsigned t = 0; t < h->n_ticks; t++) {
        const struct tick *k = &h->ticks[t];

        if (!tick_put(h, t)) {
            continue;
        }
        if (k->wall_ns >= ask->since_ns && k->wall_ns < ask->until_ns) {
            sum += boot == k->boot ? k->mono_ns - before : 0;
            ++*ticks;
        }
        before = k->mono_ns;
        boot = k->boot;
    }
    return sum;
}

bool plain_gap(const struct plain *p, const struct plain_ask *ask)
{
    for (unsigned i = 0; i < PLAIN_HOSTS; i++) {
        const struct host *h = &p->hosts[i];
        int64_t last = INT64_MIN;

        for (unsigned t = 0; t < h->n_ticks; t++) {
            if (tick_put(h, t) && h->ticks[t].wall_ns < ask->since_ns) {
                last = h->ticks[t].wall_ns;
            }
        }
        if (last != INT64_MIN && last < ask->since_ns - LOOKBACK_NS / 2) {
            return true;
        }
    }
    return false;
}

static int64_t per_second(int64_t growth, int64_t span_ns)
{
    return (int64_t)((double)growth * 1e9 / (double)span_ns + 0.5);
}

static bool of_one(const struct seen *x, const struct plain_ask *ask, int64_t span_ns, int64_t *v)
{
    uint64_t steps = 0;
    int64_t growth;

    if (!is_counter(ask->metric)) {
        *v = ask->by == WIRE_BY_SUM   ? x->sum
             : ask->by == WIRE_BY_MAX ? x->max
             : ask->by == WIRE_BY_AVG ? (x->count ? x->sum / (int64_t)x->count : 0)
                                      : x->last;
        return x->count > 0;
    }
    if (ask->by == WIRE_BY_MAX) {
        *v = x->most;
        return x->any;
    }
    if (!grown(x, &growth, &steps) || (ask->by == WIRE_BY_RATE && span_ns <= 0)) {
        return false;
    }
    *v = ask->by == WIRE_BY_RATE  ? per_second(growth, span_ns)
         : ask->by == WIRE_BY_AVG ? growth / (int64_t)steps
                                  : growth;
    return true;
}

/* -- groups -- */

struct sums {
    bool has, has_now;
    int64_t total, most, now;
    uint64_t steps;
};

static void sums_add(struct sums *s, const struct seen *x, const struct plain_ask *ask, bool lives)
{
    uint64_t steps;
    int64_t v;

    if (is_counter(ask->metric)) {
        if (ask->by == WIRE_BY_MAX ? x->any : grown(x, &v, &steps)) {
            v = ask->by == WIRE_BY_MAX ? x->most : v;
            s->most = s->has && s->most > v ? s->most : v;
            s->total += v;
            s->steps += ask->by == WIRE_BY_MAX ? 0 : steps;
            s->has = true;
        }
    } else if (x->count) {
        s->most = s->has && s->most > x->max ? s->most : x->max;
        s->total += x->sum;
        s->has = true;
        s->now += lives ? x->last : 0;
        s->has_now = s->has_now || lives;
    }
}

static void group_put(struct plain_value *groups, size_t *n, const char *name, unsigned host,
                      int64_t v, const struct plain_ask *ask, uint64_t *steps, uint64_t more)
{
    size_t i = 0;

    while (i < *n && !(groups[i].host == host && strcmp(groups[i].name, name) == 0)) {
        i++;
    }
    if (i == *n) {
        groups[i] = (struct plain_value){.host = host, .value = v};
        (void)snprintf(groups[i].name, sizeof groups[i].name, "%s", name);
        steps[i] = more;
        ++*n;
        return;
    }
    if (ask->by == WIRE_BY_MAX) {
        groups[i].value = groups[i].value > v ? groups[i].value : v;
    } else {
        groups[i].value += v;
    }
    steps[i] += more;
}

static bool sums_value(const struct sums *s, const struct plain_ask *ask, int64_t span_ns,
                       uint64_t ticks, int64_t *v)
{
    if (!is_counter(ask->metric) && ask->by == WIRE_BY_USUAL) {
        *v = s->now;
        return s->has_now;
    }
    *v = ask->by == WIRE_BY_MAX ? s->most : s->total; /* a counter's mean: divided in the end */
    if (ask->by == WIRE_BY_RATE) {
        *v = span_ns > 0 ? per_second(s->total, span_ns) : 0;
        return s->has && span_ns > 0;
    }
    if (!is_counter(ask->metric) && ask->by == WIRE_BY_AVG) {
        *v = ticks ? s->total / (int64_t)ticks : 0;
    }
    return s->has;
}

static const char *group_of(const struct life *x, const struct plain_ask *ask)
{
    return ask->group_by == WIRE_GROUP_IMAGE  ? x->name
           : ask->group_by == WIRE_GROUP_USER ? x->user
                                              : "";
}

/* The newest sample of the metric of any process, and its boot. */
static int64_t newest(const struct host *h, const struct plain_ask *ask, uint8_t *boot)
{
    int64_t seen = INT64_MIN;

    for (uint32_t i = 0; i < h->n_lives; i++) {
        struct seen x = look(h, i, ask);

        if (x.seen_ns > seen) {
            seen = x.seen_ns;
            *boot = h->lives[i].boot;
        }
    }
    return seen;
}

static void host_groups(const struct plain *p, unsigned number, const struct plain_ask *ask,
                        struct plain_value *out, size_t *n, uint64_t *steps)
{
    static const char *const all[] = {"",        "image-0", "image-1", "image-2", "image-3",
                                      "image-4", "user-0",  "user-1",  "user-2"};
    const struct host *h = &p->hosts[number];
    uint64_t ticks;
    int64_t span = span_mono(h, ask, &ticks), seen_ns, v;
    uint8_t boot = 0;

    seen_ns = newest(h, ask, &boot);
    for (size_t g = 0; g < sizeof all / sizeof *all; g++) {
        struct sums s = {0};

        for (uint32_t i = 0; i < h->n_lives; i++) {
            const struct life *life = &h->lives[i];
            struct seen x = look(h, i, ask);

            if (strcmp(group_of(life, ask), all[g]) == 0) {
                sums_add(&s, &x, ask,
                         life->boot == boot && x.seen_ns != INT64_MIN &&
                             x.seen_ns + STALE_NS >= seen_ns);
            }
        }
        if (sums_value(&s, ask, span, ticks, &v)) {
            group_put(out, n, all[g], ask->group_by == WIRE_GROUP_HOST ? number + 1 : 0, v, ask,
                      steps, s.steps);
        }
    }
}

size_t plain_top(const struct plain *p, const struct plain_ask *ask, struct plain_value **out)
{
    struct plain_value *list = mem_array(PLAIN_HOSTS * LIVES_MAX, sizeof *list);
    uint64_t steps[64] = {0}, ticks;
    size_t n = 0;

    check(list != NULL, "memory");
    for (unsigned h = 0; h < PLAIN_HOSTS; h++) {
        int64_t span = span_mono(&p->hosts[h], ask, &ticks);

        if (ask->group_by != WIRE_GROUP_NONE) {
            host_groups(p, h, ask, list, &n, steps);
            continue;
        }
        for (uint32_t i = 0; i < p->hosts[h].n_lives; i++) {
            struct seen x = look(&p->hosts[h], i, ask);

            list[n] = (struct plain_value){.host = h + 1, .id = p->hosts[h].lives[i].id};
            n += of_one(&x, ask, span, &list[n].value);
        }
    }
    for (size_t i = 0; i < n && ask->group_by != WIRE_GROUP_NONE; i++) {
        if (ask->by == WIRE_BY_AVG && is_counter(ask->metric)) {
            list[i].value = steps[i] ? list[i].value / (int64_t)steps[i] : 0;
        }
    }
    *out = list;
    return n;
}

/* -- history -- */

static size_t life_history(const struct host *h, unsigned number, uint32_t life,
                           const struct plain_ask *ask, struct plain_value *out)
{
    metric_mask bit = METRIC_BIT(plain_metrics[ask->metric]);
    int64_t prev = 0, slot_prev = 0; /* of the row before; of the last sample in this row */
    bool has_prev = false, fresh = false, in_row = false;
    size_t n = 0;

    for (size_t i = h->lives[life].at; i < h->lives[life].at + h->lives[life].n; i++) {
        const struct sample *s = &h->samples[i];
        int64_t when = h->ticks[s->tick].wall_ns, v = s->value[ask->metric], slot;

        if (!tick_put(h, s->tick) || when >= ask->until_ns || when < ask->since_ns - LOOKBACK_NS ||
            !(s->mask & bit)) {
            continue;
        }
        if (when < ask->since_ns) {
            prev = v;
            has_prev = true;
            continue;
        }
        slot = ask->step_ns ? when - when % ask->step_ns : when;
        if (!in_row || out[n - 1].when_ns != slot) {
            if (in_row) {
                prev = slot_prev;
                has_prev = true;
            }
            fresh = h->lives[life].fresh && h->lives[life].first == s->tick;
            out[n++] =
                (struct plain_value){.host = number + 1, .id = h->lives[life].id, .when_ns = slot};
            in_row = true;
        }
        out[n - 1].value = is_counter(ask->metric) && has_prev ? v - prev : v;
        if (is_counter(ask->metric) && !has_prev && !fresh) {
            out[n - 1].value = INT64_MIN; /* there is none */
        }
        slot_prev = v;
    }
    return n;
}

size_t plain_history(const struct plain *p, const struct plain_ask *ask, struct plain_value **out)
{
    struct plain_value *list = mem_array(PLAIN_HOSTS * TICKS_MAX, sizeof *list);
    size_t n = 0, kept = 0;

    check(list != NULL, "memory");
    for (unsigned h = 0; h < PLAIN_HOSTS; h++) {
        for (uint32_t i = 0; i < p->hosts[h].n_lives; i++) {
            if (p->hosts[h].lives[i].id.pid == ask->pid) {
                n += life_history(&p->hosts[h], h, i, ask, list + n);
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (list[i].value != INT64_MIN) {
            list[kept++] = list[i];
        }
    }
    *out = list;
    return kept;
}
