/* The uplink against a collector's ingest listener: real sockets, TLS and calls, scripted answers.
 */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/uplink.h"
#include "common/clk.h"
#include "common/mem.h"
#include "common/os.h"
#include "common/rpc.h"
#include "tests/support/certs.h"

#define LONG_NS (30 * CLK_S)

static struct certs *pki, *other_pki;
static struct net_tls *server_tls, *agent_tls, *stranger_tls;

/* -- a collector that answers as told -- */

struct collector {
    struct rpc_server *server;
    struct wire_hello_reply hello; /* what it says */
    enum rpc_code refuse;          /* the batch that begins with `refuse_first`, */
    char refuse_first;
    unsigned refuse_times; /* so often */
    struct os_mutex *lock; /* guards all below */
    char got[64];          /* first byte of each accepted batch */
    size_t n_got;
    unsigned hellos, beats;
};

static void on_hello(void *ctx, struct rpc_call *call)
{
    struct collector *c = ctx;
    struct buf out;

    os_mutex_lock(c->lock);
    c->hellos++;
    os_mutex_unlock(c->lock);
    buf_init(&out, 4096);
    assert_ok(wire_hello_reply_encode(&out, &c->hello));
    rpc_answer(call, out.p, out.n, NULL);
    buf_fini(&out);
}

static void on_push(void *ctx, struct rpc_call *call)
{
    struct collector *c = ctx;
    struct wire_push_reply reply = {0};
    struct buf out;
    bool refuse;
    size_t n;
    char first = (char)rpc_call_payload(call, &n)[0];

    os_mutex_lock(c->lock);
    refuse = c->refuse_times > 0 && first == c->refuse_first;
    if (refuse) {
        c->refuse_times--;
    } else if (c->n_got + 1 < sizeof c->got) {
        c->got[c->n_got++] = first;
    }
    os_mutex_unlock(c->lock);
    if (refuse) {
        rpc_fail(call, c->refuse, 10, "no %c", first);
        return;
    }
    buf_init(&out, 4096);
    assert_ok(wire_push_reply_encode(&out, &reply));
    rpc_answer(call, out.p, out.n, NULL);
    buf_fini(&out);
}

static void on_heartbeat(void *ctx, struct rpc_call *call)
{
    struct collector *c = ctx;
    struct wire_heartbeat_reply reply = {0};
    struct buf out;

    os_mutex_lock(c->lock);
    c->beats++;
    os_mutex_unlock(c->lock);
    buf_init(&out, 4096);
    assert_ok(wire_heartbeat_reply_encode(&out, &reply));
    rpc_answer(call, out.p, out.n, NULL);
    buf_fini(&out);
}

static void listen_at(struct collector *c, const char *address)
{
    struct rpc_method methods[] = {
        {RPC_INGEST_HELLO, NET_AGENT, on_hello, c},
        {RPC_INGEST_PUSH, NET_AGENT, on_push, c},
        {RPC_INGEST_HEARTBEAT, NET_AGENT, on_heartbeat, c},
    };
    struct rpc_server_conf conf = {.net = {.name = "ingest",
                                           .address = address,
                                           .tls = server_tls,
                                           .roles = NET_AGENT,
                                           .receive_max = 1 << 20,
                                           .contexts = 8},
                                   .methods = methods,
                                   .n_methods = COUNT_OF(methods),
                                   .workers = 1,
                                   .queue = 8,
                                   .raw_max = 1 << 20,
                                   .default_timeout_ns = LONG_NS};
    struct errmsg why = {""};

    if (rpc_server_start(&c->server, &conf, &why)) {
        fail_msg("%s", why.text);
    }
}

static struct collector *collector_new(void)
{
    struct collector *c = mem_zalloc(sizeof *c);

    assert_non_null(c);
    assert_ok(os_mutex_create(&c->lock));
    c->hello.max_message = 1 << 20;
    listen_at(c, "127.0.0.1:0");
    return c;
}

static void collector_free(struct collector *c)
{
    rpc_server_stop(c->server);
    os_mutex_destroy(c->lock);
    mem_free(c);
}

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

static struct link *link_new(const struct collector *c)
{
    struct link *l = mem_zalloc(sizeof *l);

    assert_non_null(l);
    assert_ok(queue_create(&l->queue, 1 << 20));
    (void)snprintf(l->addresses[0], sizeof l->addresses[0], "127.0.0.1:%u",
                   rpc_server_port(c->server));
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

static void check_got(struct collector *c, const char *want)
{
    os_mutex_lock(c->lock);
    c->got[c->n_got] = '\0';
    os_mutex_unlock(c->lock);
    assert_string_equal(c->got, want);
}

static void batches_arrive_in_order_and_leave_the_queue(void **state)
{
    struct collector *c = collector_new();
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
    collector_free(c);
}

static void a_busy_collector_is_asked_again(void **state)
{
    static const enum rpc_code codes[] = {RPC_RESOURCE_EXHAUSTED, RPC_UNAVAILABLE, RPC_INTERNAL,
                                          RPC_FAILED_PRECONDITION};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        struct collector *c = collector_new();
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
        collector_free(c);
    }
}

static void a_refused_batch_is_set_aside_and_the_next_goes_on(void **state)
{
    static const enum rpc_code codes[] = {RPC_INVALID_ARGUMENT, RPC_PERMISSION_DENIED,
                                          RPC_OUT_OF_RANGE};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        struct collector *c = collector_new();
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
        collector_free(c);
    }
}

static void what_is_stored_already_is_not_sent(void **state)
{
    struct collector *c = collector_new();
    struct link *l = link_new(c);

    (void)state;
    c->hello.last_seq = 2;
    put(l, 1, "a");
    put(l, 2, "b");
    put(l, 3, "c");
    start(l);
    (void)drain(l);
    check_got(c, "c");
    link_free(l);
    collector_free(c);
}

static void a_batch_over_the_collectors_limit_is_set_aside(void **state)
{
    struct collector *c = collector_new();
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
    collector_free(c);
}

static void silence_is_filled_with_heartbeats(void **state)
{
    struct collector *c = collector_new();
    struct link *l = link_new(c);

    (void)state;
    l->conf.heartbeat_ns = 5 * CLK_MS;
    start(l);
    (void)wait_for(l, has_beaten);
    link_free(l);
    assert_true(c->beats > 0);
    collector_free(c);
}

static void the_next_address_is_tried(void **state)
{
    struct collector *dead = collector_new(), *c = collector_new();
    struct link *l = link_new(dead);

    (void)state;
    (void)snprintf(l->addresses[1], sizeof l->addresses[1], "127.0.0.1:%u",
                   rpc_server_port(c->server));
    l->conf.n_addresses = 2;
    collector_free(dead);
    put(l, 1, "a");
    start(l);
    assert_int_equal(drain(l).acknowledged, 1);
    check_got(c, "a");
    link_free(l);
    collector_free(c);
}

static void a_restarted_collector_gets_the_rest(void **state)
{
    struct collector *c = collector_new();
    struct link *l = link_new(c);

    (void)state;
    put(l, 1, "a");
    start(l);
    (void)wait_for(l, has_acknowledged);
    rpc_server_stop(c->server);
    c->server = NULL;
    assert_non_null(strstr(wait_for(l, is_unreachable).why, "collector.addresses"));
    put(l, 2, "b");
    listen_at(c, l->addresses[0]);
    assert_int_equal(drain(l).acknowledged, 2);
    check_got(c, "ab");
    assert_true(c->hellos >= 2);
    link_free(l);
    collector_free(c);
}

static void a_stranger_is_told_so_with_a_remedy(void **state)
{
    struct collector *c = collector_new();
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
    collector_free(c);
}

static void starting_survives_every_failing_allocation(void **state)
{
    struct collector *c = collector_new();
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
    collector_free(c);
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
        cmocka_unit_test(what_is_stored_already_is_not_sent),
        cmocka_unit_test(a_batch_over_the_collectors_limit_is_set_aside),
        cmocka_unit_test(silence_is_filled_with_heartbeats),
        cmocka_unit_test(the_next_address_is_tried),
        cmocka_unit_test(a_restarted_collector_gets_the_rest),
        cmocka_unit_test(a_stranger_is_told_so_with_a_remedy),
        cmocka_unit_test(starting_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
