/* What ListHosts tells of clocks, certificates and clones, by the session and by the store. */
#include "tests/support/t.h"

#include "common/base/clk.h"
#include "common/wire/wire_overview.h"
#include "tests/collector/query/ask.h"

#define DAY (86400 * CLK_S)
#define NOW LAB_NS(1000)

static struct query_host_state told;
static bool heard;

static bool state_of(void *ctx, const struct uuid *host, struct query_host_state *out)
{
    (void)ctx;
    (void)host;
    *out = told;
    return heard;
}

static bool forgets_host_2(void *ctx, const struct uuid *host)
{
    const struct uuid id = lab_host(2);

    (void)ctx;
    return memcmp(host->b, id.b, sizeof id.b) == 0;
}

static struct lab *lab_with_one(struct host_offset clock)
{
    static const int64_t cpu[] = {1, 2, 3};
    struct lab *l = lab_open(NULL, NULL);

    lab_begin(l, 1, 77, 1);
    lab_clock(l, clock);
    for (unsigned i = 0; i < 3; i++) {
        lab_tick(l, 990 + i);
    }
    lab_cpu(l, 100, false, 0, 3, cpu);
    lab_put(l);
    return l;
}

static void run(struct query_answer *a, struct lab *l, enum query_kind kind, bool failed)
{
    struct query_env env = {
        .view = lab_view(l), .now_ns = NOW, .store_failed = failed, .host_state = state_of};
    struct wire_query q = {0};
    struct errmsg why = {""};

    assert_ok(query_run(a, kind, &env, &q, &why));
}

static void the_clock_is_what_the_agent_told_last_else_what_is_stored(void **state)
{
    static const struct {
        struct host_offset stored, told;
        bool heard;
        int64_t offset_ns, error_ns; /* error -1: none */
    } rows[] = {
        {{0}, {0}, false, 0, -1},
        {{true, true, 5, 2}, {0}, false, 5, 2},
        {{true, true, 5, 2}, {0}, true, 5, 2},
        {{true, true, 5, 2}, {true, true, 7, 1}, true, 7, 1},
        {{true, true, 5, 2}, {true, false, 8, 0}, true, 8, -1},
        {{true, false, 5, 0}, {0}, true, 5, -1},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct lab *l = lab_with_one(rows[i].stored);
        struct query_answer a;

        told = (struct query_host_state){.clock = rows[i].told, .heard_ns = 9};
        heard = rows[i].heard;
        run(&a, l, QUERY_HOSTS, false);
        assert_int_equal(a.data.n_hosts, 1);
        assert_int_equal(a.data.hosts[0].offset_ns, rows[i].offset_ns);
        assert_int_equal(a.data.hosts[0].has_offset, rows[i].error_ns >= 0);
        if (rows[i].error_ns >= 0) {
            assert_int_equal(a.data.hosts[0].offset_error_ns, rows[i].error_ns);
        }
        assert_int_equal(a.data.hosts[0].heard_ns, heard ? 9 : 0);
        query_answer_fini(&a);
        lab_close(l);
    }
}

static void a_host_with_a_wrong_clock_is_not_silent(void **state)
{
    /* Its newest stamp is of 992 s; what its clock lacks, and what ours shows, in s. */
    static const struct {
        int64_t behind_s;
        int64_t now_s;
        bool silent;
    } rows[] = {
        {0, 1000, false},   {0, 1100, true},   {3600, 4600, false},
        {3600, 4700, true}, {-800, 300, true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct lab *l = lab_with_one((struct host_offset){true, true, rows[i].behind_s * CLK_S, 0});
        struct query_env env = {.view = lab_view(l),
                                .now_ns = LAB_EPOCH_NS + rows[i].now_s * CLK_S};
        struct wire_query q = {0};
        struct errmsg why = {""};
        struct query_answer a;

        assert_ok(query_run(&a, QUERY_TOP, &env, &q, &why));
        assert_int_equal(ask_note(&a.data, "nothing new since"), rows[i].silent);
        query_answer_fini(&a);
        lab_close(l);
    }
}

static void a_certificate_that_was_not_renewed_in_time_is_noted(void **state)
{
    static const struct {
        int64_t life_days, left_days; /* left: 0 = nothing is known */
        const char *note;             /* NULL: none */
    } rows[] = {
        {90, 0, NULL},
        {90, 31, NULL},
        {90, 30, "host-1 (30 days or less)"},
        {90, 8, "host-1 (30 days or less)"},
        {90, 7, "host-1 (7 days or less)"},
        {90, 1, "host-1 (1 day or less)"},
        {90, -1, "host-1 (it has ended)"},
        {3650, 31, NULL},
        {9, 4, NULL}, /* short lives are not due for long */
        {9, 3, "host-1 (7 days or less)"},
    };
    struct lab *l = lab_with_one((struct host_offset){0});

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t end_ns = NOW + rows[i].left_days * DAY;
        struct query_answer a;

        heard = true;
        told = (struct query_host_state){0};
        if (rows[i].left_days) {
            told.not_after_ns = end_ns;
            told.not_before_ns = end_ns - rows[i].life_days * DAY;
        }
        run(&a, l, QUERY_HOSTS, false);
        assert_int_equal(a.data.hosts[0].not_after_ns, told.not_after_ns);
        assert_int_equal(ask_note(&a.data, "certificate ends soon"), rows[i].note != NULL);
        assert_true(!rows[i].note || ask_note(&a.data, rows[i].note));
        assert_false(a.data.partial);
        query_answer_fini(&a);
        run(&a, l, QUERY_TOP, false); /* hosts says it, not every answer */
        assert_false(ask_note(&a.data, "certificate"));
        query_answer_fini(&a);
    }
    lab_close(l);
}

/* Host 1 lives; hosts 2 and 3 fell silent, or are recordings that ended. */
static struct lab *lab_with_dead(uint32_t flags)
{
    static const int64_t cpu[] = {1, 2, 3};
    struct lab *l = lab_open(NULL, NULL);

    for (unsigned h = 1; h <= 3; h++) {
        lab_begin(l, h, 77, 1);
        lab_flags(l, h == 1 ? 0 : flags);
        for (unsigned i = 0; i < 3; i++) {
            lab_tick(l, (h == 1 ? 990 : 100) + i);
        }
        lab_cpu(l, 100, false, 0, 3, cpu);
        lab_put(l);
    }
    return l;
}

static void ended_recordings_make_no_later_answer_partial(void **state)
{
    static const enum query_kind kinds[] = {QUERY_TOP, QUERY_PROCESSES, QUERY_HISTORY, QUERY_EVENTS,
                                            QUERY_COVERAGE};
    struct lab *l = lab_with_dead(BATCH_REPLAY | BATCH_LAST);
    struct wire_query q = {.since_ns = LAB_NS(985)};
    struct query_answer a;

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        ask_run(&a, l, kinds[i], &q, NULL);
        assert_false(a.data.partial);
        assert_true(ask_note(&a.data, "coverage 100 %"));
        assert_false(ask_note(&a.data, "nothing from"));
        assert_true(ask_note(&a.data, "a recording: host-2 (ended"));
        for (size_t k = 0; k < a.data.n_coverage; k++) {
            assert_int_equal(a.data.coverage[k].ppm, 1000000);
            assert_false(a.data.coverage[k].missing);
        }
        query_answer_fini(&a);
    }
    q.host = str_make("host-2"); /* whoever asks for nothing else lacks it */
    ask_run(&a, l, QUERY_TOP, &q, NULL);
    assert_true(a.data.partial);
    query_answer_fini(&a);
    ask_run(&a, l, QUERY_OVERVIEW, &(struct wire_query){0}, NULL);
    assert_int_equal(a.data.overview->processes, 1);
    assert_int_equal(a.data.overview->ended, 2);
    query_answer_fini(&a);
    lab_close(l);
}

/* Killed half-way: no last batch, and nobody plays it any more. One that is being played is
 * expected to go on. */
static void recordings_that_broke_off_are_not_expected_to_go_on(void **state)
{
    static const enum query_kind kinds[] = {QUERY_TOP, QUERY_PROCESSES, QUERY_HISTORY, QUERY_EVENTS,
                                            QUERY_COVERAGE};
    struct lab *l = lab_with_dead(BATCH_REPLAY);
    struct query_env env = {.view = lab_view(l), .now_ns = NOW, .host_state = state_of};
    struct wire_query q = {.since_ns = LAB_NS(985)};
    struct errmsg why = {""};
    struct query_answer a;

    for (unsigned played = 0; played < 2; played++) {
        heard = played != 0;
        told = (struct query_host_state){.connected = played != 0};
        for (size_t i = 0; i < COUNT_OF(kinds); i++) {
            assert_ok(query_run(&a, kinds[i], &env, &q, &why));
            assert_int_equal(a.data.partial, played);
            assert_int_equal(ask_note(&a.data, "no data in the window: host-2"), played);
            assert_int_equal(ask_note(&a.data, "a recording: host-2 (so far up to"), played);
            assert_int_equal(ask_note(&a.data, "a recording: host-2 (broke off at"), !played);
            query_answer_fini(&a);
        }
        run(&a, l, QUERY_HOSTS, false);
        assert_int_equal(a.data.hosts[1].ended, !played);
        assert_int_equal(ask_note(&a.data, "a recording: host-2 (broke off at"), !played);
        query_answer_fini(&a);
        run(&a, l, QUERY_OVERVIEW, false);
        assert_int_equal(a.data.overview->ended, played ? 0 : 2);
        assert_int_equal(a.data.overview->silent, played ? 0 : 1); /* host-1: no recording */
        assert_int_equal(a.data.overview->processes, played ? 3 : 1);
        query_answer_fini(&a);
    }
    q.host = str_make("host-2"); /* whoever asks for nothing else lacks it */
    heard = false;
    assert_ok(query_run(&a, QUERY_TOP, &env, &q, &why));
    assert_true(a.data.partial);
    query_answer_fini(&a);
    lab_close(l);
}

/* Its last batch said good-bye, and a new one has yet to come. */
static void a_host_that_is_back_has_not_ended(void **state)
{
    struct lab *l = lab_with_dead(BATCH_LAST);
    struct query_answer a;

    heard = true;
    for (unsigned back = 0; back < 2; back++) {
        told = (struct query_host_state){.connected = back != 0};
        run(&a, l, QUERY_HOSTS, false);
        assert_int_equal(a.data.hosts[1].connected, back);
        assert_int_equal(a.data.hosts[1].ended, !back);
        query_answer_fini(&a);
    }
    lab_close(l);
}

static void forgotten_hosts_are_in_no_answer_but_to_those_who_name_them(void **state)
{
    static const struct {
        enum query_kind kind;
        const char *host;
        bool all;
        size_t hosts;
    } rows[] = {
        {QUERY_HOSTS, "", false, 2},       {QUERY_HOSTS, "", true, 3},
        {QUERY_HOSTS, "host-*", false, 2}, {QUERY_HOSTS, "host-2", false, 1},
        {QUERY_TOP, "", false, 2},         {QUERY_TOP, "host-2", false, 1},
        {QUERY_HISTORY, "", false, 2},     {QUERY_COVERAGE, "", false, 2},
        {QUERY_TREE, "host-?", false, 2},
    };
    struct lab *l = lab_with_dead(0);
    struct query_env env = {.view = lab_view(l), .now_ns = NOW, .is_forgotten = forgets_host_2};
    struct wire_query q = {0};
    struct query_answer a;
    struct errmsg why = {""};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        q = (struct wire_query){.host = str_make(rows[i].host), .forgotten = rows[i].all};
        assert_ok(query_run(&a, rows[i].kind, &env, &q, &why));
        assert_int_equal(a.data.n_hosts, rows[i].hosts);
        for (size_t k = 0; k < a.data.n_hosts; k++) {
            assert_int_equal(a.data.hosts[k].forgotten,
                             str_eq(a.data.hosts[k].name, str_make("host-2")));
        }
        query_answer_fini(&a);
    }
    q = (struct wire_query){0};
    assert_ok(query_run(&a, QUERY_OVERVIEW, &env, &q, &why));
    assert_int_equal(a.data.overview->hosts, 2);
    query_answer_fini(&a);
    q = (struct wire_query){.since_ns = LAB_NS(985)};
    assert_ok(query_run(&a, QUERY_TOP, &env, &q, &why));
    assert_false(ask_note(&a.data, "host-2"));
    assert_true(ask_note(&a.data, "no data in the window: host-3"));
    query_answer_fini(&a);
    lab_close(l);
}

static void a_revoked_host_says_so(void **state)
{
    struct lab *l = lab_with_one((struct host_offset){0});
    struct query_answer a;

    told = (struct query_host_state){.revoked = true};
    heard = true;
    run(&a, l, QUERY_HOSTS, false);
    assert_true(a.data.hosts[0].revoked);
    query_answer_fini(&a);
    for (unsigned connected = 0; connected < 2; connected++) { /* under another certificate */
        told.connected = connected != 0;
        run(&a, l, QUERY_OVERVIEW, false);
        assert_int_equal(a.data.overview->silent, 0);
        assert_int_equal(a.data.overview->revoked, !connected);
        assert_int_equal(a.data.overview->connected, connected);
        query_answer_fini(&a);
    }
    lab_close(l);
}

static void hosts_are_counted_as_far_as_they_are_seen(void **state)
{
    static const struct {
        const char *scope;
        bool forgets;
        uint32_t hosts;
    } rows[] = {{NULL, false, 3},    {"", false, 3},      {NULL, true, 2},
                {"host-1", true, 1}, {"host-?", true, 2}, {"none", false, 0}};
    struct lab *l = lab_with_dead(0);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct query_env env = {.view = lab_view(l),
                                .scope = rows[i].scope,
                                .is_forgotten = rows[i].forgets ? forgets_host_2 : NULL};

        assert_int_equal(query_count_hosts(&env), rows[i].hosts);
    }
    lab_close(l);
}

static void clones_and_a_failed_store_are_noted_on_every_answer(void **state)
{
    static const enum query_kind kinds[] = {QUERY_HOSTS, QUERY_TOP, QUERY_PROCESSES};
    struct lab *l = lab_with_one((struct host_offset){0});

    heard = true;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        for (unsigned bits = 0; bits < 4; bits++) {
            struct query_answer a;

            told = (struct query_host_state){.clones = bits & 1 ? 2 : 0};
            run(&a, l, kinds[i], bits & 2);
            assert_int_equal(ask_note(&a.data, "two machines use this identity"), bits & 1);
            assert_int_equal(ask_note(&a.data, "nothing new is stored"), bits >> 1);
            assert_int_equal(a.data.hosts[0].clones, told.clones);
            query_answer_fini(&a);
        }
    }
    lab_close(l);
}

/* Of three processes one ends before the last tick, and the idle one does not count. An event after
 * the last tick makes the host's newest stamp one that has no tick. */
static void put_three(struct lab *l, uint64_t seq, double second, bool event)
{
    static const int64_t cpu[] = {1, 2, 3};

    lab_begin(l, 1, 77, seq);
    for (unsigned i = 0; i < 3; i++) {
        lab_tick(l, second + i);
    }
    lab_cpu(l, 0, false, 0, 3, cpu);
    lab_cpu(l, 100, false, 0, 3, cpu);
    lab_cpu(l, 200, false, 0, 2, cpu);
    if (event) {
        lab_life(l, LIFE_PROCESS_START, second + 2.5, 300, "late.exe");
    }
    lab_put(l);
}

static void assert_processes(struct lab *l, uint32_t n)
{
    struct query_answer a;

    run(&a, l, QUERY_HOSTS, false);
    assert_int_equal(a.data.n_hosts, 1);
    assert_int_equal(a.data.hosts[0].processes, n);
    query_answer_fini(&a);
}

static void processes_of_a_host_are_those_of_its_newest_tick(void **state)
{
    static const int64_t cpu[] = {1};
    struct lab *l = lab_open(NULL, NULL);

    put_three(l, 1, 900, false);
    assert_processes(l, 1);
    put_three(l, 2, 910, true);
    assert_processes(l, 1);
    lab_begin(l, 1, 77, 3);
    lab_tick(l, 920);
    lab_cpu(l, 100, false, 0, 1, cpu);
    lab_cpu(l, 200, false, 0, 1, cpu);
    lab_put(l);
    assert_processes(l, 2);
    put_three(l, 4, 800, false); /* older than what is there */
    assert_processes(l, 2);
    lab_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_clock_is_what_the_agent_told_last_else_what_is_stored),
        cmocka_unit_test(processes_of_a_host_are_those_of_its_newest_tick),
        cmocka_unit_test(a_host_with_a_wrong_clock_is_not_silent),
        cmocka_unit_test(a_certificate_that_was_not_renewed_in_time_is_noted),
        cmocka_unit_test(ended_recordings_make_no_later_answer_partial),
        cmocka_unit_test(recordings_that_broke_off_are_not_expected_to_go_on),
        cmocka_unit_test(hosts_are_counted_as_far_as_they_are_seen),
        cmocka_unit_test(a_host_that_is_back_has_not_ended),
        cmocka_unit_test(forgotten_hosts_are_in_no_answer_but_to_those_who_name_them),
        cmocka_unit_test(a_revoked_host_says_so),
        cmocka_unit_test(clones_and_a_failed_store_are_noted_on_every_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ||
           cmocka_run_group_tests_name("sealed", tests, lab_seal_all, NULL);
}
