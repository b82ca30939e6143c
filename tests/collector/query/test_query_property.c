/* Whatever lies where, an answer equals a plain scan over the samples: in memory, sealed, in late
 * patches, in tiers whose samples are gone. Seeds are fixed; each makes another fleet, another
 * order of arrival and other questions. */
#include "tests/support/t.h"

#include <stdio.h>
#include <stdlib.h>

#include "collector/store/read/store_view.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "tests/collector/query/ask.h"
#include "tests/collector/query/plain.h"

#define TICKS 240 /* 20 minutes of 5 s */

struct stage {
    struct lab *l;
    struct plain *p;
    uint64_t seed;
    bool late;
    bool recent;      /* windows end behind the newest sample and are at most 2 minutes long */
    int64_t align_ns; /* borders of windows are multiples of it: all that tiers can tell */
    bool folded;      /* of short lives there may be sums only */
    unsigned compared;
    uint64_t used[STORE_TIERS]; /* windows that answers were read from */
};

static int by_value(const void *a, const void *b)
{
    const struct plain_value *x = a, *y = b;
    int d = strcmp(x->name, y->name);

    if (x->when_ns != y->when_ns) {
        return x->when_ns < y->when_ns ? -1 : 1;
    }
    if (x->host != y->host) {
        return x->host < y->host ? -1 : 1;
    }
    if (d) {
        return d;
    }
    if (x->id.pid != y->id.pid) {
        return x->id.pid < y->id.pid ? -1 : 1;
    }
    if (x->id.start != y->id.start) {
        return x->id.start < y->id.start ? -1 : 1;
    }
    return x->value < y->value ? -1 : x->value > y->value;
}

static void complain(const struct stage *s, const struct plain_ask *ask, const char *what,
                     const struct plain_value *got, const struct plain_value *want)
{
    const struct plain_value none = {0};

    got = got ? got : &none;
    want = want ? want : &none;
    fail_msg("seed %u, %s of metric %u by %u, group %u, [%.3f, %.3f), pid %u, step %d: "
             "host %u '%s' pid %u at %.3f is %lld, should be host %u '%s' pid %u at %.3f %lld",
             (unsigned)s->seed, what, ask->metric, ask->by, ask->group_by,
             (double)(ask->since_ns - LAB_EPOCH_NS) / 1e9,
             (double)(ask->until_ns - LAB_EPOCH_NS) / 1e9, (unsigned)ask->pid,
             (int)(ask->step_ns / CLK_S), got->host, got->name, (unsigned)got->id.pid,
             (double)(got->when_ns - LAB_EPOCH_NS) / 1e9, (long long)got->value, want->host,
             want->name, (unsigned)want->id.pid, (double)(want->when_ns - LAB_EPOCH_NS) / 1e9,
             (long long)want->value);
}

static void compare(struct stage *s, const struct plain_ask *ask, const char *what,
                    struct plain_value *got, size_t n_got, struct plain_value *want, size_t n_want)
{
    if (n_got) {
        qsort(got, n_got, sizeof *got, by_value);
    }
    if (n_want) {
        qsort(want, n_want, sizeof *want, by_value);
    }
    for (size_t i = 0; i < n_got || i < n_want; i++) {
        const struct plain_value *g = i < n_got ? &got[i] : NULL;
        const struct plain_value *w = i < n_want ? &want[i] : NULL;

        if (!g || !w || by_value(g, w) != 0) {
            complain(s, ask, what, g, w);
        }
    }
    s->compared += (unsigned)n_want;
}

/* -- the store's answers in the same shape -- */

static unsigned host_number(const struct wire_answer *a, uint32_t host)
{
    return (unsigned)strtoul(a->hosts[host].name.p + strlen("host-"), NULL, 10);
}

static struct plain_value value_of(const struct wire_answer *a, const struct wire_row *r,
                                   const struct plain_ask *ask)
{
    struct plain_value v = {.id = r->info.id, .value = r->values[0]};

    if (ask->group_by == WIRE_GROUP_NONE || ask->group_by == WIRE_GROUP_HOST) {
        v.host = host_number(a, r->host);
    }
    if (ask->group_by == WIRE_GROUP_IMAGE) {
        (void)snprintf(v.name, sizeof v.name, "%.*s", (int)r->info.name.n, r->info.name.p);
    } else if (ask->group_by == WIRE_GROUP_USER) {
        (void)snprintf(v.name, sizeof v.name, "%.*s", (int)r->info.user.n, r->info.user.p);
    }
    return v;
}

static size_t answers(struct stage *s, enum query_kind kind, struct wire_query q,
                      const struct plain_ask *ask, struct plain_value **out)
{
    struct plain_value *list = NULL;
    uint8_t cursor[WIRE_CURSOR_MAX];
    size_t n = 0, cap = 0;
    bool more = true;

    for (unsigned page = 0; more; page++) {
        struct query_answer a;

        assert_in_range(page, 0, 10000);
        ask_run(&a, s->l, kind, &q, NULL);
        if (n + a.data.n_rows > cap) {
            struct plain_value *grown = mem_array(2 * (n + a.data.n_rows), sizeof *grown);

            assert_non_null(grown);
            if (n) {
                memcpy(grown, list, n * sizeof *grown);
            }
            mem_free(list);
            list = grown;
            cap = 2 * (n + a.data.n_rows);
        }
        for (size_t i = 0; i < a.data.n_rows; i++) {
            const struct wire_row *r = &a.data.rows[i];

            if (r->have & 1) {
                list[n] = value_of(&a.data, r, ask);
                list[n++].when_ns = kind == QUERY_HISTORY ? r->when_ns : 0;
            }
        }
        for (unsigned i = 0; i < STORE_TIERS; i++) {
            s->used[i] += a.data.used[i];
        }
        assert_int_equal(a.data.damaged, 0);
        more = a.more;
        memcpy(cursor, a.cursor, a.cursor_n);
        q.cursor = (struct str){(const char *)cursor, a.cursor_n};
        query_answer_fini(&a);
    }
    *out = list;
    return n;
}

static struct plain_ask window(struct stage *s)
{
    struct plain_ask ask = {.metric = (unsigned)plain_random(s->p, PLAIN_METRICS)};
    int64_t first, last, align = s->align_ns;
    uint64_t span;

    plain_span(s->p, &first, &last);
    first = s->recent && first < last - 120 * CLK_S ? last - 120 * CLK_S : first;
    span = (uint64_t)(last - first + 20 * CLK_S);
    ask.since_ns = first - 10 * CLK_S + (int64_t)plain_random(s->p, span);
    ask.until_ns = ask.since_ns + 1 + (int64_t)plain_random(s->p, span);
    if (s->recent) {
        ask.since_ns = ask.since_ns < last ? ask.since_ns : last;
        ask.until_ns = last + 1;
    }
    ask.since_ns -= ask.since_ns % align;
    ask.until_ns += align - ask.until_ns % align;
    return ask;
}

static void ask_top(struct stage *s)
{
    struct plain_ask ask = window(s);
    bool counter = metric_by_id(plain_metrics[ask.metric])->kind == METRIC_COUNTER;
    struct wire_query q = ask_metrics(1, &plain_metrics[ask.metric]);
    struct plain_value *want, *got;
    size_t n_want, n_got;

    do {
        ask.by = (uint8_t)plain_random(s->p, WIRE_BY_AVG + 1);
    } while (!counter && ask.by == WIRE_BY_RATE);
    if (counter && ask.by == WIRE_BY_MAX && s->late) {
        ask.by = WIRE_BY_SUM; /* what lay between the samples of a hole is not known to sums */
    }
    if (s->folded) { /* growth, and samples of gauges, are what folding keeps */
        ask.by = counter || ask.by == WIRE_BY_USUAL ? WIRE_BY_SUM : ask.by;
    }
    if (plain_gap(s->p, &ask) && ask.by == WIRE_BY_RATE) {
        return;
    }
    do {
        ask.group_by = (uint8_t)plain_random(s->p, WIRE_GROUP_HOST + 1);
    } while (s->folded && ask.group_by == WIRE_GROUP_NONE);
    q.since_ns = ask.since_ns;
    q.until_ns = ask.until_ns;
    q.by = ask.by;
    q.group_by = ask.group_by;
    q.limit = WIRE_ROWS_MAX;
    n_want = plain_top(s->p, &ask, &want);
    n_got = answers(s, QUERY_TOP, q, &ask, &got);
    compare(s, &ask, "top", got, n_got, want, n_want);
    mem_free(want);
    mem_free(got);
}

static void ask_history(struct stage *s)
{
    static const int64_t steps[] = {0, 1, 7, 10, 25, 60, 120, 600, 3600};
    struct plain_ask ask = window(s);
    struct wire_query q = ask_metrics(1, &plain_metrics[ask.metric]);
    struct plain_value *want, *got;
    size_t n_want, n_got;

    do {
        ask.step_ns = steps[plain_random(s->p, COUNT_OF(steps))] * CLK_S;
    } while (s->align_ns > CLK_S && (ask.step_ns == 0 || ask.step_ns % s->align_ns != 0));
    ask.pid = plain_pid(s->p);
    q.since_ns = ask.since_ns;
    q.until_ns = ask.until_ns;
    q.step_ns = ask.step_ns;
    q.has_pid = true;
    q.pid = ask.pid;
    q.limit = 1 + (uint32_t)plain_random(s->p, 200);
    n_want = plain_history(s->p, &ask, &want);
    n_got = answers(s, QUERY_HISTORY, q, &ask, &got);
    compare(s, &ask, "history", got, n_got, want, n_want);
    mem_free(want);
    mem_free(got);
}

static void ask_some(struct stage *s, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        ask_top(s);
        if (!s->folded) {
            ask_history(s);
        }
    }
}

static struct stage stage_make(uint64_t seed, unsigned ticks, bool late)
{
    return (struct stage){.l = lab_open(NULL, NULL),
                          .p = plain_make(seed, ticks, late),
                          .seed = seed,
                          .late = late,
                          .align_ns = 1};
}

/* `tiers`: bits of what was to be read, among others. */
static void stage_end(struct stage *s, unsigned tiers)
{
    for (unsigned i = 0; i < STORE_TIERS; i++) {
        if ((tiers >> i & 1) && !s->used[i]) {
            fail_msg("seed %u: tier %u was not read", (unsigned)s->seed, i);
        }
    }
    assert_true(s->compared > (s->folded ? 200 : 1000));
    plain_free(s->p);
    lab_close(s->l);
}

/* -- sealing, and forgetting -- */

static void seal(struct stage *s, double until_s)
{
    assert_ok(store_seal_now(lab_store(s->l), LAB_NS(until_s)));
}

/* Removes segments of a kind: each with this chance, or the oldest half. */
#define OLDEST 0
static void drop(struct stage *s, unsigned kind, unsigned one_in)
{
    size_t of_kind = 0, seen = 0;
    struct manifest *m = lab_store(s->l)->manifest;
    struct manifest_list *l = manifest_view(m);
    size_t n = manifest_segments(l), n_drop = 0;
    uint64_t *numbers = mem_array(n + 1, sizeof *numbers);
    struct errmsg why;

    assert_non_null(numbers);
    for (size_t i = 0; i < n; i++) {
        of_kind += manifest_segment(l, i)->kind == kind;
    }
    for (size_t i = 0; i < n; i++) { /* by window */
        const struct seg_info *info = manifest_segment(l, i);

        if (info->kind == kind &&
            (one_in == OLDEST ? ++seen <= of_kind / 2 : plain_random(s->p, one_in) == 0)) {
            numbers[n_drop++] = info->number;
        }
    }
    assert_ok(manifest_change(m, NULL, 0, numbers, n_drop, &why));
    manifest_publish(m);
    manifest_list_release(l);
    mem_free(numbers);
}

/* Puts everything, sealing at random moments; asks now and then. */
static void put_all(struct stage *s, unsigned questions)
{
    double now_s;

    for (unsigned i = 1; plain_put(s->p, s->l, &now_s); i++) {
        if (plain_random(s->p, 12) == 0) {
            seal(s, now_s - (double)plain_random(s->p, 400));
            ask_some(s, questions);
        }
    }
}

/* -- the tests -- */

static void in_memory(void **state)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct stage s = stage_make(seed, TICKS, seed % 2 == 0);
        double now_s;

        for (unsigned i = 1; plain_put(s.p, s.l, &now_s); i++) {
            if (i % 20 == 0) {
                ask_some(&s, 4);
            }
        }
        ask_some(&s, 10);
        stage_end(&s, 1u << STORE_HEAD);
    }
}

/* Read from the columns that are kept ready of recent batches, and from batches beside them. */
static void the_last_minutes(void **state)
{
    for (uint64_t seed = 71; seed <= 74; seed++) {
        struct stage s = stage_make(seed, TICKS, seed % 2 == 0);
        struct store_stats stats;
        unsigned hot = 0;
        double now_s;

        s.recent = true;
        for (unsigned i = 1; plain_put(s.p, s.l, &now_s); i++) {
            if (i % 2 == 0) {
                store_stats(lab_store(s.l), &stats);
                hot += stats.hot_bytes > 0;
                ask_some(&s, 6);
            }
        }
        assert_true(hot > 10 && stats.hot_left_out == 0);
        stage_end(&s, 1u << STORE_HEAD);
    }
}

static void sealed_at_any_moment(void **state)
{
    for (uint64_t seed = 11; seed <= 14; seed++) {
        struct stage s = stage_make(seed, TICKS, seed % 2 == 0);

        put_all(&s, 3);
        ask_some(&s, 10);
        assert_ok(store_seal_now(lab_store(s.l), INT64_MAX));
        ask_some(&s, 10);
        stage_end(&s, 1u << STORE_HEAD | 1u << STORE_RAW | 1u << STORE_SUMMARY);
    }
}

static void some_samples_are_gone(void **state)
{
    for (uint64_t seed = 21; seed <= 24; seed++) {
        struct stage s = stage_make(seed, TICKS, seed % 2 == 0);

        s.align_ns = 10 * CLK_S;
        put_all(&s, 0);
        drop(&s, SEG_RAW, 2);
        ask_some(&s, 20);
        drop(&s, SEG_RAW, 1);
        ask_some(&s, 20);
        stage_end(&s, 1u << STORE_HEAD | 1u << STORE_10S);
    }
}

static void samples_that_are_gone_are_told_by_their_sums(void **state)
{
    struct stage s = stage_make(41, TICKS, false);
    struct wire_query q = {.has_pid = true};
    struct query_answer a;
    size_t rows = 0;

    put_all(&s, 0);
    assert_ok(store_seal_now(lab_store(s.l), INT64_MAX));
    drop(&s, SEG_RAW, 1);
    plain_span(s.p, &q.since_ns, &q.until_ns);
    for (unsigned i = 0; i < 20; i++) {
        q.pid = plain_pid(s.p);
        ask_run(&a, s.l, QUERY_HISTORY, &q, NULL);
        rows += a.data.n_rows;
        assert_true(a.data.n_rows == 0 || ask_note(&a.data, "sums of up to 10 s"));
        assert_true(a.data.n_rows == 0 || a.data.used[STORE_10S] > 0);
        query_answer_fini(&a);
    }
    assert_true(rows > 100);
    plain_free(s.p);
    lab_close(s.l);
}

static void only_minutes_are_left(void **state)
{
    for (uint64_t seed = 31; seed <= 34; seed++) {
        struct stage s = stage_make(seed, TICKS, seed % 2 == 0);

        s.align_ns = 60 * CLK_S;
        s.folded = true;
        put_all(&s, 0);
        assert_ok(store_seal_now(lab_store(s.l), INT64_MAX));
        drop(&s, SEG_RAW, 2);
        drop(&s, SEG_10S, 2);
        ask_some(&s, 30);
        drop(&s, SEG_RAW, 1);
        drop(&s, SEG_10S, 1);
        for (unsigned i = 0; i < 3; i++) {
            ask_some(&s, 60);
        }
        stage_end(&s, 1u << STORE_SUMMARY | 1u << STORE_1MIN);
    }
}

static void only_hours_are_left(void **state)
{
    for (uint64_t seed = 51; seed <= 52; seed++) {
        struct stage s = stage_make(seed, 1200, seed % 2 == 0);

        lab_now(LAB_NS(20000)); /* all hours are over */
        s.align_ns = 3600 * CLK_S;
        s.folded = true;
        put_all(&s, 0);
        assert_ok(store_seal_now(lab_store(s.l), INT64_MAX));
        lab_now(0);                                           /* from here on nothing is due, */
        assert_ok(store_seal_now(lab_store(s.l), INT64_MIN)); /* and nobody at work */
        ask_some(&s, 10);
        drop(&s, SEG_RAW, 1);
        drop(&s, SEG_10S, 1);
        drop(&s, SEG_1MIN, OLDEST);
        ask_some(&s, 10);
        drop(&s, SEG_1MIN, 1);
        ask_some(&s, 10);
        assert_true(s.compared > 50 && s.used[STORE_1H] > 0);
        plain_free(s.p);
        lab_close(s.l);
    }
}

/* The answer without what tells where it was read from. */
static void bytes_of(struct buf *out, struct stage *s, enum query_kind kind,
                     const struct wire_query *q)
{
    struct query_answer a;

    ask_run(&a, s->l, kind, q, NULL);
    a.data.n_notes = 0;
    a.data.n_used = 0;
    buf_init(out, QUERY_REPLY_MAX);
    assert_ok(wire_answer_encode(out, &a.data));
    query_answer_fini(&a);
}

static void sealing_changes_no_answer(void **state)
{
    static const enum query_kind kinds[] = {QUERY_HOSTS,     QUERY_TOP,      QUERY_PROCESSES,
                                            QUERY_EVENTS,    QUERY_COVERAGE, QUERY_SERIES,
                                            QUERY_LIFETIMES, QUERY_TREE,     QUERY_TREE};
    struct stage s = stage_make(61, TICKS, true);
    struct buf before[COUNT_OF(kinds)], after;
    struct wire_query q = {0};
    double now_s;

    while (plain_put(s.p, s.l, &now_s)) {
    }
    plain_span(s.p, &q.since_ns, &q.until_ns);
    q.until_ns++;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        q.at_ns = i + 1 == COUNT_OF(kinds) ? q.since_ns + 300 * CLK_S : 0;
        bytes_of(&before[i], &s, kinds[i], &q);
    }
    assert_ok(store_seal_now(lab_store(s.l), INT64_MAX));
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        q.at_ns = i + 1 == COUNT_OF(kinds) ? q.since_ns + 300 * CLK_S : 0;
        bytes_of(&after, &s, kinds[i], &q);
        if (after.n != before[i].n || memcmp(after.p, before[i].p, after.n) != 0) {
            fail_msg("answer %zu is another: %zu and %zu bytes", i, before[i].n, after.n);
        }
        buf_fini(&after);
        buf_fini(&before[i]);
    }
    plain_free(s.p);
    lab_close(s.l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_memory),
        cmocka_unit_test(the_last_minutes),
        cmocka_unit_test(sealed_at_any_moment),
        cmocka_unit_test(some_samples_are_gone),
        cmocka_unit_test(samples_that_are_gone_are_told_by_their_sums),
        cmocka_unit_test(only_minutes_are_left),
        cmocka_unit_test(only_hours_are_left),
        cmocka_unit_test(sealing_changes_no_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
