/* Tokens: made, checked, used, withdrawn. */
#include "collector/ca/registry.h"

#include <stdio.h>
#include <string.h>

#include "collector/ca/registry_impl.h"
#include "common/base/clk.h"
#include "common/base/glob.h"
#include "common/os/uuid.h"

/* -- making -- */

static enum err decide_token(struct registry *r, struct entry *e, void *ctx, struct errmsg *why)
{
    (void)r;
    (void)why;
    *e = *(const struct entry *)ctx;
    return ERR_OK;
}

enum err registry_token_make(struct registry *r, const struct registry_token *what,
                             const uint8_t pin[PKI_PIN_BYTES], char text[PKI_TOKEN_TEXT],
                             struct errmsg *why)
{
    struct entry e = {.kind = ENTRY_TOKEN,
                      .when_ns = what->made_ns,
                      .expires_ns = what->expires_ns,
                      .again = what->again};
    struct pki_token t;
    enum err err = os_random(t.id, sizeof t.id);

    if (!err) {
        err = os_random(t.secret, sizeof t.secret);
    }
    if (!err) {
        memcpy(t.pin, pin, sizeof t.pin);
        memcpy(e.token, t.id, sizeof e.token);
        err = pki_token_hash(e.hash, &t);
    }
    if (err) {
        return errmsg_set(why, err, "cannot make a token: %s", err_text(err));
    }
    if (what->names[0] && !entry_names_ok(what->names)) {
        return errmsg_set(why, ERR_INVALID,
                          "names of hosts are a name or glob of letters, digits, '.', '_', '-', "
                          "'*' and '?'");
    }
    snprintf(e.names, sizeof e.names, "%s", what->names);
    err = registry_write(r, decide_token, &e, why);
    if (!err) {
        (void)pki_token_format(text, &t);
    }
    return err;
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

static enum err still_good(const struct roll_token *t, const char *name, int64_t now_ns,
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

bool registry_had_host(struct registry *r, const char *name)
{
    bool found;

    os_mutex_lock(r->lock);
    found = roll_host_named(&r->roll, name) != NULL;
    os_mutex_unlock(r->lock);
    return found;
}

/* `lock` is held. */
static enum err find_grant(struct registry *r, struct registry_grant *grant,
                           const struct pki_token *t, const char *name, int64_t now_ns,
                           struct errmsg *why)
{
    const struct roll_token *known = roll_token(&r->roll, t->id);
    const struct roll_cert *holder;
    uint8_t hash[PKI_TOKEN_HASH_BYTES];
    enum err e = pki_token_hash(hash, t);

    if (e) {
        return e;
    }
    if (!known || !same_hash(hash, known->hash)) {
        return errmsg_set(why, ERR_NOTFOUND,
                          "this collector knows no such token: make one with "
                          "'procfleet-collector pki token create'");
    }
    e = still_good(known, name, now_ns, why);
    if (e) {
        return e;
    }
    *grant = (struct registry_grant){.chosen = known->names[0] &&
                                               !glob_is_pattern(str_make(known->names))};
    if (known->again) {
        holder = roll_host_named(&r->roll, name);
        if (holder) {
            grant->has_host = true;
            grant->host = holder->host;
            return ERR_OK;
        }
    }
    holder = roll_name_taken(&r->roll, name, NULL, now_ns);
    if (holder && !holder->has_host) {
        return errmsg_set(why, ERR_ACCESS,
                          "the name %s is that of a certificate that is no host's: choose another "
                          "name",
                          name);
    }
    if (holder) {
        return errmsg_set(why, ERR_ACCESS,
                          "another host has the name %s: choose another name; or, if it is this "
                          "very host set up anew, use a token of 'pki token create --replace %s'; "
                          "or revoke the other",
                          holder->name, holder->name);
    }
    return ERR_OK;
}

enum err registry_token_check(struct registry *r, struct registry_grant *grant,
                              const struct pki_token *t, const char *name, int64_t now_ns,
                              struct errmsg *why)
{
    enum err e;

    os_mutex_lock(r->lock);
    e = find_grant(r, grant, t, name, now_ns, why);
    os_mutex_unlock(r->lock);
    if (e == ERR_NOTFOUND && registry_catch_up(r, why) == ERR_OK) { /* made a moment ago? */
        os_mutex_lock(r->lock);
        e = find_grant(r, grant, t, name, now_ns, why);
        os_mutex_unlock(r->lock);
    }
    return e;
}

struct enrolment {
    const struct pki_token *token;
    const struct net_identity *who;
    int64_t now_ns;
};

static enum err decide_enrolment(struct registry *r, struct entry *e, void *ctx, struct errmsg *why)
{
    const struct enrolment *want = ctx;
    struct registry_grant grant;
    enum err err = find_grant(r, &grant, want->token, want->who->name, want->now_ns, why);

    if (err) {
        return err;
    }
    if (grant.has_host && memcmp(&grant.host, &want->who->host, sizeof grant.host) != 0) {
        return errmsg_set(why, ERR_BUSY, "the host of that name has just changed: try again");
    }
    *e = (struct entry){.kind = ENTRY_ENROLLED,
                        .when_ns = want->now_ns,
                        .who = *want->who,
                        .again = grant.has_host};
    memcpy(e->token, want->token->id, sizeof e->token);
    return ERR_OK;
}

enum err registry_enroll(struct registry *r, const struct pki_token *t,
                         const struct net_identity *who, int64_t now_ns, struct errmsg *why)
{
    struct enrolment want = {t, who, now_ns};

    return registry_write(r, decide_enrolment, &want, why);
}

/* -- withdrawing -- */

struct withdrawal {
    const char *id;
    int64_t now_ns;
};

static void id_text(char text[2 * PKI_TOKEN_ID_BYTES + 1], const uint8_t *id)
{
    for (size_t i = 0; i < PKI_TOKEN_ID_BYTES; i++) {
        snprintf(text + 2 * i, 3, "%02x", id[i]);
    }
}

static enum err decide_withdrawal(struct registry *r, struct entry *e, void *ctx,
                                  struct errmsg *why)
{
    const struct withdrawal *want = ctx;
    char id[2 * PKI_TOKEN_ID_BYTES + 1];

    for (size_t i = 0; i < r->roll.n_tokens; i++) {
        const struct roll_token *t = &r->roll.tokens[i];

        id_text(id, t->id);
        if (strcmp(id, want->id) != 0) {
            continue;
        }
        if (t->used_ns) {
            return errmsg_set(why, ERR_EXISTS,
                              "the token was used by %s: 'pki revoke %s' keeps that host out",
                              t->used_by, t->used_by);
        }
        *e = (struct entry){.kind = ENTRY_WITHDRAWN, .when_ns = want->now_ns};
        memcpy(e->token, t->id, sizeof e->token);
        return ERR_OK;
    }
    return errmsg_set(why, ERR_NOTFOUND, "no token %s: 'pki token list --all' shows them",
                      want->id);
}

enum err registry_token_withdraw(struct registry *r, const char *id, int64_t now_ns,
                                 struct errmsg *why)
{
    struct withdrawal want = {id, now_ns};

    return registry_write(r, decide_withdrawal, &want, why);
}

/* -- listing -- */

void registry_tokens(struct registry *r, bool (*each)(void *ctx, const struct registry_token *t),
                     void *ctx)
{
    bool go_on = true;

    os_mutex_lock(r->lock);
    for (size_t i = 0; i < r->roll.n_tokens && go_on; i++) {
        const struct roll_token *t = &r->roll.tokens[i];
        struct registry_token out = {.again = t->again,
                                     .made_ns = t->made_ns,
                                     .expires_ns = t->expires_ns,
                                     .used_ns = t->used_ns,
                                     .withdrawn = t->withdrawn};

        memcpy(out.id, t->id, sizeof out.id);
        snprintf(out.names, sizeof out.names, "%s", t->names);
        snprintf(out.used_by, sizeof out.used_by, "%s", t->used_by);
        go_on = each(ctx, &out);
    }
    os_mutex_unlock(r->lock);
}
