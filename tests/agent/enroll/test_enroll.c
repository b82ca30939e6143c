#include "agent/enroll/enroll.h"

#include <stdio.h>

#include "common/base/mem.h"
#include "tests/agent/enroll/desk.h"
#include "tests/agent/enroll/identity.h"
#include "tests/support/net_rig.h"
#include "tests/support/support.h"

#define TIMEOUT_NS (20 * CLK_S)

static struct certs *pki, *foreign;
static struct desk *desk;

/* A host that enrols. */
struct host {
    char dir[256], token[WIRE_TOKEN_MAX + 1];
    struct places place;
    struct enroll_ask ask;
    struct enroll_result got;
    struct errmsg why;
};

static void host_init(struct host *h)
{
    memset(h, 0, sizeof *h);
    support_temp_dir(h->dir, sizeof h->dir);
    places_in(&h->place, h->dir);
    desk_token(h->token, pki);
    h->ask = (struct enroll_ask){.address = desk->address,
                                 .server_name = PKI_SERVER_NAME,
                                 .name = "host-1",
                                 .token = h->token,
                                 .files = &h->place.files,
                                 .timeout_ns = TIMEOUT_NS};
}

static void host_fini(struct host *h)
{
    support_remove_dir(h->dir);
}

static enum err run(struct host *h)
{
    return enroll_run(&h->got, &h->ask, &h->why);
}

static enum err count_one(void *ctx, const char *name)
{
    (void)name;
    *(unsigned *)ctx += 1;
    return ERR_OK;
}

static void assert_files(const struct host *h, unsigned wanted)
{
    unsigned n = 0;

    assert_ok(os_list_dir(h->dir, count_one, &n));
    assert_int_equal(n, wanted);
}

/* What is there: the fingerprint of a pair that fits. */
static void assert_holds(const struct host *h, const struct net_identity *who)
{
    struct net_identity seen;
    struct errmsg why = {""};

    if (identity_of(&seen, &h->place.files, &why)) {
        fail_msg("%s", why.text);
    }
    assert_memory_equal(seen.fingerprint, who->fingerprint, sizeof seen.fingerprint);
    assert_memory_equal(&seen.host, &who->host, sizeof seen.host);
}

static void a_token_becomes_an_identity(void **state)
{
    struct host h;

    host_init(&h);
    desk->ahead_ns = 7200 * CLK_S;
    if (run(&h)) {
        fail_msg("%s", h.why.text);
    }
    desk->ahead_ns = 0;
    assert_string_equal(h.got.who.name, "host-1");
    assert_string_equal(desk->name, "host-1");
    assert_string_equal(desk->token, h.token);
    assert_true(h.got.clock_ns > 7100 * CLK_S && h.got.clock_ns < 7300 * CLK_S);
    assert_holds(&h, &h.got.who);
    assert_files(&h, 3);
    assert_ok(os_check_private(h.place.key));
    host_fini(&h);
}

static void what_is_there_stays_unless_forced(void **state)
{
    struct host h;
    struct net_identity first;
    unsigned before;

    host_init(&h);
    assert_ok(run(&h));
    first = h.got.who;
    before = atomic_load(&desk->calls);
    assert_err(run(&h), ERR_EXISTS);
    assert_non_null(strstr(h.why.text, "--force"));
    assert_int_equal(atomic_load(&desk->calls), before); /* no token was spent for it */
    assert_holds(&h, &first);
    h.ask.force = true;
    assert_ok(run(&h));
    assert_memory_not_equal(&h.got.who.host, &first.host, sizeof first.host);
    assert_holds(&h, &h.got.who);
    assert_files(&h, 6);
    host_fini(&h);
}

static void a_change_that_was_cut_is_finished_first(void **state)
{
    char aside[500];
    struct host h;

    host_init(&h);
    assert_ok(run(&h));
    (void)snprintf(aside, sizeof aside, "%s.new", h.place.cert);
    assert_ok(os_rename(h.place.cert, aside)); /* as if killed before the last rename */
    assert_err(run(&h), ERR_EXISTS);
    assert_holds(&h, &h.got.who);
    assert_files(&h, 3);
    host_fini(&h);
}

static void what_cannot_be_is_told_before_anything_is_sent(void **state)
{
    static const struct {
        const char *token, *name, *says;
    } rows[] = {
        {"", "host-1", "not a token"},
        {"pf1-12", "host-1", "not a token"},
        {NULL, "", "cannot be a host's name"},
        {NULL, "two words", "cannot be a host's name"},
    };
    unsigned before = atomic_load(&desk->calls);
    struct host h;

    host_init(&h);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        h.ask.token = rows[i].token ? rows[i].token : h.token;
        h.ask.name = rows[i].name;
        assert_err(run(&h), ERR_INVALID);
        assert_non_null(strstr(h.why.text, rows[i].says));
    }
    assert_int_equal(atomic_load(&desk->calls), before);
    assert_files(&h, 0);
    host_fini(&h);
}

static void a_collector_of_another_authority_hears_nothing(void **state)
{
    unsigned before = atomic_load(&desk->calls);
    struct host h;

    host_init(&h);
    desk_token(h.token, foreign);
    assert_err(run(&h), ERR_TRUST);
    assert_non_null(strstr(h.why.text, "the token names the collector's authority"));
    desk_token(h.token, pki);
    h.ask.server_name = "another-name";
    assert_err(run(&h), ERR_TRUST);
    assert_int_equal(atomic_load(&desk->calls), before);
    assert_files(&h, 0);
    host_fini(&h);
}

static void nobody_there_is_told_with_the_port(void **state)
{
    struct host h;

    host_init(&h);
    h.ask.address = "127.0.0.1:1";
    assert_err(run(&h), ERR_UNREACHABLE);
    assert_non_null(strstr(h.why.text, "7423"));
    assert_files(&h, 0);
    host_fini(&h);
}

static void a_refusal_is_told_in_the_collectors_words(void **state)
{
    static const enum rpc_code codes[] = {RPC_UNAUTHENTICATED, RPC_PERMISSION_DENIED,
                                          RPC_INVALID_ARGUMENT, RPC_UNAVAILABLE};
    struct host h;

    host_init(&h);
    desk->message = "the token was used at noon; make another";
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        desk->refuse = codes[i];
        assert_err(run(&h), ERR_REFUSED);
        assert_non_null(strstr(h.why.text, desk->message));
        assert_files(&h, 0);
    }
    desk->refuse = RPC_OK;
    host_fini(&h);
}

static void a_busy_collector_is_asked_again(void **state)
{
    struct host h;

    host_init(&h);
    desk->busy = 2;
    if (run(&h)) {
        fail_msg("%s", h.why.text);
    }
    assert_int_equal(desk->busy, 0);
    host_fini(&h);
}

static void certificates_that_do_not_fit_are_not_taken(void **state)
{
    static const enum desk_trick tricks[] = {DESK_OTHER_KEY, DESK_OTHER_ROLE, DESK_OTHER_AUTHORITY,
                                             DESK_NO_AUTHORITY};
    struct host h;

    host_init(&h);
    for (size_t i = 0; i < COUNT_OF(tricks); i++) {
        desk->trick = tricks[i];
        assert_err(run(&h), ERR_TRUST);
        assert_files(&h, 0);
    }
    desk->trick = DESK_HONEST;
    host_fini(&h);
}

static void an_answer_that_is_cut_anywhere_is_not_taken(void **state)
{
    struct host h;
    size_t whole;

    host_init(&h);
    assert_ok(run(&h));
    whole = desk->reply_n;
    h.ask.force = true;
    desk->trick = DESK_CUT;
    for (desk->cut = 0; desk->cut < whole - 20; desk->cut += 61) {
        struct net_identity before = h.got.who;

        assert_int_not_equal(run(&h), ERR_OK);
        assert_holds(&h, &before);
    }
    desk->trick = DESK_HONEST;
    host_fini(&h);
}

/* Installs a certificate whose time is over. */
static void expire(struct host *h, struct net_identity *who)
{
    struct pki_issue what = {.use = PKI_AGENT,
                             .name = "host-1",
                             .now_ns = os_utc_ns() - 7200 * CLK_S,
                             .life_ns = 3600 * CLK_S};
    struct pki_authority *authority;
    struct trust_change change = {.replace = true};
    struct pki_key *key;
    struct buf csr, der;

    buf_init(&csr, 4096);
    buf_init(&der, 4096);
    assert_ok(pki_authority_open(&authority, certs_dir(pki), &h->why));
    assert_ok(pki_key_make(&key));
    assert_ok(pki_key_request(&csr, key, "host-1"));
    assert_ok(pki_authority_sign(&der, authority, &what, csr.p, csr.n, &h->why));
    change.key = key;
    change.certificate = der.p;
    change.certificate_n = der.n;
    change.authority = pki_authority_der(authority, &change.authority_n);
    assert_ok(trust_files_change(&h->place.files, &change, &h->why));
    assert_ok(tls_cert_parse(who, der.p, der.n));
    pki_authority_close(authority);
    pki_key_free(key);
    buf_fini(&csr);
    buf_fini(&der);
    h->ask.token = NULL;
    h->ask.name = NULL;
}

static void an_expired_certificate_proves_who_its_holder_was(void **state)
{
    struct net_identity old;
    struct host h;

    host_init(&h);
    expire(&h, &old);
    if (run(&h)) {
        fail_msg("%s", h.why.text);
    }
    assert_memory_equal(&h.got.who.host, &old.host, sizeof old.host);
    assert_string_equal(h.got.who.name, old.name);
    assert_true(h.got.who.not_after_ns > os_utc_ns());
    assert_holds(&h, &h.got.who);
    assert_files(&h, 3);
    host_fini(&h);
}

static void an_expired_certificate_stays_when_there_is_no_other(void **state)
{
    static const enum desk_trick tricks[] = {DESK_OTHER_KEY, DESK_OTHER_ROLE, DESK_OTHER_HOST,
                                             DESK_OTHER_NAME};
    struct net_identity old;
    struct host h;

    host_init(&h);
    expire(&h, &old);
    for (size_t i = 0; i < COUNT_OF(tricks); i++) {
        desk->trick = tricks[i];
        assert_err(run(&h), ERR_TRUST);
        assert_holds(&h, &old);
    }
    desk->trick = DESK_HONEST;
    desk->refuse = RPC_PERMISSION_DENIED;
    desk->message = "expired for longer than 7d; enrol anew";
    assert_err(run(&h), ERR_REFUSED);
    desk->refuse = RPC_OK;
    assert_holds(&h, &old);
    assert_files(&h, 3);
    host_fini(&h);
}

static void running_out_of_memory_leaves_nothing(void **state)
{
    struct host h;

    host_init(&h);
    h.ask.address = "127.0.0.1:1";
    for (long i = 0; i < 60; i++) {
        enum err e;

        mem_fail_after(i);
        e = run(&h);
        mem_fail_after(-1);
        assert_true(e == ERR_NOMEM || e == ERR_UNREACHABLE || e == ERR_TIMEOUT);
        assert_files(&h, 0);
    }
    host_fini(&h);
}

static int set_up(void **state)
{
    net_rig_begin(&pki, &foreign);
    certs_issue(pki, PKI_COLLECTOR, "collector");
    desk = desk_open(pki, foreign);
    return 0;
}

static int tear_down(void **state)
{
    desk_close(desk);
    return net_rig_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_becomes_an_identity),
        cmocka_unit_test(what_is_there_stays_unless_forced),
        cmocka_unit_test(a_change_that_was_cut_is_finished_first),
        cmocka_unit_test(what_cannot_be_is_told_before_anything_is_sent),
        cmocka_unit_test(a_collector_of_another_authority_hears_nothing),
        cmocka_unit_test(nobody_there_is_told_with_the_port),
        cmocka_unit_test(a_refusal_is_told_in_the_collectors_words),
        cmocka_unit_test(a_busy_collector_is_asked_again),
        cmocka_unit_test(certificates_that_do_not_fit_are_not_taken),
        cmocka_unit_test(an_answer_that_is_cut_anywhere_is_not_taken),
        cmocka_unit_test(an_expired_certificate_proves_who_its_holder_was),
        cmocka_unit_test(an_expired_certificate_stays_when_there_is_no_other),
        cmocka_unit_test(running_out_of_memory_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
