#include "collector/ingest/clones.h"

#include "tests/support/draw.h"
#include "tests/support/t.h"

/* What happens when: `call` is H(ello) or C(all), by connection and boot (letters). */
struct deed {
    int64_t at_s;
    char call;
    uint32_t connection;
    uint8_t boot;
    enum clones_verdict verdict;
    unsigned clones; /* afterwards */
};

static void play(const struct deed *deeds, size_t n)
{
    struct clones c = {0};

    for (size_t i = 0; i < n; i++) {
        const struct deed *d = &deeds[i];
        struct uuid boot = {{d->boot}};
        int64_t now_ns = (10000 + d->at_s) * CLK_S;
        enum clones_verdict v = d->call == 'H' ? clones_hello(&c, d->connection, &boot, now_ns)
                                               : clones_call(&c, d->connection, now_ns);

        assert_int_equal(v, d->verdict);
        assert_int_equal(clones_count(&c, now_ns), d->clones);
    }
}

#define PLAY(deeds) play(deeds, COUNT_OF(deeds))

static void a_restart_is_no_clone(void **state)
{
    /* The connection of the boot before ends without a word and counts as alive. */
    static const struct deed deeds[] = {
        {0, 'H', 1, 'a', CLONES_FINE, 0},  {10, 'C', 1, 0, CLONES_FINE, 0},
        {40, 'H', 2, 'b', CLONES_FINE, 0}, {41, 'C', 2, 0, CLONES_FINE, 0},
        {45, 'C', 1, 0, CLONES_FINE, 0}, /* had been under way */
        {70, 'C', 2, 0, CLONES_FINE, 0},   {100, 'H', 3, 'c', CLONES_FINE, 0},
        {130, 'C', 3, 0, CLONES_FINE, 0},  {131, 'H', 4, 'c', CLONES_FINE, 0},
        {5000, 'C', 4, 0, CLONES_FINE, 0},
    };

    PLAY(deeds);
}

static void the_machine_that_came_later_is_refused_when_the_older_one_calls(void **state)
{
    static const struct deed deeds[] = {
        {0, 'H', 1, 'a', CLONES_FINE, 0},   {10, 'H', 2, 'b', CLONES_FINE, 0},
        {20, 'C', 2, 0, CLONES_FINE, 0},    {24, 'C', 1, 0, CLONES_FINE, 0},
        {25, 'C', 1, 0, CLONES_FOUND, 1},   {26, 'C', 1, 0, CLONES_FINE, 1},
        {30, 'C', 2, 0, CLONES_REFUSED, 1}, {31, 'H', 3, 'b', CLONES_REFUSED, 1},
        {32, 'H', 4, 'a', CLONES_FINE, 1}, /* the right one may come again, */
        {33, 'H', 5, 'c', CLONES_FINE, 1}, /* and be restarted: */
        {34, 'C', 5, 0, CLONES_FINE, 1},    {60, 'H', 3, 'b', CLONES_REFUSED, 1},
        {600, 'C', 5, 0, CLONES_FINE, 1},   {610, 'H', 3, 'b', CLONES_REFUSED, 1},
    };

    PLAY(deeds);
}

static void a_third_machine_is_found_too(void **state)
{
    static const struct deed deeds[] = {
        {0, 'H', 1, 'a', CLONES_FINE, 0},   {10, 'H', 2, 'b', CLONES_FINE, 0},
        {30, 'H', 3, 'c', CLONES_FINE, 0},  {50, 'C', 1, 0, CLONES_FOUND, 2},
        {51, 'C', 2, 0, CLONES_REFUSED, 2}, {52, 'C', 3, 0, CLONES_REFUSED, 2},
    };

    PLAY(deeds);
}

static void the_refused_one_is_taken_when_the_other_is_silent(void **state)
{
    static const struct deed deeds[] = {
        {0, 'H', 1, 'a', CLONES_FINE, 0},
        {10, 'H', 2, 'b', CLONES_FINE, 0},
        {40, 'C', 1, 0, CLONES_FOUND, 1},
        {300, 'C', 2, 0, CLONES_REFUSED, 1},
        {639, 'C', 2, 0, CLONES_REFUSED, 1},
        {640, 'C', 2, 0, CLONES_FINE, 0},
        {650, 'H', 2, 'b', CLONES_FINE, 0},
        {700, 'H', 3, 'a', CLONES_FINE, 0}, /* now a newcomer */
        {720, 'C', 2, 0, CLONES_FOUND, 1},
        {721, 'C', 3, 0, CLONES_REFUSED, 1},
    };

    PLAY(deeds);
}

static void calls_without_a_hello_prove_nothing(void **state)
{
    static const struct deed deeds[] = {
        {0, 'C', 1, 0, CLONES_FINE, 0},
        {1, 'H', 2, 'a', CLONES_FINE, 0},
        {100, 'C', 1, 0, CLONES_FINE, 0},
    };

    PLAY(deeds);
}

static void after_a_restart_of_the_collector_the_one_whose_data_came_last_is_older(void **state)
{
    const struct uuid a = {{'a'}}, b = {{'b'}};
    struct clones c = {0};
    int64_t now_ns = 10000 * CLK_S;

    clones_remember(&c, &a, now_ns - 30 * CLK_S, now_ns);
    assert_int_equal(clones_hello(&c, 1, &b, now_ns), CLONES_FINE);
    clones_remember(&c, &b, now_ns - 60 * CLK_S, now_ns); /* too late to matter */
    assert_int_equal(clones_hello(&c, 2, &a, now_ns + 20 * CLK_S), CLONES_FOUND);
    assert_int_equal(clones_call(&c, 1, now_ns + 30 * CLK_S), CLONES_REFUSED);

    c = (struct clones){0}; /* what came long ago does not count */
    clones_remember(&c, &a, now_ns - CLONES_FORGET_NS, now_ns);
    assert_int_equal(c.n, 0);
}

static void connections_and_machines_beyond_the_bounds_push_the_oldest_out(void **state)
{
    struct clones c = {0};
    struct uuid boot = {{0}};

    for (uint32_t i = 1; i <= 3 * CLONES_CONNECTIONS; i++) {
        boot.b[0] = (uint8_t)i;
        assert_int_equal(clones_hello(&c, i, &boot, i * CLK_MS), CLONES_FINE);
    }
    assert_int_equal(c.n, CLONES_MACHINES);
    assert_int_equal(c.n_connections, CLONES_CONNECTIONS);
    assert_true(clones_boot(&c, 3 * CLONES_CONNECTIONS, &boot));
    assert_int_equal(boot.b[0], 3 * CLONES_CONNECTIONS);
    assert_false(clones_boot(&c, 1, &boot));
    clones_gone(&c, 3 * CLONES_CONNECTIONS);
    assert_false(clones_boot(&c, 3 * CLONES_CONNECTIONS, &boot));
    assert_int_equal(c.n_connections, CLONES_CONNECTIONS - 1);
}

static void batches_wait_while_an_older_boot_may_be_alive(void **state)
{
    static const struct {
        bool older_connected;
        int64_t older_silent_s; /* before the newer one asks */
        bool wait;
    } rows[] = {{true, 0, true}, {true, 89, true}, {true, 90, false}, {false, 0, false}};
    const struct uuid a = {{'a'}}, b = {{'b'}};
    int64_t now_ns = 10000 * CLK_S;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct clones c = {0};

        assert_int_equal(clones_hello(&c, 1, &a, now_ns), CLONES_FINE);
        assert_false(clones_wait(&c, 1, now_ns));
        assert_false(clones_wait(&c, 9, now_ns)); /* nobody's */
        if (!rows[i].older_connected) {
            clones_gone(&c, 1);
        }
        assert_int_equal(clones_hello(&c, 2, &b, now_ns + CLK_MS), CLONES_FINE);
        assert_int_equal(clones_wait(&c, 2, now_ns + rows[i].older_silent_s * CLK_S + CLK_MS),
                         rows[i].wait);
        assert_false(clones_wait(&c, 1, now_ns + 10 * CLK_S));
    }
}

static uint64_t rng;

/* One machine that is restarted again and again, with and without a word, whose last calls may be
 * handled late, and which loses its connection now and then. */
static void a_machine_alone_is_never_refused(void **state)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct clones c = {0};
        int64_t now_ns = 10000 * CLK_S, since_ns = 0;
        uint32_t connection = 1, before = 1;
        struct uuid boot = {{1}};

        rng = seed;
        assert_int_equal(clones_hello(&c, connection, &boot, now_ns), CLONES_FINE);
        for (int i = 0; i < 400; i++) {
            now_ns += draw(&rng, draw(&rng, 20) ? 40 : 2000) * CLK_S;
            switch (draw(&rng, 6)) {
            case 0: /* restarted */
                boot.b[1] = (uint8_t)(boot.b[1] + 1);
                before = connection;
                since_ns = now_ns;
                assert_int_equal(clones_hello(&c, ++connection, &boot, now_ns), CLONES_FINE);
                break;
            case 1: /* connected anew; the old connection ended or not */
                if (draw(&rng, 2)) {
                    clones_gone(&c, connection);
                }
                assert_int_equal(clones_hello(&c, ++connection, &boot, now_ns), CLONES_FINE);
                break;
            case 2: /* what the boot before had sent */
                if (now_ns - since_ns < CLONES_GRACE_NS) {
                    assert_int_equal(clones_call(&c, before, now_ns), CLONES_FINE);
                }
                break;
            default:
                assert_int_equal(clones_call(&c, connection, now_ns), CLONES_FINE);
                break;
            }
            assert_int_equal(clones_count(&c, now_ns), 0);
        }
    }
}

/* Two or three machines that all call at least every 30 s: one of them is the host all the time,
 * and never another one. */
static void of_several_that_live_the_first_stays_the_host(void **state)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct clones c = {0};
        int64_t now_ns = 10000 * CLK_S;
        unsigned n;

        rng = seed;
        n = 2 + draw(&rng, 2);
        for (int round = 0; round < 100; round++) {
            for (unsigned m = 0; m < n; m++) {
                struct uuid boot = {{(uint8_t)(1 + m)}};
                bool again = round == 0 || draw(&rng, 8) == 0;
                enum clones_verdict v =
                    again ? clones_hello(&c, m, &boot, now_ns) : clones_call(&c, m, now_ns);

                assert_true(m > 0 || v != CLONES_REFUSED);
                assert_true(m == 0 || round < 3 || v == CLONES_REFUSED);
                now_ns += (5 + draw(&rng, 5)) * CLK_S;
            }
        }
        assert_int_equal(clones_count(&c, now_ns), n - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restart_is_no_clone),
        cmocka_unit_test(the_machine_that_came_later_is_refused_when_the_older_one_calls),
        cmocka_unit_test(a_third_machine_is_found_too),
        cmocka_unit_test(the_refused_one_is_taken_when_the_other_is_silent),
        cmocka_unit_test(calls_without_a_hello_prove_nothing),
        cmocka_unit_test(after_a_restart_of_the_collector_the_one_whose_data_came_last_is_older),
        cmocka_unit_test(batches_wait_while_an_older_boot_may_be_alive),
        cmocka_unit_test(a_machine_alone_is_never_refused),
        cmocka_unit_test(of_several_that_live_the_first_stays_the_host),
        cmocka_unit_test(connections_and_machines_beyond_the_bounds_push_the_oldest_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
