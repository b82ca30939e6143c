/* The uplink of a collector that is killed, moody, silent, or breaks under batches: each batch ends
 * taken or set aside, and none is set aside that is not to blame. */
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/os/os.h"
#include "tests/agent/uplink/link.h"
#include "tests/support/t.h"

/* A collector that is killed under every third push, and has stored it or has not. */
struct fragile {
    unsigned pushes, seed;
    bool broken;
};

static int break_often(void *ctx, const void *p, size_t n)
{
    struct fragile *f = ctx;

    (void)p;
    (void)n;
    if (f->broken || ++f->pushes % 3 == 0) {
        f->broken = true;
        f->seed = f->seed * 1103515245u + 12345u;
        return f->seed >> 16 & 1 ? INGEST_TAKE : INGEST_IGNORE;
    }
    return INGEST_ANSWER;
}

static void a_collector_that_is_restarted_often_costs_no_batch(void **state)
{
    struct fragile f = {.seed = 1};
    struct ingest *c = ingest_create(link_tls.server);
    struct link *l = link_new(c);
    struct uplink_status s;
    unsigned restarts = 0;

    c->hello.max_in_flight = 2;
    c->decide = break_often;
    c->ctx = &f;
    for (uint64_t seq = 1; seq <= 26; seq++) {
        link_put(l, seq, (char[]){(char)('a' + seq - 1), 0});
    }
    queue_close(l->queue);
    link_start(l);
    for (uplink_status(l->uplink, &s); !s.drained; uplink_status(l->uplink, &s)) {
        bool broken;

        os_mutex_lock(c->lock);
        broken = f.broken;
        os_mutex_unlock(c->lock);
        if (broken) {
            ingest_stop(c);
            f.broken = false;
            ingest_listen(c, l->addresses[0]);
            assert_true(++restarts < 100);
        }
        os_sleep_ns(CLK_MS);
    }
    assert_true(restarts >= 8);
    assert_int_equal(s.quarantined, 0);
    assert_int_equal(s.acknowledged, 26);
    for (char x = 'a'; x <= 'z'; x++) {
        assert_non_null(memchr(c->got, x, c->n_got));
    }
    link_free(l);
    ingest_destroy(c);
}

/* A collector of whims: takes a batch or not, answers or not, is busy, fails inside, or refuses for
 * good. What was refused for good is known by its number. */
struct moody {
    uint64_t random;
    uint64_t refused;   /* bits of numbers */
    unsigned taken[40]; /* times, by number */
};

static int be_moody(void *ctx, const void *p, size_t n)
{
    struct moody *m = ctx;
    unsigned number = ((const uint8_t *)p)[n - 1], mood;

    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    mood = (unsigned)(m->random % 16);
    if (m->refused >> number & 1 || number % 11 == 5) {
        m->refused |= 1ull << number;
        return RPC_OUT_OF_RANGE;
    }
    if (mood == 0) {
        return INGEST_IGNORE;
    }
    m->taken[number] += mood <= 1 || mood > 5;
    return mood == 1   ? INGEST_TAKE
           : mood == 2 ? (int)RPC_RESOURCE_EXHAUSTED
           : mood == 3 ? (int)RPC_INTERNAL
           : mood == 4 ? (int)RPC_UNAVAILABLE
           : mood == 5 ? (int)RPC_FAILED_PRECONDITION
                       : INGEST_ANSWER;
}

/* The collector fails what it holds unanswered. */
static void free_unheard(struct ingest *c)
{
    while (ingest_unheard(c) > 0) {
        ingest_fail(c);
    }
}

/* Answers that do not come end the connection at the second in a row, so there are breaks too. */
static void whatever_a_collector_does_each_batch_ends_taken_or_set_aside(void **state)
{
    for (unsigned seed = 1; seed <= 6; seed++) {
        struct moody m = {.random = seed * 0x9e3779b97f4a7c15u};
        struct ingest *c = ingest_create(link_tls.server);
        struct link *l = link_new(c);
        struct uplink_status s;
        unsigned refused = 0;

        c->hello.max_in_flight = 1 + seed % 4;
        c->decide = be_moody;
        c->ctx = &m;
        l->conf.call_ns = 60 * CLK_MS;
        for (uint64_t seq = 1; seq < COUNT_OF(m.taken); seq++) {
            char text[2] = {'x', (char)seq};

            assert_ok(queue_put(l->queue, seq, text, sizeof text, true));
        }
        link_start(l);
        queue_close(l->queue);
        for (uplink_status(l->uplink, &s); !s.drained; uplink_status(l->uplink, &s)) {
            os_sleep_ns(150 * CLK_MS);
            free_unheard(c); /* most of them too late for anybody to hear */
        }
        for (unsigned i = 1; i < COUNT_OF(m.taken); i++) {
            refused += (unsigned)(m.refused >> i & 1);
            if (!(m.refused >> i & 1) && m.taken[i] == 0) {
                fail_msg("seed %u: batch %u was neither taken nor refused", seed, i);
            }
        }
        assert_int_equal(s.quarantined, refused);
        assert_int_equal(s.acknowledged + s.quarantined, COUNT_OF(m.taken) - 1);
        assert_int_equal(s.taken, COUNT_OF(m.taken) - 1);
        assert_int_equal(s.held, 0);
        link_free(l);
        ingest_destroy(c);
    }
}

/* A connection that has gone silent is given up for a new one. */
static void two_answers_that_do_not_come_end_the_connection(void **state)
{
    struct ingest *c = ingest_create(link_tls.server);
    struct link *l = link_new(c);

    l->conf.call_ns = 50 * CLK_MS;
    c->silent_hellos = 2;
    link_put(l, 1, "a");
    link_start(l);
    assert_int_equal(link_drain(l).acknowledged, 1);
    link_free(l);
    ingest_stop(c); /* what it remembers is ours now */
    assert_int_equal(c->connections, 2);
    ingest_destroy(c);
}

/* A collector that says it takes more than it does: the connection breaks under each large batch,
 * as it does under every batch where a relay or the collector's store is broken. */
static struct ingest *fragile_create(void)
{
    struct ingest *c = ingest_create(link_tls.server);

    ingest_stop(c);
    c->receive_max = 4096;
    ingest_listen(c, "127.0.0.1:0");
    return c;
}

static void repair(struct ingest *c, struct link *l)
{
    ingest_stop(c);
    c->receive_max = 0;
    ingest_listen(c, l->addresses[0]);
}

static void put_large(struct link *l, uint64_t seq)
{
    static char large[9000];

    memset(large, 'x', sizeof large);
    assert_ok(queue_put(l->queue, seq, large, sizeof large, true));
}

static unsigned count_hellos(struct ingest *c)
{
    unsigned n;

    os_mutex_lock(c->lock);
    n = c->hellos;
    os_mutex_unlock(c->lock);
    return n;
}

/* Until the collector has been greeted so often; gives the state of then. */
static struct uplink_status wait_for_hellos(struct link *l, struct ingest *c, unsigned n)
{
    int64_t end_ns = os_mono_ns() + LINK_LONG_NS;
    struct uplink_status s;

    while (count_hellos(c) < n) {
        uplink_status(l->uplink, &s);
        assert_true(s.quarantined == 0 && os_mono_ns() < end_ns);
        os_sleep_ns(2 * CLK_MS);
    }
    uplink_status(l->uplink, &s);
    return s;
}

/* Nothing else to send, an answered Hello, an answered Heartbeat: none of it says that a batch is
 * to blame. */
static void a_collector_that_breaks_under_every_batch_gets_them_all_once_it_is_mended(void **state)
{
    for (unsigned n = 1; n <= 12; n += 11) { /* fewer and more than there are hands */
        struct ingest *c = fragile_create();
        struct link *l = link_new(c);
        struct uplink_status s;

        l->conf.heartbeat_ns = 20 * CLK_MS;
        l->conf.pause_max_ns = 50 * CLK_MS;
        l->conf.doubt_ns = CLK_MS;
        for (unsigned i = 1; i <= n; i++) {
            put_large(l, i);
        }
        link_start(l);
        s = wait_for_hellos(l, c, 14);
        assert_int_equal(s.state, UPLINK_FAILING);
        assert_non_null(strstr(s.why, "before a batch was acknowledged"));
        assert_int_equal(s.quarantined, 0);
        repair(c, l);
        s = link_drain(l);
        assert_int_equal(s.acknowledged, n);
        assert_int_equal(s.quarantined, 0);
        assert_int_equal(s.state, UPLINK_CONNECTED);
        link_free(l);
        ingest_destroy(c);
    }
}

static bool is_failing(const struct uplink_status *s)
{
    return s->state == UPLINK_FAILING;
}

/* Hello is accepted each time, no batch is answered. */
static void a_state_that_lasts_is_told_once(void **state)
{
    struct ingest *c = ingest_create(link_tls.server);
    struct link *l = link_new(c);
    int64_t end_ns = os_mono_ns() + LINK_LONG_NS;
    struct uplink_status first, s;
    unsigned breaks = 0;

    l->conf.call_ns = 50 * CLK_MS;
    l->conf.pause_max_ns = 50 * CLK_MS;
    c->mute = INGEST_IGNORE;
    link_put(l, 1, "a");
    link_start(l);
    first = link_wait(l, is_failing);
    assert_non_null(strstr(first.why, "before a batch was acknowledged (timed out)"));
    for (s = first; s.breaks < 8; uplink_status(l->uplink, &s)) {
        assert_true(s.state == UPLINK_FAILING && os_mono_ns() < end_ns);
        if (s.breaks > breaks) {
            breaks = s.breaks;
            free_unheard(c); /* too late for anybody to hear */
        }
        os_sleep_ns(2 * CLK_MS);
    }
    assert_true(s.since_ns == first.since_ns);
    link_free(l);
    ingest_destroy(c);
}

/* Batches that the collector holds unanswered fill what it allows one agent at once: it answers
 * Hello, but as busy. That is not unreachable, and a new connection would only fill the next. */
static void a_collector_that_holds_batches_unanswered_is_failing_until_it_answers(void **state)
{
    struct ingest *c = ingest_create(link_tls.server);
    struct link *l = link_new(c);
    struct uplink_status s;

    l->conf.call_ns = 500 * CLK_MS;
    c->hello.max_in_flight = 4;
    c->mute = INGEST_IGNORE;
    for (uint64_t seq = 1; seq <= 4; seq++) {
        link_put(l, seq, "a");
    }
    link_start(l);
    s = link_wait(l, is_failing);
    assert_non_null(strstr(s.why, "the collector says RESOURCE_EXHAUSTED: too many requests wait"));
    assert_int_equal(ingest_unheard(c), 4);
    os_mutex_lock(c->lock);
    c->mute = INGEST_ANSWER;
    os_mutex_unlock(c->lock);
    free_unheard(c);
    s = link_drain(l);
    assert_int_equal(s.acknowledged, 4);
    assert_int_equal(s.state, UPLINK_CONNECTED);
    link_free(l);
    ingest_stop(c); /* what it remembers is ours now */
    assert_int_equal(c->connections, 1);
    ingest_destroy(c);
}

/* Each pause is at least as long as its bound before the last doubling; TLS and Hello succeed each
 * time. */
static void pauses_grow_while_no_batch_gets_through(void **state)
{
    struct ingest *c = fragile_create();
    struct link *l = link_new(c);
    int64_t at_ns[5], least_ns = 100 * CLK_MS;

    put_large(l, 1);
    link_start(l);
    for (unsigned i = 0; i < COUNT_OF(at_ns); i++) {
        (void)wait_for_hellos(l, c, i + 1);
        at_ns[i] = os_mono_ns();
    }
    for (unsigned i = 1; i < COUNT_OF(at_ns); i++, least_ns *= 2) {
        assert_true(at_ns[i] - at_ns[i - 1] >= least_ns - 50 * CLK_MS);
    }
    link_free(l);
    ingest_destroy(c);
}

/* A small batch gets through right before each failure of the large one: that is its fault. */
static void a_batch_that_breaks_connections_while_others_get_through_is_set_aside(void **state)
{
    struct ingest *c = fragile_create();
    struct link *l = link_new(c);
    struct uplink_status s;
    uint64_t seq = 0, resent = 0;

    l->conf.pause_max_ns = 50 * CLK_MS;
    l->conf.doubt_ns = CLK_MS;
    link_put(l, ++seq, "a");
    put_large(l, ++seq);
    link_start(l);
    for (uplink_status(l->uplink, &s); s.quarantined == 0; uplink_status(l->uplink, &s)) {
        if (s.acknowledged == seq - 1 && s.resent > resent) { /* the large one has failed again */
            assert_true(seq < 60);
            resent = s.resent;
            link_put(l, ++seq, "b");
        }
        os_sleep_ns(2 * CLK_MS);
    }
    s = link_drain(l);
    assert_int_equal(s.acknowledged, seq - 1);
    assert_int_equal(s.quarantined, 1);
    assert_in_range(s.resent, 8, 60);
    assert_non_null(strstr(s.why, "connection broke under this batch"));
    link_free(l);
    ingest_destroy(c);
}

/* The same, but it has not gone on for long enough. */
static void what_may_be_bad_luck_is_given_time(void **state)
{
    struct ingest *c = fragile_create();
    struct link *l = link_new(c);
    struct uplink_status s;
    uint64_t seq = 0, resent = 0;

    l->conf.pause_max_ns = 20 * CLK_MS;
    l->conf.doubt_ns = LINK_LONG_NS;
    put_large(l, ++seq);
    link_start(l);
    do {
        uplink_status(l->uplink, &s);
        if (s.acknowledged == seq - 1 && s.resent > resent) {
            resent = s.resent;
            link_put(l, ++seq, "b");
        }
        os_sleep_ns(2 * CLK_MS);
    } while (s.resent < 12);
    assert_int_equal(s.quarantined, 0);
    repair(c, l);
    assert_int_equal(link_drain(l).acknowledged, seq);
    link_free(l);
    ingest_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_collector_that_is_restarted_often_costs_no_batch),
        cmocka_unit_test(whatever_a_collector_does_each_batch_ends_taken_or_set_aside),
        cmocka_unit_test(two_answers_that_do_not_come_end_the_connection),
        cmocka_unit_test(a_collector_that_breaks_under_every_batch_gets_them_all_once_it_is_mended),
        cmocka_unit_test(a_state_that_lasts_is_told_once),
        cmocka_unit_test(a_collector_that_holds_batches_unanswered_is_failing_until_it_answers),
        cmocka_unit_test(pauses_grow_while_no_batch_gets_through),
        cmocka_unit_test(a_batch_that_breaks_connections_while_others_get_through_is_set_aside),
        cmocka_unit_test(what_may_be_bad_luck_is_given_time),
    };

    return cmocka_run_group_tests(tests, link_set_up, link_tear_down);
}
