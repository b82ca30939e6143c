/* Certificates: issued, counted, revoked, judged. */
#include "collector/ca/registry.h"

#include <stdio.h>
#include <string.h>

#include "collector/ca/registry_impl.h"
#include "common/base/clk.h"
#include "common/os/uuid.h"
#include "common/pki/pki.h"

#define DIGITS_MIN 8u
#define DIGITS_MAX 64u

/* -- issuing -- */

static enum err decide_issued(struct registry *r, struct entry *e, void *ctx, struct errmsg *why)
{
    (void)r;
    (void)why;
    *e = *(const struct entry *)ctx;
    return ERR_OK;
}

enum err registry_issued(struct registry *r, const struct net_identity *who, int64_t now_ns,
                         struct errmsg *why)
{
    struct entry e = {.kind = ENTRY_ISSUED, .when_ns = now_ns, .who = *who};

    return registry_write(r, decide_issued, &e, why);
}

size_t registry_recent(struct registry *r, const struct uuid *host, int64_t since_ns)
{
    const struct net_identity who = {.has_host = true, .host = *host};
    size_t n = 0;

    os_mutex_lock(r->lock);
    for (const struct roll_cert *c = roll_holder(&r->roll, &who); c && c->issued_ns >= since_ns;
         c = roll_before(&r->roll, c)) {
        n++;
    }
    os_mutex_unlock(r->lock);
    return n;
}

/* -- renewing -- */

/* `lock` is held. */
static enum err may_renew(struct registry *r, const struct net_identity *before, int64_t now_ns,
                          struct errmsg *why)
{
    if (roll_revoked(&r->roll, before)) {
        return errmsg_set(why, ERR_REFUSED,
                          "the certificate is revoked: enrol this host anew, with a token of "
                          "'procfleet-collector pki token create'");
    }
    if (now_ns > before->not_after_ns &&
        roll_name_taken(&r->roll, before->name, &before->host, now_ns)) {
        return errmsg_set(why, ERR_REFUSED,
                          "another host was given the name %s meanwhile: enrol this one anew, "
                          "under another name",
                          before->name);
    }
    return ERR_OK;
}

enum err registry_may_renew(struct registry *r, const struct net_identity *before, int64_t now_ns,
                            struct errmsg *why)
{
    enum err e;

    os_mutex_lock(r->lock);
    e = may_renew(r, before, now_ns, why);
    os_mutex_unlock(r->lock);
    return e;
}

struct renewal {
    const struct net_identity *before, *who;
    int64_t now_ns;
};

static enum err decide_renewal(struct registry *r, struct entry *e, void *ctx, struct errmsg *why)
{
    const struct renewal *want = ctx;

    *e = (struct entry){.kind = ENTRY_ISSUED, .when_ns = want->now_ns, .who = *want->who};
    return may_renew(r, want->before, want->now_ns, why);
}

enum err registry_renewed(struct registry *r, const struct net_identity *before,
                          const struct net_identity *who, int64_t now_ns, struct errmsg *why)
{
    struct renewal want = {before, who, now_ns};

    return registry_write(r, decide_renewal, &want, why);
}

/* -- revoking: finding out what is meant, `lock` held -- */

struct revocation {
    const char *what, *reason;
    int64_t now_ns;
    struct registry_meant *meant;
};

static void identity_of(struct net_identity *out, const struct roll_cert *c)
{
    *out = (struct net_identity){.has_host = c->has_host,
                                 .host = c->host,
                                 .roles = c->roles,
                                 .not_before_ns = c->not_before_ns,
                                 .not_after_ns = c->not_after_ns};
    memcpy(out->fingerprint, c->fingerprint, sizeof out->fingerprint);
    snprintf(out->name, sizeof out->name, "%s", c->name);
    snprintf(out->scope, sizeof out->scope, "%s", c->scope ? c->scope : "");
}

static bool same_holder(const struct roll_cert *a, const struct roll_cert *b)
{
    return a->has_host == b->has_host && (!a->has_host || memcmp(&a->host, &b->host, 16) == 0);
}

static void describe(struct buf *out, const struct roll_cert *c)
{
    char text[UUID_TEXT];

    if (c->has_host) {
        buf_printf(out, " host %s,", uuid_format(text, &c->host));
    } else {
        buf_printf(out, " a user (fingerprint %02x%02x%02x%02x…),", c->fingerprint[0],
                   c->fingerprint[1], c->fingerprint[2], c->fingerprint[3]);
    }
}

/* Several have that name. */
static enum err several(const struct roll *r, const struct roll_cert *first, struct errmsg *why)
{
    struct buf list;

    buf_init(&list, 300);
    for (const struct roll_cert *c = first; c && list.n < 200; c = roll_before_name(r, c)) {
        if (c->revoked_ns == 0 && !c->replaced) {
            describe(&list, c);
        }
    }
    errmsg_set(why, ERR_INVALID, "%s means several:%s name one by its UUID or fingerprint",
               first->name, buf_cstr(&list));
    buf_fini(&list);
    return ERR_INVALID;
}

/* The one holder of that name who has something unrevoked. */
static enum err by_name(struct registry *r, const struct roll_cert **out, const char *name,
                        struct errmsg *why)
{
    const struct roll_cert *first = roll_same_name(&r->roll, name), *found = NULL;

    for (const struct roll_cert *c = first; c; c = roll_before_name(&r->roll, c)) {
        if (c->revoked_ns) {
            continue;
        }
        if (found && !same_holder(found, c)) {
            return several(&r->roll, first, why);
        }
        found = found ? found : c;
    }
    if (first && !found) {
        return errmsg_set(why, ERR_EXISTS, "everything of %s is revoked already", name);
    }
    *out = found;
    return ERR_OK;
}

/* Digits of a fingerprint; false: something else. */
static bool parse_digits(uint8_t bytes[32], size_t *n, const char *text)
{
    size_t len = strlen(text);

    if (len < DIGITS_MIN || len > DIGITS_MAX) {
        return false;
    }
    memset(bytes, 0, 32);
    for (size_t i = 0; i < len; i++) {
        char c = (char)(text[i] | 0x20);
        int v = text[i] >= '0' && text[i] <= '9' ? text[i] - '0'
                : c >= 'a' && c <= 'f'           ? c - 'a' + 10
                                                 : -1;

        if (v < 0) {
            return false;
        }
        bytes[i / 2] = (uint8_t)(bytes[i / 2] | v << (i % 2 ? 0 : 4));
    }
    *n = len;
    return true;
}

static bool begins(const uint8_t *fingerprint, const uint8_t *digits, size_t n)
{
    return memcmp(fingerprint, digits, n / 2) == 0 &&
           (n % 2 == 0 || fingerprint[n / 2] >> 4 == digits[n / 2] >> 4);
}

static enum err by_digits(struct registry *r, const struct roll_cert **out, const uint8_t *digits,
                          size_t n, const char *what, struct errmsg *why)
{
    const struct roll_cert *found = NULL;

    for (size_t i = 0; i < r->roll.n_certs; i++) {
        const struct roll_cert *c = &r->roll.certs[i];

        if (begins(c->fingerprint, digits, n)) {
            if (found) {
                return errmsg_set(why, ERR_INVALID,
                                  "several fingerprints begin with %s: give more digits", what);
            }
            found = c;
        }
    }
    *out = found;
    return ERR_OK;
}

/* Nobody else's fingerprint begins with it. */
static enum err only_a_name(struct registry *r, const struct roll_cert *named,
                            const uint8_t *digits, size_t n, const char *what, struct errmsg *why)
{
    for (size_t i = 0; i < r->roll.n_certs; i++) {
        const struct roll_cert *c = &r->roll.certs[i];

        if (begins(c->fingerprint, digits, n) &&
            (!same_holder(named, c) || (!c->has_host && strcmp(named->name, c->name) != 0))) {
            return errmsg_set(why, ERR_INVALID,
                              "%s is a name, and the beginning of a fingerprint of %s: name one by "
                              "its UUID or by more digits",
                              what, c->name);
        }
    }
    return ERR_OK;
}

static size_t count_valid(struct registry *r, const struct net_identity *who, int64_t now_ns)
{
    size_t n = 0;

    for (const struct roll_cert *c = roll_holder(&r->roll, who); c; c = roll_before(&r->roll, c)) {
        n += roll_cert_valid(c, now_ns);
    }
    return n;
}

/* Everything of a host or a user. */
static void mean_holder(struct registry *r, struct entry *e, const struct revocation *want)
{
    e->target = e->who.has_host ? ENTRY_HOST : ENTRY_USER;
    *want->meant = (struct registry_meant){
        .one_cert = false, .who = e->who, .valid = count_valid(r, &e->who, want->now_ns)};
}

static enum err mean_cert(struct entry *e, const struct roll_cert *c, const struct revocation *want,
                          struct errmsg *why)
{
    if (c && c->revoked_ns) {
        return errmsg_set(why, ERR_EXISTS, "%s is revoked already", want->what);
    }
    e->target = ENTRY_CERT;
    *want->meant = (struct registry_meant){
        .one_cert = true, .who = e->who, .valid = c && roll_cert_valid(c, want->now_ns)};
    return ERR_OK;
}

static enum err no_collector(const struct roll_cert *c, struct errmsg *why)
{
    if (c->has_host || c->roles) {
        return ERR_OK;
    }
    return errmsg_set(
        why, ERR_INVALID,
        "%s is a collector, and agents ask nobody whether it is revoked: when its key "
        "was stolen, make a new authority",
        c->name);
}

static enum err mean(struct registry *r, struct entry *e, const struct revocation *want,
                     struct errmsg *why)
{
    const struct roll_cert *c = NULL;
    uint8_t digits[32];
    size_t n = 0;
    enum err err;

    if (uuid_parse(&e->who.host, want->what) == ERR_OK) {
        e->who.has_host = true;
        c = roll_holder(&r->roll, &e->who);
        if (c) {
            identity_of(&e->who, c);
        }
        mean_holder(r, e, want);
        return ERR_OK;
    }
    err = by_name(r, &c, want->what, why);
    if (!err && c && parse_digits(digits, &n, want->what)) {
        err = only_a_name(r, c, digits, n, want->what, why);
    }
    if (!err && c) {
        identity_of(&e->who, c);
        mean_holder(r, e, want);
        return no_collector(c, why);
    }
    if (!err && parse_digits(digits, &n, want->what)) {
        err = by_digits(r, &c, digits, n, want->what, why);
    }
    if (err) {
        return err;
    }
    if (!c && n < DIGITS_MAX) {
        return errmsg_set(why, ERR_NOTFOUND,
                          "the book knows no host, name or fingerprint %s: 'pki list --all' shows "
                          "them",
                          want->what);
    }
    memcpy(e->who.fingerprint, digits, sizeof digits);
    if (c) {
        identity_of(&e->who, c);
        err = no_collector(c, why);
    }
    return err ? err : mean_cert(e, c, want, why);
}

static enum err decide_revocation(struct registry *r, struct entry *e, void *ctx,
                                  struct errmsg *why)
{
    const struct revocation *want = ctx;

    *e = (struct entry){.kind = ENTRY_REVOKED, .when_ns = want->now_ns};
    snprintf(e->reason, sizeof e->reason, "%s", want->reason);
    return mean(r, e, want, why);
}

static bool reason_ok(const char *reason)
{
    for (const char *c = reason; *c; c++) {
        if (*c < 0x20 || *c > 0x7e) {
            return false;
        }
    }
    return strlen(reason) <= REGISTRY_REASON_MAX && strcmp(reason, "-") != 0;
}

enum err registry_revoke(struct registry *r, const char *what, const char *reason, int64_t now_ns,
                         struct registry_meant *meant, struct errmsg *why)
{
    struct revocation want = {what, reason ? reason : "", now_ns, meant};

    if (!reason_ok(want.reason)) {
        return errmsg_set(why, ERR_INVALID, "a reason has at most %u printable ASCII characters",
                          REGISTRY_REASON_MAX);
    }
    return registry_write(r, decide_revocation, &want, why);
}

/* -- asking -- */

const char *registry_judge(void *registry, const struct net_identity *who)
{
    struct registry *r = registry;
    bool revoked;

    os_mutex_lock(r->lock);
    revoked = roll_revoked(&r->roll, who);
    os_mutex_unlock(r->lock);
    return revoked ? "revoked" : NULL;
}

bool registry_host_revoked(struct registry *r, const struct uuid *host)
{
    const struct net_identity who = {.has_host = true, .host = *host, .roles = NET_AGENT};
    const struct roll_cert *newest;
    bool revoked;

    os_mutex_lock(r->lock);
    newest = roll_holder(&r->roll, &who);
    revoked = newest ? newest->revoked_ns != 0 : roll_revoked(&r->roll, &who);
    os_mutex_unlock(r->lock);
    return revoked;
}

void registry_certs(struct registry *r, bool (*each)(void *ctx, const struct registry_cert *c),
                    void *ctx)
{
    bool go_on = true;

    os_mutex_lock(r->lock);
    for (size_t i = 0; i < r->roll.n_certs && go_on; i++) {
        const struct roll_cert *c = &r->roll.certs[i];
        struct registry_cert out = {
            .issued_ns = c->issued_ns, .replaced = c->replaced, .revoked_ns = c->revoked_ns};

        identity_of(&out.who, c);
        snprintf(out.reason, sizeof out.reason, "%s", c->reason ? c->reason : "");
        go_on = each(ctx, &out);
    }
    os_mutex_unlock(r->lock);
}
