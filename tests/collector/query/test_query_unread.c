/* Questions over a disk that does not give all of it: what can be read is answered, what cannot is
 * marked, counted and told once. */
#include <stdio.h>
#include <string.h>

#include "collector/query/query.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/draw.h"
#include "tests/support/fio_fault.h"
#include "tests/support/store_rig.h"
#include "tests/support/t.h"

#define SECOND    1000000000LL
#define HOSTS     2
#define BATCHES   60 /* of each host, ten seconds each: two windows, each a file of the log */
#define READS_MAX 400

static struct rig rig;
static int64_t step_ns; /* of what is asked */
static struct fio_fault *fault;
static struct {
    unsigned calls;
    struct store_unread_what last;
    char host[64];
} told;

static int setup(void **state)
{
    memset(&told, 0, sizeof told);
    step_ns = 0;
    rig_init(&rig);
    rig.conf.seal_poll_ns = 3600 * SECOND; /* nobody else reads */
    return 0;
}

static int teardown(void **state)
{
    rig_fini(&rig);
    fio_fault_destroy(fault);
    fault = NULL;
    return 0;
}

static void on_unread(void *ctx, const struct store_unread_what *what)
{
    (void)ctx;
    told.calls++;
    told.last = *what;
    (void)snprintf(told.host, sizeof told.host, "%s", what->host);
}

/* Opens it again over the layer that fails. */
static void reopen(void)
{
    rig_close(&rig);
    if (!fault) {
        assert_ok(fio_fault_create(&fault));
    }
    fio_fault_fail(fault, 0, -1, ERR_OK, false);
    rig.conf.fio = fio_fault_fio(fault);
    rig.conf.on_unread = on_unread;
    rig_open(&rig);
}

/* The first batches of the last host are left out. */
static void fill_from(bool sealed, int first)
{
    struct fleetgen *g[HOSTS];

    for (uint64_t h = 0; h < HOSTS; h++) {
        g[h] = rig_host(h + 1);
    }
    rig_open(&rig);
    for (int i = 0; i < BATCHES * HOSTS; i++) {
        struct rig_batch b;

        rig_batch(&b, g[i % HOSTS], 10);
        if (i % HOSTS < HOSTS - 1 || i / HOSTS >= first) {
            assert_ok(rig_put(&rig, &b));
        }
        rig_batch_fini(&b);
    }
    for (int h = 0; h < HOSTS; h++) {
        fleetgen_destroy(g[h]);
    }
    if (sealed) {
        for (int64_t end_ns = RIG_T0 + 300 * SECOND; end_ns <= RIG_T0 + 900 * SECOND;
             end_ns += 300 * SECOND) {
            rig_set_now(end_ns);
            assert_ok(store_seal_now(rig.store, end_ns));
        }
    }
    reopen();
}

static void fill(bool sealed)
{
    fill_from(sealed, 0);
}

static uint64_t counted(void)
{
    struct store_stats s;

    store_stats(rig.store, &s);
    return s.unread_batches + s.unread_values + s.unread_names;
}

/* -- questions -- */

/* What matters of an answer. */
struct said {
    enum err e;
    struct errmsg why;
    bool partial;
    uint32_t damaged;
    uint64_t sum; /* of all rows and events; */
    size_t n;     /* so many */
    uint32_t ppm; /* of the first host, when coverage was asked for */
    size_t n_spans;
    uint64_t unreadable; /* its row of that name */
    char notes[2048];
};

static uint64_t mix(uint64_t h, uint64_t v)
{
    return (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t sum_rows(const struct wire_answer *a)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < a->n_rows; i++) {
        uint64_t h = mix(a->rows[i].have, (uint64_t)a->rows[i].when_ns);
        struct str name = a->rows[i].info.name;

        h = mix(h, hash_bytes(name.p, name.n, a->rows[i].info.id.pid));
        for (unsigned m = 0; m < a->n_metrics; m++) {
            h = a->rows[i].have >> m & 1 ? mix(h, (uint64_t)a->rows[i].values[m]) : h;
        }
        sum += h;
    }
    for (size_t i = 0; i < a->n_events; i++) {
        sum += mix((uint64_t)a->events[i].event.wall_ns, a->events[i].event.info.id.pid);
    }
    return sum;
}

static void take_coverage(struct said *s, const struct wire_coverage *c)
{
    s->ppm = c->ppm;
    s->n_spans = c->n_spans;
    s->sum += mix(c->ticks, c->lost_ticks) + mix(c->events, c->missing_batches);
    for (size_t i = 0; i < c->n_stages; i++) {
        s->unreadable +=
            str_eq(c->stages[i].reason, str_make("unreadable")) ? c->stages[i].count : 0;
    }
}

static void ask(struct said *s, enum query_kind kind, const char *host)
{
    const struct wire_query q = {.host = str_make(host),
                                 .since_ns = RIG_T0 - 10 * SECOND,
                                 .until_ns = RIG_T0 + 700 * SECOND,
                                 .step_ns = step_ns,
                                 .exited = true,
                                 .kinds = UINT32_MAX};
    struct query_env env = {.now_ns = RIG_T0 + 600 * SECOND};
    struct query_answer a;
    struct store_view *v;

    memset(s, 0, sizeof *s);
    assert_ok(store_view_open(&v, rig.store));
    env.view = v;
    s->e = query_run(&a, kind, &env, &q, &s->why);
    if (!s->e) {
        s->partial = a.data.partial;
        s->damaged = a.data.damaged;
        s->n = a.data.n_rows + a.data.n_events + a.data.n_coverage;
        s->sum = sum_rows(&a.data);
        for (size_t i = 0; i < a.data.n_notes; i++) {
            size_t n = strlen(s->notes);

            (void)snprintf(s->notes + n, sizeof s->notes - n, "%.*s\n", (int)a.data.notes[i].n,
                           a.data.notes[i].p);
        }
        if (a.data.n_coverage) {
            take_coverage(s, &a.data.coverage[0]);
        }
    }
    query_answer_fini(&a);
    store_view_close(v);
}

static const enum query_kind kinds[] = {QUERY_TOP,    QUERY_PROCESSES, QUERY_HISTORY,
                                        QUERY_EVENTS, QUERY_COVERAGE,  QUERY_TREE};

/* The answer is the whole one, or says that it is not; gives whether it is marked. */
static bool must_be_whole_or_marked(const struct said *s, const struct said *whole,
                                    uint64_t counted_before)
{
    if (s->e) {
        assert_err(s->e, ERR_IO);
        assert_non_null(strstr(s->why.text, "can be read from the collector's disk"));
        assert_true(counted() > counted_before);
        return true;
    }
    if (s->damaged) {
        assert_true(s->partial);
        assert_non_null(strstr(s->notes, "'procfleet-collector store check'"));
        assert_non_null(strstr(s->notes, "not readable of"));
        assert_null(strstr(s->notes, "coverage 100 %"));
        assert_true(counted() > counted_before);
        return true;
    }
    assert_int_equal(s->n, whole->n);
    assert_true(s->sum == whole->sum);
    return false;
}

/* Has one read after the other of the question fail, alone or with all that follow. Gives how many
 * answers were marked, and in *failed how many were none. */
static size_t fail_each_read(enum query_kind kind, const struct said *whole, bool for_good,
                             size_t *failed)
{
    size_t marked = 0;

    *failed = 0;
    for (long k = 0;; k += k < 24 ? 1 : 11) { /* of a log's many the first and some */
        uint64_t before;
        struct said s;
        long reads;

        reopen();
        before = counted();
        reads = fio_fault_count(fault, FIO_READ | FIO_OPEN);
        fio_fault_fail(fault, FIO_READ | FIO_OPEN, k, ERR_IO, for_good);
        ask(&s, kind, "*");
        reads = fio_fault_count(fault, FIO_READ | FIO_OPEN) - reads;
        fio_fault_fail(fault, 0, -1, ERR_OK, false);
        marked += must_be_whole_or_marked(&s, whole, before);
        *failed += s.e != ERR_OK;
        ask(&s, kind, "*"); /* what the disk gives again is whole again */
        assert_ok(s.e);
        assert_int_equal(s.damaged, 0);
        assert_true(s.sum == whole->sum);
        if (reads <= k) {
            return marked;
        }
        assert_in_range(k, 0, READS_MAX);
    }
}

static void every_read_may_fail(void)
{
    size_t marked = 0, marked_for_good = 0;

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct said whole;
        size_t failed;

        ask(&whole, kinds[i], "*");
        assert_ok(whole.e);
        assert_int_equal(whole.damaged, 0);
        assert_true(whole.n > 0);
        marked += fail_each_read(kinds[i], &whole, false, &failed);
        assert_int_equal(failed, 0); /* of one that fails the others are answered */
        marked_for_good += fail_each_read(kinds[i], &whole, true, &failed);
    }
    assert_true(marked > 0 && marked_for_good > marked / 2);
}

static void of_the_log_what_can_be_read_is_answered(void **state)
{
    fill(false);
    every_read_may_fail();
}

static void of_segments_what_can_be_read_is_answered(void **state)
{
    fill(true);
    every_read_may_fail();
}

/* -- one batch, one window -- */

static enum err count_ticks(void *ctx, const struct store_block *b)
{
    *(size_t *)ctx += b->part == STORE_REST ? 0 : b->batch->n_ticks;
    return ERR_OK;
}

static size_t ticks_of(size_t host, struct store_used *used)
{
    const struct store_range range = {
        .until_ns = INT64_MAX, .made_since_ns = INT64_MIN, .metrics = METRIC_ALL, .used = used};
    struct store_view *v;
    size_t n = 0;

    memset(used, 0, sizeof *used);
    assert_ok(store_view_open(&v, rig.store));
    assert_ok(store_blocks_scan(v, host, &range, count_ticks, &n));
    store_view_close(v);
    return n;
}

static void a_batch_that_cannot_be_read_costs_its_ticks_and_no_others(void **state)
{
    struct store_used used;
    struct store_stats stats;

    fill(false);
    fio_fault_fail(fault, FIO_READ, 4, ERR_IO, false);
    assert_int_equal(ticks_of(0, &used), 10 * (BATCHES - 1));
    assert_int_equal(used.damaged, 1);
    assert_int_equal(used.holes.n, 1);
    assert_in_range(used.holes.at[0].last_ns - used.holes.at[0].first_ns, 8 * SECOND, 10 * SECOND);
    store_stats(rig.store, &stats);
    assert_int_equal(stats.unread_batches, 1);
    assert_int_equal(stats.unread_values + stats.unread_names, 0);
    assert_int_equal(ticks_of(0, &used), 10 * BATCHES);
    assert_int_equal(used.damaged, 0);
}

static void whatever_the_disk_says_a_batch_is_left_out(void **state)
{
    static const enum err errors[] = {ERR_IO, ERR_ACCESS, ERR_READONLY, ERR_NOTFOUND,
                                      ERR_BUSY}; /* Windows: another program holds it */
    struct store_used used;

    fill(false);
    for (size_t i = 0; i < COUNT_OF(errors); i++) {
        fio_fault_fail(fault, FIO_READ, 4, errors[i], false);
        assert_int_equal(ticks_of(0, &used), 10 * (BATCHES - 1));
        assert_int_equal(used.damaged, 1);
    }
}

static void the_log_says_it_once_however_often_it_happens(void **state)
{
    struct store_used used;

    fill(false);
    fio_fault_fail(fault, FIO_READ, 0, ERR_IO, true);
    for (int i = 0; i < 3; i++) {
        assert_true(ticks_of(0, &used) < 10 * BATCHES);
    }
    fio_fault_fail(fault, 0, -1, ERR_OK, false);
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.last.kind, STORE_UNREAD_LOG);
    assert_int_equal(told.last.error, ERR_IO);
    assert_true(told.last.first_ns >= RIG_T0 - SECOND && told.last.last_ns > told.last.first_ns);
    assert_true(told.host[0]);
    assert_in_range(counted(), 3, 3 * BATCHES);
}

/* -- coverage -- */

/* The nth file of the directory with this beginning and end of its name. */
struct naming {
    const char *begins, *ends;
    unsigned nth, n;
    char name[256];
};

static enum err name_one(void *ctx, const char *name)
{
    struct naming *x = ctx;
    size_t n = strlen(name), k = strlen(x->ends);

    if (strncmp(name, x->begins, strlen(x->begins)) == 0 && n > k &&
        strcmp(name + n - k, x->ends) == 0 && x->n++ == x->nth) {
        (void)snprintf(x->name, sizeof x->name, "%s", name);
    }
    return ERR_OK;
}

/* Its path; gives how many there are. */
static unsigned find_file(char path[700], const char *sub, const char *begins, const char *ends,
                          unsigned nth)
{
    struct naming x = {.begins = begins, .ends = ends, .nth = nth};
    char dir[400];

    (void)snprintf(dir, sizeof dir, "%s/%s", rig.dir, sub);
    assert_ok(os_list_dir(dir, name_one, &x));
    (void)snprintf(path, 700, "%s/%s", dir, x.name);
    return x.n;
}

/* Writes the file anew with bytes [from, to) of no use; to 0: as it was. */
static void break_file(const char *path, const uint8_t *p, size_t n, size_t from, size_t to)
{
    uint8_t *copy = mem_dup(p, n);

    assert_non_null(copy);
    if (to) {
        memset(copy + from, 0x55, to - from);
    }
    assert_ok(os_write_file(path, copy, n, false));
    mem_free(copy);
}

static void must_show(const struct said *s, const struct said *whole)
{
    assert_true(s->partial && s->unreadable > 0 && s->n_spans > 0);
    assert_true(s->ppm < whole->ppm);
    assert_non_null(strstr(s->notes, "not readable of"));
    assert_null(strstr(s->notes, "batches missing")); /* they came */
    assert_null(strstr(s->notes, "lost on"));
}

/* Of each segment in turn nothing is left but its beginning. */
static void coverage_shows_when_the_disk_has_lost_what_came(void **state)
{
    struct said whole, s;
    unsigned shown = 0, n = 1;

    fill(true);
    ask(&whole, QUERY_COVERAGE, "*");
    assert_int_equal(whole.unreadable, 0);
    for (unsigned i = 0; i < n; i++) {
        char path[700];
        uint8_t *p;
        size_t bytes;

        rig_close(&rig);
        n = find_file(path, "segments", "rest-", ".seg", i);
        assert_ok(os_read_file(&p, &bytes, path, 64u << 20));
        break_file(path, p, bytes, 200, bytes);
        reopen();
        ask(&s, QUERY_COVERAGE, "*");
        assert_ok(s.e);
        if (s.damaged) {
            must_show(&s, &whole);
            shown++;
        }
        break_file(path, p, bytes, 0, 0);
        mem_free(p);
    }
    assert_int_equal(n, 2);
    assert_int_equal(shown, n);
}

/* Of each segment of a kind in turn nothing is left but its beginning: gives how many values the
 * two answers are without. */
static uint64_t left_out_without(const char *kind, enum query_kind asked, const char *host)
{
    uint64_t values = 0;

    for (unsigned i = 0; i < 2; i++) {
        struct said s;
        char path[700];
        uint8_t *p;
        size_t bytes;

        rig_close(&rig);
        assert_int_equal(find_file(path, "segments", kind, ".seg", i), 2);
        assert_ok(os_read_file(&p, &bytes, path, 64u << 20));
        break_file(path, p, bytes, 200, bytes);
        reopen();
        ask(&s, asked, host);
        assert_ok(s.e);
        assert_true(counted() > 0);
        values += s.damaged;
        break_file(path, p, bytes, 0, 0);
        mem_free(p);
    }
    return values;
}

static void what_is_older_than_a_host_is_not_missing_of_it(void **state)
{
    fill_from(true, BATCHES / 2 + 2); /* its first is in the second window */
    assert_int_equal(left_out_without("rest-", QUERY_COVERAGE, "gen-1"), 2);
    assert_int_equal(left_out_without("rest-", QUERY_COVERAGE, "gen-2"), 1);
}

static void sums_are_not_missing_where_samples_are(void **state)
{
    fill(true);
    step_ns = 10 * SECOND;
    assert_int_equal(left_out_without("10s-", QUERY_HISTORY, "*"), 0);
}

static void what_is_missed_twice_is_counted_once(void **state)
{
    fill(true); /* events are read, then what coverage goes by: from the same segment */
    assert_int_equal(left_out_without("rest-", QUERY_EVENTS, "gen-1"), 2);
}

/* -- the catalogue -- */

/* Page after page: opening finds some, and makes the file anew; the others are for a question. */
static void a_damaged_catalogue_is_told(void **state)
{
    struct said whole, s;
    struct store_stats stats;
    unsigned told_of = 0;
    char path[700];
    size_t bytes;
    uint8_t *p;

    fill(true);
    ask(&whole, QUERY_PROCESSES, "*");
    assert_false(whole.partial);
    rig_close(&rig);
    assert_int_equal(find_file(path, "catalogue", "20", ".db", 0), 1);
    assert_ok(os_read_file(&p, &bytes, path, 64u << 20));
    for (size_t at = 0; at + 4096 <= bytes; at += 4096) {
        rig_close(&rig);
        break_file(path, p, bytes, at, at + 4096);
        reopen();
        ask(&s, QUERY_PROCESSES, "*");
        assert_ok(s.e);
        assert_in_range(s.n, HOSTS * 3, whole.n); /* the head knows those alive */
        assert_true(s.partial || s.sum == whole.sum);
        store_stats(rig.store, &stats);
        assert_true(s.partial == (stats.unread_names > 0));
        if (s.partial) {
            assert_non_null(strstr(s.notes, "catalogue of processes could not be read"));
            assert_int_equal(told.last.kind, STORE_UNREAD_CATALOGUE);
            told_of++;
        }
    }
    assert_true(told_of > 0);
    mem_free(p);
}

/* SQLite has no checksums: a flipped bit in a text was another text. */
static void a_flipped_bit_of_the_catalogue_changes_no_name(void **state)
{
    struct said whole, s;
    uint64_t rng = 3;
    unsigned told_of = 0;
    char path[700];
    size_t bytes;
    uint8_t *p;

    fill(true);
    ask(&whole, QUERY_PROCESSES, "*");
    rig_close(&rig);
    assert_int_equal(find_file(path, "catalogue", "20", ".db", 0), 1);
    assert_ok(os_read_file(&p, &bytes, path, 64u << 20));
    for (unsigned i = 0; i < 60; i++) {
        uint32_t at = draw(&rng, (uint32_t)bytes), bit = draw(&rng, 8);

        rig_close(&rig);
        p[at] ^= (uint8_t)(1u << bit);
        assert_ok(os_write_file(path, p, bytes, false));
        p[at] ^= (uint8_t)(1u << bit);
        reopen();
        ask(&s, QUERY_PROCESSES, "*");
        assert_ok(s.e);
        assert_true(s.partial || s.sum == whole.sum);
        told_of += s.partial;
    }
    assert_true(told_of > 0);
    mem_free(p);
}

/* -- holes -- */

static void holes_are_joined_and_bounded(void **state)
{
    struct store_holes h = {0};
    int64_t sum_ns = 0;

    store_used_hole_add(&h, 100 * SECOND, 109 * SECOND);
    store_used_hole_add(&h, 120 * SECOND, 129 * SECOND);
    assert_int_equal(h.n, 2);
    store_used_hole_add(&h, 110 * SECOND, 119 * SECOND); /* between them, a second from each */
    assert_int_equal(h.n, 1);
    assert_int_equal(store_used_within(&h, 0, INT64_MAX), 29 * SECOND + 1);
    assert_int_equal(store_used_within(&h, 105 * SECOND, 107 * SECOND), 2 * SECOND);
    assert_int_equal(store_used_within(&h, 200 * SECOND, 300 * SECOND), 0);
    for (int64_t i = 0; i < 1000; i++) {
        store_used_hole_add(&h, (i * 7919 % 1000) * 100 * SECOND,
                            (i * 7919 % 1000) * 100 * SECOND + 5);
        assert_in_range(h.n, 1, STORE_HOLES_MAX);
    }
    for (size_t i = 0; i < h.n; i++) {
        sum_ns += h.at[i].last_ns + 1 - h.at[i].first_ns;
    }
    assert_true(sum_ns == store_used_within(&h, 0, INT64_MAX)); /* they do not overlap */
    for (int64_t i = 0; i < 1000; i++) {
        assert_true(store_used_within(&h, i * 100 * SECOND, i * 100 * SECOND + 6) == 6);
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(of_the_log_what_can_be_read_is_answered),
        T(of_segments_what_can_be_read_is_answered),
        T(a_batch_that_cannot_be_read_costs_its_ticks_and_no_others),
        T(whatever_the_disk_says_a_batch_is_left_out),
        T(the_log_says_it_once_however_often_it_happens),
        T(coverage_shows_when_the_disk_has_lost_what_came),
        T(what_is_older_than_a_host_is_not_missing_of_it),
        T(sums_are_not_missing_where_samples_are),
        T(what_is_missed_twice_is_counted_once),
        T(a_damaged_catalogue_is_told),
        T(a_flipped_bit_of_the_catalogue_changes_no_name),
        cmocka_unit_test(holes_are_joined_and_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
