#include "tests/support/net_rig.h"

#include <stdio.h>
#include <string.h>

#include "common/os/os.h"
#include "tests/support/t.h"

#define MESSAGE_MAX 1024

static struct certs *authorities[2];

void net_rig_begin(struct certs **pki, struct certs **foreign)
{
    struct certs **const wanted[] = {pki, foreign};

    assert_ok(net_init(NULL));
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        if (wanted[i]) {
            *wanted[i] = authorities[i] = certs_create();
        }
    }
}

int net_rig_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(authorities); i++) {
        certs_destroy(authorities[i]);
        authorities[i] = NULL;
    }
    net_fini();
    return 0;
}

void net_rig_echo(void *ctx, struct net_request *r)
{
    struct net_rig *g = ctx;
    size_t n;
    const uint8_t *p = net_server_body(r, &n);

    os_mutex_lock(g->lock);
    g->last = *net_server_peer(r);
    os_mutex_unlock(g->lock);
    net_server_reply(r, p, n);
}

void net_rig_on_peer(void *ctx, const struct net_identity *who, bool connected)
{
    struct net_rig *g = ctx;

    (void)who;
    atomic_fetch_add(connected ? &g->joined : &g->left, 1);
}

void net_rig_up(struct net_rig *g, const struct net_server_conf *conf)
{
    struct net_server_conf full = *conf;
    struct errmsg why = {""};

    full.address = g->address;
    full.name = full.name ? full.name : "rig";
    full.receive_max = full.receive_max ? full.receive_max : MESSAGE_MAX;
    full.contexts = full.contexts ? full.contexts : 4;
    full.on_request = full.on_request ? full.on_request : net_rig_echo;
    full.on_peer = net_rig_on_peer;
    full.ctx = g;
    if (net_server_start(&g->server, &full, &why)) {
        fail_msg("%s", why.text);
    }
    (void)snprintf(g->address, sizeof g->address, "127.0.0.1:%u", net_server_port(g->server));
}

void net_rig_down(struct net_rig *g)
{
    net_server_stop(g->server);
    g->server = NULL;
}

void net_rig_start(struct net_rig *g, const struct net_server_conf *conf)
{
    memset(g, 0, sizeof *g);
    assert_ok(os_mutex_create(&g->lock));
    (void)snprintf(g->address, sizeof g->address, "127.0.0.1:0");
    net_rig_up(g, conf);
}

void net_rig_stop(struct net_rig *g)
{
    net_rig_down(g);
    os_mutex_destroy(g->lock);
}

struct net_identity net_rig_last(struct net_rig *g)
{
    struct net_identity who;

    os_mutex_lock(g->lock);
    who = g->last;
    os_mutex_unlock(g->lock);
    return who;
}

struct net_server_stats net_rig_stats(const struct net_rig *g)
{
    struct net_server_stats s;

    net_server_stats(g->server, &s);
    return s;
}

void net_rig_await(const atomic_int *n, int at_least)
{
    int64_t until_ns = os_mono_ns() + NET_RIG_LONG_NS;

    while (atomic_load(n) < at_least) {
        assert_true(os_mono_ns() < until_ns);
        os_sleep_ns(CLK_MS);
    }
}

struct net_client *net_rig_dial(const char *address, struct tls_config *tls)
{
    struct net_client_conf conf = {.address = address,
                                   .tls = tls,
                                   .receive_max = MESSAGE_MAX,
                                   .reconnect_min_ns = 20 * CLK_MS,
                                   .reconnect_max_ns = 50 * CLK_MS};
    struct net_client *c = NULL;

    assert_ok(net_client_open(&c, &conf, NULL));
    return c;
}

enum err net_rig_ask(struct net_client *c, int64_t timeout_ns)
{
    struct buf reply;
    enum err e;

    buf_init(&reply, MESSAGE_MAX);
    e = net_client_call(c, "hello", 5, timeout_ns, &reply);
    if (!e) {
        assert_string_equal(buf_cstr(&reply), "hello");
    }
    buf_fini(&reply);
    return e;
}

enum err net_rig_ask_again(struct net_client *c)
{
    int64_t until_ns = os_mono_ns() + NET_RIG_LONG_NS;
    enum err e;

    do {
        e = net_rig_ask(c, NET_RIG_LONG_NS);
    } while (e == ERR_UNREACHABLE && os_mono_ns() < until_ns);
    return e;
}

void net_rig_refused(struct net_client *c, const char *words)
{
    int64_t until_ns = os_mono_ns() + NET_RIG_LONG_NS;
    struct errmsg why = {""};
    enum err e;

    do {
        e = net_client_wait(c, NET_RIG_LONG_NS, &why);
        os_sleep_ns(e ? 0 : CLK_MS);
    } while ((!e || e == ERR_UNREACHABLE) && os_mono_ns() < until_ns);
    assert_err(e, ERR_TRUST);
    if (!strstr(why.text, words)) {
        fail_msg("expected '%s' in: %s", words, why.text);
    }
}
