#include "collector/store/segment/window.h"

#include <string.h>

#include "common/base/mem.h"
#include "tests/collector/store/segment/window_rig.h"
#include "tests/support/t.h"

#define MEMORY    (64u << 20)
#define SECOND_NS INT64_C(1000000000)

static struct host_window join(struct window_rig *r, struct arena *memory)
{
    struct host_window hw;

    arena_init(memory, MEMORY);
    assert_ok(window_join(&hw, memory, r->in, r->n, "alpha"));
    assert_string_equal(hw.name, "alpha");
    assert_int_equal(hw.n_rests, r->n);
    return hw;
}

static void every_sample_is_in_the_parts_once(void **state)
{
    for (uint64_t seed = 1; seed < 30; seed++) {
        struct samples before, after;
        struct host_window hw;
        struct window_rig r;
        struct arena memory;

        window_rig_init(&r, seed);
        for (size_t i = 0; i < 2 + seed; i++) {
            window_rig_add(&r, 1 + (i * seed) % 7);
        }
        window_rig_shuffle(&r, seed);
        hw = join(&r, &memory);
        assert_int_equal(hw.n_parts, 1);
        samples_of_batches(&before, r.in, r.n);
        samples_of_parts(&after, hw.parts, hw.n_parts);
        samples_same(&before, &after);
        arena_fini(&memory);
        window_rig_fini(&r);
    }
}

/* Two runs of one process side by side differ in something, or the second is a beginning. */
static void runs_are_as_long_as_they_can_be(void **state)
{
    struct host_window hw;
    struct window_rig r;
    struct arena memory;
    const struct batch *rows;
    size_t whole = 0;

    window_rig_init(&r, 3);
    for (size_t i = 0; i < 30; i++) {
        window_rig_add(&r, 10);
    }
    hw = join(&r, &memory);
    rows = &hw.parts[0].rows;
    assert_int_equal(rows->n_ticks, 300);
    for (size_t i = 0; i < rows->n_runs; i++) {
        const struct batch_run *a = &rows->runs[i], *b = a + 1;

        whole += a->n_ticks == 300;
        assert_false(i + 1 < rows->n_runs && proc_id_eq(a->id, b->id) && a->mask == b->mask &&
                     !b->fresh && a->first_tick + a->n_ticks == b->first_tick);
    }
    assert_true(whole >= 4);
    arena_fini(&memory);
    window_rig_fini(&r);
}

static void a_tick_without_the_process_ends_its_run(void **state)
{
    struct host_window hw;
    struct window_rig r;
    struct arena memory;
    size_t first_runs;

    window_rig_init(&r, 5);
    for (size_t i = 0; i < 3; i++) {
        window_rig_add(&r, 4);
    }
    hw = join(&r, &memory);
    first_runs = hw.parts[0].rows.n_runs;
    arena_fini(&memory);
    r.batches[1]->n_runs = 0; /* nobody was there then */
    r.batches[1]->n_columns = 0;
    hw = join(&r, &memory);
    assert_int_equal(hw.n_parts, 1);
    assert_int_equal(hw.parts[0].rows.n_ticks, 12);
    assert_true(hw.parts[0].rows.n_runs > first_runs + 5);
    rows_sound(&hw.parts[0].rows);
    arena_fini(&memory);
    window_rig_fini(&r);
}

static void boot_two(struct window_rig *r)
{
    r->batches[1]->head.boot.b[0] ^= 1;
}

static void other_source(struct window_rig *r)
{
    r->batches[1]->head.source = str_make("other");
}

static void other_cpus(struct window_rig *r)
{
    r->batches[1]->head.cpus++;
}

static void polled(struct window_rig *r)
{
    r->batches[1]->head.flags ^= BATCH_POLLED;
}

static void clock_moved(struct window_rig *r)
{
    r->in[0].clock = (struct host_offset){.known = true, .offset_ns = 5};
    r->in[1].clock = (struct host_offset){.known = true, .offset_ns = 6 + SECOND_NS / 10};
}

static void clock_drifts(struct window_rig *r)
{
    r->in[0].clock = (struct host_offset){.known = true, .offset_ns = 5};
    r->in[1].clock = (struct host_offset){.known = true, .offset_ns = 5 - SECOND_NS / 10};
}

static void clock_far(struct window_rig *r)
{
    r->in[0].clock = (struct host_offset){.known = true, .offset_ns = INT64_MAX};
    r->in[1].clock = (struct host_offset){.known = true, .offset_ns = INT64_MIN};
}

static void clock_unknown(struct window_rig *r)
{
    r->in[0].clock = (struct host_offset){.known = true, .offset_ns = 0};
}

static void shift(const int64_t *stamps, size_t n, int64_t by)
{
    for (size_t i = 0; i < n; i++) {
        ((int64_t *)stamps)[i] += by; /* decoded: ours */
    }
}

static void wall_set_back(struct window_rig *r)
{
    shift(r->batches[1]->wall_ns, r->batches[1]->n_ticks, -2 * SECOND_NS);
}

static void mono_set_back(struct window_rig *r)
{
    shift(r->batches[1]->mono_ns, r->batches[1]->n_ticks, -2 * SECOND_NS);
}

static void last_flag(struct window_rig *r)
{
    r->batches[1]->head.flags |= BATCH_LAST;
}

static void a_part_ends_where_something_changes_for_all(void **state)
{
    static const struct {
        void (*change)(struct window_rig *r);
        size_t parts;
    } rows[] = {
        {boot_two, 2},      {other_source, 2},  {other_cpus, 2}, {polled, 2},
        {clock_moved, 2},   {clock_drifts, 1},  {clock_far, 2},  {clock_unknown, 2},
        {wall_set_back, 2}, {mono_set_back, 2}, {last_flag, 1},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct samples before, after;
        struct host_window hw;
        struct window_rig r;
        struct arena memory;

        window_rig_init(&r, 7);
        window_rig_add(&r, 5);
        window_rig_add(&r, 5);
        rows[i].change(&r);
        hw = join(&r, &memory);
        assert_int_equal(hw.n_parts, rows[i].parts);
        for (size_t k = 1; k < hw.n_parts; k++) {
            assert_true(hw.parts[k].rows.wall_ns[0] >= hw.parts[k - 1].rows.wall_ns[0]);
        }
        samples_of_batches(&before, r.in, r.n);
        samples_of_parts(&after, hw.parts, hw.n_parts);
        samples_same(&before, &after);
        arena_fini(&memory);
        window_rig_fini(&r);
    }
}

/* Two agents of one host at once: their batches lie between each other's. */
static void two_boots_mixed_make_two_parts(void **state)
{
    struct host_window hw;
    struct window_rig r;
    struct arena memory;

    window_rig_init(&r, 9);
    for (size_t i = 0; i < 10; i++) {
        window_rig_add(&r, 3)->head.boot.b[0] = (uint8_t)(i & 1);
    }
    hw = join(&r, &memory);
    assert_int_equal(hw.n_parts, 2);
    assert_int_equal(hw.parts[0].rows.n_ticks, 15);
    arena_fini(&memory);
    window_rig_fini(&r);
}

static void rests_are_the_batches_without_rows_in_order(void **state)
{
    struct host_window hw;
    struct window_rig r;
    struct arena memory;

    window_rig_init(&r, 11);
    for (size_t i = 0; i < 6; i++) {
        window_rig_add(&r, 4);
    }
    r.batches[4]->n_ticks = 0; /* tells of events only, or of nothing */
    r.batches[4]->n_runs = r.batches[4]->n_columns = r.batches[4]->n_events = 0;
    window_rig_shuffle(&r, 1);
    hw = join(&r, &memory);
    for (size_t i = 0; i < hw.n_rests; i++) {
        const struct batch *b = &hw.rests[i].batch;

        assert_int_equal(b->head.seq, i + 1);
        assert_int_equal(b->n_infos, r.batches[i]->n_infos);
        assert_int_equal(b->n_ticks, r.batches[i]->n_ticks);
        assert_int_equal(b->n_runs, 0);
        assert_int_equal(b->n_columns, 0);
    }
    assert_int_equal(hw.parts[0].rows.n_ticks, 20);
    arena_fini(&memory);
    window_rig_fini(&r);
}

static void a_part_has_the_clock_and_arrival_of_its_newest(void **state)
{
    struct host_window hw;
    struct window_rig r;
    struct arena memory;

    window_rig_init(&r, 13);
    for (int i = 0; i < 3; i++) {
        window_rig_add(&r, 2);
        r.in[i].clock = (struct host_offset){.known = true, .offset_ns = i};
        r.in[i].received_ns = 100 - i;
    }
    hw = join(&r, &memory);
    assert_int_equal(hw.parts[0].clock.offset_ns, 2);
    assert_int_equal(hw.parts[0].received_ns, 100);
    assert_int_equal(hw.parts[0].rows.head.seq, 0);
    assert_int_equal(hw.parts[0].rows.n_infos + hw.parts[0].rows.n_events, 0);
    arena_fini(&memory);
    window_rig_fini(&r);
}

static void batches_of_two_hosts_are_refused(void **state)
{
    struct host_window hw;
    struct window_rig r;
    struct arena memory;

    window_rig_init(&r, 15);
    window_rig_add(&r, 2);
    window_rig_add(&r, 2)->head.host.b[3] ^= 1;
    arena_init(&memory, MEMORY);
    assert_err(window_join(&hw, &memory, r.in, 2, "alpha"), ERR_INVALID);
    assert_err(window_join(&hw, &memory, r.in, 0, "alpha"), ERR_INVALID);
    arena_fini(&memory);
    window_rig_fini(&r);
}

static void running_out_of_memory_is_survived(void **state)
{
    struct window_rig r;
    long n = 0;
    enum err e;

    window_rig_init(&r, 17);
    for (size_t i = 0; i < 20; i++) {
        window_rig_add(&r, 10);
    }
    do {
        struct host_window hw;
        struct arena memory;

        arena_init(&memory, MEMORY);
        mem_fail_after(n++);
        e = window_join(&hw, &memory, r.in, r.n, "alpha");
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        arena_fini(&memory);
    } while (e);
    assert_true(n > 2);
    for (size_t max = 1000; max < 100000; max += 7777) {
        struct host_window hw;
        struct arena memory;

        arena_init(&memory, max);
        assert_err(window_join(&hw, &memory, r.in, r.n, "alpha"), ERR_FULL);
        arena_fini(&memory);
    }
    window_rig_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_is_in_the_parts_once),
        cmocka_unit_test(runs_are_as_long_as_they_can_be),
        cmocka_unit_test(a_tick_without_the_process_ends_its_run),
        cmocka_unit_test(a_part_ends_where_something_changes_for_all),
        cmocka_unit_test(two_boots_mixed_make_two_parts),
        cmocka_unit_test(rests_are_the_batches_without_rows_in_order),
        cmocka_unit_test(a_part_has_the_clock_and_arrival_of_its_newest),
        cmocka_unit_test(batches_of_two_hosts_are_refused),
        cmocka_unit_test(running_out_of_memory_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
