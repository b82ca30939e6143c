#include "common/pki/pki_key.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/pki/pki_authority.h"
#include "tests/support/certs.h"
#include "tests/support/t.h"

#define LIFE (600 * CLK_S)

struct rig {
    struct certs *certs;
    struct pki_authority *authority;
    struct pki_key *key;
    struct buf csr, out;
};

static void rig_open(struct rig *r)
{
    struct errmsg why = {""};

    r->certs = certs_create();
    assert_ok(pki_authority_open(&r->authority, certs_dir(r->certs), &why));
    assert_ok(pki_key_make(&r->key));
    buf_init(&r->csr, 4096);
    buf_init(&r->out, 4096);
    assert_ok(pki_key_request(&r->csr, r->key, "asked-for"));
}

static void rig_close(struct rig *r)
{
    buf_fini(&r->csr);
    buf_fini(&r->out);
    pki_key_free(r->key);
    pki_authority_close(r->authority);
    certs_destroy(r->certs);
}

static struct pki_issue agent(void)
{
    struct pki_issue what = {.use = PKI_AGENT,
                             .name = "web-01",
                             .has_host = true,
                             .host = {{1, 2, 3}},
                             .now_ns = os_utc_ns(),
                             .life_ns = LIFE};

    return what;
}

static enum err sign(struct rig *r, const struct pki_issue *what, const void *csr, size_t n)
{
    struct errmsg why = {""};
    enum err e;

    buf_reset(&r->out);
    e = pki_authority_sign(&r->out, r->authority, what, csr, n, &why);
    assert_int_equal(e != ERR_OK, why.text[0] != '\0');
    assert_int_equal(e != ERR_OK, r->out.n == 0);
    return e;
}

static void a_request_becomes_the_certificate_that_the_signer_decided(void **state)
{
    struct rig r;
    struct pki_issue what = agent();
    struct net_identity who;

    rig_open(&r);
    assert_ok(sign(&r, &what, r.csr.p, r.csr.n));
    assert_ok(tls_cert_parse(&who, r.out.p, r.out.n));
    assert_string_equal(who.name, "web-01");
    assert_memory_equal(&who.host, &what.host, sizeof what.host);
    assert_int_equal(who.roles, NET_AGENT);
    assert_int_equal(who.not_after_ns / CLK_S, (what.now_ns + LIFE) / CLK_S);
    assert_int_equal(who.not_before_ns / CLK_S, (what.now_ns - LIFE / 10) / CLK_S);
    rig_close(&r);
}

static void key_and_certificate_of_a_request_make_a_client(void **state)
{
    struct rig r;
    struct pki_issue what = agent();
    struct errmsg why;
    struct tls_config *t;
    struct buf pem;

    rig_open(&r);
    assert_ok(sign(&r, &what, r.csr.p, r.csr.n));
    assert_ok(pki_key_save(r.key, certs_path(r.certs, "web-01", ".key"), &why));
    assert_err(pki_key_save(r.key, certs_path(r.certs, "web-01", ".key"), &why), ERR_EXISTS);
    buf_init(&pem, PKI_FILE_MAX);
    assert_ok(pki_pem_put(&pem, r.out.p, r.out.n));
    assert_ok(os_write_file(certs_path(r.certs, "web-01", ".pem"), pem.p, pem.n, false));
    t = certs_load(r.certs, "web-01", r.certs, false);
    tls_config_free(t);
    buf_fini(&pem);
    rig_close(&r);
}

static bool holds(const struct buf *b, const char *text)
{
    size_t n = strlen(text);

    for (size_t i = 0; i + n <= b->n; i++) {
        if (memcmp(b->p + i, text, n) == 0) {
            return true;
        }
    }
    return false;
}

static void nothing_that_a_request_asks_for_is_given(void **state)
{
    struct rig r;
    struct pki_issue what = agent();
    struct net_identity who;
    uint8_t *csr;
    size_t n;

    rig_open(&r); /* it asks for a CA, for role admin and the collector's name */
    assert_ok(os_read_file(&csr, &n, "tests/common/fixtures/request-greedy.der", 4096));
    assert_ok(sign(&r, &what, csr, n));
    assert_ok(tls_cert_parse(&who, r.out.p, r.out.n));
    assert_string_equal(who.name, "web-01");
    assert_int_equal(who.roles, NET_AGENT);
    assert_false(holds(&r.out, "procfleet-collector"));
    assert_false(holds(&r.out, "role:admin"));
    assert_false(holds(&r.out, "evil"));
    mem_free(csr);
    rig_close(&r);
}

static void requests_of_other_kinds_are_refused(void **state)
{
    static const struct {
        const char *path;
        enum err e;
    } rows[] = {
        {"tests/common/fixtures/request-rsa.der", ERR_INVALID},
        {"tests/common/fixtures/request-p384.der", ERR_CORRUPT}, /* a curve this build lacks */
        {"tests/common/fixtures/request-sha384.der", ERR_CORRUPT},
    };
    struct rig r;
    struct pki_issue what = agent();

    rig_open(&r);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint8_t *csr;
        size_t n;

        assert_ok(os_read_file(&csr, &n, rows[i].path, 4096));
        assert_err(sign(&r, &what, csr, n), rows[i].e);
        mem_free(csr);
    }
    rig_close(&r);
}

static void every_shorter_or_longer_request_is_refused(void **state)
{
    struct rig r;
    struct pki_issue what = agent();

    rig_open(&r);
    for (size_t n = 0; n < r.csr.n; n++) {
        uint8_t *cut = mem_dup(r.csr.p, n);

        assert_err(sign(&r, &what, cut, n), ERR_CORRUPT);
        mem_free(cut);
    }
    buf_put_u8(&r.csr, 0);
    assert_err(sign(&r, &what, r.csr.p, r.csr.n), ERR_CORRUPT);
    rig_close(&r);
}

static void a_request_changed_anywhere_is_refused(void **state)
{
    struct rig r;
    struct pki_issue what = agent();

    rig_open(&r);
    for (size_t i = 0; i < r.csr.n; i++) {
        r.csr.p[i] ^= 0x04;
        assert_true(sign(&r, &what, r.csr.p, r.csr.n) != ERR_OK);
        r.csr.p[i] ^= 0x04;
    }
    assert_ok(sign(&r, &what, r.csr.p, r.csr.n));
    rig_close(&r);
}

static void no_certificate_outlives_its_authority(void **state)
{
    struct rig r;
    struct pki_issue what = agent();
    struct net_identity who;
    int64_t end;

    rig_open(&r);
    end = pki_authority_not_after_ns(r.authority);
    what.life_ns = 1000 * 86400 * CLK_S;
    assert_ok(sign(&r, &what, r.csr.p, r.csr.n));
    assert_ok(tls_cert_parse(&who, r.out.p, r.out.n));
    assert_int_equal(who.not_after_ns, end);
    what.now_ns = end;
    assert_err(sign(&r, &what, r.csr.p, r.csr.n), ERR_TRUST);
    rig_close(&r);
}

/* A certificate of the rig's key, valid from `now` for a minute, in `der`. */
static void certify(struct rig *r, struct buf *der, int64_t now_ns)
{
    struct pki_issue what = agent();

    what.now_ns = now_ns;
    what.life_ns = 60 * CLK_S;
    assert_ok(sign(r, &what, r->csr.p, r->csr.n));
    buf_put(der, r->out.p, r->out.n);
}

static void a_proof_shows_the_old_key_whatever_the_certificates_age(void **state)
{
    static const int64_t ages[] = {0, 3600 * CLK_S, 400 * 86400 * CLK_S, -3600 * CLK_S / 2};
    struct rig r;

    rig_open(&r);
    for (size_t i = 0; i < COUNT_OF(ages); i++) {
        struct buf der, signature;

        buf_init(&der, 4096);
        buf_init(&signature, 256);
        certify(&r, &der, os_utc_ns() - ages[i]);
        assert_ok(pki_key_proof(&signature, r.key, "request", 7));
        assert_ok(pki_authority_check_proof(r.authority, der.p, der.n, "request", 7, signature.p,
                                            signature.n));
        assert_err(pki_authority_check_proof(r.authority, der.p, der.n, "requesT", 7, signature.p,
                                             signature.n),
                   ERR_TRUST);
        for (size_t n = 0; n < signature.n; n++) {
            assert_err(
                pki_authority_check_proof(r.authority, der.p, der.n, "request", 7, signature.p, n),
                ERR_TRUST);
        }
        buf_fini(&der);
        buf_fini(&signature);
    }
    rig_close(&r);
}

static void a_proof_needs_this_authority_and_this_key(void **state)
{
    struct rig r, foreign;
    struct buf der, signature;
    struct pki_key *other;

    rig_open(&r);
    rig_open(&foreign);
    buf_init(&der, 4096);
    buf_init(&signature, 256);
    certify(&foreign, &der, os_utc_ns());
    assert_ok(pki_key_proof(&signature, foreign.key, "request", 7));
    assert_err(pki_authority_check_proof(r.authority, der.p, der.n, "request", 7, signature.p,
                                         signature.n),
               ERR_TRUST);
    assert_ok(pki_authority_check_proof(foreign.authority, der.p, der.n, "request", 7, signature.p,
                                        signature.n));
    assert_ok(pki_key_make(&other));
    buf_reset(&signature);
    assert_ok(pki_key_proof(&signature, other, "request", 7));
    assert_err(pki_authority_check_proof(foreign.authority, der.p, der.n, "request", 7, signature.p,
                                         signature.n),
               ERR_TRUST);
    for (size_t n = 0; n < der.n; n++) {
        uint8_t *cut = mem_dup(der.p, n);

        assert_err(pki_authority_check_proof(foreign.authority, cut, n, "request", 7, signature.p,
                                             signature.n),
                   ERR_CORRUPT);
        mem_free(cut);
    }
    pki_key_free(other);
    buf_fini(&der);
    buf_fini(&signature);
    rig_close(&foreign);
    rig_close(&r);
}

static void a_key_is_read_as_it_was_saved(void **state)
{
    struct rig r;
    struct pki_key *again;
    struct buf der, signature;
    struct errmsg why;
    const char *path;

    rig_open(&r);
    buf_init(&der, 4096);
    buf_init(&signature, 256);
    certify(&r, &der, os_utc_ns());
    path = certs_path(r.certs, "k", ".key");
    assert_ok(pki_key_save(r.key, path, &why));
    assert_ok(os_check_private(path));
    assert_ok(pki_key_load(&again, path, &why));
    assert_ok(pki_key_proof(&signature, again, "x", 1));
    assert_ok(
        pki_authority_check_proof(r.authority, der.p, der.n, "x", 1, signature.p, signature.n));
    pki_key_free(again);
    assert_err(pki_key_load(&again, certs_path(r.certs, "none", ".key"), &why), ERR_NOTFOUND);
    path = certs_path(r.certs, "bad", ".key");
    assert_ok(os_write_file(path, "no key", 6, true));
    assert_err(pki_key_load(&again, path, &why), ERR_INVALID);
    buf_fini(&der);
    buf_fini(&signature);
    rig_close(&r);
}

static void an_authority_is_known_by_its_pin(void **state)
{
    struct rig r, foreign;
    struct buf der;
    uint8_t pin[PKI_PIN_BYTES], again[PKI_PIN_BYTES];
    const void *p;
    size_t n;

    rig_open(&r);
    rig_open(&foreign);
    buf_init(&der, 4096);
    assert_ok(pki_pem_read(&der, certs_path(r.certs, "ca", ".pem")));
    p = pki_authority_der(r.authority, &n);
    assert_int_equal(n, der.n);
    assert_memory_equal(p, der.p, n);
    pki_authority_pin(r.authority, pin);
    pki_authority_pin(r.authority, again);
    assert_memory_equal(pin, again, sizeof pin);
    pki_authority_pin(foreign.authority, again);
    assert_memory_not_equal(pin, again, sizeof pin);
    buf_fini(&der);
    rig_close(&foreign);
    rig_close(&r);
}

static void openers_survive_running_out_of_memory(void **state)
{
    struct rig r;
    struct pki_authority *a;
    struct pki_key *k;
    struct errmsg why;
    char path[300];
    enum err e = ERR_NOMEM;
    long live;

    rig_open(&r);
    snprintf(path, sizeof path, "%s/ca.key", certs_dir(r.certs));
    live = mem_live();
    for (long n = 0; e; n++) {
        assert_true(n < 50);
        mem_fail_after(n);
        e = pki_authority_open(&a, certs_dir(r.certs), &why);
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM);
        if (!e) {
            pki_authority_close(a);
        }
        assert_int_equal(mem_live(), live);
    }
    e = ERR_NOMEM;
    for (long n = 0; e; n++) {
        assert_true(n < 50);
        mem_fail_after(n);
        e = pki_key_load(&k, path, &why);
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM);
        if (!e) {
            pki_key_free(k);
        }
        assert_int_equal(mem_live(), live);
    }
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_becomes_the_certificate_that_the_signer_decided),
        cmocka_unit_test(key_and_certificate_of_a_request_make_a_client),
        cmocka_unit_test(nothing_that_a_request_asks_for_is_given),
        cmocka_unit_test(requests_of_other_kinds_are_refused),
        cmocka_unit_test(every_shorter_or_longer_request_is_refused),
        cmocka_unit_test(a_request_changed_anywhere_is_refused),
        cmocka_unit_test(no_certificate_outlives_its_authority),
        cmocka_unit_test(a_proof_shows_the_old_key_whatever_the_certificates_age),
        cmocka_unit_test(a_proof_needs_this_authority_and_this_key),
        cmocka_unit_test(a_key_is_read_as_it_was_saved),
        cmocka_unit_test(an_authority_is_known_by_its_pin),
        cmocka_unit_test(openers_survive_running_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
