/* The uplink against a collector's ingest listener: real sockets, TLS and calls, scripted answers.
 */
#include "tests/support/t.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "agent/spool/queue.h"
#include "agent/uplink/uplink.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/certs.h"
#include "tests/support/ingest.h"

#define LONG_NS (30 * CLK_S)

static struct certs *pki, *other_pki;
static struct net_tls *server_tls, *agent_tls, *stranger_tls;

/* -- the uplink under test -- */

struct link {
    struct queue *queue;
    struct uplink *uplink;
    size_t limit;
    char addresses[2][32];
    const char *list[2];
    struct uplink_conf conf;
};

static void on_limit(void *ctx, size_t bytes)
{
    ((struct link *)ctx)->limit = bytes;
}

static struct link *link_new(const struct ingest *c)
{
    struct link *l = mem_zalloc(sizeof *l);

    assert_non_null(l);
    assert_ok(queue_create(&l->queue, 1 << 20));
    (void)snprintf(l->addresses[0], sizeof l->addresses[0], "127.0.0.1:%u", ingest_port(c));
    l->list[0] = l->addresses[0];
    l->list[1] = l->addresses[1];
    l->conf = (struct uplink_conf){.outbox = queue_outbox(l->queue, 9),
                                   .tls = agent_tls,
                                   .addresses = l->list,
                                   .n_addresses = 1,
                                   .heartbeat_ns = LONG_NS,
                                   .limit = on_limit,
                                   .ctx = l};
    return l;
}

static void start(struct link *l)
{
    struct errmsg why = {""};

    if (uplink_start(&l->uplink, &l->conf, &why)) {
        fail_msg("%s", why.text);
    }
}

static void put(struct link *l, uint64_t seq, const char *text)
{
    assert_ok(queue_put(l->queue, seq, text, strlen(text), true));
}

/* Until `reached` says so; the time limit only ends a test that has failed. */
static struct uplink_status wait_for(struct link *l, bool (*reached)(const struct uplink_status *))
{
    int64_t end_ns = os_mono_ns() + LONG_NS;
    struct uplink_status s;

    for (uplink_status(l->uplink, &s); !reached(&s); uplink_status(l->uplink, &s)) {
        assert_true(os_mono_ns() < end_ns);
        os_sleep_ns(2 * CLK_MS);
    }
    return s;
}

static bool is_drained(const struct uplink_status *s)
{
    return s->drained;
}

static bool is_refused(const struct uplink_status *s)
{
    return s->state == UPLINK_REFUSED;
}

static bool is_unreachable(const struct uplink_status *s)
{
    return s->state == UPLINK_UNREACHABLE;
}

static bool has_acknowledged(const struct uplink_status *s)
{
    return s->acknowledged > 0;
}

static bool has_beaten(const struct uplink_status *s)
{
    return s->heartbeats > 0;
}

static struct uplink_status drain(struct link *l)
{
    queue_close(l->queue);
    return wait_for(l, is_drained);
}

static void link_free(struct link *l)
{
    queue_close(l->queue);
    uplink_stop(l->uplink, 0);
    queue_destroy(l->queue);
    mem_free(l);
}

static void check_got(struct ingest *c, const char *want)
{
    os_mutex_lock(c->lock);
    c->got[c->n_got] = '\0';
    os_mutex_unlock(c->lock);
    assert_string_equal(c->got, want);
}

static void batches_arrive_in_order_and_leave_the_queue(void **state)
{
    struct ingest *c = ingest_create(server_tls);
    struct link *l = link_new(c);
    struct uplink_status s;

    (void)state;
    put(l, 1, "a");
    put(l, 2, "b");
    start(l);
    put(l, 3, "c");
    s = drain(l);
    check_got(c, "abc");
    assert_int_equal(s.acknowledged, 3);
    assert_int_equal(s.state, UPLINK_CONNECTED);
    assert_int_equal(l->limit, 1 << 20);
    link_free(l);
    ingest_destroy(c);
}

static bool uplink_waits(enum rpc_code code)
{
    return code == RPC_RESOURCE_EXHAUSTED || code == RPC_UNAVAILABLE;
}

static void a_busy_collector_is_asked_again(void **state)
{
    static const enum rpc_code codes[] = {RPC_RESOURCE_EXHAUSTED, RPC_UNAVAILABLE, RPC_INTERNAL,
                                          RPC_FAILED_PRECONDITION};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        struct ingest *c = ingest_create(server_tls);
        struct link *l = link_new(c);
        struct uplink_status s;

        c->refuse = codes[i];
        c->refuse_first = 'b';
        c->refuse_times = 2;
        put(l, 1, "a");
        put(l, 2, "b");
        put(l, 3, "c");
        start(l);
        s = drain(l);
        /* who may be the cause itself lets others go first */
        check_got(c, uplink_waits(codes[i]) ? "abc" : "acb");
        assert_int_equal(s.resent, 2);
        assert_int_equal(s.quarantined, 0);
        link_free(l);
        ingest_destroy(c);
    }
}

static void a_refused_batch_is_set_aside_and_the_next_goes_on(void **state)
{
    static const enum rpc_code codes[] = {RPC_INVALID_ARGUMENT, RPC_PERMISSION_DENIED,
                                          RPC_OUT_OF_RANGE};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        struct ingest *c = ingest_create(server_tls);
        struct link *l = link_new(c);
        struct uplink_status s;

        c->refuse = codes[i];
        c->refuse_first = 'b';
        c->refuse_times = 100;
        put(l, 1, "a");
        put(l, 2, "b");
        put(l, 3, "c");
        start(l);
        s = drain(l);
        check_got(c, "ac");
        assert_int_equal(s.acknowledged, 2);
        assert_int_equal(s.quarantined, 1);
        assert_non_null(strstr(s.why, "no b"));
        assert_int_equal(c->refuse_times, 99);
        link_free(l);
        ingest_destroy(c);
    }
}

static void what_is_stored_already_is_acknowledged_without_sending(void **state)
{
    struct ingest *c = ingest_create(server_tls);
    struct link *l = link_new(c);

    (void)state;
    c->hello.last_seq = 2;
    put(l, 1, "a");
    put(l, 2, "b");
    put(l, 3, "c");
    start(l);
    assert_int_equal(drain(l).acknowledged, 3);
    check_got(c, "c");
    link_free(l);
    ingest_destroy(c);
}

static void a_batch_over_the_collectors_limit_is_set_aside(void **state)
{
    struct ingest *c = ingest_create(server_tls);
    struct link *l = link_new(c);

    (void)state;
    c->hello.max_message = 3;
    put(l, 1, "abcd");
    put(l, 2, "b");
    start(l);
    assert_int_equal(drain(l).quarantined, 1);
    check_got(c, "b");
    assert_int_equal(l->limit, 3);
    link_free(l);
    ingest_destroy(c);
}

static void silence_is_filled_with_heartbeats(void **state)
{
    struct ingest *c = ingest_create(server_tls);
    struct link *l = link_new(c);

    (void)state;
    l->conf.heartbeat_ns = 5 * CLK_MS;
    start(l);
    (void)wait_for(l, has_beaten);
    link_free(l);
    assert_true(c->beats > 0);
    ingest_destroy(c);
}

/* A batch that the queue does not take has had its number. */
static void a_heartbeat_tells_the_next_number_also_after_a_refused_batch(void **state)
{
    struct ingest *c = ingest_create(server_tls);
    struct link *l = link_new(c);
    static const char huge[2 << 20];

    (void)state;
    put(l, 1, "a");
    assert_err(queue_put(l->queue, 2, huge, sizeof huge, true), ERR_FULL);
    l->conf.heartbeat_ns = 5 * CLK_MS;
    start(l);
    (void)wait_for(l, has_beaten);
    link_free(l);
    assert_int_equal(c->next_seq, 3);
    ingest_destroy(c);
}

static void wait_unheard(struct ingest *c, size_t n)
{
    int64_t end_ns = os_mono_ns() + LONG_NS;

    while (ingest_unheard(c) < n) {
        if (os_mono_ns() >= end_ns) {
            fail_msg("%zu pushes are under way, not %zu", ingest_unheard(c), n);
        }
        os_sleep_ns(CLK_MS);
    }
}

/* As many as the collector allows, and no more; their answers come in any order. */
static void several_batches_are_under_way(void **state)
{
    static const uint32_t allowed[] = {0, 1, 2, 4, 9};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(allowed); i++) {
        size_t want = allowed[i] == 0 ? 1 : allowed[i] > 4 ? 4 : allowed[i];
        struct ingest *c = ingest_create(server_tls);
        struct link *l = link_new(c);

        c->hello.max_in_flight = allowed[i];
        c->mute = INGEST_TAKE;
        for (uint64_t seq = 1; seq <= 12; seq++) {
            put(l, seq, "x");
        }
        start(l);
        for (size_t left = 12; left > 0; left--) {
            wait_unheard(c, left < want ? left : want);
            os_sleep_ns(2 * CLK_MS); /* time for one too many */
            assert_int_equal(ingest_unheard(c), left < want ? left : want);
            ingest_answer(c); /* the newest first */
        }
        assert_int_equal(drain(l).acknowledged, 12);
        assert_int_equal(c->n_got, 12);
        link_free(l);
        ingest_destroy(c);
    }
}

static void a_busy_collector_is_left_alone_for_as_long_as_it_says(void **state)
{
    struct ingest *c = ingest_create(server_tls);
    struct link *l = link_new(c);

    (void)state;
    c->refuse = RPC_RESOURCE_EXHAUSTED;
    c->refuse_first = 'a';
    c->refuse_times = 1;
    c->retry_after_ms = 300;
    put(l, 1, "a");
    start(l);
    assert_int_equal(drain(l).acknowledged, 1);
    assert_in_range(c->answered_ns - c->refused_ns, 300 * CLK_MS, LONG_NS);
    link_free(l);
    ingest_destroy(c);
}

static void each_exchange_tells_how_long_the_last_one_took(void **state)
{
    struct ingest *c = ingest_create(server_tls);
    struct link *l = link_new(c);

    (void)state;
    l->conf.heartbeat_ns = 5 * CLK_MS;
    c->hello.received_ns = 1;
    start(l);
    (void)wait_for(l, has_beaten);
    link_free(l);
    ingest_stop(c);
    assert_int_equal(c->said.last_mono_ns, 0);
    assert_int_equal(c->said.last_rtt_ns, 0);
    assert_true(c->beat.last_mono_ns >= c->said.mono_ns);
    assert_true(c->beat.last_mono_ns < c->beat.mono_ns);
    assert_in_range(c->beat.last_rtt_ns, 1, LONG_NS);
    ingest_destroy(c);
}

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
    struct ingest *c = ingest_create(server_tls);
    struct link *l = link_new(c);
    struct uplink_status s;
    unsigned restarts = 0;

    (void)state;
    c->hello.max_in_flight = 2;
    c->decide = break_often;
    c->ctx = &f;
    for (uint64_t seq = 1; seq <= 26; seq++) {
        put(l, seq, (char[]){(char)('a' + seq - 1), 0});
    }
    queue_close(l->queue);
    start(l);
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

/* Answers that do not come end the connection at the second in a row, so there are breaks too. */
static void whatever_a_collector_does_each_batch_ends_taken_or_set_aside(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 6; seed++) {
        struct moody m = {.random = seed * 0x9e3779b97f4a7c15u};
        struct ingest *c = ingest_create(server_tls);
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
        start(l);
        queue_close(l->queue);
        for (uplink_status(l->uplink, &s); !s.drained; uplink_status(l->uplink, &s)) {
            os_sleep_ns(150 * CLK_MS);
            while (ingest_unheard(c) > 0) {
                ingest_fail(c); /* most of them too late for anybody to hear */
            }
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
    struct ingest *c = ingest_create(server_tls);
    struct link *l = link_new(c);

    (void)state;
    l->conf.call_ns = 50 * CLK_MS;
    c->silent_hellos = 2;
    put(l, 1, "a");
    start(l);
    assert_int_equal(drain(l).acknowledged, 1);
    link_free(l);
    ingest_stop(c); /* what it remembers is ours now */
    assert_int_equal(c->connections, 2);
    ingest_destroy(c);
}

/* A collector that takes a batch and never answers; a call may take ten seconds. */
static void stopping_does_not_wait_for_a_call_beyond_its_moment(void **state)
{
    struct ingest *c = ingest_create(server_tls);
    struct link *l = link_new(c);
    int64_t begun_ns;

    (void)state;
    c->mute = INGEST_IGNORE;
    put(l, 1, "a");
    start(l);
    wait_unheard(c, 1);
    begun_ns = os_mono_ns();
    queue_close(l->queue);
    uplink_stop(l->uplink, begun_ns + 50 * CLK_MS);
    assert_true(os_mono_ns() - begun_ns >= 50 * CLK_MS);
    assert_true(os_mono_ns() - begun_ns < 5 * CLK_S);
    queue_destroy(l->queue);
    mem_free(l);
    ingest_destroy(c);
}

/* A collector that says it takes more than it does: the connection breaks under each large batch,
 * as it does under every batch where a relay or the collector's store is broken. */
static struct ingest *fragile_create(void)
{
    struct ingest *c = ingest_create(server_tls);

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
    int64_t end_ns = os_mono_ns() + LONG_NS;
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
    (void)state;
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
        start(l);
        s = wait_for_hellos(l, c, 14);
        assert_int_equal(s.state, UPLINK_FAILING);
        assert_non_null(strstr(s.why, "before a batch was acknowledged"));
        assert_int_equal(s.quarantined, 0);
        repair(c, l);
        s = drain(l);
        assert_int_equal(s.acknowledged, n);
        assert_int_equal(s.quarantined, 0);
        assert_int_equal(s.state, UPLINK_CONNECTED);
        link_free(l);
        ingest_destroy(c);
    }
}

/* Each pause is at least as long as its bound before the last doubling; TLS and Hello succeed each
 * time. */
static void pauses_grow_while_no_batch_gets_through(void **state)
{
    struct ingest *c = fragile_create();
    struct link *l = link_new(c);
    int64_t at_ns[5], least_ns = 100 * CLK_MS;

    (void)state;
    put_large(l, 1);
    start(l);
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

    (void)state;
    l->conf.pause_max_ns = 50 * CLK_MS;
    l->conf.doubt_ns = CLK_MS;
    put(l, ++seq, "a");
    put_large(l, ++seq);
    start(l);
    for (uplink_status(l->uplink, &s); s.quarantined == 0; uplink_status(l->uplink, &s)) {
        if (s.acknowledged == seq - 1 && s.resent > resent) { /* the large one has failed again */
            assert_true(seq < 60);
            resent = s.resent;
            put(l, ++seq, "b");
        }
        os_sleep_ns(2 * CLK_MS);
    }
    s = drain(l);
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

    (void)state;
    l->conf.pause_max_ns = 20 * CLK_MS;
    l->conf.doubt_ns = LONG_NS;
    put_large(l, ++seq);
    start(l);
    do {
        uplink_status(l->uplink, &s);
        if (s.acknowledged == seq - 1 && s.resent > resent) {
            resent = s.resent;
            put(l, ++seq, "b");
        }
        os_sleep_ns(2 * CLK_MS);
    } while (s.resent < 12);
    assert_int_equal(s.quarantined, 0);
    repair(c, l);
    assert_int_equal(drain(l).acknowledged, seq);
    link_free(l);
    ingest_destroy(c);
}

static void the_next_address_is_tried(void **state)
{
    struct ingest *dead = ingest_create(server_tls), *c = ingest_create(server_tls);
    struct link *l = link_new(dead);

    (void)state;
    (void)snprintf(l->addresses[1], sizeof l->addresses[1], "127.0.0.1:%u", ingest_port(c));
    l->conf.n_addresses = 2;
    ingest_destroy(dead);
    put(l, 1, "a");
    start(l);
    assert_int_equal(drain(l).acknowledged, 1);
    check_got(c, "a");
    link_free(l);
    ingest_destroy(c);
}

static void a_restarted_collector_gets_the_rest(void **state)
{
    struct ingest *c = ingest_create(server_tls);
    struct link *l = link_new(c);

    (void)state;
    put(l, 1, "a");
    start(l);
    (void)wait_for(l, has_acknowledged);
    ingest_stop(c);
    assert_non_null(strstr(wait_for(l, is_unreachable).why, "collector.addresses"));
    put(l, 2, "b");
    ingest_listen(c, l->addresses[0]);
    assert_int_equal(drain(l).acknowledged, 2);
    check_got(c, "ab");
    assert_true(c->hellos >= 2);
    link_free(l);
    ingest_destroy(c);
}

static void a_stranger_is_told_so_with_a_remedy(void **state)
{
    struct ingest *c = ingest_create(server_tls);
    struct link *l = link_new(c);
    struct uplink_status s;

    (void)state;
    l->conf.tls = stranger_tls;
    put(l, 1, "a");
    start(l);
    s = wait_for(l, is_refused);
    assert_non_null(strstr(s.why, "tls.ca"));
    assert_int_equal(s.acknowledged, 0);
    link_free(l);
    ingest_destroy(c);
}

/* How often the uplink's thread has waited, and the last moment it was to end by itself. */
static atomic_uint n_waits;
static atomic_llong waits_until_ns;
static void (*wait_of_queue)(void *ctx, int64_t until_ns);

static void wait_counted(void *ctx, int64_t until_ns)
{
    atomic_fetch_add(&n_waits, 1);
    atomic_store(&waits_until_ns, until_ns);
    wait_of_queue(ctx, until_ns);
}

/* Refused by TLS, which nothing changes for hours: the thread sleeps until somebody wakes it. */
static void who_is_refused_waits_for_a_moment_to_come(void **state)
{
    struct ingest *c = ingest_create(server_tls);
    struct link *l = link_new(c);
    int64_t end_ns;

    (void)state;
    wait_of_queue = l->conf.outbox.wait;
    l->conf.outbox.wait = wait_counted;
    l->conf.tls = stranger_tls;
    start(l);
    (void)wait_for(l, is_refused);
    end_ns = os_mono_ns() + 1500 * CLK_MS; /* its first look is after one second */
    while (os_mono_ns() < end_ns) {
        os_sleep_ns(10 * CLK_MS);
    }
    assert_in_range(atomic_load(&n_waits), 1, 100);
    assert_true(atomic_load(&waits_until_ns) > os_mono_ns());
    link_free(l);
    ingest_destroy(c);
}

static void a_clone_keeps_its_batches_and_says_what_to_do(void **state)
{
    struct ingest *c = ingest_create(server_tls);
    struct link *l = link_new(c);
    struct uplink_status s;

    (void)state;
    c->clones = 2;
    put(l, 1, "a");
    start(l);
    s = wait_for(l, is_refused);
    assert_string_equal(
        s.why,
        "the collector says FAILED_PRECONDITION: another machine is agent: run procfleet-agent "
        "enroll --force");
    assert_int_equal(s.quarantined, 0);
    s = wait_for(l, has_acknowledged); /* once it is taken for the host again */
    assert_int_equal(s.state, UPLINK_CONNECTED);
    check_got(c, "a");
    link_free(l);
    ingest_destroy(c);
}

static bool has_acknowledged_four(const struct uplink_status *s)
{
    return s->acknowledged >= 4;
}

static void a_new_certificate_begins_a_new_connection(void **state)
{
    struct ingest *c = ingest_create(server_tls);
    struct link *l = link_new(c);
    struct uplink_status s;
    int64_t end_ns = os_mono_ns() + LONG_NS;
    unsigned hellos = 0;

    (void)state;
    put(l, 1, "a");
    put(l, 2, "b");
    start(l);
    (void)wait_for(l, has_acknowledged);
    uplink_refresh(l->uplink); /* perhaps under way: it waits for that */
    put(l, 3, "c");
    put(l, 4, "d");
    s = wait_for(l, has_acknowledged_four);
    while (hellos < 2 && os_mono_ns() < end_ns) {
        os_mutex_lock(c->lock);
        hellos = c->hellos;
        os_mutex_unlock(c->lock);
        os_sleep_ns(2 * CLK_MS);
    }
    assert_int_equal(hellos, 2);
    assert_int_equal(s.duplicates + s.resent + s.quarantined, 0);
    link_free(l);
    ingest_destroy(c);
}

static void starting_survives_every_failing_allocation(void **state)
{
    struct ingest *c = ingest_create(server_tls);
    struct link *l = link_new(c);
    struct errmsg why = {""};
    long n = 0;

    (void)state;
    for (mem_fail_after(n); uplink_start(&l->uplink, &l->conf, &why); mem_fail_after(++n)) {
        assert_string_not_equal(why.text, "collector.addresses: ");
        why.text[0] = '\0';
        l->uplink = NULL;
        assert_true(n < 100);
    }
    mem_fail_after(-1);
    assert_true(n > 2);
    link_free(l);
    ingest_destroy(c);
}

static int set_up(void **state)
{
    struct errmsg why = {""};

    (void)state;
    if (net_init(&why)) {
        return -1;
    }
    pki = certs_create();
    other_pki = certs_create();
    certs_issue(pki, PKI_COLLECTOR, "collector");
    certs_issue(pki, PKI_AGENT, "host-1");
    certs_issue(other_pki, PKI_AGENT, "host-1");
    server_tls = certs_load(pki, "collector", pki, true);
    agent_tls = certs_load(pki, "host-1", pki, false);
    stranger_tls = certs_load(other_pki, "host-1", other_pki, false);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    net_tls_free(server_tls);
    net_tls_free(agent_tls);
    net_tls_free(stranger_tls);
    certs_destroy(pki);
    certs_destroy(other_pki);
    net_fini();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_arrive_in_order_and_leave_the_queue),
        cmocka_unit_test(a_busy_collector_is_asked_again),
        cmocka_unit_test(a_refused_batch_is_set_aside_and_the_next_goes_on),
        cmocka_unit_test(what_is_stored_already_is_acknowledged_without_sending),
        cmocka_unit_test(a_batch_over_the_collectors_limit_is_set_aside),
        cmocka_unit_test(silence_is_filled_with_heartbeats),
        cmocka_unit_test(a_heartbeat_tells_the_next_number_also_after_a_refused_batch),
        cmocka_unit_test(stopping_does_not_wait_for_a_call_beyond_its_moment),
        cmocka_unit_test(several_batches_are_under_way),
        cmocka_unit_test(a_busy_collector_is_left_alone_for_as_long_as_it_says),
        cmocka_unit_test(each_exchange_tells_how_long_the_last_one_took),
        cmocka_unit_test(a_collector_that_is_restarted_often_costs_no_batch),
        cmocka_unit_test(whatever_a_collector_does_each_batch_ends_taken_or_set_aside),
        cmocka_unit_test(two_answers_that_do_not_come_end_the_connection),
        cmocka_unit_test(a_collector_that_breaks_under_every_batch_gets_them_all_once_it_is_mended),
        cmocka_unit_test(pauses_grow_while_no_batch_gets_through),
        cmocka_unit_test(a_batch_that_breaks_connections_while_others_get_through_is_set_aside),
        cmocka_unit_test(what_may_be_bad_luck_is_given_time),
        cmocka_unit_test(the_next_address_is_tried),
        cmocka_unit_test(a_restarted_collector_gets_the_rest),
        cmocka_unit_test(a_stranger_is_told_so_with_a_remedy),
        cmocka_unit_test(who_is_refused_waits_for_a_moment_to_come),
        cmocka_unit_test(a_clone_keeps_its_batches_and_says_what_to_do),
        cmocka_unit_test(a_new_certificate_begins_a_new_connection),
        cmocka_unit_test(starting_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
