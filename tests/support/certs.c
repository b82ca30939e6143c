#include "tests/support/certs.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/pki/pki_authority.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define LIFE_NS  (3600 * CLK_S)
#define FILE_MAX (1u << 14)

enum { CERTS_TLS = 8 };

struct certs {
    char dir[256];
    struct tls_config *tls[CERTS_TLS];
    size_t n_tls;
    struct buf paths[2];
    unsigned turn;
};

static void must(enum err e, const struct errmsg *why)
{
    if (e) {
        fail_msg("%s: %s", err_name(e), why ? why->text : "");
    }
}

struct certs *certs_create(void)
{
    struct certs *c = mem_zalloc(sizeof *c);
    struct errmsg why = {""};

    assert_non_null(c);
    buf_init(&c->paths[0], 1024);
    buf_init(&c->paths[1], 1024);
    support_temp_dir(c->dir, sizeof c->dir);
    must(pki_authority_init(c->dir, "test-authority", os_utc_ns(), 9600 * LIFE_NS, &why), &why);
    return c;
}

void certs_destroy(struct certs *c)
{
    if (c) {
        for (size_t i = 0; i < c->n_tls; i++) {
            tls_config_free(c->tls[i]);
        }
        support_remove_dir(c->dir);
        buf_fini(&c->paths[0]);
        buf_fini(&c->paths[1]);
        mem_free(c);
    }
}

void certs_pin(struct certs *c, uint8_t pin[32])
{
    struct net_identity authority;
    struct buf der;

    buf_init(&der, PKI_FILE_MAX);
    must(pki_pem_read(&der, certs_path(c, "ca", ".pem")), NULL);
    must(tls_cert_parse(&authority, der.p, der.n), NULL);
    memcpy(pin, authority.fingerprint, sizeof authority.fingerprint);
    buf_fini(&der);
}

const char *certs_dir(const struct certs *c)
{
    return c->dir;
}

const char *certs_path(struct certs *c, const char *name, const char *ending)
{
    struct buf *path = &c->paths[c->turn++ % 2];

    buf_reset(path);
    buf_printf(path, "%s/%s%s", c->dir, name, ending);
    return buf_cstr(path);
}

void certs_issue(struct certs *c, enum pki_use use, const char *name)
{
    struct pki_issue what = {.use = use, .name = name};

    certs_issue_as(c, &what);
}

void certs_issue_as(struct certs *c, const struct pki_issue *what)
{
    struct pki_issue full = *what;
    struct errmsg why = {""};

    if (full.now_ns == 0) {
        full.now_ns = os_utc_ns();
    }
    if (full.life_ns == 0) {
        full.life_ns = LIFE_NS;
    }
    must(pki_authority_issue(c->dir, &full, certs_path(c, full.name, ".pem"),
                             certs_path(c, full.name, ".key"), &why),
         &why);
}

static enum tls_versions spoken;

void certs_speak(enum tls_versions versions)
{
    spoken = versions;
}

struct tls_config *certs_load(struct certs *c, const char *name, const struct certs *trusted,
                              bool server)
{
    struct tls_config *t = NULL;
    struct errmsg why = {""};
    char ca[400];
    struct net_tls_conf conf = {.ca = ca,
                                .cert = certs_path(c, name, ".pem"),
                                .key = certs_path(c, name, ".key"),
                                .server_name = server ? NULL : PKI_SERVER_NAME,
                                .versions = server ? spoken : TLS_1_2_AND_1_3};

    snprintf(ca, sizeof ca, "%s/ca.pem", trusted->dir);
    must(tls_config_load(&t, &conf, server, &why), &why);
    return t;
}

struct tls_config *certs_tls(struct certs *c, enum pki_use use, const char *name)
{
    struct tls_config *t;

    assert_true(c->n_tls < CERTS_TLS);
    certs_issue(c, use, name);
    t = certs_load(c, name, c, use == PKI_COLLECTOR);
    c->tls[c->n_tls++] = t;
    return t;
}

void certs_copy(struct certs *c, const char *name, const char *ending, const char *path)
{
    uint8_t *p;
    size_t n;

    must(os_read_file(&p, &n, certs_path(c, name, ending), FILE_MAX), NULL);
    must(os_write_file(path, p, n, true), NULL);
    mem_free(p);
}

void certs_chain(const char *path, const struct certs_shown *shown, size_t n)
{
    struct buf all;

    buf_init(&all, n * FILE_MAX);
    for (size_t i = 0; i < n && shown[i].name; i++) {
        uint8_t *p;
        size_t len;

        must(os_read_file(&p, &len, certs_path(shown[i].from, shown[i].name, ".pem"), FILE_MAX),
             NULL);
        buf_put(&all, p, len);
        mem_free(p);
    }
    must(os_write_file(path, all.p, all.n, false), NULL);
    buf_fini(&all);
}
