#include "common/net/net.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/net_rig.h"
#include "tests/support/t.h"

#define LONG_NS (20 * CLK_S)

static struct certs *pki;
static struct tls_config *collector, *agent, *query, *subscriber, *scoped;

/* -- a server that answers with what it was sent, behind a prefix -- */

static atomic_int joined, left, seen;

static void on_peer(void *ctx, const struct net_identity *who, bool connected)
{
    (void)ctx;
    assert_true(who->name[0] != '\0');
    atomic_fetch_add(connected ? &joined : &left, 1);
}

static void echo(void *ctx, struct net_request *r)
{
    const struct net_identity *who = net_server_peer(r);
    uint8_t out[4096];
    size_t n, head;
    const uint8_t *p = net_server_body(r, &n);

    (void)ctx;
    atomic_fetch_add(&seen, 1);
    head = (size_t)snprintf((char *)out, sizeof out, "%s:", who->name);
    if (n > sizeof out - head) {
        net_server_drop(r);
        return;
    }
    memcpy(out + head, p, n);
    net_server_reply(r, out, head + n);
}

static struct net_server *start(void (*on_request)(void *, struct net_request *), void *ctx)
{
    struct net_server_conf conf = {.name = "ingest",
                                   .address = "127.0.0.1:0",
                                   .tls = collector,
                                   .roles = NET_AGENT,
                                   .receive_max = 1024,
                                   .contexts = 8,
                                   .on_request = on_request,
                                   .on_peer = on_peer,
                                   .ctx = ctx};
    struct net_server *s = NULL;
    struct errmsg why = {""};

    if (net_server_start(&s, &conf, &why) != ERR_OK) {
        fail_msg("%s", why.text);
    }
    return s;
}

static const char *address_of(char text[32], unsigned port)
{
    snprintf(text, 32, "127.0.0.1:%u", port);
    return text;
}

static struct net_client *dial_as(unsigned port, struct tls_config *tls, bool wary)
{
    char address[32];
    struct net_client_conf conf = {.address = address_of(address, port),
                                   .tls = tls,
                                   .receive_max = 4096,
                                   .reconnect_min_ns = 20 * CLK_MS,
                                   .reconnect_max_ns = 100 * CLK_MS,
                                   .wary = wary};
    struct net_client *c = NULL;
    struct errmsg why = {""};

    if (net_client_open(&c, &conf, &why) != ERR_OK) {
        fail_msg("%s", why.text);
    }
    return c;
}

static struct net_client *dial(unsigned port, struct tls_config *tls)
{
    return dial_as(port, tls, false);
}

/* -- requests -- */

static void a_request_is_answered_and_its_sender_known(void **state)
{
    struct net_server *s = start(echo, NULL);
    struct net_client *c = dial(net_server_port(s), agent);
    struct buf reply;

    buf_init(&reply, 4096);
    assert_ok(net_client_call(c, "hello", 5, LONG_NS, &reply));
    assert_string_equal(buf_cstr(&reply), "agent:hello");
    assert_true(net_client_connected(c));
    buf_fini(&reply);
    net_client_close(c);
    net_server_stop(s);
    assert_int_equal(atomic_load(&joined), atomic_load(&left));
}

struct caller {
    struct net_client *c;
    enum err e;
    int good;
};

static void call_many(void *arg)
{
    struct caller *k = arg;

    for (int i = 0; i < 50 && !k->e; i++) {
        struct buf reply;
        char text[32], want[48];

        snprintf(text, sizeof text, "%p %d", arg, i);
        snprintf(want, sizeof want, "agent:%s", text);
        buf_init(&reply, 4096);
        k->e = net_client_call(k->c, text, strlen(text), LONG_NS, &reply);
        k->good += !k->e && strcmp(buf_cstr(&reply), want) == 0;
        buf_fini(&reply);
    }
}

static void threads_that_share_a_client_get_their_own_answers(void **state)
{
    struct net_server *s = start(echo, NULL);
    struct net_client *c = dial(net_server_port(s), agent);
    struct caller k[4] = {{.c = c}, {.c = c}, {.c = c}, {.c = c}};
    struct os_thread *threads[4];

    for (size_t i = 0; i < 4; i++) {
        assert_ok(os_thread_start(&threads[i], "caller", call_many, &k[i]));
    }
    for (size_t i = 0; i < 4; i++) {
        os_thread_join(threads[i]);
        assert_ok(k[i].e);
        assert_int_equal(k[i].good, 50);
    }
    net_client_close(c);
    net_server_stop(s);
}

static void hold(void *ctx, struct net_request *r)
{
    struct net_request *_Atomic *slot = ctx;

    atomic_store(slot, r);
}

static void a_call_that_is_not_answered_times_out(void **state)
{
    struct net_request *_Atomic held = NULL;
    struct net_server *s = start(hold, (void *)&held);
    struct net_client *c = dial(net_server_port(s), agent);
    struct buf reply;

    buf_init(&reply, 4096);
    assert_ok(net_client_wait(c, LONG_NS, NULL));
    assert_err(net_client_call(c, "x", 1, 300 * CLK_MS, &reply), ERR_TIMEOUT);
    while (!atomic_load(&held)) {
        os_sleep_ns(CLK_MS);
    }
    net_server_drop(atomic_load(&held));
    buf_fini(&reply);
    net_client_close(c);
    net_server_stop(s);
}

static void a_request_outlives_its_server(void **state)
{
    struct net_request *_Atomic held = NULL;
    struct net_server *s = start(hold, (void *)&held);
    struct net_client *c = dial(net_server_port(s), agent);
    struct buf reply;
    size_t n;

    buf_init(&reply, 4096);
    assert_ok(net_client_wait(c, LONG_NS, NULL));
    assert_err(net_client_call(c, "x", 1, 300 * CLK_MS, &reply), ERR_TIMEOUT);
    while (!atomic_load(&held)) {
        os_sleep_ns(CLK_MS);
    }
    net_server_stop(s);
    assert_int_equal(net_server_body(atomic_load(&held), &n)[0], 'x');
    assert_string_equal(net_server_peer(atomic_load(&held))->name, "agent");
    net_server_reply(atomic_load(&held), "y", 1);
    buf_fini(&reply);
    net_client_close(c);
}

struct stopping {
    struct net_server *server;
    struct net_request *_Atomic held;
};

static void stop_under_the_request(void *arg)
{
    struct stopping *s = arg;

    while (!atomic_load(&s->held)) {
        os_sleep_ns(CLK_MS);
    }
    net_server_stop(s->server);
    net_server_drop(atomic_load(&s->held));
}

static void a_lost_connection_ends_the_call_at_once(void **state)
{
    struct stopping stopping = {.held = NULL};
    struct os_thread *stopper;
    struct net_client *c;
    struct buf reply;
    int64_t begun = os_mono_ns();

    buf_init(&reply, 4096);
    stopping.server = start(hold, (void *)&stopping.held);
    c = dial(net_server_port(stopping.server), agent);
    assert_ok(os_thread_start(&stopper, "stopper", stop_under_the_request, &stopping));
    assert_err(net_client_call(c, "x", 1, LONG_NS, &reply), ERR_UNREACHABLE);
    assert_true(os_mono_ns() - begun < LONG_NS / 2);
    os_thread_join(stopper);
    buf_fini(&reply);
    net_client_close(c);
}

static void a_client_finds_a_server_that_comes_later(void **state)
{
    struct net_server *s = start(echo, NULL);
    unsigned port = net_server_port(s);
    int64_t until = os_mono_ns() + LONG_NS;
    struct net_client *c;
    struct buf reply;
    char address[32];
    struct net_server_conf conf = {.name = "ingest",
                                   .tls = collector,
                                   .roles = NET_AGENT,
                                   .receive_max = 1024,
                                   .contexts = 8,
                                   .on_request = echo};
    enum err e;

    buf_init(&reply, 4096);
    c = dial(port, agent);
    assert_ok(net_client_call(c, "1", 1, LONG_NS, &reply));
    net_server_stop(s);
    conf.address = address_of(address, port);
    assert_ok(net_server_start(&s, &conf, NULL));
    /* A call on the old connection, whose end was not seen yet, is lost with it. */
    do {
        buf_reset(&reply);
        e = net_client_call(c, "2", 1, LONG_NS, &reply);
    } while (e == ERR_UNREACHABLE && os_mono_ns() < until);
    assert_ok(e);
    assert_string_equal(buf_cstr(&reply), "agent:2");
    buf_fini(&reply);
    net_client_close(c);
    net_server_stop(s);
}

static void a_server_may_stop_while_clients_come_in(void **state)
{
    enum { ROUNDS = 15, CLIENTS = 4 };

    for (int round = 0; round < ROUNDS; round++) {
        struct net_server *s = start(echo, NULL);
        struct net_client *c[CLIENTS];
        int before = atomic_load(&joined);

        for (size_t i = 0; i < CLIENTS; i++) {
            c[i] = dial(net_server_port(s), agent);
        }
        while (round % 3 && atomic_load(&joined) < before + round % 3) {
            os_sleep_ns(CLK_MS);
        }
        net_server_stop(s); /* what is half way in must not leak */
        for (size_t i = 0; i < CLIENTS; i++) {
            net_client_close(c[i]);
        }
        assert_int_equal(atomic_load(&joined), atomic_load(&left));
    }
}

/* Of 40 pauses between 0 and 100 ms the sum is never below a second: a connection alone does not
 * make them short again, as it would between 0 and 20 ms. */
static void pauses_of_a_wary_client_grow_over_connections_of_no_use(void **state)
{
    struct net_server *s = start(echo, NULL);
    struct net_client *c = dial_as(net_server_port(s), agent, true);
    int64_t begun_ns = os_mono_ns(), end_ns = begun_ns + LONG_NS;
    int first = atomic_load(&joined);

    while (atomic_load(&joined) - first <= 40 && os_mono_ns() < end_ns) {
        (void)net_server_disconnect(s, "agent");
        os_sleep_ns(CLK_MS);
    }
    assert_true(os_mono_ns() - begun_ns > CLK_S);
    net_client_close(c);
    net_server_stop(s);
}

static void two_servers_cannot_share_a_port(void **state)
{
    struct net_server *s = start(echo, NULL);
    struct net_server *second;
    char address[32];
    struct errmsg why;
    struct net_server_conf conf = {.name = "ingest",
                                   .address = address_of(address, net_server_port(s)),
                                   .tls = collector,
                                   .receive_max = 1024,
                                   .on_request = echo};

    assert_err(net_server_start(&second, &conf, &why), ERR_BUSY);
    assert_non_null(strstr(why.text, address));
    net_server_stop(s);
}

static void bad_addresses_are_refused_with_a_hint(void **state)
{
    static const char *const rows[] = {"",       "host",     "host:", ":7420",     "host:70000",
                                       "host:x", "::1:7420", "a/b:1", "http://x:1"};
    struct net_client_conf conf = {.tls = agent, .receive_max = 10};
    struct net_client *c;
    struct errmsg why;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        conf.address = rows[i];
        assert_err(net_client_open(&c, &conf, &why), ERR_INVALID);
        assert_non_null(strstr(why.text, "host:port"));
    }
}

/* -- what an operator is told -- */

static void a_closed_port_is_told_as_such(void **state)
{
    struct net_server *s = start(echo, NULL);
    unsigned port = net_server_port(s);
    struct net_client *c;
    struct errmsg why;

    net_server_stop(s);
    c = dial(port, agent);
    assert_err(net_client_wait(c, LONG_NS, &why), ERR_UNREACHABLE);
    assert_non_null(strstr(why.text, "refused"));
    net_client_close(c);
}

static void a_client_without_the_right_role_hears_why(void **state)
{
    struct net_server *s = start(echo, NULL);
    struct net_client *c = dial(net_server_port(s), query);
    struct errmsg why;
    struct buf reply;
    int before = atomic_load(&joined);

    buf_init(&reply, 100);
    assert_err(net_client_call(c, "x", 1, LONG_NS, &reply), ERR_TRUST);
    net_client_problem(c, &why);
    assert_non_null(strstr(why.text, "role"));
    assert_int_equal(atomic_load(&joined), before);
    buf_fini(&reply);
    net_client_close(c);
    net_server_stop(s);
}

static void a_client_without_a_server_name_is_not_made(void **state)
{
    char ca[400];
    struct net_tls_conf conf = {.ca = ca,
                                .cert = certs_path(pki, "agent", ".pem"),
                                .key = certs_path(pki, "agent", ".key"),
                                .server_name = ""};
    struct tls_config *t;
    struct errmsg why;

    snprintf(ca, sizeof ca, "%s/ca.pem", certs_dir(pki));
    assert_err(tls_config_load(&t, &conf, false, &why), ERR_INVALID);
}

/* -- publishing -- */

static struct net_pub *start_pub(void)
{
    struct net_pub_conf conf = {.address = "127.0.0.1:0",
                                .tls = collector,
                                .roles = NET_SUBSCRIBE,
                                .refuse_scoped = true,
                                .queue = 100};
    struct net_pub *p = NULL;
    struct errmsg why = {""};

    if (net_pub_start(&p, &conf, &why) != ERR_OK) {
        fail_msg("%s", why.text);
    }
    return p;
}

static struct net_sub *subscribe(unsigned port, struct tls_config *tls, const char *topic)
{
    char address[32];
    struct net_sub_conf conf = {.address = address_of(address, port),
                                .tls = tls,
                                .receive_max = 1 << 20,
                                .topic = topic,
                                .topic_n = strlen(topic)};
    struct net_sub *s = NULL;

    assert_ok(net_sub_open(&s, &conf, NULL));
    return s;
}

static void a_subscriber_gets_its_topic_only(void **state)
{
    struct net_pub *p = start_pub();
    struct net_sub *s = subscribe(net_pub_port(p), subscriber, "event/");
    struct buf out;

    buf_init(&out, 1024);
    assert_ok(net_sub_wait(s, LONG_NS, NULL));
    while (net_pub_subscribers(p) == 0) {
        os_sleep_ns(CLK_MS);
    }
    /* The pipe joins the publisher a moment after it was let in: send until one arrives. */
    while (net_sub_receive(s, 20 * CLK_MS, &out) == ERR_TIMEOUT) {
        net_pub_send(p, (const struct str[]){str_make("sample/a"), str_make("event/a")}, 2);
    }
    assert_string_equal(buf_cstr(&out), "event/a");
    buf_fini(&out);
    net_sub_close(s);
    net_pub_stop(p);
}

/* Sizes around those of a record and of a group, and one behind them all. */
static const size_t message_sizes[] = {1,     7,     100,   16375, 16376,  16377, 3, 16384, 40000,
                                       65535, 65536, 65537, 2,     200000, 5,     9, 16368, 8};

enum { SIZES = sizeof message_sizes / sizeof *message_sizes, MESSAGES = 10 * SIZES };

static void messages_handed_over_together_arrive_one_by_one_and_in_order(void **state)
{
    static uint8_t bytes[200000 + MESSAGES];
    struct net_pub *p = start_pub();
    struct net_sub *s = subscribe(net_pub_port(p), subscriber, "");
    struct str list[MESSAGES];
    struct buf out;

    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 31 + i / 251);
    }
    for (size_t i = 0; i < MESSAGES; i++) {
        list[i] = (struct str){(const char *)bytes + i, message_sizes[i % SIZES]};
    }
    buf_init(&out, 1 << 20);
    assert_ok(net_sub_wait(s, LONG_NS, NULL));
    while (net_sub_receive(s, 20 * CLK_MS, &out) == ERR_TIMEOUT) {
        net_pub_send(p, (const struct str[]){str_make("hello")}, 1);
    }
    net_pub_send(p, list, MESSAGES);
    for (size_t i = 0; i < MESSAGES; i++) {
        do { /* what was sent while the first one was awaited comes before */
            buf_reset(&out);
            assert_ok(net_sub_receive(s, LONG_NS, &out));
        } while (i == 0 && out.n == 5);
        assert_int_equal(out.n, list[i].n);
        assert_memory_equal(out.p, list[i].p, out.n);
    }
    buf_fini(&out);
    net_sub_close(s);
    net_pub_stop(p);
}

static void a_client_at_the_wrong_port_is_told_so(void **state)
{
    struct net_server_conf conf = {.name = "query",
                                   .address = "127.0.0.1:0",
                                   .tls = collector,
                                   .roles = NET_SUBSCRIBE,
                                   .receive_max = 1024,
                                   .on_request = echo};
    struct net_server *s;
    struct net_sub *sub;
    struct errmsg why;

    assert_ok(net_server_start(&s, &conf, NULL));
    sub = subscribe(net_server_port(s), subscriber, "");
    assert_err(net_sub_wait(sub, LONG_NS, &why), ERR_UNREACHABLE);
    assert_non_null(strstr(why.text, "is the port right?"));
    net_sub_close(sub);
    net_server_stop(s);
}

static void a_scoped_subscriber_is_refused_and_told(void **state)
{
    struct net_pub *p = start_pub();
    struct net_sub *s = subscribe(net_pub_port(p), scoped, "");
    int64_t until = os_mono_ns() + LONG_NS;
    struct errmsg why;
    enum err e;

    /* The alert may be lost when the server's end is closed first: the next attempt hears it. */
    do {
        os_sleep_ns(CLK_MS);
        e = net_sub_wait(s, LONG_NS, &why);
    } while (e == ERR_UNREACHABLE && os_mono_ns() < until);
    assert_err(e, ERR_TRUST);
    assert_int_equal(net_pub_subscribers(p), 0);
    net_sub_close(s);
    net_pub_stop(p);
}

/* -- openers when memory is short -- */

static void a_server_that_cannot_start_leaves_nothing(void **state)
{
    struct net_server_conf conf = {.name = "ingest",
                                   .address = "127.0.0.1:0",
                                   .tls = collector,
                                   .roles = NET_AGENT,
                                   .receive_max = 1024,
                                   .contexts = 2,
                                   .on_request = echo};
    struct net_server *s = NULL;
    enum err e = ERR_NOMEM;

    for (long n = 0; e; n++) {
        assert_true(n < 100);
        mem_fail_after(n);
        e = net_server_start(&s, &conf, NULL);
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM);
    }
    net_server_stop(s);
}

static void a_client_that_cannot_open_leaves_nothing(void **state)
{
    struct net_client_conf conf = {.address = "127.0.0.1:1", .tls = agent, .receive_max = 1024};
    struct net_client *c = NULL;
    enum err e = ERR_NOMEM;

    for (long n = 0; e; n++) {
        assert_true(n < 100);
        mem_fail_after(n);
        e = net_client_open(&c, &conf, NULL);
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM);
    }
    net_client_close(c);
}

static int set_up(void **state)
{
    struct pki_issue what = {.use = PKI_SUBSCRIBE, .name = "scoped", .scope = "web-*"};

    net_rig_begin(&pki, NULL);
    collector = certs_tls(pki, PKI_COLLECTOR, "collector");
    agent = certs_tls(pki, PKI_AGENT, "agent");
    query = certs_tls(pki, PKI_QUERY, "query");
    subscriber = certs_tls(pki, PKI_SUBSCRIBE, "subscriber");
    certs_issue_as(pki, &what);
    scoped = certs_load(pki, "scoped", pki, false);
    return 0;
}

static int tear_down(void **state)
{
    tls_config_free(scoped);
    return net_rig_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_answered_and_its_sender_known),
        cmocka_unit_test(threads_that_share_a_client_get_their_own_answers),
        cmocka_unit_test(a_call_that_is_not_answered_times_out),
        cmocka_unit_test(a_request_outlives_its_server),
        cmocka_unit_test(a_lost_connection_ends_the_call_at_once),
        cmocka_unit_test(a_client_finds_a_server_that_comes_later),
        cmocka_unit_test(a_server_may_stop_while_clients_come_in),
        cmocka_unit_test(pauses_of_a_wary_client_grow_over_connections_of_no_use),
        cmocka_unit_test(two_servers_cannot_share_a_port),
        cmocka_unit_test(bad_addresses_are_refused_with_a_hint),
        cmocka_unit_test(a_closed_port_is_told_as_such),
        cmocka_unit_test(a_client_at_the_wrong_port_is_told_so),
        cmocka_unit_test(a_client_without_the_right_role_hears_why),
        cmocka_unit_test(a_client_without_a_server_name_is_not_made),
        cmocka_unit_test(a_subscriber_gets_its_topic_only),
        cmocka_unit_test(messages_handed_over_together_arrive_one_by_one_and_in_order),
        cmocka_unit_test(a_scoped_subscriber_is_refused_and_told),
        cmocka_unit_test(a_server_that_cannot_start_leaves_nothing),
        cmocka_unit_test(a_client_that_cannot_open_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
