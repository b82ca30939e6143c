#include "collector/ingest/host_clock.h"

#include <string.h>

#include "common/base/clk.h"
#include "tests/support/t.h"

#define T0   (1767225600 * CLK_S) /* the collector's UTC when its monotonic clock shows 0 */
#define HOUR (3600 * CLK_S)

static const struct uuid boot_a = {{1}}, boot_b = {{2}};

static struct clock_moment moment(int64_t mono_ns)
{
    return (struct clock_moment){T0 + mono_ns, mono_ns};
}

static struct clock_told told(int64_t wall_ns, int64_t mono_ns, int64_t last_ns, int64_t rtt_ns)
{
    return (struct clock_told){boot_a, wall_ns, mono_ns, last_ns, rtt_ns};
}

static void nothing_is_known_before_the_first_call(void **state)
{
    static const struct host_clocks none;
    struct clock_moment now = moment(5);
    static const int64_t at[] = {1};
    struct batch b = {.n_ticks = 1, .wall_ns = at, .mono_ns = at};

    assert_false(host_clocks_now(&none, &now).known);
    assert_false(host_clocks_batch(&none, &b, &now, 0).known);
}

static void the_error_is_half_of_the_shortest_round_trip(void **state)
{
    /* The host's monotonic clock is 1000 s behind ours, its wall clock right; ms of our clock. */
    static const struct {
        int64_t sent_ms, way_ms; /* way here */
        int64_t last_sent_ms, rtt_ms;
        int64_t offset_us, error_us;
    } rows[] = {
        {0, 40, 0, 0, 40000, -1},        /* one way only: late by no one knows how much */
        {10, 40, 0, 100, -10000, 50000}, /* [-60, 40] */
        {20, 10, 10, 90, -20000, 30000}, /* [-50, 10] by the third and the second */
        {30, 10, 20, 14, 3000, 7000},    /* [-4, 10] */
        {40, 900, 30, 5000, 3000, 7000}, /* adds nothing */
    };
    struct host_clocks c = {0};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t sent = rows[i].sent_ms * CLK_MS + 1000 * CLK_S;
        struct clock_moment now = moment(sent + rows[i].way_ms * CLK_MS);
        struct clock_told t = told(T0 + sent, sent - 1000 * CLK_S + 1,
                                   rows[i].last_sent_ms * CLK_MS + 1, rows[i].rtt_ms * CLK_MS);
        struct host_offset o;

        host_clocks_note(&c, &t, &now);
        o = host_clocks_now(&c, &now);
        assert_true(o.known);
        assert_int_equal(o.bounded, rows[i].error_us >= 0);
        assert_in_range(o.offset_ns + CLK_S, rows[i].offset_us * 1000 + CLK_S - CLK_MS,
                        rows[i].offset_us * 1000 + CLK_S + CLK_MS);
        if (o.bounded) {
            assert_in_range(o.error_ns, rows[i].error_us * 1000, rows[i].error_us * 1000 + CLK_MS);
        }
    }
}

struct world {
    uint64_t rng;
    int64_t now_ns;     /* by a perfect clock */
    int64_t ppm;        /* by which the host's crystal is fast */
    int64_t slept_ns;   /* what its monotonic clock has missed */
    int64_t host_wrong; /* what its wall clock shows too much */
    int64_t our_wrong;  /* ours */
    int64_t last_ns, rtt_ns;
};

static int64_t chance(struct world *w, int64_t below)
{
    w->rng = w->rng * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((w->rng >> 20) % (uint64_t)below);
}

static int64_t host_mono(const struct world *w)
{
    return w->now_ns - w->slept_ns + w->now_ns / 1000000 * w->ppm + 77 * CLK_S;
}

static struct clock_moment ours(const struct world *w)
{
    return (struct clock_moment){T0 + w->now_ns + w->our_wrong, w->now_ns};
}

static int64_t host_wall(const struct world *w)
{
    return T0 + host_mono(w) - 77 * CLK_S + w->slept_ns + w->host_wrong;
}

/* A call, and its answer, each some while on its way. */
static void exchange(struct world *w, struct host_clocks *c)
{
    int64_t sent = host_mono(w);
    struct clock_told t = told(host_wall(w), sent, w->last_ns, w->rtt_ns);
    int64_t there = chance(w, 200 * CLK_MS) + CLK_MS, back = chance(w, 200 * CLK_MS) + CLK_MS;
    struct clock_moment now;

    w->now_ns += there;
    now = ours(w);
    host_clocks_note(c, &t, &now);
    w->now_ns += back;
    w->last_ns = sent;
    w->rtt_ns = there + back + CLK_MS; /* no clock is finer */
}

static void the_true_offset_lies_within_the_error_whatever_clocks_do(void **state)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct world w = {.rng = seed, .now_ns = 50 * CLK_S};
        struct host_clocks c = {0};
        size_t checked = 0;

        w.ppm = chance(&w, 161) - 80;
        for (int i = 0; i < 200; i++) {
            struct host_offset o;
            struct clock_moment now;
            int64_t truth;

            exchange(&w, &c);
            now = ours(&w);
            truth = now.utc_ns - host_wall(&w);
            o = host_clocks_now(&c, &now);
            assert_true(o.known);
            if (i > 1 && o.bounded) {
                checked++;
                assert_true(o.offset_ns - truth <= o.error_ns);
                assert_true(truth - o.offset_ns <= o.error_ns);
                assert_true(o.error_ns < 500 * CLK_MS);
            }
            w.now_ns += chance(&w, 60 * CLK_S);
            switch (chance(&w, 40)) {
            case 0:
                w.host_wrong += HOUR * (chance(&w, 2) ? 1 : -1);
                break;
            case 1:
                w.our_wrong += HOUR * (chance(&w, 2) ? 1 : -1);
                break;
            case 2: /* sleeps; its next call has to tell */
                w.slept_ns += 8 * HOUR;
                w.now_ns += 8 * HOUR;
                break;
            default:
                break;
            }
        }
        assert_true(checked > 150);
    }
}

static struct batch batch_at(const int64_t *wall, const int64_t *mono, size_t n)
{
    return (struct batch){.head.boot = boot_a, .n_ticks = n, .wall_ns = wall, .mono_ns = mono};
}

static void a_batch_is_corrected_by_its_monotonic_stamps(void **state)
{
    /* The agent's clock is right when it calls at 1000 s; what its batch says, in s. */
    static const struct {
        int64_t wall_s, mono_s; /* of the last tick, after T0 and the boot */
        uint32_t flags;
        bool other_boot;
        int64_t offset_s;
    } rows[] = {
        {990, 990, 0, false, 0},
        {990 + 3600, 990, 0, false, -3600}, /* made while the clock was an hour ahead */
        {990 - 3600, 990, 0, false, 3600},
        {990 + 3600, 990, 0, true, 0}, /* of a boot nobody knows: the clock of now */
        {990 + 3600, 990, BATCH_REPLAY, false, 0},
        {990, 7000, 0, false, 0},   /* no such moment yet: not believed */
        {990, -90000, 0, false, 0}, /* older than is kept */
    };
    struct clock_moment now = moment(1000 * CLK_S);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct clock_told t = told(T0 + 1000 * CLK_S, 1000 * CLK_S, 0, 0);
        int64_t wall = T0 + rows[i].wall_s * CLK_S, mono = rows[i].mono_s * CLK_S;
        struct batch b = batch_at(&wall, &mono, 1);
        struct host_clocks c = {0};
        struct host_offset o;

        b.head.flags = rows[i].flags;
        b.head.boot = rows[i].other_boot ? boot_b : boot_a;
        host_clocks_note(&c, &t, &now);
        o = host_clocks_batch(&c, &b, &now, T0 - 86000 * CLK_S);
        assert_true(o.known);
        assert_int_equal(o.offset_ns, rows[i].offset_s * CLK_S);
    }
}

static void events_stand_in_where_a_batch_has_no_tick(void **state)
{
    struct clock_moment now = moment(1000 * CLK_S);
    struct clock_told t = told(T0 + 1000 * CLK_S, 1000 * CLK_S, 0, 0);
    struct life_event ev = {.wall_ns = T0 + 4000 * CLK_S, .mono_ns = 400 * CLK_S};
    struct batch b = {.head.boot = boot_a, .n_events = 1, .events = &ev};
    struct host_clocks c = {0};

    host_clocks_note(&c, &t, &now);
    assert_int_equal(host_clocks_batch(&c, &b, &now, 0).offset_ns, -3600 * CLK_S);
    b.n_events = 0;
    assert_int_equal(host_clocks_batch(&c, &b, &now, 0).offset_ns, 0);
}

static void a_jump_inside_a_batch_makes_it_uncertain(void **state)
{
    struct clock_moment now = moment(1000 * CLK_S);
    struct clock_told t = told(T0 + 1000 * CLK_S, 1000 * CLK_S, 0, 0);
    const int64_t wall[] = {T0 + 980 * CLK_S, T0 + 990 * CLK_S + HOUR};
    const int64_t mono[] = {980 * CLK_S, 990 * CLK_S};
    struct batch b = batch_at(wall, mono, 2);
    struct host_clocks c = {0};
    struct host_offset o;

    host_clocks_note(&c, &t, &now);
    o = host_clocks_batch(&c, &b, &now, 0);
    assert_int_equal(o.offset_ns, -HOUR);
    assert_int_equal(o.error_ns, HOUR);
}

static void what_was_made_before_the_host_slept_is_placed_there(void **state)
{
    struct clock_moment now = moment(1000 * CLK_S);
    struct clock_told t = told(T0 + 1000 * CLK_S, 1000 * CLK_S, 0, 0);
    const int64_t wall = T0 + 990 * CLK_S, mono = 990 * CLK_S;
    struct batch b = batch_at(&wall, &mono, 1);
    struct host_clocks c = {0};

    host_clocks_note(&c, &t, &now);
    now = moment(1010 * CLK_S + 8 * HOUR); /* it slept from 1000 to 1000 + 8 h */
    t = told(now.utc_ns, 1010 * CLK_S, 0, 0);
    host_clocks_note(&c, &t, &now);
    assert_int_equal(host_clocks_batch(&c, &b, &now, 0).offset_ns, 0);
    assert_int_equal(host_clocks_now(&c, &now).offset_ns, 0);
}

static void a_batch_of_this_moment_shows_that_the_clock_has_jumped(void **state)
{
    struct clock_moment now = moment(1000 * CLK_S);
    struct clock_told t = told(T0 + 1000 * CLK_S, 1000 * CLK_S, 0, 0);
    int64_t wall = T0 + 1020 * CLK_S + HOUR, mono = 1020 * CLK_S;
    struct batch b = batch_at(&wall, &mono, 1);
    struct host_clocks c = {0};

    host_clocks_note(&c, &t, &now);
    now = moment(1021 * CLK_S);
    host_clocks_note_batch(&c, &b, &now);
    assert_int_equal(host_clocks_now(&c, &now).offset_ns, -HOUR);
    mono = 900 * CLK_S; /* out of the spool: of before */
    wall = T0 + 900 * CLK_S;
    host_clocks_note_batch(&c, &b, &now);
    assert_int_equal(host_clocks_now(&c, &now).offset_ns, -HOUR);
}

static void the_boot_heard_longest_ago_gives_place(void **state)
{
    struct host_clocks c = {0};

    for (uint8_t i = 1; i <= HOST_CLOCK_BOOTS + 1; i++) {
        struct clock_moment now = moment(i * CLK_S);
        struct clock_told t = told(T0 + i * 100 * CLK_S, i * CLK_S, 0, 0);

        t.boot.b[0] = i;
        host_clocks_note(&c, &t, &now);
        assert_int_equal(host_clocks_now(&c, &now).offset_ns, -99 * i * CLK_S);
    }
    assert_int_equal(c.n, HOST_CLOCK_BOOTS);
    for (size_t i = 0; i < c.n; i++) {
        assert_int_equal(c.at[i].boot.b[0], HOST_CLOCK_BOOTS + 1 - i);
    }
}

static void an_agent_without_a_monotonic_clock_goes_by_its_wall_clock(void **state)
{
    struct host_clocks c = {0};
    const int64_t wall = T0 + 990 * CLK_S, mono = 5;
    struct batch b = batch_at(&wall, &mono, 1);

    for (int i = 0; i < 3; i++) {
        int64_t wrong_ns = (i == 1 ? HOUR : i == 2 ? -HOUR : 0) + 5 * CLK_S;
        struct clock_moment now = moment((1000 + i) * CLK_S);
        struct clock_told t = told(now.utc_ns + wrong_ns, 0, 0, 0);

        host_clocks_note(&c, &t, &now);
        assert_int_equal(host_clocks_now(&c, &now).offset_ns, -wrong_ns);
        assert_int_equal(host_clocks_batch(&c, &b, &now, 0).offset_ns, -wrong_ns);
    }
}

static void no_number_an_agent_may_send_overflows(void **state)
{
    static const int64_t rows[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    enum { N = COUNT_OF(rows) };
    struct host_clocks c = {0};

    for (size_t i = 0; i < N * N * N * N; i++) {
        struct clock_moment now = moment((int64_t)i * CLK_S);
        struct clock_told t =
            told(rows[i % N], rows[i / N % N], rows[i / N / N % N], rows[i / N / N / N]);
        struct batch b = batch_at(&rows[i % N], &rows[i / N % N], 1);
        struct host_offset o;

        host_clocks_note(&c, &t, &now);
        host_clocks_note_batch(&c, &b, &now);
        o = host_clocks_batch(&c, &b, &now, 0);
        assert_true(o.error_ns >= 0);
        o = host_clocks_now(&c, &now);
        assert_true(o.error_ns >= 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known_before_the_first_call),
        cmocka_unit_test(the_error_is_half_of_the_shortest_round_trip),
        cmocka_unit_test(the_true_offset_lies_within_the_error_whatever_clocks_do),
        cmocka_unit_test(a_batch_is_corrected_by_its_monotonic_stamps),
        cmocka_unit_test(events_stand_in_where_a_batch_has_no_tick),
        cmocka_unit_test(a_jump_inside_a_batch_makes_it_uncertain),
        cmocka_unit_test(what_was_made_before_the_host_slept_is_placed_there),
        cmocka_unit_test(a_batch_of_this_moment_shows_that_the_clock_has_jumped),
        cmocka_unit_test(the_boot_heard_longest_ago_gives_place),
        cmocka_unit_test(an_agent_without_a_monotonic_clock_goes_by_its_wall_clock),
        cmocka_unit_test(no_number_an_agent_may_send_overflows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
