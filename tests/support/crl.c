#include "tests/support/crl.h"

#include <stdio.h>
#include <string.h>

#include <mbedtls/asn1write.h>
#include <mbedtls/oid.h>
#include <mbedtls/pem.h>
#include <mbedtls/sha256.h>
#include <mbedtls/x509_crt.h>

#include "common/base/clk.h"
#include "common/os/os.h"
#include "common/pki/pki.h"
#include "tests/support/t.h"

#define LIST_BYTES 4096u

/* DER is written from its end. */
struct der {
    unsigned char all[LIST_BYTES], *p;
};

static size_t must(int n)
{
    assert_true(n >= 0);
    return (size_t)n;
}

static size_t put_sequence(struct der *d, size_t n)
{
    n += must(mbedtls_asn1_write_len(&d->p, d->all, n));
    return n + must(mbedtls_asn1_write_tag(&d->p, d->all,
                                           MBEDTLS_ASN1_CONSTRUCTED | MBEDTLS_ASN1_SEQUENCE));
}

static size_t put_algorithm(struct der *d)
{
    size_t n = must(mbedtls_asn1_write_oid(&d->p, d->all, MBEDTLS_OID_ECDSA_SHA256,
                                           MBEDTLS_OID_SIZE(MBEDTLS_OID_ECDSA_SHA256)));

    return put_sequence(d, n);
}

/* UTCTime: "YYMMDDhhmmssZ". */
static size_t put_time(struct der *d, int64_t utc_ns)
{
    char iso[CLK_TEXT], text[16];
    size_t n;

    clk_format_utc(iso, sizeof iso, utc_ns, 0); /* 2026-11-21T19:41:00Z */
    snprintf(text, sizeof text, "%.2s%.2s%.2s%.2s%.2s%.2sZ", iso + 2, iso + 5, iso + 8, iso + 11,
             iso + 14, iso + 17);
    n = must(mbedtls_asn1_write_raw_buffer(&d->p, d->all, (const unsigned char *)text, 13));
    n += must(mbedtls_asn1_write_len(&d->p, d->all, n));
    return n + must(mbedtls_asn1_write_tag(&d->p, d->all, MBEDTLS_ASN1_UTC_TIME));
}

static size_t put_entry(struct der *d, const struct crl_entry *e)
{
    size_t n = put_time(d, os_utc_ns()), serial;

    serial = must(mbedtls_asn1_write_raw_buffer(&d->p, d->all, e->serial, e->n));
    serial += must(mbedtls_asn1_write_len(&d->p, d->all, serial));
    serial += must(mbedtls_asn1_write_tag(&d->p, d->all, MBEDTLS_ASN1_INTEGER));
    return put_sequence(d, n + serial);
}

/* What is signed; ends where the list of entries, if any, does. */
static size_t put_content(struct der *d, const mbedtls_x509_crt *ca,
                          const struct crl_entry *entries, size_t n_entries, int64_t next_ns)
{
    size_t n = 0;

    for (size_t i = 0; i < n_entries; i++) {
        n += put_entry(d, &entries[i]);
    }
    n = n_entries ? put_sequence(d, n) : 0;
    n += put_time(d, next_ns);
    n += put_time(d, next_ns - 3600 * CLK_S);
    n += must(mbedtls_asn1_write_raw_buffer(&d->p, d->all, ca->subject_raw.p, ca->subject_raw.len));
    n += put_algorithm(d);
    n += must(mbedtls_asn1_write_int(&d->p, d->all, 1)); /* version 2 */
    return put_sequence(d, n);
}

/* The whole list: content, algorithm, signature. */
static size_t put_list(struct der *d, const struct der *content, size_t n, mbedtls_pk_context *key)
{
    unsigned char hash[32], signature[MBEDTLS_PK_SIGNATURE_MAX_SIZE];
    size_t len = 0, total;

    assert_int_equal(mbedtls_sha256(content->p, n, hash, 0), 0);
    assert_int_equal(mbedtls_pk_sign(key, MBEDTLS_MD_SHA256, hash, sizeof hash, signature,
                                     sizeof signature, &len, pki_rng, NULL),
                     0);
    total = must(mbedtls_asn1_write_bitstring(&d->p, d->all, signature, len * 8));
    total += put_algorithm(d);
    total += must(mbedtls_asn1_write_raw_buffer(&d->p, d->all, content->p, n));
    return put_sequence(d, total);
}

void crl_write(const char *path, const char *ca_dir, const struct crl_entry *entries, size_t n,
               int64_t next_ns)
{
    static struct der content, list;
    unsigned char pem[2 * LIST_BYTES];
    char file[400];
    mbedtls_x509_crt ca;
    mbedtls_pk_context key;
    size_t len;

    mbedtls_x509_crt_init(&ca);
    mbedtls_pk_init(&key);
    snprintf(file, sizeof file, "%s/ca.pem", ca_dir);
    assert_int_equal(mbedtls_x509_crt_parse_file(&ca, file), 0);
    snprintf(file, sizeof file, "%s/ca.key", ca_dir);
    assert_int_equal(mbedtls_pk_parse_keyfile(&key, file, NULL, pki_rng, NULL), 0);
    content.p = content.all + sizeof content.all;
    list.p = list.all + sizeof list.all;
    len = put_content(&content, &ca, entries, n, next_ns);
    len = put_list(&list, &content, len, &key);
    assert_int_equal(mbedtls_pem_write_buffer("-----BEGIN X509 CRL-----\n",
                                              "-----END X509 CRL-----\n", list.p, len, pem,
                                              sizeof pem, &len),
                     0);
    assert_ok(os_write_file(path, pem, len - 1, false));
    mbedtls_pk_free(&key);
    mbedtls_x509_crt_free(&ca);
}
