#include "tests/support/t.h"

#include "collector/subscribe/feed.h"
#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/wire/wire_query.h"
#include "tests/collector/lab.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"

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
    struct feed *feed;
    struct lab *lab;
    struct journal *journal;
    char dir[256];         /* of the journal; "": none */
    const struct fio *fio; /* of the journal; NULL: real and unsynced */
    bool samples;          /* a durable subscription wants them */
    enum err troubles[8];  /* told, in order */
    size_t n_troubles;
};

static void note_trouble(void *ctx, enum err e)
{
    struct set *t = ctx;

    assert_true(t->n_troubles < COUNT_OF(t->troubles));
    t->troubles[t->n_troubles++] = e;
}

static bool samples_wanted(void *ctx)
{
    return ((struct set *)ctx)->samples;
}

static void send_to_ear(void *ctx, const struct str *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        hear(&((struct set *)ctx)->ear, list[i].p, list[i].n);
    }
}

static unsigned listeners(void *ctx)
{
    return ((struct set *)ctx)->ear.listeners;
}

static void feed_open(struct set *t, size_t queue_bytes)
{
    struct feed_conf conf = {.epoch = 77,
                             .queue_bytes = queue_bytes,
                             .hosts_max = 3,
                             .send = send_to_ear,
                             .listeners = listeners,
                             .samples_wanted = samples_wanted,
                             .on_trouble = note_trouble,
                             .ctx = t};

    if (t->dir[0]) {
        struct journal_conf journal = {.dir = t->dir,
                                       .fio = t->fio ? t->fio : fio_unsynced(),
                                       .max_bytes = JOURNAL_LEAST,
                                       .hosts_max = 3};
        struct errmsg why;

        assert_ok(journal_open(&t->journal, &journal, &why));
        conf.journal = t->journal;
        conf.epoch = journal_epoch(t->journal);
    }
    assert_ok(feed_create(&t->feed, &conf));
}

static void feed_close(struct set *t)
{
    feed_stop(t->feed);
    feed_destroy(t->feed);
    journal_close(t->journal);
    t->feed = NULL;
    t->journal = NULL;
}

static void stored(void *ctx, const struct store_stored *s)
{
    struct set *t = ctx;

    if (t->feed) {
        feed_stored(t->feed, s);
    }
}

static void set_up_with(struct set *t, size_t queue_bytes, bool journal)
{
    *t = (struct set){.ear = {.listeners = 1}};
    if (journal) {
        support_temp_dir(t->dir, sizeof t->dir);
    }
    assert_ok(os_mutex_create(&t->ear.lock));
    assert_ok(os_cond_create(&t->ear.heard, t->ear.lock));
    feed_open(t, queue_bytes);
    t->lab = lab_open(stored, t);
    assert_ok(feed_start(t->feed, lab_store(t->lab)));
}

static void set_up(struct set *t)
{
    set_up_with(t, 1 << 20, true);
}

static void tear_down(struct set *t)
{
    if (t->feed) {
        feed_close(t);
    }
    lab_close(t->lab);
    for (size_t i = 0; i < t->ear.n; i++) {
        buf_fini(&t->ear.bodies[i]);
    }
    os_cond_destroy(t->ear.heard);
    os_mutex_destroy(t->ear.lock);
    if (t->dir[0]) {
        support_remove_dir(t->dir);
    }
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

    set_up(&t);
    put_batch(t.lab, 1, 1, true);
    wait_for(&t.ear, 2);
    m = parse(&t.ear.bodies[0]);
    assert_string_equal(m.topic, "event/host-1");
    assert_int_equal(m.epoch, journal_epoch(t.journal));
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

/* One process that has every metric there is, which are more than an answer to a question holds. */
static void every_metric_of_a_sample_is_told(void **state)
{
    uint8_t metrics[METRIC_COLS];
    int64_t values[METRIC_COLS];
    unsigned n = 0;
    struct set t;
    struct message x;

    for (unsigned id = 0; id < METRIC_COLS; id++) {
        if (metric_by_id(id) && metric_by_id(id)->column) {
            metrics[n] = (uint8_t)id;
            values[n++] = 1000 + id;
        }
    }
    assert_true(n > WIRE_METRICS_MAX);
    set_up(&t);
    lab_begin(t.lab, 1, 7, 1);
    lab_tick(t.lab, 10);
    lab_run(t.lab, 5, 5, 0, 1, false, n, metrics, values);
    lab_put(t.lab);
    wait_for(&t.ear, 1);
    x = parse(&t.ear.bodies[0]);
    assert_string_equal(x.topic, "sample/host-1");
    assert_int_equal(x.update->data.n_metrics, n);
    assert_memory_equal(x.update->data.metrics, metrics, n);
    assert_int_equal(x.update->data.n_rows, 1);
    assert_true(x.update->data.rows[0].have == UINT64_MAX);
    assert_true(x.update->data.rows[0].have_high == (UINT64_C(1) << (n - 64)) - 1);
    assert_memory_equal(x.update->data.rows[0].values, values, n * sizeof *values);
    wire_update_free(x.update);
    tear_down(&t);
}

static void each_topic_counts_on_its_own(void **state)
{
    struct set t;
    struct message m;

    set_up_with(&t, 1 << 20, false);
    put_batch(t.lab, 2, 1, false);
    wait_for(&t.ear, 1);
    put_batch(t.lab, 1, 1, true);
    wait_for(&t.ear, 3);
    put_batch(t.lab, 2, 2, true);
    wait_for(&t.ear, 5);
    for (size_t i = 0; i < 5; i++) {
        static const char *const topics[] = {"sample/host-2", "event/host-1", "sample/host-1",
                                             "event/host-2", "sample/host-2"};

        m = parse(&t.ear.bodies[i]);
        assert_string_equal(m.topic, topics[i]);
        assert_int_equal(m.epoch, 77);
        assert_int_equal(m.seq, i == 4 ? 2 : 1);
        wire_update_free(m.update);
    }
    tear_down(&t);
}

static size_t count_journal(struct set *t, enum feed_topic topic)
{
    struct journal_record r;
    uint64_t from = 0;
    size_t n = 0;

    while (journal_next(t->journal, &from, NULL, NULL, &r, NULL) == ERR_OK) {
        n += r.topic == topic;
    }
    return n;
}

static void batches_that_come_together_become_one_message(void **state)
{
    struct set t;
    struct message m;
    struct journal_record r;
    uint64_t from = 0;

    set_up(&t);
    os_mutex_lock(t.ear.lock);
    t.ear.deaf = true;
    os_mutex_unlock(t.ear.lock);
    put_batch(t.lab, 1, 1, true); /* holds the publisher up */
    while (count_journal(&t, FEED_SAMPLE) == 0) {
        os_sleep_ns(CLK_MS);
    }
    put_batch(t.lab, 1, 2, true);
    put_batch(t.lab, 1, 3, true);
    put_batch(t.lab, 1, 5, true); /* does not follow */
    os_mutex_lock(t.ear.lock);
    t.ear.deaf = false;
    os_cond_wake_all(t.ear.heard);
    os_mutex_unlock(t.ear.lock);
    wait_for(&t.ear, 6);
    feed_stop(t.feed);
    assert_int_equal(t.ear.n, 6);
    for (size_t i = 2; i < 6; i++) {
        m = parse(&t.ear.bodies[i]);
        if (strcmp(m.topic, "event/host-1") == 0 && m.seq == 2) {
            assert_int_equal(m.update->data.n_events, 2);
            assert_true(m.update->data.events[0].event.wall_ns == LAB_NS(20.5));
            assert_true(m.update->data.events[1].event.wall_ns == LAB_NS(30.5));
        } else if (strcmp(m.topic, "sample/host-1") == 0 && m.seq == 2) {
            assert_int_equal(m.update->data.n_rows, 2);
        } else {
            assert_int_equal(m.seq, 3);
        }
        wire_update_free(m.update);
    }
    do {
        assert_ok(journal_next(t.journal, &from, NULL, NULL, &r, NULL));
    } while (r.seq < 2);
    assert_int_equal(r.batch, 2);
    assert_int_equal(r.last_batch, 3);
    tear_down(&t);
}

static void events_are_journalled_while_nobody_listens(void **state)
{
    struct set t;

    set_up(&t);
    t.ear.listeners = 0;
    put_batch(t.lab, 1, 1, true);
    assert_true(feed_keep(t.feed));
    assert_int_equal(count_journal(&t, FEED_EVENT), 1);
    assert_int_equal(count_journal(&t, FEED_SAMPLE), 0);
    t.samples = true;
    put_batch(t.lab, 1, 2, false);
    assert_true(feed_keep(t.feed));
    assert_int_equal(count_journal(&t, FEED_SAMPLE), 1);
    assert_int_equal(t.ear.n, 0);
    tear_down(&t);
}

/* Of the journal's gaps in the topic. */
static uint64_t messages_missing(const struct set *t, enum feed_topic topic)
{
    struct journal_record r;
    uint64_t from = 0, n = 0;

    while (journal_next(t->journal, &from, NULL, NULL, &r, NULL) == ERR_OK) {
        n += r.topic == topic && r.n == 0 ? r.last_batch - r.batch + 1 : 0;
    }
    return n;
}

static void a_disk_that_keeps_failing_is_told_once_and_so_is_its_end(void **state)
{
    struct fio_fault *fault;
    struct feed_stats s;
    struct set t;

    assert_ok(fio_fault_create(&fault));
    set_up(&t);
    feed_close(&t);
    t.fio = fio_fault_fio(fault);
    feed_open(&t, 1 << 20);
    assert_ok(feed_start(t.feed, lab_store(t.lab)));
    fio_fault_fail(fault, FIO_SYNC, 0, ERR_IO, true);
    for (uint64_t seq = 1; seq <= 5; seq++) {
        if (seq == 4) {
            fio_fault_fail(fault, FIO_SYNC, -1, ERR_OK, false);
        }
        put_batch(t.lab, 1, seq, true);
        assert_true(feed_keep(t.feed));
    }
    feed_stats(t.feed, &s);
    assert_int_equal(s.failed, 3 * 2);
    assert_int_equal(t.n_troubles, 2);
    assert_int_equal(t.troubles[0], ERR_IO);
    assert_int_equal(t.troubles[1], ERR_OK);
    assert_int_equal(messages_missing(&t, FEED_EVENT), 3);
    assert_int_equal(messages_missing(&t, FEED_SAMPLE), 3);
    tear_down(&t);
    fio_fault_destroy(fault);
}

/* Whoever asks whether all is kept learns at once that it is not: he may be who makes room. */
static void while_the_disk_is_full_messages_wait(void **state)
{
    struct fio_fault *fault;
    struct feed_stats s;
    struct set t;

    assert_ok(fio_fault_create(&fault));
    set_up(&t);
    feed_close(&t);
    t.fio = fio_fault_fio(fault);
    feed_open(&t, 1 << 20);
    assert_ok(feed_start(t.feed, lab_store(t.lab)));
    fio_fault_fail(fault, FIO_WRITE, 0, ERR_NOSPACE, true);
    for (uint64_t seq = 1; seq <= 5; seq++) {
        put_batch(t.lab, 1, seq, true);
        assert_false(feed_keep(t.feed));
    }
    assert_int_equal(t.ear.n, 0);
    fio_fault_fail(fault, FIO_WRITE, -1, ERR_OK, false);
    while (!feed_keep(t.feed)) { /* until it is written again */
    }
    feed_stats(t.feed, &s);
    assert_int_equal(s.failed + s.left_out, 0);
    assert_int_equal(t.n_troubles, 2);
    assert_int_equal(t.troubles[0], ERR_NOSPACE);
    assert_int_equal(t.troubles[1], ERR_OK);
    assert_int_equal(messages_missing(&t, FEED_EVENT), 0);
    assert_int_equal(messages_missing(&t, FEED_SAMPLE), 0);
    tear_down(&t);
    fio_fault_destroy(fault);
}

static void without_a_journal_nothing_is_done_while_nobody_listens(void **state)
{
    struct set t;
    struct message m;

    set_up_with(&t, 1 << 20, false);
    t.ear.listeners = 0;
    put_batch(t.lab, 1, 1, true);
    t.ear.listeners = 1;
    put_batch(t.lab, 1, 2, false);
    wait_for(&t.ear, 1);
    m = parse(&t.ear.bodies[0]);
    assert_int_equal(m.update->data.rows[0].when_ns, LAB_NS(21));
    assert_int_equal(m.seq, 1);
    wire_update_free(m.update);
    tear_down(&t);
}

static void what_is_left_out_leaves_a_hole(bool journal)
{
    struct set t;
    struct feed_stats stats;
    struct message m;

    set_up_with(&t, 400, journal); /* room for one batch */
    os_mutex_lock(t.ear.lock);
    t.ear.deaf = true;
    os_mutex_unlock(t.ear.lock);
    put_batch(t.lab, 1, 1, false);
    feed_stats(t.feed, &stats);
    for (uint64_t seq = 2; stats.left_out == 0; seq++) {
        put_batch(t.lab, 1, seq, false);
        feed_stats(t.feed, &stats);
    }
    os_mutex_lock(t.ear.lock);
    t.ear.deaf = false;
    os_cond_wake_all(t.ear.heard);
    os_mutex_unlock(t.ear.lock);
    assert_true(feed_keep(t.feed));
    put_batch(t.lab, 1, 1000, false);
    assert_true(feed_keep(t.feed));
    m = parse(&t.ear.bodies[t.ear.n - 1]);
    assert_true(m.seq > t.ear.n);
    assert_int_equal(journal ? messages_missing(&t, FEED_SAMPLE) : stats.left_out, stats.left_out);
    wire_update_free(m.update);
    tear_down(&t);
}

static void what_finds_the_queue_full_is_counted_and_leaves_a_hole(void **state)
{
    struct set t;
    struct feed_stats stats;

    set_up_with(&t, 0, true);
    put_batch(t.lab, 1, 1, true);
    feed_stats(t.feed, &stats);
    assert_int_equal(stats.left_out, 1);
    feed_close(&t);
    feed_open(&t, 1 << 20);
    feed_stop(t.feed); /* before anything else: nothing was journalled */
    assert_int_equal(count_journal(&t, FEED_EVENT), 0);
    tear_down(&t);
    what_is_left_out_leaves_a_hole(false);
    what_is_left_out_leaves_a_hole(true);
}

/* -- after a kill: what the store has and the journal has not -- */

static void starting_makes_up_for_what_the_journal_lacks(void **state)
{
    struct set t;
    struct feed_stats stats;

    set_up(&t);
    put_batch(t.lab, 1, 1, true);
    put_batch(t.lab, 2, 1, true);
    assert_true(feed_keep(t.feed));
    feed_close(&t); /* the store goes on alone */
    put_batch(t.lab, 1, 2, true);
    put_batch(t.lab, 1, 3, false);
    put_batch(t.lab, 2, 2, true);
    for (unsigned round = 0; round < 2; round++) {
        feed_open(&t, 1 << 20);
        assert_ok(feed_start(t.feed, lab_store(t.lab)));
        feed_stats(t.feed, &stats);
        assert_int_equal(stats.made_up, round == 0 ? 2 : 0);
        assert_int_equal(count_journal(&t, FEED_EVENT), 4);
        assert_true(journal_has(t.journal, FEED_EVENT, "host-1",
                                &(struct journal_batch){7, 2, INT64_MIN, 0}));
        assert_true(journal_has(t.journal, FEED_EVENT, "host-2",
                                &(struct journal_batch){7, 2, INT64_MIN, 0}));
        feed_close(&t);
    }
    tear_down(&t);
}

enum { CUTS = 24, SPAN = 10 }; /* a batch every half minute */

static enum err remove_log(void *ctx, const char *name)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s", (const char *)ctx, name);
    return strncmp(name, "feed-", 5) == 0 ? os_remove(path) : ERR_OK;
}

static void assert_all_once(struct set *t)
{
    assert_int_equal(count_journal(t, FEED_EVENT), 3 * SPAN);
    for (unsigned host = 1; host <= 3; host++) {
        char name[16];

        snprintf(name, sizeof name, "host-%u", host);
        for (uint64_t seq = 1; seq <= SPAN; seq++) {
            const struct journal_batch key = {7, seq, INT64_MIN, 0};

            assert_true(journal_has(t->journal, FEED_EVENT, name, &key));
        }
    }
}

/* A collector with batches of a while in its log gets a journal, and is killed while that fills. */
static void making_up_goes_on_wherever_it_was_interrupted(void **state)
{
    struct set t;
    char path[400];
    uint8_t *whole;
    size_t n;

    set_up(&t);
    feed_close(&t);
    for (uint64_t seq = 1; seq <= SPAN; seq++) {
        for (unsigned host = 1; host <= 3; host++) {
            lab_received(t.lab, (double)seq * 30 + host);
            put_batch(t.lab, host, seq, true);
        }
    }
    feed_open(&t, 1 << 20);
    assert_ok(feed_start(t.feed, lab_store(t.lab)));
    assert_all_once(&t);
    snprintf(path, sizeof path, "%s/feed-0000000000000001.log", t.dir);
    assert_ok(os_read_file(&whole, &n, path, 1 << 20));
    for (size_t cut = 1; cut <= CUTS; cut++) {
        feed_close(&t);
        assert_ok(os_list_dir(t.dir, remove_log, t.dir));
        assert_ok(os_write_file(path, whole, n * cut / CUTS, false));
        feed_open(&t, 1 << 20);
        assert_ok(feed_start(t.feed, lab_store(t.lab)));
        assert_all_once(&t);
    }
    mem_free(whole);
    tear_down(&t);
}

static void stopping_journals_what_waits(void **state)
{
    struct set t;

    set_up(&t);
    put_batch(t.lab, 1, 1, true);
    feed_stop(t.feed);
    assert_int_equal(count_journal(&t, FEED_EVENT), 1);
    assert_false(feed_keep(t.feed));
    put_batch(t.lab, 1, 2, true); /* left alone */
    assert_int_equal(count_journal(&t, FEED_EVENT), 1);
    tear_down(&t);
}

static void large_batches_are_split_below_the_receive_limit(void **state)
{
    static const uint8_t both[] = {M_CPU_TIME, M_WORKING_SET_SIZE};
    static char text[4000];
    struct set t;
    size_t rows = 0, events = 0;

    set_up(&t);
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
    feed_stop(t.feed);
    assert_int_equal(t.ear.n, 5); /* 2.4 MB of events in four, the rows in one */
    for (size_t i = 0; i < t.ear.n; i++) {
        struct message m = parse(&t.ear.bodies[i]);

        assert_in_range(t.ear.bodies[i].n, 1, FEED_MESSAGE_MAX);
        rows += m.update->data.n_rows;
        events += m.update->data.n_events;
        wire_update_free(m.update);
    }
    assert_int_equal(rows, 600);
    assert_int_equal(events, 600);
    assert_true(
        journal_has(t.journal, FEED_EVENT, "host-1", &(struct journal_batch){7, 1, INT64_MIN, 0}));
    feed_close(&t);
    feed_open(&t, 1 << 20); /* in parts, and whole */
    assert_true(
        journal_has(t.journal, FEED_EVENT, "host-1", &(struct journal_batch){7, 1, INT64_MIN, 0}));
    tear_down(&t);
}

static void creating_survives_every_failing_allocation(void **state)
{
    struct feed_conf conf = {.queue_bytes = 4, .hosts_max = 4};
    enum err e = ERR_NOMEM;

    for (long n = 0; e; n++) {
        struct feed *s;
        long live = mem_live();

        mem_fail_after(n);
        e = feed_create(&s, &conf);
        mem_fail_after(-1);
        if (!e) {
            feed_destroy(s);
        }
        assert_int_equal(mem_live(), live);
        assert_true(n < 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stored_batch_becomes_events_and_newest_samples),
        cmocka_unit_test(every_metric_of_a_sample_is_told),
        cmocka_unit_test(each_topic_counts_on_its_own),
        cmocka_unit_test(batches_that_come_together_become_one_message),
        cmocka_unit_test(events_are_journalled_while_nobody_listens),
        cmocka_unit_test(a_disk_that_keeps_failing_is_told_once_and_so_is_its_end),
        cmocka_unit_test(while_the_disk_is_full_messages_wait),
        cmocka_unit_test(without_a_journal_nothing_is_done_while_nobody_listens),
        cmocka_unit_test(what_finds_the_queue_full_is_counted_and_leaves_a_hole),
        cmocka_unit_test(starting_makes_up_for_what_the_journal_lacks),
        cmocka_unit_test(making_up_goes_on_wherever_it_was_interrupted),
        cmocka_unit_test(stopping_journals_what_waits),
        cmocka_unit_test(large_batches_are_split_below_the_receive_limit),
        cmocka_unit_test(creating_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
