#include "collector/ca/ca_token.h"

#include <stdio.h>
#include <string.h>

#include "collector/ca/ca_cert.h"
#include "common/base/clk.h"
#include "common/base/glob.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define PAGE_ROWS 64u /* of a list */

/* -- making -- */

enum err ca_token_make(struct ca_db *db, const struct ca_token *what,
                       const uint8_t pin[PKI_PIN_BYTES], char text[PKI_TOKEN_TEXT],
                       struct errmsg *why)
{
    struct ca_rows *r;
    struct ca_token row = {
        .made_ns = what->made_ns, .expires_ns = what->expires_ns, .again = what->again};
    struct pki_token t;
    enum err e = os_random(t.id, sizeof t.id);

    if (!e) {
        e = os_random(t.secret, sizeof t.secret);
    }
    if (!e) {
        memcpy(t.pin, pin, sizeof t.pin);
        memcpy(row.id, t.id, sizeof row.id);
        memcpy(row.names, what->names, sizeof row.names);
        e = pki_token_hash(row.hash, &t);
    }
    if (e) {
        return errmsg_set(why, e, "cannot make a token: %s", err_text(e));
    }
    e = ca_db_begin(db, &r, CA_DB_WRITE, why);
    if (!e) {
        e = ca_db_end(db, ca_rows_token_put(r, &row, why), why);
    }
    if (!e) {
        (void)pki_token_format(text, &t);
    }
    return e;
}

/* -- using -- */

static bool same_hash(const uint8_t *a, const uint8_t *b)
{
    uint8_t differs = 0;

    for (size_t i = 0; i < PKI_TOKEN_HASH_BYTES; i++) {
        differs = (uint8_t)(differs | (a[i] ^ b[i]));
    }
    return differs == 0;
}

static enum err still_good(const struct ca_token *t, const char *name, int64_t now_ns,
                           struct errmsg *why)
{
    char when[CLK_TEXT];

    if (t->used_ns) {
        return errmsg_set(why, ERR_EXISTS,
                          "the token was used on %s by %s: each host needs one of its own "
                          "(procfleet-collector pki token create)",
                          clk_format_utc(when, sizeof when, t->used_ns, 0), t->used_by);
    }
    if (t->withdrawn) {
        return errmsg_set(why, ERR_CLOSED, "the token was withdrawn: ask for another");
    }
    if (now_ns >= t->expires_ns) {
        return errmsg_set(why, ERR_TIMEOUT, "the token expired on %s: ask for another",
                          clk_format_utc(when, sizeof when, t->expires_ns, 0));
    }
    if (t->names[0] && !glob_match(str_make(t->names), str_make(name))) {
        return errmsg_set(why, ERR_REFUSED,
                          "the token is for hosts named %s, not for %s: enrol with a --name that "
                          "fits, or ask for another token",
                          t->names, name);
    }
    return ERR_OK;
}

static enum err name_taken(struct ca_rows *r, const char *name, int64_t now_ns, struct errmsg *why)
{
    struct ca_cert holder;
    enum err e = ca_cert_name_taken(r, name, NULL, now_ns, &holder, why);

    if (e) {
        return e == ERR_NOTFOUND ? ERR_OK : e;
    }
    if (!holder.who.has_host) {
        return errmsg_set(why, ERR_ACCESS,
                          "the name %s is that of a certificate that is no host's: choose another "
                          "name",
                          name);
    }
    return errmsg_set(why, ERR_ACCESS,
                      "another host has the name %s: choose another name; or, if it is this very "
                      "host set up anew, use a token of 'pki token create --replace %s'; or revoke "
                      "the other",
                      holder.who.name, holder.who.name);
}

/* In a transaction. */
static enum err find_grant(struct ca_rows *r, struct ca_token_grant *grant, struct ca_token *known,
                           const struct pki_token *t, const char *name, int64_t now_ns,
                           struct errmsg *why)
{
    struct ca_cert holder;
    uint8_t hash[PKI_TOKEN_HASH_BYTES];
    enum err e = pki_token_hash(hash, t);

    if (e) {
        return e;
    }
    e = ca_rows_token_get(r, t->id, known, why);
    if (e == ERR_NOTFOUND || (!e && !same_hash(hash, known->hash))) {
        return errmsg_set(why, ERR_NOTFOUND,
                          "this collector knows no such token: make one with "
                          "'procfleet-collector pki token create'");
    }
    if (!e) {
        e = still_good(known, name, now_ns, why);
    }
    if (e) {
        return e;
    }
    *grant = (struct ca_token_grant){.chosen = known->names[0] &&
                                               !glob_is_pattern(str_make(known->names))};
    if (known->again) {
        e = ca_cert_host_named(r, name, &holder, why);
        if (!e) {
            grant->has_host = true;
            grant->host = holder.who.host;
        }
        if (e != ERR_NOTFOUND) {
            return e;
        }
    }
    return name_taken(r, name, now_ns, why);
}

enum err ca_token_check(struct ca_db *db, struct ca_token_grant *grant, const struct pki_token *t,
                        const char *name, int64_t now_ns, struct errmsg *why)
{
    struct ca_token known;
    struct ca_rows *r;
    enum err e = ca_db_begin(db, &r, CA_DB_READ, why);

    return e ? e : ca_db_end(db, find_grant(r, grant, &known, t, name, now_ns, why), why);
}

/* In a transaction. */
static enum err token_use(struct ca_rows *r, const struct pki_token *t,
                          const struct net_identity *who, int64_t now_ns, struct errmsg *why)
{
    struct ca_token_grant grant;
    struct ca_token known;
    enum err e = find_grant(r, &grant, &known, t, who->name, now_ns, why);

    if (e) {
        return e;
    }
    if (grant.has_host && memcmp(&grant.host, &who->host, sizeof grant.host) != 0) {
        return errmsg_set(why, ERR_BUSY, "the host of that name has just changed: try again");
    }
    if (grant.has_host) {
        e = ca_rows_revoke(r, CA_ROWS_HOST, who, CA_ROWS_REASON_AGAIN, now_ns, why);
    }
    if (!e) {
        e = ca_rows_cert_add(r, who, now_ns, why);
    }
    known.used_ns = now_ns;
    (void)snprintf(known.used_by, sizeof known.used_by, "%s", who->name);
    return e ? e : ca_rows_token_put(r, &known, why);
}

enum err ca_token_enroll(struct ca_db *db, const struct pki_token *t,
                         const struct net_identity *who, int64_t now_ns, struct errmsg *why)
{
    struct ca_rows *r;
    enum err e = ca_db_begin(db, &r, CA_DB_WRITE, why);

    return e ? e : ca_db_end(db, token_use(r, t, who, now_ns, why), why);
}

/* -- withdrawing -- */

/* False: this is no token's. */
static bool parse_id(uint8_t id[PKI_TOKEN_ID_BYTES], const char *text)
{
    static const char digits[] = "0123456789abcdef";
    size_t n = strlen(text);

    if (n != 2u * PKI_TOKEN_ID_BYTES || strspn(text, digits) != n) {
        return false;
    }
    for (size_t i = 0; i < PKI_TOKEN_ID_BYTES; i++) {
        id[i] = (uint8_t)((strchr(digits, text[2 * i]) - digits) << 4 |
                          (strchr(digits, text[2 * i + 1]) - digits));
    }
    return true;
}

static enum err token_withdraw(struct ca_rows *r, const char *text, struct errmsg *why)
{
    uint8_t id[PKI_TOKEN_ID_BYTES];
    struct ca_token t;
    enum err e = parse_id(id, text) ? ca_rows_token_get(r, id, &t, why) : ERR_NOTFOUND;

    if (e == ERR_NOTFOUND) {
        return errmsg_set(why, e, "no token %s: 'pki token list --all' shows them", text);
    }
    if (!e && t.used_ns) {
        return errmsg_set(why, ERR_EXISTS,
                          "the token was used by %s: 'pki revoke %s' keeps that host out",
                          t.used_by, t.used_by);
    }
    t.withdrawn = true;
    return e ? e : ca_rows_token_put(r, &t, why);
}

enum err ca_token_withdraw(struct ca_db *db, const char *id, struct errmsg *why)
{
    struct ca_rows *r;
    enum err e = ca_db_begin(db, &r, CA_DB_WRITE, why);

    return e ? e : ca_db_end(db, token_withdraw(r, id, why), why);
}

/* -- listing -- */

enum err ca_token_list(struct ca_db *db, bool (*each)(void *ctx, const struct ca_token *t),
                       void *ctx, struct errmsg *why)
{
    struct ca_rows *r;
    struct ca_token *page = mem_array(PAGE_ROWS, sizeof *page);
    enum err e = page ? ERR_OK : ERR_NOMEM;
    size_t n = PAGE_ROWS;
    int64_t after = 0;
    bool go_on = true;

    while (!e && go_on && n == PAGE_ROWS) {
        e = ca_db_begin(db, &r, CA_DB_READ, why);
        e = e ? e : ca_db_end(db, ca_rows_tokens(r, &after, page, PAGE_ROWS, &n, why), why);
        for (size_t i = 0; !e && go_on && i < n; i++) {
            go_on = each(ctx, &page[i]);
        }
    }
    mem_free(page);
    return e;
}
