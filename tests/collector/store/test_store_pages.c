/* Metrics of both pages (metric_mask.h) through log, seals, compaction and restarts, beside hosts
 * and windows without page 1: what the store says is what a plain list of all samples says. Files
 * are of version 2 where a window has such a metric, and only there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/check/check.h"
#include "collector/store/read/store_view.h"
#include "collector/store/rollup/tier.h"
#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/store_rig.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define TICKS      10u /* of a batch, each 10 s: three batches a window */
#define BATCHES    39u /* an hour and a window */
#define WIDE_FROM  10u /* batches that have page 1: */
#define WIDE_UNTIL 23u /* from the middle of one window to the middle of another */
#define HOSTS      2u  /* the second never has page 1 */
#define HOUR_NS    (3600 * CLK_S)

/* Columns of the generator, and under which id their values come too. */
static const struct {
    uint8_t from, to;
} copies[] = {
    {M_CONTEXT_SWITCHES, M_TCP_CONNECTS}, {M_CPU_CYCLES, M_SYSTEM_CALLS},
    {M_PRIORITY, M_PRIVATE_WORKING_SET},  {M_WORKING_SET_SIZE, M_CLR_HEAP_BYTES},
    {M_KERNEL_TIME, M_CLR_STARVATIONS},
};

struct sample {
    uint32_t host, metric;
    struct proc_id id;
    int64_t wall_ns, value;
};

struct samples {
    struct sample *list;
    size_t n, cap;
};

static struct rig rig;
static struct samples made; /* all that was put */
static struct fleetgen *hosts[HOSTS];
static unsigned n_put;
static struct packer *packer;
static struct store_view *view; /* closed also where a check fails */

static uint64_t next_random(void)
{
    static uint64_t x = 88172645463325252;

    x ^= x << 13;
    x ^= x >> 7;
    return x ^= x << 17;
}

static void add(struct samples *to, const struct sample *s)
{
    if (to->n == to->cap) {
        to->cap = to->cap ? 2 * to->cap : 4096;
        to->list = mem_realloc_array(to->list, to->cap, sizeof *to->list);
        assert_non_null(to->list);
    }
    to->list[to->n++] = *s;
}

static void add_batch(struct samples *to, uint32_t host, const struct batch *b)
{
    for (size_t c = 0; c < b->n_columns; c++) {
        const int64_t *v = b->columns[c].values;

        for (size_t r = 0; r < b->n_runs; r++) {
            const struct batch_run *run = &b->runs[r];

            for (uint32_t k = 0; run->mask & METRIC_BIT(b->columns[c].metric) && k < run->n_ticks;
                 k++) {
                add(to, &(struct sample){host, b->columns[c].metric, run->id,
                                         b->wall_ns[run->first_tick + k], *v++});
            }
        }
        assert_ptr_equal(v, b->columns[c].values + b->columns[c].n_values);
    }
}

static int by_place(const void *pa, const void *pb)
{
    const struct sample *a = pa, *b = pb;

    if (a->host != b->host) {
        return a->host < b->host ? -1 : 1;
    }
    if (a->metric != b->metric) {
        return a->metric < b->metric ? -1 : 1;
    }
    if (a->id.pid != b->id.pid) {
        return a->id.pid < b->id.pid ? -1 : 1;
    }
    if (a->id.start != b->id.start) {
        return a->id.start < b->id.start ? -1 : 1;
    }
    return a->wall_ns < b->wall_ns ? -1 : a->wall_ns > b->wall_ns;
}

static void sort(struct samples *s)
{
    if (s->n) {
        qsort(s->list, s->n, sizeof *s->list, by_place);
    }
}

/* -- batches -- */

/* Of every four processes one has no page 1, one nothing else, two some of both. */
static bool has(const struct batch_run *run, uint8_t metric)
{
    unsigned kind = run->id.pid / 4 % 4;

    return metric < METRIC_PAGE ? kind != 1 : kind == 1 || (kind > 1 && (metric + kind) % 2 == 0);
}

static void take_column(struct batch *out, struct batch_column *columns, struct batch_run *runs,
                        const struct batch_column *from, uint8_t metric)
{
    int64_t *to = mem_array(from->n_values, sizeof *to);
    struct batch_column *c = &columns[out->n_columns];
    const int64_t *v = from->values;

    assert_non_null(to);
    *c = (struct batch_column){metric, 0, to};
    for (size_t r = 0; r < out->n_runs; r++) {
        for (uint32_t k = 0; has(&runs[r], metric) && k < runs[r].n_ticks; k++) {
            to[c->n_values++] = v[k] + (metric >= METRIC_PAGE);
            runs[r].mask |= METRIC_BIT(metric);
        }
        v += runs[r].n_ticks; /* all runs of the generator have all its columns */
    }
    out->n_columns += c->n_values > 0;
}

/* The generator's batch with columns of both pages. */
static struct batch wide_batch(const struct batch *in)
{
    struct batch_column *columns = mem_array(in->n_columns + COUNT_OF(copies), sizeof *columns);
    struct batch_run *runs = mem_dup(in->runs, in->n_runs * sizeof *runs);
    struct batch out = *in;

    assert_true(columns && runs);
    out.runs = runs;
    out.columns = columns;
    out.n_columns = 0;
    for (size_t r = 0; r < in->n_runs; r++) {
        runs[r].mask = 0;
    }
    for (size_t i = 0; i < in->n_columns; i++) {
        take_column(&out, columns, runs, &in->columns[i], in->columns[i].metric);
    }
    for (size_t k = 0; k < COUNT_OF(copies); k++) {
        for (size_t i = 0; i < in->n_columns; i++) {
            if (in->columns[i].metric == copies[k].from) {
                take_column(&out, columns, runs, &in->columns[i], copies[k].to);
            }
        }
    }
    return out;
}

static void wide_batch_fini(struct batch *b)
{
    for (size_t i = 0; i < b->n_columns; i++) {
        mem_free((void *)b->columns[i].values);
    }
    mem_free((void *)b->columns);
    mem_free((void *)b->runs);
}

static void put_encoded(const struct batch *b, const char *name)
{
    struct rig_batch put = {.head = b->head, .received_ns = b->wall_ns[b->n_ticks - 1] + CLK_S};
    struct wire_encoder *enc;
    struct buf bytes;

    buf_init(&bytes, WIRE_BATCH_BYTES_MAX);
    assert_ok(wire_batch_encoder_create(&enc));
    assert_ok(wire_batch_encode(enc, &bytes, b));
    wire_batch_encoder_destroy(enc);
    put.bytes = bytes.p;
    put.n = bytes.n;
    snprintf(put.host_name, sizeof put.host_name, "%s", name);
    assert_ok(rig_put(&rig, &put));
    rig_batch_fini(&put);
}

static void put_until(unsigned n)
{
    for (; n_put < n; n_put++) {
        for (uint32_t h = 0; h < HOSTS; h++) {
            const struct batch *b = fleetgen_batch(hosts[h], TICKS);
            bool wide = h == 0 && n_put >= WIDE_FROM && n_put < WIDE_UNTIL;
            struct batch w = wide ? wide_batch(b) : *b;

            add_batch(&made, h, &w);
            put_encoded(&w, fleetgen_host_name(hosts[h]));
            if (wide) {
                wide_batch_fini(&w);
            }
        }
    }
    sort(&made);
}

/* -- samples -- */

struct scan {
    uint32_t host;
    struct samples got;
};

static enum err take_block(void *ctx, const struct store_block *b)
{
    struct scan *s = ctx;

    add_batch(&s->got, s->host, b->batch);
    return ERR_OK;
}

static size_t place_of(const struct store_view *v, uint32_t h)
{
    size_t at = store_view_find(v, fleetgen_host_name(hosts[h]), &fleetgen_head(hosts[h])->host);

    assert_true(at < store_view_hosts(v));
    return at;
}

static void samples_are_those_of(const struct store_view *v, uint32_t h, metric_mask metrics)
{
    struct store_used used = {0};
    const struct store_range range = {
        .until_ns = INT64_MAX, .made_since_ns = INT64_MIN, .metrics = metrics, .used = &used};
    struct scan s = {.host = h};
    size_t at = 0;

    assert_ok(store_blocks_scan(v, place_of(v, h), &range, take_block, &s));
    assert_int_equal(used.damaged, 0);
    sort(&s.got);
    for (size_t i = 0; i < made.n; i++) {
        const struct sample *m = &made.list[i];

        if (m->host != h || !(metrics & METRIC_BIT(m->metric))) {
            continue;
        }
        assert_true(at < s.got.n);
        assert_int_equal(by_place(&s.got.list[at], m), 0);
        assert_int_equal(s.got.list[at++].value, m->value);
    }
    assert_int_equal(at, s.got.n);
    mem_free(s.got.list);
}

/* -- cells -- */

/* Samples of one process and metric in [since, until). */
struct series {
    const struct sample *first;
    struct cell sums, got;
};

struct all_series {
    struct series *list;
    size_t n;
};

static bool is_counter(unsigned metric)
{
    return metric_by_id(metric)->kind == METRIC_COUNTER;
}

static struct all_series series_in(uint32_t h, int64_t since_ns, int64_t until_ns)
{
    struct all_series all = {mem_array(made.n, sizeof *all.list), 0};

    assert_non_null(all.list);
    for (size_t i = 0; i < made.n; i++) {
        const struct sample *m = &made.list[i];
        struct series *s = all.n ? &all.list[all.n - 1] : NULL;

        if (m->host != h || m->wall_ns < since_ns || m->wall_ns >= until_ns) {
            continue;
        }
        if (!s || s->first->metric != m->metric || !proc_id_eq(s->first->id, m->id)) {
            s = &all.list[all.n++];
            *s = (struct series){.first = m};
        }
        cell_add(&s->sums, is_counter(m->metric), m->wall_ns, m->value);
    }
    return all;
}

static struct series *series_of(const struct all_series *all, unsigned metric, struct proc_id id)
{
    for (size_t i = 0; i < all->n; i++) {
        if (all->list[i].first->metric == metric && proc_id_eq(all->list[i].first->id, id)) {
            return &all->list[i];
        }
    }
    fail_msg("metric %u of process %u, which it never had", metric, id.pid);
    return NULL;
}

/* A counter's cell may begin with the sample before the range. */
static int64_t value_before(const struct series *s)
{
    const struct sample *at = s->first;

    if (s->got.first_ns < at->wall_ns) {
        at--;
        assert_true(at >= made.list && at->metric == s->first->metric);
        assert_true(proc_id_eq(at->id, s->first->id));
        assert_int_equal(at->wall_ns, s->got.first_ns);
    }
    return at->value;
}

static void same_series(const struct series *s)
{
    const struct cell *want = &s->sums, *got = &s->got;

    assert_int_equal(got->count, want->count);
    assert_int_equal(got->last_ns, want->last_ns);
    if (is_counter(s->first->metric)) {
        assert_int_equal(got->last - got->first, want->last - value_before(s));
    } else {
        assert_int_equal(got->sum, want->sum);
        assert_int_equal(got->min, want->min);
        assert_int_equal(got->max, want->max);
    }
}

static enum err take_cells(void *ctx, const struct store_cell_row *row)
{
    const struct cell *c = row->cells;

    assert_int_equal(row->instances, 0);
    for (struct metric_mask_walk each = metric_mask_walk(row->mask); metric_mask_walk_next(&each);
         c++) {
        if (!row->before) {
            cell_join(&series_of(ctx, each.id, row->id)->got, is_counter(each.id), c);
        }
    }
    return ERR_OK;
}

static void cells_are_those_of(const struct store_view *v, uint32_t h, metric_mask metrics,
                               int64_t since_ns, int64_t until_ns)
{
    struct store_cells ask = {.since_ns = since_ns, .until_ns = until_ns, .metrics = metrics};
    struct all_series all = series_in(h, since_ns, until_ns);

    assert_ok(store_cells_scan(v, place_of(v, h), &ask, take_cells, &all, NULL));
    for (size_t i = 0; i < all.n; i++) {
        if (metrics & METRIC_BIT(all.list[i].first->metric)) {
            same_series(&all.list[i]);
        }
    }
    mem_free(all.list);
}

/* The newest metric has bit 91; above it nothing is known, and may be asked for. */
static metric_mask some_metrics(void)
{
    return metric_mask_make(next_random() & next_random(), next_random());
}

static void close_view(void)
{
    store_view_close(view);
    view = NULL;
}

static void the_store_says_what_came(void)
{
    int64_t end_ns = RIG_T0 + (int64_t)n_put * TICKS * 10 * CLK_S;

    assert_ok(store_view_open(&view, rig.store));
    for (uint32_t h = 0; h < HOSTS; h++) {
        samples_are_those_of(view, h, METRIC_ALL);
        cells_are_those_of(view, h, METRIC_ALL, RIG_T0, end_ns);
        for (unsigned i = 0; i < 4; i++) {
            int64_t since_ns = RIG_T0 + (int64_t)(next_random() % (n_put * TICKS)) * 10 * CLK_S;

            samples_are_those_of(view, h, some_metrics());
            samples_are_those_of(view, h, metric_mask_make(0, next_random()));
            cells_are_those_of(view, h, some_metrics(), since_ns, end_ns);
        }
    }
    close_view();
}

/* -- files -- */

static bool is_wide(const struct seg_info *s)
{
    int64_t batch_ns = TICKS * 10 * CLK_S;

    return s->kind != SEG_REST && s->window_ns < RIG_T0 + WIDE_UNTIL * batch_ns &&
           s->window_ns + s->span_ns > RIG_T0 + WIDE_FROM * batch_ns;
}

static void check_version(const struct seg_info *s)
{
    char name[SEG_NAME_MAX], path[600];
    uint8_t *p;
    size_t n;

    seg_name(name, s);
    snprintf(path, sizeof path, "%s/segments/%s", rig.dir, name);
    assert_ok(os_read_file(&p, &n, path, 16u << 20));
    assert_int_equal(cur_at32le(p + 8), is_wide(s) ? 2 : 1);
    mem_free(p);
}

static void hour_is_that_of(const struct seg *s, uint32_t host)
{
    uint32_t h = memcmp(seg_host(s, host)->id.b, fleetgen_head(hosts[0])->host.b, 16) != 0;
    struct tier_ask ask = {.host = host, .bucket_ns = TIER_1H_NS, .metrics = METRIC_ALL};
    struct all_series all = series_in(h, RIG_T0, RIG_T0 + HOUR_NS);
    uint64_t counts[METRIC_COLS] = {0};
    struct arena memory;
    struct tier t;

    arena_init(&memory, 64u << 20);
    assert_ok(tier_read(&t, s, packer, &memory, &ask));
    assert_true(((t.metrics & ~METRIC_PAGE_0) != 0) == (h == 0));
    for (struct metric_mask_walk each = metric_mask_walk(t.metrics);
         metric_mask_walk_next(&each);) {
        const struct cell *c = t.columns[each.id];

        for (size_t r = 0; r < t.n_rows; r++) {
            const struct tier_row *row = &t.rows[r];
            struct series *of = NULL;

            if (!(row->mask & METRIC_BIT(each.id))) {
                continue;
            }
            of = row->instances ? NULL : series_of(&all, each.id, row->id);
            for (uint32_t k = 0; k < row->n_buckets; k++, c++) {
                counts[each.id] += c->count;
                if (of) {
                    cell_join(&of->got, is_counter(each.id), c);
                }
            }
        }
    }
    for (size_t i = 0; i < all.n; i++) {
        counts[all.list[i].first->metric] -= all.list[i].sums.count;
        if (all.list[i].got.count) { /* else it is folded */
            same_series(&all.list[i]);
        }
    }
    for (unsigned m = 0; m < METRIC_COLS; m++) {
        assert_int_equal(counts[m], 0);
    }
    arena_fini(&memory);
    mem_free(all.list);
}

static void files_are_sound(unsigned hours)
{
    const struct check_conf conf = {.data_dir = rig.dir, .fio = fio_unsynced()};
    struct check_result found;
    unsigned n = 0;

    assert_ok(store_view_open(&view, rig.store));
    for (size_t i = 0; i < manifest_segments(view->segments); i++) {
        const struct seg_info *info = manifest_segment(view->segments, i);
        const struct seg *s;

        check_version(info);
        assert_ok(manifest_seg(view->segments, i, &s));
        for (uint32_t h = 0; info->kind == SEG_1H && h < seg_hosts(s); h++, n++) {
            hour_is_that_of(s, h);
        }
    }
    close_view();
    assert_int_equal(n, hours * HOSTS);
    assert_ok(check_store(&found, &conf, NULL));
    assert_false(found.damaged);
}

/* One byte of a raw file of version 2, a third into it. */
static void hurt_a_wide_file(void)
{
    char name[SEG_NAME_MAX], path[600];
    uint8_t *p;
    size_t n, at = 0;

    assert_ok(store_view_open(&view, rig.store));
    while (!is_wide(manifest_segment(view->segments, at))) {
        at++;
    }
    assert_int_equal(manifest_segment(view->segments, at)->kind, SEG_RAW);
    seg_name(name, manifest_segment(view->segments, at));
    close_view();
    rig_close(&rig);
    snprintf(path, sizeof path, "%s/segments/%s", rig.dir, name);
    assert_ok(os_read_file(&p, &n, path, 16u << 20));
    p[n / 3] ^= 1;
    assert_ok(os_write_file(path, p, n, false));
    mem_free(p);
}

static void mend(void)
{
    const struct check_conf conf = {.data_dir = rig.dir, .fio = fio_unsynced(), .repair = true};
    struct check_result found;

    assert_ok(check_store(&found, &conf, NULL));
    assert_true(found.mended);
    assert_int_equal(found.kinds[SEG_RAW].damaged_files, 1);
    assert_int_equal(found.kinds[SEG_RAW].lost, 1);
}

/* -- the test -- */

static void open_again(void)
{
    rig_close(&rig);
    rig_open(&rig);
}

static void seal_until(unsigned batches)
{
    int64_t end_ns = RIG_T0 + (int64_t)batches * TICKS * 10 * CLK_S;

    rig_set_now(end_ns + 31 * CLK_S);
    assert_ok(store_seal_now(rig.store, end_ns));
}

static void both_pages_are_kept_as_they_came(void **state)
{
    rig_open(&rig);
    put_until(15); /* the head */
    the_store_says_what_came();
    open_again(); /* the log */
    the_store_says_what_came();
    seal_until(12); /* windows without, and one with some of both */
    the_store_says_what_came();
    files_are_sound(0);
    put_until(BATCHES);
    seal_until(36);
    the_store_says_what_came();
    open_again();
    the_store_says_what_came();
    rig_set_now(RIG_T0 + HOUR_NS + 11 * 60 * CLK_S);
    assert_ok(store_seal_now(rig.store, INT64_MIN)); /* the hour is over */
    the_store_says_what_came();
    files_are_sound(1);
    open_again();
    the_store_says_what_came();
    hurt_a_wide_file();
    mend();
    rig_open(&rig);
    files_are_sound(1);
}

static int setup(void **state)
{
    rig_init(&rig);
    rig.conf.accept_age_ns = 24 * HOUR_NS;
    for (uint32_t h = 0; h < HOSTS; h++) {
        const struct fleetgen_conf conf = {.seed = h + 1,
                                           .processes = 12,
                                           .metrics = 8,
                                           .starts_per_hour = 60,
                                           .tick_ns = 10 * CLK_S,
                                           .begin_ns = RIG_T0};

        hosts[h] = fleetgen_create(&conf);
    }
    assert_ok(packer_create(&packer));
    return 0;
}

static int teardown(void **state)
{
    close_view();
    for (uint32_t h = 0; h < HOSTS; h++) {
        fleetgen_destroy(hosts[h]);
    }
    packer_destroy(packer);
    mem_free(made.list);
    rig_fini(&rig);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(both_pages_are_kept_as_they_came, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
