/* Peers that say nothing, vanish, or come too often: nobody waits for them for ever, and they keep
 * nobody out. */
#include <stdio.h>
#include <string.h>

#include "common/os/os.h"
#include "common/os/uuid.h"
#include "tests/support/net_rig.h"
#include "tests/support/raw_peer.h"
#include "tests/support/t.h"

#define LONG_MS       30000u
#define HANDSHAKE_MIN (5 * CLK_S) /* a slow peer has at least so long */

static struct certs *pki;
static struct tls_config *collector, *agent;

/* -- a server that hands its requests to the test -- */

struct rig {
    struct net_rig net; /* first */
    _Atomic(struct net_request *) held[4];
    atomic_int requests;
};

static void hold(void *ctx, struct net_request *r)
{
    struct rig *g = ctx;

    atomic_store(&g->held[atomic_load(&g->requests)], r);
    atomic_fetch_add(&g->requests, 1);
}

static void rig_start_with(struct rig *g, unsigned handshakes_max)
{
    struct net_server_conf conf = {.tls = collector,
                                   .roles = NET_AGENT,
                                   .contexts = 1,
                                   .same_max = 3,
                                   .handshakes_max = handshakes_max,
                                   .on_request = hold};

    memset(g, 0, sizeof *g);
    net_rig_start(&g->net, &conf);
}

static void rig_start(struct rig *g)
{
    rig_start_with(g, 0);
}

static struct raw_peer *raw_client(const struct rig *g, const struct raw_cert *c)
{
    struct raw_peer *p = NULL;
    char greeting[8];

    assert_ok(raw_peer_connect(&p, net_server_port(g->net.server)));
    if (raw_peer_tls(p, false, c)) {
        raw_peer_close(p);
        return NULL;
    }
    assert_ok(raw_peer_send(p, "\0SP\0\0\x30\0\0", 8));
    assert_ok(raw_peer_read(p, greeting, sizeof greeting, LONG_MS));
    return p;
}

/* One with that certificate by hand, TLS and greetings done; NULL: it was turned away. */
static struct raw_peer *raw_holder(const struct rig *g, const char *name)
{
    char cert[400], key[400];
    const struct raw_cert c = {cert, key};

    snprintf(cert, sizeof cert, "%s", certs_path(pki, name, ".pem"));
    snprintf(key, sizeof key, "%s", certs_path(pki, name, ".key"));
    return raw_client(g, &c);
}

static struct raw_peer *raw_agent(const struct rig *g)
{
    return raw_holder(g, "agent");
}

static void ask(struct raw_peer *p)
{
    assert_ok(raw_peer_send(p, "\0\0\0\0\0\0\0\5\x80\0\0\1x", 13));
}

/* Answers the request of a peer that left, if it came in at all. */
static void answer_late(struct rig *g)
{
    struct net_request *r = atomic_exchange(&g->held[1], NULL);

    if (r) {
        net_server_reply(r, "y", 1);
    }
}

/* Its request waits for the one slot, held by another; so nobody reads its connection when it ends.
 */
static void who_leaves_while_all_are_busy_is_missed(void **state)
{
    struct rig g;
    struct raw_peer *busy, *gone;

    rig_start(&g);
    busy = raw_agent(&g);
    assert_non_null(busy);
    ask(busy);
    net_rig_await(&g.requests, 1);
    gone = raw_agent(&g);
    assert_non_null(gone);
    net_rig_await(&g.net.joined, 2);
    ask(gone);
    os_sleep_ns(50 * CLK_MS); /* lets request and end come in: without, the test is only easier */
    raw_peer_close(gone);
    os_sleep_ns(50 * CLK_MS);
    net_server_reply(atomic_exchange(&g.held[0], NULL), "y", 1);
    net_rig_await(&g.net.left, 1);
    raw_peer_close(busy);
    net_rig_await(&g.net.left, 2);
    answer_late(&g); /* its request came in, or was gone with its connection */
    net_rig_stop(&g.net);
}

/* Somebody who begins the handshake and does not go on. */
static struct raw_peer *stalled(const struct rig *g)
{
    struct raw_peer *p = NULL;

    assert_ok(raw_peer_connect(&p, net_server_port(g->net.server)));
    err_ignore(raw_peer_send(p, "\x16\x03\x01\x02\x00\x01", 6)); /* it may be closed already */
    return p;
}

/* Two hold all places, and two more are there while room is made. Many come at once, and again who
 * was sent away, until one of them is turned away. An honest one comes in although all places are
 * taken, and holds none any more. */
static void handshakes_under_way_are_counted(void **state)
{
    struct rig g;
    struct raw_peer *held[16] = {NULL}, *honest = NULL;
    int64_t until_ns = os_mono_ns() + NET_RIG_LONG_NS;
    size_t n = 0;

    rig_start_with(&g, 2);
    for (size_t i = 0; net_rig_stats(&g.net).crowded == 0; i = (i + 1) % COUNT_OF(held)) {
        assert_true(os_mono_ns() < until_ns);
        if (!held[i] || raw_peer_is_closed(held[i], 1)) {
            raw_peer_close(held[i]);
            held[i] = stalled(&g);
            n++;
        }
    }
    assert_true(n > 4);
    for (int i = 0; i < 4; i++) {
        raw_peer_close(honest);
        do {
            honest = raw_agent(&g);
        } while (!honest && os_mono_ns() < until_ns);
        assert_non_null(honest);
        net_rig_await(&g.net.joined, i + 1);
    }
    raw_peer_close(honest);
    for (size_t i = 0; i < COUNT_OF(held); i++) {
        raw_peer_close(held[i]);
    }
    net_rig_stop(&g.net);
}

/* Connections that were left behind do not keep their holder out, however many there are. */
static void the_oldest_connection_of_a_certificate_makes_way(void **state)
{
    struct rig g;
    struct raw_peer *p[4];

    rig_start_with(&g, 0);
    for (size_t i = 0; i < COUNT_OF(p); i++) {
        p[i] = raw_agent(&g);
        assert_non_null(p[i]);
        net_rig_await(&g.net.joined, (int)i + 1);
    }
    net_rig_await(&g.net.left, 1);
    assert_true(raw_peer_is_closed(p[0], LONG_MS));
    for (size_t i = 1; i < COUNT_OF(p); i++) { /* the others are served */
        ask(p[i]);
        net_rig_await(&g.requests, (int)i);
        net_server_reply(g.held[i - 1], "y", 1);
    }
    assert_int_equal(atomic_load(&g.net.left), 1);
    for (size_t i = 0; i < COUNT_OF(p); i++) {
        raw_peer_close(p[i]);
    }
    net_rig_stop(&g.net);
}

/* A host is given new certificates again and again, and the old ones stay valid: together they hold
 * no more places than one. */
static void all_certificates_of_a_host_count_together(void **state)
{
    static const char *const names[] = {"before", "between", "after", "after", "other"};
    struct raw_peer *p[COUNT_OF(names)];
    struct uuid host;
    struct rig g;

    assert_ok(uuid_random(&host));
    for (size_t i = 0; i < 3; i++) {
        const struct pki_issue what = {
            .use = PKI_AGENT, .name = names[i], .has_host = true, .host = host};

        certs_issue_as(pki, &what);
    }
    certs_issue(pki, PKI_AGENT, "other");
    rig_start_with(&g, 0);
    for (size_t i = 0; i < COUNT_OF(p); i++) {
        p[i] = raw_holder(&g, names[i]);
        assert_non_null(p[i]);
        net_rig_await(&g.net.joined, (int)i + 1);
    }
    net_rig_await(&g.net.left, 1);
    assert_true(raw_peer_is_closed(p[0], LONG_MS));
    for (size_t i = 1; i < COUNT_OF(p); i++) {
        ask(p[i]);
        net_rig_await(&g.requests, (int)i);
        net_server_reply(g.held[i - 1], "y", 1);
    }
    assert_int_equal(atomic_load(&g.net.left), 1);
    for (size_t i = 0; i < COUNT_OF(p); i++) {
        raw_peer_close(p[i]);
    }
    net_rig_stop(&g.net);
}

/* They cannot be told apart, so the one that has been idle for longest goes; whose request is under
 * way stays. */
static void strangers_that_stay_make_way(void **state)
{
    static const struct raw_cert none = {NULL, NULL};
    struct net_server_conf conf = {
        .tls = collector, .strangers = true, .contexts = 2, .peers_max = 3, .on_request = hold};
    struct raw_peer *p[4];
    struct rig g;

    memset(&g, 0, sizeof g);
    net_rig_start(&g.net, &conf);
    for (size_t i = 0; i < COUNT_OF(p); i++) {
        p[i] = raw_client(&g, &none);
        assert_non_null(p[i]);
        net_rig_await(&g.net.joined, (int)i + 1);
        if (i == 0) {
            ask(p[0]);
            net_rig_await(&g.requests, 1);
        }
    }
    net_rig_await(&g.net.left, 1);
    assert_true(raw_peer_is_closed(p[1], LONG_MS));
    ask(p[3]);
    net_rig_await(&g.requests, 2);
    assert_int_equal(net_rig_stats(&g.net).crowded, 1);
    net_server_reply(g.held[0], "y", 1);
    net_server_reply(g.held[1], "y", 1);
    assert_int_equal(atomic_load(&g.net.left), 1);
    for (size_t i = 0; i < COUNT_OF(p); i++) {
        raw_peer_close(p[i]);
    }
    net_rig_stop(&g.net);
}

/* Counts this program's connections at a port whose keepalive timer runs; -1: the system does not
 * tell. */
static int kept_alive(unsigned port)
{
    FILE *f = fopen("/proc/self/net/tcp", "r");
    char line[256];
    int n = 0;

    if (!f) {
        return -1;
    }
    while (fgets(line, sizeof line, f)) {
        unsigned local, remote, established, timer;

        if (sscanf(line, " %*d: %*x:%x %*x:%x %x %*x:%*x %x", &local, &remote, &established,
                   &timer) == 4) {
            n += (local == port || remote == port) && established == 1 && timer == 2;
        }
    }
    fclose(f);
    return n;
}

static void both_ends_find_out_when_the_other_lost_its_power(void **state)
{
    struct rig g;
    char address[32];
    struct net_client_conf conf = {.address = address, .tls = agent, .receive_max = 1024};
    int64_t until_ns = os_mono_ns() + NET_RIG_LONG_NS;
    struct net_client *c;

    rig_start(&g);
    snprintf(address, sizeof address, "127.0.0.1:%u", net_server_port(g.net.server));
    assert_ok(net_client_open(&c, &conf, NULL));
    assert_ok(net_client_wait(c, NET_RIG_LONG_NS, NULL));
    net_rig_await(&g.net.joined, 1);
    if (kept_alive(net_server_port(g.net.server)) >= 0) {
        while (kept_alive(net_server_port(g.net.server)) < 2) { /* 4 is the timer for data sent */
            assert_true(os_mono_ns() < until_ns);
            os_sleep_ns(CLK_MS);
        }
    }
    net_client_close(c);
    net_rig_stop(&g.net);
}

/* -- a server that accepts and is silent -- */

static atomic_int silent_port;
static atomic_bool silent_ends;

static void ready(void *ctx, unsigned port)
{
    (void)ctx;
    atomic_store(&silent_port, (int)port);
}

static void accept_and_be_silent(void *arg)
{
    struct raw_peer *p = NULL;

    (void)arg;
    if (raw_peer_accept(&p, ready, NULL) == ERR_OK) {
        while (!atomic_load(&silent_ends)) {
            os_sleep_ns(CLK_MS);
        }
    }
    raw_peer_close(p);
}

/* A thread that accepts one connection, and a client that makes it. */
static struct net_client *dial_silence(struct os_thread **silent)
{
    char address[32];
    struct net_client_conf conf = {.address = address, .tls = agent, .receive_max = 1024};
    struct net_client *c = NULL;

    atomic_store(&silent_port, 0);
    atomic_store(&silent_ends, false);
    assert_ok(os_thread_start(silent, "silent", accept_and_be_silent, NULL));
    net_rig_await(&silent_port, 1);
    snprintf(address, sizeof address, "127.0.0.1:%d", atomic_load(&silent_port));
    assert_ok(net_client_open(&c, &conf, NULL));
    return c;
}

/* The client may have ended before it came: somebody else comes in its place. */
static void end_silence(struct os_thread *silent)
{
    struct raw_peer *p = NULL;

    atomic_store(&silent_ends, true);
    err_ignore(raw_peer_connect(&p, (unsigned)atomic_load(&silent_port)));
    os_thread_join(silent);
    raw_peer_close(p);
}

/* All three at once, because each takes the ten seconds that a handshake may last. */
static void handshakes_that_do_not_go_on_are_given_up(void **state)
{
    struct rig g;
    struct os_thread *silent;
    struct raw_peer *mute, *half;
    struct net_client *c;
    struct errmsg why = {""};
    int64_t begun_ns = os_mono_ns();

    rig_start(&g);
    assert_ok(raw_peer_connect(&mute, net_server_port(g.net.server)));
    assert_ok(raw_peer_connect(&half, net_server_port(g.net.server)));
    assert_ok(raw_peer_send(half, "\x16\x03\x01\x02\x00\x01", 6));
    c = dial_silence(&silent);
    assert_err(net_client_wait(c, NET_RIG_LONG_NS, &why), ERR_UNREACHABLE);
    assert_non_null(strstr(why.text, "fell silent"));
    assert_true(raw_peer_is_closed(mute, LONG_MS));
    assert_true(raw_peer_is_closed(half, LONG_MS));
    assert_true(os_mono_ns() - begun_ns > HANDSHAKE_MIN);

    end_silence(silent);
    net_client_close(c);
    raw_peer_close(mute);
    raw_peer_close(half);
    net_rig_stop(&g.net);
}

struct waiting {
    struct net_client *client;
    bool calls; /* or waits for the connection */
    enum err result;
};

static void wait_or_call(void *arg)
{
    struct waiting *w = arg;
    struct buf reply;

    buf_init(&reply, 100);
    w->result = w->calls ? net_client_call(w->client, "x", 1, NET_RIG_LONG_NS, &reply)
                         : net_client_wait(w->client, NET_RIG_LONG_NS, NULL);
    buf_fini(&reply);
}

static void hanging_up_ends_what_is_under_way(void **state)
{
    struct os_thread *silent, *threads[2];
    struct net_client *c = dial_silence(&silent);
    struct waiting w[2] = {{.client = c}, {.client = c, .calls = true}};
    int64_t begun_ns = os_mono_ns();

    for (size_t i = 0; i < COUNT_OF(w); i++) {
        assert_ok(os_thread_start(&threads[i], "waiting", wait_or_call, &w[i]));
    }
    os_sleep_ns(50 * CLK_MS); /* lets both begin: without, the test is only easier */
    net_client_hang_up(c);
    net_client_hang_up(c); /* again is allowed */
    for (size_t i = 0; i < COUNT_OF(w); i++) {
        os_thread_join(threads[i]);
        assert_err(w[i].result, ERR_CLOSED);
    }
    assert_err(net_client_wait(c, NET_RIG_LONG_NS, NULL), ERR_CLOSED);
    assert_true(os_mono_ns() - begun_ns < HANDSHAKE_MIN);
    net_client_close(c);
    end_silence(silent);
}

static int set_up(void **state)
{
    net_rig_begin(&pki, NULL);
    collector = certs_tls(pki, PKI_COLLECTOR, "collector");
    agent = certs_tls(pki, PKI_AGENT, "agent");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_leaves_while_all_are_busy_is_missed),
        cmocka_unit_test(handshakes_under_way_are_counted),
        cmocka_unit_test(the_oldest_connection_of_a_certificate_makes_way),
        cmocka_unit_test(all_certificates_of_a_host_count_together),
        cmocka_unit_test(strangers_that_stay_make_way),
        cmocka_unit_test(both_ends_find_out_when_the_other_lost_its_power),
        cmocka_unit_test(hanging_up_ends_what_is_under_way),
        cmocka_unit_test(handshakes_that_do_not_go_on_are_given_up),
    };

    return cmocka_run_group_tests(tests, set_up, net_rig_end);
}
