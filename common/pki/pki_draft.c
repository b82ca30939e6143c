/* Certificates are written from a draft that holds only values checked by pki_issue_check: nothing
 * is copied from a request or from another certificate but a public key and the authority's own
 * name. What each kind carries:
 *
 *   authority   basicConstraints CA, path length 0; keyCertSign, cRLSign
 *   collector   serverAuth; DNS procfleet-collector and the names given
 *   the others  clientAuth; urn:procfleet:role:…, agents also urn:procfleet:host:…
 *
 * so that a stolen agent certificate cannot pose as the collector, nor the other way round. */
#include <stdio.h>
#include <string.h>

#include <mbedtls/oid.h>

#include "common/base/clk.h"
#include "common/pki/pki_impl.h"
#include "common/pki/pki_rng.h"

#define BACKDATE_NS (300 * CLK_S) /* clocks of a fleet differ; a tenth of short lives */

/* "20261121093900", what the certificate writer wants. */
static void time_text(char out[16], int64_t utc_ns)
{
    char text[CLK_TEXT];
    size_t n = 0;

    clk_format_utc(text, sizeof text, utc_ns, 0);
    for (const char *p = text; *p && n < 14; p++) {
        if (*p >= '0' && *p <= '9') {
            out[n++] = *p;
        }
    }
    out[n] = '\0';
}

/* Version, serial number, validity, keys and names: what all certificates have. */
static int draft_begin(mbedtls_x509write_cert *w, mbedtls_pk_context *subject_key,
                       mbedtls_pk_context *issuer_key, int64_t now_ns, int64_t life_ns)
{
    unsigned char serial[16];
    char from[16], until[16];
    int r = pki_rng(NULL, serial, sizeof serial);

    if (r != 0) {
        return r;
    }
    serial[0] = (unsigned char)((serial[0] & 0x7f) | 0x40); /* positive, full length */
    time_text(from, now_ns - (life_ns / 10 < BACKDATE_NS ? life_ns / 10 : BACKDATE_NS));
    time_text(until, clk_add(now_ns, life_ns));
    mbedtls_x509write_crt_set_version(w, MBEDTLS_X509_CRT_VERSION_3);
    mbedtls_x509write_crt_set_md_alg(w, MBEDTLS_MD_SHA256);
    mbedtls_x509write_crt_set_subject_key(w, subject_key);
    mbedtls_x509write_crt_set_issuer_key(w, issuer_key);
    r = mbedtls_x509write_crt_set_serial_raw(w, serial, sizeof serial);
    if (r == 0) {
        r = mbedtls_x509write_crt_set_validity(w, from, until);
    }
    return r;
}

static int draft_names(mbedtls_x509write_cert *w, const char *subject, const char *issuer)
{
    int r = mbedtls_x509write_crt_set_subject_name(w, subject);

    if (r == 0) {
        r = mbedtls_x509write_crt_set_issuer_name(w, issuer);
    }
    if (r == 0) {
        r = mbedtls_x509write_crt_set_subject_key_identifier(w);
    }
    if (r == 0) {
        r = mbedtls_x509write_crt_set_authority_key_identifier(w);
    }
    return r;
}

int pki_draft_authority(mbedtls_x509write_cert *w, mbedtls_pk_context *key, const char *subject,
                        int64_t now_ns, int64_t life_ns)
{
    int r = draft_begin(w, key, key, now_ns, life_ns);

    if (r == 0) {
        r = draft_names(w, subject, subject);
    }
    if (r == 0) {
        r = mbedtls_x509write_crt_set_basic_constraints(w, 1, 0);
    }
    if (r == 0) {
        r = mbedtls_x509write_crt_set_key_usage(w, MBEDTLS_X509_KU_KEY_CERT_SIGN |
                                                       MBEDTLS_X509_KU_CRL_SIGN);
    }
    return r;
}

/* Adds one name; the caller has checked that it fits. `n` bytes of text are the name's. */
static void sans_add(struct pki_sans *s, int type, const char *text, size_t n)
{
    mbedtls_x509_san_list *item = &s->list[s->n];

    memcpy(s->text[s->n], text, n);
    item->node.type = type;
    item->node.san.unstructured_name.p = (unsigned char *)s->text[s->n];
    item->node.san.unstructured_name.len = n;
    item->next = NULL;
    if (s->n > 0) {
        s->list[s->n - 1].next = item;
    }
    s->n++;
}

static void sans_add_urn(struct pki_sans *s, const char *kind, const char *value)
{
    char urn[sizeof s->text[0]];
    int n = snprintf(urn, sizeof urn, "urn:procfleet:%s:%s", kind, value);

    sans_add(s, MBEDTLS_X509_SAN_UNIFORM_RESOURCE_IDENTIFIER, urn, (size_t)n);
}

static void sans_add_host(struct pki_sans *s, const char *name)
{
    char address[16];
    size_t n = mbedtls_x509_crt_parse_cn_inet_pton(name, address);

    if (n > 0) {
        sans_add(s, MBEDTLS_X509_SAN_IP_ADDRESS, address, n);
    } else {
        sans_add(s, MBEDTLS_X509_SAN_DNS_NAME, name, strlen(name));
    }
}

enum err pki_sans_fill(struct pki_sans *s, const struct pki_issue *what, struct errmsg *why)
{
    struct uuid host = what->host;
    char text[UUID_TEXT];
    enum err e;

    if (what->use == PKI_COLLECTOR) {
        sans_add_host(s, PKI_SERVER_NAME);
        for (size_t i = 0; i < what->n_dns; i++) {
            sans_add_host(s, what->dns[i]);
        }
        return ERR_OK;
    }
    sans_add_urn(s, "role", pki_use_text(what->use));
    if (what->use == PKI_AGENT) {
        e = what->has_host ? ERR_OK : uuid_random(&host);
        if (e) {
            return errmsg_set(why, e, "cannot make a host identity: %s", err_text(e));
        }
        sans_add_urn(s, "host", uuid_format(text, &host));
    }
    if (what->scope) {
        sans_add_urn(s, "scope", what->scope);
    }
    return ERR_OK;
}

static int draft_use(mbedtls_x509write_cert *w, enum pki_use use)
{
    mbedtls_asn1_sequence eku = {.next = NULL};

    eku.buf.tag = MBEDTLS_ASN1_OID;
    if (use == PKI_COLLECTOR) {
        eku.buf.p = (unsigned char *)MBEDTLS_OID_SERVER_AUTH;
        eku.buf.len = MBEDTLS_OID_SIZE(MBEDTLS_OID_SERVER_AUTH);
    } else {
        eku.buf.p = (unsigned char *)MBEDTLS_OID_CLIENT_AUTH;
        eku.buf.len = MBEDTLS_OID_SIZE(MBEDTLS_OID_CLIENT_AUTH);
    }
    return mbedtls_x509write_crt_set_ext_key_usage(w, &eku);
}

int pki_draft_leaf(mbedtls_x509write_cert *w, struct pki_authority *a, mbedtls_pk_context *key,
                   const struct pki_issue *what, const struct pki_sans *sans)
{
    char subject[128];
    int64_t left_ns = clk_sub(a->not_after_ns, what->now_ns); /* no leaf outlives its signer */
    int r = draft_begin(w, key, &a->key, what->now_ns,
                        what->life_ns < left_ns ? what->life_ns : left_ns);

    snprintf(subject, sizeof subject, "CN=%s", what->name);
    if (r == 0) {
        r = draft_names(w, subject, a->subject);
    }
    if (r == 0) {
        r = mbedtls_x509write_crt_set_basic_constraints(w, 0, 0);
    }
    if (r == 0) {
        r = mbedtls_x509write_crt_set_key_usage(w, MBEDTLS_X509_KU_DIGITAL_SIGNATURE);
    }
    if (r == 0) {
        r = draft_use(w, what->use);
    }
    if (r == 0) {
        r = mbedtls_x509write_crt_set_subject_alternative_name(w, sans->list);
    }
    return r;
}
