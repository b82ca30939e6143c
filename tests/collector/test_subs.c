#include "tests/support/t.h"

#include "collector/subs.h"
#include "common/cur.h"
#include "common/mem.h"
#include "common/os.h"
#include "common/wire_query.h"
#include "tests/collector/lab.h"

#define MESSAGES 64
#define PATIENCE INT64_C(20000000000)

/* Takes the place of the socket: keeps what was sent. */
struct ear {
    struct os_mutex *lock;
    struct os_cond *heard;
    unsigned listeners;
    bool deaf; /* holds the publisher up */
    size_t n;
    struct buf bodies[MESSAGES];
};

static void hear(void *ctx, const void *body, size_t n)
{
    struct ear *ear = ctx;

    os_mutex_lock(ear->lock);
    while (ear->deaf) {
        os_cond_wait(ear->heard);
    }
    assert_true(ear->n < MESSAGES);
    buf_init(&ear->bodies[ear->n], n);
    buf_put(&ear->bodies[ear->n], body, n);
    ear->n++;
    os_cond_wake_all(ear->heard);
    os_mutex_unlock(ear->lock);
}

static unsigned listeners(void *ctx)
{
    return ((struct ear *)ctx)->listeners;
}

static void wait_for(struct ear *ear, size_t n)
{
    int64_t until = os_mono_ns() + PATIENCE;

    os_mutex_lock(ear->lock);
    while (ear->n < n) {
        assert_ok(os_cond_wait_until(ear->heard, until));
    }
    os_mutex_unlock(ear->lock);
}

struct set {
    struct ear ear;
    struct subs *subs;
    struct lab *lab;
};

static void set_up(struct set *t, unsigned queue)
{
    struct subs_conf conf = {.epoch = 77,
                             .queue = queue,
                             .hosts_max = 3,
                             .send = hear,
                             .listeners = listeners,
                             .ctx = &t->ear};

    *t = (struct set){.ear = {.listeners = 1}};
    assert_ok(os_mutex_create(&t->ear.lock));
    assert_ok(os_cond_create(&t->ear.heard, t->ear.lock));
    assert_ok(subs_create(&t->subs, &conf));
    t->lab = lab_open(subs_stored, t->subs);
    assert_ok(subs_start(t->subs, lab_store(t->lab)));
}

static void tear_down(struct set *t)
{
    subs_stop(t->subs);
    lab_close(t->lab);
    subs_destroy(t->subs);
    for (size_t i = 0; i < t->ear.n; i++) {
        buf_fini(&t->ear.bodies[i]);
    }
    os_cond_destroy(t->ear.heard);
    os_mutex_destroy(t->ear.lock);
}

struct message {
    const char *topic;
    uint64_t epoch, seq;
    struct wire_update *update;
};

static struct message parse(const struct buf *b)
{
    struct cur c = cur_make(b->p, b->n);
    struct message m;
    size_t n;

    m.topic = cur_cstr(&c, &n);
    m.epoch = cur_u64le(&c);
    m.seq = cur_u64le(&c);
    assert_false(c.bad);
    assert_ok(wire_update_decode(&m.update, c.p, cur_left(&c)));
    return m;
}

static void put_batch(struct lab *l, unsigned host, uint64_t seq, bool event)
{
    double t = (double)seq * 10;

    lab_begin(l, host, 7, seq);
    lab_tick(l, t);
    lab_tick(l, t + 1);
    lab_cpu(l, 5, false, 0, 2, (int64_t[]){10, 25});
    lab_cpu(l, 6, false, 0, 1, (int64_t[]){10}); /* ended before the last tick */
    lab_name(l, 5, "five");
    if (event) {
        lab_life(l, LIFE_PROCESS_STOP, t + 0.5, 6, "six");
    }
    lab_put(l);
}

static void a_stored_batch_becomes_events_and_newest_samples(void **state)
{
    struct set t;
    struct message m;

    (void)state;
    set_up(&t, 16);
    put_batch(t.lab, 1, 1, true);
    wait_for(&t.ear, 2);
    m = parse(&t.ear.bodies[0]);
    assert_string_equal(m.topic, "event/host-1");
    assert_int_equal(m.epoch, 77);
    assert_int_equal(m.seq, 1);
    assert_int_equal(m.update->data.n_events, 1);
    assert_int_equal(m.update->data.events[0].event.info.exit_code, 7);
    assert_true(str_eq(m.update->name, str_make("host-1")));
    wire_update_free(m.update);
    m = parse(&t.ear.bodies[1]);
    assert_string_equal(m.topic, "sample/host-1");
    assert_int_equal(m.seq, 1);
    assert_int_equal(m.update->data.n_rows, 1);
    assert_int_equal(m.update->data.rows[0].info.id.pid, 5);
    assert_true(str_eq(m.update->data.rows[0].info.name, str_make("five")));
    assert_int_equal(m.update->data.rows[0].values[0], 25000000);
    assert_int_equal(m.update->data.rows[0].when_ns, LAB_NS(11));
    wire_update_free(m.update);
    tear_down(&t);
}

static void each_topic_counts_on_its_own(void **state)
{
    static const struct {
        const char *topic;
        uint64_t seq;
    } want[] = {{"sample/host-2", 1}, {"event/host-1", 1}, {"sample/host-1", 1},
                {"sample/host-1", 2}, {"event/host-2", 1}, {"sample/host-2", 2}};
    struct set t;

    (void)state;
    set_up(&t, 16);
    put_batch(t.lab, 2, 1, false);
    put_batch(t.lab, 1, 1, true);
    put_batch(t.lab, 1, 2, false);
    put_batch(t.lab, 2, 2, true);
    wait_for(&t.ear, COUNT_OF(want));
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        struct message m = parse(&t.ear.bodies[i]);

        assert_string_equal(m.topic, want[i].topic);
        assert_int_equal(m.seq, want[i].seq);
        wire_update_free(m.update);
    }
    tear_down(&t);
}

static void nothing_is_published_while_nobody_listens(void **state)
{
    struct set t;
    struct message m;

    (void)state;
    set_up(&t, 16);
    t.ear.listeners = 0;
    put_batch(t.lab, 1, 1, true);
    t.ear.listeners = 1;
    put_batch(t.lab, 1, 2, false);
    wait_for(&t.ear, 1);
    m = parse(&t.ear.bodies[0]);
    assert_int_equal(m.update->data.rows[0].when_ns, LAB_NS(21));
    wire_update_free(m.update);
    tear_down(&t);
}

static void what_finds_the_queue_full_is_counted_and_leaves_a_hole(void **state)
{
    struct set t;
    struct subs_stats stats;
    struct message m;

    (void)state;
    set_up(&t, 2);
    put_batch(t.lab, 1, 1, false);
    wait_for(&t.ear, 1);
    os_mutex_lock(t.ear.lock);
    t.ear.deaf = true;
    os_mutex_unlock(t.ear.lock);
    for (uint64_t seq = 2; seq <= 6; seq++) { /* at most one in hand and two waiting */
        put_batch(t.lab, 1, seq, false);
    }
    subs_stats(t.subs, &stats);
    assert_in_range(stats.dropped, 2, 3);
    os_mutex_lock(t.ear.lock);
    t.ear.deaf = false;
    os_cond_wake_all(t.ear.heard);
    os_mutex_unlock(t.ear.lock);
    wait_for(&t.ear, 6 - (size_t)stats.dropped);
    m = parse(&t.ear.bodies[t.ear.n - 1]);
    /* One number is skipped for each time the publisher finds that something was dropped. */
    assert_in_range(m.seq, t.ear.n + 1, t.ear.n + stats.dropped);
    wire_update_free(m.update);
    tear_down(&t);
}

static void large_batches_are_split_below_the_receive_limit(void **state)
{
    static const uint8_t both[] = {M_CPU_TIME, M_WORKING_SET_SIZE};
    static char text[4000];
    struct set t;
    size_t rows = 0, events = 0;

    (void)state;
    set_up(&t, 16);
    memset(text, 'x', sizeof text - 1);
    lab_begin(t.lab, 1, 7, 1);
    lab_tick(t.lab, 100);
    for (uint32_t pid = 1; pid <= 600; pid++) {
        struct life_event ev = {.kind = LIFE_PROCESS_START, .wall_ns = LAB_NS(100)};

        lab_run(t.lab, pid, pid, 0, 1, false, 2, both, (int64_t[]){INT64_MAX - pid, pid});
        ev.info.id = (struct proc_id){pid, pid};
        ev.info.have = INFO_COMMAND_LINE_KNOWN;
        ev.info.command_line = str_make(text);
        lab_event(t.lab, &ev);
    }
    lab_put(t.lab);
    wait_for(&t.ear, 5);
    subs_stop(t.subs);
    assert_int_equal(t.ear.n, 5); /* 2.4 MB of events in four, the rows in one */
    for (size_t i = 0; i < t.ear.n; i++) {
        struct message m = parse(&t.ear.bodies[i]);

        assert_in_range(t.ear.bodies[i].n, 1, SUBS_MESSAGE_MAX);
        rows += m.update->data.n_rows;
        events += m.update->data.n_events;
        wire_update_free(m.update);
    }
    assert_int_equal(rows, 600);
    assert_int_equal(events, 600);
    tear_down(&t);
}

static void creating_survives_every_failing_allocation(void **state)
{
    struct subs_conf conf = {.queue = 4, .hosts_max = 4};
    enum err e = ERR_NOMEM;

    (void)state;
    for (long n = 0; e; n++) {
        struct subs *s;
        long live = mem_live();

        mem_fail_after(n);
        e = subs_create(&s, &conf);
        mem_fail_after(-1);
        if (!e) {
            subs_destroy(s);
        }
        assert_int_equal(mem_live(), live);
        assert_true(n < 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stored_batch_becomes_events_and_newest_samples),
        cmocka_unit_test(each_topic_counts_on_its_own),
        cmocka_unit_test(nothing_is_published_while_nobody_listens),
        cmocka_unit_test(what_finds_the_queue_full_is_counted_and_leaves_a_hole),
        cmocka_unit_test(large_batches_are_split_below_the_receive_limit),
        cmocka_unit_test(creating_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
