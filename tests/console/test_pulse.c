/* The pulse: two hours of each host in slots of 30 s; LAB_EPOCH_NS + 10 s begins one, + 40 s a
 * minute. */
#include "collector/query/pulse.h"

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/wire/wire_series.h"
#include "tests/collector/query/ask.h"
#include "tests/support/t.h"

#define MS  INT64_C(1000000)
#define MIB (INT64_C(1) << 20)

static const uint8_t both[] = {M_CPU_TIME, M_WORKING_SET_SIZE};

/* n ticks of a second from `from` on: pid 1 uses 400 ms a second, pid 2 200, the idle one 900;
 * each has 100 MiB. */
static void put(struct lab *l, unsigned host, uint64_t seq, unsigned from, unsigned n)
{
    static const int64_t per_second[] = {900, 400, 200};

    lab_begin(l, host, host, seq);
    for (unsigned i = 0; i < n; i++) {
        lab_tick(l, from + i);
    }
    for (uint32_t pid = 0; pid < 3; pid++) {
        int64_t v[2 * LAB_MAX];

        for (unsigned i = 0; i < n; i++) {
            v[i] = (from + i) * per_second[pid] * MS;
            v[n + i] = 100 * MIB;
        }
        lab_run(l, pid, pid, 0, n, false, 2, both, v);
    }
    lab_put(l);
}

static struct pulse *pulse_make(uint32_t hosts)
{
    struct pulse *p;

    assert_ok(pulse_create(&p, hosts));
    return p;
}

/* The slot that begins at this second. */
static struct pulse_slot at(struct pulse *p, unsigned host, double second)
{
    struct uuid id = lab_host(host);
    struct pulse_slot s;

    (void)pulse_read(p, &id, LAB_NS(second), 1, &s);
    return s;
}

static void expect(struct pulse *p, double second, uint32_t delivered, int64_t cpu_permille)
{
    struct pulse_slot s = at(p, 1, second);

    assert_true(s.there && s.has_cpu && s.has_memory);
    assert_int_equal(s.delivered, delivered);
    assert_int_equal(s.cpu_permille, cpu_permille);
    assert_int_equal(s.memory, 200 * MIB);
    assert_int_equal(s.processes, 2);
}

static void a_slot_has_cpu_memory_and_processes_without_the_idle_one(void **state)
{
    struct pulse *p = pulse_make(10);
    struct lab *l = lab_open(pulse_stored, p);

    (void)state;
    for (unsigned k = 0; k < 6; k++) {
        put(l, 1, k + 1, 40 + 10 * k, 10);
    }
    expect(p, 40, 1000000, 600);
    expect(p, 70, 966666, 600); /* the tick of 100 is not there yet */
    assert_false(at(p, 1, 100).there);
    assert_false(at(p, 2, 40).there);
    lab_close(l);
    pulse_destroy(p);
}

static void a_slot_is_the_same_however_its_batches_are_cut_and_come(void **state)
{
    static const unsigned cuts[][7] = {{40, 101}, {40, 41, 42, 43, 60, 101}, {40, 75, 76, 77, 101}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cuts); i++) {
        struct pulse *p = pulse_make(10);
        struct lab *l = lab_open(pulse_stored, p);

        for (unsigned k = 0; cuts[i][k + 1]; k++) {
            put(l, 1, k + 1, cuts[i][k], cuts[i][k + 1] - cuts[i][k]);
        }
        expect(p, 40, 1000000, 600);
        expect(p, 70, 1000000, 600);
        lab_close(l);
        pulse_destroy(p);
    }
}

static void what_did_not_come_is_not_delivered_and_not_guessed(void **state)
{
    struct pulse *p = pulse_make(10);
    struct lab *l = lab_open(pulse_stored, p);

    (void)state;
    put(l, 1, 1, 40, 10);
    put(l, 1, 3, 60, 41); /* 50 to 59 are missing */
    expect(p, 40, 666666, 600);
    put(l, 1, 2, 50, 10); /* late */
    expect(p, 40, 1000000, 600);
    lab_close(l);
    pulse_destroy(p);
}

static void starts_and_ends_inside_a_batch_count(void **state)
{
    static const uint8_t cpu = M_CPU_TIME;
    static const int64_t short_life[] = {300 * MS, 600 * MS}, long_life[] = {0, 0, 0, 0};
    struct pulse *p = pulse_make(10);
    struct lab *l = lab_open(pulse_stored, p);

    (void)state;
    lab_begin(l, 1, 7, 1);
    for (unsigned i = 0; i < 4; i++) {
        lab_tick(l, 40 + i);
    }
    lab_run(l, 5, 5, 0, 4, false, 1, &cpu, long_life);
    lab_run(l, 6, 6, 1, 2, true, 1, &cpu, short_life); /* 0 to 300 to 600 ms, over 3 s in all */
    lab_put(l);
    assert_int_equal(at(p, 1, 40).cpu_permille, 200);
    assert_false(at(p, 1, 40).has_memory); /* it was not measured */
    lab_close(l);
    pulse_destroy(p);
}

static void a_tick_without_cpu_times_does_not_make_the_next_one_a_life_of_them(void **state)
{
    static const uint8_t memory = M_WORKING_SET_SIZE;
    static const int64_t some[] = {100 * MIB};
    struct pulse *p = pulse_make(10);
    struct lab *l = lab_open(pulse_stored, p);

    (void)state;
    lab_begin(l, 1, 1, 1);
    lab_tick(l, 40);
    for (uint32_t pid = 0; pid < 3; pid++) {
        lab_run(l, pid, pid, 0, 1, false, 1, &memory, some);
    }
    lab_put(l);
    put(l, 1, 2, 41, 10);
    assert_int_equal(at(p, 1, 40).cpu_permille, 600);
    lab_close(l);
    pulse_destroy(p);
}

static void a_change_of_processes_between_batches_is_no_figure(void **state)
{
    static const uint8_t cpu = M_CPU_TIME;
    static const int64_t one[] = {5000 * MS}, other[] = {9000 * MS};
    struct pulse *p = pulse_make(10);
    struct lab *l = lab_open(pulse_stored, p);

    (void)state;
    for (unsigned k = 0; k < 2; k++) {
        lab_begin(l, 1, 7, k + 1);
        lab_tick(l, 41 + k);
        lab_run(l, 5 + k, 5, 0, 1, false, 1, &cpu, k ? other : one);
        lab_put(l);
    }
    assert_true(at(p, 1, 40).there);
    assert_false(at(p, 1, 40).has_cpu);
    lab_close(l);
    pulse_destroy(p);
}

/* Each tick in a batch of its own: growth is from one batch to the next. */
static void a_clock_that_is_set_back_does_not_end_the_figures(void **state)
{
    static const uint8_t cpu = M_CPU_TIME;
    struct pulse *p = pulse_make(10);
    struct lab *l = lab_open(pulse_stored, p);

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        const int64_t used[] = {(int64_t)i * 300 * MS};

        lab_begin(l, 1, 7, i + 1);
        lab_tick_at(l, i < 10 ? 141 + i : 41 + i, 141 + i); /* by 100 s */
        lab_run(l, 5, 5, 0, 1, false, 1, &cpu, used);
        lab_put(l);
    }
    assert_true(at(p, 1, 40).has_cpu);
    assert_int_equal(at(p, 1, 40).cpu_permille, 300);
    lab_close(l);
    pulse_destroy(p);
}

static void a_stop_inside_a_batch_is_not_delivered(void **state)
{
    static const uint8_t cpu = M_CPU_TIME;
    static const int64_t used[] = {1000 * MS, 2000 * MS};
    struct pulse *p = pulse_make(10);
    struct lab *l = lab_open(pulse_stored, p);

    (void)state;
    put(l, 1, 1, 30, 11);
    lab_begin(l, 1, 1, 2);
    lab_tick(l, 41);
    lab_tick(l, 65); /* the agent was stopped for 23 s */
    lab_run(l, 1, 1, 0, 2, false, 1, &cpu, used);
    lab_put(l);
    assert_int_equal(at(p, 1, 40).delivered, 2 * 1000000 / 30);
    lab_close(l);
    pulse_destroy(p);
}

static void stamps_and_counters_of_any_size_cost_nothing(void **state)
{
    static const uint8_t cpu = M_CPU_TIME;
    static const int64_t far[] = {0, INT64_MAX};
    struct pulse *p = pulse_make(10);
    struct lab *l = lab_open(pulse_stored, p);
    int64_t began_ns = os_thread_cpu_ns();

    (void)state;
    lab_received(l, 1e6);
    lab_begin(l, 1, 7, 1);
    lab_tick_at(l, 41, 1);
    lab_tick_at(l, 1e6, 1e9); /* days later, centuries by the other clock */
    lab_run(l, 5, 5, 0, 2, true, 1, &cpu, far);
    lab_put(l);
    assert_true(at(p, 1, 1e6).there);
    assert_true(os_thread_cpu_ns() - began_ns < CLK_S);
    lab_close(l);
    pulse_destroy(p);
}

static void two_hours_are_kept(void **state)
{
    struct pulse *p = pulse_make(10);
    struct lab *l = lab_open(pulse_stored, p);

    (void)state;
    lab_received(l, 7300);
    put(l, 1, 1, 40, 30);
    put(l, 1, 2, 40 + 239 * 30, 30);
    assert_true(at(p, 1, 40).there);
    assert_false(at(p, 1, 70).there);
    put(l, 1, 3, 40 + 240 * 30, 30);
    assert_false(at(p, 1, 40).there);
    put(l, 1, 4, 40, 30); /* too late */
    assert_false(at(p, 1, 40).there);
    lab_close(l);
    pulse_destroy(p);
}

static void the_host_silent_for_longest_gives_way(void **state)
{
    struct pulse *p = pulse_make(2);
    struct lab *l = lab_open(pulse_stored, p);
    struct pulse_stats s;

    (void)state;
    put(l, 1, 1, 40, 30);
    put(l, 2, 1, 70, 30);
    put(l, 3, 1, 100, 30);
    assert_false(at(p, 1, 40).there);
    assert_true(at(p, 2, 70).there && at(p, 3, 100).there);
    pulse_stats(p, &s);
    assert_int_equal(s.hosts, 2);
    assert_int_equal(s.gone, 1);
    lab_close(l);
    pulse_destroy(p);
}

static void after_a_start_it_is_read_back_from_the_store(void **state)
{
    struct pulse *live = pulse_make(10), *back = pulse_make(10);
    struct lab *l = lab_open(pulse_stored, live);
    struct pulse_stats s = {.refilling = true};

    (void)state;
    for (unsigned k = 0; k < 12; k++) {
        put(l, 1, k + 1, 40 + 30 * k, 30);
    }
    assert_ok(pulse_refill(back, lab_store(l), LAB_NS(400)));
    while (s.refilling) {
        os_sleep_ns(MS);
        pulse_stats(back, &s);
    }
    assert_int_equal(s.refilled, 1);
    for (unsigned second = 100; second < 370; second += 30) {
        struct pulse_slot a = at(live, 1, second), b = at(back, 1, second);

        assert_true(b.there && b.has_cpu);
        assert_in_range(b.delivered, 980000, 1000000);
        assert_in_range(b.cpu_permille, a.cpu_permille - 12, a.cpu_permille + 12); /* 2 % */
        assert_in_range(b.memory, a.memory - a.memory / 100, a.memory + a.memory / 100);
        assert_int_equal(b.processes, a.processes);
    }
    pulse_destroy(back);
    lab_close(l);
    pulse_destroy(live);
}

static void ask_kind(struct query_answer *a, struct lab *l, struct pulse *p, enum query_kind kind,
                     const struct wire_query *q)
{
    struct query_env env = {.view = lab_view(l), .now_ns = LAB_NS(105), .pulse = p};
    struct errmsg why = {""};

    assert_ok(query_run(a, kind, &env, q, &why));
}

static void ask(struct query_answer *a, struct lab *l, struct pulse *p, const struct wire_query *q)
{
    ask_kind(a, l, p, QUERY_PULSE, q);
}

static void a_question_has_a_group_for_each_host_and_comes_in_pages(void **state)
{
    struct pulse *p = pulse_make(10);
    struct lab *l = lab_open(pulse_stored, p);
    struct wire_query q = {.limit = 2};
    const struct wire_series *s;
    struct query_answer a;

    (void)state;
    put(l, 1, 1, 39, 62);
    put(l, 2, 1, 39, 31);
    put(l, 3, 1, 39, 62);
    ask(&a, l, p, &q);
    s = a.data.series;
    assert_int_equal(s->n_groups, 2);
    assert_int_equal(s->n_buckets, PULSE_SLOTS);
    assert_int_equal(s->t0_ns, LAB_NS(100) - 239 * PULSE_STEP_NS);
    assert_int_equal(s->columns[0].avg[PULSE_SLOTS - 2], 600);
    assert_int_equal(s->columns[1].avg[PULSE_SLOTS - 2], 200 * MIB);
    assert_int_equal(s->group_present[PULSE_SLOTS - 2], 1000000);
    assert_int_equal(s->group_processes[PULSE_SLOTS - 2], 2);
    assert_int_equal(s->group_present[0], WIRE_SERIES_NONE);
    assert_false(wire_series_has(&s->columns[2], PULSE_SLOTS - 2)); /* host 2 fell silent */
    assert_int_equal(s->present[PULSE_SLOTS - 2], 500000);
    assert_int_equal(s->hosts_in[PULSE_SLOTS - 2], 1);
    assert_true(a.more);
    q.cursor = (struct str){(const char *)a.cursor, a.cursor_n};
    {
        struct query_answer rest;

        ask(&rest, l, p, &q);
        assert_int_equal(rest.data.n_rows, 1);
        assert_true(str_eq(rest.data.hosts[0].name, str_make("host-3")));
        assert_false(rest.more);
        query_answer_fini(&rest);
    }
    query_answer_fini(&a);
    lab_close(l);
    pulse_destroy(p);
}

static void only_hosts_that_the_question_names_are_told(void **state)
{
    struct pulse *p = pulse_make(10);
    struct lab *l = lab_open(pulse_stored, p);
    struct wire_query q = {.buckets = 2};
    struct query_answer all, a;
    uint8_t ids[2][16];

    (void)state;
    for (unsigned i = 1; i <= 3; i++) {
        put(l, i, 1, 39, 62);
    }
    ask(&all, l, p, &(struct wire_query){.buckets = 2});
    memcpy(ids[0], all.data.hosts[2].id.b, 16);
    memset(ids[1], 0xee, 16); /* of nobody */
    q.ids = (struct str){(const char *)ids, sizeof ids};
    ask(&a, l, p, &q);
    assert_int_equal(a.data.n_rows, 1);
    assert_true(str_eq(a.data.hosts[0].name, str_make("host-3")));
    query_answer_fini(&a);
    q.host = str_make("host-1"); /* both have to fit */
    ask(&a, l, p, &q);
    assert_int_equal(a.data.n_rows, 0);
    query_answer_fini(&a);
    query_answer_fini(&all);
    lab_close(l);
    pulse_destroy(p);
}

static void the_list_of_hosts_has_what_they_used_last(void **state)
{
    struct pulse *p = pulse_make(10);
    struct lab *l = lab_open(pulse_stored, p);
    struct query_answer a;
    struct wire_answer *out;
    struct buf b;

    (void)state;
    put(l, 1, 1, 39, 62);
    put(l, 2, 1, 39, 31); /* silent since, not idle */
    ask_kind(&a, l, p, QUERY_HOSTS, &(struct wire_query){0});
    buf_init(&b, 1u << 20);
    assert_ok(wire_answer_encode(&b, &a.data));
    assert_ok(wire_answer_decode(&out, b.p, b.n));
    for (size_t i = 0; i < 2; i++) {
        assert_true(out->hosts[i].has_cpu && out->hosts[i].has_memory);
        assert_in_range(out->hosts[i].cpu_permille, 590, 610);
        assert_int_equal(out->hosts[i].memory, 200 * MIB);
    }
    wire_answer_free(out);
    query_answer_fini(&a);
    ask_kind(&a, l, NULL, QUERY_HOSTS, &(struct wire_query){0});
    buf_reset(&b);
    assert_ok(wire_answer_encode(&b, &a.data));
    assert_ok(wire_answer_decode(&out, b.p, b.n));
    assert_false(out->hosts[0].has_cpu || out->hosts[0].has_memory);
    wire_answer_free(out);
    buf_fini(&b);
    query_answer_fini(&a);
    lab_close(l);
    pulse_destroy(p);
}

static void it_travels_with_what_is_not_known(void **state)
{
    struct pulse *p = pulse_make(10);
    struct lab *l = lab_open(pulse_stored, p);
    const struct wire_query q = {.buckets = 3};
    struct query_answer a;
    struct wire_answer *out;
    struct buf b;

    (void)state;
    put(l, 1, 1, 39, 32);
    ask(&a, l, p, &q);
    buf_init(&b, 1u << 20);
    assert_ok(wire_answer_encode(&b, &a.data));
    assert_ok(wire_answer_decode(&out, b.p, b.n));
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(out->series->group_present[i], a.data.series->group_present[i]);
        assert_int_equal(out->series->group_processes[i], a.data.series->group_processes[i]);
    }
    assert_int_equal(out->series->group_present[2], WIRE_SERIES_NONE);
    wire_answer_free(out);
    buf_fini(&b);
    query_answer_fini(&a);
    lab_close(l);
    pulse_destroy(p);
}

static void hostile_shares_are_refused(void **state)
{
    /* a metric; series of one bucket and one group: a column, present, processes */
    static const uint8_t sound[] = {0x12, 1, 9,    0x7a, 16,   0x22, 1, 5,    0x2a, 1, 1,
                                    0x32, 8, 0x0a, 0,    0x12, 1,    6, 0x1a, 1,    3};
    static const uint8_t alone[] = {0x12, 1, 9,    0x7a, 13,   0x22, 1,    5, 0x2a,
                                    1,    1, 0x32, 5,    0x0a, 0,    0x12, 1, 6};
    static const uint8_t two[] = {0x12, 1,    9, 0x7a, 18, 0x22, 1, 5,    0x2a, 1, 1, 0x32,
                                  10,   0x0a, 0, 0x12, 2,  6,    6, 0x1a, 2,    3, 3};
    struct wire_answer *out;

    (void)state;
    assert_ok(wire_answer_decode(&out, sound, sizeof sound));
    assert_int_equal(out->series->group_present[0], 5);
    assert_int_equal(out->series->group_processes[0], 2);
    wire_answer_free(out);
    assert_err(wire_answer_decode(&out, alone, sizeof alone), ERR_CORRUPT);
    assert_err(wire_answer_decode(&out, two, sizeof two), ERR_CORRUPT);
}

static void other_metrics_and_longer_times_are_refused_with_the_way_out(void **state)
{
    static const uint8_t threads[] = {M_THREAD_COUNT};
    struct lab *l = lab_open(NULL, NULL);
    struct query_env env = {.view = lab_view(l), .now_ns = LAB_NS(105)};
    struct wire_query q = ask_metrics(1, threads);
    struct errmsg why = {""};
    struct query_answer a;

    (void)state;
    assert_err(query_run(&a, QUERY_PULSE, &env, &q, &why), ERR_INVALID);
    assert_non_null(strstr(why.text, "Series"));
    query_answer_fini(&a);
    q = (struct wire_query){.buckets = PULSE_SLOTS + 1};
    assert_err(query_run(&a, QUERY_PULSE, &env, &q, &why), ERR_INVALID);
    query_answer_fini(&a);
    lab_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_has_cpu_memory_and_processes_without_the_idle_one),
        cmocka_unit_test(a_slot_is_the_same_however_its_batches_are_cut_and_come),
        cmocka_unit_test(what_did_not_come_is_not_delivered_and_not_guessed),
        cmocka_unit_test(starts_and_ends_inside_a_batch_count),
        cmocka_unit_test(a_tick_without_cpu_times_does_not_make_the_next_one_a_life_of_them),
        cmocka_unit_test(a_change_of_processes_between_batches_is_no_figure),
        cmocka_unit_test(a_clock_that_is_set_back_does_not_end_the_figures),
        cmocka_unit_test(a_stop_inside_a_batch_is_not_delivered),
        cmocka_unit_test(stamps_and_counters_of_any_size_cost_nothing),
        cmocka_unit_test(two_hours_are_kept),
        cmocka_unit_test(the_host_silent_for_longest_gives_way),
        cmocka_unit_test(after_a_start_it_is_read_back_from_the_store),
        cmocka_unit_test(a_question_has_a_group_for_each_host_and_comes_in_pages),
        cmocka_unit_test(only_hosts_that_the_question_names_are_told),
        cmocka_unit_test(the_list_of_hosts_has_what_they_used_last),
        cmocka_unit_test(it_travels_with_what_is_not_known),
        cmocka_unit_test(hostile_shares_are_refused),
        cmocka_unit_test(other_metrics_and_longer_times_are_refused_with_the_way_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ||
           cmocka_run_group_tests_name("sealed", tests, lab_seal_all, NULL);
}
