/* procfleet-collector pki: the authority of a fleet, its book, and what both are used for. */
#include "collector/cmd/collector_cmd_pki.h"

#include <stdio.h>

#include "common/base/clk.h"
#include "common/os/os.h"
#include "common/os/os_owner.h"
#include "common/pki/pki_authority.h"
#include "common/text/humanize.h"

#define DEFAULT_NAME   "procfleet authority"
#define DAY_NS         (86400 * CLK_S)
#define AUTHORITY_DAYS 3650

static const struct opt init_opts[] = {
    {"dir", 'd', "DIR", "where the authority goes; default " COLLECTOR_CMD_PKI_DIR, false},
    {"name", 0, "NAME", "its common name; default \"" DEFAULT_NAME "\"", false},
    OPT_FORMER("name", 'n', "NAME", false),
};

static enum err run_init(const struct opt_args *a, struct errmsg *why);

static const struct opt_command init_options = {
    .program = "procfleet-collector pki",
    .name = "init",
    .brief = "make the authority that signs all certificates of a fleet",
    .opts = init_opts,
    .n_opts = sizeof init_opts / sizeof *init_opts,
    .examples = "  procfleet-collector pki init --dir /var/lib/procfleet-collector/pki\n",
    .action = &(const struct opt_action){.run = run_init},
};

static const struct opt_command *const subs[] = {
    &init_options,         &cmd_pki_issue_options,  &cmd_pki_token_options,
    &cmd_pki_list_options, &cmd_pki_revoke_options,
};

const struct opt_command cmd_pki_options = {
    .program = "procfleet-collector",
    .name = "pki",
    .brief = "the authority: enrolment tokens, certificates, revocations",
    .operands = "COMMAND",
    .subs = subs,
    .n_subs = sizeof subs / sizeof *subs,
    .examples = "  procfleet-collector pki init --dir /var/lib/procfleet-collector/pki\n"
                "  procfleet-collector pki token create --dir /var/lib/procfleet-collector/pki\n"
                "  procfleet-collector pki list --dir /var/lib/procfleet-collector/pki\n"
                "  procfleet-collector pki revoke web-07 --dir /var/lib/procfleet-collector/pki\n",
};

/* -- what the commands share -- */

enum err collector_cmd_pki_book(struct ca_db **out, const struct opt_args *a, struct errmsg *why)
{
    return ca_db_open(out, collector_cmd_value_or(a, "dir", COLLECTOR_CMD_PKI_DIR), NULL, why);
}

const char *collector_cmd_pki_hex(char *text, const uint8_t *p, size_t n)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        text[2 * i] = digits[p[i] >> 4];
        text[2 * i + 1] = digits[p[i] & 15];
    }
    text[2 * n] = '\0';
    return text;
}

/* -- init -- */

static enum err run_init(const struct opt_args *a, struct errmsg *why)
{
    const char *dir = collector_cmd_value_or(a, "dir", COLLECTOR_CMD_PKI_DIR);
    struct ca_db *book = NULL;
    enum err e = os_owner_check(dir, why);

    if (!e) {
        e = pki_authority_init(dir, collector_cmd_value_or(a, "name", DEFAULT_NAME), os_utc_ns(),
                               AUTHORITY_DAYS * DAY_NS, why);
    }
    if (!e) {
        e = collector_cmd_pki_book(&book, a, why);
        ca_db_close(book);
    }
    if (e) {
        return e;
    }
    humanize_line(stdout, "%s/ca.pem  the authority's certificate: every program gets a copy", dir);
    humanize_line(stdout, "%s/ca.key  its key: whoever has it can sign; keep it on this machine",
                  dir);
    humanize_line(stdout,
                  "%s/book.db its book: tokens, certificates, revocations; keep it with the key",
                  dir);
    return ERR_OK;
}
