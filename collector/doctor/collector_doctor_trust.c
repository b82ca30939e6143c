#include <stdio.h>
#include <string.h>

#include "collector/ca/ca_cert.h"
#include "collector/doctor/collector_doctor_impl.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/net/net.h"
#include "common/os/os.h"

#define DAYS_WARN 30
#define DAYS_FAIL 7
#define NAMES_MAX 5 /* hosts named in one sentence */
#define BOOK_HELP                                                                          \
    "run doctor as the collector's user or as root; chmod 600 the book; a damaged one is " \
    "brought back from a backup"
#define ISSUE_HELP "issue one: procfleet-collector pki issue --role collector --name NAME --out DIR"

/* -- own certificate -- */

static enum err check_key(struct collector_doctor *d)
{
    enum err e = os_check_private(d->c->key);

    if (e == ERR_NOTFOUND) {
        check_result_report(d->all, "tls.key", CHECK_RESULT_FAILED,
                            ISSUE_HELP "; or set tls.ca, tls.cert and tls.key to where they are",
                            "there is no key %s", d->c->key);
    } else if (e == ERR_ACCESS) {
        check_result_report(
            d->all, "tls.key", CHECK_RESULT_FAILED,
            "chmod 600 it and give it to the collector's user; if others may have read it, "
            "issue another certificate. Run doctor as the collector's user or as root",
            "others can read the key %s, or we cannot", d->c->key);
    } else if (e) {
        check_result_report(d->all, "tls.key", CHECK_RESULT_FAILED, "see that the file can be read",
                            "the key %s: %s", d->c->key, err_text(e));
    } else {
        check_result_report(d->all, "tls.key", CHECK_RESULT_OK, "", "others cannot read the key %s",
                            d->c->key);
    }
    return e;
}

static void say_end(struct collector_doctor *d, const char *check, const char *what, int64_t end_ns,
                    const char *fix)
{
    int64_t days = collector_doctor_days(d, end_ns);
    enum check_result_state state = days < DAYS_FAIL   ? CHECK_RESULT_FAILED
                                    : days < DAYS_WARN ? CHECK_RESULT_WARNING
                                                       : CHECK_RESULT_OK;
    char until[CLK_TEXT];

    (void)clk_format_utc(until, sizeof until, end_ns, 0);
    if (days < 0) {
        check_result_report(d->all, check, state, fix, "%s ended at %s", what, until);
    } else {
        check_result_report(d->all, check, state, state == CHECK_RESULT_OK ? "" : fix,
                            "%s is good for %lld more %s, until %s", what, (long long)days,
                            plural((uint64_t)days, "day", "days"), until);
    }
}

static void check_certificate(struct collector_doctor *d)
{
    struct net_tls_conf conf = {
        .ca = d->c->ca, .cert = d->c->cert, .key = d->c->key, .crl = d->c->crl};
    struct tls_config *tls;
    struct net_identity own;
    struct errmsg why = {""};
    enum err e = tls_config_load(&tls, &conf, true, &why);

    if (e) {
        check_result_report(d->all, "tls.certificate", CHECK_RESULT_FAILED,
                            e == ERR_TRUST
                                ? "see that tls.ca is the authority that signed it and that it "
                                  "has not ended; or " ISSUE_HELP
                                : ISSUE_HELP "; or set tls.ca, tls.cert, tls.key and tls.crl to "
                                             "where they are",
                            "%s", why.text[0] ? why.text : err_text(e));
        return;
    }
    tls_config_identity(tls, &own);
    tls_config_free(tls);
    check_result_report(d->all, "tls.certificate", CHECK_RESULT_OK, "",
                        "%s is signed by %s, its key fits%s", d->c->cert, d->c->ca,
                        d->c->crl ? ", the revocation list can be read" : "");
    say_end(d, "tls.expiry", "the certificate", own.not_after_ns,
            ISSUE_HELP " and put key and certificate over the old ones: they are read within "
                       "seconds");
}

static void check_authority(struct collector_doctor *d)
{
    int64_t end_ns;
    enum err e = tls_cert_authority_end(&end_ns, d->c->ca);

    if (e) {
        check_result_report(d->all, "tls.authority", CHECK_RESULT_FAILED,
                            "set tls.ca to the ca.pem of the authority", "the authority %s: %s",
                            d->c->ca, err_text(e));
        return;
    }
    say_end(d, "tls.authority", "the authority", end_ns,
            "make a new authority before the old one ends: docs/security.md tells how");
}

/* -- the book -- */

struct ending {
    const struct collector_doctor *d;
    unsigned agents, soon, named;
    char names[NAMES_MAX * 68];
};

/* An agent renews at two thirds of its certificate's life: one with less than a quarter left has
 * not. */
static bool count_ending(void *ctx, const struct ca_cert *c)
{
    struct ending *x = ctx;
    int64_t left_ns = clk_sub(c->who.not_after_ns, x->d->conf->now_ns);
    int64_t life_ns = c->who.not_after_ns - c->who.not_before_ns;
    size_t used = strlen(x->names);

    if (!(c->who.roles & NET_AGENT) || c->replaced || c->revoked_ns ||
        left_ns < -x->d->c->renew_grace_ns) { /* gone for good, or forgotten */
        return true;
    }
    x->agents++;
    if (left_ns < life_ns / 4) {
        x->soon++;
        if (x->named++ < NAMES_MAX) {
            (void)snprintf(x->names + used, sizeof x->names - used, "%s%s", used ? ", " : "",
                           c->who.name);
        }
    }
    return true;
}

static void say_ending(struct collector_doctor *d, const struct ending *x)
{
    if (x->soon == 0) {
        check_result_report(d->all, "pki.agents", CHECK_RESULT_OK, "",
                            "of %u %s none is overdue for renewal", x->agents,
                            plural(x->agents, "agent's certificate", "agents' certificates"));
        return;
    }
    check_result_report(
        d->all, "pki.agents", CHECK_RESULT_WARNING,
        "see that these agents run and reach the ingest or enroll listener ('procfleet "
        "hosts', 'procfleet-agent doctor' there), or revoke those that are gone",
        "%u of %u %s should have renewed their certificates: %s%s", x->soon, x->agents,
        plural(x->agents, "agent", "agents"), x->names, x->named > NAMES_MAX ? ", …" : "");
}

static void check_book(struct collector_doctor *d)
{
    struct ending x = {.d = d};
    struct ca_db *book;
    struct errmsg why = {""};
    enum err e = ca_db_open(&book, d->c->pki_dir, NULL, &why);

    if (e) {
        check_result_report(d->all, "pki.book", CHECK_RESULT_FAILED, BOOK_HELP, "%s",
                            why.text[0] ? why.text : err_text(e));
        return;
    }
    check_result_report(d->all, "pki.book", CHECK_RESULT_OK, "",
                        "the book in %s can be read, and every checksum in it is right",
                        d->c->pki_dir);
    e = ca_cert_list(book, count_ending, &x, &why);
    ca_db_close(book);
    if (e) {
        check_result_report(d->all, "pki.agents", CHECK_RESULT_FAILED, BOOK_HELP, "%s", why.text);
        return;
    }
    say_ending(d, &x);
}

static void check_authority_key(struct collector_doctor *d)
{
    char *path = os_path_join(d->c->pki_dir, "ca.key");
    enum err e = path ? os_check_private(path) : ERR_NOMEM;

    if (e == ERR_NOTFOUND) {
        check_result_report(d->all, "pki.key", CHECK_RESULT_WARNING,
                            "put ca.key there if hosts are to enrol and renew here",
                            "%s has no ca.key: nobody can enrol or renew here", d->c->pki_dir);
    } else if (e) {
        check_result_report(
            d->all, "pki.key", CHECK_RESULT_FAILED,
            "chmod 600 it and give it to the collector's user; if others may have read it, "
            "make a new authority",
            "others can read %s, or we cannot", path ? path : "ca.key");
    } else {
        check_result_report(d->all, "pki.key", CHECK_RESULT_OK, "", "others cannot read %s", path);
    }
    mem_free(path);
}

static bool has_file(const struct collector_doctor *d, const char *name)
{
    char *path = os_path_join(d->c->pki_dir, name);
    bool there = path && os_exists(path);

    mem_free(path);
    return there;
}

static void check_pki(struct collector_doctor *d)
{
    if (has_file(d, "book.db")) {
        check_book(d);
        check_authority_key(d);
        collector_doctor_folder(d, "pki.folder", d->c->pki_dir);
        return;
    }
    if (has_file(d, "book")) {
        check_result_report(d->all, "pki.book", CHECK_RESULT_OK, "",
                            "the book in %s is of an older version: it is imported when the "
                            "collector starts",
                            d->c->pki_dir);
        check_authority_key(d);
        return;
    }
    check_result_report(
        d->all, "pki.book", d->c->pki_required ? CHECK_RESULT_FAILED : CHECK_RESULT_SKIPPED,
        d->c->pki_required ? "'procfleet-collector pki init' makes one; or set pki.dir to "
                             "where it is, empty for none"
                           : "",
        "there is no book in '%s': nobody enrols, nobody is revoked", d->c->pki_dir);
}

void collector_doctor_trust(struct collector_doctor *d)
{
    if (check_key(d) == ERR_ACCESS) {
        check_result_report(d->all, "tls.certificate", CHECK_RESULT_SKIPPED, "",
                            "cannot be tried with such a key");
    } else {
        check_certificate(d);
    }
    check_authority(d);
    check_pki(d);
}
