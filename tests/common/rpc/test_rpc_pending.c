/* Calls whose end is told, and news of the connection: over real sockets. */
#include "common/rpc/rpc.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/wire/wire_query.h"
#include "tests/support/net_rig.h"
#include "tests/support/raw_peer.h"
#include "tests/support/t.h"

#define LONG_NS (20 * CLK_S)
#define SEVERAL 8

static struct certs *pki;
static struct tls_config *collector, *query;

/* Who is woken: counts, and lets a test wait for it. */
struct bell {
    struct os_mutex *lock;
    struct os_cond *rung;
    unsigned n;
};

static struct bell bell;

static void ring(void *ctx)
{
    struct bell *b = ctx;

    os_mutex_lock(b->lock);
    b->n++;
    os_cond_wake_all(b->rung);
    os_mutex_unlock(b->lock);
}

static void wait_ended(const struct rpc_pending *p)
{
    int64_t until_ns = os_mono_ns() + LONG_NS;

    os_mutex_lock(bell.lock);
    while (!rpc_client_ended(p)) {
        assert_ok(os_cond_wait_until(bell.rung, until_ns));
    }
    os_mutex_unlock(bell.lock);
}

static void echo(void *ctx, struct rpc_call *c)
{
    size_t n;
    const uint8_t *p = rpc_call_payload(c, &n);

    (void)ctx;
    rpc_answer(c, p, n, NULL);
}

/* Keeps the calls for the test to answer. */
static struct rpc_call *_Atomic kept[SEVERAL];
static atomic_uint n_kept;

static void keep(void *ctx, struct rpc_call *c)
{
    (void)ctx;
    atomic_store(&kept[atomic_fetch_add(&n_kept, 1)], c);
}

static void wait_kept(unsigned n)
{
    int64_t until_ns = os_mono_ns() + LONG_NS;

    while (atomic_load(&n_kept) < n || !atomic_load(&kept[n - 1])) {
        assert_true(os_mono_ns() < until_ns);
        os_sleep_ns(CLK_MS);
    }
}

static struct rpc_server *start(const char *address)
{
    static const struct rpc_method methods[] = {{RPC_QUERY_TOP, NET_QUERY, echo, NULL},
                                                {RPC_QUERY_EVENTS, NET_QUERY, keep, NULL}};
    struct rpc_server_conf conf = {.net = {.name = "query",
                                           .address = address,
                                           .tls = collector,
                                           .roles = NET_QUERY,
                                           .receive_max = 64 << 10,
                                           .contexts = 16,
                                           .per_peer = 16},
                                   .methods = methods,
                                   .n_methods = COUNT_OF(methods),
                                   .workers = 1,
                                   .queue = 16,
                                   .raw_max = 4096,
                                   .default_timeout_ns = LONG_NS};
    struct errmsg why = {""};
    struct rpc_server *s = NULL;

    memset(kept, 0, sizeof kept);
    atomic_store(&n_kept, 0);
    if (rpc_server_start(&s, &conf, &why)) {
        fail_msg("%s", why.text);
    }
    return s;
}

static struct rpc_client *dial(unsigned port)
{
    char address[32];
    struct net_client_conf conf = {
        .address = address, .tls = query, .receive_max = 1 << 20, .reconnect_min_ns = 10 * CLK_MS};
    struct rpc_client *c = NULL;

    (void)snprintf(address, sizeof address, "127.0.0.1:%u", port);
    assert_ok(rpc_client_open(&c, &conf, "test/1", NULL));
    return c;
}

static struct rpc_pending *begin(struct rpc_client *c, const char *method, const char *text,
                                 int64_t timeout_ns)
{
    struct rpc_pending *p = NULL;

    assert_ok(
        rpc_client_begin(&p, c, method, FRAME_RAW, text, strlen(text), timeout_ns, ring, &bell));
    return p;
}

/* Finishes; the answer in *reply. */
static enum err finish(struct rpc_pending *p, struct buf *reply)
{
    buf_reset(reply);
    wait_ended(p);
    return rpc_client_finish(p, reply, NULL, NULL);
}

static void several_calls_are_under_way_and_end_in_any_order(void **state)
{
    struct rpc_server *s = start("127.0.0.1:0");
    struct rpc_client *c = dial(rpc_server_port(s));
    struct rpc_pending *late = begin(c, RPC_QUERY_EVENTS, "late", LONG_NS), *more[SEVERAL];
    struct buf reply;
    int64_t took_ns = 0;

    buf_init(&reply, 4096);
    for (char i = 0; i < SEVERAL; i++) {
        more[(int)i] = begin(c, RPC_QUERY_TOP, (char[]){(char)('a' + i), 0}, LONG_NS);
    }
    for (char i = SEVERAL; i-- > 0;) {
        assert_ok(finish(more[(int)i], &reply));
        assert_string_equal(buf_cstr(&reply), ((char[]){(char)('a' + i), 0}));
    }
    wait_kept(1);
    assert_false(rpc_client_ended(late));
    rpc_answer(atomic_load(&kept[0]), "now", 3, NULL);
    wait_ended(late);
    buf_reset(&reply);
    assert_ok(rpc_client_finish(late, &reply, NULL, &took_ns));
    assert_string_equal(buf_cstr(&reply), "now");
    assert_true(took_ns > 0 && took_ns < LONG_NS);
    buf_fini(&reply);
    rpc_client_close(c);
    rpc_server_stop(s);
}

static void a_call_ends_when_its_time_is_over(void **state)
{
    struct rpc_server *s = start("127.0.0.1:0");
    struct rpc_client *c = dial(rpc_server_port(s));
    struct buf reply;

    buf_init(&reply, 4096);
    assert_ok(rpc_client_wait(c, LONG_NS, NULL));
    assert_err(finish(begin(c, RPC_QUERY_EVENTS, "x", 30 * CLK_MS), &reply), ERR_TIMEOUT);
    buf_fini(&reply);
    rpc_client_close(c);
    wait_kept(1);
    rpc_answer(atomic_load(&kept[0]), "", 0, NULL);
    rpc_server_stop(s);
}

static void a_call_ends_with_its_connection_and_the_next_one_is_another(void **state)
{
    struct rpc_server *s = start("127.0.0.1:0");
    struct rpc_client *c = dial(rpc_server_port(s));
    struct rpc_pending *p;
    struct buf reply;
    uint64_t first;

    buf_init(&reply, 4096);
    assert_int_equal(rpc_client_connection(c), 0);
    assert_ok(rpc_client_wait(c, LONG_NS, NULL));
    first = rpc_client_connection(c);
    assert_int_equal(first, 1);
    p = begin(c, RPC_QUERY_EVENTS, "x", LONG_NS);
    wait_kept(1);
    rpc_client_redial(c);
    assert_err(finish(p, &reply), ERR_UNREACHABLE);
    p = begin(c, RPC_QUERY_TOP, "again", LONG_NS); /* waits for the next connection */
    assert_ok(finish(p, &reply));
    assert_int_equal(rpc_client_connection(c), 2);
    rpc_answer(atomic_load(&kept[0]), "", 0, NULL);
    buf_fini(&reply);
    rpc_client_close(c);
    rpc_server_stop(s);
}

static void hanging_up_ends_calls_at_every_stage(void **state)
{
    struct rpc_server *s = start("127.0.0.1:0");
    unsigned port = rpc_server_port(s);
    struct rpc_client *c = dial(port);
    struct rpc_pending *sent = begin(c, RPC_QUERY_EVENTS, "x", LONG_NS), *unsent, *none;
    struct buf reply;

    buf_init(&reply, 4096);
    wait_kept(1);
    rpc_client_hang_up(c);
    assert_err(finish(sent, &reply), ERR_CLOSED);
    assert_err(rpc_client_begin(&none, c, RPC_QUERY_TOP, FRAME_RAW, "x", 1, LONG_NS, ring, &bell),
               ERR_CLOSED);
    rpc_client_close(c);
    rpc_answer(atomic_load(&kept[0]), "", 0, NULL);
    rpc_server_stop(s);
    c = dial(port); /* nobody listens any more */
    unsent = begin(c, RPC_QUERY_TOP, "x", LONG_NS);
    rpc_client_hang_up(c);
    assert_err(finish(unsent, &reply), ERR_CLOSED);
    buf_fini(&reply);
    rpc_client_close(c);
}

static unsigned rung(void)
{
    unsigned n;

    os_mutex_lock(bell.lock);
    n = bell.n;
    os_mutex_unlock(bell.lock);
    return n;
}

static void wait_connection(struct rpc_client *c, bool stands)
{
    int64_t until_ns = os_mono_ns() + LONG_NS;
    unsigned n = rung();

    while ((rpc_client_connection(c) > 0) != stands) {
        os_mutex_lock(bell.lock);
        while (bell.n == n) {
            assert_ok(os_cond_wait_until(bell.rung, until_ns));
        }
        n = bell.n;
        os_mutex_unlock(bell.lock);
    }
}

static void whoever_watches_hears_of_connections(void **state)
{
    struct rpc_server *s = start("127.0.0.1:0");
    struct rpc_client *c = dial(rpc_server_port(s));
    struct errmsg why;
    char address[32];
    unsigned n;

    (void)snprintf(address, sizeof address, "127.0.0.1:%u", rpc_server_port(s));
    assert_ok(rpc_client_wait(c, LONG_NS, NULL));
    rpc_client_watch(c, ring, &bell);
    rpc_client_redial(c);
    wait_connection(c, false);
    wait_connection(c, true);
    assert_ok(rpc_client_fault(c, &why));
    rpc_server_stop(s);
    wait_connection(c, false);
    assert_err(rpc_client_fault(c, &why), ERR_UNREACHABLE);
    assert_non_null(strstr(why.text, "lost"));
    rpc_client_watch(c, NULL, NULL);
    n = rung();
    s = start(address);
    while (rpc_client_wait(c, LONG_NS, NULL)) {
    }
    assert_int_equal(rung(), n);
    rpc_client_close(c);
    rpc_server_stop(s);
}

/* One that takes a connection and says nothing. */
static struct {
    atomic_uint port;
    atomic_bool taken;
    struct raw_peer *peer;
} mute;

static void mute_ready(void *ctx, unsigned port)
{
    (void)ctx;
    atomic_store(&mute.port, port);
}

static void mute_accept(void *arg)
{
    (void)arg;
    assert_ok(raw_peer_accept(&mute.peer, mute_ready, NULL));
    atomic_store(&mute.taken, true);
}

static atomic_bool closed;
static atomic_uint late;

static void ring_or_be_late(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&late, atomic_load(&closed));
}

static void nobody_is_told_after_the_close(void **state)
{
    for (int i = 0; i < 30; i++) {
        struct os_thread *thread;
        struct rpc_client *c;

        atomic_store(&mute.port, 0);
        atomic_store(&mute.taken, false);
        atomic_store(&closed, false);
        assert_ok(os_thread_start(&thread, "mute", mute_accept, NULL));
        while (!atomic_load(&mute.port)) {
            os_sleep_ns(CLK_MS);
        }
        c = dial(atomic_load(&mute.port));
        rpc_client_watch(c, ring_or_be_late, NULL);
        while (!atomic_load(&mute.taken)) {
            os_sleep_ns(CLK_MS);
        }
        rpc_client_close(c); /* in the middle of the handshake, which has failed thereby */
        atomic_store(&closed, true);
        os_thread_join(thread);
        assert_true(raw_peer_is_closed(mute.peer, 20000));
        raw_peer_close(mute.peer);
    }
    assert_int_equal(atomic_load(&late), 0);
}

static void beginning_survives_every_failing_allocation(void **state)
{
    struct rpc_server *s = start("127.0.0.1:0");
    struct rpc_client *c = dial(rpc_server_port(s));
    struct rpc_pending *p = NULL;
    struct buf reply;
    enum err e = ERR_NOMEM;
    long n;

    buf_init(&reply, 4096);
    for (n = 0; e; n++) {
        mem_fail_after(n);
        e = rpc_client_begin(&p, c, RPC_QUERY_TOP, FRAME_RAW, "x", 1, LONG_NS, ring, &bell);
        mem_fail_after(-1);
        assert_true(n < 100);
    }
    assert_true(n > 2);
    assert_ok(finish(p, &reply));
    buf_fini(&reply);
    rpc_client_close(c);
    rpc_server_stop(s);
}

static int set_up(void **state)
{
    assert_ok(os_mutex_create(&bell.lock));
    assert_ok(os_cond_create(&bell.rung, bell.lock));
    net_rig_begin(&pki, NULL);
    collector = certs_tls(pki, PKI_COLLECTOR, "collector");
    query = certs_tls(pki, PKI_QUERY, "query");
    return 0;
}

static int tear_down(void **state)
{
    os_cond_destroy(bell.rung);
    os_mutex_destroy(bell.lock);
    return net_rig_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_calls_are_under_way_and_end_in_any_order),
        cmocka_unit_test(a_call_ends_when_its_time_is_over),
        cmocka_unit_test(a_call_ends_with_its_connection_and_the_next_one_is_another),
        cmocka_unit_test(hanging_up_ends_calls_at_every_stage),
        cmocka_unit_test(whoever_watches_hears_of_connections),
        cmocka_unit_test(nobody_is_told_after_the_close),
        cmocka_unit_test(beginning_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
