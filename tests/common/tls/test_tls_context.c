/* Whom a client with a pin believes, whom a listener for strangers lets in, and what reading the
 * certificates anew changes. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/net/net.h"
#include "common/net/net_engine.h"
#include "common/os/os.h"
#include "common/pki/pki_authority.h"
#include "tests/support/certs.h"
#include "tests/support/net_rig.h"
#include "tests/support/raw_peer.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static struct certs *pki, *foreign;
static struct tls_config *collector, *agent;
static char dir[256];

static struct net_server_conf conf_of(struct tls_config *tls, bool strangers)
{
    return (struct net_server_conf){
        .tls = tls, .roles = strangers ? 0 : NET_AGENT, .strangers = strangers};
}

static void rig_start(struct net_rig *g, struct tls_config *tls, bool strangers)
{
    struct net_server_conf conf = conf_of(tls, strangers);

    net_rig_start(g, &conf);
}

static void assert_answered(struct net_client *c)
{
    assert_ok(net_rig_ask(c, NET_RIG_LONG_NS));
}

/* Connecting ends in `e` and words. */
static void assert_refused(const char *address, struct tls_config *tls, enum err e,
                           const char *words)
{
    struct net_client *c = net_rig_dial(address, tls);
    struct errmsg why = {""};
    enum err got;

    got = net_client_wait(c, NET_RIG_LONG_NS, &why);
    if (got != e || !strstr(why.text, words)) {
        fail_msg("expected %s, '%s', got %s: %s", err_name(e), words, err_name(got), why.text);
    }
    net_client_close(c);
}

static struct tls_config *pinned(const uint8_t pin[32], const char *server_name)
{
    struct net_tls_conf conf = {.pin = pin, .server_name = server_name};
    struct tls_config *t = NULL;

    assert_ok(tls_config_load(&t, &conf, false, NULL));
    return t;
}

/* -- pins -- */

static void a_stranger_with_a_pin_is_answered(void **state)
{
    struct tls_config *tls;
    struct net_identity who, nobody = {.has_host = false};
    struct net_client *c;
    struct net_rig g;
    uint8_t pin[32];

    certs_pin(pki, pin);
    tls = pinned(pin, PKI_SERVER_NAME);
    tls_config_identity(tls, &who);
    assert_memory_equal(&who, &nobody, sizeof who);
    rig_start(&g, collector, true);
    c = net_rig_dial(g.address, tls);
    assert_answered(c);
    who = net_rig_last(&g);
    assert_int_equal(strncmp(who.address, "127.0.0.1:", 10), 0);
    assert_true(who.connection != 0);
    assert_string_equal(who.name, "");
    assert_int_equal(who.roles, 0);
    assert_false(who.has_host);
    net_client_close(c);
    net_rig_stop(&g);
    tls_config_free(tls);
}

/* A listener for strangers does not look at certificates, so it cannot be fooled by one. */
static void a_certificate_counts_for_nothing_among_strangers(void **state)
{
    struct net_client *c;
    struct net_rig g;

    rig_start(&g, collector, true);
    c = net_rig_dial(g.address, agent);
    assert_answered(c);
    assert_int_equal(net_rig_last(&g).roles, 0);
    assert_string_equal(net_rig_last(&g).name, "");
    net_client_close(c);
    net_rig_stop(&g);
}

static void strangers_get_in_nowhere_else(void **state)
{
    struct tls_config *tls;
    struct net_rig g;
    uint8_t pin[32];

    certs_pin(pki, pin);
    tls = pinned(pin, PKI_SERVER_NAME);
    rig_start(&g, collector, false);
    /* It shows no chain there: the client is the first to refuse. */
    assert_refused(g.address, tls, ERR_TRUST, "does not show the authority that the token names");
    net_rig_stop(&g);
    tls_config_free(tls);
}

struct impostor {
    const char *cert, *key;
    _Atomic unsigned port;
};

static void ready(void *ctx, unsigned port)
{
    atomic_store(&((struct impostor *)ctx)->port, port);
}

static void pose(void *arg)
{
    struct impostor *i = arg;
    struct raw_cert c = {i->cert, i->key};
    struct raw_peer *p = NULL;

    if (raw_peer_accept(&p, ready, i) == ERR_OK) {
        err_ignore(raw_peer_tls(p, true, &c));
        raw_peer_close(p);
    }
}

/* The pin is that of pki's authority. */
static void only_the_pinned_authority_can_vouch(void **state)
{
    const struct {
        struct certs_shown shown[4];
        const char *words;
    } rows[] = {
        {{{pki, "collector"}}, "does not show the authority"},
        {{{foreign, "collector"}, {foreign, "ca"}}, "does not show the authority"},
        {{{foreign, "collector"}, {pki, "ca"}}, "does not show the authority"},
        {{{foreign, "collector"}, {pki, "ca"}, {foreign, "ca"}}, "does not show the authority"},
        {{{foreign, "collector"}, {foreign, "ca"}, {pki, "ca"}}, "does not show the authority"},
        {{{pki, "agent"}, {pki, "ca"}}, "wrong use"},
        {{{pki, "late"}, {pki, "ca"}}, "expired"},
    };
    char chain[400], key[400], address[32];
    uint8_t pin[32];

    certs_pin(pki, pin);
    snprintf(chain, sizeof chain, "%s/chain.pem", dir);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tls_config *tls = pinned(pin, PKI_SERVER_NAME);
        struct impostor impostor = {.cert = chain, .key = key};
        struct os_thread *thread;

        certs_chain(chain, rows[i].shown, COUNT_OF(rows[i].shown));
        snprintf(key, sizeof key, "%s",
                 certs_path(rows[i].shown[0].from, rows[i].shown[0].name, ".key"));
        assert_ok(os_thread_start(&thread, "impostor", pose, &impostor));
        while (atomic_load(&impostor.port) == 0) {
            os_sleep_ns(CLK_MS);
        }
        snprintf(address, sizeof address, "127.0.0.1:%u", atomic_load(&impostor.port));
        assert_refused(address, tls, ERR_TRUST, rows[i].words);
        os_thread_join(thread);
        tls_config_free(tls);
    }
}

static void a_pin_does_not_stand_for_the_name(void **state)
{
    struct tls_config *tls;
    struct net_rig g;
    uint8_t pin[32];

    certs_pin(pki, pin);
    tls = pinned(pin, "another-collector");
    rig_start(&g, collector, true);
    assert_refused(g.address, tls, ERR_TRUST, "wrong server name");
    net_rig_stop(&g);
    tls_config_free(tls);
}

static void too_little_to_know_whom_to_believe_is_not_loaded(void **state)
{
    static const uint8_t pin[32] = {1};
    const struct {
        struct net_tls_conf conf;
        bool server;
    } rows[] = {
        {{.server_name = PKI_SERVER_NAME}, false},
        {{.pin = pin}, false},
        {{.pin = pin}, true},
        {{.ca = "ca.pem"}, true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tls_config *t;
        struct errmsg why = {""};

        assert_err(tls_config_load(&t, &rows[i].conf, rows[i].server, &why), ERR_INVALID);
        assert_true(why.text[0] != '\0');
    }
}

/* -- reading anew -- */

/* The files that a tls_config reads, replaced as a renewal does. */
static void put(const char *to, struct certs *from, const char *name)
{
    const struct {
        const char *ending, *name;
    } files[] = {{".pem", "ca"}, {".pem", name}, {".key", name}};

    for (size_t i = 0; i < COUNT_OF(files); i++) {
        char path[512];

        snprintf(path, sizeof path, "%s/%s%s%s", dir, to, i == 0 ? "-ca" : "", files[i].ending);
        certs_copy(from, files[i].name, files[i].ending, path);
    }
}

static struct tls_config *load_put(const char *name, bool server)
{
    char ca[400], cert[400], key[400];
    struct net_tls_conf conf = {
        .ca = ca, .cert = cert, .key = key, .server_name = server ? NULL : PKI_SERVER_NAME};
    struct tls_config *t = NULL;

    snprintf(ca, sizeof ca, "%s/%s-ca.pem", dir, name);
    snprintf(cert, sizeof cert, "%s/%s.pem", dir, name);
    snprintf(key, sizeof key, "%s/%s.key", dir, name);
    assert_ok(tls_config_load(&t, &conf, server, NULL));
    return t;
}

/* The same listener takes another authority's clients when it has read its files again, and keeps
 * the connections it had. */
static void a_listener_follows_its_files_and_keeps_its_connections(void **state)
{
    struct tls_config *new = certs_load(foreign, "agent", foreign, false);
    struct net_client *first, *second;
    struct tls_config *server;
    struct net_rig g;

    put("live", pki, "collector");
    server = load_put("live", true);
    rig_start(&g, server, false);
    first = net_rig_dial(g.address, agent);
    assert_answered(first);
    assert_refused(g.address, new, ERR_TRUST, "unknown authority");
    put("live", foreign, "collector");
    assert_ok(tls_config_reload(server, NULL));
    second = net_rig_dial(g.address, new);
    assert_answered(second);
    assert_answered(first);
    assert_refused(g.address, agent, ERR_TRUST, "unknown authority");
    assert_answered(first);
    assert_int_equal(atomic_load(&g.left), 0);
    net_client_close(first);
    net_client_close(second);
    net_rig_stop(&g);
    tls_config_free(server);
    tls_config_free(new);
}

/* An agent that renewed shows its new certificate at the next connection of the same client. */
static void a_client_follows_its_files_at_the_next_connection(void **state)
{
    struct tls_config *tls;
    struct net_identity before, after, own;
    struct net_client *c;
    struct net_server_conf conf = conf_of(collector, false);
    struct net_rig g;

    put("renewed", pki, "agent");
    tls = load_put("renewed", false);
    rig_start(&g, collector, false);
    c = net_rig_dial(g.address, tls);
    assert_answered(c);
    before = net_rig_last(&g);
    put("renewed", pki, "agent2");
    assert_ok(tls_config_reload(tls, NULL));
    tls_config_identity(tls, &own);
    assert_string_equal(own.name, "agent2");
    assert_answered(c); /* over the old connection */
    assert_string_equal(net_rig_last(&g).name, "agent");
    net_rig_down(&g);
    net_rig_up(&g, &conf);
    assert_ok(net_rig_ask_again(c));
    after = net_rig_last(&g);
    assert_string_equal(before.name, "agent");
    assert_string_equal(after.name, "agent2");
    assert_memory_equal(after.fingerprint, own.fingerprint, sizeof own.fingerprint);
    net_client_close(c);
    net_rig_stop(&g);
    tls_config_free(tls);
}

/* -- pauses -- */

static struct net_client *dial_slowly(const struct net_rig *g, struct tls_config *tls,
                                      int64_t min_ns, int64_t max_ns)
{
    struct net_client_conf conf = {.address = g->address,
                                   .tls = tls,
                                   .receive_max = 1024,
                                   .reconnect_min_ns = min_ns,
                                   .reconnect_max_ns = max_ns};
    struct net_client *c = NULL;

    assert_ok(net_client_open(&c, &conf, NULL));
    return c;
}

/* Its next attempt would come in hours. */
static void a_redial_after_a_refusal_waits_for_no_pause(void **state)
{
    struct net_client *c;
    struct tls_config *tls;
    struct net_rig g;

    put("strange", foreign, "agent");
    tls = load_put("strange", false);
    rig_start(&g, collector, false);
    c = dial_slowly(&g, tls, 10 * 3600 * CLK_S, 10 * 3600 * CLK_S);
    assert_err(net_client_wait(c, NET_RIG_LONG_NS, NULL), ERR_TRUST);
    put("strange", pki, "agent");
    assert_ok(tls_config_reload(tls, NULL));
    net_client_redial(c);
    assert_answered(c);
    net_client_redial(c); /* the connection that stands is given up */
    net_rig_await(&g.left, 1);
    net_client_close(c);
    net_rig_stop(&g);
    tls_config_free(tls);
}

static uint64_t refusals(const struct net_rig *g)
{
    return net_rig_stats(g).handshake;
}

/* Until there are `n` more; how long it took. */
static int64_t await_refusals(const struct net_rig *g, unsigned n)
{
    int64_t begun_ns = os_mono_ns();
    uint64_t before = refusals(g);

    while (refusals(g) < before + n) {
        assert_true(os_mono_ns() - begun_ns < NET_RIG_LONG_NS);
        os_sleep_ns(CLK_MS);
    }
    return os_mono_ns() - begun_ns;
}

/* Pauses are chosen by chance below a bound that doubles from 50 ms: that the seven up to 6.4 s
 * come to less than 350 ms happens once in 10,000 times. */
static void pauses_grow_as_far_as_they_may(void **state)
{
    struct tls_config *tls = certs_load(foreign, "agent", foreign, false);
    struct net_client *c;
    struct net_rig g;

    rig_start(&g, collector, false);
    c = dial_slowly(&g, tls, 20 * CLK_MS, 50 * CLK_MS);
    (void)await_refusals(&g, 5); /* which is as far as they grow now */
    net_client_pause(c, 3600 * CLK_S);
    assert_true(await_refusals(&g, 8) > 350 * CLK_MS);
    net_client_close(c);
    net_rig_stop(&g);
    tls_config_free(tls);
}

static void files_that_cannot_be_used_change_nothing(void **state)
{
    struct net_identity before, after;
    struct errmsg why = {""};
    struct tls_config *t;
    char path[400];
    long live;

    put("kept", pki, "agent");
    t = load_put("kept", false);
    tls_config_identity(t, &before);
    live = mem_live();
    snprintf(path, sizeof path, "%s/kept.key", dir);
    assert_ok(os_write_file(path, "torn", 4, true));
    assert_err(tls_config_reload(t, &why), ERR_INVALID);
    assert_non_null(strstr(why.text, "kept.key"));
    put("kept", pki, "agent2");
    snprintf(path, sizeof path, "%s/kept.pem", dir);
    assert_ok(os_remove(path));
    assert_err(tls_config_reload(t, &why), ERR_NOTFOUND);
    tls_config_identity(t, &after);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(mem_live(), live);
    tls_config_free(t);
}

static void running_out_of_memory_leaves_what_was(void **state)
{
    struct net_tls_conf pin_conf = {.pin = (const uint8_t[32]){1}, .server_name = PKI_SERVER_NAME};
    struct net_identity who;
    struct tls_config *t;
    enum err e = ERR_NOMEM;
    long live = mem_live();

    for (long i = 0; e; i++) {
        assert_true(i < 100);
        mem_fail_after(i);
        e = tls_config_load(&t, &pin_conf, false, NULL);
        mem_fail_after(-1);
        assert_true(!e || (e == ERR_NOMEM && mem_live() == live));
    }
    tls_config_free(t);
    put("short", pki, "collector");
    t = load_put("short", true);
    live = mem_live();
    e = ERR_NOMEM;
    for (long i = 0; e; i++) {
        assert_true(i < 100);
        mem_fail_after(i);
        e = tls_config_reload(t, NULL);
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM);
        assert_int_equal(mem_live(), live);
        tls_config_identity(t, &who);
        assert_string_equal(who.name, "collector");
    }
    tls_config_free(t);
}

/* Handshakes on one thread, new rules on another. */
struct storm {
    struct tls_config *tls;
    atomic_bool stop;
};

static void reload_on_and_on(void *arg)
{
    struct storm *s = arg;

    while (!atomic_load(&s->stop)) {
        struct net_identity who;

        err_ignore(tls_config_reload(s->tls, NULL));
        tls_config_identity(s->tls, &who);
    }
}

static void reading_anew_under_handshakes_loses_none(void **state)
{
    struct net_engine_stats before, after;
    struct storm s = {.stop = false};
    struct os_thread *thread;
    struct net_rig g;

    put("storm", pki, "collector");
    s.tls = load_put("storm", true);
    rig_start(&g, s.tls, false);
    net_engine_stats(&before);
    assert_ok(os_thread_start(&thread, "reload", reload_on_and_on, &s));
    for (int i = 0; i < 10; i++) {
        struct net_client *c = net_rig_dial(g.address, agent);

        assert_answered(c);
        net_client_close(c);
    }
    atomic_store(&s.stop, true);
    os_thread_join(thread);
    net_engine_stats(&after);
    assert_int_equal(after.full - before.full, 20); /* both sides */
    assert_int_equal(after.failed, before.failed);
    net_rig_stop(&g);
    tls_config_free(s.tls);
}

/* -- names in a certificate -- */

static void a_certificate_is_parsed_whole_or_not_at_all(void **state)
{
    struct net_identity who;
    struct buf der;

    buf_init(&der, PKI_FILE_MAX);
    assert_ok(pki_pem_read(&der, certs_path(pki, "agent", ".pem")));
    for (size_t n = 0; n < der.n; n++) {
        assert_err(tls_cert_parse(&who, der.p, n), ERR_INVALID);
    }
    assert_ok(tls_cert_parse(&who, der.p, der.n));
    assert_string_equal(who.name, "agent");
    assert_true(who.has_host);
    assert_int_equal(who.roles, NET_AGENT);
    buf_put(&der, "", 1);
    assert_err(tls_cert_parse(&who, der.p, der.n), ERR_INVALID);
    buf_fini(&der);
}

static int set_up(void **state)
{
    struct pki_issue late = {.use = PKI_COLLECTOR,
                             .name = "late",
                             .now_ns = os_utc_ns() - 7200 * CLK_S,
                             .life_ns = 3600 * CLK_S};

    support_temp_dir(dir, sizeof dir);
    net_rig_begin(&pki, &foreign);
    collector = certs_tls(pki, PKI_COLLECTOR, "collector");
    agent = certs_tls(pki, PKI_AGENT, "agent");
    certs_issue(pki, PKI_AGENT, "agent2");
    certs_issue_as(pki, &late);
    certs_issue(foreign, PKI_AGENT, "agent");
    certs_issue(foreign, PKI_COLLECTOR, "collector");
    return 0;
}

static int tear_down(void **state)
{
    support_remove_dir(dir);
    return net_rig_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stranger_with_a_pin_is_answered),
        cmocka_unit_test(a_certificate_counts_for_nothing_among_strangers),
        cmocka_unit_test(strangers_get_in_nowhere_else),
        cmocka_unit_test(only_the_pinned_authority_can_vouch),
        cmocka_unit_test(a_pin_does_not_stand_for_the_name),
        cmocka_unit_test(too_little_to_know_whom_to_believe_is_not_loaded),
        cmocka_unit_test(a_listener_follows_its_files_and_keeps_its_connections),
        cmocka_unit_test(a_client_follows_its_files_at_the_next_connection),
        cmocka_unit_test(a_redial_after_a_refusal_waits_for_no_pause),
        cmocka_unit_test(pauses_grow_as_far_as_they_may),
        cmocka_unit_test(files_that_cannot_be_used_change_nothing),
        cmocka_unit_test(running_out_of_memory_leaves_what_was),
        cmocka_unit_test(reading_anew_under_handshakes_loses_none),
        cmocka_unit_test(a_certificate_is_parsed_whole_or_not_at_all),
    };

    static const enum tls_versions rows[] = {TLS_1_2_AND_1_3, TLS_ONLY_1_2};
    int failed = 0;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        certs_speak(rows[i]);
        failed += cmocka_run_group_tests(tests, set_up, tear_down);
    }
    return failed;
}
