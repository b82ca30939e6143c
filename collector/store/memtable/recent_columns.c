/* One block of memory:
 *
 *   header | ticks: wall, mono | numbers, each list in as many bytes a number as its widest needs:
 *     runs:    pid, start, shape (which ticks, which columns)
 *     column:  scale; for each run that has it the first value and the width of its differences,
 *              0 when nothing changes; then the differences, n_ticks - 1 for each run
 *
 * Values and differences are divided by the column's scale, the largest number that divides them
 * all: CPU time comes in ticks of the scheduler, memory in pages. Arithmetic is modulo 2^64, so
 * every value survives. Fixed widths take as much as the wire's variable ones, and are read several
 * times as fast. Nothing here comes from outside: it is written and read by one process. */
#include "collector/store/memtable/recent_columns.h"

#include <endian.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/varint.h"

#define COLUMNS    3u
#define SHAPES_MAX 255u
#define SLACK      8u /* a number is read and written as 8 bytes */

/* A list of numbers: least + what stands there. */
struct list {
    uint64_t least;
    uint32_t at; /* in data */
    uint8_t width;
};

struct column {
    uint64_t scale;
    struct list bases;
    uint32_t widths, differences; /* in data */
    uint32_t n_values;
    uint8_t metric;
};

/* Which ticks a run has, and which of the hot columns. */
struct shape {
    uint64_t mask; /* the metrics are all of page 0 */
    uint32_t first_tick, n_ticks;
    bool fresh;
};

struct recent_columns {
    size_t bytes; /* all of it */
    struct uuid boot;
    uint32_t n_ticks, n_runs, n_columns, n_shapes;
    struct list pids, starts, shapes;
    struct column columns[COLUMNS];
    uint32_t shape_table;                 /* in data; struct shape */
    _Alignas(max_align_t) uint8_t data[]; /* wall_ns, mono_ns, … */
};

/* -- writing -- */

struct maker {
    struct recent_columns *hot;
    uint8_t *end;
    uint64_t *numbers; /* one for each run, */
    uint64_t *steps;   /* and for each tick */
};

static unsigned width_of(uint64_t v)
{
    return v ? (64u - (unsigned)__builtin_clzll(v) + 7) / 8 : 0;
}

static void put_number(struct maker *m, uint64_t v, unsigned width)
{
    uint64_t x = htole64(v);

    memcpy(m->end, &x, sizeof x);
    m->end += width;
}

static uint32_t place(const struct maker *m)
{
    return (uint32_t)(m->end - m->hot->data);
}

/* The first n of m->numbers, as signed ones. */
static struct list put_list(struct maker *m, size_t n)
{
    int64_t least = INT64_MAX, most = INT64_MIN;
    struct list l = {.at = place(m)};

    for (size_t i = 0; i < n; i++) {
        int64_t v = (int64_t)m->numbers[i];

        least = v < least ? v : least;
        most = v > most ? v : most;
    }
    l.least = (uint64_t)least;
    l.width = (uint8_t)(n ? width_of((uint64_t)most - (uint64_t)least) : 0);
    for (size_t i = 0; i < n; i++) {
        put_number(m, m->numbers[i] - l.least, l.width);
    }
    return l;
}

static uint64_t divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

static uint64_t magnitude(uint64_t v)
{
    return v >> 63 ? 0 - v : v;
}

/* The largest number that divides every first value and every difference; 1 when there is none. */
static uint64_t scale_of(const struct batch *b, metric_mask bit, const int64_t *v)
{
    uint64_t scale = 0;

    for (size_t r = 0; r < b->n_runs && scale != 1; r++) {
        if (!(b->runs[r].mask & bit)) {
            continue;
        }
        scale = divisor(magnitude((uint64_t)v[0]), scale);
        for (uint32_t i = 1; i < b->runs[r].n_ticks && scale != 1; i++) {
            uint64_t d = (uint64_t)v[i] - (uint64_t)v[i - 1];

            if (d && (scale == 0 || magnitude(d) % scale)) {
                scale = divisor(magnitude(d), scale);
            }
        }
        v += b->runs[r].n_ticks;
    }
    return scale && scale <= INT64_MAX ? scale : 1;
}

static uint64_t divide(uint64_t v, uint64_t scale)
{
    return scale == 1 ? v : (uint64_t)((int64_t)v / (int64_t)scale);
}

/* The differences of one run, divided, and their width. */
static unsigned put_run(struct maker *m, const int64_t *v, uint32_t n, uint64_t scale)
{
    uint64_t widest = 0;
    unsigned width;

    for (uint32_t i = 1; i < n; i++) {
        uint64_t d = (uint64_t)v[i] - (uint64_t)v[i - 1];

        m->steps[i] = d ? divide(d, scale) : 0;
        widest |= varint_zigzag(m->steps[i]);
    }
    width = width_of(widest);
    for (uint32_t i = 1; i < n && width; i++) {
        put_number(m, m->steps[i], width);
    }
    return width;
}

static void put_column(struct maker *m, const struct batch *b, const struct batch_column *from)
{
    struct column *c = &m->hot->columns[m->hot->n_columns++];
    metric_mask bit = METRIC_BIT(from->metric);
    const int64_t *v = from->values;
    uint8_t *widths;
    size_t n = 0;

    c->metric = from->metric;
    c->n_values = (uint32_t)from->n_values;
    c->scale = scale_of(b, bit, v);
    for (size_t r = 0; r < b->n_runs; r++) {
        if (b->runs[r].mask & bit) {
            m->numbers[n++] = divide((uint64_t)*v, c->scale);
            v += b->runs[r].n_ticks;
        }
    }
    c->bases = put_list(m, n);
    c->widths = place(m);
    widths = m->end;
    m->end += n;
    c->differences = place(m);
    v = from->values;
    for (size_t r = 0; r < b->n_runs; r++) {
        if (b->runs[r].mask & bit) {
            *widths++ = (uint8_t)put_run(m, v, b->runs[r].n_ticks, c->scale);
            v += b->runs[r].n_ticks;
        }
    }
}

static bool same_shape(const struct shape *s, const struct batch_run *r)
{
    return s->mask == (r->mask & RECENT_COLUMNS_METRICS) && s->first_tick == r->first_tick &&
           s->n_ticks == r->n_ticks && s->fresh == r->fresh;
}

/* The shapes of all runs, and in m->numbers which one each has. False: too many. */
static bool list_shapes(struct maker *m, const struct batch *b, struct shape *table)
{
    uint32_t n = 0;

    for (size_t r = 0; r < b->n_runs; r++) {
        const struct batch_run *run = &b->runs[r];
        uint32_t i = 0;

        while (i < n && !same_shape(&table[i], run)) {
            i++;
        }
        if (i == SHAPES_MAX) {
            return false;
        }
        if (i == n) {
            table[n++] = (struct shape){metric_mask_low(run->mask & RECENT_COLUMNS_METRICS),
                                        run->first_tick, run->n_ticks, run->fresh};
        }
        m->numbers[r] = i;
    }
    m->hot->n_shapes = n;
    return true;
}

static bool put_runs(struct maker *m, const struct batch *b)
{
    struct recent_columns *hot = m->hot;
    struct shape *table = (struct shape *)(void *)m->end;

    if (!list_shapes(m, b, table)) {
        return false;
    }
    hot->shape_table = place(m);
    m->end += hot->n_shapes * sizeof *table;
    hot->shapes = put_list(m, b->n_runs);
    for (size_t r = 0; r < b->n_runs; r++) {
        m->numbers[r] = b->runs[r].id.pid;
    }
    hot->pids = put_list(m, b->n_runs);
    for (size_t r = 0; r < b->n_runs; r++) {
        m->numbers[r] = b->runs[r].id.start;
    }
    hot->starts = put_list(m, b->n_runs);
    return true;
}

static bool is_hot(const struct batch_column *c)
{
    return RECENT_COLUMNS_METRICS & METRIC_BIT(c->metric);
}

/* No more is written. */
static size_t bound(const struct batch *b)
{
    size_t n = sizeof(struct recent_columns) + 2 * b->n_ticks * sizeof(int64_t) +
               SHAPES_MAX * sizeof(struct shape) + b->n_runs * (2 * sizeof(uint64_t) + 1) + SLACK;

    for (size_t c = 0; c < b->n_columns; c++) {
        n += is_hot(&b->columns[c]) ? b->n_runs + b->columns[c].n_values * sizeof(int64_t) : 0;
    }
    return n;
}

static bool make(struct maker *m, const struct batch *b)
{
    struct recent_columns *hot = m->hot;
    size_t ticks = b->n_ticks * sizeof(int64_t);

    *hot = (struct recent_columns){
        .boot = b->head.boot, .n_ticks = (uint32_t)b->n_ticks, .n_runs = (uint32_t)b->n_runs};
    m->end = hot->data;
    if (ticks) {
        memcpy(m->end, b->wall_ns, ticks);
        memcpy(m->end + ticks, b->mono_ns, ticks);
        m->end += 2 * ticks;
    }
    if (!put_runs(m, b)) {
        return false;
    }
    for (size_t c = 0; c < b->n_columns; c++) {
        if (is_hot(&b->columns[c])) {
            put_column(m, b, &b->columns[c]);
        }
    }
    hot->bytes = (size_t)(m->end - (uint8_t *)hot) + SLACK;
    return hot->bytes <= RECENT_COLUMNS_BYTES;
}

struct recent_columns *recent_columns_create(const struct batch *b)
{
    size_t most = bound(b);
    struct maker m = {0};
    struct recent_columns *hot = NULL;

    if (most > 16 * RECENT_COLUMNS_BYTES) { /* it cannot be small then */
        return NULL;
    }
    m.hot = mem_alloc(most);
    m.numbers = mem_array(b->n_runs + b->n_ticks, sizeof *m.numbers);
    if (m.hot && m.numbers) {
        m.steps = m.numbers + b->n_runs;
        hot = make(&m, b) ? mem_dup(m.hot, m.hot->bytes) : NULL;
    }
    mem_free(m.numbers);
    mem_free(m.hot);
    return hot;
}

void recent_columns_destroy(struct recent_columns *hot)
{
    mem_free(hot);
}

size_t recent_columns_bytes(const struct recent_columns *hot)
{
    return hot->bytes;
}

/* -- reading -- */

/* For widths up to 8; 0 gives 0. */
static inline uint64_t low_bytes(unsigned width)
{
    return width == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * width) - 1;
}

static inline uint64_t number_at(const uint8_t *p)
{
    uint64_t x;

    memcpy(&x, p, sizeof x);
    return le64toh(x);
}

static inline uint64_t list_at(const struct recent_columns *hot, const struct list *l, size_t i)
{
    return l->least + (number_at(hot->data + l->at + i * l->width) & low_bytes(l->width));
}

static void read_runs(const struct recent_columns *hot, metric_mask metrics, struct batch_run *runs)
{
    const struct shape *table = (const struct shape *)(const void *)(hot->data + hot->shape_table);

    for (uint32_t r = 0; r < hot->n_runs; r++) {
        const struct shape *s = &table[list_at(hot, &hot->shapes, r)];

        runs[r] = (struct batch_run){
            .id = {(uint32_t)list_at(hot, &hot->pids, r), list_at(hot, &hot->starts, r)},
            .first_tick = s->first_tick,
            .n_ticks = s->n_ticks,
            .mask = s->mask & metrics,
            .fresh = s->fresh};
    }
}

/* Gives where the next run's differences are. */
static inline const uint8_t *read_run(int64_t *v, uint32_t n, uint64_t base, uint64_t scale,
                                      const uint8_t *p, unsigned width)
{
    const unsigned unused = 64 - 8 * width;

    v[0] = (int64_t)(base * scale);
    if (width == 0) { /* it rests */
        for (uint32_t i = 1; i < n; i++) {
            v[i] = v[0];
        }
    } else if (width == 1) { /* as most do */
        for (uint32_t i = 1; i < n; i++) {
            base += (uint64_t)(int8_t)p[i - 1];
            v[i] = (int64_t)(base * scale);
        }
    } else {
        for (uint32_t i = 1; i < n; i++) {
            uint64_t x = number_at(p + (i - 1) * width);

            base += (uint64_t)((int64_t)(x << unused) >> unused);
            v[i] = (int64_t)(base * scale);
        }
    }
    return p + (n - 1) * width;
}

static void read_column(const struct recent_columns *hot, const struct column *c,
                        const struct batch_run *runs, int64_t *v)
{
    const uint8_t *p = hot->data + c->differences, *widths = hot->data + c->widths;
    metric_mask bit = METRIC_BIT(c->metric);
    size_t k = 0;

    for (uint32_t r = 0; r < hot->n_runs; r++) {
        if (runs[r].mask & bit) {
            p = read_run(v, runs[r].n_ticks, list_at(hot, &c->bases, k), c->scale, p, widths[k]);
            v += runs[r].n_ticks;
            k++;
        }
    }
}

enum err recent_columns_read(const struct recent_columns *hot, metric_mask metrics, struct arena *a,
                             struct batch *out)
{
    const int64_t *ticks = (const int64_t *)(const void *)hot->data;
    struct batch_column *columns;
    struct batch_run *runs;
    size_t n = 0;

    *out =
        (struct batch){.n_ticks = hot->n_ticks, .wall_ns = ticks, .mono_ns = ticks + hot->n_ticks};
    out->head.boot = hot->boot;
    if (!metrics) {
        return ERR_OK;
    }
    runs = arena_array_unset(a, hot->n_runs, sizeof *runs);
    columns = arena_array_unset(a, COLUMNS, sizeof *columns);
    if (!runs || !columns) {
        return ERR_FULL;
    }
    read_runs(hot, metrics, runs);
    for (uint32_t i = 0; i < hot->n_columns; i++) {
        const struct column *c = &hot->columns[i];
        int64_t *values;

        if (!(metrics & METRIC_BIT(c->metric))) {
            continue;
        }
        values = arena_array_unset(a, c->n_values, sizeof *values);
        if (!values) {
            return ERR_FULL;
        }
        read_column(hot, c, runs, values);
        columns[n++] = (struct batch_column){c->metric, c->n_values, values};
    }
    out->runs = runs;
    out->n_runs = hot->n_runs;
    out->columns = columns;
    out->n_columns = n;
    return ERR_OK;
}

/* -- which are kept: those of a host's newest arrivals, in small blocks that come and go as a
 * whole. Readers hold the blocks of their state; the last release of a block frees it. -- */

#define SILENT_NS (60 * CLK_S) /* silent for so long beyond RECENT_COLUMNS_NS */

struct recent_columns_block {
    atomic_uint refs;
    uint32_t n;          /* the writer's; readers use their view's */
    int64_t received_ns; /* of the newest */
    size_t bytes;
    struct recent_columns *at[RECENT_COLUMNS_BLOCK];
};

struct recent_columns_view {
    uint64_t first, n; /* forms */
    size_t n_at;
    struct recent_columns_block *at[];
};

static void block_unref(struct recent_columns_block *x)
{
    if (atomic_fetch_sub(&x->refs, 1) == 1) {
        for (uint32_t i = 0; i < x->n; i++) {
            recent_columns_destroy(x->at[i]);
        }
        mem_free(x);
    }
}

/* The oldest n blocks go. */
static void ring_drop(struct recent_columns_total *t, struct recent_columns_ring *r, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        r->bytes -= r->at[i]->bytes;
        t->bytes -= r->at[i]->bytes;
        block_unref(r->at[i]);
    }
    r->n -= n;
    r->first += n * RECENT_COLUMNS_BLOCK;
    if (r->n) {
        memmove(r->at, r->at + n, r->n * sizeof(struct recent_columns_block *));
    }
}

/* The block that takes the next one; NULL: no memory. */
static struct recent_columns_block *block_get(struct recent_columns_ring *r)
{
    struct recent_columns_block *x = r->n ? r->at[r->n - 1] : NULL;

    if (x && x->n < RECENT_COLUMNS_BLOCK) {
        return x;
    }
    if (r->n == r->cap) {
        size_t cap = r->cap ? r->cap * 2 : 4;
        struct recent_columns_block **grown =
            mem_realloc_array(r->at, cap, sizeof(struct recent_columns_block *));

        if (!grown) {
            return NULL;
        }
        r->at = grown;
        r->cap = cap;
    }
    x = mem_zalloc(sizeof *x);
    if (x) {
        atomic_init(&x->refs, 1);
        r->at[r->n++] = x;
    }
    return x;
}

/* The newest arrival. A clock that was set back is followed: nothing else comes so late. */
static int64_t newest_of(int64_t newest_ns, int64_t received_ns)
{
    return received_ns > newest_ns || received_ns < newest_ns - RECENT_COLUMNS_NS ? received_ns
                                                                                  : newest_ns;
}

/* Also what came before the clock was set back. */
static bool is_old(const struct recent_columns_ring *r, const struct recent_columns_block *x)
{
    return x->received_ns < r->newest_ns - RECENT_COLUMNS_NS || x->received_ns > r->newest_ns;
}

/* How many blocks at the beginning are too old or too much; the last one stays. */
static size_t passed(const struct recent_columns_ring *r)
{
    size_t bytes = r->bytes, n = 0;

    while (n + 1 < r->n && (bytes > RECENT_COLUMNS_HOST_BYTES || is_old(r, r->at[n]))) {
        bytes -= r->at[n++]->bytes;
    }
    return n;
}

uint64_t recent_columns_keep(struct recent_columns_total *t, struct recent_columns_ring *r,
                             struct recent_columns *hot, int64_t received_ns)
{
    size_t bytes = hot ? recent_columns_bytes(hot) : 0;
    struct recent_columns_block *x = hot && t->bytes + bytes <= t->bytes_max ? block_get(r) : NULL;
    uint64_t number = 0;

    r->first = r->first ? r->first : 1;
    r->newest_ns = newest_of(r->newest_ns, received_ns);
    t->newest_ns = newest_of(t->newest_ns, received_ns);
    if (x) {
        x->at[x->n++] = hot;
        x->bytes += bytes;
        x->received_ns = received_ns > x->received_ns ? received_ns : x->received_ns;
        r->bytes += bytes;
        t->bytes += bytes;
        number = r->first + (r->n - 1) * RECENT_COLUMNS_BLOCK + x->n - 1;
    } else {
        t->left_out += hot != NULL;
        recent_columns_destroy(hot);
    }
    ring_drop(t, r, passed(r));
    return number;
}

bool recent_columns_rest(struct recent_columns_total *t, struct recent_columns_ring *r)
{
    if (r->n == 0 || r->newest_ns >= t->newest_ns - RECENT_COLUMNS_NS - SILENT_NS) {
        return false;
    }
    ring_drop(t, r, r->n);
    return true;
}

void recent_columns_fini(struct recent_columns_total *t, struct recent_columns_ring *r)
{
    ring_drop(t, r, r->n);
    mem_free(r->at);
}

struct recent_columns_view *recent_columns_view_create(const struct recent_columns_ring *r)
{
    struct recent_columns_view *hots =
        r->n ? mem_alloc(sizeof *hots + r->n * sizeof(struct recent_columns_block *)) : NULL;

    if (!hots) {
        return NULL;
    }
    hots->first = r->first;
    hots->n = (r->n - 1) * RECENT_COLUMNS_BLOCK + r->at[r->n - 1]->n;
    hots->n_at = r->n;
    for (size_t i = 0; i < r->n; i++) {
        hots->at[i] = r->at[i];
        atomic_fetch_add_explicit(&r->at[i]->refs, 1, memory_order_relaxed);
    }
    return hots;
}

void recent_columns_view_destroy(struct recent_columns_view *hots)
{
    for (size_t i = 0; hots && i < hots->n_at; i++) {
        block_unref(hots->at[i]);
    }
    mem_free(hots);
}

const struct recent_columns *recent_columns_view_at(const struct recent_columns_view *hots,
                                                    uint64_t number)
{
    uint64_t i = hots && number ? number - hots->first : 0;

    return hots && number && i < hots->n
               ? hots->at[i / RECENT_COLUMNS_BLOCK]->at[i % RECENT_COLUMNS_BLOCK]
               : NULL;
}
