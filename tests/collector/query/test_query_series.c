/* Series: buckets of groups over time, and what of each arrived. */
#include "tests/support/t.h"

#include "common/base/clk.h"
#include "common/wire/wire_series.h"
#include "tests/collector/query/ask.h"

#define MS   INT64_C(1000000)
#define NONE INT64_MIN /* no value */

static const uint8_t both[] = {M_CPU_TIME, M_WORKING_SET_SIZE};
static const uint8_t percent[] = {M_CPU_PERCENT};

static void ticks(struct lab *l, double from, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        lab_tick(l, from + i);
    }
}

static void person(struct lab *l, uint32_t pid, const char *name, const char *user)
{
    lab_info(l,
             &(struct proc_info){.id = {pid, pid}, .name = str_make(name), .user = str_make(user)});
}

/* Two hosts from 100 to 109. Process p grows by p ms each second; its working set is 100 p, and
 * from 105 on 200 p. Pids 1 and 2 are "a", 3 is "b"; 2 ends at 106. On host 2 all is ten times as
 * much. */
static struct lab *fleet(void)
{
    struct lab *l = lab_open(NULL, NULL);

    for (unsigned h = 1; h <= 2; h++) {
        int64_t by = h == 1 ? 1 : 10;

        lab_begin(l, h, 7, 1);
        ticks(l, 100, 10);
        for (uint32_t pid = 1; pid <= 3; pid++) {
            unsigned n = pid == 2 ? 7 : 10;
            int64_t v[20];

            for (unsigned i = 0; i < n; i++) {
                v[i] = by * pid * i * MS;
                v[n + i] = by * pid * (i < 5 ? 100 : 200);
            }
            lab_run(l, pid, pid, 0, n, false, 2, both, v);
        }
        person(l, 1, "a", "root");
        person(l, 2, "a", h == 1 ? "root" : "eve");
        person(l, 3, "b", "eve");
        lab_life(l, LIFE_PROCESS_STOP, 106.5, 2, "a");
        lab_put(l);
    }
    return l;
}

static struct wire_query two_buckets(unsigned n, const uint8_t *metrics, uint8_t group_by)
{
    struct wire_query q = ask_metrics(n, metrics);

    q.since_ns = LAB_NS(100);
    q.until_ns = LAB_NS(110);
    q.buckets = 2;
    q.group_by = group_by;
    return q;
}

static int64_t at(const struct query_answer *a, size_t group, unsigned metric, uint32_t bucket)
{
    const struct wire_series *s = a->data.series;
    const struct wire_series_column *c = &s->columns[group * a->data.n_metrics + metric];

    assert_in_range(bucket, 0, s->n_buckets - 1);
    return wire_series_has(c, bucket) ? c->avg[bucket] : NONE;
}

/* The buckets of one metric of one group, all of them. */
static void expect(const struct query_answer *a, size_t group, unsigned metric, size_t n,
                   const int64_t *want)
{
    assert_int_equal(a->data.series->n_buckets, n);
    assert_in_range(group, 0, a->data.series->n_groups - 1);
    for (uint32_t b = 0; b < n; b++) {
        if (at(a, group, metric, b) != want[b]) {
            fail_msg("group %zu, metric %u, bucket %u: %lld instead of %lld", group, metric, b,
                     (long long)at(a, group, metric, b), (long long)want[b]);
        }
    }
}

static void groups_add_up_in_buckets_over_the_fleet(void **state)
{
    struct lab *l = fleet();
    struct wire_query q = two_buckets(1, both, WIRE_GROUP_IMAGE);
    struct query_answer a;

    ask_run(&a, l, QUERY_SERIES, &q, NULL);
    assert_int_equal(a.data.series->step_ns, 5 * CLK_S);
    assert_int_equal(a.data.series->t0_ns, LAB_NS(100));
    assert_int_equal(a.data.n_rows, 2);
    assert_int_equal(a.data.series->n_groups, 2); /* nothing is left over */
    assert_true(str_eq(a.data.rows[0].info.name, str_make("b")));
    expect(&a, 0, 0, 2, (int64_t[]){11 * 12 * MS, 11 * 15 * MS});
    expect(&a, 1, 0, 2, (int64_t[]){11 * (4 + 8) * MS, 11 * (5 + 4) * MS});
    query_answer_fini(&a);
    q.group_by = WIRE_GROUP_USER;
    ask_run(&a, l, QUERY_SERIES, &q, NULL);
    assert_true(str_eq(a.data.rows[0].info.user, str_make("eve")));
    expect(&a, 0, 0, 2, (int64_t[]){(132 + 80) * MS, (165 + 40) * MS});
    expect(&a, 1, 0, 2, (int64_t[]){(44 + 8) * MS, (55 + 4) * MS});
    query_answer_fini(&a);
    q.group_by = WIRE_GROUP_HOST;
    ask_run(&a, l, QUERY_SERIES, &q, NULL);
    expect(&a, 0, 0, 2, (int64_t[]){240 * MS, 240 * MS});
    expect(&a, 1, 0, 2, (int64_t[]){24 * MS, 24 * MS});
    query_answer_fini(&a);
    q.group_by = WIRE_GROUP_FLEET;
    ask_run(&a, l, QUERY_SERIES, &q, NULL);
    assert_int_equal(a.data.n_rows, 1);
    expect(&a, 0, 0, 2, (int64_t[]){264 * MS, 264 * MS});
    assert_int_equal(a.data.series->hosts_asked, 2);
    assert_int_equal(a.data.series->hosts_in[0], 2);
    assert_int_equal(a.data.series->present[0], 1000000);
    assert_int_equal(a.data.series->present[1], 1000000);
    query_answer_fini(&a);
    lab_close(l);
}

static void what_is_in_no_row_is_one_series_more(void **state)
{
    struct lab *l = fleet();
    struct wire_query q = two_buckets(1, both, WIRE_GROUP_NONE);
    struct query_answer a;

    q.host = str_make("host-1");
    q.limit = 1;
    ask_run(&a, l, QUERY_SERIES, &q, NULL);
    assert_int_equal(a.data.n_rows, 1);
    assert_int_equal(a.data.series->n_groups, 2);
    expect(&a, 0, 0, 2, (int64_t[]){12 * MS, 15 * MS});
    expect(&a, 1, 0, 2, (int64_t[]){12 * MS, 9 * MS});
    query_answer_fini(&a);
    q.name = str_make("a"); /* others belong nowhere */
    ask_run(&a, l, QUERY_SERIES, &q, NULL);
    expect(&a, 0, 0, 2, (int64_t[]){8 * MS, 4 * MS});
    expect(&a, 1, 0, 2, (int64_t[]){4 * MS, 5 * MS});
    query_answer_fini(&a);
    lab_close(l);
}

static void a_short_life_counts_in_a_groups_gauge_for_its_time(void **state)
{
    struct lab *l = fleet();
    struct wire_query q = two_buckets(1, both + 1, WIRE_GROUP_IMAGE);
    struct query_answer a;

    q.host = str_make("host-1");
    ask_run(&a, l, QUERY_SERIES, &q, NULL);
    expect(&a, 0, 0, 2, (int64_t[]){300, 600});
    expect(&a, 1, 0, 2, (int64_t[]){100 + 200, 200 + 400 * 2 / 5});
    query_answer_fini(&a);
    q.name = str_make("a"); /* the ticks are the host's all the same */
    ask_run(&a, l, QUERY_SERIES, &q, NULL);
    expect(&a, 0, 0, 2, (int64_t[]){100 + 200, 200 + 400 * 2 / 5});
    query_answer_fini(&a);
    lab_close(l);
}

static void a_process_has_the_mean_and_the_ends_of_its_own_samples(void **state)
{
    struct lab *l = fleet();
    struct wire_query q = two_buckets(2, both, WIRE_GROUP_NONE);
    struct query_answer a;
    const struct wire_series_column *c;

    q.host = str_make("host-1");
    q.has_pid = true;
    q.pid = 2;
    q.envelope = true;
    q.buckets = 1;
    q.step_ns = 10 * CLK_S;
    ask_run(&a, l, QUERY_SERIES, &q, NULL);
    assert_int_equal(a.data.series->n_groups, 1);
    expect(&a, 0, 0, 1, (int64_t[]){12 * MS});
    expect(&a, 0, 1, 1, (int64_t[]){(5 * 200 + 2 * 400) / 7});
    c = a.data.series->columns;
    assert_null(c[0].min); /* a counter */
    assert_int_equal(c[1].min[0], 200);
    assert_int_equal(c[1].max[0], 400);
    query_answer_fini(&a);
    lab_close(l);
}

static void percent_is_of_the_part_of_a_bucket_that_was_asked_for(void **state)
{
    struct lab *l = fleet();
    struct wire_query q = two_buckets(1, percent, WIRE_GROUP_HOST);
    struct query_answer a;

    ask_run(&a, l, QUERY_SERIES, &q, NULL);
    expect(&a, 0, 0, 2, (int64_t[]){48, 48}); /* 240 ms in 5 s */
    query_answer_fini(&a);
    q.until_ns = 0; /* up to the newest data, a nanosecond behind 109: five ticks all the same */
    ask_run(&a, l, QUERY_SERIES, &q, NULL);
    expect(&a, 0, 0, 2, (int64_t[]){48, 48});
    query_answer_fini(&a);
    lab_close(l);
}

/* A batch of ten seconds is missing. */
static struct lab *with_a_hole(void)
{
    struct lab *l = lab_open(NULL, NULL);

    for (unsigned k = 0; k < 4; k++) {
        int64_t v[10];

        if (k == 2) {
            continue;
        }
        for (unsigned i = 0; i < 10; i++) {
            v[i] = 100 * (10 * (int64_t)k + i);
        }
        lab_begin(l, 1, 7, k + 1);
        ticks(l, 100 + 10 * k, 10);
        lab_cpu(l, 9, false, 0, 10, v);
        lab_put(l);
    }
    return l;
}

static void a_lost_batch_is_a_bucket_without_value_and_not_present(void **state)
{
    struct lab *l = with_a_hole();
    struct wire_query q = ask_metrics(2, (const uint8_t[]){M_CPU_TIME, M_CPU_PERCENT});
    struct query_answer a;

    q.since_ns = LAB_NS(90);
    q.until_ns = LAB_NS(150);
    q.step_ns = 10 * CLK_S;
    ask_run(&a, l, QUERY_SERIES, &q, NULL);
    assert_true(a.data.partial);
    /* of the first ten seconds nine growths; over the hole 2 s of CPU in 20 s */
    expect(&a, 0, 0, 6, (int64_t[]){NONE, 900 * MS, 1000 * MS, NONE, 2000 * MS, NONE});
    expect(&a, 0, 1, 6, (int64_t[]){NONE, 90, 100, NONE, 100, NONE});
    for (uint32_t b = 0; b < 6; b++) {
        static const uint32_t hosts_in[] = {0, 1, 1, 0, 1, 0};

        assert_int_equal(a.data.series->hosts_in[b], hosts_in[b]);
    }
    assert_int_equal(a.data.series->present[0], 0); /* nothing was kept before 100 */
    assert_int_equal(a.data.series->present[1], 1000000);
    assert_int_equal(a.data.series->present[3], 0);
    assert_int_equal(a.data.series->present[5], 0); /* silent since 139 */
    query_answer_fini(&a);
    lab_close(l);
}

static void a_window_that_moves_does_not_change_a_bucket(void **state)
{
    struct lab *l = with_a_hole();
    struct wire_query q = ask_metrics(1, both);
    struct query_answer a, b;

    q.since_ns = LAB_NS(100);
    q.until_ns = LAB_NS(120);
    q.step_ns = 10 * CLK_S;
    ask_run(&a, l, QUERY_SERIES, &q, NULL);
    q.since_ns = LAB_NS(107);
    q.until_ns = LAB_NS(117);
    ask_run(&b, l, QUERY_SERIES, &q, NULL);
    assert_int_equal(b.data.series->t0_ns, LAB_NS(100));
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(at(&a, 0, 0, i), at(&b, 0, 0, i));
        assert_int_equal(a.data.series->present[i], b.data.series->present[i]);
    }
    query_answer_fini(&a);
    query_answer_fini(&b);
    lab_close(l);
}

static void the_step_is_the_shortest_usual_one_that_fits(void **state)
{
    static const struct {
        double since_s, until_s;
        uint32_t buckets, n;
        int64_t step_s;
    } cases[] = {
        {100, 110, 10, 10, 1},      {100, 110, 9, 5, 2},  {100, 110, 1, 1, 10},
        {105, 115, 1, 1, 30},       {100, 160, 0, 60, 1}, {0, 3600, 100, 61, 60},
        {100, 86500, 60, 49, 1800},
    };
    struct lab *l = fleet();

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct wire_query q = ask_metrics(1, both);
        struct query_answer a;

        q.since_ns = LAB_NS(cases[i].since_s);
        q.until_ns = LAB_NS(cases[i].until_s);
        q.buckets = cases[i].buckets;
        ask_run(&a, l, QUERY_SERIES, &q, NULL);
        if (a.data.series->step_ns != cases[i].step_s * CLK_S ||
            a.data.series->n_buckets != cases[i].n) {
            fail_msg("case %zu: %u buckets of %lld s", i, a.data.series->n_buckets,
                     (long long)(a.data.series->step_ns / CLK_S));
        }
        query_answer_fini(&a);
    }
    lab_close(l);
}

/* Each window hangs on the host's newest data; here one fell silent long ago. */
static void a_silent_host_does_not_widen_the_buckets(void **state)
{
    struct lab *l = fleet();
    struct wire_query q = ask_metrics(1, both);
    struct query_answer a;

    lab_begin(l, 3, 9, 1);
    ticks(l, -500000, 10);
    lab_cpu(l, 9, false, 0, 10, (int64_t[]){0, 10, 20, 30, 40, 50, 60, 70, 80, 90});
    lab_put(l);
    q.last_ns = 10 * CLK_S;
    q.group_by = WIRE_GROUP_FLEET;
    ask_run(&a, l, QUERY_SERIES, &q, NULL);
    assert_int_equal(a.data.series->step_ns, CLK_S);
    assert_in_range(a.data.series->n_buckets, 10, 11);
    assert_int_equal(at(&a, 0, 0, a.data.series->n_buckets - 1), 66 * MS - 22 * MS);
    query_answer_fini(&a);
    lab_close(l);
}

/* What has not happened is not missing, and no share is of it. */
static void the_last_bucket_ends_now(void **state)
{
    struct lab *l = fleet();
    struct wire_query q = ask_metrics(1, percent);
    struct query_env env = {.view = lab_view(l), .now_ns = LAB_NS(110)};
    struct query_answer a;
    struct errmsg why;

    q.since_ns = LAB_NS(100);
    q.until_ns = LAB_NS(110);
    q.step_ns = 100 * CLK_S;
    q.group_by = WIRE_GROUP_HOST;
    assert_ok(query_run(&a, QUERY_SERIES, &env, &q, &why));
    expect(&a, 0, 0, 1, (int64_t[]){48});
    assert_int_equal(a.data.series->present[0], 1000000);
    query_answer_fini(&a);
    lab_close(l);
}

static void refuse(struct lab *l, const struct wire_query *q, const char *why_part)
{
    const struct query_env env = {.view = lab_view(l), .now_ns = LAB_NS(200)};
    struct errmsg why = {""};
    struct query_answer a;

    assert_int_equal(query_run(&a, QUERY_SERIES, &env, q, &why), ERR_INVALID);
    if (!strstr(why.text, why_part)) {
        fail_msg("\"%s\" has no \"%s\"", why.text, why_part);
    }
    query_answer_fini(&a);
}

static void what_is_too_much_is_refused_with_the_way_out(void **state)
{
    struct lab *l = fleet();
    struct wire_query q = two_buckets(1, both, WIRE_GROUP_TREE);

    refuse(l, &q, "processes, images, users, hosts or the fleet");
    q.group_by = WIRE_GROUP_IMAGE_USER + 1;
    refuse(l, &q, "does not know");
    q = two_buckets(1, both, WIRE_GROUP_IMAGE);
    q.buckets = WIRE_BUCKETS_MAX + 1;
    refuse(l, &q, "at most 4096 buckets");
    q.buckets = 0;
    q.step_ns = 1;
    refuse(l, &q, "ask for a longer step or a shorter window");
    q.step_ns = -1;
    refuse(l, &q, "out of range");
    q.step_ns = INT64_MAX;
    refuse(l, &q, "out of range");
    q = two_buckets(1, both, WIRE_GROUP_NONE);
    q.since_ns = INT64_MIN + 1;
    refuse(l, &q, "out of range");
    q.since_ns = LAB_NS(100);
    q.until_ns = INT64_MAX;
    refuse(l, &q, "out of range");
    q = two_buckets(1, both, WIRE_GROUP_NONE);
    q.until_ns = LAB_NS(100 + 4096);
    q.buckets = WIRE_BUCKETS_MAX;
    for (uint8_t id = 0; q.n_metrics < 40 && id < 255; id++) {
        const struct metric *m = metric_by_id(id);

        if (m && m->column) {
            q.metrics[q.n_metrics++] = id;
        }
    }
    refuse(l, &q, "ask for fewer groups, metrics or buckets");
    lab_close(l);
}

static void without_hosts_there_are_no_buckets(void **state)
{
    struct lab *l = fleet();
    struct wire_query q = two_buckets(1, both, WIRE_GROUP_IMAGE);
    struct query_answer a;

    q.host = str_make("nowhere");
    ask_run(&a, l, QUERY_SERIES, &q, NULL);
    assert_true(a.data.partial);
    assert_int_equal(a.data.series->n_buckets, 0);
    assert_int_equal(a.data.series->n_groups, 0);
    query_answer_fini(&a);
    lab_close(l);
}

/* Whatever the steps, and from head or segments: as History tells it. */
static void buckets_add_up_to_what_history_gives(void **state)
{
    static const int64_t steps[] = {CLK_S, 5 * CLK_S};
    struct lab *l = fleet();

    for (size_t k = 0; k < COUNT_OF(steps); k++) {
        struct wire_query q = two_buckets(1, both, WIRE_GROUP_FLEET);
        struct query_answer series, rows;
        int64_t sums[5] = {0};

        q.since_ns = LAB_NS(105); /* of the first sample History has no growth */
        q.step_ns = steps[k];
        ask_run(&series, l, QUERY_SERIES, &q, NULL);
        ask_run(&rows, l, QUERY_HISTORY, &q, NULL);
        for (size_t i = 0; i < rows.data.n_rows; i++) {
            const struct wire_row *r = &rows.data.rows[i];

            sums[(r->when_ns - LAB_NS(105)) / steps[k]] += r->have & 1 ? r->values[0] : 0;
        }
        for (uint32_t b = 0; b < series.data.series->n_buckets; b++) {
            int64_t value = at(&series, 0, 0, b);

            assert_int_equal(value == NONE ? 0 : value, sums[b]);
        }
        query_answer_fini(&series);
        query_answer_fini(&rows);
    }
    lab_close(l);
}

/* An agent that was stopped for 15 s behind 109, and lost nothing: in one batch, or between two. */
static struct lab *with_a_stop(bool one_batch)
{
    struct lab *l = lab_open(NULL, NULL);
    int64_t v[20];

    for (unsigned i = 0; i < 20; i++) {
        v[i] = 100 * (int64_t)(i < 10 ? i : i + 15);
    }
    lab_begin(l, 1, 7, 1);
    ticks(l, 100, 10);
    if (one_batch) {
        ticks(l, 125, 10);
    }
    lab_cpu(l, 9, false, 0, one_batch ? 20 : 10, v);
    lab_put(l);
    if (!one_batch) {
        lab_begin(l, 1, 7, 2);
        ticks(l, 125, 10);
        lab_cpu(l, 9, false, 0, 10, v + 10);
        lab_put(l);
    }
    return l;
}

static void what_was_not_measured_is_not_present_and_its_growth_is_marked(void **state)
{
    static const struct {
        int64_t step_s;
        double since_s, until_s;
        uint32_t n, present[7], hosts_in[7], reaches[7];
        int64_t cpu_ms[7]; /* NONE: no value */
    } cases[] = {
        {5,
         100,
         135,
         7,
         {1000000, 1000000, 0, 0, 0, 1000000, 1000000},
         {1, 1, 0, 0, 0, 1, 1},
         {0, 0, 0, 0, 0, 3, 0},
         {400, 500, NONE, NONE, NONE, 2000, 500}},
        {20, 100, 135, 2, {500000, 500000}, {1, 1}, {0, 1}, {900, 2500}},
        {10, 110, 135, 3, {0, 500000, 500000}, {0, 1, 1}, {0, 1, 0}, {NONE, 2000, 500}},
        {5, 110, 120, 2, {0, 0}, {0, 0}, {0, 0}, {NONE, NONE}}, /* all of it is in the stop */
        {5, 100, 115, 3, {1000000, 1000000, 0}, {1, 1, 0}, {0, 0, 0}, {400, 500, NONE}},
    };

    for (size_t k = 0; k < 2 * COUNT_OF(cases); k++) {
        struct lab *l = with_a_stop(k % 2);
        struct wire_query q = ask_metrics(1, both);
        struct query_answer a;
        size_t i = k / 2;

        q.since_ns = LAB_NS(cases[i].since_s);
        q.until_ns = LAB_NS(cases[i].until_s);
        q.step_ns = cases[i].step_s * CLK_S;
        ask_run(&a, l, QUERY_SERIES, &q, NULL);
        assert_int_equal(a.data.series->n_buckets, cases[i].n);
        for (uint32_t b = 0; b < cases[i].n; b++) {
            const struct wire_series *s = a.data.series;
            int64_t value = s->n_groups ? at(&a, 0, 0, b) : NONE, want = cases[i].cpu_ms[b];

            if (s->present[b] != cases[i].present[b] || s->hosts_in[b] != cases[i].hosts_in[b] ||
                s->reaches[b] != cases[i].reaches[b] ||
                value != (want == NONE ? NONE : want * MS)) {
                fail_msg("case %zu, bucket %u: present %u, hosts in %u, reaches %u, value %lld", k,
                         b, s->present[b], s->hosts_in[b], s->reaches[b], (long long)value);
            }
        }
        query_answer_fini(&a);
        lab_close(l);
    }
}

/* Pids 8 and 9 are "sh" for ten seconds, then "java" by exec; 8 ends at 120. Another goes on. */
static struct lab *with_exec(void)
{
    struct lab *l = lab_open(NULL, NULL);

    for (unsigned k = 0; k < 5; k++) {
        lab_begin(l, 1, 7, k + 1);
        ticks(l, 100 + 10 * k, 10);
        for (uint32_t pid = 7; pid <= 9; pid++) {
            int64_t v[10];

            for (unsigned i = 0; i < 10; i++) {
                v[i] = pid * (10 * (int64_t)k + i);
            }
            if (pid != 8 || k < 2) {
                lab_cpu(l, pid, false, 0, 10, v);
            }
            if (k < 2) {
                person(l, pid, pid == 7 ? "idler" : k ? "java" : "sh", "eve");
            }
        }
        if (k == 2) {
            lab_life(l, LIFE_PROCESS_STOP, 120, 8, "java");
        }
        lab_put(l);
    }
    return l;
}

static void a_process_is_counted_under_the_newest_name_that_it_had(void **state)
{
    static const struct {
        int64_t step_s;
        double until_s;
        int64_t java_ms; /* of both, in all buckets */
    } cases[] = {{1, 120, 17 * 19}, {10, 120, 17 * 19}, {10, 150, 9 * 49 + 8 * 19}};
    struct lab *l = with_exec();

    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        struct wire_query q = ask_metrics(1, both);
        struct query_answer a;
        int64_t sum = 0;

        q.since_ns = LAB_NS(100);
        q.until_ns = LAB_NS(cases[k].until_s);
        q.step_ns = cases[k].step_s * CLK_S;
        q.group_by = WIRE_GROUP_IMAGE;
        ask_run(&a, l, QUERY_SERIES, &q, NULL);
        assert_int_equal(a.data.n_rows, 2);
        assert_true(str_eq(a.data.rows[0].info.name, str_make("java")));
        assert_int_equal(a.data.rows[0].instances, 2);
        assert_int_equal(a.data.rows[0].values[0], cases[k].java_ms * MS);
        for (uint32_t b = 0; b < a.data.series->n_buckets; b++) {
            sum += at(&a, 0, 0, b) == NONE ? 0 : at(&a, 0, 0, b);
        }
        assert_int_equal(sum, cases[k].java_ms * MS);
        query_answer_fini(&a);
    }
    lab_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_not_measured_is_not_present_and_its_growth_is_marked),
        cmocka_unit_test(a_process_is_counted_under_the_newest_name_that_it_had),
        cmocka_unit_test(groups_add_up_in_buckets_over_the_fleet),
        cmocka_unit_test(what_is_in_no_row_is_one_series_more),
        cmocka_unit_test(a_short_life_counts_in_a_groups_gauge_for_its_time),
        cmocka_unit_test(a_process_has_the_mean_and_the_ends_of_its_own_samples),
        cmocka_unit_test(percent_is_of_the_part_of_a_bucket_that_was_asked_for),
        cmocka_unit_test(a_lost_batch_is_a_bucket_without_value_and_not_present),
        cmocka_unit_test(a_window_that_moves_does_not_change_a_bucket),
        cmocka_unit_test(the_step_is_the_shortest_usual_one_that_fits),
        cmocka_unit_test(a_silent_host_does_not_widen_the_buckets),
        cmocka_unit_test(the_last_bucket_ends_now),
        cmocka_unit_test(what_is_too_much_is_refused_with_the_way_out),
        cmocka_unit_test(without_hosts_there_are_no_buckets),
        cmocka_unit_test(buckets_add_up_to_what_history_gives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ||
           cmocka_run_group_tests_name("sealed", tests, lab_seal_all, NULL);
}
