#include "collector/ingest/session.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/wire/wire_rpc.h"
#include "tests/support/certs.h"
#include "tests/support/fio_fault.h"
#include "tests/support/store_rig.h"
#include "tests/support/t.h"

#define LONG_NS (20 * CLK_S)

/* The whole way: agents' certificates, TLS, calls, session, store. */
static struct certs *pki;
static struct tls_config *collector_tls, *agent_tls[2], *other_tls;
static struct rig rig;
static struct session *session;
static struct rpc_server *server;
static struct fleetgen *gen[2]; /* host i has agent_tls[i] */
static _Atomic int64_t clock_ns;

static int64_t test_clock(void)
{
    return atomic_load(&clock_ns);
}

/* Starts with the test's time, and never jumps unless the test makes both. */
static int64_t test_mono(void)
{
    return atomic_load(&clock_ns) - RIG_T0 + 1000 * CLK_S;
}

static struct tls_config *agent_of(const struct fleetgen *g)
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
    tls_config_free(collector_tls);
    tls_config_free(agent_tls[0]);
    tls_config_free(agent_tls[1]);
    tls_config_free(other_tls);
    certs_destroy(pki);
    net_fini();
    return 0;
}

static int setup(void **state)
{
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
                                .accept_age_ns = rig.conf.accept_age_ns,
                                .future_max_ns = 300 * CLK_S,
                                .utc_ns = test_clock,
                                .mono_ns = test_mono};
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
    rpc_server_stop(server);
    session_destroy(session);
    server = NULL;
    session = NULL;
    rig_fini(&rig);
    fleetgen_destroy(gen[0]);
    fleetgen_destroy(gen[1]);
    return 0;
}

static struct rpc_client *dial(struct tls_config *tls)
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

static char hello_detail[32]; /* of the last answer to say_hello */

static enum rpc_code say_hello(struct rpc_client *c, const struct wire_hello *hello,
                               struct wire_hello_reply *reply)
{
    struct rpc_result result = {.code = RPC_OK};
    struct buf request, answer;
    enum err e;

    buf_init(&request, 4096);
    buf_init(&answer, 4096);
    assert_ok(wire_rpc_hello_encode(&request, hello));
    e = rpc_client_call(c, RPC_INGEST_HELLO, FRAME_RAW, request.p, request.n, LONG_NS, &answer,
                        &result);
    assert_true(e == ERR_OK || e == ERR_REFUSED);
    if (e == ERR_OK) {
        assert_ok(wire_rpc_hello_reply_decode(reply, answer.p, answer.n));
    }
    memcpy(hello_detail, result.detail, sizeof hello_detail);
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
        assert_ok(wire_rpc_push_reply_decode(reply, answer.p, answer.n));
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

static struct session_stats stats_now(void)
{
    struct session_stats stats;

    session_stats(session, &stats);
    return stats;
}

static struct session_host host_now(const struct fleetgen *g)
{
    struct session_host seen;

    assert_true(session_host_state(session, &fleetgen_head(g)->host, &seen));
    return seen;
}

/* The offset the store keeps with its only host. */
static struct host_offset stored_clock(void)
{
    struct store_view *v;
    struct host_offset clock;

    assert_ok(store_view_open(&v, rig.store));
    assert_int_equal(store_view_hosts(v), 1);
    clock = store_view_host(v, 0)->clock;
    store_view_close(v);
    return clock;
}

static void no_batch_is_refused_for_its_hosts_clock(void **state)
{
    /* A day ahead, an hour behind, ...: what the host's clock shows more than ours. The monotonic
     * stamps of the generator begin with its first tick. */
    static const struct {
        int64_t told_ahead_s;  /* when it says Hello */
        int64_t batch_ahead_s; /* when it made the batch */
        bool mono;             /* it tells its monotonic clock */
        int64_t offset_s;      /* kept with the batch */
        uint64_t future;
    } rows[] = {
        {0, 0, true, 0, 0},
        {0, 3600, true, -3600, 0},        /* jumped an hour ahead and back */
        {0, -3600, true, 3600, 0},        /* and the other way */
        {3600, 0, true, 0, 0},            /* jumped after the batch */
        {-86400, -86400, true, 86400, 0}, /* older than is kept, by its own clock */
        {86400, 86400, true, -86400, 0},
        {0, 3600, false, 0, 1}, /* nobody knows: kept as it is, and counted */
        {3600, 3600, false, -3600, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct wire_hello hello = hello_of(gen[0]);
        struct wire_hello_reply greeting;
        struct wire_push_reply ack;
        struct rpc_client *c;
        struct rig_batch b;

        start(8);
        c = dial(agent_tls[0]);
        rig_batch_as(&b, gen[0], 10, 5, 1); /* newest stamp: received_ns - 1 s */
        hello.mono_ns = rows[i].mono ? b.received_ns - RIG_T0 + CLK_S : 0;
        atomic_store(&clock_ns, b.received_ns - rows[i].batch_ahead_s * CLK_S);
        hello.wall_ns = test_clock() + rows[i].told_ahead_s * CLK_S;
        assert_int_equal(say_hello(c, &hello, &greeting), RPC_OK);
        assert_int_equal(push(c, &b, &ack), RPC_OK);
        assert_false(ack.duplicate);
        assert_int_equal(rig_count(&rig, &b.head), 1);
        assert_int_equal(stats_now().future, rows[i].future);
        assert_true(stored_clock().known);
        assert_in_range(stored_clock().offset_ns + 100000 * CLK_S,
                        (rows[i].offset_s + 100000) * CLK_S - CLK_MS,
                        (rows[i].offset_s + 100000) * CLK_S + CLK_MS);
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

static void a_batch_before_any_hello_is_stored_with_no_clock(void **state)
{
    struct wire_push_reply ack;
    struct rpc_client *c;
    struct rig_batch b;

    start(8);
    c = dial(agent_tls[0]);
    rig_batch(&b, gen[0], 10);
    atomic_store(&clock_ns, b.received_ns - 7200 * CLK_S);
    assert_int_equal(push(c, &b, &ack), RPC_OK);
    assert_false(stored_clock().known);
    assert_int_equal(stats_now().future, 1);
    rig_batch_fini(&b);
    rpc_client_close(c);
}

static void a_jump_of_the_hosts_clock_is_known_with_its_next_call(void **state)
{
    static const struct {
        int64_t at_s, ahead_s;
    } rows[] = {{0, 5}, {30, 5}, {60, 3605}, {90, -3595}, {120, -3595}};
    struct wire_hello hello = hello_of(gen[0]);
    struct wire_hello_reply greeting;
    struct rpc_client *c;

    start(8);
    c = dial(agent_tls[0]);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        atomic_store(&clock_ns, RIG_T0 + rows[i].at_s * CLK_S);
        hello.wall_ns = test_clock() + rows[i].ahead_s * CLK_S;
        hello.mono_ns = (500 + rows[i].at_s) * CLK_S;
        assert_int_equal(say_hello(c, &hello, &greeting), RPC_OK);
        assert_int_equal(host_now(gen[0]).clock.offset_ns, -rows[i].ahead_s * CLK_S);
        assert_false(host_now(gen[0]).clock.bounded);
    }
    rpc_client_close(c);
}

static void hosts_beyond_the_limit_wait_for_a_place(void **state)
{
    struct wire_hello first = hello_of(gen[0]), second = hello_of(gen[1]);
    struct wire_hello_reply greeting;
    struct session_host seen;
    struct rpc_client *c[2];

    start(1);
    c[0] = dial(agent_tls[0]);
    assert_int_equal(say_hello(c[0], &first, &greeting), RPC_OK);
    c[1] = dial(agent_tls[1]);
    assert_int_equal(say_hello(c[1], &second, &greeting), RPC_RESOURCE_EXHAUSTED);
    assert_string_equal(hello_detail, "elsewhere");
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

static struct wire_heartbeat_reply send_beat(struct rpc_client *c,
                                             const struct wire_heartbeat *beat)
{
    struct wire_heartbeat_reply reply;
    struct buf request, answer;

    buf_init(&request, 4096);
    buf_init(&answer, 4096);
    assert_ok(wire_rpc_heartbeat_encode(&request, beat));
    assert_ok(rpc_client_call(c, RPC_INGEST_HEARTBEAT, FRAME_RAW, request.p, request.n, LONG_NS,
                              &answer, NULL));
    assert_ok(wire_rpc_heartbeat_reply_decode(&reply, answer.p, answer.n));
    buf_fini(&request);
    buf_fini(&answer);
    return reply;
}

static void a_heartbeat_bounds_the_offset_by_the_round_trip_before(void **state)
{
    struct wire_hello hello = hello_of(gen[0]);
    struct wire_hello_reply greeting;
    struct wire_heartbeat beat = {.stream = 1, .next_seq = 1};
    struct rpc_client *c;

    start(8);
    c = dial(agent_tls[0]);
    hello.mono_ns = 77 * CLK_S;
    hello.wall_ns = test_clock() - 11 * CLK_S; /* 11 s behind, or less and late */
    assert_int_equal(say_hello(c, &hello, &greeting), RPC_OK);
    assert_int_equal(host_now(gen[0]).clock.offset_ns, 11 * CLK_S);
    assert_false(host_now(gen[0]).clock.bounded);
    beat.mono_ns = hello.mono_ns + CLK_US; /* at once, but for what it took */
    beat.wall_ns = hello.wall_ns + CLK_US;
    beat.last_mono_ns = hello.mono_ns;
    beat.last_rtt_ns = 2 * CLK_S;
    assert_int_equal(send_beat(c, &beat).received_ns, test_clock());
    assert_true(host_now(gen[0]).clock.bounded);
    assert_in_range(host_now(gen[0]).clock.offset_ns, 10 * CLK_S - CLK_US, 10 * CLK_S + CLK_US);
    assert_in_range(host_now(gen[0]).clock.error_ns, CLK_S - CLK_US, CLK_S + CLK_US);
    rpc_client_close(c);
}

static void a_heartbeat_without_a_hello_tells_no_clock(void **state)
{
    struct wire_heartbeat beat = {.stream = 1, .next_seq = 1, .wall_ns = RIG_T0, .mono_ns = 5};
    struct rpc_client *c;

    start(8);
    c = dial(agent_tls[0]);
    assert_int_equal(send_beat(c, &beat).received_ns, test_clock());
    assert_false(host_now(gen[0]).clock.known);
    assert_int_equal(host_now(gen[0]).heard_ns, test_clock());
    rpc_client_close(c);
}

static void the_end_of_the_certificate_is_known(void **state)
{
    struct wire_hello hello = hello_of(gen[0]);
    struct wire_hello_reply greeting;
    struct net_identity own;
    struct rpc_client *c;

    start(8);
    c = dial(agent_tls[0]);
    assert_int_equal(say_hello(c, &hello, &greeting), RPC_OK);
    tls_config_identity(agent_tls[0], &own);
    assert_true(own.not_after_ns > 0);
    assert_int_equal(host_now(gen[0]).not_after_ns, own.not_after_ns);
    rpc_client_close(c);
}

static void pass(int64_t seconds)
{
    atomic_fetch_add(&clock_ns, seconds * CLK_S);
}

static void of_two_machines_with_one_identity_the_later_is_refused(void **state)
{
    struct wire_hello first = hello_of(gen[0]), second = first;
    struct wire_hello_reply greeting;
    struct wire_push_reply ack;
    struct rpc_client *c[2];
    struct rig_batch b[3];

    second.boot.b[3] ^= 1;
    second.stream++;
    for (size_t i = 0; i < 3; i++) {
        rig_batch_as(&b[i], gen[0], 1, i == 1 ? second.stream : first.stream, 1 + i / 2);
    }
    start(8);
    c[0] = dial(agent_tls[0]);
    c[1] = dial(agent_tls[0]);
    assert_int_equal(say_hello(c[0], &first, &greeting), RPC_OK);
    pass(10);
    assert_int_equal(say_hello(c[1], &second, &greeting), RPC_OK); /* a restart, it seems */
    pass(5);
    assert_int_equal(push(c[0], &b[0], &ack), RPC_OK); /* may have been under way */
    assert_int_equal(push(c[1], &b[1], &ack), RPC_RESOURCE_EXHAUSTED);
    assert_int_equal(stats_now().waiting, 1);
    assert_int_equal(host_now(gen[0]).clones, 0);
    pass(10);
    assert_int_equal(push(c[0], &b[2], &ack), RPC_OK);
    assert_int_equal(host_now(gen[0]).clones, 1);
    assert_int_equal(push(c[1], &b[1], &ack), RPC_FAILED_PRECONDITION);
    assert_int_equal(say_hello(c[1], &second, &greeting), RPC_FAILED_PRECONDITION);
    assert_int_equal(stats_now().clones, 2);
    assert_int_equal(rig_count_all(&rig), 2);
    pass(601); /* the first has gone */
    assert_int_equal(push(c[1], &b[1], &ack), RPC_OK);
    assert_int_equal(host_now(gen[0]).clones, 0);
    for (size_t i = 0; i < 3; i++) {
        rig_batch_fini(&b[i]);
    }
    rpc_client_close(c[0]);
    rpc_client_close(c[1]);
}

static void a_restart_of_the_collector_does_not_make_the_clone_the_host(void **state)
{
    struct wire_hello first = hello_of(gen[0]), second = first;
    struct wire_hello_reply greeting;
    struct wire_push_reply ack;
    struct rpc_client *c[2];
    struct rig_batch b;

    second.boot.b[3] ^= 1;
    rig_batch(&b, gen[0], 10);
    atomic_store(&clock_ns, b.received_ns);
    start(8);
    c[0] = dial(agent_tls[0]);
    assert_int_equal(push(c[0], &b, &ack), RPC_OK);
    rpc_client_close(c[0]);
    rpc_server_stop(server);
    session_destroy(session);
    rig_close(&rig);
    pass(20);
    start(8);
    c[0] = dial(agent_tls[0]);
    c[1] = dial(agent_tls[0]);
    assert_int_equal(say_hello(c[1], &second, &greeting), RPC_OK); /* it is the first to come */
    pass(20);
    assert_int_equal(say_hello(c[0], &first, &greeting), RPC_OK);
    assert_int_equal(say_hello(c[1], &second, &greeting), RPC_FAILED_PRECONDITION);
    rig_batch_fini(&b);
    rpc_client_close(c[0]);
    rpc_client_close(c[1]);
}

static void recordings_of_one_host_may_be_played_at_once(void **state)
{
    struct wire_hello first = hello_of(gen[0]), second = first;
    struct wire_hello_reply greeting;
    struct rpc_client *c[2];

    (void)snprintf(first.source, sizeof first.source, "etl");
    second = first;
    second.boot.b[3] ^= 1;
    start(8);
    c[0] = dial(agent_tls[0]);
    c[1] = dial(agent_tls[0]);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(say_hello(c[0], &first, &greeting), RPC_OK);
        pass(20);
        assert_int_equal(say_hello(c[1], &second, &greeting), RPC_OK);
        pass(20);
    }
    assert_int_equal(host_now(gen[0]).clones, 0);
    rpc_client_close(c[0]);
    rpc_client_close(c[1]);
}

static void a_number_with_other_content_is_no_duplicate(void **state)
{
    struct wire_push_reply ack;
    struct rpc_client *c;
    struct rig_batch b, other;

    start(8);
    c = dial(agent_tls[0]);
    rig_batch_as(&b, gen[0], 10, 5, 1);
    rig_batch_as(&other, gen[0], 10, 5, 1);
    atomic_store(&clock_ns, other.received_ns);
    assert_int_equal(push(c, &b, &ack), RPC_OK);
    assert_int_equal(push(c, &other, &ack), RPC_ALREADY_EXISTS);
    assert_int_equal(push(c, &b, &ack), RPC_OK);
    assert_true(ack.duplicate);
    assert_int_equal(rig_count_all(&rig), 1);
    assert_int_equal(stats_now().conflicts, 1);
    assert_int_equal(host_now(gen[0]).conflicts, 1);
    assert_int_equal(host_now(gen[0]).clones, 1);
    pass(601);
    assert_int_equal(host_now(gen[0]).clones, 0);
    rig_batch_fini(&b);
    rig_batch_fini(&other);
    rpc_client_close(c);
}

static void a_failed_log_is_told_as_unavailable_and_too_old_for_good(void **state)
{
    struct wire_push_reply ack;
    struct rpc_client *c;
    struct rig_batch b, old;
    struct fio_fault *f;

    assert_ok(fio_fault_create(&f));
    rig.conf.fio = fio_fault_fio(f);
    start(8);
    c = dial(agent_tls[0]);
    rig_batch(&old, gen[0], 10);
    rig_batch(&b, gen[0], 10);
    atomic_store(&clock_ns, old.received_ns + rig.conf.accept_age_ns);
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

    start(8);
    c = dial(other_tls);
    buf_init(&request, 4096);
    buf_init(&answer, 4096);
    assert_ok(wire_rpc_hello_encode(&request, &hello));
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
        T(no_batch_is_refused_for_its_hosts_clock),
        T(a_batch_before_any_hello_is_stored_with_no_clock),
        T(a_jump_of_the_hosts_clock_is_known_with_its_next_call),
        T(hosts_beyond_the_limit_wait_for_a_place),
        T(a_heartbeat_bounds_the_offset_by_the_round_trip_before),
        T(a_heartbeat_without_a_hello_tells_no_clock),
        T(the_end_of_the_certificate_is_known),
        T(of_two_machines_with_one_identity_the_later_is_refused),
        T(a_restart_of_the_collector_does_not_make_the_clone_the_host),
        T(recordings_of_one_host_may_be_played_at_once),
        T(a_number_with_other_content_is_no_duplicate),
        T(a_failed_log_is_told_as_unavailable_and_too_old_for_good),
        T(other_roles_do_not_get_in),
        cmocka_unit_test(creating_survives_every_allocation_failing),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
