/* procfleet-collector pki token create | list | withdraw: one-time rights to enrol. */
#include <stdio.h>
#include <string.h>

#include "collector/cmd/collector_cmd_pki.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "common/pki/pki_authority.h"
#include "common/text/humanize.h"

#define LIFE_MIN_NS CLK_S
#define LIFE_MAX_NS (30 * 86400 * CLK_S)
#define COUNT_MAX   1000
#define ID_TEXT     (2 * PKI_TOKEN_ID_BYTES + 1)

static const struct opt create_opts[] = {
    {"name", 0, "GLOB", "only for hosts whose name fits: web-07, web-*; default any", false},
    {"replace", 0, "NAME",
     "for the host of this name, set up anew: it keeps its identity and history, and its older "
     "certificates are revoked",
     false},
    {"life", 'l', "SPAN", "how long it can be used, 1s to 30d; default 1h", false},
    {"count", 0, "N", "so many tokens, one a line, 1 to 1000; default 1", false},
    {"dir", 'd', "DIR", COLLECTOR_CMD_PKI_DIRECT, false},
    OPT_FORMER("name", 'n', "GLOB", false),
};

static enum err run_create(const struct opt_args *a, struct errmsg *why);

static const struct opt_command create_options = {
    .program = "procfleet-collector pki token",
    .name = "create",
    .brief = "make a token: the right of one host to enrol once",
    .opts = create_opts,
    .n_opts = sizeof create_opts / sizeof *create_opts,
    .examples = "  procfleet-collector pki token create --dir /var/lib/procfleet-collector/pki\n"
                "  procfleet-collector pki token create --name 'web-*' --life 8h --count 20\n"
                "  procfleet-collector pki token create --replace web-07\n"
                "\nThe token is all that standard output holds; it is shown this once.\n",
    .action = &(const struct opt_action){.run = run_create},
};

static const struct opt list_opts[] = {
    {"all", 'a', NULL, "also those that were used, withdrawn or have expired", false},
    TABLE_OPTS,
    {"dir", 'd', "DIR", COLLECTOR_CMD_PKI_DIRECT, false},
};

static enum err run_list(const struct opt_args *a, struct errmsg *why);

static const struct opt_command list_options = {
    .program = "procfleet-collector pki token",
    .name = "list",
    .brief = "show the tokens that can still be used, and who used the others",
    .opts = list_opts,
    .n_opts = sizeof list_opts / sizeof *list_opts,
    .examples = "  procfleet-collector pki token list --all --format json\n",
    .action = &(const struct opt_action){.run = run_list},
};

static const struct opt withdraw_opts[] = {
    {"dir", 'd', "DIR", COLLECTOR_CMD_PKI_DIRECT, false},
};

static enum err run_withdraw(const struct opt_args *a, struct errmsg *why);

static const struct opt_command withdraw_options = {
    .program = "procfleet-collector pki token",
    .name = "withdraw",
    .brief = "make a token useless that nobody has used yet",
    .operands = "ID",
    .opts = withdraw_opts,
    .n_opts = sizeof withdraw_opts / sizeof *withdraw_opts,
    .examples = "  procfleet-collector pki token withdraw 3f9a01c2d4e5b677\n",
    .action = &(const struct opt_action){.run = run_withdraw},
};

static const struct opt_command *const subs[] = {&create_options, &list_options, &withdraw_options};

const struct opt_command cmd_pki_token_options = {
    .program = "procfleet-collector pki",
    .name = "token",
    .brief = "make, list and withdraw enrolment tokens: one-time rights to enrol",
    .operands = "COMMAND",
    .subs = subs,
    .n_subs = sizeof subs / sizeof *subs,
    .examples = "  procfleet-collector pki token create --name 'web-*' --life 8h --count 20\n"
                "  procfleet-collector pki token list --all\n",
};

/* -- create -- */

static enum err read_count(unsigned *count, const char *text, struct errmsg *why)
{
    uint64_t n;

    if (opt_number(&n, text, COUNT_MAX) != ERR_OK || n < 1) {
        return errmsg_set(why, ERR_USAGE, "--count takes a number from 1 to %d", COUNT_MAX);
    }
    *count = (unsigned)n;
    return ERR_OK;
}

static enum err read_names(struct ca_token *t, const struct opt_args *a, struct errmsg *why)
{
    const char *name = opt_value(a, "name"), *replace = opt_value(a, "replace");
    const char *names = replace ? replace : name ? name : "";

    if (name && replace) {
        return errmsg_set(why, ERR_USAGE, "--name and --replace exclude each other");
    }
    if (replace && !pki_name_ok(replace)) {
        return errmsg_set(why, ERR_USAGE, "--replace takes the name of one host");
    }
    if (strlen(names) >= sizeof t->names) {
        return errmsg_set(why, ERR_USAGE, "--name takes at most %zu characters",
                          sizeof t->names - 1);
    }
    t->again = replace != NULL;
    memcpy(t->names, names, strlen(names) + 1);
    return ERR_OK;
}

static enum err read_create(struct ca_token *t, unsigned *count, const struct opt_args *a,
                            struct errmsg *why)
{
    int64_t life_ns = 0;
    enum err e = read_names(t, a, why);

    if (!e) {
        e = collector_cmd_span(&life_ns, "life", collector_cmd_value_or(a, "life", "1h"),
                               LIFE_MIN_NS, LIFE_MAX_NS, " from 1s to 30d,", why);
    }
    if (!e) {
        e = read_count(count, collector_cmd_value_or(a, "count", "1"), why);
    }
    if (!e && t->again && *count > 1) {
        return errmsg_set(why, ERR_USAGE, "--replace makes one token");
    }
    t->made_ns = os_utc_ns();
    t->expires_ns = clk_add(t->made_ns, life_ns);
    return e;
}

/* The authority's pin, as long as it can sign at all. */
static enum err read_pin(uint8_t pin[PKI_PIN_BYTES], const struct opt_args *a, int64_t now_ns,
                         struct errmsg *why)
{
    struct pki_authority *authority;
    enum err e = pki_authority_open(&authority,
                                    collector_cmd_value_or(a, "dir", COLLECTOR_CMD_PKI_DIR), why);

    if (e) {
        return e;
    }
    pki_authority_pin(authority, pin);
    if (pki_authority_not_after_ns(authority) <= now_ns) {
        e = errmsg_set(why, ERR_TIMEOUT, "the authority's own certificate has ended");
    }
    pki_authority_close(authority);
    return e;
}

static enum err make_tokens(struct ca_db *book, const struct ca_token *t, unsigned count,
                            const uint8_t *pin, struct errmsg *why)
{
    char text[PKI_TOKEN_TEXT];
    enum err e = ERR_OK;

    for (unsigned i = 0; i < count && !e; i++) {
        e = ca_token_make(book, t, pin, text, why);
        if (!e && puts(text) == EOF) {
            e = errmsg_set(why, ERR_IO, "cannot print the token");
        }
    }
    return e;
}

static void say_next(const struct ca_token *t, unsigned count)
{
    char until[CLK_TEXT];

    humanize_line(
        stderr, "%s, until %s, for %s%s.", count > 1 ? "Each for one host" : "For one host",
        clk_format_utc(until, sizeof until, t->expires_ns, 0), t->names[0] ? t->names : "any name",
        t->again ? " set up anew; its older certificates are revoked when it is used" : "");
    fputs("On the host:  procfleet-agent enroll --collector HOST --token-file -\n", stderr);
}

static enum err run_create(const struct opt_args *a, struct errmsg *why)
{
    struct ca_db *book = NULL;
    bool had = false;
    struct ca_token t = {.again = false};
    uint8_t pin[PKI_PIN_BYTES];
    unsigned count = 1;
    enum err e = read_create(&t, &count, a, why);

    if (!e) {
        e = read_pin(pin, a, t.made_ns, why);
    }
    if (!e) {
        e = collector_cmd_pki_book(&book, a, why);
    }
    if (!e) {
        e = ca_cert_had_host(book, t.names, &had, why);
    }
    if (!e) {
        e = make_tokens(book, &t, count, pin, why);
    }
    ca_db_close(book);
    if (e) {
        return e;
    }
    say_next(&t, count);
    if (t.again && !had) {
        humanize_line(stderr, "The book knows no host %s: it will be a new one.", t.names);
    }
    return ERR_OK;
}

/* -- list -- */

static const struct table_column columns[] = {
    {"id", "ID", TABLE_WORD},
    {"names", "FOR", TABLE_TEXT},
    {"replace", "REPLACE", TABLE_FLAG},
    {"made_time", "MADE", TABLE_TIME},
    {"expires_time", "EXPIRES", TABLE_TIME},
    {"state", "STATE", TABLE_STATE},
    {"used_by", "USED BY", TABLE_TEXT},
    {"used_time", "USED", TABLE_TIME},
};

static const char *const yields[] = {"MADE", "USED", "REPLACE", "EXPIRES", NULL};

struct listing {
    struct table *sheet;
    int64_t now_ns;
    bool all;
    enum err e;
};

static const char *token_state(const struct ca_token *t, int64_t now_ns)
{
    if (t->used_ns) {
        return "used";
    }
    if (t->withdrawn) {
        return "withdrawn";
    }
    return t->expires_ns <= now_ns ? "expired" : "open";
}

static bool list_token(void *ctx, const struct ca_token *t)
{
    struct listing *l = ctx;
    const char *state = token_state(t, l->now_ns);
    char id[ID_TEXT];

    if (!l->all && strcmp(state, "open") != 0) {
        return true;
    }
    const struct table_cell cells[] = {
        table_string(str_make(collector_cmd_pki_hex(id, t->id, sizeof t->id))),
        table_string(str_make(t->names[0] ? t->names : "*")),
        table_number(true, t->again),
        table_number(true, t->made_ns),
        table_number(true, t->expires_ns),
        table_string(str_make(state)),
        table_string(str_make(t->used_by)),
        table_number(t->used_ns != 0, t->used_ns),
    };
    l->e = table_row(l->sheet, cells);
    return l->e == ERR_OK;
}

static enum err run_list(const struct opt_args *a, struct errmsg *why)
{
    struct listing l = {.now_ns = os_utc_ns(), .all = opt_flag(a, "all")};
    struct ca_db *book = NULL;
    enum err e = collector_cmd_pki_book(&book, a, why);

    if (!e) {
        e = collector_cmd_table(&l.sheet, a, columns, sizeof columns / sizeof *columns, yields,
                                why);
    }
    if (!e) {
        e = ca_token_list(book, list_token, &l, why);
        e = e ? e : l.e;
    }
    table_end(l.sheet);
    ca_db_close(book);
    return e;
}

/* -- withdraw -- */

static enum err run_withdraw(const struct opt_args *a, struct errmsg *why)
{
    struct ca_db *book = NULL;
    char **operands;
    size_t n = opt_operands(a, &operands);
    enum err e = n == 1 ? ERR_OK
                        : errmsg_set(why, ERR_USAGE,
                                     "one token's ID is needed: 'pki token list' shows them");

    if (!e) {
        e = collector_cmd_pki_book(&book, a, why);
    }
    if (!e) {
        e = ca_token_withdraw(book, operands[0], why);
    }
    ca_db_close(book);
    if (e) {
        return e;
    }
    humanize_line(stdout, "%s is withdrawn", operands[0]);
    return ERR_OK;
}
