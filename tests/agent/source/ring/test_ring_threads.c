/* A ring with two threads: whatever the pace of either side, every record comes out intact
 * and in order or is counted, and every stretch of loss is told where it lies. */
#include "tests/support/t.h"

#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/ring/ring.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "tests/support/ring_pump.h"

#define PAYLOAD_MAX 700

static const uint8_t classes[][16] = {
    ETW_CLASS_THREAD, ETW_CLASS_DISK_IO, ETW_CLASS_PROCESS, ETW_CLASS_IMAGE, ETW_CLASS_PERF_INFO,
};

static uint64_t next_random(uint64_t *rng)
{
    *rng ^= *rng << 13;
    *rng ^= *rng >> 7;
    *rng ^= *rng << 17;
    return *rng >> 8;
}

/* Everything about the record follows from its number. */
static struct raw_event make_record(uint64_t number, uint8_t *payload)
{
    uint64_t rng = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    struct raw_event raw = {.form = RAW_CLASSIC,
                            .opcode = (uint8_t)(next_random(&rng) % 64),
                            .version = 3,
                            .pointer_size = 8,
                            .cpu = (uint16_t)(next_random(&rng) % 4),
                            .pid = (uint32_t)number,
                            .tid = (uint32_t)next_random(&rng),
                            .keyword = next_random(&rng) % 8 == 0,
                            .wall_ns = 1000 + (int64_t)number,
                            .mono_ns = (int64_t)number,
                            .ticks = (int64_t)number};

    memcpy(raw.guid, classes[next_random(&rng) % COUNT_OF(classes)], 16);
    raw.payload_n = next_random(&rng) % PAYLOAD_MAX;
    memset(payload, (int)(number & 0xff), PAYLOAD_MAX);
    raw.payload = payload;
    raw.ext_n = next_random(&rng) % 4 == 0 ? next_random(&rng) % 64 : 0;
    raw.ext = payload + PAYLOAD_MAX - 64;
    return raw;
}

struct check {
    uint64_t next;  /* number of the record expected, if none is missing */
    uint64_t out;   /* records */
    uint64_t gaps;  /* records missing */
    uint64_t told;  /* by EV_LOST since the last record */
    int64_t now_ns; /* of the last advance */
    uint64_t spin;  /* slows the consumer down */
    volatile uint64_t sum;
};

static void check_raw(void *ctx, const struct raw_event *raw)
{
    static uint8_t payload[PAYLOAD_MAX];
    struct check *c = ctx;
    uint64_t number = (uint64_t)raw->mono_ns;
    struct raw_event want = make_record(number, payload);

    assert_true(number >= c->next);
    assert_int_equal(number - c->next, c->told);
    assert_int_equal(raw->mono_ns, c->now_ns);
    assert_int_equal(raw->pid, want.pid);
    assert_int_equal(raw->tid, want.tid);
    assert_int_equal(raw->keyword, want.keyword);
    assert_int_equal(raw->wall_ns, want.wall_ns);
    assert_int_equal(raw->cpu, want.cpu);
    assert_memory_equal(raw->guid, want.guid, 16);
    assert_int_equal(raw->payload_n, want.payload_n);
    assert_memory_equal(raw->payload, payload, raw->payload_n);
    assert_int_equal(raw->ext_n, want.ext_n);
    if (raw->ext_n) {
        assert_memory_equal(raw->ext, want.ext, raw->ext_n);
    }
    c->gaps += c->told;
    c->told = 0;
    c->next = number + 1;
    c->out++;
    for (uint64_t i = 0; i < c->spin; i++) {
        c->sum += i;
    }
}

static void check_fact(void *ctx, const struct event *ev)
{
    struct check *c = ctx;

    assert_int_equal(ev->kind, EV_LOST);
    assert_true((uint64_t)ev->mono_ns >= c->next);
    c->told += ev->u.lost.events;
}

static void check_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct check *c = ctx;

    assert_true(mono_ns > c->now_ns);
    assert_int_equal(wall_ns, mono_ns + 1000);
    c->now_ns = mono_ns;
}

struct pace {
    uint64_t records, spin, burst;
    size_t batch;
    bool wait;
};

static uint64_t produce(struct ring *r, const struct pace *pace)
{
    static uint8_t payload[PAYLOAD_MAX];
    volatile uint64_t sum = 0;
    uint64_t ok = 0;

    for (uint64_t i = 0; i < pace->records; i++) {
        struct raw_event raw = make_record(i, payload);

        ok += ring_put(r, &raw) == ERR_OK;
        for (uint64_t k = 0; k < pace->spin && i % pace->burst == 0; k++) {
            sum += k;
        }
    }
    return ok;
}

static struct ring_stats run_once(const struct pace *pace, uint64_t consumer_spin)
{
    struct ring_conf conf = {.bytes = RING_BYTES_MIN, .wait = pace->wait};
    struct check check = {.now_ns = -1, .spin = consumer_spin};
    struct ring_pump p = {
        .sink = {.ctx = &check, .raw = check_raw, .fact = check_fact, .advance = check_advance},
        .batch = pace->batch};
    struct ring_stats s;
    uint64_t ok, dropped = 0;

    assert_ok(ring_create(&p.ring, &conf));
    assert_ok(ring_pump_start(&p));
    ok = produce(p.ring, pace);
    ring_pump_stop(&p);
    ring_stats(p.ring, &s);
    for (size_t i = 0; i < RING_KIND_COUNT; i++) {
        dropped += s.dropped[i];
    }
    assert_int_equal(s.in, pace->records);
    assert_int_equal(s.in, s.out + dropped);
    assert_int_equal(s.held, 0);
    assert_int_equal(s.refused, 0);
    assert_int_equal(check.out, ok);
    assert_int_equal(check.out, s.out);
    assert_int_equal(check.gaps + check.told, dropped); /* the last stretch is behind all records */
    assert_int_equal(check.next + check.told, pace->records);
    ring_destroy(p.ring);
    return s;
}

static void a_producer_that_waits_loses_nothing(void **state)
{
    static const struct {
        struct pace pace;
        uint64_t consumer_spin;
    } rows[] = {
        {{20000, 0, 1, 10000, true}, 0},
        {{20000, 0, 1, 1, true}, 300},
        {{20000, 500, 1, 10000, true}, 0},
        {{20000, 100000, 1000, 100, true}, 100},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ring_stats s = run_once(&rows[i].pace, rows[i].consumer_spin);

        assert_int_equal(s.out, rows[i].pace.records);
        assert_int_equal(s.gaps, 0);
    }
}

static void a_slow_consumer_costs_ordinary_records_first(void **state)
{
    struct pace pace = {20000, 0, 1, 10000, false};
    struct ring_stats s = run_once(&pace, 20000);

    assert_true(s.dropped[RING_DISK] > 0);
    assert_true(s.gaps > 0);
    assert_int_equal(s.waits, 0);
    /* A fifth of all records are Process, as many DiskIo. */
    assert_true(s.dropped[RING_PROCESS] < s.dropped[RING_DISK]);
}

static void any_pace_keeps_the_balance(void **state)
{
    uint64_t rng = 42;

    for (int i = 0; i < 40; i++) {
        struct pace pace = {.records = 500 + next_random(&rng) % 3000,
                            .spin = next_random(&rng) % 3000,
                            .burst = 1 + next_random(&rng) % 500,
                            .batch = 1 + next_random(&rng) % 300,
                            .wait = next_random(&rng) % 4 == 0};

        (void)run_once(&pace, next_random(&rng) % 2000);
    }
}

struct sleeper {
    struct ring *ring;
    enum err woken;
};

static void sleep_for_one(void *arg)
{
    struct sleeper *s = arg;

    s->woken = ring_wait(s->ring, 1, os_mono_ns() + 60 * CLK_S);
}

static void the_first_record_wakes_whoever_sleeps(void **state)
{
    struct ring_conf conf = {.bytes = RING_BYTES_MIN};
    static uint8_t payload[PAYLOAD_MAX];
    struct ring_stats stats;
    struct check check = {.now_ns = -1};
    struct source_sink sink = {
        .ctx = &check, .raw = check_raw, .fact = check_fact, .advance = check_advance};
    struct sleeper s;

    assert_ok(ring_create(&s.ring, &conf));
    for (uint64_t i = 0; i < 200; i++) { /* the thread sleeps already, or not yet */
        struct raw_event raw = make_record(i, payload);
        struct os_thread *t;

        assert_ok(os_thread_start(&t, "sleeper", sleep_for_one, &s));
        for (volatile uint64_t k = 0; k < i * 1000; k++) {
        }
        assert_ok(ring_put(s.ring, &raw));
        os_thread_join(t);
        assert_ok(s.woken);
        assert_int_equal(ring_drain(s.ring, 10, &sink), 1);
    }
    ring_stats(s.ring, &stats);
    assert_true(stats.wakes <= 200);
    ring_destroy(s.ring);
}

static void nothing_to_do_is_fine(void **state)
{
    struct pace pace = {.records = 0, .batch = 10};
    struct ring_stats s = run_once(&pace, 0);

    assert_int_equal(s.in, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_producer_that_waits_loses_nothing),
        cmocka_unit_test(a_slow_consumer_costs_ordinary_records_first),
        cmocka_unit_test(any_pace_keeps_the_balance),
        cmocka_unit_test(the_first_record_wakes_whoever_sleeps),
        cmocka_unit_test(nothing_to_do_is_fine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
