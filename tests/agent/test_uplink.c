/* The uplink against a collector's ingest listener: real sockets, TLS and calls, scripted answers.
 */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/uplink.h"
#include "common/clk.h"
#include "common/mem.h"
#include "common/os.h"
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
    l->conf = (struct uplink_conf){.queue = l->queue,
                                   .tls = agent_tls,
                                   .addresses = l->list,
                                   .n_addresses = 1,
                                   .heartbeat_ns = LONG_NS,
                                   .limit = on_limit,
                                   .ctx = l};
    l->conf.hello.stream = 9;
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
        check_got(c, "abc");
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

/* A collector that takes a batch and never answers; a call may take ten seconds. */
static void stopping_does_not_wait_for_a_call_beyond_its_moment(void **state)
{
    struct ingest *c = ingest_create(server_tls);
    struct link *l = link_new(c);
    int64_t begun_ns;
    bool unheard = false;

    (void)state;
    c->mute = true;
    put(l, 1, "a");
    start(l);
    while (!unheard) {
        os_sleep_ns(CLK_MS);
        os_mutex_lock(c->lock);
        unheard = c->unheard != NULL;
        os_mutex_unlock(c->lock);
    }
    begun_ns = os_mono_ns();
    queue_close(l->queue);
    uplink_stop(l->uplink, begun_ns + 50 * CLK_MS);
    assert_true(os_mono_ns() - begun_ns >= 50 * CLK_MS);
    assert_true(os_mono_ns() - begun_ns < 5 * CLK_S);
    queue_destroy(l->queue);
    mem_free(l);
    ingest_destroy(c);
}

/* A collector that says it takes more than it does: the connection breaks under the large batch,
 * each time anew. */
static void a_batch_that_breaks_connections_is_set_aside(void **state)
{
    struct ingest *c = ingest_create(server_tls);
    static char large[9000];
    struct uplink_status s;
    struct link *l;

    (void)state;
    ingest_stop(c);
    c->receive_max = 4096;
    ingest_listen(c, "127.0.0.1:0");
    l = link_new(c);
    memset(large, 'x', sizeof large);
    put(l, 1, "a");
    assert_ok(queue_put(l->queue, 2, large, sizeof large, true));
    put(l, 3, "c");
    start(l);
    s = drain(l);
    assert_int_equal(s.acknowledged, 2);
    assert_int_equal(s.quarantined, 1);
    assert_in_range(s.resent, 5, 20);
    check_got(c, "ac");
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

static void starting_survives_every_failing_allocation(void **state)
{
    struct ingest *c = ingest_create(server_tls);
    struct link *l = link_new(c);
    long n = 0;

    (void)state;
    for (mem_fail_after(n); uplink_start(&l->uplink, &l->conf, NULL); mem_fail_after(++n)) {
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
        cmocka_unit_test(a_batch_that_breaks_connections_is_set_aside),
        cmocka_unit_test(the_next_address_is_tried),
        cmocka_unit_test(a_restarted_collector_gets_the_rest),
        cmocka_unit_test(a_stranger_is_told_so_with_a_remedy),
        cmocka_unit_test(starting_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
