/* procfleet-collector pki list: what was issued, until when it holds, and what became of it. */
#include <stdio.h>
#include <string.h>

#include "collector/cmd/collector_cmd_pki.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "common/os/uuid.h"
#include "common/pki/pki_authority.h"

#define DAY_NS       (86400 * CLK_S)
#define SHORT_DIGITS 16 /* of a fingerprint, in tables */

static const struct opt opts[] = {
    {"expiring", 0, "SPAN", "only what ends within this time, or has ended", false},
    {"revoked", 0, NULL, "only what was revoked", false},
    {"all", 'a', NULL, "also what was revoked, and what newer certificates have replaced", false},
    TABLE_OPTS,
    {"dir", 'd', "DIR", COLLECTOR_CMD_PKI_DIRECT, false},
    OPT_FORMER("expiring", 'e', "SPAN", false),
};

static enum err run(const struct opt_args *a, struct errmsg *why);

const struct opt_command cmd_pki_list_options = {
    .program = "procfleet-collector pki",
    .name = "list",
    .brief = "show the certificates that were issued, and when they end",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet-collector pki list --expiring 30d\n"
                "  procfleet-collector pki list --revoked\n"
                "  procfleet-collector pki list --all --format csv\n",
    .action = &(const struct opt_action){.run = run},
};

static const struct table_column columns[] = {
    {"host", "HOST", TABLE_TEXT},         {"name", "NAME", TABLE_TEXT},
    {"role", "ROLE", TABLE_WORD},         {"scope", "SCOPE", TABLE_TEXT},
    {"fingerprint", NULL, TABLE_TEXT},    {NULL, "FINGERPRINT", TABLE_TEXT},
    {"issued_time", NULL, TABLE_TIME},    {"not_after_time", "NOT AFTER", TABLE_TIME},
    {"days_left", "DAYS LEFT", TABLE_ID}, {"state", "STATE", TABLE_STATE},
    {"revoked_time", NULL, TABLE_TIME},   {"reason", "REASON", TABLE_TEXT},
};

static const char *const yields[] = {"FINGERPRINT", "HOST", "SCOPE", "NOT AFTER", "REASON", NULL};

struct listing {
    struct table *sheet;
    int64_t now_ns;
    bool all, revoked;
    int64_t before_ns; /* INT64_MAX: whenever it ends */
    enum err e;
};

static const char *role_text(unsigned roles)
{
    bool mark = (roles & NET_MARK) != 0;

    return roles & NET_AGENT       ? "agent"
           : roles & NET_QUERY     ? (mark ? "query,mark" : "query")
           : roles & NET_SUBSCRIBE ? (mark ? "subscribe,mark" : "subscribe")
           : roles & NET_ADMIN     ? (mark ? "admin,mark" : "admin")
           : mark                  ? "mark"
                                   : "collector";
}

static const char *state_of(const struct ca_cert *c, int64_t now_ns)
{
    if (c->revoked_ns) {
        return "revoked";
    }
    if (c->who.not_after_ns <= now_ns) {
        return "expired";
    }
    return c->replaced ? "replaced" : "valid";
}

/* Whole days, down; what has ended has less than none. */
static int64_t days_left(int64_t until_ns, int64_t now_ns)
{
    int64_t left_ns = clk_sub(until_ns, now_ns);

    return left_ns >= 0 ? left_ns / DAY_NS : -(-left_ns + DAY_NS - 1) / DAY_NS;
}

static bool wanted(const struct listing *l, const struct ca_cert *c)
{
    if (c->who.not_after_ns > l->before_ns) {
        return false;
    }
    if (l->revoked) {
        return c->revoked_ns != 0;
    }
    return l->all || (c->revoked_ns == 0 && !c->replaced);
}

static bool list_cert(void *ctx, const struct ca_cert *c)
{
    struct listing *l = ctx;
    char host[UUID_TEXT] = "", digits[2 * sizeof c->who.fingerprint + 1];
    struct str fingerprint;

    if (!wanted(l, c)) {
        return true;
    }
    fingerprint =
        str_make(collector_cmd_pki_hex(digits, c->who.fingerprint, sizeof c->who.fingerprint));
    const struct table_cell cells[] = {
        table_string(str_make(c->who.has_host ? uuid_format(host, &c->who.host) : "")),
        table_string(str_make(c->who.name)),
        table_string(str_make(role_text(c->who.roles))),
        table_string(str_make(c->who.scope)),
        table_string(fingerprint),
        table_string((struct str){fingerprint.p, SHORT_DIGITS}),
        table_number(true, c->issued_ns),
        table_number(true, c->who.not_after_ns),
        table_number(true, days_left(c->who.not_after_ns, l->now_ns)),
        table_string(str_make(state_of(c, l->now_ns))),
        table_number(c->revoked_ns != 0, c->revoked_ns),
        table_string(str_make(c->reason)),
    };
    l->e = table_row(l->sheet, cells);
    return l->e == ERR_OK;
}

/* The authority itself, first; its key may lie elsewhere. */
static void list_authority(struct listing *l, const char *dir)
{
    struct pki_authority *a;
    int64_t end_ns;

    if (l->revoked || pki_authority_open(&a, dir, NULL) != ERR_OK) {
        return;
    }
    end_ns = pki_authority_not_after_ns(a);
    if (end_ns <= l->before_ns) {
        const struct table_cell cells[] = {
            table_string(str_make("")),
            table_string(str_make(pki_authority_name(a))),
            table_string(str_make("authority")),
            table_string(str_make("")),
            table_string(str_make("")),
            table_string(str_make("")),
            table_number(false, 0),
            table_number(true, end_ns),
            table_number(true, days_left(end_ns, l->now_ns)),
            table_string(str_make(end_ns > l->now_ns ? "valid" : "expired")),
            table_number(false, 0),
            table_string(str_make("")),
        };
        l->e = table_row(l->sheet, cells);
    }
    pki_authority_close(a);
}

static enum err read_options(struct listing *l, const struct opt_args *a, struct errmsg *why)
{
    const char *expiring = opt_value(a, "expiring");
    int64_t span_ns = 0;
    enum err e = ERR_OK;

    if (expiring) {
        e = collector_cmd_span(&span_ns, "expiring", expiring, 0, INT64_MAX, "", why);
    }
    *l = (struct listing){.now_ns = os_utc_ns(),
                          .all = opt_flag(a, "all"),
                          .revoked = opt_flag(a, "revoked"),
                          .before_ns = INT64_MAX};
    if (expiring) {
        l->before_ns = clk_add(l->now_ns, span_ns);
    }
    return e;
}

static enum err run(const struct opt_args *a, struct errmsg *why)
{
    struct listing l;
    struct ca_db *book = NULL;
    enum err e = read_options(&l, a, why);

    if (!e) {
        e = collector_cmd_pki_book(&book, a, why);
    }
    if (!e) {
        e = collector_cmd_table(&l.sheet, a, columns, sizeof columns / sizeof *columns, yields,
                                why);
    }
    if (!e) {
        list_authority(&l, collector_cmd_value_or(a, "dir", COLLECTOR_CMD_PKI_DIR));
        e = ca_cert_list(book, list_cert, &l, why);
        e = e ? e : l.e;
    }
    table_end(l.sheet);
    ca_db_close(book);
    return e;
}
