#include "agent/clr/clr.h"

#include "tests/support/t.h"

#define PIDS      40
#define INSTANCES 3
#define THREADS   6

static struct clr *c;
static struct clr_step step;

static int setup(void **state)
{
    return clr_create(&c) ? -1 : 0;
}

static int teardown(void **state)
{
    clr_destroy(c);
    return 0;
}

static struct event event_at(int64_t ns, uint8_t op)
{
    return (struct event){.kind = EV_CLR, .mono_ns = ns, .pid = 7, .tid = 70, .u.clr = {.op = op}};
}

static const struct clr_step *take(struct event ev)
{
    clr_event(c, &ev, &step);
    return &step;
}

static const struct clr_step *gc(int64_t ns, uint8_t op, uint32_t count)
{
    struct event ev = event_at(ns, op);

    ev.u.clr.count = count;
    return take(ev);
}

static const struct clr_step *method(int64_t ns, uint8_t op, uint32_t tid, uint64_t id)
{
    struct event ev = event_at(ns, op);

    ev.tid = tid;
    ev.u.clr.method = id;
    return take(ev);
}

static const struct clr_step *suspend(int64_t ns, uint8_t op, uint16_t instance, uint32_t reason)
{
    struct event ev = event_at(ns, op);

    ev.u.clr.instance = instance;
    ev.u.clr.reason = reason;
    return take(ev);
}

static void a_collection_that_starts_twice_is_one(void **state)
{
    assert_false(gc(10, CLR_GC_START, 1)->repeated);
    assert_true(gc(11, CLR_GC_START, 1)->repeated);
    assert_false(gc(12, CLR_GC_START, 2)->repeated); /* in front of 1, in the background */
    assert_true(gc(13, CLR_GC_START, 1)->repeated);
    assert_int_equal(gc(20, CLR_GC_END, 2)->took_ns, 8);
    assert_int_equal(gc(30, CLR_GC_END, 1)->took_ns, 20);
    assert_true(gc(31, CLR_GC_END, 1)->unpaired);
    assert_false(gc(40, CLR_GC_START, 500)->repeated);
    assert_true(gc(41, CLR_GC_START, 500)->repeated);
    assert_false(gc(42, CLR_GC_START, 437)->repeated); /* late, and not seen before */
    assert_true(gc(43, CLR_GC_START, 437)->repeated);
    assert_false(gc(44, CLR_GC_START, 1)->repeated); /* a runtime that began anew */
    assert_true(gc(45, CLR_GC_START, 1)->repeated);
}

static void a_pause_lasts_from_suspension_to_restart_of_one_runtime(void **state)
{
    suspend(100, CLR_SUSPEND, 1, 1);
    suspend(110, CLR_SUSPEND, 2, 2);
    assert_true(suspend(120, CLR_RESTART, 2, 0)->ended);
    assert_int_equal(step.took_ns, 10);
    assert_int_equal(step.reason, 2);
    assert_int_equal(suspend(130, CLR_RESTART, 1, 0)->took_ns, 30);
    assert_int_equal(step.began_ns, 100);
    assert_true(suspend(140, CLR_RESTART, 1, 0)->unpaired);
    assert_false(suspend(150, CLR_SUSPEND, 1, 1)->replaced);
    assert_true(suspend(160, CLR_SUSPEND, 1, 1)->replaced);
    assert_int_equal(suspend(165, CLR_RESTART, 1, 0)->took_ns, 5);
    assert_true(clr_is_gc(1) && clr_is_gc(6) && !clr_is_gc(0) && !clr_is_gc(2) && !clr_is_gc(3));
}

static void compilations_nest_and_end_by_method_and_thread(void **state)
{
    method(0, CLR_JIT_START, 70, 0xa);
    method(1, CLR_JIT_START, 70, 0xb);
    method(2, CLR_JIT_START, 71, 0xa);
    assert_true(method(3, CLR_METHOD_LOAD, 70, 0xc)->unpaired);
    assert_int_equal(method(4, CLR_METHOD_LOAD, 70, 0xb)->took_ns, 3);
    assert_int_equal(method(5, CLR_METHOD_LOAD, 71, 0xa)->took_ns, 3);
    method(6, CLR_JIT_START, 70, 0xd); /* never loaded */
    assert_int_equal(method(7, CLR_METHOD_LOAD, 70, 0xa)->took_ns, 7);
    assert_int_equal(clr_stats(c)->abandoned, 1);
    assert_true(method(8, CLR_METHOD_LOAD, 70, 0xd)->unpaired);
}

static void sixteen_compilations_nest_and_no_more(void **state)
{
    for (uint64_t id = 1; id <= 20; id++) {
        method((int64_t)id, CLR_JIT_START, 70, id);
    }
    assert_int_equal(clr_stats(c)->too_deep, 4);
    for (uint64_t id = 20; id > 4; id--) {
        assert_int_equal(method(100, CLR_METHOD_LOAD, 70, id)->took_ns, 100 - (int64_t)id);
    }
    assert_true(method(100, CLR_METHOD_LOAD, 70, 4)->unpaired);
}

static void a_thread_waits_for_one_lock(void **state)
{
    method(10, CLR_CONTENTION_START, 70, 0);
    method(11, CLR_JIT_START, 70, 0);
    assert_true(method(12, CLR_CONTENTION_START, 70, 0)->replaced);
    assert_true(method(20, CLR_CONTENTION_STOP, 71, 0)->unpaired);
    assert_int_equal(method(22, CLR_CONTENTION_STOP, 70, 0)->took_ns, 10);
    assert_int_equal(method(22, CLR_METHOD_LOAD, 70, 0)->took_ns, 11);
}

static void the_heap_is_that_of_all_runtimes_of_the_process(void **state)
{
    struct event ev = event_at(0, CLR_HEAP);

    ev.u.clr.bytes = 1000;
    assert_int_equal(take(ev)->heap_bytes, 1000);
    ev.u.clr.instance = 9;
    ev.u.clr.bytes = 200;
    assert_int_equal(take(ev)->heap_bytes, 1200);
    ev.u.clr.bytes = 300;
    assert_int_equal(take(ev)->heap_bytes, 1300);
    ev.pid = 8;
    assert_int_equal(take(ev)->heap_bytes, 300);
}

static void what_a_loss_leaves_open_has_no_end(void **state)
{
    suspend(0, CLR_SUSPEND, 1, 1);
    gc(1, CLR_GC_START, 5);
    method(2, CLR_JIT_START, 70, 0xa);
    method(3, CLR_CONTENTION_START, 71, 0);
    clr_lost(c);
    assert_int_equal(clr_stats(c)->lost, 3);
    assert_true(suspend(10, CLR_RESTART, 1, 0)->unpaired);
    assert_true(gc(10, CLR_GC_END, 5)->unpaired);
    assert_true(method(10, CLR_METHOD_LOAD, 70, 0xa)->unpaired);
    assert_true(method(10, CLR_CONTENTION_STOP, 71, 0)->unpaired);
    assert_true(gc(11, CLR_GC_START, 5)->repeated); /* still the same collection */
}

static void the_end_of_a_process_takes_everything_of_it(void **state)
{
    gc(1, CLR_GC_START, 5);
    suspend(2, CLR_SUSPEND, 1, 1);
    method(3, CLR_JIT_START, 70, 0xa);
    clr_forget(c, 8);
    assert_true(gc(4, CLR_GC_START, 5)->repeated);
    clr_forget(c, 7);
    assert_false(gc(5, CLR_GC_START, 5)->repeated);
    assert_true(suspend(6, CLR_RESTART, 1, 0)->unpaired);
    assert_true(method(7, CLR_METHOD_LOAD, 70, 0xa)->unpaired);
}

static void what_was_not_heard_of_for_longest_makes_room(void **state)
{
    for (uint32_t i = 0; i < CLR_RUNTIMES_MAX + 100; i++) {
        struct event ev = event_at(i, CLR_SUSPEND);

        ev.pid = i;
        take(ev);
    }
    assert_int_equal(clr_stats(c)->runtimes_full, 100);
    for (uint32_t i = 0; i < CLR_RUNTIMES_MAX + 100; i++) {
        struct event ev = event_at(CLR_RUNTIMES_MAX + 100, CLR_RESTART);

        ev.pid = CLR_RUNTIMES_MAX + 99 - i;
        assert_int_equal(take(ev)->unpaired, i >= CLR_RUNTIMES_MAX);
        if (i + 1 == CLR_RUNTIMES_MAX) {
            break; /* asking for others makes room again */
        }
    }
    for (uint32_t i = 0; i < CLR_OPEN_MAX + 5; i++) {
        method(i, CLR_JIT_START, i, 1);
    }
    assert_int_equal(clr_stats(c)->open_full, 5);
    assert_true(method(CLR_OPEN_MAX, CLR_METHOD_LOAD, 4, 1)->unpaired);
    assert_int_equal(method(CLR_OPEN_MAX, CLR_METHOD_LOAD, 5, 1)->took_ns, CLR_OPEN_MAX - 5);
}

/* -- against a model that searches -- */

static struct {
    bool suspended;
    int64_t since_ns;
} model_runtimes[PIDS][INSTANCES];

static struct {
    uint64_t methods[64];
    int64_t since_ns[64];
    size_t n;
} model_threads[PIDS][THREADS];

static uint32_t random_below(uint32_t n)
{
    static uint64_t seed = 42;

    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(seed >> 33) % n;
}

static void random_pause(int64_t now, uint32_t pid)
{
    uint32_t instance = random_below(INSTANCES);
    bool begin = random_below(2);
    struct event ev = event_at(now, begin ? CLR_SUSPEND : CLR_RESTART);

    ev.pid = pid;
    ev.u.clr.instance = (uint16_t)instance;
    take(ev);
    if (begin) {
        assert_int_equal(step.replaced, model_runtimes[pid][instance].suspended);
    } else {
        assert_int_equal(step.ended, model_runtimes[pid][instance].suspended);
        assert_int_equal(step.unpaired, !step.ended);
        assert_true(!step.ended || step.began_ns == model_runtimes[pid][instance].since_ns);
    }
    model_runtimes[pid][instance].suspended = begin;
    model_runtimes[pid][instance].since_ns = now;
}

static void random_compilation(int64_t now, uint32_t pid)
{
    uint32_t thread = random_below(THREADS);
    size_t *n = &model_threads[pid][thread].n, at = *n;
    bool begin = *n == 0 || (*n < CLR_NESTED_MAX && random_below(2));
    struct event ev = event_at(now, begin ? CLR_JIT_START : CLR_METHOD_LOAD);

    ev.pid = pid;
    ev.tid = pid * THREADS + thread;
    if (begin) {
        ev.u.clr.method = (uint64_t)now;
        model_threads[pid][thread].methods[*n] = (uint64_t)now;
        model_threads[pid][thread].since_ns[(*n)++] = now;
        take(ev);
        return;
    }
    at = random_below(4) ? *n - 1 : random_below((uint32_t)*n);
    ev.u.clr.method = model_threads[pid][thread].methods[at];
    take(ev);
    assert_true(step.ended && step.began_ns == model_threads[pid][thread].since_ns[at]);
    *n = at;
}

static void it_agrees_with_a_model_that_searches(void **state)
{
    for (int64_t now = 1; now < 200000; now++) {
        uint32_t pid = random_below(PIDS), dice = random_below(1000);

        if (dice == 0) {
            clr_lost(c);
            memset(model_runtimes, 0, sizeof model_runtimes);
            memset(model_threads, 0, sizeof model_threads);
        } else if (dice < 50) {
            clr_forget(c, pid);
            memset(model_runtimes[pid], 0, sizeof model_runtimes[pid]);
            memset(model_threads[pid], 0, sizeof model_threads[pid]);
        } else if (dice < 500) {
            random_pause(now, pid);
        } else {
            random_compilation(now, pid);
        }
    }
    assert_int_equal(clr_stats(c)->too_deep, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_collection_that_starts_twice_is_one, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pause_lasts_from_suspension_to_restart_of_one_runtime,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(compilations_nest_and_end_by_method_and_thread, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(sixteen_compilations_nest_and_no_more, setup, teardown),
        cmocka_unit_test_setup_teardown(a_thread_waits_for_one_lock, setup, teardown),
        cmocka_unit_test_setup_teardown(the_heap_is_that_of_all_runtimes_of_the_process, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_a_loss_leaves_open_has_no_end, setup, teardown),
        cmocka_unit_test_setup_teardown(the_end_of_a_process_takes_everything_of_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_was_not_heard_of_for_longest_makes_room, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(it_agrees_with_a_model_that_searches, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
