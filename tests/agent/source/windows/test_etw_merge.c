/* Several rings, one order of time. */
#include "tests/support/t.h"

#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/windows/etw_merge.h"
#include "common/os/os.h"

#define S INT64_C(1000000000)

struct seen {
    int64_t mono_ns[4096], wall_ns[4096];
    uint32_t pid[4096];
    size_t n;
    uint64_t lost;
    int64_t now_ns;
};

static void on_raw(void *ctx, const struct raw_event *raw)
{
    struct seen *s = ctx;

    assert_true(s->n < COUNT_OF(s->mono_ns));
    assert_true(raw->mono_ns >= s->now_ns);
    s->mono_ns[s->n] = raw->mono_ns;
    s->wall_ns[s->n] = raw->wall_ns;
    s->pid[s->n++] = raw->pid;
}

static void on_fact(void *ctx, const struct event *ev)
{
    struct seen *s = ctx;

    assert_int_equal(ev->kind, EV_LOST);
    assert_true(ev->mono_ns >= s->now_ns);
    s->lost += ev->u.lost.events;
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct seen *s = ctx;

    assert_true(mono_ns > s->now_ns);
    assert_int_equal(wall_ns, mono_ns + 1000);
    s->now_ns = mono_ns;
}

struct rig {
    struct etw_merge merge;
    struct seen seen;
};

static void rig_open(struct rig *r, size_t n)
{
    struct ring_conf conf = {.bytes = RING_BYTES_MIN};

    memset(r, 0, sizeof *r);
    r->seen.now_ns = -1;
    r->merge.window_ns = ETW_MERGE_WINDOW_NS;
    r->merge.sink = (struct source_sink){
        .ctx = &r->seen, .raw = on_raw, .fact = on_fact, .advance = on_advance};
    for (; r->merge.n < n; r->merge.n++) {
        assert_ok(ring_create(&r->merge.rings[r->merge.n], &conf));
    }
}

static void rig_close(struct rig *r)
{
    for (size_t i = 0; i < r->merge.n; i++) {
        ring_destroy(r->merge.rings[i]);
    }
}

static enum err put(struct rig *r, size_t ring, int64_t mono_ns)
{
    static const uint8_t payload[100];
    struct raw_event raw = {.guid = ETW_CLASS_DISK_IO,
                            .pid = (uint32_t)ring,
                            .wall_ns = mono_ns + 1000,
                            .mono_ns = mono_ns,
                            .payload = payload,
                            .payload_n = sizeof payload};

    return ring_put(r->merge.rings[ring], &raw);
}

static void records_come_in_order_of_time(void **state)
{
    static const int64_t times[3][5] = {{1, 4, 7, 8, 20}, {2, 3, 9, 10, 21}, {5, 6, 11, 12, 22}};
    struct rig r;

    rig_open(&r, 3);
    for (size_t ring = 0; ring < 3; ring++) {
        for (size_t i = 0; i < 5; i++) {
            assert_ok(put(&r, ring, times[ring][i]));
        }
    }
    /* Up to the last record of the first: behind it that session may still say anything. */
    assert_int_equal(etw_merge_step(&r.merge, SIZE_MAX, 30), 13);
    for (size_t i = 0; i < r.merge.n; i++) {
        ring_close(r.merge.rings[i]);
    }
    etw_merge_finish(&r.merge);
    assert_int_equal(r.seen.n, 15);
    for (size_t i = 1; i < r.seen.n; i++) {
        assert_true(r.seen.mono_ns[i - 1] < r.seen.mono_ns[i]);
    }
    assert_int_equal(r.merge.late, 0);
    assert_int_equal(r.merge.hurried, 0);
    rig_close(&r);
}

static void a_silent_session_holds_others_up_for_the_window(void **state)
{
    struct rig r;

    rig_open(&r, 2);
    assert_ok(put(&r, 0, 5 * S));
    assert_ok(put(&r, 0, 6 * S));
    assert_int_equal(etw_merge_step(&r.merge, SIZE_MAX, 6 * S), 0);
    assert_int_equal(etw_merge_step(&r.merge, SIZE_MAX, 5 * S + ETW_MERGE_WINDOW_NS), 1);
    r.merge.silent[1] = true; /* it is down */
    assert_int_equal(etw_merge_step(&r.merge, SIZE_MAX, 6 * S), 1);
    rig_close(&r);
}

static void what_comes_too_late_takes_the_time_before_it(void **state)
{
    struct rig r;

    rig_open(&r, 2);
    assert_ok(put(&r, 0, 5 * S));
    assert_int_equal(etw_merge_step(&r.merge, SIZE_MAX, 60 * S), 1);
    assert_ok(put(&r, 1, 4 * S));
    assert_int_equal(etw_merge_step(&r.merge, SIZE_MAX, 60 * S), 1);
    assert_int_equal(r.seen.mono_ns[1], 5 * S);
    assert_int_equal(r.seen.wall_ns[1], 4 * S + 1000); /* when it happened */
    assert_int_equal(r.merge.late, 1);
    rig_close(&r);
}

static void a_full_ring_does_not_wait(void **state)
{
    struct rig r;
    size_t n = 0;

    rig_open(&r, 2);
    while (ring_fill_permille(r.merge.rings[0]) < 800) {
        assert_ok(put(&r, 0, 5 * S + (int64_t)n++));
    }
    assert_true(etw_merge_step(&r.merge, SIZE_MAX, 5 * S) > 0);
    assert_true(r.merge.hurried > 0);
    assert_true(ring_fill_permille(r.merge.rings[0]) < 500);
    assert_true(ring_fill_permille(r.merge.rings[0]) > 400);
    rig_close(&r);
}

static void what_a_ring_lost_is_told_once(void **state)
{
    struct rig r;
    uint64_t dropped = 0;

    rig_open(&r, 2);
    for (int64_t i = 0; i < 2000; i++) {
        dropped += put(&r, 1, 5 * S + i) != ERR_OK;
    }
    assert_true(dropped > 0);
    ring_close(r.merge.rings[0]);
    ring_close(r.merge.rings[1]);
    etw_merge_finish(&r.merge);
    assert_int_equal(r.seen.lost, dropped);
    assert_int_equal(r.seen.n, 2000 - dropped);
    etw_merge_lost(&r.merge, 7, 0);
    assert_int_equal(r.seen.lost, dropped + 7);
    rig_close(&r);
}

static void time_goes_on_and_never_back(void **state)
{
    struct rig r;

    rig_open(&r, 1);
    etw_merge_advance(&r.merge, 3 * S + 1000, 3 * S);
    etw_merge_advance(&r.merge, 2 * S + 1000, 2 * S);
    assert_int_equal(r.seen.now_ns, 3 * S);
    assert_ok(put(&r, 0, 4 * S));
    assert_int_equal(etw_merge_step(&r.merge, SIZE_MAX, 4 * S), 1); /* alone it waits for nobody */
    assert_int_equal(r.seen.now_ns, 4 * S);
    rig_close(&r);
}

/* Records of three sessions, each in order, delivered in bursts up to 1.9 s late. */
static void order_holds_whatever_comes_when(void **state)
{
    uint64_t random = 1;
    int64_t next[3] = {S, S, S};
    struct rig r;
    size_t put_n = 0;

    rig_open(&r, 3);
    for (int64_t now_ns = S; put_n < 2000; now_ns += S / 20) {
        for (size_t ring = 0; ring < 3; ring++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            if (random >> 62 && now_ns - next[ring] < 19 * S / 10) {
                continue; /* says nothing this time */
            }
            for (; next[ring] < now_ns; next[ring] += S / 40 + (int64_t)(random >> 40)) {
                assert_ok(put(&r, ring, next[ring]));
                put_n++;
            }
        }
        (void)etw_merge_step(&r.merge, 1 + random % 50, now_ns);
    }
    for (size_t i = 0; i < r.merge.n; i++) {
        ring_close(r.merge.rings[i]);
    }
    etw_merge_finish(&r.merge);
    assert_int_equal(r.seen.n, put_n);
    for (size_t i = 1; i < r.seen.n; i++) {
        assert_true(r.seen.mono_ns[i - 1] <= r.seen.mono_ns[i]);
    }
    assert_int_equal(r.merge.late, 0);
    assert_int_equal(r.merge.hurried, 0);
    rig_close(&r);
}

static void who_delivers_often_is_waited_for_less(void **state)
{
    struct rig r;

    assert_int_equal(etw_merge_window(0), ETW_MERGE_WINDOW_NS);
    assert_int_equal(etw_merge_window(1000), ETW_MERGE_WINDOW_NS);
    assert_true(etw_merge_window(5) < etw_merge_window(20));
    assert_true(etw_merge_window(20) < S / 2);
    rig_open(&r, 2);
    r.merge.window_ns = etw_merge_window(20);
    assert_ok(put(&r, 0, 5 * S));
    assert_int_equal(etw_merge_step(&r.merge, SIZE_MAX, 5 * S + r.merge.window_ns - 1), 0);
    assert_int_equal(etw_merge_step(&r.merge, SIZE_MAX, 5 * S + r.merge.window_ns), 1);
    rig_close(&r);
}

static void waiting_ends_at_its_moment_or_when_a_ring_fills(void **state)
{
    int64_t began_ns;
    struct rig r;

    rig_open(&r, 2);
    etw_merge_wait(&r.merge, 0);
    assert_ok(put(&r, 0, 5 * S));
    etw_merge_wait(&r.merge, 0);
    /* One record that waits for the other session: a nap, not the moment it came. */
    began_ns = os_mono_ns();
    etw_merge_wait(&r.merge, began_ns + S / 100);
    assert_true(os_mono_ns() - began_ns >= S / 100);
    while (ring_fill_permille(r.merge.rings[1]) < 300) {
        assert_ok(put(&r, 1, 5 * S));
    }
    etw_merge_wait(&r.merge, INT64_MAX); /* a short one: others may still come before it */
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_in_order_of_time),
        cmocka_unit_test(a_silent_session_holds_others_up_for_the_window),
        cmocka_unit_test(what_comes_too_late_takes_the_time_before_it),
        cmocka_unit_test(a_full_ring_does_not_wait),
        cmocka_unit_test(what_a_ring_lost_is_told_once),
        cmocka_unit_test(time_goes_on_and_never_back),
        cmocka_unit_test(order_holds_whatever_comes_when),
        cmocka_unit_test(who_delivers_often_is_waited_for_less),
        cmocka_unit_test(waiting_ends_at_its_moment_or_when_a_ring_fills),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
