/* TLS 1.3 and 1.2 side by side, as they stand on the wire: a relay between client and collector
 * keeps what goes by. */
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mbedtls/platform.h>
#include <mbedtls/ssl.h>
#include <mbedtls/x509_crt.h>

#include "common/log/log.h"
#include "common/net/net_engine.h"
#include "common/os/os.h"
#include "common/tls/tls_session.h"
#include "tests/support/certs.h"
#include "tests/support/net_rig.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static struct certs *pki;
static char dir[256];

/* -- the relay -- */

#define KEPT (64u << 10)

struct relay {
    struct os_thread *thread;
    struct os_mutex *lock; /* guards `kept` */
    int listener;
    unsigned port;
    atomic_uint to;   /* the collector's port */
    atomic_bool cut;  /* the connection when the client answers to the server's first words */
    atomic_bool hold; /* new connections: the collector is not there */
    atomic_bool stop;
    atomic_uint cuts;
    uint8_t kept[KEPT]; /* of the newest connection, both ways */
    size_t n;
};

static int relay_dial(unsigned port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* False: this side has ended. */
static bool relay_pass(struct relay *r, int from, int to)
{
    uint8_t some[4096];
    ssize_t n = read(from, some, sizeof some);

    if (n <= 0) {
        return false;
    }
    os_mutex_lock(r->lock);
    if ((size_t)n <= KEPT - r->n) {
        memcpy(r->kept + r->n, some, (size_t)n);
        r->n += (size_t)n;
    }
    os_mutex_unlock(r->lock);
    return send(to, some, (size_t)n, MSG_NOSIGNAL) == n;
}

static void relay_connection(struct relay *r, int client, int server)
{
    struct pollfd fds[2] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
    bool answered = false, open = true;

    while (open && !atomic_load(&r->stop)) {
        if (poll(fds, 2, 20) <= 0) {
            continue;
        }
        if (fds[1].revents) {
            open = relay_pass(r, server, client);
            answered = true;
        }
        if (open && fds[0].revents && answered && atomic_load(&r->cut)) {
            atomic_fetch_add(&r->cuts, 1);
            open = false;
        } else if (open && fds[0].revents) {
            open = relay_pass(r, client, server);
        }
    }
}

static void relay_run(void *arg)
{
    struct relay *r = arg;

    while (!atomic_load(&r->stop)) {
        struct pollfd one = {.fd = r->listener, .events = POLLIN};
        bool comes = poll(&one, 1, 20) > 0 && !atomic_load(&r->hold);
        int client = comes ? accept(r->listener, NULL, NULL) : -1;
        int server = client >= 0 ? relay_dial(atomic_load(&r->to)) : -1;

        if (server >= 0) {
            os_mutex_lock(r->lock);
            r->n = 0;
            os_mutex_unlock(r->lock);
            relay_connection(r, client, server);
            close(server);
        }
        if (client >= 0) {
            close(client);
        }
    }
}

static void relay_start(struct relay *r)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;

    memset(r, 0, sizeof *r);
    assert_ok(os_mutex_create(&r->lock));
    r->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(r->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(r->listener, 8), 0);
    assert_int_equal(getsockname(r->listener, (struct sockaddr *)&at, &n), 0);
    r->port = ntohs(at.sin_port);
    assert_ok(os_thread_start(&r->thread, "relay", relay_run, r));
}

static void relay_stop(struct relay *r)
{
    atomic_store(&r->stop, true);
    os_thread_join(r->thread);
    close(r->listener);
    os_mutex_destroy(r->lock);
}

static bool relay_saw(struct relay *r, const void *bytes, size_t n)
{
    bool saw = false;

    os_mutex_lock(r->lock);
    for (size_t i = 0; i + n <= r->n && !saw; i++) {
        saw = memcmp(r->kept + i, bytes, n) == 0;
    }
    os_mutex_unlock(r->lock);
    return saw;
}

/* What the server's first message says. */
static bool relay_saw_1_3(struct relay *r)
{
    static const uint8_t chosen[] = {0x00, 0x2b, 0x00, 0x02, 0x03, 0x04};

    return relay_saw(r, chosen, sizeof chosen);
}

/* The client's certificate names its host. */
static bool relay_saw_certificate(struct relay *r)
{
    return relay_saw(r, "urn:procfleet:host:", 19);
}

/* -- a client, a relay, and a collector that is started again -- */

struct rig {
    struct net_rig net; /* first */
    struct relay relay;
    struct tls_config *server, *agent;
    struct net_client *client;
    const char *_Atomic revoked; /* a name */
    struct net_engine_stats before;
};

static const char *judge(void *ctx, const struct net_identity *who)
{
    const char *revoked = atomic_load(&((struct rig *)ctx)->revoked);

    return revoked && strcmp(revoked, who->name) == 0 ? "revoked" : NULL;
}

static struct tls_config *load(const char *name, bool server, enum tls_versions versions)
{
    char ca[400], cert[400], key[400], tickets[400];
    struct net_tls_conf conf = {.ca = ca,
                                .cert = cert,
                                .key = key,
                                .tickets = server ? tickets : NULL,
                                .server_name = server ? NULL : PKI_SERVER_NAME,
                                .versions = versions};
    struct tls_config *t;

    snprintf(ca, sizeof ca, "%s", certs_path(pki, "ca", ".pem"));
    snprintf(cert, sizeof cert, "%s", certs_path(pki, name, ".pem"));
    snprintf(key, sizeof key, "%s", certs_path(pki, name, ".key"));
    snprintf(tickets, sizeof tickets, "%s/tickets", dir);
    assert_ok(tls_config_load(&t, &conf, server, NULL));
    return t;
}

static struct net_server_conf rig_conf(struct rig *g, enum tls_versions versions)
{
    g->server = load("collector", true, versions);
    return (struct net_server_conf){
        .tls = g->server, .roles = NET_AGENT, .judge = judge, .judge_ctx = g};
}

static void rig_start(struct rig *g, enum tls_versions client, enum tls_versions server)
{
    struct net_server_conf conf;
    char address[32];

    memset(g, 0, sizeof *g);
    conf = rig_conf(g, server);
    net_rig_start(&g->net, &conf);
    relay_start(&g->relay);
    atomic_store(&g->relay.to, net_server_port(g->net.server));
    g->agent = load("agent", false, client);
    snprintf(address, sizeof address, "127.0.0.1:%u", g->relay.port);
    net_engine_stats(&g->before);
    g->client = net_rig_dial(address, g->agent);
}

static void rig_restart(struct rig *g, enum tls_versions versions)
{
    struct net_server_conf conf;

    atomic_store(&g->relay.hold, true);
    net_rig_down(&g->net);
    tls_config_free(g->server);
    conf = rig_conf(g, versions);
    net_rig_up(&g->net, &conf);
    atomic_store(&g->relay.hold, false);
}

/* Of a live connection: it is closed. */
static void rig_revoke(struct rig *g, const char *name)
{
    atomic_store(&g->revoked, name);
    net_server_review(g->net.server);
}

static void rig_stop(struct rig *g)
{
    net_client_close(g->client);
    tls_config_free(g->agent);
    relay_stop(&g->relay);
    net_rig_stop(&g->net);
    tls_config_free(g->server);
}

enum how { FULL, RESUMED };

static void assert_connects(struct rig *g, enum how how, bool is_1_3)
{
    struct net_engine_stats after;

    assert_ok(net_rig_ask_again(g->client));
    net_engine_stats(&after);
    assert_int_equal(after.full - g->before.full, how == FULL ? 2 : 0);
    assert_int_equal(after.resumed - g->before.resumed, how == RESUMED ? 2 : 0);
    g->before = after;
    assert_int_equal(relay_saw_1_3(&g->relay), is_1_3);
    assert_string_equal(net_rig_last(&g->net).name, "agent");
}

/* -- tests -- */

static void two_sides_speak_the_newest_version_that_both_have(void **state)
{
    static const struct {
        enum tls_versions client, server;
        bool is_1_3;
    } rows[] = {
        {TLS_1_2_AND_1_3, TLS_1_2_AND_1_3, true}, {TLS_1_2_AND_1_3, TLS_ONLY_1_3, true},
        {TLS_ONLY_1_3, TLS_1_2_AND_1_3, true},    {TLS_ONLY_1_2, TLS_1_2_AND_1_3, false},
        {TLS_1_2_AND_1_3, TLS_ONLY_1_2, false},   {TLS_ONLY_1_2, TLS_ONLY_1_2, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct rig g;

        rig_start(&g, rows[i].client, rows[i].server);
        assert_connects(&g, FULL, rows[i].is_1_3);
        rig_restart(&g, rows[i].server);
        assert_connects(&g, RESUMED, rows[i].is_1_3);
        rig_restart(&g, rows[i].server); /* one ticket, as often as it lives */
        assert_connects(&g, RESUMED, rows[i].is_1_3);
        rig_stop(&g);
    }
}

static void a_clients_certificate_is_on_the_wire_in_1_2_only(void **state)
{
    struct rig g;

    rig_start(&g, TLS_1_2_AND_1_3, TLS_1_2_AND_1_3);
    assert_connects(&g, FULL, true);
    assert_false(relay_saw_certificate(&g.relay));
    rig_restart(&g, TLS_1_2_AND_1_3);
    assert_connects(&g, RESUMED, true);
    assert_false(relay_saw_certificate(&g.relay));
    rig_restart(&g, TLS_ONLY_1_2);
    assert_connects(&g, FULL, false);
    assert_true(relay_saw_certificate(&g.relay));
    rig_stop(&g);
}

/* Collectors that are exchanged for older and newer ones. */
static void a_session_ends_with_its_version(void **state)
{
    struct rig g;

    rig_start(&g, TLS_1_2_AND_1_3, TLS_1_2_AND_1_3);
    assert_connects(&g, FULL, true);
    rig_restart(&g, TLS_ONLY_1_2);
    assert_connects(&g, FULL, false);
    rig_restart(&g, TLS_1_2_AND_1_3);
    assert_connects(&g, RESUMED, false); /* for as long as the ticket lives */
    rig_restart(&g, TLS_ONLY_1_3);
    assert_connects(&g, FULL, true);
    rig_restart(&g, TLS_1_2_AND_1_3);
    assert_connects(&g, RESUMED, true);
    rig_stop(&g);
}

static bool admit(void *ctx, const struct mbedtls_x509_crt *crt)
{
    *(unsigned *)ctx += crt->raw.len > 0;
    return true;
}

/* A session of this version as the collector has it at the end of a full handshake; the bytes of
 * its ticket. */
static size_t write_ticket(struct tls_session_seal *seal, int version, uint8_t ticket[2048])
{
    mbedtls_ssl_session session;
    mbedtls_x509_crt *crt = mbedtls_calloc(1, sizeof *crt);
    uint32_t life_s;
    size_t n;

    mbedtls_ssl_session_init(&session);
    mbedtls_x509_crt_init(crt);
    assert_int_equal(mbedtls_x509_crt_parse_file(crt, certs_path(pki, "agent", ".pem")), 0);
    session.MBEDTLS_PRIVATE(tls_version) = (mbedtls_ssl_protocol_version)version;
    session.MBEDTLS_PRIVATE(endpoint) = MBEDTLS_SSL_IS_SERVER;
    session.MBEDTLS_PRIVATE(ciphersuite) = version == MBEDTLS_SSL_VERSION_TLS1_3
                                               ? MBEDTLS_TLS1_3_AES_256_GCM_SHA384
                                               : MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384;
    session.MBEDTLS_PRIVATE(resumption_key_len) = 48;
    session.MBEDTLS_PRIVATE(peer_cert) = crt; /* moved */
    assert_int_equal(tls_session_write(seal, &session, ticket, ticket + 2048, &n, &life_s), 0);
    assert_int_equal(life_s, TLS_TICKET_LIFE_S);
    mbedtls_ssl_session_free(&session);
    return n;
}

/* Whether a handshake of this version takes it up. */
static bool takes(struct tls_session_seal *seal, int version, const uint8_t *ticket, size_t n)
{
    uint8_t copy[2048]; /* it is opened in place */
    mbedtls_ssl_session session;
    mbedtls_ssl_context ssl;
    unsigned admitted = 0;
    int r;

    memcpy(copy, ticket, n);
    mbedtls_ssl_session_init(&session);
    mbedtls_ssl_init(&ssl);
    ssl.MBEDTLS_PRIVATE(tls_version) = (mbedtls_ssl_protocol_version)version;
    tls_session_judge(&ssl, admit, &admitted);
    r = tls_session_parse(seal, &session, copy, n);
    tls_session_judge(NULL, NULL, NULL);
    assert_int_equal(admitted, r == 0);
    mbedtls_ssl_session_free(&session);
    mbedtls_ssl_free(&ssl);
    return r == 0;
}

/* mbedTLS itself would take one of TLS 1.3 in TLS 1.2, from a client that shows it there. */
static void a_ticket_counts_in_its_own_version_only(void **state)
{
    static const int versions[] = {MBEDTLS_SSL_VERSION_TLS1_2, MBEDTLS_SSL_VERSION_TLS1_3};
    struct tls_session_seal seal = {.binding = {1}};
    uint8_t ticket[2048];
    char path[300];

    snprintf(path, sizeof path, "%s/versions", dir);
    assert_ok(tls_ticket_open(&seal.keys, path, os_utc_ns(), NULL));
    for (size_t i = 0; i < 2; i++) {
        size_t n = write_ticket(&seal, versions[i], ticket);

        assert_true(takes(&seal, versions[i], ticket, n));
        assert_false(takes(&seal, versions[1 - i], ticket, n));
    }
    tls_ticket_close(seal.keys);
}

/* Nothing but our own keys makes tickets; should those be known, this is what stands behind them.
 */
static void what_a_ticket_of_1_3_holds_is_not_believed(void **state)
{
    struct tls_session_seal seal = {.binding = {1}};
    uint8_t whole[2048], ticket[2048];
    char path[300];
    size_t n, content;

    snprintf(path, sizeof path, "%s/cut", dir);
    assert_ok(tls_ticket_open(&seal.keys, path, os_utc_ns(), NULL));
    n = write_ticket(&seal, MBEDTLS_SSL_VERSION_TLS1_3, whole);
    assert_ok(tls_ticket_unseal(seal.keys, seal.binding, os_utc_ns(), whole, n, &content));
    for (size_t cut = 0; cut < content; cut++) {
        memcpy(ticket + TLS_TICKET_HEAD, whole + TLS_TICKET_HEAD, cut);
        assert_ok(tls_ticket_seal(seal.keys, seal.binding, os_utc_ns(), ticket, cut));
        assert_false(takes(&seal, MBEDTLS_SSL_VERSION_TLS1_3, ticket,
                           TLS_TICKET_HEAD + cut + TLS_TICKET_TAIL));
    }
    for (unsigned length = 0; length < 65536; length += 97) { /* of the form */
        bool right;

        memcpy(ticket + TLS_TICKET_HEAD, whole + TLS_TICKET_HEAD, content);
        right = ticket[TLS_TICKET_HEAD] == (length & 0xff) &&
                ticket[TLS_TICKET_HEAD + 1] == length >> 8;
        ticket[TLS_TICKET_HEAD] = (uint8_t)length;
        ticket[TLS_TICKET_HEAD + 1] = (uint8_t)(length >> 8);
        assert_ok(tls_ticket_seal(seal.keys, seal.binding, os_utc_ns(), ticket, content));
        assert_int_equal(takes(&seal, MBEDTLS_SSL_VERSION_TLS1_3, ticket, n), right);
    }
    tls_ticket_close(seal.keys);
}

static void sides_without_a_version_in_common_say_so(void **state)
{
    static const struct {
        enum tls_versions client, server;
    } rows[] = {{TLS_ONLY_1_2, TLS_ONLY_1_3}, {TLS_ONLY_1_3, TLS_ONLY_1_2}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct rig g;

        rig_start(&g, rows[i].client, rows[i].server);
        net_rig_refused(g.client, "TLS version");
        rig_stop(&g);
    }
}

/* The client is through with its handshake when the server refuses it: it must not take itself for
 * connected, and hears why. */
static void a_refusal_in_1_3_is_no_connection(void **state)
{
    struct errmsg why = {""};
    struct rig g;

    rig_start(&g, TLS_1_2_AND_1_3, TLS_1_2_AND_1_3);
    assert_connects(&g, FULL, true);
    rig_revoke(&g, "agent");
    net_rig_refused(g.client, "our certificate is revoked");
    for (int i = 0; i < 3; i++) {
        assert_err(net_client_wait(g.client, NET_RIG_LONG_NS, &why), ERR_TRUST);
        assert_non_null(strstr(why.text, "our certificate is revoked"));
    }
    assert_true(relay_saw_1_3(&g.relay));
    assert_int_equal(atomic_load(&g.net.joined), 1); /* the first time */
    assert_int_equal(net_rig_stats(&g.net).admitted, 1);
    rig_stop(&g);
}

/* As a server does that has no alert for what it does not like, or whose alert was lost. */
static void an_end_behind_the_certificate_is_a_refusal_when_it_comes_again(void **state)
{
    struct rig g;

    rig_start(&g, TLS_ONLY_1_3, TLS_1_2_AND_1_3);
    assert_connects(&g, FULL, true);
    atomic_store(&g.relay.cut, true);
    assert_ok(tls_config_reload(g.agent, NULL)); /* its ticket is worth nothing now */
    rig_restart(&g, TLS_1_2_AND_1_3);
    net_rig_refused(g.client, "when it had seen our certificate");
    assert_true(atomic_load(&g.relay.cuts) >= 2);
    atomic_store(&g.relay.cut, false);
    rig_stop(&g);
}

static int set_up(void **state)
{
    support_temp_dir(dir, sizeof dir);
    err_ignore(log_open(LOG_ERROR, LOG_TEXT, NULL));
    net_rig_begin(&pki, NULL);
    certs_issue(pki, PKI_COLLECTOR, "collector");
    certs_issue(pki, PKI_AGENT, "agent");
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
        cmocka_unit_test(two_sides_speak_the_newest_version_that_both_have),
        cmocka_unit_test(a_clients_certificate_is_on_the_wire_in_1_2_only),
        cmocka_unit_test(a_session_ends_with_its_version),
        cmocka_unit_test(a_ticket_counts_in_its_own_version_only),
        cmocka_unit_test(what_a_ticket_of_1_3_holds_is_not_believed),
        cmocka_unit_test(sides_without_a_version_in_common_say_so),
        cmocka_unit_test(a_refusal_in_1_3_is_no_connection),
        cmocka_unit_test(an_end_behind_the_certificate_is_a_refusal_when_it_comes_again),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
