/* procfleet-collector pki revoke: who no longer comes in. */
#include <stdio.h>
#include <string.h>

#include "collector/cmd/collector_cmd_pki.h"
#include "common/base/plural.h"
#include "common/os/os.h"
#include "common/os/uuid.h"
#include "common/text/humanize.h"

static const struct opt opts[] = {
    {"reason", 0, "TEXT", "why, for the book; at most 63 characters", false},
    {"dir", 'd', "DIR", COLLECTOR_CMD_PKI_DIRECT, false},
    OPT_FORMER("reason", 'r', "TEXT", false),
};

static enum err run(const struct opt_args *a, struct errmsg *why);

const struct opt_command cmd_pki_revoke_options = {
    .program = "procfleet-collector pki",
    .name = "revoke",
    .brief = "keep a host, a user or one certificate out from now on",
    .operands = "HOST-UUID|NAME|FINGERPRINT",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet-collector pki revoke web-07 --reason 'disk was stolen'\n"
        "  procfleet-collector pki revoke 4b1f7c9e-30d8-4c0f-9d35-7b0d5e5a6c11\n"
        "  procfleet-collector pki revoke 9f86d081884c7d65\n"
        "\nA host or a user loses every certificate issued so far; a fingerprint (8 digits at "
        "least)\nmeans one. A running collector that has this authority in pki.dir follows within "
        "a second,\nalso on connections that stand.\n",
    .action = &(const struct opt_action){.run = run},
};

static void say_next(const struct ca_cert_meant *m)
{
    char host[UUID_TEXT];

    if (m->one_cert) {
        humanize_line(stdout, "revoked: one certificate%s%s", m->who.name[0] ? " of " : "",
                      m->who.name);
    } else if (m->who.has_host) {
        humanize_line(stdout, "revoked: host %s%s%s", uuid_format(host, &m->who.host),
                      m->who.name[0] ? ", " : "", m->who.name);
    } else {
        humanize_line(stdout, "revoked: user %s", m->who.name);
    }
    if (m->valid > 0) {
        fprintf(stderr, "%zu valid %s ended.\n", m->valid,
                plural(m->valid, "certificate", "certificates"));
    } else {
        fprintf(stderr, "The book knows no valid certificate of it; should there be any, it is "
                        "refused all the same.\n");
    }
    if (m->who.has_host && m->who.name[0] && !m->one_cert) {
        humanize_line(stderr,
                      "Should the host come back, it enrols anew: 'pki token create --replace %s' "
                      "lets it keep its history,",
                      m->who.name);
        fputs("'pki token create' makes it a new host.\n", stderr);
    }
}

static enum err run(const struct opt_args *a, struct errmsg *why)
{
    struct ca_db *book = NULL;
    struct ca_cert_meant meant;
    char **operands;
    size_t n = opt_operands(a, &operands);
    enum err e = n == 1 ? ERR_OK
                        : errmsg_set(why, ERR_USAGE,
                                     "one host, user or fingerprint is needed: 'pki list' shows "
                                     "them");

    if (!e) {
        e = collector_cmd_pki_book(&book, a, why);
    }
    if (!e) {
        e = ca_cert_revoke(book, operands[0], opt_value(a, "reason"), os_utc_ns(), &meant, why);
    }
    ca_db_close(book);
    if (e) {
        return e;
    }
    say_next(&meant);
    return ERR_OK;
}
