#include "common/pki/pki_authority.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/certs.h"
#include "tests/support/t.h"

static struct net_identity identity(struct certs *c, const char *name, bool server,
                                    struct tls_config **t)
{
    struct net_identity who;

    *t = certs_load(c, name, c, server);
    tls_config_identity(*t, &who);
    return who;
}

static void names_follow_their_rule(void **state)
{
    static const struct {
        const char *name;
        bool ok;
    } rows[] = {
        {"a", true},
        {"web-01.example_x", true},
        {"123456789012345678901234567890123456789012345678901234567890123", true},
        {"1234567890123456789012345678901234567890123456789012345678901234", false},
        {"", false},
        {"a b", false},
        {"a,CN=b", false},
        {"\xc3\xa4", false},
        {NULL, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(pki_name_ok(rows[i].name), rows[i].ok);
    }
}

static void a_new_name_is_nothing_else(void **state)
{
    static const char *const wrong[] = {
        "",         "a b",     ".",  "..",
        "...",      "web-1.",  "-a", "4B1F7C9E-30d8-4c0f-9d35-7b0d5e5a6c11",
        "deadbeef", "20240115"};
    static const char *const right[] = {"a", "a-", ".a", "a.b", "beef", "deadbeef-1", "g2345678"};

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_non_null(pki_name_wrong(wrong[i], false));
    }
    for (size_t i = 0; i < COUNT_OF(right); i++) {
        assert_null(pki_name_wrong(right[i], false));
    }
    assert_null(pki_name_wrong("20240115", true)); /* who writes a name knows it for one */
    assert_non_null(pki_name_wrong("-a", true));
    assert_non_null(pki_name_wrong("4b1f7c9e-30d8-4c0f-9d35-7b0d5e5a6c11", true));
}

static void uses_are_read_by_name(void **state)
{
    enum pki_use use = PKI_ADMIN;

    assert_ok(pki_authority_use(&use, "collector"));
    assert_int_equal(use, PKI_COLLECTOR);
    assert_ok(pki_authority_use(&use, "agent"));
    assert_int_equal(use, PKI_AGENT);
    assert_err(pki_authority_use(&use, "agents"), ERR_INVALID);
    assert_err(pki_authority_use(&use, ""), ERR_INVALID);
}

static void an_agent_certificate_carries_role_and_host(void **state)
{
    struct certs *c = certs_create();
    struct uuid host = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
    struct pki_issue what = {.use = PKI_AGENT, .name = "web-01", .has_host = true, .host = host};
    struct net_identity id;
    struct tls_config *t;
    int64_t now = os_utc_ns();

    certs_issue_as(c, &what);
    id = identity(c, "web-01", false, &t);
    assert_string_equal(id.name, "web-01");
    assert_int_equal(id.roles, NET_AGENT);
    assert_true(id.has_host);
    assert_memory_equal(&id.host, &host, sizeof host);
    assert_string_equal(id.scope, "");
    assert_true(id.not_before_ns < now - 60 * CLK_S);
    assert_true(id.not_after_ns > now + 3000 * CLK_S);
    tls_config_free(t);
    certs_destroy(c);
}

static void agents_get_a_random_identity_when_none_is_given(void **state)
{
    struct certs *c = certs_create();
    struct tls_config *t1, *t2;
    struct net_identity a, b;

    certs_issue(c, PKI_AGENT, "a");
    certs_issue(c, PKI_AGENT, "b");
    a = identity(c, "a", false, &t1);
    b = identity(c, "b", false, &t2);
    assert_true(a.has_host && b.has_host);
    assert_memory_not_equal(&a.host, &b.host, sizeof a.host);
    assert_memory_not_equal(a.fingerprint, b.fingerprint, sizeof a.fingerprint);
    tls_config_free(t1);
    tls_config_free(t2);
    certs_destroy(c);
}

static void a_scope_travels_in_the_certificate(void **state)
{
    struct certs *c = certs_create();
    struct pki_issue what = {.use = PKI_QUERY, .name = "ops", .scope = "web-*"};
    struct net_identity id;
    struct tls_config *t;

    certs_issue_as(c, &what);
    id = identity(c, "ops", false, &t);
    assert_int_equal(id.roles, NET_QUERY);
    assert_string_equal(id.scope, "web-*");
    assert_false(id.has_host);
    tls_config_free(t);
    certs_destroy(c);
}

static void certificates_serve_one_side_only(void **state)
{
    struct certs *c = certs_create();
    const char *dns[] = {"collector.example", "192.0.2.7", "2001:db8::1"};
    struct pki_issue what = {.use = PKI_COLLECTOR, .name = "c1", .dns = dns, .n_dns = 3};
    struct net_tls_conf conf = {.server_name = PKI_SERVER_NAME};
    struct errmsg why;
    struct tls_config *t;

    certs_issue_as(c, &what);
    certs_issue(c, PKI_AGENT, "a1");
    t = certs_load(c, "c1", c, true);
    tls_config_free(t);

    char ca[400];
    snprintf(ca, sizeof ca, "%s/ca.pem", certs_dir(c));
    conf.ca = ca;
    conf.cert = certs_path(c, "a1", ".pem");
    conf.key = certs_path(c, "a1", ".key");
    assert_err(tls_config_load(&t, &conf, true, &why), ERR_TRUST);
    conf.cert = certs_path(c, "c1", ".pem");
    conf.key = certs_path(c, "c1", ".key");
    assert_err(tls_config_load(&t, &conf, false, &why), ERR_TRUST);
    certs_destroy(c);
}

static void impossible_wishes_are_refused(void **state)
{
    static const char *const dns[] = {"bad name"};
    static const char *const good_dns[] = {"x"};
    static const struct pki_issue rows[] = {
        {.use = PKI_AGENT, .name = "a b"},
        {.use = PKI_AGENT, .name = ""},
        {.use = PKI_AGENT, .name = "a", .scope = "*"},
        {.use = PKI_COLLECTOR, .name = "a", .scope = "*"},
        {.use = PKI_QUERY, .name = "a", .scope = "we b"},
        {.use = PKI_QUERY, .name = "a", .scope = ""},
        {.use = PKI_QUERY, .name = "a", .has_host = true},
        {.use = PKI_QUERY, .name = "a", .dns = good_dns, .n_dns = 1},
        {.use = PKI_COLLECTOR, .name = "a", .dns = dns, .n_dns = 1},
        {.use = PKI_AGENT, .name = "a", .life_ns = -1},
    };
    struct certs *c = certs_create();
    struct errmsg why;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct pki_issue what = rows[i];

        what.now_ns = os_utc_ns();
        what.life_ns = what.life_ns ? what.life_ns : CLK_S;
        assert_err(pki_authority_issue(certs_dir(c), &what, certs_path(c, "x", ".pem"),
                                       certs_path(c, "x", ".key"), &why),
                   ERR_INVALID);
        assert_true(why.text[0] != '\0');
        assert_false(os_exists(certs_path(c, "x", ".key")));
    }
    certs_destroy(c);
}

static void nothing_is_overwritten(void **state)
{
    struct certs *c = certs_create();
    struct pki_issue what = {
        .use = PKI_AGENT, .name = "a", .now_ns = os_utc_ns(), .life_ns = CLK_S};
    struct errmsg why;

    assert_err(pki_authority_init(certs_dir(c), "again", os_utc_ns(), CLK_S, &why), ERR_EXISTS);
    certs_issue(c, PKI_AGENT, "a");
    assert_err(pki_authority_issue(certs_dir(c), &what, certs_path(c, "a", ".pem"),
                                   certs_path(c, "b", ".key"), &why),
               ERR_EXISTS);
    assert_err(pki_authority_issue(certs_dir(c), &what, certs_path(c, "b", ".pem"),
                                   certs_path(c, "a", ".key"), &why),
               ERR_EXISTS);
    assert_false(os_exists(certs_path(c, "b", ".pem")));
    certs_destroy(c);
}

static void a_missing_authority_is_said_with_its_remedy(void **state)
{
    struct pki_issue what = {
        .use = PKI_AGENT, .name = "a", .now_ns = os_utc_ns(), .life_ns = CLK_S};
    struct errmsg why;

    assert_err(
        pki_authority_issue("/nonexistent/pki", &what, "/nonexistent/a", "/nonexistent/b", &why),
        ERR_NOTFOUND);
    assert_non_null(strstr(why.text, "pki init"));
}

static void private_keys_are_readable_by_the_owner_only(void **state)
{
    struct certs *c = certs_create();

    certs_issue(c, PKI_AGENT, "a");
    assert_ok(os_check_private(certs_path(c, "ca", ".key")));
    assert_ok(os_check_private(certs_path(c, "a", ".key")));
    certs_destroy(c);
}

static void running_out_of_memory_leaves_no_file_behind(void **state)
{
    struct certs *c = certs_create();
    struct pki_issue what = {
        .use = PKI_AGENT, .name = "a", .now_ns = os_utc_ns(), .life_ns = CLK_S};
    struct errmsg why;
    enum err e = ERR_NOMEM;
    long live;

    certs_path(c, "x", ".pem"); /* its memory is taken now */
    certs_path(c, "x", ".pem");
    live = mem_live();
    for (long n = 0; e; n++) {
        assert_true(n < 100);
        const char *cert = certs_path(c, "a", ".pem"), *key = certs_path(c, "a", ".key");

        mem_fail_after(n);
        e = pki_authority_issue(certs_dir(c), &what, cert, key, &why);
        mem_fail_after(-1);
        if (e) {
            assert_err(e, ERR_NOMEM);
            assert_false(os_exists(certs_path(c, "a", ".key")));
        }
        assert_int_equal(mem_live(), live);
    }
    certs_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_follow_their_rule),
        cmocka_unit_test(a_new_name_is_nothing_else),
        cmocka_unit_test(uses_are_read_by_name),
        cmocka_unit_test(an_agent_certificate_carries_role_and_host),
        cmocka_unit_test(agents_get_a_random_identity_when_none_is_given),
        cmocka_unit_test(a_scope_travels_in_the_certificate),
        cmocka_unit_test(certificates_serve_one_side_only),
        cmocka_unit_test(impossible_wishes_are_refused),
        cmocka_unit_test(nothing_is_overwritten),
        cmocka_unit_test(a_missing_authority_is_said_with_its_remedy),
        cmocka_unit_test(private_keys_are_readable_by_the_owner_only),
        cmocka_unit_test(running_out_of_memory_leaves_no_file_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
