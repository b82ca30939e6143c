#include "common/tls/cert_reloader.h"

#include <stdio.h>
#include <string.h>

#include "common/os/os.h"
#include "tests/support/certs.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static struct certs *pki, *other;

/* A side whose files lie in a directory of their own. */
struct side {
    char dir[256], ca[300], cert[300], key[300];
    struct tls_config *tls;
    struct cert_reloader follow;
};

static void side_init(struct side *s)
{
    struct net_tls_conf conf = {.ca = s->ca, .cert = s->cert, .key = s->key};

    support_temp_dir(s->dir, sizeof s->dir);
    snprintf(s->ca, sizeof s->ca, "%s/ca.pem", s->dir);
    snprintf(s->cert, sizeof s->cert, "%s/own.pem", s->dir);
    snprintf(s->key, sizeof s->key, "%s/own.key", s->dir);
    certs_copy(pki, "ca", ".pem", s->ca);
    certs_copy(pki, "one", ".pem", s->cert);
    certs_copy(pki, "one", ".key", s->key);
    assert_ok(tls_config_load(&s->tls, &conf, true, NULL));
    cert_reloader_begin(&s->follow, s->tls, s->ca, s->cert, NULL);
}

static void side_fini(struct side *s)
{
    tls_config_free(s->tls);
    support_remove_dir(s->dir);
}

static void assert_uses(struct side *s, const char *name)
{
    struct net_identity who;

    tls_config_identity(s->tls, &who);
    assert_string_equal(who.name, name);
}

static void files_that_stay_are_no_news(void **state)
{
    struct side s;
    bool news = true;

    side_init(&s);
    assert_ok(cert_reloader_poll(&s.follow, &news, NULL));
    assert_false(news);
    certs_copy(pki, "one", ".pem", s.cert); /* the same again */
    assert_ok(cert_reloader_poll(&s.follow, &news, NULL));
    assert_false(news);
    side_fini(&s);
}

static void another_pair_is_used_once_it_is_whole(void **state)
{
    struct errmsg why = {""};
    struct side s;
    bool news = true;

    side_init(&s);
    certs_copy(pki, "two", ".key", s.key);
    assert_ok(cert_reloader_poll(&s.follow, &news, &why));
    assert_false(news);
    certs_copy(pki, "two", ".pem", s.cert);
    assert_ok(cert_reloader_poll(&s.follow, &news, &why));
    assert_true(news);
    assert_uses(&s, "two");
    assert_ok(cert_reloader_poll(&s.follow, &news, &why));
    assert_false(news);
    side_fini(&s);
}

static void what_fails_is_told_once_and_tried_again(void **state)
{
    struct errmsg why = {""};
    struct side s;
    bool news = false;

    side_init(&s);
    certs_copy(pki, "two", ".pem", s.cert); /* its key is not there yet */
    assert_err(cert_reloader_poll(&s.follow, &news, &why), ERR_TRUST);
    assert_true(news);
    assert_non_null(strstr(why.text, "own.key"));
    assert_err(cert_reloader_poll(&s.follow, &news, &why), ERR_TRUST);
    assert_false(news);
    assert_uses(&s, "one");
    certs_copy(pki, "two", ".key", s.key);
    assert_ok(cert_reloader_poll(&s.follow, &news, &why));
    assert_true(news);
    assert_uses(&s, "two");
    assert_ok(os_remove(s.ca));
    assert_err(cert_reloader_poll(&s.follow, &news, &why), ERR_NOTFOUND);
    assert_true(news);
    certs_copy(pki, "ca", ".pem", s.ca); /* as it was: in use already */
    assert_ok(cert_reloader_poll(&s.follow, &news, &why));
    assert_false(news);
    side_fini(&s);
}

static void two_authorities_in_one_file_are_both_believed(void **state)
{
    const struct certs_shown both[] = {{other, "ca"}, {pki, "ca"}};
    struct errmsg why = {""};
    struct side s;
    bool news = false;

    side_init(&s);
    certs_chain(s.ca, both, COUNT_OF(both));
    assert_ok(cert_reloader_poll(&s.follow, &news, &why));
    assert_true(news);
    certs_copy(other, "three", ".key", s.key);
    certs_copy(other, "three", ".pem", s.cert);
    assert_ok(cert_reloader_poll(&s.follow, &news, &why));
    assert_true(news);
    assert_uses(&s, "three");
    certs_copy(pki, "ca", ".pem", s.ca); /* the old one alone: it does not know the new pair */
    assert_err(cert_reloader_poll(&s.follow, &news, &why), ERR_TRUST);
    assert_uses(&s, "three");
    side_fini(&s);
}

static int set_up(void **state)
{
    pki = certs_create();
    other = certs_create();
    certs_issue(pki, PKI_COLLECTOR, "one");
    certs_issue(pki, PKI_COLLECTOR, "two");
    certs_issue(other, PKI_COLLECTOR, "three");
    return 0;
}

static int tear_down(void **state)
{
    certs_destroy(pki);
    certs_destroy(other);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_stay_are_no_news),
        cmocka_unit_test(another_pair_is_used_once_it_is_whole),
        cmocka_unit_test(what_fails_is_told_once_and_tried_again),
        cmocka_unit_test(two_authorities_in_one_file_are_both_believed),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
