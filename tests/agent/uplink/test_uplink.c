/* The uplink against a collector's ingest listener: real sockets, TLS and calls, scripted answers.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/agent/uplink/link.h"
#include "tests/support/t.h"

static bool is_unreachable(const struct uplink_status *s)
{
    return s->state == UPLINK_UNREACHABLE;
}

static bool has_beaten(const struct uplink_status *s)
{
    return s->heartbeats > 0;
}

static void batches_arrive_in_order_and_leave_the_queue(void **state)
{
    struct ingest *c = ingest_create(link_tls.server);
    struct link *l = link_new(c);
    struct uplink_status s;

    link_put(l, 1, "a");
    link_put(l, 2, "b");
    link_start(l);
    link_put(l, 3, "c");
    s = link_drain(l);
    link_check_got(c, "abc");
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

    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        struct ingest *c = ingest_create(link_tls.server);
        struct link *l = link_new(c);
        struct uplink_status s;

        c->refuse = codes[i];
        c->refuse_first = 'b';
        c->refuse_times = 2;
        link_put(l, 1, "a");
        link_put(l, 2, "b");
        link_put(l, 3, "c");
        link_start(l);
        s = link_drain(l);
        /* who may be the cause itself lets others go first */
        link_check_got(c, uplink_waits(codes[i]) ? "abc" : "acb");
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

    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        struct ingest *c = ingest_create(link_tls.server);
        struct link *l = link_new(c);
        struct uplink_status s;

        c->refuse = codes[i];
        c->refuse_first = 'b';
        c->refuse_times = 100;
        link_put(l, 1, "a");
        link_put(l, 2, "b");
        link_put(l, 3, "c");
        link_start(l);
        s = link_drain(l);
        link_check_got(c, "ac");
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
    struct ingest *c = ingest_create(link_tls.server);
    struct link *l = link_new(c);

    c->hello.last_seq = 2;
    link_put(l, 1, "a");
    link_put(l, 2, "b");
    link_put(l, 3, "c");
    link_start(l);
    assert_int_equal(link_drain(l).acknowledged, 3);
    link_check_got(c, "c");
    link_free(l);
    ingest_destroy(c);
}

static void a_batch_over_the_collectors_limit_is_set_aside(void **state)
{
    struct ingest *c = ingest_create(link_tls.server);
    struct link *l = link_new(c);

    c->hello.max_message = 3;
    link_put(l, 1, "abcd");
    link_put(l, 2, "b");
    link_start(l);
    assert_int_equal(link_drain(l).quarantined, 1);
    link_check_got(c, "b");
    assert_int_equal(l->limit, 3);
    link_free(l);
    ingest_destroy(c);
}

static void silence_is_filled_with_heartbeats(void **state)
{
    struct ingest *c = ingest_create(link_tls.server);
    struct link *l = link_new(c);

    l->conf.heartbeat_ns = 5 * CLK_MS;
    link_start(l);
    (void)link_wait(l, has_beaten);
    link_free(l);
    assert_true(c->beats > 0);
    ingest_destroy(c);
}

/* A batch that the queue does not take has had its number. */
static void a_heartbeat_tells_the_next_number_also_after_a_refused_batch(void **state)
{
    struct ingest *c = ingest_create(link_tls.server);
    struct link *l = link_new(c);
    static const char huge[2 << 20];

    link_put(l, 1, "a");
    assert_err(queue_put(l->queue, 2, huge, sizeof huge, true), ERR_FULL);
    l->conf.heartbeat_ns = 5 * CLK_MS;
    link_start(l);
    (void)link_wait(l, has_beaten);
    link_free(l);
    assert_int_equal(c->next_seq, 3);
    ingest_destroy(c);
}

static void wait_unheard(struct ingest *c, size_t n)
{
    int64_t end_ns = os_mono_ns() + LINK_LONG_NS;

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

    for (size_t i = 0; i < COUNT_OF(allowed); i++) {
        size_t want = allowed[i] == 0 ? 1 : allowed[i] > 4 ? 4 : allowed[i];
        struct ingest *c = ingest_create(link_tls.server);
        struct link *l = link_new(c);

        c->hello.max_in_flight = allowed[i];
        c->mute = INGEST_TAKE;
        for (uint64_t seq = 1; seq <= 12; seq++) {
            link_put(l, seq, "x");
        }
        link_start(l);
        for (size_t left = 12; left > 0; left--) {
            wait_unheard(c, left < want ? left : want);
            os_sleep_ns(2 * CLK_MS); /* time for one too many */
            assert_int_equal(ingest_unheard(c), left < want ? left : want);
            ingest_answer(c); /* the newest first */
        }
        assert_int_equal(link_drain(l).acknowledged, 12);
        assert_int_equal(c->n_got, 12);
        link_free(l);
        ingest_destroy(c);
    }
}

static void a_busy_collector_is_left_alone_for_as_long_as_it_says(void **state)
{
    struct ingest *c = ingest_create(link_tls.server);
    struct link *l = link_new(c);

    c->refuse = RPC_RESOURCE_EXHAUSTED;
    c->refuse_first = 'a';
    c->refuse_times = 1;
    c->retry_after_ms = 300;
    link_put(l, 1, "a");
    link_start(l);
    assert_int_equal(link_drain(l).acknowledged, 1);
    assert_in_range(c->answered_ns - c->refused_ns, 300 * CLK_MS, LINK_LONG_NS);
    link_free(l);
    ingest_destroy(c);
}

static void each_exchange_tells_how_long_the_last_one_took(void **state)
{
    struct ingest *c = ingest_create(link_tls.server);
    struct link *l = link_new(c);

    l->conf.heartbeat_ns = 5 * CLK_MS;
    c->hello.received_ns = 1;
    link_start(l);
    (void)link_wait(l, has_beaten);
    link_free(l);
    ingest_stop(c);
    assert_int_equal(c->said.last_mono_ns, 0);
    assert_int_equal(c->said.last_rtt_ns, 0);
    assert_true(c->beat.last_mono_ns >= c->said.mono_ns);
    assert_true(c->beat.last_mono_ns < c->beat.mono_ns);
    assert_in_range(c->beat.last_rtt_ns, 1, LINK_LONG_NS);
    ingest_destroy(c);
}

/* A collector that takes a batch and never answers; a call may take ten seconds. */
static void stopping_does_not_wait_for_a_call_beyond_its_moment(void **state)
{
    struct ingest *c = ingest_create(link_tls.server);
    struct link *l = link_new(c);
    int64_t begun_ns;

    c->mute = INGEST_IGNORE;
    link_put(l, 1, "a");
    link_start(l);
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

static void the_next_address_is_tried(void **state)
{
    struct ingest *dead = ingest_create(link_tls.server), *c = ingest_create(link_tls.server);
    struct link *l = link_new(dead);

    (void)snprintf(l->addresses[1], sizeof l->addresses[1], "127.0.0.1:%u", ingest_port(c));
    l->conf.n_addresses = 2;
    ingest_destroy(dead);
    link_put(l, 1, "a");
    link_start(l);
    assert_int_equal(link_drain(l).acknowledged, 1);
    link_check_got(c, "a");
    link_free(l);
    ingest_destroy(c);
}

static bool acknowledged_two(const struct uplink_status *s)
{
    return s->acknowledged == 2;
}

static void set_full(struct ingest *c, unsigned times)
{
    os_mutex_lock(c->lock);
    c->full = times;
    os_mutex_unlock(c->lock);
}

static unsigned hellos_of(struct ingest *c)
{
    unsigned n;

    os_mutex_lock(c->lock);
    n = c->hellos;
    os_mutex_unlock(c->lock);
    return n;
}

static void a_full_collector_is_left_for_the_next_and_tried_again_later(void **state)
{
    struct ingest *c[2] = {ingest_create(link_tls.server), ingest_create(link_tls.server)};
    struct link *l = link_new(c[0]);
    unsigned said;

    (void)snprintf(l->addresses[1], sizeof l->addresses[1], "127.0.0.1:%u", ingest_port(c[1]));
    l->conf.n_addresses = 2;
    l->conf.heartbeat_ns = 10 * CLK_MS;
    l->conf.home_ns = 300 * CLK_MS;
    set_full(c[0], 1000);
    set_full(c[1], 1); /* all are full: a pause, then again */
    link_put(l, 1, "a");
    link_start(l);
    (void)link_wait(l, link_acknowledged);
    link_check_got(c[1], "a");
    set_full(c[0], 0);
    for (said = hellos_of(c[0]); hellos_of(c[0]) == said;) {
        os_sleep_ns(2 * CLK_MS);
    }
    link_put(l, 2, "b");
    (void)link_wait(l, acknowledged_two);
    link_check_got(c[0], "b");
    link_check_got(c[1], "a");
    link_free(l);
    ingest_destroy(c[0]);
    ingest_destroy(c[1]);
}

/* One batch of each of these hosts; which of the two collectors took it. */
static void put_spread(struct ingest *c[2], bool swapped, char *took, uint8_t n)
{
    for (uint8_t host = 0; host < n; host++) {
        struct link *l = link_new(c[swapped]);
        size_t before = c[0]->n_got;

        (void)snprintf(l->addresses[1], sizeof l->addresses[1], "127.0.0.1:%u",
                       ingest_port(c[!swapped]));
        l->conf.n_addresses = 2;
        l->conf.spread = true;
        l->conf.hello.host.b[0] = host;
        link_put(l, 1, "a");
        link_start(l);
        assert_int_equal(link_drain(l).acknowledged, 1);
        took[host] = c[0]->n_got > before ? 'a' : 'b';
        link_free(l);
    }
}

static void spread_divides_hosts_by_who_they_are(void **state)
{
    struct ingest *c[2] = {ingest_create(link_tls.server), ingest_create(link_tls.server)};
    char took[2][16];

    put_spread(c, false, took[0], 16);
    put_spread(c, true, took[1], 4);
    assert_memory_equal(took[0], took[1], 4);
    assert_non_null(memchr(took[0], 'a', sizeof took[0])); /* by chance: once in 32,000 */
    assert_non_null(memchr(took[0], 'b', sizeof took[0]));
    ingest_destroy(c[0]);
    ingest_destroy(c[1]);
}

static void a_restarted_collector_gets_the_rest(void **state)
{
    struct ingest *c = ingest_create(link_tls.server);
    struct link *l = link_new(c);

    link_put(l, 1, "a");
    link_start(l);
    (void)link_wait(l, link_acknowledged);
    ingest_stop(c);
    assert_non_null(strstr(link_wait(l, is_unreachable).why, "collector.addresses"));
    link_put(l, 2, "b");
    ingest_listen(c, l->addresses[0]);
    assert_int_equal(link_drain(l).acknowledged, 2);
    link_check_got(c, "ab");
    assert_true(c->hellos >= 2);
    link_free(l);
    ingest_destroy(c);
}

static void a_stranger_is_told_so_with_a_remedy(void **state)
{
    struct ingest *c = ingest_create(link_tls.server);
    struct link *l = link_new(c);
    struct uplink_status s;

    l->conf.tls = link_tls.stranger;
    link_put(l, 1, "a");
    link_start(l);
    s = link_wait(l, link_refused);
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
    struct ingest *c = ingest_create(link_tls.server);
    struct link *l = link_new(c);
    int64_t end_ns;

    wait_of_queue = l->conf.outbox.wait;
    l->conf.outbox.wait = wait_counted;
    l->conf.tls = link_tls.stranger;
    link_start(l);
    (void)link_wait(l, link_refused);
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
    struct ingest *c = ingest_create(link_tls.server);
    struct link *l = link_new(c);
    struct uplink_status s;

    c->clones = 2;
    link_put(l, 1, "a");
    link_start(l);
    s = link_wait(l, link_refused);
    assert_string_equal(
        s.why,
        "the collector says FAILED_PRECONDITION: another machine is agent: run procfleet-agent "
        "enroll --force");
    assert_int_equal(s.quarantined, 0);
    s = link_wait(l, link_acknowledged); /* once it is taken for the host again */
    assert_int_equal(s.state, UPLINK_CONNECTED);
    link_check_got(c, "a");
    link_free(l);
    ingest_destroy(c);
}

static bool has_acknowledged_four(const struct uplink_status *s)
{
    return s->acknowledged >= 4;
}

static void a_new_certificate_begins_a_new_connection(void **state)
{
    struct ingest *c = ingest_create(link_tls.server);
    struct link *l = link_new(c);
    struct uplink_status s;
    int64_t end_ns = os_mono_ns() + LINK_LONG_NS;
    unsigned hellos = 0;

    link_put(l, 1, "a");
    link_put(l, 2, "b");
    link_start(l);
    (void)link_wait(l, link_acknowledged);
    uplink_refresh(l->uplink); /* perhaps under way: it waits for that */
    link_put(l, 3, "c");
    link_put(l, 4, "d");
    s = link_wait(l, has_acknowledged_four);
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
    struct ingest *c = ingest_create(link_tls.server);
    struct link *l = link_new(c);
    struct errmsg why = {""};
    long n = 0;

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
        cmocka_unit_test(the_next_address_is_tried),
        cmocka_unit_test(a_full_collector_is_left_for_the_next_and_tried_again_later),
        cmocka_unit_test(spread_divides_hosts_by_who_they_are),
        cmocka_unit_test(a_restarted_collector_gets_the_rest),
        cmocka_unit_test(a_stranger_is_told_so_with_a_remedy),
        cmocka_unit_test(who_is_refused_waits_for_a_moment_to_come),
        cmocka_unit_test(a_clone_keeps_its_batches_and_says_what_to_do),
        cmocka_unit_test(a_new_certificate_begins_a_new_connection),
        cmocka_unit_test(starting_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, link_set_up, link_tear_down);
}
