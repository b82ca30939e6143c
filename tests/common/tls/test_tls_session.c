/* When a connection that comes back is spared the full handshake, and when it is not; and that it
 * is the same peer for the collector either way. In both versions of TLS. */
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/net/net_engine.h"
#include "common/os/os.h"
#include "tests/support/certs.h"
#include "tests/support/net_rig.h"
#include "tests/support/raw_peer.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static struct certs *pki, *foreign;
static struct tls_config *agent;
static char dir[256];
static enum tls_versions spoken;       /* by the collector */
static struct net_engine_stats before; /* as of the last connection that was expected */

/* -- a collector that can be started again on its port -- */

struct rig {
    struct net_rig net; /* first */
    char ca[400], cert[400], key[400], tickets[400];
    struct tls_config *tls;
    unsigned roles;
    const char *revoked; /* a name; changed while the server is down */
};

static const char *judge(void *ctx, const struct net_identity *who)
{
    const struct rig *g = ctx;

    return g->revoked && strcmp(g->revoked, who->name) == 0 ? "revoked" : NULL;
}

static struct net_server_conf conf_of(struct rig *g)
{
    struct net_tls_conf files = {.ca = g->ca,
                                 .cert = g->cert,
                                 .key = g->key,
                                 .tickets = g->tickets[0] ? g->tickets : NULL,
                                 .versions = spoken};

    assert_ok(tls_config_load(&g->tls, &files, true, NULL));
    return (struct net_server_conf){
        .tls = g->tls, .roles = g->roles, .judge = judge, .judge_ctx = g};
}

static void rig_up(struct rig *g)
{
    struct net_server_conf conf = conf_of(g);

    net_rig_up(&g->net, &conf);
}

static void rig_down(struct rig *g)
{
    net_rig_down(&g->net);
    tls_config_free(g->tls);
}

static void rig_start(struct rig *g)
{
    struct net_server_conf conf;

    memset(g, 0, sizeof *g);
    snprintf(g->ca, sizeof g->ca, "%s", certs_path(pki, "ca", ".pem"));
    snprintf(g->cert, sizeof g->cert, "%s", certs_path(pki, "collector", ".pem"));
    snprintf(g->key, sizeof g->key, "%s", certs_path(pki, "collector", ".key"));
    snprintf(g->tickets, sizeof g->tickets, "%s/tickets", dir);
    g->roles = NET_AGENT;
    conf = conf_of(g);
    net_rig_start(&g->net, &conf);
    net_engine_stats(&before);
}

static void rig_stop(struct rig *g)
{
    net_rig_stop(&g->net);
    tls_config_free(g->tls);
}

/* One call, and how its connection came to be since the last one: both sides count. */
enum how { FULL, RESUMED };

static void assert_comes_back(struct net_client *c, enum how how)
{
    struct net_engine_stats after;

    assert_ok(net_rig_ask_again(c));
    net_engine_stats(&after);
    assert_int_equal(after.full - before.full, how == FULL ? 2 : 0);
    assert_int_equal(after.resumed - before.resumed, how == RESUMED ? 2 : 0);
    assert_int_equal(after.failed, before.failed);
    before = after;
}

static void assert_same_holder(const struct net_identity *a, const struct net_identity *b)
{
    assert_string_equal(a->name, b->name);
    assert_memory_equal(a->fingerprint, b->fingerprint, sizeof a->fingerprint);
    assert_memory_equal(&a->host, &b->host, sizeof a->host);
    assert_true(a->has_host && b->has_host);
    assert_int_equal(a->roles, b->roles);
    assert_string_equal(a->scope, b->scope);
    assert_true(a->not_before_ns == b->not_before_ns && a->not_after_ns == b->not_after_ns);
    assert_int_equal(strncmp(b->address, "127.0.0.1:", 10), 0);
}

/* A collector, and somebody who has been there once. */
static struct net_client *begin(struct rig *g, struct tls_config *tls)
{
    struct net_client *c;

    rig_start(g);
    c = net_rig_dial(g->net.address, tls);
    assert_comes_back(c, FULL);
    return c;
}

static void end(struct rig *g, struct net_client *c)
{
    net_client_close(c);
    rig_stop(g);
}

/* -- what resumes -- */

static void a_restart_of_the_collector_costs_no_full_handshake(void **state)
{
    struct net_identity first, second;
    struct net_client *c;
    struct rig g;

    c = begin(&g, agent);
    first = net_rig_last(&g.net);
    for (int i = 0; i < 3; i++) { /* one ticket, as often as it lives */
        rig_down(&g);
        rig_up(&g);
        assert_comes_back(c, RESUMED);
        second = net_rig_last(&g.net);
        assert_same_holder(&first, &second);
    }
    end(&g, c);
}

static void a_ticket_is_one_dialers_own(void **state)
{
    struct net_client *a, *b;
    struct rig g;

    a = begin(&g, agent);
    b = net_rig_dial(g.net.address, agent);
    assert_comes_back(b, FULL);
    net_client_close(b);
    end(&g, a);
}

/* -- what does not -- */

static void lose_the_keys(struct rig *g)
{
    assert_ok(os_remove(g->tickets));
}

static void damage_the_keys(struct rig *g)
{
    assert_ok(os_write_file(g->tickets, "PFTK", 4, true));
}

static void do_without_tickets(struct rig *g)
{
    g->tickets[0] = '\0';
}

/* The client's authority is still among those trusted. */
static void trust_another_authority_too(struct rig *g)
{
    const struct certs_shown both[] = {{pki, "ca"}, {foreign, "ca"}};

    snprintf(g->ca, sizeof g->ca, "%s/both.pem", dir);
    certs_chain(g->ca, both, COUNT_OF(both));
}

static void take_another_certificate(struct rig *g)
{
    snprintf(g->cert, sizeof g->cert, "%s", certs_path(pki, "collector2", ".pem"));
    snprintf(g->key, sizeof g->key, "%s", certs_path(pki, "collector2", ".key"));
}

static void tickets_of_other_times_cost_a_full_handshake(void **state)
{
    static void (*const changes[])(struct rig * g) = {
        lose_the_keys,
        damage_the_keys,
        do_without_tickets,
        trust_another_authority_too,
        take_another_certificate,
    };

    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        struct net_client *c;
        struct rig g;

        c = begin(&g, agent);
        rig_down(&g);
        changes[i](&g);
        rig_up(&g);
        assert_comes_back(c, FULL);
        rig_down(&g);
        rig_up(&g);
        assert_comes_back(c, g.tickets[0] ? RESUMED : FULL); /* with what came since */
        end(&g, c);
    }
}

static void a_client_with_new_certificates_shows_them(void **state)
{
    struct net_client *c;
    struct rig g;

    c = begin(&g, agent);
    assert_ok(tls_config_reload(agent, NULL));
    rig_down(&g);
    rig_up(&g);
    assert_comes_back(c, FULL);
    end(&g, c);
}

/* The client has a good ticket and the collector its keys; the holder may not come in any more. */
static void assert_refused(struct rig *g, struct net_client *c, const char *words)
{
    struct net_engine_stats after;

    rig_up(g);
    net_rig_refused(c, words);
    net_engine_stats(&after);
    assert_int_equal(after.resumed, before.resumed);
}

static void who_lost_the_role_does_not_resume(void **state)
{
    struct net_client *c;
    struct rig g;

    c = begin(&g, agent);
    rig_down(&g);
    g.roles = NET_QUERY;
    assert_refused(&g, c, "role or scope is not allowed");
    end(&g, c);
}

static void who_was_revoked_meanwhile_does_not_resume(void **state)
{
    int64_t until_ns = os_mono_ns() + NET_RIG_LONG_NS;
    struct net_server_stats stats;
    struct net_client *c;
    struct rig g;

    c = begin(&g, agent);
    rig_down(&g);
    g.revoked = "agent";
    assert_refused(&g, c, "our certificate is revoked");
    do { /* it is counted when the client has been told */
        stats = net_rig_stats(&g.net);
    } while (stats.judged == 0 && os_mono_ns() < until_ns);
    assert_true(stats.judged > 0);
    assert_int_equal(stats.admitted, 0);
    end(&g, c);
}

static void who_expired_meanwhile_does_not_resume(void **state)
{
    struct pki_issue what = {.use = PKI_AGENT,
                             .name = "brief",
                             .now_ns = os_utc_ns() - 3600 * CLK_S,
                             .life_ns = 3603 * CLK_S};
    struct tls_config *brief;
    struct net_identity own;
    struct net_client *c;
    struct rig g;

    certs_issue_as(pki, &what);
    brief = certs_load(pki, "brief", pki, false);
    tls_config_identity(brief, &own);
    c = begin(&g, brief);
    rig_down(&g);
    while (os_utc_ns() < own.not_after_ns + CLK_S) {
        os_sleep_ns(20 * CLK_MS);
    }
    assert_refused(&g, c, "expired");
    end(&g, c);
    tls_config_free(brief);
}

/* An overloaded collector drops connections early: no reason to come with full handshakes then.
 * But what always ends with this ticket may go well without it. */
static void a_ticket_is_given_up_when_it_was_lost_three_times(void **state)
{
    static const struct {
        unsigned times;
        enum how how;
    } rows[] = {{2, RESUMED}, {3, FULL}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct net_client *c;
        struct rig g;
        unsigned port;

        c = begin(&g, agent);
        port = net_server_port(g.net.server);
        rig_down(&g);
        assert_ok(raw_peer_die(port, rows[i].times));
        rig_up(&g);
        assert_comes_back(c, rows[i].how);
        end(&g, c);
    }
}

static int issue_all(void **state)
{
    support_temp_dir(dir, sizeof dir);
    err_ignore(log_open(LOG_ERROR, LOG_TEXT, NULL));
    net_rig_begin(&pki, &foreign);
    certs_issue(pki, PKI_COLLECTOR, "collector");
    certs_issue(pki, PKI_COLLECTOR, "collector2");
    agent = certs_tls(pki, PKI_AGENT, "agent");
    return 0;
}

static int tear_down(void **state)
{
    log_close();
    support_remove_dir(dir);
    return net_rig_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restart_of_the_collector_costs_no_full_handshake),
        cmocka_unit_test(a_ticket_is_one_dialers_own),
        cmocka_unit_test(tickets_of_other_times_cost_a_full_handshake),
        cmocka_unit_test(a_ticket_is_given_up_when_it_was_lost_three_times),
        cmocka_unit_test(a_client_with_new_certificates_shows_them),
        cmocka_unit_test(who_lost_the_role_does_not_resume),
        cmocka_unit_test(who_was_revoked_meanwhile_does_not_resume),
        cmocka_unit_test(who_expired_meanwhile_does_not_resume),
    };

    static const enum tls_versions rows[] = {TLS_1_2_AND_1_3, TLS_ONLY_1_2};
    int failed = 0;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        spoken = rows[i];
        failed += cmocka_run_group_tests(tests, issue_all, tear_down);
    }
    return failed;
}
