/* Who holds a connection without belonging, or for too long: each is dealt with, and counted. */
#include <string.h>

#include "common/net/conn_limits.h"
#include "common/os/os.h"
#include "tests/support/net_rig.h"
#include "tests/support/raw_peer.h"
#include "tests/support/t.h"

#define LONG_MS    30000u
#define HALF_HELLO "\x16\x03\x01\x02\x00\x01"

static struct certs *pki;
static struct tls_config *collector, *agent, *query;

/* -- a server that echoes, or holds what it is asked -- */

struct rig {
    struct net_rig net; /* first */
    atomic_bool holds;
    _Atomic(struct net_request *) held;
};

static void on_request(void *ctx, struct net_request *r)
{
    struct rig *g = ctx;

    if (atomic_load(&g->holds)) {
        atomic_store(&g->held, r);
    } else {
        net_rig_echo(&g->net, r);
    }
}

static void rig_start(struct rig *g, struct net_server_conf conf)
{
    conf.tls = collector;
    conf.roles = NET_AGENT;
    conf.on_request = on_request;
    atomic_init(&g->holds, false);
    atomic_init(&g->held, NULL);
    net_rig_start(&g->net, &conf);
}

static enum err ask(struct net_client *c)
{
    return net_rig_ask(c, NET_RIG_LONG_NS);
}

/* Somebody who begins the handshake and does not go on. */
static struct raw_peer *half(const struct rig *g)
{
    struct raw_peer *p = NULL;

    assert_ok(raw_peer_connect(&p, net_server_port(g->net.server)));
    err_ignore(raw_peer_send(p, HALF_HELLO, sizeof HALF_HELLO - 1)); /* it may be closed already */
    return p;
}

/* -- strangers that hold every place and come back at once -- */

enum { STRANGERS = 24, PLACES = 8 }; /* half as many more are taken while room is made */

struct strangers {
    struct rig *rig;
    atomic_bool ends;
    atomic_int came;
};

static void hold_every_place(void *arg)
{
    struct strangers *s = arg;
    struct raw_peer *p[STRANGERS] = {NULL};

    while (!atomic_load(&s->ends)) {
        for (size_t i = 0; i < STRANGERS; i++) {
            if (p[i] && !raw_peer_is_closed(p[i], 1)) {
                continue;
            }
            raw_peer_close(p[i]);
            p[i] = NULL;
            if (raw_peer_connect(&p[i], net_server_port(s->rig->net.server)) == ERR_OK) {
                err_ignore(raw_peer_send(p[i], HALF_HELLO, sizeof HALF_HELLO - 1));
                atomic_fetch_add(&s->came, 1);
            }
        }
    }
    for (size_t i = 0; i < STRANGERS; i++) {
        raw_peer_close(p[i]);
    }
}

static void strangers_that_hold_every_place_keep_nobody_out(void **state)
{
    struct rig g;
    struct strangers s = {.rig = &g};
    struct net_server_stats stats;
    struct os_thread *t;
    int64_t begun_ns;

    rig_start(&g, (struct net_server_conf){.handshakes_max = PLACES});
    assert_ok(os_thread_start(&t, "strangers", hold_every_place, &s));
    net_rig_await(&s.came, 2 * STRANGERS);
    begun_ns = os_mono_ns();
    for (int i = 0; i < 3; i++) {
        struct net_client *c = net_rig_dial(g.net.address, agent);

        while (ask(c) != ERR_OK) { /* it comes again, as they do */
            assert_true(os_mono_ns() - begun_ns < NET_RIG_LONG_NS);
        }
        net_client_close(c);
    }
    print_message("three times through %d connections: %d ms\n", atomic_load(&s.came),
                  (int)((os_mono_ns() - begun_ns) / CLK_MS));
    do { /* some are sent away for it, and some find no place */
        stats = net_rig_stats(&g.net);
        assert_true(os_mono_ns() - begun_ns < NET_RIG_LONG_NS);
    } while (stats.handshake == 0 || stats.crowded == 0);
    atomic_store(&s.ends, true);
    os_thread_join(t);
    assert_true(atomic_load(&g.net.joined) >= 3);
    net_rig_stop(&g.net);
}

static void places_that_nobody_needs_are_kept(void **state)
{
    struct rig g;
    struct raw_peer *p[PLACES];

    rig_start(&g, (struct net_server_conf){.handshakes_max = PLACES});
    for (size_t i = 0; i < COUNT_OF(p); i++) {
        p[i] = half(&g);
    }
    for (size_t i = 0; i < COUNT_OF(p); i++) {
        assert_false(
            raw_peer_is_closed(p[i], 500)); /* together longer than a stalled one may stay */
    }
    assert_int_equal(net_rig_stats(&g.net).crowded, 0);
    for (size_t i = 0; i < COUNT_OF(p); i++) {
        raw_peer_close(p[i]);
    }
    net_rig_stop(&g.net);
}

/* -- the rules by themselves: no one is closed here, so none needs a stream -- */

static void who_waits_for_us_is_not_sent_away(void **state)
{
    const struct conn_limits_conf conf = {.waiting_max = PLACES};
    struct conn_limits_member m[PLACES + PLACES / 2 + 2];
    const size_t most = COUNT_OF(m) - 1;
    struct conn_limits *c = NULL;

    memset(m, 0, sizeof m);
    assert_ok(conn_limits_create(&c, &conf));
    for (size_t i = 0; i < most; i++) {
        assert_null(conn_limits_enter(c, &m[i], NULL, "192.0.2.1:1"));
    }
    assert_non_null(conn_limits_enter(c, &m[most], NULL, "192.0.2.2:1"));
    /* They stalled for three seconds; but what arrives waits for two with us. */
    assert_true(conn_limits_clear(c, os_mono_ns() + 3 * CLK_S, 2 * CLK_S));
    for (size_t i = 0; i < most; i++) {
        conn_limits_let_in(&m[i]);
    }
    assert_false(conn_limits_clear(c, os_mono_ns() + 3600 * CLK_S, 0)); /* those inside may stay */
    assert_null(conn_limits_enter(c, &m[most], NULL, "192.0.2.2:1"));
    for (size_t i = 0; i < COUNT_OF(m); i++) {
        assert_null(conn_limits_leave(&m[i]));
    }
    conn_limits_release(c);
}

static void addresses_are_told_apart_by_what_their_owner_cannot_choose(void **state)
{
    static const struct {
        const char *first, *second;
        bool same;
    } rows[] = {
        {"192.0.2.1:1000", "192.0.2.1:2000", true},
        {"192.0.2.1:1000", "192.0.2.10:1000", false},
        {"192.0.2.1:1000", "192.0.2.2:1000", false},
        {"[2001:db8:1:2:3:4:5:6]:1000", "[2001:db8:1:2:9:9:9:9]:2000", true},
        {"[2001:db8:1:2:3:4:5:6]:1000", "[2001:db8:1:20:3:4:5:6]:1000", false},
        {"[2001:db8:1:2:3:4:5:6]:1000", "[2001:db8:1:3:3:4:5:6]:1000", false},
        {"?", "?", true},
    };
    const struct conn_limits_conf conf = {.waiting_max = PLACES, .same_address_max = 1};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct conn_limits_member m[2];
        struct conn_limits *c = NULL;

        memset(m, 0, sizeof m);
        assert_ok(conn_limits_create(&c, &conf));
        assert_null(conn_limits_enter(c, &m[0], NULL, rows[i].first));
        assert_int_equal(conn_limits_enter(c, &m[1], NULL, rows[i].second) != NULL, rows[i].same);
        assert_null(conn_limits_leave(&m[0]));
        assert_null(conn_limits_leave(&m[1]));
        conn_limits_release(c);
    }
}

/* -- one address -- */

static void an_address_has_so_many_connections_and_no_more(void **state)
{
    struct rig g;
    struct raw_peer *first;
    struct net_client *second, *third;
    int64_t until_ns = os_mono_ns() + NET_RIG_LONG_NS;
    struct errmsg why;

    rig_start(&g, (struct net_server_conf){.same_address_max = 2});
    first = half(&g);
    second = net_rig_dial(g.net.address, agent);
    assert_ok(ask(second));
    third = net_rig_dial(g.net.address, agent);
    assert_err(net_client_wait(third, NET_RIG_LONG_NS, &why), ERR_UNREACHABLE);
    assert_true(net_rig_stats(&g.net).crowded >= 1);
    raw_peer_close(first); /* makes room */
    while (!net_client_connected(third)) {
        assert_true(os_mono_ns() < until_ns);
        os_sleep_ns(CLK_MS);
    }
    assert_ok(ask(third));
    assert_ok(ask(second));
    net_client_close(second);
    net_client_close(third);
    net_rig_stop(&g.net);
}

/* -- those inside -- */

static void a_connection_ends_within_a_second_of_its_certificate(void **state)
{
    struct pki_issue what = {.use = PKI_AGENT, .name = "brief", .life_ns = 3 * CLK_S};
    struct tls_config *brief;
    struct net_identity who;
    struct net_client *c, *other;
    struct rig g;

    rig_start(&g, (struct net_server_conf){.silent_ns = 0});
    certs_issue_as(pki, &what);
    brief = certs_load(pki, "brief", pki, false);
    tls_config_identity(brief, &who);
    c = net_rig_dial(g.net.address, brief);
    other = net_rig_dial(g.net.address, agent);
    assert_ok(ask(c));
    assert_ok(ask(other));
    net_rig_await(&g.net.left, 1);
    assert_true(os_utc_ns() > who.not_after_ns);
    assert_true(os_utc_ns() < who.not_after_ns + 2 * CLK_S + CLK_S / 2); /* a second, and luck */
    assert_int_equal(net_rig_stats(&g.net).expired > 0, 1);
    assert_ok(ask(other));
    assert_int_equal(atomic_load(&g.net.left), 1);
    net_client_close(c);
    net_client_close(other);
    tls_config_free(brief);
    net_rig_stop(&g.net);
}

static void who_says_nothing_for_too_long_is_closed(void **state)
{
    struct rig g;
    struct net_client *silent, *talking, *waiting;
    struct buf reply;

    rig_start(&g, (struct net_server_conf){.silent_ns = 1500 * CLK_MS});
    silent = net_rig_dial(g.net.address, agent);
    assert_ok(ask(silent));
    talking = net_rig_dial(g.net.address, agent);
    waiting = net_rig_dial(g.net.address, agent);
    assert_ok(ask(talking));
    assert_ok(net_client_wait(waiting, NET_RIG_LONG_NS, NULL));
    atomic_store(&g.holds, true);
    buf_init(&reply, 100);
    assert_err(net_client_call(waiting, "x", 1, 200 * CLK_MS, &reply), ERR_TIMEOUT);
    buf_fini(&reply);
    while (!atomic_load(&g.held)) { /* whoever waits for us is not silent */
        os_sleep_ns(CLK_MS);
    }
    atomic_store(&g.holds, false);
    while (atomic_load(&g.net.left) == 0) {
        assert_ok(ask(talking));
        os_sleep_ns(20 * CLK_MS);
    }
    assert_true(net_rig_stats(&g.net).silent == 1);
    assert_ok(ask(talking));
    assert_int_equal(atomic_load(&g.net.left), 1);
    net_server_drop(atomic_load(&g.held));
    net_client_close(silent);
    net_client_close(talking);
    net_client_close(waiting);
    net_rig_stop(&g.net);
}

/* -- counters -- */

static void every_refusal_is_counted_under_its_cause(void **state)
{
    struct rig g;
    struct net_client *wrong;
    struct raw_peer *garbage;
    int64_t until_ns = os_mono_ns() + NET_RIG_LONG_NS;
    struct errmsg why;

    rig_start(&g, (struct net_server_conf){.silent_ns = 0});
    wrong = net_rig_dial(g.net.address, query);
    assert_err(net_client_wait(wrong, NET_RIG_LONG_NS, &why), ERR_TRUST);
    net_client_close(wrong);
    while (net_rig_stats(&g.net).role < 1) { /* the client may hear of it first */
        assert_true(os_mono_ns() < until_ns);
        os_sleep_ns(CLK_MS);
    }
    assert_int_equal(net_rig_stats(&g.net).handshake, 0);
    assert_ok(raw_peer_connect(&garbage, net_server_port(g.net.server)));
    assert_ok(raw_peer_send(garbage, "GET / HTTP/1.0\r\n\r\n", 18));
    assert_true(raw_peer_is_closed(garbage, LONG_MS));
    while (net_rig_stats(&g.net).handshake < 1) {
        assert_true(os_mono_ns() < until_ns);
        os_sleep_ns(CLK_MS);
    }
    raw_peer_close(garbage);
    assert_int_equal(net_rig_stats(&g.net).admitted, 0);
    net_rig_stop(&g.net);
}

static int set_up(void **state)
{
    net_rig_begin(&pki, NULL);
    collector = certs_tls(pki, PKI_COLLECTOR, "collector");
    agent = certs_tls(pki, PKI_AGENT, "agent");
    query = certs_tls(pki, PKI_QUERY, "query");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_that_hold_every_place_keep_nobody_out),
        cmocka_unit_test(places_that_nobody_needs_are_kept),
        cmocka_unit_test(who_waits_for_us_is_not_sent_away),
        cmocka_unit_test(addresses_are_told_apart_by_what_their_owner_cannot_choose),
        cmocka_unit_test(an_address_has_so_many_connections_and_no_more),
        cmocka_unit_test(a_connection_ends_within_a_second_of_its_certificate),
        cmocka_unit_test(who_says_nothing_for_too_long_is_closed),
        cmocka_unit_test(every_refusal_is_counted_under_its_cause),
    };

    return cmocka_run_group_tests(tests, set_up, net_rig_end);
}
