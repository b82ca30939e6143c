/* Who may stay: the judge is asked when a connection comes and at every review. */
#include <stdio.h>
#include <string.h>

#include "common/os/os.h"
#include "tests/support/net_rig.h"
#include "tests/support/t.h"

static struct certs *pki;
static struct tls_config *collector, *one, *two, *subscriber;

/* -- a judge who holds one name for revoked -- */

struct rig {
    struct net_rig net; /* first */
    _Atomic(const char *) revoked;
    atomic_int asked;
};

static const char *judge(void *ctx, const struct net_identity *who)
{
    struct rig *g = ctx;
    const char *name = atomic_load(&g->revoked);

    atomic_fetch_add(&g->asked, 1);
    return name && strcmp(name, who->name) == 0 ? "certificate revoked" : NULL;
}

static void rig_start(struct rig *g)
{
    struct net_server_conf conf = {
        .tls = collector, .roles = NET_AGENT, .judge = judge, .judge_ctx = g};

    atomic_init(&g->revoked, NULL);
    atomic_init(&g->asked, 0);
    net_rig_start(&g->net, &conf);
}

static void who_is_refused_by_the_judge_does_not_come_in(void **state)
{
    struct rig g;
    struct net_client *c;

    rig_start(&g);
    atomic_store(&g.revoked, "one");
    c = net_rig_dial(g.net.address, one);
    net_rig_await(&g.asked, 3); /* it tries again */
    assert_int_not_equal(net_rig_ask(c, 100 * CLK_MS), ERR_OK);
    assert_int_equal(atomic_load(&g.net.joined), 0);
    assert_int_equal(atomic_load(&g.net.left), 0);
    assert_int_equal(net_rig_stats(&g.net).admitted, 0);
    assert_true(net_rig_stats(&g.net).judged >= 2);
    atomic_store(&g.revoked, NULL);
    net_rig_await(&g.net.joined, 1);
    while (!net_client_connected(c)) { /* its own side hears of it later */
        os_sleep_ns(CLK_MS);
    }
    assert_ok(net_rig_ask(c, NET_RIG_LONG_NS));
    net_client_close(c);
    net_rig_stop(&g.net);
}

static void a_review_closes_whom_the_judge_refuses_and_nobody_else(void **state)
{
    struct rig g;
    struct net_client *first, *second;
    int64_t begun_ns;

    rig_start(&g);
    first = net_rig_dial(g.net.address, one);
    second = net_rig_dial(g.net.address, two);
    assert_ok(net_rig_ask(first, NET_RIG_LONG_NS));
    assert_ok(net_rig_ask(second, NET_RIG_LONG_NS));
    net_server_review(g.net.server);
    assert_int_equal(net_rig_stats(&g.net).judged, 0);

    atomic_store(&g.revoked, "one");
    begun_ns = os_mono_ns();
    net_server_review(g.net.server);
    net_rig_await(&g.net.left, 1);
    assert_true(os_mono_ns() - begun_ns < CLK_S);
    assert_true(net_rig_stats(&g.net).judged >= 1);
    assert_ok(net_rig_ask(second, NET_RIG_LONG_NS));
    assert_int_equal(atomic_load(&g.net.left), 1);
    assert_int_equal(net_rig_stats(&g.net).admitted, 2);
    assert_int_equal(net_rig_stats(&g.net).peers, 1);
    net_client_close(first);
    net_client_close(second);
    net_rig_stop(&g.net);
    assert_int_equal(atomic_load(&g.net.joined), 2);
    assert_int_equal(atomic_load(&g.net.left), 2);
}

/* -- reviews while connections come and go -- */

struct reviewing {
    struct rig *rig;
    atomic_bool ends;
};

static void review_all_the_time(void *arg)
{
    struct reviewing *r = arg;

    while (!atomic_load(&r->ends)) {
        net_server_review(r->rig->net.server);
        os_sleep_ns(CLK_MS);
    }
}

static void reviews_and_departures_do_not_mix_anything_up(void **state)
{
    enum { ROUNDS = 20 };
    struct rig g;
    struct reviewing r = {.rig = &g};
    struct os_thread *t;

    rig_start(&g);
    atomic_init(&r.ends, false);
    assert_ok(os_thread_start(&t, "reviewing", review_all_the_time, &r));
    for (int i = 0; i < ROUNDS; i++) {
        struct net_client *a = net_rig_dial(g.net.address, one);
        struct net_client *b = net_rig_dial(g.net.address, two);

        assert_ok(net_rig_ask(b, NET_RIG_LONG_NS));
        atomic_store(&g.revoked, "one");
        net_client_close(b);
        net_client_close(a);
        atomic_store(&g.revoked, NULL);
    }
    atomic_store(&r.ends, true);
    os_thread_join(t);
    net_rig_stop(&g.net);
    assert_int_equal(atomic_load(&g.net.joined), atomic_load(&g.net.left));
}

/* -- subscribers -- */

static void a_review_closes_subscribers_too(void **state)
{
    struct rig g = {.revoked = NULL};
    struct net_pub_conf conf = {.address = "127.0.0.1:0",
                                .tls = collector,
                                .roles = NET_SUBSCRIBE,
                                .queue = 10,
                                .judge = judge,
                                .judge_ctx = &g,
                                .on_peer = net_rig_on_peer,
                                .ctx = &g};
    char address[32];
    struct net_sub_conf sub = {
        .address = address, .tls = subscriber, .receive_max = 1024, .topic = ""};
    struct net_pub *p;
    struct net_sub *s;

    assert_ok(net_pub_start(&p, &conf, NULL));
    snprintf(address, sizeof address, "127.0.0.1:%u", net_pub_port(p));
    assert_ok(net_sub_open(&s, &sub, NULL));
    net_rig_await(&g.net.joined, 1);
    atomic_store(&g.revoked, "subscriber");
    net_pub_review(p);
    net_rig_await(&g.net.left, 1);
    net_sub_close(s);
    net_pub_stop(p);
    assert_int_equal(atomic_load(&g.net.joined), 1);
}

static int set_up(void **state)
{
    net_rig_begin(&pki, NULL);
    collector = certs_tls(pki, PKI_COLLECTOR, "collector");
    one = certs_tls(pki, PKI_AGENT, "one");
    two = certs_tls(pki, PKI_AGENT, "two");
    subscriber = certs_tls(pki, PKI_SUBSCRIBE, "subscriber");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_refused_by_the_judge_does_not_come_in),
        cmocka_unit_test(a_review_closes_whom_the_judge_refuses_and_nobody_else),
        cmocka_unit_test(reviews_and_departures_do_not_mix_anything_up),
        cmocka_unit_test(a_review_closes_subscribers_too),
    };

    return cmocka_run_group_tests(tests, set_up, net_rig_end);
}
