#include "collector/session.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/clk.h"
#include "common/mem.h"
#include "common/os.h"
#include "common/wire_rpc.h"
#include "tests/support/certs.h"
#include "tests/support/fio_fault.h"
#include "tests/support/store_rig.h"
#include "tests/support/t.h"

#define LONG_NS (20 * CLK_S)

/* The whole way: agents' certificates, TLS, calls, session, store. */
static struct certs *pki;
static struct net_tls *collector_tls, *agent_tls[2], *other_tls;
static struct rig rig;
static struct session *session;
static struct rpc_server *server;
static struct fleetgen *gen[2]; /* host i has agent_tls[i] */
static _Atomic int64_t clock_ns;

static int64_t test_clock(void)
{
    return atomic_load(&clock_ns);
}

static struct net_tls *agent_of(const struct fleetgen *g)
{
    struct pki_issue what = {.use = PKI_AGENT,
                             .name = fleetgen_host_name(g),
                             .has_host = true,
                             .host = fleetgen_head(g)->host};

    certs_issue_as(pki, &what);
    return certs_load(pki, what.name, pki, false);
}

static int group_setup(void **state)
{
    struct errmsg why;

    (void)state;
    assert_ok(net_init(&why));
    pki = certs_create();
    certs_issue(pki, PKI_COLLECTOR, "collector");
    collector_tls = certs_load(pki, "collector", pki, true);
    for (uint64_t i = 0; i < 2; i++) {
        gen[i] = rig_host(i + 1);
        agent_tls[i] = agent_of(gen[i]);
        fleetgen_destroy(gen[i]);
    }
    certs_issue(pki, PKI_QUERY, "operator");
    other_tls = certs_load(pki, "operator", pki, false);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    net_tls_free(collector_tls);
    net_tls_free(agent_tls[0]);
    net_tls_free(agent_tls[1]);
    net_tls_free(other_tls);
    certs_destroy(pki);
    net_fini();
    return 0;
}

static int setup(void **state)
{
    (void)state;
    rig_init(&rig);
    gen[0] = rig_host(1);
    gen[1] = rig_host(2);
    atomic_store(&clock_ns, RIG_T0 + 11 * CLK_S);
    return 0;
}

static void start(uint32_t hosts_max)
{
    struct session_conf conf = {.hosts_max = hosts_max,
                                .max_message = 20000,
                                .max_in_flight = 4,
                                .future_max_ns = 300 * CLK_S,
                                .utc_ns = test_clock};
    struct rpc_method methods[SESSION_METHODS];
    struct rpc_server_conf rpc = {.net = {.name = "ingest",
                                          .address = "127.0.0.1:0",
                                          .tls = collector_tls,
                                          .roles = NET_AGENT,
                                          .receive_max = 1 << 20,
                                          .contexts = 16,
                                          .per_peer = 4},
                                  .on_peer = session_peer,
                                  .methods = methods,
                                  .n_methods = SESSION_METHODS,
                                  .workers = 2,
                                  .queue = 32,
                                  .raw_max = 1 << 20,
                                  .default_timeout_ns = LONG_NS};
    struct errmsg why = {""};

    rig_open(&rig);
    conf.store = rig.store;
    assert_ok(session_create(&session, &conf));
    session_methods(session, methods);
    rpc.peer_ctx = session;
    if (rpc_server_start(&server, &rpc, &why) != ERR_OK) {
        fail_msg("%s", why.text);
    }
}

static int teardown(void **state)
{
    (void)state;
    rpc_server_stop(server);
    session_destroy(session);
    server = NULL;
    session = NULL;
    rig_fini(&rig);
    fleetgen_destroy(gen[0]);
    fleetgen_destroy(gen[1]);
    return 0;
}

static struct rpc_client *dial(struct net_tls *tls)
{
    char address[32];
    struct net_client_conf conf = {.address = address, .tls = tls, .receive_max = 1 << 20};
    struct rpc_client *c = NULL;

    snprintf(address, sizeof address, "127.0.0.1:%u", rpc_server_port(server));
    assert_ok(rpc_client_open(&c, &conf, "test/1", NULL));
    return c;
}

static struct wire_hello hello_of(const struct fleetgen *g)
{
    const struct batch_head *head = fleetgen_head(g);
    struct wire_hello hello = {.host = head->host,
                               .boot = head->boot,
                               .stream = head->stream,
                               .version = "9.9",
                               .source = "proc",
                               .system = "Linux",
                               .cpus = 4,
                               .wall_ns = test_clock()};

    snprintf(hello.name, sizeof hello.name, "%s", fleetgen_host_name(g));
    return hello;
}

static enum rpc_code say_hello(struct rpc_client *c, const struct wire_hello *hello,
                               struct wire_hello_reply *reply)
{
    struct rpc_result result = {.code = RPC_OK};
    struct buf request, answer;
    enum err e;

    buf_init(&request, 4096);
    buf_init(&answer, 4096);
    assert_ok(wire_hello_encode(&request, hello));
    e = rpc_client_call(c, RPC_INGEST_HELLO, FRAME_RAW, request.p, request.n, LONG_NS, &answer,
                        &result);
    assert_true(e == ERR_OK || e == ERR_REFUSED);
    if (e == ERR_OK) {
        assert_ok(wire_hello_reply_decode(reply, answer.p, answer.n));
    }
    buf_fini(&request);
    buf_fini(&answer);
    return result.code;
}

static enum rpc_code push_bytes(struct rpc_client *c, const void *p, size_t n,
                                struct wire_push_reply *reply)
{
    struct rpc_result result = {.code = RPC_OK};
    struct buf answer;
    enum err e;

    buf_init(&answer, 4096);
    e = rpc_client_call(c, RPC_INGEST_PUSH, FRAME_ZSTD, p, n, LONG_NS, &answer, &result);
    assert_true(e == ERR_OK || e == ERR_REFUSED);
    if (e == ERR_OK) {
        assert_ok(wire_push_reply_decode(reply, answer.p, answer.n));
    }
    buf_fini(&answer);
    return result.code;
}

static enum rpc_code push(struct rpc_client *c, const struct rig_batch *b,
                          struct wire_push_reply *reply)
{
    return push_bytes(c, b->bytes, b->n, reply);
}

static void a_pushed_batch_is_durable_when_acknowledged(void **state)
{
    struct wire_hello hello = hello_of(gen[0]);
    struct wire_hello_reply greeting;
    struct wire_push_reply ack;
    struct session_host seen;
    struct rpc_client *c;
    struct rig_batch b;

    (void)state;
    start(8);
    c = dial(agent_tls[0]);
    assert_int_equal(say_hello(c, &hello, &greeting), RPC_OK);
    assert_int_equal(greeting.last_seq, 0);
    assert_int_equal(greeting.max_message, 20000);
    assert_int_equal(greeting.max_in_flight, 4);
    assert_int_equal(greeting.received_ns, test_clock());
    for (uint64_t seq = 1; seq <= 3; seq++) {
        rig_batch(&b, gen[0], 10);
        atomic_store(&clock_ns, b.received_ns);
        assert_int_equal(push(c, &b, &ack), RPC_OK);
        assert_false(ack.duplicate);
        assert_int_equal(ack.last_seq, seq);
        assert_int_equal(rig_count(&rig, &b.head), 1);
        assert_int_equal(push(c, &b, &ack), RPC_OK);
        assert_true(ack.duplicate);
        assert_int_equal(ack.last_seq, seq);
        rig_batch_fini(&b);
    }
    assert_int_equal(rig_count_all(&rig), 3);
    assert_true(session_host_state(session, &hello.host, &seen));
    assert_true(seen.connected);
    assert_string_equal(seen.version, "9.9");
    assert_string_equal(seen.name, hello.name);
    assert_int_equal(seen.stored, 3);
    assert_int_equal(seen.duplicates, 3);
    assert_int_equal(say_hello(c, &hello, &greeting), RPC_OK);
    assert_int_equal(greeting.last_seq, 3);
    rpc_client_close(c);
}

static void a_host_is_connected_while_its_connection_lasts(void **state)
{
    struct wire_hello hello = hello_of(gen[0]);
    struct wire_hello_reply greeting;
    struct session_host seen;
    struct rpc_client *c;
    int64_t until = os_mono_ns() + LONG_NS;

    (void)state;
    start(8);
    assert_false(session_host_state(session, &hello.host, &seen));
    c = dial(agent_tls[0]);
    assert_int_equal(say_hello(c, &hello, &greeting), RPC_OK);
    assert_true(session_host_state(session, &hello.host, &seen));
    assert_true(seen.connected);
    rpc_client_close(c);
    do {
        assert_true(os_mono_ns() < until);
        os_sleep_ns(CLK_MS);
        assert_true(session_host_state(session, &hello.host, &seen));
    } while (seen.connected);
}

static void another_host_or_name_than_the_certificates_is_refused(void **state)
{
    struct wire_hello own = hello_of(gen[0]), other = hello_of(gen[1]), renamed = own;
    struct wire_hello_reply greeting;
    struct wire_push_reply ack;
    struct session_stats stats;
    struct rpc_client *c;
    struct rig_batch b;

    (void)state;
    start(8);
    snprintf(renamed.name, sizeof renamed.name, "somebody");
    c = dial(agent_tls[0]);
    assert_int_equal(say_hello(c, &other, &greeting), RPC_PERMISSION_DENIED);
    assert_int_equal(say_hello(c, &renamed, &greeting), RPC_PERMISSION_DENIED);
    assert_int_equal(say_hello(c, &own, &greeting), RPC_OK);
    rig_batch(&b, gen[1], 10);
    assert_int_equal(push(c, &b, &ack), RPC_PERMISSION_DENIED);
    assert_int_equal(rig_count_all(&rig), 0);
    session_stats(session, &stats);
    assert_int_equal(stats.spoofed, 3);
    rig_batch_fini(&b);
    rpc_client_close(c);
}

static void what_is_no_batch_is_refused_and_nothing_else_suffers(void **state)
{
    struct wire_push_reply ack;
    struct rpc_client *c;
    struct rig_batch b;
    static uint8_t big[20001];

    (void)state;
    start(8);
    c = dial(agent_tls[0]);
    rig_batch(&b, gen[0], 10);
    assert_int_equal(push_bytes(c, "garbage", 7, &ack), RPC_INVALID_ARGUMENT);
    assert_int_equal(push_bytes(c, "", 0, &ack), RPC_INVALID_ARGUMENT);
    assert_int_equal(push_bytes(c, b.bytes, b.n - 1, &ack), RPC_INVALID_ARGUMENT);
    assert_int_equal(push_bytes(c, big, sizeof big, &ack), RPC_INVALID_ARGUMENT);
    assert_int_equal(push(c, &b, &ack), RPC_OK);
    assert_int_equal(rig_count_all(&rig), 1);
    rig_batch_fini(&b);
    rpc_client_close(c);
}

static void batches_of_the_future_are_judged_by_the_hosts_clock(void **state)
{
    static const struct {
        int64_t host_ahead_s;  /* what the host's clock shows more than ours */
        int64_t batch_ahead_s; /* of our clock */
        enum rpc_code code;
    } rows[] = {
        {0, 299, RPC_OK},      {0, 302, RPC_OUT_OF_RANGE},
        {1000, 1299, RPC_OK},  {1000, 1302, RPC_OUT_OF_RANGE},
        {-1000, -702, RPC_OK}, {-1000, -698, RPC_OUT_OF_RANGE},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct wire_hello hello = hello_of(gen[0]);
        struct wire_hello_reply greeting;
        struct wire_push_reply ack;
        struct rpc_client *c;
        struct rig_batch b;

        start(8);
        c = dial(agent_tls[0]);
        rig_batch_as(&b, gen[0], 10, 5, 1); /* newest stamp: received_ns - 1 s */
        atomic_store(&clock_ns, b.received_ns - CLK_S - rows[i].batch_ahead_s * CLK_S);
        hello.wall_ns = test_clock() + rows[i].host_ahead_s * CLK_S;
        if (rows[i].batch_ahead_s > 300) { /* before Hello nobody knows */
            assert_int_equal(push(c, &b, &ack), RPC_FAILED_PRECONDITION);
        }
        assert_int_equal(say_hello(c, &hello, &greeting), RPC_OK);
        assert_int_equal(push(c, &b, &ack), rows[i].code);
        rig_batch_fini(&b);
        rpc_client_close(c);
        rpc_server_stop(server);
        session_destroy(session);
        rig_fini(&rig);
        server = NULL;
        session = NULL;
        rig_init(&rig);
    }
}

static void the_offset_is_the_least_delay_of_the_last_minutes(void **state)
{
    static const struct {
        int64_t at_s;     /* our clock */
        int64_t sent_s;   /* theirs: 100 s behind, delayed more or less */
        int64_t offset_s; /* expected */
    } rows[] = {
        {0, -107, 107},  {10, -92, 102},  {20, -100, 102}, {290, 185, 102},
        {310, 205, 102}, {590, 484, 102}, {650, 540, 105}, {5000, 4880, 120},
    };
    struct wire_hello hello = hello_of(gen[0]);
    struct wire_hello_reply greeting;
    struct session_host seen;
    struct rpc_client *c;

    (void)state;
    start(8);
    c = dial(agent_tls[0]);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        atomic_store(&clock_ns, RIG_T0 + rows[i].at_s * CLK_S);
        hello.wall_ns = RIG_T0 + rows[i].sent_s * CLK_S;
        assert_int_equal(say_hello(c, &hello, &greeting), RPC_OK);
        assert_true(session_host_state(session, &hello.host, &seen));
        assert_int_equal(seen.offset_ns, rows[i].offset_s * CLK_S);
    }
    rpc_client_close(c);
}

static void hosts_beyond_the_limit_wait_for_a_place(void **state)
{
    struct wire_hello first = hello_of(gen[0]), second = hello_of(gen[1]);
    struct wire_hello_reply greeting;
    struct session_host seen;
    struct rpc_client *c[2];

    (void)state;
    start(1);
    c[0] = dial(agent_tls[0]);
    assert_int_equal(say_hello(c[0], &first, &greeting), RPC_OK);
    c[1] = dial(agent_tls[1]);
    assert_int_equal(say_hello(c[1], &second, &greeting), RPC_RESOURCE_EXHAUSTED);
    rpc_client_close(c[0]);
    do {
        os_sleep_ns(CLK_MS);
        assert_true(session_host_state(session, &first.host, &seen));
    } while (seen.connected);
    atomic_fetch_add(&clock_ns, 601 * CLK_S);
    assert_int_equal(say_hello(c[1], &second, &greeting), RPC_OK);
    assert_false(session_host_state(session, &first.host, &seen));
    rpc_client_close(c[1]);
}

static void a_heartbeat_tells_both_clocks(void **state)
{
    struct wire_heartbeat beat = {.stream = 1, .next_seq = 1, .wall_ns = RIG_T0};
    struct wire_heartbeat_reply reply;
    struct session_host seen;
    struct buf request, answer;
    struct rpc_client *c;

    (void)state;
    start(8);
    c = dial(agent_tls[0]);
    buf_init(&request, 4096);
    buf_init(&answer, 4096);
    assert_ok(wire_heartbeat_encode(&request, &beat));
    assert_ok(rpc_client_call(c, RPC_INGEST_HEARTBEAT, FRAME_RAW, request.p, request.n, LONG_NS,
                              &answer, NULL));
    assert_ok(wire_heartbeat_reply_decode(&reply, answer.p, answer.n));
    assert_int_equal(reply.received_ns, test_clock());
    assert_true(session_host_state(session, &fleetgen_head(gen[0])->host, &seen));
    assert_int_equal(seen.offset_ns, 11 * CLK_S);
    buf_fini(&request);
    buf_fini(&answer);
    rpc_client_close(c);
}

static void a_failed_log_is_told_as_unavailable_and_too_old_for_good(void **state)
{
    struct wire_push_reply ack;
    struct rpc_client *c;
    struct rig_batch b, old;
    struct fio_fault *f;

    (void)state;
    assert_ok(fio_fault_create(&f));
    rig.conf.fio = fio_fault_fio(f);
    start(8);
    c = dial(agent_tls[0]);
    rig_batch(&old, gen[0], 10);
    rig_batch(&b, gen[0], 10);
    atomic_store(&clock_ns, old.received_ns + rig.conf.age_max_ns);
    assert_int_equal(push(c, &old, &ack), RPC_OUT_OF_RANGE);
    atomic_store(&clock_ns, b.received_ns);
    fio_fault_fail(f, FIO_SYNC, 0, ERR_IO, true);
    assert_int_equal(push(c, &b, &ack), RPC_UNAVAILABLE);
    assert_int_equal(push(c, &b, &ack), RPC_UNAVAILABLE);
    rig_batch_fini(&b);
    rig_batch_fini(&old);
    rpc_client_close(c);
    rpc_server_stop(server);
    server = NULL;
    session_destroy(session);
    session = NULL;
    rig_close(&rig);
    fio_fault_destroy(f);
}

static void other_roles_do_not_get_in(void **state)
{
    struct wire_hello hello = hello_of(gen[0]);
    struct rpc_client *c;
    struct buf request, answer;
    struct rpc_result result;
    enum err e;

    (void)state;
    start(8);
    c = dial(other_tls);
    buf_init(&request, 4096);
    buf_init(&answer, 4096);
    assert_ok(wire_hello_encode(&request, &hello));
    e = rpc_client_call(c, RPC_INGEST_HELLO, FRAME_RAW, request.p, request.n, CLK_S, &answer,
                        &result);
    assert_true(e == ERR_TRUST || e == ERR_TIMEOUT || e == ERR_UNREACHABLE);
    buf_fini(&request);
    buf_fini(&answer);
    rpc_client_close(c);
}

static void creating_survives_every_allocation_failing(void **state)
{
    struct session_conf conf = {.hosts_max = 1};
    struct session *s;
    long held = mem_live();

    (void)state;
    for (long n = 0;; n++) {
        enum err e;

        mem_fail_after(n);
        e = session_create(&s, &conf);
        mem_fail_after(-1);
        if (e == ERR_OK) {
            assert_true(n >= 3);
            break;
        }
        assert_err(e, ERR_NOMEM);
        assert_int_equal(mem_live(), held);
    }
    session_destroy(s);
    assert_int_equal(mem_live(), held);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_pushed_batch_is_durable_when_acknowledged),
        T(a_host_is_connected_while_its_connection_lasts),
        T(another_host_or_name_than_the_certificates_is_refused),
        T(what_is_no_batch_is_refused_and_nothing_else_suffers),
        T(batches_of_the_future_are_judged_by_the_hosts_clock),
        T(the_offset_is_the_least_delay_of_the_last_minutes),
        T(hosts_beyond_the_limit_wait_for_a_place),
        T(a_heartbeat_tells_both_clocks),
        T(a_failed_log_is_told_as_unavailable_and_too_old_for_good),
        T(other_roles_do_not_get_in),
        cmocka_unit_test(creating_survives_every_allocation_failing),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
