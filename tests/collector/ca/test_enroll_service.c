#include "collector/ca/enroll_service.h"

#include <stdio.h>
#include <string.h>

#include "collector/ca/ca_cert.h"
#include "collector/ca/ca_token.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/pki/pki_authority.h"
#include "common/wire/wire_enroll.h"
#include "tests/support/certs.h"
#include "tests/support/t.h"

#define HOUR  (3600 * CLK_S)
#define LIFE  HOUR
#define GRACE (7 * 24 * HOUR)
#define WAIT  (20 * CLK_S)

static int64_t ahead_ns; /* of the real clock; the service's shows it too much */

static int64_t clock_ns(void)
{
    return os_utc_ns() + ahead_ns;
}

/* A listener for strangers and one for agents, on an authority of its own. */
struct rig {
    struct certs *certs;
    struct ca_db *book;
    struct enroll_service *service;
    struct tls_config *server_tls, *stranger_tls;
    struct rpc_server *enroll, *ingest;
    struct rpc_client *stranger;
    struct pki_key *key; /* of whoever asks */
    uint8_t pin[PKI_PIN_BYTES];
    struct errmsg why;
    /* of the last call */
    struct rpc_result result;
    struct buf reply;
};

static struct rig rig;

static struct rpc_server *serve(struct rig *r, bool strangers, const struct rpc_method *methods,
                                size_t n)
{
    const struct rpc_server_conf conf = {.net = {.name = strangers ? "enroll" : "ingest",
                                                 .address = "127.0.0.1:0",
                                                 .tls = r->server_tls,
                                                 .roles = strangers ? 0 : NET_AGENT,
                                                 .strangers = strangers,
                                                 .receive_max = 16u << 10,
                                                 .contexts = 4},
                                         .methods = methods,
                                         .n_methods = n,
                                         .workers = 2,
                                         .queue = 8,
                                         .raw_max = 16u << 10,
                                         .default_timeout_ns = WAIT};
    struct rpc_server *s = NULL;

    assert_ok(rpc_server_start(&s, &conf, &r->why));
    return s;
}

static struct rpc_client *dial(struct rig *r, const struct rpc_server *s, struct tls_config *tls)
{
    char address[32];
    const struct net_client_conf conf = {.address = address,
                                         .tls = tls,
                                         .receive_max = 16u << 10,
                                         .reconnect_min_ns = 50 * CLK_MS,
                                         .reconnect_max_ns = 200 * CLK_MS};
    struct rpc_client *c = NULL;

    snprintf(address, sizeof address, "127.0.0.1:%u", rpc_server_port(s));
    assert_ok(rpc_client_open(&c, &conf, "test", &r->why));
    return c;
}

/* For the rate limits no time goes by: what a slow machine needs for a call gives no allowance. */
static int64_t stopped_ns(void)
{
    return CLK_S;
}

static void rig_open(struct rig *r)
{
    struct enroll_service_conf conf = {
        .life_ns = LIFE, .grace_ns = GRACE, .utc_ns = clock_ns, .mono_ns = stopped_ns};
    struct net_tls_conf pinned = {.server_name = PKI_SERVER_NAME};
    struct rpc_method methods[ENROLL_SERVICE_METHODS];

    memset(r, 0, sizeof *r);
    ahead_ns = 0;
    buf_init(&r->reply, 16u << 10);
    r->certs = certs_create();
    certs_issue(r->certs, PKI_COLLECTOR, "collector");
    r->server_tls = certs_load(r->certs, "collector", r->certs, true);
    assert_ok(ca_db_open(&r->book, certs_dir(r->certs), NULL, &r->why));
    conf.db = r->book;
    conf.dir = certs_dir(r->certs);
    assert_ok(enroll_service_create(&r->service, &conf, &r->why));
    enroll_service_methods(r->service, methods);
    r->enroll = serve(r, true, methods, ENROLL_SERVICE_METHODS);
    enroll_service_renew_method(r->service, methods);
    r->ingest = serve(r, false, methods, 1);
    certs_pin(r->certs, r->pin);
    pinned.pin = r->pin;
    assert_ok(tls_config_load(&r->stranger_tls, &pinned, false, &r->why));
    r->stranger = dial(r, r->enroll, r->stranger_tls);
    assert_ok(pki_key_make(&r->key));
}

static void rig_close(struct rig *r)
{
    pki_key_free(r->key);
    rpc_client_close(r->stranger);
    rpc_server_stop(r->enroll);
    rpc_server_stop(r->ingest);
    enroll_service_destroy(r->service);
    ca_db_close(r->book);
    tls_config_free(r->stranger_tls);
    tls_config_free(r->server_tls);
    certs_destroy(r->certs);
    buf_fini(&r->reply);
}

static enum rpc_code call(struct rig *r, struct rpc_client *c, const char *method,
                          const struct buf *request)
{
    enum err e;

    buf_reset(&r->reply);
    memset(&r->result, 0, sizeof r->result);
    e = rpc_client_call(c, method, FRAME_RAW, request->p, request->n, WAIT, &r->reply, &r->result);
    assert_true(e == ERR_OK || e == ERR_REFUSED);
    return r->result.code;
}

static void make_token(struct rig *r, char text[PKI_TOKEN_TEXT], const char *names, bool again)
{
    struct ca_token what = {.again = again, .made_ns = clock_ns(), .expires_ns = clock_ns() + HOUR};

    snprintf(what.names, sizeof what.names, "%s", names);
    assert_ok(ca_token_make(r->book, &what, r->pin, text, &r->why));
}

static enum rpc_code enroll(struct rig *r, const char *token, const char *name)
{
    struct wire_enroll m = {.csr_n = 0};
    struct buf csr, request;
    enum rpc_code code;

    buf_init(&csr, WIRE_CSR_MAX);
    buf_init(&request, 4096);
    snprintf(m.token, sizeof m.token, "%s", token);
    snprintf(m.name, sizeof m.name, "%s", name);
    assert_ok(pki_key_request(&csr, r->key, "x"));
    memcpy(m.csr, csr.p, csr.n);
    m.csr_n = csr.n;
    assert_ok(wire_enroll_encode(&request, &m));
    code = call(r, r->stranger, RPC_ENROLL_ENROLL, &request);
    buf_fini(&csr);
    buf_fini(&request);
    return code;
}

/* The certificate that was answered. */
static void answered(struct rig *r, struct wire_certificate *c, struct net_identity *who)
{
    assert_ok(wire_enroll_certificate_decode(c, r->reply.p, r->reply.n));
    assert_ok(tls_cert_parse(who, c->certificate, c->certificate_n));
}

/* Somebody becomes the host web-01 with a token of its own. */
static void become_host(struct rig *r, struct wire_certificate *c, struct net_identity *who)
{
    char token[PKI_TOKEN_TEXT];

    make_token(r, token, "", false);
    assert_int_equal(enroll(r, token, "web-01"), RPC_OK);
    answered(r, c, who);
}

static enum rpc_code renew_expired(struct rig *r, const struct wire_certificate *old,
                                   const struct pki_key *old_key, const struct pki_key *key)
{
    struct wire_renew_expired m = {.csr_n = 0};
    struct buf csr, signature, request;
    enum rpc_code code;

    buf_init(&csr, WIRE_CSR_MAX);
    buf_init(&signature, WIRE_SIGNATURE_MAX);
    buf_init(&request, 8192);
    assert_ok(pki_key_request(&csr, key, "x"));
    assert_ok(pki_key_proof(&signature, old_key, csr.p, csr.n));
    memcpy(m.csr, csr.p, csr.n);
    m.csr_n = csr.n;
    memcpy(m.certificate, old->certificate, old->certificate_n);
    m.certificate_n = old->certificate_n;
    memcpy(m.signature, signature.p, signature.n);
    m.signature_n = signature.n;
    assert_ok(wire_enroll_renew_expired_encode(&request, &m));
    code = call(r, r->stranger, RPC_ENROLL_RENEW_EXPIRED, &request);
    buf_fini(&csr);
    buf_fini(&signature);
    buf_fini(&request);
    return code;
}

static void a_stranger_with_a_token_becomes_a_host(void **state)
{
    struct wire_certificate c;
    struct net_identity who, authority;
    struct enroll_service_stats stats;
    char token[PKI_TOKEN_TEXT];
    size_t recent;

    make_token(&rig, token, "web-*", false);
    assert_int_equal(enroll(&rig, token, "db-01"), RPC_PERMISSION_DENIED);
    assert_non_null(strstr(rig.result.message, "web-*"));
    assert_int_equal(enroll(&rig, token, "web-01"), RPC_OK);
    answered(&rig, &c, &who);
    assert_string_equal(who.name, "web-01");
    assert_true(who.has_host && who.roles == NET_AGENT);
    /* whole seconds, counted from when it was made, which is before it was answered */
    assert_in_range(who.not_after_ns, c.now_ns + LIFE - 5 * CLK_S, c.now_ns + LIFE);
    assert_err(tls_cert_parse(&authority, c.authority, c.authority_n), ERR_OK);
    assert_memory_equal(authority.fingerprint, rig.pin, sizeof rig.pin);
    assert_int_equal(enroll(&rig, token, "web-02"), RPC_PERMISSION_DENIED);
    assert_non_null(strstr(rig.result.message, "used"));
    assert_ok(ca_cert_recent(rig.book, &who.host, 0, &recent, &rig.why));
    assert_int_equal(recent, 1);
    enroll_service_stats(rig.service, &stats);
    assert_int_equal(stats.enrolled, 1);
    assert_int_equal(stats.refused, 2);
}

static void names_that_mean_something_else_are_refused(void **state)
{
    static const struct {
        const char *name;
        enum rpc_code code;
    } rows[] = {
        {".", RPC_INVALID_ARGUMENT},
        {"..", RPC_INVALID_ARGUMENT},
        {"-rf", RPC_INVALID_ARGUMENT},
        {"4b1f7c9e-30d8-4c0f-9d35-7b0d5e5a6c11", RPC_INVALID_ARGUMENT},
        {"deadbeef", RPC_INVALID_ARGUMENT},
        {"0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDE", RPC_INVALID_ARGUMENT},
        {"web-01", RPC_PERMISSION_DENIED},
        {"WEB-01", RPC_PERMISSION_DENIED},
        {"Alice", RPC_PERMISSION_DENIED}, /* who asks questions */
        {"collector", RPC_PERMISSION_DENIED},
        {"beef-1", RPC_OK},
    };
    struct net_identity user = {.roles = NET_QUERY, .fingerprint = {1}, .name = "alice"};
    struct net_identity collector = {.fingerprint = {2}, .name = "collector"};
    struct wire_certificate c;
    struct net_identity who;
    char token[PKI_TOKEN_TEXT];

    become_host(&rig, &c, &who);
    user.not_after_ns = collector.not_after_ns = clock_ns() + LIFE;
    assert_ok(ca_cert_issued(rig.book, &user, clock_ns(), &rig.why));
    assert_ok(ca_cert_issued(rig.book, &collector, clock_ns(), &rig.why));
    make_token(&rig, token, "", false);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (enroll(&rig, token, rows[i].name) != rows[i].code) {
            fail_msg("%s: %s", rows[i].name, rig.result.message);
        }
    }
    make_token(&rig, token, "3f2a9c1b7d4e",
               true); /* as containers are called: the operator's word */
    assert_int_equal(enroll(&rig, token, "3f2a9c1b7d4e"), RPC_OK);
}

static void an_expired_certificate_is_renewed_within_the_grace(void **state)
{
    static const struct {
        int64_t age_ns; /* since its end */
        enum rpc_code code;
        const char *words;
    } rows[] = {
        {-HOUR / 2, RPC_PERMISSION_DENIED, "has not ended"},
        {-60 * CLK_S, RPC_PERMISSION_DENIED, "has not ended"},
        {HOUR, RPC_OK, ""},
        {GRACE - HOUR, RPC_OK, ""},
        {GRACE + HOUR, RPC_PERMISSION_DENIED, "--replace web-01"},
    };
    struct pki_key *key;
    struct wire_certificate old, c;
    struct net_identity before, who;

    assert_ok(pki_key_make(&key));
    become_host(&rig, &old, &before);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        ahead_ns = LIFE + rows[i].age_ns;
        assert_int_equal(renew_expired(&rig, &old, rig.key, key), rows[i].code);
        assert_non_null(strstr(rig.result.message, rows[i].words));
        if (rows[i].code == RPC_OK) {
            answered(&rig, &c, &who);
            assert_string_equal(who.name, "web-01");
            assert_memory_equal(&who.host, &before.host, sizeof who.host);
            assert_true(who.not_after_ns > before.not_after_ns);
        }
    }
    ahead_ns = LIFE + HOUR;
    assert_int_equal(renew_expired(&rig, &old, key, key), RPC_UNAUTHENTICATED);
    pki_key_free(key);
}

static void a_name_given_away_meanwhile_is_not_renewed(void **state)
{
    struct wire_certificate old;
    struct net_identity before;
    char token[PKI_TOKEN_TEXT];

    become_host(&rig, &old, &before);
    ahead_ns = LIFE + HOUR;
    make_token(&rig, token, "", false);
    assert_int_equal(enroll(&rig, token, "web-01"), RPC_OK);
    assert_int_equal(renew_expired(&rig, &old, rig.key, rig.key), RPC_PERMISSION_DENIED);
    assert_non_null(strstr(rig.result.message, "another name"));
}

static void the_revoked_are_renewed_nowhere(void **state)
{
    struct wire_certificate old;
    struct net_identity before;
    struct ca_cert_meant meant;

    become_host(&rig, &old, &before);
    assert_ok(ca_cert_revoke(rig.book, "web-01", "lost", clock_ns(), &meant, &rig.why));
    assert_int_equal(renew_expired(&rig, &old, rig.key, rig.key), RPC_PERMISSION_DENIED);
    assert_non_null(strstr(rig.result.message, "revoked"));
}

static void only_agents_are_renewed(void **state)
{
    struct wire_certificate c = {.certificate_n = 0};
    struct buf der;
    struct errmsg why;

    certs_issue(rig.certs, PKI_QUERY, "alice");
    buf_init(&der, PKI_FILE_MAX);
    assert_ok(pki_pem_read(&der, certs_path(rig.certs, "alice", ".pem")));
    memcpy(c.certificate, der.p, der.n);
    c.certificate_n = der.n;
    pki_key_free(rig.key);
    assert_ok(pki_key_load(&rig.key, certs_path(rig.certs, "alice", ".key"), &why));
    assert_int_equal(renew_expired(&rig, &c, rig.key, rig.key), RPC_PERMISSION_DENIED);
    assert_non_null(strstr(rig.result.message, "agents"));
    buf_fini(&der);
}

static void an_agent_renews_over_its_connection(void **state)
{
    struct tls_config *tls;
    struct rpc_client *agent;
    struct net_identity before, who;
    struct wire_certificate c;
    struct wire_renew m = {.csr_n = 0};
    struct buf csr, request;
    unsigned given = 0;

    certs_issue(rig.certs, PKI_AGENT, "web-01");
    tls = certs_load(rig.certs, "web-01", rig.certs, false);
    tls_config_identity(tls, &before);
    agent = dial(&rig, rig.ingest, tls);
    buf_init(&csr, WIRE_CSR_MAX);
    buf_init(&request, 4096);
    assert_ok(pki_key_request(&csr, rig.key, "admin"));
    memcpy(m.csr, csr.p, csr.n);
    m.csr_n = csr.n;
    assert_ok(wire_enroll_renew_encode(&request, &m));
    while (call(&rig, agent, RPC_INGEST_RENEW, &request) == RPC_OK) {
        answered(&rig, &c, &who);
        assert_string_equal(who.name, "web-01");
        assert_memory_equal(&who.host, &before.host, sizeof who.host);
        assert_memory_not_equal(who.fingerprint, before.fingerprint, sizeof who.fingerprint);
        given++;
    }
    assert_int_equal(given, 8); /* so many at once, then it has to wait */
    assert_int_equal(rig.result.code, RPC_RESOURCE_EXHAUSTED);
    assert_true(rig.result.retry_after_ms > 0);
    ahead_ns = LIFE / 2;
    assert_int_equal(call(&rig, agent, RPC_INGEST_RENEW, &request), RPC_OK);
    rpc_client_close(agent);
    tls_config_free(tls);
    buf_fini(&csr);
    buf_fini(&request);
}

static void a_book_that_cannot_be_written_takes_no_token(void **state)
{
    char token[PKI_TOKEN_TEXT], path[300];
    uint8_t *whole;
    size_t n;

    make_token(&rig, token, "", false);
    snprintf(path, sizeof path, "%s/book.db", certs_dir(rig.certs));
    assert_ok(os_read_file(&whole, &n, path, 1u << 20));
    assert_ok(os_write_file(path, "", 0, true));
    assert_int_equal(enroll(&rig, token, "web-01"), RPC_UNAVAILABLE);
    assert_null(strstr(rig.result.message, path)); /* for the log, not for strangers */
    assert_ok(os_write_file(path, whole, n, true));
    assert_int_equal(enroll(&rig, token, "web-01"), RPC_OK);
    mem_free(whole);
}

static void who_tries_too_often_has_to_wait(void **state)
{
    enum rpc_code code = RPC_OK;
    unsigned tries = 0;
    char token[PKI_TOKEN_TEXT];

    for (; code != RPC_RESOURCE_EXHAUSTED; tries++) {
        assert_true(tries < 500);
        code = enroll(&rig, "pf1-", "web-01");
        assert_true(code == RPC_INVALID_ARGUMENT || code == RPC_RESOURCE_EXHAUSTED);
    }
    assert_true(tries > 40);
    assert_in_range(rig.result.retry_after_ms, 1, 1000);
    make_token(&rig, token, "", false);
    do { /* whoever has a token does not wait for those who guess, from the same address, too */
        code = enroll(&rig, "pf1-", "web-01");
    } while (code == RPC_INVALID_ARGUMENT);
    assert_int_equal(enroll(&rig, token, "web-01"), RPC_OK);
    assert_int_equal(enroll(&rig, token, "web-01"), RPC_RESOURCE_EXHAUSTED); /* it is used */
    make_token(&rig, token, "", false);
    for (tries = 0; tries < 500 && code != RPC_INVALID_ARGUMENT; tries++) { /* but has a limit */
        code = enroll(&rig, token, "-a");
    }
    for (; tries < 500 && code == RPC_INVALID_ARGUMENT; tries++) {
        code = enroll(&rig, token, "-a");
    }
    assert_int_equal(code, RPC_RESOURCE_EXHAUSTED);
    assert_true(tries > 30);
}

static void creating_survives_every_failed_allocation(void **state)
{
    struct certs *c = certs_create();
    struct enroll_service_conf conf = {.dir = certs_dir(c), .life_ns = LIFE};
    struct errmsg why;
    enum err e = ERR_NOMEM;
    long live = mem_live();

    for (long n = 0; e; n++) {
        struct enroll_service *s = NULL;

        assert_true(n < 50);
        mem_fail_after(n);
        e = enroll_service_create(&s, &conf, &why);
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM);
        enroll_service_destroy(s);
        assert_int_equal(mem_live(), live);
    }
    certs_destroy(c);
}

static int net_up(void **state)
{
    struct errmsg why;

    return net_init(&why);
}

static int net_down(void **state)
{
    net_fini();
    return 0;
}

static int setup(void **state)
{
    rig_open(&rig);
    return 0;
}

static int teardown(void **state)
{
    rig_close(&rig);
    return 0;
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_stranger_with_a_token_becomes_a_host),
        T(names_that_mean_something_else_are_refused),
        T(an_expired_certificate_is_renewed_within_the_grace),
        T(a_name_given_away_meanwhile_is_not_renewed),
        T(the_revoked_are_renewed_nowhere),
        T(only_agents_are_renewed),
        T(an_agent_renews_over_its_connection),
        T(a_book_that_cannot_be_written_takes_no_token),
        T(who_tries_too_often_has_to_wait),
        cmocka_unit_test(creating_survives_every_failed_allocation),
    };

    return cmocka_run_group_tests(tests, net_up, net_down);
}
