/* A day of a fleet at 10 s sampling, as fast as it goes: midnight inside, the clock driven from
 * here. Window by window everything is made, stored, sealed and sent again; what every tier says of
 * every process is compared with its raw values, and every byte on disk is counted as it is
 * written.
 *
 * PROCFLEET_DAY_HOSTS (3) and PROCFLEET_DAY_HOURS (1) in the environment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/read/store_view.h"
#include "collector/store/rollup/tier.h"
#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/fio_meter.h"
#include "tests/support/store_fill.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define HOUR       (3600 * CLK_S)
#define PER_WINDOW 30u              /* ticks of a host in a window */
#define UNIT       UINT64_C(200000) /* bytes of rows of a host's window, about */
#define PROCS_MAX  8192u            /* of a host in an hour */
#define MEMORY     ((size_t)512 << 20)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool measured = false; /* they keep what was freed */
#else
static const bool measured = true;
#endif

/* What one process did, by its raw values. */
struct fact {
    struct proc_id id;
    bool fresh, exact; /* exact: the tier at hand has rows of its own for it */
    struct cell cells[METRIC_COLS];
};

struct facts {
    size_t n;
    struct fact *list; /* by id */
};

struct day {
    char dir[256];
    struct store_conf conf;
    struct fio_meter *meter;
    struct fill *f;
    unsigned hosts, windows;
    int64_t begin_ns;
    metric_mask metrics;
    struct packer *packer;
    struct arena memory;
    struct facts *window, *hour;                     /* per host */
    uint64_t by_age[SEG_KINDS], by_bytes[SEG_KINDS]; /* files dropped, most between restarts */
    uint64_t most, catalogue_most, tiers_checked, hours_checked, folded;
};

/* -- raw values -- */

static bool is_counter(unsigned metric)
{
    return metric_by_id(metric)->kind == METRIC_COUNTER;
}

static int by_id(struct proc_id a, struct proc_id b)
{
    if (a.pid != b.pid) {
        return a.pid < b.pid ? -1 : 1;
    }
    return a.start < b.start ? -1 : a.start > b.start;
}

static struct fact *fact_of(struct facts *x, struct proc_id id)
{
    size_t lo = 0, hi = x->n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (by_id(x->list[mid].id, id) < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo < x->n && proc_id_eq(x->list[lo].id, id) ? &x->list[lo] : NULL;
}

static struct fact *fact_add(struct facts *x, struct proc_id id)
{
    struct fact *f = fact_of(x, id);
    size_t at = 0;

    if (f) {
        return f;
    }
    assert_true(x->n < PROCS_MAX);
    x->list = mem_realloc_array(x->list, x->n + 1, sizeof *x->list);
    assert_non_null(x->list);
    while (at < x->n && by_id(x->list[at].id, id) < 0) {
        at++;
    }
    memmove(x->list + at + 1, x->list + at, (x->n - at) * sizeof *x->list);
    x->n++;
    memset(&x->list[at], 0, sizeof x->list[at]);
    x->list[at].id = id;
    return &x->list[at];
}

static void learn_column(struct facts *x, const struct batch *b, const struct batch_column *c)
{
    const int64_t *v = c->values;

    for (size_t r = 0; r < b->n_runs; r++) {
        const struct batch_run *run = &b->runs[r];
        struct fact *f;

        if (!(run->mask & METRIC_BIT(c->metric))) {
            continue;
        }
        f = fact_add(x, run->id);
        f->fresh = f->fresh || run->fresh;
        for (uint32_t k = 0; k < run->n_ticks; k++) {
            cell_add(&f->cells[c->metric], is_counter(c->metric), b->wall_ns[run->first_tick + k],
                     *v++);
        }
    }
}

static void facts_clear(struct facts *x)
{
    mem_free(x->list);
    *x = (struct facts){0};
}

/* All batches of the window at hand. */
static void learn(struct day *d)
{
    for (unsigned h = 0; h < d->hosts; h++) {
        facts_clear(&d->window[h]);
    }
    for (size_t i = 0; i < d->f->n_batches; i++) {
        const struct fill_batch *from = &d->f->batches[i];
        struct batch *b;

        assert_ok(wire_batch_decode(&b, from->p, from->n));
        for (size_t c = 0; c < b->n_columns; c++) {
            d->metrics |= METRIC_BIT(b->columns[c].metric);
            learn_column(&d->window[from->host], b, &b->columns[c]);
            learn_column(&d->hour[from->host], b, &b->columns[c]);
        }
        wire_batch_free(b);
    }
}

/* -- what tiers say -- */

static void same_cell(const struct cell *a, const struct cell *b, unsigned metric)
{
    assert_int_equal(a->count, b->count);
    if (is_counter(metric)) {
        assert_int_equal(cell_growth(a->first, a->last), cell_growth(b->first, b->last));
        assert_int_equal(cell_grew(a), cell_grew(b));
    } else {
        assert_int_equal(a->sum, b->sum);
    }
    if (!is_counter(metric) || cell_grew(b)) {
        assert_int_equal(a->min, b->min);
        assert_int_equal(a->max, b->max);
    }
}

/* Sums of the folded rows of one metric. */
struct fold {
    uint64_t count;
    int64_t sum, min, max;
};

static void fold_cell(struct fold *s, uint64_t count, int64_t sum, int64_t min, int64_t max)
{
    s->min = s->count == 0 || min < s->min ? min : s->min;
    s->max = s->count == 0 || max > s->max ? max : s->max;
    s->count += count;
    s->sum += sum;
}

static void check_folded(struct facts *x, const struct fold *said, unsigned metric)
{
    struct fold all = {0};

    for (size_t i = 0; i < x->n; i++) {
        const struct cell *c = &x->list[i].cells[metric];

        if (!x->list[i].exact && c->count > 0) {
            int64_t sum = !is_counter(metric) ? c->sum
                          : x->list[i].fresh  ? c->last
                                              : cell_growth(c->first, c->last);

            fold_cell(&all, c->count, sum, c->min, c->max);
        }
    }
    assert_int_equal(said->count, all.count);
    assert_int_equal(said->sum, all.sum);
    if (!is_counter(metric)) { /* of counters: of growths in a bucket, not of samples */
        assert_int_equal(said->min, all.min);
        assert_int_equal(said->max, all.max);
    }
}

static void check_metric(struct day *d, const struct tier *t, struct facts *x, unsigned metric)
{
    struct cell *joined = arena_alloc(&d->memory, x->n * sizeof *joined);
    const struct cell *c = t->columns[metric];
    struct fold said = {0};

    assert_non_null(joined);
    memset(joined, 0, x->n * sizeof *joined);
    for (size_t r = 0; r < t->n_rows; r++) {
        const struct tier_row *row = &t->rows[r];

        for (uint32_t k = 0; (row->mask & METRIC_BIT(metric)) && k < row->n_buckets; k++, c++) {
            struct fact *f = row->instances ? NULL : fact_of(x, row->id);

            if (row->instances) {
                fold_cell(&said, c->count, c->sum, c->min, c->max);
            } else {
                assert_non_null(f);
                cell_join(&joined[f - x->list], is_counter(metric), c);
            }
        }
    }
    for (size_t i = 0; i < x->n; i++) {
        if (x->list[i].exact) {
            same_cell(&joined[i], &x->list[i].cells[metric], metric);
        }
    }
    d->folded += said.count;
    check_folded(x, &said, metric);
}

static void check_tier(struct day *d, const struct seg *s, uint32_t host, uint8_t window,
                       int64_t bucket_ns, struct facts *x)
{
    struct tier_ask ask = {
        .host = host, .window = window, .bucket_ns = bucket_ns, .metrics = d->metrics};
    struct tier t;

    arena_reset(&d->memory);
    assert_ok(tier_read(&t, s, d->packer, &d->memory, &ask));
    for (size_t i = 0; i < x->n; i++) {
        x->list[i].exact = false;
    }
    for (size_t r = 0; r < t.n_rows; r++) {
        struct fact *f = t.rows[r].instances ? NULL : fact_of(x, t.rows[r].id);

        if (f) {
            f->exact = true;
        }
    }
    for (struct metric_mask_walk each = metric_mask_walk(d->metrics);
         metric_mask_walk_next(&each);) {
        check_metric(d, &t, x, each.id);
    }
    d->tiers_checked++;
}

static unsigned host_of(const struct day *d, const struct uuid *id)
{
    for (unsigned h = 0; h < d->hosts; h++) {
        if (memcmp(fleetgen_head(d->f->hosts[h])->host.b, id->b, sizeof id->b) == 0) {
            return h;
        }
    }
    fail_msg("a host nobody made");
    return 0;
}

/* Every host of the segments of this kind that are of [window_ns, + span). How many hosts. */
static unsigned check_kind(struct day *d, unsigned kind, int64_t window_ns, int64_t bucket_ns,
                           struct facts *facts)
{
    struct store_view *v;
    unsigned seen = 0;

    assert_ok(store_view_open(&v, d->f->store));
    for (size_t i = 0; i < manifest_segments(v->segments); i++) {
        const struct seg_info *info = manifest_segment(v->segments, i);
        const struct seg *s;

        if (info->kind != kind || info->window_ns != window_ns) {
            continue;
        }
        assert_false(info->patch);
        assert_ok(manifest_seg(v->segments, i, &s));
        for (uint32_t h = 0; h < seg_hosts(s); h++, seen++) {
            check_tier(d, s, h, 0, bucket_ns, &facts[host_of(d, &seg_host(s, h)->id)]);
        }
    }
    store_view_close(v);
    return seen;
}

/* -- a window's life -- */

static struct store_room room_of(struct day *d)
{
    struct store_room r;

    store_room(d->f->store, &r);
    return r;
}

static void look(struct day *d)
{
    struct store_room r = room_of(d);
    uint64_t files = fio_meter_most(d->meter);

    d->catalogue_most =
        r.catalogue_bytes > d->catalogue_most ? r.catalogue_bytes : d->catalogue_most;
    d->most = files + d->catalogue_most > d->most ? files + d->catalogue_most : d->most;
    for (unsigned k = SEG_RAW; k < SEG_KINDS; k++) {
        d->by_age[k] = r.kind[k].dropped_age > d->by_age[k] ? r.kind[k].dropped_age : d->by_age[k];
        d->by_bytes[k] =
            r.kind[k].dropped_bytes > d->by_bytes[k] ? r.kind[k].dropped_bytes : d->by_bytes[k];
    }
    assert_true(d->most <= d->conf.retain.total_bytes);
    assert_int_equal(r.seal_failures, 0);
    assert_int_equal(r.patches, 0);
}

static void nothing_doubles(struct day *d)
{
    assert_int_equal(fill_again(d->f), d->f->n_put);
    fill_close(d->f);
    fill_open(d->f, &d->conf);
    assert_int_equal(fill_again(d->f), d->f->n_put);
}

static void hour_over(struct day *d, int64_t hour_ns)
{
    fill_set_now(hour_ns + HOUR + 11 * 60 * CLK_S);
    assert_ok(store_seal_now(d->f->store, INT64_MIN));
    look(d);
    assert_int_equal(check_kind(d, SEG_1H, hour_ns, TIER_1H_NS, d->hour), d->hosts);
    d->hours_checked++;
    for (unsigned h = 0; h < d->hosts; h++) {
        facts_clear(&d->hour[h]);
    }
}

static void live_window(struct day *d, int64_t window_ns, bool thorough)
{
    fill_make(d->f, window_ns + WINDOW_NS);
    learn(d);
    fill_put(d->f, SIZE_MAX);
    look(d);
    fill_seal(d->f, window_ns + WINDOW_NS);
    look(d);
    assert_int_equal(check_kind(d, SEG_RAW, window_ns, TIER_WINDOW_NS, d->window), d->hosts);
    assert_int_equal(check_kind(d, SEG_10S, window_ns, TIER_10S_NS, d->window), d->hosts);
    assert_int_equal(check_kind(d, SEG_1MIN, window_ns, TIER_1MIN_NS, d->window), d->hosts);
    if (thorough) {
        nothing_doubles(d);
    }
    fill_forget(d->f);
}

/* -- the catalogue -- */

struct census {
    uint64_t n, hash;
};

static enum err count_one(void *ctx, const struct uuid *boot, const struct proc_info *info)
{
    struct census *c = ctx;
    uint64_t words[8] = {info->id.pid,
                         info->id.start,
                         info->parent_pid,
                         info->have,
                         (uint64_t)info->exit_ns,
                         (uint64_t)info->exit_code,
                         info->name.n,
                         info->user.n};

    c->n++;
    c->hash += hash_bytes(words, sizeof words, 1) ^ hash_bytes(info->name.p, info->name.n, 2) ^
               hash_bytes(boot->b, sizeof boot->b, 3);
    return ERR_OK;
}

static struct census census_of(struct day *d)
{
    struct store_instances all = {.since_ns = d->begin_ns, .until_ns = d->f->until_ns};
    struct census c = {0};
    struct store_view *v;

    assert_ok(store_view_open(&v, d->f->store));
    for (size_t h = 0; h < store_view_hosts(v); h++) {
        assert_ok(store_info_each(v, h, &all, count_one, &c));
    }
    store_view_close(v);
    return c;
}

static void the_catalogue_is_made_anew(struct day *d)
{
    struct census before, after;
    char path[300];

    fill_close(d->f);
    fill_open(d->f, &d->conf);
    before = census_of(d);
    fill_close(d->f);
    (void)snprintf(path, sizeof path, "%s/catalogue", d->dir);
    support_remove_dir(path);
    fill_open(d->f, &d->conf);
    assert_ok(store_seal_now(d->f->store, INT64_MIN)); /* it is made beside the work */
    after = census_of(d);
    assert_true(before.n > d->hosts * 150u);
    assert_int_equal(before.n, after.n);
    assert_int_equal(before.hash, after.hash);
}

/* -- the day -- */

static unsigned from_env(const char *name, unsigned preset)
{
    const char *text = getenv(name);

    return text ? (unsigned)strtoul(text, NULL, 10) : preset;
}

static void day_open(struct day *d)
{
    unsigned hours = from_env("PROCFLEET_DAY_HOURS", 1);
    struct fill_conf fill = {.hosts = from_env("PROCFLEET_DAY_HOSTS", 3), .ticks = 3};
    uint64_t unit;

    memset(d, 0, sizeof *d);
    d->hosts = fill.hosts;
    d->windows = hours * 12;
    d->begin_ns = FILL_T0 - (hours == 1 ? HOUR / 2 : hours / 2 * HOUR);
    fill.host.begin_ns = d->begin_ns;
    fill.host.tick_ns = 10 * CLK_S;
    unit = d->hosts * UNIT;
    d->conf = fill_store_conf(support_temp_dir(d->dir, sizeof d->dir));
    assert_ok(fio_meter_create(&d->meter, fio_unsynced()));
    d->conf.fio = fio_meter_fio(d->meter);
    d->conf.retain.age_ns[SEG_10S] = hours * HOUR / 4;
    d->conf.retain.age_ns[SEG_1MIN] = hours == 1 ? 0 : hours * HOUR / 3;
    d->conf.retain.share[SEG_RAW] = unit * d->windows / 4;
    d->conf.retain.share[SEG_REST] = unit * d->windows / 8; /* the catalogue is of all of it */
    d->conf.retain.total_bytes = unit * d->windows * (hours == 1 ? 5 : 3) / 4;
    d->f = fill_create(&fill);
    d->window = mem_array(d->hosts, sizeof *d->window);
    d->hour = mem_array(d->hosts, sizeof *d->hour);
    assert_true(d->window && d->hour);
    assert_ok(packer_create(&d->packer));
    arena_init(&d->memory, MEMORY);
    fill_open(d->f, &d->conf);
}

static void day_close(struct day *d)
{
    fill_destroy(d->f);
    for (unsigned h = 0; h < d->hosts; h++) {
        facts_clear(&d->window[h]);
        facts_clear(&d->hour[h]);
    }
    mem_free(d->window);
    mem_free(d->hour);
    packer_destroy(d->packer);
    arena_fini(&d->memory);
    fio_meter_destroy(d->meter);
    support_remove_dir(d->dir);
}

static void a_day_passes_and_every_tier_says_what_raw_values_said(void **state)
{
    struct store_room room;
    struct day d;
    int64_t half = 0;

    day_open(&d);
    for (unsigned i = 0; i < d.windows; i++) {
        int64_t window_ns = d.begin_ns + (int64_t)i * WINDOW_NS, end_ns = window_ns + WINDOW_NS;

        live_window(&d, window_ns, i % 6 == 3);
        if (end_ns % HOUR == 0) {
            hour_over(&d, end_ns - HOUR);
        }
        half = i == d.windows / 2 ? os_resident_bytes() : half;
    }
    room = room_of(&d);
    for (unsigned k = SEG_RAW; k < SEG_KINDS; k++) {
        print_message("%s: %llu files, %llu of %llu bytes; dropped by age %llu, by bytes %llu\n",
                      seg_kind_name(k), (unsigned long long)room.kind[k].files,
                      (unsigned long long)room.kind[k].bytes,
                      (unsigned long long)room.kind[k].share_bytes, (unsigned long long)d.by_age[k],
                      (unsigned long long)d.by_bytes[k]);
    }
    print_message("%u hosts, %u windows: %llu tiers, %llu hours, folded %llu, at most %llu of %llu "
                  "bytes; resident %lld, then %lld\n",
                  d.hosts, d.windows, (unsigned long long)d.tiers_checked,
                  (unsigned long long)d.hours_checked, (unsigned long long)d.folded,
                  (unsigned long long)d.most, (unsigned long long)room.ceiling_bytes,
                  (long long)half, (long long)os_resident_bytes());
    assert_true(d.hours_checked > 0 && d.folded > 0);
    assert_true(!measured || os_resident_bytes() < half + half / 4 + (64 << 20));
    assert_true(d.by_bytes[SEG_RAW] > 0 && d.by_age[SEG_10S] + d.by_age[SEG_1MIN] > 0);
    the_catalogue_is_made_anew(&d);
    day_close(&d);
}

/* 7.5 times the process starts. */
static double bytes_per_value(unsigned starts_per_hour)
{
    struct fill_conf conf = {.hosts = 1, .ticks = 10, .host = {.starts_per_hour = starts_per_hour}};
    struct fill *f = fill_create(&conf);
    struct store_room room;
    struct store_conf store;
    char dir[256];
    double v;

    store = fill_store_conf(support_temp_dir(dir, sizeof dir));
    fill_open(f, &store);
    for (int64_t w = FILL_T0; w < FILL_T0 + 2 * WINDOW_NS; w += WINDOW_NS) {
        fill_make(f, w + WINDOW_NS);
        fill_put(f, SIZE_MAX);
        fill_seal(f, w + WINDOW_NS);
        fill_forget(f);
    }
    store_room(f->store, &room);
    v = (double)room.kind[SEG_RAW].bytes / (double)f->values;
    fill_destroy(f);
    support_remove_dir(dir);
    return v;
}

static void many_short_lives_cost_few_bytes(void **state)
{
    double usual = bytes_per_value(960), churn = bytes_per_value(7200);

    print_message("%.3f bytes per value, with 7.5 times the starts %.3f\n", usual, churn);
    assert_true(usual <= 0.65);
    assert_true(churn <= 1.15 * usual);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_day_passes_and_every_tier_says_what_raw_values_said),
        cmocka_unit_test(many_short_lives_cost_few_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
